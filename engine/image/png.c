/* PNG: every colour type and depth, interlaced or not, to 8-bit RGB, by the low-level interface of libpng.
 *
 * libpng only inflates and unfilters here; no transformation of it but unpacking is used. Its simplified interface
 * applies gAMA, which no training pipeline does, and its tRNS handling scales samples before it compares them with
 * the colour key. Interlaced pictures are read as their seven sub-images and scattered, so that a 16-bit picture never
 * lies in memory as 16 bit.
 *
 * Rules: a 16-bit sample v becomes (v + 128) / 257, one of b < 8 bits v * 255 / (2^b - 1); a colour key is compared
 * with the sample as stored; an index past the palette is black, as libpng and the browsers show it; gAMA, cHRM, sRGB,
 * iCCP and all text are skipped unread. Of a mask the samples are labels and stay as they are stored (vitral/mask.h).
 *
 * Errors of libpng come back by longjmp to read_guarded; everything lives in the png_reader of its caller. */
#include "engine/image/decoder.h"

#include <png.h>

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

enum {
    SIGNATURE = 8,
    CHUNK = 12,       /* length, type, check sum */
    FIRST_CHUNK = 13, /* data bytes of IHDR */
    EXIF_BYTES_MAX = 65536,
    CHUNK_BYTES_MAX = 1 << 24 /* a longer one is refused; nothing that long is kept in memory, only passed over */
};

typedef struct png_reader {
    jmp_buf jump;
    const uint8_t *bytes;
    size_t size, at;
    vt_arena *arena;
    bool cut, no_memory;
    char message[160]; /* libpng's last error */
    png_structp png;
    png_infop info;

    const vt_decode_options *options;
    vt_error *err;
    vt_status stopped; /* by the control */
    vt_canvas canvas;
    int type, depth;
    bool labels;           /* samples are no colours */
    bool has_key;          /* a colour key (grey, RGB): */
    unsigned key[3];       /* its samples as stored */
    uint8_t table[256][3]; /* palette, or grey of up to 8 bits, with alpha already laid over the background */
    uint8_t *row;          /* one row as libpng gives it */
} png_reader;

/* ---- what libpng calls ---- */

static void on_error(png_structp png, png_const_charp message)
{
    png_reader *r = png_get_error_ptr(png);
    snprintf(r->message, sizeof r->message, "%s", message);
    longjmp(r->jump, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png, (void)message; /* what libpng merely remarks does not change the pixels */
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t bytes)
{
    png_reader *r = png_get_mem_ptr(png);
    void *block = vt_arena_alloc(r->arena, bytes, 1);
    if (!block)
        r->no_memory = true;
    return block;
}

static void on_free(png_structp png, png_voidp block)
{
    (void)png, (void)block; /* the arena is rewound as a whole */
}

static void on_read(png_structp png, png_bytep to, size_t bytes)
{
    png_reader *r = png_get_io_ptr(png);
    if (bytes > r->size - r->at) {
        r->cut = true;
        png_error(png, "the file ends here");
    }
    memcpy(to, r->bytes + r->at, bytes);
    r->at += bytes;
}

/* ---- rows ---- */

static unsigned sample16(const uint8_t *s)
{
    return (unsigned)s[0] << 8 | s[1];
}

static unsigned narrow(unsigned v)
{
    return (v + 128) / 257;
}

/* One pixel with an alpha of its own, or with the alpha that the colour key gives it. */
static inline void put(const png_reader *r, uint8_t *to, const unsigned c[3], unsigned a)
{
    const uint8_t *back = r->options->background;
    for (int k = 0; k < 3; k++)
        to[k] = a == 255 || r->options->drop_alpha ? (uint8_t)c[k] : vt_over(c[k], a, back[k]);
}

/* count pixels of r->row, to places `step` bytes apart. The last three are constants where it is called, which makes
 * one loop of it for each type. */
static inline void convert_samples(const png_reader *r, uint8_t *to, ptrdiff_t step, size_t count, size_t colours,
                                   size_t alphas, size_t bytes)
{
    const uint8_t *s = r->row;
    for (size_t i = 0; i < count; i++, to += step) {
        unsigned stored[4], c[3], a = 255;
        for (size_t k = 0; k < colours + alphas; k++, s += bytes)
            stored[k] = bytes == 2 ? sample16(s) : s[0];
        if (alphas)
            a = bytes == 2 ? narrow(stored[colours]) : stored[colours];
        else if (r->has_key && stored[0] == r->key[0] &&
                 (colours == 1 || (stored[1] == r->key[1] && stored[2] == r->key[2])))
            a = 0;
        for (size_t k = 0; k < 3; k++) {
            const unsigned v = stored[colours == 3 ? k : 0];
            c[k] = bytes == 2 ? narrow(v) : v;
        }
        put(r, to, c, a);
    }
}

/* The same for labels, of 1 or 2 bytes. */
static void convert_labels(const png_reader *r, uint8_t *to, ptrdiff_t step, size_t count)
{
    const bool is_palette = r->type == PNG_COLOR_TYPE_PALETTE;
    const size_t bytes = r->depth == 16 ? 2 : 1, colours = !is_palette && (r->type & PNG_COLOR_MASK_COLOR) ? 3 : 1;
    const size_t alphas = (r->type & PNG_COLOR_MASK_ALPHA) ? 1 : 0;
    const uint8_t *s = r->row;
    for (size_t i = 0; i < count; i++, to += step) {
        unsigned stored[4] = {0};
        for (size_t k = 0; k < colours + alphas; k++, s += bytes)
            stored[k] = bytes == 2 ? sample16(s) : s[0];
        unsigned label = colours == 3 ? (stored[0] | stored[1] | stored[2]) != 0 : stored[0];
        const bool is_key = r->has_key && stored[0] == r->key[0] &&
                            (colours == 1 || (stored[1] == r->key[1] && stored[2] == r->key[2]));
        if (alphas ? stored[colours] == 0 : is_key)
            label = 0;
        const uint16_t wide = (uint16_t)label;
        if (r->canvas.pixel == 2)
            memcpy(to, &wide, sizeof wide);
        else
            *to = (uint8_t)label;
    }
}

static void convert(const png_reader *r, uint8_t *to, ptrdiff_t step, size_t count)
{
    if (r->labels) {
        convert_labels(r, to, step, count);
        return;
    }
    const bool wide = r->depth == 16;
    switch (r->type) {
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        if (wide)
            convert_samples(r, to, step, count, 1, 1, 2);
        else
            convert_samples(r, to, step, count, 1, 1, 1);
        return;
    case PNG_COLOR_TYPE_RGB_ALPHA:
        if (wide)
            convert_samples(r, to, step, count, 3, 1, 2);
        else
            convert_samples(r, to, step, count, 3, 1, 1);
        return;
    case PNG_COLOR_TYPE_RGB:
        if (wide)
            convert_samples(r, to, step, count, 3, 0, 2);
        else if (r->has_key || step != 3)
            convert_samples(r, to, step, count, 3, 0, 1);
        else
            memcpy(to, r->row, count * 3);
        return;
    default: /* grey, palette */
        if (wide)
            convert_samples(r, to, step, count, 1, 0, 2);
        else
            for (size_t i = 0; i < count; i++, to += step)
                memcpy(to, r->table[r->row[i]], 3);
    }
}

/* Colours of all byte values: of the palette, or of grey with up to 8 bits. */
static void fill_table(png_reader *r)
{
    png_colorp palette = NULL;
    png_bytep alphas = NULL;
    png_color_16p key = NULL;
    int colours = 0, alphas_count = 0;
    const bool is_palette = r->type == PNG_COLOR_TYPE_PALETTE;
    const unsigned mask = (1u << r->depth) - 1; /* 16 bits: all */

    if (is_palette)
        png_get_PLTE(r->png, r->info, &palette, &colours);
    if (png_get_valid(r->png, r->info, PNG_INFO_tRNS))
        png_get_tRNS(r->png, r->info, &alphas, &alphas_count, &key);
    if (!is_palette && key) {
        r->has_key = true;
        r->key[0] = (r->type == PNG_COLOR_TYPE_GRAY ? key->gray : key->red) & mask;
        r->key[1] = key->green & mask;
        r->key[2] = key->blue & mask;
    }
    if (r->depth > 8)
        return;
    for (unsigned v = 0; v < 256; v++) {
        unsigned c[3] = {0, 0, 0}, a = 255;
        if (is_palette && v < (unsigned)colours) {
            c[0] = palette[v].red, c[1] = palette[v].green, c[2] = palette[v].blue;
            if (alphas && v < (unsigned)alphas_count)
                a = alphas[v];
        } else if (!is_palette) {
            c[0] = c[1] = c[2] = (v & mask) * 255 / mask;
            if (r->has_key && v == r->key[0])
                a = 0;
        }
        put(r, r->table[v], c, a);
    }
}

/* The next row into r->row, unless nobody waits for it any more. */
static void next_row(png_reader *r)
{
    r->stopped = vt_control_check(r->options->control, r->err);
    if (r->stopped != VT_OK)
        png_error(r->png, "stopped");
    png_read_row(r->png, r->row, NULL);
}

static void read_rows(png_reader *r)
{
    for (size_t y = 0; y < r->canvas.height; y++) {
        next_row(r);
        convert(r, vt_canvas_row(&r->canvas, y), (ptrdiff_t)r->canvas.pixel, r->canvas.width);
        vt_canvas_row_done(&r->canvas, y);
    }
}

/* Without png_set_interlace_handling libpng gives each sub-image row by row. */
static void read_interlaced(png_reader *r)
{
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++) {
        const size_t rows = PNG_PASS_ROWS((png_uint_32)r->canvas.height, pass);
        const size_t columns = PNG_PASS_COLS((png_uint_32)r->canvas.width, pass);
        const ptrdiff_t step = (ptrdiff_t)PNG_PASS_COL_OFFSET(pass) * r->canvas.step_x;
        if (columns == 0)
            continue; /* libpng passes over it, too */
        for (size_t k = 0; k < rows; k++) {
            const ptrdiff_t y = (ptrdiff_t)PNG_ROW_FROM_PASS_ROW(k, pass), x = PNG_PASS_START_COL(pass);
            next_row(r);
            convert(r, r->canvas.origin + y * r->canvas.step_y + x * r->canvas.step_x, step, columns);
        }
    }
}

static void read_picture(png_reader *r, vt_image *out)
{
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, on_error, on_warning, r, on_alloc, on_free);
    if (!r->png)
        longjmp(r->jump, 1);
    r->info = png_create_info_struct(r->png);
    if (!r->info)
        png_error(r->png, "no memory");
    png_set_read_fn(r->png, r, on_read);
    png_set_user_limits(r->png, VT_IMAGE_SIDE_MAX, VT_IMAGE_SIDE_MAX);
    png_set_chunk_malloc_max(r->png, CHUNK_BYTES_MAX);
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* all but IHDR PLTE tRNS IDAT IEND */

    png_read_info(r->png, r->info);
    r->type = png_get_color_type(r->png, r->info);
    r->depth = png_get_bit_depth(r->png, r->info);
    if (png_get_image_width(r->png, r->info) != r->canvas.width ||
        png_get_image_height(r->png, r->info) != r->canvas.height)
        png_error(r->png, "IHDR is not what it was");
    if (r->type == PNG_COLOR_TYPE_PALETTE && !png_get_valid(r->png, r->info, PNG_INFO_PLTE))
        png_error(r->png, "a palette picture without a palette");
    fill_table(r);
    out->had_alpha = (r->type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(r->png, r->info, PNG_INFO_tRNS);

    png_set_packing(r->png); /* 1, 2 and 4 bits: one byte a sample, not scaled */
    png_read_update_info(r->png, r->info);
    r->row = png_malloc(r->png, png_get_rowbytes(r->png, r->info));
    if (png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_ADAM7)
        read_interlaced(r);
    else
        read_rows(r);
    png_read_end(r->png, NULL);
}

/* ---- the file, before libpng sees it ---- */

static uint32_t be32(const uint8_t *s)
{
    return (uint32_t)s[0] << 24 | (uint32_t)s[1] << 16 | (uint32_t)s[2] << 8 | s[3];
}

/* The check sum of a chunk: type and data. Bit by bit: it runs over a few bytes only. */
static uint32_t crc_of(const uint8_t *s, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= s[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (UINT32_C(0xedb88320) & (0u - (crc & 1)));
    }
    return ~crc;
}

/* The eXIf chunk, which may stand before or after the pixels: found first, so that they can be painted upright. */
static int stored_orientation(const uint8_t *bytes, size_t size, vt_arena *arena)
{
    for (size_t at = SIGNATURE; size - at >= CHUNK;) {
        const size_t length = be32(bytes + at);
        if (length > size - at - CHUNK || memcmp(bytes + at + 4, "IEND", 4) == 0)
            return 1;
        if (memcmp(bytes + at + 4, "eXIf", 4) == 0)
            return length <= EXIF_BYTES_MAX && crc_of(bytes + at + 4, length + 4) == be32(bytes + at + 8 + length)
                       ? vt_exif_orientation(bytes + at + 8, length, arena)
                       : 1;
        at += CHUNK + length;
    }
    return 1;
}

static vt_status open_canvas(png_reader *r, vt_image *out, vt_error *err)
{
    static const uint8_t signature[SIGNATURE] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const uint8_t *head = r->bytes + SIGNATURE; /* IHDR */
    if (memcmp(r->bytes, signature, r->size < SIGNATURE ? r->size : SIGNATURE) != 0)
        return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "",
                            "the PNG signature is damaged, as a transfer in text mode leaves it");
    if (r->size < SIGNATURE + CHUNK + FIRST_CHUNK)
        return vt_error_set(err, VT_E_IMAGE_TRUNCATED, "", "the PNG file ends within its first %zu bytes", r->size);
    if (be32(head) != FIRST_CHUNK || memcmp(head + 4, "IHDR", 4) != 0 ||
        crc_of(head + 4, FIRST_CHUNK + 4) != be32(head + 8 + FIRST_CHUNK))
        return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "", "the PNG file does not begin with a sound IHDR chunk");
    const uint32_t width = be32(head + 8), height = be32(head + 12);
    if (width == 0 || height == 0 || width > INT32_MAX || height > INT32_MAX)
        return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "", "the PNG header says %lu x %lu pixels",
                            (unsigned long)width, (unsigned long)height);
    const vt_status st = vt_image_admit(width, height, r->options, err);
    if (st != VT_OK)
        return st;
    const int orientation = stored_orientation(r->bytes, r->size, r->arena);
    const int depth = head[16], type = head[17];
    const size_t label = depth == 16 && !(type & PNG_COLOR_MASK_COLOR) ? 2 : 1;
    return vt_canvas_open(&r->canvas, out, width, height, r->labels ? label : 3, orientation, r->options, r->arena,
                          err);
}

static vt_status fail(const png_reader *r, vt_error *err)
{
    if (r->stopped != VT_OK)
        return r->stopped;
    if (r->no_memory)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to read the PNG picture");
    if (r->cut)
        return vt_error_set(err, VT_E_IMAGE_TRUNCATED, "", "the PNG file is cut off after %zu bytes", r->size);
    return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "", "the PNG file is damaged: %s", r->message);
}

/* The frame that a longjmp comes back to: it has no variable that could be lost. */
static bool read_guarded(png_reader *r, vt_image *out)
{
    if (setjmp(r->jump) != 0)
        return false;
    read_picture(r, out);
    return true;
}

static vt_status decode(png_reader *r, vt_image *out, vt_error *err)
{
    vt_status st = open_canvas(r, out, err);
    if (st != VT_OK)
        return st;
    if (!read_guarded(r, out))
        st = fail(r, err);
    png_destroy_read_struct(&r->png, &r->info, NULL);
    vt_arena_rewind(r->arena, r->canvas.keep);
    return st;
}

vt_status vt_decode_png(vt_image *out, const uint8_t *bytes, size_t size, const vt_decode_options *options,
                        vt_arena *arena, vt_error *err)
{
    png_reader r = {.bytes = bytes, .size = size, .arena = arena, .options = options, .err = err};
    return decode(&r, out, err);
}

vt_status vt_decode_png_labels(vt_mask *out, const uint8_t *bytes, size_t size, const vt_decode_options *options,
                               vt_arena *arena, vt_error *err)
{
    png_reader r = {.bytes = bytes, .size = size, .arena = arena, .options = options, .err = err, .labels = true};
    vt_image image = {.orientation = 1};
    const vt_status st = decode(&r, &image, err);
    *out = (vt_mask){.labels = st == VT_OK ? image.rgb : NULL,
                     .label_bytes = r.canvas.pixel,
                     .width = image.width,
                     .height = image.height};
    return st;
}
