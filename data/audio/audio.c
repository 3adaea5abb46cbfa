#include "data/audio/audio.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <samplerate.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/audio/conversion.h"
#include "data/audio/sound_file.h"

enum { CHUNK_FRAMES = 4096 };

static const double CLIPPED_LEVEL = 0.99;
static const double MAX_LEVEL = 1e6; /* times full scale; larger samples are not sound, and their power overflows */

/* Reads up to `max_frames` frames; free() *mono. */
static bool read_mono(SNDFILE *file, const SF_INFO *info, int64_t max_frames, Audio *audio, float **mono,
                      Error *error) {
    int channels = info->channels;
    float *chunk = xmalloc((size_t)CHUNK_FRAMES * (size_t)channels * sizeof *chunk);
    int64_t capacity = 0, clipped = 0;
    sf_count_t got;
    double loudest = 0; /* infinite: some are not numbers */
    *mono = NULL;
    audio->count = 0;
    while (audio->count < max_frames && (got = sf_readf_float(file, chunk, CHUNK_FRAMES)) > 0) {
        if (got > max_frames - audio->count) got = max_frames - audio->count;
        if (audio->count + got > capacity)
            *mono = xrealloc(*mono, (size_t)(capacity = 2 * capacity + CHUNK_FRAMES) * sizeof **mono);
        for (int64_t i = 0; i < got; i++) {
            double sum = 0;
            for (int c = 0; c < channels; c++) {
                double x = (double)chunk[i * channels + c];
                clipped += fabs(x) > CLIPPED_LEVEL;
                loudest = isfinite(x) ? fmax(loudest, fabs(x)) : INFINITY;
                sum += x;
            }
            (*mono)[audio->count++] = (float)(sum / channels);
        }
    }
    free(chunk);
    if (sf_error(file)) return error_set(error, "cannot be read: %s", sf_strerror(file));
    if (!audio->count) return error_set(error, "has no samples");
    if (isinf(loudest)) return error_set(error, "has samples that are not numbers (NaN or infinite)");
    if (loudest > MAX_LEVEL)
        return error_set(error, "has samples of %.3g, where full scale is 1: it is damaged, or not sound", loudest);
    audio->clipped = (double)clipped / ((double)audio->count * channels);
    return true;
}

/* Turns mono[count] at source_rate into samples[count'] at rate; takes over mono. */
static bool resample(Audio *audio, float *mono, Error *error) {
    audio->samples = mono;
    if (audio->source_rate == audio->rate) return true;
    double ratio = (double)audio->rate / audio->source_rate;
    int64_t expected = llround((double)audio->count * ratio);
    float *out = xcalloc((size_t)expected + 1, sizeof *out);
    SRC_DATA job = {.data_in = mono,
                    .data_out = out,
                    .input_frames = (long)audio->count,
                    .output_frames = (long)expected,
                    .src_ratio = ratio};
    int failure = src_simple(&job, SRC_SINC_MEDIUM_QUALITY, 1);
    free(mono);
    audio->samples = out;
    audio->count = expected; /* the last one or two samples may stay zero: the converter does not reach them */
    if (failure) return error_set(error, "cannot resample from %d Hz: %s", audio->source_rate, src_strerror(failure));
    return expected > 0 || error_set(error, "has no samples");
}

static bool is_silent(const Audio *audio) {
    for (int64_t i = 0; i < audio->count; i++)
        if (audio->samples[i] != 0) return false;
    return true;
}

/* Held by all that open a file, and exclusively where a reason is wanted: libsndfile has one for the whole process. */
static pthread_rwlock_t opening = PTHREAD_RWLOCK_INITIALIZER;

/* The library owns a copy of the descriptor: if it cannot open the file, some versions close the descriptor. */
static SNDFILE *open_copy(int fd, SF_INFO *info) {
    lseek(fd, 0, SEEK_SET);
    return sf_open_fd(fcntl(fd, F_DUPFD_CLOEXEC, 0), SFM_READ, info, SF_TRUE);
}

static SNDFILE *open_sound(int fd, SF_INFO *info) {
    pthread_rwlock_rdlock(&opening);
    SNDFILE *file = open_copy(fd, info);
    pthread_rwlock_unlock(&opening);
    return file;
}

/* Opens the file again, while no other is opened, to learn why it cannot be opened. */
static void find_reason(int fd, Error *reason) {
    SF_INFO info = {0};
    pthread_rwlock_wrlock(&opening);
    SNDFILE *file = open_copy(fd, &info);
    error_set(reason, "%s", sf_strerror(file));
    pthread_rwlock_unlock(&opening);
    if (file) sf_close(file);
}

/* Says why libsndfile did not open the file. Returns false. */
static bool refuse_and_close(int fd, size_t size, Audio *audio, Error *error) {
    bool damaged;
    Error reason;
    const char *kind = conversion_kind(fd, &damaged);
    if (size) find_reason(fd, &reason);
    close(fd);
    audio->convertible = kind && !damaged;
    if (!size) return error_set(error, "is empty");
    if (!kind) return error_set(error, "is not a sound file that can be read: %s", reason.text);
    if (damaged) return error_set(error, "is damaged %s: %s", kind, reason.text);
    return error_set(error, "is %s, which libsndfile does not read (%s)", kind, reason.text);
}

/* Moves to the frame at `start` seconds. What cannot be sought in is read up to there. */
static bool skip_to(SNDFILE *file, const SF_INFO *info, double start, Error *error) {
    const int64_t first = llround(start * info->samplerate);
    float *chunk = xmalloc((size_t)CHUNK_FRAMES * (size_t)info->channels * sizeof *chunk);
    sf_count_t at = info->seekable && (first < info->frames || !first) ? sf_seek(file, first, SEEK_SET) : 0, got = 1;
    for (at = at < 0 ? 0 : at; at < first && got > 0; at += got)
        got = sf_readf_float(file, chunk, first - at < CHUNK_FRAMES ? first - at : CHUNK_FRAMES);
    free(chunk);
    return got > 0 || error_set(error, "has only %.2f s, but the recording begins at %.2f s",
                                (double)at / info->samplerate, start);
}

bool audio_read(const char *path, int rate, double max_seconds, Audio *audio, Error *error) {
    return audio_read_part(path, rate, 0, max_seconds, audio, error);
}

bool audio_read_part(const char *path, int rate, double start, double max_seconds, Audio *audio, Error *error) {
    SF_INFO info = {0};
    float *mono = NULL;
    size_t size;
    *audio = (Audio){.rate = rate};
    int fd = file_open(path, &size, error);
    if (fd < 0) return false;
    SNDFILE *file = size ? open_sound(fd, &info) : NULL;
    if (!file) return refuse_and_close(fd, size, audio, error);
    audio->source_rate = info.samplerate;
    audio->source_channels = info.channels;
    bool ok = (info.samplerate > 0 && info.channels > 0 && src_is_valid_ratio((double)rate / info.samplerate)) ||
              error_set(error, "has %d channels at %d Hz, which cannot be resampled to %d Hz", info.channels,
                        info.samplerate, rate);
    ok = ok && sound_file_is_whole(fd, &info, error);
    int64_t max_frames = ok ? (int64_t)ceil(max_seconds * info.samplerate) : 0;
    ok = ok && (start <= 0 || skip_to(file, &info, start, error));
    ok = ok && read_mono(file, &info, max_frames, audio, &mono, error);
    sf_close(file);
    if (ok && start <= 0 && audio->count < max_frames && audio->count < info.frames &&
        sound_file_says_frames(fd, &info))
        ok = error_set(error, "is cut off: %lld of %lld samples are there", (long long)audio->count,
                       (long long)info.frames);
    close(fd);
    if (!ok) free(mono);
    ok = ok && resample(audio, mono, error);
    if (ok && is_silent(audio)) ok = error_set(error, "is silent: every sample is zero");
    if (!ok) audio_close(audio);
    return ok;
}

void audio_close(Audio *audio) {
    free(audio->samples);
    audio->samples = NULL;
}

/* A file in memory for libsndfile, which seeks back to write the lengths into the header. */
typedef struct {
    char *bytes;
    sf_count_t size, at, capacity;
} Memory;

static sf_count_t memory_size(void *context) { return ((Memory *)context)->size; }

static sf_count_t memory_tell(void *context) { return ((Memory *)context)->at; }

static sf_count_t memory_seek(sf_count_t offset, int whence, void *context) {
    Memory *m = context;
    sf_count_t to = offset + (whence == SEEK_CUR ? m->at : whence == SEEK_END ? m->size : 0);
    return to < 0 || to > m->size ? -1 : (m->at = to);
}

static sf_count_t memory_read(void *bytes, sf_count_t n, void *context) {
    Memory *m = context;
    if (n > m->size - m->at) n = m->size - m->at;
    memcpy(bytes, m->bytes + m->at, (size_t)n);
    m->at += n;
    return n;
}

static sf_count_t memory_write(const void *bytes, sf_count_t n, void *context) {
    Memory *m = context;
    if (m->at + n > m->capacity) m->bytes = xrealloc(m->bytes, (size_t)(m->capacity = 2 * (m->at + n)));
    memcpy(m->bytes + m->at, bytes, (size_t)n);
    m->at += n;
    if (m->at > m->size) m->size = m->at;
    return n;
}

bool audio_write(const char *path, const float *samples, int64_t count, int rate, Error *error) {
    SF_VIRTUAL_IO in_memory = {memory_size, memory_seek, memory_read, memory_write, memory_tell};
    SF_INFO info = {.samplerate = rate, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    Memory memory = {.capacity = 1024};
    memory.bytes = xmalloc((size_t)memory.capacity);
    SNDFILE *file = sf_open_virtual(&in_memory, SFM_WRITE, &info, &memory);
    bool ok = file || error_set(error, "%s: %s", path, sf_strerror(NULL));
    if (file) {
        sf_command(file, SFC_SET_CLIPPING, NULL, SF_TRUE);
        sf_count_t written = sf_writef_float(file, samples, count);
        if (sf_close(file) || written != count)
            ok = error_set(error, "%s: only %lld of %lld samples fit into a WAV file", path, (long long)written,
                           (long long)count);
    }
    ok = ok && file_write_atomic(path, memory.bytes, (size_t)memory.size, error);
    free(memory.bytes);
    return ok;
}
