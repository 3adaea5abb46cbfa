/* Where the text ids and the audio codes of a training come from: a tokenizer, and the codebook of train_gpt prepare or
 * else the semantic codec of IndexTTS2. The config.json of a checkpoint records it:
 *
 *   "tokenizer_xxh3_64": "0123456789abcdef"   of the SentencePiece model; absent: none was given
 *   "codes": "codebook" or "indextts2"
 *   "codebook_xxh3_64": "0123456789abcdef"    of codebook.npy */
#pragma once

#include "checkpoint/description.h"
#include "commands/gpt/base.h"
#include "data/text/sentencepiece.h"

/* In the stats.json of train_gpt prepare: the options that fit a small corpus, {"model-dim": 256, ...}. */
#define GPT_PREPARED_OPTIONS "options"
typedef enum {
    GPT_NEXT_CODES,
    GPT_NEXT_WIDTH,
    GPT_NEXT_HEADS,
    GPT_NEXT_LAYERS,
    GPT_NEXT_LEARNING_RATE,
    GPT_NEXT_EPOCHS,
    GPT_NEXT_WARMUP,
    GPT_NEXT_VAL_INTERVAL,
    GPT_NEXT_LOG_INTERVAL,
    GPT_NEXT_OPTIONS
} GptNextOption;
extern const char *const gpt_next_options[GPT_NEXT_OPTIONS + 1]; /* their names; NULL ends the list */

/* Sets the options that are not given to those that train_gpt prepare has found to fit its few recordings, if the
 * stats.json beside the first manifest has any, and prints them. */
void gpt_prepared_adopt(const OptionList *manifests, OptionSet *set);

/* A checksum in hexadecimal digits; "": there is no file. */
typedef struct {
    char text[17];
} FileSum;

/* Returns the checksum of a file; dies with the reason if it cannot be read. */
FileSum gpt_file_sum(const char *path);
/* Opens a tokenizer; dies with the reason if it is none. */
SentencePiece *gpt_tokenizer_open(const char *path);

enum { GPT_FACTS = 3 };
typedef struct {
    const char *codes; /* their kind, the fact "codes"; NULL: there are no manifests */
    FileSum tokenizer, codebook;
    Fact facts[GPT_FACTS]; /* [n_facts], for TrainSpec.description; they point into this struct */
    int n_facts;
} GptOrigin;

/* Finds the origin of manifests, if there are any: a codebook is the codebook.npy beside them. Dies if the text ids of
 * a folder are of another tokenizer than `tokenizer` (NULL: none), or the codes of two folders are of different
 * codebooks; a tokenizer whose first pieces are those of another one counts as the same. Prints which program makes
 * sound of the codes. */
void gpt_origin_read(GptOrigin *origin, const char *tokenizer, const OptionList *train, const OptionList *validation);

/* Prints the command that uses the run of a training on manifests of this origin: who makes sound of its codes. */
void gpt_origin_print_next(const GptOrigin *origin, const char *run);

/* Warns if a base checkpoint (zero: none) was trained on other codes than those of the manifests, or with another
 * tokenizer. A file of another program counts as IndexTTS2's; a checkpoint of ours that does not say its codes, because
 * it is older than the facts or its config.json is missing, is warned of. */
void gpt_origin_warn_of_base(const GptOrigin *origin, const GptBase *base);

#define GPT_INDEXTTS2_CODES "indextts2" /* a kind of codes */

/* Return whether codes are those of a codebook of train_gpt prepare, whether they are IndexTTS2's, and the words for
 * people: which codes they are, what makes sound of them and what cannot. kind: the fact "codes"; NULL: unknown. */
bool gpt_codes_are_own(const char *kind);
bool gpt_codes_are_indextts2(const char *kind);
const char *gpt_codes_decoder(const char *kind);
/* Returns whether the stats.json of a prepared folder says that its codes are IndexTTS2's: it names the gpt.pth. */
bool gpt_folder_is_indextts2(const char *folder);
