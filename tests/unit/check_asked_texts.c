/* Texts as the classes of a request: what is refused and how it is said, and that everything else about classes follows. */
#include "engine/pass/text_tower.h"
#include "engine/run/request.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_clip.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static vt_model *clip, *plain;
static vt_error err;

static void setup(void)
{
    clip = vt_tiny_clip_open(false);
    ck_assert_int_eq(vt_model_open(&plain, NULL, NULL, &err), VT_OK);
}

static void teardown(void)
{
    vt_model_close(clip);
    vt_model_close(plain);
}

/* "name=value&name=value"; the values hold no & and no =. */
static vt_status ask_of(vt_request **out, const vt_model *model, const char *query, unsigned flags)
{
    char *text = strdup(query), *save = NULL;
    vt_pair pairs[8];
    size_t n = 0;
    ck_assert_ptr_nonnull(text);
    for (char *item = strtok_r(text, "&", &save); item; item = strtok_r(NULL, "&", &save)) {
        char *eq = strchr(item, '=');
        ck_assert(eq && n < VT_COUNT(pairs));
        *eq = '\0';
        pairs[n++] = (vt_pair){item, eq + 1};
    }
    err = (vt_error){0};
    const vt_status st = vt_request_open(out, model, NULL, pairs, n, flags, &err);
    free(text);
    return st;
}

static vt_request *ask(const char *query, unsigned flags)
{
    vt_request *rq = NULL;
    ck_assert_msg(ask_of(&rq, clip, query, flags) == VT_OK, "%s: %s", query, err.msg);
    return rq;
}

static const struct {
    const char *query;
    unsigned flags;
    vt_status status;
    const char *param, *says, *allowed;
} refused[] = {
    {"texts=", VT_REQUEST_PREDICT, VT_E_INVALID, "texts", "text 1 of texts is empty", "1 ... 64 texts"},
    {"texts= ", VT_REQUEST_PREDICT, VT_E_INVALID, "texts", "text 1 of texts is empty", "1 ... 64 texts"},
    {"texts=dog|", VT_REQUEST_PREDICT, VT_E_INVALID, "texts", "text 2 of texts is empty", "1 ... 64 texts"},
    {"texts=dog||cat", VT_REQUEST_PREDICT, VT_E_INVALID, "texts", "text 2 of texts is empty", "1 ... 64 texts"},
    {"texts=dog| \t |cat", 0, VT_E_INVALID, "texts", "text 2 of texts is empty", "1 ... 64 texts"},
    {"texts=dog|cat|dog", 0, VT_E_INVALID, "texts", "texts 1 ('dog') and 3 ('dog') are the same", ""},
    {"texts=a dog|A  DOG", 0, VT_E_INVALID, "texts", "are the same to the model", ""},
    {"texts=dog|12345678901", 0, VT_E_INVALID, "texts", "is 13 tokens long", "at most 12 tokens"},
    {"texts=dog|\xFF", 0, VT_E_INVALID, "texts", "UTF-8", ""},
    {"texts=dog&texts=cat", 0, VT_E_INVALID, "texts", "given twice", ""},
    {"texts=dog|cat&class=2", 0, VT_E_CLASS_RANGE, "class", "", ""},
    {"texts=dog|cat&class=dgo", 0, VT_E_INVALID, "class", "dog", ""},
    {"texts=dog|cat&class=top3", 0, VT_E_CLASS_RANGE, "class", "2 classes", ""},
    {"texts=dog|cat&class=dog&versus=dog", 0, VT_E_INVALID, "versus", "zero", ""},
    {"texts=dog|cat&top=3", VT_REQUEST_PREDICT, VT_E_INVALID, "top", "", "2"},
    {"top=1", VT_REQUEST_PREDICT, VT_E_UNSUPPORTED, "model", "give it texts", ""},
    {"method=grad_rollout", 0, VT_E_UNSUPPORTED, "method", "give it texts", ""},
    {"method=text_map", 0, VT_E_UNSUPPORTED, "method", "give it texts", ""},
    {"method=rollout&class=dog", 0, VT_E_UNSUPPORTED, "class", "give it texts", ""},
    {"texts=dog&method=text_map&variant=maskclip", 0, VT_E_INVALID, "variant", "", "last_value"},
};

START_TEST(refusals)
{
    vt_request *rq = NULL;
    const vt_status st = ask_of(&rq, clip, refused[_i].query, refused[_i].flags);
    ck_assert_msg(st == refused[_i].status, "%s: %s, %s", refused[_i].query, vt_status_name(st), err.msg);
    ck_assert_str_eq(err.param, refused[_i].param);
    ck_assert_msg(strstr(err.msg, refused[_i].says) != NULL, "%s", err.msg);
    ck_assert_msg(strstr(err.allowed, refused[_i].allowed) != NULL, "%s", err.allowed);
}
END_TEST

START_TEST(as_many_as_allowed)
{
    char query[1024] = "texts=";
    size_t used = strlen(query);
    vt_request *rq;
    for (int k = 0; k < 65; k++) {
        if (k == 64) {
            rq = ask(query, VT_REQUEST_PREDICT);
            ck_assert_uint_eq(vt_model_get_info(rq->model)->classes, 64);
            ck_assert_int_eq(rq->options.top, 5);
            vt_request_close(rq);
        }
        used += (size_t)snprintf(query + used, sizeof query - used, "%s%c%c", k ? "|" : "", 'a' + k / 9, 'a' + k % 9);
    }
    ck_assert_int_eq(ask_of(&rq, clip, query, VT_REQUEST_PREDICT), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "more than 64 texts") != NULL, "%s", err.msg);
    /* blanks that are no ASCII leave nothing but the marks; what is refused says what would not be */
    ck_assert_int_eq(ask_of(&rq, clip, "texts=a|\xe3\x80\x80\xc2\xa0", VT_REQUEST_PREDICT), VT_E_INVALID);
    ck_assert_str_eq(err.msg, "text 2 of texts is empty");
    ck_assert_int_eq(ask_of(&rq, clip, "texts=a|A", VT_REQUEST_PREDICT), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "the same to the model") && err.allowed[0], "%s", err.msg);
}
END_TEST

/* What is too long for the option is refused by its length, before anybody takes it apart: in time too short for work that
 * grows with the square of it, which 16 KB of marks behind one letter would be. */
START_TEST(by_length_first)
{
    enum { SIZE = 16384 };
    static char query[SIZE + 16];
    vt_request *rq = NULL;
    size_t used = (size_t)snprintf(query, sizeof query, "texts=e");
    for (size_t k = 0; used + 2 <= SIZE; k++, used += 2)
        memcpy(query + used, k % 2 ? "\xCC\xA3" : "\xCC\x81", 2); /* above and below, by turns */
    const int64_t start = vt_now_ns();
    for (int k = 0; k < 100; k++)
        ck_assert_int_eq(ask_of(&rq, clip, query, k % 2 ? VT_REQUEST_PREDICT : 0), VT_E_INVALID);
    ck_assert_int_lt(vt_now_ns() - start, 1000000000);
    ck_assert_str_eq(err.param, "texts");
    ck_assert_msg(strstr(err.msg, "2047 bytes") != NULL, "%s", err.msg);
    query[6 + 2047] = 0; /* the longest that is one: now it is the model that does not read so many tokens */
    ck_assert_int_eq(ask_of(&rq, clip, query, VT_REQUEST_PREDICT), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "tokens long") != NULL, "%s", err.msg);
}
END_TEST

/* The part that is too much is named: the texts' only where the picture alone would be admitted. */
START_TEST(the_cost_of_texts)
{
    const vt_pair pairs[] = {{"texts", "dog|cat|re|a|b|c"}, {"method", "grad_rollout"}, {"image_size", "16"}};
    vt_limits limits = vt_limits_default;
    vt_request *rq = NULL;
    ck_assert_int_eq(vt_request_open(&rq, clip, &limits, pairs, 1, VT_REQUEST_PREDICT, &err), VT_OK);
    const double all = vt_request_cost(rq);
    vt_request_close(rq);
    ck_assert_double_gt(all, 1.1);
    limits.cost_max = 1.0;
    ck_assert_int_eq(vt_request_open(&rq, clip, &limits, pairs, 1, VT_REQUEST_PREDICT, &err), VT_E_TOO_COSTLY);
    ck_assert_str_eq(err.param, "texts");
    char want[96];
    snprintf(want, sizeof want, "this request costs %.2f forward passes, %.2f of them for its texts", all, all - 1.0);
    ck_assert_str_eq(err.msg, want);
    ck_assert_str_eq(err.allowed, "at most 1 forward passes");
    ck_assert_int_eq(vt_request_open(&rq, clip, &limits, pairs, 2, 0, &err), VT_E_TOO_COSTLY); /* a backward: no */
    ck_assert_str_eq(err.param, "method");
    ck_assert_msg(strstr(err.msg, ", most of them for grad_rollout") != NULL, "%s", err.msg);
    const vt_pair large[] = {pairs[0], pairs[2]};
    ck_assert_int_eq(vt_request_open(&rq, clip, &limits, large, 2, VT_REQUEST_PREDICT, &err), VT_E_TOO_COSTLY);
    ck_assert_str_eq(err.param, "image_size");
    const char *end = " forward passes of the model's own input size"; /* and no method after it */
    ck_assert_msg(strlen(err.msg) > strlen(end) && strcmp(err.msg + strlen(err.msg) - strlen(end), end) == 0, "%s",
                  err.msg);
}
END_TEST

/* Memory for texts is counted where there are some, and then it is enough (check_text_tower). */
START_TEST(the_memory_of_texts)
{
    vt_request *with = ask("method=rollout&texts=dog|cat", 0), *without = ask("method=rollout", 0);
    const size_t texts = vt_request_bytes(with, 64) - vt_request_bytes(without, 64);
    const size_t classes = 2 * (4 * sizeof(double) + sizeof(float)); /* their ranking and scores */
    vt_request_close(with);
    vt_request_close(without);
    ck_assert_uint_eq(texts, vt_model_fill_texts_bytes(vt_model_get_info(clip)) + classes);
}
END_TEST

/* 64 texts take as long as many pictures: a picture that is none is refused before them. */
static void spoil(vt_test_tensors *list)
{
    vt_test_tensors_find(list, "text_model.embeddings.token_embedding.weight")->values[513 * VT_TINY_CLIP_WIDTH] =
        (float)NAN; /* dog</w> */
}

START_TEST(pictures_come_first)
{
    char folder[VT_TINY_CLIP_FOLDER];
    const vt_result *result;
    vt_request *rq = NULL;
    vt_model *model = NULL;
    vt_arena *arena;
    size_t size;
    uint8_t *cat = vt_test_read("static/samples/cat.jpg", &size);
    ck_assert_ptr_nonnull(cat);
    vt_tiny_clip_folder(folder, false, spoil);
    ck_assert_msg(vt_model_open(&model, folder, NULL, &err) == VT_OK, "%s", err.msg);
    vt_tiny_clip_remove(folder);
    ck_assert_msg(ask_of(&rq, model, "texts=cat|dog", VT_REQUEST_PREDICT) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, 64u << 20, &err), VT_OK);
    ck_assert_int_eq(vt_run(rq, cat, size, arena, NULL, &result, &err), VT_E_INTERNAL); /* the texts are at fault */
    ck_assert_msg(strstr(err.msg, "not finite") != NULL, "%s", err.msg);
    vt_arena_reset(arena, SIZE_MAX);
    ck_assert_int_eq(vt_run(rq, (const uint8_t *)"GIF89a", 6, arena, NULL, &result, &err), VT_E_IMAGE_FORMAT);
    vt_arena_close(arena);
    vt_request_close(rq);
    vt_model_close(model);
    free(cat);
}
END_TEST

/* Only where they can be served, and the reason is said. */
START_TEST(other_models)
{
    char folder[VT_TINY_CLIP_FOLDER];
    vt_request *rq;
    vt_model *mute = NULL;
    ck_assert_int_eq(ask_of(&rq, plain, "texts=dog|cat", 0), VT_E_UNSUPPORTED);
    ck_assert_str_eq(err.param, "texts");
    ck_assert_msg(strstr(err.msg, "no CLIP") != NULL, "%s", err.msg);
    ck_assert_int_eq(ask_of(&rq, plain, "method=text_map", 0), VT_E_UNSUPPORTED);
    ck_assert_msg(strstr(err.msg, "no CLIP") != NULL, "%s", err.msg);

    vt_tiny_clip_folder(folder, false, NULL);
    vt_tiny_clip_drop(folder, "vocab.json");
    vt_tiny_clip_drop(folder, "merges.txt");
    ck_assert_msg(vt_model_open(&mute, folder, NULL, &err) == VT_OK, "%s", err.msg);
    vt_tiny_clip_remove(folder);
    ck_assert_int_eq(ask_of(&rq, mute, "texts=dog|cat", VT_REQUEST_PREDICT), VT_E_UNSUPPORTED);
    ck_assert_msg(strstr(err.msg, "there is no tokenizer beside its weights") != NULL, "%s", err.msg);
    ck_assert_int_eq(ask_of(&rq, mute, "top=1", VT_REQUEST_PREDICT),
                     VT_E_UNSUPPORTED); /* the same reason, not "no head" */
    ck_assert_msg(strstr(err.msg, "there is no tokenizer beside its weights") != NULL, "%s", err.msg);
    ck_assert_int_eq(ask_of(&rq, mute, "method=text_map", 0), VT_E_UNSUPPORTED);
    ck_assert_msg(strstr(err.msg, "there is no tokenizer beside its weights") != NULL, "%s", err.msg);
    ck_assert_int_eq(ask_of(&rq, mute, "method=rollout", 0), VT_OK); /* what needs no class goes on */
    vt_request_close(rq);
    vt_model_close(mute);
}
END_TEST

/* Form fields come one by one: what a later one may mend is not refused. */
START_TEST(texts_that_may_come)
{
    vt_request *rq = NULL;
    static const char *const fine[] = {"method=grad_rollout&class=dog", "class=7&top=6", "method=text_map", "top=64"};
    for (size_t k = 0; k < VT_COUNT(fine); k++) {
        ck_assert_msg(ask_of(&rq, clip, fine[k], VT_REQUEST_PARTIAL) == VT_OK, "%s: %s", fine[k], err.msg);
        vt_request_close(rq);
    }
    ck_assert_int_eq(ask_of(&rq, clip, "top=2", VT_REQUEST_PARTIAL | VT_REQUEST_PREDICT), VT_OK);
    vt_request_close(rq);
    ck_assert_int_eq(ask_of(&rq, clip, "top=65", VT_REQUEST_PARTIAL), VT_E_INVALID);
    ck_assert_int_eq(ask_of(&rq, clip, "texts=dog|dog", VT_REQUEST_PARTIAL), VT_E_INVALID);
    ck_assert_int_eq(ask_of(&rq, clip, "texts=dog|cat&class=2", VT_REQUEST_PARTIAL), VT_E_CLASS_RANGE);
    ck_assert_int_eq(ask_of(&rq, plain, "top=11", VT_REQUEST_PARTIAL), VT_E_INVALID); /* other models as before */
}
END_TEST

/* Blanks around a text mean nothing; its letters, and the order of the texts, do: labels are shown as they were given. */
START_TEST(what_is_the_same_request)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"texts=dog|cat", "texts= dog |\tcat", true},
        {"texts=dog|cat", "texts=cat|dog", false},
        {"texts=dog|cat", "texts=Dog|cat", false},
        {"texts=dog|cat", "texts=dog|cat|a", false},
        {"texts=dog|cat&class=0", "class=dog&texts=dog|cat", true},
    };
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        vt_request *a = ask(cases[k].a, 0), *b = ask(cases[k].b, 0);
        ck_assert_int_eq(strcmp(vt_request_canonical(a), vt_request_canonical(b)) == 0, cases[k].same);
        vt_request_close(a);
        vt_request_close(b);
    }
}
END_TEST

/* Texts are read before the picture: that is part of the price, and of the memory. */
START_TEST(price)
{
    vt_request *one = ask("texts=dog&method=rollout", 0), *two = ask("texts=dog|a cat&method=rollout", 0),
               *none = ask("method=rollout", 0);
    ck_assert_double_gt(vt_request_cost(one), vt_request_cost(none));
    ck_assert_double_gt(vt_request_cost(two), vt_request_cost(one));
    ck_assert_double_eq(vt_request_cost(none), 1.0);
    vt_request_close(one);
    vt_request_close(two);
    vt_request_close(none);
}
END_TEST

/* An input size of its own and texts go together. */
START_TEST(with_an_image_size)
{
    vt_request *rq = ask("texts=dog|cat&image_size=16x12&class=cat&versus=dog", 0);
    const vt_model_info *info = vt_model_get_info(rq->model);
    ck_assert(info->classes == 2 && info->image_h == 16 && info->image_w == 12 && rq->resized);
    ck_assert(rq->targets_count == 1 && rq->targets[0].index == 1 && rq->versus == 0);
    float input[3 * 16 * 12];
    vt_arena *arena;
    const vt_result *result;
    vt_test_fill(input, VT_COUNT(input), 5);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), &err), VT_OK);
    ck_assert_msg(vt_run_input(rq, input, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    ck_assert(result->maps_count == 1 && result->maps[0].h == 4 && result->maps[0].w == 3);
    ck_assert_str_eq(result->maps[0].target.label, "cat");
    ck_assert_str_eq(result->maps[0].versus.label, "dog");
    ck_assert_double_eq_tol(result->predictions[0].probability + result->predictions[1].probability, 1.0, 1e-9);
    vt_arena_close(arena);
    vt_request_close(rq);
}
END_TEST

VT_SUITE("asked_texts", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, refusals, 0, (int)VT_COUNT(refused)); tcase_add_test(tc, as_many_as_allowed);
         tcase_add_test(tc, other_models); tcase_add_test(tc, texts_that_may_come);
         tcase_add_test(tc, what_is_the_same_request); tcase_add_test(tc, price);
         tcase_add_test(tc, with_an_image_size); tcase_add_test(tc, by_length_first);
         tcase_add_test(tc, the_cost_of_texts); tcase_add_test(tc, the_memory_of_texts);
         tcase_add_test(tc, pictures_come_first))
