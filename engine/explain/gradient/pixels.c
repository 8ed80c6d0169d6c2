#include "engine/explain/gradient/pixels.h"

#include <math.h>

const char *const vt_reduce_names[] = {"sum_abs", "sum", "max_abs", NULL};

double vt_reduce_channels(vt_reduce reduce, double r, double g, double b)
{
    switch (reduce) {
    case VT_REDUCE_SUM:
        return r + g + b;
    case VT_REDUCE_MAX_ABS:
        return fmax(fabs(r), fmax(fabs(g), fabs(b)));
    case VT_REDUCE_SUM_ABS:
        break;
    }
    return fabs(r) + fabs(g) + fabs(b);
}

bool vt_reduce_pixels(float *map, const double *x, vt_reduce reduce, size_t n)
{
    bool some = false;
    for (size_t p = 0; p < n; p++) {
        map[p] = (float)vt_reduce_channels(reduce, x[p], x[n + p], x[2 * n + p]);
        some = some || map[p] != 0.0f;
    }
    return some;
}
