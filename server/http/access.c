/* Tokens and origins.
 *
 * Tokens are kept as SHA-256 digests, so nothing of them lies in memory or in a core file, and every candidate is
 * compared with every digest over its whole length: the time says nothing about how much was right. */
#include "server/http/access.h"

#include "vitral/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 64, TOKEN_MAX = 512 };

struct vts_access {
    size_t tokens;
    bool guarded;
    uint8_t digests[TOKENS_MAX][32];
    char *origins; /* each followed by a NUL, the last by two; NULL: none */
    bool any_origin;
};

static void digest_of(const char *text, size_t size, uint8_t digest[32])
{
    vt_sha256 hash;
    vt_sha256_init(&hash);
    vt_sha256_update(&hash, text, size);
    vt_sha256_final(&hash, digest);
}

static vt_status read_tokens(vts_access *access, const char *path, vt_error *err)
{
    char line[TOKEN_MAX + 2];
    vt_status st = VT_OK;
    FILE *file = fopen(path, "re");
    if (!file)
        return vt_error_set(err, VT_E_IO, "token_file", "the token file %s cannot be read: %s", path, strerror(errno));
    while (st == VT_OK && fgets(line, sizeof line, file)) {
        size_t n = strcspn(line, "\r\n");
        if (line[n] == '\0' && !feof(file))
            st = vt_error_set(err, VT_E_INVALID, "token_file",
                              "the token file %s has a line of more than %d characters", path, TOKEN_MAX);
        while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
            n--;
        if (n == 0 || line[0] == '#' || st != VT_OK)
            continue;
        if (access->tokens == TOKENS_MAX)
            st = vt_error_set(err, VT_E_INVALID, "token_file", "the token file %s has more than %d tokens", path,
                              TOKENS_MAX);
        else
            digest_of(line, n, access->digests[access->tokens++]);
    }
    memset(line, 0, sizeof line);
    fclose(file);
    if (st == VT_OK && access->tokens == 0)
        st = vt_error_set(err, VT_E_INVALID, "token_file", "the token file %s holds no token", path);
    return st;
}

vt_status vts_access_open(vts_access **out, const char *token_file, const char *origins, vt_error *err)
{
    vts_access *access = calloc(1, sizeof *access);
    vt_status st = access ? VT_OK : vt_error_set(err, VT_E_NOMEM, "", "no memory for the access rules");
    if (st == VT_OK && token_file[0]) {
        access->guarded = true;
        st = read_tokens(access, token_file, err);
    }
    if (st == VT_OK && origins[0]) {
        access->origins = calloc(1, strlen(origins) + 2);
        if (!access->origins)
            st = vt_error_set(err, VT_E_NOMEM, "", "no memory for the access rules");
        char *to = access->origins;
        for (const char *at = origins; st == VT_OK && *at;) {
            at += strspn(at, ", \t");
            const size_t n = strcspn(at, ", \t");
            if (n == 1 && *at == '*')
                access->any_origin = true;
            else if (n > 0 && (!strstr(at, "://") || at[n - 1] == '/'))
                st = vt_error_set(err, VT_E_INVALID, "cors_origins",
                                  "%.*s is no origin: it must be scheme://host or scheme://host:port, without a path",
                                  (int)n, at);
            memcpy(to, at, n);
            to += n ? n + 1 : 0;
            at += n;
        }
    }
    if (st != VT_OK) {
        vts_access_close(access);
        return st;
    }
    *out = access;
    return VT_OK;
}

void vts_access_close(vts_access *access)
{
    if (!access)
        return;
    free(access->origins);
    free(access);
}

vts_admission vts_access_check(const vts_access *access, const char *authorization, unsigned *owner)
{
    uint8_t digest[32];
    unsigned found = 0;
    *owner = 0;
    if (!access->guarded)
        return VTS_ADMITTED;
    if (!authorization)
        return VTS_NO_TOKEN;
    const char scheme[] = "bearer ";
    for (size_t k = 0; k < sizeof scheme - 1; k++) {
        const char c = authorization[k];
        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != scheme[k])
            return VTS_NO_TOKEN;
    }
    const char *token = authorization + sizeof scheme - 1;
    token += strspn(token, " ");
    digest_of(token, strlen(token), digest);
    for (size_t k = 0; k < access->tokens; k++) {
        unsigned difference = 0;
        for (size_t i = 0; i < sizeof digest; i++)
            difference |= (unsigned)(digest[i] ^ access->digests[k][i]);
        found |= (unsigned)(k + 1) & (0u - (unsigned)(difference == 0));
    }
    *owner = found;
    return found ? VTS_ADMITTED : VTS_WRONG_TOKEN;
}

bool vts_access_has_origins(const vts_access *access)
{
    return access->origins != NULL;
}

bool vts_access_origin(const vts_access *access, const char *origin)
{
    if (!access->origins || !*origin)
        return false;
    if (access->any_origin)
        return true;
    for (const char *p = access->origins; *p; p += strlen(p) + 1)
        if (strcmp(p, origin) == 0)
            return true;
    return false;
}
