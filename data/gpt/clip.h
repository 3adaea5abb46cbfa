/* One recording in train_gpt prepare: it is measured, then coded. Each step writes files into the output directory and
 * a line into its ledger that says what they were made from, so that no step is done twice. */
#pragma once

#include "data/audio/audio.h"
#include "data/gpt/recordings.h"
#include "data/gpt/speech_coder.h"
#include "data/ledger.h"
#include "data/text/sentencepiece.h"

/* Why a clip is left out. */
typedef enum {
    CLIP_KEPT,
    CLIP_EMPTY_TEXT,
    CLIP_FEW_WORDS,
    CLIP_BAD_AUDIO,
    CLIP_SHORT,
    CLIP_LONG,
    CLIP_SILENT,
    CLIP_SLOW,
    CLIP_FAST,
    CLIP_LONG_TEXT,
    CLIP_REASONS
} ClipReject;

/* Returns the reason in words, "shorter than --min-duration". */
const char *clip_reject_reason(ClipReject reason);

typedef struct {
    const Recording *recording;
    ClipReject reject;
    char *audio_path;        /* of the file */
    char *text, *normalized; /* cleaned; as the tokenizer gets it */
    uint64_t audio_sum;      /* checksum of the file's bytes */
    char audio_key[41];      /* fingerprint of the file and of how frames are computed */
    int64_t samples;         /* at MEL_RATE */
    double clipped;          /* share of the file's samples beyond 0.99 */
    double silence;          /* share of the frames 40 dB or more below the loudest */
    AudioFacts facts;        /* of the file */
    int32_t *ids;            /* [n_ids], text ids */
    int n_ids;
    int32_t *codes; /* [n_codes] */
    int64_t n_codes;
    double squared_error; /* sum over all frames, to the entries of their codes */
    bool stale;           /* coded by an earlier run, but from other inputs, or a file is damaged */
    bool other_text;      /* they are of this audio and setup, but of another text or tokenizer */
    bool is_cut;          /* the list gives a part of a file that is this part alone: it was cut before */
    uint64_t sound;       /* checksum of the samples */
    bool convertible;     /* the audio is in a format that only ffmpeg reads */
    Error error;          /* why the audio is bad, or what failed */
} Clip;

/* Shared by all clips. */
typedef struct {
    const char *output; /* directory */
    Ledger *ledger;
    const Mel *mel;
    bool no_frames; /* nobody needs OUTPUT/mel */
} ClipWork;

/* Sets samples, clipped, silence, sound, is_cut and audio_key, which is of audio_sum and the part: those of the ledger
 * if the bytes of the sound file are those that they were made from, else from the sound file, whose log-mel frames go
 * to OUTPUT/mel/ID.npy. Returns whether the sound file was decoded. Sets reject and error if it cannot be read. */
bool clip_measure(const ClipWork *work, Clip *clip);
/* Reads the clip's frames[clip->n_codes, MEL_BANDS] from OUTPUT/mel or, if that file is missing or damaged, from the
 * audio; free(). */
bool clip_frames(const ClipWork *work, const Clip *clip, float **frames, Error *error);

/* Reads the clip's sound, a part of its file or all of it, at `rate` (0: that of the file). */
bool clip_sound(const Clip *clip, int rate, Audio *audio, Error *error);

/* Returns whether text_ids, codes, condition and emo_vec of the clip are whole and were made from its present text and
 * audio and from `setup`, a fingerprint of all else that they depend on; then loads the codes, each below `entries`.
 * Sets clip->stale if they were made by an earlier run but cannot be reused; with clip->other_text all but the text ids
 * can, and the codes are loaded. */
bool clip_is_coded(const ClipWork *work, Clip *clip, const char *setup, int64_t entries, int64_t d_model);
/* Writes the text ids anew, if clip->other_text. */
bool clip_write_text(const ClipWork *work, const Clip *clip, const char *setup, Error *error);
/* Writes them: text ids and codes of the clip, condition [CONDITIONING_ROWS, d_model], emotion [d_model]. */
bool clip_write(const ClipWork *work, const Clip *clip, const float *condition, const float *emotion, int64_t d_model,
                const char *setup, Error *error);
/* Computes and writes those of a codebook. */
bool clip_code(const ClipWork *work, Clip *clip, const PromptMap *map, const char *setup, Error *error);
void clip_close(Clip *clip);
