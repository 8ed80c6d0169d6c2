/* Requests are refused by name, before any work, and equal requests are equal. Uses the embedded model: ten classes,
 * six blocks, three heads. */
#include "engine/run/request.h"
#include "tests/support/suite.h"

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
static vt_status open_query(vt_request **out, const char *query, unsigned flags, vt_error *err)
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
    const vt_status st = vt_request_open(out, model, NULL, pairs, n, flags, err);
    free(text);
    return st;
}

static const struct {
    const char *query;
    unsigned flags;
    vt_status status;
    const char *param, *says;
} refused[] = {
    {"method=nosuch", 0, VT_E_METHOD_UNKNOWN, "method", "nosuch"},
    {"method=rolout", 0, VT_E_METHOD_UNKNOWN, "method", "rollout"},
    {"method=", 0, VT_E_INVALID, "method", ""},
    {"method=rollout,", 0, VT_E_METHOD_UNKNOWN, "method", ""},
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
    {"method=rollout&class=top6", 0, VT_E_INVALID, "class", ""},
    {"method=rollout&class=0,1,2,3,4,5,6,7,8", 0, VT_E_INVALID, "class", "8"},
    {"class=3&versus=3", 0, VT_E_INVALID, "versus", "zero"},
    {"class=3&versus=dgo", 0, VT_E_INVALID, "versus", "dog"},
    {"class=3&versus=top1", 0, VT_E_INVALID, "versus", ""},
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
    {"precision=bf16", 0, VT_E_UNSUPPORTED, "precision", "fp32"},
    {"method=rollout&discard_ratio=1", 0, VT_E_INVALID, "discard_ratio", "0 <= discard_ratio < 1"},
    {"method=rollout&start_layer=6", 0, VT_E_INVALID, "start_layer", "5"},
    {"method=cls_attention&head=3", 0, VT_E_INVALID, "head", "2"},
    {"method=cls_attention&layer=-7", 0, VT_E_INVALID, "layer", "6"},
    {"method=qk_maps&channel=64", 0, VT_E_INVALID, "channel", "63"},
    {"method=qk_maps&layer=all&head=0&channel=all", 0, VT_E_INVALID, "", ""},
    {"method=raw_attention&query=token:65", 0, VT_E_INVALID, "query", "64"},
    {"output=overlay&output=values", 0, VT_E_INVALID, "output", "twice"},
    {"output=values", VT_REQUEST_ONE_PICTURE, VT_E_INVALID, "output", "image/png"},
    {"method=rollout", VT_REQUEST_PREDICT, VT_E_INVALID, "method", ""},
    {"class=1", VT_REQUEST_PREDICT, VT_E_INVALID, "class", ""},
    {"fit=stretch", VT_REQUEST_PREDICT, VT_E_INVALID, "fit", "crop, squash, pad"},
    {"scale=fixed&scale_min=-1e308&scale_max=1e308", 0, VT_E_INVALID, "scale_max", "apart"},
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
        ck_assert_msg(vt_request_cost(rq) == accepted[_i].cost, "'%s': cost %g", accepted[_i].query,
                      vt_request_cost(rq));
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
    {"method=rollout&head_fusion=max", "method=rollout", false},
    {"class=top1", "class=5", false},
    {"class=5", "class=5&versus=3", false},
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
    ck_assert_msg(strstr(err.msg, "4") && strstr(err.allowed, "4"), "%s (%s)", err.msg, err.allowed);
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

VT_SUITE("request", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, refuses_by_name, 0, (int)VT_COUNT(refused));
         tcase_add_loop_test(tc, accepts_and_counts, 0, (int)VT_COUNT(accepted));
         tcase_add_loop_test(tc, canonical_text_tells_requests_apart, 0, (int)VT_COUNT(pairs_of_queries));
         tcase_add_test(tc, limits_are_the_hosts); tcase_add_test(tc, tables_hold))
