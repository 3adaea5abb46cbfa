/* Makes log-mel frames of audio codes and recordings, and WAV files of frames. */
#pragma once

#include "data/audio/mel.h"
#include "data/kmeans.h"

/* Returns frames[n, MEL_BANDS], the entries of the codes in the codebook of this path; free(). NULL with the first code
 * that has no entry. */
float *gpt_frames_of_codes(const Codebook *codebook, const char *path, const int32_t *codes, int64_t n, Error *error);
/* Returns frames[*n, MEL_BANDS] of the first ten minutes of a recording, at least one; free(). Warns if there are more.
 * Dies with the reason if it cannot be read. */
float *gpt_frames_of_recording(const Mel *mel, const char *path, int64_t *n);

/* Dies unless --output names a WAV file that may be written. */
void gpt_sound_check(const char *output);

/* How frames become sound: see mel_invert. */
typedef struct {
    int iterations;
    uint64_t seed;
} GriffinLim;
/* Writes the sound of frames[n, MEL_BANDS] as a WAV file, quieter if it would clip, and says what it is made of,
 * "codes". Makes its folder. */
void gpt_sound_write(const Mel *mel, const float *frames, int64_t n, const char *what, GriffinLim how,
                     const char *output);
