/* Rollout maps at a tie. discard_ratio cuts the k smallest entries of each layer's matrix: a map jumps when two entries
 * at the cut change places, and rounding decides places that lie closer together than float32 can tell. The reference
 * values were made in float64 and took one side; another matrix product of the same quality may take the other.
 *
 * So a map that misses its reference is computed once more, here, in double and by plain loops that share no code with
 * the engine. It counts as explained only if
 *   - the engine's own choice of entries gives the engine's own map, within the tolerance, and
 *   - at most VT_TIES_SWAPS exchanges of a dropped entry for a kept one, both within VT_TIES_WINDOW of the value at the
 *     cut of their layer, give the reference, within the same tolerance.
 * No tolerance is loosened, and k never changes. */
#ifndef VT_TESTS_ROLLOUT_TIES_H
#define VT_TESTS_ROLLOUT_TIES_H

#include "engine/explain/base/method.h"

enum { VT_TIES_SWAPS = 3 };
#define VT_TIES_WINDOW 3e-4 /* relative */

/* One rollout of a model with a class token, as the parameters of the method say. */
typedef struct vt_ties_case {
    const vt_trace *trace; /* holds A; for weighted also dA, with compat dS */
    bool weighted;         /* grad_rollout */
    vt_fusion fusion;
    vt_protect protect;
    double discard_ratio;
    size_t start_layer;
    bool compat;
    bool divide; /* compare the maps divided by their maximum; compat always does */
} vt_ties_case;

typedef struct vt_ties_verdict {
    bool reproduced, explained;
    size_t swaps;
    char text[512]; /* what was found, as a sentence */
} vt_ties_verdict;

/* got, want: (patches). */
vt_ties_verdict vt_ties_explain(const vt_ties_case *c, const float *got, const float *want, double tol);

/* How many maps were compared and how many needed an explanation, over all tests of a program: Check runs each test in a
 * process of its own, so the counts stand in memory that these share. vt_tally_open is an unchecked fixture. */
typedef struct vt_ties_tally {
    size_t maps, explained;
    char names[16][128]; /* of the explained ones, each once */
} vt_ties_tally;

void vt_tally_open(void);
vt_ties_tally *vt_tally(void);
void vt_tally_explained(const char *picture, const char *tensor);

#endif
