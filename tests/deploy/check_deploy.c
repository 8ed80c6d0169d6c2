/* What operators are handed must say what the programs do: the example settings, the dashboard and docs/operations.md
 * against the tables and against a running vitrald.
 *
 * The server is the real program, started with deploy/vitral.json on a port of its own, its log in a file. */
#include "server/config/config.h"
#include "server/wire/wire.h"
#include "tests/support/http_client.h"
#include "tests/support/suite.h"

#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *read_text(const char *path)
{
    size_t size = 0;
    char *text = (char *)vt_test_read(path, &size);
    ck_assert_msg(text != NULL, "%s cannot be read: run from the project's root", path);
    return text;
}

/* The text below one heading of docs/operations.md, malloc'ed. */
static char *section(const char *heading)
{
    char *text = read_text("docs/operations.md");
    char *at = strstr(text, heading);
    ck_assert_msg(at != NULL, "docs/operations.md has no heading \"%s\"", heading);
    at += strlen(heading);
    char *end = strstr(at, "\n## ");
    char *out = strndup(at, end ? (size_t)(end - at) : strlen(at));
    ck_assert_ptr_nonnull(out);
    free(text);
    return out;
}

/* Is `name` there between back-quotes, perhaps with {labels} behind it? */
static bool quotes(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at += n)
        if (at > text && at[-1] == '`' && (at[n] == '`' || at[n] == '{'))
            return true;
    return false;
}

/* ---- a server ---- */

static pid_t server;
static unsigned port;
static char log_file[] = "/tmp/vitral-deploy-XXXXXX";

static void start_server(void)
{
    char program[512], line[256] = "";
    const char *build = getenv("VITRAL_BUILD");
    int out[2];
    posix_spawn_file_actions_t actions;
    const int fd = mkstemp(log_file);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(program, sizeof program, "%s/vitrald", build && *build ? build : "build");
    char *argv[] = {program, "--config", "deploy/vitral.json", "--listen", "127.0.0.1:0", "--log", log_file, NULL};
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    const int rc = posix_spawn(&server, program, &actions, NULL, argv, environ);
    ck_assert_msg(rc == 0, "%s: %s", program, strerror(rc));
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    FILE *text = fdopen(out[0], "r");
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(fgets(line, sizeof line, text) != NULL, "vitrald did not start with deploy/vitral.json");
    ck_assert_msg(sscanf(line, "listening on http://127.0.0.1:%u", &port) == 1, "vitrald said: %s", line);
    fclose(text);
}

static void stop_server(void)
{
    int status = 0;
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, &status, 0);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "vitrald ended with wait status %d", status);
    }
    unlink(log_file);
}

/* One of each kind, so that every field and label appears: an explanation, a refusal, an unknown path. */
static void send_requests(void)
{
    size_t size = 0, body_size = 0;
    uint8_t *cat = vt_test_read("static/samples/cat.jpg", &size);
    ck_assert_ptr_nonnull(cat);
    char *body = vt_http_form("img", cat, size, "method=rollout,grad_rollout", &body_size);
    vt_http_reply replies[] = {
        vt_http_call(port, "POST", "/explain",
                     VT_HTTP_FORM "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n", body,
                     body_size),
        vt_http_call(port, "POST", "/explain?class=none", VT_HTTP_FORM, body, body_size),
        vt_http_call(port, "GET", "/nothing", "", NULL, 0),
        vt_http_call(port, "POST", "/predict", VT_HTTP_FORM, body, 0),
    };
    ck_assert_int_eq(replies[0].status, 200);
    ck_assert_int_eq(replies[1].status, 422);
    ck_assert_int_eq(replies[2].status, 404);
    ck_assert_int_eq(replies[3].status, 400);
    for (size_t k = 0; k < VT_COUNT(replies); k++)
        vt_http_free(&replies[k]);
    free(body);
    free(cat);
}

/* ---- settings ---- */

START_TEST(example_has_every_default)
{
    static vts_settings settings;
    char *argv[] = {"vitrald", "--config", "deploy/vitral.json", NULL}, value[256];
    vt_error err = {0};
    size_t count = 0;
    json_t *file = json_load_file("deploy/vitral.json", JSON_REJECT_DUPLICATES, NULL);
    const vt_param *rows = vts_settings_table(&count);
    ck_assert_msg(json_is_object(file), "deploy/vitral.json is no JSON object");
    ck_assert_msg(vts_settings_read(&settings, 3, argv, NULL, &err) == VT_OK, "%s", err.msg);
    size_t expected = 0;
    for (size_t k = 0; k < count; k++) {
        char def[256] = "";
        vt_param_default_text(&rows[k], def, sizeof def);
        if (!def[0] && !(rows[k].flags & VT_PARAM_REPEAT)) /* a text without a default cannot stand there empty */
            continue;
        expected++;
        ck_assert_msg(json_object_get(file, rows[k].name) != NULL, "deploy/vitral.json lacks %s", rows[k].name);
        vts_settings_text(&settings, k, value, sizeof value);
        ck_assert_msg(strcmp(value, def) == 0, "deploy/vitral.json: %s is %s, the default is %s", rows[k].name, value,
                      def);
    }
    ck_assert_uint_eq(json_object_size(file), expected);
    json_decref(file);
}
END_TEST

START_TEST(every_setting_is_explained)
{
    size_t count = 0;
    const vt_param *rows = vts_settings_table(&count);
    char *text = section("\n## Settings\n");
    for (size_t k = 0; k < count; k++)
        ck_assert_msg(quotes(text, rows[k].name), "docs/operations.md, Settings: %s is missing", rows[k].name);
    free(text);
}
END_TEST

/* ---- problems ---- */

START_TEST(every_problem_is_explained)
{
    static const char *const codes[] = {
#define VTS_PROBLEM(id, status, http, code, title, exit) code,
#include "server/wire/problems.def"
#undef VTS_PROBLEM
    };
    char *text = section("\n## Troubleshooting by code\n");
    for (size_t k = 0; k < VT_COUNT(codes); k++)
        ck_assert_msg(quotes(text, codes[k]), "docs/operations.md, Troubleshooting by code: %s is missing", codes[k]);
    free(text);
}
END_TEST

/* ---- metrics ---- */

/* Does /metrics declare this name, or the histogram whose series it is? */
static bool declared(const char *metrics, const char *name, size_t n)
{
    static const char *const endings[] = {"", "_bucket", "_sum", "_count"};
    char line[256];
    for (size_t k = 0; k < VT_COUNT(endings); k++) {
        const size_t m = strlen(endings[k]);
        if (n < m || memcmp(name + n - m, endings[k], m) != 0)
            continue;
        snprintf(line, sizeof line, "# TYPE %.*s %s", (int)(n - m), name, m ? "histogram\n" : "");
        if (strstr(metrics, line))
            return true;
    }
    return false;
}

/* Every vitral_... word of the text is a metric of the server. */
static void check_names(const char *where, const char *text, const char *metrics)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, "vitral_")) != NULL;) {
        size_t n = 0;
        while (islower((unsigned char)at[n]) || isdigit((unsigned char)at[n]) || at[n] == '_')
            n++;
        ck_assert_msg(declared(metrics, at, n), "%s names %.*s, which /metrics does not have", where, (int)n, at);
        found++;
        at += n;
    }
    ck_assert_msg(found > 0, "%s names no metric", where);
}

START_TEST(every_metric_is_explained_and_real)
{
    send_requests();
    vt_http_reply reply = vt_http_call(port, "GET", "/metrics", "", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    char *text = section("\n## Metrics\n"), *board = read_text("deploy/grafana.json");
    for (const char *at = reply.body; (at = strstr(at, "# TYPE ")) != NULL;) {
        char name[128] = "", kind[16] = "", row[256];
        ck_assert_int_eq(sscanf(at, "# TYPE %127s %15s", name, kind), 2);
        ck_assert_msg(quotes(text, name), "docs/operations.md, Metrics: %s is missing", name);
        ck_assert_msg(strstr(board, name) != NULL, "deploy/grafana.json shows nothing of %s", name);
        const char *cell = strstr(text, name);
        snprintf(row, sizeof row, "| %s |", kind);
        const char *type = strstr(cell, row), *end = strchr(cell, '\n');
        ck_assert_msg(type && end && type < end, "docs/operations.md, Metrics: %s is a %s", name, kind);
        at += 7;
    }
    check_names("docs/operations.md, Metrics,", text, reply.body);
    check_names("deploy/grafana.json", board, reply.body);
    json_error_t fault;
    json_t *root = json_loads(board, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(root != NULL, "deploy/grafana.json, line %d: %s", fault.line, fault.text);
    json_decref(root);
    free(board);
    free(text);
    vt_http_free(&reply);
}
END_TEST

/* ---- log ---- */

START_TEST(every_log_field_is_explained)
{
    char line[8192], *text = section("\n## Log\n");
    size_t lines = 0, requests = 0;
    send_requests();
    kill(server, SIGTERM);
    int status = 0;
    waitpid(server, &status, 0);
    server = 0;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "vitrald ended with wait status %d", status);
    FILE *file = fopen(log_file, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        const char *key;
        json_t *value, *root = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(json_is_object(root), "no JSON line: %s", line);
        json_object_foreach(root, key, value)
            ck_assert_msg(quotes(text, key), "docs/operations.md, Log: the field %s is missing", key);
        const char *event = json_string_value(json_object_get(root, "event"));
        ck_assert_msg(event && quotes(text, event), "docs/operations.md, Log: the event %s is missing",
                      event ? event : "?");
        requests += strcmp(event, "request") == 0;
        lines++;
        json_decref(root);
    }
    fclose(file);
    ck_assert_uint_eq(requests, 4);
    ck_assert_uint_gt(lines, requests);
    free(text);
}
END_TEST

/* ---- examples ---- */

/* Blocks marked sh run as they stand, with our programs first in PATH and the port of this server; what needs root, a
 * container or systemd is marked otherwise. */
START_TEST(examples_run)
{
    static const char fence[] = "\n```sh\n", place[] = "127.0.0.1:8080";
    char *text = read_text("docs/operations.md"), command[8192], path[4096], here[2048];
    const char *build = getenv("VITRAL_BUILD");
    size_t blocks = 0;
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    build = build && *build ? build : "build";
    snprintf(path, sizeof path, "%s%s%s:%s", build[0] == '/' ? "" : here, build[0] == '/' ? "" : "/", build,
             getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    for (const char *at = text; (at = strstr(at, fence)) != NULL; blocks++) {
        at += sizeof fence - 1;
        const char *end = strstr(at, "\n```");
        ck_assert_msg(end != NULL, "docs/operations.md: a block does not end");
        size_t used = (size_t)snprintf(command, sizeof command, "exec >/dev/null\nset -eu\n");
        while (at < end) {
            const bool here_it_is = strncmp(at, place, sizeof place - 1) == 0;
            ck_assert_uint_lt(used + 32, sizeof command);
            used += (size_t)(here_it_is ? snprintf(command + used, sizeof command - used, "127.0.0.1:%u", port)
                                        : snprintf(command + used, sizeof command - used, "%c", *at));
            at += here_it_is ? sizeof place - 1 : 1;
        }
        ck_assert_msg(system(command) == 0, "docs/operations.md: this example failed:\n%s", command);
    }
    ck_assert_uint_eq(blocks, 3);
    free(text);
}
END_TEST

VT_SUITE("deploy", tcase_add_checked_fixture(tc, start_server, stop_server);
         tcase_add_test(tc, example_has_every_default); tcase_add_test(tc, every_setting_is_explained);
         tcase_add_test(tc, every_problem_is_explained); tcase_add_test(tc, every_metric_is_explained_and_real);
         tcase_add_test(tc, every_log_field_is_explained); tcase_add_test(tc, examples_run))
