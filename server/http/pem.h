/* Certificate and key as the TLS of the HTTP library wants them: whole PEM files in memory. Start only. */
#ifndef VTS_HTTP_PEM_H
#define VTS_HTTP_PEM_H

#include "vitral/status.h"

/* A text of at most 256 KiB, malloc'ed; setting: whose value the path is, for the error. VT_E_IO, VT_E_INVALID. */
VT_MUST_USE vt_status vts_pem_read(char **out, const char *path, const char *setting, vt_error *err);

/* Overwrites it first: it may be a key. NULL is fine. */
void vts_pem_free(char *text);

#endif
