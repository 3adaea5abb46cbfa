/* train_bert tokenizer: from files of texts to codes that a tokenizer opens. Runs in child processes, because errors
 * end the program. */
#include "commands/bert/commands.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "data/text/tokenizer.h"
#include "tests/bert/texts_rig.h"

static const char *folder;
static char output[1 << 14];

static void run(void *words) {
    char *argv[64] = {"train_bert tokenizer"};
    int argc = 1;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    if (chdir(folder)) _exit(99);
    const int status = bert_tokenizer(argc, argv);
    fflush(NULL);
    _exit(status);
}

static int learn(const char *arguments) {
    const int status = run_function(output, sizeof output, run, keep(xstrdup(arguments)));
    return status;
}

static void assert_learns(const char *arguments) {
    if (learn(arguments)) fail_msg("%s:\n%s", arguments, output);
}

static void assert_fails(const char *arguments, const char *reason) {
    if (!learn(arguments)) fail_msg("%s succeeded:\n%s", arguments, output);
    assert_contains(output, reason);
}

static char *in(const char *name) { return kept_path(folder, name); }

static bool same_files(const char *a, const char *b) {
    char text[4096];
    return !run_command(text, sizeof text, "cd '%s' && diff -r %s %s", folder, a, b);
}

static int make_folder(void **state) {
    (void)state;
    folder = run_directory();
    write_text(in("texts.txt"), "xin chào bạn\nchào bạn của tôi\n  xin\tchào  \n");
    write_text(in("rows.csv"), "label,body\n1,\"xin chào\nbạn\"\n0,chào bạn của tôi\n0,xin chào\n");
    write_text(in("apart.txt"), "xin cha\u0300o ba\u0323n\ncha\u0300o ba\u0323n cu\u0309a tôi\nxin cha\u0300o\n");
    return 0;
}

TEST(what_is_learned_opens_as_a_tokenizer) {
    assert_learns("--learn 7 --data texts.txt --output a");
    assert_contains(output, "[Data] 3 texts from 1 file\n");
    assert_contains(output, "[Words] 9, 5 different; ");
    assert_contains(output, "[Tokenizer] a: 7 merges, ");
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(in("a"), &error);
    if (!tokenizer) fail_msg("%s", error.text);
    TokenIds ids = {0};
    tokenizer_encode(tokenizer, "chào xin bạn tôi", strlen("chào xin bạn tôi"), false, &ids);
    assert_string_equal(tokenizer_piece(tokenizer, ids.ids[0]), "chào");
    assert_string_equal(tokenizer_piece(tokenizer, ids.ids[1]), "xin");
    assert_int_equal(ids.unknown, 0);
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

TEST(threads_and_the_kind_of_file_do_not_count) {
    assert_learns("--learn 7 -d texts.txt -o one --threads 1");
    assert_learns("--learn 7 -d texts.txt -o three --threads 3");
    assert_learns("--learn 7 rows.csv --text-column body -o table");
    assert_true(same_files("one", "three"));
    assert_true(same_files("one", "table"));
    assert_learns("--learn 7 texts.txt rows.csv --text-column body -o both --min-frequency 3");
    assert_contains(output, "[Data] 6 texts from 2 files\n");
    assert_contains(output, "pretrain --data texts.txt --data rows.csv --text-column body --tokenizer both -o");
    assert_false(same_files("one", "both"));
}

TEST(letters_are_composed_unless_they_are_to_stay) {
    assert_learns("--learn 7 texts.txt -o composed");
    assert_learns("--learn 7 apart.txt -o again");
    assert_learns("--learn 7 apart.txt -o apart --normalize none");
    assert_true(same_files("composed", "again"));
    assert_contains(output, "pretrain --data apart.txt --tokenizer apart --normalize none -o");
    assert_false(same_files("composed", "apart"));
}

TEST(words_are_segmented_before) {
    char *segmenter = segmenter_folder("xin chào"),
         *arguments = kept_format("--learn 7 texts.txt -o segmented --segment %s", segmenter);
    assert_learns(arguments);
    assert_contains(output, "[Data] 3 texts from 1 file, segmented\n");
    char *codes = kept_text(in("segmented/bpe.codes"));
    assert_contains(codes, "_");
    assert_fails("--learn 7 texts.txt -o none --segment nowhere", "--segment nowhere/Model.RDR: ");
}

TEST(errors_name_what_is_wrong) {
    assert_fails("--data texts.txt -o x", "--learn");
    assert_fails("--learn 0 --data texts.txt -o x", "--learn");
    assert_fails("--learn 7 -o x", "--data");
    assert_fails("--learn 7 --data nowhere.txt -o x", "nowhere.txt");
    assert_fails("--learn 7 --data rows.csv -o x", "rows.csv");
    assert_fails("--learn 400 --data texts.txt --min-frequency 1000 -o x", "no pair of symbols occurs 1000 times");
    assert_int_equal(access(in("x/bpe.codes"), F_OK), -1);
    assert_learns("--learn 4 --data texts.txt -o kept");
    assert_fails("--learn 7 --data texts.txt -o kept", "kept/vocab.txt is there already");
    assert_learns("--learn 7 --data texts.txt -o kept --overwrite");
    assert_contains(output, "7 merges");
    assert_learns("--learn 400 --data texts.txt -o most");
    assert_contains(output, "fewer merges than --learn 400: no other pair of symbols occurs 2 times in the texts\n");
}

/* ---- kills ---- */

static int kill_before; /* so many names have been moved or removed; 0: never */

static void may_be_killed(void) {
    if (kill_before && !--kill_before) raise(SIGKILL);
}

int rename(const char *from, const char *to) {
    may_be_killed();
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlink(const char *path) {
    may_be_killed();
    return unlinkat(AT_FDCWD, path, 0);
}

/* Returns whether the folder has the files of this tokenizer and no others of one. */
static bool is_tokenizer(const char *path, const char *want) {
    char text[4096];
    return !run_command(
        text, sizeof text,
        "cd '%s'; for f in vocab.txt bpe.codes added_tokens.json; do cmp %s/$f %s/$f || test ! -e %s/$f "
        "-a ! -e %s/$f || exit 1; done",
        folder, path, want, path, want);
}

/* Kills the command at every change of a name, and repeats it. Returns the number of kills. */
static int kill_and_repeat(const char *arguments, const char *before, const char *want) {
    char text[256];
    for (int at = 1;; at++) {
        run_command(text, sizeof text, "cd '%s'; rm -rf made; %s%s", folder, before ? "cp -r " : "",
                    before ? "old made" : "");
        kill_before = at;
        int status = learn(arguments);
        kill_before = 0;
        if (!status) return at - 1;
        assert_int_equal(status, 128 + SIGKILL);
        assert_true(access(in("made/vocab.txt"), F_OK) || is_tokenizer("made", want) ||
                    (before && is_tokenizer("made", before)));
        if (!learn(arguments)) {
            assert_true(same_files("made", want));
        } else { /* all was done before the kill */
            assert_contains(output, "made/vocab.txt is there already");
            assert_true(is_tokenizer("made", want));
        }
    }
}

TEST(a_killed_command_leaves_no_half_tokenizer_and_can_be_repeated) {
    assert_learns("--learn 4 --data texts.txt -o want");
    assert_learns("--learn 7 --data texts.txt -o old");
    write_text(in("old/added_tokens.json"), "{}");
    assert_true(kill_and_repeat("--learn 4 --data texts.txt -o made", NULL, "want") > 3);
    assert_true(kill_and_repeat("--learn 4 --data texts.txt -o made --overwrite", "old", "want") > 5);
}

int main(void) { return tests_run(make_folder, NULL); }
