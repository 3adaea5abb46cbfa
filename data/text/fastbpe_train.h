/* Learns the files of fastBPE (fastbpe_open.h): the most frequent pair of symbols is merged again and again. Of equally
 * frequent ones it is the pair with the smaller numbers: first come the characters of the words, in the order of their
 * bytes, then what merges make. The result does not depend on the number of threads or on the order of texts. */
#pragma once

#include "base/base.h"

typedef struct {
    int merges;        /* lines of bpe.codes, at most */
    int min_frequency; /* pairs that occur less often are not merged; 0 is the same as 1 */
    int n_threads;
} FastBpeTraining;

typedef struct {
    int merges;       /* lines of bpe.codes: fewer than asked for if no other pair is frequent enough */
    int pieces;       /* lines of vocab.txt */
    int unseen;       /* those that the texts do not have */
    int64_t words;    /* in all texts */
    int64_t distinct; /* different words */
    int64_t tokens;   /* of all words */
} FastBpeLearned;

typedef struct FastBpeTrainer FastBpeTrainer;

/* Begins; *options must stay. */
FastBpeTrainer *fastbpe_trainer_open(const FastBpeTraining *options);
/* Counts the words of a UTF-8 text, which white space separates. Threads 0 .. n_threads - 1 may add at once. */
void fastbpe_trainer_add(FastBpeTrainer *trainer, int thread, const char *text, size_t size);
/* Trains on the texts that were added; once. Texts without a pair to merge are an error. */
bool fastbpe_trainer_learn(FastBpeTrainer *trainer, FastBpeLearned *learned, Error *error);
/* Writes bpe.codes and then vocab.txt into a folder. vocab.txt has the pieces of the texts with their counts, the most
 * frequent first, and behind them, with count 0, the others that merges and characters can become: so no text of these
 * characters has an unknown token. */
bool fastbpe_trainer_write(const FastBpeTrainer *trainer, const char *directory, Error *error);
void fastbpe_trainer_close(FastBpeTrainer *trainer); /* NULL: does nothing */
