#include "tests/model_rig.h"

#include <stdlib.h>

#include "kernels/device_open.h"
#include "kernels/ops_table.h"
#include "model/context.h"

Tensor model_rig_flat(ModelRig *rig) {
    int64_t n = rig->model->params.flat_count;
    return tensor_1d(rig->device->allocate(rig->device, (size_t)n * sizeof(float)), DTYPE_F32, n);
}

void model_rig_release_moments(ModelRig *rig, Tensor m, Tensor v, Tensor norm) {
    rig->device->release(rig->device, m.data, tensor_bytes(m));
    rig->device->release(rig->device, v.data, tensor_bytes(v));
    rig->device->release(rig->device, norm.data, 64);
}

ModelRig model_rig_open(Model *model, Device *device, size_t arena_bytes) {
    ModelRig rig = {.model = model, .device = device};
    rig.model->weights = model_rig_flat(&rig);
    rig.model->gradients = model_rig_flat(&rig);
    rig.sums = tensor_1d(device->allocate(device, 64), DTYPE_F32, rig.model->n_metrics);
    rig.numbers = xcalloc(1, sizeof *rig.numbers);
    rig.arena = arena_open(device, arena_bytes, "activations");
    if (device->ops) params_initialize(&rig.model->params, rig.model->weights.data, 3, 1);
    return rig;
}

void model_rig_close(ModelRig *rig) {
    Device *device = rig->device;
    arena_close(&rig->arena);
    device->release(device, rig->model->weights.data, tensor_bytes(rig->model->weights));
    device->release(device, rig->model->gradients.data, tensor_bytes(rig->model->gradients));
    device->release(device, rig->sums.data, 64);
    free(rig->numbers);
    rig->model->close(rig->model);
    device_close(device);
}

void model_rig_copy_moving(ModelRig *rig, bool back, Tensor norm) {
    Segment *moving;
    int n = params_moving(&rig->model->params, &moving);
    Tensor weights = rig->model->weights, gradients = rig->model->gradients;
    if (n) copy_segments(rig->device, back ? weights : gradients, back ? gradients : weights, norm, moving, n);
    free(moving);
}

void model_rig_clear_gradients(ModelRig *rig) {
    rig->device->clear(rig->device, rig->model->gradients.data, tensor_bytes(rig->model->gradients));
    model_rig_copy_moving(rig, false, tensor_none());
}

Pass model_rig_pass(const ModelRig *rig, const double *counts, double share) {
    Pass pass = {.train = true, .seed = 11, .step = &rig->numbers->step, .sums = rig->sums};
    rig->numbers->step = 5;
    pass.loss_scale = tensor_1d(rig->numbers->loss_scale, DTYPE_F32, rig->model->n_metrics);
    for (int i = 0; i < rig->model->n_metrics; i++) {
        const Metric *metric = &rig->model->metrics[i];
        rig->numbers->loss_scale[i] = (float)(share * (double)metric->weight / counts[metric->count]);
    }
    return pass;
}

void model_rig_run(ModelRig *rig, const Batch *batch, const Pass *pass) {
    rig->model->forward_backward(rig->model, rig->device, &rig->arena, batch, batch->fields, pass);
    assert_int_equal(rig->arena.used, 0);
}

float *copy_floats(Tensor t) {
    float *copy = xmalloc(tensor_bytes(t));
    memcpy(copy, t.data, tensor_bytes(t));
    return copy;
}

void model_rig_check_gradients(const ModelRig *rig, const float *want) {
    double worst = 0;
    for (int i = 0; i < rig->model->params.count; i++) {
        const Param *param = &rig->model->params.items[i];
        const float *got = (float *)rig->model->gradients.data + param->offset;
        bool some = false;
        for (int64_t e = 0; e < param->count; e++) some |= got[e] != 0;
        if (!some) fail_msg("%s has no gradient", param->name);
        worst = fmax(worst, relative_error(got, want + param->offset, param->count));
        assert_close(param->name, got, want + param->offset, param->count, 6e-6);
    }
    print_message("largest relative difference of gradients %.2g\n", worst);
}

static void expect_equal_gradients(const ModelRig *rig, const float *want) {
    for (int i = 0; i < rig->model->params.count; i++) {
        const Param *param = &rig->model->params.items[i];
        const float *got = (float *)rig->model->gradients.data + param->offset;
        for (int64_t e = 0; e < param->count; e++)
            if (got[e] != want[param->offset + e])
                fail_msg("%s[%lld] has the gradient %.9g, expected %.9g", param->name, (long long)e, (double)got[e],
                         (double)want[param->offset + e]);
    }
}

void model_rig_check_first_pass(ModelRig *rig, const Batch *batch, const Pass *pass) {
    const ParamTable *table = &rig->model->params;
    Tensor gradients = rig->model->gradients;
    Pass first = *pass;
    bool *unwritten = xcalloc((size_t)table->count, sizeof *unwritten);
    float *want[2];
    int overwritten = 0;
    model_rig_clear_gradients(rig);
    for (int i = 0; i < 2; i++) {
        model_rig_run(rig, batch, pass);
        want[i] = copy_floats(gradients);
    }
    ParamUpdates updates = params_updates(table, rig->device, 0, false);
    memset(gradients.data, 0xff, tensor_bytes(gradients)); /* NaN */
    clear_segments(rig->device, gradients, updates.cleared, updates.n_cleared);
    model_rig_copy_moving(rig, false, tensor_none());
    first.unwritten = unwritten;
    const Context context = context_of(rig->model, rig->device, &rig->arena, &first);
    context_begin(&context);
    for (int i = 0; i < table->count; i++) overwritten += unwritten[i];
    assert_true(overwritten > 0);
    model_rig_run(rig, batch, &first);
    context_end(&context);
    expect_equal_gradients(rig, want[0]);
    model_rig_run(rig, batch, pass);
    expect_equal_gradients(rig, want[1]);
    params_updates_free(&updates);
    model_rig_clear_gradients(rig);
    FREE(unwritten, want[0], want[1]);
}

/* ---- facts of every transformer ---- */

enum { CASE_ARENA = 64 << 20 };

static ModelRig open_case(const ModelCase *c, float dropout) {
    return model_rig_open(c->open(dropout), cpu_device_open(0), CASE_ARENA);
}

static void close_case(ModelRig *rig, Batch *batch) {
    batch_close(batch);
    model_rig_close(rig);
}

void recomputing_gives_the_same_bits(void **state) {
    ModelRig rig = open_case(*state, 0.1f);
    Batch batch = ((const ModelCase *)*state)->batch();
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    model_rig_run(&rig, &batch, &pass);
    float *gradients = copy_floats(rig.model->gradients), *sums = copy_floats(rig.sums);
    size_t peak = rig.arena.peak;
    rig.arena.peak = 0;
    pass.recompute = true;
    model_rig_clear_gradients(&rig);
    model_rig_run(&rig, &batch, &pass);
    assert_memory_equal(gradients, rig.model->gradients.data, tensor_bytes(rig.model->gradients));
    assert_memory_equal(sums, rig.sums.data, tensor_bytes(rig.sums));
    assert_true(rig.arena.peak < peak);
    free(gradients);
    free(sums);
    close_case(&rig, &batch);
}

void the_first_pass_of_a_step_overwrites(void **state) {
    ModelRig rig = open_case(*state, 0.1f);
    Batch batch = ((const ModelCase *)*state)->batch();
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    for (int recompute = 0; recompute < 2; recompute++) {
        pass.recompute = recompute;
        model_rig_check_first_pass(&rig, &batch, &pass);
    }
    close_case(&rig, &batch);
}

/* Lets the padding repeat other rows. */
static void repeat_others(Batch *padded, const Batch *batch, const FieldPad *pads) {
    for (int f = 0; f < batch->n_fields; f++) {
        int64_t n = batch->fields[f].dims[0];
        int32_t *numbers = padded->fields[f].data;
        for (int64_t i = n; pads[f].kind == PAD_REPEATED && i < padded->fields[f].dims[0]; i++)
            numbers[i] = numbers[(5 * i + 3) % n];
    }
}

void padding_adds_nothing(void **state) {
    ModelRig rig = open_case(*state, 0.1f);
    Batch batch = ((const ModelCase *)*state)->batch(), padded = batch_open(batch_padded_bytes(batch.size), 0);
    const FieldPad *pads = rig.model->pads;
    int kinds = 0;
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    model_rig_run(&rig, &batch, &pass);
    float *want = copy_floats(rig.model->gradients), *sums = copy_floats(rig.sums), *bits[2];
    batch_pad(&padded, &batch, pads, false);
    for (int f = 0; f < BATCH_MAX_FIELDS; f++) kinds += pads[f].kind != PAD_NOT;
    assert_true(!kinds || padded.n_tokens > batch.n_tokens);
    for (int i = 0; i < 2; i++) {
        if (i) repeat_others(&padded, &batch, pads);
        model_rig_clear_gradients(&rig);
        model_rig_run(&rig, &padded, &pass);
        for (int k = 0; k < rig.model->n_metrics; k++)
            assert_true(fabsf(((float *)rig.sums.data)[k] - sums[k]) <= 1e-5f * fabsf(sums[k]));
        model_rig_check_gradients(&rig, want);
        bits[i] = copy_floats(rig.model->gradients);
    }
    assert_memory_equal(bits[0], bits[1], tensor_bytes(rig.model->gradients));
    FREE(want, sums, bits[0], bits[1]);
    batch_close(&padded);
    close_case(&rig, &batch);
}

void model_rig_check_threads(Model *(*open)(float dropout), const Batch *batch) {
    static const int threads[] = {1, 2, 3, 8};
    float *gradients = NULL, *sums = NULL;
    for (int i = 0; i < 4; i++) {
        ModelRig rig = model_rig_open(open(0.1f), cpu_device_open(threads[i]), CASE_ARENA);
        Pass pass = model_rig_pass(&rig, batch->counts, 1);
        model_rig_run(&rig, batch, &pass);
        if (!i) gradients = copy_floats(rig.model->gradients), sums = copy_floats(rig.sums);
        assert_memory_equal(gradients, rig.model->gradients.data, tensor_bytes(rig.model->gradients));
        assert_memory_equal(sums, rig.sums.data, tensor_bytes(rig.sums));
        model_rig_close(&rig);
    }
    free(gradients);
    free(sums);
}

void evaluation_drops_nothing_and_touches_no_gradient(void **state) {
    ModelRig rig = open_case(*state, 0.1f), without = open_case(*state, 0);
    Batch batch = ((const ModelCase *)*state)->batch();
    Pass training = model_rig_pass(&without, batch.counts, 1);
    model_rig_run(&without, &batch, &training);
    memset(rig.model->gradients.data, 0xff, tensor_bytes(rig.model->gradients));
    float *before = copy_floats(rig.model->gradients);
    model_rig_run(&rig, &batch, &(Pass){.sums = rig.sums, .seed = 1});
    assert_memory_equal(before, rig.model->gradients.data, tensor_bytes(rig.model->gradients));
    assert_memory_equal(rig.sums.data, without.sums.data, tensor_bytes(rig.sums));
    assert_true(rig.arena.peak < without.arena.peak / 2);
    free(before);
    model_rig_close(&without);
    close_case(&rig, &batch);
}

static float first_sum(ModelRig *rig, const Batch *batch, uint64_t seed, uint32_t step) {
    Pass pass = model_rig_pass(rig, batch->counts, 1);
    pass.seed = seed;
    rig->numbers->step = step;
    model_rig_run(rig, batch, &pass);
    return *(float *)rig->sums.data;
}

void dropout_is_drawn_from_seed_and_step(void **state) {
    ModelRig rig = open_case(*state, 0.1f);
    Batch batch = ((const ModelCase *)*state)->batch();
    float first = first_sum(&rig, &batch, 1, 1);
    assert_true(first == first_sum(&rig, &batch, 1, 1));
    assert_true(first != first_sum(&rig, &batch, 2, 1));
    assert_true(first != first_sum(&rig, &batch, 1, 2));
    close_case(&rig, &batch);
}

/* Returns the pass of a mode: training, recomputing, evaluating. */
static Pass pass_of_mode(const ModelRig *rig, const Batch *batch, int mode) {
    Pass pass = model_rig_pass(rig, batch->counts, 1);
    pass.train = mode < 2;
    pass.recompute = mode == 1;
    return pass;
}

static void note_activation(void *context, const char *name, Tensor t) {
    char *noted = context;
    size_t used = strlen(noted);
    snprintf(noted + used, 1024 - used, "%s:%lld ", name, (long long)tensor_numel(t));
}

void named_activations_are_shown_once(void **state) {
    ModelRig rig = open_case(*state, 0.1f);
    Batch batch = ((const ModelCase *)*state)->batch();
    for (int mode = 0; mode < 3; mode++) {
        char noted[1024] = "";
        Pass pass = pass_of_mode(&rig, &batch, mode);
        pass.dump = note_activation;
        pass.dump_context = noted;
        model_rig_run(&rig, &batch, &pass);
        assert_string_equal(noted, ((const ModelCase *)*state)->activations);
    }
    close_case(&rig, &batch);
}

void the_dry_device_counts_the_work_of_the_cpu(void **state) {
    const ModelCase *c = *state;
    ModelRig rigs[2] = {open_case(c, 0.1f), model_rig_open(c->open(0.1f), dry_device_open(), 0)};
    Batch batch = c->batch();
    for (int mode = 0; mode < 3; mode++) {
        for (int i = 0; i < 2; i++) {
            Pass pass = pass_of_mode(&rigs[i], &batch, mode);
            rigs[i].arena.peak = 0;
            device_reset_counters(rigs[i].device);
            model_rig_run(&rigs[i], &batch, &pass);
        }
        assert_int_equal(rigs[0].arena.peak, rigs[1].arena.peak);
        double total = 0;
        for (int op = 0; op < OP_COUNT; op++) {
            const OpCounter *a = &rigs[0].device->counters[op], *b = &rigs[1].device->counters[op];
            if (a->calls != b->calls || a->flops != b->flops || a->bytes != b->bytes)
                fail_msg(
                    "%s: the cpu device counts %lld calls, %.17g FLOPs, %.17g bytes, the dry device %lld, %.17g, %.17g",
                    op_names[op], (long long)a->calls, a->flops, a->bytes, (long long)b->calls, b->flops, b->bytes);
            total += b->flops;
        }
        assert_true(total > 0);
    }
    model_rig_close(&rigs[1]);
    close_case(&rigs[0], &batch);
}
