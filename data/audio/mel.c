#include "data/audio/mel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/audio/fft.h"
#include "kernels/philox.h"

enum { BINS = MEL_FFT / 2 + 1, SPREAD_ITERATIONS = 40 };

/* Band b weighs the bins first[b] .. first[b] + count[b] - 1 with weights[b][0 ..]. */
struct Mel {
    Fft *fft;
    float window[MEL_WINDOW];
    float scale; /* of magnitudes: 2 / sum of the window */
    int first[MEL_BANDS], count[MEL_BANDS];
    float *weights[MEL_BANDS];
};

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }
static double hertz_of(double mel) { return 700 * (pow(10, mel / 2595) - 1); }

/* The triangle of band b rises from the centre of band b - 1 and falls to that of b + 1. */
static void make_band(Mel *mel, int b) {
    double step = mel_of(MEL_RATE / 2.0) / (MEL_BANDS + 1), bin_hertz = (double)MEL_RATE / MEL_FFT;
    double left = hertz_of(b * step), centre = hertz_of((b + 1) * step), right = hertz_of((b + 2) * step);
    mel->first[b] = (int)ceil(left / bin_hertz);
    mel->count[b] = (int)floor(right / bin_hertz) - mel->first[b] + 1;
    mel->weights[b] = xcalloc((size_t)mel->count[b], sizeof(float));
    for (int i = 0; i < mel->count[b]; i++) {
        double f = (mel->first[b] + i) * bin_hertz;
        mel->weights[b][i] = (float)fmax(0, fmin((f - left) / (centre - left), (right - f) / (right - centre)));
    }
}

Mel *mel_open(void) {
    Mel *mel = xcalloc(1, sizeof *mel);
    mel->fft = fft_open(MEL_FFT);
    double sum = 0;
    for (int i = 0; i < MEL_WINDOW; i++) {
        mel->window[i] = (float)(0.5 - 0.5 * cos(6.283185307179586 * i / MEL_WINDOW));
        sum += (double)mel->window[i];
    }
    mel->scale = (float)(2 / sum);
    for (int b = 0; b < MEL_BANDS; b++) make_band(mel, b);
    return mel;
}

void mel_close(Mel *mel) {
    if (!mel) return;
    fft_close(mel->fft);
    for (int b = 0; b < MEL_BANDS; b++) free(mel->weights[b]);
    free(mel);
}

/* Returns where the window of frame t begins in the clip; may be negative. */
static int64_t window_start(int64_t t) { return t * MEL_HOP + MEL_HOP / 2 - MEL_WINDOW / 2; }

/* Computes spectrum[BINS] of frame t of samples[n]. wave[MEL_FFT] is scratch, zero behind the window. */
static void frame_spectrum(const Mel *mel, const float *samples, int64_t n, int64_t t, float *wave,
                           float complex *spectrum) {
    int64_t start = window_start(t);
    for (int i = 0; i < MEL_WINDOW; i++) {
        int64_t at = start + i;
        wave[i] = at >= 0 && at < n ? samples[at] * mel->window[i] : 0;
    }
    fft_forward(mel->fft, wave, spectrum);
}

void mel_analyse(const Mel *mel, const float *samples, int64_t n, float *frames) {
    float wave[MEL_FFT] = {0}, magnitude[BINS];
    float complex spectrum[BINS];
    for (int64_t t = 0; t < mel_frame_count(n); t++) {
        frame_spectrum(mel, samples, n, t, wave, spectrum);
        for (int k = 0; k < BINS; k++) magnitude[k] = mel->scale * cabsf(spectrum[k]);
        for (int b = 0; b < MEL_BANDS; b++) {
            float sum = 0;
            for (int i = 0; i < mel->count[b]; i++) sum += mel->weights[b][i] * magnitude[mel->first[b] + i];
            frames[t * MEL_BANDS + b] = logf(fmaxf(sum, MEL_FLOOR));
        }
    }
}

/* Computes out[BINS] = weights^T bands[MEL_BANDS]. */
static void spread(const Mel *mel, const float *bands, float *out) {
    memset(out, 0, BINS * sizeof *out);
    for (int b = 0; b < MEL_BANDS; b++)
        for (int i = 0; i < mel->count[b]; i++) out[mel->first[b] + i] += mel->weights[b][i] * bands[b];
}

/* Magnitudes m >= 0 whose bands are those of the frame, W m = e^frame, by Lee and Seung's multiplicative update
 * m <- m * (W^T e^frame) / (W^T W m), which never leaves the positive numbers. In the scale of a plain FFT. */
static void frame_magnitudes(const Mel *mel, const float *frame, float *magnitude) {
    float bands[MEL_BANDS], want[BINS], have[BINS];
    for (int b = 0; b < MEL_BANDS; b++) bands[b] = expf(frame[b]);
    spread(mel, bands, want);
    memcpy(magnitude, want, sizeof want);
    for (int iteration = 0; iteration < SPREAD_ITERATIONS; iteration++) {
        for (int b = 0; b < MEL_BANDS; b++) {
            bands[b] = 0;
            for (int i = 0; i < mel->count[b]; i++) bands[b] += mel->weights[b][i] * magnitude[mel->first[b] + i];
        }
        spread(mel, bands, have);
        for (int k = 0; k < BINS; k++) magnitude[k] *= have[k] > 0 ? want[k] / have[k] : 0;
    }
    for (int k = 0; k < BINS; k++) magnitude[k] /= mel->scale;
}

/* Computes the signal whose frames are nearest to spectra[n_frames, BINS]: windowed overlap-add over the sum of squared
 * windows (Griffin and Lim, 1984, equation 6). */
static void spectra_to_signal(const Mel *mel, const float complex *spectra, int64_t n_frames, float *samples,
                              float *weight) {
    int64_t n = n_frames * MEL_HOP;
    float wave[MEL_FFT];
    memset(samples, 0, (size_t)n * sizeof *samples);
    memset(weight, 0, (size_t)n * sizeof *weight);
    for (int64_t t = 0; t < n_frames; t++) {
        fft_backward(mel->fft, spectra + t * BINS, wave);
        int64_t start = window_start(t);
        for (int i = 0; i < MEL_WINDOW; i++) {
            int64_t at = start + i;
            if (at < 0 || at >= n) continue;
            samples[at] += wave[i] / MEL_FFT * mel->window[i];
            weight[at] += mel->window[i] * mel->window[i];
        }
    }
    for (int64_t i = 0; i < n; i++)
        if (weight[i] > 0) samples[i] /= weight[i];
}

/* Does one iteration: extrapolates the spectra of the signal along their last change (momentum 0.99), keeps the phases
 * and sets the given magnitudes. before[n_frames, BINS] are the spectra of the previous iteration. */
static void project(const Mel *mel, const float *magnitudes, int64_t n_frames, const float *samples,
                    float complex *before, float complex *spectra) {
    const float momentum = 0.99f;
    float wave[MEL_FFT] = {0};
    float complex now[BINS];
    for (int64_t t = 0; t < n_frames; t++) {
        frame_spectrum(mel, samples, n_frames * MEL_HOP, t, wave, now);
        for (int k = 0; k < BINS; k++) {
            float complex pushed = now[k] + momentum * (now[k] - before[t * BINS + k]);
            float size = cabsf(pushed);
            before[t * BINS + k] = now[k];
            spectra[t * BINS + k] = size > 0 ? magnitudes[t * BINS + k] / size * pushed : magnitudes[t * BINS + k];
        }
    }
}

void mel_invert(const Mel *mel, const float *frames, int64_t n_frames, int iterations, uint64_t seed, float *samples) {
    size_t n = (size_t)n_frames * BINS;
    OWNED float *magnitudes = xmalloc(n * sizeof *magnitudes);
    OWNED float *weight = xmalloc((size_t)n_frames * MEL_HOP * sizeof *weight);
    OWNED float complex *spectra = xmalloc(n * sizeof *spectra), *before = xcalloc(n, sizeof *before);
    for (int64_t t = 0; t < n_frames; t++) frame_magnitudes(mel, frames + t * MEL_BANDS, magnitudes + t * BINS);
    for (size_t i = 0; i < n; i++) {
        float phase = 6.2831853f * philox_uniform(seed, PURPOSE_INIT, 0, i);
        spectra[i] = magnitudes[i] * (cosf(phase) + I * sinf(phase));
    }
    spectra_to_signal(mel, spectra, n_frames, samples, weight);
    for (int i = 0; i < iterations; i++) {
        project(mel, magnitudes, n_frames, samples, before, spectra);
        spectra_to_signal(mel, spectra, n_frames, samples, weight);
    }
}
