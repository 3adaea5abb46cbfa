/* Token files of other programs, by their first bytes:
 *
 * - llm.c: a header of 256 int32, of which the first three are magic, version and the number of ids; then the ids.
 *   20240520, version 1: uint16, GPT-2's vocabulary (50257, end of text 50256). 20240801, version 7: uint32, Llama 3's
 *   (128256; documents begin with 128000).
 * - numpy's .npy, a row of uint16, uint32 or int32.
 * - headerless ids of 16 bits, the train.bin and val.bin of nanoGPT and of helloLondon, or of 32 bits if the caller
 * says so. Ids of 32 or 64 bits that are taken for 16 are noticed: their upper halves are zeros, or ids are out of
 * range.
 *
 * The vocabulary of both latter is "vocab_size" in meta.pkl beside the file. */
#pragma once

#include "data/slm/shard.h"

/* The facts that the caller knows about files of other programs. They take precedence over what the files say. */
typedef struct {
    int vocabulary;      /* 0: unknown */
    int32_t end_of_text; /* -1: unknown */
    int width;           /* bytes of an id, 2 or 4; 0: unknown, 2 without a header */
} SlmForeign;

/* Opens a file and checks all of it. foreign: what the caller knows; NULL: nothing. The error names the file. */
bool slm_foreign_open(const char *path, const SlmForeign *foreign, SlmShard *shard, Error *error);
