#include "cost/price_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "data/formats/csv.h"
#include "data/formats/text_source.h"

static const char CPU[] = "cpu";

const CardPrice *price_list_find(const PriceList *list, const Card *card) {
    static const CardPrice none;
    int n;
    const Card *table = card_table(&n);
    assert(n <= PRICE_CARDS);
    if (!list->by_card) return &list->any;
    if (!card || !card->capability) return &list->cpu;
    for (int i = 0; i < n; i++)
        if (card == &table[i]) return &list->cards[i];
    return &none;
}

/* Returns the place of the price of a key; NULL with the nearest key in the error if there is no such card. */
static CardPrice *place_of(PriceList *list, const char *key, Error *error) {
    int n;
    const char *keys[PRICE_CARDS + 1] = {CPU};
    const Card *table = card_table(&n), *card = card_of_key(key);
    if (!strcasecmp(key, CPU)) return &list->cpu;
    if (card) return &list->cards[card - table];
    for (int i = 0; i < n; i++) keys[i + 1] = table[i].key;
    const char *near = nearest_name(key, keys, n + 1);
    error_set(error, "'%.64s' is no card of --gpu, nor cpu%s%s%s", key, near ? "; did you mean '" : "",
              near ? near : "", near ? "'?" : "");
    return NULL;
}

/* Adds a price, unless the list has a lower one. `any` remembers the currency. */
static bool add(PriceList *list, CardPrice *place, const CardPrice *price, Error *error) {
    const char *currency = price->price.currency, *before = list->any.price.currency;
    if (*before && strcmp(before, currency) != 0)
        return error_set(error, "the currency is %s, and that of an earlier price %s: prices are compared in one",
                         currency, before);
    memcpy(list->any.price.currency, currency, PRICE_CURRENCY);
    if (!(place->price.per_hour > 0) || price->price.per_hour < place->price.per_hour) *place = *price;
    return true;
}

/* ---- --price ---- */

/* Reads KEY=PRICE. */
static bool take_entry(PriceList *list, char *entry, Error *error) {
    char *key = entry + strspn(entry, " "), *sign = strchr(key, '=');
    CardPrice price = {.provider = ""};
    if (!sign) return error_set(error, "expected CARD=PRICE, as in l4=0.80,h200=3.50, found '%.64s'", key);
    *sign = 0;
    char *text = sign + 1 + strspn(sign + 1, " ");
    CardPrice *place = place_of(list, key, error);
    if (!place) return false;
    if (place->price.per_hour > 0) return error_set(error, "%s has two prices", key);
    if (!price_parse(text, &price.price, error)) return error_before(error, "%s: ", key);
    if (!(price.price.per_hour > 0)) return error_set(error, "%s: expected a price above 0, found '%.64s'", key, text);
    return add(list, place, &price, error) || error_before(error, "%s: ", key);
}

bool price_list_parse(const char *text, PriceList *list, Error *error) {
    *list = (PriceList){.by_card = text && strchr(text, '=')};
    if (!list->by_card) return price_parse(text, &list->any.price, error);
    OWNED char *copy = xstrdup(text);
    char *rest = copy;
    bool ok = true;
    for (char *entry; ok && (entry = strsep(&rest, ","));) ok = take_entry(list, entry, error);
    return ok;
}

/* ---- --prices ---- */

typedef struct {
    int card, price, currency, provider, date; /* places in a row; -1: the table lacks the column */
} Columns;

static bool find_columns(const Csv *csv, Columns *c, Error *error) {
    static const char advice[] = "; a table of prices has the columns card and price, and perhaps currency, provider "
                                 "and date";
    return csv_column(csv, "card", advice, &c->card, error) && csv_column(csv, "price", advice, &c->price, error) &&
           csv_column(csv, "currency", NULL, &c->currency, error) &&
           csv_column(csv, "provider", NULL, &c->provider, error) && csv_column(csv, "date", NULL, &c->date, error);
}

/* Copies a short text to print. */
static bool take_note(const char *what, const char *field, char note[PRICE_NOTE], Error *error) {
    bool ok = strlen(field) < PRICE_NOTE;
    for (const char *at = field; ok && *at; at++) ok = (unsigned char)*at >= ' ' && *at != 127;
    if (!ok) return error_set(error, "%s: expected at most %d bytes without control characters", what, PRICE_NOTE - 1);
    memcpy(note, field, strlen(field) + 1);
    return true;
}

static const char *field_of(const Csv *row, int place) {
    return place < 0 || place >= row->n ? "" : row->fields[place];
}

static bool take_row(PriceList *list, const Csv *row, const Columns *c, Error *error) {
    CardPrice price = {.provider = ""};
    const char *amount = field_of(row, c->price), *currency = field_of(row, c->currency);
    double per_hour;
    Error why = {.text = ""};
    CardPrice *place = place_of(list, field_of(row, c->card), &why);
    bool number = csv_decimal(row, amount, &per_hour) && per_hour > 0;
    if (place && !number) error_set(&why, "expected a price of an hour above 0, found '%.64s'", amount);
    OWNED char *text = number ? xformat("%.9f %s", per_hour, currency) : NULL;
    bool ok = place && number && price_parse(text, &price.price, &why) &&
              take_note("provider", field_of(row, c->provider), price.provider, &why) &&
              take_note("date", field_of(row, c->date), price.date, &why) && add(list, place, &price, &why);
    return ok || error_set(error, "%lld: %s", (long long)row->line, why.text);
}

static bool parse_table(PriceList *list, char *text, size_t size, Error *error) {
    Csv csv;
    Columns columns;
    error->text[0] = 0;
    if (!csv_open(&csv, text, size, ',', error)) return false;
    bool ok = csv_next(&csv, error);
    if (!ok && !error->text[0]) error_set(error, "is empty");
    ok = ok && find_columns(&csv, &columns, error);
    while (ok && (ok = csv_next(&csv, error))) ok = take_row(list, &csv, &columns, error);
    if (!error->text[0] && !*list->any.price.currency) error_set(error, "has no prices");
    csv_close(&csv);
    return !error->text[0];
}

bool price_list_read(const char *path, PriceList *list, Error *error) {
    OWNED char *text = NULL;
    size_t size;
    Error why = {.text = ""};
    *list = (PriceList){.by_card = true};
    return (text_read(path, &text, &size, &why) && parse_table(list, text, size, &why)) ||
           error_set(error, "%s: %s", path, why.text);
}

const CardPrice *price_list_find_product(const PriceList *list, const char *product) {
    static const Card other = {.capability = 1}; /* no card of the table */
    const Card *card = product[0] ? card_find(product) : NULL;
    return price_list_find(list, product[0] && !card ? &other : card);
}
