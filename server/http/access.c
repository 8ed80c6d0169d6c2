/* Tokens and origins.
 *
 * The service keeps SHA-256 digests of the tokens, not the tokens, and compares every candidate with every digest over
 * its whole length: the time says nothing about how much was right. (A token that a request presents does pass through
 * the buffers of that request.) */
#include "server/http/access.h"

#include "vitral/hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TOKENS_MAX = 64, TOKEN_MAX = 512, BLANKS_MAX = 8 };

static const char name_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

typedef struct token_list {
    size_t count;
    uint8_t digests[TOKENS_MAX][32];
    unsigned owners[TOKENS_MAX];                     /* never 0 */
    char names[TOKENS_MAX][VTS_CLIENT_NAME_MAX + 1]; /* "" without one */
} token_list;

struct vts_access {
    char *token_file;     /* NULL: no token is asked for */
    pthread_mutex_t lock; /* of the two that follow */
    token_list tokens;
    unsigned last_owner;
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

/* TOKEN, or NAME and blanks and TOKEN. The message says the line's number and nothing of what is in it. */
static vt_status take_line(token_list *tokens, const char *line, size_t n, size_t number, vt_error *err)
{
    const size_t first = strcspn(line, " \t") < n ? strcspn(line, " \t") : n;
    const size_t name = first < n ? first : 0, from = name + strspn(line + name, " \t");
    if (name > VTS_CLIENT_NAME_MAX || strspn(line, name_characters) < name)
        return vt_error_set(err, VT_E_INVALID, "token_file",
                            "token_file, line %zu: a name before a token has at most %d letters, digits, dots, dashes "
                            "and underscores",
                            number, VTS_CLIENT_NAME_MAX);
    if (from >= n || n - from > TOKEN_MAX || memchr(line + from, ' ', n - from) || memchr(line + from, '\t', n - from))
        return vt_error_set(
            err, VT_E_INVALID, "token_file",
            "token_file, line %zu: a line is a token of at most %d characters without blanks, or a name and a "
            "token",
            number, TOKEN_MAX);
    memcpy(tokens->names[tokens->count], line, name);
    tokens->names[tokens->count][name] = '\0';
    digest_of(line + from, n - from, tokens->digests[tokens->count++]);
    return VT_OK;
}

static vt_status read_tokens(token_list *tokens, const char *path, vt_error *err)
{
    char line[VTS_CLIENT_NAME_MAX + BLANKS_MAX + TOKEN_MAX + 2];
    vt_status st = VT_OK;
    size_t number = 0;
    tokens->count = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return vt_error_set(err, VT_E_IO, "token_file", "the token file %s cannot be read: %s", path, strerror(errno));
    setvbuf(file, NULL, _IONBF, 0); /* or the tokens would stay in a freed buffer */
    while (st == VT_OK && fgets(line, sizeof line, file)) {
        size_t n = strcspn(line, "\r\n");
        number++;
        if (line[n] == '\0' && !feof(file))
            st = vt_error_set(err, VT_E_INVALID, "token_file",
                              "the token file %s has a line of more than %d characters", path, (int)sizeof line - 2);
        while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
            n--;
        if (n == 0 || line[0] == '#' || st != VT_OK)
            continue;
        if (tokens->count == TOKENS_MAX)
            st = vt_error_set(err, VT_E_INVALID, "token_file", "the token file %s has more than %d tokens", path,
                              TOKENS_MAX);
        else
            st = take_line(tokens, line, n, number, err);
    }
    if (st == VT_OK && ferror(file))
        st = vt_error_set(err, VT_E_IO, "token_file", "the token file %s cannot be read to its end", path);
    explicit_bzero(line, sizeof line);
    fclose(file);
    if (st == VT_OK && tokens->count == 0)
        st = vt_error_set(err, VT_E_INVALID, "token_file", "the token file %s holds no token", path);
    return st;
}

/* Owner of the token with this digest, 0 when there is none; as many steps whichever it is. */
static unsigned owner_of(const token_list *tokens, const uint8_t digest[32])
{
    unsigned found = 0;
    for (size_t k = 0; k < tokens->count; k++) {
        unsigned difference = 0;
        for (size_t i = 0; i < 32; i++)
            difference |= (unsigned)(digest[i] ^ tokens->digests[k][i]);
        found |= tokens->owners[k] & (0u - (unsigned)(difference == 0));
    }
    return found;
}

vt_status vts_access_reload(vts_access *access, vt_error *err)
{
    token_list *fresh = access->token_file ? malloc(sizeof *fresh) : NULL;
    vt_status st = VT_OK;
    if (!access->token_file)
        return VT_OK;
    if (!fresh)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the tokens");
    st = read_tokens(fresh, access->token_file, err);
    if (st == VT_OK) {
        pthread_mutex_lock(&access->lock);
        const size_t count = fresh->count;
        for (fresh->count = 0; fresh->count < count; fresh->count++) {
            const uint8_t *digest = fresh->digests[fresh->count];
            unsigned owner = owner_of(&access->tokens, digest);
            if (!owner)
                owner = owner_of(fresh, digest); /* the same line twice */
            fresh->owners[fresh->count] = owner ? owner : ++access->last_owner;
        }
        access->tokens = *fresh;
        pthread_mutex_unlock(&access->lock);
    }
    free(fresh);
    return st;
}

size_t vts_access_tokens(vts_access *access)
{
    pthread_mutex_lock(&access->lock);
    const size_t count = access->tokens.count;
    pthread_mutex_unlock(&access->lock);
    return count;
}

/* scheme://host or scheme://host:port: exactly what a browser sends. */
static bool is_origin(const char *text, size_t n)
{
    const char *after = memmem(text, n, "://", 3);
    if (!after || after == text)
        return false;
    const size_t host = (size_t)(after - text) + 3;
    return host < n && n <= VTS_ORIGIN_MAX && !memchr(text + host, '/', n - host);
}

vt_status vts_access_open(vts_access **out, const char *token_file, const char *origins, vt_error *err)
{
    vts_access *access = calloc(1, sizeof *access);
    vt_status st = VT_OK;
    if (!access)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the access rules");
    pthread_mutex_init(&access->lock, NULL);
    if (token_file[0]) {
        access->token_file = strdup(token_file);
        st = access->token_file ? vts_access_reload(access, err)
                                : vt_error_set(err, VT_E_NOMEM, "", "no memory for the access rules");
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
            else if (n > 0 && !is_origin(at, n))
                st = vt_error_set(err, VT_E_INVALID, "cors_origins",
                                  "%.*s is no origin: it must be scheme://host or scheme://host:port, without a path, "
                                  "of at most %d characters",
                                  (int)(n < 80 ? n : 80), at, VTS_ORIGIN_MAX);
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
    pthread_mutex_destroy(&access->lock);
    free(access->token_file);
    free(access->origins);
    free(access);
}

/* The name that goes with an owner; as many steps whichever it is. */
static void name_of(const token_list *tokens, vts_holder *holder)
{
    const char *name = "";
    for (size_t k = 0; k < tokens->count; k++)
        name = tokens->owners[k] == holder->owner ? tokens->names[k] : name;
    if (*name)
        memcpy(holder->name, name, sizeof holder->name);
    else
        snprintf(holder->name, sizeof holder->name, "#%u", holder->owner);
}

vts_admission vts_access_check(vts_access *access, const char *authorization, vts_holder *holder)
{
    uint8_t digest[32];
    *holder = (vts_holder){.owner = 0};
    if (!access->token_file)
        return VTS_ADMITTED;
    if (!authorization)
        return VTS_NO_TOKEN;
    const char scheme[] = "bearer ";
    if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return VTS_NO_TOKEN;
    const char *token = authorization + sizeof scheme - 1;
    token += strspn(token, " ");
    digest_of(token, strlen(token), digest);
    pthread_mutex_lock(&access->lock);
    holder->owner = owner_of(&access->tokens, digest);
    if (holder->owner)
        name_of(&access->tokens, holder);
    pthread_mutex_unlock(&access->lock);
    return holder->owner ? VTS_ADMITTED : VTS_WRONG_TOKEN;
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
