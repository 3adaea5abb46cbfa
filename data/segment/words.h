/* The words of a sentence, split at spaces, with the tags that a longest match in the lexicon gives. */
#pragma once

#include "data/segment/rules.h"
#include "data/segment/symbols.h"

typedef struct {
    SymbolSpan span;
    size_t lower, lower_end; /* where its lower case is in Sentence.lower */
} SentenceWord;

/* `numbers` and `tags` have RULE_REACH borders before the first word and behind the last. */
typedef struct {
    SymbolText text;
    SentenceWord *words; /* [n] */
    size_t n;
    char *lower;      /* the words in lower case, a blank between any two */
    int32_t *numbers; /* [n] in the lexicon; RULE_UNKNOWN */
    int8_t *tags;     /* [n] SegmentTag */
} Sentence;

/* Makes a sentence of a text, which must live as long, and tags its words. */
Sentence sentence_tag(const Lexicon *lexicon, const char *text, size_t size);
void sentence_free(Sentence *sentence);
