/* Every folder of shared models/bad: refused with the names that its manifest demands, or loaded with the weights of
 * _good. One table of expectations, written by whoever broke the files, not by us. */
#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "engine/pass/trace.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static const char MANIFEST[] = "models/bad/manifest.json";

static json_t *read_manifest(void)
{
    json_error_t fault;
    json_t *list = json_load_file(vt_shared(MANIFEST), 0, &fault);
    ck_assert_msg(json_is_array(list) && json_array_size(list) > 60, "manifest: %s", fault.text);
    return list;
}

/* From here on the process may take `more` bytes of address space; back to the old limit with SIZE_MAX. */
static void limit_memory(size_t more)
{
#ifdef SANITIZED
    (void)more; /* the sanitizers reserve terabytes */
#else
    static struct rlimit old;
    struct rlimit now;
    if (more == SIZE_MAX) {
        ck_assert_int_eq(setrlimit(RLIMIT_AS, &old), 0);
        return;
    }
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert(f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &old), 0);
    now = old;
    now.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &now), 0);
#endif
}

static vt_status open_bad(vt_model **model, const char *name, vt_error *err)
{
    char relative[256];
    snprintf(relative, sizeof relative, "models/bad/%s", name);
    return vt_model_open(model, vt_shared(relative), NULL, err);
}

START_TEST(refused_by_name_in_little_memory)
{
    SKIP_UNLESS(MANIFEST);
    json_t *list = read_manifest();
    int seen = 0, wrong = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i), *names = json_object_get(item, "must_name");
        const char *name = json_string_value(json_object_get(item, "name"));
        if (strcmp(json_string_value(json_object_get(item, "expect")), "refuse") != 0)
            continue;
        seen++;
        vt_error err = {0};
        vt_model *model = NULL;
        limit_memory(16u << 20);
        const vt_status status = open_bad(&model, name, &err);
        limit_memory(SIZE_MAX);
        if (status == VT_OK || err.status != status || model) {
            printf("%s: accepted\n", name);
            wrong++;
            continue;
        }
        if (status == VT_E_NOMEM) {
            printf("%s: wanted more than 16 MiB\n", name);
            wrong++;
        }
        for (size_t k = 0; k < json_array_size(names); k++) {
            const char *must = json_string_value(json_array_get(names, k));
            if (!strstr(err.msg, must)) {
                printf("%s: \"%s\" is not in: %s\n", name, must, err.msg);
                wrong++;
            }
        }
        if (strstr(err.msg, vt_shared("models")) || getenv("VT_SHOW_MESSAGES"))
            printf("%s: %s\n", name, err.msg);
        wrong += strstr(err.msg, vt_shared("models")) != NULL; /* no path but what was typed, and that only in short */
    }
    json_decref(list);
    fflush(stdout);
    ck_assert_msg(seen > 55 && wrong == 0, "%d of %d folders are not refused as they must be (see above)", wrong, seen);
}
END_TEST

/* Logits of the model for the input that stands with _good. */
static void logits_of(const vt_model *model, const float *input, float logits[3])
{
    vt_error err = {0};
    vt_arena *arena;
    vt_trace trace;
    const size_t bytes = vt_trace_bytes(vt_model_get_info(model), 0, 1) + (1u << 20);
    ck_assert_int_eq(vt_arena_open(&arena, bytes, &err), VT_OK);
    ck_assert_msg(vt_trace_open(&trace, model, 0, arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&trace, input, NULL, &err) == VT_OK, "%s", err.msg);
    memcpy(logits, trace.logits, 3 * sizeof *logits);
    vt_arena_close(arena);
}

START_TEST(loaded_as_good)
{
    static const char expected[] = "models/bad/_good/expected.safetensors";
    SKIP_UNLESS(MANIFEST);
    SKIP_UNLESS(expected);
    static const char *const extra[] = {"_good"};
    const char *names[8];
    size_t count = 0;
    json_t *list = read_manifest();
    names[count++] = extra[0];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (strncmp(json_string_value(json_object_get(item, "expect")), "load", 4) == 0 && count < VT_COUNT(names))
            names[count++] = json_string_value(json_object_get(item, "name"));
    }
    ck_assert_uint_ge(count, 3);

    vt_error err = {0};
    vt_st_file *file;
    ck_assert_int_eq(vt_st_open(&file, vt_shared(expected), "expected.safetensors", &err), VT_OK);
    float input[3 * 8 * 8], want[3], got[3];
    ck_assert_int_eq(vt_st_floats(vt_st_find(file, "input"), input, &err), VT_OK);
    ck_assert_int_eq(vt_st_floats(vt_st_find(file, "logits"), want, &err), VT_OK);
    for (size_t i = 0; i < count; i++) {
        vt_model *model = NULL;
        ck_assert_msg(open_bad(&model, names[i], &err) == VT_OK, "%s: %s", names[i], err.msg);
        ck_assert_str_eq(vt_model_get_info(model)->id, names[i]);
        logits_of(model, input, got);
        const double worst = vt_test_max_diff(got, want, 3, 0);
        ck_assert_msg(worst < 1e-4, "%s: logits differ by %g", names[i], worst);
        vt_model_close(model);
    }
    vt_st_close(file);
    json_decref(list);
}
END_TEST

START_TEST(unknown_tensors_are_remarked_once_each)
{
    SKIP_UNLESS("models/bad/extra_tensor/config.json");
    vt_error err = {0};
    vt_model *model = NULL;
    ck_assert_msg(open_bad(&model, "extra_tensor", &err) == VT_OK, "%s", err.msg);
    int floats = 0, integers = 0;
    for (size_t k = 0; vt_model_warning(model, k); k++) {
        floats += strstr(vt_model_warning(model, k), "aux.weight") != NULL;
        integers += strstr(vt_model_warning(model, k), "aux.num_batches_tracked") != NULL;
    }
    ck_assert_int_eq(floats, 1);
    ck_assert_int_eq(integers, 1);
    vt_model_close(model);
}
END_TEST

VT_SUITE("bad_models", tcase_add_test(tc, refused_by_name_in_little_memory); tcase_add_test(tc, loaded_as_good);
         tcase_add_test(tc, unknown_tensors_are_remarked_once_each))
