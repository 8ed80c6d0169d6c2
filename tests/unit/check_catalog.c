/* Catalogues: every row of both registries, with types that a form can be built from. */
#include "server/wire/wire.h"
#include "tests/support/suite.h"
#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/inspect.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const vt_model_info info = {.id = "made",
                                   .architecture = "made",
                                   .image_h = 224,
                                   .image_w = 224,
                                   .patch_h = 16,
                                   .patch_w = 16,
                                   .grid_h = 14,
                                   .grid_w = 14,
                                   .prefix = 1,
                                   .tokens = 197,
                                   .has_class_token = true,
                                   .layers = 12,
                                   .heads = 3,
                                   .width = 192,
                                   .head_dim = 64,
                                   .mlp_width = 768,
                                   .classes = 1000};

static vt_model *embedded(void)
{
    vt_model *model = NULL;
    vt_error err = {0};
    ck_assert_msg(vt_model_open(&model, NULL, NULL, &err) == VT_OK, "%s", err.msg);
    return model;
}

static json_t *parsed(char *text, size_t size)
{
    json_error_t why;
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(size, strlen(text));
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(j != NULL, "%s in %s", why.text, text);
    free(text);
    return j;
}

static const char *text_of(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    ck_assert_msg(s && *s, "no text \"%s\"", key);
    return s;
}

static void check_params(const char *owner, const json_t *list, const vt_param *rows, size_t count)
{
    ck_assert_uint_eq(json_array_size(list), count);
    for (size_t k = 0; k < count; k++) {
        const json_t *p = json_array_get(list, k), *def = json_object_get(p, "default");
        const char *name = text_of(p, "name"), *type = text_of(p, "type");
        ck_assert_str_eq(name, rows[k].name);
        ck_assert_str_eq(text_of(p, "help"), rows[k].help);
        ck_assert_msg(text_of(p, "allowed") != NULL, "%s.%s", owner, name);
        ck_assert_msg(def != NULL, "%s.%s has no default", owner, name);
        if (strcmp(type, "bool") == 0)
            ck_assert_msg(json_is_boolean(def), "%s.%s", owner, name);
        if (strcmp(type, "enum") == 0) {
            const json_t *choices = json_object_get(p, "choices");
            bool found = json_is_null(def);
            ck_assert_msg(json_array_size(choices) > 0, "%s.%s has no choices", owner, name);
            for (size_t i = 0; i < json_array_size(choices); i++)
                found = found || json_equal(json_array_get(choices, i), def);
            ck_assert_msg(found, "%s.%s: the default is no choice", owner, name);
        }
        if (json_is_number(def) && json_is_number(json_object_get(p, "min")))
            ck_assert_msg(json_number_value(def) >= json_number_value(json_object_get(p, "min")) &&
                              json_number_value(def) <= json_number_value(json_object_get(p, "max")),
                          "%s.%s: the default is out of range", owner, name);
        if (rows[k].bound != VT_BOUND_FIXED)
            ck_assert_msg(json_is_null(json_object_get(p, "min")) && json_is_null(json_object_get(p, "max")), "%s.%s",
                          owner, name);
    }
}

START_TEST(methods_are_the_registry)
{
    size_t size = 0;
    vt_model *model = embedded();
    char *text = vts_json_methods(model, &size);
    json_t *j = parsed(text, size);
    ck_assert_uint_eq(json_array_size(j), vt_explainer_count());
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        const json_t *o = json_array_get(j, k);
        ck_assert_str_eq(text_of(o, "name"), m->name);
        text_of(o, "title"), text_of(o, "summary"), text_of(o, "source");
        ck_assert_str_eq(text_of(o, "family"), vt_family_name(m->family));
        /* null where this model cannot serve the method: here what wants a CLIP */
        const json_t *cost = json_object_get(o, "cost");
        ck_assert_msg(json_is_null(cost) ? m->family == VT_FAMILY_CONCEPT : json_number_value(cost) >= 1.0,
                      "cost of %s", m->name);
        double stated = (double)NAN;
        size_t bytes;
        ck_assert_int_eq(vt_method_price(model, m, &stated, &bytes, NULL),
                         json_is_null(cost) ? VT_E_UNSUPPORTED : VT_OK);
        ck_assert(json_is_null(cost) ||
                  fabs(json_number_value(cost) - stated) < 1e-6 * stated); /* as `vitral inspect` has it */
        if (strcmp(m->name, "rollout") == 0)
            ck_assert_double_eq(json_number_value(cost), 1.0); /* of the forward that there is anyway */
        ck_assert_int_eq(json_is_true(json_object_get(o, "class_specific")),
                         (m->yields & VT_YIELDS_CLASS_SPECIFIC) != 0);
        ck_assert_int_eq(json_is_true(json_object_get(o, "signed")), (m->yields & VT_YIELDS_SIGNED) != 0);
        ck_assert_int_eq(json_is_false(json_object_get(o, "needs_image")), (m->yields & VT_YIELDS_NO_IMAGE) != 0);
        check_params(m->name, json_object_get(o, "params"), m->params, m->params_count);
    }
    json_decref(j);
    vt_model_close(model);
}
END_TEST

/* What methods.md section 24 says of two of them. */
START_TEST(defaults_as_in_the_reference)
{
    size_t size = 0, k;
    vt_model *model = embedded();
    char *text = vts_json_methods(model, &size);
    json_t *j = parsed(text, size), *o, *p;
    int seen = 0;
    json_array_foreach(j, k, o)
    {
        const bool rollout = strcmp(text_of(o, "name"), "rollout") == 0;
        size_t i;
        if (!rollout && strcmp(text_of(o, "name"), "grad_rollout") != 0)
            continue;
        ck_assert_int_eq(json_is_true(json_object_get(o, "class_specific")), !rollout);
        json_array_foreach(json_object_get(o, "params"), i, p)
        {
            if (strcmp(text_of(p, "name"), "discard_ratio") == 0) {
                ck_assert_double_eq(json_real_value(json_object_get(p, "default")), rollout ? 0.0 : 0.9);
                ck_assert_str_eq(text_of(p, "type"), "float");
                seen++;
            } else if (strcmp(text_of(p, "name"), "head_fusion") == 0) {
                ck_assert_str_eq(text_of(p, "default"), "mean");
                ck_assert_uint_eq(json_array_size(json_object_get(p, "choices")), 3);
                seen++;
            }
        }
    }
    ck_assert_int_eq(seen, 4);
    json_decref(j);
    vt_model_close(model);
}
END_TEST

START_TEST(metrics_are_the_registry)
{
    size_t size = 0;
    char *text = vts_json_metrics_list(&info, &size);
    json_t *j = parsed(text, size);
    bool entropy = false;
    ck_assert_uint_eq(json_array_size(j), vt_metric_count());
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *m = vt_metric_at(k);
        const json_t *o = json_array_get(j, k);
        ck_assert_str_eq(text_of(o, "name"), m->name);
        text_of(o, "title"), text_of(o, "summary"), text_of(o, "source");
        ck_assert_str_eq(text_of(o, "better"), m->flags & VT_METRIC_HIGHER_BETTER ? "higher" : "lower");
        ck_assert(json_is_number(json_object_get(o, "cost")));
        check_params(m->name, json_object_get(o, "params"), m->params, m->params_count);
        entropy = entropy || strcmp(m->name, "entropy") == 0;
    }
    ck_assert(entropy);
    json_decref(j);
}
END_TEST

START_TEST(models_have_every_member)
{
    static const char *const keys[] = {"id",         "default",    "architecture", "image_size", "patch",
                                       "layers",     "heads",      "width",        "prefix",     "classes",
                                       "activation", "preprocess", "bytes",        "backend",    "bf16"};
    vt_model *model = embedded();
    const vt_model *two[2] = {model, model};
    size_t size = 0;
    char *text = vts_json_models(two, 2, 1, &size);
    json_t *j = parsed(text, size), *o = json_array_get(j, 0);
    ck_assert_uint_eq(json_array_size(j), 2);
    for (size_t k = 0; k < VT_COUNT(keys); k++)
        ck_assert_msg(json_object_get(o, keys[k]) && !json_is_null(json_object_get(o, keys[k])), "%s", keys[k]);
    ck_assert_uint_eq(json_object_size(o), VT_COUNT(keys));
    ck_assert(json_is_false(json_object_get(o, "default")));
    ck_assert(json_is_true(json_object_get(json_array_get(j, 1), "default")));
    ck_assert_str_eq(text_of(o, "id"), "default");
    ck_assert_int_eq(json_integer_value(json_object_get(o, "layers")), 6);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(o, "image_size"), 0)), 32);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(o, "patch"), 1)), 4);
    json_decref(j);
    vt_model_close(model);
}
END_TEST

static void labels(const vt_model *model, const char *q, size_t limit, const char *expect)
{
    size_t size = 0, k;
    char seen[256] = "", *text = vts_json_labels(model, q, limit, &size);
    json_t *j = parsed(text, size), *o;
    json_array_foreach(j, k, o)
    {
        char one[64];
        snprintf(one, sizeof one, "%s%d %s", k ? ", " : "", (int)json_integer_value(json_object_get(o, "index")),
                 text_of(o, "label"));
        strncat(seen, one, sizeof seen - strlen(seen) - 1);
    }
    ck_assert_str_eq(seen, expect);
    json_decref(j);
}

START_TEST(labels_are_found)
{
    vt_model *model = embedded();
    labels(model, "", 2, "0 airplane, 1 automobile");
    labels(model, NULL, 0, "0 airplane, 1 automobile, 2 bird, 3 cat, 4 deer, 5 dog, 6 frog, 7 horse, 8 ship, 9 truck");
    labels(model, "R", 3, "0 airplane, 2 bird, 4 deer");
    labels(model, "SHIP", 0, "8 ship");
    labels(model, "no_label", 0, "");
    labels(model, "shipp", 0, "");
    vt_model_close(model);
}
END_TEST

VT_SUITE("catalog", tcase_add_test(tc, methods_are_the_registry); tcase_add_test(tc, defaults_as_in_the_reference);
         tcase_add_test(tc, metrics_are_the_registry); tcase_add_test(tc, models_have_every_member);
         tcase_add_test(tc, labels_are_found))
