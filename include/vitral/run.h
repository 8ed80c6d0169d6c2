/* The whole engine in two calls: describe a request, run it. */
#ifndef VT_RUN_H
#define VT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/arena.h"
#include "vitral/control.h"
#include "vitral/explain.h"
#include "vitral/model.h"
#include "vitral/param.h"
#include "vitral/result.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VT_PIXELS_MAX = 64000000, VT_COST_MAX = 10000 }; /* defaults of every host: pixels of an upload, forwards */

/* What a host admits. */
typedef struct vt_limits {
    uint64_t pixels_max;           /* of an upload */
    uint64_t picture_pixels_max;   /* pictures x pixels of an answer */
    uint64_t values_max;           /* numbers in an answer, over all maps that carry values */
    double cost_max;               /* forwards at the size the model was opened with */
    size_t image_side_max;         /* pixels of a side that image_size may ask for (the model's own are always allowed);
                                    0 = requests may not ask */
    uint64_t image_size_bytes_max; /* memory of one request whose image_size is larger than the model's own */
    size_t methods_max, targets_max, maps_max;
    const vt_param *host_params; /* (host_params_count) what the host reads itself: only named, beside the engine's own
                                    names, where an unknown one is refused */
    size_t host_params_count;
} vt_limits;

extern const vt_limits vt_limits_default; /* 64 M, 64 M, 4 M, 10,000, 1024, 512 MiB, 16, 8, 512 */

typedef struct vt_pair {
    const char *name, *value; /* UTF-8, no NUL inside */
} vt_pair;

typedef struct vt_request vt_request;

enum {
    VT_REQUEST_PREDICT = 1u << 0,     /* prediction only: no method, only the options of /predict */
    VT_REQUEST_ONE_PICTURE = 1u << 1, /* the caller wants one overlay (Accept: image/png): `output` may not be given */
    VT_REQUEST_PARTIAL = 1u << 2, /* more pairs may follow (form fields): only what is wrong in any case is refused */
    VT_REQUEST_MASK = 1u << 3     /* a mask comes with the picture; refused when nothing that is asked for reads it */
};

/* The options that go with every method (api section 3): one table for the service, the command line, openapi.yaml and
 * the page. `method` is its first row. */
const vt_param *vt_common_params(size_t *count);

/* Parses name=value pairs against the tables of the methods asked for. Nothing is clamped or ignored: an unknown name,
 * a name given twice, a value out of range, an unknown method, class or metric is refused with the parameter, the
 * allowed range and, where there is one, the nearest name. The request keeps copies; it refers to the model, which must outlive it.
 * The caller closes it. Any thread. */
VT_MUST_USE vt_status vt_request_open(vt_request **out, const vt_model *model, const vt_limits *limits,
                                      const vt_pair *pairs, size_t count, unsigned flags, vt_error *err);
void vt_request_close(vt_request *request);

/* Forwards, an upper bound; one is a forward of the model at the size it was opened with, however large image_size is. */
double vt_request_cost(const vt_request *request);
size_t vt_request_maps(const vt_request *request);       /* maps, an upper bound */
size_t vt_request_maps_least(const vt_request *request); /* and a lower one: two targets may be the same class */
bool vt_request_needs_image(const vt_request *request);
size_t vt_request_methods(const vt_request *request, const vt_explainer **methods,
                          size_t max); /* for logs: how many, and the first max of them */

/* Canonical text: equal requests (defaults filled in, order of names ignored) give equal text. Owned by the request. */
const char *vt_request_canonical(const vt_request *request);

/* Arena bytes that this request takes with a picture of `pixels`; and the most that any request within limits takes,
 * whatever image_size it asks for. */
size_t vt_request_bytes(const vt_request *request, uint64_t pixels);
size_t vt_arena_bytes(const vt_model *model, const vt_limits *limits);

/* Decode, preprocess, one forward, one backward per target, methods, metrics, pictures. bytes NULL: no picture (only
 * for methods that need none). The result and all it points to live in the arena; the arena is not reset here.
 * One request may be run by several threads at once, each with its own arena. */
VT_MUST_USE vt_status vt_run(const vt_request *request, const uint8_t *bytes, size_t size, vt_arena *arena,
                             vt_control *control, const vt_result **out, vt_error *err);

/* The files of a request; NULL: not there. */
typedef struct vt_files {
    const uint8_t *picture;
    size_t picture_size;
    const uint8_t *mask; /* a PNG with the size of the upright picture; exactly for requests with VT_REQUEST_MASK */
    size_t mask_size;
} vt_files;

/* vt_run with more than a picture. What is wrong with the mask is said of the parameter `mask`. */
VT_MUST_USE vt_status vt_run_files(const vt_request *request, const vt_files *files, vt_arena *arena,
                                   vt_control *control, const vt_result **out, vt_error *err);

/* The same from a model input that is already normalised (3, image_h, image_w), for tests and benches: the picture is
 * rgb8-less, so no pictures are drawn. */
VT_MUST_USE vt_status vt_run_input(const vt_request *request, const float *input, vt_arena *arena, vt_control *control,
                                   const vt_result **out, vt_error *err);

/* One-time, process-wide: how many threads OpenBLAS may use for one product. Call before any run. */
void vt_set_blas_threads(int threads);

/* Name of faster OpenBLAS kernels than the ones it chose for this CPU, or NULL. A release older than the processor falls
 * back to kernels without AVX, at a fifth of the speed. OpenBLAS reads OPENBLAS_CORETYPE when it is loaded, so a program
 * that wants them sets that variable and starts itself again. NULL when the variable is set: the operator's word counts. */
const char *vt_blas_better_core(void);

/* What OpenBLAS says of itself: version, build options, the kernels it chose. Static text. */
const char *vt_blas_description(void);

/* Checks every table of the engine (methods, metrics, common options). Call once at start. */
VT_MUST_USE vt_status vt_self_check(vt_error *err);

#ifdef __cplusplus
}
#endif

#endif
