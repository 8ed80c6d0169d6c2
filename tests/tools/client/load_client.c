#include "tests/tools/client/load_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 256 };

double vt_load_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void vt_load_pause_ms(double ms)
{
    const struct timespec t = {(time_t)(ms / 1e3), (long)(fmod(ms, 1e3) * 1e6)};
    nanosleep(&t, NULL);
}

void vt_load_give_up(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(2);
}

void vt_load_start(vt_load_server *server, const char *const *args)
{
    char line[LINE_MAX_BYTES] = "";
    int ends[2];
    if (pipe(ends) != 0 || (server->pid = fork()) < 0)
        vt_load_give_up("no process");
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        execv(args[0], (char *const *)(uintptr_t)args);
        perror(args[0]);
        _exit(127);
    }
    close(ends[1]);
    for (size_t n = 0; n + 1 < sizeof line && read(ends[0], line + n, 1) == 1 && line[n] != '\n'; n++) {
    }
    if (sscanf(line, "listening on http://127.0.0.1:%u", &server->port) != 1)
        vt_load_give_up("the server does not start");
}

int vt_load_stop(const vt_load_server *server)
{
    int status = 0;
    kill(server->pid, SIGTERM);
    return waitpid(server->pid, &status, 0) == server->pid ? status : -1;
}

long vt_load_memory_kb(const vt_load_server *server, const char *which)
{
    char path[64], line[LINE_MAX_BYTES];
    long kb = 0;
    const size_t n = strlen(which);
    snprintf(path, sizeof path, "/proc/%d/status", (int)server->pid);
    FILE *file = fopen(path, "re");
    if (!file)
        vt_load_give_up(path);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, which, n) == 0 && line[n] == ':')
            kb = strtol(line + n + 1, NULL, 10);
    fclose(file);
    return kb;
}

int vt_load_dial(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const struct timeval patience = {.tv_sec = 120};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        vt_load_give_up("no connection");
    const int on = 1; /* else a body waits for the answer to its head's packet, 40 ms */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static void send_all(int fd, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size > 0) {
        const ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the server has answered and closed: its answer is still there to read */
        at += n;
        size -= (size_t)n;
    }
}

void vt_load_send(int fd, const char *verb, const char *target, const char *headers, const void *body, size_t size,
                  size_t cut)
{
    char head[1024];
    const int n = snprintf(head, sizeof head,
                           "%s %s HTTP/1.1\r\nHost: load\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n", verb,
                           target, headers, size);
    send_all(fd, head, (size_t)n);
    send_all(fd, body, cut < size ? cut : size);
}

vt_load_answer vt_load_receive(int fd)
{
    vt_load_answer a = {0};
    size_t room = 1 << 16;
    a.text = malloc(room);
    for (ssize_t n = 1; n > 0 && a.text;) {
        if (a.size + 1 == room) {
            char *more = realloc(a.text, room *= 2);
            if (!more)
                vt_load_give_up("no memory");
            a.text = more;
        }
        n = recv(fd, a.text + a.size, room - a.size - 1, 0);
        a.size += n > 0 ? (size_t)n : 0;
    }
    if (!a.text)
        vt_load_give_up("no memory");
    a.text[a.size] = '\0';
    if (sscanf(a.text, "HTTP/1.1 %d", &a.status) != 1)
        a.status = 0;
    const char *retry = strcasestr(a.text, "\r\nRetry-After: ");
    a.retry_after = retry && retry < strstr(a.text, "\r\n\r\n") ? (unsigned)strtoul(retry + 15, NULL, 10) : 0;
    return a;
}

vt_load_answer vt_load_call(unsigned port, const char *verb, const char *target, const char *headers, const void *body,
                            size_t size)
{
    const double start = vt_load_now_ms();
    const int fd = vt_load_dial(port);
    vt_load_send(fd, verb, target, headers, body, size, SIZE_MAX);
    vt_load_answer a = vt_load_receive(fd);
    close(fd);
    a.ms = vt_load_now_ms() - start;
    return a;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double vt_load_quantile(double *values, size_t n, double q)
{
    qsort(values, n, sizeof *values, by_size);
    return n ? values[(size_t)(q * (double)(n - 1) + 0.5)] : HUGE_VAL;
}

double vt_load_metric(const char *text, const char *name, const char *label)
{
    double sum = -1.0;
    const size_t n = strlen(name);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL;) {
        at++;
        if (strncmp(at, name, n) != 0 || (at[n] != '{' && at[n] != ' '))
            continue;
        const char *end = strchr(at, '\n'), *space = end;
        while (space > at && *space != ' ')
            space--;
        const char *found = label[0] ? strstr(at, label) : at;
        if (found && found < space)
            sum = (sum < 0.0 ? 0.0 : sum) + strtod(space, NULL);
    }
    return sum;
}

uint8_t *vt_load_file(const char *path, size_t *size)
{
    enum { ROOM = 1 << 20 };
    FILE *file = fopen(path, "rbe");
    uint8_t *bytes = malloc(ROOM);
    if (!file || !bytes)
        vt_load_give_up(path);
    *size = fread(bytes, 1, ROOM, file);
    fclose(file);
    return bytes;
}
