/* Opening models: the embedded one, folders, files, indexes of shards; ids, labels and fingerprints. */
#include "engine/model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"
#include "vitral/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64]; /* of one test, removed at its end */
static char path[256];

static const char *inside(const char *name)
{
    snprintf(path, sizeof path, "%s%s%s", folder, *name ? "/" : "", name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *f = fopen(inside(name), "wb");
    ck_assert_msg(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0, "%s cannot be written", path);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static void write_tiny(const char *name)
{
    size_t size;
    uint8_t *bytes = vt_test_tiny_model(NULL, &size);
    write_file(name, bytes, size);
    free(bytes);
}

static void write_tiny_vit(const char *name)
{
    size_t size;
    uint8_t *bytes = vt_test_tiny_vit(NULL, &size);
    write_file(name, bytes, size);
    free(bytes);
}

static void write_config(void)
{
    char *config = vt_test_tiny_config(NULL);
    write_text("config.json", config);
    free(config);
}

static void setup(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/vitral-model-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    static const char *const names[] = {
        "model.safetensors", "config.json",   "labels.txt", "other.safetensors",        "model.safetensors.index.json",
        "a.safetensors",     "b.safetensors", "model.bin",  "preprocessor_config.json", "open_clip_config.json"};
    for (size_t i = 0; i < VT_COUNT(names); i++)
        unlink(inside(names[i]));
    ck_assert_int_eq(rmdir(folder), 0);
}

static vt_model *must_open(const char *at, const char *id)
{
    vt_error err = {0};
    vt_model *model = NULL;
    ck_assert_msg(vt_model_open(&model, at, id, &err) == VT_OK, "%s", err.msg);
    return model;
}

static void must_refuse(const char *at, vt_status status, const char *names)
{
    vt_error err = {0};
    vt_model *model = NULL;
    const vt_status got = vt_model_open(&model, at, NULL, &err);
    ck_assert_msg(got == status, "%s: %s instead of %s", at, vt_status_name(got), vt_status_name(status));
    ck_assert_ptr_null(model);
    ck_assert_msg(strstr(err.msg, names) != NULL, "\"%s\" is not in: %s", names, err.msg);
    ck_assert_str_eq(err.param, "");
}

START_TEST(the_embedded_model)
{
    const int64_t begin = vt_now_ns();
    vt_model *model = must_open(NULL, NULL);
    const double ms = (double)(vt_now_ns() - begin) / 1e6;
    const vt_model_info *info = vt_model_get_info(model);
    ck_assert_str_eq(info->id, "default");
    ck_assert_str_eq(info->architecture, "vitral_default");
    ck_assert_str_eq(info->backend, "openblas");
    ck_assert(info->layers == 6 && info->heads == 3 && info->width == 192 && info->head_dim == 64);
    ck_assert(info->classes == 10 && info->tokens == 65 && info->prefix == 1 && info->grid_h == 8 &&
              info->patch_h == 4);
    ck_assert(vt_model_has_labels(model));
    ck_assert_str_eq(vt_model_label(model, 5), "dog");
    int index;
    ck_assert_int_eq(vt_model_find_class(model, "DOG", "class", &index, NULL), VT_OK);
    ck_assert_int_eq(index, 5);
    ck_assert_ptr_null(vt_model_warning(model, 0));
    ck_assert_msg(ms < 1000.0, "opening took %.0f ms",
                  ms); /* start to first answer has 0.3 s; sanitizers take their own */
    vt_model_close(model);
    model = must_open(NULL, "mine");
    ck_assert_str_eq(vt_model_get_info(model)->id, "mine");
    vt_model_close(model);
    vt_model_close(NULL);
}
END_TEST

START_TEST(a_folder_or_the_file_in_it)
{
    char name[64];
    setup();
    write_tiny("model.safetensors");
    write_config();
    write_text("labels.txt", "ant\nbee\ncat\n");
    snprintf(name, sizeof name, "%s", strrchr(folder, '/') + 1);
    static const char *const ways[] = {"", "model.safetensors", "/"};
    for (size_t i = 0; i < VT_COUNT(ways); i++) {
        vt_model *model = must_open(inside(ways[i]), NULL);
        ck_assert_str_eq(vt_model_get_info(model)->id, name);
        ck_assert_str_eq(vt_model_label(model, 1), "bee");
        vt_model_close(model);
    }
    char before[256];
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(folder), 0);
    static const char *const here[] = {".", "./", "model.safetensors", "./model.safetensors"};
    for (size_t i = 0; i < VT_COUNT(here); i++) {
        vt_model *model = must_open(here[i], NULL);
        ck_assert_str_eq(vt_model_get_info(model)->id, name);
        ck_assert(vt_model_has_labels(model));
        vt_model_close(model);
    }
    ck_assert_int_eq(chdir(before), 0);
    vt_model *model = must_open(folder, "chosen");
    ck_assert_str_eq(vt_model_get_info(model)->id, "chosen");
    vt_model_close(model);
    teardown();
}
END_TEST

START_TEST(what_is_not_there)
{
    setup();
    must_refuse(inside("nothing"), VT_E_NOT_FOUND, "No such file");
    must_refuse(folder, VT_E_NOT_FOUND, "holds no model.safetensors");
    write_text("model.bin", "x");
    must_refuse(folder, VT_E_BAD_MODEL, "model.bin");
    must_refuse(folder, VT_E_BAD_MODEL, "convert it to safetensors");
    write_tiny("other.safetensors");
    must_refuse(folder, VT_E_BAD_MODEL, "other.safetensors");
    write_config();
    vt_model_close(must_open(inside("other.safetensors"), NULL));
    ck_assert_int_eq(symlink("nowhere", inside("model.safetensors")), 0);
    must_refuse(folder, VT_E_NOT_FOUND, "model.safetensors cannot be opened");
    ck_assert_int_eq(mkdir(inside("labels.txt"), 0700), 0);
    must_refuse(inside("other.safetensors"), VT_E_BAD_MODEL, "labels.txt");
    ck_assert_int_eq(rmdir(inside("labels.txt")), 0);
    teardown();
}
END_TEST

START_TEST(what_a_folder_is_searched_for)
{
    static const char *const pickles[] = {"pytorch_model.bin", "deit.pth", "vit.pt", "vit.npz"};
    setup();
    for (size_t i = 0; i < VT_COUNT(pickles); i++) {
        write_text(pickles[i], "x");
        must_refuse(folder, VT_E_BAD_MODEL, pickles[i]);
        must_refuse(folder, VT_E_BAD_MODEL, "convert it to safetensors");
        ck_assert_int_eq(unlink(inside(pickles[i])), 0);
    }
    write_config();
    write_tiny("open_clip_model.safetensors");
    vt_model_close(must_open(folder, NULL));
    write_text("model.safetensors", ""); /* goes before open_clip's, even when it is broken */
    must_refuse(folder, VT_E_BAD_MODEL, "model.safetensors is empty");
    ck_assert_int_eq(unlink(inside("open_clip_model.safetensors")), 0);
    teardown();
}
END_TEST

START_TEST(labels_must_fit_the_head)
{
    setup();
    write_tiny("model.safetensors");
    write_config();
    write_text("labels.txt", "ant\nbee\n");
    must_refuse(folder, VT_E_BAD_MODEL, "labels.txt has 2 lines, but the model has 3 classes");
    write_text("labels.txt", "ant\n\nbee\n");
    must_refuse(folder, VT_E_BAD_MODEL, "labels.txt: line 2 is empty");
    write_text("labels.txt", "");
    must_refuse(folder, VT_E_BAD_MODEL, "labels.txt has 0 lines");
    teardown();
}
END_TEST

static const char *label_of_1(void)
{
    static char text[64];
    vt_model *model = must_open(folder, NULL);
    snprintf(text, sizeof text, "%s%s", vt_model_label(model, 1), vt_model_has_labels(model) ? "" : " (no name)");
    vt_model_close(model);
    return text;
}

/* labels.txt, else the names of the config, else the index. */
START_TEST(names_come_from_the_first_that_has_them)
{
    static const char card[] = "{\"model_type\": \"vit\", \"num_attention_heads\": 2, \"image_size\": 8,"
                               " \"id2label\": {\"2\": \"c\", \"0\": \"a\", \"1\": \"b\"}}";
    setup();
    write_tiny("model.safetensors");
    write_config();
    ck_assert_str_eq(label_of_1(), "1 (no name)");
    write_tiny_vit("model.safetensors");
    write_text("config.json", card);
    ck_assert_str_eq(label_of_1(), "b");
    write_text("labels.txt", "ant\nbee\ncat\n");
    ck_assert_str_eq(label_of_1(), "bee");
    ck_assert_int_eq(unlink(inside("labels.txt")), 0);
    write_text("config.json", "{\"model_type\": \"vit\", \"num_attention_heads\": 2, \"image_size\": 8,"
                              " \"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\", \"2\": \"LABEL_2\"}}");
    ck_assert_str_eq(label_of_1(), "1 (no name)");
    write_text("config.json", "{\"model_type\": \"vit\", \"num_attention_heads\": 2, \"image_size\": 8,"
                              " \"id2label\": {\"0\": \"a\", \"1\": \"b\"}}");
    must_refuse(folder, VT_E_BAD_MODEL, "id2label");
    write_text("config.json", card);
    write_text("preprocessor_config.json", "{\"resample\": 9}");
    must_refuse(folder, VT_E_BAD_MODEL, "preprocessor_config.json: resample");
    must_refuse(inside("model.safetensors"), VT_E_BAD_MODEL, "preprocessor_config.json: resample");
    teardown();
}
END_TEST

/* Ids go into JSON, headers and log lines, whatever the folder is called. */
START_TEST(ids_are_text)
{
    static const struct {
        const char *folder, *id;
    } cases[] = {{"bad\xff", "bad_"},
                 {"a\nb\x01", "a_b_"},
                 {"\xe6\x97\xa5\xc2\x85", "\xe6\x97\xa5__"},
                 {"cut\xe6\x97", "cut__"},
                 {"d\xc3\xa9j\xc3\xa0 \"vu\"", "d\xc3\xa9j\xc3\xa0 \"vu\""}};
    setup();
    write_tiny("model.safetensors");
    write_config();
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        char at[256];
        snprintf(at, sizeof at, "%.100s/%s", folder, cases[i].folder);
        ck_assert_int_eq(mkdir(at, 0700), 0);
        char from[400], to[400];
        const char *const files[] = {"model.safetensors", "config.json"};
        for (size_t k = 0; k < 2; k++) {
            snprintf(to, sizeof to, "%.256s/%s", at, files[k]);
            snprintf(from, sizeof from, "%s", inside(files[k]));
            ck_assert_int_eq(link(from, to), 0);
        }
        vt_model *model = must_open(at, NULL);
        ck_assert_str_eq(vt_model_get_info(model)->id, cases[i].id);
        vt_model_close(model);
        for (size_t k = 0; k < 2; k++) {
            snprintf(to, sizeof to, "%.256s/%s", at, files[k]);
            ck_assert_int_eq(unlink(to), 0);
        }
        ck_assert_int_eq(rmdir(at), 0);
    }
    teardown();
}
END_TEST

/* The tiny net in two files. */
static void write_shards(void)
{
    vt_test_tensors all, first = {0}, second = {0};
    size_t size;
    vt_test_tiny_tensors(&all, NULL, NULL);
    char index[8192];
    size_t at = (size_t)snprintf(index, sizeof index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (size_t i = 0; i < all.count; i++) {
        const vt_test_tensor *t = &all.items[i];
        vt_test_tensors_add(i % 3 ? &first : &second, t->name, t->ndim, t->shape, t->values);
        at += (size_t)snprintf(index + at, sizeof index - at, "%s\"%s\": \"%s.safetensors\"", i ? ", " : "", t->name,
                               i % 3 ? "a" : "b");
    }
    snprintf(index + at, sizeof index - at, "}}");
    const size_t one = 1;
    vt_test_tensors_add(&second, "unlisted", 1, &one, NULL);
    uint8_t *bytes = vt_test_tensors_write(&first, 0, &size);
    write_file("a.safetensors", bytes, size);
    free(bytes);
    bytes = vt_test_tensors_write(&second, 1, &size);
    write_file("b.safetensors", bytes, size);
    free(bytes);
    write_text("model.safetensors.index.json", index);
    vt_test_tensors_free(&all);
    vt_test_tensors_free(&first);
    vt_test_tensors_free(&second);
}

START_TEST(shards_are_one_model)
{
    setup();
    write_shards();
    write_config();
    uint8_t *bytes;
    vt_model *whole = vt_test_tiny_open(NULL, &bytes);
    static const char *const ways[] = {"", "model.safetensors.index.json"};
    for (size_t i = 0; i < VT_COUNT(ways); i++) {
        vt_model *model = must_open(inside(ways[i]), NULL);
        const vt_weights *a = vt_model_weights(model), *b = vt_model_weights(whole);
        ck_assert_mem_eq(a->patch_pos, b->patch_pos, 32 * sizeof(float));
        for (size_t l = 0; l < 3; l++) {
            ck_assert_mem_eq(a->blocks[l].qkv_w[0], b->blocks[l].qkv_w[0], 192 * sizeof(float));
            ck_assert_mem_eq(a->blocks[l].fc2_b, b->blocks[l].fc2_b, 8 * sizeof(float));
        }
        ck_assert_msg(strstr(vt_model_warning(model, 0), "unlisted") != NULL, "%s", vt_model_warning(model, 0));
        ck_assert_ptr_null(vt_model_warning(model, 1));
        struct stat one, two;
        ck_assert(stat(inside("a.safetensors"), &one) == 0 && stat(inside("b.safetensors"), &two) == 0);
        ck_assert_uint_eq(vt_model_get_info(model)->bytes, (uint64_t)(one.st_size + two.st_size));
        vt_model_close(model);
    }
    vt_model_close(whole);
    free(bytes);
    teardown();
}
END_TEST

START_TEST(an_index_may_not_leave_its_folder)
{
    static const struct {
        const char *index, *says;
    } bad[] = {{"{", "not valid JSON"},
               {"{}", "weight_map"},
               {"{\"weight_map\": {\"a\": 3}}", "\"a\""},
               {"{\"weight_map\": {\"a\": \"../a.safetensors\"}}", "../a.safetensors"},
               {"{\"weight_map\": {\"a\": \"/etc/a.safetensors\"}}", "/etc/a.safetensors"},
               {"{\"weight_map\": {\"a\": \"..\"}}", "\"..\""},
               {"{\"weight_map\": {\"a\": \"\"}}", "\"\""},
               {"{\"weight_map\": {\"a\": \".a.safetensors\"}}", ".a.safetensors"},
               {"{\"weight_map\": {\"a\": \"labels.txt\"}}", "labels.txt"},
               {"{\"weight_map\": {\"a\": \"c.safetensors\"}}", "c.safetensors, which is not there"},
               {"{\"weight_map\": {\"nobody\": \"a.safetensors\"}}", "\"nobody\""},
               {"{\"weight_map\": {}}", "patch_embed.proj.weight"}};
    setup();
    write_shards();
    write_config();
    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        write_text("model.safetensors.index.json", bad[i].index);
        must_refuse(folder, VT_E_BAD_MODEL, bad[i].says);
    }
    teardown();
}
END_TEST

static void fingerprint(uint8_t out[32])
{
    vt_model *model = must_open(folder, NULL);
    memcpy(out, vt_model_get_info(model)->fingerprint, 32);
    vt_model_close(model);
}

START_TEST(fingerprints_change_with_the_model)
{
    uint8_t prints[7][32];
    setup();
    write_tiny("model.safetensors");
    write_config();
    fingerprint(prints[0]);
    fingerprint(prints[1]);
    ck_assert_mem_eq(prints[0], prints[1], 32);
    write_text("labels.txt", "ant\nbee\ncat\n");
    fingerprint(prints[1]);
    write_text("labels.txt", "ant\nbee\ncow\n");
    fingerprint(prints[2]);
    char *config = vt_test_tiny_config(NULL);
    char longer[1100];
    snprintf(longer, sizeof longer, "%s ", config);
    write_text("config.json", longer);
    free(config);
    fingerprint(prints[3]);
    write_tiny("other.safetensors"); /* the same bytes in another file, put in place by renaming */
    char from[256];
    snprintf(from, sizeof from, "%s/other.safetensors", folder);
    ck_assert_int_eq(rename(from, inside("model.safetensors")), 0);
    fingerprint(prints[4]);
    write_text("preprocessor_config.json", "{}");
    fingerprint(prints[5]);
    write_text("open_clip_config.json", "{}");
    fingerprint(prints[6]);
    for (size_t a = 0; a < 7; a++)
        for (size_t b = a + 1; b < 7; b++)
            ck_assert_msg(memcmp(prints[a], prints[b], 32) != 0, "fingerprints %zu and %zu are equal", a, b);
    teardown();
}
END_TEST

START_TEST(fingerprints_of_bytes_see_other_weights)
{
    vt_test_tensors list;
    uint8_t *bytes[2], prints[2][32];
    char *config = vt_test_tiny_config(NULL);
    vt_test_tiny_tensors(&list, NULL, NULL);
    for (size_t k = 0; k < 2; k++) {
        size_t size;
        vt_error err = {0};
        vt_model *model = NULL;
        for (size_t i = 0; i < list.count; i++)
            list.items[i].values[0] += 0.5f * (float)k;
        for (size_t i = 0; i < vt_test_tensor_count(&list.items[2]); i++)
            list.items[2].values[i] += (float)k;
        bytes[k] = vt_test_tensors_write(&list, 0, &size);
        ck_assert_int_eq(vt_model_open_memory(&model, bytes[k], size, config, NULL, NULL, &err), VT_OK);
        ck_assert_str_eq(vt_model_get_info(model)->id, "memory");
        memcpy(prints[k], vt_model_get_info(model)->fingerprint, 32);
        vt_model_close(model);
        free(bytes[k]);
    }
    ck_assert_int_ne(memcmp(prints[0], prints[1], 32), 0);
    vt_test_tensors_free(&list);
    free(config);
}
END_TEST

VT_SUITE("model", tcase_add_test(tc, the_embedded_model); tcase_add_test(tc, a_folder_or_the_file_in_it);
         tcase_add_test(tc, what_is_not_there); tcase_add_test(tc, what_a_folder_is_searched_for);
         tcase_add_test(tc, labels_must_fit_the_head); tcase_add_test(tc, names_come_from_the_first_that_has_them);
         tcase_add_test(tc, ids_are_text); tcase_add_test(tc, shards_are_one_model);
         tcase_add_test(tc, an_index_may_not_leave_its_folder); tcase_add_test(tc, fingerprints_change_with_the_model);
         tcase_add_test(tc, fingerprints_of_bytes_see_other_weights))
