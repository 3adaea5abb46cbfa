/* train_gpt prepare with files that users bring: given tokenizers and codebooks are used, files of the user stay, and
 * bad input is named. */
#include <unistd.h>

#include "data/audio/mel.h"
#include "data/gpt/recordings_read.h"
#include "tests/gpt/corpus.h"
#include "tests/sounds.h"

/* ---- given tokenizers and codebooks ---- */

/* A text with a character that the tokenizer has no piece for. */
TEST(unknown_tokens_are_counted) {
    corpus_reference(NULL);
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s && sed '3s/$/ ፐፐ ቀን ፐ/' list.tsv >unknown.tsv", corpus_root);
    assert_int_equal(status, 0);
    char *more = kept_format("--num-workers 2 --tokenizer %s/reference/bpe.model", corpus_root);
    if (corpus_try_prepare("unknown", "unknown.tsv", more)) fail_msg("%s", fixture.output);
    GptDatasetReport r = corpus_open_manifest("unknown", "manifest.jsonl", SPLIT_ALL, false);
    char *line = kept_format("pieces (given); %lld tokens, %.3f %% unknown\n", (long long)r.text_tokens,
                             100 * (double)r.unknown_tokens / (double)r.text_tokens);
    assert_int_equal(r.unknown_tokens, 2); /* neighbours are one */
    assert_contains(fixture.output, line);
    assert_contains(fixture.output, "warning: the texts: the tokenizer does not know 2 of ");
    assert_contains(fixture.output, "because of the characters ፐ 3\n");
    more = kept_format("--num-workers 2 --tokenizer %s/reference/bpe.model --max-unknown 0.001", corpus_root);
    assert_int_equal(corpus_try_prepare("unknown", "unknown.tsv", more), 1);
    assert_contains(fixture.output,
                    "ፐ 3: it was made of other texts; give one that knows these, or raise --max-unknown 0.001");
    char *manifest = corpus_path("unknown", "manifest.jsonl");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "%s -m %s --tokenizer %s/reference/bpe.model --max-unknown 0.001 --model-dim 16 "
                                 "--heads 2 --layers 1 --dry-run",
                                 program_at("train_gpt"), manifest, corpus_root),
                     1);
    assert_contains(fixture.output, "train: the tokenizer does not know 2 of ");
    more = kept_format("--num-workers 2 --tokenizer %s/list.tsv", corpus_root);
    assert_int_equal(corpus_try_prepare("unknown", "unknown.tsv", more), 1);
    assert_contains(fixture.output, "list.tsv: ");
    char *model = corpus_path("unknown", "bpe.model");
    assert_int_equal(access(model, F_OK), 0); /* what is there stays */
    corpus_open_manifest("unknown", "manifest.jsonl", SPLIT_ALL, false);
}

TEST(texts_that_cannot_be_used_are_reported) {
    char *list = kept_path(corpus_root, "texts.tsv"), *line = kept_format("%s:4: the text holds U+2585", list);
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && sed '4s/$/ \u2585/' list.tsv >texts.tsv", corpus_root),
                     0);
    assert_int_equal(corpus_try_prepare("texts", "texts.tsv", "--num-workers 2"), 1);
    assert_contains(fixture.output, line);
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && words=$(for i in $(seq 700); do printf ' ቀን'; done) && "
                                 "sed \"4s/$/$words/\" list.tsv >texts.tsv",
                                 corpus_root),
                     0);
    if (corpus_try_prepare("texts", "texts.tsv", "--num-workers 2 --max-chars-per-second 10000"))
        fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "[Filter] 1 rejected: with more than 600 text tokens\n");
    assert_contains(fixture.output, "[Data] 16 of 22 clips"); /* "fast" is kept instead */
}

TEST(a_given_codebook_is_used) {
    corpus_reference(NULL);
    corpus_prepare("given", kept_format("--num-workers 2 --seed 9 --codebook %s/reference/codebook.npy", corpus_root));
    assert_contains(fixture.output, "[Codebook] 32 entries (given)");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && diff -r given/codes reference/codes && "
                                 "diff -r given/condition reference/condition",
                                 corpus_root),
                     0);
}

/* ---- files of the user among the outputs ---- */

/* Runs it; what lies in the folder but the ledger must be as before. */
static void expect_untouched(const char *output, const char *list, const char *more, const char *message) {
    char before[1 << 12], after[1 << 12];
    const char *const look =
        "cd %s/%s && find . -type f ! -name .prepare_ledger.jsonl | sort | xargs sha1sum | sha1sum";
    run_command(before, sizeof before, look, corpus_root, output);
    if (corpus_try_prepare(output, list, more) != 1) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, message);
    run_command(after, sizeof after, look, corpus_root, output);
    assert_string_equal(after, before);
}

TEST(a_list_among_the_outputs_stays) {
    static const char *const names[] = {"manifest.jsonl", "train_manifest.jsonl", "val_pairs.jsonl"};
    corpus_prepare("known", "--num-workers 2");
    for (int known = 0; known < 2; known++) /* in a folder of its own, and in one that was prepared */
        for (int i = 0; i < 3; i++) {
            const char *folder = known ? "known" : "listed";
            char *list = kept_format("%s/%s", folder, names[i]), *path = kept_path(corpus_root, list),
                 *parent = corpus_path(folder, "");
            make_directories(parent);
            write_text(path, "{\"id\": \"a\", \"speaker\": \"s\", \"audio\": \"../audio/spk001_000001.wav\", "
                             "\"text\": \"\u1230\u120b\u121d \u1240\u1295\", \"mine\": 1}\n");
            expect_untouched(folder, list, "--num-workers 2", "is read by this run (--input) and is not replaced");
            assert_int_equal(unlink(path), 0);
        }
}

/* Refused, whatever it is; what is given as tokenizer and codebook is used where it lies, and stays when it is given no
 * more. */
TEST(files_of_the_user_among_the_outputs_stay) {
    static const char *const names[] = {"manifest.jsonl", "stats.json",    "bpe.model",
                                        "codebook.npy",   "codebook.json", "codes/spk001_000001.npy"};
    corpus_reference(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        run_command(fixture.output, sizeof fixture.output,
                    "cd %s && rm -rf mine && mkdir -p mine/codes && cp reference/%s mine/%s", corpus_root, names[i],
                    names[i]);
        expect_untouched("mine", "list.tsv", "--num-workers 2",
                         ".prepare_ledger.jsonl does not say that train_gpt prepare has made it");
    }
    run_command(fixture.output, sizeof fixture.output,
                "cd %s && rm -r mine && mkdir mine && cp reference/bpe.model reference/codebook.* mine", corpus_root);
    char *more = kept_format("--num-workers 2 --tokenizer %s/mine/bpe.model --codebook %s/mine/codebook.npy",
                             corpus_root, corpus_root);
    corpus_prepare("mine", more);
    corpus_prepare("mine", more);
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused");
    corpus_assert_same("mine", corpus_reference(NULL));
    expect_untouched("mine", "list.tsv", "--num-workers 2 --seed 6", "mine/bpe.model would be replaced");
    more = kept_format("--num-workers 2 --tokenizer %s/taken/bpe.model --codebook %s/taken/codebook.npy", corpus_root,
                       corpus_root);
    corpus_prepare("taken", "--num-workers 2");
    corpus_prepare("taken", more); /* what was made stays what was made */
    corpus_prepare("taken", "--num-workers 2");
    corpus_assert_same("taken", corpus_reference(NULL));
    assert_int_equal(corpus_try_prepare("typo", "list.tsv", "--num-workers 2 --codebook nowhere/codebook.npy"), 1);
    assert_contains(fixture.output, "nowhere/codebook.npy");
}

/* ---- bad input ---- */

/* A list of one good recording and one of each bad kind, each reported with its line and file. */
TEST(bad_audio_is_reported_with_its_line) {
    static const char *const reasons[] = {"cannot open: No such file or directory",
                                          "is not a sound file that can be read: ",
                                          "is empty",
                                          "has no samples",
                                          "has only 100 samples, less than one frame of 20 ms",
                                          "is silent: every sample is zero",
                                          "is clipped: 50.0 % of its samples are beyond 0.99 of full scale "
                                          "(--max-clipping 0.01)",
                                          "is cut off: 23978 of 48000 bytes of sound are there",
                                          "has samples of 3e+38, where full scale is 1: it is damaged, or not sound"};
    enum { BAD = sizeof reasons / sizeof *reasons };
    char *bad = kept_path(corpus_root, "bad"), *list = kept_path(corpus_root, "bad.tsv"), *paths[BAD];
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

    assert_int_equal(corpus_try_prepare("bad_out", "bad.tsv", "--num-workers 2"), 1);
    for (int i = 0; i < BAD; i++) {
        assert_contains(fixture.output, kept_format("%s:%d: %s: %s", list, 3 + i, paths[i], reasons[i]));
    }
    assert_contains(fixture.output, "the audio of 9 of 10 recordings is bad; repair or remove them, or skip them with "
                                    "--skip-bad");
    int status = corpus_try_prepare("bad_out", "bad.tsv", "--num-workers 2 --skip-bad --vocabulary 40");
    if (status) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "[Filter] 9 rejected: with bad audio\n");
    assert_contains(fixture.output, "[Data] 1 of 10 clips");
    status = corpus_try_prepare("bad_out", "bad.tsv", "--num-workers 2 --skip-bad --max-clipping 0.6");
    assert_int_equal(status, 0);
    assert_contains(fixture.output, "[Data] 2 of 10 clips");
    for (int i = 0; i < BAD; i++) free(paths[i]);
}

/* Kept, and told, also by a run that does not read the sound again. */
TEST(doubtful_audio_is_counted) {
    char *folder = kept_path(corpus_root, "doubtful"), *list = kept_path(corpus_root, "doubtful.tsv");
    make_directories(folder);
    FILE *file = fopen(list, "w");
    assert_non_null(file);
    fprintf(file, "good\ts\taudio/spk004_000016.wav\tዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው\n");
    for (int i = 0; i < 3; i++) {
        char *path = kept_format("%s/%d.wav", folder, i);
        float *babble = make_babble((uint64_t)i, MEL_RATE, 2 * MEL_RATE);
        for (int k = 0; k < 2 * MEL_RATE && i; k++) babble[k] *= 1e-3f;
        write_sound(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, MEL_RATE, 1, babble, 2 * MEL_RATE);
        if (!i)
            assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                         "cat %s/audio/spk004_000016.wav | tail -c 30000 >>%s", corpus_root, path),
                             0);
        fprintf(file, "doubt%d\ts\tdoubtful/%d.wav\tዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው\n", i, i);
        free(babble);
    }
    assert_int_equal(fclose(file), 0);
    for (int again = 0; again < 2; again++) {
        if (corpus_try_prepare("doubtful_out", "doubtful.tsv", "--num-workers 2 --vocabulary 40"))
            fail_msg("%s", fixture.output);
        assert_contains(fixture.output, again ? "[Audio] 0 clips read, 4 reused" : "[Audio] 4 clips read, 0 reused");
        assert_contains(fixture.output, "doubtful.tsv:3: ");
        assert_contains(fixture.output, "doubtful/1.wav: is at the noise floor: its loudest sample is ");
        assert_contains(fixture.output, " or amplify it (2 of 4 recordings)");
        assert_contains(fixture.output, "doubtful/0.wav: has a header that declares only 192000 of 222000 bytes");
    }
}

static void expect_bad_list(bool json_lines, const char *list, const char *message) {
    Recordings recordings;
    Error error = {""};
    RecordingsSource source = {.path = json_lines ? "list.jsonl" : "list.tsv"};
    assert_false(recordings_parse(list, strlen(list), &source, &recordings, &error));
    size_t n = strlen(message);
    if (strncmp(error.text, message, n)) fail_msg("%s", error.text);
    if (error.text[n]) assert_string_equal(error.text + n, "; --skip-bad leaves such lines out, and counts them");
}

TEST(bad_lists_are_reported_with_their_line) {
    expect_bad_list(false, "a\ts\tx.wav\tone\n\nb\ts\tx.wav\n",
                    "3: has 3 tab-separated fields, expected 4: id, speaker, audio file, text");
    expect_bad_list(false, "a\ts\tx.wav\tone\nb\ts\tx.wav\ttwo\r\na\ts\tx.wav\tthree\n",
                    "3: the id a is also that of line 1");
    expect_bad_list(false, "\nID\tSpeaker\tpath\tTEXT\r\n",
                    "2: this line looks like a header (ID, Speaker, ...); name its columns with --audio-field and "
                    "--text-field, or remove it");
    expect_bad_list(false, "a/b\ts\tx.wav\tone",
                    "1: the id a/b has a slash or a control character, but files are named after it");
    expect_bad_list(false, "..\ts\tx.wav\tone", "1: the id .. begins with a dot, but files are named after it");
    expect_bad_list(false, "a\t\tx.wav\tone", "1: a has no speaker");
    expect_bad_list(false, "a\ts\t\tone", "1: a has no audio file");
    expect_bad_list(false, "a\ts\tx.wav\t\xff",
                    "1: byte 11 is not UTF-8; it may be Western text of Windows: convert it with iconv -f WINDOWS-1252 "
                    "-t UTF-8 FILE >NEW, and look at the result");
    expect_bad_list(true, "{\"id\":\"a\",\"speaker\":\"s\",\"audio\":\"x\",\"text\":\"\"}\n{\"id\":\"b\",}",
                    "2:11: invalid JSON: expected a name in double quotes");
    expect_bad_list(true, "{\"id\":\"a\",\"speaker\":\"s\",\"audio\":\"x\"}",
                    "1: text is missing (--text-field); the fields of the line are id, speaker, audio");
    expect_bad_list(true, "{\"id\":7,\"speaker\":\"s\",\"audio\":8,\"text\":\"\"}", "1: audio is not a string");
    assert_int_equal(corpus_try_prepare("none", "none.tsv", ""), 1);
    assert_contains(fixture.output, "none.tsv: ");
}

TEST(too_few_recordings_are_refused) {
    assert_int_equal(corpus_try_prepare("little", "list.tsv", "--codebook-size 8192 --num-workers 2"), 1);
    assert_contains(fixture.output,
                    " different frames cannot fill a codebook of 8192 entries; give more recordings, or a smaller "
                    "--codebook-size");
    assert_int_equal(corpus_try_prepare("little", "list.tsv", "--min-duration 20 --max-duration 30 --num-workers 2"),
                     1);
    assert_contains(fixture.output, "no recording is left: 20 of 22 are shorter than --min-duration");
    assert_int_equal(corpus_try_prepare("little", "list.tsv", "--max-duration 36.33"),
                     2); /* 1816 codes, not one more */
    assert_contains(fixture.output, "36.32");
    assert_int_equal(corpus_try_prepare("little", "list.tsv", "--vocabulary 10 --num-workers 2"), 1);
    assert_contains(fixture.output, "a vocabulary of 10 is too small");
}

/* Before a sound is read: there is none. */
TEST(an_id_that_the_disk_refuses_is_named) {
    char *list = kept_path(corpus_root, "times.tsv");
    write_text(list, "plain\ts\tnowhere.wav\tዛሬ ጥሩ ቀን ነው\nat 12:30\ts\tnowhere.wav\tዛሬ ጥሩ ቀን ነው\n");
    bool poor = poor_disk(true);
    assert_int_equal(corpus_try_prepare("times", "times.tsv", ""), 1);
    if (poor) poor_disk(false);
    if (poor) assert_contains(fixture.output, "the id at 12:30: files are named after it, and the file system of ");
    if (poor) assert_null(strstr(fixture.output, "nowhere.wav"));
    assert_int_equal(corpus_try_prepare("other_times", "times.tsv", ""), 1);
    assert_contains(fixture.output, "nowhere.wav");
}

int main(void) { return tests_run(corpus_open, NULL); }
