/* What is known of NVIDIA's cards: the denominators of every utilisation, and what --estimate computes with. */
#ifndef KERNELS_CARDS_H
#define KERNELS_CARDS_H

#include "kernels/tensor.h"

/* Bytes of a card's memory: those that are taken before a run by the driver's context, the code of kernels and the
 * libraries, assumed where no card is there to be asked; and those that a run leaves free, for what comes later: more
 * code of libraries, their ways being timed, recorded passes, allocations rounded up. */
static const size_t CARD_LOADED = (size_t)600 << 20, CARD_KEPT = (size_t)256 << 20;

typedef struct {
    const char *name; /* in the driver's name for it: "A100-SXM4-40GB" */
    const char *key;  /* on the command line: "a100-40" */
    int capability;   /* 80: 8.0; 0: no GPU */
    /* Dense products with sums in f32, FLOP/s: in f32 by FMAs, in TF32 and in 16 bits on the tensor cores; bytes/s of
     * the memory. tf32 0: the card has none. */
    double f32, tf32, half, bandwidth;
    double memory, l2; /* bytes: those that the driver offers, without what ECC takes */
    double pcie;       /* bytes/s, each way */
    double watts;
    /* What is sustained: shares of the rates in products on the tensor cores, in f32 products, and of the bandwidth. */
    double of_tensor, of_f32, of_bandwidth;
    double launch; /* seconds that a kernel takes besides its work */
} Card;

/* The card that a driver calls `name` ("NVIDIA A100-SXM4-80GB", "Tesla T4"); NULL: not in the table. */
const Card *card_find(const char *name);
/* The card of a key, of which case, spaces, '-' and '_' do not count ("RTX 4090"), and "a100" is the last of those that
 * begin with it; NULL: there is none. */
const Card *card_of_key(const char *key);
/* The whole table, in no order that matters. */
const Card *card_table(int *n);
/* The 16-bit type that the card computes in: bf16 from Ampere on; f32 if it is no GPU. */
DType card_half(const Card *card);

#endif
