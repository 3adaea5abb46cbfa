/* The time of a product of matrices on a card, from its shape.
 *
 * A product is cut into tiles of its result, of which each multiprocessor computes one at a time: so many rounds of
 * tiles, of which the last may be part empty. A round multiplies, and then writes its tiles while nothing multiplies,
 * which is much of a round if k is small. A small result is also cut along k. The fastest way of a few counts. A card
 * that large products slow down, since they need more power than it may take, multiplies faster in such a round, but
 * not more on average. */
#pragma once

#include "kernels/cards.h"
#include "kernels/traffic.h"

/* Returns the seconds of one call of a product, at the FLOP/s that large ones sustain and at those that are stated. */
double product_seconds(const Card *card, double sustained, double peak, const TrafficProduct *product);
