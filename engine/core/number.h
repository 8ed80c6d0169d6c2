/* Numbers as text: strict reading, canonical writing, the same in every locale. */
#ifndef VT_CORE_NUMBER_H
#define VT_CORE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum vt_number_fault { VT_NUMBER_OK, VT_NUMBER_SYNTAX, VT_NUMBER_RANGE } vt_number_fault;

/* Optional '-', then decimal digits and nothing else. RANGE when it does not fit. *out untouched on a fault. Any thread. */
vt_number_fault vt_number_int(const char *text, size_t length, int64_t *out);

/* Optional '-', decimal digits with at most one '.', optional exponent; finite. Words, hexadecimal and blanks are SYNTAX;
 * RANGE when it overflows. -0 is read as 0. *out untouched on a fault. Any thread. */
vt_number_fault vt_number_float(const char *text, size_t length, double *out);

enum { VT_NUMBER_MAX = 32 };
/* Digits of a whole number (|x| < 2^53), else the fewest that vt_number_float reads back as x, with '.' in every locale: two
 * numbers never share a text. x is not NaN; -0 is written as 0. Any thread. */
void vt_number_print(double x, char out[VT_NUMBER_MAX]);

#endif
