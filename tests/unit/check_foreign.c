/* Nets that are no plain ViT: refused with what they are, by their name and by their tensors; and names of plain ones,
 * which must pass. */
#include "engine/model/foreign.h"
#include "engine/model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *what;
} foreign[] = {
    {"swin_tiny_patch4_window7_224", "Swin"},
    {"swinv2_base_window8_256", "Swin"},
    {"SwinForImageClassification", "Swin"},
    {"pvt_v2_b2", "PVT"},
    {"PvtForImageClassification", "PVT"},
    {"convnext_tiny", "ConvNeXt"},
    {"ConvNextV2ForImageClassification", "ConvNeXt"},
    {"beit_base_patch16_224", "BEiT"},
    {"beitv2_base_patch16_224", "BEiT"},
    {"data2vec-vision", "data2vec"},
    {"cait_xxs24_224", "CaiT"},
    {"eva02_tiny_patch14_224", "EVA"},
    {"eva_giant_patch14_224", "EVA"},
    {"maxvit_tiny_tf_224", "MaxViT"},
    {"maxxvitv2_nano_rw_256", "MaxViT"},
    {"samvit_base_patch16", "SAM"},
    {"sam", "SAM"},
    {"SamModel", "SAM"},
    {"detr", "DETR"},
    {"DetrForObjectDetection", "DETR"},
    {"yolos", "YOLOS"},
    {"vit_small_patch16_dinov3", "DINOv3"},
    {"dinov3_vit", "DINOv3"},
    {"DINOv3ViTModel", "DINOv3"},
    {"vit_base_patch16_rope_224", "rotary"},
    {"vit_relpos_small_patch16_224", "relative"},
    {"coatnet_0_rw_224", "CoAtNet"},
    {"resnet50", "ResNet"},
    {"resnext50_32x4d", "ResNet"},
    {"efficientnet_b0", "EfficientNet"},
    {"mixer_b16_224", "Mixer"},
    {"levit_128", "LeViT"},
    {"mobilevit_s", "MobileViT"},
    {"videomae", "VideoMAE"},
    {"siglip", "SigLIP"},
};

static const char *const plain[] = {
    "vit_tiny_patch16_224",
    "vit_base_patch16_224.augreg_in21k",
    "vit_base_r50_s16_224",
    "vit_tiny_r_s16_p8_224",
    "vit_base_patch16_clip_quickgelu_224",
    "vit_small_patch14_reg4_dinov2",
    "vit_giant_patch14_dinov2",
    "vit_medium_patch16_gap_240",
    "vit_base_patch16_siglip_gap_224",
    "deit_tiny_distilled_patch16_224",
    "deit3_small_patch16_224",
    "flexivit_small",
    "dinov2_vitg14_reg",
    "vit",
    "deit",
    "dinov2",
    "dinov2_with_registers",
    "clip",
    "vit_msn",
    "ViTForImageClassification",
    "DeiTForImageClassificationWithTeacher",
    "Dinov2WithRegistersForImageClassification",
    "CLIPModel",
    "torchvision_vit",
    "tiny_test",
    "same_as_before", /* no SAM */
    "",
};

START_TEST(by_name)
{
    const char *what = vt_foreign_name(foreign[_i].name);
    ck_assert_msg(what && strstr(what, foreign[_i].what), "%s: %s", foreign[_i].name, what ? what : "passes");
    ck_assert_msg(strlen(what) > 25, "%s: no reason", foreign[_i].name);
}
END_TEST

START_TEST(plain_names_pass)
{
    ck_assert_msg(!vt_foreign_name(plain[_i]), "%s: %s", plain[_i], vt_foreign_name(plain[_i]));
}
END_TEST

/* The tiny net with a card or a tensor of another. */
static void refuse(const char *config, const char *tensor, const char *names, const char *more)
{
    vt_test_tensors list;
    vt_model *model = NULL;
    vt_error err = {0};
    size_t size;
    const size_t shape[2] = {8, 8};
    vt_test_tiny_tensors(&list, NULL, NULL);
    if (tensor)
        vt_test_tensors_add(&list, tensor, 2, shape, NULL);
    uint8_t *bytes = vt_test_tensors_write(&list, 0, &size);
    char *own = vt_test_tiny_config(NULL);
    const vt_status status = vt_model_open_memory(&model, bytes, size, config ? config : own, NULL, "net", &err);
    ck_assert_msg(status == VT_E_BAD_MODEL && !model, "%s: accepted", names);
    ck_assert_msg(strstr(err.msg, names) && strstr(err.msg, more) && strstr(err.msg, "not read"), "%s", err.msg);
    free(own);
    free(bytes);
    vt_test_tensors_free(&list);
}

START_TEST(a_card_of_another_net)
{
    refuse("{\"architecture\": \"pvt_v2_b1\"}", NULL, "pvt_v2_b1", "PVT");
    refuse("{\"model_type\": \"beit\"}", NULL, "model_type", "BEiT");
    refuse("{\"model_type\": \"mine\", \"architectures\": [\"ConvNextModel\"]}", NULL, "architectures", "ConvNeXt");
}
END_TEST

START_TEST(a_tensor_of_another_net)
{
    static const struct {
        const char *tensor, *what;
    } cases[] = {{"blocks.0.attn.relative_position_bias_table", "Swin or BEiT"},
                 {"layers.1.downsample.reduction.weight", "Swin"},
                 {"patch_embed1.proj.weight", "PVT"},
                 {"blocks.0.attn.rel_pos_h", "SAM"},
                 {"rope.freqs", "EVA"},
                 {"blocks.1.attn.q_proj.weight", "EVA"},
                 {"blocks.1.attn.q_bias", "BEiT"},
                 {"blocks_token_only.0.norm1.weight", "CaiT"},
                 {"blocks.0.attns.0.qkv.weight", "parallel"},
                 {"attn_pool.latent", "pooling"},
                 {"vision_model.head.probe", "SigLIP"},
                 {"visual.layer1.0.conv1.weight", "ResNet"},
                 {"visual.trunk.norm.weight", "timm"},
                 {"pre_logits.fc.weight", "hidden layer"},
                 {"stages.0.blocks.0.conv_dw.weight", "ConvNeXt"},
                 {"bn1.running_mean", "convolution"}};
    for (size_t i = 0; i < VT_COUNT(cases); i++)
        refuse(NULL, cases[i].tensor, cases[i].tensor, cases[i].what);
}
END_TEST

/* Parts of names count from a dot only: CLIP's self_attn.q_proj is not EVA's attn.q_proj, and a rope may hang anywhere. */
START_TEST(parts_of_words_do_not_count)
{
    vt_test_tensors list;
    vt_model *model = NULL;
    vt_error err = {0};
    size_t size;
    const size_t shape[1] = {8};
    vt_test_tiny_tensors(&list, NULL, NULL);
    vt_test_tensors_add(&list, "head.skipping_rope.weight", 1, shape, NULL);
    vt_test_tensors_add(&list, "other.self_attn.q_proj.weight", 1, shape, NULL);
    uint8_t *bytes = vt_test_tensors_write(&list, 0, &size);
    char *config = vt_test_tiny_config(NULL);
    ck_assert_msg(vt_model_open_memory(&model, bytes, size, config, NULL, "net", &err) == VT_OK, "%s", err.msg);
    vt_model_close(model);
    free(config);
    free(bytes);
    vt_test_tensors_free(&list);
}
END_TEST

VT_SUITE("foreign", tcase_add_loop_test(tc, by_name, 0, VT_COUNT(foreign));
         tcase_add_loop_test(tc, plain_names_pass, 0, VT_COUNT(plain)); tcase_add_test(tc, a_card_of_another_net);
         tcase_add_test(tc, a_tensor_of_another_net); tcase_add_test(tc, parts_of_words_do_not_count))
