/* NCCL, loaded at run time: what --version says of it. Groups over it are opened by kernels/nccl.h. */
#pragma once

#include "kernels/cuda/libraries/library.h"

/* Writes the version and the file, or why there is none. */
void nccl_find(char text[LIBRARY_DESCRIPTION]);
