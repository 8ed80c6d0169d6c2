/* JSON as it is written: a growing buffer that knows where commas and line breaks go.
 *
 * Answers hold megabytes of base64 and thousands of numbers: they go straight into the final text, not through a tree
 * of nodes. Only writing is done by hand; whatever has to be read is read by jansson. Every text that comes out is
 * valid JSON in valid UTF-8: bytes that are no UTF-8 become U+FFFD, a number that is not finite becomes null. Running
 * out of memory is remembered and reported once, at the end. A writer belongs to one thread. */
#ifndef VTS_WIRE_WRITER_H
#define VTS_WIRE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/param.h"

typedef struct vts_writer {
    char *text; /* (capacity) */
    size_t size, capacity;
    bool failed, pretty;
    bool comma; /* something stands before in this object or array */
    bool keyed; /* a key was just written: the value follows on the same line */
    int depth;
    int flat; /* depth from which all stays on one line; 0 = none */
} vts_writer;

/* expect: bytes to reserve at once, a guess. */
void vts_write_init(vts_writer *w, bool pretty, size_t expect);
/* The malloc'ed text with a NUL behind its last byte, or NULL when memory ran out on the way. */
char *vts_write_finish(vts_writer *w, size_t *size);

void vts_write_object(vts_writer *w);
void vts_write_object_end(vts_writer *w);
void vts_write_array(vts_writer *w);
void vts_write_array_flat(vts_writer *w); /* on one line also when pretty */
void vts_write_array_end(vts_writer *w);
void vts_write_key(vts_writer *w, const char *key); /* plain ASCII without anything to escape */

void vts_write_null(vts_writer *w);
void vts_write_bool(vts_writer *w, bool value);
void vts_write_int(vts_writer *w, long long value);
void vts_write_uint(vts_writer *w, unsigned long long value);
void vts_write_real(vts_writer *w, double value);     /* 9 significant digits; NaN and infinity: null */
void vts_write_ms(vts_writer *w, double value);       /* to the microsecond */
void vts_write_text(vts_writer *w, const char *text); /* NULL: null */
void vts_write_base64(vts_writer *w, const void *data, size_t n);
void vts_write_words(vts_writer *w, const char *const *words); /* array of texts; the list ends with NULL; NULL: null */

/* key and value in one call */
void vts_write_key_text(vts_writer *w, const char *key, const char *text);
void vts_write_key_int(vts_writer *w, const char *key, long long value);
void vts_write_key_real(vts_writer *w, const char *key, double value);
void vts_write_key_bool(vts_writer *w, const char *key, bool value);
void vts_write_key_pair(vts_writer *w, const char *key, size_t first, size_t second); /* [first, second] */

/* Bytes as they are, no comma, no escaping: for texts that are not JSON. */
void vts_write_raw(vts_writer *w, const char *text, size_t n);

/* The largest value of a row: a seed's is what every JSON reader holds exactly, 2^53 - 1, unless its row says less. */
double vts_param_max(const vt_param *row);

/* A stored parameter as JSON: number, true, text, list. */
void vts_write_param(vts_writer *w, const vt_param *row, const void *params);

#endif
