/* Any bytes as a list of recordings in each format, as a part of a good list, as the text of a file in a folder, and
 * as a file of Kaldi: the first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "data/gpt/recordings_read.h"
#include "tests/fuzz/fuzz_file.h"

/* FOLDER_KALDI and what follows: the bytes are one of the files of such a folder. */
enum { LIST, FOLDER, FOLDER_LAB, FOLDER_KALDI };
static const struct {
    int in_folder;
    const char *before, *after;
    RecordingsSource source;
} places[] = {
    {LIST, "", "", {.path = "list.tsv"}},
    {LIST, "", "", {.path = "list.jsonl"}},
    {LIST, "a\tspeaker\taudio.wav\ttext\n", "\tspeaker\taudio.wav\ttext\n", {.path = "list.tsv"}},
    {LIST, "{\"id\": \"a\", \"speaker\": \"s\", \"audio\": \"a.wav\", \"text\": ", "}\n", {.path = "list.jsonl"}},
    {LIST,
     "{\"file\": \"a.wav\", \"text\": \"\"}\n{\"file\": ",
     "}\n",
     {.path = "list", .names = {[FIELD_AUDIO] = "file"}}},
    {LIST, "", "", {.path = "list"}},
    {LIST, "", "", {.path = "list", .format = RECORDINGS_TABLE, .names = {[FIELD_AUDIO] = "a", [FIELD_TEXT] = "b"}}},
    {LIST, "path\tsentence\tclient_id\nx.mp3\t", "\ts\n", {.path = "list"}},
    {LIST, "", "\taudio\ttext\na\tb\tc\n", {.path = "list"}},
    {LIST, "a|b|c\n", "|d", {.path = "metadata.csv"}},
    {LIST, "{\"audio\": \"a.wav\", \"text\": \"\", \"speaker\": 3, \"id\": ", "}\n", {.path = "list.jsonl"}},
    {LIST, "audio;text\na.wav;b\n", "", {.path = "list.csv"}},
    {LIST, "audio,text,id\na.wav,", "\nb.wav,c,d\n", {.path = "list.csv", .skip_bad = true}},
    {LIST, "[{\"audio\": \"a.wav\", \"text\": ", "},\n{}]", {.path = "list.json", .skip_bad = true}},
    {LIST, "{\n\"a\": ", "\n}\n", {.path = "list.json"}},
    {LIST, "1\n00:0", ",000 --> 00:00:04,000\n", {.path = "list.txt"}},
    {LIST, "audio_file|text|speaker_name\na.wav|", "|anna\n", {.path = "metadata.csv"}},
    {LIST, "wavs/a.wav|s|am|b\n", "|s|am|b\n", {.path = "all.list"}},
    {LIST, "a/b.wav|one|s\na/c.wav|two|s\n", "|three|t\n", {.path = "list.txt"}},
    {LIST, "1\ta.wav\tx\ty\tz\t7\tMALE\n", "\ta\tb\tc\td\t5\tMALE\n", {.path = "dev.tsv"}},
    {LIST, "a\tb.wav\tc\n", "", {.path = "l.tsv", .names = {[FIELD_AUDIO] = "2", [FIELD_TEXT] = "3"}}},
    {LIST, "{\"audio\": \"a.wav\", \"text\": \"b\", \"duration\": 2, \"offset\": ", "}\n", {.path = "list.jsonl"}},
    {LIST, "audio\ttext\tstart\tend\na.wav\tb\t", "\n", {.path = "l.tsv"}},
    {FOLDER, "", "", {.path = "list"}},
    {FOLDER_LAB, "", "", {.path = "list"}},
    {FOLDER_KALDI, "", "", {.path = "wav.scp"}},
    {FOLDER_KALDI, "", "", {.path = "text"}},
    {FOLDER_KALDI, "", "", {.path = "segments"}},
    {FOLDER_KALDI, "", "", {.path = "utt2spk"}},
};
enum { PLACES = sizeof places / sizeof *places };

static void write_in(const char *folder, const char *name, const char *bytes, size_t size) {
    char *path = path_join(folder, name);
    fuzz_write(path, bytes, size);
    free(path);
}

static bool read_as_kaldi(const char *name, const char *bytes, size_t size, Recordings *all, Error *error) {
    static const char *const files[][2] = {{"wav.scp", "a x.wav\nb x.wav\n"},
                                           {"text", "a one\nb two\n"},
                                           {"segments", "a a 0 1\nb a 1 2\n"},
                                           {"utt2spk", "a s\nb s\n"}};
    char *folder = path_join(fuzz_directory(), "kaldi");
    make_directories(folder);
    for (int i = 0; i < 4; i++) {
        bool chosen = !strcmp(files[i][0], name);
        write_in(folder, files[i][0], chosen ? bytes : files[i][1], chosen ? size : strlen(files[i][1]));
    }
    bool ok = recordings_read(&(RecordingsSource){.path = folder}, all, error);
    free(folder);
    return ok;
}

static bool read_as_folder(const char *name, const char *bytes, size_t size, Recordings *all, Error *error) {
    char *folder = path_join(fuzz_directory(), name);
    make_directories(folder);
    write_in(folder, name, bytes, size);
    write_in(folder, "x.wav", "", 0);
    bool ok = recordings_read(&(RecordingsSource){.path = folder}, all, error);
    free(folder);
    return ok;
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
    const int kind = places[place].in_folder;
    bool ok = kind == FOLDER         ? read_as_folder("x.txt", text, n, &all, &error)
              : kind == FOLDER_LAB   ? read_as_folder("x.lab", text, n, &all, &error)
              : kind == FOLDER_KALDI ? read_as_kaldi(places[place].source.path, text, n, &all, &error)
                                     : recordings_parse(text, before + n + after, &places[place].source, &all, &error);
    if (ok) {
        for (int64_t i = 0; i < all.count; i++) {
            const Recording *r = &all.items[i];
            if (!*r->id || strchr(r->id, '/') || *r->id == '.' || strlen(r->id) > 200) abort();
            if (!*r->speaker || !*r->audio || !r->text || r->line < 1) abort();
            if (r->language && !*r->language) abort();
            if (!(r->from >= 0) || !(r->to > r->from) || !(r->stated >= 0)) abort();
        }
    } else if (!error.text[0] || all.count) {
        abort();
    }
    recordings_close(&all);
    free(text);
    return 0;
}
