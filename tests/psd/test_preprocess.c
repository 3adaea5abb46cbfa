/* Rows of PSD recordings to 200 normalised bins. */
#include "base/sha1.h"
#include "data/psd/preprocess.h"
#include "tests/test.h"

static const PsdPreprocessing PLAIN = {false, 0}, GUARDED = {false, PSD_LIMIT}, HOP = {true, 0};

static PsdRow process(const double *row, int64_t width, PsdPreprocessing options, float *out) {
    PsdScratch scratch = {0};
    PsdRow found;
    Error error;
    if (!psd_preprocess(row, width, &options, &scratch, out, &found, &error)) fail_msg("%s", error.text);
    psd_scratch_free(&scratch);
    return found;
}

/* A carrier of a quarter of the row, 20 dB above a floor of -60 dB that ripples. free() */
static double *make_carrier(int64_t n) {
    double *row = xmalloc((size_t)n * sizeof *row);
    for (int64_t i = 0; i < n; i++) {
        double x = (double)i, from_middle = (x - (double)n / 2) / ((double)n / 8);
        row[i] = -60 + 20 * exp(-from_middle * from_middle) + 1.5 * sin(0.7 * x) + 0.8 * cos(0.11 * x * x);
    }
    return row;
}

/* Numbers of which every bit is known: a square root is exact to the last one on any machine. free() */
static double *make_roots(int64_t n) {
    double *row = xmalloc((size_t)n * sizeof *row);
    for (int64_t i = 0; i < n; i++) row[i] = -sqrt((double)(i * 7919 % 1009 + 1)) * 3;
    return row;
}

/* The reference's results for make_carrier. A result may differ by the last bit of its float32, 2^-23 of it, as the
 * sine of another library may; the numbers here are rounded to their last digit. */
TEST(results_are_the_references) {
    static const struct {
        int64_t n;
        double low, high, y0, y1, y99, y100, y199, sum, squares, linear_snr;
    } want[] = {
        {74, -61.937022246, -38.698003760, -0.9999999, -0.9999999, 212.0641174, 231.7263184, 0, 3019.040216,
         544995.541999, 22.832232},
        {200, -62.048092038, -39.202200654, -0.1029313, 0.0203818, 2.3029759, 2.4618213, -0.0663006, 73.625739,
         168.661784, 22.904431},
        {215, -62.179898466, -39.225668277, -0.3245749, -0.2505513, 2.0307872, 2.0549829, -0.1743701, 75.058465,
         162.129352, 23.125977},
        {450, -62.128975524, -38.734754588, -0.7700515, -0.5613036, 0.7973272, 0.9218890, -0.5536801, 14.459709,
         58.712179, 23.061956},
        {3226, -62.127026404, -38.953809992, -0.8617083, -1.2108657, 0.0616934, -0.4689104, -0.7697986, 4.297968,
         62.977341, 23.410237},
    };
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        double *row = make_carrier(want[k].n), sum = 0, squares = 0, magnitude = 0, last_bit = 0x1p-23;
        float y[PSD_BINS];
        PsdRow found = process(row, want[k].n, PLAIN, y);
        assert_near(found.low, want[k].low, 6e-10);
        assert_near(found.high, want[k].high, 6e-10);
        assert_near(y[0], want[k].y0, 6e-8 + last_bit * fabs(want[k].y0));
        assert_near(y[1], want[k].y1, 6e-8 + last_bit * fabs(want[k].y1));
        assert_near(y[99], want[k].y99, 6e-8 + last_bit * fabs(want[k].y99));
        assert_near(y[100], want[k].y100, 6e-8 + last_bit * fabs(want[k].y100));
        assert_near(y[199], want[k].y199, 6e-8 + last_bit * fabs(want[k].y199));
        for (int i = 0; i < PSD_BINS; i++) {
            sum += (double)y[i];
            magnitude += fabs((double)y[i]);
            squares += (double)y[i] * (double)y[i];
        }
        assert_near(sum, want[k].sum, 6e-7 + last_bit * magnitude);
        assert_near(squares, want[k].squares, 6e-7 + 2 * last_bit * squares);
        assert_true(found.snr_reference == 0);
        assert_int_equal(found.padded, want[k].n < PSD_BINS ? PSD_BINS - want[k].n : 0);
        assert_true(found.not_finite == 0 && found.limited == 0 && !found.constant);
        for (int64_t i = 0; i < want[k].n; i++) row[i] = pow(10, row[i] / 10);
        assert_near(process(row, want[k].n, PLAIN, y).snr_reference, want[k].linear_snr, 6e-7);
        free(row);
    }
}

/* The percentiles and the hash of all results, as NumPy computed them in float64. */
TEST(results_are_numpys_to_the_bit) {
    static const struct {
        int64_t n;
        bool hop;
        double low, high;
        const char *sha1;
    } want[] = {
        {1, false, -0x1.8p+1, -0x1.8p+1, "2c96a4a47ce951e4"},
        {2, false, -0x1.5be6dc66c40c8p+6, -0x1.ec9306982aaedp+1, "b8106f412c8f32dd"},
        {3, false, -0x1.5ea30388ba6b5p+6, -0x1.220bf56b7b44cp+2, "c0e20290a12ae7da"},
        {74, false, -0x1.7c0e9ec427343p+6, -0x1.7f4260aa9acf2p+3, "e0aaec9e4ba1f7dd"},
        {199, false, -0x1.7b1bdc9adf577p+6, -0x1.661631f98db5ep+3, "4007da0d30d58896"},
        {200, false, -0x1.7b19eb38b120dp+6, -0x1.66a4956538578p+3, "9d27096ab87970ec"},
        {201, false, -0x1.7b17f9d682ea3p+6, -0x1.6732f8d0e2f77p+3, "5ab152ab9c311a51"},
        {399, true, -0x1.7b4b7fa528db3p+6, -0x1.661631f98db7ap+3, "f75bacb9521edccc"},
        {650, true, -0x1.7b615cfab8227p+6, -0x1.900ce7acc533dp+2, "0508c99ba139e132"},
        {3226, false, -0x1.7b4895c1a95bcp+6, -0x1.3e655eefe1367p+3, "f7fdee60a4294a6c"},
        {3226, true, -0x1.7b4895c1a95bcp+6, -0x1.3e655eefe1367p+3, "c1ab7ee19b6a48d4"},
    };
    PsdScratch scratch = {0}; /* one for rows of all widths */
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        PsdPreprocessing options = {want[k].hop, 0};
        double *row = make_roots(want[k].n);
        size_t count = (size_t)psd_samples(want[k].n, &options) * PSD_BINS;
        float *y = xmalloc(count * sizeof *y);
        char hex[SHA1_DIGITS + 1];
        PsdRow found;
        if (want[k].n == 650) {
            row[5] = row[600] = (double)NAN;
            row[300] = (double)INFINITY;
            row[301] = -(double)INFINITY;
        }
        assert_true(psd_preprocess(row, want[k].n, &options, &scratch, y, &found, NULL));
        assert_true(found.low == want[k].low && found.high == want[k].high);
        for (size_t i = 0; i < count; i++) y[i] += 0.0f; /* -0 is 0 */
        sha1_text(y, count * sizeof *y, hex);
        hex[16] = 0;
        assert_string_equal(hex, want[k].sha1);
        free(row);
        free(y);
    }
    psd_scratch_free(&scratch);
}

/* Levels of which each is a tenth of any two hundred bins are clipped nowhere, so that a chunk, wherever it is from, is
 * what it would be alone. */
TEST(chunks_and_the_middle_are_the_right_bins) {
    double row[650];
    float all[3 * PSD_BINS], one[PSD_BINS];
    for (int i = 0; i < 650; i++) row[i] = -50 - (i * 7 + i / 10) % 10;
    assert_int_equal(psd_samples(650, &HOP), 3);
    process(row, 650, HOP, all);
    for (int k = 0; k < 3; k++) {
        process(row + k * PSD_BINS, PSD_BINS, PLAIN, one);
        assert_memory_equal(all + k * PSD_BINS, one, sizeof one);
    }
    process(row, 649, PLAIN, all);
    process(row + 224, PSD_BINS, PLAIN, one);
    assert_memory_equal(all, one, sizeof one);
    assert_int_equal(psd_samples(199, &HOP), 0);
    assert_int_equal(process(row, 199, HOP, NULL).padded, 0);
    assert_int_equal(psd_samples(199, &PLAIN), 1);
    assert_int_equal(psd_samples(0, &PLAIN), 0);
}

/* A tenth of a percent of the row, a hundredth of a chunk: clipped as the row's, not as the chunk's. */
TEST(clipping_is_by_the_whole_row) {
    double row[3000];
    float y[15 * PSD_BINS];
    for (int i = 0; i < 3000; i++) row[i] = -50 - i % 10;
    row[3] = row[5] = row[7] = 0;
    PsdRow found = process(row, 3000, HOP, y);
    assert_true(found.high == -50);
    assert_true(y[3] == y[0] && y[5] == y[0] && y[7] == y[0]);
}

/* Gain is an addition in dB; it costs the bits that the greater number needs. */
TEST(gain_changes_nothing) {
    double *row = make_carrier(500);
    float before[PSD_BINS], after[PSD_BINS];
    double snr = process(row, 500, PLAIN, before).snr;
    for (int i = 0; i < 500; i++) row[i] += 17;
    assert_near(process(row, 500, PLAIN, after).snr, snr, 4 * 0x1p-47); /* of numbers below 64 */
    for (int i = 0; i < PSD_BINS; i++) assert_near(after[i], before[i], 0x1p-23 * fabs((double)before[i]) + 1e-12);
    free(row);
}

TEST(snr_is_the_peak_above_the_floor) {
    double row[20];
    float y[PSD_BINS];
    for (int i = 0; i < 20; i++) row[i] = -30 - i; /* the lowest four: -49 .. -46 */
    assert_true(process(row, 20, PLAIN, y).snr == 17.5);
    row[19] = -1000; /* the median of them does not see it */
    assert_true(process(row, 20, PLAIN, y).snr == 17.5);
    assert_true(process(row, 3, PLAIN, y).snr == 2); /* of fewer than five, the lowest */
    row[19] = (double)INFINITY;
    row[0] = (double)NAN;
    row[7] = -(double)INFINITY; /* left: -31 .. -48 less one, the lowest three of which are -48 .. -46 */
    assert_true(process(row, 20, PLAIN, y).snr == 16);
}

/* The reference's formula as it is: for linear power, and nonsense for anything else. */
TEST(snr_of_the_reference_is_kept) {
    double row[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 100};
    float y[PSD_BINS];
    assert_near(process(row, 10, PLAIN, y).snr_reference, 20, 1e-12);
    row[0] = row[1] = -10; /* a floor below 0 counts as one above */
    assert_near(process(row, 10, PLAIN, y).snr_reference, 10, 1e-11);
    row[0] = -(double)INFINITY; /* so does this one, and the ratio has a least value */
    assert_near(process(row, 10, PLAIN, y).snr_reference, -120, 1e-11);
    row[0] = row[1] = 0; /* one at 0 counts as 1e-12 */
    assert_near(process(row, 10, PLAIN, y).snr_reference, 140, 1e-11);
    row[9] = 0;
    for (int i = 1; i < 9; i++) row[i] = -1;
    assert_true(process(row, 10, PLAIN, y).snr_reference == 0);
    row[4] = (double)NAN;
    assert_true(isnan(process(row, 10, PLAIN, y).snr_reference));
}

TEST(bins_that_are_not_finite_are_zero) {
    double *broken = make_carrier(333), *zero = make_carrier(333);
    static const int at[] = {0, 150, 151, 332};
    float y[PSD_BINS], want[PSD_BINS];
    for (int i = 0; i < 4; i++) zero[at[i]] = 0;
    broken[0] = (double)NAN;
    broken[150] = (double)INFINITY;
    broken[151] = -(double)INFINITY;
    broken[332] = -(double)NAN;
    assert_int_equal(process(broken, 333, PLAIN, y).not_finite, 4);
    assert_int_equal(process(zero, 333, PLAIN, want).not_finite, 0);
    assert_memory_equal(y, want, sizeof y);
    free(broken);
    free(zero);
}

/* Every replacement stands beside a row in which the same numbers were recorded. */
TEST(bins_that_are_not_finite_are_filled) {
    enum { N = 210 };
    double row[N], filled[N];
    float y[PSD_BINS], want[PSD_BINS];
    for (int i = 0; i < N; i++)
        row[i] = filled[i] = -70 + i % 20; /* in order: the lowest fifth ends in the middle of -67 */
    for (int i = 100; i < 103; i++) row[i] = (double)NAN;
    row[0] = row[1] = row[N - 1] = (double)NAN;
    row[50] = -(double)INFINITY;
    row[60] = (double)INFINITY;
    double left[N];
    int n = 0;
    for (int i = 0; i < N; i++)
        if (isfinite(row[i])) left[n++] = row[i];
    for (int i = 1; i < n; i++)
        for (int k = i; k && left[k - 1] > left[k]; k--) {
            double swap = left[k];
            left[k] = left[k - 1];
            left[k - 1] = swap;
        }
    int low = n / 5;
    filled[50] = (left[(low - 1) / 2] + left[low / 2]) / 2; /* the floor */
    filled[60] = left[n - 1];
    filled[0] = filled[1] = row[2]; /* an edge takes its only neighbour */
    filled[N - 1] = row[N - 2];
    for (int i = 100; i < 103; i++) filled[i] = row[99] + (row[103] - row[99]) * (i - 99) / 4;
    PsdRow found = process(row, N, GUARDED, y);
    assert_true(found.not_finite == 8 && found.missing == 6 && found.most == -51 && found.least == -70);
    process(filled, N, GUARDED, want);
    for (int i = 0; i < PSD_BINS; i++) assert_near(y[i], want[i], 1e-6);
    /* NaN beside -inf takes the floor */
    row[49] = row[51] = (double)NAN;
    filled[49] = (filled[48] + filled[50]) / 2;
    filled[51] = (filled[50] + filled[52]) / 2;
    process(row, N, GUARDED, y);
    process(filled, N, GUARDED, want);
    for (int i = 0; i < PSD_BINS; i++) assert_near(y[i], want[i], 2e-2); /* the floor of two bins less */
}

TEST(constant_rows_are_zero) {
    static const int widths[] = {1, 74, 200, 333};
    double row[333];
    float y[PSD_BINS];
    for (int i = 0; i < 333; i++) row[i] = -71.3;
    for (int k = 0; k < 4; k++) {
        PsdRow found = process(row, widths[k], PLAIN, y);
        assert_true(found.constant && found.snr == 0);
        for (int i = 0; i < PSD_BINS; i++) assert_true(y[i] == 0);
    }
    row[100] = (double)NAN; /* it is not what was recorded that is constant, then */
    assert_false(process(row, 333, PLAIN, y).constant);
}

/* Padding makes most of the narrow row constant. */
TEST(results_are_limited) {
    double *row = make_carrier(74);
    float free_of_it[PSD_BINS], limited[PSD_BINS];
    int64_t beyond = 0;
    process(row, 74, PLAIN, free_of_it);
    PsdRow found = process(row, 74, GUARDED, limited);
    for (int i = 0; i < PSD_BINS; i++) {
        beyond += fabsf(free_of_it[i]) > 20;
        assert_true(limited[i] == fminf(fmaxf(free_of_it[i], -20), 20));
    }
    assert_true(beyond > 20);
    assert_int_equal(found.limited, beyond);
    free(row);
}

static void refuse(const double *row, int64_t width, PsdPreprocessing options, const char *reason) {
    PsdScratch scratch = {0};
    float y[PSD_BINS];
    PsdRow found;
    Error error;
    assert_false(psd_preprocess(row, width, &options, &scratch, y, &found, &error));
    assert_string_equal(error.text, reason);
    psd_scratch_free(&scratch);
}

TEST(rows_without_numbers_are_refused) {
    double row[300] = {0};
    refuse(row, 0, GUARDED, "the row is empty");
    refuse(row, 0, HOP, "the row is empty");
    for (int i = 0; i < 300; i++) row[i] = (double)(i % 3 ? NAN : INFINITY);
    refuse(row, 300, GUARDED, "none of the row's 300 bins is finite");
}

TEST(rows_that_are_half_missing_are_refused) {
    double row[200];
    float y[PSD_BINS];
    for (int i = 0; i < 200; i++) row[i] = i < 99 ? (double)NAN : -60 - i % 7;
    assert_int_equal(process(row, 200, GUARDED, y).missing, 99);
    row[99] = (double)NAN;
    refuse(row, 200, GUARDED, "100 of the row's 200 bins are NaN");
    assert_int_equal(process(row, 200, PLAIN, y).missing, 100); /* as in the reference */
    for (int i = 0; i < 150; i++) row[i] = -(double)INFINITY;   /* no power was measured there, but measured it was */
    assert_int_equal(process(row, 200, GUARDED, y).not_finite, 150);
}

/* Rows beyond any receiver: too large after the division, and already in it. */
TEST(rows_beyond_float32_are_refused) {
    double row[PSD_BINS] = {0};
    float y[PSD_BINS];
    for (int i = 0; i < 10; i++) row[i] = 1e200;
    refuse(row, PSD_BINS, PLAIN, "the row has values as large as 1e+200, which cannot be normalised in float32");
    assert_int_equal(process(row, PSD_BINS, GUARDED, y).limited, 10);
    for (int i = 0; i < PSD_BINS; i++) row[i] = i % 2 ? 1.7e308 : -1.7e308;
    refuse(row, PSD_BINS, GUARDED, "the row has values as large as 1.7e+308, which cannot be normalised in float32");
    for (int i = 0; i < PSD_BINS; i++) row[i] = 1.7e308;
    refuse(row, PSD_BINS, GUARDED, "the row has values as large as 1.7e+308, which cannot be normalised in float32");
}
