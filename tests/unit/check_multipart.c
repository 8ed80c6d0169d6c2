/* The form reader: every body is fed whole and in pieces of 1, 2, 3, 5, 7 and 64 bytes, and must give the same parts. */
#include "server/http/media.h"
#include "server/http/multipart.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What arrived, as text: name[+]=data; for each part, + for a file. */
typedef struct record {
    char text[8192];
    size_t size;
    int open;
    bool refuse_data;
} record;

static void note(record *r, const void *data, size_t size)
{
    ck_assert_msg(r->size + size < sizeof r->text, "more data than the body can hold");
    memcpy(r->text + r->size, data, size);
    r->size += size;
    r->text[r->size] = '\0';
}

static bool begin(void *host, const vts_part *part)
{
    record *r = host;
    ck_assert_msg(!r->open, "a part begins inside another");
    r->open = 1;
    note(r, part->name, strlen(part->name));
    note(r, part->is_file ? "+=" : "=", part->is_file ? 2 : 1);
    return true;
}

static bool data(void *host, const uint8_t *bytes, size_t size)
{
    record *r = host;
    ck_assert_msg(r->open, "data outside a part");
    ck_assert_msg(size > 0, "an empty piece");
    note(r, bytes, size);
    return !r->refuse_data;
}

static bool end(void *host)
{
    record *r = host;
    ck_assert_msg(r->open, "an end outside a part");
    r->open = 0;
    note(r, ";", 1);
    return true;
}

/* The record, or "fault: ..." - the pieces are copied to their exact size, so that a read past one is seen. */
static const char *read_form(const char *boundary, const char *body, size_t size, size_t piece, record *r)
{
    static vts_multipart mp;
    const vts_part_sink sink = {begin, data, end, r};
    bool good = true;
    r->size = 0;
    r->text[0] = '\0';
    r->open = 0;
    vts_multipart_init(&mp, boundary, &sink);
    for (size_t at = 0; at < size && good; at += piece) {
        const size_t n = size - at < piece ? size - at : piece;
        uint8_t *copy = malloc(n);
        memcpy(copy, body + at, n);
        good = vts_multipart_feed(&mp, copy, n);
        free(copy);
    }
    if (good)
        good = vts_multipart_finish(&mp);
    if (!good) {
        snprintf(r->text, sizeof r->text, "fault: %s", mp.fault ? mp.fault : "refused");
        ck_assert_msg(!vts_multipart_feed(&mp, (const uint8_t *)"x", 1), "a failed reader goes on");
    }
    return r->text;
}

#define DISPOSITION "Content-Disposition: form-data; "

static const struct {
    const char *what, *boundary, *body, *expect; /* "fault" = any fault */
} forms[] = {
    {"one field", "B", "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n--B--\r\n", "a=1;"},
    {"no last line end", "B", "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n--B--", "a=1;"},
    {"file and field", "B",
     "--B\r\n" DISPOSITION
     "name=\"img\"; filename=\"x.jpg\"\r\nContent-Type: image/jpeg\r\n\r\nJ\r\nF\r\n--B\r\n" DISPOSITION
     "name=top\r\n\r\n3\r\n--B--\r\n",
     "img+=J\r\nF;top=3;"},
    {"empty value", "B", "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\n\r\n--B--\r\n", "a=;"},
    {"preamble, epilogue, blanks", "B",
     "hello\r\n--Bx\r\n--B \t\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n--B-- \r\nbye\r\n--B\r\n", "a=1;"},
    {"line end first", "B", "\r\n--B\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n--B--\r\n", "a=1;"},
    {"delimiter cut by data", "BC", "--BC\r\n" DISPOSITION "name=\"a\"\r\n\r\nx\r\n--B\r\n--BD\r\r\n--BC--\r\n",
     "a=x\r\n--B\r\n--BD\r;"},
    {"longer than the delimiter", "B",
     "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\nx\r\n--BB\r\n--B-x\r\n--B--y\r\n--B\rz\r\n--B--\r\n",
     "a=x\r\n--BB\r\n--B-x\r\n--B--y\r\n--B\rz;"},
    {"broken delimiter before a true one", "B", "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\nx\r\n--B\r\r\n--B--\r\n",
     "a=x\r\n--B\r;"},
    {"broken by dash and CR", "B", "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\nx\r\n--B-\r\n--B--\r\n", "a=x\r\n--B-;"},
    {"boundary of dashes", "----x", "------x\r\n" DISPOSITION "name=\"a\"\r\n\r\n--\r\n--\r\n------x--\r\n",
     "a=--\r\n--;"},
    {"case and folding of the head", "B",
     "--B\r\ncONTENT-dISPOSITION: Form-Data;\r\n name=\"a\"\r\nX-Y: z\r\n\r\n1\r\n--B--\r\n", "a=1;"},
    {"quotes and backslashes in a file name", "B",
     "--B\r\n" DISPOSITION "name=\"img\"; filename=\"C:\\dir\\a\\\"b.jpg\"\r\n\r\n1\r\n--B\r\n" DISPOSITION
     "filename*=UTF-8''x; name=\"b\"\r\n\r\n2\r\n--B--\r\n",
     "img+=1;b+=2;"},
    {"two parts of one name stay two", "B",
     "--B\r\n" DISPOSITION "name=a\r\n\r\n1\r\n--B\r\n" DISPOSITION "name=a\r\n\r\n2\r\n--B--\r\n", "a=1;a=2;"},
    {"no closing delimiter", "B", "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n", "fault"},
    {"closing delimiter cut", "B", "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n--B-", "fault"},
    {"ends after a delimiter", "B", "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n--B\r\n", "fault"},
    {"another boundary", "B", "--C\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n--C--\r\n", "fault"},
    {"nothing", "B", "", "fault"},
    {"garbage", "B", "zzzzz\r\n\r\nzz", "fault"},
    {"bare LF", "B", "--B\n" DISPOSITION "name=\"a\"\n\n1\n--B--\n", "fault"},
    {"no name", "B", "--B\r\n" DISPOSITION "filename=\"a\"\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"empty name", "B", "--B\r\n" DISPOSITION "name=\"\"\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"two names", "B", "--B\r\n" DISPOSITION "name=a; name=b\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"no disposition", "B", "--B\r\nContent-Type: text/plain\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"two dispositions", "B", "--B\r\n" DISPOSITION "name=a\r\n" DISPOSITION "name=b\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"no head at all", "B", "--B\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"attachment", "B", "--B\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"a line without colon", "B", "--B\r\n" DISPOSITION "name=a\r\nhello\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"open quote", "B", "--B\r\n" DISPOSITION "name=\"a\r\n\r\n1\r\n--B--\r\n", "fault"},
    {"base64 part", "B", "--B\r\n" DISPOSITION "name=a\r\nContent-Transfer-Encoding: base64\r\n\r\nMQ==\r\n--B--\r\n",
     "fault"},
    {"only a closing delimiter", "B", "--B--\r\n", ""},
};

START_TEST(reads_forms)
{
    static const size_t pieces[] = {1, 2, 3, 5, 7, 64, 100000};
    record r = {.refuse_data = false};
    for (size_t k = 0; k < VT_COUNT(pieces); k++) {
        const char *got = read_form(forms[_i].boundary, forms[_i].body, strlen(forms[_i].body), pieces[k], &r);
        const bool fault = strncmp(got, "fault: ", 7) == 0;
        if (strcmp(forms[_i].expect, "fault") == 0)
            ck_assert_msg(fault, "%s, pieces of %zu: read as \"%s\"", forms[_i].what, pieces[k], got);
        else
            ck_assert_msg(!fault && strcmp(got, forms[_i].expect) == 0, "%s, pieces of %zu: \"%s\", expected \"%s\"",
                          forms[_i].what, pieces[k], got, forms[_i].expect);
    }
}
END_TEST

/* Bytes of all values, with much that begins like a delimiter, come back as they were. */
START_TEST(data_is_untouched)
{
    static const char head[] = "--AB\r\n" DISPOSITION "name=\"d\"\r\n\r\n", foot[] = "\r\n--AB--\r\n",
                      alphabet[] = "\r\n-AB\0 x";
    char body[4096];
    record r = {.refuse_data = false};
    uint32_t seed = (uint32_t)_i + 1;
    for (int round = 0; round < 300; round++) {
        size_t n = 0, size = 1 + seed % 40;
        char sent[64];
        for (size_t k = 0; k < size; k++) {
            seed = seed * 1664525u + 1013904223u;
            sent[k] = alphabet[(seed >> 20) % 8];
        }
        bool holds = false;
        for (size_t k = 0; k + 6 <= size; k++)
            holds |= memcmp(sent + k, "\r\n--AB", 6) == 0;
        if (holds)
            continue; /* whether it counts is the table's business */
        memcpy(body, head, sizeof head - 1), n = sizeof head - 1;
        memcpy(body + n, sent, size), n += size;
        memcpy(body + n, foot, sizeof foot - 1), n += sizeof foot - 1;
        read_form("AB", body, n, 1 + seed % 9, &r);
        ck_assert_msg(r.size == size + 3 && memcmp(r.text, "d=", 2) == 0 && memcmp(r.text + 2, sent, size) == 0,
                      "round %d: %zu bytes came back as %zu (%s)", round, size, r.size, r.text);
    }
}
END_TEST

START_TEST(limits)
{
    static char body[200000];
    record r = {.refuse_data = false};
    size_t n = 0;
    for (int k = 0; k < VTS_PARTS_MAX + 1; k++)
        n += (size_t)snprintf(body + n, sizeof body - n, "--B\r\n" DISPOSITION "name=f%d\r\n\r\nv\r\n", k);
    n += (size_t)snprintf(body + n, sizeof body - n, "--B--\r\n");
    ck_assert_msg(strstr(read_form("B", body, n, 1000, &r), "more than 64 parts"), "%s", r.text);
    memset(body, 'x', sizeof body);
    memcpy(body, "--B\r\nX: ", 8);
    ck_assert_msg(strstr(read_form("B", body, 9000, 999, &r), "longer than 8192"), "%s", r.text);
    memset(body, ' ', 1000);
    memcpy(body, "--B", 3);
    ck_assert_msg(strstr(read_form("B", body, 1000, 999, &r), "blanks"), "%s", r.text);
    n = (size_t)snprintf(body, sizeof body, "--B\r\n" DISPOSITION "name=\"%0300d\"\r\n\r\n1\r\n--B--\r\n", 7);
    ck_assert_msg(strstr(read_form("B", body, n, 999, &r), "too long"), "%s", r.text);
}
END_TEST

START_TEST(the_sink_may_refuse)
{
    static const char body[] = "--B\r\n" DISPOSITION "name=\"a\"\r\n\r\n1\r\n--B--\r\n";
    record r = {.refuse_data = true};
    ck_assert_str_eq(read_form("B", body, sizeof body - 1, 5, &r), "fault: refused");
}
END_TEST

static const struct {
    const char *text, *type, *boundary; /* type NULL: refused */
} types[] = {
    {"multipart/form-data; boundary=X; charset=utf-8", "multipart/form-data", "X"},
    {"multipart/form-data; charset=utf-8; boundary=X", "multipart/form-data", "X"},
    {"Multipart/Form-Data;BOUNDARY=Xy", "multipart/form-data", "Xy"},
    {"multipart/form-data; boundary=\"a b'=(_)+:?/.,c\"", "multipart/form-data", "a b'=(_)+:?/.,c"},
    {"multipart/form-data; boundary=a/b=c", "multipart/form-data", "a/b=c"},
    {"multipart/form-data", NULL, NULL},
    {"multipart/form-data; boundary=", NULL, NULL},
    {"multipart/form-data; boundary=\"\"", NULL, NULL},
    {"multipart/form-data; boundary=\"X", NULL, NULL},
    {"multipart/form-data; boundary=X; boundary=Y", NULL, NULL},
    {"multipart/form-data; boundary=\"X \"", NULL, NULL},
    {"multipart/form-data; boundary=a*b", NULL, NULL},
    {"multipart/form-data; boundary=12345678901234567890123456789012345678901234567890123456789012345678901", NULL,
     NULL},
    {"Image/PNG; name=\"a.png\"", "image/png", ""},
    {"image/png; broken", "image/png", ""},
    {" image/png ", "image/png", ""},
    {"png", NULL, NULL},
    {"", NULL, NULL},
};

START_TEST(media_types)
{
    vts_media_type got;
    const char *fault = vts_media_type_parse(types[_i].text, &got);
    if (!types[_i].type) {
        ck_assert_msg(fault != NULL, "\"%s\" was read as %s, %s", types[_i].text, got.type, got.boundary);
        return;
    }
    ck_assert_msg(!fault, "\"%s\": %s", types[_i].text, fault);
    ck_assert_str_eq(got.type, types[_i].type);
    ck_assert_str_eq(got.boundary, types[_i].boundary);
}
END_TEST

START_TEST(accept_headers)
{
    static const char *const offered[] = {"application/json", "image/png", "text/event-stream"};
    static const struct {
        const char *accept;
        int best;
    } cases[] = {
        {NULL, 0},
        {"", 0},
        {",", 0}, /* an empty list is as good as none */
        {" ,\t, ,", 0},
        {";", -1}, /* but this is a range, if no good one */
        {"*/*", 0},
        {"image/png", 1},
        {"image/*", 1},
        {"text/event-stream", 2},
        {"text/xml", -1},
        {"text/html,application/xhtml+xml,*/*;q=0.8", 0},
        {"image/png, application/json;q=0.5", 1},
        {"application/json;q=0, */*", 1},
        {"IMAGE/PNG;Q=1.0", 1},
        {"image/png;q=0", -1},
        {"application/json;q=0.2, image/png;q=0.25", 1},
        {", ,image/png", 1},
        {"image/png;x=\"a, b;q=0\";q=0.5, application/json;q=0.4", 1}, /* commas and semicolons in quotes */
        {"image/png;x=\"a\\\"b\";q=0.3, application/json;q=0.4", 0},
        {"image/png ; q = 0.3 , application/json ;q=0.4", 0},
        {"image/png;qq=0, text/xml", 1}, /* another parameter */
        {"image/png;q", 1},
        {"image/png;x=\"open, application/json", 1}, /* a quote that never ends takes the rest */
        {"image/png application/json", -1},
        {"image/pngimage/pngimage/pngimage/pngimage/pngimage/pngimage/pngimage/pngimage/pngimage/pngimage/pngimage/png",
         -1},
    };
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        const int got = vts_accept_choose(cases[k].accept, offered, 3);
        ck_assert_msg(got == cases[k].best, "Accept: %s gives %d, expected %d",
                      cases[k].accept ? cases[k].accept : "(none)", got, cases[k].best);
    }
}
END_TEST

VT_SUITE("multipart", tcase_add_loop_test(tc, reads_forms, 0, VT_COUNT(forms));
         tcase_add_loop_test(tc, data_is_untouched, 0, 4); tcase_add_test(tc, limits);
         tcase_add_test(tc, the_sink_may_refuse); tcase_add_loop_test(tc, media_types, 0, VT_COUNT(types));
         tcase_add_test(tc, accept_headers))
