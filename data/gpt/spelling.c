/* Counts the characters of Amharic texts whose sound does not follow from them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unictype.h>
#include <unistr.h>

#include "data/gpt/prepare.h"
#include "data/text/characters.h"
#include "data/text/unknown.h"

enum { DIGITS, LATIN, SYMBOLS, KINDS, SPOKEN };
static const char *const names[KINDS] = {"digits", "Latin letters", "other characters"};

/* Returns what a character of a normalised text is; SPOKEN: an Ethiopic letter, a blank, or a mark that the
 * normalisation leaves. */
static int kind_of(ucs4_t c) {
    enum { FIRST_NUMBER = 0x1369, LAST_NUMBER = 0x137C };
    const uc_script_t *script = uc_script(c);
    if (c < 0x80 && (c == ' ' || strchr(".,;:?!'-", (int)c))) return SPOKEN;
    if (c == 0x2026) return SPOKEN; /* what stands for three dots */
    if (uc_is_general_category(c, UC_DECIMAL_DIGIT_NUMBER) || (c >= FIRST_NUMBER && c <= LAST_NUMBER)) return DIGITS;
    if (script && !strcmp(script->name, "Latin")) return LATIN;
    bool letter = uc_is_general_category(c, UC_CATEGORY_L) || uc_is_general_category(c, UC_CATEGORY_M);
    return letter && script && !strcmp(script->name, "Ethiopic") ? SPOKEN : SYMBOLS;
}

/* Returns whether a language is "am", "am-ET", "amh" or the like. */
static bool is_amharic(const char *language) {
    size_t n = strncasecmp(language, "am", 2) ? 0 : strncasecmp(language, "amh", 3) ? 2 : 3;
    return n && !isalpha((unsigned char)language[n]);
}

void prepare_check_spelling(const Prepare *p, const char *language) {
    Unknown found[KINDS] = {{.pieces = 0}};
    int64_t texts = 0, with = 0;
    const Recording *first = NULL;
    for (int64_t i = 0; i < p->n; i++) {
        const Clip *clip = &p->clips[i];
        const char *own = clip->recording->language;
        bool has = false;
        ucs4_t c;
        if (clip->reject != CLIP_KEPT || !is_amharic(own ? own : language)) continue;
        texts++;
        for (const uint8_t *at = (const uint8_t *)clip->normalized; (at = u8_next(&c, at));) {
            int kind = kind_of(c);
            if (kind == SPOKEN) continue;
            if (!found[kind].characters)
                found[kind].characters = xcalloc(CHARACTER_NONE + 1, sizeof *found[kind].characters);
            found[kind].characters[c]++;
            has = true;
        }
        with += has;
        if (has && !first) first = clip->recording;
    }
    OWNED char *list = xstrdup("");
    for (int kind = 0; kind < KINDS; kind++) {
        if (!found[kind].characters) continue;
        OWNED char *characters = unknown_characters(&found[kind]);
        xappend(&list, "%s%s (%s)", *list ? ", " : "", names[kind], characters);
        unknown_free(&found[kind]);
    }
    if (!first) return;
    OWNED char *place = recording_place(&p->recordings, first);
    warn("%lld of %lld Amharic texts have %s; the first: %s. Nothing says how they are spoken: write them out in "
         "Amharic words, or give the --language of the texts if it is another",
         (long long)with, (long long)texts, list, place);
}
