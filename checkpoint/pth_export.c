/* Writes a .pth from a parameter table and flat buffers. torch numbers the parameters of an optimizer in the order of
 * the state dict without its buffers, so model and optimizer are written in the same order. Tensors that only the
 * reference has (a bias before a norm, a norm's count of batches) are written at their module's place. */
#include "checkpoint/pth_export.h"

#include "checkpoint/load.h"
#include "data/formats/torch_pth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TensorToWrite vector(const char *dtype, int64_t n, const void *data) {
    return (TensorToWrite){.dtype = dtype, .rank = 1, .dims = {n}, .data = data};
}

static TensorToWrite scalar(const char *dtype, const void *data) {
    return (TensorToWrite){.dtype = dtype, .data = data};
}

static TensorToWrite param_tensor(const Param *param, const float *flat) {
    TensorToWrite tensor = {.dtype = "F32", .rank = param->rank, .data = flat + param->offset};
    for (int d = 0; d < param->rank; d++) tensor.dims[d] = param->dims[d];
    return tensor;
}

/* Returns the layer of this weight if the reference has a bias after the weight and the table has none; otherwise NULL.
 */
static const char *layer_with_bias(const PthExport *e, const Param *param) {
    const AbsorbedBias *absorbed = absorbed_find(e->absorbed, e->n_absorbed, param->name, ".weight");
    return absorbed ? absorbed->layer : NULL;
}

/* Writes the key LAYER.what. */
static void put_key(PthWriter *w, int length, const char *layer, const char *what) {
    OWNED char *key = xformat("%.*s.%s", length, layer, what);
    pth_text(w, key);
}

/* ---- the model ---- */

static void put_weights(PthWriter *w, const PthExport *e, const float *zeros) {
    static const char variance[] = ".running_var";
    pth_open(w, PTH_ORDERED_DICT);
    for (int i = 0; i < e->table->count; i++) {
        const Param *param = &e->table->items[i];
        const char *layer = layer_with_bias(e, param);
        pth_text(w, param->name), pth_tensor(w, param_tensor(param, e->weights));
        if (layer) put_key(w, (int)strlen(layer), layer, "bias"), pth_tensor(w, vector("F32", param->dims[0], zeros));
        if (!ends_with(param->name, variance)) continue;
        put_key(w, (int)(strlen(param->name) - strlen(variance)), param->name, "num_batches_tracked");
        pth_tensor(w, scalar("I64", &e->batches));
    }
    pth_close(w);
}

/* ---- the optimizer ---- */

static void put_moments(PthWriter *w, int index, int64_t updates, TensorToWrite m, TensorToWrite v) {
    const float step = (float)updates; /* torch stores the step as a float */
    pth_integer(w, index), pth_open(w, PTH_DICT);
    pth_text(w, "step"), pth_tensor(w, scalar("F32", &step));
    pth_text(w, "exp_avg"), pth_tensor(w, m);
    pth_text(w, "exp_avg_sq"), pth_tensor(w, v);
    pth_close(w);
}

static void put_state(PthWriter *w, const PthExport *e, const float *zeros) {
    int index = 0;
    pth_open(w, PTH_DICT);
    for (int i = 0; i < e->table->count; i++) {
        const Param *param = &e->table->items[i];
        if (param->buffer) continue;
        put_moments(w, index++, e->adamw.step, param_tensor(param, e->m), param_tensor(param, e->v));
        TensorToWrite none = vector("F32", param->dims[0], zeros);
        if (layer_with_bias(e, param)) put_moments(w, index++, e->adamw.step, none, none);
    }
    pth_close(w);
}

/* Writes the numbers of the parameters with decay, or of those without. Returns their count; writes nothing if w is
 * NULL. */
static int put_numbers(PthWriter *w, const PthExport *e, bool decay) {
    int index = 0, count = 0;
    for (int i = 0; i < e->table->count; i++) {
        const Param *param = &e->table->items[i];
        if (param->buffer) continue;
        for (int n = layer_with_bias(e, param) ? 2 : 1; n; n--, index++) {
            if (param->decay != decay) continue;
            if (w) pth_integer(w, index);
            count++;
        }
    }
    return count;
}

/* Returns the decimal number as which a float constant was written: 0.9, not 0.899999976. */
static double as_written(float value) {
    char text[24];
    snprintf(text, sizeof text, "%.7g", (double)value);
    return strtod(text, NULL);
}

static void put_group(PthWriter *w, const PthExport *e, bool decay) {
    static const char *const off[] = {"amsgrad", "maximize", "capturable", "differentiable"}, *const unset[] = {
                                                                                                  "foreach", "fused"};
    pth_open(w, PTH_DICT);
    pth_text(w, "lr"), pth_real(w, as_written(e->learning_rate));
    pth_text(w, "betas"), pth_open(w, PTH_TUPLE);
    pth_real(w, as_written(e->adamw.beta1)), pth_real(w, as_written(e->adamw.beta2)), pth_close(w);
    pth_text(w, "eps"), pth_real(w, as_written(e->adamw.epsilon));
    pth_text(w, "weight_decay"), pth_real(w, decay ? e->weight_decay : 0);
    for (int i = 0; i < 4; i++) pth_text(w, off[i]), pth_bool(w, false);
    for (int i = 0; i < 2; i++) pth_text(w, unset[i]), pth_none(w);
    pth_text(w, "decoupled_weight_decay"), pth_bool(w, !e->adamw.coupled);
    pth_text(w, "initial_lr"), pth_real(w, e->initial_rate);
    pth_text(w, "params"), pth_open(w, PTH_LIST), put_numbers(w, e, decay), pth_close(w);
    pth_close(w);
}

static void put_optimizer(PthWriter *w, const PthExport *e, const float *zeros) {
    pth_open(w, PTH_DICT);
    pth_text(w, "state"), put_state(w, e, zeros);
    pth_text(w, "param_groups"), pth_open(w, PTH_LIST);
    for (int decay = 1; decay >= 0; decay--)
        if (put_numbers(NULL, e, decay)) put_group(w, e, decay);
    pth_close(w);
    pth_close(w);
}

/* ---- the file ---- */

bool pth_export(const char *path, const PthExport *e, Error *error) {
    int64_t longest = 0;
    for (int i = 0; i < e->table->count; i++)
        if (e->table->items[i].dims[0] > longest) longest = e->table->items[i].dims[0];
    OWNED float *zeros = xcalloc((size_t)longest + 1, sizeof *zeros);
    PthWriter *w = pth_begin();
    pth_open(w, PTH_DICT);
    pth_text(w, "model_state_dict"), put_weights(w, e, zeros);
    if (e->m && e->v) pth_text(w, "optimizer_state_dict"), put_optimizer(w, e, zeros);
    for (int i = 0; i < e->n_values; i++) {
        const PthValue *value = &e->values[i];
        pth_text(w, value->name);
        if (value->text)
            pth_text(w, value->text);
        else if (value->whole)
            pth_integer(w, (int64_t)value->number);
        else
            pth_real(w, value->number);
    }
    pth_close(w);
    return pth_write(w, path, error);
}

bool pth_export_checkpoint(const char *path, const char *checkpoint, PthExport what, Error *error) {
    size_t size = (size_t)what.table->flat_count * sizeof(float);
    OWNED float *weights = xaligned(size);
    OWNED float *m = xaligned(size);
    OWNED float *v = xaligned(size);
    TrainState state;
    CarriedTensors carried;
    if (!checkpoint_load(checkpoint, &(CheckpointBuffers){what.table, weights, m, v}, &state, &carried, error))
        return error_before(error, "%s: ", checkpoint);
    what.weights = weights, what.m = m, what.v = v;
    what.adamw.step = state.step - state.skipped_steps;
    what.batches = state.micro_step;
    bool ok = pth_export(path, &what, error);
    carried_close(&carried);
    free(state.options_json);
    return ok;
}
