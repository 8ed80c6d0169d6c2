/* A ViT whose scores are linear in the picture, so that every removal has a known answer: blocks that add nothing, the mean
 * of the patches for a readout, and norms with an eps so large that they only subtract a mean and scale. */
#ifndef VT_TESTS_LINEAR_NET_H
#define VT_TESTS_LINEAR_NET_H

#include "tests/support/gradient_net.h"

/* grid 3 x 4, patches of 4 x 4 pixels. net->trace.input_grad holds the weights of class `target`; closed by
 * vt_gradient_net_close. */
void vt_linear_net_open(vt_gradient_net *net, int target);

/* Score of class `target` at a picture, from the weights, in double. */
double vt_linear_net_score(const vt_gradient_net *net, const double *x);

#endif
