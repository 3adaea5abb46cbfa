/* The trainer's arithmetic, seen through the program: gradients, losses and five optimizer steps of train_gpt, read
 * from the files it writes, against the independent implementation in float64 (tests/reference/make_golden.py); and
 * what must be the same number on two ways through the loop. */
#include "tests/golden.h"

#include <math.h>

enum { WIDTH = 32, CONDITIONING = 32, SAMPLES = 3, FROZEN_ROWS = 20, BASE_ROWS = 31, MAX_TENSORS = 64 };

/* Six samples, "equal" 0..2 and "unequal" 3..5, in micro-batches of three: with this seed each of the first five epochs
 * has the two groups whole, in some order (one in 100,000 seeds has). If the loader ever draws differently, another
 * seed is needed. */
static const char *const split_seed = "--seed 92848";

/* The values of make_golden.py. */
static const char *const model_options =
    "--model-dim 32 --layers 3 --heads 2 --number-text-tokens 50 --number-mel-codes 42 --max-text-tokens 14 "
    "--max-mel-tokens 20 --dropout 0 --bucketing off --threads 1 --num-workers 1 --log-interval 1 --epochs 1000";
static const char *const five_of_ten = "--max-steps 10 --warmup-steps 2 --learning-rate 1e-3 --weight-decay 0.01 "
                                       "--save-interval 1 --keep-checkpoints 20 --val-ratio 0";
static const char *const one_step = "--max-steps 1 --val-ratio 0";

static char *data;                                                              /* the directory of the manifests */
static const char *weights_path = "tests/reference/golden/weights.safetensors"; /* the base checkpoint */
static char output[1 << 16];

/* ---- the data ---- */

/* The samples of a golden batch, one line each, into two manifests. */
static void write_samples(const char *golden, FILE *own, FILE *both) {
    TensorFile file = open_golden(golden);
    const StoredTensor *ids = find(&file, "batch.", "text_ids"), *codes = find(&file, "batch.", "codes");
    const int32_t *text_lengths = find(&file, "batch.", "text_lengths")->data;
    const int32_t *code_lengths = find(&file, "batch.", "code_lengths")->data;
    float *condition = floats(&file, "batch.", "condition"), *emotion = floats(&file, "batch.", "emotion");
    for (int i = 0; i < SAMPLES; i++) {
        static const char kinds[] = "tcke";
        char names[4][32], line[512];
        for (int k = 0; k < 4; k++) snprintf(names[k], sizeof names[k], "%s_%c%d.npy", golden, kinds[k], i);
        write_npy(data, names[0], "<i4", (const int32_t *)ids->data + i * ids->dims[1], 1, text_lengths[i], 0);
        write_npy(data, names[1], "<i4", (const int32_t *)codes->data + i * codes->dims[1], 1, code_lengths[i], 0);
        write_npy(data, names[2], "<f4", condition + (ptrdiff_t)i * CONDITIONING * WIDTH, 2, CONDITIONING, WIDTH);
        write_npy(data, names[3], "<f4", emotion + (ptrdiff_t)i * WIDTH, 1, WIDTH, 0);
        snprintf(line, sizeof line,
                 "{\"id\": \"%s_%d\", \"audio_path\": \"a.wav\", \"text\": \"x\", \"speaker\": \"s\", \"language\": "
                 "\"am\", \"duration\": null, \"text_ids_path\": \"%s\", \"text_len\": %d, \"codes_path\": \"%s\", "
                 "\"code_len\": %d, \"condition_path\": \"%s\", \"condition_len\": 32, \"emo_vec_path\": \"%s\"}\n",
                 golden, i, names[0], text_lengths[i], names[1], code_lengths[i], names[2], names[3]);
        fputs(line, own);
        fputs(line, both);
    }
    free(condition);
    free(emotion);
    tensor_file_close(&file);
}

static FILE *open_manifest(const char *name) {
    FILE *file = fopen(kept_path(data, name), "w");
    assert_non_null(file);
    return file;
}

static int make_data(void **state) {
    (void)state;
    data = scratch_directory();
    FILE *both = open_manifest("both"), *equal = open_manifest("equal"), *unequal = open_manifest("unequal");
    write_samples("equal", equal, both);
    write_samples("unequal", unequal, both);
    return fclose(both) | fclose(equal) | fclose(unequal);
}

/* ---- runs ---- */

/* Trains from the golden weights on a manifest (equal, unequal, both); its directory. */
static char *train(const char *manifest, const char *options, ...) PRINTF_LIKE(2, 3);
static char *train(const char *manifest, const char *options, ...) {
    const char *build = getenv("BUILD");
    char more[1024], *run = kept_folder();
    va_list arguments;
    va_start(arguments, options);
    vsnprintf(more, sizeof more, options, arguments);
    va_end(arguments);
    int status = run_command(
        output, sizeof output, "%s/train_gpt -m %s/%s %s --base-checkpoint %s --output-dir %s --debug-dump %s/dump %s",
        build ? build : "build/release", data, manifest, model_options, weights_path, run, run, more);
    if (status) fail_msg("exit status %d:\n%s", status, output);
    return run;
}

static double logged_once(const char *run, const char *kind, const char *key) {
    double value = NAN;
    if (logged(run, kind, key, &value, 1) != 1) fail_msg("%s: no %s of kind %s", run, key, kind);
    return value;
}

static void expect(const char *what, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance * fabs(want))) fail_msg("%s is %.9g, expected %.9g", what, got, want);
}

/* ---- one step ---- */

static const char *const metrics[] = {"text_loss", "mel_loss", "mel_top1", "text_top1"}; /* as in "means" */
enum { METRICS = 4 };

/* Positions that count for metric i in a golden batch. */
static double positions(const TensorFile *golden, int i) {
    const char *lengths = i == 0 || i == 3 ? "text_lengths" : "code_lengths";
    const int32_t *of = find(golden, "batch.", lengths)->data;
    return of[0] + of[1] + of[2] + SAMPLES;
}

/* Means over all positions of the golden batches. */
static void golden_means(const char *const *names, int n, double *means, double *counts) {
    double sums[METRICS] = {0};
    memset(counts, 0, METRICS * sizeof *counts);
    for (int k = 0; k < n; k++) {
        TensorFile golden = open_golden(names[k]);
        float *of = floats(&golden, "", "means");
        for (int i = 0; i < METRICS; i++) {
            sums[i] += (double)of[i] * positions(&golden, i);
            counts[i] += positions(&golden, i);
        }
        free(of);
        tensor_file_close(&golden);
    }
    for (int i = 0; i < METRICS; i++) means[i] = sums[i] / counts[i];
}

/* The objective of a step: the weighted losses' means over each micro-batch, averaged. */
static double golden_objective(const char *const *names, int n) {
    double objective = 0;
    for (int k = 0; k < n; k++) {
        TensorFile golden = open_golden(names[k]);
        float *of = floats(&golden, "", "means");
        objective += (0.2 * (double)of[0] + 0.8 * (double)of[1]) / n;
        free(of);
        tensor_file_close(&golden);
    }
    return objective;
}

/* The run's first step against the mean of the golden batches' gradients, and its sums, and what it logged. */
static void check_first_step(const char *run, const char *const *names, int n) {
    TensorFile weights = open_golden("weights"), dump = open_in(run, "dump"), golden[2];
    double means[METRICS], counts[METRICS], squares = 0;
    for (int k = 0; k < n; k++) golden[k] = open_golden(names[k]);
    for (int t = 0; t < weights.n_tensors; t++) {
        const char *name = weights.tensors[t].name;
        int64_t count = weights.tensors[t].count;
        float *got = floats(&dump, "grad.", name), *want = xcalloc((size_t)count, sizeof *want);
        for (int k = 0; k < n; k++) {
            float *part = floats(&golden[k], "grad.", name);
            for (int64_t i = 0; i < count; i++) want[i] += part[i] / (float)n;
            free(part);
        }
        for (int64_t i = 0; i < count; i++) squares += (double)want[i] * (double)want[i];
        assert_close(name, got, want, count, 2e-5);
        free(got);
        free(want);
    }
    golden_means(names, n, means, counts);
    for (int i = 0; i < METRICS; i++) {
        char *key = kept_format("train/%s", metrics[i]);
        float *sum = floats(&dump, "sum.", metrics[i]);
        expect(metrics[i], (double)*sum, means[i] * counts[i], 1e-5);
        expect(key, logged_once(run, "train", key), means[i], 1e-5);
        free(sum);
    }
    float *loss = floats(&dump, "", "loss");
    expect("loss", (double)*loss, golden_objective(names, n), 1e-5);
    free(loss);
    expect("grad_norm", logged_once(run, "train", "train/grad_norm"), sqrt(squares), 2e-5);
    for (int k = 0; k < n; k++) tensor_file_close(&golden[k]);
    tensor_file_close(&dump);
    tensor_file_close(&weights);
}

TEST(a_step_has_the_golden_gradients_and_losses) {
    const char *const names[] = {"equal", "unequal"};
    for (int i = 0; i < 2; i++) {
        char *run = train(names[i], "%s -b 3 -g 1", one_step);
        check_first_step(run, names + i, 1);
    }
}

TEST(accumulated_gradients_are_the_mean_of_the_micro_batches) {
    const char *const names[] = {"equal", "unequal"};
    char *run = train("both", "%s -b 3 -g 2 %s", one_step, split_seed);
    check_first_step(run, names, 2);
}

/* ---- five steps ---- */

/* The weights have moved as the golden ones have, and frozen rows have not. */
static void check_moves(const char *checkpoint, const char *golden_name, int frozen) {
    static const char *const tables[] = {"text_embedding.weight", "text_head.weight", "text_head.bias"};
    TensorFile before = open_golden("weights"), golden = open_golden(golden_name);
    TensorFile after = open_in(checkpoint, "model.safetensors");
    compare_moves(checkpoint, &before, &golden, "after.", &after, 2e-4);
    for (int i = 0; frozen && i < 3; i++) {
        const StoredTensor *start = find(&before, "", tables[i]);
        size_t row = start->bytes / (size_t)start->dims[0];
        assert_memory_equal(find(&after, "", tables[i])->data, start->data, (size_t)frozen * row);
    }
    tensor_file_close(&before);
    tensor_file_close(&golden);
    tensor_file_close(&after);
}

/* The first five of ten steps: norms before clipping, rates, weights. */
static void check_five_steps(const char *run, const char *golden_name, int frozen) {
    static const double factors[] = {0, 0.5, 1, 0.961939766, 0.853553391}; /* cosine from step 2 to 10 */
    TensorFile golden = open_golden(golden_name);
    float *want = floats(&golden, "", "norms");
    double norms[5], rates[5];
    char *checkpoint = kept_path(run, "step_00000005");
    assert_int_equal(logged(run, "train", "train/grad_norm", norms, 5), 5);
    assert_int_equal(logged(run, "train", "train/lr", rates, 5), 5);
    for (int k = 0; k < 5; k++) {
        expect("grad_norm", norms[k], (double)want[k], 2e-5);
        expect("lr", rates[k], 1e-3 * factors[k], 1e-6);
    }
    check_moves(checkpoint, golden_name, frozen);
    free(want);
    tensor_file_close(&golden);
}

/* The rate of the first step is 0: the second step gives the same losses for the same samples, and so does a line for
 * both steps. */
TEST(a_log_line_is_the_mean_of_its_own_steps) {
    const char *const names[] = {"equal", "unequal"};
    char *each = train("both", "-b 3 -g 2 --max-steps 2 --warmup-steps 2 --val-ratio 0");
    char *both = train("both", "-b 3 -g 2 --max-steps 2 --warmup-steps 2 --val-ratio 0 --log-interval 2");
    double means[METRICS], counts[METRICS], values[3];
    golden_means(names, 2, means, counts);
    for (int i = 0; i < METRICS; i++) {
        char *key = kept_format("train/%s", metrics[i]);
        assert_int_equal(logged(each, "train", key, values, 3), 2);
        expect(key, values[0], means[i], 1e-5);
        expect(key, values[1], means[i], 1e-5);
        assert_int_equal(logged(both, "train", key, values, 3), 1);
        expect(key, values[0], means[i], 1e-5);
    }
}

TEST(five_steps_are_the_golden_ones) {
    for (int g = 1; g <= 2; g++) { /* twice the one batch is that batch */
        char *run = train("equal", "%s -b 3 -g %d --grad-clip 1", five_of_ten, g);
        check_five_steps(run, "equal", 0);
    }
}

TEST(five_accumulated_steps_with_frozen_rows_are_the_golden_ones) {
    char *run =
        train("both", "%s -b 3 -g 2 --grad-clip 0.25 --frozen-text-rows %d %s", five_of_ten, FROZEN_ROWS, split_seed);
    check_five_steps(run, "unequal", FROZEN_ROWS);
    free(run);
}

TEST(a_resumed_run_takes_the_golden_steps) {
    char *first =
        train("both", "%s -b 3 -g 2 --grad-clip 0.25 --frozen-text-rows %d %s", five_of_ten, FROZEN_ROWS, split_seed);
    char *run =
        train("both", "%s -b 3 -g 2 --grad-clip 0.25 %s --resume %s/step_00000003", five_of_ten, split_seed, first);
    check_moves(kept_path(run, "step_00000005"), "unequal", FROZEN_ROWS);
    free(first);
    free(run);
}

/* ---- the same numbers on two ways ---- */

static void check_same_step(const char *a, const char *b) {
    TensorFile weights = open_golden("weights"), x = open_in(a, "dump"), y = open_in(b, "dump");
    for (int t = 0; t < weights.n_tensors; t++) {
        const char *name = weights.tensors[t].name;
        float *got = floats(&x, "grad.", name), *want = floats(&y, "grad.", name);
        assert_close(name, got, want, weights.tensors[t].count, 1e-5); /* the sum's order is another */
        free(got);
        free(want);
    }
    expect("grad_norm", logged_once(a, "train", "train/grad_norm"), logged_once(b, "train", "train/grad_norm"), 1e-6);
    for (int i = 0; i < METRICS; i++) {
        char *key = kept_format("train/%s", metrics[i]);
        expect(key, logged_once(a, "train", key), logged_once(b, "train", key), 1e-6);
    }
    tensor_file_close(&weights);
    tensor_file_close(&x);
    tensor_file_close(&y);
}

TEST(loss_norm_batch_makes_one_batch_of_the_micro_batches) {
    static const struct { int b, g; } ways[] = {{3, 2}, {2, 3}, {1, 6}};
    const char *const norms[] = {"batch", "micro"};
    for (int k = 0; k < 2; k++) { /* of one micro-batch both are the same */
        char *whole = train("both", "%s -b 6 -g 1 --loss-norm %s", one_step, norms[k]);
        for (int i = 0; i < 3; i++) {
            char *run = train("both", "%s -b %d -g %d --loss-norm batch", one_step, ways[i].b, ways[i].g);
            check_same_step(run, whole);
        }
    }
    char *batch = train("both", "%s -b 1 -g 6 --loss-norm batch", one_step);
    char *micro = train("both", "%s -b 1 -g 6 --loss-norm micro", one_step);
    double x = logged_once(batch, "train", "train/grad_norm"), y = logged_once(micro, "train", "train/grad_norm");
    assert_true(fabs(x / y - 1) > 1e-3); /* or nothing was shown above */
}

static void check_validation(const char *run, const char *const *names, int n, bool as_trained) {
    double means[METRICS], counts[METRICS];
    golden_means(names, n, means, counts);
    for (int i = 0; i < METRICS; i++) {
        char *key = kept_format("val/%s", metrics[i]), *trained = kept_format("train/%s", metrics[i]);
        double value = logged_once(run, "val", key);
        char *printed = kept_format("%s=%.4f", metrics[i], value);
        expect(key, value, means[i], 1e-5);
        if (as_trained) expect(key, value, logged_once(run, "train", trained), 1e-6);
        assert_contains(strstr(output, "[Val]"), printed);
    }
    expect("val/objective", logged_once(run, "val", "val/objective"), 0.2 * means[0] + 0.8 * means[1], 1e-5);
}

TEST(validation_and_training_give_the_same_losses) {
    const char *const names[] = {"equal", "unequal"};
    static const int sizes[] = {6, 4, 1}; /* one batch; two of different sizes; six */
    for (int i = 0; i < 3; i++) {
        char *run =
            train("both", "-b 3 -g 2 --max-steps 1 --learning-rate 0 --val-manifest %s/both --val-batch-size %d", data,
                  sizes[i]);
        check_validation(run, names, 2, true);
        assert_contains(output, "warning: --val-manifest ");
        assert_contains(output, "/both: validation is on samples that are trained on");
    }
    char *run =
        train("both", "-b 3 -g 2 --max-steps 1 --val-manifest %s/both --val-batch-size 3 --max-val-batches 1", data);
    check_validation(run, names, 1, false);
    run = train("equal", "-b 3 --max-steps 1 --val-manifest %s/unequal", data);
    assert_null(strstr(output, "trained on; give another"));
}

/* ---- a base checkpoint with a smaller vocabulary ---- */

static const char *const text_tables[] = {"text_embedding.weight", "text_head.weight", "text_head.bias"};
static const float of_its_own[6] = {1, -2, 3, -4, 5, -6};

/* The golden weights with the leading rows of the text tables, and a tensor that the model does not have. */
static void write_small_base(const char *path) {
    TensorFile file = open_golden("weights");
    TensorToWrite tensors[MAX_TENSORS];
    Error error;
    int n = 0;
    assert_true(file.n_tensors < MAX_TENSORS);
    for (; n < file.n_tensors; n++) {
        const StoredTensor *t = &file.tensors[n];
        tensors[n] = (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensors[n].dims, t->dims, sizeof t->dims);
        for (int i = 0; i < 3; i++)
            if (!strcmp(t->name, text_tables[i])) tensors[n].dims[0] = BASE_ROWS;
    }
    tensors[n++] = (TensorToWrite){
        .name = "conditioning_encoder.extra", .dtype = "F32", .rank = 2, .dims = {2, 3}, .data = of_its_own};
    if (!safetensors_write(path, tensors, n, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    tensor_file_close(&file);
}

/* All rows of the base but its last, the stop token's place, are as they were; every other has moved since `earlier`.
 */
static void check_frozen(const char *checkpoint, const char *earlier) {
    TensorFile base = open_golden("weights"), before = open_in(earlier, "model.safetensors");
    TensorFile after = open_in(checkpoint, "model.safetensors");
    const StoredTensor *carried = find(&after, "", "conditioning_encoder.extra");
    assert_int_equal(carried->bytes, sizeof of_its_own);
    assert_memory_equal(carried->data, of_its_own, sizeof of_its_own);
    for (int i = 0; i < 3; i++) {
        const StoredTensor *was = find(&base, "", text_tables[i]), *then = find(&before, "", text_tables[i]);
        const StoredTensor *is = find(&after, "", text_tables[i]);
        size_t row = is->bytes / (size_t)is->dims[0], frozen = (BASE_ROWS - 1) * row;
        assert_int_equal(is->dims[0], 51);
        assert_memory_equal(is->data, was->data, frozen);
        for (size_t at = frozen; at < is->bytes; at += row)
            if (!memcmp((const char *)is->data + at, (const char *)then->data + at, row))
                fail_msg("row %d of %s did not move", (int)(at / row), text_tables[i]);
    }
    tensor_file_close(&base);
    tensor_file_close(&before);
    tensor_file_close(&after);
}

TEST(a_resumed_run_keeps_frozen_rows_and_carried_tensors) {
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    const char *golden = weights_path;
    char *small = kept_path(data, "small.safetensors");
    write_small_base(small);
    weights_path = small;
    char *run = train("both", "%s -b 3 -g 1", five_of_ten), *resumed;
    assert_contains(output, "3 resized, 1 carried");
    char *at = kept_path(run, "step_00000005"), *end = kept_path(run, "last"), *other;
    resumed = train("both", "%s -b 3 -g 1 --resume %s", five_of_ten, at);
    other = kept_path(resumed, "last");
    check_frozen(end, at);
    check_frozen(other, at);
    for (int i = 0; i < 2; i++)
        if (run_command(output, sizeof output, "cmp %s/%s %s/%s", end, files[i], other, files[i]))
            fail_msg("%s", output);
    /* without the base file, too: the checkpoint knows */
    weights_path = golden;
    resumed = train("both", "%s -b 3 -g 1 --resume %s", five_of_ten, at);
    other = kept_path(resumed, "last");
    check_frozen(other, at);
}

int main(void) { return tests_run(make_data, NULL); }
