/* Smooth masks over a picture, as RISE and Score-CAM make them (methods.md 9.1 and 7), and what is done with them pixel by pixel: loops
 * that become vector code. Pure functions; any thread. */
#ifndef VT_PERTURB_MASK_H
#define VT_PERTURB_MASK_H

#include <stddef.h>
#include <stdint.h>

/* A grid of `cells` x `cells` bits is enlarged to (cells + 1) times ceil(side / cells) pixels per axis, bilinearly with
 * half-pixel centres, and a window of (h, w) is cut out of it. Beyond the centres of the outer cells it goes on as
 * scikit-image's mode `reflect` does: mirrored about the outer cell itself. */
typedef struct vt_mask_frame {
    size_t h, w, cells, cell_h, cell_w; /* cell_h, cell_w: how many offsets there are */
} vt_mask_frame;
vt_mask_frame vt_mask_frame_of(size_t h, size_t w, size_t cells);

/* out (h, w), 0 ... 1.   grid: (cells, cells)   dy < cell_h, dx < cell_w   scratch: (cells, w) */
void vt_mask_enlarge(float *out, const vt_mask_frame *frame, const uint8_t *grid, size_t dy, size_t dx, float *scratch);

/* out (h, w) from map (rows, columns), bilinear with aligned corners: the outer values lie on the outer pixels.
 * scratch: (rows, w) */
void vt_mask_stretch(float *out, const float *map, size_t rows, size_t columns, size_t h, size_t w, float *scratch);

/* mask (n) = (mask - min) / (max - min + eps). */
void vt_mask_scale(float *mask, float eps, size_t n);

/* out (3, n) = x (3, n) * mask (n), channel by channel. */
void vt_mask_apply(float *restrict out, const float *restrict x, const float *restrict mask, size_t n);

/* sum (n) += y * mask (n). */
void vt_mask_add(double *restrict sum, const float *restrict mask, double y, size_t n);

#endif
