/* --estimate: the counted work against closed forms worked out here, the times against arithmetic by hand on a made-up
 * card, and what the programs print. */
#include <jansson.h>
#include <sys/resource.h>

#include "kernels/ops_table.h"
#include "tests/helpers.h"
#include "train/estimate.h"

static char output[1 << 17];

/* ---- the programs ---- */

/* Runs a trainer, which must exit with `status`; its stdout and stderr, or with `only_stdout` that alone. */
static void run(int status, bool only_stdout, const char *arguments) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    int got = run_command(output, sizeof output, "%s/%s%s", build, arguments, only_stdout ? " 2>/dev/null" : "");
    if (got != status) fail_msg("%s: exit %d instead of %d: %s", arguments, got, status, output);
}

/* The estimate as JSON; json_decref. */
static json_t *estimate(const char *arguments) {
    json_error_t error;
    char *line = xformat("%s --estimate --json", arguments);
    run(0, true, line);
    json_t *root = json_loads(output, 0, &error);
    if (!root) fail_msg("%s: line %d: %s", line, error.line, error.text);
    free(line);
    return root;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("there is no number '%s'", key);
    return json_number_value(value);
}

static const json_t *first_card(const json_t *root) { return json_array_get(json_object_get(root, "gpus"), 0); }

/* Of one operation of the first card: "flops", "bytes", "calls", ...; 0 if it is never called. */
static double of_operation(const json_t *root, const char *name, const char *key) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(first_card(root), "operations"), i,
                       row) if (!strcmp(json_string_value(json_object_get(row, "operation")), name)) return number(row,
                                                                                                                   key);
    return 0;
}

static void expect_exactly(const char *what, double got, double want) {
    if (got != want) fail_msg("%s: got %.17g, want %.17g", what, got, want);
}

static void expect_near(const char *what, double got, double want, double relative) {
    if (!(fabs(got - want) <= relative * fabs(want))) fail_msg("%s: got %.9g, want %.9g", what, got, want);
}

/* ---- FLOPs of the PSD models ---- */

typedef struct {
    const char *size;
    double d, layers, heads, ff, e, decoder_layers, q, head; /* of the model */
    double batch;
    /* The specification's forward MFLOP a sample (its table of FLOPs): the encoder on 5 tokens, the decoder, the
     * encoder on twice 13, the projection head, similarities; and finetuning. It has none for tiny (0). */
    double mae, decoder, sicr, project, similarity, finetune;
} Size;

static const Size sizes[] = {
    {"tiny", 32, 1, 2, 64, 16, 1, 16, 32, 256, 0, 0, 0, 0, 0, 0},
    {"small", 128, 4, 4, 256, 64, 2, 64, 128, 256, 5.3, 1.7, 28.1, 0.10, 0.13, 14.1},
    {"l4", 256, 6, 8, 1024, 64, 2, 64, 128, 256, 47.4, 1.8, 247.6, 0.33, 0.13, 123.9},
    {"medium", 512, 8, 8, 2048, 128, 4, 128, 256, 512, 252.2, 13.6, 1314.6, 1.31, 0.52, 657.5},
    {"large", 1024, 16, 16, 4096, 128, 4, 128, 256, 512, 2015, 14.2, 10492, 4.7, 0.5, 5246},
};
enum { N_SIZES = sizeof sizes / sizeof *sizes, VISIBLE = 5, MASKED = 7, PATCHES = 12, SEQUENCE = 13, PATCH = 16 };

/* A linear layer without and with its bias, of so many rows. */
static double product(double rows, double in, double out) { return 2 * rows * in * out; }
static double linear(double rows, double in, double out) { return product(rows, in, out) + rows * out; }
/* GELU is 9 more a number, and its dropout 1 more. */
static double linear_gelu(double rows, double in, double out, bool dropout) {
    return linear(rows, in, out) + (dropout ? 10 : 9) * rows * out;
}

/* The matrix products of blocks, forward, in which the last block works on `rows` only behind its attention. In
 * linear_forward and in linear_gelu_forward, whose biases and GELU count too. */
static double blocks(double layers, double rows, double last_rows, double d, double ff, bool dropout, double *gelu) {
    *gelu += (layers - 1) * linear_gelu(rows, d, ff, dropout) + linear_gelu(last_rows, d, ff, dropout);
    return layers * linear(rows, d, 3 * d) + (layers - 1) * (linear(rows, d, d) + linear(rows, ff, d)) +
           linear(last_rows, d, d) + linear(last_rows, ff, d);
}

/* Attention, forward, of a block: 4 d a pair of rows; scale, maximum, exponential, sum and normalisation 5 a pair and
 * head, dropout 2 more. */
static double attention(double pairs, double d, double heads, bool dropout) {
    return pairs * (4 * d + (dropout ? 7 : 5) * heads);
}

static char *psd(const char *command, const Size *s, const char *more) {
    return xformat("train_psd %s --size %s -b %.0f --gpu l40s --amp %s", command, s->size, s->batch, more);
}

/* Of B samples: B V bare rows and 26 B in whole sequences; of their last block's output B V + 2 B rows are read. The
 * decoder has 12 B rows, of which B M are read. */
static void pretraining_counts_what_the_closed_form_says(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        const Size *s = &sizes[i];
        double B = s->batch, rows = B * (VISIBLE + 2 * SEQUENCE), read = B * (VISIBLE + 2), gelu = 0;
        double patches = linear(B * (VISIBLE + 2 * PATCHES), PATCH, s->d);
        double forward = patches + blocks(s->layers, rows, read, s->d, s->ff, true, &gelu) +
                         linear(B * VISIBLE, s->d, s->e) +
                         blocks(s->decoder_layers, B * PATCHES, B * MASKED, s->e, 2 * s->e, true, &gelu) +
                         linear(B * MASKED, s->e, PATCH) + linear(2 * B, s->d, s->q);
        double pairs = B * (VISIBLE * VISIBLE + 2 * SEQUENCE * SEQUENCE), decoder_pairs = B * PATCHES * PATCHES;
        char *line = psd("pretrain", s, "");
        json_t *root = estimate(line);
        gelu += linear_gelu(2 * B, s->d, s->d, false);
        expect_exactly("linear_forward", of_operation(root, "linear_forward", "flops"), forward);
        expect_exactly("linear_gelu_forward", of_operation(root, "linear_gelu_forward", "flops"), gelu);
        expect_exactly("attention_forward", of_operation(root, "attention_forward", "flops"),
                       s->layers * attention(pairs, s->d, s->heads, true) +
                           s->decoder_layers * attention(decoder_pairs, s->e, 4, true));
        expect_exactly("nt_xent_forward", of_operation(root, "nt_xent_forward", "flops"),
                       2 * B * (2 * B - 1) * (2 * s->q + 4) + 3 * 2 * B);
        json_decref(root);
        free(line);
    }
}

/* The same closed form without the rows that the last block leaves out, beside the specification's table, which has no
 * biases, GELU and softmax and rounds to one or two digits behind the point. */
static void the_closed_form_is_the_specifications(void **state) {
    (void)state;
    for (int i = 1; i < N_SIZES; i++) {
        const Size *s = &sizes[i];
        double d = s->d, e = s->e, token = 8 * d * d + 4 * d * s->ff, small = 8 * e * e + 8 * e * e;
        double of_5 = s->layers * (VISIBLE * token + 4 * VISIBLE * VISIBLE * d) + product(VISIBLE, PATCH, d);
        double of_13 = s->layers * (SEQUENCE * token + 4 * SEQUENCE * SEQUENCE * d) + product(PATCHES, PATCH, d);
        double decoder = s->decoder_layers * (PATCHES * small + 4 * PATCHES * PATCHES * e) + product(VISIBLE, d, e) +
                         product(PATCHES, e, PATCH);
        assert_near(of_5 / 1e6, s->mae, 0.05 + 0.001 * s->mae);
        assert_near(decoder / 1e6, s->decoder, 0.05 + 0.005 * s->decoder);
        assert_near(2 * of_13 / 1e6, s->sicr, 0.05 + 0.001 * s->sicr);
        assert_near((product(2, d, d) + product(2, d, s->q)) / 1e6, s->project, 0.05);
        assert_near(8 * s->batch * s->q / 1e6, s->similarity, 0.05);
        assert_near((of_13 + product(1, d, s->head) + product(1, s->head, 6)) / 1e6, s->finetune,
                    0.05 + 0.001 * s->finetune);
    }
}

/* Of the last block's output only CLS is read. */
static void finetuning_counts_what_the_closed_form_says(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        const Size *s = &sizes[i];
        double B = s->batch, gelu = linear_gelu(B, s->d, s->head, true);
        double forward = linear(B * PATCHES, PATCH, s->d) +
                         blocks(s->layers, B * SEQUENCE, B, s->d, s->ff, false, &gelu) + linear(B, s->head, 6);
        char *line = psd("finetune", s, "--dropout 0");
        json_t *root = estimate(line);
        expect_exactly("linear_forward", of_operation(root, "linear_forward", "flops"), forward);
        expect_exactly("linear_gelu_forward", of_operation(root, "linear_gelu_forward", "flops"), gelu);
        expect_exactly("attention_forward", of_operation(root, "attention_forward", "flops"),
                       s->layers * attention(B * SEQUENCE * SEQUENCE, s->d, s->heads, false));
        json_decref(root);
        free(line);
    }
}

static void a_step_is_three_forwards_and_an_update(void **state) {
    (void)state;
    const Size *s = &sizes[3];
    char *line = psd("pretrain", s, "");
    json_t *root = estimate(line);
    double parameters = number(root, "parameters");
    double forward = of_operation(root, "linear_forward", "flops") + of_operation(root, "linear_gelu_forward", "flops");
    double backward =
        of_operation(root, "linear_backward", "flops") + of_operation(root, "gelu_linear_backward", "flops");
    expect_near("backward", backward, 2 * forward, 0.01); /* the patches' gradient is nobody's; GELU's slope is 18 */
    /* Weights, moments and gradients read, the first three and a 16-bit copy written; segments end on whole lines. */
    expect_near("AdamW", of_operation(root, "adamw_update", "bytes"), 30 * parameters, 1e-3);
    expect_near("clear", of_operation(root, "clear gradients", "bytes"), 4 * parameters, 1e-3);
    expect_exactly("updates", of_operation(root, "adamw_update", "calls"), 1);
    json_decref(root);
    free(line);
    line = psd("pretrain", s, "-g 3");
    root = estimate(line);
    expect_exactly("accumulated", of_operation(root, "linear_gelu_forward", "calls"), 3 * (8 + 4 + 1));
    expect_exactly("updates", of_operation(root, "adamw_update", "calls"), 1);
    json_decref(root);
    free(line);
}

/* Checkpointing does a block's forward again, but for what the backward has at hand. */
static void recomputed_blocks_cost_a_forward_more(void **state) {
    (void)state;
    json_t *once = estimate("train_gpt --amp --gpu l4"),
           *twice = estimate("train_gpt --amp --gpu l4 --grad-checkpointing");
    double calls = of_operation(once, "linear_gelu_forward", "calls");
    expect_exactly("calls", calls, 4 * 24);
    expect_exactly("calls", of_operation(twice, "linear_gelu_forward", "calls"), 2 * calls);
    expect_exactly("calls", of_operation(twice, "linear_backward", "calls"),
                   of_operation(once, "linear_backward", "calls"));
    assert_true(number(json_object_get(twice, "memory_bytes"), "activations") <
                number(json_object_get(once, "memory_bytes"), "activations") / 2);
    json_decref(once);
    json_decref(twice);
}

/* Four micro-batches of 8 x 387 rows (34 + 102 + 251), as test_model.c counts them by hand: 2 x 471 859 200 block
 * weights a row, causal attention 2 x 387^2 x 1280 a layer and sequence, heads over the 101 and 251 rows that have a
 * target. The backward is twice the forward; norms, GELU and attention's extra product are what the 1 % is for. */
static void the_full_gpt_is_counted(void **state) {
    (void)state;
    json_t *root = estimate("train_gpt -b 8 -g 4 --amp --number-text-tokens 24000 --gpu l4");
    double forward =
        8 * (387 * 2 * 471859200.0 + 24 * 2 * 387.0 * 387 * 1280 + 2 * 1280 * (24001.0 * 101 + 8194.0 * 251));
    expect_near("a step", number(json_object_get(root, "step"), "flops"), 4 * 3 * forward, 0.01);
    expect_exactly("tokens", number(json_object_get(root, "step"), "tokens"), 4 * 8 * 387);
    assert_true(json_is_true(json_object_get(root, "typical_data")));
    json_decref(root);
}

/* ---- the time, by hand ---- */

/* 200 TFLOP/s in 16 bits of which half is sustained, 40 in TF32, 10 in f32 of which half is; 1 TB/s of which half is; a
 * kernel costs 10 us. */
static const Card made_up = {.name = "made up",
                             .key = "made-up",
                             .capability = 80,
                             .f32 = 10e12,
                             .tf32 = 40e12,
                             .half = 200e12,
                             .bandwidth = 1e12,
                             .memory = 0x1p34,
                             .l2 = 0x1p25,
                             .pcie = 10e9,
                             .watts = 100,
                             .of_tensor = 0.5,
                             .of_f32 = 0.5,
                             .of_bandwidth = 0.5,
                             .launch = 10e-6};

static void expect_op(DType half, bool tf32, int op, CallWork calls, double compute, double memory, double launches,
                      Bound bound) {
    Machine machine = {&made_up, half, tf32, 1, NULL};
    OpWork work = {0};
    op_work_add(&work, calls);
    OpTime t = estimate_op(&machine, op, &work);
    expect_near("compute", t.compute, compute, 1e-12);
    expect_near("memory", t.memory, memory, 1e-12);
    expect_near("launches", t.launches, launches, 1e-12);
    expect_near("together", t.seconds, (compute > memory ? compute : memory) + launches, 1e-12);
    assert_int_equal(t.bound, bound);
}

static void an_operation_takes_the_larger_of_compute_and_memory(void **state) {
    (void)state;
    /* 1e12 FLOPs at 100 TFLOP/s, 1e9 bytes at 500 GB/s, 2 calls of a kernel each. */
    expect_op(DTYPE_BF16, true, OP_linear_forward, (CallWork){2, 1e12, 1e9}, 10e-3, 2e-3, 20e-6, BY_COMPUTE);
    expect_op(DTYPE_BF16, true, OP_linear_forward, (CallWork){2, 1e11, 1e9}, 1e-3, 2e-3, 20e-6, BY_MEMORY);
    expect_op(DTYPE_BF16, true, OP_linear_forward, (CallWork){300, 1e11, 1e9}, 1e-3, 2e-3, 3e-3, BY_LAUNCHES);
    /* The backward is three kernels. */
    expect_op(DTYPE_BF16, true, OP_linear_backward, (CallWork){2, 1e12, 1e9}, 10e-3, 2e-3, 60e-6, BY_COMPUTE);
    /* In f32: TF32 at 20 TFLOP/s, without it FMAs at 5. */
    expect_op(DTYPE_F32, true, OP_linear_forward, (CallWork){2, 1e12, 1e9}, 50e-3, 2e-3, 20e-6, BY_COMPUTE);
    expect_op(DTYPE_F32, false, OP_linear_forward, (CallWork){2, 1e12, 1e9}, 200e-3, 2e-3, 20e-6, BY_COMPUTE);
    /* Attention: half of what products sustain; in f32 by FMAs. */
    expect_op(DTYPE_BF16, true, OP_attention_forward, (CallWork){2, 1e12, 1e9}, 20e-3, 2e-3, 20e-6, BY_COMPUTE);
    expect_op(DTYPE_F32, true, OP_attention_forward, (CallWork){2, 1e12, 1e9}, 400e-3, 2e-3, 20e-6, BY_COMPUTE);
    /* All else is no matter of tensor cores. */
    expect_op(DTYPE_BF16, true, OP_layernorm_forward, (CallWork){2, 1e10, 5e9}, 2e-3, 10e-3, 20e-6, BY_MEMORY);
}

static void voltas_attention_is_not_on_tensor_cores(void **state) {
    (void)state;
    Card volta = made_up;
    Machine machine = {&volta, DTYPE_F16, true, 1, NULL};
    OpWork work = {0};
    op_work_add(&work, (CallWork){1, 1e12, 0});
    volta.capability = 75;
    assert_near(estimate_op(&machine, OP_attention_forward, &work).compute, 20e-3, 1e-12);
    volta.capability = 70;
    assert_near(estimate_op(&machine, OP_attention_forward, &work).compute, 400e-3, 1e-12);
}

static void a_step_takes_its_operations_or_what_feeds_it(void **state) {
    (void)state;
    Machine machine = {&made_up, DTYPE_BF16, true, 2, NULL};
    Work work = {.batch_bytes = 8e6}; /* 1 ms at 80 % of 10 GB/s; by two workers 6.67 ms at 1.2 GB/s */
    op_work_add(&work.ops[OP_linear_forward], (CallWork){2, 1e12, 1e9});
    op_work_add(&work.ops[OP_layernorm_forward], (CallWork){2, 1e10, 5e9});
    op_work_add(&work.ops[ESTIMATE_CLEAR], (CallWork){1, 0, 1e9});
    WorkTime t = estimate_work(&machine, &work);
    expect_near("a step", t.seconds, 10e-3 + 10e-3 + 2e-3 + 5 * 10e-6, 1e-12);
    expect_near("compute", t.parts[BY_COMPUTE], 10e-3, 1e-12);
    expect_near("memory", t.parts[BY_MEMORY], 12e-3, 1e-12);
    expect_near("launches", t.parts[BY_LAUNCHES], 50e-6, 1e-12);
    expect_near("MFU", t.mfu, 1.01e12 / t.seconds / 200e12, 1e-12);
    expect_near("copy", t.copy, 1e-3, 1e-12);
    expect_near("loader", t.loader, 8e6 / 1.2e9, 1e-12);
    assert_int_equal(t.bound, BY_MEMORY);
    work.batch_bytes = 40e6;
    t = estimate_work(&machine, &work);
    expect_near("the loader bounds", t.seconds, 40e6 / 1.2e9, 1e-12);
    assert_int_equal(t.bound, BY_LOADER);
    machine.workers = 100;
    work.batch_bytes = 400e6;
    t = estimate_work(&machine, &work);
    expect_near("the copy bounds", t.seconds, 50e-3, 1e-12);
    assert_int_equal(t.bound, BY_COPY);
}

/* The program's own sums: the operations' times are the step's, and the step's the run's. */
static void the_parts_make_the_whole(void **state) {
    (void)state;
    json_t *root = estimate("train_gpt -b 8 -g 4 --amp --gpu a100-40 --max-steps 500 --save-interval 200 --price 2"),
           *row;
    const json_t *card = first_card(root);
    double sum = 0, steps = number(root, "steps");
    size_t i;
    json_array_foreach(json_object_get(card, "operations"), i, row) sum += number(row, "seconds");
    expect_near("a step", number(card, "step_seconds"), sum, 1e-12);
    expect_exactly("steps", steps, 500);
    expect_near("steps", number(card, "steps_seconds"), 500 * sum, 1e-12);
    expect_exactly("checkpoints", number(root, "checkpoints"), 3); /* 200, 400 and the last */
    /* Less than a second each to write beside the training: only the copy is waited for. */
    expect_near("checkpoints", number(card, "checkpoint_seconds"),
                3 * number(root, "checkpoint_bytes") / (0.8 * 31.5e9), 1e-9);
    expect_near("all", number(card, "seconds"), number(card, "steps_seconds") + number(card, "checkpoint_seconds"),
                1e-12);
    expect_near("dollars", number(card, "dollars"), 2 * number(card, "seconds") / 3600, 1e-12);
    json_decref(root);
}

/* ---- data ---- */

/* n lines that name files which are not there; in turns 60 and 100 text tokens, 200 and 300 codes. free() */
static char *make_manifest(int n) {
    char *directory = scratch_directory(), *path = path_join(directory, "m.jsonl");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < n; i++)
        fprintf(file,
                "{\"id\": \"s%d\", \"audio_path\": \"a.wav\", \"text\": \"x\", \"speaker\": \"s\", \"language\": "
                "\"am\", \"duration\": null, \"text_ids_path\": \"t%d.npy\", \"text_len\": %d, \"codes_path\": "
                "\"c%d.npy\", \"code_len\": %d, \"condition_path\": \"k%d.npy\", \"condition_len\": 32, "
                "\"emo_vec_path\": \"e%d.npy\"}\n",
                i, i, i % 2 ? 60 : 100, i, i % 2 ? 200 : 300, i, i);
    assert_int_equal(fclose(file), 0);
    free(directory);
    return path;
}

static void the_manifests_own_lengths_count(void **state) {
    (void)state;
    char *path = make_manifest(40),
         *line = xformat("train_gpt -m %s --val-ratio 0 -b 4 -g 2 --epochs 3 --val-interval 4 --gpu l4", path);
    json_t *root = estimate(line);
    const json_t *epoch = json_object_get(root, "epoch"), *step = json_object_get(root, "step");
    expect_exactly("samples", number(epoch, "samples"), 40);
    expect_exactly("micro-batches", number(epoch, "micro_batches"), 10);
    expect_exactly("tokens", number(epoch, "tokens"), 20 * (34 + 62 + 201) + 20 * (34 + 102 + 301));
    double pairs = 20 * (297 * 298 / 2 + 437 * 438 / 2); /* causal; 24 blocks, 1280 wide, 20 heads, dropout */
    expect_near("attention", of_operation(root, "attention_forward", "flops"),
                24 * attention(pairs, 1280, 20, true) / 5, 1e-12);
    expect_near("tokens of a step", number(step, "tokens"), number(epoch, "tokens") / 5, 1e-12);
    expect_exactly("steps", number(root, "steps"), 15);
    assert_true(json_is_false(json_object_get(root, "typical_data")));
    json_decref(root);
    free(line);
    /* A quarter is held out, in some number of samples that the hash of the ids decides. */
    line = xformat("train_gpt -m %s --val-ratio 0.25 -b 4 -g 2 --epochs 3 --val-interval 4 --gpu l4", path);
    root = estimate(line);
    double n = number(json_object_get(root, "epoch"), "samples"), steps = floor(3 * ceil(n / 4) / 2);
    assert_true(n > 20 && n < 40);
    expect_exactly("steps", number(root, "steps"), steps);
    expect_exactly("validations", number(root, "validations"), ceil(steps / 4));
    assert_true(number(first_card(root), "validation_seconds") > 0);
    json_decref(root);
    free(line);
    free(path);
}

/* With a quarter held out: a validation every `each` steps (0: whenever an epoch has ended) and after the last; a
 * checkpoint every `save` steps (0: none), after each validation, and at the end. */
static void expect_pauses(const char *manifest, int64_t each, int64_t save) {
    char *line = xformat("train_gpt -m %s --val-ratio 0.25 -b 4 -g 3 --epochs 5 --val-interval %lld --save-interval "
                         "%lld --gpu l4",
                         manifest, (long long)each, (long long)save);
    json_t *root = estimate(line);
    int64_t batches = (int64_t)number(json_object_get(root, "epoch"), "micro_batches"), steps = 5 * batches / 3;
    int64_t validations = 0, checkpoints = 0;
    for (int64_t s = 1; s <= steps; s++) {
        bool ended = 3 * s / batches > 3 * (s - 1) / batches;
        bool validated = s == steps || (each ? s % each == 0 : ended);
        validations += validated;
        checkpoints += validated || (save && s % save == 0);
    }
    expect_exactly("steps", number(root, "steps"), (double)steps);
    expect_exactly("validations", number(root, "validations"), (double)validations);
    expect_exactly("checkpoints", number(root, "checkpoints"), (double)checkpoints);
    json_decref(root);
    free(line);
}

static void validations_and_checkpoints_are_counted(void **state) {
    (void)state;
    char *path = make_manifest(100);
    expect_pauses(path, 4, 0);
    expect_pauses(path, 4, 6);
    expect_pauses(path, 1, 7);
    expect_pauses(path, 1000, 5);
    expect_pauses(path, 1000, 1000);
    expect_pauses(path, 0, 0);
    free(path);
}

static double child_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Processor time, as other programs share the machine. */
static void a_hundred_thousand_lines_take_less_than_five_seconds(void **state) {
    (void)state;
    static const char *const runs[] = {"-b 8 -g 4 --gpu all", "--token-budget 2000000 --gpu t4"}; /* does not fit */
    char *path = make_manifest(100000);
    for (int i = 0; i < 2; i++) {
        char *line = xformat("train_gpt -m %s --amp %s", path, runs[i]);
        double before = child_seconds();
        json_t *root = estimate(line);
        double seconds = child_seconds() - before;
        print_message("100,000 lines, %s: %.2f s\n", runs[i], seconds);
#ifndef __SANITIZE_ADDRESS__
        assert_true(seconds < 5);
#endif
        json_decref(root);
        free(line);
    }
    free(path);
}

static void spectra_are_counted_by_epochs(void **state) {
    (void)state;
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    char *directory = scratch_directory();
    int status = run_command(output, sizeof output,
                             "%s/prepare_psd --synthetic %s/made --sensors 2 --rows 20 && %s/prepare_psd --input "
                             "%s/made --output %s/data",
                             build, directory, build, directory, directory);
    if (status) fail_msg("%s", output);
    char *split = xformat("%s/data/splits", directory);
    status = run_command(output, sizeof output, "ls %s/pooled*", split);
    output[strcspn(output, "\n")] = 0;
    char *line = xformat("train_psd pretrain -m %s/data/manifest.csv --split %s -b 16 --epochs 7 --gpu t4 --amp",
                         directory, output);
    json_t *root = estimate(line);
    double samples = number(json_object_get(root, "epoch"), "samples");
    assert_true(samples > 0 && fmod(samples, 16) == 0); /* what is not whole is left out */
    expect_exactly("steps", number(root, "steps"), 7 * samples / 16);
    expect_exactly("validations", number(root, "validations"), 7);
    assert_string_equal(json_string_value(json_object_get(first_card(root), "type")), "f16");
    json_decref(root);
    free(line);
    free(split);
    free(directory);
}

/* ---- memory ---- */

static bool fits(const char *arguments) {
    json_t *root = estimate(arguments);
    bool fits = json_is_true(json_object_get(first_card(root), "fits"));
    assert_true(fits == (number(json_object_get(root, "memory_bytes"), "total") <=
                         number(first_card(root), "available_bytes")));
    json_decref(root);
    return fits;
}

/* The i-th way to make it fit on the first card; NULL: there are fewer. */
static const char *change(const json_t *root, size_t i) {
    return json_string_value(json_array_get(json_object_get(first_card(root), "changes"), i));
}

/* Too many sequences by far: the program says how many there may be, and that recomputing blocks is enough. */
static void the_change_that_it_names_fits_and_one_more_does_not(void **state) {
    (void)state;
    static const char usual[] = "train_gpt --amp --gpu t4 --grad-checkpointing";
    json_t *root = estimate("train_gpt --amp --gpu t4 --grad-checkpointing -b 512 -g 1");
    int b, g;
    assert_non_null(change(root, 0));
    assert_null(change(root, 1));
    assert_int_equal(sscanf(change(root, 0), "-b %d -g %d", &b, &g), 2);
    assert_true(b > 1 && b < 512 && b * g >= 512 && b * (g - 1) < 512);
    char *line = xformat("%s -b %d -g %d", usual, b, g), *more = xformat("%s -b %d -g %d", usual, b + 1, g);
    assert_true(fits(line));
    assert_false(fits(more));
    free(line);
    free(more);
    json_decref(root);
    assert_true(fits("train_gpt --amp --gpu h200 -b 64 -g 1"));
}

/* Both ways, if both help; the second at the price that the counted steps have. */
static void both_ways_to_make_it_fit_are_told(void **state) {
    (void)state;
    static const char run_too_large[] = "train_gpt --amp --gpu l4 -b 64 -g 1";
    json_t *root = estimate(run_too_large),
           *again = estimate("train_gpt --amp --gpu l4 -b 64 -g 1 --grad-checkpointing");
    int b, g;
    char more[64], *line;
    assert_int_equal(json_array_size(json_object_get(first_card(root), "changes")), 2);
    assert_int_equal(sscanf(change(root, 0), "-b %d -g %d", &b, &g), 2);
    assert_string_equal(change(root, 1), "--grad-checkpointing");
    assert_true(json_is_true(json_object_get(first_card(again), "fits")));
    assert_int_equal(json_array_size(json_object_get(first_card(again), "changes")), 0);
    double flops = number(json_object_get(root, "step"), "flops");
    snprintf(more, sizeof more, " makes it fit, or --grad-checkpointing with %.0f %% more work\n",
             100 * (number(json_object_get(again, "step"), "flops") / flops - 1));
    line = xformat("%s --estimate", run_too_large);
    run(0, true, line);
    assert_contains(output, more);
    free(line);
    line = xformat("train_gpt --amp --gpu l4 -b %d", b);
    assert_true(fits(line));
    free(line);
    json_decref(root);
    json_decref(again);
}

/* A model that is nearly as large as the card, and of which not even a sequence fits: recomputing alone is not enough
 * for four of them, nor are fewer of them alone. */
static void both_together_are_told_where_neither_is_enough(void **state) {
    (void)state;
    static const char usual[] =
        "train_gpt --model-dim 2048 --heads 32 --gpu l4 --lengths 1800,0,1800 --max-text-tokens 800";
    int layers = 20, b = 0, g = 0;
    bool found = false;
    for (; layers < 34 && !found; layers++) {
        char *line = xformat("%s --layers %d -b 64 -g 1", usual, layers);
        json_t *root = estimate(line);
        found = change(root, 0) && strstr(change(root, 0), " --grad-checkpointing");
        if (found) {
            assert_null(change(root, 1));
            assert_int_equal(sscanf(change(root, 0), "-b %d -g %d --grad-checkpointing", &b, &g), 2);
        }
        json_decref(root);
        free(line);
    }
    assert_true(found);
    char *with = xformat("%s --layers %d -b %d -g 1 --grad-checkpointing", usual, layers - 1, b);
    char *more = xformat("%s --layers %d -b %d -g 1 --grad-checkpointing", usual, layers - 1, b + 1);
    char *without = xformat("%s --layers %d -b 1 -g 1", usual, layers - 1);
    assert_true(fits(with));
    assert_false(fits(more));
    assert_false(fits(without));
    free(with);
    free(more);
    free(without);
}

/* The CNN has no blocks to compute again. */
static void recomputing_is_no_advice_where_it_changes_nothing(void **state) {
    (void)state;
    json_t *root = estimate("train_psd finetune --encoder cnn -b 65536 -g 1 --d-model 4096 --gpu t4");
    assert_false(json_is_true(json_object_get(first_card(root), "fits")));
    assert_non_null(change(root, 0));
    assert_null(strstr(change(root, 0), "checkpointing"));
    assert_null(change(root, 1));
    json_decref(root);
}

/* ---- -b auto ---- */

/* The effective batch comes out exactly, on every card with its own largest micro-batch. */
static void auto_takes_the_largest_divisor_that_fits(void **state) {
    (void)state;
    enum { WHOLE = 60 };
    static const char usual[] = "train_gpt --amp --lengths 250,120,800";
    char *line = xformat("%s -b auto --effective-batch %d --gpu all", usual, WHOLE);
    json_t *root = estimate(line), *card;
    size_t i;
    int divided = 0, whole = 0;
    free(line);
    json_array_foreach(json_object_get(root, "gpus"), i, card) {
        int b = (int)number(card, "batch_size"), g = (int)number(card, "grad_accumulation"), next = b + 1;
        const char *key = json_string_value(json_object_get(card, "gpu"));
        assert_int_equal(b * g, WHOLE);
        assert_true(json_is_true(json_object_get(card, "fits")));
        assert_true(number(json_object_get(card, "memory_bytes"), "total") <= number(card, "available_bytes"));
        divided += b < WHOLE;
        whole += b == WHOLE;
        if (b == WHOLE || divided > 1) continue;
        while (WHOLE % next) next++;
        int most = (int)number(card, "most_at_once");
        assert_true(b <= most && most < next);
        const int sizes[] = {b, next, most, most + 1};
        for (int k = 0; k < 4; k++) {
            line = xformat("%s --gpu %s -b %d -g %d", usual, key, sizes[k], g);
            assert_true(fits(line) == (k % 2 == 0));
            free(line);
        }
    }
    assert_true(divided > 0 && whole > 0);
    json_decref(root);
}

/* What is chosen is what is counted: as with the two numbers given. */
static void the_chosen_numbers_are_those_of_the_estimate(void **state) {
    (void)state;
    json_t *chosen = estimate("train_gpt --amp --gpu t4 -b auto --max-steps 10");
    char *line = xformat("train_gpt --amp --gpu t4 --max-steps 10 -b %.0f -g %.0f",
                         number(first_card(chosen), "batch_size"), number(first_card(chosen), "grad_accumulation"));
    json_t *given = estimate(line);
    expect_exactly("seconds", number(first_card(chosen), "seconds"), number(first_card(given), "seconds"));
    expect_exactly("flops", number(json_object_get(chosen, "step"), "flops"),
                   number(json_object_get(given, "step"), "flops"));
    expect_exactly("memory", number(json_object_get(chosen, "memory_bytes"), "total"),
                   number(json_object_get(given, "memory_bytes"), "total"));
    expect_exactly("steps", number(first_card(chosen), "steps"), 10);
    assert_null(json_object_get(first_card(given), "batch_size"));
    free(line);
    json_decref(chosen);
    json_decref(given);
}

/* 97 sequences do not fit, and no smaller number divides them but 1; 96 = 3 x 32. */
static void a_poor_divisor_is_told(void **state) {
    (void)state;
    run(0, true, "train_gpt --estimate --amp --gpu l4 -b auto --effective-batch 97");
    assert_contains(output, "[Batch] -b 1 -g 97 is an effective batch of 97: 35 would fit at once, ");
    assert_contains(output, "; --effective-batch 96 would use them better (-b 32)\n");
    run(0, true, "train_gpt --estimate --amp --gpu l4 -b auto --effective-batch 96");
    assert_contains(output, "[Batch] -b 32 -g 3 is an effective batch of 96: 35 would fit at once, ");
    assert_null(strstr(output, "use them better"));
    run(0, true, "train_gpt --estimate --amp --gpu all -b auto");
    assert_contains(output, "  -b 8 -g 4 fits\n");
    assert_contains(output, "  -b 32 -g 1 fits\n");
}

/* A contrast is between the samples of a micro-batch, batch norms are over them: they are not divided, and the program
 * says what a division would be. Each program's own default is what is not divided. */
static void what_is_not_the_same_in_parts_is_not_divided(void **state) {
    (void)state;
    run(0, true, "train_psd pretrain --estimate --gpu l4 -b auto");
    assert_contains(output, "[Batch] -b 512 -g 1 is an effective batch of 512: all of it fits at once, ");
    assert_contains(output, "; it is never divided: the contrast is between the spectra of a micro-batch\n");
    run(0, true, "train_psd pretrain --estimate --gpu t4 --size large -b auto --effective-batch 8192");
    assert_null(strstr(output, "[Batch]"));
    assert_contains(output, "it does not fit; -b ");
    assert_contains(output,
                    " makes it fit, but is not the same (the contrast is between the spectra of a micro-batch)");
    run(0, true, "train_psd pretrain --estimate --gpu all --size large -b auto --effective-batch 8192");
    assert_contains(output, "\n[Estimate] a smaller -b is not the same run: the contrast is between the spectra of a ");
    run(0, true, "train_psd finetune --estimate --gpu t4 --size large -b auto --effective-batch 8192");
    assert_contains(output, "[Batch] -b 512 -g 16 is an effective batch of 8192: ");
    run(0, true, "train_psd finetune --estimate --gpu t4 --encoder cnn -b auto");
    assert_contains(output, "; it is never divided: batch norms see each micro-batch for itself\n");
    run(0, true, "train_cv --estimate --gpu t4 -b auto");
    assert_contains(output, "[Batch] -b 64 -g 1 is an effective batch of 64: all of it fits at once, ");
    assert_contains(output, "; it is never divided: batch norms see each micro-batch for itself\n");
}

/* ---- --lengths ---- */

/* Half of a normal distribution is below its mean, 97.7 % below two deviations above it; what is beyond the longest, or
 * below 1, is held there. */
static void made_up_lengths_are_a_normal_distribution(void **state) {
    (void)state;
    run(0, true, "train_gpt --estimate --gpu l4 --lengths 500,100,1800");
    assert_contains(output, "made up: 1024 samples; codes 500.0 +- 99.");
    /* The outermost of 1024 is at a share of 1 / 2048: z = 3.297 */
    assert_contains(output, ", 170..500..830, text tokens 23.0 +- 4.6, 8..23..38\n");
    run(0, true, "train_gpt --estimate --gpu l4 --lengths 500,100,600");
    assert_contains(output, ", 170..500..600, text");
    run(0, true, "train_gpt --estimate --gpu l4 --lengths 100,100,1800 -b 100");
    assert_contains(output, "made up: 1100 samples; codes ");
    assert_contains(output, ", 1..100..");
    /* 34 conditioning rows, 23 text tokens and 2, 500 codes and 1. */
    json_t *made = estimate("train_gpt --gpu l4 -b 8 -g 4 --lengths 500,0,500");
    expect_exactly("a step", number(json_object_get(made, "step"), "tokens"), 32 * (34 + 25 + 501));
    expect_exactly("samples", number(json_object_get(made, "epoch"), "samples"), 1024);
    assert_true(json_is_true(json_object_get(made, "typical_data")));
    json_decref(made);
    run(0, true, "train_gpt --dry-run --device cpu --lengths 20,0,20 --model-dim 64 --layers 2 --heads 4");
    assert_contains(output, "4 micro-batches of 8 sequences, 464 tokens"); /* 34 + 1 + 2 + 20 + 1 */
}

/* Of a token budget too. */
static void a_token_budget_is_lowered(void **state) {
    (void)state;
    char *path = make_manifest(4000);
    char *usual = xformat("train_gpt -m %s --amp --gpu t4 --grad-checkpointing", path);
    char *line = xformat("%s --token-budget 1000000 -g 2", usual);
    json_t *root = estimate(line);
    int budget, g;
    assert_non_null(change(root, 0));
    assert_int_equal(sscanf(change(root, 0), "--token-budget %d -g %d", &budget, &g), 2);
    assert_true(budget > 10000 && budget < 1000000 && (double)budget * g >= 2e6 && (double)budget * (g - 1) < 2e6);
    char *less = xformat("%s --token-budget %d", usual, budget),
         *more = xformat("%s --token-budget %d", usual, budget + 1);
    assert_true(fits(less));
    assert_false(fits(more));
    json_decref(root);
    free(path);
    free(usual);
    free(line);
    free(less);
    free(more);
}

/* ---- what is printed ---- */

static void all_cards_have_a_line_each(void **state) {
    (void)state;
    int n;
    const Card *cards = card_table(&n);
    run(0, true, "train_gpt --estimate --gpu all --amp --max-steps 100 --price 1.5");
    for (int i = 0; i < n; i++) {
        char *start = xformat("\n%-13s ", cards[i].key);
        const char *line = strstr(output, start);
        if (!line) fail_msg("no line of %s in\n%s", cards[i].key, output);
        assert_null(strstr(line + 1, start));
        free(start);
    }
    json_t *root = estimate("train_gpt --amp");
    assert_int_equal(json_array_size(json_object_get(root, "gpus")), n);
    json_decref(root);
}

static void one_card_is_told_in_full(void **state) {
    (void)state;
    static const char *const parts[] = {"there is no data", "[Memory] weights",
                                        "it fits",          "linear_backward",
                                        "clear gradients",  "[Time] a step",
                                        "bound by",         "MFU",
                                        "give the data",    "none stays in the 48 MB of L2",
                                        "sustained: 47 %",  NULL};
    run(0, true, "train_gpt --estimate --gpu l4 --no-tf32");
    for (int i = 0; parts[i]; i++) assert_contains(output, parts[i]);
    assert_contains(output, "(f32)");
    run(0, true, "train_gpt --estimate --gpu l4");
    assert_contains(output, "(TF32)");
    run(0, true, "train_gpt --estimate --gpu L4 --amp --grad-checkpointing");
    assert_contains(output, "HFU");
    assert_contains(output, "l4 (L4), 22.5 GiB: bf16\n");
    run(0, true, "train_psd finetune --estimate --gpu v100 --amp");
    assert_contains(output, "f16, as it has no bf16");
}

static void wrong_options_are_told(void **state) {
    (void)state;
    run(2, false, "train_gpt --estimate --gpu l5");
    assert_contains(output, "--gpu l5: this card is not known");
    assert_contains(output, " t4 ");
    assert_contains(output, " h200");
    run(2, false, "train_psd pretrain --estimate --gpu rtx409");
    assert_contains(output, "did you mean 'rtx4090'?");
    run(2, false, "train_gpt --gpu l4");
    assert_contains(output, "--gpu belongs to --estimate");
    run(2, false, "train_gpt -m x --json");
    assert_contains(output, "--json belongs to --estimate");
    run(2, false, "train_gpt --estimate --dry-run");
    assert_contains(output, "give one of them");
    static const struct {
        const char *arguments, *message;
    } wrong[] = {
        {"train_gpt --estimate -b auto -g 4", "instead of -g 4 give --effective-batch, the samples of a step (32"},
        {"train_gpt --estimate -b auto --token-budget 4000", "give --effective-batch instead of the budget"},
        {"train_gpt --estimate -b 8 --effective-batch 32", "--effective-batch belongs to -b auto"},
        {"train_gpt --estimate -b some", "--batch-size: expected a whole number or auto, found 'some'"},
        {"train_cv --estimate -b auto --effective-batch 1",
         "--effective-batch 1: expected at least 2, the smallest -b"},
        {"train_psd evaluate -m x --split y -b auto", "--batch-size: expected an integer, found 'auto'"},
        {"train_gpt --estimate --lengths 250,120", "expected MEAN,SD,MAX, three numbers"},
        {"train_gpt --estimate --lengths 250,120,many", "expected MEAN,SD,MAX, three numbers"},
        {"train_gpt --estimate --lengths 250,120,800,1", "expected MEAN,SD,MAX, three numbers"},
        {"train_gpt --estimate --lengths 250,nan,800", "expected MEAN,SD,MAX, three numbers"},
        {"train_gpt --estimate --lengths 900,120,800", "the mean is more than the longest"},
        {"train_gpt --estimate --lengths 250,120,1817", "the model's longest row of codes is 1816"},
        {"train_gpt --estimate -m x --lengths 250,120,800", "the manifest has lengths of its own"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run(2, false, wrong[i].arguments);
        assert_contains(output, wrong[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pretraining_counts_what_the_closed_form_says),
        cmocka_unit_test(the_closed_form_is_the_specifications),
        cmocka_unit_test(finetuning_counts_what_the_closed_form_says),
        cmocka_unit_test(a_step_is_three_forwards_and_an_update),
        cmocka_unit_test(recomputed_blocks_cost_a_forward_more),
        cmocka_unit_test(the_full_gpt_is_counted),
        cmocka_unit_test(an_operation_takes_the_larger_of_compute_and_memory),
        cmocka_unit_test(voltas_attention_is_not_on_tensor_cores),
        cmocka_unit_test(a_step_takes_its_operations_or_what_feeds_it),
        cmocka_unit_test(the_parts_make_the_whole),
        cmocka_unit_test(the_manifests_own_lengths_count),
        cmocka_unit_test(validations_and_checkpoints_are_counted),
        cmocka_unit_test(a_hundred_thousand_lines_take_less_than_five_seconds),
        cmocka_unit_test(spectra_are_counted_by_epochs),
        cmocka_unit_test(the_change_that_it_names_fits_and_one_more_does_not),
        cmocka_unit_test(both_ways_to_make_it_fit_are_told),
        cmocka_unit_test(both_together_are_told_where_neither_is_enough),
        cmocka_unit_test(recomputing_is_no_advice_where_it_changes_nothing),
        cmocka_unit_test(a_token_budget_is_lowered),
        cmocka_unit_test(auto_takes_the_largest_divisor_that_fits),
        cmocka_unit_test(the_chosen_numbers_are_those_of_the_estimate),
        cmocka_unit_test(a_poor_divisor_is_told),
        cmocka_unit_test(what_is_not_the_same_in_parts_is_not_divided),
        cmocka_unit_test(made_up_lengths_are_a_normal_distribution),
        cmocka_unit_test(all_cards_have_a_line_each),
        cmocka_unit_test(one_card_is_told_in_full),
        cmocka_unit_test(wrong_options_are_told),
    };
    setenv("XDG_CACHE_HOME", run_directory(), 1); /* not what this user has measured */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
