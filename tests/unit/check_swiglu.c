/* swiglu.c against libm in double: values, both derivatives, the relevance rule, and every number the same whatever its
 * place. */
#include "engine/layers/layers.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

enum { N = 1031 }; /* not a multiple of any vector */
static float value[N], gate[N], dout[N], out[N], dvalue[N], dgate[N];

static void fill(void)
{
    vt_test_fill(value, N, 1);
    vt_test_fill(gate, N, 2);
    vt_test_fill(dout, N, 3);
    for (size_t i = 0; i < N; i++)
        gate[i] *= 8.0f;
    gate[0] = 0.0f, gate[1] = 200.0f, gate[2] = -200.0f; /* beyond every exponential */
}

static double sigmoid(double x)
{
    return x < 0.0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x));
}

static void near(const char *what, size_t i, float got, double want)
{
    ck_assert_msg(fabs((double)got - want) <= 1e-6 * fmax(1.0, fabs(want)), "%s [%zu], gate %.9g: %.9g, not %.9g", what,
                  i, (double)gate[i], (double)got, want);
}

START_TEST(matches_libm)
{
    fill();
    vt_swiglu_forward(out, value, gate, N);
    vt_swiglu_backward(dvalue, dgate, dout, value, gate, N);
    for (size_t i = 0; i < N; i++) {
        const double g = (double)gate[i], s = sigmoid(g), v = (double)value[i], d = (double)dout[i];
        near("value", i, out[i], v * g * s);
        near("derivative by the value", i, dvalue[i], d * g * s);
        near("derivative by the gate", i, dgate[i], d * v * (s + g * s * (1.0 - s)));
    }
}
END_TEST

/* Relevance is input times what comes back: each factor holds half of what the product had. */
START_TEST(relevance_is_halved)
{
    fill();
    vt_swiglu_forward(out, value, gate, N);
    vt_swiglu_relprop(dvalue, dgate, dout, value, gate, N);
    for (size_t i = 0; i < N; i++) {
        const double half = 0.5 * (double)out[i] * (double)dout[i];
        near("relevance of the value", i, dvalue[i] * value[i], half);
        near("relevance of the gate", i, dgate[i] * gate[i], half);
    }
    near("factor of a gate that is zero", 0, dgate[0], 0.25 * (double)dout[0] * (double)value[0]);
}
END_TEST

START_TEST(in_place_and_any_length)
{
    float one[N], other[N];
    fill();
    vt_swiglu_backward(dvalue, dgate, dout, value, gate, N);
    for (size_t n = 1; n < 40; n++) {
        memcpy(one, dout, sizeof one);
        vt_swiglu_backward(one, other, one, value, gate, n);
        ck_assert_mem_eq(one, dvalue, n * sizeof *one);
        ck_assert_mem_eq(other, dgate, n * sizeof *other);
        ck_assert(one[n] == dout[n]);
    }
    vt_swiglu_forward(out, value, gate, N);
    memcpy(one, value, sizeof one);
    vt_swiglu_forward(one, one, gate, N);
    ck_assert_mem_eq(one, out, sizeof one);
}
END_TEST

VT_SUITE("swiglu", tcase_add_test(tc, matches_libm); tcase_add_test(tc, relevance_is_halved);
         tcase_add_test(tc, in_place_and_any_length))
