/* Help texts, derived: commands from their rows, options from the tables of the engine. Written once per call, to a
 * stream of the caller's choice; nothing here can fail in a way that matters. */
#include "server/cli/cli.h"

#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/param.h"
#include "vitral/version.h"

#include <string.h>

enum { LEFT = 26, WIDTH = 100 };

/* Text broken at spaces, from `column` on, later lines indented by `indent`. */
static void wrapped(FILE *to, int column, int indent, const char *text)
{
    bool fresh = true;
    while (*text) {
        const size_t n = strcspn(text, " ");
        if (!fresh && column + 1 + (int)n > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (!fresh) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)n, text);
        column += (int)n;
        fresh = false;
        text += n + strspn(text + n, " ");
    }
    fputc('\n', to);
}

/* A left column and a text to the right of it. */
static void entry(FILE *to, const char *left, const char *text)
{
    int column = fprintf(to, "  %s", left);
    if (column >= LEFT) {
        fputc('\n', to);
        column = 0;
    }
    fprintf(to, "%*s", LEFT - column, "");
    wrapped(to, LEFT, LEFT, text);
}

static void heading(FILE *to, const char *kind, const char *name, const char *summary)
{
    const int column = fprintf(to, "\n%s %s: ", kind, name) - 1;
    wrapped(to, column, 2, summary);
}

void vts_help_param(const vt_param *row, const vt_metric *owner, char *flag, size_t flag_size, char *text, size_t size)
{
    char allowed[VT_ERROR_ALLOWED], def[VT_TEXT_MAX], name[VT_ERROR_PARAM];
    size_t n;

    if (owner)
        snprintf(flag, flag_size, "--%s", vt_metric_param_name(name, sizeof name, owner, row));
    else
        snprintf(flag, flag_size, "--%s", row->name);
    for (char *c = flag; *c; c++)
        if (*c == '_')
            *c = '-';
    allowed[0] = '\0';
    if (row->type != VT_TEXT) /* for a text that is a length only */
        vt_param_allowed(row, NULL, allowed, sizeof allowed);
    vt_param_default_text(row, def, sizeof def);
    n = (size_t)snprintf(text, size, "%s", row->help);
    if (row->unit && row->unit[0] && n < size)
        n += (size_t)snprintf(text + n, size - n, " (%s)", row->unit);
    if (allowed[0] && n < size)
        n += (size_t)snprintf(text + n, size - n, "; %s", allowed);
    if (def[0] && n < size)
        snprintf(text + n, size - n, " [%s]", def);
}

static void row_entry(FILE *to, const vt_metric *owner, const vt_param *row)
{
    char left[VTS_HELP_FLAG_MAX], text[VTS_HELP_TEXT_MAX];
    vts_help_param(row, owner, left, sizeof left, text, sizeof text);
    entry(to, left, text);
}

void vts_help_all(FILE *to)
{
    const vts_command *command;

    fputs("vitral " VT_VERSION
          ": explains what a Vision Transformer saw\n\nusage: vitral COMMAND [OPTION...] [FILE...]\n\n",
          to);
    for (size_t k = 0; (command = vts_command_at(k)); k++) {
        char left[64];
        if (command->takes & VTS_IS_HIDDEN)
            continue;
        snprintf(left, sizeof left, "%s %s", command->name, command->words);
        entry(to, left, command->summary);
    }
    fputs("\n`vitral help COMMAND` shows the options of a command.\n"
          "Exit status: 0 all done, 1 some files failed, 2 wrong usage or a model that cannot be used.\n",
          to);
}

void vts_help_command(FILE *to, const vts_command *command)
{
    const char *help;
    char left[64];
    size_t count;
    const vt_param *common = vt_common_params(&count);

    fprintf(to, "usage: vitral %s [OPTION...] %s\n%s\n\n", command->name, command->words, command->summary);
    for (size_t k = 0; vts_cli_own_option(command, k, left, sizeof left, &help); k++)
        entry(to, left, help);
    if (!(command->takes & (VTS_TAKES_EXPLAIN | VTS_TAKES_PREDICT)))
        return;
    fputs("\nOptions of the request, [default] last; `-` and `_` are the same in their names:\n", to);
    for (size_t k = 0; k < count; k++)
        if ((command->takes & VTS_TAKES_EXPLAIN) || (common[k].flags & VT_PARAM_PREDICT))
            row_entry(to, NULL, &common[k]);
    if (!(command->takes & VTS_TAKES_EXPLAIN))
        return;
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        heading(to, "method", m->name, m->summary);
        for (size_t i = 0; i < m->params_count; i++)
            row_entry(to, NULL, &m->params[i]);
    }
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *m = vt_metric_at(k);
        if (m->params_count)
            heading(to, "metric", m->name, m->summary);
        for (size_t i = 0; i < m->params_count; i++)
            row_entry(to, m, &m->params[i]);
    }
}
