/* The products, attention and update of a step of PhoBERT against closed forms, and these beside the specification's
 * own numbers. */
#include "tests/closed_forms_rig.h"

static const double C = 768, FF = 3072, LAYERS = 12, HEADS = 12, VOCABULARY = 64001, POSITIONS = 258, CLASSES = 2;

/* The table of the specification: embeddings, layers, head. */
static double parameters(void) {
    double layer = 4 * (C * C + C) + 2 * (C * FF) + FF + C + 4 * C;
    return (VOCABULARY + POSITIONS + 1 + 2) * C + LAYERS * layer + C * C + C + CLASSES * (C + 1);
}

/* Behind its attention the last block computes the first row of each text only; attention itself, and the queries, keys
 * and values, are of all rows. */
static void products(double texts, double tokens) {
    Blocks b = {.n = texts * tokens,
                .read = texts,
                .c = C,
                .ff = FF,
                .heads = HEADS,
                .pairs = texts * tokens * tokens,
                .sequences = texts,
                .drop_attention = true};
    for (int l = 0; l < LAYERS; l++) {
        double n = l < LAYERS - 1 ? b.n : b.read;
        forms_linear(b.n, C, 3 * C);
        forms_attention(&b);
        forms_linear(n, C, C);
        forms_linear_gelu(n, C, FF, false);
        forms_linear(n, FF, C);
        forms_gelu_linear_back(n, FF, C, false);
        forms_linear_back(n, C, FF, true);
        forms_linear_back(n, C, C, true);
        forms_linear_back(b.n, C, 3 * C, true);
    }
    forms_linear(texts, C, C);
    forms_linear(texts, C, CLASSES);
    forms_linear_back(texts, C, CLASSES, true);
    forms_linear_back(texts, C, C, true);
}

TEST(a_step_is_the_closed_form) {
    const double flat = 134999810 + 16 - CLASSES; /* the biases of the classes fill a line */
    static const double rows[][2] = {{32, 16}, {32, 128}, {8, 192}};
    for (int i = 0; i < 3; i++) {
        char *line = kept_format("train_bert --rows 3200 -b %.0f --row-tokens %.0f --compact-vocabulary=false",
                                 rows[i][0], rows[i][1]);
        json_t *root = forms_estimate(line);
        forms_expect("parameters, by the specification", parameters(), 134999810);
        forms_expect("parameters", forms_number(root, "parameters"), 134999810);
        forms_start();
        products(rows[i][0], rows[i][1]);
        forms_update(134999810, flat, LAYERS * (4 * C * C + C * FF) + C * C + C * CLASSES, LAYERS * C * FF);
        forms_expect_called(root);
        forms_expect_states(root, flat);
        json_decref(root);
    }
}

/* GFLOP of a text's training by products, each forward once and backward twice, with all rows of the last block; and
 * the share that is saved by its first row alone. Ours makes attention's scores again in the backward, and counts
 * softmax, GELU, dropout and biases: 3 % at most. */
TEST(products_are_the_specifications) {
    static const double want[][3] = {{32, 16.42, 0.067},  {64, 33.07, 0.069},   {96, 49.95, 0.069},
                                     {128, 67.05, 0.069}, {192, 101.93, 0.070}, {256, 137.71, 0.070}};
    for (int i = 0; i < 6; i++) {
        double t = want[i][0], saved = 6 * (t - 1) * (C * C + 2 * C * FF);
        double whole = 3 * (LAYERS * (2 * t * (4 * C * C + 2 * C * FF) + 4 * t * t * C) + 2 * C * C + 2 * CLASSES * C);
        assert_near(whole / 1e9, want[i][1], 0.005);
        /* The specification leaves out the queries of the last block, too, which its rows do not need. */
        assert_near((saved + 6 * (t - 1) * C * C) / whole, want[i][2], 0.006);
        forms_start();
        products(1, t);
        assert_near(forms_total().flops, whole - saved, 0.03 * whole);
    }
}

TEST(products_are_aligned) {
    static const char *const lines[] = {"train_bert", "train_bert --config configs/phobert_t4.yaml",
                                        "train_bert --config configs/phobert_l4.yaml",
                                        "train_bert pretrain --vocabulary 64001"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) forms_expect_aligned(lines[i]);
}
