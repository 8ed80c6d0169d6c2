/* The list of methods, made from explainers.def: a row there declares the descriptor and puts it into the table.
 * The linker complains when a row has no descriptor. Const; any thread. */
#include "vitral/explain.h"

#include <string.h>

#define VT_EXPLAINER(id) extern const vt_explainer vt_explainer_##id;
#include "engine/explain/explainers.def"
#undef VT_EXPLAINER

static const vt_explainer *const table[] = {
#define VT_EXPLAINER(id) &vt_explainer_##id,
#include "engine/explain/explainers.def"
#undef VT_EXPLAINER
};

size_t vt_explainer_count(void)
{
    return VT_COUNT(table);
}

const vt_explainer *vt_explainer_at(size_t k)
{
    return k < VT_COUNT(table) ? table[k] : NULL;
}

const vt_explainer *vt_explainer_find(const char *name)
{
    for (size_t k = 0; k < VT_COUNT(table); k++)
        if (strcmp(table[k]->name, name) == 0)
            return table[k];
    return NULL;
}

const char *vt_family_name(vt_family family)
{
    switch (family) {
    case VT_FAMILY_ATTENTION:
        return "attention";
    case VT_FAMILY_GRADIENT:
        return "gradient";
    case VT_FAMILY_REMOVAL:
        return "removal";
    case VT_FAMILY_INSIDE:
        return "inside";
    case VT_FAMILY_CONCEPT:
        return "concept";
    }
    return "unknown";
}
