/* The free metrics: values by hand, and slow independent forms (sorting) on odd sizes with ties. */
#include "engine/evaluate/metric.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double measure(const char *name, const double *mass, size_t n)
{
    const vt_metric *metric = vt_metric_find(name);
    vt_arena *arena;
    ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
    const vt_metric_ctx ctx = {.mass = mass, .cells = n, .arena = arena};
    vt_metric_value value = {.metric = metric, .value = (double)NAN};
    ck_assert_msg(metric != NULL, "no metric %s", name);
    ck_assert_int_eq(metric->measure(&ctx, NULL, &value, NULL), VT_OK);
    vt_arena_close(arena);
    return value.value;
}

static void expect(const char *name, const double *mass, size_t n, double truth)
{
    const double got = measure(name, mass, n);
    ck_assert_msg(fabs(got - truth) < 1e-12, "%s of %zu cells is %.17g, by hand %.17g", name, n, got, truth);
}

START_TEST(by_hand)
{
    const double even[4] = {2, 2, 2, 2};
    expect("entropy", even, 4, log(4.0));
    expect("gini", even, 4, 0.0);
    expect("mass_top10", even, 4, 0.25); /* ceil(4 / 10) = 1 cell */

    const double one[5] = {0, 0, 7, 0, 0};
    expect("entropy", one, 5, 0.0);
    expect("gini", one, 5, 0.8);
    expect("mass_top10", one, 5, 1.0);

    const double steps[4] = {1, 3, 0, 4}; /* pairs differ by 2 1 3 3 1 4 = 14; 14 / (4 * 8) */
    expect("gini", steps, 4, 0.4375);
    expect("entropy", steps, 4, -(0.125 * log(0.125) + 0.375 * log(0.375) + 0.5 * log(0.5)));
    expect("mass_top10", steps, 4, 0.5);

    double eleven[11] = {5, 1, 1, 1, 1, 5, 1, 1, 1, 2, 1}; /* ceil(11 / 10) = 2 cells of 5; total 20 */
    expect("mass_top10", eleven, 11, 0.5);
    eleven[9] = 5; /* three cells tie for two places; total 23 */
    expect("mass_top10", eleven, 11, 10.0 / 23.0);

    const double ten[10] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 3}; /* exactly one cell */
    expect("mass_top10", ten, 10, 1.0);
    const double single[1] = {0.3};
    expect("entropy", single, 1, 0.0);
    expect("gini", single, 1, 0.0);
    expect("mass_top10", single, 1, 1.0);
}
END_TEST

START_TEST(nothing_is_undefined)
{
    const double zeros[7] = {0};
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        if (!(metric->flags & VT_METRIC_FREE))
            continue;
        ck_assert_msg(isnan(measure(metric->name, zeros, 7)), "%s of nothing is not NaN", metric->name);
        ck_assert_msg(isnan(measure(metric->name, zeros, 0)), "%s of no cells is not NaN", metric->name);
    }
}
END_TEST

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

START_TEST(against_sorting)
{
    enum { N = 197 };
    float raw[N];
    double mass[N], sorted[N], total = 0.0, weighted = 0.0, top = 0.0;
    vt_test_fill(raw, N, (uint32_t)_i + 1);
    for (int i = 0; i < N; i++) {
        mass[i] = raw[i] > 0.0f ? floor((double)raw[i] * (_i + 2)) * 1e-3 : 0.0; /* many ties, many zeros */
        sorted[i] = mass[i];
        total += mass[i];
    }
    qsort(sorted, N, sizeof *sorted, by_value);
    for (int i = 0; i < N; i++)
        weighted += (i + 1) * sorted[i];
    for (int i = N - 20; i < N; i++) /* ceil(19.7) */
        top += sorted[i];
    const double gini = 2.0 * weighted / (N * total) - (N + 1.0) / N;
    ck_assert_msg(fabs(measure("gini", mass, N) - gini) < 1e-12, "gini %.15g, by sorting %.15g",
                  measure("gini", mass, N), gini);
    ck_assert_msg(fabs(measure("mass_top10", mass, N) - top / total) < 1e-12, "mass_top10 %.15g, by sorting %.15g",
                  measure("mass_top10", mass, N), top / total);
}
END_TEST

START_TEST(scale_does_not_matter)
{
    enum { N = 49 };
    float raw[N];
    double mass[N], scaled[N];
    static const double factors[] = {1e-300, 1e-30, 3.0, 1e30};
    vt_test_fill(raw, N, 11);
    for (size_t f = 0; f < VT_COUNT(factors); f++) {
        for (int i = 0; i < N; i++) {
            mass[i] = fabs((double)raw[i]);
            scaled[i] = mass[i] * factors[f];
        }
        for (size_t k = 0; k < vt_metric_count(); k++) {
            const char *name = vt_metric_names[k];
            if (!(vt_metric_at(k)->flags & VT_METRIC_FREE))
                continue;
            const double a = measure(name, mass, N), b = measure(name, scaled, N);
            ck_assert_msg(fabs(a - b) < 1e-12, "%s: %g, and %g times %g", name, a, b, factors[f]);
            ck_assert_msg(a >= 0.0 && (strcmp(name, "entropy") == 0 ? a <= log(N) : a <= 1.0), "%s is %g", name, a);
        }
    }
}
END_TEST

START_TEST(the_registry)
{
    static const char *const order[] = {"entropy",
                                        "gini",
                                        "mass_top10",
                                        "pointing",
                                        "mass_in_mask",
                                        "iou",
                                        "ap",
                                        "deletion",
                                        "insertion",
                                        "aopc_morf",
                                        "aopc_lerf",
                                        "lodds",
                                        "saco",
                                        "road",
                                        "infidelity",
                                        "sensitivity_n",
                                        "confidence_drop",
                                        "confidence_increase",
                                        "max_sensitivity",
                                        "randomisation"};
    enum { FREE = 3, LOCAL = 7 }; /* where the free ones end, and those that read a mask */
    const vt_model_info info = {.layers = 12, .image_h = 64, .image_w = 80, .grid_h = 4, .grid_w = 5};
    max_align_t params[512];
    ck_assert_uint_eq(vt_metric_count(), VT_COUNT(order));
    for (size_t k = 0; k < VT_COUNT(order); k++) {
        const vt_metric *metric = vt_metric_at(k);
        ck_assert_str_eq(metric->name, order[k]);
        ck_assert_str_eq(vt_metric_names[k], order[k]);
        ck_assert(vt_metric_find(order[k]) == metric);
        ck_assert(metric->title && metric->summary && metric->source && metric->measure);
        ck_assert_uint_le(metric->params_size, sizeof params);
        vt_params_default(metric->params, metric->params_count, &info, params);
        const bool asks = (metric->flags & (VT_METRIC_FORWARDS | VT_METRIC_RERUNS)) != 0;
        ck_assert_int_eq(metric->cost(&info, params) > 0.0, asks);
        ck_assert_int_eq(asks, k >= LOCAL);
        ck_assert_int_eq(metric->bytes != NULL, asks);
        ck_assert_int_eq((metric->flags & VT_METRIC_FREE) != 0, k < FREE);
        ck_assert_int_eq((metric->flags & VT_METRIC_NEEDS_MASK) != 0, k >= FREE && k < LOCAL);
        ck_assert_int_eq(metric->curves != NULL, metric->curve_points != NULL);
        for (size_t j = 0; j < k; j++) /* one place in `curves` for each */
            for (size_t c = 0; metric->curves && metric->curves[c]; c++)
                for (size_t d = 0; vt_metric_at(j)->curves && vt_metric_at(j)->curves[d]; d++)
                    ck_assert_str_ne(metric->curves[c], vt_metric_at(j)->curves[d]);
        if (metric->curves)
            ck_assert_uint_gt(metric->curve_points(&info, params), 0);
    }
    char name[VT_ERROR_PARAM], cut[6];
    const vt_metric *ap = vt_metric_find("iou");
    ck_assert_uint_gt(ap->params_count, 0);
    ck_assert_str_eq(vt_metric_param_name(name, sizeof name, ap, &ap->params[0]), "iou.threshold");
    ck_assert_str_eq(vt_metric_param_name(cut, sizeof cut, ap, &ap->params[0]), "iou.t");
    ck_assert_ptr_null(vt_metric_names[vt_metric_count()]);
    ck_assert_ptr_null(vt_metric_at(vt_metric_count()));
    ck_assert_ptr_null(vt_metric_find("ginny"));
}
END_TEST

VT_SUITE("metrics", tcase_add_test(tc, by_hand), tcase_add_test(tc, nothing_is_undefined),
         tcase_add_loop_test(tc, against_sorting, 0, 12), tcase_add_test(tc, scale_does_not_matter),
         tcase_add_test(tc, the_registry))
