/* train_gpt prepare writes the same files whatever the number of workers, the format of the list, kills, damage, and
 * runs with other settings in between. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "data/audio/mel.h"
#include "data/gpt/recordings_read.h"
#include "data/ledger.h"
#include "tests/gpt/corpus.h"
#include "tests/sounds.h"

static Error error;

TEST(one_and_four_workers_write_the_same_bytes) {
    corpus_prepare("four", "--num-workers 4");
    corpus_assert_same("four", corpus_reference(NULL));
}

TEST(a_list_in_json_lines_is_the_same) {
    int status = run_command(fixture.output, sizeof fixture.output,
                             "sed 's/\\([^\\t]*\\)\\t\\([^\\t]*\\)\\t\\([^\\t]*\\)\\t\\(.*\\)/"
                             "{\"text\":\"\\4\",\"audio\":\"\\3\",\"speaker\":\"\\2\",\"id\":\"\\1\",\"x\":1}/' "
                             "%s/list.tsv >%s/list.jsonl",
                             corpus_root, corpus_root);
    assert_int_equal(status, 0);
    status = corpus_try_prepare("jsonl", "list.jsonl", "--num-workers 2");
    if (status) fail_msg("%s", fixture.output);
    corpus_assert_same("jsonl", corpus_reference(NULL));
}

/* The list as saved by an editor on Windows. */
TEST(byte_order_marks_and_carriage_returns_leave_no_trace) {
    int status =
        run_command(fixture.output, sizeof fixture.output,
                    "cd %s && { printf '\\357\\273\\277'; sed 's/$/\\r/' list.tsv; } >windows.tsv", corpus_root);
    assert_int_equal(status, 0);
    status = corpus_try_prepare("windows", "windows.tsv", "--num-workers 2");
    if (status) fail_msg("%s", fixture.output);
    corpus_assert_same("windows", corpus_reference(NULL));
    static const char json[] = "\xEF\xBB\xBF{\"id\":\"a\",\"speaker\":\"s\",\"audio\":\"x\",\"text\":\"y\"}\r\n\r\n";
    static const char tabs[] = "\xEF\xBB\xBF"
                               "a\ts\tx\ty\r\n\r\n";
    for (int i = 0; i < 2; i++) {
        Recordings list;
        RecordingsSource source = {.path = i ? "list.jsonl" : "list.tsv"};
        assert_true(recordings_parse(i ? json : tabs, strlen(i ? json : tabs), &source, &list, &error));
        assert_int_equal(list.count, 1);
        assert_string_equal(list.items[0].id, "a");
        assert_string_equal(list.items[0].text, "y");
        recordings_close(&list);
    }
}

/* Starts the program and kills it once its ledger has so many lines; false if it ended before. */
static bool kill_at(const char *output, int64_t lines) {
    char *command = kept_format("exec %s -i %s/list.tsv -o %s/%s %s --num-workers 2 >/dev/null",
                                program_at("train_gpt prepare"), corpus_root, corpus_root, output, corpus_options);
    return WIFSIGNALED(corpus_end_at(command, output, lines, SIGKILL));
}

/* A whole run leaves 39 lines: of the outputs, of 20 clips measured, the tokenizer, the codebook, 16 clips coded.
 * Killed again and again on the way, at its very start, in each step and between them. */
TEST(kills_leave_no_trace) {
    static const int moments[] = {0, 1, 2, 10, 20, 21, 22, 23, 24, 31, 38};
    int killed = 0;
    char *manifest = corpus_path("killed", "manifest.jsonl");
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        killed += kill_at("killed", moments[i]);
        if (corpus_ledger_lines("killed") < 39) assert_int_not_equal(access(manifest, F_OK), 0);
    }
    printf("killed %d times\n", killed);
    assert_true(killed >= 5);
    corpus_prepare("killed", "--num-workers 2");
    corpus_assert_same("killed", corpus_reference(NULL));
}

TEST(a_second_run_does_nothing_again) {
    corpus_prepare("again", "--num-workers 2");
    char *path = corpus_path("again", "codes/spk001_000001.npy");
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    corpus_prepare("again", "--num-workers 2");
    assert_contains(fixture.output, "[Audio] 0 clips read, 20 reused\n");
    assert_contains(fixture.output, "pieces (reused)");
    assert_contains(fixture.output, "[Codebook] 32 entries (reused)");
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused\n");
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    corpus_assert_same("again", corpus_reference(NULL));
}

/* Prepares into a folder whose name a shell would take apart. */
TEST(the_next_command_trains) {
    const char *name = "it's \"the $HOME\"";
    char *folder = kept_format("%s/%s", corpus_root, name), *word = keep(shell_word(folder));
    int status =
        run_command(fixture.output, sizeof fixture.output, "cp -r %s/%s %s && %s -i %s/list.tsv -o %s %s", corpus_root,
                    corpus_reference(NULL), word, program_at("train_gpt prepare"), corpus_root, word, corpus_options);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused\n");
    const char *next = strstr(fixture.output, "Next: ");
    assert_non_null(next);
    char *command = kept_format("%.*s --dry-run", (int)strcspn(next, "\n"), next);
    status = run_command(fixture.output, sizeof fixture.output, "%s", command + strlen("Next: "));
    if (status) fail_msg("%s: exit status %d:\n%s", command, status, fixture.output);
    assert_contains(fixture.output, "[Data] train: 14 samples");
    /* 14 pairs are one step an epoch: the defaults, a warm-up of 1,000 steps and 24 layers, would train nothing. */
    assert_contains(command, " --epochs 50 --warmup-steps 5 --val-interval 0 --log-interval 1 ");
    assert_null(strstr(fixture.output, "is never reached"));
}

/* The same settings give the same files, whatever was run in between; other settings give those of a fresh folder. */
TEST(changed_settings_are_seen) {
    corpus_reference(NULL);
    corpus_prepare("changed", "--num-workers 2 --max-duration 1.5");
    assert_contains(fixture.output, "[Data] 5 of 22 clips");
    corpus_prepare("changed", "--num-workers 2");
    assert_contains(fixture.output, "[Audio] 0 clips read, 20 reused\n");
    assert_contains(fixture.output, "[Codes] 16 clips coded, 0 reused; 5 of them were coded before");
    corpus_assert_same("changed", corpus_reference(NULL));
    corpus_prepare("changed", "--num-workers 2 --d-model 24 --seed 5");
    assert_contains(fixture.output, "[Codes] 16 clips coded, 0 reused; 16 of them were coded before");
    corpus_prepare("fresh", "--num-workers 2 --d-model 24 --seed 5");
    corpus_assert_same("changed", "fresh");
    corpus_prepare("changed", "--num-workers 2");
    corpus_assert_same("changed", corpus_reference(NULL));
}

/* Another sound under the old name, and a file that has gone. */
TEST(changed_audio_is_seen) {
    int status =
        run_command(fixture.output, sizeof fixture.output, "cp -rp %s/audio %s/kept_audio", corpus_root, corpus_root);
    assert_int_equal(status, 0);
    corpus_prepare("audio_changed", "--num-workers 2");
    status = run_command(fixture.output, sizeof fixture.output,
                         "cd %s && cp audio/spk001_000013.wav audio/spk001_000001.wav", corpus_root);
    assert_int_equal(status, 0);
    corpus_prepare("audio_changed", "--num-workers 2");
    assert_contains(fixture.output, "[Audio] 1 clips read, 19 reused\n");
    status = run_command(fixture.output, sizeof fixture.output,
                         "cd %s && rm -r audio && mv kept_audio audio && "
                         "rm audio_changed/mel/spk002_000002.npy audio_changed/codes/spk003_000003.npy",
                         corpus_root);
    assert_int_equal(status, 0);
    corpus_prepare("audio_changed", "--num-workers 2");
    assert_contains(fixture.output, "[Audio] 1 clips read, 19 reused\n");
    corpus_assert_same("audio_changed", corpus_reference(NULL));
}

/* Any of the four files of a clip. */
TEST(missing_files_are_made_again) {
    static const char *const folders[] = {"emo_vec", "condition", "text_ids", "codes"};
    corpus_prepare("missing", "--num-workers 2");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *name = kept_format("%s/%s.npy", folders[i], corpus_ids[5]), *path = corpus_path("missing", name);
        assert_int_equal(unlink(path), 0);
        corpus_prepare("missing", "--num-workers 2");
        assert_contains(fixture.output, "[Codes] 1 clips coded, 15 reused; 1 of them were coded before");
        corpus_assert_same("missing", corpus_reference(NULL));
    }
}

/* One bit of any file that is kept for the next run, or of the ledger's lines. */
TEST(damaged_files_are_made_again) {
    static const char *const kept[] = {"emo_vec/%s.npy", "condition/%s.npy", "text_ids/%s.npy", "codes/%s.npy",
                                       "codebook.npy",   "codebook.json",    "bpe.model"};
    corpus_prepare("flipped", "--num-workers 2");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char *name = i < 4 ? xformat(kept[i], corpus_ids[5]) : xstrdup(kept[i]), *path = corpus_path("flipped", name),
             *bytes;
        size_t size;
        assert_true(read_file(path, &bytes, &size, &error));
        bytes[i < 5 ? size - 3 : size / 2] ^= 1;
        write_bytes(path, bytes, size);
        corpus_prepare("flipped", "--num-workers 2");
        if (i < 4) assert_contains(fixture.output, "[Codes] 1 clips coded, 15 reused; 1 of them were coded before");
        corpus_assert_same("flipped", corpus_reference(NULL));
        free(bytes);
        free(name);
    }
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s/flipped && sed -i '/codes/s/squared_error\":./squared_error\":7/' "
                             ".prepare_ledger.jsonl",
                             corpus_root);
    assert_int_equal(status, 0);
    corpus_prepare("flipped", "--num-workers 2"); /* a damaged line is not parsed */
    assert_contains(fixture.output, "[Codes] 16 clips coded, 0 reused");
    corpus_assert_same("flipped", corpus_reference(NULL));
}

/* The frames between two kills: a damaged one is read anew from the audio. */
TEST(damaged_frames_are_read_anew) {
    corpus_prepare("frames", "--num-workers 2");
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s/frames && for f in mel/spk*.npy; do truncate -s -4 $f && printf abcd >>$f; done && "
                             "rm -r codebook.npy codes",
                             corpus_root);
    assert_int_equal(status, 0);
    corpus_prepare("frames", "--num-workers 2");
    corpus_assert_same("frames", corpus_reference(NULL));
}

/* Half a second at full loudness, half a second 39.9 or 40.1 dB below it. */
TEST(silence_is_40_dB_below_the_loudest) {
    char *list = kept_path(corpus_root, "silence.tsv");
    for (int i = 0; i < 2; i++) {
        float *sine = make_sine(400, 0.5, MEL_RATE, 1, MEL_RATE); /* eight periods a frame */
        char *path = kept_format("%s/quiet%d.wav", corpus_root, i);
        for (int t = MEL_RATE / 2; t < MEL_RATE; t++) sine[t] *= powf(10, -(i ? 40.1f : 39.9f) / 20);
        write_sound(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, MEL_RATE, 1, sine, MEL_RATE);
        free(sine);
    }
    write_text(list, "good\ts\taudio/spk004_000016.wav\tዛሬ ጥሩ ቀን ነው ዛሬ ጥሩ ቀን ነው\n"
                     "quiet0\ts\tquiet0.wav\tዛሬ ጥሩ ቀን ነው\nquiet1\ts\tquiet1.wav\tዛሬ ጥሩ ቀን ነው\n");
    int status = corpus_try_prepare("silence", "silence.tsv", "--num-workers 2 --max-silence 0.49 --vocabulary 40");
    if (status) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "[Filter] 1 rejected: with more silence than --max-silence\n");
    json_t *lines = corpus_read_lines("silence", "manifest.jsonl");
    corpus_line(lines, "quiet0");
    status = corpus_try_prepare("silence", "silence.tsv", "--num-workers 2 --max-silence 0.5 --vocabulary 40");
    assert_int_equal(status, 0);
    assert_contains(fixture.output, "[Data] 3 of 3 clips");
    json_decref(lines);
}

/* A run with another codebook and wider vectors that dies after the codes of a clip, before its vectors: whoever goes
 * back to the old settings must not get those codes. */
TEST(a_full_disk_amid_changed_settings_leaves_no_stale_files) {
    corpus_prepare("other", "--num-workers 1 --seed 6");
    corpus_prepare("full", "--num-workers 1");
    int status = run_command(fixture.output, sizeof fixture.output,
                             "trap '' XFSZ; ulimit -f 100; %s -i %s/list.tsv -o %s/full %s --num-workers 1 "
                             "--codebook %s/other/codebook.npy --d-model 1024",
                             program_at("train_gpt prepare"), corpus_root, corpus_root, corpus_options, corpus_root);
    assert_int_equal(status, 1);
    assert_contains(fixture.output, "full/condition/spk001_000001.npy");
    assert_contains(fixture.output, "File too large");
    corpus_prepare("full", "--num-workers 1");
    corpus_assert_same("full", corpus_reference(NULL));
}

/* Only the vectors change here, and no manifest stands while some are new and some old. */
TEST(manifests_are_removed_before_their_files_change) {
    corpus_prepare("wide", "--num-workers 2");
    int status = run_command(fixture.output, sizeof fixture.output,
                             "trap '' XFSZ; ulimit -f 100; %s -i %s/list.tsv -o %s/wide %s --d-model 1024",
                             program_at("train_gpt prepare"), corpus_root, corpus_root, corpus_options);
    assert_int_equal(status, 1);
    for (int i = 0; i < 2; i++) {
        char *path = corpus_path("wide", i ? "manifest.jsonl" : "val_pairs.jsonl");
        assert_int_not_equal(access(path, F_OK), 0);
    }
    corpus_prepare("wide", "--num-workers 2");
    corpus_assert_same("wide", corpus_reference(NULL));
}

/* The line is gone, and what follows it is not lost with it. */
TEST(a_ledger_that_was_cut_off_is_mended) {
    corpus_prepare("cut", "--num-workers 2");
    char *path = corpus_path("cut", ".prepare_ledger.jsonl");
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(truncate(path, status.st_size - 10), 0);
    corpus_prepare("cut", "--num-workers 2");
    assert_contains(fixture.output, "[Codes] 1 clips coded, 15 reused\n");
    corpus_prepare("cut", "--num-workers 2");
    assert_contains(fixture.output, "[Codes] 0 clips coded, 16 reused\n");
}

/* The two files of a codebook belong together. */
TEST(half_a_codebook_is_made_anew) {
    corpus_prepare("other", "--num-workers 2 --seed 6");
    corpus_prepare("half", "--num-workers 2");
    int status =
        run_command(fixture.output, sizeof fixture.output, "cd %s && cp other/codebook.json half/", corpus_root);
    assert_int_equal(status, 0);
    corpus_prepare("half", "--num-workers 2");
    corpus_assert_same("half", corpus_reference(NULL));
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "rm %s/half/codebook.json", corpus_root), 0);
    corpus_prepare("half", "--num-workers 2");
    corpus_assert_same("half", corpus_reference(NULL));
}

TEST(two_at_once_are_refused) {
    corpus_reference(NULL);
    char *path = corpus_path("reference", ".prepare_ledger.jsonl");
    Ledger *ledger = ledger_open(path, &error);
    assert_non_null(ledger);
    assert_int_equal(corpus_try_prepare("reference", "list.tsv", ""), 1);
    assert_contains(fixture.output, "another process is at work in this directory");
    ledger_close(ledger);
}

int main(void) { return tests_run(corpus_open, NULL); }
