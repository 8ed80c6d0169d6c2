/* The tokenizer of a CLIP checkpoint, from the files beside its weights. */
#ifndef VT_MODEL_TOKENIZER_H
#define VT_MODEL_TOKENIZER_H

#include "engine/text/bpe.h"
#include "vitral/hash.h"

/* The texts of the files, where they are there; of a .gz its bytes as they are. */
typedef struct vt_tokenizer_file {
    const char *name; /* for messages */
    const char *text; /* NULL: there is no such file */
    size_t size;
} vt_tokenizer_file;

typedef struct vt_tokenizer_files {
    vt_tokenizer_file vocab, merges; /* vocab.json and merges.txt of transformers: read first */
    vt_tokenizer_file whole;         /* tokenizer.json, of the tokenizers library */
    vt_tokenizer_file gzip;          /* bpe_simple_vocab*.txt.gz of OpenAI and open_clip */
} vt_tokenizer_files;

/* vocabulary: rows of the token embedding: every number must be below. *out NULL and VT_OK when there is no file.
 * VT_E_BAD_MODEL names the file and what is wrong with it; VT_E_NOMEM. The texts are not needed afterwards. */
VT_MUST_USE vt_status vt_tokenizer_make(vt_bpe **out, const vt_tokenizer_files *files, size_t vocabulary,
                                        vt_error *err);

/* The same from the files of a folder, whose bytes go into the hash. VT_E_IO too. */
VT_MUST_USE vt_status vt_tokenizer_open(vt_bpe **out, const char *folder, size_t vocabulary, vt_sha256 *hash,
                                        vt_error *err);

#endif
