/* Whole training steps, timed: forward, backward, gradient norm, AdamW. The scripts bench_*.py of tests/reference run
 * this beside PyTorch and print both.
 *
 *   bench_step DEVICE THREADS REPEATS gpt2 B T                          GPT-2 124M, 50257 classes, the head tied
 *   bench_step DEVICE THREADS REPEATS tts D L H V K TEXT,CODES...       the TTS GPT, a pair of lengths a sample
 *   bench_step DEVICE THREADS REPEATS psd_pretrain|psd_finetune SIZE B  a PSD model of a named size, without dropout
 *   bench_step DEVICE THREADS REPEATS flim B                            the FLIM classifier, without dropout
 *
 * DEVICE: cpu, cuda (f32), or amp (cuda in its 16-bit type). Prints the seconds of each repeat, one a line, then
 * lines "name value": what limits the step, the seconds that --estimate predicts of it (not where nothing is known of
 * the device) and what bounds it, the bytes of memory that were planned and allocated, the card's stated rates and what
 * computed; and a profile of one more step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/flim_dataset.h"
#include "data/psd_dataset.h"
#include "data/tts_dataset.h"
#include "kernels/cards.h"
#include "kernels/philox.h"
#include "model/block.h"
#include "model/flim.h"
#include "model/gpt.h"
#include "model/psd.h"
#include "train/estimate.h"

typedef struct {
    Device *device;
    Model *model;
    Tensor m, v, norm, sums;
    PassNumbers *numbers; /* on the device */
    Segment *segments;
    int n_segments;
    Arena arena;
    Tensor fields[BATCH_MAX_FIELDS + 1];
    size_t planned; /* bytes */
} Bench;

static Tensor flat(Device *device, DType type, int64_t n) {
    return tensor_1d(device->allocate(device, (size_t)n * dtype_size(type)), type, n);
}

static Bench bench_open(Model *model, Device *device, bool amp, const Batch *batch) {
    MemoryPlan plan = memory_plan(model, device, amp ? device->half : DTYPE_F32, batch, NULL, false);
    plan.scratch += device->allocated;
    plan.batches = batch->size;
    plan.results = sizeof(PassNumbers) + (1 + MODEL_MAX_METRICS) * sizeof(float);
    int64_t n = model->params.flat_count;
    Bench b = {.device = device, .model = model, .planned = memory_total(&plan)};
    b.m = flat(device, DTYPE_F32, n);
    b.v = flat(device, DTYPE_F32, n);
    float *host = xaligned((size_t)n * sizeof *host);
    params_initialize(&model->params, host, 1, 1);
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
    b.n_segments = params_segments(&model->params, 0.01f, &b.segments);
    b.arena = arena_open(device, plan.activations, "activations");
    free(host);
    return b;
}

/* The fields and the resident tensor where the device reads them; once, outside of what is timed. */
static void bench_upload(Bench *b, const Batch *batch) {
    char *memory = b->device->allocate(b->device, batch->size);
    b->device->upload(b->device, memory, batch->buffer, batch->size);
    Tensor resident = batch->fields[batch->n_fields];
    if (tensor_given(resident)) {
        resident.data = b->device->allocate(b->device, tensor_bytes(resident));
        b->device->upload(b->device, resident.data, batch->fields[batch->n_fields].data, tensor_bytes(resident));
    }
    b->fields[batch->n_fields] = resident;
    for (int i = 0; i < batch->n_fields; i++) {
        b->fields[i] = batch->fields[i];
        if (b->fields[i].data) b->fields[i].data = memory + ((char *)b->fields[i].data - batch->buffer);
    }
}

static double bench_step(Bench *b, const Batch *batch, int64_t step) {
    Model *model = b->model;
    PassNumbers numbers = {.step = (uint32_t)step};
    Pass pass = {.train = true, .seed = 1, .step = &b->numbers->step, .sums = b->sums};
    pass.loss_scale = tensor_1d(b->numbers->loss_scale, DTYPE_F32, model->n_metrics);
    pass.sums.dims[0] = model->n_metrics;
    for (int i = 0; i < model->n_metrics; i++)
        numbers.loss_scale[i] = model->metrics[i].weight / (float)batch->counts[model->metrics[i].count];
    double start = seconds_now();
    b->device->set(b->device, b->numbers, &numbers, sizeof numbers);
    b->device->clear(b->device, model->gradients.data, tensor_bytes(model->gradients));
    model->run(model, b->device, &b->arena, batch, b->fields, &pass);
    global_norm(b->device, b->norm, model->gradients, model->loss_scale, b->segments, b->n_segments);
    adamw_update(b->device, model->weights, model->half_weights, b->m, b->v, model->gradients, b->norm,
                 model->loss_scale, b->segments, b->n_segments,
                 (AdamW){1e-4f, 0.9f, 0.999f, 1e-8f, 1.0f, step + 1, false});
    if (tensor_given(model->loss_scale)) loss_scale_update(b->device, model->loss_scale, b->norm, tensor_none());
    b->device->synchronize(b->device);
    return seconds_now() - start;
}

/* What --estimate says of a step, if anything is known of the device, and what the memory was planned to be. */
static void print_prediction(const Bench *b, bool amp, int steps) {
    static const char *const names[] = {"predicted", "predicted_measured"};
    Work work = {0};
    work_add_counters(&work, b->device, 1);
    op_work_add(&work.ops[ESTIMATE_CLEAR], (CallWork){steps, 0, steps * (double)tensor_bytes(b->model->gradients)});
    for (int measured = 0; measured < 2; measured++) {
        TrainOptions options = {.amp = amp, .num_workers = 1, .calibration = measured ? getenv("BENCH_RATES") : "none"};
        Machine machine;
        if (!estimate_machine(b->device, &options, &machine) || (measured && !machine.rates)) continue;
        WorkTime time = estimate_work(&machine, &work);
        printf("%s %.6g by %s\n", names[measured], time.seconds / steps, bound_names[time.bound]);
    }
    printf("planned %zu\nallocated %zu\n", b->planned, b->device->peak_allocated);
}

/* GPT-2 as llm.c trains it: dropout off, one head tied to the token table. Only here: a yardstick, not a product. */
enum { GPT2_IDS, GPT2_POSITIONS, GPT2_TARGETS, GPT2_OFFSETS };
typedef struct {
    Model model;
    BlockStack blocks;
    int wte, wpe, gain, bias;
} Gpt2;

static void gpt2_run(Model *model, Device *device, Arena *arena, const Batch *batch, const Tensor *fields,
                     const Pass *pass) {
    Gpt2 *g = (Gpt2 *)model;
    ParamTable *table = &model->params;
    Tensor w = model->weights, dw = model->gradients, none = tensor_none();
    Tensor wte = param_view(table, w, g->wte), gain = param_view(table, w, g->gain),
           bias = param_view(table, w, g->bias);
    int64_t n = fields[GPT2_IDS].dims[0], c = wte.dims[1];
    size_t mark = arena_mark(arena);
    Sequences sequences = {fields[GPT2_OFFSETS], batch->fields[GPT2_OFFSETS].data, batch->n_sequences};
    BlockRun run = block_run(model, device, arena, sequences, pass);
    Tensor head = param_view(table, run.matmul_weights, g->wte), x = push_activations(&run, n, c);
    embedding_forward(device, x, none, fields[GPT2_IDS], wte, fields[GPT2_POSITIONS], param_view(table, w, g->wpe));
    Tensor out = blocks_forward(&g->blocks, &run, x);
    Tensor y = push_activations(&run, n, c), mean = arena_1d(arena, DTYPE_F32, n), rstd = arena_1d(arena, DTYPE_F32, n);
    Tensor dy = push_activations(&run, n, c), dx = push_activations(&run, n, c);
    Tensor logits = push_activations(&run, n, wte.dims[0]);
    Tensor loss = arena_1d(arena, DTYPE_F32, n), correct = arena_1d(arena, DTYPE_F32, n);
    layernorm_forward(device, y, mean, rstd, out, gain, bias);
    linear_forward(device, logits, y, head, none, WEIGHT_OUT_IN);
    cross_entropy_forward_backward(device, loss, correct, logits, fields[GPT2_TARGETS], none,
                                   tensor_rows(pass->loss_scale, 0, 1), model->loss_scale);
    sum_forward(device, tensor_1d(pass->sums.data, DTYPE_F32, 1), loss);
    linear_backward(device, dy, param_view(table, dw, g->wte), none, logits, y, head, WEIGHT_OUT_IN);
    layernorm_backward(device, dx, param_view(table, dw, g->gain), param_view(table, dw, g->bias), none, dy, out, mean,
                       rstd, gain);
    blocks_backward(&g->blocks, &run, dx);
    embedding_backward(device, param_view(table, dw, g->wte), param_view(table, dw, g->wpe), dx, none, fields[GPT2_IDS],
                       fields[GPT2_POSITIONS]);
    arena_release(arena, mark);
}

static Gpt2 *gpt2_open(int64_t vocabulary, int d, int layers, int heads, int positions) {
    static const BlockNames names = {{"h.%d.ln_1.weight", "h.%d.ln_1.bias", "h.%d.attn.c_attn.weight",
                                      "h.%d.attn.c_attn.bias", "h.%d.attn.c_proj.weight", "h.%d.attn.c_proj.bias",
                                      "h.%d.ln_2.weight", "h.%d.ln_2.bias", "h.%d.mlp.c_fc.weight",
                                      "h.%d.mlp.c_fc.bias", "h.%d.mlp.c_proj.weight", "h.%d.mlp.c_proj.bias"},
                                     {NULL}};
    BlockConfig config = {.d_model = d,
                          .n_heads = heads,
                          .d_ff = 4 * d,
                          .pre_norm = true,
                          .biases = true,
                          .causal = true,
                          .gelu = GELU_TANH,
                          .layout = WEIGHT_IN_OUT,
                          .init_scale = 0.02f,
                          .init_output_scale = 0.004f,
                          .decay_vectors = true,
                          .first_site = 1};
    Gpt2 *g = xcalloc(1, sizeof *g);
    ParamTable *table = &g->model.params;
    g->wte = param_add(table, INIT_NORMAL, 0.02f, true, vocabulary, d, "wte.weight");
    g->wpe = param_add(table, INIT_NORMAL, 0.02f, true, positions, d, "wpe.weight");
    g->blocks = block_stack_open("gpt2", table, &config, layers, &names);
    g->gain = param_add(table, INIT_ONE, 0, true, d, 0, "ln_f.weight");
    g->bias = param_add(table, INIT_ZERO, 0, true, d, 0, "ln_f.bias");
    g->model.name = "gpt2";
    g->model.metrics[0] = (Metric){"loss", 0, 1.0f};
    g->model.n_metrics = 1;
    g->model.run = gpt2_run;
    return g;
}

static Batch gpt2_batch(int b, int t, int vocabulary) {
    int64_t n = (int64_t)b * t;
    Batch batch = batch_open((size_t)n * 16 + 4096, b);
    int32_t *ids = batch_push_1d(&batch, GPT2_IDS, DTYPE_I32, n).data;
    int32_t *positions = batch_push_1d(&batch, GPT2_POSITIONS, DTYPE_I32, n).data;
    int32_t *targets = batch_push_1d(&batch, GPT2_TARGETS, DTYPE_I32, n).data;
    int32_t *offsets = batch_push_1d(&batch, GPT2_OFFSETS, DTYPE_I32, b + 1).data;
    for (int64_t i = 0; i < n; i++) {
        ids[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)vocabulary);
        targets[i] = (int32_t)((uint64_t)(i + 7) * 2246822519u % (uint64_t)vocabulary);
        positions[i] = (int32_t)(i % t);
    }
    for (int i = 0; i <= b; i++) offsets[i] = i * t;
    batch.n_sequences = b;
    batch.n_tokens = batch.counts[0] = n;
    return batch;
}

static Batch tts_batch(const TtsLayout *layout, char **lengths, int n) {
    int32_t *text = xcalloc((size_t)n, 4), *codes = xcalloc((size_t)n, 4), *samples = xcalloc((size_t)n, 4);
    for (int i = 0; i < n; i++) {
        if (sscanf(lengths[i], "%d,%d", &text[i], &codes[i]) != 2) die("expected TEXT,CODES, found %s", lengths[i]);
        samples[i] = i;
    }
    Error error;
    Dataset *data = tts_dataset_synthetic(layout, text, codes, n);
    Batch batch = batch_open(data->batch_bytes(data, samples, n), n);
    if (!data->fill(data, &batch, samples, n, &error)) die("%s", error.text);
    data->close(data);
    return batch;
}

/* Spectra of white noise: 6 classes, each from several sensors. */
static PsdStore psd_noise(int n) {
    PsdStore store = {.n = n, .psd = xmalloc((size_t)n * PSD_BINS * sizeof(float))};
    store.labels = xcalloc((size_t)n, sizeof *store.labels);
    store.sensors = xcalloc((size_t)n, sizeof *store.sensors);
    store.rows = xcalloc((size_t)n, sizeof *store.rows);
    for (int i = 0; i < n; i++) {
        store.labels[i] = i % PSD_CLASSES;
        store.sensors[i] = i / PSD_CLASSES % 4;
        store.rows[i] = i;
    }
    for (int i = 0; i < n * PSD_BINS; i++)
        store.psd[i] = 3.4641f * ((float)philox_bits(1, PURPOSE_SYNTHETIC, 0, (uint64_t)i) * 0x1p-32f - 0.5f);
    return store;
}

static Batch psd_batch(int n, bool pretraining) {
    PsdStore store = psd_noise(n); /* the batch's resident tensor: stays */
    PsdDatasetOptions options = {
        .pretraining = pretraining, .n_visible = pretraining ? 5 : 0, .seed = 1, .classes = PSD_CLASSES};
    int64_t *rows = xmalloc((size_t)n * sizeof *rows);
    for (int i = 0; i < n; i++) rows[i] = i;
    Dataset *data = psd_dataset_open(&store, &(PsdIds){rows, n}, &options);
    Batch batch = psd_largest_batch(data, n, 0);
    batch.fields[batch.n_fields] = data->resident;
    data->close(data);
    free(rows);
    return batch;
}

static Model *psd_model(const char *name, bool pretraining) {
    const PsdSize *s = psd_size(name);
    if (!s) die("unknown size '%s'; there are tiny, small, l4, medium, large", name);
    PsdEncoderConfig encoder = {.d_model = s->d_model, .n_layers = s->n_layers, .n_heads = s->n_heads, .d_ff = s->d_ff};
    if (!pretraining) return psd_classifier_open(&(PsdClassifierConfig){.encoder = encoder, .head_dim = s->head_dim});
    return psd_pretrain_open(&(PsdPretrainConfig){.encoder = encoder,
                                                  .decoder_dim = s->decoder_dim,
                                                  .decoder_layers = s->decoder_layers,
                                                  .projection_dim = s->projection_dim,
                                                  .sicr_weight = 0.1f,
                                                  .temperature = 0.07f});
}

/* Cells of a few photons in every voxel, as they are: the peer has no augmentation either. */
static Batch flim_batch(int n) {
    FlimShape shape = {256, 21, 21};
    int64_t voxels = (int64_t)n * shape.T * shape.H * shape.W;
    uint16_t *counts = xmalloc((size_t)voxels * sizeof *counts); /* the batch's resident tensor: stays */
    int32_t *labels = xcalloc((size_t)n, sizeof *labels), *ids = xcalloc((size_t)n, sizeof *ids);
    for (int64_t i = 0; i < voxels; i++)
        counts[i] = (uint16_t)(philox_bits(1, PURPOSE_SYNTHETIC, 0, (uint64_t)i) >> 29);
    for (int i = 0; i < n; i++) {
        labels[i] = i % 2;
        ids[i] = i;
    }
    FlimCells cells = {.n = n, .shape = shape, .bits = 16, .counts = counts, .labels = labels};
    Dataset *data = flim_dataset_open(&cells, &(FlimIds){ids, n}, &(FlimDatasetOptions){.views = 1});
    Batch batch = flim_largest_batch(data, n, 0);
    batch.fields[batch.n_fields] = data->resident;
    data->close(data);
    free(labels);
    free(ids);
    return batch;
}

int main(int argc, char **argv) {
    cpu_limit_spinning(argv);
    if (argc < 6)
        die("usage: bench_step cpu|cuda|amp THREADS REPEATS gpt2 B T | tts D L H V K TEXT,CODES... | "
            "psd_pretrain SIZE B | psd_finetune SIZE B | flim B");
    const char *name = *++argv, *why;
    bool amp = !strcmp(name, "amp");
    int threads = atoi(argv[1]), repeats = atoi(argv[2]);
    Batch batch;
    Model *model;
    if (!strcmp(argv[3], "gpt2")) {
        int t = atoi(argv[5]);
        batch = gpt2_batch(atoi(argv[4]), t, 50257);
        model = &gpt2_open(50257, 768, 12, 12, t)->model;
    } else if (!strcmp(argv[3], "flim")) {
        batch = flim_batch(atoi(argv[4]));
        model = flim_open(&(FlimConfig){.channels = {32, 64, 128}, .bins = 256, .side = 21});
    } else if (!strncmp(argv[3], "psd_", 4)) {
        bool pretraining = !strcmp(argv[3], "psd_pretrain");
        batch = psd_batch(atoi(argv[5]), pretraining);
        model = psd_model(argv[4], pretraining);
    } else {
        int d = atoi(argv[4]), v = atoi(argv[7]), k = atoi(argv[8]);
        TtsLayout layout = {d, 32, 600, 1816, v, k, 0, 1, k, k + 1};
        batch = tts_batch(&layout, argv + 9, argc - 10);
        model = tts_gpt_open(&(TtsGptConfig){.d_model = d,
                                             .n_layers = atoi(argv[5]),
                                             .n_heads = atoi(argv[6]),
                                             .text_vocabulary = v,
                                             .mel_codes = k + 2,
                                             .max_text_tokens = 600,
                                             .max_mel_tokens = 1815,
                                             .text_weight = 0.2f,
                                             .mel_weight = 0.8f});
    }
    Device *device = device_open(amp ? "cuda" : name, threads, false, &why);
    Bench bench = bench_open(model, device, amp, &batch);
    bench_upload(&bench, &batch);
    for (int i = 0; i <= repeats; i++) {
        double seconds = bench_step(&bench, &batch, i);
        if (i) printf("%.6f\n", seconds);
        if (!i) device_reset_counters(device);
    }
    double flops, bytes;
    device_totals(device, &flops, &bytes);
    printf("flops %.6g\nbytes %.6g\nactivations %zu\n", flops / repeats, bytes / repeats, bench.arena.peak);
    print_prediction(&bench, amp, repeats);
    const Card *card = card_find(device->description);
    if (card) printf("peak %.6g\nbandwidth %.6g\n", card->half, card->bandwidth);
    printf("device %s\n", device->description);
    device_reset_counters(device);
    device->profile = true;
    bench_step(&bench, &batch, repeats + 1);
    device_print_counters(device, stdout);
    return 0;
}
