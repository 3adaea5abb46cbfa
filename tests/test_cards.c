/* The table of cards: names as drivers write them. */
#include "kernels/cards.h"
#include "tests/helpers.h"

static void check(const char *name, const char *want) {
    const Card *card = card_find(name);
    if (!card || !want) {
        if (card || want) fail_msg("'%s' is %s", name, card ? card->name : "not found");
        return;
    }
    assert_string_equal(card->name, want);
}

static void names_of_drivers_are_found(void **state) {
    (void)state;
    check("Tesla T4", "T4");
    check("NVIDIA L4", "L4");
    check("cuda: NVIDIA L40S, 47.7 GB, sm_89, 142 multiprocessors", "L40S");
    check("NVIDIA L40", "L40");
    check("Tesla V100-SXM2-16GB", "V100");
    check("Tesla V100-PCIE-32GB", "V100-PCIE");
    check("NVIDIA A10", "A10");
    check("NVIDIA A30", "A30");
    check("NVIDIA A100-SXM4-80GB", "A100");
    check("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB");
    check("NVIDIA A100 80GB PCIe", "A100 80GB PCIe");
    check("NVIDIA GeForce RTX 3090", "RTX 3090");
    check("NVIDIA GeForce RTX 4090", "RTX 4090");
    check("NVIDIA H100 80GB HBM3", "H100");
    check("NVIDIA H100 PCIe", "H100 PCIe");
    check("NVIDIA H200", "H200");
}

static void others_are_not_taken_for_them(void **state) {
    (void)state;
    check("NVIDIA A10G", NULL);
    check("NVIDIA GeForce RTX 3090 Ti", NULL);
    check("NVIDIA GeForce RTX 4090 Laptop GPU", NULL);
    check("NVIDIA GeForce RTX 4090 D", NULL);
    check("Tesla T40", NULL);
    check("NVIDIA GH200", NULL);
    check("cpu: 2 threads, avx512", NULL);
    check("", NULL);
}

static void rates_are_in_order(void **state) {
    (void)state;
    const char *const names[] = {"T4",  "V100", "A10",      "A30",      "A40",      "A100", "L4",
                                 "L40", "L40S", "RTX 3090", "RTX 4080", "RTX 4090", "H100", "H200"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const Card *card = card_find(names[i]);
        assert_non_null(card);
        assert_true(card->half > card->f32 && (!card->tf32 || (card->tf32 >= card->f32 && card->half > card->tf32)));
        assert_true(card->bandwidth >= 300e9 && card->bandwidth < 5e12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_drivers_are_found),
        cmocka_unit_test(others_are_not_taken_for_them),
        cmocka_unit_test(rates_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
