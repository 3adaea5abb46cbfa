/* The work of a step of the text GPT against closed forms, and these beside the specification's own numbers. */
#include "tests/closed_forms_rig.h"

enum { HEAD_ROWS = 8192 /* rows whose logits exist at a time */ };

typedef struct {
    double batch, length, layers, width, heads, vocabulary;
} Size;

static const Size slm = {20, 1024, 12, 768, 12, 30000}, regular = {12, 1024, 24, 1024, 16, 30000};

static Blocks blocks_of(const Size *s) {
    double rows = s->batch * s->length;
    return (Blocks){.n = rows,
                    .c = s->width,
                    .ff = 4 * s->width,
                    .heads = s->heads,
                    .layers = s->layers,
                    .pairs = s->batch * s->length * (s->length + 1) / 2,
                    .sequences = s->batch,
                    .drop_attention = true,
                    .drop_projection = true,
                    .drop_mlp = true};
}

/* The table of the specification: token and position tables, matrices and two norms of a block, the last norm. */
static double parameters_of(const Size *s) {
    double c = s->width;
    return (s->vocabulary + s->length) * c + s->layers * (12 * c * c + 2 * c) + c;
}

/* Logits, loss and hits of so many rows, and back; the weight is the token table, so there is no bias. */
static void head(double n, double c, double classes) {
    forms_linear(n, c, classes);
    forms_call(OP_cross_entropy_forward_backward, 5 * n * classes, 2 * HALF * n * classes + 12 * n);
    forms_linear_back(n, c, classes, true);
}

static void step(const Size *s) {
    Blocks b = blocks_of(s);
    forms_start();
    forms_without_biases();
    forms_call(OP_embedding_forward, b.n * b.c,
               (HALF + 8) * b.n * b.c + 8 * b.n); /* in place, without a list of rows */
    forms_drop(b.n, b.c);
    forms_blocks(&b);
    forms_norm(b.n, b.c);
    for (double at = 0; at < b.n; at += HEAD_ROWS) head(fmin(HEAD_ROWS, b.n - at), b.c, s->vocabulary);
    for (int metric = 0; metric < 4; metric++) forms_sum(b.n);
    forms_norm_back(b.n, b.c, false);
    forms_drop(b.n, b.c);
    forms_embed_back(b.n, b.c, true, false);
    double matrices = s->layers * b.c * b.c;
    forms_update(parameters_of(s), parameters_of(s), 8 * matrices + s->vocabulary * b.c, 4 * matrices);
}

static void check_size(const Size *s, const char *size, double parameters) {
    json_t *root = forms_estimate(kept_format("train_slm --size %s -b %.0f", size, s->batch));
    Blocks b = blocks_of(s);
    forms_expect("parameters, by the specification", parameters_of(s), parameters);
    forms_expect("parameters", forms_number(root, "parameters"), parameters);
    step(s);
    forms_expect_operations(root);
    forms_expect_states(root, parameters);
    double head = 2 * forms_halves(b.n, b.c) + 4 * forms_f32(b.n) + forms_halves(HEAD_ROWS, s->vocabulary);
    forms_expect("activations", forms_memory(root, "activations"),
                 2 * forms_halves(b.n, b.c) + forms_blocks_kept(&b) + forms_larger(head, forms_blocks_back(&b)));
    json_decref(root);
}

TEST(both_sizes_of_the_reference) {
    check_size(&slm, "slm", 108780288);
    check_size(&regular, "regular", 333808640);
}

/* The causal count of the specification: 6 (12 L C^2 + V C) and 6 L C (T + 1) FLOPs a token. Ours makes scores again in
 * the backward of attention, L C (T + 1) FLOPs, and counts norms, GELU, dropout, softmax and the update: at most 1 %.
 */
TEST(the_steps_products_are_the_specifications) {
    static const struct {
        double batch, length, per_token; /* 10^6 FLOPs */
    } rows[] = {{20, 1024, 704.5}, {18, 512, 676.2}, {8, 768, 690.4}, {64, 2048, 761.1}};
    for (int i = 0; i < 4; i++) {
        Size size = slm;
        size.batch = rows[i].batch;
        size.length = rows[i].length;
        double scores = 12 * 768 * (size.length + 1);
        double causal = 6 * (12 * 12 * 768.0 * 768 + 30000 * 768.0 + scores);
        assert_near(causal / 1e6, rows[i].per_token, 0.05);
        step(&size);
        double besides = forms_total().flops / (size.batch * size.length) - causal - scores;
        assert_true(besides > 0 && besides < 0.01 * causal);
    }
}

TEST(products_are_aligned) {
    static const char *const lines[] = {"train_slm --vocabulary 50257",
                                        "train_slm --vocabulary 50257 --size tiny",
                                        "train_slm --config configs/slm_a100.yaml",
                                        "train_slm --config configs/slm_a30x2.yaml",
                                        "train_slm --config configs/slm_rtx3090.yaml",
                                        "train_slm --config configs/slm_rtx4090.yaml",
                                        "train_slm --config configs/slm_t4.yaml"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) forms_expect_aligned(lines[i]);
    json_t *root = forms_estimate("train_slm --d-model 100 --heads 5 --vocabulary 50257"),
           *step = json_object_get(root, "step");
    assert_true(forms_number(step, "unaligned_flops") > 0.5 * forms_number(step, "flops"));
    json_decref(root);
}
