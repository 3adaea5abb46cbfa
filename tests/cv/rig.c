#include "tests/cv/rig.h"

const CvConfig cv_full_config = {.channels = {32, 64, 128}, .bins = 256, .side = 21};
const CvConfig cv_small_config = {.channels = {8, 16, 32}, .bins = 32, .side = 9};

int64_t cv_rows(const CvConfig *config, int64_t cells) { return cells * config->bins * config->side * config->side; }

/* Runs the model on the device dataset, f32 [B bins side side, 2]. */
static void run_given_input(Model *model, Device *device, Arena *activations, const Batch *batch, const Tensor *fields,
                            const Pass *pass) {
    Tensor given = fields[batch->n_fields], half = model->half_weights;
    size_t mark = arena_mark(activations);
    DType type = tensor_given(half) ? half.dtype : DTYPE_F32;
    Tensor x = arena_2d(activations, type, given.dims[0], given.dims[1]);
    cast(device, tensor_1d(x.data, type, tensor_numel(x)), tensor_1d(given.data, DTYPE_F32, tensor_numel(given)));
    Context context = context_of(model, device, activations, pass);
    CvActivations acts;
    Tensor dlogits = cv_loss(model, &context, &acts, x, fields);
    if (pass->train) cv_network_backward(&((Cv *)model)->network, &context, &acts, dlogits);
    arena_release(activations, mark);
}

Model *cv_open_for_inputs(const CvConfig *config) {
    Model *model = cv_open(config);
    model->forward_backward = run_given_input;
    return model;
}

Batch cv_batch(const CvConfig *config, float *x, const float *targets, const float *labels, int n) {
    Batch batch = batch_open((size_t)n * (sizeof(AugmentDraws) + 64), n);
    batch_begin_rows(&batch, batch.samples, n);
    batch_push_1d(&batch, CV_CELLS, DTYPE_I32, n);
    AugmentDraws *draws = batch_push_2d(&batch, CV_DRAWS, DTYPE_I32, n, AUGMENT_DRAW_WORDS).data;
    for (int i = 0; i < n; i++) draws[i] = (AugmentDraws){.scale = 1}; /* as it is */
    memcpy(batch_push_1d(&batch, CV_TARGETS, DTYPE_F32, n).data, targets, (size_t)n * sizeof *targets);
    memcpy(batch_push_1d(&batch, CV_LABELS, DTYPE_F32, n).data, labels, (size_t)n * sizeof *labels);
    batch.n_fields = CV_FIELDS; /* the last ones are none */
    batch.fields[CV_FIELDS] = tensor_2d(x, DTYPE_F32, cv_rows(config, n), 2);
    batch.counts[CV_COUNT_CELLS] = n;
    return batch;
}

float *cv_channels_last(const float *from, int64_t cells, int64_t positions) {
    float *to = xmalloc((size_t)(2 * cells * positions) * sizeof *to);
    for (int64_t i = 0; i < cells * positions; i++)
        for (int64_t c = 0; c < 2; c++) to[2 * i + c] = from[(2 * (i / positions) + c) * positions + i % positions];
    return to;
}

void cv_absorb_bias(const ParamTable *table, float *flat, int layer, const float *bias) {
    char *name = kept_format("%s.running_mean", cv_network_dead_biases()[layer].norm);
    const Param *mean = &table->items[params_find(table, name)];
    for (int64_t c = 0; c < mean->count; c++) flat[mean->offset + c] -= bias[c];
}

void cv_fill_parameters(const ParamTable *table, float *flat) {
    float bias[512];
    for (int i = 0, j = 0, layer = 0; i < table->count; i++) {
        const Param *p = &table->items[i];
        if (p->buffer) continue;
        bool gain = p->rank == 1 && strstr(p->name, ".weight");
        double scale = p->columns ? 1 / sqrt((double)p->columns) : 0.1;
        for (int64_t k = 0; k < p->count; k++)
            flat[p->offset + k] = (float)(gain + scale * cv_golden_uniform((uint64_t)j, (uint64_t)k));
        j++;
        if (!p->columns || layer == CV_DEAD_BIASES) continue;
        for (int64_t k = 0; k < p->rows; k++) bias[k] = (float)(0.1 * cv_golden_uniform((uint64_t)j, (uint64_t)k));
        cv_absorb_bias(table, flat, layer++, bias);
        j++;
    }
}

float *cv_golden_cells(void) {
    const CvConfig *c = &cv_full_config;
    float *x = xmalloc((size_t)cv_rows(c, CV_GOLDEN_CELLS) * 2 * sizeof *x), *next = x;
    for (int n = 0; n < CV_GOLDEN_CELLS; n++)
        for (int t = 0; t < c->bins; t++)
            for (int y = 0; y < c->side; y++)
                for (int column = 0; column < c->side; column++) {
                    *next++ = (float)(log1p(cv_golden_count(n, t, y, column)) / 10);
                    *next++ = (y - 10) * (y - 10) + (column - 10) * (column - 10) <= (4 + 2 * n) * (4 + 2 * n);
                }
    return x;
}
