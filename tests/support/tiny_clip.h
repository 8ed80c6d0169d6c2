/* A tiny CLIP as transformers or open_clip would write it, tokenizer and all, in a folder of its own: what the request of
 * texts needs, from a bare clone. Both spellings hold the same values. */
#ifndef VT_TESTS_TINY_CLIP_H
#define VT_TESTS_TINY_CLIP_H

#include "tests/support/tiny_model.h"

enum {
    VT_TINY_CLIP_PIECES = 519, /* 512 letters, the unions below, two marks */
    VT_TINY_CLIP_CONTEXT = 12,
    VT_TINY_CLIP_WIDTH = 8, /* of the text tower: two heads, two blocks, an MLP of 16 */
    VT_TINY_CLIP_JOINT = 6
};

/* The pairs of the vocabulary, in order: d o, do g</w>, c a, ca t</w>, r e. */
extern const char vt_tiny_clip_merges[]; /* merges.txt */

/* The tensors; the list is freed by the caller. */
void vt_tiny_clip_tensors(vt_test_tensors *list, bool open_clip);

/* vocab.json and merges.txt, tokenizer.json, or OpenAI's packed file; malloc'ed. */
char *vt_tiny_clip_vocab(void);
char *vt_tiny_clip_whole(void);
uint8_t *vt_tiny_clip_packed(size_t *size);

/* config.json or open_clip_config.json of the tensors: static text. */
const char *vt_tiny_clip_config(bool open_clip);

/* A new folder with all of it (open_clip: with the packed vocabulary), edited before it is written; edit may be NULL.
 * The name ends up in folder; the caller removes it by vt_tiny_clip_remove. */
enum { VT_TINY_CLIP_FOLDER = 64 };
void vt_tiny_clip_folder(char folder[VT_TINY_CLIP_FOLDER], bool open_clip, void (*edit)(vt_test_tensors *list));
void vt_tiny_clip_put(const char *folder, const char *name, const void *bytes, size_t size); /* writes a file */
void vt_tiny_clip_drop(const char *folder, const char *name);                                /* and takes one away */
void vt_tiny_clip_remove(const char *folder);

/* Opens such a folder and removes it; fails the test when it is refused. */
vt_model *vt_tiny_clip_open(bool open_clip);

#endif
