/* Both links in double, from float logits. The slope of a probability is written so that a probability near 0 or 1 keeps its
 * digits. */
#include "engine/pass/link.h"

#include <math.h>
#include <string.h>

const char *const vt_link_names[] = {"logit", "probability", NULL};

vt_status vt_link_check(const vt_model_info *info, int link, vt_error *err)
{
    if (link != VT_LINK_PROBABILITY || !info->regression)
        return VT_OK;
    const vt_status st =
        vt_error_set(err, VT_E_UNSUPPORTED, "link", "%s is a regression: it has no probabilities", info->id);
    vt_error_allow(err, "logit");
    return st;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

double vt_link_score(vt_link link, const vt_model_info *info, const float *sign, const float *logits, float *slope)
{
    const size_t C = info->classes;
    double y = 0.0;
    if (link == VT_LINK_LOGIT) {
        for (size_t c = 0; c < C; c++)
            if (sign[c] != 0.0f)
                y += (double)sign[c] * (double)logits[c];
        if (slope)
            memcpy(slope, sign, C * sizeof *slope);
        return y;
    }
    if (info->multi_label) {
        for (size_t c = 0; c < C; c++) {
            const double s = sigmoid((double)logits[c]);
            y += (double)sign[c] * s;
            if (slope)
                slope[c] = (float)((double)sign[c] * s * sigmoid(-(double)logits[c])); /* keeps its digits near 1 */
        }
        return y;
    }
    double max = -(double)INFINITY, sum = 0.0;
    for (size_t c = 0; c < C; c++)
        max = fmax(max, (double)logits[c]);
    for (size_t c = 0; c < C; c++)
        sum += exp((double)logits[c] - max);
    for (size_t c = 0; c < C; c++)
        if (sign[c] != 0.0f)
            y += (double)sign[c] * exp((double)logits[c] - max) / sum;
    for (size_t c = 0; slope && c < C; c++) {
        /* p_c (sign_c - y), with y taken apart so that 1 - p keeps its digits: sum over j of p_j (sign_c - sign_j) */
        double apart = 0.0;
        if (sign[c] == 0.0f)
            apart = -y;
        else
            for (size_t j = 0; j < C; j++)
                apart += exp((double)logits[j] - max) / sum * ((double)sign[c] - (double)sign[j]);
        slope[c] = (float)(exp((double)logits[c] - max) / sum * apart);
    }
    return y;
}
