/* The checks and counts of operations between ranks, on the dry group, and the arithmetic of reductions. */
#include "kernels/device_open.h"
#include "kernels/group.h"
#include "kernels/mpi.h"
#include "kernels/reduce.h"
#include "tests/test.h"

static float numbers[64];
static uint16_t halves[64];
static int32_t integers[64];

static Tensor floats(int64_t from, int64_t n) { return tensor_1d(numbers + from, DTYPE_F32, n); }

TEST(a_dry_group_counts_what_its_rank_sends) {
    Device *device = dry_device_open();
    Group *group = group_dry(1, 4);
    group_all_reduce(group, device, floats(0, 9), REDUCE_SUM);
    assert_near(group->sent, 2 * 3 * 3 * 4, 0); /* parts of ceil(9 / 4) */
    group_reduce_scatter(group, device, floats(5, 5), floats(0, 20), REDUCE_MAX);
    assert_near(group->sent, 72 + 3 * 5 * 4, 0);
    group_all_gather(group, device, tensor_1d(halves, DTYPE_BF16, 20), tensor_1d(halves + 40, DTYPE_BF16, 5));
    assert_near(group->sent, 132 + 3 * 5 * 2, 0);
    group_broadcast(group, device, tensor_1d(integers, DTYPE_I32, 7), 0);
    assert_near(group->sent, 162, 0); /* the root sends */
    group_broadcast(group, device, tensor_1d(integers, DTYPE_I32, 7), 1);
    assert_near(group->sent, 162 + 3 * 7 * 4, 0);
    group_barrier(group);
    assert_int_equal(group->calls, 6);
    assert_near(group->seconds, 0, 0);
    group_close(group);
    device_close(device);
}

TEST(a_dry_group_changes_no_numbers) {
    Device *device = cpu_device_open(1);
    Group *group = group_dry(0, 2);
    for (int i = 0; i < 8; i++) numbers[i] = (float)i;
    group_all_reduce(group, device, floats(0, 8), REDUCE_SUM);
    group_reduce_scatter(group, device, floats(8, 4), floats(0, 8), REDUCE_SUM);
    group_all_gather(group, device, floats(0, 8), floats(8, 4));
    for (int i = 0; i < 8; i++) assert_near(numbers[i], i, 0);
    group_close(group);
    device_close(device);
}

TEST(empty_tensors_are_counted_as_calls) {
    Device *device = cpu_device_open(1);
    Group *group = group_dry(0, 3);
    group_all_reduce(group, device, floats(0, 0), REDUCE_SUM);
    group_reduce_scatter(group, device, floats(0, 0), floats(0, 0), REDUCE_SUM);
    group_all_gather(group, device, floats(0, 0), floats(0, 0));
    group_broadcast(group, device, floats(0, 0), 2);
    assert_int_equal(group->calls, 4);
    assert_near(group->sent, 0, 0);
    group_close(group);
    device_close(device);
}

static void download_apart(Device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    memcpy(to, from, bytes);
    ((char *)device->state)[0]++;
}

TEST(one_rank_copies_its_part) {
    Device *device = cpu_device_open(1), apart = *device;
    char downloads[1] = {0};
    apart.host_memory = false, apart.download = download_apart, apart.state = downloads;
    Group *group = group_dry(0, 1);
    for (int d = 0; d < 2; d++) {
        for (int i = 0; i < 8; i++) numbers[i] = (float)i;
        Device *on = d ? &apart : device;
        group_all_reduce(group, on, floats(0, 4), REDUCE_SUM);
        group_reduce_scatter(group, on, floats(8, 4), floats(0, 4), REDUCE_SUM);
        for (int i = 0; i < 4; i++) assert_near(numbers[8 + i], i, 0);
        group_all_gather(group, on, floats(0, 4), floats(4, 4));
        for (int i = 0; i < 4; i++) assert_near(numbers[i], 4 + i, 0);
        group_all_gather(group, on, floats(0, 4), floats(0, 4));
        group_barrier(group);
    }
    assert_int_equal(downloads[0], 2);
    assert_near(group->sent, 0, 0);
    group_close(group);
    device_close(device);
}

typedef struct {
    Tensor a, b;
    int root;
    char operation; /* reduces, scatters, gathers, broadcasts */
    Reduction reduction;
    const char *message;
} Refused;

static void call(void *argument) {
    const Refused *r = argument;
    Device *device = dry_device_open();
    Group *group = group_dry(1, 2);
    if (r->operation == 'r') group_all_reduce(group, device, r->a, r->reduction);
    if (r->operation == 's') group_reduce_scatter(group, device, r->a, r->b, r->reduction);
    if (r->operation == 'g') group_all_gather(group, device, r->b, r->a);
    if (r->operation == 'b') group_broadcast(group, device, r->a, r->root);
}

TEST(wrong_tensors_are_refused_by_name) {
    Tensor i32 = tensor_1d(integers, DTYPE_I32, 4), table = tensor_2d(numbers, DTYPE_F32, 2, 2);
    Refused cases[] = {
        {table, .operation = 'r', .message = "all_reduce: x is f32 [2, 2], expected f32, bf16, f16 or i32 [any]"},
        {tensor_none(), .operation = 'r', .message = "all_reduce: x is none, expected f32, bf16, f16 or i32 [any]"},
        {floats(0, 4), .operation = 'r', .reduction = (Reduction)2,
         .message = "all_reduce: the reduction is 2, expected REDUCE_SUM or REDUCE_MAX"},
        {floats(8, 4), floats(0, 7), .operation = 's', .message = "reduce_scatter: all is f32 [7], expected"},
        {i32, floats(0, 8), .operation = 's', .message = "reduce_scatter: all is f32 [8], expected i32 as mine is"},
        {i32, floats(0, 8), .operation = 'g', .message = "all_gather: all is f32 [8], expected i32 as mine is"},
        {floats(0, 4), table, .operation = 'g', .message = "all_gather: all is f32 [2, 2], expected"},
        {floats(0, 4), floats(0, 8), .operation = 'g',
         .message = "all_gather: mine lies 0 bytes behind the beginning of all f32 [8], expected part 1, 16 bytes"},
        {floats(5, 4), floats(0, 8), .operation = 's', .message = "reduce_scatter: mine lies 20 bytes behind"},
        {tensor_1d(integers, DTYPE_I64, 4), .operation = 'b', .message = "broadcast: x is i64 [4], expected f32, bf16"},
        {i32, .operation = 'b', .root = 2, .message = "broadcast: the root is 2, expected a rank of 0 to 1"},
        {i32, .operation = 'b', .root = -1, .message = "broadcast: the root is -1, expected a rank of 0 to 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char output[512];
        assert_int_equal(run_function(output, sizeof output, call, &cases[i]), 1);
        assert_contains(output, cases[i].message);
    }
}

static void open_beyond(void *unused) {
    (void)unused;
    group_dry(2, 2);
}

TEST(a_rank_beyond_the_size_is_refused) {
    char output[512];
    assert_int_equal(run_function(output, sizeof output, open_beyond, NULL), 1);
    assert_contains(output, "rank 2 of 2: expected a rank of 0 to 1");
}

TEST(a_program_without_mpi_says_how_to_build_one_with_it) {
    Error error;
    assert_null(mpi_group_open(0, 2, &error));
    assert_contains(error.text, "this program was built without MPI");
    assert_contains(error.text, "make MPI=1");
    assert_null(mpi_library());
}

/* Rounds to a number of so many bits whose last is at least 2^lowest, with the host's own rounding to even. */
static double rounded(double x, int bits, int lowest, double most) {
    if (!isfinite(x) || x == 0) return x;
    int last = ilogb(x) - bits + 1;
    if (last < lowest) last = lowest;
    double result = ldexp(nearbyint(ldexp(x, -last)), last);
    return fabs(result) > most ? copysign(INFINITY, x) : result;
}

/* Returns the value of 16 bits, by the definition of the format: exponent bits, fraction bits. */
static double value_of(uint16_t x, int exponent_bits, int fraction_bits) {
    int exponent = x >> fraction_bits & ((1 << exponent_bits) - 1), fraction = x & ((1 << fraction_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = x >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
    if (!exponent) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static void check_16_bits(DType dtype, int exponent_bits) {
    int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    double most = ldexp(2 - ldexp(1, -fraction_bits), bias);
    static uint16_t parts[3 << 16], sums[1 << 16];
    for (int i = 0; i < 3 << 16; i++)
        parts[i] = (uint16_t)(i < 1 << 16 ? (uint32_t)i : (uint32_t)i * 2654435761u >> 13);
    reduce_parts(sums, parts, dtype, 3, 1 << 16, REDUCE_SUM, 2);
    for (int i = 0; i < 1 << 16; i++) {
        float sum = (float)value_of(parts[i], exponent_bits, fraction_bits);
        for (int p = 1; p < 3; p++) sum += (float)value_of(parts[i + (p << 16)], exponent_bits, fraction_bits);
        double want = rounded(sum, fraction_bits + 1, 1 - bias - fraction_bits, most);
        double got = value_of(sums[i], exponent_bits, fraction_bits);
        if (isnan(want) ? !isnan(got) : got != want || signbit(got) != signbit(want))
            fail_msg("%s %04x + %04x + %04x: got %g, want %g", dtype_name(dtype), parts[i], parts[i + (1 << 16)],
                     parts[i + (2 << 16)], got, want);
    }
    reduce_parts(sums, parts, dtype, 1, 1 << 16, REDUCE_SUM, 1);
    for (int i = 0; i < 1 << 16; i++)
        if (!isnan(value_of(parts[i], exponent_bits, fraction_bits))) assert_int_equal(sums[i], parts[i]);
}

TEST(sums_of_16_bit_numbers_are_rounded_once) {
    check_16_bits(DTYPE_BF16, 8);
    check_16_bits(DTYPE_F16, 5);
}

TEST(sums_of_two_f16_that_lie_between_two_round_to_even) {
    enum { N = 1 << 16 };
    static uint16_t parts[2 * N], sums[N];
    for (int i = 0; i < N; i++) parts[i] = (uint16_t)i, parts[N + i] = (uint16_t)(i ^ (i >> 3 & 0x400) ^ 0x1401);
    reduce_parts(sums, parts, DTYPE_F16, 2, N, REDUCE_SUM, 1);
    for (int i = 0; i < N; i++) {
        double want = rounded((float)(value_of(parts[i], 5, 10) + value_of(parts[N + i], 5, 10)), 11, -24, 65504);
        double got = value_of(sums[i], 5, 10);
        assert_true(isnan(want) ? isnan(got) : got == want);
    }
}

TEST(sums_are_added_in_the_order_of_the_ranks) {
    float parts[3] = {1e8f, 3, -1e8f}, sum;
    reduce_parts(&sum, parts, DTYPE_F32, 3, 1, REDUCE_SUM, 1);
    volatile float first = 1e8f + 3.0f;
    assert_near(sum, first - 1e8f, 0);
}

TEST(a_maximum_of_a_nan_is_nan) {
    float parts[3][4] = {{NAN, 1, 1, -INFINITY}, {2, NAN, 5, -INFINITY}, {3, 3, -INFINITY, -INFINITY}}, most[4];
    reduce_parts(most, parts, DTYPE_F32, 3, 4, REDUCE_MAX, 1);
    assert_true(isnan(most[0]) && isnan(most[1]));
    assert_near(most[2], 5, 0);
    assert_true(isinf(most[3]) && most[3] < 0);
}
