/* models/default/, byte for byte. Paths are from the project's root, where make runs. Nothing here is code, so the same
 * lines serve every machine; the closing section says that no executable stack is needed. */
        .section .rodata, "a"

        .balign 64
        .global vt_builtin_weights
vt_builtin_weights:
        .incbin "models/default/model.safetensors"
.Lend_weights:
        .byte 0

        .balign 8
        .global vt_builtin_config
vt_builtin_config:
        .incbin "models/default/config.json"
.Lend_config:
        .byte 0

        .balign 8
        .global vt_builtin_labels
vt_builtin_labels:
        .incbin "models/default/labels.txt"
.Lend_labels:
        .byte 0

        .balign 8
        .global vt_builtin_weights_size
        .global vt_builtin_config_size
        .global vt_builtin_labels_size
vt_builtin_weights_size:
        .quad .Lend_weights - vt_builtin_weights
vt_builtin_config_size:
        .quad .Lend_config - vt_builtin_config
vt_builtin_labels_size:
        .quad .Lend_labels - vt_builtin_labels

#ifdef __CET__ /* or the linker takes the whole program for one without control-flow marks */
#include <cet.h>
#endif
        .section .note.GNU-stack, "", %progbits
