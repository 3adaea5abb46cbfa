#include "train/start/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/folder.h"
#include "checkpoint/state.h"
#include "train/parallel/ranks.h"
#include "train/plan/sizing.h"
#include "train/start/buffers.h"
#include "train/start/import.h"
#include "train/stream.h"

/* Options of all programs that decide which samples a micro-batch holds. */
static const char *const stream_options[] = {
    "batch-size", "grad-accumulation", "token-budget", "bucketing", "seed", "val-ratio", NULL};

static bool is_among(const char *const *names, const char *name) {
    while (names && *names && strcmp(*names, name)) names++;
    return names && *names;
}

static bool is_step_size(const char *name) { return !strcmp(name, "batch-size") || !strcmp(name, "grad-accumulation"); }

/* Compares the options of the checkpoint with those of this run. Dies if a difference would make another run; reports
 * other differences. */
static void compare_options(const Training *t, const char *before_text, bool same_step) {
    json_error_t error;
    OWNED char *now_text = options_to_json(t->spec.set);
    json_auto_t *before = json_loads(before_text ? before_text : "{}", JSON_DECODE_ANY, &error),
                *now = json_loads(now_text, JSON_DECODE_ANY, &error);
    json_t *value;
    const char *name;
    if (!json_is_object(before) || !json_is_object(now))
        die("%s: the record of the options is damaged", t->resumed_from);
    json_object_foreach(before, name, value) {
        json_t *other = json_object_get(now, name);
        const Option *option = options_find(t->spec.set, name);
        bool resumes = option && option->value == options_find(t->spec.set, "resume")->value;
        if (resumes || !other || json_equal(value, other) || (same_step && is_step_size(name))) continue;
        const size_t digits = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15); /* 0.6, not 0.59999999999999998 */
        OWNED char *old = json_text(name, value, digits), *new = json_text(name, other, digits);
        if (is_among(stream_options, name) || is_among(t->spec.fixed_options, name))
            die_usage(
                "--resume: --%s was %s and is now %s, so it would be another run; give the old value, or start a new "
                "run from the weights with --%s %s/model.safetensors",
                name, old, new, train_base_option(&t->spec), t->resumed_from);
        printf("[Resume] --%s has changed from %s to %s\n", name, old, new);
    }
}

/* Dies if a fact of the model's description has changed: the weights are of the former. */
static void compare_facts(const Training *t) {
    const Description *d = &t->spec.description;
    Error error;
    const DescriptionRules rules = {.model = t->spec.model->name};
    json_auto_t *before = description_read(t->resumed_from, &rules, &error);
    if (!before && error.text[0]) die("--resume %s: %s", t->resumed_from, error.text);
    for (int i = 0; i < d->n_facts; i++) {
        const json_t *old = json_object_get(before, d->facts[i].name);
        json_auto_t *now = fact_to_json(&d->facts[i]);
        if (old && !json_equal(old, now)) {
            char *a = json_text(DESCRIPTION_FILE, old, JSON_ENCODE_ANY),
                 *b = json_text(DESCRIPTION_FILE, now, JSON_ENCODE_ANY);
            die("--resume %s: %s was %s and is now %s, so it would be another run; put the old files back, or start a "
                "new run from the weights with --%s %s/model.safetensors",
                t->resumed_from, d->facts[i].name, a, b, train_base_option(&t->spec), t->resumed_from);
        }
    }
}

/* Forgets the cost of the earlier parts if it is in another currency than that of --price. */
static void compare_currency(Training *t) {
    json_auto_t *before = json_loads(t->state.options_json, 0, NULL);
    const char *file = json_string_value(json_object_get(before, "prices"));
    PriceList list;
    if (!(file ? price_list_read(file, &list, NULL)
               : price_list_parse(json_string_value(json_object_get(before, "price")), &list, NULL)) ||
        strcmp(list.any.price.currency, t->spec.options->price.currency) != 0)
        t->state.cost = NAN;
}

/* Dies if the training data differ from those at the run's start; warns if the validation data differ. */
static void compare_data(Training *t) {
    const char *from = t->resumed_from, *what = NULL;
    char counts[128];
    int64_t validation = dataset_content_hash(t->spec.validation), n = t->state.n_samples,
            n_now = t->spec.train->n_samples;
    snprintf(counts, sizeof counts, "had %lld samples and now has %lld, so the place in it would be lost", (long long)n,
             (long long)n_now);
    if (n != n_now)
        what = counts;
    else if (t->state.data_hash != dataset_hash(t->spec.train))
        what = "has other samples, lengths or another order than before, so the place in it would be lost";
    else if (t->state.content_hash != dataset_content_hash(t->spec.train))
        what = "has the same samples and lengths as before, but other contents: files have been replaced since, and "
               "the weights are of the old ones";
    if (what)
        die("--resume %s: the training data %s; put the old data back, or start a new run in another --output-dir, "
            "from the beginning or from the weights with --%s %s/model.safetensors",
            from, what, train_base_option(&t->spec), from);
    if (t->state.validation_hash && validation && t->state.best_step && t->state.validation_hash != validation)
        warn(
            "--resume %s: the data to validate on have other contents than before: step %lld was chosen as the best on "
            "the old ones, and what follows is compared with it; for a choice on the new ones alone start a new run "
            "in another --output-dir",
            from, (long long)t->state.best_step);
    t->state.validation_hash = validation;
}

/* Sets *value to a whole number among the options of a checkpoint; leaves it unchanged if the option is missing. */
static bool option_before(const Training *t, const json_t *before, const char *name, int64_t *value, Error *error) {
    const json_t *there = json_object_get(before, name);
    const Option *option = options_find(t->spec.set, name);
    if (!there || !option) return true;
    Option other = *option;
    other.value = value;
    return option_from_json(&other, there, error);
}

/* The size of a step before and now. */
typedef struct {
    int64_t size, accumulation; /* -b, and the micro-batches of all ranks; 0: the checkpoint does not state them */
} StepSize;

static StepSize step_size_before(const Training *t, const char *options_json) {
    StepSize before = {0, 0};
    json_auto_t *options = json_loads(options_json ? options_json : "{}", 0, NULL);
    MUST_OR(option_before(t, options, "batch-size", &before.size, &error) &&
                option_before(t, options, "grad-accumulation", &before.accumulation, &error),
            "--resume %s: its options: %s", t->resumed_from, error.text);
    return before;
}

static StepSize read_step_size(const Training *t) {
    TrainState state = {0};
    MUST_OR(state_read(t->resumed_from, &state, &error), "--resume %s: %s", t->resumed_from, error.text);
    StepSize before = step_size_before(t, state.options_json);
    free(state.options_json);
    return before;
}

char *resume_sums_by(const Training *t) {
    TrainState state = {0};
    MUST_OR(state_read(t->resumed_from, &state, &error), "--resume %s: %s", t->resumed_from, error.text);
    free(state.options_json);
    return xstrdup(state.sums_by);
}

bool resume_batch(Training *t) {
    const TrainOptions *o = t->spec.options;
    const StepSize before = read_step_size(t);
    if (before.size < 1 || before.accumulation < 1) return false;
    if (o->effective_batch && o->effective_batch != before.size * before.accumulation)
        die_usage(
            "--resume: a step of %s has %lld x %lld samples and --effective-batch is %lld, so it would be another run; "
            "leave it out, or start a new run from the weights with --%s %s/model.safetensors",
            t->resumed_from, (long long)before.size, (long long)before.accumulation, (long long)o->effective_batch,
            train_base_option(&t->spec), t->resumed_from);
    int64_t whole = before.size * before.accumulation, size = before.size;
    while (size > 1 && (whole % size || whole / size % ranks_count())) size--; /* all ranks need micro-batches */
    sizing_set_batch(&t->spec, size, whole / size);
    printf("[Batch] -b %lld -g %lld, %s\n", (long long)size, (long long)(whole / size),
           size == before.size ? "as in the run that is resumed" : "which the ranks can share");
    return true;
}

/* Returns the -g by which a number of ranks makes steps of so many micro-batches. */
static int64_t given_micro_batches(const Training *t, int64_t micro_batches, int64_t ranks) {
    return t->spec.options->whole_step ? micro_batches : micro_batches / ranks;
}

/* Dies with the numbers of ranks that can share a step of so many micro-batches. */
static _Noreturn void die_indivisible(const Training *t, int64_t micro_batches) {
    OWNED char *fits = xstrdup("");
    for (int64_t ranks = 1, n = 0; ranks <= micro_batches && n < 8; ranks++)
        if (micro_batches % ranks == 0) {
            xappend(&fits, "%s%lld with -g %lld", n++ ? ", " : "", (long long)ranks,
                    (long long)given_micro_batches(t, micro_batches, ranks));
        }
    die_usage("--resume: a step of %s has %lld micro-batches of -b %lld, which %d ranks cannot share; start as many "
              "ranks as divide it: %s",
              t->resumed_from, (long long)micro_batches, (long long)t->spec.options->batch_size, ranks_count(), fits);
}

/* Returns whether the options make the same steps of other micro-batches. */
static bool is_same_step(const Training *t, StepSize before) {
    const TrainOptions *o = t->spec.options;
    return before.size > 0 && before.accumulation > 0 && !t->spec.batch.indivisible && !o->token_budget &&
           before.size * before.accumulation == o->batch_size * o->grad_accumulation;
}

void resume_step_size(Training *t) {
    const TrainOptions *o = t->spec.options;
    if (o->auto_batch || ranks_count() == 1) return;
    const StepSize before = read_step_size(t);
    if (before.accumulation < 1 || is_same_step(t, before)) return;
    int64_t whole = before.size * before.accumulation, accumulation = before.accumulation;
    if (!o->token_budget && o->batch_size != before.size && !t->spec.batch.indivisible) {
        if (whole % o->batch_size)
            die_usage("--resume: a step of %s has %lld samples, no multiple of -b %lld; -b was %lld", t->resumed_from,
                      (long long)whole, (long long)o->batch_size, (long long)before.size);
        accumulation = whole / o->batch_size;
    }
    if (accumulation % ranks_count()) die_indivisible(t, accumulation);
    if (accumulation == o->grad_accumulation) return;
    sizing_set_batch(&t->spec, o->batch_size, accumulation);
    printf("[Ranks] -g %lld, so that a step keeps its %lld micro-batches\n",
           (long long)given_micro_batches(t, accumulation, ranks_count()), (long long)accumulation);
}

/* Finds the place in the epoch for micro-batches of another size. */
static void move_place(Training *t, StepSize before) {
    const TrainOptions *o = t->spec.options;
    TrainState *state = &t->state;
    LoaderOptions options = train_loader_options(o, state);
    options.drop_last = t->spec.batch.drop_last;
    int64_t n = t->spec.train->n_samples, batches = loader_epoch_batches(t->spec.train, &options, state->epoch),
            samples = state->batch_index * before.size, index = samples / o->batch_size,
            twice = samples < n ? samples % o->batch_size : 0;
    bool sorted = !strcmp(o->bucketing, "on") && samples > 0 && samples < n;
    state->batch_index = samples < n && index < batches ? index : batches;
    printf("[Resume] a step was %lld x %lld samples and is now %lld x %lld: the same samples a step, with other "
           "roundings and masks of dropout",
           (long long)before.size, (long long)before.accumulation, (long long)o->batch_size,
           (long long)o->grad_accumulation);
    if (sorted)
        printf("; what is left of this epoch is sorted anew, so that some samples come twice and as many not at all");
    else if (twice)
        printf("; %lld samples come twice", (long long)twice);
    printf("\n");
}

void resume(Training *t) {
    const CheckpointBuffers into = buffers_copy(t, 0);
    MUST_OR(state_read(t->resumed_from, &t->state, &error), "--resume %s: %s", t->resumed_from, error.text);
    const StepSize before = step_size_before(t, t->state.options_json);
    /* Before the tensors, which may be those of another model. */
    compare_options(t, t->state.options_json, is_same_step(t, before));
    free(t->state.options_json);
    compare_facts(t);
    MUST_OR(checkpoint_load(t->resumed_from, &into, &t->state, &t->carried, &error), "--resume %s: %s", t->resumed_from,
            error.text);
    compare_currency(t);
    if (!t->carried.n) carried_close(&t->carried); /* nothing in the file is needed any more */
    buffers_upload(t, BUFFERS);
    compare_data(t);
    if (is_same_step(t, before) && before.size != t->spec.options->batch_size) move_place(t, before);
    printf("[Resume] %s: step %lld, epoch %lld, next micro-batch %lld\n", t->resumed_from, (long long)t->state.step,
           (long long)t->state.epoch + 1, (long long)t->state.batch_index);
}
