/* The warm-up of train_bert's learning rate: Hugging Face's formula, the earlier one, and runs that are resumed. */
#include "base/json.h"
#include "checkpoint/state.h"
#include "tests/bert/train_rig.h"

TEST(a_warm_up_comes_first) {
    static const struct {
        const char *options;
        double share[6]; /* of the peak */
    } schedules[] = {
        {"--warmup-steps 2", {0, 0.5, 1, 0.75, 0.5, 0.25}},
        {"--warmup-ratio 0.2", {0, 0.5, 1, 0.75, 0.5, 0.25}}, /* 1.2 steps, rounded up */
        {"--warmup-steps 2 --warmup-start above-zero", {1.0 / 3, 2.0 / 3, 1, 0.75, 0.5, 0.25}},
        {"--schedule constant", {1, 1, 1, 1, 1, 1}},
        {"--schedule cosine", {1, 0.9330127, 0.75, 0.5, 0.25, 0.0669873}},
    };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        char *run = kept_folder();
        double rates[8];
        assert_int_equal(fixture_train(run, "%s --max-steps 6 --log-interval 1", schedules[i].options), 0);
        assert_int_equal(logged(run, "train", "train/lr", rates, 8), 6);
        for (int k = 0; k < 6; k++) assert_near(rates[k], 3e-3 * schedules[i].share[k], 1e-10);
    }
}

/* Writes a state.json as train_bert before --warmup-start did. */
static void forget_warmup_start(const char *run) {
    char *checkpoint = kept_path(run, "last"), *path = kept_path(checkpoint, "state.json");
    TrainState state;
    Error error;
    assert_true(state_read(checkpoint, &state, &error));
    json_t *options = json_loads(state.options_json, 0, NULL);
    assert_int_equal(json_object_del(options, "warmup-start"), 0);
    free(state.options_json);
    state.options_json = json_text("the options", options, JSON_INDENT(1));
    write_text(path, "%s", keep(state_to_json(&state)));
    json_decref(options);
    free(state.options_json);
}

TEST(a_resumed_run_keeps_the_warm_up_that_it_began_with) {
    static const double shares[2][6] = {{0, 0.25, 0.5, 0.75, 1, 0.5}, {0, 0.25, 0.6, 0.8, 1, 0.5}};
    for (int old = 0; old < 2; old++) {
        char *run = kept_folder();
        double rates[8];
        fixture_must_train(run, "--max-steps 2 --warmup-steps 4 --log-interval 1");
        if (old) forget_warmup_start(run);
        for (int steps = 3; steps <= 6; steps += 3) /* the second part must remember it, too */
            assert_int_equal(
                fixture_train(run, "--max-steps %d --warmup-steps 4 --log-interval 1 --resume auto", steps), 0);
        assert_int_equal(logged(run, "train", "train/lr", rates, 8), 6);
        for (int k = 0; k < 6; k++) assert_near(rates[k], 3e-3 * shares[old][k], 1e-10);
    }
    assert_int_equal(fixture_train(scratch_directory(), "--warmup-start first"), 2);
    assert_contains(fixture.output, "expected zero|above-zero, found 'first'");
}

int main(void) { return tests_run(bert_fixture_open, NULL); }
