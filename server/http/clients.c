/* A table of fixed size: sets of a few places, a client's set being the hash of its name.
 *
 * The rate is kept as one time for each client: when its last request would have been due had all come evenly. A client
 * whose time has passed and who has no work in hand is as good as unknown, so its place is free. When all places of a set
 * are taken, whoever is nearest to that is forgotten, never one with work in hand; when all have work, the new one is
 * let in uncounted: a full table must not keep people out. */
#include "server/http/clients.h"

#include "vitral/hash.h"

#include <stdlib.h>
#include <string.h>

enum { SETS = 512, WAYS = 8, KEY_BYTES = 16 };
#define MINUTE_NS INT64_C(60000000000)

struct vts_client {
    uint8_t key[KEY_BYTES];
    int64_t due_ns;
    unsigned in_hand;
};

struct vts_clients {
    unsigned per_minute, at_once;
    vts_client table[SETS][WAYS];
};

vt_status vts_clients_open(vts_clients **out, unsigned per_minute, unsigned at_once, vt_error *err)
{
    vts_clients *clients = calloc(1, sizeof *clients);
    if (!clients)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the limits of clients");
    clients->per_minute = per_minute;
    clients->at_once = at_once;
    *out = clients;
    return VT_OK;
}

void vts_clients_close(vts_clients *clients)
{
    free(clients);
}

static void key_of(uint8_t key[KEY_BYTES], const char *name, const vts_address *address)
{
    uint8_t digest[32];
    vt_sha256 hash;
    vt_sha256_init(&hash);
    vt_sha256_update(&hash, name, strlen(name) + 1);
    if (!*name)
        vt_sha256_update(&hash, address->bytes, vts_address_is_four(address) ? 16 : 8);
    vt_sha256_final(&hash, digest);
    memcpy(key, digest, KEY_BYTES);
}

/* The client's place, new if need be; NULL when all that could be had are at work. */
static vts_client *find(vts_clients *clients, const uint8_t key[KEY_BYTES])
{
    vts_client *set = clients->table[((size_t)key[0] << 8 | key[1]) % SETS], *place = NULL;
    for (size_t k = 0; k < WAYS; k++) {
        if (memcmp(set[k].key, key, KEY_BYTES) == 0)
            return &set[k];
        if (set[k].in_hand == 0 && (!place || set[k].due_ns < place->due_ns))
            place = &set[k];
    }
    if (place) {
        memset(place, 0, sizeof *place);
        memcpy(place->key, key, KEY_BYTES);
    }
    return place;
}

vts_allowance vts_clients_enter(vts_clients *clients, const char *name, const vts_address *address, bool work,
                                int64_t now_ns, vts_client **holder, unsigned *retry_after)
{
    uint8_t key[KEY_BYTES];
    *holder = NULL;
    *retry_after = 1;
    if (!clients->per_minute && !clients->at_once)
        return VTS_ALLOWED;
    key_of(key, name, address);
    vts_client *client = find(clients, key);
    if (!client)
        return VTS_ALLOWED;
    if (work && clients->at_once && client->in_hand >= clients->at_once)
        return VTS_TOO_MANY;
    if (clients->per_minute) {
        const int64_t step = MINUTE_NS / clients->per_minute, late = client->due_ns - (now_ns + MINUTE_NS - step);
        if (late > 0) {
            *retry_after = (unsigned)((late + 999999999) / 1000000000);
            return VTS_TOO_OFTEN;
        }
        client->due_ns = (client->due_ns > now_ns ? client->due_ns : now_ns) + step;
    }
    if (work) {
        client->in_hand++;
        *holder = client;
    }
    return VTS_ALLOWED;
}

void vts_clients_leave(vts_client *holder)
{
    if (holder)
        holder->in_hand--;
}

unsigned vts_clients_per_minute(const vts_clients *clients)
{
    return clients->per_minute;
}

unsigned vts_clients_at_once(const vts_clients *clients)
{
    return clients->at_once;
}
