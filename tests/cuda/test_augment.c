/* The cuda device's augmentation of volumes of counts, and mixup, against the cpu's, in f32, bf16 and f16, on a GPU or
 * on the emulator. Both fuse every multiply-add, so that in f32 they differ only by the rounding of weights computed
 * from exponentials, and draw the same Poisson numbers. Outputs start as NaN. */
#include "tests/cuda/schedules.h"

#include "kernels/augment.h"

/* Each augmentation by itself, and all together. */
static const AugmentDraws draws[] = {
    {.scale = 1},
    {.scale = 1.3f, .shift = 2},
    {.scale = 1, .shift = -3, .turns = 1, .flips = AUGMENT_FLIP_X},
    {.scale = 0.7f, .poisson = 1, .seed = {3, 1}, .epoch = 2, .position = {5, 7}},
    {.scale = 1, .side = 3},
    {.scale = 1, .side = 24, .turns = 3, .flips = AUGMENT_FLIP_Y},
    {.scale = 1, .elastic = 1, .seed = {4}, .position = {1}},
    {.scale = 1, .blur = 0.8f, .turns = 2},
    {1, 0.9f, 1, 3, 1, 19, 1, 0.3f, {9, 0}, {8, 2}, 1, {0}},
    {-1, 1.4f, 2, 0, 1, 0, 1, 2.0f, {10, 0}, {8, 0}, 0, {0}},
};
enum { DRAWS = sizeof draws / sizeof *draws, VOLUMES = 4 };

/* Photons in a part of the picture; the last volume has none. */
static Pair pair_counts(bool wide, AugmentShape s) {
    int64_t n = (int64_t)s.T * s.H * s.W, at = 0;
    Pair p = pair_poisoned(&rig, DTYPE_F32, VOLUMES * n, 0);
    DType type = wide ? DTYPE_U16 : DTYPE_U8;
    p.cpu = tensor_2d(p.cpu.data, type, VOLUMES, n);
    p.cuda = tensor_2d(p.cuda.data, type, VOLUMES, n);
    for (; at < VOLUMES * n; at++) {
        uint32_t bits = philox_bits(7, PURPOSE_TEST, 2, (uint64_t)at);
        int pixel = (int)(at % (s.H * s.W));
        bool dark = at / n == VOLUMES - 1 || pixel / s.W + 2 * (pixel % s.W) < s.H || bits % 8 < 5;
        int count = dark ? 0 : 1 + (int)(bits >> 8) % (wide ? 3000 : 255);
        if (wide)
            ((uint16_t *)p.cpu.data)[at] = (uint16_t)count;
        else
            ((uint8_t *)p.cpu.data)[at] = (uint8_t)count;
    }
    pair_upload(&rig, p);
    return p;
}

/* Sizes of the zoom that do not suit the volume are left out. */
static void check_augment(DType type, AugmentShape s, bool wide, bool dilated, bool shift) {
    int64_t n = (int64_t)s.T * s.H * s.W;
    int32_t volume[DRAWS];
    AugmentDraws fit[DRAWS];
    for (int i = 0; i < DRAWS; i++) {
        volume[i] = i == 5 ? VOLUMES - 1 : i % (VOLUMES - 1);
        fit[i] = draws[i];
        if (fit[i].side > 2 * s.H) fit[i].side = s.H > 1 ? s.H + 1 : 2;
    }
    Pair counts = pair_counts(wide, s), volumes = pair_integers(&rig, volume, DRAWS);
    Pair words = pair_integers(&rig, (const int32_t *)fit, DRAWS * AUGMENT_DRAW_WORDS);
    words.cpu = tensor_2d(words.cpu.data, DTYPE_I32, DRAWS, AUGMENT_DRAW_WORDS);
    words.cuda = tensor_2d(words.cuda.data, DTYPE_I32, DRAWS, AUGMENT_DRAW_WORDS);
    Pair x = shift ? shifted(poisoned(type, 2 * DRAWS * n + 1, 0), DRAWS * n, 2) : poisoned(type, DRAWS * n, 2);
    augment_volumes(rig.cpu, x.cpu, counts.cpu, volumes.cpu, words.cpu, s, dilated);
    augment_volumes(rig.cuda, x.cuda, counts.cuda, volumes.cuda, words.cuda, s, dilated);
    check_output("augment_volumes", x, error_in(type, 0, 2));
}

TEST_IN_EVERY_TYPE(volumes) {
    for (int k = 0; k < 4; k++) check_augment(type, (AugmentShape){6, 5, 5}, k % 2, k / 2, k == 1);
    check_augment(type, (AugmentShape){9, 21, 21}, false, false, false);
    check_augment(type, (AugmentShape){2, 12, 12}, true, true, true);
    check_augment(type, (AugmentShape){1, 1, 1}, false, true, false);
}

/* One bin a block, because no four fit. */
TEST_IN_EVERY_TYPE(large_volumes) { check_augment(type, (AugmentShape){5, 40, 40}, true, true, false); }

TEST(nothing) {
    AugmentShape s = {2, 3, 3};
    Pair counts = pair_counts(false, s), none = pair_integers(&rig, NULL, 0), x = poisoned(DTYPE_F32, 0, 2);
    Pair words = {tensor_2d(none.cpu.data, DTYPE_I32, 0, AUGMENT_DRAW_WORDS),
                  tensor_2d(none.cuda.data, DTYPE_I32, 0, AUGMENT_DRAW_WORDS)};
    Pair share = poisoned(DTYPE_F32, 1, 0), y = poisoned(DTYPE_F32, 0, 2);
    augment_volumes(rig.cuda, x.cuda, counts.cuda, none.cuda, words.cuda, s, false);
    augment_volumes(rig.cpu, x.cpu, counts.cpu, none.cpu, words.cpu, s, false);
    mixup(rig.cuda, y.cuda, x.cuda, none.cuda, share.cuda);
    mixup(rig.cpu, y.cpu, x.cpu, none.cpu, share.cpu);
    assert_no_reports();
    rig_clear(&rig);
}

TEST_IN_EVERY_TYPE(mixing) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 2}, {7, 35}, {1100, 8}};
    static const int32_t partner[] = {2, 0, 3, 1, 4};
    for (int i = 0; i < 4; i++)
        for (int shift = 0; shift < 2; shift++) {
            int64_t rows = 5 * sizes[i][0], c = sizes[i][1];
            Pair x = shift ? shifted(normal(type, rows * c + 1, 0), rows, c) : normal(type, rows, c);
            Pair y = poisoned(type, rows, c), partners = pair_integers(&rig, partner, 5);
            Pair share = pair_normal(&rig, DTYPE_F32, 1, 0, 0.3f);
            mixup(rig.cpu, y.cpu, x.cpu, partners.cpu, share.cpu);
            mixup(rig.cuda, y.cuda, x.cuda, partners.cuda, share.cuda);
            check_output("mixup", y, error_in(type, 0, 2));
        }
}

/* Augments two samples, of which one index is out of range. which: 0: a volume, 1: a draw, 2: a partner. */
static void wrong(int which) {
    AugmentShape s = {2, 3, 3};
    AugmentDraws two[2] = {{.scale = 1}, {.scale = 1, .blur = which == 1 ? 3 : 0}};
    Pair counts = pair_counts(false, s), x = poisoned(DTYPE_F32, 36, 2), y = poisoned(DTYPE_F32, 36, 2);
    Pair volume = pair_integers(&rig, (const int32_t[]){0, which == 0 ? VOLUMES : 1}, 2);
    Pair words = pair_integers(&rig, (const int32_t *)two, 2 * AUGMENT_DRAW_WORDS);
    Pair share = pair_normal(&rig, DTYPE_F32, 1, 0, 1), partners = pair_integers(&rig, (const int32_t[]){0, -1}, 2);
    if (which < 2)
        augment_volumes(rig.cuda, x.cuda, counts.cuda, volume.cuda,
                        tensor_2d(words.cuda.data, DTYPE_I32, 2, AUGMENT_DRAW_WORDS), s, false);
    else
        mixup(rig.cuda, y.cuda, x.cuda, partners.cuda, share.cuda);
    rig.cuda->synchronize(rig.cuda);
}
static void wrong_volume(void *argument) { (void)argument, wrong(0); }
static void wrong_draws(void *argument) { (void)argument, wrong(1); }
static void wrong_partner(void *argument) { (void)argument, wrong(2); }

TEST(values_out_of_range_die) {
    if (!emulate_set_seed) skip(); /* a real GPU's state does not survive a fork */
    static void (*const calls[])(void *) = {wrong_volume, wrong_draws, wrong_partner};
    static const char *const messages[] = {"volumes[1] is 4, expected less than 4",
                                           "draws[1] has a number out of range",
                                           "partners[1] is -1, expected less than 2"};
    for (int i = 0; i < 3; i++) {
        char output[4096];
        assert_int_not_equal(run_function(output, sizeof output, calls[i], NULL), 0);
        assert_contains(output, messages[i]);
    }
}

int main(void) { return tests_run(open_rig, close_rig); }
