/* The command line as a user meets it: a real program, its exit codes, its output, its files.
 *
 * The program is $VITRAL_BUILD/vitral with the embedded model and the sample pictures, run through the shell. Its JSON
 * is compared with what wire/ gives in this process: the texts that the service sends. Each test has a folder of its own. */
#include "server/config/config.h"
#include "server/wire/wire.h"
#include "tests/support/label_png.h"
#include "tests/support/suite.h"
#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/hash.h"
#include "vitral/version.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256];
static char *out, *err; /* what the last run printed */

#define CAT "static/samples/cat.jpg"
#define COFFEE "static/samples/coffee.jpg"

static void setup(void)
{
    const char *root = getenv("TMPDIR");
    const int n = snprintf(folder, sizeof folder, "%s/vitral-cli-XXXXXX", root && *root ? root : P_tmpdir);
    ck_assert_msg(n > 0 && (size_t)n < sizeof folder, "TMPDIR is too long");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    free(out);
    free(err);
    out = err = NULL;
}

static char *path(const char *name)
{
    static char paths[8][512];
    static int next;
    char *at = paths[next++ % 8];
    snprintf(at, sizeof paths[0], "%s/%s", folder, name);
    return at;
}

static char *whole(const char *file)
{
    size_t size = 0;
    char *text = (char *)vt_test_read(file, &size);
    ck_assert_msg(text != NULL, "%s cannot be read", file);
    return text;
}

static int vitral(const char *fmt, ...) VT_PRINTF(1, 2);

/* Runs `vitral <words>`; @ in the words stands for the test's folder. Gives the exit code, fills out and err. */
static int vitral(const char *fmt, ...)
{
    char words[1024], command[4096];
    const char *build = getenv("VITRAL_BUILD");
    size_t n;
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    n = (size_t)snprintf(command, sizeof command, "%s/vitral ", build && *build ? build : "build");
    for (const char *c = words; *c && n + sizeof folder < sizeof command; c++)
        n += (size_t)snprintf(command + n, sizeof command - n, *c == '@' ? "%s" : "%.1s", *c == '@' ? folder : c);
    snprintf(command + n, sizeof command - n, " >%s/.out 2>%s/.err", folder, folder);
    const int status = system(command);
    ck_assert_msg(WIFEXITED(status), "%s: killed", command);
    free(out);
    free(err);
    out = whole(path(".out"));
    err = whole(path(".err"));
    return WEXITSTATUS(status);
}

#define exits(code, ...)                                                                                               \
    do {                                                                                                               \
        const int got = vitral(__VA_ARGS__);                                                                           \
        ck_assert_msg(got == (code), "%s: exit %d, not %d: %s", #__VA_ARGS__, got, (code), err);                       \
    } while (0)

#define says(text, part) ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in: %.3000s", part, text)

static json_t *parsed(const char *text)
{
    json_error_t why;
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(j != NULL, "%s in %.300s", why.text, text);
    return j;
}

/* k-th line of out as JSON */
static json_t *line(size_t k)
{
    char *at = out, *end;
    for (; k > 0; k--) {
        at = strchr(at, '\n');
        ck_assert_msg(at != NULL, "too few lines: %.300s", out);
        at++;
    }
    end = strchr(at, '\n');
    ck_assert_ptr_nonnull(end);
    *end = '\0';
    json_t *j = parsed(at);
    *end = '\n';
    return j;
}

static size_t lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* ---- help, version, wrong words ---- */

/* Every setting, command, method and metric is on its page, and groff, where there is one, has nothing to say. */
START_TEST(manual_pages)
{
    size_t count;
    char text[96];
    const vt_param *rows = vts_settings_table(&count);
    exits(0, "man vitrald");
    ck_assert_msg(strncmp(out, ".TH VITRALD 8 ", 14) == 0, "%.80s", out);
    for (size_t k = 0; k < count; k++) {
        size_t n = (size_t)snprintf(text, sizeof text, "\n.B \"\\-\\-");
        for (const char *c = rows[k].name; *c; c++)
            n += (size_t)snprintf(text + n, sizeof text - n, *c == '_' ? "\\-" : "%c", *c);
        says(out, text);
    }
    exits(0, "man vitral");
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        snprintf(text, sizeof text, "\n.SS \"%s\"\n", vt_explainer_at(k)->name);
        says(out, text);
    }
    for (size_t k = 0; k < vt_metric_count(); k++) {
        snprintf(text, sizeof text, "\n.SS \"%s\"\n", vt_metric_at(k)->name);
        says(out, text);
    }
    says(out, "\n.SS \"labels [TEXT]\"\n");
    ck_assert_msg(!strstr(out, "SS \"man "), "the hidden command is on the page");
    exits(2, "man nothing");
    exits(0, "help");
    ck_assert_msg(!strstr(out, "manual page"), "the hidden command is listed");
    if (system("command -v groff >/dev/null 2>&1") != 0) {
        printf("skip: groff not found\n");
        return;
    }
    for (size_t k = 0; k < 2; k++) {
        char command[700];
        exits(0, "man %s", k ? "vitrald" : "vitral");
        snprintf(command, sizeof command, "groff -man -ww -z -Tutf8 %s >%s 2>&1", path(".out"), path("said"));
        ck_assert_int_eq(system(command), 0);
        char *said = whole(path("said"));
        ck_assert_msg(!*said, "groff: %s", said);
        free(said);
    }
}
END_TEST

START_TEST(help_and_version)
{
    static const char *const names[] = {"explain", "predict", "methods", "metrics", "models",
                                        "labels",  "inspect", "openapi", "version", "check-config"};
    exits(2, "%s", "");
    says(err, "usage: vitral");
    exits(0, "help");
    for (size_t k = 0; k < VT_COUNT(names); k++)
        says(out, names[k]);
    for (size_t k = 0; k < VT_COUNT(names); k++) {
        exits(0, "help %s", names[k]);
        says(out, "usage: vitral");
    }
    exits(0, "explain --help");
    for (size_t k = 0; k < vt_explainer_count(); k++)
        says(out, vt_explainer_at(k)->name);
    says(out, "--discard-ratio");
    says(out, "0 <= discard_ratio < 1");
    exits(0, "version");
    ck_assert_str_eq(out, "vitral " VT_VERSION "\n");
    exits(0, "--version");
    ck_assert_str_eq(out, "vitral " VT_VERSION "\n");
}
END_TEST

static const struct {
    const char *words, *part;
} wrong[] = {
    {"explian x.jpg", "did you mean explain?"},
    {"explain " CAT " --json --discard-rato 0.5", "did you mean --discard_ratio?"},
    {"explain " CAT " --json --jbos 2", "did you mean --jobs?"},
    {"explain " CAT " --json -z", "-z"},
    {"explain " CAT, "-o DIR"},
    {"explain --json", "FILE"},
    {"explain " CAT " --json --method no_such_method", "no_such_method"},
    {"explain " CAT " --json --discard-ratio 1", "discard_ratio"},
    {"explain " CAT " --json --discard-ratio nan", "discard_ratio"},
    {"explain " CAT " --json --alpha 0.1 --alpha 0.1", "alpha"},
    {"explain " CAT " --json --class 10", "10"},
    {"explain " CAT " --json --class unicorn", "unicorn"},
    {"explain " CAT " --json --method", "--method"},
    {"explain " CAT " --json=1", "--json"},
    {"explain " CAT " --json --jobs 0", "--jobs"},
    {"explain " CAT " --json --jobs 2x", "--jobs"},
    {"explain " CAT " --json --model no/such/folder", "no/such/folder"},
    {"explain " CAT " --json --model =models/default", "=models/default"},
    {"explain " CAT " -o " CAT "/out", CAT},
    {"explain " CAT " --json --json", "twice"},
    {"explain " CAT " --json --model models/default -m models/default", "twice"},
    {"predict", "FILE"},
    {"predict " CAT " --method rollout", "--method"},
    {"predict " CAT " --top 0", "top"},
    {"predict " CAT " --top 11", "top"},
    {"predict " CAT " --json --text", "exclude"},
    {"methods rollout", "rollout"},
    {"labels --limit 0", "--limit"},
    {"labels a b", "\"b\""},
    {"inspect", "DIR"},
    {"inspect static", "static"},
    {"inspect models/default?image_size=33", "32x32"},
    {"models --model models/default?image_size=x", "HxW"},
    {"models --model models/default?size=64", "?image_size="},
    {"predict --image-size 33 " CAT, "32x32"},
    {"explain --json --image-size 64x " CAT, "HxW"},
    {"models --model default=models/default --model default=models/default", "default"},
    {"openapi --check no_such_file.yaml", "no_such_file.yaml"},
    {"openapi --check Makefile", "BEGIN generated"},
    {"check-config --no-such-flag 1", "no-such-flag"},
};

START_TEST(wrong_usage_exits_2_and_says_why)
{
    exits(2, "%s", wrong[_i].words);
    says(err, wrong[_i].part);
    ck_assert_str_eq(out, "");
}
END_TEST

/* ---- catalogues ---- */

static vt_model *embedded(void)
{
    vt_model *model = NULL;
    vt_error why = {0};
    ck_assert_msg(vt_test_open(&model, NULL, NULL, &why) == VT_OK, "%s", why.msg);
    return model;
}

static void prints(char *expect)
{
    ck_assert_ptr_nonnull(expect);
    const size_t n = strlen(expect);
    ck_assert_msg(strncmp(out, expect, n) == 0 && strcmp(out + n, "\n") == 0, "printed %.300s, not %.300s", out,
                  expect);
    free(expect);
}

START_TEST(catalogues_are_those_of_the_service)
{
    vt_model *model = embedded();
    const vt_model *const shown = model;
    exits(0, "methods");
    prints(vts_json_methods(model, NULL));
    exits(0, "metrics --json");
    prints(vts_json_metrics_list(vt_model_get_info(model), NULL));
    exits(0, "models");
    prints(vts_json_models(&shown, 1, 0, NULL));
    exits(0, "labels");
    prints(vts_json_labels(model, NULL, 0, NULL));
    exits(0, "labels R --limit 2");
    prints(vts_json_labels(model, "r", 2, NULL));
    ck_assert_str_eq(out, "[{\"index\":0,\"label\":\"airplane\"},{\"index\":2,\"label\":\"bird\"}]\n");
    exits(0, "labels --q=TRUCK");
    ck_assert_str_eq(out, "[{\"index\":9,\"label\":\"truck\"}]\n");
    vt_model_close(model);
}
END_TEST

START_TEST(text_for_people)
{
    exits(0, "methods --text");
    says(out, "grad_rollout (gradient)");
    exits(0, "metrics --text");
    says(out, "entropy (");
    exits(0, "labels --text --limit 1");
    ck_assert_str_eq(out, "     0  airplane\n");
    exits(0, "models --text");
    says(out, "6 layers, 3 heads");
    exits(0, "predict " CAT " --text --top 1");
    ck_assert_uint_eq(lines(out), 2);
    says(out, CAT "\n");
}
END_TEST

START_TEST(models_and_their_names)
{
    exits(0, "models --model a=models/default --model models/default");
    json_t *j = parsed(out);
    ck_assert_uint_eq(json_array_size(j), 2);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(j, 0), "id")), "a");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(j, 1), "id")), "default");
    json_decref(j);
    exits(0, "inspect models/default");
    j = parsed(out);
    ck_assert_int_eq(json_integer_value(json_object_get(j, "classes")), 10);
    json_decref(j);
    exits(0, "predict --model mine=models/default " CAT);
    j = line(0);
    ck_assert_str_eq(json_string_value(json_object_get(j, "model")), "mine");
    json_decref(j);
}
END_TEST

/* What is recognised, for people and for programs; the facts themselves are tested with the engine. */
START_TEST(inspecting)
{
    exits(0, "inspect --text models/default");
    static const char *const words[] = {"timm",
                                        "32 x 32 pixels",
                                        "6 layers, 3 heads",
                                        "10 outputs, softmax",
                                        "shorter side to 32",
                                        "copied",
                                        "GFLOP",
                                        "chefer_lrp",
                                        "text_map",
                                        "not supported",
                                        "0 unused",
                                        "patch_embed.proj.weight ["};
    for (size_t k = 0; k < VT_COUNT(words); k++)
        says(out, words[k]);
    exits(0, "inspect --json models/default");
    json_t *j = parsed(out), *methods = json_object_get(j, "methods");
    ck_assert_str_eq(json_string_value(json_object_get(j, "layout")), "timm");
    ck_assert_str_eq(json_string_value(json_object_get(j, "kind")), "vit");
    ck_assert_str_eq(json_string_value(json_object_get(j, "head")), "softmax");
    ck_assert_str_eq(json_string_value(json_object_get(j, "pool")), "token");
    ck_assert(json_is_null(json_object_get(j, "why_no_texts")));
    ck_assert_uint_eq(json_array_size(methods), vt_explainer_count());
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const json_t *one = json_array_get(methods, k);
        ck_assert_str_eq(json_string_value(json_object_get(one, "name")), vt_explainer_at(k)->name);
        const bool served = json_is_true(json_object_get(one, "supported"));
        ck_assert(served == json_is_real(json_object_get(one, "cost")) ||
                  served == json_is_integer(json_object_get(one, "cost")));
        ck_assert(served == json_is_integer(json_object_get(one, "bytes")));
        ck_assert(served == json_is_null(json_object_get(one, "reason")));
    }
    const json_t *tensor = json_array_get(json_object_get(j, "tensors"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(tensor, "use")), "image");
    ck_assert(json_is_array(json_object_get(tensor, "shape")) && json_is_string(json_object_get(tensor, "dtype")));
    json_decref(j);
}
END_TEST

/* Folders that are not read: one sentence with the reason, and exit code 2. */
START_TEST(inspecting_what_is_not_read)
{
    static const struct {
        const char *folder, *says;
    } bad[] = {{"swin", "Swin Transformer"},
               {"swin_unnamed", "relative_position_bias_table"},
               {"pickle_bin_only", "convert it to safetensors"},
               {"missing_tensor", "blocks.1.attn.qkv.weight is missing"},
               {"config_missing", "config.json"}};
    SKIP_UNLESS("models/bad/manifest.json");
    for (size_t k = 0; k < VT_COUNT(bad); k++)
        for (int json = 0; json < 2; json++) {
            char relative[64];
            snprintf(relative, sizeof relative, "models/bad/%s", bad[k].folder);
            exits(2, "inspect %s %s", json ? "--json" : "--text", vt_shared(relative));
            ck_assert_uint_eq(lines(out), 0);
            ck_assert_uint_eq(lines(err), 1);
            says(err, bad[k].says);
        }
    exits(0, "inspect --text %s", vt_shared("models/bad/extra_tensor"));
    says(out, "2 unused");
    says(out, "unused  I64   aux.num_batches_tracked []");
    ck_assert_uint_eq(lines(err), 2);
}
END_TEST

/* ---- the work ---- */

/* What wire/ gives in this process for the same picture and options. */
static json_t *in_process(const char *file, const vt_pair *pairs, size_t count, unsigned flags)
{
    vt_model *model = embedded();
    vt_request *request = NULL;
    vt_arena *arena = NULL;
    const vt_result *result = NULL;
    vt_error why = {0};
    size_t size = 0;
    uint8_t digest[32], *bytes = vt_test_read(file, &size);
    char id[7 + 65] = "sha256:";
    vt_sha256 hash;

    ck_assert_ptr_nonnull(bytes);
    vt_set_blas_threads(1); /* as the programs do: another count may give other last bits */
    ck_assert_msg(vt_request_open(&request, model, &vt_limits_default, pairs, count, flags, &why) == VT_OK, "%s",
                  why.msg);
    ck_assert(vt_arena_open(&arena, vt_request_bytes(request, 1 << 22), &why) == VT_OK);
    ck_assert_msg(vt_run(request, bytes, size, arena, NULL, &result, &why) == VT_OK, "%s", why.msg);
    vt_sha256_init(&hash);
    vt_sha256_update(&hash, bytes, size);
    vt_sha256_final(&hash, digest);
    vt_sha256_hex(digest, id + 7);
    const vts_envelope envelope = {.request_id = "cli-1", .model = "default", .image_id = id};
    char *text = (flags & VT_REQUEST_PREDICT ? vts_json_predict : vts_json_explain)(result, &envelope, false, NULL);
    json_t *j = parsed(text);
    free(text);
    vt_arena_close(arena);
    vt_request_close(request);
    vt_model_close(model);
    free(bytes);
    return j;
}

static void same_but_times(json_t *a, json_t *b)
{
    ck_assert_int_eq(json_object_del(a, "timing_ms"), 0);
    ck_assert_int_eq(json_object_del(b, "timing_ms"), 0);
    char *x = json_dumps(a, JSON_COMPACT), *y = json_dumps(b, JSON_COMPACT);
    ck_assert_msg(strcmp(x, y) == 0, "%.600s\nis not\n%.600s", x, y);
    free(x);
    free(y);
    json_decref(a);
    json_decref(b);
}

START_TEST(answers_are_those_of_the_service)
{
    static const vt_pair explain[] = {
        {"method", "rollout,grad_rollout"}, {"class", "cat,5"}, {"discard_ratio", "0.5"}, {"output", "values,overlay"}};
    static const vt_pair predict[] = {{"top", "3"}};
    exits(0, "predict --top=3 " CAT);
    same_but_times(line(0), in_process(CAT, predict, 1, VT_REQUEST_PREDICT));
    exits(0, "explain " CAT " --json --method rollout,grad_rollout --class cat,5 --discard-ratio 0.5 --output "
             "values,overlay");
    same_but_times(line(0), in_process(CAT, explain, 4, 0));
    exits(0, "explain - --json --method rollout,grad_rollout --class cat,5 --discard_ratio=0.5 --output values,overlay "
             "<" CAT);
    same_but_times(line(0), in_process(CAT, explain, 4, 0));
}
END_TEST

/* The file must be there and hold what the document says in base64. */
static void holds(const char *name, const json_t *map, const char *key)
{
    size_t size = 0;
    uint8_t *bytes = vt_test_read(path(name), &size);
    ck_assert_msg(bytes != NULL, "%s is not there", name);
    char *coded = malloc(vts_base64_size(size) + 1);
    vts_base64(coded, bytes, size);
    ck_assert_msg(strcmp(coded, json_string_value(json_object_get(map, key))) == 0, "%s is another picture", name);
    free(coded);
    free(bytes);
}

/* The size of a request, of the model that is named, and of a folder that is looked at: three ways to one net. */
START_TEST(input_sizes)
{
    exits(0, "explain --json --output values --method rollout --image-size 48x64 " CAT);
    json_t *asked = line(0);
    exits(0,
          "explain --json --output values --method rollout --model \"default=models/default?image_size=48x64\" " CAT);
    json_t *opened = line(0);
    const json_t *map = json_array_get(json_object_get(asked, "maps"), 0);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(map, "grid"), 0)), 12);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(map, "grid"), 1)), 16);
    ck_assert(json_equal(json_object_get(asked, "maps"), json_object_get(opened, "maps")));
    ck_assert(json_equal(json_object_get(asked, "image"), json_object_get(opened, "image")));
    ck_assert(json_equal(json_object_get(asked, "prediction"), json_object_get(opened, "prediction")));
    json_decref(asked), json_decref(opened);
    exits(0, "inspect --json \"models/default?image_size=48x64\"");
    says(out, "\"image_size\":[48,64]");
    exits(0, "models --json --model a=models/default --model \"b=?image_size=40\"");
    says(out, "\"image_size\":[32,32]");
    says(out, "\"image_size\":[40,40]");
    exits(0, "predict --json --image-size 64 " CAT);
}
END_TEST

START_TEST(files_and_their_names)
{
    exits(0, "explain " CAT " -o @/new/folder --method grad_rollout,cls_attention --class 3,truck --layer 1 --head 2");
    ck_assert_uint_eq(lines(err), 0);
    char *text = whole(path("new/folder/cat.json"));
    json_t *j = parsed(text), *maps = json_object_get(j, "maps");
    free(text);
    ck_assert_uint_eq(json_array_size(maps), 3);
    holds("new/folder/cat.grad_rollout.c3.overlay.png", json_array_get(maps, 0), "overlay");
    holds("new/folder/cat.grad_rollout.c3.heatmap.png", json_array_get(maps, 0), "heatmap");
    holds("new/folder/cat.grad_rollout.c9.overlay.png", json_array_get(maps, 1), "overlay");
    holds("new/folder/cat.grad_rollout.c9.heatmap.png", json_array_get(maps, 1), "heatmap");
    holds("new/folder/cat.cls_attention.l1.h2.overlay.png", json_array_get(maps, 2), "overlay");
    holds("new/folder/cat.cls_attention.l1.h2.heatmap.png", json_array_get(maps, 2), "heatmap");
    json_decref(j);
    exits(0, "explain " CAT " -o@ --method qk_maps --layer 0 --head 1 --channel 5,7 --which q --output heatmap");
    ck_assert_int_eq(access(path("cat.qk_maps.l0.h1.q.ch5.heatmap.png"), R_OK), 0);
    ck_assert_int_eq(access(path("cat.qk_maps.l0.h1.q.ch7.heatmap.png"), R_OK), 0);
    ck_assert_int_ne(access(path("cat.qk_maps.l0.h1.q.ch7.overlay.png"), R_OK), 0);
}
END_TEST

/* With a folder to write to, pictures come whatever the number of maps. */
START_TEST(many_maps_still_give_pictures)
{
    exits(0, "explain " CAT " -o @ --method cls_attention --size grid");
    ck_assert_int_eq(access(path("cat.cls_attention.l5.h2.overlay.png"), R_OK), 0);
    exits(0, "explain " CAT " -o @ --method cls_attention --output values --json");
    json_t *j = line(0), *map = json_array_get(json_object_get(j, "maps"), 17);
    ck_assert_ptr_nonnull(json_object_get(map, "values"));
    ck_assert_ptr_null(json_object_get(map, "overlay"));
    json_decref(j);
}
END_TEST

START_TEST(equal_stems_get_numbers)
{
    char command[2048];
    snprintf(command, sizeof command,
             "cd %s && mkdir a b && cp \"$OLDPWD/" CAT "\" a/x.jpg && cp \"$OLDPWD/" COFFEE
             "\" b/x.jpg && cp a/x.jpg b/x-2.jpg",
             folder);
    ck_assert_int_eq(system(command), 0);
    exits(0, "explain @/a/x.jpg @/b/x.jpg @/b/x-2.jpg @/a/x.jpg -o @/out --method rollout --jobs 3");
    static const char *const names[] = {"out/x.json", "out/x-2.json", "out/x-2-2.json", "out/x-3.json"};
    static const char *const files[] = {CAT, COFFEE, CAT, CAT};
    for (size_t k = 0; k < VT_COUNT(names); k++) {
        size_t size = 0;
        uint8_t digest[32], *bytes = vt_test_read(files[k], &size);
        char hex[65];
        vt_sha256 hash;
        ck_assert_ptr_nonnull(bytes);
        vt_sha256_init(&hash);
        vt_sha256_update(&hash, bytes, size);
        vt_sha256_final(&hash, digest);
        vt_sha256_hex(digest, hex);
        char *text = whole(path(names[k]));
        ck_assert_msg(strstr(text, hex) != NULL, "%s is of another picture", names[k]);
        free(text);
        free(bytes);
    }
    ck_assert_int_eq(access(path("out/x-2.rollout.overlay.png"), R_OK), 0);
}
END_TEST

START_TEST(jobs_change_neither_order_nor_bytes)
{
    const char *words =
        CAT " " COFFEE " static/samples/rocket.jpg " COFFEE " " CAT " --json --output values --method rollout";
    json_t *one[5];
    exits(0, "explain %s", words);
    ck_assert_uint_eq(lines(out), 5);
    for (size_t k = 0; k < 5; k++)
        one[k] = line(k);
    exits(0, "explain %s -j3", words);
    ck_assert_uint_eq(lines(out), 5);
    for (size_t k = 0; k < 5; k++)
        same_but_times(one[k], line(k));
}
END_TEST

START_TEST(one_bad_file_does_not_stop_the_others)
{
    exits(1, "predict " CAT " @/none.jpg Makefile " COFFEE " --jobs 2");
    ck_assert_uint_eq(lines(out), 4);
    static const char *const codes[] = {NULL, "not_found", "format_not_supported", NULL};
    for (size_t k = 0; k < 4; k++) {
        json_t *j = line(k);
        const char *code = json_string_value(json_object_get(j, "code"));
        ck_assert_msg(codes[k] ? code && strcmp(code, codes[k]) == 0 : !code, "line %zu: %s", k, code);
        ck_assert_msg(codes[k] || json_object_get(j, "prediction"), "line %zu", k);
        json_decref(j);
    }
    says(err, "none.jpg: No such file");
    says(err, "vitral: Makefile: ");
    exits(1, "explain @/none.jpg -o @/out");
    exits(1, "explain " CAT " @/none.jpg -o @/out");
    ck_assert_int_eq(access(path("out/cat.json"), R_OK), 0);
    ck_assert_int_ne(access(path("out/none.json"), R_OK), 0);
}
END_TEST

/* ---- the contract ---- */

START_TEST(openapi_is_up_to_date_and_drift_is_seen)
{
    exits(0, "openapi --check openapi.yaml");
    char *text = whole("openapi.yaml");
    char *at = strstr(text, "- \"image_missing\"");
    ck_assert_ptr_nonnull(at);
    at[3] = 'I';
    FILE *file = fopen(path("old.yaml"), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
    exits(1, "openapi --check @/old.yaml");
    says(err, "differs");
    exits(0, "openapi --update @/old.yaml");
    exits(0, "openapi --check @/old.yaml");
    at[3] = 'i';
    char *new = whole(path("old.yaml"));
    ck_assert_msg(strcmp(new, text) == 0, "--update did not bring the file back");
    free(new);
    free(text);
    exits(0, "openapi");
    for (size_t k = 0; vts_openapi_block(k); k++)
        says(out, vts_openapi_block(k));
}
END_TEST

START_TEST(settings_are_shown_with_their_origin)
{
    exits(0, "check-config --workers 2 --queue 7");
    says(out, "queue");
    says(out, "flag");
    says(out, "default");
}
END_TEST

static void box_file(const char *name, size_t w, size_t h)
{
    size_t size;
    uint8_t *bytes = vt_test_box_png(w, h, w / 4, h / 4, w / 2, h / 2, &size);
    FILE *to = fopen(path(name), "wb");
    ck_assert(to && fwrite(bytes, 1, size, to) == size && fclose(to) == 0);
    free(bytes);
}

START_TEST(a_mask_goes_with_one_file)
{
    static const char *const names[] = {"entropy", "gini", "mass_top10", "pointing", "iou"};
    exits(0, "predict --json " CAT);
    json_t *j = line(0);
    const json_t *image = json_object_get(j, "image");
    box_file("mask.png", (size_t)json_integer_value(json_object_get(image, "width")),
             (size_t)json_integer_value(json_object_get(image, "height")));
    box_file("small.png", 7, 5);
    json_decref(j);

    exits(0, "explain " CAT " --json --output values --mask @/mask.png --metrics iou,pointing --iou.threshold 0.5");
    j = line(0);
    const char *name;
    json_t *value, *map = json_array_get(json_object_get(j, "maps"), 0);
    size_t k = 0;
    json_object_foreach(json_object_get(map, "metrics"), name, value)
    {
        ck_assert(k < VT_COUNT(names) && json_is_real(value));
        ck_assert_str_eq(name, names[k++]);
    }
    ck_assert_uint_eq(k, VT_COUNT(names));
    ck_assert(json_real_value(json_object_get(json_object_get(map, "params"), "iou.threshold")) == 0.5);
    json_decref(j);

    exits(2, "explain " CAT " " COFFEE " --json --mask @/mask.png --metrics iou");
    says(err, "one FILE");
    exits(2, "explain - --json --mask - --metrics iou");
    says(err, "standard input");
    exits(2, "explain " CAT " --json --mask @/nosuch.png --metrics iou");
    says(err, "nosuch.png");
    exits(2, "explain " CAT " --json --mask @/small.png --metrics iou");
    says(err, "7 x 5");
    exits(1, "explain " CAT " --json --mask " COFFEE " --metrics iou");
    says(err, "JPEG");
    exits(2, "explain " CAT " --json --metrics iou");
    says(err, "none was sent");
    exits(2, "explain " CAT " --json --mask @/mask.png");
    says(err, "nothing that is asked for reads the mask");
    exits(2, "predict " CAT " --mask @/mask.png");
    says(err, "--mask");
}
END_TEST

START_TEST(no_http_library_is_linked)
{
    char command[2048];
    const char *build = getenv("VITRAL_BUILD");
    snprintf(command, sizeof command, "ldd %s/vitral >%s/.ldd", build && *build ? build : "build", folder);
    ck_assert_int_eq(system(command), 0);
    char *text = whole(path(".ldd"));
    says(text, "libc");
    ck_assert_ptr_null(strstr(text, "microhttpd"));
    free(text);
}
END_TEST

VT_SUITE("cli", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, help_and_version);
         tcase_add_test(tc, manual_pages);
         tcase_add_loop_test(tc, wrong_usage_exits_2_and_says_why, 0, (int)VT_COUNT(wrong));
         tcase_add_test(tc, catalogues_are_those_of_the_service); tcase_add_test(tc, text_for_people);
         tcase_add_test(tc, inspecting); tcase_add_test(tc, inspecting_what_is_not_read);
         tcase_add_test(tc, models_and_their_names); tcase_add_test(tc, answers_are_those_of_the_service);
         tcase_add_test(tc, input_sizes); tcase_add_test(tc, files_and_their_names);
         tcase_add_test(tc, many_maps_still_give_pictures); tcase_add_test(tc, equal_stems_get_numbers);
         tcase_add_test(tc, jobs_change_neither_order_nor_bytes);
         tcase_add_test(tc, one_bad_file_does_not_stop_the_others);
         tcase_add_test(tc, openapi_is_up_to_date_and_drift_is_seen);
         tcase_add_test(tc, settings_are_shown_with_their_origin); tcase_add_test(tc, a_mask_goes_with_one_file);
         tcase_add_test(tc, no_http_library_is_linked))
