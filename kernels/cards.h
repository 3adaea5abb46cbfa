/* What NVIDIA states of its cards: the denominators of every utilisation. */
#ifndef KERNELS_CARDS_H
#define KERNELS_CARDS_H

/* Dense products with sums in f32, FLOP/s: in f32 by FMAs, in TF32 and in 16 bits on the tensor cores; bytes/s of the
 * memory. tf32 0: the card has none. */
typedef struct {
    const char *name;
    double f32, tf32, half, bandwidth;
} Card;

/* The card that a driver calls `name` ("NVIDIA A100-SXM4-80GB", "Tesla T4"); NULL: not in the table. */
const Card *card_find(const char *name);

#endif
