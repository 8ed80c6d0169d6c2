/* Many forwards of changed pictures, which is what removal-based methods and faithfulness metrics are made of: one loop,
 * as many pictures at once as the backend likes (vt_backend_batch), memory that does not grow with their number, nothing recorded.
 *
 * A user says what sample k is in one of four ways and is handed the scores of each sample in the order of k:
 *   place   writes the model's input itself: pixels masked, filled, blurred, mixed
 *   keep    says which patches stay; `masking` says how the others go: see vt_masking
 *   tokens  changes the embedded patches
 *   edit    changes activations inside one block; only the blocks from there on are run
 * Samples are cut into batches by their number alone, never by load, so the same request gives the same bits on any worker.
 * After each batch the run looks at cancel flag and deadline (so does every block), tells the progress, and asks `enough`.
 *
 *     vt_batch batch;
 *     const vt_batch_setup setup = {.model = ctx->model, .input = ctx->input, .signs = ctx->dlogits, .outputs = 1,
 *                                   .link = VT_LINK_PROBABILITY, .stage = "deletion", .arena = a, .control = c};
 *     const vt_samples samples = {.count = 197, .place = delete_first_k, .take = store_probability, .host = &mine};
 *     vt_status st = vt_batch_open(&batch, &setup, err);
 *     if (st == VT_OK)
 *         st = vt_batch_run(&batch, &samples, NULL, err);
 *
 * One thread per batch. */
#ifndef VT_PERTURB_BATCH_H
#define VT_PERTURB_BATCH_H

#include "engine/pass/link.h"
#include "engine/pass/trace.h"

/* How a patch that is not kept goes (methods.md 10.1). Prefix tokens always stay. */
typedef enum vt_masking {
    VT_MASKING_KEY, /* no query of any block reads it, nor the mean of a head that reads one: it is left out of the
                                  sequence, which is the same and costs less */
    VT_MASKING_ZERO_INPUT,     /* its pixels are 0 in the normalised input */
    VT_MASKING_ZERO_EMBEDDING, /* its embedding is 0, bias included; its position is added all the same */
    VT_MASKING_POST_SOFTMAX /* attention paid to it is multiplied by 0 after the softmax of every block, the rest stays
                                  as it was; nor does the mean of a head read it */
} vt_masking;
extern const char *const vt_masking_names[]; /* key, zero_input, zero_embedding, post_softmax */

/* What came out of one sample; valid during the call. */
typedef struct vt_scores {
    const double *y;     /* (outputs): the link of the setup with each row of signs */
    const float *logits; /* (classes); NULL without a head */
    const float *
        features; /* (features): what the head reads; for CLIP the unit vector in the joint space, whose dot product with
                              the unit vector of a text is their similarity */
} vt_scores;

typedef struct vt_samples {
    size_t count;
    void (*place)(void *host, size_t k, float *x);     /* x (3, image_h, image_w): write all of it */
    void (*keep)(void *host, size_t k, uint8_t *kept); /* kept (grid_h * grid_w): 1s on entry; 0 = goes */
    vt_masking masking;                                /* of keep */
    void (*tokens)(void *host, size_t k,
                   float *patches); /* (grid_h * grid_w, width): those of the setup's input on entry */
    /* x (rows, width): output of `place_of_edit` in block `layer`, prefix tokens first, on the first rows of sample k (fewer than
     * all tokens in the last block, where the head reads only those) */
    void (*edit)(void *host, size_t k, float *x, size_t rows);
    vt_place place_of_edit;
    size_t layer;
    const float *block_input; /* (tokens, width): input of that block, unless it is block 0 */
    void (*take)(void *host, size_t k, const vt_scores *scores);
    bool (*enough)(void *host, size_t done); /* whether to stop, after each batch; NULL: never */
    void *host;
} vt_samples;

typedef struct vt_batch_setup {
    const vt_model *model;
    const float *input; /* (3, image_h, image_w), normalised; not needed where every sample is placed */
    const float *signs; /* (outputs, classes): +1 for a target, -1 for its versus; each row asks for one y */
    size_t outputs;     /* 0: nobody reads y */
    vt_link link;
    const char *stage;  /* for progress: static text */
    uint32_t precision; /* VT_NEEDS_BF16: the forwards are in bf16 (vt_ctx.precision); 0: in float32 */
    size_t images;      /* at once; 0 = vt_backend_batch; other values are for tests */
    vt_arena *arena;    /* all memory comes from it; rewinding is the caller's */
    vt_control *control;
} vt_batch_setup;

typedef struct vt_batch {
    vt_batch_setup setup;
    const vt_model_info *info;
    vt_trace trace;
    size_t images;   /* that there is room for */
    size_t size;     /* numbers of a picture */
    float *inputs;   /* (images, size) */
    float *embedded; /* (tokens, width): the setup's input, once somebody needs it */
    bool is_embedded;
    uint8_t *kept;  /* (patches) */
    size_t *starts; /* (images + 1) */
    float *keys;    /* (images, tokens) */
    double *y;      /* (outputs) */
    uint64_t done,
        total; /* samples, for progress: total is the caller's to set before the first run (0: those of the run) */
    bool hides_keys;           /* for tests: key masking hides the keys instead of leaving the tokens out */
    const vt_samples *samples; /* of the run in progress, and the first of the batch */
    size_t first;
} vt_batch;

/* VT_E_NOMEM. */
VT_MUST_USE vt_status vt_batch_open(vt_batch *batch, const vt_batch_setup *setup, vt_error *err);
size_t vt_batch_bytes(const vt_model_info *info, size_t outputs); /* arena bytes of the above with VT_BATCH images */

/* May be called several times, with other samples each. *done: how many were taken; may be NULL. VT_E_CANCELLED,
 * VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_batch_run(vt_batch *batch, const vt_samples *samples, size_t *done, vt_error *err);

/* y (outputs) of one picture (3, image_h, image_w); NULL: the setup's own. Not counted as progress. */
VT_MUST_USE vt_status vt_batch_score(vt_batch *batch, const float *x, double *y, vt_error *err);

#endif
