/* What the load tools share: a vitrald in a process of its own, clients that send and read over sockets of their own, and
 * figures. Whatever cannot be tried ends the program with status 2; the server dies with it. Every function may be called by
 * any thread. */
#ifndef VT_TOOLS_LOAD_CLIENT_H
#define VT_TOOLS_LOAD_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

double vt_load_now_ms(void); /* monotonic */
void vt_load_pause_ms(double ms);
_Noreturn void vt_load_give_up(const char *what); /* says it with errno */

typedef struct vt_load_server {
    pid_t pid;
    unsigned port;
} vt_load_server;

/* args: of the program, the first its path, NULL at the end; they make it listen on a free port of the loopback. */
void vt_load_start(vt_load_server *server, const char *const *args);
int vt_load_stop(const vt_load_server *server); /* SIGTERM; 0, or its wait status */
/* Of VmRSS, VmHWM and so on, in kB. */
long vt_load_memory_kb(const vt_load_server *server, const char *which);

typedef struct vt_load_answer {
    int status; /* 0: none came */
    unsigned retry_after;
    char *text; /* head and body, malloc'ed */
    size_t size;
    double ms; /* from connect to the last byte */
} vt_load_answer;

/* The steps of a call, for clients that leave in the middle. cut: send only so much of the body. */
int vt_load_dial(unsigned port);
void vt_load_send(int fd, const char *verb, const char *target, const char *headers, const void *body, size_t size,
                  size_t cut);
vt_load_answer vt_load_receive(int fd);
/* A whole exchange on a connection of its own. */
vt_load_answer vt_load_call(unsigned port, const char *verb, const char *target, const char *headers, const void *body,
                            size_t size);

double vt_load_quantile(double *values, size_t n, double q); /* sorts; HUGE_VAL of none */
/* Sum of the samples of a metric whose labels hold this text; -1 when there is none. */
double vt_load_metric(const char *text, const char *name, const char *label);
uint8_t *vt_load_file(const char *path, size_t *size); /* malloc'ed */

#endif
