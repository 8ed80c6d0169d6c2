/* For clang-tidy only (lint.sh): vt_error_set gives back the status that it was handed. Without this the analyzer
 * thinks that a function which failed may have said VT_OK, and follows null pointers from there. */
#include "vitral/status.h"

#define vt_error_set(err, status, ...) ((void)vt_error_set(err, status, __VA_ARGS__), (status))
