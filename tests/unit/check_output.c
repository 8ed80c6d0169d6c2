/* The collector of maps, notes and warnings. */
#include "engine/explain/base/method.h"
#include "tests/support/suite.h"

#include <string.h>

static const vt_map_spec spec = {
    .layer = 3, .head = 1, .channel = -1, .part = "q", .unit = VT_UNIT_PATCH, .h = 3, .w = 5};

static vt_arena *open_arena(void)
{
    vt_arena *arena;
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)1 << 20, NULL), VT_OK);
    return arena;
}

START_TEST(maps_are_zeroed_and_stamped)
{
    vt_arena *arena = open_arena();
    vt_output out;
    const vt_explainer method = {.name = "mine"};
    const int params = 5;
    float *values;
    vt_map *map;
    memset(vt_arena_alloc(arena, 4096, 1), 0xff, 4096); /* so that zeros are not there by chance */
    vt_arena_rewind(arena, 0);
    ck_assert_int_eq(vt_output_init(&out, arena, 2, NULL), VT_OK);
    out.method = &method;
    out.params = &params;
    ck_assert_int_eq(vt_output_map(&out, &spec, &values, &map, NULL), VT_OK);
    ck_assert_ptr_eq(map, &out.maps[0]);
    ck_assert_ptr_eq(map->values, values);
    ck_assert_ptr_eq(map->method, &method);
    ck_assert_ptr_eq(map->params, &params);
    ck_assert_int_eq(map->layer, 3);
    ck_assert_int_eq(map->head, 1);
    ck_assert_int_eq(map->channel, -1);
    ck_assert_str_eq(map->part, "q");
    for (size_t i = 0; i < 15; i++)
        ck_assert(values[i] == 0.0f);
    ck_assert_int_eq(vt_output_map(&out, &spec, &values, NULL, NULL), VT_OK);
    ck_assert_ptr_ne(out.maps[1].values, out.maps[0].values);
    vt_arena_close(arena);
}
END_TEST

START_TEST(one_map_too_many_is_our_fault)
{
    vt_arena *arena = open_arena();
    vt_output out;
    vt_error err = {0};
    const vt_explainer method = {.name = "mine"};
    float *values = NULL;
    ck_assert_int_eq(vt_output_init(&out, arena, 1, NULL), VT_OK);
    out.method = &method;
    ck_assert_int_eq(vt_output_map(&out, &spec, &values, NULL, NULL), VT_OK);
    float *before = values;
    ck_assert_int_eq(vt_output_map(&out, &spec, &values, NULL, &err), VT_E_INTERNAL);
    ck_assert_msg(strstr(err.msg, "mine"), "%s", err.msg);
    ck_assert_ptr_eq(values, before);
    ck_assert_uint_eq(out.count, 1);
    vt_arena_close(arena);
}
END_TEST

START_TEST(huge_maps_are_refused)
{
    vt_arena *arena = open_arena();
    vt_output out;
    float *values;
    vt_map_spec huge = spec;
    ck_assert_int_eq(vt_output_init(&out, arena, 3, NULL), VT_OK);
    huge.h = SIZE_MAX / 2, huge.w = 4;
    ck_assert_int_eq(vt_output_map(&out, &huge, &values, NULL, NULL), VT_E_NOMEM);
    huge.h = 4096, huge.w = 4096;
    ck_assert_int_eq(vt_output_map(&out, &huge, &values, NULL, NULL), VT_E_NOMEM);
    ck_assert_uint_eq(out.count, 0);
    vt_arena_close(arena);
}
END_TEST

START_TEST(notes_belong_to_the_newest_map)
{
    vt_arena *arena = open_arena();
    vt_output out;
    vt_error err = {0};
    float *values;
    ck_assert_int_eq(vt_output_init(&out, arena, 2, NULL), VT_OK);
    ck_assert_int_eq(vt_output_note(&out, &err, "to nobody"), VT_E_INTERNAL);
    ck_assert_int_eq(vt_output_map(&out, &spec, &values, NULL, NULL), VT_OK);
    ck_assert_int_eq(vt_output_map(&out, &spec, &values, NULL, NULL), VT_OK);
    char word[] = "first";
    ck_assert_int_eq(vt_output_note(&out, NULL, "%s", word), VT_OK);
    memset(word, 'x', 5); /* the note is a copy */
    ck_assert_int_eq(vt_output_note(&out, NULL, "second %d", 2), VT_OK);
    ck_assert_uint_eq(out.maps[0].notes_count, 0);
    ck_assert_uint_eq(out.maps[1].notes_count, 2);
    ck_assert_str_eq(out.maps[1].notes[0], "first");
    ck_assert_str_eq(out.maps[1].notes[1], "second 2");
    vt_arena_close(arena);
}
END_TEST

START_TEST(warnings_grow)
{
    vt_arena *arena = open_arena();
    vt_output out;
    ck_assert_int_eq(vt_output_init(&out, arena, 0, NULL), VT_OK);
    for (int k = 0; k < 100; k++)
        ck_assert_int_eq(vt_output_warn(&out, NULL, "code", "warning %d", k), VT_OK);
    ck_assert_uint_eq(out.warnings_count, 100);
    ck_assert_str_eq(out.warnings[0].detail, "warning 0");
    ck_assert_str_eq(out.warnings[99].detail, "warning 99");
    ck_assert_str_eq(out.warnings[50].code, "code");
    vt_arena_close(arena);
}
END_TEST

VT_SUITE("output", tcase_add_test(tc, maps_are_zeroed_and_stamped); tcase_add_test(tc, one_map_too_many_is_our_fault);
         tcase_add_test(tc, huge_maps_are_refused); tcase_add_test(tc, notes_belong_to_the_newest_map);
         tcase_add_test(tc, warnings_grow))
