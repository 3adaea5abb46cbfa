#include "model/indextts2/conformer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-5f

/* Rows at 25 Hz whose unfolded subsampling is in memory at once. A strip reads the matrix of `flatten` once, half a
 * gigabyte: a GPU needs some hundred rows to be kept busy meanwhile. */
enum { STRIP = 512, HOST_STRIP = 64 };
/* Rows of a strip that are convolved at once: 17 MB in 16 bits, which a GPU's L2 still holds when the ReLU follows. */
enum { PIECE = 32 };

/* Columns of an image [rows, input] behind a 3 x 3 convolution with stride 2. */
static int64_t columns_of(const ConformerConfig *c) { return (c->input - 1) / 2; }

/* ---- the table ---- */

typedef struct {
    Network *network;
    const char *prefix; /* "conditioning_encoder.encoders.0" */
} Adding;

static int add_norm(const Adding *a, int width, const char *part) {
    OWNED char *name = xformat("%s.%s", a->prefix, part);
    return network_add_norm(a->network, width, name);
}

static Layer add_linear(const Adding *a, int64_t out, int64_t in, const char *part) {
    OWNED char *name = xformat("%s.%s", a->prefix, part);
    return network_add_linear(a->network, out, in, true, name);
}

static Layer add_convolution(const Adding *a, int64_t out, int64_t in, int taps, const char *part) {
    OWNED char *name = xformat("%s.conv_module.%s", a->prefix, part);
    return network_add_convolution(a->network, out, in, taps, true, name);
}

static int add_numbers(const Adding *a, int64_t rows, int64_t columns, const char *part) {
    OWNED char *name = xformat("%s.self_attn.%s", a->prefix, part);
    return network_add(a->network, rows, columns, name);
}

static Layer add_qkv(const Adding *a, int width) {
    Layer qkv = {a->network->table.count, a->network->table.count + 3};
    for (int i = 0; i < 6; i++) {
        OWNED char *part = xformat("linear_%c.%s", "qkv"[i % 3], i < 3 ? "weight" : "bias");
        int row = add_numbers(a, width, i < 3 ? width : 0, part);
        if (i % 3 == 0) a->network->table.items[row].joined = 2;
    }
    return qkv;
}

static void add_block(const Adding *a, const ConformerConfig *c, ConformerBlock *b) {
    int d = c->width;
    b->attention_norm = add_norm(a, d, "norm_mha");
    b->qkv = add_qkv(a, d);
    b->position = add_numbers(a, d, d, "linear_pos.weight");
    b->content_bias = add_numbers(a, c->heads, d / c->heads, "pos_bias_u");
    b->position_bias = add_numbers(a, c->heads, d / c->heads, "pos_bias_v");
    b->attention_out = add_linear(a, d, d, "self_attn.linear_out");
    b->convolution_norm = add_norm(a, d, "norm_conv");
    b->expand = add_convolution(a, 2 * d, d, 1, "pointwise_conv1");
    b->depthwise = add_convolution(a, d, 1, c->taps, "depthwise_conv").weight;
    b->depthwise_norm = add_norm(a, d, "conv_module.norm");
    b->contract = add_convolution(a, d, d, 1, "pointwise_conv2");
    b->feed_norm = add_norm(a, d, "norm_ff");
    b->up = add_linear(a, c->inner, d, "feed_forward.w_1");
    b->down = add_linear(a, d, c->inner, "feed_forward.w_2");
    b->final_norm = add_norm(a, d, "norm_final");
}

void conformer_open(Conformer *conformer, Network *network, const ConformerConfig *config, const char *prefix) {
    *conformer = (Conformer){.network = network, .config = *config};
    OWNED char *convolution = xformat("%s.embed.conv.0", prefix), *flatten = xformat("%s.embed.out.0", prefix),
               *norm = xformat("%s.after_norm", prefix);
    OWNED char *weight = xformat("%s.weight", convolution), *bias = xformat("%s.bias", convolution);
    int d = config->width;
    conformer->convolution.weight = network_add(network, d, 9, weight);
    param_file_shape(&network->table, 4, (int64_t[]){d, 1, 3, 3});
    conformer->convolution.bias = network_add(network, d, 0, bias);
    conformer->flatten = network_add_linear(network, d, d * columns_of(config), true, flatten);
    conformer->blocks = xcalloc((size_t)config->blocks, sizeof *conformer->blocks);
    for (int i = 0; i < config->blocks; i++) {
        OWNED char *block = xformat("%s.encoders.%d", prefix, i);
        add_block(&(Adding){network, block}, config, &conformer->blocks[i]);
    }
    conformer->norm = network_add_norm(network, d, norm);
}

/* Turns columns [channel, position], the reference's order, into [position, channel], that of our convolution's rows.
 */
static void swap_columns(float *row, int64_t channels, int64_t positions, float *copy) {
    memcpy(copy, row, (size_t)(channels * positions) * sizeof *row);
    for (int64_t p = 0; p < positions; p++)
        for (int64_t c = 0; c < channels; c++) row[p * channels + c] = copy[c * positions + p];
}

bool conformer_fold(const Conformer *conformer, int row, int64_t n, float *values) {
    const ConformerConfig *c = &conformer->config;
    const Layer flatten = conformer->flatten;
    if (row != flatten.weight && row != flatten.bias) return false;
    int64_t columns = row == flatten.weight ? c->width * columns_of(c) : 1;
    double factor = sqrt((double)c->width); /* follows the layer in the reference */
    OWNED float *copy = xmalloc((size_t)columns * sizeof *copy);
    for (int64_t i = 0; i < n; i++) {
        if (row == flatten.weight) swap_columns(values + i * columns, c->width, columns_of(c), copy);
        for (int64_t j = 0; j < columns; j++) values[i * columns + j] = (float)(values[i * columns + j] * factor);
    }
    return true;
}

/* ---- tables of positions ---- */

/* Fills the sinusoids [rows, width] of absolute positions, as torch computes them: angles in f32. */
static void fill_sinusoids(float *table, int64_t rows, int64_t width) {
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i < width; i += 2) {
            float rate = expf((float)i * (float)-(log(10000.0) / (double)width)), angle = (float)t * rate;
            table[t * width + i] = sinf(angle);
            if (i + 1 < width) table[t * width + i + 1] = cosf(angle);
        }
}

/* A score of query i and key j is q_i . (k_j + p_j) + u . k_j + w . p_j, where p_j = linear_pos of position j, and u
 * and w are the head's biases: with k' = k + p the rest is u . k'_j + (w - u) . p_j, a number of the key. p, keys and
 * terms are [longest, ...]; content is [heads, 3 width]. */
static void make_tables(const Conformer *conformer, const float *u, const float *w, const float *p, float *keys,
                        float *terms, float *content) {
    const ConformerConfig *c = &conformer->config;
    int64_t d = c->width, size = d / c->heads;
    for (int64_t t = 0; t < c->longest; t++) {
        memcpy(keys + (3 * t + 1) * d, p + t * d, (size_t)d * sizeof *p);
        for (int64_t h = 0; h < c->heads; h++) {
            double sum = 0;
            for (int64_t j = h * size; j < (h + 1) * size; j++) sum += ((double)w[j] - u[j]) * p[t * d + j];
            terms[t * c->heads + h] = (float)sum;
        }
    }
    for (int64_t j = 0; j < d; j++) content[(j / size * 3 + 1) * d + j] = u[j];
}

static void prepare_block(const Conformer *conformer, Arena *arena, int block, const float *sinusoids) {
    const ConformerConfig *c = &conformer->config;
    const ConformerBlock *b = &conformer->blocks[block];
    const ConformerTables *to = &conformer->tables[block];
    Context context = network_context(conformer->network, arena);
    Device *device = context.device;
    int64_t d = c->width, n = c->longest;
    size_t mark = arena_mark(arena);
    Tensor x = network_push(&context, n, d);
    device->upload(device, x.data, sinusoids, tensor_bytes(x));
    Tensor p = network_linear_exact(&context, (Layer){b->position, -1}, x),
           content = network_push(&context, c->heads, 3 * d);
    OWNED float *on_host =
        xcalloc((size_t)(n * d + 2 * d + n * 3 * d + n * c->heads + c->heads * 3 * d), sizeof *on_host);
    float *u = on_host + n * d, *w = u + d, *keys = w + d, *terms = keys + n * 3 * d, *contents = terms + n * c->heads;
    device->download(device, on_host, p.data, tensor_bytes(p));
    device->download(device, u, context_weight(&context, b->content_bias).data, (size_t)d * sizeof *u);
    device->download(device, w, context_weight(&context, b->position_bias).data, (size_t)d * sizeof *w);
    make_tables(conformer, u, w, on_host, keys, terms, contents);
    device->upload(device, to->keys.data, keys, tensor_bytes(to->keys));
    device->upload(device, to->terms.data, terms, tensor_bytes(to->terms));
    device->upload(device, content.data, contents, tensor_bytes(content));
    network_copy(&context, to->content, content);
    device->synchronize(device);
    arena_release(arena, mark);
}

void conformer_prepare(Conformer *conformer, Arena *arena) {
    const ConformerConfig *c = &conformer->config;
    Device *device = conformer->network->device;
    DType type = conformer->network->type;
    size_t keys = (size_t)(c->longest * 3 * c->width) * sizeof(float),
           terms = (size_t)(c->longest * c->heads) * sizeof(float),
           content = (size_t)(c->heads * 3 * c->width) * sizeof(float), each = keys + terms + content;
    OWNED float *sinusoids = xmalloc((size_t)(c->longest * c->width) * sizeof *sinusoids);
    fill_sinusoids(sinusoids, c->longest, c->width);
    conformer->bytes = each * (size_t)c->blocks;
    conformer->memory = device->allocate(device, conformer->bytes);
    conformer->tables = xcalloc((size_t)c->blocks, sizeof *conformer->tables);
    for (int i = 0; i < c->blocks; i++) {
        char *at = (char *)conformer->memory + (size_t)i * each;
        conformer->tables[i] = (ConformerTables){.keys = tensor_2d(at, DTYPE_F32, c->longest, 3 * c->width),
                                                 .terms = tensor_2d(at + keys, DTYPE_F32, c->longest, c->heads),
                                                 .content = tensor_2d(at + keys + terms, type, c->heads, 3 * c->width)};
        prepare_block(conformer, arena, i, sinusoids);
    }
}

void conformer_close(Conformer *conformer) {
    Device *device = conformer->network->device;
    if (conformer->memory) device->release(device, conformer->memory, conformer->bytes);
    FREE(conformer->tables, conformer->blocks);
    *conformer = (Conformer){0};
}

/* ---- the forward ---- */

typedef struct {
    const Conformer *conformer;
    Context context;
    const ClipRows *rows; /* at 25 Hz */
    Tensor zeros;         /* f32 [clips, width] */
} Forward;

static void clear_masked(const Forward *f, Tensor y) { scatter_rows(f->context.device, y, f->zeros, f->rows->masked); }

/* Computes rows first .. first + n - 1 at 25 Hz of a clip whose features are x: T [n, columns width] of the unfolded
 * subsampling. */
static void convolve(const Forward *f, Tensor to, Tensor x, int64_t first, int64_t n) {
    const Conformer *conformer = f->conformer;
    const Context *c = &f->context;
    int64_t width = conformer->config.input, columns = columns_of(&conformer->config);
    Tensor part = tensor_rows(x, 2 * first, 2 * n + 1);
    conv3d_forward(c->device, tensor_2d(to.data, to.dtype, n * columns, conformer->config.width),
                   tensor_2d(part.data, part.dtype, part.dims[0] * width, 1),
                   context_matmul_weight(c, conformer->convolution.weight),
                   context_matmul_weight(c, conformer->convolution.bias),
                   (Convolution){{1, (int)part.dims[0], (int)width}, {1, 3, 3}, {1, 2, 2}, {0, 0, 0}});
}

/* y = the subsampling of h, in strips of rows at 25 Hz, which may hold several clips or a part of one. */
static void subsample(const Forward *f, Tensor y, Tensor h, const ClipRows *whole) {
    const Context *c = &f->context;
    const int32_t *from = whole->sequences.host_offsets, *to = f->rows->sequences.host_offsets;
    int64_t strip = c->device->host_memory ? HOST_STRIP : STRIP, piece = c->device->host_memory ? HOST_STRIP : PIECE;
    int64_t d = f->conformer->config.width;
    Tensor x = network_narrow(c, h), wide = context_push(c, strip, d * columns_of(&f->conformer->config));
    for (int64_t first = 0, s = 0; first < y.dims[0]; first += strip) {
        int64_t end = first + strip < y.dims[0] ? first + strip : y.dims[0];
        size_t mark = arena_mark(c->arena);
        for (int64_t row = first; row < end;) {
            while (to[s + 1] <= row) s++;
            int64_t n = (to[s + 1] < end ? to[s + 1] : end) - row;
            if (n > piece) n = piece;
            Tensor part = tensor_rows(wide, row - first, n);
            convolve(f, part, tensor_rows(x, from[s], from[s + 1] - from[s]), row - to[s], n);
            leaky_relu_forward(c->device, part, part, 0);
            row += n;
        }
        Tensor strip_of = tensor_rows(wide, 0, end - first);
        network_copy(c, tensor_rows(y, first, end - first), network_linear(c, f->conformer->flatten, strip_of));
        arena_release(c->arena, mark);
    }
}

static void add_attention(const Forward *f, int block, Tensor y) {
    const ConformerConfig *config = &f->conformer->config;
    const ConformerBlock *b = &f->conformer->blocks[block];
    const ConformerTables *tables = &f->conformer->tables[block];
    const Context *c = &f->context;
    const ClipRows *r = f->rows;
    int64_t n = y.dims[0], d = config->width;
    Tensor plain = network_linear(c, b->qkv, network_norm(c, b->attention_norm, y, EPSILON));
    Tensor qkv = context_push(c, n, 3 * d), out = context_push(c, n, d), terms = network_push(c, n, config->heads);
    place_rows(c->device, qkv, plain, r->rows, r->positions, tables->keys);
    Tensor content = context_push(c, n, config->heads);
    linear_forward(c->device, content, qkv, tables->content, tensor_none(), WEIGHT_OUT_IN);
    place_rows(c->device, terms, network_widen(c, content), r->rows, r->positions, tables->terms);
    attention_terms_forward(c->device, out, qkv, r->sequences,
                            (Attention){config->heads, false, 1 / sqrtf((float)(d / config->heads))},
                            (AttentionTerms){.key_terms = terms, .hidden = r->hidden});
    network_add_to(c, y, network_linear(c, b->attention_out, out));
}

static void add_convolution_of(const Forward *f, const ConformerBlock *b, Tensor y) {
    const Context *c = &f->context;
    const ConformerConfig *config = &f->conformer->config;
    Tensor x = network_norm(c, b->convolution_norm, y, EPSILON);
    clear_masked(f, x);
    Tensor wide = network_linear(c, b->expand, x), gated = context_push(c, y.dims[0], y.dims[1]),
           mixed = context_push(c, y.dims[0], y.dims[1]);
    gate_forward(c->device, gated, wide, GATE_SIGMOID);
    depthwise_forward(c->device, mixed, gated, context_weight(c, b->depthwise), context_weight(c, b->depthwise + 1),
                      f->rows->sequences, (DepthwiseWindow){config->taps, config->taps / 2, 1});
    Tensor normed = network_norm(c, b->depthwise_norm, mixed, EPSILON);
    silu_forward(c->device, normed, normed);
    Tensor branch = network_widen(c, network_linear(c, b->contract, normed));
    clear_masked(f, branch);
    network_add_to(c, y, branch);
}

static void add_feed_forward(const Forward *f, const ConformerBlock *b, Tensor y) {
    const Context *c = &f->context;
    Tensor hidden = network_linear(c, b->up, network_norm(c, b->feed_norm, y, EPSILON));
    silu_forward(c->device, hidden, hidden);
    network_add_to(c, y, network_linear(c, b->down, hidden));
}

Tensor conformer_forward(const Conformer *conformer, Arena *arena, Tensor h, const ClipRows *rows,
                         const ClipRows *half) {
    Forward f = {.conformer = conformer, .context = network_context(conformer->network, arena), .rows = half};
    const Context *c = &f.context;
    int64_t d = conformer->config.width;
    Tensor result = network_push(c, half->count, d);
    size_t mark = arena_mark(arena);
    Tensor y = network_push(c, half->count, d), next = network_push(c, half->count, d);
    f.zeros = network_push(c, half->sequences.count, d);
    c->device->clear(c->device, f.zeros.data, tensor_bytes(f.zeros));
    size_t inner = arena_mark(arena);
    subsample(&f, y, h, rows);
    arena_release(arena, inner);
    for (int i = 0; i < conformer->config.blocks; i++) {
        const ConformerBlock *b = &conformer->blocks[i];
        add_attention(&f, i, y);
        arena_release(arena, inner);
        add_convolution_of(&f, b, y);
        arena_release(arena, inner);
        add_feed_forward(&f, b, y);
        arena_release(arena, inner);
        network_norm_to(c, next, b->final_norm, y, EPSILON);
        Tensor swapped = y;
        y = next;
        next = swapped;
    }
    network_norm_to(c, result, conformer->norm, y, EPSILON);
    arena_release(arena, mark);
    return result;
}
