/* Request ids: time first, so that a sorted log is in order; then random bits from the kernel. */
#include "server/http/ids.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void vts_id_make(char id[VTS_MADE_ID + 1])
{
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    uint8_t random[16]; /* 5 bits of each are used */
    struct timespec now;
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        clock_gettime(CLOCK_MONOTONIC, &now); /* before the kernel has seeded itself: still unique enough for a log */
        memset(random, 0, sizeof random);
        memcpy(random, &now.tv_nsec, sizeof now.tv_nsec);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    for (int k = 9; k >= 0; k--, ms >>= 5)
        id[k] = digits[ms & 31];
    for (size_t k = 0; k < 16; k++)
        id[10 + k] = digits[random[k] & 31];
    id[VTS_MADE_ID] = '\0';
}

bool vts_id_acceptable(const char *text)
{
    const size_t n = strlen(text);
    return n >= 1 && n <= 64 && strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

bool vts_traceparent_valid(const char *text)
{
    static const char shape[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    for (size_t k = 0; shape[k]; k++)
        if (!text[k] || (shape[k] == 'x' ? !strchr("0123456789abcdef", text[k]) : text[k] != shape[k]))
            return false;
    const char after = text[sizeof shape - 1];
    if (strncmp(text, "ff", 2) == 0 || (after && (after != '-' || strncmp(text, "00", 2) == 0)))
        return false;
    return strspn(text + 3, "0") < 32 && strspn(text + 36, "0") < 16;
}
