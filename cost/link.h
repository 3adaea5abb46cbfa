/* What connects the cards of a machine, and how long exchanges between them take. */
#pragma once

#include "base/base.h"
#include "kernels/cards.h"

typedef struct {
    char name[32];   /* "pcie4", "1.1 GB/s" */
    double rate;     /* bytes/s that each rank sends, and receives at once: the busbw of nccl-tests */
    double latency;  /* seconds of an operation with few bytes */
    int channels;    /* blocks of NCCL, each of which takes a multiprocessor while it sends */
    bool measured;   /* by others; false: derived from what they measured, or given */
    const char *why; /* where the rate is from */
} Link;

/* Reads the text of --link for so many cards of a kind: GB/s ("1.1"), pcie3, pcie4, pcie5 or nvlink. False with the
 * reason if it is none of them, or if such cards have no NVLink that connects so many. */
bool link_parse(const char *text, const Card *card, int ranks, Link *link, Error *error);
/* Returns the link of cards of which nothing else is known: what their board has, or their PCIe. False with the reason
 * if the card's PCIe is not known. */
bool link_of_card(const Card *card, int ranks, Link *link, Error *error);

/* Returns the link whose rate (bytes/s) and latency (seconds) were measured between the very cards. */
Link link_measured(double rate, double latency);

/* Returns the seconds in which `ranks` ranks reduce_scatter, or all_gather, a whole of so many bytes; 0 for one rank.
 */
double link_seconds(const Link *link, int ranks, double bytes);
/* Returns the bytes that each rank sends in this. */
double link_bytes(int ranks, double bytes);
