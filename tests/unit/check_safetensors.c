/* The safetensors reader: one hand-made file for each rule of the format, and every conversion against arithmetic. */
#include "engine/model/safetensors.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint8_t bytes[1 << 18];

/* Length, header, data; the length may lie. */
static size_t compose(const char *header, uint64_t length, const void *data, size_t data_size)
{
    const size_t n = strlen(header);
    ck_assert(8 + n + data_size <= sizeof bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
    memcpy(bytes + 8, header, n);
    if (data_size)
        memcpy(bytes + 8 + n, data, data_size);
    return 8 + n + data_size;
}

static vt_st_file *opened(const char *header, const void *data, size_t data_size)
{
    vt_error err = {0};
    vt_st_file *file = NULL;
    const size_t size = compose(header, strlen(header), data, data_size);
    ck_assert_msg(vt_st_open_memory(&file, bytes, size, "f", &err) == VT_OK, "%s: %s", header, err.msg);
    return file;
}

START_TEST(reads_names_shapes_and_values)
{
    const float data[7] = {1.0f, -2.0f, 3.5f, 4.0f, 5.0f, 6.0f, 1e-30f};
    vt_error err = {0};
    float out[6];
    vt_st_file *file = opened("{\"z\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                              "\"__metadata__\":{\"format\":\"pt\"},"
                              "\"empty\":{\"dtype\":\"F16\",\"shape\":[0,9],\"data_offsets\":[24,24]},"
                              "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[24,28]}}   ",
                              data, sizeof data);
    ck_assert_uint_eq(vt_st_count(file), 3);
    ck_assert_str_eq(vt_st_at(file, 0)->name, "a"); /* by name */
    ck_assert_str_eq(vt_st_at(file, 2)->name, "z");
    ck_assert_ptr_null(vt_st_at(file, 3));
    ck_assert_ptr_null(vt_st_find(file, "b"));
    const vt_st_tensor *z = vt_st_find(file, "z"), *a = vt_st_find(file, "a"), *empty = vt_st_find(file, "empty");
    ck_assert_uint_eq(z->ndim, 2);
    ck_assert_uint_eq(z->shape[0], 2);
    ck_assert_uint_eq(z->shape[1], 3);
    ck_assert_uint_eq(z->count, 6);
    ck_assert_uint_eq(a->ndim, 0);
    ck_assert_uint_eq(a->count, 1);
    ck_assert_uint_eq(empty->count, 0);
    ck_assert_int_eq(vt_st_floats(z, out, &err), VT_OK);
    ck_assert_mem_eq(out, data, 6 * sizeof *out);
    ck_assert_int_eq(vt_st_floats(a, out, &err), VT_OK);
    ck_assert_mem_eq(out, data + 6, sizeof *out);
    ck_assert_int_eq(vt_st_floats(empty, out, &err), VT_OK);
    vt_st_close(file);
}
END_TEST

/* The value of a half by its definition. */
static double half_value(unsigned bits)
{
    const unsigned exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    return exponent ? sign * ldexp(1024.0 + mantissa, (int)exponent - 25) : sign * ldexp(mantissa, -24);
}

START_TEST(every_half_is_exact)
{
    static uint16_t halves[65536];
    static float out[65536];
    vt_error err = {0};
    char header[128];
    for (unsigned i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    snprintf(header, sizeof header, "{\"h\":{\"dtype\":\"F16\",\"shape\":[65536],\"data_offsets\":[0,131072]}}%*s", _i,
             ""); /* at any alignment */
    vt_st_file *file = opened(header, halves, sizeof halves);
    ck_assert_int_eq(vt_st_floats(vt_st_at(file, 0), out, &err), VT_OK);
    for (unsigned i = 0; i < 65536; i++) {
        const double want = half_value(i);
        if (isnan(want))
            ck_assert_msg(isnan(out[i]), "half %04x gives %g, not NaN", i, (double)out[i]);
        else
            ck_assert_msg((double)out[i] == want && !signbit(out[i]) == !signbit(want),
                          "half %04x gives %.9g, not %.9g", i, (double)out[i], want);
    }
    vt_st_close(file);
}
END_TEST

START_TEST(bfloat_and_double_and_unaligned_float)
{
    vt_error err = {0};
    float out[4];
    const uint16_t brain[4] = {0x3f80, 0xc040, 0x0001, 0x7f80}; /* 1, -3, the least subnormal, infinity */
    vt_st_file *file = opened("{\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}", brain, sizeof brain);
    ck_assert_int_eq(vt_st_floats(vt_st_at(file, 0), out, &err), VT_OK);
    ck_assert(out[0] == 1.0f && out[1] == -3.0f && out[2] == 0x1p-133f && isinf(out[3]) && out[3] > 0.0f);
    vt_st_close(file);

    const double wide[3] = {1.0 / 3.0, -1e300, 1e-50};
    file = opened("{\"d\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]}} ", wide, sizeof wide);
    ck_assert_int_eq(vt_st_floats(vt_st_at(file, 0), out, &err), VT_OK);
    ck_assert(out[0] == (float)(1.0 / 3.0) && isinf(out[1]) && out[1] < 0.0f && out[2] == 0.0f);
    vt_st_close(file);

    const float plain[2] = {0.1f, -7.25f};
    for (int skew = 0; skew < 5; skew++) {
        char header[96];
        snprintf(header, sizeof header, "{\"p\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}%*s", skew,
                 "");
        file = opened(header, plain, sizeof plain);
        ck_assert_int_eq(vt_st_floats(vt_st_at(file, 0), out, &err), VT_OK);
        ck_assert_mem_eq(out, plain, sizeof plain);
        vt_st_close(file);
    }
}
END_TEST

/* Names are printed: what a terminal obeys may not stand in them. The letters beside the controls may. */
START_TEST(control_characters_in_a_name)
{
    static const struct {
        const char *name, *shown; /* shown NULL: a good name */
    } cases[] = {{"a\\u001b[2J", "\"a?[2J\""},
                 {"\\n", "\"?\""},
                 {"a\\u007f", "\"a?\""},
                 {"\\u0080b", "\"?b\""},
                 {"\\u009f", "\"?\""},
                 {"a b~", NULL},
                 {"\\u00a0", NULL},
                 {"\\u00e9", NULL},
                 {"a\xC2\x9B", "\"a?\""},
                 {"\xE4\xB8\xAD", NULL},
                 {"", NULL}};
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        char header[160];
        vt_error err = {0};
        vt_st_file *file = NULL;
        snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                 cases[k].name);
        const size_t size = compose(header, strlen(header), NULL, 0);
        const vt_status st = vt_st_open_memory(&file, bytes, size, "f", &err);
        if (!cases[k].shown) {
            ck_assert_msg(st == VT_OK, "%s: %s", header, err.msg);
            vt_st_close(file);
            continue;
        }
        ck_assert_msg(st == VT_E_BAD_MODEL, "%s: %s", header, err.msg);
        ck_assert_msg(strstr(err.msg, cases[k].shown) && strstr(err.msg, "has a control character in its name"), "%s",
                      err.msg);
        for (const char *c = err.msg; *c; c++)
            ck_assert_msg((unsigned char)*c >= 0x20 && *c != 0x7F, "case %zu: a control is in the message", k);
    }
}
END_TEST

START_TEST(in_place_is_aligned_float)
{
    const float plain[2] = {0.1f, -7.25f};
    for (int skew = 0; skew < 8; skew++) {
        char header[96];
        snprintf(header, sizeof header, "{\"p\":{\"dtype\":\"%s\",\"shape\":[2],\"data_offsets\":[0,8]}}%*s",
                 skew < 4 ? "F32" : "I32", skew % 4, "");
        vt_st_file *file = opened(header, plain, sizeof plain);
        const vt_st_tensor *t = vt_st_at(file, 0);
        const float *values = vt_st_in_place(t);
        ck_assert_msg((values != NULL) == (skew < 4 && (uintptr_t)t->data % 4 == 0), "%s", header);
        if (values)
            ck_assert_mem_eq(values, plain, sizeof plain);
        vt_st_close(file);
    }
}
END_TEST

START_TEST(other_types_are_refused_by_name_when_read)
{
    vt_error err = {0};
    float out[2];
    const uint8_t data[2] = {0, 0};
    vt_st_file *file = opened("{\"odd\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", data, 2);
    ck_assert(!vt_st_is_float(vt_st_at(file, 0)) && !vt_st_is_integer(vt_st_at(file, 0)));
    ck_assert_int_eq(vt_st_floats(vt_st_at(file, 0), out, &err), VT_E_BAD_MODEL);
    ck_assert_msg(strstr(err.msg, "odd") && strstr(err.msg, "F8_E4M3"), "%s", err.msg);
    vt_st_close(file);
    file = opened("{\"count\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[0,2]}}", data, 2);
    ck_assert(vt_st_is_integer(vt_st_at(file, 0)));
    ck_assert_int_eq(vt_st_floats(vt_st_at(file, 0), out, NULL), VT_E_BAD_MODEL);
    vt_st_close(file);
    /* four bits each: 2 values fill a byte, 3 do not */
    file = opened("{\"nibbles\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", data, 2);
    vt_st_close(file);
}
END_TEST

#define T "{\"w\":{\"dtype\":\"F32\",\"shape\":"
static const struct {
    const char *header;
    size_t data;
    const char *says[2];
} refused[] = {
    {T "[2],\"data_offsets\":[0,8]}}", 7, {"\"w\"", "ends at byte 8"}},
    {T "[2],\"data_offsets\":[0,8]}}", 9, {"1 bytes follow", "f:"}},
    {T "[2],\"data_offsets\":[1,9]}}", 9, {"\"w\"", "hole"}},
    {T "[3],\"data_offsets\":[0,8]}}", 8, {"\"w\"", "need 12"}},
    {T "[2.0],\"data_offsets\":[0,8]}}", 8, {"\"w\"", "whole numbers"}},
    {T "[-2],\"data_offsets\":[0,8]}}", 8, {"\"w\"", "whole numbers"}},
    {T "2,\"data_offsets\":[0,8]}}", 8, {"\"w\"", "no shape"}},
    {T "[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8, {"\"w\"", "9 numbers"}},
    {T "[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, {"\"w\"", "64 bits"}},
    {T "[0,4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, {"\"w\"", "64 bits"}},
    {T "[2305843009213693952],\"data_offsets\":[0,0]}}", 0, {"\"w\"", "64 bits"}},
    {T "[9223372036854775808],\"data_offsets\":[0,0]}}", 0, {"header", "JSON"}},
    {T "[2],\"data_offsets\":[8,0]}}", 8, {"\"w\"", "begins after it ends"}},
    {T "[2],\"data_offsets\":[0]}}", 8, {"\"w\"", "data_offsets"}},
    {T "[2],\"data_offsets\":[0,8.0]}}", 8, {"\"w\"", "data_offsets"}},
    {T "[2],\"data_offsets\":[0,\"8\"]}}", 8, {"\"w\"", "data_offsets"}},
    {T "[2]}}", 8, {"\"w\"", "data_offsets"}},
    {"{\"w\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, {"\"w\"", "no dtype"}},
    {"{\"w\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, {"\"w\"", "no dtype"}},
    {"{\"w\":{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, {"\"w\"", "dtype f32"}},
    {"{\"w\":[]}", 0, {"\"w\"", "object"}},
    {"{\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, {"\"w\"", "need 2"}},
    {"{\"__metadata__\":{\"a\":1}}", 0, {"__metadata__", "\"a\""}},
    {"{\"__metadata__\":[]}", 0, {"__metadata__", "object"}},
    {T "[1],\"data_offsets\":[0,4]},\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     {"inside", "tensor"}},
    {T "[1],\"data_offsets\":[0,4]},\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8,
     {"\"w\"", "twice"}},
    {T "[1],\"data_offsets\":[0,4]},\"a-name-that-is-longer-than-twenty-letters\":1,"
       "\"a-name-that-is-longer-than-twenty-letters\":2}",
     4,
     {"\"a-name-that-is-longer-than-twenty-letters\"", "twice"}},
    {"{\"a\\u0000b\":{}}", 0, {"header", "JSON"}},
    {"{\"a\xff\":{}}", 0, {"header", "JSON"}},
    {"{} x", 0, {"header", "JSON"}},
    {"[] ", 0, {"header", "'{'"}},
    {" {}", 0, {"header", "'{'"}},
    {"{\"w\":", 0, {"header", "JSON"}},
};

START_TEST(refuses_each_broken_rule_by_name)
{
    static const uint8_t zeros[64] = {0};
    vt_error err = {0};
    vt_st_file *file = NULL;
    const char *header = refused[_i].header;
    const size_t size = compose(header, strlen(header), zeros, refused[_i].data);
    ck_assert_msg(vt_st_open_memory(&file, bytes, size, "f", &err) == VT_E_BAD_MODEL, "accepted: %s", header);
    ck_assert_ptr_null(file);
    for (size_t k = 0; k < 2; k++)
        ck_assert_msg(strstr(err.msg, refused[_i].says[k]) != NULL, "%s: \"%s\" is not in: %s", header,
                      refused[_i].says[k], err.msg);
}
END_TEST

START_TEST(refuses_lengths_that_lie)
{
    static const struct {
        uint64_t length;
        size_t keep; /* bytes of the file that are left */
    } lies[] = {{0, 40},         {1, 40},  {UINT64_C(1) << 63, 40}, {UINT64_MAX, 40}, {UINT64_MAX - 7, 40},
                {100000001, 40}, {33, 40}, {UINT64_C(2) << 56, 40}, {2, 0},           {2, 7},
                {2, 8},          {2, 9}};
    for (size_t i = 0; i < VT_COUNT(lies); i++) {
        vt_error err = {0};
        vt_st_file *file = NULL;
        compose("{\"w\":{\"dtype\":\"F32\",\"shape\":[0]", lies[i].length, NULL, 0);
        /* a copy of exactly that size, so that a reader that goes on is caught by the sanitizers */
        uint8_t *copy = malloc(lies[i].keep + 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, bytes, lies[i].keep);
        ck_assert_msg(vt_st_open_memory(&file, copy, lies[i].keep, "f", &err) == VT_E_BAD_MODEL, "lie %zu is believed",
                      i);
        free(copy);
    }
}
END_TEST

START_TEST(deep_nesting_ends_early)
{
    vt_error err = {0};
    vt_st_file *file = NULL;
    static char header[200000];
    memset(header, '[', sizeof header - 1);
    memcpy(header, "{\"a\":", 5);
    const size_t size = compose(header, strlen(header), NULL, 0);
    ck_assert_int_eq(vt_st_open_memory(&file, bytes, size, "f", &err), VT_E_BAD_MODEL);
    ck_assert_msg(strstr(err.msg, "header") != NULL, "%s", err.msg);
}
END_TEST

START_TEST(tells_what_a_file_is_instead)
{
    static const struct {
        const char *head, *says;
    } others[] = {{"PK\3\4\24\0\10\10\10\10\10\10", "zip"},
                  {"\x80\2\x8a\12l\xfc\x9c\x46\xf9 j\xa8P", "pickle"},
                  {"version https://git-lfs.github.com/spec/v1", "Git LFS"}};
    for (size_t i = 0; i < VT_COUNT(others); i++) {
        vt_error err = {0};
        vt_st_file *file = NULL;
        memset(bytes, 'x', 64);
        memcpy(bytes, others[i].head, 12);
        ck_assert_int_eq(vt_st_open_memory(&file, bytes, 64, "f", &err), VT_E_BAD_MODEL);
        ck_assert_msg(strstr(err.msg, others[i].says) != NULL, "%s", err.msg);
    }
    /* A header of 640 bytes begins with the two bytes of a pickle, and is none. */
    char header[641];
    memset(header, ' ', sizeof header);
    memcpy(header, "{}", 2);
    header[640] = 0;
    vt_st_close(opened(header, NULL, 0));
}
END_TEST

START_TEST(opens_regular_files_only)
{
    char folder[] = "/tmp/vitral-test-XXXXXX", path[64];
    vt_error err = {0};
    vt_st_file *file = NULL;
    uint64_t identity[VT_ST_IDENTITY];
    ck_assert_ptr_nonnull(mkdtemp(folder));

    ck_assert_int_eq(vt_st_open(&file, folder, "it", &err), VT_E_BAD_MODEL);
    ck_assert_msg(strstr(err.msg, "it is a folder") != NULL, "%s", err.msg);
    snprintf(path, sizeof path, "%s/pipe", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(vt_st_open(&file, path, "it", &err), VT_E_BAD_MODEL); /* and does not wait for a writer */
    unlink(path);
    snprintf(path, sizeof path, "%s/none", folder);
    ck_assert_int_eq(vt_st_open(&file, path, "it", &err), VT_E_NOT_FOUND);

    snprintf(path, sizeof path, "%s/file", folder);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    const float one = 1.0f;
    const size_t size = compose("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 54, &one, 4);
    ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
    fclose(f);
    ck_assert_msg(vt_st_open(&file, path, "it", &err) == VT_OK, "%s", err.msg);
    float out;
    ck_assert_int_eq(vt_st_floats(vt_st_find(file, "w"), &out, &err), VT_OK);
    ck_assert(out == 1.0f);
    vt_st_identity(file, identity);
    ck_assert_uint_eq(identity[2], size);
    ck_assert_uint_ne(identity[1], 0);
    vt_st_close(file);
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert_int_eq(vt_st_open(&file, path, "it", &err), VT_E_BAD_MODEL);
    unlink(path);
    rmdir(folder);
    vt_st_close(NULL);
}
END_TEST

START_TEST(names_are_cut_at_whole_characters)
{
    char buf[VT_ST_SHOWN], name[400];
    ck_assert_str_eq(vt_st_shown(buf, "a\nb"), "a?b");
    for (size_t shift = 0; shift < 3; shift++) {
        memset(name, 'a', shift);
        for (size_t i = shift; i + 3 < sizeof name; i += 3)
            memcpy(name + i, "\xe2\x82\xac", 4);
        vt_st_shown(buf, name);
        const size_t n = strlen(buf);
        ck_assert(n < VT_ST_SHOWN && n > VT_ST_SHOWN - 10);
        ck_assert_str_eq(buf + n - 6, "\xe2\x82\xac...");
    }
}
END_TEST

VT_SUITE("safetensors", tcase_add_test(tc, reads_names_shapes_and_values);
         tcase_add_loop_test(tc, every_half_is_exact, 0, 4); tcase_add_test(tc, bfloat_and_double_and_unaligned_float);
         tcase_add_test(tc, control_characters_in_a_name); tcase_add_test(tc, in_place_is_aligned_float);
         tcase_add_test(tc, other_types_are_refused_by_name_when_read);
         tcase_add_loop_test(tc, refuses_each_broken_rule_by_name, 0, VT_COUNT(refused));
         tcase_add_test(tc, refuses_lengths_that_lie); tcase_add_test(tc, deep_nesting_ends_early);
         tcase_add_test(tc, tells_what_a_file_is_instead); tcase_add_test(tc, opens_regular_files_only);
         tcase_add_test(tc, names_are_cut_at_whole_characters))
