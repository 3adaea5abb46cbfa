#include "data/clip.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "data/audio.h"
#include "data/npy.h"

/* Of a file no more is read: the clip is too long for any --max-duration. What a clip is measured to be must not depend
 * on the options, as it is kept for runs with others. */
static const double MOST_SECONDS = 37;

static char *file_of(const ClipWork *work, const char *folder, const Clip *clip) {
    return xformat("%s/%s/%s.npy", work->output, folder, clip->recording->id);
}

static bool write_array(const ClipWork *work, const char *folder, const Clip *clip, const char *dtype, const void *data,
                        int rank, const int64_t *dims, Error *error) {
    char *path = file_of(work, folder, clip);
    bool fine = npy_write(path, dtype, data, rank, dims, error);
    free(path);
    return fine;
}

/* Reads an array that write_array wrote, of the shape [rows] or, with columns > 0, [rows, columns]; integers if it is
 * of `integers`. False: it is gone, damaged (its checksum tells), or another. *out: free(). */
static bool read_array(const ClipWork *work, const char *folder, const Clip *clip, bool integers, int64_t rows,
                       int64_t columns, void **out) {
    char *path = file_of(work, folder, clip), *bytes = NULL;
    size_t size;
    Npy npy;
    bool fine = read_file(path, &bytes, &size, NULL) && npy_parse(bytes, size, &npy, NULL);
    fine = fine && npy.has_checksum && npy.rank == (columns ? 2 : 1) && npy.dims[0] == rows &&
           (!columns || npy.dims[1] == columns);
    *out = fine ? xmalloc((size_t)npy.count * 4) : NULL;
    fine = fine && (integers ? npy_to_i32(&npy, *out, NULL) : npy_to_f32(&npy, *out, NULL));
    if (!fine) {
        free(*out);
        *out = NULL;
    }
    free(bytes);
    free(path);
    return fine;
}

/* Before the files of a finished piece are replaced, it is noted as not done: a kill in between would leave new files
 * under the old note, and a run that goes back to what the note says would take them. */
static bool forget(const ClipWork *work, const char *kind, const Clip *clip, Error *error) {
    const char *id = clip->recording->id;
    return !ledger_find(work->ledger, kind, id) || ledger_add(work->ledger, kind, id, json_object(), error);
}

/* ---- measuring ---- */

/* Share of the hops whose power is 40 dB or more below that of the loudest. */
static double silence_of(const float *samples, int64_t n) {
    int64_t hops = mel_frame_count(n), quiet = 0;
    double loudest = 0, *power = xcalloc((size_t)hops, sizeof *power);
    for (int64_t t = 0; t < hops; t++) {
        for (int64_t i = t * MEL_HOP; i < (t + 1) * MEL_HOP; i++) power[t] += (double)samples[i] * (double)samples[i];
        loudest = fmax(loudest, power[t]);
    }
    for (int64_t t = 0; t < hops; t++) quiet += power[t] <= 1e-4 * loudest;
    free(power);
    return (double)quiet / (double)hops;
}

/* frames[*n_frames, MEL_BANDS] of the file: free(). clip, if given, gets the measures. */
static bool analyse(const ClipWork *work, const char *path, Clip *clip, float **frames, int64_t *n_frames,
                    Error *error) {
    Audio audio;
    if (!audio_read(path, MEL_RATE, MOST_SECONDS, &audio, error)) return false;
    *n_frames = mel_frame_count(audio.count);
    bool fine = *n_frames > 0 ||
                error_set(error, "has only %lld samples, less than one frame of 20 ms", (long long)audio.count);
    if (fine) {
        *frames = xmalloc((size_t)*n_frames * MEL_BANDS * sizeof **frames);
        mel_analyse(work->mel, audio.samples, audio.count, *frames);
    }
    if (fine && clip) {
        clip->samples = audio.count;
        clip->clipped = audio.clipped;
        clip->silence = silence_of(audio.samples, audio.count);
    }
    audio_close(&audio);
    return fine;
}

static bool measured_before(const ClipWork *work, Clip *clip) {
    const json_t *facts = ledger_find(work->ledger, "audio", clip->recording->id);
    if (!fact_is(facts, "key", clip->audio_key)) return false;
    clip->samples = json_integer_value(json_object_get(facts, "samples"));
    clip->clipped = json_number_value(json_object_get(facts, "clipped"));
    clip->silence = json_number_value(json_object_get(facts, "silence"));
    return clip->samples >= MEL_HOP;
}

static bool measure(const ClipWork *work, Clip *clip) {
    float *frames;
    int64_t n;
    if (!analyse(work, clip->audio_path, clip, &frames, &n, &clip->error)) return false;
    bool fine =
        forget(work, "audio", clip, &clip->error) &&
        write_array(work, "mel", clip, "<f4", frames, 2, (int64_t[]){n, MEL_BANDS}, &clip->error) &&
        ledger_add(work->ledger, "audio", clip->recording->id,
                   json_build("what is known of a clip", "{s:s, s:I, s:f, s:f}", "key", clip->audio_key, "samples",
                              (json_int_t)clip->samples, "clipped", clip->clipped, "silence", clip->silence),
                   &clip->error);
    free(frames);
    if (!fine) {
#pragma omp critical(fatal)
        die("%s", clip->error.text); /* not the recording's fault: the disk's */
    }
    return true;
}

bool clip_measure(const ClipWork *work, Clip *clip) {
    struct stat status = {0};
    bool read = false, fine = true;
    if (stat(clip->audio_path, &status)) fine = error_set(&clip->error, "cannot open: %s", strerror(errno));
    Fingerprint key =
        fingerprint_of("%s\n%s\n%lld\n%lld.%09ld", MEL_DESCRIPTION, clip->recording->audio, (long long)status.st_size,
                       (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    memcpy(clip->audio_key, key.text, sizeof key.text);
    if (fine && !measured_before(work, clip)) {
        fine = measure(work, clip);
        read = true;
    }
    if (!fine) clip->fate = CLIP_BAD_AUDIO;
    clip->n_codes = mel_frame_count(clip->samples);
    return read;
}

bool clip_frames(const ClipWork *work, const Clip *clip, float **frames, Error *error) {
    int64_t n;
    void *kept;
    if (read_array(work, "mel", clip, false, clip->n_codes, MEL_BANDS, &kept)) {
        *frames = kept;
        return true;
    }
    Error why;
    *frames = NULL;
    if (!analyse(work, clip->audio_path, NULL, frames, &n, &why))
        return error_set(error, "%s: %s", clip->audio_path, why.text);
    if (n != clip->n_codes) {
        free(*frames);
        *frames = NULL;
        return error_set(error, "%s: was changed while it was read; run again", clip->audio_path);
    }
    return write_array(work, "mel", clip, "<f4", *frames, 2, (int64_t[]){n, MEL_BANDS}, error);
}

/* ---- coding ---- */

/* The clip's codes as they were written; NULL if anything else is there. free() */
static int32_t *read_codes(const ClipWork *work, const Clip *clip, int64_t entries) {
    void *read;
    if (!read_array(work, "codes", clip, true, clip->n_codes, 0, &read)) return NULL;
    int32_t *codes = read;
    for (int64_t t = 0; t < clip->n_codes; t++)
        if (codes[t] < 0 || codes[t] >= entries) {
            free(codes);
            return NULL;
        }
    return codes;
}

/* Whether the array is there as it was written. */
static bool is_whole(const ClipWork *work, const char *folder, const Clip *clip, int64_t rows, int64_t columns) {
    void *values;
    bool whole = read_array(work, folder, clip, false, rows, columns, &values);
    free(values);
    return whole;
}

static bool has_text_ids(const ClipWork *work, const Clip *clip) {
    void *ids;
    bool same = read_array(work, "text_ids", clip, true, clip->n_ids, 0, &ids) &&
                !memcmp(ids, clip->ids, (size_t)clip->n_ids * sizeof *clip->ids);
    free(ids);
    return same;
}

bool clip_is_coded(const ClipWork *work, Clip *clip, const char *setup, int64_t entries, int64_t d_model) {
    const json_t *facts = ledger_find(work->ledger, "codes", clip->recording->id);
    if (!facts) return false;
    bool same = fact_is(facts, "audio", clip->audio_key) && fact_is(facts, "setup", setup) &&
                fact_is(facts, "text", fingerprint_of("%s", clip->normalized).text);
    clip->again = true;
    if (!same || !has_text_ids(work, clip) || !is_whole(work, "condition", clip, CONDITIONING_ROWS, d_model) ||
        !is_whole(work, "emo_vec", clip, d_model, 0) || !(clip->codes = read_codes(work, clip, entries)))
        return false;
    clip->squared_error = json_number_value(json_object_get(facts, "squared_error"));
    clip->again = false;
    return true;
}

static bool write_coded(const ClipWork *work, const Clip *clip, const float *frames, const PromptMap *map,
                        Error *error) {
    int64_t d = map->d_model;
    float *condition = xmalloc((size_t)(CONDITIONING_ROWS * d) * sizeof *condition);
    float *emotion = xmalloc((size_t)d * sizeof *emotion);
    prompt_map_apply(map, frames, clip->n_codes, condition, emotion);
    bool fine = write_array(work, "text_ids", clip, "<i4", clip->ids, 1, (int64_t[]){clip->n_ids}, error) &&
                write_array(work, "codes", clip, "<i4", clip->codes, 1, (int64_t[]){clip->n_codes}, error) &&
                write_array(work, "condition", clip, "<f4", condition, 2, (int64_t[]){CONDITIONING_ROWS, d}, error) &&
                write_array(work, "emo_vec", clip, "<f4", emotion, 1, (int64_t[]){d}, error);
    free(condition);
    free(emotion);
    return fine;
}

bool clip_code(const ClipWork *work, Clip *clip, const PromptMap *map, const char *setup, Error *error) {
    float *frames = NULL, *squared = xmalloc((size_t)clip->n_codes * sizeof *squared);
    bool fine = clip_frames(work, clip, &frames, error);
    clip->codes = xmalloc((size_t)clip->n_codes * sizeof *clip->codes);
    clip->squared_error = 0;
    if (fine) codebook_assign(&map->coder->codebook, frames, clip->n_codes, clip->codes, squared);
    for (int64_t t = 0; fine && t < clip->n_codes; t++) clip->squared_error += (double)squared[t];
    fine = fine && forget(work, "codes", clip, error) && write_coded(work, clip, frames, map, error) &&
           ledger_add(work->ledger, "codes", clip->recording->id,
                      json_build("what is known of a clip", "{s:s, s:s, s:s, s:f}", "audio", clip->audio_key, "text",
                                 fingerprint_of("%s", clip->normalized).text, "setup", setup, "squared_error",
                                 clip->squared_error),
                      error);
    free(frames);
    free(squared);
    return fine;
}

void clip_close(Clip *clip) {
    free(clip->audio_path);
    free(clip->text);
    free(clip->normalized);
    free(clip->ids);
    free(clip->codes);
}
