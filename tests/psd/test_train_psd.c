/* Trainings of train_psd: learning rates, losses that fall, runs that are stopped and resumed, and a clear line for
 * everything that can be wrong. */
#include "model/psd/cnn.h"
#include "tests/psd/train_rig.h"
#include "tests/tensor_list.h"

/* ---- schedules ---- */

/* To the digits that the reference's schedules were printed with, seven or eight at least. */
static void check_rates(const char *run, const char *key, const double *want, int n, int epochs, double relative) {
    double rates[64];
    assert_int_equal(logged(run, "train", key, rates, 64), epochs);
    for (int e = 0; e < n; e++)
        if (want[e] > 0) assert_near(rates[e], want[e], relative * want[e]);
}

/* An epoch is one step: -b takes all samples. */
TEST(rates_follow_the_epochs) {
    static const double pretraining[20] = {2e-6,      4.16e-5,     8.12e-5,     1.208e-4,    1.604e-4,
                                           2e-4,      1.978257e-4, 1.913978e-4, 1.809972e-4, 1.670785e-4,
                                           1.5025e-4, 1.312472e-4, 1.109006e-4, 9.009942e-5, 6.975281e-5,
                                           5.075e-5,  3.392150e-5, 2.000281e-5, 9.602227e-6, 3.174314e-6};
    static const double encoder[50] = {2e-5, 1.9980365948e-5, [25] = 1.005e-5, [48] = 1.7845872e-7, 1.1963405e-7};
    static const double head[50] = {2e-4, 1.9980277151e-4, [25] = 1.0005e-4, [48] = 8.8813560e-7, 2.9722849e-7};
    char *run = kept_folder(), *base = kept_path(run, "last"), *tuned = kept_folder();
    psd_must("%s -o %s --size tiny -b 180 --epochs 20 --warmup-epochs 5 --log-interval 1", psd_toy_options("pretrain"),
             run);
    check_rates(run, "train/lr", pretraining, 20, 20, 5e-7);
    psd_must("%s -o %s -b 180 --pretrained %s --log-interval 1 --early-stopping-patience 0",
             psd_toy_options("finetune"), tuned, base);
    assert_contains(fixture.output, "[Model] from its checkpoint:");
    check_rates(tuned, "train/lr", encoder, 50, 50, 3e-8);
    check_rates(tuned, "train/lr_1", head, 50, 50, 3e-8);
}

/* The encoder learns at a tenth of the head's rate: below the minimum, from which a cosine would rise. */
TEST(a_rate_below_the_minimum_does_not_rise) {
    char *run = kept_folder(), *base = kept_path(run, "last"), *tuned = kept_folder();
    double encoder[4], head[4];
    psd_must("%s -o %s --size tiny -b 180 --epochs 1", psd_toy_options("pretrain"), run);
    psd_must(
        "%s -o %s -b 180 --pretrained %s --log-interval 1 --epochs 4 --learning-rate 1e-4 --min-learning-rate 5e-5",
        psd_toy_options("finetune"), tuned, base);
    assert_int_equal(logged(tuned, "train", "train/lr", encoder, 4), 4);
    assert_int_equal(logged(tuned, "train", "train/lr_1", head, 4), 4);
    for (int i = 0; i < 4; i++) assert_near(encoder[i], 1e-5, 1e-12);
    assert_near(head[0], 1e-4, 1e-12);
    assert_true(head[3] > 5e-5 && head[3] < 6e-5);
}

/* base.yaml and pretrain_mpae.yaml as the L40S guide shows them. */
TEST(the_guides_configurations_are_read) {
    char *folder = kept_folder(), *base = kept_path(folder, "base.yaml"), *own = kept_path(folder, "own.yaml");
    write_text(base, "precision: \"bf16-mixed\"\nnum_workers: 8\npersistent_workers: true\npin_memory: true\n");
    write_text(own, "encoder:\n  d_model: 512\n  n_layers: 8\n  ffn_dim: 2048\n  gradient_checkpointing: true\n\n"
                    "training:\n  batch_size: 512\n  lr: 2.0e-4\n  compile: true\n  accumulate_grad_batches: 2\n");
    psd_must("%s --config %s --config %s -b 60 --dry-run --accelerator cpu --device cpu", psd_toy_options("pretrain"),
             base, own);
    assert_contains(fixture.output,
                    "base.yaml: precision sets --amp to true, persistent_workers is not needed, pin_memory is not "
                    "needed\n");
    assert_contains(fixture.output, "own.yaml: encoder.gradient_checkpointing sets --grad-checkpointing to true, "
                                    "training.batch_size sets --batch-size to 512, training.lr sets --learning-rate to "
                                    "2.0e-4, training.compile is not needed, training.accumulate_grad_batches sets "
                                    "--grad-accumulation to 2\n");
}

/* ---- pretraining ---- */

/* Before training all spectra look alike: every other one is as likely the partner. */
TEST(the_contrast_starts_at_chance) {
    char *run = kept_folder();
    double loss = 0;
    psd_must("%s -o %s --size small -b 64 --max-steps 1", psd_toy_options("pretrain"), run);
    assert_int_equal(logged(run, "train", "train/sicr_loss", &loss, 1), 1);
    assert_near(loss, log(2 * 64 - 1), 0.05 * log(2 * 64 - 1));
}

TEST(the_masked_loss_falls) {
    char *run = kept_folder();
    double losses[32];
    psd_must("%s -o %s --size tiny -b 32 --epochs 20 --learning-rate 3e-3", psd_toy_options("pretrain"), run);
    assert_int_equal(logged(run, "train", "train/mae_loss", losses, 32), 20); /* a line an epoch, of 5 steps */
    assert_true(losses[19] < 0.8 * losses[0]);
}

/* Masks and partners of the validation are the same every time: weights that stay give the same numbers. */
TEST(validation_measures_the_same_every_time) {
    char *run = kept_folder();
    double masked[4], contrast[4], trained[4];
    psd_must(
        "%s -o %s --size tiny -b 60 --epochs 3 --learning-rate 0 --min-learning-rate 0 --weight-decay 0 --dropout 0 "
        "--log-interval 3",
        psd_toy_options("pretrain"), run);
    assert_int_equal(logged(run, "val", "val/mae_loss", masked, 4), 3);
    assert_int_equal(logged(run, "val", "val/sicr_loss", contrast, 4), 3);
    assert_int_equal(logged(run, "train", "train/mae_loss", trained, 4), 3);
    for (int i = 1; i < 3; i++) {
        assert_true(masked[i] == masked[0] && contrast[i] == contrast[0]);
        assert_true(trained[i] != trained[0]); /* other masks every epoch */
    }
}

/* A step that is skipped leaves the running statistics as they are, and the weights are as they were initialised. */
TEST(a_step_that_is_skipped_changes_nothing) {
    char *run = kept_folder(), *first = kept_path(run, "step_00000001"), *last = kept_path(run, "last");
    int status = run_command(fixture.output, sizeof fixture.output,
                             "%s %s -o %s --encoder cnn --d-model 16 --hidden-dim 8 -b 60 --epochs 1 --save-interval 1 "
                             "--skip-nonfinite --class-weights 3e38,3e38,3e38,3e38,3e38,3e38 "
                             "--early-stopping-patience 0",
                             program_at("train_psd"), psd_toy_options("finetune"), run);
    assert_int_equal(status, 1); /* nothing was trained */
    assert_contains(fixture.output, "step=3 skipped: the loss or its gradient is not finite (3 skipped so far)");
    TensorFile before = open_in(first, "model.safetensors"), after = open_in(last, "model.safetensors");
    int statistics = 0;
    for (int i = 0; i < after.n_tensors; i++) {
        const StoredTensor *t = &after.tensors[i];
        const float *values = t->data;
        assert_memory_equal(values, find(&before, "", t->name)->data, t->bytes);
        if (!strstr(t->name, "running_")) continue;
        statistics++;
        for (int64_t e = 0; e < t->count; e++) assert_true(values[e] == (strstr(t->name, "var") ? 1 : 0));
    }
    assert_int_equal(statistics, 2 * CNN_UNITS);
    tensor_file_close(&before);
    tensor_file_close(&after);
}

TEST(a_frozen_encoder_stays) {
    char *base = kept_folder(), *run = kept_folder(), *from = kept_path(base, "last"), *to = kept_path(run, "last");
    psd_must("%s -o %s --size tiny -b 60 --epochs 1", psd_toy_options("pretrain"), base);
    psd_must("%s -o %s -b 60 --epochs 2 --pretrained %s --freeze-encoder --learning-rate 1e-2",
             psd_toy_options("finetune"), run, from);
    TensorFile before = open_in(from, "model.safetensors"), after = open_in(to, "model.safetensors");
    int same = 0;
    for (int i = 0; i < after.n_tensors; i++) {
        const char *name = after.tensors[i].name;
        if (strncmp(name, "encoder.", 8) && strncmp(name, "patch_embed.", 12)) continue;
        assert_memory_equal(after.tensors[i].data, find(&before, "", name)->data, after.tensors[i].bytes);
        same++;
    }
    assert_int_equal(same, 20);
    tensor_file_close(&before);
    tensor_file_close(&after);
    /* and predicts the same whatever its dropout */
    static const char *const dropouts[] = {"0", "0.5"};
    float *said[2];
    int64_t count = 0;
    for (int i = 0; i < 2; i++) {
        psd_must("%s -o %s/%s -b 60 --max-steps 1 --pretrained %s --freeze-encoder --dropout %s --debug-dump %s/dump",
                 psd_toy_options("finetune"), run, dropouts[i], from, dropouts[i], run);
        TensorFile dump = open_in(run, "dump");
        count = find(&dump, "", "micro0.encoded")->count;
        said[i] = floats(&dump, "", "micro0.encoded");
        assert_int_equal(find(&dump, "frozen_rows.", "patch_embed.projection.weight")->count,
                         1); /* and says what is frozen */
        assert_null(tensor_file_find(&dump, "frozen_rows.classifier.head.0.weight"));
        tensor_file_close(&dump);
    }
    assert_int_equal(count, 60 * 32);
    assert_memory_equal(said[0], said[1], (size_t)count * sizeof(float));
    free(said[0]);
    free(said[1]);
}

/* Three rows of dab and one of dvbt have weights 1/3 and 1, times 3/2, so that the weights of both classes sum to two.
 */
TEST(rare_classes_weigh_more) {
    char *split = kept_path(fixture.data, "uneven.json");
    write_text(split, "{\"train\": [0, 1, 2, %d], \"val\": [], \"test\": []}", TOY_ROWS);

    static const struct {
        const char *given, *told;
    } ways[] = {{"", "dab 3 (0.5000), dvbt 1 (1.5000), fm 0 (1.0000), gsm 0 (1.0000)"},
                {"--class-weights none", "dab 3 (1.0000), dvbt 1 (1.0000), fm 0 (1.0000)"},
                {"--class-weights 1,2,3,4,5,6", "dab 3 (1.0000), dvbt 1 (2.0000), fm 0 (3.0000)"}};
    for (int i = 0; i < 3; i++) {
        char *line = kept_format("finetune -m %s/toy.safetensors --split %s --size tiny -b 4 --dry-run %s",
                                 fixture.data, split, ways[i].given);
        psd_must("%s", line);
        assert_contains(fixture.output, ways[i].told);
    }
}

/* ---- the same bits ---- */

typedef struct {
    const char *command, *key;
    char options[512];
    int steps; /* of the whole run */
} Steady;

/* An epoch is five steps. Of finetune no validation after the first is better, so that it ends by its patience. */
static Steady pretraining_run(void) {
    Steady s = {.command = "pretrain", .key = "train/mae_loss", .steps = 40};
    snprintf(s.options, sizeof s.options, "%s --size tiny -b 32 --epochs 8 --log-interval 1",
             psd_toy_options(s.command));
    return s;
}

static Steady finetuning_run(void) {
    Steady s = {.command = "finetune", .key = "train/loss", .steps = 35};
    snprintf(s.options, sizeof s.options,
             "%s --size tiny -b 32 --epochs 30 --log-interval 1 --early-stopping-patience 6 --learning-rate 1e-9",
             psd_toy_options(s.command));
    return s;
}

/* Trains; returns the run. */
static char *steady(const Steady *s, const char *more) {
    char *run = kept_folder();
    psd_must("%s -o %s %s", s->options, run, more);
    return run;
}

static void assert_same_run(const Steady *s, const char *a, const char *b) {
    double x[64], y[64];
    assert_same_result(a, b);
    assert_int_equal(logged(a, "train", s->key, x, 64), s->steps);
    assert_int_equal(logged(b, "train", s->key, y, 64), s->steps);
    for (int i = 0; i < s->steps; i++) assert_true(x[i] == y[i]);
}

TEST(a_resumed_run_gives_the_same_bits) {
    Steady kinds[] = {pretraining_run(), finetuning_run()};
    for (int k = 0; k < 2; k++) {
        const Steady *s = &kinds[k];
        char *whole = steady(s, "");
        if (k) assert_contains(fixture.output, "no better macro_f1 for 6 validations: stopped at epoch 7");
        for (int step = 3; step < 14; step += 5) { /* early: it must not end before the signal comes */
            char *run = kept_folder(), *options = kept_format("%s -o %s", s->options, run);
            assert_int_equal(psd_program_and_signal(run, run, step, options), 128 + SIGTERM);
            psd_must("%s --resume auto", options);
            assert_same_run(s, run, whole);
        }
        char *capped = steady(s, "--max-steps 10"); /* the end of an epoch */
        psd_must("%s -o %s --resume auto", s->options, capped);
        assert_same_run(s, capped, whole);
        psd_must("%s -o %s --resume auto%s", s->options, capped,
                 k ? " --pretrained /moved/away" : ""); /* nothing left */
        assert_same_run(s, capped, whole);
    }
}

/* While a checkpoint is written, the next step's forward is under way. */
TEST(checkpoints_are_of_one_step) {
    char *run[2];
    for (int i = 0; i < 2; i++) {
        run[i] = scratch_directory();
        psd_must("%s -o %s --encoder cnn -b 8 --max-steps 12 --save-interval 1 --keep-checkpoints 99",
                 psd_toy_options("finetune"), run[i]);
    }
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s && for f in step_*/model.safetensors; do cmp $f %s/$f; done", run[0], run[1]);
    if (status || fixture.output[0]) fail_msg("%s", fixture.output);
    for (int i = 0; i < 2; i++) free(run[i]);
}

TEST(workers_and_threads_change_no_bit) {
    static const char *const ways[] = {"--num-workers 1", "--num-workers 3", "--threads 2", "--grad-checkpointing"};
    Steady kinds[] = {pretraining_run(), finetuning_run()};
    for (int k = 0; k < 2; k++) {
        char *first = steady(&kinds[k], "");
        for (int i = 0; i < 4; i++) {
            char *run = steady(&kinds[k], ways[i]);
            assert_same_run(&kinds[k], run, first);
        }
    }
}

/* ---- refusals ---- */

/* Options that define samples or batches may not change when a run is resumed. */
TEST(options_that_may_not_change_are_named) {
    char *other = kept_path(fixture.data, "other.json"), *pooled = kept_path(fixture.data, "pooled.json");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "cp %s %s", pooled, other), 0);
    const struct {
        const char *command, *split, *before, *after, *message;
    } all[] = {
        {"pretrain", "pooled", "", "--mask-ratio 0.5", "--mask-ratio was 0.6 and is now 0.5"},
        {"pretrain", "pooled", "", "--limit 10", "--limit was 20.0 and is now 10.0"},
        {"pretrain", "pooled", "", "--hop", "--hop was false and is now true"},
        {"pretrain", "pooled", "", "--encoder cnn", "--encoder was \"transformer\" and is now \"cnn\""},
        {"pretrain", "pooled", "", "--seed 7", "--seed was 42 and is now 7"},
        {"finetune", "pooled", "", "--class-weights none", "--class-weights was \"auto\" and is now \"none\""},
        {"finetune", "pooled", "", "--split other.json", "--split was \"pooled.json\" and is now \"other.json\""},
        {"finetune", "loso", "--sensor s00", "--sensor s01", "--sensor was \"s00\" and is now \"s01\""},
        {"finetune", "few", "--sensor s00 --shots 5", "--sensor s00 --shots 10", "--shots was 5 and is now 10"},
    };
    char *here = keep(getcwd(NULL, 0));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *run = kept_folder();
        for (int again = 0; again < 2; again++) {
            int status = run_command(fixture.output, sizeof fixture.output,
                                     "cd %s && %s/%s %s -m toy.safetensors --split %s.json -o %s --size tiny -b 30 "
                                     "--max-steps 1 --threads 1 --resume auto %s",
                                     fixture.data, here, program_at("train_psd"), all[i].command, all[i].split, run,
                                     again ? all[i].after : all[i].before);
            if (status != 2 * again) fail_msg("%s: exit status %d:\n%s", all[i].after, status, fixture.output);
        }
        assert_contains(fixture.output, "--resume: ");
        assert_contains(fixture.output, all[i].message);
    }
}

/* ---- weights to start from ---- */

static void no_change(TensorList *t) { (void)t; }
static void more_layers(TensorList *t) {
    tensor_list_copy(t, "encoder.layers.0.norm1.weight", "encoder.layers.0.extra.weight");
}
static void less_of_a_layer(TensorList *t) { tensor_list_remove(t, "encoder.layers.0.norm1.bias"); }
static void no_decoder(TensorList *t) {
    for (int i = t->n - 1; i >= 0; i--)
        if (!strncmp(t->tensors[i].name, "decoder.", 8) || !strncmp(t->tensors[i].name, "projection_head.", 16))
            tensor_list_remove(t, t->tensors[i].name);
    tensor_list_copy(t, "encoder.layers.0.norm1.weight", "classifier.head.weight");
}
static void less_of_the_decoder(TensorList *t) { tensor_list_remove(t, "decoder.input_proj.bias"); }

/* The toy data are read after the weights: what is senseless in their place is not reached. */
TEST(weights_of_another_model_are_refused_before_the_data) {
    static const struct {
        void (*edit)(TensorList *t);
        const char *finetune, *pretrain; /* the error; NULL: they are taken */
    } cases[] = {
        {no_change, NULL, NULL},
        {no_decoder, NULL, NULL},
        {more_layers, "1 tensor does not fit: encoder.layers.0.extra.weight is not one of the model's tensors",
         "1 tensor does not fit: encoder.layers.0.extra.weight is not one of the model's tensors"},
        {less_of_a_layer, "1 tensor does not fit: encoder.layers.0.norm1.bias, F32 [32] in the model, is not there",
         "encoder.layers.0.norm1.bias, F32 [32] in the model, is not there"},
        {less_of_the_decoder, NULL, "1 tensor does not fit: decoder.input_proj.bias, F32 ["},
    };
    char *run = kept_folder(), *base = kept_path(run, "last/model.safetensors"),
         *senseless = kept_path(run, "senseless.safetensors");
    write_text(senseless, "senseless");
    psd_must("%s -o %s --size tiny -b 64 --max-steps 1", psd_toy_options("pretrain"), run);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TensorList list = tensor_list_read(base);
        cases[k].edit(&list);
        const char *path = tensor_list_write(&list);
        for (int pretrain = 0; pretrain < 2; pretrain++) {
            const char *message = pretrain ? cases[k].pretrain : cases[k].finetune;
            int status = psd_program("%s -m %s --split %s --size tiny -b 64 -o %s/next --%s %s",
                                     pretrain ? "pretrain" : "finetune", senseless, senseless, run,
                                     pretrain ? "base-checkpoint" : "pretrained", path);
            assert_int_equal(status, 1);
            assert_contains(fixture.output, message ? message : "senseless.safetensors");
        }
    }
}

/* Commands that are refused. Options that begin with '!' are all that the command gets. */
static const struct {
    int status;
    const char *command, *options, *message;
} refusals[] = {
    {2, "pretrain", "--config bad.yaml", "bad.yaml:2: unknown key 'warmup_epoch'; did you mean 'warmup-epochs'?"},
    {2, "pretrain", "--precision bf16-mixed", "unknown option --precision"},
    {2, "pretrain", "--gradient-clip-val 1", "unknown option --gradient-clip-val"},
    {2, "run", "!--calibrate", "unknown option --calibrate"},
    {1, "pretrain", "-b 181", "180 samples to train on are fewer than one batch of 181; give -b 180 or less"},
    {1, "finetune", "-b 181", "180 samples to train on are fewer than one batch of 181; give -b 180 or less"},
    {2, "pretrain", "--mask-ratio 1", "--mask-ratio: expected 0.01 to 0.99, found 1"},
    {2, "pretrain", "--mask-ratio 0.05", "--mask-ratio 0.05 masks 0 of 12 patches"},
    {2, "pretrain", "--warmup-epochs 5 --epochs 5", "--warmup-epochs 5 are all of the 5 epochs"},
    {2, "finetune", "--warmup-epochs 50", "--warmup-epochs 50 are all of the 50 epochs"},
    {2, "pretrain", "--devices 2", "--devices: expected 1 to 1, found 2"},
    {2, "pretrain", "--accelerator cpu --device cuda", "--accelerator cpu contradicts --device cuda"},
    {2, "run", "--accelerator gpu --device cpu", "--accelerator gpu contradicts --device cpu"},
    {1, "pretrain", "!-m toy.safetensors --split loso.json",
     "holds a split for each sensor, not one for all; choose a sensor (s00, s01, s02) with --sensor"},
    {1, "pretrain", "!-m toy.safetensors --split loso.json --sensor s9",
     "has no split for the sensor s9; there are s00, s01, s02"},
    {1, "pretrain", "--sensor s00", "there is none of s00 alone"},
    {1, "finetune", "!-m toy.safetensors --split few.json --sensor s00", "choose how many"},
    {1, "finetune", "!-m toy.safetensors --split few.json --sensor s00 --shots 7",
     "there is no split of 7 shots, but of 5, 10, 50, 100"},
    {1, "pretrain", "!-m toy.safetensors --split far.json", "row 288 of split 'train' is none of the 288 there are"},
    {1, "pretrain", "!-m toy.safetensors --split none.json", "--split none.json: No such file"},
    {2, "finetune", "!-m toy.safetensors --split pooled.json -b 8 --d-model 128 --pretrained tiny/last",
     "--d-model 128 contradicts tiny/last, which has d-model 32: leave it out"},
    {2, "finetune", "!-m toy.safetensors --split pooled.json -b 8 --n-heads 4 --pretrained tiny/last",
     "--n-heads 4 contradicts tiny/last, which has n-heads 2: leave it out"},
    {2, "evaluate", "!-m toy.safetensors --split pooled.json --n-heads 4 --checkpoint tiny/last",
     "--n-heads 4 contradicts tiny/last, which has n-heads 2: leave it out"},
    {2, "finetune", "!-m toy.safetensors --split pooled.json -b 8 --encoder cnn --pretrained tiny/last",
     "--encoder \"cnn\" contradicts tiny/last, which has encoder \"transformer\": leave it out"},
    {1, "evaluate", "!-m toy.safetensors --split pooled.json --checkpoint huge", "huge/config.json: "},
    {1, "evaluate", "!-m toy.safetensors --split pooled.json --checkpoint unsealed",
     "the options in the config.json of unsealed: size: expected tiny|small|l4|medium|large, found 'huge'"},
    {2, "pretrain", "-o ''", "--output-dir: expected a name, found none"},
    {1, "finetune", "--pretrained /nowhere", "--pretrained /nowhere: No such file"},
    {1, "finetune", "--pretrained tiny",
     "--pretrained tiny: it is the directory of a run, not of a checkpoint; did you mean tiny/best?"},
    {1, "pretrain", "--base-checkpoint tiny", "not of a checkpoint; did you mean tiny/best?"},
    {1, "evaluate", "--checkpoint tiny", "not of a checkpoint; did you mean tiny/best?"},
    {2, "pretrain", "-g 0", "--grad-accumulation: expected 1 to 65536, found 0"},
    {2, "pretrain", "--learning-rate 1e-4 --min-learning-rate 1e-3",
     "--min-learning-rate 0.001 is more than --learning-rate 0.0001"},
    {2, "evaluate", "-b 0", "--batch-size: expected 1 to 65536, found 0"},
    {1, "evaluate", "--checkpoint tiny/last",
     "--checkpoint tiny/last: its tensors: 4 tensors do not fit: "
     "classifier.head.0.weight, F32 [32, 32] in the model, is not there"},
    {2, "finetune", "--encoder cnn --freeze-encoder", "--freeze-encoder is for the transformer"},
    {2, "finetune", "--class-weights 1,2,3", "--class-weights: expected auto, none or 6 numbers above 0, found 1,2,3"},
    {2, "finetune", "--class-weights 1,2,3,4,5,0", "--class-weights: expected"},
    {2, "finetune", "!-m toy.safetensors", "which rows? give --split"},
    {2, "pretrain", "!--split pooled.json --dry-run", "no data: give the manifest with -m"},
    {2, "evaluate", "", "which model? give --checkpoint"},
    {2, "calibrate", "", "which model? give --checkpoint"},
    {1, "finetune", "!-m unknown.safetensors --split pooled.json",
     "the class of manifest row 0 is unknown: the row can be used in pretraining, not in classification"},
    {1, "run", "!-m toy.safetensors --split pooled.json -o refused --protocol loso",
     "holds one split for all sensors, none for each"},
    {2, "run", "!-m toy.safetensors --split pooled.json --protocol fewshot_loso",
     "--protocol fewshot_loso also needs --loso-split"},
    /* Errors of a later stage are reported before the first begins. */
    {2, "run",
     "!-m toy.safetensors --split pooled.json -o refused --pretrain-config batch.yaml --finetune-config bad.yaml",
     "bad.yaml:2: unknown key 'warmup_epoch'"},
    {1, "run", "!-m toy.safetensors --split pooled.json -o refused --pretrain-config batch.yaml",
     "180 samples to train on are fewer than one batch of 512"},
    {1, "run",
     "!-m toy.safetensors --split loso.json --loso-split loso.json --protocol fewshot_loso -o refused "
     "--pretrain-config batch.yaml --finetune-config batch.yaml",
     "loso.json"},
    {2, "pretrain", "--encoder cnn --grad-checkpointing", "--grad-checkpointing is for the transformer"},
    {2, "finetune", "!-m toy.safetensors --split pooled.json -b 8 --size small --pretrained tiny/last",
     "--size small (d-model 128) contradicts tiny/last, which has d-model 32: leave it out"},
};

TEST(wrong_commands_are_refused_with_the_reason) {
    char *yaml = kept_path(fixture.data, "bad.yaml"), *far = kept_path(fixture.data, "far.json"),
         *tiny = kept_path(fixture.data, "tiny"), *refused = kept_path(fixture.data, "refused"),
         *here = keep(getcwd(NULL, 0));
    write_text(yaml, "epochs: 3\nwarmup_epoch: 5\n");
    char *batch = kept_path(fixture.data, "batch.yaml");
    write_text(batch, "batch_size: 60\n");
    write_text(far, "{\"train\": [0, %d], \"val\": [], \"test\": []}", TOY_SAMPLES);
    psd_must("%s -o %s --size tiny -b 64 --epochs 1", psd_toy_options("pretrain"), tiny);
    if (run_command(
            fixture.output, sizeof fixture.output,
            "cp -rL %s/last/. %s/huge && sed -i 's/\"size\": \"tiny\"/\"size\": \"huge\"/' %s/huge/config.json && "
            "cp -rL %s/huge %s/unsealed && "
            "sed -i -z 's/,\\n \"xxh3_64\": \"[0-9a-f]*\"//' %s/unsealed/config.json",
            tiny, fixture.data, fixture.data, fixture.data, fixture.data, fixture.data))
        fail_msg("%s", fixture.output);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        bool own = refusals[i].options[0] == '!';
        int status = run_command(fixture.output, sizeof fixture.output, "cd %s && timeout 20 %s/%s %s %s %s",
                                 fixture.data, here, program_at("train_psd"), refusals[i].command,
                                 own ? "" : "-m toy.safetensors --split pooled.json -o refused --size tiny -b 60",
                                 refusals[i].options + own);
        if (status != refusals[i].status)
            fail_msg("%s %s: exit status %d:\n%s", refusals[i].command, refusals[i].options, status, fixture.output);
        assert_contains(fixture.output, refusals[i].message);
    }
    assert_int_equal(access(refused, F_OK), -1); /* nothing is left behind */
}

int main(void) { return tests_run(psd_make_toy, NULL); }
