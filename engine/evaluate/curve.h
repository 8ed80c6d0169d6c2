/* Removal curves: the score of a class while a picture goes part by part into another one, in the order of a map.
 *
 * Deletion, MoRF, LeRF and log odds read the same curves; a curve is computed once for a map and found again in the
 * store. */
#ifndef VT_EVALUATE_CURVE_H
#define VT_EVALUATE_CURVE_H

#include "engine/evaluate/cells.h"
#include "engine/evaluate/metric.h"

/* The parameters of all metrics on curves; a metric's params struct begins with it. */
typedef struct vt_removal {
    int cut;  /* vt_cut */
    int step; /* parts at a time; VT_WORD(0) = one patch, or as many pixels as a row has */
    int fill; /* vt_fill */
} vt_removal;

#define VT_REMOVAL_ROWS(fill_default)                                                                                  \
    {.name = "unit",                                                                                                   \
     .help = "what is taken at a time: patches by the map's own values, or pixels of the enlarged map",                \
     .type = VT_ENUM,                                                                                                  \
     .choices = vt_cut_names,                                                                                          \
     .max = VT_CUT_PIXEL,                                                                                              \
     .offset = offsetof(vt_removal, cut)},                                                                             \
        {.name = "step",                                                                                               \
         .help = "how many of them; auto is one patch, or as many pixels as a row of the input has",                   \
         .unit = "patches or pixels",                                                                                  \
         .type = VT_INT,                                                                                               \
         .choices = vt_step_names,                                                                                     \
         .min = 1,                                                                                                     \
         .max = 1 << 20,                                                                                               \
         .def_text = "auto",                                                                                           \
         .offset = offsetof(vt_removal, step)},                                                                        \
    {                                                                                                                  \
        .name = "fill",                                                                                                \
        .help = "what stands where nothing is: zeros of the normalised input, the picture's mean per channel or over " \
                "all of them, black, or the picture blurred (11 x 11, sigma 5)",                                       \
        .type = VT_ENUM, .choices = vt_fill_names, .max = VT_FILL_BLUR, .def = (fill_default),                         \
        .offset = offsetof(vt_removal, fill)                                                                           \
    }
extern const char *const vt_step_names[]; /* auto */

typedef enum vt_way {
    VT_WAY_DELETION,  /* from the picture to the fill, strongest part first */
    VT_WAY_INSERTION, /* from the fill to the picture, strongest part first */
    VT_WAY_LERF       /* from the picture to the fill, in exactly the reverse order */
} vt_way;

typedef struct vt_curve_store {
    size_t count;
    struct {
        vt_way way;
        vt_removal removal;
        const double *y;
    } known[8];
} vt_curve_store;

/* Steps of n; points are one more: nothing changed yet, ..., all changed. */
size_t vt_removal_steps(const vt_model_info *info, const vt_removal *removal);
size_t vt_removal_points(const vt_model_info *info, const void *removal); /* for curve_points */
double vt_removal_cost(const vt_model_info *info, const void *removal);   /* forwards: a point each */
size_t vt_removal_bytes(const vt_model_info *info, const void *removal);

/* (sum of y - y0 / 2 - yn / 2) / steps: the area under the curve over 0 ... 1. */
double vt_curve_area(const double *y, size_t steps);
/* mean over k = 1 ... steps of y0 - yk */
double vt_curve_fall(const double *y, size_t steps);
/* mean over k = 1 ... steps of log(yk / y0); NAN where y is not positive */
double vt_curve_log_odds(const double *y, size_t steps);

/* measure() of a metric that is one number of one curve. */
typedef double vt_curve_summary(const double *y, size_t steps);
VT_MUST_USE vt_status vt_removal_measure(const vt_metric_ctx *ctx, vt_way way, vt_curve_summary *summary,
                                         const vt_removal *removal, vt_metric_value *value, vt_error *err);

/* The fields of vt_metric that all such metrics share; rows and curves are the metric's own tables. */
#define VT_REMOVAL_METRIC(rows, names, function)                                                                       \
    .params = (rows), .params_count = VT_COUNT(rows), .params_size = sizeof(vt_removal), .cost = vt_removal_cost,      \
    .bytes = vt_removal_bytes, .curves = (names), .curve_points = vt_removal_points, .measure = (function)

#endif
