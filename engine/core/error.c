/* The caller's error: a code, the parameter at fault, what would be accepted, one sentence.
 *
 * Texts that do not fit are cut in front of a UTF-8 character, never inside one, since they end up in JSON. The message
 * is put together in a buffer of its own first: an error is often built from an older error's text. No state: any
 * thread. */
#include "vitral/status.h"
#include "vitral/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void print_cut(char *out, size_t size, const char *fmt, va_list args) VT_PRINTF(3, 0);
static void print_cut(char *out, size_t size, const char *fmt, va_list args)
{
    const int length = vsnprintf(out, size, fmt, args);
    if (length < 0)
        out[0] = '\0';
    else if ((size_t)length >= size)
        out[vt_utf8_cut(out, size - 1)] = '\0';
}

static void copy_cut(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size)
        length = vt_utf8_cut(text, size - 1);
    memmove(out, text, length); /* text may be the same error's own field */
    out[length] = '\0';
}

/* A name is compared by programs: one that was cut must not look like another's. */
static void copy_param(char *out, size_t size, const char *name)
{
    if (strlen(name) < size) {
        copy_cut(out, size, name);
        return;
    }
    const size_t length = vt_utf8_cut(name, size - 4);
    memmove(out, name, length); /* name may be the same error's own field */
    memcpy(out + length, "...", 4);
}

vt_status vt_error_set(vt_error *err, vt_status status, const char *param, const char *fmt, ...)
{
    if (!err)
        return status;
    char msg[VT_ERROR_MSG];
    va_list args;
    va_start(args, fmt);
    print_cut(msg, sizeof msg, fmt, args);
    va_end(args);
    err->status = status;
    copy_param(err->param, sizeof err->param, param ? param : "");
    copy_cut(err->msg, sizeof err->msg, msg);
    err->allowed[0] = '\0';
    return status;
}

void vt_error_allow(vt_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    char allowed[VT_ERROR_ALLOWED];
    va_list args;
    va_start(args, fmt);
    print_cut(allowed, sizeof allowed, fmt, args);
    va_end(args);
    copy_cut(err->allowed, sizeof err->allowed, allowed);
}

void vt_error_allow_more(vt_error *err, const char *separator, const char *text)
{
    if (!err)
        return;
    const size_t used = strlen(err->allowed), room = sizeof err->allowed - 4; /* "..." and a NUL */
    const char *between = used > 0 ? separator : "";
    const size_t more = strlen(between) + strlen(text);
    if (used > 0 && strcmp(err->allowed + used - (used < 3 ? used : 3), "...") == 0)
        return; /* full before */
    if (more <= room && used <= room - more)
        snprintf(err->allowed + used, sizeof err->allowed - used, "%s%s", between, text);
    else
        copy_cut(err->allowed + used, sizeof err->allowed - used, "...");
}

const char *vt_status_name(vt_status status)
{
    static const char *const names[] = {
        [VT_OK] = "ok",
        [VT_E_INVALID] = "invalid",
        [VT_E_CLASS_RANGE] = "class_range",
        [VT_E_METHOD_UNKNOWN] = "method_unknown",
        [VT_E_MODEL_UNKNOWN] = "model_unknown",
        [VT_E_UNSUPPORTED] = "unsupported",
        [VT_E_TOO_COSTLY] = "too_costly",
        [VT_E_NOT_FOUND] = "not_found",
        [VT_E_IMAGE_MISSING] = "image_missing",
        [VT_E_IMAGE_EMPTY] = "image_empty",
        [VT_E_IMAGE_UNREADABLE] = "image_unreadable",
        [VT_E_IMAGE_TRUNCATED] = "image_truncated",
        [VT_E_IMAGE_FORMAT] = "image_format",
        [VT_E_IMAGE_TOO_LARGE] = "image_too_large",
        [VT_E_BAD_MODEL] = "bad_model",
        [VT_E_NOMEM] = "nomem",
        [VT_E_CANCELLED] = "cancelled",
        [VT_E_DEADLINE] = "deadline",
        [VT_E_IO] = "io",
        [VT_E_INTERNAL] = "internal",
    };
    _Static_assert(VT_COUNT(names) == VT_STATUS_COUNT, "one name per status");
    return (unsigned)status < VT_STATUS_COUNT ? names[status] : "unknown";
}
