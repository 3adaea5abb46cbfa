/* Features of speech for IndexTTS2: against golden values in float64, and on clips at the limits. */
#include "data/indextts2/front.h"

#include "base/threads.h"
#include "data/audio/fbank.h"
#include "data/audio/resample.h"
#include "tests/files.h"

/* Logarithms, below 32, are rounded to float, to 2e-6. So is the sound after each resampling, which changes a band of
 * 60 dB below the loudest by some 1e-5. */
static const double TOLERANCE = 2e-5;
static const double SOUND_TOLERANCE = 2e-6;

static IndexFront *front;

static int open_front(void **state) {
    (void)state;
    front = index_front_open();
    return 0;
}

static int close_front(void **state) {
    (void)state;
    index_front_close(front);
    return 0;
}

/* Compares each number, and prints the largest difference. */
static void expect_near(const char *what, const float *got, const float *want, int64_t n, double tolerance) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - (double)want[i]);
        if (!(error <= tolerance))
            fail_msg("%s[%d]: got %.9g, want %.9g", what, (int)i, (double)got[i], (double)want[i]);
        worst = fmax(worst, error);
    }
    print_message("%s: largest difference %.2g\n", what, worst);
}

static void read_doubles(const TensorFile *file, const char *name, double *out, int64_t n) {
    const StoredTensor *tensor = find(file, "", name);
    assert_string_equal(tensor->dtype, "F64");
    assert_int_equal(tensor->count, n);
    memcpy(out, tensor->data, tensor->bytes);
}

/* The window is a power of a cosine, right to some roundings of its 1. Distances in mel carry roundings of numbers
 * below 2841, 2^-42, three of them in each of two differences, which are divided by the width of 34.7. */
TEST(window_and_triangles_are_the_published_ones) {
    TensorFile file = open_golden("speech_front");
    double window[FBANK_WINDOW], filters[FBANK_BINS * FBANK_BANDS];
    read_doubles(&file, "window", window, FBANK_WINDOW);
    read_doubles(&file, "mel_filters", filters, FBANK_BINS * FBANK_BANDS);
    Fbank *fbank = fbank_open(1);
    double worst = 0, sum = 0;
    for (int i = 0; i < FBANK_WINDOW; i++) assert_near(fbank_window(fbank, i), window[i], 1e-15);
    for (int k = 0; k < FBANK_BINS; k++)
        for (int b = 0; b < FBANK_BANDS; b++) {
            double weight = fbank_weight(fbank, k, b);
            assert_near(weight, filters[k * FBANK_BANDS + b], 6 * 0x1p-42 / 34.7);
            worst = fmax(worst, fabs(weight - filters[k * FBANK_BANDS + b]));
            sum += weight;
        }
    assert_near(sum, 250.750821736, 1e-9);
    print_message("triangles: largest difference %.2g\n", worst);
    fbank_close(fbank);
    tensor_file_close(&file);
}

static void expect_resampled(const TensorFile *file, const char *name, int from, const char *result, int to) {
    float *samples = floats(file, "", name), *want = floats(file, "", result);
    int64_t n = find(file, "", name)->count, n_want = find(file, "", result)->count;
    Resampler *resampler = resampler_open(from, to);
    assert_int_equal(resampler_length(resampler, n), n_want);
    float *got = xmalloc((size_t)n_want * sizeof *got);
    resampler_run(resampler, samples, n, got);
    expect_near(result, got, want, n_want, SOUND_TOLERANCE);
    resampler_close(resampler);
    FREE(samples, want, got);
}

TEST(sound_is_resampled_as_published) {
    TensorFile file = open_golden("speech_front");
    expect_resampled(&file, "a_24k", 24000, "a_16k", 16000);
    expect_resampled(&file, "c_44k", 44100, "c_24k", 24000);
    expect_resampled(&file, "c_24k", 24000, "c_16k", 16000);
    tensor_file_close(&file);
}

TEST(frames_are_the_published_ones) {
    const char *const clips[][2] = {{"a_16k", "a_fbank"}, {"b_16k", "b_fbank"}, {"c_16k", "c_fbank"}};
    TensorFile file = open_golden("speech_front");
    Fbank *fbank = fbank_open(32768);
    for (int i = 0; i < 3; i++) {
        float *samples = floats(&file, "", clips[i][0]), *want = floats(&file, "", clips[i][1]);
        int64_t n = find(&file, "", clips[i][0])->count, frames = fbank_frame_count(n);
        assert_int_equal(find(&file, "", clips[i][1])->dims[0], frames);
        float *got = xmalloc((size_t)(frames * FBANK_BANDS) * sizeof *got);
        fbank_analyse(fbank, samples, n, got);
        expect_near(clips[i][1], got, want, frames * FBANK_BANDS, TOLERANCE);
        FREE(samples, want, got);
    }
    fbank_close(fbank);
    tensor_file_close(&file);
}

/* Compares the rows of a clip, and returns them; free(). */
static float *expect_rows(const TensorFile *file, const char *name, int rate, const char *rows, int64_t n_rows,
                          int64_t valid) {
    float *samples = floats(file, "", name), *want = floats(file, "", rows);
    FrontClip clip;
    Error error;
    int64_t n = find(file, "", name)->count;
    bool ok = rate ? index_front_features(front, samples, n, rate, &clip, &error)
                   : index_front_features_16k(front, samples, n, &clip, &error);
    if (!ok) fail_msg("%s: %s", name, error.text);
    assert_int_equal(clip.rows, n_rows);
    assert_int_equal(clip.valid, valid);
    assert_int_equal(find(file, "", rows)->count, n_rows * FRONT_COLUMNS);
    expect_near(rows, clip.x, want, n_rows * FRONT_COLUMNS, TOLERANCE);
    FREE(samples, want);
    return clip.x;
}

TEST(an_odd_number_of_frames_leaves_a_row_half_filled) {
    TensorFile file = open_golden("speech_front");
    float *x = expect_rows(&file, "a_24k", 24000, "a_rows", 33, 32);
    for (int i = 0; i < FBANK_BANDS; i++) assert_true(x[32 * FRONT_COLUMNS + FBANK_BANDS + i] == 1);
    free(x);
    tensor_file_close(&file);
}

TEST(an_even_number_of_frames_fills_all_rows) {
    TensorFile file = open_golden("speech_front");
    free(expect_rows(&file, "b_16k", 0, "b_rows", 23, 23));
    tensor_file_close(&file);
}

static float *make_sound(int64_t n) {
    float *samples = xmalloc((size_t)n * sizeof *samples);
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        samples[i] = (float)((double)state * 0x1p-32 - 0.5);
    }
    return samples;
}

TEST(each_rate_passes_24_khz_before_16_khz) {
    const int rates[] = {16000, 22050, 44100, 48000};
    for (int i = 0; i < 4; i++) {
        int64_t n = rates[i] / 2;
        float *samples = make_sound(n);
        Resampler *up = resampler_open(rates[i], 24000), *down = resampler_open(24000, 16000);
        int64_t n_24k = resampler_length(up, n), n_16k = resampler_length(down, n_24k);
        float *at_24k = xmalloc((size_t)n_24k * sizeof *at_24k), *at_16k = xmalloc((size_t)n_16k * sizeof *at_16k);
        resampler_run(up, samples, n, at_24k);
        resampler_run(down, at_24k, n_24k, at_16k);
        FrontClip clip, whole;
        assert_true(index_front_features(front, samples, n, rates[i], &clip, NULL));
        assert_true(index_front_features_16k(front, at_16k, n_16k, &whole, NULL));
        assert_int_equal(clip.rows, whole.rows);
        assert_memory_equal(clip.x, whole.x, (size_t)(clip.rows * FRONT_COLUMNS) * sizeof *clip.x);
        resampler_close(up);
        resampler_close(down);
        FREE(samples, at_24k, at_16k, clip.x, whole.x);
    }
}

/* All frames of silence are at the floor, whose mean is exact in double precision. */
TEST(silence_has_features_of_zero) {
    float *samples = xcalloc(24000, sizeof *samples);
    FrontClip clip;
    assert_true(index_front_features(front, samples, 24000, 24000, &clip, NULL));
    assert_int_equal(clip.rows, 49);
    for (int64_t i = 0; i < clip.valid * FRONT_COLUMNS; i++) assert_true(clip.x[i] == 0);
    FREE(samples, clip.x);
}

static void expect_refused(const float *samples, int64_t n, int rate, const char *reason) {
    FrontClip clip;
    Error error = {""};
    assert_false(index_front_features(front, samples, n, rate, &clip, &error));
    assert_null(clip.x);
    assert_contains(error.text, reason);
    if (rate != 16000) return;
    assert_false(index_front_features_16k(front, samples, n, &clip, &error));
    assert_contains(error.text, reason);
}

TEST(clips_that_are_too_short_are_refused_by_their_length) {
    float *samples = make_sound(2400);
    FrontClip clip;
    expect_refused(samples, 0, 16000, "has only 0 samples at 16000 Hz, 0.000 s, and at least 0.1 s are needed");
    expect_refused(samples, 1599, 16000, "has only 1599 samples at 16000 Hz");
    expect_refused(samples, 2399, 24000, "has only 2399 samples at 24000 Hz");
    assert_true(index_front_features(front, samples, 2400, 24000, &clip, NULL));
    assert_int_equal(clip.rows, 4);
    FREE(samples, clip.x);
}

TEST(clips_that_are_too_long_are_refused_by_their_length) {
    const int64_t most = 400 + 160 * (2 * FRONT_MAX_ROWS - 1) + 159; /* samples of so many whole frames */
    float *samples = make_sound(most + 1);
    FrontClip clip;
    expect_refused(samples, most + 1, 16000, "and IndexTTS2 has positions for at most 200 s");
    assert_true(index_front_features_16k(front, samples, most, &clip, NULL));
    assert_int_equal(clip.rows, FRONT_MAX_ROWS);
    FREE(samples, clip.x);
}

TEST(samples_that_are_not_finite_are_refused_by_their_number) {
    const float wrong[] = {NAN, INFINITY, -INFINITY};
    float *samples = make_sound(16000);
    for (int i = 0; i < 3; i++) {
        samples[15999] = wrong[i];
        expect_refused(samples, 16000, 16000, "sample 15999 is not a finite number");
        expect_refused(samples, 16000, 24000, "sample 15999 is not a finite number");
    }
    free(samples);
}

TEST(impossible_rates_are_refused) {
    float sample = 0;
    expect_refused(&sample, 1, 0, "has 0 Hz; sound of 1 to 1000000 Hz can be resampled");
    expect_refused(&sample, 1, RESAMPLER_MAX_RATE + 1, "has 1000001 Hz");
}

enum { CLIPS = 24 };
typedef struct {
    IndexFront *front;
    float *samples;
    FrontClip clips[CLIPS];
} Shared;

static bool compute(void *context, int64_t i, Error *error) {
    static const int rates[] = {8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000};
    Shared *shared = context;
    return index_front_features(shared->front, shared->samples, 8000 + 100 * i, rates[i % 8], &shared->clips[i], error);
}

/* The first threads also make the resamplers. */
TEST(threads_do_not_change_bits) {
    Shared one = {index_front_open(), make_sound(8000 + 100 * CLIPS), {{0}}}, many = one;
    Error error;
    many.front = index_front_open();
    threads_take(4, "--threads");
    assert_true(threads_each(CLIPS, 1, compute, &one, &error));
    assert_true(threads_each(CLIPS, 4, compute, &many, &error));
    for (int i = 0; i < CLIPS; i++) {
        assert_int_equal(one.clips[i].rows, many.clips[i].rows);
        assert_int_equal(one.clips[i].valid, many.clips[i].valid);
        assert_memory_equal(one.clips[i].x, many.clips[i].x,
                            (size_t)(one.clips[i].rows * FRONT_COLUMNS) * sizeof *one.clips[i].x);
        FREE(one.clips[i].x, many.clips[i].x);
    }
    index_front_close(one.front);
    index_front_close(many.front);
    free(one.samples);
}

int main(void) { return tests_run(open_front, close_front); }
