/* What the score would be if it were read after an earlier block, by the model's own final norm and head, and its gradient
 * there: for LeGrad (methods.md 6d). Of one picture, so nothing here is worth a batch. */
#include <string.h>

#include "engine/layers/layers.h"
#include "engine/pass/trace.h"

typedef struct early {
    const vt_trace *tr;
    bool mean;
    float *x, *y, *dy, *dx;      /* (D) each: what is read, its norm, the gradient there, and below the norm */
    float *features, *dfeatures; /* (F) each: what the head reads, and the gradient there */
} early;

/* x (D): the mean of all tokens of z (T, D), or token `token`. */
static void read_tokens(const early *e, const float *z, size_t token)
{
    const size_t T = e->tr->T, D = e->tr->D;
    for (size_t i = 0; i < D; i++) {
        double sum = 0.0;
        for (size_t t = 0; e->mean && t < T; t++)
            sum += (double)z[t * D + i];
        e->x[i] = e->mean ? (float)(sum / (double)T) : z[token * D + i];
    }
}

/* dy (D) from the head: straight, through the joint space, or from the places that y takes in what the head reads. */
static void head_backward(const early *e, const float *dlogits, const float *head)
{
    const vt_weights *w = e->tr->weights;
    const size_t D = e->tr->D, F = e->tr->F;
    float scale;

    vt_linear_backward(e->tr->backend, e->dfeatures, dlogits, head, 1, F, e->tr->C);
    if (w->embed_w) {
        vt_linear_forward(e->features, e->y, w->embed_w, NULL, 1, D, F);
        vt_unit_forward(e->features, &scale, 1, F);
        vt_unit_backward(e->dfeatures, e->features, &scale, 1, F);
        vt_linear_backward(e->tr->backend, e->dy, e->dfeatures, w->embed_w, 1, D, F);
        return;
    }
    memcpy(e->dy, e->dfeatures, D * sizeof *e->dy);
    if (e->tr->info->pool == VT_POOL_TOKEN_AVG && e->mean)
        vt_residual_add(e->dy, e->dfeatures + D, NULL, 1, D);
}

/* dz (T, D) += share of the gradient that one head has. */
static void add_head(const early *e, const float *z, const float *dlogits, const float *head, size_t token, float share,
                     float *dz)
{
    const vt_weights *w = e->tr->weights;
    const vt_norm_weights *norm = w->norm.gamma ? &w->norm : &w->fc_norm;
    const size_t T = e->tr->T, D = e->tr->D;
    float mean, rstd;

    read_tokens(e, z, token);
    if (norm->gamma)
        vt_layernorm_forward(e->y, &mean, &rstd, e->x, norm->gamma, norm->beta, e->tr->info->norm_eps, 1, D);
    else
        memcpy(e->y, e->x, D * sizeof *e->y);
    head_backward(e, dlogits, head);
    if (norm->gamma) {
        memset(e->dx, 0, D * sizeof *e->dx);
        vt_layernorm_backward(e->dx, e->dy, e->x, norm->gamma, &mean, &rstd, 1, D);
    } else {
        memcpy(e->dx, e->dy, D * sizeof *e->dx);
    }
    for (size_t t = e->mean ? 0 : token; t < (e->mean ? T : token + 1); t++)
        for (size_t i = 0; i < D; i++)
            dz[t * D + i] += e->dx[i] * share;
}

vt_status vt_early_readout_backward(const vt_trace *trace, size_t level, bool mean, const float *dlogits, float *dz,
                                    size_t *rows, vt_arena *arena, vt_error *err)
{
    const vt_weights *w = trace->weights;
    const size_t T = trace->T, D = trace->D, heads = w->head_dist.w ? 2 : 1; /* distilled: the mean of both */
    const float *z = vt_trace_residual(trace, level);                        /* (T, D) */
    const float share = (mean ? 1.0f / (float)T : 1.0f) / (float)heads;

    if (!trace->keeps_backward || !w->head.w || !z)
        return vt_error_set(err, VT_E_INTERNAL, "", "no residual stream or no head for a readout after block %zu",
                            level);
    const vt_mark mark = vt_arena_mark(arena);
    float *x = vt_arena_alloc(arena, 4 * D + 2 * trace->F, sizeof *x);
    if (!x)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a readout after block %zu", level);
    const early e = {.tr = trace,
                     .mean = mean,
                     .x = x,
                     .y = x + D,
                     .dy = x + 2 * D,
                     .dx = x + 3 * D,
                     .features = x + 4 * D,
                     .dfeatures = x + 4 * D + trace->F};

    memset(dz, 0, T * D * sizeof *dz);
    add_head(&e, z, dlogits, w->head.w, 0, share, dz);
    if (w->head_dist.w)
        add_head(&e, z, dlogits, w->head_dist.w, 1, share, dz);
    *rows = mean ? T : heads;
    vt_arena_rewind(arena, mark);
    return VT_OK;
}
