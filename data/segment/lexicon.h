/* All words that the segmenter knows, in lower case, numbered, with the lists that each is in. */
#pragma once

#include "data/text/strings.h"

enum {
    LEXICON_VOCABULARY = 1, /* the file VnVocab: words of several syllables, with a blank between */
    LEXICON_PLACE = 2,
    LEXICON_ALONE = 4, /* begins no name, though it is capitalised */
    LEXICON_MIDDLE_NAME = 8,
    LEXICON_FAMILY_NAME = 16
};

/* Begin with {0}. */
typedef struct {
    Strings words;
    uint8_t *lists; /* [words.n] */
    uint32_t capacity;
} Lexicon;

/* Adds a word to lists, or to none. Returns its number. */
uint32_t lexicon_add(Lexicon *lexicon, const char *word, size_t size, unsigned lists);
/* Adds the words of data/segment/lists.h. */
void lexicon_add_names(Lexicon *lexicon);
void lexicon_free(Lexicon *lexicon);
/* Returns the lists that a word is in. */
static inline unsigned lexicon_lists(const Lexicon *lexicon, int64_t word) {
    return word < 0 ? 0 : lexicon->lists[word];
}

/* Reads the words of a file VnVocab, a java.util.HashSet of strings as Java's ObjectOutputStream writes it. Errors name
 * the offset. */
bool vocabulary_read(const char *bytes, size_t size, Lexicon *lexicon, Error *error);
