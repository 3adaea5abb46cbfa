#include "cost/cost.h"

#include <math.h>

#include "cost/product.h"

/* FLOPs in f32 that attention does for each of its products' on the tensor cores, forward and backward, at the rate of
 * f32: exponentials, sums, and what else keeps the tensor cores waiting. Of cuDNN's kernels, causal over 1,024 rows
 * with heads of 64, in the profile of an A100 in llm.c's pull request 378: 12 layers of 24 sequences take 4.5 ms
 * forward and 16.3 backward, at 1,275 of 1,410 MHz. */
static const double attention_f32[] = {0.08, 0.14};
/* The share of f32's rate that attention reaches without tensor cores: assumed. */
static const double attention_of_f32 = 0.5;

/* Measured on a busy machine of two cores with its files in memory: 0.6e9 and 1.4e9 in two kinds of training. */
const double cost_loader_rate = 0.6e9;
const double cost_disk_rate = 1e9; /* assumed */

const char *const cost_bound_names[] = {"compute", "memory", "launches", "copy", "loader", "exchange"};

/* ---- the time of an operation, and of all ---- */

/* Returns the measured FLOP/s of an operation in calls of so many FLOPs and bytes; 0 if not measured. */
static double measured(const Machine *m, int op, double flops, double bytes) {
    if (!m->rates) return 0;
    NumberType type = machine_numbers(m);
    const RateCurve(*by_type)[CURVES] = m->rates->flops[work_kind(op)];
    if (type == NUMBERS_TF32 && !by_type[type][0].n) type = NUMBERS_F32; /* TF32 is for products only */
    return rate_curves_at(by_type[type], flops, bytes);
}

/* Returns the assumed FLOP/s of an operation: of products on the tensor cores if the type allows, else of f32 FMAs. */
static double sustained(const Machine *m, int op) {
    const Card *card = m->card;
    double f32 = card->of_f32 * card->f32;
    switch (work_kind(op)) {
    case WORK_PRODUCT:
    case WORK_PRODUCT_BACKWARD:
    case WORK_GELU_PRODUCT:
    case WORK_GELU_PRODUCT_BACKWARD:
    case WORK_CONVOLUTION:
    case WORK_CONVOLUTION_BACKWARD:
    case WORK_MUON:
        return machine_numbers(m) == NUMBERS_F32 ? f32 : card->of_tensor * machine_peak_flops(m);
    case WORK_STEM: /* in TF32 there is none, nor any for Volta's tensor cores */
    case WORK_STEM_BACKWARD:
        return m->half == DTYPE_F32 || card->capability < 75 ? f32 : card->of_tensor * card->half;
    case WORK_ATTENTION:
    case WORK_ATTENTION_BACKWARD: /* the same */
        if (m->half == DTYPE_F32 || card->capability < 75) return attention_of_f32 * f32;
        return 1 / (1 / (card->of_tensor * card->half) + attention_f32[work_kind(op) != WORK_ATTENTION] / f32);
    default:
        return f32;
    }
}

/* Returns whether a product's epilogue computes a GELU: below 9.0 the library's is slow. */
static bool has_gelu_epilogue(const Machine *m) { return m->card->capability >= 90 && m->half != DTYPE_F32; }

/* Returns the seconds that some bytes of a kernel take where all the traffic's take `all`: those that leave the L2 at
 * the memory's rate, those that do not at its own. */
static double moving(const Machine *m, const OpTraffic *traffic, TrafficKernel kernel, double bytes) {
    double bandwidth = m->card->of_bandwidth * m->card->bandwidth;
    double all = traffic_bytes(traffic, kernel, 0), far = traffic_bytes(traffic, kernel, CARD_L2_USABLE * m->card->l2);
    return bytes / traffic->counted * (far + (all - far) / CARD_L2_RATE) / bandwidth;
}

/* Returns the time of a product over that of its FLOPs at the sustained rate. */
static double product_factor(const Machine *m, const OpTraffic *traffic, double rate) {
    bool on_tensor_cores = rate > m->card->of_f32 * m->card->f32;
    double flops = 0, seconds = 0, peak = on_tensor_cores ? machine_peak_flops(m) : rate;
    for (int i = 0; i < traffic->n_products; i++) {
        TrafficProduct p = traffic->products[i];
        p.unaligned = p.unaligned && on_tensor_cores; /* others do not care */
        flops += p.calls * 2 * (double)p.m * (double)p.n * (double)p.k;
        seconds += p.calls * product_seconds(m->card, rate, peak, &p);
    }
    return flops > 0 ? seconds * rate / flops : 1;
}

/* Adds the time of calls of one size. With rates that are measured nothing else is known: they have it all. */
static void add_calls(const Machine *m, int op, const OpWork *work, const CallWork *w, OpTime *t) {
    const OpTraffic *traffic = m->rates ? NULL : work->traffic;
    double rate = measured(m, op, w->flops / w->calls, w->bytes / w->calls), passes = 0;
    double bandwidth =
        m->rates ? rate_curve_at(&m->rates->bytes, w->bytes / w->calls) : m->card->of_bandwidth * m->card->bandwidth;
    double compute = w->flops / (rate > 0 ? rate : sustained(m, op)), memory = w->bytes / bandwidth;
    if (traffic) {
        compute *= product_factor(m, traffic, sustained(m, op));
        memory = moving(m, traffic, TRAFFIC_MAIN, w->bytes);
        passes = moving(m, traffic, TRAFFIC_PASS, w->bytes);
        if (!has_gelu_epilogue(m)) passes += moving(m, traffic, TRAFFIC_GELU, w->bytes);
    }
    t->compute += compute;
    t->memory += memory + passes;
    t->seconds += (compute > memory ? compute : memory) + passes;
}

OpTime cost_of_op(const Machine *m, int op, const OpWork *work) {
    OpTime t = {.launches = work->all.calls * work_kernels(op) * (m->rates ? m->rates->launch : m->card->launch)};
    for (int i = 0; i < CALL_SIZES; i++)
        if (work->sizes[i].calls > 0) add_calls(m, op, work, &work->sizes[i], &t);
    t.bound = t.launches > t.seconds ? BY_LAUNCHES : t.compute > t.memory ? BY_COMPUTE : BY_MEMORY;
    t.seconds += t.launches;
    return t;
}

WorkTime cost_of_work(const Machine *m, const Work *work) {
    WorkTime t = {.copy = work->batch_bytes / machine_copy_rate(m),
                  .loader = work->batch_bytes / (cost_loader_rate * m->workers)};
    for (int op = 0; op < OP_COUNT; op++) {
        OpTime *o = &t.ops[op];
        *o = cost_of_op(m, op, &work->ops[op]);
        t.parts[o->compute > o->memory ? BY_COMPUTE : BY_MEMORY] += o->seconds - o->launches;
        t.parts[BY_LAUNCHES] += o->launches;
        t.flops += work->ops[op].all.flops;
        t.seconds += o->seconds;
    }
    for (int b = BY_MEMORY; b <= BY_LAUNCHES; b++)
        if (t.parts[b] > t.parts[t.bound]) t.bound = (Bound)b;
    if (t.copy > t.parts[t.bound]) t.bound = BY_COPY;
    t.seconds += t.copy;
    if (t.loader > t.seconds) t.seconds = t.loader, t.bound = BY_LOADER;
    t.mfu = t.seconds > 0 ? t.flops / t.seconds / machine_peak_flops(m) : 0;
    return t;
}

/* Returns the stated FLOP/s of an operation; of Volta's tensor cores too, though our attention does not use them. */
static double stated(const Machine *m, int op) {
    Card card = *m->card;
    Machine whole = {.card = &card, .half = m->half, .tf32 = m->tf32};
    WorkKind kind = work_kind(op);
    card.of_tensor = card.of_f32 = 1;
    if (card.capability < 75) card.capability = 75;
    if (kind != WORK_ATTENTION && kind != WORK_ATTENTION_BACKWARD) return sustained(&whole, op);
    return m->half == DTYPE_F32 ? card.f32 : card.half;
}

double cost_floor(const Machine *m, const Work *work) {
    double seconds = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        const OpWork *w = &work->ops[op];
        double far = w->traffic ? traffic_bytes(w->traffic, TRAFFIC_MAIN, m->card->l2) / w->traffic->counted : 1;
        for (int i = 0; i < CALL_SIZES; i++) {
            double compute = w->sizes[i].flops / stated(m, op);
            double memory = fmin(far, 1) * w->sizes[i].bytes / m->card->bandwidth;
            seconds += fmax(compute, memory);
        }
    }
    return seconds;
}
