/* Resampling as torchaudio does it: against the definition as a plain double loop, and what follows from it. */
#include "data/audio/resample.h"
#include "tests/test.h"

/* Filters and sums are in double precision; the output, below 2 in size, is rounded to float once. */
static const double TOLERANCE = 2 * 0x1p-24 + 1e-12;

/* Fills samples[n + 2] with noise between two NaNs, which must not be read, and returns its beginning. */
static const float *make_noise(int64_t n, float *samples) {
    uint32_t state = 1;
    for (int64_t i = 1; i <= n; i++) {
        state = state * 1664525 + 1013904223;
        samples[i] = (float)((double)state * 0x1p-31 - 1);
    }
    samples[0] = samples[n + 1] = NAN;
    return samples + 1;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Returns output j of the definition, whose filters have 2 width + o taps, most of them zero. */
static double defined(const float *samples, int64_t n_samples, int64_t o, int64_t n, int64_t j) {
    double base = 0.99 * (double)(o < n ? o : n), sum = 0;
    int64_t width = (int64_t)ceil(6 * (double)o / base), block = j / n, phase = j % n;
    for (int64_t i = 0; i < 2 * width + o; i++) {
        int64_t at = block * o + i - width;
        if (at < 0 || at >= n_samples) continue;
        double t = base * ((double)(i - width) / (double)o - (double)phase / (double)n);
        t = fmax(-6, fmin(t, 6));
        double window = cos(M_PI * t / 12), sinc = t == 0 ? 1 : sin(M_PI * t) / (M_PI * t);
        sum += base / (double)o * window * window * sinc * (double)samples[at];
    }
    return sum;
}

static void expect_defined(int from, int to, int64_t n) {
    float *guarded = xmalloc((size_t)(n + 2) * sizeof *guarded);
    const float *samples = make_noise(n, guarded);
    Resampler *resampler = resampler_open(from, to);
    int64_t length = resampler_length(resampler, n), divisor = common_divisor(from, to);
    assert_int_equal(length, (int64_t)ceil((double)n * to / from));
    float *out = xmalloc((size_t)(length + 1) * sizeof *out);
    out[length] = 7;
    resampler_run(resampler, samples, n, out);
    assert_true(out[length] == 7);
    for (int64_t j = 0; j < length; j++) {
        double want = defined(samples, n, from / divisor, to / divisor, j);
        if (!(fabs((double)out[j] - want) <= TOLERANCE))
            fail_msg("%d to %d Hz, output %d: got %.9g, want %.9g", from, to, (int)j, (double)out[j], want);
    }
    resampler_close(resampler);
    FREE(guarded, out);
}

static const int rates[][2] = {{24000, 16000}, {48000, 24000}, {44100, 24000}, {22050, 24000},
                               {16000, 24000}, {22050, 16000}, {8000, 24000},  {11025, 24000},
                               {96000, 24000}, {7, 5},         {5, 7},         {44101, 24000}};

TEST(outputs_are_those_of_the_definition) {
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) expect_defined(rates[i][0], rates[i][1], 2000);
}

TEST(short_sounds_have_zeros_around_them) {
    for (int64_t n = 0; n < 40; n++) {
        expect_defined(24000, 16000, n);
        expect_defined(16000, 24000, n);
        expect_defined(48000, 24000, n);
    }
}

TEST(an_equal_rate_leaves_the_samples) {
    enum { N = 100 };
    float guarded[N + 2], out[N];
    const float *samples = make_noise(N, guarded);
    Resampler *resampler = resampler_open(16000, 16000);
    assert_int_equal(resampler_length(resampler, N), N);
    resampler_run(resampler, samples, N, out);
    assert_memory_equal(out, samples, sizeof out);
    resampler_close(resampler);
}

static void open_wrong(void *rate) { resampler_close(resampler_open(*(int *)rate, 24000)); }

TEST(impossible_rates_are_refused) {
    int wrong[] = {0, -1, RESAMPLER_MAX_RATE + 1};
    char output[256];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_function(output, sizeof output, open_wrong, &wrong[i]), 1);
        assert_contains(output, "the rates must be 1 to 1000000");
    }
}
