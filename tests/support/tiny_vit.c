/* The tiny net as transformers would write it. */
#include "tests/support/tiny_model.h"

#include "vitral/status.h"

#include <stdio.h>
#include <string.h>

static const char *const names[][2] = {{"cls_token", "vit.embeddings.cls_token"},
                                       {"pos_embed", "vit.embeddings.position_embeddings"},
                                       {"patch_embed.proj", "vit.embeddings.patch_embeddings.projection"},
                                       {"norm", "vit.layernorm"},
                                       {"head", "classifier"},
                                       {"norm1", "layernorm_before"},
                                       {"norm2", "layernorm_after"},
                                       {"attn.proj", "attention.output.dense"},
                                       {"mlp.fc1", "intermediate.dense"},
                                       {"mlp.fc2", "output.dense"}};

/* Queries, keys and values apart. front: of the block. ending: ".weight" or ".bias" */
static void add_qkv(vt_test_tensors *to, const vt_test_tensor *t, const char *front, const char *ending)
{
    static const char *const parts[] = {"query", "key", "value"};
    const size_t shape[2] = {t->shape[0] / 3, t->ndim == 2 ? t->shape[1] : 0}, each = vt_test_tensor_count(t) / 3;
    char name[200];
    for (size_t k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%sattention.attention.%s%s", front, parts[k], ending);
        vt_test_tensors_add(to, name, t->ndim, shape, t->values + k * each);
    }
}

static void add_renamed(vt_test_tensors *to, const vt_test_tensor *t)
{
    unsigned block = 0;
    int used = 0;
    char front[64] = "", name[200];
    if (sscanf(t->name, "blocks.%u.%n", &block, &used) == 1)
        snprintf(front, sizeof front, "vit.encoder.layer.%u.", block);
    const char *rest = t->name + used, *dot = strrchr(rest, '.');
    const size_t n = dot ? (size_t)(dot - rest) : strlen(rest);
    if (dot && strncmp(rest, "attn.qkv", n) == 0) {
        add_qkv(to, t, front, dot);
        return;
    }
    for (size_t k = 0; k < VT_COUNT(names); k++)
        if (strlen(names[k][0]) == n && strncmp(rest, names[k][0], n) == 0) {
            snprintf(name, sizeof name, "%s%s%s", front, names[k][1], dot ? dot : "");
            vt_test_tensors_add(to, name, t->ndim, t->shape, t->values);
        }
}

uint8_t *vt_test_tiny_vit(const vt_test_tiny_options *opt, size_t *size)
{
    vt_test_tensors from, to = {0};
    vt_test_tiny_tensors(&from, opt, NULL);
    for (size_t i = 0; i < from.count; i++)
        add_renamed(&to, &from.items[i]);
    uint8_t *bytes = vt_test_tensors_write(&to, 0, size);
    vt_test_tensors_free(&from);
    vt_test_tensors_free(&to);
    return bytes;
}
