/* The model that is linked in (models/default/): three files as bytes. */
#ifndef VT_MODEL_BUILTIN_H
#define VT_MODEL_BUILTIN_H

#include <stdint.h>

extern const unsigned char vt_builtin_weights[], vt_builtin_config[], vt_builtin_labels[];
extern const uint64_t vt_builtin_weights_size, vt_builtin_config_size, vt_builtin_labels_size;

#endif
