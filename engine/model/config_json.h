/* Typed reading of JSON with messages that name file and key; the readers of each dialect (config_timm.c,
 * config_transformers.c, config_preprocessor.c, config_labels.c, config_open_clip.c) share it. */
#ifndef VT_MODEL_CONFIG_JSON_H
#define VT_MODEL_CONFIG_JSON_H

#include "engine/model/config.h"

#include <jansson.h>

/* A file being read. Once a fault is noted, later calls do nothing. */
typedef struct vt_reader {
    vt_status status; /* of the first fault */
    vt_error *err;
    vt_warnings *warnings;
    const char *file; /* for messages */
} vt_reader;

/* An object of the file, with what to put before its keys in messages; json NULL reads as empty. */
typedef struct vt_part {
    const json_t *json;
    const char *prefix;
} vt_part;

/* The file's object, to be released by the caller. VT_E_BAD_MODEL for what is no JSON or no object. */
VT_MUST_USE vt_status vt_json_load(json_t **root, const char *file, const vt_config_file *text, vt_error *err);

/* The member, or NULL when it is absent or null. */
const json_t *vt_json_member(vt_part from, const char *key);
/* "an object", "a text", ... */
const char *vt_json_type(const json_t *value);

/* Notes the fault "FILE: PREFIXkey must be MUST", and the same with ", not a text" behind. */
void vt_json_fault(vt_reader *r, vt_part from, const char *key, const char *must);
void vt_json_wrong_type(vt_reader *r, vt_part from, const char *key, const char *must, const json_t *value);

/* Each leaves *out alone when the key is absent or null. */
void vt_json_object(vt_reader *r, vt_part from, const char *key, vt_part *out);
void vt_json_count(vt_reader *r, vt_part from, const char *key, size_t min, size_t max, size_t *out);
void vt_json_long(vt_reader *r, vt_part from, const char *key, long min, long max, long *out);
void vt_json_bool(vt_reader *r, vt_part from, const char *key, bool *out);
void vt_json_number(vt_reader *r, vt_part from, const char *key, double min, double max, double *out);
/* One number for both sides, or [height, width], or {"height": h, "width": w} where `dict`. */
void vt_json_sides(vt_reader *r, vt_part from, const char *key, bool dict, size_t *h, size_t *w);
/* Three numbers, above 0 where `positive`. Whether they are there. */
bool vt_json_triple(vt_reader *r, vt_part from, const char *key, bool positive, float out[3]);
/* NULL when absent; lives as long as the JSON. */
const char *vt_json_text(vt_reader *r, vt_part from, const char *key);
/* The text into buf; a fault when it does not fit. */
void vt_json_copy(vt_reader *r, vt_part from, const char *key, char *buf, size_t room);

/* A key whose only allowed value is the one with which the net is a plain ViT: false for truth values, 0 for numbers,
 * empty for lists and objects. Anything else is refused: "KEY is not read: WHY". */
void vt_json_must_be_off(vt_reader *r, vt_part from, const char *key, const char *why);

/* Remarks every key that is not in `known` (ends with NULL) and not null. */
void vt_json_remark_unknown(vt_reader *r, vt_part from, const char *const *known);

#endif
