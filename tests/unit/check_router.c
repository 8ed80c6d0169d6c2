/* From a raw request target to a route: decoding, queries, paths that try to climb, verbs. */
#include "server/http/ids.h"
#include "server/http/router.h"
#include "server/http/target.h"
#include "tests/support/suite.h"

#include <string.h>

static const vts_route routes[] = {
    {.id = "explain", .verb = VTS_POST, .path = "/explain"},
    {.id = "methods", .verb = VTS_GET, .path = "/methods"},
    {.id = "image", .verb = VTS_GET, .path = "/images/{id}"},
    {.id = "forget", .verb = VTS_DELETE, .path = "/images/{id}"},
    {.id = "page", .verb = VTS_GET, .path = "/"},
    {.id = "ui", .verb = VTS_GET, .path = "/ui/{file}"},
};

static const struct {
    const char *verb, *path;
    vts_found found;
    const char *id, *rest, *allow;
} finds[] = {
    {"POST", "/explain", VTS_FOUND, "explain", "", "POST, OPTIONS"},
    {"GET", "/explain", VTS_FOUND_PATH, NULL, "", "POST, OPTIONS"},
    {"HEAD", "/explain", VTS_FOUND_PATH, NULL, "", "POST, OPTIONS"},
    {"HEAD", "/methods", VTS_FOUND, "methods", "", "GET, HEAD, OPTIONS"},
    {"post", "/explain", VTS_FOUND_PATH, NULL, "", "POST, OPTIONS"},
    {"BREW", "/methods", VTS_FOUND_PATH, NULL, "", "GET, HEAD, OPTIONS"},
    {"GET", "/images/sha256:ab", VTS_FOUND, "image", "sha256:ab", "GET, HEAD, DELETE, OPTIONS"},
    {"DELETE", "/images/x", VTS_FOUND, "forget", "x", "GET, HEAD, DELETE, OPTIONS"},
    {"PUT", "/images/x", VTS_FOUND_PATH, NULL, "", "GET, HEAD, DELETE, OPTIONS"},
    {"GET", "/images/", VTS_FOUND_NOTHING, NULL, "", ""},
    {"GET", "/images", VTS_FOUND_NOTHING, NULL, "", ""},
    {"GET", "/", VTS_FOUND, "page", "", "GET, HEAD, OPTIONS"},
    {"GET", "/ui/samples/cat.jpg", VTS_FOUND, "ui", "samples/cat.jpg", "GET, HEAD, OPTIONS"},
    {"GET", "/methods/", VTS_FOUND_NOTHING, NULL, "", ""},
    {"GET", "//methods", VTS_FOUND_NOTHING, NULL, "", ""},
    {"GET", "/Methods", VTS_FOUND_NOTHING, NULL, "", ""},
    {"GET", "", VTS_FOUND_NOTHING, NULL, "", ""},
    {"GET", "*", VTS_FOUND_NOTHING, NULL, "", ""},
};

START_TEST(finds_routes)
{
    const vts_route *route;
    const char *rest;
    char allow[VTS_ALLOW_MAX];
    const vts_found found =
        vts_router_find(routes, VT_COUNT(routes), finds[_i].verb, finds[_i].path, &route, &rest, allow);
    ck_assert_msg(found == finds[_i].found, "%s %s: %d, expected %d", finds[_i].verb, finds[_i].path, (int)found,
                  (int)finds[_i].found);
    if (finds[_i].id)
        ck_assert_str_eq(route->id, finds[_i].id);
    else
        ck_assert_ptr_null(route);
    ck_assert_str_eq(rest, finds[_i].rest);
    ck_assert_str_eq(allow, finds[_i].allow);
}
END_TEST

static const struct {
    const char *raw, *path, *pairs; /* pairs: "a=1|b=2|"; NULL: a fault */
    bool no_path;
} targets[] = {
    {"/explain", "/explain", "", false},
    {"/explain?method=rollout&class=3", "/explain", "method=rollout|class=3|", false},
    {"/explain?&&method=rollout&", "/explain", "method=rollout|", false},
    {"/explain?a", "/explain", "a=|", false},
    {"/explain?a=", "/explain", "a=|", false},
    {"/explain?=1", "/explain", NULL, false}, /* no parameter that an answer could name */
    {"/explain?a=b=c", "/explain", "a=b=c|", false},
    {"/explain?a=1+2%2B3%26", "/explain", "a=1 2+3&|", false},
    {"/explain?cl%61ss=r%C3%B6t", "/explain", "class=r\xc3\xb6t|", false},
    {"/%65xplain?", "/explain", "", false},
    {"/a+b", "/a+b", "", false},
    {"http://host:1/explain?x=1", "/explain", "x=1|", false},
    {"http://host", "/", "", false},
    {"http://host?x=1", "/", "x=1|", false},
    {"/x?u=http://y/z", "/x", "u=http://y/z|", false},
    {"*", "*", "", false},
    {"host:443", "host:443", "", false},
    {"/..%2f..%2fetc%2fpasswd", "/../../etc/passwd", "", false},
    {"/healthz%00x", NULL, NULL, true},
    {"/%zz", NULL, NULL, true},
    {"/%c0%ae", NULL, NULL, true},
    {"/x#y", NULL, NULL, true},
    {"/explain?method=rollout%00x", "/explain", NULL, false},
    {"/explain?%00=1", "/explain", NULL, false},
    {"/explain?a=%4", "/explain", NULL, false},
    {"/explain?a=%", "/explain", NULL, false},
    {"/explain?a=%gg", "/explain", NULL, false},
    {"/explain?a=%ff", "/explain", NULL, false},
    {"/explain?a=%ed%a0%80", "/explain", NULL, false}, /* a surrogate */
    {"/explain?a=%e0%80%af", "/explain", NULL, false}, /* overlong */
};

START_TEST(decodes_targets)
{
    vts_target t;
    char got[256] = "";
    ck_assert(vts_target_parse(&t, targets[_i].raw));
    ck_assert_msg((t.fault == NULL) == (targets[_i].pairs != NULL), "%s: %s", targets[_i].raw,
                  t.fault ? t.fault : "no fault");
    ck_assert_int_eq(t.no_path, targets[_i].no_path);
    if (targets[_i].path)
        ck_assert_str_eq(t.path, targets[_i].path);
    for (size_t k = 0; k < t.pairs_count && targets[_i].pairs; k++) {
        strcat(got, t.pairs[k].name), strcat(got, "="), strcat(got, t.pairs[k].value), strcat(got, "|");
    }
    if (targets[_i].pairs)
        ck_assert_str_eq(got, targets[_i].pairs);
    vts_target_close(&t);
}
END_TEST

START_TEST(too_many_pairs)
{
    char raw[2 + 4 * (VTS_PAIRS_MAX + 1) + 1] = "/?";
    vts_target t;
    for (int k = 0; k < VTS_PAIRS_MAX; k++)
        strcat(raw, "a=1&");
    ck_assert(vts_target_parse(&t, raw));
    ck_assert_msg(!t.fault && t.pairs_count == VTS_PAIRS_MAX, "%s", t.fault ? t.fault : "pairs are missing");
    vts_target_close(&t);
    strcat(raw, "a=1&");
    ck_assert(vts_target_parse(&t, raw));
    ck_assert_ptr_nonnull(t.fault);
    vts_target_close(&t);
}
END_TEST

START_TEST(request_ids)
{
    char a[VTS_MADE_ID + 1], b[VTS_MADE_ID + 1], long_id[66];
    vts_id_make(a), vts_id_make(b);
    ck_assert_uint_eq(strlen(a), VTS_MADE_ID);
    ck_assert_str_ne(a, b);
    ck_assert_msg(strncmp(a, b, 10) <= 0, "ids go back in time: %s, %s", a, b);
    ck_assert(vts_id_acceptable(a) && vts_id_acceptable("a-Z-9"));
    ck_assert(!vts_id_acceptable("") && !vts_id_acceptable("a b") && !vts_id_acceptable("a\"b") &&
              !vts_id_acceptable("\xc3\xb6"));
    memset(long_id, 'x', sizeof long_id), long_id[65] = '\0';
    ck_assert(!vts_id_acceptable(long_id));
    ck_assert(vts_id_acceptable(long_id + 1));
    ck_assert(vts_traceparent_valid("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    ck_assert(!vts_traceparent_valid("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
    ck_assert(!vts_traceparent_valid("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
    ck_assert(!vts_traceparent_valid("00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    ck_assert(!vts_traceparent_valid("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"));
    ck_assert(!vts_traceparent_valid("") && !vts_traceparent_valid("00-4bf9"));
    ck_assert(!vts_traceparent_valid("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"));
    ck_assert(!vts_traceparent_valid("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    ck_assert(vts_traceparent_valid("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    ck_assert(vts_traceparent_valid("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"));
    ck_assert(!vts_traceparent_valid("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more"));
}
END_TEST

VT_SUITE("router", tcase_add_loop_test(tc, finds_routes, 0, VT_COUNT(finds));
         tcase_add_loop_test(tc, decodes_targets, 0, VT_COUNT(targets)); tcase_add_test(tc, too_many_pairs);
         tcase_add_test(tc, request_ids))
