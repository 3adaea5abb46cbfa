/* The samples of manifests (JSONL: single utterances, or prompt/target pairs), with the npy files that the lines name.
 */
#pragma once

#include "data/formats/npy.h"
#include "data/split.h"

/* Sizes of the model that the data must match. */
typedef struct {
    int d_model;
    int n_conditioning;      /* 32 latents per prompt */
    int max_text, max_codes; /* 600, 1816: maximum text_len and code_len (position tables less start and stop) */
    int text_vocabulary;     /* V: valid text ids are 0 .. V-1 */
    int audio_vocabulary;    /* 8192: valid codes are 0 .. 8191 */
    int start_text, stop_text, start_mel, stop_mel;
} GptLayout;

typedef struct {
    GptLayout layout;
    Split split; /* by the hash of the (target) id: see split_includes */
    double val_ratio;
    int n_threads;     /* that check the lines */
    int unknown_id;    /* of the tokenizer, for the count of unknown tokens */
    bool lengths_only; /* read no file that a line names: lengths are those of the manifest, batches have no contents */
    bool repair_codes; /* cut codes that padding made longer than the audio, instead of only counting them */
    bool skip_bad;     /* leave lines out that cannot be used, and count them */
} GptDatasetOptions;

/* The findings of the check of the manifests. */
typedef struct {
    int64_t lines, samples, paired, single;
    int64_t padded_codes;    /* |code_len - expected(duration)| > 3 */
    int64_t equal_code_runs; /* runs of 4 or more neighbouring targets with one code_len: a sign of batch padding */
    int64_t repaired;
    int64_t no_duration; /* lines whose target has no duration: their padding cannot be checked */
    int64_t text_tokens, codes;
    int64_t unknown_tokens;                                     /* text ids equal to unknown_id */
    double seconds_of_audio;                                    /* code_len / 50 */
    int64_t text_length_quantiles[5], code_length_quantiles[5]; /* 0, 25, 50, 75, 100 % */
} GptDatasetReport;

typedef struct {
    char *id, *condition_path, *emo_vec_path; /* NULL: synthetic */
    int32_t *text, *codes;                    /* NULL: lengths only */
    int32_t text_len, code_len;
    uint64_t vectors; /* checksum of conditioning and emotion, as the check has read them; 0: synthetic */
} GptSample;

typedef struct {
    GptSample *items;
    int64_t n;
    size_t largest_file; /* bytes, of conditioning and emotion */
} GptSamples;

/* Reads and checks every line of this split, and every file that the lines name: existence, dtype, shape, lengths,
 * ranges, finite vectors. Keeps text ids and codes, which are small. Ends the program if anything is bad, after
 * "PATH:LINE[:COLUMN]: ..." on stderr for the first ten bad lines. `specs` are paths, optionally with "::LANGUAGE" (see
 * file_split_label). */
GptSamples gpt_samples_read(const char *const *specs, int n_specs, const GptDatasetOptions *options,
                            GptDatasetReport *report);
void gpt_samples_close(GptSamples *samples);

/* Converts an array of [rows, d_model], or [d_model] if rows is 1, into finite floats. Errors say what was found. */
bool gpt_vectors_parse(const Npy *npy, int64_t rows, int64_t d_model, float *out, Error *error);
