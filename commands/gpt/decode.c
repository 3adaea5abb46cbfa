/* train_gpt decode: from audio codes back to sound, to hear what the codes keep.
 *
 *   ./train_gpt decode --codes prepared/codes/spk001_000001.npy --codebook prepared/codebook.npy --output heard.wav
 *
 * Each code is replaced by its entry of the codebook, a log-mel frame. Then a signal is computed whose spectra have the
 * magnitudes of these frames. The codes keep no phases, so some roughness comes from this way back and not from the
 * codes: for comparison, --mel-from decodes the frames of a recording itself. */
#include "commands/gpt/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "commands/gpt/origin.h"
#include "commands/gpt/sound.h"
#include "data/formats/npy.h"
#include "data/gpt/speech_coder.h"

typedef struct {
    const char *codes, *codebook, *mel_from, *output;
    int64_t iterations, seed;
} DecodeOptions;

#define FIELD(name) offsetof(DecodeOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "codes", .type = OPTION_TEXT, .offset = FIELD(codes), .metavar = "PATH",
     .help = "the codes of a clip, an .npy file"},
    {.name = "codebook", .type = OPTION_TEXT, .offset = FIELD(codebook), .metavar = "PATH",
     .help = "codebook.npy (codebook.json lies beside it); default: codebook.npy in the folder above the codes"},
    {.name = "mel-from", .type = OPTION_TEXT, .offset = FIELD(mel_from), .metavar = "PATH",
     .help = "instead of codes: decode the frames of this recording, of its first ten minutes"},
    {.name = "output", .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .metavar = "FILE",
     .required = true,
     .help = "the WAV file, 24 kHz"},
    {.name = "iterations", .type = OPTION_INT, .offset = FIELD(iterations), .default_value = "60", .max = 1e5,
     .metavar = "N",
     .help = "iterations of the Griffin-Lim algorithm"},
    {.name = "seed", .type = OPTION_INT, .offset = FIELD(seed), .default_value = "1", .max = 9e15, .metavar = "N",
     .help = "seed of the initial phases"},
};
// clang-format on

/* Returns codes[*n] of an npy file; free(). */
static int32_t *read_codes(const char *path, int64_t *n) {
    OWNED char *bytes = NULL;
    size_t size;
    Npy npy;
    MUST_OR(read_file(path, &bytes, &size, &error) && npy_parse(bytes, size, &npy, &error), "%s: %s", path, error.text);
    if (npy.rank != 1 || npy.count < 1) die("%s: expected codes, a row of at least one integer", path);
    int32_t *codes = xmalloc((size_t)npy.count * sizeof *codes);
    MUST_OR(npy_to_i32(&npy, codes, &error), "%s: %s", path, error.text);
    *n = npy.count;
    return codes;
}

/* Returns --codebook, or codebook.npy in the folder above the codes; free(). Keeps both of its files from being
 * replaced by the output. Dies if the folder holds codes of no codebook. */
static char *codebook_path(const DecodeOptions *o) {
    OWNED char *folder = path_directory(o->codes), *above = path_join(folder, "..");
    if (gpt_folder_is_indextts2(above)) die("--codes %s: %s", o->codes, gpt_codes_decoder(GPT_INDEXTTS2_CODES));
    char *path = o->codebook ? xstrdup(o->codebook) : path_join(folder, "../codebook.npy");
    OWNED char *facts = speech_coder_facts_path(path);
    file_keep(path, "the codebook");
    file_keep(facts, "the codebook");
    return path;
}

/* Returns frames[*n, MEL_BANDS], the entries of the codes; free(). */
static float *frames_of_codes(const DecodeOptions *o, const char *path, int64_t *n) {
    SpeechCoder coder;
    Error error;
    if (!speech_coder_read(path, &coder, &error)) die("%s", error.text);
    OWNED int32_t *codes = read_codes(o->codes, n);
    float *frames = gpt_frames_of_codes(&coder.codebook, path, codes, *n, &error);
    if (!frames) die("%s: %s", o->codes, error.text);
    speech_coder_close(&coder);
    return frames;
}

int gpt_decode(int argc, char **argv) {
    static const OptionsHeader header = {"train_gpt decode", "--codes x.npy --codebook codebook.npy -o x.wav",
                                         "--codes prepared/codes/x.npy --codebook prepared/codebook.npy -o x.wav",
                                         "Makes sound from audio codes."};
    DecodeOptions o = {0};
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    if (!o.codes == !o.mel_from) die_usage("give either --codes or --mel-from");
    OWNED char *codebook = o.codes ? codebook_path(&o) : NULL;
    gpt_sound_check(o.output);

    Mel *mel = mel_open();
    int64_t n;
    OWNED float *frames = o.codes ? frames_of_codes(&o, codebook, &n) : gpt_frames_of_recording(mel, o.mel_from, &n);
    gpt_sound_write(mel, frames, n, o.codes ? "codes" : "frames", (GriffinLim){(int)o.iterations, (uint64_t)o.seed},
                    o.output);
    mel_close(mel);
    options_free(&set, argc, argv);
    return 0;
}
