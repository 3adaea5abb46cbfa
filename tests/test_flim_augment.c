/* The augmentations of FLIM cells: each one's check values (sums, first moments and footprint of a made-up cell), what
 * is drawn, and what becomes of the footprint. */
#include "data/flim_augment.h"

#include "kernels/poisson.h"
#include "tests/flim_golden.h"
#include "tests/helpers.h"

enum { T = 256, N = 21, PIXELS = N * N, VOXELS = T * PIXELS };
static const FlimShape SHAPE = {T, N, N};
static FlimAugmenter *a;
static float counts[VOXELS], dx[PIXELS], dy[PIXELS], x[2 * VOXELS];
static unsigned char footprint[PIXELS];

static int new_cell(void **state) {
    (void)state;
    if (!a) a = flim_augmenter_new(SHAPE);
    for (int i = 0; i < VOXELS; i++) {
        int t = i / PIXELS, row = i / N % N, column = i % N;
        counts[i] = column + 2 * row < 18 ? 0 : (float)golden_count(3, t, row, column);
    }
    for (int i = 0; i < PIXELS; i++) {
        dx[i] = (float)golden_uniform(1001, (uint64_t)i);
        dy[i] = (float)golden_uniform(1002, (uint64_t)i);
    }
    flim_elastic_field(a, dx);
    flim_elastic_field(a, dy);
    flim_footprint(footprint, counts, SHAPE);
    return 0;
}

/* The table is exact to its digits in double. A bin here has at most three roundings of weights and 14 of sums, each
 * half of 2^-23 of it, one way or the other: 1e-6 of a sum of terms of one sign covers them all. */
static void check(const char *what, double sum, double by_y, double by_x, double by_t, int area) {
    const double want[4] = {sum, by_y, by_x, by_t};
    double got[4] = {0};
    unsigned char mask[PIXELS];
    for (int i = 0; i < VOXELS; i++) {
        double b = (double)counts[i];
        got[0] += b;
        got[1] += b * (i / N % N);
        got[2] += b * (i % N);
        got[3] += b * (i / PIXELS);
    }
    for (int i = 0; i < 4; i++)
        if (!(fabs(got[i] / want[i] - 1) <= 1e-6)) fail_msg("%s: sum %d is %.9g, not %.9g", what, i, got[i], want[i]);
    if (flim_footprint(mask, counts, SHAPE) != area) fail_msg("%s: footprint is not %d", what, area);
}

static void hash_is_the_specified_one(void **state) {
    (void)state;
    assert_near(golden_uniform(0, 0), 0.76662161642728521, 1e-16);
    assert_near(golden_uniform(0, 1), 0.13312315034456179, 1e-16);
    assert_near(golden_uniform(4, 3071), 0.21008521523685975, 1e-16);
    assert_near(golden_uniform(45, 0), -0.93873393614173128, 1e-16);
    check("raw", 901318, 10179805, 9622001, 90163019, 265);
}

static void shifts_fill_with_zeros(void **state) {
    flim_shift(a, counts, 5);
    check("+5", 901053, 10176812, 9619172, 94601240, 265);
    new_cell(state);
    flim_shift(a, counts, -3);
    check("-3", 901159, 10178013, 9620289, 87459382, 265);
    new_cell(state);
    flim_shift(a, counts, -1000);
    assert_true(!flim_footprint(footprint, counts, SHAPE));
}

static void turns_and_flips_move_whole_pixels(void **state) {
    static const double by[4][2] = {{0, 0}, {8404359, 10179805}, {7846555, 8404359}, {9622001, 7846555}};
    for (int turns = 1; turns <= 3; turns++) {
        new_cell(state);
        flim_turn(a, counts, footprint, turns);
        check("turn", 901318, by[turns][0], by[turns][1], 90163019, 265);
    }
    for (int axis = 0; axis < 2; axis++) {
        new_cell(state);
        flim_flip(a, counts, footprint, !axis, axis);
        check("flip", 901318, axis ? 10179805 : 7846555, axis ? 8404359 : 9622001, 90163019, 265);
    }
    new_cell(state);
    for (int k = 0; k < 4; k++) flim_turn(a, counts, footprint, 1);
    flim_flip(a, counts, footprint, true, true);
    flim_turn(a, counts, footprint, 2);
    check("round", 901318, 10179805, 9622001, 90163019, 265);
}

static void zoom_is_bilinear(void **state) {
    flim_zoom(a, counts, NULL, 0.88);
    check("18", 645640.041522, 6833482.9792, 6500337.3529, 64586373.8235, 217);
    new_cell(state);
    flim_zoom(a, counts, NULL, 0.95);
    check("20", 809448.033241, 8680421.7673, 8205820.6537, 80972843.5346, 279);
    new_cell(state);
    flim_zoom(a, counts, NULL, 1.10);
    check("23", 1073427.272727, 12224202.4711, 11529992.9256, 107379841.3554, 338);
    new_cell(state);
    flim_zoom(a, counts, NULL, 1.02); /* to 21 pixels */
    check("21", 901318, 10179805, 9622001, 90163019, 265);
}

/* Of a ramp, 1 + the column, to each size that is drawn: the middle of n pixels, or zeros around them. */
static void zoom_keeps_the_middle(void **state) {
    (void)state;
    for (int n = 18; n <= 24; n++) {
        for (int i = 0; i < VOXELS; i++) counts[i] = (float)(1 + i % N);
        flim_zoom(a, counts, NULL, n / 21.0);
        for (int i = 0; i < VOXELS; i++) {
            int row = i / N % N, column = i % N, before = n < 21 ? (21 - n) / 2 : -((n - 21) / 2);
            int from = column - before;
            bool inside = from >= 0 && from < n && row - before >= 0 && row - before < n;
            assert_near(counts[i], inside ? 1 + from * 20.0 / (n - 1) : 0, 1e-5); /* floats of at most 21 */
        }
    }
}

static void elastic_follows_its_fields(void **state) {
    (void)state;
    assert_near(dx[10 * N + 10], 0.127972381, 1e-6); /* floats: sums of 289 terms below 0.2 */
    assert_near(dy[10 * N + 10], 0.347369554, 1e-6);
    assert_near(dx[0], 0.022204962, 1e-6);
    assert_near(dy[20 * N + 3], -0.067488287, 1e-6);
    flim_elastic(a, counts, NULL, dx, dy);
    /* A displacement is off by up to 1e-7 of a pixel, times differences as large as the counts. */
    check("elastic", 930142.038055, 10443676.6269, 9690536.0699, 93046448.4089, 307);
}

static void blur_is_a_gaussian(void **state) {
    static const double want[3][4] = {{0.99232748, 0.00383626},
                                      {0.72166743, 0.13819585, 0.00097044},
                                      {0.498676452, 0.228310716, 0.021910314, 0.000440743}};
    float weights[2 * FLIM_MOST_RADIUS + 1];
    for (int k = 0; k < 3; k++) {
        int radius = flim_gaussian(weights, 0.3 + 0.25 * k);
        assert_int_equal(radius, k + 1);
        for (int i = 0; i <= radius; i++) {
            assert_near(weights[radius + i], want[k][i], 1e-7);
            assert_near(weights[radius - i], want[k][i], 1e-7);
        }
    }
    flim_blur(a, counts, 0.3);
    check("0.3", 901318, 10179791.9490, 9622001.0000, 90163019, 340);
    new_cell(state);
    flim_blur(a, counts, 0.55);
    check("0.55", 901318, 10179295.2473, 9621991.0976, 90163019, 390);
    new_cell(state);
    flim_blur(a, counts, 0.8);
    check("0.8", 901318, 10178071.0113, 9621757.9388, 90163019, 416);
}

static void a_chain_is_packed(void **state) {
    (void)state;
    FlimDraws d = {.shift = 5, .scale = 0.8f, .turns = 1, .flip_y = true, .zoom = 0.95};
    double sums[2] = {0};
    flim_augment(a, counts, NULL, &d);
    flim_elastic(a, counts, NULL, dx, dy);
    flim_blur(a, counts, 0.55);
    check("chain", 667842.298114, 6870706.9325, 7080744.6053, 70116489.9895, 429);
    flim_footprint(footprint, counts, SHAPE);
    flim_pack(x, counts, footprint, SHAPE);
    for (int i = 0; i < 2 * VOXELS; i++) sums[i / VOXELS] += (double)x[i];
    assert_near(sums[0], 12280.9986, 12280.9986 * 1e-6);
    assert_true(sums[1] == 109824);
    counts[0] = 224;
    flim_pack(x, counts, footprint, SHAPE);
    assert_near(x[0], 0.5416100, 1e-6);
}

/* ---- the footprint by itself ---- */

static void footprint_moves_with_the_counts_but_is_not_dilated(void **state) {
    unsigned char seen[PIXELS];
    FlimDraws blur = {.scale = 1, .zoom = 1, .blur = 0.8};
    flim_augment(a, counts, footprint, &blur);
    int area = 0;
    for (int i = 0; i < PIXELS; i++) area += footprint[i];
    assert_int_equal(area, 265);
    assert_int_equal(flim_footprint(seen, counts, SHAPE), 265); /* compat's 416 */
    assert_memory_equal(seen, footprint, PIXELS);
    for (uint64_t i = 0; i < 40; i++) {
        FlimDraws d = flim_draw(1, 0, i, 5);
        new_cell(state);
        flim_augment(a, counts, footprint, &d);
        flim_footprint(seen, counts, SHAPE);
        for (int k = 0; k < PIXELS; k++)
            assert_true(footprint[k] <= 1 && seen[k] <= footprint[k]); /* a lit pixel is in the footprint */
    }
}

static void whole_moves_take_the_footprint_along(void **state) {
    unsigned char seen[PIXELS];
    for (int turns = 0; turns < 4; turns++)
        for (int flips = 0; flips < 4; flips++) {
            FlimDraws d = {.scale = 1, .zoom = 1, .turns = turns, .flip_y = flips & 1, .flip_x = flips & 2};
            new_cell(state);
            flim_augment(a, counts, footprint, &d);
            flim_footprint(seen, counts, SHAPE);
            assert_memory_equal(seen, footprint, PIXELS);
        }
}

/* From 21 to 19 pixels a source is i * 20 / 18: rounded, and the outer ring is zero. */
static void nearest_pixels_make_the_footprint(void **state) {
    (void)state;
    unsigned char before[PIXELS];
    memset(footprint, 1, N); /* the corner that pixels beyond the image must not be taken from */
    memcpy(before, footprint, PIXELS);
    flim_zoom(a, counts, footprint, 0.9);
    for (int i = 0; i < PIXELS; i++) {
        int row = i / N - 1, column = i % N - 1;
        bool inside = row >= 0 && row < 19 && column >= 0 && column < 19;
        if (row * 20 % 18 == 9 || column * 20 % 18 == 9) continue; /* half way: either */
        int from = inside ? (row * 20 + 9) / 18 * N + (column * 20 + 9) / 18 : -1;
        assert_int_equal(footprint[i], inside ? before[from] : 0);
    }
}

/* ---- what is drawn ---- */

/* How often each gate opens, within five standard deviations; uniform values' means likewise. */
static void gates_open_as_often_as_they_should(void **state) {
    (void)state;
    enum { DRAWS = 20000 };
    static const double share[] = {0.8 * 10 / 11, 0.8, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    int64_t open[9] = {0}, shifts[11] = {0}, turns[4] = {0};
    double means[3] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        FlimDraws d = flim_draw(42, 3, i, 5);
        const bool gates[9] = {d.shift != 0, d.scale != 1, d.turns != 0, d.flip_y,  d.flip_x,
                               d.poisson,    d.zoom != 1,  d.elastic,    d.blur > 0};
        for (int g = 0; g < 9; g++) open[g] += gates[g];
        assert_true(abs(d.shift) <= 5 && d.turns <= 3 && d.scale >= 0.6f && d.scale <= 1.4f && d.zoom >= 0.85 &&
                    d.zoom <= 1.15 && (d.blur == 0 || (d.blur >= 0.3 && d.blur <= 0.8)));
        shifts[d.shift + 5]++;
        turns[d.turns]++;
        means[0] += (double)d.scale - 1;
        means[1] += d.zoom - 1;
        means[2] += d.blur > 0 ? d.blur - 0.55 : 0;
    }
    for (int g = 0; g < 9; g++) assert_near(open[g], DRAWS * share[g], 5 * sqrt(DRAWS * share[g] * (1 - share[g])));
    for (int k = 0; k < 11; k++)
        assert_near(shifts[k], DRAWS * (k == 5 ? 0.2 + 0.8 / 11 : 0.8 / 11), 5 * sqrt(DRAWS / 4.0));
    for (int k = 1; k < 4; k++) assert_near(turns[k], DRAWS / 6.0, 5 * sqrt(DRAWS / 6.0));
    assert_near(means[0], 0, 5 * 0.8 / sqrt(12) * sqrt(DRAWS));
    assert_near(means[1], 0, 5 * 0.3 / sqrt(12) * sqrt(DRAWS));
    assert_near(means[2], 0, 5 * 0.5 / sqrt(12) * sqrt(DRAWS));
}

static void draws_depend_on_seed_epoch_and_position_only(void **state) {
    static float first[VOXELS];
    for (int which = 0; which < 2; which++) {
        FlimDraws d = {
            .scale = 1, .zoom = 1, .poisson = !which, .elastic = which, .seed = 7, .epoch = 2, .position = 11};
        new_cell(state);
        flim_augment(a, counts, NULL, &d);
        memcpy(first, counts, sizeof first);
        for (int change = 0; change < 4; change++) {
            FlimDraws e = d;
            e.seed += change == 1;
            e.epoch += change == 2;
            e.position += change == 3;
            new_cell(state);
            flim_augment(a, counts, NULL, &e);
            assert_true(!memcmp(first, counts, sizeof first) == !change);
            FlimDraws p = flim_draw(e.seed, e.epoch, e.position, 5), q = flim_draw(d.seed, d.epoch, d.position, 5);
            assert_true((p.scale == q.scale && p.zoom == q.zoom && p.blur == q.blur && p.shift == q.shift) == !change);
        }
    }
}

/* Where the numbers of the two fields come from, and which is which. */
static void fields_have_numbers_of_their_own(void **state) {
    FlimDraws d = {.scale = 1, .zoom = 1, .elastic = true, .seed = 7, .epoch = 2, .position = 11};
    static float want[VOXELS];
    float *fields[2] = {dx, dy};
    for (int axis = 0; axis < 2; axis++) {
        for (int i = 0; i < PIXELS; i++)
            fields[axis][i] =
                2 * philox_uniform(7, PURPOSE_AUGMENT | 2 << 8, 2, (uint64_t)((2 * 11 + axis) * PIXELS + i)) - 1;
        flim_elastic_field(a, fields[axis]);
    }
    flim_elastic(a, counts, NULL, dx, dy);
    memcpy(want, counts, sizeof want);
    new_cell(state);
    flim_augment(a, counts, NULL, &d);
    assert_memory_equal(counts, want, sizeof want);
}

/* 30 % of batches; Beta(a, a) has mean 1/2, variance 1 / (4 (2 a + 1)) and kurtosis 3 (2 a + 1) / (2 a + 3). Within
 * five standard deviations. */
static void batches_are_mixed(void **state) {
    (void)state;
    enum { BATCHES = 20000, B = 7 };
    int64_t mixed = 0, places[B][B] = {{0}};
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < BATCHES; i++) {
        int32_t partner[B];
        float lambda;
        int seen = 0;
        bool mixes = flim_mixup_draw(42, 5, i, B, &lambda, partner);
        for (int k = 0; k < B; k++) {
            assert_true(partner[k] >= 0 && partner[k] < B && (mixes || partner[k] == k));
            seen |= 1 << partner[k];
            if (mixes) places[k][partner[k]]++;
        }
        assert_true(seen == (1 << B) - 1 && lambda >= 0 && lambda <= 1 && (mixes || lambda == 1));
        mixed += mixes;
        if (mixes) sum += (double)lambda - 0.5;
        if (mixes) squares += pow((double)lambda - 0.5, 2);
    }
    double n = (double)mixed, variance = 1 / (4 * 1.8), fourth = 3 * 1.8 / 3.8 * variance * variance;
    assert_near(n, BATCHES * 0.3, 5 * sqrt(BATCHES * 0.3 * 0.7));
    assert_near(sum, 0, 5 * sqrt(n * variance));
    assert_near(squares, n * variance, 5 * sqrt(n * (fourth - variance * variance)));
    for (int i = 0; i < B * B; i++) assert_near(places[i / B][i % B], n / B, 5 * sqrt(n / B));
}

/* Of 56,000 voxels of 3 the noise has mean 3 and sd sqrt(3 / 1000). */
static void poisson_noise_is_that_of_a_thousandfold_exposure(void **state) {
    (void)state;
    FlimDraws d = {.seed = 5};
    double sum = 0, squares = 0;
    for (int i = 0; i < VOXELS; i++) counts[i] = i % 2 ? 3 : 0;
    flim_poisson(a, counts, &d);
    for (int i = 0; i < VOXELS; i++) {
        assert_true(i % 2 || counts[i] == 0);
        assert_near(counts[i] * 1000, nearbyint((double)counts[i] * 1000), 1e-3);
        if (i % 2) sum += (double)counts[i] - 3;
        if (i % 2) squares += pow((double)counts[i] - 3, 2);
    }
    double n = VOXELS / 2, variance = 3.0 / 1000;
    assert_near(sum, 0, 5 * sqrt(n * variance));
    assert_near(squares, n * variance, 5 * sqrt(2 * n) * variance);
}

/* The distribution function from that of the normal numbers: above 64 it is within 2e-5, below it is exact but for the
 * 32 bits of the uniform number. Here by drawing: the greatest distance of 10^6 draws is below 2 / 1000 with all but
 * exp(-8) of the probability (Kolmogorov). */
static void poisson_numbers_are_distributed_so(void **state) {
    (void)state;
    static const double means[] = {0.01, 0.7, 5, 63.9, 64, 700};
    enum { DRAWS = 1000000, MOST = 1200 };
    for (int m = 0; m < 6; m++) {
        static int64_t seen[MOST];
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < DRAWS; i++) {
            double k = philox_poisson(9, PURPOSE_TEST, (uint32_t)m, i, means[m]);
            assert_true(k >= 0 && k < MOST);
            seen[(int)k]++;
        }
        double below = 0, exact = 0;
        for (int k = 0; k < MOST; k++) {
            below += (double)seen[k] / DRAWS;
            exact += exp(k * log(means[m]) - means[m] - lgamma(k + 1));
            assert_near(below, exact, 2e-3);
        }
    }
    assert_true(philox_poisson(9, PURPOSE_TEST, 0, 0, 0) == 0);
}

/* Below 64 a number is the first whose distribution function is as large as the uniform one; at the 32 bits' ends the
 * rounding of the sum of terms might count. */
static void small_poisson_numbers_are_inverted(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        double mean = 0.003 * (double)(i + 1), below = 0, exact = 0;
        double u = ((double)philox(9, PURPOSE_TEST, 7, i).x[0] + 0.5) * 0x1p-32;
        int k = (int)philox_poisson(9, PURPOSE_TEST, 7, i, mean);
        for (int j = 0; j <= k; j++) {
            below = exact;
            exact += exp(j * log(mean) - mean - lgamma(j + 1));
        }
        assert_true(u > below - 1e-11 && u < exact + 1e-11);
    }
}

static int free_augmenter(void **state) {
    (void)state;
    flim_augmenter_free(a);
    return 0;
}

#define CELL(test) cmocka_unit_test_setup(test, new_cell)
int main(void) {
    const struct CMUnitTest tests[] = {CELL(hash_is_the_specified_one),
                                       CELL(shifts_fill_with_zeros),
                                       CELL(turns_and_flips_move_whole_pixels),
                                       CELL(zoom_is_bilinear),
                                       CELL(zoom_keeps_the_middle),
                                       CELL(elastic_follows_its_fields),
                                       CELL(blur_is_a_gaussian),
                                       CELL(a_chain_is_packed),
                                       CELL(footprint_moves_with_the_counts_but_is_not_dilated),
                                       CELL(whole_moves_take_the_footprint_along),
                                       CELL(nearest_pixels_make_the_footprint),
                                       CELL(gates_open_as_often_as_they_should),
                                       CELL(draws_depend_on_seed_epoch_and_position_only),
                                       CELL(fields_have_numbers_of_their_own),
                                       CELL(batches_are_mixed),
                                       CELL(poisson_noise_is_that_of_a_thousandfold_exposure),
                                       CELL(poisson_numbers_are_distributed_so),
                                       CELL(small_poisson_numbers_are_inverted)};
    return cmocka_run_group_tests(tests, NULL, free_augmenter);
}
