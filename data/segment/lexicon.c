#include "data/segment/lexicon.h"

#include <stdlib.h>
#include <string.h>

#include "data/segment/lists.h"

uint32_t lexicon_add(Lexicon *lexicon, const char *word, size_t size, unsigned lists) {
    const uint32_t number = strings_add(&lexicon->words, word, size);
    if (number >= lexicon->capacity) {
        const uint32_t before = lexicon->capacity;
        lexicon->capacity = 2 * number + 64;
        lexicon->lists = xrealloc(lexicon->lists, lexicon->capacity);
        memset(lexicon->lists + before, 0, lexicon->capacity - before);
    }
    lexicon->lists[number] |= (uint8_t)lists;
    return number;
}

static void add_list(Lexicon *lexicon, const SegmentList *list, unsigned lists) {
    for (int i = 0; i < list->n; i++) lexicon_add(lexicon, list->entries[i], strlen(list->entries[i]), lists);
}

void lexicon_add_names(Lexicon *lexicon) {
    add_list(lexicon, &segment_places, LEXICON_PLACE);
    add_list(lexicon, &segment_alone, LEXICON_ALONE);
    add_list(lexicon, &segment_middle_names, LEXICON_MIDDLE_NAME);
    add_list(lexicon, &segment_family_names, LEXICON_FAMILY_NAME);
}

void lexicon_free(Lexicon *lexicon) {
    strings_free(&lexicon->words);
    free(lexicon->lists);
    *lexicon = (Lexicon){0};
}
