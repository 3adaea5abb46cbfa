/* The transform of real signals: against the sum that defines it, in double precision, and back. */
#include "data/audio/fft.h"
#include "tests/test.h"

/* Each of the 11 halvings rounds its results once more. */
static const double BOUND = 11 * 0x1p-24;

static double noise(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return (double)*state * 0x1p-32 - 0.5;
}

static void make_noise(float *wave) {
    uint32_t state = 1;
    for (int t = 0; t < FFT_POINTS; t++) wave[t] = (float)noise(&state);
}

TEST(bins_are_sums_of_turns) {
    float wave[FFT_POINTS];
    float complex spectrum[FFT_BINS];
    double cosines[FFT_POINTS], sines[FFT_POINTS], errors = 0, squares = 0;
    make_noise(wave);
    for (int t = 0; t < FFT_POINTS; t++) {
        cosines[t] = cos(2 * acos(-1) * t / FFT_POINTS);
        sines[t] = sin(2 * acos(-1) * t / FFT_POINTS);
    }
    Fft *fft = fft_open();
    fft_forward(fft, wave, spectrum);
    fft_close(fft);
    for (int k = 0; k < FFT_BINS; k++) {
        double re = 0, im = 0;
        for (int t = 0; t < FFT_POINTS; t++) {
            re += (double)wave[t] * cosines[k * t % FFT_POINTS];
            im -= (double)wave[t] * sines[k * t % FFT_POINTS];
        }
        errors += pow((double)crealf(spectrum[k]) - re, 2) + pow((double)cimagf(spectrum[k]) - im, 2);
        squares += re * re + im * im;
    }
    assert_true(cimagf(spectrum[0]) == 0 && cimagf(spectrum[FFT_BINS - 1]) == 0);
    if (!(sqrt(errors / squares) < BOUND)) fail_msg("relative error %g", sqrt(errors / squares));
}

TEST(there_and_back_is_the_signal) {
    float wave[FFT_POINTS], back[FFT_POINTS];
    float complex spectrum[FFT_BINS];
    double errors = 0, squares = 0;
    make_noise(wave);
    Fft *fft = fft_open();
    fft_forward(fft, wave, spectrum);
    spectrum[0] += 3 * I; /* counts as 0, as that of the last bin */
    spectrum[FFT_BINS - 1] -= 2 * I;
    fft_backward(fft, spectrum, back);
    fft_close(fft);
    for (int t = 0; t < FFT_POINTS; t++) {
        errors += pow((double)back[t] / FFT_POINTS - (double)wave[t], 2);
        squares += (double)wave[t] * (double)wave[t];
    }
    if (!(sqrt(errors / squares) < 2 * BOUND)) fail_msg("relative error %g", sqrt(errors / squares));
}
