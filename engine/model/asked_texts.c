/* "a dog | a cat": every prompt as its sender wrote it. No template is put around a text, none is cut, and two that the
 * tokenizer cannot tell apart are refused, since their probabilities would be halves of one. */
#include "engine/model/asked_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vitral/text.h"

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static vt_status refuse_empty(size_t number, vt_error *err)
{
    vt_error_set(err, VT_E_INVALID, "texts", "text %zu of texts is empty", number);
    vt_error_allow(err, "1 ... %d texts, separated by |", (int)VT_TEXTS_MAX);
    return VT_E_INVALID;
}

/* Ends every text in `typed` with 0 and takes the blanks around it away. */
static vt_status part(char *typed, const char *texts[VT_TEXTS_MAX], size_t *count, vt_error *err)
{
    size_t n = 0;
    for (char *at = typed; at; n++) {
        char *bar = strchr(at, '|'), *stop = bar ? bar : at + strlen(at);
        while (is_blank(*at))
            at++;
        while (stop > at && is_blank(stop[-1]))
            stop--;
        if (n == VT_TEXTS_MAX) {
            vt_error_set(err, VT_E_INVALID, "texts", "texts holds more than %d texts", (int)VT_TEXTS_MAX);
            vt_error_allow(err, "1 ... %d texts, separated by |", (int)VT_TEXTS_MAX);
            return VT_E_INVALID;
        }
        if (stop == at)
            return refuse_empty(n + 1, err);
        *stop = 0;
        texts[n] = at;
        at = bar ? bar + 1 : NULL;
    }
    *count = n;
    return VT_OK;
}

static bool same_ids(const vt_asked_texts *asked, size_t a, size_t b)
{
    const size_t n = asked->starts[a + 1] - asked->starts[a];
    return n == asked->starts[b + 1] - asked->starts[b] &&
           memcmp(asked->ids + asked->starts[a], asked->ids + asked->starts[b], n * sizeof *asked->ids) == 0;
}

static vt_status encode(vt_asked_texts *asked, const vt_bpe *bpe, size_t context, const char *const *texts,
                        size_t count, vt_error *err)
{
    char shown[VT_QUOTE_SIZE], other[VT_QUOTE_SIZE];
    asked->ids = malloc(count * context * sizeof *asked->ids + 1);
    if (!asked->ids)
        return vt_error_set(err, VT_E_NOMEM, "texts", "no memory for %zu texts", count);
    for (size_t k = 0; k < count; k++) {
        size_t n;
        const size_t at = asked->starts[k];
        const vt_status status = vt_bpe_encode(bpe, texts[k], strlen(texts[k]), asked->ids + at, context, &n, err);
        if (status != VT_OK)
            return status;
        if (n > context) {
            vt_error_set(err, VT_E_INVALID, "texts",
                         "text %zu ('%s') is %zu tokens long, those of start and end counted; the model reads %zu",
                         k + 1, vt_quote(shown, sizeof shown, texts[k]), n, context);
            vt_error_allow(err, "at most %zu tokens", context);
            return VT_E_INVALID;
        }
        if (n <= 2) /* the marks of start and end alone: blanks that are no ASCII */
            return refuse_empty(k + 1, err);
        asked->starts[k + 1] = at + n;
        for (size_t j = 0; j < k; j++)
            if (same_ids(asked, j, k)) {
                vt_error_set(err, VT_E_INVALID, "texts", "texts %zu ('%s') and %zu ('%s') are the same to the model",
                             j + 1, vt_quote(shown, sizeof shown, texts[j]), k + 1,
                             vt_quote(other, sizeof other, texts[k]));
                vt_error_allow(err, "texts that differ in more than case and blanks");
                return VT_E_INVALID;
            }
    }
    return VT_OK;
}

static char *join(const char *const *texts, size_t count, size_t room)
{
    char *out = malloc(room);
    size_t used = 0;
    for (size_t k = 0; out && k < count; k++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", k ? "|" : "", texts[k]);
    return out;
}

vt_status vt_asked_texts_make(vt_asked_texts **out, const vt_bpe *bpe, size_t context, const char *typed, vt_error *err)
{
    const char *texts[VT_TEXTS_MAX];
    size_t count = 0;
    char *copy = strdup(typed);
    vt_asked_texts *asked = calloc(1, sizeof *asked);
    vt_status status = copy && asked ? part(copy, texts, &count, err)
                                     : vt_error_set(err, VT_E_NOMEM, "texts", "no memory for the texts");
    if (status == VT_OK)
        status = encode(asked, bpe, context, texts, count, err);
    if (status == VT_OK)
        status = vt_labels_copy(&asked->labels, texts, count, err);
    if (status == VT_OK && !(asked->canonical = join(texts, count, strlen(typed) + 1)))
        status = vt_error_set(err, VT_E_NOMEM, "texts", "no memory for the texts");
    free(copy);
    if (status != VT_OK) {
        vt_asked_texts_free(asked);
        return status;
    }
    *out = asked;
    return VT_OK;
}

void vt_asked_texts_free(vt_asked_texts *asked)
{
    if (!asked)
        return;
    vt_labels_free(&asked->labels);
    free(asked->ids);
    free(asked->canonical);
    free(asked);
}
