/* Stores of preprocessed spectra: what is in them, when they are made again, and every way in which what they are made
 * from, or they themselves, can be wrong. */
#include "base/file.h"
#include "data/psd/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/psd/manifest.h"
#include "kernels/philox.h"
#include "tests/documented.h"
#include "tests/files.h"

static Error error;

#define HEAD "npy_path,row_index,sensor_id,num_bins,label\n"
static const PsdPreprocessing CROP = {false, PSD_LIMIT}, HOP = {true, PSD_LIMIT}, COMPAT = {false, 0};
static const char *root, *manifest;

static double level_of(int file, int64_t i) {
    return -60 + 3 * (double)philox_normal(5, PURPOSE_TEST, (uint32_t)file, (uint64_t)i);
}

static void add_array(const char *name, int file, int64_t rows, int64_t width) {
    double *data = xmalloc((size_t)(rows * width) * sizeof *data);
    for (int64_t i = 0; i < rows * width; i++) data[i] = level_of(file, i);
    write_npy(root, name, "<f8", data, 2, rows, width);
    free(data);
}

static int new_root(void **state) {
    (void)state;
    root = run_directory();
    manifest = kept_path(root, "manifest.csv");
    add_array("a.npy", 0, 3, 450);
    add_array("b.npy", 1, 2, 640);
    add_array("narrow.npy", 2, 1, 74);
    write_text(manifest, HEAD "a.npy,0,S,450,fm\nb.npy,1,T,640,lte\na.npy,2,S,450,fm\nnarrow.npy,0,T,74,unkn\n"
                              "b.npy,0,\"T, 2\",640,dab\n");
    return 0;
}

static PsdStore open_as(const PsdPreprocessing *options, int n_threads) {
    PsdStore s;
    if (!psd_store_open(&s, manifest, &options->hop, &options->limit, n_threads, &error)) fail_msg("%s", error.text);
    return s;
}

/* Sample number i is what psd_preprocess makes of row `row` of a file. */
static void assert_sample(const PsdStore *s, int64_t i, int64_t sample, int file, int64_t row, int64_t width,
                          const PsdPreprocessing *options) {
    double *values = xmalloc((size_t)width * sizeof *values);
    float *out = xmalloc((size_t)psd_samples(width, options) * PSD_BINS * sizeof *out);
    PsdScratch scratch = {0};
    PsdRow found;
    for (int64_t k = 0; k < width; k++) values[k] = level_of(file, row * width + k);
    assert_true(psd_preprocess(values, width, options, &scratch, out, &found, &error));
    assert_memory_equal(s->psd + i * PSD_BINS, out + sample * PSD_BINS, PSD_BINS * sizeof *out);
    assert_true(s->snr[i] == (float)found.snr);
    psd_scratch_free(&scratch);
    free(values);
    free(out);
}

/* The file's inode: it is renamed into place, so that a new file has another. */
static uint64_t inode(void) {
    char *path = keep(psd_store_path(manifest));
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_ino;
}

static void open_and_close(const PsdPreprocessing *options) {
    PsdStore s = open_as(options, 1);
    psd_store_close(&s);
}

/* The manifest is the same, but not what it names. A store goes on without its recordings, and with copies of them. */
static void set_time(const char *name, time_t seconds) {
    set_file_time(kept_path(root, name), (struct timespec){.tv_sec = seconds});
}

/* Opens the store as the user nobody, who may not read other users' private files. */
static void open_in_a_child(void *unused) {
    (void)unused;
    if (!geteuid() && setuid(65534)) _exit(2);
    open_and_close(&CROP);
}

/* First: these fork before there are OpenMP's threads. */

/* Programs that start together: each has the samples of its own options, and of those with the same options one makes
 * the store. */
TEST_WITH(makers_at_once_do_not_mix, new_root, NULL) {
    enum { MAKERS = 6, ROUNDS = 3 };
    char *path = keep(psd_store_path(manifest)), *log = kept_path(root, "log"), output[256];
    for (int round = 0; round < ROUNDS; round++) {
        bool all_alike = round == 0;
        remove(path);
        for (int i = 0; i < MAKERS; i++) {
            pid_t child = fork();
            assert_true(child >= 0);
            if (child) continue;
            if (!freopen(log, "a", stdout)) _exit(1);
            const PsdPreprocessing *options = all_alike ? &CROP : i % 3 == 0 ? &HOP : i % 3 == 1 ? &CROP : &COMPAT;
            PsdStore s = open_as(options, 1);
            assert_int_equal(s.n, options->hop ? 10 : 5);
            assert_sample(&s, 0, 0, 0, 0, 450, options);
            assert_true(s.options.limit == options->limit && s.options.hop == options->hop);
            fflush(stdout);
            _exit(0);
        }
        for (int i = 0, status; i < MAKERS; i++) assert_true(wait(&status) > 0 && !status);
        run_command(output, sizeof output, "grep -c 'samples of' %s", log);
        if (all_alike) assert_string_equal(output, "1\n");
    }
    run_command(output, sizeof output, "ls -A %s | grep -c -e partial -e lock", root);
    assert_string_equal(output, "0\n");
}

/* Copies are read once: their new times are kept, and do not hide what is another file. */
TEST_WITH(times_of_copies_are_kept, new_root, NULL) {
    char said[2048];
    assert_int_equal(chmod(root, 0777), 0);
    assert_int_equal(run_function(said, sizeof said, open_in_a_child, NULL), 0);
    uint64_t first = inode();
    set_time("a.npy", 1);
    set_time("b.npy", 1);
    for (int i = 0; i < 3; i++) { /* the last time as a copy of the copy */
        if (i == 2) set_time("a.npy", 2);
        assert_int_equal(run_function(said, sizeof said, open_in_a_child, NULL), 0);
        if (i != 1) assert_contains(said, i ? "1 of 3 recordings have other times" : "2 of 3 recordings have other");
        assert_true(!strstr(said, "other times") == (i == 1) && inode() == first);
    }
    add_array("a.npy", 7, 3, 450);
    set_time("a.npy", 3);
    assert_int_equal(run_function(said, sizeof said, open_in_a_child, NULL), 0);
    assert_true(inode() != first);
}

/* Expects the recording to count as gone. */
TEST_WITH(a_recording_that_cannot_be_read_is_warned_of, new_root, NULL) {
    char said[2048], *path = kept_path(root, "a.npy");
    assert_int_equal(chmod(root, 0777), 0);
    assert_int_equal(run_function(said, sizeof said, open_in_a_child, NULL), 0);
    uint64_t first = inode();
    set_time("a.npy", 1);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(run_function(said, sizeof said, open_in_a_child, NULL), 0);
    assert_contains(said, "a.npy: cannot open: Permission denied; the store goes on without it");
    assert_true(inode() == first);
}

/* The manifest is replaced while a program waits for the lock: the store is made from the manifest that was read, and
 * records its hash. */
TEST_WITH(a_manifest_replaced_meanwhile_is_not_mixed_up, new_root, NULL) {
    char *path = keep(psd_store_path(manifest)), *log = kept_path(root, "log"), *first = kept_text(manifest);
    FileLock lock;
    assert_true(file_lock(&lock, path, &error));
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        if (!freopen(log, "w", stdout)) _exit(1);
        open_and_close(&CROP);
        _exit(0);
    }
    for (bool waits = false; !waits; usleep(1000)) {
        assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
        char *said = access(log, F_OK) ? xstrdup("") : read_text(log);
        waits = strstr(said, "[Wait]");
        free(said);
    }
    write_text(manifest, HEAD "b.npy,0,\"T, 2\",640,dab\na.npy,0,S,450,fm\n");
    file_unlock(&lock);
    int status;
    assert_true(wait(&status) == child && !status);
    PsdStore s;
    uint64_t hash;
    assert_true(psd_store_open(&s, path, NULL, NULL, 1, &error) && psd_manifest_hash(manifest, &hash, &error));
    assert_true(s.n == 2 && s.labels[0] == 0 && s.manifest_hash == hash);
    psd_store_close(&s);
    write_text(manifest, "%s", first);
    s = open_as(&CROP, 1);
    assert_true(s.n == 5 && s.labels[0] == 2);
    psd_store_close(&s);
}

TEST_WITH(samples_are_the_manifests_rows, new_root, NULL) {
    static const struct {
        int file, row, width, label, sensor;
    } want[5] = {{0, 0, 450, 2, 0}, {1, 1, 640, 4, 1}, {0, 2, 450, 2, 0}, {2, 0, 74, 6, 1}, {1, 0, 640, 0, 2}};
    const PsdPreprocessing *options[2] = {&CROP, &COMPAT};
    for (int o = 0; o < 2; o++) {
        PsdStore s = open_as(options[o], 2);
        assert_true(s.n == 5 && s.n_files == 3 && s.n_sensors == 3 && !s.positive && !s.visible && !s.n_visible);
        assert_string_equal(s.sensor_names[2], "T, 2");
        for (int i = 0; i < 5; i++) {
            assert_true(s.labels[i] == want[i].label && s.sensors[i] == want[i].sensor && s.rows[i] == i &&
                        s.files[i] == want[i].file);
            assert_sample(&s, i, 0, want[i].file, want[i].row, want[i].width, options[o]);
        }
        psd_store_close(&s);
    }
}

/* 450 bins are two samples, 640 three, 74 none. */
TEST_WITH(hopping_gives_every_whole_chunk, new_root, NULL) {
    static const int rows[10] = {0, 0, 1, 1, 1, 2, 2, 4, 4, 4}, chunks[10] = {0, 1, 0, 1, 2, 0, 1, 0, 1, 2};
    PsdStore s = open_as(&HOP, 2);
    assert_int_equal(s.n, 10);
    for (int i = 0; i < 10; i++) {
        assert_true(s.rows[i] == rows[i]);
        bool first = s.files[i] == 0;
        assert_sample(&s, i, chunks[i], s.files[i], first ? rows[i] : rows[i] == 1, first ? 450 : 640, &HOP);
    }
    assert_int_equal(s.n_rows, 5);
    psd_store_close(&s);
    /* a last row without a sample is a row of the manifest all the same: splits may name it */
    char *text = kept_text(manifest);
    add_array("last.npy", 3, 1, 74);
    write_text(manifest, "%slast.npy,0,S,74,fm\n", text);
    s = open_as(&HOP, 2);
    assert_true(s.n == 10 && s.n_rows == 6);
    assert_store_documented(&s.file, "## The store of spectra");
    assert_contains(kept_text("docs/formats.md"),
                    kept_format("`form` | \"%s\"", tensor_file_metadata(&s.file, "form")));
    psd_store_close(&s);
}

TEST_WITH(a_store_is_remade_only_if_necessary, new_root, NULL) {
    open_and_close(&CROP);
    uint64_t first = inode();
    open_and_close(&CROP);
    assert_true(inode() == first);
    open_and_close(&COMPAT);
    uint64_t second = inode();
    assert_true(second != first);
    write_text(manifest, HEAD "a.npy,0,S,450,fm\n");
    PsdStore s = open_as(&COMPAT, 1);
    assert_true(s.n == 1 && inode() != second);
    psd_store_close(&s);
    char *path = keep(psd_store_path(manifest));
    write_text(path, "mine");
    assert_false(psd_store_open(&s, manifest, &COMPAT.hop, &COMPAT.limit, 1, &error));
    assert_contains(error.text, "is not a store that was made from a manifest, so it is not replaced");
    char *text = kept_text(path);
    assert_string_equal(text, "mine");
}

/* A flipped bit in its numbers or its header makes it another store. */
TEST_WITH(damage_is_noticed, new_root, NULL) {
    open_and_close(&CROP);
    char *path = keep(psd_store_path(manifest)), *bytes, *kept;
    size_t size;
    assert_true(read_file(path, &kept, &size, &error));
    const char *limit = memmem(kept, size, "\"limit\":\"", 9);
    const size_t places[] = {size - 1, size - 1000, size / 2, (size_t)(limit + 9 - kept)};
    assert_non_null(limit);
    for (int i = 0; i < 4; i++) {
        bytes = memcpy(xmalloc(size), kept, size);
        bytes[places[i]] ^= 1;
        write_bytes(path, bytes, size);
        uint64_t before = inode();
        PsdStore s;
        assert_false(psd_store_open(&s, manifest, &CROP.hop, NULL, 1, &error));
        assert_contains(error.text, "cannot be read: give --hop (true or false) and --limit");
        assert_true(inode() == before);
        s = open_as(&CROP, 1);
        assert_true(inode() != before);
        assert_sample(&s, 0, 0, 0, 0, 450, &CROP);
        psd_store_close(&s);
        free(bytes);
    }
    free(kept);
}

TEST_WITH(changed_recordings_are_seen, new_root, NULL) {
    char *path = kept_path(root, "a.npy");
    open_and_close(&CROP);
    uint64_t first = inode();
    set_time("a.npy", 1); /* a copy */
    open_and_close(&CROP);
    assert_true(inode() == first);
    PsdStore s;
    for (int i = 0; i < 2; i++) { /* of the same size; and of the same time, too, as cp -p and rsync -t make it */
        add_array("a.npy", 7 + i, 3, 450);
        if (i) set_time("a.npy", 2);
        s = open_as(&CROP, 1);
        assert_true(inode() != first);
        assert_sample(&s, 0, 0, 7 + i, 0, 450, &CROP);
        psd_store_close(&s);
        set_time("a.npy", 2);
        open_and_close(&CROP);
        first = inode();
    }
    assert_int_equal(remove(path), 0);
    open_and_close(&CROP);
    assert_true(inode() == first);
    add_array("a.npy", 0, 4, 450); /* and of another size */
    s = open_as(&CROP, 1);
    assert_true(inode() != first);
    assert_sample(&s, 0, 0, 0, 0, 450, &CROP);
    psd_store_close(&s);
}

/* A reference's manifest has them. They keep their numbers, and splits may name them. */
TEST_WITH(rows_of_zero_width_have_no_sample, new_root, NULL) {
    const PsdPreprocessing *options[3] = {&CROP, &COMPAT, &HOP};
    add_array("zero.npy", 3, 2, 0);
    write_text(manifest, HEAD "zero.npy,0,S,0,fm\na.npy,1,S,450,fm\nzero.npy,1,S,0,fm\n");
    for (int o = 0; o < 3; o++) {
        PsdStore s = open_as(options[o], 2);
        assert_true(s.n == (o == 2 ? 2 : 1) && s.n_rows == 3 && s.rows[0] == 1);
        assert_sample(&s, 0, 0, 0, 1, 450, options[o]);
        psd_store_close(&s);
    }
}

static void assert_made_with(const PsdStore *s, const PsdPreprocessing *options) {
    assert_true(s->options.hop == options->hop && s->options.limit == options->limit);
}

static PsdStore open_any(const char *path) {
    PsdStore s;
    if (!psd_store_open(&s, path, NULL, NULL, 1, &error)) fail_msg("%s", error.text);
    return s;
}

/* Each of the two options may be given alone; the other one stays as it was, also with another manifest. */
TEST_WITH(options_that_are_not_given_stay, new_root, NULL) {
    const PsdPreprocessing both = {true, 0};
    PsdStore s = open_any(manifest);
    assert_made_with(&s, &CROP); /* there is none yet: as usual */
    psd_store_close(&s);
    open_and_close(&COMPAT);
    uint64_t first = inode();
    s = open_any(manifest);
    assert_made_with(&s, &COMPAT);
    assert_true(inode() == first);
    psd_store_close(&s);
    assert_true(psd_store_open(&s, manifest, &both.hop, NULL, 1, &error));
    assert_made_with(&s, &both);
    psd_store_close(&s);
    write_text(manifest, HEAD "a.npy,0,S,450,fm\n");
    s = open_any(manifest);
    assert_made_with(&s, &both);
    assert_int_equal(s.n, 2);
    psd_store_close(&s);
}

TEST_WITH(a_store_names_its_manifest, new_root, NULL) {
    uint64_t first, second;
    for (int i = 0; i < 2; i++) { /* whatever the options */
        PsdStore s = open_as(i ? &HOP : &CROP, 1);
        assert_true(psd_manifest_hash(manifest, &first, &error));
        assert_true(first && s.manifest_hash == first);
        psd_store_close(&s);
    }
    write_text(manifest, HEAD "a.npy,0,S,450,fm\n");
    assert_true(psd_manifest_hash(manifest, &second, &error) && second != first);
    assert_false(psd_manifest_hash("/nowhere/m.csv", &second, &error));
    assert_contains(error.text, "/nowhere/m.csv: cannot open");
}

TEST_WITH(threads_do_not_change_a_bit, new_root, NULL) {
    char *path = keep(psd_store_path(manifest)), *bytes[2];
    size_t sizes[2];
    for (int i = 0; i < 2; i++) {
        PsdStore s = open_as(&HOP, i ? 3 : 1);
        psd_store_close(&s);
        assert_true(read_file(path, &bytes[i], &sizes[i], &error));
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* A path that is not found from the manifest is seen from the working directory. */
TEST_WITH(paths_are_seen_from_both_places, new_root, NULL) {
    char *beside = keep(psd_manifest_file(manifest, "a.npy")), *want = kept_path(root, "a.npy");
    char *here = keep(psd_manifest_file(manifest, "Makefile")),
         *nowhere = keep(psd_manifest_file(manifest, "gone.npy"));
    assert_string_equal(beside, want);
    assert_string_equal(here, "Makefile");
    assert_string_equal(nowhere, "gone.npy");
}

/* ---- what is refused ---- */

static void expect_refused(const char *path, const PsdPreprocessing *options, const char *message) {
    PsdStore s;
    assert_false(psd_store_open(&s, path, &options->hop, &options->limit, 2, &error));
    assert_contains(error.text, message);
    assert_null(s.psd);
}

static void expect_manifest_refused(const char *text, const PsdPreprocessing *options, const char *message) {
    write_text(manifest, "%s", text);
    expect_refused(manifest, options, message);
    char *path = keep(psd_store_path(manifest));
    assert_int_not_equal(access(path, F_OK), 0); /* nothing is left behind */
}

/* Options are then not applied, whatever the checkpoint records. */
TEST_WITH(a_store_itself_is_as_it_was_made, new_root, NULL) {
    char *path = keep(psd_store_path(manifest));
    open_and_close(&COMPAT);
    PsdStore s = open_any(path);
    assert_made_with(&s, &COMPAT);
    psd_store_close(&s);
    expect_refused(path, &CROP, "was made without --hop, with --limit 0, not without --hop, with --limit 20; leave");
    expect_refused(path, &(PsdPreprocessing){true, 0}, "was made without --hop, with --limit 0, not with --hop, with");
}

TEST_WITH(manifests_that_do_not_fit_their_files, new_root, NULL) {
    static const char object[] = "\x93NUMPY\x01\x00\x36\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
    write_bytes(kept_path(root, "object.npy"), object, sizeof object - 1);
    add_array("zero.npy", 3, 2, 0);
    const double nan[3] = {(double)NAN, (double)NAN, (double)NAN};
    write_npy(root, "nan.npy", "<f8", nan, 1, 3, 0);
    write_npy(root, "scalar.npy", "<f8", nan, 0, 0, 0);
    expect_manifest_refused(HEAD "a.npy,0,S,450,fm\na.npy,3,S,450,fm\n", &CROP,
                            "manifest.csv:3: row_index is 3, but a.npy has 3 rows");
    expect_manifest_refused(HEAD "a.npy,0,S,451,fm\n", &CROP, ":2: num_bins is 451, but a.npy has rows of 450");
    expect_manifest_refused(HEAD "a.npy,0,S,99999,fm\n", &HOP, ":2: num_bins is 99999, but a.npy has rows of 450");
    expect_manifest_refused(HEAD "gone.npy,0,S,450,fm\n", &CROP, ":2: gone.npy: cannot open");
    expect_manifest_refused(HEAD "object.npy,0,S,1,fm\n", &CROP, ":2: object.npy: holds Python objects");
    expect_manifest_refused(HEAD "zero.npy,0,S,0,fm\n", &CROP, "manifest.csv: no row has the 200 bins of a sample");
    expect_manifest_refused(HEAD "a.npy,0,S,0,fm\n", &CROP, ":2: num_bins is 0, but a.npy has rows of 450");
    expect_manifest_refused(HEAD "nan.npy,0,S,3,fm\n", &CROP, "row 0 of nan.npy: none of the row's 3 bins is finite");
    expect_manifest_refused(HEAD "scalar.npy,0,S,1,fm\n", &CROP, ":2: scalar.npy: has 0 dimensions");
    expect_manifest_refused(HEAD "a.npy,0,S,450,wifi\n", &CROP, ":2: label is 'wifi'");
    expect_manifest_refused("npy_path,row_index,sensor_id,label\na.npy,0,S,fm\n", &CROP,
                            "there is no column \"num_bins\"");
    expect_manifest_refused(HEAD "narrow.npy,0,S,74,fm\n", &HOP, "manifest.csv: no row has the 200 bins of a sample");
    /* Only the first of several is reported. */
    expect_manifest_refused(HEAD "b.npy,5,S,640,fm\na.npy,9,S,450,fm\nb.npy,7,S,640,fm\n", &CROP, ".csv:2: row_index");
    expect_refused("/nowhere/m.csv", &CROP, "/nowhere/m.csv: cannot open");
    expect_refused("manifest.txt", &CROP, "manifest.txt: expected a manifest (.csv) or a store of spectra");
}

/* A store of two samples as another program might write it, of which tests spoil something. */
typedef struct {
    float psd[2 * PSD_BINS], snr[2];
    int32_t label[2], sensor[2], file[2], row[2], positive[2], visible[6];
    TensorToWrite tensors[8];
    int n_tensors;
    const char *sensors, *hop, *limit;
} Own;

static void own_reset(Own *o) {
    *o = (Own){.label = {0, 6},
               .positive = {1, 1},
               .visible = {0, 3, 11, 1, 2, 3},
               .n_tensors = 8,
               .sensors = "[\"A\"]",
               .hop = "true",
               .limit = "5"};
    const TensorToWrite tensors[8] = {
        {"psd", "F32", 2, {2, PSD_BINS}, o->psd}, {"label", "I32", 1, {2}, o->label},
        {"sensor", "I32", 1, {2}, o->sensor},     {"file", "I32", 1, {2}, o->file},
        {"row", "I32", 1, {2}, o->row},           {"snr", "F32", 1, {2}, o->snr},
        {"positive", "I32", 1, {2}, o->positive}, {"visible", "I32", 2, {2, 3}, o->visible}};
    memcpy(o->tensors, tensors, sizeof tensors);
}

static char *own_write(const Own *o) {
    char *path = kept_path(root, "own.safetensors");
    const char *const keys[] = {"sensors", "hop", "limit"}, *const values[] = {o->sensors, o->hop, o->limit};
    int n = o->hop ? 3 : 1;
    if (!safetensors_write(path, o->tensors, o->n_tensors, keys, values, n, &error)) fail_msg("%s", error.text);
    return path;
}

static void expect_own_refused(Own *o, const char *message) {
    char *path = own_write(o);
    expect_refused(path, &CROP, message);
    own_reset(o);
}

TEST_WITH(a_store_may_fix_masks_and_partners, new_root, NULL) {
    Own o;
    PsdStore s;
    own_reset(&o);
    o.hop = NULL;
    char *path = own_write(&o);
    if (!psd_store_open(&s, path, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    assert_true(s.n == 2 && s.n_visible == 3 && s.n_sensors == 1 && s.n_files == 1 && s.labels[1] == 6);
    assert_memory_equal(s.visible, o.visible, sizeof o.visible);
    assert_memory_equal(s.positive, o.positive, sizeof o.positive);
    assert_true(!s.manifest_hash && !s.options.hop &&
                s.options.limit == PSD_LIMIT); /* the store does not record them */
    psd_store_close(&s);
    if (!psd_store_open(&s, path, &HOP.hop, &COMPAT.limit, 0, &error)) fail_msg("%s", error.text);
    assert_true(s.options.hop && s.options.limit == 0); /* as given, then */
    psd_store_close(&s);
}

/* Spectra of another program lie where the store of a manifest belongs. */
TEST_WITH(a_store_of_another_program_is_not_replaced, new_root, NULL) {
    Own o;
    PsdStore s;
    own_reset(&o);
    o.hop = NULL;
    char *own = own_write(&o), *path = keep(psd_store_path(manifest));
    add_array("a.npy", 2, 450, 75);
    write_text(manifest, HEAD "a.npy,0,S,450,fm\n");
    assert_int_equal(rename(own, path), 0);
    uint64_t theirs = inode();
    assert_false(psd_store_open(&s, manifest, &CROP.hop, &CROP.limit, 1, &error));
    assert_contains(error.text, "is not a store that was made from a manifest, so it is not replaced");
    assert_true(inode() == theirs);
}

TEST_WITH(wrong_stores_are_refused, new_root, NULL) {
    Own o;
    own_reset(&o);
    o.n_tensors = 5;
    expect_own_refused(&o, "own.safetensors: has no tensor 'snr': it is no store of spectra");
    o.tensors[1].dtype = "F32";
    expect_own_refused(&o, "tensor 'label' is F32 [2]; expected I32 [2]");
    o.tensors[0].dims[1] = 100;
    o.tensors[0].dims[0] = 4;
    expect_own_refused(&o, "tensor 'psd' is F32 [4, 100]; expected F32 [n, 200]");
    o.tensors[7].dims[0] = 1;
    expect_own_refused(&o, "tensor 'visible' is I32 [1, 3]; expected I32 [2, V]");
    o.psd[PSD_BINS] = NAN;
    expect_own_refused(&o, "psd[1] is not finite");
    o.label[1] = 7;
    expect_own_refused(&o, "label[1] is 7; expected 0 to 6");
    o.sensor[0] = 1;
    expect_own_refused(&o, "sensor[0] is 1; expected 0 to 0");
    o.file[1] = -1;
    expect_own_refused(&o, "file[1] is -1");
    o.row[0] = -1;
    expect_own_refused(&o, "row[0] is -1");
    o.row[0] = 5;
    o.row[1] = 4;
    expect_own_refused(&o, "row[1] is 4, behind 5; rows may not descend");
    o.positive[1] = 2;
    expect_own_refused(&o, "positive[1] is 2; expected 0 to 1");
    o.visible[2] = 12;
    expect_own_refused(&o, "visible[2] is 12; expected 0 to 11");
    o.visible[4] = 1;
    expect_own_refused(&o, "visible[1] does not ascend");
    o.sensors = "[\"A\", 3]";
    expect_own_refused(&o, "name 1 of \"sensors\" is not a text");
    o.sensors = "A";
    expect_own_refused(&o, "its metadata have no \"sensors\", a JSON list of names");
    o.hop = "yes";
    expect_own_refused(&o, "its metadata's \"hop\" is yes; expected true or false");
    o.limit = "-1";
    expect_own_refused(&o, "its metadata's \"limit\" is -1; expected 0 or a number above");
}
