/* Strict numbers: strtod and strtol take blanks, '+', hexadecimal, "nan" and the locale's comma, none of which a request
 * may contain. So the text is checked against the grammar first and converted in the C locale, which glibc keeps as a
 * constant: nothing is allocated and no other thread notices. */
#include "engine/core/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t count_digits(const char *text, size_t length)
{
    size_t n = 0;
    while (n < length && is_digit(text[n]))
        n++;
    return n;
}

vt_number_fault vt_number_int(const char *text, size_t length, int64_t *out)
{
    const bool negative = length > 0 && text[0] == '-';
    const size_t first = negative ? 1 : 0;
    int64_t value = 0; /* kept negative: there is one more of those */
    if (length == first || count_digits(text + first, length - first) != length - first)
        return VT_NUMBER_SYNTAX;
    for (size_t k = first; k < length; k++) {
        const int digit = text[k] - '0';
        if (value < (INT64_MIN + digit) / 10)
            return VT_NUMBER_RANGE;
        value = value * 10 - digit;
    }
    if (!negative && value == INT64_MIN)
        return VT_NUMBER_RANGE;
    *out = negative ? value : -value;
    return VT_NUMBER_OK;
}

static bool is_float(const char *text, size_t length)
{
    size_t at = length > 0 && text[0] == '-' ? 1 : 0;
    size_t digits = count_digits(text + at, length - at);
    at += digits;
    if (at < length && text[at] == '.') {
        const size_t more = count_digits(text + at + 1, length - at - 1);
        digits += more;
        at += 1 + more;
    }
    if (digits == 0)
        return false;
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < length && (text[at] == '-' || text[at] == '+'))
            at++;
        const size_t exponent = count_digits(text + at, length - at);
        if (exponent == 0)
            return false;
        at += exponent;
    }
    return at == length;
}

vt_number_fault vt_number_float(const char *text, size_t length, double *out)
{
    char copy[128]; /* ends with NUL, which text[length] need not be; longer than any sensible number */
    if (length >= sizeof copy || !is_float(text, length))
        return VT_NUMBER_SYNTAX;
    memcpy(copy, text, length);
    copy[length] = '\0';
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return VT_NUMBER_SYNTAX;
    const double value = strtod_l(copy, NULL, plain);
    freelocale(plain);
    if (!isfinite(value))
        return VT_NUMBER_RANGE;
    *out = value == 0.0 ? 0.0 : value;
    return VT_NUMBER_OK;
}

void vt_number_print(double x, char out[VT_NUMBER_MAX])
{
    if (x == 0.0)
        x = 0.0; /* -0 */
    if (fabs(x) < 0x1p53 && x == trunc(x)) {
        snprintf(out, VT_NUMBER_MAX, "%lld", (long long)x);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, VT_NUMBER_MAX, "%.*g", digits, x);
        if (strtod(out, NULL) == x) /* both of them speak the locale's language */
            break;
    }
    char *comma = strchr(out, ',');
    if (comma)
        *comma = '.';
}
