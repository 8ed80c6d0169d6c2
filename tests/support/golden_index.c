#include "tests/support/golden_index.h"

#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *vt_golden_index(void)
{
    json_error_t error;
    json_t *index = json_load_file(vt_shared(VT_GOLDEN_FOLDER "index.json"), 0, &error);
    ck_assert_msg(index != NULL, "index.json: %s", error.text);
    return index;
}

vt_st_file *vt_golden_main_file(const char *picture)
{
    char path[128];
    snprintf(path, sizeof path, VT_GOLDEN_FOLDER "%.*s.safetensors", (int)strcspn(picture, "."), picture);
    return vt_golden_open(path);
}

static float *values(const vt_st_file *file, const char *name, size_t *count)
{
    const vt_st_tensor *tensor = vt_st_find(file, name);
    ck_assert_msg(tensor != NULL, "there is no tensor %s", name);
    if (strcmp(tensor->dtype, "U8") != 0)
        return vt_golden_floats(file, name, count);
    float *x = malloc((tensor->count + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < tensor->count; i++)
        x[i] = (float)tensor->data[i];
    *count = tensor->count;
    return x;
}

static size_t each_of_file(const json_t *index, const char *file_name, const char *const *prefixes, size_t count,
                           vt_golden_visit *visit, void *host)
{
    char path[128];
    size_t visited = 0, n;
    json_t *entry;
    snprintf(path, sizeof path, VT_GOLDEN_FOLDER "%s", file_name);
    vt_st_file *file = vt_golden_open(path);
    json_array_foreach(json_object_get(index, "tensors"), n, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        size_t k = 0;
        if (strcmp(json_string_value(json_object_get(entry, "file")), file_name) != 0)
            continue;
        while (k < count && strncmp(name, prefixes[k], strlen(prefixes[k])) != 0)
            k++;
        if (k == count)
            continue;
        vt_golden_row row = {.name = name,
                             .method = json_string_value(json_object_get(entry, "method")),
                             .params = json_object_get(entry, "params"),
                             .tol = json_number_value(json_object_get(entry, "tol_abs"))};
        float *want = values(file, name, &row.count);
        ck_assert_msg(row.tol > 0.0 || strcmp(json_string_value(json_object_get(entry, "dtype")), "uint8") == 0,
                      "%s: no tolerance", name);
        row.want = want;
        visit(host, k, &row);
        free(want);
        visited++;
    }
    vt_st_close(file);
    return visited;
}

size_t vt_golden_each(const json_t *index, const char *picture, const char *const *prefixes, size_t count,
                      vt_golden_visit *visit, void *host)
{
    const json_t *files = json_object_get(json_object_get(json_object_get(index, "images"), picture), "files");
    size_t visited = 0;
    for (size_t f = 0; f < json_array_size(files); f++)
        visited += each_of_file(index, json_string_value(json_array_get(files, f)), prefixes, count, visit, host);
    return visited;
}

/* Said in the index for the reader; no parameters of the methods here. */
static bool is_remark(const vt_golden_row *row, const char *name)
{
    return strcmp(name, "variant") == 0 ||
           (strcmp(row->method, "cls_attention") == 0 && (strcmp(name, "query") == 0 || strcmp(name, "key") == 0));
}

void vt_golden_settings(const vt_golden_row *row, char *settings, size_t size, int *target)
{
    const char *name;
    json_t *value;
    *target = (int)vt_golden_number(row, "target", -1.0);
    settings[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)row->params, name, value)
    {
        const size_t n = strlen(settings);
        if (is_remark(row, name) || strcmp(name, "target") == 0)
            continue;
        const int more =
            json_is_string(value)
                ? snprintf(settings + n, size - n, "%s%s=%s", n ? " " : "", name,
                           strcmp(name, "channel") == 0 ? "all" : json_string_value(value)) /* "all 64" */
                : snprintf(settings + n, size - n, "%s%s=%.9g", n ? " " : "", name, json_number_value(value));
        ck_assert_msg(more >= 0 && (size_t)more < size - n, "%s: too many parameters", row->name);
    }
}

double vt_golden_number(const vt_golden_row *row, const char *name, double otherwise)
{
    const json_t *value = json_object_get(row->params, name);
    ck_assert_msg(!value || json_is_number(value), "%s: %s is no number", row->name, name);
    return value ? json_number_value(value) : otherwise;
}

const char *vt_golden_word(const vt_golden_row *row, const char *name, const char *otherwise)
{
    const json_t *value = json_object_get(row->params, name);
    ck_assert_msg(!value || json_is_string(value), "%s: %s is no word", row->name, name);
    return value ? json_string_value(value) : otherwise;
}
