/* Everything that reads a file of a name that a user gives: what is no regular file is refused by what it is, and no
 * reader waits for a FIFO's other end. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "data/audio.h"
#include "data/psd_manifest.h"
#include "data/psd_splits.h"
#include "data/recordings.h"
#include "data/tokenizer.h"
#include "data/torch_pth.h"
#include "tests/helpers.h"
#include "train/log.h"
#include "train/rates.h"

static bool read_audio(const char *path, Error *error) {
    Audio audio;
    return audio_read(path, 24000, 1, &audio, error);
}

static bool read_tensors(const char *path, Error *error) {
    TensorFile file;
    return tensor_file_open(path, &file, error);
}

static bool read_zip(const char *path, Error *error) {
    TensorFile file;
    return torch_pth_open(path, &file, error);
}

static bool read_tokenizer(const char *path, Error *error) { return tokenizer_open(path, error) != NULL; }

static bool read_json(const char *path, Error *error) { return json_read(path, 0, error) != NULL; }

static bool read_manifest(const char *path, Error *error) {
    PsdManifest manifest;
    return psd_manifest_read(path, &manifest, error);
}

static bool read_split(const char *path, Error *error) {
    PsdSplit split;
    return psd_split_read(path, NULL, 0, 1, &split, error);
}

static bool read_recordings(const char *path, Error *error) {
    Recordings recordings;
    return recordings_read(path, &recordings, error);
}

static bool read_rates(const char *path, Error *error) {
    Rates rates;
    return rates_read(path, "here", &rates, error);
}

/* It has no reason to give: what cannot be read has no records. */
static bool read_log(const char *path, Error *error) {
    json_t *records = log_read(path);
    bool some = json_array_size(records) > 0;
    json_decref(records);
    error_set(error, "not a regular file");
    return some;
}

static void what_is_no_regular_file_is_refused(void **state) {
    (void)state;
    bool (*const readers[])(const char *path, Error *error) = {read_audio, read_tensors,  read_zip,   read_tokenizer,
                                                               read_json,  read_manifest, read_split, read_recordings,
                                                               read_rates, read_log};
    char *directory = scratch_directory(), *fifo = path_join(directory, "x.tsv");
    char *folder = path_join(directory, "folder.tsv"), *link = path_join(directory, "zero.tsv");
    const char *const paths[] = {fifo, folder, link};
    assert_int_equal(mkfifo(fifo, 0666), 0);
    make_directories(folder);
    assert_int_equal(symlink("/dev/zero", link), 0);
    alarm(60); /* rather than wait for ever */
    for (size_t r = 0; r < sizeof readers / sizeof *readers; r++)
        for (int p = 0; p < 3; p++) {
            Error error = {""};
            if (readers[r](paths[p], &error)) fail_msg("reader %zu takes %s", r, paths[p]);
            assert_contains(error.text, "not a regular file");
        }
    alarm(0);
    free(link);
    free(folder);
    free(fifo);
    free(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_no_regular_file_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
