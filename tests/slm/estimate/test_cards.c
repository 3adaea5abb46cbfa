/* --estimate --gpus: what several cards bring by the arithmetic, beside closed forms and beside what others measured.
 */
#include "tests/estimate_rig.h"

static const double parameters = 108780288;
/* The least flat buffer for R ranks: whole pieces of 4,096 elements for each. */
static double room_of(double ranks) { return ceil(parameters / 4096 / ranks) * 4096 * ranks; }

/* Returns the estimate of the text GPT; json_decref. */
static json_t *estimate(const char *options) {
    return estimate_parsed(kept_format("train_slm --context 1024 --amp --max-steps 60000 --num-workers 8 %s", options));
}

static const json_t *shared(const json_t *root) {
    const json_t *found = json_object_get(estimate_card(root), "shared");
    if (!found) fail_msg("the estimate has nothing of several cards");
    return found;
}

static double time_of(const json_t *way, const char *key) { return estimate_number(json_object_get(way, "time"), key); }

static const json_t *way(const json_t *root, const char *which) {
    const json_t *of = shared(root);
    return json_array_get(json_object_get(of, "ways"), (size_t)estimate_number(of, which));
}

/* Fails unless the chosen way is as fast as one card for the same step. Returns its scaling. */
static double chosen_scaling(const json_t *root) {
    double step = time_of(way(root, "chosen"), "step_seconds"), alone = time_of(way(root, "one_card"), "step_seconds");
    assert_true(step <= alone);
    return estimate_number(way(root, "chosen"), "scaling");
}

static double scaling(const char *options) {
    json_t *root = estimate(options);
    double s = estimate_number(shared(root), "scaling");
    chosen_scaling(root);
    json_decref(root);
    return s;
}

TEST(two_a30_over_pcie_4_scale_to_95_percent) {
    assert_true(scaling("-b 24 -g 1 --gpu a30 --gpus 2 --link pcie4") >= 0.95);
    assert_true(scaling("-b 24 -g 1 --gpu a30 --gpus 2 --link pcie4 --zero 1") >= 0.97);
    assert_true(scaling("--config configs/slm_a30x2.yaml --gpu a30") >= 0.97);
}

/* Sequences of a step as in LLMQ's records: 512 of 1,024 tokens, bf16, and the scaling that they have (benchmarks/ of
 * IST-DASLab/llmq against one card; Qwen2.5 0.5B to 32B). Ours is a smaller model, whose steps leave less to hide in.
 */
TEST(what_others_measured_is_reached_by_the_chosen_way) {
    static const struct {
        const char *options;
        double least, most;
    } records[] = {{"-b 16 -g 8 --gpu l40s --gpus 4 --link pcie4", 0.96, 1.00},
                   {"-b 16 -g 8 --gpu rtx4090 --gpus 4 --link pcie4", 0.93, 0.96},
                   {"-b 32 -g 2 --gpu h100 --gpus 8 --link nvlink", 0.95, 1.00},
                   {"-b 32 -g 2 --gpu a100-80 --gpus 8 --link nvlink", 0.95, 1.00}};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        json_t *root = estimate(records[i].options);
        double asked = estimate_number(way(root, "asked"), "scaling"), chosen = chosen_scaling(root);
        printf("%s: %.1f %%, chosen %.1f %%; others %.0f to %.0f %%\n", records[i].options, 100 * asked, 100 * chosen,
               100 * records[i].least, 100 * records[i].most);
        assert_true(chosen >= records[i].least);
        json_decref(root);
    }
}

TEST(cards_without_peer_to_peer_are_not_slower_than_one_when_chosen) {
    json_t *root = estimate("-b 24 -g 1 --gpu a30 --gpus 2 --link 1.1");
    assert_true(estimate_number(way(root, "asked"), "scaling") < 0.5); /* slower than one card */
    chosen_scaling(root);
    json_decref(root);
    for (int g = 1; g <= 4; g *= 2) scaling(kept_format("-b 8 -g %d --gpu rtx4090 --gpus 4 --link 0.3", g));
}

TEST(a_choice_of_cards_keeps_the_step) {
    json_t *root = estimate("-b 8 -g 8 --gpu rtx4090 --gpus auto --link 0.1");
    assert_int_equal(estimate_number(shared(root), "cards"), 1);
    json_decref(root);
    root = estimate("-b 8 -g 8 --gpu a100-80 --gpus auto");
    assert_int_equal(estimate_number(shared(root), "cards"), 8);
    estimate_expect("sequences", estimate_number(json_object_get(root, "step"), "sequences"), 64);
    json_decref(root);
}

TEST(each_card_sends_what_the_buckets_hold) {
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        double sent = (ranks - 1.0) / ranks * room_of(ranks);
        json_t *root = estimate(kept_format("-b 8 -g 1 --gpu l4 --gpus %d --link 10", ranks));
        const json_t *all = way(root, "asked");
        estimate_expect_near("f32 both ways", time_of(all, "sent_bytes"), 2 * 4 * sent, 1e-12);
        double buckets = ceil(4 * room_of(ranks) / 25e6);
        estimate_expect_near("seconds of the link", time_of(all, "link_seconds"),
                             2 * (4 * sent / 10e9 + buckets * 20e-6), 1e-3);
        json_decref(root);
        root = estimate(kept_format("-b 8 -g 1 --gpu l4 --gpus %d --link 10 --reduce-type bf16", ranks));
        estimate_expect_near("bf16 both ways", time_of(way(root, "asked"), "sent_bytes"), 2 * 2 * sent, 1e-12);
        json_decref(root);
        root = estimate(kept_format("-b 8 -g 1 --gpu l4 --gpus %d --link 10 --zero 1", ranks));
        estimate_expect_near("f32 one way, bf16 back", time_of(way(root, "asked"), "sent_bytes"), (4 + 2) * sent,
                             1e-12);
        estimate_expect("a rank's moments", estimate_number(json_object_get(root, "memory_bytes"), "optimizer"),
                        8 * room_of(ranks) / ranks);
        json_decref(root);
    }
}

TEST(steps_of_several_cards_are_counted_once) {
    json_t *one = estimate("-b 8 -g 4 --gpu l4"), *four = estimate("-b 8 -g 1 --gpu l4 --gpus 4");
    const json_t *steps[] = {json_object_get(one, "step"), json_object_get(four, "step")};
    estimate_expect("tokens", estimate_number(steps[1], "tokens"), estimate_number(steps[0], "tokens"));
    estimate_expect_near("one card", time_of(way(four, "one_card"), "step_seconds"),
                         estimate_number(estimate_card(one), "step_seconds"), 0.02);
    json_decref(one);
    json_decref(four);
}

/* A price without a card is the machine's; one of a card is that of each. */
TEST(prices_are_of_each_card_or_of_the_machine) {
    json_t *machine = estimate("-b 8 --gpu l4 --gpus 2 --price 1.6"),
           *cards = estimate("-b 8 --gpu l4 --gpus 2 --price l4=0.8");
    estimate_expect_near("the same", estimate_number(estimate_card(cards), "cost"),
                         estimate_number(estimate_card(machine), "cost"), 1e-12);
    json_decref(machine);
    json_decref(cards);
}

TEST(the_effective_batch_is_that_of_all_cards) {
    json_t *root = estimate("-b auto --effective-batch 96 --gpu a30 --gpus 2");
    estimate_expect("sequences", estimate_number(json_object_get(root, "step"), "sequences"), 96);
    assert_true((int)estimate_number(estimate_card(root), "batch_size") <= 48);
    json_decref(root);
}

static void expect_refused(const char *options, const char *why) {
    estimate_command(2, false, kept_format("train_slm --estimate %s", options));
    if (!strstr(estimate_output, why)) fail_msg("%s: %s", options, estimate_output);
}

TEST(what_makes_no_sense_is_refused) {
    expect_refused("--gpu a30 --link 2", "--link 2 belongs to --gpus");
    expect_refused("--gpu a30 --gpus 1 --link 2", "--gpus 1 is one");
    expect_refused("--gpu l4 --gpus 2 --link nvlink", "has no NVLink");
    expect_refused("--gpu a30 --gpus 0", "expected auto, a number of GPUs");
    expect_refused("--gpu a30 --gpus 2,x", "expected auto, a number of GPUs");
    expect_refused("--gpu a30 --gpus auto -b auto", "each depends on the other");
    expect_refused("--gpu t4 --gpus 2 --reduce-type bf16", "a t4 has no such type");
    expect_refused("--gpu a30 --gpus 2 -b auto --effective-batch 33", "cannot share a step of 33 samples");
}

/* Writes what the table of docs/many_gpus.md has of a way: "200 ms, 96 %". */
static const char *cell_of(const json_t *of) {
    return kept_format("%.3g ms, %.0f %%", 1e3 * time_of(of, "step_seconds"), 100 * estimate_number(of, "scaling"));
}

/* Returns the row of the table with these options. */
static const char *row_of(const char *options) {
    json_t *root = estimate_parsed(kept_format("%s --calibration none", options));
    const json_t *ways = json_object_get(shared(root), "ways"), *chosen = way(root, "chosen");
    int cards = (int)estimate_number(chosen, "cards");
    bool zero = json_is_true(json_object_get(chosen, "zero"));
    double gain = time_of(way(root, "one_card"), "step_seconds") / time_of(chosen, "step_seconds");
    const char *what = cards > 1 ? kept_format("%d, `--zero %d`", cards, zero) : "1";
    const char *row = kept_format("| `%s` | %s | %s | %s | %.2f |", options, cell_of(json_array_get(ways, 0)),
                                  cell_of(json_array_get(ways, 1)), what, gain);
    json_decref(root);
    return row;
}

TEST(the_documented_table_is_what_the_programs_print) {
    char *text, *rest, *end;
    size_t size;
    Error error;
    int rows = 0;
    if (!read_file("docs/many_gpus.md", &text, &size, &error)) fail_msg("%s", error.text);
    rest = strstr(text, "## What several cards bring");
    assert_non_null(rest);
    for (char *line; (line = strsep(&rest, "\n")) && strncmp(line, "## Trainings", 12);) {
        if (strncmp(line, "| `train_", 9) || !(end = strchr(line + 3, '`'))) continue;
        const char *want = row_of(kept_format("%.*s", (int)(end - line - 3), line + 3));
        if (strcmp(line, want) != 0) fail_msg("docs/many_gpus.md has\n%s\nand the program\n%s", line, want);
        rows++;
    }
    assert_true(rows >= 12);
    free(text);
}
