/* Why CUDA does not start, and what to do; kernels/cuda_absent.c stands in for it. */
#pragma once

#include "kernels/cuda/libraries/library.h"

/* Returns why no GPU can be opened: what was found, what is needed, what to do, in one line. NULL if one can. */
const char *cuda_missing(void);

/* Returns whether a card that could be used (7.0 or newer) is in this machine, with a driver or without, and the user
 * does not hide all with CUDA_VISIBLE_DEVICES. False in a program without CUDA. */
bool cuda_card_is_here(void);

/* Writes the driver's version and file, or why there is none. Does not start the driver. */
void startup_find_driver(char text[LIBRARY_DESCRIPTION]);
