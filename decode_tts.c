/* decode_tts: from audio codes back to sound, to hear what the codes keep.
 *
 *   ./decode_tts --codes prepared/codes/spk001_000001.npy --codebook prepared/codebook.npy --output heard.wav
 *
 * Each code is replaced by its entry of the codebook, a log-mel frame; from the frames a signal is found whose spectra
 * have their magnitudes. No phase is kept anywhere, so some roughness comes from this way back, not from the codes:
 * --mel-from does it to the frames of a recording itself, for comparison. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/program.h"
#include "data/audio.h"
#include "data/npy.h"
#include "data/speech_coder.h"
#include "train/options.h"

typedef struct {
    const char *codes, *codebook, *mel_from, *output, *config;
    int64_t iterations, seed;
} DecodeOptions;

enum { LONGEST_SECONDS = 600 };

static int option_rows(DecodeOptions *o, Option *rows) {
#define ROW(name, letter, type, value, preset, least, most, argument, help, required)                                  \
    { name, letter, NULL, type, value, preset, least, most, argument, help, required, false }
    const Option table[] = {
        ROW("codes", 0, OPTION_TEXT, &o->codes, NULL, 0, 0, "PATH", "the codes of a clip, an .npy file", false),
        ROW("codebook", 0, OPTION_TEXT, &o->codebook, NULL, 0, 0, "PATH",
            "codebook.npy (codebook.json lies beside it); without it, the one in the folder above the codes", false),
        ROW("mel-from", 0, OPTION_TEXT, &o->mel_from, NULL, 0, 0, "PATH",
            "instead of codes: a recording, whose frames (of its first ten minutes) are used as they are", false),
        ROW("output", 'o', OPTION_TEXT, &o->output, NULL, 0, 0, "FILE", "the WAV file, 24 kHz", true),
        ROW("iterations", 0, OPTION_INT, &o->iterations, "60", 0, 1e5, "N", "of Griffin and Lim", false),
        ROW("seed", 0, OPTION_INT, &o->seed, "1", 0, 9e15, "N", "of the phases that it starts from", false),
        ROW("config", 0, OPTION_TEXT, &o->config, NULL, 0, 0, "PATH",
            "YAML file with any of these options; the command line wins", false)};
#undef ROW
    memcpy(rows, table, sizeof table);
    return sizeof table / sizeof *table;
}

/* codes[*n] of an npy file. free() */
static int32_t *read_codes(const char *path, int64_t *n) {
    char *bytes;
    size_t size;
    Npy npy;
    Error error;
    if (!read_file(path, &bytes, &size, &error) || !npy_parse(bytes, size, &npy, &error))
        die("%s: %s", path, error.text);
    if (npy.rank != 1 || npy.count < 1) die("%s: codes are a row of integers, and there is at least one", path);
    int32_t *codes = xmalloc((size_t)npy.count * sizeof *codes);
    if (!npy_to_i32(&npy, codes, &error)) die("%s: %s", path, error.text);
    *n = npy.count;
    free(bytes);
    return codes;
}

/* --codebook, or CODES/../codebook.npy; with the facts beside it, it is not replaced. free() */
static char *codebook_path(const DecodeOptions *o) {
    char *folder = path_directory(o->codes);
    char *path = o->codebook ? xstrdup(o->codebook) : path_join(folder, "../codebook.npy");
    char *facts = speech_coder_facts_path(path);
    file_keep(path, "the codebook");
    file_keep(facts, "the codebook");
    free(facts);
    free(folder);
    return path;
}

/* frames[*n, MEL_BANDS] that the codes stand for. free() */
static float *frames_of_codes(const DecodeOptions *o, const char *path, int64_t *n) {
    SpeechCoder coder;
    Error error;
    if (!speech_coder_read(path, &coder, &error)) die("%s", error.text);
    int32_t *codes = read_codes(o->codes, n);
    float *frames = xmalloc((size_t)*n * MEL_BANDS * sizeof *frames);
    for (int64_t t = 0; t < *n; t++) {
        if (codes[t] < 0 || codes[t] >= coder.codebook.entries)
            die("%s: code %lld is %d, but %s has %lld entries", o->codes, (long long)t, codes[t], path,
                (long long)coder.codebook.entries);
        memcpy(frames + t * MEL_BANDS, coder.codebook.centroids + codes[t] * MEL_BANDS, MEL_BANDS * sizeof *frames);
    }
    speech_coder_close(&coder);
    free(codes);
    return frames;
}

/* frames[*n, MEL_BANDS] of a recording. free() */
static float *frames_of_recording(const DecodeOptions *o, const Mel *mel, int64_t *n) {
    Audio audio;
    Error error;
    if (!audio_read(o->mel_from, MEL_RATE, LONGEST_SECONDS, &audio, &error)) die("%s: %s", o->mel_from, error.text);
    *n = mel_frame_count(audio.count);
    if (!*n) die("%s: has only %lld samples, less than one frame of 20 ms", o->mel_from, (long long)audio.count);
    float *frames = xmalloc((size_t)*n * MEL_BANDS * sizeof *frames);
    mel_analyse(mel, audio.samples, audio.count, frames);
    audio_close(&audio);
    return frames;
}

int main(int argc, char **argv) {
    static const OptionsHeader header = {"decode_tts", "./decode_tts --codes x.npy --codebook codebook.npy -o x.wav",
                                         "Makes sound from audio codes."};
    DecodeOptions o = {0};
    Option rows[OPTIONS_MOST];
    program_start();
    options_parse(&header, rows, option_rows(&o, rows), argc, argv);
    if (!o.codes == !o.mel_from) die_usage("give either --codes or --mel-from");
    char *codebook = o.codes ? codebook_path(&o) : NULL;
    Error error;
    if (!file_is_replaceable(o.output, &error)) die_usage("--output: %s", error.text);

    Mel *mel = mel_open();
    int64_t n;
    float *frames = o.codes ? frames_of_codes(&o, codebook, &n) : frames_of_recording(&o, mel, &n);
    float *samples = xmalloc((size_t)(n * MEL_HOP) * sizeof *samples), peak = 0;
    mel_invert(mel, frames, n, (int)o.iterations, (uint64_t)o.seed, samples);
    for (int64_t i = 0; i < n * MEL_HOP; i++) peak = fmaxf(peak, fabsf(samples[i]));
    for (int64_t i = 0; i < n * MEL_HOP && peak > 1; i++) samples[i] /= peak;
    file_remove_stale(o.output);
    if (!audio_write(o.output, samples, n * MEL_HOP, MEL_RATE, &error)) die("%s", error.text);
    printf("%s: %.2f s of sound from %lld %s\n", o.output, (double)n * MEL_HOP / MEL_RATE, (long long)n,
           o.codes ? "codes" : "frames");
    free(samples);
    free(frames);
    free(codebook);
    mel_close(mel);
    return 0;
}
