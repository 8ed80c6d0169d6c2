/* Three channels of a pixel, one value. */
#include "engine/explain/gradient/pixels.h"
#include "tests/support/suite.h"

START_TEST(channels)
{
    ck_assert_double_eq(vt_reduce_channels(VT_REDUCE_SUM, 1.0, -4.0, 2.0), -1.0);
    ck_assert_double_eq(vt_reduce_channels(VT_REDUCE_SUM_ABS, 1.0, -4.0, 2.0), 7.0);
    ck_assert_double_eq(vt_reduce_channels(VT_REDUCE_MAX_ABS, 1.0, -4.0, 2.0), 4.0);
    ck_assert_double_eq(vt_reduce_channels(VT_REDUCE_MAX_ABS, -9.0, -4.0, 2.0), 9.0);
    ck_assert_double_eq(vt_reduce_channels(VT_REDUCE_MAX_ABS, 0.0, 1.0, -2.0), 2.0);
}
END_TEST

START_TEST(planes)
{
    const double x[9] = {1, 0, -1, 2, 0, -2, -3, 0, 3}; /* three channels of three pixels */
    const double cancel[3] = {1, -3, 2};
    float map[3];
    ck_assert(vt_reduce_pixels(map, x, VT_REDUCE_SUM_ABS, 3));
    ck_assert(map[0] == 6.0f && map[1] == 0.0f && map[2] == 6.0f);
    ck_assert(!vt_reduce_pixels(map, x, VT_REDUCE_SUM, 3)); /* each pixel sums to zero */
    ck_assert(vt_reduce_pixels(map, x, VT_REDUCE_MAX_ABS, 3));
    ck_assert(map[0] == 3.0f && map[1] == 0.0f && map[2] == 3.0f);
    ck_assert(vt_reduce_pixels(map, cancel, VT_REDUCE_SUM_ABS, 1) && map[0] == 6.0f);
}
END_TEST

VT_SUITE("pixels", tcase_add_test(tc, channels); tcase_add_test(tc, planes))
