/* The routes of routes.def, and what they share. */
#ifndef VTS_ROUTES_ROUTES_H
#define VTS_ROUTES_ROUTES_H

#include "server/http/request.h"
#include "server/http/route.h"
#include "vitral/param.h"

#define VTS_ROUTE(id, verb, path, body, access, summary) extern const vts_route_calls vts_route_##id;
#include "server/wire/routes.def"
#undef VTS_ROUTE

extern const vts_route vts_routes[];      /* (vts_routes_count) in the order of routes.def */
extern const char *const vts_route_ids[]; /* the same, as labels */
extern const size_t vts_routes_count;

/* Writes the documents of a set that has its models and is not in use yet. VT_E_NOMEM. */
VT_MUST_USE vt_status vts_routes_describe(vts_model_set *set, vt_error *err);

/* ---- parameters of the server's own (params.c) ---- */

/* Reads the pairs that a table knows into `params` (defaults first); given (count) says which came. Whatever the table
 * does not know goes to rest (at most rest_max), or is refused when rest is NULL. A value that is no good and a name
 * given twice are refused; false then. */
bool vts_params_take(vts_request *request, const vt_param *rows, size_t count, void *params, bool *given,
                     const vt_pair *pairs, size_t pairs_count, vt_pair *rest, size_t *rest_count, size_t rest_max);

/* check() of the routes that take no parameter. */
void vts_params_none(vts_request *request);

/* A model that is not served, or "": the ids that are go with it. */
void vts_refuse_model(vts_request *request, const char *id);

/* "sha256:<64 hex, lower case>" as bytes; false when it is none. */
bool vts_image_id_parse(const char *text, uint8_t digest[32]);
void vts_refuse_image_id(vts_request *request); /* it is none */

#endif
