/* A bounded list of sentences: a file with a million unknown tensors must not make a million remarks. */
#include "engine/model/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vt_warnings_add(vt_warnings *warnings, const char *fmt, ...)
{
    char text[512];
    if (warnings->count == VT_WARNINGS_MAX) {
        char **last = &warnings->texts[VT_WARNINGS_MAX - 1];
        warnings->left_out += warnings->left_out ? 1 : 2; /* this one, and at first the one that gives its place */
        snprintf(text, sizeof text, "and %zu further remarks", warnings->left_out);
        char *copy = strdup(text);
        if (copy) {
            free(*last);
            *last = copy;
        }
        return;
    }
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char *copy = strdup(text);
    if (copy)
        warnings->texts[warnings->count++] = copy;
}

void vt_warnings_free(vt_warnings *warnings)
{
    for (size_t i = 0; i < warnings->count; i++)
        free(warnings->texts[i]);
    memset(warnings, 0, sizeof *warnings);
}
