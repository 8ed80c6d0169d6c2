/* PEM files. They are small: whatever is larger than a long chain of certificates is another kind of file. */
#include "server/http/pem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEM_MAX = 256 << 10 };

vt_status vts_pem_read(char **out, const char *path, const char *setting, vt_error *err)
{
    vt_status st = VT_OK;
    size_t size = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return vt_error_set(err, VT_E_IO, setting, "%s: %s cannot be read: %s", setting, path, strerror(errno));
    setvbuf(file, NULL, _IONBF, 0); /* no copy of a key is left in a buffer */
    char *text = calloc(1, PEM_MAX + 1);
    if (!text)
        st = vt_error_set(err, VT_E_NOMEM, "", "no memory for %s", setting);
    else
        size = fread(text, 1, PEM_MAX, file);
    if (st == VT_OK && ferror(file))
        st = vt_error_set(err, VT_E_IO, setting, "%s: %s cannot be read: %s", setting, path, strerror(errno));
    fclose(file);
    if (st == VT_OK && (size == 0 || size == PEM_MAX || !strstr(text, "-----BEGIN ")))
        st = vt_error_set(err, VT_E_INVALID, setting, "%s: %s is no PEM file", setting, path);
    if (st != VT_OK) {
        vts_pem_free(text);
        return st;
    }
    *out = text;
    return VT_OK;
}

void vts_pem_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}
