#include "cost/price.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double highest = 1e6;

/* Returns the length of a text without its end "/h" or "per hour", which says what --price means in any case. */
static size_t without_hour(const char *text) {
    static const char *const ends[] = {"/h", "/hour", "per hour", "an hour"};
    size_t n = strlen(text);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (n < end || strcmp(text + n - end, ends[i]) != 0) continue;
        for (n -= end; n && text[n - 1] == ' ';) n--;
        break;
    }
    return n;
}

/* Returns whether a text can stand behind an amount: short, and without digits, spaces, '/' and control characters. */
static bool is_currency(const char *text, size_t n) {
    if (n >= PRICE_CURRENCY) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalpha((unsigned char)text[i]) && text[i] != '$' && (unsigned char)text[i] < 128) return false;
    return true;
}

bool price_parse(const char *text, Price *price, Error *error) {
    char *end;
    *price = (Price){.currency = "USD"};
    if (!text) return true;
    price->per_hour = strtod(text, &end);
    bool number = end != text && strspn(text, "0123456789.") >= (size_t)(end - text);
    end += strspn(end, " ");
    size_t n = without_hour(end);
    if (!number || !is_currency(end, n) || !(price->per_hour <= highest))
        return error_set(error,
                         "expected the price of an hour, from 0 to %.0f, alone or with a currency of at most %d "
                         "bytes (0.80 or '0.80 EUR'), found '%.64s'",
                         highest, PRICE_CURRENCY - 1, text);
    if (n) snprintf(price->currency, sizeof price->currency, "%.*s", (int)n, end);
    return true;
}

double price_cost(const Price *price, double seconds) { return price->per_hour * seconds / 3600; }

const char *price_amount(const Price *price, double amount, char text[64]) {
    snprintf(text, 64, "%.2f %s", amount, price->currency);
    return text;
}
