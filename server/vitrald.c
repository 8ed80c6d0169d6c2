/* The service: settings, models, workers, daemon; then wait for a signal and end in order.
 *
 * Signals are blocked before any thread of ours exists and taken by sigtimedwait() here. OpenBLAS has started threads at
 * load, which block nothing: a signal that one of them gets is passed on to this thread, or it would end the process
 * (measured). A second SIGTERM during the drain ends the process at once. Whatever is wrong at the start is one sentence on standard error and
 * exit status 2. */
#include "server/config/config.h"
#include "server/http/access.h"
#include "server/http/daemon.h"
#include "server/http/events.h"
#include "server/routes/routes.h"
#include "server/sandbox/sandbox.h"
#include "server/work/guard.h"
#include "vitral/text.h"
#include "vitral/version.h"

#include <jansson.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static vts_settings settings; /* large; written before the first thread starts, then const */
static vts_log log_;
static vts_service service;
static vts_sandbox sandbox;

static pthread_t main_thread;

/* Runs in a thread that is not ours; there the signal stays pending until it is waited for. */
static void pass_on(int signal_number)
{
    pthread_kill(main_thread, signal_number);
}

static void block_signals(sigset_t *set)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    main_thread = pthread_self();
    sigemptyset(set);
    sigemptyset(&action.sa_mask);
    for (size_t k = 0; k < VT_COUNT(numbers); k++)
        sigaddset(set, numbers[k]);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    for (size_t k = 0; k < VT_COUNT(numbers); k++)
        sigaction(numbers[k], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (!vts_guard_install())
        vts_log_note(&log_, "warning", "SIGBUS cannot be handled: a weights file that is cut short ends the process");
}

static void end_at_once(int signal_number)
{
    (void)signal_number;
    _exit(1);
}

/* A second SIGTERM or SIGINT does not wait for the drain. */
static void arm_second_signal(void)
{
    sigset_t set;
    struct sigaction action = {.sa_handler = end_at_once};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- models ---- */

static vt_status check_names(const vts_model_set *set, vt_error *err)
{
    for (size_t k = 0; k < set->count; k++)
        for (size_t j = 0; j < k; j++)
            if (strcmp(vt_model_get_info(set->models[j])->id, vt_model_get_info(set->models[k])->id) == 0)
                return vt_error_set(err, VT_E_INVALID, "model",
                                    "two models have the name %s: give them names, as in --model NAME=DIR",
                                    vt_model_get_info(set->models[k])->id);
    return VT_OK;
}

/* An error of one of several models says which: its name, or else the last part of its folder. */
static vt_status name_model(vt_status st, const char *value, vt_error *err)
{
    vts_model_choice choice;
    const vt_error why = *err;
    char shown[VT_QUOTE_SIZE];
    if (st == VT_OK || settings.models_count < 2 || vts_settings_model(&choice, value, NULL) != VT_OK)
        return st; /* a value that cannot be taken apart is named by itself */
    size_t n = strlen(choice.dir);
    while (n > 1 && choice.dir[n - 1] == '/')
        choice.dir[--n] = '\0';
    const char *slash = strrchr(choice.dir, '/');
    vt_quote(shown, sizeof shown, choice.name[0] ? choice.name : slash && slash[1] ? slash + 1 : choice.dir);
    vt_error_set(err, st, why.param, "model %s: %s", shown, why.msg);
    vt_error_allow(err, "%s", why.allowed);
    return st;
}

/* All that --model names, or the embedded one, with the documents that describe them; one reference. running: the set that
 * it will replace, or NULL. */
static vt_status open_models(vts_model_set **out, const vts_model_set *running, vt_error *err)
{
    vts_model_set *set = vts_model_set_new(settings.models_count ? settings.models_count : 1);
    vt_status st = set ? VT_OK : vt_error_set(err, VT_E_NOMEM, "", "no memory for the models");
    if (st == VT_OK && settings.models_count == 0) {
        st = vt_model_open(&set->models[0], NULL, NULL, err);
        set->count = st == VT_OK;
    }
    for (size_t k = 0; k < settings.models_count && st == VT_OK; k++) {
        st = name_model(vts_settings_open_model(&set->models[k], settings.models[k], err), settings.models[k], err);
        if (st == VT_OK)
            set->count++;
    }
    if (st == VT_OK)
        vts_model_set_share(set, running);
    for (size_t k = 0; st == VT_OK && k < set->count; k++)
        st = vts_settings_backend(set->models[k], settings.backend, settings.blas_threads, err);
    for (size_t k = 0; st == VT_OK && settings.bf16 == VTS_BF16_ON && k < set->count; k++)
        st = vt_model_pack_bf16(set->models[k], err);
    if (st == VT_OK)
        st = check_names(set, err);
    if (st == VT_OK)
        st = vts_routes_describe(set, err);
    if (st != VT_OK) {
        vts_model_set_drop(set);
        return st;
    }
    *out = set;
    return VT_OK;
}

static void log_models(const vts_model_set *set)
{
    for (size_t k = 0; k < set->count; k++) {
        const vt_model_info *info = vt_model_get_info(set->models[k]);
        const char *warning;
        vts_log_note(&log_, "model", "%s: %s, input of %zux%zu pixels, %zu class%s, %llu bytes, products by %s%s",
                     info->id, info->architecture, info->image_h, info->image_w, info->classes,
                     info->classes == 1 ? "" : "es", (unsigned long long)info->bytes, info->backend,
                     info->bf16 ? ", bf16 on request" : "");
        for (size_t w = 0; (warning = vt_model_warning(set->models[k], w)) != NULL; w++)
            vts_log_note(&log_, "warning", "model %s: %s", info->id, warning);
    }
}

/* The most that a worker may need for any request to any of these models. */
static size_t most_bytes(const vts_model_set *set, const vt_limits *limits)
{
    size_t most = 0;
    for (size_t k = 0; k < set->count; k++) {
        const size_t bytes = vt_arena_bytes(set->models[k], limits);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* One for each worker and the spare one of the pool. */
static size_t arenas(void)
{
    return (size_t)settings.workers + 1;
}

/* Requests with an image_size of their own get no more than a worker's share of memory_max_bytes leaves them: as little as
 * the model that has least room for them leaves, in whatever order the models are named. Before the daemon runs. */
static void fit_image_size(const vts_model_set *set)
{
    vt_limits plain = service.limits;
    const uint64_t share = settings.memory_max_bytes / arenas();
    plain.image_side_max = 0;
    const size_t full = most_bytes(set, &service.limits);
    /* a model that goes beyond the share by itself is refused, whatever is done here */
    if (!settings.memory_max_bytes || full <= share || most_bytes(set, &plain) > share)
        return;
    const uint64_t excess = full - share, most = service.limits.image_size_bytes_max;
    service.limits.image_size_bytes_max = most > excess ? most - excess : 0;
}

/* most_bytes, if the settings admit it. */
static vt_status measure_arena(const vts_model_set *set, size_t *out, vt_error *err)
{
    const size_t most = most_bytes(set, &service.limits);
    const size_t share = settings.memory_max_bytes / arenas();
    if (settings.memory_max_bytes && most > share) {
        vt_limits plain = service.limits;
        const char *which = "";
        size_t k = 0;
        plain.image_side_max = 0;
        const bool sized = most_bytes(set, &plain) <= share; /* it is the requests with an image_size of their own */
        while (k < set->count && vt_arena_bytes(set->models[k], &service.limits) < most)
            k++;
        if (k < set->count && set->count > 1)
            which = vt_model_get_info(set->models[k])->id;
        return vt_error_set(err, VT_E_INVALID, "memory_max_bytes",
                            "%s%s%s%d workers and the spare place may need %zu bytes each, more than memory_max_bytes "
                            "(%llu) allows: fewer workers%s or a smaller pixels_max",
                            *which ? "model " : "", which, *which ? ": " : "", settings.workers, most,
                            (unsigned long long)settings.memory_max_bytes, sized ? ", a smaller image_side_max" : "");
    }
    *out = most;
    return VT_OK;
}

static vt_status open_pool(const vts_model_set *set, vt_error *err)
{
    vts_pool_options options = {.workers = (size_t)settings.workers,
                                .queue = (size_t)settings.queue,
                                .keep_bytes = (size_t)settings.arena_keep_bytes};
    fit_image_size(set);
    const vt_status st = measure_arena(set, &options.arena_bytes, err);
    if (st != VT_OK)
        return st;
    vts_log_note(&log_, "workers",
                 "%zu workers, %zu places in the queue, at most %zu bytes of arena each "
                 "and one to spare",
                 options.workers, options.queue, options.arena_bytes);
    return vts_pool_open(&service.pool, &options, err);
}

/* ---- SIGHUP ---- */

/* New models are opened and checked beside the old ones, which serve on until the swap, and until their last request is
 * done after it. Answers of the old models stay in the cache under keys that nobody asks for any more. */
static void reload_models(void)
{
    vts_model_set *set = NULL, *running = vts_models_hold(service.models);
    vt_error err = {0};
    size_t arena_bytes = 0;
    vt_status st = open_models(&set, running, &err);
    vts_model_set_drop(running);
    if (st == VT_OK)
        st = measure_arena(set, &arena_bytes, &err);
    if (st != VT_OK) {
        vts_model_set_drop(set);
        vts_log_note(&log_, "reload_failed", "the models stay as they were: %s", err.msg);
        return;
    }
    log_models(set);
    vts_pool_grow(service.pool, arena_bytes);
    vts_models_swap(service.models, set);
}

static void reload(void)
{
    vt_error err = {0};
    if (vts_log_reopen(&log_, settings.log, &err) != VT_OK)
        vts_log_note(&log_, "reload_failed", "the log stays the old file: %s", err.msg);
    if (service.audit && vts_audit_reopen(service.audit, &err) != VT_OK)
        vts_log_note(&log_, "reload_failed", "the audit log stays the old file: %s", err.msg);
    vts_log_note(&log_, "reload", "SIGHUP: tokens and models are read again");
    if (vts_access_reload(service.access, &err) != VT_OK)
        vts_log_note(&log_, "reload_failed", "the tokens stay as they were: %s", err.msg);
    else if (settings.token_file[0])
        vts_log_note(&log_, "tokens", "%zu tokens", vts_access_tokens(service.access));
    reload_models();
}

/* ---- sandbox ---- */

/* All that SIGHUP reads or opens again. */
static void name_files(void)
{
    for (size_t k = 0; k < settings.models_count; k++) {
        vts_model_choice choice;
        if (vts_settings_model(&choice, settings.models[k], NULL) == VT_OK && choice.dir[0])
            vts_sandbox_reads(&sandbox, choice.dir);
    }
    if (settings.token_file[0])
        vts_sandbox_reads(&sandbox, settings.token_file);
    if (log_.owned)
        vts_sandbox_appends(&sandbox, settings.log);
    if (service.audit)
        vts_sandbox_appends(&sandbox, settings.audit_log);
}

static vt_status check_sandbox(bool in_force, const char *part, vt_error *err)
{
    if (in_force || settings.sandbox != VTS_SANDBOX_REQUIRE)
        return VT_OK;
    return vt_error_set(err, VT_E_UNSUPPORTED, "sandbox", "sandbox require: no %s: %s", part, sandbox.missing);
}

/* Before the first thread. */
static vt_status give_up_files(vt_error *err)
{
    if (settings.sandbox == VTS_SANDBOX_OFF)
        return VT_OK;
    name_files();
    return check_sandbox(vts_sandbox_files(&sandbox), "Landlock", err);
}

/* After the workers have begun, before the first connection is taken. */
static vt_status give_up_calls(vt_error *err)
{
    vt_status st = VT_OK;
    if (settings.sandbox != VTS_SANDBOX_OFF)
        st = check_sandbox(vts_sandbox_calls(&sandbox), "seccomp", err);
    service.landlock = sandbox.landlock;
    service.seccomp = sandbox.seccomp;
    if (st != VT_OK)
        return st;
    if (settings.sandbox == VTS_SANDBOX_OFF)
        vts_log_note(&log_, "sandbox", "off: the process keeps all files and system calls");
    else
        vts_log_note(&log_, "sandbox", "Landlock %s%.0d (%zu path%s, %zu thread%s outside), seccomp %s%s%s",
                     sandbox.landlock ? "version " : "none", sandbox.landlock, sandbox.paths_count,
                     sandbox.paths_count == 1 ? "" : "s", sandbox.outside, sandbox.outside == 1 ? "" : "s",
                     sandbox.seccomp ? "on" : "none", sandbox.missing ? ": " : "",
                     sandbox.missing ? sandbox.missing : "");
    return VT_OK;
}

/* ---- start and end ---- */

static void fill_service(void)
{
    service.limits = vt_limits_default;
    service.limits.pixels_max = (uint64_t)settings.pixels_max;
    service.limits.cost_max = settings.max_cost;
    service.limits.image_side_max = (size_t)settings.image_side_max;
    service.limits.image_size_bytes_max = settings.image_size_max_bytes;
    service.deadline_ms = (uint64_t)settings.deadline_ms;
    service.upload_max_bytes = (size_t)settings.upload_max_bytes;
    service.uploads_max_bytes = settings.uploads_max_bytes;
    service.upload_timeout_ms = (uint64_t)settings.upload_timeout_ms;
    service.routes = vts_routes;
    service.routes_count = vts_routes_count;
    service.log = &log_;
}

static vt_status start(vts_daemon **daemon, vt_error *err)
{
    char host[256];
    vts_daemon_options options = {.host = host,
                                  .tls_cert_file = settings.tls_cert_file,
                                  .tls_key_file = settings.tls_key_file,
                                  .connections_max = (unsigned)settings.connections_max,
                                  .connections_per_ip_max = (unsigned)settings.connections_per_ip_max,
                                  .connection_timeout_s = (unsigned)settings.connection_timeout_s};
    vts_model_set *set = NULL;
    vt_status st = vt_self_check(err);
    fill_service();
    if (st == VT_OK)
        st = vts_settings_listen(settings.listen, host, sizeof host, &options.port, err);
    if (st == VT_OK)
        st = vts_networks_read(&service.trusted, settings.trusted_proxies, err);
    if (st == VT_OK)
        st = vts_clients_open(&service.clients, (unsigned)settings.client_requests_per_minute,
                              (unsigned)settings.client_requests_at_once, err);
    if (st == VT_OK)
        st = vts_access_open(&service.access, settings.token_file, settings.cors_origins, err);
    if (st == VT_OK)
        st = open_models(&set, NULL, err);
    if (st == VT_OK) {
        log_models(set);
        service.models = vts_models_open(set);
        if (!service.models) {
            vts_model_set_drop(set);
            st = vt_error_set(err, VT_E_NOMEM, "", "no memory for the models");
        }
    }
    if (st == VT_OK)
        st = vts_stats_open(&service.stats, vts_route_ids, vts_routes_count, err);
    if (st == VT_OK && settings.audit_log[0])
        st = vts_audit_open(&service.audit, settings.audit_log, &log_, service.stats, err);
    if (st == VT_OK)
        st = vts_daemon_bind(daemon, &options, &service, err);
    if (st == VT_OK)
        st = give_up_files(err);
    if (st == VT_OK)
        vt_set_blas_threads(settings.blas_threads);
    if (st == VT_OK)
        st = vts_ticker_open(&service.ticker, 15000, err);
    if (st == VT_OK)
        st = vts_store_open(&service.held, settings.held_bytes, (unsigned)settings.held_seconds, err);
    if (st == VT_OK)
        st = vts_store_open(&service.cache, settings.cache_bytes, 0, err);
    if (st == VT_OK)
        st = open_pool(set, err);
    if (st == VT_OK)
        st = give_up_calls(err);
    if (st == VT_OK)
        st = vts_daemon_begin(*daemon, &options, err);
    if (st == VT_OK) {
        const bool six = strchr(host, ':') != NULL;
        printf("listening on %s://%s%s%s:%u\n", settings.tls_cert_file[0] ? "https" : "http", six ? "[" : "", host,
               six ? "]" : "", vts_daemon_port(*daemon));
        fflush(stdout);
    }
    return st;
}

static void release(void)
{
    vts_pool_close(service.pool);
    vts_ticker_close(service.ticker);
    vts_store_close(service.held);
    vts_store_close(service.cache);
    vts_stats_close(service.stats);
    vts_models_close(service.models);
    vts_access_close(service.access);
    vts_clients_close(service.clients);
    vts_audit_close(service.audit);
    vts_sandbox_close(&sandbox);
}

/* Held pictures go when their time has passed, asked for or not. */
static void wait_for_the_end(const sigset_t *set)
{
    const struct timespec sweep = {.tv_sec = 5, .tv_nsec = 0};
    for (;;) {
        const int number = sigtimedwait(set, NULL, &sweep);
        vts_store_sweep(service.held);
        if (number <= 0)
            continue;
        if (number != SIGHUP) {
            vts_log_note(&log_, "stop", "signal %d: draining", number);
            return;
        }
        reload();
    }
}

int main(int argc, char **argv)
{
    vt_error err = {0};
    vts_daemon *daemon = NULL;
    sigset_t set;

    vts_restart_for_blas(argv);
    vts_sandbox_no_core();
    mallopt(M_MMAP_THRESHOLD,
            256 << 10); /* large bodies come from and go back to the system: resident size stays flat */
    mallopt(M_ARENA_MAX, 2);
    mallopt(M_PERTURB, 0xa5); /* what libraries give back is overwritten: it may be a piece of a picture */
    if (vts_settings_read(&settings, argc, argv, environ, &err) != VT_OK)
        goto refused;
    if (settings.want_help) {
        vts_settings_help(stdout);
        return 0;
    }
    if (settings.want_version) {
        printf("vitrald " VT_VERSION "\n");
        return 0;
    }
    if (vts_settings_settle(&settings, "", &err) != VT_OK || vts_log_open(&log_, settings.log, &err) != VT_OK)
        goto refused;
    for (size_t k = 0; k < settings.warnings_count; k++)
        vts_log_note(&log_, "warning", "%s", settings.warnings[k]);
    block_signals(&set);
    json_object_seed(0);
    vt_set_blas_threads(1);
    vts_log_note(&log_, "start", "vitrald " VT_VERSION ", libmicrohttpd %s, jansson %s, %s, %d BLAS thread(s)",
                 vts_daemon_library(), jansson_version_str(), vt_blas_description(), settings.blas_threads);
    if (start(&daemon, &err) != VT_OK)
        goto refused;

    wait_for_the_end(&set);
    arm_second_signal();
    vts_daemon_drain(daemon, (uint64_t)settings.drain_timeout_ms);
    release();
    vts_log_note(&log_, "end", "all work is answered");
    vts_log_close(&log_);
    return 0;

refused:
    fprintf(stderr, "vitrald: %s%s%s\n", err.msg, err.allowed[0] ? "; allowed: " : "", err.allowed);
    vts_daemon_abandon(daemon);
    release();
    vts_log_close(&log_);
    return 2;
}
