/* From path and verb to a route. The table comes from outside (server/routes/table.c), so that tests bring their own. */
#ifndef VTS_HTTP_ROUTER_H
#define VTS_HTTP_ROUTER_H

#include <stddef.h>

#include "server/http/route.h"

typedef enum vts_found { VTS_FOUND, VTS_FOUND_PATH /* another verb is needed */, VTS_FOUND_NOTHING } vts_found;

enum { VTS_ALLOW_MAX = 64 };

/* path is decoded; HEAD finds GET. rest: what a {name} at the end of the route's path matched ("" else). allow: the value
 * of `Allow` for a path that exists. Any thread. */
vts_found vts_router_find(const vts_route *routes, size_t count, const char *verb, const char *path,
                          const vts_route **route, const char **rest, char allow[VTS_ALLOW_MAX]);

#endif
