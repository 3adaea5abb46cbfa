#include "model/indextts2/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-6f /* unlike all other norms here */

enum { TAPS = 7, PADDING = 3, STRIP = 4096 /* rows of unfolded features at once, or one clip */ };

static const char in_project[] = "quantizer.quantizers.0.in_project";

/* ---- the table ---- */

static void add_block(Network *network, const CodecConfig *c, int i, CodecBlock *b) {
    OWNED char *depthwise = xformat("encoder.0.convnext.%d.dwconv", i),
               *norm = xformat("encoder.0.convnext.%d.norm", i), *up = xformat("encoder.0.convnext.%d.pwconv1", i),
               *down = xformat("encoder.0.convnext.%d.pwconv2", i), *gamma = xformat("encoder.0.convnext.%d.gamma", i);
    b->depthwise = network_add_convolution(network, c->width, 1, TAPS, true, depthwise).weight;
    b->norm = network_add_norm(network, c->width, norm);
    b->up = network_add_linear(network, c->inner, c->width, true, up);
    b->down = network_add_linear(network, c->width, c->inner, true, down);
    b->gamma = network_add(network, c->width, 0, gamma);
}

/* Divides each row by its length, the sum of its squares in double, and multiplies it by a gain (optional). */
static void scale_rows(float *values, int64_t n, int64_t columns, const float *gains) {
    for (int64_t i = 0; i < n; i++) {
        double squares = 0;
        for (int64_t j = 0; j < columns; j++) squares += (double)values[i * columns + j] * values[i * columns + j];
        double factor = (gains ? gains[i] : 1) / fmax(sqrt(squares), 1e-12);
        for (int64_t j = 0; j < columns; j++) values[i * columns + j] = (float)(values[i * columns + j] * factor);
    }
}

static bool multiply_by_gamma(const Network *network, const WeightSource *source, int gamma, int64_t first, int64_t n,
                              int64_t columns, float *values, Error *error) {
    OWNED float *gains = xmalloc((size_t)n * sizeof *gains);
    if (!source->read(source->context, network->table.items[gamma].name, first, n, gains, error)) return false;
    for (int64_t j = 0; j < n * columns; j++) values[j] *= gains[j / columns];
    return true;
}

/* Folds gamma into the layer before it, the weight norm into the projection, and the lengths of the codebook's rows
 * into these. */
static bool fold(const Network *network, const WeightSource *source, int row, int64_t first, int64_t n, float *values,
                 Error *error) {
    const Codec *codec = (const Codec *)network;
    int64_t columns = network->table.items[row].columns ? network->table.items[row].columns : 1;
    for (int i = 0; i < codec->config.blocks; i++) {
        const CodecBlock *b = &codec->blocks[i];
        if (row == b->down.weight || row == b->down.bias)
            return multiply_by_gamma(network, source, b->gamma, first, n, columns, values, error);
    }
    if (row == codec->codebook) scale_rows(values, n, columns, NULL);
    if (row != codec->project.weight) return true;
    OWNED float *gains = xmalloc((size_t)n * sizeof *gains);
    if (!source->read(source->context, network->table.items[codec->gains].name, first, n, gains, error)) return false;
    scale_rows(values, n, columns, gains);
    return true;
}

static void add_projection(Codec *codec) {
    Network *network = &codec->network;
    const CodecConfig *c = &codec->config;
    OWNED char *g = xformat("%s.weight_g", in_project), *v = xformat("%s.weight_v", in_project),
               *bias = xformat("%s.bias", in_project);
    codec->gains = network_add(network, c->code_width, 0, g);
    param_file_shape(&network->table, 3, (int64_t[]){c->code_width, 1, 1});
    codec->project.weight = network_add(network, c->code_width, c->input, v);
    param_file_shape(&network->table, 3, (int64_t[]){c->code_width, c->input, 1});
    codec->project.bias = network_add(network, c->code_width, 0, bias);
    codec->codebook = network_add(network, c->codebook, c->code_width, "quantizer.quantizers.0.codebook.weight");
}

void codec_open(Codec *codec, const CodecConfig *config) {
    *codec = (Codec){.network = {.name = "the semantic codec", .fit = DTYPE_F16, .fold = fold}, .config = *config};
    Network *network = &codec->network;
    codec->embed = network_add_convolution(network, config->width, config->input, TAPS, true, "encoder.0.embed");
    codec->norm = network_add_norm(network, config->width, "encoder.0.norm");
    codec->blocks = xcalloc((size_t)config->blocks, sizeof *codec->blocks);
    for (int i = 0; i < config->blocks; i++) add_block(network, config, i, &codec->blocks[i]);
    codec->final_norm = network_add_norm(network, config->width, "encoder.0.final_layer_norm");
    codec->out = network_add_linear(network, config->input, config->width, true, "encoder.1");
    add_projection(codec);
}

void codec_close(Codec *codec) {
    network_release(&codec->network);
    free(codec->blocks);
    *codec = (Codec){0};
}

/* ---- the forward ---- */

/* y = the first convolution of h, as products of its windows: of whole clips, up to STRIP rows at once. */
static void embed(const Codec *codec, const Context *c, Tensor y, Tensor h, const ClipRows *rows) {
    const int32_t *offsets = rows->sequences.host_offsets;
    Tensor x = network_narrow(c, h);
    for (int first = 0, end; first < rows->sequences.count; first = end) {
        for (end = first + 1; end < rows->sequences.count && offsets[end + 1] - offsets[first] <= STRIP;) end++;
        size_t mark = arena_mark(c->arena);
        int64_t count = offsets[end] - offsets[first];
        Tensor windows = context_push(c, count, x.dims[1] * TAPS);
        for (int s = first; s < end; s++) {
            int64_t length = offsets[s + 1] - offsets[s];
            unfold_forward(c->device, tensor_rows(windows, offsets[s] - offsets[first], length),
                           tensor_rows(x, offsets[s], length), (Window){length, TAPS, 1, PADDING});
        }
        network_copy(c, tensor_rows(y, offsets[first], count), network_linear(c, codec->embed, windows));
        arena_release(c->arena, mark);
    }
}

static void add_block_of(const Codec *codec, const Context *c, const CodecBlock *b, Tensor y, const ClipRows *rows) {
    size_t mark = arena_mark(c->arena);
    Tensor z = network_push(c, y.dims[0], y.dims[1]);
    depthwise_forward(c->device, z, y, context_weight(c, b->depthwise), context_weight(c, b->depthwise + 1),
                      rows->sequences, (DepthwiseWindow){TAPS, PADDING, 1});
    Tensor x = network_narrow(c, network_norm(c, b->norm, z, EPSILON));
    Tensor hidden = context_push(c, y.dims[0], codec->config.inner),
           active = context_push(c, y.dims[0], hidden.dims[1]);
    linear_gelu_forward(c->device, active, hidden, x, context_matmul_weight(c, b->up.weight),
                        context_matmul_weight(c, b->up.bias), WEIGHT_OUT_IN, (GeluDropout){.kind = GELU_ERF});
    network_add_to(c, y, network_linear(c, b->down, active));
    arena_release(c->arena, mark);
}

CodecCodes codec_forward(const Codec *codec, Arena *arena, Tensor h, const ClipRows *rows) {
    Context context = network_context(&codec->network, arena), *c = &context;
    int64_t n = h.dims[0];
    CodecCodes to = {.codes = arena_1d(arena, DTYPE_I32, n),
                     .margins = arena_1d(arena, DTYPE_F32, n),
                     .z = network_push(c, n, codec->config.code_width)};
    size_t mark = arena_mark(arena);
    Tensor y = network_push(c, n, codec->config.width), first = network_push(c, n, codec->config.width);
    embed(codec, c, first, h, rows);
    network_norm_to(c, y, codec->norm, first, EPSILON);
    for (int i = 0; i < codec->config.blocks; i++) add_block_of(codec, c, &codec->blocks[i], y, rows);
    /* Exactly: rounding what the search compares changes codes at once. */
    Tensor out = network_linear_exact(c, codec->out, network_norm(c, codec->final_norm, y, EPSILON));
    network_copy(c, to.z, network_linear_exact(c, codec->project, out));
    Tensor unit = network_push(c, n, codec->config.code_width);
    normalize_rows_forward(c->device, unit, arena_1d(arena, DTYPE_F32, n), to.z);
    nearest_direction(c->device, to.codes, to.margins, unit, context_weight(c, codec->codebook));
    arena_release(arena, mark);
    return to;
}
