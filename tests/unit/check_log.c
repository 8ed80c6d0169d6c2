/* Log lines: always one whole JSON object, whatever goes into it. jansson is the judge. */
#include "server/report/log.h"
#include "server/report/stats.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *written(vts_line *line)
{
    int ends[2];
    char text[VTS_LINE_MAX + 1];
    json_error_t fault;
    ck_assert_int_eq(pipe(ends), 0);
    vts_line_end(line, &(vts_log){.fd = ends[1]});
    close(ends[1]);
    const ssize_t n = read(ends[0], text, VTS_LINE_MAX);
    close(ends[0]);
    ck_assert_msg(n > 2 && text[n - 1] == '\n' && !memchr(text, '\n', (size_t)n - 1), "%zd bytes are no line", n);
    json_t *root = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(root != NULL, "%s in %.*s", fault.text, (int)n, text);
    return root;
}

START_TEST(escapes_and_types)
{
    vts_line line;
    vts_line_begin(&line, "test");
    vts_line_text(&line, "quote", "a\"b\\c\n\t\x01\x7f/");
    vts_line_text(&line, "utf8", "r\xc3\xb6t \xe2\x82\xac \xf0\x9f\x90\xb1");
    vts_line_text(&line, "bad", "a\xff\xc0\xaf\xed\xa0\x80z\xe2\x82");
    vts_line_count(&line, "count", UINT64_C(9007199254740991));
    vts_line_real(&line, "real", 1.5);
    vts_line_real(&line, "nan", (double)NAN);
    json_t *root = written(&line);
    ck_assert_str_eq(json_string_value(json_object_get(root, "event")), "test");
    ck_assert_uint_eq(strlen(json_string_value(json_object_get(root, "time"))), 24);
    ck_assert_str_eq(json_string_value(json_object_get(root, "quote")), "a\"b\\c\n\t\x01\x7f/");
    ck_assert_str_eq(json_string_value(json_object_get(root, "utf8")), "r\xc3\xb6t \xe2\x82\xac \xf0\x9f\x90\xb1");
    const char *bad = json_string_value(json_object_get(root, "bad"));
    ck_assert_msg(bad[0] == 'a' && strchr(bad, 'z') && strstr(bad, "\xef\xbf\xbd"), "%s", bad);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "count")), 9007199254740991);
    ck_assert(json_real_value(json_object_get(root, "real")) == 1.5);
    ck_assert(json_is_null(json_object_get(root, "nan")));
    json_decref(root);
}
END_TEST

/* _i bytes of text, of the kind that needs the most room, before and after other fields. */
START_TEST(long_fields_leave_whole_json)
{
    static char text[3 * VTS_LINE_MAX];
    static const char *const kinds[] = {"x", "\"", "\x01", "\xe2\x82\xac", "\xff"};
    vts_line line;
    for (size_t k = 0; k < VT_COUNT(kinds); k++) {
        text[0] = '\0';
        for (int n = 0; n < VTS_LINE_MAX - 64 + _i; n++)
            memcpy(text + strlen(kinds[k]) * (size_t)n, kinds[k], strlen(kinds[k]) + 1);
        text[VTS_LINE_MAX - 40 + _i] = '\0';
        vts_line_begin(&line, "long");
        vts_line_text(&line, "text", text);
        for (int n = 0; n < 40; n++) {
            char key[16];
            snprintf(key, sizeof key, "k%d", n);
            vts_line_count(&line, key, 123456789);
            ck_assert_msg(line.size + 2 <= VTS_LINE_MAX, "the line is %zu bytes long", line.size);
        }
        json_t *root = written(&line);
        ck_assert(json_object_get(root, "text") != NULL);
        json_decref(root);
    }
}
END_TEST

START_TEST(files_and_silence)
{
    vts_log log;
    vt_error err = {0};
    char path[] = P_tmpdir "/vitral-check-log-XXXXXX";
    size_t size = 0;
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    for (int k = 0; k < 2; k++) { /* appended to */
        ck_assert_int_eq(vts_log_open(&log, path, &err), VT_OK);
        vts_log_note(&log, "note", "number %d", k);
        vts_log_close(&log);
    }
    char *text = (char *)vt_test_read(path, &size);
    unlink(path);
    ck_assert_msg(text && strstr(text, "\"message\":\"number 0\"") && strstr(text, "\"message\":\"number 1\""), "%s",
                  text ? text : "(nothing)");
    free(text);
    ck_assert_int_eq(vts_log_open(&log, "none", &err), VT_OK);
    vts_log_note(&log, "note", "nobody reads this");
    vts_log_close(&log);
    ck_assert_int_eq(vts_log_open(&log, "/nonexistent/folder/log", &err), VT_E_IO);
    ck_assert_msg(strstr(err.msg, "/nonexistent/folder/log"), "%s", err.msg);
}
END_TEST

START_TEST(counters_add_up)
{
    static const char *const routes[] = {"explain", "healthz"};
    vts_stats *stats;
    vt_error err = {0};
    size_t size = 0;
    const vts_gauge gauge = {"queue_depth", "gauge", "jobs that wait", 3.0};
    ck_assert_int_eq(vts_stats_open(&stats, routes, 2, &err), VT_OK);
    vts_stats_request(stats, 0, 200, "ok", 0.02);
    vts_stats_request(stats, 0, 422, "invalid_parameter", 0.001);
    vts_stats_request(stats, 1, 200, "ok", 100.0);
    vts_stats_request(stats, SIZE_MAX, 404, "not_found", 0.0);
    vts_stats_request(stats, SIZE_MAX, 599, "odd", 0.0);
    vts_stats_add(stats, VTS_STAT_BYTES_IN, 11);
    ck_assert_uint_eq(vts_stats_requests(stats, 0, 0), 2);
    ck_assert_uint_eq(vts_stats_requests(stats, 0, 422), 1);
    ck_assert_uint_eq(vts_stats_requests(stats, 2, 0), 2);
    char *text = vts_stats_text(stats, &gauge, 1, &size);
    ck_assert_uint_eq(strlen(text), size);
    static const char *const lines[] = {
        "vitral_requests_total{route=\"explain\",code=\"200\"} 1\n",
        "vitral_requests_total{route=\"none\",code=\"404\"} 1\n",
        "vitral_rejected_total{reason=\"invalid_parameter\"} 1\n",
        "vitral_request_seconds_bucket{le=\"0.025\"} 4\n",
        "vitral_request_seconds_bucket{le=\"60\"} 4\n",
        "vitral_request_seconds_bucket{le=\"+Inf\"} 5\n",
        "vitral_request_seconds_count 5\n",
        "vitral_request_bytes_total 11\n",
        "# TYPE vitral_queue_depth gauge\nvitral_queue_depth 3\n",
    };
    for (size_t k = 0; k < VT_COUNT(lines); k++)
        ck_assert_msg(strstr(text, lines[k]) != NULL, "no line %s in\n%s", lines[k], text);
    free(text);
    vts_stats_close(stats);
}
END_TEST

VT_SUITE("log", tcase_add_test(tc, escapes_and_types); tcase_add_loop_test(tc, long_fields_leave_whole_json, 0, 48);
         tcase_add_test(tc, files_and_silence); tcase_add_test(tc, counters_add_up))
