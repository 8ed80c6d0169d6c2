#include "engine/evaluate/probe.h"

#include <math.h>

size_t vt_model_probe_bytes(const vt_model_info *info)
{
    return vt_trace_bytes(info, 0, VT_PROBE_BATCH) +
           VT_PROBE_BATCH * 3 * info->image_h * info->image_w * sizeof(float) + 4096;
}

vt_score vt_score_of(const vt_model_info *info, const float *logits, int target, int versus)
{
    const double logit = (double)logits[target], other = versus >= 0 ? (double)logits[versus] : 0.0;
    vt_score score = {.logit = logit - other};
    double max = -(double)INFINITY, sum = 0.0;

    score.probability = score.logit;
    if (info->regression)
        return score;
    if (info->multi_label) {
        score.probability = 1.0 / (1.0 + exp(-logit));
        if (versus >= 0)
            score.probability -= 1.0 / (1.0 + exp(-other));
        return score;
    }
    for (size_t c = 0; c < info->classes; c++)
        max = fmax(max, (double)logits[c]);
    for (size_t c = 0; c < info->classes; c++)
        sum += exp((double)logits[c] - max);
    score.probability = (exp(logit - max) - (versus >= 0 ? exp(other - max) : 0.0)) / sum;
    return score;
}

static vt_status score(void *host, const vt_pictures *pictures, vt_score *out, vt_error *err)
{
    vt_model_probe *p = host;
    const size_t size = p->probe.size, classes = p->trace.C;
    vt_status st = vt_control_check(p->control, err);
    for (size_t first = 0; first < pictures->count && st == VT_OK; first += VT_PROBE_BATCH) {
        const size_t left = pictures->count - first, n = left < VT_PROBE_BATCH ? left : VT_PROBE_BATCH;
        for (size_t k = 0; k < n; k++)
            pictures->place(pictures->host, first + k, p->inputs + k * size);
        vt_trace_use(&p->trace, n);
        st = vt_forward(&p->trace, p->inputs, p->control, err);
        for (size_t k = 0; k < n && st == VT_OK; k++)
            out[first + k] = vt_score_of(p->trace.info, p->trace.logits + k * classes, p->target, p->versus);
        p->done += n;
        vt_control_progress(p->control, "metrics", p->done < p->total ? p->done : p->total, p->total);
        if (st == VT_OK)
            st = vt_control_check(p->control, err);
    }
    return st;
}

vt_status vt_model_probe_open(vt_model_probe *probe, const vt_model *model, const float *input, vt_arena *arena,
                              vt_control *control, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(model);
    const size_t size = 3 * info->image_h * info->image_w;
    *probe = (vt_model_probe){.target = -1, .versus = -1, .control = control};
    probe->probe = (vt_probe){.input = input, .size = size, .score = score, .host = probe};
    probe->inputs = vt_arena_alloc(arena, VT_PROBE_BATCH, size * sizeof *probe->inputs);
    if (!probe->inputs)
        return vt_error_set(err, VT_E_NOMEM, "", "metrics: no memory for %d pictures at once", VT_PROBE_BATCH);
    return vt_trace_open_batch(&probe->trace, model, 0, VT_PROBE_BATCH, arena, err);
}
