/* The guide for PhoBERT on a T4, and what its repository claims elsewhere. */
#include <math.h>

#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

/* The data set that the guide calls ~24K, and the mean length of the longest text in random batches of 8, 16 and 32. */
static const double samples = 24048, epochs = 3;
enum { LONGEST_OF_8 = 43, LONGEST_OF_16 = 55, LONGEST_OF_32 = 69, MOST = 192, REAL_TOKENS = 16 };
/* Bytes per parameter that AdamW moves: in eight passes, one per operation, or fused. */
static const double unfused = 80, fused = 28;

/* Runs of texts of one length stand for batches that are padded to it; the reference updates all rows of its tables. */
#define REFERENCE "--compact-vocabulary=false --num-workers 2"

/* options: " --amp", or those of another precision. */
static Run run_with(int batch, int length, const char *options) {
    return run_program("t4", "train_bert -b %d -g 2 --row-tokens %d%s " REFERENCE, batch, length, options);
}

static Run run_of(int batch, int length) { return run_with(batch, length, " --amp"); }
static Run checkpointed(int batch, int length) { return run_with(batch, length, " --amp --grad-checkpointing"); }

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
    claim_ratio("evaluation batch 32 instead of 16: 1.5x", 1.5, 1.5, eval_16->held_out / eval_32->held_out,
                "%s for 2,672 texts in batches of 16 x %d, %s in batches of 32 x %d: more of it is padding",
                seconds(eval_16->held_out), LONGEST_OF_16, seconds(eval_32->held_out), LONGEST_OF_32);
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
    claim_fits("a T4's 16 GB hold batch 16", after,
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
    Run f32 = run_with(8, LONGEST_OF_8, "");
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

/* Checks what the other pages of the repository say of the same program. */
static void elsewhere(const Run *padded, const Run *packed, const Run *full_32, const Run *shorter_32, const Run *f32) {
    static const struct {
        const char *says;
        double samples, least, most;
    } rows[] = {{"elsewhere: batch 32, 24K samples, 3 epochs: 8-10 min", 24048, 8, 10},
                {"elsewhere: 50K samples: 18-22 min", 50000, 18, 22},
                {"elsewhere: 100K samples: 35-40 min", 100000, 35, 40}};
    for (int i = 0; i < 3; i++)
        claim_time(rows[i].says, rows[i].least * 60, rows[i].most * 60, whole(padded, rows[i].samples, padded->step),
                   whole(padded, rows[i].samples, padded->floor), "%c; without padding (%c) %s", padded->name,
                   packed->name, seconds(whole(packed, rows[i].samples, packed->step)));
    claim_amount(seconds, "elsewhere: 24K, batch 32, 8 it/s, 2 epochs: 6 min", 360, 360, 2 * ceil(samples / 32) / 8,
                 "%s steps at its own 8 it/s", number(2 * ceil(samples / 32)));
    claim_amount(seconds, "elsewhere: 500K, batch 24, 6.5-7 it/s, 2 epochs: 1.5 h", 1.5 * HOUR, 1.5 * HOUR,
                 2 * 500e3 / 24 / 6.75, "%s steps at its own rate", number(ceil(2 * 500e3 / 24)));
    claim_amount(seconds, "elsewhere: 1M, batch 20, 6 it/s, 2 epochs: 2.8 h", 2.8 * HOUR, 2.8 * HOUR, 2 * 1e6 / 20 / 6,
                 "%s steps at its own 6 it/s", number(2 * 1e6 / 20));
    claim_ratio("elsewhere: batch 24 instead of 32 is 30 % faster", 1.3, 1.3, 24 * 6.75 / (32 * 5.0),
                "24 samples at its 6.5-7 it/s over 32 at its 5: iterations are not samples");
    claim_amount(bytes, "elsewhere: batch 32 takes 12-13 GB", 12e9, 13e9, full_32->memory,
                 "if all 32 texts have %d tokens (%c): %s are weights, gradients and moments", MOST, full_32->name,
                 bytes(18 * full_32->parameters));
    claim_amount(percent, "elsewhere: length 128 instead of 192 saves 30 % of the memory", 0.3, 0.3,
                 1 - shorter_32->memory / full_32->memory, "%c to %c: only activations shrink", full_32->name,
                 shorter_32->name);
    claim_amount(seconds, "elsewhere: the evaluation of 55K texts takes about 30 s", 30, 30,
                 f32->held_out / 2672 * 55e3, "in f32, which that program computes in, of batches padded to %d (%c)",
                 LONGEST_OF_32, f32->name);
}

/* The times that the specification of this program works out by hand. */
static void worked_out(const Run *padded, const Run *packed, const Run *compact) {
    claim_time("worked out by hand: padded batches of 32, 3 epochs: 66 s at stated rates, 147 s in practice", 66, 147,
               whole(padded, samples, padded->step), whole(padded, samples, padded->floor), "%s steps of %s (%c)",
               number(ceil(whole(padded, samples, 1))), seconds(padded->step), padded->name);
    claim_time("worked out by hand: packed: 36 s at stated rates, 71 s in practice", 36, 71,
               whole(packed, samples, packed->step), whole(packed, samples, packed->floor),
               "%s steps of %s (%c), of which AdamW's %s take %s", number(ceil(whole(packed, samples, 1))),
               seconds(packed->step), packed->name, bytes(packed->update_bytes),
               seconds(packed->update_bytes / (packed->card->of_bandwidth * packed->card->bandwidth)));
    claim_time("the aim: 24,048 texts, 3 epochs, under 2 minutes", 0, 120, compact->seconds,
               whole(compact, samples, compact->floor),
               "%s steps of %s (%c), without rows of tokens that no text has (AdamW moves %s instead of %s), and with "
               "3 validations on 2,672 texts of %s each and 3 checkpoints",
               number(ceil(whole(compact, samples, 1))), seconds(compact->step), compact->name,
               bytes(compact->update_bytes), bytes(packed->update_bytes), seconds(compact->held_out));
    claim_time("the aim: under 1 minute, packed and compact", 0, 60, compact->seconds,
               whole(compact, samples, compact->floor), "%c, with batches of 32", compact->name);
}

void estimates_bert(void) {
    section("PhoBERT on a T4",
            "135M parameters, f16, 2 micro-batches a step. Before: batch 8; after: batch 16 and gradient "
            "checkpointing. The set of ~24K is %s texts of %d tokens on average; random batches, padded to their "
            "longest, have %d (of 8), %d (of 16) and %d (of 32). train_bert pads nothing: texts that all have this "
            "length stand for padded batches, and the last two runs have texts of the real lengths.",
            number(samples), REAL_TOKENS, LONGEST_OF_8, LONGEST_OF_16, LONGEST_OF_32);
    Run before = run_of(8, LONGEST_OF_8), after = checkpointed(16, LONGEST_OF_16);
    Run kept = run_of(16, LONGEST_OF_16);
    Run eval_16 = run_with(16, LONGEST_OF_16, " --amp --val-batch-size 16"),
        eval_32 = run_with(16, LONGEST_OF_32, " --amp --val-batch-size 32");
    Run full = run_of(16, MOST), full_checkpointed = checkpointed(16, MOST);
    Run batch_12 = checkpointed(12, MOST), batch_8 = checkpointed(8, MOST), shorter = checkpointed(16, 128);
    Run kept_8 = run_of(8, MOST);
    training_time(&before, &after);
    speed_ups(&before, &after, &kept, &eval_16, &eval_32);
    checkpointing(&before, &after, &kept, &full);
    memory(&full_checkpointed, &full, &batch_12, &batch_8, &kept_8, &shorter);
    the_rest(&before, &after);
    Run full_32 = run_program("t4", "train_bert -b 32 --row-tokens %d --amp " REFERENCE, MOST);
    Run shorter_32 = run_program("t4", "train_bert -b 32 --row-tokens 128 --amp " REFERENCE);
    Run f32 = run_program("t4", "train_bert -b 32 --row-tokens %d --val-batch-size 64 " REFERENCE, LONGEST_OF_32);
    Run padded = run_program("t4", "train_bert -b 32 --row-tokens %d --amp " REFERENCE, LONGEST_OF_32);
    Run packed = run_program("t4", "train_bert -b 32 --amp " REFERENCE);
    Run compact = run_program("t4", "train_bert --config configs/phobert_t4.yaml");
    elsewhere(&padded, &packed, &full_32, &shorter_32, &f32);
    worked_out(&padded, &packed, &compact);
}
