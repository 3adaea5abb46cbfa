/* ckpt.pt as nanoGPT's train.py saves it, without the optimizer: the head is there under its own name, with the storage
 * of the token table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/slm/export_formats.h"
#include "data/formats/torch_pth.h"

static void put_integer(PthWriter *w, const char *name, int64_t value) { pth_text(w, name), pth_integer(w, value); }

static void put_arguments(PthWriter *w, const SlmConfig *c) {
    pth_open(w, PTH_DICT);
    put_integer(w, "n_layer", c->n_layers);
    put_integer(w, "n_head", c->n_heads);
    put_integer(w, "n_embd", c->d_model);
    put_integer(w, "block_size", c->context);
    pth_text(w, "bias"), pth_bool(w, c->biases);
    put_integer(w, "vocab_size", c->vocabulary);
    pth_text(w, "dropout"), pth_real(w, (double)c->dropout);
    pth_close(w);
}

static void put_model(PthWriter *w, const SlmExport *e) {
    const ParamTable *table = &e->model->params;
    const TensorToWrite head = {.dtype = "F32",
                                .rank = 2,
                                .dims = {e->config.vocabulary, e->config.d_model},
                                .data = e->weights + table->items[params_find(table, "transformer.wte.weight")].offset};
    pth_open(w, PTH_ORDERED_DICT);
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        TensorToWrite tensor = {.dtype = "F32", .rank = param->rank, .data = e->weights + param->offset};
        memcpy(tensor.dims, param->dims, sizeof param->dims);
        pth_text(w, param->name), pth_tensor_in_place(w, tensor);
    }
    pth_text(w, "lm_head.weight"), pth_tensor_in_place(w, head);
    pth_close(w);
}

bool slm_export_nanogpt(const void *context, Error *error) {
    static const double none_yet = 1e9; /* as its train.py begins */
    const SlmExport *e = context;
    PthWriter *w = pth_begin();
    pth_open(w, PTH_DICT);
    pth_text(w, "model"), put_model(w, e);
    pth_text(w, "model_args"), put_arguments(w, &e->config);
    put_integer(w, "iter_num", e->step);
    pth_text(w, "best_val_loss"), pth_real(w, isfinite(e->best) ? e->best : none_yet);
    pth_text(w, "config"), put_arguments(w, &e->config);
    pth_close(w);
    OWNED char *path = path_join(e->output, "ckpt.pt");
    return pth_write(w, path, error);
}
