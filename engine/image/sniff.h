/* Names what a file is by its first bytes, readable or not, so that a refusal can say what was sent. */
#ifndef VT_IMAGE_SNIFF_H
#define VT_IMAGE_SNIFF_H

#include <stddef.h>
#include <stdint.h>

typedef struct vt_signature {
    const char *name;     /* "pdf" */
    const char *sentence; /* "this is a PDF document", without the full stop */
} vt_signature;

/* Never NULL: what is not known is "unknown". Static. */
const vt_signature *vt_sniff(const uint8_t *bytes, size_t size);

#endif
