#include "tests/support/folders.h"

#include "tests/support/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FOLDERS_MAX = 256, NAME_MAX_HERE = 64, RESULTS = 4 };

static char names[FOLDERS_MAX][NAME_MAX_HERE];
static int count;
static char below[128];

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int vt_test_folders(const char *relative)
{
    DIR *dir = opendir(vt_shared(relative));
    struct dirent *entry;
    struct stat st;
    char path[1024];
    count = 0;
    snprintf(below, sizeof below, "%s", relative);
    while (dir && (entry = readdir(dir))) {
        const size_t n = strlen(entry->d_name);
        snprintf(path, sizeof path, "%s/%s", vt_shared(relative), entry->d_name);
        if (entry->d_name[0] == '.' || stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
            continue;
        if (count == FOLDERS_MAX || n >= NAME_MAX_HERE) {
            fprintf(stderr, "%s: too many folders or too long a name\n", relative);
            exit(2);
        }
        memcpy(names[count++], entry->d_name, n + 1);
    }
    if (dir)
        closedir(dir);
    qsort(names, (size_t)count, sizeof names[0], by_name);
    return count > 0 ? count : 1;
}

const char *vt_test_folder(int k)
{
    return k >= 0 && k < count ? names[k] : "";
}

const char *vt_test_in_folder(int k, const char *file)
{
    static char paths[RESULTS][512];
    static size_t next;
    char *out = paths[next++ % RESULTS];
    snprintf(out, sizeof paths[0], "%s/%s%s%s", below, vt_test_folder(k), file[0] ? "/" : "", file);
    return out;
}
