#include "commands/gpt/features_estimate_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/json.h"
#include "estimate/work_report.h"

static const char *const network_names[FEATURE_NETWORKS] = {"w2v-BERT", "codec", "conditioning"};

static size_t memory_of(const FeatureWork *w) { return w->plan.weights + w->plan.bytes; }

static double pass_seconds(const FeatureWork *w) { return (double)w->plan.rows / FEATURE_ROWS_A_SECOND; }

/* Returns what limits the whole run. */
static const char *bound_text(const FeatureTime *t) {
    return t->measuring > fmax(t->computing, t->reading) ? "measuring"
           : t->reading > t->computing                   ? "reading"
                                                         : cost_bound_names[t->pass.bound];
}

/* Sums the work of all networks in a pass. */
static void sum_work(const FeatureWork *w, Work *sum) {
    *sum = (Work){0};
    for (int i = 0; i < FEATURE_NETWORKS; i++)
        for (int op = 0; op < OP_COUNT; op++) {
            const CallWork *more = &w->networks[i].ops[op].all;
            CallWork *to = &sum->ops[op].all;
            to->calls += more->calls;
            to->flops += more->flops;
            to->bytes += more->bytes;
        }
}

static double bytes_of(const Work *work) {
    double bytes = 0;
    for (int op = 0; op < OP_COUNT; op++) bytes += work->ops[op].all.bytes;
    return bytes;
}

/* ---- one card ---- */

static void print_head(const FeatureEstimateOptions *o, const Speech *speech, const FeatureTime *t) {
    const Card *c = t->machine.card;
    printf("[Estimate] %s", c->key);
    if (strcmp(c->key, c->name)) printf(" (%s)", c->name);
    printf(", %.4g GiB: products of w2v-BERT and the codec in %s, of the conditioning in %s\n", c->memory / 0x1p30,
           work_report_type(&t->on[FEATURE_W2V]), work_report_type(&t->on[FEATURE_VOICE]));
    printf("[Estimate] %.4g hours of speech in %lld recordings", speech->seconds / 3600, (long long)speech->n);
    if (o->hours > 0) printf(" of %d s (--hours)", FEATURE_CLIP_SECONDS);
    if (speech->left_out)
        printf(", without %lld shorter than --min-duration or longer than --max-duration", (long long)speech->left_out);
    printf("; passes: %lld of at most %.0f s\n", (long long)t->work->plan.n, pass_seconds(t->work));
}

static void print_memory(const FeatureTime *t) {
    char weights[32], pass[32], total[32], have[32];
    const FeatureWork *w = t->work;
    const char *limit = t->machine.limit;
    printf(
        "[Memory] weights %s + a pass %s = %s; %s has %s for it%s%s: ", format_bytes((double)w->plan.weights, weights),
        format_bytes((double)w->plan.bytes, pass), format_bytes((double)memory_of(w), total), t->machine.card->key,
        format_bytes(t->machine.available, have), limit ? " under " : "", limit ? limit : "");
    if (w->fits)
        printf("it fits, %.0f %% is used\n", 100 * (double)memory_of(w) / t->machine.available);
    else
        printf("it does not fit, however short the passes are\n");
}

static void print_networks(const FeatureTime *t) {
    printf("%-16s %-8s %12s %10s %10s %6s %9s %8s  %s\n", "network, a pass", "products", "GFLOP", "GB", "ms", "%",
           "TFLOP/s", "stated", "bound by");
    for (int i = 0; i < FEATURE_NETWORKS; i++) {
        const WorkTime *n = &t->networks[i];
        printf("%-16s %-8s %12.1f %10.3f %10.2f %6.1f %9.4g %8.4g  %s\n", network_names[i], work_report_type(&t->on[i]),
               n->flops * 1e-9, bytes_of(&t->work->networks[i]) * 1e-9, n->seconds * 1e3,
               100 * n->seconds / t->pass.seconds, n->flops / n->seconds * 1e-12, machine_peak_flops(&t->on[i]) * 1e-12,
               cost_bound_names[n->bound]);
    }
}

static void print_time(const Speech *speech, const FeatureTime *t) {
    const WorkTime *pass = &t->pass;
    char text[4][32], money[2][64];
    double flops = pass->flops * (double)t->work->plan.n;
    printf("[Time] a second of speech: %.1f GFLOP, %s = %.0f x real time, bound by %s: operations bound by compute "
           "%.0f %%, by memory %.0f %%, launches %.0f %%\n",
           flops / speech->seconds * 1e-9, format_milliseconds(t->computing / speech->seconds, text[0]),
           speech->seconds / t->computing, cost_bound_names[pass->bound], 100 * pass->parts[BY_COMPUTE] / pass->seconds,
           100 * pass->parts[BY_MEMORY] / pass->seconds, 100 * pass->parts[BY_LAUNCHES] / pass->seconds);
    printf("[Time] networks: %s at %.3g TFLOP/s = %s; at the stated rates %s\n", format_count(flops, "FLOP", text[0]),
           flops / t->computing * 1e-12, format_duration(t->computing, text[1]), format_duration(t->floor, text[2]));
    printf("[Time] recordings: measured before in %s, by %d thread%s; read beside the networks in %s\n",
           format_duration(t->measuring, text[0]), t->machine.workers, format_plural(t->machine.workers),
           format_duration(t->reading, text[1]));
    printf("[Time] all of it: %s = %.3g hours, %.0f x real time", format_duration(t->seconds, text[0]),
           t->seconds / 3600, speech->seconds / t->seconds);
    const Price *price = &t->price->price;
    if (price->per_hour > 0)
        printf(", %s at %s an hour", price_amount(price, price_cost(price, t->seconds), money[0]),
               price_amount(price, price->per_hour, money[1]));
    if (t->machine.card->watts > 0)
        printf("; at most %.3g kWh by the card's power", t->machine.card->watts * t->seconds / 3.6e6);
    printf("\n");
}

static void print_one(const FeatureEstimateOptions *o, const Speech *speech, const FeatureTime *t) {
    OWNED Work *sum = xmalloc(sizeof *sum);
    sum_work(t->work, sum);
    print_head(o, speech, t);
    print_memory(t);
    print_networks(t);
    work_report_operations(sum, &t->pass, "a pass");
    print_time(speech, t);
    work_report_rates(&t->machine, o->calibration);
    printf("[Assumed] a core measures %d seconds of compressed recordings in a second, and reads and makes frames of "
           "%d; the machine has a core for each of %d --num-workers, and its disk keeps up\n",
           FEATURE_MEASURING_RATE, FEATURE_READING_RATE, t->machine.workers);
    printf("[Estimate] not counted: reading and checking 6 GB of weights, the tokenizer, recordings that are rejected "
           "by their sound or text, and writing: minutes\n");
}

/* ---- all cards ---- */

static void print_all(const Speech *speech, const FeatureTime *times, int n) {
    printf("[Estimate] %.4g hours of speech in %lld recordings; for the operations and what is assumed give one card "
           "with --gpu\n",
           speech->seconds / 3600, (long long)speech->n);
    printf("%-13s %8s  %-11s %12s  %-9s %10s %9s  %s\n", "card", "memory", "types", "x real time", "bound by",
           "whole run", "cost", "memory");
    for (int i = 0; i < n; i++) {
        const FeatureTime *t = &times[i];
        char types[32], whole[32], need[32], cost[64] = "-";
        const Price *price = &t->price->price;
        snprintf(types, sizeof types, "%s, %s", work_report_type(&t->on[FEATURE_W2V]),
                 work_report_type(&t->on[FEATURE_VOICE]));
        if (price->per_hour > 0) price_amount(price, price_cost(price, t->seconds), cost);
        printf("%-13s %5.4g GiB  %-11s %12.0f  %-9s %10s %9s  %s %s\n", t->machine.card->key,
               t->machine.card->memory / 0x1p30, types, speech->seconds / t->seconds, bound_text(t),
               format_duration(t->seconds, whole), cost,
               t->work->fits ? "fits:" : "does not fit:", format_bytes((double)memory_of(t->work), need));
    }
}

void feature_estimate_print(const FeatureEstimateOptions *o, const Speech *speech, const FeatureTime *times, int n) {
    if (n == 1)
        print_one(o, speech, times);
    else
        print_all(speech, times, n);
}

/* ---- JSON ---- */

static json_t *networks_json(const FeatureTime *t) {
    json_t *list = json_array();
    for (int i = 0; i < FEATURE_NETWORKS; i++)
        json_array_append_new(
            list, json_build("the estimate", "{s:s, s:s, s:f, s:f, s:f, s:f, s:s}", "network", network_names[i], "type",
                             work_report_type(&t->on[i]), "flops", t->networks[i].flops, "bytes",
                             bytes_of(&t->work->networks[i]), "seconds", t->networks[i].seconds, "stated_rate",
                             machine_peak_flops(&t->on[i]), "bound", cost_bound_names[t->networks[i].bound]));
    return list;
}

static json_t *card_json(const FeatureEstimateOptions *o, const Speech *speech, const FeatureTime *t) {
    const FeatureWork *w = t->work;
    OWNED Work *sum = xmalloc(sizeof *sum);
    sum_work(w, sum);
    json_t *card = json_build(
        "the estimate",
        "{s:s, s:s, s:f, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:o, s:o, s:s*}", "gpu",
        t->machine.card->key, "name", t->machine.card->name, "available_bytes", t->machine.available, "fits", w->fits,
        "weight_bytes", (json_int_t)w->plan.weights, "pass_bytes", (json_int_t)w->plan.bytes, "passes",
        (json_int_t)w->plan.n, "rows_of_a_pass", (json_int_t)w->plan.rows, "pass_seconds", t->pass.seconds, "flops",
        t->pass.flops * (double)w->plan.n, "computing_seconds", t->computing, "floor_seconds", t->floor,
        "measuring_seconds", t->measuring, "reading_seconds", t->reading, "seconds", t->seconds, "bound", bound_text(t),
        "networks", networks_json(t), "operations", work_report_operations_json(sum, &t->pass), "memory_limit",
        t->machine.limit);
    json_object_set_new(card, "times_real_time", json_real(speech->seconds / t->seconds));
    const Price *price = &t->price->price;
    if (price->per_hour > 0)
        json_object_update_new(card,
                               json_build("the estimate", "{s:f, s:f, s:s}", "cost", price_cost(price, t->seconds),
                                          "price_per_hour", price->per_hour, "currency", price->currency));
    work_report_add_rates(card, &t->machine, o->calibration);
    return card;
}

char *feature_estimate_json(const FeatureEstimateOptions *o, const Speech *speech, const FeatureTime *times, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, card_json(o, speech, &times[i]));
    json_auto_t *root = json_build("the estimate", "{s:f, s:I, s:I, s:b, s:o}", "speech_seconds", speech->seconds,
                                   "recordings", (json_int_t)speech->n, "left_out", (json_int_t)speech->left_out,
                                   "typical_data", o->hours > 0, "gpus", list);
    return json_text("the estimate", root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
}
