/* The transform of real signals: against the sum that defines it, in double precision, and back. */
#include "data/audio/fft.h"
#include "data/audio/fft_double.h"
#include "tests/test.h"

/* All passes: of radix 4 alone, and with one of radix 2. */
static const int sizes[] = {4, 8, 16, 32, 512, 1024, 2048};
enum { SIZES = sizeof sizes / sizeof *sizes, MAX_BINS = FFT_MAX_POINTS / 2 + 1 };

/* Each halving rounds its results once more, and so does the step from complex points to real ones. */
static double bound(int points, double rounding) { return log2(points) * rounding; }

static double noise(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return (double)*state * 0x1p-32 - 0.5;
}

static void make_noise(int points, float *wave) {
    uint32_t state = 1;
    for (int t = 0; t < points; t++) wave[t] = (float)noise(&state);
}

/* Compares with sums in long double, norm-wise. */
static void expect_sums(const float *wave, int points, const double complex *spectrum, double allowed) {
    long double cosines[FFT_MAX_POINTS], sines[FFT_MAX_POINTS], errors = 0, squares = 0;
    for (int t = 0; t < points; t++) {
        cosines[t] = cosl(2 * acosl(-1) * t / points);
        sines[t] = sinl(2 * acosl(-1) * t / points);
    }
    for (int k = 0; k <= points / 2; k++) {
        long double re = 0, im = 0;
        for (int t = 0; t < points; t++) {
            re += (long double)wave[t] * cosines[k * t % points];
            im -= (long double)wave[t] * sines[k * t % points];
        }
        errors += powl(creal(spectrum[k]) - re, 2) + powl(cimag(spectrum[k]) - im, 2);
        squares += re * re + im * im;
    }
    assert_true(cimag(spectrum[0]) == 0 && cimag(spectrum[points / 2]) == 0);
    double error = (double)sqrtl(errors / squares);
    if (!(error < allowed)) fail_msg("%d points: relative error %g", points, error);
}

TEST(bins_are_sums_of_turns) {
    float wave[FFT_MAX_POINTS];
    float complex spectrum[MAX_BINS];
    double complex wide[MAX_BINS];
    for (int i = 0; i < SIZES; i++) {
        Fft *fft = fft_open(sizes[i]);
        make_noise(sizes[i], wave);
        fft_forward(fft, wave, spectrum);
        fft_close(fft);
        for (int k = 0; k <= sizes[i] / 2; k++) wide[k] = (double complex)spectrum[k];
        expect_sums(wave, sizes[i], wide, bound(sizes[i], 0x1p-24));
    }
}

TEST(bins_in_double_precision_are_sums_of_turns) {
    float wave[FFT_MAX_POINTS];
    double wide[FFT_MAX_POINTS];
    double complex spectrum[MAX_BINS];
    for (int i = 0; i < SIZES; i++) {
        FftDouble *fft = fft_double_open(sizes[i]);
        make_noise(sizes[i], wave);
        for (int t = 0; t < sizes[i]; t++) wide[t] = (double)wave[t];
        fft_double_forward(fft, wide, spectrum);
        fft_double_close(fft);
        expect_sums(wave, sizes[i], spectrum, bound(sizes[i], 0x1p-53));
    }
}

TEST(there_and_back_is_the_signal) {
    float wave[FFT_MAX_POINTS], back[FFT_MAX_POINTS];
    float complex spectrum[MAX_BINS];
    for (int i = 0; i < SIZES; i++) {
        const int points = sizes[i];
        double errors = 0, squares = 0;
        make_noise(points, wave);
        Fft *fft = fft_open(points);
        fft_forward(fft, wave, spectrum);
        spectrum[0] += 3 * I; /* counts as 0, as that of the last bin */
        spectrum[points / 2] -= 2 * I;
        fft_backward(fft, spectrum, back);
        fft_close(fft);
        for (int t = 0; t < points; t++) {
            errors += pow((double)back[t] / points - (double)wave[t], 2);
            squares += (double)wave[t] * (double)wave[t];
        }
        double error = sqrt(errors / squares);
        if (!(error < 2 * bound(points, 0x1p-24))) fail_msg("%d points: relative error %g", points, error);
    }
}

static void open_odd(void *points) { fft_close(fft_open(*(int *)points)); }

TEST(other_sizes_are_refused) {
    int wrong[] = {0, 2, 513, 4096};
    char output[256];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(run_function(output, sizeof output, open_odd, &wrong[i]), 1);
        assert_contains(output, "not a power of two from 4 to 2048");
    }
}
