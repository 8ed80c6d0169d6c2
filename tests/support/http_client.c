#include "tests/support/http_client.h"
#include "tests/support/suite.h"

#include "vitral/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static int patience_ms(void)
{
    const char *text = getenv("CK_TIMEOUT_MULTIPLIER");
    const double factor = text ? strtod(text, NULL) : 1.0;
    return (int)(20000.0 * (factor > 1.0 ? factor : 1.0));
}

int vt_http_connect(unsigned port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(connect(fd, (const struct sockaddr *)&address, sizeof address) == 0, "connect to %u: %s", port,
                  strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

bool vt_http_send(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        const ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

void vt_http_text(int fd, const char *fmt, ...)
{
    char text[16384];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ck_assert_msg(n >= 0 && (size_t)n < sizeof text, "the request text is too long");
    vt_http_send(fd, text, (size_t)n);
}

/* One byte; -1 at the end. Bytes behind an answer stay in the socket, so that pipelined answers can be read in turn. */
static int next_byte(int fd)
{
    unsigned char c;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    const int ready = poll(&p, 1, patience_ms());
    ck_assert_msg(ready != 0, "no answer within %d ms", patience_ms());
    return recv(fd, &c, 1, 0) == 1 ? c : -1;
}

static void read_body(int fd, vt_http_reply *reply, size_t size)
{
    reply->body = realloc(reply->body, reply->size + size + 1);
    ck_assert_ptr_nonnull(reply->body);
    const size_t end = reply->size + size;
    while (reply->size < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ck_assert_msg(poll(&p, 1, patience_ms()) > 0, "the body stops after %zu of %zu bytes", reply->size, end);
        const ssize_t n = recv(fd, reply->body + reply->size, end - reply->size, 0);
        ck_assert_msg(n > 0, "the connection ends after %zu of %zu bytes of the body", reply->size, end);
        reply->size += (size_t)n;
    }
    reply->body[end] = '\0';
}

static void read_line(int fd, char *line, size_t size)
{
    size_t n = 0;
    for (int c = next_byte(fd); c != '\n' && c >= 0; c = next_byte(fd))
        if (n + 1 < size)
            line[n++] = (char)c;
    line[n] = '\0';
}

vt_http_reply vt_http_read(int fd, bool head)
{
    vt_http_reply reply = {0};
    const int64_t start = vt_now_ns();
    size_t n = 0;
    while (n + 1 < sizeof reply.head) {
        const int c = next_byte(fd);
        if (c < 0)
            break;
        reply.head[n++] = (char)c;
        if (n >= 4 && memcmp(reply.head + n - 4, "\r\n\r\n", 4) == 0)
            break;
    }
    reply.head[n] = '\0';
    reply.seconds = (double)(vt_now_ns() - start) * 1e-9;
    if (n == 0)
        return reply;
    ck_assert_msg(sscanf(reply.head, "HTTP/1.%*d %d", &reply.status) == 1, "not HTTP: %.60s", reply.head);
    if (head || reply.status < 200 || reply.status == 204 || reply.status == 304)
        return reply;
    if (strcasecmp(vt_http_header(&reply, "Transfer-Encoding"), "chunked") == 0) {
        char line[128];
        for (;;) {
            read_line(fd, line, sizeof line);
            const size_t size = strtoul(line, NULL, 16);
            if (size > 0)
                read_body(fd, &reply, size);
            read_line(fd, line, sizeof line);
            if (size == 0)
                break;
        }
    } else if (*vt_http_header(&reply, "Content-Length")) {
        read_body(fd, &reply, strtoul(vt_http_header(&reply, "Content-Length"), NULL, 10));
    }
    reply.seconds = (double)(vt_now_ns() - start) * 1e-9;
    return reply;
}

void vt_http_free(vt_http_reply *reply)
{
    free(reply->body);
    reply->body = NULL;
}

bool vt_http_closed(int fd, int wait_ms)
{
    char c;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, wait_ms) > 0 && recv(fd, &c, 1, MSG_PEEK) <= 0;
}

const char *vt_http_header(const vt_http_reply *reply, const char *name)
{
    static _Thread_local char value[1024];
    const size_t n = strlen(name);
    for (const char *at = strstr(reply->head, "\r\n"); at && at[2]; at = strstr(at + 2, "\r\n"))
        if (strncasecmp(at + 2, name, n) == 0 && at[2 + n] == ':') {
            const char *from = at + 3 + n + strspn(at + 3 + n, " ");
            snprintf(value, sizeof value, "%.*s", (int)strcspn(from, "\r"), from);
            return value;
        }
    return "";
}

vt_http_reply vt_http_call(unsigned port, const char *verb, const char *target, const char *headers, const void *body,
                           size_t size)
{
    const int fd = vt_http_connect(port);
    vt_http_text(fd, "%s %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n%s", verb, target, headers);
    if (body)
        vt_http_text(fd, "Content-Length: %zu\r\n", size);
    vt_http_text(fd, "\r\n");
    if (body)
        vt_http_send(fd, body, size);
    vt_http_reply reply = vt_http_read(fd, strcmp(verb, "HEAD") == 0);
    close(fd);
    return reply;
}

char *vt_http_form(const char *field, const void *picture, size_t picture_size, const char *fields, size_t *size)
{
    const size_t room = picture_size + strlen(fields) * 8 + 4096;
    char *form = malloc(room);
    size_t n = 0;
    ck_assert_ptr_nonnull(form);
    for (const char *at = fields; *at;) {
        const size_t pair = strcspn(at, "&"), name = strcspn(at, "=");
        n += (size_t)snprintf(form + n, room - n,
                              "--vitral-test\r\nContent-Disposition: form-data; name=\"%.*s\"\r\n\r\n%.*s\r\n",
                              (int)name, at, (int)(pair - name - 1), at + name + 1);
        at += pair + (at[pair] == '&');
    }
    if (picture) {
        n += (size_t)snprintf(
            form + n, room - n,
            "--vitral-test\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"x.jpg\"\r\n\r\n", field);
        memcpy(form + n, picture, picture_size);
        n += picture_size;
        n += (size_t)snprintf(form + n, room - n, "\r\n");
    }
    n += (size_t)snprintf(form + n, room - n, "--vitral-test--\r\n");
    *size = n;
    return form;
}
