/* Cards against the names of tensors: what is of two nets is refused with the key and the tensor that give it away, what
 * may be of one is remarked. */
#include "engine/model/card.h"
#include "engine/model/model.h"
#include "tests/support/config_text.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"
#include "vitral/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HF "embeddings.patch_embeddings.projection.weight"
#define HF_LS "encoder.layer.0.layer_scale1.lambda1"
#define HF_DIST "embeddings.distillation_token"
#define HF_REG "embeddings.register_tokens"
#define HF_IN "encoder.layer.0.norm1.weight"
#define CLIP "vision_model.embeddings.patch_embedding.weight"
#define OPEN "visual.conv1.weight"
#define TIMM "patch_embed.proj.weight"
#define TORCH "conv_proj.weight"

#define CARD(type) "{\"model_type\": \"" type "\"}"
#define ARCH(name) "{\"architecture\": \"" name "\"}"

/* Holds a card against a file with tensors of these names, parted by blanks. open_clip: its own file. */
static vt_status hold(const char *card, const char *open_clip, const char *names, vt_warnings *warnings, vt_error *err)
{
    const size_t shape[1] = {8};
    char copy[256], *rest = NULL;
    vt_test_tensors list = {0};
    vt_shards *shards = NULL;
    vt_layout layout;
    size_t size;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        vt_test_tensors_add(&list, name, 1, shape, NULL);
    uint8_t *bytes = vt_test_tensors_write(&list, 0, &size);
    ck_assert_int_eq(vt_shards_open_memory(&shards, bytes, size, err), VT_OK);
    ck_assert_msg(vt_layout_find(&layout, shards, warnings, err) == VT_OK, "%s", err->msg);
    vt_config config = vt_test_config(card, NULL, open_clip);
    const vt_status status = vt_card_check(&config, &layout, shards, warnings, err);
    vt_config_free(&config);
    vt_shards_close(shards);
    vt_test_tensors_free(&list);
    free(bytes);
    return status;
}

static const char open_card[] = "{\"model_cfg\": {\"vision_cfg\": {\"layers\": 2, \"width\": 64}}}";

static const struct {
    const char *card, *open_clip, *names, *key, *tensor;
} foreign[] = {
    {CARD("deit"), NULL, "vit." HF, "model_type is \"deit\"", "\"vit." HF "\""},
    {CARD("vit"), NULL, "deit." HF, "model_type is \"vit\"", "\"deit." HF "\""},
    {CARD("dinov2"), NULL, "dinov2_with_registers." HF, "model_type is \"dinov2\"", "dinov2_with_registers." HF},
    {CARD("dinov2_with_registers"), NULL, "dinov2." HF, "model_type is \"dinov2_with_registers\"", "dinov2." HF},
    {CARD("dinov2"), NULL, "vit." HF, "model_type is \"dinov2\"", "vit." HF},
    {CARD("vit"), NULL, "module.dinov2." HF, "model_type is \"vit\"", "module.dinov2." HF},
    {CARD("vit"), NULL, HF " " HF_IN " " HF_LS, "model_type is \"vit\"", HF_LS},
    {CARD("vit"), NULL, HF " " HF_DIST, "model_type is \"vit\"", HF_DIST},
    {CARD("dinov2"), NULL, HF " " HF_LS " " HF_REG, "model_type is \"dinov2\"", HF_REG},
    {CARD("dinov2"), NULL, HF " " HF_IN, "model_type is \"dinov2\"", "holds no \"" HF_LS "\""},
    {CARD("deit"), NULL, HF, "model_type is \"deit\"", "holds no \"" HF_DIST "\""},
    {CARD("clip"), NULL, "vit." HF, "model_type is \"clip\"", "vit." HF},
    {CARD("vit"), NULL, CLIP, "model_type is \"vit\"", CLIP},
    {CARD("vit"), NULL, OPEN, "model_type is \"vit\"", OPEN},
    {CARD("vit"), NULL, TIMM, "model_type is \"vit\"", TIMM},
    {CARD("clip"), NULL, TIMM, "model_type is \"clip\"", TIMM},
    {CARD("vit"), NULL, TORCH, "model_type is \"vit\"", TORCH},
    {ARCH("vit_tiny"), NULL, "vit." HF, "architecture is \"vit_tiny\"", "vit." HF},
    {ARCH("vit_tiny"), NULL, CLIP, "architecture is \"vit_tiny\"", CLIP},
    {ARCH("vit_tiny"), NULL, OPEN, "architecture is \"vit_tiny\"", OPEN},
    {"{\"num_classes\": 3}", NULL, HF, "gives no model_type", HF},
    {NULL, open_card, TIMM, "open_clip_config.json is a card of open_clip", TIMM},
    {NULL, open_card, "vit." HF, "open_clip_config.json is a card of open_clip", "vit." HF},
};

START_TEST(cards_of_other_nets)
{
    vt_warnings warnings = {0};
    vt_error err = {0};
    const vt_status st = hold(foreign[_i].card, foreign[_i].open_clip, foreign[_i].names, &warnings, &err);
    ck_assert_msg(st == VT_E_BAD_MODEL, "%s: accepted", foreign[_i].names);
    ck_assert_msg(strstr(err.msg, foreign[_i].key) && strstr(err.msg, foreign[_i].tensor), "%s", err.msg);
    vt_warnings_free(&warnings);
}
END_TEST

static const struct {
    const char *card, *open_clip, *names, *remark; /* NULL: none */
} kin[] = {
    {CARD("vit"), NULL, "vit." HF, NULL},
    {CARD("vit"), NULL, HF " " HF_IN, NULL},
    {CARD("deit"), NULL, "deit." HF " deit." HF_DIST, NULL},
    {CARD("dinov2"), NULL, HF " " HF_LS, NULL},
    {CARD("dinov2_with_registers"), NULL, HF " " HF_LS " " HF_REG, NULL},
    {CARD("clip"), NULL, CLIP, NULL},
    {CARD("clip"), NULL, OPEN, "not the card that open_clip writes"},
    {NULL, open_card, OPEN, NULL},
    {NULL, open_card, CLIP, "not the card that CLIP in transformers writes"},
    {NULL, NULL, "vit." HF, NULL},
    {ARCH("vit_tiny"), NULL, TIMM, NULL},
    {ARCH("mine"), NULL, TORCH, NULL},
    {"{\"architecture\": \"vit_tiny\", \"model_type\": \"vit\"}", NULL, TIMM, NULL},
    {"{\"model_type\": \"vit\", \"architectures\": [\"DeiTForImageClassification\"]}", NULL, "vit." HF,
     "architectures names DeiTForImageClassification"},
    {ARCH("deit_tiny_distilled"), NULL, TIMM, "\"deit_tiny_distilled\", but the file holds no \"dist_token\""},
    {ARCH("vit_tiny"), NULL, TIMM " dist_token", "holds \"dist_token\""},
    {ARCH("vit_small_reg4"), NULL, TIMM, "holds no \"reg_token\""},
    {ARCH("deit3_small"), NULL, TIMM " blocks.0.norm1.weight", "holds no \"blocks.0.ls1.gamma\""},
    {ARCH("vit_base_r50_s16"), NULL, TIMM, "holds no patch_embed.backbone"},
    {ARCH("vit_base"), NULL, TIMM " patch_embed.backbone.conv.weight", "holds a patch_embed.backbone"},
    {ARCH("torchvision_vit"), NULL, TIMM, "names in the file are those of timm"},
};

/* The file in memory has a name of its own. */
static bool holds(const char *text, const char *part)
{
    char copy[512];
    snprintf(copy, sizeof copy, "%s", text);
    const char *the = strstr(part, "the file");
    if (!the)
        return strstr(copy, part) != NULL;
    char before[128];
    snprintf(before, sizeof before, "%.*s", (int)(the - part), part);
    const char *at = strstr(copy, before);
    return at && strstr(at, the + strlen("the file"));
}

START_TEST(cards_that_may_be_theirs)
{
    vt_warnings warnings = {0};
    vt_error err = {0};
    const vt_status st = hold(kin[_i].card, kin[_i].open_clip, kin[_i].names, &warnings, &err);
    ck_assert_msg(st == VT_OK, "%s", err.msg);
    ck_assert_msg(warnings.count == (kin[_i].remark ? 1 : 0), "%s: %zu remarks, %s", kin[_i].names, warnings.count,
                  warnings.count ? warnings.texts[0] : "");
    if (kin[_i].remark)
        ck_assert_msg(holds(warnings.texts[0], kin[_i].remark), "%s", warnings.texts[0]);
    vt_warnings_free(&warnings);
}
END_TEST

/* Whether a tiny net of timm's opens with this in its model_args and a remark that names the key and the tensor. */
static void must_remark(const vt_test_tiny_options *opt, const char *args, const char *key, const char *tensor)
{
    char card[512];
    vt_model *model = NULL;
    vt_error err = {0};
    vt_test_tensors list;
    size_t size;
    bool said = false;
    snprintf(card, sizeof card,
             "{\"global_pool\": \"token\", \"pretrained_cfg\": {\"input_size\": [3, 8, 8]}, \"model_args\": "
             "{\"num_heads\": 2%s%s}}",
             *args ? ", " : "", args);
    vt_test_tiny_tensors(&list, opt, NULL);
    uint8_t *bytes = vt_test_tensors_write(&list, 0, &size);
    ck_assert_msg(vt_model_open_memory(&model, bytes, size, card, NULL, "net", &err) == VT_OK, "%s: %s", args, err.msg);
    const char *remark;
    for (size_t k = 0; (remark = vt_model_warning(model, k)); k++)
        said = said || (key && strstr(remark, key) && strstr(remark, tensor) && strstr(remark, "count"));
    ck_assert_msg(said == (key != NULL), "%s: %s", args, key ? "no remark" : "a remark");
    if (!key)
        for (size_t k = 0; (remark = vt_model_warning(model, k)); k++)
            ck_assert_msg(!strstr(remark, "the tensors count"), "%s: %s", args, remark);
    vt_model_close(model);
    vt_test_tensors_free(&list);
    free(bytes);
}

START_TEST(parts_that_the_card_denies)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.grid_h = opt.grid_w = 2;
    must_remark(&opt, "\"qk_norm\": true", "model_args.qk_norm", "blocks.0.attn.q_norm.weight");
    must_remark(&opt, "\"init_values\": 1e-5", "model_args.init_values", "blocks.0.ls1.gamma");
    must_remark(&opt, "\"class_token\": false", "model_args.class_token", "\"cls_token\"");
    must_remark(&opt, "\"pre_norm\": true", "model_args.pre_norm", "norm_pre.weight");
    must_remark(&opt, "\"fc_norm\": true", "model_args.fc_norm", "fc_norm.weight");
    must_remark(&opt, "\"final_norm\": false", "model_args.final_norm", "norm.weight");
    must_remark(&opt, "\"no_embed_class\": true", "model_args.no_embed_class", "pos_embed");
    must_remark(&opt, "\"pos_embed\": \"none\"", "model_args.pos_embed", "\"pos_embed\"");
    must_remark(&opt, "\"qkv_bias\": false", "model_args.qkv_bias", "blocks.0.attn.qkv.bias");
    must_remark(&opt, "\"mlp_ratio\": 7", "model_args.mlp_ratio 7 means 56 rows", "blocks.0.mlp.fc1.weight");
    must_remark(&opt, "\"global_pool\": \"avg\"", "model_args.global_pool is avg", "global_pool is token");
    must_remark(&opt,
                "\"qk_norm\": false, \"init_values\": null, \"class_token\": true, \"pre_norm\": false, \"fc_norm\": "
                "false, \"final_norm\": true, \"no_embed_class\": false, \"pos_embed\": \"learn\", \"qkv_bias\": true",
                NULL, NULL);
    opt.qk_norm = opt.layer_scale = opt.norm_pre = true;
    must_remark(&opt, "\"qk_norm\": false", "model_args.qk_norm", "blocks.0.attn.q_norm.weight");
    must_remark(&opt, "\"init_values\": 0", "model_args.init_values", "blocks.0.ls1.gamma");
    must_remark(&opt, "\"pre_norm\": false", "model_args.pre_norm", "norm_pre.weight");
    must_remark(&opt, "\"qk_norm\": true, \"init_values\": 1e-5, \"pre_norm\": true", NULL, NULL);
}
END_TEST

VT_SUITE("card", tcase_add_loop_test(tc, cards_of_other_nets, 0, (int)VT_COUNT(foreign));
         tcase_add_loop_test(tc, cards_that_may_be_theirs, 0, (int)VT_COUNT(kin));
         tcase_add_test(tc, parts_that_the_card_denies))
