#include "commands/gpt/sound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/audio/audio.h"
#include "data/audio/conversion.h"

enum { MAX_SECONDS = 600 };

float *gpt_frames_of_codes(const Codebook *codebook, const char *path, const int32_t *codes, int64_t n, Error *error) {
    for (int64_t t = 0; t < n; t++) {
        if (codes[t] >= 0 && codes[t] < codebook->entries) continue;
        (void)error_set(error, "code %lld is %d, but %s has %lld entries", (long long)t, codes[t], path,
                        (long long)codebook->entries);
        return NULL;
    }
    float *frames = xmalloc((size_t)(n * MEL_BANDS) * sizeof *frames);
    for (int64_t t = 0; t < n; t++)
        memcpy(frames + t * MEL_BANDS, codebook->centroids + codes[t] * MEL_BANDS, MEL_BANDS * sizeof *frames);
    return frames;
}

float *gpt_frames_of_recording(const Mel *mel, const char *path, int64_t *n) {
    Audio audio;
    Error error;
    if (!audio_read(path, MEL_RATE, MAX_SECONDS + 1, &audio, &error))
        die("%s: %s%s%s", path, error.text, audio.convertible ? "; convert it: " : "",
            audio.convertible ? conversion_command(path, MEL_RATE) : "");
    for (int doubt = 0; doubt < AUDIO_DOUBTS; doubt++)
        if (audio_doubt(&audio.facts, (AudioDoubt)doubt, &error)) warn("%s: %s", path, error.text);
    const int64_t most = (int64_t)MAX_SECONDS * MEL_RATE;
    if (audio.count > most) {
        warn("%s: is longer than ten minutes, and only the first ten are taken", path);
        audio.count = most;
    }
    *n = mel_frame_count(audio.count);
    if (!*n) die("%s: has only %lld samples, less than one frame of 20 ms", path, (long long)audio.count);
    float *frames = xmalloc((size_t)*n * MEL_BANDS * sizeof *frames);
    mel_analyse(mel, audio.samples, audio.count, frames);
    audio_close(&audio);
    return frames;
}

void gpt_sound_check(const char *output) {
    Error error;
    if (!file_is_replaceable(output, &error)) die_usage("--output: %s", error.text);
    if (!ends_with(output, ".wav"))
        die_usage("--output %s: expected a name that ends in .wav; other formats are not written", output);
}

void gpt_sound_write(const Mel *mel, const float *frames, int64_t n, const char *what, GriffinLim how,
                     const char *output) {
    float *samples = xmalloc((size_t)(n * MEL_HOP) * sizeof *samples), peak = 0;
    mel_invert(mel, frames, n, how.iterations, how.seed, samples);
    for (int64_t i = 0; i < n * MEL_HOP; i++) peak = fmaxf(peak, fabsf(samples[i]));
    for (int64_t i = 0; i < n * MEL_HOP && peak > 1; i++) samples[i] /= peak;
    OWNED char *directory = path_directory(output);
    make_directories(directory);
    file_remove_stale(output);
    MUST(audio_write(output, samples, n * MEL_HOP, MEL_RATE, &error));
    printf("%s: %.2f s of sound from %lld %s\n", output, (double)n * MEL_HOP / MEL_RATE, (long long)n, what);
    free(samples);
}
