/* limits: what a user waits for and what it costs, against what is promised for ViT-Ti/16 at 224. It starts vitrald on a free
 * port of the loopback and ends it again.
 *   limits [--server PROGRAM] [--model DIR] [--picture JPEG] [--report] [PART...]
 *
 *   start      from exec to the last byte of the first answer: 0.12 s; resident after it: 50 MB and the packed weights
 *   path       the picture's way in and out: what `rollout` with overlay and heat map costs beyond a forward, at most 10 ms
 *   memory     two workers busy on `rollout` 75 MB, on `grad_rollout` 130 MB, the packed weights on top
 *   workers    two workers against one: at least 1.8 times as many answers
 *   neighbour  a busy core beside it: at most 2.2 times the latency
 *
 * Times are promised for a core on which the forward takes FORWARD_MS. Where it takes longer now, because of an older CPU or
 * of a neighbour on the other half of the core, so may everything else, by the same factor; it is printed. What other
 * programs add on the clock remains: there the least of many counts. Without two idle cores `workers` cannot be read off the
 * clock; what a second request costs the first one in CPU time says the same.
 * --report prints without judging. Exit status 0: all held, 1: something did not, 2: it could not be tried. */
#include "engine/model/opened.h"
#include "engine/pass/trace.h"
#include "vitral/run.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STARTS = 21, REQUESTS = 41, CROWD = 60, ROUNDS = 7, LINE_MAX_BYTES = 256, ANSWER_MAX = 4 << 20 };

#define FORWARD_MS 11.3
#define DRAWN "output=values,overlay,heatmap"

static const char *server = "build/vitrald", *model = "../shared/models/vit_tiny_patch16_224",
                  *picture_path = "../shared/images/mountain_bike.jpg";
static bool report_only;
static pid_t server_pid;
static unsigned port;
static int failures;
static uint8_t picture[1 << 20];
static size_t picture_size;
static double packed_mb;    /* the copy of the weights that the kernels read */
static double slower = 1.0; /* this core now, against the one the limits were set for */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "limits: %s: %s\n", what, why);
    if (server_pid > 0)
        kill(server_pid, SIGKILL);
    exit(2);
}

/* One line of the report; `most` is what is promised. */
static void judge(const char *what, double got, double most, const char *unit)
{
    const bool held = got <= most;
    printf("  %-66s %8.2f of %7.2f %s%s\n", what, got, most, unit, held ? "" : "   TOO MUCH");
    if (!held && !report_only)
        failures++;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return values[n / 2];
}

/* ---- the server ---- */

static void start_server(const char *workers)
{
    const char *argv[] = {server,         "--listen", "127.0.0.1:0", "--workers", workers,   "--cache-bytes", "0",
                          "--held-bytes", "0",        "--log",       "none",      "--model", model,           NULL};
    char line[LINE_MAX_BYTES] = "";
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || (server_pid = fork()) < 0)
        give_up("no process", strerror(errno));
    if (server_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        execv(server, (char *const *)(size_t)argv);
        _exit(127);
    }
    close(ends[1]);
    for (size_t n = 0; n + 1 < sizeof line && read(ends[0], line + n, 1) == 1 && line[n] != '\n'; n++) {
    }
    close(ends[0]);
    if (sscanf(line, "listening on http://127.0.0.1:%u", &port) != 1)
        give_up(server, "does not start");
}

static void stop_server(void)
{
    int status = 0;
    kill(server_pid, SIGTERM);
    if (waitpid(server_pid, &status, 0) != server_pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        give_up(server, "does not end well");
    server_pid = 0;
}

/* CPU time of all its threads so far. */
static double server_ms(void)
{
    char path[LINE_MAX_BYTES];
    double sum = 0.0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)server_pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        give_up(path, strerror(errno));
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        unsigned long long ns;
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)server_pid, task->d_name);
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%llu", &ns) == 1)
            sum += (double)ns * 1e-6;
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return sum;
}

static double resident_mb(void)
{
    char path[64], line[LINE_MAX_BYTES];
    double mb = 0.0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)server_pid);
    FILE *file = fopen(path, "re");
    if (!file)
        give_up(path, strerror(errno));
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            mb = (double)strtol(line + 6, NULL, 10) / 1024.0;
    fclose(file);
    return mb;
}

/* ---- a client ---- */

/* From connect to the last byte, on the clock. */
static double call(const char *target)
{
    const double start = now_ms();
    const struct timeval patience = {.tv_sec = 60};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char head[512], first[16] = "", waste[1 << 16];
    size_t got = 0;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        give_up("no connection", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const int n = snprintf(head, sizeof head,
                           "POST %s HTTP/1.1\r\nHost: limits\r\nConnection: close\r\nContent-Type: image/jpeg\r\n"
                           "Content-Length: %zu\r\n\r\n",
                           target, picture_size);
    if (send(fd, head, (size_t)n, MSG_NOSIGNAL) != n ||
        send(fd, picture, picture_size, MSG_NOSIGNAL) != (ssize_t)picture_size)
        give_up("no request", strerror(errno));
    for (ssize_t more; (more = recv(fd, waste, sizeof waste, 0)) > 0; got += (size_t)more)
        for (size_t k = 0; got + k < sizeof first - 1 && k < (size_t)more; k++)
            first[got + k] = waste[k];
    close(fd);
    if (strncmp(first, "HTTP/1.1 200", 12) != 0)
        give_up(target, first);
    return now_ms() - start;
}

/* ---- parts ---- */

static void part_start(void)
{
    double wall[STARTS], ready[STARTS], cpu[STARTS], mb[STARTS];
    for (int k = 0; k < STARTS; k++) {
        const double start = now_ms();
        start_server("2");
        ready[k] = now_ms() - start;
        call("/explain?method=rollout");
        wall[k] = now_ms() - start;
        cpu[k] = server_ms();
        mb[k] = resident_mb();
        stop_server();
    }
    const double middle = median(wall, STARTS), listening = median(ready, STARTS), work = median(cpu, STARTS);
    printf("  first answer: median %.1f ms, listening after %.1f (least %.1f), CPU time %.1f (least %.1f)\n", middle,
           listening, ready[0], work, cpu[0]);
    judge("exec to first answer, least", wall[0], 120.0 * slower, "ms");
    judge("resident after the first answer", median(mb, STARTS), 50.0 + packed_mb, "MB");
}

/* A forward as `rollout` needs it, in this process: by the same code on the same weights. */
static struct {
    vt_model *model;
    vt_arena *arena;
    vt_trace trace;
    float *input;
} own;

static double forward_ms(void)
{
    vt_error err = {0};
    const double start = thread_ms();
    if (vt_forward(&own.trace, own.input, NULL, &err) != VT_OK)
        give_up("forward", err.msg);
    return thread_ms() - start;
}

static void open_own(void)
{
    vt_error err = {0};
    double ms[REQUESTS];
    vt_set_blas_threads(1);
    if (vt_model_open(&own.model, model, NULL, &err) != VT_OK) /* this also brings the files into the page cache */
        give_up(model, err.msg);
    if (vt_model_can_pack()) { /* as vitrald does */
        if (vt_model_pack(own.model, &err) != VT_OK)
            give_up(model, err.msg);
        packed_mb = (double)vt_model_packed_bytes(own.model) / 1048576.0;
    }
    if (vt_arena_open(&own.arena, (size_t)1 << 30, &err) != VT_OK ||
        vt_trace_open(&own.trace, own.model, VT_NEEDS_ATTN_MEAN, own.arena, &err) != VT_OK)
        give_up("forward", err.msg);
    const vt_model_info *info = vt_model_get_info(own.model);
    const size_t values = 3 * info->image_h * info->image_w;
    own.input = vt_arena_alloc(own.arena, values, sizeof *own.input);
    for (size_t k = 0; k < values; k++)
        own.input[k] = sinf((float)k * 0.37f);
    for (int k = -5; k < REQUESTS; k++)
        ms[k < 0 ? 0 : k] = forward_ms();
    const double middle = median(ms, REQUESTS);
    slower = middle > FORWARD_MS ? middle / FORWARD_MS : 1.0;
    printf("forward: %.2f ms; limits of time are those of %.1f ms, times %.2f\n", middle, FORWARD_MS, slower);
}

/* Rounds are interleaved: a machine that changes its speed changes both sides. */
static void part_path(void)
{
    double forward[REQUESTS], request[REQUESTS], drawn[REQUESTS];
    start_server("1");
    for (int k = -5; k < REQUESTS; k++) {
        const size_t at = k < 0 ? 0 : (size_t)k;
        forward[at] = forward_ms();
        double start = server_ms();
        call("/explain?method=rollout&output=values");
        request[at] = server_ms() - start;
        start = server_ms();
        call("/explain?method=rollout&" DRAWN);
        drawn[at] = server_ms() - start;
    }
    stop_server();
    const double f = median(forward, REQUESTS), r = median(request, REQUESTS), d = median(drawn, REQUESTS);
    printf("  CPU time: forward %.2f ms (least %.2f), rollout with values %.2f (%.2f), with pictures %.2f (%.2f)\n", f,
           forward[0], r, request[0], d, drawn[0]);
    judge("beyond the forward, with pictures, medians", d - f, 10.0 * fmax(1.0, f / FORWARD_MS), "ms");
}

static struct {
    const char *target;
    atomic_int left, running;
} crowd;

static void *crowd_client(void *unused)
{
    (void)unused;
    while (atomic_fetch_sub(&crowd.left, 1) > 0)
        call(crowd.target);
    atomic_fetch_sub(&crowd.running, 1);
    return NULL;
}

/* `requests` of them by so many clients: time on the clock, and the largest resident size meanwhile. */
static double run_crowd(int clients, int requests, const char *target, double *most_mb)
{
    pthread_t threads[2];
    const double start = now_ms();
    crowd.target = target;
    atomic_store(&crowd.left, requests);
    atomic_store(&crowd.running, clients);
    for (int k = 0; k < clients; k++)
        if (pthread_create(&threads[k], NULL, crowd_client, NULL) != 0)
            give_up("no thread", strerror(errno));
    while (most_mb && atomic_load(&crowd.running) > 0) {
        const double mb = resident_mb();
        *most_mb = mb > *most_mb ? mb : *most_mb;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    for (int k = 0; k < clients; k++)
        pthread_join(threads[k], NULL);
    return now_ms() - start;
}

static void part_memory(void)
{
    double rollout = 0.0, grad = 0.0;
    start_server("2");
    run_crowd(2, CROWD, "/explain?method=rollout&" DRAWN, &rollout);
    stop_server();
    start_server("2");
    run_crowd(2, CROWD, "/explain?method=grad_rollout&" DRAWN, &grad);
    stop_server();
    judge("resident, two workers busy on rollout, most", rollout, 75.0 + packed_mb, "MB");
    judge("resident, two workers busy on grad_rollout, most", grad, 130.0 + packed_mb, "MB");
}

static void part_workers(void)
{
    double clock[ROUNDS], cpu[ROUNDS];
    const char *target = "/explain?method=rollout&" DRAWN;
    start_server("2");
    run_crowd(2, 8, target, NULL);
    for (int k = 0; k < ROUNDS; k++) {
        double start = server_ms();
        const double alone = run_crowd(1, 30, target, NULL);
        const double alone_cpu = server_ms() - start;
        start = server_ms();
        const double both = run_crowd(2, 30, target, NULL);
        clock[k] = both / alone;
        cpu[k] = (server_ms() - start) / alone_cpu;
    }
    stop_server();
    median(clock, ROUNDS);
    const double share = median(cpu, ROUNDS);
    printf("  two workers: %.2f times one on the clock at best, %.2f in the middle\n", 1.0 / clock[0],
           1.0 / clock[ROUNDS / 2]);
    judge("CPU time of a request beside another one, against alone", share, 2.0 / 1.8, "times");
}

static void part_neighbour(void)
{
    double quiet[ROUNDS * 8], beside[ROUNDS * 8];
    size_t n = 0;
    start_server("2");
    call("/explain?method=rollout&" DRAWN);
    for (int k = 0; k < ROUNDS; k++) {
        for (int i = 0; i < 8; i++)
            quiet[n + (size_t)i] = call("/explain?method=rollout&" DRAWN);
        const pid_t neighbour = fork();
        if (neighbour < 0)
            give_up("no process", strerror(errno));
        if (neighbour == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile unsigned long spin = 0;; spin++) {
            }
        }
        for (int i = 0; i < 8; i++)
            beside[n + (size_t)i] = call("/explain?method=rollout&" DRAWN);
        kill(neighbour, SIGKILL);
        waitpid(neighbour, NULL, 0);
        n += 8;
    }
    stop_server();
    const double q = median(quiet, n), b = median(beside, n);
    printf("  latency: %.1f ms, beside a busy core %.1f (least %.1f and %.1f)\n", q, b, quiet[0], beside[0]);
    judge("latency beside a busy core, medians", b / q, 2.2, "times");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"start", part_start},
                 {"path", part_path},
                 {"memory", part_memory},
                 {"workers", part_workers},
                 {"neighbour", part_neighbour}};
    bool wanted[VT_COUNT(parts)] = {false}, any = false;
    for (int k = 1; k < argc; k++) {
        const char *value = k + 1 < argc ? argv[k + 1] : NULL;
        size_t part = 0;
        while (part < VT_COUNT(parts) && strcmp(argv[k], parts[part].name) != 0)
            part++;
        if (part < VT_COUNT(parts))
            wanted[part] = any = true;
        else if (strcmp(argv[k], "--report") == 0)
            report_only = true;
        else if (value && strcmp(argv[k], "--server") == 0)
            server = argv[++k];
        else if (value && strcmp(argv[k], "--model") == 0)
            model = argv[++k];
        else if (value && strcmp(argv[k], "--picture") == 0)
            picture_path = argv[++k];
        else {
            fprintf(stderr, "usage: limits [--server PROGRAM] [--model DIR] [--picture JPEG] [--report] "
                            "[start|path|memory|workers|neighbour]...\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    FILE *file = fopen(picture_path, "rbe");
    if (!file)
        give_up(picture_path, strerror(errno));
    picture_size = fread(picture, 1, sizeof picture, file);
    fclose(file);

    open_own();
    for (size_t part = 0; part < VT_COUNT(parts); part++) {
        if (any && !wanted[part])
            continue;
        printf("%s:\n", parts[part].name);
        parts[part].run();
    }
    vt_arena_close(own.arena);
    vt_model_close(own.model);
    printf("limits: %s\n", failures ? "something did not hold" : "all held");
    return failures ? 1 : 0;
}
