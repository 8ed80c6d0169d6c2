/* What a checkpoint's config.json says, read and checked on its own; checkpoint.c holds it against the tensors. */
#ifndef VT_MODEL_CONFIG_H
#define VT_MODEL_CONFIG_H

#include "engine/model/labels.h"
#include "engine/model/warnings.h"
#include "vitral/model.h"

enum { VT_CONFIG_SIDE_MAX = 16384, VT_CONFIG_CLASSES_MAX = 1000000, VT_CONFIG_HEADS_MAX = 1024 };

typedef enum vt_crop_mode { VT_CROP_CENTER, VT_CROP_SQUASH, VT_CROP_BORDER } vt_crop_mode;

/* Sizes that the file does not give are 0, numbers that may be 0 are -1. */
typedef struct vt_config {
    bool present;
    char architecture[128]; /* "" = not given */
    long classes;           /* -1 */
    size_t depth, width, heads, patch_h, patch_w;
    size_t input_h, input_w; /* of the picture */
    bool pool_given;
    vt_pool pool;
    vt_activation activation;
    float norm_eps;
    bool no_qkv_bias; /* the file says that there is none */
    double crop_pct;
    vt_crop_mode crop_mode;
    vt_filter filter;
    float mean[3], std[3];
    vt_labels labels; /* label_names; count 0 = not given */
} vt_config;

/* Reads timm's config.json. text NULL: there is no file, everything is the default and `warnings` says so.
 * VT_E_BAD_MODEL names the key. The caller frees. */
VT_MUST_USE vt_status vt_config_parse(vt_config *out, const char *text, size_t size, vt_warnings *warnings,
                                      vt_error *err);
void vt_config_free(vt_config *config);

/* The number of heads for a width: from the file, by the architecture's name, or width / 64 with a warning. */
VT_MUST_USE vt_status vt_config_heads(const vt_config *config, size_t width, size_t *heads, vt_warnings *warnings,
                                      vt_error *err);

/* How pictures become input of h x w pixels. */
void vt_config_preprocess(const vt_config *config, size_t h, size_t w, vt_preprocess *out);

#endif
