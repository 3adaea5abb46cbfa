/* The classifier of power spectra: the encoder's CLS (or the CNN's output), a head, weighted cross-entropy. */
#include <stdlib.h>

#include "model/psd/encoder.h"

enum { LOSS, ACCURACY, METRICS };
enum { SITE_ENCODER, SITE_HEAD = 1 << 12 }; /* first dropout sites */
enum { GROUP_ENCODER, GROUP_HEAD };

typedef struct {
    Model base; /* first: a Model * of ours is a Classifier * */
    PsdClassifierConfig config;
    PsdEncoder encoder;
    int head[2]; /* rows of the parameter table; a linear head has only the last */
} Classifier;

static void add_head(Classifier *c) {
    ParamTable *table = &c->base.params;
    int first = table->count, d = c->config.encoder.d_model;
    if (c->config.head_dim) {
        c->head[0] = param_add_linear(table, d, c->config.head_dim, "classifier.head.0");
        c->head[1] = param_add_linear(table, c->config.head_dim, PSD_CLASSES, "classifier.head.3");
    } else {
        c->head[1] = param_add_linear(table, d, PSD_CLASSES, "classifier.head");
    }
    for (int i = first; i < table->count; i++) table->items[i].group = GROUP_HEAD;
    param_add_buffer(table, c->config.class_weights, PSD_CLASSES, 0, "class_weights");
}

/* What the backward of the head reads. */
typedef struct {
    Tensor hidden, activated;
} HeadActivations;

static Dropout head_dropout(const Classifier *c, const Pass *pass) {
    return pass_dropout(pass, c->config.head_dropout, SITE_HEAD);
}

static Tensor head_forward(const Classifier *c, const Context *context, Tensor h, HeadActivations *kept) {
    if (!c->config.head_dim) return context_linear(context, c->head[1], h);
    kept->hidden = context_push(context, h.dims[0], c->config.head_dim);
    kept->activated = context_push(context, h.dims[0], c->config.head_dim);
    linear_gelu_forward(context->device, kept->activated, kept->hidden, h, context_matmul_weight(context, c->head[0]),
                        context_matmul_weight(context, c->head[0] + 1), WEIGHT_OUT_IN,
                        (GeluDropout){GELU_ERF, head_dropout(c, context->pass)});
    return context_linear(context, c->head[1], kept->activated);
}

static void head_backward(const Classifier *c, const Context *context, Tensor dh, Tensor dlogits, Tensor h,
                          const HeadActivations *kept) {
    if (!c->config.head_dim) {
        context_linear_backward(context, c->head[1], dh, dlogits, h);
        return;
    }
    Tensor dhidden = context_push(context, h.dims[0], c->config.head_dim);
    gelu_linear_backward(context->device, context_layer_gradients(context, c->head[1], c->head[1] + 1, dhidden),
                         dlogits, kept->activated, kept->hidden, context_matmul_weight(context, c->head[1]),
                         WEIGHT_OUT_IN, (GeluDropout){GELU_ERF, head_dropout(c, context->pass)});
    context_linear_backward(context, c->head[0], dh, dhidden, h);
}

static void classifier_forward_backward(Model *model, Device *device, Arena *activations, const Batch *batch,
                                        const Tensor *fields, const Pass *pass) {
    Classifier *c = (Classifier *)model;
    Tensor labels = fields[PSD_TARGETS], weights = fields[PSD_WEIGHTS];
    Context context = context_of(model, device, activations, pass);
    PsdEncoded kept;
    HeadActivations of_head = {0};
    size_t mark = arena_mark(activations);
    Tensor h = psd_encoder_forward(&c->encoder, &context, batch, fields, &kept);
    pass_dump(pass, h, "encoded");
    Tensor logits = head_forward(c, &context, h, &of_head);
    pass_dump(pass, logits, "logits");
    if (tensor_given(pass->outputs)) {
        Tensor out = pass->outputs;
        cast(device, tensor_1d(out.data, DTYPE_F32, tensor_numel(out)),
             tensor_1d(logits.data, logits.dtype, tensor_numel(logits)));
    }
    Tensor loss = arena_1d(activations, DTYPE_F32, h.dims[0]), correct = arena_1d(activations, DTYPE_F32, h.dims[0]);
    if (pass->train)
        cross_entropy_forward_backward(device, loss, correct, logits, PSD_CLASSES, labels, weights,
                                       tensor_rows(pass->loss_scale, LOSS, 1), model->loss_scale);
    else
        cross_entropy_forward(device, loss, correct, logits, PSD_CLASSES, labels, weights);
    sum_forward(device, tensor_rows(pass->sums, LOSS, 1), loss);
    sum_forward(device, tensor_rows(pass->sums, ACCURACY, 1), correct);
    if (pass->train) {
        bool frozen = c->config.frozen_encoder;
        Tensor dh = frozen ? tensor_none() : context_push(&context, h.dims[0], h.dims[1]);
        head_backward(c, &context, dh, logits, h, &of_head);
        if (!frozen) psd_encoder_backward(&c->encoder, fields, &kept, dh);
    }
    arena_release(activations, mark);
}

static void classifier_close(Model *model) {
    Classifier *c = (Classifier *)model;
    psd_encoder_close(&c->encoder);
    params_free(&model->params);
    free(c);
}

Model *psd_classifier_open(const PsdClassifierConfig *config) {
    if (config->head_dim < 0) die_usage("head: hidden dim %d must not be negative", config->head_dim);
    if (!(config->head_dropout >= 0 && config->head_dropout < 1))
        die_usage("head: dropout %g is not in [0, 1)", (double)config->head_dropout);
    Classifier *c = xcalloc(1, sizeof *c);
    c->config = *config;
    c->base =
        (Model){.name = "psd_classifier",
                .metrics = {[LOSS] = {"loss", PSD_COUNT_WEIGHTS, 1}, [ACCURACY] = {"accuracy", PSD_COUNT_SPECTRA, 0}},
                .n_metrics = METRICS,
                .n_outputs = PSD_CLASSES,
                .forward_backward = classifier_forward_backward,
                .close = classifier_close};
    c->encoder = psd_encoder_open(&c->base.params, &config->encoder, false, SITE_ENCODER);
    add_head(c);
    return &c->base;
}
