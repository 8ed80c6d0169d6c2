/* Opening a model: which files, in which order, and what they are together.
 *
 * A model is a folder (or one weights file with config.json and labels.txt beside it), three files linked into the
 * library, or bytes in memory. All three go the same way once their texts are read. Everything is built in a half-open
 * model that vt_model_close can take apart at any point; after open nothing is written, so any thread may read. */
#include "engine/model/model.h"

#include "engine/model/builtin.h"
#include "engine/model/checkpoint.h"
#include "engine/model/config.h"
#include "engine/model/labels.h"
#include "engine/model/shards.h"
#include "engine/model/text_file.h"
#include "engine/model/warnings.h"
#include "vitral/hash.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct vt_model {
    vt_model_info info;
    char *id;
    char architecture[128];
    vt_shards *shards;
    vt_checkpoint checkpoint;
    vt_labels labels;
    vt_warnings warnings;
};

/* A text of a model; bytes NULL = there is none. */
typedef struct text {
    const char *bytes;
    size_t size;
} text;

/* ---- what the files are together ---- */

static void hash_number(vt_sha256 *hash, uint64_t value)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    vt_sha256_update(hash, bytes, sizeof bytes);
}

static void hash_text(vt_sha256 *hash, text t)
{
    hash_number(hash, t.bytes ? (uint64_t)t.size + 1 : 0);
    if (t.bytes)
        vt_sha256_update(hash, t.bytes, t.size);
}

/* Bytes in memory have no inode and no date, so some of each page goes in: weights that were trained again differ there. */
static void hash_sample(vt_sha256 *hash, const vt_st_file *file)
{
    enum { PAGE = 4096, PART = 32 };
    size_t size;
    const uint8_t *bytes = vt_st_bytes(file, &size);
    for (size_t at = 0; at < size; at += PAGE)
        vt_sha256_update(hash, bytes + at, size - at < PART ? size - at : PART);
}

static void take_fingerprint(vt_model *model, text config, text labels, bool in_memory)
{
    vt_sha256 hash;
    vt_sha256_init(&hash);
    model->info.bytes = 0;
    for (size_t i = 0; i < vt_shards_files(model->shards); i++) {
        const vt_st_file *file = vt_shards_file(model->shards, i);
        uint64_t identity[VT_ST_IDENTITY];
        size_t header_bytes;
        const uint8_t *header = vt_st_header(file, &header_bytes);
        vt_st_identity(file, identity);
        for (size_t k = 0; k < VT_ST_IDENTITY; k++)
            hash_number(&hash, identity[k]);
        hash_text(&hash, (text){(const char *)header, header_bytes});
        if (in_memory)
            hash_sample(&hash, file);
        model->info.bytes += identity[2];
    }
    hash_text(&hash, config);
    hash_text(&hash, labels);
    vt_sha256_final(&hash, model->info.fingerprint);
}

static const char *activation_name(vt_activation activation)
{
    switch (activation) {
    case VT_GELU_TANH:
        return "gelu_tanh";
    case VT_QUICK_GELU:
        return "quick_gelu";
    case VT_GELU:
        break;
    }
    return "gelu";
}

/* labels.txt goes before label_names; both must fit the head. */
static vt_status take_labels(vt_model *model, vt_config *config, text file, vt_error *err)
{
    const size_t classes = model->info.classes;
    if (file.bytes) {
        const vt_status status = vt_labels_parse(&model->labels, file.bytes, file.size, "labels.txt", err);
        if (status != VT_OK)
            return status;
        if (model->labels.count != classes)
            return vt_error_set(err, VT_E_BAD_MODEL, "", "labels.txt has %zu lines, but the model has %zu classes",
                                model->labels.count, classes);
    }
    if (config->labels.named && config->labels.count != classes)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "config.json: label_names has %zu names for %zu classes",
                            config->labels.count, classes);
    if (!file.bytes && config->labels.named) {
        model->labels = config->labels;
        config->labels = (vt_labels){0};
    }
    return model->labels.named ? VT_OK : vt_labels_number(&model->labels, classes, err);
}

/* model->shards are open; the rest follows. */
static vt_status build(vt_model *model, text config_file, text labels_file, vt_error *err)
{
    vt_model_info *info = &model->info;
    vt_config config;
    vt_status status = vt_config_parse(&config, config_file.bytes, config_file.size, &model->warnings, err);
    if (status != VT_OK)
        return status;
    status = vt_checkpoint_assemble(&model->checkpoint, info, model->shards, &config, &model->warnings, err);
    if (status == VT_OK)
        status = take_labels(model, &config, labels_file, err);
    if (status == VT_OK) {
        memcpy(model->architecture, config.architecture, sizeof model->architecture);
        info->architecture = *model->architecture ? model->architecture : "vit";
        info->id = model->id;
        info->activation = config.activation;
        info->activation_name = activation_name(config.activation);
        info->norm_eps = config.norm_eps;
        info->multi_label = info->classes == 1; /* one output of timm means yes or no */
        info->backend = "openblas";
        vt_config_preprocess(&config, info->image_h, info->image_w, &info->preprocess);
    }
    vt_config_free(&config);
    return status;
}

static vt_status start(vt_model **out, const char *id, vt_error *err)
{
    vt_model *model = calloc(1, sizeof *model);
    if (model && (model->id = strdup(id))) {
        *out = model;
        return VT_OK;
    }
    free(model);
    return vt_error_set(err, VT_E_NOMEM, "", "no memory for a model");
}

/* status of the opening so far; hands the model out or takes it apart. */
static vt_status finish(vt_model **out, vt_model *model, vt_status status)
{
    if (status == VT_OK)
        *out = model;
    else
        vt_model_close(model);
    return status;
}

/* ---- bytes ---- */

static vt_status open_bytes(vt_model **out, const void *weights, size_t size, text config, text labels, const char *id,
                            vt_error *err)
{
    vt_model *model = NULL;
    vt_status status = start(&model, id, err);
    if (status != VT_OK)
        return status;
    status = vt_shards_open_memory(&model->shards, weights, size, err);
    if (status == VT_OK)
        status = build(model, config, labels, err);
    if (status == VT_OK)
        take_fingerprint(model, config, labels, true);
    return finish(out, model, status);
}

vt_status vt_model_open_memory(vt_model **out, const void *safetensors, size_t size, const char *config_json,
                               const char *labels_txt, const char *id, vt_error *err)
{
    return open_bytes(out, safetensors, size, (text){config_json, config_json ? strlen(config_json) : 0},
                      (text){labels_txt, labels_txt ? strlen(labels_txt) : 0}, id ? id : "memory", err);
}

static vt_status open_builtin(vt_model **out, const char *id, vt_error *err)
{
    const text config = {(const char *)vt_builtin_config, (size_t)vt_builtin_config_size};
    const text labels = {(const char *)vt_builtin_labels, (size_t)vt_builtin_labels_size};
    return open_bytes(out, vt_builtin_weights, (size_t)vt_builtin_weights_size, config, labels, id ? id : "default",
                      err);
}

/* ---- files ---- */

/* The last part of a path, without slashes at its end. */
static void last_part(char *buf, size_t room, const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    const size_t n = end - begin < room - 1 ? end - begin : room - 1;
    memcpy(buf, path + begin, n);
    buf[n] = 0;
}

/* The id of a folder: its real name, also for "." and links. */
static void folder_id(char *buf, size_t room, const char *folder)
{
    char *real = realpath(*folder ? folder : ".", NULL);
    last_part(buf, room, real ? real : folder);
    free(real);
    if (!*buf || strcmp(buf, "/") == 0)
        memcpy(buf, "model", 6);
}

/* folder and file ("" = whatever the folder holds) of a path, and the name of the folder for messages. */
static vt_status split_path(const char *path, char **folder, char file[NAME_MAX + 1], char shown[NAME_MAX + 1],
                            vt_error *err)
{
    struct stat st;
    char buf[VT_ST_SHOWN];
    if (stat(path, &st) != 0) {
        const vt_status status = errno == ENOENT || errno == ENOTDIR ? VT_E_NOT_FOUND : VT_E_IO;
        return vt_error_set(err, status, "", "%s: %s", vt_st_shown(buf, path), strerror(errno));
    }
    char *copy = strdup(path);
    if (!copy)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a path");
    file[0] = 0;
    if (!S_ISDIR(st.st_mode)) {
        last_part(file, NAME_MAX + 1, path);
        char *slash = strrchr(copy, '/');
        if (slash)
            slash[slash == copy ? 1 : 0] = 0;
        else
            copy[0] = 0;
    }
    last_part(shown, NAME_MAX + 1, path);
    *folder = copy;
    return VT_OK;
}

static vt_status open_files(vt_model *model, const char *folder, const char *file, const char *shown, vt_error *err)
{
    char *config = NULL, *labels = NULL;
    size_t config_size = 0, labels_size = 0;
    vt_status status = *file ? vt_shards_open_file(&model->shards, folder, file, &model->warnings, err)
                             : vt_shards_open(&model->shards, folder, shown, &model->warnings, err);
    if (status == VT_OK)
        status = vt_text_file_read(&config, &config_size, folder, "config.json", err);
    if (status == VT_OK)
        status = vt_text_file_read(&labels, &labels_size, folder, "labels.txt", err);
    const text config_file = {config, config_size}, labels_file = {labels, labels_size};
    if (status == VT_OK)
        status = build(model, config_file, labels_file, err);
    if (status == VT_OK)
        take_fingerprint(model, config_file, labels_file, false);
    free(config);
    free(labels);
    return status;
}

vt_status vt_model_open(vt_model **out, const char *path, const char *id, vt_error *err)
{
    if (!path)
        return open_builtin(out, id, err);
    char *folder = NULL, file[NAME_MAX + 1], shown[NAME_MAX + 1], name[NAME_MAX + 1];
    vt_status status = split_path(path, &folder, file, shown, err);
    if (status != VT_OK)
        return status;
    folder_id(name, sizeof name, folder);
    vt_model *model = NULL;
    status = start(&model, id ? id : name, err);
    if (status == VT_OK)
        status = finish(out, model, open_files(model, folder, file, shown, err));
    free(folder);
    return status;
}

void vt_model_close(vt_model *model)
{
    if (!model)
        return;
    vt_checkpoint_free(&model->checkpoint);
    vt_shards_close(model->shards);
    vt_labels_free(&model->labels);
    vt_warnings_free(&model->warnings);
    free(model->id);
    free(model);
}

/* ---- reading ---- */

const vt_model_info *vt_model_get_info(const vt_model *model)
{
    return &model->info;
}

const vt_weights *vt_model_weights(const vt_model *model)
{
    return &model->checkpoint.weights;
}

const char *vt_model_label(const vt_model *model, size_t index)
{
    return index < model->labels.count ? model->labels.texts[index] : "";
}

bool vt_model_has_labels(const vt_model *model)
{
    return model->labels.named;
}

vt_status vt_model_find_class(const vt_model *model, const char *typed, const char *param, int *index, vt_error *err)
{
    return vt_labels_find(&model->labels, typed, param, index, err);
}

const char *vt_model_warning(const vt_model *model, size_t k)
{
    return k < model->warnings.count ? model->warnings.texts[k] : NULL;
}
