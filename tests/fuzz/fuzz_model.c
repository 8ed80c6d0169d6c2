/* Arbitrary files as a model folder, opened as the programs open one: weights or shards with their index, configs, labels
 * and tokenizer together. No crash, no large allocation; what is accepted has consistent sizes, weights that can be read to
 * their ends, and prices for every method; what is refused says why.
 *
 * An input is one file behind the other: a byte that says which (`names` below), three bytes of size (low first), the
 * bytes. The folder stands in memory (/dev/shm) where there is such a place.
 *
 * With libFuzzer (-fsanitize=fuzzer -DVT_LIBFUZZER) changes keep that frame, and the length before a safetensors header is
 * mended half of the time, so that they reach what stands behind:
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -DVT_LIBFUZZER ... tests/fuzz/fuzz_model.c engine/(all).c
 *   fuzz_model -max_len=262144 -rss_limit_mb=2048 -malloc_limit_mb=512 new/ tests/fuzz/corpus/model/ */
#include "tests/fuzz/read_model.h"

#include "vitral/inspect.h"
#include "vitral/run.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"model.safetensors",
                                    "config.json",
                                    "preprocessor_config.json",
                                    "labels.txt",
                                    "open_clip_config.json",
                                    "open_clip_model.safetensors",
                                    "model.safetensors.index.json",
                                    "model-00001-of-00002.safetensors",
                                    "model-00002-of-00002.safetensors",
                                    "vocab.json",
                                    "merges.txt",
                                    "tokenizer.json",
                                    "bpe_simple_vocab_16e6.txt.gz",
                                    "tokenizer_config.json"};

enum { FRAME = 4, PARTS_MAX = 16, INPUT_MAX = 1 << 20 };

typedef struct part {
    size_t name, at, size; /* index of its name, where its bytes stand */
} part;

/* The files of an input; what does not fit any more is left out. */
static size_t split(part parts[PARTS_MAX], const uint8_t *data, size_t size)
{
    size_t count = 0, at = 0;
    while (count < PARTS_MAX && size - at >= FRAME) {
        const size_t want = (size_t)data[at + 1] | (size_t)data[at + 2] << 8 | (size_t)data[at + 3] << 16;
        const size_t room = size - at - FRAME;
        parts[count] = (part){data[at] % VT_COUNT(names), at + FRAME, want < room ? want : room};
        at += FRAME + parts[count++].size;
    }
    return count;
}

static char folder[64];

static void path_of(char path[128], size_t name)
{
    snprintf(path, 128, "%s/%s", folder, names[name]);
}

static void leave(void)
{
    rmdir(folder);
}

static void enter(void)
{
    snprintf(folder, sizeof folder, "%s/vitral-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    fuzz_require(mkdtemp(folder) != NULL);
    atexit(leave);
}

static void write_part(const part *p, const uint8_t *data)
{
    char path[128];
    path_of(path, p->name);
    FILE *file = fopen(path, "wb");
    fuzz_require(file && fwrite(data + p->at, 1, p->size, file) == p->size);
    fuzz_require(fclose(file) == 0);
}

/* Every method has a price or a reason, and what is opened at another size is a model too. */
static void use_model(const vt_model *model)
{
    const vt_model_info *info = vt_model_get_info(model);
    vt_inspection seen;
    const char *remark;
    vt_model_inspect(model, &seen);
    fuzz_require(seen.flops > 0.0 && seen.mapped_bytes <= info->bytes && *seen.position_rule);
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        double forwards = 0.0;
        size_t bytes = 0;
        vt_error err = {0};
        if (vt_method_price(model, vt_explainer_at(k), &forwards, &bytes, &err) == VT_OK)
            fuzz_require(forwards >= 1.0 && bytes > 0);
        else
            fuzz_require(err.status == VT_E_UNSUPPORTED && *err.msg);
    }
    for (size_t k = 0; k < info->classes && k < 16; k++)
        fuzz_require(*vt_model_label(model, k) != 0);
    for (size_t k = 0; (remark = vt_model_warning(model, k)); k++)
        fuzz_require(*remark != 0);
}

static void try_folder(const uint8_t *data, size_t size)
{
    vt_model *model = NULL;
    vt_error err = {0};
    if (vt_model_open(&model, folder, NULL, &err) != VT_OK) {
        const bool quoted = memmem(data, size, folder, strlen(folder)) != NULL; /* the fuzzer has learnt it */
        fuzz_require(!model && *err.msg && (quoted || !strstr(err.msg, folder)));
        return;
    }
    const vt_model_info own = *vt_model_get_info(model);
    fuzz_read_model(model);
    use_model(model);
    vt_model_close(model);
    if (own.patch_h > 64 || own.patch_w > 64)
        return;
    if (vt_model_open_sized(&model, folder, NULL, 3 * own.patch_h, 2 * own.patch_w, &err) == VT_OK) {
        fuzz_require(vt_model_get_info(model)->grid_h == 3 && vt_model_get_info(model)->grid_w == 2);
        fuzz_read_model(model);
        vt_model_close(model);
    } else {
        fuzz_require(*err.msg != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    part parts[PARTS_MAX];
    char path[128];
    if (size > INPUT_MAX)
        return 0;
    if (!*folder)
        enter();
    const size_t count = split(parts, data, size);
    for (size_t k = 0; k < count; k++)
        write_part(&parts[k], data);
    try_folder(data, size);
    for (size_t k = 0; k < count; k++) {
        path_of(path, parts[k].name);
        unlink(path); /* a name may have come twice */
    }
    return 0;
}

#ifdef VT_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Header and data of weights are changed apart; the length in front is made to fit. */
static size_t mutate_weights(uint8_t *bytes, size_t size, size_t room, uint32_t *state)
{
    uint64_t length = 0;
    for (size_t i = 0; i < 8; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    if (length > size - 8 || draw(state) % 8 == 0)
        return LLVMFuzzerMutate(bytes, size, room);
    const size_t header = (size_t)length, data = size - 8 - header;
    if (draw(state) % 4 == 0) /* values only */
        return data ? 8 + header + LLVMFuzzerMutate(bytes + 8 + header, data, data) : size;
    uint8_t *tail = malloc(data + 1), *head = malloc(room);
    fuzz_require(tail && head);
    memcpy(tail, bytes + 8 + header, data);
    memcpy(head, bytes + 8, header);
    const size_t changed = LLVMFuzzerMutate(head, header, room - 8 - data);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)changed >> (8 * i));
    memcpy(bytes + 8, head, changed);
    memcpy(bytes + 8 + changed, tail, data);
    free(tail);
    free(head);
    return 8 + changed + data;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    part parts[PARTS_MAX];
    uint32_t state = seed;
    const size_t count = split(parts, data, size);
    if (count == 0 || draw(&state) % 32 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    const part *p = &parts[draw(&state) % count];
    const size_t before = p->at, after = size - p->at - p->size, most = (size_t)1 << 23;
    const size_t room = max_size - before - after < most ? max_size - before - after : most;
    if (room < p->size || room < 16)
        return LLVMFuzzerMutate(data, size, max_size);
    uint8_t *bytes = malloc(room), *tail = malloc(after + 1);
    fuzz_require(bytes && tail);
    memcpy(bytes, data + p->at, p->size);
    memcpy(tail, data + p->at + p->size, after);
    const size_t changed = p->size > 8 && strstr(names[p->name], ".safetensors") && !strstr(names[p->name], ".json")
                               ? mutate_weights(bytes, p->size, room, &state)
                               : LLVMFuzzerMutate(bytes, p->size, room);
    memcpy(data + before, bytes, changed);
    memcpy(data + before + changed, tail, after);
    for (size_t i = 0; i < 3; i++)
        data[before - 3 + i] = (uint8_t)(changed >> (8 * i));
    free(bytes);
    free(tail);
    return before + changed + after;
}
#endif
