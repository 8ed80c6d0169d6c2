/* Long work that reads, resizes, draws or ranks is stopped within it: at any check of the control, at once, with the right reason,
 * and with nothing left in the arena. */
#include "engine/explain/gradient/cam.h"
#include "engine/image/decoder.h"
#include "tests/support/label_png.h"
#include "tests/support/suite.h"
#include "vitral/render.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <webp/encode.h>

enum { W = 96, H = 160, SIDE = 24, PATCHES = 64 };

typedef struct file {
    uint8_t *bytes;
    size_t size;
} file;

static vt_arena *arena;
static uint8_t rgba[H][W][4]; /* noise, half transparent */
static file plain_png, interlaced_png, baseline_jpeg, progressive_jpeg, lossless_webp, alpha_webp;

static void fill(void)
{
    static float noise[H * W * 4];
    vt_test_fill(noise, H * W * 4, 3);
    for (size_t k = 0; k < (size_t)H * W * 4; k++)
        (&rgba[0][0][0])[k] = (uint8_t)(127.0f + 120.0f * noise[k]);
}

static file write_png(int interlaced)
{
    static unsigned samples[H * W * 4];
    for (size_t k = 0; k < (size_t)H * W * 4; k++)
        samples[k] = (&rgba[0][0][0])[k] * 257u;
    const vt_test_png png = {PNG_COLOR_TYPE_RGB_ALPHA, 16, W, H, samples, interlaced, 6, 0};
    file f;
    f.bytes = vt_test_png_write(&png, &f.size);
    return f;
}

static file write_jpeg(bool progressive)
{
    struct jpeg_error_mgr error;
    struct jpeg_compress_struct c;
    file f = {NULL, 0};
    unsigned long size = 0;
    c.err = jpeg_std_error(&error);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &f.bytes, &size);
    c.image_width = W;
    c.image_height = H;
    c.input_components = 4;
    c.in_color_space = JCS_EXT_RGBX;
    jpeg_set_defaults(&c);
    if (progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    for (size_t y = 0; y < H; y++) {
        JSAMPROW row = rgba[y][0];
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    f.size = size;
    return f;
}

static void setup(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)32 << 20, NULL), VT_OK);
    fill();
    plain_png = write_png(0);
    interlaced_png = write_png(1);
    baseline_jpeg = write_jpeg(false);
    progressive_jpeg = write_jpeg(true);
    alpha_webp.size = WebPEncodeLosslessRGBA(rgba[0][0], W, H, W * 4, &alpha_webp.bytes);
    for (size_t k = 3; k < sizeof rgba; k += 4)
        (&rgba[0][0][0])[k] = 255;
    lossless_webp.size = WebPEncodeLosslessRGBA(rgba[0][0], W, H, W * 4, &lossless_webp.bytes);
    ck_assert(alpha_webp.size && lossless_webp.size);
}

static void teardown(void)
{
    free(plain_png.bytes);
    free(interlaced_png.bytes);
    free(baseline_jpeg.bytes);
    free(progressive_jpeg.bytes);
    WebPFree(alpha_webp.bytes);
    WebPFree(lossless_webp.bytes);
    vt_arena_close(arena);
}

/* ---- the works ---- */

static vt_status decode(const file *f, vt_control *control, vt_error *err)
{
    const vt_decode_options options = {.pixels_max = (uint64_t)W * H, .control = control};
    vt_image image;
    return vt_image_decode(&image, f->bytes, f->size, &options, arena, err);
}

static vt_status decode_plain_png(vt_control *control, vt_error *err)
{
    return decode(&plain_png, control, err);
}

static vt_status decode_interlaced_png(vt_control *control, vt_error *err)
{
    return decode(&interlaced_png, control, err);
}

static vt_status decode_baseline_jpeg(vt_control *control, vt_error *err)
{
    return decode(&baseline_jpeg, control, err);
}

static vt_status decode_progressive_jpeg(vt_control *control, vt_error *err)
{
    return decode(&progressive_jpeg, control, err);
}

static vt_status decode_lossless_webp(vt_control *control, vt_error *err)
{
    return decode(&lossless_webp, control, err);
}

static vt_status decode_alpha_webp(vt_control *control, vt_error *err)
{
    return decode(&alpha_webp, control, err);
}

static vt_status decode_mask(vt_control *control, vt_error *err)
{
    const vt_decode_options options = {.pixels_max = (uint64_t)W * H, .width = H, .height = W, .control = control};
    vt_mask mask;
    return vt_mask_decode(&mask, plain_png.bytes, plain_png.size, &options, arena, err);
}

static const vt_image picture = {.rgb = &rgba[0][0][0], .width = W, .height = H};

static vt_status preprocess(vt_control *control, vt_error *err)
{
    static float input[3 * SIDE * SIDE];
    const vt_preprocess rule = {.resize_h = SIDE,
                                .resize_w = SIDE,
                                .input_h = SIDE,
                                .input_w = SIDE,
                                .filter = VT_FILTER_BICUBIC,
                                .std = {1.0f, 1.0f, 1.0f}};
    vt_transform transform;
    ck_assert_int_eq(vt_preprocess_plan(&transform, &rule, VT_FIT_SQUASH, W, H, NULL), VT_OK);
    return vt_preprocess_run(input, NULL, &picture, &rule, &transform, arena, control, err);
}

static vt_status draw(vt_control *control, vt_error *err)
{
    static const float values[4] = {0.0f, 1.0f, 0.5f, 0.25f};
    const vt_transform squash = {.fit = VT_FIT_SQUASH,
                                 .resized_w = SIDE,
                                 .resized_h = SIDE,
                                 .crop_w = SIDE,
                                 .crop_h = SIDE,
                                 .visible_w = W,
                                 .visible_h = H};
    const vt_render_options options = {.colormap = -1, .alpha = 0.5};
    vt_bytes overlay, heatmap;
    return vt_render_map(&overlay, &heatmap, values, 2, 2, false, &picture, NULL, &squash, &options, arena, control,
                         err);
}

static vt_status project(size_t channels, vt_control *control, vt_error *err)
{
    static float x[PATCHES * 2 * PATCHES];
    double map[PATCHES] = {0.0};
    vt_cam cam = {.n = PATCHES, .D = channels, .arena = arena, .control = control};
    const vt_mark mark = vt_arena_mark(arena);
    double *m = vt_arena_alloc(arena, PATCHES * channels, sizeof *m);
    vt_test_fill(x, PATCHES * channels, 7);
    for (size_t i = 0; i < PATCHES * channels; i++)
        m[i] = (double)x[i];
    const vt_status st = vt_cam_project(map, m, &cam, err);
    vt_arena_rewind(arena, mark); /* as its caller does */
    return st;
}

static vt_status project_channels(vt_control *control, vt_error *err)
{
    return project(PATCHES / 2, control, err);
}

static vt_status project_patches(vt_control *control, vt_error *err)
{
    return project(2 * PATCHES, control, err);
}

static const struct {
    const char *what;
    vt_status (*run)(vt_control *control, vt_error *err);
    size_t checks; /* at least */
} works[] = {
    {"decoding PNG", decode_plain_png, H},
    {"decoding interlaced PNG", decode_interlaced_png, H * 15 / 8},
    {"decoding JPEG", decode_baseline_jpeg, H},
    {"decoding progressive JPEG", decode_progressive_jpeg, H + 10 * (H / 16)}, /* its ten scans are read before */
    {"decoding WebP", decode_lossless_webp, 8},
    {"decoding WebP with alpha", decode_alpha_webp, H},
    {"decoding a mask", decode_mask, H},
    {"resizing", preprocess, SIDE},
    {"drawing", draw, 2 * H},
    {"a Gram matrix of channels", project_channels, PATCHES / 16 + 2},
    {"a Gram matrix of patches", project_patches, PATCHES / 16 + 2},
};

/* ---- stopping them ---- */

typedef struct watcher {
    vt_control control;
    size_t checks, stop_at; /* 0: never */
} watcher;

/* Has the control ask at every check, not every 2 ms. */
static bool is_gone(void *host)
{
    watcher *w = host;
    w->control.checked_ns = 0;
    return ++w->checks == w->stop_at;
}

static vt_status watch(watcher *w, size_t stop_at, vt_status (*run)(vt_control *control, vt_error *err), vt_error *err)
{
    *w = (watcher){.stop_at = stop_at};
    vt_control_init(&w->control, 0);
    w->control.gone = is_gone;
    w->control.host = w;
    vt_arena_reset(arena, 0);
    return run(&w->control, err);
}

START_TEST(a_client_that_leaves)
{
    watcher w;
    vt_error err = {0};
    ck_assert_msg(watch(&w, 0, works[_i].run, &err) == VT_OK, "%s: %s", works[_i].what, err.msg);
    const size_t checks = w.checks;
    ck_assert_msg(checks >= works[_i].checks, "%s: %zu checks, not %zu", works[_i].what, checks, works[_i].checks);
    const size_t stops[] = {1, 2, checks / 3, checks / 2, checks - 1, checks};
    for (size_t k = 0; k < VT_COUNT(stops); k++) {
        err = (vt_error){0};
        ck_assert_msg(watch(&w, stops[k], works[_i].run, &err) == VT_E_CANCELLED, "%s, check %zu of %zu: %s",
                      works[_i].what, stops[k], checks, err.msg);
        ck_assert_int_eq(err.status, VT_E_CANCELLED);
        ck_assert_msg(w.checks == stops[k], "%s goes on after check %zu", works[_i].what, stops[k]);
        ck_assert_msg(vt_arena_used(arena) == 0, "%s leaves %zu bytes", works[_i].what, vt_arena_used(arena));
        ck_assert_int_eq(watch(&w, stops[k], works[_i].run, NULL), VT_E_CANCELLED);
    }
}
END_TEST

START_TEST(a_flag_and_a_deadline)
{
    vt_control control;
    vt_error err = {0};
    vt_arena_reset(arena, 0);
    ck_assert_int_eq(works[_i].run(NULL, &err), VT_OK);
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    vt_arena_reset(arena, 0);
    ck_assert_int_eq(works[_i].run(&control, &err), VT_E_CANCELLED);
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    vt_control_init(&control, 0);
    control.deadline_ns = 1; /* long ago */
    ck_assert_int_eq(works[_i].run(&control, &err), VT_E_DEADLINE);
    ck_assert_str_eq(err.param, "deadline_ms");
    ck_assert_uint_eq(vt_arena_used(arena), 0);
}
END_TEST

VT_SUITE("stopping", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, a_client_that_leaves, 0, (int)VT_COUNT(works));
         tcase_add_loop_test(tc, a_flag_and_a_deadline, 0, (int)VT_COUNT(works)))
