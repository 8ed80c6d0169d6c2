/* Many files, some threads: each thread has its own arena and takes the next file; one request serves them all.
 *
 * Files finish in any order and are reported in the order of the command line: a finished one waits in its slot until
 * those before it are out. The mutex guards the next index, the slots and both output streams; the request and the
 * model are const. The thread count changes no number and no byte. A file that fails is said and does not stop the
 * others. */
#include "server/cli/cli.h"

#include "server/wire/wire.h"
#include "vitral/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 24 };

typedef struct slot {
    bool done;
    char *out; /* what goes to stdout, or NULL */
    size_t out_size;
    vt_error err; /* .status VT_OK: it went well */
    int exit_code;
} slot;

typedef struct batch {
    const vts_cli *cli;
    const vt_model *model;
    const vt_request *request;
    char **stems;
    bool predict, json, bar;
    size_t arena_bytes;

    pthread_mutex_t lock;
    size_t next, printed, failed; /* files given out, reported, failed */
    slot *slots;                  /* (words_count) */
    int worst;                    /* highest exit code of a failed file */
} batch;

/* ---- one file ---- */

static char *predict_text(const char *file, const vt_result *result, size_t *size)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, size);
    if (!to)
        return NULL;
    fprintf(to, "%s", file);
    for (size_t k = 0; k < result->predictions_count; k++) {
        const vt_prediction *p = &result->predictions[k];
        fprintf(to, "\n  %8.4f  %s (%d)", p->probability == p->probability ? p->probability : p->logit, p->label,
                p->index);
    }
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static char *explain_text(const char *file, const vt_result *result, size_t *size)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, size);
    if (!to)
        return NULL;
    fprintf(to, "%s: %zu map%s", file, result->maps_count, result->maps_count == 1 ? "" : "s");
    for (size_t k = 0; k < result->maps_count; k++) {
        const vt_map *map = &result->maps[k];
        char name[256];
        vts_map_name(name, sizeof name, "", map);
        fprintf(to, "\n  %s", name + 1);
        if (map->has_target)
            fprintf(to, "  %s", map->target.label);
        if (map->empty)
            fprintf(to, "  no evidence");
    }
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static vt_status write_maps(const batch *b, const char *stem, const vt_result *result, const char *json, size_t size,
                            vt_error *err)
{
    char name[1024];
    vt_status st = VT_OK;

    for (size_t k = 0; k < result->maps_count && st == VT_OK; k++) {
        const vt_map *map = &result->maps[k];
        vts_map_name(name, sizeof name, stem, map);
        if (map->overlay.size)
            st = vts_write_file(b->cli->out, name, ".overlay.png", map->overlay.data, map->overlay.size, err);
        if (st == VT_OK && map->heatmap.size)
            st = vts_write_file(b->cli->out, name, ".heatmap.png", map->heatmap.data, map->heatmap.size, err);
    }
    return st == VT_OK ? vts_write_file(b->cli->out, stem, ".json", json, size, err) : st;
}

static vt_status run_file(const batch *b, size_t k, vt_arena *arena, slot *s)
{
    const char *file = k < b->cli->words_count ? b->cli->words[k] : NULL; /* NULL: a method that needs no picture */
    unsigned char *bytes = NULL;
    size_t size = 0, json_size = 0;
    char image_id[7 + 65] = "sha256:", request_id[32], *json = NULL;
    const vt_result *result = NULL;
    vt_error *err = &s->err;
    vt_status st = VT_OK;

    snprintf(request_id, sizeof request_id, "cli-%zu", k + 1);
    s->exit_code = VTS_EXIT_SOME; /* of a file that cannot be read or written */
    if (file) {
        vt_sha256 hash;
        uint8_t digest[32];
        st = vts_read_file(file, &bytes, &size, err);
        if (st == VT_OK) {
            vt_sha256_init(&hash);
            vt_sha256_update(&hash, bytes, size);
            vt_sha256_final(&hash, digest);
            vt_sha256_hex(digest, image_id + 7);
        }
    }
    if (st == VT_OK) {
        vt_arena_reset(arena, SIZE_MAX);
        const vt_files files = {
            .picture = bytes, .picture_size = size, .mask = b->cli->mask_data, .mask_size = b->cli->mask_size};
        st = vt_run_files(b->request, &files, arena, NULL, &result, err);
        if (st != VT_OK)
            s->exit_code = vts_problem_row_of(vts_problem_of_status(st))->exit_code;
    }
    if (st == VT_OK) {
        const vts_envelope envelope = {.request_id = request_id,
                                       .model = vt_model_get_info(b->model)->id,
                                       .image_id = file ? image_id : NULL,
                                       .total_ms = result->timing.total};
        json = (b->predict ? vts_json_predict : vts_json_explain)(result, &envelope, false, &json_size);
        if (!json)
            st = vt_error_set(err, VT_E_NOMEM, "", "no memory for the answer");
    }
    if (st == VT_OK && b->cli->out)
        st = write_maps(b, file ? b->stems[k] : "none", result, json, json_size, err);
    if (st == VT_OK && b->json) {
        s->out = json;
        s->out_size = json_size;
        json = NULL;
    } else if (st == VT_OK && (b->predict || !b->bar)) {
        s->out = (b->predict ? predict_text : explain_text)(file ? file : "no picture", result, &s->out_size);
    } else if (b->json) {
        s->out = vts_json_problem(st == VT_E_IO ? VTS_P_NOT_FOUND : vts_problem_of_status(st), err, request_id, 0,
                                  &s->out_size); /* here a file that cannot be read is the caller's matter */
    }
    free(json);
    free(bytes);
    return st;
}

/* ---- reporting, under the lock ---- */

static void draw_bar(const batch *b)
{
    const size_t total = b->cli->words_count;
    const size_t filled = b->printed * BAR / total;
    char bar[BAR + 1];
    for (size_t k = 0; k < BAR; k++)
        bar[k] = k < filled ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, "\r[%s] %zu/%zu", bar, b->printed, total);
    if (b->failed)
        fprintf(stderr, ", %zu failed", b->failed);
    fflush(stderr);
}

static void report_finished(batch *b, size_t count)
{
    while (b->printed < count && b->slots[b->printed].done) {
        slot *s = &b->slots[b->printed];
        if (b->bar)
            fputs("\r\033[K", stderr);
        if (s->err.status != VT_OK) {
            vts_report(b->printed < b->cli->words_count ? b->cli->words[b->printed] : NULL, &s->err);
            b->failed++;
            if (s->exit_code > b->worst)
                b->worst = s->exit_code;
        }
        if (s->out)
            vts_print_own(s->out, s->out_size);
        s->out = NULL;
        b->printed++;
        if (b->bar)
            draw_bar(b);
    }
}

static void *work(void *host)
{
    batch *b = host;
    const size_t count = b->cli->words_count ? b->cli->words_count : 1;
    vt_arena *arena = NULL;
    vt_error err = {0};
    const vt_status opened = vt_arena_open(&arena, b->arena_bytes, &err);

    pthread_mutex_lock(&b->lock);
    while (b->next < count) {
        const size_t k = b->next++;
        slot *s = &b->slots[k];
        pthread_mutex_unlock(&b->lock);
        if (opened != VT_OK) {
            s->err = err;
            s->exit_code = VTS_EXIT_SOME;
        } else if (run_file(b, k, arena, s) == VT_OK) {
            s->err.status = VT_OK;
        }
        pthread_mutex_lock(&b->lock);
        s->done = true;
        report_finished(b, count);
    }
    pthread_mutex_unlock(&b->lock);
    vt_arena_close(arena);
    return NULL;
}

int vts_batch(const vts_cli *cli, const vt_model *model, const vt_request *request, bool predict)
{
    const size_t count = cli->words_count ? cli->words_count : 1;
    const size_t threads = (size_t)cli->jobs < count ? (size_t)cli->jobs : count;
    pthread_t ids[VTS_JOBS_MAX];
    size_t started = 0;
    batch b = {.cli = cli,
               .model = model,
               .request = request,
               .predict = predict,
               .json = predict ? vts_prints_json(cli) : cli->json,
               .arena_bytes = vt_request_bytes(request, vt_limits_default.pixels_max),
               .lock = PTHREAD_MUTEX_INITIALIZER,
               .stems = vts_stems(cli->words, cli->words_count),
               .slots = calloc(count, sizeof *b.slots)};

    b.bar = cli->words_count > 1 && !cli->quiet && isatty(STDERR_FILENO);
    if (!b.stems || !b.slots) {
        fputs("vitral: out of memory\n", stderr);
        b.worst = VTS_EXIT_SOME;
        goto out;
    }
    /* the first worker is this thread, so that one job needs no thread at all */
    while (started + 1 < threads && pthread_create(&ids[started], NULL, work, &b) == 0)
        started++;
    work(&b);
    for (size_t k = 0; k < started; k++)
        pthread_join(ids[k], NULL);
    if (b.bar)
        fputc('\n', stderr);
    if (b.failed && b.failed < count)
        b.worst = VTS_EXIT_SOME;
out:
    vts_stems_free(b.stems, cli->words_count);
    free(b.slots);
    pthread_mutex_destroy(&b.lock);
    return b.worst;
}
