/* The form field `mask`: with a picture and with the name of one, refusals, and what is kept in memory. */
#include "tests/support/http_service.h"
#include "tests/support/label_png.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { W = 451, H = 300 }; /* of the picture that is served */

typedef struct part {
    const char *field;
    const void *data;
    size_t size;
} part;

/* A form of files; parts end with a field NULL. */
static vt_http_reply post(const char *target, const part *parts)
{
    char *form = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&form, &size);
    ck_assert_ptr_nonnull(to);
    for (; parts->field; parts++) {
        fprintf(to, "--vitral-test\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"x\"\r\n\r\n",
                parts->field);
        fwrite(parts->data, 1, parts->size, to);
        fputs("\r\n", to);
    }
    fputs("--vitral-test--\r\n", to);
    ck_assert_int_eq(fclose(to), 0);
    vt_http_reply reply = vt_http_call(vt_served.port, "POST", target, VT_HTTP_FORM, form, size);
    free(form);
    return reply;
}

static uint8_t *masks[2];
static size_t sizes[2];

static void setup(void)
{
    vt_served_set_up();
    masks[0] = vt_test_box_png(W, H, 100, 50, 300, 250, &sizes[0]);
    masks[1] = vt_test_box_png(W, H, 100, 50, 300, 251, &sizes[1]);
}

static void teardown(void)
{
    free(masks[0]);
    free(masks[1]);
    vt_served_tear_down();
}

#define PICTURE                                                                                                        \
    {                                                                                                                  \
        "img", vt_served.picture, vt_served.picture_size                                                               \
    }
#define MASK(k)                                                                                                        \
    {                                                                                                                  \
        "mask", masks[k], sizes[k]                                                                                     \
    }
#define TARGET "/explain?method=rollout&output=values&metrics=iou,mass_in_mask,pointing,ap"

/* The first map's metric and whether the answer came from memory; frees the reply. */
static double metric(vt_http_reply reply, const char *name, bool *cached, char id[80])
{
    ck_assert_msg(reply.status == 200, "%d: %s", reply.status, reply.body);
    json_t *root = vt_served_json(&reply);
    const json_t *map = json_array_get(json_object_get(root, "maps"), 0);
    const json_t *value = json_object_get(json_object_get(map, "metrics"), name);
    ck_assert_msg(json_is_real(value), "%s in %s", name, reply.body);
    const double got = json_real_value(value);
    *cached = json_is_true(json_object_get(root, "cached"));
    if (id)
        snprintf(id, 80, "%s", json_string_value(json_object_get(json_object_get(root, "image"), "id")));
    const json_t *params = json_object_get(map, "params");
    ck_assert(json_integer_value(json_object_get(params, "pointing.tolerance")) == 15);
    ck_assert(json_is_real(json_object_get(params, "iou.threshold")));
    json_decref(root);
    vt_http_free(&reply);
    return got;
}

START_TEST(answers_are_kept_by_mask)
{
    const part first[] = {PICTURE, MASK(0), {NULL, NULL, 0}}, second[] = {MASK(1), PICTURE, {NULL, NULL, 0}};
    const part mask_only[] = {MASK(0), {NULL, NULL, 0}};
    bool cached;
    char id[80], target[256];
    const double a = metric(post(TARGET, first), "mass_in_mask", &cached, id);
    ck_assert(!cached && a > 0.0 && a < 1.0);
    ck_assert(metric(post(TARGET, first), "mass_in_mask", &cached, NULL) == a && cached);
    const double b = metric(post(TARGET, second), "mass_in_mask", &cached, NULL);
    ck_assert_msg(!cached && b > a, "one row more, and %g after %g", b, a);
    /* by name: the same request is the same answer, another threshold is not */
    snprintf(target, sizeof target, TARGET "&image_id=%s", id);
    ck_assert(metric(post(target, mask_only), "mass_in_mask", &cached, NULL) == a && cached);
    snprintf(target, sizeof target, TARGET "&iou.threshold=0.4&image_id=%s", id);
    ck_assert(metric(post(target, mask_only), "mass_in_mask", &cached, NULL) == a && !cached);
    /* without a mask, the same picture is another request again */
    vt_http_reply plain = vt_served_post("/explain?method=rollout&output=values", "", "");
    ck_assert_int_eq(plain.status, 200);
    ck_assert(!strstr(plain.body, "mass_in_mask") && strstr(plain.body, "\"cached\":false"));
    vt_http_free(&plain);
}
END_TEST

START_TEST(refusals)
{
    const uint8_t head[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D',
                            'R',  0,   0,   100, 0,    0,    0,    100,  0, 8, 0, 0,  0,   0}; /* 25,600 x 25,600 */
    uint8_t huge[sizeof head + 4];
    const uint32_t sum = (uint32_t)crc32(0, head + 12, sizeof head - 12);
    memcpy(huge, head, sizeof head);
    for (int k = 0; k < 4; k++)
        huge[sizeof head + (size_t)k] = (uint8_t)(sum >> (24 - 8 * k));
    size_t turned_size;
    uint8_t *turned = vt_test_box_png(H, W, 0, 0, 10, 10, &turned_size);
    const struct {
        const char *target;
        part parts[4];
        int status;
        const char *code, *param, *says;
    } cases[] = {
        {TARGET, {PICTURE, {"mask", turned, turned_size}}, 422, "invalid_parameter", "mask", "300 x 451"},
        {TARGET,
         {PICTURE, {"mask", vt_served.picture, vt_served.picture_size}},
         415,
         "format_not_supported",
         "mask",
         "JPEG"},
        {TARGET, {PICTURE, {"mask", "", 0}}, 400, "image_empty", "mask", "mask"},
        {TARGET, {PICTURE, {"mask", masks[0], sizes[0] - 30}}, 400, "image_truncated", "mask", "mask"},
        {TARGET, {PICTURE, {"mask", masks[0], 3}}, 415, "format_not_supported", "mask", "mask"},
        {TARGET, {PICTURE, {"mask", huge, sizeof huge}}, 413, "image_too_large", "mask", "\"limit\":"},
        {TARGET, {PICTURE, MASK(0), MASK(1)}, 422, "invalid_parameter", "mask", "more than one mask"},
        {TARGET, {PICTURE, MASK(0), PICTURE}, 422, "invalid_parameter", "img", "more than one picture"},
        {TARGET, {MASK(0)}, 400, "image_missing", NULL, "img"},
        {TARGET, {PICTURE}, 422, "invalid_parameter", "metrics", "pointing compares a map with a mask"},
        {"/explain?metrics=gini",
         {PICTURE, MASK(0)},
         422,
         "invalid_parameter",
         "mask",
         "pointing, mass_in_mask, iou, ap"},
        {"/explain", {PICTURE, MASK(0)}, 422, "invalid_parameter", "mask", "nothing that is asked for reads the mask"},
        {"/predict", {PICTURE, MASK(0)}, 422, "invalid_parameter", "mask", "a prediction reads no mask"},
        {"/explain?metrics=iou&iou.threshold=1", {PICTURE, MASK(0)}, 422, "invalid_parameter", "iou.threshold", "< 1"},
        {"/explain?metrics=iou&ap.threshold=1",
         {PICTURE, MASK(0)},
         422,
         "invalid_parameter",
         "ap.threshold",
         "iou.threshold"},
        {TARGET,
         {PICTURE, MASK(0), {"masks", masks[1], sizes[1]}},
         422,
         "invalid_parameter",
         "masks",
         "nothing here reads"},
        {"/explain?mask=x.png", {PICTURE}, 422, "invalid_parameter", "mask", "there is no parameter"},
    };
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        vt_http_reply reply = post(cases[k].target, cases[k].parts);
        ck_assert_msg(strstr(reply.body, cases[k].says), "case %zu: %s", k, reply.body);
        vt_served_expect(reply, cases[k].status, cases[k].code, cases[k].param);
    }
    free(turned);
}
END_TEST

/* A raw body can have no mask: said before it is sent. */
START_TEST(refused_before_the_upload)
{
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd,
                 "POST /explain?metrics=ap HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nExpect: 100-continue\r\n"
                 "Content-Length: 100000\r\n\r\n");
    vt_served_expect(vt_http_read(fd, false), 422, "invalid_parameter", "metrics");
    close(fd);
}
END_TEST

START_TEST(the_list_says_what_needs_a_mask)
{
    static const char *const readers[] = {"pointing", "mass_in_mask", "iou", "ap"};
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/metrics-list", "", NULL, 0);
    json_t *root = vt_served_json(&reply), *row;
    size_t k, found = 0;
    json_array_foreach(root, k, row)
    {
        const bool needs = json_is_true(json_object_get(row, "needs_mask"));
        ck_assert(needs || json_is_false(json_object_get(row, "needs_mask")));
        if (!needs)
            continue;
        ck_assert_uint_lt(found, VT_COUNT(readers));
        ck_assert_str_eq(json_string_value(json_object_get(row, "name")), readers[found++]);
        ck_assert(json_number_value(json_object_get(row, "cost")) == 0.0);
        ck_assert(json_is_false(json_object_get(row, "free")));
        ck_assert_str_eq(json_string_value(json_object_get(row, "better")), "higher");
    }
    ck_assert_uint_eq(found, VT_COUNT(readers));
    json_decref(root);
    vt_http_free(&reply);
}
END_TEST

VT_SUITE("mask_http", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, answers_are_kept_by_mask);
         tcase_add_test(tc, refusals); tcase_add_test(tc, refused_before_the_upload);
         tcase_add_test(tc, the_list_says_what_needs_a_mask))
