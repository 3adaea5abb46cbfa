/* Whole steps of other programs on cards, as they were reported, against the time that --estimate would give them. The
 * operations are those of their programs: llm.c's GPT-2 as of May 2024 and LLMQ's Qwen2.5, both in bf16, with their
 * kernels and their types of weights, gradients and moments. They go through the dry device as ours do. */
#include <stdlib.h>

#include "cost/cost.h"
#include "kernels/door.h"
#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

/* ---- operations ---- */

typedef struct {
    int64_t B, T, C, L, V, heads, kv_heads, head, hidden; /* hidden: of the perceptron */
    int64_t micro_batches;
    bool qwen; /* a gated perceptron, RMS norms, rotations; no biases but those of q, k and v */
} Net;

static Device *dry;

static Tensor place(DType dtype, int64_t rows, int64_t columns) {
    return tensor_2d(dry->allocate(dry, (size_t)(rows * columns) * dtype_size(dtype)), dtype, rows, columns);
}

static Tensor half(int64_t rows, int64_t columns) { return place(DTYPE_BF16, rows, columns); }

/* Counts a kernel that only moves numbers. */
#define PASS(...) door_count(dry, OP_gather_rows, 0, ACCESSES(__VA_ARGS__))

static void product(Tensor out, Tensor a, Tensor b, int64_t k, bool add) {
    int64_t m = out.dims[0], n = out.dims[1];
    door_product(dry, OP_linear_forward, (TrafficProduct){.m = m, .n = n, .k = k, .bytes = add ? 4 : 2});
    door_count(dry, OP_linear_forward, 2 * (double)m * (double)n * (double)k,
               ACCESSES(door_reads(a), door_reads(b), add ? door_adds(out) : door_writes(out)));
}

/* Counts the backward of y = x w with 16-bit gradients, of which dw is added to, and the pass that sums a bias. */
static void product_backward(Tensor dx, Tensor dw, Tensor dy, Tensor x, Tensor w, bool bias) {
    if (bias) PASS(door_reads(dy));
    product(dx, dy, w, dy.dims[1], false);
    product(dw, x, dy, x.dims[0], true);
}

static double pairs(const Net *n) { return (double)n->B * (double)n->T * (double)(n->T + 1) / 2; }

static void attention(const Net *n, Tensor out, Tensor lse, Tensor qkv) {
    double flops = 4 * pairs(n) * (double)(n->heads * n->head);
    door_count(dry, OP_attention_forward, flops, ACCESSES(door_reads(qkv), door_writes(out), door_writes(lse)));
}

/* Counts cuDNN's kernels: rows of dO O, the gradients with those of q in f32, their conversion. */
static void attention_back(const Net *n, Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv, Tensor dq) {
    double flops = 10 * pairs(n) * (double)(n->heads * n->head);
    PASS(door_reads(dout), door_reads(out));
    door_count(dry, OP_attention_backward, flops,
               ACCESSES(door_reads(qkv), door_reads(dout), door_reads(lse), door_adds(dq), door_writes(dqkv)));
    PASS(door_reads(dq), door_part(door_writes(dqkv), (double)tensor_bytes(out)));
}

/* ---- a step ---- */

typedef struct {
    Tensor w[4], dw[4];         /* q, k and v; projection; up (and gate); down */
    Tensor x, a, qkv, out, lse; /* residual; normed; attention */
    Tensor x2, a2, up, active;  /* the same of the perceptron */
} Layer;

static Layer open_layer(const Net *n) {
    int64_t N = n->B * n->T, wide = (n->heads + 2 * n->kv_heads) * n->head, up = n->qwen ? 2 * n->hidden : n->hidden;
    int64_t sizes[4][2] = {{n->C, wide}, {n->heads * n->head, n->C}, {n->C, up}, {n->hidden, n->C}};
    Layer l = {.x = half(N, n->C), .a = half(N, n->C), .qkv = half(N, wide), .out = half(N, n->heads * n->head)};
    for (int i = 0; i < 4; i++) l.w[i] = half(sizes[i][0], sizes[i][1]), l.dw[i] = half(sizes[i][0], sizes[i][1]);
    l.lse = place(DTYPE_F32, n->heads, N);
    l.x2 = half(N, n->C), l.a2 = half(N, n->C), l.up = half(N, up), l.active = half(N, n->hidden);
    return l;
}

static void forward(const Net *n, Layer *l, Tensor branch, Tensor next) {
    PASS(door_reads(l->x), door_writes(l->a)); /* the norm */
    product(l->qkv, l->a, l->w[0], n->C, false);
    if (n->qwen) PASS(door_adds(l->qkv));
    attention(n, l->out, l->lse, l->qkv);
    product(branch, l->out, l->w[1], l->out.dims[1], false);
    PASS(door_reads(l->x), door_reads(branch), door_writes(l->x2));
    PASS(door_reads(l->x2), door_writes(l->a2));
    product(l->up, l->a2, l->w[2], n->C, false);
    PASS(door_reads(l->up), door_writes(l->active));
    product(branch, l->active, l->w[3], n->hidden, false);
    PASS(door_reads(l->x2), door_reads(branch), door_writes(next));
}

/* The gradients of the layer's numbers, which all layers share: dx of the residual, d of C numbers a row. */
typedef struct {
    Tensor dx, d, dqkv, dout, dup, dactive, dq;
} Gradients;

static void backward(const Net *n, Layer *l, Gradients *g) {
    bool biases = !n->qwen;
    product_backward(g->dactive, l->dw[3], g->dx, l->active, l->w[3], biases);
    PASS(door_reads(l->up), door_reads(g->dactive), door_writes(g->dup));
    product_backward(g->d, l->dw[2], g->dup, l->a2, l->w[2], biases);
    PASS(door_reads(g->d), door_reads(l->x2), door_adds(g->dx));
    product_backward(g->dout, l->dw[1], g->dx, l->out, l->w[1], biases);
    attention_back(n, g->dqkv, g->dout, l->out, l->lse, l->qkv, g->dq);
    if (n->qwen) PASS(door_adds(g->dqkv));
    product_backward(g->d, l->dw[0], g->dqkv, l->a, l->w[0], true);
    PASS(door_reads(g->d), door_reads(l->x), door_adds(g->dx));
}

static void micro_batch(const Net *n, Layer *layers, Gradients *g, Tensor table, Tensor dtable, Tensor logits) {
    int64_t N = n->B * n->T;
    Tensor last = half(N, n->C), normed = half(N, n->C), branch = half(N, n->C);
    PASS(door_part(door_reads(table), (double)tensor_bytes(last)), door_writes(layers[0].x));
    for (int64_t i = 0; i < n->L; i++) forward(n, &layers[i], branch, i + 1 < n->L ? layers[i + 1].x : last);
    PASS(door_reads(last), door_writes(normed));
    product(logits, normed, table, n->C, false);
    PASS(door_reads(logits), door_writes(logits)); /* the classifier: losses and gradients */
    product_backward(g->d, dtable, logits, normed, table, false);
    PASS(door_reads(g->d), door_reads(last), door_writes(g->dx));
    for (int64_t i = n->L; i-- > 0;) backward(n, &layers[i], g);
    PASS(door_reads(g->dx), door_part(door_adds(dtable), (double)tensor_bytes(g->dx)));
}

/* Counts a step: weights and gradients in bf16, llm.c's moments in f32, LLMQ's in bf16 beside a norm; of embeddings
 * that are tied. */
static Work work_of_step(const Net *n) {
    int64_t N = n->B * n->T;
    Work work = {0};
    dry = dry_device_open();
    dry->half = DTYPE_BF16;
    device_follow(dry);
    xkeep(&dry, sizeof dry);
    Layer *layers = xcalloc((size_t)n->L, sizeof *layers);
    for (int64_t i = 0; i < n->L; i++) layers[i] = open_layer(n);
    Layer *l = layers;
    Gradients g = {half(N, n->C),
                   half(N, n->C),
                   half(N, l->qkv.dims[1]),
                   half(N, l->out.dims[1]),
                   half(N, l->up.dims[1]),
                   half(N, n->hidden),
                   place(DTYPE_F32, N, l->out.dims[1])};
    Tensor table = half(n->V, n->C), dtable = half(n->V, n->C), logits = half(N, n->V);
    for (int step = 0; step < 2; step++) { /* the second finds in the caches what the first left */
        if (step) device_reset_counters(dry);
        micro_batch(n, layers, &g, table, dtable, logits);
    }
    work_add_counters(&work, dry, (double)n->micro_batches);
    double parameters = (double)(n->V * n->C);
    for (int i = 0; i < 4; i++) parameters += (double)n->L * (double)tensor_numel(l->w[i]);
    work_follow(&work, dry);
    work_add_calls(&work.ops[OP_adamw_update], (CallWork){1, 14 * parameters, (n->qwen ? 16 : 24) * parameters});
    free(layers);
    return work;
}

/* ---- reported steps ---- */

typedef struct {
    const char *name, *card, *source;
    Net net;
    double clock;  /* MHz that it was held at; 0: free */
    double tokens; /* per second, measured */
    bool fitted;
    const char *why; /* it may be off */
} Reported;

#define GPT2(b, g)                                                                                                     \
    {                                                                                                                  \
        .B = b, .T = 1024, .C = 768, .L = 12, .V = 50304, .heads = 12, .kv_heads = 12, .head = 64, .hidden = 3072,     \
        .micro_batches = g                                                                                             \
    }
#define QWEN_05(b)                                                                                                     \
    {                                                                                                                  \
        .B = b, .T = 1024, .C = 896, .L = 24, .V = 151936, .heads = 14, .kv_heads = 2, .head = 64, .hidden = 4864,     \
        .micro_batches = 512 / (b), .qwen = true                                                                       \
    }
#define QWEN_15(b)                                                                                                     \
    {                                                                                                                  \
        .B = b, .T = 1024, .C = 1536, .L = 28, .V = 151936, .heads = 12, .kv_heads = 2, .head = 128, .hidden = 8960,   \
        .micro_batches = 512 / (b), .qwen = true                                                                       \
    }

static const Reported reported[] = {
    {"llm.c, GPT-2 124M, 24 x 1024", "rtx4090", "its pull request 322", GPT2(24, 1), 0, 24576 / 0.17077, true, NULL},
    {"llm.c, GPT-2 124M, 24 x 1024, at 1,275 MHz", "a100-40", "its pull request 378", GPT2(24, 1), 1275,
     24576 / 0.122571777, true, NULL},
    {"llm.c, GPT-2 124M, 32 x 1024, of the day of 322", "a100-pcie-40", "its pull request 323", GPT2(32, 1), 0, 145e3,
     false, ": on the same card a program of four weeks later did the next row"},
    {"llm.c, GPT-2 124M, 8 times 64 x 1024", "a100-pcie-40", "its discussion 481", GPT2(64, 8), 0, 178e3, false, NULL},
    {"LLMQ, Qwen2.5 0.5B, 32 times 16 x 1024", "rtx4090", "its benchmarks/4090x1.md", QWEN_05(16), 0, 39845, false,
     NULL},
    {"LLMQ, Qwen2.5 1.5B, 128 times 4 x 1024", "rtx4090", "its benchmarks/4090x1.md", QWEN_15(4), 0, 14072, false,
     NULL},
    {"LLMQ, Qwen2.5 0.5B, 32 times 16 x 1024", "l40s", "its README", QWEN_05(16), 0, 42e3, false, NULL},
    {"LLMQ, Qwen2.5 1.5B, 64 times 8 x 1024", "l40s", "its README", QWEN_15(8), 0, 17e3, false, NULL},
    {"LLMQ, Qwen2.5 0.5B, 16 times 32 x 1024", "h100", "its benchmarks/H100x1.md", QWEN_05(32), 0, 150e3, false, NULL},
    {"LLMQ, Qwen2.5 1.5B, 16 times 32 x 1024", "h100", "its benchmarks/H100x1.md", QWEN_15(32), 0, 59248, false, NULL},
};

static double predicted_tokens(const Reported *r) {
    enum { A100_BOOST = 1410 };
    Card card = *card_of_key(r->card);
    Work work = work_of_step(&r->net);
    if (r->clock > 0) { /* all but the memory slows down, and power is no limit */
        double slower = r->clock / A100_BOOST;
        card.of_tensor = fmin(card.of_tensor / slower, 0.95);
        card.half *= slower, card.f32 *= slower;
    }
    Machine machine = {.card = &card, .half = DTYPE_BF16, .workers = 8};
    double tokens = (double)(r->net.B * r->net.T * r->net.micro_batches);
    return tokens / cost_of_work(&machine, &work).seconds;
}

static void print_heads(void) {
    printf("\n## Against whole steps that others measured\n\n");
    paragraph(
        stdout,
        "How far these times can be trusted: the same arithmetic for the operations of other programs, in bf16 on "
        "one card, beside the tokens a second that were reported (`tools/claims/public.c`; repositories "
        "karpathy/llm.c and IST-DASLab/llmq). The model was fitted to two steps; for the others nothing was "
        "changed, and no constant is of a card and a model. The estimate of our own steps on an H100 is beside "
        "what they took in [gpu.md](../benchmarks/gpu.md).");
}

void print_public_steps(void) {
    print_heads();
    printf("| program and step | card | reported in | tokens/s | predicted | predicted / measured | |\n"
           "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof reported / sizeof *reported; i++) {
        const Reported *r = &reported[i];
        double tokens = predicted_tokens(r), ratio = tokens / r->tokens;
        bool close = fabs(ratio - 1) <= 0.1;
        printf("| %s | %s | %s | %s | %s | %.2f | %s%s%s |\n", r->name, r->card, r->source, count(r->tokens),
               count(tokens), ratio, r->fitted ? "fitted" : "blind", close ? "" : ", **off by more than 10 %**",
               close || !r->why ? "" : r->why);
    }
}
