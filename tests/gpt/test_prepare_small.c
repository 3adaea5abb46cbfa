/* train_gpt prepare on little speech without sizes, and what people bring beside it. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "data/text/tokenizer_kind.h"
#include "tests/gpt/corpus.h"

/* Makes an output that has the frames of all clips, so that the sound is not read again. */
static void begin_with_frames(const char *output) {
    int status = run_command(fixture.output, sizeof fixture.output, "cd %s && rm -rf %s && cp -r %s %s", corpus_root,
                             output, corpus_reference(NULL), output);
    assert_int_equal(status, 0);
}

static void prepare_plain(const char *output, const char *list, const char *more) {
    int status = run_command(fixture.output, sizeof fixture.output, "%s -i %s/%s -o %s/%s --num-workers 2 %s",
                             program_at("train_gpt prepare"), corpus_root, list, corpus_root, output, more);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

/* Expects 16 codes, since 1,632 frames have 64 for each of 16, not of 32; held out is one clip at least, with another
 * of its speaker. */
TEST(sizes_fit_little_speech) {
    begin_with_frames("small");
    prepare_plain("small", "list.tsv", "");
    assert_contains(fixture.output, " of speech is little (the full model needs 2h54m), ");
    assert_contains(fixture.output, " --codebook-size 16 --d-model 256 --val-ratio 0.");
    json_t *stats = corpus_read_json("small", "stats.json"), *options = json_object_get(stats, "options");
    assert_true(corpus_number(stats, "vocabulary") < corpus_number(stats, "text_tokens"));
    assert_true(corpus_number(stats, "val_pairs") > 0);
    assert_int_equal(corpus_number(options, "model-dim"), 256);
    assert_int_equal(corpus_number(options, "number-mel-codes"), 18);
    json_decref(stats);
    int status = run_command(fixture.output, sizeof fixture.output,
                             "%s -m %s/small/train_pairs.jsonl --val-manifest %s/small/val_pairs.jsonl -b 8 -g 4 --amp "
                             "--layers 2 --dry-run",
                             program_at("train_gpt"), corpus_root, corpus_root);
    if (status) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "small/stats.json: ");
    assert_contains(fixture.output, "model-dim 256");
    assert_null(strstr(fixture.output, "layers 4")); /* what is given stays */
}

TEST(sizes_that_are_given_stay) {
    const char *told;
    json_t *stats = corpus_read_json(corpus_reference(&told), "stats.json");
    assert_null(strstr(told, "[Sizes]"));
    assert_null(json_object_get(stats, "options"));
    json_decref(stats);
    begin_with_frames("given_width");
    prepare_plain("given_width", "list.tsv", "--d-model 24 --vocabulary 70");
    assert_null(strstr(fixture.output, "--d-model 256"));
    stats = corpus_read_json("given_width", "stats.json");
    assert_int_equal(corpus_number(stats, "d_model"), 24);
    json_decref(stats);
}

TEST(a_side_without_pairs_has_clips_as_their_own_prompts) {
    int status =
        run_command(fixture.output, sizeof fixture.output,
                    "cd %s && awk -F'\\t' -v OFS='\\t' '{ $2 = \"s\" NR; print }' list.tsv >lone.tsv", corpus_root);
    assert_int_equal(status, 0);
    begin_with_frames("lone");
    prepare_plain("lone", "lone.tsv", "");
    assert_contains(fixture.output, "each clip is its own prompt\n");
    json_t *pairs = corpus_read_lines("lone", "val_pairs.jsonl"), *pair;
    json_t *singles = corpus_read_lines("lone", "val_manifest.jsonl");
    size_t i;
    assert_true(json_array_size(pairs) > 0);
    assert_int_equal(json_array_size(pairs), json_array_size(singles));
    json_array_foreach(pairs, i, pair)
        assert_string_equal(corpus_text(pair, "prompt_id"), corpus_text(pair, "target_id"));
    json_decref(singles);
    json_decref(pairs);
}

/* train_gpt would refuse a manifest without lines. */
TEST(a_share_that_leaves_nothing_is_told) {
    int status =
        run_command(fixture.output, sizeof fixture.output, "cd %s && head -n 1 list.tsv >one.tsv", corpus_root);
    assert_int_equal(status, 0);
    begin_with_frames("one");
    const char *const cases[][2] = {{"0.9", "[Data] no clip is left for training: lower --val-ratio\n"},
                                    {"0", "[Data] no clip is held out for validation: raise --val-ratio\n"}};
    for (int i = 0; i < 2; i++) {
        prepare_plain("one", "one.tsv", kept_format("--vocabulary 20 --val-ratio %s", cases[i][0]));
        assert_contains(fixture.output, cases[i][1]);
        assert_int_equal(strstr(fixture.output, "Next: ") != NULL, i == 1);
    }
}

/* The bytes decide: other ones are seen under the same size and time, the same ones under other times. */
TEST(a_sound_that_changed_is_seen_under_the_same_size_and_time) {
    char *path = kept_path(corpus_root, "audio/spk001_000001.wav"), *bytes;
    size_t size;
    struct stat before;
    Error error;
    begin_with_frames("bytes");
    assert_int_equal(stat(path, &before), 0);
    assert_true(read_file(path, &bytes, &size, &error));
    for (int turn = 0; turn < 2; turn++) {
        char *changed = xmalloc(size);
        memcpy(changed, bytes, size);
        if (!turn) memcpy(changed + 1000, bytes + 9000, 8000);
        write_bytes(path, changed, size);
        struct timespec times[2] = {before.st_atim, before.st_mtim};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        corpus_prepare("bytes", "--num-workers 2");
        assert_contains(fixture.output, "[Audio] 1 clips read, 19 reused\n");
        free(changed);
    }
    corpus_assert_same("bytes", corpus_reference(NULL));
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "touch %s/audio/*", corpus_root), 0);
    corpus_prepare("bytes", "--num-workers 2");
    assert_contains(fixture.output, "[Audio] 0 clips read, 20 reused\n");
    free(bytes);
}

TEST(what_has_no_spelling_is_counted) {
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s && sed '2s/$/ 12/; 3s/$/ ok %%/; 5s/$/ ፩/' list.tsv >digits.tsv", corpus_root);
    assert_int_equal(status, 0);
    begin_with_frames("digits");
    assert_int_equal(corpus_try_prepare("digits", "digits.tsv", "--num-workers 2"), 0);
    assert_contains(fixture.output,
                    "warning: 3 of 16 Amharic texts have digits (1 1, 2 1, ፩ 1), Latin letters (K 1, O 1), "
                    "other characters (% 1); the first: ");
    assert_contains(fixture.output, "digits.tsv:2. ");
    assert_int_equal(corpus_try_prepare("digits", "digits.tsv", "--num-workers 2 --language en"), 0);
    assert_null(strstr(fixture.output, "Amharic texts"));
}

TEST(what_is_no_tokenizer_is_called_what_it_is) {
    static const struct {
        const char *bytes, *kind;
    } files[] = {{"{\"a\": 0, \"b\": 1}", "is a vocab.json"},
                 {"{\"model\": {}}", "is JSON, as a Hugging Face tokenizer.json"},
                 {"#version: 0.2\na b\n", "is a merges.txt"},
                 {"IQ== 0\nIg== 1\n", "is a .tiktoken file"},
                 {"<unk>\t0\n\xE2\x96\x81\t-1.5\n", "is a SentencePiece .vocab"},
                 {"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"},
                 {"<!doctype HTML>\n", "is a web page"},
                 {"PK\3\4\x14", "is a zip archive"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *kind = tokenizer_kind(files[i].bytes, strlen(files[i].bytes));
        if (!kind || strncmp(kind, files[i].kind, strlen(files[i].kind))) fail_msg("%s", kind ? kind : "none");
    }
    assert_null(tokenizer_kind("\n\x0e\n\x05<unk>", 9)); /* as models begin */
    assert_null(tokenizer_kind("I\0== 0\n", 7));
    char *path = kept_path(corpus_root, "vocab.json"), *more = kept_format("--tokenizer %s", path);
    write_text(path, files[0].bytes);
    assert_int_equal(corpus_try_prepare("kinds", "list.tsv", more), 1);
    assert_contains(fixture.output,
                    "vocab.json: not a SentencePiece model (.model): it is a vocab.json, the pieces of a "
                    "tokenizer without its merges; without --tokenizer one is trained");
}

int main(void) { return tests_run(corpus_open, NULL); }
