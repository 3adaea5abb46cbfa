/* From raw texts to token ids: normalisation, word segmentation, tokenizer, cut, begin and end tokens. */
#pragma once

#include "data/segment/segmenter.h"
#include "data/text/tokenizer.h"
#include "data/text/unknown.h"

typedef struct {
    const Tokenizer *tokenizer;
    const Segmenter *segmenter; /* joins the syllables of words by "_", sentence by sentence; NULL: none */
    bool nfc;                   /* Unicode's normal form C; not with `compat` */
    /* Tokenizes as Hugging Face's slow tokenizer alone: white space stays as it is, and special tokens that are written
     * out in a text become their ids. Otherwise runs of white space become a blank, and special tokens are text. A
     * segmenter gets blanks in any case. */
    bool compat;
    bool padding; /* `compat`, and the tokenizer's <pad> has BERT_PAD: one that is written out counts as no token */
    int max_len;  /* tokens, with begin and end; at least 3 */
    /* A longer text becomes several, each as long as it may be, cut where a word begins if the tokenizer tells; nothing
     * is lost. Otherwise it loses its end. */
    bool divide;
    int n_threads;
} TextRules;

/* The ids of tokens with a task; -1: the tokenizer has none. */
typedef struct {
    int32_t begin, end; /* <s> </s>, or [CLS] [SEP] */
    int32_t pad, mask, unknown;
} SpecialIds;

typedef struct {
    bool padding;      /* of the rules */
    int64_t n;         /* texts; of a divided one, its parts */
    int64_t *first;    /* [n + 1] into ids */
    int32_t *ids;      /* each text with its begin and end token */
    int64_t divided;   /* texts that became several */
    int64_t truncated; /* texts that lost their end */
    int64_t cut;       /* tokens */
    int64_t unknown;   /* tokens, of those that are left */
    int64_t empty;     /* texts without a token between begin and end */
    int64_t dropped;   /* characters that the tokenizer has no token for and left out */
    Unknown missing;   /* of what is left and of what was cut */
} TokenizedTexts;

/* Finds them by their usual names. False with an error if there is no begin or end token. */
bool texts_specials(const Tokenizer *tokenizer, SpecialIds *out, Error *error);
/* Returns what the tokenizer gets of a text, and its bytes: normalised, and segmented. Of the rules, those of the
 * tokenizer are not needed. A zero byte stands behind it; free(). */
char *texts_prepare(const TextRules *rules, const char *text, size_t *size);
/* Tokenizes n UTF-8 texts. The result does not depend on the number of threads. False with an error if the tokenizer
 * has no begin or end token, if max_len is below 3, or if there are more than 2^31 - 1 parts. */
bool texts_tokenize(const char *const *texts, int64_t n, const TextRules *rules, TokenizedTexts *out, Error *error);
/* Returns the texts listed, in this order, with the counts that follow from their ids: unknown and empty. */
TokenizedTexts texts_select(const TokenizedTexts *texts, const int32_t *list, int64_t n, int32_t unknown_id);
void texts_free(TokenizedTexts *texts);
/* Sets used[id] to 1 for every id that occurs (--compact-vocabulary). */
void texts_mark_used(const TokenizedTexts *texts, uint8_t *used);

/* Returns the text in normal form C, with blanks for runs of white space and none at its ends, and sets *size, which
 * may be NULL; free(). */
char *texts_normal(const char *text, size_t *size);
/* Sets groups[n] to the index of the first text with the same normal form. */
void texts_groups(const char *const *texts, int64_t n, int32_t *groups);
