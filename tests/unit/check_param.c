/* Parameters: what each type takes and refuses, ranges from rows and models, defaults, canonical text, tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "vitral/model.h"
#include "vitral/param.h"

static const char *const fusion[] = {"mean", "max", "min", NULL};
static const char *const parts[] = {"q", "k", "v", NULL};

typedef struct sample {
    int layer, head, top, steps, fuse;
    double ratio, alpha;
    bool residual;
    unsigned which, metrics;
    uint64_t seed;
    vt_ints channel, layers;
    vt_query query;
    char text[VT_TEXT_MAX];
    char token[VT_TEXT_MAX];
} sample;

#define AT(field) .offset = offsetof(sample, field), .help = "help"
static const vt_param rows[] = {
    {.name = "layer", .type = VT_INT, .bound = VT_BOUND_LAYERS, .def = -1, AT(layer)},
    {.name = "head", .type = VT_INT, .bound = VT_BOUND_HEADS, .choices = fusion, .def_text = "max", AT(head)},
    {.name = "top", .type = VT_INT, .bound = VT_BOUND_CLASSES, .def = 5, AT(top)},
    {.name = "steps", .type = VT_INT, .min = 1, .max = 1024, .def = 50, AT(steps)},
    {.name = "head_fusion", .type = VT_ENUM, .choices = fusion, .def = 2, AT(fuse)},
    {.name = "discard_ratio", .type = VT_FLOAT, .max = 1, .flags = VT_PARAM_BELOW_MAX, .def = 0.9, AT(ratio)},
    {.name = "alpha", .type = VT_FLOAT, .max = 1, .def = 0.5, AT(alpha)},
    {.name = "residual", .type = VT_BOOL, .def = 1, AT(residual)},
    {.name = "which", .type = VT_ENUMS, .choices = parts, .def_text = "q,k", AT(which)},
    {.name = "metrics",
     .type = VT_ENUMS,
     .choices = fusion,
     .flags = VT_PARAM_NONE_OK,
     .def_text = "none",
     AT(metrics)},
    {.name = "seed", .type = VT_SEED, AT(seed)},
    {.name = "channel",
     .type = VT_INTS,
     .bound = VT_BOUND_CHANNELS,
     .flags = VT_PARAM_ALL_OK,
     .def_text = "9,0",
     AT(channel)},
    {.name = "layers", .type = VT_INTS, .min = -5, .max = 600, .def_text = "3", AT(layers)},
    {.name = "query", .type = VT_QUERY, .def_text = "cls", AT(query)},
    {.name = "text", .type = VT_TEXT, .def_text = "white", AT(text)},
    {.name = "token", .type = VT_TEXT, .flags = VT_PARAM_SECRET, AT(token)},
};

static const vt_model_info info = {.layers = 12, .heads = 3, .tokens = 197, .classes = 10, .head_dim = 64};

static const vt_param *row_of(const char *name)
{
    const vt_param *row = vt_param_find(rows, VT_COUNT(rows), name);
    ck_assert_msg(row != NULL, "no row %s", name);
    return row;
}

static const struct {
    const char *name, *text, *canonical;
} taken[] = {
    {"layer", "0", "0"},
    {"layer", "11", "11"},
    {"layer", "-1", "11"},
    {"layer", "-12", "0"},
    {"layer", "-0", "0"},
    {"layer", "007", "7"},
    {"head", "2", "2"},
    {"head", "-3", "0"},
    {"head", "mean", "mean"},
    {"head", "min", "min"},
    {"top", "1", "1"},
    {"top", "10", "10"},
    {"steps", "1", "1"},
    {"steps", "1024", "1024"},
    {"head_fusion", "mean", "mean"},
    {"head_fusion", "min", "min"},
    {"discard_ratio", "0", "0"},
    {"discard_ratio", "-0", "0"},
    {"discard_ratio", "-0.0", "0"},
    {"discard_ratio", "0.9", "0.9"},
    {"discard_ratio", ".9", "0.9"},
    {"discard_ratio", "9e-1", "0.9"},
    {"discard_ratio", "0.90000000000", "0.9"},
    {"discard_ratio", "0.999999", "0.999999"},
    {"discard_ratio", "1e-5", "1e-05"},
    {"discard_ratio", "0.1234567891", "0.1234567891"},
    {"alpha", "1", "1"},
    {"alpha", "1.", "1"},
    {"alpha", "0.00001E5", "1"},
    {"residual", "true", "true"},
    {"residual", "false", "false"},
    {"which", "v", "v"},
    {"which", "v,q", "q,v"},
    {"which", "k,v,q", "q,k,v"},
    {"metrics", "none", "none"},
    {"metrics", "min,mean", "mean,min"},
    {"seed", "0", "0"},
    {"seed", "9007199254740991", "9007199254740991"},
    {"channel", "26", "26"},
    {"channel", "59,26", "26,59"},
    {"channel", "-1,0,-64,5", NULL}, /* -64 is 0: twice */
    {"channel", "-1,0,-63,5", "0,1,5,63"},
    {"channel", "all", "all"},
    {"layers", "600,-5,0", "-5,0,600"},
    {"query", "cls", "cls"},
    {"query", "token:0", "token:0"},
    {"query", "token:196", "token:196"},
    {"query", "xy:120,80", "xy:120,80"},
    {"query", "xy:0.5,1e2", "xy:0.5,100"},
    {"query", "xy:12345678901,-0", "xy:12345678901,0"},
    {"text", "#ff00aa", "#ff00aa"},
    {"text", "caf\xC3\xA9, with spaces", "caf\xC3\xA9, with spaces"},
};

/* What is taken has a canonical text that is taken again and gives the same bytes. */
START_TEST(taken_values)
{
    const vt_param *row = row_of(taken[_i].name);
    sample *s = calloc(1, sizeof *s), *again = calloc(1, sizeof *again);
    vt_error err = {0};
    char text[VT_TEXT_MAX], second[VT_TEXT_MAX];
    const vt_status st = vt_param_set(row, taken[_i].text, &info, s, &err);
    if (!taken[_i].canonical) {
        ck_assert_int_eq(st, VT_E_INVALID);
    } else {
        ck_assert_msg(st == VT_OK, "%s=%s: %s", row->name, taken[_i].text, err.msg);
        ck_assert_msg(err.status == VT_OK, "an error was set");
        vt_param_format(row, s, text, sizeof text);
        ck_assert_str_eq(text, taken[_i].canonical);
        ck_assert_int_eq(vt_param_set(row, text, &info, again, &err), VT_OK);
        vt_param_format(row, again, second, sizeof second);
        ck_assert_str_eq(second, text);
    }
    free(s), free(again);
}
END_TEST

static const struct {
    const char *name, *text, *says; /* says: what the message must hold */
} refused[] = {
    {"layer", "12", "-12 <= layer <= 11"},
    {"layer", "-13", "out of range"},
    {"layer", "", "empty"},
    {"layer", " 3", "\" 3\""},
    {"layer", "3 ", "whole number"},
    {"layer", "+3", "whole number"},
    {"layer", "3.0", "whole number"},
    {"layer", "1e1", "whole number"},
    {"layer", "0x1", "whole number"},
    {"layer", "-", "whole number"},
    {"layer", "--1", "whole number"},
    {"layer", "nan", "whole number"},
    {"layer", "4294967296", "out of range"}, /* 2^32: 0 when cut to 32 bits */
    {"layer", "18446744073709551616", "out of range"},
    {"layer", "-9223372036854775809", "out of range"},
    {"layer", "99999999999999999999999999", "out of range"},
    {"layer", "\xD9\xA3", "whole number"}, /* a digit, but not one of ours */
    {"head", "3", "or mean, max, min"},
    {"head", "all", "known word"},
    {"head", "Mean", "known word"},
    {"head", "-2147483648", "out of range"}, /* how a word is stored */
    {"head", "-2147483647", "out of range"},
    {"top", "0", "1 <= top <= 10"},
    {"top", "-1", "out of range"}, /* a count: nothing counts from the end */
    {"top", "11", "out of range"},
    {"steps", "0", "1 <= steps <= 1024"},
    {"steps", "1025", "out of range"},
    {"steps", "-1", "out of range"},
    {"head_fusion", "avg", "mean, max, min"},
    {"head_fusion", "mea", "did you mean mean?"},
    {"head_fusion", "mean,max", "not known"},
    {"head_fusion", "0", "not known"},
    {"discard_ratio", "1", "0 <= discard_ratio < 1"},
    {"discard_ratio", "1.0000", "out of range"},
    {"discard_ratio", "-0.1", "out of range"},
    {"discard_ratio", "nan", "finite decimal"},
    {"discard_ratio", "-nan", "finite decimal"},
    {"discard_ratio", "inf", "finite decimal"},
    {"discard_ratio", "0x.8", "finite decimal"},
    {"discard_ratio", "0,5", "finite decimal"},
    {"discard_ratio", "+0.5", "finite decimal"},
    {"discard_ratio", " 0.5", "finite decimal"},
    {"discard_ratio", "0.5f", "finite decimal"},
    {"discard_ratio", "0.5.1", "finite decimal"},
    {"discard_ratio", ".", "finite decimal"},
    {"discard_ratio", "e5", "finite decimal"},
    {"discard_ratio", "1e", "finite decimal"},
    {"discard_ratio", "1e+", "finite decimal"},
    {"discard_ratio", "1e999", "out of range"},
    {"discard_ratio", "", "empty"},
    {"alpha", "1.0000001", "0 <= alpha <= 1"},
    {"residual", "1", "true, false"},
    {"residual", "True", "neither"},
    {"which", "q,q", "twice"},
    {"which", "q,", "empty"},
    {"which", ",q", "empty"},
    {"which", "q, k", "\" k\""},
    {"which", "x", "any of q, k, v"},
    {"which", "none", "not known"},
    {"metrics", "mean,none", "alone"},
    {"metrics", "none,none", "alone"},
    {"seed", "9007199254740992", "0 <= seed <= 9007199254740991"},
    {"seed", "-1", "out of range"},
    {"seed", "-0", "out of range"},
    {"seed", "1.0", "whole number"},
    {"seed", "18446744073709551616", "out of range"},
    {"channel", "64", "from -64 to 63"},
    {"channel", "1,64", "\"64\""},
    {"channel", "1,,2", "empty"},
    {"channel", "1,", "empty"},
    {"channel", "all,1", "whole number"},
    {"channel", "1,all", "or all"},
    {"channel", "3,1,3", "twice"},
    {"layers", "all", "whole number"}, /* no flag, no word */
    {"query", "token:197", "from 0 to 196"},
    {"query", "token:-1", "does not exist"},
    {"query", "token:", "whole number"},
    {"query", "token:1.5", "whole number"},
    {"query", "token:4294967296", "does not exist"},
    {"query", "xy:1", "two numbers"},
    {"query", "xy:1,", "empty"},
    {"query", "xy:,1", "empty"},
    {"query", "xy:1,2,3", "finite decimal"},
    {"query", "xy:-1,2", "out of range"},
    {"query", "xy:1,-2", "out of range"},
    {"query", "xy:nan,2", "finite decimal"},
    {"query", "xy:1e999,2", "out of range"},
    {"query", "CLS", "not a query"},
    {"text", "", "empty"},
};

/* What is refused names the parameter, the value and what is allowed, and leaves the struct as it was. */
START_TEST(refused_values)
{
    const vt_param *row = row_of(refused[_i].name);
    sample *s = malloc(sizeof *s), *before = malloc(sizeof *before);
    vt_error err = {0};
    char allowed[VT_ERROR_ALLOWED];
    memset(s, 0x5A, sizeof *s);
    memcpy(before, s, sizeof *s);
    const vt_status st = vt_param_set(row, refused[_i].text, &info, s, &err);
    ck_assert_msg(st == VT_E_INVALID, "%s=%s was taken", row->name, refused[_i].text);
    ck_assert_int_eq(err.status, VT_E_INVALID);
    ck_assert_str_eq(err.param, row->name);
    vt_param_allowed(row, &info, allowed, sizeof allowed);
    ck_assert_str_eq(err.allowed, allowed);
    ck_assert_msg(strstr(err.msg, allowed) != NULL, "%s lacks \"%s\"", err.msg, allowed);
    ck_assert_msg(strstr(err.msg, refused[_i].text) != NULL, "%s lacks the value \"%s\"", err.msg, refused[_i].text);
    ck_assert_msg(strstr(err.msg, refused[_i].says) != NULL, "%s lacks \"%s\"", err.msg, refused[_i].says);
    ck_assert_msg(memcmp(s, before, sizeof *s) == 0, "%s=%s changed the struct", row->name, refused[_i].text);
    free(s), free(before);
}
END_TEST

START_TEST(long_and_strange_values_are_shown_short)
{
    char text[3000];
    vt_error err = {0};
    sample *s = calloc(1, sizeof *s);
    for (size_t k = 0; k + 3 < sizeof text; k += 3)
        memcpy(text + k, "\xE2\x82\xAC", 3);
    text[sizeof text - 3] = '\0';
    ck_assert_int_eq(vt_param_set(row_of("head_fusion"), text, &info, s, &err), VT_E_INVALID);
    ck_assert_msg(strlen(err.msg) < 200, "%zu bytes", strlen(err.msg));
    ck_assert_msg(strstr(err.msg, "\xAC...\" is not known") != NULL, "%s", err.msg);
    ck_assert_int_eq(vt_param_set(row_of("head_fusion"), "a\n\x80\xC0\xAF\xED\xA0\x80\x7F.\xE2\x82", &info, s, &err),
                     VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "\"a????????.??\"") != NULL, "%s", err.msg);
    memset(text, 'x', sizeof text - 1);
    text[VT_TEXT_MAX] = '\0';
    ck_assert_int_eq(vt_param_set(row_of("text"), text, &info, s, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "too long") != NULL, "%s", err.msg);
    text[VT_TEXT_MAX - 1] = '\0';
    ck_assert_int_eq(vt_param_set(row_of("text"), text, &info, s, &err), VT_OK);
    ck_assert_str_eq(s->text, text);
    ck_assert_int_eq(vt_param_set(row_of("token"), "hunter2", NULL, s, &err), VT_OK);
    ck_assert_str_eq(s->token, "hunter2");
    text[VT_TEXT_MAX - 1] = 'x', text[VT_TEXT_MAX] = '\0';
    ck_assert_int_eq(vt_param_set(row_of("token"), text, NULL, s, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "xx") == NULL, "a secret in a message: %s", err.msg);
    vt_param_format(row_of("token"), s, text, sizeof text);
    ck_assert_str_eq(text, "***");
    free(s);
}
END_TEST

START_TEST(lists_have_an_end)
{
    char *text = malloc(VT_LIST_MAX * 8 + 64), *out = malloc(VT_LIST_MAX * 8 + 64);
    size_t n = 0;
    sample *s = calloc(1, sizeof *s);
    vt_error err = {0};
    for (int k = VT_LIST_MAX; k > 0; k--)
        n += (size_t)snprintf(text + n, 16, "%s%d", k < VT_LIST_MAX ? "," : "", k);
    ck_assert_msg(vt_param_set(row_of("layers"), text, &info, s, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(s->layers.count, VT_LIST_MAX);
    for (int k = 0; k < VT_LIST_MAX; k++)
        ck_assert_int_eq(s->layers.items[k], k + 1);
    vt_param_format(row_of("layers"), s, out, VT_LIST_MAX * 8 + 64);
    ck_assert_int_eq(strncmp(out, "1,2,3,4,", 8), 0);
    memcpy(text + n, ",0", 3);
    ck_assert_int_eq(vt_param_set(row_of("layers"), text, &info, s, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "more than 512") != NULL, "%s", err.msg);
    free(text), free(out), free(s);
}
END_TEST

START_TEST(without_a_model_indices_stay_as_typed)
{
    sample *s = calloc(1, sizeof *s);
    vt_error err = {0};
    char allowed[200];
    ck_assert_int_eq(vt_param_set(row_of("layer"), "-3", NULL, s, &err), VT_OK);
    ck_assert_int_eq(s->layer, -3);
    ck_assert_int_eq(vt_param_set(row_of("channel"), "5,-1", NULL, s, &err), VT_OK);
    ck_assert_int_eq(s->channel.items[0], -1);
    ck_assert_int_eq(vt_param_set(row_of("query"), "token:5000", NULL, s, &err), VT_OK);
    ck_assert_int_eq(vt_param_set(row_of("layer"), "x", NULL, s, &err), VT_E_INVALID);
    vt_param_allowed(row_of("layer"), NULL, allowed, sizeof allowed);
    ck_assert_str_eq(allowed, "an index of a layer of the model; negative counts from the end");
    ck_assert_int_eq(vt_param_set(row_of("head"), "-2147483648", NULL, s, &err), VT_E_INVALID);
    free(s);
}
END_TEST

START_TEST(no_classes_no_top)
{
    const vt_model_info headless = {.layers = 12, .heads = 3, .tokens = 197};
    sample *s = calloc(1, sizeof *s);
    vt_error err = {0};
    ck_assert_int_eq(vt_param_set(row_of("top"), "1", &headless, s, &err), VT_E_INVALID);
    ck_assert_str_eq(err.allowed, "nothing: this model has no classes");
    vt_params_default(rows, VT_COUNT(rows), &headless, s);
    ck_assert_int_eq(s->top, 0);
    free(s);
}
END_TEST

START_TEST(allowed_texts)
{
    static const struct {
        const char *name, *text;
    } all[] = {
        {"layer", "-12 <= layer <= 11 (negative counts from the end)"},
        {"head", "-3 <= head <= 2 (negative counts from the end), or mean, max, min"},
        {"top", "1 <= top <= 10"},
        {"head_fusion", "mean, max, min"},
        {"discard_ratio", "0 <= discard_ratio < 1"},
        {"alpha", "0 <= alpha <= 1"},
        {"which", "any of q, k, v, comma separated"},
        {"metrics", "any of mean, max, min, comma separated, or none"},
        {"seed", "0 <= seed <= 9007199254740991"},
        {"channel", "whole numbers from -64 to 63, comma separated (negative counts from the end), or all"},
        {"query", "cls, token:N with N from 0 to 196, xy:X,Y in pixels of the upright picture"},
        {"text", "a text of 1 to 2047 bytes"},
    };
    char text[256];
    for (size_t k = 0; k < VT_COUNT(all); k++) {
        vt_param_allowed(row_of(all[k].name), &info, text, sizeof text);
        ck_assert_str_eq(text, all[k].text);
    }
    const vt_param open = {.name = "scale_min", .type = VT_FLOAT, .min = -HUGE_VAL, .max = HUGE_VAL};
    vt_param_allowed(&open, NULL, text, sizeof text);
    ck_assert_str_eq(text, "scale_min is any finite number");
    /* every size of buffer ends with NUL and says that something is missing */
    for (size_t size = 1; size < sizeof "mean, max, min"; size++) {
        memset(text, 'Z', sizeof text);
        vt_param_allowed(row_of("head_fusion"), NULL, text, size);
        ck_assert_uint_eq(strlen(text), size - 1);
        ck_assert_int_eq(text[size], 'Z');
        if (size > 4)
            ck_assert_str_eq(text + size - 4, "...");
    }
    vt_param_allowed(row_of("head_fusion"), NULL, NULL, 0);
}
END_TEST

START_TEST(defaults)
{
    const vt_model_info small = {.layers = 2, .heads = 2, .tokens = 5, .classes = 3, .head_dim = 4};
    sample *s = malloc(sizeof *s);
    char text[VT_TEXT_MAX];
    memset(s, 0xFF, sizeof *s);
    vt_params_default(rows, VT_COUNT(rows), &info, s);
    ck_assert_int_eq(s->layer, 11);
    ck_assert_int_eq(s->head, VT_WORD(1));
    ck_assert(VT_IS_WORD(s->head));
    ck_assert_int_eq(s->top, 5);
    ck_assert_int_eq(s->steps, 50);
    ck_assert_int_eq(s->fuse, 2);
    ck_assert(s->ratio == 0.9 && s->alpha == 0.5 && s->residual);
    ck_assert_uint_eq(s->which, 3);
    ck_assert_uint_eq(s->metrics, 0);
    ck_assert_uint_eq(s->seed, 0);
    ck_assert(!s->channel.all && s->channel.count == 2 && s->channel.items[0] == 0 && s->channel.items[1] == 9);
    ck_assert_int_eq(s->query.kind, VT_QUERY_CLS);
    ck_assert_str_eq(s->text, "white");
    ck_assert_str_eq(s->token, "");
    vt_params_default(rows, VT_COUNT(rows), &small, s);
    ck_assert_int_eq(s->layer, 1);
    ck_assert_int_eq(s->top, 3); /* a default beyond the model's classes becomes their number */
    ck_assert(s->channel.count == 2 && s->channel.items[1] == 3);
    static const char *const texts[] = {"-1",  "max",  "5", "50",  "min", "0.9", "0.5",   "true",
                                        "q,k", "none", "0", "9,0", "3",   "cls", "white", ""};
    for (size_t k = 0; k < VT_COUNT(rows); k++) {
        vt_param_default_text(&rows[k], text, sizeof text);
        ck_assert_str_eq(text, texts[k]);
    }
    const vt_param must = {.name = "model", .type = VT_TEXT, .flags = VT_PARAM_REQUIRED, AT(text)};
    vt_param_default_text(&must, text, sizeof text);
    ck_assert_str_eq(text, "");
    free(s);
}
END_TEST

START_TEST(big_numbers_are_written_in_full)
{
    const vt_param row = {.name = "bytes", .type = VT_FLOAT, .max = HUGE_VAL, AT(ratio)};
    sample *s = calloc(1, sizeof *s);
    char text[64];
    s->ratio = 68719476736.0;
    vt_param_format(&row, s, text, sizeof text);
    ck_assert_str_eq(text, "68719476736");
    s->ratio = 1e300;
    vt_param_format(&row, s, text, sizeof text);
    ck_assert_str_eq(text, "1e+300");
    free(s);
}
END_TEST

START_TEST(names_that_are_near)
{
    ck_assert_uint_eq(vt_name_distance("rollout", "rollout"), 0);
    ck_assert_uint_eq(vt_name_distance("rolout", "rollout"), 1);
    ck_assert_uint_eq(vt_name_distance("kitten", "sitting"), SIZE_MAX); /* 3, and 7 / 3 is 2 */
    ck_assert_uint_eq(vt_name_distance("head_fusoin", "head_fusion"), 2);
    ck_assert_uint_eq(vt_name_distance("discardratio", "discard_ratio"), 1);
    ck_assert_uint_eq(vt_name_distance("ab", "xy"), 2);
    ck_assert_uint_eq(vt_name_distance("", "ab"), SIZE_MAX);
    ck_assert_uint_eq(vt_name_distance("grad_rollout", "rollout"), SIZE_MAX);
    ck_assert_uint_eq(vt_name_distance("intention_tests", "execution_tests"), 5);
    char a[101], b[101];
    memset(a, 'a', 100), memset(b, 'a', 100);
    a[100] = b[100] = '\0';
    ck_assert_uint_eq(vt_name_distance(a, b), SIZE_MAX); /* nobody types that */
    ck_assert_ptr_null(vt_param_find(rows, VT_COUNT(rows), "Layer"));
    ck_assert_ptr_null(vt_param_find(rows, 0, "layer"));
}
END_TEST

START_TEST(good_table_passes)
{
    vt_error err = {0};
    ck_assert_msg(vt_params_check(rows, VT_COUNT(rows), sizeof(sample), &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_params_check(NULL, 0, 0, &err), VT_OK);
}
END_TEST

static const char *const no_words[] = {NULL};
static const struct {
    vt_param row;
    const char *says;
} faults[] = {
    {{.name = "Layer", .type = VT_INT, .max = 1, AT(layer)}, "[a-z0-9_.]+"},
    {{.name = "", .type = VT_INT, .max = 1, AT(layer)}, "[a-z0-9_.]+"},
    {{.name = NULL, .type = VT_INT, .max = 1, AT(layer)}, "[a-z0-9_.]+"},
    {{.name = "x", .type = VT_INT, .max = 1, .offset = 0}, "help"},
    {{.name = "x", .type = VT_INT, .max = 5, .def = 6, AT(layer)}, "out of its range"},
    {{.name = "x", .type = VT_INT, .min = 1, .max = 5, AT(layer)}, "out of its range"},
    {{.name = "x", .type = VT_INT, .max = 5, .def = 0.5, AT(layer)}, "not whole"},
    {{.name = "x", .type = VT_INT, .min = 2, .max = 1, .def = 1, AT(layer)}, "range is empty"},
    {{.name = "x", .type = VT_INT, .max = 1e10, AT(layer)}, "fit an int"},
    {{.name = "x", .type = VT_INT, .bound = VT_BOUND_CLASSES, AT(layer)}, "no count"},
    {{.name = "x", .type = VT_FLOAT, .max = 1, .def = 1, .flags = VT_PARAM_BELOW_MAX, AT(ratio)}, "out of its range"},
    {{.name = "x", .type = VT_FLOAT, .max = 1, .def = (double)NAN, AT(ratio)}, "out of its range"},
    {{.name = "x", .type = VT_FLOAT, .flags = VT_PARAM_BELOW_MAX, AT(ratio)}, "range is empty"},
    {{.name = "x", .type = VT_FLOAT, .max = 1, .offset = 4, .help = "h"}, "aligned"},
    {{.name = "x", .type = VT_INT, .max = 1, .offset = sizeof(sample), .help = "h"}, "outside"},
    {{.name = "x", .type = VT_INT, .max = 1, .offset = SIZE_MAX - 1, .help = "h"}, "outside"},
    {{.name = "x", .type = VT_TEXT, .offset = sizeof(sample) - 100, .help = "h"}, "outside"},
    {{.name = "x", .type = VT_ENUM, AT(layer)}, "no choices"},
    {{.name = "x", .type = VT_ENUM, .choices = no_words, AT(layer)}, "no choices"},
    {{.name = "x", .type = VT_ENUM, .choices = fusion, .def = 3, AT(layer)}, "none of its choices"},
    {{.name = "x", .type = VT_ENUMS, .choices = fusion, .def_text = "mean,median", AT(which)}, "default text"},
    {{.name = "x", .type = VT_FLOAT, .bound = VT_BOUND_HEADS, AT(ratio)}, "bound"},
    {{.name = "x", .type = VT_QUERY, .def_text = "token:", AT(query)}, "default text"},
    {{.name = "seed", .type = VT_INT, .max = 1, AT(layer)}, "twice"},
    {{.name = "x", .type = VT_INT, .max = 1, AT(seed)}, "overlaps"},
    {{.name = "x", .type = (vt_param_type)99, AT(layer)}, "type"},
};

START_TEST(bad_rows_are_found)
{
    vt_param table[2] = {{.name = "seed", .type = VT_SEED, AT(seed)}, faults[_i].row};
    vt_error err = {0};
    ck_assert_int_eq(vt_params_check(table, 2, sizeof(sample), &err), VT_E_INTERNAL);
    ck_assert_msg(strstr(err.msg, faults[_i].says) != NULL, "%s lacks \"%s\"", err.msg, faults[_i].says);
}
END_TEST

START_TEST(type_names)
{
    static const char *const names[] = {"int",      "float",     "bool", "enum", "text",
                                        "int_list", "enum_list", "seed", "query"};
    for (int k = 0; k < (int)VT_COUNT(names); k++)
        ck_assert_str_eq(vt_param_type_name((vt_param_type)k), names[k]);
}
END_TEST

VT_SUITE("param", tcase_add_loop_test(tc, taken_values, 0, (int)VT_COUNT(taken));
         tcase_add_loop_test(tc, refused_values, 0, (int)VT_COUNT(refused));
         tcase_add_test(tc, long_and_strange_values_are_shown_short); tcase_add_test(tc, lists_have_an_end);
         tcase_add_test(tc, without_a_model_indices_stay_as_typed); tcase_add_test(tc, no_classes_no_top);
         tcase_add_test(tc, allowed_texts); tcase_add_test(tc, defaults);
         tcase_add_test(tc, big_numbers_are_written_in_full); tcase_add_test(tc, names_that_are_near);
         tcase_add_test(tc, good_table_passes); tcase_add_loop_test(tc, bad_rows_are_found, 0, (int)VT_COUNT(faults));
         tcase_add_test(tc, type_names))
