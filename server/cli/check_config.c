/* vitral check-config: reads the flags, variables and the file of the service as it would itself, and says what came
 * out. Nothing is started and nothing is changed. */
#include "server/cli/cli.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int show(const vts_settings *settings)
{
    size_t count;
    const vt_param *rows = vts_settings_table(&count);
    char value[VTS_MODELS_MAX * VT_TEXT_MAX];

    for (size_t k = 0; k < count; k++) {
        vts_settings_text(settings, k, value, sizeof value);
        printf("%-24s %-32s %s\n", rows[k].name, value[0] ? value : "-", vts_origin_names[settings->origins[k]]);
    }
    for (size_t k = 0; k < settings->warnings_count; k++)
        fprintf(stderr, "vitral: warning: %s\n", settings->warnings[k]);
    return VTS_EXIT_OK;
}

int vts_cmd_check_config(vts_cli *cli)
{
    vts_settings *settings = calloc(1, sizeof *settings);
    char **argv = calloc(cli->words_count + 2, sizeof *argv);
    vt_error err = {0};
    int code = VTS_EXIT_USAGE;

    if (!settings || !argv) {
        fputs("vitral: out of memory\n", stderr);
    } else {
        argv[0] = (char[]){"vitrald"};
        for (size_t k = 0; k < cli->words_count; k++)
            argv[k + 1] = (char *)(uintptr_t)cli->words[k]; /* read only in spite of the type, as for main */
        if (vts_settings_read(settings, (int)cli->words_count + 1, argv, environ, &err) != VT_OK ||
            vts_settings_settle(settings, "", &err) != VT_OK)
            vts_report(NULL, &err);
        else
            code = show(settings);
    }
    free(argv);
    free(settings);
    return code;
}
