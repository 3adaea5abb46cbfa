/* The number of threads: OpenMP variables are overruled or refused, and the number changes no bit of the results of the
 * cpu device. */
#include "kernels/device_open.h"
#include "tests/test.h"

#include "kernels/ops.h"
#include "kernels/philox.h"

enum { DEVICES = 4, OUTPUTS = 4 };
static const int threads[DEVICES] = {1, 2, 3, 8};
static Device *devices[DEVICES];

static int open_devices(void **state) {
    (void)state;
    for (int d = 0; d < DEVICES; d++) devices[d] = cpu_device_open(threads[d]);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    for (int d = 0; d < DEVICES; d++) device_close(devices[d]);
    return 0;
}

static Tensor normal(uint64_t seed, int64_t rows, int64_t columns) {
    int64_t n = rows * (columns ? columns : 1);
    float *data = xmalloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = philox_normal(seed, PURPOSE_TEST, 0, (uint64_t)i);
    return columns ? tensor_2d(data, DTYPE_F32, rows, columns) : tensor_1d(data, DTYPE_F32, rows);
}

/* The arguments of an operation that are the same for all devices, and the call. */
typedef struct {
    Tensor in[4];
    int sizes[4];
} Given;
typedef void Call(Device *device, const Given *given, Tensor *outputs);

/* Calls an operation with outputs of these shapes on every device. Fails unless all outputs have the same bytes. */
static void expect_same_bytes(const char *what, Call *call, const Given *given, const int64_t (*shapes)[2], int n) {
    Tensor first[OUTPUTS], outputs[OUTPUTS];
    for (int d = 0; d < DEVICES; d++) {
        Tensor *to = d ? outputs : first;
        for (int i = 0; i < n; i++) to[i] = normal(90 + (uint64_t)i, shapes[i][0], shapes[i][1]);
        call(devices[d], given, to);
        for (int i = 0; i < n && d; i++) {
            if (memcmp(to[i].data, first[i].data, (size_t)tensor_numel(to[i]) * sizeof(float)))
                fail_msg("%s, output %d: %d threads and 1 thread give different bits", what, i, threads[d]);
            free(to[i].data);
        }
    }
    for (int i = 0; i < n; i++) free(first[i].data);
    for (int i = 0; i < 4; i++) free(given->in[i].data);
}

static void linear(Device *device, const Given *g, Tensor *out) {
    WeightLayout layout = (WeightLayout)g->sizes[0];
    linear_forward(device, out[0], g->in[0], g->in[1], g->in[2], layout);
    linear_backward(device, (LayerGradients){.dx = out[1], .dw = out[2], .dbias = out[3]}, g->in[3], g->in[0], g->in[1],
                    layout);
}

/* Few rows with long sums, many rows with short sums, and sizes that are not multiples of a tile. */
TEST(linear_layers_of_any_shape_have_the_same_bits) {
    static const int64_t sizes[][3] = {{20, 256, 2048}, {20, 2048, 256}, {7, 1024, 256},  {64, 256, 1024},
                                       {1, 512, 300},   {4100, 24, 50},  {530, 128, 384}, {300, 130, 257}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int layout = 0; layout < 2; layout++) {
            int64_t n = sizes[i][0], in = sizes[i][1], out = sizes[i][2];
            bool out_in = (WeightLayout)layout == WEIGHT_OUT_IN;
            int64_t rows = out_in ? out : in, columns = out_in ? in : out;
            Given given = {{normal(1, n, in), normal(2, rows, columns), normal(3, out, 0), normal(4, n, out)},
                           {layout}};
            const int64_t shapes[][2] = {{n, out}, {n, in}, {rows, columns}, {out, 0}};
            char *what = kept_format("linear %d x %d x %d, layout %d", (int)n, (int)in, (int)out, layout);
            expect_same_bytes(what, linear, &given, shapes, 4);
        }
}

static void convolution(Device *device, const Given *g, Tensor *out) {
    int t = g->sizes[1];
    Convolution c = {{g->sizes[0], 5, 6}, {t, t, t}, {g->sizes[2], 1, 1}, {t / 2, t / 2, t / 2}};
    conv3d_forward(device, out[0], g->in[0], g->in[1], tensor_none(), c);
    conv3d_backward(device, (LayerGradients){.dx = out[1], .dw = out[2]}, g->in[2], g->in[0], g->in[1], c, true);
}

/* Convolutions of 3 x 3 x 3 and of shortcuts, with few samples and many, and frames that are not multiples of a slab.
 */
TEST(convolutions_of_any_shape_have_the_same_bits) {
    static const int sizes[][6] = {/* samples, frames, in, out, taps, stride */
                                   {4, 32, 32, 64, 3, 1}, {4, 32, 32, 64, 1, 1}, {1, 64, 16, 16, 3, 1},
                                   {40, 9, 8, 8, 3, 1},   {3, 17, 8, 24, 3, 2},  {2, 1, 8, 8, 3, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int *s = sizes[i];
        int64_t plane = 30, rows = s[0] * s[1] * plane, halved = s[0] * ((s[1] - 1) / s[5] + 1) * plane;
        int64_t taps = (int64_t)s[4] * s[4] * s[4];
        Given given = {{normal(1, rows, s[2]), normal(2, s[3], s[2] * taps), normal(3, halved, s[3])},
                       {s[1], s[4], s[5]}};
        const int64_t shapes[][2] = {{halved, s[3]}, {rows, s[2]}, {s[3], s[2] * taps}};
        char *what = kept_format("convolution %d of %d x %d, %d to %d channels", s[4], s[0], s[1], s[2], s[3]);
        expect_same_bytes(what, convolution, &given, shapes, 3);
    }
}

static void attend(Device *device, const Given *g, Tensor *out) {
    int32_t offsets[] = {0, g->sizes[0]};
    Tensor on_device = tensor_1d(offsets, DTYPE_I32, 2);
    Sequences sequences = {.offsets = on_device, .host_offsets = offsets, .count = 1};
    Attention attention = {.n_heads = g->sizes[1], .scale = 0.125f, .causal = true};
    attention_forward(device, out[0], out[1], g->in[0], sequences, attention, (Dropout){0});
    attention_backward(device, out[2], g->in[1], (AttentionActivations){.qkv = g->in[0], .out = out[0], .lse = out[1]},
                       sequences, attention, (Dropout){0});
}

TEST(attention_of_few_heads_has_the_same_bits) {
    for (int heads = 1; heads <= 4; heads += 3) {
        int n = 400, c = 64 * heads;
        Given given = {{normal(1, n, 3 * c), normal(2, n, c)}, {n, heads}};
        const int64_t shapes[][2] = {{n, c}, {heads, n}, {n, 3 * c}};
        expect_same_bytes("attention", attend, &given, shapes, 3);
    }
}

/* ---- the environment ---- */

static char output[1 << 14];
static const char *itself;

/* Opens a device of n threads, and prints how many threads run and the hash of a product. Runs in a child that has an
 * environment of its own. */
static int print_threads(int n) {
    Device *device = cpu_device_open(n);
    Tensor x = normal(1, 20, 256), w = normal(2, 2048, 256), y = normal(3, 20, 2048);
    int came = 0;
#pragma omp parallel num_threads(device->n_threads) reduction(+ : came)
    came++;
    linear_forward(device, y, x, w, tensor_none(), WEIGHT_OUT_IN);
    printf("%d threads ran; %016llx\n", came,
           (unsigned long long)hash_bytes(HASH_START, y.data, (size_t)tensor_numel(y) * sizeof(float)));
    free(x.data);
    free(w.data);
    free(y.data);
    device_close(device);
    return 0;
}

/* Runs print_threads in a new process of this program, after the words `before`. */
static int run_itself(const char *before, int n) {
    return run_command(output, sizeof output, "%s %s %d", before, itself, n);
}

TEST(openmp_variables_are_overruled) {
    char one_core[32];
    snprintf(one_core, sizeof one_core, "taskset -c %d", first_cpu());
    const char *const asked[] = {"env",
                                 "OMP_DYNAMIC=true",
                                 "OMP_MAX_ACTIVE_LEVELS=0",
                                 "OMP_NUM_THREADS=1",
                                 "OMP_NUM_THREADS=5,2,2 OMP_NESTED=true",
                                 "OMP_NESTED=false OMP_DYNAMIC=true OMP_NUM_THREADS=2",
                                 one_core};
    char *usual = NULL;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        if (run_itself(asked[i], 3)) fail_msg("%s: %s", asked[i], output);
        assert_contains(output, "3 threads ran");
        if (i && strcmp(output, usual)) fail_msg("%s: %sand otherwise %s", asked[i], output, usual);
        if (!i) usual = xstrdup(output);
    }
    free(usual);
}

TEST(a_limit_below_the_requested_threads_is_refused) {
    assert_int_equal(run_itself("OMP_THREAD_LIMIT=2", 3), 2);
    assert_contains(output, "--threads: OMP_THREAD_LIMIT=2 allows only 2 of 3 threads: unset it, or give --threads 2");
    assert_int_equal(run_itself("OMP_THREAD_LIMIT=2", 2), 0);
    assert_int_equal(run_itself("OMP_STACKSIZE=32k", 3), 1);
    assert_contains(output, "--threads: threads have a stack of 32 kB and need 256 kB");
}

TEST(too_many_threads_for_the_memory_are_refused) {
    skip_under_sanitizer("a limit of the address space"); /* the sanitizer alone needs more */
    assert_int_equal(run_itself("ulimit -s 8192; ulimit -v 1500000;", 500), 1);
    assert_contains(output, "of 500 threads (Resource temporarily unavailable): raise the limit (ulimit -u");
}

/* oneDNN does not check that it got memory for its compiled code, and would crash. */
TEST(too_little_memory_for_compiled_code_is_refused) {
    skip_under_sanitizer("a limit of the address space"); /* the sanitizer alone needs more */
    char before[32];
    int refused = 0, status = 1;
    for (int megabytes = 64; status; megabytes += 3) {
        assert_true(megabytes < 300);
        snprintf(before, sizeof before, "ulimit -v %d;", megabytes << 10);
        status = run_itself(before, 2);
        if (status > 1 && status != 127) /* 127: libraries could not be loaded */
            fail_msg("%s status %d: %s", before, status, output);
        refused +=
            strstr(output, "ulimit -v leaves ") && strstr(output, "oneDNN's code may need 33.6 MB: raise the limit");
    }
    assert_true(refused > 3);
}

/* A parallel region without num_threads would ignore --threads: it has OMP_NUM_THREADS threads, or one after the first
 * product. */
TEST(every_parallel_region_sets_its_number_of_threads) {
    static const char teams[] = "cat *.c $(find base data kernels model train -name '*.c*' -o -name '*.h') | "
                                "grep 'pragma omp parallel'";
    assert_int_equal(run_command(output, sizeof output, "%s | grep -c num_threads", teams), 0);
    assert_true(atoi(output) > 50);
    if (!run_command(output, sizeof output, "%s | grep -v num_threads", teams)) fail_msg("%s", output);
}

int main(int argc, char **argv) {
    if (argc > 1) return print_threads(atoi(argv[1]));
    itself = argv[0];
    return tests_run(open_devices, close_devices);
}
