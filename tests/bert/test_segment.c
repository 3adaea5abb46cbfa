/* train_bert segment: a filter for lines. Runs in child processes, because errors end the program. */
#include "commands/bert/commands.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/segmenter_files.h"
#include "tests/test.h"

static const char *folder;
static char output[1 << 14];

static void run(void *words) {
    char *argv[32] = {"train_bert segment"};
    int argc = 1;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    if (chdir(folder)) _exit(99);
    if (!access("standard_input", F_OK) && !freopen("standard_input", "r", stdin)) _exit(98);
    fflush(NULL);
    int status = bert_segment(argc, argv);
    fflush(NULL);
    _exit(status);
}

static int segment(const char *words) { return run_function(output, sizeof output, run, keep(xstrdup(words))); }

static char *in(const char *name) { return kept_path(folder, name); }

static void assert_segments(const char *words, const char *file, const char *want) {
    if (segment(words)) fail_msg("%s:\n%s", words, output);
    assert_string_equal(kept_text(in(file)), want);
}

static void assert_fails(const char *words, const char *reason) {
    if (!segment(words)) fail_msg("%s succeeded:\n%s", words, output);
    assert_contains(output, reason);
}

static int make_model(void **state) {
    (void)state;
    size_t size;
    char *words = keep(segmenter_vocabulary((const char *[]){"học sinh", "hoà bình"}, 2, &size));
    folder = run_directory();
    assert_int_equal(mkdir(in("model"), 0777), 0);
    write_bytes(in("model/VnVocab"), words, size);
    write_text(in("model/Model.RDR"), "True : object.conclusion = \"NN\"\n"
                                      "\tobject.tag == \"B\" : object.conclusion = \"B\"\n");
    return 0;
}

TEST(lines_end_at_lf_cr_and_both) {
    write_text(in("ends"), "Học sinh.\r\nhoà bình\r\r\n\n học\xC2\x85 \rhọc sinh");
    assert_segments("-m model ends -o out", "out", "Học_sinh .\nhoà_bình\n\n\nhọc\xC2\x85\nhọc_sinh\n");
    assert_contains(output, "model: 1 rule, 2 words");
    assert_contains(output, "warning: model: not the published segmenter, which has 1446 rules and 34203 words");
    assert_contains(output, "6 lines to 6 lines with 5 words");
}

TEST(modes_differ) {
    write_text(in("modes"), "Học sinh? Có.\n\nHọc sinh.\n");
    assert_segments("-m model modes -o out --mode line", "out", "Học_sinh ? Có .\n\nHọc_sinh .\n");
    assert_segments("-m model modes -o out --mode sentences", "out", "Học_sinh ?\nCó .\nHọc_sinh .\n");
    assert_contains(output, "3 lines to 3 lines with 6 words");
    assert_segments("-m model modes -o out --mode tokenized", "out", "Học sinh? Có.\n\nHọc sinh.\n");
    assert_segments("-m model modes -o out --mode tokens", "out", "Học sinh ? Có .\n\nHọc sinh .\n");
}

TEST(standard_streams_are_the_default) {
    write_text(in("standard_input"), "Hòa bình\n");
    assert_int_equal(segment("-m model"), 0);
    assert_contains(output, "Hoà_bình\n");
    assert_int_equal(unlink(in("standard_input")), 0);
}

TEST(an_empty_file_has_no_lines) {
    write_text(in("empty"), "%s", "");
    assert_segments("-m model empty -o out", "out", "");
    assert_contains(output, "0 lines to 0 lines");
}

/* Blocks of lines, and a line that is longer than a block. */
TEST(the_output_is_the_same_with_any_number_of_threads) {
    enum { LINES = 40000, LONG = 500000 };
    FILE *file = fopen(in("long"), "w");
    assert_non_null(file);
    for (int i = 0; i < LINES; i++) fprintf(file, "%d, học sinh%s", i, i % 3 ? "\r\n" : " hòa bình.\n");
    for (int i = 0; i < LONG; i++) fputs("học sinh ", file);
    fclose(file);
    assert_int_equal(segment("-m model long -o one --threads 1"), 0);
    assert_int_equal(segment("-m model long -o four --threads 4"), 0);
    char *one = kept_text(in("one")), *four = kept_text(in("four"));
    assert_true(!strcmp(one, four));
    const char *at = one;
    for (int i = 0; i < LINES; i++) {
        char want[64];
        const int n = snprintf(want, sizeof want, "%d , học_sinh%s\n", i, i % 3 ? "" : " hoà_bình .");
        if (strncmp(at, want, (size_t)n) != 0) fail_msg("line %d: %.40s", i, at);
        at += n;
    }
    assert_int_equal(strlen(at), LONG * strlen("học_sinh "));
}

TEST(what_is_wrong_is_named) {
    write_text(in("bad"), "học sinh\r\nhoà \xE1\xBB z\n");
    assert_fails("-m model bad -o none", "bad:2: byte 0xe1 at offset 5 of the line is not UTF-8");
    assert_true(access(in("none"), F_OK));
    assert_fails("-m model missing", "--input missing: No such file");
    assert_fails("-m missing bad", "--model missing/Model.RDR: cannot open");
    assert_fails("-m model bad -o .", "--output: ");
    assert_fails("-m model bad --mode words", "--mode");
    assert_fails("bad", "--model");
}

int main(void) { return tests_run(make_model, NULL); }
