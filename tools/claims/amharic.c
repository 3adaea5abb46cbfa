/* The guide for the Amharic TTS GPT on an L4. */
#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

/* 24,000 pieces in the tokenizer of the reference. Lengths of read speech at 50 codes per second: mean 6.6 s, at most
 * 30 s. */
#define LENGTHS      "--number-text-tokens 24000 --lengths 330,185,1500"
#define GPT(options) "train_gpt " options " " LENGTHS " --num-workers 8"

/* Numbers from the guide and from the data of the reference; audio_hours in hours, utterance in seconds. */
static const double steps = 50000, audio_hours = 200, utterance = 6.6;

static const double padding_efficiency = 0.56; /* share of real rows in random batches of 8 read sentences */

static void precision(const Run *amp, const Run *tf32, const Run *f32, const Run *v100, const Run *v100_f32) {
    const Card *c = amp->card;
    claim_ratio("TF32 is 3-8x as fast as FP32 (said twice)", 3, 8, f32->step / tf32->step,
                "%c over %c; the card states %s and %s TFLOP/s, of which it sustains %s and %s", f32->name, tf32->name,
                number(c->f32 / 1e12), number(c->tf32 / 1e12), percent(c->of_f32), percent(c->of_tensor));
    claim_ratio("bfloat16 AMP is 2-3x as fast as FP32 (said twice)", 2, 3, f32->step / amp->step,
                "%c over %c: stated rates %s apart, half the bytes; in the guide's own table it is slower than TF32",
                f32->name, amp->name, times(c->half / c->f32));
    claim_ratio("float16 is 2-3x as fast as FP32", 2, 3, f32->step / amp->step,
                "the card's rates of bf16 and f16 are the same");
    claim_ratio("1.3-1.5x as fast as a V100, due to TF32 and bfloat16", 1.3, 1.5, v100->step / amp->step,
                "%c over %c: a V100 has f16 tensor cores of %s TFLOP/s, and %s GB/s to the L4's %s", v100->name,
                amp->name, number(v100->card->half / 1e12), number(v100->card->bandwidth / 1e9),
                number(c->bandwidth / 1e9));
    claim_gain("TF32 tensor cores: faster than a V100", v100_f32->step / tf32->step,
               "%c over %c: if the V100 computes in f32 at %s TFLOP/s; in its f16 (%c) it is %s as fast as this",
               v100_f32->name, tf32->name, number(v100->card->f32 / 1e12), v100->name, times(tf32->step / v100->step));
    claim_gain("without --amp: full FP32, slower", tf32->step / amp->step,
               "%c over %c: without --amp products are in TF32, not FP32; and batch 8 needs %s of %s", tf32->name,
               amp->name, bytes(tf32->memory), bytes(tf32->available));
    claim_gain("TF32 for products and bfloat16 for the rest: the best of both", amp->step / tf32->step,
               "%c over %c: with --amp it is the products that are in bfloat16; in TF32 a step takes %s as long",
               amp->name, tf32->name, times(tf32->step / amp->step));
}

static void memory(const Run *amp, const Run *less, const Run *batch_16, const Run *batch_6, const Run *checkpointed,
                   const Run *longest) {
    claim_amount(bytes, "batch 8 uses about 20 GB of 24 GB", 20e9, 20e9, amp->memory,
                 "%s parameters x 18 bytes = %s, and %s of activations of the 8 longest; with checkpointing %s",
                 count(amp->parameters), bytes(18 * amp->parameters), bytes(amp->activations),
                 bytes(checkpointed->memory));
    claim_fits("batch 8 fits 24 GB with a margin", amp,
               "%s are left; 8 utterances of 30 s, the reference's longest (%c), would need %s",
               bytes(amp->available - amp->memory), longest->name, bytes(longest->memory));
    claim_ratio("batch 8 x 4 is optimal for 24 GB", 1, 100, batch_16->step / amp->step,
                "a step of %c over one of %c: 16 x 2 reads weights and gradients half as often, which is little of a "
                "step, and needs %s of %s",
                batch_16->name, amp->name, bytes(batch_16->memory), bytes(amp->available));
    claim_gain("batch 8 x 4 is faster than the default 4 x 1",
               amp->sequences / amp->step / (less->sequences / less->step),
               "samples a second, %c over %c: AdamW moves %s, here once in 32 samples, there once in 4", amp->name,
               less->name, bytes(amp->update_bytes));
    claim_gain(
        "out of memory at batch 8: 6 x 6 needs less", amp->memory / batch_6->memory,
        "batch 8 over 6: only the activations shrink; the effective batch is 36, as said; batch 8 takes %s of %s",
        bytes(amp->memory), bytes(amp->available));
}

static void checkpointing(const Run *amp, const Run *checkpointed, const Run *batch_16, const Run *both) {
    claim_amount(percent, "--grad-checkpointing saves about 30 % of the memory", 0.3, 0.3,
                 1 - checkpointed->memory / amp->memory,
                 "%s of activations become %s; weights, gradients and moments stay", bytes(amp->activations),
                 bytes(checkpointed->activations));
    claim_amount(
        percent, "--grad-checkpointing is 20-30 % slower", 0.2, 0.3, checkpointed->step / amp->step - 1,
        "%c over %c: the blocks' forward, a third of their work, is done twice; the heads and the update are not",
        checkpointed->name, amp->name);
    claim_fits("with it, batch 12-16", both, "16 x 2; without it they take %s", bytes(batch_16->memory));
}

/* The reference computes all layers of w2v-BERT, though it takes the 17th, in f32 without tensor cores, pads batches to
 * the longest, and makes the frames in one thread of numpy: 5.2 ms of a core for a second of audio, measured. */
static void preprocessing(void) {
    const double layers = 24, layers_needed = 17, numpy = audio_hours * 3600 * 5.2e-3;
    Preparation ours = preparation_computed("l4", audio_hours, ""),
                f32 = preparation_computed("l4", audio_hours, "--no-half --no-tf32");
    double networks = f32.networks[0] * layers / layers_needed + f32.networks[1] + f32.networks[2];
    double there = networks / padding_efficiency + numpy;
    claim_theirs(there);
    claim_time("preprocessing takes 8-12 hours", 8 * HOUR, 12 * HOUR, ours.seconds, ours.floor,
               "%s h of audio through w2v-BERT, the codec and the conditioning: %s PFLOP at %s TFLOP/s = %s, and %s to "
               "measure the recordings (`./train_gpt prepare --indextts2 DIR --estimate --hours %s --gpu l4`); the "
               "reference computes %s layers where %s are needed, in f32: %s, over %s of real rows, and %s of numpy in "
               "one thread; reading and writing are not counted",
               number(audio_hours), number(ours.flops / 1e15), number(ours.flops / ours.computing / 1e12),
               seconds(ours.computing), seconds(ours.measuring), number(audio_hours), number(layers),
               number(layers_needed), seconds(networks), percent(padding_efficiency), seconds(numpy));
}

static void time_taken(const Run *amp, const Run *checkpointed) {
    double run = steps * amp->step, as_there = steps * checkpointed->step;
    claim_theirs(as_there / padding_efficiency);
    claim_time(
        "training takes 2-3 days (about 50k steps; said twice)", 2 * DAY, 3 * DAY, run, steps * amp->floor,
        "%s x %s (%s TFLOP a step at %s TFLOP/s); the reference also recomputes its blocks, and pads to the longest of "
        "8 (%s of its rows are real)",
        number(steps), seconds(amp->step), number(amp->flops / 1e12), number(amp->flops / amp->step / 1e12),
        percent(padding_efficiency));
    preprocessing();
    claim_unknown("50-100x as fast as a CPU",
                  "the guide names no CPU; it would be one that takes %s to %s a step: %s to %s TFLOP/s sustained",
                  seconds(50 * amp->step), seconds(100 * amp->step), number(amp->flops / (100 * amp->step) / 1e12),
                  number(amp->flops / (50 * amp->step) / 1e12));
}

static void the_rest(const Run *amp, const Run *four, const Run *a100) {
    claim_ratio(
        "8 workers: up to 2x as fast", 2, 2, (amp->step + 8 * amp->loader) / amp->step,
        "if one thread filled the batches and the card waited for it: %s a step for the thread, %s for the card",
        seconds(8 * amp->loader), seconds(amp->step));
    claim_ratio(
        "8 workers: the GPU never waits for data", 1, 1e9, amp->step / amp->loader,
        "a step takes so many times as long as 8 threads of ours need to fill its batches of latents, ids and rows");
    claim_gain("out of memory: 4 workers instead of 8 need less", amp->memory / four->memory,
               "%c to %c: workers hold batches in the host's memory, not in the card's", amp->name, four->name);
    claim_amount(percent, "cuDNN benchmark: 5-20 % faster", 0.05, 0.2, amp->convolutions / amp->flops,
                 "the share of convolutions, which are all that it speeds up, in the %s TFLOP of a step",
                 number(amp->flops / 1e12));
    claim_amount(percent, "channels_last: minimal benefit for transformers", 0, 0.01, amp->convolutions / amp->flops,
                 "it lays out images for convolutions, of which there are none; under 1 %% is taken as minimal");
    claim_unknown("better performance per dollar than an A100",
                  "the guide gives no prices; an A100 80 GB (%c) is %s as fast: an L4 is the better buy if an A100 "
                  "costs more than %s as much",
                  a100->name, times(amp->step / a100->step), times(amp->step / a100->step));
    claim_unknown("bfloat16 needs no gradient scaling: faster, simpler",
                  "a scale is one factor in the loss and one in the update, no more bytes; how many steps f16 would "
                  "skip cannot be computed");
}

void estimates_amharic(void) {
    double utterances = audio_hours * 3600 / utterance;
    section("The Amharic TTS GPT on an L4",
            "24 x 1280, 24,000 text pieces, 8 sequences x 4 micro-batches, %s steps. The guide does not say how many "
            "utterances its 200 hours are; read speech of that language has %s s on average (330 audio codes, here "
            "with a deviation of 185; 2.3 pieces of text a second), which makes %s utterances, and %s epochs. Memory "
            "is that of the largest micro-batch: the longest of 1,024 samples made up.",
            number(steps), number(utterance), count(utterances), number(steps * 32 / utterances));
    Run amp = run_program("l4", GPT("-b 8 -g 4 --amp"));
    Run tf32 = run_program("l4", GPT("-b 8 -g 4"));
    Run f32 = run_program("l4", GPT("-b 8 -g 4 --no-tf32"));
    Run checkpointed = run_program("l4", GPT("-b 8 -g 4 --amp --grad-checkpointing"));
    Run less = run_program("l4", GPT("-b 4 -g 1 --amp"));
    Run batch_6 = run_program("l4", GPT("-b 6 -g 6 --amp"));
    Run batch_16 = run_program("l4", GPT("-b 16 -g 2 --amp"));
    Run checkpointed_16 = run_program("l4", GPT("-b 16 -g 2 --amp --grad-checkpointing"));
    Run v100 = run_program("v100", GPT("-b 8 -g 4 --amp"));
    Run v100_f32 = run_program("v100", GPT("-b 8 -g 4"));
    Run a100 = run_program("a100-80", GPT("-b 8 -g 4 --amp"));
    Run four = run_program("l4", "train_gpt -b 8 -g 4 --amp " LENGTHS " --num-workers 4");
    Run longest =
        run_program("l4", "train_gpt -b 8 -g 4 --amp --number-text-tokens 24000 --lengths 1500,0,1500 --num-workers 8");
    time_taken(&amp, &checkpointed);
    precision(&amp, &tf32, &f32, &v100, &v100_f32);
    memory(&amp, &less, &batch_16, &batch_6, &checkpointed, &longest);
    checkpointing(&amp, &checkpointed, &batch_16, &checkpointed_16);
    the_rest(&amp, &four, &a100);
}
