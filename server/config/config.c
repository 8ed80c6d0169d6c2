/* One table of settings, read from a JSON file, the environment and the command line.
 *
 * A JSON key is the row's name, the variable VITRAL_ + the name in capitals, the flag the name with dashes. Every source
 * goes through vt_param_set, so a range is checked the same way wherever the value came from. `model` alone may be given
 * several times (an array in JSON, a comma-separated variable): a higher source replaces the whole list. */
#include "server/config/config.h"

#include "vitral/run.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) .offset = offsetof(vts_settings, name)
#define BYTES_MAX 4503599627370496.0

static const char *const vts_backend_names[] = {"auto", "openblas", NULL};

static const char *const vts_bf16_names[] = {"auto", "on", "off", NULL};

static const char *const vts_sandbox_names[] = {"auto", "require", "off", NULL};

static const vt_param table[] = {
    {.name = "model",
     .help = "weights to serve: a folder, or NAME=folder, and ?image_size=N or ?image_size=HxW behind it for another "
             "input size than its own (height x width, multiples of the patch); may be repeated, the first is the "
             "default; without it the embedded model",
     .type = VT_TEXT,
     .flags = VT_PARAM_REPEAT,
     FIELD(models)},
    {.name = "listen",
     .help = "HOST:PORT to listen on; port 0 takes any free one",
     .type = VT_TEXT,
     FIELD(listen),
     .def_text = "127.0.0.1:8080"},
    {.name = "workers",
     .help = "requests computed at the same time; 0: one per core of the cgroup quota",
     .type = VT_INT,
     FIELD(workers),
     .max = 1024},
    {.name = "queue",
     .help = "requests that may wait; 0: 4 for each worker",
     .type = VT_INT,
     FIELD(queue),
     .max = 65536},
    {.name = "upload_max_bytes",
     .help = "largest request body",
     .unit = "bytes",
     .type = VT_INT,
     FIELD(upload_max_bytes),
     .min = 1,
     .max = 1 << 30,
     .def = 16 << 20},
    {.name = "uploads_max_bytes",
     .help = "memory for all uploads together",
     .unit = "bytes",
     .type = VT_SEED,
     FIELD(uploads_max_bytes),
     .min = 1,
     .max = BYTES_MAX,
     .def = 256 << 20},
    {.name = "upload_timeout_ms",
     .help = "time that one upload may take",
     .unit = "ms",
     .type = VT_INT,
     FIELD(upload_timeout_ms),
     .min = 1,
     .max = 86400000,
     .def = 60000},
    {.name = "pixels_max",
     .help = "largest picture",
     .unit = "pixels",
     .type = VT_INT,
     FIELD(pixels_max),
     .min = 1,
     .max = 1 << 30,
     .def = VT_PIXELS_MAX},
    {.name = "deadline_ms",
     .help = "longest time for one request, and the default",
     .unit = "ms",
     .type = VT_INT,
     FIELD(deadline_ms),
     .min = 1,
     .max = 86400000,
     .def = 60000},
    {.name = "max_cost",
     .help = "most forward passes that one request may cost, counted at the size the model was opened with",
     .unit = "forwards",
     .type = VT_FLOAT,
     FIELD(max_cost),
     .min = 1,
     .max = 1e9,
     .def = VT_COST_MAX},
    {.name = "image_side_max",
     .help = "largest side that image_size of a request may ask for; a model's own size is always allowed; 0: requests "
             "may not choose",
     .unit = "pixels",
     .type = VT_INT,
     FIELD(image_side_max),
     .max = 16384,
     .def = 1024},
    {.name = "image_size_max_bytes",
     .help = "memory of one request whose image_size is larger than the model's own; never more than a worker's share "
             "of memory_max_bytes",
     .unit = "bytes",
     .type = VT_SEED,
     FIELD(image_size_max_bytes),
     .max = BYTES_MAX,
     .def = 512 << 20},
    {.name = "cache_bytes",
     .help = "memory for finished answers; 0: none is kept",
     .unit = "bytes",
     .type = VT_SEED,
     FIELD(cache_bytes),
     .max = BYTES_MAX,
     .def = 8 << 20},
    {.name = "held_bytes",
     .help = "memory for uploads that image_id may name again; 0: none is held",
     .unit = "bytes",
     .type = VT_SEED,
     FIELD(held_bytes),
     .max = BYTES_MAX,
     .def = 17 << 20 /* one upload of the largest size, and what it costs beside its bytes */},
    {.name = "held_seconds",
     .help = "how long an upload is held",
     .unit = "s",
     .type = VT_INT,
     FIELD(held_seconds),
     .min = 1,
     .max = 86400,
     .def = 600},
    {.name = "memory_max_bytes",
     .help = "most that the workers and the spare place beside them may reserve together; 0: no limit",
     .unit = "bytes",
     .type = VT_SEED,
     FIELD(memory_max_bytes),
     .max = BYTES_MAX},
    {.name = "arena_keep_bytes",
     .help = "memory that a worker keeps between requests",
     .unit = "bytes",
     .type = VT_INT,
     FIELD(arena_keep_bytes),
     .max = 1 << 30,
     .def = 12 << 20},
    {.name = "backend",
     .help =
         "what multiplies matrices: auto takes our own kernels where the CPU has AVX2 or AVX-512 (a packed copy of the "
         "weights in memory), and OpenBLAS elsewhere or with several blas_threads",
     .type = VT_ENUM,
     .choices = vts_backend_names,
     FIELD(backend)},
    {.name = "bf16",
     .help = "whether requests may say precision=bf16, for which each model has another copy of its weights, half as "
             "large: auto where this processor multiplies bf16 faster than fp32, which is measured at start",
     .type = VT_ENUM,
     .choices = vts_bf16_names,
     FIELD(bf16)},
    {.name = "blas_threads",
     .help = "threads of one matrix product; more than 1 only with one worker",
     .type = VT_INT,
     FIELD(blas_threads),
     .min = 1,
     .max = 256,
     .def = 1},
    {.name = "drain_timeout_ms",
     .help = "time that work in hand gets after SIGTERM",
     .unit = "ms",
     .type = VT_INT,
     FIELD(drain_timeout_ms),
     .max = 3600000,
     .def = 10000},
    {.name = "connections_max",
     .help = "open connections",
     .type = VT_INT,
     FIELD(connections_max),
     .min = 8,
     .max = 65536,
     .def = 256},
    {.name = "connections_per_ip_max",
     .help = "open connections of one address; 0: no limit (behind a proxy)",
     .type = VT_INT,
     FIELD(connections_per_ip_max),
     .max = 65536},
    {.name = "connection_timeout_s",
     .help = "silence after which a connection is closed",
     .unit = "s",
     .type = VT_INT,
     FIELD(connection_timeout_s),
     .min = 1,
     .max = 3600,
     .def = 15},
    {.name = "client_requests_per_minute",
     .help = "requests that one client may send in a minute, all at once or spread, other than probes and the page's "
             "files; a client is the name of a token, else an address; 0: no limit",
     .type = VT_INT,
     FIELD(client_requests_per_minute),
     .max = 1000000},
    {.name = "client_requests_at_once",
     .help = "requests with a picture that one client may have in hand at a time; 0: no limit",
     .type = VT_INT,
     FIELD(client_requests_at_once),
     .max = 65536},
    {.name = "trusted_proxies",
     .help = "addresses and networks (10.0.0.0/8) of proxies whose X-Forwarded-For is believed, comma separated",
     .type = VT_TEXT,
     FIELD(trusted_proxies)},
    {.name = "sandbox",
     .help = "auto gives up files and system calls that are not needed after the start, as far as the kernel can "
             "(Landlock, seccomp); require does not start without either; off, or the flag --no-sandbox, keeps all",
     .type = VT_ENUM,
     .choices = vts_sandbox_names,
     FIELD(sandbox)},
    {.name = "tls_cert_file",
     .help = "PEM file with the certificate and its chain: the service speaks TLS (1.2 or later)",
     .type = VT_TEXT,
     FIELD(tls_cert_file)},
    {.name = "tls_key_file",
     .help = "PEM file with the private key, without a passphrase",
     .type = VT_TEXT,
     FIELD(tls_key_file)},
    {.name = "token_file",
     .help = "file with one bearer token per line, or NAME TOKEN (the name stands in the log); without it no token is "
             "asked for",
     .type = VT_TEXT,
     FIELD(token_file)},
    {.name = "cors_origins",
     .help = "origins that browsers may call from, comma separated, or *",
     .type = VT_TEXT,
     FIELD(cors_origins)},
    {.name = "log",
     .help = "file for the log; - is standard error, none is silence",
     .type = VT_TEXT,
     FIELD(log),
     .def_text = "-"},
    {.name = "audit_log",
     .help =
         "file for a line of JSON about each request, with client, model and digest of the picture; appended to, and "
         "opened again at SIGHUP",
     .type = VT_TEXT,
     FIELD(audit_log)},
    {.name = "config",
     .help = "JSON file with settings: one object, the keys are these names",
     .type = VT_TEXT,
     FIELD(config)},
};

_Static_assert(VT_COUNT(table) <= VTS_SETTINGS_MAX, "origins[] is too short");

const char *const vts_origin_names[] = {"default", "file", "variable", "flag", NULL};

const vt_param *vts_settings_table(size_t *count)
{
    *count = VT_COUNT(table);
    return table;
}

/* ---- one value ---- */

static vt_status add_model(vts_settings *s, const char *text, vt_error *err)
{
    vt_param row = table[0];
    if (s->models_count == VTS_MODELS_MAX)
        return vt_error_set(err, VT_E_INVALID, "model", "more than %d models", VTS_MODELS_MAX);
    row.offset = 0;
    const vt_status st = vt_param_set(&row, text, NULL, s->models[s->models_count], err);
    if (st == VT_OK)
        s->models_count++;
    return st;
}

/* The first value of a source replaces the list that lower sources gave. */
static vt_status set(vts_settings *s, const vt_param *row, const char *text, vts_origin origin, vt_error *err)
{
    const size_t k = (size_t)(row - table);
    vt_status st;
    if (row->flags & VT_PARAM_REPEAT) {
        if (s->origins[k] != (unsigned char)origin)
            s->models_count = 0;
        st = add_model(s, text, err);
    } else {
        st = vt_param_set(row, text, NULL, s, err);
    }
    if (st == VT_OK)
        s->origins[k] = (unsigned char)origin;
    return st;
}

static const char *nearest(const char *name)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t k = 0; k < VT_COUNT(table); k++) {
        const size_t d = vt_name_distance(name, table[k].name);
        if (d < best_distance) {
            best_distance = d;
            best = table[k].name;
        }
    }
    return best;
}

/* name with `from` replaced by `to`: flags have dashes, rows have underscores. */
static void respell(char *out, size_t size, const char *name, char from, char to)
{
    size_t i = 0;
    for (; name[i] && i + 1 < size; i++)
        out[i] = name[i] == from ? to : name[i];
    out[i] = '\0';
}

/* ---- JSON file ---- */

static vt_status set_json(vts_settings *s, const vt_param *row, const json_t *value, vt_error *err)
{
    char text[64];
    if (json_is_string(value))
        return set(s, row, json_string_value(value), VTS_FROM_FILE, err);
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, sizeof text, "%s", json_is_true(value) ? "true" : "false");
    else
        return vt_error_set(err, VT_E_INVALID, row->name, "%s must be a number, a text or true or false", row->name);
    return set(s, row, text, VTS_FROM_FILE, err);
}

static vt_status read_file(vts_settings *s, const char *path, vt_error *err)
{
    json_error_t fault;
    const char *key;
    json_t *value;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
    vt_status st = VT_OK;
    if (!root)
        return fault.line > 0
                   ? vt_error_set(err, VT_E_INVALID, "config", "%s, line %d: %s", path, fault.line, fault.text)
                   : vt_error_set(err, VT_E_INVALID, "config", "%s: %s", path, fault.text);
    if (!json_is_object(root))
        st = vt_error_set(err, VT_E_INVALID, "config", "%s: the settings must be one JSON object", path);
    json_object_foreach(root, key, value)
    {
        const vt_param *row = vt_param_find(table, VT_COUNT(table), key);
        if (!row || strcmp(key, "config") == 0) {
            const char *near = row ? NULL : nearest(key);
            st = vt_error_set(err, VT_E_INVALID, key, "%s: unknown key %s%s%s%s", path, key,
                              near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
        } else if (json_is_array(value) && (row->flags & VT_PARAM_REPEAT)) {
            for (size_t k = 0; k < json_array_size(value) && st == VT_OK; k++)
                st = set_json(s, row, json_array_get(value, k), err);
        } else {
            st = set_json(s, row, value, err);
        }
        if (st != VT_OK)
            break;
    }
    json_decref(root);
    return st;
}

/* ---- environment ---- */

static void warn(vts_settings *s, const char *name, size_t n, const char *near)
{
    if (s->warnings_count == VTS_WARNINGS_MAX)
        return;
    char *out = s->warnings[s->warnings_count++];
    const int used = snprintf(out, sizeof s->warnings[0], "unknown variable %.*s", (int)(n < 100 ? n : 100), name);
    if (near && used > 0 && (size_t)used < sizeof s->warnings[0])
        snprintf(out + used, sizeof s->warnings[0] - (size_t)used, " (is %s meant?)", near);
}

/* "VITRAL_QUEUE=8" -> "queue"; false when it is none of ours. */
static bool variable_name(const char *text, char *name, size_t size, const char **value)
{
    const char *equal = strchr(text, '=');
    if (strncmp(text, "VITRAL_", 7) != 0 || !equal || (size_t)(equal - text) - 7 >= size)
        return false;
    size_t n = 0;
    for (const char *p = text + 7; p < equal; p++)
        name[n++] = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    name[n] = '\0';
    *value = equal + 1;
    return true;
}

static vt_status set_variable(vts_settings *s, const vt_param *row, const char *value, vt_error *err)
{
    char part[VT_TEXT_MAX];
    vt_status st = VT_OK;
    if (!(row->flags & VT_PARAM_REPEAT))
        return set(s, row, value, VTS_FROM_VARIABLE, err);
    for (const char *at = value; st == VT_OK;) {
        const size_t n = strcspn(at, ",");
        if (n >= sizeof part)
            return vt_error_set(err, VT_E_INVALID, row->name, "VITRAL_MODEL has a name that is too long");
        memcpy(part, at, n);
        part[n] = '\0';
        st = set(s, row, part, VTS_FROM_VARIABLE, err);
        if (!at[n])
            break;
        at += n + 1;
    }
    return st;
}

/* Variables that ./run, the tests and their scripts hand on to whatever they start. */
static bool is_for_tests(const char *name)
{
    static const char *const names[] = {"build", "shared", "require_shared"};
    for (size_t k = 0; k < VT_COUNT(names); k++)
        if (strcmp(name, names[k]) == 0)
            return true;
    return false;
}

static vt_status read_environment(vts_settings *s, char *const env[], vt_error *err)
{
    char name[64];
    const char *value;
    for (size_t k = 0; env && env[k]; k++) {
        if (!variable_name(env[k], name, sizeof name, &value))
            continue;
        const vt_param *row = vt_param_find(table, VT_COUNT(table), name);
        if (!row && is_for_tests(name))
            continue;
        if (!row) {
            char capitals[80] = "";
            const char *near = nearest(name);
            if (near) {
                snprintf(capitals, sizeof capitals, "VITRAL_%s", near);
                for (char *p = capitals; *p; p++)
                    *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
            }
            warn(s, env[k], strcspn(env[k], "="), near ? capitals : NULL);
            continue;
        }
        vt_status st = set_variable(s, row, value, err);
        if (st != VT_OK)
            return st;
    }
    return VT_OK;
}

/* ---- flags ---- */

/* Reads the flag at argv[*k]: its row and value; *k moves to the last word that belongs to it. */
static vt_status read_flag(int argc, char *const argv[], int *k, const vt_param **row, const char **value,
                           vt_error *err)
{
    char name[80];
    const char *word = argv[*k];
    if (strncmp(word, "--", 2) != 0 || !word[2])
        return vt_error_set(err, VT_E_INVALID, "", "%s is no flag (flags begin with --; try --help)", word);
    const size_t n = strcspn(word + 2, "=");
    char given[80];
    snprintf(given, sizeof given, "%.*s", (int)(n < 79 ? n : 79), word + 2);
    respell(name, sizeof name, given, '-', '_');
    *row = vt_param_find(table, VT_COUNT(table), name);
    if (!*row || strchr(given, '_')) { /* one spelling only, so that --help is the whole truth */
        char spelled[80] = "";
        const char *near = nearest(name);
        if (near)
            respell(spelled, sizeof spelled, near, '_', '-');
        return vt_error_set(err, VT_E_INVALID, name, "unknown flag --%s%s%s%s", given, near ? " (did you mean --" : "",
                            spelled, near ? "?)" : "");
    }
    if (word[2 + n] == '=') {
        *value = word + 3 + n;
        return VT_OK;
    }
    if (*k + 1 >= argc)
        return vt_error_set(err, VT_E_INVALID, name, "--%s needs a value", given);
    *value = argv[++*k];
    return VT_OK;
}

/* config_only: a first pass that looks for --config, --help and --version and checks the other flags' names. */
static vt_status read_flags(vts_settings *s, int argc, char *const argv[], bool config_only, vt_error *err)
{
    bool seen[VT_COUNT(table)] = {false};
    for (int k = 1; k < argc; k++) {
        const vt_param *row = NULL;
        const char *value = NULL;
        if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "-h") == 0) {
            s->want_help = true;
            continue;
        }
        if (strcmp(argv[k], "--version") == 0) {
            s->want_version = true;
            continue;
        }
        const bool no_sandbox = strcmp(argv[k], "--no-sandbox") == 0;
        vt_status st = VT_OK;
        if (no_sandbox) {
            row = vt_param_find(table, VT_COUNT(table), "sandbox");
            value = vts_sandbox_names[VTS_SANDBOX_OFF];
        } else {
            st = read_flag(argc, argv, &k, &row, &value, err);
        }
        if (st != VT_OK)
            return st;
        if (seen[row - table] && !(row->flags & VT_PARAM_REPEAT))
            return vt_error_set(err, VT_E_INVALID, row->name, "%s is given twice", row->name);
        seen[row - table] = true;
        if (config_only && strcmp(row->name, "config") != 0)
            continue;
        st = set(s, row, value, VTS_FROM_FLAG, err);
        if (st != VT_OK)
            return st;
    }
    return VT_OK;
}

vt_status vts_settings_read(vts_settings *out, int argc, char *const argv[], char *const env[], vt_error *err)
{
    memset(out, 0, sizeof *out);
    vt_status st = vt_params_check(table, VT_COUNT(table), sizeof *out, err);
    if (st != VT_OK)
        return st;
    vt_params_default(table, VT_COUNT(table), NULL, out);
    for (size_t k = 0; env && env[k]; k++) /* where the file is may stand in either of the two higher sources */
        if (strncmp(env[k], "VITRAL_CONFIG=", 14) == 0 && env[k][14])
            snprintf(out->config, sizeof out->config, "%s", env[k] + 14);
    st = read_flags(out, argc, argv, true, err);
    if (st == VT_OK && (out->want_help || out->want_version))
        return VT_OK;
    if (st == VT_OK && out->config[0])
        st = read_file(out, out->config, err);
    if (st == VT_OK)
        st = read_environment(out, env, err);
    return st == VT_OK ? read_flags(out, argc, argv, false, err) : st;
}

/* ---- what follows from others ---- */

vt_status vts_settings_settle(vts_settings *s, const char *root, vt_error *err)
{
    if (s->workers == 0)
        s->workers = s->blas_threads > 1 ? 1 : vts_cores(root);
    if (s->queue == 0)
        s->queue = 4 * s->workers;
    if (s->blas_threads > 1 && s->workers > 1)
        return vt_error_set(err, VT_E_INVALID, "blas_threads",
                            "blas_threads %d with %d workers: more than one BLAS thread goes with one worker only",
                            s->blas_threads, s->workers);
    if (s->bf16 == VTS_BF16_ON && !vt_model_can_bf16())
        return vt_error_set(err, VT_E_INVALID, "bf16", "bf16 on: this processor has no instructions for it");
    if (s->bf16 == VTS_BF16_AUTO)
        s->bf16 = vt_model_bf16_is_faster() ? VTS_BF16_ON : VTS_BF16_OFF;
    if (!s->tls_cert_file[0] != !s->tls_key_file[0])
        return vt_error_set(err, VT_E_INVALID, s->tls_cert_file[0] ? "tls_key_file" : "tls_cert_file",
                            "tls_cert_file and tls_key_file go together: %s is missing",
                            s->tls_cert_file[0] ? "tls_key_file" : "tls_cert_file");
    if (s->uploads_max_bytes < (uint64_t)s->upload_max_bytes)
        return vt_error_set(err, VT_E_INVALID, "uploads_max_bytes",
                            "uploads_max_bytes must be at least upload_max_bytes (%d)", s->upload_max_bytes);
    return VT_OK;
}

/* ---- as text ---- */

void vts_settings_text(const vts_settings *settings, size_t k, char *buf, size_t size)
{
    size_t used = 0;
    if (size)
        buf[0] = '\0';
    if (table[k].flags & VT_PARAM_SECRET)
        snprintf(buf, size, "***");
    else if (!(table[k].flags & VT_PARAM_REPEAT))
        vt_param_format(&table[k], settings, buf, size);
    for (size_t m = 0; (table[k].flags & VT_PARAM_REPEAT) && m < settings->models_count && used + 1 < size; m++)
        used += (size_t)snprintf(buf + used, size - used, "%s%s", m ? ", " : "", settings->models[m]);
}

void vts_settings_help(FILE *out)
{
    fprintf(out, "usage: vitrald [--model [NAME=]DIR[?image_size=N|HxW]]... [--listen HOST:PORT] [flags]\n\n");
    for (size_t k = 0; k < VT_COUNT(table); k++) {
        char flag[80], def[128];
        respell(flag, sizeof flag, table[k].name, '_', '-');
        vt_param_default_text(&table[k], def, sizeof def);
        fprintf(out, "  --%-24s %s%s%s%s\n", flag, table[k].help, def[0] ? " [" : "", def, def[0] ? "]" : "");
    }
    fprintf(out, "  --%-24s %s\n  --%-24s %s\n  --%-24s %s\n", "no-sandbox", "the same as --sandbox off", "help",
            "print this", "version", "print the version");
    fprintf(
        out,
        "\nEach flag is also a key of the JSON file (with _ for -) and a variable (VITRAL_ and the name in capitals).\n"
        "Defaults < JSON file < variables < flags.\n");
}
