/* The TTS data set: JSONL manifests (single utterances, or prompt/target pairs: data/manifest.c) and the npy files they
 * name. */
#ifndef DATA_TTS_DATASET_H
#define DATA_TTS_DATASET_H

#include "data/dataset.h"

/* What the model fixes and the data must obey. */
typedef struct {
    int d_model;
    int n_conditioning;      /* 32 latents a prompt */
    int max_text, max_codes; /* 600, 1816: longest text_len and code_len (position tables less start and stop) */
    int text_vocabulary;     /* V: valid text ids are 0 .. V-1 */
    int audio_vocabulary;    /* 8192: valid codes are 0 .. 8191 */
    int start_text, stop_text, start_mel, stop_mel;
} TtsLayout;

typedef enum { SPLIT_ALL, SPLIT_TRAIN, SPLIT_VALIDATION } Split;

typedef struct {
    TtsLayout layout;
    Split split; /* by the hash rule on the (target) id: sha1(id) mod 10^6 / 10^6 < ratio is validation */
    double val_ratio;
    int n_threads;     /* for the check of every line */
    int unknown_id;    /* of the tokenizer, for the count of unknown tokens */
    bool lengths_only; /* no file that a line names is read: lengths are the manifest's, and batches have no contents */
    bool repair_codes; /* truncate codes that padding made longer than the audio, instead of only counting them */
} TtsDatasetOptions;

/* What the check of the manifests found; printed by the caller, one line. */
typedef struct {
    int64_t lines, samples, paired, single;
    int64_t padded_codes;    /* |code_len - expected(duration)| > 3 */
    int64_t equal_code_runs; /* runs of >= 4 neighbouring targets with one code_len: the mark of batch padding */
    int64_t repaired;
    int64_t no_duration; /* lines whose target's duration no line says: their padding cannot be checked */
    int64_t text_tokens, codes;
    int64_t unknown_tokens;                                     /* text ids equal to unknown_id */
    double seconds_of_audio;                                    /* code_len / 50 */
    int64_t text_length_quantiles[5], code_length_quantiles[5]; /* 0, 25, 50, 75, 100 % */
} TtsDatasetReport;

/* Reads and checks every line of this split and every file it names (existence, dtype, shape, lengths, ranges, finite
 * vectors). Dies if any is bad, after "PATH:LINE[:COLUMN]: ..." on stderr for the first ten of them. `specs` are
 * manifest paths with an optional "::lang" hint (also "@lang", "=lang" when what precedes it is an existing file). */
Dataset *tts_dataset_open(const char *const *specs, int n_specs, const TtsDatasetOptions *options,
                          TtsDatasetReport *report);
/* A data set without files and without contents, for the dry device: sample i has these lengths. */
Dataset *tts_dataset_lengths(const TtsLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                             int64_t n_samples);
/* The same for benchmarks: contents are seeded. */
Dataset *tts_dataset_synthetic(const TtsLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                               int64_t n_samples);
/* A synthetic micro-batch that has at least the text rows, the codes' rows and the rows in all of every one that a
 * loader can form of `batch_size` samples, or with a token budget: it pairs the i-th longest text with the i-th longest
 * codes. For planning memory: it has no contents. */
Batch tts_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
/* Counts of each audio code in the targets (stop code included): counts[audio_vocabulary + 2]; for unigram entropy. */
void tts_code_histogram(const Dataset *dataset, int64_t *counts);

#endif
