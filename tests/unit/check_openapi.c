/* Generated blocks: everything of the tables is in them, the prose around them is untouched, bad marks are refused. */
#include "server/wire/wire.h"
#include "tests/support/suite.h"
#include "vitral/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *update(const char *text)
{
    char *out = NULL;
    size_t size = 0;
    vt_error err = {0};
    ck_assert_msg(vts_openapi_update(&out, &size, text, strlen(text), &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(size, strlen(out));
    return out;
}

START_TEST(prose_stays_and_a_second_run_changes_nothing)
{
    char *once =
        update("a: 1\n    # BEGIN generated problem-codes\n    old\n\n    # END generated problem-codes\nz: # END\n");
    char *twice = update(once);
    ck_assert_str_eq(once, twice);
    ck_assert_ptr_eq(strstr(once, "a: 1\n    # BEGIN generated problem-codes\n    enum:\n      - \"bad_request\"\n"),
                     once);
    ck_assert_ptr_nonnull(strstr(once, "\n    # END generated problem-codes\nz: # END\n"));
    ck_assert_ptr_null(strstr(once, "old"));
    free(once);
    free(twice);
}
END_TEST

START_TEST(codes_and_statuses_stand_once)
{
    char *codes = update("# BEGIN generated problem-codes\n# END generated problem-codes\n");
    char *responses = update("# BEGIN generated problem-responses\n# END generated problem-responses\n");
    for (int id = 0; id < VTS_PROBLEM_COUNT; id++) {
        const vts_problem_row *row = vts_problem_row_of((vts_problem_id)id);
        char line[128];
        snprintf(line, sizeof line, "- \"%s\"\n", row->code);
        const char *found = strstr(codes, line);
        ck_assert_msg(found && !strstr(found + 1, line), "%s is not there once", row->code);
        snprintf(line, sizeof line, "\nProblem%d:\n", row->http);
        found = strstr(responses, line);
        ck_assert_msg(found && !strstr(found + 1, line), "%d is not there once", row->http);
        snprintf(line, sizeof line, "`%s`: %s.", row->code, row->title);
        ck_assert_msg(strstr(responses, line) || row->http == 500, "%s", line);
    }
    free(codes);
    free(responses);
}
END_TEST

/* Counts "<name>:" at the start of a line: the parameter's own entry. */
static size_t entries(const char *text, const char *name)
{
    char line[96];
    size_t n = 0;
    snprintf(line, sizeof line, "\n%s:\n", name);
    for (const char *at = text; (at = strstr(at, line)); at++)
        n++;
    return n;
}

START_TEST(every_parameter_of_every_method)
{
    char *own = update("# BEGIN generated method-parameters\n# END generated method-parameters\n");
    char *common = update("# BEGIN generated common-parameters\n# END generated common-parameters\n");
    char *refs = update("# BEGIN generated explain-parameters\n# END generated explain-parameters\n");
    char *names = update("# BEGIN generated method-names\n# END generated method-names\n");
    char line[128];
    size_t count;
    const vt_param *rows = vt_common_params(&count);
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        snprintf(line, sizeof line, "- \"%s\"\n", m->name);
        ck_assert_msg(strstr(names, line), "%s", m->name);
        for (size_t i = 0; i < m->params_count; i++) {
            ck_assert_msg(entries(own, m->params[i].name) == 1, "%s of %s: %zu entries", m->params[i].name, m->name,
                          entries(own, m->params[i].name));
            snprintf(line, sizeof line, "/parameters/%s\"\n", m->params[i].name);
            ck_assert_msg(strstr(refs, line), "%s", line);
        }
    }
    for (size_t k = 0; k < count; k++) {
        ck_assert_msg(entries(common, rows[k].name) == 1 && entries(own, rows[k].name) == 0, "%s", rows[k].name);
        snprintf(line, sizeof line, "/parameters/%s\"\n", rows[k].name);
        ck_assert_msg(strstr(refs, line), "%s", line);
    }
    ck_assert_ptr_nonnull(
        strstr(common, "schema: {\"type\":\"number\",\"minimum\":0.0,\"maximum\":1.0,\"default\":0.5}"));
    ck_assert_ptr_nonnull(strstr(common, "\"maximum\":9007199254740991"));
    ck_assert_ptr_nonnull(strstr(own, "\"exclusiveMaximum\":1.0"));
    free(own);
    free(common);
    free(refs);
    free(names);
}
END_TEST

START_TEST(bad_marks_are_refused)
{
    static const char *const texts[] = {
        "",
        "nothing here\n",
        "# BEGIN generated no-such-block\n# END generated no-such-block\n",
        "# BEGIN generated problem-codes\n",
        "# BEGIN generated problem-codes\n# END generated method-names\n",
    };
    for (size_t k = 0; k < VT_COUNT(texts); k++) {
        char *out = NULL;
        size_t size = 0;
        vt_error err = {0};
        ck_assert_msg(vts_openapi_update(&out, &size, texts[k], strlen(texts[k]), &err) == VT_E_INVALID, "text %zu", k);
        ck_assert_ptr_null(out);
        ck_assert_str_ne(err.msg, "");
    }
}
END_TEST

START_TEST(every_block_there_is_can_be_written_without_a_line_end)
{
    const char *name;
    for (size_t k = 0; (name = vts_openapi_block(k)); k++) {
        char text[256];
        snprintf(text, sizeof text, "  # BEGIN generated %s\n  # END generated %s", name, name);
        char *out = update(text);
        ck_assert_msg(strlen(out) > strlen(text), "%s is empty", name);
        ck_assert_str_eq(out + strlen(out) - strlen(name), name);
        free(out);
    }
}
END_TEST

/* The paths are prose; that none is missing is checked here. */
static const struct {
    const char *verb, *path;
} routes[] = {
#define VTS_ROUTE(id, verb, path, body, access, summary) {#verb, path},
#include "server/wire/routes.def"
#undef VTS_ROUTE
};

START_TEST(every_route_is_described)
{
    size_t size = 0;
    char *text = (char *)vt_test_read("openapi.yaml", &size), line[128];
    ck_assert_ptr_nonnull(text);
    for (size_t k = 0; k < VT_COUNT(routes); k++) {
        const char *verb = strcmp(routes[k].verb, "GET") == 0    ? "get"
                           : strcmp(routes[k].verb, "POST") == 0 ? "post"
                                                                 : "delete";
        snprintf(line, sizeof line, "\n  %s:\n", routes[k].path);
        const char *path = strstr(text, line), *next = path ? strstr(path + strlen(line), "\n  /") : NULL;
        snprintf(line, sizeof line, "\n    %s:\n", verb);
        const char *found = path ? strstr(path + 1, line) : NULL;
        ck_assert_msg(found && (!next || found < next), "openapi.yaml does not describe %s %s", routes[k].verb,
                      routes[k].path);
    }
    free(text);
}
END_TEST

VT_SUITE("openapi", tcase_add_test(tc, every_route_is_described);
         tcase_add_test(tc, prose_stays_and_a_second_run_changes_nothing);
         tcase_add_test(tc, codes_and_statuses_stand_once); tcase_add_test(tc, every_parameter_of_every_method);
         tcase_add_test(tc, bad_marks_are_refused);
         tcase_add_test(tc, every_block_there_is_can_be_written_without_a_line_end))
