/* The rule tree of a file Model.RDR, which corrects the tags of words.
 *
 * A line is a rule, and a child of the nearest line above with fewer tabs; the first line is the root:
 *
 *     TAB{d}  object.KEY == "VALUE" [and object.KEY == "VALUE"]... : object.conclusion = "B" or "I"
 *
 * Keys are word and tag of the position itself, prevWord1, prevTag1, prevWord2, prevTag2 of those before and nextWord1,
 * nextTag1, nextWord2, nextTag2 of those behind. An empty value means that there is no such position. */
#pragma once

#include "data/segment/lexicon.h"

typedef enum { TAG_B, TAG_I } SegmentTag; /* begins a word; continues it */

/* Values for a word that the lexicon does not have, and for no position. */
enum { RULE_UNKNOWN = -1, RULE_BORDER = -2, RULE_REACH = 2 };

typedef struct Rules Rules;

/* Reads the rules; their words get the first numbers of the lexicon, which must be empty. NULL: an error that names the
 * line. */
Rules *rules_read(const char *bytes, size_t size, Lexicon *lexicon, Error *error);
void rules_free(Rules *rules);
int rules_count(const Rules *rules);

/* Returns the tag of a position whose word is *word and whose tag is *tag, both between RULE_REACH others on each side:
 * the conclusion of the deepest rule that holds, where of siblings the first one that holds counts; *tag if there is
 * none. `word`: numbers in the lexicon. */
SegmentTag rules_apply(const Rules *rules, const int32_t *word, const int8_t *tag);
