#include "tests/support/golden.h"

#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

vt_st_file *vt_golden_open(const char *relative)
{
    vt_st_file *file;
    vt_error err = {0};
    const vt_status st = vt_st_open(&file, vt_shared(relative), relative, &err);
    ck_assert_msg(st == VT_OK, "%s: %s", relative, err.msg);
    return file;
}

bool vt_golden_has(const vt_st_file *file, const char *name)
{
    return vt_st_find(file, name) != NULL;
}

float *vt_golden_floats(const vt_st_file *file, const char *name, size_t *count)
{
    const vt_st_tensor *tensor = vt_st_find(file, name);
    vt_error err = {0};
    ck_assert_msg(tensor != NULL, "there is no tensor %s", name);
    float *x = malloc((tensor->count + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    ck_assert_msg(vt_st_floats(tensor, x, &err) == VT_OK, "%s", err.msg);
    *count = tensor->count;
    return x;
}

void vt_golden_compare(vt_golden_group *group, const char *where, const char *tensor, const float *got,
                       size_t got_count, const float *want, size_t want_count, double tol)
{
    size_t compared = 0;
    double worst = 0.0;
    ck_assert_msg(got_count == want_count, "%s %s: %zu values, should be %zu", where, tensor, got_count, want_count);
    for (size_t i = 0; i < want_count; i++) {
        if (isnan(want[i]))
            continue;
        const double error = fabs((double)got[i] - (double)want[i]);
        ck_assert_msg(error <= tol, "%s %s[%zu] is %.9g, should be %.9g, tolerance %.3g", where, tensor, i,
                      (double)got[i], (double)want[i], tol);
        worst = error > worst ? error : worst;
        compared++;
    }
    ck_assert_msg(compared > 0, "%s %s: nothing to compare", where, tensor);
    group->count++;
    if (worst > 0.0 && worst / tol > group->worst) {
        group->worst = worst / tol;
        snprintf(group->worst_tensor, sizeof group->worst_tensor, "%s", tensor);
    }
}

void vt_golden_print(const vt_golden_group *group, const char *where)
{
    printf("golden %s %s: %zu tensors, worst error %.3f of the tolerance%s%s", where, group->name, group->count,
           group->worst, group->worst_tensor[0] ? " at " : "", group->worst_tensor);
    if (group->ties)
        printf(", %zu explained by a tie within rounding", group->ties);
    putchar('\n');
    fflush(stdout);
}
