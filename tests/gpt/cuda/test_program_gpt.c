/* train_gpt on the emulated device: the loop that works ahead of a GPU, its memory, its stops and its restarts
 * (tests/cuda/program_rig.h). */
#include "data/formats/tensor_file_open.h"
#include "kernels/cards.h"
#include "tests/cuda/program_rig.h"
#include "tests/gpt/train_rig.h"

static const char *const cuda_run =
    "--device cuda --max-steps 6 --log-interval 3 --save-interval 3 --val-interval 6 --val-ratio 0.2";

/* The same seed and data on both devices, dropout too: f32 losses differ by the order of sums, which 6 steps of AdamW
 * at a rate of 1e-3 carry on; 16-bit ones by the rounding of activations, 2^-9 each, of which some hundred lie one
 * behind the other: sqrt(100) 2^-9 = 2 %. */
TEST(training_matches_the_cpu) {
    const struct {
        const char *capability, *options, *line;
        double tolerance;
    } cards[] = {{NULL, "--no-tf32", "TF32 disabled", 1e-4},
                 {NULL, "--amp", "Using bfloat16 AMP (native emulated support, no loss scaling needed)", 0.02},
                 {"75", "--amp", "Using float16 AMP with gradient scaling", 0.02}};
    const char *const values[][2] = {{"train", "train/mel_loss"},
                                     {"train", "train/grad_norm"},
                                     {"val", "val/mel_loss"},
                                     {"summary", "summary/flops"}};
    char *cpu = kept_folder(), *options = kept_format("%s --device cpu", cuda_run);
    fixture_must_train(cpu, options);
    for (int i = 0; i < 3; i++) {
        if (!emulated && cards[i].capability) continue;
        char *run = kept_folder(), *with = kept_format("%s %s", cuda_run, cards[i].options);
        set_emulator(NULL, cards[i].capability);
        fixture_must_train(run, with);
        assert_contains(fixture.output, " Optimizations] ");
        if (emulated && !getenv("EMULATE_CARD")) assert_contains(fixture.output, cards[i].line); /* it names the card */
        for (int v = 0; v < 4; v++) {
            double want = logged_last(cpu, values[v][0], values[v][1]),
                   got = logged_last(run, values[v][0], values[v][1]);
            print_message("%s %s: %.6f, on the cpu %.6f\n", values[v][1], cards[i].options, got, want);
            assert_true(fabs(got / want - 1) <= cards[i].tolerance);
        }
    }
    set_emulator(NULL, NULL);
}

/* The program prints the card's settings and the share of its stated rate, which the emulator is far from. */
TEST(the_card_is_named_and_measured) {
    if (!emulated) skip();
    char *run = kept_folder(), *options = kept_format("%s --amp --max-steps 2 --log-interval 1", cuda_run);
    set_variable("EMULATE_CARD", "NVIDIA L4");
    fixture_must_train(run, options);
    set_variable("EMULATE_CARD", NULL);
    assert_contains(fixture.output, "[L4 Optimizations] TF32 enabled");
    assert_contains(fixture.output,
                    "[L4 Optimizations] Using bfloat16 AMP (native L4 support, no loss scaling needed)\n");
    assert_contains(fixture.output, " MFU=0.0% ETA");
    double flops = logged_last(run, "summary", "summary/flops"),
           seconds = logged_last(run, "summary", "summary/seconds");
    double mfu = logged_last(run, "train", "train/mfu");
    print_message("MFU %.3g, of the whole run %.3g\n", mfu, flops / seconds / 121e12);
    assert_true(mfu > 0.2 * flops / seconds / 121e12 && mfu < 5 * flops / seconds / 121e12);
}

static int train_more(const char *run, const char *more) { return fixture_train(run, "%s", more); }

/* Every micro-batch has other lengths. */
TEST(steps_are_recorded) {
    check_launches(train_more, "--device cuda --amp --save-interval 0 --val-interval 999", 48, 5);
}

TEST(recorded_steps_have_the_bits_of_direct_ones) {
    check_recorded(train_more, "--device cuda --amp --max-steps 24 --val-interval 999");
}

static void train_with_amp(const char *run) { fixture_must_train(run, kept_format("%s --amp", cuda_run)); }

TEST(every_schedule_gives_the_same_bits) { check_schedules(train_with_amp, assert_same_result); }

TEST(a_resumed_run_gives_the_same_bits) { check_resume(kept_format("%s --amp", cuda_run)); }

/* The loop finds it when it writes the line of step 3: what was queued behind step 1 has changed nothing. */
TEST(a_nan_stops_all_that_is_queued) {
    const char *const ways[] = {"", "--amp"}, *const cards[] = {NULL, "75"};
    for (int i = 0; i < 2; i++) {
        char *run = kept_folder(), *base = gpt_write_overflowing_base(fixture_reference_run(), run),
             *into = kept_path(run, "a");
        char *skipping = kept_path(run, "b"), *last = kept_path(into, "last/model.safetensors");
        set_emulator(NULL, cards[i]);
        assert_int_equal(fixture_train(into, "%s %s -b 1 -g 1 --base-checkpoint %s", cuda_run, ways[i], base), 1);
        assert_contains(fixture.output, "step 1: the loss or its gradient is not finite");
        Error error;
        TensorFile before, after;
        assert_true(tensor_file_open(base, &before, &error) && tensor_file_open(last, &after, &error));
        for (int t = 0; t < before.n_tensors; t++) {
            const StoredTensor *was = &before.tensors[t], *is = tensor_file_find(&after, was->name);
            assert_memory_equal(is->data, was->data, was->bytes);
        }
        tensor_file_close(&before);
        tensor_file_close(&after);
        char *state_path = kept_path(into, "last/state.json"), *text = kept_text(state_path);
        assert_contains(text, "\"step\": 0,");
        if (i && emulated) assert_contains(text, "65536");
        assert_int_equal(
            fixture_train(skipping, "%s %s -b 1 -g 1 --skip-nonfinite --base-checkpoint %s", cuda_run, ways[i], base),
            1);
        assert_contains(fixture.output, "6 skipped so far");
        assert_contains(fixture.output, "all 6 steps were skipped");
    }
    set_emulator(NULL, NULL);
}

/* A rate at which the losses overflow after some steps: queued behind others, the bad step and those behind it must not
 * count, and the checkpoint is that of the step before it. */
TEST(a_step_that_is_not_finite_may_be_queued_anywhere) {
    char *runs[2];
    long long bad[2];
    for (int i = 0; i < 2; i++) {
        runs[i] = scratch_directory();
        if (i) share_autotune_cache(runs[0], runs[i]);
        assert_int_equal(fixture_train(runs[i],
                                       "--device cuda --max-steps 14 --val-ratio 0 --save-interval 0 --warmup-steps 2 "
                                       "--learning-rate 10 --grad-clip 0 --weight-decay 10 -b 1 -g 1 --log-interval %d",
                                       i ? 40 : 1),
                         1);
        const char *line = strstr(fixture.output, "the loss or its gradient is not finite");
        assert_non_null(line);
        while (line > fixture.output && line[-1] != '\n') line--;
        const char *step = strstr(line, "step ");
        assert_int_equal(sscanf(step, "step %lld", &bad[i]), 1);
        print_message("stopped at step %lld\n", bad[i]);
    }
    assert_true(bad[0] == bad[1] && bad[0] > 2);
    assert_same_result(runs[0], runs[1]);
    free(runs[0]);
    free(runs[1]);
}

/* The last batch of an epoch has fewer sequences, and attention needs more scratch for it. */
TEST(memory_is_enough_for_the_end_of_an_epoch) {
    char *run = kept_folder(), *data = keep(gpt_make_data(300));
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output,
                    "%s -m %s/manifest.jsonl %s --output-dir %s -b 5 -g 1 --device cuda --amp --val-ratio 0 "
                    "--max-steps 6 --max-mel-tokens 320 --log-interval 1",
                    fixture.program, data, gpt_model_options, run),
        0);
    double planned = logged_last(run, "summary", "summary/planned_bytes");
    print_message("planned %.0f bytes, peak %.0f\n", planned, logged_last(run, "summary", "summary/peak_bytes"));
    assert_true(logged_last(run, "summary", "summary/peak_bytes") < 1.02 * planned);
}

TEST(memory_is_as_planned) {
    const char *const ways[] = {"--grad-checkpointing", "--amp"};
    for (int i = 0; i < 2; i++) check_memory(cuda_run, ways[i]);
}

/* Kernels' code is loaded when it is first used: what -b auto chooses must fit into what is left then, less what a run
 * keeps free. The model is a large one, of which nothing is computed. */
TEST(auto_leaves_room_for_all_kernels_to_load) {
    if (!emulated) skip();
    set_variable("EMULATE_CODE", "8000000");
    set_variable("EMULATE_MULTIPROCESSORS", "132");
    for (int i = 0; i < 12; i++) {
        char *memory = kept_format("%lld", 15900000000 + 60000000LL * i);
        double used, available;
        int size;
        set_variable("EMULATE_MEMORY", memory);
        int status = run_command(fixture.output, sizeof fixture.output,
                                 "%s --dry-run --device cuda --amp -b auto --effective-batch 32 | grep '^.[BM]'",
                                 fixture.program);
        const char *line = strstr(fixture.output, "[Batch] "), *at_once = strstr(fixture.output, "at once, ");
        if (status || !line || !at_once || strstr(fixture.output, "does not fit")) fail_msg("%s", fixture.output);
        assert_int_equal(sscanf(line, "[Batch] -b %d", &size), 1);
        assert_int_equal(sscanf(at_once, "at once, %lf GB of %lf GB", &used, &available), 2);
        assert_true(used <= available && available < (atof(memory) - CARD_HEADROOM) * 1e-9 + 0.05);
        assert_true(size == 8 || size == 16);
    }
    set_variable("EMULATE_CODE", NULL);
    set_variable("EMULATE_MULTIPROCESSORS", NULL);
    set_variable("EMULATE_MEMORY", NULL);
}

/* A batch that is given must leave as much free. */
TEST(a_batch_that_leaves_too_little_free_is_refused) {
    if (!emulated) skip();
    char *run = kept_folder(), *memory = kept_format("%zu", CARD_HEADROOM + 1000000);
    set_variable("EMULATE_MEMORY", memory);
    assert_int_equal(fixture_train(run, "%s", cuda_run), 1);
    assert_contains(fixture.output, " and 1.00 MB are available (268 MB more are kept free); ");
    set_variable("EMULATE_MEMORY", NULL);
}

static int open_fixture(void **state) {
    gpt_fixture_open(state);
    fixture.program = cuda_program("train_gpt");
    return 0;
}

int main(void) { return tests_run(open_fixture, NULL); }
