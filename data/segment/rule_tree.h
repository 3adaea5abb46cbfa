/* A rule tree in memory, for data/segment/rules.c and rules_read.c. */
#pragma once

#include <stdint.h>

/* The keys, in the order in which rules are indexed by them: the word itself first. No key: a rule without words. */
enum { RULE_WORD_KEYS = 5, RULE_NO_KEY = RULE_WORD_KEYS, RULE_KEYS = 10 };

typedef struct {
    int8_t key; /* below RULE_WORD_KEYS a word, then the same positions' tags */
    int32_t value;
} RuleCondition;

typedef struct {
    RuleCondition conditions[RULE_KEYS];
    int n_conditions;
    int32_t parent, index_value;
    int8_t index_key;
    uint8_t conclusion;
} Rule;

struct Rules {
    Rule *rules; /* [n] in the order of the file; the root first */
    int32_t n, capacity;
    int32_t *order;    /* [n - 1] rules by parent, index_key, index_value, place in the file */
    int32_t *children; /* [n + 1] where those of each parent begin in `order` */
    uint32_t n_words;
    uint8_t *keys; /* [n_words] a bit for each key that indexes rules by this word */
};

/* Where each key looks, from the position that is judged. */
static const int8_t rule_offsets[RULE_WORD_KEYS] = {0, -1, 1, -2, 2};
