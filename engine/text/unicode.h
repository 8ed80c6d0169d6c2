/* What a tokenizer must know of Unicode: UTF-8, letters and numbers, small letters, canonical composition.
 *
 * The tables are our own, made from the Unicode character database (tables.py): the tokenizer needs four properties of
 * it, which is too little to make a library a condition of every build. Const data; any thread. */
#ifndef VT_TEXT_UNICODE_H
#define VT_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/text.h" /* vt_utf8_read */

/* Writes a code point; gives its bytes. */
size_t vt_utf8_write(char out[4], uint32_t code);

typedef enum vt_letter_kind { VT_KIND_OTHER, VT_KIND_LETTER, VT_KIND_NUMBER, VT_KIND_SPACE } vt_letter_kind;

/* Letter: general category L. Number: N. Space: the property White_Space, and the separators U+001C ... U+001F, which
 * Python counts among it. Marks are OTHER. */
vt_letter_kind vt_unicode_kind(uint32_t code);

/* The small letter, or the code point itself. U+0130, the only one whose small form is two (i and U+0307), gives i. */
uint32_t vt_unicode_lower(uint32_t code);

/* Whether a letter has another case: capital, or small with a capital. */
bool vt_unicode_is_cased(uint32_t code);

/* Room that vt_unicode_compose needs for n code points: no code point decomposes into more than 4, and they are sorted. */
#define VT_COMPOSE_ROOM(n) (8 * (n))

/* Brings text (n code points, room for VT_COMPOSE_ROOM(n)) to normalisation form C, in place; gives the new length.
 * Unicode Standard Annex 15. */
size_t vt_unicode_compose(uint32_t *text, size_t n);

#endif
