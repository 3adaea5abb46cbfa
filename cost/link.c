#include "cost/link.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rates are busbw of all_reduce_perf (nccl-tests) in GB/s for tens of MB, which is what a rank sends and receives at
 * once. Issues are of NVIDIA/nccl-tests ("tests") and NVIDIA/nccl ("nccl").
 *
 * pcie4: four RTX 4090 had 18 through the host's memory and 22 with peer-to-peer (nccl 1603); A100 in pairs across the
 * bus 20 (tests 178); NCCL itself takes 24 for the bus. pcie3 is half of that. pcie5: four RTX 5090 had 35, eight 28
 * (nccl 1639).
 *
 * Latency: 8 bytes take 10 us between two A100 over NVLink (tests 331), 12 us between two RTX 4090 and 42 us among
 * eight (tinygrad/open-gpu-kernel-modules 17; nccl 1530), the latter for twice as many hops as an exchange here has.
 *
 * Channels: 4 over PCIe (nccl 1706), 8 over four NVLinks (tests 331), 24 over NVSwitch (tests 100). */
static const double gb = 1e9;
enum { PCIE_CHANNELS = 4 };
static const double pcie_latency = 20e-6, nvlink_latency = 10e-6;

static const struct {
    const char *name;
    double lanes; /* bytes/s of the card's PCIe, as kernels/cards.c has it */
    double rate;
    bool measured;
    const char *why;
} buses[] = {
    {"pcie3", 15.75e9, 10, false, "half of PCIe 4"},
    {"pcie4", 31.5e9, 20, true, "nccl-tests of 4090 and A100: 18 to 22"},
    {"pcie5", 63e9, 35, true, "nccl-tests of 5090"},
};

/* The NVLinks of cards. most: the ranks that they connect, 2 by a bridge. on_board: such cards have no other board.
 *
 * Eight A100 had 233 of 300 GB/s over NVSwitch (tests 175), a pair of them with a bridge 208 (tests 178), with four
 * links 72 of 100 (tests 331). An A30 has those four links, an A40 and an RTX 3090 four of 14 GB/s (GA102's white
 * paper): 72 % of both. H100: 370 of 450, as NCCL's author says (tests 212); a pair of PCIe cards had 116 (nccl 1161).
 * Eight V100 have six links of 25 GB/s, of which A100's 78 % are taken. */
static const struct {
    const char *key;
    int most;
    double rate;
    int channels;
    bool on_board, measured;
    const char *why;
} bridges[] = {
    {"a30", 2, 72, 8, false, false, "nccl-tests of A100 with as many links: 72 of 100"},
    {"a40", 2, 40, 8, false, false, "72 % of the bridge's 56 GB/s, as A100 with four links"},
    {"rtx3090", 2, 40, 8, false, false, "72 % of the bridge's 56 GB/s, as A100 with four links"},
    {"a100-pcie-40", 2, 208, 24, false, true, "nccl-tests of a bridged pair"},
    {"a100-pcie-80", 2, 208, 24, false, true, "nccl-tests of a bridged pair"},
    {"a100-40", 16, 230, 24, true, true, "nccl-tests of 8 over NVSwitch"},
    {"a100-80", 16, 230, 24, true, true, "nccl-tests of 8 over NVSwitch"},
    {"v100", 8, 117, 12, true, false, "78 % of six links"},
    {"v100-32", 8, 117, 12, true, false, "78 % of six links"},
    {"h100-pcie", 2, 116, 24, false, true, "nccl-tests of a bridged pair"},
    {"h100", 8, 370, 24, true, true, "what NCCL's author names for 8"},
    {"h200", 8, 370, 24, true, false, "the H100's"},
};

enum { BUSES = sizeof buses / sizeof *buses, BRIDGES = sizeof bridges / sizeof *bridges };

static int bridge_of(const Card *card) {
    for (int i = 0; i < BRIDGES; i++)
        if (!strcmp(bridges[i].key, card->key)) return i;
    return -1;
}

static Link bus(int i) {
    Link link = {.rate = buses[i].rate * gb,
                 .latency = pcie_latency,
                 .channels = PCIE_CHANNELS,
                 .measured = buses[i].measured,
                 .why = buses[i].why};
    snprintf(link.name, sizeof link.name, "%s", buses[i].name);
    return link;
}

static bool nvlink(const Card *card, int ranks, Link *link, Error *error) {
    int i = bridge_of(card);
    if (i < 0) return error_set(error, "a %s has no NVLink; give pcie3, pcie4, pcie5 or GB/s", card->key);
    if (ranks > bridges[i].most)
        return error_set(error, "NVLink connects at most %d %s, not %d; give pcie3, pcie4, pcie5 or GB/s",
                         bridges[i].most, card->key, ranks);
    *link = (Link){.name = "nvlink",
                   .rate = bridges[i].rate * gb,
                   .latency = nvlink_latency,
                   .channels = bridges[i].channels,
                   .measured = bridges[i].measured,
                   .why = bridges[i].why};
    return true;
}

/* Reads GB/s. */
static bool number(const char *text, Link *link, Error *error) {
    enum { LEAST = -3, MOST = 4 }; /* powers of ten */
    char *end;
    double rate = strtod(text, &end);
    bool decimal = isdigit((unsigned char)*text) || *text == '.';
    if (!decimal || *end || !(rate >= pow(10, LEAST)) || !(rate <= pow(10, MOST)) || strpbrk(text, "xXnN"))
        return error_set(error, "expected pcie3, pcie4, pcie5, nvlink or GB/s from 0.001 to 10000, found '%.32s'",
                         text);
    *link =
        (Link){.rate = rate * gb, .latency = pcie_latency, .channels = PCIE_CHANNELS, .why = "as given with --link"};
    snprintf(link->name, sizeof link->name, "%.4g GB/s", rate);
    return true;
}

bool link_parse(const char *text, const Card *card, int ranks, Link *link, Error *error) {
    for (int i = 0; i < BUSES; i++)
        if (!strcmp(text, buses[i].name)) {
            *link = bus(i);
            return true;
        }
    return strcmp(text, "nvlink") ? number(text, link, error) : nvlink(card, ranks, link, error);
}

bool link_of_card(const Card *card, int ranks, Link *link, Error *error) {
    int bridge = bridge_of(card);
    if (bridge >= 0 && bridges[bridge].on_board && ranks <= bridges[bridge].most)
        return nvlink(card, ranks, link, error);
    for (int i = 0; i < BUSES; i++)
        if (card->pcie == buses[i].lanes) {
            *link = bus(i);
            return true;
        }
    return error_set(error, "the PCIe of %s is not known; give --link", card->name);
}

/* No PCIe has half as much as an NVLink, for which NCCL takes more blocks. */
Link link_measured(double rate, double latency) {
    enum { NVLINK_CHANNELS = 24 };
    const double nvlink_rate = 60 * gb;
    Link link = {.rate = rate,
                 .latency = latency,
                 .channels = rate < nvlink_rate ? PCIE_CHANNELS : NVLINK_CHANNELS,
                 .measured = true,
                 .why = "as measured at the start of the run"};
    snprintf(link.name, sizeof link.name, "%.3g GB/s", rate / gb);
    return link;
}

double link_bytes(int ranks, double bytes) { return (ranks - 1) * bytes / ranks; }

double link_seconds(const Link *link, int ranks, double bytes) {
    return ranks > 1 ? link->latency + link_bytes(ranks, bytes) / link->rate : 0;
}
