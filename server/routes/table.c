/* The route table: routes.def, once as an array of descriptors and once as labels. */
#include "server/routes/routes.h"

const vts_route vts_routes[] = {
#define VTS_ROUTE(id, verb, path, body, access, summary)                                                               \
    {#id, VTS_##verb, path, VTS_BODY_##body, VTS_##access, &vts_route_##id},
#include "server/wire/routes.def"
#undef VTS_ROUTE
};

const char *const vts_route_ids[] = {
#define VTS_ROUTE(id, verb, path, body, access, summary) #id,
#include "server/wire/routes.def"
#undef VTS_ROUTE
};

const size_t vts_routes_count = VT_COUNT(vts_routes);
