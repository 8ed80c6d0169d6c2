/* Minimal evidence: the few patches that are enough for the class, and the few without which it is lost.
 *
 * Both sets are found the same way. Patches are ranked by what the class loses with them; the shortest head of the ranking
 * that does what is wanted is found by halving; then its members are taken out again one by one, the least important
 * first, until no single one can be spared. What comes out is minimal in that sense: no smaller set inside it will do. Another
 * set may be smaller still. The class is kept as long as its margin is positive: its logit above every other (above
 * `versus`, where that is given; above 0 for multi-label models).
 *
 * The value of a member is the margin that the set loses (keep) or gains (flip) without it. */
#include "engine/explain/base/method.h"
#include "engine/perturb/batch.h"

#include <math.h>
#include <string.h>

typedef struct minimal_params {
    int from, masking, budget;
} minimal_params;

enum { FROM_REMOVAL, FROM_GRADIENT };
static const char *const from_names[] = {"removal", "gradient", NULL};

enum {
    BUDGET = 2,
    BUDGET_DEFAULT = 1000,
    BUDGET_MAX = 10000,
    HALVINGS = 60,
    PARTS = 16
}; /* BUDGET: row of the table */

static const vt_param params[] = {
    {.name = "from",
     .help =
         "how patches are ranked: removal (what the class loses without that patch alone, a forward each) or gradient "
         "(input times gradient, summed over the patch)",
     .type = VT_ENUM,
     .offset = offsetof(minimal_params, from),
     .def = FROM_REMOVAL,
     .choices = from_names},
    {.name = "masking",
     .help =
         "how a patch is absent: key (no attention to it), zero_input (its pixels are the mean colour of the training "
         "data), zero_embedding, post_softmax (attention to it is multiplied by 0)",
     .type = VT_ENUM,
     .offset = offsetof(minimal_params, masking),
     .def = VT_MASKING_KEY,
     .choices = vt_masking_names},
    [BUDGET] = {.name = "budget",
                .help =
                    "most forwards for ranking and search; the default is raised to twice the number of patches where "
                    "that is more",
                .unit = "forwards",
                .type = VT_INT,
                .offset = offsetof(minimal_params, budget),
                .min = 10,
                .max = BUDGET_MAX,
                .def = BUDGET_DEFAULT},
};

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    minimal_params *p = raw;
    const size_t P = info->grid_h * info->grid_w, least = (p->from == FROM_REMOVAL ? P : 0) + HALVINGS;
    if (info->regression || (info->classes < 2 && !info->multi_label && info->classes > 0)) {
        vt_error_set(err, VT_E_UNSUPPORTED, "method", "%s has no class that could be kept or lost", info->id);
        vt_error_allow(err, "a model with two classes or more");
        return VT_E_UNSUPPORTED;
    }
    if (!given[BUDGET] && (size_t)p->budget < 2 * P)
        p->budget = 2 * P < BUDGET_MAX ? (int)(2 * P) : BUDGET_MAX;
    if ((size_t)p->budget >= least)
        return VT_OK;
    /* what nobody asked for cannot be at fault: then it is the method that this grid is too fine for */
    const vt_status status = given[BUDGET] ? VT_E_INVALID : VT_E_UNSUPPORTED;
    vt_error_set(err, status, given[BUDGET] ? "budget" : "method",
                 "%d forwards are too few to rank %zu patches and look for a set", p->budget, P);
    if (least <= BUDGET_MAX)
        vt_error_allow(err, "%zu <= budget <= %d", least, BUDGET_MAX);
    else
        vt_error_allow(err, "%d <= budget <= %d, with from=gradient", HALVINGS, BUDGET_MAX);
    return status;
}

static uint32_t needs_of(const void *raw)
{
    const minimal_params *p = raw;
    return VT_NEEDS_FORWARDS | (p->from == FROM_GRADIENT ? VT_NEEDS_INPUT_GRAD : 0);
}

static double cost(const vt_model_info *info, const void *raw)
{
    const minimal_params *p = raw;
    (void)info;
    return 1.0 + p->budget;
}

static size_t two_maps(const vt_model_info *info, const void *raw)
{
    (void)info, (void)raw;
    return 2;
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    const size_t P = info->grid_h * info->grid_w;
    (void)raw;
    return vt_batch_bytes(info, 0) + P * (2 * sizeof(double) + sizeof(uint32_t) + 1) + 4096;
}

typedef struct search {
    const vt_ctx *ctx;
    const minimal_params *params;
    size_t P;
    double *rank;    /* (P): what the class loses with each patch */
    uint32_t *order; /* (P): patches by rank, the most important first */
    uint8_t *in;     /* (P): members of the set */
    double *value;   /* (P): of the members */
    double margin;   /* of the last sample, or of the whole picture while patches are ranked */
    size_t left;     /* forwards */
    bool out_of_budget;
    bool part;  /* the class is not first in the whole picture: a part is looked for in which it is */
    bool flips; /* members are taken away from the picture; else they are all that stays */
    vt_batch batch;
} search;

static double margin_of(const search *s, const float *logits)
{
    const vt_model_info *info = s->ctx->info;
    const size_t target = (size_t)s->ctx->target;
    double other = info->multi_label ? 0.0 : -HUGE_VAL;
    if (s->ctx->versus >= 0)
        other = (double)logits[s->ctx->versus];
    else
        for (size_t c = 0; c < info->classes && !info->multi_label; c++)
            if (c != target)
                other = fmax(other, (double)logits[c]);
    return (double)logits[target] - other;
}

/* ---- ranking ---- */

/* Sample 0 is the whole picture; sample k lacks patch k - 1. */
static void without_one(void *host, size_t k, uint8_t *kept)
{
    (void)host;
    if (k > 0)
        kept[k - 1] = 0;
}

static void take_loss(void *host, size_t k, const vt_scores *scores)
{
    search *s = host;
    const double margin = margin_of(s, scores->logits);
    if (k == 0)
        s->margin = margin;
    else
        s->rank[k - 1] = s->margin - margin;
}

static vt_status rank_by_removal(search *s, vt_error *err)
{
    const vt_samples samples = {.count = 1 + s->P,
                                .keep = without_one,
                                .masking = (vt_masking)s->params->masking,
                                .take = take_loss,
                                .host = s};
    s->left -= s->P + 1 < s->left ? s->P + 1 : s->left;
    return vt_batch_run(&s->batch, &samples, NULL, err);
}

static void rank_by_gradient(search *s)
{
    const vt_model_info *info = s->ctx->info;
    const size_t w = info->image_w, n = info->image_h * w;
    for (size_t i = 0; i < 3 * n; i++) {
        const size_t row = i % n / w / info->patch_h, column = i % w / info->patch_w;
        s->rank[row * info->grid_w + column] += (double)s->ctx->input[i] * (double)s->ctx->trace->input_grad[i];
    }
}

/* Does patch a come behind patch b? */
static bool behind(const search *s, uint32_t a, uint32_t b)
{
    return s->rank[a] < s->rank[b] || (s->rank[a] == s->rank[b] && a > b);
}

static void sort_patches(search *s)
{
    for (size_t i = 0; i < s->P; i++) {
        size_t at = i;
        for (; at > 0 && behind(s, s->order[at - 1], (uint32_t)i); at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = (uint32_t)i;
    }
}

/* ---- search ---- */

static void keep_members(void *host, size_t k, uint8_t *kept)
{
    const search *s = host;
    (void)k;
    for (size_t p = 0; p < s->P; p++)
        kept[p] = s->flips ? !s->in[p] : s->in[p];
}

static void take_margin(void *host, size_t k, const vt_scores *scores)
{
    search *s = host;
    (void)k;
    s->margin = margin_of(s, scores->logits);
}

/* margin of the set as it is: *does says whether it does what is wanted. Out of budget: nothing is run, and it does not. */
static vt_status try_set(search *s, bool *does, vt_error *err)
{
    const vt_samples samples = {
        .count = 1, .keep = keep_members, .masking = (vt_masking)s->params->masking, .take = take_margin, .host = s};
    *does = false;
    s->out_of_budget = s->left == 0;
    if (s->out_of_budget)
        return VT_OK;
    s->left--;
    const vt_status st = vt_batch_run(&s->batch, &samples, NULL, err);
    *does = s->flips ? !(s->margin > 0.0) : s->margin > 0.0;
    return st;
}

static void take_head(search *s, size_t n)
{
    for (size_t i = 0; i < s->P; i++)
        s->in[s->order[i]] = i < n;
}

/* A class that is not first in the whole picture may be first in a part of it: the shortest of some heads that does. */
static vt_status find_part(search *s, size_t *low, size_t *high, bool *found, vt_error *err)
{
    vt_status st = VT_OK;
    size_t before = 0;
    for (size_t k = 1; st == VT_OK && k < PARTS && !*found; k++) {
        const size_t n = s->P * k / PARTS;
        if (n == before)
            continue;
        take_head(s, n);
        st = try_set(s, found, err);
        *low = before;
        *high = before = n;
    }
    return st;
}

/* The shortest head of the ranking, as far as halving finds it: at `low` it does not do, at `high` it does. *found: whether
 * there is one. */
static vt_status find_head(search *s, size_t *members, bool *found, vt_error *err)
{
    size_t low = 0, high = s->P;
    bool does;
    s->part = false;
    take_head(s, 0);
    vt_status st = try_set(s, found, err);
    if (st != VT_OK || *found) /* nobody is needed */
        return st;
    take_head(s, high);
    st = try_set(s, found, err);
    s->part = st == VT_OK && !*found && !s->flips && !s->out_of_budget;
    if (s->part)
        st = find_part(s, &low, &high, found, err);
    if (st != VT_OK || !*found)
        return st;
    while (st == VT_OK && low + 1 < high) {
        const size_t middle = low + (high - low) / 2;
        take_head(s, middle);
        st = try_set(s, &does, err);
        if (does)
            high = middle;
        else
            low = middle;
    }
    take_head(s, high);
    *members = high;
    return st;
}

/* Takes members out as long as the set does without one of them. *members is kept true. */
static vt_status prune(search *s, size_t *members, vt_error *err)
{
    bool does, changed = *members > 0;
    vt_status st = VT_OK;
    while (st == VT_OK && changed && !s->out_of_budget) {
        changed = false;
        st = try_set(s, &does, err);
        double whole = s->margin;
        for (size_t i = s->P; i-- > 0 && st == VT_OK && !s->out_of_budget;) {
            const uint32_t p = s->order[i];
            if (!s->in[p])
                continue;
            s->in[p] = 0;
            st = try_set(s, &does, err);
            if (st != VT_OK || !does) {
                s->in[p] = 1;
                if (!s->out_of_budget)
                    s->value[p] = fabs(whole - s->margin);
                continue;
            }
            s->value[p] = 0.0;
            whole = s->margin;
            changed = true;
            --*members;
        }
    }
    return st;
}

static vt_status say(const search *s, vt_output *out, bool found, size_t members, vt_error *err)
{
    if (!found && s->out_of_budget)
        return vt_output_note(out, err, "The budget ended before the search began.");
    if (!found && s->flips)
        return vt_output_note(
            out, err, "The class is first even with all patches taken away, so nothing flips it. Another masking may.");
    if (!found)
        return vt_output_note(out, err,
                              "The class is not first in the whole picture, nor in any part of it that was tried.");
    if (members == 0 && s->flips)
        return vt_output_note(out, err, "The class is not first in the whole picture: nothing needs to be taken away.");
    if (members == 0)
        return vt_output_note(
            out, err,
            "The class is first even without any patch, so none is needed to keep it. Another masking may need "
            "some.");
    return vt_output_note(out, err,
                          s->part    ? "The class is not first in the whole picture, but in %zu of its %zu patches%s."
                          : s->flips ? "Without %zu of %zu patches the class is no longer first%s."
                                     : "%zu of %zu patches are enough for the class to be first%s.",
                          members, s->P,
                          s->out_of_budget ? "; the budget ended before the set was minimal"
                                           : "; none of them can be spared");
}

/* One of the two sets into its map. */
static vt_status find_set(search *s, bool flips, vt_output *out, vt_error *err)
{
    vt_map_spec spec = VT_MAP_SPEC_GRID(s->ctx->info);
    size_t members = 0;
    bool found = false;
    vt_map *made;
    float *map; /* (P) */
    spec.part = flips ? "flip" : "keep";
    vt_status st = vt_output_map(out, &spec, &map, &made, err);
    if (st != VT_OK)
        return st;
    s->flips = flips;
    s->out_of_budget = false;
    memset(s->value, 0, s->P * sizeof *s->value);
    st = find_head(s, &members, &found, err);
    if (st == VT_OK && found)
        st = prune(s, &members, err);
    if (st != VT_OK)
        return st;
    double least = HUGE_VAL;
    for (size_t p = 0; p < s->P; p++)
        if (found && s->in[p] && s->value[p] > 0.0)
            least = fmin(least, s->value[p]);
    for (size_t p = 0; found && p < s->P; p++) /* members that the budget did not reach count as the least */
        if (s->in[p])
            map[p] = (float)(s->value[p] > 0.0 ? s->value[p] : least < HUGE_VAL ? least : 1.0);
    made->quality = s->out_of_budget ? "not_converged" : "good";
    return say(s, out, found, members, err);
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const minimal_params *p = raw;
    const size_t P = ctx->info->grid_h * ctx->info->grid_w;
    search s = {.ctx = ctx, .params = p, .P = P, .left = (size_t)p->budget};
    vt_status st = vt_control_check(ctx->control, err);
    if (st != VT_OK)
        return st;
    s.rank = vt_arena_calloc(ctx->arena, P, sizeof *s.rank);
    s.value = vt_arena_alloc(ctx->arena, P, sizeof *s.value);
    s.order = vt_arena_alloc(ctx->arena, P, sizeof *s.order);
    s.in = vt_arena_alloc(ctx->arena, P, sizeof *s.in);
    if (!s.rank || !s.value || !s.order || !s.in)
        return vt_error_set(err, VT_E_NOMEM, "", "minimal_evidence: arena too small for %zu patches", P);
    const vt_batch_setup setup = {.model = ctx->model,
                                  .input = ctx->input,
                                  .stage = "minimal_evidence",
                                  .arena = ctx->arena,
                                  .control = ctx->control};
    st = vt_batch_open(&s.batch, &setup, err);
    s.batch.total = (uint64_t)p->budget;
    if (st == VT_OK && p->from == FROM_REMOVAL)
        st = rank_by_removal(&s, err);
    else if (st == VT_OK)
        rank_by_gradient(&s);
    if (st != VT_OK)
        return st;
    sort_patches(&s);
    const size_t rest = s.left / 2; /* for the second set, and what the first leaves over */
    s.left -= rest;
    st = find_set(&s, false, out, err);
    s.left += rest;
    return st == VT_OK ? find_set(&s, true, out, err) : st;
}

const vt_explainer vt_explainer_minimal_evidence = {
    .name = "minimal_evidence",
    .title = "Minimal evidence",
    .summary = "The few patches that are enough for the class, and the few without which it is no longer first.",
    .source = "own design, after sufficient input subsets (Carter et al. 2019, arXiv 1810.03805) and minimal deletions "
              "(Fong, Vedaldi 2017, arXiv 1704.03296)",
    .notes =
        "Two maps, part keep and part flip. They are sets and no difference of two scores: a patch outside a set may "
        "matter as well, and another set may be smaller. The value of a member is the margin over the next class that "
        "is lost (keep) or won back (flip) without it.",
    .family = VT_FAMILY_REMOVAL,
    .needs = VT_NEEDS_FORWARDS | VT_NEEDS_INPUT_GRAD,
    .needs_of = needs_of,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(minimal_params),
    .settle = settle,
    .cost = cost,
    .maps = two_maps,
    .scratch = scratch,
    .run = run,
};
