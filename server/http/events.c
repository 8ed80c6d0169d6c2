/* Server-sent events over suspended connections.
 *
 * A reader that returns 0 is called again at once, so when there is nothing to say it suspends the connection, under the
 * stream's mutex, and leaves `waiting` set; whoever has something to say stores it under the same mutex and resumes only
 * if `waiting`. So no wake-up is lost and none is given to a connection that is not suspended.
 *
 * Only the newest progress is kept, so a slow reader costs nothing; and only what the run told is told on.
 *
 * A client that has left is noticed by polling its socket while the connection is suspended (the number cannot be given
 * to anybody else then), or by the library at the next write, which ends the response and with it our side. */
#include "server/http/events.h"

#include "server/http/progress.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { READER_BLOCK = 16384, EVENT_MAX = 512 };

struct vts_stream {
    atomic_int references;
    vts_ticker *ticker;
    vts_stream *next, *previous; /* of the ticker's list; under its lock */
    vts_job *job;

    pthread_mutex_t lock;              /* of all that follows */
    struct MHD_Connection *connection; /* NULL once the response is gone */
    int socket;
    bool waiting, has_progress, beat, finished, final_sent;
    vts_progress newest;
    const char *outcome; /* static */
    int64_t quiet_since_ns;
    uint64_t sent;
    char small[EVENT_MAX]; /* progress that is being sent */
    char *large;           /* the last event; NULL: there was no memory for it */
    const char *out;       /* what is being sent: small or large */
    size_t out_size, out_at, large_size;
};

struct vts_ticker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stop_now;
    bool stopping;
    unsigned beat_ms;
    vts_stream *first;
};

/* ---- the list of streams ---- */

static void enlist(vts_ticker *ticker, vts_stream *stream)
{
    pthread_mutex_lock(&ticker->lock);
    stream->next = ticker->first;
    if (ticker->first)
        ticker->first->previous = stream;
    ticker->first = stream;
    pthread_mutex_unlock(&ticker->lock);
}

static void delist(vts_ticker *ticker, vts_stream *stream)
{
    pthread_mutex_lock(&ticker->lock);
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        ticker->first = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
    pthread_mutex_unlock(&ticker->lock);
}

/* Under the stream's lock: have the reader called. */
static void wake(vts_stream *stream)
{
    if (!stream->waiting || !stream->connection)
        return;
    stream->waiting = false;
    MHD_resume_connection(stream->connection);
}

static void *run_ticker(void *raw)
{
    vts_ticker *ticker = raw;
    const int64_t beat_ns = (int64_t)ticker->beat_ms * 1000000, step_ns = beat_ns < 1000000000 ? beat_ns : 1000000000;
    pthread_mutex_lock(&ticker->lock);
    while (!ticker->stopping) {
        const int64_t until = vt_now_ns() + step_ns, now = until - step_ns;
        const struct timespec at = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
        for (vts_stream *s = ticker->first; s; s = s->next) { /* none is freed while the list is locked */
            pthread_mutex_lock(&s->lock);
            if (!s->finished && now - s->quiet_since_ns >= beat_ns) {
                s->beat = true;
                wake(s);
            }
            pthread_mutex_unlock(&s->lock);
        }
        while (!ticker->stopping && pthread_cond_timedwait(&ticker->stop_now, &ticker->lock, &at) != ETIMEDOUT) {
        }
    }
    pthread_mutex_unlock(&ticker->lock);
    return NULL;
}

vt_status vts_ticker_open(vts_ticker **out, unsigned beat_ms, vt_error *err)
{
    pthread_condattr_t attr;
    vts_ticker *ticker = calloc(1, sizeof *ticker);
    if (!ticker)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for event streams");
    ticker->beat_ms = beat_ms;
    pthread_mutex_init(&ticker->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&ticker->stop_now, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&ticker->thread, NULL, run_ticker, ticker) != 0) {
        pthread_cond_destroy(&ticker->stop_now);
        pthread_mutex_destroy(&ticker->lock);
        free(ticker);
        return vt_error_set(err, VT_E_NOMEM, "", "the thread of event streams could not be started");
    }
    pthread_setname_np(ticker->thread, "vitral-ticker");
    *out = ticker;
    return VT_OK;
}

void vts_ticker_close(vts_ticker *ticker)
{
    if (!ticker)
        return;
    pthread_mutex_lock(&ticker->lock);
    ticker->stopping = true;
    pthread_cond_broadcast(&ticker->stop_now);
    pthread_mutex_unlock(&ticker->lock);
    pthread_join(ticker->thread, NULL);
    pthread_cond_destroy(&ticker->stop_now);
    pthread_mutex_destroy(&ticker->lock);
    free(ticker);
}

/* ---- the response's side: polling thread ---- */

/* What is to be sent next, in out; false when there is nothing. Under the lock. */
static bool next_text(vts_stream *s)
{
    s->out_at = s->out_size = 0;
    if (s->has_progress) {
        s->has_progress = false;
        s->out = s->small;
        s->out_size = vts_progress_text(&s->newest, s->small, EVENT_MAX);
    } else if (s->finished && !s->final_sent) {
        static const char no_memory[] = "event: error\ndata: " VTS_NO_MEMORY "\n\n";
        s->final_sent = true;
        s->out = s->large ? s->large : no_memory;
        s->out_size = s->large ? s->large_size : sizeof no_memory - 1;
    } else if (s->beat && !s->finished) {
        s->out = ":\n\n";
        s->out_size = 3;
    }
    s->beat = false;
    return s->out_size > 0;
}

static ssize_t read_events(void *cls, uint64_t position, char *buffer, size_t max)
{
    vts_stream *s = cls;
    ssize_t result;
    (void)position;
    pthread_mutex_lock(&s->lock);
    if (s->out_at < s->out_size || next_text(s)) {
        const size_t left = s->out_size - s->out_at, n = left < max ? left : max;
        memcpy(buffer, s->out + s->out_at, n);
        s->out_at += n;
        s->sent += n;
        s->quiet_since_ns = vt_now_ns();
        result = (ssize_t)n;
    } else if (s->finished) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        s->waiting = true;
        MHD_suspend_connection(s->connection);
        result = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* The response is gone: sent to its end, or the client has left. */
static void response_gone(void *cls)
{
    vts_stream *s = cls;
    pthread_mutex_lock(&s->lock);
    s->connection = NULL;
    s->waiting = false;
    if (!s->finished)
        vt_control_cancel(&s->job->control);
    pthread_mutex_unlock(&s->lock);
    vts_stream_drop(s);
}

/* ---- the job's side: its worker ---- */

static void on_progress(void *host, const char *stage, uint64_t done, uint64_t total)
{
    vts_stream *s = host;
    pthread_mutex_lock(&s->lock);
    vts_progress_note(&s->newest, stage, done, total, vt_now_ns());
    s->has_progress = true;
    wake(s);
    pthread_mutex_unlock(&s->lock);
}

static bool on_gone(void *host)
{
    vts_stream *s = host;
    pthread_mutex_lock(&s->lock);
    struct pollfd fd = {.fd = s->socket, .events = POLLRDHUP, .revents = 0};
    const bool gone = !s->connection || (s->waiting && s->socket >= 0 && poll(&fd, 1, 0) > 0 &&
                                         (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
    pthread_mutex_unlock(&s->lock);
    return gone;
}

static void on_finished(vts_job *job)
{
    vts_stream *s = job->host;
    size_t size = 0;
    char *text = vts_event_text(job->reply.status == 200 ? "result" : "error", job->reply.body, job->reply.size, &size);
    pthread_mutex_lock(&s->lock);
    s->large = text;
    s->large_size = text ? size : 0;
    s->outcome = text ? job->reply.outcome : "memory_full";
    s->finished = true;
    wake(s);
    pthread_mutex_unlock(&s->lock);
    vts_reply_clear(&job->reply);
    vts_stream_drop(s);
}

/* ---- both ---- */

char *vts_event_text(const char *name, const char *json, size_t json_size, size_t *size)
{
    const size_t head = strlen(name) + 15; /* "event: " "\ndata: " and a NUL */
    char *text = malloc(head + json_size + 3);
    if (!text)
        return NULL;
    const size_t n = (size_t)snprintf(text, head, "event: %s\ndata: ", name);
    memcpy(text + n, json ? json : "", json_size);
    memcpy(text + n + json_size, "\n\n", 3);
    *size = n + json_size + 2;
    return text;
}

vts_stream *vts_stream_open(vts_ticker *ticker, vts_job *job, struct MHD_Connection *connection, int socket,
                            struct MHD_Response **response)
{
    vts_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, READER_BLOCK, read_events, s, response_gone);
    if (!*response) {
        free(s);
        return NULL;
    }
    atomic_init(&s->references, 2);
    pthread_mutex_init(&s->lock, NULL);
    s->ticker = ticker;
    s->job = job;
    s->connection = connection;
    s->socket = socket;
    s->quiet_since_ns = vt_now_ns();
    job->host = s;
    job->finished = on_finished;
    job->control.host = s;
    job->control.gone = on_gone;
    job->control.progress = on_progress;
    enlist(ticker, s);
    return s;
}

void vts_stream_hold(vts_stream *stream)
{
    atomic_fetch_add(&stream->references, 1);
}

void vts_stream_report_of(vts_stream *s, vts_stream_report *report)
{
    pthread_mutex_lock(&s->lock);
    *report = (vts_stream_report){.finished = s->finished, .outcome = s->outcome, .sent = s->sent};
    if (s->finished) {
        report->published_ns = s->job->published_ns;
        report->started_ns = s->job->started_ns;
        report->ended_ns = s->job->ended_ns;
    }
    pthread_mutex_unlock(&s->lock);
}

void vts_stream_drop(vts_stream *s)
{
    if (!s || atomic_fetch_sub(&s->references, 1) != 1)
        return;
    delist(s->ticker, s);
    pthread_mutex_destroy(&s->lock);
    vts_job_drop(s->job);
    free(s->large);
    free(s);
}
