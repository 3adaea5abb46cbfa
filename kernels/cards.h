/* The data sheets of NVIDIA's cards: the denominators of every utilisation, and the rates of --estimate. */
#pragma once

#include "kernels/tensor.h"

/* CARD_WITHHELD: about the share of a card's memory, less ECC, that the driver does not offer to programs: of 15 GB
 * cudaMemGetInfo reports 14.75 (T4), of 24 23.5 (A30), of 22.5 22.03 (L4), of 40 39.59 (A100), of 45 44.5 (L40S), of 80
 * 79.1 (H100). CARD_LOADED: the bytes of a card's memory that the driver's context, the code of kernels and the
 * libraries take before a run, assumed if no card can be asked. CARD_HEADROOM: the bytes that a run leaves free for
 * later needs: more code of libraries, autotuning, recorded graphs, rounding of allocations. */
static const double CARD_WITHHELD = 0.02;
static const size_t CARD_LOADED = (size_t)600 << 20, CARD_HEADROOM = (size_t)256 << 20;

/* CARD_L2_USABLE: the share of an L2 that holds what is used again: in the A100's and the H100's each of two halves
 * keeps its own copy of what it reads (the A100's white paper). CARD_L2_RATE: its rate over that of the memory: 2.4 on
 * a V100, 4 on a T4 (Jia et al.), 3.8 on an RTX 4090 (issue 4 of mli/transformers-benchmarks). Both are taken for all
 * cards. */
static const double CARD_L2_USABLE = 0.5, CARD_L2_RATE = 3;

typedef struct {
    const char *name; /* part of the driver's name: "A100-SXM4-40GB" */
    const char *key;  /* on the command line: "a100-40" */
    int capability;   /* 80: 8.0; 0: no GPU */
    int multiprocessors;
    /* Dense products with sums in f32, FLOP/s: in f32 by FMAs, in TF32 and in 16 bits on the tensor cores; bytes/s of
     * the memory. tf32 0: the card has none. */
    double f32, tf32, half, bandwidth;
    double memory, l2; /* bytes; memory as the driver offers it, without the share of ECC */
    double pcie;       /* bytes/s, each way */
    double watts;
    /* Sustained shares: of the rates of products on the tensor cores and of f32 products, and of the bandwidth. */
    double of_tensor, of_f32, of_bandwidth;
    double launch; /* seconds of one kernel's launch */
} Card;

/* Returns the card that a driver calls `name` ("NVIDIA A100-SXM4-80GB", "Tesla T4"); NULL if it is not in the table. */
const Card *card_find(const char *name);
/* Returns the card of a key; NULL if there is none. Ignores case, spaces, '-' and '_' ("RTX 4090"). A prefix ("a100")
 * stands for the last card that begins with it. */
const Card *card_of_key(const char *key);
/* Returns the whole table. */
const Card *card_table(int *n);
/* Returns the 16-bit type that the card computes in: bf16 from Ampere on; f32 if it is not a GPU. */
DType card_half(const Card *card);
/* Returns the bytes of memory that a run may use: of a GPU without CARD_WITHHELD, CARD_LOADED and CARD_HEADROOM. */
double card_available(const Card *card);
