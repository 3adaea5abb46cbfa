/* The codebook: k-means training, and the search for the nearest entry. */
#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"
#include "data/kmeans.h"
#include "kernels/philox.h"
#include "tests/test.h"

static Error error;

enum { WIDTH = 20, CLUSTERS = 7, EACH = 300 };

static float normal(uint32_t step, uint64_t element) { return philox_normal(5, PURPOSE_TEST, step, element); }

/* Returns normal numbers of deviation `spread` around CLUSTERS points whose coordinates have deviation 10; free().
 * Frame i belongs to point i % CLUSTERS. */
static float *make_clusters(float spread) {
    float *frames = xmalloc(CLUSTERS * EACH * WIDTH * sizeof *frames);
    for (int i = 0; i < CLUSTERS * EACH; i++)
        for (int j = 0; j < WIDTH; j++)
            frames[i * WIDTH + j] =
                10 * normal(0, (uint64_t)(i % CLUSTERS * WIDTH + j)) + spread * normal(1, (uint64_t)(i * WIDTH + j));
    return frames;
}

/* Returns [n, width] normal numbers; free(). */
static float *make_noise(int64_t n, int64_t width) {
    float *frames = xmalloc((size_t)(n * width) * sizeof *frames);
    for (int64_t i = 0; i < n * width; i++) frames[i] = normal(2, (uint64_t)i);
    return frames;
}

typedef struct {
    double inertia[200];
    int count;
} Course;

static void follow(void *context, int iteration, double inertia) {
    Course *course = context;
    assert_int_equal(iteration, course->count);
    course->inertia[course->count++] = inertia;
}

static Codebook train(float *frames, int64_t n, int64_t width, int64_t entries, int iterations, int threads,
                      Course *course, KmeansReport *report) {
    KmeansOptions options = {entries, iterations, 11, threads, course ? follow : NULL, course};
    Codebook codebook;
    if (!kmeans_train(frames, n, width, &options, &codebook, report, &error)) fail_msg("%s", error.text);
    return codebook;
}

/* Frames have the same code if and only if they are of the same cluster. The inertia is that of the clusters: spread^2
 * in each of WIDTH directions, times 1 - 1/EACH because the mean is estimated. */
TEST(separated_clusters_are_found) {
    float *frames = make_clusters(0.1f), *shuffled = make_clusters(0.1f);
    int32_t codes[CLUSTERS * EACH];
    KmeansReport report;
    Codebook c = train(shuffled, CLUSTERS * EACH, WIDTH, CLUSTERS, 50, 2, NULL, &report);
    codebook_assign(&c, frames, CLUSTERS * EACH, codes, NULL);
    for (int i = 0; i < CLUSTERS * EACH; i++) assert_int_equal(codes[i], codes[i % CLUSTERS]);
    for (int i = 0; i < CLUSTERS; i++)
        for (int j = 0; j < i; j++) assert_int_not_equal(codes[i], codes[j]);
    double degrees = (double)CLUSTERS * (EACH - 1) * WIDTH, expected = 0.01 * degrees;
    assert_true(fabs(report.inertia - expected) < 5 * 0.01 * sqrt(2 * degrees)); /* five standard deviations */
    assert_int_equal(report.reseeded, 0);
    codebook_close(&c);
    free(frames);
    free(shuffled);
}

TEST(inertia_never_rises) {
    float *frames = make_noise(5000, WIDTH);
    Course course = {.count = 0};
    KmeansReport report;
    Codebook c = train(frames, 5000, WIDTH, 100, 100, 2, &course, &report);
    assert_true(course.count > 5);
    assert_int_equal(course.count, report.iterations + 1);
    for (int i = 1; i < course.count; i++) assert_true(course.inertia[i] <= course.inertia[i - 1]);
    assert_true(report.inertia == course.inertia[course.count - 1]);
    codebook_close(&c);
    free(frames);
}

TEST(threads_do_not_change_a_bit) {
    KmeansReport reports[3];
    Codebook books[3];
    int threads[3] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        float *frames = make_noise(9001, 80);
        books[i] = train(frames, 9001, 80, 333, 6, threads[i], NULL, &reports[i]);
        free(frames);
    }
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(books[i].centroids, books[0].centroids, 333 * 80 * sizeof(float));
        assert_true(reports[i].inertia == reports[0].inertia);
    }
    for (int i = 0; i < 3; i++) codebook_close(&books[i]);
}

TEST(the_seed_changes_the_codebook) {
    float *frames[2] = {make_noise(1000, WIDTH), make_noise(1000, WIDTH)};
    Codebook books[2];
    KmeansReport report;
    for (int i = 0; i < 2; i++) {
        KmeansOptions options = {50, 3, (uint64_t)i, 1, NULL, NULL};
        assert_true(kmeans_train(frames[i], 1000, WIDTH, &options, &books[i], &report, &error));
    }
    assert_memory_not_equal(books[0].centroids, books[1].centroids, 50 * WIDTH * sizeof(float));
    for (int i = 0; i < 2; i++) {
        codebook_close(&books[i]);
        free(frames[i]);
    }
}

/* Sizes are near multiples of the lanes and blocks of the search. The found entry may be farther than the nearest one
 * only by the error of float32: products of WIDTH terms, each rounded to 2^-24 of |x| |c|. */
TEST(codes_are_the_nearest_entries) {
    static const int sizes[] = {1, 2, 15, 16, 17, 31, 33, 100, 1000};
    float *frames = make_noise(300, WIDTH);
    int32_t codes[300];
    float squared[300];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        float *entries = xmalloc((size_t)sizes[s] * WIDTH * sizeof *entries);
        for (int i = 0; i < sizes[s] * WIDTH; i++) entries[i] = normal(3, (uint64_t)i);
        Codebook c = codebook_of(entries, sizes[s], WIDTH);
        codebook_assign(&c, frames, 300, codes, squared);
        for (int i = 0; i < 300; i++) {
            double nearest = INFINITY, found = 0;
            for (int k = 0; k < sizes[s]; k++) {
                double sum = 0;
                for (int j = 0; j < WIDTH; j++) {
                    double d = (double)frames[i * WIDTH + j] - (double)entries[k * WIDTH + j];
                    sum += d * d;
                }
                nearest = fmin(nearest, sum);
                if (k == codes[i]) found = sum;
            }
            assert_true(found - nearest <= 2 * WIDTH * 0x1p-24 * 100); /* |x|, |c| < 10 here */
            assert_true(fabs((double)squared[i] - found) <= WIDTH * 0x1p-24 * found);
        }
        codebook_close(&c);
    }
    free(frames);
}

/* Entries are permutations of one, and all numbers of a frame are equal: exact products would be equal, and rounding
 * chooses the code. */
TEST(a_code_does_not_depend_on_the_other_frames) {
    enum { N = 200, ENTRIES = 37, WIDE = 300 };
    float *entries = xmalloc(ENTRIES * WIDE * sizeof *entries), *frames = xmalloc(N * WIDE * sizeof *frames);
    for (int i = 0; i < ENTRIES * WIDE; i++) entries[i] = normal(4, (uint64_t)((i + i / WIDE * 7) % WIDE));
    for (int i = 0; i < N * WIDE; i++) frames[i] = normal(5, (uint64_t)(i / WIDE));
    Codebook c = codebook_of(entries, ENTRIES, WIDE);
    int32_t all[N], some[N];
    codebook_assign(&c, frames, N, all, NULL);
    for (int n = 1; n < N; n += 9) {
        codebook_assign(&c, frames + (N - n) * WIDE, n, some, NULL);
        assert_memory_equal(some, all + N - n, (size_t)n * sizeof *some);
    }
    codebook_close(&c);
    free(frames);
}

TEST(equal_entries_give_the_lowest_code) {
    float *entries = xcalloc(50, sizeof *entries), frames[3] = {0, 1, 2};
    for (int i = 0; i < 50; i++) entries[i] = (float)(i % 3);
    Codebook c = codebook_of(entries, 50, 1);
    int32_t codes[3];
    codebook_assign(&c, frames, 3, codes, NULL);
    assert_true(codes[0] == 0 && codes[1] == 1 && codes[2] == 2);
    codebook_close(&c);
}

/* There are thirty distinct frames, one as common as digital silence, and thirty entries: each frame gets its own
 * entry, exactly. */
TEST(every_kind_of_frame_gets_an_entry) {
    enum { KINDS = 30, FRAMES = 3000 };
    float *kinds = make_noise(KINDS, WIDTH), *frames = xmalloc(FRAMES * WIDTH * sizeof *frames);
    for (int i = 0; i < FRAMES; i++)
        memcpy(frames + i * WIDTH, kinds + (i < 200 ? i % KINDS : 0) * WIDTH, WIDTH * sizeof *frames);
    KmeansReport report;
    Codebook c = train(frames, FRAMES, WIDTH, KINDS, 10, 2, NULL, &report);
    assert_int_equal(report.distinct, KINDS);
    assert_true(report.inertia == 0);
    codebook_close(&c);
    free(kinds);
    free(frames);
}

TEST(too_few_kinds_of_frames_are_an_error) {
    float *frames = xcalloc(100 * WIDTH, sizeof *frames);
    for (int i = 0; i < 100; i++) frames[i * WIDTH] = (float)(i % 9);
    KmeansOptions options = {10, 10, 1, 2, NULL, NULL};
    Codebook codebook;
    KmeansReport report;
    assert_false(kmeans_train(frames, 100, WIDTH, &options, &codebook, &report, &error));
    assert_string_equal(error.text, "9 different frames cannot fill a codebook of 10 entries");
    free(frames);
}

/* Assigns a frame when only 2 MiB more may be mapped. */
static void assign_without_room(void *unused) {
    (void)unused;
    const size_t much = (size_t)1 << 40;
    const char *limit;
    float frame[WIDTH] = {0};
    Codebook c = codebook_of(xcalloc(50 * WIDTH, sizeof(float)), 50, WIDTH);
    int32_t code;
    setrlimit(RLIMIT_AS, &(struct rlimit){much, much});
    size_t most = much - limits_left(&limit) + ((size_t)2 << 20);
    setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
    codebook_assign(&c, frame, 1, &code, NULL);
    _exit(0);
}

/* Must be the first test, because oneDNN compiles its code only once. */
TEST(missing_room_for_compiled_code_is_reported) {
#ifdef __SANITIZE_ADDRESS__
    print_message("SKIPPED: a limit of addresses, under the sanitizer\n");
    skip(); /* the sanitizer alone needs more */
#endif
    char output[1024];
    int status = run_function(output, sizeof output, assign_without_room, NULL);
    if (status != 1) fail_msg("status %d: %s", status, output);
    assert_contains(output, "ulimit -v leaves ");
}
