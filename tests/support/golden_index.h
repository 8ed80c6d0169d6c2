/* golden/vit_tiny/index.json: which tensors there are, how each was made and how near one has to come. */
#ifndef VT_TESTS_GOLDEN_INDEX_H
#define VT_TESTS_GOLDEN_INDEX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define VT_GOLDEN_FOLDER "golden/vit_tiny/"
#define VT_GOLDEN_MODEL "models/vit_tiny_patch16_224"

/* One tensor. */
typedef struct vt_golden_row {
    const char *name, *method;
    const json_t *params;
    const float *want; /* (count), whole numbers where the file has bytes */
    size_t count;
    double tol; /* absolute; 0 for tensors that must be equal */
} vt_golden_row;

json_t *vt_golden_index(void); /* fails the test when it cannot be read; the caller decrefs */

/* The first (main) file of a picture, opened. */
struct vt_st_file *vt_golden_main_file(const char *picture);

/* Visits every tensor of the picture whose name begins with one of the prefixes (count of them); k is the number of
 * the prefix. The row ends with the visit. Returns how many there were. */
typedef void vt_golden_visit(void *host, size_t k, const vt_golden_row *row);
size_t vt_golden_each(const json_t *index, const char *picture, const char *const *prefixes, size_t count,
                      vt_golden_visit *visit, void *host);

/* The parameters of a row as the methods here name them: "head_fusion=mean start_layer=0", and the target, or -1. */
void vt_golden_settings(const vt_golden_row *row, char *settings, size_t size, int *target);

/* One parameter, or `otherwise` where the row does not name it. */
double vt_golden_number(const vt_golden_row *row, const char *name, double otherwise);
const char *vt_golden_word(const vt_golden_row *row, const char *name, const char *otherwise);

#endif
