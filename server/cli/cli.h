/* The command line's own parts, shared by its files. Of the engine it knows include/vitral/ only, of the server wire/
 * and config/: what it prints are the texts that the service would send. */
#ifndef VTS_CLI_CLI_H
#define VTS_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "server/config/config.h"
#include "vitral/evaluate.h"
#include "vitral/run.h"

/* Exit codes (api section 9). */
enum { VTS_EXIT_OK = 0, VTS_EXIT_SOME = 1, VTS_EXIT_USAGE = 2 };

enum { VTS_JOBS_MAX = 256 };

typedef struct vts_cli vts_cli;

/* What a command takes beside its positional words: bits of vts_command.takes. */
enum {
    VTS_TAKES_EXPLAIN = 1u << 0, /* the common options and those of every method and metric */
    VTS_TAKES_PREDICT = 1u << 1, /* the common options of /predict */
    VTS_TAKES_MODEL = 1u << 2,
    VTS_TAKES_FORMAT = 1u << 3, /* --json, --text */
    VTS_TAKES_OUT = 1u << 4,
    VTS_TAKES_JOBS = 1u << 5,
    VTS_TAKES_FIND = 1u << 6,    /* --q, --limit */
    VTS_TAKES_OPENAPI = 1u << 7, /* --update, --check */
    VTS_TAKES_JSON = 1u << 8,    /* --json alone */
    VTS_TAKES_MODELS = 1u << 10, /* several --model */
    VTS_IS_HIDDEN = 1u << 11,    /* for the build: help does not list it */
    VTS_TAKES_MASK = 1u << 12,
    VTS_TAKES_TABLES = 1u << 13, /* --out for what vitral evaluate writes, --methods */
    VTS_TAKES_SETTINGS = 1u << 9 /* the flags of the service: all words as they are */
};

typedef struct vts_command {
    const char *name, *words, *summary; /* words: the positional ones, for the usage line */
    unsigned takes;
    size_t words_min, words_max;
    int (*run)(vts_cli *cli); /* gives the exit code */
} vts_command;

struct vts_cli {
    const vts_command *command;
    const char **words; /* positional (words_count) */
    size_t words_count;
    vt_pair *pairs;   /* request options (pairs_count), names as in the tables */
    char *pair_names; /* their storage */
    size_t pairs_count;
    const char *models[VTS_MODELS_MAX]; /* [NAME=]DIR as given */
    size_t models_count;
    const char *out, *q, *update, *check, *mask;
    unsigned char *mask_data; /* the file that --mask names (mask_size), once it is read */
    size_t mask_size;
    int jobs;
    size_t limit;  /* 0 = none */
    unsigned seen; /* bit k: the k-th option of the command line itself was given */
    bool json, text, quiet, help;
};

/* ---- vitral.c ---- */
const vts_command *vts_command_at(size_t k); /* NULL past the last */

/* ---- arguments.c ---- */
/* Parses argv behind the command. 0, or an exit code after having said what is wrong. cli->command is set. */
int vts_cli_parse(vts_cli *cli, int argc, char **argv);
void vts_cli_free(vts_cli *cli);
/* The k-th option of the command itself as "-o, --out DIR", and its help; false past the last. */
bool vts_cli_own_option(const vts_command *command, size_t k, char *flag, size_t size, const char **help);

/* ---- help.c ---- */
void vts_help_all(FILE *to);
void vts_help_command(FILE *to, const vts_command *command);
/* A row of a table as "--name" (or "--METRIC.NAME" of its owner) and "help (unit); what is allowed [default]". */
enum { VTS_HELP_FLAG_MAX = 96, VTS_HELP_TEXT_MAX = VT_TEXT_MAX + 1024 };
void vts_help_param(const vt_param *row, const vt_metric *owner, char *flag, size_t flag_size, char *text, size_t size);

/* ---- report.c ---- */
/* "vitral: WHERE: sentence" and what would be allowed on stderr; where may be NULL. Gives the exit code of the problem. */
int vts_report(const char *where, const vt_error *err);
/* Says it and gives VTS_EXIT_USAGE. */
int vts_usage(const vts_cli *cli, const char *fmt, ...) VT_PRINTF(2, 3);
bool vts_prints_json(const vts_cli *cli); /* --json, or stdout is no terminal and --text is not given */
/* Prints a malloc'ed text and a line end, frees it. NULL: out of memory. */
int vts_print_own(char *text, size_t size);
/* Opens the model that --model names, the embedded one without. 0 or an exit code, already reported. */
int vts_open_model(const vts_cli *cli, size_t k, vt_model **out);
/* The same on the backend that the service would choose, so that passes give the service's numbers. */
int vts_open_model_to_run(const vts_cli *cli, size_t k, vt_model **out);

/* ---- outfile.c ---- */
/* Names without folder and extension for each file, made unique with -2, -3, ...; (count) texts. NULL: no memory. */
char **vts_stems(const char *const *files, size_t count);
void vts_stems_free(char **stems, size_t count);
/* "STEM.METHOD[.cINDEX][.lLAYER][.hHEAD][.PART][.chCHANNEL]" */
void vts_map_name(char *buf, size_t size, const char *stem, const vt_map *map);
VT_MUST_USE vt_status vts_make_folder(const char *path, vt_error *err);
VT_MUST_USE vt_status vts_write_file(const char *folder, const char *name, const char *ending, const void *data,
                                     size_t size, vt_error *err);
/* A whole file ("-": standard input), malloc'ed. */
VT_MUST_USE vt_status vts_read_file(const char *path, unsigned char **data, size_t *size, vt_error *err);

/* ---- batch.c ---- */
/* Runs the request over cli->words with cli->jobs threads, prints and writes in the order of the files. Exit code. */
int vts_batch(const vts_cli *cli, const vt_model *model, const vt_request *request, bool predict);

/* ---- the commands ---- */
int vts_cmd_explain(vts_cli *cli);
int vts_cmd_predict(vts_cli *cli);
int vts_cmd_evaluate(vts_cli *cli);
int vts_cmd_methods(vts_cli *cli);
int vts_cmd_metrics(vts_cli *cli);
int vts_cmd_models(vts_cli *cli);
int vts_cmd_labels(vts_cli *cli);
int vts_cmd_inspect(vts_cli *cli);
int vts_cmd_openapi(vts_cli *cli);
int vts_cmd_check_config(vts_cli *cli);
int vts_cmd_version(vts_cli *cli);
int vts_cmd_man(vts_cli *cli);

#endif
