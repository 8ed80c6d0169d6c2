/* Request ids. Any thread. */
#ifndef VTS_HTTP_IDS_H
#define VTS_HTTP_IDS_H

#include <stdbool.h>

enum { VTS_MADE_ID = 26 };

/* 26 characters of Crockford's base 32: 48 bits of milliseconds, 80 random bits (a ULID), so ids sort by time. */
void vts_id_make(char id[VTS_MADE_ID + 1]);

bool vts_id_acceptable(const char *text);     /* [A-Za-z0-9-]{1,64} */
bool vts_traceparent_valid(const char *text); /* W3C trace context; of later versions the first 55 characters count */

#endif
