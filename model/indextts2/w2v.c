#include "model/indextts2/w2v.h"

#include <math.h>
#include <stdlib.h>

#define EPSILON 1e-5f

/* ---- the table ---- */

typedef struct {
    Network *network;
    int layer;
} Adding;

/* Returns the name of a part of the layer; free(). */
static char *name_in(const Adding *a, const char *part) { return xformat("encoder.layers.%d.%s", a->layer, part); }

static int add_norm(const Adding *a, int width, const char *part) {
    OWNED char *name = name_in(a, part);
    return network_add_norm(a->network, width, name);
}

static Layer add_linear(const Adding *a, int out, int in, const char *part) {
    OWNED char *name = name_in(a, part);
    return network_add_linear(a->network, out, in, true, name);
}

static Layer add_convolution(const Adding *a, int out, int in, int taps, const char *part) {
    OWNED char *name = name_in(a, part);
    return network_add_convolution(a->network, out, in, taps, false, name);
}

static W2vFeedForward add_feed_forward(const Adding *a, const W2vConfig *c, const char *part) {
    OWNED char *norm = xformat("%s_layer_norm", part), *up = xformat("%s.intermediate_dense", part),
               *down = xformat("%s.output_dense", part);
    W2vFeedForward f = {.norm = add_norm(a, c->hidden, norm)};
    f.up = add_linear(a, c->inner, c->hidden, up);
    f.down = add_linear(a, c->hidden, c->inner, down);
    return f;
}

/* Adds the projections to q, k and v, which one product computes: three weights, then three biases. */
static Layer add_qkv(const Adding *a, int width) {
    Layer qkv = {a->network->table.count, a->network->table.count + 3};
    for (int i = 0; i < 6; i++) {
        OWNED char *name =
            xformat("encoder.layers.%d.self_attn.linear_%c.%s", a->layer, "qkv"[i % 3], i < 3 ? "weight" : "bias");
        int row = network_add(a->network, width, i < 3 ? width : 0, name);
        if (i % 3 == 0) a->network->table.items[row].joined = 2;
    }
    return qkv;
}

static void add_layer(const Adding *a, const W2vConfig *c, W2vLayer *l) {
    int h = c->hidden;
    OWNED char *distances = name_in(a, "self_attn.distance_embedding.weight");
    l->first = add_feed_forward(a, c, "ffn1");
    l->attention_norm = add_norm(a, h, "self_attn_layer_norm");
    l->qkv = add_qkv(a, h);
    l->distances = network_add(a->network, c->left + 1 + c->right, h / c->heads, distances);
    l->attention_out = add_linear(a, h, h, "self_attn.linear_out");
    l->convolution_norm = add_norm(a, h, "conv_module.layer_norm");
    l->expand = add_convolution(a, 2 * h, h, 1, "conv_module.pointwise_conv1");
    l->depthwise = add_convolution(a, h, 1, c->taps, "conv_module.depthwise_conv").weight;
    l->depthwise_norm = add_norm(a, h, "conv_module.depthwise_layer_norm");
    l->contract = add_convolution(a, h, h, 1, "conv_module.pointwise_conv2");
    l->second = add_feed_forward(a, c, "ffn2");
    l->final_norm = add_norm(a, h, "final_layer_norm");
}

/* The factor 1/2 of both feed-forward networks goes into their second layers, which is exact, and the statistics into
 * the last norm. */
static bool fold(const Network *network, const WeightSource *source, int row, int64_t first, int64_t n, float *values,
                 Error *error) {
    const W2v *w2v = (const W2v *)network;
    (void)source, (void)error;
    int last = w2v->layers[w2v->config.layers - 1].final_norm;
    bool halved = false;
    for (int i = 0; i < w2v->config.layers; i++) {
        const Layer a = w2v->layers[i].first.down, b = w2v->layers[i].second.down;
        halved |= row == a.weight || row == a.bias || row == b.weight || row == b.bias;
    }
    int64_t columns = network->table.items[row].columns;
    for (int64_t j = 0; halved && j < n * (columns ? columns : 1); j++) values[j] *= 0.5f;
    for (int64_t j = 0; w2v->mean && (row == last || row == last + 1) && j < n; j++) {
        double value = row == last ? values[j] : (double)values[j] - w2v->mean[first + j];
        values[j] = (float)(value / sqrt((double)w2v->variance[first + j]));
    }
    return true;
}

void w2v_open(W2v *w2v, const W2vConfig *config) {
    *w2v = (W2v){.network = {.name = "w2v-BERT 2.0", .fit = DTYPE_F16, .fold = fold}, .config = *config};
    w2v->input_norm = network_add_norm(&w2v->network, config->input, "feature_projection.layer_norm");
    w2v->projection =
        network_add_linear(&w2v->network, config->hidden, config->input, true, "feature_projection.projection");
    w2v->layers = xcalloc((size_t)config->layers, sizeof *w2v->layers);
    for (int i = 0; i < config->layers; i++) add_layer(&(Adding){&w2v->network, i}, config, &w2v->layers[i]);
}

void w2v_close(W2v *w2v) {
    network_release(&w2v->network);
    free(w2v->layers);
    *w2v = (W2v){0};
}

/* ---- the forward ---- */

typedef struct {
    const W2v *w2v;
    Context context;
    const ClipRows *rows;
    Tensor zeros; /* f32 [clips, hidden] */
} Forward;

static void clear_masked(const Forward *f, Tensor y) { scatter_rows(f->context.device, y, f->zeros, f->rows->masked); }

static void add_feed_forward_of(const Forward *f, const W2vFeedForward *part, Tensor y) {
    const Context *c = &f->context;
    Tensor hidden = network_linear(c, part->up, network_norm(c, part->norm, y, EPSILON));
    silu_forward(c->device, hidden, hidden);
    network_add_to(c, y, network_linear(c, part->down, hidden));
}

static void add_attention(const Forward *f, const W2vLayer *l, Tensor y) {
    const Context *c = &f->context;
    const W2vConfig *config = &f->w2v->config;
    Tensor qkv = network_linear(c, l->qkv, network_norm(c, l->attention_norm, y, EPSILON));
    Tensor out = context_push(c, y.dims[0], y.dims[1]);
    attention_terms_forward(c->device, out, qkv, f->rows->sequences,
                            (Attention){config->heads, false, 1 / sqrtf((float)(config->hidden / config->heads))},
                            (AttentionTerms){.distances = context_matmul_weight(c, l->distances),
                                             .left = config->left,
                                             .right = config->right,
                                             .hidden = f->rows->hidden});
    network_add_to(c, y, network_linear(c, l->attention_out, out));
}

static void add_convolution_of(const Forward *f, const W2vLayer *l, Tensor y) {
    const Context *c = &f->context;
    int taps = f->w2v->config.taps;
    Tensor x = network_norm(c, l->convolution_norm, y, EPSILON);
    clear_masked(f, x);
    Tensor wide = network_linear(c, l->expand, x), gated = context_push(c, y.dims[0], y.dims[1]),
           mixed = context_push(c, y.dims[0], y.dims[1]);
    gate_forward(c->device, gated, wide, GATE_SIGMOID);
    depthwise_forward(c->device, mixed, gated, context_weight(c, l->depthwise), tensor_none(), f->rows->sequences,
                      (DepthwiseWindow){taps, taps - 1, 1});
    Tensor normed = network_norm(c, l->depthwise_norm, mixed, EPSILON);
    silu_forward(c->device, normed, normed);
    network_add_to(c, y, network_linear(c, l->contract, normed));
}

/* Computes the next state, of which y holds only sums meanwhile. */
static void layer_forward(const Forward *f, const W2vLayer *l, Tensor next, Tensor y) {
    Arena *arena = f->context.arena;
    size_t mark = arena_mark(arena);
    add_feed_forward_of(f, &l->first, y);
    arena_release(arena, mark);
    add_attention(f, l, y);
    arena_release(arena, mark);
    add_convolution_of(f, l, y);
    arena_release(arena, mark);
    add_feed_forward_of(f, &l->second, y);
    arena_release(arena, mark);
    network_norm_to(&f->context, next, l->final_norm, y, EPSILON);
}

void w2v_layers_forward(const W2v *w2v, Arena *arena, Tensor result, Tensor y, const ClipRows *rows, W2vDump *dump,
                        void *dump_context) {
    Forward f = {.w2v = w2v, .context = network_context(&w2v->network, arena), .rows = rows};
    Device *device = f.context.device;
    Tensor next = result;
    size_t mark = arena_mark(arena);
    f.zeros = network_push(&f.context, rows->sequences.count, y.dims[1]);
    device->clear(device, f.zeros.data, tensor_bytes(f.zeros));
    clear_masked(&f, y);
    if (dump) dump(dump_context, 0, y);
    for (int i = 0; i < w2v->config.layers; i++) {
        layer_forward(&f, &w2v->layers[i], next, y);
        if (dump) dump(dump_context, i + 1, next);
        Tensor swapped = y;
        y = next;
        next = swapped;
    }
    if (y.data != result.data) network_copy(&f.context, result, y);
    arena_release(arena, mark);
}

Tensor w2v_forward(const W2v *w2v, Arena *arena, Tensor x, const ClipRows *rows, W2vDump *dump, void *dump_context) {
    Context context = network_context(&w2v->network, arena), *c = &context;
    int hidden = w2v->config.hidden;
    Tensor result = network_push(c, x.dims[0], hidden);
    size_t mark = arena_mark(arena);
    Tensor y = network_push(c, x.dims[0], hidden);
    size_t inner = arena_mark(arena);
    network_copy(c, y, network_linear(c, w2v->projection, network_norm(c, w2v->input_norm, x, EPSILON)));
    arena_release(arena, inner);
    w2v_layers_forward(w2v, arena, result, y, rows, dump, dump_context);
    arena_release(arena, mark);
    return result;
}
