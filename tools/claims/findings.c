/* Prints what the steps of the guides' models no longer do, beside what that would take: products over rows that are no
 * multiple of 8 numbers, passes over gradients, and launches beside recordings. Counts are of the programs as they are
 * (--estimate, and for launches the tests on the emulated card), and of what they did before. */
#include "cost/product.h"
#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

/* A product with a vocabulary: forward, and the gradients of its input and its weight, in each micro-batch. */
typedef struct {
    int64_t rows, width, classes, calls;
} Head;

enum { MOST_HEADS = 2, OF_ONE_SIZE = 15, EVENTS = 3 };
typedef struct {
    const char *name, *card, *command;
    double padding; /* rows of padding to a row, in the mean; 0: all micro-batches have one size, and were recorded */
    Head heads[MOST_HEADS]; /* whose classes were no multiple of 8 */
} Step;

#define GPT(card)                                                                                                      \
    {                                                                                                                  \
        "Amharic GPT, 8 x 4", card, "train_gpt --amp -b 8 -g 4 --number-text-tokens 24000 --num-workers 8",            \
            64.0 / 3096, {                                                                                             \
            {808, 1280, 24001, 4}, { 2008, 1280, 8194, 4 }                                                             \
        }                                                                                                              \
    }
static const Step steps[] = {
    GPT("l4"),
    GPT("a100-80"),
    {"text GPT, 24 x 1,024, 50,257 pieces",
     "a30",
     "train_slm --amp -b 24 -g 2 --vocabulary 50257 --num-workers 8",
     0,
     {{8192, 768, 50257, 6}}},
    {"PhoBERT, 32 texts", "t4", "train_bert --config configs/phobert_t4.yaml", 16.0 / 523, {{0}}},
    {"PhoBERT, 32 texts", "l4", "train_bert --config configs/phobert_l4.yaml", 16.0 / 523, {{0}}},
    {"PhoBERT, pretraining", "l4", "train_bert pretrain --amp", 16.0 / 523, {{78, 768, 64001, 1}}},
    {"PSD Medium, 512 spectra", "l40s", "train_psd pretrain --config configs/psd_pretrain_l40s.yaml", 0, {{0}}},
    {"PSD Tiny, classes", "l40s", "train_psd finetune --size tiny", 0, {{0}}},
    {"FLIM, 64 cells", "l4", "train_cv --config configs/flim_l4.yaml", 0, {{0}}},
};

/* Microseconds that a kernel takes longer in a stream than in a graph, and those of the host's call for it: NVIDIA's
 * article on CUDA graphs has kernels of 2.9 us, which take 3.8 in a stream and 3.4 in a graph (V100), and 4 or more for
 * the host. */
static const double between = 0.4e-6, call = 4e-6;

/* Returns the seconds that the heads' products take longer over rows of classes that are no multiple of 8. */
static double unaligned_seconds(const Run *run, const Step *step) {
    const Card *card = run->card;
    double more = 0;
    for (int h = 0; h < MOST_HEADS && step->heads[h].rows; h++) {
        const Head *head = &step->heads[h];
        int64_t n = head->rows, c = head->width, v = head->classes, even = (v + 7) / 8 * 8;
        TrafficProduct before[] = {{.m = n, .n = v, .k = c}, {.m = n, .n = c, .k = v}, {.m = v, .n = c, .k = n}},
                       after[] = {
                           {.m = n, .n = even, .k = c}, {.m = n, .n = c, .k = even}, {.m = even, .n = c, .k = n}};
        for (int i = 0; i < 3; i++) {
            before[i].bytes = after[i].bytes = i < 2 ? 2 : 4;
            before[i].unaligned = true;
            more += (double)head->calls * (product_seconds(card, card->of_tensor * card->half, card->half, &before[i]) -
                                           product_seconds(card, card->of_tensor * card->half, card->half, &after[i]));
        }
    }
    return more;
}

static double head_flops(const Step *step) {
    double flops = 0;
    for (int h = 0; h < MOST_HEADS && step->heads[h].rows; h++) {
        const Head *head = &step->heads[h];
        flops += 6 * (double)head->rows * (double)head->width * (double)head->classes * (double)head->calls;
    }
    return flops;
}

/* Returns the bytes that are moved no more of the gradients that a step's norm reads: those that are not cleared now
 * were, and the first products added to them. */
static double gradient_bytes(const Run *run) { return 2 * (run->normed - run->cleared); }

static double gradient_seconds(const Run *run) {
    double bandwidth = run->card->of_bandwidth * run->card->bandwidth;
    return (gradient_bytes(run) + run->normed) / bandwidth - (run->norm_seconds - run->card->launch);
}

/* Returns the seconds that rows of padding take: in operations that memory bounds, the update's aside, and in products
 * with vocabularies, whose rows are rounded up by a tenth in the mean. Tiles of other products compute them anyway. */
static double padding_seconds(const Run *run, const Step *step) {
    double updated =
        (run->update_bytes + run->cleared + run->normed) / (run->card->of_bandwidth * run->card->bandwidth);
    if (!(step->padding > 0)) return 0;
    return step->padding * fmax(run->memory_bound - updated, 0) +
           0.1 * head_flops(step) / (run->card->of_tensor * run->card->half);
}

static void print_step(const Step *step) {
    Run run = run_computed(step->card, step->command);
    double aligned = unaligned_seconds(&run, step), gradients = gradient_seconds(&run);
    double launches = step->padding > 0 ? run.launches / run.card->launch : OF_ONE_SIZE,
           events = step->padding > 0 ? 0 : EVENTS;
    double padding = padding_seconds(&run, step), less = aligned + gradients - padding;
    double least = less + launches * between, most = less + (launches + events) * call;
    char flops[64] = "none", calls[64], padded[32] = "none";
    if (padding > 0) snprintf(padded, sizeof padded, "+%s", percent(padding / run.step));
    if (aligned > 0)
        snprintf(flops, sizeof flops, "%s to 0: -%s", percent(head_flops(step) / run.flops),
                 percent(aligned / (run.step + aligned)));
    snprintf(calls, sizeof calls, "%s to 0%s: -%s to -%s", number(launches), events > 0 ? ", events 4 to 1" : "",
             percent(launches * between / (run.step + launches * between)),
             percent((launches + events) * call / (run.step + (launches + events) * call)));
    printf("| %s | %s | %s | %s less: -%s | %s | %s | -%s to -%s | %s |\n", step->name, run.card->key, flops,
           bytes(gradient_bytes(&run)), percent(gradients / (run.step + gradients)), calls, padded,
           percent(least / (run.step + least)), percent(most / (run.step + most)), seconds(run.step));
}

void print_findings(void) {
    printf("\n## What a step no longer does\n\n");
    paragraph(
        stdout,
        "Counts of a step before and after, and the share of the time before that this is, by the arithmetic "
        "above; nothing of it was measured. **FLOPs of products over rows that are no multiple of 8 numbers**: "
        "vocabularies have rows of padding now. **Bytes of gradients**: the first product of a step overwrites "
        "them, so that they are not cleared and not read there, and the L2 gives what it still holds of them to "
        "the norm. **Launches beside recordings**: of a micro-batch of its own size all, else the update's; "
        "and events between the copy of a batch and the operations. None is left of a size that came before, as far "
        "as the recordings reach back. A launch costs the card %s us more in a stream than in a graph if the host is "
        "ahead, and the host's %s us "
        "if it is not. **Padding**: what the rows cost that give micro-batches few sizes.",
        number(between * 1e6), number(call * 1e6));
    paragraph(stdout,
              "Not in the sums: GELUs below 9.0, where the library's epilogue, which is slow there by an unknown "
              "factor, made room for the faster of two ways, chosen by timing (docs/gpu.md).");
    printf("| step | card | rows no multiple of 8 | gradients | launches | padding | all together | a step now |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) print_step(&steps[i]);
}
