#include "cost/timeline.h"

#include <stdlib.h>
#include <string.h>

/* A clock of two streams: `wall` seconds have passed, in which a pass has computed what alone takes `done`. */
typedef struct {
    double wall, done, slowed;
    double speed; /* of computing while the link is used; 1: as fast as alone */
} Clock;

/* Lets the link be used for some seconds, in which the pass computes on, but not beyond `most`. */
static void use_link(Clock *c, double seconds, double most) {
    double room = most > c->done ? most - c->done : 0, computed = seconds * c->speed;
    if (computed > room) computed = room;
    c->wall += seconds;
    c->done += computed;
    c->slowed += computed / c->speed - computed;
}

/* Lets the pass compute while the link rests. */
static void compute_until(Clock *c, double done) {
    if (done <= c->done) return;
    c->wall += done - c->done;
    c->done = done;
}

/* Adds the last pass's exchange of gradients: its parts at `scale` times what they were timed as. */
static void reduce(SharedStep *t, Clock c, const StepParts *p, const Link *link, const Sharing *s, double scale) {
    double pass = p->pass * scale;
    for (int i = 0; i < p->n_buckets; i++) {
        const TimedBucket *b = &p->buckets[i];
        double bytes = b->elements * s->reduce_bytes;
        int operations = s->divided && !b->gathered ? 1 : 2;
        double seconds = operations * link_seconds(link, s->ranks, bytes);
        compute_until(&c, b->final * scale);
        use_link(&c, seconds, pass);
        t->communicated += seconds;
        t->sent += operations * link_bytes(s->ranks, bytes);
    }
    compute_until(&c, pass);
    t->slowed += c.slowed;
    t->reducing = c.wall - pass - c.slowed;
}

static int by_need(const void *a, const void *b) {
    double x = ((const TimedBucket *)a)->needed, y = ((const TimedBucket *)b)->needed;
    return (x > y) - (x < y);
}

/* Adds the first pass's wait for parameters, which are sent in the order in which it reads them. */
static void gather(SharedStep *t, Clock c, const StepParts *p, const Link *link, const Sharing *s, double scale) {
    size_t size = (size_t)p->n_buckets * sizeof *p->buckets;
    OWNED TimedBucket *order = xmalloc(size);
    memcpy(order, p->buckets, size);
    qsort(order, (size_t)p->n_buckets, sizeof *order, by_need);
    for (int i = 0; i < p->n_buckets; i++) {
        double bytes = order[i].elements * s->parameter_bytes, seconds = link_seconds(link, s->ranks, bytes);
        use_link(&c, seconds, order[i].needed * scale);
        t->communicated += seconds;
        t->sent += link_bytes(s->ranks, bytes);
    }
    t->slowed += c.slowed;
    t->gathering = c.wall - c.done - c.slowed;
}

SharedStep timeline_step(const StepParts *p, const Link *link, const Sharing *s) {
    bool shared = s->ranks > 1;
    double taken = shared && p->multiprocessors ? (double)link->channels / p->multiprocessors : 0;
    double last = s->micro_batches > 1 ? p->later : p->first, pass = p->pass > 0 ? p->pass : 1;
    SharedStep t = {.compute =
                        p->first + (double)(s->micro_batches - 1) * p->later + p->update / (s->divided ? s->ranks : 1)};
    const Clock clock = {.speed = 1 - (taken < 0.9 ? taken : 0.9)};
    if (shared) reduce(&t, clock, p, link, s, last / pass);
    if (shared && s->divided) gather(&t, clock, p, link, s, p->first / pass);
    if (shared) t.small = 2 * s->small * link->latency;
    t.step = t.compute + timeline_exposed(&t);
    double loader = p->loader * (double)(s->micro_batches * s->ranks);
    if (loader > t.step) t.step = loader;
    return t;
}

double timeline_exposed(const SharedStep *t) { return t->slowed + t->reducing + t->gathering + t->small; }

double timeline_scaling(const StepParts *p, const Link *link, const Sharing *s) {
    Sharing alone = *s;
    alone.ranks = 1, alone.divided = false;
    return timeline_step(p, link, &alone).step / timeline_step(p, link, s).step;
}
