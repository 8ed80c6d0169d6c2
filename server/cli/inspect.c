/* vitral inspect DIR: what was recognised in a checkpoint, what it takes to run, and what every tensor is for; or the one
 * sentence that says why it is not read. The facts are the engine's (vitral/inspect.h), the words for people are here. */
#include "server/cli/cli.h"

#include "server/wire/model.h"
#include "server/wire/wire.h"
#include "vitral/inspect.h"

#include <stdarg.h>
#include <string.h>

enum { NAME = 16 }; /* width of the left column */

static void fact(const char *name, const char *fmt, ...) VT_PRINTF(2, 3);
static void fact(const char *name, const char *fmt, ...)
{
    va_list args;
    printf("    %-*s", NAME, name);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

/* ---- what was recognised ---- */

static void print_input(const vt_model_info *m, const vt_inspection *seen)
{
    const size_t patches = m->grid_h * m->grid_w;
    fact("input", "%zu x %zu pixels (height x width), patches of %zu x %zu: a grid of %zu x %zu", m->image_h,
         m->image_w, m->patch_h, m->patch_w, m->grid_h, m->grid_w);
    fact("tokens", "%zu: %zu before the patches (%s), %zu patches", m->tokens, m->prefix,
         m->has_class_token ? "the first is the class token" : "no class token", patches);
    if (seen->position_h == m->grid_h && seen->position_w == m->grid_w)
        fact("positions", "stored for this grid; another one by the rule %s", seen->position_rule);
    else
        fact("positions", "stored for %zu x %zu patches, resampled by the rule %s", seen->position_h, seen->position_w,
             seen->position_rule);
}

static void print_head(const vt_model *model, const vt_inspection *seen)
{
    const vt_model_info *m = vt_model_get_info(model);
    static const char *const pools[] = {[VT_POOL_TOKEN] = "token 0",
                                        [VT_POOL_AVG] = "the mean of the patch tokens",
                                        [VT_POOL_TOKEN_AVG] = "class token and mean of the patch tokens"};
    char joint[64] = "";
    if (m->joint)
        snprintf(joint, sizeof joint, ", brought to a joint space of %zu", m->joint);
    fact("pool", "%s%s", pools[(size_t)m->pool < VT_COUNT(pools) ? m->pool : 0], joint);
    if (m->classes == 0 && m->has_texts)
        fact("head", "texts: classes are the texts of a request, scores are cosines times a factor");
    else if (m->classes == 0)
        fact("head", "none%s%s", seen->why_no_texts ? "; texts cannot be classes: " : "",
             seen->why_no_texts ? seen->why_no_texts : "");
    else
        fact("head", "%zu output%s, %s%s", m->classes, m->classes == 1 ? "" : "s", vts_model_head(m),
             m->two_heads ? ", the mean of two heads" : "");
    fact("labels", "%s",
         vt_model_has_labels(model) ? "a name for each class"
         : m->classes               ? "none: classes are numbers"
                                    : "none");
}

/* The rule for pictures as a sentence. */
static void print_preprocessing(const vt_preprocess *p)
{
    char resize[128] = "";
    switch (p->resize) {
    case VT_RESIZE_SHORTER:
        snprintf(resize, sizeof resize, "shorter side to %zu", p->resize_h);
        break;
    case VT_RESIZE_KEEP_RATIO:
        snprintf(resize, sizeof resize, "proportions kept, to cover %zu x %zu", p->resize_h, p->resize_w);
        break;
    case VT_RESIZE_SQUASH:
        snprintf(resize, sizeof resize, "squashed to %zu x %zu", p->resize_h, p->resize_w);
        break;
    case VT_RESIZE_BORDER:
        snprintf(resize, sizeof resize, "proportions kept, to fit into %zu x %zu, the rest filled", p->resize_h,
                 p->resize_w);
        break;
    }
    fact("pictures", "%s (%s), then the middle %zu x %zu", resize, vt_filter_names[p->filter], p->input_h, p->input_w);
    fact("", "less mean %.4g %.4g %.4g, by std %.4g %.4g %.4g, of values 0 to 1", (double)p->mean[0],
         (double)p->mean[1], (double)p->mean[2], (double)p->std[0], (double)p->std[1], (double)p->std[2]);
}

static void print_recognised(const vt_model *model, const vt_inspection *seen)
{
    static const char *const kinds[][2] = {{"vit", "Vision Transformer"},
                                           {"hybrid", "Vision Transformer behind a ResNet stem"},
                                           {"clip", "CLIP, whose picture tower is a Vision Transformer"}};
    const vt_model_info *m = vt_model_get_info(model);
    const char *kind = vts_model_kind(m);
    for (size_t k = 0; k < VT_COUNT(kinds); k++)
        if (strcmp(kinds[k][0], kind) == 0)
            kind = kinds[k][1];
    printf("%s\n", m->id);
    fact("layout", "%s", m->layout);
    fact("architecture", "%s", m->architecture);
    fact("kind", "%s", kind);
    print_input(m, seen);
    fact("net", "%zu layers, %zu heads of %zu%s, width %zu, MLP of %zu with %s, eps %g", m->layers, m->heads,
         m->head_dim, m->has_qk_norm ? " with norms of q and k" : "", m->width, m->mlp_width, m->activation_name,
         (double)m->norm_eps);
    print_head(model, seen);
    print_preprocessing(&m->preprocess);
    fact("parameters", "%.3f M%s", (double)seen->parameters[VT_TENSOR_IMAGE] / 1e6,
         seen->parameters[VT_TENSOR_TEXT] ? " for pictures" : "");
    if (seen->parameters[VT_TENSOR_TEXT])
        fact("", "%.3f M for texts", (double)seen->parameters[VT_TENSOR_TEXT] / 1e6);
    fact("weights", "%.3f MB in %zu file%s: %.3f MB used in place, %.3f MB copied", (double)m->bytes / 1e6, seen->files,
         seen->files == 1 ? "" : "s", (double)seen->mapped_bytes / 1e6, (double)seen->copied_bytes / 1e6);
    if (seen->packed_bytes)
        fact("", "%.3f MB for a copy laid out for this processor (backend=auto)", (double)seen->packed_bytes / 1e6);
    fact("one forward", "%.4g GFLOP", seen->flops / 1e9);
}

/* ---- methods and tensors ---- */

/* VT_E_UNSUPPORTED is a fact about the model; anything else is a failure of ours. */
static vt_status print_price(const vt_model *model, const vt_explainer *method, vt_error *err)
{
    double forwards = 0.0;
    size_t bytes = 0;
    const char *name = method ? method->name : "(predict)";
    const vt_status st = vt_method_price(model, method, &forwards, &bytes, err);
    if (st == VT_OK)
        printf("    %-22s%12.4g%12.2f\n", name, forwards, (double)bytes / 1e6);
    else if (st == VT_E_UNSUPPORTED)
        printf("    %-22snot supported: %s\n", name, err->msg);
    return st == VT_E_UNSUPPORTED ? VT_OK : st;
}

static vt_status print_prices(const vt_model *model, vt_error *err)
{
    puts("\nrequest, with defaults       forwards   memory MB");
    vt_status st = print_price(model, NULL, err);
    for (size_t k = 0; k < vt_explainer_count() && st == VT_OK; k++)
        st = print_price(model, vt_explainer_at(k), err);
    return st;
}

static void print_tensors(const vt_model *model, const vt_inspection *seen)
{
    vt_model_tensor t;
    printf("\ntensors: %zu for pictures, %zu for texts, %zu known and not needed (idle), %zu unused\n",
           seen->tensors[VT_TENSOR_IMAGE], seen->tensors[VT_TENSOR_TEXT], seen->tensors[VT_TENSOR_IDLE],
           seen->tensors[VT_TENSOR_UNUSED]);
    for (size_t k = 0; vt_model_get_tensor(model, k, &t); k++) {
        printf("    %-8s%-6s%s [", vts_tensor_use(t.use), t.dtype, t.name);
        for (size_t i = 0; i < t.ndim; i++)
            printf("%s%zu", i ? ", " : "", t.shape[i]);
        puts("]");
    }
}

int vts_cmd_inspect(vts_cli *cli)
{
    vt_model *model = NULL;
    vt_error err = {0};
    const char *remark;
    size_t size = 0;
    int code = VTS_EXIT_OK;

    if (vts_settings_open_model(&model, cli->words[0], &err) != VT_OK)
        return vts_report(NULL, &err);
    if (vts_prints_json(cli)) {
        char *text = vts_json_inspect(model, &size, &err);
        code = text ? vts_print_own(text, size) : vts_report(NULL, &err);
    } else {
        vt_inspection seen;
        vt_model_inspect(model, &seen);
        print_recognised(model, &seen);
        if (print_prices(model, &err) == VT_OK)
            print_tensors(model, &seen);
        else
            code = vts_report(NULL, &err);
    }
    for (size_t k = 0; (remark = vt_model_warning(model, k)); k++)
        fprintf(stderr, "vitral: %s: %s\n", cli->words[0], remark);
    vt_model_close(model);
    return code;
}
