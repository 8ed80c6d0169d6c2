#include "tests/support/linear_net.h"

#include "engine/model/model.h"
#include "tests/support/suite.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const vt_test_tiny_options options = {.prefix = 1,
                                             .grid_h = 3,
                                             .grid_w = 4,
                                             .patch = 4,
                                             .width = 10,
                                             .heads = 2,
                                             .layers = 2,
                                             .mlp = 12,
                                             .classes = 4,
                                             .pool_avg = true};

static void silence(vt_test_tensors *list, const char *name)
{
    vt_test_tensor *t = vt_test_tensors_find(list, name);
    memset(t->values, 0, vt_test_tensor_count(t) * sizeof *t->values);
}

static void make_linear(vt_test_tensors *list)
{
    static const char *const parts[] = {"attn.proj.weight", "attn.proj.bias", "mlp.fc2.weight", "mlp.fc2.bias"};
    char name[64];
    for (size_t l = 0; l < options.layers; l++)
        for (size_t k = 0; k < VT_COUNT(parts); k++) {
            snprintf(name, sizeof name, "blocks.%zu.%s", l, parts[k]);
            silence(list, name);
        }
    /* what the norm makes small, its gain makes large again */
    vt_test_tensor *gain = vt_test_tensors_find(list, "norm.weight");
    for (size_t i = 0; i < options.width; i++)
        gain->values[i] *= 1e4f;
}

void vt_linear_net_open(vt_gradient_net *net, int target)
{
    vt_gradient_net_open(net, &options, target, make_linear);
    vt_model_info *info = (vt_model_info *)(uintptr_t)net->ctx.info;
    info->norm_eps = 1e8f;
    vt_gradient_net_run(net);
}

double vt_linear_net_score(const vt_gradient_net *net, const double *x)
{
    const vt_model_info *info = net->ctx.info;
    const size_t n = 3 * info->image_h * info->image_w;
    double y = (double)net->trace.logits[net->ctx.target];
    for (size_t i = 0; i < n; i++)
        y += (double)net->trace.input_grad[i] * (x[i] - (double)net->image[i]);
    return y;
}
