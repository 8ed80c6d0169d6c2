/* JPEG by libjpeg-turbo: baseline and progressive, grey, YCbCr, RGB, CMYK and YCCK, with the slow integer DCT and the
 * fancy upsampling that Pillow uses, so that pixels are equal to those of the training pipelines.
 *
 * libjpeg fills what is missing with grey and only warns. Here every warning that means lost picture data is an error:
 * a half-grey picture is never explained. Pictures of several scans are read in buffered mode, which lets us count the
 * scans (a few kilobytes can hold thousands of them over a large picture) and see whether each component had one.
 *
 * CMYK: R = (255 - C)(255 - K) / 255; where there is an Adobe marker the stored values are inverted.
 *
 * libjpeg takes its memory from the heap, with a limit. Its errors come back by longjmp to read_guarded; everything
 * lives in the jpeg_reader of its caller. Any thread. */
#include "engine/image/decoder.h"

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs it */
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { SCANS_MAX = 100, COMPONENTS_MAX = 4 };

typedef struct jpeg_reader {
    struct jpeg_error_mgr manager; /* first: libjpeg's pointer to it is a pointer to the reader */
    jmp_buf jump;
    vt_status status; /* why the jump */
    char message[JMSG_LENGTH_MAX];

    struct jpeg_decompress_struct lib;
    const vt_decode_options *options;
    vt_arena *arena;
    vt_error *err;
    vt_canvas canvas;
    uint8_t *cmyk; /* (width, 4), or NULL */
} jpeg_reader;

/* ---- errors ---- */

static void leave(jpeg_reader *r, vt_status status)
{
    r->status = status;
    longjmp(r->jump, 1);
}

static void leave_with(jpeg_reader *r, vt_status status, const char *sentence)
{
    vt_error_set(r->err, status, "", "%s", sentence);
    leave(r, status);
}

/* JPEG SOFn markers that libjpeg-turbo does not read. */
static const char *unread_process(int marker)
{
    switch (marker) {
    case 0xc3:
        return "this is a lossless JPEG (SOF3), which is not read here; baseline and progressive JPEG are";
    case 0xcb:
        return "this is a lossless JPEG with arithmetic coding, which is not read here; baseline and progressive JPEG "
               "are";
    default:
        return "this is a hierarchical JPEG, which is not read here; baseline and progressive JPEG are";
    }
}

static void on_error(j_common_ptr lib)
{
    jpeg_reader *r = (jpeg_reader *)lib->err;
    const int detail = lib->err->msg_parm.i[0];
    /* A header that claims too much is that, whatever else is wrong with the file. */
    if (r->lib.image_width > 0 && r->lib.image_height > 0 && !r->canvas.origin) {
        const vt_status st = vt_image_admit(r->lib.image_width, r->lib.image_height, r->options, r->err);
        if (st != VT_OK)
            leave(r, st);
    }
    switch (lib->err->msg_code) {
    case JERR_SOF_UNSUPPORTED:
        leave_with(r, VT_E_IMAGE_FORMAT, unread_process(detail));
        break;
    case JERR_BAD_PRECISION:
        vt_error_set(r->err, VT_E_IMAGE_FORMAT, "",
                     "this is a JPEG with %d bits per sample, which is not read here; 8 bits are", detail);
        leave(r, VT_E_IMAGE_FORMAT);
        break;
    case JERR_ARITH_NOTIMPL:
        leave_with(r, VT_E_IMAGE_FORMAT, "this is a JPEG with arithmetic coding, which is not read here; Huffman is");
        break;
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
        leave_with(r, VT_E_IMAGE_FORMAT,
                   "this JPEG has components whose sampling factors do not divide each other, which is not read here");
        break;
    case JERR_CONVERSION_NOTIMPL:
    case JERR_COMPONENT_COUNT:
        leave_with(r, VT_E_IMAGE_FORMAT, "this JPEG has a number of components that is not read here; 1, 3 and 4 are");
        break;
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE:
        leave_with(r, VT_E_NOMEM, "no memory to read the JPEG picture");
        break;
    case JERR_IMAGE_TOO_BIG:
        leave_with(r, VT_E_IMAGE_TOO_LARGE, "the JPEG header says more than 65500 pixels on a side");
        break;
    case JERR_INPUT_EMPTY:
    case JERR_INPUT_EOF:
        leave_with(r, VT_E_IMAGE_TRUNCATED, "the JPEG file is cut off");
        break;
    default:
        lib->err->format_message(lib, r->message);
        vt_error_set(r->err, VT_E_IMAGE_UNREADABLE, "", "the JPEG file is damaged: %s", r->message);
        leave(r, VT_E_IMAGE_UNREADABLE);
    }
}

/* level -1 is a warning; 0 and more are remarks that nobody asked for. */
static void on_message(j_common_ptr lib, int level)
{
    jpeg_reader *r = (jpeg_reader *)lib->err;
    if (level >= 0)
        return;
    switch (lib->err->msg_code) {
    case JWRN_JPEG_EOF: /* libjpeg would invent an end marker and go on */
        lib->err->msg_code = JERR_INPUT_EOF;
        on_error(lib);
        break;
    case JWRN_HIT_MARKER:
        leave_with(r, VT_E_IMAGE_TRUNCATED, "the JPEG file lacks picture data: a scan ends too early");
        break;
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
        on_error(lib);
        break;
    default: /* junk between markers, odd version numbers: the pixels are whole */
        break;
    }
}

/* ---- reading ---- */

static int stored_orientation(const jpeg_reader *r)
{
    for (jpeg_saved_marker_ptr m = r->lib.marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length >= 6 && memcmp(m->data, "Exif\0", 6) == 0)
            return vt_exif_orientation(m->data, m->data_length, r->arena); /* the first one counts; XMP is APP1, too */
    return 1;
}

/* Between rows, of the picture or of a scan: does somebody still wait for them? */
static void keep_on(jpeg_reader *r)
{
    const vt_status st = vt_control_check(r->options->control, r->err);
    if (st != VT_OK)
        leave(r, st);
}

/* Reads all scans into libjpeg's coefficient arrays. */
static void read_scans(jpeg_reader *r)
{
    bool seen[COMPONENTS_MAX] = {false};
    int scans = 0, event = JPEG_REACHED_SOS; /* jpeg_read_header has stopped at the first scan */
    while (event != JPEG_REACHED_EOI) {
        if (event == JPEG_REACHED_SOS) {
            if (++scans > SCANS_MAX)
                leave_with(r, VT_E_IMAGE_UNREADABLE, "the JPEG file has more than 100 scans, which no encoder writes");
            for (int k = 0; k < r->lib.comps_in_scan; k++)
                seen[r->lib.cur_comp_info[k]->component_index] = true;
        }
        keep_on(r);
        event = jpeg_consume_input(&r->lib); /* a marker, or one row of blocks */
        if (event == JPEG_SUSPENDED)         /* not with all bytes at hand */
            leave_with(r, VT_E_INTERNAL, "libjpeg waits for more bytes");
    }
    for (int k = 0; k < r->lib.num_components; k++)
        if (!seen[k] || (r->lib.coef_bits && r->lib.coef_bits[k][0] < 0))
            leave_with(r, VT_E_IMAGE_TRUNCATED, "the JPEG file lacks picture data: a colour component has no scan");
}

/* (255 - C)(255 - K) / 255 for each colour; stored inverted, C and K are 255 - C and 255 - K already. */
static void cmyk_to_rgb(uint8_t *to, const uint8_t *s, size_t count, bool inverted)
{
    const unsigned flip = inverted ? 0 : 255;
    for (size_t i = 0; i < count; i++, s += 4, to += 3)
        for (size_t k = 0; k < 3; k++)
            to[k] = (uint8_t)(((s[k] ^ flip) * (s[3] ^ flip) + 127) / 255);
}

static void read_rows(jpeg_reader *r)
{
    for (size_t y = 0; y < r->canvas.height; y++) {
        uint8_t *row = vt_canvas_row(&r->canvas, y);
        JSAMPROW to = r->cmyk ? r->cmyk : row;
        keep_on(r);
        jpeg_read_scanlines(&r->lib, &to, 1);
        if (r->cmyk)
            cmyk_to_rgb(row, r->cmyk, r->canvas.width, r->lib.saw_Adobe_marker);
        vt_canvas_row_done(&r->canvas, y);
    }
}

static void read_picture(jpeg_reader *r, vt_image *out, const uint8_t *bytes, size_t size)
{
    struct jpeg_decompress_struct *lib = &r->lib;
    jpeg_create_decompress(lib);
    jpeg_save_markers(lib, JPEG_APP0 + 1, 0xffff);
    jpeg_mem_src(lib, bytes, size);
    jpeg_read_header(lib, TRUE);

    vt_status st = vt_image_admit(lib->image_width, lib->image_height, r->options, r->err);
    if (st != VT_OK)
        leave(r, st);
    if (lib->arith_code)
        leave_with(r, VT_E_IMAGE_FORMAT, "this is a JPEG with arithmetic coding, which is not read here; Huffman is");
    if (lib->num_components == 2 || lib->num_components > COMPONENTS_MAX)
        leave_with(r, VT_E_IMAGE_FORMAT, "this JPEG has a number of components that is not read here; 1, 3 and 4 are");
    const bool cmyk = lib->num_components == 4;
    lib->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    /* Coefficients are 2 bytes for each of at most 4 components; small pictures are padded to whole blocks. */
    lib->mem->max_memory_to_use = (long)lib->image_width * (long)lib->image_height * 8 + (32L << 20);

    st = vt_canvas_open(&r->canvas, out, lib->image_width, lib->image_height, 3, stored_orientation(r), r->options,
                        r->arena, r->err);
    if (st != VT_OK)
        leave(r, st);
    if (cmyk && !(r->cmyk = vt_arena_alloc(r->arena, r->canvas.width, 4)))
        leave_with(r, VT_E_NOMEM, "no memory to read the JPEG picture");

    lib->buffered_image = jpeg_has_multiple_scans(lib);
    jpeg_start_decompress(lib);
    if (lib->buffered_image) {
        read_scans(r);
        jpeg_start_output(lib, lib->input_scan_number);
    }
    read_rows(r);
    if (lib->buffered_image)
        jpeg_finish_output(lib);
    jpeg_finish_decompress(lib); /* a missing end is noticed here */
}

/* The frame that a longjmp comes back to: it has no variable that could be lost. */
static bool read_guarded(jpeg_reader *r, vt_image *out, const uint8_t *bytes, size_t size)
{
    if (setjmp(r->jump) != 0)
        return false;
    read_picture(r, out, bytes, size);
    return true;
}

vt_status vt_decode_jpeg(vt_image *out, const uint8_t *bytes, size_t size, const vt_decode_options *options,
                         vt_arena *arena, vt_error *err)
{
    jpeg_reader r = {.options = options, .arena = arena, .err = err};
    r.lib.err = jpeg_std_error(&r.manager);
    r.manager.error_exit = on_error;
    r.manager.emit_message = on_message;
    const bool whole = read_guarded(&r, out, bytes, size);
    jpeg_destroy_decompress(&r.lib);
    if (!whole)
        return r.status;
    vt_arena_rewind(arena, r.canvas.keep);
    return VT_OK;
}
