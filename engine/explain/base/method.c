/* What descriptors say about themselves when they are of the usual kind: cost in forwards, one map, scratch of a few
 * attention matrices. */
#include "engine/explain/base/method.h"

const char *const vt_compat_names[] = {"none", "vit_explain", NULL};

double vt_cost_forward(const vt_model_info *info, const void *params)
{
    (void)info, (void)params;
    return 1.0;
}

double vt_cost_backward(const vt_model_info *info, const void *params)
{
    (void)info, (void)params;
    return 2.0;
}

size_t vt_maps_one(const vt_model_info *info, const void *params)
{
    (void)info, (void)params;
    return 1;
}

size_t vt_scratch_tokens_squared(const vt_model_info *info, const void *params)
{
    (void)params;
    /* the last term: what aligning a few blocks (and red zones between them) may cost */
    return 2 * info->tokens * info->tokens * sizeof(float) + 4 * info->tokens * sizeof(double) + 4096;
}
