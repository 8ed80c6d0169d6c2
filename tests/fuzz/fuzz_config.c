/* Arbitrary text as config.json, preprocessor_config.json and open_clip_config.json. What is accepted can be used: heads
 * divide, sizes are sane, no label is empty. */
#include "engine/model/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void try_config(const vt_config_files *files)
{
    vt_config config;
    vt_warnings warnings = {0};
    vt_error err = {0};
    if (vt_config_parse(&config, files, &warnings, &err) == VT_OK) {
        vt_preprocess rule, own;
        size_t heads = 0;
        bool multi_label, regression;
        vt_config_preprocess(&config, 224, 160, &rule);
        require(rule.resize_h >= 11 && rule.resize_w >= 8 && rule.resize_h <= 224 * 20 && rule.resize_w <= 160 * 20);
        require(rule.input_h == 224 && rule.input_w == 160);
        if (config.picture.input_h) {
            vt_preprocess_for_size(&own, &config.picture, config.picture.input_h, config.picture.input_w);
            require(own.resize == config.picture.resize || config.picture.resize_floor);
        }
        for (size_t i = 0; i < 3; i++)
            require(rule.std[i] > 0.0f && rule.mean[i] - rule.mean[i] == 0.0f); /* no infinity */
        if (vt_config_heads(&config, 192, &heads, &warnings, &err) == VT_OK)
            require(heads > 0 && 192 % heads == 0);
        vt_config_outputs(&config, 1, &multi_label, &regression, &warnings);
        require(!(multi_label && regression));
        require(config.swiglu >= -1 && config.swiglu <= 1 && config.norm_eps >= 0.0f && config.norm_eps <= 1.0f);
        for (size_t i = 0; i < config.labels.count && i < 16; i++)
            require(*config.labels.texts[i] != 0);
        vt_config_free(&config);
    } else {
        require(*err.msg != 0);
    }
    vt_warnings_free(&warnings);
}

/* The text as each of the files. */
static void try_as_each_file(const char *text, size_t size)
{
    static const char vit[] = "{\"model_type\": \"vit\"}", clip[] = "{\"model_type\": \"clip\"}";
    const vt_config_file file = {text, size};
    try_config(&(vt_config_files){.config = file});
    try_config(&(vt_config_files){.config = {vit, sizeof vit - 1}, .preprocessor = file});
    try_config(&(vt_config_files){.config = {clip, sizeof clip - 1}, .preprocessor = file});
    try_config(&(vt_config_files){.open_clip = file, .origin = VT_FROM_OPEN_CLIP});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1u << 18)
        return 0;
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    try_as_each_file(text, size);
    free(text);
    return 0;
}
