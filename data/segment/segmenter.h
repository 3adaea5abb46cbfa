/* Vietnamese word segmentation as RDRsegmenter does it (Nguyen et al., LREC 2018), with its published model files: the
 * same output, byte for byte. Vietnamese writes a blank between syllables; words of several syllables get a _ there.
 *
 * Texts are cut into tokens, tokens become words by the longest match in a vocabulary, and a tree of rules corrects
 * that. Letters are taken as they are: compose them (NFC) before, or few words are found. The tone mark of òa, óe, ủy
 * and the like moves to the second vowel. */
#pragma once

#include "base/base.h"

typedef struct Segmenter Segmenter; /* immutable: safe from several threads */

/* Opens a folder with the files Model.RDR and VnVocab. NULL: an error that names the file and its line or offset. */
Segmenter *segmenter_open(const char *directory, Error *error);
void segmenter_close(Segmenter *segmenter);
/* Returns a hash of both files. */
uint64_t segmenter_hash(const Segmenter *segmenter);
/* Returns whether the files are those that RDRsegmenter and VnCoreNLP publish. */
bool segmenter_is_published(const Segmenter *segmenter);
/* Returns the number of rules, and sets *words to that of the vocabulary. */
int segmenter_size(const Segmenter *segmenter, int *words);

typedef enum {
    SEGMENT_LINE,      /* a line becomes a line */
    SEGMENT_SENTENCES, /* each sentence of the line becomes a line: they end with \n, but for the last */
    SEGMENT_TOKENIZED  /* the line is in tokens already: it is split at blanks only */
} SegmentMode;

/* Returns a line segmented, without \n at its end, a zero byte behind; free(). Bytes that belong to no character of
 * UTF-8 stay, as letters of no class. */
char *segmenter_run(const Segmenter *segmenter, SegmentMode mode, const char *text, size_t size, size_t *out_size);
/* Returns the tokens of a line, a blank between any two, a zero byte behind; free(). */
char *segmenter_tokens(const Segmenter *segmenter, const char *text, size_t size, size_t *out_size);
