/* The table of cards: names, rates, presets. */
#include "kernels/cards.h"
#include "tests/test.h"

static void check_found(const char *asked, const char *got, const char *want) {
    if (got && want)
        assert_string_equal(got, want);
    else if (got || want)
        fail_msg("'%s' is %s", asked, got ? got : "not found");
}

static void check(const char *name, const char *want) {
    const Card *card = card_find(name);
    check_found(name, card ? card->name : NULL, want);
}

TEST(driver_names_are_found) {
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

TEST(unknown_names_match_no_card) {
    check("NVIDIA A10G", NULL);
    check("NVIDIA GeForce RTX 3090 Ti", NULL);
    check("NVIDIA GeForce RTX 4090 Laptop GPU", NULL);
    check("NVIDIA GeForce RTX 4090 D", NULL);
    check("Tesla T40", NULL);
    check("NVIDIA GH200", NULL);
    check("cpu: 2 threads, avx512", NULL);
    check("", NULL);
}

TEST(rates_are_plausible) {
    const char *const names[] = {"T4",  "V100", "A10",      "A30",      "A40",      "A100", "L4",
                                 "L40", "L40S", "RTX 3090", "RTX 4080", "RTX 4090", "H100", "H200"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const Card *card = card_find(names[i]);
        assert_non_null(card);
        assert_true(card->half > card->f32 && (!card->tf32 || (card->tf32 >= card->f32 && card->half > card->tf32)));
        assert_true(card->bandwidth >= 300e9 && card->bandwidth < 5e12);
    }
}

static void check_key(const char *key, const char *want) {
    const Card *card = card_of_key(key);
    check_found(key, card ? card->key : NULL, want);
}

TEST(keys_are_found_in_every_spelling) {
    int n;
    const Card *cards = card_table(&n);
    for (int i = 0; i < n; i++) check_key(cards[i].key, cards[i].key);
    check_key("L4", "l4");
    check_key("RTX 4090", "rtx4090");
    check_key("rtx-3090", "rtx3090");
    check_key("A100_40", "a100-40");
    check_key("a100", "a100-80");
    check_key("a100-pcie", "a100-pcie-80");
    check_key("v100", "v100");
    check_key("h100", "h100");
    check_key("a10", "a10");
    check_key("a1", NULL);
    check_key("l4s", NULL);
    check_key("rtx", NULL);
    check_key("all", NULL);
    check_key("", NULL);
    check_key("-", NULL);
}

/* Every preset of configs/gpu names a card of the table, with its 16-bit type and architecture. */
TEST(every_preset_is_a_card) {
    char files[1024];
    assert_int_equal(run_command(files, sizeof files, "ls configs/gpu"), 0);
    int n = 0;
    for (char *at = strtok(files, "\n"); at; at = strtok(NULL, "\n"), n++) {
        char *path = kept_path("configs/gpu", at), *text = kept_text(path);
        *strstr(at, ".mk") = 0;
        const Card *card = card_of_key(at);
        if (!card) fail_msg("configs/gpu/%s.mk is no card of the table", at);
        assert_true((strstr(text, "GPU_HALF = BF16") != NULL) == (card_half(card) == DTYPE_BF16));
        char *capability = kept_format("GPU_ARCHITECTURES = %d", card->capability);
        assert_contains(text, capability);
    }
    assert_true(n >= 12);
}

TEST(every_card_has_every_figure) {
    int n;
    const Card *cards = card_table(&n);
    for (int i = 0; i < n; i++) {
        const Card *c = &cards[i];
        assert_true((c->tf32 > 0) == (c->capability >= 80));
        assert_true(c->memory >= 15 * 0x1p30 && c->memory <= 140 * 0x1p30 && c->l2 >= 4 * 0x1p20 &&
                    c->l2 < 100 * 0x1p20);
        assert_true(c->pcie > 15e9 && c->pcie < 64e9 && c->watts >= 70 && c->watts <= 700);
        assert_true(c->of_tensor > 0.4 && c->of_tensor <= 1 && c->of_f32 > 0.3 && c->of_f32 <= 1);
        assert_true(c->of_bandwidth > 0.6 && c->of_bandwidth < 1 && c->launch > 1e-6 && c->launch < 1e-5);
    }
}
