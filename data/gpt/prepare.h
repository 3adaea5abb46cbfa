/* The steps of train_gpt prepare, in their order. Each step leaves its results in files and lines of the ledger, and
 * reuses what is there if it would come out the same. So the program may be killed at any time: what it writes in the
 * end depends neither on that nor on the number of workers. A step that cannot go on ends the program. */
#pragma once

#include "data/gpt/prepare_sizes.h"
#include "data/gpt/recordings_read.h"

typedef struct {
    RecordingsSource input;
    const char *output;
    const char *tokenizer, *codebook; /* NULL: train one */
    PrepareSizes sizes;               /* as given, or those of the full model */
    PrepareFit fit;
    int64_t kmeans_iterations, frames_per_entry, min_words, seed, num_workers;
    double min_duration, max_duration, min_chars, max_chars, max_silence, max_clipping, max_unknown;
    bool skip_bad;
    /* With these, codes, so many different ones, and vectors come from networks of others, not from a codebook. */
    int64_t foreign_codes;
    const char *gpt_checkpoint;
} PrepareOptions;

typedef struct {
    const PrepareOptions *options;
    PrepareSizes sizes; /* used: fewer than those of the options if `small` */
    bool small;
    Recordings recordings;
    Clip *clips;                            /* [n], in the order of the list */
    int64_t n, without_audio, without_text; /* of the list; the file does not exist, the text has no word */
    ClipWork work;
    Mel *mel;
    char *tokenizer_path, *codebook_path; /* in the output directory */
    SentencePiece *tokenizer;
    SpeechCoder coder;
    int64_t entries; /* different codes */
    bool tokenizer_reused, codebook_reused;
    int64_t read_now, read_reused;            /* clips whose frames were computed, or known from an earlier run */
    int64_t coded_now, codes_reused, recoded; /* clips; recoded ones are also counted in coded_now */
    int64_t texts_written;                    /* clips, counted in codes_reused, of which only the text ids change */
} Prepare;

void prepare_open(Prepare *p, const PrepareOptions *options);
void prepare_close(Prepare *p);

/* Reads the list, normalises the texts and rejects clips with too few words. Writes nothing. */
void prepare_list(Prepare *p);
/* Makes the output's folders and its ledger. */
void prepare_outputs(Prepare *p);
/* Measures and filters every clip, and sets the sizes. Reports bad audio, which ends the program unless skip_bad is
 * set. */
void prepare_frames(Prepare *p);
/* Makes OUTPUT/bpe.model: trained on the texts of the kept clips, or copied. */
void prepare_tokenizer(Prepare *p);
/* Computes text ids; rejects clips with too many. Ends the program if the tokenizer does not know max_unknown of them
 * or more. */
void prepare_texts(Prepare *p);
/* Warns of the digits, Latin letters and symbols that the kept clips in Amharic have: they are counted, and the first
 * place is named. language: of recordings that name none. */
void prepare_check_spelling(const Prepare *p, const char *language);
/* Makes OUTPUT/codebook.npy and .json: trained on frames of the kept clips, or copied. */
void prepare_codebook(Prepare *p);
/* Writes text_ids, codes, condition and emo_vec of every kept clip. */
void prepare_codes(Prepare *p);
/* Returns the parts of this that are done otherwise if the codes are foreign: which clips must be coded, [n], free();
 * `setup` is the fingerprint of all that codes and vectors depend on beside the clip. Counts the others as reused,
 * and writes text ids where only they change. Removes the manifests before anything does. */
bool *prepare_find_uncoded(Prepare *p, const char *setup);
