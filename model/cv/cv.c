#include "model/cv/cv.h"

#include <stdlib.h>

enum { LOSS, ACCURACY, METRICS };

Tensor cv_loss(Model *model, const Context *context, CvActivations *acts, Tensor x, const Tensor *fields) {
    Device *device = context->device;
    const Pass *pass = context->pass;
    Tensor targets = fields[CV_TARGETS], labels = fields[CV_LABELS], outputs = pass->outputs;
    Tensor logits = cv_network_forward(&((Cv *)model)->network, context, acts, x);
    int64_t n = logits.dims[0];
    if (tensor_given(outputs))
        cast(device, tensor_1d(outputs.data, DTYPE_F32, n), tensor_1d(logits.data, logits.dtype, n));
    Tensor loss = arena_1d(context->arena, DTYPE_F32, n), correct = arena_1d(context->arena, DTYPE_F32, n);
    if (pass->train)
        binary_cross_entropy_forward_backward(device, loss, correct, logits, targets, labels,
                                              tensor_rows(pass->loss_scale, LOSS, 1), model->loss_scale);
    else
        binary_cross_entropy_forward(device, loss, correct, logits, targets, labels);
    sum_forward(device, tensor_rows(pass->sums, LOSS, 1), loss);
    sum_forward(device, tensor_rows(pass->sums, ACCURACY, 1), correct);
    return logits;
}

static void cv_forward_backward(Model *model, Device *device, Arena *activations, const Batch *batch,
                                const Tensor *fields, const Pass *pass) {
    const CvNetwork *network = &((Cv *)model)->network;
    const CvConfig *c = &network->config;
    Context context = context_of(model, device, activations, pass);
    CvActivations acts;
    Tensor counts = fields[batch->n_fields], cells = fields[CV_CELLS], partners = fields[CV_PARTNERS];
    DType type = tensor_given(model->half_weights) ? model->half_weights.dtype : DTYPE_F32;
    int64_t rows = cells.dims[0] * c->bins * c->side * c->side;
    size_t mark = arena_mark(activations);
    Tensor x = arena_2d(activations, type, rows, 2);
    augment_volumes(device, x, counts, cells, fields[CV_DRAWS], (AugmentShape){c->bins, c->side, c->side}, c->dilated);
    if (tensor_given(partners)) {
        Tensor mixed = arena_2d(activations, type, rows, 2);
        mixup(device, mixed, x, partners, fields[CV_SHARE]);
        x = mixed;
    }
    pass_dump(pass, x, "input");
    Tensor dlogits = cv_loss(model, &context, &acts, x, fields);
    if (pass->train) cv_network_backward(network, &context, &acts, dlogits);
    arena_release(activations, mark);
}

static void cv_close(Model *model) {
    params_free(&model->params);
    free(model);
}

Model *cv_open(const CvConfig *config) {
    Cv *f = xcalloc(1, sizeof *f);
    f->base = (Model){.name = "flim",
                      .metrics = {[LOSS] = {"loss", CV_COUNT_CELLS, 1}, [ACCURACY] = {"accuracy", CV_COUNT_CELLS, 0}},
                      .n_metrics = METRICS,
                      .n_outputs = 1,
                      .forward_backward = cv_forward_backward,
                      .close = cv_close};
    f->network = cv_network_open(&f->base.params, config);
    return &f->base;
}
