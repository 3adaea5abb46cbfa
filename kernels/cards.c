#include "kernels/cards.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Rates in TFLOP/s, bandwidth in GB/s, memory in GB and L2 in MB of 2^30 and 2^20 bytes, watts, shares in percent. */
#define CARD(name, key, capability, multiprocessors, f32, tf32, half, bandwidth, memory, l2, pcie, watts, tensor,      \
             plain, copy)                                                                                              \
    {                                                                                                                  \
        name, key, capability, multiprocessors, (f32)*1e12, (tf32)*1e12, (half)*1e12, (bandwidth)*1e9,                 \
            (memory)*0x1p30, (l2)*0x1p20, pcie, watts, (tensor) / 100.0, (plain) / 100.0, (copy) / 100.0, 2.5e-6       \
    }

/* 16 lanes of PCIe, less the encoding, bytes/s. */
#define GEN3 15.75e9
#define GEN4 31.5e9
#define GEN5 63e9

/* Name, key, capability, multiprocessors; f32, TF32, 16 bits; bandwidth; memory, L2; PCIe; watts; sustained of tensor
 * cores, f32, bandwidth. If two rows match a driver's name, the first counts.
 *
 * Rates, bandwidth, memory, PCIe and power are from NVIDIA's data sheet of each card, L2 sizes and multiprocessors from
 * the white papers of the architectures (Volta, Turing, A100, GA102, Ada, H100). Sparsity, which doubles some of their
 * numbers, is left out; GeForce cards halve the rate of 16-bit products when the sums are f32. ECC takes a sixteenth of
 * GDDR6 memory: 22.5 of 24 GB, 15 of 16 and 45 of 48 are left.
 *
 * Sustained shares of matrix products: TFLOP/s, divided by the data sheet's rate. A training multiplies for hours, so
 * the rate is that of products which take long, where it is known: short ones end before a card's power limits them.
 * On tensor cores, medians of the longest products of random bf16 numbers in NVIDIA's aiconfigurator_core 0.12.0
 * (systems/data, of TensorRT-LLM): of more than 100 ms L40S 194 (of 0.2 to 5 ms 214, the best 278) and H100 704 (768,
 * 854), of 20 to 100 ms A100 SXM 259; the H200 has the H100's power. torch.matmul of square matrices in the public
 * collection zzc0721/torch-performance-test-data (2025 and 2026), at 8192 and above: L4 57 (71 at 2048), A100 PCIe of
 * 40 GB 212 (234 at 4096); the best of 1024 to 10240: T4 42.3, V100 97, A40 122, A100 PCIe of 80 GB 236, RTX 3090 76,
 * RTX 4090 163; in f32 T4 4.3, V100 14.5, A40 23.7, A100 19.2 (PCIe 17.6), L4 11.1, L40S 46.9, RTX 3090 24.8, RTX 4090
 * 54.7, H100 52, H200 51. A share above 1 is capped at 1. Rows marked A are assumed, since no measurement was found:
 * the shares are those of the nearest relative, or less if the card has less power.
 *
 * Sustained shares of the bandwidth: T4 and V100 as measured by Jia et al. (2018, 2019; 220 of 320 and 750 of 900
 * GB/s), L40S as aiconfigurator_core has a pass that reads 16-bit and writes 8-bit numbers (664 to 678 of 864 GB/s).
 * The others are assumed: 0.88 for HBM, 0.8 for GDDR6 with ECC, whose bits travel with the data, 0.9 without ECC.
 *
 * Kernel launches: NVIDIA's article on CUDA graphs gives 0.9 us between queued kernels (V100), and 4 us or more for the
 * host's call. Small kernels also start and end slowly. 2.5 us is assumed for all cards. */
static const Card cards[] = {
    CARD("T4", "t4", 75, 40, 8.1, 0, 65, 320, 15, 4, GEN3, 70, 65, 53, 69),
    CARD("V100-PCIE", "v100-pcie", 70, 80, 14, 0, 112, 900, 16, 6, GEN3, 250, 78, 92, 83),
    CARD("V100-SXM2-32GB", "v100-32", 70, 80, 15.7, 0, 125, 900, 32, 6, GEN3, 300, 78, 92, 83),
    CARD("V100", "v100", 70, 80, 15.7, 0, 125, 900, 16, 6, GEN3, 300, 78, 92, 83),
    CARD("A10", "a10", 86, 72, 31.2, 62.5, 125, 600, 22.5, 6, GEN4, 150, 60, 60, 80), /* A */
    CARD("A30", "a30", 80, 56, 10.3, 82, 165, 933, 24, 24, GEN4, 165, 75, 90, 88),    /* A */
    CARD("A40", "a40", 86, 84, 37.4, 74.8, 149.7, 696, 45, 6, GEN4, 300, 81, 63, 80),
    CARD("A100-SXM4-40GB", "a100-40", 80, 108, 19.5, 156, 312, 1555, 40, 40, GEN4, 400, 83, 98, 88),
    CARD("A100-PCIE-40GB", "a100-pcie-40", 80, 108, 19.5, 156, 312, 1555, 40, 40, GEN4, 250, 68, 90, 88),
    CARD("A100 80GB PCIe", "a100-pcie-80", 80, 108, 19.5, 156, 312, 1935, 80, 40, GEN4, 300, 76, 90, 88),
    CARD("A100", "a100-80", 80, 108, 19.5, 156, 312, 2039, 80, 40, GEN4, 400, 83, 98, 88),
    CARD("L4", "l4", 89, 58, 30.3, 60, 121, 300, 22.5, 48, GEN4, 72, 47, 37, 80),
    CARD("L40", "l40", 89, 142, 90.5, 90.5, 181, 864, 45, 96, GEN4, 300, 90, 51, 80), /* A */
    CARD("L40S", "l40s", 89, 142, 91.6, 183, 362, 864, 45, 96, GEN4, 350, 54, 51, 78),
    CARD("RTX 3090", "rtx3090", 86, 82, 35.6, 35.6, 71, 936, 24, 6, GEN4, 350, 100, 70, 90),
    CARD("RTX 4080", "rtx4080", 89, 76, 48.7, 48.7, 97.5, 717, 16, 64, GEN4, 320, 95, 66, 90), /* A */
    CARD("RTX 4090", "rtx4090", 89, 128, 82.6, 82.6, 165, 1008, 24, 72, GEN4, 450, 98, 66, 90),
    CARD("H100 PCIe", "h100-pcie", 90, 114, 51, 378, 756, 2000, 80, 50, GEN5, 350, 70, 78, 88), /* A */
    CARD("H100", "h100", 90, 132, 67, 494.7, 989, 3350, 80, 50, GEN5, 700, 71, 78, 88),
    CARD("H200", "h200", 90, 132, 67, 494.7, 989, 4800, 140, 50, GEN5, 700, 71, 77, 88),
};

/* "RTX 4090" is in "NVIDIA GeForce RTX 4090" but not in "... RTX 4090 Laptop GPU"; "A10" is not in "A10G". */
static bool is_in(const char *card, const char *name) {
    static const char *const others[] = {" Ti", " SUPER", " Super", " D", " Laptop", " NVL"};
    const char *at = strstr(name, card);
    if (!at || (at > name && isalnum((unsigned char)at[-1]))) return false;
    at += strlen(card);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strncmp(at, others[i], strlen(others[i])) && !isalnum((unsigned char)at[strlen(others[i])])) return false;
    return !isalnum((unsigned char)*at);
}

const Card *card_find(const char *name) {
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++)
        if (is_in(cards[i].name, name)) return &cards[i];
    return NULL;
}

const Card *card_table(int *n) {
    *n = (int)(sizeof cards / sizeof *cards);
    return cards;
}

/* Returns the next position in the text that is no separator. */
static const char *skip(const char *text) { return text + strspn(text, " -_"); }

/* Returns 2 if `key` is the card's whole key, 1 if it is the part before a '-' in that key, else 0. */
static int match(const char *key, const char *of_card) {
    for (key = skip(key); *key; key = skip(key + 1)) {
        if (*of_card == '-') of_card++;
        if (tolower((unsigned char)*key) != *of_card++) return 0;
    }
    return !*of_card ? 2 : *of_card == '-';
}

const Card *card_of_key(const char *key) {
    const Card *found = NULL;
    for (size_t i = 0; i < sizeof cards / sizeof *cards && *skip(key); i++) {
        int fit = match(key, cards[i].key);
        if (fit == 2) return &cards[i];
        if (fit) found = &cards[i];
    }
    return found;
}

DType card_half(const Card *card) {
    return card->capability >= 80 ? DTYPE_BF16 : card->capability ? DTYPE_F16 : DTYPE_F32;
}

double card_available(const Card *card) {
    if (!card->capability) return card->memory;
    return card->memory * (1 - CARD_WITHHELD) - (double)(CARD_LOADED + CARD_HEADROOM);
}
