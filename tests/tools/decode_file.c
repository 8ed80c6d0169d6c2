/* decode_file FILE: the decoded picture as binary PPM (P6) on stdout and status 0, or the engine's sentence on stderr and
 * status 1. Serves cases/run_cases.py --decoder of the shared reference data. */
#include "vitral/image.h"

#include <stdio.h>
#include <stdlib.h>

static uint8_t *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t used = 0, room = 0;
    if (!file)
        return NULL;
    for (;;) {
        if (used == room) {
            room = room ? room * 2 : 65536;
            uint8_t *more = realloc(bytes, room);
            if (!more)
                break;
            bytes = more;
        }
        const size_t n = fread(bytes + used, 1, room - used, file);
        if (n == 0) {
            const int failed = ferror(file);
            fclose(file);
            if (failed) {
                free(bytes);
                return NULL;
            }
            *size = used;
            return bytes;
        }
        used += n;
    }
    fclose(file);
    free(bytes);
    return NULL;
}

int main(int argc, char **argv)
{
    const vt_decode_options options = {.background = {255, 255, 255}, .pixels_max = 64000000};
    vt_error err = {0};
    vt_arena *arena = NULL;
    vt_image image;
    size_t size = 0;
    int status = 1;

    if (argc != 2) {
        fprintf(stderr, "usage: decode_file FILE\n");
        return 2;
    }
    uint8_t *bytes = read_all(argv[1], &size);
    if (!bytes) {
        fprintf(stderr, "decode_file: cannot read the file\n");
        return 2;
    }
    if (vt_arena_open(&arena, vt_image_scratch(options.pixels_max), &err) != VT_OK ||
        vt_image_decode(&image, bytes, size, &options, arena, &err) != VT_OK) {
        fprintf(stderr, "%s: %s\n", vt_status_name(err.status), err.msg);
    } else {
        const size_t pixels = image.width * image.height;
        printf("P6\n%zu %zu\n255\n", image.width, image.height);
        status = fwrite(image.rgb, 3, pixels, stdout) == pixels && fflush(stdout) == 0 ? 0 : 1;
    }
    vt_arena_close(arena);
    free(bytes);
    return status;
}
