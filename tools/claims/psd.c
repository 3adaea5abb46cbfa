/* The guide for the masked autoencoder of power spectra on an L40S. */
#include <math.h>

#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

#define PSD(options) run_program("l40s", "train_psd " options " --num-workers 8")

/* Training rows of a quarter of the data: of the files that the guide's commands fetch, and of the whole archive. Then
 * epochs, and the price in dollars per hour. */
static const double rows = 3735, archive_rows = 17195, pretrain_epochs = 20, finetune_epochs = 50, price = 1.7;
/* Returns the bytes of activations that autocast of PyTorch keeps for Medium, counted in the code of the reference. */
static double eager_activations(const Run *medium) { return 22.7e3 * 8 * medium->tokens; }

typedef struct {
    Run pretrain, finetune;
} Both;

/* Returns the steps of an epoch of n rows. The last rows, which fill no batch, are left out. */
static double steps_of(double n, const Run *run) { return floor(n / run->sequences); }

static double whole(const Both *b, double n, double (*of)(const Run *)) {
    return pretrain_epochs * steps_of(n, &b->pretrain) * of(&b->pretrain) +
           finetune_epochs * steps_of(n, &b->finetune) * of(&b->finetune);
}
static double step(const Run *run) { return run->step; }
static double floor_of(const Run *run) { return run->floor; }
static double flops_of(const Run *run) { return run->flops; }

static void time_and_cost(const Both *before, const Both *after, const Both *kept) {
    double t[2] = {whole(before, rows, step), whole(after, rows, step)};
    double archive = whole(after, archive_rows, step);
    claim_time("before: about 10 hours for 25 % of the data", 10 * HOUR, 10 * HOUR, t[0], whole(before, rows, floor_of),
               "20 epochs of %s steps of %s and 50 of %s of %s", number(steps_of(rows, &before->pretrain)),
               seconds(before->pretrain.step), number(steps_of(rows, &before->finetune)),
               seconds(before->finetune.step));
    claim_time("after: about 2-3 hours", 2 * HOUR, 3 * HOUR, t[1], whole(after, rows, floor_of),
               "(20 x %s + 50 x %s) x %s steps of 512, without validation (a few percent more) and reading the files; "
               "without gradient checkpointing (%c, %c) %s; a quarter of the whole archive is %s steps an epoch: %s",
               seconds(after->pretrain.step), seconds(after->finetune.step), number(steps_of(rows, &after->pretrain)),
               kept->pretrain.name, kept->finetune.name, seconds(whole(kept, rows, step)),
               number(steps_of(archive_rows, &after->pretrain)), seconds(archive));
    claim_amount(dollars, "before: $17", 17, 17, price * t[0] / HOUR, "%s at $1.70 an hour; 10 h would be $17",
                 seconds(t[0]));
    claim_amount(dollars, "after: $3.5-5", 3.5, 5, price * t[1] / HOUR,
                 "%s at $1.70 an hour; 2-3 h would be $3.40-5.10", seconds(t[1]));
    claim_amount(percent, "about 70 % cheaper (said twice)", 0.7, 0.7, 1 - t[1] / t[0],
                 "it costs %s as much: the larger model does %s the FLOPs a spectrum, what it recomputes included; of "
                 "the guide's own sums $5 are %s less than $17",
                 times(t[1] / t[0]),
                 times(after->pretrain.flops / after->pretrain.sequences /
                       (before->pretrain.flops / before->pretrain.sequences)),
                 percent(1 - 5 / 17.0));
    claim_ratio("training speed 3-5x", 3, 5,
                after->pretrain.sequences / after->pretrain.step / (before->pretrain.sequences / before->pretrain.step),
                "spectra a second in pretraining, %c over %c", after->pretrain.name, before->pretrain.name);
    claim_ratio("about 5x faster in all", 5, 5, t[0] / t[1], "a whole run, before over after");
}

static void sizes(const Run *tiny, const Both *small, const Both *medium, const Run *large) {
    const Run *a = &medium->pretrain, *b = &small->pretrain;
    claim_amount(count, "Tiny has 14K parameters", 14e3, 14e3, tiny->parameters, "d 32, 1 layer");
    claim_amount(count, "Small has 87K parameters", 87e3, 87e3, b->parameters,
                 "4 layers x (4 x 128^2 + 2 x 128 x 256) are 524K alone");
    claim_amount(count, "Medium has 14.2M parameters", 14.2e6, 14.2e6, a->parameters,
                 "8 layers x (4 x 512^2 + 2 x 512 x 2048) are 25.2M alone");
    claim_amount(count, "Large has 113M parameters", 113e6, 113e6, large->parameters,
                 "16 layers x (4 x 1024^2 + 2 x 1024 x 4096) are 201M alone");
    claim_ratio("the model is 4-8x as large", 4, 8, a->parameters / b->parameters,
                "parameters of Medium over Small: 4x as wide and 2x as deep is 32x, the MLP of 8x the width is more");
    claim_ratio("batches are 4-8x as large", 4, 8, 512 / 256.0, "in pretraining; in finetuning, 128 to 512, 4x");
    claim_ratio("pretraining's rate follows the root of the batch", sqrt(2), sqrt(2), 2e-4 / 1e-4,
                "1e-4 to 2e-4 in the reference's files: as the batch itself, 256 to 512");
    claim_ratio("finetuning's rate follows the root of the batch", 2, 2, 2e-4 / 5e-5,
                "5e-5 to 2e-4: as the batch itself, 128 to 512");
    claim_ratio("163x the parameters", 163, 163, a->parameters / b->parameters, "Medium over Small");
    claim_amount(bytes, "Tiny needs about 100 MB", 100e6, 100e6, tiny->memory, "batch 256 (%c)", tiny->name);
    claim_amount(bytes, "Small needs about 2 GB", 2e9, 2e9, b->memory, "batch 256 (%c)", b->name);
    claim_amount(bytes, "Medium needs about 40 GB", 40e9, 40e9, a->memory,
                 "%s of weights, gradients and moments; the activations of %s tokens are the rest",
                 bytes(18 * a->parameters), number(a->tokens));
    claim_amount(bytes, "Large needs about 46 GB", 46e9, 46e9, large->memory, "batch 512, nothing recomputed (%c)",
                 large->name);
}

static void memory(const Run *before, const Run *after, const Run *kept, const Run *batch_256) {
    claim_amount(bytes, "memory before: 6 GB", 6e9, 6e9, before->memory, "%c: %s x 18 bytes, and activations of %s",
                 before->name, count(before->parameters), bytes(before->activations));
    claim_theirs(16 * kept->parameters + eager_activations(kept));
    claim_amount(bytes, "memory after: 40 GB", 40e9, 40e9, after->memory,
                 "%c; without gradient checkpointing %s (%c), and PyTorch's is of that", after->name,
                 bytes(kept->memory), kept->name);
    claim_amount(bytes, "target: 38-45 GB of 48 GB are used", 38e9, 45e9, after->memory,
                 "%s without checkpointing; 40 GB would be a batch of about %s, as PyTorch keeps it %s",
                 bytes(kept->memory), number(512 * (40e9 - (kept->memory - kept->activations)) / kept->activations),
                 number(512 * (40e9 - 16 * kept->parameters) / eager_activations(kept)));
    claim_amount(percent, "batch 512 uses 80-95 % of the memory", 0.8, 0.95, after->memory / after->available,
                 "%s of %s; without checkpointing %s", bytes(after->memory), bytes(after->available),
                 percent(kept->memory / kept->available));
    claim_gain("out of memory: batch 256 x 2 needs less", kept->memory / batch_256->memory,
               "%c to %c; 512 takes %s of %s", kept->name, batch_256->name, bytes(kept->memory),
               bytes(kept->available));
}

static double rate(const Card *card, DType type) { return type == DTYPE_F32 ? card->f32 : card->half; }

static void precision(const Run *kept, const Run *f32) {
    const Card *c = kept->card;
    claim_ratio("bf16 instead of fp16: 2-3x faster GEMMs", 2, 3, rate(c, DTYPE_BF16) / rate(c, DTYPE_F16),
                "both run at %s TFLOP/s; it would be %s from TF32, %s from f32", number(c->half / 1e12),
                times(c->half / c->tf32), times(c->half / c->f32));
    claim_amount(percent, "bf16 instead of fp16: about 50 % less memory", 0.5, 0.5,
                 1 - (double)dtype_size(DTYPE_BF16) / (double)dtype_size(DTYPE_F16),
                 "both have 2 bytes; from f32 (%c to %c) it is %s", f32->name, kept->name,
                 percent(1 - kept->memory / f32->memory));
    claim_unknown("torch.compile: 20-40 % faster",
                  "it saves bytes and launches; of our step (%c), which is fused by hand, operations bound by memory "
                  "take %s and launches %s of %s; what a step of PyTorch moves besides is not in the guide",
                  kept->name, seconds(kept->memory_bound), seconds(kept->launches), seconds(kept->step));
    claim_amount(percent, "cuDNN benchmark: 10-20 % faster", 0.1, 0.2, kept->convolutions / kept->flops,
                 "the share of convolutions, which are all that it speeds up, in a step's FLOPs");
}

static void the_rest(const Both *both, const Run *large, const Run *large_checkpointed, const Run *large_768) {
    const Run *after = &both->pretrain;
    const Card *c = after->card;
    claim_fits("checkpointing allows d 1024, 16 layers in the same memory", large_checkpointed, "%s without it",
               bytes(large->memory));
    claim_fits("if underutilised: d 1024, batch 768", large_768, "nothing recomputed");
    claim_ratio("8 workers: the GPU rarely starves for data", 1, 1e9, after->step / after->loader,
                "a step takes so many times as long as 8 threads of ours need to fill its batch");
    claim_ratio("throughput is limited by compute, not by I/O", 1, 1e9,
                (after->step - after->memory_bound) / after->memory_bound,
                "the time of all other operations over that of those which the memory's bandwidth bounds, %s of %s; "
                "for I/O see the row above",
                seconds(after->memory_bound), seconds(after->step));
    claim_ratio("power: 300 W at most", 1, 1, c->watts / 300, "the board's limit is %s W", number(c->watts));
    claim_unknown("power draw 250-300 W", "a draw cannot be computed from a model's sizes");
    claim_unknown("GPU utilisation 15-25 % before, 75-90 % after, target 85-95 %",
                  "it says that some kernel runs, not how well; in the guide's 2 h a run's FLOPs are %s of what the "
                  "card could do",
                  percent(whole(both, rows, flops_of) / (2 * HOUR) / after->peak));
    claim_unknown("larger batches converge faster", "what a sample teaches cannot be computed from sizes");
}

void estimates_psd(void) {
    section("The masked autoencoder of power spectra on an L40S",
            "Before: Small (d 128, 4 layers), batch 256, finetuning 128, f16. After: Medium (d 512, 8 layers), batch "
            "512, bf16, gradient checkpointing. 20 epochs of pretraining and 50 of finetuning; the 25 %% that the "
            "guide's commands fetch are %s training rows. $1.70 an hour.",
            number(rows));
    Both before = {PSD("pretrain --size small -b 256 -g 1 --amp"), PSD("finetune --size small -b 128 -g 1 --amp")};
    Both after = {PSD("pretrain --size medium -b 512 -g 1 --amp --grad-checkpointing"),
                  PSD("finetune --size medium -b 512 -g 1 --amp --grad-checkpointing")};
    Both kept = {PSD("pretrain --size medium -b 512 -g 1 --amp"), PSD("finetune --size medium -b 512 -g 1 --amp")};
    Run f32 = PSD("pretrain --size medium -b 512 -g 1 --no-tf32");
    Run batch_256 = PSD("pretrain --size medium -b 256 -g 2 --amp");
    Run tiny = PSD("pretrain --size tiny -b 256 -g 1 --amp");
    Run large = PSD("pretrain --size large -b 512 -g 1 --amp");
    Run large_checkpointed = PSD("pretrain --size large -b 512 -g 1 --amp --grad-checkpointing");
    Run large_768 = PSD("pretrain --size large -b 768 -g 1 --amp");
    time_and_cost(&before, &after, &kept);
    memory(&before.pretrain, &after.pretrain, &kept.pretrain, &batch_256);
    precision(&kept.pretrain, &f32);
    sizes(&tiny, &before, &kept, &large);
    the_rest(&after, &large, &large_checkpointed, &large_768);
}
