/* The table of linked-in files. A path is looked up whole: nothing outside the table can be reached. */
#include "server/http/asset.h"

#include <string.h>

#define VTS_ASSET(symbol, path, file, type) extern const unsigned char vts_asset_##symbol[], vts_asset_##symbol##_end[];
#include "server/http/assets.def"
#undef VTS_ASSET
extern const unsigned char vts_asset_openapi[], vts_asset_openapi_end[];

static const struct {
    const char *path, *type;
    const unsigned char *data, *end;
} files[] = {
#define VTS_ASSET(symbol, path, file, type) {path, type, vts_asset_##symbol, vts_asset_##symbol##_end},
#include "server/http/assets.def"
#undef VTS_ASSET
};

enum { FILES = sizeof files / sizeof files[0] };

static vts_asset make(const char *path, const char *type, const unsigned char *data, const unsigned char *end)
{
    return (vts_asset){.path = path, .type = type, .data = data, .size = (size_t)(end - data)};
}

bool vts_asset_find(const char *path, vts_asset *out)
{
    for (size_t k = 0; k < FILES; k++)
        if (strcmp(files[k].path, path) == 0) {
            *out = make(files[k].path, files[k].type, files[k].data, files[k].end);
            return true;
        }
    return false;
}

bool vts_asset_openapi_find(vts_asset *out)
{
    *out = make("openapi.yaml", "application/yaml", vts_asset_openapi, vts_asset_openapi_end);
    return out->size > 0;
}
