/* Checks that oneDNN has enough memory to compile; every caller of oneDNN needs it. */
#pragma once

#include "base/limits.h"

/* Bytes; more than oneDNN ever compiles at once. */
static const size_t ONEDNN_CODE = (size_t)32 << 20;

/* Dies if a limit leaves too little memory for oneDNN to compile: oneDNN does not check whether its allocation failed.
 */
static inline void check_room_for_code(void) { limits_require(ONEDNN_CODE, "oneDNN's code"); }
