/* vitral: the same engine, the same numbers, the same JSON as the service, without a server.
 *
 * A command is a row below; its options come from the engine's tables and from the short table in arguments.c.
 * Exit 0: all done, 1: some files failed, 2: wrong usage or a model that cannot be used. */
#include "server/cli/cli.h"
#include "server/config/config.h"

#include "vitral/param.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const vts_command commands[] = {
    {"explain", "FILE...", "explain pictures: overlays, heat maps and the whole answer",
     VTS_TAKES_EXPLAIN | VTS_TAKES_MASK | VTS_TAKES_MODEL | VTS_TAKES_JSON | VTS_TAKES_OUT | VTS_TAKES_JOBS, 0,
     SIZE_MAX, vts_cmd_explain},
    {"predict", "FILE...", "predict only", VTS_TAKES_PREDICT | VTS_TAKES_MODEL | VTS_TAKES_FORMAT | VTS_TAKES_JOBS, 1,
     SIZE_MAX, vts_cmd_predict},
    {"evaluate", "FOLDER...",
     "measure methods by metrics on many pictures: a table with means, standard errors and ranks",
     VTS_TAKES_EXPLAIN | VTS_TAKES_MODEL | VTS_TAKES_TABLES | VTS_TAKES_JOBS, 1, SIZE_MAX, vts_cmd_evaluate},
    {"methods", "", "the methods and their options", VTS_TAKES_MODEL | VTS_TAKES_FORMAT, 0, 0, vts_cmd_methods},
    {"metrics", "", "the metrics", VTS_TAKES_MODEL | VTS_TAKES_FORMAT, 0, 0, vts_cmd_metrics},
    {"models", "", "the models given, or the embedded one", VTS_TAKES_MODEL | VTS_TAKES_MODELS | VTS_TAKES_FORMAT, 0, 0,
     vts_cmd_models},
    {"labels", "[TEXT]", "the classes, all of them or those whose label contains TEXT",
     VTS_TAKES_MODEL | VTS_TAKES_FORMAT | VTS_TAKES_FIND, 0, 1, vts_cmd_labels},
    {"inspect", "DIR[?image_size=N|HxW]",
     "what was recognised in a checkpoint, what each method takes on it, what each tensor is for; or why it is not "
     "read",
     VTS_TAKES_FORMAT, 1, 1, vts_cmd_inspect},
    {"openapi", "", "the generated blocks of openapi.yaml", VTS_TAKES_OPENAPI, 0, 0, vts_cmd_openapi},
    {"check-config", "[FLAG...]", "the settings that vitrald would run with, and where each comes from",
     VTS_TAKES_SETTINGS, 0, SIZE_MAX, vts_cmd_check_config},
    {"version", "", "the version", 0, 0, 0, vts_cmd_version},
    {"man", "vitrald|vitral", "the manual page, as roff", VTS_IS_HIDDEN, 1, 1, vts_cmd_man},
};

const vts_command *vts_command_at(size_t k)
{
    return k < VT_COUNT(commands) ? &commands[k] : NULL;
}

static int unknown_command(const char *name)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    for (size_t k = 0; k < VT_COUNT(commands); k++) {
        const size_t d = vt_name_distance(name, commands[k].name);
        if (d < best) {
            best = d;
            nearest = commands[k].name;
        }
    }
    fprintf(stderr, "vitral: there is no command %s%s%s%s\n", name, nearest ? "; did you mean " : "",
            nearest ? nearest : "", nearest ? "?" : "");
    fputs("vitral: `vitral help` lists the commands\n", stderr);
    return VTS_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    vt_error err = {0};
    vts_cli cli = {.jobs = 1};
    int code;

    vts_restart_for_blas(argv);
    if (argc < 2) {
        vts_help_all(stderr);
        return VTS_EXIT_USAGE;
    }
    if (vt_self_check(&err) != VT_OK)
        return vts_report(NULL, &err);
    const char *name = argv[1];
    const bool help = strcmp(name, "help") == 0;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (help && argc == 2)) {
        vts_help_all(stdout);
        return VTS_EXIT_OK;
    }
    if (help)
        name = argv[2];
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    for (size_t k = 0; k < VT_COUNT(commands); k++)
        if (strcmp(name, commands[k].name) == 0)
            cli.command = &commands[k];
    if (!cli.command)
        return unknown_command(name);
    code = help ? 0 : vts_cli_parse(&cli, argc - 2, argv + 2);
    if (code == 0 && (help || cli.help))
        vts_help_command(stdout, cli.command);
    else if (code == 0)
        code = cli.command->run(&cli);
    vts_cli_free(&cli);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == VTS_EXIT_OK) {
        fputs("vitral: standard output could not be written\n", stderr);
        code = VTS_EXIT_SOME;
    }
    return code;
}
