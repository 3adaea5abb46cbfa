/* What everybody who calls oneDNN has to see to. */
#ifndef KERNELS_ONEDNN_H
#define KERNELS_ONEDNN_H

#include "base/limits.h"

/* Bytes for all that oneDNN compiles at once, and more than that. */
static const size_t ONEDNN_CODE = (size_t)32 << 20;

/* Dies if a limit leaves too little memory for oneDNN to compile something: refused memory, it writes all the same. */
static inline void check_room_for_code(void) { limits_require(ONEDNN_CODE, "oneDNN's code"); }

#endif
