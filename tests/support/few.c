#include "tests/support/few.h"

enum { MANY = 500 };

size_t vt_test_few(vt_pair *pairs, size_t count, const vt_explainer *method)
{
    static const char *const names[] = {"masks", "samples"};
    for (size_t k = 0; k < VT_COUNT(names); k++) {
        const vt_param *row = vt_param_find(method->params, method->params_count, names[k]);
        if (row && row->def > MANY) {
            pairs[count] = (vt_pair){names[k], "200"};
            return count + 1;
        }
    }
    return count;
}

const char *vt_test_few_masks(const vt_explainer *method)
{
    return vt_param_find(method->params, method->params_count, "masks") ? "masks=130" : "";
}
