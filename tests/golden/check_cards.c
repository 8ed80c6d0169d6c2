/* The tensors of every folder of shared models/formats under the card of every other: refused where they are of another
 * library or family, and otherwise measured so that a prediction stays inside its buffers (with the sanitizers that is
 * more than a figure of speech). */
#include "engine/model/opened.h"
#include "tests/support/folders.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int folders;

/* What the folders' names say of their tensors. torchvision and originals have cards in timm's manner. */
static const char *family(const char *folder)
{
    static const char *const names[] = {"hf_dinov2_reg", "hf_dinov2", "hf_deit", "hf_vit", "hf_clip", "open_clip"};
    for (size_t i = 0; i < VT_COUNT(names); i++)
        if (strncmp(folder, names[i], strlen(names[i])) == 0)
            return i < 4 ? names[i] : "clip";
    return "timm";
}

static bool is_card(const char *name)
{
    static const char *const names[] = {"config.json", "preprocessor_config.json", "open_clip_config.json",
                                        "labels.txt"};
    for (size_t i = 0; i < VT_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Links the cards of a folder, or all but them and what the tests bring. */
static void link_files(const char *to, int k, bool cards)
{
    char from[1024], at[1024], real[4096];
    snprintf(from, sizeof from, "%s", vt_shared(vt_test_in_folder(k, "")));
    DIR *dir = opendir(from);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (name[0] == '.' || is_card(name) != cards || strcmp(name, "expected.safetensors") == 0 ||
            strcmp(name, "image.png") == 0)
            continue;
        snprintf(at, sizeof at, "%.700s/%.200s", from, name);
        ck_assert_ptr_nonnull(realpath(at, real));
        snprintf(at, sizeof at, "%s/%.200s", to, name);
        ck_assert_int_eq(symlink(real, at), 0);
    }
    closedir(dir);
}

static void remove_folder(const char *path)
{
    char at[1024];
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        snprintf(at, sizeof at, "%s/%.200s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            ck_assert_int_eq(unlink(at), 0);
    }
    closedir(dir);
    ck_assert_int_eq(rmdir(path), 0);
}

static void predict(const vt_model *model, const char *pair)
{
    const vt_model_info *info = vt_model_get_info(model);
    const vt_pair texts = {"texts", "a cat|a dog"};
    const vt_result *result;
    vt_request *rq;
    vt_arena *arena;
    vt_error err = {0};
    float *input = calloc(3 * info->image_h * info->image_w, sizeof *input);
    ck_assert_ptr_nonnull(input);
    vt_test_fill(input, 3 * info->image_h * info->image_w, 7);
    ck_assert_msg(vt_request_open(&rq, model, NULL, &texts, info->has_texts ? 1 : 0, VT_REQUEST_PREDICT, &err) == VT_OK,
                  "%s: %s", pair, err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), NULL), VT_OK);
    ck_assert_msg(vt_run_input(rq, input, arena, NULL, &result, &err) == VT_OK, "%s: %s", pair, err.msg);
    vt_arena_close(arena);
    vt_request_close(rq);
    free(input);
}

static void check_sizes(const vt_model *model, const char *pair)
{
    const vt_model_info *i = vt_model_get_info(model);
    const size_t pooled = i->pool == VT_POOL_TOKEN_AVG ? 2 * i->width : i->width;
    ck_assert_msg(i->heads * i->head_dim == i->width, "%s: heads", pair);
    ck_assert_msg(i->features == (i->joint ? i->joint : pooled), "%s: features", pair);
    ck_assert_msg(i->tokens == i->prefix + i->grid_h * i->grid_w, "%s: tokens", pair);
    ck_assert_msg(i->image_h == i->grid_h * i->patch_h && i->image_w == i->grid_w * i->patch_w, "%s: grid", pair);
}

START_TEST(no_card_lends_itself_to_another_net)
{
    size_t opened = 0, refused = 0;
    SKIP_UNLESS("models/formats/README.md");
    for (int card = 0; card < folders; card++) {
        char folder[] = "/tmp/vitral_cards_XXXXXX", pair[160];
        vt_model *model = NULL;
        vt_error err = {0};
        ck_assert_ptr_nonnull(mkdtemp(folder));
        link_files(folder, _i, false);
        link_files(folder, card, true);
        snprintf(pair, sizeof pair, "%s with the card of %s", vt_test_folder(_i), vt_test_folder(card));
        const vt_status st = vt_model_open(&model, folder, NULL, &err);
        ck_assert_msg(st == VT_OK || (st == VT_E_BAD_MODEL && err.msg[0]), "%s: %s", pair, err.msg);
        const bool kin = strcmp(family(vt_test_folder(_i)), family(vt_test_folder(card))) == 0;
        ck_assert_msg(kin || st != VT_OK, "%s: accepted", pair);
        ck_assert_msg(card != _i || st == VT_OK, "%s: %s", pair, err.msg);
        if (st == VT_OK) {
            check_sizes(model, pair);
            if (model->info.classes || model->info.has_texts)
                predict(model, pair);
        }
        opened += st == VT_OK;
        refused += st != VT_OK;
        vt_model_close(model);
        remove_folder(folder);
    }
    printf("%s: %zu cards open it, %zu do not\n", vt_test_folder(_i), opened, refused);
    ck_assert(opened >= 1 && refused >= 1);
}
END_TEST

VT_SUITE("cards", folders = vt_test_folders("models/formats");
         tcase_add_loop_test(tc, no_card_lends_itself_to_another_net, 0, folders))
