/* train_gpt prepare --indextts2 on the emulated card, with tiny networks (tests/gpt/published_rig.h): as on the CPU as
 * far as its types of products allow, and the same bytes whatever is computed together. */
#include "kernels/cards.h"
#include "tests/cuda/program_rig.h"
#include "tests/golden.h"
#include "tests/gpt/published_rig.h"

enum { CLIPS = 6 };
static const char *const few = "--val-ratio 0.3 --num-workers 2 --device cuda";

static void prepare(const char *output, const char *more) {
    int status = published_try(output, "few.tsv", "published", kept_format("%s %s", few, more));
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

/* The largest margin with which a code is another one, and the distances of vectors. */
typedef struct {
    double margin, condition, emotion;
    int equal, codes;
} Difference;

static double distance(float *got, const float *want, int64_t n) {
    double far = relative_error(got, want, n);
    free(got);
    return far;
}

static Difference compare(PublishedNets *nets, const char *output) {
    Difference d = {.margin = 0};
    for (int i = 0; i < CLIPS; i++) {
        const char *id = corpus_ids[i];
        PublishedResults want = published_compute(nets, published_sound(i));
        int64_t dims[2];
        int32_t *codes = corpus_read_array(output, "codes", id, 'i', dims);
        assert_int_equal(dims[0], want.rows);
        for (int64_t t = 0; t < want.rows; t++) {
            d.equal += codes[t] == want.codes[t];
            if (codes[t] != want.codes[t]) d.margin = fmax(d.margin, (double)want.margins[t]);
        }
        d.codes += (int)want.rows;
        d.condition = fmax(d.condition, distance(corpus_read_array(output, "condition", id, 'f', dims), want.condition,
                                                 32 * PUBLISHED_WIDTH));
        d.emotion = fmax(d.emotion,
                         distance(corpus_read_array(output, "emo_vec", id, 'f', dims), want.emotion, PUBLISHED_WIDTH));
        free(codes);
        published_results_free(&want);
    }
    print_message("%s: %d of %d codes are equal, others have margins of at most %.2g; condition %.2g, emotion %.2g\n",
                  output, d.equal, d.codes, d.margin, d.condition, d.emotion);
    return d;
}

/* Some hundred roundings lie one behind the other, independent of each other: 6e-8 each in f32 (tests/golden.h); at
 * most 2^-11 of the operands of products in TF32 and f16, 2^-8 in bf16, hence sqrt(100) times that. A direction that
 * turns by d changes the difference of its cosines with two codes by at most 2 d; single rows are up to four times as
 * far as all of them. */
TEST(features_are_those_of_the_cpu) {
    if (!emulated) skip();
    const double f32 = golden_tolerance, f16 = 10 * 0x1p-11, bf16 = 10 * 0x1p-8;
    const struct {
        const char *card, *options, *told;
        double codes, vectors;
    } cases[] = {{"l4", "--no-tf32 --no-half", "products of f32, of the conditioning f32\n", f32, f32},
                 {"l4", "", "products of f32, of the conditioning bf16\n", f16, bf16},
                 {"t4", "", "products of f16, of the conditioning f32\n", f16, f16}};
    PublishedNets nets;
    published_nets_open(&nets);
    for (int i = 0; i < 3; i++) {
        char *output = kept_format("card%d", i);
        set_variable("EMULATE_CARD", cases[i].card);
        prepare(output, cases[i].options);
        assert_contains(fixture.output, cases[i].told);
        assert_contains(fixture.output, "[Codes] 6 clips coded, 0 reused\n");
        Difference d = compare(&nets, output);
        assert_true(d.margin <= 2 * 4 * cases[i].codes);
        assert_true(d.condition <= cases[i].vectors && d.emotion <= cases[i].vectors);
    }
    set_variable("EMULATE_CARD", NULL);
    published_nets_close(&nets);
}

/* All at once, and every other clip beside others. */
TEST(clips_have_the_same_bytes_in_any_company) {
    if (!emulated) skip();
    static const char *const cards[] = {"l4", "t4"};
    for (int i = 0; i < 2; i++) {
        char *all = corpus_folder(kept_format("all_%s", cards[i])), *parts = kept_format("parts_%s", cards[i]);
        set_variable("EMULATE_CARD", cards[i]);
        prepare(kept_format("all_%s", cards[i]), "");
        must_run("cp -r %s %s && rm %s/codes/*[135].npy", all, corpus_folder(parts), corpus_folder(parts));
        prepare(parts, "--num-workers 1");
        assert_contains(fixture.output, "[Codes] 3 clips coded, 3 reused; 3 of them were coded before");
        corpus_assert_same(kept_format("all_%s", cards[i]), parts);
    }
    set_variable("EMULATE_CARD", NULL);
}

/* Bytes that are told as "1.55 MB". */
static double read_bytes(const char *behind) {
    const char *at = strstr(fixture.output, behind);
    double value;
    char unit[3];
    if (!at || sscanf(at + strlen(behind), "%lf %2s", &value, unit) != 2) fail_msg("%s", fixture.output);
    return value * (unit[0] == 'k' ? 1e3 : unit[0] == 'M' ? 1e6 : 1);
}

/* With room for half of what all clips together need there are several passes, with too little for one a refusal. */
TEST(passes_fit_into_the_memory_of_the_card) {
    if (!emulated) skip();
    const double memory = 900e6;
    set_variable("EMULATE_CARD", "l4");
    set_variable("EMULATE_MEMORY", kept_format("%.0f", memory));
    prepare("at_once", "");
    double weights = read_bytes("[Memory] weights "), pass = read_bytes(" s of sound "), taken = memory;
    taken -= read_bytes("B, of "); /* what is available */
    set_variable("EMULATE_MEMORY", kept_format("%.0f", taken + weights + pass / 2));
    prepare("in_parts", "");
    double part = read_bytes(" s of sound ");
    print_message("a pass of %.0f bytes in place of %.0f\n", part, pass);
    assert_true(part <= pass / 2);
    corpus_assert_same("at_once", "in_parts");
    set_variable("EMULATE_MEMORY", kept_format("%.0f", taken + weights));
    assert_int_equal(published_try("too_little", "few.tsv", "published", few), 1);
    assert_contains(fixture.output, "the networks of IndexTTS2 need ");
    assert_contains(fixture.output, " for the longest clip, and ");
    set_variable("EMULATE_MEMORY", NULL);
    set_variable("EMULATE_CARD", NULL);
}

static int open_few(void **state) {
    published_open(state);
    cuda_program("tiny/train_gpt"); /* which is built for the emulated card alone */
    published_program = "emulated/tiny/train_gpt";
    must_run("head -%d %s/list.tsv >%s/few.tsv", CLIPS, corpus_root, corpus_root);
    return 0;
}

int main(void) { return tests_run(open_few, NULL); }
