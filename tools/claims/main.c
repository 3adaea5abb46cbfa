/* Writes docs/ESTIMATES.md (`make estimates`). Estimates of trainers come from $BUILD/train_*
 * with --estimate. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/claims/claims.h"
#include "tools/claims/guides.h"

static void print_cards(void) {
    static const char *const used[] = {"t4",      "v100",    "a10",     "a30",     "a40", "a100-40",
                                       "a100-80", "rtx3090", "rtx4080", "rtx4090", "l4",  "l40s"};
    printf("| card | f32 | TF32 | 16 bits | sustained: tensor cores | f32 | GB/s | sustained | memory |\n"
           "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        const Card *c = card_of_key(used[i]);
        printf("| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c->key, number(c->f32 / 1e12),
               c->tf32 > 0 ? number(c->tf32 / 1e12) : "none", number(c->half / 1e12), percent(c->of_tensor),
               percent(c->of_f32), number(c->bandwidth / 1e9), percent(c->of_bandwidth), bytes(c->memory));
    }
}

static void print_head(void) {
    const Card *l4 = card_of_key("l4"); /* any card: all have the same launch time */
    printf("# The guides' claims, computed\n\n");
    paragraph(stdout, "Written by `make estimates` (`tools/claims`); `make test` fails if it is not what that "
                      "writes. No verdict is typed: each is computed from the numbers beside it.");
    paragraph(
        stdout,
        "Five guides to the reference trainers promise times, speed-ups, gigabytes, utilisation and dollars. Here is "
        "each of these %d claims beside what arithmetic gives for the guide's own configuration on the guide's own "
        "card. Nothing was measured on a GPU for this page. What a guide says of accuracy is left out.",
        claims_number());
    printf("## How to read it\n\n");
    paragraph(
        stdout,
        "A **step** is one of the optimizer, with all its micro-batches. Its time is the sum over its operations of "
        "the larger of FLOPs over the sustained rate and bytes over the sustained bandwidth, plus %s us a kernel "
        "([Before renting a card](../README.md#before-renting-a-card)); small products take longer than their FLOPs, "
        "sums of biases and unfused GELUs are passes of their own, and %s %% of the L2 hold what was used last. The "
        "**floor** is the larger of FLOPs and bytes at the rates that the data sheet states, with launches for nothing "
        "and the whole L2. **Memory** is what is allocated for a step: weights, gradients, "
        "moments, activations, batches; of the card's own, %s %% and %s are set aside for the driver and CUDA "
        "itself (assumed), and %s are kept free, as a run does.",
        number(l4->launch * 1e6), number(100 * CARD_L2_USABLE), number(100 * CARD_WITHHELD), bytes((double)CARD_LOADED),
        bytes((double)CARD_HEADROOM));
    paragraph(
        stdout,
        "Each claim is judged for our program and, where its code tells what it takes, for the guide's own, which "
        "may recompute, pad or move more: what PyTorch keeps, and the least time of a step; a shorter one is "
        "impossible. "
        "A claim that is plausible for ours need not be for theirs. Runs, times and floors are of our programs' "
        "operations.");
    paragraph(stdout,
              "A claim that is a range is judged by the end that is nearest to what is computed. Where a guide says "
              "faster, or less, and no number, %d %% is taken as meant. Letters are runs of the section's tables; "
              "their commands print all that was used, operation by operation.",
              GAIN_AT_LEAST);
    claims_print_verdicts();
    paragraph(stdout, "\nThe cards: TFLOP/s of dense products with f32 sums, and what is taken as sustained; the "
                      "sources are in `kernels/cards.c`. Attention adds to its products on the tensor cores what it "
                      "does in f32; in f32 and TF32, and on a V100, whose tensor cores ours does not use, it sustains "
                      "half of what f32 does.");
    print_cards();
    print_public_steps();
    print_findings();
}

int main(void) {
    static void (*const guides[])(void) = {estimates_amharic, estimates_psd, estimates_cv, estimates_bert,
                                           estimates_slm};
    /* Hides the rates that were measured on this machine. */
    if (setenv("XDG_CACHE_HOME", "/nonexistent", 1)) die("no memory");
    claims_begin();
    for (size_t i = 0; i < sizeof guides / sizeof *guides; i++) guides[i]();
    OWNED char *text = claims_end();
    print_head();
    fputs(text, stdout);
    return fflush(stdout) ? 1 : 0;
}
