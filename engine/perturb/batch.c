/* The loop: a batch of samples into the trace, one forward of them, their scores out in order.
 *
 * Where only tokens change, the picture is embedded once and its rows are copied. A patch of zeros embeds to the bias, so zero input
 * by patches needs no pixels either, except behind a stem, where a pixel reaches further than its patch. */
#include "engine/perturb/batch.h"

#include <assert.h>
#include <string.h>

const char *const vt_masking_names[] = {"key", "zero_input", "zero_embedding", "post_softmax", NULL};

enum { BLOCK_SLACK = 256 }; /* alignment and red zone of one arena block */

size_t vt_batch_bytes(const vt_model_info *info, size_t outputs)
{
    const size_t size = 3 * info->image_h * info->image_w, T = info->tokens;
    return vt_trace_bytes(info, info->bf16 ? VT_NEEDS_BF16 : 0, VT_BATCH) + VT_BATCH * (size + T) * sizeof(float) +
           T * info->width * sizeof(float) + T + (VT_BATCH + 1) * sizeof(size_t) + outputs * sizeof(double) +
           6 * BLOCK_SLACK;
}

vt_status vt_batch_open(vt_batch *batch, const vt_batch_setup *setup, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(setup->model);
    const vt_backend backend = vt_trace_backend(setup->model, setup->precision);
    const size_t n = setup->images ? setup->images : VT_BATCH, size = 3 * info->image_h * info->image_w;
    vt_arena *arena = setup->arena;
    *batch = (vt_batch){.setup = *setup, .info = info, .images = n, .size = size};
    batch->setup.images = setup->images ? setup->images : vt_backend_batch(backend);
    batch->inputs = vt_arena_alloc(arena, n, size * sizeof(float));
    batch->embedded = vt_arena_alloc(arena, info->tokens, info->width * sizeof(float));
    batch->kept = vt_arena_alloc(arena, info->tokens, 1);
    batch->starts = vt_arena_alloc(arena, n + 1, sizeof(size_t));
    batch->keys = vt_arena_alloc(arena, n, info->tokens * sizeof(float));
    batch->y = vt_arena_alloc(arena, setup->outputs, sizeof(double));
    if (!batch->inputs || !batch->embedded || !batch->kept || !batch->starts || !batch->keys || !batch->y)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for %zu pictures at once", setup->stage, n);
    const vt_status st = vt_trace_open_batch(&batch->trace, setup->model, setup->precision, n, arena, err);
    batch->trace.changes.unmeasured = true;
    return st;
}

/* ---- samples into the trace ---- */

/* Embeds one picture where a batch is embedded, and keeps it. */
static vt_status embed_input(vt_batch *b, vt_error *err)
{
    if (b->is_embedded)
        return VT_OK;
    vt_trace_use(&b->trace, 1);
    const vt_status st = vt_forward_embed(&b->trace, b->setup.input, b->setup.control, err);
    if (st != VT_OK)
        return st;
    memcpy(b->embedded, vt_trace_tokens(&b->trace, 0), b->trace.T * b->trace.D * sizeof(float));
    b->is_embedded = true;
    return VT_OK;
}

static const uint8_t *kept_of(vt_batch *b, size_t k)
{
    memset(b->kept, 1, b->trace.P);
    b->samples->keep(b->samples->host, b->first + k, b->kept);
    return b->kept;
}

static void zero_patches(vt_batch *b, const uint8_t *kept, float *x)
{
    const vt_model_info *info = b->info;
    const size_t h = info->image_h, w = info->image_w;
    memcpy(x, b->setup.input, b->size * sizeof *x);
    for (size_t row = 0; row < 3 * h; row++)
        for (size_t g = 0; g < info->grid_w; g++)
            if (!kept[row % h / info->patch_h * info->grid_w + g])
                memset(x + row * w + g * info->patch_w, 0, info->patch_w * sizeof *x);
}

/* z (T, D): those of the picture, with other rows for the patches that go. */
static void replace_rows(const vt_batch *b, const uint8_t *kept, float *z)
{
    const vt_weights *w = b->trace.weights;
    const size_t D = b->trace.D, prefix = b->info->prefix;
    memcpy(z, b->embedded, b->trace.T * D * sizeof *z);
    for (size_t p = 0; p < b->trace.P; p++)
        for (size_t i = 0; !kept[p] && i < D; i++)
            z[(prefix + p) * D + i] =
                w->patch_pos[p * D + i] + (b->samples->masking == VT_MASKING_ZERO_INPUT ? w->patch_b[i] : 0.0f);
}

/* Copies the prefix and the kept rows; returns how many rows these are. */
static size_t copy_kept(const vt_batch *b, const uint8_t *kept, float *z)
{
    const size_t D = b->trace.D, prefix = b->info->prefix;
    size_t rows = prefix;
    memcpy(z, b->embedded, prefix * D * sizeof *z);
    for (size_t p = 0; p < b->trace.P; p++)
        if (kept[p])
            memcpy(z + rows++ * D, b->embedded + (prefix + p) * D, D * sizeof *z);
    return rows;
}

static void hide_keys(const vt_batch *b, const uint8_t *kept, float *z, float *keys)
{
    memcpy(z, b->embedded, b->trace.T * b->trace.D * sizeof *z);
    for (size_t t = 0; t < b->trace.T; t++)
        keys[t] = t < b->info->prefix || kept[t - b->info->prefix] ? 1.0f : 0.0f;
}

static vt_status place_kept(vt_batch *b, size_t n, vt_error *err)
{
    const size_t T = b->trace.T, D = b->trace.D;
    const vt_masking masking = b->samples->masking;
    if (masking == VT_MASKING_ZERO_INPUT && b->info->has_stem) {
        for (size_t k = 0; k < n; k++)
            zero_patches(b, kept_of(b, k), b->inputs + k * b->size);
        return vt_forward_embed(&b->trace, b->inputs, b->setup.control, err);
    }
    const bool hide = masking == VT_MASKING_POST_SOFTMAX || (masking == VT_MASKING_KEY && b->hides_keys);
    const bool leave_out = masking == VT_MASKING_KEY && !hide;
    float *z = vt_trace_tokens(&b->trace, 0); /* (rows, D) */
    b->starts[0] = 0;
    for (size_t k = 0; k < n; k++) {
        const uint8_t *kept = kept_of(b, k);
        if (leave_out)
            b->starts[k + 1] = b->starts[k] + copy_kept(b, kept, z + b->starts[k] * D);
        else if (hide)
            hide_keys(b, kept, z + k * T * D, b->keys + k * T);
        else
            replace_rows(b, kept, z + k * T * D);
    }
    b->trace.changes.starts = leave_out ? b->starts : NULL;
    b->trace.changes.keys = hide ? b->keys : NULL;
    b->trace.changes.after = masking == VT_MASKING_POST_SOFTMAX;
    return VT_OK;
}

static void place_tokens(vt_batch *b, size_t n)
{
    const size_t T = b->trace.T, D = b->trace.D;
    float *z = vt_trace_tokens(&b->trace, 0);
    for (size_t k = 0; k < n; k++) {
        memcpy(z + k * T * D, b->embedded, T * D * sizeof *z);
        b->samples->tokens(b->samples->host, b->first + k, z + (k * T + b->info->prefix) * D);
    }
}

static void edit_sample(void *host, size_t layer, vt_place place, size_t k, float *x, size_t rows)
{
    const vt_batch *b = host;
    const vt_samples *s = b->samples;
    if (layer == s->layer && place == s->place_of_edit)
        s->edit(s->host, b->first + k, x, rows);
}

static void place_for_edit(vt_batch *b, size_t n)
{
    const size_t floats = b->trace.T * b->trace.D, layer = b->samples->layer;
    float *z = vt_trace_tokens(&b->trace, layer);
    for (size_t k = 0; k < n; k++)
        memcpy(z + k * floats, layer > 0 ? b->samples->block_input : b->embedded, floats * sizeof *z);
    b->trace.changes.edit = edit_sample;
    b->trace.changes.host = b;
}

/* *block: the first that has to be run. */
static vt_status place_batch(vt_batch *b, size_t n, size_t *block, vt_error *err)
{
    const vt_samples *s = b->samples;
    vt_changes *changes = &b->trace.changes;
    *changes = (vt_changes){.unmeasured = true};
    *block = s->edit ? s->layer : 0;
    if (!s->place && *block == 0) {
        const vt_status st = embed_input(b, err);
        if (st != VT_OK)
            return st;
    }
    vt_trace_use(&b->trace, n);
    if (s->place) {
        for (size_t k = 0; k < n; k++)
            s->place(s->host, b->first + k, b->inputs + k * b->size);
        return vt_forward_embed(&b->trace, b->inputs, b->setup.control, err);
    }
    if (s->keep)
        return place_kept(b, n, err);
    if (s->edit)
        place_for_edit(b, n);
    else
        place_tokens(b, n);
    return VT_OK;
}

/* ---- scores out of it ---- */

static void take_batch(vt_batch *b, size_t n)
{
    const vt_trace *tr = &b->trace;
    for (size_t k = 0; k < n; k++) {
        const float *logits = tr->logits + k * tr->C;
        for (size_t o = 0; o < b->setup.outputs; o++)
            b->y[o] = vt_link_score(b->setup.link, b->info, b->setup.signs + o * tr->C, logits, NULL);
        const vt_scores scores = {.y = b->y, .logits = tr->C ? logits : NULL, .features = tr->features + k * tr->F};
        b->samples->take(b->samples->host, b->first + k, &scores);
    }
}

static vt_status run_batch(vt_batch *b, size_t n, vt_error *err)
{
    size_t block;
    vt_status st = place_batch(b, n, &block, err);
    if (st == VT_OK)
        st = vt_forward_blocks(&b->trace, block, b->setup.control, err);
    if (st == VT_OK)
        take_batch(b, n);
    return st;
}

/* Sequences that are cut short go together whatever multiplies, or weights are fetched for few rows. Measured on ViT-Ti, packed:
 * 4 together take 0.88 of the time with half of the patches left, 0.73 with a fifth, 0.47 with ten. */
static size_t together_of(const vt_batch *b, const vt_samples *s)
{
    const bool cut_short = s->keep && s->masking == VT_MASKING_KEY && !b->hides_keys;
    return cut_short ? b->images : b->setup.images;
}

vt_status vt_batch_run(vt_batch *batch, const vt_samples *samples, size_t *done, vt_error *err)
{
    vt_control *control = batch->setup.control;
    const size_t together = together_of(batch, samples);
    size_t taken = 0;
    vt_status st = vt_control_check(control, err);
    assert((samples->place != NULL) + (samples->keep != NULL) + (samples->tokens != NULL) + (samples->edit != NULL) ==
           1);
    batch->samples = samples;
    if (batch->total == 0)
        batch->total = samples->count;
    while (st == VT_OK && taken < samples->count) {
        const size_t left = samples->count - taken, n = left < together ? left : together;
        batch->first = taken;
        st = run_batch(batch, n, err);
        if (st != VT_OK)
            break;
        taken += n;
        batch->done += n;
        vt_control_progress(control, batch->setup.stage, batch->done, batch->total);
        st = vt_control_check(control, err);
        if (samples->enough && samples->enough(samples->host, taken))
            break;
    }
    if (done && st == VT_OK)
        *done = taken;
    return st;
}

vt_status vt_batch_score(vt_batch *batch, const float *x, double *y, vt_error *err)
{
    vt_trace *tr = &batch->trace;
    tr->changes = (vt_changes){.unmeasured = true};
    vt_trace_use(tr, 1);
    const vt_status st = vt_forward(tr, x ? x : batch->setup.input, batch->setup.control, err);
    for (size_t o = 0; st == VT_OK && o < batch->setup.outputs; o++)
        y[o] = vt_link_score(batch->setup.link, batch->info, batch->setup.signs + o * tr->C, tr->logits, NULL);
    return st;
}
