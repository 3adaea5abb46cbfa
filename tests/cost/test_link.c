/* What --link names, and the time of an exchange by hand. */
#include "cost/link.h"
#include "tests/test.h"

static Link link_of(const char *text, const char *card, int ranks) {
    Link link;
    Error error;
    if (!link_parse(text, card_of_key(card), ranks, &link, &error)) fail_msg("%s: %s", text, error.text);
    return link;
}

static void expect_refused(const char *text, const char *card, int ranks, const char *why) {
    Link link;
    Error error;
    assert_false(link_parse(text, card_of_key(card), ranks, &link, &error));
    if (!strstr(error.text, why)) fail_msg("%s: %s", text, error.text);
}

TEST(a_number_is_gigabytes_a_second) {
    assert_true(link_of("1.1", "t4", 4).rate == 1.1e9);
    assert_string_equal(link_of("1.1", "t4", 4).name, "1.1 GB/s");
    assert_true(link_of("25", "a30", 2).rate == 25e9);
}

TEST(other_texts_are_refused_with_what_is_expected) {
    const char *const wrong[] = {"", "0", "-1", "1.1x", "0x10", "nan", "inf", "1e9", "pcie6", "PCIE4", "nvlink2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused(wrong[i], "a30", 2, "expected pcie3, pcie4, pcie5, nvlink or GB/s");
}

TEST(nvlink_is_of_cards_that_have_it) {
    const char *const without[] = {"t4", "l4", "l40", "l40s", "rtx4080", "rtx4090", "a10", "v100-pcie"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        expect_refused("nvlink", without[i], 2, "has no NVLink");
    assert_true(link_of("nvlink", "a30", 2).rate == 72e9);
    assert_true(link_of("nvlink", "a100-80", 8).rate == 230e9);
}

TEST(a_bridge_connects_two) {
    expect_refused("nvlink", "a30", 4, "at most 2 a30, not 4");
    expect_refused("nvlink", "rtx3090", 3, "at most 2 rtx3090, not 3");
}

/* Cards on boards with NVLink have it; those with a bridge have PCIe unless --link says more. */
TEST(every_card_has_a_usual_link) {
    int n;
    const Card *table = card_table(&n);
    for (int i = 0; i < n; i++) {
        Link link;
        Error error;
        if (!link_of_card(&table[i], 2, &link, &error)) fail_msg("%s", error.text);
        bool board = link_of("pcie3", table[i].key, 2).rate * 5 < link.rate;
        assert_true(board == !strcmp(link.name, "nvlink"));
        assert_true(link.rate < 450e9 && link.latency > 0 && *link.why);
        if (!board) assert_true(link.rate < table[i].pcie);
    }
    Link link;
    Error error;
    const Card unknown = {.name = "an unknown card", .key = "unknown", .capability = 80};
    assert_false(link_of_card(&unknown, 2, &link, &error));
    assert_non_null(strstr(error.text, "give --link"));
}

/* Of 24 MB each of 3 ranks sends two thirds, at 2 GB/s. */
TEST(an_exchange_takes_its_latency_and_its_bytes) {
    const Link link = {.rate = 2e9, .latency = 1e-3};
    assert_true(fabs(link_seconds(&link, 3, 24e6) - (1e-3 + 8e-3)) < 1e-15);
    assert_true(link_bytes(3, 24e6) == 16e6);
    assert_true(link_seconds(&link, 1, 24e6) == 0);
}
