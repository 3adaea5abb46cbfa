#include "tools/claims/text.h"

#include <stdlib.h>

#include "model/block.h"

enum { TEXT_OFFSETS = BATCH_OFFSETS, TEXT_IDS, TEXT_POSITIONS, TEXT_TARGETS, TEXT_FIELDS };
enum { SITE_EMBEDDING, SITE_BLOCKS };
static const float drop = 0.1f;

typedef struct {
    Model base; /* must be first: a Model * is cast to Text * */
    TextModel config;
    BlockStack blocks;
    int tokens, positions, norm; /* indices in the parameter table */
} Text;

static const BlockNames names = {.tensor = {"%d.norm1", "%d.norm1.bias", "%d.qkv", "%d.qkv.bias", "%d.out",
                                            "%d.out.bias", "%d.norm2", "%d.norm2.bias", "%d.mlp_in", "%d.mlp_in.bias",
                                            "%d.mlp_out", "%d.mlp_out.bias"}};

/* ---- parameters ---- */

static int add_matrix(Text *t, int64_t rows, int64_t columns, const char *name) {
    return param_add(&t->base.params, INIT_NORMAL, 0.02f, true, rows, columns, "%s", name);
}

static void add_params(Text *t) {
    const TextModel *c = &t->config;
    ParamTable *table = &t->base.params;
    BlockConfig blocks = {.d_model = c->width,
                          .n_heads = c->heads,
                          .d_ff = 4 * c->width,
                          .pre_norm = true,
                          .biases = c->biases,
                          .causal = true,
                          .gelu = GELU_ERF,
                          .layout = WEIGHT_OUT_IN,
                          .drop_attention = drop,
                          .drop_projection = drop,
                          .drop_mlp = drop,
                          .first_site = SITE_BLOCKS,
                          .init_scale = 0.02f,
                          .init_output_scale = 0.02f};
    t->tokens = add_matrix(t, c->vocabulary, c->width, "tokens");
    t->positions = add_matrix(t, c->positions, c->width, "positions");
    t->norm = param_add(table, INIT_ONE, 0, false, c->width, 0, "norm");
    if (c->biases) param_add(table, INIT_ZERO, 0, false, c->width, 0, "norm.bias");
    t->blocks = block_stack_open(c->name, table, &blocks, c->layers, &names);
}

/* ---- a micro-batch ---- */

static Tensor optional(const Text *t, const Context *context, Tensor (*of)(const Context *, int), int index) {
    return t->config.biases ? of(context, index) : tensor_none();
}

static void norm_forward(const Text *t, const Context *context, Tensor y, Tensor stat[2], Tensor x) {
    layernorm_forward(context->device, (LayerNormOutput){.y = y, .mean = stat[0], .rstd = stat[1]}, x,
                      context_weight(context, t->norm), optional(t, context, context_weight, t->norm + 1));
}

static void norm_backward(const Text *t, const Context *context, Tensor dx, Tensor dy, Tensor x, Tensor stat[2]) {
    Tensor dbias = optional(t, context, context_gradient, t->norm + 1);
    NormGradients gradients = {.dx = dx, .dgain = context_gradient(context, t->norm), .dbias = dbias};
    layernorm_backward(context->device, gradients, tensor_none(), dy, x, stat[0], stat[1],
                       context_weight(context, t->norm));
}

/* Computes the loss and, in training, replaces the logits by their gradient. */
static void loss_run(const Text *t, const Context *context, Tensor logits, Tensor targets) {
    const Pass *pass = context->pass;
    Tensor loss = arena_1d(context->arena, DTYPE_F32, logits.dims[0]),
           correct = arena_1d(context->arena, DTYPE_F32, logits.dims[0]);
    if (pass->train)
        cross_entropy_forward_backward(context->device, loss, correct, logits, logits.dims[1], targets, tensor_none(),
                                       tensor_rows(pass->loss_scale, 0, 1), t->base.loss_scale);
    else
        cross_entropy_forward(context->device, loss, correct, logits, logits.dims[1], targets, tensor_none());
    sum_forward(context->device, tensor_rows(pass->sums, 0, 1), loss);
}

/* Applies the final norm and the head, which is the token table, to every row. Returns the gradient of x. */
static Tensor next_token(const Text *t, const Context *context, Tensor x, Tensor targets) {
    Tensor final = context_push(context, x.dims[0], x.dims[1]), w = context_matmul_weight(context, t->tokens),
           none = tensor_none();
    Tensor stat[2] = {arena_1d(context->arena, DTYPE_F32, x.dims[0]), arena_1d(context->arena, DTYPE_F32, x.dims[0])};
    norm_forward(t, context, final, stat, x);
    Tensor logits = context_push(context, x.dims[0], t->config.vocabulary);
    linear_forward(context->device, logits, final, w, none, WEIGHT_OUT_IN);
    loss_run(t, context, logits, targets);
    if (!context->pass->train) return none;
    Tensor dfinal = context_push(context, x.dims[0], x.dims[1]), dx = context_push(context, x.dims[0], x.dims[1]);
    linear_backward(context->device, (LayerGradients){.dx = dfinal, .dw = context_gradient(context, t->tokens)}, logits,
                    final, w, WEIGHT_OUT_IN);
    norm_backward(t, context, dx, dfinal, x, stat);
    return dx;
}

static void text_forward_backward(Model *model, Device *device, Arena *arena, const Batch *batch, const Tensor *fields,
                                  const Pass *pass) {
    Text *t = (Text *)model;
    Sequences sequences = {fields[TEXT_OFFSETS], batch->fields[TEXT_OFFSETS].data, batch->n_sequences};
    Context context = context_of(model, device, arena, pass);
    BlockRows rows = {.sequences = sequences};
    Dropout dropped = pass_dropout(pass, drop, SITE_EMBEDDING);
    size_t mark = arena_mark(arena);
    int64_t n = batch->n_tokens, width = t->config.width;
    Tensor x = context_push(&context, n, width), dx;
    embedding_forward(device, x, tensor_none(), fields[TEXT_IDS], context_weight(&context, t->tokens),
                      fields[TEXT_POSITIONS], context_weight(&context, t->positions));
    if (pass->train) dropout(device, x, x, dropped);
    x = blocks_forward(&t->blocks, &context, &rows, x);
    dx = next_token(t, &context, x, fields[TEXT_TARGETS]);
    if (pass->train) {
        dx = blocks_backward(&t->blocks, &context, &rows, dx);
        dropout(device, dx, dx, dropped);
        embedding_backward(device, context_gradient(&context, t->tokens), context_gradient(&context, t->positions), dx,
                           tensor_none(), fields[TEXT_IDS], fields[TEXT_POSITIONS]);
    }
    arena_release(arena, mark);
}

/* ---- counting work and memory ---- */

static Tensor numbers(int64_t n) { return tensor_1d((void *)BATCH_LINE, DTYPE_I32, n); } /* never read */

static Batch text_batch(TextBatch b, int32_t *offsets) {
    int64_t n = (int64_t)b.sequences * b.length;
    Batch batch = {.n_fields = TEXT_FIELDS, .n_sequences = b.sequences, .n_tokens = n};
    for (int i = 0; i <= b.sequences; i++) offsets[i] = i * b.length;
    batch.fields[TEXT_OFFSETS] = tensor_1d(offsets, DTYPE_I32, b.sequences + 1);
    batch.fields[TEXT_IDS] = batch.fields[TEXT_POSITIONS] = batch.fields[TEXT_TARGETS] = numbers(n);
    for (int i = 0; i < TEXT_FIELDS; i++) batch.size += tensor_bytes(batch.fields[i]);
    return batch;
}

static Work counted(Model *model, const Batch *batch, TextBatch b, bool train) {
    Work work = {0};
    Device *dry = dry_device_open();
    dry->half = b.half;
    if (train)
        memory_dry_step(model, dry, batch, b.accumulation, (StepOptions){.recompute = b.recompute});
    else
        memory_dry_pass(model, dry, batch, PASS_VALIDATION, false);
    work_add_counters(&work, dry, 1);
    device_close(dry);
    for (int i = 0; i < (train ? b.accumulation : 1); i++) work_add_batch(&work, batch);
    return work;
}

TextStep text_step(const TextModel *model, TextBatch b) {
    Text t = {.base = {.name = model->name,
                       .metrics = {{.name = "loss", .weight = 1}},
                       .n_metrics = 1,
                       .forward_backward = text_forward_backward},
              .config = *model};
    OWNED int32_t *offsets = xcalloc((size_t)b.sequences + 1, sizeof *offsets);
    add_params(&t);
    Batch batch = text_batch(b, offsets);
    TextStep step = {counted(&t.base, &batch, b, true), counted(&t.base, &batch, b, false),
                     memory_plan(&t.base, NULL, b.half, &batch, NULL, (StepOptions){.recompute = b.recompute}),
                     memory_plan(&t.base, NULL, b.half, NULL, &batch, (StepOptions){0}),
                     (double)params_count(&t.base.params)};
    block_stack_close(&t.blocks);
    params_free(&t.base.params);
    return step;
}
