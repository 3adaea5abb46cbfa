#include "data/bert/bag_of_words.h"

#include <stdlib.h>
#include <string.h>
#include <unicase.h>

#include "data/bert/texts.h"
#include "data/text/characters.h"

/* Returns the text in normal form C and in lower case; free(). */
static char *lower(const char *text, size_t *size) {
    size_t n;
    OWNED char *normal = texts_normal(text, &n);
    uint8_t *out = u8_tolower((const uint8_t *)normal, n, NULL, NULL, NULL, size);
    if (!out) die("out of memory");
    return (char *)out;
}

static bool is_of_word(uint32_t c) { return character_classes()[c] & (CHARACTER_LETTER | CHARACTER_NUMBER); }

/* Returns the end of the word at `at`, which is no blank. */
static const char *word_end(const char *at, const char *end) {
    uint32_t c;
    size_t bytes = character_at(at, end, &c);
    if (!is_of_word(c)) return at + bytes;
    do at += bytes;
    while ((bytes = character_at(at, end, &c)) && is_of_word(c)); /* there are no bytes at the end, nor a class */
    return at;
}

typedef struct {
    Strings *words;
    bool learn;
    SparseRows rows;
} Bag;

static void add(Bag *bag, const char *word, size_t size) {
    int64_t column = bag->learn ? strings_add(bag->words, word, size) : strings_find(bag->words, word, size);
    if (column < 0) return;
    int64_t *used = &bag->rows.first[bag->rows.n + 1];
    bag->rows.columns = xgrow(bag->rows.columns, (size_t)*used, sizeof *bag->rows.columns);
    bag->rows.columns[(*used)++] = (int32_t)column;
}

static void add_text(Bag *bag, const char *text, int longest) {
    size_t size;
    OWNED char *words = lower(text, &size);
    OWNED char *pair = xmalloc(size + 2);
    const char *before = NULL, *before_end = NULL;
    for (const char *at = words, *end = words + size; at < end;) {
        if (*at == ' ') {
            at++;
            continue;
        }
        const char *stop = word_end(at, end);
        add(bag, at, (size_t)(stop - at));
        if (longest > 1 && before) {
            size_t n = (size_t)(before_end - before), m = (size_t)(stop - at);
            memcpy(pair, before, n);
            pair[n] = ' ';
            memcpy(pair + n + 1, at, m);
            add(bag, pair, n + 1 + m);
        }
        before = at, before_end = at = stop;
    }
}

SparseRows bag_of_words(Strings *words, const char *const *texts, int64_t n, int longest, bool learn) {
    Bag bag = {.words = words, .learn = learn};
    bag.rows.first = xcalloc((size_t)n + 1, sizeof *bag.rows.first);
    for (; bag.rows.n < n; bag.rows.n++) {
        bag.rows.first[bag.rows.n + 1] = bag.rows.first[bag.rows.n];
        add_text(&bag, texts[bag.rows.n], longest);
    }
    return bag.rows;
}
