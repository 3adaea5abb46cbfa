/* The price of an hour, as people write it. */
#include "tests/test.h"

#include "cost/price_list.h"

static Error error;

TEST(a_price_has_an_amount_and_perhaps_a_currency) {
    static const struct {
        const char *text;
        double per_hour;
        const char *currency;
    } known[] = {{"0.80", 0.8, "USD"},       {"2", 2, "USD"},
                 {".5", 0.5, "USD"},         {"0", 0, "USD"},
                 {"0.80 EUR", 0.8, "EUR"},   {"3CHF", 3, "CHF"},
                 {"1.5 €", 1.5, "€"},        {"12  ETB", 12, "ETB"},
                 {"0.80 EUR/h", 0.8, "EUR"}, {"0.80/h", 0.8, "USD"},
                 {"1.5 € /h", 1.5, "€"},     {"2 $ per hour", 2, "$"},
                 {"3 per hour", 3, "USD"},   {"4CHF an hour", 4, "CHF"},
                 {"5 EUR/hour", 5, "EUR"}};
    Price price;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(price_parse(known[i].text, &price, &error));
        assert_true(price.per_hour == known[i].per_hour);
        assert_string_equal(price.currency, known[i].currency);
    }
    assert_true(price_parse(NULL, &price, &error));
    assert_true(price.per_hour == 0);
}

TEST(other_texts_are_refused_with_an_example) {
    static const char *const wrong[] = {"",
                                        "EUR",
                                        "-1",
                                        "0,80",
                                        "0.80 EUR per day",
                                        "0.80 EUR/d",
                                        "0.80 EUR/h/h",
                                        "0.80 E/R",
                                        "0.80 EUR an",
                                        "1e3",
                                        "nan",
                                        "inf",
                                        "0x10",
                                        "1 2",
                                        "0.8 E\nR",
                                        "1000001",
                                        " 1",
                                        "$1",
                                        "1.2.3",
                                        "1-2",
                                        "1 EUR ",
                                        "1 abcdefghijklmnop"};
    Price price;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(price_parse(wrong[i], &price, &error));
        assert_contains(error.text, "(0.80 or '0.80 EUR')");
        assert_contains(error.text, wrong[i]);
    }
}

TEST(money_is_shown_with_its_currency) {
    Price price = {.per_hour = 0.9, .currency = "EUR"};
    char text[64];
    assert_near(price_cost(&price, 2 * 3600 + 1200), 2.1, 1e-12);
    assert_string_equal(price_amount(&price, 2.1, text), "2.10 EUR");
}

static double price_of(const PriceList *list, const char *key) {
    return price_list_find(list, key ? card_of_key(key) : NULL)->price.per_hour;
}

TEST(a_list_has_a_price_for_each_card) {
    PriceList list;
    assert_true(price_list_parse("l4=0.80 EUR, RTX 4090=0.5EUR/h,cpu=0.1EUR", &list, &error));
    assert_true(price_of(&list, "l4") == 0.8 && price_of(&list, "rtx4090") == 0.5 && price_of(&list, NULL) == 0.1);
    assert_true(price_of(&list, "h200") == 0);
    assert_string_equal(price_list_find(&list, card_of_key("l4"))->price.currency, "EUR");
    assert_true(price_list_parse("0.80", &list, &error)); /* of whatever machine */
    assert_true(price_of(&list, "l4") == 0.8 && price_of(&list, NULL) == 0.8 && !list.by_card);
    assert_true(price_list_parse(NULL, &list, &error) && price_of(&list, "l4") == 0);
}

TEST(a_wrong_list_is_refused) {
    static const char *const wrong[][2] = {
        {"l4=0.80,", "expected CARD=PRICE, as in l4=0.80,h200=3.50, found ''"},
        {"l4=1,80", "expected CARD=PRICE, as in l4=0.80,h200=3.50, found '80'"},
        {"l4=0.80,l5=2", "'l5' is no card of --gpu, nor cpu; did you mean 'l4'?"},
        {"=2", "'' is no card of --gpu, nor cpu"},
        {"l4=", "l4: expected the price of an hour"},
        {"l4=0", "l4: expected a price above 0, found '0'"},
        {"l4=1,L4=2", "L4 has two prices"},
        {"l4=1,h200=2EUR", "h200: the currency is EUR, and that of an earlier price USD"},
    };
    PriceList list;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(price_list_parse(wrong[i][0], &list, &error));
        assert_contains(error.text, wrong[i][1]);
    }
}

TEST(a_table_of_prices_is_read) {
    char *path = kept_path(run_directory(), "prices.csv");
    PriceList list;
    write_text(path, "provider,card,price,date\nA,l4,0.9,\nB,l4,0.8,2026-11-01\nC,l4,1,\n,CPUs,0.05,\n");
    assert_false(price_list_read(path, &list, &error));
    assert_contains(error.text, "prices.csv: 5: 'CPUs' is no card of --gpu, nor cpu");
    write_text(path, "provider,card,price,date\nA,l4,0.9,\nB,l4,0.8,2026-11-01\nC,l4,1,\n,CPU,0.05,\n");
    assert_true(price_list_read(path, &list, &error));
    const CardPrice *l4 = price_list_find(&list, card_of_key("l4"));
    assert_true(l4->price.per_hour == 0.8 && price_of(&list, NULL) == 0.05);
    assert_string_equal(l4->provider, "B");
    assert_string_equal(l4->date, "2026-11-01");
    assert_string_equal(l4->price.currency, "USD");
    static const char *const wrong[][2] = {
        {"", "prices.csv: is empty"},
        {"card,price\n", "prices.csv: has no prices"},
        {"card,cost\nl4,1\n", "price"},
        {"card,price\nl4,0.80 EUR\n", "prices.csv: 2: expected a price of an hour above 0, found '0.80 EUR'"},
        {"card,price\nl4,-1\n", "prices.csv: 2: expected a price of an hour above 0, found '-1'"},
        {"card,price\nl4\n", "prices.csv: 2: expected a price of an hour above 0, found ''"},
        {"card,price\nl4,2000000\n", "prices.csv: 2: expected the price of an hour, from 0 to 1000000"},
        {"card,price,currency\nl4,1,EUR\n\nt4,1,USD\n", "prices.csv: 4: the currency is USD"},
        {"card,price,provider\nl4,1,\033[31m\n", "prices.csv: 2: provider: expected at most 63 bytes without control"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text(path, "%s", wrong[i][0]);
        assert_false(price_list_read(path, &list, &error));
        assert_contains(error.text, wrong[i][1]);
    }
    assert_false(price_list_read("/nowhere/prices.csv", &list, &error));
    assert_contains(error.text, "/nowhere/prices.csv: ");
}
