/* A rule has hundreds of children at depth 2. Only two groups of them are tried: those indexed under a word at or near
 * the position, and those without a word condition. */
#include "data/segment/rules.h"

#include <stdlib.h>

#include "data/segment/rule_tree.h"

void rules_free(Rules *rules) {
    if (!rules) return;
    FREE(rules->rules, rules->order, rules->children, rules->keys, rules);
}

int rules_count(const Rules *rules) { return rules->n - 1; }

static bool holds(const Rule *rule, const int32_t *word, const int8_t *tag) {
    for (int i = 0; i < rule->n_conditions; i++) {
        const RuleCondition *c = &rule->conditions[i];
        const int32_t value =
            c->key < RULE_WORD_KEYS ? word[rule_offsets[c->key]] : tag[rule_offsets[c->key - RULE_WORD_KEYS]];
        if (value != c->value) return false;
    }
    return true;
}

/* Returns where the children with this key and value, or later ones, begin in `order`. */
static int32_t find_children(const Rules *r, int32_t parent, int key, int32_t value) {
    int32_t low = r->children[parent], high = r->children[parent + 1];
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const Rule *rule = &r->rules[r->order[middle]];
        if (rule->index_key < key || (rule->index_key == key && rule->index_value < value))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the first child that holds, 0: none. */
static int32_t first_child(const Rules *r, int32_t parent, const int32_t *word, const int8_t *tag) {
    int32_t best = 0;
    const int32_t end = r->children[parent + 1];
    if (r->children[parent] == end) return 0;
    for (int key = 0; key <= RULE_NO_KEY; key++) {
        const int32_t value = key < RULE_NO_KEY ? word[rule_offsets[key]] : 0;
        if (key < RULE_NO_KEY && value != RULE_BORDER &&
            (value < 0 || (uint32_t)value >= r->n_words || !(r->keys[value] >> key & 1)))
            continue;
        for (int32_t i = find_children(r, parent, key, value); i < end; i++) {
            const Rule *rule = &r->rules[r->order[i]];
            if (rule->index_key != key || rule->index_value != value || (best && r->order[i] > best)) break;
            if (holds(rule, word, tag)) {
                best = r->order[i];
                break;
            }
        }
    }
    return best;
}

SegmentTag rules_apply(const Rules *rules, const int32_t *word, const int8_t *tag) {
    SegmentTag answer = (SegmentTag)*tag;
    for (int32_t rule = 0; (rule = first_child(rules, rule, word, tag));)
        answer = (SegmentTag)rules->rules[rule].conclusion;
    return answer;
}
