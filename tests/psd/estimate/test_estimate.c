/* --estimate of train_psd: the counted FLOPs against closed forms worked out here, its epochs, and which batches are
 * not divided. */
#include "tests/estimate_rig.h"

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

static char *psd(const char *command, const Size *s, const char *more) {
    return xformat("train_psd %s --size %s -b %.0f --gpu l40s --amp %s", command, s->size, s->batch, more);
}

/* B samples have B V bare rows and 26 B rows in whole sequences; B V + 2 B output rows of the last block are read. The
 * decoder has 12 B rows and B M output rows. */
TEST(pretraining_work_matches_the_closed_form) {
    for (int i = 0; i < N_SIZES; i++) {
        const Size *s = &sizes[i];
        double B = s->batch, rows = B * (VISIBLE + 2 * SEQUENCE), read = B * (VISIBLE + 2), gelu = 0;
        double patches = linear(B * (VISIBLE + 2 * PATCHES), PATCH, s->d);
        double forward = patches + blocks(s->layers, rows, read, s->d, s->ff, true, &gelu) +
                         linear(B * VISIBLE, s->d, s->e) +
                         blocks(s->decoder_layers, B * PATCHES, B * MASKED, s->e, 2 * s->e, true, &gelu) +
                         linear(B * MASKED, s->e, PATCH) + linear(2 * B, s->d, s->q);
        double pairs = B * (VISIBLE * VISIBLE + 2 * SEQUENCE * SEQUENCE), decoder_pairs = B * PATCHES * PATCHES;
        json_t *root = estimate_parsed(keep(psd("pretrain", s, "")));
        gelu += linear_gelu(2 * B, s->d, s->d, false);
        estimate_expect("linear_forward", estimate_of_op(root, "linear_forward", "flops"), forward);
        estimate_expect("linear_gelu_forward", estimate_of_op(root, "linear_gelu_forward", "flops"), gelu);
        estimate_expect("attention_forward", estimate_of_op(root, "attention_forward", "flops"),
                        s->layers * attention_flops(pairs, s->d, s->heads, true) +
                            s->decoder_layers * attention_flops(decoder_pairs, s->e, 4, true));
        estimate_expect("nt_xent_forward", estimate_of_op(root, "nt_xent_forward", "flops"),
                        2 * B * (2 * B - 1) * (2 * s->q + 4) + 3 * 2 * B);
        json_decref(root);
    }
}

/* The same closed form without the rows that the last block leaves out, beside the specification's table, which has no
 * biases, GELU and softmax and rounds to one or two digits behind the point. */
TEST(the_closed_form_is_the_specifications) {
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

/* Only CLS is an output row of the last block. */
TEST(finetuning_work_matches_the_closed_form) {
    for (int i = 0; i < N_SIZES; i++) {
        const Size *s = &sizes[i];
        double B = s->batch, gelu = linear_gelu(B, s->d, s->head, true);
        double forward = linear(B * PATCHES, PATCH, s->d) +
                         blocks(s->layers, B * SEQUENCE, B, s->d, s->ff, false, &gelu) + linear(B, s->head, 6);
        json_t *root = estimate_parsed(keep(psd("finetune", s, "--dropout 0")));
        estimate_expect("linear_forward", estimate_of_op(root, "linear_forward", "flops"), forward);
        estimate_expect("linear_gelu_forward", estimate_of_op(root, "linear_gelu_forward", "flops"), gelu);
        estimate_expect("attention_forward", estimate_of_op(root, "attention_forward", "flops"),
                        s->layers * attention_flops(B * SEQUENCE * SEQUENCE, s->d, s->heads, false));
        json_decref(root);
    }
}

TEST(a_step_is_three_forwards_and_an_update) {
    const Size *s = &sizes[3];
    char *line = keep(psd("pretrain", s, ""));
    json_t *root = estimate_parsed(line);
    double parameters = estimate_number(root, "parameters");
    double forward =
        estimate_of_op(root, "linear_forward", "flops") + estimate_of_op(root, "linear_gelu_forward", "flops");
    double backward =
        estimate_of_op(root, "linear_backward", "flops") + estimate_of_op(root, "gelu_linear_backward", "flops");
    estimate_expect_near("backward", backward, 2 * forward,
                         0.01); /* the patches' gradient is nobody's; GELU's slope is 18 */
    /* Weights, moments and gradients read, the first three and a 16-bit copy written; segments end on whole lines. */
    estimate_expect_near("AdamW", estimate_of_op(root, "adamw_update", "bytes"), 30 * parameters, 1e-3);
    estimate_expect("updates", estimate_of_op(root, "adamw_update", "calls"), 1);
    json_decref(root);
    line = keep(psd("pretrain", s, "-g 3"));
    root = estimate_parsed(line);
    estimate_expect("accumulated", estimate_of_op(root, "linear_gelu_forward", "calls"), 3 * (8 + 4 + 1));
    estimate_expect("updates", estimate_of_op(root, "adamw_update", "calls"), 1);
    json_decref(root);
}

TEST(spectra_are_counted_by_epochs) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    char *directory = kept_folder();
    int status = run_command(estimate_output, sizeof estimate_output,
                             "%s/train_psd synthesize -o %s/made --sensors 2 --rows 20 && %s/train_psd prepare --input "
                             "%s/made --output %s/data",
                             build, directory, build, directory, directory);
    if (status) fail_msg("%s", estimate_output);
    char *split = kept_format("%s/data/splits", directory);
    status = run_command(estimate_output, sizeof estimate_output, "ls %s/pooled*", split);
    estimate_output[strcspn(estimate_output, "\n")] = 0;
    char *line = kept_format("train_psd pretrain -m %s/data/manifest.csv --split %s -b 16 --epochs 7 --gpu t4 --amp",
                             directory, estimate_output);
    json_t *root = estimate_parsed(line);
    double samples = estimate_number(json_object_get(root, "epoch"), "samples");
    assert_true(samples > 0 && fmod(samples, 16) == 0); /* what is not whole is left out */
    estimate_expect("steps", estimate_number(root, "steps"), 7 * samples / 16);
    estimate_expect("validations", estimate_number(root, "validations"), 7);
    assert_string_equal(json_string_value(json_object_get(estimate_card(root), "type")), "f16");
    json_decref(root);
}

/* The CNN has no blocks to compute again. */
TEST(recomputing_is_no_advice_where_it_changes_nothing) {
    json_t *root = estimate_parsed("train_psd finetune --encoder cnn -b 65536 -g 1 --d-model 4096 --gpu t4");
    assert_false(json_is_true(json_object_get(estimate_card(root), "fits")));
    assert_non_null(estimate_change(root, 0));
    assert_null(strstr(estimate_change(root, 0), "checkpointing"));
    assert_null(estimate_change(root, 1));
    json_decref(root);
}

/* A contrast is between the samples of a micro-batch, batch norms are over them: such batches are not divided, and the
 * program prints why. The default batch of each command is not divided either. */
TEST(indivisible_batches_are_not_divided) {
    estimate_command(0, true, "train_psd pretrain --estimate --gpu l4 -b auto");
    assert_contains(estimate_output, "[Batch] -b 512 -g 1 is an effective batch of 512: all of it fits at once, ");
    assert_contains(estimate_output, "; it is never divided: the contrast is between the spectra of a micro-batch\n");
    estimate_command(0, true, "train_psd pretrain --estimate --gpu t4 --size large -b auto --effective-batch 8192");
    assert_null(strstr(estimate_output, "[Batch]"));
    assert_contains(estimate_output, "it does not fit; -b ");
    assert_contains(estimate_output,
                    " makes it fit, but is not the same (the contrast is between the spectra of a micro-batch)");
    estimate_command(0, true, "train_psd pretrain --estimate --gpu all --size large -b auto --effective-batch 8192");
    assert_contains(estimate_output,
                    "\n[Estimate] a smaller -b is not the same run: the contrast is between the spectra of a ");
    estimate_command(0, true, "train_psd finetune --estimate --gpu t4 --size large -b auto --effective-batch 8192");
    assert_contains(estimate_output, "[Batch] -b 512 -g 16 is an effective batch of 8192: ");
    estimate_command(0, true, "train_psd finetune --estimate --gpu t4 --encoder cnn -b auto");
    assert_contains(estimate_output, "; it is never divided: batch norms see each micro-batch separately\n");
}

TEST(wrong_options_are_refused) {
    estimate_command(2, false, "train_psd evaluate -m README.md --split README.md -b auto");
    assert_contains(estimate_output, "--batch-size: expected an integer, found 'auto'");
}
