/* The guide for the text GPT on several cards. */
#include <stdio.h>

#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

/* The MFU that the reference prints: 8 N FLOPs per token, N without the position table, over the rate of an A100
 * whatever the card. */
static const double printed_parameters = 107993856, printed_peak = 312e12;
static const double evaluation_forwards = 100; /* 50 batches of each of two splits */
static double printed_flops(double tokens) { return 8 * printed_parameters * tokens; }

/* Returns the MFU of a step of so many seconds as --estimate and the log lines have it: FLOPs done over the card's own
 * rate. */
static double mfu_at(const Run *run, double seconds) { return run->flops / seconds / run->peak; }

/* Returns the seconds of a step that a printed MFU stands for. */
static double printed_seconds(const Run *run, double printed) {
    return printed_flops(run->tokens) / printed_peak / printed;
}

/* Bytes that PyTorch keeps in a step: weights, gradients and moments in f32, 38 bytes per token, layer and channel, and
 * 12 per logit (bf16, f32, and the gradients of both). */
static double eager_activations(double tokens) { return tokens * 38 * 768 * 12; }
static double eager_logits(double tokens) { return tokens * 12 * 30000; }
static double eager_bytes(double parameters, double tokens) {
    return 16 * parameters + eager_activations(tokens) + eager_logits(tokens);
}
static double eager_memory(const Run *run) { return eager_bytes(run->parameters, run->tokens); }

/* options: " --amp", or those of another precision. */
static Run run_with(const char *card, int batch, int length, const char *options) {
    return run_program(card, "train_slm -b %d --context %d%s --num-workers 8", batch, length, options);
}

static Run run_of(const char *card, int batch, int length) { return run_with(card, batch, length, " --amp"); }

/* ---- memory ---- */

static void preset(const char *says, const Run *run) {
    claim_theirs(eager_memory(run));
    claim_fits(says, run, "PyTorch keeps %s of activations and %s of logits", bytes(eager_activations(run->tokens)),
               bytes(eager_logits(run->tokens)));
}

static Run two_cards_with(const char *options) {
    OWNED char *arguments = xformat("train_slm -b 24 --context 1024 --amp --num-workers 8 --gpus 2 %s", options);
    return run_computed("a30", arguments);
}

/* Judges two cards by what --estimate --gpus has for the preset, and for a link such as rented cards without
 * peer-to-peer have shown. */
static void two_cards(void) {
    Run fast = two_cards_with("--zero 1"), slow = two_cards_with("--link 1.1");
    claim_fits("two A30 24 GB: batch 24 x 1024 on each", &fast, "with --zero 1 each has half of the moments");
    claim_gain("two A30: more tokens a second than one", fast.gain,
               "`--gpus 2 --zero 1` over PCIe 4: a step of both takes %s, of which %s wait for the exchange of %s by "
               "each; at 1.1 GB/s, as cards without peer-to-peer have shown, two are %s one with `--zero 0`, and %s "
               "in the way that the program chooses",
               seconds(fast.step), seconds(fast.exposed), bytes(fast.sent), times(slow.gain), times(slow.chosen_gain));
}

static void presets(const Run *a30_24, const Run *t4_12) {
    static const struct {
        const char *says, *card;
        int batch, length;
    } rows[] = {{"A30 24 GB: 20-28 x 1024", "a30", 28, 1024},
                {"RTX 3090 24 GB: 12-20 x 1024 (768 if out of memory)", "rtx3090", 20, 1024},
                {"RTX 4090 24 GB: 16-24 x 1024", "rtx4090", 24, 1024},
                {"A100 40 GB: 32-64 x 2048, its least", "a100-40", 32, 2048},
                {"A100 40 GB: 32-64 x 2048, its most", "a100-40", 64, 2048},
                {"A100 80 GB: 32-64 x 2048, its least", "a100-80", 32, 2048},
                {"A100 80 GB: 32-64 x 2048, its most", "a100-80", 64, 2048},
                {"conservative, for wide compatibility: 8 x 768", "t4", 8, 768}};
    Run runs[sizeof rows / sizeof *rows];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        runs[i] = run_of(rows[i].card, rows[i].batch, rows[i].length);
    preset("A30 24 GB: batch 24 x 1024", a30_24);
    two_cards();
    preset("T4 16 GB: 8-12 x 768", t4_12);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) preset(rows[i].says, &runs[i]);
}

static void out_of_memory(const Run *a30_24) {
    Run smaller = run_of("a30", 16, 1024), shorter = run_of("a30", 16, 768);
    claim_theirs(eager_memory(a30_24) / eager_memory(&smaller));
    claim_gain("out of memory: batch 16 instead of 24 needs less", a30_24->memory / smaller.memory,
               "%s to %s; PyTorch's %s to %s", bytes(a30_24->memory), bytes(smaller.memory),
               bytes(eager_memory(a30_24)), bytes(eager_memory(&smaller)));
    claim_theirs(eager_memory(&smaller) / eager_memory(&shorter));
    claim_gain("out of memory: then length 768 instead of 1024", smaller.memory / shorter.memory,
               "%s to %s; PyTorch's %s to %s", bytes(smaller.memory), bytes(shorter.memory),
               bytes(eager_memory(&smaller)), bytes(eager_memory(&shorter)));
}

static void memory(const Run *a30_24, const Run *a30_18, const Run *half_length) {
    double logits = 2.0 * a30_24->tokens * 30000, evaluation = a30_24->memory - a30_24->activations + logits;
    claim_theirs(eager_memory(a30_24) / a30_24->available);
    claim_amount(percent, "stay below about 90 % of the memory: batch 24 on an A30", 0, 0.9,
                 a30_24->memory / a30_24->available, "%s; PyTorch's %s", bytes(a30_24->memory),
                 bytes(eager_memory(a30_24)));
    claim_theirs(eager_memory(a30_18) / a30_18->available);
    claim_amount(percent, "use 70-85 % of the memory for a good MFU: batch 12-18 on an A30", 0.7, 0.85,
                 a30_18->memory / a30_18->available, "18 x 1024, %s; PyTorch's %s", bytes(a30_18->memory),
                 bytes(eager_memory(a30_18)));
    claim_ratio("memory grows with the square of the length, for attention", 4, 4,
                a30_24->activations / half_length->activations,
                "activations of 24 x 1024 (%c) over 24 x 512 (%c): fused attention keeps no scores, all else is linear",
                a30_24->name, half_length->name);
    claim_gain("evaluation spikes the memory, more with more eval_iters", evaluation / a30_24->memory,
               "evaluating 24 x 1024 takes %s, its logits beside the gradients and moments that stay; training %s; one "
               "iteration's activations make room for the next's",
               bytes(evaluation), bytes(a30_24->memory));
}

/* ---- speed ---- */

static double tokens_a_second(const Run *run) { return run->tokens / run->step; }

static double mfu(const Run *run) { return mfu_at(run, run->step); }

static void knobs(const Run *bf16, const Run *a30_12, const Run *half_length) {
    Run f32 = run_with("a30", 24, 1024, " --no-tf32"), tf32 = run_with("a30", 24, 1024, "");
    claim_gain("TF32 is faster than f32", f32.step / tf32.step,
               "%c over %c on an A30; with AMP on no product is in f32 and it changes nothing", f32.name, tf32.name);
    claim_gain("AMP: large speed gains", tf32.step / bf16->step, "%c over %c", tf32.name, bf16->name);
    claim_gain("AMP: large memory gains", tf32.memory / bf16->memory, "%s to %s", bytes(tf32.memory),
               bytes(bf16->memory));
    claim_gain(
        "batch size has the strongest effect on throughput", tokens_a_second(bf16) / tokens_a_second(a30_12),
        "tokens a second, 24 (%c) over 12 (%c): what a larger batch saves is reading weights and an update of %s",
        bf16->name, a30_12->name, bytes(bf16->update_bytes));
    double forward = bf16->step / 3, evaluation = evaluation_forwards * forward;
    claim_gain("evaluating less often reduces its overhead",
               (bf16->step + evaluation / 1000) / (bf16->step + evaluation / 2000),
               "every 2,000 steps instead of every 1,000, the guide's largest and least; %s forwards of %s, a "
               "third of a step, are %s of 2,000 steps of %s",
               number(evaluation_forwards), seconds(forward), percent(evaluation / (2000 * bf16->step)),
               seconds(bf16->step));
    claim_gain("2-6 workers and pinned memory feed the GPU faster",
               (bf16->step + 8 * bf16->loader + bf16->copy) / bf16->step,
               "if the card waited for one thread of ours and its copy: %s and %s a step", seconds(8 * bf16->loader),
               seconds(bf16->copy));
    claim_gain("longer sequences raise the MFU", mfu(bf16) / mfu(half_length), "%s at 1024 (%c), %s at 512 (%c)",
               percent(mfu(bf16)), bf16->name, percent(mfu(half_length)), half_length->name);
    claim_unknown("persistent workers, fewer log lines: less overhead",
                  "the reference takes random places of one array: there are no epochs to start workers at; the time "
                  "of a log line cannot be computed");
    claim_unknown("expandable segments avoid running out of memory",
                  "how much an allocator loses between its pieces cannot be computed from sizes");
    claim_gain(
        "NaN in bf16: fp16 instead (said four times)", 5.0 / 8,
        "bits of the exponent: fp16's largest number is 65,504, bf16's 3.4 x 10^38; fp16 overflows where bf16 does "
        "not");
    claim_unknown("pinned memory takes some of the RAM", "the ids of a batch are %s in 64 bits, in and out",
                  bytes(2 * 8 * bf16->tokens));
    claim_unknown("fp16 can be slightly faster than bf16 on some kernels", "the data sheets give both the same rate");
    claim_unknown("torch.compile: higher throughput, more memory",
                  "of our step (%c), which is fused by hand, operations bound by memory take %s and launches %s of %s; "
                  "what a step of PyTorch moves besides is not in the guide",
                  bf16->name, seconds(bf16->memory_bound), seconds(bf16->launches), seconds(bf16->step));
}

/* Turns a range of printed MFU back into the time of a step, and compares it with the estimate. */
static void printed_mfu(const char *says, const Run *run, double least, double most) {
    double longest = printed_seconds(run, least), shortest = printed_seconds(run, most);
    char other[64] = "";
    if (least < most) snprintf(other, sizeof other, " (printed %s: %s)", percent(least), percent(mfu_at(run, longest)));
    claim_time(says, shortest, longest, run->step, run->floor,
               "printed %s is %s a step of %.0f x %.0f, truly %s of %s's %s TFLOP/s%s; we estimate %s", percent(most),
               seconds(shortest), run->sequences, run->tokens / run->sequences, percent(mfu_at(run, shortest)),
               run->card->key, number(run->peak / 1e12), other, percent(mfu(run)));
}

static void targets(void) {
    static const struct {
        const char *name, *card;
        int batch;
        double good[2], excellent[2];
    } rows[] = {{"A30", "a30", 18, {0.15, 0.20}, {0.25, 0.30}},
                {"A40", "a40", 30, {0.20, 0.25}, {0.30, 0.35}},
                {"A100", "a100-40", 24, {0.25, 0.30}, {0.35, 0.40}},
                {"V100", "v100", 12, {0.15, 0.20}, {0.25, 0.30}},
                {"RTX 4090", "rtx4090", 18, {0.20, 0.25}, {0.30, 0.35}},
                {"RTX 4080", "rtx4080", 12, {0.15, 0.20}, {0.25, 0.30}},
                {"RTX 3090", "rtx3090", 16, {0.18, 0.22}, {0.28, 0.32}}};
    enum { N = sizeof rows / sizeof *rows };
    Run runs[N];
    for (int i = 0; i < N; i++) runs[i] = run_of(rows[i].card, rows[i].batch, 1024);
    for (int i = 0; i < N; i++) {
        char says[3][96];
        snprintf(says[0], 96, "%s: good MFU %.0f-%.0f %%", rows[i].name, 100 * rows[i].good[0], 100 * rows[i].good[1]);
        snprintf(says[1], 96, "%s: excellent MFU %.0f-%.0f %%", rows[i].name, 100 * rows[i].excellent[0],
                 100 * rows[i].excellent[1]);
        snprintf(says[2], 96, "%s: recommended batch up to %d", rows[i].name, rows[i].batch);
        printed_mfu(says[0], &runs[i], rows[i].good[0], rows[i].good[1]);
        printed_mfu(says[1], &runs[i], rows[i].excellent[0], rows[i].excellent[1]);
        preset(says[2], &runs[i]);
    }
}

static void printed_lines(const Run *a30_24, const Run *t4_12) {
    static const double time = 1.01121, mfu[] = {0.152, 0.016};
    static const char *const says[] = {"a good line: time 1011.21ms, mfu 15.2%",
                                       "a poor line: time 1011.21ms, mfu 1.6%"};
    printed_mfu("15-25 % for most setups", a30_24, 0.15, 0.25);
    printed_mfu("30 % and more for optimised setups: an A30", a30_24, 0.30, 0.30);
    printed_mfu("30 % and more for optimised setups: a T4", t4_12, 0.30, 0.30);
    printed_mfu("1-5 %, called poor", a30_24, 0.01, 0.05);
    for (int i = 0; i < 2; i++) {
        double sequences = mfu[i] * printed_peak * time / printed_flops(1024);
        claim_amount(number, says[i], sequences, sequences, a30_24->sequences,
                     "by the reference's formula such a line is of %s x 1024 tokens; the guide has 24 for an A30, "
                     "where a step takes %s",
                     number(sequences), seconds(a30_24->step));
    }
}

void estimates_slm(void) {
    section(
        "The text GPT on eight kinds of card",
        "12 x 768, 30,000 tokens, no biases, 108.8M parameters. All is of one card but where two are named. The "
        "MFU that the reference prints counts 8 N FLOPs a token over the rate of an A100 whatever the card: each is "
        "turned back into the time that it stands for, and this into the MFU of --estimate, FLOPs done over the "
        "card's own rate. PyTorch keeps 16 bytes a parameter, 38 a token, layer and channel, 12 a logit.");
    Run a30_24 = run_of("a30", 24, 1024), a30_18 = run_of("a30", 18, 1024), a30_12 = run_of("a30", 12, 1024);
    Run half_length = run_of("a30", 24, 512), t4_12 = run_of("t4", 12, 768);
    knobs(&a30_24, &a30_12, &half_length);
    presets(&a30_24, &t4_12);
    memory(&a30_24, &a30_18, &half_length);
    out_of_memory(&a30_24);
    printed_lines(&a30_24, &t4_12);
    targets();
}
