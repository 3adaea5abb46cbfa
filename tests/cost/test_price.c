/* The price of an hour, as people write it. */
#include "tests/helpers.h"

#include "cost/price.h"

static void a_price_has_an_amount_and_perhaps_a_currency(void **state) {
    (void)state;
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
    Error error;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(price_parse(known[i].text, &price, &error));
        assert_true(price.per_hour == known[i].per_hour);
        assert_string_equal(price.currency, known[i].currency);
    }
    assert_true(price_parse(NULL, &price, &error));
    assert_true(price.per_hour == 0);
}

static void other_texts_are_refused_with_an_example(void **state) {
    (void)state;
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
    Error error;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(price_parse(wrong[i], &price, &error));
        assert_contains(error.text, "(0.80 or '0.80 EUR')");
        assert_contains(error.text, wrong[i]);
    }
}

static void money_is_shown_with_its_currency(void **state) {
    (void)state;
    Price price = {.per_hour = 0.9, .currency = "EUR"};
    char text[64];
    assert_near(price_cost(&price, 2 * 3600 + 1200), 2.1, 1e-12);
    assert_string_equal(price_amount(&price, 2.1, text), "2.10 EUR");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_price_has_an_amount_and_perhaps_a_currency),
        cmocka_unit_test(other_texts_are_refused_with_an_example),
        cmocka_unit_test(money_is_shown_with_its_currency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
