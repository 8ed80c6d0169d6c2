/* Budgets for generic tests: where a method's default is thousands of forwards, some hundred say the same. */
#ifndef VT_TESTS_FEW_H
#define VT_TESTS_FEW_H

#include <stddef.h>

#include "vitral/explain.h"
#include "vitral/run.h"

/* Adds "masks" or "samples" to pairs, which has room for one more, when the method takes so many; the new count. */
size_t vt_test_few(vt_pair *pairs, size_t count, const vt_explainer *method);

/* The same as settings for vt_test_explain, for tests that need exact Shapley values: fewer masks, all samples. */
const char *vt_test_few_masks(const vt_explainer *method);

#endif
