/* How ranks share a step: what is chosen, and that it is never slower than one card. */
#include "tests/estimate_rig.h"
#include "train/parallel/advice.h"

static TimedBucket buckets[] = {{2e6, 18e-3, 6e-3, false}, {2e6, 24e-3, 3e-3, false}, {2e6, 30e-3, 0, false}};
static const StepParts parts = {
    .first = 30e-3, .later = 30e-3, .update = 2e-3, .pass = 30e-3, .buckets = buckets, .n_buckets = 3};

static AdviceRequest request_of(double rate, int ranks, int64_t micro_batches) {
    return (AdviceRequest){.parts = &parts,
                           .link = {.name = "a link", .rate = rate, .latency = 20e-6},
                           .sharing = {.ranks = ranks,
                                       .micro_batches = micro_batches,
                                       .reduce_bytes = 4,
                                       .parameter_bytes = 2,
                                       .small = 1},
                           .available = ranks};
}

static Advice advise(double rate, int ranks, int64_t micro_batches) {
    AdviceRequest request = request_of(rate, ranks, micro_batches);
    return advice_of(&request);
}

/* 24 micro-batches on 12, 8, 6, 4, 3 or 2 ranks, with whole or divided moments, or on one. */
TEST(all_ways_are_the_same_step) {
    Advice a = advise(1e9, 12, 2);
    assert_int_equal(a.n, 2 * 6 + 1);
    for (int i = 0; i < a.n; i++) assert_int_equal(a.ways[i].sharing.ranks * a.ways[i].sharing.micro_batches, 24);
}

TEST(a_slow_link_leaves_one_card) {
    Advice a = advise(1e8, 4, 1);
    assert_int_equal(a.chosen, a.alone);
    assert_int_equal(a.ways[a.chosen].sharing.ranks, 1);
    assert_int_equal(a.ways[a.chosen].sharing.micro_batches, 4);
}

TEST(a_fast_link_takes_all_cards) {
    Advice a = advise(1e11, 4, 1);
    assert_int_equal(a.ways[a.chosen].sharing.ranks, 4);
    assert_int_equal(a.hiding, 0);
}

TEST(nothing_is_slower_than_one_card) {
    for (double rate = 1e7; rate < 1e12; rate *= 1.7)
        for (int ranks = 1; ranks <= ADVICE_RANKS; ranks++)
            for (int64_t g = 1; g <= 8; g *= 2) {
                Advice a = advise(rate, ranks, g);
                const AdviceWay *chosen = &a.ways[a.chosen];
                assert_true(chosen->time.step <= a.ways[a.alone].time.step);
                assert_true(chosen->time.step <= a.ways[a.asked].time.step);
                assert_int_equal(chosen->sharing.ranks * chosen->sharing.micro_batches, ranks * g);
                assert_int_equal(chosen->sharing.reduce_bytes, 4);
            }
}

TEST(what_does_not_fit_is_not_chosen) {
    AdviceRequest request = request_of(1e11, 4, 1);
    request.bytes = 10e9, request.moments = 4e9, request.memory = 7.5e9; /* 7 GB with a quarter of the moments */
    Advice a = advice_of(&request);
    assert_true(a.ways[a.chosen].sharing.divided);
    assert_int_equal(a.ways[a.chosen].sharing.ranks, 4);
    assert_false(a.ways[a.alone].fits);
    request.memory = 1e9;
    a = advice_of(&request);
    assert_int_equal(a.chosen, a.asked);
}

/* At 1 GB/s a step of two exchanges for 24 ms, of which 12 are hidden; 30 ms of each further micro-batch of which
 * nothing is exchanged make 12 ms less than a twentieth from the eighth on. */
TEST(a_larger_step_is_only_named) {
    Advice a = advise(1e9, 2, 1);
    assert_int_equal(a.hiding, 8);
    char text[ADVICE_TEXT];
    advice_text(&a, text);
    assert_non_null(strstr(text, "-g 8 would hide it: 8 times the effective batch"));
    assert_non_null(strstr(text, "--reduce-type bf16 would take"));
    assert_true(a.halved > 0 && a.halved < a.ways[a.asked].time.step);
}

/* Begins with this text. */
static void expect_text(double rate, int ranks, int64_t micro_batches, const char *want) {
    char text[ADVICE_TEXT];
    Advice a = advise(rate, ranks, micro_batches);
    if (strncmp(advice_text(&a, text), want, strlen(want)) != 0) fail_msg("'%s' instead of '%s'", text, want);
}

TEST(the_text_has_the_choice_and_the_numbers) {
    expect_text(1e8, 2, 3,
                "2 cards, -g 3 --zero 0: a step would take 320.2 ms; chosen: one card, -g 6, with 182.0 ms\nof a step "
                "228.2 ms are not hidden, in which each card sends 24.0 MB over a link; ");
    expect_text(1e11, 2, 1,
                "2 cards, -g 1 --zero 0: a step would take 32.2 ms; chosen: 2 cards, -g 1 --zero 1, with 31.2 ms, "
                "1.99 times as fast as one card, -g 2 (62.0 ms)");
    expect_text(1e11, 1, 4, "one card, -g 4: a step takes 122.0 ms");
}

TEST(programs_that_count_all_micro_batches_are_told_all) {
    AdviceRequest request = request_of(1e11, 2, 3);
    char text[64];
    request.whole_step = true;
    Advice a = advice_of(&request);
    assert_string_equal(advice_way_text(&a, a.asked, text), "2 cards, -g 6 --zero 0");
    assert_string_equal(advice_way_text(&a, a.alone, text), "one card, -g 6");
}
