/* Expands the ranges of character classes into one table. */
#include "data/text/characters.h"

#include "data/text/character_ranges.h"

static uint8_t classes[CHARACTER_END];

static void mark_ranges(const uint32_t (*ranges)[2], size_t n, uint8_t class) {
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = ranges[i][0]; c <= ranges[i][1]; c++) classes[c] |= class;
}

static void make_classes(void) {
    static const uint32_t separators[][2] = {{0x1C, 0x1F}};
    mark_ranges(letters, sizeof letters / sizeof *letters, CHARACTER_LETTER);
    mark_ranges(numbers, sizeof numbers / sizeof *numbers, CHARACTER_NUMBER);
    mark_ranges(spaces, sizeof spaces / sizeof *spaces, CHARACTER_SPACE | CHARACTER_BLANK);
    mark_ranges(separators, sizeof separators / sizeof *separators, CHARACTER_BLANK);
    mark_ranges(punctuation, sizeof punctuation / sizeof *punctuation, CHARACTER_PUNCTUATION);
    mark_ranges(marks, sizeof marks / sizeof *marks, CHARACTER_MARK);
}

const uint8_t *character_classes(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_classes);
    return classes;
}
