/* The safetensors container, read from a map.
 *
 * A file is 8 bytes with the length of the header (little-endian), a JSON header that says for each tensor type, shape
 * and range of bytes, then the bytes. All of it may be hostile. vt_st_open checks every rule of methods.md 21.1 before
 * it makes a pointer: lengths against the file before they are used, products and sums for overflow, and that the ranges
 * tile the data without hole, overlap or rest. What has passed can be read without further checks. Const after open, any
 * thread. A file that is cut short while it is mapped gives SIGBUS (the service: server/work/guard.h). */
#include "engine/model/safetensors.h"

#include "vitral/text.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are used in place and are little-endian: this needs a little-endian machine"
#endif

static const uint64_t HEADER_MAX = 100000000; /* of the format's own reader */

struct vt_st_file {
    const uint8_t *bytes;
    size_t size, header_bytes;
    bool mapped;
    uint64_t identity[VT_ST_IDENTITY];
    size_t count;
    vt_st_tensor *tensors; /* by name */
    char *names;
};

/* ---- types ---- */

typedef enum kind { KIND_FLOAT, KIND_INTEGER, KIND_OTHER } kind;

static const struct dtype {
    char name[12];
    unsigned bits;
    kind kind;
} dtypes[] = {
    {"F32", 32, KIND_FLOAT},    {"F16", 16, KIND_FLOAT},        {"BF16", 16, KIND_FLOAT},
    {"F64", 64, KIND_FLOAT},    {"BOOL", 8, KIND_INTEGER},      {"U8", 8, KIND_INTEGER},
    {"I8", 8, KIND_INTEGER},    {"I16", 16, KIND_INTEGER},      {"U16", 16, KIND_INTEGER},
    {"I32", 32, KIND_INTEGER},  {"U32", 32, KIND_INTEGER},      {"I64", 64, KIND_INTEGER},
    {"U64", 64, KIND_INTEGER},  {"F4", 4, KIND_OTHER},          {"F6_E2M3", 6, KIND_OTHER},
    {"F6_E3M2", 6, KIND_OTHER}, {"F8_E5M2", 8, KIND_OTHER},     {"F8_E4M3", 8, KIND_OTHER},
    {"F8_E8M0", 8, KIND_OTHER}, {"F8_E4M3FNUZ", 8, KIND_OTHER}, {"F8_E5M2FNUZ", 8, KIND_OTHER},
    {"C64", 64, KIND_OTHER},
};

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < VT_COUNT(dtypes); i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

bool vt_st_is_float(const vt_st_tensor *tensor)
{
    return find_dtype(tensor->dtype)->kind == KIND_FLOAT;
}

bool vt_st_is_integer(const vt_st_tensor *tensor)
{
    return find_dtype(tensor->dtype)->kind == KIND_INTEGER;
}

const char *vt_st_shown(char buf[VT_ST_SHOWN], const char *name)
{
    return vt_quote(buf, VT_ST_SHOWN, name);
}

/* ---- one entry of the header ---- */

typedef struct range {
    uint64_t begin, end;
    vt_st_tensor *tensor;
} range;

static vt_status bad(vt_error *err, const char *what, const char *name, const char *fault)
{
    char shown[VT_ST_SHOWN];
    return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: tensor \"%s\" %s", what, vt_st_shown(shown, name), fault);
}

/* A whole number of 0 or more; a fraction, a text or a negative number is none. */
static bool get_count(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* Type, shape and range of one tensor, each against itself and against `data` bytes of the file. */
static vt_status read_entry(range *at, const char *name, const json_t *entry, uint64_t data, const char *what,
                            vt_error *err)
{
    vt_st_tensor *t = at->tensor;
    char fault[160];

    if (!json_is_object(entry))
        return bad(err, what, name, "is not described by a JSON object");
    const json_t *text = json_object_get(entry, "dtype");
    if (!json_is_string(text))
        return bad(err, what, name, "has no dtype");
    const struct dtype *dtype = find_dtype(json_string_value(text));
    if (!dtype) {
        char shown[VT_ST_SHOWN];
        snprintf(fault, sizeof fault, "has the unknown dtype %.64s", vt_st_shown(shown, json_string_value(text)));
        return bad(err, what, name, fault);
    }
    t->dtype = dtype->name;

    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return bad(err, what, name, "has no shape");
    if (json_array_size(shape) > VT_TENSOR_DIMS) {
        snprintf(fault, sizeof fault, "has a shape of %zu numbers, at most %d are read", json_array_size(shape),
                 (int)VT_TENSOR_DIMS);
        return bad(err, what, name, fault);
    }
    t->ndim = json_array_size(shape);
    uint64_t count = 1;
    bool empty = false;
    for (size_t i = 0; i < t->ndim; i++) {
        uint64_t side;
        if (!get_count(json_array_get(shape, i), &side))
            return bad(err, what, name, "has a shape that is not made of whole numbers of 0 or more");
        /* The product of the other sides must not wrap, even when one side is 0: it says what the writer meant. */
        if (side == 0)
            empty = true;
        else if (__builtin_mul_overflow(count, side, &count))
            return bad(err, what, name, "has a shape whose product does not fit 64 bits");
        t->shape[i] = (size_t)side;
    }
    if (empty)
        count = 0;

    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !get_count(json_array_get(offsets, 0), &at->begin) || !get_count(json_array_get(offsets, 1), &at->end))
        return bad(err, what, name, "has data_offsets that are not two whole numbers of 0 or more");
    if (at->end < at->begin)
        return bad(err, what, name, "begins after it ends");
    if (at->end > data) {
        snprintf(fault, sizeof fault, "ends at byte %llu of the data, which has %llu bytes",
                 (unsigned long long)at->end, (unsigned long long)data);
        return bad(err, what, name, fault);
    }

    uint64_t bits;
    if (__builtin_mul_overflow(count, (uint64_t)dtype->bits, &bits))
        return bad(err, what, name, "has a shape whose size does not fit 64 bits");
    if (bits % 8 != 0 || bits / 8 != at->end - at->begin) {
        snprintf(fault, sizeof fault, "has %llu bytes, but its shape and dtype %s need %llu",
                 (unsigned long long)(at->end - at->begin), dtype->name,
                 (unsigned long long)(bits / 8 + (bits % 8 != 0)));
        return bad(err, what, name, fault);
    }
    t->count = (size_t)count;
    t->bytes = (size_t)(at->end - at->begin);
    return VT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const vt_st_tensor *)a)->name, ((const vt_st_tensor *)b)->name);
}

/* The ranges must follow each other from the first byte of the data to the last. */
static vt_status check_tiling(range *ranges, size_t count, uint64_t data, const char *what, vt_error *err)
{
    char fault[128];
    uint64_t at = 0;
    qsort(ranges, count, sizeof *ranges, by_offset);
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].begin != at) {
            snprintf(fault, sizeof fault, "begins at byte %llu of the data, %s at byte %llu",
                     (unsigned long long)ranges[i].begin,
                     ranges[i].begin < at ? "inside the tensor before it, which ends" : "after a hole that begins",
                     (unsigned long long)at);
            return bad(err, what, ranges[i].tensor->name, fault);
        }
        at = ranges[i].end;
    }
    if (at != data)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %llu bytes follow the last tensor", what,
                            (unsigned long long)(data - at));
    return VT_OK;
}

/* ---- the header ---- */

/* The name at which the parser found a repetition: it stopped right behind the closing quote. */
static void repeated_name(char buf[VT_ST_SHOWN], const char *header, size_t size, int position)
{
    size_t end = position > 0 && (size_t)position <= size ? (size_t)position : 0;
    buf[0] = 0;
    if (end < 2 || header[end - 1] != '"')
        return;
    size_t begin = --end;
    while (begin > 0 && header[begin - 1] != '"' && end - begin < VT_ST_SHOWN - 1)
        begin--;
    memcpy(buf, header + begin, end - begin);
    buf[end - begin] = 0;
}

static vt_status parse_fault(vt_error *err, const char *what, const char *header, size_t size,
                             const json_error_t *fault)
{
    if (json_error_code(fault) == json_error_out_of_memory || !*fault->text) /* for which jansson mostly has no words */
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for the header of %zu bytes", what, size);
    if (json_error_code(fault) == json_error_duplicate_key) {
        char name[VT_ST_SHOWN], shown[VT_ST_SHOWN];
        repeated_name(name, header, size, fault->position);
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: \"%s\" stands in the header twice", what,
                            vt_st_shown(shown, name));
    }
    char shown[VT_ST_SHOWN];
    return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: the header is not valid JSON (byte %d: %s)", what,
                        fault->position, vt_st_shown(shown, fault->text));
}

static vt_status check_metadata(const json_t *metadata, const char *what, vt_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: __metadata__ in the header is not an object", what);
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        char shown[VT_ST_SHOWN];
        if (!json_is_string(value))
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: \"%s\" in __metadata__ is not a text", what,
                                vt_st_shown(shown, key));
    }
    return VT_OK;
}

/* Names stand in messages and lists that end up on a terminal. */
static bool has_control(const char *name)
{
    uint32_t code = 0;
    for (size_t n; *name; name += n) {
        n = vt_utf8_read(name, 4, &code);
        if (n == 0 || code < 0x20u || (code >= 0x7Fu && code < 0xA0u))
            return true;
    }
    return false;
}

/* Fills file->tensors from the parsed header. */
static vt_status read_tensors(vt_st_file *file, json_t *header, const char *what, vt_error *err)
{
    const uint64_t data = file->size - 8 - file->header_bytes;
    size_t count = 0, letters = 0;
    const char *name;
    json_t *entry;

    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        count++;
        letters += strlen(name) + 1; /* no more than the header itself */
    }
    range *ranges = calloc(count + 1, sizeof *ranges);
    file->tensors = calloc(count + 1, sizeof *file->tensors);
    file->names = malloc(letters + 1);
    vt_status status = VT_OK;
    if (!ranges || !file->tensors || !file->names)
        status = vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for %zu tensors", what, count);

    size_t at = 0, letter = 0;
    if (status == VT_OK) {
        json_object_foreach(header, name, entry)
        {
            if (strcmp(name, "__metadata__") == 0) {
                status = check_metadata(entry, what, err);
            } else {
                const size_t n = strlen(name) + 1;
                memcpy(file->names + letter, name, n);
                file->tensors[at].name = file->names + letter;
                letter += n;
                ranges[at].tensor = &file->tensors[at];
                status = has_control(name) ? bad(err, what, name, "has a control character in its name")
                                           : read_entry(&ranges[at], name, entry, data, what, err);
                at++;
            }
            if (status != VT_OK)
                break;
        }
    }
    if (status == VT_OK)
        status = check_tiling(ranges, count, data, what, err);
    if (status == VT_OK) {
        for (size_t i = 0; i < count; i++)
            ranges[i].tensor->data = file->bytes + 8 + file->header_bytes + ranges[i].begin;
        qsort(file->tensors, count, sizeof *file->tensors, by_name);
        file->count = count;
    }
    free(ranges);
    return status;
}

/* Files that people take for safetensors, by their first bytes. */
static const char *mistaken_for(const uint8_t *bytes, size_t size)
{
    if (size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0)
        return "a zip archive, as PyTorch writes it (.bin, .pt, .pth)";
    if (size >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5)
        return "a pickle, as old versions of PyTorch write it";
    return NULL;
}

static vt_status check_bytes(vt_st_file *file, const char *what, vt_error *err)
{
    const uint8_t *p = file->bytes;
    if (file->size < 8)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s has %zu bytes: too short for a safetensors file", what,
                            file->size);
    uint64_t length = 0;
    for (size_t i = 0; i < 8; i++)
        length |= (uint64_t)p[i] << (8 * i);

    const bool fits = length <= file->size - 8;
    if (!fits || length < 2 || p[8] != '{') {
        const char *other = mistaken_for(p, file->size);
        if (other)
            return vt_error_set(err, VT_E_BAD_MODEL, "",
                                "%s is %s, not safetensors: convert it (load it in PyTorch, then "
                                "safetensors.torch.save_file)",
                                what, other);
        if (file->size >= 12 && memcmp(p, "version http", 12) == 0)
            return vt_error_set(err, VT_E_BAD_MODEL, "",
                                "%s is a Git LFS pointer, not the weights: fetch them with `git lfs pull`", what);
    }
    if (length > HEADER_MAX)
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "%s: the header claims %llu bytes, more than the %llu that the format allows", what,
                            (unsigned long long)length, (unsigned long long)HEADER_MAX);
    if (!fits)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: the header claims %llu bytes, but only %zu follow", what,
                            (unsigned long long)length, file->size - 8);
    if (length < 2 || p[8] != '{')
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: the header does not begin with '{'", what);
    file->header_bytes = (size_t)length;

    json_error_t fault;
    json_t *header = json_loadb((const char *)p + 8, file->header_bytes, JSON_REJECT_DUPLICATES, &fault);
    if (!header)
        return parse_fault(err, what, (const char *)p + 8, file->header_bytes, &fault);
    const vt_status status = read_tensors(file, header, what, err);
    json_decref(header);
    return status;
}

/* ---- opening ---- */

static vt_status finish(vt_st_file **out, vt_st_file *file, const char *what, vt_error *err)
{
    const vt_status status = check_bytes(file, what, err);
    if (status != VT_OK) {
        vt_st_close(file);
        return status;
    }
    *out = file;
    return VT_OK;
}

/* fd is open and stays the caller's. */
static vt_status map_file(vt_st_file *file, int fd, const char *what, vt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return vt_error_set(err, VT_E_IO, "", "%s: %s", what, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s is a folder, not a file", what);
    if (!S_ISREG(st.st_mode))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s is not a regular file", what);
    if (st.st_size == 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s is empty", what);
    if ((uintmax_t)st.st_size > (uintmax_t)SIZE_MAX / 2)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s is too large for this machine", what);
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return vt_error_set(err, errno == ENOMEM ? VT_E_NOMEM : VT_E_IO, "", "%s cannot be mapped: %s", what,
                            strerror(errno));
    file->bytes = map;
    file->size = (size_t)st.st_size;
    file->mapped = true;
    file->identity[0] = (uint64_t)st.st_dev;
    file->identity[1] = (uint64_t)st.st_ino;
    file->identity[2] = (uint64_t)st.st_size;
    file->identity[3] = (uint64_t)st.st_mtim.tv_sec;
    file->identity[4] = (uint64_t)st.st_mtim.tv_nsec;
    return VT_OK;
}

vt_status vt_st_open(vt_st_file **out, const char *path, const char *what, vt_error *err)
{
    /* Without O_NONBLOCK a named pipe would keep us waiting for a writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return vt_error_set(err, errno == ENOENT || errno == ENOTDIR ? VT_E_NOT_FOUND : VT_E_IO, "",
                            "%s cannot be opened: %s", what, strerror(errno));
    vt_st_file *file = calloc(1, sizeof *file);
    if (!file) {
        close(fd);
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory", what);
    }
    const vt_status status = map_file(file, fd, what, err);
    close(fd);
    if (status != VT_OK) {
        vt_st_close(file);
        return status;
    }
    return finish(out, file, what, err);
}

vt_status vt_st_open_memory(vt_st_file **out, const void *bytes, size_t size, const char *what, vt_error *err)
{
    vt_st_file *file = calloc(1, sizeof *file);
    if (!file)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory", what);
    file->bytes = bytes;
    file->size = size;
    file->identity[2] = size;
    return finish(out, file, what, err);
}

void vt_st_close(vt_st_file *file)
{
    if (!file)
        return;
    if (file->mapped)
        munmap((void *)(uintptr_t)file->bytes, file->size);
    free(file->tensors);
    free(file->names);
    free(file);
}

/* ---- reading ---- */

size_t vt_st_count(const vt_st_file *file)
{
    return file->count;
}

const vt_st_tensor *vt_st_at(const vt_st_file *file, size_t k)
{
    return k < file->count ? &file->tensors[k] : NULL;
}

const vt_st_tensor *vt_st_find(const vt_st_file *file, const char *name)
{
    const vt_st_tensor key = {.name = name};
    return file->count ? bsearch(&key, file->tensors, file->count, sizeof key, by_name) : NULL;
}

/* Exact, with subnormals, infinities and NaN, and without a branch. */
static inline float half_value(uint16_t half)
{
    const float smallest = 6.103515625e-05f; /* 2^-14, the least normal half */
    const uint32_t size = (uint32_t)(half & 0x7fffu), sign = (uint32_t)(half & 0x8000u) << 16;
    /* Exponent bias 15 becomes 127; all ones stay all ones. */
    const uint32_t normal = (size << 13) + (size >= 0x7c00u ? 224u << 23 : 112u << 23);
    /* A subnormal is its mantissa times 2^-24: put it behind the 1 of 2^-14 and take that away again. */
    const uint32_t behind = (size << 13) | 113u << 23;
    float value;
    memcpy(&value, &behind, sizeof value);
    value -= smallest;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (size < 0x400u ? bits : normal) | sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The embedded model is widened at every start. Inner loops of fixed length become vector code at -O2 already. */
static void widen_half(float *restrict out, const uint8_t *restrict from, size_t n)
{
    enum { STEP = 64 };
    uint16_t halves[STEP];
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        memcpy(halves, from + 2 * i, sizeof halves);
        for (size_t k = 0; k < STEP; k++)
            out[i + k] = half_value(halves[k]);
    }
    memcpy(halves, from + 2 * i, 2 * (n - i));
    for (size_t k = 0; i + k < n; k++)
        out[i + k] = half_value(halves[k]);
}

static void widen_bfloat(float *restrict out, const uint8_t *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

const float *vt_st_in_place(const vt_st_tensor *tensor)
{
    const bool fits = strcmp(tensor->dtype, "F32") == 0 && (uintptr_t)tensor->data % _Alignof(float) == 0;
    return fits ? (const float *)(const void *)tensor->data : NULL;
}

vt_status vt_st_floats(const vt_st_tensor *tensor, float *out, vt_error *err)
{
    const size_t n = tensor->count;
    if (n == 0 && vt_st_is_float(tensor))
        return VT_OK;
    if (strcmp(tensor->dtype, "F32") == 0) {
        memcpy(out, tensor->data, n * sizeof *out);
    } else if (strcmp(tensor->dtype, "F16") == 0) {
        widen_half(out, tensor->data, n);
    } else if (strcmp(tensor->dtype, "BF16") == 0) {
        widen_bfloat(out, tensor->data, n);
    } else if (strcmp(tensor->dtype, "F64") == 0) {
        for (size_t i = 0; i < n; i++) {
            double value;
            memcpy(&value, tensor->data + 8 * i, sizeof value);
            out[i] = (float)value;
        }
    } else {
        char shown[VT_ST_SHOWN];
        return vt_error_set(err, VT_E_BAD_MODEL, "", "tensor \"%s\" is stored as %s: F32, F16, BF16 and F64 are read",
                            vt_st_shown(shown, tensor->name), tensor->dtype);
    }
    return VT_OK;
}

const uint8_t *vt_st_header(const vt_st_file *file, size_t *bytes)
{
    *bytes = file->header_bytes;
    return file->bytes + 8;
}

void vt_st_rest(const vt_st_file *file)
{
    if (file->mapped) /* a hint: what it does not do costs memory only */
        (void)madvise((void *)(uintptr_t)file->bytes, file->size, MADV_DONTNEED);
}

const uint8_t *vt_st_bytes(const vt_st_file *file, size_t *bytes)
{
    *bytes = file->size;
    return file->bytes;
}

void vt_st_identity(const vt_st_file *file, uint64_t identity[VT_ST_IDENTITY])
{
    memcpy(identity, file->identity, sizeof file->identity);
}
