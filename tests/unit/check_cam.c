/* Class activation maps: each formula against arrays made by hand, the values of appendix A, and what must hold for any net:
 * identities, mirrored pictures, layers that cannot matter. */
#include "engine/model/model.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_run.h"
#include "vitral/run.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const with_gradient[] = {"gradcam",  "gradcam_plus_plus", "xgradcam",
                                            "hirescam", "layercam",          "eigengradcam"};
static const char *const all[] = {"gradcam",  "gradcam_plus_plus", "xgradcam", "hirescam",
                                  "layercam", "eigengradcam",      "eigencam"};

/* ---- by hand: the output of a block and its gradient are plain arrays ---- */

enum { L = 2, GH = 3, GW = 5, P = GH * GW, D = 6 };

typedef struct bare {
    vt_hand hand;
    size_t prefix;
    float *x, *g; /* (P, D): patches of the last block's output */
} bare;

static void bare_open(bare *b, size_t prefix)
{
    const size_t T = prefix + P, step = T * D;
    vt_hand_open(&b->hand, L, 2, 3, GH, GW, prefix);
    b->prefix = prefix;
    b->hand.trace.z = vt_arena_alloc(b->hand.arena, (L + 1) * step, sizeof(float));
    b->hand.trace.block_grad = vt_arena_alloc(b->hand.arena, (L + 1) * step, sizeof(float));
    b->hand.trace.z_step = b->hand.trace.block_grad_step = step;
    vt_test_fill(b->hand.trace.z, (L + 1) * step, 31);
    vt_test_fill(b->hand.trace.block_grad, (L + 1) * step, 32);
    b->x = b->hand.trace.z + L * step + prefix * D;
    b->g = b->hand.trace.block_grad + L * step + prefix * D;
}

static void expect(const char *what, const float *got, const double *want, size_t n, double tol)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)got[i] - want[i]) <= tol, "%s[%zu] is %.9g, should be %.9g", what, i, (double)got[i],
                      want[i]);
}

/* methods.md 7, written once more, channel by channel */
static void formula(double *map, const char *method, const float *x, const float *g)
{
    memset(map, 0, P * sizeof *map);
    for (size_t k = 0; k < D; k++) {
        double sum_x = 0.0, sum_gx = 0.0, mean_g = 0.0, plus = 0.0;
        for (size_t i = 0; i < P; i++) {
            sum_x += (double)x[i * D + k];
            sum_gx += (double)g[i * D + k] * (double)x[i * D + k];
            mean_g += (double)g[i * D + k] / P;
        }
        for (size_t i = 0; i < P; i++) {
            const double G = (double)g[i * D + k];
            const double alpha = G == 0.0 ? 0.0 : pow(G, 2.0) / (2.0 * pow(G, 2.0) + sum_x * pow(G, 3.0) + 1e-6);
            plus += fmax(G, 0.0) * alpha;
        }
        for (size_t i = 0; i < P; i++) {
            const double G = (double)g[i * D + k], X = (double)x[i * D + k];
            map[i] += strcmp(method, "gradcam") == 0             ? mean_g * X
                      : strcmp(method, "gradcam_plus_plus") == 0 ? plus * X
                      : strcmp(method, "xgradcam") == 0          ? sum_gx / (sum_x + 1e-7) * X
                      : strcmp(method, "hirescam") == 0          ? G * X
                                                                 : fmax(G, 0.0) * X; /* layercam */
        }
    }
}

START_TEST(equals_its_formula)
{
    for (size_t prefix = 0; prefix <= 2; prefix++) {
        bare b;
        double want[P];
        bare_open(&b, prefix);
        b.g[3] = b.g[17] = 0.0f;
        const vt_map *map = vt_hand_map(&b.hand, with_gradient[_i], "tensor=block");
        formula(want, with_gradient[_i], b.x, b.g);
        expect(with_gradient[_i], map->values, want, P, 1e-5);
        ck_assert(map->layer == L - 1 && map->head == -1 && !map->is_signed);
        ck_assert_uint_eq(b.hand.out.warnings_count, 0);
        vt_hand_close(&b.hand);
    }
}
END_TEST

/* The projection is made of the data and nothing else: M M^T map = sigma^2 map, the largest there is, |map| = sigma; the value
 * of largest magnitude is positive. Wider than long and longer than wide. */
START_TEST(projection_is_the_first_principal_one)
{
    for (size_t wide = 0; wide < 2; wide++) {
        enum { MANY = 40 };
        vt_hand hand;
        const size_t width = wide ? MANY : 4, T = 1 + P, step = T * width;
        vt_hand_open(&hand, 1, 2, width / 2, GH, GW, 1);
        hand.trace.z = vt_arena_alloc(hand.arena, 2 * step, sizeof(float));
        hand.trace.block_grad = vt_arena_alloc(hand.arena, 2 * step, sizeof(float));
        hand.trace.z_step = hand.trace.block_grad_step = step;
        vt_test_fill(hand.trace.z, 2 * step, 77);
        vt_test_fill(hand.trace.block_grad, 2 * step, 78);
        for (int with = 0; with < 2; with++) {
            static double m[P * MANY];
            const vt_map *map = vt_hand_map(&hand, with ? "eigengradcam" : "eigencam", "tensor=block");
            double gram[P][P], value = 0.0, total = 0.0, norm = 0.0, top = 0.0;
            for (size_t i = 0; i < P * width; i++)
                m[i] = (double)hand.trace.z[step + width + i] *
                       (with ? (double)hand.trace.block_grad[step + width + i] : 1.0);
            for (size_t k = 0; k < width; k++) {
                double mean = 0.0;
                for (size_t i = 0; i < P; i++)
                    mean += m[i * width + k] / P;
                for (size_t i = 0; i < P; i++)
                    m[i * width + k] -= mean;
            }
            for (size_t i = 0; i < P; i++)
                for (size_t j = 0; j < P; j++) {
                    gram[i][j] = 0.0;
                    for (size_t k = 0; k < width; k++)
                        gram[i][j] += m[i * width + k] * m[j * width + k];
                    total += i == j ? gram[i][j] : 0.0;
                }
            for (size_t i = 0; i < P; i++) {
                const double v = (double)map->values[i];
                norm += v * v;
                top = fabs(v) > fabs(top) ? v : top;
            }
            ck_assert(top > 0.0);
            for (size_t i = 0; i < P; i++) { /* norm is sigma^2 */
                value = 0.0;
                for (size_t j = 0; j < P; j++)
                    value += gram[i][j] * (double)map->values[j];
                ck_assert_msg(fabs(value - norm * (double)map->values[i]) < 1e-5 * norm, "patch %zu: %.9g, %.9g", i,
                              value, norm * (double)map->values[i]);
            }
            /* and no other direction has more: a shift that only the first can reach leaves the rest smaller */
            for (size_t axis = 0; axis < P; axis++) {
                double v[P] = {0}, length = 1.0, rayleigh = 0.0;
                v[axis] = 1.0;
                for (int k = 0; k < 200; k++) {
                    double next[P] = {0};
                    length = 0.0;
                    for (size_t i = 0; i < P; i++)
                        for (size_t j = 0; j < P; j++)
                            next[i] += gram[i][j] * v[j];
                    for (size_t i = 0; i < P; i++)
                        length += next[i] * next[i];
                    for (size_t i = 0; i < P; i++)
                        v[i] = next[i] / sqrt(length);
                    rayleigh = sqrt(length);
                }
                ck_assert_msg(rayleigh <= norm * (1.0 + 1e-6), "axis %zu finds %.9g, the map has %.9g", axis, rayleigh,
                              norm);
            }
            ck_assert(norm <= total);
        }
        vt_hand_close(&hand);
    }
}
END_TEST

/* Grad-CAM is HiResCAM where the gradient is the same at every patch. */
START_TEST(gradcam_is_hirescam_for_an_even_gradient)
{
    bare b;
    bare_open(&b, 1);
    for (size_t i = 1; i < P; i++)
        memcpy(b.g + i * D, b.g, D * sizeof *b.g);
    const vt_map *first = vt_hand_map(&b.hand, "gradcam", "tensor=block");
    float values[P];
    memcpy(values, first->values, sizeof values);
    const vt_map *second = vt_hand_map(&b.hand, "hirescam", "tensor=block");
    for (size_t i = 0; i < P; i++)
        ck_assert_double_eq_tol((double)values[i], (double)second->values[i], 1e-6);
    vt_hand_close(&b.hand);
}
END_TEST

/* The sum of HiResCAM is the sum of gradient times activation; gradients below zero add nothing to LayerCAM. */
START_TEST(sums)
{
    bare b;
    double want = 0.0, got = 0.0;
    bare_open(&b, 1);
    for (size_t i = 0; i < P * D; i++)
        want += (double)b.g[i] * (double)b.x[i];
    const vt_map *map = vt_hand_map(&b.hand, "hirescam", "tensor=block");
    for (size_t i = 0; i < P; i++)
        got += (double)map->values[i];
    ck_assert_double_eq_tol(got, want, 1e-5);
    for (size_t i = 0; i < P * D; i++)
        b.g[i] = -fabsf(b.g[i]);
    map = vt_hand_map(&b.hand, "layercam", "tensor=block");
    for (size_t i = 0; i < P; i++)
        ck_assert(map->values[i] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    vt_hand_close(&b.hand);
}
END_TEST

/* A channel that adds to zero, one that is constant, patches that are all alike: finite, whatever is divided by. */
START_TEST(finite_where_sums_vanish)
{
    bare b;
    bare_open(&b, 1);
    for (size_t i = 0; i < P; i++) {
        b.x[i * D] = i == P - 1 ? 0.0f : i % 2 ? 0.5f : -0.5f;
        b.x[i * D + 1] = 0.25f;
        b.x[i * D + 2] = 0.0f;
        b.g[i * D + 3] = 0.0f;
    }
    for (size_t m = 0; m < VT_COUNT(all); m++) {
        const vt_map *map = vt_hand_map(&b.hand, all[m], "tensor=block");
        for (size_t i = 0; i < P; i++)
            ck_assert_msg(isfinite(map->values[i]), "%s, patch %zu", all[m], i);
    }
    for (size_t i = 1; i < P; i++) {
        memcpy(b.x + i * D, b.x, D * sizeof *b.x);
        memcpy(b.g + i * D, b.g, D * sizeof *b.g);
    }
    for (size_t m = 0; m < VT_COUNT(all); m++) {
        const bool projected = strncmp(all[m], "eigen", 5) == 0;
        const vt_map *map = vt_hand_map(&b.hand, all[m], "tensor=block");
        for (size_t i = 0; i < P; i++)
            ck_assert_msg(isfinite(map->values[i]) && (!projected || map->values[i] == 0.0f), "%s, patch %zu: %g",
                          all[m], i, (double)map->values[i]);
        if (projected)
            ck_assert_uint_eq(map->notes_count, 1);
    }
    vt_hand_close(&b.hand);
}
END_TEST

/* Only other tokens than the patches have a gradient: the layer is dead. No token has: the class is. */
START_TEST(dead_layer_or_dead_class)
{
    bare b;
    bare_open(&b, 2);
    memset(b.g, 0, P * D * sizeof *b.g);
    const vt_map *map = vt_hand_map(&b.hand, with_gradient[_i], "tensor=block");
    for (size_t i = 0; i < P; i++)
        ck_assert(map->values[i] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_ptr_nonnull(strstr(map->notes[0], "norm1"));
    ck_assert_uint_eq(b.hand.out.warnings_count, 1);
    ck_assert_str_eq(b.hand.out.warnings[0].code, "dead_layer");
    b.g[P * D - 1] = 1.0f; /* one patch, one channel: alive */
    vt_hand_map(&b.hand, with_gradient[_i], "tensor=block");
    ck_assert_uint_eq(b.hand.out.warnings_count, 0);
    b.g[P * D - 1] = 0.0f;
    memset(b.g - 2 * D, 0, 2 * D * sizeof *b.g);
    map = vt_hand_map(&b.hand, with_gradient[_i], "tensor=block");
    ck_assert_uint_eq(b.hand.out.warnings_count, 0);
    ck_assert_uint_eq(map->notes_count, 1);
    vt_hand_close(&b.hand);
}
END_TEST

/* ---- the tiny nets ---- */

static const struct {
    const char *method;
    double want[4], tol;
    bool up_to_sign;
} appendix[] = {
    {"gradcam", {-0.1182509, 0.16192932, 0.033460122, 0.13312399}, 1e-5, false},
    {"hirescam", {-0.047747322, 0.3029751, -0.003457282, 0.065350342}, 1e-5, false},
    {"layercam", {0.075226131, 0.14937761, 0.060996315, 0.004393371}, 1e-5, false},
    {"gradcam_plus_plus", {0.0030548502, 0.15031931, 0.12661863, 0.091730286}, 1e-4, false},
    {"xgradcam", {0.026627225, 0.059624847, -0.042562152, 0.27343094}, 1e-4, false},
    {"eigencam", {-1.6367909, 1.2634934, -0.63392117, 1.0072186}, 1e-5, true},
};

START_TEST(appendix_a)
{
    vt_tiny_run t;
    double want[4];
    vt_tiny_open(&t, NULL, 1, NULL);
    const vt_map *map = vt_tiny_map(&t, appendix[_i].method, "");
    double top = 0.0;
    for (size_t i = 0; i < 4; i++)
        top = fabs(appendix[_i].want[i]) > fabs(top) ? appendix[_i].want[i] : top;
    for (size_t i = 0; i < 4; i++)
        want[i] = appendix[_i].want[i] * (appendix[_i].up_to_sign && top < 0.0 ? -1.0 : 1.0);
    expect(appendix[_i].method, map->values, want, 4, appendix[_i].tol);
    if (_i == 0) { /* gradcam_norm: clipped, then min-max with 1e-7 */
        static const double norm[] = {0, 0.99999938, 0.20663398, 0.82211121};
        float got[4];
        for (size_t i = 0; i < 4; i++)
            got[i] = (float)(fmax((double)map->values[i], 0.0) / ((double)map->values[1] + 1e-7));
        expect("gradcam_norm", got, norm, 4, 1e-4);
    }
    vt_tiny_close(&t);
}
END_TEST

static const vt_test_tiny_options nets[] = {
    {.prefix = 1, .grid_h = 3, .grid_w = 5, .patch = 4, .width = 12, .heads = 3, .layers = 3, .mlp = 20, .classes = 4},
    {.prefix = 2, .grid_h = 2, .grid_w = 3, .patch = 3, .width = 8, .heads = 2, .layers = 2, .mlp = 16, .classes = 3},
    {.prefix = 5, .grid_h = 3, .grid_w = 3, .patch = 2, .width = 8, .heads = 2, .layers = 3, .mlp = 16, .classes = 3},
    {.prefix = 0, .grid_h = 2, .grid_w = 4, .patch = 4, .width = 8, .heads = 1, .layers = 2, .mlp = 8, .classes = 3},
    {.prefix = 1, .grid_h = 1, .grid_w = 1, .patch = 4, .width = 8, .heads = 2, .layers = 1, .mlp = 8, .classes = 3},
};
static const char *const tensors[] = {"", "tensor=norm2 layer=0", "tensor=block layer=0"};

/* HiResCAM tells which tensor was read: gradient times activation, with the activations made again from the weights. */
START_TEST(reads_the_tensor_that_was_named)
{
    static const char *const names[] = {"norm1", "norm2", "block"};
    vt_tiny_run t;
    vt_tiny_open(&t, &nets[_i], 1, NULL);
    const size_t T = t.info->tokens, width = t.info->width, prefix = t.info->prefix;
    for (size_t l = 0; l < t.info->layers; l++)
        for (size_t k = 0; k < VT_COUNT(names); k++) {
            const vt_block_weights *w = &vt_model_weights(t.model)->blocks[l];
            const float *z = k == 0   ? vt_trace_residual(&t.trace, l)
                             : k == 1 ? t.trace.z_mid + l * t.trace.z_mid_step
                                      : vt_trace_residual(&t.trace, l + 1);
            const float *g =
                k == 2 ? vt_trace_block_grad(&t.trace, l + 1) : vt_trace_norm_grad(&t.trace, l, (int)k + 1);
            const float *gamma = k == 0 ? w->norm1.gamma : w->norm2.gamma,
                        *beta = k == 0 ? w->norm1.beta : w->norm2.beta;
            char settings[64];
            double want[64] = {0};
            for (size_t i = prefix; i < T; i++) {
                double mean = 0.0, var = 0.0;
                for (size_t c = 0; c < width; c++)
                    mean += (double)z[i * width + c] / (double)width;
                for (size_t c = 0; c < width; c++)
                    var += pow((double)z[i * width + c] - mean, 2.0) / (double)width;
                for (size_t c = 0; c < width; c++) {
                    const double x = (double)z[i * width + c];
                    const double normed =
                        (x - mean) / sqrt(var + (double)t.info->norm_eps) * (double)gamma[c] + (double)beta[c];
                    want[i - prefix] += (double)g[i * width + c] * (k == 2 ? x : normed);
                }
            }
            snprintf(settings, sizeof settings, "layer=%zu tensor=%s", l, names[k]);
            expect(settings, vt_tiny_map(&t, "hirescam", settings)->values, want, T - prefix, 1e-5);
        }
    vt_tiny_close(&t);
}
END_TEST

/* The largest sum of |gradient x activation| of a patch behind block 0: what its values are the rest of, after products of both
 * signs have cancelled. */
static double magnitude(const vt_tiny_run *run)
{
    const size_t width = run->info->width;
    const float *x = vt_trace_residual(&run->trace, 1), *g = vt_trace_block_grad(&run->trace, 1); /* (T, width) */
    double most = 0.0;
    for (size_t t = run->info->prefix; t < run->info->tokens; t++) {
        double sum = 0.0;
        for (size_t i = 0; i < width; i++)
            sum += fabs((double)x[t * width + i] * (double)g[t * width + i]);
        most = fmax(most, sum);
    }
    return most;
}

/* The mirrored picture has the mirrored map. */
START_TEST(mirrored_picture)
{
    vt_tiny_run a, b;
    vt_tiny_open(&a, &nets[_i], 1, NULL);
    vt_tiny_open(&b, &nets[_i], 1, vt_tiny_flip);
    const size_t h = nets[_i].grid_h, w = nets[_i].grid_w;
    for (size_t m = 0; m < VT_COUNT(all); m++)
        for (size_t s = 0; s < VT_COUNT(tensors); s++) {
            const vt_map *first = vt_tiny_map(&a, all[m], tensors[s]), *second = vt_tiny_map(&b, all[m], tensors[s]);
            double top = 0.0;
            for (size_t i = 0; i < h * w; i++)
                top = fmax(top, fabs((double)first->values[i]));
            const double rounding = fmax(1e-7, 4.0 * (double)FLT_EPSILON * magnitude(&a));
            for (size_t i = 0; i < h * w; i++) {
                const double x = (double)first->values[i], y = (double)second->values[i / w * w + w - 1 - i % w];
                ck_assert_msg(fabs(x - y) <= 1e-3 * top + rounding, "%s %s, patch %zu: %.9g, mirrored %.9g", all[m],
                              tensors[s], i, x, y);
            }
        }
    vt_tiny_close(&a);
    vt_tiny_close(&b);
}
END_TEST

/* The default is never dead; after the last attention, a class token's net is, and a mean of patches is not. */
START_TEST(where_layers_are_dead)
{
    static const char *const late[] = {"tensor=norm2", "tensor=block"};
    vt_tiny_run t;
    vt_tiny_open(&t, &nets[_i], 1, NULL);
    for (size_t m = 0; m < VT_COUNT(with_gradient); m++) {
        vt_tiny_map(&t, with_gradient[m], "");
        ck_assert_uint_eq(t.out.warnings_count, 0);
        for (size_t s = 0; s < VT_COUNT(late); s++) {
            const vt_map *map = vt_tiny_map(&t, with_gradient[m], late[s]);
            ck_assert_msg(t.out.warnings_count == (nets[_i].prefix ? 1 : 0), "%s %s", with_gradient[m], late[s]);
            if (nets[_i].prefix)
                ck_assert_uint_ge(map->notes_count, 1);
        }
    }
    for (size_t s = 0; s < VT_COUNT(late); s++) { /* no gradient, no dead layer */
        vt_tiny_map(&t, "eigencam", late[s]);
        ck_assert_uint_eq(t.out.warnings_count, 0);
    }
    vt_tiny_close(&t);
}
END_TEST

/* A head that says nothing: zeros and the reason, but the layer is not to blame. */
START_TEST(zero_head_row)
{
    vt_tiny_run t;
    vt_tiny_open(&t, NULL, 1, vt_tiny_zero_head_row);
    const vt_map *map = vt_tiny_map(&t, with_gradient[_i], "");
    for (size_t i = 0; i < 4; i++)
        ck_assert(map->values[i] == 0.0f);
    ck_assert_uint_eq(t.out.warnings_count, 0);
    ck_assert_uint_eq(map->notes_count, 1);
    vt_tiny_close(&t);
}
END_TEST

/* Twice the score is twice the map, where the formula is homogeneous; a difference of scores is the difference of maps, where it
 * is linear. */
START_TEST(scaled_and_subtracted_scores)
{
    static const char *const homogeneous[] = {"gradcam", "xgradcam", "hirescam", "layercam", "eigengradcam"};
    static const char *const linear[] = {"gradcam", "xgradcam", "hirescam"};
    vt_tiny_run t;
    float one[4], other[4];
    vt_tiny_open(&t, NULL, 1, NULL);
    for (size_t m = 0; m < VT_COUNT(homogeneous); m++) {
        vt_tiny_backward(&t, 1, -1, 1.0f);
        memcpy(one, vt_tiny_map(&t, homogeneous[m], "")->values, sizeof one);
        vt_tiny_backward(&t, 1, -1, 2.0f);
        const vt_map *map = vt_tiny_map(&t, homogeneous[m], "");
        for (size_t i = 0; i < 4; i++)
            ck_assert_double_eq_tol((double)map->values[i], 2.0 * (double)one[i], 1e-5);
    }
    for (size_t m = 0; m < VT_COUNT(linear); m++) {
        vt_tiny_backward(&t, 1, -1, 1.0f);
        memcpy(one, vt_tiny_map(&t, linear[m], "")->values, sizeof one);
        vt_tiny_backward(&t, 2, -1, 1.0f);
        memcpy(other, vt_tiny_map(&t, linear[m], "")->values, sizeof other);
        vt_tiny_backward(&t, 1, 2, 1.0f);
        const vt_map *map = vt_tiny_map(&t, linear[m], "");
        for (size_t i = 0; i < 4; i++)
            ck_assert_double_eq_tol((double)map->values[i], (double)one[i] - (double)other[i], 1e-5);
    }
    vt_tiny_close(&t);
}
END_TEST

/* What eigencam reads is there without any backward, and the numbers are the same. */
START_TEST(eigencam_needs_no_class)
{
    static const char *const settings[] = {"", "tensor=norm2", "tensor=block", "layer=0 tensor=norm2"};
    const vt_explainer *x = vt_explainer_find("eigencam");
    vt_tiny_run t;
    vt_trace bare_trace;
    vt_output out;
    float want[15];
    vt_tiny_open(&t, &nets[0], 1, NULL);
    ck_assert(!(x->yields & VT_YIELDS_CLASS_SPECIFIC));
    ck_assert_int_eq(vt_trace_open(&bare_trace, t.model, x->needs, t.arena, NULL), VT_OK);
    ck_assert_int_eq(vt_forward(&bare_trace, t.image, NULL, NULL), VT_OK);
    vt_ctx ctx = t.ctx;
    ctx.trace = &bare_trace;
    ctx.dlogits = NULL;
    for (size_t s = 0; s < VT_COUNT(settings); s++) {
        memcpy(want, vt_tiny_map(&t, "eigencam", settings[s])->values, sizeof want);
        ck_assert_int_eq(vt_test_explain(&ctx, &out, "eigencam", settings[s], NULL), VT_OK);
        ck_assert_mem_eq(out.maps->values, want, sizeof want);
    }
    vt_tiny_close(&t);
}
END_TEST

/* The needs that a setting names are enough for it, and its scratch is what was declared. */
START_TEST(needs_and_scratch_are_enough)
{
    const vt_explainer *x = vt_explainer_find(all[_i]);
    static const char *const settings[] = {"", "tensor=norm2 layer=0", "tensor=block layer=1"};
    vt_tiny_run t;
    vt_tiny_open(&t, &nets[0], 1, NULL);
    for (size_t s = 0; s < VT_COUNT(settings); s++) {
        float want[15];
        vt_trace lean;
        vt_arena *arena;
        vt_ctx ctx = t.ctx;
        memcpy(want, vt_tiny_map(&t, all[_i], settings[s])->values, sizeof want);
        const uint32_t needs = x->needs_of ? x->needs_of(t.out.params) : x->needs;
        ck_assert_uint_eq(needs & ~x->needs, 0);
        ck_assert_int_eq(vt_trace_open(&lean, t.model, needs, t.arena, NULL), VT_OK);
        ck_assert_int_eq(vt_forward(&lean, t.image, NULL, NULL), VT_OK);
        if (needs & VT_NEEDS_BACKWARD) {
            lean.lowest = x->lowest_of(t.out.params);
            ck_assert_int_eq(vt_backward(&lean, t.dlogits, NULL, NULL), VT_OK);
            if (lean.lowest > 0)
                ck_assert(!vt_trace_norm_grad(&lean, lean.lowest - 1, 1) &&
                          !vt_trace_block_grad(&lean, lean.lowest - 1));
        }
        ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
        ctx.trace = &lean;
        ctx.arena = arena;
        const void *params = t.out.params;
        ck_assert_int_eq(vt_output_init(&t.out, arena, 1, NULL), VT_OK);
        const size_t before = vt_arena_used(arena);
        ck_assert_int_eq(x->run(&ctx, params, &t.out, NULL), VT_OK);
        ck_assert_mem_eq(t.out.maps->values, want, sizeof want);
        ck_assert_uint_le(vt_arena_peak(arena) - before, x->scratch(t.info, params) + 15 * sizeof(float) + 512);
        vt_arena_close(arena);
    }
    vt_tiny_close(&t);
}
END_TEST

/* The whole way, in an arena of exactly the stated size: all methods of the family side by side, and the warning of the answer. */
START_TEST(in_a_request)
{
    vt_tiny_run t;
    vt_tiny_open(&t, &nets[0], 1, NULL);
    for (size_t s = 0; s < 2; s++) {
        const vt_pair pairs[] = {
            {"method", "gradcam,gradcam_plus_plus,xgradcam,hirescam,layercam,eigengradcam,eigencam"},
            {"class", "1,2"},
            {"tensor", s ? "block" : "norm2"},
            {"layer", s ? "-1" : "0"}};
        const vt_result *result;
        vt_request *rq;
        vt_arena *arena;
        vt_error err = {0};
        ck_assert_msg(vt_request_open(&rq, t.model, NULL, pairs, VT_COUNT(pairs), 0, &err) == VT_OK, "%s", err.msg);
        ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), NULL), VT_OK);
        ck_assert_msg(vt_run_input(rq, t.image, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
        ck_assert_uint_eq(result->maps_count, 13); /* eigencam knows no class */
        for (size_t m = 0; m < VT_COUNT(all); m++) {
            const vt_map *map = &result->maps[2 * m];
            ck_assert_str_eq(map->method->name, all[m]);
            ck_assert(map->layer == (s ? 2 : 0) && map->empty == (s && m < 6) && (map->notes_count > 0 || !map->empty));
            if (!map->empty) {
                const vt_map *want = vt_tiny_map(&t, all[m], s ? "tensor=block" : "tensor=norm2 layer=0");
                ck_assert_mem_eq(map->values, want->values, 15 * sizeof(float));
            }
        }
        size_t dead = 0;
        for (size_t k = 0; k < result->warnings_count; k++)
            dead += strcmp(result->warnings[k].code, "dead_layer") == 0;
        ck_assert_uint_eq(dead, s ? 12 : 0);
        vt_arena_close(arena);
        vt_request_close(rq);
    }
    vt_tiny_close(&t);
}
END_TEST

/* A method that stops at the last block does not stop one beside it that goes to the first. */
START_TEST(beside_one_that_goes_further_down)
{
    static const char *const orders[] = {"gradcam,chefer_generic", "chefer_generic,gradcam"};
    const vt_pair pairs[] = {{"method", orders[_i]}, {"class", "1"}};
    const vt_result *result;
    vt_request *rq;
    vt_arena *arena;
    vt_tiny_run t;
    vt_tiny_open(&t, &nets[0], 1, NULL);
    ck_assert_int_eq(vt_request_open(&rq, t.model, NULL, pairs, VT_COUNT(pairs), 0, NULL), VT_OK);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), NULL), VT_OK);
    ck_assert_int_eq(vt_run_input(rq, t.image, arena, NULL, &result, NULL), VT_OK);
    ck_assert_uint_eq(result->maps_count, 2);
    for (size_t m = 0; m < 2; m++) {
        const vt_map *map = &result->maps[m];
        ck_assert_mem_eq(map->values, vt_tiny_map(&t, map->method->name, "")->values, 15 * sizeof(float));
    }
    vt_arena_close(arena);
    vt_request_close(rq);
    vt_tiny_close(&t);
}
END_TEST

#define EACH(test, list) tcase_add_loop_test(tc, test, 0, (int)VT_COUNT(list))

VT_SUITE("cam", tcase_add_loop_test(tc, equals_its_formula, 0, 5);
         tcase_add_test(tc, projection_is_the_first_principal_one);
         tcase_add_test(tc, gradcam_is_hirescam_for_an_even_gradient); tcase_add_test(tc, sums);
         tcase_add_test(tc, finite_where_sums_vanish); EACH(dead_layer_or_dead_class, with_gradient);
         EACH(appendix_a, appendix); EACH(reads_the_tensor_that_was_named, nets); EACH(mirrored_picture, nets);
         EACH(where_layers_are_dead, nets); EACH(zero_head_row, with_gradient);
         tcase_add_test(tc, scaled_and_subtracted_scores); tcase_add_test(tc, eigencam_needs_no_class);
         EACH(needs_and_scratch_are_enough, all); tcase_add_test(tc, in_a_request);
         tcase_add_loop_test(tc, beside_one_that_goes_further_down, 0, 2))
