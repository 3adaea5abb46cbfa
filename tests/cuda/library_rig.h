/* The memory of a mock library on the emulated card, and a test of whoever uses the library without enough of it. */
#pragma once

#include "tests/cuda/rig.h"

enum { LIBRARY_HANDLE = 0, LIBRARY_CODE = 1 /* and further: of each algorithm */, LIBRARY_PARTS = 8 };

/* Takes the card's memory for a part of the library that it has no memory for yet: for the handle, or for an
 * algorithm's code when it is first used, outside of a graph that is captured on the stream. Returns false if there is
 * none. */
bool library_takes(int part, cudaStream_t stream);
/* Releases the memory of all parts. */
void library_releases(void);

/* Calls work, which opens the library and compares what it computes with the cpu device, in child processes in which
 * one call after the other runs out of memory. Each must end with status 1 and one last line that says so in `words`,
 * "out of memory" or that the card has none to start with; or reach its end. Requires both to happen.
 * Call it before the cpu device is used, whose threads a child lacks. */
void check_library_shortage(void (*work)(void), const char *words);
