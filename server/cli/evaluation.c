#include "server/cli/evaluation.h"

#include "server/cli/cli.h"
#include "server/wire/writer.h"
#include "vitral/version.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, NUMBER_BYTES = 32 };

static const char header[] = "picture,target,method,metric,value,fault\n";

static double *value_at(const vts_evaluation *e, size_t picture, size_t method, size_t metric)
{
    return &e->values[(picture * e->methods_count + method) * e->metrics_count + metric];
}

/* ---- lines ---- */

/* RFC 4180: quotes where a comma, a quote or a line end would be misread. */
static void put_field(FILE *to, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', to);
        fputc(*text, to);
    }
    fputc('"', to);
}

static void put_picture(const vts_evaluation *e, size_t p, FILE *to)
{
    if (e->faults[p]) {
        put_field(to, e->pictures[p]);
        fputs(",,,,,", to);
        put_field(to, e->faults[p]);
        fputc('\n', to);
        return;
    }
    for (size_t k = 0; k < e->metrics_count; k++)
        for (size_t m = 0; m < e->methods_count; m++) {
            const double v = *value_at(e, p, m, k);
            put_field(to, e->pictures[p]);
            fputc(',', to);
            if (e->targets[p] >= 0)
                fprintf(to, "%d", e->targets[p]);
            fprintf(to, ",%s,%s,", e->methods[m], e->metrics[k]->name);
            if (isfinite(v))
                fprintf(to, "%.17g", v); /* the same number when it is read again */
            fputs(",\n", to);
        }
}

/* One field from *at; false at the end of the text or where it is no field. *at then stands on what ended it. */
static bool take_field(const char **at, char *out, size_t size)
{
    const char *s = *at;
    size_t n = 0;
    const bool quoted = *s == '"';
    s += quoted;
    for (;; s++) {
        if (!*s)
            return false;
        if (quoted && *s == '"') {
            if (s[1] != '"')
                break;
            s++;
        } else if (!quoted && (*s == ',' || *s == '\n')) {
            break;
        }
        if (n + 1 >= size)
            return false;
        out[n++] = *s;
    }
    out[n] = '\0';
    *at = s + quoted;
    return **at == ',' || **at == '\n';
}

/* A line of six fields; false where there is no whole one. */
static bool take_line(const char **at, char fields[6][PATH_BYTES])
{
    for (size_t k = 0; k < 6; k++) {
        if (!take_field(at, fields[k], PATH_BYTES) || (**at == '\n') != (k == 5))
            return false;
        ++*at;
    }
    return true;
}

static bool take_number(const char *text, double *out)
{
    char *end;
    *out = (double)NAN;
    if (!*text)
        return true;
    *out = strtod(text, &end);
    return !*end && isfinite(*out);
}

/* Reads picture p; false when it is not there as it would have been written. */
static bool take_picture(vts_evaluation *e, size_t p, const char **at, char fields[6][PATH_BYTES])
{
    const char *here = *at;
    if (!take_line(&here, fields) || strcmp(fields[0], e->pictures[p]) != 0)
        return false;
    if (fields[5][0]) {
        e->faults[p] = strdup(fields[5]);
        *at = here;
        return e->faults[p] != NULL;
    }
    here = *at;
    for (size_t k = 0; k < e->metrics_count; k++)
        for (size_t m = 0; m < e->methods_count; m++) {
            double target;
            if (!take_line(&here, fields) || strcmp(fields[0], e->pictures[p]) != 0 ||
                strcmp(fields[2], e->methods[m]) != 0 || strcmp(fields[3], e->metrics[k]->name) != 0 ||
                !take_number(fields[1], &target) || !take_number(fields[4], value_at(e, p, m, k)))
                return false;
            e->targets[p] = isnan(target) ? -1 : (int)target;
        }
    *at = here;
    return true;
}

/* ---- files ---- */

static vt_status path_of(char path[PATH_BYTES], const vts_evaluation *e, const char *name, vt_error *err)
{
    const int n = snprintf(path, PATH_BYTES, "%s/%s", e->folder, name);
    if (n < 0 || n >= PATH_BYTES)
        return vt_error_set(err, VT_E_IO, "", "the path of the folder is too long");
    return VT_OK;
}

static vt_status io_fault(const char *path, vt_error *err)
{
    return vt_error_set(err, VT_E_IO, "", "%s: %s", path, strerror(errno));
}

/* The text of a file of the folder with a NUL behind it, malloc'ed; *text NULL when there is none. */
static vt_status read_text(const char *path, char **text, size_t *size, vt_error *err)
{
    unsigned char *bytes = NULL;
    *text = NULL;
    *size = 0;
    if (access(path, F_OK) != 0)
        return VT_OK;
    const vt_status st = vts_read_file(path, &bytes, size, err);
    if (st != VT_OK)
        return st;
    char *grown = realloc(bytes, *size + 1);
    if (!grown) {
        free(bytes);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %s", path);
    }
    grown[*size] = '\0';
    *text = grown;
    return VT_OK;
}

/* Reads what is known; *keep: bytes of the file that stay. */
static vt_status read_known(vts_evaluation *e, const char *text, size_t *keep, vt_error *err)
{
    char(*fields)[PATH_BYTES] = calloc(6, sizeof *fields);
    const char *at = text;
    *keep = 0;
    if (!fields)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to read evaluation.csv");
    if (text && strncmp(text, header, sizeof header - 1) == 0) {
        at += sizeof header - 1;
        while (e->written < e->pictures_count && take_picture(e, e->written, &at, fields))
            e->written++;
        *keep = (size_t)(at - text);
    }
    free(fields);
    return VT_OK;
}

vt_status vts_evaluation_open(vts_evaluation *e, const char *key, vt_error *err)
{
    char key_path[PATH_BYTES], csv_path[PATH_BYTES], *known_key = NULL, *csv = NULL;
    size_t key_size, csv_size, keep = 0;
    vt_status st = path_of(key_path, e, "evaluation.key", err);

    e->written = 0;
    if (st == VT_OK)
        st = path_of(csv_path, e, "evaluation.csv", err);
    if (st == VT_OK)
        st = read_text(key_path, &known_key, &key_size, err);
    if (st == VT_OK)
        st = read_text(csv_path, &csv, &csv_size, err);
    if (st == VT_OK && known_key && strcmp(known_key, key) != 0)
        st = vt_error_set(err, VT_E_INVALID, "out",
                          "%s holds another evaluation: other pictures, methods, options, model or version", e->folder);
    if (st == VT_OK && !known_key && csv)
        st = vt_error_set(err, VT_E_INVALID, "out", "%s holds an evaluation.csv of unknown origin", e->folder);
    if (st == VT_OK && !known_key)
        st = vts_write_file(e->folder, "evaluation", ".key", key, strlen(key), err);
    if (st == VT_OK)
        st = read_known(e, csv, &keep, err);
    if (st == VT_OK && !(e->csv = fopen(csv_path, keep ? "r+b" : "wb")))
        st = io_fault(csv_path, err);
    if (st == VT_OK && keep && (ftruncate(fileno(e->csv), (off_t)keep) != 0 || fseek(e->csv, 0, SEEK_END) != 0))
        st = io_fault(csv_path, err);
    if (st == VT_OK && !keep && (fputs(header, e->csv) < 0 || fflush(e->csv) != 0))
        st = io_fault(csv_path, err);
    free(known_key);
    free(csv);
    return st;
}

vt_status vts_evaluation_append(vts_evaluation *e, vt_error *err)
{
    put_picture(e, e->written, e->csv);
    if (ferror(e->csv) || fflush(e->csv) != 0)
        return io_fault("evaluation.csv", err);
    e->written++;
    return VT_OK;
}

size_t vts_evaluation_faults(const vts_evaluation *e)
{
    size_t n = 0;
    for (size_t p = 0; p < e->pictures_count; p++)
        n += e->faults[p] != NULL;
    return n;
}

void vts_evaluation_close(vts_evaluation *e)
{
    if (e->csv)
        fclose(e->csv); /* every picture was flushed */
    e->csv = NULL;
}

/* ---- what comes out ---- */

typedef struct summary {
    double mean, std_error;
    size_t pictures, rank; /* with a value; 0 = none */
} summary;

static summary sum_up(const vts_evaluation *e, size_t method, size_t metric)
{
    summary s = {.mean = (double)NAN, .std_error = (double)NAN};
    double sum = 0.0, square = 0.0;
    for (size_t p = 0; p < e->pictures_count; p++) {
        const double v = e->faults[p] ? (double)NAN : *value_at(e, p, method, metric);
        sum += isfinite(v) ? v : 0.0;
        s.pictures += isfinite(v);
    }
    if (s.pictures == 0)
        return s;
    s.mean = sum / (double)s.pictures;
    for (size_t p = 0; p < e->pictures_count; p++) {
        const double v = e->faults[p] ? (double)NAN : *value_at(e, p, method, metric);
        square += isfinite(v) ? (v - s.mean) * (v - s.mean) : 0.0;
    }
    if (s.pictures > 1)
        s.std_error = sqrt(square / (double)(s.pictures - 1) / (double)s.pictures);
    return s;
}

/* out (methods, metrics) */
static void sum_up_all(const vts_evaluation *e, summary *out)
{
    for (size_t k = 0; k < e->metrics_count; k++) {
        const bool higher = (e->metrics[k]->flags & VT_METRIC_HIGHER_BETTER) != 0;
        for (size_t m = 0; m < e->methods_count; m++)
            out[m * e->metrics_count + k] = sum_up(e, m, k);
        for (size_t m = 0; m < e->methods_count; m++) {
            summary *s = &out[m * e->metrics_count + k];
            s->rank = s->pictures > 0;
            for (size_t j = 0; j < e->methods_count && s->rank; j++) {
                const summary *other = &out[j * e->metrics_count + k];
                s->rank += other->pictures > 0 && (higher ? other->mean > s->mean : other->mean < s->mean);
            }
        }
    }
}

static char *json_text(const vts_evaluation *e, const summary *sums, const vt_model_info *model,
                       unsigned long long seed, size_t *size)
{
    vts_writer w;
    vts_write_init(&w, true, 16384);
    vts_write_object(&w);
    vts_write_key_text(&w, "version", VT_VERSION);
    vts_write_key_text(&w, "model", model->id);
    vts_write_key_int(&w, "pictures", (long long)e->pictures_count);
    vts_write_key_int(&w, "failed", (long long)vts_evaluation_faults(e));
    vts_write_key(&w, "seed");
    vts_write_uint(&w, seed);
    vts_write_key(&w, "metrics");
    vts_write_array(&w);
    for (size_t k = 0; k < e->metrics_count; k++) {
        const vt_metric *metric = e->metrics[k];
        vts_write_object(&w);
        vts_write_key_text(&w, "name", metric->name);
        vts_write_key_text(&w, "better", metric->flags & VT_METRIC_HIGHER_BETTER ? "higher" : "lower");
        vts_write_key(&w, "methods");
        vts_write_array(&w);
        for (size_t m = 0; m < e->methods_count; m++) {
            const summary *s = &sums[m * e->metrics_count + k];
            vts_write_object(&w);
            vts_write_key_text(&w, "method", e->methods[m]);
            vts_write_key_bool(&w, "floor", m + e->floors >= e->methods_count);
            vts_write_key_real(&w, "mean", s->mean);
            vts_write_key_real(&w, "stderr", s->std_error);
            vts_write_key_int(&w, "pictures", (long long)s->pictures);
            vts_write_key(&w, "rank");
            if (s->rank)
                vts_write_uint(&w, s->rank);
            else
                vts_write_null(&w);
            vts_write_object_end(&w);
        }
        vts_write_array_end(&w);
        vts_write_object_end(&w);
    }
    vts_write_array_end(&w);
    vts_write_object_end(&w);
    vts_write_raw(&w, "\n", 1);
    return vts_write_finish(&w, size);
}

static void put_cell(FILE *to, const summary *s)
{
    if (s->pictures == 0) {
        fputs(" n/a |", to);
        return;
    }
    fprintf(to, " %s%.4g", s->rank == 1 ? "**" : "", s->mean);
    if (isfinite(s->std_error))
        fprintf(to, " ± %.2g", s->std_error);
    fprintf(to, " (%zu)%s |", s->rank, s->rank == 1 ? "**" : "");
}

static char *markdown_text(const vts_evaluation *e, const summary *sums, const vt_model_info *model,
                           unsigned long long seed, size_t *size)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, size);
    if (!to)
        return NULL;
    fprintf(to,
            "Model `%s`, %zu pictures, seed %llu, Vitral %s. Mean ± standard error over the pictures (rank); the best "
            "in bold. "
            "`random` and `edge` are floors: random maps, and the edges of the picture.\n\n| method |",
            model->id, e->pictures_count - vts_evaluation_faults(e), seed, VT_VERSION);
    for (size_t k = 0; k < e->metrics_count; k++)
        fprintf(to, " %s %s |", e->metrics[k]->name, e->metrics[k]->flags & VT_METRIC_HIGHER_BETTER ? "↑" : "↓");
    fputs("\n|---|", to);
    for (size_t k = 0; k < e->metrics_count; k++)
        fputs("---|", to);
    fputc('\n', to);
    for (size_t m = 0; m < e->methods_count; m++) {
        const char *mark = m + e->floors >= e->methods_count ? "*" : "`";
        fprintf(to, "| %s%s%s |", mark, e->methods[m], mark);
        for (size_t k = 0; k < e->metrics_count; k++)
            put_cell(to, &sums[m * e->metrics_count + k]);
        fputc('\n', to);
    }
    fputs("\n↑ higher is better, ↓ lower is better.\n\n", to);
    for (size_t k = 0; k < e->metrics_count; k++)
        fprintf(to, "- `%s`: %s Source: %s.\n", e->metrics[k]->name, e->metrics[k]->summary, e->metrics[k]->source);
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

vt_status vts_evaluation_finish(vts_evaluation *e, const vt_model_info *model, unsigned long long seed, vt_error *err)
{
    summary *sums = calloc(e->methods_count * e->metrics_count + 1, sizeof *sums);
    size_t json_size = 0, markdown_size = 0;
    if (!sums)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the summary");
    sum_up_all(e, sums);
    char *json = json_text(e, sums, model, seed, &json_size);
    char *markdown = markdown_text(e, sums, model, seed, &markdown_size);
    vt_status st = json && markdown ? VT_OK : vt_error_set(err, VT_E_NOMEM, "", "no memory for the summary");
    if (st == VT_OK)
        st = vts_write_file(e->folder, "evaluation", ".json", json, json_size, err);
    if (st == VT_OK)
        st = vts_write_file(e->folder, "evaluation", ".md", markdown, markdown_size, err);
    free(json);
    free(markdown);
    free(sums);
    return st;
}
