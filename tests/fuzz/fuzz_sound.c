/* Reads any bytes as a sound file, and valid files of each format with changes, one and two behind each other; the
 * first byte chooses. Samples that are read must be finite. */
#include <math.h>
#include <sndfile.h>
#include <string.h>

#include "base/file.h"
#include "data/audio/audio.h"
#include "tests/fuzz/fuzz_file.h"

/* Ignores leaks of the library when it refuses a file. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libvorbis\nleak:libogg\nleak:libsndfile\nleak:libFLAC\n"; }

static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,    SF_FORMAT_WAV | SF_FORMAT_FLOAT,
                              SF_FORMAT_RF64 | SF_FORMAT_PCM_24,   SF_FORMAT_AIFF | SF_FORMAT_PCM_16,
                              SF_FORMAT_FLAC | SF_FORMAT_PCM_16,   SF_FORMAT_OGG | SF_FORMAT_VORBIS,
                              SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, SF_FORMAT_AU | SF_FORMAT_ULAW,
                              SF_FORMAT_WAV | SF_FORMAT_PCM_U8,    0x230082 /* SF_FORMAT_MPEG_LAYER_III */};
enum { FORMATS = sizeof formats / sizeof *formats, RATE = 8000, FRAMES = 800 };

static char *good[FORMATS]; /* twice, behind each other */
static size_t sizes[FORMATS];

static void make(int i) {
    SF_INFO info = {.samplerate = RATE, .channels = 1, .format = formats[i]};
    float samples[FRAMES];
    if (!sf_format_check(&info)) info.format = formats[0]; /* a library without MP3 */
    const char *path = fuzz_file("", 0);
    Error error;
    for (int k = 0; k < FRAMES; k++) samples[k] = 0.5f * sinf(0.3f * (float)k);
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    if (!file || sf_writef_float(file, samples, FRAMES) != FRAMES || sf_close(file)) abort();
    if (!read_file(path, &good[i], &sizes[i], &error)) abort();
    good[i] = realloc(good[i], 2 * sizes[i]);
    memcpy(good[i] + sizes[i], good[i], sizes[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int which = size ? data[0] % (FORMATS + 1) : FORMATS;
    const uint8_t *rest = size ? data + 1 : data;
    size_t n = size ? size - 1 : 0;
    Audio audio;
    Error error = {.text = ""};
    char *changed = NULL;
    if (which < FORMATS) {
        if (!good[which]) make(which);
        changed = fuzz_changed(good[which], (1 + (size_t)(data[0] >> 7)) * sizes[which], rest, n, &n);
    }
    bool ok = audio_read(fuzz_file(changed ? (const void *)changed : rest, n), 24000, 1, &audio, &error);
    if (ok ? audio.count < 1 || audio.count > 24001 || audio.rate != 24000 : !error.text[0] || audio.samples) abort();
    for (int64_t i = 0; ok && i < audio.count; i++)
        if (!isfinite(audio.samples[i])) abort();
    audio_close(&audio);
    free(changed);
    return 0;
}
