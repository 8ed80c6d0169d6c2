/* Facts about an opened model, taken from where the loader left them: nothing is measured twice, so that what people
 * read is what runs. Prices come from requests that are opened as any other, without the limits of a host. Any thread. */
#include "vitral/inspect.h"

#include "engine/model/opened.h"
#include "engine/model/stem.h"
#include "engine/run/request.h"

#include <math.h>

void vt_model_inspect(const vt_model *model, vt_inspection *out)
{
    const vt_model_info *info = &model->info;
    const vt_checkpoint *c = &model->checkpoint;
    *out = (vt_inspection){.files = vt_shards_files(model->shards),
                           .packed_bytes = vt_model_can_pack() ? vt_model_packed_bytes(model) : 0,
                           .position_h = c->positions.grid_h,
                           .position_w = c->positions.grid_w,
                           .position_rule = vt_pos_rule_names[c->positions.rule],
                           .why_no_texts = info->joint && *model->why_no_texts ? model->why_no_texts : NULL,
                           .flops = vt_model_flops(info)};
    for (size_t k = 0; k < vt_shards_count(model->shards); k++) {
        const vt_st_tensor *t = vt_shards_at(model->shards, k);
        const vt_tensor_use use = c->uses[k];
        out->tensors[use]++;
        out->parameters[use] += t->count;
        if (c->in_place[k] || (model->text && model->text->in_place[k]))
            out->mapped_bytes += t->bytes;
    }
    out->copied_bytes = c->block_floats * sizeof(float);
    if (c->stem)
        out->copied_bytes += c->stem->memory_floats * sizeof(float);
    if (model->text)
        out->copied_bytes += model->text->own_floats * sizeof(float);
    if (model->patch_pos)
        out->copied_bytes += info->grid_h * info->grid_w * info->width * sizeof(float);
}

vt_status vt_method_price(const vt_model *model, const vt_explainer *method, double *forwards, size_t *bytes,
                          vt_error *err)
{
    vt_pair pairs[2];
    size_t count = 0;
    vt_limits limits = vt_limits_default;
    vt_request *request;
    limits.cost_max = (double)INFINITY;
    limits.values_max = UINT64_MAX;
    limits.maps_max = SIZE_MAX;
    if (method)
        pairs[count++] = (vt_pair){"method", method->name};
    if (model->info.has_texts)
        pairs[count++] = (vt_pair){"texts", "a cat|a dog"};
    const vt_status status =
        vt_request_open(&request, model, &limits, pairs, count, method ? 0 : VT_REQUEST_PREDICT, err);
    if (status != VT_OK)
        return status;
    *forwards = vt_request_cost(request);
    *bytes = vt_request_work_bytes(vt_model_get_info(request->model), request->needs, request->maps, request->scratch,
                                   *request->options.texts);
    vt_request_close(request);
    return VT_OK;
}
