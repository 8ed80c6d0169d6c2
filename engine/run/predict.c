/* Logits to probabilities and a ranking. Sums in double; softmax with its maximum removed. */
#include "engine/run/stages.h"

#include <math.h>

/* Does class a come after class b? Equal scores: the lower index first. */
static bool worse(const float *logits, int a, int b)
{
    return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
}

static void sift_down(int *order, const float *logits, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && worse(logits, order[child + 1], order[child]))
            child++;
        if (!worse(logits, order[child], order[at]))
            return;
        const int swap = order[at];
        order[at] = order[child];
        order[child] = swap;
    }
}

/* Heap sort, best first: qsort may take memory of its own. */
static void sort_classes(int *order, const float *logits, size_t n)
{
    for (size_t k = 0; k < n; k++)
        order[k] = (int)k;
    for (size_t k = n / 2; k-- > 0;)
        sift_down(order, logits, k, n);
    for (size_t last = n; last-- > 1;) { /* the worst of the heap goes to the end */
        const int swap = order[0];
        order[0] = order[last];
        order[last] = swap;
        sift_down(order, logits, 0, last);
    }
}

vt_status vt_rank_classes(vt_ranking *out, const vt_model_info *info, const float *logits, vt_arena *arena,
                          vt_error *err)
{
    const size_t C = info->classes;
    int *order = vt_arena_alloc(arena, C, sizeof *order);
    double *probability = vt_arena_alloc(arena, C, sizeof *probability);
    double sum = 0.0;

    if (!order || !probability)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu classes", C);
    for (size_t c = 0; c < C; c++)
        if (!isfinite(logits[c]))
            return vt_error_set(err, VT_E_INTERNAL, "", "the forward pass gave a logit that is not finite");
    sort_classes(order, logits, C);
    for (size_t c = 0; c < C; c++) {
        const double x = (double)logits[c];
        probability[c] = info->regression    ? (double)NAN
                         : info->multi_label ? 1.0 / (1.0 + exp(-x))
                                             : exp(x - (double)logits[order[0]]);
        sum += probability[c];
    }
    if (!info->regression && !info->multi_label)
        for (size_t c = 0; c < C; c++)
            probability[c] /= sum;
    *out = (vt_ranking){.logits = logits, .order = order, .probability = probability, .classes = C};
    return VT_OK;
}

vt_prediction vt_prediction_of(const vt_model *model, const vt_ranking *ranking, int index)
{
    return (vt_prediction){.index = index,
                           .label = vt_model_label(model, (size_t)index),
                           .probability = ranking->probability[index],
                           .logit = (double)ranking->logits[index]};
}
