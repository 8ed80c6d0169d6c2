/* vitral evaluate: every metric of every method on many pictures, as a table.
 *
 * A picture is one request, or several where there are more methods than one takes; the floors come with the first.
 * Threads take the next picture; a finished one waits until those before it are in the file, so the files are the same
 * for any --jobs. The mutex guards the next index, the flags and the evaluation; requests and model are const. */
#include "server/cli/cli.h"
#include "server/cli/evaluation.h"

#include "vitral/hash.h"
#include "vitral/version.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNKS_MAX = 16, CHUNK = 16, NAMES_MAX = 256, PATH_BYTES = 4096 };

static const char metrics_by_default[] = "deletion,insertion,saco";
static const char *const floor_names[] = {"random", "edge"};

/* ---- pictures ---- */

typedef struct files {
    char **paths;
    size_t count, room;
} files;

static bool add_file(files *f, const char *path)
{
    if (f->count == f->room) {
        const size_t room = f->room ? 2 * f->room : 64;
        char **grown = realloc(f->paths, room * sizeof *grown);
        if (!grown)
            return false;
        f->paths = grown;
        f->room = room;
    }
    return (f->paths[f->count] = strdup(path)) && ++f->count;
}

static void free_files(files *f)
{
    for (size_t k = 0; k < f->count; k++)
        free(f->paths[k]);
    free(f->paths);
}

static bool is_picture(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t k = 0; dot && dot != name && k < VT_COUNT(endings); k++)
        if (strcasecmp(dot, endings[k]) == 0)
            return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The pictures of a folder by name, or the file itself. 0 or an exit code, said. */
static int add_word(const vts_cli *cli, files *f, const char *word)
{
    struct stat info;
    char path[PATH_BYTES];
    if (stat(word, &info) != 0)
        return vts_usage(cli, "%s: %s", word, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return add_file(f, word) ? 0 : vts_usage(cli, "no memory for the names");
    const size_t first = f->count, length = strlen(word);
    DIR *folder = opendir(word);
    bool room = true;
    if (!folder)
        return vts_usage(cli, "%s: %s", word, strerror(errno));
    for (const struct dirent *entry; room && (entry = readdir(folder));) {
        const int n =
            snprintf(path, sizeof path, "%s%s%s", word, length && word[length - 1] == '/' ? "" : "/", entry->d_name);
        if (is_picture(entry->d_name))
            room = n > 0 && (size_t)n < sizeof path && add_file(f, path);
    }
    closedir(folder);
    if (!room)
        return vts_usage(cli, "no memory for the names in %s", word);
    if (f->count > first)
        qsort(f->paths + first, f->count - first, sizeof *f->paths, by_bytes);
    return 0;
}

/* ---- masks ---- */

/* FOLDER/STEM.png of each picture, in their order; every one is there, and belongs to one picture. 0 or an exit code, said. */
static int find_masks(const vts_cli *cli, const files *pictures, files *masks)
{
    char path[PATH_BYTES];
    struct stat info;
    for (size_t k = 0; k < pictures->count; k++) {
        const char *picture = pictures->paths[k], *slash = strrchr(picture, '/');
        const char *name = slash ? slash + 1 : picture, *dot = strrchr(name, '.');
        const int stem = (int)(dot && dot != name ? (size_t)(dot - name) : strlen(name));
        const int n = snprintf(path, sizeof path, "%s/%.*s.png", cli->mask, stem, name);
        if (n < 0 || (size_t)n >= sizeof path || !add_file(masks, path))
            return vts_usage(cli, "no memory for the names in %s", cli->mask);
        if (stat(path, &info) != 0)
            return vts_usage(cli, "%s has no mask: %s: %s", picture, path, strerror(errno));
        if (!S_ISREG(info.st_mode))
            return vts_usage(cli, "%s has no mask: %s is no file", picture, path);
        for (size_t j = 0; j < k; j++)
            if (strcmp(masks->paths[j], path) == 0)
                return vts_usage(cli, "%s and %s would share the mask %s", pictures->paths[j], picture, path);
    }
    return 0;
}

/* ---- methods and metrics ---- */

typedef struct plan {
    const vts_cli *cli;
    vt_model *model;
    const char *methods[NAMES_MAX];
    size_t methods_count, floors; /* with the floors, and how many of them */
    const vt_metric *metrics[64];
    size_t metrics_count;
    vt_request *requests[CHUNKS_MAX];
    size_t requests_count;
    char *names; /* storage of the methods' names */
    uint64_t seed;
} plan;

static const char *pair_of(const vts_cli *cli, const char *name)
{
    for (size_t k = 0; k < cli->pairs_count; k++)
        if (strcmp(cli->pairs[k].name, name) == 0)
            return cli->pairs[k].value;
    return NULL;
}

static int split_methods(plan *p, const char *text)
{
    if (!(p->names = strdup(text)))
        return vts_usage(p->cli, "no memory for the methods");
    char *at = p->names;
    for (;;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        if (p->methods_count + VT_COUNT(floor_names) >= CHUNKS_MAX * CHUNK)
            return vts_usage(p->cli, "more than %d methods", CHUNKS_MAX * CHUNK);
        for (size_t k = 0; k < p->methods_count; k++) /* in one request it would be refused */
            if (strcmp(p->methods[k], at) == 0)
                return vts_usage(p->cli, "method %s is named twice", at);
        p->methods[p->methods_count++] = at;
        if (!comma)
            return 0;
        at = comma + 1;
    }
}

/* Every method that explains pictures and that this model serves with the defaults. */
static void all_methods(plan *p)
{
    const vt_pair texts = {"texts", pair_of(p->cli, "texts")};
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *x = vt_explainer_at(k);
        const vt_pair pairs[] = {{"method", x->name}, texts};
        vt_limits limits = vt_limits_default;
        vt_request *request = NULL;
        vt_error err = {0};
        limits.cost_max = 1e12;
        limits.maps_max = SIZE_MAX;
        if (!(x->yields & VT_YIELDS_NO_IMAGE) &&
            vt_request_open(&request, p->model, &limits, pairs, texts.value ? 2 : 1, 0, &err) == VT_OK)
            p->methods[p->methods_count++] = x->name;
        vt_request_close(request);
    }
}

static bool chunk_has(const plan *p, size_t first, size_t end, const char *name)
{
    for (size_t m = first; m < end; m++) {
        const vt_explainer *x = vt_explainer_find(p->methods[m]);
        if (x && vt_param_find(x->params, x->params_count, name))
            return true;
    }
    return false;
}

/* The pairs of the command line that belong to methods first ... end - 1, and what an evaluation adds. */
static size_t chunk_pairs(const plan *p, size_t first, size_t end, const char *methods, vt_pair *out)
{
    size_t common_count, n = 0;
    const vt_param *common = vt_common_params(&common_count);
    out[n++] = (vt_pair){"method", methods};
    if (!pair_of(p->cli, "metrics"))
        out[n++] = (vt_pair){"metrics", metrics_by_default};
    out[n++] = (vt_pair){"output", "values"}; /* no picture is drawn */
    if (first > 0)
        out[n++] = (vt_pair){"random_maps", "0"}; /* the first has them */
    for (size_t k = 0; k < p->cli->pairs_count; k++) {
        const vt_pair *pair = &p->cli->pairs[k];
        const bool everywhere = vt_param_find(common, common_count, pair->name) || strchr(pair->name, '.');
        if (strcmp(pair->name, "method") == 0 || strcmp(pair->name, "output") == 0 ||
            (first > 0 && strcmp(pair->name, "random_maps") == 0))
            continue;
        if (everywhere || chunk_has(p, first, end, pair->name) || !chunk_has(p, 0, p->methods_count, pair->name))
            out[n++] = *pair;
    }
    return n;
}

static int open_requests(plan *p)
{
    vt_pair *pairs = calloc(p->cli->pairs_count + 4, sizeof *pairs);
    vt_limits limits = vt_limits_default;
    int code = 0;
    if (!pairs)
        return vts_usage(p->cli, "no memory for the requests");
    limits.cost_max = 1e12; /* as for vitral explain */
    limits.values_max = UINT64_MAX;
    for (size_t first = 0, end; code == 0 && first < p->methods_count; first = end) {
        char methods[CHUNK * 64] = "";
        size_t used = 0;
        vt_error err = {0};
        end = first + CHUNK < p->methods_count ? first + CHUNK : p->methods_count;
        for (size_t m = first; m < end; m++)
            used +=
                (size_t)snprintf(methods + used, sizeof methods - used, "%s%.60s", m > first ? "," : "", p->methods[m]);
        const size_t count = chunk_pairs(p, first, end, methods, pairs);
        if (vt_request_open(&p->requests[p->requests_count], p->model, &limits, pairs, count,
                            p->cli->mask ? VT_REQUEST_MASK : 0, &err) != VT_OK) {
            vts_report(NULL, &err);
            code = VTS_EXIT_USAGE;
        } else {
            p->requests_count++;
        }
    }
    free(pairs);
    return code;
}

/* In the order of the registry, whatever the order they were named in. */
static int find_metrics(plan *p)
{
    const char *text = pair_of(p->cli, "metrics") ? pair_of(p->cli, "metrics") : metrics_by_default;
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const size_t n = strlen(vt_metric_names[k]);
        for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            if (strncmp(at, vt_metric_names[k], n) == 0 && (at[n] == ',' || !at[n])) {
                p->metrics[p->metrics_count++] = vt_metric_at(k);
                break;
            }
    }
    return p->metrics_count ? 0 : vts_usage(p->cli, "metrics=none leaves nothing to evaluate");
}

static int make_plan(plan *p)
{
    const char *methods = pair_of(p->cli, "method");
    int code = 0;
    if (methods)
        code = split_methods(p, methods);
    else
        all_methods(p);
    if (code == 0)
        code = open_requests(p);
    if (code == 0)
        code = find_metrics(p);
    if (code == 0 && p->methods_count > 1)
        for (p->floors = 0; p->floors < VT_COUNT(floor_names); p->floors++)
            p->methods[p->methods_count++] = floor_names[p->floors];
    return code;
}

/* ---- one picture ---- */

typedef struct work {
    const plan *p;
    vts_evaluation e;
    char **masks; /* (pictures) files, or NULL */
    bool *done;   /* (pictures) */
    size_t arena_bytes, next;
    bool bar;
    vt_error fault; /* of the files: everybody stops */
    pthread_mutex_t lock;
} work;

static size_t row_of(const plan *p, const char *method)
{
    for (size_t m = 0; m < p->methods_count; m++)
        if (strcmp(p->methods[m], method) == 0)
            return m;
    return p->methods_count;
}

/* Mean over the maps of a method of one metric; what is undefined does not count. */
static double mean_of(const vt_result *result, const char *method, const vt_metric *metric)
{
    double sum = 0.0;
    size_t count = 0;
    for (size_t k = 0; k < result->maps_count; k++) {
        const vt_map *map = &result->maps[k];
        for (size_t j = 0; strcmp(map->method->name, method) == 0 && j < map->metrics_count; j++)
            if (map->metrics[j].metric == metric && isfinite(map->metrics[j].value)) {
                sum += map->metrics[j].value;
                count++;
            }
    }
    return count ? sum / (double)count : (double)NAN;
}

/* values (methods, metrics) of what one request measured. */
static void take_result(const plan *p, size_t chunk, const vt_result *result, double *values)
{
    const size_t first = chunk * CHUNK, end = first + CHUNK;
    for (size_t m = first; m < end && m + p->floors < p->methods_count; m++)
        for (size_t k = 0; k < p->metrics_count; k++)
            values[m * p->metrics_count + k] = mean_of(result, p->methods[m], p->metrics[k]);
    for (size_t s = 0; chunk == 0 && s < result->standings_count; s++)
        for (size_t j = 0; j < result->standings[s].count; j++) {
            const vt_place_taken *place = &result->standings[s].places[j];
            for (size_t k = 0; place->is_floor && k < p->metrics_count; k++)
                if (p->metrics[k] == result->standings[s].metric)
                    values[row_of(p, place->method) * p->metrics_count + k] = place->value;
        }
}

static vt_status run_picture(work *w, size_t k, vt_arena *arena, vt_error *err)
{
    const plan *p = w->p;
    unsigned char *bytes = NULL, *mask = NULL;
    size_t size = 0, mask_size = 0;
    double *values = w->e.values + k * p->methods_count * p->metrics_count;
    vt_status st = vts_read_file(w->e.pictures[k], &bytes, &size, err);
    if (st == VT_OK && w->masks)
        st = vts_read_file(w->masks[k], &mask, &mask_size, err);
    const vt_files sent = {.picture = bytes, .picture_size = size, .mask = mask, .mask_size = mask_size};
    for (size_t c = 0; c < p->requests_count && st == VT_OK; c++) {
        const vt_result *result = NULL;
        vt_arena_reset(arena, SIZE_MAX);
        st = vt_run_files(p->requests[c], &sent, arena, NULL, &result, err);
        if (st == VT_OK)
            take_result(p, c, result, values);
        for (size_t m = 0; st == VT_OK && c == 0 && m < result->maps_count && w->e.targets[k] < 0; m++)
            w->e.targets[k] = result->maps[m].has_target ? result->maps[m].target.index : -1;
        if (st == VT_OK && c == 0 && w->e.targets[k] < 0 && result->predictions_count && !pair_of(p->cli, "class"))
            w->e.targets[k] = result->predictions[0].index; /* methods of no class are measured with it */
    }
    free(mask);
    free(bytes);
    return st;
}

/* ---- all of them ---- */

static void tell(const work *w, const char *name)
{
    if (w->bar)
        fprintf(stderr, "\r\033[K%zu/%zu %s", w->e.written, w->e.pictures_count, name);
    else if (!w->p->cli->quiet)
        fprintf(stderr, "%zu/%zu %s\n", w->e.written, w->e.pictures_count, name);
}

/* Under the lock: what is finished and next goes into the file. */
static void append_finished(work *w)
{
    while (w->fault.status == VT_OK && w->e.written < w->e.pictures_count && w->done[w->e.written]) {
        const size_t k = w->e.written;
        if (w->e.faults[k])
            fprintf(stderr, "%svitral: %s: %s\n", w->bar ? "\r\033[K" : "", w->e.pictures[k], w->e.faults[k]);
        if (vts_evaluation_append(&w->e, &w->fault) == VT_OK)
            tell(w, w->e.pictures[k]);
    }
}

static void *run_worker(void *host)
{
    work *w = host;
    vt_arena *arena = NULL;
    vt_error err = {0};
    const vt_status opened = vt_arena_open(&arena, w->arena_bytes, &err);
    pthread_mutex_lock(&w->lock);
    if (opened != VT_OK)
        w->fault = err;
    while (w->fault.status == VT_OK && w->next < w->e.pictures_count) {
        const size_t k = w->next++;
        pthread_mutex_unlock(&w->lock);
        err = (vt_error){0};
        const vt_status st = run_picture(w, k, arena, &err);
        char *fault = st == VT_OK ? NULL : strdup(err.msg[0] ? err.msg : "failed");
        pthread_mutex_lock(&w->lock);
        if (st == VT_E_NOMEM || (st != VT_OK && !fault))
            w->fault = err; /* not the picture's fault: nothing of it is written down */
        w->e.faults[k] = fault;
        w->done[k] = true;
        append_finished(w);
    }
    pthread_mutex_unlock(&w->lock);
    vt_arena_close(arena);
    return NULL;
}

static void run_workers(work *w)
{
    pthread_t ids[VTS_JOBS_MAX];
    const size_t left = w->e.pictures_count - w->next, jobs = (size_t)w->p->cli->jobs;
    size_t started = 0;
    while (started + 1 < (jobs < left ? jobs : left) && pthread_create(&ids[started], NULL, run_worker, w) == 0)
        started++;
    run_worker(w);
    for (size_t k = 0; k < started; k++)
        pthread_join(ids[k], NULL);
    if (w->bar)
        fputc('\n', stderr);
}

static void write_digests(FILE *to, const files *f)
{
    char hex[65];
    for (size_t k = 0; k < f->count; k++) {
        unsigned char *bytes = NULL;
        size_t n = 0;
        uint8_t digest[32];
        vt_sha256 hash;
        vt_sha256_init(&hash);
        if (vts_read_file(f->paths[k], &bytes, &n, NULL) == VT_OK) /* one that cannot be read has its own line later */
            vt_sha256_update(&hash, bytes, n);
        free(bytes);
        vt_sha256_final(&hash, digest);
        vt_sha256_hex(digest, hex);
        fprintf(to, "%s %s\n", hex, f->paths[k]);
    }
}

/* What evaluation.key holds: all that the numbers depend on. malloc'ed, or NULL. */
static char *make_key(const plan *p, const files *f, const files *masks)
{
    const vt_model_info *info = vt_model_get_info(p->model);
    char *text = NULL, hex[65];
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    vt_sha256_hex(info->fingerprint, hex);
    fprintf(to, "vitral %s\nmodel %s %s\n", VT_VERSION, info->id, hex);
    for (size_t c = 0; c < p->requests_count; c++)
        fprintf(to, "%s", vt_request_canonical(p->requests[c]));
    write_digests(to, f);
    write_digests(to, masks);
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static bool make_room(work *w, const files *f)
{
    const size_t values = w->p->methods_count * w->p->metrics_count;
    w->e.values = calloc(f->count * values + 1, sizeof *w->e.values);
    w->e.targets = calloc(f->count + 1, sizeof *w->e.targets);
    w->e.faults = calloc(f->count + 1, sizeof *w->e.faults);
    w->done = calloc(f->count + 1, sizeof *w->done);
    if (!w->e.values || !w->e.targets || !w->e.faults || !w->done)
        return false;
    for (size_t k = 0; k < f->count * values; k++)
        w->e.values[k] = (double)NAN;
    for (size_t k = 0; k < f->count; k++)
        w->e.targets[k] = -1;
    return true;
}

static int evaluate(const plan *p, const files *f, const files *masks)
{
    work w = {.p = p,
              .e = {.folder = p->cli->out,
                    .pictures = (const char *const *)f->paths,
                    .methods = p->methods,
                    .metrics = p->metrics,
                    .pictures_count = f->count,
                    .methods_count = p->methods_count,
                    .metrics_count = p->metrics_count,
                    .floors = p->floors},
              .masks = masks->paths,
              .bar = !p->cli->quiet && isatty(STDERR_FILENO),
              .lock = PTHREAD_MUTEX_INITIALIZER};
    char *key = make_key(p, f, masks);
    int code = VTS_EXIT_OK;

    for (size_t c = 0; c < p->requests_count; c++) {
        const size_t bytes = vt_request_bytes(p->requests[c], vt_limits_default.pixels_max);
        w.arena_bytes = bytes > w.arena_bytes ? bytes : w.arena_bytes;
    }
    if (!key || !make_room(&w, f))
        code = vts_usage(p->cli, "no memory for %zu pictures", f->count);
    else if (vts_evaluation_open(&w.e, key, &w.fault) != VT_OK)
        code = vts_report(NULL, &w.fault);
    if (code == 0) {
        w.next = w.e.written;
        if (w.next && !p->cli->quiet)
            fprintf(stderr, "%zu of %zu pictures are known\n", w.next, f->count);
        run_workers(&w);
        const vt_status st = w.fault.status == VT_OK
                                 ? vts_evaluation_finish(&w.e, vt_model_get_info(p->model), p->seed, &w.fault)
                                 : w.fault.status;
        code = st != VT_OK ? vts_report(NULL, &w.fault) : vts_evaluation_faults(&w.e) ? VTS_EXIT_SOME : 0;
    }
    vts_evaluation_close(&w.e);
    for (size_t k = 0; w.e.faults && k < f->count; k++)
        free(w.e.faults[k]);
    free(w.e.faults);
    free(w.e.targets);
    free(w.e.values);
    free(w.done);
    free(key);
    pthread_mutex_destroy(&w.lock);
    return code;
}

int vts_cmd_evaluate(vts_cli *cli)
{
    plan p = {.cli = cli};
    files f = {.count = 0}, masks = {.count = 0};
    vt_error err = {0};
    int code = 0;

    if (!cli->out)
        return vts_usage(cli, "where to? -o DIR gets evaluation.csv, evaluation.json and evaluation.md");
    for (size_t k = 0; k < cli->words_count && code == 0; k++)
        code = add_word(cli, &f, cli->words[k]);
    if (code == 0 && f.count == 0)
        code = vts_usage(cli, "there is no picture in %s", cli->words[0]);
    if (code == 0 && cli->mask)
        code = find_masks(cli, &f, &masks);
    if (code == 0)
        code = vts_open_model_to_run(cli, 0, &p.model);
    if (code == 0) {
        vt_set_blas_threads(1);
        if (pair_of(cli, "seed"))
            p.seed = strtoull(pair_of(cli, "seed"), NULL, 10); /* checked where the request is opened */
        code = make_plan(&p);
    }
    if (code == 0 && vts_make_folder(cli->out, &err) != VT_OK)
        code = vts_report(NULL, &err);
    if (code == 0)
        code = evaluate(&p, &f, &masks);
    for (size_t c = 0; c < p.requests_count; c++)
        vt_request_close(p.requests[c]);
    vt_model_close(p.model);
    free_files(&f);
    free_files(&masks);
    free(p.names);
    return code;
}
