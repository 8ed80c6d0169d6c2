/* Names of classes inside config.json: timm's label_names and label_descriptions, transformers' id2label.
 *
 * Where all names are LABEL_0, LABEL_1, ... nobody has named anything: transformers writes them by itself. Then the
 * model counts as one without labels, and its indices are shown. */
#include "engine/model/config_readers.h"

#include "engine/model/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The index that a key stands for: digits without zeros in front, below count; SIZE_MAX for anything else. */
static size_t index_of(const char *key, size_t count)
{
    const size_t digits = strspn(key, "0123456789");
    size_t value = 0;
    if (digits == 0 || digits > 9 || key[digits] || (key[0] == '0' && digits > 1))
        return SIZE_MAX;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (size_t)(key[i] - '0');
    return value < count ? value : SIZE_MAX;
}

/* A name as text; whole numbers are written out (into room, 24 bytes). NULL for anything else, and for nothing. */
static const char *name_of(const json_t *value, char *room)
{
    if (json_is_integer(value)) {
        snprintf(room, 24, "%lld", (long long)json_integer_value(value));
        return room;
    }
    const char *text = json_string_value(value);
    return text && *text ? text : NULL;
}

static void wrong_name(vt_reader *r, vt_part from, const char *key, size_t i)
{
    char must[96];
    snprintf(must, sizeof must, "texts that are not empty; entry %zu is none", i);
    vt_json_fault(r, from, key, must);
}

/* names, room: (count, and 24 bytes each) */
static void read_list(vt_reader *r, vt_part from, const char *key, const json_t *list, const char **names, char *room)
{
    for (size_t i = 0; i < json_array_size(list) && r->status == VT_OK; i++) {
        names[i] = name_of(json_array_get(list, i), room + i * 24);
        if (!names[i])
            wrong_name(r, from, key, i);
    }
}

static void read_dict(vt_reader *r, vt_part from, const char *key, const json_t *dict, const char **names, char *room)
{
    const size_t count = json_object_size(dict);
    const char *index;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)dict, index, value)
    {
        char shown[VT_ST_SHOWN], must[VT_ST_SHOWN + 96];
        const size_t i = index_of(index, count);
        if (i == SIZE_MAX) {
            snprintf(must, sizeof must, "names for \"0\" ... \"%zu\", each once; \"%.80s\" is none of these", count - 1,
                     vt_st_shown(shown, index));
            vt_json_fault(r, from, key, must);
            return;
        }
        names[i] = name_of(value, room + i * 24);
        if (!names[i])
            wrong_name(r, from, key, i);
    }
}

static bool all_made_up(const char *const *names, size_t count)
{
    char made_up[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(made_up, sizeof made_up, "LABEL_%zu", i);
        if (!names[i] || strcmp(names[i], made_up) != 0)
            return false;
    }
    return true;
}

void vt_config_read_names(vt_reader *r, vt_part from, const char *key, vt_config *config)
{
    const json_t *value = vt_json_member(from, key);
    const bool is_list = json_is_array(value);
    if (!value || r->status != VT_OK)
        return;
    if (!is_list && !json_is_object(value)) {
        vt_json_wrong_type(r, from, key, "a list of texts, or an object from index to text", value);
        return;
    }
    const size_t count = is_list ? json_array_size(value) : json_object_size(value);
    if (count > VT_CONFIG_CLASSES_MAX) {
        vt_json_fault(r, from, key, "names of at most 1000000 classes");
        return;
    }
    const char **names = calloc(count + 1, sizeof *names);
    char *room = calloc(count + 1, 24);
    if (!names || !room) {
        r->status = vt_error_set(r->err, VT_E_NOMEM, "", "%s: no memory for %zu names of classes", r->file, count);
        free(names);
        free(room);
        return;
    }
    if (is_list)
        read_list(r, from, key, value, names, room);
    else
        read_dict(r, from, key, value, names, room);
    if (r->status == VT_OK && count > 0) {
        vt_labels_free(&config->labels);
        r->status = all_made_up(names, count) ? vt_labels_number(&config->labels, count, r->err)
                                              : vt_labels_copy(&config->labels, names, count, r->err);
    }
    free(names);
    free(room);
}

/* ---- second forms ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

static int name_to_entry(const void *name, const void *entry)
{
    return strcmp(name, **(const char *const *const *)entry);
}

/* From names to descriptions, through the names in order: a file of 20,000 classes takes no 20,000^2 comparisons. Equal
 * names get the same description. texts: (labels.count) */
static void match_descriptions(vt_reader *r, vt_part from, const char *key, const json_t *dict, const vt_labels *labels,
                               const char **texts)
{
    const char ***order = malloc((labels->count + 1) * sizeof *order);
    const char *name;
    json_t *value;
    if (!order) {
        r->status = vt_error_set(r->err, VT_E_NOMEM, "", "%s: no memory for %s", r->file, key);
        return;
    }
    for (size_t i = 0; i < labels->count; i++)
        order[i] = &labels->texts[i];
    qsort(order, labels->count, sizeof *order, by_name);
    json_object_foreach((json_t *)(uintptr_t)dict, name, value)
    {
        const char ***found = bsearch(name, order, labels->count, sizeof *order, name_to_entry);
        char shown[VT_ST_SHOWN], must[VT_ST_SHOWN + 96];
        if (!found || !json_is_string(value)) {
            snprintf(must, sizeof must,
                     found ? "an object of texts; \"%.80s\" has none"
                           : "an object whose keys are label_names; \"%.80s\" is none",
                     vt_st_shown(shown, name));
            vt_json_fault(r, from, key, must);
            break;
        }
        while (found > order && strcmp(**(found - 1), name) == 0)
            found--;
        for (; found < order + labels->count && strcmp(**found, name) == 0; found++)
            texts[*found - labels->texts] = json_string_value(value);
    }
    free(order);
}

void vt_config_read_descriptions(vt_reader *r, vt_part from, const char *key, vt_config *config)
{
    const json_t *value = vt_json_member(from, key);
    vt_labels *labels = &config->labels;
    char must[96];
    if (!value || r->status != VT_OK)
        return;
    if (!json_is_object(value) && !json_is_array(value)) {
        vt_json_wrong_type(r, from, key, "an object from label_names to texts, or a list of texts", value);
        return;
    }
    if (!labels->named) {
        if (json_is_object(value)) {
            vt_json_fault(r, from, key, "absent where there are no label_names");
            return;
        }
        vt_config_read_names(r, from, key, config); /* a list of names under another key */
        return;
    }
    if (json_is_array(value) && json_array_size(value) != labels->count) {
        snprintf(must, sizeof must, "as long as label_names (%zu), not %zu", labels->count, json_array_size(value));
        vt_json_fault(r, from, key, must);
        return;
    }
    const char **texts = calloc(labels->count + 1, sizeof *texts);
    if (!texts) {
        r->status = vt_error_set(r->err, VT_E_NOMEM, "", "%s: no memory for %s", r->file, key);
        return;
    }
    if (json_is_object(value))
        match_descriptions(r, from, key, value, labels, texts);
    for (size_t i = 0; json_is_array(value) && i < labels->count; i++) {
        texts[i] = json_string_value(json_array_get(value, i));
        if (!texts[i])
            wrong_name(r, from, key, i);
    }
    for (size_t i = 0; i < labels->count; i++)
        if (texts[i] && (!*texts[i] || strcmp(texts[i], labels->texts[i]) == 0))
            texts[i] = NULL; /* says nothing new */
    if (r->status == VT_OK)
        r->status = vt_labels_describe(labels, texts, r->err);
    free(texts);
}
