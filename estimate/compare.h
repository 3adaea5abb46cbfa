/* Compares what a run costs on several cards. */
#pragma once

#include "estimate/estimate.h"

/* Cards on which the run fits; NULL: there is none, or none with a price, or the length of the run is not known. */
typedef struct {
    const RunTime *fastest, *cheapest;
} Comparison;

/* Compares runs of the same steps. One price for whatever card says nothing about which is the cheapest. */
Comparison compare_runs(const PriceList *prices, const RunTime *times, int n);
/* Returns the price of an hour at which a card costs as much as the cheapest does; without a cheapest, as a share of
 * the price of the fastest. NaN where the run does not fit. */
double compare_break_even(const Comparison *comparison, const RunTime *run);
/* Prints the cheapest, the fastest, and how the break-even prices are meant. */
void compare_print(const Comparison *comparison, const PriceList *prices);
