/* Files of the command line: reading pictures, naming and writing what comes out.
 *
 * Names are decided before the work starts, in the order of the files, so that they do not depend on which thread was
 * first. A stem that is taken gets -2, -3, ...: also when a file is really called that. */
#include "server/cli/cli.h"

#include "vitral/explain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, BYTES_MAX = 1 << 30 };

static bool taken(char *const *stems, size_t count, const char *stem)
{
    for (size_t k = 0; k < count; k++)
        if (strcmp(stems[k], stem) == 0)
            return true;
    return false;
}

char **vts_stems(const char *const *files, size_t count)
{
    char **stems = calloc(count + 1, sizeof *stems);
    for (size_t k = 0; stems && k < count; k++) {
        const char *slash = strrchr(files[k], '/');
        const char *base = strcmp(files[k], "-") == 0 ? "stdin" : slash ? slash + 1 : files[k];
        const char *dot = strrchr(base, '.');
        const int n = (int)(dot && dot != base ? (size_t)(dot - base) : strlen(base));
        const size_t size = (size_t)n + 24;
        char *stem = malloc(size);
        if (!stem) {
            vts_stems_free(stems, k);
            return NULL;
        }
        snprintf(stem, size, "%.*s", n, base);
        for (size_t again = 2; taken(stems, k, stem); again++)
            snprintf(stem, size, "%.*s-%zu", n, base, again);
        stems[k] = stem;
    }
    return stems;
}

void vts_stems_free(char **stems, size_t count)
{
    for (size_t k = 0; stems && k < count; k++)
        free(stems[k]);
    free(stems);
}

static void append(char *buf, size_t size, const char *fmt, ...) VT_PRINTF(3, 4);

static void append(char *buf, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(buf);
    va_list args;
    va_start(args, fmt);
    vsnprintf(buf + n, size - n, fmt, args);
    va_end(args);
}

void vts_map_name(char *buf, size_t size, const char *stem, const vt_map *map)
{
    snprintf(buf, size, "%s.%s", stem, map->method->name);
    if (map->has_target)
        append(buf, size, ".c%d", map->target.index);
    if (map->layer >= 0)
        append(buf, size, ".l%d", map->layer);
    if (map->head >= 0)
        append(buf, size, ".h%d", map->head);
    if (map->part)
        append(buf, size, ".%s", map->part);
    if (map->channel >= 0)
        append(buf, size, ".ch%d", map->channel);
}

vt_status vts_make_folder(const char *path, vt_error *err)
{
    char part[PATH_BYTES];
    struct stat info;

    if (strlen(path) >= sizeof part)
        return vt_error_set(err, VT_E_IO, "", "the path of the folder is too long");
    for (size_t n = 1; path[n - 1]; n++) {
        if (path[n] && path[n] != '/')
            continue;
        memcpy(part, path, n);
        part[n] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST && !(errno == EROFS && path[n]))
            return vt_error_set(err, VT_E_IO, "", "folder %s: %s", part, strerror(errno));
    }
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return vt_error_set(err, VT_E_IO, "", "%s is no folder", path);
    return VT_OK;
}

vt_status vts_write_file(const char *folder, const char *name, const char *ending, const void *data, size_t size,
                         vt_error *err)
{
    char path[PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);

    if (n < 0 || (size_t)n >= sizeof path)
        return vt_error_set(err, VT_E_IO, "", "the path of %s%s is too long", name, ending);
    FILE *file = fopen(path, "wb");
    if (!file)
        return vt_error_set(err, VT_E_IO, "", "%s: %s", path, strerror(errno));
    const bool written = fwrite(data, 1, size, file) == size;
    const int why = errno;
    if (fclose(file) != 0 || !written)
        return vt_error_set(err, VT_E_IO, "", "%s: %s", path, strerror(written ? errno : why));
    return VT_OK;
}

vt_status vts_read_file(const char *path, unsigned char **data, size_t *size, vt_error *err)
{
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    unsigned char *bytes = NULL;
    size_t capacity = 0, n = 0;
    vt_status st = VT_OK;

    if (!file)
        return vt_error_set(err, VT_E_IO, "", "%s", strerror(errno));
    while (st == VT_OK) {
        if (n == capacity) {
            capacity = capacity ? capacity * 2 : 1 << 16;
            unsigned char *grown = capacity <= BYTES_MAX ? realloc(bytes, capacity) : NULL;
            if (!grown) {
                st = vt_error_set(err, VT_E_NOMEM, "", "more bytes than a picture may have");
                break;
            }
            bytes = grown;
        }
        const size_t got = fread(bytes + n, 1, capacity - n, file);
        n += got;
        if (got == 0)
            break;
    }
    if (st == VT_OK && ferror(file))
        st = vt_error_set(err, VT_E_IO, "", "%s", strerror(errno));
    if (!standard)
        fclose(file);
    if (st != VT_OK) {
        free(bytes);
        return st;
    }
    *data = bytes;
    *size = n;
    return VT_OK;
}
