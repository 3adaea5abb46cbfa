/* The encoder of texts.
 *
 *   x        = drop(norm(token table[id] + position table[position] + type table[0]))
 *   y        = blocks(x), post-norm and bidirectional, of the rows that the head reads
 *   logits   = W2 drop(tanh(W1 drop(y) + b1)) + b2        classes, of the first row of each text
 *   logits   = (token table) norm(gelu(W y + b)) + b2     ids, of each masked row
 *
 * Rows are packed. */
#include "model/bert.h"

#include <stdlib.h>

#include "data/bert/batch.h"
#include "model/block.h"
#include "model/token_head.h"

enum { SITE_EMBEDDING, SITE_HEAD_IN, SITE_HEAD_HIDDEN, SITE_BLOCKS };

static const float init_scale = 0.02f;

typedef struct {
    Model base; /* first, so that a Model * of this file is a Bert * */
    BertConfig config;
    BlockStack blocks;
    int tokens, positions, types, norm; /* rows of the parameter table; a bias follows its weight */
    int dense, out;                     /* of both heads the first layer; the classifier's last layer */
    int head_norm, head_bias;           /* of the head over masked words */
} Bert;

static const BlockNames names = {
    .tensor = {"roberta.encoder.layer.%d.attention.output.LayerNorm.weight",
               "roberta.encoder.layer.%d.attention.output.LayerNorm.bias",
               "roberta.encoder.layer.%d.attention.self.%s.weight", "roberta.encoder.layer.%d.attention.self.%s.bias",
               "roberta.encoder.layer.%d.attention.output.dense.weight",
               "roberta.encoder.layer.%d.attention.output.dense.bias",
               "roberta.encoder.layer.%d.output.LayerNorm.weight", "roberta.encoder.layer.%d.output.LayerNorm.bias",
               "roberta.encoder.layer.%d.intermediate.dense.weight", "roberta.encoder.layer.%d.intermediate.dense.bias",
               "roberta.encoder.layer.%d.output.dense.weight", "roberta.encoder.layer.%d.output.dense.bias"},
    .parts = {"query", "key", "value"}};

/* ---- parameters ---- */

static BlockConfig block_config(const BertConfig *c) {
    return (BlockConfig){.d_model = c->d_model,
                         .n_heads = c->n_heads,
                         .d_ff = c->d_ff,
                         .biases = true,
                         .gelu = GELU_ERF,
                         .layout = WEIGHT_OUT_IN,
                         .drop_attention = c->dropout,
                         .drop_projection = c->dropout,
                         .drop_mlp = c->dropout,
                         .first_site = SITE_BLOCKS,
                         .init_scale = init_scale,
                         .init_output_scale = init_scale};
}

static int add_matrix(ParamTable *table, int64_t rows, int64_t columns, const char *name) {
    return param_add(table, INIT_NORMAL, init_scale, true, rows, columns, "%s.weight", name);
}

static int add_linear(ParamTable *table, int64_t in, int64_t out, const char *name) {
    int index = add_matrix(table, out, in, name);
    table->items[index].product = true;
    param_add(table, INIT_ZERO, 0, false, out, 0, "%s.bias", name);
    return index;
}

static int add_norm(ParamTable *table, int64_t width, const char *name) {
    int index = param_add_norm(table, width, name);
    table->items[index].decay = table->items[index + 1].decay = false;
    return index;
}

/* Puts the rows from `begin` on into a group. */
static void set_group(ParamTable *table, int begin, int group) {
    for (int i = begin; i < table->count; i++) table->items[i].group = group;
}

static void add_embeddings(Bert *bert) {
    const BertConfig *c = &bert->config;
    ParamTable *table = &bert->base.params;
    bert->tokens = add_matrix(table, c->vocabulary, c->d_model, "roberta.embeddings.word_embeddings");
    if (!c->classes) param_pad_rows(table);           /* it is the head, too, */
    table->items[bert->tokens].product = !c->classes; /* whose gradient is the first */
    bert->positions = add_matrix(table, c->positions, c->d_model, "roberta.embeddings.position_embeddings");
    bert->types = add_matrix(table, 1, c->d_model, "roberta.embeddings.token_type_embeddings");
    bert->norm = add_norm(table, c->d_model, "roberta.embeddings.LayerNorm");
    for (int i = 0; i < table->count && (c->frozen_embeddings || c->frozen_layers); i++)
        table->items[i].frozen_rows = table->items[i].rows;
}

static void add_blocks(Bert *bert) {
    const BertConfig *c = &bert->config;
    ParamTable *table = &bert->base.params;
    BlockConfig blocks = block_config(c);
    int first = table->count;
    bert->blocks = block_stack_open("bert", table, &blocks, c->n_layers, &names);
    block_stack_freeze(&bert->blocks, table, c->frozen_layers);
    int each = (table->count - first) / c->n_layers;
    for (int l = 0; l < c->n_layers; l++) set_group(table, first + l * each, 1 + l);
}

static void add_head(Bert *bert) {
    const BertConfig *c = &bert->config;
    ParamTable *table = &bert->base.params;
    int first = table->count;
    if (c->classes) {
        bert->dense = add_linear(table, c->d_model, c->d_model, "classifier.dense");
        bert->out = add_linear(table, c->d_model, c->classes, "classifier.out_proj");
    } else {
        bert->dense = add_linear(table, c->d_model, c->d_model, "lm_head.dense");
        bert->head_norm = add_norm(table, c->d_model, "lm_head.layer_norm");
        bert->head_bias = param_add(table, INIT_ZERO, 0, false, c->vocabulary, 0, "lm_head.bias");
        param_pad_rows(table);
    }
    set_group(table, first, c->n_layers + 1);
}

/* ---- embeddings ---- */

/* The tensors that the backward reads: the sum of the three tables' rows, and the statistics of its norm. */
typedef struct {
    Tensor sum;
    LayerNormOutput norm;
} Embedded;

/* Pushes n ids of type 0, which all tokens have. */
static Tensor push_types(const Context *context, int64_t n) {
    Tensor types = arena_1d(context->arena, DTYPE_I32, n);
    context->device->clear(context->device, types.data, tensor_bytes(types));
    return types;
}

/* Pushes the position table plus the row of type 0, f32 [P, C]. */
static Tensor push_places(const Bert *bert, const Context *context) {
    Tensor positions = context_weight(context, bert->positions), none = tensor_none(),
           places = arena_2d(context->arena, DTYPE_F32, positions.dims[0], positions.dims[1]);
    size_t mark = arena_mark(context->arena);
    embedding_forward(context->device, places, none, push_types(context, places.dims[0]),
                      context_weight(context, bert->types), none, none);
    arena_release(context->arena, mark);
    residual_forward(context->device, places, places, positions, (Dropout){0});
    return places;
}

/* Returns the input of the blocks [N, C], pushed together with what the backward reads. */
static Tensor embed(const Bert *bert, const Context *context, const Tensor *fields, Embedded *kept) {
    int64_t n = fields[BERT_IDS].dims[0], width = bert->config.d_model;
    Tensor x = context_push(context, n, width);
    size_t mark = arena_mark(context->arena);
    *kept = (Embedded){context_push(context, n, width),
                       {x, arena_1d(context->arena, DTYPE_F32, n), arena_1d(context->arena, DTYPE_F32, n)}};
    size_t after = arena_mark(context->arena);
    embedding_forward(context->device, kept->sum, tensor_none(), fields[BERT_IDS],
                      context_weight(context, bert->tokens), fields[BERT_POSITIONS], push_places(bert, context));
    layernorm_forward(context->device, kept->norm, kept->sum, context_weight(context, bert->norm),
                      context_weight(context, bert->norm + 1), LAYERNORM_EPSILON);
    context_drop(context, x, bert->config.dropout, SITE_EMBEDDING);
    pass_dump(context->pass, x, "embedded");
    bool trained = context->pass->train && !bert->blocks.frozen && !bert->config.frozen_embeddings;
    arena_release(context->arena, trained ? after : mark);
    return x;
}

/* Adds the gradients of the token table and of the places. With padding the former leaves out <pad>, as torch's
 * padding_idx does; the gradient that its row has from the head over masked words stays. */
static void token_gradients(const Bert *bert, const Context *context, const Tensor *fields, Tensor dsum,
                            Tensor dplaces) {
    Device *device = context->device;
    Tensor table = context_gradient(context, bert->tokens), before = tensor_none(),
           of_pad = tensor_1d(tensor_rows(table, BERT_PAD, 1).data, DTYPE_F32, table.dims[1]);
    if (bert->config.padding) {
        before = arena_1d(context->arena, DTYPE_F32, table.dims[1]);
        cast(device, before, of_pad);
    }
    embedding_backward(device, table, dplaces, dsum, tensor_none(), fields[BERT_IDS], fields[BERT_POSITIONS]);
    if (bert->config.padding) cast(device, of_pad, before);
}

/* Adds the gradients of the tables; dx, the gradient of the blocks' input, is overwritten. */
static void embed_backward(const Bert *bert, const Context *context, const Tensor *fields, const Embedded *kept,
                           Tensor dx) {
    Device *device = context->device;
    Tensor dpositions = context_gradient(context, bert->positions), none = tensor_none(),
           dsum = context_push(context, dx.dims[0], dx.dims[1]),
           dplaces = arena_2d(context->arena, DTYPE_F32, dpositions.dims[0], dpositions.dims[1]);
    context_drop(context, dx, bert->config.dropout, SITE_EMBEDDING);
    context_norm_backward(context, bert->norm, bert->norm + 1, dsum, dx, kept->sum, kept->norm);
    device->clear(device, dplaces.data, tensor_bytes(dplaces));
    token_gradients(bert, context, fields, dsum, dplaces);
    embedding_backward(device, context_gradient(context, bert->types), none, dplaces, none,
                       push_types(context, dplaces.dims[0]), none);
    Tensor place_of_pad = tensor_rows(dplaces, BERT_PAD, 1);
    if (bert->config.padding) device->clear(device, place_of_pad.data, tensor_bytes(place_of_pad));
    residual_forward(device, dpositions, dpositions, dplaces, (Dropout){0});
}

/* ---- heads ---- */

/* Returns x after dropout: itself, or pushed. */
static Tensor dropped(const Bert *bert, const Context *context, Tensor x, uint32_t site) {
    Dropout drop = pass_dropout(context->pass, bert->config.head_dropout, site);
    if (!(drop.p > 0)) return x;
    Tensor y = context_push(context, x.dims[0], x.dims[1]);
    dropout(context->device, y, x, drop);
    return y;
}

static void sum_metrics(const Context *context, Tensor loss, Tensor correct) {
    sum_forward(context->device, tensor_rows(context->pass->sums, BERT_LOSS, 1), loss);
    sum_forward(context->device, tensor_rows(context->pass->sums, BERT_ACCURACY, 1), correct);
}

/* Sums the metrics of the classes, and gives the logits to those who ask. In training the logits become their gradient.
 */
static void score_classes(const Bert *bert, const Context *context, const Tensor *fields, Tensor logits) {
    const Pass *pass = context->pass;
    Device *device = context->device;
    Tensor labels = fields[BERT_LABELS], targets = fields[BERT_TARGETS], outputs = pass->outputs,
           loss = arena_1d(context->arena, DTYPE_F32, logits.dims[0]),
           correct = arena_1d(context->arena, DTYPE_F32, logits.dims[0]);
    pass_dump(pass, logits, "logits");
    if (tensor_given(outputs))
        cast(device, tensor_1d(outputs.data, DTYPE_F32, tensor_numel(outputs)),
             tensor_1d(logits.data, logits.dtype, tensor_numel(logits)));
    if (pass->train)
        soft_cross_entropy_forward_backward(device, loss, correct, logits, targets, labels,
                                            tensor_rows(pass->loss_scale, BERT_LOSS, 1), bert->base.loss_scale);
    else if (tensor_given(labels))
        soft_cross_entropy_forward(device, loss, correct, logits, targets, labels);
    if (tensor_given(labels))
        sum_metrics(context, loss, correct);
    else
        device->clear(device, pass->sums.data, tensor_bytes(pass->sums));
}

/* Runs the classifier on y [S, C]. In training it also computes dy, which is optional. */
static void classify(const Bert *bert, const Context *context, const Tensor *fields, Tensor y, Tensor dy) {
    Tensor input = dropped(bert, context, y, SITE_HEAD_IN), hidden = context_linear(context, bert->dense, input);
    tanh_forward(context->device, hidden, hidden);
    Tensor activated = dropped(bert, context, hidden, SITE_HEAD_HIDDEN),
           logits = context_linear(context, bert->out, activated);
    score_classes(bert, context, fields, logits);
    if (!context->pass->train) return;
    Tensor dhidden = context_push(context, hidden.dims[0], hidden.dims[1]);
    context_linear_backward(context, bert->out, dhidden, logits, activated);
    context_drop(context, dhidden, bert->config.head_dropout, SITE_HEAD_HIDDEN);
    tanh_backward(context->device, dhidden, dhidden, hidden);
    context_linear_backward(context, bert->dense, dy, dhidden, input);
    if (tensor_given(dy)) context_drop(context, dy, bert->config.head_dropout, SITE_HEAD_IN);
}

/* Runs the head over masked words on y [R, C]. In training it also computes dy. */
static void predict_words(const Bert *bert, const Context *context, const Tensor *fields, Tensor y, Tensor dy) {
    Device *device = context->device;
    int64_t n = y.dims[0], width = y.dims[1];
    Tensor hidden = context_push(context, n, width), activated = context_push(context, n, width),
           loss = arena_1d(context->arena, DTYPE_F32, n), correct = arena_1d(context->arena, DTYPE_F32, n),
           dnormed = tensor_none();
    if (context->pass->train) dnormed = context_push(context, n, width);
    linear_gelu_forward(device, activated, hidden, y, context_matmul_weight(context, bert->dense),
                        context_matmul_weight(context, bert->dense + 1), WEIGHT_OUT_IN,
                        (GeluDropout){.kind = GELU_ERF});
    LayerNormOutput norm = context_norm(context, bert->head_norm, bert->head_norm + 1, activated);
    TokenHead head = {.table = bert->tokens,
                      .bias = bert->head_bias,
                      .metric = BERT_LOSS,
                      .targets = fields[BERT_LABELS],
                      .loss = loss,
                      .correct = correct,
                      .loss_scale = bert->base.loss_scale};
    token_head_run(&head, context, norm.y, dnormed);
    sum_metrics(context, loss, correct);
    if (!context->pass->train) return;
    Tensor dactivated = norm.y; /* no longer read */
    context_norm_backward(context, bert->head_norm, bert->head_norm + 1, dactivated, dnormed, activated, norm);
    gelu_backward(device, dactivated, dactivated, hidden, GELU_ERF);
    context_linear_backward(context, bert->dense, dy, dactivated, y);
}

/* ---- one micro-batch ---- */

static void bert_forward_backward(Model *model, Device *device, Arena *activations, const Batch *batch,
                                  const Tensor *fields, const Pass *pass) {
    Bert *bert = (Bert *)model;
    const BertConfig *c = &bert->config;
    Sequences sequences = context_sequences(batch, fields);
    Context context = context_of(model, device, activations, pass);
    BlockRows rows = {.sequences = sequences, .outputs = fields[BERT_ROWS], .input_fixed = c->frozen_embeddings};
    Embedded kept;
    size_t mark = arena_mark(activations);
    Tensor x = embed(bert, &context, fields, &kept), y = blocks_forward(&bert->blocks, &context, &rows, x),
           dy = tensor_none();
    bool below = pass->train && c->frozen_layers < c->n_layers;
    if (below) dy = context_push(&context, y.dims[0], y.dims[1]);
    size_t of_head = arena_mark(activations);
    (c->classes ? classify : predict_words)(bert, &context, fields, y, dy);
    arena_release(activations, of_head);
    if (below) {
        Tensor dx = blocks_backward(&bert->blocks, &context, &rows, dy);
        if (tensor_given(dx)) embed_backward(bert, &context, fields, &kept, dx);
    }
    arena_release(activations, mark);
}

static void bert_close(Model *model) {
    Bert *bert = (Bert *)model;
    block_stack_close(&bert->blocks);
    params_free(&model->params);
    free(bert);
}

static void check_config(const BertConfig *c) {
    if (c->vocabulary < 2) die_usage("bert: a vocabulary of %d tokens; at least 2", c->vocabulary);
    if (c->positions <= BERT_FIRST_POSITION)
        die_usage("bert: %d positions; at least %d, because the first token has position %d", c->positions,
                  BERT_FIRST_POSITION + 1, BERT_FIRST_POSITION);
    if (c->d_model % 16) die_usage("bert: width %d must be a multiple of 16", c->d_model);
    if (c->classes < 0 || c->classes == 1) die_usage("bert: %d classes; at least 2", c->classes);
    if (!(c->head_dropout >= 0 && c->head_dropout < 1))
        die_usage("bert: head dropout %g is not in [0, 1)", (double)c->head_dropout);
    if (c->frozen_layers < 0 || c->frozen_layers > c->n_layers)
        die_usage("bert: %d frozen layers of %d", c->frozen_layers, c->n_layers);
    if (!c->classes && (c->frozen_layers || c->frozen_embeddings))
        die_usage("bert: embeddings cannot be frozen where masked words are predicted, because the token table is the "
                  "last layer, too");
}

Model *bert_open(const BertConfig *config) {
    static const FieldPad of_classes[BATCH_MAX_FIELDS] =
        {[BERT_IDS] = {PAD_REPEATED, PAD_ALL_ROWS}, [BERT_POSITIONS] = {PAD_REPEATED, PAD_ALL_ROWS}},
                          of_words[BATCH_MAX_FIELDS] = {[BERT_IDS] = {PAD_REPEATED, PAD_ALL_ROWS},
                                                        [BERT_POSITIONS] = {PAD_REPEATED, PAD_ALL_ROWS},
                                                        [BERT_ROWS] = {PAD_NONE, PAD_LIST},
                                                        [BERT_LABELS] = {PAD_NONE, PAD_LIST}};
    check_config(config);
    Bert *bert = xcalloc(1, sizeof *bert);
    bert->config = *config;
    bert->base = (Model){
        .name = "bert",
        .metrics = {[BERT_LOSS] = {"loss", BERT_COUNT_WEIGHTS, 1}, [BERT_ACCURACY] = {"accuracy", BERT_COUNT_ROWS, 0}},
        .n_metrics = BERT_METRICS,
        .n_outputs = config->classes,
        .pads = config->classes ? of_classes : of_words,
        .forward_backward = bert_forward_backward,
        .close = bert_close};
    add_embeddings(bert);
    add_blocks(bert);
    add_head(bert);
    return &bert->base;
}
