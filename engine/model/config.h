/* What the texts beside a checkpoint say (config.json of timm or transformers, preprocessor_config.json,
 * open_clip_config.json), read and checked on their own; checkpoint.c holds them against the tensors. */
#ifndef VT_MODEL_CONFIG_H
#define VT_MODEL_CONFIG_H

#include "engine/model/labels.h"
#include "engine/model/warnings.h"
#include "vitral/model.h"

enum { VT_CONFIG_SIDE_MAX = 16384, VT_CONFIG_CLASSES_MAX = 1000000, VT_CONFIG_HEADS_MAX = 1024 };

/* Whose conventions count: the library that wrote the card. torchvision writes none; its cards look like timm's. */
typedef enum vt_config_origin { VT_FROM_TIMM, VT_FROM_TRANSFORMERS, VT_FROM_OPEN_CLIP } vt_config_origin;

/* model_type of transformers; of the others only CLIP is told apart. */
typedef enum vt_config_net {
    VT_NET_VIT,
    VT_NET_DEIT,
    VT_NET_DINOV2,
    VT_NET_DINOV2_REGISTERS,
    VT_NET_CLIP
} vt_config_net;

typedef enum vt_config_problem {
    VT_PROBLEM_UNSAID,
    VT_PROBLEM_SINGLE_LABEL,
    VT_PROBLEM_MULTI_LABEL,
    VT_PROBLEM_REGRESSION
} vt_config_problem;

/* Where each value stands, for messages: "config.json" and "hidden_size". Static texts. */
typedef struct vt_config_keys {
    const char *file, *width, *depth, *heads, *patch, *classes, *image, *mlp_width, *registers, *joint,
        *text_heads; /* CLIP */
} vt_config_keys;

/* What a card says of a part of the net, which the tensors show by themselves: card.c holds them against each other. */
typedef enum vt_said { VT_UNSAID, VT_SAID_NO, VT_SAID_YES } vt_said;

typedef struct vt_config_said {
    vt_said qkv_bias, qk_norm, layer_scale, class_token, norm_pre, fc_norm, norm, positions;
    vt_said prefix_positions; /* rows of the positions for the prefix tokens */
    double mlp_ratio;         /* timm's; 0 = not given */
} vt_config_said;

/* The text tower of CLIP. Widths of 0: not given, the tensors decide. */
typedef struct vt_config_text {
    bool given;
    bool heads_given, eos_given; /* false: it is the library's default */
    size_t layers, heads, width, mlp_width, context, vocabulary;
    vt_activation activation;
    float norm_eps;
    long eos_id; /* the token whose row is pooled, at its first place; -1: the largest id of the text (open_clip, and
                    transformers where the file says 2, which was never true of any vocabulary) */
} vt_config_text;

/* Sizes that the files do not give are 0, numbers that may be 0 are -1. */
typedef struct vt_config {
    bool present; /* there is a config.json or an open_clip_config.json */
    vt_config_origin origin;
    vt_config_net net;
    const vt_config_keys *keys;
    const char *model_type; /* of transformers, static; NULL = not given */
    char architecture[128]; /* timm's architecture, transformers' class; "" = not given */
    long classes;           /* -1 */
    size_t depth, width, heads, mlp_width, patch_h, patch_w;
    size_t input_h, input_w;     /* what pictures are brought to */
    size_t trained_h, trained_w; /* what the stored positions were made for; 0 = the same */
    long registers;              /* -1 */
    int swiglu;                  /* 1: the MLP has a gate, 0: it has none, -1: not given */
    bool pool_given;
    vt_pool pool;
    vt_activation activation; /* of an MLP without gate */
    float norm_eps;
    vt_config_said said;
    size_t joint; /* CLIP: width of the space of pictures and texts */
    vt_config_text text;
    vt_config_problem problem;
    vt_labels labels;      /* count 0 = not given. transformers leaves them in files of nets without a head */
    vt_preprocess picture; /* input_h 0: only crop_pct is known; see vt_preprocess_for_size */
} vt_config;

typedef struct vt_config_file {
    const char *text; /* NULL: there is no such file */
    size_t size;
} vt_config_file;

typedef struct vt_config_files {
    vt_config_file config;       /* config.json */
    vt_config_file preprocessor; /* preprocessor_config.json */
    vt_config_file open_clip;    /* open_clip_config.json: read for weights in open_clip's names, or where config.json
                                    is missing */
    vt_config_origin origin;     /* as the names of the tensors tell it; for what the files do not say */
    vt_config_net net;
} vt_config_files;

/* Reads the files. What is not there gets the default of the library that would open such a checkpoint, and `warnings`
 * says so where it changes an answer. VT_E_BAD_MODEL names file and key. The texts are not needed afterwards; the caller
 * frees the config. */
VT_MUST_USE vt_status vt_config_parse(vt_config *out, const vt_config_files *files, vt_warnings *warnings,
                                      vt_error *err);
void vt_config_free(vt_config *config);

/* The number of heads for a width: from the file, by the architecture's name, or width / 64 with a warning. */
VT_MUST_USE vt_status vt_config_heads(const vt_config *config, size_t width, size_t *heads, vt_warnings *warnings,
                                      vt_error *err);

/* How pictures become input of h x w pixels. */
void vt_config_preprocess(const vt_config *config, size_t h, size_t w, vt_preprocess *out);

/* What the outputs of the head mean, given their number: sigmoids (multi_label), raw numbers (regression) or a softmax
 * over them (neither). */
void vt_config_outputs(const vt_config *config, size_t classes, bool *multi_label, bool *regression,
                       vt_warnings *warnings);

#endif
