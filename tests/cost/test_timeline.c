/* Steps that cards share, against a timeline by hand. */
#include "cost/timeline.h"
#include "tests/estimate_rig.h"

/* Two ranks over 1 GB/s without latency: a bucket of 2 million f32 numbers takes 4 ms for each half of its exchange,
 * and as 16-bit numbers 2 ms. A micro-batch takes 30 ms, of which 10 are its forward. */
enum { MILLION = 1000000 };
static const double ms = 1e-3;
static const Link gigabyte = {.name = "1 GB/s", .rate = 1e9};

static TimedBucket three[] = {
    {2 * MILLION, 18e-3, 6e-3, false}, {2 * MILLION, 24e-3, 3e-3, false}, {2 * MILLION, 30e-3, 0, false}};

static const StepParts parts = {
    .first = 30e-3, .later = 28e-3, .update = 2e-3, .loader = 1e-3, .pass = 30e-3, .buckets = three, .n_buckets = 3};

static const Sharing two = {.ranks = 2, .micro_batches = 1, .reduce_bytes = 4, .parameter_bytes = 4};

/* The buckets are sent from 18 to 26, 26 to 34 and 34 to 42 ms, and the backward ends at 30. */
TEST(buckets_are_sent_when_they_are_final_one_after_the_other) {
    SharedStep t = timeline_step(&parts, &gigabyte, &two);
    estimate_expect_near("compute", t.compute, 32 * ms, 1e-12);
    estimate_expect_near("gradients", t.reducing, 12 * ms, 1e-12);
    estimate_expect_near("step", t.step, 44 * ms, 1e-12);
    estimate_expect_near("the link", t.communicated, 24 * ms, 1e-12);
    estimate_expect_near("bytes", t.sent, 24e6, 1e-12);
    estimate_expect_near("scaling", timeline_scaling(&parts, &gigabyte, &two), 32.0 / 44, 1e-12);
}

/* At 2 GB/s they take 4 ms each: from 18 to 22, 24 to 28, 30 to 34. */
TEST(a_fast_link_waits_for_gradients) {
    Link fast = gigabyte;
    fast.rate = 2e9;
    estimate_expect_near("gradients", timeline_step(&parts, &fast, &two).reducing, 4 * ms, 1e-12);
}

TEST(sixteen_bits_halve_what_is_sent) {
    Sharing half = two;
    half.reduce_bytes = 2;
    SharedStep t = timeline_step(&parts, &gigabyte, &half);
    estimate_expect_near("gradients", t.reducing, 4 * ms, 1e-12);
    estimate_expect_near("bytes", t.sent, 12e6, 1e-12);
}

/* Only the last of four micro-batches exchanges; its pass takes 28 of the 30 ms that the buckets were timed in, so they
 * are sent from 16.8 to 24.8, 32.8 and 40.8. */
TEST(only_the_last_micro_batch_exchanges) {
    Sharing four = two;
    four.micro_batches = 4;
    SharedStep t = timeline_step(&parts, &gigabyte, &four);
    estimate_expect_near("compute", t.compute, (30 + 3 * 28 + 2) * ms, 1e-12);
    estimate_expect_near("gradients", t.reducing, 12.8 * ms, 1e-12);
}

/* Gradients go one way only: 18 to 22, 24 to 28, 30 to 34. The update is halved. Parameters come back from 0 to 4, 8
 * and 12 ms; the forward needs the first before it begins, which is at 4, the second 3 ms later, which becomes 8, and
 * the third 3 ms after that, which becomes 12. */
TEST(divided_moments_send_parameters_under_the_next_forward) {
    Sharing divided = two;
    divided.divided = true;
    SharedStep t = timeline_step(&parts, &gigabyte, &divided);
    estimate_expect_near("gradients", t.reducing, 4 * ms, 1e-12);
    estimate_expect_near("parameters", t.gathering, 6 * ms, 1e-12);
    estimate_expect_near("step", t.step, (30 + 1 + 4 + 6) * ms, 1e-12);
    estimate_expect_near("bytes", t.sent, 24e6, 1e-12);
    divided.parameter_bytes = 2; /* 0 to 2, 4 and 6: only the first is waited for */
    t = timeline_step(&parts, &gigabyte, &divided);
    estimate_expect_near("16-bit parameters", t.gathering, 2 * ms, 1e-12);
    estimate_expect_near("fewer bytes", t.sent, 18e6, 1e-12);
}

TEST(whole_matrices_gradients_come_back_too) {
    TimedBucket buckets[3];
    memcpy(buckets, three, sizeof buckets);
    buckets[2].gathered = true;
    StepParts with = parts;
    with.buckets = buckets;
    Sharing divided = two;
    divided.divided = true;
    estimate_expect_near("gradients", timeline_step(&with, &gigabyte, &divided).reducing, 8 * ms, 1e-12);
}

/* One bucket, final at 10 of 30 ms, takes 10 ms, in which a fifth of the card sends: the pass computes 8 ms of the
 * other 20, and ends at 32. */
TEST(a_card_that_sends_computes_slower) {
    TimedBucket one = {.elements = 2.5 * MILLION, .final = 10e-3};
    Link link = gigabyte;
    StepParts slowed = parts;
    link.channels = 4;
    slowed.multiprocessors = 20, slowed.buckets = &one, slowed.n_buckets = 1;
    SharedStep t = timeline_step(&slowed, &link, &two);
    estimate_expect_near("slowed", t.slowed, 2 * ms, 1e-12);
    assert_true(fabs(t.reducing) < 1e-15);
    estimate_expect_near("step", t.step, 34 * ms, 1e-12);
}

TEST(small_exchanges_take_their_latency) {
    Link slow = gigabyte;
    Sharing small = two;
    slow.latency = 1 * ms;
    small.small = 3;
    estimate_expect_near("small", timeline_step(&parts, &slow, &small).small, 6 * ms, 1e-12);
    estimate_expect_near("the link", timeline_step(&parts, &slow, &small).communicated, 30 * ms, 1e-12);
}

TEST(one_rank_exchanges_nothing) {
    Sharing one = two;
    one.ranks = 1;
    SharedStep t = timeline_step(&parts, &gigabyte, &one);
    estimate_expect_near("step", t.step, 32 * ms, 1e-12);
    assert_true(t.sent == 0 && timeline_exposed(&t) == 0);
}

TEST(a_loader_that_feeds_all_may_take_longer) {
    StepParts starved = parts;
    starved.loader = 50 * ms;
    estimate_expect_near("step", timeline_step(&starved, &gigabyte, &two).step, 100 * ms, 1e-12);
}

/* A public report: two rented RTX 4090 without peer-to-peer (cortwave.github.io/posts/multi-gpu). One card trains 15.4
 * samples a second, with 19 ms an update; with two, update and exchange take 400 ms, after the backward, and 4.5
 * samples a second are left, 3.4 times fewer: a micro-batch of one sample each. A prediction from the first three
 * numbers must give the fourth. */
TEST(two_rented_cards_without_peer_to_peer_are_slower_than_one) {
    const double alone = 1 / 15.4, update = 19e-3, exchange = 400e-3 - update;
    TimedBucket all = {.elements = 1, .final = alone - update};
    const StepParts report = {
        .first = alone - update, .update = update, .pass = alone - update, .buckets = &all, .n_buckets = 1};
    const Link link = {.rate = 4 / exchange}; /* all_reduces the one number in that time */
    const Sharing shared = {.ranks = 2, .micro_batches = 1, .reduce_bytes = 4, .parameter_bytes = 4};
    double samples = 2 / timeline_step(&report, &link, &shared).step;
    estimate_expect_near("samples a second of two cards", samples, 4.5, 0.02);
    estimate_expect_near("times as slow", 15.4 / samples, 3.4, 0.02);
}
