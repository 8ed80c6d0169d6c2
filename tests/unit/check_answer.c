/* The answer from hand-made results, read back by jansson: members, order, numbers, what is null and what is absent. */
#include "server/wire/wire.h"
#include "tests/support/suite.h"
#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/version.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const fusion_names[] = {"mean", "max", "min", NULL};
static const char *const word_names[] = {"all", "mean", NULL};
static const char *const set_names[] = {"q", "k", "v", NULL};

typedef struct made_params {
    int layer, head, fusion;
    double ratio;
    bool residual;
    uint64_t seed;
    unsigned which;
    vt_ints channel, every;
    vt_query query;
    char text[VT_TEXT_MAX];
} made_params;

#define AT(field) .offset = offsetof(made_params, field)
static const vt_param made_rows[] = {
    {.name = "layer", .type = VT_INT, .max = 11, AT(layer)},
    {.name = "head", .type = VT_INT, .max = 11, .choices = word_names, AT(head)},
    {.name = "head_fusion", .type = VT_ENUM, .choices = fusion_names, AT(fusion)},
    {.name = "discard_ratio", .type = VT_FLOAT, .max = 1, AT(ratio)},
    {.name = "residual", .type = VT_BOOL, AT(residual)},
    {.name = "seed", .type = VT_SEED, AT(seed)},
    {.name = "which", .type = VT_ENUMS, .choices = set_names, .def_text = "q,k", AT(which)},
    {.name = "channel", .type = VT_INTS, .max = 63, .def_text = "0", AT(channel)},
    {.name = "every", .type = VT_INTS, .max = 63, .flags = VT_PARAM_ALL_OK, .def_text = "all", AT(every)},
    {.name = "query", .type = VT_QUERY, .def_text = "cls", AT(query)},
    {.name = "text", .type = VT_TEXT, .def_text = "", AT(text)},
};
static const vt_explainer made_method = {.name = "made", .params = made_rows, .params_count = VT_COUNT(made_rows)};
static const vt_param near_rows[] = {{.name = "tolerance", .type = VT_INT, .max = 99}};
static const int tolerance = 15;
static const vt_metric entropy = {.name = "entropy"}, gini = {.name = "gini"},
                       near = {.name = "near", .params = near_rows, .params_count = 1, .params_size = sizeof tolerance};
static const vt_metric_value metric_values[] = {{.metric = &entropy, .value = 4.1},
                                                {.metric = &gini, .value = (double)NAN},
                                                {.metric = &near, .params = &tolerance, .value = 1.0}};
static const char *const notes[] = {"one", "two \"quoted\""};
static const vt_warning warnings[] = {{"target_twice", "dog was asked for twice"}};
static const vt_prediction dog = {243, "bull mastiff", 0.83, 9.81}, cat = {282, "tiger cat", 0.1, 7.5};
static const vts_envelope envelope = {
    .request_id = "01A", .model = "tiny", .image_id = "sha256:ab", .queue_ms = 0.25, .total_ms = 57.12345};

static made_params params;
static float values[6] = {0.0f, 0.1f, -1.5f, 3.40282347e38f, 1.40129846e-45f, 0.0173f};
static const float prefix[2] = {0.5f, 0.25f};
static vt_map map;
static vt_prediction predictions[2];
static vt_result result;

static void setup(void)
{
    params = (made_params){.layer = 7,
                           .head = VT_WORD(1),
                           .fusion = 2,
                           .ratio = 0.9,
                           .residual = true,
                           .seed = 9007199254740991u,
                           .which = 5,
                           .channel = {.count = 2, .items = {26, 59}},
                           .every = {.all = true},
                           .query = {.kind = VT_QUERY_TOKEN, .token = 57},
                           .text = "a|b"};
    map = (vt_map){.method = &made_method,
                   .params = &params,
                   .has_target = true,
                   .target = dog,
                   .layer = -1,
                   .head = -1,
                   .channel = -1,
                   .h = 2,
                   .w = 3,
                   .values = values,
                   .min = -1.5,
                   .max = 3.40282347e38,
                   .overlay = {(const uint8_t *)"foob", 4},
                   .heatmap = {(const uint8_t *)"fo", 2},
                   .show_values = true,
                   .metrics = metric_values,
                   .metrics_count = 3,
                   .notes = notes,
                   .notes_count = 2};
    predictions[0] = dog;
    predictions[1] = cat;
    result = (vt_result){.has_image = true,
                         .image_width = 500,
                         .image_height = 375,
                         .image_format = "jpeg",
                         .image_orientation = 1,
                         .predictions = predictions,
                         .predictions_count = 2,
                         .maps = &map,
                         .maps_count = 1,
                         .warnings = warnings,
                         .warnings_count = 1,
                         .seed = 3,
                         .transform = {VT_FIT_CROP, 330, 248, 53, -12, 224, 224, 80, 18, 340, 339},
                         .timing = {.decode = 3, .forward = 21.0006}};
}

static json_t *parsed(char *text, size_t size)
{
    json_error_t why;
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(size, strlen(text));
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(j != NULL, "%s at %d: %.200s", why.text, why.position, text);
    free(text);
    return j;
}

static json_t *explained(bool pretty)
{
    size_t size = 0;
    char *text = vts_json_explain(&result, &envelope, pretty, &size);
    return parsed(text, size);
}

static void has_keys(json_t *object, const char *keys)
{
    char seen[1024] = "";
    const char *key;
    json_t *unused;
    json_object_foreach(object, key, unused)
    {
        (void)unused;
        strncat(seen, *seen ? " " : "", 2);
        strncat(seen, key, sizeof seen - strlen(seen) - 1);
    }
    ck_assert_str_eq(seen, keys);
}

START_TEST(members_and_their_order)
{
    json_t *j = explained(false), *image = json_object_get(j, "image"),
           *m = json_array_get(json_object_get(j, "maps"), 0);
    has_keys(j, "request_id model version image prediction multi_label maps ranking seed warnings timing_ms cached");
    has_keys(image, "id format width height orientation transform");
    has_keys(json_object_get(image, "transform"), "fit resized crop visible");
    has_keys(json_array_get(json_object_get(j, "prediction"), 1), "index label probability logit");
    has_keys(m,
             "method target versus layer head part channel query unit grid signed min max empty values overlay heatmap "
             "metrics curves params notes");
    has_keys(json_object_get(j, "timing_ms"), "decode forward backward explain metrics render queue total");
    ck_assert_str_eq(json_string_value(json_object_get(j, "version")), VT_VERSION);
    ck_assert(json_is_null(json_object_get(j, "ranking")));
    ck_assert_int_eq(json_integer_value(json_object_get(j, "seed")), 3);
    json_decref(j);
}
END_TEST

/* A method that judges its own map: present where it does, absent (above) where it does not; 0 / 0 is null. */
START_TEST(quality_and_delta)
{
    map.quality = "not_converged";
    json_t *j = explained(false), *m = json_array_get(json_object_get(j, "maps"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(m, "quality")), "not_converged");
    ck_assert_ptr_null(json_object_get(m, "delta"));
    json_decref(j);
    map.has_delta = true;
    map.delta = -0.0625;
    map.delta_relative = 0.125;
    j = explained(true);
    m = json_array_get(json_object_get(j, "maps"), 0);
    has_keys(m,
             "method target versus layer head part channel query unit grid signed min max empty values overlay heatmap "
             "quality delta delta_relative metrics curves params notes");
    ck_assert_double_eq(json_real_value(json_object_get(m, "delta")), -0.0625);
    ck_assert_double_eq(json_real_value(json_object_get(m, "delta_relative")), 0.125);
    json_decref(j);
    map.has_bf16_error = true;
    map.bf16_error = 0.00390625;
    j = explained(false);
    m = json_array_get(json_object_get(j, "maps"), 0);
    ck_assert_double_eq(json_real_value(json_object_get(m, "bf16_error")), 0.00390625);
    json_decref(j);
    map.has_bf16_error = false;
    map.delta_relative = (double)NAN;
    j = explained(false);
    ck_assert(json_is_null(json_object_get(json_array_get(json_object_get(j, "maps"), 0), "delta_relative")));
    json_decref(j);
}
END_TEST

START_TEST(geometry_is_width_first_and_grid_is_rows_first)
{
    json_t *j = explained(false), *t = json_object_get(json_object_get(j, "image"), "transform"), *other;
    int v[4];
    ck_assert_int_eq(json_unpack(t, "{s:[ii]}", "resized", v, v + 1), 0);
    ck_assert(v[0] == 330 && v[1] == 248);
    ck_assert_int_eq(json_unpack(t, "{s:[iiii]}", "crop", v, v + 1, v + 2, v + 3), 0);
    ck_assert(v[0] == 53 && v[1] == -12 && v[2] == 224 && v[3] == 224);
    ck_assert_int_eq(json_unpack(t, "{s:[iiii]}", "visible", v, v + 1, v + 2, v + 3), 0);
    ck_assert(v[0] == 80 && v[1] == 18 && v[2] == 340 && v[3] == 339);
    ck_assert_str_eq(json_string_value(json_object_get(t, "fit")), "crop");
    other = json_object_get(json_array_get(json_object_get(j, "maps"), 0), "grid");
    ck_assert_int_eq(json_integer_value(json_array_get(other, 0)), 2);
    ck_assert_int_eq(json_integer_value(json_array_get(other, 1)), 3);
    json_decref(j);
}
END_TEST

START_TEST(values_come_back_as_the_same_floats)
{
    json_t *j = explained(false), *rows = json_object_get(json_array_get(json_object_get(j, "maps"), 0), "values");
    ck_assert_uint_eq(json_array_size(rows), 2);
    for (size_t k = 0; k < 6; k++) {
        const json_t *v = json_array_get(json_array_get(rows, k / 3), k % 3);
        ck_assert_uint_eq(json_array_size(json_array_get(rows, k / 3)), 3);
        ck_assert_msg(json_is_real(v) && (float)json_real_value(v) == values[k], "value %zu", k);
    }
    json_decref(j);
}
END_TEST

START_TEST(parameters_keep_their_types)
{
    json_t *j = explained(false), *p = json_object_get(json_array_get(json_object_get(j, "maps"), 0), "params");
    char *text = json_dumps(p, JSON_COMPACT | JSON_REAL_PRECISION(9));
    ck_assert_str_eq(text,
                     "{\"layer\":7,\"head\":\"mean\",\"head_fusion\":\"min\",\"discard_ratio\":0.9,\"residual\":true,"
                     "\"seed\":9007199254740991,\"which\":[\"q\",\"v\"],\"channel\":[26,59],\"every\":\"all\","
                     "\"query\":\"token:57\",\"text\":\"a|b\",\"near.tolerance\":15}");
    free(text);
    json_decref(j);
}
END_TEST

START_TEST(what_is_not_there_is_null_or_absent)
{
    map.overlay.size = map.heatmap.size = 0;
    map.show_values = false;
    map.has_target = false;
    json_t *j = explained(false), *m = json_array_get(json_object_get(j, "maps"), 0);
    has_keys(m,
             "method target versus layer head part channel query unit grid signed min max empty metrics curves params "
             "notes");
    static const char *const nulls[] = {"target", "versus", "layer", "head", "part", "channel", "query"};
    for (size_t k = 0; k < VT_COUNT(nulls); k++)
        ck_assert_msg(json_is_null(json_object_get(m, nulls[k])), "%s is not null", nulls[k]);
    ck_assert(json_is_null(json_object_get(json_object_get(m, "metrics"), "gini")));
    ck_assert(json_is_real(json_object_get(json_object_get(m, "metrics"), "entropy")));
    ck_assert(json_real_value(json_object_get(json_object_get(m, "metrics"), "near")) == 1.0);
    json_decref(j);
    map.has_versus = true, map.versus = cat;
    map.layer = 0, map.head = 2, map.channel = 59, map.part = "k", map.query = "xy:120,80", map.unit = VT_UNIT_PIXEL;
    map.prefix = prefix, map.prefix_count = 2;
    j = explained(false), m = json_array_get(json_object_get(j, "maps"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(m, "versus"), "index")), 282);
    ck_assert(json_is_integer(json_object_get(m, "layer")) && json_integer_value(json_object_get(m, "layer")) == 0);
    ck_assert_int_eq(json_integer_value(json_object_get(m, "head")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(m, "channel")), 59);
    ck_assert_str_eq(json_string_value(json_object_get(m, "part")), "k");
    ck_assert_str_eq(json_string_value(json_object_get(m, "query")), "xy:120,80");
    ck_assert_str_eq(json_string_value(json_object_get(m, "unit")), "pixel");
    ck_assert_uint_eq(json_array_size(json_object_get(m, "prefix")), 2);
    json_decref(j);
}
END_TEST

START_TEST(no_picture_no_probability)
{
    size_t size = 0;
    result.has_image = false;
    result.predictions_count = 1;
    predictions[0].probability = (double)NAN;
    predictions[0].logit = (double)INFINITY;
    json_t *j = explained(false), *p = json_array_get(json_object_get(j, "prediction"), 0);
    ck_assert(json_is_null(json_object_get(j, "image")));
    ck_assert(json_is_null(json_object_get(p, "probability")) && json_is_null(json_object_get(p, "logit")));
    json_decref(j);
    char *text = vts_json_predict(&result, &envelope, false, &size);
    j = parsed(text, size);
    has_keys(j, "request_id model version image prediction multi_label warnings timing_ms cached");
    json_decref(j);
}
END_TEST

START_TEST(pictures_are_base64_and_pretty_says_the_same)
{
    size_t size = 0;
    json_t *a = explained(false), *b = explained(true), *m = json_array_get(json_object_get(a, "maps"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(m, "overlay")), "Zm9vYg==");
    ck_assert_str_eq(json_string_value(json_object_get(m, "heatmap")), "Zm8=");
    ck_assert(json_equal(a, b));
    json_decref(a);
    json_decref(b);
    char *text = vts_json_explain(&result, &envelope, true, &size);
    ck_assert_ptr_nonnull(strstr(text, "\n  \"model\": \"tiny\",\n"));
    ck_assert_ptr_nonnull(strstr(text, "\"grid\": [2, 3],\n"));
    free(text);
}
END_TEST

START_TEST(times_are_cut_to_microseconds)
{
    json_t *j = explained(false), *t = json_object_get(j, "timing_ms");
    ck_assert(fabs(json_real_value(json_object_get(t, "forward")) - 21.001) < 1e-9);
    ck_assert(fabs(json_real_value(json_object_get(t, "total")) - 57.123) < 1e-9);
    ck_assert(fabs(json_real_value(json_object_get(t, "queue")) - 0.25) < 1e-12);
    json_decref(j);
}
END_TEST

/* Ill-formed by table 3-7 of the Unicode standard: each bad byte becomes one U+FFFD; the rest stays. */
START_TEST(any_bytes_give_valid_text)
{
    static const char *const in[] = {"\xff",
                                     "a\xc3",
                                     "\xc0\xaf",
                                     "\xe0\x80\x80",
                                     "\xed\xa0\x80",
                                     "\xf4\x90\x80\x80",
                                     "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\xb6",
                                     "\x01\n\x7f\\\""};
    static const char *const out[] = {
        "?", "a?", "??", "???", "???", "????", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\xb6", "\x01\n\x7f\\\""};
    for (size_t k = 0; k < VT_COUNT(in); k++) {
        char expect[64] = "";
        size_t n = 0;
        for (const char *c = out[k]; *c; c++)
            n += (size_t)(*c == '?' ? snprintf(expect + n, sizeof expect - n, "\xef\xbf\xbd")
                                    : snprintf(expect + n, sizeof expect - n, "%c", *c));
        predictions[0].label = in[k];
        json_t *j = explained(false), *p = json_array_get(json_object_get(j, "prediction"), 0);
        ck_assert_str_eq(json_string_value(json_object_get(p, "label")), expect);
        json_decref(j);
    }
}
END_TEST

START_TEST(curves_and_ranking)
{
    static double x[2][3] = {{0.0, 0.5, 1.0}, {1.0, 2.0, 3.0}}, y[2][3] = {{0.75, 0.25, 0.0}, {4.5, 0.0, -1.0}};
    y[1][1] = (double)NAN;
    const vt_curve curves[] = {{"near", 3, x[0], y[0]}, {"near_other", 3, x[1], y[1]}};
    const vt_metric_value value = {.metric = &gini, .value = 0.5, .curves = curves, .curves_count = 2};
    const vt_place_taken places[] = {
        {.method = "made", .value = 0.5, .std_error = (double)NAN, .rank = 1},
        {.method = "random", .value = 0.25, .std_error = 0.125, .draws = 7, .rank = 2, .is_floor = true},
        {.method = "edge", .value = (double)NAN, .std_error = (double)NAN, .is_floor = true}};
    const vt_standing standing = {.metric = &gini, .places = places, .count = 3};
    map.metrics = &value;
    map.metrics_count = 1;
    result.standings = &standing;
    result.standings_count = 1;
    json_t *j = explained(false), *m = json_array_get(json_object_get(j, "maps"), 0);
    json_t *near_curve = json_object_get(json_object_get(m, "curves"), "near_other"), *row;
    has_keys(json_object_get(m, "curves"), "near near_other");
    has_keys(near_curve, "x y");
    ck_assert_uint_eq(json_array_size(json_object_get(near_curve, "y")), 3);
    ck_assert(json_real_value(json_array_get(json_object_get(near_curve, "y"), 0)) == 4.5);
    ck_assert(json_is_null(json_array_get(json_object_get(near_curve, "y"), 1)));
    json_t *ranking = json_object_get(j, "ranking");
    has_keys(ranking, "gini");
    ck_assert_uint_eq(json_array_size(json_object_get(ranking, "gini")), 3);
    row = json_array_get(json_object_get(ranking, "gini"), 0);
    has_keys(row, "method value rank");
    ck_assert_int_eq(json_integer_value(json_object_get(row, "rank")), 1);
    row = json_array_get(json_object_get(ranking, "gini"), 1);
    has_keys(row, "method value rank stderr draws");
    ck_assert(json_real_value(json_object_get(row, "stderr")) == 0.125);
    row = json_array_get(json_object_get(ranking, "gini"), 2);
    has_keys(row, "method value rank");
    ck_assert(json_is_null(json_object_get(row, "value")) && json_is_null(json_object_get(row, "rank")));
    json_decref(j);
}
END_TEST

START_TEST(headers_of_a_prediction)
{
    static const vt_prediction odd = {7, "M\xc3\xbcnchen; a=b", (double)NAN, 1.0};
    char *text = vts_prediction_header(&dog);
    ck_assert_str_eq(text, "243; p=0.830000; label=bull%20mastiff");
    free(text);
    text = vts_prediction_header(&odd);
    ck_assert_str_eq(text, "7; label=M%C3%BCnchen%3B%20a%3Db");
    free(text);
}
END_TEST

VT_SUITE("answer", tcase_add_checked_fixture(tc, setup, NULL); tcase_add_test(tc, members_and_their_order);
         tcase_add_test(tc, quality_and_delta); tcase_add_test(tc, geometry_is_width_first_and_grid_is_rows_first);
         tcase_add_test(tc, values_come_back_as_the_same_floats); tcase_add_test(tc, parameters_keep_their_types);
         tcase_add_test(tc, what_is_not_there_is_null_or_absent); tcase_add_test(tc, no_picture_no_probability);
         tcase_add_test(tc, pictures_are_base64_and_pretty_says_the_same);
         tcase_add_test(tc, times_are_cut_to_microseconds); tcase_add_test(tc, any_bytes_give_valid_text);
         tcase_add_test(tc, curves_and_ranking); tcase_add_test(tc, headers_of_a_prediction))
