/* The steps of prepare_tts, in their order. Each leaves its results in files and lines of the ledger, and does not do
 * again what is there already and would come out the same; so the program may be killed at any time, and what it writes
 * in the end depends neither on that nor on the number of workers. Steps die() when they cannot go on. */
#ifndef DATA_TTS_PREPARE_H
#define DATA_TTS_PREPARE_H

#include "data/clip.h"

typedef struct {
    const char *input, *output, *tokenizer, *codebook; /* the last two: NULL, train one */
    int64_t vocabulary, codebook_size, kmeans_iterations, frames_per_entry, d_model, min_words, seed, num_workers;
    double min_duration, max_duration, min_chars, max_chars, max_silence, max_clipping;
    bool skip_bad;
} PrepareOptions;

typedef struct {
    const PrepareOptions *options;
    Recordings recordings;
    Clip *clips; /* [n], in the order of the list */
    int64_t n;
    ClipWork work;
    Mel *mel;
    char *tokenizer_path, *codebook_path; /* in the output directory */
    Tokenizer *tokenizer;
    SpeechCoder coder;
    bool tokenizer_before, codebook_before;                              /* taken as they were */
    int64_t read_now, read_before, coded_now, coded_before, coded_again; /* clips */
} Prepare;

void prepare_open(Prepare *p, const PrepareOptions *options);
void prepare_close(Prepare *p);

void prepare_list(Prepare *p);      /* recordings, clips; texts normalised; clips without words left out */
void prepare_frames(Prepare *p);    /* every clip measured and filtered; bad audio is told, and fatal unless skip_bad */
void prepare_tokenizer(Prepare *p); /* OUTPUT/bpe.model trained on the texts that are left, or copied */
void prepare_texts(Prepare *p);     /* text ids; clips with too many left out */
void prepare_codebook(Prepare *p);  /* OUTPUT/codebook.npy and .json trained on frames of the clips left, or copied */
void prepare_codes(Prepare *p);     /* text_ids, codes, condition, emo_vec of every clip left */

const char *clip_fate_name(ClipFate fate); /* "shorter than --min-duration" */

#endif
