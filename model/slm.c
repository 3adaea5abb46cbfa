/* The text GPT.
 *
 *   x       = drop(token table[id] + position table[position])
 *   logits  = norm(blocks(x)) (token table)^T
 *
 * Rows are packed. */
#include "model/slm.h"

#include <math.h>
#include <stdlib.h>

#include "data/slm/batch.h"
#include "model/block.h"
#include "model/token_head.h"

enum { SITE_EMBEDDING, SITE_BLOCKS };

typedef struct {
    Model base; /* first, so that a Model * of this file is a Slm * */
    SlmConfig config;
    BlockStack blocks;
    int tokens, positions, norm_gain, norm_bias; /* rows of the parameter table; -1: absent */
} Slm;

static const BlockNames names = {.tensor = {"transformer.h.%d.ln_1.weight", "transformer.h.%d.ln_1.bias",
                                            "transformer.h.%d.attn.c_attn.weight", "transformer.h.%d.attn.c_attn.bias",
                                            "transformer.h.%d.attn.c_proj.weight", "transformer.h.%d.attn.c_proj.bias",
                                            "transformer.h.%d.ln_2.weight", "transformer.h.%d.ln_2.bias",
                                            "transformer.h.%d.mlp.c_fc.weight", "transformer.h.%d.mlp.c_fc.bias",
                                            "transformer.h.%d.mlp.c_proj.weight", "transformer.h.%d.mlp.c_proj.bias"}};

/* ---- parameters ---- */

static BlockConfig block_config(const SlmConfig *c) {
    return (BlockConfig){.d_model = c->d_model,
                         .n_heads = c->n_heads,
                         .d_ff = 4 * c->d_model,
                         .pre_norm = true,
                         .biases = c->biases,
                         .causal = true,
                         .gelu = c->gelu,
                         .layout = WEIGHT_OUT_IN,
                         .drop_attention = c->dropout,
                         .drop_projection = c->dropout,
                         .drop_mlp = c->dropout,
                         .first_site = SITE_BLOCKS,
                         .init_scale = 0.02f,
                         .init_output_scale = c->scaled_init ? 0.02f / sqrtf(2 * (float)c->n_layers) : 0.02f};
}

/* Adds the parameters in the order, with the names and the shapes of the reference. Only matrices have weight decay. */
static void add_params(Slm *slm) {
    const SlmConfig *c = &slm->config;
    ParamTable *table = &slm->base.params;
    BlockConfig blocks = block_config(c);
    slm->tokens = param_add(table, INIT_NORMAL, 0.02f, true, c->vocabulary, c->d_model, "transformer.wte.weight");
    param_pad_rows(table);                    /* it is the head, too, */
    table->items[slm->tokens].product = true; /* whose gradient is the first */
    slm->positions = param_add(table, INIT_NORMAL, 0.02f, true, c->context, c->d_model, "transformer.wpe.weight");
    slm->blocks = block_stack_open("slm", table, &blocks, c->n_layers, &names);
    slm->norm_gain = param_add(table, INIT_ONE, 0, false, c->d_model, 0, "transformer.ln_f.weight");
    slm->norm_bias = c->biases ? param_add(table, INIT_ZERO, 0, false, c->d_model, 0, "transformer.ln_f.bias") : -1;
}

/* ---- one micro-batch ---- */

static void embed(const Slm *slm, const Context *context, const Tensor *fields, Tensor x) {
    embedding_forward(context->device, x, tensor_none(), fields[SLM_IDS], context_weight(context, slm->tokens),
                      fields[SLM_POSITIONS], context_weight(context, slm->positions));
    context_drop(context, x, slm->config.dropout, SITE_EMBEDDING);
    pass_dump(context->pass, x, "embedded");
}

static void embed_backward(const Slm *slm, const Context *context, const Tensor *fields, Tensor dx) {
    context_drop(context, dx, slm->config.dropout, SITE_EMBEDDING);
    embedding_backward(context->device, context_gradient(context, slm->tokens),
                       context_gradient(context, slm->positions), dx, tensor_none(), fields[SLM_IDS],
                       fields[SLM_POSITIONS]);
}

/* Sums the loss of each sequence's rows; a sample must be one sequence. */
static void sum_sequences(const Context *context, Sequences sequences, Tensor outputs, Tensor loss) {
    const int32_t *offsets = sequences.host_offsets;
    if (outputs.dims[0] != sequences.count)
        die("slm: outputs of %lld samples of a batch with %d sequences", (long long)outputs.dims[0], sequences.count);
    for (int s = 0; s < sequences.count; s++)
        sum_forward(context->device, tensor_1d((float *)outputs.data + s, DTYPE_F32, 1),
                    tensor_rows(loss, offsets[s], offsets[s + 1] - offsets[s]));
}

/* Sums the metrics. In training it also returns the gradient of x [N, C], pushed on the arena. */
static Tensor finish(const Slm *slm, const Context *context, Sequences sequences, Tensor x, Tensor targets) {
    const Pass *pass = context->pass;
    int64_t n = x.dims[0], width = x.dims[1];
    Tensor dx = tensor_none(), dy = tensor_none();
    if (pass->train) dx = context_push(context, n, width);
    size_t mark = arena_mark(context->arena);
    Tensor loss = arena_1d(context->arena, DTYPE_F32, n), hit = arena_1d(context->arena, DTYPE_F32, n);
    if (pass->train) dy = context_push(context, n, width);
    LayerNormOutput norm = context_norm(context, slm->norm_gain, slm->norm_bias, x);
    pass_dump(pass, norm.y, "final");
    TokenHead head = {.table = slm->tokens,
                      .bias = -1,
                      .metric = SLM_LOSS,
                      .targets = targets,
                      .loss = loss,
                      .correct = hit,
                      .loss_scale = slm->base.loss_scale};
    token_head_run(&head, context, norm.y, dy);
    for (int i = 0; i < slm->base.n_metrics; i++)
        sum_forward(context->device, tensor_rows(pass->sums, i, 1), i == SLM_TOP1 ? hit : loss);
    if (tensor_given(pass->outputs)) sum_sequences(context, sequences, pass->outputs, loss);
    if (pass->train) context_norm_backward(context, slm->norm_gain, slm->norm_bias, dx, dy, x, norm);
    arena_release(context->arena, mark);
    return dx;
}

static void slm_forward_backward(Model *model, Device *device, Arena *activations, const Batch *batch,
                                 const Tensor *fields, const Pass *pass) {
    Slm *slm = (Slm *)model;
    Sequences sequences = context_sequences(batch, fields);
    Context context = context_of(model, device, activations, pass);
    BlockRows rows = {.sequences = sequences};
    size_t mark = arena_mark(activations);
    Tensor x = context_push(&context, batch->n_tokens, slm->config.d_model);
    embed(slm, &context, fields, x);
    x = blocks_forward(&slm->blocks, &context, &rows, x);
    Tensor dx = finish(slm, &context, sequences, x, fields[SLM_TARGETS]);
    if (pass->train) {
        blocks_backward(&slm->blocks, &context, &rows, dx);
        embed_backward(slm, &context, fields, dx);
    }
    arena_release(activations, mark);
}

static void slm_logits(Model *model, const Context *context, Tensor logits, Tensor x) {
    const Slm *slm = (Slm *)model;
    size_t mark = arena_mark(context->arena);
    Tensor y = context_norm(context, slm->norm_gain, slm->norm_bias, x).y;
    linear_forward(context->device, logits, y, context_padded_weight(context, slm->tokens), tensor_none(),
                   WEIGHT_OUT_IN);
    arena_release(context->arena, mark);
}

GenerationModel slm_generation(Model *model) {
    Slm *slm = (Slm *)model;
    return (GenerationModel){.model = model,
                             .blocks = &slm->blocks,
                             .tables = {{slm->tokens, slm->positions}},
                             .n_tables = 1,
                             .context = slm->config.context,
                             .vocabulary = slm->config.vocabulary,
                             .columns = slm->config.vocabulary + model->params.items[slm->tokens].padding,
                             .head = slm_logits};
}

static void slm_close(Model *model) {
    Slm *slm = (Slm *)model;
    block_stack_close(&slm->blocks);
    params_free(&model->params);
    free(slm);
}

static double metric_value(int metric, double mean) {
    if (metric == SLM_PERPLEXITY) return exp(mean);
    return metric == SLM_BITS_PER_BYTE ? mean / 0.69314718055994531 : mean; /* nats to bits */
}

Model *slm_open(const SlmConfig *config) {
    static const FieldPad pads[BATCH_MAX_FIELDS] = {{0}}; /* only the number of sequences differs */
    if (config->vocabulary < 2) die_usage("slm: a vocabulary of %d tokens; at least 2", config->vocabulary);
    if (config->context < 1) die_usage("slm: a context of %d tokens; at least 1", config->context);
    Slm *slm = xcalloc(1, sizeof *slm);
    slm->config = *config;
    slm->base = (Model){.name = "slm",
                        .metrics = {[SLM_LOSS] = {"loss", SLM_COUNT_TOKENS, 1},
                                    [SLM_TOP1] = {"top1", SLM_COUNT_TOKENS, 0},
                                    [SLM_PERPLEXITY] = {"perplexity", SLM_COUNT_TOKENS, 0},
                                    [SLM_BITS_PER_BYTE] = {"bits_per_byte", SLM_COUNT_BYTES, 0}},
                        .n_metrics = SLM_METRICS,
                        .metric_value = metric_value,
                        .pads = pads,
                        .forward_backward = slm_forward_backward,
                        .close = slm_close};
    add_params(slm);
    return &slm->base;
}
