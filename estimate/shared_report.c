#include "estimate/shared_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/json.h"

bool shared_is_reported(const RunTime *r) { return r->work->ranks > 1 || r->shared.advice.n > 1; }

static void print_link(const TrainSpec *spec, const RunTime *r) {
    const Link *l = &r->shared.advice.request.link;
    printf("[Cards] %d %s over %s: %.4g GB/s each way at once (%s), %.0f us an operation", r->work->ranks,
           r->machine.card->key, l->name, l->rate * 1e-9, l->why, l->latency * 1e6);
    printf("%s\n", spec->options->link ? "" : "; what such a card usually has, as --link is not given");
}

static void print_step(const RunTime *r) {
    const SharedStep *t = &r->shared.time;
    char text[6][32], sent[32];
    printf("[Cards] a step: computes %s; sending slows that by %s; gradients not hidden %s, parameters %s, small "
           "exchanges %s; each card sends %s, in %s\n",
           format_milliseconds(t->compute, text[0]), format_milliseconds(t->slowed, text[1]),
           format_milliseconds(t->reducing, text[2]), format_milliseconds(t->gathering, text[3]),
           format_milliseconds(t->small, text[4]), format_bytes(t->sent, sent),
           format_milliseconds(t->communicated, text[5]));
    printf("[Cards] %.3g tokens/s of all: %.1f %% of what %d cards compute that exchange nothing\n",
           r->work->ranks * r->work->step.tokens / t->step, 100 * r->shared.scaling, r->work->ranks);
}

/* Prints what one card would take for the same steps. */
static void print_alone(const TrainSpec *spec, const RunTime *r) {
    const Advice *a = &r->shared.advice;
    const AdviceWay *alone = &a->ways[a->alone];
    const PriceList *prices = &spec->options->prices;
    char way[64], step[32], whole[32], money[64];
    double seconds = (double)r->work->steps * alone->time.step;
    printf("[Cards] %s: %s a step", advice_way_text(a, a->alone, way), format_milliseconds(alone->time.step, step));
    if (r->work->steps) printf(", %s for all steps", format_duration(seconds, whole));
    if (r->work->steps && prices->by_card && r->price->price.per_hour > 0) {
        const Price *price = &price_list_find(prices, r->machine.card)->price;
        printf(", %s", price_amount(price, price_cost(price, seconds), money));
    }
    printf("%s\n", alone->fits ? "" : "; it does not fit");
}

static void print_ways(const Advice *a) {
    printf("[Cards] the same step on:\n%-28s %12s %8s %8s  %s\n", "", "a step", "speed", "scaling", "memory");
    for (int i = 0; i < a->n; i++) {
        const AdviceWay *w = &a->ways[i];
        char way[64], step[32];
        printf("%-28s %12s %7.2fx %6.1f %%  %s%s\n", advice_way_text(a, i, way),
               format_milliseconds(w->time.step, step), a->ways[a->alone].time.step / w->time.step, 100 * w->scaling,
               w->fits ? "fits" : "does not fit", i == a->chosen ? "; chosen" : "");
    }
}

/* Prints the advice, each of its lines as one of the report. */
static void print_advice(const Advice *a) {
    char text[ADVICE_TEXT], *rest = text;
    advice_text(a, text);
    for (char *line; (line = strsep(&rest, "\n"));) printf("[Cards] %s\n", line);
}

void shared_print(const TrainSpec *spec, const RunTime *r) {
    const Advice *a = &r->shared.advice;
    if (shared_is_automatic(spec->options) && a->n < 2) {
        printf("[Cards] a step of -g %lld is one card's: each needs a micro-batch at least\n",
               (long long)spec->options->grad_accumulation);
        return;
    }
    if (!shared_is_reported(r)) return;
    print_link(spec, r);
    if (r->work->ranks > 1) print_step(r);
    if (a->n > 2 || shared_is_automatic(spec->options)) print_ways(a);
    if (r->work->ranks > 1) print_alone(spec, r);
    print_advice(a);
    if (r->work->ranks == 1) return;
    int all = r->machine.card->multiprocessors;
    if (all) printf("[Assumed] NCCL takes %d of %d multiprocessors while it sends\n", a->request.link.channels, all);
    printf("[Assumed] NCCL's share of the memory's bandwidth%s, its buffers, and that some cards' micro-batches take "
           "longer, "
           "are not counted\n",
           all ? "" : ", the multiprocessors that it takes");
}

const char *shared_text(const RunTime *r, char text[64]) {
    text[0] = 0;
    if (r->work->ranks > 1)
        snprintf(text, 64, "%d over %s%s, ", r->work->ranks, r->shared.link.name, r->work->divided ? " --zero 1" : "");
    return text;
}

static json_t *time_json(const SharedStep *t) {
    return json_build("the estimate", "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "step_seconds", t->step,
                      "compute_seconds", t->compute, "slowed_seconds", t->slowed, "gradients_seconds", t->reducing,
                      "parameters_seconds", t->gathering, "small_seconds", t->small, "link_seconds", t->communicated,
                      "sent_bytes", t->sent);
}

json_t *shared_json(const RunTime *r) {
    const Advice *a = &r->shared.advice;
    const Link *l = &a->request.link;
    char text[ADVICE_TEXT];
    json_t *ways = json_array();
    for (int i = 0; i < a->n; i++) {
        const AdviceWay *w = &a->ways[i];
        json_t *way =
            json_build("the estimate", "{s:i, s:I, s:b, s:f, s:b, s:o}", "cards", w->sharing.ranks,
                       "micro_batches_each", (json_int_t)w->sharing.micro_batches, "zero", (int)w->sharing.divided,
                       "scaling", w->scaling, "fits", (int)w->fits, "time", time_json(&w->time));
        json_array_append_new(ways, way);
    }
    json_t *json =
        json_build("the estimate", "{s:i, s:b, s:{s:s, s:f, s:f, s:s, s:b}, s:o, s:i, s:i, s:i, s:s}", "cards",
                   r->work->ranks, "zero", (int)r->work->divided, "link", "name", l->name, "bytes_per_second", l->rate,
                   "latency_seconds", l->latency, "source", l->why, "measured", (int)l->measured, "ways", ways, "asked",
                   a->asked, "chosen", a->chosen, "one_card", a->alone, "advice", advice_text(a, text));
    if (r->work->ranks == 1) return json;
    json_object_set_new(json, "time", time_json(&r->shared.time));
    json_object_set_new(json, "scaling", json_real(r->shared.scaling));
    json_object_set_new(json, "tokens_per_second",
                        json_real(r->work->ranks * r->work->step.tokens / r->shared.time.step));
    return json;
}
