/* Runs train_bert on texts as people have them: what is said of them, what of a folder is trained on, validated on and
 * tested on, what is left out and counted, and a clear message for what cannot be used. */
#include "tests/bert/train_rig.h"

#include "base/file.h"

/* ---- what is said of the texts ---- */

/* Makes the tokenizer with two words of two syllables besides. */
static char *joined_tokenizer(void) {
    char *folder = bert_make_tokenizer();
    static const char *const files[][2] = {{"vocab.txt", "ba_ba 2\nba_de 1\n"},
                                           {"bpe.codes", "ba _ 3\nba_ ba</w> 2\nba_ de</w> 1\n"}};
    for (int i = 0; i < 2; i++) {
        char *path = kept_path(folder, files[i][0]), *text = kept_text(path);
        write_text(path, "%s%s", text, files[i][1]);
    }
    return folder;
}

TEST(unsegmented_texts_are_told_once) {
    char *run = kept_folder(), *joined = kept_folder(), *data = kept_folder(), *path = kept_path(data, "train.csv");
    fixture_must_train(run, "--max-steps 1");
    assert_null(strstr(fixture.output, "whose words are joined")); /* nor are the pieces */
    char *tokenizer = joined_tokenizer(),
         *options = kept_format("--max-steps 1 --tokenizer %s --max-unknown 1 ", tokenizer);
    fixture_must_train(joined, options);
    assert_contains(fixture.output, "2 of its 31 pieces are such words, and 0.0 % of the words here");
    const char *told = strstr(fixture.output, "whose words are joined");
    assert_null(strstr(told + 1, "whose words are joined"));
    write_text(path, "text,label\nba_de fi,0\nba,1\nfi_fi ne,0\nne,1\nso,0\ntu ba,1\nri,0\nmax,1\nfi,0\nlu,1\n"
                     "ma de,0\nne so,1\nde,0\nfi ba,1\nri ri,0\nde de,1\nmu,0\nba ba,1\nzu,0\nxo,1\n");
    char *again = kept_folder();
    assert_int_equal(fixture_train_on(data, again, options), 0);
    assert_null(strstr(fixture.output, "whose words are joined"));
    *strstr(options, "--max-unknown 1 ") = 0; /* letters that the tokenizer does not have */
    assert_int_equal(fixture_train_on(data, again, options), 1);
    assert_contains(fixture.output, " texts: the tokenizer does not know ");
    assert_contains(fixture.output,
                    ", because of the characters _ 1, x 1: it was made of other texts; give one that knows "
                    "these, or raise --max-unknown 0.05\n");
}

/* ---- what is refused ---- */

TEST(bad_data_are_named) {
    static const struct {
        const char *train, *valid, *message;
    } bad[] = {
        {"text,label\nba,a\nde,b\n", NULL, "train.csv: class \"a\" has 1 different text for 3 parts; none is left for"},
        {"text,label\nba,0\nde,1\n", "text,label\nba,0\nde,2\n",
         "valid.csv:3: the label \"2\" is none of the 2 classes: 0, 1"},
        {"text,label\nba,0\nde,1\n", "text,label\nba,0\n",
         "valid.csv: none of its 1 texts has the label \"1\"; every split needs every class"},
        {"text,label\nba,0\n\"de,1\n", "text,label\nba,0\nde,1\n", "train.csv:3:1: the quote is not closed"},
        {"text,label\nba,0\n ,1\n", "text,label\nba,0\nde,1\n", "train.csv: all labels are \"0\""},
        {"text,label\nba,0\nde,1\nfi\n", "text,label\nba,0\nde,1\n",
         "train.csv:4: has 1 fields; the line of column names has 2; a field with separators in it needs quotes; "
         "--skip-bad leaves records out"},
        {"text,label\nba,0\nde,1\nfi,0.0\n", "text,label\nba,0\nde,1\n",
         "train.csv: the labels \"0\" and \"0.0\" are the same number; write them alike, or join them with "
         "--merge-labels"},
        {"text,class\nba,0\n", "text,label\nba,0\nde,1\n", "train.csv:1: there is no column \"label\""},
    };
    char *data = kept_folder(), *run = kept_folder(), *train = kept_path(data, "train.csv"),
         *valid = kept_path(data, "valid.csv");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(train, "%s", bad[i].train);
        if (bad[i].valid) write_text(valid, "%s", bad[i].valid);
        if (fixture_train_on(data, run, "--max-steps 1") != 1) fail_msg("%zu: %s", i, fixture.output);
        assert_contains(fixture.output, bad[i].message);
    }
    assert_int_equal(unlink(train), 0);
    assert_int_equal(fixture_train_on(data, run, "--max-steps 1"), 1);
    assert_contains(fixture.output, ": there is no file train in it (.csv, .tsv, .jsonl, .ndjson or .json, also with "
                                    ".gz)\n"); /* not .txt, which has no labels */
}

/* ---- folders as people have them ---- */

TEST(a_folder_s_dev_file_is_the_validation_file) {
    static const char *const names[] = {"dev", "val", "valid", "validation", "Dev"};
    char *data = kept_folder(), *run = kept_path(data, "run");
    bert_write_comments(data, "train.csv", 0, BERT_TEST_TRAIN);
    bert_write_comments(data, "test.csv", 0, BERT_TEST_TEST);
    bert_write_comments(data, "more.csv", 0, BERT_TEST_TEST);
    for (int i = 0; i < 5; i++) {
        char *name = kept_format("%s.csv", names[i]), *path = kept_path(data, name);
        bert_write_comments(data, name, BERT_TEST_TRAIN, BERT_TEST_VALID);
        fixture_must_train_on(data, run, "--dry-run --device cpu");
        assert_contains(fixture.output, "[Data] validation: 24 texts");
        assert_contains(fixture.output, "[Data] files of texts that are not used: ");
        assert_contains(fixture.output, "/more.csv\n");
        assert_int_equal(unlink(path), 0);
    }
    must_run("printf '[{\"text\": \"xo\", \"label\": 1},\\n{\"text\": \"ba\", \"label\": 0}]' | gzip >%s/dev.json.gz",
             data);
    fixture_must_train_on(data, run, "--dry-run --device cpu");
    assert_contains(fixture.output, "[Data] validation: 2 texts");
    bert_write_comments(data, "val.csv", 0, BERT_TEST_VALID);
    assert_int_equal(fixture_train_on(data, run, "--dry-run --device cpu"), 1);
    assert_contains(fixture.output, "/dev.json.gz and ");
    assert_contains(fixture.output, "/val.csv: two files for one split; remove one of them");
}

/* Then no text of the training is kept for a test either. */
TEST(a_test_file_without_labels_is_said_and_left_out) {
    static const char *const files[] = {"id,text\n1,ba\n2,xo\n", "text,label\nba,\nxo, \n"};
    char *data = kept_folder(), *path = kept_path(data, "test.csv");
    bert_write_comments(data, "train.csv", 0, BERT_TEST_TRAIN);
    for (int i = 0; i < 2; i++) {
        char *run = kept_path(data, i ? "second" : "first"), *report = kept_path(run, "report_test.json");
        write_text(path, "%s", files[i]);
        fixture_must_train_on(data, run, "--max-steps 1");
        assert_contains(fixture.output, "/test.csv has no labels in a column \"label\" (--label-column names another): "
                                        "nothing is tested after the training; predict gives its texts classes");
        assert_contains(fixture.output, "[Data] train: 85 texts"); /* 8 of 9 parts, of each class */
        assert_contains(fixture.output, "[Data] validation: 11 texts");
        assert_null(strstr(fixture.output, "[Data] test: "));
        assert_int_equal(access(report, F_OK), -1);
        assert_int_equal(fixture_train_on(data, run, "--test /nowhere.csv"), 1);
        assert_contains(fixture.output, "--test /nowhere.csv: No such file or directory");
        char *given = kept_format("--max-steps 1 --test %s", path); /* who names it wants a test */
        assert_int_equal(fixture_train_on(data, run, given), 1);
        assert_contains(fixture.output, i ? "test.csv:2: label is empty" : "test.csv:1: there is no column \"label\"");
    }
}

/* Empty texts, bad records and labels that look the same: said, counted, and in data_report.json. */
TEST(what_is_left_out_is_reported) {
    char *data = kept_folder(), *run = kept_path(data, "run"), *valid = kept_path(data, "dev.csv"),
         *train = kept_path(data, "train.jsonl"), *report = kept_path(run, "data_report.json");
    write_text(train, "{\"text\": \"ba\", \"label\": false}\n{\"text\": \"xo\", \"label\": \"true\"}\n"
                      "{\"text\": \" \", \"label\": true}\n{\"text\": \"zu \\ud83d\", \"label\": true}\n"
                      "{\"text\": \"de\", \"label\": \"False\"}\n{\"text\": \"zu\", \"label\": \"true\\u00a0\"}\n");
    write_text(valid, "text;label\nba;False\nxo;TRUE\n");
    assert_int_equal(fixture_train_on(data, run, "--max-steps 1 --skip-bad"), 1);
    assert_contains(fixture.output, "train.jsonl: the labels \"False\" and \"false\" differ in case only");
    fixture_must_train_on(data, run, "--max-steps 1 --skip-bad --merge-labels");
    assert_contains(fixture.output, "train.jsonl: empty texts left out: 1 (line 3); --empty error refuses them");
    assert_contains(fixture.output, "train.jsonl: records that cannot be used left out: 1, the first: line 4:10: ");
    assert_contains(fixture.output, "names of classes with characters that are not composed (NFC), no-break spaces, or "
                                    "blanks at their ends, which are read without: 1\n");
    assert_contains(fixture.output,
                    "train.jsonl: labels that differ from their class in case only, or are the same number: 1\n");
    assert_contains(fixture.output, "labels  False: 2 (50.0 %)  true: 2 (50.0 %)");
    assert_contains(fixture.output, "labels  False: 1 (50.0 %)  true: 1 (50.0 %)");
    json_t *root = json_load_file(report, 0, NULL), *file = json_array_get(json_object_get(root, "files"), 0);
    assert_int_equal(json_integer_value(json_object_get(file, "texts")), 4);
    assert_int_equal(json_integer_value(json_object_get(file, "bad")), 1);
    assert_int_equal(json_integer_value(json_object_get(file, "labels_changed")), 1);
    assert_int_equal(json_integer_value(json_object_get(file, "labels_merged")), 1);
    assert_int_equal(json_array_size(json_object_get(file, "empty_lines")), 1);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(file, "empty_lines"), 0)), 3);
    json_decref(root);
    assert_int_equal(fixture_train_on(data, run, "--max-steps 1 --skip-bad --merge-labels --empty error"), 1);
    assert_contains(fixture.output, "train.jsonl:3: text is empty");
}

TEST(weights_that_are_not_there_are_said_first) {
    char *empty = kept_folder(), *run = kept_path(empty, "run"), *options = kept_format("--base-checkpoint %s", empty);
    assert_int_equal(fixture_train_on("/nowhere", run, "--base-checkpoint phobert-large/"), 1);
    assert_contains(fixture.output, "--data /nowhere: No such file or directory");
    assert_int_equal(fixture_train_on(fixture.data, run, "--base-checkpoint phobert-large/"), 1);
    assert_contains(
        fixture.output,
        "--base-checkpoint phobert-large/: No such file or directory; expected a folder with config.json, "
        "pytorch_model.bin or model.safetensors, vocab.txt and bpe.codes, as it is published at "
        "https://huggingface.co/vinai/phobert-large (download these files into phobert-large), or a checkpoint of "
        "train_bert\n");
    assert_int_equal(fixture_train_on(fixture.data, run, options), 1);
    assert_contains(fixture.output, "; expected a folder with config.json, ");
    assert_int_equal(access(run, F_OK), -1);
}

int main(void) { return tests_run(bert_fixture_open, NULL); }
