/* The page's files and openapi.yaml as bytes of the program (assets.def). Each has a start and an end; a NUL follows. */
#define VTS_ASSET(symbol, path, file, type) \
    .globl vts_asset_##symbol; .globl vts_asset_##symbol##_end; \
    .balign 16; vts_asset_##symbol: .incbin file; vts_asset_##symbol##_end: .byte 0;

    .section .rodata
#include "server/http/assets.def"

    .globl vts_asset_openapi
    .globl vts_asset_openapi_end
    .balign 16
vts_asset_openapi:
#if __has_include("openapi.yaml")
    .incbin "openapi.yaml"
#endif
vts_asset_openapi_end:
    .byte 0

#ifdef __CET__ /* or the linker takes the whole program for one without control-flow marks */
#include <cet.h>
#endif
    .section .note.GNU-stack,"",%progbits
