/* train_gpt prepare on a corpus of babble: what it prints, and that its manifests and arrays hold what their formats
 * promise. */
#include "data/audio/mel.h"
#include "data/formats/npy.h"
#include "data/text/normalize.h"
#include "data/text/sentencepiece.h"
#include "kernels/philox.h"
#include "tests/documented.h"
#include "tests/gpt/corpus.h"

/* With a ratio of 0.3, by Python: int(hashlib.sha1(id.encode()).hexdigest(), 16) % 1000000 / 1e6 < 0.3. Two clips of
 * the first speaker, four of the second, one of the third. */
static const char *const held_out[] = {"spk001_000001", "spk001_000004", "spk002_000005", "spk003_000006",
                                       "spk002_000008", "spk002_000011", "spk002_000014"};
enum {
    CORPUS_VAL = 7,
    CORPUS_TRAIN = CORPUS_KEPT - CORPUS_VAL,
    CORPUS_VAL_PAIRS = 2 * 1 + 4 * 2,
    CORPUS_TRAIN_PAIRS = 3 * 2 + 4 * 2
};

/* ---- what it prints ---- */

TEST(the_filters_and_the_split_are_reported) {
    const char *told;
    corpus_reference(&told);
    assert_contains(told, "list.tsv: tab-separated list, 22 recordings, 0 without audio, 1 without text\n");
    assert_contains(told, "[Audio] 20 clips read, 0 reused\n"); /* texts decide about two */
    assert_contains(told, "[Filter] 1 rejected: without text\n");
    assert_contains(told, "[Filter] 1 rejected: with fewer words than --min-words\n");
    assert_contains(told, "[Filter] 1 rejected: shorter than --min-duration\n");
    assert_contains(told, "[Filter] 1 rejected: longer than --max-duration\n");
    assert_contains(told, "[Filter] 1 rejected: slower than --min-chars-per-second\n");
    assert_contains(told, "[Filter] 1 rejected: faster than --max-chars-per-second\n");
    assert_contains(told, " tokens, 0.000 % unknown\n");
    assert_contains(told, "[Codebook] 32 entries, ");
    assert_contains(told, "[Codes] 16 clips coded, 0 reused\n");
    assert_contains(told, "[Data] 16 of 22 clips, 30.6 s, 4 speakers: 9 for training, 7 for validation\n");
    assert_contains(told, "[Data] 14 and 10 pairs; 2 and 1 clips have none, because their speaker has no other clip\n");
    assert_contains(told, "train_pairs.jsonl");
    assert_contains(told, " --number-mel-codes 34 --model-dim 16 ");
}

TEST(stats_are_written) {
    json_t *stats = corpus_read_json(corpus_reference(NULL), "stats.json");
    assert_int_equal(corpus_number(stats, "recordings"), CORPUS_KEPT + CORPUS_REJECTED);
    assert_int_equal(corpus_number(stats, "total"), CORPUS_KEPT);
    assert_int_equal(corpus_number(stats, "train"), CORPUS_TRAIN);
    assert_int_equal(corpus_number(stats, "val"), CORPUS_VAL);
    assert_int_equal(corpus_number(stats, "train_pairs"), CORPUS_TRAIN_PAIRS);
    assert_int_equal(corpus_number(stats, "val_pairs"), CORPUS_VAL_PAIRS);
    assert_int_equal(corpus_number(stats, "unknown_tokens"), 0);
    assert_int_equal(json_object_size(json_object_get(stats, "left_out")), CORPUS_REJECTED);
    double entropy = json_number_value(json_object_get(stats, "code_entropy"));
    assert_true(entropy > 1 && entropy <= log(CORPUS_ENTRIES));
    json_decref(stats);
}

/* ---- manifests ---- */

static bool is_held_out(const char *id) {
    for (int i = 0; i < CORPUS_VAL; i++)
        if (!strcmp(id, held_out[i])) return true;
    return false;
}

/* The file of a clip in this folder, which is there. */
static void expect_file(const json_t *line, const char *key, const char *folder, const char *id) {
    char *want = kept_format("%s/%s.npy", folder, id), *path = corpus_path("reference", want);
    assert_string_equal(corpus_text(line, key), want);
    assert_int_equal(access(path, R_OK), 0);
}

TEST(single_manifests_hold_every_clip_once) {
    const char *output = corpus_reference(NULL);
    json_t *all = corpus_read_lines(output, "manifest.jsonl"),
           *train = corpus_read_lines(output, "train_manifest.jsonl");
    json_t *val = corpus_read_lines(output, "val_manifest.jsonl"), *line;
    size_t i, of_train = 0, of_val = 0;
    assert_int_equal(json_array_size(all), CORPUS_KEPT);
    assert_keys_documented(json_array_get(all, 0), "## A prepared set of speech");
    json_array_foreach(all, i, line) {
        const char *id = corpus_text(line, "id");
        assert_string_equal(id, corpus_ids[i]);
        assert_true(
            json_equal(line, is_held_out(id) ? json_array_get(val, of_val++) : json_array_get(train, of_train++)));
        double seconds = json_number_value(json_object_get(line, "duration"));
        assert_true(fabs(seconds - corpus_seconds((int)i)) < 1e-4); /* a sample or two, of the resampling */
        assert_int_equal(corpus_number(line, "code_len"), (int64_t)(seconds * 50 + 1e-6));
        assert_int_equal(corpus_number(line, "condition_len"), 32);
        expect_file(line, "text_ids_path", "text_ids", id);
        expect_file(line, "codes_path", "codes", id);
        expect_file(line, "condition_path", "condition", id);
        expect_file(line, "emo_vec_path", "emo_vec", id);
        assert_string_equal(corpus_text(line, "language"), "am");
        assert_memory_equal(corpus_text(line, "speaker"), id, 6);
        char *path = corpus_path(output, corpus_text(line, "audio_path"));
        assert_int_equal(access(path, R_OK), 0);
    }
    assert_int_equal(json_array_size(train), of_train);
    assert_int_equal(json_array_size(val), of_val);
    assert_int_equal(of_val, CORPUS_VAL);
    json_decref(all);
    json_decref(train);
    json_decref(val);
}

/* One field of a pair is one of a clip's line in manifest.jsonl. */
static void expect_same(const json_t *pair, const char *key, const json_t *clip, const char *clip_key) {
    const json_t *value = json_object_get(pair, key);
    if (!value || !json_equal(value, json_object_get(clip, clip_key)))
        fail_msg("%s is not its clip's %s", key, clip_key);
}

/* A pair has the condition of the clip that is its prompt, and the text and codes of its target. */
static void check_clips_of_pair(const json_t *pair, const json_t *prompt, const json_t *target) {
    expect_same(pair, "speaker", target, "speaker");
    expect_same(pair, "prompt_audio_path", prompt, "audio_path");
    expect_same(pair, "prompt_condition_len", prompt, "condition_len");
    expect_same(pair, "prompt_duration", prompt, "duration");
    expect_same(pair, "target_audio_path", target, "audio_path");
    expect_same(pair, "target_text", target, "text");
    expect_same(pair, "target_text_len", target, "text_len");
    expect_same(pair, "target_code_len", target, "code_len");
    expect_same(pair, "target_duration", target, "duration");
    expect_file(pair, "prompt_condition_path", "condition", corpus_text(prompt, "id"));
    expect_file(pair, "prompt_emo_vec_path", "emo_vec", corpus_text(prompt, "id"));
    expect_file(pair, "target_text_ids_path", "text_ids", corpus_text(target, "id"));
    expect_file(pair, "target_codes_path", "codes", corpus_text(target, "id"));
    expect_file(pair, "target_emo_vec_path", "emo_vec", corpus_text(target, "id"));
}

/* Two clips of one speaker, of one half, that are not the same, and no pair twice. */
static void check_pairs(const char *name, int count, bool of_val) {
    json_t *pairs = corpus_read_lines(corpus_reference(NULL), name), *seen = json_object(), *line;
    json_t *clips = corpus_read_lines("reference", "manifest.jsonl");
    size_t i;
    assert_int_equal(json_array_size(pairs), count);
    assert_keys_documented(json_array_get(pairs, 0), "## A prepared set of speech");
    json_array_foreach(pairs, i, line) {
        const char *prompt = corpus_text(line, "prompt_id"), *target = corpus_text(line, "target_id");
        char *id = kept_format("%s__%s", target, prompt);
        assert_string_equal(corpus_text(line, "id"), id);
        assert_string_not_equal(prompt, target);
        assert_memory_equal(prompt, target, 6);
        assert_true(is_held_out(prompt) == of_val && is_held_out(target) == of_val);
        assert_null(json_object_get(seen, id));
        json_object_set_new(seen, id, json_true());
        check_clips_of_pair(line, corpus_line(clips, prompt), corpus_line(clips, target));
    }
    json_decref(clips);
    json_decref(pairs);
    json_decref(seen);
}

TEST(pairs_are_of_one_speaker_and_one_half) {
    check_pairs("train_pairs.jsonl", CORPUS_TRAIN_PAIRS, false);
    check_pairs("val_pairs.jsonl", CORPUS_VAL_PAIRS, true);
}

TEST(a_target_has_as_many_prompts_as_asked_for) {
    corpus_reference(NULL);
    corpus_prepare("single", "--pairs-per-target 1");
    assert_contains(fixture.output, "[Data] 7 and 6 pairs;");
}

TEST(every_manifest_opens_as_a_data_set) {
    static const struct {
        const char *name;
        int split, samples;
        bool paired;
    } cases[] = {{"manifest.jsonl", SPLIT_ALL, CORPUS_KEPT, false},
                 {"manifest.jsonl", SPLIT_TRAIN, CORPUS_TRAIN, false},
                 {"manifest.jsonl", SPLIT_VALIDATION, CORPUS_VAL, false},
                 {"train_manifest.jsonl", SPLIT_ALL, CORPUS_TRAIN, false},
                 {"val_manifest.jsonl", SPLIT_ALL, CORPUS_VAL, false},
                 {"train_pairs.jsonl", SPLIT_ALL, CORPUS_TRAIN_PAIRS, true},
                 {"train_pairs.jsonl", SPLIT_TRAIN, CORPUS_TRAIN_PAIRS, true},
                 {"val_pairs.jsonl", SPLIT_VALIDATION, CORPUS_VAL_PAIRS, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        GptDatasetReport r = corpus_open_manifest(corpus_reference(NULL), cases[i].name, (Split)cases[i].split, false);
        assert_int_equal(r.samples, cases[i].samples);
        assert_int_equal(cases[i].paired ? r.paired : r.single, cases[i].samples);
        assert_int_equal(r.padded_codes, 0);
        assert_int_equal(r.equal_code_runs, 0);
        assert_int_equal(r.unknown_tokens, 0);
    }
}

/* One clip's codes, 62 of them, are padded to 66 as the original preprocessing would: found, and cut if wanted. */
TEST(padded_codes_are_flagged) {
    corpus_prepare("padded", "--num-workers 2");
    int64_t dims[2];
    int32_t padded[66] = {0}, *codes = corpus_read_array("padded", "codes", corpus_ids[2], 'i', dims);
    char *path = corpus_path("padded", "codes/spk003_000003.npy");
    Error error;
    assert_int_equal(dims[0], 62);
    memcpy(padded, codes, 62 * sizeof *codes);
    assert_true(npy_write(path, "<i4", padded, 1, (int64_t[]){66}, &error));
    int status = run_command(fixture.output, sizeof fixture.output,
                             "sed -i 's/\"code_len\":62/\"code_len\":66/' %s/padded/manifest.jsonl", corpus_root);
    assert_int_equal(status, 0);
    GptDatasetReport r = corpus_open_manifest("padded", "manifest.jsonl", SPLIT_ALL, false);
    assert_int_equal(r.padded_codes, 1);
    assert_int_equal(r.codes,
                     corpus_open_manifest(corpus_reference(NULL), "manifest.jsonl", SPLIT_ALL, false).codes + 4);
    r = corpus_open_manifest("padded", "manifest.jsonl", SPLIT_ALL, true);
    assert_int_equal(r.repaired, 1);
    /* A run finds codes that are not as long as the clip, or not of this codebook, and makes them anew. */
    for (int i = 0; i < 2; i++) {
        corpus_prepare("padded", "--num-workers 2");
        assert_contains(fixture.output, "[Codes] 1 clips coded, 15 reused; 1 of them were coded before");
        corpus_assert_same("padded", corpus_reference(NULL));
        padded[7] = CORPUS_ENTRIES;
        assert_true(npy_write(path, "<i4", padded, 1, (int64_t[]){62}, &error));
    }
    free(codes);
}

/* ---- arrays ---- */

TEST(text_ids_spell_the_normalised_text) {
    const char *output = corpus_reference(NULL);
    json_t *lines = corpus_read_lines(output, "manifest.jsonl"), *line;
    char *path = corpus_path(output, "bpe.model");
    Error error;
    SentencePiece *tokenizer = sentencepiece_open(path, &error);
    size_t i;
    assert_non_null(tokenizer);
    json_array_foreach(lines, i, line) {
        int64_t dims[2];
        size_t size;
        int32_t *tokens = corpus_read_array(output, "text_ids", corpus_ids[i], 'i', dims);
        char *text = keep(text_normalize_amharic(corpus_text(line, "text"), &error));
        char *spelt = keep(sentencepiece_decode(tokenizer, tokens, dims[0], &size));
        assert_int_equal(dims[0], corpus_number(line, "text_len"));
        assert_string_equal(spelt, text);
        free(tokens);
    }
    sentencepiece_close(tokenizer);
    json_decref(lines);
}

/* Within float32's rounding: products of 80 terms, each rounded to 2^-24 of at most |x| |c| < 80 * 10 * 10. */
TEST(codes_are_the_nearest_entries_of_the_codebook) {
    const char *output = corpus_reference(NULL);
    int64_t dims[2], n, total = 0;
    float *entries = corpus_read_array(output, ".", "codebook", 'f', dims);
    double squares = 0;
    assert_true(dims[0] == CORPUS_ENTRIES && dims[1] == MEL_BANDS);
    for (int i = 0; i < CORPUS_KEPT; i++) {
        int32_t *codes = corpus_read_array(output, "codes", corpus_ids[i], 'i', dims);
        n = dims[0];
        float *frames = corpus_read_array(output, "mel", corpus_ids[i], 'f', dims);
        assert_true(dims[0] == n && dims[1] == MEL_BANDS);
        for (int64_t t = 0; t < n; t++) {
            double nearest = INFINITY;
            assert_in_range(codes[t], 0, CORPUS_ENTRIES - 1);
            double mine = frames_square_distance(frames + t * MEL_BANDS, entries + codes[t] * MEL_BANDS);
            for (int k = 0; k < CORPUS_ENTRIES; k++)
                nearest = fmin(nearest, frames_square_distance(frames + t * MEL_BANDS, entries + k * MEL_BANDS));
            assert_true(mine - nearest <= 80 * 0x1p-24 * 8000);
            squares += mine;
        }
        total += n;
        free(codes);
        free(frames);
    }
    json_t *stats = corpus_read_json(output, "stats.json"), *facts = corpus_read_json(output, "codebook.json");
    double decibels = 20 / log(10) * sqrt(squares / (double)(total * MEL_BANDS));
    assert_int_equal(corpus_number(stats, "codes"), total);
    assert_int_equal(corpus_number(facts, "frames"), total); /* fewer than 64 an entry: all of them */
    assert_true(fabs(json_number_value(json_object_get(stats, "error_db")) - decibels) < 1e-4 * decibels);
    json_decref(stats);
    json_decref(facts);
    free(entries);
}

TEST(the_codebook_can_be_trained_on_a_part) {
    corpus_prepare("part", "--num-workers 2");
    corpus_prepare("part", "--num-workers 2 --frames-per-entry 20");
    assert_contains(fixture.output, "[Codebook] 32 entries, 640 frames");
    corpus_prepare("part", "--num-workers 2");
    corpus_assert_same("part", corpus_reference(NULL));
}

/* The corpus has 1530 frames: 10 for each of 153 entries. */
TEST(a_codebook_too_large_for_the_recordings_gives_a_warning) {
    const char *told;
    corpus_reference(&told);
    assert_null(strstr(told, "warning"));
    corpus_prepare("few", "--num-workers 2 --codebook-size 204");
    const char *warning = "warning: the clips have only 7.5 frames for each of the 204 entries of the codebook; at "
                          "least 10 are advisable: choose --codebook-size 128\n";
    assert_contains(fixture.output, warning);
    assert_null(strstr(strstr(fixture.output, warning) + 1, "warning"));
    corpus_prepare("few", "--num-workers 2 --codebook-size 128");
    assert_null(strstr(fixture.output, "warning"));
}

/* out[WIDTH] = 0.1 / sqrt(rows) times in[rows] times the standard normal matrix `which` */
static void project(const double *in, int rows, uint64_t seed, uint32_t which, float *out) {
    for (int j = 0; j < CORPUS_WIDTH; j++) {
        double sum = 0;
        for (int i = 0; i < rows; i++)
            sum += in[i] * (double)philox_normal(seed, PURPOSE_PROJECTION, which, (uint64_t)(i * CORPUS_WIDTH + j));
        out[j] = (float)(0.1 / sqrt(rows) * sum);
    }
}

/* The map of data/gpt/speech_coder.h written out in double: z, then the 32 parts, then the voice's statistics. */
static void check_vectors(const char *id, const json_t *facts) {
    int64_t dims[2], n, seed = corpus_number(facts, "seed");
    const json_t *mean = json_object_get(facts, "mean"), *deviation = json_object_get(facts, "deviation");
    float *frames = corpus_read_array("reference", "mel", id, 'f', dims), want[32 * CORPUS_WIDTH];
    n = dims[0];
    double(*z)[MEL_BANDS] = xmalloc((size_t)n * sizeof *z), s[2 * MEL_BANDS + 2] = {0}, energy[2] = {0};
    for (int64_t t = 0; t < n; t++) {
        double over_bands = 0;
        for (int b = 0; b < MEL_BANDS; b++) {
            z[t][b] = ((double)frames[t * MEL_BANDS + b] - json_number_value(json_array_get(mean, (size_t)b))) /
                      json_number_value(json_array_get(deviation, (size_t)b));
            s[b] += z[t][b] / (double)n;
            over_bands += z[t][b] / MEL_BANDS;
        }
        energy[0] += over_bands / (double)n;
        energy[1] += over_bands * over_bands / (double)n;
    }
    for (int b = 0; b < MEL_BANDS; b++) {
        double squares = 0;
        for (int64_t t = 0; t < n; t++) squares += (z[t][b] - s[b]) * (z[t][b] - s[b]) / (double)n;
        s[MEL_BANDS + b] = sqrt(squares) - 1;
    }
    s[2 * MEL_BANDS] = energy[0];
    s[2 * MEL_BANDS + 1] = sqrt(energy[1] - energy[0] * energy[0]);
    for (int64_t i = 0; i < 32; i++) {
        double part[MEL_BANDS] = {0};
        int64_t begin = i * n / 32, end = (i + 1) * n / 32; /* no part is empty: every clip has 50 frames */
        for (int64_t t = begin; t < end; t++)
            for (int b = 0; b < MEL_BANDS; b++) part[b] += z[t][b] / (double)(end - begin);
        project(part, MEL_BANDS, (uint64_t)seed, 0, want + i * CORPUS_WIDTH);
    }
    float *condition = corpus_read_array("reference", "condition", id, 'f', dims);
    assert_true(dims[0] == 32 && dims[1] == CORPUS_WIDTH);
    assert_close("condition", condition, want, 32 * CORPUS_WIDTH, 1e-5);
    project(s, 2 * MEL_BANDS + 2, (uint64_t)seed, 1, want);
    float *emotion = corpus_read_array("reference", "emo_vec", id, 'f', dims);
    assert_int_equal(dims[0], CORPUS_WIDTH);
    assert_close("emotion", emotion, want, CORPUS_WIDTH, 1e-5);
    free(frames);
    free(z);
    free(condition);
    free(emotion);
}

TEST(vectors_are_the_documented_map) {
    json_t *facts = corpus_read_json(corpus_reference(NULL), "codebook.json");
    for (int i = 0; i < CORPUS_KEPT; i += 5) check_vectors(corpus_ids[i], facts);
    json_decref(facts);
}

int main(void) { return tests_run(corpus_open, NULL); }
