/* GPT-2 124M as llm.c trains it: no dropout, and a head tied to the token table. A benchmark only; no program trains
 * this model. */
#include <stdlib.h>

#include "model/block.h"
#include "tests/bench/bench.h"

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
    layernorm_forward(device, (LayerNormOutput){.y = y, .mean = mean, .rstd = rstd}, out, gain, bias);
    linear_forward(device, logits, y, head, none, WEIGHT_OUT_IN);
    cross_entropy_forward_backward(device, loss, correct, logits, fields[GPT2_TARGETS], none,
                                   tensor_rows(pass->loss_scale, 0, 1), model->loss_scale);
    sum_forward(device, tensor_1d(pass->sums.data, DTYPE_F32, 1), loss);
    linear_backward(device, (LayerGradients){.dx = dy, .dw = param_view(table, dw, g->wte)}, logits, y, head,
                    WEIGHT_OUT_IN);
    NormGradients of_norm = {
        .dx = dx, .dgain = param_view(table, dw, g->gain), .dbias = param_view(table, dw, g->bias)};
    layernorm_backward(device, of_norm, none, dy, out, mean, rstd, gain);
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

static Model *open_gpt2(const char *name, char **arguments, int n_arguments, Batch *batch) {
    enum { VOCABULARY = 50257, WIDTH = 768, LAYERS = 12, HEADS = 12 };
    int t = atoi(arguments[1]);
    (void)name;
    (void)n_arguments;
    *batch = gpt2_batch(atoi(arguments[0]), t, VOCABULARY);
    return &gpt2_open(VOCABULARY, WIDTH, LAYERS, HEADS, t)->model;
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase gpt2 = {"gpt2", "B T: GPT-2 124M, 50257 classes, the head tied", 2, open_gpt2};
    bench_register(&gpt2);
}
