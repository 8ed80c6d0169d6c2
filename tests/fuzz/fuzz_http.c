/* Arbitrary bytes as what a client sends over one connection to a running service: the routes, the HTTP library, the workers
 * with the embedded model. Whatever comes, the service answers HTTP or closes, gives every request and every byte of
 * uploads back, and still answers others.
 *
 * An input of odd size is sent and the sending side closed at once; one of even size waits a moment for answers first.
 * The bytes go out in two pieces, cut where the first byte says. */
#include "server/http/access.h"
#include "server/http/daemon.h"
#include "server/http/events.h"
#include "server/routes/routes.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { QUIET_MS = 5, HANG_MS = 12000, HEALTH_EVERY = 64 }; /* HANG_MS: above all deadlines of the service */

static vts_service service;
static vts_daemon *daemon_;

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Where the time goes is said when it is too long. */
static void require_quick(const char *what, int64_t since_ns)
{
    const int64_t ms = (vt_now_ns() - since_ns) / 1000000;
    if (ms < HANG_MS)
        return;
    fprintf(stderr, "fuzz_http: to %s took %lld ms\n", what, (long long)ms);
    abort();
}

static void stop(void)
{
    vts_daemon_drain(daemon_, 1000);
    vts_pool_close(service.pool);
    vts_ticker_close(service.ticker);
    vts_store_close(service.held);
    vts_store_close(service.cache);
    vts_stats_close(service.stats);
    vts_models_close(service.models);
    vts_access_close(service.access);
}

static void start(void)
{
    static vts_log silent = {.fd = -1};
    const vts_daemon_options options = {.host = "127.0.0.1", .connections_max = 64, .connection_timeout_s = 60};
    vt_error err = {0};
    vts_model_set *set = vts_model_set_new(1);
    signal(SIGPIPE, SIG_IGN);
    service.limits = vt_limits_default;
    service.limits.cost_max = 40.0; /* nothing that takes long */
    service.limits.pixels_max = 1 << 18;
    service.deadline_ms = 10000;
    service.upload_max_bytes = 1 << 17;
    service.uploads_max_bytes = 1 << 20;
    service.upload_timeout_ms = 10000;
    service.routes = vts_routes;
    service.routes_count = vts_routes_count;
    service.log = &silent;
    require(set && vt_model_open(&set->models[0], NULL, NULL, &err) == VT_OK);
    set->count = 1;
    require(vts_routes_describe(set, &err) == VT_OK);
    service.models = vts_models_open(set);
    require(service.models && vts_access_open(&service.access, "", "http://viewer.example", &err) == VT_OK);
    require(vts_store_open(&service.held, 1 << 20, 600, &err) == VT_OK);
    require(vts_store_open(&service.cache, 1 << 20, 0, &err) == VT_OK);
    require(vts_stats_open(&service.stats, vts_route_ids, vts_routes_count, &err) == VT_OK);
    require(vts_ticker_open(&service.ticker, 50, &err) == VT_OK);
    const vts_pool_options pool = {.workers = 1,
                                   .queue = 4,
                                   .arena_bytes = vt_arena_bytes(set->models[0], &service.limits),
                                   .keep_bytes = 1 << 20};
    require(vts_pool_open(&service.pool, &pool, &err) == VT_OK);
    require(vts_daemon_open(&daemon_, &options, &service, &err) == VT_OK);
    atexit(stop);
}

static int connect_to_it(void)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)vts_daemon_port(daemon_)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger hard = {.l_onoff = 1, .l_linger = 0}; /* no port is left waiting: there are many runs */
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
    require(connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

/* What goes out; a server that has closed already is a server that has answered. */
static void send_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        const ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        size -= (size_t)n;
    }
}

/* Reads until the end or until nothing comes for wait_ms; true at the end. The first bytes of all are kept. */
static bool read_some(int fd, int wait_ms, char first[9], size_t *got)
{
    static char block[65536];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, wait_ms) == 0)
            return false;
        const ssize_t n = recv(fd, block, sizeof block, 0);
        if (n <= 0)
            return true;
        for (ssize_t k = 0; k < n && *got < 9; k++)
            first[(*got)++] = block[k];
    }
}

static void require_health(void)
{
    static const char ask[] = "GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    char first[9] = "";
    size_t got = 0;
    const int64_t since = vt_now_ns();
    const int fd = connect_to_it();
    require_quick("connect for /healthz", since);
    send_all(fd, (const uint8_t *)ask, sizeof ask - 1);
    require(read_some(fd, HANG_MS, first, &got) && got == 9 && memcmp(first, "HTTP/1.1 ", 9) == 0);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned runs;
    char first[9] = "";
    size_t got = 0;
    if (size == 0 || size > 1u << 17)
        return 0;
    if (!daemon_)
        start();
    int64_t since = vt_now_ns();
    const int fd = connect_to_it();
    require_quick("connect", since);
    const size_t cut = data[0] * size / 256;
    send_all(fd, data, cut);
    send_all(fd, data + cut, size - cut);
    bool ended = size % 2 == 0 && read_some(fd, QUIET_MS, first, &got);
    if (!ended) {
        shutdown(fd, SHUT_WR);
        ended = read_some(fd, HANG_MS, first, &got);
    }
    if (!ended)
        fprintf(stderr, "fuzz_http: no end after the last byte\n");
    require(ended);
    require(got == 0 || (got == 9 && (memcmp(first, "HTTP/1.1 ", 9) == 0 || memcmp(first, "HTTP/1.0 ", 9) == 0)));
    close(fd);
    since = vt_now_ns();
    while (atomic_load(&service.live) > 0) {
        const struct timespec pause = {0, 200000};
        require_quick("end the requests", since);
        nanosleep(&pause, NULL);
    }
    require(atomic_load(&service.upload_bytes) == 0);
    if (++runs % HEALTH_EVERY == 0)
        require_health();
    return 0;
}
