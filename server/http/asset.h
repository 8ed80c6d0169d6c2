/* Files that are linked into the program: the page and what it is made of. Const; any thread. */
#ifndef VTS_HTTP_ASSET_H
#define VTS_HTTP_ASSET_H

#include <stdbool.h>
#include <stddef.h>

typedef struct vts_asset {
    const char *path; /* below /ui/ */
    const char *type;
    const unsigned char *data;
    size_t size;
} vts_asset;

bool vts_asset_find(const char *path, vts_asset *out);
bool vts_asset_openapi_find(vts_asset *out); /* false when the program was built without it */

#endif
