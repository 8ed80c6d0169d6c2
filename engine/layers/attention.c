/* Multi-head attention, head by head, on the qkv product as it lies: q, k and v of a head are strided views of its
 * rows, so nothing is copied or transposed. The factor 1 / sqrt(d) is the product's alpha. A head's map is normalised
 * while it is still in cache. */
#include "engine/layers/layers.h"

#include <math.h>
#include <string.h>

#include "engine/tensor/backend.h"

static const float HIDDEN = -1e30f; /* a score whose exponential is an exact 0 beside any other */

/* a: (rows, T) scores */
static void hide(float *a, const float *keys, size_t rows, size_t T)
{
    for (size_t t = 0; t < rows; t++)
        for (size_t j = 0; j < T; j++)
            a[t * T + j] = keys[j] != 0.0f ? a[t * T + j] : HIDDEN;
}

static void take_away(float *a, const float *keys, size_t rows, size_t T)
{
    for (size_t t = 0; t < rows; t++)
        for (size_t j = 0; j < T; j++)
            a[t * T + j] *= keys[j];
}

void vt_attention_hidden_forward(vt_backend backend, float *out, float *attn, const float *qkv, const float *keys,
                                 bool after, size_t T, size_t D, size_t H, size_t rows)
{
    const size_t d = D / H;
    const float scale = 1.0f / sqrtf((float)d);
    for (size_t h = 0; h < H; h++) {
        const float *q = qkv + h * d, *k = q + D, *v = k + D; /* (T, d), rows 3D apart */
        float *a = attn + h * T * T;                          /* (T, T) */
        vt_multiply_turned(backend, a, T, q, 3 * D, k, 3 * D, scale, rows, T, d);
        if (keys && !after)
            hide(a, keys, rows, T);
        vt_softmax_forward(a, rows, T);
        if (keys)
            take_away(a, keys, rows, T);
        memset(a + rows * T, 0, (T - rows) * T * sizeof *a);
        vt_multiply(backend, out + h * d, D, a, T, false, v, 3 * D, 1.0f, false, rows, d, T);
    }
}

void vt_attention_forward(vt_backend backend, float *out, float *attn, const float *qkv, size_t T, size_t D, size_t H,
                          size_t rows)
{
    vt_attention_hidden_forward(backend, out, attn, qkv, NULL, false, T, D, H, rows);
}

/* Per head: dA = dO v^T, dS = softmax'(dA), dq = dS k / sqrt(d), dk = dS^T q / sqrt(d), dv = A^T dO. Rows of dO that
 * are zero make zero rows of dA, dS and dq, and add nothing to dk and dv. */
void vt_attention_backward(vt_backend backend, float *dqkv, float *dattn, float *dscore, const float *dout,
                           const float *attn, const float *qkv, size_t T, size_t D, size_t H, size_t rows)
{
    const size_t d = D / H;
    const float scale = 1.0f / sqrtf((float)d);
    for (size_t h = 0; h < H; h++) {
        const float *q = qkv + h * d, *k = q + D, *v = k + D;
        const float *a = attn + h * T * T, *g = dout + h * d; /* g: (rows, d), rows D apart */
        float *da = dattn + h * T * T, *ds = dscore + h * T * T;

        vt_multiply_turned(backend, da, T, g, D, v, 3 * D, 1.0f, rows, T, d);
        vt_softmax_backward(ds, da, a, rows, T);
        memset(da + rows * T, 0, (T - rows) * T * sizeof *da);
        memset(ds + rows * T, 0, (T - rows) * T * sizeof *ds);

        if (!dqkv)
            continue;
        float *dq = dqkv + h * d, *dk = dq + D, *dv = dk + D;
        vt_multiply(backend, dq, 3 * D, ds, T, false, k, 3 * D, scale, false, rows, d, T);
        for (size_t t = rows; t < T; t++)
            memset(dq + t * 3 * D, 0, d * sizeof *dq);
        vt_multiply(backend, dk, 3 * D, ds, T, true, q, 3 * D, scale, false, T, d, rows);
        vt_multiply(backend, dv, 3 * D, a, T, true, g, D, 1.0f, false, T, d, rows);
    }
}
