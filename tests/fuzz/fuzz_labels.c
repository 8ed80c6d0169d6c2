/* Arbitrary text as labels.txt, and each of its labels as the class of a request: it finds a class, or is told why not. */
#include "engine/model/labels.h"
#include "vitral/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TRIED = 16 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void try_class(const vt_labels *labels, const char *text)
{
    int index = -1;
    vt_error err = {0};
    if (vt_labels_find(labels, text, "class", &index, &err) == VT_OK) {
        require(index >= 0 && (size_t)index < labels->count);
        require(vt_labels_sharers(labels, text) <= 1);
    } else {
        require(*err.msg && *err.allowed && vt_utf8_valid(err.msg, strlen(err.msg)));
    }
}

static void use(const vt_labels *labels)
{
    for (size_t i = 0; i < labels->count && i < TRIED; i++) {
        char *other = strdup(labels->texts[i]);
        require(other && *other && vt_utf8_valid(other, strlen(other)));
        try_class(labels, other);
        for (char *c = other; *c; c++) /* which is the same class */
            *c = *c == ' ' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
        require(vt_labels_sharers(labels, other) == vt_labels_sharers(labels, labels->texts[i]));
        try_class(labels, other);
        free(other);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vt_labels labels, numbers;
    vt_error err = {0};
    if (size > 1u << 18)
        return 0;
    char *text = malloc(size + 1), *exact = malloc(size ? size : 1);
    require(text && exact);
    if (size) {
        memcpy(text, data, size);
        memcpy(exact, data, size); /* nothing behind it that could be read */
    }
    text[size] = 0;
    if (vt_labels_parse(&labels, exact, size, "labels.txt", &err) == VT_OK) {
        use(&labels);
        if (labels.count > 0)
            try_class(&labels, text);
        vt_labels_free(&labels);
    } else {
        require(*err.msg != 0);
    }
    if (vt_labels_number(&numbers, 10, &err) == VT_OK) {
        if (vt_utf8_valid(text, strlen(text)))
            try_class(&numbers, text);
        vt_labels_free(&numbers);
    }
    free(text);
    free(exact);
    return 0;
}
