#include "train/run/selection.h"

#include "train/run/record.h"
#include "train/stream.h"

double selection_evaluate(Run *run, const double *means, double objective, double *metrics) {
    const SelectionSpec *selection = &run->t->spec.selection;
    Validation *v = &run->validation;
    Device *device = run->t->spec.device;
    if (!selection->evaluate) return selection->metric < 0 ? objective : means[selection->metric];
    device->download(device, v->host_outputs, v->outputs.data, tensor_bytes(v->outputs));
    return selection->evaluate(selection->context, v->host_outputs, v->outputs.dims[0], metrics);
}

const char *selection_name(const TrainSpec *spec) {
    const SelectionSpec *selection = &spec->selection;
    if (selection->evaluate) return selection->decisive ? selection->decisive : selection->names[0];
    return selection->metric < 0 ? "objective" : spec->model->metrics[selection->metric].name;
}

int64_t selection_epochs(const Training *t) {
    return t->spec.options->epochs + t->state.extensions * t->spec.selection.extension_epochs;
}

bool selection_out_of_patience(const Training *t) {
    return t->spec.selection.patience > 0 && t->state.validations_since_best >= t->spec.selection.patience;
}

static void extend(Run *run) {
    Training *t = run->t;
    Record record = {.n = 0};
    int64_t epochs = selection_epochs(t);
    if (t->state.extensions >= t->spec.selection.max_extensions || t->state.epoch + 1 < epochs - 2) return;
    LoaderOptions options = train_loader_options(t->spec.options, &t->state);
    options.drop_last = t->spec.batch.drop_last;
    t->state.extensions++;
    run->total_steps = train_steps(&t->spec, &options, selection_epochs(t));
    record_add(&record, (double)run->total_steps, "total_steps");
    record_log(run, "extension", &record);
    printf("[Run] the best so far came in epoch %lld, the last is %lld: %lld more (%lld of %lld times)\n",
           (long long)t->state.epoch + 1, (long long)epochs, (long long)t->spec.selection.extension_epochs,
           (long long)t->state.extensions, (long long)t->spec.selection.max_extensions);
}

bool selection_update(Run *run, double decisive) {
    TrainState *state = &run->t->state;
    bool best = decisive < state->best;
    state->validations_since_best = best ? 0 : state->validations_since_best + 1;
    if (!best) return false;
    state->best = decisive;
    state->best_step = state->step;
    extend(run);
    return true;
}
