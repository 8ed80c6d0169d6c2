/* Parameters that the server has beside the engine's: read from the same pairs, by the same kind of table, with the same
 * refusals. Polling thread. */
#include "server/routes/routes.h"

#include "vitral/text.h"

#include <stdio.h>
#include <string.h>

#define VTS_IMAGE_ID_FORM "sha256: and 64 hexadecimal digits in lower case"

static void refuse_unknown(vts_request *r, const vt_param *rows, size_t count, const char *name)
{
    char buf[VT_QUOTE_SIZE];
    const char *near = NULL;
    size_t best = SIZE_MAX;
    vt_error err = {0};
    for (size_t k = 0; k < count; k++) {
        const size_t d = vt_name_distance(name, rows[k].name);
        if (d < best) {
            best = d;
            near = rows[k].name;
        }
    }
    vt_quote(buf, sizeof buf, name);
    if (near)
        vt_error_set(&err, VT_E_INVALID, name, "there is no parameter '%s' here; did you mean %s?", buf, near);
    else
        vt_error_set(&err, VT_E_INVALID, name, "there is no parameter '%s' here%s", buf,
                     count ? "" : ": this path takes none");
    for (size_t k = 0; k < count; k++)
        vt_error_allow_more(&err, ", ", rows[k].name);
    if (count == 0)
        vt_error_allow(&err, "no parameters");
    vts_refuse_error(r, &err);
}

void vts_params_none(vts_request *r)
{
    if (r->target.pairs_count > 0)
        refuse_unknown(r, NULL, 0, r->target.pairs[0].name);
}

void vts_refuse_model(vts_request *r, const char *id)
{
    char buf[VT_QUOTE_SIZE];
    vt_error err = {0};
    if (*id)
        vt_error_set(&err, VT_E_MODEL_UNKNOWN, "model", "there is no model '%s' here", vt_quote(buf, sizeof buf, id));
    else
        vt_error_set(&err, VT_E_INVALID, "model", "model is empty; leave it out for the default");
    for (size_t k = 0; k < r->models->count; k++)
        vt_error_allow_more(&err, ", ", vt_model_get_info(r->models->models[k])->id);
    vts_refuse_error(r, &err);
}

void vts_refuse_image_id(vts_request *r)
{
    vts_refuse_param(r, "image_id", VTS_IMAGE_ID_FORM, "image_id must be " VTS_IMAGE_ID_FORM);
}

/* An empty text says nothing: what would be accepted is known by the name of the parameter. */
static void refuse_empty(vts_request *r, const char *name)
{
    if (strcmp(name, "model") == 0)
        vts_refuse_model(r, "");
    else if (strcmp(name, "image_id") == 0)
        vts_refuse_image_id(r);
    else
        vts_refuse_param(r, name, "a text of at least one letter", "%s is empty; leave it out instead", name);
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
            char once[VT_ERROR_PARAM + 8];
            snprintf(once, sizeof once, "%s once", row->name);
            vts_refuse_param(r, row->name, once, "%s is given twice", row->name);
            return false;
        }
        given[row - rows] = true;
        if (row->type == VT_TEXT && !*pairs[i].value) {
            refuse_empty(r, row->name);
            return false;
        }
        if (vt_param_set(row, pairs[i].value, NULL, params, &err) != VT_OK) {
            vts_refuse_error(r, &err);
            return false;
        }
    }
    return true;
}
