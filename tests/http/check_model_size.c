/* Models that are opened at an input size of their own, from every source of settings, and what memory_max_bytes means for
 * requests that choose one. */
#include "tests/support/http_client.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static vt_program vitrald;

static void kill_program(void)
{
    vt_program_kill(&vitrald);
}

/* Waits for /models to say this of both. */
static void expect_models(const char *first, const char *second)
{
    for (int k = 0;; k++) {
        const struct timespec pause = {0, 10000000};
        vt_http_reply reply = vt_http_call(vitrald.port, "GET", "/models", "", NULL, 0);
        const char *a = strstr(reply.body, first), *b = strstr(reply.body, second);
        const bool good = reply.status == 200 && a && b && a < b;
        ck_assert_msg(good || k < 500, "%s", reply.body);
        vt_http_free(&reply);
        if (good)
            return;
        nanosleep(&pause, NULL);
    }
}

static const char own[] = "\"image_size\":[32,32]", high[] = "\"image_size\":[64,48]";

START_TEST(from_flags_variables_and_file)
{
    char file[] = P_tmpdir "/vitral-check-size-XXXXXX", line[8192];
    const char *const plain[] = {"--listen", "127.0.0.1:0", "--workers", "1", NULL};
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", "--model",
                                                           "a=models/default", "--model",
                                                           "b=models/default?image_size=64x48", NULL});
    expect_models(own, high);
    kill(vitrald.pid, SIGHUP);
    vt_program_wait_for(&vitrald, "models are read again", line, sizeof line);
    vt_program_wait_for(&vitrald, "b: vitral_default, input of 64x48 pixels", line, sizeof line);
    expect_models(own, high);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);

    ck_assert_int_eq(setenv("VITRAL_MODEL", "b=models/default?image_size=64x48,a=models/default", 1), 0);
    vitrald = vt_program_start_ready(plain);
    expect_models(high, own);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    ck_assert_int_eq(unsetenv("VITRAL_MODEL"), 0);

    const int fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(dprintf(fd, "{\"model\": [\"models/default?image_size=32\", \"b=?image_size=64x48\"]}"), 0);
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--config", file, NULL});
    expect_models(own, high);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    ck_assert_int_eq(remove(file), 0);
}
END_TEST

/* The memory of a request with a size of its own is cut to the worker's share instead of refusing the start. */
START_TEST(memory_max_bytes_bounds_the_size)
{
    size_t size, cat_size;
    char line[8192];
    unsigned long long arena = 0;
    vitrald = vt_program_start_ready(
        (const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", "--image-side-max", "0", NULL});
    vt_program_wait_for(&vitrald, "bytes of arena", line, sizeof line); /* without image_size */
    const char *at = strstr(line, "at most ");
    ck_assert_msg(at && sscanf(at, "at most %llu", &arena) == 1, "%s", line);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    snprintf(line, sizeof line, "%llu", 2 * arena + 2000000); /* of the worker and the spare one */
    vitrald = vt_program_start_ready(
        (const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", "--memory-max-bytes", line, NULL});
    uint8_t *cat = vt_test_read("static/samples/cat.jpg", &cat_size);
    char *form = vt_http_form("img", cat, cat_size, "", &size);
    vt_http_reply reply =
        vt_http_call(vitrald.port, "POST", "/explain?method=rollout&image_size=36", VT_HTTP_FORM, form, size);
    ck_assert_msg(reply.status == 200, "%s", reply.body);
    vt_http_free(&reply);
    reply = vt_http_call(vitrald.port, "POST", "/explain?image_size=384&method=chefer_lrp", VT_HTTP_FORM, form, size);
    ck_assert_msg(reply.status == 422 && strstr(reply.body, "too_expensive"), "%s", reply.body);
    vt_http_free(&reply);
    free(form), free(cat);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* Models differ in what they leave of a worker's share: the one with least room counts, in whatever order they are named. */
START_TEST(memory_max_bytes_in_any_order)
{
    static const char *const models[] = {"a=?image_size=32", "b=?image_size=128"};
    char line[8192], limit[32];
    unsigned long long least = 0, most = 0, arena[2] = {0};
    for (size_t k = 0; k < 2; k++) { /* without image_size, and with it */
        vitrald = vt_program_start_ready((const char *const[]){
            "--listen", "127.0.0.1:0", "--workers", "1", "--image-size-max-bytes", "4000000000", "--model", models[0],
            "--model", models[1], "--image-side-max", k ? "1024" : "0", NULL});
        vt_program_wait_for(&vitrald, "bytes of arena", line, sizeof line);
        const char *at = strstr(line, "at most ");
        ck_assert_msg(at && sscanf(at, "at most %llu", k ? &most : &least) == 1, "%s", line);
        ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    }
    ck_assert_msg(most > least + 4000000, "%llu and %llu", least, most);
    snprintf(limit, sizeof limit, "%llu", least + most); /* half way, for two arenas */
    for (size_t k = 0; k < 2; k++) {
        vitrald = vt_program_start_ready((const char *const[]){
            "--listen", "127.0.0.1:0", "--workers", "1", "--memory-max-bytes", limit, "--image-size-max-bytes",
            "4000000000", "--model", models[k], "--model", models[1 - k], NULL});
        vt_program_wait_for(&vitrald, "bytes of arena", line, sizeof line);
        const char *at = strstr(line, "at most ");
        ck_assert_msg(at && sscanf(at, "at most %llu", &arena[k]) == 1, "%s", line);
        ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    }
    ck_assert_uint_eq(arena[0], arena[1]);
    ck_assert_uint_eq(arena[0], (least + most) / 2); /* all of the share, and no more */
}
END_TEST

VT_SUITE("model size", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, NULL, kill_program);
         tcase_add_test(tc, from_flags_variables_and_file); tcase_add_test(tc, memory_max_bytes_bounds_the_size);
         tcase_add_test(tc, memory_max_bytes_in_any_order))
