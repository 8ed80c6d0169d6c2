/* Another input size for a model: checked here once, for a request that asks for it and for a model that is opened so.
 *
 * A view is a shallow copy whose pointers lead into its base. What depends on the grid is replaced: sizes, rules for
 * pictures, fingerprint, and the positions, which are resampled from the rows of the file and never from resampled ones. */
#include "engine/model/view.h"

#include "engine/model/opened.h"
#include "engine/model/stem.h"
#include "vitral/hash.h"
#include "vitral/text.h"

#include <stdlib.h>
#include <string.h>

enum { PATCHES_MAX = 65536, SIDE_MAX = 16384 };

/* ---- sizes ---- */

static bool read_side(const char **at, size_t *out)
{
    const size_t digits = strspn(*at, "0123456789");
    size_t value = 0;
    if (digits == 0 || digits > 6)
        return false;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (size_t)((*at)[i] - '0');
    *at += digits;
    *out = value;
    return value > 0;
}

vt_status vt_image_size_parse(const char *text, size_t *h, size_t *w, vt_error *err)
{
    const char *at = text;
    size_t height = 0, width = 0;
    bool good = read_side(&at, &height);
    if (good && *at == 'x') {
        at++;
        good = read_side(&at, &width);
    } else {
        width = height;
    }
    if (!good || *at) {
        char shown[VT_QUOTE_SIZE];
        vt_error_set(err, VT_E_INVALID, "image_size", "image_size '%s' is neither N nor HxW",
                     vt_quote(shown, sizeof shown, text));
        vt_error_allow(err, "whole numbers of pixels: N for both sides, or HxW (height x width)");
        return VT_E_INVALID;
    }
    *h = height;
    *w = width;
    return VT_OK;
}

/* The multiple of the patch that is nearest to side, from one patch to as many as `most` holds. */
static size_t nearest_multiple(size_t side, size_t patch, size_t most)
{
    const size_t steps = (side + patch / 2) / patch;
    return (steps < 1 ? 1 : steps > most / patch ? most / patch : steps) * patch;
}

/* image_h, image_w, grid and tokens of info, at most most_h x most_w pixels. */
static vt_status set_size(vt_model_info *info, size_t h, size_t w, size_t most_h, size_t most_w, vt_error *err)
{
    const size_t ph = info->patch_h, pw = info->patch_w;
    if (h == 0 || w == 0 || h > most_h || w > most_w || h % ph != 0 || w % pw != 0) {
        if (h > most_h || w > most_w)
            vt_error_set(err, VT_E_INVALID, "image_size", "image_size %zux%zu is larger than %zux%zu", h, w, most_h,
                         most_w);
        else
            vt_error_set(
                err, VT_E_INVALID, "image_size",
                "image_size %zux%zu: the height must be a multiple of %zu and the width of %zu, the patch of %s", h, w,
                ph, pw, info->id);
        vt_error_allow(err, "multiples of %zu x %zu up to %zux%zu; the nearest is %zux%zu", ph, pw,
                       most_h - most_h % ph, most_w - most_w % pw, nearest_multiple(h, ph, most_h),
                       nearest_multiple(w, pw, most_w));
        return VT_E_INVALID;
    }
    if ((h / ph) * (w / pw) > PATCHES_MAX) {
        vt_error_set(err, VT_E_INVALID, "image_size", "image_size %zux%zu: %zu patches", h, w, (h / ph) * (w / pw));
        vt_error_allow(err, "at most %d patches", (int)PATCHES_MAX);
        return VT_E_INVALID;
    }
    info->image_h = h;
    info->image_w = w;
    info->grid_h = h / ph;
    info->grid_w = w / pw;
    info->tokens = info->prefix + info->grid_h * info->grid_w;
    return VT_OK;
}

static void hash_size(uint8_t fingerprint[32], size_t h, size_t w)
{
    const size_t sides[2] = {h, w};
    uint8_t bytes[16];
    vt_sha256 hash;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(sides[i / 8] >> (8 * (i % 8)));
    vt_sha256_init(&hash);
    vt_sha256_update(&hash, fingerprint, 32);
    vt_sha256_update(&hash, bytes, sizeof bytes);
    vt_sha256_final(&hash, fingerprint);
}

/* All that follows from the size but the values of the positions. */
static vt_status adopt_size(vt_model *model, size_t h, size_t w, size_t most_h, size_t most_w, vt_error *err)
{
    vt_model_info *info = &model->info;
    const vt_preprocess own = info->preprocess;
    const vt_positions *positions = &model->checkpoint.positions;
    if (h == info->image_h && w == info->image_w)
        return VT_OK;
    const vt_status status = set_size(info, h, w, most_h, most_w, err);
    if (status != VT_OK)
        return status;
    vt_preprocess_for_size(&info->preprocess, &own, h, w);
    hash_size(info->fingerprint, h, w);
    model->checkpoint.weights.patch_pos =
        positions->grid_h == info->grid_h && positions->grid_w == info->grid_w ? positions->rows : NULL;
    return VT_OK;
}

static void fill_positions(float *out, const vt_model *model)
{
    const vt_positions *from = &model->checkpoint.positions;
    vt_positions_resample(out, model->info.grid_h, model->info.grid_w, from->rows, from->grid_h, from->grid_w,
                          model->info.width, from->rule);
}

/* ---- at load ---- */

vt_status vt_model_resize(vt_model *model, size_t image_h, size_t image_w, vt_error *err)
{
    const vt_status status = adopt_size(model, image_h, image_w, SIDE_MAX, SIDE_MAX, err);
    if (status != VT_OK || model->checkpoint.weights.patch_pos)
        return status;
    const size_t bytes = model->info.grid_h * model->info.grid_w * model->info.width * sizeof(float);
    model->patch_pos = malloc(bytes);
    if (!model->patch_pos)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the positions of %zu x %zu patches", model->info.grid_h,
                            model->info.grid_w);
    fill_positions(model->patch_pos, model);
    model->checkpoint.weights.patch_pos = model->patch_pos;
    return VT_OK;
}

/* ---- texts for classes ---- */

static vt_status adopt_texts(vt_model *view, const char *typed, vt_error *err)
{
    vt_model_info *info = &view->info;
    if (!view->tokenizer) {
        vt_error_set(err, VT_E_UNSUPPORTED, "texts", "texts cannot be classes of %s: %s", info->id,
                     *view->why_no_texts ? view->why_no_texts : "this model is no CLIP");
        vt_error_allow(err, "no texts; or a CLIP model with its text tower and tokenizer");
        return VT_E_UNSUPPORTED;
    }
    const vt_status status = vt_asked_texts_make(&view->asked, view->tokenizer, view->text->N, typed, err);
    if (status != VT_OK)
        return status;
    view->labels = view->asked->labels;
    info->classes = view->labels.count;
    info->multi_label = false;
    info->regression = false;
    return VT_OK;
}

double vt_model_texts_flops(const vt_model *model)
{
    const vt_text_weights *w = model->text;
    double sum = 0.0;
    for (size_t k = 0; model->asked && k < model->labels.count; k++) {
        const double n = (double)(model->asked->starts[k + 1] - model->asked->starts[k]), W = (double)w->W;
        sum += (double)w->L * (2.0 * n * W * (4.0 * W + 2.0 * (double)w->M) + 4.0 * n * n * W) + 2.0 * W * (double)w->E;
    }
    return sum;
}

const char *vt_model_texts(const vt_model *model)
{
    return model->asked ? model->asked->canonical : "";
}

/* ---- for a request ---- */

vt_status vt_model_view(vt_model **out, const vt_model *base, const vt_view_options *options, vt_error *err)
{
    if (base->base) /* sizes and fingerprints are made from those of the file */
        return vt_error_set(err, VT_E_INTERNAL, "", "a view of a view of %s", base->info.id);
    vt_model *view = calloc(1, sizeof *view);
    if (!view)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a view of the model");
    view->base = base;
    view->info = base->info;
    view->checkpoint.weights = base->checkpoint.weights;
    view->checkpoint.positions = base->checkpoint.positions;
    view->labels = base->labels;
    view->text = base->text;
    view->tokenizer = base->tokenizer;
    memcpy(view->why_no_texts, base->why_no_texts, sizeof view->why_no_texts);
    vt_status status =
        adopt_size(view, options->image_h ? options->image_h : base->info.image_h,
                   options->image_w ? options->image_w : base->info.image_w,
                   options->most_h ? options->most_h : SIDE_MAX, options->most_w ? options->most_w : SIDE_MAX, err);
    if (status == VT_OK && options->texts)
        status = adopt_texts(view, options->texts, err);
    if (status != VT_OK) {
        vt_model_close(view);
        return status;
    }
    *out = view;
    return VT_OK;
}

vt_status vt_model_fill(const vt_model **out, const vt_model *model, vt_arena *arena, vt_error *err)
{
    if (model->checkpoint.weights.patch_pos) {
        *out = model;
        return VT_OK;
    }
    vt_model *filled = vt_arena_alloc(arena, 1, sizeof *filled);
    float *rows = vt_arena_alloc(arena, model->info.grid_h * model->info.grid_w * model->info.width, sizeof *rows);
    if (!filled || !rows)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the positions of %zu x %zu patches", model->info.grid_h,
                            model->info.grid_w);
    *filled = *model;
    fill_positions(rows, model);
    filled->checkpoint.weights.patch_pos = rows;
    *out = filled;
    return VT_OK;
}

size_t vt_model_fill_bytes(const vt_model_info *info)
{
    return info->tokens * info->width * sizeof(float) + sizeof(vt_model) + 1024; /* alignment and red zones */
}

double vt_model_flops(const vt_model_info *info)
{
    const double T = (double)info->tokens, D = (double)info->width, M = (double)info->mlp_width;
    const double P = (double)(info->grid_h * info->grid_w), matrices = info->activation == VT_SWIGLU ? 3.0 : 2.0;
    const double block = 2.0 * T * (4.0 * D * D + matrices * D * M) + 4.0 * T * T * D;
    const size_t stride = info->stem ? info->stem->stride : 1, channels = info->stem ? info->stem->channels : 3;
    const double kernel = (double)(channels * (info->patch_h / stride) * (info->patch_w / stride));
    const double stem = info->stem ? vt_stem_flops(info->stem, info->image_h, info->image_w) : 0.0;
    return (double)info->layers * block + stem + 2.0 * P * kernel * D +
           (info->two_heads ? 4.0 : 2.0) * (double)info->classes * (double)info->features +
           2.0 * D * (double)info->joint;
}
