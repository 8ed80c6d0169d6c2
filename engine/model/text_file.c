/* Reading a small file whole, within a limit, without being held up by what is no file. Messages give the name only. */
#include "engine/model/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *vt_path_join(const char *folder, const char *name)
{
    const size_t room = strlen(folder) + strlen(name) + 2;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s%s%s", folder, *folder && folder[strlen(folder) - 1] != '/' ? "/" : "", name);
    return path;
}

static vt_status read_all(char **text, size_t *size, int fd, const char *name, vt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return vt_error_set(err, VT_E_IO, "", "%s: %s", name, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s is not a regular file", name);
    if (st.st_size > VT_TEXT_FILE_MAX)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s has %lld bytes, more than the %d that are read", name,
                            (long long)st.st_size, (int)VT_TEXT_FILE_MAX);
    const size_t room = (size_t)st.st_size;
    char *bytes = malloc(room + 1);
    if (!bytes)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for %zu bytes", name, room);
    size_t at = 0;
    while (at < room) {
        const ssize_t n = read(fd, bytes + at, room - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            const vt_status status = vt_error_set(err, VT_E_IO, "", "%s: %s", name, strerror(errno));
            free(bytes);
            return status;
        }
        if (n == 0)
            break;
        at += (size_t)n;
    }
    bytes[at] = 0;
    *text = bytes;
    *size = at;
    return VT_OK;
}

vt_status vt_text_file_read(char **text, size_t *size, const char *folder, const char *name, vt_error *err)
{
    *text = NULL;
    *size = 0;
    char *path = vt_path_join(folder, name);
    if (!path)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory", name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const int fault = errno;
    free(path);
    if (fd < 0)
        return fault == ENOENT ? VT_OK
                               : vt_error_set(err, VT_E_IO, "", "%s cannot be opened: %s", name, strerror(fault));
    const vt_status status = read_all(text, size, fd, name, err);
    close(fd);
    return status;
}
