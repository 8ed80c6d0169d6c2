/* Whether the maps of the real ViT-Ti say what is in the picture: on both.png a bull mastiff (243) sits behind a tabby
 * (282). A map has its mass where the thing is, beyond what the thing's area alone would give it, and the map of the
 * other class has it elsewhere. The reference tensors say that the numbers are right; this says that the right numbers
 * mean something, from the bytes of the picture on, through the same call that the programs make. */
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL "models/vit_tiny_patch16_224"

enum { SIDE = 14, CELLS = SIDE * SIDE };
enum { GROUND, DOG, CAT, REGIONS };  /* of both.png; elsewhere 1 is the one thing */
enum { MASTIFF = 243, TABBY = 282 }; /* classes */

static vt_model *model;
static vt_arena *arena;
static vt_request *request;
static uint8_t *picture;

/* Runs a request on a picture of the shared images. */
static const vt_result *explain(const char *name, const vt_pair *pairs, size_t count)
{
    char path[256];
    const vt_result *result;
    vt_error err = {0};
    size_t size;
    snprintf(path, sizeof path, "images/%s", name);
    picture = vt_test_read(vt_shared(path), &size);
    ck_assert_msg(picture != NULL, "%s cannot be read", path);
    vt_set_blas_threads(1);
    ck_assert_msg(vt_test_open(&model, vt_shared(MODEL), NULL, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_request_open(&request, model, NULL, pairs, count, 0, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(request, 4000000), NULL), VT_OK);
    ck_assert_msg(vt_run(request, picture, size, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    return result;
}

static void done(void)
{
    vt_arena_close(arena);
    vt_request_close(request);
    vt_model_close(model);
    free(picture);
}

/* What a map says about the labelled regions. */
typedef struct shares {
    double mass[REGIONS], area[REGIONS]; /* each sums to 1 */
} shares;

static shares shares_of(const vt_map *map, const float *labels)
{
    shares s = {0};
    double sum = 0.0;
    ck_assert_uint_eq(map->h * map->w, CELLS);
    for (size_t p = 0; p < CELLS; p++) {
        const size_t region = (size_t)labels[p];
        ck_assert(region < REGIONS && map->values[p] >= 0.0f);
        s.mass[region] += (double)map->values[p];
        s.area[region] += 1.0 / CELLS;
        sum += (double)map->values[p];
    }
    ck_assert_msg(sum > 0.0, "%s: an empty map", map->method->name);
    for (size_t r = 0; r < REGIONS; r++)
        s.mass[r] /= sum;
    return s;
}

/* (CELLS): 0 background, 1 dog, 2 cat; malloc'ed */
static float *labels_of(const char *file_name)
{
    vt_st_file *file = vt_golden_open(file_name);
    const vt_st_tensor *tensor = vt_st_find(file, "labels.grid");
    ck_assert_ptr_nonnull(tensor);
    ck_assert(strcmp(tensor->dtype, "U8") == 0 && tensor->count == CELLS);
    float *labels = malloc(CELLS * sizeof *labels);
    ck_assert_ptr_nonnull(labels);
    for (size_t p = 0; p < CELLS; p++)
        labels[p] = (float)tensor->data[p];
    vt_st_close(file);
    return labels;
}

static void print_shares(const char *what, const shares *s)
{
    printf("picture %s: dog %.3f of the mass on %.3f of the area, cat %.3f on %.3f, background %.3f on %.3f\n", what,
           s->mass[DOG], s->area[DOG], s->mass[CAT], s->area[CAT], s->mass[GROUND], s->area[GROUND]);
    fflush(stdout);
}

/* 243 lights the dog and 282 the cat: density in the right thing above density in the other and above 1. */
static const char *const class_settings[][2] = {
    {"0.9", "none"}, {"0", "none"}, {"0.5", "none"}, {"0.9", "vit_explain"}};

START_TEST(each_class_lights_its_own_animal)
{
    const vt_pair pairs[] = {{"method", "grad_rollout"},
                             {"class", "243,282"},
                             {"discard_ratio", class_settings[_i][0]},
                             {"compat", class_settings[_i][1]}};
    SKIP_UNLESS("golden/vit_tiny/both.safetensors");
    SKIP_UNLESS(MODEL "/model.safetensors");
    float *labels = labels_of("golden/vit_tiny/both.safetensors");
    const vt_result *result = explain("both.png", pairs, VT_COUNT(pairs));
    ck_assert_uint_eq(result->maps_count, 2);
    const shares dog = shares_of(&result->maps[0], labels), cat = shares_of(&result->maps[1], labels);
    ck_assert(result->maps[0].target.index == MASTIFF && result->maps[1].target.index == TABBY);
    char what[64];
    snprintf(what, sizeof what, "grad_rollout %s %s 243", class_settings[_i][0], class_settings[_i][1]);
    print_shares(what, &dog);
    snprintf(what, sizeof what, "grad_rollout %s %s 282", class_settings[_i][0], class_settings[_i][1]);
    print_shares(what, &cat);
    ck_assert_msg(dog.mass[DOG] > dog.mass[CAT], "243: %.3f in the dog, %.3f in the cat", dog.mass[DOG], dog.mass[CAT]);
    ck_assert_msg(dog.mass[DOG] > dog.area[DOG], "243: %.3f of the mass on %.3f of the area", dog.mass[DOG],
                  dog.area[DOG]);
    ck_assert_msg(cat.mass[CAT] > cat.mass[DOG], "282: %.3f in the cat, %.3f in the dog", cat.mass[CAT], cat.mass[DOG]);
    ck_assert_msg(cat.mass[CAT] > cat.area[CAT], "282: %.3f of the mass on %.3f of the area", cat.mass[CAT],
                  cat.area[CAT]);
    /* and each class more than the other one does */
    ck_assert(dog.mass[DOG] > cat.mass[DOG] && cat.mass[CAT] > dog.mass[CAT]);
    free(labels);
    done();
}
END_TEST

/* Methods that know no class: the two animals rather than the room. */
START_TEST(without_a_class_the_animals_stand_out)
{
    static const char *const methods[] = {"rollout", "raw_attention", "cls_attention"};
    const vt_pair pairs[] = {{"method", methods[_i]}, {"layer", "-1"}, {"head", "mean"}};
    SKIP_UNLESS("golden/vit_tiny/both.safetensors");
    SKIP_UNLESS(MODEL "/model.safetensors");
    float *labels = labels_of("golden/vit_tiny/both.safetensors");
    const vt_result *result = explain("both.png", pairs, _i == 0 ? 1 : VT_COUNT(pairs));
    ck_assert_uint_eq(result->maps_count, 1);
    const shares s = shares_of(&result->maps[0], labels);
    print_shares(methods[_i], &s);
    ck_assert_msg(s.mass[DOG] + s.mass[CAT] > s.area[DOG] + s.area[CAT],
                  "%s: %.3f of the mass in the animals, %.3f of the area", methods[_i], s.mass[DOG] + s.mass[CAT],
                  s.area[DOG] + s.area[CAT]);
    free(labels);
    done();
}
END_TEST

/* The one thing in the other pictures, for its own class. */
static const struct {
    const char *name, *file, *target;
} single[] = {{"plane.png", "golden/vit_tiny/plane.safetensors", "404"},
              {"tabby.jpg", "golden/vit_tiny/tabby.safetensors", "285"},
              {"bull_mastiff.jpg", "golden/vit_tiny/bull_mastiff.safetensors", "243"}};

START_TEST(the_one_thing_is_lit)
{
    const vt_pair pairs[] = {{"method", "grad_rollout"}, {"class", single[_i].target}};
    SKIP_UNLESS(MODEL "/model.safetensors");
    SKIP_UNLESS(single[_i].file);
    float *labels = labels_of(single[_i].file);
    const vt_result *result = explain(single[_i].name, pairs, VT_COUNT(pairs));
    const shares s = shares_of(&result->maps[0], labels);
    printf("picture %s: its thing has %.3f of the mass on %.3f of the area\n", single[_i].name, s.mass[DOG],
           s.area[DOG]);
    fflush(stdout);
    ck_assert_msg(s.area[DOG] > 0.0 && s.mass[DOG] > s.area[DOG], "%s: %.3f of the mass on %.3f of the area",
                  single[_i].name, s.mass[DOG], s.area[DOG]);
    free(labels);
    done();
}
END_TEST

/* What the model sees first in pictures of known content. */
static const struct {
    const char *name, *label;
    int top;
} known[] = {{"bull_mastiff.jpg", "bull mastiff", MASTIFF},
             {"tabby.jpg", "Egyptian cat", 285},
             {"plane.png", "airliner", 404},
             {"mountain_bike.jpg", "mountain bike", 671}};

START_TEST(what_is_predicted)
{
    static const vt_pair pair = {"method", "rollout"};
    char path[64];
    snprintf(path, sizeof path, "images/%s", known[_i].name);
    SKIP_UNLESS(MODEL "/model.safetensors");
    SKIP_UNLESS(path);
    const vt_result *result = explain(known[_i].name, &pair, 1);
    const vt_prediction *best = result->predictions;
    printf("picture %s: %d %s, p = %.3f\n", known[_i].name, best->index, best->label, best->probability);
    fflush(stdout);
    ck_assert_msg(best->index == known[_i].top, "%s is predicted %d %s", known[_i].name, best->index, best->label);
    ck_assert_msg(strncmp(best->label, known[_i].label, strlen(known[_i].label)) == 0, "class %d is called %s",
                  best->index, best->label);
    done();
}
END_TEST

/* The corner patches of this model have norms of 20 to 31 times the median and draw attention that says nothing about the
 * picture: the last layer's class attention is warned about, a map that lights the dog is not. */
static const char *const with_corners[] = {"both.png", "plane.png", "tabby.jpg", "bull_mastiff.jpg"};

static size_t artefact_warnings(const vt_result *result)
{
    size_t n = 0;
    for (size_t k = 0; k < result->warnings_count; k++)
        n += strcmp(result->warnings[k].code, "high_norm_tokens") == 0;
    return n;
}

START_TEST(register_artefacts_are_warned_about)
{
    static const vt_pair raw = {"method", "raw_attention"};
    static const vt_pair grad[] = {{"method", "grad_rollout"}, {"class", "top1"}};
    char path[64];
    snprintf(path, sizeof path, "images/%s", with_corners[_i]);
    SKIP_UNLESS(MODEL "/model.safetensors");
    SKIP_UNLESS(path);
    ck_assert_uint_eq(artefact_warnings(explain(with_corners[_i], &raw, 1)), 1);
    done();
    ck_assert_uint_eq(artefact_warnings(explain(with_corners[_i], grad, 2)), 0);
    done();
}
END_TEST

VT_SUITE("pictures", tcase_add_loop_test(tc, each_class_lights_its_own_animal, 0, (int)VT_COUNT(class_settings));
         tcase_add_loop_test(tc, without_a_class_the_animals_stand_out, 0, 3);
         tcase_add_loop_test(tc, the_one_thing_is_lit, 0, (int)VT_COUNT(single));
         tcase_add_loop_test(tc, what_is_predicted, 0, (int)VT_COUNT(known));
         tcase_add_loop_test(tc, register_artefacts_are_warned_about, 0, (int)VT_COUNT(with_corners)))
