#include "tests/gpt/recordings_rig.h"

#include "base/file.h"

Recordings parse_recordings(RecordingsSource source, const char *text) {
    Recordings all;
    Error error;
    if (!recordings_parse(text, strlen(text), &source, &all, &error)) fail_msg("%s", error.text);
    return all;
}

void check_recording(const Recordings *all, int64_t i, const char *id, const char *speaker, const char *audio,
                     const char *text) {
    assert_true(i < all->count);
    const Recording *r = &all->items[i];
    assert_string_equal(r->id, id);
    assert_string_equal(r->speaker, speaker);
    assert_string_equal(r->audio, audio);
    assert_string_equal(r->text, text);
}

char *make_recordings_folder(const char *name, const char *const (*files)[2], int n) {
    char *folder = kept_path(corpus_root, name);
    for (int i = 0; i < n; i++) {
        char *path = kept_path(folder, files[i][0]), *parent = keep(path_directory(path));
        make_directories(parent);
        write_text(path, "%s", files[i][1] ? files[i][1] : "");
    }
    return folder;
}
