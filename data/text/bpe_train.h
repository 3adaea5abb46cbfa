/* Trains byte-level BPE: GPT-2's split, all 256 bytes, then the most frequent pair of pieces again and again; of
 * equally frequent ones the pair with the smaller ids. The result does not depend on the number of threads or on the
 * order of texts. */
#pragma once

#include "base/base.h"

typedef struct {
    int vocabulary;              /* pieces at most: special tokens, 256 bytes, merges */
    int min_frequency;           /* pairs that occur less often do not become pieces; 0 is the same as 1 */
    const char *const *specials; /* ids 0, 1, ...; "<|endoftext|>" among them marks the end of a text */
    int n_specials, n_threads;
} BpeTraining;

typedef struct BpeTrainer BpeTrainer;

/* Begins; *options must stay. */
BpeTrainer *bpe_trainer_open(const BpeTraining *options);
/* Counts the words of a text. Threads 0 .. n_threads - 1 may add at once. Special tokens in a text are text. */
void bpe_trainer_add(BpeTrainer *trainer, int thread, const char *text, size_t size);
/* Trains on the texts that were added and writes a tokenizer.json, which Hugging Face's libraries load; once. Sets
 * *vocabulary to the number of pieces, which is smaller than asked for if no other pair is frequent enough. */
bool bpe_trainer_write(BpeTrainer *trainer, const char *path, int *vocabulary, Error *error);
void bpe_trainer_close(BpeTrainer *trainer);
