/* How a real checkpoint opens: quickly, and without a copy of its weights. The best of some tries counts, in
 * CPU time, since the machine may have other things to do: the file is in the page cache, so there is nothing to wait for. */
#include "engine/model/model.h"
#include "tests/support/suite.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOLDER "models/vit_tiny_patch16_224"

enum { TRIES = 15, ALLOWED_MS = 20 };

static double factor(void) /* sanitizers are slower */
{
    const char *text = getenv("CK_TIMEOUT_MULTIPLIER");
    const double f = text ? strtod(text, NULL) : 1.0;
    return f > 1.0 ? f : 1.0;
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double best_ms(size_t image_size)
{
    double best = 1e9;
    for (int k = 0; k < TRIES; k++) {
        vt_model *model = NULL;
        vt_error err = {0};
        const double from = cpu_ms();
        const vt_status status =
            image_size ? vt_model_open_sized(&model, vt_shared(FOLDER), NULL, image_size, image_size, &err)
                       : vt_model_open(&model, vt_shared(FOLDER), NULL, &err);
        const double ms = cpu_ms() - from;
        ck_assert_msg(status == VT_OK, "%s", err.msg);
        best = ms < best ? ms : best;
        vt_model_close(model);
    }
    return best;
}

START_TEST(vit_tiny_opens_at_once)
{
    SKIP_UNLESS(FOLDER "/model.safetensors");
    const double own = best_ms(0), larger = best_ms(384);
    printf("opening: ViT-Ti/16 %.1f ms, at 384 pixels %.1f ms\n", own, larger);
    ck_assert_msg(own < ALLOWED_MS * factor(), "%.1f ms, %d are allowed", own, ALLOWED_MS);
    ck_assert_msg(larger < 2 * ALLOWED_MS * factor(), "%.1f ms at 384 pixels", larger);
}
END_TEST

/* 22 MB of weights: what is taken from the heap is the label texts and the positions. */
START_TEST(weights_are_not_copied)
{
    SKIP_UNLESS(FOLDER "/model.safetensors");
    vt_model *model = NULL;
    vt_error err = {0};
    char line[512];
    unsigned long dirty = 0, value;
    size_t mappings = 0;
    int here = 0;
    const struct mallinfo2 before = mallinfo2();
    ck_assert_msg(vt_model_open(&model, vt_shared(FOLDER), NULL, &err) == VT_OK, "%s", err.msg);
    const struct mallinfo2 after = mallinfo2();
    const size_t taken = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    ck_assert_uint_gt(vt_model_get_info(model)->bytes, 20000000);
    ck_assert_msg(taken < 2000000, "%zu bytes were taken", taken);
    FILE *file = fopen("/proc/self/smaps", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        if (strstr(line, "model.safetensors")) {
            here = 1;
            mappings++;
        } else if (here && sscanf(line, "Private_Dirty: %lu", &value) == 1) {
            dirty += value;
            here = 0;
        }
    }
    fclose(file);
    ck_assert_uint_eq(mappings, 1);
    ck_assert_uint_eq(dirty, 0);
    vt_model_close(model);
}
END_TEST

VT_SUITE("golden opening", tcase_add_test(tc, vit_tiny_opens_at_once); tcase_add_test(tc, weights_are_not_copied))
