/* The network of photon decays: parameters, forward, and below it the backward, which mirrors it in reverse order.
 *
 * The one idea: what lies between a convolution and the next (norm, sum, leaky ReLU, pool, dropout) is one operation,
 * norm_activate, of which the backward finds everything again in the convolution's output. So the arena holds what
 * convolutions said and what they were given, and nothing else. */
#include "model/flim_network.h"

#include <math.h>

static const float MOMENTUM = 0.1f, SLOPE = 0.01f; /* of the running statistics; of leaky ReLU below 0 */
enum { SITE_BLOCKS, SITE_HEAD = FLIM_BLOCKS };     /* of dropout */
enum { SECOND = 1, SHORTCUT = 2 };                 /* layers of a block, from its first on */
enum { GAIN = 1, BIAS, MEAN, VARIANCE };           /* rows of the parameter table, from a layer's weight on */

static const int first_of_block[FLIM_BLOCKS] = {FLIM_BLOCK1, FLIM_BLOCK2, FLIM_BLOCK3};

static const Normed nothing = {0};

/* ---- parameters ---- */

static const AbsorbedBias names[FLIM_LAYERS] = {{"stem.0", "stem.1"},
                                                {"downsample1.0", "downsample1.1"},
                                                {"res_block1.conv1", "res_block1.bn1"},
                                                {"res_block1.conv2", "res_block1.bn2"},
                                                {"res_block2.conv1", "res_block2.bn1"},
                                                {"res_block2.conv2", "res_block2.bn2"},
                                                {"res_block2.shortcut.0", "res_block2.shortcut.1"},
                                                {"res_block3.conv1", "res_block3.bn1"},
                                                {"res_block3.conv2", "res_block3.bn2"},
                                                {"res_block3.shortcut.0", "res_block3.shortcut.1"},
                                                {"classifier.0", "classifier.1"}};

const AbsorbedBias *flim_dead_biases(void) {
    _Static_assert((int)FLIM_DEAD_BIASES == (int)FLIM_LAYERS, "a dead bias of each layer");
    return names;
}

/* A running statistic of a norm: a buffer that training moves. */
static void add_statistic(ParamTable *table, InitKind init, int64_t n, const char *norm, const char *what) {
    Param *param = &table->items[param_add(table, init, 0, false, n, 0, "%s.%s", norm, what)];
    param->buffer = param->moves = true;
}

static void add_layer(ParamTable *table, FlimLayer *layer, const AbsorbedBias *name, FlimInit init) {
    const int *taps = layer->window.taps;
    bool linear = !taps[0], torch = init == FLIM_INIT_TORCH;
    int n = linear ? 1 : taps[0] * taps[1] * taps[2];
    float scale = torch ? 1 / sqrtf((float)(layer->in * n)) : sqrtf(2 / (float)(layer->out * n));
    layer->weight = param_add(table, torch ? INIT_UNIFORM : INIT_NORMAL, scale, true, layer->out,
                              (int64_t)layer->in * n, "%s.weight", name->layer);
    if (!linear) param_file_shape(table, 5, (const int64_t[]){layer->out, layer->in, taps[0], taps[1], taps[2]});
    param_add_norm(table, layer->out, name->norm);
    add_statistic(table, INIT_ZERO, layer->out, name->norm, "running_mean");
    add_statistic(table, INIT_ONE, layer->out, name->norm, "running_var");
}

/* ---- shapes ---- */

/* Padded so that a stride of 1 leaves the size as it is. */
static Convolution window(int bins, int side, int taps_t, int taps, int stride_t, int stride) {
    return (Convolution){
        {bins, side, side}, {taps_t, taps, taps}, {stride_t, stride, stride}, {taps_t / 2, taps / 2, taps / 2}};
}

static void shape_layers(FlimLayer *layers, const FlimConfig *config) {
    int in = config->channels[0], bins = config->bins, side = config->side;
    layers[FLIM_STEM] = (FlimLayer){2, in, window(bins, side, 7, 1, 1, 1), 0};
    layers[FLIM_HALVING] = (FlimLayer){in, in, window(bins, side, 3, 1, 2, 1), 0};
    bins = convolution_positions(layers[FLIM_HALVING].window, 0);
    for (int b = 0; b < FLIM_BLOCKS; b++) {
        FlimLayer *block = layers + first_of_block[b];
        int out = config->channels[b], stride = b ? 2 : 1;
        block[0] = (FlimLayer){in, out, window(bins, side, 3, 3, 1, stride), 0};
        if (b) block[SHORTCUT] = (FlimLayer){in, out, window(bins, side, 1, 1, 1, stride), 0};
        side = convolution_positions(block->window, 1);
        block[SECOND] = (FlimLayer){out, out, window(bins, side, 3, 3, 1, 1), 0};
        bins = b ? bins / 2 : bins;
        in = out;
    }
    layers[FLIM_HEAD] = (FlimLayer){.in = in, .out = config->channels[1]};
}

/* Positions of a cell behind a layer. */
static int64_t positions(const FlimLayer *layer) {
    int64_t n = 1;
    for (int i = 0; i < 3; i++) n *= convolution_positions(layer->window, i);
    return n;
}

static void check_config(const FlimConfig *c) {
    for (int i = 0; i < FLIM_BLOCKS; i++)
        if (c->channels[i] < 1) die_usage("flim: %d channels in block %d; at least 1 is needed", c->channels[i], i + 1);
    if (c->bins < 7 || c->bins > FLIM_MOST_BINS || c->side < 1 || c->side > FLIM_MOST_SIDE)
        die_usage("flim: cells of %d bins and %d x %d pixels; 7 to %d bins are possible, and 1 to %d pixels a side",
                  c->bins, c->side, c->side, FLIM_MOST_BINS, FLIM_MOST_SIDE);
    if (c->channels[0] % 8 || c->channels[0] > STEM_MOST)
        die_usage("flim: %d channels in block 1; the stem needs a multiple of 8, at most %d", c->channels[0],
                  STEM_MOST);
    const float drops[] = {c->dropout, c->head_dropout};
    for (int i = 0; i < 2; i++)
        if (!(drops[i] >= 0 && drops[i] < 1)) die_usage("flim: dropout %g is not in [0, 1)", (double)drops[i]);
}

FlimNetwork flim_network_open(ParamTable *table, const FlimConfig *config) {
    FlimNetwork network = {.config = *config};
    check_config(config);
    shape_layers(network.layers, config);
    for (int i = 0; i < FLIM_LAYERS; i++) add_layer(table, &network.layers[i], &names[i], config->init);
    network.last = param_add_linear(table, config->channels[1], 1, "classifier.4");
    if (config->init == FLIM_INIT_KAIMING) {
        Param *last = &table->items[network.last];
        last[0].init = INIT_NORMAL, last[0].init_scale = sqrtf(2);
        last[1].init = INIT_ZERO;
    }
    return network;
}

/* ---- forward ---- */

/* A layer's norm: in training with room for the batch's statistics, in evaluation with the running ones. */
static Normed norm_of(const FlimNetwork *f, const BlockRun *run, int layer) {
    int row = f->layers[layer].weight, width = f->layers[layer].out;
    Normed n = {.mean = run_weight(run, row + MEAN),
                .rstd = arena_1d(run->arena, DTYPE_F32, width),
                .gain = run_weight(run, row + GAIN),
                .bias = run_weight(run, row + BIAS)};
    if (run->pass->train)
        n.mean = arena_1d(run->arena, DTYPE_F32, width);
    else
        batchnorm_from_running(run->device, n.rstd, run_weight(run, row + VARIANCE));
    return n;
}

/* The running statistics move beside the gradients: see params_moving. */
static Normed normed(const FlimNetwork *f, const BlockRun *run, int layer, Tensor x) {
    int row = f->layers[layer].weight;
    Normed n = norm_of(f, run, layer);
    n.x = x;
    if (run->pass->train)
        batchnorm_statistics(run->device, n.mean, n.rstd, run_gradient(run, row + MEAN),
                             run_gradient(run, row + VARIANCE), x, MOMENTUM);
    return n;
}

static Normed convolve(const FlimNetwork *f, const BlockRun *run, FlimActivations *kept, int layer, Tensor x) {
    const FlimLayer *l = &f->layers[layer];
    Tensor y = push_activations(run, kept->cells * positions(l), l->out);
    conv3d_forward(run->device, y, x, run_matmul_weight(run, l->weight), tensor_none(), l->window);
    return kept->layers[layer] = normed(f, run, layer, y);
}

static float slope(const FlimNetwork *f) { return f->config.linear ? 1 : SLOPE; }

/* What becomes of a layer's output before the next one sees it: neither pool nor dropout. */
static NormActivation activation(const FlimNetwork *f, int layer) {
    Convolution w = f->layers[layer].window;
    int64_t plane = (int64_t)convolution_positions(w, 1) * convolution_positions(w, 2);
    return (NormActivation){.slope = slope(f), .frames = convolution_positions(w, 0), .plane = plane};
}

/* At the end of block b. */
static NormActivation block_end(const FlimNetwork *f, const Pass *pass, int b) {
    NormActivation end = activation(f, first_of_block[b] + SECOND);
    end.pool = b > 0;
    end.average = f->config.linear;
    end.drop = pass_dropout(pass, f->config.dropout, SITE_BLOCKS + (uint32_t)b);
    return end;
}

static NormActivation head_activation(const FlimNetwork *f, const Pass *pass) {
    Dropout drop = pass_dropout(pass, f->config.head_dropout, SITE_HEAD);
    return (NormActivation){.slope = slope(f), .frames = 1, .plane = 1, .drop = drop};
}

/* What is added to block b's second norm at its end. */
static Normed past_block(const FlimActivations *kept, int b) {
    return b ? kept->layers[first_of_block[b] + SHORTCUT] : (Normed){.x = kept->inputs[b]};
}

static Tensor in_turn(const FlimActivations *kept, int turn, int64_t rows, int64_t columns) {
    Tensor whole = kept->turns[turn % 2];
    return tensor_2d(whole.data, whole.dtype, rows, columns);
}

static void push_turns(const FlimNetwork *f, const BlockRun *run, FlimActivations *kept) {
    int64_t most = 0;
    for (int i = FLIM_HALVING; i < FLIM_HEAD; i++) {
        int64_t n = positions(&f->layers[i]) * f->layers[i].out;
        if (n > most) most = n;
    }
    for (int i = 0; i < 2; i++) kept->turns[i] = push_activations(run, kept->cells, most);
}

/* Room for the input of block b, or of the head. */
static Tensor block_input(const BlockRun *run, FlimActivations *kept, int b, int64_t rows, int64_t columns) {
    kept->inputs[b] = run->pass->train ? push_activations(run, rows, columns) : in_turn(kept, b, rows, columns);
    return kept->inputs[b];
}

static Stem stem_of(const FlimNetwork *f) {
    return (Stem){.frames = f->config.bins, .plane = (int64_t)f->config.side * f->config.side, .slope = slope(f)};
}

/* From kept->x to the first block's input. */
static void stem_and_halving_forward(const FlimNetwork *f, const BlockRun *run, FlimActivations *kept) {
    const FlimLayer *l = &f->layers[FLIM_STEM], *halving = &f->layers[FLIM_HALVING];
    Device *device = run->device;
    size_t mark = arena_mark(run->arena);
    Tensor w = run_matmul_weight(run, l->weight), w2 = run_matmul_weight(run, halving->weight);
    Normed n = kept->layers[FLIM_STEM] = norm_of(f, run, FLIM_STEM);
    if (run->pass->train) {
        kept->moments = arena_1d(run->arena, DTYPE_F32, STEM_MOMENTS);
        stem_statistics(device, n.mean, n.rstd, kept->moments, run_gradient(run, l->weight + MEAN),
                        run_gradient(run, l->weight + VARIANCE), kept->x, w, stem_of(f), MOMENTUM);
    }
    Tensor x = push_activations(run, kept->cells * positions(halving), halving->out);
    stem_forward(device, x, kept->x, w, n.mean, n.rstd, n.gain, n.bias, w2, stem_of(f));
    kept->layers[FLIM_HALVING] = normed(f, run, FLIM_HALVING, x);
    Tensor y = block_input(run, kept, 0, x.dims[0], x.dims[1]);
    norm_activate_forward(device, y, kept->layers[FLIM_HALVING], nothing, activation(f, FLIM_HALVING));
    pass_dump(run->pass, y, "downsample1");
    if (!run->pass->train) arena_release(run->arena, mark);
}

/* Block b: from kept->inputs[b] to kept->inputs[b + 1]. */
static void block_forward(const FlimNetwork *f, const BlockRun *run, FlimActivations *kept, int b) {
    static const char *const dumped[FLIM_BLOCKS] = {"res_block1", "pool2", "pool3"};
    const Pass *pass = run->pass;
    int l = first_of_block[b];
    bool keep = !(pass->train && pass->recompute);
    Tensor x = kept->inputs[b];
    size_t mark = arena_mark(run->arena);
    Normed first = convolve(f, run, kept, l, x);
    int64_t rows = first.x.dims[0], width = first.x.dims[1];
    kept->inner[b] = keep ? push_activations(run, rows, width) : in_turn(kept, 0, rows, width);
    norm_activate_forward(run->device, kept->inner[b], first, nothing, activation(f, l));
    Normed second = convolve(f, run, kept, l + SECOND, kept->inner[b]);
    if (b) convolve(f, run, kept, l + SHORTCUT, x);
    kept->marks[b] = arena_mark(run->arena);
    NormActivation end = block_end(f, pass, b);
    int64_t frames = end.pool ? end.frames / 2 : end.frames;
    Tensor y = block_input(run, kept, b + 1, kept->cells * frames * end.plane, width);
    norm_activate_forward(run->device, y, second, past_block(kept, b), end);
    pass_dump(pass, y, "%s", dumped[b]);
    if (!pass->train) arena_release(run->arena, mark);
}

static Tensor push_f32(const BlockRun *run, int64_t rows, int64_t columns) {
    return arena_2d(run->arena, DTYPE_F32, rows, columns);
}

/* to = from, of as many rows and columns. */
static void convert(const BlockRun *run, Tensor to, Tensor from) {
    cast(run->device, tensor_1d(to.data, to.dtype, tensor_numel(to)),
         tensor_1d(from.data, from.dtype, tensor_numel(from)));
}

/* In f32 whatever the type of the activations: it costs nothing, and probabilities are no steps of 2^-8. */
static Tensor head_forward(const FlimNetwork *f, const BlockRun *run, FlimActivations *kept) {
    const FlimLayer *l = &f->layers[FLIM_HEAD];
    Device *device = run->device;
    Tensor x = kept->inputs[FLIM_BLOCKS], hidden = push_f32(run, kept->cells, l->out);
    Tensor logits = push_f32(run, kept->cells, 1), means = push_activations(run, kept->cells, l->in);
    kept->means = push_f32(run, kept->cells, l->in);
    kept->activated = push_f32(run, kept->cells, l->out);
    mean_rows_forward(device, means, x, x.dims[0] / kept->cells);
    convert(run, kept->means, means);
    linear_forward(device, hidden, kept->means, run_weight(run, l->weight), tensor_none(), WEIGHT_OUT_IN);
    kept->layers[FLIM_HEAD] = normed(f, run, FLIM_HEAD, hidden);
    norm_activate_forward(device, kept->activated, kept->layers[FLIM_HEAD], nothing, head_activation(f, run->pass));
    linear_forward(device, logits, kept->activated, run_weight(run, f->last), run_weight(run, f->last + 1),
                   WEIGHT_OUT_IN);
    pass_dump(run->pass, logits, "logits");
    return logits;
}

Tensor flim_network_forward(const FlimNetwork *network, const BlockRun *run, FlimActivations *kept, Tensor x) {
    const FlimConfig *c = &network->config;
    *kept = (FlimActivations){.x = x, .cells = x.dims[0] / ((int64_t)c->bins * c->side * c->side)};
    push_turns(network, run, kept);
    stem_and_halving_forward(network, run, kept);
    for (int b = 0; b < FLIM_BLOCKS; b++) block_forward(network, run, kept, b);
    return head_forward(network, run, kept);
}

/* ---- backward: the gradient of what a layer said takes its place ---- */

/* From the gradient dy behind a layer's activation. */
static void activate_backward(const FlimNetwork *f, const BlockRun *run, const FlimActivations *kept, int layer,
                              Tensor dy, NormActivation activation) {
    int row = f->layers[layer].weight;
    Normed n = kept->layers[layer];
    Tensor none = tensor_none();
    norm_activate_backward(run->device, n.x, run_gradient(run, row + GAIN), run_gradient(run, row + BIAS), none, none,
                           none, dy, n, nothing, activation);
}

/* dx: of the block's input, of which the sum at its end is one user. */
static void block_end_backward(const FlimNetwork *f, const BlockRun *run, const FlimActivations *kept, int b, Tensor dx,
                               Tensor dy) {
    const FlimLayer *l = &f->layers[first_of_block[b]];
    int row = l[SECOND].weight, shortcut = l[SHORTCUT].weight;
    Normed n = kept->layers[first_of_block[b] + SECOND], past = past_block(kept, b);
    Tensor none = tensor_none(), dgain = b ? run_gradient(run, shortcut + GAIN) : none,
           dbias = b ? run_gradient(run, shortcut + BIAS) : none;
    norm_activate_backward(run->device, n.x, run_gradient(run, row + GAIN), run_gradient(run, row + BIAS),
                           b ? past.x : dx, dgain, dbias, dy, n, past, block_end(f, run->pass, b));
}

/* add: to what dx holds. */
static void convolve_backward(const FlimNetwork *f, const BlockRun *run, const FlimActivations *kept, int layer,
                              Tensor dx, Tensor x, bool add) {
    const FlimLayer *l = &f->layers[layer];
    conv3d_backward(run->device, dx, run_gradient(run, l->weight), tensor_none(), kept->layers[layer].x, x,
                    run_matmul_weight(run, l->weight), l->window, add);
}

static Tensor head_backward(const FlimNetwork *f, const BlockRun *run, const FlimActivations *kept, Tensor dlogits) {
    int row = f->layers[FLIM_HEAD].weight;
    Device *device = run->device;
    Tensor x = kept->inputs[FLIM_BLOCKS], dx = in_turn(kept, FLIM_BLOCKS, x.dims[0], x.dims[1]);
    Tensor dmeans = push_f32(run, kept->cells, kept->means.dims[1]);
    Tensor rounded = push_activations(run, kept->cells, kept->means.dims[1]);
    Tensor dactivated = push_f32(run, kept->cells, kept->activated.dims[1]);
    linear_backward(device, dactivated, run_gradient(run, f->last), run_gradient(run, f->last + 1), dlogits,
                    kept->activated, run_weight(run, f->last), WEIGHT_OUT_IN);
    activate_backward(f, run, kept, FLIM_HEAD, dactivated, head_activation(f, run->pass));
    linear_backward(device, dmeans, run_gradient(run, row), tensor_none(), kept->layers[FLIM_HEAD].x, kept->means,
                    run_weight(run, row), WEIGHT_OUT_IN);
    convert(run, rounded, dmeans);
    mean_rows_backward(device, dx, rounded, x.dims[0] / kept->cells);
    return dx;
}

/* The gradient of kept->inputs[b] from that of kept->inputs[b + 1], whose room that of what is inside takes next. */
static Tensor block_backward(const FlimNetwork *f, const BlockRun *run, const FlimActivations *kept, int b, Tensor dy) {
    int l = first_of_block[b];
    Tensor x = kept->inputs[b], inner = kept->inner[b];
    Tensor dx = in_turn(kept, b, x.dims[0], x.dims[1]), dinner = in_turn(kept, b + 1, inner.dims[0], inner.dims[1]);
    block_end_backward(f, run, kept, b, dx, dy);
    arena_release(run->arena, kept->marks[b]);
    if (run->pass->recompute) {
        inner = push_activations(run, inner.dims[0], inner.dims[1]);
        norm_activate_forward(run->device, inner, kept->layers[l], nothing, activation(f, l));
    }
    convolve_backward(f, run, kept, l + SECOND, dinner, inner, false);
    activate_backward(f, run, kept, l, dinner, activation(f, l));
    if (b) convolve_backward(f, run, kept, l + SHORTCUT, dx, x, false);
    convolve_backward(f, run, kept, l, dx, x, true);
    return dx;
}

static void stem_and_halving_backward(const FlimNetwork *f, const BlockRun *run, const FlimActivations *kept,
                                      Tensor dy) {
    int row = f->layers[FLIM_STEM].weight, halving = f->layers[FLIM_HALVING].weight;
    Normed n = kept->layers[FLIM_STEM];
    activate_backward(f, run, kept, FLIM_HALVING, dy, activation(f, FLIM_HALVING));
    stem_backward(run->device, run_gradient(run, row), run_gradient(run, row + GAIN), run_gradient(run, row + BIAS),
                  run_gradient(run, halving), kept->layers[FLIM_HALVING].x, kept->x, run_matmul_weight(run, row),
                  n.mean, n.rstd, n.gain, n.bias, run_matmul_weight(run, halving), kept->moments, stem_of(f));
}

void flim_network_backward(const FlimNetwork *network, const BlockRun *run, const FlimActivations *kept,
                           Tensor dlogits) {
    Tensor dx = head_backward(network, run, kept, dlogits);
    for (int b = FLIM_BLOCKS - 1; b >= 0; b--) dx = block_backward(network, run, kept, b, dx);
    stem_and_halving_backward(network, run, kept, dx);
}
