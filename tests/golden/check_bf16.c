/* Forwards in bf16 on the real ViT-Ti against the float32 references.
 *
 * A bf16 has 8 bits of mantissa, so each operand of a product is off by up to 2^-9 of itself; the fp32 tolerances of the
 * references cannot hold. Those below are twice the worst that was seen over the four pictures, and as far as one can say
 * beforehand they are what such rounding gives: 2^-9 an operand, two operands, 12 blocks whose errors add up like steps of a
 * walk, is 2^-8.5 * sqrt(12) = 1 % of a typical value of the residual stream. */
#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int best;
} pictures[] = {{"both.png", 243}, {"plane.png", 404}, {"tabby.jpg", 285}, {"bull_mastiff.jpg", 243}};

enum { LOGITS, PROBS, ATTENTION, ROLLOUT, KINDS };
static const struct {
    const char *prefix, *what;
    double tol;
    bool of_largest; /* the tolerance is a part of the largest reference value */
} kinds[KINDS] = {
    [LOGITS] = {"predict.logits", "logits", 0.2, false},
    [PROBS] = {"predict.probs", "probabilities", 0.0125, false},
    [ATTENTION] = {"attention.cls", "class attention", 0.0055, false},
    [ROLLOUT] = {"rollout.mean.d0.0.s0", "rollout", 0.0125, true},
};

typedef struct look {
    vt_bench bench;
    double worst[KINDS]; /* error, as a part of the largest where the tolerance is */
    size_t seen[KINDS];
} look;

static void softmax_of(float *probs, const float *logits, size_t n)
{
    memcpy(probs, logits, n * sizeof *probs);
    vt_softmax_forward(probs, 1, n);
}

static void compare(void *host, size_t k, const vt_golden_row *row)
{
    look *l = host;
    float got[36 * 196];
    size_t n = 0;
    double largest = 0.0;
    const size_t length = strlen(row->name);
    if (k == ATTENTION && strcmp(row->name, "attention.cls") != 0)
        return;
    if (length > 5 && strcmp(row->name + length - 5, ".norm") == 0) /* the same map, divided */
        return;
    if (k == LOGITS || k == PROBS) {
        n = l->bench.info->classes;
        ck_assert_uint_le(n, VT_COUNT(got));
        memcpy(got, l->bench.trace.logits, n * sizeof *got);
        if (k == PROBS)
            softmax_of(got, l->bench.trace.logits, n);
    } else {
        const vt_output *out = vt_bench_explain(&l->bench, row);
        for (size_t m = 0; m < out->count; m++) {
            const size_t cells = out->maps[m].h * out->maps[m].w;
            ck_assert_uint_le(n + cells, VT_COUNT(got));
            memcpy(got + n, out->maps[m].values, cells * sizeof *got);
            n += cells;
        }
    }
    ck_assert_uint_eq(n, row->count);
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)row->want[i]));
    l->worst[k] = vt_test_max_diff(got, row->want, n, 0) / (kinds[k].of_largest ? largest : 1.0);
    l->seen[k]++;
}

START_TEST(a_forward_in_bf16_comes_near)
{
    const char *picture = pictures[_i].name, *prefixes[KINDS];
    look l = {.seen = {0}};
    vt_error err = {0};
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    json_t *index = vt_golden_index();
    vt_bench_open(&l.bench, picture, true);
    ck_assert_msg(vt_model_pack_bf16(l.bench.model, &err) == VT_OK, "%s", err.msg);
    ck_assert(l.bench.info->bf16);
    ck_assert_msg(vt_trace_open(&l.bench.trace, l.bench.model, VT_NEEDS_ATTN | VT_NEEDS_BF16, l.bench.arena, &err) ==
                      VT_OK,
                  "%s", err.msg);
    ck_assert_msg(vt_forward(&l.bench.trace, l.bench.input, NULL, &err) == VT_OK, "%s", err.msg);

    int best = 0;
    for (int c = 0; c < (int)l.bench.info->classes; c++)
        best = l.bench.trace.logits[c] > l.bench.trace.logits[best] ? c : best;
    for (size_t k = 0; k < KINDS; k++)
        prefixes[k] = kinds[k].prefix;
    vt_golden_each(index, picture, prefixes, KINDS, compare, &l);
    printf("golden %s, %s: best class %d", picture, vt_backend_name(l.bench.trace.backend), best);
    for (size_t k = 0; k < KINDS; k++)
        printf(", %s %.2g%s", kinds[k].what, l.worst[k], kinds[k].of_largest ? " of the largest" : "");
    printf("\n");
    fflush(stdout);
    ck_assert_int_eq(best, pictures[_i].best);
    for (size_t k = 0; k < KINDS; k++) {
        ck_assert_msg(l.seen[k] == 1, "%zu tensors of %s", l.seen[k], kinds[k].prefix);
        ck_assert_msg(l.worst[k] <= kinds[k].tol, "%s: %s is off by %g, more than %g", picture, kinds[k].what,
                      l.worst[k], kinds[k].tol);
        ck_assert_msg(l.worst[k] > 0.01 * kinds[k].tol, "%s: %s is off by %g only: was that bf16?", picture,
                      kinds[k].what, l.worst[k]);
    }
    vt_bench_close(&l.bench);
    json_decref(index);
}
END_TEST

VT_SUITE("bf16", tcase_set_timeout(tc, 240);
         tcase_add_loop_test(tc, a_forward_in_bf16_comes_near, 0, (int)VT_COUNT(pictures)))
