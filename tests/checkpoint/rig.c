#include "tests/checkpoint/rig.h"

#include "checkpoint/folder.h"

#include <inttypes.h>
#include <math.h>

static Error error;

ParamTable rig_table;
float *rig_weights, *rig_m, *rig_v;
const int64_t rig_counter[3] = {1, -2, 1LL << 40};
static const uint8_t flag_data[5] = {1, 0, 1, 1, 0};
static const StoredTensor carried[] = {
    {.name = "pe", .dtype = "U8", .rank = 1, .dims = {5}, .count = 5, .data = flag_data, .bytes = 5},
    {.name = "counter", .dtype = "I64", .rank = 1, .dims = {3}, .count = 3, .data = rig_counter, .bytes = 24},
};

void rig_make_table(ParamTable *t, int64_t rows) {
    param_add(t, INIT_NORMAL, 0.02f, true, rows, 5, "text_embedding.weight");
    param_add(t, INIT_ONE, 0, false, 7, 0, "gpt.ln_f.weight");
    param_add(t, INIT_NORMAL, 0.02f, true, 20, 4, "gpt.h.0.attn.c_attn.weight");
}

int rig_set_up(void **unused) {
    (void)unused;
    rig_make_table(&rig_table, 3);
    rig_weights = xaligned((size_t)rig_table.flat_count * 4);
    rig_m = xaligned((size_t)rig_table.flat_count * 4);
    rig_v = xaligned((size_t)rig_table.flat_count * 4);
    return 0;
}

static void fill_part(float *flat, int part, int64_t step, uint64_t seed) {
    memset(flat, 0, (size_t)rig_table.flat_count * 4);
    for (int i = 0; i < rig_table.count; i++)
        for (int64_t e = rig_table.items[i].offset; e < rig_table.items[i].offset + rig_table.items[i].count; e++)
            flat[e] = (float)sin((double)(e + 1) * (double)(step + 3 * part + 1) + (double)seed);
}

static void fill_parts(int64_t step, uint64_t seed) {
    fill_part(rig_weights, 0, step, seed);
    fill_part(rig_m, 1, step, seed);
    fill_part(rig_v, 2, step, seed);
}

int64_t rig_best_step;

static TrainState state_of(int64_t step, uint64_t seed) {
    TrainState state = {.step = step,
                        .micro_step = 4 * step,
                        .epoch = step / 7,
                        .batch_index = step + 11,
                        .seed = UINT64_MAX - seed,
                        .samples_seen = step << 40,
                        .tokens_seen = INT64_C(3999999999999999999) - step,
                        .n_samples = 300,
                        .data_hash = INT64_MIN + step,
                        .content_hash = INT64_MAX - step,
                        .validation_hash = -step,
                        .base_sum = UINT64_MAX - 5,
                        .skipped_steps = 1,
                        .frozen_rows = 2,
                        .seconds = 0.1 * (double)step,
                        .cost = 0.3 * (double)step,
                        .best = step == 1 ? (double)INFINITY : 1.0 / (double)step,
                        .best_step = rig_best_step,
                        .validations_since_best = 3 * step,
                        .loss_scale = {65536, 3},
                        .window_sums = {1.0 / 7, -0.0, (double)INFINITY},
                        .window_counts = {17},
                        .revision = "0123456789ab",
                        .device = "cuda: a card, cuBLASLt 13.2.5 and its GELU",
                        .options_json = "{\"learning-rate\": 5.0000000000000002e-5, \"batch-size\": 8}",
                        .n_metrics = 3,
                        .metric_names = {"loss", "mel \"top1\"", "val"},
                        .metric_values = {1.0 / 3, -0.0, (double)NAN}};
    return state;
}

void rig_save(Checkpointer *c, int64_t step, uint64_t seed, bool best) {
    if (best || rig_best_step > step) rig_best_step = best ? step : 0;
    TrainState state = state_of(step, seed);
    fill_parts(step, seed);
    checkpointer_save(c, &(CheckpointBuffers){&rig_table, rig_weights, rig_m, rig_v}, &state);
}

Checkpointer *rig_checkpointer(const char *directory, int keep) {
    Checkpointer *c = checkpointer_open(directory, keep);
    checkpointer_carry(c, carried, 2);
    checkpointer_describe(
        c, xstrdup("{\"format\": 1, \"version\": \"0\", \"model\": \"test\", \"parameters\": 1, \"options\": {}}\n"));
    return c;
}

void rig_save_good(Checkpointer *c, int64_t step, uint64_t seed, bool best) {
    rig_save(c, step, seed, best);
    if (!checkpointer_wait(c, &error)) fail_msg("step %lld: %s", (long long)step, error.text);
}

static void assert_same_bits(double got, double want) { assert_memory_equal(&got, &want, sizeof got); }

static void assert_state(const TrainState *got, const TrainState *want) {
    assert_true(got->step == want->step && got->micro_step == want->micro_step && got->epoch == want->epoch);
    assert_true(got->batch_index == want->batch_index && got->seed == want->seed);
    assert_true(got->samples_seen == want->samples_seen && got->tokens_seen == want->tokens_seen);
    assert_true(got->n_samples == want->n_samples && got->data_hash == want->data_hash);
    assert_true(got->content_hash == want->content_hash && got->validation_hash == want->validation_hash);
    assert_true(got->base_sum == want->base_sum);
    assert_string_equal(got->device, want->device);
    assert_int_equal(got->skipped_steps, want->skipped_steps);
    assert_true(got->frozen_rows == want->frozen_rows && got->best_step == want->best_step);
    assert_true(got->validations_since_best == want->validations_since_best);
    assert_memory_equal(got->loss_scale, want->loss_scale, sizeof want->loss_scale);
    assert_memory_equal(got->window_sums, want->window_sums, sizeof want->window_sums);
    assert_memory_equal(got->window_counts, want->window_counts, sizeof want->window_counts);
    assert_same_bits(got->seconds, want->seconds);
    assert_same_bits(got->cost, want->cost);
    assert_same_bits(got->best, want->best);
    assert_string_equal(got->revision, want->revision);
    assert_contains(got->options_json, "5.0000000000000002e-5");
    assert_int_equal(got->n_metrics, want->n_metrics);
    for (int i = 0; i < got->n_metrics; i++) {
        assert_string_equal(got->metric_names[i], want->metric_names[i]);
        if (!isnan(want->metric_values[i])) assert_same_bits(got->metric_values[i], want->metric_values[i]);
    }
    assert_true(isnan(got->metric_values[2]));
}

static void assert_part(const float *got, int part, int64_t step, uint64_t seed) {
    float *want = xaligned((size_t)rig_table.flat_count * 4);
    fill_part(want, part, step, seed);
    assert_memory_equal(got, want, (size_t)rig_table.flat_count * 4);
    free(want);
}

int64_t rig_check_whole(const char *path, uint64_t *seed) {
    CarriedTensors others;
    TrainState state;
    char *followed = keep(checkpoint_follow(path));
    for (float *parts[] = {rig_weights, rig_m, rig_v}, **part = parts; part < parts + 3; part++)
        memset(*part, 0xff, (size_t)rig_table.flat_count * 4);
    if (!checkpoint_load(followed, &(CheckpointBuffers){&rig_table, rig_weights, rig_m, rig_v}, &state, &others,
                         &error))
        fail_msg("%s: %s", path, error.text);
    *seed = UINT64_MAX - state.seed;
    TrainState want = state_of(state.step, *seed);
    want.best_step = state.best_step;
    assert_state(&state, &want);
    assert_part(rig_weights, 0, state.step, *seed);
    assert_part(rig_m, 1, state.step, *seed);
    assert_part(rig_v, 2, state.step, *seed);
    assert_int_equal(others.n, 2);
    for (int i = 0; i < 2; i++) {
        const StoredTensor *got = &others.tensors[i];
        const StoredTensor *base = &carried[strcmp(got->name, "pe") != 0];
        assert_string_equal(got->name, base->name);
        assert_string_equal(got->dtype, base->dtype);
        assert_int_equal(got->bytes, base->bytes);
        assert_memory_equal(got->data, base->data, base->bytes);
    }
    free(state.options_json);
    carried_close(&others);
    return state.step;
}

int64_t rig_step_to_resume(const char *directory, uint64_t *seed) {
    char *path = keep(checkpoint_resolve(directory, "auto"));
    if (!path) return 0;
    int64_t step = rig_check_whole(path, seed);
    checkpoint_release();
    return step;
}

char *rig_resolve(const char *directory, const char *resume) {
    char *path = keep(checkpoint_resolve(directory, resume));
    checkpoint_release();
    return path;
}

void rig_assert_listing(const char *directory, const char *want) {
    char output[4096];
    assert_int_equal(run_command(output, sizeof output, "ls -A '%s' | tr '\\n' ' '", directory), 0);
    assert_string_equal(output, want);
}

int64_t rig_linked(const char *directory, const char *link) {
    StepName target;
    int64_t step = 0;
    folder_link(directory, link, target);
    assert_true(!target[0] || sscanf(target, "step_%" SCNd64, &step) == 1);
    return step;
}

TrainState rig_read_state(const char *path) {
    TrainState state = {0};
    char *followed = keep(checkpoint_follow(path));
    if (!state_read(followed, &state, &error)) fail_msg("%s: %s", path, error.text);
    free(state.options_json);
    return state;
}
