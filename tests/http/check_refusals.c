/* Every 422 over HTTP: the parameter by name, what would be accepted, the same for every route, and before the upload
 * where the query alone decides. Two models are served: the embedded one with ten classes, and a tiny one with three. */
#include "server/routes/routes.h"
#include "tests/support/http_service.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint8_t *weights; /* of the tiny model; the set that has it lives until the service ends */

static void set_up(void)
{
    vt_test_tiny_options options = vt_test_tiny_default;
    vt_error err = {0};
    options.classes = 3;
    vt_served_set_up();
    vts_model_set *set = vts_model_set_new(2);
    ck_assert_ptr_nonnull(set);
    ck_assert_int_eq(vt_model_open(&set->models[0], NULL, NULL, &err), VT_OK);
    set->models[1] = vt_test_tiny_open(&options, &weights);
    set->count = 2;
    ck_assert_int_eq(vts_routes_describe(set, &err), VT_OK);
    vts_models_swap(vt_served.service.models, set);
}

static void tear_down(void)
{
    vt_served_tear_down();
    free(weights);
}

/* A 422 (or what `status` says) with this parameter and exactly this list of what is allowed, NULL: any but none. */
static void expect(vt_http_reply reply, const char *what, int status, const char *param, const char *allowed)
{
    ck_assert_msg(reply.status == status, "%s: %d, not %d: %s", what, reply.status, status, reply.body);
    json_t *root = vt_served_json(&reply);
    const char *says = json_string_value(json_object_get(root, "allowed"));
    const char *name = json_string_value(json_object_get(root, "param"));
    const char *detail = json_string_value(json_object_get(root, "detail"));
    ck_assert_msg(name && strcmp(name, param) == 0, "%s: param is %s: %s", what, name ? name : "absent", reply.body);
    ck_assert_msg(detail && strlen(detail) > 10, "%s: no sentence: %s", what, reply.body);
    ck_assert_msg(says && says[0] && !strstr(says, "bytes"), "%s: nothing helpful is allowed: %s", what, reply.body);
    ck_assert_msg(!allowed || strcmp(says, allowed) == 0, "%s: '%s' is allowed, not '%s'", what, says, allowed);
    json_decref(root);
    vt_http_free(&reply);
}

/* ---- POST ---- */

#define IMAGE_ID "sha256: and 64 hexadecimal digits in lower case"
#define SOME_ID "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CLASSES_10 "0 ... 9, a label, top1, top2, top3, top4, top5"
#define NAMES                                                                                                          \
    "method, class, versus, top, sign, scale, scale_min, scale_max, colormap, alpha, output, size, interpolation, "    \
    "fit, image_size, texts, exif, background, metrics, random_maps, seed, precision, model, image_id, deadline_ms, "

static const struct {
    const char *target, *headers, *fields;
    int status;
    const char *param, *allowed;
} posts[] = {
    {"/explain?class=3&versus=3", "", "", 422, "versus", "any class but 3"},
    {"/explain?scale=fixed", "", "", 422, "scale_min", "scale_min < scale_max"},
    {"/explain?scale=fixed&scale_min=3&scale_max=2", "", "", 422, "scale_max", "scale_min < scale_max"},
    {"/explain?scale_min=3", "", "", 422, "scale_min", "scale=fixed with it"},
    {"/explain?class=1&class=2", "", "", 422, "class", "class once"},
    {"/explain?class=1", "", "class=1", 422, "class", "class once"},
    {"/explain?model=tiny", "", "model=tiny", 422, "model", "model once"},
    {"/explain?method=rollout,rollout", "", "", 422, "method", "each method once"},
    {"/explain?precision=bf16", "", "", 422, "precision", "fp32"},
    {"/explain?output=values", "Accept: image/png\r\n", "", 422, "output", "overlay"},
    {"/explain?class=top6", "", "", 422, "class", CLASSES_10},
    {"/explain?class=", "", "", 422, "class", CLASSES_10},
    {"/explain?class=10", "", "", 422, "class", CLASSES_10},
    {"/explain?class=3&model=tiny", "", "", 422, "class", "0 ... 2, top1, top2, top3"},
    {"/explain?class=3", "", "model=tiny", 422, "class", "0 ... 2, top1, top2, top3"},
    {"/explain?method=", "", "", 422, "method", NULL},
    {"/explain?method=nosuch", "", "", 422, "method", NULL},
    {"/explain?model=", "", "", 422, "model", "default, tiny"},
    {"/explain?model=nosuch", "", "", 404, "model", "default, tiny"},
    {"/explain", "", "model=nosuch", 404, "model", "default, tiny"},
    {"/explain?image_id=", "", "", 422, "image_id", IMAGE_ID},
    {"/explain?image_id=sha256:12", "", "", 422, "image_id", IMAGE_ID},
    {"/explain?deadline_ms=0", "", "", 422, "deadline_ms", NULL},
    {"/explain?method=rollout&nosuch=1", "", "", 422, "nosuch",
     NAMES "head_fusion, discard_ratio, start_layer, protect, residual, compat"},
    {"/predict?class=1", "", "", 422, "class",
     "top, fit, image_size, texts, exif, background, model, image_id, deadline_ms"},
    {"/predict?modle=tiny", "", "", 422, "modle",
     "top, fit, image_size, texts, exif, background, model, image_id, deadline_ms"},
    {"/explain?method=qk_maps&layer=all&head=0&channel=all", "", "", 422, "channel", "at most 512 maps"},
    {"/explain?method=smoothgrad&steps=7", "", "", 422, "steps", "base=integrated_gradients with it"},
    {"/explain?img=1", "", "", 422, "img", NULL},
};

START_TEST(a_parameter_and_what_is_allowed)
{
    expect(vt_served_post(posts[_i].target, posts[_i].headers, posts[_i].fields), posts[_i].target, posts[_i].status,
           posts[_i].param, posts[_i].allowed);
}
END_TEST

/* A name of no letters is no parameter that could be named. */
START_TEST(a_pair_without_a_name)
{
    vt_served_expect(vt_served_post("/explain?=5", "", ""), 400, "bad_request", NULL);
    vt_served_expect(vt_http_call(vt_served.port, "GET", "/labels?=5", "", NULL, 0), 400, "bad_request", NULL);
}
END_TEST

START_TEST(a_form_with_two_pictures)
{
    size_t size;
    char *one = vt_http_form("img", vt_served.picture, vt_served.picture_size, "", &size);
    static const char end[] = "--vitral-test--\r\n";
    static const char second[] =
        "--vitral-test\r\nContent-Disposition: form-data; name=\"image\"; filename=\"b\"\r\n\r\nx\r\n";
    char *two = malloc(size + sizeof second);
    ck_assert_ptr_nonnull(two);
    const size_t keep = size - (sizeof end - 1);
    ck_assert_mem_eq(one + keep, end, sizeof end - 1);
    memcpy(two, one, keep);
    memcpy(two + keep, second, sizeof second - 1);
    memcpy(two + keep + sizeof second - 1, end, sizeof end - 1);
    expect(vt_http_call(vt_served.port, "POST", "/explain", VT_HTTP_FORM, two, size + sizeof second - 1),
           "two pictures", 422, "image", "one picture, in img or image");
    free(one);
    free(two);
}
END_TEST

/* ---- GET, HEAD, DELETE ---- */

static const struct {
    const char *path;
    int status;
} plain[] = {
    {"/methods", 200}, {"/metrics-list", 200}, {"/models", 200}, {"/healthz", 200},      {"/readyz", 200},
    {"/metrics", 200}, {"/openapi.yaml", 200}, {"/", 200},       {"/ui/style.css", 200},
};

START_TEST(no_route_takes_what_it_does_not_know)
{
    char target[128];
    snprintf(target, sizeof target, "%s?nosuch=1", plain[_i].path);
    expect(vt_http_call(vt_served.port, "GET", target, "", NULL, 0), target, 422, "nosuch", "no parameters");
    vt_http_reply reply;
    static const struct {
        const char *verb, *end;
        int status;
    } calls[] = {{"HEAD", "?nosuch=1", 422},
                 {"GET", "", 200},
                 {"HEAD", "", 200},
                 {"GET", "?", 200},
                 {"OPTIONS", "?nosuch=1", 204}};
    for (size_t k = 0; k < VT_COUNT(calls); k++) {
        snprintf(target, sizeof target, "%s%s", plain[_i].path, calls[k].end);
        reply = vt_http_call(vt_served.port, calls[k].verb, target, "", NULL, 0);
        ck_assert_msg(reply.status == calls[k].status, "%s %s: %d", calls[k].verb, target, reply.status);
        vt_http_free(&reply);
    }
}
END_TEST

START_TEST(labels_and_images_refuse_by_name)
{
    static const char id[] = "/images/sha256:0000000000000000000000000000000000000000000000000000000000000000?x=1";
    expect(vt_http_call(vt_served.port, "GET", "/labels?lmit=1", "", NULL, 0), "labels", 422, "lmit",
           "q, model, limit");
    expect(vt_http_call(vt_served.port, "GET", "/labels?limit=0", "", NULL, 0), "labels", 422, "limit", NULL);
    expect(vt_http_call(vt_served.port, "GET", "/labels?limit=1&limit=1", "", NULL, 0), "labels", 422, "limit",
           "limit once");
    expect(vt_http_call(vt_served.port, "GET", "/labels?model=nosuch", "", NULL, 0), "labels", 404, "model",
           "default, tiny");
    expect(vt_http_call(vt_served.port, "GET", "/labels?model=", "", NULL, 0), "labels", 422, "model", "default, tiny");
    expect(vt_http_call(vt_served.port, "GET", "/labels?q=", "", NULL, 0), "labels", 422, "q", NULL);
    expect(vt_http_call(vt_served.port, "GET", id, "", NULL, 0), "image", 422, "x", "no parameters");
    expect(vt_http_call(vt_served.port, "DELETE", id, "", NULL, 0), "forget", 422, "x", "no parameters");
}
END_TEST

/* ---- before the upload ---- */

/* With Expect: 100-continue and no body: what the query decides is said at once, for the model that it names; what a
 * form could still mend is waited for. */
static const struct {
    const char *target, *type;
    int status; /* 100: go on */
    const char *param;
} early[] = {
    {"/explain?model=tiny&class=2", VT_HTTP_FORM, 100, NULL},
    {"/explain?model=tiny&class=3", VT_HTTP_FORM, 422, "class"},
    {"/explain?model=tiny&class=3", "Content-Type: image/jpeg\r\n", 422, "class"},
    {"/explain?model=default&class=3", VT_HTTP_FORM, 100, NULL},
    {"/explain?class=9", "Content-Type: image/jpeg\r\n", 100, NULL}, /* no form: the default model */
    {"/explain?class=10", "Content-Type: image/jpeg\r\n", 422, "class"},
    {"/explain?class=3", VT_HTTP_FORM, 100, NULL}, /* the form may name either model */
    {"/explain?model=nosuch", VT_HTTP_FORM, 404, "model"},
    {"/explain?model=tiny&model=tiny", VT_HTTP_FORM, 422, "model"},
    {"/explain?image_id=sha256:12", VT_HTTP_FORM, 422, "image_id"},
    {"/explain?deadline_ms=0", VT_HTTP_FORM, 422, "deadline_ms"},
    {"/explain?model=tiny&top=4", VT_HTTP_FORM, 422, "top"},
    {"/predict?model=tiny&top=3", VT_HTTP_FORM, 100, NULL},
    {"/predict?model=tiny&top=4", VT_HTTP_FORM, 422, "top"},
    {"/predict?model=tiny&method=rollout", VT_HTTP_FORM, 422, "method"},
    {"/explain?model=tiny&scale=fixed", VT_HTTP_FORM, 100, NULL}, /* the form may bring the ends */
    {"/explain?model=tiny&scale=fixed", "Content-Type: image/jpeg\r\n", 422, "scale_min"},
    {"/explain?model=tiny&method=nosuch", VT_HTTP_FORM, 422, "method"},
    {"/explain?model=tiny&nosuch=1", VT_HTTP_FORM, 422, "nosuch"},
    /* no model is named: what neither could mend, whatever else the form brings */
    {"/explain?nosuch=1", VT_HTTP_FORM, 422, "nosuch"},
    {"/explain?method=nosuch", VT_HTTP_FORM, 422, "method"},
    {"/explain?method=rollout,rollout", VT_HTTP_FORM, 422, "method"},
    {"/explain?class=10", VT_HTTP_FORM, 422, "class"},
    {"/explain?class=0,1,2,3,4,5,6,7,8", VT_HTTP_FORM, 422, "class"},
    {"/explain?alpha=nan", VT_HTTP_FORM, 422, "alpha"},
    {"/explain?alpha=0.1&alpha=0.2", VT_HTTP_FORM, 422, "alpha"},
    {"/explain?metrics=foo", VT_HTTP_FORM, 422, "metrics"},
    {"/explain?mask=1", VT_HTTP_FORM, 422, "mask"},
    {"/explain?precision=bf16", VT_HTTP_FORM, 422, "precision"},
    {"/explain?scale_min=3&scale_max=2", VT_HTTP_FORM, 422, "scale_max"},
    {"/explain?output=values", VT_HTTP_FORM "Accept: image/png\r\n", 422, "output"},
    {"/predict?method=rollout", VT_HTTP_FORM, 422, "method"},
    {"/predict?top=11", VT_HTTP_FORM, 422, "top"},
    /* and what one of them, or more pairs, could */
    {"/predict?top=4", VT_HTTP_FORM, 100, NULL},
    {"/explain?class=9,9", VT_HTTP_FORM, 100, NULL},
    {"/explain?class=cat", VT_HTTP_FORM, 100, NULL},
    {"/explain?head_fusion=max", VT_HTTP_FORM, 100, NULL},
    {"/explain?scale_min=3", VT_HTTP_FORM, 100, NULL},
    {"/explain?metrics=iou", VT_HTTP_FORM, 100, NULL},
    {"/explain?output=values", VT_HTTP_FORM, 100, NULL},
    /* a picture as the whole body, and the name of another */
    {"/explain?image_id=" SOME_ID, "Content-Type: image/jpeg\r\n", 422, "image_id"},
    {"/predict?image_id=" SOME_ID, "", 422, "image_id"},
    {"/explain?image_id=" SOME_ID, VT_HTTP_FORM, 100, NULL},
};

START_TEST(early_refusals_know_the_model)
{
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd, "POST %s HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n%s\r\n",
                 early[_i].target, early[_i].type);
    vt_http_reply reply = vt_http_read(fd, false);
    if (early[_i].status == 100) {
        ck_assert_msg(reply.status == 100, "%s: %d %s", early[_i].target, reply.status, reply.body);
        vt_http_free(&reply);
    } else {
        expect(reply, early[_i].target, early[_i].status, early[_i].param, NULL);
    }
    close(fd);
}
END_TEST

VT_SUITE("refusals", tcase_add_checked_fixture(tc, set_up, tear_down);
         tcase_add_loop_test(tc, a_parameter_and_what_is_allowed, 0, (int)VT_COUNT(posts));
         tcase_add_test(tc, a_pair_without_a_name); tcase_add_test(tc, a_form_with_two_pictures);
         tcase_add_loop_test(tc, no_route_takes_what_it_does_not_know, 0, (int)VT_COUNT(plain));
         tcase_add_test(tc, labels_and_images_refuse_by_name);
         tcase_add_loop_test(tc, early_refusals_know_the_model, 0, (int)VT_COUNT(early)))
