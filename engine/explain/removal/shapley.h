/* Shapley values from the scores of coalitions: exactly, from permutations, and by KernelSHAP (methods.md 10). Plain arithmetic
 * in double on whatever the scores came from; any thread.
 *
 * M players. A coalition is (M) bytes, 1 = takes part. v(empty) is the score with nobody, v(full) with everybody. */
#ifndef VT_EXPLAIN_REMOVAL_SHAPLEY_H
#define VT_EXPLAIN_REMOVAL_SHAPLEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/arena.h"

/* phi (M) from v (2^M): entry s is the score of the players whose bits are set in s. */
void vt_shapley_exact(double *phi, const double *v, size_t M);

/* ---- permutations: what each player adds to those before it ---- */

typedef struct vt_permutations {
    size_t M, unit; /* unit: how many permutations belong together, 2 for one and its reverse: units are independent */
    size_t count, units;
    double *sum; /* (M): over all permutations */
    double *part, *first,
        *second; /* (M): of the unit that is under way; means of the units and squares of them, added up */
} vt_permutations;

/* False without memory. */
bool vt_permutations_open(vt_permutations *p, size_t M, size_t unit, vt_arena *arena);
size_t vt_permutations_bytes(size_t M);
/* order (M): the players in turn. v (M + 1): scores of its first 0 ... M players. */
void vt_permutations_add(vt_permutations *p, const uint32_t *order, const double *v);
/* phi (M), std_error (M): of phi; false, and std_error 0, when fewer than two units have ended. */
bool vt_permutations_result(const vt_permutations *p, double *phi, double *std_error);

/* ---- KernelSHAP with the constraint that the values add up ---- */

enum { VT_KERNEL_GROUPS = 10 };

typedef struct vt_kernel {
    size_t M, outputs, pairs;
    size_t count[VT_KERNEL_GROUPS]; /* coalitions in each group */
    double *a;                      /* (groups, M, M): sums of z z^T, lower halves */
    double *b;                      /* (outputs, groups, M): sums of z (v(z) - v(empty)) */
    double *work;                   /* (M, M) and four times (M) */
} vt_kernel;

/* outputs: how many scores each coalition has. */
bool vt_kernel_open(vt_kernel *k, size_t M, size_t outputs, vt_arena *arena);
size_t vt_kernel_bytes(size_t M);      /* with one output */
size_t vt_kernel_bytes_more(size_t M); /* for each one more */
/* Probability that a coalition of the Shapley kernel has s players, s = 1 ... M - 1, for drawing. */
double vt_kernel_size_share(size_t s, size_t M);
/* A coalition drawn from the kernel, or the complement of the one before. Pair p goes into group p mod VT_KERNEL_GROUPS.
 * v, empty (outputs): its scores, and those of nobody. */
void vt_kernel_add(vt_kernel *k, size_t pair, const uint8_t *z, const double *v, const double *empty);
/* Of one output: phi (M), which sum to `total` = v(full) - v(empty); std_error (M) by leaving out one group after the other; false, and
 * std_error 0, with fewer than two groups. At least one coalition must have been added. */
bool vt_kernel_result(const vt_kernel *k, size_t output, double total, double *phi, double *std_error);

/* ---- how far they can be trusted ---- */

/* What two halves of the samples would correlate at, told from the spread of phi and its standard errors: (S - E) / (S + E)
 * with S the squared spread and E the sum of squared errors. 1 where E is 0. */
double vt_shapley_stability(const double *phi, const double *std_error, size_t M);

#endif
