/* The texts that a request gives as classes, checked and encoded. */
#ifndef VT_MODEL_ASKED_TEXTS_H
#define VT_MODEL_ASKED_TEXTS_H

#include "engine/model/labels.h"
#include "engine/text/bpe.h"

enum { VT_TEXTS_MAX = 64 };

typedef struct vt_asked_texts {
    vt_labels labels; /* the texts, without blanks around them */
    int32_t *ids;     /* of one text behind the other */
    size_t starts[VT_TEXTS_MAX + 1];
    char *canonical; /* the texts, joined by | */
} vt_asked_texts;

/* Parts `typed` at each |. context: numbers that the model reads of a text, with those of start and end. VT_E_INVALID
 * (texts) for none, too many, an empty one, one that is too long (nothing is cut), two that are the same to the model;
 * VT_E_NOMEM. The caller frees it. */
VT_MUST_USE vt_status vt_asked_texts_make(vt_asked_texts **out, const vt_bpe *bpe, size_t context, const char *typed,
                                          vt_error *err);
void vt_asked_texts_free(vt_asked_texts *asked); /* NULL is fine */

#endif
