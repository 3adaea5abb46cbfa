/* Log-mel frames for pretrained networks: what their parameters change. tests/gpt compares them with golden values. */
#include "data/audio/fbank.h"
#include "tests/test.h"

enum { SAMPLES = 2000, FRAMES = 1 + (SAMPLES - FBANK_WINDOW) / FBANK_HOP };

static void analyse(double scale, const float *samples, float *frames) {
    Fbank *fbank = fbank_open(scale);
    fbank_analyse(fbank, samples, SAMPLES, frames);
    fbank_close(fbank);
}

static void make_tone(float loudness, float *samples) {
    for (int i = 0; i < SAMPLES; i++) samples[i] = loudness * (float)sin(0.3 * i + 0.0001 * i * i);
}

TEST(only_whole_frames_count) {
    assert_int_equal(fbank_frame_count(0), 0);
    assert_int_equal(fbank_frame_count(399), 0);
    assert_int_equal(fbank_frame_count(400), 1);
    assert_int_equal(fbank_frame_count(559), 1);
    assert_int_equal(fbank_frame_count(560), 2);
}

/* Powers of two scale exactly; logarithms, below 32 in size, and the shift are rounded to float. */
TEST(the_scale_shifts_all_bands_above_the_floor) {
    float samples[SAMPLES], loud[FRAMES * FBANK_BANDS], quiet[FRAMES * FBANK_BANDS];
    int at_floor = 0, above = 0;
    make_tone(0.5f, samples);
    analyse(32768, samples, loud);
    analyse(1, samples, quiet);
    for (int i = 0; i < FRAMES * FBANK_BANDS; i++) {
        double want = (double)loud[i] - 2 * log(32768), floor = log(FBANK_FLOOR);
        assert_near(quiet[i], fmax(want, floor), 2 * 32 * 0x1p-24);
        at_floor += want < floor;
        above += want > floor;
    }
    assert_true(at_floor > 100 && above > 100);
}

/* Computes bands[FBANK_BANDS] of one frame by the definition, with plain sums. */
static void define_frame(const Fbank *fbank, const float *samples, double scale, double *bands) {
    const double turn = 2 * acos(-1) / FBANK_FFT;
    double x[FBANK_WINDOW], mean = 0, power[FBANK_BINS];
    for (int i = 0; i < FBANK_WINDOW; i++) mean += scale * (double)samples[i] / FBANK_WINDOW;
    for (int i = FBANK_WINDOW - 1; i >= 0; i--) {
        double before = scale * (double)samples[i ? i - 1 : 0] - mean;
        x[i] = (scale * (double)samples[i] - mean - 0.97 * before) * fbank_window(fbank, i);
    }
    for (int k = 0; k < FBANK_BINS; k++) {
        double re = 0, im = 0;
        for (int i = 0; i < FBANK_WINDOW; i++) {
            re += x[i] * cos(turn * (i * k % FBANK_FFT));
            im -= x[i] * sin(turn * (i * k % FBANK_FFT));
        }
        power[k] = re * re + im * im;
    }
    for (int b = 0; b < FBANK_BANDS; b++) {
        double sum = 0;
        for (int k = 0; k < FBANK_BINS; k++) sum += fbank_weight(fbank, k, b) * power[k];
        bands[b] = log(fmax(sum, FBANK_FLOOR));
    }
}

/* A loud low tone leaves the highest bands 80 dB below the loudest, an amplitude of 1e-4. The transforms err by some
 * 1e-15 of the frame, and so a power there by 2e-11; logarithms, below 32, are rounded to float. */
TEST(bands_far_below_the_loudest_are_exact) {
    float samples[SAMPLES], frames[FRAMES * FBANK_BANDS];
    double want[FBANK_BANDS], least = INFINITY, most = -INFINITY;
    for (int i = 0; i < SAMPLES; i++) samples[i] = (float)sin(0.1 * i);
    Fbank *fbank = fbank_open(32768);
    fbank_analyse(fbank, samples, SAMPLES, frames);
    for (int t = 0; t < FRAMES; t++) {
        define_frame(fbank, samples + t * FBANK_HOP, 32768, want);
        for (int b = 0; b < FBANK_BANDS; b++) {
            assert_near(frames[t * FBANK_BANDS + b], want[b], 32 * 0x1p-24);
            least = fmin(least, want[b]);
            most = fmax(most, want[b]);
        }
    }
    fbank_close(fbank);
    assert_true(most - least > 8 * log(10));
}

TEST(silence_and_a_constant_are_at_the_floor) {
    float samples[SAMPLES], frames[FRAMES * FBANK_BANDS];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < SAMPLES; i++) samples[i] = (float)k * 0.25f;
        analyse(32768, samples, frames);
        for (int i = 0; i < FRAMES * FBANK_BANDS; i++) assert_true(frames[i] == (float)log(FBANK_FLOOR));
    }
}

TEST(bands_get_mean_zero_and_unbiased_variance_one) {
    float samples[SAMPLES], frames[FRAMES * FBANK_BANDS], centred[FRAMES * FBANK_BANDS];
    make_tone(0.5f, samples);
    analyse(32768, samples, frames);
    memcpy(centred, frames, sizeof centred);
    fbank_normalise(frames, FRAMES, true);
    fbank_normalise(centred, FRAMES, false);
    for (int b = 0; b < FBANK_BANDS; b++) {
        double sum = 0, squares = 0, mean = 0, variance = 0;
        for (int t = 0; t < FRAMES; t++) {
            double x = (double)frames[t * FBANK_BANDS + b], y = (double)centred[t * FBANK_BANDS + b];
            sum += x;
            squares += x * x;
            mean += y / FRAMES;
            variance += y * y / (FRAMES - 1);
        }
        assert_near(mean, 0, 8 * 0x1p-24);
        assert_near(sum, 0, FRAMES * 4 * 0x1p-24);
        assert_near(squares / (FRAMES - 1), variance / (variance + 1e-7), 8 * 0x1p-24);
    }
}
