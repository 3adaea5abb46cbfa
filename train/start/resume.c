#include "train/start/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/folder.h"
#include "checkpoint/state.h"
#include "train/plan/sizing.h"
#include "train/start/buffers.h"
#include "train/start/import.h"

/* Options of all programs that decide which samples a micro-batch holds. */
static const char *const stream_options[] = {
    "batch-size", "grad-accumulation", "token-budget", "bucketing", "seed", "val-ratio", NULL};

static bool is_among(const char *const *names, const char *name) {
    while (names && *names && strcmp(*names, name)) names++;
    return names && *names;
}

/* Compares the options of the checkpoint with those of this run. Dies if a difference would make another run; reports
 * other differences. */
static void compare_options(const Training *t, const char *before_text) {
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
        if (resumes || !other || json_equal(value, other)) continue;
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

void resume(Training *t) {
    const CheckpointBuffers into = buffers_copy(t, 0);
    MUST_OR(state_read(t->resumed_from, &t->state, &error), "--resume %s: %s", t->resumed_from, error.text);
    compare_options(t, t->state.options_json); /* before the tensors, which may be those of another model */
    free(t->state.options_json);
    compare_facts(t);
    MUST_OR(checkpoint_load(t->resumed_from, &into, &t->state, &t->carried, &error), "--resume %s: %s", t->resumed_from,
            error.text);
    compare_currency(t);
    if (!t->carried.n) carried_close(&t->carried); /* nothing in the file is needed any more */
    buffers_upload(t, BUFFERS);
    compare_data(t);
    printf("[Resume] %s: step %lld, epoch %lld, next micro-batch %lld\n", t->resumed_from, (long long)t->state.step,
           (long long)t->state.epoch + 1, (long long)t->state.batch_index);
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

bool resume_batch(Training *t) {
    const TrainOptions *o = t->spec.options;
    TrainState state = {0};
    int64_t size = 0, accumulation = 0;
    MUST_OR(state_read(t->resumed_from, &state, &error), "--resume %s: %s", t->resumed_from, error.text);
    json_auto_t *before = json_loads(state.options_json ? state.options_json : "{}", 0, NULL);
    MUST_OR(option_before(t, before, "batch-size", &size, &error) &&
                option_before(t, before, "grad-accumulation", &accumulation, &error),
            "--resume %s: its options: %s", t->resumed_from, error.text);
    free(state.options_json);
    if (size < 1 || accumulation < 1) return false;
    if (o->effective_batch && o->effective_batch != size * accumulation)
        die_usage(
            "--resume: a step of %s has %lld x %lld samples and --effective-batch is %lld, so it would be another run; "
            "leave it out, or start a new run from the weights with --%s %s/model.safetensors",
            t->resumed_from, (long long)size, (long long)accumulation, (long long)o->effective_batch,
            train_base_option(&t->spec), t->resumed_from);
    sizing_set_batch(&t->spec, size, accumulation);
    printf("[Batch] -b %lld -g %lld, as in the run that is resumed\n", (long long)size, (long long)accumulation);
    return true;
}
