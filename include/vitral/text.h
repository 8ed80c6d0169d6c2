/* Text from outside: is it UTF-8, where may it be cut, how may a message repeat it. No state: any thread. */
#ifndef VT_TEXT_H
#define VT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the UTF-8 character at text (Unicode 15, table 3-7), its code point through `code` (which may be NULL). 0 when
 * there is none: a byte that begins nothing, a character that is cut or longer than need be, a surrogate, a number beyond
 * U+10FFFF. At most `room` bytes are read, and none behind a NUL, which is a character of one byte. */
size_t vt_utf8_read(const char *text, size_t room, uint32_t *code);

bool vt_utf8_valid(const char *text, size_t size);

/* The largest n <= size with no character of text (size) cut in half at n. */
size_t vt_utf8_cut(const char *text, size_t size);

enum { VT_QUOTE_SIZE = 64 }; /* buffer for a value that a message repeats */

/* text as a message may repeat it, in buf (size >= 4), which is returned: what does not fit is cut between characters and
 * ends in "...", and a control character or a byte that is no UTF-8 becomes `?`. */
const char *vt_quote(char *buf, size_t size, const char *text);

#ifdef __cplusplus
}
#endif

#endif
