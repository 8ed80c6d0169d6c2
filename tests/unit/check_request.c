/* Requests are refused by name, before any work, and equal requests are equal. Uses the embedded model: ten classes,
 * six blocks, three heads. */
#include "engine/run/request.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static vt_model *model;

static void setup(void)
{
    vt_error err = {0};
    ck_assert_msg(vt_model_open(&model, NULL, NULL, &err) == VT_OK, "%s", err.msg);
}

static void teardown(void)
{
    vt_model_close(model);
}

/* "name=value&name=value", as it would be typed; a value may hold anything but '&'. */
static vt_status open_limited(vt_request **out, const char *query, const vt_limits *limits, unsigned flags,
                              vt_error *err)
{
    char *text = strdup(query), *save = NULL;
    vt_pair pairs[32];
    size_t n = 0;
    ck_assert_ptr_nonnull(text);
    for (char *item = strtok_r(text, "&", &save); item; item = strtok_r(NULL, "&", &save)) {
        char *eq = strchr(item, '=');
        ck_assert(eq && n < VT_COUNT(pairs));
        *eq = '\0';
        pairs[n++] = (vt_pair){item, eq + 1};
    }
    const vt_status st = vt_request_open(out, model, limits, pairs, n, flags, err);
    free(text);
    return st;
}

static vt_status open_query(vt_request **out, const char *query, unsigned flags, vt_error *err)
{
    return open_limited(out, query, NULL, flags, err);
}

static const struct {
    const char *query;
    unsigned flags;
    vt_status status;
    const char *param, *says;
} refused[] = {
    {"method=nosuch", 0, VT_E_METHOD_UNKNOWN, "method", "nosuch"},
    {"method=rolout", 0, VT_E_METHOD_UNKNOWN, "method", "rollout"},
    {"method=", 0, VT_E_INVALID, "method", "grad_rollout"},
    {"method=rollout,", 0, VT_E_METHOD_UNKNOWN, "method", "grad_rollout"},
    {"method=rollout,rollout", 0, VT_E_INVALID, "method", "twice"},
    {"method=rollout&method=rollout", 0, VT_E_INVALID, "method", "twice"},
    {"method=rollout&nosuch=1", 0, VT_E_INVALID, "nosuch", "nosuch"},
    {"method=rollout&channel=3", 0, VT_E_INVALID, "channel", "qk_maps"},
    {"method=rollout&colormpa=jet", 0, VT_E_INVALID, "colormpa", "colormap"},
    {"method=rollout&class=10", 0, VT_E_CLASS_RANGE, "class", "10"},
    {"method=rollout&class=99999999999999999999", 0, VT_E_CLASS_RANGE, "class", ""},
    {"method=rollout&class=4294967296", 0, VT_E_CLASS_RANGE, "class", ""},
    {"method=rollout&class=-1", 0, VT_E_INVALID, "class", ""},
    {"method=rollout&class=dgo", 0, VT_E_INVALID, "class", "dog"},
    {"method=rollout&class=1e3", 0, VT_E_INVALID, "class", ""},
    {"method=rollout&class= 3", 0, VT_E_INVALID, "class", ""},
    {"method=rollout&class=3,,4", 0, VT_E_INVALID, "class", ""},
    {"method=rollout&class=top6", 0, VT_E_INVALID, "class", "top1, top2, top3, top4, top5"},
    {"method=rollout&class=0,1,2,3,4,5,6,7,8", 0, VT_E_INVALID, "class", "8"},
    {"class=3&versus=3", 0, VT_E_INVALID, "versus", "zero"},
    {"class=3&versus=dgo", 0, VT_E_INVALID, "versus", "dog"},
    {"class=3&versus=top1", 0, VT_E_INVALID, "versus", "0 ... 9, a label"},
    {"top=0", 0, VT_E_INVALID, "top", "top"},
    {"top=11", 0, VT_E_INVALID, "top", "10"},
    {"top=3.0", 0, VT_E_INVALID, "top", ""},
    {"alpha=nan", 0, VT_E_INVALID, "alpha", "alpha"},
    {"alpha=1.01", 0, VT_E_INVALID, "alpha", "1"},
    {"seed=9007199254740992", 0, VT_E_INVALID, "seed", ""},
    {"metrics=nosuch", 0, VT_E_INVALID, "metrics", "entropy"},
    {"background=notacolour", 0, VT_E_INVALID, "background", "#rrggbb"},
    {"background=#12345g", 0, VT_E_INVALID, "background", ""},
    {"scale=fixed", 0, VT_E_INVALID, "scale_min", "scale_min"},
    {"scale=fixed&scale_min=0", 0, VT_E_INVALID, "scale_max", ""},
    {"scale=fixed&scale_min=1&scale_max=1", 0, VT_E_INVALID, "scale_max", "larger"},
    {"scale_min=1", 0, VT_E_INVALID, "scale_min", "fixed"},
    {"image_size=8\x1b[2J", 0, VT_E_INVALID, "image_size", "'8?[2J' is neither"}, /* quoted */
    {"precision=bf16", 0, VT_E_UNSUPPORTED, "precision", "fp32"},
    {"method=rollout&discard_ratio=1", 0, VT_E_INVALID, "discard_ratio", "0 <= discard_ratio < 1"},
    {"method=rollout&start_layer=6", 0, VT_E_INVALID, "start_layer", "5"},
    {"method=cls_attention&head=3", 0, VT_E_INVALID, "head", "2"},
    {"method=cls_attention&layer=-7", 0, VT_E_INVALID, "layer", "6"},
    {"method=qk_maps&channel=64", 0, VT_E_INVALID, "channel", "63"},
    {"method=qk_maps&layer=all&head=0&channel=all", 0, VT_E_INVALID, "channel", "multiplies those of qk_maps by 64"},
    {"method=smoothgrad&steps=7", 0, VT_E_INVALID, "steps", "base=integrated_gradients"},
    {"method=smoothgrad,rollout&steps=7&base=input_x_gradient", 0, VT_E_INVALID, "steps", "base=integrated_gradients"},
    {"method=chefer_lrp&variant=full&start_layer=2", 0, VT_E_INVALID, "start_layer", "variant=rollout"},
    {"=5", 0, VT_E_INVALID, "", "''"},
    {"class=", 0, VT_E_INVALID, "class", "0 ... 9, a label, top1, top2, top3, top4, top5"},
    {"class=top7", 0, VT_E_INVALID, "class", "top1 ... top5"},
    {"versus=top2", 0, VT_E_INVALID, "versus", "word of class"},
    {"scale=fixed&scale_max=1", 0, VT_E_INVALID, "scale_min", "scale_min < scale_max"},
    {"scale_max=1", 0, VT_E_INVALID, "scale_max", "scale=fixed"},
    {"method=rollout&discard_ratoi=1", 0, VT_E_INVALID, "discard_ratoi", "did you mean discard_ratio"},
    {"clas=1", VT_REQUEST_PREDICT, VT_E_INVALID, "clas", "there is no parameter"},
    {"method=raw_attention&query=token:65", 0, VT_E_INVALID, "query", "64"},
    {"output=overlay&output=values", 0, VT_E_INVALID, "output", "twice"},
    {"output=values", VT_REQUEST_ONE_PICTURE, VT_E_INVALID, "output", "image/png"},
    {"method=rollout", VT_REQUEST_PREDICT, VT_E_INVALID, "method", ""},
    {"class=1", VT_REQUEST_PREDICT, VT_E_INVALID, "class", "top, fit, image_size, texts, exif, background"},
    {"fit=stretch", VT_REQUEST_PREDICT, VT_E_INVALID, "fit", "crop, squash, pad"},
    {"scale=fixed&scale_min=-1e308&scale_max=1e308", 0, VT_E_INVALID, "scale_max", "apart"},
    {"image_size=33", 0, VT_E_INVALID, "image_size", "32x32"},
    {"image_size=0", 0, VT_E_INVALID, "image_size", "HxW"},
    {"image_size=", 0, VT_E_INVALID, "image_size", ""},
    {"image_size=64x", 0, VT_E_INVALID, "image_size", "HxW"},
    {"image_size=-64", 0, VT_E_INVALID, "image_size", "HxW"},
    {"image_size=1028", 0, VT_E_INVALID, "image_size", "1024x1024"},
    {"image_size=64x2000", VT_REQUEST_PREDICT, VT_E_INVALID, "image_size", "64x1024"},
    {"image_size=64&image_size=64", 0, VT_E_INVALID, "image_size", "twice"},
    {"image_size=62", VT_REQUEST_PARTIAL, VT_E_INVALID, "image_size", "64x64"},
    {"image_size=1024", 0, VT_E_TOO_COSTLY, "image_size", "10000 forward"}, /* 65537 tokens */
    {"method=raw_attention&query=token:65&image_size=32", VT_REQUEST_PARTIAL, VT_E_INVALID, "query", "64"},
    {"method=raw_attention&query=token:257&image_size=64", 0, VT_E_INVALID, "query", "256"},
    {"method=raw_attention&query=token:x", VT_REQUEST_PARTIAL, VT_E_INVALID, "query", ""},
    {"nosuch=1", VT_REQUEST_PARTIAL, VT_E_INVALID, "nosuch", ""},
    {"method=nosuch", VT_REQUEST_PARTIAL, VT_E_METHOD_UNKNOWN, "method", ""},
    {"top=0", VT_REQUEST_PARTIAL, VT_E_INVALID, "top", ""},
};

START_TEST(refuses_by_name)
{
    vt_error err = {0};
    vt_request *rq = NULL;
    const vt_status st = open_query(&rq, refused[_i].query, refused[_i].flags, &err);
    ck_assert_msg(st == refused[_i].status, "%s: status %s, expected %s (%s)", refused[_i].query, vt_status_name(st),
                  vt_status_name(refused[_i].status), err.msg);
    ck_assert_msg(err.status == st, "%s: the error says %d", refused[_i].query, (int)err.status);
    ck_assert_ptr_null(rq);
    if (refused[_i].param[0])
        ck_assert_msg(strcmp(err.param, refused[_i].param) == 0, "%s: param %s", refused[_i].query, err.param);
    ck_assert_msg(strstr(err.msg, refused[_i].says) || strstr(err.allowed, refused[_i].says),
                  "%s: says '%s' (%s), not '%s'", refused[_i].query, err.msg, err.allowed, refused[_i].says);
    ck_assert(err.msg[0]);
    ck_assert_msg(err.allowed[0], "%s: nothing is said to be allowed (%s)", refused[_i].query, err.msg);
    ck_assert_msg(!strstr(err.allowed, "bytes"), "%s: a length is no help: %s", refused[_i].query, err.allowed);
}
END_TEST

/* What is said to be allowed, whole. */
static const struct {
    const char *query;
    unsigned flags;
    const char *allowed;
} sayings[] = {
    {"class=3&versus=3", 0, "any class but 3"},
    {"scale=fixed", 0, "scale_min < scale_max"},
    {"scale=fixed&scale_min=2&scale_max=1", 0, "scale_min < scale_max"},
    {"scale_min=1", 0, "scale=fixed with it"},
    {"class=1&class=2", 0, "class once"},
    {"method=rollout,rollout", 0, "each method once"},
    {"class=nobody", 0, "0 ... 9, a label, top1, top2, top3, top4, top5"},
    {"class=10", 0, "0 ... 9, a label, top1, top2, top3, top4, top5"},
    {"versus=nobody", 0, "0 ... 9, a label"},
    {"precision=bf16", 0, "fp32"},
    {"output=values", VT_REQUEST_ONE_PICTURE, "overlay"},
    {"background=", 0, "white, black, none, #rrggbb"},
    {"nosuch=1", VT_REQUEST_PREDICT, "top, fit, image_size, texts, exif, background"},
    {"method=qk_maps&layer=all&head=0&channel=all", 0, "at most 512 maps"},
};

START_TEST(says_what_is_allowed)
{
    vt_error err = {0};
    vt_request *rq = NULL;
    ck_assert_int_ne(open_query(&rq, sayings[_i].query, sayings[_i].flags, &err), VT_OK);
    ck_assert_msg(strcmp(err.allowed, sayings[_i].allowed) == 0, "%s: allowed is '%s', not '%s'", sayings[_i].query,
                  err.allowed, sayings[_i].allowed);
}
END_TEST

/* All names that a request may use are named, each once, and nothing else. */
START_TEST(an_unknown_name_is_told_all_names)
{
    static const vt_param own[] = {{.name = "ticket"}, {.name = "deadline"}};
    vt_limits limits = vt_limits_default;
    vt_error err = {0};
    vt_request *rq = NULL;
    size_t names = 1, count;
    const vt_param *common = vt_common_params(&count);
    const vt_explainer *methods[] = {vt_explainer_find("rollout"), vt_explainer_find("raw_attention")};
    const vt_pair pairs[] = {{"method", "rollout,raw_attention"}, {"tickte", "1"}};

    limits.host_params = own;
    limits.host_params_count = VT_COUNT(own);
    ck_assert_int_eq(vt_request_open(&rq, model, &limits, pairs, VT_COUNT(pairs), 0, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "did you mean ticket?") != NULL, "%s", err.msg);
    for (const char *c = err.allowed; *c; c++)
        names += *c == ',';
    size_t expected = count + VT_COUNT(own) + methods[0]->params_count;
    for (size_t k = 0; k < methods[1]->params_count; k++)
        expected += vt_param_find(methods[0]->params, methods[0]->params_count, methods[1]->params[k].name) == NULL;
    ck_assert_msg(names == expected, "%zu names, not %zu: %s", names, expected, err.allowed);
    for (size_t k = 0; k < count; k++)
        ck_assert_msg(strstr(err.allowed, common[k].name) != NULL, "%s is not named", common[k].name);
    ck_assert(strstr(err.allowed, "ticket") && strstr(err.allowed, "discard_ratio") && strstr(err.allowed, "query"));
}
END_TEST

/* The names of all methods fit. */
START_TEST(an_unknown_method_is_told_all_methods)
{
    vt_error err = {0};
    vt_request *rq = NULL;
    ck_assert_int_eq(open_query(&rq, "method=nosuch", 0, &err), VT_E_METHOD_UNKNOWN);
    size_t names = 1;
    for (const char *c = err.allowed; *c; c++)
        names += *c == ',';
    ck_assert_uint_eq(names, vt_explainer_count());
    ck_assert_msg(!strstr(err.allowed, "..."), "%s", err.allowed);
}
END_TEST

/* What makes a request too large is named: with 400 maps allowed, by the factor. */
START_TEST(too_many_maps_name_their_cause)
{
    static const struct {
        const char *query, *param;
        size_t maps_max;
    } cases[] = {
        {"method=cls_attention&layer=all&head=0", "layer", 5},
        {"method=cls_attention&layer=0&head=all", "head", 2},
        {"method=grad_rollout&class=0,1,2,3", "class", 3},
        {"method=grad_rollout,rollout,gradcam", "method", 2},
        {"method=qk_maps&layer=0&head=0&channel=0&which=q,k,v", "which", 2},
        {"method=qk_maps&layer=0&head=0&channel=0,1,2,3&which=q,k,v", "channel", 11},
        {"method=cls_attention&layer=all&head=all", "layer", 17},
    };
    vt_limits limits = vt_limits_default;
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        vt_error err = {0};
        vt_request *rq = NULL;
        limits.maps_max = cases[k].maps_max;
        ck_assert_int_eq(open_limited(&rq, cases[k].query, &limits, 0, &err), VT_E_INVALID);
        ck_assert_msg(strcmp(err.param, cases[k].param) == 0, "%s: %s is blamed (%s)", cases[k].query, err.param,
                      err.msg);
        limits.maps_max++;
        const vt_status st = open_limited(&rq, cases[k].query, &limits, 0, &err);
        ck_assert_msg(st == VT_OK, "%s: %s", cases[k].query, err.msg);
        vt_request_close(rq);
    }
}
END_TEST

static const struct {
    const char *query;
    unsigned flags;
    size_t maps;
    double cost;
} accepted[] = {
    {"", 0, 1, 2.0},
    {"method=rollout", 0, 1, 1.0},
    {"method=grad_rollout,rollout&class=2,1", 0, 3, 3.0},
    {"method=cls_attention", 0, 18, 1.0},
    {"method=cls_attention&head=mean&layer=-1", 0, 1, 1.0},
    {"method=qk_maps&layer=0&head=0&which=q&channel=0,1,2,3,4,5,6,7,8", 0, 9, 1.0},
    {"method=rollout,qk_maps&channel=3&head=0&layer=0&which=q", 0, 2, 1.0},
    {"class=DOG&versus=cat", 0, 1, 2.0},
    {"class=top1,top2,3", 0, 3, 4.0},
    {"class=4,4", 0, 1, 2.0},
    {"seed=9007199254740991&metrics=none&background=none", 0, 1, 2.0},
    {"scale=fixed&scale_min=-1&scale_max=2", 0, 1, 2.0},
    {"output=overlay", VT_REQUEST_ONE_PICTURE, 1, 2.0},
    {"top=10&fit=pad", VT_REQUEST_PREDICT, 0, 1.0},
    {"channel=3", VT_REQUEST_PARTIAL, 0, 0.0},
    {"method=raw_attention&query=token:256", VT_REQUEST_PARTIAL, 0, 0.0}, /* image_size may follow */
    /* a parameter has its use when one of the methods reads it */
    {"method=rollout,chefer_lrp&variant=full&start_layer=2", 0, 2, 0.0},
    {"method=smoothgrad,integrated_gradients&steps=7&samples=1", 0, 2, 0.0},
};

START_TEST(accepts_and_counts)
{
    vt_error err = {0};
    vt_request *rq = NULL;
    const vt_status st = open_query(&rq, accepted[_i].query, accepted[_i].flags, &err);
    ck_assert_msg(st == VT_OK, "'%s': %s", accepted[_i].query, err.msg);
    if (!(accepted[_i].flags & VT_REQUEST_PARTIAL)) {
        ck_assert_msg(vt_request_maps(rq) == accepted[_i].maps, "'%s': %zu maps", accepted[_i].query,
                      vt_request_maps(rq));
        ck_assert_msg(accepted[_i].cost == 0.0 || vt_request_cost(rq) == accepted[_i].cost, "'%s': cost %g",
                      accepted[_i].query, vt_request_cost(rq));
    }
    vt_request_close(rq);
}
END_TEST

static const struct {
    const char *a, *b;
    bool equal;
} pairs_of_queries[] = {
    {"method=rollout&head_fusion=mean", "method=rollout", true},
    {"head_fusion=max&method=rollout", "method=rollout&head_fusion=max", true},
    {"method=cls_attention&layer=-1", "method=cls_attention&layer=5", true},
    {"class=dog", "class=5", true},
    {"method=rollout&discard_ratio=0.50", "method=rollout&discard_ratio=.5", true},
    {"method=qk_maps&channel=3,1&which=k,q", "method=qk_maps&channel=1,3", true},
    {"method=rollout&compat=vit_explain", "method=rollout&compat=vit_explain&head_fusion=max&discard_ratio=0.9", true},
    {"image_size=32", "", true},
    {"image_size=64", "image_size=64x64", true},
    {"image_size=64", "", false},
    {"image_size=64x32", "image_size=32x64", false},
    {"method=rollout&head_fusion=max", "method=rollout", false},
    {"class=top1", "class=5", false},
    {"class=5", "class=5&versus=3", false},
    {"alpha=0.30000000000000004", "alpha=0.3", false}, /* neighbours among doubles are two requests */
    {"metrics=none", "", false},
    {"class=3,3", "class=3", false},
    {"seed=1", "", false},
    {"background=black", "", false},
    {"method=rollout,grad_rollout", "method=grad_rollout,rollout", false},
};

START_TEST(canonical_text_tells_requests_apart)
{
    vt_error err = {0};
    vt_request *a = NULL, *b = NULL;
    ck_assert_msg(open_query(&a, pairs_of_queries[_i].a, 0, &err) == VT_OK, "%s: %s", pairs_of_queries[_i].a, err.msg);
    ck_assert_msg(open_query(&b, pairs_of_queries[_i].b, 0, &err) == VT_OK, "%s: %s", pairs_of_queries[_i].b, err.msg);
    ck_assert_msg((strcmp(vt_request_canonical(a), vt_request_canonical(b)) == 0) == pairs_of_queries[_i].equal,
                  "'%s' and '%s':\n%s\n%s", pairs_of_queries[_i].a, pairs_of_queries[_i].b, vt_request_canonical(a),
                  vt_request_canonical(b));
    vt_request_close(a);
    vt_request_close(b);
}
END_TEST

START_TEST(limits_are_the_hosts)
{
    vt_error err = {0};
    vt_request *rq = NULL;
    vt_limits limits = vt_limits_default;
    const vt_pair pairs[] = {{"class", "1,2,3"}};
    limits.cost_max = 3.5;
    ck_assert_int_eq(vt_request_open(&rq, model, &limits, pairs, 1, 0, &err), VT_E_TOO_COSTLY);
    ck_assert_msg(strstr(err.msg, "costs 4 forward") && strstr(err.allowed, "at most 3.50 "), "%s (%s)", err.msg,
                  err.allowed);
    limits.cost_max = 4.0;
    ck_assert_int_eq(vt_request_open(&rq, model, &limits, pairs, 1, 0, &err), VT_OK);
    vt_request_close(rq);
}
END_TEST

START_TEST(tables_hold)
{
    vt_error err = {0};
    ck_assert_msg(vt_self_check(&err) == VT_OK, "%s", err.msg);
}
END_TEST

/* Classes are texts that a request gives, or there is no head at all: what is not about a class goes all the same. */
START_TEST(a_model_without_classes_says_why)
{
    static const vt_test_tiny_options nets[2] = {
        {.prefix = 1, .grid_h = 2, .grid_w = 2, .patch = 4, .width = 8, .heads = 2, .layers = 2, .mlp = 8, .joint = 5},
        {.prefix = 1, .grid_h = 2, .grid_w = 2, .patch = 4, .width = 8, .heads = 2, .layers = 2, .mlp = 8}};
    static const struct {
        const char *query, *param;
        unsigned flags;
    } asked[] = {{"method=chefer_generic", "method", 0},
                 {"method=rollout,gradient", "method", 0},
                 {"method=rollout&class=dog", "class", 0},
                 {"top=1", "model", VT_REQUEST_PREDICT}};
    vt_model *embedded = model;
    for (size_t n = 0; n < VT_COUNT(nets); n++) {
        uint8_t *bytes;
        vt_request *rq;
        vt_error err = {0};
        model = vt_test_tiny_open(&nets[n], &bytes);
        for (size_t k = 0; k < VT_COUNT(asked); k++) {
            ck_assert_msg(open_query(&rq, asked[k].query, asked[k].flags, &err) == VT_E_UNSUPPORTED, "%s: %s",
                          asked[k].query, err.msg);
            ck_assert_str_eq(err.param, asked[k].param);
            ck_assert_msg(strstr(err.msg, n == 0 ? "give it texts" : "no head") != NULL, "%s: %s", asked[k].query,
                          err.msg);
        }
        ck_assert_msg(open_query(&rq, "method=rollout", 0, &err) == VT_OK, "%s", err.msg);
        vt_request_close(rq);
        vt_model_close(model);
        free(bytes);
    }
    model = embedded;
}
END_TEST

VT_SUITE("request", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, refuses_by_name, 0, (int)VT_COUNT(refused));
         tcase_add_loop_test(tc, says_what_is_allowed, 0, (int)VT_COUNT(sayings));
         tcase_add_test(tc, an_unknown_name_is_told_all_names);
         tcase_add_test(tc, an_unknown_method_is_told_all_methods); tcase_add_test(tc, too_many_maps_name_their_cause);
         tcase_add_loop_test(tc, accepts_and_counts, 0, (int)VT_COUNT(accepted));
         tcase_add_loop_test(tc, canonical_text_tells_requests_apart, 0, (int)VT_COUNT(pairs_of_queries));
         tcase_add_test(tc, a_model_without_classes_says_why); tcase_add_test(tc, limits_are_the_hosts);
         tcase_add_test(tc, tables_hold))
