/* Mean, max and min over heads; sizes around the block of the loop. */
#include "engine/explain/base/method.h"
#include "tests/support/suite.h"

#include <math.h>

enum { H_MAX = 5, N_MAX = 1100 };
static float x[H_MAX * N_MAX], y[H_MAX * N_MAX], out[N_MAX + 1];

START_TEST(equals_the_plain_loop)
{
    static const size_t sizes[] = {0, 1, 5, 511, 512, 513, 1024, 1099};
    const size_t n = sizes[_i];
    vt_test_fill(x, VT_COUNT(x), 1);
    vt_test_fill(y, VT_COUNT(y), 2);
    for (size_t H = 1; H <= H_MAX; H++)
        for (int fusion = 0; fusion < 3; fusion++)
            for (int products = 0; products < 2; products++) {
                out[n] = 123.0f;
                if (products)
                    vt_fuse_products(out, x, y, (vt_fusion)fusion, H, n);
                else
                    vt_fuse_heads(out, x, (vt_fusion)fusion, H, n);
                for (size_t i = 0; i < n; i++) {
                    double sum = 0.0, max = -HUGE_VAL, min = HUGE_VAL;
                    for (size_t h = 0; h < H; h++) {
                        const double v = (double)x[h * n + i] * (products ? (double)y[h * n + i] : 1.0);
                        sum += v;
                        max = fmax(max, v);
                        min = fmin(min, v);
                    }
                    double want = fusion == VT_FUSE_MEAN ? sum * (1.0 / (double)H) : fusion == VT_FUSE_MAX ? max : min;
                    if (products) /* what is negative then is dropped */
                        want = fmax(want, 0.0);
                    ck_assert_msg(out[i] == (float)want, "H %zu, %s, n %zu, element %zu", H, vt_fusion_names[fusion], n,
                                  i);
                }
                ck_assert(out[n] == 123.0f);
            }
}
END_TEST

START_TEST(positive_parts_of_products)
{
    const size_t n = 1 + (size_t)_i * 370;
    vt_test_fill(x, VT_COUNT(x), 1);
    vt_test_fill(y, VT_COUNT(y), 2);
    for (size_t H = 1; H <= H_MAX; H++) {
        out[n] = 123.0f;
        vt_fuse_positive(out, x, y, H, n);
        for (size_t i = 0; i < n; i++) {
            double sum = 0.0;
            for (size_t h = 0; h < H; h++)
                sum += fmax((double)x[h * n + i] * (double)y[h * n + i], 0.0);
            ck_assert_msg(out[i] == (float)(sum * (1.0 / (double)H)), "H %zu, n %zu, element %zu", H, n, i);
        }
        ck_assert(out[n] == 123.0f);
    }
}
END_TEST

START_TEST(positive_parts_are_added)
{
    static double sum[N_MAX];
    const size_t n = 1 + (size_t)_i * 37;
    vt_test_fill(x, n, 1);
    for (size_t i = 0; i < n; i++)
        sum[i] = (double)i;
    vt_add_positive(sum, x, 0.25, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(sum[i] == (double)i + 0.25 * fmax((double)x[i], 0.0), "n %zu, element %zu", n, i);
}
END_TEST

/* min <= mean <= max, and all three agree on one head */
START_TEST(order_of_the_three)
{
    static float mean[N_MAX], max[N_MAX], min[N_MAX];
    vt_test_fill(x, VT_COUNT(x), 3);
    for (size_t H = 1; H <= H_MAX; H++) {
        vt_fuse_heads(mean, x, VT_FUSE_MEAN, H, N_MAX);
        vt_fuse_heads(max, x, VT_FUSE_MAX, H, N_MAX);
        vt_fuse_heads(min, x, VT_FUSE_MIN, H, N_MAX);
        for (size_t i = 0; i < N_MAX; i++) {
            ck_assert(min[i] <= mean[i] && mean[i] <= max[i]);
            ck_assert(H > 1 || (min[i] == x[i] && max[i] == x[i] && mean[i] == x[i]));
        }
    }
}
END_TEST

VT_SUITE("fusion", tcase_add_loop_test(tc, equals_the_plain_loop, 0, 8); tcase_add_test(tc, order_of_the_three);
         tcase_add_loop_test(tc, positive_parts_of_products, 0, 3);
         tcase_add_loop_test(tc, positive_parts_are_added, 0, 30))
