/* The byte budget of uploads: a budget of one largest body takes every body of that size, however it is divided and however
 * its length was announced; more is refused; what is counted goes back. */
#include "server/http/upload.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_size_t used;
static uint8_t data[300000];

/* A form of a picture and a mask with so many bytes each (0: without that part); its length. */
static size_t make_form(uint8_t **out, size_t picture, size_t mask)
{
    static const char *const names[] = {"img", "mask"};
    const size_t sizes[] = {picture, mask};
    char *form = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&form, &size);
    for (size_t k = 0; k < 2; k++)
        if (sizes[k]) {
            fprintf(to, "--b\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"x\"\r\n\r\n", names[k]);
            fwrite(data, 1, sizes[k], to);
            fprintf(to, "\r\n");
        }
    fprintf(to, "--b--\r\n");
    fclose(to);
    *out = (uint8_t *)form;
    return size;
}

/* Is it taken in pieces under this budget? Never is more counted than the budget has or the body may have. */
static bool taken(vts_upload *up, const char *boundary, const uint8_t *body, size_t size, size_t piece,
                  size_t announced, size_t most, size_t budget)
{
    bool good = vts_upload_open(up, boundary, announced, most, (vts_budget){&used, budget});
    ck_assert(good);
    for (size_t at = 0; at < size && good; at += piece) {
        good = vts_upload_feed(up, body + at, size - at < piece ? size - at : piece);
        ck_assert_msg(atomic_load(&used) <= budget && up->counted <= most,
                      "%zu bytes are counted, %zu of this body of %zu", atomic_load(&used), up->counted, most);
    }
    return good && vts_upload_finish(up);
}

static const size_t pairs[][2] = {{1, 1},          {100, 65536}, {65536, 65536},   {65537, 100},
                                  {299999, 1},     {1, 299999},  {150000, 150000}, {100000, 200000},
                                  {200000, 70000}, {300000, 0},  {70000, 0}};
static const size_t pieces[] = {1000, 65536, 1000000};

START_TEST(a_budget_of_one_body_takes_it)
{
    static vts_upload up;
    uint8_t *form;
    const size_t picture = pairs[_i][0], mask = pairs[_i][1];
    for (size_t k = 0; k < sizeof data; k++)
        data[k] = (uint8_t)((uint32_t)k * 2654435761u >> 24);
    const size_t size = make_form(&form, picture, mask);
    for (size_t k = 0; k < 2 * VT_COUNT(pieces); k++) {
        const size_t announced = k % 2 ? size : 0; /* 0: chunked, where the limit of a body is all that is known */
        ck_assert_msg(taken(&up, "b", form, size, pieces[k / 2], announced, size, size),
                      "%zu + %zu in pieces of %zu: %s", picture, mask, pieces[k / 2], up.err.msg);
        ck_assert_uint_eq(up.picture.size, picture);
        ck_assert_uint_eq(up.mask.size, mask);
        ck_assert_mem_eq(up.picture.data, data, picture);
        ck_assert(mask == 0 || memcmp(up.mask.data, data, mask) == 0);
        vts_upload_close(&up);
        ck_assert_uint_eq(atomic_load(&used), 0);
        if (mask == 0) { /* as the whole body */
            ck_assert(taken(&up, NULL, data, picture, pieces[k / 2], k % 2 ? picture : 0, picture, picture));
            vts_upload_close(&up);
            ck_assert_uint_eq(atomic_load(&used), 0);
        }
    }
    free(form);
}
END_TEST

/* Two at once share the budget; what was given up is there for the next. */
START_TEST(a_budget_is_shared)
{
    static vts_upload first, second;
    const size_t budget = 250000;
    ck_assert(taken(&first, NULL, data, 150000, 10000, 150000, 150000, budget));
    ck_assert_uint_eq(atomic_load(&used), 150000);
    ck_assert(!taken(&second, NULL, data, 150000, 10000, 150000, 150000, budget));
    ck_assert_int_eq(second.problem, VTS_P_MEMORY_FULL);
    vts_upload_close(&second);
    ck_assert_uint_eq(atomic_load(&used), 150000);
    vts_upload_close(&first);
    ck_assert(taken(&second, NULL, data, 150000, 10000, 150000, 150000, budget));
    vts_upload_close(&second);
    ck_assert_uint_eq(atomic_load(&used), 0);
}
END_TEST

/* A file that nobody reads is named; a name that does not fit says so. */
START_TEST(long_names_of_files)
{
    static vts_upload up;
    char name[200], body[512];
    for (size_t n = 60; n < 70; n++) {
        memset(name, 'a', n - 2);
        memcpy(name + n - 2, "\xc3\xa9", 3);
        const int size =
            snprintf(body, sizeof body,
                     "--b\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"x\"\r\n\r\nx\r\n--b--", name);
        ck_assert(taken(&up, "b", (const uint8_t *)body, (size_t)size, 100, 0, sizeof body, sizeof body));
        if (n < sizeof up.foreign) {
            ck_assert_str_eq(up.foreign, name);
        } else {
            memcpy(name + sizeof up.foreign - 4, "...", 4);
            ck_assert_str_eq(up.foreign, name);
        }
        vts_upload_close(&up);
    }
}
END_TEST

VT_SUITE("upload", tcase_add_loop_test(tc, a_budget_of_one_body_takes_it, 0, VT_COUNT(pairs));
         tcase_add_test(tc, a_budget_is_shared); tcase_add_test(tc, long_names_of_files))
