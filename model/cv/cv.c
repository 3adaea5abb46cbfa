#include "model/cv/cv.h"

#include <stdlib.h>

enum { LOSS, ACCURACY, METRICS };

typedef struct {
    Model base; /* first, so that the Model * is a Cv * */
    CvNetwork network;
} Cv;

void cv_run(Model *model, Device *device, Arena *activations, Tensor x, const Tensor *fields, const Pass *pass) {
    const CvNetwork *network = &((Cv *)model)->network;
    Tensor targets = fields[CV_TARGETS], labels = fields[CV_LABELS], outputs = pass->outputs;
    Context context = context_of(model, device, activations, pass);
    CvActivations acts;
    size_t mark = arena_mark(activations);
    Tensor logits = cv_network_forward(network, &context, &acts, x);
    int64_t n = logits.dims[0];
    if (tensor_given(outputs))
        cast(device, tensor_1d(outputs.data, DTYPE_F32, n), tensor_1d(logits.data, logits.dtype, n));
    Tensor loss = arena_1d(activations, DTYPE_F32, n), correct = arena_1d(activations, DTYPE_F32, n);
    if (pass->train)
        binary_cross_entropy_forward_backward(device, loss, correct, logits, targets, labels,
                                              tensor_rows(pass->loss_scale, LOSS, 1), model->loss_scale);
    else
        binary_cross_entropy_forward(device, loss, correct, logits, targets, labels);
    sum_forward(device, tensor_rows(pass->sums, LOSS, 1), loss);
    sum_forward(device, tensor_rows(pass->sums, ACCURACY, 1), correct);
    if (pass->train) cv_network_backward(network, &context, &acts, logits);
    arena_release(activations, mark);
}

static void cv_forward_backward(Model *model, Device *device, Arena *activations, const Batch *batch,
                                const Tensor *fields, const Pass *pass) {
    const CvConfig *c = &((Cv *)model)->network.config;
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
    cv_run(model, device, activations, x, fields, pass);
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
