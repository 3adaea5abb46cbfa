/* Everything that writes a file of a name that a user gives: what is no regular file is not replaced, and a full disk
 * leaves what was there, whole, and nothing else. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "data/audio.h"
#include "data/ledger.h"
#include "data/npy.h"
#include "data/psd_manifest.h"
#include "data/psd_splits.h"
#include "data/speech_coder.h"
#include "data/text_file.h"
#include "data/tokenizer.h"
#include "data/torch_pth.h"
#include "tests/helpers.h"
#include "train/plot.h"
#include "train/rates.h"
#include "train/table.h"

static const float numbers[4] = {1, 2, 3, 4};

static bool write_audio(const char *path, Error *error) { return audio_write(path, numbers, 4, 24000, error); }

static bool write_array(const char *path, Error *error) {
    return npy_write(path, "<f4", numbers, 1, (const int64_t[]){4}, error);
}

static bool write_tensors(const char *path, Error *error) {
    const TensorToWrite tensor = {"x", "F32", 1, {4}, numbers};
    return safetensors_write(path, &tensor, 1, NULL, NULL, 0, error);
}

static bool write_torch(const char *path, Error *error) {
    PthWriter *w = pth_begin();
    pth_tensor(w, (TensorToWrite){.dtype = "F32", .rank = 1, .dims = {4}, .data = numbers});
    return pth_write(w, path, error);
}

static bool write_tokenizer(const char *path, Error *error) {
    return tokenizer_train_bpe("a b\n", 4, path, 8, error) > 0;
}

static bool write_rates(const char *path, Error *error) {
    Rates rates = {.device = "x", .date = "2026-01-02", .launch = 1, .bytes = {1, 1, {1}, {1}}};
    rates.flops[WORK_PRODUCT][NUMBERS_F32][0] = (Curve){1, 1, {1}, {1}};
    return rates_write(path, &rates, error);
}

static bool write_manifest(const char *path, Error *error) {
    PsdManifest m = psd_manifest_new(0, 0, 0);
    bool fine = psd_manifest_write(path, &m, error);
    psd_manifest_close(&m);
    return fine;
}

static bool write_split(const char *path, Error *error) {
    int64_t row = 1;
    PsdSplit split = {.parts = {{&row, 1}}};
    return psd_split_write(path, &split, error);
}

static bool write_text_file(const char *path, Error *error) {
    TextFile file;
    text_file_begin(&file);
    fputs("a text of some length", file.out);
    return text_file_end(&file, path, error);
}

static bool write_codebook(const char *path, Error *error) {
    float *entries = xcalloc(2 * MEL_BANDS, sizeof *entries);
    SpeechCoder coder = {.codebook = codebook_of(entries, 2, MEL_BANDS)};
    bool fine = speech_coder_write(path, &coder, error);
    speech_coder_close(&coder);
    return fine;
}

static bool write_plot(const char *path, Error *error) {
    const double x[2] = {1, 2}, y[2] = {3, 4};
    return plot_write_svg(path, &(PlotSeries){"loss", x, y, 2, false}, 1, "title", "x", "y", error);
}

static bool write_table(const char *path, Error *error) {
    Table table = {0};
    table_text(&table, "a column", "a value");
    bool fine = table_write_csv(&table, path, error);
    table_free(&table);
    return fine;
}

static bool write_json(const char *path, Error *error) {
    return json_write(json_build("x", "{s:s}", "a key", "a value"), path, error);
}

static bool write_ledger(const char *path, Error *error) {
    Ledger *ledger = ledger_open(path, error);
    bool fine = ledger && ledger_add(ledger, "kind", "name", json_build("x", "{s:i}", "n", 1), error);
    ledger_close(ledger);
    return fine;
}

static const struct {
    const char *name;
    bool (*write)(const char *path, Error *error);
    bool appends, reads; /* what is there is read first, so that it must be one of its own */
} writers[] = {{"audio", write_audio, false, false},         {"array", write_array, false, false},
               {"tensors", write_tensors, false, false},     {"torch", write_torch, false, false},
               {"tokenizer", write_tokenizer, false, false}, {"rates", write_rates, false, true},
               {"manifest", write_manifest, false, false},   {"split", write_split, false, false},
               {"text", write_text_file, false, false},      {"codebook", write_codebook, false, false},
               {"plot", write_plot, false, false},           {"table", write_table, false, false},
               {"json", write_json, false, false},           {"ledger", write_ledger, true, true}};
enum { WRITERS = sizeof writers / sizeof *writers };

static void what_is_no_regular_file_is_not_replaced(void **state) {
    (void)state;
    const char *root = run_directory();
    char *fifo = path_join(root, "x.npy"), *folder = path_join(root, "folder.npy"), *victim = path_join(root, "victim");
    char *link = path_join(root, "link.npy"), *dangling = path_join(root, "dangling.npy"), before[512], after[512];
    const char *const paths[] = {fifo, folder, link, dangling, "/dev/null"};
    struct stat status;
    assert_int_equal(mkfifo(fifo, 0666), 0);
    make_directories(folder);
    write_text(victim, "mine");
    assert_true(!symlink("victim", link) && !symlink("nowhere", dangling));
    alarm(60); /* rather than wait for ever */
    for (int w = 0; w < WRITERS; w++)
        for (int p = 0; p < 5; p++) {
            Error error = {""};
            run_command(before, sizeof before, "ls -lA %s", root);
            if (writers[w].write(paths[p], &error)) fail_msg("%s replaces %s", writers[w].name, paths[p]);
            assert_true(error.text[0]);
            run_command(after, sizeof after, "ls -lA %s", root);
            assert_string_equal(after, before);
        }
    alarm(0);
    char *text = read_text(victim);
    assert_string_equal(text, "mine");
    assert_true(!stat("/dev/null", &status) && S_ISCHR(status.st_mode) && access("/dev/null.lock", F_OK));
    free(text);
    free(fifo);
    free(folder);
    free(victim);
    free(link);
    free(dangling);
}

static int writer_number;
static void write_on_a_full_disk(void *path) {
    Error error = {""};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){3, 3})) _exit(3);
    if (writers[writer_number].write(path, &error)) _exit(4);
    printf("%s", error.text);
}

static void a_full_disk_leaves_what_was_there(void **state) {
    (void)state;
    char said[1024], names[256];
    for (writer_number = 0; writer_number < WRITERS; writer_number++) {
        const char *root = run_directory();
        char *path = path_join(root, "x.npy");
        if (!writers[writer_number].reads) write_text(path, "old");
        int status = run_function(said, sizeof said, write_on_a_full_disk, path);
        if (status) fail_msg("%s: status %d: %s", writers[writer_number].name, status, said);
        assert_contains(said, writers[writer_number].appends ? "only a part" : "File too large");
        assert_contains(said, root);
        run_command(names, sizeof names, "ls -A %s | tr '\n' ' '", root);
        if (writers[writer_number].appends)
            assert_string_equal(names, "x.npy ");
        else
            assert_string_equal(names, writers[writer_number].reads ? "" : "x.npy ");
        if (!writers[writer_number].reads) {
            char *text = read_text(path);
            assert_string_equal(text, "old");
            free(text);
        }
        free(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_no_regular_file_is_not_replaced),
                                       cmocka_unit_test(a_full_disk_leaves_what_was_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
