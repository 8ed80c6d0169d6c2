/* Small text files beside the weights: config.json, labels.txt, an index of shards. */
#ifndef VT_MODEL_TEXT_FILE_H
#define VT_MODEL_TEXT_FILE_H

#include <stddef.h>

#include "vitral/status.h"

enum { VT_TEXT_FILE_MAX = 8 * 1024 * 1024 };

/* "folder/name" in new memory, or NULL. folder "" stands for the current one. */
char *vt_path_join(const char *folder, const char *name);

/* Reads folder/name, malloc'ed, with a NUL behind it. *text is NULL (and the status VT_OK) when there is no such file. */
VT_MUST_USE vt_status vt_text_file_read(char **text, size_t *size, const char *folder, const char *name, vt_error *err);

#endif
