/* What keeps a real vitrald safe to stand on a network: names in the logs and never a token, limits of a client, the audit log,
 * the sandbox, headers, and memory in which no picture stays. What happens when it is refused is in check_refusals. */
#include "tests/support/http_client.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <png.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

/* Under ThreadSanitizer a start takes a second: what one thread does alone is not tried again there. */
#if defined(__SANITIZE_THREAD__)
static const bool threads_only = true;
#else
static const bool threads_only = false;
#endif

static char folder[] = P_tmpdir "/vitral-check-safety-XXXXXX", tokens[64], audit[64], logs[64];
static vt_program vitrald;

#define RADIOLOGY "Authorization: Bearer first-secret\r\n"
#define RADIOLOGY_TOO "Authorization: Bearer second-secret\r\n"
#define UNNAMED "Authorization: Bearer third-secret\r\n"

static void set_up(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(tokens, sizeof tokens, "%s/tokens", folder);
    snprintf(audit, sizeof audit, "%s/audit", folder);
    snprintf(logs, sizeof logs, "%s/log", folder);
    vt_test_shell("printf '# house\\nradiology first-secret\\nradiology\\tsecond-secret\\nthird-secret\\n' >%s",
                  tokens);
}

static void tear_down(void)
{
    vt_program_kill(&vitrald);
    vt_test_shell("rm -rf %s", folder);
}

/* More flags, up to a NULL. */
static void start(const char *const *more)
{
    const char *args[24] = {"--listen", "127.0.0.1:0", "--workers", "1"};
    size_t n = 4;
    for (size_t k = 0; more[k]; k++)
        args[n++] = more[k];
    args[n] = NULL;
    vitrald = vt_program_start_ready(args);
}
#define START(...) start((const char *const[]){__VA_ARGS__, NULL})

static int status_of(const char *verb, const char *target, const char *headers)
{
    vt_http_reply reply = vt_http_call(vitrald.port, verb, target, headers, NULL, 0);
    vt_http_free(&reply);
    return reply.status;
}

static vt_http_reply post(const char *target, const char *headers, const void *bytes, size_t size)
{
    char all[512];
    snprintf(all, sizeof all, "Content-Type: image/jpeg\r\n%s", headers);
    return vt_http_call(vitrald.port, "POST", target, all, bytes, size);
}

static vt_http_reply post_cat(const char *target, const char *headers)
{
    size_t size = 0;
    uint8_t *cat = vt_test_read("static/samples/cat.jpg", &size);
    ck_assert_ptr_nonnull(cat);
    vt_http_reply reply = post(target, headers, cat, size);
    free(cat);
    return reply;
}

static void pause_ms(long ms)
{
    const struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&wait, NULL);
}

/* A file's text, to be freed, once it holds the words. */
static char *file_with(const char *path, const char *words)
{
    for (int k = 0;; k++) {
        size_t size = 0;
        char *text = (char *)vt_test_read(path, &size);
        if (text && strstr(text, words))
            return text;
        ck_assert_msg(k < 2000, "%s does not come to hold %s: %s", path, words, text ? text : "(no file)");
        free(text);
        pause_ms(5);
    }
}

/* The line of a text that holds the words. */
static json_t *line_with(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    ck_assert_msg(at != NULL, "no %s in %s", words, text);
    while (at > text && at[-1] != '\n')
        at--;
    json_t *root = json_loadb(at, strcspn(at, "\n"), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(json_is_object(root), "%s", at);
    return root;
}

static const char *field(const json_t *root, const char *key)
{
    const char *value = json_string_value(json_object_get(root, key));
    return value ? value : "";
}

static double metric(const char *name, const char *headers)
{
    char words[64];
    vt_http_reply reply = vt_http_call(vitrald.port, "GET", "/metrics", headers, NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    snprintf(words, sizeof words, "\n%s ", name);
    const char *at = strstr(reply.body, words);
    ck_assert_msg(at != NULL, "no %s", name);
    const double value = strtod(at + strlen(words), NULL);
    vt_http_free(&reply);
    return value;
}

/* ---- names, audit ---- */

START_TEST(the_audit_log_says_who_asked_what)
{
    START("--token-file", tokens, "--audit-log", audit, "--log", logs);
    vt_http_reply reply = post_cat("/explain?method=rollout&seed=4711", RADIOLOGY);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    reply = post_cat("/predict", UNNAMED);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    ck_assert_int_eq(status_of("GET", "/models", "Authorization: Bearer wrong-secret\r\n"), 403);
    ck_assert_int_eq(status_of("GET", "/healthz", RADIOLOGY), 200);
    ck_assert_int_eq(status_of("GET", "/", RADIOLOGY), 200);
    ck_assert_int_eq(status_of("GET", "/nowhere?name=Jane", RADIOLOGY_TOO), 404);
    char *text = file_with(audit, "/nowhere"), *log = file_with(logs, "\"route\":\"none\"");
    json_t *one = line_with(text, "/explain"), *two = line_with(text, "/predict"), *three = line_with(text, "/models");
    ck_assert_str_eq(field(one, "client"), "radiology");
    ck_assert_str_eq(field(one, "address"), "127.0.0.1");
    ck_assert_str_eq(field(one, "verb"), "POST");
    ck_assert_str_eq(field(one, "path"), "/explain");
    ck_assert_str_eq(field(one, "methods"), "rollout");
    ck_assert_str_eq(field(one, "model"), "default");
    ck_assert_str_eq(field(one, "outcome"), "ok");
    ck_assert_int_eq(json_integer_value(json_object_get(one, "status")), 200);
    ck_assert_str_eq(field(one, "picture"), field(two, "picture"));
    ck_assert(strncmp(field(one, "picture"), "sha256:", 7) == 0 && strlen(field(one, "picture")) == 71);
    ck_assert_str_eq(field(two, "client"), "#3");
    ck_assert_int_eq(json_integer_value(json_object_get(three, "status")), 403);
    ck_assert(!json_object_get(three, "client") && !json_object_get(three, "picture"));
    json_t *same = line_with(log, field(one, "id"));
    ck_assert_str_eq(field(same, "client"), "radiology");
    ck_assert_msg(!strstr(text, "/healthz") && !strstr(text, "\"path\":\"/\""), "%s", text);
    ck_assert_msg(!strstr(text, "secret") && !strstr(log, "secret"), "a token is in a log");
    ck_assert_msg(!strstr(text, "Jane") && !strstr(text, "4711"), "a query is in the audit log");
    json_decref(one), json_decref(two), json_decref(three), json_decref(same);
    free(text), free(log);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

START_TEST(logs_are_rotated_by_rename_and_sighup)
{
    START("--token-file", tokens, "--audit-log", audit, "--log", logs);
    ck_assert_int_eq(status_of("GET", "/models", RADIOLOGY), 200);
    free(file_with(audit, "/models"));
    vt_test_shell("mv %s %s.1 && mv %s %s.1", audit, audit, logs, logs);
    ck_assert_int_eq(status_of("GET", "/methods", RADIOLOGY), 200); /* before SIGHUP: into the old file */
    char old[80];
    snprintf(old, sizeof old, "%s.1", audit);
    free(file_with(old, "/methods"));
    kill(vitrald.pid, SIGHUP);
    free(file_with(logs, "\"event\":\"tokens\""));
    ck_assert_int_eq(status_of("GET", "/labels", RADIOLOGY), 200);
    char *text = file_with(audit, "/labels"), *before = file_with(old, "/methods");
    ck_assert(!strstr(text, "/methods") && !strstr(before, "/labels"));
    free(text), free(before);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

START_TEST(a_full_disk_stops_nobody)
{
    if (access("/dev/full", W_OK) != 0) {
        printf("skip: /dev/full not found\n");
        return;
    }
    START("--token-file", tokens, "--audit-log", "/dev/full", "--log", logs);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(status_of("GET", "/models", RADIOLOGY), 200);
    ck_assert(metric("vitral_audit_lost_total", RADIOLOGY) >= 3.0);
    char *text = file_with(logs, "\"event\":\"audit_lost\"");
    ck_assert_msg(strstr(text, strerror(ENOSPC)) != NULL, "%s", text);
    ck_assert_msg(!strstr(strstr(text, "audit_lost") + 1, "audit_lost"), "it is said more than once: %s", text);
    free(text);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* ---- limits of a client ---- */

static void expect_limited(vt_http_reply reply, const char *setting, int limit)
{
    json_t *root = json_loadb(reply.body, reply.size, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(reply.status == 429, "%d %s", reply.status, reply.body);
    ck_assert_str_eq(field(root, "code"), "rate_limited");
    ck_assert_msg(strstr(field(root, "detail"), setting) != NULL, "%s", reply.body);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "limit")), limit);
    const unsigned long wait = strtoul(vt_http_header(&reply, "Retry-After"), NULL, 10);
    ck_assert_msg(wait >= 1 && wait <= 60, "Retry-After: %lu", wait);
    json_decref(root);
    vt_http_free(&reply);
}

START_TEST(a_client_that_asks_too_often_hears_429)
{
    if (threads_only)
        return;
    START("--token-file", tokens, "--client-requests-per-minute", "3");
    ck_assert_int_eq(status_of("GET", "/models", RADIOLOGY), 200);
    ck_assert_int_eq(status_of("GET", "/models", RADIOLOGY_TOO), 200); /* another token of the same name */
    ck_assert_int_eq(status_of("GET", "/models", RADIOLOGY), 200);
    expect_limited(vt_http_call(vitrald.port, "GET", "/models", RADIOLOGY, NULL, 0), "client_requests_per_minute", 3);
    expect_limited(post_cat("/predict", RADIOLOGY_TOO), "client_requests_per_minute", 3);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(status_of("GET", "/models", UNNAMED), 200);
    ck_assert_int_eq(status_of("GET", "/models", UNNAMED), 429);
    for (int k = 0; k < 5; k++) { /* who guesses tokens is limited, too */
        ck_assert_int_eq(status_of("GET", "/models", "Authorization: Bearer guess\r\n"), k < 3 ? 403 : 429);
        ck_assert_int_eq(status_of("GET", "/healthz", ""), 200);
        ck_assert_int_eq(status_of("GET", "/ui/app.js", ""), 200);
    }
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

START_TEST(pictures_at_once_are_limited)
{
    START("--client-requests-at-once", "1", "--log", "none");
    const int fd = vt_http_connect(vitrald.port);
    vt_http_text(fd,
                 "POST /predict HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nContent-Length: 1000\r\n\r\nbegin");
    while (metric("vitral_upload_bytes_in_use", "") == 0.0)
        pause_ms(2);
    expect_limited(post_cat("/predict", ""), "client_requests_at_once", 1);
    ck_assert_int_eq(status_of("GET", "/models", ""), 200);
    close(fd);
    for (int k = 0, status = 429; status != 200; k++) {
        vt_http_reply reply = post_cat("/predict", "");
        status = reply.status;
        ck_assert_msg(k < 1000 && (status == 200 || status == 429), "%d %s", status, reply.body);
        vt_http_free(&reply);
    }
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

#define FROM(address) "X-Forwarded-For: " address "\r\n"

START_TEST(forwarded_addresses_count_behind_trusted_proxies_only)
{
    if (threads_only)
        return;
    for (int trusted = 0; trusted < 2; trusted++) {
        char line[4096];
        if (trusted)
            START("--client-requests-per-minute", "1", "--trusted-proxies", "127.0.0.0/8, ::1");
        else
            START("--client-requests-per-minute", "1");
        ck_assert_int_eq(status_of("GET", "/models", FROM("192.0.2.1")), 200);
        vt_program_wait_for(&vitrald, "\"route\":\"models\"", line, sizeof line);
        ck_assert_msg((strstr(line, "\"behind\":\"192.0.2.1\"") != NULL) == trusted, "%s", line);
        ck_assert_msg(strstr(line, "\"remote\":\"127.0.0.1\"") != NULL, "%s", line);
        ck_assert_int_eq(status_of("GET", "/models", FROM("192.0.2.2")), trusted ? 200 : 429);
        ck_assert_int_eq(status_of("GET", "/models", FROM("8.8.8.8, 192.0.2.1")), 429);
        ck_assert_int_eq(status_of("GET", "/models", FROM("8.8.8.8") FROM("192.0.2.2, 127.0.0.1")), 429);
        ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    }
}
END_TEST

/* ---- headers ---- */

START_TEST(every_answer_is_fenced_in)
{
    if (threads_only)
        return;
    static const struct {
        const char *verb, *target;
        int status;
    } calls[] = {{"GET", "/", 200},         {"GET", "/ui/app.js", 200}, {"GET", "/healthz", 200},
                 {"GET", "/models", 200},   {"GET", "/nowhere", 404},   {"PUT", "/predict", 405},
                 {"HEAD", "/methods", 200}, {"POST", "/predict", 411},  {"OPTIONS", "/predict", 204}};
    static const char *const same[][2] = {{"X-Content-Type-Options", "nosniff"},
                                          {"X-Frame-Options", "DENY"},
                                          {"Referrer-Policy", "no-referrer"},
                                          {"Cross-Origin-Resource-Policy", "same-origin"},
                                          {"Cross-Origin-Opener-Policy", "same-origin"},
                                          {"Strict-Transport-Security", ""}}; /* not without TLS */
    START("--log", "none");
    for (size_t k = 0; k < VT_COUNT(calls); k++) {
        vt_http_reply reply = vt_http_call(vitrald.port, calls[k].verb, calls[k].target, "", NULL, 0);
        ck_assert_msg(reply.status == calls[k].status, "%s %s: %d", calls[k].verb, calls[k].target, reply.status);
        for (size_t j = 0; j < VT_COUNT(same); j++)
            ck_assert_msg(strcmp(vt_http_header(&reply, same[j][0]), same[j][1]) == 0, "%s: %s", calls[k].target,
                          same[j][0]);
        ck_assert_msg(strstr(vt_http_header(&reply, "Content-Security-Policy"), "default-src 'none'") &&
                          strstr(vt_http_header(&reply, "Content-Security-Policy"), "frame-ancestors 'none'"),
                      "%s", calls[k].target);
        vt_http_free(&reply);
    }
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* ---- sandbox ---- */

START_TEST(every_thread_is_in_the_sandbox)
{
    char line[1024];
    START("--cache-bytes", "0", "--log", "-");
    vt_program_wait_for(&vitrald, "\"event\":\"sandbox\"", line, sizeof line);
    const bool seccomp = metric("vitral_sandbox_seccomp", "") == 1.0,
               landlock = metric("vitral_sandbox_landlock", "") >= 1.0;
    ck_assert_msg((strstr(line, "seccomp on") != NULL) == seccomp, "%s", line);
    ck_assert_msg((strstr(line, "Landlock version") != NULL) == landlock, "%s", line);
    if (seccomp)
        vt_test_shell(
            "cd /proc/%d/task && [ $(ls | wc -l) -ge 3 ] && ! grep -L '^Seccomp:[[:space:]]*2' */status | grep .",
            (int)vitrald.pid);
    vt_test_shell("grep -q 'Max core file size *0 *0 ' /proc/%d/limits", (int)vitrald.pid);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);

    START("--no-sandbox", "--log", "-");
    vt_program_wait_for(&vitrald, "\"event\":\"sandbox\"", line, sizeof line);
    ck_assert_msg(strstr(line, "off") != NULL, "%s", line);
    ck_assert(metric("vitral_sandbox_seccomp", "") == 0.0 && metric("vitral_sandbox_landlock", "") == 0.0);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);

    vt_program p = vt_program_start((const char *const[]){"--listen", "127.0.0.1:0", "--sandbox", "require", NULL});
    vt_program_read(p.out, line, sizeof line, true);
    ck_assert_msg((strncmp(line, "listening", 9) == 0) == (seccomp && landlock), "%s", line);
    kill(p.pid, SIGTERM);
    ck_assert_int_eq(vt_program_exit(&p), seccomp && landlock ? 0 : 2);
}
END_TEST

/* All that SIGHUP may find anew: the folder replaced by rename, a symbolic link that leads elsewhere near by. And what it may
 * not: a link that leads out. */
START_TEST(reload_works_inside)
{
    char model[96];
    vt_test_shell("cd %s && mkdir models && cp -r \"$OLDPWD\"/models/default models/one && chmod -R u+w models && "
                  "cp -r models/one models/two && sed -i s/cat/lynx/ models/two/labels.txt && ln -s one models/now",
                  folder);
    snprintf(model, sizeof model, "m=%s/models/now", folder);
    START("--model", model, "--token-file", tokens, "--log", logs);
    vt_test_shell("cd %s/models && ln -s two next && mv -T next now", folder);
    kill(vitrald.pid, SIGHUP);
    for (int k = 0, status = 0; status != 200; k++) {
        vt_http_reply reply = vt_http_call(vitrald.port, "GET", "/labels?q=lynx", RADIOLOGY, NULL, 0);
        status = reply.status == 200 && strstr(reply.body, "lynx") ? 200 : 0;
        vt_http_free(&reply);
        ck_assert_msg(k < 1000, "the model behind the link is not read again");
        pause_ms(10);
    }
    vt_test_shell("cd %s && mv tokens old && echo fresh fourth-secret >tokens", folder);
    kill(vitrald.pid, SIGHUP);
    for (int k = 0; status_of("GET", "/models", "Authorization: Bearer fourth-secret\r\n") != 200; k++) {
        ck_assert_msg(k < 1000, "the tokens are not read again");
        pause_ms(10);
    }
#if defined(VT_COVERAGE)
    const bool closed = false; /* counters are written at the end, wherever they are */
#else
    const bool closed = metric("vitral_sandbox_landlock", "Authorization: Bearer fourth-secret\r\n") >= 1.0;
#endif
    if (closed) {
        vt_test_shell("here=$PWD && cd %s/models && ln -s $here/models/default next && mv -T next now", folder);
        kill(vitrald.pid, SIGHUP);
        free(file_with(logs, "Permission denied"));
    }
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* ---- memory ---- */

/* How often the bytes stand in the memory of the server that is really there. -1: it cannot be looked at. */
static int found_in_memory(const uint8_t *needle, size_t size)
{
    enum { PAGE = 4096, PAGES = 512 };
    static uint8_t block[PAGE * PAGES + PAGE];
    static uint64_t present[PAGES];
    char path[64], line[512];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)vitrald.pid);
    FILE *maps = fopen(path, "r");
    snprintf(path, sizeof path, "/proc/%d/mem", (int)vitrald.pid);
    const int memory = open(path, O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)vitrald.pid);
    const int pages = open(path, O_RDONLY);
    while (maps && memory >= 0 && pages >= 0 && fgets(line, sizeof line, maps)) {
        unsigned long long from, to;
        char rights[8];
        if (sscanf(line, "%llx-%llx %7s", &from, &to, rights) != 3 || rights[0] != 'r' || rights[1] != 'w')
            continue;
        size_t kept = 0; /* of the page before, for what lies across */
        while (from < to) {
            const size_t n = (to - from) / PAGE < PAGES ? (size_t)((to - from) / PAGE) : PAGES;
            if (pread(pages, present, n * 8, (off_t)(from / PAGE * 8)) != (ssize_t)(n * 8))
                break;
            for (size_t k = 0; k < n; k++) {
                const bool there = present[k] >> 62 != 0; /* in memory or in the swap */
                if (!there || pread(memory, block + kept, PAGE, (off_t)(from + k * PAGE)) != PAGE) {
                    kept = 0;
                    continue;
                }
                const uint8_t *end = block + kept + PAGE;
                for (const uint8_t *at = block; (at = memmem(at, (size_t)(end - at), needle, size)) != NULL; at++)
                    count++;
                memmove(block, end - (size - 1), size - 1);
                kept = size - 1;
            }
            from += n * PAGE;
        }
    }
    const bool seen = maps && memory >= 0 && pages >= 0;
    if (maps)
        fclose(maps);
    if (memory >= 0)
        close(memory);
    if (pages >= 0)
        close(pages);
    return seen ? count : -1;
}

/* A picture of noise: no row of it is anywhere by chance. In its PNG the rows stand as they are, since noise does not
 * compress; decoded they do as well. */
static uint8_t *noise_png(uint8_t *rgb, unsigned side, size_t *size)
{
    ck_assert_int_eq(getrandom(rgb, (size_t)side * side * 3, 0), (ssize_t)side * side * 3);
    png_image image = {.version = PNG_IMAGE_VERSION, .width = side, .height = side, .format = PNG_FORMAT_RGB};
    png_alloc_size_t bytes = 0;
    ck_assert(png_image_write_to_memory(&image, NULL, &bytes, 0, rgb, 0, NULL));
    uint8_t *out = malloc(bytes);
    ck_assert(out && png_image_write_to_memory(&image, out, &bytes, 0, rgb, 0, NULL));
    *size = bytes;
    return out;
}

START_TEST(a_forgotten_picture_is_nowhere_in_memory)
{
    enum { SIDE = 64, NEEDLE = 48 };
    static uint8_t rgb[SIDE * SIDE * 3];
    size_t size = 0;
    uint8_t *png = noise_png(rgb, SIDE, &size);
    const uint8_t *in_pixels = rgb + 30 * SIDE * 3, *in_file = png + size / 2;
    char form_id[160];
    if (sanitized) {
        printf("skip: a sanitizer keeps freed memory\n");
        free(png);
        return;
    }
    START("--log", "none");
    vt_http_reply reply = post("/explain?method=rollout,gradcam&output=overlay", "", png, size);
    ck_assert_int_eq(reply.status, 200);
    json_t *root = json_loadb(reply.body, reply.size, 0, NULL);
    const char *id = field(json_object_get(root, "image"), "id");
    ck_assert_msg(*id, "%.300s", reply.body);
    snprintf(form_id, sizeof form_id, "/images/%s", id);
    json_decref(root);
    vt_http_free(&reply);
    const int held = found_in_memory(in_file, NEEDLE);
    if (held < 0) {
        printf("skip: the memory of a process of ours cannot be read here\n");
    } else {
        ck_assert_int_ge(held, 1); /* or looking would prove nothing */
        ck_assert_int_eq(status_of("DELETE", form_id, ""), 204);
        for (int k = 0; found_in_memory(in_file, NEEDLE) + found_in_memory(in_pixels, NEEDLE) > 0; k++) {
            ck_assert_msg(k < 200, "the file is there %d times, its pixels %d times", found_in_memory(in_file, NEEDLE),
                          found_in_memory(in_pixels, NEEDLE));
            pause_ms(10);
        }
    }
    free(png);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

VT_SUITE("safety", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, set_up, tear_down);
         tcase_add_test(tc, the_audit_log_says_who_asked_what);
         tcase_add_test(tc, logs_are_rotated_by_rename_and_sighup); tcase_add_test(tc, a_full_disk_stops_nobody);
         tcase_add_test(tc, a_client_that_asks_too_often_hears_429); tcase_add_test(tc, pictures_at_once_are_limited);
         tcase_add_test(tc, forwarded_addresses_count_behind_trusted_proxies_only);
         tcase_add_test(tc, every_answer_is_fenced_in); tcase_add_test(tc, every_thread_is_in_the_sandbox);
         tcase_add_test(tc, reload_works_inside); tcase_add_test(tc, a_forgotten_picture_is_nowhere_in_memory))
