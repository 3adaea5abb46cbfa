/* train_bert evaluate, and the decision that validation texts choose: golden numbers of scikit-learn 1.9.1 and scipy,
 * and files that agree with each other. */
#include "commands/bert/report.h"
#include "tests/bert/use_rig.h"

enum { N = 60 };

static json_t *json_of(const char *name) {
    json_t *root = json_load_file(bert_path(name), 0, NULL);
    if (!root) fail_msg("no %s", name);
    return root;
}

static double score_of(const json_t *root, const char *name) {
    const json_t *value = json_object_get(json_object_get(root, "scores"), name);
    if (!json_is_number(value)) fail_msg("no score %s", name);
    return json_number_value(value);
}

/* ---- the decision ---- */

static char *names[] = {"clean", "rude"};
static const Classes two = {.n = 2, .names = names};

/* Fills the logits of 60 texts, which scipy and scikit-learn were given, too. */
static void fill(float logits[2 * N], int32_t labels[N]) {
    for (int i = 0; i < N; i++) {
        double p = (i * 37 + 11) % 53 / 53.0;
        int label = (i * i * 7 + 3 * i) % 10 < 10 * p;
        labels[i] = i % 7 ? label : !label;
        logits[2 * i] = 0.25f;
        logits[2 * i + 1] = (float)(0.25 + 6 * p - 2.2);
    }
}

TEST(temperature_and_threshold_are_the_best) {
    float logits[2 * N];
    int32_t labels[N];
    fill(logits, labels);
    const BertTested tested = {.name = "validation", .classes = &two, .n = N, .labels = labels, .logits = logits};
    ThresholdDecision d = bert_decide(&tested, THRESHOLD_F1, 0.5);
    assert_near(d.temperature, 2.04515236, 1e-5);
    assert_near(d.threshold, 0.15584640836, 1e-6); /* where F1 is 10 / 11 */
    d = bert_decide(&tested, THRESHOLD_HALF, 0.5);
    assert_near(d.threshold, 0.5, 0);
    for (int i = 0; i < N; i++) logits[2 * i + 1] = labels[i] ? 9 : -9;
    d = bert_decide(&tested, THRESHOLD_F1, 0.5); /* all are right: no temperature fits */
    assert_true(isnan(d.temperature) && d.threshold > 0 && d.threshold < 1);
    for (int i = 0; i < N; i++) labels[i] = 1;
    d = bert_decide(&tested, THRESHOLD_F1, 0.5); /* one class: 0.5 is taken, with a warning */
    assert_near(d.threshold, 0.5, 0);
}

TEST(three_classes_have_no_threshold) {
    static char *three_names[] = {"a", "b", "c"};
    static const Classes three = {.n = 3, .names = three_names};
    float logits[] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0.5f, 0.6f, 0};
    int32_t labels[] = {0, 1, 2, 0};
    const BertTested tested = {.name = "validation", .classes = &three, .n = 4, .labels = labels, .logits = logits};
    ThresholdDecision d = bert_decide(&tested, THRESHOLD_F1, 0.5);
    assert_true(isnan(d.threshold) && d.temperature > 0);
    json_t *root = threshold_decision_to_json(&d, "b");
    assert_true(json_is_null(json_object_get(root, "threshold")));
    assert_string_equal(json_string_value(json_object_get(root, "decision")), "the most probable class");
    json_decref(root);
}

/* ---- three classes ---- */

/* The golden texts with labels, of which the model has five of seven right. */
TEST(scores_are_those_of_scikit_learn) {
    static const int labels[] = {1, 1, 0, 1, 2, 0, 2, 2};
    static const char *const class_names[] = {"clean", "rude", "hate, \"loud\""};
    json_t *golden = json_load_file(GOLDEN "bert_predictions.json", 0, NULL);
    FILE *file = fopen(bert_path("labelled.jsonl"), "w");
    for (size_t i = 0; i < 8; i++) {
        const char *text = json_string_value(json_object_get(json_array_get(golden, i), "text"));
        if (!*text) continue; /* no labelled text is empty */
        json_t *row = json_pack("{s:s, s:s}", "text", text, "class", class_names[labels[i]]);
        json_dumpf(row, file, JSON_COMPACT);
        fputc('\n', file);
        json_decref(row);
    }
    assert_int_equal(fclose(file), 0);
    bert_must_use("evaluate --checkpoint " GOLDEN "bert_hf --data %s --label-column class --name golden -o %s",
                  bert_path("labelled.jsonl"), bert_path("three"));
    json_t *root = json_of("three/evaluation_golden.json");
    static const struct {
        const char *name;
        double value;
    } scores[] = {{"accuracy", 0.714285714286}, {"macro_f1", 0.694444444444}, {"weighted_f1", 0.702380952381},
                  {"mcc", 0.603022689156},      {"nll", 1.01873066065},       {"balanced_accuracy", 0.666666666667}};
    for (size_t k = 0; k < sizeof scores / sizeof *scores; k++)
        assert_near(score_of(root, scores[k].name), scores[k].value, 1e-6); /* logits are f32 */
    json_decref(root);
    must_run("ls %s | tr '\\n' ' '", bert_path("three"));
    assert_null(strstr(fixture.output, "threshold")); /* of two classes only */
    assert_contains(fixture.output, "wrong_golden.csv");
    assert_contains(fixture.output, "roc_evaluation_golden.svg");
    assert_contains(fixture.output, "report.html");
    json_decref(golden);
}

/* ---- two classes ---- */

/* evaluate gives what the training gave of the same texts, also from an export. */
TEST(the_files_are_those_of_the_training) {
    static const char *const files[] = {"report_test.json",     "threshold_test.json", "evaluation_test.csv",
                                        "predictions_test.csv", "wrong_test.csv",      "histogram_test.csv"};
    const char *run = bert_trained(), *to = bert_path("evaluation"), *export = bert_path("export");
    bert_must_use("export --checkpoint %s -o %s", run, export);
    const char *checkpoints[] = {run, export};
    for (int k = 0; k < 2; k++) {
        bert_must_use("evaluate --checkpoint %s --data %s/test.csv -o %s --threads 2", checkpoints[k],
                      bert_path("noisy"), to);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            must_run("cmp %s/%s %s/%s", run, files[i], to, files[i]);
    }
}

TEST(reports_agree_with_the_predictions) {
    const char *run = bert_trained(), *data = kept_format("%s/test.csv", bert_path("noisy"));
    bert_must_use("evaluate --checkpoint %s --data %s -o %s", run, data, bert_path("two"));
    bert_must_use("predict --checkpoint %s %s -o %s", run, data, bert_path("two.jsonl"));
    must_run("cut -d, -f2 %s | tail -n +2 | tr -d '\\n'", data);
    char *truth = keep(xstrdup(fixture.output));
    json_t *rows = bert_read_lines(bert_path("two.jsonl")), *report = json_of("two/report_test.json");
    int64_t counts[2][2] = {{0}};
    double worst = 0;
    for (size_t i = 0; i < BERT_TEST_TEST; i++) {
        int predicted = *json_string_value(json_object_get(json_array_get(rows, i), "predicted")) - '0';
        double p = bert_number(rows, i, predicted ? "p_1" : "p_0");
        counts[truth[i] - '0'][predicted]++;
        if (predicted != truth[i] - '0' && p > worst) worst = p;
    }
    const json_t *matrix = json_object_get(json_object_get(report, "confusion_matrix"), "matrix");
    for (size_t k = 0; k < 4; k++)
        assert_int_equal(json_integer_value(json_array_get(json_array_get(matrix, k / 2), k % 2)),
                         counts[k / 2][k % 2]);
    double hits = (double)counts[1][1], precision = hits / (double)(counts[1][1] + counts[0][1]),
           recall = hits / (double)(counts[1][1] + counts[1][0]);
    assert_near(json_real_value(json_object_get(report, "precision_inv")), precision, 1e-12);
    assert_near(json_real_value(json_object_get(report, "recall_inv")), recall, 1e-12);
    assert_near(json_real_value(json_object_get(report, "f1_inv")), 2 * precision * recall / (precision + recall),
                1e-12);
    json_t *wrong = json_of("two/wrong_test.json");
    assert_int_equal(json_array_size(wrong), counts[0][1] + counts[1][0]);
    assert_true(json_array_size(wrong) > 0);
    assert_near(bert_number(wrong, 0, "p"), worst, 1e-9); /* the most confident first */
    json_t *all[] = {rows, report, wrong};
    for (int k = 0; k < 3; k++) json_decref(all[k]);
}

/* Texts stand in the CSV as they are, and on one line, shortened, in the page. */
TEST(wrong_predictions_are_shown_with_their_texts) {
    float logits[2 * 3] = {0, 3, 0, 1, 2, 0};
    int32_t labels[] = {0, 0, 0};
    char text[600];
    Error error;
    size_t size = (size_t)snprintf(text, sizeof text, "a | b\n<script>");
    while (size < 500) size += (size_t)snprintf(text + size, sizeof text - size, " dài");
    const char *texts[] = {"mild", text, "right"};
    const int64_t lines[] = {2, 3, 7};
    const BertTested tested = {
        .name = "shown", .classes = &two, .n = 3, .texts = texts, .lines = lines, .labels = labels, .logits = logits};
    const ThresholdDecision d = {.threshold = 0.5, .temperature = NAN};
    const char *directory = kept_folder();
    logits[1] = 1, logits[3] = 3;
    if (!bert_report(&tested, &d, directory, NULL, &error)) fail_msg("%s", error.text);
    char *csv = kept_text(kept_path(directory, "wrong_shown.csv")),
         *markdown = kept_text(kept_path(directory, "wrong_shown.md"));
    assert_contains(csv, "line,truth,prediction,p,p_truth,text\n3,clean,rude,0.95257412682243");
    assert_contains(csv, "\"a | b\n<script>");
    assert_contains(csv, "\n2,clean,rude,0.731058578630004");
    assert_contains(markdown, "2 of 3 texts, the most confident first.");
    assert_contains(markdown, "| a \\| b \\<script> dài");
    assert_contains(markdown, " ... |\n| 2 | clean | rude | 0.7311 | 0.2689 | mild |\n");
}

/* A name that no file can have is written in all names of files alike. */
TEST(names_are_escaped_once) {
    bert_must_use("evaluate --checkpoint %s --data %s/test.csv --name a/b%%c -o %s", bert_trained(), bert_path("noisy"),
                  bert_path("escaped"));
    assert_contains(fixture.output, "[Report] a/b%c: 1 if p > ");
    must_run("cd %s && ls | grep -v report.html | grep -vc 'a%%2Fb%%25c[.]' ; ls wrong_a%%2Fb%%25c.csv "
             "report_a%%2Fb%%25c.json threshold_a%%2Fb%%25c.json evaluation_a%%2Fb%%25c.csv | wc -l",
             bert_path("escaped"));
    assert_string_equal(fixture.output, "0\n4\n");
}

/* Only the end of a file's name is left out of the names of reports. */
TEST(reports_have_the_name_of_the_file) {
    must_run("cp %s/test.csv %s/test.v2.csv", bert_path("noisy"), bert_path("noisy"));
    bert_must_use("evaluate --checkpoint %s --data %s/test.v2.csv -o %s", bert_trained(), bert_path("noisy"),
                  bert_path("named"));
    must_run("ls %s/report_*.json", bert_path("named"));
    assert_contains(fixture.output, "/report_test.v2.json\n");
}

TEST(evaluations_that_would_be_wrong_are_refused) {
    static const char *const hf = "--checkpoint " GOLDEN "bert_hf";
    write_text(bert_path("labels.csv"), "%s", "text,label\nxin,clean\ntôi,unknown\n");
    write_text(bert_path("none.csv"), "%s", "text\nxin\n");
    write_text(bert_path("empty.csv"), "%s", "text,label\nxin,\n");
    write_text(bert_path("open.csv"), "%s", "text,label\n\"xin,clean\n");
    const struct {
        int status;
        const char *file, *message;
    } cases[] = {{1, "labels.csv", "labels.csv:3: "},
                 {1, "none.csv", "none.csv:1: there is no column \"label\""},
                 {1, "empty.csv", "empty.csv:2: "},
                 {1, "open.csv", "open.csv:2"},
                 {1, "absent.csv", "absent.csv: "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Refusal want = {cases[i].status, "", cases[i].message};
        assert_refused(bert_use("evaluate %s --data %s -o %s", hf, bert_path(cases[i].file), bert_path("no")), &want);
    }
}

int main(void) { return tests_run(bert_fixture_open, NULL); }
