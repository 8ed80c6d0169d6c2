/* Parameters that the server has beside the engine's: read from the same pairs, by the same kind of table, with the same
 * refusals. Polling thread. */
#include "server/routes/routes.h"

#include <stdio.h>
#include <string.h>

static void refuse_unknown(vts_request *r, const vt_param *rows, size_t count, const char *name)
{
    const char *near = NULL;
    size_t best = SIZE_MAX;
    for (size_t k = 0; k < count; k++) {
        const size_t d = vt_name_distance(name, rows[k].name);
        if (d < best) {
            best = d;
            near = rows[k].name;
        }
    }
    if (near)
        vts_refuse(r, VTS_P_INVALID_PARAMETER, name, "there is no parameter %.64s here; did you mean %s?", name, near);
    else
        vts_refuse(r, VTS_P_INVALID_PARAMETER, name, "there is no parameter %.64s here", name);
}

bool vts_params_take(vts_request *r, const vt_param *rows, size_t count, void *params, bool *given,
                     const vt_pair *pairs, size_t pairs_count, vt_pair *rest, size_t *rest_count, size_t rest_max)
{
    vt_error err = {0};
    for (size_t i = 0; i < pairs_count; i++) {
        const vt_param *row = vt_param_find(rows, count, pairs[i].name);
        if (!row) {
            if (!rest) {
                refuse_unknown(r, rows, count, pairs[i].name);
                return false;
            }
            if (*rest_count == rest_max) {
                vts_refuse(r, VTS_P_BAD_REQUEST, "", "more than %zu parameters", rest_max);
                return false;
            }
            rest[(*rest_count)++] = pairs[i];
            continue;
        }
        if (given[row - rows]) {
            vts_refuse(r, VTS_P_INVALID_PARAMETER, row->name, "%s is given twice", row->name);
            return false;
        }
        given[row - rows] = true;
        if (vt_param_set(row, pairs[i].value, NULL, params, &err) != VT_OK) {
            vts_refuse_error(r, &err);
            return false;
        }
    }
    return true;
}
