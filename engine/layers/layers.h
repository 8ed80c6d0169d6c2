/* The layers of a Vision Transformer: pairs of free functions, outputs first, then inputs, then sizes. All float32,
 * row-major, no allocation, any thread.
 *
 * T tokens, D width, M MLP width, H heads, d = D / H. Only activation gradients exist; weights are const. */
#ifndef VT_LAYERS_LAYERS_H
#define VT_LAYERS_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/tensor/backend.h"

/* Linear: out (T, O) = x (T, I) w^T + b.   w: (O, I)   b: (O) or NULL. By OpenBLAS. */
void vt_linear_forward(float *out, const float *x, const float *w, const float *b, size_t T, size_t I, size_t O);
/* The same by the kernels of product.h, with `add` (T, O), or NULL, on top; add may be out.   packed: vt_pack of w */
void vt_linear_packed(float *out, const float *x, const float *packed, const float *b, const float *add, size_t T,
                      size_t I, size_t O);
/* dx (T, I) = dout (T, O) w; set, not added to. */
void vt_linear_backward(vt_backend backend, float *dx, const float *dout, const float *w, size_t T, size_t I, size_t O);
/* The same, ADDED to dx: for an input that several layers read. */
void vt_linear_backward_add(vt_backend backend, float *dx, const float *dout, const float *w, size_t T, size_t I,
                            size_t O);

/* The three linear layers in front of the attention, side by side: out (T, 3D), a row is q | k | v.   w: q, k, v (D, D) each;
 * one product where they lie one behind the other, else three   b: (3D) or NULL */
void vt_qkv_forward(float *out, const float *x, const float *const w[3], const float *b, size_t T, size_t D);
/* k and v of all T tokens, q of the first `rows` only; the others' q is not touched. */
void vt_qkv_forward_rows(float *out, const float *x, const float *const w[3], const float *b, size_t T, size_t D,
                         size_t rows);
/* What vt_qkv_forward_rows does, from the packed copy of [w_q; w_k; w_v]. */
void vt_qkv_packed_rows(float *out, const float *x, const float *packed, const float *b, size_t T, size_t D,
                        size_t rows);
/* dx (T, D) = dout (T, 3D) [w_q; w_k; w_v]; set, not added to. */
void vt_qkv_backward(vt_backend backend, float *dx, const float *dout, const float *const w[3], size_t T, size_t D);

/* Layer normalisation over the last axis, biased variance.   out, x: (T, D)   mean, rstd: (T)   gamma, beta: (D) */
void vt_layernorm_forward(float *restrict out, float *restrict mean, float *restrict rstd, const float *restrict x,
                          const float *restrict gamma, const float *restrict beta, float eps, size_t T, size_t D);
/* dx (T, D) is ADDED to: the residual path has written there already. */
void vt_layernorm_backward(float *restrict dx, const float *restrict dout, const float *restrict x,
                           const float *restrict gamma, const float *restrict mean, const float *restrict rstd,
                           size_t T, size_t D);

/* The same with 1 / sigma taken for a constant, as relevance rules want it: dx += rstd * (u - avg(u)), u = gamma * dout. */
void vt_layernorm_relprop(float *restrict dx, const float *restrict dout, const float *restrict gamma,
                          const float *restrict rstd, size_t T, size_t D);

/* Softmax over each row, with its real maximum removed.   x: (rows, n), in place. */
void vt_softmax_forward(float *x, size_t rows, size_t n);
/* ds = a * (da - sum(a * da)) per row.   all (rows, n); ds may be da. */
void vt_softmax_backward(float *ds, const float *da, const float *a, size_t rows, size_t n);

/* The activation of the MLP. kind: vt_activation of vitral/model.h as int (0 exact erf GELU, 1 tanh GELU, 2 QuickGELU). */
void vt_gelu_forward(float *out, const float *x, size_t n, int kind);                    /* out may be x */
void vt_gelu_backward(float *dx, const float *dout, const float *x, size_t n, int kind); /* dx may be dout */

/* dx = dout * f(x) / x, the factor of relevance rules, without a division: Phi(x), or the sigmoid. dx may be dout. */
void vt_gelu_relprop(float *dx, const float *dout, const float *x, size_t n, int kind);

/* The gated MLP: out = value * silu(gate).   all (n); out may be value. Also the relevance rule that takes the gate for a
 * constant: dvalue = dout * silu(gate). */
void vt_swiglu_forward(float *out, const float *value, const float *gate, size_t n);
/* dvalue and dgate, set; dvalue may be dout. */
void vt_swiglu_backward(float *dvalue, float *dgate, const float *dout, const float *value, const float *gate,
                        size_t n);
/* The uniform relevance rule: each factor of the product gets half, and silu the factor silu(x) / x, which is the sigmoid. */
void vt_swiglu_relprop(float *dvalue, float *dgate, const float *dout, const float *value, const float *gate, size_t n);

/* Layer normalisation of each head of q or of k, in place.   x: (T, D), rows `stride` apart   gamma, beta: (D / H) */
void vt_head_norm_forward(float *x, size_t stride, const float *restrict gamma, const float *restrict beta, float eps,
                          size_t T, size_t D, size_t H);
/* dx (T, D), rows dx_stride apart: on entry the gradient behind the norm, on return before it. x: what the norm was given */
void vt_head_norm_backward(float *restrict dx, size_t dx_stride, const float *restrict x, size_t x_stride,
                           const float *restrict gamma, float eps, size_t T, size_t D, size_t H);
/* The same with 1 / sigma taken for a constant. */
void vt_head_norm_relprop(float *restrict dx, size_t dx_stride, const float *restrict x, size_t x_stride,
                          const float *restrict gamma, float eps, size_t T, size_t D, size_t H);

/* Each row divided by its euclidean norm, in place; a row of zeros stays.   x: (rows, n)   scale: (rows), 1 / norm */
void vt_unit_forward(float *x, float *scale, size_t rows, size_t n);
/* dx (rows, n): on entry the gradient behind the division, on return before it. unit, scale: of the forward */
void vt_unit_backward(float *dx, const float *unit, const float *scale, size_t rows, size_t n);
void vt_unit_relprop(float *dx, const float *scale, size_t rows, size_t n); /* the norm taken for a constant */

/* Multi-head attention between the qkv product and the output projection.
 * qkv: (T, 3D), a row is q | k | v, inside each head-major.   attn: (H, T, T), rows sum to 1.   out: (T, D), heads side by side.
 * S = q k^T / sqrt(d).   rows: only the first `rows` tokens ask (T = all): the other rows of attn are zeros, those of out are not
 * touched. */
void vt_attention_forward(vt_backend backend, float *out, float *attn, const float *qkv, size_t T, size_t D, size_t H,
                          size_t rows);
/* The same with some keys hidden from everybody.   keys: (T), 1 or 0   after: they are multiplied away after the softmax, which
 * leaves the other weights as they were; else they are kept out of it, and rows sum to 1 unless every key is hidden (then 0). */
void vt_attention_hidden_forward(vt_backend backend, float *out, float *attn, const float *qkv, const float *keys,
                                 bool after, size_t T, size_t D, size_t H, size_t rows);
/* dout: (T, D).   dqkv: (T, 3D), set; NULL where nothing below is wanted.   dattn: (H, T, T) = dy/dA, set.   dscore: (H, T, T) = dy/dS, set; may be dattn when
 * dy/dA is not wanted afterwards.   rows: only the first `rows` query rows of dout are non-zero (T = all): the other
 * rows of dattn and dscore are exact zeros and cost nothing. */
void vt_attention_backward(vt_backend backend, float *dqkv, float *dattn, float *dscore, const float *dout,
                           const float *attn, const float *qkv, size_t T, size_t D, size_t H, size_t rows);

/* patches (gh * gw, channels * ph * pw): the values under each patch of image (channels, gh * ph, gw * pw), in the order of a
 * patch embedding's weights. */
void vt_cut_patches(float *restrict patches, const float *restrict image, size_t channels, size_t gh, size_t gw,
                    size_t ph, size_t pw);

/* Patch embedding: convolution with stride = kernel.   patches: (gh * gw, channels * ph * pw) scratch
 * image: (channels, gh * ph, gw * pw): the picture, or the map of a stem
 * out: (gh * gw, D) = patches w^T + b.   w: (D, channels * ph * pw) */
void vt_patch_embed_forward(float *out, float *patches, const float *image, const float *w, const float *b,
                            size_t channels, size_t gh, size_t gw, size_t ph, size_t pw, size_t D);
/* dimage (channels, gh * ph, gw * pw) from dout (gh * gw, D); patches is scratch. */
void vt_patch_embed_backward(vt_backend backend, float *dimage, float *patches, const float *dout, const float *w,
                             size_t channels, size_t gh, size_t gw, size_t ph, size_t pw, size_t D);

/* out (T, D) += x * scale (D) per channel (scale NULL = 1): the residual sum with LayerScale. */
void vt_residual_add(float *restrict out, const float *restrict x, const float *restrict scale, size_t T, size_t D);
/* out (T, D) = x * scale per channel (scale NULL = copy). */
void vt_scale_channels(float *restrict out, const float *restrict x, const float *restrict scale, size_t T, size_t D);

#endif
