/* UTF-8 and the properties of single code points. Ranges are sorted, so a look-up is a binary search. */
#include "engine/text/unicode.h"

#include "engine/text/classes.h"
#include "vitral/status.h"

size_t vt_utf8_write(char out[4], uint32_t code)
{
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    const size_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = bytes; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[bytes] | code);
    return bytes;
}

/* Whether code lies in one of `count / 2` sorted ranges. */
static bool in_ranges(const uint32_t *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count / 2;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code > ranges[2 * mid + 1])
            low = mid + 1;
        else if (code < ranges[2 * mid])
            high = mid;
        else
            return true;
    }
    return false;
}

static bool is_space(uint32_t code)
{
    return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
           code == 0x205F || code == 0x3000;
}

vt_letter_kind vt_unicode_kind(uint32_t code)
{
    if (is_space(code))
        return VT_KIND_SPACE;
    if (in_ranges(letters, VT_COUNT(letters), code))
        return VT_KIND_LETTER;
    return in_ranges(numbers, VT_COUNT(numbers), code) ? VT_KIND_NUMBER : VT_KIND_OTHER;
}

uint32_t vt_unicode_lower(uint32_t code)
{
    if (code == 0x130)
        return 'i';
    size_t low = 0, high = VT_COUNT(smaller) / 4;
    while (low < high) { /* the first range that does not end before it */
        const size_t mid = low + (high - low) / 2;
        if (code > (uint32_t)smaller[4 * mid + 1])
            low = mid + 1;
        else
            high = mid;
    }
    if (low == VT_COUNT(smaller) / 4)
        return code;
    const int32_t *run = smaller + 4 * low, at = (int32_t)code;
    return at >= run[0] && (at - run[0]) % run[2] == 0 ? (uint32_t)(at + run[3]) : code;
}

bool vt_unicode_is_cased(uint32_t code)
{
    if (vt_unicode_lower(code) != code)
        return true;
    for (size_t i = 0; i < VT_COUNT(smaller); i += 4) { /* the small letter of some capital? they are not in order */
        const int32_t *run = smaller + i, at = (int32_t)code - run[3];
        if (at >= run[0] && at <= run[1] && (at - run[0]) % run[2] == 0)
            return true;
    }
    return false;
}
