/* Arbitrary text as the settings of the service. By its first byte: `e` a variable of the environment on each line, `f` a
 * flag on each line, anything else the settings file (JSON). What is accepted is within the table's ranges, and its values
 * can be taken apart; what is refused says which setting. */
#include "server/config/config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 64 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static size_t split(char *text, char *lines[LINES_MAX])
{
    size_t count = 0;
    for (char *next; text && count < LINES_MAX; text = next) {
        next = strchr(text, '\n');
        if (next)
            *next++ = 0;
        lines[count++] = text;
    }
    return count;
}

/* Each value of the struct, by its row. */
static void check_rows(const vts_settings *s)
{
    size_t count;
    const vt_param *rows = vts_settings_table(&count);
    for (size_t k = 0; k < count; k++) {
        const char *at = (const char *)s + rows[k].offset;
        char text[2 * VT_TEXT_MAX];
        int whole;
        double real;
        uint64_t large;
        vts_settings_text(s, k, text, sizeof text);
        require(memchr(text, 0, sizeof text) != NULL);
        switch (rows[k].type) {
        case VT_INT:
        case VT_ENUM:
            memcpy(&whole, at, sizeof whole);
            require(rows[k].type == VT_ENUM || rows[k].choices ||
                    ((double)whole >= rows[k].min && (double)whole <= rows[k].max));
            break;
        case VT_FLOAT:
            memcpy(&real, at, sizeof real);
            require(isfinite(real) && real >= rows[k].min && real <= rows[k].max);
            break;
        case VT_SEED:
            memcpy(&large, at, sizeof large);
            require((double)large >= rows[k].min && (double)large <= rows[k].max);
            break;
        case VT_TEXT:
            require(memchr(at, 0, VT_TEXT_MAX) != NULL);
            break;
        default:
            break;
        }
    }
}

static void use(const vts_settings *s)
{
    char host[256];
    unsigned port = 0;
    vts_model_choice choice;
    vt_error err = {0};
    require(s->models_count <= VTS_MODELS_MAX && s->warnings_count <= VTS_WARNINGS_MAX);
    check_rows(s);
    if (vts_settings_listen(s->listen, host, sizeof host, &port, &err) == VT_OK)
        require(*host && strlen(host) < sizeof host && port <= 65535);
    else
        require(*err.msg != 0);
    for (size_t k = 0; k < s->models_count; k++)
        if (vts_settings_model(&choice, s->models[k], &err) == VT_OK)
            require((choice.image_h > 0) == (choice.image_w > 0) && memchr(choice.name, 0, sizeof choice.name));
        else
            require(*err.msg != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vts_settings settings; /* large */
    char *lines[LINES_MAX + 1], *argv[LINES_MAX + 3] = {(char[]){"vitrald"}}, *env[LINES_MAX + 1] = {NULL};
    char option[64];
    int argc = 1, fd = -1;
    vt_error err = {0};
    if (size == 0 || size > 1u << 16)
        return 0;
    char *text = malloc(size);
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] == 'e') {
        const size_t count = split(text, lines);
        memcpy(env, lines, count * sizeof *env);
        env[count] = NULL;
    } else if (data[0] == 'f') {
        const size_t count = split(text, lines);
        memcpy(argv + 1, lines, count * sizeof *argv);
        argc += (int)count;
    } else {
        fd = memfd_create("settings", MFD_CLOEXEC);
        require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
        snprintf(option, sizeof option, "--config=/proc/self/fd/%d", fd);
        argv[argc++] = option;
    }
    argv[argc] = NULL;
    if (vts_settings_read(&settings, argc, argv, env, &err) == VT_OK)
        use(&settings);
    else
        require(*err.msg != 0);
    if (fd >= 0)
        close(fd);
    free(text);
    return 0;
}
