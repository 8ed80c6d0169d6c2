/* Division of a vector by its euclidean norm: the last step into CLIP's joint space. Sums in double, for there is one
 * such vector per picture. A vector of zeros has no direction: it stays zero, and so does the gradient there. */
#include "engine/layers/layers.h"

#include <math.h>

void vt_unit_forward(float *x, float *scale, size_t rows, size_t n)
{
    for (size_t t = 0; t < rows; t++) {
        float *row = x + t * n;
        double sum = 0.0;
        for (size_t i = 0; i < n; i++)
            sum += (double)row[i] * (double)row[i];
        const double by = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
        for (size_t i = 0; i < n; i++)
            row[i] = (float)((double)row[i] * by);
        scale[t] = (float)by;
    }
}

void vt_unit_backward(float *dx, const float *unit, const float *scale, size_t rows, size_t n)
{
    for (size_t t = 0; t < rows; t++) {
        const float *row = unit + t * n;
        float *g = dx + t * n;
        double along = 0.0;
        for (size_t i = 0; i < n; i++)
            along += (double)row[i] * (double)g[i];
        for (size_t i = 0; i < n; i++)
            g[i] = (float)(((double)g[i] - along * (double)row[i]) * (double)scale[t]);
    }
}

void vt_unit_relprop(float *dx, const float *scale, size_t rows, size_t n)
{
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < n; i++)
            dx[t * n + i] *= scale[t];
}
