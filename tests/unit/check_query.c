/* From a pixel of the upright original to a token: crops, padding, squashed pictures, and what lies outside. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

static void open_picture(vt_hand *hand, size_t width, size_t height, const vt_transform *transform)
{
    vt_hand_open(hand, 1, 1, 4, 3, 5, 1); /* input 20 x 12 pixels, 5 x 3 patches of 4 */
    hand->transform = *transform;
    hand->ctx.image_width = width;
    hand->ctx.image_height = height;
}

/* 100 x 50 becomes 40 x 20, of which 20 x 12 from (9, 5) are seen: x from 22.5 to 72.5, y from 12.5 to 42.5 */
static const vt_transform crop = {.fit = VT_FIT_CROP,
                                  .resized_w = 40,
                                  .resized_h = 20,
                                  .crop_x = 9,
                                  .crop_y = 5,
                                  .crop_w = 20,
                                  .crop_h = 12,
                                  .visible_x = 22,
                                  .visible_y = 12,
                                  .visible_w = 50,
                                  .visible_h = 30};

static const struct {
    double x, y;
    int row, column; /* -1 = refused */
} cropped[] = {{22, 12, 0, 0},       {31, 12, 0, 0},    {32, 12, 0, 1},     {71, 41, 2, 4},     {47, 22, 1, 2},
               {31.99, 21.99, 0, 0}, {21, 12, -1, -1},  {72, 20, -1, -1},   {50, 11, -1, -1},   {50, 42, -1, -1},
               {99, 49, -1, -1},     {100, 20, -1, -1}, {50, 50.5, -1, -1}, {1e300, 20, -1, -1}};

START_TEST(pixels_of_a_crop)
{
    vt_hand hand;
    vt_error err = {0};
    size_t token = 999;
    open_picture(&hand, 100, 50, &crop);
    const vt_query query = {.kind = VT_QUERY_XY, .x = cropped[_i].x, .y = cropped[_i].y};
    const vt_status st = vt_ctx_query(&hand.ctx, &query, &token, &err);
    if (cropped[_i].row < 0) {
        ck_assert_int_eq(st, VT_E_INVALID);
        ck_assert_str_eq(err.param, "query");
        ck_assert(err.allowed[0] != 0);
        ck_assert_uint_eq(token, 999);
    } else {
        ck_assert_msg(st == VT_OK, "%s", err.msg);
        ck_assert_uint_eq(token, 1 + (size_t)(cropped[_i].row * 5 + cropped[_i].column));
    }
    vt_hand_close(&hand);
}
END_TEST

/* Every pixel of every size: the patch is the one that holds the pixel's centre, found here by trying all patches. */
START_TEST(every_pixel_has_its_patch)
{
    for (size_t width = 1; width < 70; width += 3) {
        vt_hand hand;
        const vt_transform squash = {.fit = VT_FIT_SQUASH,
                                     .resized_w = 20,
                                     .resized_h = 12,
                                     .crop_w = 20,
                                     .crop_h = 12,
                                     .visible_w = width,
                                     .visible_h = 13};
        open_picture(&hand, width, 13, &squash);
        for (size_t x = 0; x < width; x++) {
            const vt_query query = {.kind = VT_QUERY_XY, .x = (double)x, .y = 6};
            size_t token = 0, want = 99;
            ck_assert_int_eq(vt_ctx_query(&hand.ctx, &query, &token, NULL), VT_OK);
            for (size_t c = 0; c < 5; c++) /* patch c covers [4c, 4c + 4) of 20: (2x + 1) * 20 / (2 width) */
                if ((2 * x + 1) * 20 >= 4 * c * 2 * width && (2 * x + 1) * 20 < (4 * c + 4) * 2 * width)
                    want = 1 + 5 + c;
            ck_assert_msg(token == want, "width %zu, x %zu: token %zu, should be %zu", width, x, token, want);
        }
        vt_hand_close(&hand);
    }
}
END_TEST

/* 10 x 12 stays as it is, padded to 20 x 12 with 5 in front. */
START_TEST(padding_shifts_the_patches)
{
    static const vt_transform pad = {.fit = VT_FIT_PAD,
                                     .resized_w = 10,
                                     .resized_h = 12,
                                     .crop_x = -5,
                                     .crop_w = 20,
                                     .crop_h = 12,
                                     .visible_w = 10,
                                     .visible_h = 12};
    static const size_t columns[10] = {1, 1, 1, 2, 2, 2, 2, 3, 3, 3};
    vt_hand hand;
    open_picture(&hand, 10, 12, &pad);
    for (size_t x = 0; x < 10; x++) {
        const vt_query query = {.kind = VT_QUERY_XY, .x = (double)x, .y = 11};
        size_t token = 0;
        ck_assert_int_eq(vt_ctx_query(&hand.ctx, &query, &token, NULL), VT_OK);
        ck_assert_uint_eq(token, 1 + 10 + columns[x]);
    }
    vt_hand_close(&hand);
}
END_TEST

START_TEST(no_picture_no_pixel)
{
    vt_hand hand;
    vt_error err = {0};
    size_t token;
    const vt_query xy = {.kind = VT_QUERY_XY}, cls = {.kind = VT_QUERY_CLS};
    vt_hand_open(&hand, 1, 1, 4, 3, 5, 1);
    hand.ctx.transform = NULL;
    ck_assert_int_eq(vt_ctx_query(&hand.ctx, &xy, &token, &err), VT_E_INVALID);
    ck_assert_str_eq(err.param, "query");
    ck_assert_int_eq(vt_ctx_query(&hand.ctx, &cls, &token, NULL), VT_OK);
    ck_assert_uint_eq(token, 0);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(tokens_that_do_not_exist)
{
    vt_hand hand;
    vt_error err = {0};
    size_t token = 0;
    vt_hand_open(&hand, 1, 1, 4, 3, 5, 2);
    vt_query query = {.kind = VT_QUERY_TOKEN, .token = 16};
    ck_assert_int_eq(vt_ctx_query(&hand.ctx, &query, &token, NULL), VT_OK);
    ck_assert_uint_eq(token, 16);
    query.token = 17;
    ck_assert_int_eq(vt_ctx_query(&hand.ctx, &query, &token, &err), VT_E_INVALID);
    ck_assert_str_eq(err.allowed, "token:0 to token:16");
    query.token = -1;
    ck_assert_int_eq(vt_ctx_query(&hand.ctx, &query, &token, &err), VT_E_INVALID);
    vt_hand_close(&hand);
}
END_TEST

VT_SUITE("query", tcase_add_loop_test(tc, pixels_of_a_crop, 0, (int)VT_COUNT(cropped));
         tcase_add_test(tc, every_pixel_has_its_patch); tcase_add_test(tc, padding_shifts_the_patches);
         tcase_add_test(tc, no_picture_no_pixel); tcase_add_test(tc, tokens_that_do_not_exist))
