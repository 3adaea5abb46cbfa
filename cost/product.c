#include "cost/product.h"

#include <math.h>

/* Seconds of a round before its first product and after its last. In the profile of llm.c's pull request 378 (an A100
 * at its base clock, 1,095 of 1,410 MHz: the tensor cores' counters tell) products of 16, 6 and 22 rounds of 128 x 256
 * x 768 take 28.8, 27.9 and 27.5 us a round; 23.6 are products and 1.7 the writing of tiles to the L2. The two whole
 * steps that the model was fitted to are in tools/claims/public.c. Of the bf16 products in NVIDIA's aiconfigurator_core
 * 0.12.0 (TensorRT-LLM; 1,024 rows and more, 256 columns and a depth of 256 and more), to which nothing was fitted, the
 * predicted time over the measured has the median 0.99 on an A100 (1,292 products; 0.85 to 1.05 without the lowest and
 * the highest tenth), 1.04 on an L40S (6,084; 0.86 to 1.23) and 1.08 on an H100 (6,084; 0.94 to 1.21). */
static const double round_latency = 2.8e-6;

/* The share of the stated rate while a card multiplies and its power does not limit it: the least of what large
 * products reach on the RTX 3090 and 4090 (kernels/cards.c), which have power to spare, and on an A100 by their
 * counters. */
static const double unlimited_share = 0.95;

/* Products over rows that are no multiple of 8 numbers. From 9.0 on they do without the fast kernels: the logits of
 * GPT-2, 50,257 wide, take 7.3 times as long a column as 30,000 (benchmarks/gpu.md). Before, they lose the wide loads:
 * nanoGPT's steps on an A100 took a quarter less with 50,304 columns, of which a third are these products. */
static double unaligned_factor(const Card *card) { return card->capability >= 90 ? 7.3 : 2; }

/* The numbers of a tile, and the share of the rate that it reaches beside the largest: an operand is read again for
 * each tile, a smaller one does less with it. Assumed, by products over reads with 8 more of those. */
typedef struct {
    int m, n;
} Tile;

static double tile_share(Tile t) {
    double reuse = (double)t.m * t.n / (t.m + t.n), largest = 128.0 * 256 / (128 + 256);
    return reuse / (reuse + 8) * (largest + 8) / largest;
}

static double tiled(const Card *card, double rate, const TrafficProduct *p, Tile tile, int parts) {
    double bandwidth = card->of_bandwidth * card->bandwidth, sms = card->multiprocessors;
    double area = (double)tile.m * tile.n, k = (double)p->k / parts;
    double tiles = ceil((double)p->m / tile.m) * ceil((double)p->n / tile.n) * parts, rounds = ceil(tiles / sms);
    double at_once = tiles < sms ? tiles : sms;
    double written = parts > 1 ? 4 : p->bytes;
    double round =
        2 * area * k / (rate / sms * tile_share(tile)) + area * written * at_once / (CARD_L2_RATE * bandwidth);
    double sum = parts > 1 ? (double)p->m * (double)p->n * (4 * parts + p->bytes) / bandwidth : 0;
    return rounds * (round + round_latency) + sum;
}

double product_seconds(const Card *card, double sustained, double peak, const TrafficProduct *p) {
    static const Tile tiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};
    enum { LEAST_DEPTH = 256, MOST_PARTS = 16 };
    double factor = p->unaligned ? unaligned_factor(card) : 1, best = INFINITY;
    double flops = 2 * (double)p->m * (double)p->n * (double)p->k,
           rate = fmax(unlimited_share * peak, sustained) / factor;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        for (int parts = 1; parts == 1 || (parts <= MOST_PARTS && p->k / parts >= LEAST_DEPTH); parts *= 2)
            best = fmin(best, tiled(card, rate, p, tiles[i], parts));
    return fmax(best, flops * factor / sustained);
}
