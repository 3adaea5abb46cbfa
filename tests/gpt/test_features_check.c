/* The checks of train_gpt prepare --indextts2 that need no card: --compare with the files of another preprocessing,
 * made here by damaging its own, and --verify where the run is exact itself
 * (tests/gpt/cuda/test_program_features_check.c: where it is not). */
#include "tests/files.h"
#include "tests/gpt/published_rig.h"
#include "tests/sounds.h"

/* ---- folders to compare with ---- */

/* Copies the reference output, without manifests unless they are wanted. Returns the path. */
static char *copy(const char *name, bool manifests) {
    char *folder = corpus_folder(name);
    must_run("rm -rf %s && cp -r %s %s && rm -f %s/.prepare_ledger.jsonl", folder,
             corpus_folder(published_reference(NULL)), folder, folder);
    if (!manifests) must_run("rm %s/*.jsonl", folder);
    return folder;
}

/* Which codes of a clip are changed. */
typedef enum { FIRST, ALL, LAST_ROWS } Which;

static void change_codes_of(const char *name, const char *id, Which which) {
    int64_t dims[2];
    int32_t *codes = corpus_read_array(name, "codes", id, 'i', dims);
    int64_t from = which == LAST_ROWS ? dims[0] - 5 : 0, to = which == FIRST ? 1 : dims[0];
    for (int64_t t = from; t < to; t++) codes[t] = (codes[t] + 1) % PUBLISHED_CODES;
    write_npy(corpus_path(name, "codes"), kept_format("%s.npy", id), "<i4", codes, 1, dims[0], 0);
    free(codes);
}

static void change_codes(const char *name, int clip, Which which) { change_codes_of(name, corpus_ids[clip], which); }

/* Gives a clip more or fewer codes. */
static void resize_codes(const char *name, int clip, int64_t more) {
    int64_t dims[2];
    int32_t *codes = corpus_read_array(name, "codes", corpus_ids[clip], 'i', dims);
    codes = xrealloc(codes, (size_t)(dims[0] + 100) * sizeof *codes);
    for (int64_t t = dims[0]; t < dims[0] + more; t++) codes[t] = 3;
    write_npy(corpus_path(name, "codes"), kept_format("%s.npy", corpus_ids[clip]), "<i4", codes, 1, dims[0] + more, 0);
    free(codes);
}

/* Adds to every vector of a kind numbers of this share of its own size, alternating in sign, and multiplies it. */
static void change_vectors(const char *name, const char *folder, int clip, float share, float factor) {
    int64_t dims[2];
    float *x = corpus_read_array(name, folder, corpus_ids[clip], 'f', dims);
    int64_t n = dims[0] * (dims[1] ? dims[1] : 1);
    for (int64_t i = 0; i < n; i++) x[i] = factor * (x[i] + (i % 2 ? share : -share) * x[i]);
    write_npy(corpus_path(name, folder), kept_format("%s.npy", corpus_ids[clip]), "<f4", x, dims[1] ? 2 : 1, dims[0],
              dims[1]);
    free(x);
}

/* Returns the name of an output that is there. */
static const char *compared(void) {
    const char *folder = corpus_folder("compared");
    if (access(folder, F_OK)) must_run("cp -r %s %s", corpus_folder(published_reference(NULL)), folder);
    return "compared";
}

/* Runs over that output, and compares. Returns the exit status. */
static int compare(const char *folder) {
    return published_try(compared(), "list.tsv", "published",
                         kept_format("--num-workers 2 --compare %s", corpus_folder(folder)));
}

static void must_compare(const char *folder, const char *told) {
    int status = compare(folder);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused\n");
    assert_contains(fixture.output, told);
    assert_contains(fixture.output, "Next: ");
}

/* Returns the fields behind the id of a clip in the table. */
static char *row(const char *id) {
    char *text = keep(read_text(corpus_path(compared(), "comparison.tsv"))),
         *at = strstr(text, kept_format("\n%s\t", id));
    assert_non_null(at);
    at += strlen(id) + 2;
    return kept_format("%.*s", (int)strcspn(at, "\n"), at);
}

static const char *const alike = "[Compare] alike: at least 99 % of the codes are equal";
static const char *const batches = "[Compare] alike, but for what padded batches of the reference change: ";

/* ---- what is told ---- */

TEST(the_same_features_agree_in_all) {
    for (int manifests = 0; manifests < 2; manifests++) {
        copy("same", manifests);
        must_compare("same", alike);
        assert_contains(fixture.output, "[Compare] 16 clips in both, 0 only here, 0 only there\n");
        assert_contains(fixture.output, "in the median 100.00 %, at least 100.00 %\n");
        assert_contains(fixture.output, "condition 1.000000, 1.000000; emotion 1.000000, 1.000000\n");
        assert_null(strstr(fixture.output, "worst"));
        assert_null(strstr(fixture.output, "warning"));
        assert_contains(row(corpus_ids[2]), "\t1.000000\t1.000000\t1.00000000\t0.000e+00\t1.00000000\t0.000e+00");
    }
}

/* Also without features that were there before. */
TEST(new_features_are_compared_too) {
    copy("same", true);
    published_prepare("fresh", kept_format("--num-workers 2 --compare %s", corpus_folder("same")));
    assert_contains(fixture.output, "[Codes] 16 clips coded, 0 reused\n");
    assert_contains(fixture.output, alike);
    must_run("cmp %s %s", corpus_path("fresh", "comparison.tsv"), corpus_path(compared(), "comparison.tsv"));
}

TEST(one_other_code_is_counted_and_its_clip_named) {
    copy("one", false);
    change_codes("one", 4, FIRST);
    must_compare("one", alike);
    int64_t dims[2], all = 0;
    for (int i = 0; i < CORPUS_KEPT; i++) {
        free(corpus_read_array("one", "codes", corpus_ids[i], 'i', dims));
        all += dims[0];
    }
    free(corpus_read_array("one", "codes", corpus_ids[4], 'i', dims));
    double share = 1 - 1 / (double)dims[0];
    assert_contains(fixture.output,
                    kept_format("[Compare] codes: %.2f %% of %lld are equal", 100 - 100 / (double)all, (long long)all));
    assert_contains(fixture.output, kept_format("[Compare] worst %s: %.2f %% of %lld codes, condition 1.000000",
                                                corpus_ids[4], 100 * share, (long long)dims[0]));
    assert_null(strstr(fixture.output, "[Compare] then"));
    assert_contains(row(corpus_ids[4]), kept_format("both\t%lld\t%lld\t%lld\t%.6f\t", (long long)dims[0],
                                                    (long long)dims[0], (long long)dims[0] - 1, share));
}

TEST(clips_of_one_side_are_counted) {
    copy("other", false);
    must_run("cd %s && rm codes/%s.npy && for f in codes condition emo_vec; do cp $f/%s.npy $f/more.npy; done",
             corpus_folder("other"), corpus_ids[3], corpus_ids[0]);
    must_compare("other", alike);
    assert_contains(fixture.output, "[Compare] 15 clips in both, 1 only here, 1 only there\n");
    assert_true(!strncmp(row(corpus_ids[3]), "here\t", 5));
}

/* The manifests of the reference say where the files of an id are, whatever lies under its name. */
TEST(manifests_lead_to_files_of_other_names) {
    copy("moved", true);
    must_run("cd %s && rm manifest.jsonl && cp -r codes c && sed -i 's|\"codes/|\"c/|' *_manifest.jsonl && "
             "for f in codes/*; do echo other >$f; done",
             corpus_folder("moved"));
    must_compare("moved", alike);
    assert_contains(fixture.output, "[Compare] 16 clips in both, 0 only here, 0 only there\n");
}

/* ---- the likely causes ---- */

static void change_all(const char *name, Which which, const char *vectors, float share) {
    copy(name, false);
    for (int i = 0; i < CORPUS_KEPT; i++) {
        if (which != FIRST) change_codes(name, i, which);
        if (vectors) change_vectors(name, vectors, i, share, 1);
    }
}

TEST(padded_batches_are_recognised) {
    change_all("batches", LAST_ROWS, NULL, 0);
    must_compare("batches", batches);
    copy("padded", false);
    for (int i = 0; i < 6; i++) resize_codes("padded", i, 10 + i);
    must_compare("padded", batches);
    assert_contains(fixture.output, "; of other lengths: 6 with more codes there, 0 with fewer\n");
    change_all("slightly", FIRST, "condition", 0.02f); /* a cosine of 0.9998 */
    must_compare("slightly", "[Compare] alike, but for a little of the vectors, which padded batches");
    assert_null(strstr(fixture.output, "warning"));
}

TEST(shorter_clips_are_recognised) {
    copy("shorter", false);
    resize_codes("shorter", 5, -1);
    must_compare("shorter", "not alike: clips are shorter there: their sound is another, or was cut\n");
    assert_contains(fixture.output, "0 with more codes there, 1 with fewer\n");
    for (int i = 0; i < CORPUS_KEPT; i++) {
        int64_t dims[2];
        free(corpus_read_array("shorter", "codes", corpus_ids[i], 'i', dims));
        resize_codes("shorter", i, -dims[0] / 2);
    }
    must_compare("shorter", "25 a second: IndexTTS 2.5 has made them\n");
}

TEST(other_weights_are_recognised) {
    change_all("condition", FIRST, "condition", 0.2f);
    must_compare("condition", "not alike: codes agree, conditions do not: another gpt.pth was used there\n");
    change_all("emotion", FIRST, "emo_vec", 0.2f);
    must_compare("emotion", "not alike: codes agree, emotions do not: another gpt.pth was used there\n");
    for (int i = 0; i < CORPUS_KEPT; i++) change_vectors("emotion", "condition", i, 0.2f, 1);
    must_compare("emotion", "conditions and emotions do not: another gpt.pth was used there, or one whose encoders");
    change_all("codec", ALL, NULL, 0);
    must_compare("codec", "not alike: vectors agree, and so do the features: another semantic codec");
    change_all("layer", ALL, "condition", 0.2f);
    must_compare("layer", "not alike: the features differ: another hidden state of w2v-BERT than the 17th");
}

/* Clips of 1 s have 98 frames, of 1.01 s 99. */
TEST(another_mask_of_odd_frames_is_recognised) {
    enum { CLIPS = 8 };
    Bytes list = {0};
    for (int i = 0; i < CLIPS; i++) {
        const int samples = 24000 + i % 2 * 240;
        float *sound = make_babble((uint64_t)i, 24000, samples);
        write_sound(corpus_folder(kept_format("c%d.wav", i)), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 24000, 1, sound,
                    samples);
        char *line = kept_format("c%d\ts\tc%d.wav\tሰላም ለዓለም ዛሬ\n", i, i);
        bytes_add(&list, line, strlen(line));
        free(sound);
    }
    write_bytes(corpus_folder("parity.tsv"), list.at, list.n);
    free(list.at);
    if (published_try("parity", "parity.tsv", "published", "")) fail_msg("%s", fixture.output);
    must_run("cp -r %s %s", corpus_folder("parity"), corpus_folder("odd"));
    for (int i = 1; i < CLIPS; i += 2) change_codes_of("odd", kept_format("c%d", i), LAST_ROWS);
    int status = published_try("parity", "parity.tsv", "published", kept_format("--compare %s", corpus_folder("odd")));
    if (status) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "not alike: only clips with an odd number of frames differ: their last row");
    for (int i = 0; i < CLIPS; i += 2) change_codes_of("odd", kept_format("c%d", i), LAST_ROWS);
    assert_int_equal(
        published_try("parity", "parity.tsv", "published", kept_format("--compare %s", corpus_folder("odd"))), 0);
    assert_contains(fixture.output, batches);
}

/* A factor leaves cosines as they are; the table tells it. */
TEST(scaled_conditions_show_in_the_table) {
    copy("scaled", false);
    change_vectors("scaled", "condition", 1, 0, 2);
    must_compare("scaled", alike);
    assert_contains(row(corpus_ids[1]), "\t1.00000000\t5.000e-01\t1.00000000\t0.000e+00");
}

/* ---- what is refused ---- */

static void check_unusable(const char *told) {
    assert_int_equal(compare("unusable"), 1);
    assert_contains(fixture.output, "unusable: files of 1 clip cannot be used; the first: ");
    assert_contains(fixture.output, told);
    assert_contains(fixture.output, alike); /* of the others */
    assert_true(!strncmp(row(corpus_ids[2]), "unusable\t", 9));
}

TEST(unusable_files_are_named) {
    const char *id = corpus_ids[2];
    char *folder = copy("unusable", false), *name = kept_format("%s.npy", id);
    const float numbers[40] = {[7] = NAN};
    const int32_t codes[3] = {1, PUBLISHED_CODES, 2};
    must_run("rm %s/condition/%s", folder, name);
    check_unusable(kept_format("unusable/condition/%s: ", name));
    copy("unusable", false);
    write_npy(corpus_path("unusable", "condition"), name, "<f4", numbers, 2, 2, 20);
    check_unusable(kept_format("condition/%s: is an array of shape [2, 20], expected [32, 20]\n", name));
    copy("unusable", false);
    write_npy(corpus_path("unusable", "emo_vec"), name, "<f4", numbers, 1, 20, 0);
    check_unusable(kept_format("emo_vec/%s: number 7 is not finite\n", name));
    copy("unusable", false);
    write_npy(corpus_path("unusable", "codes"), name, "<i4", codes, 1, 3, 0);
    check_unusable(kept_format("codes/%s: code 1 is 64, expected 0 to 63\n", name));
    write_text(corpus_path("unusable/codes", name), "no array");
    check_unusable(kept_format("codes/%s: ", name));
}

TEST(folders_without_features_are_refused_at_once) {
    copy("same", true);
    char *folder = corpus_folder("nothing");
    make_directories(folder);
    assert_int_equal(compare("nothing"), 1);
    assert_contains(fixture.output, "nothing: has no codes/*.npy and no manifest.jsonl");
    assert_null(strstr(fixture.output, "[List]"));
    write_text(kept_path(folder, "train_manifest.jsonl"), "{\"id\": \"a\", \"codes_path\": \"codes/a.npy\"}\n");
    assert_int_equal(compare("nothing"), 1);
    assert_contains(fixture.output, "train_manifest.jsonl:1: condition_path: expected a path");
    assert_int_equal(compare("nowhere"), 1);
    assert_contains(fixture.output, "nowhere: is no folder\n");
    assert_int_equal(compare("compared"), 1);
    assert_contains(fixture.output, "compared: is the --output itself\n");
    assert_int_equal(unlink(kept_path(folder, "train_manifest.jsonl")), 0);
    make_directories(kept_path(folder, "codes"));
    write_text(kept_path(folder, "codes/strange.npy"), "-");
    assert_int_equal(compare("nothing"), 1);
    assert_contains(fixture.output, "[Compare] 0 clips in both, 16 only here, 1 only there\n");
    assert_contains(fixture.output, "nothing: has no clip of this run: its ids are others");
}

TEST(checks_need_the_networks) {
    static const char *const options[] = {"--verify", "--compare tests"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(corpus_try_prepare("refused", "list.tsv", options[i]), 2);
        assert_contains(fixture.output, "is of the networks of --indextts2, which is not given\n");
    }
}

/* ---- --verify ---- */

TEST(an_exact_run_is_compared_with_clips_alone) {
    published_reference(NULL);
    published_prepare("verified", "--num-workers 2 --verify --no-half");
    assert_contains(fixture.output, "[Verify] 16 clips, 30.6 s: exact f32, packed, beside exact f32, each alone\n");
    assert_contains(fixture.output, "clips alone, and they have the same bits\n");
    corpus_assert_same("verified", "reference");
    published_prepare("verified", "--num-workers 2 --verify --no-half"); /* all features are there */
    assert_contains(fixture.output, "clips alone, and they have the same bits\n");
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused\n");
    corpus_assert_same("verified", "reference");
}

int main(void) { return tests_run(published_open, NULL); }
