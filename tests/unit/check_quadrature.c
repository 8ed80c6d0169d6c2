/* Quadrature rules against what they must integrate exactly. */
#include "engine/explain/gradient/path.h"
#include "tests/support/suite.h"

#include <math.h>

/* integral of a^power over 0 ... 1 by the rule */
static double moment(vt_quadrature rule, size_t n, int power)
{
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) {
        double alpha, weight;
        vt_quadrature_node(rule, k, n, &alpha, &weight);
        sum += weight * pow(alpha, power);
    }
    return sum;
}

START_TEST(three_nodes_of_appendix_a)
{
    static const double alpha[] = {0.11270167, 0.5, 0.88729833}, weight[] = {0.27777778, 0.44444444, 0.27777778};
    for (size_t k = 0; k < 3; k++) {
        double a, w;
        vt_quadrature_node(VT_QUADRATURE_GAUSS_LEGENDRE, k, 3, &a, &w);
        ck_assert_double_eq_tol(a, alpha[k], 5e-9);
        ck_assert_double_eq_tol(w, weight[k], 5e-9);
    }
}
END_TEST

/* n nodes integrate every polynomial of degree below 2n. */
START_TEST(gauss_legendre_is_exact)
{
    static const size_t counts[] = {1, 2, 3, 5, 8, 49, 50, 51, 64, 1024};
    for (size_t c = 0; c < VT_COUNT(counts); c++) {
        const size_t n = counts[c];
        for (int power = 0; power < (int)(n < 8 ? 2 * n : 16); power++)
            ck_assert_msg(fabs(moment(VT_QUADRATURE_GAUSS_LEGENDRE, n, power) - 1.0 / (power + 1)) < 1e-13,
                          "%zu nodes, degree %d: %.17g", n, power, moment(VT_QUADRATURE_GAUSS_LEGENDRE, n, power));
        if (n < 8)
            ck_assert_double_gt(
                fabs(moment(VT_QUADRATURE_GAUSS_LEGENDRE, n, (int)(2 * n)) - 1.0 / (2.0 * (double)n + 1.0)), 1e-12);
    }
}
END_TEST

START_TEST(weights_sum_to_one_and_nodes_ascend)
{
    static const size_t counts[] = {2, 3, 7, 50, 1000, 1024};
    for (size_t c = 0; c < VT_COUNT(counts); c++) {
        const size_t n = counts[c];
        double before = -1e-300;
        ck_assert_msg(fabs(moment((vt_quadrature)_i, n, 0) - 1.0) < 1e-13, "%s, %zu", vt_quadrature_names[_i], n);
        for (size_t k = 0; k < n; k++) {
            double a, w, mirrored, same;
            vt_quadrature_node((vt_quadrature)_i, k, n, &a, &w);
            ck_assert_msg(a > before && a <= 1.0 && w > 0.0, "%s, node %zu of %zu", vt_quadrature_names[_i], k, n);
            before = a;
            if (_i == VT_QUADRATURE_LEFT || _i == VT_QUADRATURE_RIGHT)
                continue;
            vt_quadrature_node((vt_quadrature)_i, n - 1 - k, n, &mirrored, &same);
            ck_assert_double_eq_tol(a + mirrored, 1.0, 1e-15);
            ck_assert_double_eq(w, same);
        }
    }
}
END_TEST

START_TEST(plain_rules)
{
    double a, w;
    vt_quadrature_node(VT_QUADRATURE_TRAPEZOID, 0, 5, &a, &w);
    ck_assert(a == 0.0 && w == 0.125);
    vt_quadrature_node(VT_QUADRATURE_TRAPEZOID, 3, 5, &a, &w);
    ck_assert(a == 0.75 && w == 0.25);
    vt_quadrature_node(VT_QUADRATURE_LEFT, 0, 4, &a, &w);
    ck_assert(a == 0.0 && w == 0.25);
    vt_quadrature_node(VT_QUADRATURE_RIGHT, 3, 4, &a, &w);
    ck_assert(a == 1.0 && w == 0.25);
    vt_quadrature_node(VT_QUADRATURE_MIDDLE, 1, 4, &a, &w);
    ck_assert(a == 0.375 && w == 0.25);
    ck_assert_double_eq_tol(moment(VT_QUADRATURE_TRAPEZOID, 9, 1), 0.5, 1e-15);
    ck_assert_double_eq_tol(moment(VT_QUADRATURE_MIDDLE, 9, 1), 0.5, 1e-15);
    ck_assert_double_eq_tol(moment(VT_QUADRATURE_LEFT, 10, 1), 0.45, 1e-15);
    ck_assert_double_eq_tol(moment(VT_QUADRATURE_RIGHT, 10, 1), 0.55, 1e-15);
}
END_TEST

VT_SUITE("quadrature", tcase_add_test(tc, three_nodes_of_appendix_a); tcase_add_test(tc, gauss_legendre_is_exact);
         tcase_add_loop_test(tc, weights_sum_to_one_and_nodes_ascend, 0, VT_QUADRATURE_MIDDLE + 1);
         tcase_add_test(tc, plain_rules))
