/* The reference tensors of the real ViT-Ti once more, as a client sees them: a real vitrald with that model, the pictures
 * as uploads, `values` with their 9 digits, which say each float exactly.
 *
 * A few dozen requests per picture bring all maps; each tensor then looks for its maps among them by what the answer says
 * about them (method, target, layer, head, part, channel, params), so that a wrong label fails like a wrong number.
 * Values must be those of the engine in this process to the last bit, which is why both run the same BLAS kernels, and
 * within the tolerance of the tensor; a tie at the cut is judged as in the engine's test (rollout_ties.h).
 *
 * Not visible over HTTP: the stages before the maps (trace.*, except attention rows, and gradient.*). */
#include "server/config/config.h"
#include "tests/support/daemon.h"
#include "tests/support/http_client.h"
#include "tests/support/rollout_ties.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAPS_MAX = 128, PATCHES = 196, TIES_MAX = 3 };

static vt_test_daemon server;

static const struct {
    const char *name, *type;
    int targets[2]; /* -1 = none */
    size_t tensors;
} pictures[] = {{"both.png", "image/png", {243, 282}, 82},
                {"plane.png", "image/png", {404, -1}, 76},
                {"tabby.jpg", "image/jpeg", {285, -1}, 79},
                {"bull_mastiff.jpg", "image/jpeg", {243, -1}, 76}};

/* ThreadSanitizer is there for the threads, which do the same for every picture, and makes each run ten times as long. */
#ifdef __SANITIZE_THREAD__
enum { PICTURES = 1 };
#else
enum { PICTURES = VT_COUNT(pictures) };
#endif

static const int queries[] = {0, 1, 100, 196}; /* tokens that ask, for the rows of whole attention matrices */

static void start_server(void)
{
    vt_tally_open();
    /* OpenBLAS multiplies the one row that a prediction needs by another kernel than the many rows of a whole trace, so that
     * bits can be compared on the packed backend only. */
    unsetenv("VT_TEST_BACKEND");
    unsetenv("VITRAL_BACKEND");
    if (!vt_shared_missing(VT_GOLDEN_FOLDER "index.json") && !vt_shared_missing(VT_GOLDEN_MODEL "/model.safetensors"))
        vt_daemon_start(&server, vt_shared(VT_GOLDEN_MODEL));
}

static void stop_server(void)
{
    vt_daemon_stop(&server);
}

typedef struct client {
    vt_bench bench; /* its trace is made from our own preprocessing, as the server's are */
    const char *type;
    char classes[16];
    bool whole_attention; /* the reference has whole attention matrices of this picture */
    json_t *maps;         /* of all answers */
    json_t *prediction;   /* of all classes */
    json_t *transform;    /* of the first answer */
    size_t requests;
    vt_golden_group *group;
} client;

/* ---- requests ---- */

static json_t *post(client *c, const char *target)
{
    char headers[64];
    json_error_t fault;
    snprintf(headers, sizeof headers, "Content-Type: %s\r\n", c->type);
    vt_http_reply reply = vt_http_call(server.port, "POST", target, headers, c->bench.file, c->bench.file_size);
    ck_assert_msg(reply.status == 200, "%s: %d %s", target, reply.status, reply.body ? reply.body : "");
    json_t *root = json_loadb(reply.body, reply.size, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(root != NULL, "%s: %s", target, fault.text);
    vt_http_free(&reply);
    ck_assert_str_eq(json_string_value(json_object_get(root, "model")), c->bench.info->id);
    json_t *transform = json_object_get(json_object_get(root, "image"), "transform");
    if (!c->transform)
        c->transform = json_incref(transform);
    ck_assert_msg(json_equal(transform, c->transform), "%s: the transform differs from that of the first answer",
                  target);
    c->requests++;
    return root;
}

static void explain(client *c, const char *fmt, ...) VT_PRINTF(2, 3);
static void explain(client *c, const char *fmt, ...)
{
    char text[512], target[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(target, sizeof target, "/explain?output=values&metrics=none&%s", text);
    json_t *root = post(c, target), *maps = json_object_get(root, "maps");
    ck_assert_msg(json_array_size(maps) > 0, "%s: no maps", target);
    ck_assert_int_eq(json_array_extend(c->maps, maps), 0);
    json_decref(root);
}

static void ask(client *c)
{
    json_t *root = post(c, "/predict?top=1000");
    c->prediction = json_incref(json_object_get(root, "prediction"));
    json_decref(root);
    explain(c, "method=cls_attention,raw_attention&layer=all&head=all");
    explain(c, "method=raw_attention&layer=-1&head=mean");
    explain(c, "method=qk_maps&layer=all&head=0&channel=26,59");
    explain(c, "method=qk_maps&layer=8&head=0&channel=all");
    for (int compat = 0; compat < 2; compat++)
        for (int fusion = 0; fusion < 3; fusion++)
            for (int ratio = 0; ratio < 3; ratio++)
                for (int start = 0; start < 2; start++) {
                    static const char *const ratios[] = {"0", "0.5", "0.9"};
                    const bool both = fusion == VT_FUSE_MEAN && ratio != 1 && start == 0;
                    explain(c, "method=%s&class=%s&head_fusion=%s&discard_ratio=%s&start_layer=%d&compat=%s",
                            both ? "grad_rollout,rollout" : "rollout", c->classes, vt_fusion_names[fusion],
                            ratios[ratio], start, vt_compat_names[compat]);
                }
    explain(c, "method=rollout&protect=cls_column&discard_ratio=0.9&head_fusion=mean");
    explain(c, "method=rollout&protect=cls_column&discard_ratio=0.9&head_fusion=max");
    for (size_t q = 0; c->whole_attention && q < VT_COUNT(queries); q++)
        explain(c, "method=raw_attention&layer=all&head=all&query=token:%d", queries[q]);
}

/* ---- finding maps ---- */

static bool is_index(const json_t *map, const char *member, int wanted)
{
    const json_t *value = json_object_get(map, member);
    return wanted < 0 ? json_is_null(value) : json_is_integer(value) && json_integer_value(value) == wanted;
}

static bool is_word(const json_t *object, const char *member, const char *wanted)
{
    const char *word = json_string_value(json_object_get(object, member));
    return wanted ? word && strcmp(word, wanted) == 0 : json_is_null(json_object_get(object, member));
}

static bool is_number(const json_t *object, const char *member, double wanted)
{
    const json_t *value = json_object_get(object, member);
    return json_is_number(value) && fabs(json_number_value(value) - wanted) < 1e-12;
}

static bool is_of_target(const json_t *map, int target)
{
    const json_t *t = json_object_get(map, "target");
    return target < 0 ? json_is_null(t) : is_index(t, "index", target);
}

static bool is_rollout(const json_t *map, const vt_golden_row *row)
{
    const json_t *params = json_object_get(map, "params");
    const bool weighted = strcmp(row->method, "grad_rollout") == 0;
    return is_of_target(map, (int)vt_golden_number(row, "target", -1)) && is_index(map, "layer", -1) &&
           is_index(map, "head", -1) && is_word(params, "head_fusion", vt_golden_word(row, "head_fusion", "mean")) &&
           is_number(params, "discard_ratio", vt_golden_number(row, "discard_ratio", 0)) &&
           is_number(params, "start_layer", vt_golden_number(row, "start_layer", 0)) &&
           is_word(params, "compat", vt_golden_word(row, "compat", "none")) &&
           (weighted || is_word(params, "protect", vt_golden_word(row, "protect", "cls_self")));
}

static bool is_qk(const json_t *map, const vt_golden_row *row)
{
    const json_t *asked = json_object_get(json_object_get(map, "params"), "channel");
    const bool all = json_is_string(json_object_get(row->params, "channel")); /* "all 64" */
    return is_of_target(map, -1) && is_index(map, "layer", (int)vt_golden_number(row, "layer", -1)) &&
           is_index(map, "head", (int)vt_golden_number(row, "head", -1)) &&
           is_word(map, "part", vt_golden_word(row, "which", "")) && json_is_string(asked) == all &&
           (all || is_index(map, "channel", (int)vt_golden_number(row, "channel", -1)));
}

static bool is_of_row(const json_t *map, const vt_golden_row *row)
{
    const json_t *params = json_object_get(map, "params");
    if (!is_word(map, "method", row->method))
        return false;
    if (strcmp(row->method, "rollout") == 0 || strcmp(row->method, "grad_rollout") == 0)
        return is_rollout(map, row);
    if (strcmp(row->method, "qk_maps") == 0)
        return is_qk(map, row);
    if (strcmp(row->method, "raw_attention") == 0) /* chefer_raw_attention: mean of the heads of the last layer */
        return is_index(map, "layer", 11) && is_index(map, "head", -1) && is_word(map, "query", "cls") &&
               is_word(params, "head", "mean");
    ck_assert_str_eq(row->method, "cls_attention");
    return is_of_target(map, -1) && is_word(map, "query", NULL);
}

/* The floats of a map, row by row; its own summary must agree with them. */
static void values_of(const json_t *map, float out[PATCHES])
{
    const json_t *rows = json_object_get(map, "values"), *grid = json_object_get(map, "grid");
    double min = HUGE_VAL, max = -HUGE_VAL;
    ck_assert(json_integer_value(json_array_get(grid, 0)) == 14 && json_integer_value(json_array_get(grid, 1)) == 14);
    ck_assert_uint_eq(json_array_size(rows), 14);
    for (size_t p = 0; p < PATCHES; p++) {
        const json_t *row = json_array_get(rows, p / 14), *value = json_array_get(row, p % 14);
        ck_assert(json_array_size(row) == 14 && json_is_number(value));
        out[p] = (float)json_number_value(value);
        min = fmin(min, json_number_value(value));
        max = fmax(max, json_number_value(value));
    }
    ck_assert_msg(is_number(map, "min", min) && is_number(map, "max", max), "min and max are not those of the values");
    ck_assert(json_is_false(json_object_get(map, "empty")) && json_is_false(json_object_get(map, "signed")));
}

/* ---- one handler per group ---- */

static void check_transform(client *c, const vt_golden_row *row)
{
    if (strcmp(row->name, "preprocess.rgb8") != 0)
        return; /* of the input itself nothing is shown */
    const long size[2] = {(long)c->bench.image.width, (long)c->bench.image.height};
    const long resize = (long)vt_golden_number(row, "resize", 0), crop = (long)vt_golden_number(row, "crop", 0);
    const long shorter = size[0] < size[1] ? size[0] : size[1];
    const json_t *t = c->transform;
    ck_assert_str_eq(json_string_value(json_object_get(t, "fit")), "crop");
    for (size_t a = 0; a < 2; a++) { /* x, then y */
        const long resized = resize * size[a] / shorter, slack = resized - crop;
        const long start = slack / 2 + (slack % 2 && slack / 2 % 2); /* half, halves to even */
        /* pixels whose centre falls into the crop: from ceil(c W / w - 1/2) to ceil((c + S) W / w - 1/2) */
        const long w2 = 2 * resized, first = (2 * start * size[a] - resized + w2 - 1) / w2;
        const long last = (2 * (start + crop) * size[a] - resized + w2 - 1) / w2;
        const struct {
            const char *member;
            size_t at;
            long want;
        } shown[] = {{"resized", a, resized},
                     {"crop", a, start},
                     {"crop", 2 + a, crop},
                     {"visible", a, first},
                     {"visible", 2 + a, (last < size[a] ? last : size[a]) - first}};
        for (size_t k = 0; k < VT_COUNT(shown); k++) {
            const json_int_t got = json_integer_value(json_array_get(json_object_get(t, shown[k].member), shown[k].at));
            ck_assert_msg(got == shown[k].want, "%s: %s[%zu] is %lld, should be %ld", c->bench.picture, shown[k].member,
                          shown[k].at, (long long)got, shown[k].want);
        }
    }
    c->group->count++;
}

static void check_predict(client *c, const vt_golden_row *row)
{
    const bool probs = strcmp(row->name, "predict.probs") == 0;
    const float *logits = c->bench.trace.logits; /* (1000) */
    float got[1000];
    bool seen[1000] = {false};
    double sum = 0.0, max = 0.0, before = HUGE_VAL;
    ck_assert(probs || strcmp(row->name, "predict.logits") == 0);
    ck_assert_uint_eq(json_array_size(c->prediction), VT_COUNT(got));
    for (size_t k = 0; k < VT_COUNT(got); k++)
        max = fmax(max, (double)logits[k]);
    for (size_t k = 0; k < VT_COUNT(got); k++)
        sum += exp((double)logits[k] - max);
    for (size_t k = 0; k < VT_COUNT(got); k++) {
        const json_t *p = json_array_get(c->prediction, k);
        const size_t i = (size_t)json_integer_value(json_object_get(p, "index"));
        const double logit = json_number_value(json_object_get(p, "logit"));
        const double probability = json_number_value(json_object_get(p, "probability"));
        const double expected = exp((double)logits[i] - max) / sum;
        ck_assert(i < VT_COUNT(got) && !seen[i]);
        seen[i] = true;
        ck_assert_msg(logit <= before, "the prediction is not in order at rank %zu", k);
        before = logit;
        ck_assert_msg((float)logit == logits[i], "logit %zu is %.9g, in this process %.9g", i, logit,
                      (double)logits[i]);
        ck_assert_msg(fabs(probability - expected) <= 1e-6 * expected, "probability %zu is %.9g, should be %.9g", i,
                      probability, expected);
        got[i] = (float)(probs ? probability : logit);
    }
    vt_bench_compare(&c->bench, c->group, row, got, VT_COUNT(got));
}

static void expect_same_bits(const client *c, const vt_golden_row *row, size_t m, const float *got, const float *own,
                             size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(memcmp(&got[i], &own[i], sizeof *got) == 0,
                      "%s %s: map %zu [%zu] is %.9g in the answer, %.9g in this process", c->bench.picture, row->name,
                      m, i, (double)got[i], (double)own[i]);
}

static void expect_same_labels(const vt_golden_row *row, const json_t *map, const vt_map *own)
{
    ck_assert_msg(is_index(map, "layer", own->layer) && is_index(map, "head", own->head) &&
                      is_index(map, "channel", own->channel) && is_word(map, "part", own->part) &&
                      is_word(map, "query", own->query) && is_word(map, "unit", "patch"),
                  "%s: the map of layer %d, head %d, channel %d is called something else", row->name, own->layer,
                  own->head, own->channel);
}

/* The maps of a row side by side, or what they say about the class token's attention to itself. */
static void check_maps(client *c, const vt_golden_row *row)
{
    static float got[MAPS_MAX * PATCHES];
    const size_t length = strlen(row->name);
    const bool self = strcmp(row->name, "attention.cls_self") == 0;
    const bool divide = length > 5 && strcmp(row->name + length - 5, ".norm") == 0;
    const vt_output *own = vt_bench_explain(&c->bench, row);
    size_t k, found = 0, n = 0;
    json_t *map;
    json_array_foreach(c->maps, k, map)
    {
        double max = 0.0;
        float *at = got + n;
        if (!is_of_row(map, row))
            continue;
        ck_assert_msg(found < own->count && found < MAPS_MAX, "%s: more than %zu maps fit", row->name, own->count);
        expect_same_labels(row, map, &own->maps[found]);
        if (self) {
            const json_t *prefix = json_object_get(map, "prefix");
            ck_assert_uint_eq(json_array_size(prefix), 1);
            *at = (float)json_number_value(json_array_get(prefix, 0));
            expect_same_bits(c, row, found, at, own->maps[found].prefix, 1);
            n++;
        } else {
            values_of(map, at);
            expect_same_bits(c, row, found, at, own->maps[found].values, PATCHES);
            n += PATCHES;
        }
        for (size_t p = 0; divide && p < PATCHES; p++)
            max = fmax(max, (double)at[p]);
        for (size_t p = 0; divide && p < PATCHES; p++)
            at[p] = (float)((double)at[p] / max);
        found++;
    }
    ck_assert_msg(found == own->count, "%s %s: %zu maps fit, expected %zu", c->bench.picture, row->name, found,
                  own->count);
    vt_bench_compare(&c->bench, c->group, row, got, n);
}

/* Rows of a whole attention matrix (H, T, T): what the tokens of `queries` pay to the patches. */
static void check_attention_rows(client *c, const vt_golden_row *row)
{
    const size_t T = c->bench.info->tokens, H = c->bench.info->heads;
    const int layer = (int)vt_golden_number(row, "layer", -1);
    const float *own = vt_trace_attn(&c->bench.trace, (size_t)layer); /* (H, T, T) */
    size_t compared = 0, k;
    json_t *map;
    ck_assert_uint_eq(row->count, H * T * T);
    for (size_t q = 0; q < VT_COUNT(queries); q++) {
        char query[32];
        snprintf(query, sizeof query, "token:%d", queries[q]);
        json_array_foreach(c->maps, k, map)
        {
            float got[PATCHES];
            if (!is_word(map, "method", "raw_attention") || !is_index(map, "layer", layer) ||
                !is_word(map, "query", query))
                continue;
            const size_t head = (size_t)json_integer_value(json_object_get(map, "head"));
            const size_t at = (head * T + (size_t)queries[q]) * T + 1;
            ck_assert(json_is_integer(json_object_get(map, "head")) && head < H);
            values_of(map, got);
            expect_same_bits(c, row, compared, got, own + at, PATCHES);
            vt_golden_row part = *row;
            part.want += at;
            part.count = PATCHES;
            vt_bench_compare(&c->bench, c->group, &part, got, PATCHES);
            compared++;
        }
    }
    ck_assert_uint_eq(compared, VT_COUNT(queries) * H);
    c->group->count -= compared - 1; /* one tensor */
}

static const struct {
    const char *prefix;
    void (*check)(client *c, const vt_golden_row *row);
} rows[] = {
    {"preprocess.", check_transform},
    {"predict.", check_predict},
    {"attention.", check_maps},
    {"chefer_raw_attention", check_maps},
    {"qk_map.", check_maps},
    {"rollout.", check_maps},
    {"rollout_compat.", check_maps},
    {"chefer_rollout.", check_maps},
    {"grad_rollout.", check_maps},
    {"grad_rollout_compat.", check_maps},
    {"trace.block0.attention", check_attention_rows},
    {"trace.block5.attention", check_attention_rows},
    {"trace.block11.attention", check_attention_rows},
};

typedef struct walk {
    client client;
    vt_golden_group groups[VT_COUNT(rows)];
} walk;

static void check_row(void *host, size_t k, const vt_golden_row *row)
{
    walk *w = host;
    w->groups[k].name = rows[k].prefix;
    w->client.group = &w->groups[k];
    rows[k].check(&w->client, row);
}

START_TEST(every_tensor_that_http_shows)
{
    const char *picture = pictures[_i].name, *prefixes[VT_COUNT(rows)];
    walk w = {0};
    client *c = &w.client;
    size_t counted = 0;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    for (size_t r = 0; r < VT_COUNT(rows); r++)
        prefixes[r] = rows[r].prefix;
    json_t *index = vt_golden_index();
    vt_bench_open(&c->bench, picture, false);
    c->type = pictures[_i].type;
    c->whole_attention = strcmp(picture, "tabby.jpg") == 0;
    c->maps = json_array();
    snprintf(c->classes, sizeof c->classes, pictures[_i].targets[1] < 0 ? "%d" : "%d,%d", pictures[_i].targets[0],
             pictures[_i].targets[1]);
    ask(c);
    vt_golden_each(index, picture, prefixes, VT_COUNT(rows), check_row, &w);
    for (size_t r = 0; r < VT_COUNT(rows); r++) {
        ck_assert_msg(w.groups[r].count > 0 || (!c->whole_attention && rows[r].check == check_attention_rows),
                      "%s: no tensor of %s", picture, rows[r].prefix);
        if (w.groups[r].count > 0)
            vt_golden_print(&w.groups[r], picture);
        counted += w.groups[r].count;
    }
    printf("golden %s over HTTP: %zu tensors, %zu maps, %zu requests\n", picture, counted, json_array_size(c->maps),
           c->requests);
    fflush(stdout);
    ck_assert_uint_eq(counted, pictures[_i].tensors);
    json_decref(c->maps), json_decref(c->prediction), json_decref(c->transform);
    vt_bench_close(&c->bench);
    json_decref(index);
}
END_TEST

/* Last, after all the others: a tie is an event, not a habit. */
START_TEST(hardly_any_map_is_a_tie)
{
    const vt_ties_tally *tally = vt_tally();
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    printf("golden ties over HTTP: %zu explained by a tie within rounding, of %zu maps that discard\n",
           tally->explained, tally->maps);
    fflush(stdout);
    ck_assert_msg(tally->explained <= TIES_MAX, "%zu maps need a tie to be explained, %d may", tally->explained,
                  TIES_MAX);
}
END_TEST

/* Not VT_SUITE: vitrald restarts itself where OpenBLAS chose badly, and this process must run the same kernels. */
int main(int argc, char **argv)
{
    (void)argc;
    vts_restart_for_blas(argv);
    TCase *tc = tcase_create("golden_http");
    tcase_set_timeout(tc, 240.0);
    tcase_add_unchecked_fixture(tc, start_server, stop_server);
    tcase_add_loop_test(tc, every_tensor_that_http_shows, 0, PICTURES);
    tcase_add_test(tc, hardly_any_map_is_a_tie);
    return vt_test_main("golden_http", tc);
}
