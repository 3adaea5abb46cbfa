#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "data/segment/rule_tree.h"
#include "data/segment/rules.h"

static const char *const key_names[RULE_KEYS] = {"word", "prevWord1", "nextWord1", "prevWord2", "nextWord2",
                                                 "tag",  "prevTag1",  "nextTag1",  "prevTag2",  "nextTag2"};

/* Steps over a text at *at. */
static bool take(const char **at, const char *end, const char *text) {
    const size_t n = strlen(text);
    if ((size_t)(end - *at) < n || memcmp(*at, text, n) != 0) return false;
    *at += n;
    return true;
}

/* Steps over characters up to `stop`, which is stepped over too. Returns their number; -1: it does not come. */
static int take_until(const char **at, const char *end, char stop) {
    const char *found = memchr(*at, stop, (size_t)(end - *at));
    if (!found || found - *at > INT32_MAX) return -1;
    const int n = (int)(found - *at);
    *at = found + 1;
    return n;
}

/* Sets *value to the number of a condition's value. */
static bool read_value(const char *text, int size, int key, Lexicon *lexicon, int32_t *value, Error *error) {
    if (!size)
        *value = RULE_BORDER;
    else if (key < RULE_WORD_KEYS)
        *value = (int32_t)lexicon_add(lexicon, text, (size_t)size, 0);
    else if (size == 1 && (*text == 'B' || *text == 'I'))
        *value = *text == 'I' ? TAG_I : TAG_B;
    else
        return error_set(error, "tag \"%.*s\"; expected B, I or nothing", size, text);
    return true;
}

/* Reads object.KEY == "VALUE". */
static bool read_condition(const char **at, const char *end, Rule *rule, Lexicon *lexicon, Error *error) {
    int key = -1;
    if (!take(at, end, "object."))
        return error_set(error, "expected object.KEY == \"VALUE\", found \"%.*s\"",
                         (int)(end - *at < 40 ? end - *at : 40), *at);
    const char *name = *at;
    const int n = take_until(at, end, ' ');
    for (int k = 0; k < RULE_KEYS && key < 0; k++)
        if (n == (int)strlen(key_names[k]) && !memcmp(name, key_names[k], (size_t)n)) key = k;
    if (key < 0)
        return error_set(error, "unknown key \"%.*s\"; expected word, tag, prevWord1, prevTag1 and so on",
                         n < 0 ? (int)(end - name) : n, name);
    for (int i = 0; i < rule->n_conditions; i++)
        if (rule->conditions[i].key == key) return error_set(error, "the key %s is there twice", key_names[key]);
    if (!take(at, end, "== \"")) return error_set(error, "expected == \"VALUE\" behind the key %s", key_names[key]);
    const char *value = *at;
    const int size = take_until(at, end, '"');
    if (size < 0) return error_set(error, "the value of %s has no closing quotation mark", key_names[key]);
    RuleCondition *condition = &rule->conditions[rule->n_conditions++];
    condition->key = (int8_t)key;
    return read_value(value, size, key, lexicon, &condition->value, error);
}

/* Reads a line from behind its tabs. */
static bool read_rule(const char *at, const char *end, Rule *rule, Lexicon *lexicon, Error *error) {
    do
        if (!read_condition(&at, end, rule, lexicon, error)) return false;
    while (take(&at, end, " and "));
    if (!take(&at, end, " : object.conclusion = \"") || end - at != 2 || (*at != 'B' && *at != 'I') || at[1] != '"')
        return error_set(error, "expected ` : object.conclusion = \"B\"` or \"I\" at the end");
    rule->conclusion = *at == 'I' ? TAG_I : TAG_B;
    return true;
}

/* Chooses what a rule is indexed by: its first word in the order of the keys, a border only if it has no other. */
static void choose_index(Rule *rule) {
    int best = 2 * RULE_WORD_KEYS;
    rule->index_key = RULE_NO_KEY;
    for (int i = 0; i < rule->n_conditions; i++) {
        const RuleCondition *c = &rule->conditions[i];
        const int rank = c->key + (c->value == RULE_BORDER ? RULE_WORD_KEYS : 0);
        if (c->key >= RULE_WORD_KEYS || rank >= best) continue;
        best = rank;
        rule->index_key = c->key;
        rule->index_value = c->value;
    }
}

static int compare_rules(const void *a, const void *b, void *rules) {
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const Rule *x = (const Rule *)rules + i, *y = (const Rule *)rules + j;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    if (x->index_key != y->index_key) return x->index_key - y->index_key;
    if (x->index_value != y->index_value) return x->index_value < y->index_value ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* Sorts the rules for rules_apply. */
static void make_index(Rules *r, const Lexicon *lexicon) {
    r->n_words = lexicon->words.n;
    r->keys = xcalloc(r->n_words + 1, 1);
    r->order = xmalloc((size_t)r->n * sizeof *r->order);
    r->children = xcalloc((size_t)r->n + 1, sizeof *r->children);
    for (int32_t i = 1; i < r->n; i++) {
        Rule *rule = &r->rules[i];
        choose_index(rule);
        if (rule->index_key != RULE_NO_KEY && rule->index_value >= 0)
            r->keys[rule->index_value] |= (uint8_t)(1 << rule->index_key);
        r->order[i - 1] = i;
        r->children[rule->parent + 1]++;
    }
    for (int32_t i = 0; i < r->n; i++) r->children[i + 1] += r->children[i];
    qsort_r(r->order, (size_t)r->n - 1, sizeof *r->order, compare_rules, r->rules);
}

/* Reads a line into the next rule. last: the last rule of each depth. */
static bool read_line(Rules *r, const char *at, const char *end, int32_t *last, int *depth, Lexicon *lexicon,
                      Error *error) {
    const char *text = at;
    Rule *rule = &r->rules[r->n];
    if (!r->n) {
        if (take(&at, end, "True : object.conclusion = \"") && take_until(&at, end, '"') >= 0 && at == end) {
            *last = r->n++;
            return true;
        }
        return error_set(error, "expected the root, True : object.conclusion = \"NN\": this is no file of rules "
                                "(Model.RDR, wordsegmenter.rdr)");
    }
    while (at < end && *at == '\t') at++;
    if (at == text || at - text > *depth + 1)
        return error_set(error, "%td tabs; expected 1 to %d, at most one more than in the line before", at - text,
                         *depth + 1);
    *depth = (int)(at - text);
    rule->parent = last[*depth - 1];
    if (!read_rule(at, end, rule, lexicon, error)) return false;
    last[*depth] = r->n++;
    return true;
}

/* Reads all lines. */
static bool read_lines(Rules *r, const char *bytes, size_t size, Lexicon *lexicon, Error *error) {
    OWNED int32_t *last = xcalloc((size_t)r->capacity, sizeof *last);
    int depth = 0;
    for (const char *at = bytes, *end = bytes + size, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        bool ok = !stop ? error_set(error, "the file ends in the middle of this line")
                  : u8_check((const uint8_t *)at, (size_t)(stop - at))
                      ? error_set(error, "it is not UTF-8")
                      : read_line(r, at, stop, last, &depth, lexicon, error);
        if (!ok) return error_before(error, "line %d: ", r->n + 1);
    }
    return true;
}

Rules *rules_read(const char *bytes, size_t size, Lexicon *lexicon, Error *error) {
    Rules *r = xcalloc(1, sizeof *r);
    size_t lines = 1;
    for (size_t i = 0; i < size; i++) lines += bytes[i] == '\n';
    if (lines > INT32_MAX / 2) {
        error_set(error, "%zu lines are too many", lines);
        rules_free(r);
        return NULL;
    }
    r->capacity = (int32_t)lines;
    r->rules = xcalloc(lines, sizeof *r->rules);
    if (!read_lines(r, bytes, size, lexicon, error)) {
        rules_free(r);
        return NULL;
    }
    if (r->n < 2) {
        error_set(error, "line %d: the file ends without a rule", r->n + 1);
        rules_free(r);
        return NULL;
    }
    make_index(r, lexicon);
    return r;
}
