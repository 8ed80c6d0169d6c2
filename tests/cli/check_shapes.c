/* The smallest of the shapes that `.ci/check-long shapes` runs: a net without its weights, with generated values, stays
 * within the memory that `vitral inspect` states for it, at its own size and at a larger one. */
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <stdlib.h>

START_TEST(a_small_shape_stays_within_what_is_stated)
{
    const char *build = getenv("VITRAL_BUILD");
    vt_test_shell("'%s/tests/tools/shapes' ti16:224 ti16:272", build && *build ? build : "build");
}
END_TEST

VT_SUITE("shapes", tcase_add_test(tc, a_small_shape_stays_within_what_is_stated))
