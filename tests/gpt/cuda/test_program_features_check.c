/* train_gpt prepare --indextts2 --verify on the emulated card, with tiny networks (tests/gpt/published_rig.h). */
#include "tests/cuda/program_rig.h"
#include "tests/gpt/published_rig.h"

static int verify(const char *card, const char *output, const char *weights, const char *more) {
    set_variable("EMULATE_CARD", card);
    int status =
        published_try(output, "list.tsv", weights, kept_format("--num-workers 2 --verify --device cuda %s", more));
    set_variable("EMULATE_CARD", NULL);
    return status;
}

static double number_behind(const char *text, const char *behind) {
    const char *at = strstr(text, behind);
    if (!at) fail_msg("no %s in\n%s", behind, text);
    return strtod(at + strlen(behind), NULL);
}

/* And the run that follows is as without --verify. */
TEST(fast_arithmetic_is_compared_with_f32) {
    if (!emulated) skip();
    static const char *const cards[] = {"l4", "t4"}, *const types[] = {"TF32", "f16"};
    for (int i = 0; i < 2; i++) {
        char *with = kept_format("with_%s", cards[i]), *without = kept_format("without_%s", cards[i]);
        if (verify(cards[i], with, "published", "")) fail_msg("%s", fixture.output);
        assert_contains(fixture.output,
                        kept_format("[Verify] 16 clips, 30.6 s: %s, packed, beside exact f32", types[i]));
        double equal = number_behind(fixture.output, "each alone\n[Verify] ");
        assert_true(equal >= 99);
        assert_contains(fixture.output, "[Verify] cosines, median and smallest: features 1.0000");
        assert_true(number_behind(fixture.output, "; condition ") >= 0.999);
        assert_contains(fixture.output, "[Codes] 16 clips coded, 0 reused\n");
        set_variable("EMULATE_CARD", cards[i]);
        int status = published_try(without, "list.tsv", "published", "--num-workers 2 --device cuda");
        set_variable("EMULATE_CARD", NULL);
        if (status) fail_msg("%s", fixture.output);
        corpus_assert_same(with, without);
    }
}

TEST(exact_arithmetic_has_the_bits_of_clips_alone) {
    if (!emulated) skip();
    if (verify("l4", "exact", "published", "--no-half --no-tf32")) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "[Verify] 16 clips, 30.6 s: exact f32, packed, beside exact f32, each alone\n");
    assert_contains(fixture.output, "clips alone, and they have the same bits\n");
}

/* Large queries make attention choose one key: rounding decides which. A large bias of keys changes no softmax, but
 * leaves few of the digits of a key. */
TEST(fast_arithmetic_that_spoils_features_ends_the_run) {
    if (!emulated) skip();
    static const struct {
        const char *card, *scaled, *told;
        IndexFile file;
        float factor;
    } cases[] = {{"t4", "encoder.layers.1.self_attn.linear_k.bias",
                  "f16 is not exact enough; run again with --no-half\n", INDEX_W2V, 100000},
                 {"l4", "encoder.layers.1.self_attn.linear_q.weight",
                  "TF32 is not exact enough; run again with --no-tf32\n", INDEX_W2V, 20000},
                 {"l4", "conditioning_encoder.encoders.0.self_attn.linear_k.bias",
                  "bf16 is not exact enough; run again with --no-half, and --no-tf32 if that is not enough\n",
                  INDEX_GPT, 30000}};
    for (int i = 0; i < 3; i++) {
        char *folder = published_folder("spoiling");
        published_write(folder, cases[i].file,
                        &(PublishedChange){.scaled = cases[i].scaled, .factor = cases[i].factor});
        assert_int_equal(verify(cases[i].card, "spoilt", "spoiling", ""), 1);
        assert_contains(fixture.output, "--verify: ");
        assert_contains(fixture.output, cases[i].told);
        assert_null(strstr(fixture.output, "[Codes]")); /* nothing is computed that would be reused */
        if (verify(cases[i].card, kept_format("exact%d", i), "spoiling", "--no-half --no-tf32"))
            fail_msg("%s", fixture.output);
    }
}

static int open_all(void **state) {
    published_open(state);
    cuda_program("tiny/train_gpt"); /* which is built for the emulated card alone */
    published_program = "emulated/tiny/train_gpt";
    return 0;
}

int main(void) { return tests_run(open_all, NULL); }
