/* Opening a model: which files, in which order, and what they are together.
 *
 * A model is a folder (or one weights file with the texts beside it), three files linked into the library, or bytes in
 * memory. All three go the same way once their texts are read. Everything is built in a half-open
 * model that vt_model_close can take apart at any point; after open nothing is written, so any thread may read. */
#include "engine/model/model.h"

#include "engine/model/builtin.h"
#include "engine/model/card.h"
#include "engine/model/checkpoint.h"
#include "engine/model/config.h"
#include "engine/model/foreign.h"
#include "engine/model/labels.h"
#include "engine/model/opened.h"
#include "engine/model/pack.h"
#include "engine/model/shards.h"
#include "engine/model/text_file.h"
#include "engine/model/tokenizer.h"
#include "engine/model/warnings.h"
#include "vitral/hash.h"
#include "vitral/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The texts of a model. */
typedef struct texts {
    vt_config_files files;
    vt_config_file labels; /* labels.txt */
} texts;

/* ---- what the files are together ---- */

static void hash_number(vt_sha256 *hash, uint64_t value)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    vt_sha256_update(hash, bytes, sizeof bytes);
}

static void hash_text(vt_sha256 *hash, vt_config_file t)
{
    hash_number(hash, t.text ? (uint64_t)t.size + 1 : 0);
    if (t.text)
        vt_sha256_update(hash, t.text, t.size);
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

static void take_fingerprint(vt_model *model, const texts *from, bool in_memory)
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
        hash_text(&hash, (vt_config_file){(const char *)header, header_bytes});
        if (in_memory)
            hash_sample(&hash, file);
        model->info.bytes += identity[2];
    }
    hash_text(&hash, from->files.config);
    hash_text(&hash, from->files.preprocessor);
    hash_text(&hash, from->files.open_clip);
    hash_text(&hash, from->labels);
    if (model->tokenizer)
        vt_sha256_update(&hash, model->tokenizer_digest, sizeof model->tokenizer_digest);
    vt_sha256_final(&hash, model->info.fingerprint);
}

static const char *activation_name(vt_activation activation)
{
    switch (activation) {
    case VT_GELU_TANH:
        return "gelu_tanh";
    case VT_QUICK_GELU:
        return "quick_gelu";
    case VT_SWIGLU:
        return "swiglu";
    case VT_GELU:
        break;
    }
    return "gelu";
}

/* labels.txt goes before the names of the config; both must fit the head. */
static vt_status take_labels(vt_model *model, vt_config *config, vt_config_file file, vt_error *err)
{
    const size_t classes = model->info.classes, named = config->labels.count;
    const char *key = config->origin == VT_FROM_TRANSFORMERS ? "id2label" : "label_names";
    if (file.text) {
        const vt_status status = vt_labels_parse(&model->labels, file.text, file.size, "labels.txt", err);
        if (status != VT_OK)
            return status;
        if (model->labels.count != classes)
            return vt_error_set(err, VT_E_BAD_MODEL, "", "labels.txt has %zu line%s, but the model has %zu class%s",
                                model->labels.count, model->labels.count == 1 ? "" : "s", classes,
                                classes == 1 ? "" : "es");
    }
    /* transformers leaves the names of an earlier head in the file of a net that was saved without one */
    if (named && classes == 0 && (config->classes < 0 || config->origin == VT_FROM_TRANSFORMERS))
        vt_warnings_add(&model->warnings, "%s: %s has %zu names, but the model has no head", config->keys->file, key,
                        named);
    else if (named && named != classes)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s has %zu name%s for %zu class%s", config->keys->file, key,
                            named, named == 1 ? "" : "s", classes, classes == 1 ? "" : "es");
    if (!file.text && classes > 0 && config->labels.named) {
        model->labels = config->labels;
        config->labels = (vt_labels){0};
    }
    return model->labels.named ? VT_OK : vt_labels_number(&model->labels, classes, err);
}

/* model->shards are open; the rest follows. */
static vt_status build(vt_model *model, const texts *from, vt_error *err)
{
    vt_model_info *info = &model->info;
    vt_config config;
    vt_layout layout;
    vt_config_files files = from->files;
    vt_status status = vt_foreign_check(model->shards, files.config.text, files.config.size, err);
    if (status == VT_OK)
        status = vt_layout_find(&layout, model->shards, &model->warnings, err);
    if (status != VT_OK)
        return status;
    files.origin = layout.origin;
    files.net = layout.net;
    status = vt_config_parse(&config, &files, &model->warnings, err);
    if (status != VT_OK)
        return status;
    status = vt_card_check(&config, &layout, model->shards, &model->warnings, err);
    if (status == VT_OK)
        status =
            vt_checkpoint_assemble(&model->checkpoint, info, model->shards, &layout, &config, &model->warnings, err);
    if (status == VT_OK)
        status = take_labels(model, &config, from->labels, err);
    if (status == VT_OK)
        vt_card_remark(&config, &layout, model->shards, &model->warnings);
    if (status == VT_OK)
        status = vt_text_weights_open(&model->text, model->why_no_texts, model->shards, &layout, &config,
                                      model->checkpoint.weights.embed_w ? info->features : 0, &model->warnings, err);
    if (status == VT_OK) {
        info->text = model->text;
        info->why_no_texts = info->joint ? model->why_no_texts : NULL; /* the tokenizer comes later */
        memcpy(model->architecture, config.architecture, sizeof model->architecture);
        info->architecture = *model->architecture ? model->architecture : "vit";
        info->id = model->id;
        info->activation_name = activation_name(info->activation);
        info->norm_eps = config.norm_eps;
        vt_config_outputs(&config, info->classes, &info->multi_label, &info->regression, &model->warnings);
        info->backend = "openblas";
        vt_config_preprocess(&config, info->image_h, info->image_w, &info->preprocess);
    }
    vt_config_free(&config);
    return status;
}

/* The tokenizer beside the weights, for a model that has the tower; folder NULL: there is no place to look. */
static vt_status take_tokenizer(vt_model *model, const char *folder, vt_error *err)
{
    vt_sha256 hash;
    if (!model->text)
        return VT_OK;
    vt_sha256_init(&hash);
    if (folder) {
        const vt_status status = vt_tokenizer_open(&model->tokenizer, folder, model->text->V, &hash, err);
        if (status != VT_OK)
            return status;
    }
    /* the row that stands for a text is found by its mark: another number would silently pool another row */
    const long eos = model->text->eos_id, end = model->tokenizer ? (long)vt_bpe_end(model->tokenizer) : eos;
    if (model->tokenizer && eos >= 0 && eos != end)
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            model->text->eos_given
                                ? "config.json: text_config.eos_token_id is %ld, but the tokenizer ends a text with %ld"
                                : "config.json gives no text_config.eos_token_id, which means %ld to transformers, but "
                                  "the tokenizer ends a text with %ld",
                            eos, end);
    if (model->tokenizer && eos < 0 && (size_t)end + 1 != vt_bpe_count(model->tokenizer))
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "the tokenizer ends a text with %ld, which must be its largest number: it has %zu pieces",
                            end, vt_bpe_count(model->tokenizer));
    model->info.has_texts = model->tokenizer != NULL;
    vt_sha256_final(&hash, model->tokenizer_digest);
    if (!model->tokenizer)
        snprintf(model->why_no_texts, sizeof model->why_no_texts,
                 "there is no tokenizer beside its weights: vocab.json and merges.txt, tokenizer.json, or "
                 "bpe_simple_vocab*.txt.gz");
    return VT_OK;
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

static vt_status open_bytes(vt_model **out, const void *weights, size_t size, const texts *from, const char *id,
                            vt_error *err)
{
    vt_model *model = NULL;
    vt_status status = start(&model, id, err);
    if (status != VT_OK)
        return status;
    status = vt_shards_open_memory(&model->shards, weights, size, err);
    if (status == VT_OK)
        status = build(model, from, err);
    if (status == VT_OK)
        status = take_tokenizer(model, NULL, err);
    if (status == VT_OK)
        take_fingerprint(model, from, true);
    return finish(out, model, status);
}

vt_status vt_model_open_memory(vt_model **out, const void *safetensors, size_t size, const char *config_json,
                               const char *labels_txt, const char *id, vt_error *err)
{
    const texts from = {.files.config = {config_json, config_json ? strlen(config_json) : 0},
                        .labels = {labels_txt, labels_txt ? strlen(labels_txt) : 0}};
    return open_bytes(out, safetensors, size, &from, id ? id : "memory", err);
}

static vt_status open_builtin(vt_model **out, const char *id, vt_error *err)
{
    const texts from = {.files.config = {(const char *)vt_builtin_config, (size_t)vt_builtin_config_size},
                        .labels = {(const char *)vt_builtin_labels, (size_t)vt_builtin_labels_size}};
    return open_bytes(out, vt_builtin_weights, (size_t)vt_builtin_weights_size, &from, id ? id : "default", err);
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

/* Ids stand in JSON, headers and log lines: what is no character there becomes _. */
static void make_printable(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        uint32_t code;
        const size_t n = vt_utf8_read(text, left, &code), step = n ? n : 1;
        if (n == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029)
            memset(text, '_', step);
        text += step;
        left -= step;
    }
}

/* The id of a folder: its real name, also for "." and links. */
static void folder_id(char *buf, size_t room, const char *folder)
{
    char *real = realpath(*folder ? folder : ".", NULL);
    last_part(buf, room, real ? real : folder);
    free(real);
    make_printable(buf);
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
    texts from = {0};
    const struct {
        const char *name;
        vt_config_file *to;
    } beside[] = {{"config.json", &from.files.config},
                  {"preprocessor_config.json", &from.files.preprocessor},
                  {"open_clip_config.json", &from.files.open_clip},
                  {"labels.txt", &from.labels}};
    char *read[VT_COUNT(beside)] = {NULL};
    vt_status status = *file ? vt_shards_open_file(&model->shards, folder, file, &model->warnings, err)
                             : vt_shards_open(&model->shards, folder, shown, &model->warnings, err);
    for (size_t i = 0; status == VT_OK && i < VT_COUNT(beside); i++) {
        status = vt_text_file_read(&read[i], &beside[i].to->size, folder, beside[i].name, err);
        beside[i].to->text = read[i];
    }
    if (status == VT_OK)
        status = build(model, &from, err);
    if (status == VT_OK)
        status = take_tokenizer(model, folder, err);
    if (status == VT_OK)
        take_fingerprint(model, &from, false);
    for (size_t i = 0; i < VT_COUNT(beside); i++)
        free(read[i]);
    return status;
}

static vt_status open_path(vt_model **out, const char *path, const char *id, vt_error *err)
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

vt_status vt_model_open(vt_model **out, const char *path, const char *id, vt_error *err)
{
    return open_path(out, path, id, err);
}

vt_status vt_model_open_sized(vt_model **out, const char *path, const char *id, size_t image_h, size_t image_w,
                              vt_error *err)
{
    vt_model *model = NULL;
    vt_status status = open_path(&model, path, id, err);
    if (status != VT_OK)
        return status;
    return finish(out, model, vt_model_resize(model, image_h, image_w, err));
}

void vt_model_close(vt_model *model)
{
    if (!model)
        return;
    if (model->base) { /* a view owns nothing but itself and its texts */
        vt_asked_texts_free(model->asked);
        free(model);
        return;
    }
    free(model->patch_pos);
    vt_text_weights_close(model->text);
    vt_bpe_close(model->tokenizer);
    vt_packed_close((vt_packed *)(uintptr_t)model->checkpoint.weights.packed);
    vt_packed_close((vt_packed *)(uintptr_t)model->checkpoint.weights.packed_bf16);
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

const char *vt_model_synonym(const vt_model *model, size_t index)
{
    return model->labels.synonyms && index < model->labels.count ? model->labels.synonyms[index] : NULL;
}

bool vt_model_has_labels(const vt_model *model)
{
    return model->labels.named;
}

vt_status vt_model_find_class(const vt_model *model, const char *typed, const char *param, int *index, vt_error *err)
{
    return vt_labels_find(&model->labels, typed, param, index, err);
}

size_t vt_model_sharers(const vt_model *model, const char *text)
{
    return vt_labels_sharers(&model->labels, text);
}

const char *vt_model_warning(const vt_model *model, size_t k)
{
    return k < model->warnings.count ? model->warnings.texts[k] : NULL;
}

bool vt_model_get_tensor(const vt_model *model, size_t k, vt_model_tensor *out)
{
    const vt_model *owner = model->base ? model->base : model;
    const vt_st_tensor *t = vt_shards_at(owner->shards, k);
    if (!t)
        return false;
    *out = (vt_model_tensor){.name = t->name,
                             .dtype = t->dtype,
                             .ndim = t->ndim,
                             .count = t->count,
                             .shape = t->shape,
                             .use = owner->checkpoint.uses[k]};
    return true;
}
