/* What the head reads of each token: all of it is somewhere, and where the readout says. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

static const struct {
    size_t prefix;
    vt_pool pool;
    double token, patch; /* shares of token 0 and of each of the 6 patches */
} nets[] = {
    {1, VT_POOL_TOKEN, 1.0, 0.0},     {5, VT_POOL_TOKEN, 1.0, 0.0},          {0, VT_POOL_AVG, 0.0, 1.0 / 6},
    {1, VT_POOL_AVG, 0.0, 1.0 / 6},   {1, VT_POOL_TOKEN_AVG, 0.5, 1.0 / 12}, {5, VT_POOL_TOKEN_AVG, 0.5, 1.0 / 12},
    {0, VT_POOL_TOKEN, 0.0, 1.0 / 6},
};

START_TEST(shares)
{
    double share[16], sum = 0.0;
    vt_hand hand;
    vt_hand_open(&hand, 1, 1, 4, 2, 3, nets[_i].prefix);
    hand.info.pool = nets[_i].pool;
    vt_head_shares(share, &hand.info);
    for (size_t t = 0; t < hand.info.tokens; t++) {
        const double want = t >= nets[_i].prefix ? nets[_i].patch : t == 0 ? nets[_i].token : 0.0;
        ck_assert_double_eq_tol(share[t], want, 1e-15);
        sum += share[t];
    }
    ck_assert_double_eq_tol(sum, 1.0, 1e-15);
    vt_hand_close(&hand);
}
END_TEST

VT_SUITE("readers", tcase_add_loop_test(tc, shares, 0, (int)VT_COUNT(nets)))
