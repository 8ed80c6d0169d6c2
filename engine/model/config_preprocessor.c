/* preprocessor_config.json of transformers: how pictures become input (methods.md 20.3, 20.4, 21.3).
 *
 * Four processors share the keys and differ in their defaults and in what a bare number for `size` means: a square for
 * ViT and DeiT, the shorter side for Bit (DINOv2) and CLIP. The size of the net's input follows from the crop, or from
 * the size where nothing is cropped; config.json's image_size only says what the positions were made for. Where a crop
 * has an odd rest, transformers on PIL rounds its offset down (its torchvision backend rounds toward zero, which differs
 * for padding only). */
#include "engine/model/config_readers.h"

#include "engine/model/safetensors.h"

#include <stdio.h>
#include <string.h>

static const struct processor {
    const char *name; /* in image_processor_type and feature_extractor_type, what follows is free */
    bool square;      /* a bare number means a square */
    bool crops;
    size_t size, crop;
    vt_filter filter;
    bool clip_colours; /* mean and std of CLIP, else 0.5 */
} processors[] = {
    {"ViT", true, false, 224, 224, VT_FILTER_BILINEAR, false},
    {"DeiT", true, true, 256, 224, VT_FILTER_BICUBIC, false},
    {"Bit", false, true, 224, 224, VT_FILTER_BICUBIC, true},
    {"CLIP", false, true, 224, 224, VT_FILTER_BICUBIC, true},
};

static const struct processor *processor_of(vt_config_net net)
{
    switch (net) {
    case VT_NET_DEIT:
        return &processors[1];
    case VT_NET_DINOV2:
    case VT_NET_DINOV2_REGISTERS:
        return &processors[2];
    case VT_NET_CLIP:
        return &processors[3];
    case VT_NET_VIT:
        break;
    }
    return &processors[0];
}

static void use_defaults(const struct processor *kind, vt_preprocess *picture)
{
    static const float half[3] = {0.5f, 0.5f, 0.5f};
    *picture = (vt_preprocess){.resize = kind->square ? VT_RESIZE_SQUASH : VT_RESIZE_SHORTER,
                               .resize_h = kind->size,
                               .resize_w = kind->size,
                               .crop = VT_CROP_FLOOR,
                               .input_h = kind->crop,
                               .input_w = kind->crop,
                               .filter = kind->filter,
                               .crop_pct = (double)kind->crop / (double)kind->size};
    memcpy(picture->mean, kind->clip_colours ? vt_mean_clip : half, sizeof picture->mean);
    memcpy(picture->std, kind->clip_colours ? vt_std_clip : half, sizeof picture->std);
}

void vt_config_default_preprocessor(vt_config *config)
{
    use_defaults(processor_of(config->net), &config->picture);
}

/* ViTImageProcessor, ViTFeatureExtractor, ViTImageProcessorFast, ...: the file's own word goes before the model_type. */
static const struct processor *read_processor(vt_reader *r, vt_part top, vt_config_net net)
{
    static const char *const endings[] = {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil",
                                          "FeatureExtractor"};
    const char *key = "image_processor_type", *type = vt_json_text(r, top, key);
    char must[VT_ST_SHOWN + 96], shown[VT_ST_SHOWN];
    if (!type && r->status == VT_OK)
        type = vt_json_text(r, top, key = "feature_extractor_type");
    for (size_t i = 0; type && i < VT_COUNT(processors); i++) {
        const size_t n = strlen(processors[i].name);
        for (size_t k = 0; strncmp(type, processors[i].name, n) == 0 && k < VT_COUNT(endings); k++)
            if (strcmp(type + n, endings[k]) == 0)
                return &processors[i];
    }
    if (type) {
        snprintf(must, sizeof must, "the image processor of ViT, DeiT, Bit or CLIP, not %.100s",
                 vt_st_shown(shown, type));
        vt_json_fault(r, top, key, must);
    }
    return processor_of(net);
}

/* ---- sizes ---- */

/* size: a number, [h, w], {"height", "width"} or {"shortest_edge"}. */
static void read_size(vt_reader *r, vt_part top, bool square, vt_preprocess *picture)
{
    const json_t *value = vt_json_member(top, "size");
    size_t edge = 0;
    if (!value || r->status != VT_OK)
        return;
    if (json_is_object(value) && json_object_size(value) == 1 && json_object_get(value, "shortest_edge")) {
        vt_json_count(r, (vt_part){value, "size."}, "shortest_edge", 1, VT_CONFIG_SIDE_MAX, &edge);
        square = false;
    } else if (json_is_object(value) && (!json_object_get(value, "height") || !json_object_get(value, "width"))) {
        vt_json_fault(r, top, "size", "a whole number, {\"height\", \"width\"} or {\"shortest_edge\"}");
        return;
    } else if (json_is_integer(value) && !square) {
        vt_json_count(r, top, "size", 1, VT_CONFIG_SIDE_MAX, &edge);
    } else {
        vt_json_sides(r, top, "size", true, &picture->resize_h, &picture->resize_w);
        square = true;
    }
    if (edge)
        picture->resize_h = picture->resize_w = edge;
    picture->resize = square ? VT_RESIZE_SQUASH : VT_RESIZE_SHORTER;
}

static void read_sizes(vt_reader *r, vt_part top, const struct processor *kind, vt_preprocess *picture)
{
    bool resizes = true, crops = kind->crops, square = kind->square;
    vt_json_bool(r, top, "do_resize", &resizes);
    vt_json_bool(r, top, "do_center_crop", &crops);
    vt_json_bool(r, top, "default_to_square", &square);
    if (!resizes)
        vt_json_fault(r, top, "do_resize", "true: the net takes one size only");
    read_size(r, top, square, picture);
    if (crops)
        vt_json_sides(r, top, "crop_size", true, &picture->input_h, &picture->input_w);
    else if (picture->resize != VT_RESIZE_SQUASH)
        vt_json_fault(r, top, "do_center_crop", "true where size gives the shorter side only");
    if (!crops) {
        picture->input_h = picture->resize_h;
        picture->input_w = picture->resize_w;
    }
    const size_t most = picture->input_h > picture->input_w ? picture->input_h : picture->input_w;
    const size_t least = picture->input_h < picture->input_w ? picture->input_h : picture->input_w;
    if (picture->resize_h * 20 < most || picture->resize_w * 20 < most || picture->resize_h > 20 * least ||
        picture->resize_w > 20 * least)
        vt_json_fault(r, top, "crop_size", "at least a 20th and at most 20 times the size");
    picture->crop_pct = (double)picture->input_h / (double)picture->resize_h;
}

/* ---- colours ---- */

/* (v * factor - mean) / std, brought to (v / 255 - mean') / std'. */
static void read_colours(vt_reader *r, vt_part top, vt_preprocess *picture)
{
    bool rescales = true, normalises = true, converts = true;
    double factor = 1.0 / 255.0;
    vt_json_bool(r, top, "do_rescale", &rescales);
    vt_json_number(r, top, "rescale_factor", 1e-6, 1e3, &factor);
    vt_json_bool(r, top, "do_normalize", &normalises);
    vt_json_bool(r, top, "do_convert_rgb", &converts); /* pictures are RGB once they are decoded */
    vt_json_triple(r, top, "image_mean", false, picture->mean);
    vt_json_triple(r, top, "image_std", true, picture->std);
    if (!rescales)
        factor = 1.0;
    for (size_t c = 0; c < 3; c++) {
        if (!normalises) {
            picture->mean[c] = 0.0f;
            picture->std[c] = 1.0f;
        }
        const double scale = factor * 255.0;
        if (scale > 1.0 - 1e-6 && scale < 1.0 + 1e-6)
            continue; /* 1/255 as files round it */
        picture->mean[c] = (float)((double)picture->mean[c] / scale);
        picture->std[c] = (float)((double)picture->std[c] / scale);
    }
}

static void read_filter(vt_reader *r, vt_part top, vt_preprocess *picture)
{
    size_t code = (size_t)picture->filter;
    vt_json_count(r, top, "resample", 0, VT_FILTER_COUNT - 1, &code);
    picture->filter = (vt_filter)code;
}

/* A step that is switched on and that nobody here knows changes the picture; any other unknown key is remarked. */
static void refuse_unknown_steps(vt_reader *r, vt_part top)
{
    static const char *const steps[] = {"do_resize",    "do_center_crop", "do_rescale",
                                        "do_normalize", "do_convert_rgb", NULL};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)top.json, key, value)
    {
        bool known = strncmp(key, "do_", 3) != 0 || !json_is_true(value);
        for (size_t i = 0; !known && steps[i]; i++)
            known = strcmp(steps[i], key) == 0;
        char shown[VT_ST_SHOWN];
        if (!known && r->status == VT_OK)
            r->status = vt_error_set(r->err, VT_E_BAD_MODEL, "", "%s: %s is set, which is a step that is not read",
                                     r->file, vt_st_shown(shown, key));
    }
}

void vt_config_read_preprocessor(vt_reader *r, const json_t *root, vt_config *config)
{
    static const char *const known[] = {"_processor_class",
                                        "_valid_processor_keys",
                                        "backend",
                                        "crop_size",
                                        "data_format",
                                        "default_to_square",
                                        "device",
                                        "disable_grouping",
                                        "do_center_crop",
                                        "do_convert_rgb",
                                        "do_normalize",
                                        "do_pad",
                                        "do_rescale",
                                        "do_resize",
                                        "feature_extractor_type",
                                        "image_mean",
                                        "image_processor_type",
                                        "image_std",
                                        "input_data_format",
                                        "processor_class",
                                        "resample",
                                        "rescale_factor",
                                        "return_tensors",
                                        "size",
                                        NULL};
    const vt_part top = {root, ""};
    vt_preprocess *picture = &config->picture;
    const struct processor *kind = read_processor(r, top, config->net);
    use_defaults(kind, picture);
    read_sizes(r, top, kind, picture);
    read_filter(r, top, picture);
    read_colours(r, top, picture);
    vt_json_must_be_off(r, top, "rescale_offset", "values are scaled without an offset");
    refuse_unknown_steps(r, top);
    vt_json_remark_unknown(r, top, known);
    config->input_h = picture->input_h;
    config->input_w = picture->input_w;
}
