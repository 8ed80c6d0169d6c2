/* SHA-256 against the examples of FIPS 180 and NIST, and against itself cut into pieces. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "vitral/hash.h"

static const char *hex_of(const void *data, size_t bytes)
{
    static char hex[65];
    uint8_t digest[32];
    vt_sha256 hash;
    vt_sha256_init(&hash);
    vt_sha256_update(&hash, data, bytes);
    vt_sha256_final(&hash, digest);
    vt_sha256_hex(digest, hex);
    return hex;
}

static const struct {
    const char *text, *hex;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

START_TEST(published_vectors)
{
    ck_assert_str_eq(hex_of(vectors[_i].text, strlen(vectors[_i].text)), vectors[_i].hex);
}
END_TEST

START_TEST(a_million_letters)
{
    static char text[1000000];
    memset(text, 'a', sizeof text);
    ck_assert_str_eq(hex_of(text, sizeof text), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

/* Lengths around the padding's corners, each cut at every place, then byte by byte. */
START_TEST(pieces_do_not_matter)
{
    static const size_t lengths[] = {1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 200};
    uint8_t data[200], whole[32], digest[32];
    const size_t n = lengths[_i];
    vt_sha256 hash;
    for (size_t k = 0; k < sizeof data; k++)
        data[k] = (uint8_t)(k * 37 + 11);
    vt_sha256_init(&hash);
    vt_sha256_update(&hash, data, n);
    vt_sha256_final(&hash, whole);
    for (size_t cut = 0; cut <= n; cut++) {
        vt_sha256_init(&hash);
        vt_sha256_update(&hash, data, cut);
        vt_sha256_update(&hash, data + cut, n - cut);
        vt_sha256_final(&hash, digest);
        ck_assert_msg(memcmp(digest, whole, 32) == 0, "%zu bytes cut at %zu", n, cut);
    }
    vt_sha256_init(&hash);
    for (size_t k = 0; k < n; k++) {
        vt_sha256_update(&hash, data + k, 1);
        vt_sha256_update(&hash, NULL, 0);
    }
    vt_sha256_final(&hash, digest);
    ck_assert_msg(memcmp(digest, whole, 32) == 0, "%zu bytes one by one", n);
}
END_TEST

/* The padding's length field holds more than 32 bits: 512 MiB + 1 byte of zeros, in one buffer used again and again.
 * The expected digest is that of sha256sum. */
START_TEST(more_than_32_bits_of_length)
{
    enum { PIECE = 1 << 20 };
    uint8_t *zeros = calloc(PIECE, 1), digest[32];
    char hex[65];
    vt_sha256 hash;
    ck_assert_ptr_nonnull(zeros);
    vt_sha256_init(&hash);
    for (int k = 0; k < 512; k++)
        vt_sha256_update(&hash, zeros, PIECE);
    vt_sha256_update(&hash, zeros, 1);
    vt_sha256_final(&hash, digest);
    vt_sha256_hex(digest, hex);
    free(zeros);
    ck_assert_str_eq(hex, "7c40fe5ce847740d0f0d0cdde3949d6585804cdec3ae61a15b923165699c8137");
}
END_TEST

VT_SUITE("sha256", tcase_add_loop_test(tc, published_vectors, 0, 4); tcase_add_test(tc, a_million_letters);
         tcase_add_loop_test(tc, pieces_do_not_matter, 0, 13); tcase_add_test(tc, more_than_32_bits_of_length))
