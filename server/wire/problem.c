/* Problems: one row for each thing that can go wrong, and its text as RFC 9457 wants it.
 *
 * The engine reports a vt_status, the server has conditions of its own; both are rows of problems.def, which is the
 * only place that knows HTTP codes. A fault of ours says nothing about itself to the outside: its message may hold a
 * path, and belongs into the log under the request id. Const data only; any thread. */
#include "server/wire/wire.h"

#include "server/wire/writer.h"

#include <stdio.h>
#include <string.h>

static const vts_problem_row rows[] = {
#define VTS_PROBLEM(id, status, http, code, title, exit_code) {http, code, title, exit_code},
#include "server/wire/problems.def"
#undef VTS_PROBLEM
};

static const int statuses[] = {
#define VTS_PROBLEM(id, status, http, code, title, exit_code) status,
#include "server/wire/problems.def"
#undef VTS_PROBLEM
};

const vts_problem_row *vts_problem_row_of(vts_problem_id id)
{
    return &rows[(size_t)id < VT_COUNT(rows) ? id : VTS_P_INTERNAL];
}

vts_problem_id vts_problem_of_status(vt_status status)
{
    for (size_t k = 0; k < VT_COUNT(statuses); k++)
        if (statuses[k] == (int)status)
            return (vts_problem_id)k;
    return VTS_P_INTERNAL;
}

char *vts_json_problem(vts_problem_id id, const vt_error *err, const char *request_id, unsigned long long limit,
                       size_t *size)
{
    const vts_problem_row *row = vts_problem_row_of(id);
    const bool ours = row->http == 500;
    char type[64];
    vts_writer w;

    snprintf(type, sizeof type, "/problems/%s", row->code);
    for (char *c = type; *c; c++)
        if (*c == '_')
            *c = '-';
    vts_write_init(&w, false, 512);
    vts_write_object(&w);
    vts_write_key_text(&w, "type", type);
    vts_write_key_text(&w, "title", row->title);
    vts_write_key_int(&w, "status", row->http);
    vts_write_key(&w, "detail");
    if (ours)
        vts_write_text(&w, "Something went wrong inside; the log has the cause under this request id.");
    else
        vts_write_text(&w, err && err->msg[0] ? err->msg : row->title);
    vts_write_key_text(&w, "code", row->code);
    if (!ours && err && err->param[0])
        vts_write_key_text(&w, "param", err->param);
    if (!ours && err && err->allowed[0])
        vts_write_key_text(&w, "allowed", err->allowed);
    if (limit > 0) {
        vts_write_key(&w, "limit");
        vts_write_uint(&w, limit);
    }
    vts_write_key_text(&w, "request_id", request_id ? request_id : "");
    vts_write_object_end(&w);
    return vts_write_finish(&w, size);
}
