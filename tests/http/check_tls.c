/* TLS: --tls-cert-file and --tls-key-file with a certificate made on the spot by the openssl command, asked by curl.
 * Without one of the two commands the tests say so and pass. */
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char folder[] = P_tmpdir "/vitral-check-tls-XXXXXX", cert[64], key[64], other[64];
static vt_program vitrald;

static bool cannot(void)
{
    static const char *const commands[] = {"openssl", "curl"};
    char test[64];
    for (size_t k = 0; k < 2; k++) {
        snprintf(test, sizeof test, "command -v %s >/dev/null 2>&1", commands[k]);
        if (system(test) != 0) {
            printf("skip: %s not found\n", commands[k]);
            return true;
        }
    }
    return false;
}

static void set_up(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    snprintf(other, sizeof other, "%s/other.pem", folder);
    if (system("command -v openssl >/dev/null 2>&1") != 0)
        return;
    vt_test_shell(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout %s -out %s 2>%s/log",
        key, cert, folder);
    vt_test_shell("openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out %s 2>>%s/log", other,
                  folder);
}

static void tear_down(void)
{
    vt_program_kill(&vitrald);
    vt_test_shell("rm -rf %s", folder);
}

static int run_curl(const char *words)
{
    char command[1200];
    snprintf(command, sizeof command, "curl -sS --cacert %s -o %s/out %s 2>%s/err", cert, folder, words, folder);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int curl(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* curl's output goes to FOLDER/out; its exit status comes back. */
static int curl(const char *fmt, ...)
{
    char words[900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    return run_curl(words);
}

static char *output(void)
{
    char path[96];
    size_t size;
    snprintf(path, sizeof path, "%s/out", folder);
    char *text = (char *)vt_test_read(path, &size);
    ck_assert_ptr_nonnull(text);
    return text;
}

/* A drain waits for the work in hand, whatever a build under a sanitizer takes for it. */
static void start_server(void)
{
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", "--log", "none",
                                                           "--drain-timeout-ms", "600000", "--tls-cert-file", cert,
                                                           "--tls-key-file", key, NULL});
}

static void expect(const char *says, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void expect(const char *says, const char *fmt, ...)
{
    char words[900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    const int status = run_curl(words);
    ck_assert_msg(status == 0, "curl %s: exit status %d", words, status);
    char *text = output();
    ck_assert_msg(strstr(text, says) != NULL, "curl %s: %.300s", words, text);
    free(text);
}

#define PICTURE "-F img=@static/samples/cat.jpg "

START_TEST(requests_over_tls)
{
    if (cannot())
        return;
    start_server();
    const unsigned port = vitrald.port;
    expect("ok", "https://127.0.0.1:%u/healthz", port);
    expect("\"rollout\"", PICTURE "'https://localhost:%u/explain?method=rollout&output=values'", port);
    expect("PNG", PICTURE "-H 'Accept: image/png' 'https://localhost:%u/explain?class=cat'", port);
    expect("event: result", PICTURE "-N -H 'Accept: text/event-stream' 'https://localhost:%u/explain?seed=1'", port);
    expect("ready", "--tls-max 1.2 https://127.0.0.1:%u/readyz", port);
    expect("Strict-Transport-Security: max-age=31536000", "-i https://127.0.0.1:%u/readyz", port);
    ck_assert_int_ne(curl("http://127.0.0.1:%u/healthz", port), 0); /* no plain HTTP beside it */
    ck_assert_int_ne(curl("--tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0 https://127.0.0.1:%u/healthz", port), 0);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* 60 pictures of the heavy kind. */
#define HEAVY                                                                                                          \
    PICTURE "'https://127.0.0.1:%u/"                                                                                   \
            "explain?method=qk_maps&layer=all&head=all&which=q&channel=0,1,2,3,4&output=overlay'"

static void wait_for_metric(const char *line)
{
    for (int k = 0; k < 500; k++) {
        expect("vitral_inflight", "https://127.0.0.1:%u/metrics", vitrald.port);
        char *text = output();
        const bool there = strstr(text, line) != NULL;
        free(text);
        if (there)
            return;
    }
    ck_abort_msg("the metrics never say%s", line);
}

/* A client that does not wait for its answer; then one that does, through a drain. */
START_TEST(cancel_and_drain_over_tls)
{
    if (cannot())
        return;
    start_server();
    ck_assert_int_eq(curl("--max-time 0.15 " HEAVY, vitrald.port), 28); /* curl's own time is over */
    wait_for_metric("\nvitral_cancelled_total 1\n");
    wait_for_metric("\nvitral_inflight 0\n");
    vt_test_shell("curl -sS --cacert %s -o %s/slow -w '%%{http_code}' " HEAVY " >%s/code &", cert, folder, vitrald.port,
                  folder);
    wait_for_metric("\nvitral_inflight 1\n");
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    vt_test_shell("for k in $(seq 100); do [ -s %s/code ] && break; sleep 0.1; done; grep -q 200 %s/code", folder,
                  folder);
}
END_TEST

static const struct {
    const char *cert, *key, *says; /* cert, key: names in the folder */
} refused[] = {
    {"cert.pem", NULL, "tls_key_file is missing"},
    {NULL, "key.pem", "tls_cert_file is missing"},
    {"none", "key.pem", "cannot be read"},
    {"cert.pem", "none", "cannot be read"},
    {"log", "key.pem", "no PEM file"},
    {"cert.pem", "other.pem", "does not go with the key"},
    {"key.pem", "key.pem", "does not go with"},
};

START_TEST(one_sentence_when_it_cannot_start)
{
    char text[8192], paths[2][96], *last = text;
    const char *args[10] = {"--listen", "127.0.0.1:0", "--workers", "1"};
    size_t n = 4;
    if (cannot())
        return;
    snprintf(paths[0], sizeof paths[0], "%s/%s", folder, refused[_i].cert ? refused[_i].cert : "");
    snprintf(paths[1], sizeof paths[1], "%s/%s", folder, refused[_i].key ? refused[_i].key : "");
    if (refused[_i].cert)
        args[n++] = "--tls-cert-file", args[n++] = paths[0];
    if (refused[_i].key)
        args[n++] = "--tls-key-file", args[n++] = paths[1];
    vitrald = vt_program_start(args);
    vt_program_read(vitrald.err, text, sizeof text, false);
    ck_assert_int_eq(vt_program_exit(&vitrald), 2);
    for (char *at = text; (at = strchr(at, '\n')) && at[1]; at++)
        last = at + 1;
    ck_assert_msg(strncmp(last, "vitrald: ", 9) == 0 && strstr(last, refused[_i].says), "\"%s\" does not say \"%s\"",
                  last, refused[_i].says);
    ck_assert_msg(!strstr(text, "PRIVATE"), "the key is in the log");
}
END_TEST

VT_SUITE("tls", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, set_up, tear_down);
         tcase_add_test(tc, requests_over_tls); tcase_add_test(tc, cancel_and_drain_over_tls);
         tcase_add_loop_test(tc, one_sentence_when_it_cannot_start, 0, (int)(sizeof refused / sizeof refused[0])))
