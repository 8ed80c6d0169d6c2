/* Routes are found by the whole decoded path: no prefix rules, no folding of slashes or dots, so a path that climbs or
 * doubles a slash is simply unknown. A `{name}` at the end of a route's path takes what is left of it. */
#include "server/http/router.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool fits(const vts_route *route, const char *path, const char **rest)
{
    const char *brace = strchr(route->path, '{');
    if (!brace) {
        *rest = "";
        return strcmp(route->path, path) == 0;
    }
    const size_t n = (size_t)(brace - route->path);
    if (strncmp(route->path, path, n) != 0 || path[n] == '\0')
        return false;
    *rest = path + n;
    return true;
}

vts_found vts_router_find(const vts_route *routes, size_t count, const char *verb, const char *path,
                          const vts_route **route, const char **rest, char allow[VTS_ALLOW_MAX])
{
    static const char *const verbs[] = {[VTS_GET] = "GET", [VTS_POST] = "POST", [VTS_DELETE] = "DELETE"};
    const char *wanted = strcmp(verb, "HEAD") == 0 ? "GET" : verb;
    size_t used = 0;
    vts_found found = VTS_FOUND_NOTHING;
    *rest = "";
    *route = NULL;
    allow[0] = '\0';
    for (size_t k = 0; k < count; k++) {
        const char *left;
        if (!fits(&routes[k], path, &left))
            continue;
        const char *name = verbs[routes[k].verb];
        used += (size_t)snprintf(allow + used, VTS_ALLOW_MAX - used, "%s%s%s", used ? ", " : "", name,
                                 routes[k].verb == VTS_GET ? ", HEAD" : "");
        if (used >= VTS_ALLOW_MAX)
            used = VTS_ALLOW_MAX - 1;
        if (strcmp(name, wanted) == 0 && found != VTS_FOUND) {
            found = VTS_FOUND;
            *route = &routes[k];
            *rest = left;
        } else if (found == VTS_FOUND_NOTHING) {
            found = VTS_FOUND_PATH;
        }
    }
    if (found != VTS_FOUND_NOTHING)
        snprintf(allow + used, VTS_ALLOW_MAX - used, ", OPTIONS");
    return found;
}
