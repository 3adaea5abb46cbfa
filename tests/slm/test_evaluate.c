/* train_slm evaluate: losses of texts and of endings as an independent model has them in float64 (tests/reference/
 * make_slm_evaluation.py), however the texts come and whatever the batches are; errors by name. */
#include "base/json.h"
#include "tests/train_rig.h"

#define GOLDEN "tests/reference/golden/"

static const char *root; /* the folder of all files */
static json_t *golden;

static int evaluate(const char *options) {
    return run_command(fixture.output, sizeof fixture.output,
                       "golden=$PWD/tests/reference/golden; here=$PWD; cd %s && "
                       "$here/%s --checkpoint $golden/slm_gpt2 %s",
                       root, program_at("train_slm evaluate"), options);
}

static void must_evaluate(const char *options) {
    int status = evaluate(options);
    if (status) fail_msg("%s: exit status %d:\n%s", options, status, fixture.output);
}

static const char *path_of(const char *name) { return kept_path(root, name); }

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    assert_non_null(value);
    return value;
}

/* Returns line `n` of a CSV file, behind the names, without its first field. */
static const char *row_of(const char *name, int n) {
    char *lines = kept_text(path_of(name));
    for (; n >= 0 && lines; n--) lines = strchr(lines, '\n') + 1;
    const char *comma = strchr(lines, ',');
    assert_non_null(comma);
    return comma + 1;
}

/* ---- texts ---- */

static void assert_text_row(const char *csv, int row, double documents, double tokens, double bytes, double loss) {
    double got[6];
    const char *line = row_of(csv, row);
    int n = sscanf(line, "%lf,%lf,%lf,%lf,%lf,%lf", got, got + 1, got + 2, got + 3, got + 4, got + 5);
    assert_int_equal(n, 6);
    assert_near(got[0], documents, 0);
    assert_near(got[1], tokens, 0);
    assert_near(got[2], bytes, 0);
    assert_near(got[3], loss / tokens, 1e-6);
    assert_near(got[4], exp(loss / tokens), 1e-4);
    assert_near(got[5], loss / log(2) / bytes, 1e-6);
}

/* Compares the rows of both texts and their sum with the golden numbers under these keys. */
static void assert_texts(const char *csv, const char *documents, const char *tokens, const char *bytes,
                         const char *loss) {
    const json_t *texts = json_object_get(golden, "texts");
    double all[4] = {0};
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *t = json_array_get(texts, i);
        double one[] = {documents ? number(t, documents) : 1, number(t, tokens), number(t, bytes), number(t, loss)};
        assert_text_row(csv, (int)i, one[0], one[1], one[2], one[3]);
        for (int k = 0; k < 4; k++) all[k] += one[k];
    }
    assert_text_row(csv, (int)json_array_size(texts), all[0], all[1], all[2], all[3]);
}

TEST(losses_of_texts_are_those_of_a_model_in_float64) {
    must_evaluate("two.txt one.txt -o packed.csv");
    assert_texts("packed.csv", NULL, "tokens", "bytes", "loss");
    must_evaluate("two.txt one.txt --stride 3 -o stride.csv");
    assert_texts("stride.csv", NULL, "tokens", "bytes", "stride_3");
    must_evaluate("two.txt one.txt --split-at blank-lines --documents separate -o apart.csv");
    assert_texts("apart.csv", "documents", "apart_tokens", "apart_bytes", "apart");
}

TEST(batches_and_threads_do_not_matter) {
    must_evaluate("two.txt one.txt -b 1 --threads 1 -o one.csv");
    assert_texts("one.csv", NULL, "tokens", "bytes", "loss");
    must_evaluate("two.txt one.txt -b 64 --threads 2 -o many.csv");
    assert_texts("many.csv", NULL, "tokens", "bytes", "loss");
}

TEST(compressed_files_and_json_lines_are_read) {
    must_run("cd %s && gzip -k two.txt one.txt", root);
    must_evaluate("two.txt.gz one.txt.gz -o packed_gz.csv");
    assert_texts("packed_gz.csv", NULL, "tokens", "bytes", "loss");
    const json_t *texts = json_object_get(golden, "texts");
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *t = json_array_get(texts, i);
        json_t *record = json_build("record", "{s:s}", "body", text(t, "text"));
        char *line = keep(json_text("record", record, 0)), *path = kept_format("%s/%zu.jsonl", root, i);
        write_text(path, "%s\n", line);
        json_decref(record);
    }
    must_evaluate("0.jsonl 1.jsonl --text-field body -o lines.csv");
    assert_texts("lines.csv", NULL, "tokens", "bytes", "loss");
}

/* ---- a run of train_slm ---- */

/* An end-of-text token stands before and behind every document, as in training: the held-out text has the loss that
 * the run has logged of its last weights. */
TEST(the_held_out_text_of_a_run_has_its_validation_loss) {
    double loss, bits, row[6];
    must_run(
        "cd %s && seq 1 300 | awk '{print \"line \" $1 * 37 %% 101 \" says \" $1 * $1 %% 89 \" and more\"}' >lines && "
        "head -n 260 lines >text.txt && tail -n 40 lines >held.txt",
        root);
    must_run("here=$PWD; cd %s && $here/%s --input text.txt --val-file held.txt --split-at line --vocabulary 300 "
             "--output prepared",
             root, program_at("train_slm prepare"));
    must_run("here=$PWD; cd %s && $here/%s --data prepared --layers 1 --d-model 32 --heads 2 --context 16 -b 8 "
             "--max-steps 6 --val-interval 6 --threads 1 -o run",
             root, program_at("train_slm"));
    loss = logged_last(path_of("run"), "val", "val/loss");
    bits = logged_last(path_of("run"), "val", "val/bits_per_byte");
    must_run("here=$PWD; cd %s && $here/%s --checkpoint run/last --text held.txt --split-at line -o own.csv", root,
             program_at("train_slm evaluate"));
    assert_int_equal(
        sscanf(row_of("own.csv", 0), "%lf,%lf,%lf,%lf,%lf,%lf", row, row + 1, row + 2, row + 3, row + 4, row + 5), 6);
    assert_near(row[0], 40, 0);
    assert_near(row[3], loss, 2e-6 * loss);
    assert_near(row[5], bits, 2e-6 * bits);
}

/* ---- questions ---- */

static void write_questions(const char *name) {
    const json_t *questions = json_object_get(golden, "questions");
    char *lines = xstrdup("");
    for (size_t i = 0; i < json_array_size(questions); i++) {
        char *line = keep(json_text("question", json_object_get(json_array_get(questions, i), "question"), 0)),
             *more = xformat("%s%s\n\n", lines, line);
        free(lines);
        lines = more;
    }
    write_text(path_of(name), "%s", lines);
    free(lines);
}

/* Returns the ending with the smallest loss over length; lengths NULL: the smallest loss. */
static int least(const json_t *losses, const double *lengths) {
    int best = 0;
    double smallest = INFINITY;
    for (size_t i = 0; i < json_array_size(losses); i++) {
        double loss = json_number_value(json_array_get(losses, i)) / (lengths ? lengths[i] : 1);
        if (loss < smallest) smallest = loss, best = (int)i;
    }
    return best;
}

TEST(losses_and_choices_of_endings_are_those_of_a_model_in_float64) {
    const json_t *questions = json_object_get(golden, "questions");
    int right[3] = {0};
    write_questions("questions.jsonl");
    must_evaluate("--choices questions.jsonl -o answers.csv");
    for (size_t i = 0; i < json_array_size(questions); i++) {
        const json_t *q = json_array_get(questions, i), *losses = json_object_get(q, "losses"),
                     *endings = json_object_get(json_object_get(q, "question"), "endings"),
                     *label = json_object_get(json_object_get(q, "question"), "label");
        double got[9] = {0}, tokens[4], bytes[4];
        int answer = json_is_string(label) ? atoi(json_string_value(label)) : (int)json_integer_value(label);
        for (size_t k = 0; k < json_array_size(losses); k++) {
            tokens[k] = json_number_value(json_array_get(json_object_get(q, "tokens"), k));
            bytes[k] = (double)strlen(json_string_value(json_array_get(endings, k)));
        }
        int chosen[] = {least(losses, NULL), least(losses, tokens), least(losses, bytes)};
        sscanf(row_of("answers.csv", (int)i), "%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf", got, got + 1, got + 2, got + 3,
               got + 4, got + 5, got + 6, got + 7, got + 8);
        assert_near(got[0], 2 * (double)i + 1, 0); /* its line, between empty ones */
        assert_near(got[1], answer, 0);
        for (int k = 0; k < 3; k++) {
            assert_near(got[2 + k], chosen[k], 0);
            right[k] += chosen[k] == answer;
        }
        for (size_t k = 0; k < json_array_size(losses); k++)
            assert_near(got[5 + k], json_number_value(json_array_get(losses, k)), 1e-5);
    }
    static const char *const rules[] = {"not normalised", "per token", "per byte"};
    assert_contains(fixture.output, "questions.jsonl: 3 questions, 0.3611 by chance");
    assert_contains(fixture.output, "2 of 9 windows begin behind the start of their context");
    for (int k = 0; k < 3; k++) {
        char line[64];
        snprintf(line, sizeof line, "accuracy %.4f [", right[k] / 3.0);
        assert_contains(fixture.output, line);
        assert_contains(fixture.output, rules[k]);
    }
    must_evaluate("--choices questions.jsonl --choices questions.jsonl");
    assert_contains(fixture.output, "[Choices] all: 6 questions, 0.3611 by chance");
}

/* The same questions as an array, with a bad one between them. */
TEST(bad_questions_are_left_out_if_they_may) {
    must_run("(printf '[\\nnull,'; grep . %s | paste -sd,; echo ']') >%s", path_of("questions.jsonl"),
             path_of("bad.json"));
    assert_int_equal(evaluate("--choices bad.json"), 1);
    assert_contains(fixture.output, "bad.json: line 2: expected a JSON object; --skip-bad leaves such records out");
    must_evaluate("--choices bad.json --skip-bad");
    assert_contains(fixture.output, "records that cannot be used left out: 1, the first: ");
    assert_contains(fixture.output, "bad.json: 3 questions, 0.3611 by chance");
}

/* ---- errors ---- */

TEST(what_cannot_be_evaluated_is_named) {
    static const struct {
        const char *line;
        Refusal refusal;
    } cases[] = {
        {"", {2, "", "what is evaluated? give --text or --choices"}},
        {"", {2, "one.txt --choices bad.jsonl", "give --text or --choices, one of them"}},
        {"", {2, "one.txt --stride 13", "--stride 13: the model's context is 12 tokens"}},
        {"", {2, "--choices bad.jsonl --stride 3", "--stride is for --text"}},
        {"", {1, "nowhere.txt", "nowhere.txt"}},
        {"", {1, "bad.jsonl", "there is no token to predict in 1 file"}},
        {"", {1, "--choices bad.jsonl", "bad.jsonl: there is no question in it"}},
        {"{\"ctx\": \"he\"", {1, "--choices bad.jsonl", "bad.jsonl: line 1: expected a JSON object"}},
        {"{\"endings\": [\"he\", \"it\"], \"label\": 0}",
         {1, "--choices bad.jsonl", "line 1: expected a text \"context\""}},
        {"\\n{\"ctx\": \"he\", \"endings\": [\"he\"], \"label\": 0}",
         {1, "--choices bad.jsonl", "line 2: expected \"endings\", an array of at least 2 texts"}},
        {"{\"ctx\": \"he\", \"endings\": [\"he\", \"it\"], \"label\": 2}",
         {1, "--choices bad.jsonl", "line 1: expected \"label\", the number of the right ending, 0 .. 1"}},
        {"{\"ctx\": \"he\", \"endings\": [\"he\", \"it\"], \"label\": \"1x\"}",
         {1, "--choices bad.jsonl", "expected \"label\""}},
        {"{\"ctx\": \"he\", \"endings\": [\"he\", 7], \"label\": 0}",
         {1, "--choices bad.jsonl", "ending 1 is not a text"}},
        {"{\"ctx\": \"he\", \"endings\": [\"he\", \"\"], \"label\": 0}",
         {1, "--choices bad.jsonl", "the ending has no token"}},
        {"{\"ctx\": \"he\", \"endings\": [\"he\", \"it it it it it it it it it it it it it\"], \"label\": 0}",
         {1, "--choices bad.jsonl", "an ending of 13 tokens; the model's context is 12"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        must_run("printf '%s' >%s", cases[i].line, path_of("bad.jsonl"));
        assert_refused(evaluate(cases[i].refusal.options), &cases[i].refusal);
    }
}

/* Writes the texts of the golden file. */
static int open_texts(void **state) {
    Error error;
    (void)state;
    root = run_directory();
    golden = json_read(GOLDEN "slm_evaluation.json", 0, &error);
    if (!golden) fail_msg("%s", error.text);
    const json_t *texts = json_object_get(golden, "texts");
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *t = json_array_get(texts, i);
        write_text(path_of(text(t, "name")), "%s", text(t, "text"));
    }
    return 0;
}

static int close_texts(void **state) {
    (void)state;
    json_decref(golden);
    return 0;
}

int main(void) { return tests_run(open_texts, close_texts); }
