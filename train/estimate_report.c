/* The estimate as text: for one card all of it, for several a line each; and as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "train/estimate.h"
#include "train/log.h"

static double dollars(const Training *t, double seconds) { return t->options->price * seconds / 3600; }

/* Operations that are done again count too: then it is the hardware's utilisation, not the model's. */
static const char *utilisation(const Training *t) { return t->options->grad_checkpointing ? "HFU" : "MFU"; }

static const char *type_text(const Machine *m) {
    return m->half != DTYPE_F32 ? dtype_name(m->half) : machine_numbers(m) == NUMBERS_TF32 ? "TF32" : "f32";
}

const char *milliseconds(double seconds, char text[32]) {
    if (seconds < 10)
        snprintf(text, 32, "%.*f ms", seconds < 0.01 ? 3 : seconds < 1 ? 1 : 0, seconds * 1e3);
    else
        snprintf(text, 32, "%.1f s", seconds);
    return text;
}

/* ---- one card ---- */

static void print_data(const Training *t, const RunWork *w) {
    if (t->typical)
        printf("[Estimate] there is no data: typical micro-batches of %.0f sequences, %.0f tokens\n",
               w->epoch_samples / w->epoch_batches, w->epoch_tokens / w->epoch_batches);
    else
        printf("[Estimate] an epoch: %.0f samples, micro-batches: %.0f, tokens: %.0f\n", w->epoch_samples,
               w->epoch_batches, w->epoch_tokens);
    printf("[Estimate] a step: micro-batches: %.0f, sequences: %.1f, tokens: %.0f%s\n", w->step.micro_batches,
           w->step.sequences, w->step.tokens, t->options->grad_checkpointing ? "; blocks are computed twice" : "");
}

static void print_memory(const Training *t, const RunWork *w, const RunTime *r) {
    char have[32], kept[32], text[CHANGES_TEXT];
    if (r->batch.size) train_choice_print(t, &r->batch);
    memory_print(&w->memory);
    printf("[Memory] %s has %s for it: ", r->machine.card->key, format_bytes(r->available, have));
    if (r->fits)
        printf("it fits, %.0f %% is used\n", 100 * (double)memory_total(&w->memory) / r->available);
    else
        printf("it does not fit; %s\n", train_changes_text(t, &r->changes, text));
    if (r->machine.card->capability)
        printf("[Assumed] CUDA takes %s of the card for itself; %s are kept free, as a run does\n",
               format_bytes((double)CARD_LOADED, have), format_bytes((double)CARD_KEPT, kept));
}

typedef struct {
    const CallWork *work;
    const OpTime *time;
    int op;
} Row;

static int by_time(const void *a, const void *b) {
    double x = ((const Row *)a)->time->seconds, y = ((const Row *)b)->time->seconds;
    return (x < y) - (x > y);
}

/* The operations that are called, the longest first. */
static int sorted_rows(const Work *work, const WorkTime *time, Row rows[ESTIMATE_OPS]) {
    int n = 0;
    for (int op = 0; op < ESTIMATE_OPS; op++)
        if (work->ops[op].all.calls > 0) rows[n++] = (Row){&work->ops[op].all, &time->ops[op], op};
    qsort(rows, (size_t)n, sizeof *rows, by_time);
    return n;
}

static void print_operations(const Work *work, const WorkTime *time) {
    Row rows[ESTIMATE_OPS];
    double bytes = 0, sum = 0;
    int n = sorted_rows(work, time, rows);
    for (int i = 0; i < n; i++) sum += rows[i].time->seconds;
    printf("%-32s %8s %12s %10s %10s %6s  %s\n", "operation, a step", "calls", "GFLOP", "GB", "ms", "%", "bound by");
    for (int i = 0; i < n; i++) {
        const CallWork *w = rows[i].work;
        bytes += w->bytes;
        printf("%-32s %8.0f %12.4f %10.4f %10.3f %6.1f  %s\n", estimate_op_name(rows[i].op), w->calls, w->flops * 1e-9,
               w->bytes * 1e-9, rows[i].time->seconds * 1e3, 100 * rows[i].time->seconds / sum,
               bound_names[rows[i].time->bound]);
    }
    printf("%-32s %8s %12.4f %10.4f %10.3f\n", "total", "", time->flops * 1e-9, bytes * 1e-9, sum * 1e3);
}

static void print_time(const Training *t, const RunWork *w, const RunTime *r) {
    const WorkTime *s = &r->step;
    char text[6][32];
    printf("[Time] a step %s, bound by %s: operations bound by compute %s, by memory %s, launches %s; beside them copy "
           "%s, loader %s\n",
           milliseconds(s->seconds, text[0]), bound_names[s->bound], milliseconds(s->parts[BY_COMPUTE], text[1]),
           milliseconds(s->parts[BY_MEMORY], text[2]), milliseconds(s->parts[BY_LAUNCHES], text[3]),
           milliseconds(s->copy, text[4]), milliseconds(s->loader, text[5]));
    printf("[Time] %.3g %s/s, %.3g TFLOP/s, %s %.1f %% of %.4g TFLOP/s (%s)\n", w->step.tokens / s->seconds,
           t->token_name ? t->token_name : "tokens", s->flops / s->seconds * 1e-12, utilisation(t), 100 * s->mfu,
           estimate_peak(&r->machine) * 1e-12, type_text(&r->machine));
    if (!w->steps) {
        printf("[Time] no data says how many steps there are: give the data, or --max-steps\n");
        return;
    }
    printf("[Time] %lld steps%s: %s\n", (long long)w->steps, t->typical ? " (--max-steps)" : "",
           format_duration(r->steps_seconds, text[0]));
    printf("[Time] %lld validations of %.0f micro-batches: %s (%.1f %%); %lld checkpoints of %s: %s (%.1f %%)\n",
           (long long)w->validations, w->validation.micro_batches, format_duration(r->validation_seconds, text[0]),
           100 * r->validation_seconds / r->seconds, (long long)w->checkpoints,
           format_bytes(w->checkpoint_bytes, text[1]), format_duration(r->checkpoint_seconds, text[2]),
           100 * r->checkpoint_seconds / r->seconds);
    printf("[Time] all of it: %s = %.3g hours", format_duration(r->seconds, text[0]), r->seconds / 3600);
    if (t->options->price > 0) printf(", $%.2f at $%.2f an hour", dollars(t, r->seconds), t->options->price);
    if (r->machine.card->watts > 0)
        printf("; at most %.3g kWh by the card's power", r->machine.card->watts * r->seconds / 3.6e6);
    printf("\n");
}

/* Whose shares of the stated rates these are. */
static void print_shares(const Card *c) {
    printf("[Assumed] sustained: %.0f %% of the tensor cores' rate (attention: half of that), %.0f %% of the f32 rate, "
           "%.0f %% of %.0f GB/s; %.1f us a launch. Their sources are in kernels/cards.c; --calibrate on the card "
           "measures instead\n",
           100 * c->of_tensor, 100 * c->of_f32, 100 * c->of_bandwidth, c->bandwidth * 1e-9, c->launch * 1e6);
}

static void print_measured(const Training *t, const Machine *m) {
    const Rates *r = m->rates;
    char *path = rates_path(t->options->calibration);
    printf("[Measured] on %s, %s: rates of operations by size, up to %.4g TFLOP/s of products (%s) and %.0f GB/s from "
           "far memory; %.2f us a launch",
           r->date, r->device, rates_best(r, machine_numbers(m)) * 1e-12, type_text(m),
           r->bytes.rate[r->bytes.n - 1] * 1e-9, r->launch * 1e6);
    if (r->copy > 0) printf("; %.1f GB/s from the host", r->copy * 1e-9);
    printf(" (%s)\n", path);
    free(path);
}

static void print_assumptions(const Training *t, const RunTime *r) {
    const Card *c = r->machine.card;
    if (r->machine.rates)
        print_measured(t, &r->machine);
    else
        print_shares(c);
    if (!r->machine.rates)
        printf("[Assumed] every byte of an operation goes to memory, none stays in the %.0f MB of L2 for the next: a "
               "model of which a layer's activations fit there does better\n",
               c->l2 / 0x1p20);
    printf("[Assumed] every epoch costs what the first does%s; each validation is the best so far and is saved; "
           "checkpoints are written at %.3g GB/s, a loader's worker fills %.3g GB/s\n",
           t->patience ? ", and none is saved by stopping early" : "", estimate_disk_rate * 1e-9,
           estimate_loader_rate * 1e-9);
}

/* What stands in the way of the type that was asked for; "": nothing. */
static const char *type_note(const Training *t, const Machine *m) {
    bool amp = t->options->amp;
    if (amp && !m->card->capability) return ": --amp has no effect on a CPU";
    if (amp && m->half == DTYPE_F16)
        return ", as it has no bf16: the loss is scaled so that gradients stay in f16's range";
    return !amp && m->tf32 && m->card->capability && !(m->card->tf32 > 0) ? ", as it has no TF32" : "";
}

static void print_one(const Training *t, const RunTime *r) {
    const RunWork *w = r->work;
    const Card *c = r->machine.card;
    printf("[Estimate] %s", c->key);
    if (strcmp(c->key, c->name)) printf(" (%s)", c->name);
    printf(", %.4g GiB: %s%s\n", c->memory / 0x1p30, type_text(&r->machine), type_note(t, &r->machine));
    print_data(t, w);
    print_memory(t, w, r);
    print_operations(&w->step, &r->step);
    print_time(t, w, r);
    print_assumptions(t, r);
}

/* ---- all cards ---- */

/* "fits", or what makes it fit; the micro-batches first, if they were chosen for the card. */
static void memory_text(const RunTime *r, char text[CHANGES_TEXT]) {
    const Changes *c = &r->changes;
    size_t n = 0;
    if (r->fits && r->batch.size)
        n = (size_t)snprintf(text, CHANGES_TEXT, "-b %lld -g %lld ", (long long)r->batch.size,
                             (long long)r->batch.accumulation);
    snprintf(text + n, CHANGES_TEXT - n, "%s%s%s",
             r->fits ? r->machine.rates ? "fits (rates measured)" : "fits"
             : c->n  ? c->text[0]
                     : "does not fit",
             c->n > 1 ? ", or " : "", c->n > 1 ? c->text[1] : "");
}

static void print_line(const Training *t, const RunTime *r) {
    const RunWork *w = r->work;
    char step[32], whole[32] = "-", cost[32] = "-", memory[CHANGES_TEXT];
    memory_text(r, memory);
    if (w->steps) format_duration(r->seconds, whole);
    if (w->steps && t->options->price > 0) snprintf(cost, sizeof cost, "%.2f", dollars(t, r->seconds));
    printf("%-13s %5.4g GiB %-4s %12s %6.1f  %-9s %10s %9s  %s\n", r->machine.card->key,
           r->machine.card->memory / 0x1p30, type_text(&r->machine), milliseconds(r->step.seconds, step),
           100 * r->step.mfu, bound_names[r->step.bound], whole, cost, memory);
}

void estimate_print(const Training *t, const RunTime *times, int n) {
    const RunWork *w = times[0].work;
    char need[128] = "-b and -g are each card's own";
    bool divides = false;
    if (n == 1) {
        print_one(t, times);
        return;
    }
    if (!t->options->auto_batch) {
        char bytes[32], steps[32] = "";
        print_data(t, w);
        if (w->steps) snprintf(steps, sizeof steps, "; %lld steps", (long long)w->steps);
        snprintf(need, sizeof need, "it needs %s%s", format_bytes((double)memory_total(&w->memory), bytes), steps);
    }
    printf("[Estimate] %s; for the operations and what is assumed give one card with --gpu\n", need);
    printf("%-13s %8s  %-4s %12s %6s  %-9s %10s %9s  %s\n", "card", "memory", "type", "a step", utilisation(t),
           "bound by", "whole run", "dollars", "memory: fits, or with");
    for (int i = 0; i < n; i++) {
        print_line(t, &times[i]);
        divides |= times[i].changes.divides;
    }
    if (divides && t->whole_batches) printf("[Estimate] a smaller -b is not the same run: %s\n", t->whole_batches);
}

/* ---- JSON ---- */

static json_t *operations_json(const Work *work, const WorkTime *time) {
    Row rows[ESTIMATE_OPS];
    json_t *list = json_array();
    int n = sorted_rows(work, time, rows);
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_build("the estimate", "{s:s, s:f, s:f, s:f, s:f, s:s}", "operation",
                                               estimate_op_name(rows[i].op), "calls", rows[i].work->calls, "flops",
                                               rows[i].work->flops, "bytes", rows[i].work->bytes, "seconds",
                                               rows[i].time->seconds, "bound", bound_names[rows[i].time->bound]));
    return list;
}

static json_t *assumed_json(const Card *c) {
    return json_build("the estimate", "{s:f, s:f, s:f, s:f, s:b}", "of_tensor_rate", c->of_tensor, "of_f32_rate",
                      c->of_f32, "of_bandwidth", c->of_bandwidth, "launch_seconds", c->launch, "l2_reuse", 0);
}

static json_t *measured_json(const Training *t, const Machine *m) {
    const Rates *r = m->rates;
    char *path = rates_path(t->options->calibration);
    json_t *measured =
        json_build("the estimate", "{s:s, s:s, s:s, s:f, s:f, s:f, s:f}", "device", r->device, "date", r->date, "file",
                   path, "product_rate", rates_best(r, machine_numbers(m)), "bandwidth", r->bytes.rate[r->bytes.n - 1],
                   "launch_seconds", r->launch, "copy_bandwidth", r->copy);
    free(path);
    return measured;
}

static json_t *memory_json(const MemoryPlan *m) {
    return json_build("the estimate", "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)m->weights,
                      "gradients", (json_int_t)m->gradients, "optimizer", (json_int_t)m->optimizer, "activations",
                      (json_int_t)m->activations, "batches", (json_int_t)m->batches, "data", (json_int_t)m->data,
                      "results", (json_int_t)m->results, "total", (json_int_t)memory_total(m));
}

/* What -b auto decides for each card. */
static void add_batch(json_t *card, const RunTime *r) {
    if (!r->batch.size) return;
    json_object_update_new(card,
                           json_build("the estimate", "{s:I, s:I, s:I, s:I, s:o}", "batch_size",
                                      (json_int_t)r->batch.size, "grad_accumulation", (json_int_t)r->batch.accumulation,
                                      "most_at_once", (json_int_t)r->batch.most, "steps", (json_int_t)r->work->steps,
                                      "memory_bytes", memory_json(&r->work->memory)));
}

static json_t *card_json(const Training *t, const RunTime *r) {
    const RunWork *w = r->work;
    const WorkTime *s = &r->step;
    const Card *c = r->machine.card;
    json_t *card = json_build("the estimate", "{s:s, s:s, s:s, s:f, s:b, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:o}",
                              "gpu", c->key, "name", c->name, "type", type_text(&r->machine), "available_bytes",
                              r->available, "fits", r->fits, "step_seconds", s->seconds, "bound", bound_names[s->bound],
                              "compute_seconds", s->parts[BY_COMPUTE], "memory_seconds", s->parts[BY_MEMORY],
                              "launch_seconds", s->parts[BY_LAUNCHES], "copy_seconds", s->copy, "loader_seconds",
                              s->loader, "mfu", s->mfu, "operations", operations_json(&w->step, s));
    json_t *changes = json_array();
    for (int i = 0; i < r->changes.n; i++) json_array_append_new(changes, json_string(r->changes.text[i]));
    json_object_set_new(card, "changes", changes);
    add_batch(card, r);
    if (w->steps)
        json_object_update_new(card, json_build("the estimate", "{s:f, s:f, s:f, s:f}", "seconds", r->seconds,
                                                "steps_seconds", r->steps_seconds, "validation_seconds",
                                                r->validation_seconds, "checkpoint_seconds", r->checkpoint_seconds));
    if (w->steps && t->options->price > 0) json_object_set_new(card, "dollars", json_real(dollars(t, r->seconds)));
    json_object_set_new(card, r->machine.rates ? "measured" : "assumed",
                        r->machine.rates ? measured_json(t, &r->machine) : assumed_json(c));
    return card;
}

char *estimate_json(const Training *t, const RunTime *times, int n) {
    const RunWork *w = times[0].work;
    json_t *cards = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(cards, card_json(t, &times[i]));
    json_t *root = json_build(
        "the estimate", "{s:s, s:I, s:b, s:o, s:{s:f, s:f, s:f}, s:{s:f, s:f, s:f}, s:I, s:I, s:I, s:f, s:o}", "model",
        t->model->name, "parameters", (json_int_t)params_count(&t->model->params), "typical_data", t->typical,
        "memory_bytes", memory_json(&w->memory), "epoch", "samples", w->epoch_samples, "micro_batches",
        w->epoch_batches, "tokens", w->epoch_tokens, "step", "sequences", w->step.sequences, "tokens", w->step.tokens,
        "flops", times[0].step.flops, "steps", (json_int_t)w->steps, "validations", (json_int_t)w->validations,
        "checkpoints", (json_int_t)w->checkpoints, "checkpoint_bytes", w->checkpoint_bytes, "gpus", cards);
    char *text = json_text("the estimate", root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(root);
    return text;
}
