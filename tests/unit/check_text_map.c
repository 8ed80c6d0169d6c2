/* text_map against its formulas written out in double, on tiny nets with a joint space: a plain
 * one, one with LayerScale, and one with registers and a gated MLP. */
#include "engine/pass/patch_text.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BASE .grid_h = 2, .grid_w = 3, .patch = 4, .width = 8, .heads = 2, .layers = 2, .mlp = 12, .classes = 3
static const vt_test_tiny_options nets[] = {
    {.prefix = 1, .norm_pre = true, .joint = 5, .quick_gelu = true, BASE},
    {.prefix = 1, .joint = 6, .layer_scale = true, BASE},
    {.prefix = 5, .joint = 5, .gated = true, BASE},
};
enum { D = 8, M = 12, P = 6, MOST = 16 };

static void norm(double *x, const vt_norm_weights *w, double eps)
{
    double mean = 0.0, var = 0.0;
    for (int i = 0; i < D; i++)
        mean += x[i] / D;
    for (int i = 0; i < D; i++)
        var += (x[i] - mean) * (x[i] - mean) / D;
    for (int i = 0; i < D; i++)
        x[i] = (x[i] - mean) / sqrt(var + eps) * (double)w->gamma[i] + (double)w->beta[i];
}

static void linear(double *out, const double *x, const float *w, const float *b, int inputs, int outputs)
{
    for (int o = 0; o < outputs; o++) {
        out[o] = b ? (double)b[o] : 0.0;
        for (int i = 0; i < inputs; i++)
            out[o] += (double)w[o * inputs + i] * x[i];
    }
}

static double activation(double x, vt_activation kind)
{
    return kind == VT_QUICK_GELU ? x / (1.0 + exp(-1.702 * x)) : 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
}

/* What stands for patch p, before the final norm. */
static void reference_token(double *t, const vt_tiny_run *tiny, size_t p, vt_patch_readout readout)
{
    const vt_model_info *info = tiny->info;
    const vt_weights *w = vt_model_weights(tiny->model);
    const vt_block_weights *b = &w->blocks[info->layers - 1];
    const size_t level = readout == VT_PATCH_PLAIN ? info->layers : info->layers - 1;
    const float *z = vt_trace_residual(&tiny->trace, level) + (info->prefix + p) * D;
    double x[D], v[D], o[D], mlp[M], gate[M];
    for (int i = 0; i < D; i++)
        t[i] = x[i] = (double)z[i];
    if (readout == VT_PATCH_PLAIN)
        return;
    norm(x, &b->norm1, (double)info->norm_eps);
    linear(v, x, b->qkv_w[2], b->qkv_b + 2 * D, D, D);
    linear(o, v, b->proj_w, b->proj_b, D, D);
    for (int i = 0; i < D; i++)
        t[i] = readout == VT_PATCH_VALUE_ONLY ? o[i] : t[i] + o[i] * (b->ls1 ? (double)b->ls1[i] : 1.0);
    if (readout == VT_PATCH_VALUE_ONLY)
        return;
    memcpy(x, t, sizeof x);
    norm(x, &b->norm2, (double)info->norm_eps);
    linear(mlp, x, b->fc1_w, b->fc1_b, D, M);
    if (b->gate_w)
        linear(gate, x, b->gate_w, b->gate_b, D, M);
    for (int i = 0; i < M; i++)
        mlp[i] = b->gate_w ? mlp[i] * gate[i] / (1.0 + exp(-gate[i])) : activation(mlp[i], info->activation);
    linear(o, mlp, b->fc2_w, b->fc2_b, M, D);
    for (int i = 0; i < D; i++)
        t[i] += o[i] * (b->ls2 ? (double)b->ls2[i] : 1.0);
}

static double cosine(const double *x, const float *text, size_t n)
{
    double dot = 0.0, xx = 0.0, tt = 0.0;
    for (size_t i = 0; i < n; i++) {
        dot += x[i] * (double)text[i];
        xx += x[i] * x[i];
        tt += (double)text[i] * (double)text[i];
    }
    return dot / sqrt(xx * tt);
}

START_TEST(formulas)
{
    static const char *const settings[] = {"variant=plain", "variant=last_value", "variant=value_only"};
    vt_tiny_run tiny;
    vt_tiny_open(&tiny, &nets[_i], 1, NULL);
    const vt_weights *w = vt_model_weights(tiny.model);
    const size_t F = tiny.info->features;
    ck_assert_uint_le(F, MOST);
    for (int v = 0; v < 3; v++) {
        const vt_map *map = vt_tiny_map(&tiny, "text_map", settings[v]);
        ck_assert(map->is_signed && map->h == 2 && map->w == 3);
        for (size_t p = 0; p < P; p++) {
            double t[D], joint[MOST];
            reference_token(t, &tiny, p, (vt_patch_readout)v);
            norm(t, &w->norm, (double)tiny.info->norm_eps);
            linear(joint, t, w->embed_w, NULL, D, (int)F);
            const double want = cosine(joint, w->head.w + F, F);
            ck_assert_msg(fabs((double)map->values[p] - want) < 3e-6, "net %d, %s, patch %zu: %g, should be %g", _i,
                          settings[v], p, (double)map->values[p], want);
        }
    }
    vt_tiny_close(&tiny);
}
END_TEST

/* The default is MaskCLIP's. */
START_TEST(default_variant)
{
    vt_tiny_run tiny;
    float values[P];
    vt_tiny_open(&tiny, &nets[0], 1, NULL);
    memcpy(values, vt_tiny_map(&tiny, "text_map", "")->values, sizeof values);
    ck_assert_mem_eq(values, vt_tiny_map(&tiny, "text_map", "variant=last_value")->values, sizeof values);
    vt_tiny_close(&tiny);
}
END_TEST

/* A class whose vector is zero has no direction: the map is empty and says so. */
START_TEST(nothing_in_common)
{
    vt_tiny_run tiny;
    vt_tiny_open(&tiny, &nets[0], 1, NULL);
    const vt_weights *w = vt_model_weights(tiny.model);
    const size_t F = tiny.info->features;
    float *head = calloc(3 * F, sizeof *head);
    ck_assert_ptr_nonnull(head);
    vt_weights *mine = (vt_weights *)(uintptr_t)w; /* the test's own model */
    mine->head.w = head;
    const vt_map *map = vt_tiny_map(&tiny, "text_map", "");
    ck_assert_uint_eq(map->notes_count, 1);
    for (size_t p = 0; p < P; p++)
        ck_assert_double_eq((double)map->values[p], 0.0);
    free(head);
    vt_tiny_close(&tiny);
}
END_TEST

/* Refused half-way (the first two rows fit), it leaves the arena as it was. */
START_TEST(gives_its_scratch_back)
{
    float out[P * MOST];
    vt_error err = {0};
    vt_tiny_run tiny;
    vt_arena *small;
    vt_tiny_open(&tiny, &nets[0], 1, NULL);
    ck_assert_int_eq(vt_arena_open(&small, 1u << 20, NULL), VT_OK);
    const size_t room = vt_arena_capacity(small) - vt_arena_used(small);
    ck_assert_ptr_nonnull(vt_arena_alloc(small, room - 512, 1));
    const size_t used = vt_arena_used(small);
    ck_assert_int_eq(vt_patch_embeddings(out, &tiny.trace, VT_PATCH_LAST_VALUE, small, &err), VT_E_NOMEM);
    ck_assert_uint_eq(vt_arena_used(small), used);
    vt_arena_close(small);
    vt_tiny_close(&tiny);
}
END_TEST

VT_SUITE("text_map", tcase_add_loop_test(tc, formulas, 0, (int)VT_COUNT(nets)); tcase_add_test(tc, default_variant);
         tcase_add_test(tc, nothing_in_common); tcase_add_test(tc, gives_its_scratch_back))
