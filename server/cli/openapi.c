/* vitral openapi: keeps the generated blocks of openapi.yaml true. The build calls --update, CI calls --check. */
#include "server/cli/cli.h"

#include "server/wire/wire.h"

#include <stdlib.h>
#include <string.h>

static int print_blocks(void)
{
    char *frame = NULL, *text = NULL;
    size_t frame_size = 0, size = 0;
    vt_error err = {0};
    FILE *to = open_memstream(&frame, &frame_size);
    const char *name;

    if (!to)
        return vts_print_own(NULL, 0);
    for (size_t k = 0; (name = vts_openapi_block(k)); k++)
        fprintf(to, "# BEGIN generated %s\n# END generated %s\n", name, name);
    if (fclose(to) != 0) {
        free(frame);
        return vts_print_own(NULL, 0);
    }
    const vt_status st = vts_openapi_update(&text, &size, frame, frame_size, &err);
    free(frame);
    return st == VT_OK ? vts_print_own(text, size) : vts_report(NULL, &err);
}

static size_t first_line_apart(const char *a, const char *b)
{
    size_t line = 1;
    for (; *a && *a == *b; a++, b++)
        line += *a == '\n';
    return line;
}

int vts_cmd_openapi(vts_cli *cli)
{
    const char *file = cli->update ? cli->update : cli->check;
    unsigned char *old = NULL;
    char *text = NULL;
    size_t old_size = 0, size = 0;
    vt_error err = {0};
    int code = VTS_EXIT_OK;

    if (cli->update && cli->check)
        return vts_usage(cli, "--update or --check, not both");
    if (!file)
        return print_blocks();
    if (vts_read_file(file, &old, &old_size, &err) != VT_OK ||
        vts_openapi_update(&text, &size, (const char *)old, old_size, &err) != VT_OK) {
        vts_report(file, &err);
        code = VTS_EXIT_USAGE;
    } else if (size != old_size || memcmp(text, old, size) != 0) {
        if (cli->check) {
            unsigned char *ended = realloc(old, old_size + 1); /* a NUL to compare up to */
            if (ended) {
                old = ended;
                old[old_size] = '\0';
                fprintf(stderr, "vitral: %s: line %zu differs from the tables; `make openapi` rewrites it\n", file,
                        first_line_apart(text, (const char *)old));
            }
            code = VTS_EXIT_SOME;
        } else {
            FILE *to = fopen(file, "wb");
            const bool written = to && fwrite(text, 1, size, to) == size;
            if ((to && fclose(to) != 0) || !written) {
                fprintf(stderr, "vitral: %s could not be written\n", file);
                code = VTS_EXIT_SOME;
            }
        }
    }
    free(old);
    free(text);
    return code;
}
