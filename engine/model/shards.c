/* Finding and opening the weights of a model folder.
 *
 * An index (model.safetensors.index.json) says in which file each tensor lies. It may name plain files of its own folder
 * only, and each tensor must be where it says. Const after open. */
#include "engine/model/shards.h"

#include "engine/model/text_file.h"

#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MAX = 1000 };

static const char WEIGHTS[] = "model.safetensors";

/* What a folder is searched for, in this order. */
static const char *const names[] = {WEIGHTS, "model.safetensors.index.json", "open_clip_model.safetensors",
                                    "open_clip_model.safetensors.index.json"};

struct vt_shards {
    char *name;
    size_t files_count;
    vt_st_file **files; /* (files_count) */
    char **names;       /* (files_count) */
    size_t count;
    const vt_st_tensor **tensors; /* (count), by name, into the files */
};

static bool ends_with(const char *text, const char *ending)
{
    const size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

static vt_status no_memory(vt_error *err)
{
    return vt_error_set(err, VT_E_NOMEM, "", "no memory to open the weights");
}

static vt_status start(vt_shards **out, const char *name, size_t files, vt_error *err)
{
    vt_shards *shards = calloc(1, sizeof *shards);
    if (!shards)
        return no_memory(err);
    shards->name = strdup(name);
    shards->files = calloc(files, sizeof *shards->files);
    shards->names = calloc(files, sizeof *shards->names);
    if (!shards->name || !shards->files || !shards->names) {
        vt_shards_close(shards);
        return no_memory(err);
    }
    *out = shards;
    return VT_OK;
}

void vt_shards_close(vt_shards *shards)
{
    if (!shards)
        return;
    for (size_t i = 0; shards->files && i < shards->files_count; i++) {
        vt_st_close(shards->files[i]);
        free(shards->names[i]);
    }
    free(shards->files);
    free(shards->names);
    free(shards->tensors);
    free(shards->name);
    free(shards);
}

/* ---- one file ---- */

/* file is taken over, also on failure. */
static vt_status wrap(vt_shards **out, vt_st_file *file, const char *name, vt_error *err)
{
    vt_shards *shards = NULL;
    const vt_status status = start(&shards, name, 1, err);
    if (status != VT_OK) {
        vt_st_close(file);
        return status;
    }
    shards->files[0] = file;
    shards->files_count = 1;
    shards->count = vt_st_count(file);
    shards->tensors = calloc(shards->count + 1, sizeof *shards->tensors);
    if (!shards->tensors) {
        vt_shards_close(shards);
        return no_memory(err);
    }
    for (size_t i = 0; i < shards->count; i++)
        shards->tensors[i] = vt_st_at(file, i);
    *out = shards;
    return VT_OK;
}

vt_status vt_shards_open_memory(vt_shards **out, const void *bytes, size_t size, vt_error *err)
{
    vt_st_file *file;
    const vt_status status = vt_st_open_memory(&file, bytes, size, WEIGHTS, err);
    return status == VT_OK ? wrap(out, file, WEIGHTS, err) : status;
}

/* ---- several files ---- */

/* A file name as an index may give it: nothing that leaves the folder. */
static bool plain_name(const char *name)
{
    if (!*name || *name == '.' || strlen(name) > 255 || !ends_with(name, ".safetensors"))
        return false;
    for (const char *at = name; *at; at++)
        if (*at == '/' || *at == '\\' || (unsigned char)*at < 0x20)
            return false;
    return true;
}

/* The place of a shard among the open ones; opens it when it is new. */
static vt_status open_shard(vt_shards *shards, size_t *place, const char *folder, const char *name, vt_error *err)
{
    for (size_t i = 0; i < shards->files_count; i++) {
        if (strcmp(shards->names[i], name) == 0) {
            *place = i;
            return VT_OK;
        }
    }
    char shown[VT_ST_SHOWN];
    if (!plain_name(name))
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "%s names the file \"%s\": only plain .safetensors names of the same folder are opened",
                            shards->name, vt_st_shown(shown, name));
    if (shards->files_count == FILES_MAX)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s names more than %d files", shards->name, (int)FILES_MAX);
    char *path = vt_path_join(folder, name), *copy = strdup(name);
    vt_st_file *file = NULL;
    vt_status status = path && copy ? vt_st_open(&file, path, name, err) : no_memory(err);
    if (status == VT_E_NOT_FOUND)
        status = vt_error_set(err, VT_E_BAD_MODEL, "", "%s names the file %s, which is not there", shards->name,
                              vt_st_shown(shown, name));
    free(path);
    if (status != VT_OK) {
        free(copy);
        return status;
    }
    *place = shards->files_count++;
    shards->names[*place] = copy;
    shards->files[*place] = file;
    return VT_OK;
}

static int by_name(const void *a, const void *b)
{
    const vt_st_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static vt_status read_map(vt_shards *shards, json_t *map, const char *folder, vt_error *err)
{
    const char *name;
    json_t *value;
    shards->tensors = calloc(json_object_size(map) + 1, sizeof *shards->tensors);
    if (!shards->tensors)
        return no_memory(err);
    json_object_foreach(map, name, value)
    {
        char shown[VT_ST_SHOWN];
        size_t place = 0;
        if (!json_is_string(value))
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: weight_map gives no file for \"%s\"", shards->name,
                                vt_st_shown(shown, name));
        const vt_status status = open_shard(shards, &place, folder, json_string_value(value), err);
        if (status != VT_OK)
            return status;
        const vt_st_tensor *tensor = vt_st_find(shards->files[place], name);
        if (!tensor)
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s says that \"%s\" is in %s, but it is not", shards->name,
                                vt_st_shown(shown, name), shards->names[place]);
        shards->tensors[shards->count++] = tensor;
    }
    qsort(shards->tensors, shards->count, sizeof *shards->tensors, by_name);
    return VT_OK;
}

/* What lies in the shards but not in the index is not read; somebody may wonder why. */
static void remark_unlisted(const vt_shards *shards, vt_warnings *warnings)
{
    for (size_t f = 0; f < shards->files_count; f++) {
        for (size_t i = 0; i < vt_st_count(shards->files[f]); i++) {
            const vt_st_tensor *tensor = vt_st_at(shards->files[f], i);
            char shown[VT_ST_SHOWN];
            if (vt_shards_find(shards, tensor->name) != tensor)
                vt_warnings_add(warnings, "%s: tensor \"%s\" is not used, %s does not put it there", shards->names[f],
                                vt_st_shown(shown, tensor->name), shards->name);
        }
    }
}

static vt_status open_index(vt_shards **out, const char *folder, const char *name, const char *text, size_t size,
                            vt_warnings *warnings, vt_error *err)
{
    vt_shards *shards = NULL;
    json_error_t fault;
    char shown[VT_ST_SHOWN];
    vt_status status = start(&shards, name, FILES_MAX, err);
    if (status != VT_OK)
        return status;
    json_t *index = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault);
    json_t *map = json_object_get(index, "weight_map");
    if (!index && (json_error_code(&fault) == json_error_out_of_memory || !*fault.text))
        status = no_memory(err);
    else if (!index)
        status = vt_error_set(err, VT_E_BAD_MODEL, "", "%s is not valid JSON (line %d: %s)", name, fault.line,
                              vt_st_shown(shown, fault.text));
    else if (!json_is_object(map))
        status = vt_error_set(err, VT_E_BAD_MODEL, "", "%s has no weight_map", name);
    else
        status = read_map(shards, map, folder, err);
    json_decref(index);
    if (status != VT_OK) {
        vt_shards_close(shards);
        return status;
    }
    remark_unlisted(shards, warnings);
    *out = shards;
    return VT_OK;
}

/* ---- opening ---- */

vt_status vt_shards_open_file(vt_shards **out, const char *folder, const char *name, vt_warnings *warnings,
                              vt_error *err)
{
    if (ends_with(name, ".index.json")) {
        char *text;
        size_t size;
        vt_status status = vt_text_file_read(&text, &size, folder, name, err);
        if (status != VT_OK)
            return status;
        if (!text)
            return vt_error_set(err, VT_E_NOT_FOUND, "", "%s is not there", name);
        status = open_index(out, folder, name, text, size, warnings, err);
        free(text);
        return status;
    }
    char *path = vt_path_join(folder, name);
    if (!path)
        return no_memory(err);
    vt_st_file *file;
    const vt_status status = vt_st_open(&file, path, name, err);
    free(path);
    return status == VT_OK ? wrap(out, file, name, err) : status;
}

static bool exists(const char *folder, const char *name, vt_status *status, vt_error *err)
{
    struct stat st;
    char *path = vt_path_join(folder, name);
    if (!path) {
        *status = no_memory(err);
        return false;
    }
    const bool found = lstat(path, &st) == 0; /* a link to nowhere is there, and opening it says what is wrong */
    free(path);
    return found;
}

/* Whether a file of weights is the better one to name: "model" in its name, then by order. */
static bool before(const char *name, const char *best)
{
    const bool model = strstr(name, "model") != NULL, best_model = strstr(best, "model") != NULL;
    return !*best || (model != best_model ? model : strcmp(name, best) < 0);
}

/* Says why a folder is no model: what people have instead of model.safetensors. */
static vt_status refuse_folder(const char *folder, const char *shown, vt_error *err)
{
    static const char *const endings[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".npz", ".h5", ".onnx"};
    char weights[256] = "", other[256] = "";
    DIR *dir = opendir(*folder ? folder : ".");
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        bool foreign = false;
        for (size_t i = 0; i < VT_COUNT(endings); i++)
            foreign = foreign || ends_with(name, endings[i]);
        /* the first by name, so that the message does not depend on the file system */
        if (foreign && (!*other || strcmp(name, other) < 0) && strlen(name) < sizeof other)
            memcpy(other, name, strlen(name) + 1);
        if (ends_with(name, ".safetensors") && strlen(name) < sizeof weights && before(name, weights))
            memcpy(weights, name, strlen(name) + 1);
    }
    if (dir)
        closedir(dir);
    char buf[VT_ST_SHOWN];
    if (*weights)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s holds %s but no %s: give that file itself", shown,
                            vt_st_shown(buf, weights), WEIGHTS);
    if (*other)
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "%s holds %s but no %s: convert it to safetensors first (load it where it was made, then "
                            "safetensors.torch.save_file)",
                            shown, vt_st_shown(buf, other), WEIGHTS);
    return vt_error_set(err, VT_E_NOT_FOUND, "", "%s holds no %s", shown, WEIGHTS);
}

vt_status vt_shards_open(vt_shards **out, const char *folder, const char *shown, vt_warnings *warnings, vt_error *err)
{
    vt_status status = VT_OK;
    for (size_t i = 0; status == VT_OK && i < VT_COUNT(names); i++)
        if (exists(folder, names[i], &status, err))
            return vt_shards_open_file(out, folder, names[i], warnings, err);
    return status == VT_OK ? refuse_folder(folder, shown, err) : status;
}

/* ---- reading ---- */

const char *vt_shards_name(const vt_shards *shards)
{
    return shards->name;
}

size_t vt_shards_count(const vt_shards *shards)
{
    return shards->count;
}

const vt_st_tensor *vt_shards_at(const vt_shards *shards, size_t k)
{
    return k < shards->count ? shards->tensors[k] : NULL;
}

size_t vt_shards_place(const vt_shards *shards, const char *name)
{
    const vt_st_tensor key = {.name = name}, *at = &key;
    const vt_st_tensor **found =
        shards->count ? bsearch(&at, shards->tensors, shards->count, sizeof *shards->tensors, by_name) : NULL;
    return found ? (size_t)(found - shards->tensors) : SIZE_MAX;
}

const vt_st_tensor *vt_shards_find(const vt_shards *shards, const char *name)
{
    return vt_shards_at(shards, vt_shards_place(shards, name));
}

size_t vt_shards_files(const vt_shards *shards)
{
    return shards->files_count;
}

const vt_st_file *vt_shards_file(const vt_shards *shards, size_t k)
{
    return k < shards->files_count ? shards->files[k] : NULL;
}
