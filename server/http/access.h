/* Who may call: bearer tokens, and origins that browsers may call from. Origins are const after open, tokens may be read
 * again. Any thread. */
#ifndef VTS_HTTP_ACCESS_H
#define VTS_HTTP_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/status.h"

enum { VTS_ORIGIN_MAX = 511 /* more than the longest host name makes */, VTS_CLIENT_NAME_MAX = 64 };

typedef struct vts_access vts_access;

/* token_file "": no token is asked for; else a token per line, or NAME TOKEN: the name stands in the log and may be that of
 * several tokens. origins: comma separated, "*" for all, "" for none. VT_E_IO, VT_E_INVALID. */
VT_MUST_USE vt_status vts_access_open(vts_access **out, const char *token_file, const char *origins, vt_error *err);
void vts_access_close(vts_access *access);

/* Reads the file of vts_access_open again; nothing changes when it cannot be used. A token that was known keeps its owner
 * number, a new one gets a number that nobody had: what somebody has stored is never shown to somebody else. */
VT_MUST_USE vt_status vts_access_reload(vts_access *access, vt_error *err);
size_t vts_access_tokens(vts_access *access); /* how many there are */

typedef enum vts_admission { VTS_ADMITTED, VTS_NO_TOKEN, VTS_WRONG_TOKEN } vts_admission;

/* Whose token it was. */
typedef struct vts_holder {
    unsigned
        owner; /* number of the token, 0 when none is asked for: what one token has stored is not shown to another */
    char name[VTS_CLIENT_NAME_MAX + 1]; /* as the file names it, or "#" and the number of a token without a name; "" */
} vts_holder;

/* authorization: the header's value or NULL. */
vts_admission vts_access_check(vts_access *access, const char *authorization, vts_holder *holder);

bool vts_access_has_origins(const vts_access *access);
bool vts_access_origin(const vts_access *access,
                       const char *origin); /* exactly as configured, scheme and port included */

#endif
