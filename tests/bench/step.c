/* Times whole training steps: forward, backward, gradient norm, AdamW. The scripts bench_*.py of tests/reference run
 * this program beside PyTorch and print both.
 *
 *   bench_step DEVICE THREADS REPEATS CASE ARGUMENTS...
 *
 * DEVICE: cpu, cuda (f32), or amp (cuda in its 16-bit type). Cases: gpt2.c here, and bench.c in the tests of each
 * model; without arguments the program lists them. It prints the seconds of each repeat, one per line, then lines "name
 * value": FLOPs and bytes, the seconds and the bound that --estimate predicts (unless the rates of the device are
 * unknown), bytes of memory planned and allocated, the stated rates of the card, and the device. A profile of one more
 * step follows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "kernels/cards.h"
#include "kernels/device_open.h"
#include "kernels/ops_table.h"
#include "model/context.h"
#include "tests/bench/bench.h"
#include "tests/norm.h"
#include "train/plan/memory.h"

typedef struct {
    Device *device;
    Model *model;
    Tensor m, v, norm, sums;
    PassNumbers *numbers; /* on the device */
    ParamUpdates updates;
    bool *unwritten; /* see Pass */
    Arena arena;
    Tensor fields[BATCH_MAX_FIELDS + 1];
    size_t planned; /* bytes */
} Bench;

static Tensor flat(Device *device, DType type, int64_t n) {
    return tensor_1d(device->allocate(device, (size_t)n * dtype_size(type)), type, n);
}

static Bench bench_open(Model *model, Device *device, bool amp, const Batch *batch) {
    MemoryPlan plan = memory_plan(model, device, amp ? device->half : DTYPE_F32, batch, NULL, (StepOptions){0});
    plan.scratch += device->allocated;
    plan.batches = batch->size;
    plan.results = sizeof(PassNumbers) + (1 + MODEL_MAX_METRICS) * sizeof(float);
    int64_t n = model->params.flat_count;
    Bench b = {.device = device, .model = model, .planned = memory_total(&plan)};
    b.m = flat(device, DTYPE_F32, n);
    b.v = flat(device, DTYPE_F32, n);
    float *host = xaligned((size_t)n * sizeof *host);
    params_initialize(&model->params, host, 1, 0);
    model->weights = flat(device, DTYPE_F32, n);
    model->gradients = flat(device, DTYPE_F32, n);
    device->upload(device, model->weights.data, host, (size_t)n * sizeof *host);
    device->synchronize(device);
    if (amp) {
        model->half_weights = flat(device, device->half, n);
        cast(device, model->half_weights, model->weights);
    }
    if (amp && device->half == DTYPE_F16) {
        const float scale[LOSS_SCALE_FIELDS] = {65536, 0, 0, 0};
        model->loss_scale = flat(device, DTYPE_F32, LOSS_SCALE_FIELDS);
        device->upload(device, model->loss_scale.data, scale, sizeof scale);
    }
    b.norm = flat(device, DTYPE_F32, 1);
    b.sums = flat(device, DTYPE_F32, MODEL_MAX_METRICS);
    b.numbers = device->allocate(device, sizeof *b.numbers);
    b.updates = params_updates(&model->params, device, 0.01f, false);
    b.unwritten = xcalloc((size_t)model->params.count, sizeof *b.unwritten);
    b.arena = arena_open(device, plan.activations, "activations");
    free(host);
    return b;
}

/* Copies the fields and the device dataset to the device once, outside the timed part. */
static void bench_upload(Bench *b, const Batch *batch) {
    char *memory = b->device->allocate(b->device, batch->size);
    b->device->upload(b->device, memory, batch->buffer, batch->size);
    Tensor dataset = batch->fields[batch->n_fields];
    if (tensor_given(dataset)) {
        dataset.data = b->device->allocate(b->device, tensor_bytes(dataset));
        b->device->upload(b->device, dataset.data, batch->fields[batch->n_fields].data, tensor_bytes(dataset));
    }
    b->fields[batch->n_fields] = dataset;
    for (int i = 0; i < batch->n_fields; i++) {
        b->fields[i] = batch->fields[i];
        if (b->fields[i].data) b->fields[i].data = memory + ((char *)b->fields[i].data - batch->buffer);
    }
}

static double bench_step(Bench *b, const Batch *batch, int64_t step) {
    Model *model = b->model;
    PassNumbers numbers = {.step = (uint32_t)step};
    const ParamUpdates *u = &b->updates;
    Pass pass = {.train = true, .unwritten = b->unwritten, .seed = 1, .step = &b->numbers->step, .sums = b->sums};
    const Context context = context_of(model, b->device, &b->arena, &pass);
    pass.loss_scale = tensor_1d(b->numbers->loss_scale, DTYPE_F32, model->n_metrics);
    pass.sums.dims[0] = model->n_metrics;
    for (int i = 0; i < model->n_metrics; i++)
        numbers.loss_scale[i] = model->metrics[i].weight / (float)batch->counts[model->metrics[i].count];
    double start = seconds_now();
    b->device->upload(b->device, b->numbers, &numbers, sizeof numbers);
    clear_segments(b->device, model->gradients, u->cleared, u->n_cleared);
    context_begin(&context);
    model->forward_backward(model, b->device, &b->arena, batch, b->fields, &pass);
    context_end(&context);
    global_norm(b->device, b->norm, model->gradients, model->loss_scale, u->segments, u->n_segments);
    AdamWBuffers buffers = {
        .params = model->weights, .copy = model->half_weights, .m = b->m, .v = b->v, .grads = model->gradients};
    for (int i = 0; i < u->n_segments; i++) u->segments[i].learning_rate = 1e-4f;
    adamw_update(b->device, buffers, b->norm, model->loss_scale, u->segments, u->n_segments,
                 (AdamW){0.9f, 0.999f, 1e-8f, 1.0f, step + 1, false});
    if (tensor_given(model->loss_scale)) loss_scale_update(b->device, model->loss_scale, b->norm, tensor_none());
    b->device->synchronize(b->device);
    return seconds_now() - start;
}

/* Prints the prediction of --estimate for a step, if the rates of the device are known, and the planned memory. */
static void print_prediction(const Bench *b, bool amp, int steps) {
    static const char *const names[] = {"predicted", "predicted_measured"};
    Work work = {0};
    work_add_counters(&work, b->device, 1);
    for (int measured = 0; measured < 2; measured++) {
        MachineOptions options = {.amp = amp, .workers = 1, .calibration = measured ? getenv("BENCH_RATES") : "none"};
        Machine machine;
        if (!machine_of_device(b->device, &options, &machine) || (measured && !machine.rates)) continue;
        WorkTime time = cost_of_work(&machine, &work);
        printf("%s %.6g by %s\n", names[measured], time.seconds / steps, cost_bound_names[time.bound]);
    }
    printf("planned %zu\nallocated %zu\n", b->planned, b->device->peak_allocated);
}

/* ---- cases ---- */

enum { MAX_CASES = 16 };
static const BenchCase *cases[MAX_CASES];
static int n_cases;

void bench_register(const BenchCase *bench_case) {
    if (n_cases == MAX_CASES) die("bench_step: more than %d cases", MAX_CASES);
    cases[n_cases++] = bench_case;
}

static const BenchCase *find_case(const char *name) {
    for (int i = 0; i < n_cases; i++)
        if (!strcmp(cases[i]->name, name)) return cases[i];
    die("unknown case '%s'; bench_step without arguments lists the cases", name);
}

static void print_usage(void) {
    fprintf(stderr, "usage: bench_step cpu|cuda|amp THREADS REPEATS CASE ARGUMENTS..., where CASE and ARGUMENTS are\n");
    for (int i = 0; i < n_cases; i++) fprintf(stderr, "  %-14s %s\n", cases[i]->name, cases[i]->usage);
}

static void run_steps(Bench *bench, const Batch *batch, bool amp, int repeats) {
    Device *device = bench->device;
    for (int i = 0; i <= repeats; i++) {
        double seconds = bench_step(bench, batch, i);
        if (i) printf("%.6f\n", seconds);
        if (!i) device_reset_counters(device);
    }
    double flops, bytes;
    device_totals(device, &flops, &bytes);
    printf("flops %.6g\nbytes %.6g\nactivations %zu\n", flops / repeats, bytes / repeats, bench->arena.peak);
    print_prediction(bench, amp, repeats);
    const Card *card = card_find(device->description);
    if (card) printf("peak %.6g\nbandwidth %.6g\n", card->half, card->bandwidth);
    printf("device %s\n", device->description);
    device_reset_counters(device);
    device->profile = true;
    bench_step(bench, batch, repeats + 1);
    ops_print_counters(device, stdout);
}

int main(int argc, char **argv) {
    cpu_limit_spinning(argv);
    if (argc < 5) {
        print_usage();
        return 2;
    }
    const char *name = argv[1], *why;
    bool amp = !strcmp(name, "amp");
    int threads = atoi(argv[2]), repeats = atoi(argv[3]);
    const BenchCase *wanted = find_case(argv[4]);
    if (argc - 5 < wanted->min_arguments) die("%s expects %s", wanted->name, wanted->usage);
    Batch batch;
    Model *model = wanted->open(wanted->name, argv + 5, argc - 5, &batch);
    Device *device = device_open(amp ? "cuda" : name, threads, false, &why);
    Bench bench = bench_open(model, device, amp, &batch);
    bench_upload(&bench, &batch);
    run_steps(&bench, &batch, amp, repeats);
    return 0;
}
