#include "train/parallel/advice.h"

#include <stdio.h>

#include "base/format.h"

static const double scales_well = 0.95;

static bool fits(const AdviceRequest *r, const Sharing *s) {
    double spared = s->divided ? r->moments * (1 - 1.0 / s->ranks) : 0;
    return !(r->memory > 0) || r->bytes - spared <= r->memory;
}

static void add_way(Advice *a, int ranks, bool divided) {
    const AdviceRequest *r = &a->request;
    AdviceWay *way = &a->ways[a->n];
    way->sharing = r->sharing;
    way->sharing.ranks = ranks, way->sharing.divided = divided;
    way->sharing.micro_batches = r->sharing.micro_batches * r->sharing.ranks / ranks;
    way->sharing.small += divided - r->sharing.divided; /* the norm is exchanged */
    way->time = timeline_step(r->parts, &r->link, &way->sharing);
    way->scaling = timeline_scaling(r->parts, &r->link, &way->sharing);
    way->fits = fits(r, &way->sharing);
    if (ranks == r->sharing.ranks && divided == r->sharing.divided) a->asked = a->n;
    if (ranks == 1 && !divided) a->alone = a->n;
    a->n++;
}

/* Chooses the fastest way that fits. A gain of less than a hundredth is not worth a change, but one card, the last of
 * the ways, is taken whenever it is faster. */
static int choose(const Advice *a) {
    int best = a->ways[a->asked].fits ? a->asked : -1;
    for (int i = 0; i < a->n; i++) {
        const AdviceWay *w = &a->ways[i];
        double enough = i == a->alone ? 1 : 0.99;
        if (w->fits && (best < 0 || w->time.step < enough * a->ways[best].time.step)) best = i;
    }
    return best < 0 ? a->asked : best;
}

/* Returns with how many micro-batches of each rank the exchange is hidden; 0: it is, or cannot be. */
static int64_t find_hiding(const Advice *a) {
    enum { MOST = 64 };
    const AdviceRequest *r = &a->request;
    Sharing s = r->sharing;
    if (a->ways[a->asked].scaling >= scales_well) return 0;
    for (int64_t times = 2; times <= MOST; times *= 2) {
        s.micro_batches = times * r->sharing.micro_batches;
        if (timeline_scaling(r->parts, &r->link, &s) >= scales_well) return s.micro_batches;
    }
    return 0;
}

Advice advice_of(const AdviceRequest *request) {
    Advice a = {.request = *request, .asked = -1};
    int64_t whole = request->sharing.micro_batches * request->sharing.ranks;
    int most = request->available < ADVICE_RANKS ? request->available : ADVICE_RANKS;
    for (int ranks = most; ranks > 1; ranks--)
        for (int divided = 0; whole % ranks == 0 && divided < 2; divided++) add_way(&a, ranks, divided);
    add_way(&a, 1, false);
    if (a.asked < 0) a.asked = a.alone; /* one rank, whose --zero changes nothing, or more than are listed */
    a.chosen = choose(&a);
    a.hiding = find_hiding(&a);
    Sharing half = request->sharing;
    half.reduce_bytes = 2;
    if (request->sharing.reduce_bytes > 2) a.halved = timeline_step(request->parts, &request->link, &half).step;
    return a;
}

const char *advice_way_text(const Advice *a, int way, char text[64]) {
    const Sharing *s = &a->ways[way].sharing;
    int64_t g = s->micro_batches * (a->request.whole_step ? s->ranks : 1);
    if (s->ranks == 1)
        snprintf(text, 64, "one card, -g %lld", (long long)g);
    else
        snprintf(text, 64, "%d cards, -g %lld --zero %d", s->ranks, (long long)g, s->divided);
    return text;
}

/* Appends what would hide the exchange of what was asked for. */
static void add_remedies(const Advice *a, char *text, size_t size) {
    const AdviceRequest *r = &a->request;
    const SharedStep *t = &a->ways[a->asked].time;
    char sent[32], exposed[32], halved[32];
    size_t n =
        (size_t)snprintf(text, size, "\nof a step %s are not hidden, in which each card sends %s over %s",
                         format_milliseconds(timeline_exposed(t), exposed), format_bytes(t->sent, sent), r->link.name);
    if (a->hiding && n < size) {
        int64_t times = a->hiding / r->sharing.micro_batches;
        n += (size_t)snprintf(text + n, size - n, "; -g %lld would hide it: %lld times the effective batch",
                              (long long)(a->hiding * (r->whole_step ? r->sharing.ranks : 1)), (long long)times);
    }
    if (a->halved > 0 && a->halved < t->step && n < size)
        snprintf(text + n, size - n, "; --reduce-type bf16 would take %s a step, and rounds gradients",
                 format_milliseconds(a->halved, halved));
}

const char *advice_text(const Advice *a, char text[ADVICE_TEXT]) {
    const AdviceWay *asked = &a->ways[a->asked], *chosen = &a->ways[a->chosen], *alone = &a->ways[a->alone];
    char way[3][64], time[3][32];
    advice_way_text(a, a->asked, way[0]), advice_way_text(a, a->chosen, way[1]), advice_way_text(a, a->alone, way[2]);
    format_milliseconds(asked->time.step, time[0]), format_milliseconds(chosen->time.step, time[1]);
    format_milliseconds(alone->time.step, time[2]);
    double gain = alone->time.step / chosen->time.step;
    int n;
    if (a->chosen == a->asked)
        n = snprintf(text, ADVICE_TEXT, "%s: a step takes %s", way[0], time[0]);
    else
        n = snprintf(text, ADVICE_TEXT, "%s: a step would take %s%s; chosen: %s, with %s", way[0], time[0],
                     asked->fits ? "" : " and not fit", way[1], time[1]);
    if (a->chosen != a->alone)
        n += snprintf(text + n, (size_t)(ADVICE_TEXT - n), ", %.2f times as fast as %s (%s%s)", gain, way[2], time[2],
                      alone->fits ? "" : ", which does not fit");
    if (asked->sharing.ranks > 1 && timeline_exposed(&asked->time) > (1 - scales_well) * asked->time.step)
        add_remedies(a, text + n, (size_t)(ADVICE_TEXT - n));
    return text;
}
