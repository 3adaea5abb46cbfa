#include "data/gpt/clip.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "data/formats/npy.h"
#include "data/gpt/prepare_outputs.h"

/* Reading stops here: the clip is too long for any --max-duration. The limit is fixed, because measures must not depend
 * on options: runs with other options reuse them. */
static const double MAX_SECONDS = 37;

const char *clip_reject_reason(ClipReject reason) {
    static const char *const names[CLIP_REASONS] = {[CLIP_KEPT] = "kept",
                                                    [CLIP_EMPTY_TEXT] = "without text",
                                                    [CLIP_FEW_WORDS] = "with fewer words than --min-words",
                                                    [CLIP_BAD_AUDIO] = "with bad audio",
                                                    [CLIP_SHORT] = "shorter than --min-duration",
                                                    [CLIP_LONG] = "longer than --max-duration",
                                                    [CLIP_SILENT] = "with more silence than --max-silence",
                                                    [CLIP_SLOW] = "slower than --min-chars-per-second",
                                                    [CLIP_FAST] = "faster than --max-chars-per-second",
                                                    [CLIP_LONG_TEXT] = "with more than 600 text tokens"};
    return names[reason];
}

/* Returns OUTPUT/FOLDER/ID.npy; free(). */
static char *clip_path(const ClipWork *work, PrepareOutput folder, const Clip *clip) {
    return xformat("%s/%s/%s.npy", work->output, prepare_output_name(folder), clip->recording->id);
}

static bool write_array(const ClipWork *work, PrepareOutput folder, const Clip *clip, const char *dtype,
                        const void *data, int rank, const int64_t *dims, Error *error) {
    OWNED char *path = clip_path(work, folder, clip);
    return npy_write(path, dtype, data, rank, dims, error);
}

/* Reads an array that write_array wrote: [rows], or [rows, columns] if columns > 0; int32 or float32. Returns NULL if
 * it is missing, damaged (by its checksum) or of another shape; free(). */
static void *read_array(const ClipWork *work, PrepareOutput folder, const Clip *clip, bool integers, int64_t rows,
                        int64_t columns) {
    OWNED char *path = clip_path(work, folder, clip), *bytes = NULL;
    size_t size;
    Npy npy;
    if (!read_file(path, &bytes, &size, NULL) || !npy_parse(bytes, size, &npy, NULL) || !npy.has_checksum ||
        npy.rank != (columns ? 2 : 1) || npy.dims[0] != rows || (columns && npy.dims[1] != columns))
        return NULL;
    void *values = xmalloc((size_t)npy.count * 4);
    if (integers ? npy_to_i32(&npy, values, NULL) : npy_to_f32(&npy, values, NULL)) return values;
    free(values);
    return NULL;
}

/* Notes in the ledger, before files are replaced, that they are not done. Else a kill in between would leave new files
 * under the old note, and a run with the old settings would reuse them. */
static bool mark_unfinished(const ClipWork *work, const char *kind, const Clip *clip, Error *error) {
    const char *id = clip->recording->id;
    return !ledger_find(work->ledger, kind, id) || ledger_add(work->ledger, kind, id, json_object(), error);
}

/* ---- measuring ---- */

/* Returns the share of the `hops` of 20 ms whose power is 40 dB or more below that of the loudest. */
static double silent_share(const Audio *audio, int64_t hops) {
    int64_t quiet = 0;
    double loudest = 0;
    OWNED double *power = xcalloc((size_t)hops, sizeof *power);
    for (int64_t t = 0; t < hops; t++) {
        int64_t end = (t + 1) * MEL_HOP * audio->rate / MEL_RATE;
        for (int64_t i = t * MEL_HOP * audio->rate / MEL_RATE; i < end && i < audio->count; i++)
            power[t] += (double)audio->samples[i] * (double)audio->samples[i];
        loudest = fmax(loudest, power[t]);
    }
    for (int64_t t = 0; t < hops; t++) quiet += power[t] <= 1e-4 * loudest;
    return (double)quiet / (double)hops;
}

/* Reads the clip's sound at `rate`, a part of its file or all of it. Where the file has no such part, but is as long as
 * the part, it was cut out before, and *is_cut is set. */
static bool read_sound(const Clip *clip, int rate, Audio *audio, bool *is_cut, Error *error) {
    const Recording *r = clip->recording;
    const double length = r->to - r->from, tolerance = 0.1; /* s; lists round, and codecs pad */
    *is_cut = false;
    if (!recording_is_part(r)) return audio_read(clip->audio_path, rate, MAX_SECONDS, audio, error);
    bool ok = audio_read_part(clip->audio_path, rate, r->from, fmin(length, MAX_SECONDS), audio, error),
         is_short =
             ok && isfinite(length) && (double)audio->count / audio->rate < fmin(length, MAX_SECONDS) - tolerance;
    if (is_short)
        error_set(error, "has only %.2f s, but the recording ends at %.2f s",
                  r->from + (double)audio->count / audio->rate, r->to);
    if (ok && !is_short) return true;
    bool convertible = audio->convertible;
    audio_close(audio);
    *is_cut = audio_read(clip->audio_path, rate, MAX_SECONDS, audio, NULL) &&
              fabs((double)audio->count / audio->rate - length) <= tolerance;
    if (!*is_cut) audio_close(audio);
    audio->convertible = convertible;
    return *is_cut;
}

bool clip_sound(const Clip *clip, int rate, Audio *audio, Error *error) {
    bool is_cut;
    return read_sound(clip, rate, audio, &is_cut, error) || error_before(error, "%s: ", clip->audio_path);
}

/* Computes frames[*n_frames, MEL_BANDS] of a clip, if they are asked for; free(). Stores the measures in the clip if it
 * may. Without frames the sound stays at its rate: resampling takes twenty times as long as reading. */
static bool analyse(const ClipWork *work, const Clip *clip, Clip *measures, float **frames, int64_t *n_frames,
                    Error *error) {
    Audio audio;
    bool is_cut;
    if (!read_sound(clip, frames ? MEL_RATE : 0, &audio, &is_cut, error)) {
        if (measures) measures->convertible = audio.convertible;
        return false;
    }
    int64_t samples = audio_count_at(&audio, MEL_RATE);
    *n_frames = mel_frame_count(samples);
    bool ok =
        *n_frames > 0 || error_set(error, "has only %lld samples, less than one frame of 20 ms", (long long)samples);
    if (ok && frames) {
        *frames = xmalloc((size_t)*n_frames * MEL_BANDS * sizeof **frames);
        mel_analyse(work->mel, audio.samples, audio.count, *frames);
    }
    if (ok && measures) {
        measures->samples = samples;
        measures->clipped = audio.clipped;
        measures->silence = silent_share(&audio, *n_frames);
        measures->sound = checksum(0, audio.samples, (size_t)audio.count * sizeof *audio.samples);
        measures->is_cut = is_cut;
        measures->facts = audio.facts;
    }
    audio_close(&audio);
    return ok;
}

static bool reuse_measures(const ClipWork *work, Clip *clip) {
    const json_t *facts = ledger_find(work->ledger, "audio", clip->recording->id);
    if (!fact_is(facts, "key", clip->audio_key)) return false;
    clip->samples = json_integer_value(json_object_get(facts, "samples"));
    clip->clipped = json_number_value(json_object_get(facts, "clipped"));
    clip->silence = json_number_value(json_object_get(facts, "silence"));
    clip->facts = (AudioFacts){.loudest = json_number_value(json_object_get(facts, "loudest")),
                               .declared = json_integer_value(json_object_get(facts, "declared")),
                               .behind = json_integer_value(json_object_get(facts, "behind"))};
    clip->is_cut = json_is_true(json_object_get(facts, "cut"));
    const char *sound = json_string_value(json_object_get(facts, "sound")); /* older versions did not note it */
    clip->sound = sound ? strtoull(sound, NULL, 16) : 0;
    return sound && clip->samples >= MEL_HOP && clip->facts.loudest > 0;
}

static bool measure(const ClipWork *work, Clip *clip) {
    OWNED float *frames = NULL;
    int64_t n;
    char sound[17];
    if (!analyse(work, clip, clip, work->no_frames ? NULL : &frames, &n, &clip->error)) return false;
    snprintf(sound, sizeof sound, "%016llx", (unsigned long long)clip->sound);
    bool ok =
        mark_unfinished(work, "audio", clip, &clip->error) &&
        (!frames || write_array(work, OUTPUT_MEL, clip, "<f4", frames, 2, (int64_t[]){n, MEL_BANDS}, &clip->error)) &&
        ledger_add(work->ledger, "audio", clip->recording->id,
                   json_build("the ledger", "{s:s, s:I, s:f, s:f, s:f, s:I, s:I, s:s, s:b}", "key", clip->audio_key,
                              "samples", (json_int_t)clip->samples, "clipped", clip->clipped, "silence", clip->silence,
                              "loudest", clip->facts.loudest, "declared", (json_int_t)clip->facts.declared, "behind",
                              (json_int_t)clip->facts.behind, "sound", sound, "cut", clip->is_cut),
                   &clip->error);
    if (!ok) {
#pragma omp critical(fatal)
        die("%s", clip->error.text); /* the disk is at fault, not the recording */
    }
    return true;
}

bool clip_measure(const ClipWork *work, Clip *clip) {
    struct stat status = {0};
    bool read = false, ok = true;
    if (stat(clip->audio_path, &status)) ok = error_set(&clip->error, "cannot open: %s", strerror(errno));
    Fingerprint key = fingerprint_of("%s\n%016llx", MEL_DESCRIPTION, (unsigned long long)clip->audio_sum);
    const Recording *r = clip->recording;
    if (recording_is_part(r)) key = fingerprint_of("%s\n%.17g\n%.17g", key.text, r->from, r->to);
    memcpy(clip->audio_key, key.text, sizeof key.text);
    if (ok && !reuse_measures(work, clip)) {
        ok = measure(work, clip);
        read = true;
    }
    if (!ok) clip->reject = CLIP_BAD_AUDIO;
    clip->n_codes = mel_frame_count(clip->samples);
    return read;
}

bool clip_frames(const ClipWork *work, const Clip *clip, float **frames, Error *error) {
    int64_t n;
    *frames = read_array(work, OUTPUT_MEL, clip, false, clip->n_codes, MEL_BANDS);
    if (*frames) return true;
    if (!analyse(work, clip, NULL, frames, &n, error)) return error_before(error, "%s: ", clip->audio_path);
    if (n != clip->n_codes) {
        free(*frames);
        *frames = NULL;
        return error_set(error, "%s: changed while it was read; run again", clip->audio_path);
    }
    return write_array(work, OUTPUT_MEL, clip, "<f4", *frames, 2, (int64_t[]){n, MEL_BANDS}, error);
}

/* ---- coding ---- */

/* Returns the clip's codes as they were written; NULL if they are missing, damaged or not below `entries`; free(). */
static int32_t *read_codes(const ClipWork *work, const Clip *clip, int64_t entries) {
    int32_t *codes = read_array(work, OUTPUT_CODES, clip, true, clip->n_codes, 0);
    for (int64_t t = 0; codes && t < clip->n_codes; t++)
        if (codes[t] < 0 || codes[t] >= entries) {
            free(codes);
            return NULL;
        }
    return codes;
}

/* Returns whether the array is there as it was written. */
static bool is_whole(const ClipWork *work, PrepareOutput folder, const Clip *clip, int64_t rows, int64_t columns) {
    OWNED void *values = read_array(work, folder, clip, false, rows, columns);
    return values;
}

static bool has_text_ids(const ClipWork *work, const Clip *clip) {
    OWNED void *ids = read_array(work, OUTPUT_TEXT_IDS, clip, true, clip->n_ids, 0);
    return ids && !memcmp(ids, clip->ids, (size_t)clip->n_ids * sizeof *clip->ids);
}

bool clip_is_coded(const ClipWork *work, Clip *clip, const char *setup, int64_t entries, int64_t d_model) {
    const json_t *facts = ledger_find(work->ledger, "codes", clip->recording->id);
    if (!facts) return false;
    bool same = fact_is(facts, "audio", clip->audio_key) && fact_is(facts, "setup", setup);
    const json_t *n = json_object_get(facts, "codes"); /* older versions did not note it */
    clip->stale = true;
    if (same && n) clip->n_codes = json_integer_value(n);
    if (!same || !is_whole(work, OUTPUT_CONDITION, clip, CONDITIONING_ROWS, d_model) ||
        !is_whole(work, OUTPUT_EMO_VEC, clip, d_model, 0) || !(clip->codes = read_codes(work, clip, entries)))
        return false;
    clip->squared_error = json_number_value(json_object_get(facts, "squared_error"));
    clip->other_text =
        !fact_is(facts, "text", fingerprint_of("%s", clip->normalized).text) || !has_text_ids(work, clip);
    clip->stale = clip->other_text;
    return !clip->other_text;
}

static bool write_text_ids(const ClipWork *work, const Clip *clip, Error *error) {
    return write_array(work, OUTPUT_TEXT_IDS, clip, "<i4", clip->ids, 1, (int64_t[]){clip->n_ids}, error);
}

static bool note_codes(const ClipWork *work, const Clip *clip, const char *setup, Error *error) {
    return ledger_add(work->ledger, "codes", clip->recording->id,
                      json_build("the ledger", "{s:s, s:s, s:s, s:f, s:I}", "audio", clip->audio_key, "text",
                                 fingerprint_of("%s", clip->normalized).text, "setup", setup, "squared_error",
                                 clip->squared_error, "codes", (json_int_t)clip->n_codes),
                      error);
}

bool clip_write_text(const ClipWork *work, const Clip *clip, const char *setup, Error *error) {
    return mark_unfinished(work, "codes", clip, error) && write_text_ids(work, clip, error) &&
           note_codes(work, clip, setup, error);
}

bool clip_write(const ClipWork *work, const Clip *clip, const float *condition, const float *emotion, int64_t d_model,
                const char *setup, Error *error) {
    return mark_unfinished(work, "codes", clip, error) && write_text_ids(work, clip, error) &&
           write_array(work, OUTPUT_CODES, clip, "<i4", clip->codes, 1, (int64_t[]){clip->n_codes}, error) &&
           write_array(work, OUTPUT_CONDITION, clip, "<f4", condition, 2, (int64_t[]){CONDITIONING_ROWS, d_model},
                       error) &&
           write_array(work, OUTPUT_EMO_VEC, clip, "<f4", emotion, 1, (int64_t[]){d_model}, error) &&
           note_codes(work, clip, setup, error);
}

bool clip_code(const ClipWork *work, Clip *clip, const PromptMap *map, const char *setup, Error *error) {
    OWNED float *frames = NULL, *squared = xmalloc((size_t)clip->n_codes * sizeof *squared);
    OWNED float *vectors = xmalloc((size_t)((CONDITIONING_ROWS + 1) * map->d_model) * sizeof *vectors);
    float *emotion = vectors + CONDITIONING_ROWS * map->d_model;
    if (!clip_frames(work, clip, &frames, error)) return false;
    clip->codes = xmalloc((size_t)clip->n_codes * sizeof *clip->codes);
    clip->squared_error = 0;
    codebook_assign(&map->coder->codebook, frames, clip->n_codes, clip->codes, squared);
    for (int64_t t = 0; t < clip->n_codes; t++) clip->squared_error += (double)squared[t];
    prompt_map_apply(map, frames, clip->n_codes, vectors, emotion);
    return clip_write(work, clip, vectors, emotion, map->d_model, setup, error);
}

void clip_close(Clip *clip) {
    free(clip->audio_path);
    free(clip->text);
    free(clip->normalized);
    free(clip->ids);
    free(clip->codes);
}
