/* GET /methods, /metrics-list, /models, /labels: what there is to choose from.
 *
 * The first three follow from the set of models: they are made once for each set and live as long as it does. */
#include "server/routes/routes.h"

typedef struct label_params {
    char q[VT_TEXT_MAX], model[VT_TEXT_MAX];
    int limit;
} label_params;

enum { Q, MODEL, LIMIT, LABEL_PARAMS };

static const vt_param label_table[LABEL_PARAMS] = {
    [Q] = {.name = "q",
           .help = "only labels that contain this text; case ignored, _ equals blank",
           .type = VT_TEXT,
           .offset = offsetof(label_params, q)},
    [MODEL] = {.name = "model",
               .help = "id of a model of /models; the first when absent",
               .type = VT_TEXT,
               .offset = offsetof(label_params, model)},
    [LIMIT] = {.name = "limit",
               .help = "at most so many labels",
               .type = VT_INT,
               .min = 1,
               .max = 1 << 30,
               .def = 1 << 30,
               .offset = offsetof(label_params, limit)},
};

vt_status vts_routes_describe(vts_model_set *set, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(set->models[0]);
    const vt_model *const *models = (const vt_model *const *)set->models;
    set->documents[VTS_DOC_METHODS].text = vts_json_methods(set->models[0], &set->documents[VTS_DOC_METHODS].size);
    set->documents[VTS_DOC_METRICS_LIST].text = vts_json_metrics_list(info, &set->documents[VTS_DOC_METRICS_LIST].size);
    set->documents[VTS_DOC_MODELS].text = vts_json_models(models, set->count, 0, &set->documents[VTS_DOC_MODELS].size);
    for (size_t k = 0; k < VTS_DOC_COUNT; k++)
        if (!set->documents[k].text)
            return vt_error_set(err, VT_E_NOMEM, "", "no memory for the catalogue");
    return VT_OK;
}

static void answer_document(vts_request *r, vts_document document)
{
    vts_reply_static(&r->reply, 200, "application/json", r->models->documents[document].text,
                     r->models->documents[document].size);
}

static void answer_methods(vts_request *r)
{
    answer_document(r, VTS_DOC_METHODS);
}

static void answer_metrics_list(vts_request *r)
{
    answer_document(r, VTS_DOC_METRICS_LIST);
}

static void answer_models(vts_request *r)
{
    answer_document(r, VTS_DOC_MODELS);
}

static void answer_labels(vts_request *r)
{
    label_params params;
    bool given[LABEL_PARAMS] = {false};
    size_t size = 0;
    vt_params_default(label_table, LABEL_PARAMS, NULL, &params);
    if (!vts_params_take(r, label_table, LABEL_PARAMS, &params, given, r->target.pairs, r->target.pairs_count, NULL,
                         NULL, 0))
        return;
    const vt_model *model = vts_model_set_find(r->models, params.model);
    if (!model) {
        vts_refuse_model(r, params.model);
        return;
    }
    char *body = vts_json_labels(model, params.q, given[LIMIT] ? (size_t)params.limit : 0, &size);
    vts_reply_take(&r->reply, 200, "application/json", body, size);
}

const vts_route_calls vts_route_methods = {.check = vts_params_none, .answer = answer_methods};
const vts_route_calls vts_route_metrics_list = {.check = vts_params_none, .answer = answer_metrics_list};
const vts_route_calls vts_route_models = {.check = vts_params_none, .answer = answer_models};
const vts_route_calls vts_route_labels = {.answer = answer_labels};
