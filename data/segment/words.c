#include "data/segment/words.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_JOINED = 4 }; /* words that are joined by a list, or as a name */

static bool is_all(const SentenceWord *word, unsigned classes) {
    for (const Symbol *at = word->span.begin; at < word->span.end; at++)
        if (!symbol_is(*at, classes)) return false;
    return true;
}

static bool begins(const SentenceWord *word, unsigned classes) { return symbol_is(*word->span.begin, classes); }

static void split(Sentence *s, const Lexicon *lexicon) {
    const Symbol *at = s->text.symbols, *end = at + s->text.n;
    char *lower = s->lower;
    for (;;) {
        while (at < end && symbol_is_space(*at)) at++;
        if (at == end) break;
        SentenceWord *word = &s->words[s->n];
        word->span.begin = at;
        while (at < end && !symbol_is_space(*at)) at++;
        word->span.end = at;
        if (s->n) *lower++ = ' ';
        word->lower = (size_t)(lower - s->lower);
        lower = symbols_to_lower(&s->text, word->span, lower);
        word->lower_end = (size_t)(lower - s->lower);
        const int64_t number = strings_find(&lexicon->words, s->lower + word->lower, word->lower_end - word->lower);
        s->numbers[s->n++] = number < 0 ? RULE_UNKNOWN : (int32_t)number;
    }
}

/* Returns how many words from number i on are joined by the vocabulary or the list of places; 1: none. */
static size_t joined_words(const Sentence *s, const Lexicon *lexicon, size_t i) {
    for (size_t n = s->n - i < MAX_JOINED ? s->n - i : MAX_JOINED; n > 1; n--) {
        const size_t begin = s->words[i].lower, end = s->words[i + n - 1].lower_end;
        const int64_t number = strings_find(&lexicon->words, s->lower + begin, end - begin);
        if (lexicon_lists(lexicon, number) & (LEXICON_VOCABULARY | LEXICON_PLACE)) return n;
    }
    return 1;
}

/* Returns whether it stands for a bracket in treebanks. */
static bool is_bracket(const Sentence *s, const SentenceWord *word) {
    const char *text = s->text.bytes + s->text.offsets[word->span.begin - s->text.symbols];
    return word->span.end - word->span.begin == 4 && (!memcmp(text, "LBKT", 4) || !memcmp(text, "RBKT", 4));
}

/* Returns how many words of a name begin at number i. */
static size_t name_words(const Sentence *s, const Lexicon *lexicon, size_t i) {
    const SentenceWord *word = &s->words[i];
    size_t n = 1;
    if (lexicon_lists(lexicon, s->numbers[i]) & LEXICON_ALONE || begins(word, UNIT_LOWER) || is_all(word, UNIT_UPPER))
        return 1;
    while (n < MAX_JOINED && i + n < s->n && !begins(word + n, UNIT_LOWER) && is_all(word + n, UNIT_LETTER) &&
           !is_bracket(s, word + n))
        n++;
    return n;
}

/* Returns whether a name that begins with word i continues the family name before it. */
static bool continues_name(const Sentence *s, const Lexicon *lexicon, size_t i) {
    return i && lexicon_lists(lexicon, s->numbers[i]) & LEXICON_MIDDLE_NAME && begins(&s->words[i - 1], UNIT_UPPER) &&
           lexicon_lists(lexicon, s->numbers[i - 1]) & LEXICON_FAMILY_NAME;
}

static void tag(Sentence *s, const Lexicon *lexicon) {
    for (size_t i = 0, n; i < s->n; i += n) {
        const SentenceWord *word = &s->words[i];
        const bool next_is_upper = i + 1 < s->n && begins(word + 1, UNIT_UPPER);
        s->tags[i] = TAG_B;
        n = 1;
        if (!is_all(word, UNIT_LETTER) || (begins(word, UNIT_LOWER) && next_is_upper)) continue;
        n = joined_words(s, lexicon, i);
        if (n == 1) {
            n = name_words(s, lexicon, i);
            if (n > 1 && continues_name(s, lexicon, i)) s->tags[i] = TAG_I;
        }
        for (size_t k = 1; k < n; k++) s->tags[i + k] = TAG_I;
    }
}

Sentence sentence_tag(const Lexicon *lexicon, const char *text, size_t size) {
    Sentence s = {.text = symbol_text(text, size), .lower = xmalloc(size + 1)};
    const size_t most = s.text.n / 2 + 1; /* words, with spaces between */
    s.words = xmalloc(most * sizeof *s.words);
    s.numbers = (int32_t *)xmalloc((most + 2 * RULE_REACH) * sizeof *s.numbers) + RULE_REACH;
    s.tags = (int8_t *)xmalloc(most + 2 * RULE_REACH) + RULE_REACH;
    split(&s, lexicon);
    tag(&s, lexicon);
    for (size_t i = 1; i <= RULE_REACH; i++) {
        s.numbers[-(ptrdiff_t)i] = s.numbers[s.n + i - 1] = RULE_BORDER;
        s.tags[-(ptrdiff_t)i] = s.tags[s.n + i - 1] = RULE_BORDER;
    }
    return s;
}

void sentence_free(Sentence *s) {
    symbol_text_free(&s->text);
    FREE(s->words, s->lower, s->numbers - RULE_REACH, s->tags - RULE_REACH);
}
