/* timm's config.json: architecture, sizes, labels, and how pictures are prepared (methods.md 21.3, 20.3, 20.4).
 *
 * A value that is there is either used or refused with its key; nothing is guessed in silence. What is not there gets
 * timm's own default, and the loader's remarks say so where it changes an answer. Older files keep the picture's keys at
 * the top, newer ones in pretrained_cfg, and what was given to timm.create_model in model_args. */
#include "engine/model/config.h"

#include "engine/model/safetensors.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double CROP_PCT_MIN = 0.05; /* below, a resized picture would be 20 times the input */

/* timm's defaults */
static const float MEAN[3] = {0.485f, 0.456f, 0.406f}, STD[3] = {0.229f, 0.224f, 0.225f};
static const double CROP_PCT = 0.875;

typedef struct reader {
    vt_status status; /* of the first fault; later calls do nothing */
    vt_error *err;
} reader;

/* An object of the file, with what to put before its keys in messages; json NULL reads as empty. */
typedef struct part {
    const json_t *json;
    const char *prefix;
} part;

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number with a fraction";
    default:
        return "a truth value";
    }
}

/* The member, or NULL when it is absent or null. */
static const json_t *member(part from, const char *key)
{
    const json_t *value = json_object_get(from.json, key);
    return json_is_null(value) ? NULL : value;
}

static void fault(reader *r, part from, const char *key, const char *must)
{
    if (r->status == VT_OK)
        r->status = vt_error_set(r->err, VT_E_BAD_MODEL, "", "config.json: %s%s must be %s", from.prefix, key, must);
}

static void wrong_type(reader *r, part from, const char *key, const char *must, const json_t *value)
{
    char text[160];
    snprintf(text, sizeof text, "%s, not %s", must, type_name(value));
    fault(r, from, key, text);
}

/* ---- values ---- */

static void read_object(reader *r, part from, const char *key, part *out)
{
    const json_t *value = member(from, key);
    if (value && !json_is_object(value))
        wrong_type(r, from, key, "an object", value);
    else
        out->json = value;
}

static void read_count(reader *r, part from, const char *key, size_t min, size_t max, size_t *out)
{
    const json_t *value = member(from, key);
    char must[96];
    if (!value || r->status != VT_OK)
        return;
    snprintf(must, sizeof must, "a whole number, %zu ... %zu", min, max);
    if (!json_is_integer(value)) {
        wrong_type(r, from, key, must, value);
        return;
    }
    const json_int_t number = json_integer_value(value);
    if (number < (json_int_t)min || number > (json_int_t)max) {
        char text[160];
        snprintf(text, sizeof text, "%s, not %lld", must, (long long)number);
        fault(r, from, key, text);
        return;
    }
    *out = (size_t)number;
}

/* One number for both sides, or [height, width]. */
static void read_sides(reader *r, part from, const char *key, size_t *h, size_t *w)
{
    const json_t *value = member(from, key);
    if (!value || r->status != VT_OK)
        return;
    if (json_is_integer(value)) {
        read_count(r, from, key, 1, VT_CONFIG_SIDE_MAX, h);
        *w = *h;
        return;
    }
    size_t sides[2] = {0, 0};
    for (size_t i = 0; i < 2 && json_array_size(value) == 2; i++) {
        const json_t *side = json_array_get(value, i);
        if (json_is_integer(side) && json_integer_value(side) >= 1 && json_integer_value(side) <= VT_CONFIG_SIDE_MAX)
            sides[i] = (size_t)json_integer_value(side);
    }
    if (sides[0] == 0 || sides[1] == 0) {
        fault(r, from, key, "a whole number or [height, width], 1 ... 16384 each");
        return;
    }
    *h = sides[0];
    *w = sides[1];
}

static const char *read_text(reader *r, part from, const char *key)
{
    const json_t *value = member(from, key);
    if (!value || r->status != VT_OK)
        return NULL;
    if (!json_is_string(value)) {
        wrong_type(r, from, key, "a text", value);
        return NULL;
    }
    return json_string_value(value);
}

/* Three numbers, above `above` when `positive`. */
static bool read_triple(reader *r, part from, const char *key, bool positive, float out[3])
{
    const json_t *value = member(from, key);
    if (!value || r->status != VT_OK)
        return false;
    float read[3];
    bool good = json_is_array(value) && json_array_size(value) == 3;
    for (size_t i = 0; good && i < 3; i++) {
        const json_t *number = json_array_get(value, i);
        const double v = json_is_number(number) ? json_number_value(number) : (double)NAN;
        good = fabs(v) <= 1e6 && (!positive || v >= 1e-6); /* false for NaN */
        read[i] = (float)v;
    }
    if (!good) {
        fault(r, from, key, positive ? "3 numbers above 0, one for each colour" : "3 numbers, one for each colour");
        return false;
    }
    memcpy(out, read, sizeof read);
    return true;
}

/* ---- groups of keys ---- */

static void read_architecture(reader *r, part top, vt_config *config)
{
    const char *name = read_text(r, top, "architecture");
    if (!name)
        return;
    if (strlen(name) >= sizeof config->architecture) {
        fault(r, top, "architecture", "shorter than 128 letters");
        return;
    }
    memcpy(config->architecture, name, strlen(name) + 1);
    if (strstr(name, "_rpn_")) {
        fault(r, top, "architecture",
              "a ViT that normalises before attention and MLP; *_rpn_* models do it afterwards");
        return;
    }
    /* What timm decides by the model's function and writes nowhere. */
    if (strstr(name, "quickgelu"))
        config->activation = VT_QUICK_GELU;
    else if (strstr(name, "so400m") || strstr(name, "giantopt"))
        config->activation = VT_GELU_TANH;
    if (strstr(name, "_clip_"))
        config->norm_eps = 1e-5f;
}

static void read_activation(reader *r, part args, vt_config *config)
{
    static const struct {
        const char *name;
        vt_activation kind;
    } names[] = {{"gelu", VT_GELU},
                 {"gelu_erf", VT_GELU},
                 {"gelu_tanh", VT_GELU_TANH},
                 {"quick_gelu", VT_QUICK_GELU},
                 {"quickgelu", VT_QUICK_GELU}};
    const char *text = read_text(r, args, "act_layer");
    if (!text)
        return;
    for (size_t i = 0; i < VT_COUNT(names); i++) {
        if (strcmp(names[i].name, text) == 0) {
            config->activation = names[i].kind;
            return;
        }
    }
    fault(r, args, "act_layer", "gelu, gelu_tanh or quick_gelu");
}

static void read_pool(reader *r, part from, vt_config *config)
{
    const char *text = read_text(r, from, "global_pool");
    if (!text)
        return;
    if (strcmp(text, "token") == 0 || strcmp(text, "avg") == 0) {
        config->pool_given = true;
        config->pool = strcmp(text, "avg") == 0 ? VT_POOL_AVG : VT_POOL_TOKEN;
        return;
    }
    char must[192], shown[VT_ST_SHOWN];
    snprintf(must, sizeof must, "token or avg, other poolings (%.64s) are not read", vt_st_shown(shown, text));
    fault(r, from, "global_pool", must);
}

static void read_classes(reader *r, part top, part args, part cfg, vt_config *config)
{
    const size_t absent = SIZE_MAX;
    size_t outer = absent, inner = absent;
    read_count(r, top, "num_classes", 0, VT_CONFIG_CLASSES_MAX, &outer);
    read_count(r, args, "num_classes", 0, VT_CONFIG_CLASSES_MAX, &inner);
    if (outer == absent)
        outer = inner;
    if (outer == absent && cfg.json != top.json)
        read_count(r, cfg, "num_classes", 0, VT_CONFIG_CLASSES_MAX, &outer);
    if (outer != absent)
        config->classes = (long)outer;
}

static void read_model_args(reader *r, part args, vt_config *config, vt_warnings *warnings)
{
    /* Keys whose effect stands in the tensors, or that matter in training only. */
    static const char *const known[] = {
        "img_size",       "patch_size",      "embed_dim",      "depth",          "num_heads",        "mlp_ratio",
        "num_classes",    "in_chans",        "global_pool",    "qkv_bias",       "act_layer",        "class_token",
        "reg_tokens",     "no_embed_class",  "pre_norm",       "fc_norm",        "final_norm",       "init_values",
        "qk_norm",        "pos_embed",       "drop_rate",      "weight_init",    "dynamic_img_size", "dynamic_img_pad",
        "pos_drop_rate",  "patch_drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate",   "fix_init",
        "strict_img_size"};
    size_t channels = 3;
    read_sides(r, args, "patch_size", &config->patch_h, &config->patch_w);
    read_count(r, args, "embed_dim", 1, 65536, &config->width);
    read_count(r, args, "depth", 1, 512, &config->depth);
    read_count(r, args, "num_heads", 1, VT_CONFIG_HEADS_MAX, &config->heads);
    read_count(r, args, "in_chans", 3, 3, &channels);
    read_activation(r, args, config);
    const json_t *bias = member(args, "qkv_bias");
    if (bias && !json_is_boolean(bias))
        wrong_type(r, args, "qkv_bias", "true or false", bias);
    config->no_qkv_bias = json_is_false(bias);

    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)args.json, key, value)
    {
        bool is_known = json_is_null(value);
        for (size_t i = 0; !is_known && i < VT_COUNT(known); i++)
            is_known = strcmp(known[i], key) == 0;
        char shown[VT_ST_SHOWN];
        if (!is_known)
            vt_warnings_add(warnings, "config.json: model_args.%s is not read", vt_st_shown(shown, key));
    }
}

static void read_input_size(reader *r, part cfg, part args, vt_config *config)
{
    size_t img_h = 0, img_w = 0;
    const json_t *value = member(cfg, "input_size");
    if (value && r->status == VT_OK) {
        size_t numbers[3] = {0, 0, 0};
        for (size_t i = 0; i < 3 && json_array_size(value) == 3; i++) {
            const json_t *number = json_array_get(value, i);
            if (json_is_integer(number) && json_integer_value(number) >= 1 &&
                json_integer_value(number) <= VT_CONFIG_SIDE_MAX)
                numbers[i] = (size_t)json_integer_value(number);
        }
        if (numbers[0] != 3 || numbers[1] == 0 || numbers[2] == 0) {
            fault(r, cfg, "input_size", "[3, height, width] (3 colours, sides of 1 ... 16384 pixels)");
            return;
        }
        config->input_h = numbers[1];
        config->input_w = numbers[2];
    }
    read_sides(r, args, "img_size", &img_h, &img_w);
    if (config->input_h == 0) {
        config->input_h = img_h;
        config->input_w = img_w;
    } else if (img_h && (img_h != config->input_h || img_w != config->input_w)) {
        fault(r, cfg, "input_size", "the same size as model_args.img_size");
    }
}

static void read_picture(reader *r, part cfg, vt_config *config, vt_warnings *warnings)
{
    const bool mean = read_triple(r, cfg, "mean", false, config->mean);
    const bool std = read_triple(r, cfg, "std", true, config->std);

    const json_t *crop = member(cfg, "crop_pct");
    if (crop) {
        const double value = json_is_number(crop) ? json_number_value(crop) : 0.0;
        if (value >= CROP_PCT_MIN && value <= 1.0)
            config->crop_pct = value;
        else
            fault(r, cfg, "crop_pct", "a number, 0.05 ... 1");
    }

    const char *mode = read_text(r, cfg, "crop_mode");
    if (mode && strcmp(mode, "squash") == 0)
        config->crop_mode = VT_CROP_SQUASH;
    else if (mode && strcmp(mode, "border") == 0)
        config->crop_mode = VT_CROP_BORDER;
    else if (mode && strcmp(mode, "center") != 0)
        fault(r, cfg, "crop_mode", "center, squash or border");

    const char *filter = read_text(r, cfg, "interpolation");
    if (filter) {
        size_t k = 0;
        while (vt_filter_names[k] && strcmp(vt_filter_names[k], filter) != 0)
            k++;
        if (vt_filter_names[k])
            config->filter = (vt_filter)k;
        else
            fault(r, cfg, "interpolation", "nearest, lanczos, bilinear, bicubic, box or hamming");
    }
    if (r->status == VT_OK && !(mean && std && crop && filter))
        vt_warnings_add(warnings, "config.json does not give%s%s%s%s: timm's defaults are used", mean ? "" : " mean",
                        std ? "" : " std", crop ? "" : " crop_pct", filter ? "" : " interpolation");
}

static void read_label_names(reader *r, part top, vt_config *config)
{
    const json_t *list = member(top, "label_names");
    if (!list || r->status != VT_OK)
        return;
    if (!json_is_array(list)) {
        wrong_type(r, top, "label_names", "a list of texts", list);
        return;
    }
    const size_t count = json_array_size(list);
    const char **texts = calloc(count + 1, sizeof *texts);
    if (!texts) {
        r->status = vt_error_set(r->err, VT_E_NOMEM, "", "config.json: no memory for %zu label_names", count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        texts[i] = json_string_value(json_array_get(list, i));
        if (!texts[i] || !*texts[i]) {
            char must[96];
            snprintf(must, sizeof must, "a list of texts that are not empty; entry %zu is none", i);
            fault(r, top, "label_names", must);
            break;
        }
    }
    if (r->status == VT_OK)
        r->status = vt_labels_copy(&config->labels, texts, count, r->err);
    free(texts);
}

/* ---- the file ---- */

static vt_status read_config(vt_config *config, const json_t *root, vt_warnings *warnings, vt_error *err)
{
    reader r = {.status = VT_OK, .err = err};
    const part top = {root, ""};
    part args = {NULL, "model_args."}, cfg = {NULL, "pretrained_cfg."};
    read_object(&r, top, "model_args", &args);
    read_object(&r, top, "pretrained_cfg", &cfg);
    if (!cfg.json)
        cfg = top;
    read_architecture(&r, top, config);
    read_pool(&r, top, config);
    read_pool(&r, args, config); /* what the model was made with counts */
    read_classes(&r, top, args, cfg, config);
    read_model_args(&r, args, config, warnings);
    read_input_size(&r, cfg, args, config);
    read_picture(&r, cfg, config, warnings);
    read_label_names(&r, top, config);
    return r.status;
}

vt_status vt_config_parse(vt_config *out, const char *text, size_t size, vt_warnings *warnings, vt_error *err)
{
    vt_config config = {.classes = -1,
                        .pool = VT_POOL_TOKEN,
                        .activation = VT_GELU,
                        .norm_eps = 1e-6f,
                        .crop_pct = CROP_PCT,
                        .crop_mode = VT_CROP_CENTER,
                        .filter = VT_FILTER_BICUBIC};
    memcpy(config.mean, MEAN, sizeof config.mean);
    memcpy(config.std, STD, sizeof config.std);
    if (!text) {
        vt_warnings_add(warnings, "config.json is missing: pictures are prepared by timm's defaults (crop_pct 0.875, "
                                  "bicubic, mean and std of ImageNet)");
        *out = config;
        return VT_OK;
    }
    config.present = true;

    json_error_t fault_at;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault_at);
    if (!root) {
        char shown[VT_ST_SHOWN];
        if (json_error_code(&fault_at) == json_error_out_of_memory)
            return vt_error_set(err, VT_E_NOMEM, "", "config.json: no memory to read it");
        return vt_error_set(err, VT_E_BAD_MODEL, "", "config.json is not valid JSON (line %d: %s)", fault_at.line,
                            vt_st_shown(shown, fault_at.text));
    }
    vt_status status = VT_OK;
    if (!json_is_object(root))
        status = vt_error_set(err, VT_E_BAD_MODEL, "", "config.json must hold an object, not %s", type_name(root));
    else
        status = read_config(&config, root, warnings, err);
    json_decref(root);
    if (status != VT_OK) {
        vt_config_free(&config);
        return status;
    }
    *out = config;
    return VT_OK;
}

void vt_config_free(vt_config *config)
{
    vt_labels_free(&config->labels);
}

/* ---- what follows from it ---- */

vt_status vt_config_heads(const vt_config *config, size_t width, size_t *heads, vt_warnings *warnings, vt_error *err)
{
    /* The sizes that timm's names stand for. */
    static const struct {
        const char *word;
        size_t width, heads;
    } sizes[] = {{"tiny", 192, 3},   {"small", 384, 6},    {"base", 768, 12},   {"large", 1024, 16},
                 {"huge", 1280, 16}, {"so400m", 1152, 16}, {"giant", 1408, 16}, {"gigantic", 1664, 16}};
    size_t found = config->heads;
    if (found && width % found != 0)
        return vt_error_set(
            err, VT_E_BAD_MODEL, "",
            "config.json: model_args.num_heads is %zu, which does not divide the width %zu of the tensors", found,
            width);
    for (size_t i = 0; !found && i < VT_COUNT(sizes); i++)
        if (sizes[i].width == width && strstr(config->architecture, sizes[i].word))
            found = sizes[i].heads;
    if (!found) {
        for (size_t i = 0; !found && i < 5; i++) /* the five words that mean a head count by themselves */
            if (width % sizes[i].heads == 0 && strstr(config->architecture, sizes[i].word))
                found = sizes[i].heads;
        if (!found && width % 64 == 0)
            found = width / 64;
        if (!found)
            return vt_error_set(
                err, VT_E_BAD_MODEL, "",
                "%s: the head count is nowhere in the tensors, and width %zu is not a multiple of 64",
                config->present ? "config.json gives no model_args.num_heads" : "config.json is missing", width);
        vt_warnings_add(warnings, "config.json gives no model_args.num_heads: %zu heads of %zu are assumed", found,
                        width / found);
    }
    *heads = found;
    return VT_OK;
}

/* round(255 * mean), halves to even as Python does it. */
static uint8_t grey_level(float mean)
{
    const double level = (double)mean * 255.0;
    const double rounded = nearbyint(level);
    return (uint8_t)(rounded < 0.0 ? 0.0 : rounded > 255.0 ? 255.0 : rounded);
}

void vt_config_preprocess(const vt_config *config, size_t h, size_t w, vt_preprocess *out)
{
    memset(out, 0, sizeof *out);
    out->input_h = h;
    out->input_w = w;
    out->resize_h = (size_t)floor((double)h / config->crop_pct);
    out->resize_w = (size_t)floor((double)w / config->crop_pct);
    out->crop = VT_CROP_ROUND_EVEN;
    out->filter = config->filter;
    out->crop_pct = config->crop_pct;
    memcpy(out->mean, config->mean, sizeof out->mean);
    memcpy(out->std, config->std, sizeof out->std);
    switch (config->crop_mode) {
    case VT_CROP_CENTER:
        out->resize = out->resize_h == out->resize_w ? VT_RESIZE_SHORTER : VT_RESIZE_KEEP_RATIO;
        break;
    case VT_CROP_SQUASH:
        out->resize = VT_RESIZE_SQUASH;
        break;
    case VT_CROP_BORDER:
        out->resize = VT_RESIZE_BORDER;
        for (size_t i = 0; i < 3; i++)
            out->fill[i] = grey_level(config->mean[i]);
        break;
    }
}
