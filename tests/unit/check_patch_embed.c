/* patch_embed.c against the convolution written out in double, on oblong grids and patches. */
#include <math.h>
#include <stdlib.h>

#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

typedef struct shape {
    size_t channels, gh, gw, ph, pw, D;
} shape;
static const shape shapes[] = {{3, 1, 1, 1, 1, 1},      {3, 2, 2, 4, 4, 8}, {3, 3, 2, 5, 7, 9},  {3, 1, 6, 3, 2, 17},
                               {3, 14, 14, 16, 16, 12}, {1, 2, 3, 4, 4, 5}, {64, 2, 2, 8, 8, 6}, {33, 3, 4, 1, 1, 7}};

static float *filled(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert(x);
    vt_test_fill(x, n + 1, seed);
    return x;
}

/* Index of pixel (y, x) of channel c of patch (gy, gx), counted in the picture. */
static size_t at(const shape *s, size_t c, size_t gy, size_t gx, size_t y, size_t x)
{
    return (c * s->gh * s->ph + gy * s->ph + y) * (s->gw * s->pw) + gx * s->pw + x;
}

START_TEST(forward_is_the_convolution)
{
    const shape *s = shapes + _i;
    const size_t P = s->gh * s->gw, K = s->channels * s->ph * s->pw;
    float *image = filled(P * K, 1), *w = filled(s->D * K, 2), *b = filled(s->D, 3);
    float *out = filled(P * s->D, 4), *patches = filled(P * K, 5);
    const float out_beyond = out[P * s->D], patches_beyond = patches[P * K];
    vt_patch_embed_forward(out, patches, image, w, b, s->channels, s->gh, s->gw, s->ph, s->pw, s->D);
    ck_assert(out[P * s->D] == out_beyond && patches[P * K] == patches_beyond);
    for (size_t gy = 0; gy < s->gh; gy++)
        for (size_t gx = 0; gx < s->gw; gx++)
            for (size_t o = 0; o < s->D; o++) {
                double truth = (double)b[o];
                for (size_t c = 0; c < s->channels; c++)
                    for (size_t y = 0; y < s->ph; y++)
                        for (size_t x = 0; x < s->pw; x++)
                            truth += (double)image[at(s, c, gy, gx, y, x)] *
                                     (double)w[((o * s->channels + c) * s->ph + y) * s->pw + x];
                const double got = (double)out[(gy * s->gw + gx) * s->D + o];
                if (!(fabs(got - truth) <= 2e-5))
                    ck_abort_msg("patch (%zu, %zu) channel %zu: %.9g, not %.9g", gy, gx, o, got, truth);
            }
    free(image), free(w), free(b), free(out), free(patches);
}
END_TEST

START_TEST(backward_is_its_transpose)
{
    const shape *s = shapes + _i;
    const size_t P = s->gh * s->gw, K = s->channels * s->ph * s->pw;
    float *dout = filled(P * s->D, 1), *w = filled(s->D * K, 2), *dimage = filled(P * K, 3),
          *patches = filled(P * K, 4);
    for (size_t i = 0; i < P * K; i++)
        dimage[i] = NAN; /* every pixel must be set */
    const float beyond = dimage[P * K];
    vt_patch_embed_backward(VT_BACKEND_OPENBLAS, dimage, patches, dout, w, s->channels, s->gh, s->gw, s->ph, s->pw,
                            s->D);
    ck_assert(dimage[P * K] == beyond);
    for (size_t gy = 0; gy < s->gh; gy++)
        for (size_t gx = 0; gx < s->gw; gx++)
            for (size_t c = 0; c < s->channels; c++)
                for (size_t y = 0; y < s->ph; y++)
                    for (size_t x = 0; x < s->pw; x++) {
                        double truth = 0.0;
                        for (size_t o = 0; o < s->D; o++)
                            truth += (double)dout[(gy * s->gw + gx) * s->D + o] *
                                     (double)w[((o * s->channels + c) * s->ph + y) * s->pw + x];
                        const double got = (double)dimage[at(s, c, gy, gx, y, x)];
                        if (!(fabs(got - truth) <= 1e-5))
                            ck_abort_msg("pixel of patch (%zu, %zu), (%zu, %zu, %zu): %.9g, not %.9g", gy, gx, c, y, x,
                                         got, truth);
                    }
    free(dout), free(w), free(dimage), free(patches);
}
END_TEST

VT_SUITE("patch_embed", tcase_add_loop_test(tc, forward_is_the_convolution, 0, VT_COUNT(shapes));
         tcase_add_loop_test(tc, backward_is_its_transpose, 0, VT_COUNT(shapes)))
