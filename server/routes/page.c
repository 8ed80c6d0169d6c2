/* GET /, /ui/... and /openapi.yaml: files that are linked into the program.
 *
 * The page loads nothing from elsewhere and has no inline script, and the policy that is sent with it says so. */
#include "server/http/asset.h"
#include "server/routes/routes.h"

#include <string.h>

static void serve(vts_request *r, const vts_asset *asset)
{
    vts_reply_static(&r->reply, 200, asset->type, asset->data, asset->size);
    vts_reply_header(&r->reply, "Cache-Control", "no-cache");
    if (strncmp(asset->type, "text/html", 9) == 0) {
        vts_reply_header(
            &r->reply, "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
            "base-uri 'none'; form-action 'self'; frame-ancestors 'none'");
    }
}

static void serve_path(vts_request *r, const char *path)
{
    vts_asset asset;
    if (vts_asset_find(path, &asset))
        serve(r, &asset);
    else
        vts_refuse(r, VTS_P_NOT_FOUND, "", "there is nothing at this path");
}

static void answer_page(vts_request *r)
{
    serve_path(r, "index.html");
}

static void answer_ui(vts_request *r)
{
    serve_path(r, r->rest);
}

static void answer_openapi(vts_request *r)
{
    vts_asset asset;
    if (vts_asset_openapi_find(&asset))
        serve(r, &asset);
    else
        vts_refuse(r, VTS_P_NOT_FOUND, "", "this program was built without openapi.yaml");
}

const vts_route_calls vts_route_page = {.check = vts_params_none, .answer = answer_page};
const vts_route_calls vts_route_ui = {.check = vts_params_none, .answer = answer_ui};
const vts_route_calls vts_route_openapi = {.check = vts_params_none, .answer = answer_openapi};
