/* Any bytes as a list of recordings, in tabs or in JSON, and as a field of a good line: the first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "data/tts/recordings.h"

static const char *const around[][2] = {
    {"", ""},
    {"", ""},
    {"a\tspeaker\taudio.wav\ttext\n", "\tspeaker\taudio.wav\ttext\n"},
    {"{\"id\": \"a\", \"speaker\": \"s\", \"audio\": \"a.wav\", \"text\": ", "}\n"}};
enum { PLACES = sizeof around / sizeof *around };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int place = size ? data[0] % PLACES : 0;
    size_t before = strlen(around[place][0]), after = strlen(around[place][1]), n = size ? size - 1 : 0;
    char *text = malloc(before + n + after + 1);
    memcpy(text, around[place][0], before);
    if (n) memcpy(text + before, data + 1, n);
    memcpy(text + before + n, around[place][1], after + 1);
    Recordings all;
    Error error = {.text = ""};
    if (recordings_parse(text, before + n + after, place % 2, &all, &error)) {
        for (int64_t i = 0; i < all.count; i++) {
            const Recording *r = &all.items[i];
            if (!*r->id || strchr(r->id, '/') || *r->id == '.' || strlen(r->id) > 200) abort();
            if (!*r->speaker || !*r->audio || !r->text || r->line < 1) abort();
        }
    } else if (!error.text[0] || all.count) {
        abort();
    }
    recordings_close(&all);
    free(text);
    return 0;
}
