/* Arbitrary text as the target of a request (up to the first line end) and as the fields of its form (name=value, one a line),
 * read as the service does it: taken apart, decoded, parsed against the tables of the methods, priced. What is accepted is
 * within the limits, says the same when it is asked again in its canonical form's terms, and was not refused when only part
 * of it was known; what is refused names a parameter or a reason in sound UTF-8. Nothing is computed. */
#include "server/http/target.h"
#include "vitral/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAIRS_MAX = VTS_PAIRS_MAX + 64 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static const vt_model *the_model(void)
{
    static vt_model *model;
    vt_error err = {0};
    if (!model)
        require(vt_model_open(&model, NULL, NULL, &err) == VT_OK);
    return model;
}

static void check_refusal(vt_status st, const vt_error *err)
{
    require(err->status == st && st != VT_E_INTERNAL && *err->msg);
    require(vt_utf8_valid(err->msg, strlen(err->msg)) && vt_utf8_valid(err->param, strlen(err->param)) &&
            vt_utf8_valid(err->allowed, strlen(err->allowed)));
}

static void check_request(const vt_request *request, const vt_pair *pairs, size_t count, unsigned flags)
{
    static size_t most;
    vt_request *same = NULL;
    vt_error err = {0};
    const vt_limits *limits = &vt_limits_default;
    const double cost = vt_request_cost(request);
    if (!most)
        most = vt_arena_bytes(the_model(), limits);
    require(cost > 0.0 && cost <= limits->cost_max); /* below 1 for an image_size below the model's own */
    require(vt_request_maps(request) <= limits->maps_max && vt_request_maps_least(request) <= vt_request_maps(request));
    require(vt_request_bytes(request, limits->pixels_max) <= most);
    require(vt_request_methods(request, NULL, 0) <= limits->methods_max);
    require(vt_utf8_valid(vt_request_canonical(request), strlen(vt_request_canonical(request))));
    require(vt_request_open(&same, the_model(), limits, pairs, count, flags, &err) == VT_OK);
    require(strcmp(vt_request_canonical(same), vt_request_canonical(request)) == 0);
    vt_request_close(same);
}

static void try_pairs(const vt_pair *pairs, size_t count)
{
    static const unsigned kinds[] = {0, VT_REQUEST_PREDICT, VT_REQUEST_ONE_PICTURE, VT_REQUEST_MASK};
    for (size_t k = 0; k < VT_COUNT(kinds); k++) {
        vt_request *request = NULL, *partial = NULL;
        vt_error err = {0}, early = {0};
        const vt_status st = vt_request_open(&request, the_model(), &vt_limits_default, pairs, count, kinds[k], &err);
        const vt_status part = vt_request_open(&partial, the_model(), &vt_limits_default, pairs, count,
                                               kinds[k] | VT_REQUEST_PARTIAL, &early);
        if (st == VT_OK) {
            require(part == VT_OK);
            check_request(request, pairs, count, kinds[k]);
        } else {
            require(!request);
            check_refusal(st, &err);
        }
        if (part != VT_OK)
            check_refusal(part, &early);
        vt_request_close(partial);
        vt_request_close(request);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vt_pair pairs[PAIRS_MAX];
    static vts_target target;
    size_t count = 0;
    if (size > 16384)
        return 0;
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    char *line = strchr(text, '\n');
    if (line)
        *line++ = 0;
    require(vts_target_parse(&target, text));
    if (!target.fault)
        for (size_t k = 0; k < target.pairs_count; k++)
            pairs[count++] = target.pairs[k];
    for (char *next; line && *line && count < PAIRS_MAX; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *equal = strchr(line, '=');
        if (equal)
            *equal++ = 0;
        if (*line && equal && vt_utf8_valid(line, strlen(line)) && vt_utf8_valid(equal, strlen(equal)))
            pairs[count++] = (vt_pair){line, equal}; /* the form's reader refuses other text */
    }
    try_pairs(pairs, count);
    vts_target_close(&target);
    free(text);
    return 0;
}
