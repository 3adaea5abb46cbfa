#include "cost/cost.h"

/* Attention on the tensor cores reaches about half of what matrix products do: assumed, as of FlashAttention-2 (Dao
 * 2023) on an A100 with sequences of some hundred rows. */
static const double of_attention = 0.5;

/* Measured on a busy machine of two cores with its files in memory: 0.6e9 and 1.4e9 in two kinds of training. */
const double cost_loader_rate = 0.6e9;
const double cost_disk_rate = 1e9; /* assumed */

const char *const cost_bound_names[] = {"compute", "memory", "launches", "copy", "loader"};

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
        return of_attention * (m->half == DTYPE_F32 || card->capability < 75 ? f32 : card->of_tensor * card->half);
    default:
        return f32;
    }
}

OpTime cost_of_op(const Machine *m, int op, const OpWork *work) {
    OpTime t = {.launches = work->all.calls * work_kernels(op) * (m->rates ? m->rates->launch : m->card->launch)};
    for (int i = 0; i < CALL_SIZES; i++) {
        const CallWork *w = &work->sizes[i];
        if (!(w->calls > 0)) continue;
        double rate = measured(m, op, w->flops / w->calls, w->bytes / w->calls);
        double bandwidth = m->rates ? rate_curve_at(&m->rates->bytes, w->bytes / w->calls)
                                    : m->card->of_bandwidth * m->card->bandwidth;
        double compute = w->flops / (rate > 0 ? rate : sustained(m, op)), memory = w->bytes / bandwidth;
        t.compute += compute;
        t.memory += memory;
        t.seconds += compute > memory ? compute : memory;
    }
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
    if (t.copy > t.seconds) t.seconds = t.copy, t.bound = BY_COPY;
    if (t.loader > t.seconds) t.seconds = t.loader, t.bound = BY_LOADER;
    t.mfu = t.seconds > 0 ? t.flops / t.seconds / machine_peak_flops(m) : 0;
    return t;
}

double cost_floor(const Machine *m, const Work *work) {
    Card card = *m->card;
    Machine stated = {.card = &card, .half = m->half, .tf32 = m->tf32, .workers = m->workers};
    double seconds = 0;
    card.of_bandwidth = 1;
    card.launch = 0;
    if (card.capability < 75)
        card.capability = 75; /* Volta's tensor cores too, though our attention does not use them */
    for (int op = 0; op < OP_COUNT; op++) {
        bool attention = work_kind(op) == WORK_ATTENTION || work_kind(op) == WORK_ATTENTION_BACKWARD;
        card.of_tensor = card.of_f32 = attention ? 1 / of_attention : 1;
        seconds += cost_of_op(&stated, op, &work->ops[op]).seconds;
    }
    return seconds;
}
