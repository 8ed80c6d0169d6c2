/* Progress events: their text, and an estimate only where there can be one. */
#include "server/http/progress.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <math.h>
#include <string.h>

#define MS INT64_C(1000000)

/* Reports of one job in turn, with the estimate after each by hand: time since the stage's first report, divided by what
 * was done since then, times what is left. */
static const struct {
    const char *stage;
    uint64_t done, total;
    int64_t at_ms;
    double left_ms; /* -1: not known */
} reports[] = {
    {"forward", 1, 1, 500, 0.0}, /* done with its first report */
    {"steps", 2, 10, 600, -1.0}, /* nobody knows when it began */
    {"steps", 2, 10, 650, -1.0}, /* nothing new was done */
    {"steps", 4, 10, 700, 300.0},  {"steps", 9, 10, 1300, 100.0},
    {"steps", 10, 10, 1400, 0.0},  {"steps", 1, 10, 1500, -1.0}, /* the next target: it begins anew */
    {"steps", 2, 10, 1550, 400.0}, {"steps", 3, 20, 1600, -1.0}, /* another method with a stage of this name */
    {"steps", 5, 20, 1700, 750.0}, {"render", 0, 4, 1700, -1.0},
    {"render", 1, 4, 1710, 30.0},  {"render", 9, 4, 1720, 0.0}, /* more than there is: all of it */
};

START_TEST(estimates)
{
    vts_progress p = {.stage = ""};
    for (size_t k = 0; k < VT_COUNT(reports); k++) {
        vts_progress_note(&p, reports[k].stage, reports[k].done, reports[k].total, reports[k].at_ms * MS);
        const double left = vts_progress_left_ms(&p);
        ck_assert_msg(fabs(left - reports[k].left_ms) < 1e-6, "report %zu: %g ms are left, expected %g", k, left,
                      reports[k].left_ms);
    }
}
END_TEST

START_TEST(texts)
{
    char text[128];
    vts_progress p = {.stage = ""};
    vts_progress_note(&p, "masks", 120, 1000, 5 * MS);
    ck_assert_uint_gt(vts_progress_text(&p, text, sizeof text), 0);
    ck_assert_str_eq(text,
                     "event: progress\ndata: {\"done\":120,\"total\":1000,\"stage\":\"masks\",\"eta_ms\":null}\n\n");
    vts_progress_note(&p, "masks", 220, 1000, 15 * MS);
    ck_assert_uint_eq(vts_progress_text(&p, text, sizeof text), strlen(text));
    ck_assert_str_eq(text,
                     "event: progress\ndata: {\"done\":220,\"total\":1000,\"stage\":\"masks\",\"eta_ms\":78}\n\n");
    ck_assert_uint_eq(vts_progress_text(&p, text, 40), 0);
}
END_TEST

/* A name that is longer than its field stays the same stage. */
START_TEST(long_names)
{
    static const char name[] = "a_stage_whose_name_is_longer_than_its_field";
    vts_progress p = {.stage = ""};
    vts_progress_note(&p, name, 1, 3, 0);
    vts_progress_note(&p, name, 2, 3, 10 * MS);
    ck_assert_double_eq_tol(vts_progress_left_ms(&p), 10.0, 1e-9);
    ck_assert_uint_eq(strlen(p.stage), sizeof p.stage - 1);
}
END_TEST

VT_SUITE("progress", tcase_add_test(tc, estimates); tcase_add_test(tc, texts); tcase_add_test(tc, long_names))
