/* image_size as a client meets it: maps, pictures and the way back follow it, the cache tells sizes apart, what cannot be
 * is refused with what can. */
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include "server/routes/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- requests ---- */

static json_t *explain(const char *query, const char *fields)
{
    char target[512];
    snprintf(target, sizeof target, "/explain?%s", query);
    vt_http_reply reply = vt_served_post(target, "", fields);
    ck_assert_msg(reply.status == 200, "%s: %d %s", query, reply.status, reply.body);
    json_t *root = vt_served_json(&reply);
    vt_http_free(&reply);
    return root;
}

static long number(const json_t *list, size_t k)
{
    return (long)json_integer_value(json_array_get(list, k));
}

static void expect_list(const json_t *list, size_t count, const long *want, const char *what)
{
    ck_assert_msg(json_array_size(list) == count, "%s has %zu numbers", what, json_array_size(list));
    for (size_t k = 0; k < count; k++)
        ck_assert_msg(number(list, k) == want[k], "%s[%zu] is %ld, not %ld", what, k, number(list, k), want[k]);
}

static void expect_grid(const json_t *root, long h, long w)
{
    const json_t *maps = json_object_get(root, "maps"), *map;
    size_t k;
    ck_assert_uint_gt(json_array_size(maps), 0);
    json_array_foreach(maps, k, map)
    {
        const json_t *values = json_object_get(map, "values");
        expect_list(json_object_get(map, "grid"), 2, (const long[]){h, w}, "grid");
        ck_assert_uint_eq(json_array_size(values), (size_t)h);
        ck_assert_uint_eq(json_array_size(json_array_get(values, 0)), (size_t)w);
    }
}

/* Width and height of the one overlay of an answer of type image/png. */
static void expect_picture(const char *query, unsigned w, unsigned h)
{
    char target[512];
    snprintf(target, sizeof target, "/explain?%s", query);
    vt_http_reply reply = vt_served_post(target, "Accept: image/png\r\n", "");
    ck_assert_msg(reply.status == 200 && reply.size > 24, "%s: %d %s", query, reply.status, reply.body);
    const unsigned char *head = (const unsigned char *)reply.body + 16; /* of IHDR */
    ck_assert_msg(head[2] * 256u + head[3] == w && head[6] * 256u + head[7] == h, "%s: %u x %u", query,
                  head[2] * 256u + head[3], head[6] * 256u + head[7]);
    vt_http_free(&reply);
}

/* The embedded model takes 32 x 32 pixels in patches of 4; the picture has 451 x 300. */
START_TEST(everything_follows_the_size)
{
    json_t *root =
        explain("method=rollout,grad_rollout,cls_attention&layer=-1&head=mean&output=values&image_size=64", "");
    const json_t *transform = json_object_get(json_object_get(root, "image"), "transform");
    const json_t *crop = json_object_get(transform, "crop");
    expect_grid(root, 16, 16);
    ck_assert(number(crop, 2) == 64 && number(crop, 3) == 64);
    json_decref(root);

    root = explain("method=rollout&output=values", "image_size=20x48"); /* a field of the form */
    expect_grid(root, 5, 12);
    crop = json_object_get(json_object_get(json_object_get(root, "image"), "transform"), "crop");
    ck_assert(number(crop, 2) == 48 && number(crop, 3) == 20);
    json_decref(root);

    root = explain("method=gradient&output=values&image_size=20x48", ""); /* a map per pixel */
    expect_grid(root, 20, 48);
    json_decref(root);

    expect_picture("method=rollout&image_size=64x32", 451, 300);
    expect_picture("method=rollout&image_size=64x32&size=model", 32, 64);
    expect_picture("method=rollout&image_size=64x32&size=grid", 8, 16);
    expect_picture("method=gradient&image_size=64x32&size=model", 32, 64);
}
END_TEST

static bool cached(const char *query)
{
    json_t *root = explain(query, "");
    const bool is = json_is_true(json_object_get(root, "cached"));
    json_decref(root);
    return is;
}

START_TEST(the_cache_tells_sizes_apart)
{
    ck_assert(!cached("method=rollout&image_size=64"));
    ck_assert(cached("method=rollout&image_size=64"));
    ck_assert(cached("method=rollout&image_size=64x64"));
    ck_assert(!cached("method=rollout&image_size=64x32"));
    ck_assert(!cached("method=rollout&image_size=32x64"));
    ck_assert(!cached("method=rollout"));
    ck_assert(cached("method=rollout&image_size=32")); /* the model's own */
    ck_assert(cached("method=rollout&image_size=64"));
}
END_TEST

START_TEST(predicts_at_a_size)
{
    double best[2];
    for (size_t k = 0; k < 2; k++) {
        vt_http_reply reply = vt_served_post(k ? "/predict?image_size=48" : "/predict", "", "");
        ck_assert_int_eq(reply.status, 200);
        json_t *root = vt_served_json(&reply);
        best[k] = json_number_value(json_object_get(json_array_get(json_object_get(root, "prediction"), 0), "logit"));
        json_decref(root);
        vt_http_free(&reply);
    }
    ck_assert_msg(best[0] != best[1], "both sizes give %g", best[0]);
}
END_TEST

static const struct {
    const char *query;
    int status;
    const char *code, *allowed;
} refused[] = {
    {"image_size=30", 422, "invalid_parameter", "nearest is 32x32"},
    {"image_size=30x65", 422, "invalid_parameter", "nearest is 32x64"},
    {"image_size=2", 422, "invalid_parameter", "nearest is 4x4"},
    {"image_size=1028", 422, "invalid_parameter", "1024x1024"},
    {"image_size=0", 422, "invalid_parameter", "HxW"},
    {"image_size=64X64", 422, "invalid_parameter", "HxW"},
    {"image_size=64%00", 400, "bad_request", ""},
    {"image_size=", 422, "invalid_parameter", ""},
    {"image_size=64&image_size=64", 422, "invalid_parameter", ""},
    {"image_size=512", 422, "too_expensive", "MB"},
    {"image_size=1024", 422, "too_expensive", "forward passes"},
};

static void expect_refusal(vt_http_reply reply, size_t k)
{
    ck_assert_msg(reply.status == refused[k].status, "%s: %d %s", refused[k].query, reply.status, reply.body);
    json_t *root = vt_served_json(&reply);
    const char *allowed = json_string_value(json_object_get(root, "allowed"));
    ck_assert_str_eq(json_string_value(json_object_get(root, "code")), refused[k].code);
    if (refused[k].status == 422)
        ck_assert_str_eq(json_string_value(json_object_get(root, "param")), "image_size");
    if (refused[k].allowed[0])
        ck_assert_msg(allowed && strstr(allowed, refused[k].allowed), "%s: allowed '%s'", refused[k].query,
                      allowed ? allowed : "");
    json_decref(root);
    vt_http_free(&reply);
}

START_TEST(refuses_with_what_is_allowed)
{
    static const char *const routes[] = {"explain", "predict"};
    for (size_t route = 0; route < (strcmp(refused[_i].code, "too_expensive") == 0 ? 1 : 2); route++) {
        char target[256];
        snprintf(target, sizeof target, "/%s?%s", routes[route], refused[_i].query);
        expect_refusal(vt_served_post(target, "", ""), (size_t)_i);
        expect_refusal(vt_http_call(vt_served.port, "POST", target, "Content-Type: image/jpeg\r\n", vt_served.picture,
                                    vt_served.picture_size),
                       (size_t)_i);
    }
}
END_TEST

/* A token that the model's own grid does not have is no mistake before the form has been read. */
START_TEST(a_form_may_bring_the_size)
{
    const char *query = "method=raw_attention&layer=-1&head=mean&output=values&query=token:200";
    json_t *root = explain(query, "image_size=64");
    expect_grid(root, 16, 16);
    json_decref(root);
    char target[256];
    snprintf(target, sizeof target, "/explain?%s", query);
    vt_served_expect(vt_served_post(target, "", ""), 422, "invalid_parameter", "query");
}
END_TEST

START_TEST(the_host_may_forbid_it)
{
    vt_served.service.limits.image_side_max = 0;
    vt_served_expect(vt_served_post("/explain?image_size=64", "", ""), 422, "invalid_parameter", "image_size");
    json_t *root = explain("method=rollout&output=values&image_size=32", "");
    expect_grid(root, 8, 8);
    json_decref(root);
}
END_TEST

START_TEST(vit_tiny_at_twice_its_size)
{
    SKIP_UNLESS("models/vit_tiny_patch16_224/model.safetensors");
    vts_model_set *set = vts_model_set_new(2);
    vt_error err = {0};
    ck_assert_msg(vt_model_open(&set->models[0], vt_shared("models/vit_tiny_patch16_224"), NULL, &err) == VT_OK, "%s",
                  err.msg);
    set->count = 1;
    ck_assert_int_eq(vts_routes_describe(set, &err), VT_OK);
    vts_models_swap(vt_served.service.models, set);
    json_t *root = explain("method=grad_rollout&output=values,overlay&image_size=448", "");
    const json_t *transform = json_object_get(json_object_get(root, "image"), "transform");
    expect_grid(root, 28, 28);
    /* crop_pct 0.9: the shorter side of 451 x 300 to floor(448 / 0.9) = 497, the longer to int(497 * 451 / 300) = 747;
     * (747 - 448) / 2 = 149.5, halves to even: 150; (497 - 448) / 2 = 24.5: 24 */
    expect_list(json_object_get(transform, "resized"), 2, (const long[]){747, 497}, "resized");
    expect_list(json_object_get(transform, "crop"), 4, (const long[]){150, 24, 448, 448}, "crop");
    json_decref(root);
    expect_picture("method=grad_rollout&image_size=448&size=model", 448, 448);
    expect_picture("method=grad_rollout&image_size=448", 451, 300);
    root = explain("method=grad_rollout&output=values", "");
    expect_grid(root, 14, 14);
    json_decref(root);
}
END_TEST

VT_SUITE("image size", tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_test(tc, everything_follows_the_size); tcase_add_test(tc, the_cache_tells_sizes_apart);
         tcase_add_test(tc, predicts_at_a_size);
         tcase_add_loop_test(tc, refuses_with_what_is_allowed, 0, VT_COUNT(refused));
         tcase_add_test(tc, a_form_may_bring_the_size); tcase_add_test(tc, the_host_may_forbid_it);
         tcase_add_test(tc, vit_tiny_at_twice_its_size))
