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

static vt_status open_models(vt_error *err)
{
    char name[64];
    const char *dir = NULL;
    vt_status st = VT_OK;
    if (settings.models_count == 0) {
        st = vt_model_open(&service.models[0], NULL, NULL, err);
        service.models_count = st == VT_OK;
    }
    for (size_t k = 0; k < settings.models_count && st == VT_OK; k++) {
        st = vts_settings_model(settings.models[k], name, sizeof name, &dir, err);
        if (st == VT_OK)
            st = vt_model_open(&service.models[k], dir, name[0] ? name : NULL, err);
        if (st == VT_OK)
            service.models_count++;
    }
    for (size_t k = 0; k < service.models_count && st == VT_OK; k++)
        for (size_t j = 0; j < k; j++)
            if (strcmp(vt_model_get_info(service.models[j])->id, vt_model_get_info(service.models[k])->id) == 0)
                st = vt_error_set(err, VT_E_INVALID, "model",
                                  "two models have the name %s: give them names, as in --model NAME=DIR",
                                  vt_model_get_info(service.models[k])->id);
    for (size_t k = 0; k < service.models_count && st == VT_OK; k++) {
        const vt_model_info *info = vt_model_get_info(service.models[k]);
        const char *warning;
        vts_log_note(&log_, "model", "%s: %s, %zu classes, %llu bytes", info->id, info->architecture, info->classes,
                     (unsigned long long)info->bytes);
        for (size_t w = 0; (warning = vt_model_warning(service.models[k], w)) != NULL; w++)
            vts_log_note(&log_, "warning", "model %s: %s", info->id, warning);
    }
    return st;
}

static vt_status open_pool(vt_error *err)
{
    vts_pool_options options = {.workers = (size_t)settings.workers,
                                .queue = (size_t)settings.queue,
                                .keep_bytes = (size_t)settings.arena_keep_bytes};
    for (size_t k = 0; k < service.models_count; k++) {
        const size_t bytes = vt_arena_bytes(service.models[k], &service.limits);
        if (bytes > options.arena_bytes)
            options.arena_bytes = bytes;
    }
    if (settings.memory_max_bytes && options.arena_bytes > settings.memory_max_bytes / options.workers)
        return vt_error_set(err, VT_E_INVALID, "memory_max_bytes",
                            "%zu workers may need %zu bytes each, more than memory_max_bytes (%llu) allows: fewer "
                            "workers or a smaller pixels_max",
                            options.workers, options.arena_bytes, (unsigned long long)settings.memory_max_bytes);
    vts_log_note(&log_, "workers", "%zu workers, %zu places in the queue, at most %zu bytes of arena each",
                 options.workers, options.queue, options.arena_bytes);
    return vts_pool_open(&service.pool, &options, err);
}

static void fill_service(void)
{
    service.limits = vt_limits_default;
    service.limits.pixels_max = (uint64_t)settings.pixels_max;
    service.limits.cost_max = settings.max_cost;
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
                                  .connections_max = (unsigned)settings.connections_max,
                                  .connections_per_ip_max = (unsigned)settings.connections_per_ip_max,
                                  .connection_timeout_s = (unsigned)settings.connection_timeout_s};
    vt_status st = vt_self_check(err);
    fill_service();
    if (st == VT_OK)
        st = vts_settings_listen(settings.listen, host, sizeof host, &options.port, err);
    if (st == VT_OK)
        st = vts_access_open(&service.access, settings.token_file, settings.cors_origins, err);
    if (st == VT_OK)
        st = open_models(err);
    if (st == VT_OK)
        st = vts_stats_open(&service.stats, vts_route_ids, vts_routes_count, err);
    if (st == VT_OK)
        st = vts_routes_prepare(&service, err);
    if (st == VT_OK)
        st = vts_ticker_open(&service.ticker, 15000, err);
    if (st == VT_OK)
        st = vts_store_open(&service.held, settings.held_bytes, (unsigned)settings.held_seconds, err);
    if (st == VT_OK)
        st = vts_store_open(&service.cache, settings.cache_bytes, 0, err);
    if (st == VT_OK)
        st = open_pool(err);
    if (st == VT_OK)
        st = vts_daemon_open(daemon, &options, &service, err);
    if (st == VT_OK) {
        const bool six = strchr(host, ':') != NULL;
        printf("listening on http://%s%s%s:%u\n", six ? "[" : "", host, six ? "]" : "", vts_daemon_port(*daemon));
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
    vts_routes_release(&service);
    vts_stats_close(service.stats);
    for (size_t k = 0; k < service.models_count; k++)
        vt_model_close(service.models[k]);
    vts_access_close(service.access);
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
        vts_log_note(&log_, "warning", "SIGHUP: nothing is read again yet");
    }
}

int main(int argc, char **argv)
{
    vt_error err = {0};
    vts_daemon *daemon = NULL;
    sigset_t set;

    vts_restart_for_blas(argv);
    mallopt(M_MMAP_THRESHOLD,
            256 << 10); /* large bodies come from and go back to the system: resident size stays flat */
    mallopt(M_ARENA_MAX, 2);
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
    vt_set_blas_threads(settings.blas_threads);
    vts_log_note(&log_, "start", "vitrald " VT_VERSION ", libmicrohttpd %s, jansson %s, %d BLAS threads",
                 vts_daemon_library(), jansson_version_str(), settings.blas_threads);
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
    fprintf(stderr, "vitrald: %s\n", err.msg);
    release();
    vts_log_close(&log_);
    return 2;
}
