/* Token files of other programs, by their first bytes:
 *
 * - llm.c: a header of 256 int32, of which the first three are magic, version and the number of ids; then the ids.
 *   20240520, version 1: uint16, GPT-2's vocabulary (50257, end of text 50256). 20240801, version 7: uint32, Llama 3's
 *   (128256; documents begin with 128000).
 * - headerless uint16, the train.bin and val.bin of nanoGPT and of helloLondon. The vocabulary is "vocab_size" in
 *   meta.pkl beside the file. */
#ifndef DATA_SLM_FOREIGN_H
#define DATA_SLM_FOREIGN_H

#include "data/slm/shard.h"

/* What the caller knows of files of other programs. It precedes what the files say. */
typedef struct {
    int vocabulary;      /* 0: unknown */
    int32_t end_of_text; /* -1: unknown */
} SlmForeign;

/* Opens a file and checks all of it. foreign: what the caller knows; NULL: nothing. The error names the file. */
bool slm_foreign_open(const char *path, const SlmForeign *foreign, SlmShard *shard, Error *error);

#endif
