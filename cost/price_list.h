/* Prices of several cards: --price l4=0.80,h200=3.50 and the files of --prices. */
#pragma once

#include "cost/price.h"
#include "kernels/cards.h"

enum { PRICE_CARDS = 64, PRICE_NOTE = 64 };

/* The price of a card, and where it was found: "" if that is not stated. */
typedef struct {
    Price price;
    char provider[PRICE_NOTE], date[PRICE_NOTE];
} CardPrice;

/* `any` is the price of whatever machine; with by_card each card has its own, in one currency for all. */
typedef struct {
    bool by_card;
    CardPrice any, cpu, cards[PRICE_CARDS]; /* in the order of card_table */
} PriceList;

/* Reads a price as price_parse does, or prices of cards by their keys, of which one may be "cpu": "l4=0.80,h200=3.50".
 * NULL: there is none. The error does not name the option. */
bool price_list_parse(const char *text, PriceList *list, Error *error);
/* Reads a table (CSV) with the columns card and price, and perhaps currency (default: USD), provider and date. Of
 * several prices of a card it takes the lowest. The error begins with the path. */
bool price_list_read(const char *path, PriceList *list, Error *error);
/* Returns the price of a card; NULL: of a CPU. per_hour is 0 if the list has none. */
const CardPrice *price_list_find(const PriceList *list, const Card *card);
/* Returns the price of the card that the driver calls `product`, perhaps none of the table of cards; "": of a CPU. */
const CardPrice *price_list_find_product(const PriceList *list, const char *product);
