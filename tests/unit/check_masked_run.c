/* Runs with a mask on the embedded model: what a request may ask for, whose size the mask must have, where it counts. */
#include "tests/support/label_png.h"
#include "tests/support/suite.h"
#include "vitral/evaluate.h"
#include "vitral/run.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

static vt_model *model;
static vt_arena *arena;

enum { W = 60, H = 40 }; /* upright; the model sees the middle 40 x 40 at most */

static void setup(void)
{
    vt_error err = {0};
    ck_assert_msg(vt_model_open(&model, NULL, NULL, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_arena_bytes(model, &vt_limits_default), NULL), VT_OK);
}

static void teardown(void)
{
    vt_arena_close(arena);
    vt_model_close(model);
}

/* "a=1&b=2" as pairs; the request keeps copies */
static vt_status open_request(vt_request **out, const char *query, unsigned flags, const vt_limits *limits,
                              vt_error *err)
{
    char text[512];
    vt_pair pairs[16];
    size_t count = 0;
    snprintf(text, sizeof text, "%s", query);
    for (char *at = text; *at && count < VT_COUNT(pairs);) {
        char *end = at + strcspn(at, "&"), *value = at + strcspn(at, "=");
        const bool last = *end == '\0';
        *end = *value = '\0';
        pairs[count++] = (vt_pair){at, value + 1};
        at = last ? end : end + 1;
    }
    return vt_request_open(out, model, limits, pairs, count, flags, err);
}

/* An upright gradient picture with a bright block in it; stored so that `orientation` brings it upright. */
static uint8_t *make_picture(int orientation, size_t *size)
{
    static unsigned samples[W * H * 3];
    const size_t w = orientation == 6 ? H : W, h = orientation == 6 ? W : H;
    ck_assert(orientation == 0 || orientation == 6);
    for (size_t y = 0; y < H; y++)
        for (size_t x = 0; x < W; x++) {
            const bool block = x >= 20 && x < 32 && y >= 6 && y < 18;
            /* 6 is to be turned clockwise: the first row that is stored is the right column */
            unsigned *to = samples + 3 * (orientation == 6 ? (W - 1 - x) * H + y : y * W + x);
            to[0] = block ? 250 : (unsigned)(x * 4);
            to[1] = block ? 240 : (unsigned)(y * 6);
            to[2] = block ? 30 : 90;
        }
    const vt_test_png png = {PNG_COLOR_TYPE_RGB, 8, w, h, samples, 0, orientation, 0};
    return vt_test_png_write(&png, size);
}

static const vt_result *run(const char *query, const uint8_t *picture, size_t picture_size, const uint8_t *mask,
                            size_t mask_size, vt_request **request, vt_status expected, vt_error *err)
{
    const vt_files files = {picture, picture_size, mask, mask_size};
    const vt_result *result = NULL;
    ck_assert_msg(open_request(request, query, VT_REQUEST_MASK, NULL, err) == VT_OK, "%s: %s", query, err->msg);
    vt_arena_reset(arena, SIZE_MAX);
    const vt_status st = vt_run_files(*request, &files, arena, NULL, &result, err);
    ck_assert_msg(st == expected, "%s: %s, %s", query, vt_status_name(st), err->msg);
    return result;
}

#define ALL "method=gradcam,input_x_gradient,rollout&output=values&metrics=ap,pointing,iou,mass_in_mask"

/* ---- what may be asked for ---- */

static const struct {
    const char *query;
    unsigned flags;
    const char *param, *says, *allowed; /* param NULL: it is good */
} requests[] = {
    {"metrics=iou", VT_REQUEST_MASK, NULL, "", ""},
    {"metrics=iou,entropy&iou.threshold=0.5", VT_REQUEST_MASK, NULL, "", ""},
    {"pointing.tolerance=0&metrics=pointing", VT_REQUEST_MASK, NULL, "", ""},
    {"metrics=iou", 0, "metrics", "iou compares a map with a mask", "mask"},
    {"metrics=gini,ap", 0, "metrics", "ap compares", "mask"},
    {"", VT_REQUEST_MASK, "mask", "nothing that is asked for reads", "pointing, mass_in_mask, iou, ap"},
    {"metrics=gini", VT_REQUEST_MASK, "mask", "nothing that is asked for reads", "iou"},
    {"metrics=none", VT_REQUEST_MASK, "mask", "nothing that is asked for reads", "iou"},
    {"top=1", VT_REQUEST_MASK | VT_REQUEST_PREDICT, "mask", "prediction", "no mask"},
    {"iou.threshold=0.5", 0, "iou.threshold", "not asked for", "metrics=iou"},
    {"metrics=ap&iou.threshold=0.5", VT_REQUEST_MASK, "iou.threshold", "not asked for", "metrics=iou"},
    {"metrics=none&iou.threshold=0.5", 0, "iou.threshold", "not asked for", "metrics=iou"},
    {"metrics=iou&iou.threshold=1", VT_REQUEST_MASK, "iou.threshold", "iou.threshold", "0 <= iou.threshold < 1"},
    {"metrics=iou&iou.threshold=nan", VT_REQUEST_MASK, "iou.threshold", "iou.threshold", "0 <= iou.threshold < 1"},
    {"metrics=iou&iou.threshold=", VT_REQUEST_MASK, "iou.threshold", "", ""},
    {"metrics=pointing&pointing.tolerance=1.5", VT_REQUEST_MASK, "pointing.tolerance", "", "pointing.tolerance"},
    {"metrics=pointing&pointing.tolerance=-1", VT_REQUEST_MASK, "pointing.tolerance", "", "pointing.tolerance"},
    {"metrics=iou&iou.treshold=0.5", VT_REQUEST_MASK, "iou.treshold", "did you mean iou.threshold",
     "pointing.tolerance"},
    {"metrics=iou&uoi.threshold=0.5", VT_REQUEST_MASK, "uoi.threshold", "there is no parameter", "iou.threshold"},
    {"metrics=iou&iou.threshold=0.1&iou.threshold=0.2", VT_REQUEST_MASK, "iou.threshold", "twice", ""},
    {"iou.threshold=0.5", VT_REQUEST_PREDICT, "iou.threshold", "", ""},
    /* a form whose rest is to come: `metrics` and the mask may be in it, another threshold may not */
    {"metrics=iou", VT_REQUEST_PARTIAL, NULL, "", ""},
    {"iou.threshold=0.5", VT_REQUEST_PARTIAL, NULL, "", ""},
    {"iou.threshold=5", VT_REQUEST_PARTIAL, "iou.threshold", "", "0 <= iou.threshold < 1"},
    {"iou.nosuch=5", VT_REQUEST_PARTIAL, "iou.nosuch", "there is no parameter", "iou.threshold"},
    {"metrics=ap&iou.threshold=0.5", VT_REQUEST_PARTIAL, "iou.threshold", "not asked for", ""},
};

START_TEST(what_may_be_asked_for)
{
    vt_request *request = NULL;
    vt_error err = {0};
    const vt_status st = open_request(&request, requests[_i].query, requests[_i].flags, NULL, &err);
    if (!requests[_i].param) {
        ck_assert_msg(st == VT_OK, "%s: %s", requests[_i].query, err.msg);
        vt_request_close(request);
        return;
    }
    ck_assert_msg(st == VT_E_INVALID, "%s: %s", requests[_i].query, vt_status_name(st));
    ck_assert_str_eq(err.param, requests[_i].param);
    ck_assert_msg(strstr(err.msg, requests[_i].says), "%s: %s", requests[_i].query, err.msg);
    ck_assert_msg(strstr(err.allowed, requests[_i].allowed), "%s: allowed %s", requests[_i].query, err.allowed);
}
END_TEST

START_TEST(the_canonical_text_knows_metric_parameters)
{
    static const char *const queries[] = {"metrics=iou,ap", "metrics=ap,iou&iou.threshold=0.2",
                                          "iou.threshold=0.20&metrics=iou,ap", "metrics=iou,ap&iou.threshold=0.3"};
    vt_request *requests_[VT_COUNT(queries)];
    for (size_t k = 0; k < VT_COUNT(queries); k++) {
        ck_assert_int_eq(open_request(&requests_[k], queries[k], VT_REQUEST_MASK, NULL, NULL), VT_OK);
        const bool same = strcmp(vt_request_canonical(requests_[k]), vt_request_canonical(requests_[0])) == 0;
        ck_assert_msg(same == (k < 3), "%s", queries[k]);
    }
    for (size_t k = 0; k < VT_COUNT(queries); k++)
        vt_request_close(requests_[k]);
}
END_TEST

/* ---- the mask and the picture ---- */

START_TEST(its_size_is_that_of_the_upright_picture)
{
    size_t turned_size, upright_mask_size, stored_mask_size;
    uint8_t *turned = make_picture(6, &turned_size);
    uint8_t *upright_mask = vt_test_box_png(W, H, 20, 6, 32, 18, &upright_mask_size);
    uint8_t *stored_mask = vt_test_box_png(H, W, 20, 6, 32, 18, &stored_mask_size);
    vt_request *request;
    vt_error err = {0};

    run(ALL, turned, turned_size, upright_mask, upright_mask_size, &request, VT_OK, &err);
    vt_request_close(request);
    run(ALL "&exif=ignore", turned, turned_size, stored_mask, stored_mask_size, &request, VT_OK, &err);
    vt_request_close(request);
    for (int k = 0; k < 2; k++) {
        if (k == 0)
            run(ALL, turned, turned_size, stored_mask, stored_mask_size, &request, VT_E_INVALID, &err);
        else
            run(ALL "&exif=ignore", turned, turned_size, upright_mask, upright_mask_size, &request, VT_E_INVALID, &err);
        ck_assert_str_eq(err.param, "mask");
        ck_assert_msg(strstr(err.msg, "60 x 40") && strstr(err.msg, "40 x 60"), "%s", err.msg);
        ck_assert_msg(strstr(err.allowed, k == 0 ? "60 x 40" : "40 x 60"), "%s", err.allowed);
        vt_request_close(request);
    }
    run(ALL, NULL, 0, upright_mask, upright_mask_size, &request, VT_E_IMAGE_MISSING, &err);
    vt_request_close(request);
    run(ALL, turned, turned_size, NULL, 0, &request, VT_E_INVALID, &err); /* announced, and not there */
    ck_assert_str_eq(err.param, "mask");
    vt_request_close(request);
    free(turned);
    free(upright_mask);
    free(stored_mask);
}
END_TEST

/* The same scene, stored upright and stored turned, under the same upright mask. */
START_TEST(a_turned_picture_changes_nothing)
{
    static const char *const order[] = {"entropy", "gini", "mass_top10", "pointing", "mass_in_mask", "iou", "ap"};
    double seen[2][3][VT_COUNT(order)];
    size_t mask_size;
    uint8_t *mask = vt_test_box_png(W, H, 18, 4, 30, 20, &mask_size);
    for (int turned = 0; turned < 2; turned++) {
        size_t size;
        uint8_t *picture = make_picture(turned ? 6 : 0, &size);
        vt_request *request;
        vt_error err = {0};
        const vt_result *result = run(ALL, picture, size, mask, mask_size, &request, VT_OK, &err);
        ck_assert_uint_eq(result->maps_count, 3);
        for (size_t m = 0; m < 3; m++) {
            ck_assert_uint_eq(result->maps[m].metrics_count, VT_COUNT(order));
            for (size_t k = 0; k < VT_COUNT(order); k++) {
                const vt_metric_value *value = &result->maps[m].metrics[k];
                ck_assert_str_eq(value->metric->name, order[k]);
                ck_assert_msg(value->value >= 0.0 && (k == 0 || value->value <= 1.0), "%s is %g", order[k],
                              value->value);
                seen[turned][m][k] = value->value;
            }
        }
        ck_assert_uint_eq(result->warnings_count, 0);
        vt_request_close(request);
        free(picture);
    }
    ck_assert_mem_eq(seen[0], seen[1], sizeof seen[0]);
    ck_assert_msg(seen[0][0][6] != seen[0][1][6], "two methods, one ap");
    free(mask);
}
END_TEST

/* What the crop does not show cannot be found; with the whole picture in view it can. */
START_TEST(only_what_the_model_saw_counts)
{
    size_t size, mask_size, more_size;
    uint8_t *picture = make_picture(0, &size);
    uint8_t *mask = vt_test_box_png(W, H, 0, 0, 5, H, &mask_size);
    uint8_t *more = vt_test_box_png(W, H, 0, 0, 16, H, &more_size); /* the same and some columns of the view */
    vt_request *request;
    vt_error err = {0};

    const vt_result *result = run(ALL "&fit=crop", picture, size, mask, mask_size, &request, VT_OK, &err);
    ck_assert_uint_gt(result->transform.visible_x, 5);
    ck_assert_uint_lt(result->transform.visible_x, 16);
    ck_assert_uint_eq(result->warnings_count, 1);
    ck_assert_str_eq(result->warnings[0].code, "mask_empty");
    for (size_t m = 0; m < result->maps_count; m++)
        for (size_t k = 0; k < result->maps[m].metrics_count; k++)
            ck_assert_int_eq(isnan(result->maps[m].metrics[k].value), k >= 3);
    vt_request_close(request);

    result = run(ALL "&fit=crop", picture, size, more, more_size, &request, VT_OK, &err);
    ck_assert_uint_eq(result->warnings_count, 0);
    ck_assert(result->maps[2].metrics[6].value > 0.0 && result->maps[2].metrics[6].value < 1.0);
    vt_request_close(request);

    result = run(ALL "&fit=squash", picture, size, mask, mask_size, &request, VT_OK, &err);
    ck_assert_uint_eq(result->warnings_count, 0);
    ck_assert(result->maps[2].metrics[6].value > 0.0 && result->maps[2].metrics[6].value < 1.0);
    vt_request_close(request);
    free(picture);
    free(mask);
    free(more);
}
END_TEST

/* Drawing options are no part of a metric; its own parameters are. */
START_TEST(parameters_reach_the_metrics)
{
    static const char *const queries[] = {ALL, ALL "&interpolation=bicubic&sign=negative&scale=minmax&colormap=gray",
                                          ALL "&iou.threshold=0.9"};
    double iou[3], ap[3];
    size_t size, mask_size;
    uint8_t *picture = make_picture(0, &size), *mask = vt_test_box_png(W, H, 18, 4, 30, 20, &mask_size);
    for (size_t q = 0; q < 3; q++) {
        vt_request *request;
        vt_error err = {0};
        const vt_result *result = run(queries[q], picture, size, mask, mask_size, &request, VT_OK, &err);
        iou[q] = result->maps[0].metrics[5].value;
        ap[q] = result->maps[0].metrics[6].value;
        vt_request_close(request);
    }
    ck_assert(iou[0] == iou[1] && ap[0] == ap[1]);
    ck_assert(iou[0] != iou[2] && ap[0] == ap[2]);
    free(picture);
    free(mask);
}
END_TEST

START_TEST(maps_over_masks_are_bounded)
{
    size_t size, mask_size;
    uint8_t *picture = make_picture(0, &size), *mask = vt_test_box_png(W, H, 18, 4, 30, 20, &mask_size);
    const vt_files files = {picture, size, mask, mask_size};
    for (uint64_t room = 3 * W * H - 1; room <= 3 * W * H; room++) {
        vt_limits limits = vt_limits_default;
        vt_request *request;
        const vt_result *result;
        vt_error err = {0};
        limits.picture_pixels_max = room;
        ck_assert_int_eq(open_request(&request, ALL, VT_REQUEST_MASK, &limits, &err), VT_OK);
        vt_arena_reset(arena, SIZE_MAX);
        const vt_status st = vt_run_files(request, &files, arena, NULL, &result, &err);
        ck_assert_msg(st == (room == 3 * W * H ? VT_OK : VT_E_TOO_COSTLY), "%s", err.msg);
        ck_assert_msg(st == VT_OK || (strcmp(err.param, "metrics") == 0 && strstr(err.allowed, "7199")), "%s (%s)",
                      err.msg, err.allowed);
        vt_request_close(request);
    }
    free(picture);
    free(mask);
}
END_TEST

/* The arena that a request says it needs is enough, for the largest of its metrics. */
START_TEST(the_announced_memory_is_enough)
{
    enum { SIDE = 1500 };
    unsigned *samples = malloc((size_t)SIDE * SIDE * sizeof *samples);
    size_t size, mask_size;
    vt_request *request;
    vt_arena *exact;
    const vt_result *result;
    vt_error err = {0};
    ck_assert_ptr_nonnull(samples);
    for (size_t k = 0; k < (size_t)SIDE * SIDE; k++)
        samples[k] = (unsigned)(k * 7 % 251);
    const vt_test_png png = {PNG_COLOR_TYPE_GRAY, 8, SIDE, SIDE, samples, 0, 6, 0};
    uint8_t *picture = vt_test_png_write(&png, &size);
    uint8_t *mask = vt_test_box_png(SIDE, SIDE, 100, 100, 800, 900, &mask_size);
    const vt_files files = {picture, size, mask, mask_size};
    ck_assert_int_eq(open_request(&request, ALL, VT_REQUEST_MASK, NULL, &err), VT_OK);
    ck_assert_int_eq(vt_arena_open(&exact, vt_request_bytes(request, (uint64_t)SIDE * SIDE), &err), VT_OK);
    ck_assert_msg(vt_run_files(request, &files, exact, NULL, &result, &err) == VT_OK, "%s", err.msg);
    vt_arena_close(exact);
    vt_request_close(request);
    free(samples);
    free(picture);
    free(mask);
}
END_TEST

VT_SUITE("masked_run", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, what_may_be_asked_for, 0, (int)VT_COUNT(requests));
         tcase_add_test(tc, the_canonical_text_knows_metric_parameters);
         tcase_add_test(tc, its_size_is_that_of_the_upright_picture);
         tcase_add_test(tc, a_turned_picture_changes_nothing); tcase_add_test(tc, only_what_the_model_saw_counts);
         tcase_add_test(tc, parameters_reach_the_metrics); tcase_add_test(tc, maps_over_masks_are_bounded);
         tcase_add_test(tc, the_announced_memory_is_enough))
