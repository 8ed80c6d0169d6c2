/* GET /healthz: the process answers. GET /readyz: it takes work. */
#include "server/routes/routes.h"

static void answer_healthz(vts_request *r)
{
    static const char text[] = "{\"status\":\"ok\"}";
    vts_reply_static(&r->reply, 200, "application/json", text, sizeof text - 1);
}

static void answer_readyz(vts_request *r)
{
    static const char text[] = "{\"status\":\"ready\"}";
    if (atomic_load(&r->service->draining))
        vts_refuse(r, VTS_P_DRAINING, "", "the service is stopping");
    else if (atomic_load(&r->models->lost)) /* the log says which */
        vts_refuse(r, VTS_P_IO, "", "the weights of a model cannot be read");
    else
        vts_reply_static(&r->reply, 200, "application/json", text, sizeof text - 1);
}

const vts_route_calls vts_route_healthz = {.check = vts_params_none, .answer = answer_healthz};
const vts_route_calls vts_route_readyz = {.check = vts_params_none, .answer = answer_readyz};
