/* Small convolution stems of hybrid ViTs: their tensors as timm names them, and the net once more, naive and in double,
 * from those tensors as they stand in the file (methods.md 15). */
#ifndef VT_TESTS_TINY_STEM_H
#define VT_TESTS_TINY_STEM_H

#include "tests/support/tiny_model.h"

typedef struct vt_test_stem {
    size_t root;      /* channels */
    size_t depth[4];  /* blocks of each stage, 0 ends; none: the root alone, with the shorter names */
    size_t middle[4]; /* channels inside the blocks of a stage */
    size_t out[4];    /* channels of a stage */
} vt_test_stem;

/* Adds the stem's tensors to the list, from a stream of their own. */
void vt_test_stem_tensors(vt_test_tensors *list, const vt_test_stem *stem, uint32_t seed);

/* The map (channels, map_h, map_w) of input (3, h, w); malloc'ed. */
double *vt_test_stem_map(vt_test_tensors *list, const vt_test_stem *stem, const double *input, size_t h, size_t w,
                         size_t *channels, size_t *map_h, size_t *map_w);

/* A tiny model whose patch embedding reads such a map; opt->patch is the kernel there. The picture is grid * patch *
 * stride pixels. */
void vt_test_hybrid_tensors(vt_test_tensors *list, const vt_test_tiny_options *opt, const vt_test_stem *stem);
char *vt_test_hybrid_config(const vt_test_tiny_options *opt, const vt_test_stem *stem);
size_t vt_test_stem_stride(const vt_test_stem *stem);

#endif
