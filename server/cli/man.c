/* vitral man vitrald|vitral: the manual pages as roff, made from the tables that the programs themselves are made from.
 * The build writes them to files; nobody else needs the command, so help does not list it.
 *
 * A page has no date: the same sources give the same bytes. Text from tables is escaped: a backslash or a dash means
 * something to roff, and so does a dot or an apostrophe at the beginning of a line. */
#include "server/cli/cli.h"

#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/param.h"
#include "vitral/version.h"

#include <string.h>

/* One line of running text. */
static void text(const char *line)
{
    if (*line == '.' || *line == '\'')
        fputs("\\&", stdout);
    for (const char *c = line; *c; c++)
        if (*c == '\\')
            fputs("\\e", stdout);
        else if (*c == '-')
            fputs("\\-", stdout); /* a plain dash may become a hyphen, which cannot be pasted into a shell */
        else
            fputc(*c, stdout);
    fputc('\n', stdout);
}

/* A macro line whose one argument is this text: .SH, .SS, .B. */
static void macro(const char *name, const char *argument)
{
    printf("%s \"", name);
    for (const char *c = argument; *c; c++)
        if (*c == '"')
            fputs("\"\"", stdout);
        else if (*c == '-')
            fputs("\\-", stdout);
        else if (*c == '\\')
            fputs("\\e", stdout);
        else
            fputc(*c, stdout);
    fputs("\"\n", stdout);
}

static void paragraph(const char *line)
{
    puts(".PP");
    text(line);
}

static void entry(const char *left, const char *right)
{
    puts(".TP");
    macro(".B", left);
    text(right);
}

static void example(const char *line)
{
    puts(".PP\n.EX");
    text(line);
    puts(".EE");
}

static void title(const char *name, const char *section, const char *volume, const char *summary)
{
    printf(".TH %s %s \"\" \"vitral " VT_VERSION "\" \"%s\"\n.nh\n.ad l\n", name, section, volume);
    macro(".SH", "NAME");
    text(summary);
}

static void param_entry(const vt_metric *owner, const vt_param *row)
{
    char left[VTS_HELP_FLAG_MAX], right[VTS_HELP_TEXT_MAX];
    vts_help_param(row, owner, left, sizeof left, right, sizeof right);
    entry(left, right);
}

/* ---- vitrald(8) ---- */

static void service_page(void)
{
    size_t count;
    const vt_param *rows = vts_settings_table(&count);

    title("VITRALD", "8", "System administration",
          "vitrald - HTTP service that explains what a Vision Transformer saw");
    macro(".SH", "SYNOPSIS");
    puts(".B vitrald\n[\\fB\\-\\-model\\fR [\\fINAME\\fR=]\\fIDIR\\fR]...\n"
         "[\\fB\\-\\-listen\\fR \\fIHOST\\fR:\\fIPORT\\fR]\n[\\fIFLAG\\fR]...");
    macro(".SH", "DESCRIPTION");
    text("vitrald takes a picture by HTTP and answers with the prediction of a Vision Transformer and maps of the "
         "evidence "
         "for it. Without --model it serves a small built-in model. When it is ready, it prints one line on standard "
         "output: listening on http://HOST:PORT.");
    paragraph("The contract of the service is served at /openapi.yaml, a page for people at /.");
    macro(".SH", "OPTIONS");
    text("Each flag is also a key of the JSON file (with _ for -) and a variable (VITRAL_ and the name in capitals, "
         "with _ "
         "for -). Defaults < JSON file < variables < flags. [Default] last.");
    for (size_t k = 0; k < count; k++)
        param_entry(NULL, &rows[k]);
    entry("--no-sandbox", "the same as --sandbox off");
    entry("--help", "print the flags");
    entry("--version", "print the version");
    macro(".SH", "SIGNALS");
    entry("SIGTERM, SIGINT",
          "new work is refused, work in hand is answered for at most drain_timeout_ms, then the process "
          "ends. A second one ends it at once.");
    entry("SIGHUP",
          "tokens and models are read again. What is bad leaves the old ones in service, with a line in the log. "
          "Other settings and the TLS certificate are read at the start only.");
    macro(".SH", "EXIT STATUS");
    entry("0", "ended as asked");
    entry("1", "a second signal cut the drain short");
    entry("2", "settings, model or address cannot be used; one sentence on standard error says which");
    macro(".SH", "EXAMPLES");
    example("vitrald --listen 127.0.0.1:8080");
    example("curl -F img=@x.jpg 'http://localhost:8080/explain?method=grad_rollout&class=top1'");
    macro(".SH", "SEE ALSO");
    puts(".BR vitral (1)");
}

/* ---- vitral(1) ---- */

static void command_entry(const vts_command *command)
{
    char left[96];
    const char *help;
    snprintf(left, sizeof left, "%s %s", command->name, command->words);
    macro(".SS", left);
    text(command->summary);
    for (size_t k = 0; vts_cli_own_option(command, k, left, sizeof left, &help); k++)
        entry(left, help);
}

static void request_options(void)
{
    size_t count;
    const vt_param *common = vt_common_params(&count);

    macro(".SH", "OPTIONS OF A REQUEST");
    text("Dash and underscore are the same in their names. [Default] last. predict takes those that have nothing to do "
         "with "
         "maps.");
    for (size_t k = 0; k < count; k++)
        param_entry(NULL, &common[k]);
    macro(".SH", "METHODS");
    text("What --method may name, and the options of each.");
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        macro(".SS", m->name);
        text(m->summary);
        for (size_t i = 0; i < m->params_count; i++)
            param_entry(NULL, &m->params[i]);
    }
    macro(".SH", "METRICS");
    text("What --metrics may name, and the options of each.");
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *m = vt_metric_at(k);
        macro(".SS", m->name);
        text(m->summary);
        for (size_t i = 0; i < m->params_count; i++)
            param_entry(m, &m->params[i]);
    }
}

static void command_page(void)
{
    const vts_command *command;

    title("VITRAL", "1", "User commands", "vitral - explain what a Vision Transformer saw");
    macro(".SH", "SYNOPSIS");
    puts(".B vitral\n\\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIFILE\\fR]...");
    macro(".SH", "DESCRIPTION");
    text("The engine of vitrald(8) without a server: the same numbers, the same JSON. Without --model it uses a small "
         "built-in model.");
    macro(".SH", "COMMANDS");
    for (size_t k = 0; (command = vts_command_at(k)); k++)
        if (!(command->takes & VTS_IS_HIDDEN))
            command_entry(command);
    request_options();
    macro(".SH", "EXIT STATUS");
    entry("0", "all done");
    entry("1", "some files failed");
    entry("2", "wrong usage, or a model that cannot be used");
    macro(".SH", "EXAMPLES");
    example("vitral explain x.jpg --method grad_rollout,rollout --class top1 -o out/");
    example("vitral predict --text x.jpg");
    macro(".SH", "SEE ALSO");
    puts(".BR vitrald (8)");
}

int vts_cmd_man(vts_cli *cli)
{
    if (strcmp(cli->words[0], "vitrald") == 0)
        service_page();
    else if (strcmp(cli->words[0], "vitral") == 0)
        command_page();
    else
        return vts_usage(cli, "there is no page %s: vitrald or vitral", cli->words[0]);
    return VTS_EXIT_OK;
}
