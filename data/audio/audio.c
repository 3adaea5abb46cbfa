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
#include "data/audio/sound_memory.h"

enum { CHUNK_FRAMES = 4096 };
enum { FORMAT_MPEG = 0x230000 }; /* SF_FORMAT_MPEG, which older headers lack */

static const double CLIPPED_LEVEL = 0.99;
static const double MAX_LEVEL = 1e6; /* times full scale; larger samples are not sound, and their power overflows */
/* Louder sound, most of it beyond full scale, is none that is merely clipped. */
static const double INTEGER_LEVEL = 256;
static const double FAINT_LEVEL = 1e-3;     /* of the loudest sample, 32 steps of 16 bits: 60 dB below full scale */
static const double CANCELLED_POWER = 1e-4; /* that the average of the channels keeps of theirs */

/* Sound while it is read. */
typedef struct {
    float *mono; /* [count], the average of the channels */
    int64_t count, capacity;
    double start; /* seconds of the file that are passed over */
    int64_t at;   /* frames of the file that were passed over or read, of all sounds that are joined in it */
    int64_t samples, sounding, clipped; /* of all channels; not zero; beyond CLIPPED_LEVEL */
    double loudest;                     /* infinite: some are not numbers */
    double power, mono_power;           /* sums over the frames, of the mean power of the channels and of mono */
} Reading;

/* Passes over frames up to number `first` of the file. What cannot be sought in is read, and MPEG audio, too: its
 * frames need bits of those before. */
static void pass_over(SNDFILE *file, bool is_mpeg, int64_t first, float *chunk, Reading *r) {
    sf_count_t got = r->at < first && !is_mpeg ? sf_seek(file, first - r->at, SEEK_SET) : 0;
    if (got > 0) r->at += got;
    while (r->at < first) {
        sf_count_t wanted = first - r->at < CHUNK_FRAMES ? first - r->at : CHUNK_FRAMES;
        if ((got = sf_readf_float(file, chunk, wanted)) <= 0) break;
        r->at += got;
    }
}

/* Appends up to max_frames - at frames, but those before r->start. */
static bool read_mono(SNDFILE *file, const SF_INFO *info, int64_t max_frames, Reading *r, Error *error) {
    const int channels = info->channels;
    const int64_t first = llround(r->start * info->samplerate);
    OWNED float *chunk = xmalloc((size_t)CHUNK_FRAMES * (size_t)channels * sizeof *chunk);
    sf_count_t got;
    pass_over(file, (info->format & SF_FORMAT_TYPEMASK) == FORMAT_MPEG, first, chunk, r);
    while (r->at < max_frames && (got = sf_readf_float(file, chunk, CHUNK_FRAMES)) > 0) {
        if (got > max_frames - r->at) got = max_frames - r->at;
        if (r->count + got > r->capacity)
            r->mono = xrealloc(r->mono, (size_t)(r->capacity = 2 * r->capacity + CHUNK_FRAMES) * sizeof *r->mono);
        for (int64_t i = 0; i < got; i++) {
            double sum = 0, squares = 0;
            for (int c = 0; c < channels; c++) {
                double x = (double)chunk[i * channels + c];
                r->clipped += fabs(x) > CLIPPED_LEVEL;
                r->sounding += x != 0;
                r->loudest = isfinite(x) ? fmax(r->loudest, fabs(x)) : INFINITY;
                sum += x;
                squares += x * x;
            }
            r->mono[r->count++] = (float)(sum / channels);
            r->power += squares / channels;
            r->mono_power += sum / channels * (sum / channels);
        }
        r->samples += got * channels;
        r->at += got;
    }
    return !sf_error(file) || error_set(error, "cannot be read: %s", sf_strerror(file));
}

/* Checks the samples that were read, and takes their measures. */
static bool finish_reading(const Reading *r, Audio *audio, Error *error) {
    if (!r->count) return error_set(error, "has no samples");
    if (isinf(r->loudest)) return error_set(error, "has samples that are not numbers (NaN or infinite)");
    if (r->loudest >= INTEGER_LEVEL && r->loudest <= 0x1p31 && 2 * r->clipped > r->sounding) {
        int bits = r->loudest <= 0x1p15 ? 16 : r->loudest <= 0x1p23 ? 24 : 32;
        return error_set(error,
                         "has samples of %.6g, where full scale is 1: floats in the range of %d-bit integers, which no "
                         "program has divided by 2^%d: ffmpeg -i FILE -af volume=1/%.0f NEW.wav does",
                         r->loudest, bits, bits - 1, ldexp(1, bits - 1));
    }
    if (r->loudest > MAX_LEVEL)
        return error_set(error, "has samples of %.3g, where full scale is 1: it is damaged, or not sound", r->loudest);
    if (r->power > 0 && r->mono_power < CANCELLED_POWER * r->power)
        return error_set(error,
                         "has channels that cancel each other, so that nothing is left of their average: take one of "
                         "them with ffmpeg -i FILE -af 'pan=mono|c0=c0' NEW.wav");
    audio->count = r->count;
    audio->clipped = (double)r->clipped / (double)r->samples;
    audio->facts.loudest = r->loudest;
    return true;
}

int64_t audio_count_at(const Audio *audio, int rate) {
    return llround((double)audio->count * ((double)rate / audio->rate));
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

/* Opens the file, or a view of it if there is one. */
static SNDFILE *open_sound(int fd, SoundView *view, SF_INFO *info) {
    pthread_rwlock_rdlock(&opening);
    SNDFILE *file = view ? sound_view_open(view, fd, info) : open_copy(fd, info);
    pthread_rwlock_unlock(&opening);
    return file;
}

/* Opens it again, while no other is opened, to learn why it cannot be opened. */
static void find_reason(int fd, SoundView *view, Error *reason) {
    SF_INFO info = {0};
    pthread_rwlock_wrlock(&opening);
    SNDFILE *file = view ? sound_view_open(view, fd, &info) : open_copy(fd, &info);
    error_set(reason, "%s", sf_strerror(file));
    pthread_rwlock_unlock(&opening);
    if (file) sf_close(file);
}

/* Says why libsndfile did not open the file, or a view of it. Returns false. */
static bool refuse(int fd, SoundView *view, Audio *audio, Error *error) {
    bool damaged;
    Error reason;
    const char *kind = conversion_kind(fd, &damaged);
    audio->convertible = kind && !damaged;
    if (!kind && conversion_none(fd, &reason))
        return error_set(error, "is not a sound file that can be read: it %s", reason.text);
    find_reason(fd, view, &reason);
    if (!kind) return error_set(error, "is not a sound file that can be read: %s", reason.text);
    if (damaged) return error_set(error, "is damaged %s: %s", kind, reason.text);
    return error_set(error, "is %s, which libsndfile does not read (%s)", kind, reason.text);
}

/* Takes rate and channels of a file, or of the first of several sounds, which all must have its rate. */
static bool take_info(const SF_INFO *info, Audio *audio, Error *error) {
    if (!audio->rate) audio->rate = info->samplerate;
    if (info->samplerate <= 0 || info->channels <= 0 || !src_is_valid_ratio((double)audio->rate / info->samplerate))
        return error_set(error, "has %d channels at %d Hz, which cannot be resampled to %d Hz", info->channels,
                         info->samplerate, audio->rate);
    if (audio->source_rate && audio->source_rate != info->samplerate) {
        int container = info->format & SF_FORMAT_TYPEMASK; /* of others ffmpeg reads the first sound alone */
        audio->convertible = container == FORMAT_MPEG || container == SF_FORMAT_OGG;
        return error_set(error, "joins sounds of %d Hz and of %d Hz%s", audio->source_rate, info->samplerate,
                         audio->convertible ? "" : ": resample them before they are joined");
    }
    if (!audio->source_rate) audio->source_channels = info->channels;
    audio->source_rate = info->samplerate;
    return true;
}

static bool check_length(int64_t count, int64_t max_frames, const SF_INFO *info, bool says_frames, Error *error) {
    if (!says_frames || count >= info->frames || count >= max_frames) return true;
    return error_set(error, "is cut off: %lld of %lld samples are there", (long long)count, (long long)info->frames);
}

/* Reads the sounds of a file one after the other. */
static bool read_parts(int fd, SoundParts *parts, const SoundChunks *chunks, double end, Audio *audio, Reading *r,
                       Error *error) {
    bool ok = true;
    int64_t bytes = 0, max_frames = 0;
    for (int64_t i = 0; ok && i < parts->count && (!i || r->at < max_frames); i++) {
        SF_INFO info = {0};
        int64_t before = r->at;
        SNDFILE *file = open_sound(fd, &parts->views[i], &info);
        if (!file) return refuse(fd, &parts->views[i], audio, error);
        ok = take_info(&info, audio, error);
        max_frames = ok ? (int64_t)ceil(end * info.samplerate) : 0;
        ok = ok && read_mono(file, &info, max_frames, r, error) &&
             check_length(r->at - before, max_frames - before, &info, info.frames < INT64_MAX / 2, error);
        sf_close(file);
        bytes += parts->views[i].size;
    }
    if (!ok || !bytes) return ok;
    double seconds = (double)r->at / audio->source_rate * (double)chunks->there / (double)bytes;
    return sound_file_is_whole(fd, &(SF_INFO){0}, chunks, seconds, error);
}

/* Reads a file as libsndfile does, unless that would leave sound out: then sets parts. */
static bool read_whole(int fd, const SoundChunks *chunks, double end, Audio *audio, Reading *r, SoundParts *parts,
                       Error *error) {
    SF_INFO info = {0};
    bool says_frames;
    SNDFILE *file = open_sound(fd, NULL, &info);
    if (!file) return refuse(fd, NULL, audio, error);
    bool ok = take_info(&info, audio, error);
    int64_t max_frames = ok ? (int64_t)ceil(end * info.samplerate) : 0;
    double seconds = ok ? (double)info.frames / info.samplerate : 0;
    if (ok) sound_file_count_frames(fd, &info, chunks, max_frames, &says_frames, parts);
    if (ok && !parts->count) {
        ok = sound_file_is_whole(fd, &info, chunks, seconds, error) && read_mono(file, &info, max_frames, r, error);
        if (ok && r->at < max_frames && !sound_file_split(fd, parts))
            ok = check_length(r->at, max_frames, &info, says_frames, error);
        if ((double)chunks->behind * seconds >= SOUND_MIN_MISSING_SECONDS * (double)chunks->there && !parts->count) {
            audio->facts.declared = chunks->there;
            audio->facts.behind = chunks->behind;
        }
    }
    sf_close(file);
    if (parts->count) {
        free(r->mono);
        *r = (Reading){.start = r->start};
        audio->source_rate = 0;
    }
    return ok;
}

bool audio_read(const char *path, int rate, double max_seconds, Audio *audio, Error *error) {
    return audio_read_part(path, rate, 0, max_seconds, audio, error);
}

bool audio_read_part(const char *path, int rate, double start, double max_seconds, Audio *audio, Error *error) {
    const double end = start + max_seconds;
    size_t size;
    SoundChunks chunks;
    Reading r = {.start = start};
    *audio = (Audio){.rate = rate};
    int fd = file_open(path, &size, error);
    if (fd < 0) return false;
    bool ok = size || error_set(error, "is empty");
    sound_chunks_read(fd, &chunks);
    SoundParts *parts = &chunks.parts;
    if (ok && !parts->count) ok = read_whole(fd, &chunks, end, audio, &r, parts, error);
    if (ok && parts->count) ok = read_parts(fd, parts, &chunks, end, audio, &r, error);
    sound_parts_close(parts);
    close(fd);
    if (ok && start > 0 && !r.count)
        ok = error_set(error, "has only %.2f s, but the recording begins at %.2f s", (double)r.at / audio->source_rate,
                       start);
    ok = ok && finish_reading(&r, audio, error);
    if (!ok) free(r.mono);
    ok = ok && resample(audio, r.mono, error);
    if (ok && is_silent(audio)) ok = error_set(error, "is silent: every sample is zero");
    if (!ok) audio_close(audio);
    return ok;
}

bool audio_seconds(const char *path, double *seconds, Error *error) {
    size_t size;
    SF_INFO info = {0};
    Audio audio = {0};
    int fd = file_open(path, &size, error);
    if (fd < 0) return false;
    SNDFILE *file = size ? open_sound(fd, NULL, &info) : NULL;
    bool ok = size ? file || refuse(fd, NULL, &audio, error) : error_set(error, "is empty");
    if (ok && (info.frames >= INT64_MAX / 2 || info.samplerate <= 0))
        ok = error_set(error, "does not say at its head how long it is");
    if (ok) *seconds = (double)info.frames / info.samplerate;
    if (file) sf_close(file);
    close(fd);
    return ok;
}

bool audio_doubt(const AudioFacts *facts, AudioDoubt doubt, Error *words) {
    if (doubt == AUDIO_FAINT && facts->loudest < FAINT_LEVEL) {
        (void)error_set(words,
                        "is at the noise floor: its loudest sample is %.0f dB below full scale; hear whether it is "
                        "speech, and leave it out or amplify it",
                        -20 * log10(facts->loudest));
        return true;
    }
    if (doubt == AUDIO_UNDECLARED && facts->behind) {
        (void)error_set(
            words,
            "has a header that declares only %lld of %lld bytes, and only those are read; if the others are "
            "sound, ffmpeg -ignore_length 1 -i FILE NEW.wav takes them, too",
            (long long)facts->declared, (long long)(facts->declared + facts->behind));
        return true;
    }
    return false;
}

void audio_close(Audio *audio) {
    free(audio->samples);
    audio->samples = NULL;
}

bool audio_write(const char *path, const float *samples, int64_t count, int rate, Error *error) {
    SF_INFO info = {.samplerate = rate, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    SoundMemory memory = {0};
    bool ok = sound_memory_write(&memory, &info, samples, count, error)
                  ? file_write_atomic(path, memory.bytes, (size_t)memory.size, error)
                  : error_before(error, "%s: ", path);
    free(memory.bytes);
    return ok;
}
