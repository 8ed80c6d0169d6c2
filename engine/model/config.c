/* The texts beside a checkpoint: which of them count, and what follows where they say nothing.
 *
 * timm and transformers both call their file config.json; transformers' has a model_type. open_clip has a file of its
 * own, and folders of the hub often hold all three with two sets of weights, so for open_clip's file the names of the
 * tensors decide. preprocessor_config.json belongs to transformers alone: timm and open_clip keep the picture's keys in
 * their own files. Reading of each is in config_timm.c, config_transformers.c, config_preprocessor.c and
 * config_open_clip.c; what is said nowhere is remarked here. */
#include "engine/model/config.h"

#include "engine/model/config_readers.h"

#include <stdio.h>
#include <string.h>

const float vt_mean_imagenet[3] = {0.485f, 0.456f, 0.406f}, vt_std_imagenet[3] = {0.229f, 0.224f, 0.225f};
const float vt_mean_clip[3] = {0.48145466f, 0.4578275f, 0.40821073f};
const float vt_std_clip[3] = {0.26862954f, 0.26130258f, 0.27577711f};

static void use_defaults(vt_config *config, vt_config_origin origin)
{
    config->origin = origin;
    switch (origin) {
    case VT_FROM_TIMM:
        vt_config_default_timm(config);
        break;
    case VT_FROM_TRANSFORMERS:
        vt_config_default_transformers(config);
        break;
    case VT_FROM_OPEN_CLIP:
        vt_config_default_open_clip(config);
        break;
    }
}

static const char *net_name(vt_config_net net)
{
    static const char *const names[] = {"ViT", "DeiT", "DINOv2", "DINOv2 with registers", "CLIP"};
    return names[(size_t)net < VT_COUNT(names) ? net : VT_NET_VIT];
}

/* ---- preprocessor_config.json ---- */

static void remark_own_preprocessing(const vt_config *config, vt_warnings *warnings)
{
    const vt_preprocess *p = &config->picture;
    char colours[96];
    snprintf(colours, sizeof colours, "mean %g %g %g, std %g %g %g", (double)p->mean[0], (double)p->mean[1],
             (double)p->mean[2], (double)p->std[0], (double)p->std[1], (double)p->std[2]);
    vt_warnings_add(warnings,
                    "preprocessor_config.json is missing: pictures are prepared as transformers does by default for "
                    "%s (%s, %s, %s)",
                    net_name(config->net), p->resize == VT_RESIZE_SQUASH ? "squashed" : "shorter side, then the middle",
                    vt_filter_names[p->filter], colours);
}

static vt_status read_preprocessor(vt_config *config, const vt_config_file *file, vt_warnings *warnings, vt_error *err)
{
    vt_reader r = {.err = err, .warnings = warnings, .file = "preprocessor_config.json"};
    json_t *root = NULL;
    if (!file->text) {
        remark_own_preprocessing(config, warnings);
        return VT_OK;
    }
    r.status = vt_json_load(&root, r.file, file, err);
    if (r.status == VT_OK)
        vt_config_read_preprocessor(&r, root, config);
    json_decref(root);
    const bool always_resampled = config->net == VT_NET_DINOV2 || config->net == VT_NET_DINOV2_REGISTERS;
    if (r.status == VT_OK && config->trained_h && !always_resampled &&
        (config->trained_h != config->input_h || config->trained_w != config->input_w))
        vt_warnings_add(warnings,
                        "preprocessor_config.json brings pictures to %zu x %zu pixels, but image_size of config.json "
                        "is %zu x %zu: positions are resampled",
                        config->input_h, config->input_w, config->trained_h, config->trained_w);
    return r.status;
}

/* ---- config.json and open_clip_config.json ---- */

/* A card that has the marks of both libraries is read as the one that the names of the tensors come from. */
static bool is_transformers(const json_t *root, vt_config_origin names)
{
    const bool timm = json_object_get(root, "architecture") || json_object_get(root, "pretrained_cfg");
    const bool marked = json_object_get(root, "model_type") || json_object_get(root, "architectures");
    return marked && (!timm || names == VT_FROM_TRANSFORMERS);
}

static vt_status read_config(vt_config *config, const vt_config_files *files, vt_warnings *warnings, vt_error *err)
{
    vt_reader r = {.err = err, .warnings = warnings, .file = "config.json"};
    json_t *root = NULL;
    r.status = vt_json_load(&root, r.file, &files->config, err);
    if (r.status != VT_OK)
        return r.status;
    if (is_transformers(root, files->origin)) {
        use_defaults(config, VT_FROM_TRANSFORMERS);
        vt_config_read_transformers(&r, root, config);
    } else {
        use_defaults(config, VT_FROM_TIMM);
        vt_config_read_timm(&r, root, config);
    }
    json_decref(root);
    return r.status;
}

static vt_status read_open_clip(vt_config *config, const vt_config_file *file, vt_warnings *warnings, vt_error *err)
{
    vt_reader r = {.err = err, .warnings = warnings, .file = "open_clip_config.json"};
    json_t *root = NULL;
    use_defaults(config, VT_FROM_OPEN_CLIP);
    r.status = vt_json_load(&root, r.file, file, err);
    if (r.status == VT_OK)
        vt_config_read_open_clip(&r, root, config);
    json_decref(root);
    return r.status;
}

static void remark_missing(const vt_config *config, vt_warnings *warnings)
{
    switch (config->origin) {
    case VT_FROM_TIMM:
        vt_warnings_add(warnings, "config.json is missing: pictures are prepared by timm's defaults (crop_pct 0.875, "
                                  "bicubic, mean and std of ImageNet)");
        break;
    case VT_FROM_TRANSFORMERS:
        vt_warnings_add(warnings,
                        "config.json is missing: transformers' defaults for %s are used (%s, layer_norm_eps %g)",
                        net_name(config->net), config->activation == VT_QUICK_GELU ? "quick_gelu" : "gelu",
                        (double)config->norm_eps);
        break;
    case VT_FROM_OPEN_CLIP:
        vt_warnings_add(warnings, "open_clip_config.json is missing: open_clip's defaults are used (GELU, heads of 64, "
                                  "bicubic, mean and std of CLIP); nets of OpenAI would need quick_gelu");
        break;
    }
}

vt_status vt_config_parse(vt_config *out, const vt_config_files *files, vt_warnings *warnings, vt_error *err)
{
    vt_config config = {.classes = -1, .registers = -1, .swiglu = -1, .net = files->net, .text = {.eos_id = -1}};
    vt_status status = VT_OK;
    config.present = files->config.text || files->open_clip.text;
    if (files->open_clip.text && (files->origin == VT_FROM_OPEN_CLIP || !files->config.text)) {
        status = read_open_clip(&config, &files->open_clip, warnings, err);
    } else if (files->config.text) {
        status = read_config(&config, files, warnings, err);
    } else {
        use_defaults(&config, files->origin);
        remark_missing(&config, warnings);
    }
    if (status == VT_OK && config.origin == VT_FROM_TRANSFORMERS)
        status = read_preprocessor(&config, &files->preprocessor, warnings, err);
    else if (status == VT_OK && files->preprocessor.text)
        vt_warnings_add(warnings, "preprocessor_config.json is not read: %s says how pictures are prepared",
                        config.present ? config.keys->file : "no file of transformers is beside it, so timm");
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
    const char *file = config->keys->file, *key = config->keys->heads;
    size_t found = config->heads;
    if (found && width % found != 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is %zu, which does not divide the width %zu", file, key,
                            found, width);
    for (size_t i = 0; !found && i < VT_COUNT(sizes); i++)
        if (sizes[i].width == width && strstr(config->architecture, sizes[i].word))
            found = sizes[i].heads;
    if (!found) {
        for (size_t i = 0; !found && i < 5; i++) /* the five words that mean a head count by themselves */
            if (width % sizes[i].heads == 0 && strstr(config->architecture, sizes[i].word))
                found = sizes[i].heads;
        if (!found && width % 64 == 0)
            found = width / 64;
        if (!found && config->present)
            return vt_error_set(err, VT_E_BAD_MODEL, "",
                                "%s gives no %s: the head count is nowhere in the tensors, and width %zu is not a "
                                "multiple of 64",
                                file, key, width);
        if (!found)
            return vt_error_set(err, VT_E_BAD_MODEL, "",
                                "%s is missing: the head count is nowhere in the tensors, and width %zu is not a "
                                "multiple of 64",
                                file, width);
        vt_warnings_add(warnings, "%s gives no %s: %zu heads of %zu are assumed", file, key, found, width / found);
    }
    *heads = found;
    return VT_OK;
}

void vt_config_preprocess(const vt_config *config, size_t h, size_t w, vt_preprocess *out)
{
    vt_preprocess_for_size(out, &config->picture, h, w);
}

void vt_config_outputs(const vt_config *config, size_t classes, bool *multi_label, bool *regression,
                       vt_warnings *warnings)
{
    *multi_label = config->problem == VT_PROBLEM_MULTI_LABEL;
    *regression = config->problem == VT_PROBLEM_REGRESSION;
    if (classes != 1 || *multi_label || *regression)
        return;
    if (config->problem == VT_PROBLEM_SINGLE_LABEL) {
        vt_warnings_add(warnings,
                        "%s: problem_type is single_label_classification with one output: its probability is always 1",
                        config->keys->file);
    } else if (config->origin == VT_FROM_TIMM) {
        *multi_label = true; /* one output of timm means yes or no */
    } else {
        *regression = true;
        vt_warnings_add(warnings,
                        "%s gives no problem_type for one output: it is taken as a regression, as transformers does; "
                        "multi_label_classification would make it a probability",
                        config->keys->file);
    }
}
