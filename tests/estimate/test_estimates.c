/* The closed forms of a text GPT (tools/claims/text.h) against the numbers that were worked out from the code of the
 * reference; and the floor of a step. */

#include "kernels/ops_table.h"
#include "tests/test.h"
#include "tools/claims/text.h"

static const TextModel slm = {"slm", 30000, 1024, 12, 768, 12, false};

static TextBatch batch_of(int sequences, int length) { return (TextBatch){sequences, length, 1, DTYPE_BF16, false}; }

static void expect_exactly(double got, double want) {
    if (got != want) fail_msg("got %.17g, want %.17g", got, want);
}

/* A number that was given with so many decimals. */
static void expect_rounded(double got, double want, int decimals) {
    double scale = pow(10, decimals);
    if (round(got * scale) != round(want * scale)) fail_msg("got %.9g, want %.*f", got, decimals, want);
}

/* Returns the FLOPs of the matrix products of one training step, as utilisation counts them: three times those of the
 * forward, attention included. Causal attention counts only the pairs of rows that are not masked. */
static double product_flops(const TextModel *m, TextBatch b) {
    double C = m->width, T = b.length, sequences = (double)b.sequences * b.accumulation;
    double blocks = m->layers * (2 * T * 12 * C * C + 4 * T * (T + 1) / 2 * C);
    double head = 2 * T * C * (double)m->vocabulary;
    return 3 * sequences * (blocks + head);
}

TEST(parameters_are_the_references) {
    TextModel regular = {"regular", 30000, 1024, 24, 1024, 16, false}, shorter = slm;
    shorter.positions = 512;
    expect_exactly(text_step(&slm, batch_of(1, 8)).parameters, 108780288);
    expect_exactly(text_step(&shorter, batch_of(1, 8)).parameters, 108387072);
    expect_exactly(text_step(&regular, batch_of(1, 8)).parameters, 333808640);
}

TEST(flops_of_the_text_gpt) {
    static const struct {
        int length;
        double per_token; /* 10^6 FLOPs */
    } rows[] = {{512, 676.2}, {768, 690.4}, {1024, 704.5}, {2048, 761.1}};
    for (int i = 0; i < 4; i++) {
        TextBatch b = batch_of(1, rows[i].length);
        expect_rounded(product_flops(&slm, b) / rows[i].length / 1e6, rows[i].per_token, 1);
    }
    expect_exactly(product_flops(&slm, batch_of(1, 1024)), 1024.0 * 704526336);
    expect_rounded(product_flops(&slm, batch_of(20, 1024)) / 1e12, 14.43, 2);
    expect_rounded(product_flops(&slm, batch_of(18, 512)) / 1e12, 6.23, 2);
    expect_rounded(product_flops(&slm, batch_of(8, 768)) / 1e12, 4.24, 2);
    expect_rounded(product_flops(&slm, batch_of(64, 2048)) / 1e12, 99.8, 1);
}

/* Expects the dry device to have counted the products above, and what operations count besides: GELU 9 and 18, dropout
 * 1 a number; of a pair and head softmax and its dropout 7 and 9, and attention's backward has five products instead of
 * four, and the dots of its output. */
TEST(counted_work_is_the_closed_form) {
    TextBatch b = batch_of(4, 64);
    TextStep step = text_step(&slm, b);
    const OpWork *ops = step.step.ops;
    double n = 4 * 64, L = slm.layers, C = slm.width, pairs = 4 * 64 * 65 / 2;
    double got = ops[OP_linear_forward].all.flops + ops[OP_linear_gelu_forward].all.flops +
                 ops[OP_linear_backward].all.flops + ops[OP_gelu_linear_backward].all.flops +
                 ops[OP_attention_forward].all.flops + ops[OP_attention_backward].all.flops;
    double besides = L * n * 4 * C * (9 + 18) + L * pairs * (2 * C + (7 + 9) * slm.heads) + L * 2 * n * C;
    expect_exactly(got, product_flops(&slm, b) + besides);
    expect_exactly(ops[OP_adamw_update].all.flops, 14 * step.parameters);
    expect_exactly(step.step.tokens, n);
}

/* The floor of one call is the larger of its FLOPs at the stated rate and its bytes at the stated bandwidth, for
 * attention, too. */
TEST(a_floor_is_the_stated_rates) {
    static const int ops[] = {OP_linear_forward, OP_attention_forward, OP_attention_backward, OP_layernorm_forward};
    const Card *card = card_of_key("v100");
    Machine machine = {.card = card, .half = DTYPE_F16, .workers = 1};
    for (int i = 0; i < 4; i++) {
        double peak = i < 3 ? card->half : card->f32;
        for (int bound = 0; bound < 2; bound++) { /* by compute, by memory */
            Work work = {0};
            work_add_calls(&work.ops[ops[i]], (CallWork){1, peak * (bound ? 0.5 : 2), card->bandwidth});
            double floor = cost_floor(&machine, &work), estimate = cost_of_work(&machine, &work).seconds;
            assert_true(fabs(floor - (bound ? 1 : 2)) < 1e-12);
            assert_true(estimate > 1.05 * floor);
        }
    }
}
