/* libmicrohttpd, set up for suspended connections.
 *
 * One internal thread with poll(): epoll kept the slots of connections that the client had cut until their timeout. No
 * thread per connection (nothing can be suspended there) and no thread pool (it splits the connection limit); one thread
 * parses and routes tens of times faster than workers compute.
 *
 * The listening socket is ours: a port that is taken is reported in words, and SO_REUSEPORT stays off, under which two
 * services could share a port unawares.
 *
 * The end: libmicrohttpd aborts when it is stopped with a suspended connection, so the pool is stopped first, which
 * answers every job. New connections are taken until then: they hear 503 instead of nothing. */
#include "server/http/daemon.h"

#include "server/http/pem.h"
#include "server/http/request.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 511, CONNECTION_MEMORY = 128 << 10, LAST_WAIT_MS = 2000 };

struct vts_daemon {
    struct MHD_Daemon *mhd;
    vts_service *service;
    char *cert, *key; /* PEM texts; NULL without TLS */
    unsigned port;
    int fd; /* listens; -1 once it is the library's */
};

static void log_message(void *cls, const char *fmt, va_list args) VT_PRINTF(2, 0);
static void log_message(void *cls, const char *fmt, va_list args)
{
    const vts_service *service = cls;
    char text[512];
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = '\0';
    vts_log_note(service->log, "http_library", "%s", text);
}

static void panic(void *cls, const char *file, unsigned line, const char *reason)
{
    const vts_service *service = cls;
    vts_log_note(service->log, "panic", "libmicrohttpd %s:%u: %s", file, line, reason ? reason : "no reason given");
    abort();
}

static void count_connection(void *cls, struct MHD_Connection *connection, void **context,
                             enum MHD_ConnectionNotificationCode code)
{
    vts_service *service = cls;
    (void)connection, (void)context;
    vts_stats_add(service->stats, VTS_STAT_CONNECTIONS, code == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1);
}

static unsigned port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char port[16];
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0)
        return 0;
    return (unsigned)strtoul(port, NULL, 10);
}

static vt_status open_socket(int *out, const char *host, unsigned port, vt_error *err)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[16];
    int fault = 0, fd = -1;
    const int yes = 1;
    snprintf(service, sizeof service, "%u", port);
    const int rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0)
        return vt_error_set(err, VT_E_INVALID, "listen", "listen: %s is no address of this machine: %s", host,
                            gai_strerror(rc));
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0) {
            fault = errno;
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* TIME_WAIT of a former run, not two listeners */
        if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
            fault = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0)
        return vt_error_set(err, VT_E_IO, "listen", "cannot listen on %s:%u: %s", host, port, strerror(fault));
    *out = fd;
    return VT_OK;
}

static void release(vts_daemon *daemon)
{
    vts_pem_free(daemon->cert);
    vts_pem_free(daemon->key);
    if (daemon->fd >= 0)
        close(daemon->fd);
    free(daemon);
}

static vt_status read_certificate(vts_daemon *daemon, const vts_daemon_options *options, vt_error *err)
{
    if (!options->tls_cert_file || !options->tls_cert_file[0])
        return VT_OK;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return vt_error_set(err, VT_E_UNSUPPORTED, "tls_cert_file",
                            "this libmicrohttpd was built without TLS: put a proxy in front instead");
    const vt_status st = vts_pem_read(&daemon->cert, options->tls_cert_file, "tls_cert_file", err);
    return st == VT_OK ? vts_pem_read(&daemon->key, options->tls_key_file, "tls_key_file", err) : st;
}

/* fd goes to the library when it starts. */
static struct MHD_Daemon *start(vts_daemon *daemon, const vts_daemon_options *options, int fd)
{
    vts_service *service = daemon->service;
    const unsigned flags = MHD_USE_POLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           MHD_USE_ERROR_LOG | (daemon->cert ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, daemon->cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, daemon->key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (char[]){"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"}},
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(flags, 0, NULL, NULL, vts_request_handle, service, MHD_OPTION_EXTERNAL_LOGGER, log_message,
                            service, /* first, or early messages go to standard error */
                            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, vts_request_begin, service,
                            MHD_OPTION_NOTIFY_COMPLETED, vts_request_completed, service, MHD_OPTION_NOTIFY_CONNECTION,
                            count_connection, service, MHD_OPTION_CONNECTION_LIMIT, options->connections_max,
                            MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->connections_per_ip_max,
                            MHD_OPTION_CONNECTION_TIMEOUT, options->connection_timeout_s,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_ARRAY,
                            daemon->cert ? tls : tls + VT_COUNT(tls) - 1, MHD_OPTION_END);
}

vt_status vts_daemon_bind(vts_daemon **out, const vts_daemon_options *options, vts_service *service, vt_error *err)
{
    vts_daemon *daemon = calloc(1, sizeof *daemon);
    if (!daemon)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the HTTP daemon");
    daemon->service = service;
    daemon->fd = -1;
    vt_status st = read_certificate(daemon, options, err);
    if (st == VT_OK)
        st = open_socket(&daemon->fd, options->host, options->port, err);
    if (st != VT_OK) {
        release(daemon);
        return st;
    }
    daemon->port = port_of(daemon->fd);
    service->secure = daemon->cert != NULL;
    *out = daemon;
    return VT_OK;
}

vt_status vts_daemon_begin(vts_daemon *daemon, const vts_daemon_options *options, vt_error *err)
{
    MHD_set_panic_func(panic, daemon->service);
    daemon->mhd = start(daemon, options, daemon->fd);
    if (!daemon->mhd)
        return daemon->cert
                   ? vt_error_set(err, VT_E_INVALID, "tls_cert_file",
                                  "the certificate %.80s does not go with the key %.80s, or one of them is no PEM file",
                                  options->tls_cert_file, options->tls_key_file)
                   : vt_error_set(err, VT_E_INTERNAL, "listen",
                                  "the HTTP library did not start; its reason is in the log");
    daemon->fd = -1;
    return VT_OK;
}

vt_status vts_daemon_open(vts_daemon **out, const vts_daemon_options *options, vts_service *service, vt_error *err)
{
    vts_daemon *daemon = NULL;
    vt_status st = vts_daemon_bind(&daemon, options, service, err);
    if (st == VT_OK)
        st = vts_daemon_begin(daemon, options, err);
    if (st != VT_OK) {
        vts_daemon_abandon(daemon);
        return st;
    }
    *out = daemon;
    return VT_OK;
}

unsigned vts_daemon_port(const vts_daemon *daemon)
{
    return daemon->port;
}

static void pause_ms(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

void vts_daemon_drain(vts_daemon *daemon, uint64_t timeout_ms)
{
    vts_service *service = daemon->service;
    atomic_store(&service->draining, true);
    vts_pool_wait_idle(service->pool, timeout_ms);
    const int fd = MHD_quiesce_daemon(daemon->mhd);
    vts_pool_stop(service->pool); /* cancels what still runs; every suspended connection is resumed when it returns */
    for (int waited = 0; atomic_load(&service->live) > 0 && waited < LAST_WAIT_MS; waited += 5)
        pause_ms(5);
    MHD_stop_daemon(daemon->mhd);
    if (fd >= 0)
        close(fd);
    release(daemon);
}

void vts_daemon_abandon(vts_daemon *daemon)
{
    if (daemon && daemon->mhd)
        vts_daemon_drain(daemon, 0);
    else if (daemon)
        release(daemon);
}

const char *vts_daemon_library(void)
{
    return MHD_get_version();
}
