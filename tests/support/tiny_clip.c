#include "tests/support/tiny_clip.h"

#include "engine/text/bpe.h"
#include "engine/text/unicode.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum {
    W = VT_TINY_CLIP_WIDTH,
    M = 16,
    L = 2,
    E = VT_TINY_CLIP_JOINT,
    N = VT_TINY_CLIP_CONTEXT,
    V = VT_TINY_CLIP_PIECES,
    D = 12, /* the picture's tower: three heads, patches of 4, 2 x 2 of them */
    DM = 20,
    UNIONS = 5
};

const char vt_tiny_clip_merges[] = "#version: 0.2\nd o\ndo g</w>\nc a\nca t</w>\nr e\n";
static const char *const unions[UNIONS] = {"do", "dog</w>", "ca", "cat</w>", "re"};

/* ---- tensors ---- */

typedef struct maker {
    vt_test_tensors *list;
    uint32_t seed;
} maker;

/* One tensor of values in -scale ... scale about offset; a 0 ends the shape. name NULL: drawn, but not kept. */
static float *emit(maker *m, const char *name, size_t a, size_t b, size_t c, size_t d, float scale, float offset)
{
    const size_t shape[4] = {a, b, c, d};
    size_t ndim = 0, n = 1;
    while (ndim < 4 && shape[ndim])
        n *= shape[ndim++];
    float *values = malloc((n + 1) * sizeof *values);
    ck_assert_ptr_nonnull(values);
    vt_test_fill(values, n, m->seed++);
    for (size_t i = 0; i < n; i++)
        values[i] = offset + scale * values[i];
    if (name) {
        vt_test_tensors_add(m->list, name, ndim, shape, values);
        free(values);
        return m->list->items[m->list->count - 1].values;
    }
    return values;
}

static void emit_pair(maker *m, const char *front, const char *name, size_t rows, size_t columns)
{
    char full[96];
    const bool norm = columns == 0;
    snprintf(full, sizeof full, "%s%s.weight", front, name);
    emit(m, full, rows, columns, 0, 0, norm ? 0.1f : 0.4f, norm ? 1.0f : 0.0f);
    snprintf(full, sizeof full, "%s%s.bias", front, name);
    emit(m, full, rows, 0, 0, 0, 0.1f, 0.0f);
}

/* q, k and v: three tensors each, or the same values stacked. */
static void emit_qkv(maker *m, const char *front, size_t width, bool open_clip)
{
    static const char *const parts[] = {"q", "k", "v"};
    char full[96];
    for (size_t what = 0; what < 2; what++) { /* weights, then biases */
        const size_t n = what ? width : width * width;
        float *stacked = malloc(3 * n * sizeof *stacked);
        ck_assert_ptr_nonnull(stacked);
        for (size_t k = 0; k < 3; k++) {
            snprintf(full, sizeof full, "%sself_attn.%s_proj.%s", front, parts[k], what ? "bias" : "weight");
            float *values = emit(m, open_clip ? NULL : full, width, what ? 0 : width, 0, 0, what ? 0.1f : 0.4f, 0.0f);
            memcpy(stacked + k * n, values, n * sizeof *values);
            if (open_clip)
                free(values);
        }
        if (open_clip) {
            const size_t shape[2] = {3 * width, width};
            snprintf(full, sizeof full, "%sattn.in_proj_%s", front, what ? "bias" : "weight");
            vt_test_tensors_add(m->list, full, what ? 1 : 2, shape, stacked);
        }
        free(stacked);
    }
}

static void emit_block(maker *m, const char *front, size_t width, size_t mlp, bool open_clip)
{
    emit_pair(m, front, open_clip ? "ln_1" : "layer_norm1", width, 0);
    emit_qkv(m, front, width, open_clip);
    emit_pair(m, front, open_clip ? "attn.out_proj" : "self_attn.out_proj", width, width);
    emit_pair(m, front, open_clip ? "ln_2" : "layer_norm2", width, 0);
    emit_pair(m, front, open_clip ? "mlp.c_fc" : "mlp.fc1", mlp, width);
    emit_pair(m, front, open_clip ? "mlp.c_proj" : "mlp.fc2", width, mlp);
}

/* (rows, columns) for transformers; open_clip has it the other way round. */
static void emit_projection(maker *m, const char *clip, const char *open, size_t rows, size_t columns, bool open_clip)
{
    float *values = emit(m, open_clip ? NULL : clip, rows, columns, 0, 0, 0.5f, 0.0f);
    if (!open_clip)
        return;
    const size_t shape[2] = {columns, rows};
    float *turned = malloc(rows * columns * sizeof *turned);
    ck_assert_ptr_nonnull(turned);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            turned[c * rows + r] = values[r * columns + c];
    vt_test_tensors_add(m->list, open, 2, shape, turned);
    free(turned);
    free(values);
}

void vt_tiny_clip_tensors(vt_test_tensors *list, bool open_clip)
{
    maker m = {list, 41};
    char front[64];
    const float scale = 1.6f; /* a logarithm */
    memset(list, 0, sizeof *list);
    emit(&m, open_clip ? "visual.class_embedding" : "vision_model.embeddings.class_embedding", D, 0, 0, 0, 0.5f, 0.0f);
    emit(&m, open_clip ? "visual.conv1.weight" : "vision_model.embeddings.patch_embedding.weight", D, 3, 4, 4, 0.2f,
         0.0f);
    emit(&m, open_clip ? "visual.positional_embedding" : "vision_model.embeddings.position_embedding.weight", 5, D, 0,
         0, 0.3f, 0.0f);
    emit_pair(&m, open_clip ? "visual." : "vision_model.", open_clip ? "ln_pre" : "pre_layrnorm", D, 0);
    for (size_t l = 0; l < L; l++) {
        snprintf(front, sizeof front,
                 open_clip ? "visual.transformer.resblocks.%zu." : "vision_model.encoder.layers.%zu.", l);
        emit_block(&m, front, D, DM, open_clip);
    }
    emit_pair(&m, open_clip ? "visual." : "vision_model.", open_clip ? "ln_post" : "post_layernorm", D, 0);
    emit_projection(&m, "visual_projection.weight", "visual.proj", E, D, open_clip);

    emit(&m, open_clip ? "token_embedding.weight" : "text_model.embeddings.token_embedding.weight", V, W, 0, 0, 0.8f,
         0.0f);
    emit(&m, open_clip ? "positional_embedding" : "text_model.embeddings.position_embedding.weight", N, W, 0, 0, 0.3f,
         0.0f);
    for (size_t l = 0; l < L; l++) {
        snprintf(front, sizeof front, open_clip ? "transformer.resblocks.%zu." : "text_model.encoder.layers.%zu.", l);
        emit_block(&m, front, W, M, open_clip);
    }
    emit_pair(&m, open_clip ? "" : "text_model.", open_clip ? "ln_final" : "final_layer_norm", W, 0);
    emit_projection(&m, "text_projection.weight", "text_projection", E, W, open_clip);
    vt_test_tensors_add(list, "logit_scale", 0, NULL, &scale);
}

/* ---- the vocabulary ---- */

/* The pieces by number, as text. */
static void piece_of(size_t id, bool open_clip, char out[24])
{
    size_t n = 0;
    if (id >= 512) {
        snprintf(out, 24, "%s",
                 id < 512 + UNIONS    ? unions[id - 512]
                 : id == 512 + UNIONS ? (open_clip ? "<start_of_text>" : "<|startoftext|>")
                                      : (open_clip ? "<end_of_text>" : "<|endoftext|>"));
        return;
    }
    n = vt_utf8_write(out, vt_bpe_letter(vt_bpe_byte_at(id % 256)));
    snprintf(out + n, 24 - n, "%s", id < 256 ? "" : "</w>");
}

char *vt_tiny_clip_vocab(void)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    for (size_t id = 0; id < V; id++) {
        char piece[24];
        piece_of(id, false, piece);
        fprintf(f, "%s\"%s%s\": %zu", id ? ",\n " : "{", *piece == '"' || *piece == '\\' ? "\\" : "", piece, id);
    }
    fprintf(f, "}\n");
    fclose(f);
    return text;
}

char *vt_tiny_clip_whole(void)
{
    char *vocab = vt_tiny_clip_vocab(), *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    fprintf(
        f,
        "{\"added_tokens\": [], \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"},"
        " {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"\\\\s+\"}, \"content\": \" \"}, {\"type\":"
        " \"Lowercase\"}]},\n \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\","
        " \"pattern\": {\"Regex\": \"'s|'t|'re|'ve|'m|'ll|'d|[\\\\p{L}]+|[\\\\p{N}]|[^\\\\s\\\\p{L}\\\\p{N}]+\"},"
        " \"behavior\": \"Removed\", \"invert\": true}, {\"type\": \"ByteLevel\"}]},\n \"model\": {\"type\": \"BPE\","
        " \"continuing_subword_prefix\": \"\", \"end_of_word_suffix\": \"</w>\",\n \"vocab\": %s,\n \"merges\":"
        " [[\"d\", \"o\"], [\"do\", \"g</w>\"], \"c a\", [\"ca\", \"t</w>\"], \"r e\"]}}\n",
        vocab);
    fclose(f);
    free(vocab);
    return text;
}

uint8_t *vt_tiny_clip_packed(size_t *size)
{
    enum { ROOM = 4096, GZIP = 16 };
    z_stream z = {0};
    uint8_t *out = malloc(ROOM);
    char *title = strdup(vt_tiny_clip_merges);
    ck_assert(out && title && deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    z.next_in = (Bytef *)title;
    z.avail_in = (uInt)strlen(title);
    z.next_out = out;
    z.avail_out = ROOM;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    *size = ROOM - z.avail_out;
    deflateEnd(&z);
    free(title);
    return out;
}

const char *vt_tiny_clip_config(bool open_clip)
{
    return open_clip
               ? "{\"model_cfg\": {\"embed_dim\": 6, \"quick_gelu\": true, \"vision_cfg\": {\"image_size\": 8,"
                 " \"layers\": 2, \"width\": 12, \"head_width\": 4, \"patch_size\": 4, \"mlp_ratio\": 1.67},"
                 " \"text_cfg\": {\"context_length\": 12, \"vocab_size\": 519, \"width\": 8, \"heads\": 2,"
                 " \"layers\": 2, \"mlp_ratio\": 2.0}}}"
               : "{\"model_type\": \"clip\", \"architectures\": [\"CLIPModel\"], \"projection_dim\": 6,"
                 " \"text_config\": {\"hidden_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 2,"
                 " \"intermediate_size\": 16, \"max_position_embeddings\": 12, \"vocab_size\": 519,"
                 " \"hidden_act\": \"quick_gelu\", \"bos_token_id\": 517, \"eos_token_id\": 518},"
                 " \"vision_config\": {\"hidden_size\": 12, \"num_hidden_layers\": 2, \"num_attention_heads\": 3,"
                 " \"intermediate_size\": 20, \"image_size\": 8, \"patch_size\": 4, \"hidden_act\": \"quick_gelu\"}}";
}

/* ---- the folder ---- */

void vt_tiny_clip_put(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[320];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    ck_assert_msg(f && fwrite(bytes, 1, size, f) == size, "%s", path);
    ck_assert_int_eq(fclose(f), 0);
}

void vt_tiny_clip_drop(const char *folder, const char *name)
{
    char path[320];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(unlink(path), 0);
}

void vt_tiny_clip_folder(char folder[VT_TINY_CLIP_FOLDER], bool open_clip, void (*edit)(vt_test_tensors *list))
{
    vt_test_tensors list;
    size_t size;
    snprintf(folder, VT_TINY_CLIP_FOLDER, "/tmp/vitral-clip-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    vt_tiny_clip_tensors(&list, open_clip);
    if (edit)
        edit(&list);
    uint8_t *weights = vt_test_tensors_write(&list, 0, &size);
    vt_tiny_clip_put(folder, open_clip ? "open_clip_model.safetensors" : "model.safetensors", weights, size);
    vt_test_tensors_free(&list);
    free(weights);
    const char *config = vt_tiny_clip_config(open_clip);
    vt_tiny_clip_put(folder, open_clip ? "open_clip_config.json" : "config.json", config, strlen(config));
    if (open_clip) {
        uint8_t *packed = vt_tiny_clip_packed(&size);
        vt_tiny_clip_put(folder, "bpe_simple_vocab_tiny.txt.gz", packed, size);
        free(packed);
        return;
    }
    char *vocab = vt_tiny_clip_vocab();
    vt_tiny_clip_put(folder, "vocab.json", vocab, strlen(vocab));
    vt_tiny_clip_put(folder, "merges.txt", vt_tiny_clip_merges, strlen(vt_tiny_clip_merges));
    free(vocab);
}

void vt_tiny_clip_remove(const char *folder)
{
    DIR *dir = opendir(folder);
    char path[320];
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(dir);
    ck_assert_int_eq(rmdir(folder), 0);
}

vt_model *vt_tiny_clip_open(bool open_clip)
{
    char folder[VT_TINY_CLIP_FOLDER];
    vt_model *model = NULL;
    vt_error err = {0};
    vt_tiny_clip_folder(folder, open_clip, NULL);
    const vt_status status = vt_test_open(&model, folder, "tiny_clip", &err);
    vt_tiny_clip_remove(folder);
    ck_assert_msg(status == VT_OK, "%s", err.msg);
    return model;
}
