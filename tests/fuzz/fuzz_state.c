/* Reads any bytes as the state.json of a checkpoint: unchanged, and with their checksum, so that the reader gets to the
 * fields. A state that is accepted is within its ranges, and is the same after it was written and read again. Reads the
 * bytes, too, as a small file that stands for a link. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/state.h"
#include "tests/fuzz/fuzz_file.h"

static bool check(const char *text, size_t size, TrainState *state) {
    Error error = {.text = ""};
    if (!state_parse(text, size, state, &error)) {
        if (!error.text[0]) abort();
        return false;
    }
    if (state->step < 0 || state->batch_index < 0 || state->epoch < 0 || state->best_step > state->step) abort();
    if (state->skipped_steps > state->step || state->n_metrics > 24 || !(state->seconds >= 0)) abort();
    return true;
}

static void check_twice(const char *text, size_t size) {
    TrainState first = {0}, second = {0};
    if (!check(text, size, &first)) return;
    char *again = state_to_json(&first);
    if (!check(again, strlen(again), &second)) abort();
    char *third = state_to_json(&second);
    if (strcmp(again, third) != 0) abort();
    char *owned[] = {again, third, first.options_json, second.options_json};
    for (int i = 0; i < 4; i++) free(owned[i]);
}

/* Returns a valid state. */
static char *sample(void) {
    TrainState state = {.serial = 7,
                        .step = 3,
                        .micro_step = 6,
                        .epoch = 1,
                        .batch_index = 2,
                        .n_samples = 9,
                        .best = 0.5,
                        .best_step = 2,
                        .revision = "0123",
                        .n_metrics = 1,
                        .metric_names = {"loss"},
                        .metric_values = {0.25}};
    return state_to_json(&state);
}

static void check_sealed(const char *body, size_t size) {
    char *text = malloc(size + 64);
    memcpy(text, body, size);
    int n = sprintf(text + size, ",\n  \"xxh3_64\": \"%016llx\"\n}", (unsigned long long)checksum(0, body, size));
    check_twice(text, size + (size_t)n);
    free(text);
}

/* Replaces a value of a valid state, up to the end of its line, by the bytes. The first byte chooses its colon. */
static void check_value(const char *good, const uint8_t *data, size_t size) {
    const char *at = good, *end = strstr(good, ",\n  \"xxh3_64\"");
    for (int colons = data[0] % 32; colons >= 0; colons--) {
        const char *next = strchr(at, ':');
        if (!next || next > end) break;
        at = next + 1;
    }
    const char *rest = at + strcspn(at, ",\n");
    if (rest > end) rest = end;
    size_t before = (size_t)(at - good), after = (size_t)(end - rest);
    char *body = malloc(before + size + after);
    memcpy(body, good, before);
    memcpy(body + before, data + 1, size - 1);
    memcpy(body + before + size - 1, rest, after);
    check_sealed(body, before + size - 1 + after);
    free(body);
}

/* A small file names a step, or nothing. */
static void check_link(const char *begin, const uint8_t *data, size_t size) {
    static char *path;
    size_t before = strlen(begin);
    char *bytes = malloc(before + size + 1);
    if (!path) path = fuzz_file_named("last");
    memcpy(bytes, begin, before);
    if (size) memcpy(bytes + before, data, size);
    fuzz_file(bytes, before + size);
    char *found = checkpoint_follow(path);
    if (strcmp(found, path) && step_of(strrchr(found, '/') + 1, "") < 0) abort();
    free(found);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *good;
    if (!good) good = sample();
    check_link("", data, size);
    check_link("step_0000000", data, size);
    check_twice((const char *)data, size);
    check_sealed((const char *)data, size);
    if (size) check_value(good, data, size);
    return 0;
}
