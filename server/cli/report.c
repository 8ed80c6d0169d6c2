/* How the command line speaks: one line on stderr for what went wrong, stdout for what was asked for. Exit codes come
 * from the same rows as the HTTP codes. */
#include "server/cli/cli.h"

#include "server/wire/wire.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int vts_report(const char *where, const vt_error *err)
{
    const vts_problem_row *row = vts_problem_row_of(vts_problem_of_status(err->status));
    fprintf(stderr, "vitral: %s%s%s\n", where ? where : "", where ? ": " : "", err->msg[0] ? err->msg : row->title);
    if (err->allowed[0] && !strstr(err->msg, err->allowed))
        fprintf(stderr, "vitral: allowed: %s\n", err->allowed);
    return row->exit_code;
}

int vts_usage(const vts_cli *cli, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "vitral %s: ", cli->command->name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\nvitral %s: `vitral help %s` shows its options\n", cli->command->name, cli->command->name);
    return VTS_EXIT_USAGE;
}

bool vts_prints_json(const vts_cli *cli)
{
    return cli->json || (!cli->text && !isatty(STDOUT_FILENO));
}

int vts_print_own(char *text, size_t size)
{
    if (!text) {
        fputs("vitral: out of memory\n", stderr);
        return VTS_EXIT_SOME;
    }
    fwrite(text, 1, size, stdout); /* a failure is seen at the last flush */
    fputc('\n', stdout);
    free(text);
    return VTS_EXIT_OK;
}

int vts_open_model(const vts_cli *cli, size_t k, vt_model **out)
{
    vt_error err = {0};
    if (vts_settings_open_model(out, k < cli->models_count ? cli->models[k] : NULL, &err) == VT_OK)
        return 0;
    if (strcmp(err.param, "model") == 0)
        return vts_usage(cli, "%s", err.msg);
    return vts_report(NULL, &err);
}

/* Whoever types it wants it, also where it is slower. Without the instructions the request says why not. */
static bool wants_bf16(const vts_cli *cli)
{
    for (size_t k = 0; k < cli->pairs_count; k++)
        if (strcmp(cli->pairs[k].name, "precision") == 0 && strcmp(cli->pairs[k].value, "bf16") == 0)
            return vt_model_can_bf16();
    return false;
}

int vts_open_model_to_run(const vts_cli *cli, size_t k, vt_model **out)
{
    vt_error err = {0};
    const int code = vts_open_model(cli, k, out);
    if (code)
        return code;
    vt_status st = vts_settings_backend(*out, VTS_BACKEND_AUTO, 1, &err);
    if (st == VT_OK && wants_bf16(cli))
        st = vt_model_pack_bf16(*out, &err);
    if (st == VT_OK)
        return 0;
    vts_report(NULL, &err);
    vt_model_close(*out);
    *out = NULL;
    return VTS_EXIT_USAGE;
}
