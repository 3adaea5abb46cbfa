/* --estimate of train_cv. */
#include "tests/estimate_rig.h"

/* Batch norms are over the samples of a micro-batch. */
TEST(a_batch_is_not_divided) {
    estimate_command(0, true, "train_cv --estimate --gpu t4 -b auto");
    assert_contains(estimate_output, "[Batch] -b 64 -g 1 is an effective batch of 64: all of it fits at once, ");
    assert_contains(estimate_output, "; it is never divided: batch norms see each micro-batch separately\n");
    estimate_command(2, false, "train_cv --estimate -b auto --effective-batch 1");
    assert_contains(estimate_output, "--effective-batch 1: expected at least 2, the smallest -b");
}

/* Returns the number behind a text of the output. */
static double number_behind(const char *text) {
    const char *at = strstr(estimate_output, text);
    if (!at) fail_msg("there is no '%s' in %s", text, estimate_output);
    return strtod(at + strlen(text), NULL);
}

/* Six folds on two cards take three times as long as one, at twice the price of a card; with -g 2 they share steps. */
TEST(folds_are_dealt_out_to_cards) {
    const char *cells = kept_path(kept_folder(), "cells");
    estimate_command(0, true, kept_format("train_cv synthesize -o %s --cells 60", cells));
    const char *line = kept_format("train_cv --data %s -b 16 --estimate --gpu l4 --price l4=1000", cells);
    estimate_command(0, true, line);
    double alone = number_behind("training all 6 folds: ");
    estimate_command(0, true, kept_format("%s --gpus 2", line));
    assert_contains(estimate_output, "[Cards] the trainings are dealt out to 2 cards; each is estimated on one\n");
    double both = number_behind("training all 6 folds on 2 cards: ");
    assert_true(both > 0.4 * alone && both < 0.7 * alone);
    assert_contains(estimate_output, " at 2000.00 USD an hour\n");
    estimate_command(0, true, kept_format("%s --gpus 2 -g 2", line));
    assert_contains(estimate_output, "2 cards, -g 2 --zero 0");
    estimate_command(2, false, kept_format("%s --gpus 2 --link 3", line));
    assert_contains(estimate_output, "--link 3: trainings side by side exchange nothing");
}
