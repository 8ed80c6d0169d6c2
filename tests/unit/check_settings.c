/* Settings: four sources in their order, refusals that name the nearest, cores under a control group. */
#include "server/config/config.h"
#include "tests/support/suite.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static vts_settings s;
static vt_error err;
static char folder[64];

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static void clean(void)
{
    if (folder[0])
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *write_file(const char *name, const char *text)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, P_tmpdir "/vitral-check-settings-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(folder));
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static vt_status read_settings(char *const argv[], char *const env[])
{
    int argc = 0;
    while (argv[argc])
        argc++;
    err = (vt_error){0};
    return vts_settings_read(&s, argc, argv, env, &err);
}

static size_t row(const char *name)
{
    size_t count;
    const vt_param *table = vts_settings_table(&count);
    const vt_param *found = vt_param_find(table, count, name);
    ck_assert_msg(found != NULL, "no setting %s", name);
    return (size_t)(found - table);
}

START_TEST(defaults)
{
    ck_assert_msg(read_settings((char *[]){"vitrald", NULL}, NULL) == VT_OK, "%s", err.msg);
    ck_assert_str_eq(s.listen, "127.0.0.1:8080");
    ck_assert_int_eq(s.upload_max_bytes, 16777216);
    ck_assert_int_eq(s.pixels_max, 64000000);
    ck_assert_int_eq(s.deadline_ms, 60000);
    ck_assert(s.max_cost == 10000.0);
    ck_assert_uint_eq(s.models_count, 0);
    ck_assert_int_eq(s.origins[row("queue")], VTS_FROM_DEFAULT);
}
END_TEST

START_TEST(flags_over_variables_over_file)
{
    const char *file = write_file("a.json", "{\"queue\": 1, \"workers\": 2, \"deadline_ms\": 3, \"max_cost\": 2.5,"
                                            " \"model\": [\"a=/x\", \"/y\"], \"log\": \"none\"}");
    char config[300];
    snprintf(config, sizeof config, "VITRAL_CONFIG=%s", file);
    char *env[] = {"HOME=/",
                   "VITRAL_WORKERS=5",
                   config,
                   "VITRAL_DEADLINE_MS=6",
                   "VITRAL_QUEU=1",
                   "VITRALX=1",
                   "VITRAL_BUILD=b",
                   "VITRAL_SHARED=s",
                   "VITRAL_REQUIRE_SHARED=1",
                   NULL}; /* the last: of tests */
    ck_assert_msg(read_settings((char *[]){"vitrald", "--deadline-ms", "7", "--listen=[::1]:0", NULL}, env) == VT_OK,
                  "%s", err.msg);
    ck_assert_int_eq(s.queue, 1);
    ck_assert_int_eq(s.workers, 5);
    ck_assert_int_eq(s.deadline_ms, 7);
    ck_assert(s.max_cost == 2.5);
    ck_assert_uint_eq(s.models_count, 2);
    ck_assert_str_eq(s.models[1], "/y");
    ck_assert_str_eq(s.log, "none");
    ck_assert_int_eq(s.origins[row("queue")], VTS_FROM_FILE);
    ck_assert_int_eq(s.origins[row("workers")], VTS_FROM_VARIABLE);
    ck_assert_int_eq(s.origins[row("deadline_ms")], VTS_FROM_FLAG);
    ck_assert_uint_eq(s.warnings_count, 1);
    ck_assert_str_eq(s.warnings[0], "unknown variable VITRAL_QUEU (is VITRAL_QUEUE meant?)");
}
END_TEST

/* The one flag without a value. */
START_TEST(no_sandbox_is_sandbox_off)
{
    char *env[] = {"VITRAL_SANDBOX=require", NULL};
    ck_assert_int_eq(read_settings((char *[]){"vitrald", NULL}, env), VT_OK);
    ck_assert_int_eq(s.sandbox, VTS_SANDBOX_REQUIRE);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--no-sandbox", "--workers", "2", NULL}, env), VT_OK);
    ck_assert_int_eq(s.sandbox, VTS_SANDBOX_OFF);
    ck_assert_int_eq(s.workers, 2);
    ck_assert_int_eq(s.origins[row("sandbox")], VTS_FROM_FLAG);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--no-sandbox", "--sandbox", "auto", NULL}, NULL),
                     VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "twice") != NULL, "%s", err.msg);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--no-sandbox=yes", NULL}, NULL), VT_E_INVALID);
}
END_TEST

START_TEST(models_are_replaced_by_a_higher_source)
{
    char *env[] = {"VITRAL_MODEL=/a,/b", NULL};
    char text[64];
    ck_assert_int_eq(read_settings((char *[]){"vitrald", NULL}, env), VT_OK);
    ck_assert_uint_eq(s.models_count, 2);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--model", "c=/c", "--model=/d", "--model", "/e", NULL}, env),
                     VT_OK);
    ck_assert_uint_eq(s.models_count, 3);
    vts_settings_text(&s, row("model"), text, sizeof text);
    ck_assert_str_eq(text, "c=/c, /d, /e");
}
END_TEST

static const struct {
    const char *args[5], *says;
} refused[] = {
    {{"--wrkers", "2"}, "did you mean --workers?"},
    {{"--deadline_ms", "2"}, "did you mean --deadline-ms?"},
    {{"--zzzzzz", "2"}, "unknown flag --zzzzzz"},
    {{"serve"}, "no flag"},
    {{"--workers"}, "needs a value"},
    {{"--workers", "two"}, "whole number"},
    {{"--workers", "-1"}, "out of range"},
    {{"--workers", "1", "--workers", "2"}, "twice"},
    {{"--max-cost", "nan"}, "number"},
    {{"--deadline-ms", "0"}, "out of range"},
    {{"--log="}, "is empty"},
    {{"--sandbox", "maybe"}, "sandbox"},
    {{"--config", "/nonexistent.json"}, "/nonexistent.json"},
};

START_TEST(refuses_flags)
{
    char *argv[7] = {"vitrald"};
    for (int k = 0; k < 5; k++)
        argv[k + 1] = (char *)(size_t)refused[_i].args[k];
    ck_assert_msg(read_settings(argv, NULL) == VT_E_INVALID, "%s was taken", refused[_i].args[0]);
    ck_assert_msg(strstr(err.msg, refused[_i].says) != NULL, "\"%s\" does not say \"%s\"", err.msg, refused[_i].says);
    ck_assert_msg(!strstr(err.msg, "line -"), "%s", err.msg); /* a file that cannot be opened has no lines */
}
END_TEST

static const struct {
    const char *text, *says;
} files[] = {
    {"{\"wokers\": 1}", "did you mean workers?"},
    {"{\"workers\": 1.5}", "whole number"},
    {"{\"workers\": [1]}", "must be a number"},
    {"{\"workers\": 1, \"workers\": 2}", "duplicate"},
    {"[1]", "object"},
    {"{", "line 1"},
    {"{\"config\": \"x\"}", "unknown key config"},
    {"{\"model\": [\"\"]}", "is empty"},
    {"{\"workers\": null}", "must be a number"},
};

START_TEST(refuses_files)
{
    char path[256];
    snprintf(path, sizeof path, "%s", write_file("bad.json", files[_i].text));
    ck_assert_msg(read_settings((char *[]){"vitrald", "--config", path, NULL}, NULL) == VT_E_INVALID, "%s was taken",
                  files[_i].text);
    ck_assert_msg(strstr(err.msg, files[_i].says) != NULL, "%s: \"%s\" does not say \"%s\"", files[_i].text, err.msg,
                  files[_i].says);
}
END_TEST

START_TEST(refuses_variables)
{
    char *env[] = {"VITRAL_WORKERS=many", NULL};
    ck_assert_int_eq(read_settings((char *[]){"vitrald", NULL}, env), VT_E_INVALID);
    ck_assert_str_eq(err.param, "workers");
}
END_TEST

START_TEST(help_and_version)
{
    char *text = NULL;
    size_t size = 0, count;
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--help", NULL}, NULL), VT_OK);
    ck_assert(s.want_help && !s.want_version);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--version", NULL}, NULL), VT_OK);
    ck_assert(s.want_version);
    FILE *out = open_memstream(&text, &size);
    vts_settings_help(out);
    fclose(out);
    const vt_param *table = vts_settings_table(&count);
    for (size_t k = 0; k < count; k++)
        ck_assert_msg(strstr(text, table[k].help) != NULL, "--help is silent on %s", table[k].name);
    ck_assert_ptr_nonnull(strstr(text, "--upload-max-bytes"));
    free(text);
}
END_TEST

START_TEST(what_goes_together)
{
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--workers", "3", NULL}, NULL), VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), VT_OK);
    ck_assert_int_eq(s.queue, 12);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--workers", "2", "--blas-threads", "2", NULL}, NULL), VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), VT_E_INVALID);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--blas-threads", "2", NULL}, NULL), VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), VT_OK);
    ck_assert_int_eq(s.workers, 1);
    ck_assert_int_ne(s.bf16, VTS_BF16_AUTO);
    ck_assert(s.bf16 == VTS_BF16_OFF || vt_model_can_bf16());
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--bf16", "off", NULL}, NULL), VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), VT_OK);
    ck_assert_int_eq(s.bf16, VTS_BF16_OFF);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--bf16", "on", NULL}, NULL), VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), vt_model_can_bf16() ? VT_OK : VT_E_INVALID);
    ck_assert(vt_model_can_bf16() ? s.bf16 == VTS_BF16_ON : strcmp(err.param, "bf16") == 0);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--uploads-max-bytes", "1000", NULL}, NULL), VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), VT_E_INVALID);
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--tls-cert-file", "c", NULL}, NULL), VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), VT_E_INVALID);
    ck_assert_str_eq(err.param, "tls_key_file");
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--tls-key-file", "k", NULL}, NULL), VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), VT_E_INVALID);
    ck_assert_str_eq(err.param, "tls_cert_file");
    ck_assert_int_eq(read_settings((char *[]){"vitrald", "--tls-key-file", "k", "--tls-cert-file", "c", NULL}, NULL),
                     VT_OK);
    ck_assert_int_eq(vts_settings_settle(&s, "", &err), VT_OK);
}
END_TEST

START_TEST(model_and_listen_values)
{
    char host[32];
    vts_model_choice choice;
    unsigned port;
    static const struct {
        const char *value, *name, *dir;
        size_t h, w;
    } good[] = {{"vit=/m/x", "vit", "/m/x", 0, 0},
                {"/m/a=b", "", "/m/a=b", 0, 0},
                {"vit", "", "vit", 0, 0},
                {"vit?image_size=384", "", "vit", 384, 384},
                {"big=/m/x?image_size=384x512", "big", "/m/x", 384, 512},
                {"/m/a=b?image_size=384", "", "/m/a=b", 384, 384},
                {"/m/what?", "", "/m/what?", 0, 0},
                {"/m/a?b/c=d", "", "/m/a?b/c=d", 0, 0},
                {"?image_size=64", "", "", 64, 64},
                {"e=?image_size=64", "e", "", 64, 64}};
    static const char *const none[] = {"=x",
                                       "a b=x",
                                       "a=",
                                       "sixty-four-letters-sixty-four-letters-sixty-four-letters-sixty-f=x",
                                       "m?image_size=",
                                       "m?image_size=0",
                                       "m?image_size=384x",
                                       "m?imagesize=384",
                                       "m?size=384",
                                       "m?image_size=384?image_size=384x"};
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        ck_assert_msg(vts_settings_model(&choice, good[k].value, &err) == VT_OK, "%s: %s", good[k].value, err.msg);
        ck_assert_str_eq(choice.name, good[k].name);
        ck_assert_str_eq(choice.dir, good[k].dir);
        ck_assert_uint_eq(choice.image_h, good[k].h);
        ck_assert_uint_eq(choice.image_w, good[k].w);
    }
    for (size_t k = 0; k < sizeof none / sizeof *none; k++)
        ck_assert_msg(vts_settings_model(&choice, none[k], &err) == VT_E_INVALID, "%s", none[k]);
    ck_assert_int_eq(vts_settings_listen("0.0.0.0:0", host, sizeof host, &port, &err), VT_OK);
    ck_assert_str_eq(host, "0.0.0.0");
    ck_assert_uint_eq(port, 0);
    ck_assert_int_eq(vts_settings_listen("[::1]:8080", host, sizeof host, &port, &err), VT_OK);
    ck_assert_str_eq(host, "::1");
    ck_assert_uint_eq(port, 8080);
    static const char *const bad[] = {"8080",       ":8080", "host:", "host:x",  "host:80x",
                                      "host:65536", "::1",   "[]:1",  "host:-1", ""};
    for (size_t k = 0; k < VT_COUNT(bad); k++)
        ck_assert_msg(vts_settings_listen(bad[k], host, sizeof host, &port, &err) == VT_E_INVALID, "%s was taken",
                      bad[k]);
}
END_TEST

/* A made-up /proc and /sys. */
static void put(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", folder, path);
    for (char *p = full + strlen(folder) + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            mkdir(full, 0700);
            *p = '/';
        }
    write_file(path + 1, text);
}

START_TEST(cores_of_a_control_group)
{
    write_file("x", "");
    const int all = vts_cores("/nonexistent");
    ck_assert_int_ge(all, 1);
    ck_assert_int_eq(vts_cores(folder), all);
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/cpu.max", "100000 100000\n"); /* the group above decides */
    put("/sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
    ck_assert_int_eq(vts_cores(folder), 1);
    put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"); /* half a core is one worker */
    ck_assert_int_eq(vts_cores(folder), 1);
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    ck_assert_int_eq(vts_cores(folder), all);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    ck_assert_int_eq(vts_cores(folder), all);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "90000\n");
    ck_assert_int_eq(vts_cores(folder), 1);
}
END_TEST

VT_SUITE("settings", tcase_add_checked_fixture(tc, NULL, clean); tcase_add_test(tc, defaults);
         tcase_add_test(tc, flags_over_variables_over_file); tcase_add_test(tc, models_are_replaced_by_a_higher_source);
         tcase_add_loop_test(tc, refuses_flags, 0, VT_COUNT(refused));
         tcase_add_loop_test(tc, refuses_files, 0, VT_COUNT(files)); tcase_add_test(tc, refuses_variables);
         tcase_add_test(tc, help_and_version); tcase_add_test(tc, no_sandbox_is_sandbox_off);
         tcase_add_test(tc, what_goes_together); tcase_add_test(tc, model_and_listen_values);
         tcase_add_test(tc, cores_of_a_control_group))
