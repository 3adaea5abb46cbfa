/* One recording on its way through prepare_tts: measured, then coded. Both leave files in the output directory, and a
 * line in its ledger that says from what they were made, so that neither is done twice. */
#ifndef DATA_CLIP_H
#define DATA_CLIP_H

#include "data/ledger.h"
#include "data/recordings.h"
#include "data/speech_coder.h"
#include "data/tokenizer.h"

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
    CLIP_FATES
} ClipFate;

typedef struct {
    const Recording *recording;
    ClipFate fate;
    char *audio_path;        /* of the file */
    char *text, *normalized; /* cleaned; and what the tokenizer gets */
    char audio_key[41];      /* fingerprint of the file and of how frames are made */
    int64_t samples;         /* at MEL_RATE */
    double clipped;          /* share of the file's samples beyond 0.99 */
    double silence;          /* share of the frames 40 dB or more below the loudest */
    int32_t *ids;            /* [n_ids], text ids */
    int n_ids;
    int32_t *codes; /* [n_codes] */
    int64_t n_codes;
    double squared_error; /* of all frames together, to their codes' entries */
    bool again;           /* coded before, but from something else, or damaged */
    Error error;          /* why the audio is bad, or what failed */
} Clip;

/* What all clips share. */
typedef struct {
    const char *output; /* directory */
    Ledger *ledger;
    const Mel *mel;
} ClipWork;

/* Fills samples, clipped, silence and audio_key: from the ledger if the file has not changed, else from the file, whose
 * log-mel frames go to OUTPUT/mel/ID.npy. Returns whether it had to be read; if it cannot be, sets fate and error. */
bool clip_measure(const ClipWork *work, Clip *clip);
/* The clip's frames[clip->n_codes, MEL_BANDS] (free()), from OUTPUT/mel or, if that file has gone or is damaged, from
 * the audio. */
bool clip_frames(const ClipWork *work, const Clip *clip, float **frames, Error *error);

/* Whether text_ids, codes (each below `entries`), condition and emo_vec of the clip are there as they were written,
 * made from this text, this audio and `setup` (a fingerprint of codebook, tokenizer and d_model); then loads codes.
 * Otherwise sets clip->again if they were made before, but from something else, or are damaged. */
bool clip_is_coded(const ClipWork *work, Clip *clip, const char *setup, int64_t entries, int64_t d_model);
/* Makes and writes them. */
bool clip_code(const ClipWork *work, Clip *clip, const PromptMap *map, const char *setup, Error *error);
void clip_close(Clip *clip);

#endif
