/* CLIP's byte-pair encoding: from a text to the numbers of its pieces.
 *
 * Built in steps by whoever reads a vocabulary (engine/model/tokenizer.c), const after vt_bpe_finish; any thread may
 * encode then. Radford et al. 2021; the behaviour is that of OpenAI's simple_tokenizer and of transformers' CLIPTokenizer. */
#ifndef VT_TEXT_BPE_H
#define VT_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/status.h"

enum { VT_BPE_TOKENS_MAX = 1 << 20 };

typedef struct vt_bpe vt_bpe;

/* The letters that stand for the 256 bytes in a vocabulary: printable ones for themselves, the others from U+0100 on. */
uint32_t vt_bpe_letter(uint8_t byte);
/* The bytes in the order in which a vocabulary counts their letters. */
uint8_t vt_bpe_byte_at(size_t k);

/* VT_E_NOMEM. The caller closes it, also half-built. */
VT_MUST_USE vt_status vt_bpe_open(vt_bpe **out, vt_error *err);
void vt_bpe_close(vt_bpe *bpe); /* NULL is fine */

/* A piece (size bytes of UTF-8, as the vocabulary spells it) and its number, below VT_BPE_TOKENS_MAX. VT_E_BAD_MODEL for a
 * piece or a number that is there already, without naming the file: param is empty, the message a part of a sentence. */
VT_MUST_USE vt_status vt_bpe_add(vt_bpe *bpe, const char *piece, size_t size, int32_t id, vt_error *err);
int32_t vt_bpe_find(const vt_bpe *bpe, const char *piece,
                    size_t size);       /* -1: there is none; only before vt_bpe_finish */
size_t vt_bpe_count(const vt_bpe *bpe); /* the highest number and one */

/* The next pair that is put together, of two pieces that are there and whose union is. Of a pair that is given twice the
 * later place counts, as in the libraries. VT_E_BAD_MODEL in the same form. */
VT_MUST_USE vt_status vt_bpe_merge(vt_bpe *bpe, const char *a, size_t a_size, const char *b, size_t b_size,
                                   vt_error *err);

/* Ends the building: the marks around a text, and a letter for every byte, inside and at the end of a word, must be there.
 * final_sigma: capital sigma at the end of a word becomes the final one, as Python has it. */
VT_MUST_USE vt_status vt_bpe_finish(vt_bpe *bpe, const char *start, const char *end, bool final_sigma, vt_error *err);

/* The number of the mark behind a text. */
int32_t vt_bpe_end(const vt_bpe *bpe);

/* Encodes a text: start, its pieces, end. Writes the first `room` numbers and gives in *count how many there are, so that
 * nothing is cut in silence. VT_E_INVALID (param "texts") for what is no UTF-8, or holds one of the marks themselves;
 * VT_E_NOMEM. */
VT_MUST_USE vt_status vt_bpe_encode(const vt_bpe *bpe, const char *text, size_t size, int32_t *ids, size_t room,
                                    size_t *count, vt_error *err);

#endif
