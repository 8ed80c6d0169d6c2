/* All that is visible outside, as text: answers, catalogues, problems. No sockets here; the service and the command
 * line print the same bytes through these functions. Returned texts are malloc'ed, NUL-terminated UTF-8 and belong to
 * the caller; NULL means out of memory. Any thread. */
#ifndef VTS_WIRE_WIRE_H
#define VTS_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "vitral/model.h"
#include "vitral/result.h"
#include "vitral/run.h"
#include "vitral/status.h"

/* What the host knows about a request and the engine does not. */
typedef struct vts_envelope {
    const char *request_id;
    const char *model;    /* id */
    const char *image_id; /* "sha256:<hex>", or NULL without a picture */
    double queue_ms, total_ms;
    bool cached;
} vts_envelope;

/* The document of api.md section 4; pretty: for people (indented). */
char *vts_json_explain(const vt_result *result, const vts_envelope *envelope, bool pretty, size_t *size);
char *vts_json_predict(const vt_result *result, const vts_envelope *envelope, bool pretty, size_t *size);

/* For the default model: defaults, ranges and costs that depend on a model are given for it. NULL: no memory. */
char *vts_json_methods(const vt_model *model, size_t *size);
char *vts_json_metrics_list(const vt_model_info *info, size_t *size);
char *vts_json_models(const vt_model *const *models, size_t count, size_t default_index, size_t *size);
char *vts_json_labels(const vt_model *model, const char *q, size_t limit,
                      size_t *size); /* q "" = all; limit 0 = no limit */

/* All that is known of one checkpoint, with what each method takes on it. NULL: err says why. */
char *vts_json_inspect(const vt_model *model, size_t *size, vt_error *err);

/* Whether the label of class k, in either form, contains q: case ignored, `_` equals space. */
bool vts_class_matches(const vt_model *model, size_t k, const char *q);

/* "243; p=0.830000; label=bull%20mastiff" for X-Vitral-Target and X-Vitral-Prediction. */
char *vts_prediction_header(const vt_prediction *prediction);

/* One row of problems.def: a vt_status of the engine or a condition of the server. */
typedef enum vts_problem_id {
#define VTS_PROBLEM(id, status, http, code, title, exit_code) VTS_P_##id,
#include "server/wire/problems.def"
#undef VTS_PROBLEM
    VTS_PROBLEM_COUNT
} vts_problem_id;

typedef struct vts_problem_row {
    int http;
    const char *code, *title;
    int exit_code; /* of the command line */
} vts_problem_row;

const vts_problem_row *vts_problem_row_of(vts_problem_id id);
vts_problem_id vts_problem_of_status(vt_status status); /* what has no row of its own: INTERNAL */

/* application/problem+json. err gives detail, param and allowed (NULL: the title is the detail); with status 500 the
 * detail is a fixed sentence, since the message of err may hold a path: log it. limit 0 = none. */
char *vts_json_problem(vts_problem_id id, const vt_error *err, const char *request_id, unsigned long long limit,
                       size_t *size);

/* Rewrites the lines between "# BEGIN generated NAME" and "# END generated NAME" of an openapi.yaml from the tables.
 * *out is malloc'ed, with a NUL behind it. VT_E_INVALID: a name that does not exist, a block that does not end, no
 * block at all; VT_E_NOMEM. A file that is up to date comes back byte for byte. */
VT_MUST_USE vt_status vts_openapi_update(char **out, size_t *out_size, const char *text, size_t size, vt_error *err);
const char *vts_openapi_block(size_t k); /* name of the k-th block there is; NULL past the last */

/* Base64 without line breaks: writes 4 * ceil(n / 3) characters and a NUL. */
size_t vts_base64_size(size_t n); /* without the NUL */
void vts_base64(char *out, const void *data, size_t n);

#endif
