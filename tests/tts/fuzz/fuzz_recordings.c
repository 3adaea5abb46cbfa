/* Any bytes as a list of recordings in each format, as a part of a good list, and as the text of a file in a folder:
 * the first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "data/tts/recordings_read.h"
#include "tests/fuzz/fuzz_file.h"

static const struct {
    bool in_folder;
    const char *before, *after;
    RecordingsSource source;
} places[] = {
    {false, "", "", {.path = "list.tsv"}},
    {false, "", "", {.path = "list.jsonl"}},
    {false, "a\tspeaker\taudio.wav\ttext\n", "\tspeaker\taudio.wav\ttext\n", {.path = "list.tsv"}},
    {false, "{\"id\": \"a\", \"speaker\": \"s\", \"audio\": \"a.wav\", \"text\": ", "}\n", {.path = "list.jsonl"}},
    {false,
     "{\"file\": \"a.wav\", \"text\": \"\"}\n{\"file\": ",
     "}\n",
     {.path = "list", .names = {[FIELD_AUDIO] = "file"}}},
    {false, "", "", {.path = "list"}},
    {false, "", "", {.path = "list", .format = RECORDINGS_TABLE, .names = {[FIELD_AUDIO] = "a", [FIELD_TEXT] = "b"}}},
    {false, "path\tsentence\tclient_id\nx.mp3\t", "\ts\n", {.path = "list"}},
    {false, "", "\taudio\ttext\na\tb\tc\n", {.path = "list"}},
    {false, "a|b|c\n", "|d", {.path = "metadata.csv"}},
    {false, "{\"audio\": \"a.wav\", \"text\": \"\", \"speaker\": 3, \"id\": ", "}\n", {.path = "list.jsonl"}},
    {false, "audio;text\na.wav;b\n", "", {.path = "list.csv"}},
    {false, "audio,text,id\na.wav,", "\nb.wav,c,d\n", {.path = "list.csv", .skip_bad = true}},
    {false, "[{\"audio\": \"a.wav\", \"text\": ", "},\n{}]", {.path = "list.json", .skip_bad = true}},
    {true, "", "", {.path = "list"}},
};
enum { PLACES = sizeof places / sizeof *places };

static bool read_as_folder(const char *bytes, size_t size, Recordings *all, Error *error) {
    const char *folder = fuzz_directory();
    char *text = path_join(folder, "x.txt"), *audio = path_join(folder, "x.wav");
    fuzz_write(text, bytes, size);
    fuzz_write(audio, "", 0);
    free(text);
    free(audio);
    return recordings_read(&(RecordingsSource){.path = folder}, all, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int place = size ? data[0] % PLACES : 0;
    const char *head = places[place].before, *tail = places[place].after;
    size_t before = strlen(head), after = strlen(tail), n = size ? size - 1 : 0;
    char *text = malloc(before + n + after + 1);
    memcpy(text, head, before);
    if (n) memcpy(text + before, data + 1, n);
    memcpy(text + before + n, tail, after + 1);
    Recordings all;
    Error error = {.text = ""};
    bool ok = places[place].in_folder ? read_as_folder(text, n, &all, &error)
                                      : recordings_parse(text, before + n + after, &places[place].source, &all, &error);
    if (ok) {
        for (int64_t i = 0; i < all.count; i++) {
            const Recording *r = &all.items[i];
            if (!*r->id || strchr(r->id, '/') || *r->id == '.' || strlen(r->id) > 200) abort();
            if (!*r->speaker || !*r->audio || !r->text || r->line < 1) abort();
            if (r->language && !*r->language) abort();
        }
    } else if (!error.text[0] || all.count) {
        abort();
    }
    recordings_close(&all);
    free(text);
    return 0;
}
