/* prepare_tts and decode_tts, run as a user runs them, on a corpus of babble in all formats: what they write is what
 * their headers say, opens as a data set, and is the same whatever the workers, the kills and the settings in between;
 * whatever is bad is named. */
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "data/audio.h"
#include "data/ledger.h"
#include "data/npy.h"
#include "data/recordings.h"
#include "data/speech_coder.h"
#include "data/tokenizer.h"
#include "data/tts_dataset.h"
#include "tests/sounds.h"

enum { KEPT = 16, LEFT_OUT = 6, ENTRIES = 32, WIDTH = 16 };

/* 16 clips of four speakers, the last of whom has one only; a second, the least that is kept, to three, the most. */
static const char *const ids[KEPT] = {"spk001_000001", "spk002_000002", "spk003_000003", "spk001_000004",
                                      "spk002_000005", "spk003_000006", "spk001_000007", "spk002_000008",
                                      "spk003_000009", "spk001_000010", "spk002_000011", "spk003_000012",
                                      "spk001_000013", "spk002_000014", "spk003_000015", "spk004_000016"};
static double seconds_of(int i) { return i == KEPT - 1 ? 3 : 1 + 0.12 * i; }

/* With a ratio of 0.3, by Python: int(hashlib.sha1(id.encode()).hexdigest(), 16) % 1000000 / 1e6 < 0.3. Two clips of
 * the first speaker, four of the second, one of the third. */
static const char *const held_out[] = {"spk001_000001", "spk001_000004", "spk002_000005", "spk003_000006",
                                       "spk002_000008", "spk002_000011", "spk002_000014"};
enum { VAL = 7, TRAIN = KEPT - VAL, VAL_PAIRS = 2 * 1 + 4 * 2, TRAIN_PAIRS = 3 * 2 + 4 * 2 };

static char *root;          /* the corpus: list.tsv, audio/; every output is a folder here */
static char said[1 << 16];  /* by the last program */
static const char *options; /* of every run of the corpus */

static char *in(const char *output, const char *name) { return xformat("%s/%s/%s", root, output, name); }

static const char *program(const char *name) {
    static char path[256];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/%s", build ? build : "build/release", name);
    return path;
}

/* ---- the corpus ---- */

static void add_recording(FILE *list, int number, const char *id, double seconds, const char *text) {
    static const struct {
        int format, rate, channels;
        const char *name;
    } kinds[] = {{SF_FORMAT_WAV | SF_FORMAT_PCM_16, 24000, 1, "wav"},
                 {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 44100, 1, "flac"},
                 {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 22050, 1, "ogg"},
                 {SF_FORMAT_WAV | SF_FORMAT_FLOAT, 48000, 2, "wav"}};
    int kind = number % 4, rate = kinds[kind].rate, channels = kinds[kind].channels;
    int64_t n = llround(seconds * rate);
    float *voice = make_babble((uint64_t)number, rate, n), *samples = xmalloc((size_t)(n * channels) * sizeof *samples);
    for (int64_t i = 0; i < n * channels; i++) samples[i] = voice[i / channels];
    char *name = xformat("audio/%s.%s", id, kinds[kind].name), *path = path_join(root, name);
    write_sound(path, kinds[kind].format, rate, channels, samples, n);
    fprintf(list, "%s\t%.6s\t%s\t%s\n", id, id, name, text);
    free(voice);
    free(samples);
    free(name);
    free(path);
}

/* Two words a second, eight to ten characters. free() */
static char *make_words(int number, double seconds) {
    static const char *const words[] = {"ሰላም", "ለዓለም",  "ዛሬ", "ጥሩ", "ቀን",   "ነው",
                                        "ልጆች", "ትምህርት", "ቤት", "ውሃ", "ይሄዳሉ", "ጠጡ"};
    char *text = xstrdup("");
    for (int i = 0; i < 1 + (int)(2 * seconds); i++) {
        uint32_t which = philox_bits(7, PURPOSE_TEST, (uint32_t)number, (uint64_t)i) % 12;
        char *longer = xformat("%s%s%s", text, *text ? " " : "", words[which]);
        free(text);
        text = longer;
    }
    char *sentence = xformat("%s።", text);
    free(text);
    return sentence;
}

static void make_corpus(void) {
    char *audio = path_join(root, "audio"), *path = path_join(root, "list.tsv");
    make_directories(audio);
    FILE *list = fopen(path, "w");
    assert_non_null(list);
    for (int i = 0; i < KEPT; i++) {
        char *text = make_words(i, seconds_of(i));
        add_recording(list, i, ids[i], seconds_of(i), text);
        free(text);
    }
    add_recording(list, 16, "short", 0.96, "ዛሬ ጥሩ");
    add_recording(list, 17, "long", 3.04, "ዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው");
    add_recording(list, 18, "slow", 2, "ቀን ነው");
    add_recording(list, 19, "fast", 1.5, "ዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ");
    add_recording(list, 20, "word", 1, "ትምህርት");
    add_recording(list, 21, "empty", 1, " \u3000 ");
    assert_int_equal(fclose(list), 0);
    free(audio);
    free(path);
}

/* ---- running ---- */

/* Prepares the corpus into a folder; the exit status. */
static int try_prepare(const char *output, const char *list, const char *more) {
    return run_command(said, sizeof said, "%s -i %s/%s -o %s/%s %s %s", program("prepare_tts"), root, list, root,
                       output, options, more);
}

static void prepare(const char *output, const char *more) {
    int status = try_prepare(output, "list.tsv", more);
    if (status) fail_msg("exit status %d:\n%s", status, said);
}

/* All files but the ledger, whose lines come in the order in which the workers finish. */
static void assert_same_folder(const char *a, const char *b) {
    int status = run_command(said, sizeof said, "cd %s && diff -r -q -x .prepare_ledger.jsonl %s %s", root, a, b);
    if (status) fail_msg("%s", said);
}

/* The folder that all others are compared with, made once, by one worker; *told is what prepare_tts said. */
static const char *reference(const char **told) {
    static char *first;
    if (!first) {
        prepare("reference", "--num-workers 1");
        first = xstrdup(said);
    }
    if (told) *told = first;
    return "reference";
}

static json_t *read_json(const char *output, const char *name) {
    char *path = in(output, name), *text = read_text(path);
    json_t *json = json_loads(text, 0, NULL);
    if (!json) fail_msg("%s is no JSON", path);
    free(path);
    free(text);
    return json;
}

/* A list of the objects of a JSON lines file. */
static json_t *read_lines(const char *output, const char *name) {
    char *path = in(output, name), *text = read_text(path), *rest;
    json_t *lines = json_array();
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *object = json_loads(line, 0, NULL);
        if (!object) fail_msg("%s: no JSON: %s", path, line);
        json_array_append_new(lines, object);
    }
    free(path);
    free(text);
    return lines;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("%s is missing", key);
    return text;
}

static int64_t number_of(const json_t *object, const char *key) {
    if (!json_is_integer(json_object_get(object, key))) fail_msg("%s is missing", key);
    return json_integer_value(json_object_get(object, key));
}

/* The elements of FOLDER/ID.npy, int32 or float32. free() */
static void *read_array(const char *output, const char *folder, const char *id, char kind, int64_t *dims) {
    char *path = xformat("%s/%s/%s/%s.npy", root, output, folder, id), *bytes;
    size_t size;
    Npy npy;
    Error error;
    if (!read_file(path, &bytes, &size, &error) || !npy_parse(bytes, size, &npy, &error))
        fail_msg("%s: %s", path, error.text);
    void *data = xmalloc((size_t)npy.count * 4);
    assert_int_equal(npy.kind, kind);
    assert_true(kind == 'f' ? npy_to_f32(&npy, data, &error) : npy_to_i32(&npy, data, &error));
    dims[0] = npy.dims[0];
    dims[1] = npy.rank > 1 ? npy.dims[1] : 0;
    free(bytes);
    free(path);
    return data;
}

/* ---- what it says ---- */

static void the_filters_and_the_split_are_told(void **state) {
    (void)state;
    const char *told;
    reference(&told);
    assert_contains(told, "list.tsv: 22 recordings\n");
    assert_contains(told, "[Audio] 20 clips read, 0 known from before\n"); /* texts decide about two */
    assert_contains(told, "[Filter] 1 left out: without text\n");
    assert_contains(told, "[Filter] 1 left out: with fewer words than --min-words\n");
    assert_contains(told, "[Filter] 1 left out: shorter than --min-duration\n");
    assert_contains(told, "[Filter] 1 left out: longer than --max-duration\n");
    assert_contains(told, "[Filter] 1 left out: slower than --min-chars-per-second\n");
    assert_contains(told, "[Filter] 1 left out: faster than --max-chars-per-second\n");
    assert_contains(told, " tokens, 0.000 % unknown\n");
    assert_contains(told, "[Codebook] 32 entries, ");
    assert_contains(told, "[Codes] 16 clips coded, 0 done before\n");
    assert_contains(told, "[Data] 16 of 22 clips, 30.6 s, 4 speakers: 9 to train, 7 to validate\n");
    assert_contains(told, "[Data] 14 and 10 pairs; 2 and 1 clips have none, being their speaker's only one\n");
    assert_contains(told, "train_pairs.jsonl");
    assert_contains(told, " --number-mel-codes 34 --model-dim 16 ");
}

static void stats_are_written(void **state) {
    (void)state;
    json_t *stats = read_json(reference(NULL), "stats.json");
    assert_int_equal(number_of(stats, "recordings"), KEPT + LEFT_OUT);
    assert_int_equal(number_of(stats, "total"), KEPT);
    assert_int_equal(number_of(stats, "train"), TRAIN);
    assert_int_equal(number_of(stats, "val"), VAL);
    assert_int_equal(number_of(stats, "train_pairs"), TRAIN_PAIRS);
    assert_int_equal(number_of(stats, "val_pairs"), VAL_PAIRS);
    assert_int_equal(number_of(stats, "unknown_tokens"), 0);
    assert_int_equal(json_object_size(json_object_get(stats, "left_out")), LEFT_OUT);
    double entropy = json_number_value(json_object_get(stats, "code_entropy"));
    assert_true(entropy > 1 && entropy <= log(ENTRIES));
    json_decref(stats);
}

/* ---- manifests ---- */

static bool is_held_out(const char *id) {
    for (int i = 0; i < VAL; i++)
        if (!strcmp(id, held_out[i])) return true;
    return false;
}

/* The file of a clip in this folder, which is there. */
static void expect_file(const json_t *line, const char *key, const char *folder, const char *id) {
    char *want = xformat("%s/%s.npy", folder, id), *path = in("reference", want);
    assert_string_equal(text_of(line, key), want);
    assert_int_equal(access(path, R_OK), 0);
    free(want);
    free(path);
}

static void single_manifests_hold_every_clip_once(void **state) {
    (void)state;
    const char *output = reference(NULL);
    json_t *all = read_lines(output, "manifest.jsonl"), *train = read_lines(output, "train_manifest.jsonl");
    json_t *val = read_lines(output, "val_manifest.jsonl"), *line;
    size_t i, of_train = 0, of_val = 0;
    assert_int_equal(json_array_size(all), KEPT);
    json_array_foreach(all, i, line) {
        const char *id = text_of(line, "id");
        assert_string_equal(id, ids[i]);
        assert_true(
            json_equal(line, is_held_out(id) ? json_array_get(val, of_val++) : json_array_get(train, of_train++)));
        double seconds = json_number_value(json_object_get(line, "duration"));
        assert_true(fabs(seconds - seconds_of((int)i)) < 1e-4); /* a sample or two, of the resampling */
        assert_int_equal(number_of(line, "code_len"), (int64_t)(seconds * 50 + 1e-6));
        assert_int_equal(number_of(line, "condition_len"), 32);
        expect_file(line, "text_ids_path", "text_ids", id);
        expect_file(line, "codes_path", "codes", id);
        expect_file(line, "condition_path", "condition", id);
        expect_file(line, "emo_vec_path", "emo_vec", id);
        assert_string_equal(text_of(line, "language"), "am");
        assert_memory_equal(text_of(line, "speaker"), id, 6);
        char *path = in(output, text_of(line, "audio_path"));
        assert_int_equal(access(path, R_OK), 0);
        free(path);
    }
    assert_int_equal(json_array_size(train), of_train);
    assert_int_equal(json_array_size(val), of_val);
    assert_int_equal(of_val, VAL);
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

/* What a pair says of the clip that is its prompt, and of the one that is its target. */
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
    expect_file(pair, "prompt_condition_path", "condition", text_of(prompt, "id"));
    expect_file(pair, "prompt_emo_vec_path", "emo_vec", text_of(prompt, "id"));
    expect_file(pair, "target_text_ids_path", "text_ids", text_of(target, "id"));
    expect_file(pair, "target_codes_path", "codes", text_of(target, "id"));
    expect_file(pair, "target_emo_vec_path", "emo_vec", text_of(target, "id"));
}

static const json_t *line_of(const json_t *lines, const char *id) {
    for (size_t i = 0; i < json_array_size(lines); i++)
        if (!strcmp(text_of(json_array_get(lines, i), "id"), id)) return json_array_get(lines, i);
    fail_msg("%s has no line", id);
    return NULL;
}

/* Two clips of one speaker, of one half, that are not the same, and no pair twice. */
static void check_pairs(const char *name, int count, bool of_val) {
    json_t *pairs = read_lines(reference(NULL), name), *seen = json_object(), *line;
    json_t *clips = read_lines("reference", "manifest.jsonl");
    size_t i;
    assert_int_equal(json_array_size(pairs), count);
    json_array_foreach(pairs, i, line) {
        const char *prompt = text_of(line, "prompt_id"), *target = text_of(line, "target_id");
        char *id = xformat("%s__%s", target, prompt);
        assert_string_equal(text_of(line, "id"), id);
        assert_string_not_equal(prompt, target);
        assert_memory_equal(prompt, target, 6);
        assert_true(is_held_out(prompt) == of_val && is_held_out(target) == of_val);
        assert_null(json_object_get(seen, id));
        json_object_set_new(seen, id, json_true());
        check_clips_of_pair(line, line_of(clips, prompt), line_of(clips, target));
        free(id);
    }
    json_decref(clips);
    json_decref(pairs);
    json_decref(seen);
}

static void pairs_are_of_one_speaker_and_one_half(void **state) {
    (void)state;
    check_pairs("train_pairs.jsonl", TRAIN_PAIRS, false);
    check_pairs("val_pairs.jsonl", VAL_PAIRS, true);
}

static TtsDatasetReport open_manifest(const char *output, const char *name, Split split, bool repair) {
    json_t *stats = read_json(output, "stats.json");
    TtsDatasetOptions o = {.unknown_id = 2,
                           .layout = {.d_model = WIDTH,
                                      .n_conditioning = 32,
                                      .max_text = 600,
                                      .max_codes = 1816,
                                      .text_vocabulary = (int)number_of(stats, "vocabulary"),
                                      .audio_vocabulary = ENTRIES,
                                      .stop_text = 1,
                                      .start_mel = ENTRIES,
                                      .stop_mel = ENTRIES + 1},
                           .split = split,
                           .val_ratio = 0.3,
                           .n_threads = 2,
                           .repair_codes = repair};
    char *path = in(output, name);
    TtsDatasetReport report;
    Dataset *dataset = tts_dataset_open((const char *const[]){path}, 1, &o, &report);
    assert_int_equal(dataset->n_samples, report.samples);
    dataset->close(dataset);
    json_decref(stats);
    free(path);
    return report;
}

static void every_manifest_opens_as_a_data_set(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int split, samples;
        bool paired;
    } cases[] = {{"manifest.jsonl", SPLIT_ALL, KEPT, false},
                 {"manifest.jsonl", SPLIT_TRAIN, TRAIN, false},
                 {"manifest.jsonl", SPLIT_VALIDATION, VAL, false},
                 {"train_manifest.jsonl", SPLIT_ALL, TRAIN, false},
                 {"val_manifest.jsonl", SPLIT_ALL, VAL, false},
                 {"train_pairs.jsonl", SPLIT_ALL, TRAIN_PAIRS, true},
                 {"train_pairs.jsonl", SPLIT_TRAIN, TRAIN_PAIRS, true},
                 {"val_pairs.jsonl", SPLIT_VALIDATION, VAL_PAIRS, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TtsDatasetReport r = open_manifest(reference(NULL), cases[i].name, (Split)cases[i].split, false);
        assert_int_equal(r.samples, cases[i].samples);
        assert_int_equal(cases[i].paired ? r.paired : r.single, cases[i].samples);
        assert_int_equal(r.padded_codes, 0);
        assert_int_equal(r.equal_code_runs, 0);
        assert_int_equal(r.unknown_tokens, 0);
    }
}

/* One clip's codes, 62 of them, are padded to 66 as the original preprocessing would: found, and cut if wanted. */
static void padded_codes_are_flagged(void **state) {
    (void)state;
    prepare("padded", "--num-workers 2");
    int64_t dims[2];
    int32_t padded[66] = {0}, *codes = read_array("padded", "codes", ids[2], 'i', dims);
    char *path = in("padded", "codes/spk003_000003.npy");
    Error error;
    assert_int_equal(dims[0], 62);
    memcpy(padded, codes, 62 * sizeof *codes);
    assert_true(npy_write(path, "<i4", padded, 1, (int64_t[]){66}, &error));
    int status =
        run_command(said, sizeof said, "sed -i 's/\"code_len\":62/\"code_len\":66/' %s/padded/manifest.jsonl", root);
    assert_int_equal(status, 0);
    TtsDatasetReport r = open_manifest("padded", "manifest.jsonl", SPLIT_ALL, false);
    assert_int_equal(r.padded_codes, 1);
    assert_int_equal(r.codes, open_manifest(reference(NULL), "manifest.jsonl", SPLIT_ALL, false).codes + 4);
    r = open_manifest("padded", "manifest.jsonl", SPLIT_ALL, true);
    assert_int_equal(r.repaired, 1);
    /* A run finds codes that are not as long as the clip, or not of this codebook, and makes them anew. */
    for (int i = 0; i < 2; i++) {
        prepare("padded", "--num-workers 2");
        assert_contains(said, "[Codes] 1 clips coded, 15 done before; 1 of them again");
        assert_same_folder("padded", reference(NULL));
        padded[7] = ENTRIES;
        assert_true(npy_write(path, "<i4", padded, 1, (int64_t[]){62}, &error));
    }
    free(codes);
    free(path);
}

/* ---- what the arrays hold ---- */

static void text_ids_spell_the_normalised_text(void **state) {
    (void)state;
    const char *output = reference(NULL);
    json_t *lines = read_lines(output, "manifest.jsonl"), *line;
    char *path = in(output, "bpe.model");
    Error error;
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    size_t i;
    assert_non_null(tokenizer);
    json_array_foreach(lines, i, line) {
        int64_t dims[2];
        int32_t *tokens = read_array(output, "text_ids", ids[i], 'i', dims);
        char *text = text_normalize_amharic(text_of(line, "text"), &error);
        char *spelt = tokenizer_decode(tokenizer, tokens, (int)dims[0]);
        assert_int_equal(dims[0], number_of(line, "text_len"));
        assert_string_equal(spelt, text);
        free(tokens);
        free(text);
        free(spelt);
    }
    tokenizer_close(tokenizer);
    json_decref(lines);
    free(path);
}

static double square_distance(const float *a, const float *b) {
    double sum = 0;
    for (int j = 0; j < MEL_BANDS; j++) sum += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
    return sum;
}

/* As near as float32 tells: products of 80 terms, each rounded to 2^-24 of at most |x| |c| < 80 * 10 * 10. */
static void codes_are_the_nearest_entries_of_the_codebook(void **state) {
    (void)state;
    const char *output = reference(NULL);
    int64_t dims[2], n, total = 0;
    float *entries = read_array(output, ".", "codebook", 'f', dims);
    double squares = 0;
    assert_true(dims[0] == ENTRIES && dims[1] == MEL_BANDS);
    for (int i = 0; i < KEPT; i++) {
        int32_t *codes = read_array(output, "codes", ids[i], 'i', dims);
        n = dims[0];
        float *frames = read_array(output, "mel", ids[i], 'f', dims);
        assert_true(dims[0] == n && dims[1] == MEL_BANDS);
        for (int64_t t = 0; t < n; t++) {
            double nearest = INFINITY;
            assert_in_range(codes[t], 0, ENTRIES - 1);
            double mine = square_distance(frames + t * MEL_BANDS, entries + codes[t] * MEL_BANDS);
            for (int k = 0; k < ENTRIES; k++)
                nearest = fmin(nearest, square_distance(frames + t * MEL_BANDS, entries + k * MEL_BANDS));
            assert_true(mine - nearest <= 80 * 0x1p-24 * 8000);
            squares += mine;
        }
        total += n;
        free(codes);
        free(frames);
    }
    json_t *stats = read_json(output, "stats.json"), *facts = read_json(output, "codebook.json");
    double decibels = 20 / log(10) * sqrt(squares / (double)(total * MEL_BANDS));
    assert_int_equal(number_of(stats, "codes"), total);
    assert_int_equal(number_of(facts, "frames"), total); /* fewer than 64 an entry: all of them */
    assert_true(fabs(json_number_value(json_object_get(stats, "error_db")) - decibels) < 1e-4 * decibels);
    json_decref(stats);
    json_decref(facts);
    free(entries);
}

static void the_codebook_can_be_trained_on_a_part(void **state) {
    (void)state;
    prepare("part", "--num-workers 2");
    prepare("part", "--num-workers 2 --frames-per-entry 20");
    assert_contains(said, "[Codebook] 32 entries, 640 frames");
    prepare("part", "--num-workers 2");
    assert_same_folder("part", reference(NULL));
}

/* The corpus has 1530 frames: 10 for each of 153 entries. */
static void a_codebook_too_large_for_the_recordings_is_told(void **state) {
    (void)state;
    const char *told;
    reference(&told);
    assert_null(strstr(told, "warning"));
    prepare("few", "--num-workers 2 --codebook-size 204");
    const char *warning = "warning: the clips have only 7.5 frames for each of the codebook's 204 entries, and 10 "
                          "should be the least; --codebook-size 128 fits\n";
    assert_contains(said, warning);
    assert_null(strstr(strstr(said, warning) + 1, "warning"));
    prepare("few", "--num-workers 2 --codebook-size 128");
    assert_null(strstr(said, "warning"));
}

/* out[WIDTH] = 0.1 / sqrt(rows) times in[rows] times the standard normal matrix `which` */
static void project(const double *in, int rows, uint64_t seed, uint32_t which, float *out) {
    for (int j = 0; j < WIDTH; j++) {
        double sum = 0;
        for (int i = 0; i < rows; i++)
            sum += in[i] * (double)philox_normal(seed, PURPOSE_PROJECTION, which, (uint64_t)(i * WIDTH + j));
        out[j] = (float)(0.1 / sqrt(rows) * sum);
    }
}

/* The map of data/speech_coder.h written out in double: z, then the 32 parts, then the voice's statistics. */
static void check_vectors(const char *id, const json_t *facts) {
    int64_t dims[2], n, seed = number_of(facts, "seed");
    const json_t *mean = json_object_get(facts, "mean"), *deviation = json_object_get(facts, "deviation");
    float *frames = read_array("reference", "mel", id, 'f', dims), want[32 * WIDTH];
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
        project(part, MEL_BANDS, (uint64_t)seed, 0, want + i * WIDTH);
    }
    float *condition = read_array("reference", "condition", id, 'f', dims);
    assert_true(dims[0] == 32 && dims[1] == WIDTH);
    assert_close("condition", condition, want, 32 * WIDTH, 1e-5);
    project(s, 2 * MEL_BANDS + 2, (uint64_t)seed, 1, want);
    float *emotion = read_array("reference", "emo_vec", id, 'f', dims);
    assert_int_equal(dims[0], WIDTH);
    assert_close("emotion", emotion, want, WIDTH, 1e-5);
    free(frames);
    free(z);
    free(condition);
    free(emotion);
}

static void vectors_are_the_documented_map(void **state) {
    (void)state;
    json_t *facts = read_json(reference(NULL), "codebook.json");
    for (int i = 0; i < KEPT; i += 5) check_vectors(ids[i], facts);
    json_decref(facts);
}

/* ---- the same, however it came about ---- */

static void one_and_four_workers_write_the_same_bytes(void **state) {
    (void)state;
    prepare("four", "--num-workers 4");
    assert_same_folder("four", reference(NULL));
}

static void a_list_in_json_lines_is_the_same(void **state) {
    (void)state;
    int status = run_command(said, sizeof said,
                             "sed 's/\\([^\\t]*\\)\\t\\([^\\t]*\\)\\t\\([^\\t]*\\)\\t\\(.*\\)/"
                             "{\"text\":\"\\4\",\"audio\":\"\\3\",\"speaker\":\"\\2\",\"id\":\"\\1\",\"x\":1}/' "
                             "%s/list.tsv >%s/list.jsonl",
                             root, root);
    assert_int_equal(status, 0);
    status = try_prepare("jsonl", "list.jsonl", "--num-workers 2");
    if (status) fail_msg("%s", said);
    assert_same_folder("jsonl", reference(NULL));
}

/* As an editor on Windows would save it. */
static void byte_order_marks_and_carriage_returns_leave_no_trace(void **state) {
    (void)state;
    int status = run_command(said, sizeof said,
                             "cd %s && { printf '\\357\\273\\277'; sed 's/$/\\r/' list.tsv; } >windows.tsv", root);
    assert_int_equal(status, 0);
    status = try_prepare("windows", "windows.tsv", "--num-workers 2");
    if (status) fail_msg("%s", said);
    assert_same_folder("windows", reference(NULL));
    static const char json[] = "\xEF\xBB\xBF{\"id\":\"a\",\"speaker\":\"s\",\"audio\":\"x\",\"text\":\"y\"}\r\n\r\n";
    static const char tabs[] = "\xEF\xBB\xBF"
                               "a\ts\tx\ty\r\n\r\n";
    for (int i = 0; i < 2; i++) {
        Recordings list;
        Error error;
        assert_true(recordings_parse(i ? json : tabs, strlen(i ? json : tabs), i, &list, &error));
        assert_int_equal(list.count, 1);
        assert_string_equal(list.items[0].id, "a");
        assert_string_equal(list.items[0].text, "y");
        recordings_close(&list);
    }
}

static int64_t ledger_lines(const char *output) {
    char *path = in(output, ".prepare_ledger.jsonl"), *bytes;
    size_t size;
    int64_t n = -1;
    if (read_file(path, &bytes, &size, NULL)) {
        n = 0;
        for (size_t i = 0; i < size; i++) n += bytes[i] == '\n';
        free(bytes);
    }
    free(path);
    return n;
}

/* Starts prepare_tts and kills it once its ledger has so many lines; false if it ended before. */
static bool kill_at(const char *output, int64_t lines) {
    char *command = xformat("exec %s -i %s/list.tsv -o %s/%s %s --num-workers 2 >/dev/null", program("prepare_tts"),
                            root, root, output, options);
    int status;
    bool ended = false;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    while (ledger_lines(output) < lines && !(ended = waitpid(child, &status, WNOHANG) == child)) usleep(200);
    if (!ended) {
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    free(command);
    return WIFSIGNALED(status);
}

/* A whole run leaves 39 lines: of the outputs, of 20 clips measured, the tokenizer, the codebook, 16 clips coded.
 * Killed again and again on the way, at its very start, in each step and between them. */
static void kills_leave_no_trace(void **state) {
    (void)state;
    static const int moments[] = {0, 1, 2, 10, 20, 21, 22, 23, 24, 31, 38};
    int killed = 0;
    char *manifest = in("killed", "manifest.jsonl");
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        killed += kill_at("killed", moments[i]);
        if (ledger_lines("killed") < 39) assert_int_not_equal(access(manifest, F_OK), 0);
    }
    printf("killed %d times\n", killed);
    assert_true(killed >= 5);
    prepare("killed", "--num-workers 2");
    assert_same_folder("killed", reference(NULL));
    free(manifest);
}

static void a_second_run_does_nothing_again(void **state) {
    (void)state;
    prepare("again", "--num-workers 2");
    char *path = in("again", "codes/spk001_000001.npy");
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    prepare("again", "--num-workers 2");
    assert_contains(said, "[Audio] 0 clips read, 20 known from before\n");
    assert_contains(said, "pieces (from before)");
    assert_contains(said, "[Codebook] 32 entries (from before)");
    assert_contains(said, "[Codes] 0 clips coded, 16 done before\n");
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    assert_same_folder("again", reference(NULL));
    free(path);
}

/* Of a folder whose name a shell would take apart. */
static void the_next_command_trains(void **state) {
    (void)state;
    const char *name = "it's \"the $HOME\"";
    char *folder = xformat("%s/%s", root, name), *word = shell_word(folder);
    int status = run_command(said, sizeof said, "cp -r %s/%s %s && %s -i %s/list.tsv -o %s %s", root, reference(NULL),
                             word, program("prepare_tts"), root, word, options);
    if (status) fail_msg("exit status %d:\n%s", status, said);
    assert_contains(said, "[Codes] 0 clips coded, 16 done before\n");
    const char *next = strstr(said, "Next: ./train_gpt");
    assert_non_null(next);
    char *command = xformat("%.*s --dry-run", (int)strcspn(next, "\n"), next);
    status = run_command(said, sizeof said, "cd %s && %s", program(""), command + strlen("Next: "));
    if (status) fail_msg("%s: exit status %d:\n%s", command, status, said);
    assert_contains(said, "[Data] train: 14 samples");
    free(command);
    free(word);
    free(folder);
}

/* Whatever the settings in between, the same settings give the same files; other settings those of a fresh folder. */
static void changed_settings_are_seen(void **state) {
    (void)state;
    reference(NULL);
    prepare("changed", "--num-workers 2 --max-duration 1.5");
    assert_contains(said, "[Data] 5 of 22 clips");
    prepare("changed", "--num-workers 2");
    assert_contains(said, "[Audio] 0 clips read, 20 known from before\n");
    assert_contains(said, "[Codes] 16 clips coded, 0 done before; 5 of them again, as their");
    assert_same_folder("changed", reference(NULL));
    prepare("changed", "--num-workers 2 --d-model 24 --seed 5");
    assert_contains(said, "[Codes] 16 clips coded, 0 done before; 16 of them again, as their");
    prepare("fresh", "--num-workers 2 --d-model 24 --seed 5");
    assert_same_folder("changed", "fresh");
    prepare("changed", "--num-workers 2");
    assert_same_folder("changed", reference(NULL));
}

/* Another sound under the old name, and a file that has gone. */
static void changed_audio_is_seen(void **state) {
    (void)state;
    int status = run_command(said, sizeof said, "cp -rp %s/audio %s/kept_audio", root, root);
    assert_int_equal(status, 0);
    prepare("audio_changed", "--num-workers 2");
    status = run_command(said, sizeof said, "cd %s && cp audio/spk001_000013.wav audio/spk001_000001.wav", root);
    assert_int_equal(status, 0);
    prepare("audio_changed", "--num-workers 2");
    assert_contains(said, "[Audio] 1 clips read, 19 known from before\n");
    status = run_command(said, sizeof said,
                         "cd %s && rm -r audio && mv kept_audio audio && "
                         "rm audio_changed/mel/spk002_000002.npy audio_changed/codes/spk003_000003.npy",
                         root);
    assert_int_equal(status, 0);
    prepare("audio_changed", "--num-workers 2");
    assert_contains(said, "[Audio] 1 clips read, 19 known from before\n");
    assert_same_folder("audio_changed", reference(NULL));
}

/* Any of the four files of a clip. */
static void missing_files_are_made_again(void **state) {
    (void)state;
    static const char *const folders[] = {"emo_vec", "condition", "text_ids", "codes"};
    prepare("missing", "--num-workers 2");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *name = xformat("%s/%s.npy", folders[i], ids[5]), *path = in("missing", name);
        assert_int_equal(unlink(path), 0);
        prepare("missing", "--num-workers 2");
        assert_contains(said, "[Codes] 1 clips coded, 15 done before; 1 of them again");
        assert_same_folder("missing", reference(NULL));
        free(name);
        free(path);
    }
}

/* One bit of any file that is kept for the next run, or of the ledger's lines. */
static void damaged_files_are_made_again(void **state) {
    (void)state;
    static const char *const kept[] = {"emo_vec/%s.npy", "condition/%s.npy", "text_ids/%s.npy", "codes/%s.npy",
                                       "codebook.npy",   "codebook.json",    "bpe.model"};
    prepare("flipped", "--num-workers 2");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char *name = i < 4 ? xformat(kept[i], ids[5]) : xstrdup(kept[i]), *path = in("flipped", name), *bytes;
        size_t size;
        Error error;
        assert_true(read_file(path, &bytes, &size, &error));
        bytes[i < 5 ? size - 3 : size / 2] ^= 1;
        write_bytes(path, bytes, size);
        prepare("flipped", "--num-workers 2");
        if (i < 4) assert_contains(said, "[Codes] 1 clips coded, 15 done before; 1 of them again");
        assert_same_folder("flipped", reference(NULL));
        free(bytes);
        free(name);
        free(path);
    }
    int status = run_command(said, sizeof said,
                             "cd %s/flipped && sed -i '/codes/s/squared_error\":./squared_error\":7/' "
                             ".prepare_ledger.jsonl",
                             root);
    assert_int_equal(status, 0);
    prepare("flipped", "--num-workers 2"); /* what a damaged line says is not known */
    assert_contains(said, "[Codes] 16 clips coded, 0 done before");
    assert_same_folder("flipped", reference(NULL));
}

/* The frames between two kills: a damaged one is read anew from the audio. */
static void damaged_frames_are_read_anew(void **state) {
    (void)state;
    prepare("frames", "--num-workers 2");
    int status = run_command(said, sizeof said,
                             "cd %s/frames && for f in mel/spk*.npy; do truncate -s -4 $f && printf abcd >>$f; done && "
                             "rm -r codebook.npy codes",
                             root);
    assert_int_equal(status, 0);
    prepare("frames", "--num-workers 2");
    assert_same_folder("frames", reference(NULL));
}

/* Half a second at full loudness, half a second 39.9 or 40.1 dB below it. */
static void silence_is_40_dB_below_the_loudest(void **state) {
    (void)state;
    char *list = path_join(root, "silence.tsv");
    for (int i = 0; i < 2; i++) {
        float *sine = make_sine(400, 0.5, MEL_RATE, 1, MEL_RATE); /* eight periods a frame */
        char *path = xformat("%s/quiet%d.wav", root, i);
        for (int t = MEL_RATE / 2; t < MEL_RATE; t++) sine[t] *= powf(10, -(i ? 40.1f : 39.9f) / 20);
        write_sound(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, MEL_RATE, 1, sine, MEL_RATE);
        free(path);
        free(sine);
    }
    write_text(list, "good\ts\taudio/spk004_000016.wav\tዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው\n"
                     "quiet0\ts\tquiet0.wav\tዛሬ ጥሩ ቀን ነው\nquiet1\ts\tquiet1.wav\tዛሬ ጥሩ ቀን ነው\n");
    int status = try_prepare("silence", "silence.tsv", "--num-workers 2 --max-silence 0.49 --vocabulary 40");
    if (status) fail_msg("%s", said);
    assert_contains(said, "[Filter] 1 left out: with more silence than --max-silence\n");
    json_t *lines = read_lines("silence", "manifest.jsonl");
    line_of(lines, "quiet0");
    status = try_prepare("silence", "silence.tsv", "--num-workers 2 --max-silence 0.5 --vocabulary 40");
    assert_int_equal(status, 0);
    assert_contains(said, "[Data] 3 of 3 clips");
    json_decref(lines);
    free(list);
}

/* A run with another codebook and wider vectors that dies after the codes of a clip, before its vectors: whoever goes
 * back to the old settings must not get those codes. */
static void a_full_disk_amid_changed_settings_leaves_no_stale_files(void **state) {
    (void)state;
    prepare("other", "--num-workers 1 --seed 6");
    prepare("full", "--num-workers 1");
    int status = run_command(said, sizeof said,
                             "trap '' XFSZ; ulimit -f 100; %s -i %s/list.tsv -o %s/full %s --num-workers 1 "
                             "--codebook %s/other/codebook.npy --d-model 1024",
                             program("prepare_tts"), root, root, options, root);
    assert_int_equal(status, 1);
    assert_contains(said, "full/condition/spk001_000001.npy");
    assert_contains(said, "File too large");
    prepare("full", "--num-workers 1");
    assert_same_folder("full", reference(NULL));
}

/* Only the vectors change here, and no manifest stands while some are new and some old. */
static void manifests_go_before_what_they_name(void **state) {
    (void)state;
    prepare("wide", "--num-workers 2");
    int status =
        run_command(said, sizeof said, "trap '' XFSZ; ulimit -f 100; %s -i %s/list.tsv -o %s/wide %s --d-model 1024",
                    program("prepare_tts"), root, root, options);
    assert_int_equal(status, 1);
    for (int i = 0; i < 2; i++) {
        char *path = in("wide", i ? "manifest.jsonl" : "val_pairs.jsonl");
        assert_int_not_equal(access(path, F_OK), 0);
        free(path);
    }
    prepare("wide", "--num-workers 2");
    assert_same_folder("wide", reference(NULL));
}

/* The line is gone, and what follows it is not lost with it. */
static void a_ledger_that_was_cut_off_is_mended(void **state) {
    (void)state;
    prepare("cut", "--num-workers 2");
    char *path = in("cut", ".prepare_ledger.jsonl");
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(truncate(path, status.st_size - 10), 0);
    prepare("cut", "--num-workers 2");
    assert_contains(said, "[Codes] 1 clips coded, 15 done before\n");
    prepare("cut", "--num-workers 2");
    assert_contains(said, "[Codes] 0 clips coded, 16 done before\n");
    free(path);
}

/* The two files of a codebook belong together. */
static void half_a_codebook_is_made_anew(void **state) {
    (void)state;
    prepare("other", "--num-workers 2 --seed 6");
    prepare("half", "--num-workers 2");
    int status = run_command(said, sizeof said, "cd %s && cp other/codebook.json half/", root);
    assert_int_equal(status, 0);
    prepare("half", "--num-workers 2");
    assert_same_folder("half", reference(NULL));
    assert_int_equal(run_command(said, sizeof said, "rm %s/half/codebook.json", root), 0);
    prepare("half", "--num-workers 2");
    assert_same_folder("half", reference(NULL));
}

static void two_at_once_are_refused(void **state) {
    (void)state;
    reference(NULL);
    char *path = in("reference", ".prepare_ledger.jsonl");
    Error error;
    Ledger *ledger = ledger_open(path, &error);
    assert_non_null(ledger);
    assert_int_equal(try_prepare("reference", "list.tsv", ""), 1);
    assert_contains(said, "another process is at work in this directory");
    ledger_close(ledger);
    free(path);
}

/* ---- what others bring ---- */

/* A text with a character that the tokenizer has no piece for. */
static void unknown_tokens_are_counted(void **state) {
    (void)state;
    reference(NULL);
    int status = run_command(said, sizeof said, "cd %s && sed '3s/$/ ፐፐ ቀን ፐ/' list.tsv >unknown.tsv", root);
    assert_int_equal(status, 0);
    char *more = xformat("--num-workers 2 --tokenizer %s/reference/bpe.model", root);
    if (try_prepare("unknown", "unknown.tsv", more)) fail_msg("%s", said);
    TtsDatasetReport r = open_manifest("unknown", "manifest.jsonl", SPLIT_ALL, false);
    char *line = xformat("pieces (given); %lld tokens, %.3f %% unknown\n", (long long)r.text_tokens,
                         100 * (double)r.unknown_tokens / (double)r.text_tokens);
    assert_int_equal(r.unknown_tokens, 2); /* neighbours are one */
    assert_contains(said, line);
    free(more);
    more = xformat("--num-workers 2 --tokenizer %s/list.tsv", root);
    assert_int_equal(try_prepare("unknown", "unknown.tsv", more), 1);
    assert_contains(said, "list.tsv: ");
    char *model = in("unknown", "bpe.model");
    assert_int_equal(access(model, F_OK), 0); /* what is there stays */
    open_manifest("unknown", "manifest.jsonl", SPLIT_ALL, false);
    free(model);
    free(line);
    free(more);
}

static void texts_that_cannot_be_used_are_told(void **state) {
    (void)state;
    char *list = path_join(root, "texts.tsv"), *line = xformat("%s:4: the text holds U+2585", list);
    assert_int_equal(run_command(said, sizeof said, "cd %s && sed '4s/$/ \u2585/' list.tsv >texts.tsv", root), 0);
    assert_int_equal(try_prepare("texts", "texts.tsv", "--num-workers 2"), 1);
    assert_contains(said, line);
    assert_int_equal(run_command(said, sizeof said,
                                 "cd %s && words=$(for i in $(seq 700); do printf ' ቀን'; done) && "
                                 "sed \"4s/$/$words/\" list.tsv >texts.tsv",
                                 root),
                     0);
    if (try_prepare("texts", "texts.tsv", "--num-workers 2 --max-chars-per-second 10000")) fail_msg("%s", said);
    assert_contains(said, "[Filter] 1 left out: with more than 600 text tokens\n");
    assert_contains(said, "[Data] 16 of 22 clips"); /* "fast" is kept instead */
    free(list);
    free(line);
}

static void a_given_codebook_is_used(void **state) {
    (void)state;
    reference(NULL);
    char *more = xformat("--num-workers 2 --seed 9 --codebook %s/reference/codebook.npy", root);
    prepare("given", more);
    assert_contains(said, "[Codebook] 32 entries (given)");
    assert_int_equal(run_command(said, sizeof said,
                                 "cd %s && diff -r given/codes reference/codes && "
                                 "diff -r given/condition reference/condition",
                                 root),
                     0);
    free(more);
}

/* ---- what is the user's ---- */

/* Runs it; what lies in the folder but the ledger must be as before. */
static void expect_untouched(const char *output, const char *list, const char *more, const char *message) {
    char before[1 << 12], after[1 << 12];
    const char *const look =
        "cd %s/%s && find . -type f ! -name .prepare_ledger.jsonl | sort | xargs sha1sum | sha1sum";
    run_command(before, sizeof before, look, root, output);
    if (try_prepare(output, list, more) != 1) fail_msg("%s", said);
    assert_contains(said, message);
    run_command(after, sizeof after, look, root, output);
    assert_string_equal(after, before);
}

static void a_list_among_the_outputs_stays(void **state) {
    (void)state;
    static const char *const names[] = {"manifest.jsonl", "train_manifest.jsonl", "val_pairs.jsonl"};
    prepare("known", "--num-workers 2");
    for (int known = 0; known < 2; known++) /* in a folder of its own, and in one that was prepared */
        for (int i = 0; i < 3; i++) {
            const char *folder = known ? "known" : "listed";
            char *list = xformat("%s/%s", folder, names[i]), *path = path_join(root, list), *parent = in(folder, "");
            make_directories(parent);
            write_text(path, "{\"id\": \"a\", \"speaker\": \"s\", \"audio\": \"../audio/spk001_000001.wav\", "
                             "\"text\": \"\u1230\u120b\u121d \u1240\u1295\", \"mine\": 1}\n");
            expect_untouched(folder, list, "--num-workers 2", "is read by this run (--input) and is not replaced");
            assert_int_equal(unlink(path), 0);
            free(parent);
            free(path);
            free(list);
        }
}

/* Refused, whatever it is; what is given as tokenizer and codebook is used where it lies, and stays when it is given no
 * more. */
static void files_of_the_user_among_the_outputs_stay(void **state) {
    (void)state;
    static const char *const names[] = {"manifest.jsonl", "stats.json",    "bpe.model",
                                        "codebook.npy",   "codebook.json", "codes/spk001_000001.npy"};
    reference(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        run_command(said, sizeof said, "cd %s && rm -rf mine && mkdir -p mine/codes && cp reference/%s mine/%s", root,
                    names[i], names[i]);
        expect_untouched("mine", "list.tsv", "--num-workers 2",
                         ".prepare_ledger.jsonl does not say that prepare_tts has made it");
    }
    run_command(said, sizeof said,
                "cd %s && rm -r mine && mkdir mine && cp reference/bpe.model reference/codebook.* mine", root);
    char *more = xformat("--num-workers 2 --tokenizer %s/mine/bpe.model --codebook %s/mine/codebook.npy", root, root);
    prepare("mine", more);
    prepare("mine", more);
    assert_contains(said, "[Codes] 0 clips coded, 16 done before");
    assert_same_folder("mine", reference(NULL));
    expect_untouched("mine", "list.tsv", "--num-workers 2 --seed 6", "mine/bpe.model would be replaced");
    free(more);
    more = xformat("--num-workers 2 --tokenizer %s/taken/bpe.model --codebook %s/taken/codebook.npy", root, root);
    prepare("taken", "--num-workers 2");
    prepare("taken", more); /* what was made stays what was made */
    prepare("taken", "--num-workers 2");
    assert_same_folder("taken", reference(NULL));
    free(more);
    assert_int_equal(try_prepare("typo", "list.tsv", "--num-workers 2 --codebook nowhere/codebook.npy"), 1);
    assert_contains(said, "nowhere/codebook.npy");
}

static void expect_decode_refusal(const char *arguments, int status, const char *message);

static void no_sound_replaces_what_it_is_made_from(void **state) {
    (void)state;
    static const char *const commands[][2] = {
        {"sound.wav", "--mel-from sound.wav -o sound.wav"},
        {"sound.wav", "--mel-from sound.wav -o ./alias.wav"},
        {"codes/x.npy", "--codes codes/x.npy -o codes/x.npy"},
        {"codebook.npy", "--codes codes/x.npy --codebook codebook.npy -o codebook.npy"},
        {"codebook.npy", "--codes codes/x.npy -o codebook.npy"},
        {"codebook.json", "--codes codes/x.npy -o codebook.json"},
        {"some.yaml", "--config some.yaml --mel-from sound.wav -o some.yaml"},
    };
    char before[1 << 12], after[1 << 12];
    reference(NULL);
    run_command(
        said, sizeof said,
        "cd %s && mkdir -p codes && cp reference/codebook.* . && cp reference/codes/spk001_000001.npy codes/x.npy && "
        "cp audio/spk001_000001.wav sound.wav && ln sound.wav alias.wav && echo seed: 1 >some.yaml",
        root);
    const char *const look = "cd %s && sha1sum codes/x.npy codebook.* *.wav some.yaml";
    run_command(before, sizeof before, look, root);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        expect_decode_refusal(commands[i][1], 2, "is read by this run (");
        run_command(after, sizeof after, look, root);
        assert_string_equal(after, before);
    }
}

/* ---- what is bad ---- */

/* A list of one good recording and one of each bad kind, each told with its line and file. */
static void bad_audio_is_told_with_its_line(void **state) {
    (void)state;
    static const char *const reasons[] = {"cannot open: No such file or directory",
                                          "is no sound file that can be read: ",
                                          "is empty: not one byte",
                                          "has no samples",
                                          "has only 100 samples, less than one frame of 20 ms",
                                          "is silent: every sample is zero",
                                          "is clipped: 50.0 % of its samples are beyond 0.99 of full scale "
                                          "(--max-clipping 0.01)",
                                          "is cut off: 23978 of 48000 bytes of sound are there",
                                          "has samples of 3e+38, and full scale is 1: it is damaged, or no sound"};
    enum { BAD = sizeof reasons / sizeof *reasons };
    char *bad = path_join(root, "bad"), *list = path_join(root, "bad.tsv"), *paths[BAD];
    float loud[24000], silent[24000] = {0};
    for (int i = 0; i < 24000; i++) loud[i] = i % 2 ? 1 : -0.5f;
    make_directories(bad);
    for (int i = 0; i < BAD; i++) paths[i] = xformat("%s/%d.wav", bad, i);
    write_text(paths[1], "this is no sound");
    write_bytes(paths[2], "", 0);
    write_sound(paths[3], SF_FORMAT_WAV | SF_FORMAT_PCM_16, MEL_RATE, 1, loud, 0);
    write_sound(paths[4], SF_FORMAT_WAV | SF_FORMAT_PCM_16, MEL_RATE, 1, loud, 100);
    write_sound(paths[5], SF_FORMAT_WAV | SF_FORMAT_PCM_16, MEL_RATE, 1, silent, 24000);
    write_sound(paths[6], SF_FORMAT_WAV | SF_FORMAT_FLOAT, MEL_RATE, 1, loud, 24000);
    write_sound(paths[7], SF_FORMAT_WAV | SF_FORMAT_PCM_16, MEL_RATE, 1, loud, 24000);
    assert_int_equal(truncate(paths[7], 48044 / 2), 0);
    loud[7] = 3e38f;
    write_sound(paths[8], SF_FORMAT_WAV | SF_FORMAT_FLOAT, MEL_RATE, 1, loud, 24000);
    FILE *file = fopen(list, "w");
    assert_non_null(file);
    fprintf(file, "good\ts\taudio/spk004_000016.wav\tዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው\n\n");
    for (int i = 0; i < BAD; i++) fprintf(file, "bad%d\ts\tbad/%d.wav\tዛሬ ጥሩ ቀን ነው\n", i, i);
    assert_int_equal(fclose(file), 0);

    assert_int_equal(try_prepare("bad_out", "bad.tsv", "--num-workers 2"), 1);
    for (int i = 0; i < BAD; i++) {
        char *line = xformat("%s:%d: %s: %s", list, 3 + i, paths[i], reasons[i]);
        assert_contains(said, line);
        free(line);
    }
    assert_contains(said, "the audio of 9 of 10 recordings is bad; mend or remove them, or leave them out with "
                          "--skip-bad");
    int status = try_prepare("bad_out", "bad.tsv", "--num-workers 2 --skip-bad --vocabulary 40");
    if (status) fail_msg("%s", said);
    assert_contains(said, "[Filter] 9 left out: with bad audio\n");
    assert_contains(said, "[Data] 1 of 10 clips");
    status = try_prepare("bad_out", "bad.tsv", "--num-workers 2 --skip-bad --max-clipping 0.6");
    assert_int_equal(status, 0);
    assert_contains(said, "[Data] 2 of 10 clips");
    for (int i = 0; i < BAD; i++) free(paths[i]);
    free(bad);
    free(list);
}

static void expect_bad_list(bool json_lines, const char *list, const char *message) {
    Recordings recordings;
    Error error = {""};
    assert_false(recordings_parse(list, strlen(list), json_lines, &recordings, &error));
    assert_string_equal(error.text, message);
}

static void bad_lists_are_told_with_their_line(void **state) {
    (void)state;
    expect_bad_list(false, "a\ts\tx.wav\tone\n\nb\ts\tx.wav\n",
                    "3: has 3 tab-separated fields, expected 4: id, speaker, audio file, text");
    expect_bad_list(false, "a\ts\tx.wav\tone\nb\ts\tx.wav\ttwo\r\na\ts\tx.wav\tthree\n",
                    "3: the id a is also that of line 1");
    expect_bad_list(false, "id\tspeaker\taudio\ttext\na\ts\tx.wav\tone\n",
                    "1: is this line a header (id, speaker, ...)? A list has none: remove it");
    expect_bad_list(false, "\nID\tSpeaker\tpath\tTEXT\r\n",
                    "2: is this line a header (ID, Speaker, ...)? A list has none: remove it");
    expect_bad_list(false, "a/b\ts\tx.wav\tone",
                    "1: the id a/b holds a slash or a control character; files are named after it");
    expect_bad_list(false, "..\ts\tx.wav\tone", "1: the id .. begins with a dot; files are named after it");
    expect_bad_list(false, "a\t\tx.wav\tone", "1: a has no speaker");
    expect_bad_list(false, "a\ts\t\tone", "1: a has no audio file");
    expect_bad_list(false, "a\ts\tx.wav\t\xff", "1: byte 11 is not UTF-8");
    expect_bad_list(true, "{\"id\":\"a\",\"speaker\":\"s\",\"audio\":\"x\",\"text\":\"\"}\n{\"id\":\"b\",}",
                    "2:11: invalid JSON: string or '}' expected near '}'");
    expect_bad_list(true, "{\"id\":\"a\",\"speaker\":\"s\",\"audio\":\"x\"}", "1: text is missing");
    expect_bad_list(true, "{\"id\":7,\"speaker\":\"s\",\"audio\":\"x\",\"text\":\"\"}", "1: id is not a text");
    assert_int_equal(try_prepare("none", "audio", ""), 1);
    assert_contains(said, "the name must end in .tsv or .jsonl");
    assert_int_equal(try_prepare("none", "none.tsv", ""), 1);
    assert_contains(said, "none.tsv: ");
}

static void too_little_is_told(void **state) {
    (void)state;
    assert_int_equal(try_prepare("little", "list.tsv", "--codebook-size 8192 --num-workers 2"), 1);
    assert_contains(said,
                    " different frames cannot fill a codebook of 8192 entries; give more recordings, or a smaller "
                    "--codebook-size");
    assert_int_equal(try_prepare("little", "list.tsv", "--min-duration 20 --max-duration 30 --num-workers 2"), 1);
    assert_contains(said, "no recording is left: 20 of 22 are shorter than --min-duration");
    assert_int_equal(try_prepare("little", "list.tsv", "--max-duration 36.33"), 2); /* 1816 codes, not one more */
    assert_contains(said, "36.32");
    assert_int_equal(try_prepare("little", "list.tsv", "--vocabulary 10 --num-workers 2"), 1);
    assert_contains(said, "a vocabulary of 10 is too small");
}

/* ---- the way back ---- */

static double rms_distance(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t t = 0; t < n; t++) sum += square_distance(a + t * MEL_BANDS, b + t * MEL_BANDS);
    return sqrt(sum / (double)(n * MEL_BANDS));
}

/* frames[*n, MEL_BANDS] of a WAV file. free() */
static float *frames_of_file(const char *path, int64_t *n) {
    Mel *mel = mel_open();
    Audio audio;
    Error error;
    if (!audio_read(path, MEL_RATE, 60, &audio, &error)) fail_msg("%s: %s", path, error.text);
    *n = mel_frame_count(audio.count);
    float *frames = xmalloc((size_t)(*n * MEL_BANDS) * sizeof *frames);
    mel_analyse(mel, audio.samples, audio.count, frames);
    audio_close(&audio);
    mel_close(mel);
    return frames;
}

/* The decoded clip's frames differ from the clip's own by what the codes lost, which is measured here, and what the way
 * back from frames to sound adds, by the triangle inequality at most their sum. The latter is 0.15 nepers for frames
 * that some sound has; the sequence of entries is none that a sound has, its frames overlap and yet jump from entry to
 * entry, so twice that (2.6 dB) is allowed. */
static void decoded_codes_sound_like_their_clip(void **state) {
    (void)state;
    const char *output = reference(NULL);
    int64_t dims[2], n, n_other;
    float *entries = read_array(output, ".", "codebook", 'f', dims);
    for (int i = 3; i < KEPT; i += 6) {
        char *wav = xformat("%s/heard.wav", root);
        int status = run_command(said, sizeof said, "%s --codes %s/%s/codes/%s.npy --output %s", program("decode_tts"),
                                 root, output, ids[i], wav);
        if (status) fail_msg("%s", said);
        float *heard = frames_of_file(wav, &n);
        float *own = read_array(output, "mel", ids[i], 'f', dims);
        int32_t *codes = read_array(output, "codes", ids[i], 'i', dims);
        assert_int_equal(dims[0], n);
        float *coded = xmalloc((size_t)(n * MEL_BANDS) * sizeof *coded);
        for (int64_t t = 0; t < n; t++)
            memcpy(coded + t * MEL_BANDS, entries + codes[t] * MEL_BANDS, MEL_BANDS * sizeof *coded);
        double lost = rms_distance(coded, own, n), near = rms_distance(heard, own, n), far = INFINITY;
        for (int k = 0; k < KEPT; k++) {
            if (k == i) continue;
            float *other = read_array(output, "mel", ids[k], 'f', dims);
            n_other = dims[0] < n ? dims[0] : n;
            far = fmin(far, rms_distance(heard, other, n_other));
            free(other);
        }
        printf("%s: %.3f from its own frames, of which the codes lost %.3f, the way back %.3f; the nearest other clip "
               "is at %.3f\n",
               ids[i], near, lost, rms_distance(heard, coded, n), far);
        assert_true(near <= lost + 0.3);
        assert_true(near < 0.75 * far);
        free(wav);
        free(heard);
        free(own);
        free(codes);
        free(coded);
    }
    free(entries);
}

/* Without codes in between only the way back is left, and the sound is as long as its frames. */
static void a_recording_itself_comes_back_closer(void **state) {
    (void)state;
    char *from = in("audio", "spk001_000013.wav"), *wav = path_join(root, "itself.wav");
    char *leftover = xformat("%s.0123456789abcdef.partial", wav); /* of a program that was killed */
    int64_t n, n_own;
    write_text(leftover, "half");
    assert_int_equal(run_command(said, sizeof said, "%s --mel-from %s -o %s", program("decode_tts"), from, wav), 0);
    assert_int_not_equal(access(leftover, F_OK), 0);
    free(leftover);
    assert_contains(said, "s of sound from 122 frames");
    float *heard = frames_of_file(wav, &n), *own = frames_of_file(from, &n_own);
    assert_int_equal(n, 122);
    assert_int_equal(n, n_own);
    assert_true(rms_distance(heard, own, n) < 0.25);
    free(heard);
    free(own);
    free(from);
    free(wav);
}

static void expect_decode_refusal(const char *arguments, int status, const char *message) {
    char *decode = realpath(program("decode_tts"), NULL);
    assert_non_null(decode);
    int got = run_command(said, sizeof said, "cd %s && %s -o x.wav %s", root, decode, arguments);
    free(decode);
    assert_contains(said, message);
    assert_int_equal(got, status);
}

static void bad_codes_are_told(void **state) {
    (void)state;
    reference(NULL);
    int32_t large[5] = {0, 1, 2, ENTRIES, 0};
    char *path = path_join(root, "large.npy"), *square = path_join(root, "square.npy");
    Error error;
    assert_true(npy_write(path, "<i4", large, 1, (int64_t[]){5}, &error));
    assert_true(npy_write(square, "<i4", large, 2, (int64_t[]){2, 2}, &error));
    expect_decode_refusal("--codes large.npy --codebook reference/codebook.npy", 1,
                          "large.npy: code 3 is 32, but reference/codebook.npy has 32 entries");
    expect_decode_refusal("--codes square.npy --codebook reference/codebook.npy", 1,
                          "square.npy: codes are a row of integers");
    expect_decode_refusal("--codes nowhere.npy --codebook reference/codebook.npy", 1, "nowhere.npy: ");
    expect_decode_refusal("--codes large.npy --codebook large.npy", 1, "large.npy: a codebook is a matrix of floats");
    expect_decode_refusal("--codes large.npy --mel-from x.wav", 2, "give either --codes or --mel-from");
    expect_decode_refusal("--mel-from list.tsv", 1, "list.tsv: is no sound file");
    /* Two files that do not belong together. */
    prepare("other", "--num-workers 2 --seed 6");
    int status = run_command(said, sizeof said,
                             "cd %s && mkdir mixed && cp other/codebook.json reference/codebook.npy mixed", root);
    assert_int_equal(status, 0);
    expect_decode_refusal("--codes reference/codes/spk001_000001.npy --codebook mixed/codebook.npy", 1,
                          "codebook.json, which belongs to the codebook: is not as it was written");
    expect_decode_refusal("-o /dev/null --codes reference/codes/spk001_000001.npy", 2, "/dev/null is a device");
    free(path);
    free(square);
}

int main(void) {
    root = scratch_directory();
    options = xformat("--vocabulary 60 --codebook-size %d --kmeans-iterations 10 --d-model %d --val-ratio 0.3 "
                      "--max-duration 3 --min-words 2",
                      ENTRIES, WIDTH);
    make_corpus();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_filters_and_the_split_are_told),
        cmocka_unit_test(stats_are_written),
        cmocka_unit_test(single_manifests_hold_every_clip_once),
        cmocka_unit_test(pairs_are_of_one_speaker_and_one_half),
        cmocka_unit_test(every_manifest_opens_as_a_data_set),
        cmocka_unit_test(padded_codes_are_flagged),
        cmocka_unit_test(text_ids_spell_the_normalised_text),
        cmocka_unit_test(codes_are_the_nearest_entries_of_the_codebook),
        cmocka_unit_test(the_codebook_can_be_trained_on_a_part),
        cmocka_unit_test(a_codebook_too_large_for_the_recordings_is_told),
        cmocka_unit_test(vectors_are_the_documented_map),
        cmocka_unit_test(one_and_four_workers_write_the_same_bytes),
        cmocka_unit_test(a_list_in_json_lines_is_the_same),
        cmocka_unit_test(byte_order_marks_and_carriage_returns_leave_no_trace),
        cmocka_unit_test(kills_leave_no_trace),
        cmocka_unit_test(a_second_run_does_nothing_again),
        cmocka_unit_test(the_next_command_trains),
        cmocka_unit_test(changed_settings_are_seen),
        cmocka_unit_test(changed_audio_is_seen),
        cmocka_unit_test(missing_files_are_made_again),
        cmocka_unit_test(damaged_files_are_made_again),
        cmocka_unit_test(damaged_frames_are_read_anew),
        cmocka_unit_test(silence_is_40_dB_below_the_loudest),
        cmocka_unit_test(a_full_disk_amid_changed_settings_leaves_no_stale_files),
        cmocka_unit_test(manifests_go_before_what_they_name),
        cmocka_unit_test(a_ledger_that_was_cut_off_is_mended),
        cmocka_unit_test(half_a_codebook_is_made_anew),
        cmocka_unit_test(two_at_once_are_refused),
        cmocka_unit_test(unknown_tokens_are_counted),
        cmocka_unit_test(texts_that_cannot_be_used_are_told),
        cmocka_unit_test(a_given_codebook_is_used),
        cmocka_unit_test(a_list_among_the_outputs_stays),
        cmocka_unit_test(files_of_the_user_among_the_outputs_stay),
        cmocka_unit_test(no_sound_replaces_what_it_is_made_from),
        cmocka_unit_test(bad_audio_is_told_with_its_line),
        cmocka_unit_test(bad_lists_are_told_with_their_line),
        cmocka_unit_test(too_little_is_told),
        cmocka_unit_test(decoded_codes_sound_like_their_clip),
        cmocka_unit_test(a_recording_itself_comes_back_closer),
        cmocka_unit_test(bad_codes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
