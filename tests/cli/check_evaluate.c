/* vitral evaluate with the embedded model and the sample pictures: the table against the answers of the same engine,
 * the same bytes for any number of jobs and after any interruption, and what it refuses. */
#include "tests/support/label_png.h"
#include "tests/support/suite.h"
#include "vitral/evaluate.h"
#include "vitral/run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
enum { INTERRUPTIONS = 2 };
#else
enum { INTERRUPTIONS = 4 };
#endif

static char folder[256];
static char text[1 << 16];

/* Runs a line in the shell; @ stands for the test's folder, % for the program. Gives the exit code. */
static int shell(const char *line)
{
    char command[4096];
    const char *build = getenv("VITRAL_BUILD");
    size_t n = 0;
    for (const char *c = line; *c && n + sizeof folder < sizeof command; c++)
        if (*c == '@')
            n += (size_t)snprintf(command + n, sizeof command - n, "%s", folder);
        else if (*c == '%')
            n += (size_t)snprintf(command + n, sizeof command - n, "%s/vitral", build && *build ? build : "build");
        else
            command[n++] = *c;
    command[n] = '\0';
    const int status = system(command);
    ck_assert_msg(WIFEXITED(status), "%s: killed", command);
    return WEXITSTATUS(status);
}

static const char *whole(const char *name)
{
    char path[512];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    uint8_t *bytes = vt_test_read(path, &size);
    ck_assert_msg(bytes && size < sizeof text, "%s cannot be read", path);
    memcpy(text, bytes, size);
    text[size] = '\0';
    free(bytes);
    return text;
}

#define runs(code, line) ck_assert_msg(shell(line) == (code), "%s: %s", line, whole(".err"))
#define same(a, b) runs(0, "diff -r @/" a " @/" b " > @/.err 2>&1")

static void setup(void)
{
    const char *root = getenv("TMPDIR");
    const int n = snprintf(folder, sizeof folder, "%s/vitral-evaluate-XXXXXX", root && *root ? root : P_tmpdir);
    ck_assert_msg(n > 0 && (size_t)n < sizeof folder, "TMPDIR is too long");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(shell("mkdir '@/in' && cp static/samples/cat.jpg '@/in/b, \"cat\".jpg' && "
                           "cp static/samples/coffee.jpg @/in/a.JPG && cp static/samples/rocket.jpg @/in/c.jpg && "
                           "echo text > @/in/readme.txt"),
                     0);
}

static void teardown(void)
{
    ck_assert_int_eq(shell("rm -rf @"), 0);
}

#define ASKED "--methods rollout,gradient,grad_rollout --metrics saco,gini --saco.k 3 --random_maps 1"

START_TEST(same_bytes_for_any_jobs_and_after_interruptions)
{
    runs(0, "% evaluate @/in " ASKED " -o @/one -q 2> @/.err");
    runs(0, "% evaluate @/in " ASKED " -o @/three -q --jobs 3 2> @/.err");
    same("one", "three");
    /* interrupted: within the second picture, within its number; before the first; without an end */
    static const char *const cuts[] = {"head -n 14 @/one/evaluation.csv | head -c -9", "head -n 5 @/one/evaluation.csv",
                                       "head -c 20 @/one/evaluation.csv", "cat @/one/evaluation.csv"};
    char line[512];
    snprintf(line, sizeof line,
             "rm -rf @/again && mkdir @/again && cp @/one/evaluation.key @/again && %s > @/again/evaluation.csv",
             cuts[_i]);
    runs(0, line);
    runs(0, "% evaluate @/in " ASKED " -o @/again --jobs 2 2> @/.err");
    if (_i == 0)
        ck_assert_msg(strstr(whole(".err"), "1 of 3 pictures are known"), "%s", text);
    same("one", "again");
}
END_TEST

/* The line of the table with this beginning: its value. */
static double value_of(const char *csv, const char *begin)
{
    const char *at = strstr(csv, begin);
    ck_assert_msg(at != NULL, "no %s in %s", begin, csv);
    return strtod(at + strlen(begin), NULL);
}

START_TEST(numbers_are_the_engines)
{
    static const vt_pair pairs[] = {
        {"method", "rollout,gradient,grad_rollout"}, {"metrics", "saco,gini"}, {"saco.k", "3"}, {"random_maps", "1"}};
    size_t size = 0;
    vt_error err = {0};
    vt_model *model;
    vt_request *request;
    vt_arena *arena;
    const vt_result *result;
    uint8_t *bytes = vt_test_read("static/samples/coffee.jpg", &size);
    ck_assert_int_eq(vt_test_open(&model, NULL, NULL, &err), VT_OK);
    ck_assert_msg(vt_request_open(&request, model, NULL, pairs, VT_COUNT(pairs), 0, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(request, 1 << 20), &err), VT_OK);
    ck_assert_msg(vt_run(request, bytes, size, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    runs(0, "% evaluate static/samples/coffee.jpg " ASKED " -o @/one -q 2> @/.err");
    const char *csv = whole("one/evaluation.csv");
    ck_assert_uint_eq(result->standings_count, 2);
    for (size_t s = 0; s < 2; s++) {
        ck_assert_uint_eq(result->standings[s].count, 5);
        for (size_t k = 0; k < 5; k++) {
            const vt_place_taken *place = &result->standings[s].places[k];
            char begin[64];
            snprintf(begin, sizeof begin, ",%s,%s,", place->method, result->standings[s].metric->name);
            const double got = value_of(csv, begin);
            ck_assert_msg(fabs(got - place->value) < 1e-5, "%s is %.9g, the engine says %.9g", begin, got,
                          place->value);
            ck_assert_uint_ge(place->rank, k > 0 ? result->standings[s].places[k - 1].rank : 1);
        }
    }
    whole("one/evaluation.md");
    ck_assert(strstr(text, "| method | gini ↑ | saco ↑ |") && strstr(text, "| *edge* |") && strstr(text, "(1)**"));
    vt_arena_close(arena);
    vt_request_close(request);
    vt_model_close(model);
    free(bytes);
}
END_TEST

START_TEST(broken_pictures_are_said_and_kept)
{
    runs(0, "head -c 300 static/samples/cat.jpg > @/in/b2.jpg");
    runs(1, "% evaluate @/in " ASKED " -o @/one 2> @/.err");
    ck_assert_msg(strstr(whole(".err"), "b2.jpg: ") && strstr(text, "4/4 "), "%s", text);
    ck_assert_ptr_nonnull(strstr(whole("one/evaluation.csv"), "b2.jpg,,,,,"));
    ck_assert(strstr(text, "\"\"cat\"\".jpg\",") && strstr(whole("one/evaluation.json"), "\"failed\": 1"));
    runs(0,
         "cp -r @/one @/again && rm @/again/evaluation.md && head -n 60 @/one/evaluation.csv > @/again/evaluation.csv");
    runs(1, "% evaluate @/in " ASKED " -o @/again -q 2> @/.err");
    same("one", "again");
}
END_TEST

START_TEST(more_methods_than_a_request_takes)
{
#ifdef SANITIZED
    if (!vt_test_long("every method in one evaluation, under a sanitizer"))
        return;
#endif
    runs(0, "% evaluate static/samples/coffee.jpg --metrics gini --random_maps 3 "
            "--masks 16 --players 2 --samples 24 --budget 300 -o @/one -q 2> @/.err");
    size_t lines = 0, methods = 0;
    for (const char *at = whole("one/evaluation.csv"); (at = strchr(at, '\n')); at++)
        lines++;
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        char begin[64];
        snprintf(begin, sizeof begin, ",%s,gini,", vt_explainer_at(k)->name);
        methods += strstr(text, begin) != NULL;
    }
    ck_assert_uint_gt(methods, 16);
    ck_assert_uint_eq(lines, 1 + methods + 2);
    ck_assert(strstr(text, ",random,gini,0.") && strstr(text, ",edge,gini,0."));
}
END_TEST

START_TEST(what_is_refused)
{
    runs(2, "% evaluate 2> @/.err");
    runs(2, "% evaluate @/in " ASKED " 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "-o DIR"));
    runs(2, "% evaluate @/nowhere " ASKED " -o @/one 2> @/.err");
    runs(2, "mkdir @/empty; % evaluate @/empty " ASKED " -o @/one 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "no picture"));
    runs(2, "% evaluate @/in --methods rolout -o @/one 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "did you mean rollout"));
    runs(2, "% evaluate @/in --metrics sacco -o @/one 2> @/.err");
    runs(2, "% evaluate @/in --metrics none -o @/one 2> @/.err");
    runs(2, "% evaluate @/in --metrics iou -o @/one 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "mask"));
    runs(2, "% evaluate @/in --methods rollout,rollout -o @/one 2> @/.err");
    runs(2, "% evaluate @/in --methods rollout --saco.k 5 --metrics gini -o @/one 2> @/.err");
    runs(0, "% evaluate @/in --methods rollout --metrics gini -o @/one -q 2> @/.err");
    runs(2, "% evaluate @/in --methods rollout --metrics gini --seed 1 -o @/one -q 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "another evaluation"));
    runs(2, "mkdir @/other; echo x > @/other/evaluation.csv; % evaluate @/in --methods rollout --metrics gini -o "
            "@/other 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "unknown origin"));
}
END_TEST

/* ---- masks ---- */

/* A mask of this size over its left half, in the folder m. */
static void write_mask(const char *name, size_t width, size_t height)
{
    char path[512];
    size_t size;
    uint8_t *png = vt_test_box_png(width, height, 0, 0, width / 2, height, &size);
    snprintf(path, sizeof path, "%s/m/%s", folder, name);
    FILE *to = fopen(path, "wb");
    ck_assert_msg(to && fwrite(png, 1, size, to) == size && fclose(to) == 0, "%s", path);
    free(png);
}

static void write_masks(void)
{
    ck_assert_int_eq(shell("mkdir @/m"), 0);
    write_mask("a.png", 600, 400);
    write_mask("b, \"cat\".png", 451, 300);
    write_mask("c.png", 640, 427);
}

#define MASKED "--methods rollout,gradient --metrics mass_in_mask,iou --random_maps 1"

/* The numbers are those of the engine with the picture's own mask. */
START_TEST(masks_lie_beside_the_pictures)
{
    static const vt_pair pairs[] = {
        {"method", "rollout,gradient"}, {"metrics", "mass_in_mask,iou"}, {"random_maps", "1"}};
    vt_error err = {0};
    vt_model *model;
    vt_request *request;
    vt_arena *arena;
    const vt_result *result;
    vt_files sent = {0};
    write_masks();
    runs(0, "% evaluate @/in --mask @/m " MASKED " -o @/one -q --jobs 2 2> @/.err");
    uint8_t *picture = vt_test_read("static/samples/cat.jpg", &sent.picture_size);
    uint8_t *mask = vt_test_box_png(451, 300, 0, 0, 225, 300, &sent.mask_size);
    sent.picture = picture;
    sent.mask = mask;
    ck_assert_int_eq(vt_test_open(&model, NULL, NULL, &err), VT_OK);
    ck_assert_msg(vt_request_open(&request, model, NULL, pairs, VT_COUNT(pairs), VT_REQUEST_MASK, &err) == VT_OK, "%s",
                  err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(request, 1 << 20), &err), VT_OK);
    ck_assert_msg(vt_run_files(request, &sent, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    const char *csv = whole("one/evaluation.csv"), *of_cat = strstr(csv, "cat");
    ck_assert_ptr_nonnull(of_cat);
    for (size_t k = 0; k < result->maps_count; k++)
        for (size_t j = 0; j < result->maps[k].metrics_count; j++) {
            const vt_metric_value *value = &result->maps[k].metrics[j];
            char begin[64];
            snprintf(begin, sizeof begin, ",%s,%s,", result->maps[k].method->name, value->metric->name);
            const bool asked =
                strcmp(value->metric->name, "iou") == 0 || strcmp(value->metric->name, "mass_in_mask") == 0;
            ck_assert(!asked || (value->value > 0.0 && fabs(value_of(of_cat, begin) - value->value) < 1e-5));
        }
    ck_assert(value_of(of_cat, ",random,mass_in_mask,") > 0.0 && value_of(of_cat, ",edge,iou,") > 0.0);
    vt_arena_close(arena);
    vt_request_close(request);
    vt_model_close(model);
    free(picture);
    free(mask);
}
END_TEST

START_TEST(masks_that_are_missing_or_wrong)
{
    write_masks();
    runs(0, "rm @/m/c.png");
    runs(2, "% evaluate @/in --mask @/m " MASKED " -o @/one -q 2> @/.err");
    ck_assert_msg(strstr(whole(".err"), "/in/c.jpg has no mask: ") && strstr(text, "/m/c.png: "), "%s", text);
    runs(1, "test -e @/one"); /* nothing had begun */
    write_mask("c.png", 64, 64);
    runs(1, "% evaluate @/in --mask @/m " MASKED " -o @/one -q 2> @/.err");
    ck_assert_msg(strstr(whole(".err"), "c.jpg: ") && strstr(text, "64"), "%s", text);
    write_mask("c.png", 640, 427); /* other masks are another evaluation */
    runs(2, "% evaluate @/in --mask @/m " MASKED " -o @/one -q 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "another evaluation"));
    runs(2, "% evaluate @/in --mask @/nowhere " MASKED " -o @/two -q 2> @/.err");
    runs(2, "% evaluate @/in --mask @/m --methods rollout --metrics gini -o @/two -q 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "reads the mask"));
    runs(2, "cp @/in/c.jpg @/in/c.jpeg; % evaluate @/in --mask @/m " MASKED " -o @/two -q 2> @/.err");
    ck_assert_ptr_nonnull(strstr(whole(".err"), "would share the mask"));
}
END_TEST

VT_SUITE("evaluate", tcase_add_checked_fixture(tc, setup, teardown), tcase_set_timeout(tc, 600.0),
         tcase_add_loop_test(tc, same_bytes_for_any_jobs_and_after_interruptions, 0, INTERRUPTIONS),
         tcase_add_test(tc, numbers_are_the_engines), tcase_add_test(tc, broken_pictures_are_said_and_kept),
         tcase_add_test(tc, more_methods_than_a_request_takes), tcase_add_test(tc, what_is_refused),
         tcase_add_test(tc, masks_lie_beside_the_pictures), tcase_add_test(tc, masks_that_are_missing_or_wrong))
