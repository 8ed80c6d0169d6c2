/* Resampled position embeddings against the real functions of the libraries: golden/pos_embed_interp.safetensors, every
 * tensor of it. */
#include "engine/model/positions.h"
#include "tests/support/golden.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "golden/pos_embed_interp.safetensors"

static const double TOLERANCE = 1e-5; /* its README */

static const struct {
    const char *name;
    vt_pos_rule rule;
    size_t prefix; /* rows of the result in front of the grid; the sources have two */
    size_t results;
} cases[] = {
    {"timm", VT_POS_TIMM, 2, 7},
    {"open_clip", VT_POS_TIMM, 1, 7},
    {"hf_vit", VT_POS_HF, 1, 7},
    {"hf_deit", VT_POS_HF, 2, 7},
    {"hf_dinov2", VT_POS_HF, 1, 7},
    {"hf_dinov2_reg", VT_POS_HF_DINOV2_REG, 1, 7},
    {"dinov2_offset", VT_POS_DINOV2_OFFSET, 1, 7},
    {"dinov2_reg", VT_POS_HF_DINOV2_REG, 1, 7},
    {"torchvision", VT_POS_TORCHVISION, 1, 5}, /* square targets only */
};

/* Rules that the libraries have and no file that is read here follows: bilinear is timm's for the official .npz files, which
 * are no safetensors. */
static const struct {
    const char *name;
    size_t results;
} elsewhere[] = {{"timm_npz_bilinear", 7}};

/* "14x3" */
static void sizes_of(const char *text, size_t *h, size_t *w)
{
    char *end;
    *h = strtoul(text, &end, 10);
    ck_assert_int_eq(*end, 'x');
    *w = strtoul(end + 1, NULL, 10);
}

static void one(vt_golden_group *group, const vt_st_file *file, const char *name, vt_pos_rule rule, size_t prefix)
{
    const char *old = strchr(name, '.') + 1, *to = strstr(name, "_to_");
    size_t gh0, gw0, gh, gw, count, want_count;
    char source[32];

    ck_assert_ptr_nonnull(to);
    sizes_of(old, &gh0, &gw0);
    sizes_of(to + 4, &gh, &gw);
    snprintf(source, sizeof source, "src.%zux%zu", gh0, gw0);
    float *src = vt_golden_floats(file, source, &count), *want = vt_golden_floats(file, name, &want_count);
    const size_t D = count / (2 + gh0 * gw0);
    float *got = calloc(gh * gw, D * sizeof *got);
    ck_assert_uint_eq(want_count, (prefix + gh * gw) * D);
    vt_positions_resample(got, gh, gw, src + 2 * D, gh0, gw0, D, rule);
    vt_golden_compare(group, FILE_NAME, name, got, gh * gw * D, want + prefix * D, gh * gw * D, TOLERANCE);
    if (gh == gh0 && gw == gw0)
        ck_assert_msg(memcmp(got, src + 2 * D, gh * gw * D * sizeof *got) == 0, "%s is not the source", name);
    free(got), free(want), free(src);
}

START_TEST(every_rule_is_that_of_its_library)
{
    SKIP_UNLESS(FILE_NAME);
    vt_st_file *file = vt_golden_open(FILE_NAME);
    vt_golden_group group = {.name = cases[_i].name};
    char head[40];
    const int n = snprintf(head, sizeof head, "%s.", cases[_i].name);
    for (size_t k = 0; k < vt_st_count(file); k++) {
        const char *name = vt_st_at(file, k)->name;
        if (strncmp(name, head, (size_t)n) == 0)
            one(&group, file, name, cases[_i].rule, cases[_i].prefix);
    }
    ck_assert_uint_eq(group.count, cases[_i].results);
    vt_golden_print(&group, "positions");
    vt_st_close(file);
}
END_TEST

START_TEST(no_tensor_of_the_file_is_left_out)
{
    SKIP_UNLESS(FILE_NAME);
    vt_st_file *file = vt_golden_open(FILE_NAME);
    size_t listed = 3; /* the sources */
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        listed += cases[k].results;
    for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++) {
        const size_t n = strlen(elsewhere[k].name);
        size_t found = 0;
        for (size_t i = 0; i < vt_st_count(file); i++)
            found += strncmp(vt_st_at(file, i)->name, elsewhere[k].name, n) == 0 && vt_st_at(file, i)->name[n] == '.';
        ck_assert_uint_eq(found, elsewhere[k].results);
        listed += found;
    }
    ck_assert_uint_eq(vt_st_count(file), listed);
    vt_st_close(file);
}
END_TEST

VT_SUITE("golden positions",
         tcase_add_loop_test(tc, every_rule_is_that_of_its_library, 0, sizeof cases / sizeof *cases);
         tcase_add_test(tc, no_tensor_of_the_file_is_left_out))
