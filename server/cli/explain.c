/* vitral explain, vitral predict: the request comes from the flags, the work from batch.c.
 *
 * Limits of the service do not bind the owner of the machine: only the cost is set free, since pixels and maps bound
 * the memory. With -o pictures are wanted, whatever the number of maps. */
#include "server/cli/cli.h"

#include <stdlib.h>
#include <string.h>

static int run_request(vts_cli *cli, unsigned flags)
{
    vt_limits limits = vt_limits_default;
    vt_model *model = NULL;
    vt_request *request = NULL;
    vt_error err = {0};
    int code;

    code = vts_open_model_to_run(cli, 0, &model);
    if (code)
        return code;
    limits.cost_max = 1e12;
    vt_set_blas_threads(1); /* files run side by side, and the bits are those of the service */
    if (vt_request_open(&request, model, &limits, cli->pairs, cli->pairs_count, flags, &err) != VT_OK) {
        vts_report(NULL, &err);
        code = VTS_EXIT_USAGE;
    } else if (cli->words_count == 0 && vt_request_needs_image(request)) {
        code = vts_usage(cli, "FILE is missing");
    } else {
        code = vts_batch(cli, model, request, (flags & VT_REQUEST_PREDICT) != 0);
    }
    vt_request_close(request);
    vt_model_close(model);
    return code;
}

int vts_cmd_explain(vts_cli *cli)
{
    bool given = false;
    vt_error err = {0};

    if (!cli->out && !cli->json)
        return vts_usage(cli, "where to? -o DIR writes pictures and documents, --json prints the answer");
    if (cli->out && vts_make_folder(cli->out, &err) != VT_OK) {
        vts_report(NULL, &err);
        return VTS_EXIT_USAGE;
    }
    if (cli->mask && cli->words_count != 1)
        return vts_usage(cli, "--mask goes with one FILE, and there are %zu", cli->words_count);
    if (cli->mask && strcmp(cli->mask, "-") == 0 && strcmp(cli->words[0], "-") == 0)
        return vts_usage(cli, "standard input cannot be both the picture and the mask");
    if (cli->mask && vts_read_file(cli->mask, &cli->mask_data, &cli->mask_size, &err) != VT_OK)
        return vts_report(cli->mask, &err);
    for (size_t k = 0; k < cli->pairs_count; k++)
        given = given || strcmp(cli->pairs[k].name, "output") == 0;
    if (cli->out && !given) /* the parser left room for one more */
        cli->pairs[cli->pairs_count++] = (vt_pair){.name = "output", .value = "overlay,heatmap"};
    return run_request(cli, cli->mask ? VT_REQUEST_MASK : 0);
}

int vts_cmd_predict(vts_cli *cli)
{
    return run_request(cli, VT_REQUEST_PREDICT);
}
