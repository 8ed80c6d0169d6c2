/* The program itself: what it says when it is ready, how it ends on SIGTERM, and what it says when it cannot start.
 * VITRAL_BUILD names the folder of the program (default build). */
#include "tests/support/http_client.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"
#include "vitral/control.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static vt_program vitrald;

static void tear_down(void)
{
    vt_program_kill(&vitrald);
}

static vt_http_reply explain(unsigned port, const char *query, int *open_fd)
{
    size_t size = 0, n = 0;
    char target[512];
    uint8_t *cat = vt_test_read("static/samples/cat.jpg", &size);
    ck_assert_ptr_nonnull(cat);
    char *form = vt_http_form("img", cat, size, "", &n);
    snprintf(target, sizeof target, "/explain?%s", query);
    vt_http_reply reply = {0};
    if (open_fd) {
        *open_fd = vt_http_connect(port);
        vt_http_text(*open_fd, "POST %s HTTP/1.1\r\nHost: t\r\n" VT_HTTP_FORM "Content-Length: %zu\r\n\r\n", target, n);
        vt_http_send(*open_fd, form, n);
    } else {
        reply = vt_http_call(port, "POST", target, VT_HTTP_FORM, form, n);
    }
    free(form);
    free(cat);
    return reply;
}

START_TEST(says_where_it_listens_and_ends_on_a_signal)
{
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t k = 0; k < 2; k++) {
        char log[65536];
        vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", NULL});
        vt_http_reply reply = explain(vitrald.port, "method=rollout&output=values", NULL);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        kill(vitrald.pid, SIGHUP); /* not an end */
        reply = vt_http_call(vitrald.port, "GET", "/readyz", "", NULL, 0);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        kill(vitrald.pid, signals[k]);
        vt_program_read(vitrald.err, log, sizeof log, false);
        ck_assert_int_eq(vt_program_exit(&vitrald), 0);
        ck_assert_msg(strstr(log, "libmicrohttpd ") && strstr(log, "\"event\":\"request\"") &&
                          strstr(log, "\"route\":\"explain\",\"status\":200"),
                      "%s", log);
        ck_assert_msg(strstr(log, "\"methods\":\"rollout\""), "%s", log);
        ck_assert_msg(!strstr(log, "x.jpg") && !strstr(log, "filename"), "the log knows the file's name");
    }
}
END_TEST

/* A trace context is logged when there is one; two are as good as none. */
START_TEST(one_trace_context_is_logged)
{
#define TRACE "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
    static const char *const headers[] = {TRACE, TRACE TRACE, ""};
    char log[8192];
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", NULL});
    for (size_t k = 0; k < VT_COUNT(headers); k++) {
        vt_http_reply reply = vt_http_call(vitrald.port, "GET", "/healthz", headers[k], NULL, 0);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        vt_program_wait_for(&vitrald, "\"route\":\"healthz\"", log, sizeof log);
        ck_assert_msg((strstr(log, "\"traceparent\":") != NULL) == (k == 0), "%zu: %s", k, log);
    }
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* 60 pictures of the heavy kind: the answer is on its way for a good while. */
START_TEST(answers_what_is_in_hand_before_it_ends)
{
    int fd;
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", "--log", "none",
                                                           "--drain-timeout-ms", "60000", NULL});
    explain(vitrald.port, "method=qk_maps&layer=all&head=all&which=q&channel=0,1,2,3,4&output=overlay", &fd);
    const struct timespec wait = {0, 100000000};
    nanosleep(&wait, NULL);
    kill(vitrald.pid, SIGTERM);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_msg(reply.status == 200, "status %d", reply.status);
    ck_assert_str_eq(vt_http_header(&reply, "Connection"), "close");
    vt_http_free(&reply);
    close(fd);
    ck_assert_int_eq(vt_program_exit(&vitrald), 0);
}
END_TEST

START_TEST(a_port_of_its_own)
{
    char listen[64], text[1024];
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--log", "none", NULL});
    snprintf(listen, sizeof listen, "127.0.0.1:%u", vitrald.port);
    vt_program second = vt_program_start((const char *const[]){"--listen", listen, "--log", "none", NULL});
    vt_program_read(second.err, text, sizeof text, false);
    ck_assert_int_eq(vt_program_exit(&second), 2);
    ck_assert_msg(strstr(text, listen) && strstr(text, "in use"), "%s", text);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    vitrald = vt_program_start_ready(
        (const char *const[]){"--listen", listen, "--log", "none", NULL}); /* free again at once */
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* ---- SIGHUP ---- */

static char folder[] = P_tmpdir "/vitral-check-hup-XXXXXX";

static void hang_up(const char *words)
{
    char line[8192];
    kill(vitrald.pid, SIGHUP);
    vt_program_wait_for(&vitrald, words, line, sizeof line);
}

/* GET with a token, until the status is this one; the body to be freed. */
static char *get(const char *target, const char *token, int status)
{
    char header[128];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", token);
    for (int k = 0;; k++) {
        const struct timespec wait = {0, 10000000};
        vt_http_reply reply = vt_http_call(vitrald.port, "GET", target, header, NULL, 0);
        if (reply.status == status)
            return reply.body;
        ck_assert_msg(k < 1000, "%s with %s: %d", target, token, reply.status);
        vt_http_free(&reply);
        nanosleep(&wait, NULL);
    }
}

static json_t *explain_with(const char *token)
{
    size_t size = 0;
    char header[128];
    uint8_t *cat = vt_test_read("static/samples/cat.jpg", &size);
    snprintf(header, sizeof header, "Content-Type: image/jpeg\r\nAuthorization: Bearer %s\r\n", token);
    vt_http_reply reply = vt_http_call(vitrald.port, "POST", "/explain?output=values&class=3", header, cat, size);
    ck_assert_msg(reply.status == 200, "%d %s", reply.status, reply.body);
    json_t *root = json_loads(reply.body, 0, NULL);
    ck_assert_ptr_nonnull(root);
    vt_http_free(&reply);
    free(cat);
    return root;
}

static const char *target_label(const json_t *root)
{
    return json_string_value(
        json_object_get(json_object_get(json_array_get(json_object_get(root, "maps"), 0), "target"), "label"));
}

START_TEST(sighup_reads_tokens_and_models_again)
{
    char model[128], tokens[128];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(model, sizeof model, "m=%s/m", folder);
    snprintf(tokens, sizeof tokens, "%s/tokens", folder);
    vt_test_shell("cp -r models/default %s/m && chmod -R u+w %s && echo first >%s", folder, folder, tokens);
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", "--model",
                                                           model, "--token-file", tokens, NULL});
    json_t *a = explain_with("first"), *b = explain_with("first");
    ck_assert_str_eq(target_label(a), "cat");
    ck_assert(json_is_false(json_object_get(a, "cached")) && json_is_true(json_object_get(b, "cached")));
    json_decref(a), json_decref(b);

    vt_test_shell("echo second >%s", tokens); /* tokens */
    hang_up("tokens");
    free(get("/models", "second", 200));
    free(get("/models", "first", 403));
    vt_test_shell(": >%s", tokens); /* no token is not an open door */
    hang_up("the tokens stay as they were");
    free(get("/models", "second", 200));
    free(get("/models", "first", 403));
    vt_test_shell("echo second >%s", tokens);

    vt_test_shell("cd %s/m && sed s/cat/tiger/ labels.txt >new && mv new labels.txt", folder); /* labels */
    hang_up("\"event\":\"model\"");
    char *labels;
    for (int k = 0; labels = get("/labels", "second", 200), !strstr(labels, "tiger"); k++) {
        ck_assert_msg(k < 1000, "the labels stay: %s", labels);
        free(labels);
    }
    free(labels);
    a = explain_with("second"); /* not the answer of the old model */
    ck_assert_str_eq(target_label(a), "tiger");
    ck_assert(json_is_false(json_object_get(a, "cached")));
    json_decref(a);

    vt_test_shell("cd %s/m && head -c 5000 model.safetensors >new && mv new model.safetensors", folder); /* a bad one */
    hang_up("the models stay as they were");
    a = explain_with("second");
    ck_assert_str_eq(target_label(a), "tiger");
    json_decref(a);
    vt_test_shell("rm -r %s/m", folder);
    hang_up("the models stay as they were");
    a = explain_with("second");
    ck_assert_str_eq(target_label(a), "tiger");
    json_decref(a);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    vt_test_shell("rm -r %s", folder);
}
END_TEST

static const struct {
    const char *args[5], *says;
} refused[] = {
    {{"--wrkers", "1"}, "did you mean --workers?"},
    {{"--model", "/nonexistent/folder"}, "/nonexistent/folder"},
    {{"--listen", "nowhere"}, "HOST:PORT"},
    {{"--listen", "no.such.host.invalid:1"}, "no.such.host.invalid"},
    {{"--token-file", "/nonexistent/tokens"}, "/nonexistent/tokens"},
    {{"--cors-origins", "viewer"}, "no origin"},
    {{"--blas-threads", "2", "--workers", "2"}, "one worker"},
    {{"--memory-max-bytes", "1000"}, "memory_max_bytes"},
    {{"--log", "/nonexistent/log"}, "/nonexistent/log"},
    {{"--model", "models/default?image_size=30"}, "nearest is 32x32"},
    {{"--model", "models/default?image_size=x"}, "HxW"},
    {{"--model", "models/default?size=32"}, "?image_size="},
    {{"--model", "models/default", "--model", "models/default?image_size=64"}, "NAME=DIR"},
};

START_TEST(one_sentence_when_it_cannot_start)
{
    char text[4096], *last = text;
    const char *args[8] = {0};
    size_t n = 0;
    while (refused[_i].args[n])
        args[n] = refused[_i].args[n], n++;
    if (strcmp(args[0], "--listen") != 0)
        args[n++] = "--listen", args[n++] = "127.0.0.1:0";
    vt_program p = vt_program_start(args);
    vt_program_read(p.err, text, sizeof text, false);
    ck_assert_int_eq(vt_program_exit(&p), 2);
    for (char *at = text; (at = strchr(at, '\n')) && at[1]; at++) /* log lines come before it */
        last = at + 1;
    ck_assert_msg(strncmp(last, "vitrald: ", 9) == 0 && strstr(last, refused[_i].says), "\"%s\" does not say \"%s\"",
                  last, refused[_i].says);
}
END_TEST

START_TEST(help_and_version)
{
    static const char *const flags[] = {"--help", "--version"}, *const says[] = {"--upload-max-bytes", "vitrald "};
    for (size_t k = 0; k < 2; k++) {
        char text[16384];
        vt_program p = vt_program_start((const char *const[]){flags[k], NULL});
        vt_program_read(p.out, text, sizeof text, false);
        ck_assert_int_eq(vt_program_exit(&p), 0);
        ck_assert_msg(strstr(text, says[k]) != NULL, "%s", text);
    }
}
END_TEST

VT_SUITE("vitrald", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, NULL, tear_down);
         tcase_add_test(tc, says_where_it_listens_and_ends_on_a_signal);
         tcase_add_test(tc, sighup_reads_tokens_and_models_again); tcase_add_test(tc, one_trace_context_is_logged);
         tcase_add_test(tc, answers_what_is_in_hand_before_it_ends); tcase_add_test(tc, a_port_of_its_own);
         tcase_add_loop_test(tc, one_sentence_when_it_cannot_start, 0, VT_COUNT(refused));
         tcase_add_test(tc, help_and_version))
