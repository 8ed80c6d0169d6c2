/* Refusals that have to look around: which names there are, which classes, what makes a request too large. Each says
 * what is wrong in a sentence, names the parameter, and lists what would be accepted. Any thread. */
#include "engine/run/request.h"

#include "vitral/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the nearest of many names ---- */

typedef struct search {
    const char *name, *nearest;
    size_t distance;
} search;

static void try_name(search *s, const char *known)
{
    const size_t distance = vt_name_distance(s->name, known);
    if (distance < s->distance) {
        s->distance = distance;
        s->nearest = known;
    }
}

static search search_for(const char *name)
{
    return (search){.name = name, .distance = SIZE_MAX};
}

/* ---- methods ---- */

vt_status vt_refuse_method(const char *name, vt_error *err)
{
    char buf[VT_QUOTE_SIZE];
    search s = search_for(name);
    for (size_t k = 0; k < vt_explainer_count(); k++)
        try_name(&s, vt_explainer_at(k)->name);
    vt_quote(buf, sizeof buf, name);
    if (!*name)
        vt_error_set(err, VT_E_METHOD_UNKNOWN, "method", "method has an empty name in its list");
    else if (s.nearest)
        vt_error_set(err, VT_E_METHOD_UNKNOWN, "method", "there is no method '%s'; did you mean %s?", buf, s.nearest);
    else
        vt_error_set(err, VT_E_METHOD_UNKNOWN, "method", "there is no method '%s'", buf);
    vt_allow_methods(err, 0);
    return VT_E_METHOD_UNKNOWN;
}

void vt_allow_methods(vt_error *err, uint32_t without)
{
    for (size_t k = 0; k < vt_explainer_count(); k++)
        if (!(vt_explainer_at(k)->yields & without))
            vt_error_allow_more(err, ", ", vt_explainer_at(k)->name);
}

/* "bf16 with A, B" behind what is allowed already. */
static void allow_bf16(vt_error *err)
{
    const char *before = ", bf16 with ";
    for (size_t k = 0; k < vt_explainer_count(); k++)
        if (vt_explainer_at(k)->needs & VT_TAKES_BF16) {
            vt_error_allow_more(err, before, vt_explainer_at(k)->name);
            before = ", ";
        }
}

vt_status vt_request_check_precision(const vt_request *rq, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    if (rq->options.precision == VT_PRECISION_FP32)
        return VT_OK;
    for (size_t m = 0; m < rq->methods_count; m++)
        if (!(rq->methods[m].explainer->needs & VT_TAKES_BF16)) {
            vt_error_set(err, VT_E_UNSUPPORTED, "precision", "%s computes in fp32 only",
                         rq->methods[m].explainer->name);
            vt_error_allow(err, "fp32");
            if (info->bf16)
                allow_bf16(err);
            return VT_E_UNSUPPORTED;
        }
    if (info->bf16)
        return VT_OK;
    vt_error_set(
        err, VT_E_UNSUPPORTED, "precision",
        "%s is computed in fp32 only here: the processor has no fast instructions for bf16, or it is turned off",
        info->id);
    vt_error_allow(err, "fp32");
    return VT_E_UNSUPPORTED;
}

/* ---- classes ---- */

void vt_allow_classes(const vt_request *rq, bool top, vt_error *err)
{
    const size_t classes = vt_model_get_info(rq->model)->classes, tops = classes < 5 ? classes : 5;
    vt_error_allow(err, "0 ... %zu", classes - 1);
    if (vt_model_has_labels(rq->model))
        vt_error_allow_more(err, ", ", "a label");
    for (size_t k = 1; top && k <= tops; k++) {
        const char word[] = {'t', 'o', 'p', (char)('0' + k), '\0'};
        vt_error_allow_more(err, ", ", word);
    }
}

/* ---- values ---- */

vt_status vt_refuse_empty(const vt_request *rq, const vt_param *row, vt_error *err)
{
    const bool has_classes = vt_model_get_info(rq->model)->classes > 0;
    vt_error_set(err, VT_E_INVALID, row->name, "%s is empty", row->name);
    if (row->offset == offsetof(vt_options, method))
        vt_allow_methods(err, 0);
    else if (row->offset == offsetof(vt_options, background))
        vt_error_allow(err, VT_BACKGROUNDS);
    else if ((row->offset == offsetof(vt_options, target) || row->offset == offsetof(vt_options, versus)) &&
             has_classes)
        vt_allow_classes(rq, row->offset == offsetof(vt_options, target), err);
    else
        vt_error_allow(err, "a text; or leave %s out", row->name);
    return VT_E_INVALID;
}

/* ---- names ---- */

static bool is_common(const vt_request *rq, const vt_param *row)
{
    return !(rq->flags & VT_REQUEST_PREDICT) || (row->flags & VT_PARAM_PREDICT);
}

/* All names that this request may use, in the order of their tables. */
static void visit_names(const vt_request *rq, void (*visit)(void *host, const char *name), void *host)
{
    size_t count;
    const vt_param *common = vt_common_params(&count);
    for (size_t k = 0; k < count; k++)
        if (is_common(rq, &common[k]))
            visit(host, common[k].name);
    for (size_t k = 0; k < rq->limits.host_params_count; k++)
        visit(host, rq->limits.host_params[k].name);
    for (size_t m = 0; m < rq->methods_count; m++)
        for (size_t k = 0; k < rq->methods[m].explainer->params_count; k++) {
            const char *name = rq->methods[m].explainer->params[k].name;
            bool seen = false;
            for (size_t j = 0; j < m; j++)
                seen = seen ||
                       vt_param_find(rq->methods[j].explainer->params, rq->methods[j].explainer->params_count, name);
            if (!seen)
                visit(host, name);
        }
}

static void visit_search(void *host, const char *name)
{
    try_name(host, name);
}

static void visit_allow(void *host, const char *name)
{
    vt_error_allow_more(host, ", ", name);
}

/* The method that has a parameter of this name, or NULL. */
static const char *owner_of(const char *name)
{
    for (size_t m = 0; m < vt_explainer_count(); m++)
        if (vt_param_find(vt_explainer_at(m)->params, vt_explainer_at(m)->params_count, name))
            return vt_explainer_at(m)->name;
    return NULL;
}

vt_status vt_refuse_name(const vt_request *rq, const char *name, vt_error *err)
{
    char buf[VT_QUOTE_SIZE];
    size_t count;
    const vt_param *common = vt_common_params(&count);
    const bool predict = (rq->flags & VT_REQUEST_PREDICT) != 0;
    const char *owner = owner_of(name);
    search s = search_for(name);

    visit_names(rq, visit_search, &s);
    vt_quote(buf, sizeof buf, name);
    if (predict && (owner || vt_param_find(common, count, name)))
        vt_error_set(err, VT_E_INVALID, name, "%s belongs to an explanation, and this is a prediction", name);
    else if (owner)
        vt_error_set(err, VT_E_INVALID, name, "%s is a parameter of %s, not of the method%s asked for", name, owner,
                     rq->methods_count > 1 ? "s" : "");
    else if (s.nearest)
        vt_error_set(err, VT_E_INVALID, name, "there is no parameter '%s'; did you mean %s?", buf, s.nearest);
    else
        vt_error_set(err, VT_E_INVALID, name, "there is no parameter '%s'", buf);
    if (err)
        visit_names(rq, visit_allow, err);
    return VT_E_INVALID;
}

/* ---- size and cost ---- */

/* Maps of a method with a single value of one row; 0 when the row is no list. */
static size_t maps_with_one(const vt_model_info *info, const vt_asked_method *asked, const vt_param *row)
{
    const vt_explainer *x = asked->explainer;
    const bool indices = (row->type == VT_INT || row->type == VT_INTS) && row->bound != VT_BOUND_FIXED;
    if (!indices && row->type != VT_ENUMS)
        return 0;
    void *params = malloc(x->params_size);
    size_t maps = 0;
    if (params) {
        memcpy(params, asked->params, x->params_size);
        if (vt_param_set(row, indices ? "0" : row->choices[0], info, params, NULL) == VT_OK)
            maps = x->maps(info, params);
    }
    free(params);
    return maps;
}

static size_t targets_of(const vt_request *rq, const vt_explainer *x)
{
    return x->yields & VT_YIELDS_CLASS_SPECIFIC ? rq->targets_count : 1;
}

vt_status vt_refuse_maps(const vt_request *rq, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    const vt_asked_method *largest = NULL;
    size_t most = 0;
    for (size_t m = 0; m < rq->methods_count; m++) {
        const vt_explainer *x = rq->methods[m].explainer;
        const size_t maps = targets_of(rq, x) * x->maps(info, rq->methods[m].params);
        if (maps > most) {
            most = maps;
            largest = &rq->methods[m];
        }
    }
    if (!largest)
        return vt_error_set(err, VT_E_INTERNAL, "", "a request without methods makes maps");
    const vt_explainer *x = largest->explainer;
    const size_t maps = x->maps(info, largest->params);
    const char *param = "class";
    size_t factor = targets_of(rq, x);
    for (size_t k = 0; k < x->params_count; k++) {
        const size_t one = maps_with_one(info, largest, &x->params[k]);
        if (one > 0 && maps / one > factor) {
            factor = maps / one;
            param = x->params[k].name;
        }
    }
    if (factor <= 1 || rq->maps / most > factor)
        vt_error_set(err, VT_E_INVALID, "method", "this request would make %zu maps with its %zu methods", rq->maps,
                     rq->methods_count);
    else
        vt_error_set(err, VT_E_INVALID, param, "this request would make %zu maps: %s multiplies those of %s by %zu",
                     rq->maps, param, x->name, factor);
    vt_error_allow(err, "at most %zu maps", rq->limits.maps_max);
    return VT_E_INVALID;
}

vt_status vt_refuse_no_class(const vt_model_info *info, const char *param, const char *wanted, vt_error *err)
{
    vt_error_set(err, VT_E_UNSUPPORTED, param, "%s, and %s", wanted,
                 info->has_texts ? "the classes of this model are texts, of which the request gives none: give it texts"
                                 : "this model has no head");
    if (!info->has_texts && info->why_no_texts && *info->why_no_texts)
        vt_error_set(err, VT_E_UNSUPPORTED, param, "%s, and the classes of this model would be texts, but %s", wanted,
                     info->why_no_texts);
    if (info->has_texts)
        vt_error_allow(err, "texts=...|... with it");
    else if (strcmp(param, "method") == 0)
        vt_allow_methods(err, VT_YIELDS_CLASS_SPECIFIC);
    else
        vt_error_allow(err, strcmp(param, "model") == 0 ? "a model with a head" : "neither class nor versus");
    return VT_E_UNSUPPORTED;
}

/* Decimals that a cost is told with: texts and sizes cost parts of a forward. */
static int digits_of(double cost)
{
    return cost < 100.0 && cost > floor(cost) ? 2 : 0;
}

vt_status vt_refuse_cost(const vt_request *rq, const char *param, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    const char *dearest = "";
    double most = -1.0;
    for (size_t m = 0; m < rq->methods_count; m++) {
        const vt_explainer *x = rq->methods[m].explainer;
        const size_t runs = vt_serves_all_targets(x) ? 1 : targets_of(rq, x);
        const double cost = (double)runs * x->cost(info, rq->methods[m].params);
        if (cost > most) {
            most = cost;
            dearest = x->name;
        }
    }
    if (strcmp(param, "metrics") == 0)
        dearest = "its metrics";
    const char *size = rq->resized ? " of the model's own input size" : "";
    const double limit = rq->limits.cost_max;
    if (strcmp(param, "texts") == 0)
        vt_error_set(err, VT_E_TOO_COSTLY, param,
                     "this request costs %.*f forward passes%s, %.2f of them for its texts", digits_of(rq->cost),
                     rq->cost, size, rq->texts_cost);
    else
        vt_error_set(err, VT_E_TOO_COSTLY, param, "this request costs %.*f forward passes%s%s%s", digits_of(rq->cost),
                     rq->cost, size, *dearest ? ", most of them for " : "", dearest);
    vt_error_allow(err, "at most %.*f forward passes", digits_of(limit), limit);
    return VT_E_TOO_COSTLY;
}
