/* Turns log-mel frames into the inputs of a model: the codebook, and the fixed map to conditioning and emotion vectors.
 *
 * On disk, codebook.npy [entries, bands] holds the entries as log-mel frames, which is all that decoding needs.
 * codebook.json beside it holds how frames are computed, their statistics, and the seed of the map. A voice that a
 * model imitates later must be mapped with the same two files.
 *
 * The map. z is (frame - mean) / deviation, band by band, of all training frames.
 *   conditioning row i   0.1 P p_i / sqrt(80), i = 0..31: p_i is the mean of z over the i-th of 32 equal parts of the
 *                        clip (of the nearest frame if a part has none)
 *   emotion              0.1 Q s / sqrt(162): s holds the mean of z over the clip and its standard deviation less 1,
 *                        band by band, then mean and standard deviation over time of the mean of z over the bands
 * P [80, d_model] and Q [162, d_model] are standard normal, drawn with Philox from the seed. Such projections preserve
 * angles and relative lengths (Johnson and Lindenstrauss), so no information of the 80 bands is lost. The elements are
 * near 0.1: a few times the N(0, 0.02) of the token embeddings, so that the prompt stands out from the start, yet small
 * enough for the first blocks, whose outputs are of the same order, to reshape it. */
#pragma once

#include "data/audio/mel.h"
#include "data/kmeans.h"

enum { CONDITIONING_ROWS = 32, VOICE_STATISTICS = 2 * MEL_BANDS + 2 };

typedef struct {
    Codebook codebook;
    float mean[MEL_BANDS], deviation[MEL_BANDS]; /* of the training frames */
    uint64_t seed;                               /* of P and Q */
    int64_t frames;                              /* trained on */
    double squared_error;                        /* of a training frame, all bands together */
    int iterations;
} SpeechCoder;

/* Computes the mean and the standard deviation of frames[n, MEL_BANDS], band by band. */
void speech_coder_statistics(const float *frames, int64_t n, float mean[MEL_BANDS], float deviation[MEL_BANDS]);

/* Returns the path of the .json beside the .npy of a codebook; free(). */
char *speech_coder_facts_path(const char *path);
/* Read and write both files; `path` is that of the .npy. Errors name the file. */
bool speech_coder_read(const char *path, SpeechCoder *coder, Error *error);
bool speech_coder_write(const char *path, const SpeechCoder *coder, Error *error);
void speech_coder_close(SpeechCoder *coder);

typedef struct {
    const SpeechCoder *coder;
    int64_t d_model;
    float *conditioning; /* P [MEL_BANDS, d_model], scaled */
    float *voice;        /* Q [VOICE_STATISTICS, d_model], scaled */
} PromptMap;

PromptMap prompt_map_open(const SpeechCoder *coder, int64_t d_model);
void prompt_map_close(PromptMap *map);
/* Computes condition[CONDITIONING_ROWS, d_model] and emotion[d_model] from frames[n, MEL_BANDS] of a clip, n >= 1. */
void prompt_map_apply(const PromptMap *map, const float *frames, int64_t n, float *condition, float *emotion);
