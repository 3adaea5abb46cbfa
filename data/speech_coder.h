/* What turns log-mel frames into a model's inputs: the codebook, and the fixed map to conditioning and emotion vectors.
 *
 * On disk, codebook.npy [entries, bands] holds the entries as log-mel frames, which is all that the way back needs, and
 * codebook.json beside it how frames are made, their statistics, and the seed of the map. Voices that a model shall
 * imitate later must go through the same files.
 *
 * The map. z is a frame less the mean of all training frames, over their standard deviation, band by band.
 *   conditioning row i   0.1 P p_i / sqrt(80), i = 0..31: p_i is the mean of z over the i-th of 32 equal parts of the
 *                        clip (the nearest frame where a part holds none)
 *   emotion              0.1 Q s / sqrt(162): s holds the mean of z over the clip and its standard deviation less 1,
 *                        band by band, then mean and standard deviation over time of the mean of z over the bands
 * P [80, d_model] and Q [162, d_model] are standard normal, drawn with Philox from the seed. Projections keep angles
 * and relative lengths (Johnson and Lindenstrauss), so nothing is lost that 80 bands hold. An element comes out near
 * 0.1: a few times the N(0, 0.02) of the token embeddings, so that the prompt stands out from the start, and small
 * enough for the first blocks, whose output is of the same order, to reshape it. */
#ifndef DATA_SPEECH_CODER_H
#define DATA_SPEECH_CODER_H

#include "data/kmeans.h"
#include "data/mel.h"

enum { CONDITIONING_ROWS = 32, VOICE_STATISTICS = 2 * MEL_BANDS + 2 };

typedef struct {
    Codebook codebook;
    float mean[MEL_BANDS], deviation[MEL_BANDS]; /* of the training frames */
    uint64_t seed;                               /* of P and Q */
    int64_t frames;                              /* trained on */
    double squared_error;                        /* of a training frame, all bands together */
    int iterations;
} SpeechCoder;

/* The mean of frames[n, MEL_BANDS] and their standard deviation, band by band. */
void frames_statistics(const float *frames, int64_t n, float mean[MEL_BANDS], float deviation[MEL_BANDS]);

/* The .json beside a codebook's .npy. free() */
char *speech_coder_facts_path(const char *path);
/* Path of the .npy; the .json lies beside it. The reason of a failure names the file. */
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
/* condition[CONDITIONING_ROWS, d_model] and emotion[d_model] of a clip's frames[n, MEL_BANDS], n >= 1. */
void prompt_map_apply(const PromptMap *map, const float *frames, int64_t n, float *condition, float *emotion);

#endif
