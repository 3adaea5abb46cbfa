/* train_bert predict: the probabilities are those of transformers, every way to read texts gives the same rows, and
 * several models give their mean. */
#include "tests/bert/use_rig.h"
#include "tests/edited_json.h"

static const char *const classes[] = {"p_clean", "p_rude", "p_hate, \"loud\""};
enum { CLASSES = 3, TEXTS = 8 };

/* Writes the golden texts as FOLDER/texts.jsonl. Returns them with the logits of transformers. */
static json_t *write_golden_texts(void) {
    json_t *golden = json_load_file(GOLDEN "bert_predictions.json", 0, NULL);
    FILE *file = fopen(bert_path("texts.jsonl"), "w");
    assert_int_equal(json_array_size(golden), TEXTS);
    for (size_t i = 0; i < TEXTS; i++) {
        const json_t *text = json_object_get(json_array_get(golden, i), "text");
        json_t *row = json_pack("{s:O, s:i}", "text", text, "number", 100 + (int)i);
        json_dumpf(row, file, JSON_COMPACT);
        fputc('\n', file);
        json_decref(row);
    }
    assert_int_equal(fclose(file), 0);
    return golden;
}

static const char *test_texts(void) { return kept_path(fixture.data, "test.csv"); }

TEST(probabilities_are_those_of_transformers) {
    json_t *golden = write_golden_texts();
    bert_must_use("predict --checkpoint " GOLDEN "bert_hf %s -o %s --id-column number --threads 2",
                  bert_path("texts.jsonl"), bert_path("p.jsonl"));
    assert_contains(fixture.output, "8 texts, 47 tokens, 10.64 % of them unknown"); /* as many as the golden ids */
    assert_contains(fixture.output, "warning: the texts: the tokenizer does not know ");
    assert_contains(fixture.output, ", because of the characters ");
    assert_contains(fixture.output, "cut at --max-len 12: 1, which lost 4 tokens; without a token: ");
    assert_contains(fixture.output, "predicted by 1 model: class clean: 1 text, class rude: 6 texts, "
                                    "class hate, \"loud\": 1 text");
    json_t *rows = bert_read_lines(bert_path("p.jsonl"));
    assert_int_equal(json_array_size(rows), TEXTS);
    for (size_t i = 0; i < TEXTS; i++) {
        const json_t *of = json_array_get(golden, i), *row = json_array_get(rows, i);
        double sum = 0, logits[CLASSES];
        for (size_t c = 0; c < CLASSES; c++) {
            logits[c] = json_real_value(json_array_get(json_object_get(of, "logits"), c));
            sum += exp(logits[c]);
        }
        for (size_t c = 0; c < CLASSES; c++) assert_near(bert_number(rows, i, classes[c]), exp(logits[c]) / sum, 2e-6);
        assert_string_equal(json_string_value(json_object_get(row, "text")),
                            json_string_value(json_object_get(of, "text")));
        assert_int_equal(bert_number(rows, i, "line"), i + 1);
        assert_int_equal(atoi(json_string_value(json_object_get(row, "id"))), 100 + i);
        assert_null(json_object_get(row, "threshold")); /* of two classes only */
        assert_null(json_object_get(row, "votes"));
        assert_null(json_object_get(row, "calibrated_clean"));
    }
    json_decref(rows);
    json_decref(golden);
}

/* Fails unless a model of several labels predicts these texts as transformers' logits say, each class by itself. */
static void assert_labels(const json_t *golden, const char *options, double threshold) {
    static const char *const names[] = {"clean", "rude", "hate, \"loud\""};
    bert_must_use("predict --checkpoint %s %s -o %s %s", bert_path("labels"), bert_path("texts.jsonl"),
                  bert_path("l.jsonl"), options);
    json_t *rows = bert_read_lines(bert_path("l.jsonl"));
    assert_int_equal(json_array_size(rows), TEXTS);
    for (size_t i = 0; i < TEXTS; i++) {
        char want[64] = "";
        for (size_t c = 0; c < CLASSES; c++) {
            const json_t *logits = json_object_get(json_array_get(golden, i), "logits");
            double p = 1 / (1 + exp(-json_real_value(json_array_get(logits, c))));
            assert_near(bert_number(rows, i, classes[c]), p, 2e-6);
            if (p > threshold) sprintf(want + strlen(want), "%s%s", *want ? "|" : "", names[c]);
        }
        assert_string_equal(json_string_value(json_object_get(json_array_get(rows, i), "predicted")), want);
        assert_near(bert_number(rows, i, "threshold"), threshold, 0);
    }
    json_decref(rows);
}

/* problem_type says that a text may have several classes, or none. */
TEST(classes_of_several_labels_are_predicted_each_by_itself) {
    json_t *golden = write_golden_texts();
    const char *labels = bert_path("labels"), *exported = bert_path("exported");
    must_run("cp -r " GOLDEN "bert_hf %s && sed -i 's/\"vocab_size\"/\"problem_type\": "
             "\"multi_label_classification\", &/' %s/config.json",
             labels, labels);
    assert_labels(golden, "", 0.5);
    assert_contains(fixture.output, "each class by itself (problem_type): predicted are all whose p is above 0.5");
    assert_labels(golden, "--threshold 0.9", 0.9);
    bert_must_use("export --checkpoint %s --output %s", labels, exported);
    must_run("rm -r %s && mv %s %s", labels, exported, labels);
    assert_labels(golden, "", 0.5); /* the export says it, too */
    assert_int_equal(bert_use("evaluate --checkpoint %s --data %s -o %s", labels, test_texts(), bert_path("e")), 1);
    assert_contains(fixture.output, "problem_type is multi_label_classification in its config.json");
    assert_int_equal(
        bert_use("predict --checkpoint %s --checkpoint " GOLDEN "bert_hf %s -o -", labels, bert_path("texts.jsonl")),
        1);
    assert_contains(fixture.output, "one decides each class by itself (problem_type): they cannot predict together");
    json_decref(golden);
}

/* Reads predictions, and fails unless they have these probabilities, to the last bit. Returns the number of rows. */
static size_t assert_predictions(const char *path, const json_t *want) {
    json_t *rows = bert_read_lines(path);
    size_t n = json_array_size(rows);
    assert_int_equal(n, json_array_size(want));
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < CLASSES; c++)
            assert_near(bert_number(rows, i, classes[c]), bert_number(want, i, classes[c]), 0);
    json_decref(rows);
    return n;
}

TEST(every_way_to_read_texts_gives_the_same) {
    static const char *const sources[] = {"predict --checkpoint %s %s -b 1 --threads 1 -o %s",
                                          "predict --checkpoint %s - -o %s <%s",
                                          "predict --checkpoint %s %s --num-workers 2 -b 3 --threads 2 -o %s"};
    json_decref(write_golden_texts());
    const char *texts = bert_path("texts.jsonl"), *first = bert_path("p0.jsonl"), *second = bert_path("p1.jsonl");
    bert_must_use("predict --checkpoint " GOLDEN "bert_hf %s -o %s", texts, first);
    json_t *want = bert_read_lines(first);
    bert_must_use(sources[0], GOLDEN "bert_hf/model.safetensors", texts, second);
    assert_predictions(second, want);
    bert_must_use(sources[1], GOLDEN "bert_hf", second, texts);
    assert_predictions(second, want);
    bert_must_use(sources[2], GOLDEN "bert_hf", texts, second);
    assert_predictions(second, want);
    must_run("grep -v '\"\"' %s | sed 's/.*\"text\":\"\\(.*\\)\",\"number.*/\\1/' >%s", texts, bert_path("lines.txt"));
    bert_must_use("predict --checkpoint " GOLDEN "bert_hf %s --text=false -o %s", bert_path("lines.txt"), second);
    json_t *rows = bert_read_lines(second);
    assert_int_equal(json_array_size(rows), TEXTS - 1);
    assert_null(json_object_get(json_array_get(rows, 0), "text"));
    assert_near(bert_number(rows, 3, "p_rude"), bert_number(want, 3, "p_rude"), 1e-6);
    json_decref(rows);
    json_decref(want);
}

/* CSV, also with line ends in texts, and all rows at standard output, which has nothing else. */
TEST(tables_have_a_row_per_text) {
    write_text(bert_path("in.csv"), "%s", "label,text\n0,xin\n1,\"a\nb \"\"c\"\"\"\n");
    bert_must_use("predict --checkpoint " GOLDEN "bert_hf %s -o - 2>/dev/null", bert_path("in.csv"));
    static const char head[] = "line,predicted,p_clean,p_rude,\"p_hate, \"\"loud\"\"\",text\n2,";
    assert_int_equal(strncmp(fixture.output, head, strlen(head)), 0);
    assert_contains(fixture.output, ",\"a\nb \"\"c\"\"\"\n");
    write_text(bert_path("in.tsv"), "%s", "text\nxin\n");
    bert_must_use("predict --checkpoint " GOLDEN "bert_hf %s %s -o - 2>/dev/null", bert_path("in.csv"),
                  bert_path("in.tsv"));
    assert_int_equal(strncmp(fixture.output, "file,line,predicted,", 20), 0);
    assert_contains(fixture.output, "in.tsv,2,");
}

/* ---- two classes ---- */

static double decision_of(const char *run, const char *key) {
    json_t *decision = json_load_file(keep(path_through(run, "best/decision.json")), 0, NULL);
    double number = json_real_value(json_object_get(decision, key));
    json_decref(decision);
    return number;
}

/* Predicts the test texts as FOLDER/name. */
static json_t *predict(const char *checkpoints, const char *name) {
    bert_must_use("predict %s %s -o %s", checkpoints, test_texts(), bert_path(name));
    return bert_read_lines(bert_path(name));
}

TEST(decisions_follow_from_the_threshold) {
    const char *run = bert_trained();
    double threshold = decision_of(run, "threshold"), temperature = decision_of(run, "temperature");
    json_t *rows = predict(kept_format("--checkpoint %s", run), "q.jsonl");
    assert_int_equal(json_array_size(rows), BERT_TEST_TEST);
    int right = 0;
    for (size_t i = 0; i < BERT_TEST_TEST; i++) {
        double p = bert_number(rows, i, "p_1"), q = bert_number(rows, i, "p_0");
        const char *predicted = json_string_value(json_object_get(json_array_get(rows, i), "predicted"));
        char text[96];
        assert_near(p + q, 1, 1e-12);
        assert_string_equal(predicted, p > threshold ? "1" : "0");
        assert_near(bert_number(rows, i, "threshold"), threshold, 0);
        assert_near(bert_number(rows, i, "calibrated_1"), 1 / (1 + pow(q / p, 1 / temperature)), 1e-9);
        right += *predicted - '0' == bert_make_comment(BERT_TEST_TRAIN + BERT_TEST_VALID + (int)i, text);
        assert_string_equal(json_string_value(json_object_get(json_array_get(rows, i), "text")), text);
    }
    assert_true(right > BERT_TEST_TEST * 2 / 3);
    json_decref(rows);
    rows = predict(kept_format("--checkpoint %s --threshold 1", run), "q.jsonl");
    for (size_t i = 0; i < BERT_TEST_TEST; i++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(rows, i), "predicted")), "0");
    json_decref(rows);
}

/* The best and the last weights, which have no decision of their own and so decide at 0.5. */
TEST(several_models_give_their_mean) {
    const char *run = bert_trained(), *a = kept_path(run, "best"), *b = bert_path("last");
    must_run("cp -rL %s/last/. %s && rm -f %s/decision.json && cp %s/vocab.txt %s/bpe.codes %s", run, b, b, run, run,
             b);
    json_t *first = predict(kept_format("--checkpoint %s", a), "a.jsonl"),
           *second = predict(kept_format("--checkpoint %s", b), "b.jsonl"),
           *both = predict(kept_format("--checkpoint %s --checkpoint %s", a, b), "ab.jsonl");
    double own[2] = {decision_of(run, "threshold"), 0.5}, threshold = (own[0] + own[1]) / 2;
    assert_contains(fixture.output, "1 of 2 models have a temperature: no calibrated probabilities are written");
    for (size_t i = 0; i < BERT_TEST_TEST; i++) {
        double p[2] = {bert_number(first, i, "p_1"), bert_number(second, i, "p_1")}, mean = (p[0] + p[1]) / 2;
        const json_t *row = json_array_get(both, i);
        int votes = (p[0] > own[0]) + (p[1] > own[1]);
        assert_near(bert_number(both, i, "p_1"), mean, 1e-12);
        assert_near(bert_number(both, i, "threshold"), threshold, 1e-15);
        assert_string_equal(json_string_value(json_object_get(row, "predicted")), mean > threshold ? "1" : "0");
        assert_int_equal(bert_number(both, i, "votes"), mean > threshold ? votes : 2 - votes);
        assert_null(json_object_get(row, "calibrated_1"));
    }
    json_t *all[] = {first, second, both};
    for (int k = 0; k < 3; k++) json_decref(all[k]);
}

/* Lines of a pipe are answered before the next ones come. */
TEST(standard_input_is_answered_as_it_comes) {
    const char *fifo = bert_path("fifo"), *out = bert_path("answers");
    must_run("mkfifo %s && (%s predict --checkpoint " GOLDEN "bert_hf - -o - --format jsonl <%s >%s 2>/dev/null & "
             "exec 9>%s; echo xin >&9; for i in $(seq 600); do [ -s %s ] && break; sleep 0.1; done; wc -l <%s; "
             "echo tôi >&9; exec 9>&-; wait; wc -l <%s)",
             fifo, program_at("train_bert"), fifo, out, fifo, out, out, out);
    assert_string_equal(fixture.output, "1\n2\n");
}

/* ---- what is refused ---- */

TEST(predictions_that_would_be_wrong_are_refused) {
    const char *run = bert_trained();
    write_text(bert_path("bad.jsonl"), "%s", "{\"text\":\"a\"}\n{\"txt\":\"b\"}\n");
    write_text(bert_path("good.txt"), "%s", "xin\n");
    must_run("mkdir %s && cp %s/best/*.* %s && cp " GOLDEN "bert_hf/vocab.txt " GOLDEN "bert_hf/bpe.codes %s",
             bert_path("other"), run, bert_path("other"), bert_path("other"));
    must_run("mkdir %s && cp %s/best/*.* %s/vocab.txt %s/bpe.codes %s && sed -i '1{h;d};2{G}' %s/vocab.txt",
             bert_path("renamed"), run, run, run, bert_path("renamed"), bert_path("renamed"));
    must_run("mkdir %s && cp " GOLDEN "bert_hf/*.* %s && cp %s/best/decision.json %s", bert_path("decided"),
             bert_path("decided"), run, bert_path("decided"));
    const char *good = bert_path("good.txt"), *hf = GOLDEN "bert_hf";
    const Refusal refusals[] = {
        {2, kept_format("--checkpoint %s", hf), "which texts? give files, or - for standard input"},
        {2, good, "which model? give --checkpoint"},
        {1, kept_format("--checkpoint %s %s", hf, bert_path("bad.jsonl")), "bad.jsonl:2: there is no \"text\""},
        {1, kept_format("--checkpoint %s nowhere.csv", hf), "nowhere.csv: "},
        {1, kept_format("--checkpoint %s --checkpoint %s %s", hf, run, good),
         "have other classes, or in another order: they cannot predict together"},
        {1, kept_format("--checkpoint " GOLDEN "bert_masked --tokenizer %s %s", hf, good),
         "bert_masked: it has no classifier (classifier.out_proj.weight)"},
        {2, kept_format("--checkpoint %s --threshold 0.5 %s", hf, good),
         "--threshold is for two classes, and " GOLDEN "bert_hf has 3"},
        {2, kept_format("--checkpoint %s --normalize none %s", run, good), "--normalize \"none\" contradicts "},
        {2, kept_format("--checkpoint %s --max-len 99 %s", hf, good), "has positions for 12 tokens"},
        {1, kept_format("--checkpoint %s --tokenizer %s %s", hf, kept_path(run, "vocab.txt"), good),
         "vocab.txt has 29 tokens, and " GOLDEN "bert_hf was trained with a vocabulary of 25"},
        {1, kept_format("--checkpoint %s %s", bert_path("other"), good), "other/vocab.txt is not the tokenizer that "},
        {1, kept_format("--checkpoint %s %s", bert_path("renamed"), good), "is not the tokenizer that "},
        {1, kept_format("--checkpoint %s %s", bert_path("decided"), good), "it was made for other weights ("},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(bert_use("predict %s -o %s", refusals[i].options, bert_path("none.csv")), &refusals[i]);
    assert_int_equal(access(bert_path("none.csv"), F_OK), -1);
}

static void use_edited(const char *edited, const JsonEdit *edit) {
    must_run("cp %s/vocab.txt %s/bpe.codes %s", bert_trained(), bert_trained(), edited);
    assert_edit_refused(bert_use("predict --checkpoint %s %s -o %s", edited, test_texts(), bert_path("none.csv")),
                        edit);
    assert_edit_refused(bert_use("export --checkpoint %s --output %s", edited, bert_path("not_exported")), edit);
    assert_int_equal(access(bert_path("not_exported"), F_OK), -1);
}

/* Each of the commands that read a checkpoint names the field. */
TEST(fields_of_other_types_and_ranges_are_refused) {
    static const JsonEdit configs[] = {
        {"options", "normalize", "3", "normalize: expected a text, found 3"},
        {"options", "normalize", "null", "normalize: expected a text, found null"},
        {"options", "normalize", "\"NFC\"", "normalize: expected nfc|none, found 'NFC'"},
        {"options", "compat", "\"yes\"", "compat: expected true or false, found \"yes\""},
        {"options", "compat", "1", "compat: expected true or false, found 1"},
        {"options", "max-len", "\"24\"", "max-len: expected a whole number, found \"24\""},
        {"options", "max-len", "1099511627776", "max-len: expected 3 to 1000000, found 1099511627776"},
        {"options", "heads", "-1", "heads: expected 1 to 1000, found -1"},
        {"options", "heads", "4.5", "heads: expected a whole number, found 4.5"},
        {"options", "d-model", "-1", "d-model is -1, and in the tensors beside it 32"},
        {"", "labels", "\"0\"", "\"labels\": expected an array of names, found \"0\""},
        {"", "labels", "[\"0\", 1]", "entry 1 of \"labels\" is no name"},
        {"", "tokenizer_hash", "12", "\"tokenizer_hash\": expected a text, found 12"},
        {"", "segmenter_hash", "[1]", "\"segmenter_hash\": expected a text, found ["},
    };
    static const JsonEdit decisions[] = {
        {"", "threshold", "\"0.5\"", "\"threshold\": expected a number, found \"0.5\""},
        {"", "threshold", "null", "\"threshold\": expected a number, found null"},
        {"", "threshold", "7", "\"threshold\": expected 0 to 1, found 7"},
        {"", "decision", "false", "\"decision\": expected a text, found false"},
        {"", "temperature", "\"hot\"", "\"temperature\": expected a number or null, found \"hot\""},
        {"", "temperature", NULL, "\"temperature\": expected a number or null, found nothing"},
        {"", "threshold", "1.5", "\"threshold\": expected 0 to 1, found 1.5"},
        {"", "temperature", "0", "\"temperature\": expected a number above 0, found 0"},
        {"", "rule", "\"best\"", "\"rule\": expected a rule of this program, found \"best\""},
        {"", "rule", "2", "\"rule\": expected a rule of this program, found 2"},
    };
    char *best = kept_path(bert_trained(), "best");
    refuse_config_edits(best, "bert", configs, sizeof configs / sizeof *configs, use_edited);
    refuse_decision_edits(best, decisions, sizeof decisions / sizeof *decisions, use_edited);
}

int main(void) { return tests_run(bert_fixture_open, NULL); }
