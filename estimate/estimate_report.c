/* The estimate as text, in full for one card and in one line each for several; and as JSON. */
#include "estimate/estimate_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "base/json.h"
#include "base/program.h"
#include "estimate/compare.h"
#include "estimate/shared_report.h"
#include "estimate/work_report.h"
#include "train/report.h"

/* With recomputed operations it is the utilisation of the hardware (HFU), not of the model. */
static const char *utilisation(const TrainSpec *spec) { return spec->options->grad_checkpointing ? "HFU" : "MFU"; }

/* ---- one card ---- */

static void print_data(const TrainSpec *spec, const RunWork *w) {
    if (spec->synthetic)
        printf("[Estimate] there is no data: typical micro-batches of %.0f sequences, %.0f tokens\n",
               w->epoch_samples / w->epoch_batches, w->epoch_tokens / w->epoch_batches);
    else
        printf("[Estimate] an epoch: %.0f samples, micro-batches: %.0f, tokens: %.0f\n", w->epoch_samples,
               w->epoch_batches, w->epoch_tokens);
    printf("[Estimate] a step: micro-batches: %.0f, sequences: %.1f, tokens: %.0f%s\n",
           w->ranks * w->step.micro_batches, w->ranks * w->step.sequences, w->ranks * w->step.tokens,
           spec->options->grad_checkpointing ? "; blocks are computed twice" : "");
}

static void print_memory(const TrainSpec *spec, const RunWork *w, const RunTime *r) {
    char have[32], headroom[32], text[CHANGES_TEXT];
    if (r->batch.size) sizing_print_choice(spec, &r->batch);
    memory_print(&w->memory);
    const char *limit = r->machine.limit;
    printf("[Memory] %s has %s for it%s%s: ", r->machine.card->key, format_bytes(r->available, have),
           limit ? " under " : "", limit ? limit : "");
    if (r->fits)
        printf("it fits, %.0f %% is used\n", 100 * (double)memory_total(&w->memory) / r->available);
    else
        printf("it does not fit; %s\n", sizing_changes_text(spec, &r->changes, text));
    if (r->machine.card->capability)
        printf("[Assumed] CUDA takes %s of the card for itself; %s are kept free, as a run does\n",
               format_bytes(r->machine.card->memory * CARD_WITHHELD + (double)CARD_LOADED, have),
               format_bytes((double)CARD_HEADROOM, headroom));
}

static void print_time(const TrainSpec *spec, const RunWork *w, const RunTime *r) {
    const WorkTime *s = &r->step;
    char text[6][32], money[2][64];
    printf("[Time] a step %s, bound by %s: operations bound by compute %s, by memory %s, launches %s, copies "
           "%s; beside them the loader %s\n",
           format_milliseconds(s->seconds, text[0]), cost_bound_names[s->bound],
           format_milliseconds(s->parts[BY_COMPUTE], text[1]), format_milliseconds(s->parts[BY_MEMORY], text[2]),
           format_milliseconds(s->parts[BY_LAUNCHES], text[3]), format_milliseconds(s->copy, text[4]),
           format_milliseconds(s->loader, text[5]));
    printf("[Time] %.3g %s/s, %.3g TFLOP/s%s, %s %.1f %% of %.4g TFLOP/s (%s)\n",
           w->ranks * w->step.tokens / s->seconds, spec->labels.token ? spec->labels.token : "tokens",
           s->flops / s->seconds * 1e-12, w->ranks > 1 ? " of each card" : "", utilisation(spec), 100 * s->mfu,
           machine_peak_flops(&r->machine) * 1e-12, work_report_type(&r->machine));
    double unaligned = w->step.unaligned_flops / s->flops;
    if (unaligned > 0.01)
        printf(
            "[Time] %.0f %% of the FLOPs are of products over rows that are no multiple of 8 numbers, for which GPUs "
            "have slower kernels: choose widths that are\n",
            100 * unaligned);
    if (!w->steps) {
        printf("[Time] no data says how many steps there are: give the data, or --max-steps\n");
        return;
    }
    printf("[Time] %lld steps%s: %s\n", (long long)w->steps, spec->synthetic ? " (--max-steps)" : "",
           format_duration(r->steps_seconds, text[0]));
    printf("[Time] %lld validations of %.0f micro-batches: %s (%.1f %%); %lld checkpoints of %s: %s (%.1f %%)\n",
           (long long)w->validations, w->validation.micro_batches, format_duration(r->validation_seconds, text[0]),
           100 * r->validation_seconds / r->seconds, (long long)w->checkpoints,
           format_bytes(w->checkpoint_bytes, text[1]), format_duration(r->checkpoint_seconds, text[2]),
           100 * r->checkpoint_seconds / r->seconds);
    printf("[Time] all of it: %s = %.3g hours", format_duration(r->seconds, text[0]), r->seconds / 3600);
    const Price *price = &r->price->price;
    if (price->per_hour > 0)
        printf(", %s at %s an hour", price_amount(price, price_cost(price, r->seconds), money[0]),
               price_amount(price, price->per_hour, money[1]));
    if (r->machine.card->watts > 0)
        printf("; at most %.3g kWh by the card's power", w->ranks * r->machine.card->watts * r->seconds / 3.6e6);
    printf("\n");
}

static void print_assumptions(const TrainSpec *spec, const RunTime *r) {
    work_report_rates(&r->machine, spec->options->calibration);
    printf("[Assumed] every epoch costs what the first does%s; each validation is the best so far and is saved; "
           "checkpoints are written at %.3g GB/s, a loader's worker fills %.3g GB/s\n",
           spec->selection.patience ? ", and none is saved by stopping early" : "", cost_disk_rate * 1e-9,
           cost_loader_rate * 1e-9);
}

/* Returns why the type is not the one asked for; "" if it is. */
static const char *type_note(const TrainSpec *spec, const Machine *m) {
    bool amp = spec->options->amp;
    if (amp && !m->card->capability) return ": --amp has no effect on a CPU";
    if (amp && m->half == DTYPE_F16)
        return ", as it has no bf16: the loss is scaled so that gradients stay in f16's range";
    return !amp && m->tf32 && m->card->capability && !(m->card->tf32 > 0) ? ", as it has no TF32" : "";
}

static void print_one(const TrainSpec *spec, const RunTime *r) {
    const RunWork *w = r->work;
    const Card *c = r->machine.card;
    printf("[Estimate] %s", c->key);
    if (strcmp(c->key, c->name)) printf(" (%s)", c->name);
    printf(", %.4g GiB: %s%s\n", c->memory / 0x1p30, work_report_type(&r->machine), type_note(spec, &r->machine));
    print_data(spec, w);
    print_memory(spec, w, r);
    work_report_operations(&w->step, &r->step, "a step");
    print_time(spec, w, r);
    shared_print(spec, r);
    print_assumptions(spec, r);
}

/* ---- all cards ---- */

/* Writes "fits", or what makes it fit; first the micro-batches, if they were chosen for the card. */
static void memory_text(const RunTime *r, char text[CHANGES_TEXT]) {
    const Changes *c = &r->changes;
    char cards[64];
    size_t n = 0;
    if (r->fits && r->batch.size)
        n = (size_t)snprintf(text, CHANGES_TEXT, "-b %lld -g %lld ", (long long)r->batch.size,
                             (long long)r->batch.accumulation);
    n += (size_t)snprintf(text + n, CHANGES_TEXT - n, "%s", shared_text(r, cards));
    snprintf(text + n, CHANGES_TEXT - n, "%s%s%s",
             r->fits ? r->machine.rates ? "fits (rates measured)" : "fits"
             : c->n  ? c->text[0]
                     : "does not fit",
             c->n > 1 ? ", or " : "", c->n > 1 ? c->text[1] : "");
}

static void print_line(const TrainSpec *spec, const Comparison *c, const RunTime *r) {
    const RunWork *w = r->work;
    char step[32], whole[32] = "-", cost[32] = "-", even[32] = "-", memory[CHANGES_TEXT];
    double price = spec->options->prices.by_card ? r->price->price.per_hour : 0;
    double break_even = compare_break_even(c, r);
    memory_text(r, memory);
    if (w->steps) format_duration(r->seconds, whole);
    if (w->steps && price > 0) snprintf(cost, sizeof cost, "%.2f", price_cost(&r->price->price, r->seconds));
    if (break_even >= 0)
        snprintf(even, sizeof even, c->cheapest ? "%.2f" : "%.0f %%", break_even * (c->cheapest ? 1 : 100));
    printf("%-13s %5.4g GiB %-4s %12s %6.1f  %-9s %10s %9s %10s  %s\n", r->machine.card->key,
           r->machine.card->memory / 0x1p30, work_report_type(&r->machine), format_milliseconds(r->step.seconds, step),
           100 * r->step.mfu, cost_bound_names[r->step.bound], whole, cost, even, memory);
}

static void print_all(const TrainSpec *spec, const RunTime *times, int n, bool is_part) {
    const RunWork *w = times[0].work;
    char need[128] = "-b and -g are each card's own";
    const PriceList *prices = &spec->options->prices;
    Comparison c = compare_runs(prices, times, n);
    bool divides = false;
    if (n == 1) {
        print_one(spec, times);
        return;
    }
    if (!spec->options->auto_batch) {
        char bytes[32], steps[32] = "";
        print_data(spec, w);
        if (w->steps) snprintf(steps, sizeof steps, "; %lld steps", (long long)w->steps);
        snprintf(need, sizeof need, "it needs %s%s", format_bytes((double)memory_total(&w->memory), bytes), steps);
    }
    printf("[Estimate] %s; for the operations and what is assumed give one card with --gpu\n", need);
    printf("%-13s %8s  %-4s %12s %6s  %-9s %10s %9s %10s  %s\n", "card", "memory", "type", "a step", utilisation(spec),
           "bound by", "whole run", prices->by_card ? prices->any.price.currency : "cost", "break-even",
           "memory: fits, or with");
    for (int i = 0; i < n; i++) {
        print_line(spec, &c, &times[i]);
        divides |= times[i].changes.divides;
    }
    if (divides && spec->batch.indivisible)
        printf("[Estimate] a smaller -b is not the same run: %s\n", spec->batch.indivisible);
    if (!is_part) compare_print(&c, prices);
}

/* ---- JSON ---- */

static json_t *memory_json(const MemoryPlan *m) {
    return json_build("the estimate", "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)m->weights,
                      "gradients", (json_int_t)m->gradients, "optimizer", (json_int_t)m->optimizer, "activations",
                      (json_int_t)m->activations, "batches", (json_int_t)m->batches, "data", (json_int_t)m->data,
                      "results", (json_int_t)m->results, "total", (json_int_t)memory_total(m));
}

/* Adds the choice of -b auto. */
static void add_batch(json_t *card, const RunTime *r) {
    if (!r->batch.size) return;
    json_object_update_new(card,
                           json_build("the estimate", "{s:I, s:I, s:I, s:I, s:o}", "batch_size",
                                      (json_int_t)r->batch.size, "grad_accumulation", (json_int_t)r->batch.accumulation,
                                      "most_at_once", (json_int_t)r->batch.most_at_once, "steps",
                                      (json_int_t)r->work->steps, "memory_bytes", memory_json(&r->work->memory)));
}

/* Adds the cost, unless one price stands for several cards, and what compares with other cards. */
static void add_price(const TrainSpec *spec, const Comparison *c, json_t *card, const RunTime *r) {
    const CardPrice *p = r->price;
    double even = compare_break_even(c, r);
    if (p->price.per_hour > 0 && (spec->options->prices.by_card || strcmp(spec->options->gpu, "all") != 0))
        json_object_update_new(card,
                               json_build("the estimate", "{s:f, s:f, s:s}", "cost", price_cost(&p->price, r->seconds),
                                          "price_per_hour", p->price.per_hour, "currency", p->price.currency));
    if (*p->provider) json_object_set_new(card, "price_provider", json_string(p->provider));
    if (*p->date) json_object_set_new(card, "price_date", json_string(p->date));
    if (even >= 0) json_object_set_new(card, c->cheapest ? "break_even_per_hour" : "break_even_share", json_real(even));
}

static json_t *card_json(const TrainSpec *spec, const Comparison *c, const RunTime *r) {
    const RunWork *w = r->work;
    const WorkTime *s = &r->step;
    const Card *of = r->machine.card;
    json_t *changes = json_array();
    for (int i = 0; i < r->changes.n; i++) json_array_append_new(changes, json_string(r->changes.text[i]));
    json_t *card = json_build(
        "the estimate", "{s:s, s:s, s:s, s:f, s:b, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:s*}", "gpu",
        of->key, "name", of->name, "type", work_report_type(&r->machine), "available_bytes", r->available, "fits",
        r->fits, "step_seconds", s->seconds, "bound", cost_bound_names[s->bound], "compute_seconds",
        s->parts[BY_COMPUTE], "memory_seconds", s->parts[BY_MEMORY], "launch_seconds", s->parts[BY_LAUNCHES],
        "copy_seconds", s->copy, "loader_seconds", s->loader, "mfu", s->mfu, "operations",
        work_report_operations_json(&w->step, s), "changes", changes, "memory_limit", r->machine.limit);
    add_batch(card, r);
    if (shared_is_reported(r)) json_object_set_new(card, "shared", shared_json(r));
    json_object_set_new(card, "floor_seconds", json_real(cost_floor(&r->machine, &w->step)));
    if (w->steps)
        json_object_update_new(card, json_build("the estimate", "{s:f, s:f, s:f, s:f}", "seconds", r->seconds,
                                                "steps_seconds", r->steps_seconds, "validation_seconds",
                                                r->validation_seconds, "checkpoint_seconds", r->checkpoint_seconds));
    if (w->steps) add_price(spec, c, card, r);
    work_report_add_rates(card, &r->machine, spec->options->calibration);
    return card;
}

static char *json_of(const TrainSpec *spec, const RunTime *times, int n) {
    const RunWork *w = times[0].work;
    double cards = w->ranks;
    json_t *list = json_array();
    Comparison c = compare_runs(&spec->options->prices, times, n);
    for (int i = 0; i < n; i++) json_array_append_new(list, card_json(spec, &c, &times[i]));
    json_auto_t *root = json_build(
        "the estimate", "{s:s, s:I, s:b, s:o, s:{s:f, s:f, s:f}, s:{s:f, s:f, s:f, s:f}, s:I, s:I, s:I, s:f, s:o}",
        "model", spec->model->name, "parameters", (json_int_t)params_count(&spec->model->params), "typical_data",
        spec->synthetic, "memory_bytes", memory_json(&w->memory), "epoch", "samples", w->epoch_samples, "micro_batches",
        w->epoch_batches, "tokens", w->epoch_tokens, "step", "sequences", cards * w->step.sequences, "tokens",
        cards * w->step.tokens, "flops", cards * times[0].step.flops, "unaligned_flops",
        cards * w->step.unaligned_flops, "steps", (json_int_t)w->steps, "validations", (json_int_t)w->validations,
        "checkpoints", (json_int_t)w->checkpoints, "checkpoint_bytes", w->checkpoint_bytes, "gpus", list);
    if (c.fastest) json_object_set_new(root, "fastest", json_string(c.fastest->machine.card->key));
    if (c.cheapest) json_object_set_new(root, "cheapest", json_string(c.cheapest->machine.card->key));
    return json_text("the estimate", root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
}

void estimate_begin(TrainOptions *o) {
    MachineOptions options = train_machine_options(o);
    int n;
    shared_begin(o);
    free(machines_named(&options, &n));
    if (o->json) o->json_file = program_free_stdout();
}

void estimate_report(const TrainSpec *spec, bool is_part) {
    const TrainOptions *o = spec->options;
    MachineOptions options = train_machine_options(o);
    int n;
    OWNED Machine *machines = machines_named(&options, &n);
    OWNED RunWork *work = xcalloc((size_t)n, sizeof *work);
    OWNED RunTime *times = xcalloc((size_t)n, sizeof *times);
    estimate_runs(spec, machines, n, work, times);
    if (!spec->synthetic) report_check_warmup(spec, work[0].steps);
    report_check_epochs(spec, work[0].steps, (int64_t)work[0].epoch_batches);
    if (o->json) {
        OWNED char *text = json_of(spec, times, n);
        if (dprintf(o->json_file, "%s\n", text) < 0) die("--json: cannot write to stdout");
    } else {
        print_all(spec, times, n, is_part);
    }
}
