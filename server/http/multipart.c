/* multipart/form-data, read strictly.
 *
 * Why not libmicrohttpd's post-processor: it keeps `; charset=...` as part of the boundary, knows `boundary=` in lower
 * case only, no quotes, says YES to a body without its closing delimiter and to one without any part, and reports two
 * parts of one name as one that starts again. A reader of our own is shorter than the wrapper that would catch all this.
 *
 * How it works: a delimiter is CR LF "--" boundary, and neither CR nor LF can occur inside a boundary. So a match that
 * breaks off can only begin again at a CR: no byte is looked at twice and nothing needs to be kept but a count. Only
 * whole delimiter lines count (delimiter, blanks, CR LF, or "--" before the blanks); anything else that begins like one
 * is data. The body is read as if a CR LF stood before it, so a delimiter may open it. */
#include "server/http/multipart.h"

#include <string.h>

void vts_multipart_init(vts_multipart *mp, const char *boundary, const vts_part_sink *sink)
{
    const size_t n = strlen(boundary);
    memset(mp, 0, offsetof(vts_multipart, head));
    mp->head_size = mp->parts = 0;
    mp->fault = NULL;
    mp->sink = *sink;
    memcpy(mp->delimiter, "\r\n--", 4);
    memcpy(mp->delimiter + 4, boundary, n < VTS_BOUNDARY_MAX ? n : VTS_BOUNDARY_MAX);
    mp->delimiter_size = 4 + (n < VTS_BOUNDARY_MAX ? n : VTS_BOUNDARY_MAX);
    mp->state = VTS_MP_PREAMBLE;
    mp->matched = 2;
}

static bool fail(vts_multipart *mp, const char *fault)
{
    mp->fault = fault;
    mp->state = VTS_MP_FAILED;
    return false;
}

/* Data of the part, or of the preamble, which nobody reads. */
static bool emit(vts_multipart *mp, const void *data, size_t size)
{
    if (!mp->in_part || size == 0 || mp->sink.data(mp->sink.host, data, size))
        return true;
    return fail(mp, NULL);
}

/* The next line of the head: folded lines are joined by a blank. False when it is broken. */
static bool next_line(char **at, char *end, char **line)
{
    char *from = *at, *to = from;
    for (;;) {
        char *cr = memchr(to, '\r', (size_t)(end - to));
        if (!cr || cr + 1 >= end || cr[1] != '\n')
            return false;
        to = cr + 2;
        if (to >= end || (*to != ' ' && *to != '\t')) {
            *cr = '\0';
            break;
        }
        cr[0] = cr[1] = ' ';
    }
    *line = from;
    *at = to;
    return true;
}

static bool same_word(const char *text, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        const char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
        if (word[i] == '\0' || c != word[i])
            return false;
    }
    return word[n] == '\0';
}

/* NULL when good. */
static const char *read_disposition(const char *text, vts_part *part)
{
    char kind[32], name[32], value[VTS_PART_NAME_MAX];
    bool whole, named = false;
    const char *at = text;
    if (!vts_field_value(&at, kind, sizeof kind) || strcmp(kind, "form-data") != 0)
        return "a part's Content-Disposition must be form-data";
    for (;;) {
        const vts_field_step step = vts_field_param(&at, name, sizeof name, value, sizeof value, &whole);
        if (step == VTS_FIELD_END)
            break;
        if (step == VTS_FIELD_BAD)
            return "a part's Content-Disposition cannot be read";
        if (strcmp(name, "name") == 0) {
            if (named)
                return "a part has two names";
            if (!whole)
                return "the name of a part is too long";
            named = true;
            memcpy(part->name, value, strlen(value) + 1);
        } else if (strcmp(name, "filename") == 0 || strcmp(name, "filename*") == 0) {
            part->is_file = true;
        }
    }
    return named && part->name[0] ? NULL : "a part has no name";
}

/* The head of a part is complete: mp->head[0 ... head_size) ends with an empty line. */
static bool open_part(vts_multipart *mp)
{
    vts_part part = {.name = "", .is_file = false};
    char *at = mp->head, *end = mp->head + mp->head_size, *line;
    bool disposed = false;
    if (memchr(mp->head, '\0', mp->head_size))
        return fail(mp, "the head of a part holds a NUL");
    while (next_line(&at, end, &line) && *line) {
        const char *colon = strchr(line, ':');
        if (!colon)
            return fail(mp, "a head line of a part has no colon");
        const size_t n = (size_t)(colon - line);
        if (same_word(line, n, "content-disposition")) {
            if (disposed)
                return fail(mp, "a part has two Content-Dispositions");
            const char *fault = read_disposition(colon + 1, &part);
            if (fault)
                return fail(mp, fault);
            disposed = true;
        } else if (same_word(line, n, "content-transfer-encoding")) {
            const char *value = colon + 1 + strspn(colon + 1, " \t");
            const size_t size = strcspn(value, " \t;");
            if (!same_word(value, size, "binary") && !same_word(value, size, "8bit") && !same_word(value, size, "7bit"))
                return fail(mp, "a part has a Content-Transfer-Encoding, which is not read here");
        }
    }
    if (!disposed)
        return fail(mp, "a part has no Content-Disposition, so no name");
    if (++mp->parts > VTS_PARTS_MAX)
        return fail(mp, "the form has more than 64 parts");
    mp->in_part = true;
    mp->state = VTS_MP_DATA;
    mp->matched = 0;
    return mp->sink.begin(mp->sink.host, &part) || fail(mp, NULL);
}

static bool close_part(vts_multipart *mp)
{
    if (!mp->in_part)
        return true;
    mp->in_part = false;
    return mp->sink.end(mp->sink.host) || fail(mp, NULL);
}

/* What may follow a delimiter: [--] blanks CR LF. 0: not yet known, 1: a part begins, 2: the end, -1: no delimiter. */
static int judge_tail(const char *tail, size_t n)
{
    size_t i = 0;
    const bool closing = n >= 2 && tail[0] == '-' && tail[1] == '-';
    if (n == 1 && tail[0] == '-')
        return 0;
    if (closing)
        i = 2;
    while (i < n && (tail[i] == ' ' || tail[i] == '\t'))
        i++;
    if (i == n)
        return 0;
    if (tail[i] != '\r')
        return -1;
    if (i + 1 == n)
        return 0;
    if (tail[i + 1] != '\n')
        return -1;
    return closing ? 2 : 1;
}

/* What looked like a delimiter was data. Its last byte may be the CR of a true one. */
static bool undo_delimiter(vts_multipart *mp)
{
    char tail[VTS_PART_PAD_MAX];
    const size_t n = mp->tail_size;
    size_t emitted = n;
    memcpy(tail, mp->tail, n);
    mp->state = mp->in_part ? VTS_MP_DATA : VTS_MP_PREAMBLE;
    mp->matched = mp->tail_size = 0;
    if (tail[n - 1] == '\r') { /* "…CR" broken by a CR: the last one may open the next delimiter */
        emitted--;
        mp->matched = 1;
    }
    return emit(mp, mp->delimiter, mp->delimiter_size) && emit(mp, tail, emitted);
}

static bool take_tail(vts_multipart *mp, char c)
{
    if (mp->tail_size == VTS_PART_PAD_MAX)
        return fail(mp, "too many blanks follow a delimiter");
    mp->tail[mp->tail_size++] = c;
    switch (judge_tail(mp->tail, mp->tail_size)) {
    case 0:
        return true;
    case 1:
        mp->state = VTS_MP_HEAD;
        mp->head_size = 0;
        mp->tail_size = 0;
        return close_part(mp);
    case 2:
        mp->state = VTS_MP_EPILOGUE;
        return close_part(mp);
    default:
        return undo_delimiter(mp);
    }
}

static bool take_head(vts_multipart *mp, char c)
{
    if (mp->head_size == VTS_PART_HEAD_MAX)
        return fail(mp, "the head of a part is longer than 8192 bytes");
    mp->head[mp->head_size++] = c;
    const size_t n = mp->head_size;
    if (c != '\n' || n < 2 || mp->head[n - 2] != '\r')
        return true;
    if (n == 2 || (n >= 4 && mp->head[n - 3] == '\n' && mp->head[n - 4] == '\r'))
        return open_part(mp);
    return true;
}

/* Data up to the end of the piece or of a delimiter; returns how many bytes were taken, or SIZE_MAX after a failure. */
static size_t take_data(vts_multipart *mp, const uint8_t *data, size_t size)
{
    size_t i = 0;
    while (i < size) {
        if (mp->matched == 0) { /* the fast way: nothing can begin but at a CR */
            const uint8_t *cr = memchr(data + i, '\r', size - i);
            const size_t n = cr ? (size_t)(cr - data) - i : size - i;
            if (!emit(mp, data + i, n))
                return SIZE_MAX;
            i += n;
            if (!cr)
                return size;
            mp->matched = 1;
            i++;
        } else if (data[i] == (uint8_t)mp->delimiter[mp->matched]) {
            i++;
            if (++mp->matched == mp->delimiter_size) {
                mp->state = VTS_MP_DELIMITED;
                mp->tail_size = 0;
                return i;
            }
        } else { /* the byte is looked at again, with nothing matched */
            const size_t n = mp->matched;
            mp->matched = 0;
            if (!emit(mp, mp->delimiter, n))
                return SIZE_MAX;
        }
    }
    return i;
}

bool vts_multipart_feed(vts_multipart *mp, const uint8_t *data, size_t size)
{
    size_t i = 0;
    while (i < size) {
        bool good = true;
        switch (mp->state) {
        case VTS_MP_PREAMBLE:
        case VTS_MP_DATA: {
            const size_t n = take_data(mp, data + i, size - i);
            if (n == SIZE_MAX)
                return false;
            i += n;
            break;
        }
        case VTS_MP_DELIMITED:
            good = take_tail(mp, (char)data[i++]);
            break;
        case VTS_MP_HEAD:
            good = take_head(mp, (char)data[i++]);
            break;
        case VTS_MP_EPILOGUE:
            return true; /* is for nobody */
        case VTS_MP_FAILED:
            return false;
        }
        if (!good)
            return false;
    }
    return true;
}

bool vts_multipart_finish(vts_multipart *mp)
{
    switch (mp->state) {
    case VTS_MP_EPILOGUE:
        return true;
    case VTS_MP_DELIMITED: /* the closing delimiter may end the body without a CR LF */
        if (mp->tail_size >= 2 && mp->tail[0] == '-' && mp->tail[1] == '-') {
            mp->state = VTS_MP_EPILOGUE;
            return close_part(mp);
        }
        return fail(mp, "the body ends inside a delimiter");
    case VTS_MP_PREAMBLE:
        return fail(mp, "the body does not hold the boundary that its Content-Type names");
    case VTS_MP_FAILED:
        return false;
    default:
        return fail(mp, "the body ends before its closing delimiter");
    }
}
