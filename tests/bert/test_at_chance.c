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
static void a_classifier_at_chance_is_called_so_last(void **state) {
    (void)state;
    static const char *const rates[] = {"0", "1"},
                             *const causes[] = {
                                 ". Likely cause: a learning rate of 0, which is low for random weights: try "
                                 "0.0005; and only 6 steps: give more --epochs",
                                 ". Likely cause: a learning rate of 1, which is high for random weights"};
    for (int i = 0; i < 2; i++) {
        char *run = scratch_directory(), *page = path_join(run, "report.html"),
             *report = path_join(run, "evaluation_test.md");
        assert_int_equal(fixture_train(run, "--max-steps 6 --learning-rate %s", rates[i]), 0);
        char *next = strstr(fixture.output, "\nNext: "); /* which every training ends with */
        assert_non_null(next);
        next[1] = 0;
        assert_ends_with(fixture.output, "[Report] test is at chance: balanced accuracy 0.");
        assert_ends_with(fixture.output, causes[i]);
        char *html = read_text(page), *markdown = read_text(report);
        assert_contains(html, "at chance: balanced accuracy");
        assert_contains(markdown, "Likely cause: a learning rate of ");
        must_run("%s evaluate --checkpoint %s --data %s/test.csv -o %s/evaluation", fixture.program, run, fixture.data,
                 run);
        assert_ends_with(fixture.output, causes[i]);
        free(html);
        free(markdown);
        free(report);
        free(page);
        free(run);
    }
}

static void the_metric_chooses_the_threshold(void **state) {
    (void)state;
    static const char *const options[] = {"--metric accuracy", "--metric f1", "--metric accuracy --threshold f1"},
                             *const best[] = {"validation has its best accuracy", "validation has its best F1",
                                              "validation has its best F1"};
    for (int i = 0; i < 3; i++) {
        char *run = scratch_directory();
        assert_int_equal(fixture_train(run, "--max-steps 6 %s", options[i]), 0);
        assert_contains(fixture.output, best[i]);
        free(run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_classifier_at_chance_is_called_so_last),
        cmocka_unit_test(the_metric_chooses_the_threshold),
    };
    return cmocka_run_group_tests(tests, bert_fixture_open, NULL);
}
