/* Which card each rank computes on. */
#pragma once

#include "base/base.h"

/* Tells the others of a rank's card. Without pointers: it is sent as it is. */
typedef struct {
    char host[65], product[64], uuid[48]; /* uuid "": not known */
} RankCard;

/* Returns the card of this process: the index-th that it sees. */
RankCard cards_own(int index);
/* Dies if two of the ranks compute on the same card, with its name and both ranks. all: [ranks], of all, so that all
 * die with the same words. */
void cards_refuse_twice(const RankCard *all, int ranks);
