/* The one reader of UTF-8, and the one way to repeat somebody's text: see text.h. */
#include "vitral/text.h"

#include <string.h>

size_t vt_utf8_read(const char *text, size_t room, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: below it a shorter form exists */
    if (room == 0)
        return 0;
    const unsigned char *s = (const unsigned char *)text;
    const size_t length = s[0] < 0x80u                    ? 1
                          : s[0] >= 0xC2u && s[0] < 0xE0u ? 2
                          : s[0] >= 0xE0u && s[0] < 0xF0u ? 3
                          : s[0] >= 0xF0u && s[0] < 0xF5u ? 4
                                                          : 0;
    if (length == 0 || length > room)
        return 0;
    uint32_t value = length == 1 ? s[0] : s[0] & (0x7Fu >> length);
    for (size_t k = 1; k < length; k++) {
        if ((s[k] & 0xC0u) != 0x80u)
            return 0; /* the ending NUL too */
        value = value << 6 | (s[k] & 0x3Fu);
    }
    if (value < least[length] || value > 0x10FFFFu || (value >= 0xD800u && value <= 0xDFFFu))
        return 0;
    if (code)
        *code = value;
    return length;
}

bool vt_utf8_valid(const char *text, size_t size)
{
    for (size_t at = 0, n; at < size; at += n) {
        n = vt_utf8_read(text + at, size - at, NULL);
        if (n == 0)
            return false;
    }
    return true;
}

size_t vt_utf8_cut(const char *text, size_t size)
{
    for (size_t lead = size; lead > 0 && size - lead < 4;) {
        const unsigned char c = (unsigned char)text[--lead];
        if ((c & 0xC0u) == 0x80u)
            continue; /* inside a character: look for its first byte */
        const size_t need = c >= 0xF0u ? 4 : c >= 0xE0u ? 3 : c >= 0xC0u ? 2 : 1;
        return size - lead < need ? lead : size;
    }
    return size; /* no UTF-8 at all: nothing to save */
}

const char *vt_quote(char *buf, size_t size, const char *text)
{
    size_t used = 0, fits = 0; /* fits: how much may stay when "..." has to follow */
    while (*text) {
        uint32_t code = 0;
        const size_t length = vt_utf8_read(text, 4, &code);
        const bool clean = length > 0 && code >= 0x20u && !(code >= 0x7Fu && code < 0xA0u);
        const size_t step = clean ? length : 1;
        if (used + step >= size) {
            memcpy(buf + fits, "...", 4);
            return buf;
        }
        if (clean)
            memcpy(buf + used, text, length);
        else
            buf[used] = '?';
        used += step;
        if (used + 4 <= size)
            fits = used;
        text += length > 0 ? length : 1;
    }
    buf[used] = '\0';
    return buf;
}
