/* vitral methods, metrics, models, labels, version: the catalogues of the service, or the same as lines for
 * people when stdout is a terminal. */
#include "server/cli/cli.h"

#include "server/wire/wire.h"
#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/version.h"

#include <stdlib.h>
#include <string.h>

int vts_cmd_version(vts_cli *cli)
{
    (void)cli;
    puts("vitral " VT_VERSION);
    return VTS_EXIT_OK;
}

static void print_rows(const vt_param *rows, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        char def[VT_TEXT_MAX];
        vt_param_default_text(&rows[k], def, sizeof def);
        printf("    %-16s %s%s%s%s\n", rows[k].name, rows[k].help, def[0] ? " [" : "", def, def[0] ? "]" : "");
    }
}

int vts_cmd_methods(vts_cli *cli)
{
    vt_model *model = NULL;
    size_t size = 0;
    int code = vts_open_model(cli, 0, &model);

    if (code)
        return code;
    if (vts_prints_json(cli)) {
        char *text = vts_json_methods(model, &size);
        code = vts_print_own(text, size);
    } else {
        for (size_t k = 0; k < vt_explainer_count(); k++) {
            const vt_explainer *m = vt_explainer_at(k);
            printf("%s (%s): %s\n", m->name, vt_family_name(m->family), m->summary);
            print_rows(m->params, m->params_count);
        }
    }
    vt_model_close(model);
    return code;
}

int vts_cmd_metrics(vts_cli *cli)
{
    vt_model *model = NULL;
    size_t size = 0;
    int code = vts_open_model(cli, 0, &model);

    if (code)
        return code;
    if (vts_prints_json(cli)) {
        char *text = vts_json_metrics_list(vt_model_get_info(model), &size);
        code = vts_print_own(text, size);
    } else {
        for (size_t k = 0; k < vt_metric_count(); k++) {
            const vt_metric *m = vt_metric_at(k);
            printf("%s (%s is better%s): %s\n", m->name, m->flags & VT_METRIC_HIGHER_BETTER ? "higher" : "lower",
                   m->flags & VT_METRIC_FREE         ? ", free"
                   : m->flags & VT_METRIC_NEEDS_MASK ? ", needs a mask"
                   : m->flags & VT_METRIC_RERUNS     ? ", runs the method again"
                                                     : ", asks the model",
                   m->summary);
            print_rows(m->params, m->params_count);
        }
    }
    vt_model_close(model);
    return code;
}

static void print_model(const vt_model *model)
{
    const vt_model_info *m = vt_model_get_info(model);
    printf("%s\n", m->id);
    printf("    architecture  %s\n", m->architecture);
    printf("    input         %zu x %zu pixels, patches of %zu x %zu: a grid of %zu x %zu\n", m->image_h, m->image_w,
           m->patch_h, m->patch_w, m->grid_h, m->grid_w);
    printf("    tokens        %zu, %zu of them before the patches%s\n", m->tokens, m->prefix,
           m->has_class_token ? "" : "; no class token");
    printf("    net           %zu layers, %zu heads, width %zu, %s\n", m->layers, m->heads, m->width,
           m->activation_name);
    printf("    classes       %zu%s%s%s\n", m->classes, vt_model_has_labels(model) ? "" : ", without labels",
           m->multi_label ? ", several at once" : "", m->regression ? ", a regression" : "");
    printf("    weights       %.1f MB\n", (double)m->bytes / 1e6);
}

static int print_models(vts_cli *cli, const vt_model *const *models, size_t count)
{
    size_t size = 0;
    if (vts_prints_json(cli)) {
        char *text = vts_json_models(models, count, 0, &size);
        return vts_print_own(text, size);
    }
    for (size_t k = 0; k < count; k++)
        print_model(models[k]);
    return VTS_EXIT_OK;
}

int vts_cmd_models(vts_cli *cli)
{
    const size_t count = cli->models_count ? cli->models_count : 1;
    vt_model *models[VTS_MODELS_MAX] = {0};
    const vt_model *shown[VTS_MODELS_MAX] = {0};
    int code = 0;

    for (size_t k = 0; k < count && code == 0; k++) {
        code = vts_open_model_to_run(cli, k, &models[k]);
        shown[k] = models[k];
        for (size_t j = 0; j < k && code == 0; j++)
            if (strcmp(vt_model_get_info(models[j])->id, vt_model_get_info(models[k])->id) == 0)
                code = vts_usage(cli, "two models are called %s; give one another name: --model NAME=DIR",
                                 vt_model_get_info(models[k])->id);
    }
    if (code == 0)
        code = print_models(cli, shown, count);
    for (size_t k = 0; k < count; k++)
        vt_model_close(models[k]);
    return code;
}

static void print_labels(const vt_model *model, const char *q, size_t limit)
{
    size_t found = 0;
    for (size_t k = 0; k < vt_model_get_info(model)->classes && (!limit || found < limit); k++)
        if (!q || vts_class_matches(model, k, q)) {
            const char *synonym = vt_model_synonym(model, k);
            printf("%6zu  %s%s%s\n", k, vt_model_label(model, k), synonym ? " = " : "", synonym ? synonym : "");
            found++;
        }
}

int vts_cmd_labels(vts_cli *cli)
{
    vt_model *model = NULL;
    size_t size = 0;

    if (cli->words_count && cli->q)
        return vts_usage(cli, "TEXT and --q are the same: give one");
    int code = vts_open_model(cli, 0, &model);
    if (code)
        return code;
    const char *q = cli->words_count ? cli->words[0] : cli->q;
    if (vts_prints_json(cli)) {
        char *text = vts_json_labels(model, q, cli->limit, &size);
        code = vts_print_own(text, size);
    } else {
        print_labels(model, q, cli->limit);
    }
    vt_model_close(model);
    return code;
}
