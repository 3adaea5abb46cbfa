/* The price of an hour of a machine: --price. */
#pragma once

#include "base/base.h"

enum { PRICE_CURRENCY = 16 };

typedef struct {
    double per_hour;               /* 0: there is no price */
    char currency[PRICE_CURRENCY]; /* as it was given: "USD", "€" */
} Price;

/* Reads "0.80", an amount in USD, or "0.80 EUR", with any code or symbol, also with "/h" or "per hour" behind it. NULL:
 * there is no price. False with the reason and an example if the text is anything else. */
bool price_parse(const char *text, Price *price, Error *error);
/* Returns the cost of some seconds, in the price's currency. */
double price_cost(const Price *price, double seconds);
/* Writes an amount of money, "12.34 EUR". Returns text. */
const char *price_amount(const Price *price, double amount, char text[64]);
