/* The work of a step of the TTS GPT against closed forms, and these beside the specification's own numbers, with
 * the reason where ours differ by design. */
#include "tests/closed_forms_rig.h"

enum { CONDITIONING = 32, SPEED = 2, TEXT = 102, TEXT_TARGETS = 101, MEL = 251, MEL_CODES = 8194 };
enum { GPT_ROWS = CONDITIONING + SPEED + TEXT + MEL, GPT_LAYERS = 24, GPT_WIDTH = 1280 };

/* Rows of zeros follow the weight of a head up to a multiple of 8. */
static double padded(double classes) { return 8 * ceil(classes / 8); }

/* The rows of one head: norms, logits, loss, and back. */
static void gpt_head(double n, double c, double classes) {
    double columns = padded(classes);
    forms_gather(n, c, HALF);
    forms_norm(n, c), forms_norm(n, c);
    forms_linear(n, c, columns);
    forms_call(OP_cross_entropy_forward_backward, 5 * n * classes, HALF * n * (classes + columns) + 12 * n);
    forms_sum(n), forms_sum(n);
    forms_linear_back(n, c, columns, true);
    forms_norm_back(n, c, false), forms_norm_back(n, c, false);
    forms_scatter(n, c, HALF);
}

static double gpt_head_bytes(double n, double c, double classes) {
    return 5 * forms_halves(n, c) + 6 * forms_f32(n) + forms_halves(n, padded(classes));
}

static Blocks gpt_blocks(double batch) {
    double rows = batch * GPT_ROWS, pairs = batch * (GPT_ROWS * (GPT_ROWS + 1) / 2.0);
    return (Blocks){.n = rows,
                    .c = GPT_WIDTH,
                    .ff = 4 * GPT_WIDTH,
                    .heads = 20,
                    .layers = GPT_LAYERS,
                    .pairs = pairs,
                    .sequences = batch,
                    .drop_attention = true,
                    .drop_projection = true,
                    .drop_mlp = true};
}

static void gpt_step(double batch, double accumulated, double text_classes, double parameters, double flat) {
    Blocks b = gpt_blocks(batch);
    forms_start();
    forms_scatter(batch * CONDITIONING, b.c, 4); /* rows of files, f32 */
    forms_embed(batch * SPEED, b.c, false), forms_embed(batch * TEXT, b.c, true), forms_embed(batch * MEL, b.c, true);
    forms_drop(b.n, b.c);
    forms_blocks(&b);
    gpt_head(batch * TEXT_TARGETS, b.c, text_classes);
    gpt_head(batch * MEL, b.c, MEL_CODES);
    forms_drop(b.n, b.c);
    forms_embed_back(batch * MEL, b.c, true, true), forms_embed_back(batch * TEXT, b.c, true, true);
    forms_embed_back(batch * SPEED, b.c, false, true);
    forms_times(accumulated);
    double heads = (padded(text_classes) + padded(MEL_CODES)) * b.c;
    forms_update(parameters, flat, GPT_LAYERS * 8 * b.c * b.c + heads, GPT_LAYERS * 4 * b.c * b.c);
}

/* The table of the specification: matrices, biases and norms of a block; embeddings, positions, norms, heads. */
static double gpt_parameters(double pieces) {
    double c = GPT_WIDTH, block = 12 * c * c + 13 * c;
    return GPT_LAYERS * block + 4 * c + (pieces + 1) * (2 * c + 1) + MEL_CODES * (2 * c + 1) + (1818 + 602 + 2) * c;
}

TEST(the_gpt_at_its_full_size) {
    for (int i = 0; i < 2; i++) {
        double pieces = i ? 24000 : 12000, parameters = gpt_parameters(pieces), batch = i ? 8 : 4;
        /* In the flat buffer each tensor begins on a line of 16 numbers: only heads' biases leave some of one. */
        double flat = parameters + (16 - (int)(pieces + 1) % 16) + (16 - MEL_CODES % 16) +
                      (padded(pieces + 1) - (pieces + 1) + padded(MEL_CODES) - MEL_CODES) * GPT_WIDTH;
        char *line = kept_format("train_gpt -b %.0f -g 4 --number-text-tokens %.0f", batch, pieces);
        json_t *root = forms_estimate(line);
        Blocks b = gpt_blocks(batch);
        forms_expect("parameters, by the specification", parameters, i ? 557815235 : 527083235);
        forms_expect("parameters", forms_number(root, "parameters"), parameters);
        gpt_step(batch, 4, pieces + 1, parameters, flat);
        forms_expect_operations(root);
        forms_expect_states(root, flat);
        /* Activations have rows of padding (data/padding.h): 1,548 or 3,096 are rounded up to a multiple of 64 or 128;
         * 404 or 808 targets of text to one of 64 or 128; 1,004 or 2,008 codes get room for 63 or 127, and are rounded
         * up to a multiple of 128 or 256. */
        b.n = i ? 3200 : 1600;
        double heads = forms_larger(gpt_head_bytes(i ? 896 : 448, b.c, pieces + 1),
                                    gpt_head_bytes(i ? 2304 : 1152, b.c, MEL_CODES));
        forms_expect("activations", forms_memory(root, "activations"),
                     2 * forms_halves(b.n, b.c) + forms_blocks_kept(&b) + forms_larger(heads, forms_blocks_back(&b)));
        json_decref(root);
    }
}

/* Its table, at S = 388: causal attention as half a square, heads over all text and mel rows; 24,001 and 8,194 classes,
 * an effective batch of 32. Ours leaves the row out that has no target, and the pairs of a square's half are S + 1, not
 * S, to a row; biases, norms, GELU, dropout, softmax and the update come on top, and attention's backward is 2.5 times
 * its forward, as scores are made again: together 0.5 % of a step. */
TEST(the_gpts_step_is_the_specifications) {
    double S = 388, c = GPT_WIDTH, weights = 471859200, parameters = gpt_parameters(24000);
    double forward = 32 * (S * 2 * weights + 24 * 2 * S * S * c + 2 * c * (24001.0 * 102 + 8194.0 * 252));
    forms_expect("weights of the blocks' products", GPT_LAYERS * 12 * c * c, weights);
    assert_near(forward / 1e12, 12.38, 0.005);
    assert_near(3 * forward / 1e12, 37.15, 0.005);
    gpt_step(8, 4, 24001, parameters, parameters);
    assert_near(forms_total().flops, 3 * forward, 0.005 * 3 * forward);
    assert_near(forms_want[OP_adamw_update].bytes / 1e9, 16.7, 0.05); /* "at least 15.6": 28 bytes; and the copy's 2 */
    assert_near(forms_want[OP_sum_squares].bytes / 300e9, 7e-3, 0.5e-3);
    /* "About 36 c bytes a row and layer, 3.4 GB": 32 c, and attention's and the norms' f32. */
    Blocks b = gpt_blocks(8);
    double of_row = forms_blocks_kept(&b) / (b.n * GPT_LAYERS);
    assert_near(of_row, 32 * c + 4 * 20 + 16, 2 * 2 * c / GPT_LAYERS);
    assert_true(of_row < 36 * c);
}

TEST(products_are_aligned) {
    static const char *const lines[] = {"train_gpt", "train_gpt --number-text-tokens 24000",
                                        "train_gpt --config configs/amharic_l4.yaml",
                                        "train_gpt --number-mel-codes 8191"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) forms_expect_aligned(lines[i]);
}
