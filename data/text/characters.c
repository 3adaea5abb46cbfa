/* Expands the ranges of character classes into one table. */
#include "data/text/characters.h"

#include "data/text/character_ranges.h"

static uint8_t classes[CHARACTER_END];

void characters_mark(uint8_t *of, const uint32_t (*ranges)[2], size_t n, uint32_t step, uint8_t class) {
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = ranges[i][0]; c <= ranges[i][1]; c += step) of[c] |= class;
}

static void make_classes(void) {
    static const uint32_t separators[][2] = {{0x1C, 0x1F}};
    CHARACTERS_MARK(classes, letters, 1, CHARACTER_LETTER);
    CHARACTERS_MARK(classes, numbers, 1, CHARACTER_NUMBER);
    CHARACTERS_MARK(classes, spaces, 1, CHARACTER_SPACE | CHARACTER_BLANK);
    CHARACTERS_MARK(classes, separators, 1, CHARACTER_BLANK);
    CHARACTERS_MARK(classes, punctuation, 1, CHARACTER_PUNCTUATION);
    CHARACTERS_MARK(classes, marks, 1, CHARACTER_MARK);
}

const uint8_t *character_classes(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_classes);
    return classes;
}
