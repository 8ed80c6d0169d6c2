/* What can go wrong, as a code for programs and a sentence for people.
 *
 * Every fallible function returns a vt_status and, when it fails, fills the caller's vt_error; results come through
 * out-parameters that stay untouched on failure. One status per problem that a caller may want to tell apart: the
 * server's problem table has exactly one row for each. */
#ifndef VT_STATUS_H
#define VT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VT_MUST_USE __attribute__((warn_unused_result))
#define VT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define VT_MUST_USE
#define VT_PRINTF(fmt, args)
#endif

#define VT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef enum vt_status {
    VT_OK = 0,
    VT_E_INVALID,          /* a parameter: unknown, out of range, given twice, ... */
    VT_E_CLASS_RANGE,      /* a class index that the model does not have */
    VT_E_METHOD_UNKNOWN,   /* no such method */
    VT_E_MODEL_UNKNOWN,    /* no such model */
    VT_E_UNSUPPORTED,      /* a method that this model cannot serve */
    VT_E_TOO_COSTLY,       /* more forwards, maps or pixels than the limits admit */
    VT_E_NOT_FOUND,        /* a path or an object */
    VT_E_IMAGE_MISSING,    /* no picture where one is needed */
    VT_E_IMAGE_EMPTY,      /* a picture of 0 bytes */
    VT_E_IMAGE_UNREADABLE, /* a corrupt picture */
    VT_E_IMAGE_TRUNCATED,  /* a picture that ends too early */
    VT_E_IMAGE_FORMAT,     /* a format that is not read here */
    VT_E_IMAGE_TOO_LARGE,  /* more pixels than the limit */
    VT_E_BAD_MODEL,        /* weights or config that cannot be used */
    VT_E_NOMEM,
    VT_E_CANCELLED,
    VT_E_DEADLINE,
    VT_E_IO,
    VT_E_INTERNAL, /* a fault of ours */
    VT_STATUS_COUNT
} vt_status;

enum { VT_ERROR_PARAM = 64, VT_ERROR_ALLOWED = 1024, VT_ERROR_MSG = 1536 };

/* Belongs to the caller; {0} is a valid "no error". The texts are UTF-8 as far as their parts were. */
typedef struct vt_error {
    vt_status status;
    char param[VT_ERROR_PARAM];     /* the parameter at fault, or "" */
    char allowed[VT_ERROR_ALLOWED]; /* what would be accepted, or "" */
    char msg[VT_ERROR_MSG];         /* one sentence */
} vt_error;

/* Fills err (which may be NULL) and returns status, so that a failing function is one line:
 * return vt_error_set(err, VT_E_INVALID, "layer", "layer %d does not exist", l);   Any thread. */
vt_status vt_error_set(vt_error *err, vt_status status, const char *param, const char *fmt, ...) VT_PRINTF(4, 5);

/* Adds what would have been accepted to an error that is already set. Any thread. */
void vt_error_allow(vt_error *err, const char *fmt, ...) VT_PRINTF(2, 3);

/* Adds one more of them, behind the separator unless it is the first; "..." once there is no room. Any thread. */
void vt_error_allow_more(vt_error *err, const char *separator, const char *text);

/* A short lower_case name of a status ("image_truncated"), never NULL. */
const char *vt_status_name(vt_status status);

#ifdef __cplusplus
}
#endif

#endif
