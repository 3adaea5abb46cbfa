/* The transformer block: forward, and below it the backward, which mirrors it line by line with names prefixed d.
 *
 * The one idea: between two blocks travels a Stream, a residual and a branch still to be added to it. The addition
 * (with the branch's dropout) is left to the next norm, which does both in one pass over memory. The branch's buffer is
 * dead after that, so one buffer serves all blocks; what the backward needs of a block is pushed on the arena. */
#include "model/block.h"

#include "kernels/philox.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SITE_ATTENTION, SITE_PROJECTION, SITE_HIDDEN, SITE_MLP, SITES };

/* residual + dropout(branch); without a branch, residual alone. */
typedef struct {
    Tensor residual, branch;
    Dropout drop;
} Stream;

/* Where a block's output goes: stays a stream (training), is completed in a given tensor, or is not wanted (when only
 * what the backward needs is computed again). */
typedef enum { END_STREAM, END_COMPLETE, END_UNWANTED } BlockEnd;

Dropout pass_dropout(const Pass *pass, float p, uint32_t site) {
    return (Dropout){
        .p = pass->train ? p : 0, .seed = pass->seed, .purpose = PURPOSE_DROPOUT | site << 8, .step = pass->step};
}

void pass_dump(const Pass *pass, Tensor tensor, const char *name_format, ...) {
    if (!pass->dump) return;
    char name[96];
    va_list arguments;
    va_start(arguments, name_format);
    vsnprintf(name, sizeof name, name_format, arguments);
    va_end(arguments);
    pass->dump(pass->dump_context, name, tensor);
}

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

/* Of a matrix with so many inputs. */
static float init_scale(const BlockConfig *c, int which, int64_t in) {
    if (c->torch_init) return which == QKV_WEIGHT ? sqrtf(1.5f / (float)c->d_model) : 1 / sqrtf((float)in);
    return which == PROJECTION_WEIGHT || which == MLP_OUT_WEIGHT ? c->init_output_scale : c->init_scale;
}

static int add_matrix(ParamTable *table, const BlockConfig *c, int which, int64_t in, int64_t out, const char *name,
                      int block, const char *part) {
    bool in_out = c->layout == WEIGHT_IN_OUT;
    return param_add(table, c->torch_init ? INIT_UNIFORM : INIT_NORMAL, init_scale(c, which, in), true,
                     in_out ? in : out, in_out ? out : in, name, block, part);
}

static int add_gain(ParamTable *table, const BlockConfig *c, int64_t n, const char *name, int block) {
    return param_add(table, INIT_ONE, 0, c->decay_vectors, n, 0, name, block);
}

/* scale 0: begins with 0. */
static int add_bias(ParamTable *table, const BlockConfig *c, float scale, int64_t n, const char *name, int block,
                    const char *part) {
    if (!c->biases) return -1;
    return param_add(table, scale > 0 ? INIT_UNIFORM : INIT_ZERO, scale, c->decay_vectors, n, 0, name, block, part);
}

/* One matrix 3C wide, or three of C that lie side by side in the flat buffer and so make the same matrix. */
static void add_qkv(ParamTable *table, const BlockConfig *c, const BlockNames *names, int block, int *index) {
    int n = names->parts[0] ? 3 : 1;
    int64_t width = 3 * c->d_model / n;
    index[QKV_WEIGHT] = index[QKV_BIAS] = table->count;
    for (int i = 0; i < n; i++) {
        add_matrix(table, c, QKV_WEIGHT, c->d_model, width, names->tensor[QKV_WEIGHT], block, names->parts[i]);
    }
    index[QKV_BIAS] = c->biases ? table->count : -1;
    for (int i = 0; i < n; i++) add_bias(table, c, 0, width, names->tensor[QKV_BIAS], block, names->parts[i]);
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
    check_config(model, config, n_blocks, names);
    BlockStack stack = {.config = *config, .n_blocks = n_blocks, .qkv_parts = names->parts[0] != NULL};
    stack.params = xmalloc((size_t)n_blocks * BLOCK_TENSORS * sizeof *stack.params);
    stack.kept = xcalloc((size_t)n_blocks, sizeof *stack.kept);
    int first = table->count;
    for (int l = 0; l < n_blocks; l++) {
        int begin = table->count;
        block_add_params(table, config, names, l, stack.params + (ptrdiff_t)l * BLOCK_TENSORS);
        for (int i = begin; config->same_init && i < table->count; i++) table->items[i].init_like = first + i - begin;
    }
    return stack;
}

void block_stack_close(BlockStack *stack) {
    free(stack->params);
    free(stack->kept);
    *stack = (BlockStack){0};
}

/* Parameter `which` of block l in a flat buffer; none if it is absent. */
static Tensor view(const BlockStack *stack, const BlockRun *run, Tensor flat, int l, int which) {
    int index = stack->params[l * BLOCK_TENSORS + which];
    if (index < 0) return tensor_none();
    Tensor t = param_view(run->table, flat, index);
    if (stack->qkv_parts && (which == QKV_WEIGHT || which == QKV_BIAS)) t.dims[0] *= 3;
    return t;
}

static Tensor weight(const BlockStack *stack, const BlockRun *run, int l, int which) {
    return view(stack, run, run->weights, l, which);
}

static Tensor matmul_weight(const BlockStack *stack, const BlockRun *run, int l, int which) {
    return view(stack, run, run->matmul_weights, l, which);
}

static Tensor gradient(const BlockStack *stack, const BlockRun *run, int l, int which) {
    return view(stack, run, run->gradients, l, which);
}

/* ---- forward ---- */

BlockRun block_run(Model *model, Device *device, Arena *arena, Sequences sequences, const Pass *pass) {
    Tensor half = model->half_weights;
    return (BlockRun){.device = device,
                      .arena = arena,
                      .table = &model->params,
                      .weights = model->weights,
                      .gradients = model->gradients,
                      .matmul_weights = tensor_given(half) ? half : model->weights,
                      .sequences = sequences,
                      .pass = pass};
}

Tensor run_weight(const BlockRun *run, int index) { return param_view(run->table, run->weights, index); }
Tensor run_matmul_weight(const BlockRun *run, int index) { return param_view(run->table, run->matmul_weights, index); }
Tensor run_gradient(const BlockRun *run, int index) { return param_view(run->table, run->gradients, index); }

Tensor push_activations(const BlockRun *run, int64_t rows, int64_t columns) {
    return arena_2d(run->arena, run->matmul_weights.dtype, rows, columns);
}

static Dropout drop_at(const BlockStack *stack, const BlockRun *run, int l, int site) {
    const BlockConfig *c = &stack->config;
    const float p[SITES] = {c->drop_attention, c->drop_projection, c->drop_hidden, c->drop_mlp};
    return pass_dropout(run->pass, p[site], c->first_site + (uint32_t)(SITES * l + site));
}

/* The rows that block l is asked for; none: all. */
static Tensor rows_of(const BlockStack *stack, const BlockRun *run, int l) {
    return l == stack->n_blocks - 1 ? run->rows : tensor_none();
}

/* How many rows come out of block l, from n. */
static int64_t rows_out(const BlockStack *stack, const BlockRun *run, int l, int64_t n) {
    Tensor rows = rows_of(stack, run, l);
    return tensor_given(rows) ? rows.dims[0] : n;
}

/* Those rows of x [N, C], pushed; x itself if they are all. */
static Tensor pick(const BlockStack *stack, const BlockRun *run, int l, Tensor x) {
    Tensor rows = rows_of(stack, run, l);
    if (!tensor_given(rows)) return x;
    Tensor picked = push_activations(run, rows.dims[0], x.dims[1]);
    gather_rows(run->device, picked, x, rows);
    return picked;
}

/* The backward of pick: dall [N, C] = dx [n, C] in its place, 0 elsewhere. */
static void put_back(const BlockRun *run, Tensor dall, Tensor dx) {
    run->device->clear(run->device, dall.data, tensor_bytes(dall));
    scatter_rows(run->device, dall, dx, run->rows);
}

static Attention attention_of(const BlockConfig *c) {
    return (Attention){
        .n_heads = c->n_heads, .causal = c->causal, .scale = 1 / sqrtf((float)c->d_model / (float)c->n_heads)};
}

static void linear(const BlockStack *stack, const BlockRun *run, int l, int which, Tensor y, Tensor x) {
    linear_forward(run->device, y, x, matmul_weight(stack, run, l, which), matmul_weight(stack, run, l, which + 1),
                   stack->config.layout);
}

/* Completes a stream and normalises it: *sum = residual + dropout(branch) (no copy if there is no branch),
 * y = norm(*sum). `y` none: it is pushed. */
static Tensor norm(const BlockStack *stack, const BlockRun *run, int l, int which, Stream in, Tensor y, Tensor *sum,
                   Tensor *mean, Tensor *rstd) {
    int64_t n = in.residual.dims[0], width = in.residual.dims[1];
    Tensor gain = weight(stack, run, l, which), bias = weight(stack, run, l, which + 1);
    if (!tensor_given(y)) y = push_activations(run, n, width);
    *mean = arena_1d(run->arena, DTYPE_F32, n);
    *rstd = arena_1d(run->arena, DTYPE_F32, n);
    if (tensor_given(in.branch)) {
        *sum = push_activations(run, n, width);
        residual_layernorm_forward(run->device, *sum, y, *mean, *rstd, in.residual, in.branch, gain, bias, in.drop);
    } else {
        *sum = in.residual;
        layernorm_forward(run->device, y, *mean, *rstd, *sum, gain, bias);
    }
    return y;
}

/* branch = projection(attention(x)), its dropout pending; of both and of the residual the rows that are wanted. */
static Stream attend(const BlockStack *stack, const BlockRun *run, int l, BlockActivations *a, Tensor x,
                     Tensor residual, Tensor branch) {
    const BlockConfig *c = &stack->config;
    int64_t n = x.dims[0];
    a->qkv = push_activations(run, n, 3 * c->d_model);
    a->attended = push_activations(run, n, c->d_model);
    a->lse = arena_2d(run->arena, DTYPE_F32, c->n_heads, n);
    linear(stack, run, l, QKV_WEIGHT, a->qkv, x);
    attention_forward(run->device, a->attended, a->lse, a->qkv, run->sequences, attention_of(c),
                      drop_at(stack, run, l, SITE_ATTENTION));
    a->wanted = pick(stack, run, l, a->attended);
    branch = tensor_rows(branch, 0, a->wanted.dims[0]);
    linear(stack, run, l, PROJECTION_WEIGHT, branch, a->wanted);
    return (Stream){pick(stack, run, l, residual), branch, drop_at(stack, run, l, SITE_PROJECTION)};
}

/* activated = drop(gelu(mlp_in(x))): the MLP but for its last matrix. */
static void mlp_activate(const BlockStack *stack, const BlockRun *run, int l, BlockActivations *a, Tensor x) {
    const BlockConfig *c = &stack->config;
    a->hidden = push_activations(run, x.dims[0], c->d_ff);
    a->activated = push_activations(run, x.dims[0], c->d_ff);
    linear_gelu_forward(run->device, a->activated, a->hidden, x, matmul_weight(stack, run, l, MLP_IN_WEIGHT),
                        matmul_weight(stack, run, l, MLP_IN_BIAS), c->layout, c->gelu,
                        drop_at(stack, run, l, SITE_HIDDEN));
}

/* branch = mlp_out(activated), its dropout pending. */
static Stream mlp_finish(const BlockStack *stack, const BlockRun *run, int l, const BlockActivations *a,
                         Tensor residual, Tensor branch) {
    branch = tensor_rows(branch, 0, residual.dims[0]);
    linear(stack, run, l, MLP_OUT_WEIGHT, branch, a->activated);
    return (Stream){residual, branch, drop_at(stack, run, l, SITE_MLP)};
}

static Stream pre_norm_forward(const BlockStack *stack, const BlockRun *run, int l, BlockActivations *a, Stream in,
                               Tensor branch, BlockEnd end, Tensor out) {
    Tensor none = tensor_none();
    a->norm1 = norm(stack, run, l, NORM1_GAIN, in, none, &a->x, &a->mean1, &a->rstd1);
    in = attend(stack, run, l, a, a->norm1, a->x, branch);
    a->norm2 = norm(stack, run, l, NORM2_GAIN, in, none, &a->middle, &a->mean2, &a->rstd2);
    mlp_activate(stack, run, l, a, a->norm2);
    if (end == END_UNWANTED) return (Stream){.residual = none, .branch = none};
    in = mlp_finish(stack, run, l, a, a->middle, branch);
    if (end == END_STREAM) return in;
    residual_forward(run->device, out, in.residual, in.branch, in.drop);
    return (Stream){.residual = out, .branch = none};
}

static Stream post_norm_forward(const BlockStack *stack, const BlockRun *run, int l, BlockActivations *a, Stream in,
                                Tensor branch, Tensor out) {
    Tensor none = tensor_none();
    a->x = in.residual;
    in = attend(stack, run, l, a, a->x, a->x, branch);
    a->norm1 = norm(stack, run, l, NORM1_GAIN, in, none, &a->middle, &a->mean1, &a->rstd1);
    mlp_activate(stack, run, l, a, a->norm1);
    in = mlp_finish(stack, run, l, a, a->norm1, branch);
    a->norm2 = norm(stack, run, l, NORM2_GAIN, in, out, &a->end, &a->mean2, &a->rstd2);
    return (Stream){.residual = a->norm2, .branch = none};
}

/* One block from `in` to the stream that it returns; `branch` [N, C] is the buffer of all branches, and may be that of
 * `in`; `out` is used with END_COMPLETE and may be the input. */
static Stream block_forward(const BlockStack *stack, const BlockRun *run, int l, BlockActivations *a, Stream in,
                            Tensor branch, BlockEnd end, Tensor out) {
    return stack->config.pre_norm ? pre_norm_forward(stack, run, l, a, in, branch, end, out)
                                  : post_norm_forward(stack, run, l, a, in, branch, out);
}

static void dump_output(const BlockStack *stack, const BlockRun *run, int l, Tensor x) {
    pass_dump(run->pass, x, "%sblock.%d.output", stack->config.dumped ? stack->config.dumped : "", l);
}

/* Every block's internals stay. */
static Tensor forward_keeping_all(BlockStack *stack, const BlockRun *run, Tensor x, Tensor branch) {
    Stream stream = {.residual = x, .branch = tensor_none()};
    for (int l = 0; l < stack->n_blocks; l++) {
        stream = block_forward(stack, run, l, &stack->kept[l], stream, branch, END_STREAM, tensor_none());
        if (l) dump_output(stack, run, l - 1, stack->kept[l].x);
    }
    if (!tensor_given(stream.branch)) return stream.residual;
    Tensor out = push_activations(run, stream.residual.dims[0], x.dims[1]);
    residual_forward(run->device, out, stream.residual, stream.branch, stream.drop);
    return out;
}

/* Every block's input stays (recompute), or nothing does (no backward). */
static Tensor forward_keeping_inputs(BlockStack *stack, const BlockRun *run, Tensor x, Tensor branch) {
    for (int l = 0; l < stack->n_blocks; l++) {
        if (l) dump_output(stack, run, l - 1, x);
        int64_t n = rows_out(stack, run, l, x.dims[0]);
        Tensor out = run->pass->train ? push_activations(run, n, x.dims[1]) : tensor_rows(x, 0, n);
        size_t mark = arena_mark(run->arena);
        Stream in = {.residual = x, .branch = tensor_none()};
        block_forward(stack, run, l, &stack->kept[l], in, branch, END_COMPLETE, out);
        arena_release(run->arena, mark);
        stack->kept[l] = (BlockActivations){.x = x};
        x = out;
    }
    return x;
}

Tensor blocks_forward(BlockStack *stack, const BlockRun *run, Tensor x) {
    bool all = run->pass->train && !run->pass->recompute;
    size_t mark = arena_mark(run->arena);
    Tensor branch = push_activations(run, x.dims[0], x.dims[1]);
    x = all ? forward_keeping_all(stack, run, x, branch) : forward_keeping_inputs(stack, run, x, branch);
    if (!run->pass->train) arena_release(run->arena, mark);
    dump_output(stack, run, stack->n_blocks - 1, x);
    return x;
}

/* ---- backward ---- */

static void linear_back(const BlockStack *stack, const BlockRun *run, int l, int which, Tensor dx, Tensor dy,
                        Tensor x) {
    linear_backward(run->device, dx, gradient(stack, run, l, which), gradient(stack, run, l, which + 1), dy, x,
                    matmul_weight(stack, run, l, which), stack->config.layout);
}

/* dx = dresidual + d norm / dx dy, where dresidual (optional) may be dx. */
static void norm_back(const BlockStack *stack, const BlockRun *run, int l, int which, Tensor dx, Tensor dresidual,
                      Tensor dy, Tensor x, Tensor mean, Tensor rstd) {
    layernorm_backward(run->device, dx, gradient(stack, run, l, which), gradient(stack, run, l, which + 1), dresidual,
                       dy, x, mean, rstd, weight(stack, run, l, which));
}

/* The gradient of a branch, from that of the sum that it was dropped into; `buffer` holds it if it is not the same. */
static Tensor branch_back(const BlockRun *run, Tensor buffer, Tensor dsum, Dropout drop) {
    if (!(drop.p > 0)) return dsum;
    dropout(run->device, buffer, dsum, drop);
    return buffer;
}

/* dx = the gradient of the MLP's input x, from that of the sum its branch was added to. */
static void mlp_back(const BlockStack *stack, const BlockRun *run, int l, const BlockActivations *a, Tensor x,
                     Tensor dx, Tensor dsum) {
    size_t mark = arena_mark(run->arena);
    Tensor dbranch = branch_back(run, dx, dsum, drop_at(stack, run, l, SITE_MLP));
    Tensor dhidden = push_activations(run, x.dims[0], stack->config.d_ff);
    gelu_linear_backward(run->device, dhidden, gradient(stack, run, l, MLP_OUT_WEIGHT),
                         gradient(stack, run, l, MLP_OUT_BIAS), dbranch, a->activated, a->hidden,
                         matmul_weight(stack, run, l, MLP_OUT_WEIGHT), stack->config.layout, stack->config.gelu,
                         drop_at(stack, run, l, SITE_HIDDEN));
    linear_back(stack, run, l, MLP_IN_WEIGHT, dx, dhidden, x);
    arena_release(run->arena, mark);
}

/* The same for attention, of which dsum has the wanted rows and dx all. */
static void attend_back(const BlockStack *stack, const BlockRun *run, int l, const BlockActivations *a, Tensor x,
                        Tensor dx, Tensor dsum) {
    size_t mark = arena_mark(run->arena);
    Tensor buffer = tensor_rows(dx, 0, dsum.dims[0]);
    Tensor dbranch = branch_back(run, buffer, dsum, drop_at(stack, run, l, SITE_PROJECTION));
    Tensor dwanted = push_activations(run, dsum.dims[0], x.dims[1]);
    Tensor dqkv = push_activations(run, x.dims[0], 3 * x.dims[1]);
    linear_back(stack, run, l, PROJECTION_WEIGHT, dwanted, dbranch, a->wanted);
    Tensor dattended = dwanted;
    if (tensor_given(rows_of(stack, run, l))) {
        dattended = push_activations(run, x.dims[0], x.dims[1]);
        put_back(run, dattended, dwanted);
    }
    attention_backward(run->device, dqkv, dattended, a->qkv, a->attended, a->lse, run->sequences,
                       attention_of(&stack->config), drop_at(stack, run, l, SITE_ATTENTION));
    linear_back(stack, run, l, QKV_WEIGHT, dx, dqkv, x);
    arena_release(run->arena, mark);
}

/* dx: the gradient of the block's output, overwritten; dall: that of its input, the same tensor if all rows are wanted.
 */
static void pre_norm_backward(const BlockStack *stack, const BlockRun *run, int l, const BlockActivations *a, Tensor dx,
                              Tensor dall) {
    Tensor dnorm1 = push_activations(run, dall.dims[0], dall.dims[1]), dnorm2 = tensor_rows(dnorm1, 0, dx.dims[0]);
    mlp_back(stack, run, l, a, a->norm2, dnorm2, dx);
    norm_back(stack, run, l, NORM2_GAIN, dx, dx, dnorm2, a->middle, a->mean2, a->rstd2);
    attend_back(stack, run, l, a, a->norm1, dnorm1, dx);
    if (tensor_given(rows_of(stack, run, l))) put_back(run, dall, dx);
    norm_back(stack, run, l, NORM1_GAIN, dall, dall, dnorm1, a->x, a->mean1, a->rstd1);
}

static void post_norm_backward(const BlockStack *stack, const BlockRun *run, int l, const BlockActivations *a,
                               Tensor dx, Tensor dall) {
    Tensor none = tensor_none(), dsum = push_activations(run, dx.dims[0], dx.dims[1]),
           dbranch_all = push_activations(run, dall.dims[0], dall.dims[1]),
           dbranch = tensor_rows(dbranch_all, 0, dx.dims[0]);
    Dropout never = {0};
    norm_back(stack, run, l, NORM2_GAIN, dsum, none, dx, a->end, a->mean2, a->rstd2);
    mlp_back(stack, run, l, a, a->norm1, dbranch, dsum);
    residual_forward(run->device, dx, dsum, dbranch, never);
    norm_back(stack, run, l, NORM1_GAIN, dsum, none, dx, a->middle, a->mean1, a->rstd1);
    attend_back(stack, run, l, a, a->x, dbranch_all, dsum);
    bool fewer = tensor_given(rows_of(stack, run, l));
    if (fewer) put_back(run, dall, dsum);
    residual_forward(run->device, dall, fewer ? dall : dsum, dbranch_all, never);
}

/* Computes a block's internals again from its input, by the operations of the forward: the same bits. */
static void block_recompute(const BlockStack *stack, const BlockRun *run, int l, BlockActivations *a) {
    Stream in = {.residual = a->x, .branch = tensor_none()};
    Tensor branch = push_activations(run, a->x.dims[0], a->x.dims[1]);
    block_forward(stack, run, l, a, in, branch, END_UNWANTED, tensor_none());
}

Tensor blocks_backward(BlockStack *stack, const BlockRun *run, Tensor dx) {
    Tensor dall = dx;
    if (tensor_given(run->rows)) dall = push_activations(run, stack->kept[0].x.dims[0], dx.dims[1]);
    for (int l = stack->n_blocks - 1; l >= 0; l--) {
        size_t mark = arena_mark(run->arena);
        BlockActivations *a = &stack->kept[l];
        if (run->pass->recompute) block_recompute(stack, run, l, a);
        if (stack->config.pre_norm)
            pre_norm_backward(stack, run, l, a, dx, dall);
        else
            post_norm_backward(stack, run, l, a, dx, dall);
        arena_release(run->arena, mark);
        dx = dall;
    }
    return dall;
}
