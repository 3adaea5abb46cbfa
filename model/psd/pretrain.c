/* Pretraining of the PSD encoder: two losses over one packed batch.
 *
 * MAE (He et al. 2022): the encoder sees only the visible patches; a small decoder sees its outputs, with a mask token
 * in the other places, and predicts the masked patches; the loss is their squared error.
 *
 * SICR: CLS of a spectrum and of its partner, a spectrum of the same class from another sensor, pass a projection head;
 * the loss is NT-Xent (Chen et al. 2020), with similarities in f32 whatever the other activations are.
 *
 * After the decoder's last attention only masked rows are computed, after the encoder's only the output rows. */
#include <stdlib.h>

#include "model/psd/encoder.h"

enum { MAE_LOSS, SICR_LOSS, METRICS };
enum { SITE_ENCODER, SITE_DECODER = 1 << 12 }; /* first dropout sites */
enum { DECODER_HEADS = 4 };

typedef struct {
    Model base; /* first: a Model * of ours is a Pretrain * */
    PsdPretrainConfig config;
    PsdEncoder encoder;
    BlockStack decoder;
    /* Rows of the parameter table. For a linear layer, that of the weight; the bias is the next row. */
    int mask, positions, input, output, project[2];
} Pretrain;

static const BlockNames decoder_names = {
    .tensor = {"decoder.decoder.layers.%d.norm1.weight", "decoder.decoder.layers.%d.norm1.bias",
               "decoder.decoder.layers.%d.self_attn.in_proj_weight", "decoder.decoder.layers.%d.self_attn.in_proj_bias",
               "decoder.decoder.layers.%d.self_attn.out_proj.weight",
               "decoder.decoder.layers.%d.self_attn.out_proj.bias", "decoder.decoder.layers.%d.norm2.weight",
               "decoder.decoder.layers.%d.norm2.bias", "decoder.decoder.layers.%d.linear1.weight",
               "decoder.decoder.layers.%d.linear1.bias", "decoder.decoder.layers.%d.linear2.weight",
               "decoder.decoder.layers.%d.linear2.bias"}};

/* ---- parameters ---- */

static void add_decoder(Pretrain *p) {
    const PsdPretrainConfig *c = &p->config;
    ParamTable *table = &p->base.params;
    int64_t e = c->decoder_dim;
    BlockConfig blocks = {.d_model = c->decoder_dim,
                          .n_heads = DECODER_HEADS,
                          .d_ff = 2 * c->decoder_dim,
                          .pre_norm = true,
                          .biases = true,
                          .gelu = GELU_ERF,
                          .layout = WEIGHT_OUT_IN,
                          .drop_attention = c->decoder_dropout,
                          .drop_projection = c->decoder_dropout,
                          .drop_hidden = c->decoder_dropout,
                          .drop_mlp = c->decoder_dropout,
                          .first_site = SITE_DECODER,
                          .torch_init = true,
                          .same_init = true,
                          .decay_vectors = true,
                          .dumped = "decoder."};
    p->mask = param_add(table, INIT_NORMAL, 0.02f, true, 1, e, "decoder.mask_token");
    param_file_shape(table, 3, (const int64_t[]){1, 1, e});
    p->positions = param_add(table, INIT_NORMAL, 0.02f, true, PSD_PATCHES, e, "decoder.pos_embed");
    param_file_shape(table, 3, (const int64_t[]){1, PSD_PATCHES, e});
    p->input = param_add_linear(table, c->encoder.d_model, e, "decoder.input_proj");
    p->decoder = block_stack_open("decoder", table, &blocks, c->decoder_layers, &decoder_names);
    p->output = param_add_linear(table, e, PSD_PATCH, "decoder.output_proj");
}

static void check_config(const PsdPretrainConfig *c) {
    if (c->decoder_dim % DECODER_HEADS) die_usage("decoder: dim %d must be a multiple of 4, its heads", c->decoder_dim);
    if (c->projection_dim < 1) die_usage("sicr: projection dim %d; at least 1", c->projection_dim);
    if (!(c->temperature > 0)) die_usage("sicr: temperature %g must be above 0", (double)c->temperature);
    if (!(c->sicr_weight >= 0)) die_usage("sicr: lambda %g must not be negative", (double)c->sicr_weight);
}

/* ---- the masked autoencoder ---- */

/* Returns the decoder's rows [12 B, e]: the encoder's where visible, the mask token elsewhere, plus positions. */
static Tensor fill_decoder(const Pretrain *p, const Context *context, const Tensor *fields, Tensor visible) {
    Tensor x = context_push(context, fields[PSD_DECODER_POSITIONS].dims[0], p->config.decoder_dim);
    Tensor positions = context_weight(context, p->positions);
    place_rows(context->device, x, visible, fields[PSD_VISIBLE_ROWS], fields[PSD_VISIBLE_POSITIONS], positions);
    embedding_forward(context->device, x, fields[PSD_MASKED_ROWS], fields[PSD_MASKED_ZEROS],
                      context_weight(context, p->mask), fields[PSD_MASKED_POSITIONS], positions);
    return x;
}

/* Computes the gradient of `visible` from that of the decoder's rows. */
static void fill_decoder_backward(const Pretrain *p, const Context *context, const Tensor *fields, Tensor dvisible,
                                  Tensor dx) {
    Tensor none = tensor_none();
    gather_rows(context->device, dvisible, dx, fields[PSD_VISIBLE_ROWS]);
    embedding_backward(context->device, context_gradient(context, p->mask), none, dx, fields[PSD_MASKED_ROWS],
                       fields[PSD_MASKED_ZEROS], none);
    embedding_backward(context->device, context_gradient(context, p->positions), none, dx, none,
                       fields[PSD_DECODER_POSITIONS], none);
}

/* Computes the loss, and in training dh, of the encoder's visible rows h [B V, d]. */
static void mae_run(Pretrain *p, const Context *context, const Batch *batch, const Tensor *fields, Tensor h,
                    Tensor dh) {
    const Pass *pass = context->pass;
    Device *device = context->device;
    size_t mark = arena_mark(context->arena);
    BlockRows rows = {.sequences = psd_sequences(batch, fields, PSD_DECODER_OFFSETS),
                      .outputs = fields[PSD_MASKED_ROWS]};

    Tensor targets = psd_gather_patches(context, fields[batch->n_fields], fields[PSD_TARGET_PIECES]);
    Tensor visible = context_linear(context, p->input, h), x = fill_decoder(p, context, fields, visible);
    Tensor decoded = blocks_forward(&p->decoder, context, &rows, x),
           predicted = context_linear(context, p->output, decoded);
    Tensor loss = arena_1d(context->arena, DTYPE_F32, predicted.dims[0]);
    pass_dump(pass, predicted, "mae.predicted");
    pass_dump(pass, targets, "mae.targets");
    if (pass->train) {
        squared_error_forward_backward(device, loss, predicted, targets, tensor_rows(pass->loss_scale, MAE_LOSS, 1),
                                       p->base.loss_scale);
        Tensor ddecoded = context_push(context, decoded.dims[0], decoded.dims[1]);
        Tensor dvisible = context_push(context, visible.dims[0], visible.dims[1]);
        context_linear_backward(context, p->output, ddecoded, predicted, decoded);
        Tensor dx = blocks_backward(&p->decoder, context, &rows, ddecoded);
        fill_decoder_backward(p, context, fields, dvisible, dx);
        context_linear_backward(context, p->input, dh, dvisible, h);
    } else {
        squared_error_forward(device, loss, predicted, targets);
    }
    sum_forward(device, tensor_rows(pass->sums, MAE_LOSS, 1), loss);
    arena_release(context->arena, mark);
}

/* ---- the contrast ---- */

/* Computes the loss, and in training dh, of CLS of both views h [2 B, d]. */
static void sicr_run(Pretrain *p, const Context *context, Tensor h, Tensor dh) {
    const Pass *pass = context->pass;
    Device *device = context->device;
    size_t mark = arena_mark(context->arena);
    int64_t n = h.dims[0], q = p->config.projection_dim;
    Tensor hidden = context_push(context, n, h.dims[1]), activated = context_push(context, n, h.dims[1]);
    linear_gelu_forward(device, activated, hidden, h, context_matmul_weight(context, p->project[0]),
                        context_matmul_weight(context, p->project[0] + 1), WEIGHT_OUT_IN,
                        (GeluDropout){.kind = GELU_ERF});
    Tensor projected = context_linear(context, p->project[1], activated);
    Tensor z = arena_2d(context->arena, DTYPE_F32, n, q), norms = arena_1d(context->arena, DTYPE_F32, n);
    Tensor loss = arena_1d(context->arena, DTYPE_F32, n), lse = arena_1d(context->arena, DTYPE_F32, n);
    normalize_rows_forward(device, z, norms, projected);
    pass_dump(pass, z, "sicr.z");
    nt_xent_forward(device, loss, lse, z, p->config.temperature);
    sum_forward(device, tensor_rows(pass->sums, SICR_LOSS, 1), loss);
    if (pass->train) {
        Tensor dz = arena_2d(context->arena, DTYPE_F32, n, q), dprojected = context_push(context, n, q);
        Tensor dhidden = context_push(context, n, h.dims[1]), first = context_matmul_weight(context, p->project[1]);
        nt_xent_backward(device, dz, z, lse, p->config.temperature, tensor_rows(pass->loss_scale, SICR_LOSS, 1),
                         p->base.loss_scale);
        normalize_rows_backward(device, dprojected, dz, z, norms);
        gelu_linear_backward(device, context_layer_gradients(context, p->project[1], p->project[1] + 1, dhidden),
                             dprojected, activated, hidden, first, WEIGHT_OUT_IN, (GeluDropout){.kind = GELU_ERF});
        context_linear_backward(context, p->project[0], dh, dhidden, h);
    }
    arena_release(context->arena, mark);
}

/* ---- one micro-batch ---- */

static void pretrain_forward_backward(Model *model, Device *device, Arena *activations, const Batch *batch,
                                      const Tensor *fields, const Pass *pass) {
    Pretrain *p = (Pretrain *)model;
    Context context = context_of(model, device, activations, pass);
    PsdEncoded kept;
    size_t mark = arena_mark(activations);
    Tensor h = psd_encoder_forward(&p->encoder, &context, batch, fields, &kept), dh = tensor_none();
    pass_dump(pass, h, "encoded");
    if (pass->train) dh = context_push(&context, h.dims[0], h.dims[1]);
    int64_t bare = kept.bare, whole = h.dims[0] - bare;
    mae_run(p, &context, batch, fields, tensor_rows(h, 0, bare), pass->train ? tensor_rows(dh, 0, bare) : dh);
    sicr_run(p, &context, tensor_rows(h, bare, whole), pass->train ? tensor_rows(dh, bare, whole) : dh);
    if (pass->train) psd_encoder_backward(&p->encoder, fields, &kept, dh);
    arena_release(activations, mark);
}

static void pretrain_close(Model *model) {
    Pretrain *p = (Pretrain *)model;
    psd_encoder_close(&p->encoder);
    block_stack_close(&p->decoder);
    params_free(&model->params);
    free(p);
}

Model *psd_pretrain_open(const PsdPretrainConfig *config) {
    check_config(config);
    Pretrain *p = xcalloc(1, sizeof *p);
    p->config = *config;
    p->base = (Model){.name = "psd_mpae",
                      .metrics = {[MAE_LOSS] = {"mae_loss", PSD_COUNT_MASKED, 1},
                                  [SICR_LOSS] = {"sicr_loss", PSD_COUNT_PAIRED, config->sicr_weight}},
                      .n_metrics = METRICS,
                      .forward_backward = pretrain_forward_backward,
                      .close = pretrain_close};
    p->encoder = psd_encoder_open(&p->base.params, &config->encoder, true, SITE_ENCODER);
    add_decoder(p);
    int d = config->encoder.d_model;
    p->project[0] = param_add_linear(&p->base.params, d, d, "projection_head.net.0");
    p->project[1] = param_add_linear(&p->base.params, d, config->projection_dim, "projection_head.net.2");
    return &p->base;
}
