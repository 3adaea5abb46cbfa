/* The Amharic TTS GPT: 34 rows of conditioning, text and audio codes in one causal sequence; a head for text and one
 * for codes.
 *
 *   x       = drop(conditioning + emotion | speed 1, speed 0 | text + position | mel + position)
 *   h       = final_norm(ln_f(blocks(x)))        two norms, one after the other
 *   logits  = h head^T + bias                    text rows through text_head, mel rows through mel_head
 *
 * Rows are packed. Behind the last block only rows with a target are computed, one head after the
 * other, so that the logits of both heads never exist at the same time. */
#include "model/gpt.h"

#include <math.h>
#include <stdlib.h>

#include "data/gpt/batch.h"
#include "model/block.h"

enum { SITE_EMBEDDING, SITE_BLOCKS };

typedef struct {
    Model base; /* first, so that a Model * of this file is a Gpt * */
    GptConfig config;
    BlockStack blocks;
    /* Rows of the parameter table. A norm and a head have the row of their weight; that of the bias follows. */
    int text_embedding, mel_embedding, ln_f, mel_positions, text_positions, final_norm, text_head, mel_head, speed;
} Gpt;

/* The differences between the two heads. */
typedef struct {
    const char *name, *logits; /* logits: their name in dumps */
    int weight, rows, targets; /* a row of the table, two fields of the batch */
    int loss, top1;            /* metrics */
} Head;

static const BlockNames gpt2_names = {
    .tensor = {"gpt.h.%d.ln_1.weight", "gpt.h.%d.ln_1.bias", "gpt.h.%d.attn.c_attn.weight", "gpt.h.%d.attn.c_attn.bias",
               "gpt.h.%d.attn.c_proj.weight", "gpt.h.%d.attn.c_proj.bias", "gpt.h.%d.ln_2.weight", "gpt.h.%d.ln_2.bias",
               "gpt.h.%d.mlp.c_fc.weight", "gpt.h.%d.mlp.c_fc.bias", "gpt.h.%d.mlp.c_proj.weight",
               "gpt.h.%d.mlp.c_proj.bias"}};

/* ---- parameters ---- */

static int add_table(ParamTable *table, int64_t rows, int64_t width, const char *name) {
    return param_add(table, INIT_NORMAL, 0.02f, true, rows, width, "%s", name);
}

static BlockConfig block_config(const GptConfig *c) {
    return (BlockConfig){.d_model = c->d_model,
                         .n_heads = c->n_heads,
                         .d_ff = 4 * c->d_model,
                         .pre_norm = true,
                         .biases = true,
                         .causal = true,
                         .gelu = GELU_TANH,
                         .layout = WEIGHT_IN_OUT,
                         .drop_attention = c->dropout,
                         .drop_projection = c->dropout,
                         .drop_mlp = c->dropout,
                         .first_site = SITE_BLOCKS,
                         .init_scale = 0.02f,
                         .init_output_scale = 0.02f / sqrtf(2 * (float)c->n_layers),
                         .decay_vectors = true};
}

/* Adds the parameters in the order, with the names and the shapes of the reference. All have weight decay. */
static void add_params(Gpt *gpt) {
    const GptConfig *c = &gpt->config;
    ParamTable *table = &gpt->base.params;
    BlockConfig blocks = block_config(c);
    int C = c->d_model;
    gpt->text_embedding = add_table(table, c->text_vocabulary + 1, C, "text_embedding.weight");
    gpt->mel_embedding = add_table(table, c->mel_codes, C, "mel_embedding.weight");
    gpt->blocks = block_stack_open("gpt", table, &blocks, c->n_layers, &gpt2_names);
    gpt->ln_f = param_add_norm(table, C, "gpt.ln_f");
    gpt->mel_positions = add_table(table, c->max_mel_tokens + 3, C, "mel_pos_embedding.emb.weight");
    gpt->text_positions = add_table(table, c->max_text_tokens + 2, C, "text_pos_embedding.emb.weight");
    gpt->final_norm = param_add_norm(table, C, "final_norm");
    gpt->text_head = param_add_head(table, C, c->text_vocabulary + 1, "text_head");
    gpt->mel_head = param_add_head(table, C, c->mel_codes, "mel_head");
    gpt->speed = param_add(table, INIT_ZERO, 0, true, 2, C, "speed_emb.weight");
}

/* The block checks width, heads, layers and dropout. */
static void check_config(const GptConfig *c) {
    if (c->text_vocabulary < 3) die_usage("gpt: a text vocabulary of %d pieces; at least 3", c->text_vocabulary);
    if (c->mel_codes < 3) die_usage("gpt: %d mel codes; at least 3: one code, start and stop", c->mel_codes);
    if (c->max_text_tokens < 1) die_usage("gpt: max text tokens %d; at least 1", c->max_text_tokens);
    if (c->max_mel_tokens < 1) die_usage("gpt: max mel tokens %d; at least 1", c->max_mel_tokens);
    if (!(c->text_weight >= 0 && c->mel_weight >= 0 && c->text_weight + c->mel_weight > 0)) {
        die_usage("gpt: loss weights %g (text) and %g (mel) must not be negative, nor both 0", (double)c->text_weight,
                  (double)c->mel_weight);
    }
}

/* ---- one micro-batch ---- */

/* Writes x [N, C]: each row is written by exactly one of the four. */
static void embed(const Gpt *gpt, const Context *context, const Tensor *fields, Tensor x) {
    Device *device = context->device;
    Tensor none = tensor_none();
    scatter_rows(device, x, fields[GPT_CONDITIONING], fields[GPT_CONDITIONING_ROWS]);
    embedding_forward(device, x, fields[GPT_SPEED_ROWS], fields[GPT_SPEED_IDS], context_weight(context, gpt->speed),
                      none, none);
    embedding_forward(device, x, fields[GPT_TEXT_ROWS], fields[GPT_TEXT_IDS],
                      context_weight(context, gpt->text_embedding), fields[GPT_TEXT_POSITIONS],
                      context_weight(context, gpt->text_positions));
    embedding_forward(device, x, fields[GPT_MEL_ROWS], fields[GPT_MEL_IDS], context_weight(context, gpt->mel_embedding),
                      fields[GPT_MEL_POSITIONS], context_weight(context, gpt->mel_positions));
    context_drop(context, x, gpt->config.dropout, SITE_EMBEDDING);
    pass_dump(context->pass, x, "embedded");
}

static void embed_backward(const Gpt *gpt, const Context *context, const Tensor *fields, Tensor dx) {
    Device *device = context->device;
    Tensor none = tensor_none();
    context_drop(context, dx, gpt->config.dropout, SITE_EMBEDDING);
    embedding_backward(device, context_gradient(context, gpt->mel_embedding),
                       context_gradient(context, gpt->mel_positions), dx, fields[GPT_MEL_ROWS], fields[GPT_MEL_IDS],
                       fields[GPT_MEL_POSITIONS]);
    embedding_backward(device, context_gradient(context, gpt->text_embedding),
                       context_gradient(context, gpt->text_positions), dx, fields[GPT_TEXT_ROWS], fields[GPT_TEXT_IDS],
                       fields[GPT_TEXT_POSITIONS]);
    embedding_backward(device, context_gradient(context, gpt->speed), none, dx, fields[GPT_SPEED_ROWS],
                       fields[GPT_SPEED_IDS], none);
}

/* The two norms before a head. */
typedef struct {
    LayerNormOutput middle, final;
} Finished;

static Finished finish(const Gpt *gpt, const Context *context, Tensor x) {
    Finished f = {.middle = context_norm(context, gpt->ln_f, gpt->ln_f + 1, x)};
    f.final = context_norm(context, gpt->final_norm, gpt->final_norm + 1, f.middle.y);
    return f;
}

/* Sums the loss and the hits over the n rows of one head. In training it also computes the gradient and writes the
 * rows of dx [N, C]; the logits, the largest tensor, become their own gradient in place. */
static void head_run(const Gpt *gpt, const Context *context, const Tensor *fields, Head head, Tensor x, Tensor dx) {
    const Pass *pass = context->pass;
    Device *device = context->device;
    Tensor rows = fields[head.rows], targets = fields[head.targets];
    Tensor w = context_padded_weight(context, head.weight), bias = context_padded_weight(context, head.weight + 1);
    int64_t n = rows.dims[0], width = x.dims[1], classes = context->table->items[head.weight].rows;
    size_t mark = arena_mark(context->arena);

    Tensor hidden = context_push(context, n, width);
    gather_rows(device, hidden, x, rows);
    Finished f = finish(gpt, context, hidden);
    Tensor loss = arena_1d(context->arena, DTYPE_F32, n), correct = arena_1d(context->arena, DTYPE_F32, n);
    pass_dump(pass, f.final.y, "%s.final", head.name);
    Tensor logits = context_push(context, n, w.dims[0]);
    linear_forward(device, logits, f.final.y, w, bias, WEIGHT_OUT_IN);
    context_dump_columns(context, logits, classes, head.logits);
    if (pass->train) {
        cross_entropy_forward_backward(device, loss, correct, logits, classes, targets, tensor_none(),
                                       tensor_rows(pass->loss_scale, head.loss, 1), gpt->base.loss_scale);
    } else {
        cross_entropy_forward(device, loss, correct, logits, classes, targets, tensor_none());
    }
    sum_forward(device, tensor_rows(pass->sums, head.loss, 1), loss);
    sum_forward(device, tensor_rows(pass->sums, head.top1, 1), correct);
    if (pass->train) {
        Tensor dfinal = context_push(context, n, width), dmiddle = context_push(context, n, width), dhidden = dfinal;
        linear_backward(device, context_padded_gradients(context, head.weight, head.weight + 1, dfinal), logits,
                        f.final.y, w, WEIGHT_OUT_IN);
        context_norm_backward(context, gpt->final_norm, gpt->final_norm + 1, dmiddle, dfinal, f.middle.y, f.final);
        context_norm_backward(context, gpt->ln_f, gpt->ln_f + 1, dhidden, dmiddle, hidden, f.middle);
        scatter_rows(device, dx, dhidden, rows);
    }
    arena_release(context->arena, mark);
}

static void mel_logits(Model *model, const Context *context, Tensor logits, Tensor x) {
    const Gpt *gpt = (Gpt *)model;
    size_t mark = arena_mark(context->arena);
    Finished f = finish(gpt, context, x);
    linear_forward(context->device, logits, f.final.y, context_padded_weight(context, gpt->mel_head),
                   context_padded_weight(context, gpt->mel_head + 1), WEIGHT_OUT_IN);
    arena_release(context->arena, mark);
}

GenerationModel gpt_generation(Model *model, int conditioning) {
    Gpt *gpt = (Gpt *)model;
    return (GenerationModel){.model = model,
                             .blocks = &gpt->blocks,
                             .tables = {[GPT_SPEED] = {gpt->speed, -1},
                                        [GPT_TEXT] = {gpt->text_embedding, gpt->text_positions},
                                        [GPT_MEL] = {gpt->mel_embedding, gpt->mel_positions}},
                             .n_tables = 3,
                             .vector_rows = conditioning,
                             .context = gpt->config.max_mel_tokens + 2,
                             .vocabulary = gpt->config.mel_codes,
                             .columns = gpt->config.mel_codes + model->params.items[gpt->mel_head].padding,
                             .head = mel_logits};
}

static void gpt_forward_backward(Model *model, Device *device, Arena *activations, const Batch *batch,
                                 const Tensor *fields, const Pass *pass) {
    Gpt *gpt = (Gpt *)model;
    Sequences sequences = context_sequences(batch, fields);
    Context context = context_of(model, device, activations, pass);
    BlockRows rows = {.sequences = sequences};
    Head text = {"text",           "text.logits", gpt->text_head, GPT_TEXT_TARGET_ROWS,
                 GPT_TEXT_TARGETS, GPT_TEXT_LOSS, GPT_TEXT_TOP1};
    Head mel = {"mel", "mel.logits", gpt->mel_head, GPT_MEL_ROWS, GPT_MEL_TARGETS, GPT_MEL_LOSS, GPT_MEL_TOP1};
    size_t mark = arena_mark(activations);

    Tensor x = context_push(&context, batch->n_tokens, gpt->config.d_model), dx = tensor_none();
    embed(gpt, &context, fields, x);
    x = blocks_forward(&gpt->blocks, &context, &rows, x);
    if (pass->train) {
        dx = context_push(&context, x.dims[0], x.dims[1]);
        device->clear(device, dx.data, tensor_bytes(dx));
    }
    head_run(gpt, &context, fields, text, x, dx);
    head_run(gpt, &context, fields, mel, x, dx);
    if (pass->train) {
        blocks_backward(&gpt->blocks, &context, &rows, dx);
        embed_backward(gpt, &context, fields, dx);
    }
    arena_release(activations, mark);
}

static void gpt_close(Model *model) {
    Gpt *gpt = (Gpt *)model;
    block_stack_close(&gpt->blocks);
    params_free(&model->params);
    free(gpt);
}

Model *gpt_open(const GptConfig *config) {
    static const FieldPad pads[BATCH_MAX_FIELDS] = {[GPT_TEXT_IDS] = {PAD_REPEATED, PAD_LIST},
                                                    [GPT_TEXT_POSITIONS] = {PAD_REPEATED, PAD_LIST},
                                                    [GPT_TEXT_ROWS] = {PAD_NONE, PAD_LIST},
                                                    [GPT_TEXT_TARGETS] = {PAD_NONE, PAD_LIST},
                                                    [GPT_TEXT_TARGET_ROWS] = {PAD_NONE, PAD_LIST},
                                                    [GPT_MEL_IDS] = {PAD_REPEATED, PAD_LIST_AND_NEW},
                                                    [GPT_MEL_POSITIONS] = {PAD_REPEATED, PAD_LIST_AND_NEW},
                                                    [GPT_MEL_ROWS] = {PAD_NEW_ROW, PAD_LIST_AND_NEW},
                                                    [GPT_MEL_TARGETS] = {PAD_NONE, PAD_LIST_AND_NEW}};
    check_config(config);
    Gpt *gpt = xcalloc(1, sizeof *gpt);
    gpt->config = *config;
    gpt->base = (Model){.name = "tts_gpt",
                        .metrics = {[GPT_TEXT_LOSS] = {"text_loss", GPT_COUNT_TEXT, config->text_weight},
                                    [GPT_MEL_LOSS] = {"mel_loss", GPT_COUNT_MEL, config->mel_weight},
                                    [GPT_MEL_TOP1] = {"mel_top1", GPT_COUNT_MEL, 0},
                                    [GPT_TEXT_TOP1] = {"text_top1", GPT_COUNT_TEXT, 0}},
                        .n_metrics = GPT_METRICS,
                        .pads = pads,
                        .forward_backward = gpt_forward_backward,
                        .close = gpt_close};
    add_params(gpt);
    return &gpt->base;
}
