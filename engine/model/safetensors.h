/* The safetensors container: mapped, checked, never trusted (methods.md 21.1). */
#ifndef VT_MODEL_SAFETENSORS_H
#define VT_MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/status.h"

enum { VT_TENSOR_DIMS = 8 };

typedef struct vt_st_tensor {
    const char *name, *dtype; /* "F32", ... as written; no control characters in a name */
    size_t ndim, shape[VT_TENSOR_DIMS];
    size_t count;        /* product of shape */
    const uint8_t *data; /* possibly unaligned */
    size_t bytes;
} vt_st_tensor;

typedef struct vt_st_file vt_st_file;

/* Maps and checks a file. `what` is the name for messages ("model.safetensors"). */
VT_MUST_USE vt_status vt_st_open(vt_st_file **out, const char *path, const char *what, vt_error *err);
/* The same over bytes that the caller keeps. */
VT_MUST_USE vt_status vt_st_open_memory(vt_st_file **out, const void *bytes, size_t size, const char *what,
                                        vt_error *err);
void vt_st_close(vt_st_file *file);

size_t vt_st_count(const vt_st_file *file);
const vt_st_tensor *vt_st_at(const vt_st_file *file, size_t k);
const vt_st_tensor *vt_st_find(const vt_st_file *file, const char *name); /* or NULL */

/* Values as float32 (F32, F16, BF16, F64). VT_E_BAD_MODEL names tensor and dtype for any other. out: (tensor->count). */
VT_MUST_USE vt_status vt_st_floats(const vt_st_tensor *tensor, float *out, vt_error *err);

/* The values where they lie in the file: aligned float32; NULL: they have to be copied by vt_st_floats. */
const float *vt_st_in_place(const vt_st_tensor *tensor);

/* Whether a value of this type is read as float32; and whether it is a whole number or a flag, which no weight is. */
bool vt_st_is_float(const vt_st_tensor *tensor);
bool vt_st_is_integer(const vt_st_tensor *tensor);

/* Raw bytes of the JSON header, for the fingerprint. */
const uint8_t *vt_st_header(const vt_st_file *file, size_t *bytes);

/* What tells this file from another of the same name: device, inode, size, seconds and nanoseconds of the last change.
 * For bytes in memory only the size is set. */
enum { VT_ST_IDENTITY = 5 };
void vt_st_identity(const vt_st_file *file, uint64_t identity[VT_ST_IDENTITY]);

/* All bytes of the file as mapped. */
const uint8_t *vt_st_bytes(const vt_st_file *file, size_t *bytes);

/* Tells the system that the mapped bytes are hardly needed from now on: they leave the process until they are read again. */
void vt_st_rest(const vt_st_file *file);

/* A name from a file as it may stand in a message: cut to a bearable length, whole UTF-8 characters, no controls. */
enum { VT_ST_SHOWN = 160 };
const char *vt_st_shown(char buf[VT_ST_SHOWN], const char *name);

#endif
