/* An LRU of blobs: one mutex, a hash table of chains, one list by use.
 *
 * Keys are SHA-256 digests, so their first bytes are the hash. Every entry is counted with its own size, and with the
 * time limit the old ones are found at the end of the list by use or when they are asked for. Blobs are freed outside
 * the lock. */
#include "server/work/store.h"

#include "vitral/control.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, ENTRIES_MAX = 16384 };

typedef struct entry {
    uint8_t key[VTS_KEY_BYTES];
    unsigned owner;
    vts_blob *blob;
    int64_t until_ns; /* 0: for ever */
    size_t bytes;
    struct entry *chain, *newer, *older;
} entry;

struct vts_store {
    pthread_mutex_t lock;
    uint64_t bytes_max, bytes, hits, misses, evicted;
    size_t entries;
    unsigned seconds;
    entry *newest, *oldest;
    entry *buckets[BUCKETS];
    vts_interest *interests; /* work under way */
};

vts_blob *vts_blob_new(uint8_t *data, size_t size)
{
    vts_blob *blob = calloc(1, sizeof *blob);
    if (!blob)
        return NULL;
    atomic_init(&blob->references, 1);
    blob->data = data;
    blob->size = size;
    return blob;
}

vts_blob *vts_blob_hold(vts_blob *blob)
{
    atomic_fetch_add_explicit(&blob->references, 1, memory_order_relaxed);
    return blob;
}

void vts_blob_drop(vts_blob *blob)
{
    if (!blob || atomic_fetch_sub_explicit(&blob->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t k = 0; k < blob->headers_count; k++)
        free(blob->headers[k].value);
    vts_wipe_free(blob->data, blob->size);
    free(blob);
}

vt_status vts_store_open(vts_store **out, uint64_t bytes_max, unsigned seconds, vt_error *err)
{
    vts_store *store = calloc(1, sizeof *store);
    if (!store)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a store");
    pthread_mutex_init(&store->lock, NULL);
    store->bytes_max = bytes_max;
    store->seconds = seconds;
    *out = store;
    return VT_OK;
}

static size_t bucket_of(const uint8_t key[VTS_KEY_BYTES])
{
    return ((size_t)key[0] << 8 | key[1]) % BUCKETS;
}

static entry **find(vts_store *store, const uint8_t key[VTS_KEY_BYTES], unsigned owner)
{
    entry **at = &store->buckets[bucket_of(key)];
    while (*at && ((*at)->owner != owner || memcmp((*at)->key, key, VTS_KEY_BYTES) != 0))
        at = &(*at)->chain;
    return at;
}

static void unlist(vts_store *store, entry *e)
{
    if (e->newer)
        e->newer->older = e->older;
    else
        store->newest = e->older;
    if (e->older)
        e->older->newer = e->newer;
    else
        store->oldest = e->newer;
}

static void list_first(vts_store *store, entry *e)
{
    e->newer = NULL;
    e->older = store->newest;
    if (store->newest)
        store->newest->newer = e;
    else
        store->oldest = e;
    store->newest = e;
}

/* Takes the entry out; the caller frees what comes back, by its `chain`, outside the lock. */
static void take_out(vts_store *store, entry **at, entry **removed)
{
    entry *e = *at;
    if (!e)
        return; /* cannot be: what is in the list is in its chain */
    *at = e->chain;
    unlist(store, e);
    store->bytes -= e->bytes;
    store->entries--;
    e->chain = *removed;
    *removed = e;
}

static void free_all(entry *removed)
{
    while (removed) {
        entry *next = removed->chain;
        vts_blob_drop(removed->blob);
        free(removed);
        removed = next;
    }
}

static bool is_old(const entry *e, int64_t now)
{
    return e->until_ns && now >= e->until_ns;
}

bool vts_store_takes(const vts_store *store, size_t size)
{
    const uint64_t most = store ? store->bytes_max : 0;
    return most > sizeof(entry) + sizeof(vts_blob) && size <= most - sizeof(entry) - sizeof(vts_blob);
}

void vts_store_begin(vts_store *store, vts_interest *interest, const uint8_t about[VTS_KEY_BYTES], unsigned owner)
{
    *interest = (vts_interest){.store = store, .owner = owner};
    memcpy(interest->about, about, VTS_KEY_BYTES);
    pthread_mutex_lock(&store->lock);
    interest->next = store->interests;
    if (interest->next)
        interest->next->previous = interest;
    store->interests = interest;
    pthread_mutex_unlock(&store->lock);
}

void vts_store_end(vts_interest *interest)
{
    vts_store *store = interest->store;
    if (!store)
        return;
    pthread_mutex_lock(&store->lock);
    if (interest->previous)
        interest->previous->next = interest->next;
    else
        store->interests = interest->next;
    if (interest->next)
        interest->next->previous = interest->previous;
    pthread_mutex_unlock(&store->lock);
    interest->store = NULL;
}

void vts_store_put(vts_store *store, const uint8_t key[VTS_KEY_BYTES], unsigned owner, vts_blob *blob,
                   const vts_interest *interest)
{
    entry *removed = NULL, *e;
    const int64_t now = vt_now_ns();
    const size_t bytes = sizeof *e + sizeof *blob + blob->size;
    if (!vts_store_takes(store, blob->size) || !(e = malloc(sizeof *e)))
        return;
    *e = (entry){.owner = owner, .blob = vts_blob_hold(blob), .bytes = bytes};
    memcpy(e->key, key, VTS_KEY_BYTES);
    e->until_ns = store->seconds ? now + (int64_t)store->seconds * 1000000000 : 0;
    pthread_mutex_lock(&store->lock);
    if (interest && interest->forgotten) {
        pthread_mutex_unlock(&store->lock);
        vts_blob_drop(e->blob);
        free(e);
        return;
    }
    entry **at = find(store, key, owner);
    if (*at)
        take_out(store, at, &removed);
    while (store->oldest &&
           (store->bytes + bytes > store->bytes_max || store->entries >= ENTRIES_MAX || is_old(store->oldest, now))) {
        take_out(store, find(store, store->oldest->key, store->oldest->owner), &removed);
        store->evicted++;
    }
    e->chain = store->buckets[bucket_of(key)];
    store->buckets[bucket_of(key)] = e;
    list_first(store, e);
    store->bytes += bytes;
    store->entries++;
    pthread_mutex_unlock(&store->lock);
    free_all(removed);
}

vts_blob *vts_store_get(vts_store *store, const uint8_t key[VTS_KEY_BYTES], unsigned owner, unsigned *expires_s)
{
    entry *removed = NULL;
    vts_blob *blob = NULL;
    const int64_t now = vt_now_ns();
    pthread_mutex_lock(&store->lock);
    entry **at = find(store, key, owner);
    if (*at && is_old(*at, now))
        take_out(store, at, &removed);
    else if (*at) {
        blob = vts_blob_hold((*at)->blob);
        if (expires_s)
            *expires_s = (*at)->until_ns ? (unsigned)(((*at)->until_ns - now) / 1000000000) : 0;
        entry *e = *at;
        unlist(store, e);
        list_first(store, e);
    }
    store->hits += blob != NULL;
    store->misses += blob == NULL;
    pthread_mutex_unlock(&store->lock);
    free_all(removed);
    return blob;
}

bool vts_store_remove_about(vts_store *store, const uint8_t about[VTS_KEY_BYTES], unsigned owner)
{
    entry *removed = NULL;
    const int64_t now = vt_now_ns();
    bool there = false;
    pthread_mutex_lock(&store->lock);
    for (vts_interest *i = store->interests; i; i = i->next)
        if (i->owner == owner && memcmp(i->about, about, VTS_KEY_BYTES) == 0)
            i->forgotten = true;
    for (entry *e = store->oldest, *next; e; e = next) {
        next = e->newer;
        if (e->owner == owner && memcmp(e->blob->about, about, VTS_KEY_BYTES) == 0) {
            there = there || !is_old(e, now);
            take_out(store, find(store, e->key, e->owner), &removed);
        }
    }
    pthread_mutex_unlock(&store->lock);
    free_all(removed);
    return there;
}

void vts_store_sweep(vts_store *store)
{
    entry *removed = NULL;
    const int64_t now = vt_now_ns();
    pthread_mutex_lock(&store->lock);
    for (entry *e = store->oldest, *next; e && store->seconds; e = next) {
        next = e->newer;
        if (is_old(e, now))
            take_out(store, find(store, e->key, e->owner), &removed);
    }
    pthread_mutex_unlock(&store->lock);
    free_all(removed);
}

void vts_store_state_of(vts_store *store, vts_store_state *state)
{
    pthread_mutex_lock(&store->lock);
    *state = (vts_store_state){store->bytes, store->entries, store->hits, store->misses, store->evicted};
    pthread_mutex_unlock(&store->lock);
}

void vts_store_close(vts_store *store)
{
    if (!store)
        return;
    for (entry *e = store->oldest, *next; e; e = next) {
        next = e->newer;
        vts_blob_drop(e->blob);
        free(e);
    }
    pthread_mutex_destroy(&store->lock);
    free(store);
}
