#include "engine/evaluate/probe.h"

#include <math.h>

size_t vt_model_probe_bytes(const vt_model_info *info)
{
    return vt_batch_bytes(info, 0) + sizeof(vt_model_probe) + 4096;
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

static void place(void *host, size_t k, float *x)
{
    const vt_model_probe *p = host;
    p->pictures->place(p->pictures->host, k, x);
}

static void take(void *host, size_t k, const vt_scores *scores)
{
    const vt_model_probe *p = host;
    p->out[k] = vt_score_of(p->batch.info, scores->logits, p->target, p->versus);
}

static vt_status score(void *host, const vt_pictures *pictures, vt_score *out, vt_error *err)
{
    vt_model_probe *p = host;
    const vt_samples samples = {.count = pictures->count, .place = place, .take = take, .host = p};
    p->pictures = pictures;
    p->out = out;
    return vt_batch_run(&p->batch, &samples, NULL, err);
}

vt_status vt_model_probe_open(vt_model_probe *probe, const vt_model *model, const float *input, vt_arena *arena,
                              vt_control *control, vt_error *err)
{
    const vt_batch_setup setup = {
        .model = model, .input = input, .stage = "metrics", .arena = arena, .control = control};
    *probe = (vt_model_probe){.target = -1, .versus = -1};
    const vt_status st = vt_batch_open(&probe->batch, &setup, err);
    probe->probe = (vt_probe){.input = input, .size = probe->batch.size, .score = score, .host = probe};
    return st;
}
