/* The transformer block: the forward, and below it the backward, which mirrors it line by line with names prefixed by
 * d.
 *
 * A block passes a Stream to the next: a residual and a branch still to be added to it. The next norm does the
 * addition, with the branch's dropout, in the same pass over memory. After that the branch is not read again, so one
 * buffer serves the branches of all blocks. What the backward needs of a block is pushed on the arena. */
#include "model/block.h"

#include <math.h>
#include <stdlib.h>

enum { SITE_ATTENTION, SITE_PROJECTION, SITE_HIDDEN, SITE_MLP, SITES };

/* The sum residual + dropout(branch), not added up yet; without a branch, the residual. */
typedef struct {
    Tensor residual, branch;
    Dropout drop;
} Stream;

/* The fate of a block's output: it stays a stream (training), is added up in a given tensor, or is discarded
 * (recomputation of what the backward needs). */
typedef enum { END_STREAM, END_COMPLETE, END_DISCARDED } BlockEnd;

/* ---- parameters ---- */

static void check_config(const char *model, const BlockConfig *c, int n_blocks, const BlockNames *names) {
    if (n_blocks < 1) die_usage("%s: %d layers; at least 1 is needed", model, n_blocks);
    if (c->d_model < 1 || c->n_heads < 1 || c->d_model % c->n_heads) {
        die_usage("%s: width %d must be a multiple of the number of heads, %d", model, c->d_model, c->n_heads);
    }
    if (c->d_ff < 1) die_usage("%s: an MLP %d wide; at least 1 is needed", model, c->d_ff);
    const float drops[] = {c->drop_attention, c->drop_projection, c->drop_hidden, c->drop_mlp};
    for (int i = 0; i < 4; i++) {
        if (!(drops[i] >= 0 && drops[i] < 1)) die_usage("%s: dropout %g is not in [0, 1)", model, (double)drops[i]);
    }
    if (names->parts[0] && (c->layout != WEIGHT_OUT_IN || c->d_model % 16)) {
        die("%s: separate q, k, v need [out, in] weights and a width that is a multiple of 16", model);
    }
}

/* Returns the initialisation scale of a matrix with `in` inputs. */
static float init_scale(const BlockConfig *c, int which, int64_t in) {
    if (c->torch_init) return which == QKV_WEIGHT ? sqrtf(1.5f / (float)c->d_model) : 1 / sqrtf((float)in);
    return which == PROJECTION_WEIGHT || which == MLP_OUT_WEIGHT ? c->init_output_scale : c->init_scale;
}

static int add_matrix(ParamTable *table, const BlockConfig *c, int which, int64_t in, int64_t out, const char *name,
                      int block, const char *part) {
    bool in_out = c->layout == WEIGHT_IN_OUT;
    int index = param_add(table, c->torch_init ? INIT_UNIFORM : INIT_NORMAL, init_scale(c, which, in), true,
                          in_out ? in : out, in_out ? out : in, name, block, part);
    table->items[index].matrices = which == QKV_WEIGHT && !part ? 3 : 1;
    table->items[index].matrices_in_columns = in_out;
    table->items[index].product = true;
    return index;
}

static int add_gain(ParamTable *table, const BlockConfig *c, int64_t n, const char *name, int block) {
    return param_add(table, INIT_ONE, 0, c->decay_vectors, n, 0, name, block);
}

/* scale 0: initialised with 0. */
static int add_bias(ParamTable *table, const BlockConfig *c, float scale, int64_t n, const char *name, int block,
                    const char *part) {
    if (!c->biases) return -1;
    return param_add(table, scale > 0 ? INIT_UNIFORM : INIT_ZERO, scale, c->decay_vectors, n, 0, name, block, part);
}

/* One matrix of width 3C, or three of width C, contiguous in the flat buffer and so the same matrix. */
static void add_qkv(ParamTable *table, const BlockConfig *c, const BlockNames *names, int block, int *index) {
    int n = names->parts[0] ? 3 : 1;
    int64_t width = 3 * c->d_model / n;
    index[QKV_WEIGHT] = index[QKV_BIAS] = table->count;
    for (int i = 0; i < n; i++)
        add_matrix(table, c, QKV_WEIGHT, c->d_model, width, names->tensor[QKV_WEIGHT], block, names->parts[i]);
    table->items[index[QKV_WEIGHT]].joined = n - 1;
    index[QKV_BIAS] = c->biases ? table->count : -1;
    for (int i = 0; i < n; i++) add_bias(table, c, 0, width, names->tensor[QKV_BIAS], block, names->parts[i]);
    if (c->biases) table->items[index[QKV_BIAS]].joined = n - 1;
}

static void block_add_params(ParamTable *table, const BlockConfig *c, const BlockNames *names, int block, int *index) {
    const char *const *name = names->tensor;
    const int64_t C = c->d_model, F = c->d_ff;
    float mlp_in = c->torch_init ? init_scale(c, MLP_IN_WEIGHT, C) : 0,
          mlp_out = c->torch_init ? init_scale(c, MLP_OUT_WEIGHT, F) : 0;
    index[NORM1_GAIN] = add_gain(table, c, C, name[NORM1_GAIN], block);
    index[NORM1_BIAS] = add_bias(table, c, 0, C, name[NORM1_BIAS], block, NULL);
    add_qkv(table, c, names, block, index);
    index[PROJECTION_WEIGHT] = add_matrix(table, c, PROJECTION_WEIGHT, C, C, name[PROJECTION_WEIGHT], block, NULL);
    index[PROJECTION_BIAS] = add_bias(table, c, 0, C, name[PROJECTION_BIAS], block, NULL);
    index[NORM2_GAIN] = add_gain(table, c, C, name[NORM2_GAIN], block);
    index[NORM2_BIAS] = add_bias(table, c, 0, C, name[NORM2_BIAS], block, NULL);
    index[MLP_IN_WEIGHT] = add_matrix(table, c, MLP_IN_WEIGHT, C, F, name[MLP_IN_WEIGHT], block, NULL);
    index[MLP_IN_BIAS] = add_bias(table, c, mlp_in, F, name[MLP_IN_BIAS], block, NULL);
    index[MLP_OUT_WEIGHT] = add_matrix(table, c, MLP_OUT_WEIGHT, F, C, name[MLP_OUT_WEIGHT], block, NULL);
    index[MLP_OUT_BIAS] = add_bias(table, c, mlp_out, C, name[MLP_OUT_BIAS], block, NULL);
}

BlockStack block_stack_open(const char *model, ParamTable *table, const BlockConfig *config, int n_blocks,
                            const BlockNames *names) {
    static const int as_f32[] = {NORM1_GAIN, NORM1_BIAS, NORM2_GAIN, NORM2_BIAS};
    check_config(model, config, n_blocks, names);
    BlockStack stack = {.config = *config, .n_blocks = n_blocks};
    stack.params = xmalloc((size_t)n_blocks * BLOCK_TENSORS * sizeof *stack.params);
    stack.kept = xcalloc((size_t)n_blocks, sizeof *stack.kept);
    int first = table->count;
    for (int l = 0; l < n_blocks; l++) {
        int begin = table->count;
        int *index = stack.params + (ptrdiff_t)l * BLOCK_TENSORS;
        block_add_params(table, config, names, l, index);
        for (int i = begin; i < table->count; i++) table->items[i].reader = READ_BY_BLOCK;
        for (size_t i = 0; i < sizeof as_f32 / sizeof *as_f32; i++)
            if (index[as_f32[i]] >= 0) table->items[index[as_f32[i]]].reader = READ_BY_BLOCK_AS_F32;
        for (int i = begin; config->same_init && i < table->count; i++) table->items[i].init_like = first + i - begin;
    }
    return stack;
}

void block_stack_freeze(BlockStack *stack, ParamTable *table, int n) {
    if (n < 0 || n > stack->n_blocks) die("blocks: %d of %d are to be frozen", n, stack->n_blocks);
    stack->frozen = n;
    for (int i = 0; i < n * BLOCK_TENSORS; i++) {
        int first = stack->params[i];
        if (first < 0) continue;
        for (Param *param = table->items + first, *last = param + param->joined; param <= last; param++)
            param->frozen_rows = param->rows, param->matrices = 0;
    }
}

void block_stack_close(BlockStack *stack) {
    free(stack->params);
    free(stack->kept);
    *stack = (BlockStack){0};
}

/* One block in one pass. */
typedef struct {
    const BlockStack *stack;
    const BlockConfig *config;
    const Context *context;
    const BlockRows *rows;
    int l;            /* number of the block */
    bool input_fixed; /* nobody needs the gradient of its input */
    BlockActivations *a;
} Block;

/* Returns whether nobody needs the gradient of the input of the lowest block that is trained. */
static bool ends_there(const BlockStack *stack, const BlockRows *rows) { return stack->frozen || rows->input_fixed; }

static Block block_at(const BlockStack *stack, const Context *context, const BlockRows *rows, int l) {
    return (Block){.stack = stack,
                   .config = &stack->config,
                   .context = context,
                   .rows = rows,
                   .l = l,
                   .input_fixed = l == stack->frozen && ends_there(stack, rows),
                   .a = &stack->kept[l]};
}

/* ---- forward ---- */

/* Returns the row of the parameter table; -1: the block does not have it. */
static int row(const Block *b, int which) { return b->stack->params[b->l * BLOCK_TENSORS + which]; }

/* Returns the row of the table behind those of the block. */
static int end_row(const Block *b) { return row(b, MLP_OUT_WEIGHT) + (row(b, MLP_OUT_BIAS) < 0 ? 1 : 2); }

static Tensor matmul_weight(const Block *b, int which) { return context_matmul_weight(b->context, row(b, which)); }

static Dropout drop_at(const Block *b, int site) {
    const BlockConfig *c = b->config;
    const float p[SITES] = {c->drop_attention, c->drop_projection, c->drop_hidden, c->drop_mlp};
    return pass_dropout(b->context->pass, p[site], c->first_site + (uint32_t)(SITES * b->l + site));
}

/* Returns the output rows of the block; none: all rows. */
static Tensor output_rows(const Block *b) { return b->l == b->stack->n_blocks - 1 ? b->rows->outputs : tensor_none(); }

/* Returns the number of output rows of the block for n input rows. */
static int64_t n_output_rows(const Block *b, int64_t n) {
    Tensor rows = output_rows(b);
    return tensor_given(rows) ? rows.dims[0] : n;
}

/* Returns the output rows of x [N, C], pushed on the arena; x itself if all rows are output rows. */
static Tensor select_rows(const Block *b, Tensor x) {
    Tensor rows = output_rows(b);
    if (!tensor_given(rows)) return x;
    Tensor selected = context_push(b->context, rows.dims[0], x.dims[1]);
    gather_rows(b->context->device, selected, x, rows);
    return selected;
}

/* The backward of select_rows: dall [N, C] is dx [n, C] in the output rows and 0 elsewhere. */
static void unselect_rows(const Block *b, Tensor dall, Tensor dx) {
    Device *device = b->context->device;
    device->clear(device, dall.data, tensor_bytes(dall));
    scatter_rows(device, dall, dx, b->rows->outputs);
}

static Attention attention_of(const BlockConfig *c) {
    return (Attention){
        .n_heads = c->n_heads, .causal = c->causal, .scale = 1 / sqrtf((float)c->d_model / (float)c->n_heads)};
}

static void linear(const Block *b, int which, Tensor y, Tensor x) {
    linear_forward(b->context->device, y, x, matmul_weight(b, which), matmul_weight(b, which + 1), b->config->layout);
}

/* Adds up and normalises a stream: *sum = residual + dropout(branch) (the residual itself if there is no branch),
 * y = norm(*sum). Pushes y if it is none, and returns it. */
static Tensor norm(const Block *b, int which, Stream in, Tensor y, Tensor *sum, Tensor *mean, Tensor *rstd) {
    int64_t n = in.residual.dims[0], width = in.residual.dims[1];
    Tensor gain = context_weight(b->context, row(b, which)), bias = context_weight(b->context, row(b, which + 1));
    if (!tensor_given(y)) y = context_push(b->context, n, width);
    *mean = arena_1d(b->context->arena, DTYPE_F32, n);
    *rstd = arena_1d(b->context->arena, DTYPE_F32, n);
    if (tensor_given(in.branch)) {
        *sum = context_push(b->context, n, width);
        residual_layernorm_forward(b->context->device, *sum, (LayerNormOutput){.y = y, .mean = *mean, .rstd = *rstd},
                                   in.residual, in.branch, gain, bias, in.drop);
    } else {
        *sum = in.residual;
        layernorm_forward(b->context->device, (LayerNormOutput){.y = y, .mean = *mean, .rstd = *rstd}, *sum, gain, bias,
                          LAYERNORM_EPSILON);
    }
    return y;
}

/* Computes a->attended from a->qkv, of which a cache keeps the keys and values. */
static void attend_heads(const Block *b) {
    const KvCache *cache = b->rows->cache;
    Device *device = b->context->device;
    Tensor kv = tensor_none();
    if (cache) {
        int64_t rows = cache->kv.dims[0] / b->stack->n_blocks;
        kv = tensor_rows(cache->kv, b->l * rows, rows);
        cache_rows(device, kv, b->a->qkv, cache->rows);
    }
    if (cache && tensor_given(cache->lengths)) {
        CachedKeys keys = {kv, cache->slots, cache->lengths, cache->capacity, cache->longest};
        attention_cached_forward(device, b->a->attended, b->a->qkv, keys, attention_of(b->config));
        return;
    }
    b->a->lse = arena_2d(b->context->arena, DTYPE_F32, b->config->n_heads, b->a->qkv.dims[0]);
    attention_forward(device, b->a->attended, b->a->lse, b->a->qkv, b->rows->sequences, attention_of(b->config),
                      drop_at(b, SITE_ATTENTION));
}

/* Computes branch = projection(attention(x)) for the output rows. Returns the stream of these rows, whose dropout is
 * still to be applied. */
static Stream attend(const Block *b, Tensor x, Tensor residual, Tensor branch) {
    const BlockConfig *c = b->config;
    int64_t n = x.dims[0];
    b->a->qkv = context_push(b->context, n, 3 * c->d_model);
    b->a->attended = context_push(b->context, n, c->d_model);
    linear(b, QKV_WEIGHT, b->a->qkv, x);
    attend_heads(b);
    b->a->selected = select_rows(b, b->a->attended);
    branch = tensor_rows(branch, 0, b->a->selected.dims[0]);
    linear(b, PROJECTION_WEIGHT, branch, b->a->selected);
    return (Stream){select_rows(b, residual), branch, drop_at(b, SITE_PROJECTION)};
}

/* Computes activated = drop(gelu(mlp_in(x))), the MLP without its last matrix. */
static void mlp_activate(const Block *b, Tensor x) {
    const BlockConfig *c = b->config;
    b->a->hidden = context_push(b->context, x.dims[0], c->d_ff);
    b->a->activated = context_push(b->context, x.dims[0], c->d_ff);
    linear_gelu_forward(b->context->device, b->a->activated, b->a->hidden, x, matmul_weight(b, MLP_IN_WEIGHT),
                        matmul_weight(b, MLP_IN_BIAS), c->layout, (GeluDropout){c->gelu, drop_at(b, SITE_HIDDEN)});
}

/* Computes branch = mlp_out(activated). Returns the stream, whose dropout is still to be applied. */
static Stream mlp_finish(const Block *b, Tensor residual, Tensor branch) {
    branch = tensor_rows(branch, 0, residual.dims[0]);
    linear(b, MLP_OUT_WEIGHT, branch, b->a->activated);
    return (Stream){residual, branch, drop_at(b, SITE_MLP)};
}

static Stream pre_norm_forward(const Block *b, Stream in, Tensor branch, BlockEnd end, Tensor out) {
    Tensor none = tensor_none();
    b->a->norm1 = norm(b, NORM1_GAIN, in, none, &b->a->x, &b->a->mean1, &b->a->rstd1);
    in = attend(b, b->a->norm1, b->a->x, branch);
    b->a->norm2 = norm(b, NORM2_GAIN, in, none, &b->a->middle, &b->a->mean2, &b->a->rstd2);
    mlp_activate(b, b->a->norm2);
    if (end == END_DISCARDED) return (Stream){.residual = none, .branch = none};
    in = mlp_finish(b, b->a->middle, branch);
    if (end == END_STREAM) return in;
    residual_forward(b->context->device, out, in.residual, in.branch, in.drop);
    return (Stream){.residual = out, .branch = none};
}

static Stream post_norm_forward(const Block *b, Stream in, Tensor branch, Tensor out) {
    Tensor none = tensor_none();
    b->a->x = in.residual;
    in = attend(b, b->a->x, b->a->x, branch);
    b->a->norm1 = norm(b, NORM1_GAIN, in, none, &b->a->middle, &b->a->mean1, &b->a->rstd1);
    mlp_activate(b, b->a->norm1);
    in = mlp_finish(b, b->a->norm1, branch);
    b->a->norm2 = norm(b, NORM2_GAIN, in, out, &b->a->end, &b->a->mean2, &b->a->rstd2);
    return (Stream){.residual = b->a->norm2, .branch = none};
}

/* Computes one block and returns its output. branch [N, C] is the buffer of all branches and may hold the branch of
 * `in`; out is used with END_COMPLETE and may be the input. */
static Stream block_forward(const Block *b, Stream in, Tensor branch, BlockEnd end, Tensor out) {
    context_needed(b->context, row(b, NORM1_GAIN), end_row(b));
    return b->config->pre_norm ? pre_norm_forward(b, in, branch, end, out) : post_norm_forward(b, in, branch, out);
}

static void dump_output(const BlockStack *stack, const Context *context, int l, Tensor x) {
    pass_dump(context->pass, x, "%sblock.%d.output", stack->config.dumped ? stack->config.dumped : "", l);
}

/* The arena keeps all activations of every block that is not frozen. */
static Tensor forward_keeping_all(BlockStack *stack, const Context *context, const BlockRows *rows, Tensor x,
                                  Tensor branch) {
    Stream stream = {.residual = x, .branch = tensor_none()};
    for (int l = stack->frozen; l < stack->n_blocks; l++) {
        Block b = block_at(stack, context, rows, l);
        stream = block_forward(&b, stream, branch, END_STREAM, tensor_none());
        if (l) dump_output(stack, context, l - 1, b.a->x);
    }
    if (!tensor_given(stream.branch)) return stream.residual;
    Tensor out = context_push(context, stream.residual.dims[0], x.dims[1]);
    residual_forward(context->device, out, stream.residual, stream.branch, stream.drop);
    return out;
}

/* Computes the first n blocks. The arena keeps the inputs of those that are trained, or nothing (no backward). */
static Tensor forward_keeping_inputs(BlockStack *stack, const Context *context, const BlockRows *rows, Tensor x,
                                     Tensor branch, int n_blocks) {
    for (int l = 0; l < n_blocks; l++) {
        Block b = block_at(stack, context, rows, l);
        if (l) dump_output(stack, context, l - 1, x);
        int64_t n = n_output_rows(&b, x.dims[0]);
        bool trained = context->pass->train && l >= stack->frozen;
        Tensor out = trained ? context_push(context, n, x.dims[1]) : tensor_rows(x, 0, n);
        size_t mark = arena_mark(context->arena);
        Stream in = {.residual = x, .branch = tensor_none()};
        block_forward(&b, in, branch, END_COMPLETE, out);
        arena_release(context->arena, mark);
        *b.a = (BlockActivations){.x = x};
        x = out;
    }
    return x;
}

Tensor blocks_forward(BlockStack *stack, const Context *context, const BlockRows *rows, Tensor x) {
    bool all = context->pass->train && !context->pass->recompute;
    if (rows->cache && (context->pass->train || !stack->config.causal))
        die("blocks: only causal blocks that are not trained can cache keys and values");
    size_t mark = arena_mark(context->arena);
    Tensor branch = context_push(context, x.dims[0], x.dims[1]);
    x = forward_keeping_inputs(stack, context, rows, x, branch, all ? stack->frozen : stack->n_blocks);
    if (all) x = forward_keeping_all(stack, context, rows, x, branch);
    if (!context->pass->train) arena_release(context->arena, mark);
    dump_output(stack, context, stack->n_blocks - 1, x);
    return x;
}

/* ---- backward ---- */

static void linear_back(const Block *b, int which, Tensor dx, Tensor dy, Tensor x) {
    linear_backward(b->context->device, context_layer_gradients(b->context, row(b, which), row(b, which + 1), dx), dy,
                    x, matmul_weight(b, which), b->config->layout);
}

/* dx = dresidual + (d norm / dx) dy; dresidual is optional and may be dx. */
static void norm_back(const Block *b, int which, Tensor dx, Tensor dresidual, Tensor dy, Tensor x, Tensor mean,
                      Tensor rstd) {
    NormGradients gradients = context_norm_gradients(b->context, row(b, which), row(b, which + 1), dx);
    layernorm_backward(b->context->device, gradients, dresidual, dy, x, mean, rstd,
                       context_weight(b->context, row(b, which)));
}

/* Returns the gradient of a branch from dsum, that of residual + drop(branch): dsum itself, or in the buffer. */
static Tensor branch_back(const Context *context, Tensor buffer, Tensor dsum, Dropout drop) {
    if (!(drop.p > 0)) return dsum;
    dropout(context->device, buffer, dsum, drop);
    return buffer;
}

/* Computes dx, the gradient of the MLP's input x, from dsum, that of the sum to which its branch was added. */
static void mlp_back(const Block *b, Tensor x, Tensor dx, Tensor dsum) {
    size_t mark = arena_mark(b->context->arena);
    Tensor dbranch = branch_back(b->context, dx, dsum, drop_at(b, SITE_MLP));
    Tensor dhidden = context_push(b->context, x.dims[0], b->config->d_ff);
    gelu_linear_backward(b->context->device,
                         context_layer_gradients(b->context, row(b, MLP_OUT_WEIGHT), row(b, MLP_OUT_BIAS), dhidden),
                         dbranch, b->a->activated, b->a->hidden, matmul_weight(b, MLP_OUT_WEIGHT), b->config->layout,
                         (GeluDropout){b->config->gelu, drop_at(b, SITE_HIDDEN)});
    context_finished(b->context, row(b, MLP_OUT_WEIGHT), end_row(b));
    linear_back(b, MLP_IN_WEIGHT, dx, dhidden, x);
    context_finished(b->context, row(b, MLP_IN_WEIGHT), row(b, MLP_OUT_WEIGHT));
    arena_release(b->context->arena, mark);
}

/* Computes the gradient of the middle of the block, between its halves, from dx, that of its output, which is
 * overwritten. dbranch is a buffer with the output rows. */
static Tensor mlp_half_backward(const Block *b, Tensor dx, Tensor dbranch) {
    Tensor none = tensor_none();
    if (b->config->pre_norm) {
        mlp_back(b, b->a->norm2, dbranch, dx);
        norm_back(b, NORM2_GAIN, dx, dx, dbranch, b->a->middle, b->a->mean2, b->a->rstd2);
        return dx;
    }
    Tensor dmiddle = context_push(b->context, dx.dims[0], dx.dims[1]);
    norm_back(b, NORM2_GAIN, dmiddle, none, dx, b->a->end, b->a->mean2, b->a->rstd2);
    mlp_back(b, b->a->norm1, dbranch, dmiddle);
    residual_forward(b->context->device, dx, dmiddle, dbranch, (Dropout){0});
    norm_back(b, NORM1_GAIN, dmiddle, none, dx, b->a->middle, b->a->mean1, b->a->rstd1);
    return dmiddle;
}

/* Computes dall, the gradient of the block's input unless that is fixed, from dmiddle, that of the middle, which has
 * the output rows and is overwritten. dbranch is a buffer with all rows. dall is dmiddle, or overlaps nothing. */
static void attention_half_backward(const Block *b, Tensor dmiddle, Tensor dbranch, Tensor dall) {
    const Context *context = b->context;
    BlockActivations *a = b->a;
    bool pre_norm = b->config->pre_norm, fewer = tensor_given(output_rows(b));
    Tensor x = pre_norm ? a->norm1 : a->x;
    size_t mark = arena_mark(context->arena);
    Tensor dprojected =
        branch_back(context, tensor_rows(dbranch, 0, dmiddle.dims[0]), dmiddle, drop_at(b, SITE_PROJECTION));
    Tensor dattended = context_push(context, dmiddle.dims[0], x.dims[1]), dselected = dattended;
    Tensor dqkv = context_push(context, x.dims[0], 3 * x.dims[1]);
    linear_back(b, PROJECTION_WEIGHT, dselected, dprojected, a->selected);
    context_finished(context, row(b, PROJECTION_WEIGHT), row(b, MLP_IN_WEIGHT));
    if (fewer) {
        dattended = context_push(context, x.dims[0], x.dims[1]);
        unselect_rows(b, dattended, dselected);
    }
    attention_backward(context->device, dqkv, dattended,
                       (AttentionActivations){.qkv = a->qkv, .out = a->attended, .lse = a->lse}, b->rows->sequences,
                       attention_of(b->config), drop_at(b, SITE_ATTENTION));
    linear_back(b, QKV_WEIGHT, b->input_fixed && !pre_norm ? tensor_none() : dbranch, dqkv, x);
    arena_release(context->arena, mark);
    if (b->input_fixed && !pre_norm) return;
    if (fewer) unselect_rows(b, dall, dmiddle);
    if (pre_norm)
        norm_back(b, NORM1_GAIN, dall, dall, dbranch, a->x, a->mean1, a->rstd1);
    else
        residual_forward(context->device, dall, fewer ? dall : dmiddle, dbranch, (Dropout){0});
}

/* Recomputes the activations of a block from its input, by the same operations as the forward: the same bits. */
static void block_recompute(const Block *b) {
    Stream in = {.residual = b->a->x, .branch = tensor_none()};
    Tensor branch = context_push(b->context, b->a->x.dims[0], b->a->x.dims[1]);
    block_forward(b, in, branch, END_DISCARDED, tensor_none());
}

Tensor blocks_backward(BlockStack *stack, const Context *context, const BlockRows *rows, Tensor dx) {
    Tensor dall = dx;
    if (stack->frozen == stack->n_blocks) return tensor_none();
    if (tensor_given(rows->outputs)) dall = context_push(context, stack->kept[stack->frozen].x.dims[0], dx.dims[1]);
    for (int l = stack->n_blocks - 1; l >= stack->frozen; l--) {
        size_t mark = arena_mark(context->arena);
        Block b = block_at(stack, context, rows, l);
        if (context->pass->recompute) block_recompute(&b);
        Tensor dbranch = context_push(context, dall.dims[0], dall.dims[1]);
        Tensor dmiddle = mlp_half_backward(&b, dx, tensor_rows(dbranch, 0, dx.dims[0]));
        attention_half_backward(&b, dmiddle, dbranch, dall);
        context_finished(context, row(&b, NORM1_GAIN), row(&b, PROJECTION_WEIGHT));
        arena_release(context->arena, mark);
        dx = dall;
    }
    return ends_there(stack, rows) ? tensor_none() : dall;
}
