/* Trains the TTS GPT on ranks with emulated cards, of which one gets numbers or files that cannot be trained on. */
#include "tests/gpt/train_rig.h"
#include "tests/side_by_side_rig.h"

enum { RANKS = 2, BAD = 5 };

static SideCase gpt = {.program = "train_gpt", .cards = true};

static int open_case(void **state) {
    int status = gpt_fixture_open(state);
    gpt.options = kept_format("%s --layers 1 -b 1 -g 2 --threads 1 --device cuda --no-tf32 --val-interval 0 "
                              "--val-ratio 0 --log-interval 1 --save-interval 1 --keep-checkpoints 99 --max-steps 8",
                              gpt_model_options);
    return status;
}

/* Returns a copy of the data in which one sample has such numbers. */
static char *data_with(float bad) {
    static float condition[32 * GPT_D_MODEL];
    char *data = kept_path(kept_folder(), "data"), name[32];
    must_run("cp -r %s %s", fixture.data, data);
    for (int i = 0; i < 32 * GPT_D_MODEL; i++) condition[i] = bad;
    snprintf(name, sizeof name, "k%d.npy", BAD);
    write_npy(data, name, "<f4", condition, 2, 32, GPT_D_MODEL);
    return data;
}

/* The sample is one rank's: all stop in front of its step, with the weights of the step before, also if steps behind it
 * have been queued, or skip the step. */
TEST(a_loss_of_one_rank_that_is_not_finite_stops_or_skips_on_all) {
    char *on = kept_format("-m %s/manifest.jsonl", data_with(3e38f)), *skipping = kept_folder(), name[64] = "";
    for (int zero = 0; zero < 2; zero++) {
        char *stopped = kept_folder(), *more = kept_format("%s --zero %d", on, zero);
        if (!zero && side_try(&gpt, RANKS, skipping, kept_format("%s --skip-nonfinite", more)))
            fail_msg("%s", fixture.output);
        if (!zero)
            assert_contains(fixture.output, " skipped: the loss or its gradient is not finite (1 skipped so far)");
        assert_int_not_equal(side_try(&gpt, RANKS, stopped, kept_format("%s --log-interval 8 --save-interval 0", more)),
                             0);
        assert_contains(fixture.output, ": the loss or its gradient is not finite (grad_norm ");
        assert_contains(fixture.output, kept_format("utterance_%d", BAD));
        assert_true(readlink(kept_path(stopped, "last"), name, sizeof name - 1) > 0);
        must_run("cmp %s/%s/model.safetensors %s/%s/model.safetensors", skipping, name, stopped, name);
        must_run("cmp %s/%s/optimizer.safetensors %s/%s/optimizer.safetensors", skipping, name, stopped, name);
    }
}

/* The files are removed while the run goes on: the rank that reads first ends, and the others hear of it. */
TEST(a_rank_that_has_no_data_any_more_ends_all_with_whole_steps) {
    char *data = kept_path(kept_folder(), "data"), *folder = kept_folder();
    must_run("cp -rp %s %s", fixture.data, data);
    char *options = kept_format("-m %s/manifest.jsonl --max-steps 24", data);
    char *command = kept_format("timeout -k 9 60 %s %s %s -o %s --gpus %d", side_on_cards(RANKS, gpt.program),
                                gpt.options, options, folder, RANKS);
    pid_t child = start_command(folder, command);
    wait_for_step(folder, child, 1);
    must_run("rm %s/*.npy", data);
    int status;
    waitpid(child, &status, 0);
    char *said = kept_text(kept_path(folder, "output"));
    if (!WIFEXITED(status) || !WEXITSTATUS(status)) fail_msg("status %d:\n%s", status, said);
    assert_contains(said, ".npy: cannot open: No such file");
    must_run("cp -p %s/*.npy %s", fixture.data, data);
    if (side_try(&gpt, RANKS, folder, kept_format("%s --resume auto", options))) fail_msg("%s", fixture.output);
    assert_same_result(side_train(&gpt, RANKS, options), folder);
}

int main(void) { return tests_run(open_case, NULL); }
