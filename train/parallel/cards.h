/* Which card each rank computes on. */
#pragma once

#include "kernels/device.h"

/* Tells the others of a rank's card. Without pointers: it is sent as it is. */
typedef struct {
    char host[65], device[64], uuid[48]; /* uuid "": the device has none */
} RankCard;

/* Returns the card of this process. */
RankCard cards_own(const Device *device);
/* Dies if two of the ranks compute on the same card, with its name and both ranks. all: [ranks], of all, so that all
 * die with the same words. */
void cards_refuse_twice(const RankCard *all, int ranks);
