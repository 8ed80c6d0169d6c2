/* Signatures of file formats, those that people send as pictures and those that they send by mistake.
 *
 * Order matters where one signature begins with another (JPEG-LS before JPEG, brands before the plain MP4 box). Text
 * is looked at last. No byte past `size` is read. */
#include "engine/image/sniff.h"

#include "vitral/status.h"

#include <stdbool.h>
#include <string.h>

typedef struct magic {
    size_t offset, length;
    const char *bytes;
    vt_signature is;
} magic;

#define MAGIC(offset, bytes, name, sentence)                                                                           \
    {                                                                                                                  \
        offset, sizeof(bytes) - 1, bytes,                                                                              \
        {                                                                                                              \
            name, sentence                                                                                             \
        }                                                                                                              \
    }

static const magic magics[] = {
    MAGIC(0, "\xff\xd8\xff\xf7", "jpeg-ls", "this is a JPEG-LS picture"),
    MAGIC(0, "\xff\xd8", "jpeg", "this is a JPEG picture"),
    MAGIC(0, "\x89PNG", "png", "this is a PNG picture"),
    MAGIC(0, "GIF8", "gif", "this is a GIF picture"),
    MAGIC(0, "BM", "bmp", "this is a BMP picture"),
    MAGIC(0, "II*\0", "tiff", "this is a TIFF picture"),
    MAGIC(0, "MM\0*", "tiff", "this is a TIFF picture"),
    MAGIC(0, "II+\0", "tiff", "this is a BigTIFF picture"),
    MAGIC(0, "MM\0+", "tiff", "this is a BigTIFF picture"),
    MAGIC(0, "\0\0\0\x0cjP  \r\n\x87\n", "jp2", "this is a JPEG 2000 picture (JP2)"),
    MAGIC(0, "\xff\x4f\xff\x51", "jp2", "this is a JPEG 2000 codestream"),
    MAGIC(0, "\0\0\0\x0cJXL \r\n\x87\n", "jxl", "this is a JPEG XL picture"),
    MAGIC(0, "\xff\x0a", "jxl", "this is a JPEG XL picture"),
    MAGIC(0, "8BPS", "psd", "this is a Photoshop document (PSD)"),
    MAGIC(0, "\0\0\1\0", "ico", "this is an icon file (ICO)"),
    MAGIC(0, "\0\0\2\0", "cur", "this is a cursor file (CUR)"),
    MAGIC(0, "qoif", "qoi", "this is a QOI picture"),
    MAGIC(0, "DDS ", "dds", "this is a DDS texture"),
    MAGIC(0, "\x76\x2f\x31\x01", "exr", "this is an OpenEXR picture"),
    MAGIC(0, "#?RADIANCE", "hdr", "this is a Radiance HDR picture"),
    MAGIC(0, "gimp xcf", "xcf", "this is a GIMP document (XCF)"),
    MAGIC(0, "FLIF", "flif", "this is a FLIF picture"),
    MAGIC(0, "SIMPLE  =", "fits", "this is a FITS file"),
    MAGIC(128, "DICM", "dicom", "this is a DICOM object, which this build does not read"),
    MAGIC(344, "n+1\0", "nifti", "this is a NIfTI volume"),
    MAGIC(0, "%PDF", "pdf", "this is a PDF document"),
    MAGIC(0, "%!PS", "postscript", "this is a PostScript document"),
    MAGIC(0, "PK\3\4", "zip", "this is a ZIP archive"),
    MAGIC(0, "PK\5\6", "zip", "this is an empty ZIP archive"),
    MAGIC(0, "\x1f\x8b", "gzip", "this is a gzip file"),
    MAGIC(0, "BZh", "bzip2", "this is a bzip2 file"),
    MAGIC(0,
          "\xfd"
          "7zXZ",
          "xz", "this is an xz file"),
    MAGIC(0, "\x28\xb5\x2f\xfd", "zstd", "this is a Zstandard file"),
    MAGIC(0, "7z\xbc\xaf", "7z", "this is a 7-Zip archive"),
    MAGIC(0, "Rar!", "rar", "this is a RAR archive"),
    MAGIC(257, "ustar", "tar", "this is a tar archive"),
    MAGIC(0, "\x93NUMPY", "npy", "this is a NumPy array (npy)"),
    MAGIC(0, "\x89HDF", "hdf5", "this is an HDF5 file"),
    MAGIC(0, "\x1a\x45\xdf\xa3", "matroska", "this is a Matroska or WebM video"),
    MAGIC(0, "OggS", "ogg", "this is an Ogg file"),
    MAGIC(0,
          "\x7f"
          "ELF",
          "elf", "this is a program (ELF)"),
    MAGIC(0, "MZ", "exe", "this is a program (Windows)"),
    MAGIC(0, "SQLite format 3", "sqlite", "this is an SQLite database"),
};

static bool starts(const uint8_t *bytes, size_t size, const char *text)
{
    const size_t n = strlen(text);
    return size >= n && memcmp(bytes, text, n) == 0;
}

/* The same, letters in either case; text is lower case. */
static bool starts_nocase(const uint8_t *bytes, size_t size, const char *text)
{
    const size_t n = strlen(text);
    if (size < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = bytes[i] >= 'A' && bytes[i] <= 'Z' ? (uint8_t)(bytes[i] - 'A' + 'a') : bytes[i];
        if (c != (uint8_t)text[i])
            return false;
    }
    return true;
}

static bool contains_nocase(const uint8_t *bytes, size_t size, const char *text)
{
    for (size_t i = 0; i < size; i++)
        if (starts_nocase(bytes + i, size - i, text))
            return true;
    return false;
}

/* RIFF holds WebP, but also sound and video. */
static const vt_signature *sniff_riff(const uint8_t *bytes, size_t size)
{
    static const vt_signature webp = {"webp", "this is a WebP picture"}, wav = {"wav", "this is a WAV sound (RIFF)"},
                              avi = {"avi", "this is an AVI video (RIFF)"}, riff = {"riff", "this is a RIFF file"};
    if (size < 12 || memcmp(bytes, "RIFF", 4) != 0)
        return NULL;
    return memcmp(bytes + 8, "WEBP", 4) == 0   ? &webp
           : memcmp(bytes + 8, "WAVE", 4) == 0 ? &wav
           : memcmp(bytes + 8, "AVI ", 4) == 0 ? &avi
                                               : &riff;
}

/* ISO base media: size, "ftyp", major brand, version, then brands. HEIF pictures may name themselves in any of them. */
static const vt_signature *sniff_iso_media(const uint8_t *bytes, size_t size)
{
    static const vt_signature avif = {"avif", "this is an AVIF picture"},
                              heic = {"heic", "this is a HEIC or HEIF picture"},
                              mp4 = {"mp4", "this is an MP4 or QuickTime video"};
    static const char *const heif_brands[] = {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"};
    if (size < 12 || memcmp(bytes + 4, "ftyp", 4) != 0)
        return NULL;
    const size_t box = (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
    const size_t end = box < size ? box : size;
    const vt_signature *found = &mp4;
    for (size_t at = 8; at + 4 <= end || at == 8; at += at == 8 ? 8 : 4) { /* 12 ... 15 is the version */
        if (memcmp(bytes + at, "avif", 4) == 0 || memcmp(bytes + at, "avis", 4) == 0)
            return &avif;
        for (size_t k = 0; k < VT_COUNT(heif_brands); k++)
            if (memcmp(bytes + at, heif_brands[k], 4) == 0)
                found = &heic;
    }
    return found;
}

/* DICOM without its preamble: the first element is of group 2 or 8, little endian, with or without a written type. */
static const vt_signature *sniff_bare_dicom(const uint8_t *bytes, size_t size)
{
    static const vt_signature dicom = {"dicom", "this is a DICOM object, which this build does not read"};
    if (size < 132 || (bytes[0] != 2 && bytes[0] != 8) || bytes[1] != 0 || bytes[3] != 0)
        return NULL;
    const bool typed = bytes[4] >= 'A' && bytes[4] <= 'Z' && bytes[5] >= 'A' && bytes[5] <= 'Z';
    const bool untyped = bytes[0] == 8 && bytes[5] == 0 && bytes[6] == 0 && bytes[7] == 0;
    return typed || untyped ? &dicom : NULL;
}

static bool is_text(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((bytes[i] < 0x20 && bytes[i] != '\t' && bytes[i] != '\n' && bytes[i] != '\r' && bytes[i] != '\f') ||
            bytes[i] == 0x7f)
            return false;
    return true;
}

static const vt_signature *sniff_text(const uint8_t *bytes, size_t size)
{
    static const vt_signature svg = {"svg", "this is an SVG drawing"}, html = {"html", "this is an HTML page"},
                              xml = {"xml", "this is an XML document"}, json = {"json", "this is JSON text"},
                              data_url = {"data_url", "this is a data URL as text and not the picture itself"},
                              base64 = {"base64", "this is base64 text and not the picture itself"},
                              pnm = {"pnm", "this is a Netpbm picture (PNM)"}, text = {"text", "this is plain text"};
    const size_t head = size < 4096 ? size : 4096;
    if (head >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' && (bytes[2] == '\n' || bytes[2] == ' '))
        return &pnm; /* a text header, then bytes */
    if (!is_text(bytes, size < 512 ? size : 512))
        return NULL;
    size_t i = starts(bytes, head, "\xef\xbb\xbf") ? 3 : 0; /* byte order mark */
    while (i < head && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\n' || bytes[i] == '\r'))
        i++;
    const uint8_t *at = bytes + i;
    const size_t left = head - i;
    if (starts_nocase(at, left, "data:"))
        return &data_url;
    if (starts_nocase(at, left, "<svg"))
        return &svg;
    if (starts_nocase(at, left, "<!doctype html") || starts_nocase(at, left, "<html"))
        return &html;
    if (starts_nocase(at, left, "<?xml") || starts_nocase(at, left, "<!"))
        return contains_nocase(at, left, "<svg") ? &svg : contains_nocase(at, left, "<html") ? &html : &xml;
    if (left > 0 && (at[0] == '{' || at[0] == '['))
        return &json;
    if (starts(at, left, "/9j/") || starts(at, left, "iVBORw0K") || starts(at, left, "UklGR"))
        return &base64;
    return left > 1 ? &text : NULL;
}

const vt_signature *vt_sniff(const uint8_t *bytes, size_t size)
{
    static const vt_signature unknown = {"unknown", "the bytes are of no known picture format"};
    for (size_t k = 0; k < VT_COUNT(magics); k++) {
        const magic *m = &magics[k];
        if (size >= m->offset + m->length && memcmp(bytes + m->offset, m->bytes, m->length) == 0)
            return &m->is;
    }
    const vt_signature *found = sniff_riff(bytes, size);
    if (!found)
        found = sniff_iso_media(bytes, size);
    if (!found)
        found = sniff_bare_dicom(bytes, size);
    if (!found)
        found = sniff_text(bytes, size);
    return found ? found : &unknown;
}
