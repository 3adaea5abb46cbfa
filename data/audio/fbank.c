#include "data/audio/fbank.h"

#include <math.h>
#include <stdlib.h>

#include "data/audio/fft_double.h"

static const double LOWEST = 20, HIGHEST = 8000; /* Hz */
static const double EMPHASIS = 0.97, VARIANCE_FLOOR = 1e-7;

/* Band b weighs the bins first[b] .. first[b] + count[b] - 1 with weights[b][0 ..]. */
struct Fbank {
    FftDouble *fft;
    double scale;
    double window[FBANK_WINDOW];
    int first[FBANK_BANDS], count[FBANK_BANDS];
    double *weights[FBANK_BANDS];
};

static double mel_of(double hertz) { return 1127 * log1p(hertz / 700); }

/* The triangle of band b rises from edge b to edge b + 1 and falls to edge b + 2. */
static double triangle(int bin, int b) {
    double lowest = mel_of(LOWEST), step = (mel_of(HIGHEST) - lowest) / (FBANK_BANDS + 1);
    double left = lowest + b * step, centre = lowest + (b + 1) * step, right = lowest + (b + 2) * step;
    double at = mel_of((double)bin * FBANK_RATE / FBANK_FFT);
    return fmax(0, fmin((at - left) / (centre - left), (right - at) / (right - centre)));
}

static void make_band(Fbank *fbank, int b) {
    int first = 0, end = FBANK_BINS;
    while (first < end && triangle(first, b) == 0) first++;
    while (end > first && triangle(end - 1, b) == 0) end--;
    fbank->first[b] = first;
    fbank->count[b] = end - first;
    fbank->weights[b] = xmalloc((size_t)(end - first) * sizeof *fbank->weights[b]);
    for (int k = first; k < end; k++) fbank->weights[b][k - first] = triangle(k, b);
}

Fbank *fbank_open(double scale) {
    Fbank *fbank = xmalloc(sizeof *fbank);
    fbank->fft = fft_double_open(FBANK_FFT);
    fbank->scale = scale;
    for (int i = 0; i < FBANK_WINDOW; i++)
        fbank->window[i] = pow(0.5 - 0.5 * cos(6.283185307179586 * i / (FBANK_WINDOW - 1)), 0.85);
    for (int b = 0; b < FBANK_BANDS; b++) make_band(fbank, b);
    return fbank;
}

void fbank_close(Fbank *fbank) {
    if (!fbank) return;
    fft_double_close(fbank->fft);
    for (int b = 0; b < FBANK_BANDS; b++) free(fbank->weights[b]);
    free(fbank);
}

double fbank_window(const Fbank *fbank, int i) { return fbank->window[i]; }

double fbank_weight(const Fbank *fbank, int bin, int band) {
    int i = bin - fbank->first[band];
    return i >= 0 && i < fbank->count[band] ? fbank->weights[band][i] : 0;
}

/* Computes power[FBANK_BINS] of the frame that begins at `samples`. */
static void frame_power(const Fbank *fbank, const float *samples, double *power) {
    double x[FBANK_WINDOW], wave[FBANK_FFT] = {0}, sum = 0;
    double complex spectrum[FBANK_BINS];
    for (int i = 0; i < FBANK_WINDOW; i++) {
        x[i] = fbank->scale * (double)samples[i];
        sum += x[i];
    }
    double mean = sum / FBANK_WINDOW;
    for (int i = 0; i < FBANK_WINDOW; i++) x[i] -= mean;
    wave[0] = (1 - EMPHASIS) * x[0] * fbank->window[0];
    for (int i = 1; i < FBANK_WINDOW; i++) wave[i] = (x[i] - EMPHASIS * x[i - 1]) * fbank->window[i];
    fft_double_forward(fbank->fft, wave, spectrum);
    for (int k = 0; k < FBANK_BINS; k++)
        power[k] = creal(spectrum[k]) * creal(spectrum[k]) + cimag(spectrum[k]) * cimag(spectrum[k]);
}

void fbank_analyse(const Fbank *fbank, const float *samples, int64_t n, float *frames) {
    double power[FBANK_BINS];
    for (int64_t t = 0; t < fbank_frame_count(n); t++) {
        frame_power(fbank, samples + t * FBANK_HOP, power);
        for (int b = 0; b < FBANK_BANDS; b++) {
            double sum = 0;
            for (int i = 0; i < fbank->count[b]; i++) sum += fbank->weights[b][i] * power[fbank->first[b] + i];
            frames[t * FBANK_BANDS + b] = (float)log(fmax(sum, FBANK_FLOOR));
        }
    }
}

void fbank_normalise(float *frames, int64_t n, bool deviations) {
    double mean[FBANK_BANDS] = {0}, squares[FBANK_BANDS] = {0}, deviation[FBANK_BANDS];
    for (int64_t t = 0; t < n; t++)
        for (int b = 0; b < FBANK_BANDS; b++) mean[b] += (double)frames[t * FBANK_BANDS + b];
    for (int b = 0; b < FBANK_BANDS; b++) mean[b] /= (double)n;
    for (int64_t t = 0; deviations && t < n; t++)
        for (int b = 0; b < FBANK_BANDS; b++) {
            double x = (double)frames[t * FBANK_BANDS + b] - mean[b];
            squares[b] += x * x;
        }
    for (int b = 0; b < FBANK_BANDS; b++)
        deviation[b] = deviations ? sqrt(squares[b] / (double)(n - 1) + VARIANCE_FLOOR) : 1;
    for (int64_t t = 0; t < n; t++)
        for (int b = 0; b < FBANK_BANDS; b++) {
            float *x = &frames[t * FBANK_BANDS + b];
            *x = (float)(((double)*x - mean[b]) / deviation[b]);
        }
}
