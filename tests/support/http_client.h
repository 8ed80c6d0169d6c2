/* A small HTTP client over raw sockets: it can send what no proper client would, and reads answers one by one. Every
 * wait ends after 20 s (times CK_TIMEOUT_MULTIPLIER). Failures end the test with the place. */
#ifndef VT_TESTS_HTTP_CLIENT_H
#define VT_TESTS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct vt_http_reply {
    int status; /* 0: the connection was closed without an answer */
    char head[8192];
    char *body; /* malloc'ed, NUL behind it */
    size_t size;
    double seconds;
} vt_http_reply;

int vt_http_connect(unsigned port);
bool vt_http_send(int fd, const void *data, size_t size); /* false: the other side is gone */
void vt_http_text(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The next answer; head: the request was HEAD, so no body follows. 100 Continue is an answer of its own. */
vt_http_reply vt_http_read(int fd, bool head);
void vt_http_free(vt_http_reply *reply);
bool vt_http_closed(int fd, int wait_ms); /* did the other side close? */

/* Value of a header, "" when absent; a static buffer for each thread. */
const char *vt_http_header(const vt_http_reply *reply, const char *name);

/* A whole exchange on a connection of its own. body NULL: none. */
vt_http_reply vt_http_call(unsigned port, const char *verb, const char *target, const char *headers, const void *body,
                           size_t size);

/* A form with the picture in `field` and "a=1&b=2" as text fields; malloc'ed. Its boundary is "vitral-test". */
char *vt_http_form(const char *field, const void *picture, size_t picture_size, const char *fields, size_t *size);
#define VT_HTTP_FORM "Content-Type: multipart/form-data; boundary=vitral-test\r\n"

#endif
