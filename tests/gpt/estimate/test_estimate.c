/* --estimate of train_gpt: the counted work, the data, what fits and -b auto, and what is printed. */

#include "kernels/cards.h"
#include "tests/estimate_rig.h"

/* Checkpointing does a block's forward again, but for what the backward has at hand. */
TEST(recomputed_blocks_cost_a_forward_more) {
    json_t *once = estimate_parsed("train_gpt --amp --gpu l4"),
           *twice = estimate_parsed("train_gpt --amp --gpu l4 --grad-checkpointing");
    double calls = estimate_of_op(once, "linear_gelu_forward", "calls");
    estimate_expect("calls", calls, 4 * 24);
    estimate_expect("calls", estimate_of_op(twice, "linear_gelu_forward", "calls"), 2 * calls);
    estimate_expect("calls", estimate_of_op(twice, "linear_backward", "calls"),
                    estimate_of_op(once, "linear_backward", "calls"));
    assert_true(estimate_number(json_object_get(twice, "memory_bytes"), "activations") <
                estimate_number(json_object_get(once, "memory_bytes"), "activations") / 2);
    json_decref(once);
    json_decref(twice);
}

/* Four micro-batches of 8 x 387 rows (34 + 102 + 251), as test_model.c counts them by hand: 2 x 471 859 200 block
 * weights a row, causal attention 2 x 387^2 x 1280 a layer and sequence, heads over the 101 and 251 rows that have a
 * target. The backward is twice the forward; norms, GELU and attention's extra product are what the 1 % is for. */
TEST(the_full_gpt_is_counted) {
    json_t *root = estimate_parsed("train_gpt -b 8 -g 4 --amp --number-text-tokens 24000 --gpu l4");
    double forward =
        8 * (387 * 2 * 471859200.0 + 24 * 2 * 387.0 * 387 * 1280 + 2 * 1280 * (24001.0 * 101 + 8194.0 * 251));
    estimate_expect_near("a step", estimate_number(json_object_get(root, "step"), "flops"), 4 * 3 * forward, 0.01);
    estimate_expect("tokens", estimate_number(json_object_get(root, "step"), "tokens"), 4 * 8 * 387);
    assert_true(json_is_true(json_object_get(root, "typical_data")));
    json_decref(root);
}

/* The program's own sums: the operations' times are the step's, and the step's the run's. */
TEST(the_parts_add_up_to_the_whole) {
    json_t *root = estimate_parsed(
               "train_gpt -b 8 -g 4 --amp --gpu a100-40 --max-steps 500 --save-interval 200 --price 2EUR"),
           *row;
    const json_t *card = estimate_card(root);
    double sum = 0, steps = estimate_number(root, "steps");
    size_t i;
    json_array_foreach(json_object_get(card, "operations"), i, row) sum += estimate_number(row, "seconds");
    sum += estimate_number(card, "copy_seconds");
    estimate_expect_near("a step", estimate_number(card, "step_seconds"), sum, 1e-12);
    estimate_expect("steps", steps, 500);
    estimate_expect_near("steps", estimate_number(card, "steps_seconds"), 500 * sum, 1e-12);
    estimate_expect("checkpoints", estimate_number(root, "checkpoints"), 3); /* 200, 400 and the last */
    /* Less than a second each to write beside the training: only the copy is waited for. */
    estimate_expect_near("checkpoints", estimate_number(card, "checkpoint_seconds"),
                         3 * estimate_number(root, "checkpoint_bytes") / (0.8 * 31.5e9), 1e-9);
    estimate_expect_near("all", estimate_number(card, "seconds"),
                         estimate_number(card, "steps_seconds") + estimate_number(card, "checkpoint_seconds"), 1e-12);
    estimate_expect_near("cost", estimate_number(card, "cost"), 2 * estimate_number(card, "seconds") / 3600, 1e-12);
    assert_string_equal(json_string_value(json_object_get(card, "currency")), "EUR");
    json_decref(root);
}

/* ---- data ---- */

/* n lines that name files which are not there; in turns 60 and 100 text tokens, 200 and 300 codes. */
static char *make_manifest(int n) {
    char *directory = kept_folder(), *path = kept_path(directory, "m.jsonl");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < n; i++)
        fprintf(file,
                "{\"id\": \"s%d\", \"audio_path\": \"a.wav\", \"text\": \"x\", \"speaker\": \"s\", \"language\": "
                "\"am\", \"duration\": null, \"text_ids_path\": \"t%d.npy\", \"text_len\": %d, \"codes_path\": "
                "\"c%d.npy\", \"code_len\": %d, \"condition_path\": \"k%d.npy\", \"condition_len\": 32, "
                "\"emo_vec_path\": \"e%d.npy\"}\n",
                i, i, i % 2 ? 60 : 100, i, i % 2 ? 200 : 300, i, i);
    assert_int_equal(fclose(file), 0);
    return path;
}

TEST(the_manifests_own_lengths_count) {
    char *path = make_manifest(40),
         *line = kept_format("train_gpt -m %s --val-ratio 0 -b 4 -g 2 --epochs 3 --val-interval 4 --gpu l4", path);
    json_t *root = estimate_parsed(line);
    const json_t *epoch = json_object_get(root, "epoch"), *step = json_object_get(root, "step");
    estimate_expect("samples", estimate_number(epoch, "samples"), 40);
    estimate_expect("micro-batches", estimate_number(epoch, "micro_batches"), 10);
    estimate_expect("tokens", estimate_number(epoch, "tokens"), 20 * (34 + 62 + 201) + 20 * (34 + 102 + 301));
    double pairs = 20 * (297 * 298 / 2 + 437 * 438 / 2); /* causal; 24 blocks, 1280 wide, 20 heads, dropout */
    estimate_expect_near("attention", estimate_of_op(root, "attention_forward", "flops"),
                         24 * attention_flops(pairs, 1280, 20, true) / 5, 1e-12);
    estimate_expect_near("tokens of a step", estimate_number(step, "tokens"), estimate_number(epoch, "tokens") / 5,
                         1e-12);
    estimate_expect("steps", estimate_number(root, "steps"), 15);
    assert_true(json_is_false(json_object_get(root, "typical_data")));
    json_decref(root);
    /* A quarter is held out, in some number of samples that the hash of the ids decides. */
    line = kept_format("train_gpt -m %s --val-ratio 0.25 -b 4 -g 2 --epochs 3 --val-interval 4 --gpu l4", path);
    root = estimate_parsed(line);
    double n = estimate_number(json_object_get(root, "epoch"), "samples"), steps = floor(3 * ceil(n / 4) / 2);
    assert_true(n > 20 && n < 40);
    estimate_expect("steps", estimate_number(root, "steps"), steps);
    estimate_expect("validations", estimate_number(root, "validations"), ceil(steps / 4));
    assert_true(estimate_number(estimate_card(root), "validation_seconds") > 0);
    json_decref(root);
}

/* With a quarter held out: a validation every `each` steps (0: whenever an epoch has ended) and after the last; a
 * checkpoint every `save` steps (0: none), after each validation, and at the end. */
static void expect_pauses(const char *manifest, int64_t each, int64_t save) {
    char *line =
        kept_format("train_gpt -m %s --val-ratio 0.25 -b 4 -g 3 --epochs 5 --val-interval %lld --save-interval "
                    "%lld --gpu l4",
                    manifest, (long long)each, (long long)save);
    json_t *root = estimate_parsed(line);
    int64_t batches = (int64_t)estimate_number(json_object_get(root, "epoch"), "micro_batches"),
            steps = 5 * batches / 3;
    int64_t validations = 0, checkpoints = 0;
    for (int64_t s = 1; s <= steps; s++) {
        bool ended = 3 * s / batches > 3 * (s - 1) / batches;
        bool validated = s == steps || (each ? s % each == 0 : ended);
        validations += validated;
        checkpoints += validated || (save && s % save == 0);
    }
    estimate_expect("steps", estimate_number(root, "steps"), (double)steps);
    estimate_expect("validations", estimate_number(root, "validations"), (double)validations);
    estimate_expect("checkpoints", estimate_number(root, "checkpoints"), (double)checkpoints);
    json_decref(root);
}

TEST(validations_and_checkpoints_are_counted) {
    char *path = make_manifest(100);
    expect_pauses(path, 4, 0);
    expect_pauses(path, 4, 6);
    expect_pauses(path, 1, 7);
    expect_pauses(path, 1000, 5);
    expect_pauses(path, 1000, 1000);
    expect_pauses(path, 0, 0);
}

TEST(a_hundred_thousand_lines_are_all_counted) {
    static const char *const runs[] = {"-b 8 -g 4 --gpu all", "--token-budget 2000000 --gpu t4"}; /* does not fit */
    char *path = make_manifest(100000);
    for (int i = 0; i < 2; i++) {
        json_t *root = estimate_parsed(kept_format("train_gpt -m %s --val-ratio 0 --amp %s", path, runs[i]));
        assert_true(estimate_number(json_object_get(root, "epoch"), "samples") == 100000);
        json_decref(root);
    }
}

/* ---- memory ---- */

/* Far too many sequences: the program prints how many fit, and that recomputing blocks is enough. */
TEST(the_change_that_it_names_fits_and_one_more_does_not) {
    static const char usual[] = "train_gpt --amp --gpu t4 --grad-checkpointing";
    json_t *root = estimate_parsed("train_gpt --amp --gpu t4 --grad-checkpointing -b 512 -g 1");
    int b, g;
    assert_non_null(estimate_change(root, 0));
    assert_null(estimate_change(root, 1));
    assert_int_equal(sscanf(estimate_change(root, 0), "-b %d -g %d", &b, &g), 2);
    assert_true(b > 1 && b < 512 && b * g == 512); /* the same effective batch: the next divisor is 2 b */
    char *line = kept_format("%s -b %d -g %d", usual, b, g), *more = kept_format("%s -b %d -g %d", usual, 2 * b, g / 2);
    assert_true(estimate_fits(line));
    assert_false(estimate_fits(more));
    json_decref(root);
    assert_true(estimate_fits("train_gpt --amp --gpu h200 -b 64 -g 1"));
}

/* Both ways, if both help; the second at the price that the counted steps have. */
TEST(both_ways_to_make_it_fit_are_named) {
    static const char run_too_large[] = "train_gpt --amp --gpu l4 -b 64 -g 1";
    json_t *root = estimate_parsed(run_too_large),
           *again = estimate_parsed("train_gpt --amp --gpu l4 -b 64 -g 1 --grad-checkpointing");
    int b, g;
    char more[64], *line;
    assert_int_equal(json_array_size(json_object_get(estimate_card(root), "changes")), 2);
    assert_int_equal(sscanf(estimate_change(root, 0), "-b %d -g %d", &b, &g), 2);
    assert_string_equal(estimate_change(root, 1), "--grad-checkpointing");
    assert_true(json_is_true(json_object_get(estimate_card(again), "fits")));
    assert_int_equal(json_array_size(json_object_get(estimate_card(again), "changes")), 0);
    double flops = estimate_number(json_object_get(root, "step"), "flops");
    snprintf(more, sizeof more, " makes it fit, or --grad-checkpointing with %.0f %% more work\n",
             100 * (estimate_number(json_object_get(again, "step"), "flops") / flops - 1));
    line = kept_format("%s --estimate", run_too_large);
    estimate_command(0, true, line);
    assert_contains(estimate_output, more);
    line = kept_format("train_gpt --amp --gpu l4 -b %d", b);
    assert_true(estimate_fits(line));
    json_decref(root);
    json_decref(again);
}

/* A model that is nearly as large as the card, and of which not even a sequence fits: recomputing alone is not enough
 * for four of them, nor are fewer of them alone. */
TEST(both_together_are_named_where_neither_is_enough) {
    static const char usual[] =
        "train_gpt --model-dim 2048 --heads 32 --gpu l4 --lengths 1800,0,1800 --max-text-tokens 800";
    int layers = 20, b = 0, g = 0;
    bool found = false;
    for (; layers < 34 && !found; layers++) {
        json_t *root = estimate_parsed(kept_format("%s --layers %d -b 64 -g 1", usual, layers));
        found = estimate_change(root, 0) && strstr(estimate_change(root, 0), " --grad-checkpointing");
        if (found) {
            assert_null(estimate_change(root, 1));
            assert_int_equal(sscanf(estimate_change(root, 0), "-b %d -g %d --grad-checkpointing", &b, &g), 2);
        }
        json_decref(root);
    }
    assert_true(found);
    char *with = kept_format("%s --layers %d -b %d -g 1 --grad-checkpointing", usual, layers - 1, b);
    char *more = kept_format("%s --layers %d -b %d -g 1 --grad-checkpointing", usual, layers - 1, 2 * b);
    char *without = kept_format("%s --layers %d -b 1 -g 1", usual, layers - 1);
    assert_true(estimate_fits(with));
    assert_false(estimate_fits(more));
    assert_false(estimate_fits(without));
}

/* ---- -b auto ---- */

/* The effective batch comes out exactly, on every card with its own largest micro-batch. */
TEST(auto_takes_the_largest_divisor_that_fits) {
    enum { WHOLE = 60 };
    static const char usual[] = "train_gpt --amp --lengths 250,120,800";
    char *line = kept_format("%s -b auto --effective-batch %d --gpu all", usual, WHOLE);
    json_t *root = estimate_parsed(line), *card;
    size_t i;
    int divided = 0, whole = 0;
    json_array_foreach(json_object_get(root, "gpus"), i, card) {
        int b = (int)estimate_number(card, "batch_size"), g = (int)estimate_number(card, "grad_accumulation"),
            next = b + 1;
        const char *key = json_string_value(json_object_get(card, "gpu"));
        assert_int_equal(b * g, WHOLE);
        assert_true(json_is_true(json_object_get(card, "fits")));
        assert_true(estimate_number(json_object_get(card, "memory_bytes"), "total") <=
                    estimate_number(card, "available_bytes"));
        divided += b < WHOLE;
        whole += b == WHOLE;
        if (b == WHOLE || divided > 1) continue;
        while (WHOLE % next) next++;
        int most = (int)estimate_number(card, "most_at_once");
        assert_true(b <= most && most < next);
        const int sizes[] = {b, next, most, most + 1};
        for (int k = 0; k < 4; k++) {
            line = kept_format("%s --gpu %s -b %d -g %d", usual, key, sizes[k], g);
            assert_true(estimate_fits(line) == (k % 2 == 0));
        }
    }
    assert_true(divided > 0 && whole > 0);
    json_decref(root);
}

/* The chosen batch is also the one that is counted, as if -b and -g were given. */
TEST(the_chosen_numbers_are_those_of_the_estimate) {
    json_t *chosen = estimate_parsed("train_gpt --amp --gpu t4 -b auto --max-steps 10");
    char *line = kept_format("train_gpt --amp --gpu t4 --max-steps 10 -b %.0f -g %.0f",
                             estimate_number(estimate_card(chosen), "batch_size"),
                             estimate_number(estimate_card(chosen), "grad_accumulation"));
    json_t *given = estimate_parsed(line);
    estimate_expect("seconds", estimate_number(estimate_card(chosen), "seconds"),
                    estimate_number(estimate_card(given), "seconds"));
    estimate_expect("flops", estimate_number(json_object_get(chosen, "step"), "flops"),
                    estimate_number(json_object_get(given, "step"), "flops"));
    estimate_expect("memory", estimate_number(json_object_get(chosen, "memory_bytes"), "total"),
                    estimate_number(json_object_get(given, "memory_bytes"), "total"));
    estimate_expect("steps", estimate_number(estimate_card(chosen), "steps"), 10);
    assert_null(json_object_get(estimate_card(given), "batch_size"));
    json_decref(chosen);
    json_decref(given);
}

/* 97 sequences do not fit, and no smaller number divides them but 1; 96 = 3 x 32. */
TEST(a_poor_divisor_is_reported) {
    estimate_command(0, true, "train_gpt --estimate --amp --gpu l4 -b auto --effective-batch 97");
    assert_contains(estimate_output, "[Batch] -b 1 -g 97 is an effective batch of 97: 33 would fit at once, ");
    assert_contains(estimate_output, "; --effective-batch 96 would use them better (-b 32)\n");
    estimate_command(0, true, "train_gpt --estimate --amp --gpu l4 -b auto --effective-batch 96");
    assert_contains(estimate_output, "[Batch] -b 32 -g 3 is an effective batch of 96: 33 would fit at once, ");
    assert_null(strstr(estimate_output, "use them better"));
    estimate_command(0, true, "train_gpt --estimate --amp --gpu all -b auto");
    assert_contains(estimate_output, "  -b 8 -g 4 fits\n");
    assert_contains(estimate_output, "  -b 32 -g 1 fits\n");
}

/* ---- --lengths ---- */

/* Half of a normal distribution is below its mean, 97.7 % below two deviations above it; what is beyond the longest, or
 * below 1, is held there. */
TEST(synthetic_lengths_are_a_normal_distribution) {
    estimate_command(0, true, "train_gpt --estimate --gpu l4 --lengths 500,100,1800");
    assert_contains(estimate_output, "synthetic: 1024 samples; codes 500.0 +- 99.");
    /* The outermost of 1024 is at a share of 1 / 2048: z = 3.297 */
    assert_contains(estimate_output, ", 170..500..830, text tokens 23.0 +- 4.6, 8..23..38\n");
    estimate_command(0, true, "train_gpt --estimate --gpu l4 --lengths 500,100,600");
    assert_contains(estimate_output, ", 170..500..600, text");
    estimate_command(0, true, "train_gpt --estimate --gpu l4 --lengths 100,100,1800 -b 100");
    assert_contains(estimate_output, "synthetic: 1100 samples; codes ");
    assert_contains(estimate_output, ", 1..100..");
    /* 34 conditioning rows, 23 text tokens and 2, 500 codes and 1. */
    json_t *made = estimate_parsed("train_gpt --gpu l4 -b 8 -g 4 --lengths 500,0,500");
    estimate_expect("a step", estimate_number(json_object_get(made, "step"), "tokens"), 32 * (34 + 25 + 501));
    estimate_expect("samples", estimate_number(json_object_get(made, "epoch"), "samples"), 1024);
    assert_true(json_is_true(json_object_get(made, "typical_data")));
    json_decref(made);
    estimate_command(0, true, "train_gpt --dry-run --device cpu --lengths 20,0,20 --model-dim 64 --layers 2 --heads 4");
    assert_contains(estimate_output, "4 micro-batches of 8 sequences, 464 tokens"); /* 34 + 1 + 2 + 20 + 1 */
}

TEST(a_token_budget_is_lowered) {
    char *path = make_manifest(4000);
    char *usual = kept_format("train_gpt -m %s --amp --gpu t4 --grad-checkpointing", path);
    char *line = kept_format("%s --token-budget 1000000 -g 2", usual);
    json_t *root = estimate_parsed(line);
    int budget, g;
    assert_non_null(estimate_change(root, 0));
    assert_int_equal(sscanf(estimate_change(root, 0), "--token-budget %d -g %d", &budget, &g), 2);
    assert_true(budget > 10000 && budget < 1000000 && (double)budget * g >= 2e6 && (double)budget * (g - 1) < 2e6);
    char *less = kept_format("%s --token-budget %d", usual, budget),
         *more = kept_format("%s --token-budget %d", usual, budget + 1);
    assert_true(estimate_fits(less));
    assert_false(estimate_fits(more));
    json_decref(root);
}

/* ---- what is printed ---- */

TEST(all_cards_have_a_line_each) {
    int n;
    const Card *cards = card_table(&n);
    estimate_command(0, true, "train_gpt --estimate --gpu all --amp --max-steps 100 --price 1.5");
    assert_contains(estimate_output, "  whole run      cost break-even  memory: ");
    for (int i = 0; i < n; i++) {
        char *start = kept_format("\n%-13s ", cards[i].key);
        const char *line = strstr(estimate_output, start);
        if (!line) fail_msg("no line of %s in\n%s", cards[i].key, estimate_output);
        assert_null(strstr(line + 1, start));
    }
    json_t *root = estimate_parsed("train_gpt --amp");
    assert_int_equal(json_array_size(json_object_get(root, "gpus")), n);
    json_decref(root);
}

static double number_of(const char *key, const char *number) {
    json_t *root = json_loads(estimate_output, 0, NULL), *card;
    size_t i;
    double found = NAN;
    json_array_foreach(json_object_get(root, "gpus"), i, card) {
        const json_t *value = json_object_get(card, number);
        if (!strcmp(json_string_value(json_object_get(card, "gpu")), key) && value) found = json_number_value(value);
    }
    json_decref(root);
    return found;
}

static void expect_text(const char *key, const char *want) {
    json_t *root = json_loads(estimate_output, 0, NULL);
    const char *found = json_string_value(json_object_get(root, key));
    assert_string_equal(found ? found : "none", want);
    json_decref(root);
}

/* One price says nothing: an H200 would be the cheapest at an L4's. */
TEST(cards_are_compared_by_their_own_prices) {
    static const char line[] = "train_gpt --estimate --gpu all --amp --max-steps 100 --calibration none";
    char *path = kept_path(run_directory(), "prices.csv"),
         *of_cards = xformat("%s --json --price 'h200=3.50 EUR,l4=0.80EUR'", line),
         *of_file = xformat("%s --json --prices %s", line, path), *text = xformat("%s --prices %s", line, path),
         *one = xformat("%s --price 0.80", line), *one_json = xformat("%s --json --price 0.80", line);
    estimate_command(0, true, of_cards);
    expect_text("fastest", "h200");
    double l4 = number_of("l4", "cost"), h200 = number_of("h200", "cost");
    estimate_expect_near("cost", l4, 0.8 * number_of("l4", "seconds") / 3600, 1e-12);
    expect_text("cheapest", l4 < h200 ? "l4" : "h200");
    assert_true(isnan(number_of("t4", "cost")));
    double least = l4 < h200 ? l4 : h200; /* at its break-even price each card costs as much */
    estimate_expect_near("break-even", number_of("t4", "break_even_per_hour") * number_of("t4", "seconds") / 3600,
                         least, 1e-12);
    estimate_expect_near("own price", number_of(l4 < h200 ? "l4" : "h200", "break_even_per_hour"),
                         l4 < h200 ? 0.8 : 3.5, 1e-12);
    write_text(path, "card;price;currency;provider;date\nL4;0,001;CHF;Nobody;2026-11-01\nl4;2;CHF;;\nH200;3,5;CHF;;\n");
    estimate_command(0, true, of_file); /* the lower of two prices */
    expect_text("cheapest", "l4");
    assert_near(number_of("l4", "price_per_hour"), 0.001, 1e-15);
    estimate_command(0, true, text);
    assert_contains(estimate_output, "  whole run       CHF break-even  memory: ");
    assert_contains(estimate_output, "[Price] cheapest that fits: l4, ");
    assert_contains(estimate_output, " 0.00 CHF an hour (Nobody, 2026-11-01)\n[Price] fastest that fits: h200, ");
    assert_contains(estimate_output,
                    "[Price] break-even: the price of an hour in CHF below which a card is cheaper for "
                    "this run than the l4\n");
    estimate_command(0, true, one);
    assert_contains(estimate_output,
                    "[Price] one price, 0.80 USD, does not say which card is the cheapest: give --price "
                    "l4=0.80,h200=3.50 or --prices FILE\n");
    estimate_command(0, true, one_json);
    expect_text("cheapest", "none");
    assert_true(isnan(number_of("l4", "cost")));
    estimate_expect_near("share", number_of("l4", "break_even_share"),
                         number_of("h200", "seconds") / number_of("l4", "seconds"), 1e-12);
    free(one_json), free(one), free(text), free(of_file), free(of_cards);
}

/* The fastest and the cheapest are cards that can do it. */
TEST(a_card_on_which_the_run_does_not_fit_is_not_compared) {
    estimate_command(0, true,
                     "train_gpt --estimate --gpu all --max-steps 100 -b 64 --json --calibration none --price "
                     "t4=0.01,h200=3.50");
    expect_text("cheapest", "h200");
    assert_true(isnan(number_of("t4", "break_even_per_hour")));
    estimate_command(0, true,
                     "train_gpt --estimate --gpu all --max-steps 100 -b 64 --calibration none --price t4=0.01");
    assert_contains(estimate_output, "[Price] no card that fits has a price: give --price l4=0.80,h200=3.50 or");
}

TEST(one_card_is_reported_in_full) {
    static const char *const parts[] = {"there is no data", "[Memory] weights",
                                        "it fits",          "linear_backward",
                                        "clear_segments",   "[Time] a step",
                                        "bound by",         "MFU",
                                        "give the data",    "24 of the 48 MB of L2 keep",
                                        "sustained: 47 %",  NULL};
    estimate_command(0, true, "train_gpt --estimate --gpu l4 --no-tf32");
    for (int i = 0; parts[i]; i++) assert_contains(estimate_output, parts[i]);
    assert_contains(estimate_output, "(f32)");
    estimate_command(0, true, "train_gpt --estimate --gpu l4");
    assert_contains(estimate_output, "(TF32)");
    estimate_command(0, true, "train_gpt --estimate --gpu L4 --amp --grad-checkpointing");
    assert_contains(estimate_output, "HFU");
    assert_contains(estimate_output, "l4 (L4), 22.5 GiB: bf16\n");
    estimate_command(0, true, "train_gpt --estimate --gpu v100 --amp");
    assert_contains(estimate_output, "f16, as it has no bf16");
}

TEST(wrong_options_are_refused) {
    estimate_command(2, false, "train_gpt --estimate --gpu l5");
    assert_contains(estimate_output, "--gpu l5: this card is not known");
    assert_contains(estimate_output, " t4 ");
    assert_contains(estimate_output, " h200");
    estimate_command(2, false, "train_gpt --estimate --gpu rtx409");
    assert_contains(estimate_output, "did you mean 'rtx4090'?");
    estimate_command(2, false, "train_gpt --gpu l4");
    assert_contains(estimate_output, "--gpu belongs to --estimate");
    estimate_command(2, false, "train_gpt -m README.md --json");
    assert_contains(estimate_output, "--json belongs to --estimate");
    estimate_command(2, false, "train_gpt --estimate --dry-run");
    assert_contains(estimate_output, "give one of them");
    static const struct {
        const char *arguments, *message;
    } wrong[] = {
        {"train_gpt --estimate -b auto -g 4", "instead of -g 4 give --effective-batch, the samples of a step (32"},
        {"train_gpt --estimate -b auto --token-budget 4000", "give --effective-batch instead of the budget"},
        {"train_gpt --estimate -b 8 --effective-batch 30", "--effective-batch 30 is no multiple of -b 8"},
        {"train_gpt --estimate -b 8 -g 4 --effective-batch 32", "two of them decide the third; leave one out"},
        {"train_gpt --estimate --token-budget 900 --effective-batch 32",
         "--effective-batch counts samples, and with --token-budget"},
        {"train_gpt --estimate -b some", "--batch-size: expected a whole number or auto, found 'some'"},
        {"train_gpt --estimate --lengths 250,120", "expected MEAN,SD,MAX, three numbers"},
        {"train_gpt --estimate --lengths 250,120,many", "expected MEAN,SD,MAX, three numbers"},
        {"train_gpt --estimate --lengths 250,120,800,1", "expected MEAN,SD,MAX, three numbers"},
        {"train_gpt --estimate --lengths 250,nan,800", "expected MEAN,SD,MAX, three numbers"},
        {"train_gpt --estimate --lengths 900,120,800", "the mean is larger than the maximum"},
        {"train_gpt --estimate --lengths 250,120,1817", "the model takes at most 1816 codes"},
        {"train_gpt --estimate -m README.md --lengths 250,120,800", "the manifest has lengths of its own"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        estimate_command(2, false, wrong[i].arguments);
        assert_contains(estimate_output, wrong[i].message);
    }
}
