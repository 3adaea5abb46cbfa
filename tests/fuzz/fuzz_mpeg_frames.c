/* Counts the frames of any bytes, and of MP3s with changes, one and two behind each other. What is counted must be
 * there: each part begins with a frame that describes it, and its ranges lie in the file in their order. */
#include <fcntl.h>
#include <math.h>
#include <sndfile.h>

#include "data/audio/mpeg_frames.h"
#include "tests/fuzz/fuzz_file.h"

enum { RATE = 8000, SAMPLES = 4000 };

/* Returns an MP3, and the same once more behind it; free(). */
static char *make_joined(size_t *size) {
    SF_INFO info = {.samplerate = RATE, .channels = 1, .format = 0x230082}; /* SF_FORMAT_MPEG_LAYER_III */
    const char *path = fuzz_file("", 0);
    float samples[SAMPLES];
    Error error;
    char *once;
    for (int k = 0; k < SAMPLES; k++) samples[k] = 0.5f * sinf(0.3f * (float)k);
    SNDFILE *file = sf_format_check(&info) ? sf_open(path, SFM_WRITE, &info) : NULL;
    if (file && (sf_writef_float(file, samples, SAMPLES) != SAMPLES || sf_close(file))) abort();
    if (!read_file(path, &once, size, &error)) abort();
    char *twice = malloc(2 * *size + 1);
    memcpy(twice, once, *size);
    memcpy(twice + *size, once, *size);
    free(once);
    *size *= 2;
    return twice;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *good;
    static size_t good_size;
    size_t n;
    MpegCount count;
    SoundParts parts;
    if (!good) good = make_joined(&good_size);
    char *bytes = fuzz_chosen(good, good_size, data, size, &n);
    int fd = open(fuzz_file(bytes, n), O_RDONLY);
    bool found = mpeg_frames_count(fd, 0, (int64_t)n, 1 << 20, &count, &parts);
    if (found != (parts.count > 0) || (found && (count.samples < count.frame || count.joined != (parts.count > 1))))
        abort();
    int64_t end = 0;
    for (int64_t i = 0; i < parts.count; i++) {
        const SoundView *view = &parts.views[i];
        int64_t in_view = 0;
        for (int64_t k = 0; k < view->count; k++) {
            const SoundPiece *piece = &view->pieces[k];
            if (piece->start != in_view || piece->size <= 0) abort();
            in_view += piece->size;
            if (piece->bytes) continue;
            if (piece->from < end || piece->from + piece->size > (int64_t)n) abort();
            end = piece->from + piece->size;
        }
        if (in_view != view->size) abort();
    }
    sound_parts_close(&parts);
    close(fd);
    free(bytes);
    return 0;
}
