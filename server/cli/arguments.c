/* The words behind a command: flags of the command itself, request options, positional words.
 *
 * A request option is a flag because a table of the engine has a row of that name: `--discard-ratio 0.9`,
 * `--discard_ratio=0.9`. Values are not looked at here: the engine parses them for the service and for us. A name that no table
 * has is an error with the nearest one. "--" ends the flags, "-" is a word (standard input). */
#include "server/cli/cli.h"

#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/param.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

typedef enum own_id {
    OWN_OUT,
    OWN_JOBS,
    OWN_MODEL,
    OWN_JSON,
    OWN_TEXT,
    OWN_QUIET,
    OWN_Q,
    OWN_LIMIT,
    OWN_UPDATE,
    OWN_CHECK,
    OWN_MASK,
    OWN_METHODS,
    OWN_HELP
} own_id;

static const struct {
    own_id id;
    const char *name;
    char letter;       /* 0: no short form */
    const char *value; /* what follows, NULL: nothing */
    unsigned takes;    /* commands that take one of these take this flag; 0: all */
    const char *help;
} own[] = {
    {OWN_OUT, "out", 'o', "DIR", VTS_TAKES_OUT,
     "folder for STEM.METHOD[.cINDEX][.lLAYER][.hHEAD].overlay.png, .heatmap.png and STEM.json; made when absent; "
     "files "
     "of these names that an earlier run left there are overwritten"},
    {OWN_OUT, "out", 'o', "DIR", VTS_TAKES_TABLES,
     "folder for evaluation.csv, .json and .md; made when absent; where an interrupted run of the same pictures and "
     "options left one, it goes on"},
    {OWN_METHODS, "methods", 0, "NAMES", VTS_TAKES_TABLES,
     "the same as --method: comma separated, any number (default: every method that the model serves)"},
    {OWN_JOBS, "jobs", 'j', "N", VTS_TAKES_JOBS, "files in work at once (default 1)"},
    {OWN_MODEL, "model", 'm', "[NAME=]DIR", VTS_TAKES_MODEL,
     "folder with model.safetensors, or the weights file (default: the embedded model); with ?image_size=N or "
     "?image_size=HxW behind it for another input size"},
    {OWN_JSON, "json", 0, NULL, VTS_TAKES_FORMAT,
     "print the JSON of the service (the default unless stdout is a terminal)"},
    {OWN_JSON, "json", 0, NULL, VTS_TAKES_JSON, "print the answer of each file, one per line, as the service gives it"},
    {OWN_TEXT, "text", 0, NULL, VTS_TAKES_FORMAT, "print lines for people (the default on a terminal)"},
    {OWN_QUIET, "quiet", 'q', NULL, VTS_TAKES_JOBS, "no progress bar"},
    {OWN_MASK, "mask", 0, "FILE", VTS_TAKES_MASK,
     "PNG that marks the object in the one FILE, for the metrics that compare a map with it; not 0 is inside"},
    {OWN_MASK, "mask", 0, "DIR", VTS_TAKES_TABLES,
     "folder with a PNG of the same name (STEM.png) for each picture, that marks its object, for the metrics that "
     "compare "
     "a map with it; not 0 is inside"},
    {OWN_Q, "q", 0, "TEXT", VTS_TAKES_FIND, "only labels that contain TEXT: case ignored, _ equals space"},
    {OWN_LIMIT, "limit", 0, "N", VTS_TAKES_FIND, "at most N labels"},
    {OWN_UPDATE, "update", 0, "FILE", VTS_TAKES_OPENAPI, "rewrite the generated blocks of FILE"},
    {OWN_CHECK, "check", 0, "FILE", VTS_TAKES_OPENAPI, "exit 1 when the generated blocks of FILE are not up to date"},
    {OWN_HELP, "help", 'h', NULL, 0, "this text"},
};

static bool takes_own(const vts_command *command, size_t k)
{
    return own[k].takes == 0 || (command->takes & own[k].takes);
}

bool vts_cli_own_option(const vts_command *command, size_t k, char *flag, size_t size, const char **help)
{
    size_t seen = 0;
    for (size_t i = 0; i < VT_COUNT(own); i++)
        if (takes_own(command, i) && seen++ == k) {
            const char letter[] = {'-', own[i].letter, ',', ' ', '\0'};
            snprintf(flag, size, "%s--%s %s", own[i].letter ? letter : "", own[i].name,
                     own[i].value ? own[i].value : "");
            *help = own[i].help;
            return true;
        }
    return false;
}

/* ---- the engine's names ---- */

/* METRIC.NAME, as requests spell the parameters of metrics */
static bool is_metric_param(const char *name)
{
    const char *dot = strchr(name, '.');
    char metric[NAME_MAX_BYTES];
    if (!dot || (size_t)(dot - name) >= sizeof metric)
        return false;
    memcpy(metric, name, (size_t)(dot - name));
    metric[dot - name] = '\0';
    const vt_metric *m = vt_metric_find(metric);
    return m && vt_param_find(m->params, m->params_count, dot + 1);
}

static bool is_request_option(const vts_command *command, const char *name)
{
    size_t count;
    const vt_param *common = vt_common_params(&count);
    const vt_param *row = vt_param_find(common, count, name);

    if (command->takes & VTS_TAKES_PREDICT)
        return row && (row->flags & VT_PARAM_PREDICT);
    if (!(command->takes & VTS_TAKES_EXPLAIN))
        return false;
    for (size_t k = 0; !row && k < vt_explainer_count(); k++)
        row = vt_param_find(vt_explainer_at(k)->params, vt_explainer_at(k)->params_count, name);
    return row || is_metric_param(name);
}

static void nearer(const char *name, const char *candidate, const char **nearest, size_t *best)
{
    const size_t d = vt_name_distance(name, candidate);
    if (d < *best) {
        *best = d;
        *nearest = candidate;
    }
}

static int unknown_flag(const vts_cli *cli, const char *name)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX, count;

    for (size_t k = 0; k < VT_COUNT(own); k++)
        if (takes_own(cli->command, k))
            nearer(name, own[k].name, &nearest, &best);
    if (cli->command->takes & (VTS_TAKES_EXPLAIN | VTS_TAKES_PREDICT)) {
        const vt_param *common = vt_common_params(&count);
        for (size_t k = 0; k < count; k++)
            if (is_request_option(cli->command, common[k].name))
                nearer(name, common[k].name, &nearest, &best);
    }
    for (size_t k = 0; (cli->command->takes & VTS_TAKES_EXPLAIN) && k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        for (size_t i = 0; i < m->params_count; i++)
            nearer(name, m->params[i].name, &nearest, &best);
    }
    if (nearest)
        return vts_usage(cli, "there is no option --%s; did you mean --%s?", name, nearest);
    return vts_usage(cli, "there is no option --%s", name);
}

/* ---- parsing ---- */

static int whole_number(const vts_cli *cli, const char *flag, const char *text, long max, long *out)
{
    char *end;
    errno = 0;
    const long v = strtol(text, &end, 10);
    if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || v < 1 || v > max)
        return vts_usage(cli, "--%s takes a whole number from 1 to %ld, not \"%s\"", flag, max, text);
    *out = v;
    return 0;
}

static int set_own(vts_cli *cli, size_t k, const char *value)
{
    const own_id id = own[k].id;
    const bool many = id == OWN_HELP || (id == OWN_MODEL && (cli->command->takes & VTS_TAKES_MODELS));
    long number = 0;
    int code = 0;

    if (!many && (cli->seen >> k & 1u))
        return vts_usage(cli, "--%s is given twice", own[k].name);
    cli->seen |= 1u << k;

    switch (id) {
    case OWN_OUT:
        cli->out = value;
        break;
    case OWN_METHODS:
        cli->pairs[cli->pairs_count++] = (vt_pair){.name = "method", .value = value};
        break;
    case OWN_JOBS:
        code = whole_number(cli, "jobs", value, VTS_JOBS_MAX, &number);
        cli->jobs = (int)number;
        break;
    case OWN_MODEL:
        if (cli->models_count == VTS_MODELS_MAX)
            return vts_usage(cli, "--model can be given %d times", VTS_MODELS_MAX);
        cli->models[cli->models_count++] = value;
        break;
    case OWN_JSON:
        cli->json = true;
        break;
    case OWN_TEXT:
        cli->text = true;
        break;
    case OWN_QUIET:
        cli->quiet = true;
        break;
    case OWN_Q:
        cli->q = value;
        break;
    case OWN_LIMIT:
        code = whole_number(cli, "limit", value, LONG_MAX, &number);
        cli->limit = (size_t)number;
        break;
    case OWN_UPDATE:
        cli->update = value;
        break;
    case OWN_CHECK:
        cli->check = value;
        break;
    case OWN_MASK:
        cli->mask = value;
        break;
    case OWN_HELP:
        cli->help = true;
        break;
    }
    return code;
}

/* The value of a flag: behind its `=`, or the next word. NULL when there is none. */
static const char *value_of(const char *inlined, int argc, char **argv, int *i)
{
    if (inlined)
        return inlined;
    return *i + 1 < argc ? argv[++*i] : NULL;
}

static int long_flag(vts_cli *cli, int argc, char **argv, int *i)
{
    const char *text = argv[*i] + 2;
    const char *equals = strchr(text, '=');
    const char *inlined = equals ? equals + 1 : NULL;
    const size_t n = equals ? (size_t)(equals - text) : strlen(text);
    char *name = cli->pair_names + cli->pairs_count * NAME_MAX_BYTES;

    if (n >= NAME_MAX_BYTES)
        return vts_usage(cli, "there is no option --%.*s", (int)n, text);
    for (size_t k = 0; k < n; k++)
        name[k] = text[k] == '-' ? '_' : text[k];
    name[n] = '\0';
    for (size_t k = 0; k < VT_COUNT(own); k++) {
        if (!takes_own(cli->command, k) || strcmp(own[k].name, name) != 0)
            continue;
        if (!own[k].value && inlined)
            return vts_usage(cli, "--%s takes no value", own[k].name);
        const char *value = own[k].value ? value_of(inlined, argc, argv, i) : "";
        if (!value || (own[k].value && !*value))
            return vts_usage(cli, "--%s needs a value: %s", own[k].name, own[k].value);
        return set_own(cli, k, value);
    }
    if (!is_request_option(cli->command, name))
        return unknown_flag(cli, name);
    const char *value = value_of(inlined, argc, argv, i);
    if (!value)
        return vts_usage(cli, "--%s needs a value", name);
    cli->pairs[cli->pairs_count++] = (vt_pair){.name = name, .value = value};
    return 0;
}

static int short_flag(vts_cli *cli, int argc, char **argv, int *i)
{
    const char letter = argv[*i][1];
    for (size_t k = 0; k < VT_COUNT(own); k++) {
        if (!takes_own(cli->command, k) || !own[k].letter || own[k].letter != letter)
            continue;
        const char *rest = argv[*i] + 2;
        if (!own[k].value && *rest)
            return vts_usage(cli, "-%c takes no value", letter);
        const char *value = own[k].value ? value_of(*rest ? rest : NULL, argc, argv, i) : "";
        if (!value || (own[k].value && !*value))
            return vts_usage(cli, "-%c needs a value: %s", letter, own[k].value);
        return set_own(cli, k, value);
    }
    return vts_usage(cli, "there is no option %s", argv[*i]);
}

int vts_cli_parse(vts_cli *cli, int argc, char **argv)
{
    const size_t n = argc > 0 ? (size_t)argc : 0;
    bool flags = true;
    int code = 0;

    cli->words = calloc(n + 1, sizeof *cli->words);
    cli->pairs = calloc(n + 1, sizeof *cli->pairs);
    cli->pair_names = calloc(n + 1, NAME_MAX_BYTES);
    if (!cli->words || !cli->pairs || !cli->pair_names)
        return vts_usage(cli, "no memory for the arguments");
    for (int i = 0; i < argc && code == 0; i++) {
        const char *text = argv[i];
        if (!flags || text[0] != '-' || !text[1] || (cli->command->takes & VTS_TAKES_SETTINGS))
            cli->words[cli->words_count++] = text;
        else if (strcmp(text, "--") == 0)
            flags = false;
        else if (text[1] == '-')
            code = long_flag(cli, argc, argv, &i);
        else
            code = short_flag(cli, argc, argv, &i);
    }
    if (code || cli->help)
        return code;
    if (cli->json && cli->text)
        return vts_usage(cli, "--json and --text exclude each other");
    if (cli->words_count < cli->command->words_min)
        return vts_usage(cli, "%s is missing", cli->command->words);
    if (cli->words_count > cli->command->words_max)
        return vts_usage(cli, "\"%s\" is one word too many", cli->words[cli->command->words_max]);
    return 0;
}

void vts_cli_free(vts_cli *cli)
{
    free(cli->mask_data);
    free(cli->words);
    free(cli->pairs);
    free(cli->pair_names);
}
