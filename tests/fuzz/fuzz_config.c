/* Arbitrary text as config.json and as labels.txt. What is accepted can be used: heads divide, sizes are sane, every
 * label finds itself. */
#include "engine/model/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void try_config(const char *text, size_t size)
{
    vt_config config;
    vt_warnings warnings = {0};
    vt_error err = {0};
    if (vt_config_parse(&config, text, size, &warnings, &err) == VT_OK) {
        vt_preprocess rule;
        size_t heads = 0;
        vt_config_preprocess(&config, 224, 160, &rule);
        require(rule.resize_h >= 224 && rule.resize_w >= 160 && rule.resize_h <= 224 * 20);
        if (vt_config_heads(&config, 192, &heads, &warnings, &err) == VT_OK)
            require(heads > 0 && 192 % heads == 0);
        vt_config_free(&config);
    } else {
        require(*err.msg != 0);
    }
    vt_warnings_free(&warnings);
}

static void try_labels(const char *text, size_t size)
{
    vt_labels labels;
    vt_error err = {0};
    if (vt_labels_parse(&labels, text, size, "labels.txt", &err) != VT_OK)
        return;
    for (size_t i = 0; i < labels.count && i < 16; i++) {
        int index = -1;
        require(*labels.texts[i] != 0);
        if (vt_labels_find(&labels, labels.texts[i], "class", &index, &err) == VT_OK)
            require(index >= 0 && (size_t)index < labels.count);
        else
            require(*err.msg && *err.allowed);
    }
    vt_labels_free(&labels);
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
    try_config(text, size);
    try_labels(text, size);
    int index;
    vt_labels numbers;
    vt_error err = {0};
    if (vt_labels_number(&numbers, 10, &err) == VT_OK) {
        if (vt_labels_find(&numbers, text, "class", &index, &err) == VT_OK)
            require(index >= 0 && index < 10);
        vt_labels_free(&numbers);
    }
    free(text);
    return 0;
}
