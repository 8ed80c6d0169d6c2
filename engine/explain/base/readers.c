/* Which tokens the head reads, and how much of its input each of them is: where every walk down the layers begins. */
#include "engine/explain/base/method.h"

#include <string.h>

void vt_head_shares(double *share, const vt_model_info *info)
{
    const size_t T = info->tokens, prefix = info->prefix;
    const double token = !info->has_class_token || info->pool == VT_POOL_AVG ? 0.0
                         : info->pool == VT_POOL_TOKEN_AVG                   ? 0.5
                                                                             : 1.0;
    memset(share, 0, T * sizeof *share);
    for (size_t t = prefix; t < T; t++)
        share[t] = (1.0 - token) / (double)(T - prefix);
    if (token > 0.0)
        share[0] = token;
}
