/* Manifests and npy files in scratch directories: what is read, what is found wrong, and the micro-batches made of it.
 */
#include "data/gpt/dataset.h"

#include <math.h>
#include <unistd.h>

#include "data/formats/npy.h"
#include "data/gpt/manifest.h"
#include "tests/test.h"

static Error error;

enum { D_MODEL = 4, LATENTS = 32, MAX_TEXT = 20, MAX_CODES = 300, TEXT_VOCABULARY = 50, CODES = 8192 };

static const GptLayout layout = {.d_model = D_MODEL,
                                 .n_conditioning = LATENTS,
                                 .max_text = MAX_TEXT,
                                 .max_codes = MAX_CODES,
                                 .text_vocabulary = TEXT_VOCABULARY,
                                 .audio_vocabulary = CODES,
                                 .start_text = 0,
                                 .stop_text = 1,
                                 .start_mel = 8192,
                                 .stop_mel = 8193};

/* Clip 0 of the worked example in the voice of its clip 1. */
#define PAIR_LINE                                                                                                      \
    "{\"id\":\"clip_0__clip_1\",\"target_id\":\"clip_0\",\"prompt_condition_path\":\"k1.npy\","                        \
    "\"prompt_emo_vec_path\":\"e1.npy\",\"target_text_ids_path\":\"t0.npy\",\"target_text_len\":3,"                    \
    "\"target_codes_path\":\"c0.npy\",\"target_code_len\":4}"

/* A directory of clips: t<i>.npy, c<i>.npy, k<i>.npy, e<i>.npy and the lines of their manifest. */
typedef struct {
    char *directory, *manifest;
    char *lines[32];
    int n;
} Corpus;

static void put_array(const Corpus *corpus, char kind, int i, const char *dtype, const void *data, int64_t rows,
                      int64_t columns) {
    char *path = kept_format("%s/%c%d.npy", corpus->directory, kind, i);
    if (!npy_write(path, dtype, data, columns ? 2 : 1, (int64_t[]){rows, columns}, &error)) fail_msg("%s", error.text);
}

static Corpus corpus_open(void) {
    Corpus corpus = {.directory = scratch_directory()};
    corpus.manifest = path_join(corpus.directory, "m.jsonl");
    return corpus;
}

static void corpus_close(Corpus *corpus) {
    for (int i = 0; i < corpus->n; i++) free(corpus->lines[i]);
    free(corpus->manifest);
    free(corpus->directory);
}

/* Adds a clip. Latent r, channel c of clip i is 100 i + r + c / 8, its emotion is 1000 (c + 1): all exact in f32. */
static void corpus_add(Corpus *corpus, int n_text, const int32_t *text, int n_codes, const int32_t *codes,
                       double duration) {
    int i = corpus->n++;
    float latents[LATENTS * D_MODEL], emotion[D_MODEL];
    for (int k = 0; k < LATENTS * D_MODEL; k++) latents[k] = (float)(100 * i + k / D_MODEL) + (float)(k % D_MODEL) / 8;
    for (int k = 0; k < D_MODEL; k++) emotion[k] = (float)(1000 * (k + 1));
    put_array(corpus, 't', i, "<i4", text, n_text, 0);
    put_array(corpus, 'c', i, "<i4", codes, n_codes, 0);
    put_array(corpus, 'k', i, "<f4", latents, LATENTS, D_MODEL);
    put_array(corpus, 'e', i, "<f4", emotion, D_MODEL, 0);
    char *seconds = duration > 0 ? xformat("%g", duration) : xstrdup("null");
    corpus->lines[i] =
        xformat("{\"id\":\"clip_%d\",\"text_ids_path\":\"t%d.npy\",\"text_len\":%d,\"codes_path\":\"c%d.npy\","
                "\"code_len\":%d,\"condition_path\":\"k%d.npy\",\"emo_vec_path\":\"e%d.npy\","
                "\"duration\":%s}",
                i, i, n_text, i, n_codes, i, i, seconds);
    free(seconds);
}

/* A clip of these lengths with ids 3, 4, ... and codes 0, 1, ... */
static void corpus_add_lengths(Corpus *corpus, int n_text, int n_codes, double duration) {
    int32_t text[MAX_TEXT], codes[MAX_CODES];
    for (int i = 0; i < n_text; i++) text[i] = 3 + i;
    for (int i = 0; i < n_codes; i++) codes[i] = i;
    corpus_add(corpus, n_text, text, n_codes, codes, duration);
}

/* Writes the manifest. blanks: with a blank line after every line. */
static void corpus_write(const Corpus *corpus, bool blanks) {
    FILE *file = fopen(corpus->manifest, "w");
    assert_non_null(file);
    for (int i = 0; i < corpus->n; i++) fprintf(file, "%s%s\n", corpus->lines[i], blanks ? "\n \t\r" : "");
    assert_int_equal(fclose(file), 0);
}

/* Replaces `from` in the line of clip i. */
static void corpus_change(Corpus *corpus, int i, const char *from, const char *to) {
    char *line = corpus->lines[i], *at = strstr(line, from);
    assert_non_null(at);
    corpus->lines[i] = xformat("%.*s%s%s", (int)(at - line), line, to, at + strlen(from));
    free(line);
}

static Dataset *corpus_dataset(const Corpus *corpus, Split split, double ratio, bool repair, GptDatasetReport *report) {
    corpus_write(corpus, false);
    GptDatasetOptions options = {
        .unknown_id = 2, .layout = layout, .split = split, .val_ratio = ratio, .n_threads = 3, .repair_codes = repair};
    return gpt_dataset_open((const char *const *)&corpus->manifest, 1, &options, report);
}

/* The worked example: two samples, 3 and 5 text ids, 4 and 2 codes. */
static Corpus example_corpus(void) {
    Corpus corpus = corpus_open();
    corpus_add(&corpus, 3, (const int32_t[]){11, 12, 13}, 4, (const int32_t[]){100, 101, 102, 103}, 0);
    corpus_add(&corpus, 5, (const int32_t[]){21, 22, 23, 24, 25}, 2, (const int32_t[]){200, 201}, 0);
    return corpus;
}

static void expect_i32(const Batch *batch, int field, int64_t n, const int32_t *want) {
    const Tensor *t = &batch->fields[field];
    assert_true(t->dtype == DTYPE_I32 && t->rank == 1 && (uintptr_t)t->data % 64 == 0);
    assert_int_equal(t->dims[0], n);
    assert_memory_equal(t->data, want, (size_t)n * sizeof *want);
}
#define EXPECT_I32(batch, field, ...)                                                                                  \
    expect_i32(batch, field, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), (const int32_t[]){__VA_ARGS__})

static Batch fill(const Dataset *dataset, const int32_t *samples, int n) {
    Batch batch = batch_open(dataset->batch_bytes(dataset, samples, n), n);
    if (!dataset->fill(dataset, &batch, samples, n, &error)) fail_msg("%s", error.text);
    return batch;
}

static void close_all(Batch *batch, Dataset *dataset, Corpus *corpus) {
    batch_close(batch);
    dataset->close(dataset);
    corpus_close(corpus);
}

TEST(the_worked_example) {
    Corpus corpus = example_corpus();
    GptDatasetReport report;
    Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &report);
    Batch b = fill(dataset, (const int32_t[]){0, 1}, 2);

    assert_int_equal(b.n_sequences, 2);
    assert_int_equal(b.n_tokens, 34 + 5 + 5 + 34 + 7 + 3);
    assert_int_equal(b.counts[GPT_COUNT_TEXT], 10);
    assert_int_equal(b.counts[GPT_COUNT_MEL], 8);
    EXPECT_I32(&b, GPT_OFFSETS, 0, 44, 88);
    EXPECT_I32(&b, GPT_SPEED_IDS, 1, 0, 1, 0);
    EXPECT_I32(&b, GPT_SPEED_ROWS, 32, 33, 76, 77);
    EXPECT_I32(&b, GPT_TEXT_IDS, 0, 11, 12, 13, 1, 0, 21, 22, 23, 24, 25, 1);
    EXPECT_I32(&b, GPT_TEXT_POSITIONS, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6);
    EXPECT_I32(&b, GPT_TEXT_ROWS, 34, 35, 36, 37, 38, 78, 79, 80, 81, 82, 83, 84);
    EXPECT_I32(&b, GPT_TEXT_TARGETS, 11, 12, 13, 1, 21, 22, 23, 24, 25, 1);
    EXPECT_I32(&b, GPT_TEXT_TARGET_ROWS, 34, 35, 36, 37, 78, 79, 80, 81, 82, 83);
    EXPECT_I32(&b, GPT_MEL_IDS, 8192, 100, 101, 102, 103, 8192, 200, 201);
    EXPECT_I32(&b, GPT_MEL_POSITIONS, 0, 1, 2, 3, 4, 0, 1, 2);
    EXPECT_I32(&b, GPT_MEL_ROWS, 39, 40, 41, 42, 43, 85, 86, 87);
    EXPECT_I32(&b, GPT_MEL_TARGETS, 100, 101, 102, 103, 8193, 200, 201, 8193);
    const int32_t *rows = b.fields[GPT_CONDITIONING_ROWS].data;
    const float *latents = b.fields[GPT_CONDITIONING].data;
    assert_true(b.fields[GPT_CONDITIONING].dims[0] == 64 && b.fields[GPT_CONDITIONING].dims[1] == D_MODEL);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(rows[i], i < 32 ? i : 44 + i - 32);
        for (int c = 0; c < D_MODEL; c++)
            assert_true(latents[i * D_MODEL + c] == (float)(100 * (i / 32) + i % 32 + 1000 * (c + 1)) + (float)c / 8);
    }
    assert_string_equal(dataset->sample_id(dataset, b.samples[1]), "clip_1");
    assert_int_equal(dataset->tokens(dataset, 0), 44);
    close_all(&b, dataset, &corpus);
}

TEST(a_batch_is_in_the_order_asked_for) {
    Corpus corpus = example_corpus();
    GptDatasetReport report;
    Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &report);
    Batch b = fill(dataset, (const int32_t[]){1, 0, 1}, 3);
    EXPECT_I32(&b, GPT_OFFSETS, 0, 44, 88, 132);
    EXPECT_I32(&b, GPT_MEL_IDS, 8192, 200, 201, 8192, 100, 101, 102, 103, 8192, 200, 201);
    assert_true(b.samples[0] == 1 && b.samples[1] == 0 && b.samples[2] == 1);
    close_all(&b, dataset, &corpus);
}

TEST(pairs_take_text_and_codes_from_the_target) {
    Corpus corpus = example_corpus();
    GptDatasetReport report;
    free(corpus.lines[0]);
    corpus.lines[0] = xstrdup(PAIR_LINE);
    free(corpus.lines[--corpus.n]);
    Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &report);
    assert_true(report.paired == 1 && report.single == 0);
    assert_string_equal(dataset->sample_id(dataset, 0), "clip_0__clip_1");
    Batch b = fill(dataset, (const int32_t[]){0}, 1);
    EXPECT_I32(&b, GPT_TEXT_IDS, 0, 11, 12, 13, 1);
    EXPECT_I32(&b, GPT_MEL_IDS, 8192, 100, 101, 102, 103);
    assert_true(((const float *)b.fields[GPT_CONDITIONING].data)[0] == 1100);
    close_all(&b, dataset, &corpus);
}

TEST(the_report_counts_what_was_read) {
    Corpus corpus = corpus_open();
    GptDatasetReport r;
    corpus_add(&corpus, 3, (const int32_t[]){2, 5, 2}, 2, (const int32_t[]){9, 9}, 0); /* two unknown tokens */
    corpus_add_lengths(&corpus, 1, 10, 0);
    corpus_add_lengths(&corpus, 2, 30, 0);
    corpus_add_lengths(&corpus, 5, 50, 0);
    corpus_add_lengths(&corpus, 4, 8, 0);
    Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &r);
    assert_true(r.lines == 5 && r.samples == 5 && r.single == 5 && r.paired == 0);
    assert_true(r.unknown_tokens == 2 && r.text_tokens == 15 && r.codes == 100 && r.seconds_of_audio == 2);
    for (int q = 0; q < 5; q++) {
        assert_int_equal(r.text_length_quantiles[q], q + 1);
        assert_int_equal(r.code_length_quantiles[q], ((const int[]){2, 8, 10, 30, 50})[q]);
    }
    Batch b = fill(dataset, (const int32_t[]){0, 1, 2, 3, 4}, 5);
    const int32_t *targets = b.fields[GPT_MEL_TARGETS].data;
    double counts[CODES + 2] = {0}, entropy = 0;
    for (int i = 0; i < 105; i++) counts[targets[i]]++;
    assert_true(counts[0] == 4 && counts[9] == 2 + 3 && counts[49] == 1 && counts[layout.stop_mel] == 5);
    for (int i = 0; i < CODES + 2; i++) entropy -= counts[i] > 0 ? counts[i] / 105 * log(counts[i] / 105) : 0;
    assert_near(gpt_code_entropy(dataset), entropy, 1e-12);
    close_all(&b, dataset, &corpus);
}

/* 2.62 s have 130 codes: n = 41920 samples, 1 + floor(41520 / 160) = 260 frames. */
TEST(codes_of_padding_are_found_and_cut) {
    Corpus corpus = corpus_open();
    GptDatasetReport r;
    corpus_add_lengths(&corpus, 3, 133, 2.62); /* within 3 of what is expected */
    corpus_add_lengths(&corpus, 3, 134, 2.62);
    corpus_add_lengths(&corpus, 3, 126, 2.62);                             /* too few: nothing to cut */
    for (int i = 0; i < 3; i++) corpus_add_lengths(&corpus, 3, 200, 2.62); /* one batch of a careless codec */
    corpus_add_lengths(&corpus, 3, 200, 0);                                /* not checked without a duration */
    Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &r);
    assert_true(r.padded_codes == 5 && r.repaired == 0 && r.equal_code_runs == 1);
    assert_int_equal(r.no_duration, 1);
    dataset->close(dataset);
    dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, true, &r);
    assert_true(r.padded_codes == 5 && r.repaired == 4 && r.equal_code_runs == 1);
    Batch b = fill(dataset, (const int32_t[]){0, 1, 2, 3, 6}, 5);
    EXPECT_I32(&b, GPT_OFFSETS, 0, 34 + 5 + 134, 2 * 39 + 134 + 131, 3 * 39 + 134 + 131 + 127,
               4 * 39 + 134 + 131 + 127 + 131, 5 * 39 + 134 + 131 + 127 + 131 + 201);
    assert_int_equal(((const int32_t *)b.fields[GPT_MEL_TARGETS].data)[134 + 129], 129); /* the last code that stays */
    assert_int_equal(((const int32_t *)b.fields[GPT_MEL_TARGETS].data)[134 + 130], layout.stop_mel);
    close_all(&b, dataset, &corpus);
}

/* Four or more equal lengths count as one run. */
TEST(runs_of_equal_lengths_are_counted) {
    static const int lengths[][2] = {{3, 0}, {4, 1}, {5, 1}, {9, 1}, {0, 0}};
    for (int i = 0; lengths[i][0]; i++) {
        Corpus corpus = corpus_open();
        GptDatasetReport r;
        for (int k = 0; k < 2 * lengths[i][0]; k++) corpus_add_lengths(&corpus, 3, k < lengths[i][0] ? 50 : 60, 0);
        Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &r);
        assert_int_equal(r.equal_code_runs, 2 * lengths[i][1]);
        dataset->close(dataset);
        corpus_close(&corpus);
    }
}

/* Replaces the line of clip i by a pair as the original preprocessing writes it: the duration of the prompt, none of
 * the target. */
static void corpus_pair(Corpus *corpus, int i, int prompt, int n_codes, const char *prompt_seconds) {
    free(corpus->lines[i]);
    corpus->lines[i] =
        xformat("{\"id\":\"c%d__c%d\",\"prompt_id\":\"c%d\",\"target_id\":\"c%d\",\"prompt_duration\":%s,"
                "\"prompt_condition_path\":\"k%d.npy\",\"prompt_emo_vec_path\":\"e%d.npy\","
                "\"target_text_ids_path\":\"t%d.npy\",\"target_text_len\":3,"
                "\"target_codes_path\":\"c%d.npy\",\"target_code_len\":%d}",
                i, prompt, prompt, i, prompt_seconds, prompt, prompt, i, i, n_codes);
}

/* Clip 1 is nobody's prompt; of clip 3 the duration is null where it is one. */
TEST(the_durations_of_targets_are_found_where_they_are_prompts) {
    Corpus corpus = corpus_open();
    GptDatasetReport r;
    for (int i = 0; i < 4; i++) corpus_add_lengths(&corpus, 3, i ? 129 + i : 200, 0);
    corpus_pair(&corpus, 0, 2, 200, "2.62");
    corpus_pair(&corpus, 1, 0, 130, "2.62");
    corpus_pair(&corpus, 2, 3, 131, "null");
    corpus_pair(&corpus, 3, 0, 132, "2.62");
    Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &r);
    assert_true(r.paired == 4 && r.padded_codes == 1 && r.repaired == 0 && r.no_duration == 2);
    dataset->close(dataset);
    dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, true, &r);
    assert_true(r.padded_codes == 1 && r.repaired == 1 && r.codes == 130 + 130 + 131 + 132);
    dataset->close(dataset);
    /* the other half of a split knows durations too */
    double ratio = 0;
    while (!split_is_validation("c0", ratio)) ratio += 0.01;
    dataset = corpus_dataset(&corpus, SPLIT_VALIDATION, ratio, false, &r);
    assert_true(r.padded_codes == 1 && r.lines > r.samples);
    dataset->close(dataset);
    corpus_close(&corpus);
}

/* Clips of one id in two folders, one with a name that is no UTF-8, are two clips. */
TEST(durations_are_of_one_folder) {
    Corpus corpora[2] = {corpus_open(), corpus_open()};
    const char *manifests[2];
    GptDatasetReport r;
    char *odd = path_join(corpora[1].directory, "\xff");
    make_directories(odd);
    free(corpora[1].directory);
    free(corpora[1].manifest);
    corpora[1].directory = odd;
    corpora[1].manifest = path_join(odd, "m.jsonl");
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 2; i++) corpus_add_lengths(&corpora[k], 3, 130, 0);
        for (int i = 0; i < 2; i++) corpus_pair(&corpora[k], i, !i, 130, k ? "2.62" : "9.9");
        corpus_write(&corpora[k], false);
        manifests[k] = corpora[k].manifest;
    }
    Dataset *dataset = gpt_dataset_open(manifests, 2, &(GptDatasetOptions){.layout = layout}, &r);
    assert_true(r.padded_codes == 2 && r.no_duration == 0);
    dataset->close(dataset);
    for (int k = 0; k < 2; k++) corpus_close(&corpora[k]);
}

TEST(pairs_of_one_target_are_no_run_of_equal_lengths) {
    Corpus corpus = corpus_open();
    GptDatasetReport r;
    for (int i = 0; i < 8; i++) {
        corpus_add_lengths(&corpus, 3, 10 + i / 4, 0);
        free(corpus.lines[i]);
        corpus.lines[i] = xformat("{\"id\":\"p%d\",\"target_id\":\"t%d\",\"prompt_condition_path\":\"k%d.npy\","
                                  "\"prompt_emo_vec_path\":\"e0.npy\",\"target_text_ids_path\":\"t0.npy\","
                                  "\"target_text_len\":3,\"target_codes_path\":\"c%d.npy\",\"target_code_len\":%d}",
                                  i, i / 4, i, i, 10 + i / 4);
    }
    Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &r);
    assert_true(r.paired == 8 && r.equal_code_runs == 0);
    dataset->close(dataset);
    corpus_close(&corpus);
}

TEST(the_two_halves_of_a_split_are_disjoint_and_whole) {
    Corpus corpus = corpus_open();
    GptDatasetReport r[2];
    for (int i = 0; i < 30; i++) corpus_add_lengths(&corpus, 2, 3, 0);
    Dataset *half[2] = {corpus_dataset(&corpus, SPLIT_TRAIN, 0.3, false, &r[0]),
                        corpus_dataset(&corpus, SPLIT_VALIDATION, 0.3, false, &r[1])};
    assert_int_equal(half[0]->n_samples + half[1]->n_samples, 30);
    for (int h = 0; h < 2; h++) {
        assert_int_equal(r[h].samples, half[h]->n_samples);
        assert_int_equal(r[h].lines - r[h].samples, half[!h]->n_samples);
        for (int64_t i = 0; i < half[h]->n_samples; i++)
            assert_true(split_is_validation(half[h]->sample_id(half[h], i), 0.3) == h);
    }
    assert_true(half[1]->n_samples > 0);
    half[0]->close(half[0]);
    half[1]->close(half[1]);
    corpus_close(&corpus);
}

/* One of single utterances, one of pairs: each is of one kind. */
TEST(several_manifests_with_hints_and_blank_lines) {
    Corpus first = example_corpus(), second = example_corpus();
    GptDatasetReport r;
    for (int i = 0; i < 2; i++) {
        free(second.lines[i]);
        second.lines[i] = xstrdup(PAIR_LINE);
    }
    corpus_write(&first, true);
    corpus_write(&second, true);
    char *hinted = kept_format("%s::am", first.manifest);
    const char *const specs[] = {hinted, second.manifest};
    Dataset *dataset = gpt_dataset_open(specs, 2, &(GptDatasetOptions){.layout = layout}, &r);
    assert_true(r.lines == 4 && r.single == 2 && r.paired == 2 && dataset->n_samples == 4);
    assert_string_equal(dataset->sample_id(dataset, 2), "clip_0__clip_1");
    dataset->close(dataset);
    corpus_close(&first);
    corpus_close(&second);
}

TEST(a_byte_order_mark_is_skipped) {
    Corpus corpus = example_corpus();
    GptDatasetReport r;
    corpus_write(&corpus, false);
    write_text(corpus.manifest, "\xEF\xBB\xBF%s", kept_text(corpus.manifest));
    Dataset *dataset =
        gpt_dataset_open((const char *const *)&corpus.manifest, 1, &(GptDatasetOptions){.layout = layout}, &r);
    assert_true(r.lines == 2 && r.samples == 2);
    assert_string_equal(dataset->sample_id(dataset, 0), "clip_0");
    dataset->close(dataset);
    corpus_close(&corpus);
}

/* Errors in the data. */

static void open_and_close(void *corpus) {
    GptDatasetReport report;
    Dataset *dataset = gpt_dataset_open((const char *const *)&((Corpus *)corpus)->manifest, 1,
                                        &(GptDatasetOptions){.layout = layout, .n_threads = 4}, &report);
    dataset->close(dataset);
}

static void expect_die(Corpus *corpus, const char *message) {
    char output[8192];
    corpus_write(corpus, false);
    assert_int_equal(run_function(output, sizeof output, open_and_close, corpus), 1);
    assert_contains(output, message);
}

/* Nine good clips, of which line 7 gets `from` replaced by `to`; expects "m.jsonl:7: message". */
static void expect_bad_line(const char *from, const char *to, const char *message) {
    Corpus corpus = corpus_open();
    for (int i = 0; i < 9; i++) corpus_add_lengths(&corpus, 5, 10 + i, 0);
    int32_t large[3] = {0, CODES, 1}, unknown[2] = {TEXT_VOCABULARY, 1}, empty = 0;
    float latents[LATENTS * D_MODEL] = {0}, emotion[D_MODEL] = {0};
    put_array(&corpus, 'x', 0, "<i4", large, 3, 0);
    put_array(&corpus, 'x', 1, "<i4", unknown, 2, 0);
    put_array(&corpus, 'x', 2, "<i4", &empty, 0, 0);
    put_array(&corpus, 'x', 3, "<i4", large, 1, 3);
    put_array(&corpus, 'x', 4, "<f4", latents, LATENTS, D_MODEL - 1);
    latents[77] = NAN;
    put_array(&corpus, 'x', 5, "<f4", latents, LATENTS, D_MODEL);
    emotion[2] = INFINITY;
    put_array(&corpus, 'x', 6, "<f4", emotion, D_MODEL, 0);
    char *path = kept_path(corpus.directory, "x7.npy"), *object = kept_path(corpus.directory, "x8.npy");
    char header[128] = "\x93NUMPY\x01\x00\x76\x00{'descr': '|O', 'fortran_order': False, 'shape': (3,), }";
    memset(header + strlen(header + 10) + 10, ' ', 127 - strlen(header + 10) - 10);
    header[127] = '\n';
    write_bytes(object, header, sizeof header);
    put_array(&corpus, 'x', 7, "<i4", large, 3, 0);
    assert_int_equal(truncate(path, 128 + 7), 0);
    corpus_change(&corpus, 6, from, to);
    expect_die(&corpus, kept_format("%s:7%s", corpus.manifest, message));
    corpus_close(&corpus);
}

TEST(bad_lines_are_reported) {
    expect_bad_line("c6.npy", "gone.npy", ": codes_path gone.npy: cannot open: No such file or directory");
    expect_bad_line("c6.npy", "", ": codes_path is empty");
    expect_bad_line("c6.npy", ".", ": codes_path .: is a folder, not a regular file");
    expect_bad_line("c6.npy\",\"code_len\":16", "x7.npy\",\"code_len\":3",
                    ": codes_path x7.npy: is truncated: it holds 7 bytes of numbers, its shape needs 12");
    expect_bad_line("c6.npy\",\"code_len\":16", "x8.npy\",\"code_len\":3",
                    ": codes_path x8.npy: holds Python objects (dtype |O): a pickle, which is not read");
    expect_bad_line("c6.npy\",\"code_len\":16", "x0.npy\",\"code_len\":3",
                    ": codes_path x0.npy: element 1 is 8192, expected 0 to 8191");
    expect_bad_line("t6.npy\",\"text_len\":5", "x1.npy\",\"text_len\":2",
                    ": text_ids_path x1.npy: element 0 is 50, expected 0 to 49");
    expect_bad_line("c6.npy\",\"code_len\":16", "x3.npy\",\"code_len\":3",
                    ": codes_path x3.npy: has shape [1, 3], expected [3]");
    expect_bad_line("\"code_len\":16", "\"code_len\":15", ": codes_path c6.npy: has 16 elements, the manifest says 15");
    expect_bad_line("t6.npy", "x2.npy", ": text_ids_path x2.npy: has 0 elements, the manifest says 5");
    expect_bad_line("\"text_len\":5", "\"text_len\":0", ": text_len is 0: the text is empty");
    expect_bad_line("\"code_len\":16", "\"code_len\":0", ": code_len is 0: the audio is empty");
    expect_bad_line("\"text_len\":5", "\"text_len\":21", ": text_len is 21, the model takes at most 20");
    expect_bad_line("\"code_len\":16", "\"code_len\":301", ": code_len is 301, the model takes at most 300");
    expect_bad_line("k6.npy\"", "k6.npy\",\"condition_len\":16", ": condition_len is 16, expected 32");
    expect_bad_line("k6.npy", "x4.npy", ": condition_path x4.npy: has shape [32, 3], expected [32, 4]");
    expect_bad_line("k6.npy", "x5.npy", ": condition_path x5.npy: element 77 is not finite");
    expect_bad_line("e6.npy", "x6.npy", ": emo_vec_path x6.npy: element 2 is not finite");
    expect_bad_line("e6.npy", "k6.npy", ": emo_vec_path k6.npy: has shape [32, 4], expected [4]");
    expect_bad_line("k6.npy", "t6.npy", ": condition_path t6.npy: has shape [5], expected [32, 4]");
    expect_bad_line("e6.npy\",", "e6.npy\",,", ":140: invalid JSON: expected a name in double quotes");
    expect_bad_line("\"id\"", "\"Id\"", ": id is missing");
}

TEST(bad_lines_are_counted_in_order) {
    Corpus corpus = corpus_open();
    char output[8192];
    for (int i = 0; i < 20; i++) corpus_add_lengths(&corpus, 2, 3, 0);
    for (int i = 3; i < 18; i++) corpus_change(&corpus, i, "\"text_len\":2", "\"text_len\":0");
    corpus_write(&corpus, false);
    assert_int_equal(run_function(output, sizeof output, open_and_close, &corpus), 1);
    const char *at = output;
    for (int i = 4; i < 14; i++) { /* the first ten, in the order of the file whatever the threads did */
        char *line = kept_format("%s:%d: text_len is 0: the text is empty\n", corpus.manifest, i);
        assert_memory_equal(at, line, strlen(line));
        at += strlen(line);
    }
    assert_contains(at, "... and 5 more\n");
    assert_contains(at, "15 of 20 manifest lines cannot be used");
    assert_null(strstr(at, "text_len"));
    corpus_close(&corpus);
}

/* An array of JSON, compressed. */
TEST(a_manifest_may_be_an_array) {
    Corpus corpus = example_corpus();
    GptDatasetReport report;
    char output[256];
    corpus_write(&corpus, false);
    assert_int_equal(run_command(output, sizeof output,
                                 "(echo '['; sed '1s/$/,/' %s; echo ']') | gzip >%s.gz && mv %s.gz %s", corpus.manifest,
                                 corpus.manifest, corpus.manifest, corpus.manifest),
                     0);
    GptDatasetOptions options = {.unknown_id = 2, .layout = layout, .n_threads = 3};
    Dataset *dataset = gpt_dataset_open((const char *const *)&corpus.manifest, 1, &options, &report);
    assert_int_equal(dataset->n_samples, 2);
    assert_string_equal(dataset->sample_id(dataset, 1), "clip_1");
    dataset->close(dataset);
    corpus_close(&corpus);
}

TEST(records_of_an_array_in_one_line_are_told_apart) {
    Corpus corpus = example_corpus();
    char output[8192];
    corpus_change(&corpus, 1, "e1.npy", "gone.npy");
    corpus_write(&corpus, false);
    char *lines = kept_text(corpus.manifest), *end = strchr(lines, '\n');
    assert_non_null(end);
    end[1 + strcspn(end + 1, "\n")] = *end = 0;
    write_text(corpus.manifest, "[%s, %s]", lines, end + 1);
    char *message = kept_format(":1:%d: ", (int)(2 + strlen(lines) + 2));
    assert_int_equal(run_function(output, sizeof output, open_and_close, &corpus), 1);
    assert_contains(output, message);
    assert_contains(strstr(output, message), "gone.npy: ");
    corpus_close(&corpus);
}

/* A line that is no JSON, and one whose file is missing, between good ones. */
TEST(bad_lines_are_left_out_if_they_may) {
    Corpus corpus = corpus_open();
    for (int i = 0; i < 4; i++) corpus_add_lengths(&corpus, 3, 4 + i, 0);
    corpus_change(&corpus, 1, "{", "");
    corpus_change(&corpus, 2, "e2.npy", "gone.npy");
    expect_die(&corpus, "2 of 4 manifest lines cannot be used; --skip-bad leaves them out");
    GptDatasetReport report;
    GptDatasetOptions options = {.unknown_id = 2, .layout = layout, .n_threads = 3, .skip_bad = true};
    Dataset *dataset = gpt_dataset_open((const char *const *)&corpus.manifest, 1, &options, &report);
    assert_int_equal(dataset->n_samples, 2);
    assert_int_equal(report.lines, 2);
    assert_string_equal(dataset->sample_id(dataset, 0), "clip_0");
    assert_string_equal(dataset->sample_id(dataset, 1), "clip_3");
    dataset->close(dataset);
    corpus_close(&corpus);
}

TEST(a_manifest_of_both_kinds_is_refused) {
    Corpus corpus = example_corpus();
    corpus_add(&corpus, 3, (const int32_t[]){11, 12, 13}, 4, (const int32_t[]){100, 101, 102, 103}, 0);
    free(corpus.lines[2]);
    corpus.lines[2] = xstrdup(PAIR_LINE);
    expect_die(&corpus, "m.jsonl: line 3 is a prompt/target pair and line 2 a single utterance");
    char *line = corpus.lines[0];
    corpus.lines[0] = corpus.lines[2];
    corpus.lines[2] = line;
    expect_die(&corpus, "m.jsonl: line 1 is a prompt/target pair and line 2 a single utterance");
    corpus_change(&corpus, 0, "k1.npy", "gone.npy");
    expect_die(&corpus, "m.jsonl:1: prompt_condition_path gone.npy: cannot open");
    corpus_close(&corpus);
}

TEST(a_manifest_without_lines_is_refused) {
    Corpus corpus = corpus_open();
    expect_die(&corpus, "has no lines");
    free(corpus.manifest);
    corpus.manifest = path_join(corpus.directory, "none/m.jsonl");
    char output[1024];
    assert_int_equal(run_function(output, sizeof output, open_and_close, &corpus), 1);
    assert_contains(output, "none/m.jsonl: cannot open: No such file or directory");
    corpus_close(&corpus);
}

TEST(a_file_that_vanished_is_named_by_fill) {
    Corpus corpus = example_corpus();
    GptDatasetReport report;
    Dataset *dataset = corpus_dataset(&corpus, SPLIT_ALL, 0, false, &report);
    char *path = kept_path(corpus.directory, "e1.npy");
    const int32_t samples[2] = {0, 1};
    Batch batch = batch_open(dataset->batch_bytes(dataset, samples, 2), 2);
    assert_int_equal(unlink(path), 0);
    assert_false(dataset->fill(dataset, &batch, samples, 2, &error));
    assert_contains(error.text, "e1.npy: cannot open: No such file or directory");
    char *longer = xcalloc(1, 4096); /* a file that grew does not overrun the batch */
    write_bytes(path, longer, 4096);
    batch_clear(&batch);
    assert_false(dataset->fill(dataset, &batch, samples, 2, &error));
    assert_contains(error.text, "e1.npy: has 4096 bytes, more than the");
    free(longer);
    batch_close(&batch);
    dataset->close(dataset);
    corpus_close(&corpus);
}

TEST(a_synthetic_data_set_has_the_lengths_given) {
    const int32_t text[3] = {5, 20, 1}, codes[3] = {300, 1, 7}, samples[3] = {2, 0, 1};
    Dataset *a = gpt_dataset_synthetic(&layout, text, codes, 3), *b = gpt_dataset_synthetic(&layout, text, codes, 3);
    Batch first = fill(a, samples, 3), second = fill(b, samples, 3);
    assert_int_equal(first.counts[GPT_COUNT_TEXT], 6 + 21 + 2);
    assert_int_equal(first.counts[GPT_COUNT_MEL], 301 + 2 + 8);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.buffer, second.buffer, first.size);
    const int32_t *ids = first.fields[GPT_TEXT_IDS].data, *mel = first.fields[GPT_MEL_IDS].data;
    for (int64_t i = 0; i < first.fields[GPT_TEXT_IDS].dims[0]; i++) assert_in_range(ids[i], 0, TEXT_VOCABULARY - 1);
    for (int64_t i = 0; i < first.fields[GPT_MEL_IDS].dims[0]; i++) assert_in_range(mel[i], 0, CODES);
    batch_close(&first);
    batch_close(&second);
    a->close(a);
    b->close(b);
}
