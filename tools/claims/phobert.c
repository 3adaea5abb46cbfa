/* The guide for PhoBERT on a T4. */
#include <math.h>

#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

static const TextModel phobert = {"PhoBERT", 64001, 258, 12, 768, 12, true, 2};
/* The data set that the guide calls ~24K, and the mean length of the longest text in random batches of 8, 16 and 32. */
static const double samples = 24048, epochs = 3;
enum { LONGEST_OF_8 = 43, LONGEST_OF_16 = 55, LONGEST_OF_32 = 69, MOST = 192, REAL_TOKENS = 16 };
/* Bytes per parameter that AdamW moves: in eight passes, one per operation, or fused. */
static const double unfused = 80, fused = 28;

static Run run_of(int batch, int length, bool recompute) {
    return run_text(&phobert, "t4", (TextBatch){batch, length, 2, DTYPE_F32, recompute}, IN_16_BITS);
}

static double whole(const Run *run, double n, double step) { return epochs * n / run->sequences * step; }

static void training_time(const Run *before, const Run *after) {
    const struct {
        double samples, before, least, most;
        const char *was, *is;
    } rows[] = {{samples, 30, 12, 15, "24K samples, 3 epochs: 30 min before", "24K samples: 12-15 min (said twice)"},
                {50000, 60, 25, 30, "50K samples: 60 min before", "50K samples: 25-30 min"},
                {100000, 120, 50, 60, "100K samples: 120 min before", "100K samples: 50-60 min"}};
    for (int i = 0; i < 3; i++) {
        double n = rows[i].samples, implied = epochs * n / (rows[i].most * 60);
        claim_time(rows[i].was, rows[i].before * 60, rows[i].before * 60, whole(before, n, before->step),
                   whole(before, n, before->floor),
                   "%s steps of %s; batches of 8 are padded to %d on average, %s are real",
                   number(ceil(epochs * n / before->sequences)), seconds(before->step), LONGEST_OF_8,
                   percent((double)REAL_TOKENS / LONGEST_OF_8));
        claim_time(rows[i].is, rows[i].least * 60, rows[i].most * 60, whole(after, n, after->step),
                   whole(after, n, after->floor),
                   "%s steps of %s; the guide's longest is %s samples a second, %s of the card's rate",
                   number(ceil(epochs * n / after->sequences)), seconds(after->step), number(implied),
                   percent(implied * after->flops / after->sequences / after->peak));
    }
}

static void speed_ups(const Run *before, const Run *after, const Run *kept, const Run *eval_16, const Run *eval_32) {
    double rate = before->sequences / before->step, sustained = before->card->of_bandwidth * before->card->bandwidth;
    double more = (unfused - fused) * before->parameters, update = before->update_bytes;
    claim_ratio("training batch 16 instead of 8: 1.6x", 1.6, 1.6, kept->sequences / kept->step / rate,
                "%c over %c: half as many updates of %s, but padded to %d instead of %d", kept->name, before->name,
                bytes(update), LONGEST_OF_16, LONGEST_OF_8);
    claim_ratio("evaluation batch 32 instead of 16: 1.5x", 1.5, 1.5,
                2 * eval_16->validation_seconds / eval_32->validation_seconds,
                "%s a batch of 16 x %d, %s one of 32 x %d: more of it is padding", seconds(eval_16->validation_seconds),
                LONGEST_OF_16, seconds(eval_32->validation_seconds), LONGEST_OF_32);
    claim_ratio("fused AdamW: 1.1-1.2x in all", 1.1, 1.2, (before->step + more / sustained) / before->step,
                "%s bytes a parameter instead of %s (eight passes: assumed) are %s more of a step of %s",
                number(unfused), number(fused), seconds(more / sustained), seconds(before->step));
    claim_ratio("fused AdamW: 10-20 % faster optimizer step", 1.1, 1.2, unfused / fused,
                "%s to %s bytes a parameter, and nothing else bounds it", number(unfused), number(fused));
    claim_unknown("2 workers instead of 0: 1.1x",
                  "how long Python takes to pad a batch cannot be computed; 1.1x would be %s of a step",
                  seconds(0.1 * before->step));
    claim_ratio("in all 2-2.5x", 2, 2.5, after->sequences / after->step / rate,
                "samples a second, %c over %c; without checkpointing (%c) %s; the guide's own factors make %s to %s",
                after->name, before->name, kept->name, times(kept->sequences / kept->step / rate),
                times(1.6 * 1.1 * 1.1), times(1.6 * 1.2 * 1.1));
    claim_ratio("about 2x in the table's rows and the summary", 2, 2, after->sequences / after->step / rate,
                "as the row above");
}

/* Returns the largest batch whose activations fit. `run` has batch 16. */
static double largest_batch(const Run *run) {
    return floor((run->available - run->memory + run->activations) / (run->activations / 16));
}

static void checkpointing(const Run *before, const Run *after, const Run *kept, const Run *full) {
    claim_amount(percent, "gradient checkpointing: about 20 % slower a step", 0.2, 0.2, after->step / kept->step - 1,
                 "%c over %c: the blocks' forward, a third of their work, is done twice; the update is not",
                 after->name, kept->name);
    claim_ratio("but more steps a second overall", 1.05, 100, before->step / after->step,
                "steps of 16 with it (%c) over steps of 8 without (%c); in samples a second it is %s", after->name,
                before->name, times(2 * before->step / after->step));
    claim_amount(number, "without gradient checkpointing: batch 8", 8, 8, largest_batch(full),
                 "the largest batch of 192 tokens that fits: all but activations takes %s, a text's activations %s",
                 bytes(full->memory - full->activations), bytes(full->activations / 16));
}

static void memory(const Run *after, const Run *full, const Run *batch_12, const Run *batch_8, const Run *kept_8,
                   const Run *shorter) {
    claim_fits("a T4's 16 GB hold batch 16", after, after->memory,
               "16 x 192, checkpointed (%c): %s are weights, gradients and moments", after->name,
               bytes(18 * after->parameters));
    claim_amount(number, "batch 16 is maxed out", 16, 16, largest_batch(after),
                 "the largest batch of 192 tokens that fits, checkpointed");
    claim_amount(percent, "over 80 % of the memory is used", 0.8, 1, after->memory / after->available,
                 "%s of %s; without checkpointing %s", bytes(after->memory), bytes(after->available),
                 bytes(full->memory));
    claim_gain("out of memory: batch 12 needs less", after->memory / batch_12->memory,
               "%c over %c: the activations, %s, are all that shrinks", after->name, batch_12->name,
               bytes(after->activations));
    claim_gain("out of memory: batch 8 without gradient checkpointing needs less", after->memory / kept_8->memory,
               "%c over %c; batch 16 without it takes %s", after->name, kept_8->name, bytes(full->memory));
    claim_gain("out of memory: batch 8, accumulation 4 needs less", after->memory / batch_8->memory, "%c over %c",
               after->name, batch_8->name);
    claim_gain("out of memory: length 128 instead of 192 needs less", after->memory / shorter->memory,
               "%c over %c, if every batch had a text that long; the mean is %d tokens, and one text in a thousand has "
               "more than 134",
               after->name, shorter->name, REAL_TOKENS);
}

static void the_rest(const Run *before, const Run *after) {
    Run f32 = run_text(&phobert, "t4", (TextBatch){8, LONGEST_OF_8, 2, DTYPE_F32, false}, IN_F32);
    const Card *a10 = card_of_key("a10"), *a100 = card_of_key("a100-80");
    claim_gain("mixed precision: faster products", f32.step / before->step, "a step of %c over one of %c", f32.name,
               before->name);
    claim_ratio("2 workers: the GPU does not wait for data", 1, 1e9, before->step / (4 * before->loader),
                "a step takes so many times as long as 2 threads of ours need for its ids; the copy from pinned memory "
                "takes %s",
                seconds(before->copy));
    claim_ratio("TF32: about 1.2x faster products (A10, A100)", 1.2, 1.2,
                a10->tf32 * a10->of_tensor / (a10->f32 * a10->of_f32),
                "sustained on an A10, and %s on an A100; with bf16 no product is in f32, and it changes nothing; a "
                "V100, which the guide also names there, has no TF32",
                times(a100->tf32 * a100->of_tensor / (a100->f32 * a100->of_f32)));
    claim_unknown("torch.compile: 1.3-1.5x",
                  "of our step (%c), which is fused by hand, operations bound by memory take %s and launches %s of %s; "
                  "what a step of PyTorch takes besides is not in the guide",
                  after->name, seconds(after->memory_bound), seconds(after->launches), seconds(after->step));
    claim_unknown(
        "GPU utilisation 80-95 % (over 80 %)",
        "it says that some kernel runs, not how well; at the guide's 12 min the FLOPs are %s of what the card could do",
        percent(epochs * samples / 720 * after->flops / after->sequences / after->peak));
}

void estimates_phobert(void) {
    section("PhoBERT on a T4",
            "135M parameters, f16, 2 micro-batches a step. Before: batch 8; after: batch 16 and gradient "
            "checkpointing. The set of ~24K is %s texts of %d tokens on average; random batches, padded to their "
            "longest, have %d (of 8), %d (of 16) and %d (of 32). There is no trainer for it yet: operations and memory "
            "are those that our blocks would have.",
            number(samples), REAL_TOKENS, LONGEST_OF_8, LONGEST_OF_16, LONGEST_OF_32);
    Run before = run_of(8, LONGEST_OF_8, false), after = run_of(16, LONGEST_OF_16, true);
    Run kept = run_of(16, LONGEST_OF_16, false), eval_32 = run_of(32, LONGEST_OF_32, false);
    Run full = run_of(16, MOST, false), full_checkpointed = run_of(16, MOST, true);
    Run batch_12 = run_of(12, MOST, true), batch_8 = run_of(8, MOST, true), shorter = run_of(16, 128, true);
    Run kept_8 = run_of(8, MOST, false);
    training_time(&before, &after);
    speed_ups(&before, &after, &kept, &kept, &eval_32);
    checkpointing(&before, &after, &kept, &full);
    memory(&full_checkpointed, &full, &batch_12, &batch_8, &kept_8, &shorter);
    the_rest(&before, &after);
}
