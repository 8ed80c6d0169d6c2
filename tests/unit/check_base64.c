/* Base64 against the vectors of RFC 4648 and against a decoder that works bit by bit. */
#include "server/wire/wire.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

START_TEST(vectors_of_the_rfc)
{
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t k = 0; k < VT_COUNT(plain); k++) {
        char out[16];
        memset(out, 'x', sizeof out);
        ck_assert_uint_eq(vts_base64_size(strlen(plain[k])), strlen(coded[k]));
        vts_base64(out, plain[k], strlen(plain[k]));
        ck_assert_str_eq(out, coded[k]);
        ck_assert_msg(out[strlen(coded[k]) + 1] == 'x', "\"%s\": written beyond the NUL", plain[k]);
    }
}
END_TEST

/* Value of one digit, by the definition of the alphabet. */
static unsigned value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    ck_assert_msg(c == '+' || c == '/', "'%c' is no digit", c);
    return c == '+' ? 62 : 63;
}

START_TEST(every_bit_comes_back)
{
    enum { N = 1021 };
    unsigned char in[N], back[N + 1];
    char *out = malloc(vts_base64_size(N) + 1);
    ck_assert_ptr_nonnull(out);
    for (size_t i = 0; i < N; i++)
        in[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t n = N - 4; n <= N; n++) {
        size_t bits = 0;
        memset(back, 0, sizeof back);
        vts_base64(out, in, n);
        const size_t size = strlen(out);
        ck_assert_uint_eq(size, vts_base64_size(n));
        ck_assert_uint_eq(size % 4, 0);
        for (size_t i = 0; i < size && out[i] != '='; i++)
            for (int b = 5; b >= 0; b--, bits++)
                if (bits / 8 < n)
                    back[bits / 8] = (unsigned char)(back[bits / 8] | (value(out[i]) >> b & 1u) << (7 - bits % 8));
        ck_assert_msg(memcmp(in, back, n) == 0, "%zu bytes: others came back", n);
    }
    free(out);
}
END_TEST

VT_SUITE("base64", tcase_add_test(tc, vectors_of_the_rfc); tcase_add_test(tc, every_bit_comes_back))
