/* A net that is almost a ViT would load and answer nonsense. So what gives such a net away is looked for first, and the
 * answer says what was found instead of listing forty missing tensors. */
#include "engine/model/foreign.h"

#include <string.h>

static const struct sign {
    const char *part; /* of a tensor's name */
    const char *what;
} signs[] = {
    {"relative_position_bias_table", "relative positions, as in Swin or BEiT"},
    {"downsample.reduction", "a net of several resolutions, such as Swin"},
    {"patch_embed.backbone.", "a hybrid of a convolution net and a ViT"},
    {"visual.conv1.", "CLIP in OpenAI's spelling"},
    {"visual.class_embedding", "CLIP in OpenAI's spelling"},
    {"vision_model.", "CLIP in the spelling of Hugging Face transformers"},
    {"encoder.layers.encoder_layer_", "a ViT in torchvision's spelling"},
    {"embeddings.patch_embeddings.", "a ViT in the spelling of Hugging Face transformers"},
    {"register_tokens", "DINOv2 in its original spelling"},
    {".q_norm.", "normalised queries (qk_norm)"},
    {".k_norm.", "normalised keys (qk_norm)"},
    {"mlp.w12.", "a SwiGLU MLP"},
    {"mlp.gate_proj.", "a SwiGLU MLP"},
    {"mlp.weights_in.", "a SwiGLU MLP"},
    {"mlp.fc1_g.", "a SwiGLU MLP"},
    {"attn_pool.", "attention pooling"},
    {"pre_logits.", "a hidden layer before the head"},
    {"blocks_token_only.", "CaiT"},
    {".attns.", "parallel blocks"},
    {".rel_pos_h", "relative positions, as in SAM"},
    {"attn.q_proj.", "separate queries, keys and values, as in EVA"},
};

vt_status vt_foreign_check(const vt_shards *shards, const char *architecture, vt_error *err)
{
    static const char patches[] = ".patch_embed.proj.weight";
    const char *of = *architecture ? " (architecture " : "", *end = *architecture ? ")" : "";
    const size_t count = vt_shards_count(shards);
    char shown[VT_ST_SHOWN];

    for (size_t s = 0; s < VT_COUNT(signs); s++) {
        for (size_t i = 0; i < count; i++) {
            const char *name = vt_shards_at(shards, i)->name;
            if (strstr(name, signs[s].part))
                return vt_error_set(err, VT_E_BAD_MODEL, "", "%s holds \"%s\"%s%s%s: that is %s, which is not read yet",
                                    vt_shards_name(shards), vt_st_shown(shown, name), of, architecture, end,
                                    signs[s].what);
        }
    }
    if (vt_shards_find(shards, patches + 1))
        return VT_OK;
    for (size_t i = 0; i < count; i++) {
        const char *name = vt_shards_at(shards, i)->name, *found = strstr(name, patches);
        if (found && strcmp(found, patches) == 0)
            return vt_error_set(err, VT_E_BAD_MODEL, "",
                                "%s holds \"%s\": names with something in front of patch_embed are not read yet",
                                vt_shards_name(shards), vt_st_shown(shown, name));
    }
    return VT_OK;
}
