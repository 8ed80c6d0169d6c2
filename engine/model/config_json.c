/* Values out of JSON that somebody else wrote. Nothing is coerced: a number in quotes is a text, 2.0 is no whole number.
 * Only the first fault is kept, for what comes behind it is often its consequence. */
#include "engine/model/config_json.h"

#include "engine/model/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

vt_status vt_json_load(json_t **root, const char *file, const vt_config_file *text, vt_error *err)
{
    json_error_t at;
    json_t *read = json_loadb(text->text, text->size, JSON_REJECT_DUPLICATES, &at);
    if (!read) {
        char shown[VT_ST_SHOWN];
        if (json_error_code(&at) == json_error_out_of_memory || !*at.text)
            return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory to read it", file);
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s is not valid JSON (line %d: %s)", file, at.line,
                            vt_st_shown(shown, at.text));
    }
    if (!json_is_object(read)) {
        const vt_status status =
            vt_error_set(err, VT_E_BAD_MODEL, "", "%s must hold an object, not %s", file, vt_json_type(read));
        json_decref(read);
        return status;
    }
    *root = read;
    return VT_OK;
}

const char *vt_json_type(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number with a fraction";
    default:
        return "a truth value";
    }
}

const json_t *vt_json_member(vt_part from, const char *key)
{
    const json_t *value = json_object_get(from.json, key);
    return json_is_null(value) ? NULL : value;
}

void vt_json_fault(vt_reader *r, vt_part from, const char *key, const char *must)
{
    if (r->status == VT_OK)
        r->status = vt_error_set(r->err, VT_E_BAD_MODEL, "", "%s: %s%s must be %s", r->file, from.prefix, key, must);
}

void vt_json_wrong_type(vt_reader *r, vt_part from, const char *key, const char *must, const json_t *value)
{
    char text[160];
    snprintf(text, sizeof text, "%s, not %s", must, vt_json_type(value));
    vt_json_fault(r, from, key, text);
}

/* ---- values ---- */

void vt_json_object(vt_reader *r, vt_part from, const char *key, vt_part *out)
{
    const json_t *value = vt_json_member(from, key);
    if (value && !json_is_object(value))
        vt_json_wrong_type(r, from, key, "an object", value);
    else
        out->json = value;
}

void vt_json_long(vt_reader *r, vt_part from, const char *key, long min, long max, long *out)
{
    const json_t *value = vt_json_member(from, key);
    char must[96], text[160];
    if (!value || r->status != VT_OK)
        return;
    snprintf(must, sizeof must, "a whole number, %ld ... %ld", min, max);
    if (!json_is_integer(value)) {
        vt_json_wrong_type(r, from, key, must, value);
        return;
    }
    const json_int_t number = json_integer_value(value);
    if (number < min || number > max) {
        snprintf(text, sizeof text, "%s, not %lld", must, (long long)number);
        vt_json_fault(r, from, key, text);
        return;
    }
    *out = (long)number;
}

void vt_json_count(vt_reader *r, vt_part from, const char *key, size_t min, size_t max, size_t *out)
{
    long number = -1;
    vt_json_long(r, from, key, (long)min, (long)max, &number);
    if (number >= 0)
        *out = (size_t)number;
}

void vt_json_bool(vt_reader *r, vt_part from, const char *key, bool *out)
{
    const json_t *value = vt_json_member(from, key);
    if (value && !json_is_boolean(value))
        vt_json_wrong_type(r, from, key, "true or false", value);
    else if (value)
        *out = json_is_true(value);
}

void vt_json_number(vt_reader *r, vt_part from, const char *key, double min, double max, double *out)
{
    const json_t *value = vt_json_member(from, key);
    char must[96];
    if (!value || r->status != VT_OK)
        return;
    snprintf(must, sizeof must, "a number, %g ... %g", min, max);
    if (!json_is_number(value)) {
        vt_json_wrong_type(r, from, key, must, value);
        return;
    }
    const double number = json_number_value(value);
    if (number >= min && number <= max)
        *out = number;
    else
        vt_json_fault(r, from, key, must);
}

static size_t side_of(const json_t *value)
{
    const json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
    return number >= 1 && number <= VT_CONFIG_SIDE_MAX ? (size_t)number : 0;
}

void vt_json_sides(vt_reader *r, vt_part from, const char *key, bool dict, size_t *h, size_t *w)
{
    const json_t *value = vt_json_member(from, key);
    size_t sides[2] = {0, 0};
    if (!value || r->status != VT_OK)
        return;
    if (json_is_integer(value))
        sides[0] = sides[1] = side_of(value);
    for (size_t i = 0; i < 2 && json_array_size(value) == 2; i++)
        sides[i] = side_of(json_array_get(value, i));
    if (dict && json_object_size(value) == 2) {
        sides[0] = side_of(json_object_get(value, "height"));
        sides[1] = side_of(json_object_get(value, "width"));
    }
    if (sides[0] == 0 || sides[1] == 0) {
        vt_json_fault(r, from, key,
                      dict ? "a whole number, [height, width] or {\"height\", \"width\"}, 1 ... 16384 each"
                           : "a whole number or [height, width], 1 ... 16384 each");
        return;
    }
    *h = sides[0];
    *w = sides[1];
}

bool vt_json_triple(vt_reader *r, vt_part from, const char *key, bool positive, float out[3])
{
    const json_t *value = vt_json_member(from, key);
    if (!value || r->status != VT_OK)
        return false;
    float read[3];
    bool good = json_is_array(value) && json_array_size(value) == 3;
    for (size_t i = 0; good && i < 3; i++) {
        const json_t *number = json_array_get(value, i);
        const double v = json_is_number(number) ? json_number_value(number) : (double)NAN;
        good = fabs(v) <= 1e6 && (!positive || v >= 1e-6); /* false for NaN */
        read[i] = (float)v;
    }
    if (!good) {
        vt_json_fault(r, from, key,
                      positive ? "3 numbers above 0, one for each colour" : "3 numbers, one for each colour");
        return false;
    }
    memcpy(out, read, sizeof read);
    return true;
}

const char *vt_json_text(vt_reader *r, vt_part from, const char *key)
{
    const json_t *value = vt_json_member(from, key);
    if (!value || r->status != VT_OK)
        return NULL;
    if (!json_is_string(value)) {
        vt_json_wrong_type(r, from, key, "a text", value);
        return NULL;
    }
    return json_string_value(value);
}

void vt_json_copy(vt_reader *r, vt_part from, const char *key, char *buf, size_t room)
{
    char must[64];
    const char *text = vt_json_text(r, from, key);
    if (!text)
        return;
    if (strlen(text) < room) {
        memcpy(buf, text, strlen(text) + 1);
        return;
    }
    snprintf(must, sizeof must, "shorter than %zu letters", room);
    vt_json_fault(r, from, key, must);
}

/* ---- keys ---- */

static bool is_off(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return json_object_size(value) == 0;
    case JSON_ARRAY:
        return json_array_size(value) == 0;
    case JSON_INTEGER:
        return json_integer_value(value) == 0;
    case JSON_REAL:
        return fpclassify(json_real_value(value)) == FP_ZERO;
    default:
        return json_is_false(value);
    }
}

void vt_json_must_be_off(vt_reader *r, vt_part from, const char *key, const char *why)
{
    const json_t *value = vt_json_member(from, key);
    if (value && r->status == VT_OK && !is_off(value))
        r->status = vt_error_set(r->err, VT_E_BAD_MODEL, "", "%s: %s%s is set, which is not read: %s", r->file,
                                 from.prefix, key, why);
}

void vt_json_remark_unknown(vt_reader *r, vt_part from, const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from.json, key, value)
    {
        bool is_known = json_is_null(value);
        for (size_t i = 0; !is_known && known[i]; i++)
            is_known = strcmp(known[i], key) == 0;
        char shown[VT_ST_SHOWN];
        if (!is_known)
            vt_warnings_add(r->warnings, "%s: %s%s is not read", r->file, from.prefix, vt_st_shown(shown, key));
    }
}
