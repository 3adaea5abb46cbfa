/* The augmentations of FLIM cells: each one's check values (sums, first moments and footprint of a made-up cell), what
 * is drawn, and what becomes of the footprint. */
#include "data/cv/augment.h"

#pragma GCC diagnostic ignored "-Wunused-function"
#include "kernels/cpu/augment.c" /* whose fields of displacements are given here */
#include "kernels/device_open.h"
#include "kernels/poisson.h"
#include "tests/cv/golden.h"
#include "tests/files.h"
#include "tests/test.h"

enum { T = 256, N = 21, PIXELS = N * N, VOXELS = T * PIXELS };
static const AugmentShape SHAPE = {T, N, N};
static const AugmentDraws NOTHING = {.scale = 1};
static Device *device;
static uint8_t raw[VOXELS], was_lit[PIXELS];
static float x[2 * VOXELS], dx[PIXELS], dy[PIXELS];

static int new_cell(void **state) {
    (void)state;
    float room[PIXELS];
    memset(was_lit, 0, sizeof was_lit);
    for (int i = 0; i < VOXELS; i++) {
        int t = i / PIXELS, row = i / N % N, column = i % N;
        raw[i] = column + 2 * row < 18 ? 0 : (uint8_t)cv_golden_count(3, t, row, column);
        was_lit[i % PIXELS] |= raw[i] > 0;
    }
    for (int i = 0; i < PIXELS; i++) {
        dx[i] = (float)cv_golden_uniform(1001, (uint64_t)i);
        dy[i] = (float)cv_golden_uniform(1002, (uint64_t)i);
    }
    smooth_field(dx, room, N);
    smooth_field(dy, room, N);
    return 0;
}

/* x of the cell [T, H, W]. */
static void augment(float *to, const void *counts, AugmentShape s, AugmentDraws d, bool dilated) {
    int64_t n = (int64_t)s.T * s.H * s.W;
    int32_t cell = 0;
    augment_volumes(device, tensor_2d(to, DTYPE_F32, n, 2), tensor_2d((void *)counts, DTYPE_U8, 1, n),
                    tensor_1d(&cell, DTYPE_I32, 1), tensor_2d(&d, DTYPE_I32, 1, AUGMENT_DRAW_WORDS), s, dilated);
}

/* The same with displacements that are given. */
static void augment_along(float *to, const void *counts, AugmentShape s, AugmentDraws d, bool dilated, float *along_x,
                          float *along_y) {
    size_t n = (size_t)(s.H * s.W);
    float *room = xmalloc((2 * BINS + 1) * n * sizeof *room);
    d.elastic = 1;
    Sample a = {d, counts, false, augment_gaussian(d.blur > 0 ? d.blur : 1), {along_x, along_y}, room + 2 * BINS * n};
    find_footprint(&a, s, dilated, room);
    for (int t = 0; t < s.T; t += BINS) augment_bins(to, &a, s, t, room);
    free(room);
}

static double count_of(float packed) { return expm1(10 * (double)packed); }

/* The table is exact to its digits in double. A bin here has at most three roundings of weights and 14 of sums, each
 * half of 2^-23 of it, one way or the other: 1e-6 of a sum of terms of one sign covers them all. Three more are of a
 * logarithm of at most 5.4 over 10, so of as many times the count: another 1e-6. The footprint is that of all bins
 * above zero. */
static void check(const char *what, double sum, double by_y, double by_x, double by_t, int area) {
    const double want[4] = {sum, by_y, by_x, by_t};
    double got[4] = {0};
    bool lit[PIXELS] = {0};
    int pixels = 0;
    for (int i = 0; i < VOXELS; i++) {
        double b = count_of(x[2 * i]);
        got[0] += b;
        got[1] += b * (i / N % N);
        got[2] += b * (i % N);
        got[3] += b * (i / PIXELS);
        lit[i % PIXELS] |= x[2 * i] > 0;
    }
    for (int i = 0; i < 4; i++)
        if (!(fabs(got[i] / want[i] - 1) <= 2e-6)) fail_msg("%s: sum %d is %.9g, not %.9g", what, i, got[i], want[i]);
    for (int i = 0; i < VOXELS; i++)
        if (x[2 * i + 1] != lit[i % PIXELS]) fail_msg("%s: the footprint is not where counts are", what);
    for (int i = 0; i < PIXELS; i++) pixels += lit[i];
    if (pixels != area) fail_msg("%s: footprint is %d, not %d", what, pixels, area);
}

static void check_augmented(const char *what, AugmentDraws d, double sum, double by_y, double by_x, double by_t,
                            int area) {
    augment(x, raw, SHAPE, d, true);
    check(what, sum, by_y, by_x, by_t, area);
}

/* ---- the reference's: the footprint is where counts are ---- */

TEST_WITH(hash_is_the_specified_one, new_cell, NULL) {
    assert_near(cv_golden_uniform(0, 0), 0.76662161642728521, 1e-16);
    assert_near(cv_golden_uniform(0, 1), 0.13312315034456179, 1e-16);
    assert_near(cv_golden_uniform(4, 3071), 0.21008521523685975, 1e-16);
    assert_near(cv_golden_uniform(45, 0), -0.93873393614173128, 1e-16);
    check_augmented("raw", NOTHING, 901318, 10179805, 9622001, 90163019, 265);
}

TEST_WITH(shifts_fill_with_zeros, new_cell, NULL) {
    AugmentDraws d = NOTHING;
    d.shift = 5;
    check_augmented("+5", d, 901053, 10176812, 9619172, 94601240, 265);
    d.shift = -3;
    check_augmented("-3", d, 901159, 10178013, 9620289, 87459382, 265);
    for (d.shift = -1000; d.shift <= 1000; d.shift += 2000) {
        augment(x, raw, SHAPE, d, true);
        for (int i = 0; i < 2 * VOXELS; i++) assert_true(x[i] == 0);
    }
}

TEST_WITH(turns_and_flips_move_whole_pixels, new_cell, NULL) {
    static const double by[4][2] = {{0, 0}, {8404359, 10179805}, {7846555, 8404359}, {9622001, 7846555}};
    AugmentDraws d = NOTHING;
    for (d.turns = 1; d.turns <= 3; d.turns++) {
        check_augmented("turn", d, 901318, by[d.turns][0], by[d.turns][1], 90163019, 265);
    }
    d.turns = 0;
    for (int axis = 0; axis < 2; axis++) {
        d.flips = axis ? AUGMENT_FLIP_X : AUGMENT_FLIP_Y;
        check_augmented("flip", d, 901318, axis ? 10179805 : 7846555, axis ? 8404359 : 9622001, 90163019, 265);
    }
    d.turns = 2, d.flips = AUGMENT_FLIP_X + AUGMENT_FLIP_Y;
    check_augmented("round", d, 901318, 10179805, 9622001, 90163019, 265);
}

/* First the turns, one at a time, then the flips. */
TEST_WITH(flips_come_after_turns, new_cell, NULL) {
    for (int turns = 0; turns < 4; turns++)
        for (int flips = 0; flips < 4; flips++) {
            AugmentDraws d = {.scale = 1, .turns = turns, .flips = flips};
            int at[N][N], next[N][N];
            for (int i = 0; i < PIXELS; i++) at[i / N][i % N] = i;
            for (int k = 0; k < turns; k++) {
                for (int i = 0; i < PIXELS; i++) next[i / N][i % N] = at[i % N][N - 1 - i / N];
                memcpy(at, next, sizeof at);
            }
            augment(x, raw, SHAPE, d, false);
            for (int i = 0; i < VOXELS; i++) {
                int row = i / N % N, column = i % N;
                int from =
                    at[flips & AUGMENT_FLIP_Y ? N - 1 - row : row][flips & AUGMENT_FLIP_X ? N - 1 - column : column];
                assert_near(count_of(x[2 * i]), raw[i / PIXELS * PIXELS + from], 1e-4); /* floats of at most 51 */
                assert_true(x[2 * i + 1] == was_lit[from]);
            }
        }
}

TEST_WITH(zoom_is_bilinear, new_cell, NULL) {
    AugmentDraws d = {.scale = 1, .side = 18};
    check_augmented("18", d, 645640.041522, 6833482.9792, 6500337.3529, 64586373.8235, 217);
    d.side = 20;
    check_augmented("20", d, 809448.033241, 8680421.7673, 8205820.6537, 80972843.5346, 279);
    d.side = 23;
    check_augmented("23", d, 1073427.272727, 12224202.4711, 11529992.9256, 107379841.3554, 338);
    d.side = 21;
    check_augmented("21", d, 901318, 10179805, 9622001, 90163019, 265);
}

/* Resizes a ramp, 1 + the column, to each size that is drawn: crops to the middle n pixels, or pads with zeros. */
TEST_WITH(zoom_keeps_the_middle, new_cell, NULL) {
    for (int i = 0; i < VOXELS; i++) raw[i] = (uint8_t)(1 + i % N);
    for (int n = 18; n <= 24; n++) {
        augment(x, raw, SHAPE, (AugmentDraws){.scale = 1, .side = n}, true);
        for (int i = 0; i < VOXELS; i++) {
            int row = i / N % N, column = i % N, before = n < 21 ? (21 - n) / 2 : -((n - 21) / 2);
            int from = column - before;
            bool inside = from >= 0 && from < n && row - before >= 0 && row - before < n;
            /* Floats of at most 21, and of three times their logarithms. */
            assert_near(count_of(x[2 * i]), inside ? 1 + from * 20.0 / (n - 1) : 0, 3e-5);
        }
    }
}

TEST_WITH(elastic_follows_its_fields, new_cell, NULL) {
    assert_near(dx[10 * N + 10], 0.127972381, 1e-6); /* floats: sums of 289 terms below 0.2 */
    assert_near(dy[10 * N + 10], 0.347369554, 1e-6);
    assert_near(dx[0], 0.022204962, 1e-6);
    assert_near(dy[20 * N + 3], -0.067488287, 1e-6);
    augment_along(x, raw, SHAPE, NOTHING, true, dx, dy);
    /* A displacement is off by up to 1e-7 of a pixel, times differences as large as the counts. */
    check("elastic", 930142.038055, 10443676.6269, 9690536.0699, 93046448.4089, 307);
}

TEST_WITH(blur_is_a_gaussian, new_cell, NULL) {
    static const double want[3][4] = {{0.99232748, 0.00383626},
                                      {0.72166743, 0.13819585, 0.00097044},
                                      {0.498676452, 0.228310716, 0.021910314, 0.000440743}};
    AugmentDraws d = NOTHING;
    for (int k = 0; k < 3; k++) {
        AugmentGaussian g = augment_gaussian(0.3f + 0.25f * (float)k);
        assert_int_equal(g.radius, k + 1);
        for (int i = 0; i <= g.radius; i++) {
            assert_near(g.weight[g.radius + i], want[k][i], 1e-7);
            assert_near(g.weight[g.radius - i], want[k][i], 1e-7);
        }
    }
    d.blur = 0.3f;
    check_augmented("0.3", d, 901318, 10179791.9490, 9622001.0000, 90163019, 340);
    d.blur = 0.55f;
    check_augmented("0.55", d, 901318, 10179295.2473, 9621991.0976, 90163019, 390);
    d.blur = 0.8f;
    check_augmented("0.8", d, 901318, 10178071.0113, 9621757.9388, 90163019, 416);
}

TEST_WITH(a_chain_is_packed, new_cell, NULL) {
    AugmentDraws d = {.shift = 5, .scale = 0.8f, .turns = 1, .flips = AUGMENT_FLIP_Y, .side = 20, .blur = 0.55f};
    double sums[2] = {0};
    augment_along(x, raw, SHAPE, d, true, dx, dy);
    check("chain", 667842.298114, 6870706.9325, 7080744.6053, 70116489.9895, 429);
    for (int i = 0; i < 2 * VOXELS; i++) sums[i % 2] += (double)x[i];
    assert_near(sums[0], 12280.9986, 12280.9986 * 1e-6);
    assert_true(sums[1] == 109824);
    raw[0] = 224;
    augment(x, raw, SHAPE, NOTHING, true);
    assert_near(x[0], 0.5416100, 1e-7);
}

/* Every value of a small cell, from NumPy: each augmentation by itself, and two chains. */
static void golden(const TensorFile *file, const char *name, int index, const AugmentDraws *d, float *const fields[2]) {
    enum { SIDE = 9, LENGTH = 32, ALL = SIDE * SIDE * LENGTH };
    const AugmentShape small = {LENGTH, SIDE, SIDE};
    static float got[2 * ALL];
    uint8_t counts[ALL];
    float *cell = floats(file, "", "cell"), *want = floats(file, "", name);
    for (int i = 0; i < ALL; i++) counts[i] = (uint8_t)cell[i % (SIDE * SIDE) * LENGTH + i / (SIDE * SIDE)];
    if (fields)
        augment_along(got, counts, small, *d, true, fields[0], fields[1]);
    else
        augment(got, counts, small, *d, true);
    for (int i = 0; i < ALL; i++) {
        double a = (double)want[index * ALL + i % (SIDE * SIDE) * LENGTH + i / (SIDE * SIDE)];
        /* 17 roundings of weights and sums, and displacements off by 1e-7 of counts as far apart as the largest. */
        assert_near((double)got[2 * i], log1p(a) / 10, (1e-6 * (a + 0.1 * 53) / (1 + a) + 3 * 0x1p-24 * log1p(a)) / 10);
        if (want[index * ALL + i % (SIDE * SIDE) * LENGTH + i / (SIDE * SIDE)] > 0) assert_true(got[2 * i + 1] == 1);
    }
    free(cell);
    free(want);
}

TEST_WITH(values_are_those_of_numpy, new_cell, NULL) {
    static const int steps[] = {5, -3, 0}, sides[] = {7, 8, 9, 10, 12};
    static const float factors[] = {0.6f, 1.3f}, sigmas[] = {0.3f, 0.55f, 0.8f};
    TensorFile file = open_golden("flim_augment");
    for (int i = 0; i < 3; i++) golden(&file, "shift", i, &(AugmentDraws){.scale = 1, .shift = steps[i]}, NULL);
    for (int i = 0; i < 2; i++) golden(&file, "scale", i, &(AugmentDraws){.scale = factors[i]}, NULL);
    for (int i = 0; i < 3; i++) golden(&file, "rotate", i, &(AugmentDraws){.scale = 1, .turns = i + 1}, NULL);
    golden(&file, "flip_y", 0, &(AugmentDraws){.scale = 1, .flips = AUGMENT_FLIP_Y}, NULL);
    golden(&file, "flip_x", 0, &(AugmentDraws){.scale = 1, .flips = AUGMENT_FLIP_X}, NULL);
    for (int i = 0; i < 5; i++) golden(&file, "zoom", i, &(AugmentDraws){.scale = 1, .side = sides[i]}, NULL);
    for (int i = 0; i < 3; i++) golden(&file, "blur", i, &(AugmentDraws){.scale = 1, .blur = sigmas[i]}, NULL);
    float *u = floats(&file, "", "elastic.u"), room[81];
    for (int i = 0; i < 4; i++) smooth_field(u + 81 * i, room, 9);
    float *const first[] = {u, u + 81}, *const second[] = {u + 162, u + 243};
    golden(&file, "elastic", 0, &NOTHING, first);
    golden(&file, "elastic", 1, &NOTHING, second);
    golden(&file, "chain.0", 0,
           &(AugmentDraws){.shift = 5, .scale = 0.6f, .turns = 1, .flips = AUGMENT_FLIP_Y, .side = 7, .blur = 0.3f},
           first);
    golden(&file, "chain.1", 0,
           &(AugmentDraws){.shift = -3, .scale = 1.3f, .turns = 2, .flips = AUGMENT_FLIP_X, .side = 12, .blur = 0.8f},
           second);
    free(u);
    tensor_file_close(&file);
}

/* ---- the footprint by itself ---- */

TEST_WITH(footprint_moves_with_the_counts_but_is_not_dilated, new_cell, NULL) {
    for (int dilated = 0; dilated < 2; dilated++) {
        int inside = 0;
        augment(x, raw, SHAPE, (AugmentDraws){.scale = 1, .blur = 0.8f}, dilated);
        for (int i = 0; i < PIXELS; i++) {
            bool lit = false;
            for (int t = 0; t < T; t++) lit |= x[2 * (t * PIXELS + i)] > 0;
            assert_true(x[2 * i + 1] == lit && (dilated || lit == was_lit[i]));
            inside += lit;
        }
        assert_int_equal(inside, dilated ? 416 : 265);
    }
    for (uint64_t i = 0; i < 40; i++) {
        augment(x, raw, SHAPE, cv_augment_draw(1, 0, i, N, 5), i % 2);
        for (int k = 0; k < VOXELS; k++) {
            assert_true(x[2 * k + 1] == 0 || x[2 * k + 1] == 1);
            assert_true(x[2 * k + 1] == x[2 * (k % PIXELS) + 1]);
            assert_true(x[2 * k] >= 0 && (x[2 * k] == 0 || x[2 * k + 1] == 1)); /* beyond it there is nothing */
        }
        bool all = true;
        for (int k = 0; k < PIXELS; k++) {
            bool lit = false;
            for (int t = 0; t < T; t++) lit |= x[2 * (t * PIXELS + k)] > 0;
            all &= lit == (x[2 * k + 1] > 0);
        }
        assert_true(all || i % 2 == 0); /* dilated, it is where something is */
    }
}

/* From 21 to 19 pixels a source is i * 20 / 18: rounded, and the outer ring is zero. */
TEST_WITH(nearest_pixels_make_the_footprint, new_cell, NULL) {
    memset(raw, 1, N); /* the corner that pixels beyond the image must not be taken from */
    memset(was_lit, 1, N);
    augment(x, raw, SHAPE, (AugmentDraws){.scale = 1, .side = 19}, false);
    for (int i = 0; i < PIXELS; i++) {
        int row = i / N - 1, column = i % N - 1;
        bool inside = row >= 0 && row < 19 && column >= 0 && column < 19;
        if (row * 20 % 18 == 9 || column * 20 % 18 == 9) continue; /* half way: either */
        int from = inside ? (row * 20 + 9) / 18 * N + (column * 20 + 9) / 18 : -1;
        assert_true(x[2 * i + 1] == (inside ? was_lit[from] : 0));
    }
}

/* Photons that a shift moves out of sight are of the cell as it is stored, but make no pixel bright. */
TEST_WITH(shifts_do_not_move_the_footprint, new_cell, NULL) {
    memset(raw, 0, sizeof raw);
    raw[0] = 1;
    for (int dilated = 0; dilated < 2; dilated++) {
        augment(x, raw, SHAPE, (AugmentDraws){.scale = 1, .shift = -1}, dilated);
        for (int i = 0; i < VOXELS; i++) assert_true(x[2 * i] == 0 && x[2 * i + 1] == (i % PIXELS == 0 && !dilated));
    }
}

/* ---- the operations ---- */

TEST_WITH(any_number_of_threads_and_either_type_gives_the_same_bits, new_cell, NULL) {
    enum { SIDE = 5, LENGTH = 23, ALL = SIDE * SIDE * LENGTH, CELLS = 3, SAMPLES = 9 };
    const AugmentShape small = {LENGTH, SIDE, SIDE};
    uint8_t narrow[CELLS * ALL];
    uint16_t wide[CELLS * ALL];
    static float to[2][2 * SAMPLES * ALL];
    int32_t cells[SAMPLES];
    AugmentDraws draws[SAMPLES];
    for (int i = 0; i < CELLS * ALL; i++) wide[i] = narrow[i] = (uint8_t)(i * 37 % 11 < 6 ? 0 : i % 251);
    for (int i = 0; i < SAMPLES; i++) {
        cells[i] = i * 2 % CELLS;
        draws[i] = cv_augment_draw(3, 1, (uint64_t)i, SIDE, 2);
    }
    for (int which = 0; which < 2; which++) {
        Device *cpu = cpu_device_open(which ? 3 : 1);
        augment_volumes(cpu, tensor_2d(to[which], DTYPE_F32, SAMPLES * ALL, 2),
                        which ? tensor_2d(wide, DTYPE_U16, CELLS, ALL) : tensor_2d(narrow, DTYPE_U8, CELLS, ALL),
                        tensor_1d(cells, DTYPE_I32, SAMPLES), tensor_2d(draws, DTYPE_I32, SAMPLES, AUGMENT_DRAW_WORDS),
                        small, false);
        device_close(cpu);
    }
    assert_memory_equal(to[0], to[1], sizeof to[0]);
    for (int i = 0; i < SAMPLES; i++) { /* each sample is that of its cell and its draws */
        augment(to[1], narrow + cells[i] * ALL, small, draws[i], false);
        assert_memory_equal(to[0] + 2 * i * ALL, to[1], 2 * ALL * sizeof **to);
    }
}

TEST_WITH(draws_out_of_range_die, new_cell, NULL) {
    const AugmentDraws wrong[] = {{.scale = 0},
                                  {.scale = 17},
                                  {.scale = NAN},
                                  {.scale = 0.05f, .poisson = 1},
                                  {.scale = 1, .turns = 4},
                                  {.scale = 1, .flips = -1},
                                  {.scale = 1, .side = 2 * N + 1},
                                  {.scale = 1, .blur = 2.2f},
                                  {.scale = 1, .blur = NAN},
                                  {.scale = 1, .shift = INT32_MIN}};
    assert_true(augment_draws_fit(&NOTHING, SHAPE));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(augment_draws_fit(&wrong[i], SHAPE));
}

TEST_WITH(mixing_is_linear, new_cell, NULL) {
    float from[] = {1, 2, 3, 4, 5, 6, 70, 80, 90, 100, 110, 120}, to[12], share = 0.25f;
    int32_t partners[] = {2, 1, 0};
    mixup(device, tensor_2d(to, DTYPE_F32, 6, 2), tensor_2d(from, DTYPE_F32, 6, 2), tensor_1d(partners, DTYPE_I32, 3),
          tensor_1d(&share, DTYPE_F32, 1));
    for (int i = 0; i < 12; i++)
        assert_near(to[i], 0.25 * (double)from[i] + 0.75 * (double)from[partners[i / 4] * 4 + i % 4], 1e-5);
    share = 1;
    mixup(device, tensor_2d(to, DTYPE_F32, 6, 2), tensor_2d(from, DTYPE_F32, 6, 2), tensor_1d(partners, DTYPE_I32, 3),
          tensor_1d(&share, DTYPE_F32, 1));
    assert_memory_equal(to, from, sizeof to);
}

/* ---- what is drawn ---- */

/* Compares how often each gate opens, and the means of uniform values, within five standard deviations. */
TEST_WITH(gates_open_as_often_as_they_should, new_cell, NULL) {
    enum { DRAWS = 20000 };
    static const double share[] = {0.8 * 10 / 11, 0.8, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    int64_t open[9] = {0}, shifts[11] = {0}, turns[4] = {0};
    double means[3] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        AugmentDraws d = cv_augment_draw(42, 3, i, 1000, 5);
        const bool gates[9] = {
            d.shift != 0, d.scale != 1, d.turns != 0, d.flips & AUGMENT_FLIP_Y, d.flips & AUGMENT_FLIP_X, d.poisson,
            d.side != 0,  d.elastic,    d.blur > 0};
        for (int g = 0; g < 9; g++) open[g] += gates[g];
        assert_true(abs(d.shift) <= 5 && d.turns <= 3 && d.scale >= 0.6f && d.scale <= 1.4f &&
                    (!d.side || (d.side >= 850 && d.side <= 1150)) &&
                    (d.blur == 0 || (d.blur >= 0.3f && d.blur <= 0.8f)) &&
                    augment_draws_fit(&d, (AugmentShape){1, 600, 600}));
        shifts[d.shift + 5]++;
        turns[d.turns]++;
        means[0] += (double)d.scale - 1;
        means[1] += d.side ? d.side / 1000.0 - 1 : 0;
        means[2] += d.blur > 0 ? (double)d.blur - 0.55 : 0;
    }
    for (int g = 0; g < 9; g++) assert_near(open[g], DRAWS * share[g], 5 * sqrt(DRAWS * share[g] * (1 - share[g])));
    for (int k = 0; k < 11; k++)
        assert_near(shifts[k], DRAWS * (k == 5 ? 0.2 + 0.8 / 11 : 0.8 / 11), 5 * sqrt(DRAWS / 4.0));
    for (int k = 1; k < 4; k++) assert_near(turns[k], DRAWS / 6.0, 5 * sqrt(DRAWS / 6.0));
    assert_near(means[0], 0, 5 * 0.8 / sqrt(12) * sqrt(DRAWS));
    assert_near(means[1], 0, 5 * 0.3 / sqrt(12) * sqrt(DRAWS));
    assert_near(means[2], 0, 5 * 0.5 / sqrt(12) * sqrt(DRAWS));
}

TEST_WITH(draws_depend_on_seed_epoch_and_position_only, new_cell, NULL) {
    static float first[2 * VOXELS];
    for (int which = 0; which < 2; which++) {
        AugmentDraws d = {.scale = 1, .poisson = !which, .elastic = which, .seed = {7}, .epoch = 2, .position = {11}};
        augment(first, raw, SHAPE, d, true);
        for (int change = 0; change < 6; change++) {
            AugmentDraws e = d;
            e.seed[0] += change == 1;
            e.epoch += change == 2;
            e.position[0] += change == 3;
            e.seed[1] += change == 4;
            e.position[1] += change == 5;
            augment(x, raw, SHAPE, e, true);
            assert_true(!memcmp(first, x, sizeof first) == !change);
            AugmentDraws p = cv_augment_draw(augment_number(e.seed), e.epoch, augment_number(e.position), N, 5);
            AugmentDraws q = cv_augment_draw(7, 2, 11, N, 5);
            assert_true((p.scale == q.scale && p.side == q.side && p.blur == q.blur && p.shift == q.shift) == !change);
            assert_true(!memcmp(p.seed, e.seed, 8) && !memcmp(p.position, e.position, 8) && p.epoch == e.epoch);
        }
    }
}

/* The two fields take their numbers from these places. */
TEST_WITH(fields_have_numbers_of_their_own, new_cell, NULL) {
    AugmentDraws d = {.scale = 1, .elastic = 1, .seed = {7}, .epoch = 2, .position = {11}};
    static float want[2 * VOXELS];
    float *fields[2] = {dx, dy}, room[PIXELS];
    for (int axis = 0; axis < 2; axis++) {
        for (int i = 0; i < PIXELS; i++)
            fields[axis][i] =
                2 * philox_uniform(7, PURPOSE_AUGMENT | 2 << 8, 2, (uint64_t)((2 * 11 + axis) * PIXELS + i)) - 1;
        smooth_field(fields[axis], room, N);
    }
    for (int dilated = 0; dilated < 2; dilated++) {
        augment_along(want, raw, SHAPE, d, dilated, dx, dy);
        augment(x, raw, SHAPE, d, dilated);
        /* One may be compiled with other instructions. */
        for (int i = 0; i < 2 * VOXELS; i++) assert_near(x[i], want[i], 1e-6);
    }
}

/* 30 % of batches; Beta(a, a) has mean 1/2, variance 1 / (4 (2 a + 1)) and kurtosis 3 (2 a + 1) / (2 a + 3). Within
 * five standard deviations. */
TEST_WITH(batches_are_mixed, new_cell, NULL) {
    enum { BATCHES = 20000, B = 7 };
    int64_t mixed = 0, places[B][B] = {{0}};
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < BATCHES; i++) {
        int32_t partner[B];
        float lambda;
        int seen = 0;
        bool mixes = cv_augment_mixup(42, 5, i, B, &lambda, partner);
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

/* The noise of 56,448 voxels of 3 has mean 3 and sd sqrt(3 / 1000), and neither the four numbers of a block nor
 * neighbours are correlated. */
TEST_WITH(poisson_noise_is_that_of_a_thousandfold_exposure, new_cell, NULL) {
    static double noise[VOXELS];
    double sum = 0, squares = 0, n = VOXELS / 2, variance = 3.0 / 1000;
    for (int i = 0; i < VOXELS; i++) raw[i] = i % 2 ? 3 : 0;
    augment(x, raw, SHAPE, (AugmentDraws){.scale = 1, .poisson = 1, .seed = {5}}, true);
    for (int i = 0; i < VOXELS; i++) {
        double count = count_of(x[2 * i]);
        assert_true(i % 2 || x[2 * i] == 0);
        assert_near(count * 1000, nearbyint(count * 1000), 2e-3); /* four roundings of 3, thrice 1.4 of a logarithm */
        noise[i] = i % 2 ? count - 3 : 0;
        sum += noise[i];
        squares += noise[i] * noise[i];
    }
    assert_near(sum, 0, 5 * sqrt(n * variance));
    assert_near(squares, n * variance, 5 * sqrt(2 * n) * variance);
    static const int apart[] = {2, 2 * PIXELS, PIXELS + 1, PIXELS - 1, 3 * PIXELS + 1, 4 * PIXELS};
    for (int k = 0; k < 6; k++) {
        double products = 0;
        for (int i = apart[k]; i < VOXELS; i++) products += noise[i] * noise[i - apart[k]];
        assert_near(products, 0, 5 * sqrt(n) * variance);
    }
}

/* The normal numbers are those of the formula, and so are the logarithms: within the roundings of a polynomial of the
 * eighth degree, of which three count. */
TEST_WITH(normal_numbers_are_those_of_the_formula, new_cell, NULL) {
    for (uint64_t i = 0; i < 100000; i++) {
        Philox r = philox(9, PURPOSE_TEST, 3, i);
        if (i < 64) r.x[0] = (uint32_t)1 << i % 32; /* the ends, too */
        if (i < 32) r.x[0] = ~r.x[0];
        if (i < 100) r.x[1] = (uint32_t)i * 0x20000000u + (uint32_t)(i / 8) - 5;
        float a, b, u = (float)r.x[2] * 0x1p-32f + 1e-6f;
        augment_normals(r.x[0], r.x[1], &a, &b);
        double radius = sqrt(-2 * log(((double)(r.x[0] >> 1) + 0.5) * 0x1p-31)), angle = 2 * M_PI * 0x1p-32 * r.x[1];
        /* Beside 1 a uniform number is off by 2^-24, and the radius is sqrt(2 (1 - u)). */
        double off = 4 * 0x1p-23 * radius + 0x1p-24 / fmax(radius, 0x1p-13);
        assert_near(a, radius * cos(angle), off);
        assert_near(b, radius * sin(angle), off);
        assert_near(augment_ln(u, 0), log((double)u), 3 * 0x1p-24 * fabs(log((double)u)));
        float count = (float)r.x[2] * (i % 3 ? 0x1p-40f : 0x1p-24f);
        assert_near(augment_packed(count), log1p((double)count) / 10, 0.4 * 0x1p-24 * log1p((double)count));
    }
    assert_true(augment_packed(0) == 0);
}

static double from_block(int which, uint32_t m, uint64_t i, double mean) {
    if (!which) return philox_poisson(9, PURPOSE_TEST, m, i, mean);
    float a, b;
    Philox r = philox(9, PURPOSE_TEST, m, i / 2);
    augment_normals(r.x[0], r.x[1], &a, &b);
    return nearbyint(1000 * (double)augment_poisson((float)(mean / 1000), i % 2 ? a : b));
}

/* The distribution function from that of the normal numbers: above 64 it is within 2e-5, below it is exact but for the
 * 32 bits of the uniform number. Here by drawing: the greatest distance of 10^6 draws is below 2 / 1000 with all but
 * exp(-8) of the probability (Kolmogorov). */
TEST_WITH(poisson_numbers_are_distributed_so, new_cell, NULL) {
    static const double means[] = {0.01, 0.7, 5, 63.9, 64, 700};
    enum { DRAWS = 1000000, MOST = 1200 };
    for (int m = 0; m < 8; m++) {
        static int64_t seen[MOST];
        double mean = means[m % 6 + (m >= 6 ? 4 : 0)];
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < DRAWS; i++) {
            double k = from_block(m >= 6, (uint32_t)m, i, mean);
            assert_true(k >= 0 && k < MOST);
            seen[(int)k]++;
        }
        double below = 0, exact = 0;
        for (int k = 0; k < MOST; k++) {
            below += (double)seen[k] / DRAWS;
            exact += exp(k * log(mean) - mean - lgamma(k + 1));
            assert_near(below, exact, 2e-3);
        }
    }
    assert_true(philox_poisson(9, PURPOSE_TEST, 0, 0, 0) == 0 && augment_poisson(0, 1) == 0);
}

/* Below 64 a number is the first whose distribution function is as large as the uniform one; at the 32 bits' ends the
 * rounding of the sum of terms might count. */
TEST_WITH(small_poisson_numbers_are_inverted, new_cell, NULL) {
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

static int open_device(void **state) {
    (void)state;
    device = cpu_device_open(2);
    return 0;
}

static int close_device(void **state) {
    (void)state;
    device_close(device);
    return 0;
}

int main(void) { return tests_run(open_device, close_device); }
