/* Content-Type, Content-Disposition and Accept, read by the grammar (RFC 9110, RFC 7578), without memory of their own.
 * Any thread. */
#ifndef VTS_HTTP_MEDIA_H
#define VTS_HTTP_MEDIA_H

#include <stdbool.h>
#include <stddef.h>

enum { VTS_MEDIA_TYPE_MAX = 96, VTS_BOUNDARY_MAX = 70 };

bool vts_is_token(const char *text, size_t size);

/* What follows the value of such a field: "; name=value" or "; name=\"value\"", one at a time. */
typedef enum vts_field_step { VTS_FIELD_END, VTS_FIELD_PARAM, VTS_FIELD_BAD } vts_field_step;

/* Reads the next parameter at *at and moves on. name gets lower case. A value too long for its buffer is cut and
 * *whole is false. In quotes, \" is a quote and any other backslash stands for itself (browsers send C:\dir\x.jpg). */
vts_field_step vts_field_param(const char **at, char *name, size_t name_size, char *value, size_t value_size,
                               bool *whole);

/* The value itself, in lower case, without blanks, up to the first `;`. False when it is empty or too long. */
bool vts_field_value(const char **at, char *value, size_t size);

typedef struct vts_media_type {
    char type[VTS_MEDIA_TYPE_MAX];       /* "multipart/form-data", lower case */
    char boundary[VTS_BOUNDARY_MAX + 1]; /* "" when there is none */
} vts_media_type;

/* NULL when it is good, else a sentence saying what is wrong. Only multipart types need a boundary. */
const char *vts_media_type_parse(const char *text, vts_media_type *out);

/* Index of the offered type that `accept` likes best (ties: the first), or -1 when it likes none. NULL or "" likes all. */
int vts_accept_choose(const char *accept, const char *const *offered, size_t count);

#endif
