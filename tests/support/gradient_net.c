#include "tests/support/gradient_net.h"

#include "engine/model/model.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

void vt_gradient_net_open(vt_gradient_net *net, const vt_test_tiny_options *opt, int target,
                          void (*change)(vt_test_tensors *list))
{
    const vt_test_tiny_options *o = opt ? opt : &vt_test_tiny_default;
    vt_test_tensors list;
    vt_error err = {0};
    size_t size;
    memset(net, 0, sizeof *net);
    net->image = malloc(3 * o->grid_h * o->grid_w * o->patch * o->patch * sizeof *net->image);
    net->dlogits = calloc(o->classes, sizeof *net->dlogits);
    ck_assert(net->image && net->dlogits);
    vt_test_tiny_tensors(&list, opt, net->image);
    if (change)
        change(&list);
    net->bytes = vt_test_tensors_write(&list, 0, &size);
    vt_test_tensors_free(&list);
    char *config = vt_test_tiny_config(opt);
    vt_status st = vt_model_open_memory(&net->model, net->bytes, size, config, NULL, "tiny", &err);
    if (st == VT_OK)
        st = vt_test_backend(net->model, &err);
    ck_assert_msg(st == VT_OK, "%s", err.msg);
    free(config);
    vt_test_tiny_complete(net->model, opt, net->bytes, size);
    ck_assert_int_eq(vt_arena_open(&net->arena, (size_t)64 << 20, NULL), VT_OK);
    ck_assert_int_eq(vt_arena_open(&net->run_arena, (size_t)64 << 20, NULL), VT_OK);
    st = vt_trace_open(&net->trace, net->model,
                       VT_NEEDS_BACKWARD | VT_NEEDS_RELPROP | VT_NEEDS_ATTN | VT_NEEDS_RESIDUAL, net->arena, &err);
    ck_assert_msg(st == VT_OK, "%s", err.msg);
    net->dlogits[target] = 1.0f;
    net->ctx = (vt_ctx){.model = net->model,
                        .info = vt_model_get_info(net->model),
                        .trace = &net->trace,
                        .input = net->image,
                        .dlogits = net->dlogits,
                        .arena = net->run_arena,
                        .targets = 1,
                        .target = target,
                        .versus = -1};
    vt_gradient_net_run(net);
}

void vt_gradient_net_run(vt_gradient_net *net)
{
    ck_assert_int_eq(vt_forward(&net->trace, net->image, NULL, NULL), VT_OK);
    ck_assert_int_eq(vt_backward(&net->trace, net->dlogits, NULL, NULL), VT_OK);
}

void vt_gradient_net_close(vt_gradient_net *net)
{
    vt_arena_close(net->run_arena);
    vt_arena_close(net->arena);
    vt_model_close(net->model);
    free(net->bytes), free(net->image), free(net->dlogits);
}

const vt_map *vt_gradient_net_map(vt_gradient_net *net, const char *method, const char *settings)
{
    vt_error err = {0};
    vt_arena_reset(net->run_arena, SIZE_MAX);
    const vt_status st = vt_test_explain(&net->ctx, &net->out, method, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", method, settings, err.msg);
    ck_assert_uint_eq(net->out.count, 1);
    return net->out.maps;
}
