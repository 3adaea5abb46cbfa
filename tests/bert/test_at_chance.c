/* The messages of train_bert about a classifier that has learnt nothing, and the threshold that --metric chooses. */
#include "tests/bert/train_rig.h"

/* Fails unless this is in the last line. */
static void assert_ends_with(const char *output, const char *expected) {
    const char *end = output + strlen(output);
    while (end > output && (end[-1] == '\n' || end[-1] == ' ')) end--;
    while (end > output && end[-1] != '\n') end--;
    assert_contains(end, expected);
}

/* A rate of 0 leaves random weights; one of 1 throws them about. */
TEST(a_classifier_at_chance_is_called_so_last) {
    static const char *const rates[] = {"0", "1"},
                             *const causes[] = {
                                 ". Likely cause: a learning rate of 0, which is low for random weights: try "
                                 "0.0005; and only 6 steps: give more --epochs",
                                 ". Likely cause: a learning rate of 1, which is high for random weights"};
    for (int i = 0; i < 2; i++) {
        char *run = kept_folder(), *page = kept_path(run, "report.html"),
             *report = kept_path(run, "evaluation_test.md");
        assert_int_equal(fixture_train(run, "--max-steps 6 --learning-rate %s", rates[i]), 0);
        char *next = strstr(fixture.output, "\nNext: "); /* which every training ends with */
        assert_non_null(next);
        next[1] = 0;
        assert_ends_with(fixture.output, "[Report] test is at chance: balanced accuracy 0.");
        assert_ends_with(fixture.output, causes[i]);
        char *html = kept_text(page), *markdown = kept_text(report);
        assert_contains(html, "at chance: balanced accuracy");
        assert_contains(markdown, "Likely cause: a learning rate of ");
        must_run("%s evaluate --checkpoint %s --data %s/test.csv -o %s/evaluation", fixture.program, run, fixture.data,
                 run);
        assert_ends_with(fixture.output, causes[i]);
    }
}

/* Trains four random classifiers, of which at least one prefers the wrong labels of the validation texts and fits no
 * temperature. */
TEST(a_temperature_that_is_not_found_is_said_once) {
    static const char reason[] = "the logits do not favour the labels";
    int without = 0;
    for (int seed = 1; seed <= 4; seed++) {
        assert_int_equal(fixture_train(kept_folder(), "--max-steps 1 --learning-rate 0 --seed %d", seed), 0);
        const char *said = strstr(fixture.output, reason);
        without += said != NULL;
        assert_true(!said || !strstr(said + 1, reason));
    }
    assert_in_range(without, 1, 4);
}

TEST(the_metric_chooses_the_threshold) {
    static const char *const options[] = {"--metric accuracy", "--metric f1", "--metric accuracy --threshold f1"},
                             *const best[] = {"validation has its best accuracy", "validation has its best F1",
                                              "validation has its best F1"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fixture_train(kept_folder(), "--max-steps 6 %s", options[i]), 0);
        assert_contains(fixture.output, best[i]);
    }
}

int main(void) { return tests_run(bert_fixture_open, NULL); }
