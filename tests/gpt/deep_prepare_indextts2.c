/* train_gpt prepare --indextts2 on recordings of several passes: it writes the same files whatever the number of
 * workers, kills on the way, and what is computed together. */
#include "tests/gpt/published_rig.h"
#include "tests/sounds.h"

enum { CLIPS = 20, SECONDS = 10, LINES = 1 + CLIPS + 1 + CLIPS }; /* of the ledger: outputs, audio, tokenizer, codes */

static const char *const own_options = "--max-duration 30 --min-chars-per-second 0";

static int open_long(void **state) {
    published_open(state);
    FILE *list = fopen(corpus_folder("long.tsv"), "w");
    assert_non_null(list);
    for (int i = 0; i < CLIPS; i++) {
        int64_t n = 24000 * SECONDS + 120 * i; /* of odd and even numbers of frames */
        float *sound = make_babble((uint64_t)i, 24000, n);
        write_sound(corpus_folder(kept_format("long%02d.wav", i)), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 24000, 1, sound,
                    n);
        fprintf(list, "long%02d\ts%d\tlong%02d.wav\tሰላም ለዓለም ዛሬ ጥሩ ቀን ነው።\n", i, i % 2, i);
        free(sound);
    }
    return fclose(list);
}

static void prepare_long(const char *output, const char *more) {
    int status = published_try(output, "long.tsv", "published", kept_format("%s %s", own_options, more));
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

static const char *reference(void) {
    static bool made;
    if (!made) prepare_long("whole", "--num-workers 1");
    made = true;
    return "whole";
}

TEST(one_and_three_workers_write_the_same_bytes) {
    prepare_long("three", "--num-workers 3");
    corpus_assert_same("three", reference());
}

/* Starts the program and sends it a signal once its ledger has so many lines; false if it ended before. */
static bool end_at(const char *output, const char *weights, int64_t lines, int signal) {
    char *command = kept_format("exec %s prepare -i %s/long.tsv -o %s/%s --indextts2 %s/%s %s %s "
                                "--num-workers 2 >/dev/null",
                                program_at(published_program), corpus_root, corpus_root, output, corpus_root, weights,
                                published_options, own_options);
    int status = corpus_end_at(command, output, lines, signal);
    return WIFSIGNALED(status) || WEXITSTATUS(status) == 128 + signal;
}

TEST(signals_leave_no_trace) {
    static const int moments[] = {0, 1, 2, 12, 21, 22, 23, 24, 29, 30, 35, 41};
    int ended = 0;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        ended += end_at("killed", "published", moments[i], i % 2 ? SIGTERM : SIGKILL);
        if (corpus_ledger_lines("killed") < LINES)
            assert_int_not_equal(access(corpus_path("killed", "manifest.jsonl"), F_OK), 0);
    }
    print_message("ended %d times\n", ended);
    assert_true(ended >= 5);
    prepare_long("killed", "--num-workers 2");
    corpus_assert_same("killed", reference());
}

/* With other weights all clips are coded again. Each has two new lines in the ledger: unfinished, done. */
TEST(manifests_do_not_stand_while_files_are_replaced) {
    char *folder = published_folder("others");
    published_write(folder, INDEX_CODEC, &(PublishedChange){.scaled = "encoder.1.weight", .factor = -1.25f});
    prepare_long("replaced", "--num-workers 2");
    assert_int_equal(corpus_ledger_lines("replaced"), LINES);
    assert_true(end_at("replaced", "others", LINES + 9, SIGKILL));
    assert_int_not_equal(access(corpus_path("replaced", "manifest.jsonl"), F_OK), 0);
    prepare_long("replaced", "--num-workers 2");
    assert_null(strstr(fixture.output, "[Codes] 0 clips coded"));
    corpus_assert_same("replaced", reference());
}

/* Every other clip again: it lies beside others than before. */
TEST(clips_have_the_same_bytes_in_any_company) {
    prepare_long("company", "--num-workers 2");
    must_run("rm %s/codes/*[13579].npy", corpus_folder("company"));
    prepare_long("company", "--num-workers 2");
    assert_contains(fixture.output, "[Codes] 10 clips coded, 10 reused; 10 of them were coded before");
    corpus_assert_same("company", reference());
}

/* The statistics are judged after two minutes, which are several passes; none of them may have been written. */
TEST(nothing_is_written_before_it_is_judged) {
    char *folder = published_folder("variances");
    published_write(folder, INDEX_STATISTICS, &(PublishedChange){.scaled = "var", .factor = 10});
    assert_int_equal(published_try("judged", "long.tsv", "variances", own_options), 1);
    assert_contains(fixture.output, "[Features] of the first 2m");
    assert_contains(fixture.output, "a variance of 0.5 to 2 was expected");
    must_run("ls %s/codes | wc -l", corpus_folder("judged"));
    assert_int_equal(atoi(fixture.output), 0);
}

int main(void) { return tests_run(open_long, NULL); }
