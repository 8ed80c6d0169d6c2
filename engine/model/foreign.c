/* A net that is almost a ViT would load and answer nonsense. So what gives such a net away is looked for first: the name
 * that config.json has for it, then the names of its tensors. The answer says what was found and why it is not read,
 * instead of listing forty missing tensors. */
#include "engine/model/foreign.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#define WINDOWS "attention inside windows over several resolutions, so no attention from patch to patch of the picture"
#define PYRAMID "patches merge from stage to stage, so there is no one grid whose attention could be shown"
#define CONVNET "a convolution net without attention"
#define RELATIVE "positions relative to each other inside the attention instead of added to the patches"
#define SAM "SAM: it cuts masks out and names no class of the picture; " RELATIVE
#define ROTARY "positions turn queries and keys (rotary embedding) instead of being added to the patches"

/* By name: the beginning of timm's architecture, model_type or class, letters of either case; $ is the end. */
static const struct {
    const char *name, *what;
} nets[] = {
    {"swin", "Swin Transformer: " WINDOWS},
    {"maxvit", "MaxViT: " WINDOWS},
    {"maxxvit", "MaxViT: " WINDOWS},
    {"nest_", "NesT: " WINDOWS},
    {"gcvit", "GCViT: " WINDOWS},
    {"davit", "DaViT: " WINDOWS},
    {"focal", "FocalNet: " PYRAMID},
    {"hiera", "Hiera: " PYRAMID},
    {"mvit", "MViT: " PYRAMID},
    {"pvt", "PVT: " PYRAMID},
    {"twins", "Twins: " PYRAMID},
    {"segformer", "SegFormer: " PYRAMID},
    {"cvt", "CvT: " PYRAMID},
    {"coat_", "CoaT: " PYRAMID},
    {"coatne", "CoAtNet: " PYRAMID},
    {"levit", "LeViT: " PYRAMID},
    {"pit_", "PiT: " PYRAMID},
    {"efficientformer", "EfficientFormer: " PYRAMID},
    {"efficientvit", "EfficientViT: " PYRAMID},
    {"mobilevit", "MobileViT: " PYRAMID},
    {"fastvit", "FastViT: " PYRAMID},
    {"tiny_vit", "TinyViT: " WINDOWS},
    {"vitamin", "ViTamin: " PYRAMID},
    {"poolformer", "PoolFormer: mixes patches by pooling, without attention"},
    {"mixer", "MLP-Mixer: mixes patches without attention"},
    {"resmlp", "ResMLP: mixes patches without attention"},
    {"gmlp", "gMLP: mixes patches without attention"},
    {"convnext", "ConvNeXt: " CONVNET},
    {"resne", "ResNet: " CONVNET},
    {"regnet", "RegNet: " CONVNET},
    {"efficientnet", "EfficientNet: " CONVNET},
    {"mobilenet", "MobileNet: " CONVNET},
    {"densenet", "DenseNet: " CONVNET},
    {"vgg", "VGG: " CONVNET},
    {"inception", "Inception: " CONVNET},
    {"beit", "BEiT: " RELATIVE},
    {"data2vec", "data2vec: " RELATIVE},
    {"vit_relpos", "a ViT with relative positions: " RELATIVE},
    {"vit_srelpos", "a ViT with relative positions: " RELATIVE},
    {"samvit", "the picture side of SAM: " RELATIVE},
    {"sam$", SAM},
    {"sam_", SAM},
    {"sam2", SAM},
    {"sammodel", SAM},
    {"eva", "EVA: " ROTARY},
    {"pixtral", "Pixtral: " ROTARY},
    {"naflexvit", "NaFlexViT: pictures of any shape, whose positions are made anew for each"},
    {"cait", "CaiT: the class token enters after the patches have been through their own blocks"},
    {"xcit", "XCiT: attention between channels, not between patches"},
    {"tnt", "TNT: a second net inside each patch"},
    {"crossvit", "CrossViT: two nets of different patches side by side"},
    {"convit", "ConViT: gated positional attention"},
    {"volo", "VOLO: " PYRAMID},
    {"visformer", "Visformer: " PYRAMID},
    {"siglip", "SigLIP: a pooling head with attention of its own"},
    {"detr", "DETR: it finds boxes and names no class of the picture"},
    {"conditional_detr", "DETR: it finds boxes and names no class of the picture"},
    {"deformable_detr", "DETR: it finds boxes and names no class of the picture"},
    {"rt_detr", "DETR: it finds boxes and names no class of the picture"},
    {"yolos", "YOLOS: it finds boxes and names no class of the picture"},
    {"owlvit", "OWL-ViT: it finds boxes and names no class of the picture"},
    {"owlv2", "OWL-ViT: it finds boxes and names no class of the picture"},
    {"dpt", "DPT: it estimates depth and names no class of the picture"},
    {"depth_anything", "Depth Anything: it estimates depth and names no class of the picture"},
    {"vilt", "ViLT: one net for picture and text together"},
    {"blip", "BLIP: it writes sentences and names no class of the picture"},
    {"vivit", "ViViT: it reads videos, many pictures in one go"},
    {"videomae", "VideoMAE: it reads videos, many pictures in one go"},
    {"timesformer", "TimeSformer: it reads videos, many pictures in one go"},
    {"bert", "BERT: it reads text, not pictures"},
};

/* The same anywhere in a name. */
static const struct {
    const char *part, *what;
} traits[] = {
    {"dinov3", "DINOv3: " ROTARY},
    {"_rope", "a ViT with rotary positions: " ROTARY},
    {"_rpn_", "a ViT that normalises behind attention and MLP; those that are read do it before"},
    {"_parallel", "a ViT with parallel blocks, whose attention and MLP read the same input"},
    {"_swiglu_siglip", "SigLIP: a pooling head with attention of its own"},
};

/* By a part of a tensor's name, whole from its beginning or from a dot. */
static const struct {
    const char *part, *what;
} signs[] = {
    {"relative_position_bias_table", "relative positions, as in Swin or BEiT: " RELATIVE},
    {"relative_position_index", "relative positions, as in Swin or BEiT: " RELATIVE},
    {"rel_pos_h", "relative positions, as in SAM: " RELATIVE},
    {"rel_pos.", "relative positions: " RELATIVE},
    {"downsample.reduction", "a net of several resolutions, such as Swin: " PYRAMID},
    {"patch_embed1.", "a net of several resolutions, such as PVT: " PYRAMID},
    {"rope_embed", "rotary positions, as in DINOv3: " ROTARY},
    {"rope.", "rotary positions, as in EVA: " ROTARY},
    {"attn.q_proj.", "separate queries, keys and values in timm's names, as in EVA: " ROTARY},
    {"attn.q_bias", "separate biases, as in BEiT or EVA, whose positions are not added to the patches"},
    {"attn.inner_attn_ln.", "a norm inside the attention, as in EVA-02: " ROTARY},
    {"blocks_token_only.", "CaiT: the class token enters after the patches have been through their own blocks"},
    {"attns.", "parallel blocks, whose attention and MLP read the same input"},
    {"attn_pool.", "pooling with attention of its own"},
    {"attnpool.", "pooling with attention of its own, as CLIP's ResNets have it"},
    {"vision_model.head.", "pooling with attention of its own, as in SigLIP"},
    {"visual.layer1.", "a ResNet of CLIP: " CONVNET},
    {"visual.trunk.", "open_clip around a net of timm's; the net alone, in timm's names, is read"},
    {"pre_logits.", "a hidden layer before the head"},
    {"detection_tokens", "tokens that find boxes, as in YOLOS"},
    {"depthwise_conv", "convolutions inside the blocks"},
    {"dwconv.", "convolutions, as in ConvNeXt or PVT v2"},
    {"conv_dw.", "convolutions, as in ConvNeXt"},
    {"bn1.running_mean", CONVNET},
};

static bool begins(const char *name, const char *with)
{
    while (*with && tolower((unsigned char)*name) == *with) {
        name++;
        with++;
    }
    return !*with || (*with == '$' && !*name);
}

const char *vt_foreign_name(const char *name)
{
    for (size_t i = 0; i < VT_COUNT(nets); i++)
        if (begins(name, nets[i].name))
            return nets[i].what;
    for (size_t i = 0; i < VT_COUNT(traits); i++)
        for (const char *at = name; *at; at++)
            if (begins(at, traits[i].part))
                return traits[i].what;
    return NULL;
}

static vt_status check_name(const json_t *value, const char *key, vt_error *err)
{
    char shown[VT_ST_SHOWN];
    const char *name = json_string_value(value), *what = name ? vt_foreign_name(name) : NULL;
    return what ? vt_error_set(err, VT_E_BAD_MODEL, "", "config.json: %s is \"%s\", which is not read. That is %s", key,
                               vt_st_shown(shown, name), what)
                : VT_OK;
}

static vt_status check_config(const char *config, size_t size, vt_error *err)
{
    vt_status status = VT_OK;
    json_t *root = config ? json_loadb(config, size, 0, NULL) : NULL;
    static const char *const keys[] = {"architecture", "model_type"};
    for (size_t i = 0; status == VT_OK && i < VT_COUNT(keys); i++)
        status = check_name(json_object_get(root, keys[i]), keys[i], err);
    const json_t *list = json_object_get(root, "architectures");
    for (size_t i = 0; status == VT_OK && i < json_array_size(list); i++)
        status = check_name(json_array_get(list, i), "architectures", err);
    json_decref(root);
    return status;
}

static bool holds(const char *name, const char *part)
{
    for (const char *at = name; (at = strstr(at, part)); at++)
        if (at == name || at[-1] == '.')
            return true;
    return false;
}

vt_status vt_foreign_check(const vt_shards *shards, const char *config, size_t config_size, vt_error *err)
{
    const vt_status status = check_config(config, config_size, err);
    if (status != VT_OK)
        return status;
    for (size_t s = 0; s < VT_COUNT(signs); s++) {
        for (size_t i = 0; i < vt_shards_count(shards); i++) {
            const char *name = vt_shards_at(shards, i)->name;
            char shown[VT_ST_SHOWN];
            if (holds(name, signs[s].part))
                return vt_error_set(err, VT_E_BAD_MODEL, "", "%s holds \"%s\": that is %s. It is not read",
                                    vt_shards_name(shards), vt_st_shown(shown, name), signs[s].what);
        }
    }
    return VT_OK;
}
