/* train_slm prepare: from texts to a folder of shards. Runs in child processes, because errors end the program. */
#include "commands/slm/commands.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "data/formats/tensor_file_open.h"
#include "data/slm/stream.h"
#include "data/text/sentencepiece.h"
#include "data/text/tokenizer.h"
#include "tests/documented.h"
#include "tests/test.h"

static Error error;

enum { DOCUMENTS = 300 };
static const char *folder;
static char output[1 << 14];

static const char *in(const char *name) { return kept_path(folder, name); }

/* ---- running ---- */

static void run(void *words) {
    char *argv[64] = {"train_slm prepare"};
    int argc = 1;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    if (chdir(folder)) _exit(99);
    fflush(NULL);
    int status = slm_prepare(argc, argv);
    fflush(NULL);
    _exit(status);
}

static int prepare(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *words = keep(vxformat(format, arguments));
    va_end(arguments);
    return run_function(output, sizeof output, run, words);
}

static void assert_prepares(const char *words) {
    if (prepare("%s", words)) fail_msg("%s:\n%s", words, output);
}

static void assert_fails(const char *words, const char *reason) {
    if (!prepare("%s", words)) fail_msg("%s succeeded:\n%s", words, output);
    assert_contains(output, reason);
}

static bool same_trees(const char *a, const char *b) {
    char text[4096];
    return !run_command(text, sizeof text, "cd '%s' && diff -r -x '*.lock' %s %s", folder, a, b);
}

/* ---- texts ---- */

static char *texts[DOCUMENTS];

/* Writes texts of made-up words: half of them a file each, half of them records. */
static int make_texts(void **state) {
    (void)state;
    static const char *const syllables[] = {"ta", "ri", "mo", "sel", "ka", "nu", "\u00e9l", "dor"};
    uint64_t x = 7;
    folder = run_directory();
    make_directories(in("texts"));
    FILE *records = fopen(in("texts/records.jsonl"), "w");
    for (int d = 0; d < DOCUMENTS; d++) {
        char text[4096], *at = text;
        for (int w = 0; w < 5 + d % 60; w++) {
            for (int s = 0; s < 1 + (int)(x >> 60) % 3; s++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                at = stpcpy(at, syllables[x >> 33 & 7]);
            }
            at = stpcpy(at, w % 9 == 8 ? ".\n" : " ");
        }
        at += sprintf(at, "%d", d);
        texts[d] = keep(xstrdup(text));
        if (d % 2) {
            write_text(in(kept_format("texts/%03d.txt", d)), "%s", text);
        } else {
            json_t *record = json_build("a record", "{s:s}", "text", text);
            fprintf(records, "%s\n", keep(json_text("a record", record, JSON_COMPACT)));
            json_decref(record);
        }
    }
    return fclose(records);
}

/* ---- what is written ---- */

/* Fails unless a split is made of texts that prepare was given, each once, in their order, as the tokenizer encodes
 * them. Adds their number. */
static void check_split(const char *prepared, const char *split, const Tokenizer *tokenizer, int *n) {
    SlmStream *s = slm_stream_open(in(prepared), split, NULL, &error);
    if (!s) fail_msg("%s", error.text);
    TokenIds want = {0};
    int32_t *ids = xmalloc((size_t)s->n_tokens * sizeof *ids);
    slm_stream_read(s, 0, s->n_tokens, ids);
    assert_int_equal(s->vocabulary, tokenizer_vocabulary(tokenizer));
    assert_true(s->tokenizer_hash == tokenizer_hash(tokenizer));
    assert_int_equal(ids[s->n_tokens - 1], s->end_of_text);
    int k = 0;
    for (int64_t d = 0; d < s->n_documents; d++) { /* names come before "records.jsonl" */
        const int32_t *got = ids + s->first[d];
        int64_t length = s->first[d + 1] - s->first[d];
        for (;; k++) {
            assert_true(k < DOCUMENTS);
            const char *text = texts[k < DOCUMENTS / 2 ? 2 * k + 1 : 2 * (k - DOCUMENTS / 2)];
            want.n = 0;
            tokenizer_encode(tokenizer, text, strlen(text), false, &want);
            if ((int64_t)strlen(text) == s->bytes[d] && want.n == length - 1 &&
                !memcmp(want.ids, got + 1, (size_t)want.n * sizeof *got))
                break;
        }
        assert_int_equal(got[0], s->end_of_text);
        k++;
        ++*n;
    }
    token_ids_free(&want);
    free(ids);
    slm_stream_close(s);
}

static void check_folder(const char *prepared) {
    int train = 0, val = 0;
    Tokenizer *tokenizer = tokenizer_open(in(prepared), &error);
    if (!tokenizer) fail_msg("%s", error.text);
    check_split(prepared, "train", tokenizer, &train);
    check_split(prepared, "val", tokenizer, &val);
    assert_int_equal(train + val, DOCUMENTS);
    assert_true(val > 10 && val < 60);
    tokenizer_close(tokenizer);
}

#define TRAINED "-i texts --vocabulary 320 --val-ratio 0.1 --shard-tokens 1500 "

TEST(each_document_is_in_one_split_as_the_tokenizer_encodes_it) {
    assert_prepares(TRAINED "-o trained");
    assert_contains(output, "[Corpus] 151 files, ");
    assert_contains(output, "[Corpus] 300 documents; dropped: 0 too short, 0 duplicates, 0 near-identical");
    assert_contains(output, "trained/tokenizer.json: 320 tokens, trained on the training split");
    assert_contains(output, "0.0000 % unknown");
    assert_contains(output, " --data trained --size tiny --warmup-steps ");
    check_folder("trained");
    char *all = xcalloc(1, DOCUMENTS * 4096), *at = all;
    for (int d = 0; d < DOCUMENTS; d++) at += sprintf(at, "%s\n", texts[d]);
    if (!sentencepiece_train_bpe(all, (size_t)(at - all), in("pieces.model"), 200, &error)) fail_msg("%s", error.text);
    free(all);
    assert_prepares("-i texts --tokenizer pieces.model --val-ratio 0.1 -o pieces");
    assert_contains(output, "pieces/tokenizer.model: 200 tokens, a copy of the one given");
    check_folder("pieces");
}

TEST(any_number_of_threads_writes_the_same_bytes) {
    assert_prepares(TRAINED "-o one --threads 1 --duplicates near");
    assert_prepares(TRAINED "-o two --threads 2 --duplicates near");
    assert_prepares(TRAINED "-o eight --threads 8 --duplicates near");
    assert_true(same_trees("one", "two"));
    assert_true(same_trees("one", "eight"));
}

static ino_t inode(const char *name) {
    struct stat status;
    assert_int_equal(stat(in(name), &status), 0);
    return status.st_ino;
}

TEST(a_prepared_folder_is_prepared_again_only_if_asked) {
    assert_prepares(TRAINED "-o again");
    ino_t before = inode("again/train_00000.safetensors");
    assert_prepares(TRAINED "-o again --threads 1");
    assert_contains(output, "again was prepared before from the same texts, tokenizer and options: nothing to do");
    assert_true(inode("again/train_00000.safetensors") == before);
    assert_fails(TRAINED "-o again --duplicates near",
                 "again has been prepared before, and --duplicates has changed since");
    assert_fails("-i texts --tokenizer again/tokenizer.json --val-ratio 0.1 --shard-tokens 1500 -o again",
                 "--tokenizer has changed since: choose another --output, or prepare it again with --overwrite");
    write_text(in("texts/new.txt"), "one more");
    assert_fails(TRAINED "-o again", "the corpus has changed since");
    assert_prepares(TRAINED "-o again --overwrite");
    assert_contains(output, "[Corpus] 301 documents");
    assert_int_equal(unlink(in("texts/new.txt")), 0);
    write_text(in("again/tokenizer.json"), "{}");
    assert_fails(TRAINED "-o again", "again has been prepared before, and the corpus");
    assert_prepares(TRAINED "-o again --overwrite");
    assert_prepares(TRAINED "-o other");
    assert_true(same_trees("again", "other"));
    write_text(in("again/tokenizer.json"), "{}");
    assert_fails(TRAINED "-o again", "and its tokenizer has changed since");
    write_text(in("again/prepared.json"), "{\"format\": ");
    assert_fails(TRAINED "-o again", "again/prepared.json: ");
    assert_prepares(TRAINED "-o again --overwrite");
    /* its own tokenizer, given: it stays */
    assert_prepares(
        "-i texts --tokenizer again/tokenizer.json --val-ratio 0.1 --shard-tokens 1500 -o again --overwrite");
    check_folder("again");
}

TEST(a_ratio_of_many_digits_is_the_same_again) {
    for (int again = 0; again < 2; again++)
        assert_prepares("-i texts --vocabulary 300 --val-ratio 0.12345678901234567 -o digits");
    assert_contains(output, "nothing to do");
}

TEST(a_killed_run_begins_again) {
    assert_prepares(TRAINED "-o whole");
    char text[256];
    assert_prepares(TRAINED "-o killed");
    json_t *record = json_load_file(in("killed/prepared.json"), 0, NULL);
    char *inputs = keep(json_text("inputs", json_object_get(record, "inputs"), JSON_COMPACT | JSON_SORT_KEYS));
    json_decref(record);
    /* as after a kill while the second shard was written */
    write_text(in("inputs"), "%s", inputs);
    run_command(text, sizeof text, "sha1sum <'%s'", in("inputs"));
    write_text(in("killed/.unfinished"), "inputs %.16s", text);
    assert_int_equal(unlink(in("killed/prepared.json")), 0);
    assert_int_equal(unlink(in("killed/train_00002.safetensors")), 0);
    write_text(in("killed/train_00001.safetensors"), "x");
    write_text(in("killed/train_00009.safetensors"), "of an earlier run");
    write_text(in("killed/train_00002.safetensors.0123456789abcdef.partial"), "y");
    assert_fails("-i texts --vocabulary 300 -o killed", "killed is unfinished, and was begun with inputs ");
    assert_prepares(TRAINED "-o killed");
    assert_true(same_trees("whole", "killed"));
}

TEST(other_peoples_tokenizers_stay) {
    make_directories(in("theirs"));
    write_text(in("theirs/tokenizer.json"), "{}");
    assert_fails(TRAINED "-o theirs", "theirs holds a tokenizer, but no prepared.json");
    assert_string_equal(kept_text(in("theirs/tokenizer.json")), "{}");
}

TEST(val_files_are_the_held_out_split) {
    write_text(in("mine.txt"), "held out one\n\nheld out two\n\n%s\n", texts[1]);
    assert_prepares("-i texts --val-file mine.txt --split-at blank-lines --vocabulary 320 -o mine");
    SlmStream *s = slm_stream_open(in("mine"), "val", NULL, &error);
    if (!s) fail_msg("%s", error.text);
    assert_int_equal(s->n_documents, 3);
    assert_int_equal(s->bytes[0], 12);
    slm_stream_close(s);
    assert_contains(output, "dropped: 0 too short, 1 duplicate, 0 near-identical"); /* not trained on */
    assert_contains(output, "tokens are held out: the validation loss will be noisy");
}

TEST(special_tokens_are_text_unless_they_are_parsed) {
    write_text(in("special.txt"), "%s<|user|>%s", texts[2], texts[4]);
    const char *options = "-i special.txt --val-ratio 0 --vocabulary 260 --specials <|user|> -o ";
    int64_t tokens[2];
    for (int parsed = 0; parsed < 2; parsed++) {
        assert_prepares(kept_format("%s%s", options, parsed ? "parsed --parse-specials" : "plain"));
        SlmStream *s = slm_stream_open(in(parsed ? "parsed" : "plain"), "train", NULL, &error);
        if (!s) fail_msg("%s", error.text);
        int32_t *ids = xmalloc((size_t)s->n_tokens * sizeof *ids);
        slm_stream_read(s, 0, s->n_tokens, ids);
        int found = 0;
        for (int64_t i = 0; i < s->n_tokens; i++) found += ids[i] == 1;
        assert_int_equal(found, parsed);
        tokens[parsed] = s->n_tokens;
        slm_stream_close(s);
        free(ids);
    }
    assert_true(tokens[1] < tokens[0]);
}

TEST(a_small_corpus_gets_the_vocabulary_that_it_allows) {
    write_text(in("few.txt"), "a b c a b c");
    assert_prepares("-i few.txt --val-ratio 0 -o few"); /* " b" and " c" occur twice */
    assert_contains(output, "few/tokenizer.json: 259 tokens, trained on the training split\n"
                            "[Tokenizer] fewer tokens than --vocabulary 30016: no other pair of pieces occurs 2 times");
    assert_prepares("-i few.txt --val-ratio 0 --vocabulary 258 -o less");
    assert_contains(output, "less/tokenizer.json: 258 tokens");
    assert_null(strstr(output, "fewer tokens"));
}

TEST(bad_inputs_are_refused_with_one_line) {
    make_directories(in("nothing"));
    write_text(in("empty.txt"), " \n");
    write_text(in("latin.txt"), "a\ncaf\xe9\n");
    write_text(in("fields.jsonl"), "{\"body\": \"a\"}\n");
    write_text(in("short.txt"), "a b c a b c");
    assert_fails("-i nothing -o x", "nothing: holds no text files");
    assert_fails("-i absent.txt -o x", "absent.txt: ");
    assert_fails("-i empty.txt -o x", "the corpus has no text to train on: of 1 document in 1 file, 1 is shorter");
    assert_fails("-i latin.txt -o x", "latin.txt: line 2, byte 5 of the file: 0xe9 begins no UTF-8 character");
    assert_fails("-i fields.jsonl -o x",
                 "line 1: the record has no text 'text'; its texts are: 'body' (--text-field NAME)");
    assert_fails("-i short.txt -o x", "no text is left to validate on: the corpus is a single document");
    assert_fails("-i short.txt --val-file empty.txt -o x", "the documents of --val-file are too short");
    assert_fails("-i short.txt -i short.txt -o x", "short.txt is given twice");
    assert_fails("-i short.txt --val-ratio 0 --tokenizer empty.txt -o x", "empty.txt: ");
    assert_fails("-i texts --tokenizer trained --end-of-text <|end|> -o x", "the tokenizer has no token <|end|>");
    assert_int_equal(prepare("-i texts --val-file short.txt --val-ratio 0.1 -o x"), 2);
    assert_contains(output, "--val-ratio and --val-file exclude each other");
    assert_int_equal(prepare("-i texts --tokenizer trained --vocabulary 300 -o x"), 2);
    assert_contains(output, "--vocabulary is for a tokenizer to train");
    assert_int_equal(access(in("x"), F_OK), -1); /* nothing is left behind */
}

/* The good records are prepared as if the bad one were not there. */
TEST(bad_records_are_left_out_and_counted) {
    static const char good[] = "{\"text\": \"one and two\"}\n%s{\"text\": \"two and three\", \"score\": NaN}\n";
    write_text(in("good.jsonl"), good, "");
    write_text(in("bad.jsonl"), good, "{\"text\": \"\\ud83d\"}\n");
    assert_fails("-i bad.jsonl --vocabulary 257 -o bad", "bad.jsonl: line 2, column 10: \"text\": ");
    assert_contains(output, "; --skip-bad leaves such records out, and counts them");
    assert_int_equal(prepare("-i bad.jsonl --vocabulary 257 --skip-bad -o bad"), 0);
    assert_contains(output,
                    "[Corpus] records that cannot be used left out: 1, the first: bad.jsonl: line 2, column 10: ");
    assert_int_equal(prepare("-i good.jsonl --vocabulary 257 -o good"), 0);
    assert_null(strstr(output, "cannot be used"));
    char *shards = kept_format("cmp '%s/train_00000.safetensors' '%s/train_00000.safetensors'", in("bad"), in("good"));
    assert_int_equal(run_command(output, sizeof output, "%s", shards), 0);
}

TEST(the_files_are_as_documented) {
    TensorFile shard;
    if (!tensor_file_open(in("trained/train_00000.safetensors"), &shard, &error)) fail_msg("%s", error.text);
    assert_store_documented(&shard, "### A shard");
    tensor_file_close(&shard);
    json_t *record = json_load_file(in("trained/prepared.json"), 0, NULL);
    static const char *const objects[] = {"inputs", "corpus", "tokenizer", "splits"};
    assert_keys_documented(record, "### prepared.json");
    for (int i = 0; i < 4; i++) assert_keys_documented(json_object_get(record, objects[i]), "### prepared.json");
    assert_keys_documented(json_object_get(json_object_get(record, "splits"), "val"), "### prepared.json");
    json_decref(record);
}

int main(void) { return tests_run(make_texts, NULL); }
