/* The network of the FLIM classifier: parameters, forward, and the backward, which mirrors it in reverse order.
 *
 * Everything between two convolutions (norm, sum, leaky ReLU, pool, dropout) is one operation, norm_activate, whose
 * backward needs only the convolution's output. So the arena holds the outputs and the inputs of the convolutions and
 * nothing else. */
#include "model/cv/network.h"

#include <math.h>

static const float MOMENTUM = 0.1f, SLOPE = 0.01f; /* of the running statistics; of leaky ReLU */
enum { SITE_BLOCKS, SITE_HEAD = CV_BLOCKS };       /* dropout sites */
enum { SECOND = 1, SHORTCUT = 2 };                 /* layers of a block, counted from its first */
enum { GAIN = 1, BIAS, MEAN, VARIANCE };           /* rows of the parameter table, counted from a layer's weight */

static const int first_of_block[CV_BLOCKS] = {CV_BLOCK1, CV_BLOCK2, CV_BLOCK3};

static const Normed nothing = {0};

/* ---- parameters ---- */

static const AbsorbedBias names[CV_LAYERS] = {{"stem.0", "stem.1"},
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

const AbsorbedBias *cv_network_dead_biases(void) {
    _Static_assert((int)CV_DEAD_BIASES == (int)CV_LAYERS, "a dead bias of each layer");
    return names;
}

/* Adds a running statistic of a norm: a buffer that training updates. */
static void add_statistic(ParamTable *table, InitKind init, int64_t n, const char *norm, const char *what) {
    int index = param_add(table, init, 0, false, n, 0, "%s.%s", norm, what); /* which moves the items */
    table->items[index].buffer = true;
    table->items[index].moves = MOMENTUM;
}

static void add_layer(ParamTable *table, CvLayer *layer, const AbsorbedBias *name, CvInit init) {
    const int *taps = layer->window.taps;
    bool linear = !taps[0], torch = init == CV_INIT_TORCH;
    int n = linear ? 1 : taps[0] * taps[1] * taps[2];
    float scale = torch ? 1 / sqrtf((float)(layer->in * n)) : sqrtf(2 / (float)(layer->out * n));
    layer->weight = param_add(table, torch ? INIT_UNIFORM : INIT_NORMAL, scale, true, layer->out,
                              (int64_t)layer->in * n, "%s.weight", name->layer);
    table->items[layer->weight].product = linear;
    if (!linear) param_file_shape(table, 5, (const int64_t[]){layer->out, layer->in, taps[0], taps[1], taps[2]});
    param_add_norm(table, layer->out, name->norm);
    add_statistic(table, INIT_ZERO, layer->out, name->norm, "running_mean");
    add_statistic(table, INIT_ONE, layer->out, name->norm, "running_var");
}

/* ---- shapes ---- */

/* Returns a convolution that is padded so that a stride of 1 keeps the size. */
static Convolution window(int bins, int side, int taps_t, int taps, int stride_t, int stride) {
    return (Convolution){
        {bins, side, side}, {taps_t, taps, taps}, {stride_t, stride, stride}, {taps_t / 2, taps / 2, taps / 2}};
}

static void shape_layers(CvLayer *layers, const CvConfig *config) {
    int in = config->channels[0], bins = config->bins, side = config->side;
    layers[CV_STEM] = (CvLayer){2, in, window(bins, side, 7, 1, 1, 1), 0};
    layers[CV_HALVING] = (CvLayer){in, in, window(bins, side, 3, 1, 2, 1), 0};
    bins = convolution_positions(layers[CV_HALVING].window, 0);
    for (int b = 0; b < CV_BLOCKS; b++) {
        CvLayer *block = layers + first_of_block[b];
        int out = config->channels[b], stride = b ? 2 : 1;
        block[0] = (CvLayer){in, out, window(bins, side, 3, 3, 1, stride), 0};
        if (b) block[SHORTCUT] = (CvLayer){in, out, window(bins, side, 1, 1, 1, stride), 0};
        side = convolution_positions(block->window, 1);
        block[SECOND] = (CvLayer){out, out, window(bins, side, 3, 3, 1, 1), 0};
        bins = b ? bins / 2 : bins;
        in = out;
    }
    layers[CV_HEAD] = (CvLayer){.in = in, .out = config->channels[1]};
}

/* Returns the number of positions of a cell behind a layer. */
static int64_t positions(const CvLayer *layer) {
    int64_t n = 1;
    for (int i = 0; i < 3; i++) n *= convolution_positions(layer->window, i);
    return n;
}

static void check_config(const CvConfig *c) {
    for (int i = 0; i < CV_BLOCKS; i++)
        if (c->channels[i] < 1) die_usage("flim: %d channels in block %d; at least 1 is needed", c->channels[i], i + 1);
    if (c->bins < 7 || c->bins > AUGMENT_MAX_BINS || c->side < 1 || c->side > AUGMENT_MAX_SIDE)
        die_usage("flim: cells of %d bins and %d x %d pixels; 7 to %d bins are possible, and 1 to %d pixels a side",
                  c->bins, c->side, c->side, AUGMENT_MAX_BINS, AUGMENT_MAX_SIDE);
    if (c->channels[0] % 8 || c->channels[0] > STEM_MAX_CHANNELS)
        die_usage("flim: %d channels in block 1; the stem needs a multiple of 8, at most %d", c->channels[0],
                  STEM_MAX_CHANNELS);
    const float drops[] = {c->dropout, c->head_dropout};
    for (int i = 0; i < 2; i++)
        if (!(drops[i] >= 0 && drops[i] < 1)) die_usage("flim: dropout %g is not in [0, 1)", (double)drops[i]);
}

CvNetwork cv_network_open(ParamTable *table, const CvConfig *config) {
    CvNetwork network = {.config = *config};
    check_config(config);
    shape_layers(network.layers, config);
    for (int i = 0; i < CV_LAYERS; i++) add_layer(table, &network.layers[i], &names[i], config->init);
    network.last = param_add_linear(table, config->channels[1], 1, "classifier.4");
    if (config->init == CV_INIT_KAIMING) {
        Param *last = &table->items[network.last];
        last[0].init = INIT_NORMAL, last[0].init_scale = sqrtf(2);
        last[1].init = INIT_ZERO;
    }
    return network;
}

/* ---- forward ---- */

/* Returns a layer's norm: in training with space for the batch's statistics, in evaluation with the running ones. */
static Normed norm_of(const CvNetwork *f, const Context *context, int layer) {
    int row = f->layers[layer].weight, width = f->layers[layer].out;
    Normed n = {.mean = context_weight(context, row + MEAN),
                .rstd = arena_1d(context->arena, DTYPE_F32, width),
                .gain = context_weight(context, row + GAIN),
                .bias = context_weight(context, row + BIAS)};
    if (context->pass->train)
        n.mean = arena_1d(context->arena, DTYPE_F32, width);
    else
        batchnorm_from_running(context->device, n.rstd, context_weight(context, row + VARIANCE));
    return n;
}

/* Returns x and its norm. In training the updates of the running statistics go beside the gradients: see params_moving.
 */
static Normed normed(const CvNetwork *f, const Context *context, int layer, Tensor x) {
    int row = f->layers[layer].weight;
    Normed n = norm_of(f, context, layer);
    n.x = x;
    if (context->pass->train)
        batchnorm_statistics(context->device,
                             (BatchStatistics){n.mean, n.rstd, context_gradient(context, row + MEAN),
                                               context_gradient(context, row + VARIANCE), MOMENTUM},
                             x);
    return n;
}

static Normed convolve(const CvNetwork *f, const Context *context, CvActivations *acts, int layer, Tensor x) {
    const CvLayer *l = &f->layers[layer];
    Tensor y = context_push(context, acts->cells * positions(l), l->out);
    conv3d_forward(context->device, y, x, context_matmul_weight(context, l->weight), tensor_none(), l->window);
    return acts->layers[layer] = normed(f, context, layer, y);
}

static float slope(const CvNetwork *f) { return f->config.linear ? 1 : SLOPE; }

/* Returns the activation behind a layer inside a block: no pool and no dropout. */
static NormActivation activation(const CvNetwork *f, int layer) {
    Convolution w = f->layers[layer].window;
    int64_t plane = (int64_t)convolution_positions(w, 1) * convolution_positions(w, 2);
    return (NormActivation){.slope = slope(f), .frames = convolution_positions(w, 0), .plane = plane};
}

/* Returns the activation at the end of block b. */
static NormActivation block_end(const CvNetwork *f, const Pass *pass, int b) {
    NormActivation end = activation(f, first_of_block[b] + SECOND);
    end.pool = b > 0;
    end.average = f->config.linear;
    end.drop = pass_dropout(pass, f->config.dropout, SITE_BLOCKS + (uint32_t)b);
    return end;
}

static NormActivation head_activation(const CvNetwork *f, const Pass *pass) {
    Dropout drop = pass_dropout(pass, f->config.head_dropout, SITE_HEAD);
    return (NormActivation){.slope = slope(f), .frames = 1, .plane = 1, .drop = drop};
}

/* Returns what the end of block b adds to its second norm: the block's input, or the shortcut's output and norm. */
static Normed block_shortcut(const CvActivations *acts, int b) {
    return b ? acts->layers[first_of_block[b] + SHORTCUT] : (Normed){.x = acts->inputs[b]};
}

/* Returns one of the ping-pong buffers as [rows, columns]. */
static Tensor buffer_view(const CvActivations *acts, int which, int64_t rows, int64_t columns) {
    Tensor whole = acts->buffers[which % 2];
    return tensor_2d(whole.data, whole.dtype, rows, columns);
}

static void push_buffers(const CvNetwork *f, const Context *context, CvActivations *acts) {
    int64_t most = 0;
    for (int i = CV_HALVING; i < CV_HEAD; i++) {
        int64_t n = positions(&f->layers[i]) * f->layers[i].out;
        if (n > most) most = n;
    }
    for (int i = 0; i < 2; i++) acts->buffers[i] = context_push(context, acts->cells, most);
}

/* Allocates the input of block b, or of the head. */
static Tensor block_input(const Context *context, CvActivations *acts, int b, int64_t rows, int64_t columns) {
    acts->inputs[b] = context->pass->train ? context_push(context, rows, columns) : buffer_view(acts, b, rows, columns);
    return acts->inputs[b];
}

static Stem stem_of(const CvNetwork *f) {
    return (Stem){.frames = f->config.bins, .plane = (int64_t)f->config.side * f->config.side, .slope = slope(f)};
}

/* Computes the first block's input from acts->x. */
static void stem_and_halving_forward(const CvNetwork *f, const Context *context, CvActivations *acts) {
    const CvLayer *l = &f->layers[CV_STEM], *halving = &f->layers[CV_HALVING];
    Device *device = context->device;
    size_t mark = arena_mark(context->arena);
    Tensor w = context_matmul_weight(context, l->weight), w2 = context_matmul_weight(context, halving->weight);
    Normed n = acts->layers[CV_STEM] = norm_of(f, context, CV_STEM);
    if (context->pass->train) {
        acts->moments = arena_1d(context->arena, DTYPE_F32, STEM_MOMENTS);
        stem_statistics(device,
                        (BatchStatistics){n.mean, n.rstd, context_gradient(context, l->weight + MEAN),
                                          context_gradient(context, l->weight + VARIANCE), MOMENTUM},
                        acts->moments, acts->x, w, stem_of(f));
    }
    Tensor x = context_push(context, acts->cells * positions(halving), halving->out);
    stem_forward(device, x, acts->x, (StemWeights){w, n.mean, n.rstd, n.gain, n.bias, w2}, stem_of(f));
    acts->layers[CV_HALVING] = normed(f, context, CV_HALVING, x);
    Tensor y = block_input(context, acts, 0, x.dims[0], x.dims[1]);
    norm_activate_forward(device, y, acts->layers[CV_HALVING], nothing, activation(f, CV_HALVING));
    pass_dump(context->pass, y, "downsample1");
    if (!context->pass->train) arena_release(context->arena, mark);
}

/* Computes acts->inputs[b + 1] from acts->inputs[b]. */
static void block_forward(const CvNetwork *f, const Context *context, CvActivations *acts, int b) {
    static const char *const dumped[CV_BLOCKS] = {"res_block1", "pool2", "pool3"};
    const Pass *pass = context->pass;
    int l = first_of_block[b];
    bool keep = !(pass->train && pass->recompute);
    Tensor x = acts->inputs[b];
    size_t mark = arena_mark(context->arena);
    Normed first = convolve(f, context, acts, l, x);
    int64_t rows = first.x.dims[0], width = first.x.dims[1];
    acts->inner[b] = keep ? context_push(context, rows, width) : buffer_view(acts, 0, rows, width);
    norm_activate_forward(context->device, acts->inner[b], first, nothing, activation(f, l));
    Normed second = convolve(f, context, acts, l + SECOND, acts->inner[b]);
    if (b) convolve(f, context, acts, l + SHORTCUT, x);
    acts->marks[b] = arena_mark(context->arena);
    NormActivation end = block_end(f, pass, b);
    int64_t frames = end.pool ? end.frames / 2 : end.frames;
    Tensor y = block_input(context, acts, b + 1, acts->cells * frames * end.plane, width);
    norm_activate_forward(context->device, y, second, block_shortcut(acts, b), end);
    pass_dump(pass, y, "%s", dumped[b]);
    if (!pass->train) arena_release(context->arena, mark);
}

static Tensor push_f32(const Context *context, int64_t rows, int64_t columns) {
    return arena_2d(context->arena, DTYPE_F32, rows, columns);
}

/* Copies a tensor to one of the same shape and another type. */
static void convert(const Context *context, Tensor to, Tensor from) {
    cast(context->device, tensor_1d(to.data, to.dtype, tensor_numel(to)),
         tensor_1d(from.data, from.dtype, tensor_numel(from)));
}

/* Computes the logits in f32 for any type of activations: the cost is negligible, and bf16 would round probabilities to
 * steps of 2^-8. */
static Tensor head_forward(const CvNetwork *f, const Context *context, CvActivations *acts) {
    const CvLayer *l = &f->layers[CV_HEAD];
    Device *device = context->device;
    Tensor x = acts->inputs[CV_BLOCKS], hidden = push_f32(context, acts->cells, l->out);
    Tensor logits = push_f32(context, acts->cells, 1), means = context_push(context, acts->cells, l->in);
    acts->means = push_f32(context, acts->cells, l->in);
    acts->activated = push_f32(context, acts->cells, l->out);
    mean_rows_forward(device, means, x, x.dims[0] / acts->cells);
    convert(context, acts->means, means);
    linear_forward(device, hidden, acts->means, context_weight(context, l->weight), tensor_none(), WEIGHT_OUT_IN);
    acts->layers[CV_HEAD] = normed(f, context, CV_HEAD, hidden);
    norm_activate_forward(device, acts->activated, acts->layers[CV_HEAD], nothing, head_activation(f, context->pass));
    linear_forward(device, logits, acts->activated, context_weight(context, f->last),
                   context_weight(context, f->last + 1), WEIGHT_OUT_IN);
    pass_dump(context->pass, logits, "logits");
    return logits;
}

Tensor cv_network_forward(const CvNetwork *network, const Context *context, CvActivations *acts, Tensor x) {
    const CvConfig *c = &network->config;
    *acts = (CvActivations){.x = x, .cells = x.dims[0] / ((int64_t)c->bins * c->side * c->side)};
    push_buffers(network, context, acts);
    stem_and_halving_forward(network, context, acts);
    for (int b = 0; b < CV_BLOCKS; b++) block_forward(network, context, acts, b);
    return head_forward(network, context, acts);
}

/* ---- backward: the gradient of a layer's output overwrites the output ---- */

/* Computes the gradient of a layer's output from dy, the gradient behind its activation. */
static void activate_backward(const CvNetwork *f, const Context *context, const CvActivations *acts, int layer,
                              Tensor dy, NormActivation activation) {
    int row = f->layers[layer].weight;
    Normed n = acts->layers[layer];
    norm_activate_backward(context->device, context_norm_gradients(context, row + GAIN, row + BIAS, n.x),
                           (NormGradients){0}, dy, n, nothing, activation);
}

/* Computes dx, the part of the input's gradient that comes through the sum at the end of the block. */
static void block_end_backward(const CvNetwork *f, const Context *context, const CvActivations *acts, int b, Tensor dx,
                               Tensor dy) {
    const CvLayer *l = &f->layers[first_of_block[b]];
    int row = l[SECOND].weight, shortcut = l[SHORTCUT].weight;
    Normed n = acts->layers[first_of_block[b] + SECOND], past = block_shortcut(acts, b);
    NormGradients dpast =
        b ? context_norm_gradients(context, shortcut + GAIN, shortcut + BIAS, past.x) : (NormGradients){.dx = dx};
    norm_activate_backward(context->device, context_norm_gradients(context, row + GAIN, row + BIAS, n.x), dpast, dy, n,
                           past, block_end(f, context->pass, b));
}

/* add: adds to dx, which otherwise is overwritten. */
static void convolve_backward(const CvNetwork *f, const Context *context, const CvActivations *acts, int layer,
                              Tensor dx, Tensor x, bool add) {
    const CvLayer *l = &f->layers[layer];
    conv3d_backward(context->device, (LayerGradients){.dx = dx, .dw = context_gradient(context, l->weight)},
                    acts->layers[layer].x, x, context_matmul_weight(context, l->weight), l->window, add);
}

static Tensor head_backward(const CvNetwork *f, const Context *context, const CvActivations *acts, Tensor dlogits) {
    int row = f->layers[CV_HEAD].weight;
    Device *device = context->device;
    Tensor x = acts->inputs[CV_BLOCKS], dx = buffer_view(acts, CV_BLOCKS, x.dims[0], x.dims[1]);
    Tensor dmeans = push_f32(context, acts->cells, acts->means.dims[1]);
    Tensor rounded = context_push(context, acts->cells, acts->means.dims[1]);
    Tensor dactivated = push_f32(context, acts->cells, acts->activated.dims[1]);
    linear_backward(device, context_layer_gradients(context, f->last, f->last + 1, dactivated), dlogits,
                    acts->activated, context_weight(context, f->last), WEIGHT_OUT_IN);
    activate_backward(f, context, acts, CV_HEAD, dactivated, head_activation(f, context->pass));
    linear_backward(device, context_layer_gradients(context, row, -1, dmeans), acts->layers[CV_HEAD].x, acts->means,
                    context_weight(context, row), WEIGHT_OUT_IN);
    convert(context, rounded, dmeans);
    mean_rows_backward(device, dx, rounded, x.dims[0] / acts->cells);
    return dx;
}

/* Returns the gradient of acts->inputs[b], computed from that of acts->inputs[b + 1], whose buffer then takes the
 * gradient inside the block. */
static Tensor block_backward(const CvNetwork *f, const Context *context, const CvActivations *acts, int b, Tensor dy) {
    int l = first_of_block[b];
    Tensor x = acts->inputs[b], inner = acts->inner[b];
    Tensor dx = buffer_view(acts, b, x.dims[0], x.dims[1]),
           dinner = buffer_view(acts, b + 1, inner.dims[0], inner.dims[1]);
    block_end_backward(f, context, acts, b, dx, dy);
    arena_release(context->arena, acts->marks[b]);
    if (context->pass->recompute) {
        inner = context_push(context, inner.dims[0], inner.dims[1]);
        norm_activate_forward(context->device, inner, acts->layers[l], nothing, activation(f, l));
    }
    convolve_backward(f, context, acts, l + SECOND, dinner, inner, false);
    activate_backward(f, context, acts, l, dinner, activation(f, l));
    if (b) convolve_backward(f, context, acts, l + SHORTCUT, dx, x, false);
    convolve_backward(f, context, acts, l, dx, x, true);
    return dx;
}

static void stem_and_halving_backward(const CvNetwork *f, const Context *context, const CvActivations *acts,
                                      Tensor dy) {
    int row = f->layers[CV_STEM].weight, halving = f->layers[CV_HALVING].weight;
    Normed n = acts->layers[CV_STEM];
    activate_backward(f, context, acts, CV_HALVING, dy, activation(f, CV_HALVING));
    stem_backward(context->device,
                  (StemGradients){context_gradient(context, row), context_gradient(context, row + GAIN),
                                  context_gradient(context, row + BIAS), context_gradient(context, halving)},
                  acts->layers[CV_HALVING].x, acts->x,
                  (StemWeights){context_matmul_weight(context, row), n.mean, n.rstd, n.gain, n.bias,
                                context_matmul_weight(context, halving)},
                  acts->moments, stem_of(f));
}

void cv_network_backward(const CvNetwork *network, const Context *context, const CvActivations *acts, Tensor dlogits) {
    Tensor dx = head_backward(network, context, acts, dlogits);
    for (int b = CV_BLOCKS - 1; b >= 0; b--) dx = block_backward(network, context, acts, b, dx);
    stem_and_halving_backward(network, context, acts, dx);
}
