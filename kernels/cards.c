#include "kernels/cards.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define T 1e12
#define G 1e9

/* From the data sheets and architecture papers; sparsity, which doubles some of their numbers, left out. Of two that
 * fit a name the first counts. GeForce cards halve the rate of 16-bit products when the sums are f32. */
static const Card cards[] = {
    {"T4", 8.1 * T, 0, 65 * T, 320 * G},
    {"V100-PCIE", 14 * T, 0, 112 * T, 900 * G},
    {"V100", 15.7 * T, 0, 125 * T, 900 * G},
    {"A10", 31.2 * T, 62.5 * T, 125 * T, 600 * G},
    {"A30", 10.3 * T, 82 * T, 165 * T, 933 * G},
    {"A40", 37.4 * T, 74.8 * T, 149.7 * T, 696 * G},
    {"A100-SXM4-40GB", 19.5 * T, 156 * T, 312 * T, 1555 * G},
    {"A100-PCIE-40GB", 19.5 * T, 156 * T, 312 * T, 1555 * G},
    {"A100 80GB PCIe", 19.5 * T, 156 * T, 312 * T, 1935 * G},
    {"A100", 19.5 * T, 156 * T, 312 * T, 2039 * G},
    {"L4", 30.3 * T, 60 * T, 121 * T, 300 * G},
    {"L40", 90.5 * T, 90.5 * T, 181 * T, 864 * G},
    {"L40S", 91.6 * T, 183 * T, 362 * T, 864 * G},
    {"RTX 3090", 35.6 * T, 35.6 * T, 71 * T, 936 * G},
    {"RTX 4080", 48.7 * T, 48.7 * T, 97.5 * T, 717 * G},
    {"RTX 4090", 82.6 * T, 82.6 * T, 165 * T, 1008 * G},
    {"H100 PCIe", 51 * T, 378 * T, 756 * T, 2000 * G},
    {"H100", 67 * T, 494.7 * T, 989 * T, 3350 * G},
    {"H200", 67 * T, 494.7 * T, 989 * T, 4800 * G},
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
