/* Opens a training: plans and allocates memory, and initialises, imports or resumes the weights. Closes it after the
 * last step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/version.h"
#include "checkpoint/description.h"
#include "train/parallel/ranks.h"
#include "train/parallel/reduce.h"
#include "train/plan/fit.h"
#include "train/plan/sizing.h"
#include "train/start/autotune.h"
#include "train/start/buffers.h"
#include "train/start/import.h"
#include "train/start/resume.h"

/* Has all ranks take the -b and -g of the first: others may have more or less memory. */
static void share_batch(Training *t) {
    const TrainOptions *o = t->spec.options;
    int64_t chosen[] = {o->batch_size, o->grad_accumulation};
    ranks_share(chosen, sizeof chosen);
    if (chosen[1] % ranks_count())
        die_usage("-b auto makes a step %lld micro-batch%s here, which %d ranks cannot share (%s): give -b and -g",
                  (long long)chosen[1], chosen[1] == 1 ? "" : "es", ranks_count(),
                  t->spec.batch.indivisible ? t->spec.batch.indivisible : "too few samples");
    sizing_set_batch(&t->spec, chosen[0], chosen[1]);
}

static void choose_batch(Training *t) {
    if (!t->spec.options->auto_batch) return;
    if (!(t->resumed_from && !t->spec.batch.indivisible && resume_batch(t)))
        fit_choose_batch(&t->spec, train_half(&t->spec));
    share_batch(t);
}

/* Dies if a checkpoint in the folder of the run, or that it would resume from, is of another model or damaged. */
static void refuse_other_model(const TrainSpec *spec, const char *checkpoint) {
    Error error;
    json_auto_t *description = description_read(checkpoint, &(DescriptionRules){.model = spec->model->name}, &error);
    if (!description && error.text[0])
        die("%s cannot be continued by this training: %s; give another --output-dir", checkpoint, error.text);
}

static void refuse_earlier_run(const TrainSpec *spec) {
    const TrainOptions *o = spec->options;
    char *earlier = checkpoint_resolve(o->output_dir, "auto");
    if (earlier) refuse_other_model(spec, earlier);
    if (earlier)
        die("%s already holds a run (%s): give --resume auto to go on with it, or another --output-dir", o->output_dir,
            earlier);
    if (o->resume) printf("[Resume] %s has no checkpoint yet: a fresh start\n", o->output_dir);
}

static void start_fresh(Training *t) {
    const TrainSpec *spec = &t->spec;
    const TrainOptions *o = spec->options;
    refuse_earlier_run(spec);
    params_initialize(&spec->model->params, buffers_copy(t, 0).weights, (uint64_t)o->seed, (int)o->threads);
    if (o->base_checkpoint) import_base(t, &spec->import);
    buffers_upload(t, 1);
    t->state = (TrainState){.seed = (uint64_t)o->seed,
                            .best = INFINITY,
                            .n_samples = spec->train->n_samples,
                            .data_hash = dataset_hash(spec->train),
                            .content_hash = dataset_content_hash(spec->train),
                            .validation_hash = dataset_content_hash(spec->validation),
                            .base_sum = t->import.sum,
                            .loss_scale = {[LOSS_SCALE_FACTOR] = 65536}};
    snprintf(t->state.revision, sizeof t->state.revision, "%s", version_revision);
}

/* Returns the description of a device without its threads, which change no bits. */
static const char *arithmetic_of(const Device *device) {
    const char *comma = strchr(device->description, ',');
    return comma ? comma + 2 : device->description;
}

/* Dies if another rank has other data, weights or another device, whose arithmetic may differ. */
static void compare_ranks(const Training *t) {
    const TrainState *s = &t->state;
    if (ranks_count() == 1) return;
    const ParamTable *params = &t->spec.model->params;
    uint64_t weights = checksum(0, buffers_copy(t, 0).weights, (size_t)params->flat_count * sizeof(float));
    OWNED char *facts =
        xformat("the next thing to do\ta training\nthe training data\t%016llx\ntheir contents\t%016llx\nthe validation "
                "data\t%016llx\nthe base checkpoint\t%016llx\nthe step to go on from\t%lld\nthe weights\t%016llx\nthe "
                "device\t%s\n",
                (unsigned long long)s->data_hash, (unsigned long long)s->content_hash,
                (unsigned long long)s->validation_hash, (unsigned long long)s->base_sum, (long long)s->step,
                (unsigned long long)weights, arithmetic_of(t->spec.device));
    ranks_compare(facts);
}

static Training *training_new(const TrainSpec *spec, bool inference) {
    Training *t = xcalloc(1, sizeof *t);
    t->spec = *spec;
    t->inference = inference;
    return t;
}

Training *train_open(const TrainSpec *spec) {
    const TrainOptions *o = spec->options;
    Training *t = training_new(spec, false);
    autotune_load(t);
    t->resumed_from = o->resume ? checkpoint_resolve(o->output_dir, o->resume) : NULL;
    if (t->resumed_from) refuse_other_model(spec, t->resumed_from);
    OWNED char *sums_by = t->resumed_from && ranks_count() > 1 ? resume_sums_by(t) : NULL;
    ranks_connect(spec->device, sums_by ? sums_by : "");
    if (t->resumed_from) resume_step_size(t);
    choose_batch(t);
    if (ranks_count() > 1) spec->model->params.flat_count = reducer_room(spec->model->params.flat_count, ranks_count());
    buffers_allocate(t);
    if (t->resumed_from)
        resume(t);
    else
        start_fresh(t);
    buffers_derive(t);
    compare_ranks(t);
    if (!ranks_write()) { /* only the first writes them */
        FREE(t->whole_m, t->whole_v);
        t->whole_m = t->whole_v = NULL;
    }
    return t;
}

Training *train_open_inference(const TrainSpec *spec) {
    static const char *const all[] = {""};
    Training *t = training_new(spec, true);
    if (!spec->options->base_checkpoint) die_usage("there are no weights: give --%s", train_base_option(spec));
    buffers_allocate(t);
    /* The checkpoint may lack constants. */
    params_initialize_constants(&spec->model->params, buffers_copy(t, 0).weights, (int)spec->options->threads);
    ImportRules rules = spec->import;
    rules.only = all, rules.n_only = 1;
    rules.n_resizable = rules.n_optional = 0;
    import_base(t, &rules);
    buffers_upload(t, 1);
    buffers_derive(t);
    return t;
}

void train_close(Training *t) {
    buffers_release(t);
    carried_close(&t->carried);
    free(t->resumed_from);
    free(t->import.missing_names);
    free(t->state.options_json);
    free(t);
}

TrainState *train_state(Training *t) { return &t->state; }
const ImportReport *train_import_report(const Training *t) { return &t->import; }
const char *train_resumed_from(const Training *t) { return t->resumed_from; }
bool train_ended(const Training *t) { return t->ended; }
