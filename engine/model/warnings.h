/* Remarks of the loader: sentences that live as long as the model. */
#ifndef VT_MODEL_WARNINGS_H
#define VT_MODEL_WARNINGS_H

#include <stddef.h>

#include "vitral/status.h"

enum { VT_WARNINGS_MAX = 32 };

typedef struct vt_warnings {
    char *texts[VT_WARNINGS_MAX];
    size_t count, left_out; /* the last text says how many were left out */
} vt_warnings;

/* Adds a sentence. When memory is short the remark is lost, never the model. */
void vt_warnings_add(vt_warnings *warnings, const char *fmt, ...) VT_PRINTF(2, 3);
void vt_warnings_free(vt_warnings *warnings);

#endif
