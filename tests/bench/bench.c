/* The bench: one table of what the engine and the service take, against what the machine can do and against others.
 *
 *   bench [MODEL [PICTURE]]     default: the embedded model and static/samples/coffee.jpg; run from the project root
 *
 * The process that is started only conducts and reports. It starts itself once with OPENBLAS_* as they are and, when
 * there are any, once without them: OpenBLAS reads them when it is loaded. Both obey the rule of the programs, which
 * choose kernels for themselves where nobody did.
 *
 *   VITRAL_BUILD   where vitrald is (default build)
 *   BENCH_PARTS    only these of passes,picture,methods,service
 *   BENCH_METHODS  only these methods
 *   BENCH_JSON     file for the same figures, one JSON object a line
 *   PEERS_PYTHON, PEERS   a Python and a peers.py: measured before and after, with the model and the folder of the
 * picture */
#include "engine/tensor/gemm.h"
#include "server/config/config.h"
#include "tests/bench/measure/measure.h"
#include "tests/bench/measure/row.h"
#include "tests/bench/report/rows.h"
#include "tests/bench/report/table.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static bool wanted(const char *part)
{
    const char *list = getenv("BENCH_PARTS"), *at = list ? strstr(list, part) : NULL;
    return !list || !*list || at;
}

static void about(const char *name, const char *is)
{
    json_t *row = bench_row("about", name, NULL, NULL);
    bench_row_text(row, "is", is);
    bench_row_write(row);
}

static int measure(const char *model, const char *picture)
{
    bench_subject subjects[BENCH_SUBJECTS];
    bench_scene scene;
    size_t count = 0;
    char text[256];

    vt_set_blas_threads(1);
    bench_subject_open(&subjects[count++], model, false);
    if (vt_model_can_pack())
        bench_subject_open(&subjects[count++], model, true);
    const vt_model_info *info = subjects[0].info;
    bench_scene_open(&scene, info, picture);
    snprintf(text, sizeof text, "%s, %zu tokens, width %zu, %zu blocks", info->architecture, info->tokens, info->width,
             info->layers);
    about("model", text);
    about("picture", picture);
    for (size_t s = 0; s < count; s++)
        about(subjects[s].backend, subjects[s].kernels);
    if (wanted("passes"))
        bench_passes(subjects, count, &scene);
    if (wanted("picture"))
        bench_picture(subjects, count, &scene);
    if (wanted("methods"))
        bench_methods(subjects, count, &scene);
    if (wanted("passes") && wanted("methods")) /* minutes later: what is compared with others is the mean of both */
        bench_passes(subjects, count, &scene);
    for (size_t s = 0; s < count; s++)
        bench_subject_close(&subjects[s]);
    if (wanted("service"))
        bench_service(model, &scene);
    bench_scene_close(&scene);
    return 0;
}

/* "OPENBLAS_A=1 OPENBLAS_B=2" or "unset". */
static const char *openblas_says(void)
{
    static char text[512];
    size_t n = 0;
    for (size_t k = 0; environ[k]; k++)
        if (strncmp(environ[k], "OPENBLAS_", 9) == 0 && n + strlen(environ[k]) + 2 < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", environ[k]);
    return n ? text : "unset";
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

/* Leaves the folder of an absolute path, and gives the last name. */
static const char *cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    return slash + 1;
}

/* Runs peers.py for this model alone. Its exported nets stay in `work` for the second time. */
static void measure_peers(json_t *rows, const char *model, const char *picture, const char *work, const char *run)
{
    const char *python = getenv("PEERS_PYTHON"), *script = getenv("PEERS");
    char *models, *pictures, json[1100];
    if (!python || !*python || !script || !*script)
        return;
    if (!model) {
        fprintf(stderr, "bench: no peers: they need a model in a folder\n");
        return;
    }
    models = realpath(model, NULL);
    pictures = realpath(picture, NULL);
    if (!models || !pictures) {
        perror(models ? picture : model);
        exit(2);
    }
    const char *arch = cut_name(models);
    cut_name(pictures);
    snprintf(json, sizeof json, "%s/%s.jsonl", work, run);
    const char *argv[] = {python,     "-B",       script, models,   pictures, "--arch", arch,  "--threads",
                          "1",        "--batch",  "1",    "--only", "torch",  "--only", "ort", "--only",
                          "openvino", "--budget", "1",    "--work", work,     "--json", json,  NULL};
    fprintf(stderr, "peers, %s ...\n", run);
    json_t *unread = json_array(); /* its own output holds the same */
    if (!bench_rows_of_program(unread, argv, run, false))
        fprintf(stderr, "bench: peers.py failed\n");
    json_decref(unread);
    free(models), free(pictures);
    bench_rows_of_peers(rows, json, run);
}

static void write_json(const json_t *rows)
{
    const char *path = getenv("BENCH_JSON");
    FILE *out = path && *path ? fopen(path, "w") : NULL;
    size_t k;
    const json_t *row;
    if (path && *path && !out)
        perror(path);
    if (!out)
        return;
    json_array_foreach(rows, k, row) if (json_dumpf(row, out, JSON_COMPACT | JSON_REAL_PRECISION(5)) == 0)
        fputc('\n', out);
    if (fclose(out) != 0)
        perror(path);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--measure") == 0) {
        vts_restart_for_blas(argv);
        return measure(*argv[2] ? argv[2] : NULL, argv[3]);
    }
    const char *model = argc > 1 && *argv[1] ? argv[1] : NULL;
    const char *picture = argc > 2 && *argv[2] ? argv[2] : "static/samples/coffee.jpg";
    const char *self[] = {"/proc/self/exe", "--measure", model ? model : "", picture, NULL};
    const char *runs[3] = {openblas_says(), NULL, NULL};
    const char *temporary = getenv("TMPDIR");
    char work[512];
    json_t *rows = json_array();

    snprintf(work, sizeof work, "%s/bench-XXXXXX", temporary && *temporary ? temporary : P_tmpdir);
    if (!mkdtemp(work)) {
        perror(work);
        return 2;
    }
    if (strcmp(runs[0], "unset") != 0)
        runs[1] = "unset";
    measure_peers(rows, model, picture, work, "before");
    bool good = true;
    for (size_t k = 0; runs[k] && good; k++)
        good = bench_rows_of_program(rows, self, runs[k], k > 0);
    if (good)
        measure_peers(rows, model, picture, work, "after");
    nftw(work, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    bench_table_print(rows, runs); /* of what there is */
    bench_bounds_print(rows, runs, model ? model : "");
    write_json(rows);
    if (!good)
        fprintf(stderr, "bench: a part failed, so not everything is there\n");
    json_decref(rows);
    return good ? 0 : 1;
}
