/* A main for the fuzz programs with any compiler: gives files, or all files of folders, to LLVMFuzzerTestOneInput.
 *
 *   fuzz_png [-m] FILE|FOLDER...
 *
 * -m: each file is also given cut at several lengths and with bytes changed, the same ones in each run. A copy of exact
 * size is made for each input, so that a sanitizer sees any byte read past its end. What is wrong ends the process; the
 * last line is the number of inputs. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CUTS = 24, CHANGES = 96 };

static unsigned long inputs;

static void give(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    if (size)
        memcpy(copy, bytes, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    inputs++;
}

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void mutate(uint8_t *bytes, size_t size)
{
    uint32_t state = (uint32_t)size;
    for (size_t k = 0; k < CUTS; k++) /* short ones, where the headers are, then evenly spread ones */
        give(bytes, k < CUTS / 2 ? (k * 3 < size ? k * 3 : size) : size * (k - CUTS / 2) / (CUTS / 2));
    if (size > 0)
        give(bytes, size - 1);
    for (size_t k = 0; size > 0 && k < CHANGES; k++) {
        const size_t room = k % 2 ? size : size < 64 ? size : 64; /* every other change goes to the headers */
        const size_t at = draw(&state) % room, also = draw(&state) % size;
        const uint8_t keep = bytes[at], keep_also = bytes[also];
        bytes[at] = k % 3 == 0 ? (uint8_t)draw(&state) : (uint8_t)(keep ^ (1u << draw(&state) % 8));
        if (k % 4 == 3)
            bytes[also] = k % 8 == 3 ? 0xff : 0;
        give(bytes, size);
        bytes[also] = keep_also;
        bytes[at] = keep;
    }
}

static int give_file(const char *path, int with_mutations)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        if (file)
            fclose(file);
        return 1;
    }
    const long size = ftell(file);
    uint8_t *bytes = size >= 0 ? malloc((size_t)size + 1) : NULL;
    rewind(file);
    const int whole = bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    if (!whole) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(bytes);
        return 1;
    }
    give(bytes, (size_t)size);
    if (with_mutations)
        mutate(bytes, (size_t)size);
    free(bytes);
    return 0;
}

static int give_path(const char *path, int with_mutations)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return give_file(path, with_mutations);
    struct dirent **entries;
    const int n = scandir(path, &entries, NULL, alphasort);
    int failed = n < 0;
    for (int k = 0; k < n; k++) {
        char inner[4096];
        if (entries[k]->d_name[0] != '.' &&
            (size_t)snprintf(inner, sizeof inner, "%s/%s", path, entries[k]->d_name) < sizeof inner)
            failed |= give_path(inner, with_mutations);
        free(entries[k]);
    }
    if (n >= 0)
        free(entries);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, with_mutations = 0;
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "-m") == 0)
            with_mutations = 1;
        else
            failed |= give_path(argv[k], with_mutations);
    }
    printf("%lu inputs\n", inputs);
    return failed || inputs == 0;
}
