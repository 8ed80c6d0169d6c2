/* Which classes are to be explained: "243", "bull mastiff", "top2", several of them, and versus. */
#include "engine/run/request.h"

#include "engine/model/model.h"
#include "vitral/text.h"

#include <string.h>

/* topN as N, or 0. */
static int parse_top(const char *text)
{
    return strncmp(text, "top", 3) == 0 && text[3] >= '1' && text[3] <= '5' && text[4] == '\0' ? text[3] - '0' : 0;
}

/* The model knows indices and labels; topN is a word of `class` alone. */
static vt_status explain_fault(const vt_request *rq, const char *text, const char *param, vt_status status,
                               vt_error *err)
{
    char buf[VT_QUOTE_SIZE];
    const bool is_class = strcmp(param, "class") == 0;
    const size_t digits = strncmp(text, "top", 3) == 0 ? strspn(text + 3, "0123456789") : 0;
    if (digits > 0 && text[3 + digits] == '\0') {
        if (is_class)
            vt_error_set(err, status, param, "class %s does not exist: top1 ... top5 can be asked for",
                         vt_quote(buf, sizeof buf, text));
        else
            vt_error_set(err, status, param, "%s takes an index or a label; %s is a word of class", param,
                         vt_quote(buf, sizeof buf, text));
    }
    if (vt_model_sharers(rq->model, text) < 2) /* else: the indices that share the label are allowed */
        vt_allow_classes(rq, is_class, err);
    return status;
}

static vt_status parse_one(const vt_request *rq, const char *text, const char *param, vt_asked_target *out,
                           vt_error *err)
{
    const size_t classes = vt_model_get_info(rq->model)->classes;
    out->top = strcmp(param, "class") == 0 ? parse_top(text) : 0;
    out->index = -1;
    if (!out->top) {
        const vt_status st = vt_model_find_class(rq->model, text, param, &out->index, err);
        return st == VT_OK ? st : explain_fault(rq, text, param, st, err);
    }
    if ((size_t)out->top > classes) {
        vt_error_set(err, VT_E_CLASS_RANGE, param, "%s was asked for, but the model has %zu class%s", text, classes,
                     classes == 1 ? "" : "es");
        vt_allow_classes(rq, true, err);
        return VT_E_CLASS_RANGE;
    }
    return VT_OK;
}

static vt_status add(vt_request *rq, const char *text, vt_error *err)
{
    vt_asked_target target;
    const size_t max = rq->limits.targets_max < VT_TARGETS_MAX ? rq->limits.targets_max : VT_TARGETS_MAX;
    const vt_status st = parse_one(rq, text, "class", &target, err);

    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < rq->targets_count; k++)
        if (rq->targets[k].top == target.top && rq->targets[k].index == target.index) {
            rq->target_twice = true;
            return VT_OK;
        }
    if (rq->targets_count == max) {
        vt_error_set(err, VT_E_INVALID, "class", "more than %zu targets in one request", max);
        vt_error_allow(err, "at most %zu targets", max);
        return VT_E_INVALID;
    }
    rq->targets[rq->targets_count++] = target;
    return VT_OK;
}

vt_status vt_refuse_same(int versus, vt_error *err)
{
    vt_error_set(err, VT_E_INVALID, "versus",
                 "versus is class %d, which is the class to explain: their difference is zero", versus);
    vt_error_allow(err, "any class but %d", versus);
    return VT_E_INVALID;
}

vt_status vt_request_targets(vt_request *rq, vt_error *err)
{
    const char *at = rq->options.target;
    char name[VT_TEXT_MAX];
    vt_error ignored = {0};
    vt_asked_target whole;

    if (vt_model_get_info(rq->model)->classes == 0) {
        if (strcmp(at, "top1") == 0 && rq->options.versus[0] == '\0')
            return VT_OK; /* nothing was asked for; methods that need a class say so themselves */
        return vt_refuse_no_class(vt_model_get_info(rq->model), rq->options.versus[0] ? "versus" : "class",
                                  "a class is to be explained", err);
    }
    /* a label may have a comma in it: the whole value first */
    if (strchr(at, ',') && parse_one(rq, at, "class", &whole, &ignored) == VT_OK) {
        rq->targets[rq->targets_count++] = whole;
    } else {
        for (;;) {
            const size_t n = strcspn(at, ",");
            memcpy(name, at, n);
            name[n] = '\0';
            const vt_status st = add(rq, name, err);
            if (st != VT_OK)
                return st;
            if (at[n] == '\0')
                break;
            at += n + 1;
        }
    }
    if (rq->options.versus[0] == '\0')
        return VT_OK;
    const vt_status st = parse_one(rq, rq->options.versus, "versus", &whole, err);
    if (st != VT_OK)
        return st;
    rq->versus = whole.index;
    for (size_t k = 0; k < rq->targets_count; k++)
        if (rq->targets[k].index == rq->versus)
            return vt_refuse_same(rq->versus, err);
    return VT_OK;
}
