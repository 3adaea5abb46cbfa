/* The encoder of the PSD models:
 *
 *   bare rows        W patch + b + position                    straight to the blocks (for the decoder)
 *   full sequences   drop(norm(CLS + position 0 | W patch + b + position))
 *   output           final_norm(blocks(rows)), for all bare rows and for CLS
 *
 * The CNN works on spectra: bare rows bypass it, and its output for a spectrum takes the place of CLS. */
#include "model/psd/encoder.h"

#include <math.h>
#include <stdlib.h>

static const BlockNames encoder_names = {
    .tensor = {"encoder.layers.%d.norm1.weight", "encoder.layers.%d.norm1.bias",
               "encoder.layers.%d.attn.in_proj_weight", "encoder.layers.%d.attn.in_proj_bias",
               "encoder.layers.%d.attn.out_proj.weight", "encoder.layers.%d.attn.out_proj.bias",
               "encoder.layers.%d.norm2.weight", "encoder.layers.%d.norm2.bias", "encoder.layers.%d.ffn.0.weight",
               "encoder.layers.%d.ffn.0.bias", "encoder.layers.%d.ffn.3.weight", "encoder.layers.%d.ffn.3.bias"}};

/* ---- parameters ---- */

/* Returns sine and cosine of p w_k, w_k = 10000^(-2k / width), interleaved (Vaswani et al. 2017), computed in f32 as in
 * the reference. */
static float *position_table(int width) {
    _Static_assert((int)PSD_SEQUENCE <= (int)SHORT_SEQUENCE,
                   "a recording of a pass knows nothing of the decoder's offsets");
    float *table = xcalloc((size_t)(PSD_SEQUENCE * (width + 1)), sizeof *table);
    for (int p = 0; p < PSD_SEQUENCE; p++)
        for (int c = 0; c < width; c += 2) {
            float angle = (float)p * expf((float)c * (float)(-log(10000.0) / width));
            table[p * width + c] = sinf(angle);
            if (c + 1 < width) table[p * width + c + 1] = cosf(angle);
        }
    return table;
}

static void add_patches(PsdEncoder *e, ParamTable *table) {
    int64_t width = e->config.d_model;
    e->positions = position_table(e->config.d_model);
    e->cls = param_add(table, INIT_NORMAL, 0.02f, true, 1, width, "patch_embed.cls_token");
    param_file_shape(table, 3, (const int64_t[]){1, 1, width});
    e->projection = param_add_linear(table, PSD_PATCH, width, "patch_embed.projection");
    e->position_table = param_add_buffer(table, e->positions, PSD_SEQUENCE, width, "patch_embed.pos_enc.pe");
    param_file_shape(table, 3, (const int64_t[]){1, PSD_SEQUENCE, width});
    e->norm = param_add_norm(table, width, "patch_embed.layer_norm");
}

PsdEncoder psd_encoder_open(ParamTable *table, const PsdEncoderConfig *config, bool patches, uint32_t first_site) {
    PsdEncoder e = {.config = *config, .patches = patches || !config->cnn};
    if (config->d_model < 2 || config->d_model % 2) die_usage("encoder: d-model %d must be even", config->d_model);
    if (e.patches) add_patches(&e, table);
    if (config->cnn) { /* CLS and its norm are not used: no gradient, no decay */
        for (int i = e.cls; e.patches && i < table->count; i++)
            if (i < e.projection || i >= e.norm) table->items[i].frozen_rows = table->items[i].rows;
        e.cnn = cnn_open(table, config->d_model);
        return e;
    }
    BlockConfig blocks = {.d_model = config->d_model,
                          .n_heads = config->n_heads,
                          .d_ff = config->d_ff,
                          .pre_norm = true,
                          .biases = true,
                          .gelu = GELU_ERF,
                          .layout = WEIGHT_OUT_IN,
                          .drop_attention = config->dropout,
                          .drop_hidden = config->dropout,
                          .drop_mlp = config->dropout,
                          .first_site = first_site + 1,
                          .torch_init = true,
                          .decay_vectors = true};
    e.blocks = block_stack_open("encoder", table, &blocks, config->n_layers, &encoder_names);
    e.final_norm = param_add_norm(table, config->d_model, "encoder.final_norm");
    return e;
}

void psd_encoder_close(PsdEncoder *e) {
    if (!e->config.cnn) block_stack_close(&e->blocks);
    free(e->positions);
}

/* ---- helpers of both models ---- */

Sequences psd_sequences(const Batch *batch, const Tensor *fields, int offsets) {
    return (Sequences){fields[offsets], batch->fields[offsets].data, (int)fields[offsets].dims[0] - 1};
}

Tensor psd_gather_patches(const Context *context, Tensor spectra, Tensor pieces) {
    int64_t n = pieces.dims[0], in_all = tensor_numel(spectra) / PSD_PIECE;
    Tensor halves = arena_2d(context->arena, DTYPE_F32, n, PSD_PIECE);
    gather_rows(context->device, halves, tensor_2d(spectra.data, DTYPE_F32, in_all, PSD_PIECE), pieces);
    return tensor_2d(halves.data, DTYPE_F32, n / 2, PSD_PATCH);
}

/* Returns x in the type of the activations; pushes a copy if x has another type. */
static Tensor in_type(const Context *context, Tensor x) {
    DType type = context->matmul_weights.dtype;
    if (x.dtype == type) return x;
    Tensor y = arena_2d(context->arena, type, x.dims[0], x.dims[1]);
    cast(context->device, tensor_1d(y.data, type, tensor_numel(y)), tensor_1d(x.data, x.dtype, tensor_numel(x)));
    return y;
}

/* ---- patches to rows ---- */

static Tensor after(Tensor t, int64_t begin) { return tensor_rows(t, begin, t.dims[0] - begin); }

/* Applies the dropout of the embedding to full sequences, or to their gradient. */
static void drop_embedded(const PsdEncoder *e, const Context *context, Tensor x) {
    context_drop(context, x, e->config.dropout, e->blocks.config.first_site - 1);
}

/* Writes the rows of the patches [begin, begin + count), with their positions, to their places in x. */
static void place(const PsdEncoder *e, const Context *context, const Tensor *fields, Tensor x, Tensor y, int64_t begin,
                  int64_t count) {
    place_rows(context->device, x, tensor_rows(y, begin, count), tensor_rows(fields[PSD_PATCH_ROWS], begin, count),
               tensor_rows(fields[PSD_PATCH_POSITIONS], begin, count), context_weight(context, e->position_table));
}

/* Writes the bare rows into x [bare, d]. */
static void embed_bare(const PsdEncoder *e, const Context *context, const Tensor *fields, const PsdEncoded *kept,
                       Tensor x, Tensor y) {
    if (kept->bare) place(e, context, fields, tensor_rows(x, 0, kept->bare), y, 0, kept->bare);
}

/* Writes the full sequences into x [13 S, d]. */
static void embed_full(const PsdEncoder *e, const Context *context, const Tensor *fields, PsdEncoded *kept, Tensor x,
                       Tensor y) {
    int64_t n = x.dims[0];
    Tensor zeros = fields[PSD_CLS_ZEROS];
    kept->embedded = context_push(context, n, x.dims[1]);
    kept->norm = (LayerNormOutput){x, arena_1d(context->arena, DTYPE_F32, n), arena_1d(context->arena, DTYPE_F32, n)};
    place(e, context, fields, kept->embedded, y, kept->bare, y.dims[0] - kept->bare);
    embedding_forward(context->device, kept->embedded, fields[PSD_CLS_ROWS], zeros, context_weight(context, e->cls),
                      zeros, context_weight(context, e->position_table));
    layernorm_forward(context->device, kept->norm, kept->embedded, context_weight(context, e->norm),
                      context_weight(context, e->norm + 1), LAYERNORM_EPSILON);
    drop_embedded(e, context, x);
}

/* The bare rows are in the order of their patches, so dx is the gradient of the projection without a gather. */
static void embed_bare_backward(const PsdEncoder *e, const PsdEncoded *kept, Tensor dx) {
    if (kept->bare)
        context_linear_backward(&kept->context, e->projection, tensor_none(), tensor_rows(dx, 0, kept->bare),
                                tensor_rows(kept->patches, 0, kept->bare));
}

static void embed_full_backward(const PsdEncoder *e, const Tensor *fields, const PsdEncoded *kept, Tensor dx) {
    const Context *context = &kept->context;
    Tensor none = tensor_none(), patches = after(kept->patches, kept->bare);
    Tensor dembedded = context_push(context, dx.dims[0], dx.dims[1]);
    Tensor dy = context_push(context, patches.dims[0], dx.dims[1]);
    drop_embedded(e, context, dx);
    context_norm_backward(context, e->norm, e->norm + 1, dembedded, dx, kept->embedded, kept->norm);
    embedding_backward(context->device, context_gradient(context, e->cls), none, dembedded, fields[PSD_CLS_ROWS],
                       fields[PSD_CLS_ZEROS], none);
    gather_rows(context->device, dy, dembedded, after(fields[PSD_PATCH_ROWS], kept->bare));
    context_linear_backward(context, e->projection, none, dy, patches);
}

/* ---- the CNN: bare rows bypass it; batch norms see one view at a time, because the reference calls it twice ---- */

static Tensor cnn_encode(PsdEncoder *e, const Context *context, const Batch *batch, const Tensor *fields,
                         PsdEncoded *kept, Tensor y) {
    Tensor spectra = fields[PSD_SPECTRA], out = context_push(context, kept->bare + spectra.dims[0], e->config.d_model);
    kept->views = (int)(spectra.dims[0] / batch->n_sequences);
    embed_bare(e, context, fields, kept, out, y);
    for (int v = 0; v < kept->views; v++) {
        int64_t n = batch->n_sequences, begin = v * n;
        Tensor values = arena_2d(context->arena, DTYPE_F32, n, fields[batch->n_fields].dims[1]);
        gather_rows(context->device, values, fields[batch->n_fields], tensor_rows(spectra, begin, n));
        cnn_forward(&e->cnn, context, &kept->of[v], in_type(context, values), tensor_rows(out, kept->bare + begin, n));
    }
    return out;
}

static void cnn_encode_backward(PsdEncoder *e, const PsdEncoded *kept, Tensor dy) {
    embed_bare_backward(e, kept, dy);
    int64_t n = (dy.dims[0] - kept->bare) / kept->views;
    for (int v = 0; v < kept->views; v++)
        cnn_backward(&e->cnn, &kept->context, &kept->of[v], tensor_rows(dy, kept->bare + v * n, n));
}

/* ---- the encoder ---- */

Tensor psd_encoder_forward(PsdEncoder *e, const Context *context, const Batch *batch, const Tensor *fields,
                           PsdEncoded *kept) {
    Tensor y = tensor_none();
    *kept = (PsdEncoded){.context = *context,
                         .bare = tensor_given(fields[PSD_VISIBLE_ROWS]) ? fields[PSD_VISIBLE_ROWS].dims[0] : 0};
    if (tensor_given(fields[PSD_PIECES])) {
        kept->patches = in_type(context, psd_gather_patches(context, fields[batch->n_fields], fields[PSD_PIECES]));
        y = context_linear(context, e->projection, kept->patches);
    }
    if (e->config.cnn) return cnn_encode(e, context, batch, fields, kept, y);
    kept->rows =
        (BlockRows){.sequences = psd_sequences(batch, fields, PSD_OFFSETS), .outputs = fields[PSD_OUTPUT_ROWS]};
    Tensor x = context_push(context, kept->bare + PSD_SEQUENCE * fields[PSD_CLS_ROWS].dims[0], e->config.d_model);
    embed_bare(e, context, fields, kept, x, y);
    embed_full(e, context, fields, kept, after(x, kept->bare), y);
    pass_dump(context->pass, x, "embedded");
    kept->x = blocks_forward(&e->blocks, context, &kept->rows, x);
    kept->last = context_norm(context, e->final_norm, e->final_norm + 1, kept->x);
    return kept->last.y;
}

void psd_encoder_backward(PsdEncoder *e, const Tensor *fields, const PsdEncoded *kept, Tensor dy) {
    const Context *context = &kept->context;
    if (e->config.cnn) {
        cnn_encode_backward(e, kept, dy);
        return;
    }
    Tensor dx = context_push(context, dy.dims[0], dy.dims[1]);
    context_norm_backward(context, e->final_norm, e->final_norm + 1, dx, dy, kept->x, kept->last);
    dx = blocks_backward(&e->blocks, context, &kept->rows, dx);
    embed_bare_backward(e, kept, dx);
    embed_full_backward(e, fields, kept, after(dx, kept->bare));
}
