/* Sampling: which ids can be drawn and how often, against distributions computed by hand. */
#include <math.h>

#include "model/sampling.h"
#include "tests/test.h"

enum { N = 6, DRAWS = 20000 };

static const Sampling plain = {.repetition_penalty = 1, .temperature = 1, .top_p = 1, .seed = 3};

static int32_t draw_one(const Sampling *s, const float *logits, int n, const uint8_t *seen, uint64_t position) {
    float copy[64];
    int32_t room[64];
    static const uint8_t none[64];
    memcpy(copy, logits, (size_t)n * sizeof *copy);
    return sample_id(s, (Draw){1, position}, copy, n, seen ? seen : none, room);
}

/* Expects the shares of DRAWS draws to be these probabilities, within 4.5 standard deviations; what has probability 0
 * must not be drawn. */
static void expect_shares(const char *what, const Sampling *s, const float *logits, const uint8_t *seen,
                          const double *want) {
    int counts[N] = {0};
    for (int i = 0; i < DRAWS; i++) counts[draw_one(s, logits, N, seen, (uint64_t)i)]++;
    for (int i = 0; i < N; i++) {
        double share = counts[i] / (double)DRAWS, allowed = 4.5 * sqrt(want[i] * (1 - want[i]) / DRAWS);
        if (!(fabs(share - want[i]) <= allowed))
            fail_msg("%s: id %d has share %.4f, expected %.4f +- %.4f", what, i, share, want[i], allowed);
    }
}

/* Logits of the probabilities 0.05, 0.4, 0.1, 0.25, 0.15, 0.05. */
static const double shares[N] = {0.05, 0.4, 0.1, 0.25, 0.15, 0.05};
static void set_logits(float logits[N]) {
    for (int i = 0; i < N; i++) logits[i] = (float)log(shares[i]) + 2;
}

TEST(shares_are_those_of_the_softmax) {
    float logits[N];
    Sampling s = plain;
    double want[N], sum = 0;
    set_logits(logits);
    expect_shares("temperature 1", &s, logits, NULL, shares);
    s.temperature = 0.5f; /* squares the probabilities */
    for (int i = 0; i < N; i++) sum += want[i] = shares[i] * shares[i];
    for (int i = 0; i < N; i++) want[i] /= sum;
    expect_shares("temperature 0.5", &s, logits, NULL, want);
    logits[1] = -INFINITY;
    const double without[N] = {0.05 / 0.6, 0, 0.1 / 0.6, 0.25 / 0.6, 0.15 / 0.6, 0.05 / 0.6};
    expect_shares("a forbidden id", &plain, logits, NULL, without);
    s = plain, s.top_k = N;
    expect_shares("a forbidden id among the top 6", &s, logits, NULL, without);
}

TEST(top_k_keeps_the_most_probable) {
    float logits[N];
    Sampling s = plain;
    set_logits(logits);
    s.top_k = 3;
    expect_shares("top 3", &s, logits, NULL, (double[N]){0, 0.5, 0, 0.3125, 0.1875, 0});
    s.top_k = 1;
    expect_shares("top 1", &s, logits, NULL, (double[N]){0, 1, 0, 0, 0, 0});
    s.top_k = 100;
    expect_shares("top 100 of 6", &s, logits, NULL, shares);
    s.top_k = 5; /* ids 0 and 5 are equal: the lower one comes first */
    expect_shares("a tie", &s, logits, NULL,
                  (double[N]){0.05 / 0.95, 0.4 / 0.95, 0.1 / 0.95, 0.25 / 0.95, 0.15 / 0.95, 0});
}

/* The fewest ids whose probabilities together reach the share; the id that reaches it is one of them. */
TEST(top_p_keeps_the_fewest_that_reach_it) {
    float logits[N];
    Sampling s = plain;
    set_logits(logits);
    static const struct {
        float p;
        double want[N];
    } cases[] = {
        {1e-6f, {0, 1, 0, 0, 0, 0}}, /* never none */
        {0.39f, {0, 1, 0, 0, 0, 0}},
        {0.41f, {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0, 0}},
        {0.64f, {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0, 0}},
        {0.66f, {0, 0.5, 0, 0.3125, 0.1875, 0}},
        {0.91f, {0.05 / 0.95, 0.4 / 0.95, 0.1 / 0.95, 0.25 / 0.95, 0.15 / 0.95, 0}},
        {1, {0.05, 0.4, 0.1, 0.25, 0.15, 0.05}},
    };
    for (int i = 0; i < 7; i++) {
        s.top_p = cases[i].p;
        expect_shares("top-p", &s, logits, NULL, cases[i].want);
    }
    s.top_k = 3, s.top_p = 0.6f; /* of the top 3, which have 0.5, 0.3125 and 0.1875 */
    expect_shares("top-p behind top-k", &s, logits, NULL, (double[N]){0, 0.5 / 0.8125, 0, 0.3125 / 0.8125, 0, 0});
}

/* Divides logits above 0 and multiplies those below; ids that have not occurred keep theirs. */
TEST(the_penalty_moves_logits_towards_less) {
    const float logits[N] = {2, -1, 2, 0, -1, 1};
    const uint8_t seen[N] = {1, 1, 0, 1, 0, 0};
    const double moved[N] = {2 / 1.5, -1.5, 2, 0, -1, 1};
    Sampling s = plain;
    double want[N], sum = 0;
    s.repetition_penalty = 1.5f;
    for (int i = 0; i < N; i++) sum += want[i] = exp(moved[i]);
    for (int i = 0; i < N; i++) want[i] /= sum;
    expect_shares("penalty", &s, logits, seen, want);
    s.temperature = 0;
    assert_int_equal(draw_one(&s, logits, N, seen, 0), 2); /* before it, ids 0 and 2 were equal */
    s.repetition_penalty = 1;
    assert_int_equal(draw_one(&s, logits, N, seen, 0), 0); /* of equal ones the lowest */
}

TEST(logits_that_are_no_numbers_give_no_id) {
    const float bad[][3] = {{0, NAN, 1}, {INFINITY, 0, 1}, {-INFINITY, -INFINITY, -INFINITY}, {NAN, NAN, NAN}};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            Sampling s = plain;
            s.temperature = k == 1 ? 0 : 1;
            s.top_k = k == 2 ? 2 : 0;
            s.top_p = k == 3 ? 0.5f : 1;
            assert_int_equal(draw_one(&s, bad[i], 3, NULL, 0), -1);
        }
    const float large[3] = {1e38f, -3e38f, 9e37f};
    assert_int_equal(draw_one(&plain, large, 3, NULL, 0), 0);
}

/* The draw depends on seed, sequence and position, on each of them. */
TEST(draws_follow_seed_sequence_and_position) {
    float logits[64] = {0}, copy[64];
    int32_t room[64];
    const uint8_t seen[64] = {0};
    int equal[4] = {0};
    for (uint64_t i = 0; i < 200; i++) {
        int32_t ids[5];
        for (int k = 0; k < 5; k++) {
            Sampling s = plain;
            s.seed += k == 1;
            memcpy(copy, logits, sizeof copy);
            ids[k] = sample_id(&s, (Draw){7 + (k == 2), i + 1000 * (k == 3)}, copy, 64, seen, room);
        }
        assert_int_equal(ids[4], ids[0]);
        for (int k = 1; k < 4; k++) equal[k] += ids[k] == ids[0];
    }
    for (int k = 1; k < 4; k++) assert_in_range(equal[k], 0, 12); /* 200 / 64 are expected by chance */
}

TEST(numbers_out_of_range_are_named) {
    static const struct {
        Sampling s;
        const char *want;
    } bad[] = {
        {{.repetition_penalty = 0, .temperature = 1, .top_p = 1}, "the repetition penalty is 0, expected more than 0"},
        {{.repetition_penalty = 1, .temperature = -1, .top_p = 1}, "the temperature is -1, expected 0 or more"},
        {{.repetition_penalty = 1, .temperature = NAN, .top_p = 1}, "the temperature is nan"},
        {{.repetition_penalty = 1, .temperature = 1, .top_k = -1, .top_p = 1}, "top-k is -1, expected 0 or more"},
        {{.repetition_penalty = 1, .temperature = 1, .top_p = 0}, "top-p is 0, expected more than 0 and at most 1"},
        {{.repetition_penalty = 1, .temperature = 1, .top_p = 1.5f}, "top-p is 1.5"},
    };
    Error error;
    for (int i = 0; i < 6; i++) {
        assert_false(sampling_is_valid(&bad[i].s, &error));
        assert_contains(error.text, bad[i].want);
    }
    assert_true(sampling_is_valid(&plain, &error));
}
