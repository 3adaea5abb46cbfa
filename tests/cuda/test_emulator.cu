/* The emulator itself: a zoo of the mistakes that kernels and their host code make, each of which must be seen. Every
 * bug runs in a child, which it may end. What sees it depends on the build: the plain one has the schedule (some seed
 * gives a wrong result) and the rules of warps and barriers, make test-asan adds bounds, make test-race the checker. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/emulate/emulate_control.h"
#include "tests/cuda/counting.h"

#if defined __SANITIZE_ADDRESS__
#define ADDRESS_SANITIZER true
#elif defined __has_feature
#define ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define ADDRESS_SANITIZER false
#endif

static const unsigned ALL = 0xFFFFFFFFu;

/* ---- memory ---- */

__global__ void read_vector(float *out, const float *x) { out[threadIdx.x] = load_vector(x + 1)[0]; }
static void misaligned_vector() { gpu_launch(read_vector, 1, 32, 0, 0, counting(32), counting(64)); }

__global__ void read_float4(float *out, const float *x) {
    float4 v = *reinterpret_cast<const float4 *>(x + 1);
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
static void misaligned_float4() { gpu_launch(read_float4, 1, 32, 0, 0, counting(32), counting(64)); }

__global__ void copy_packs(float *out, const float *x) { store_pack(out + threadIdx.x * 4, load_pack<4>(x)); }
static void misaligned_load_of_a_pack() { gpu_launch(copy_packs, 1, 8, 0, 0, counting(32), counting(64) + 2); }
static void misaligned_store_of_a_pack() { gpu_launch(copy_packs, 1, 8, 0, 0, counting(64) + 2, counting(32)); }

static void global_memory_beyond_the_end() { gpu_launch(copy, 1, 32, 0, 0, counting(32), counting(31)); }

static void freed_memory() {
    float *x = counting(32), *out = counting(32);
    cudaFree(x);
    gpu_launch(copy, 1, 32, 0, 0, out, x);
}

static void memory_that_was_never_written() {
    float *x, *out = counting(32);
    cudaMalloc((void **)&x, 32 * sizeof(float));
    gpu_launch(copy, 1, 32, 0, 0, out, x);
    expect(out, 32, [](int) { return 0.0f; });
}

static void host_memory_in_a_kernel() {
    std::vector<float> x(32, 1.0f);
    gpu_launch(copy, 1, 32, 0, 0, counting(32), x.data());
    cudaDeviceSynchronize();
}

static void device_memory_on_the_host() { counting(1)[0] = 3; }

__global__ void overrun_static(float *out, int n) {
    SHARED(float, s, [32]);
    float *beyond = s + n; /* a pointer: UBSan knows the bounds of an array */
    s[threadIdx.x] = 0;
    if (threadIdx.x == 0) *beyond = 1;
    out[threadIdx.x] = s[threadIdx.x];
}
static void static_shared_memory_beyond_the_end() { gpu_launch(overrun_static, 1, 32, 0, 0, counting(32), 32); }

__global__ void overrun_dynamic(float *out) {
    DYNAMIC_SHARED(float, s);
    s[threadIdx.x + 1] = 1;
    out[threadIdx.x] = 0;
}
static void dynamic_shared_memory_beyond_the_end() {
    gpu_launch(overrun_dynamic, 1, 32, 32 * sizeof(float), 0, counting(32));
}

__global__ void half_written(float *out) {
    SHARED(float, s, [64]);
    s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + 1];
}
static void shared_memory_that_was_never_written() {
    float *out = counting(32);
    gpu_launch(half_written, 1, 32, 0, 0, out);
    expect(out, 32, [](int i) { return i < 31 ? 1.0f : 0.0f; }); /* what it gives where memory begins as zeros */
}

__global__ void use_both(float *out, int n) {
    SHARED(float, s, [8192]);
    DYNAMIC_SHARED(float, dynamic);
    for (int i = threadIdx.x; i < n; i += 32) dynamic[i] = 1;
    s[threadIdx.x] = 1;
    out[threadIdx.x] = s[threadIdx.x];
}
/* 32 KB and 20 KB: each alone would do. */
static void static_and_dynamic_shared_memory_beyond_48_kb() {
    gpu_launch(use_both, 1, 32, 20 << 10, 0, counting(32), 5 << 10);
}
/* 32 KB and 40 KB on a card that has 64 KB for a block. */
static void static_and_dynamic_shared_memory_beyond_the_card() {
    setenv("EMULATE_CARD", "t4", 1);
    cudaFuncSetAttribute((const void *)use_both, cudaFuncAttributeMaxDynamicSharedMemorySize, 40 << 10);
    gpu_launch(use_both, 1, 32, 1 << 10, 0, counting(32), 1 << 8); /* it has asked for more than it takes here */
}

/* ---- barriers and warp operations ---- */

__global__ void two_barriers(float *out) {
    if (threadIdx.x < 16) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 0;
}
static void barriers_in_two_branches() { gpu_launch(two_barriers, 1, 32, 0, 0, counting(32)); }

__global__ void return_before_barrier(float *out) {
    if (threadIdx.x >= 16) return;
    __syncthreads();
    out[threadIdx.x] = 0;
}
static void barrier_without_the_threads_that_returned() {
    gpu_launch(return_before_barrier, 1, 32, 0, 0, counting(32));
}

__global__ void shuffle_in_branch(float *out) {
    float x = 0;
    if (threadIdx.x < 16) x = __shfl_xor_sync(ALL, 1.0f, 1);
    __syncthreads();
    out[threadIdx.x] = x;
}
static void whole_warp_operation_in_a_branch() { gpu_launch(shuffle_in_branch, 1, 32, 0, 0, counting(32)); }

__global__ void shuffle_outside_mask(float *out) { out[threadIdx.x] = __shfl_xor_sync(0xFFFFu, 1.0f, 1); }
static void lane_outside_its_mask() { gpu_launch(shuffle_outside_mask, 1, 32, 0, 0, counting(32)); }

__global__ void shuffle_from_outside(float *out) {
    int half = threadIdx.x & 16;
    out[threadIdx.x] = __shfl_sync(0xFFFFu << half, 1.0f, half ^ 16);
}
static void source_outside_the_mask() { gpu_launch(shuffle_from_outside, 1, 32, 0, 0, counting(32)); }

__global__ void different_operations(float *out) {
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_sync(ALL, 1.0f, 0);
    else
        out[threadIdx.x] = (float)__ballot_sync(ALL, 1);
}
static void two_operations_at_once() { gpu_launch(different_operations, 1, 32, 0, 0, counting(32)); }

__global__ void two_places(float *out) {
    float x = threadIdx.x;
    if (threadIdx.x < 16)
        x = __shfl_xor_sync(ALL, x, 16);
    else
        x = __shfl_xor_sync(ALL, x, 16);
    out[threadIdx.x] = x;
}
static void one_operation_at_two_places() { gpu_launch(two_places, 1, 32, 0, 0, counting(32)); }

/* ---- races ---- */

__global__ void neighbours(float *out) { /* no __syncwarp */
    SHARED(float, s, [32]);
    s[threadIdx.x] = (float)threadIdx.x + 1;
    out[threadIdx.x ^ 1] = s[threadIdx.x ^ 1];
}
static void read_before_a_lane_has_written() {
    float *out = counting(32);
    gpu_launch(neighbours, 1, 32, 0, 0, out);
    expect(out, 32, at);
}

__global__ void reversed(float *out, int n) { /* no __syncthreads */
    SHARED(float, s, [128]);
    s[threadIdx.x] = (float)threadIdx.x + 1;
    out[n - 1 - threadIdx.x] = s[n - 1 - threadIdx.x];
}
static void read_before_a_warp_has_written() {
    float *out = counting(128);
    gpu_launch(reversed, 1, 128, 0, 0, out, 128);
    expect(out, 128, at);
}

__global__ void sum_of_rounds(float *out, int n) {
    SHARED(float, s, [128]);
    float sum = 0;
    for (int round = 1; round <= 4; round++) {
        s[threadIdx.x] = (float)round;
        __syncthreads();
        sum += s[n - 1 - threadIdx.x];
        /* no __syncthreads: the next round may overwrite what others still have to read */
    }
    out[threadIdx.x] = sum;
}
static void written_before_a_warp_has_read() {
    float *out = counting(128);
    gpu_launch(sum_of_rounds, 1, 128, 0, 0, out, 128);
    expect(out, 128, [](int) { return 10.0f; });
}

__global__ void count_in_shared(float *out) {
    SHARED(float, counter, [1]);
    if (threadIdx.x == 0) counter[0] = 0;
    __syncthreads();
    counter[0] += 1; /* no atomicAdd */
    __syncthreads();
    out[threadIdx.x] = counter[0];
}
static void lost_update_in_a_block() { gpu_launch(count_in_shared, 1, 64, 0, 0, counting(64)); }

__global__ void count_in_global(float *out) {
    if (threadIdx.x == 0) *out += 1; /* no atomicAdd */
}
static void lost_update_between_blocks() { gpu_launch(count_in_global, 4, 32, 0, 0, counting(1)); }

__global__ void same_place(float *out) { out[threadIdx.x / 2] = (float)threadIdx.x; }
static void two_threads_write_one_place() { gpu_launch(same_place, 1, 32, 0, 0, counting(32)); }

__global__ void chain(float *x) {
    if (threadIdx.x == 0) x[blockIdx.x + 1] = x[blockIdx.x] + 1; /* as if blocks ran in order */
}
static void blocks_that_need_an_order() {
    float *x = counting(9);
    cudaMemset(x + 1, 0, 8 * sizeof(float));
    gpu_launch(chain, 8, 32, 0, 0, x);
    expect(x, 9, at);
}

/* ---- asynchronous copies and tensor cores ---- */

enum CopyBug { NONE, NOT_WAITED, READ_BEFORE_WAIT, ONE_GROUP_TOO_FEW, NO_BARRIER };
__global__ void copy_through_shared(float *out, const float *x, CopyBug bug) {
    SHARED(float, s, [256]);
    int t = threadIdx.x;
    copy_async_16(s + 4 * t, x + 4 * t);
    copy_async_commit();
    if (bug == NONE || bug == NO_BARRIER) copy_async_wait<0>();
    if (bug == ONE_GROUP_TOO_FEW) copy_async_wait<1>();
    if (bug != NO_BARRIER) __syncthreads();
    for (int i = 0; i < 4; i++) out[4 * t + i] = s[bug == NO_BARRIER ? 255 - (4 * t + i) : 4 * t + i];
    if (bug != NOT_WAITED) copy_async_wait<0>();
}
static void copy_with(CopyBug bug) {
    float *out = counting(256);
    cudaMemset(out, 0, 256 * sizeof(float));
    gpu_launch(copy_through_shared, 1, 64, 0, 0, out, counting(256), bug);
    if (bug == NO_BARRIER)
        expect(out, 256, [](int i) { return (float)(256 - i); });
    else
        expect(out, 256, at);
}
static void copy_never_waited_for() { copy_with(NOT_WAITED); }
static void copy_read_before_its_wait() { copy_with(READ_BEFORE_WAIT); }
static void wait_for_one_group_too_few() { copy_with(ONE_GROUP_TOO_FEW); }
static void copy_of_another_without_a_barrier() { copy_with(NO_BARRIER); }

__global__ void load_rows(float *out, int stride, const bf16 *elsewhere) {
    SHARED(bf16, s, [1024]);
    uint32_t r[4];
    for (int i = threadIdx.x; i < 1024; i += 32) s[i] = from_float<bf16>(1);
    __syncthreads();
    load_matrix_x4(r, elsewhere ? elsewhere : s + stride * threadIdx.x);
    out[threadIdx.x] = (float)r[0];
}
static void misaligned_row_of_a_matrix() { gpu_launch(load_rows, 1, 32, 0, 0, counting(32), 9, nullptr); }
static void matrix_outside_shared_memory() {
    gpu_launch(load_rows, 1, 32, 0, 0, counting(32), 8, (const bf16 *)counting(64));
}

__global__ void multiply_in_part(float *out) {
    uint32_t a[4] = {0, 0, 0, 0};
    float d[4] = {0, 0, 0, 0};
    mma_16x8x16<bf16>(d, a, 0, 0);
    out[threadIdx.x] = d[0];
}
static void tensor_core_in_part_of_a_warp() { gpu_launch(multiply_in_part, 1, 48, 0, 0, counting(64)); }

template <class T> __global__ void multiply_nothing(float *out) {
    uint32_t a[4] = {0, 0, 0, 0};
    float d[4] = {0, 0, 0, 0};
    mma_16x8x16<T>(d, a, 0, 0);
    out[threadIdx.x] = d[0];
}
__global__ void multiply_nothing_tf32(float *out) {
    uint32_t a[4] = {0, 0, 0, 0};
    float d[4] = {0, 0, 0, 0};
    mma_16x8x8_tf32(d, a, 0, 0);
    out[threadIdx.x] = d[0];
}
__global__ void round_to_tf32(float *out) { out[threadIdx.x] = __uint_as_float(to_tf32(out[threadIdx.x])); }

static void open_card(const char *card) {
    struct cudaDeviceProp properties;
    setenv("EMULATE_CARD", card, 1);
    cudaGetDeviceProperties(&properties, 0);
}
static void bf16_on_a_t4() {
    open_card("t4");
    gpu_launch(multiply_nothing<bf16>, 1, 32, 0, 0, counting(32));
}
static void tf32_on_a_t4() {
    open_card("t4");
    gpu_launch(multiply_nothing_tf32, 1, 32, 0, 0, counting(32));
}
static void rounding_to_tf32_on_a_t4() {
    open_card("t4");
    gpu_launch(round_to_tf32, 1, 32, 0, 0, counting(32));
}
static void a_card_that_nobody_knows() { open_card("t5"); }

/* ---- host code ---- */

static void streams_without_an_event() {
    cudaStream_t first, second;
    float *x = counting(32), *out = counting(32);
    cudaMemset(out, 0, 32 * sizeof(float));
    cudaDeviceSynchronize();
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    gpu_launch(add_one, 1, 32, 0, first, x);
    gpu_launch(copy, 1, 32, 0, second, out, x);
    cudaStreamSynchronize(second);
    expect(out, 32, [](int i) { return (float)(i + 2); });
}

static void pinned_memory_changed_too_early() {
    float *pinned, *x = counting(1);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMallocHost((void **)&pinned, sizeof(float));
    *pinned = 5;
    cudaMemcpyAsync(x, pinned, sizeof(float), cudaMemcpyHostToDevice, stream);
    *pinned = 6;
    cudaStreamSynchronize(stream);
    expect(x, 1, [](int) { return 5.0f; });
}

static void pinned_memory_read_too_early() {
    float *pinned, *x = counting(1);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMallocHost((void **)&pinned, sizeof(float));
    *pinned = 0;
    cudaMemcpyAsync(pinned, x, sizeof(float), cudaMemcpyDeviceToHost, stream);
    if (*pinned != 1) printf("wrong result: %g\n", (double)*pinned);
}

static void pageable_memory_changed_too_early() {
    static float pageable = 5;
    float *x = counting(1);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMemcpyAsync(x, &pageable, sizeof(float), cudaMemcpyHostToDevice, stream);
    pageable = 6;
    cudaStreamSynchronize(stream);
    expect(x, 1, [](int) { return 5.0f; });
}

static void pageable_memory_read_too_early() {
    static float pageable = 0;
    float *x = counting(1);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMemcpyAsync(&pageable, x, sizeof(float), cudaMemcpyDeviceToHost, stream);
    if (pageable != 1) printf("wrong result: %g\n", (double)pageable);
}

static const char WRONG[] = "wrong result";
static const struct Bug {
    const char *name;
    void (*run)();
    const char *plain, *asan, *checker; /* what the build must say of it; NULL: nothing is promised */
} bugs[] = {
#define BUG(name) #name, name
    {BUG(misaligned_vector), "not a multiple of 16", "not a multiple of 16", "not a multiple of 16"},
    {BUG(misaligned_load_of_a_pack), "not a multiple of 16", "not a multiple of 16", "not a multiple of 16"},
    {BUG(misaligned_store_of_a_pack), "not a multiple of 16", "not a multiple of 16", "not a multiple of 16"},
    {BUG(misaligned_float4), NULL, "misaligned address", NULL},
    {BUG(global_memory_beyond_the_end), NULL, "heap-buffer-overflow", "access out of bounds"},
    {BUG(freed_memory), NULL, "heap-use-after-free", "use after free"},
    {BUG(memory_that_was_never_written), WRONG, WRONG, "read of uninitialised memory"},
    {BUG(host_memory_in_a_kernel), NULL, NULL, "a kernel reads host memory"},
    {BUG(device_memory_on_the_host), NULL, NULL, "host code touches device memory"},
    {BUG(static_shared_memory_beyond_the_end), NULL, "use-after-poison", "access out of bounds"},
    {BUG(dynamic_shared_memory_beyond_the_end), NULL, "use-after-poison", "access out of bounds"},
    {BUG(shared_memory_that_was_never_written), WRONG, WRONG, "read of uninitialised memory"},
    {BUG(static_and_dynamic_shared_memory_beyond_48_kb), "may have 49152 in all", "may have 49152 in all",
     "may have 49152 in all"},
    {BUG(static_and_dynamic_shared_memory_beyond_the_card), "may have 65536 in all", "may have 65536 in all",
     "may have 65536 in all"},
    {BUG(barriers_in_two_branches), "at different barriers", "at different barriers", "at different barriers"},
    {BUG(barrier_without_the_threads_that_returned), "returned", "returned", "returned"},
    {BUG(whole_warp_operation_in_a_branch), "deadlock", "deadlock", "deadlock"},
    {BUG(lane_outside_its_mask), "not in its mask", "not in its mask", "not in its mask"},
    {BUG(source_outside_the_mask), "takes no part", "takes no part", "takes no part"},
    {BUG(two_operations_at_once), "in another operation", "in another operation", "in another operation"},
    {BUG(one_operation_at_two_places), "are at different places", "are at different places", "are at different places"},
    {BUG(read_before_a_lane_has_written), WRONG, WRONG, "race: a read, not ordered after a write"},
    {BUG(read_before_a_warp_has_written), WRONG, WRONG, "race: a read, not ordered after a write"},
    {BUG(written_before_a_warp_has_read), WRONG, WRONG, "race: a write, not ordered after a read"},
    {BUG(lost_update_in_a_block), NULL, NULL, "race: a write, not ordered after a"},
    {BUG(lost_update_between_blocks), NULL, NULL, "of another block"},
    {BUG(two_threads_write_one_place), NULL, NULL, "race: a write, not ordered after a write"},
    {BUG(blocks_that_need_an_order), WRONG, WRONG, "of another block"},
    {BUG(copy_never_waited_for), "no copy_async_wait", "no copy_async_wait", "no copy_async_wait"},
    {BUG(copy_read_before_its_wait), WRONG, WRONG, "destination of copy_async before its wait"},
    {BUG(wait_for_one_group_too_few), WRONG, WRONG, "destination of copy_async before its wait"},
    {BUG(copy_of_another_without_a_barrier), WRONG, WRONG, "race: a read, not ordered after a write"},
    {BUG(misaligned_row_of_a_matrix), "not a multiple of 16", "not a multiple of 16", "not a multiple of 16"},
    {BUG(matrix_outside_shared_memory), "not in shared memory", "not in shared memory", "not in shared memory"},
    {BUG(tensor_core_in_part_of_a_warp), "fewer than 32 threads", "fewer than 32 threads", "fewer than 32 threads"},
    {BUG(bf16_on_a_t4), "capability 75 has no bf16", "capability 75 has no bf16", "capability 75 has no bf16"},
    {BUG(tf32_on_a_t4), "capability 75 has no TF32", "capability 75 has no TF32", "capability 75 has no TF32"},
    {BUG(rounding_to_tf32_on_a_t4), "capability 75 has no TF32", "capability 75 has no TF32",
     "capability 75 has no TF32"},
    {BUG(a_card_that_nobody_knows), "t5 is none of t4", "t5 is none of t4", "t5 is none of t4"},
    {BUG(streams_without_an_event), WRONG, WRONG, WRONG},
    {BUG(pinned_memory_changed_too_early), WRONG, WRONG, WRONG},
    {BUG(pinned_memory_read_too_early), WRONG, WRONG, WRONG},
    {BUG(pageable_memory_changed_too_early), WRONG, WRONG, WRONG},
    {BUG(pageable_memory_read_too_early), WRONG, WRONG, WRONG},
#undef BUG
};

static const char *promised(const Bug &bug) {
    return emulate_has_checker() ? bug.checker : ADDRESS_SANITIZER ? bug.asan : bug.plain;
}

struct Attempt {
    void (*run)();
    uint64_t seed;
};
static void attempt(void *argument) {
    Attempt *self = (Attempt *)argument;
    emulate_set_seed(self->seed);
    self->run();
    cudaDeviceSynchronize();
    fflush(NULL);
    if (emulate_reports()) _exit(86);
}

/* A wrong result needs a schedule that shows it: one of the first eight must. The rest shows with every seed. */
static void bug_is_seen(void **state) {
    const Bug *bug = (const Bug *)*state;
    const char *wanted = promised(*bug);
    static char output[1 << 16];
    bool any_seed_will_do = wanted == WRONG, seen = false;
    for (uint64_t seed = 0; seed < 8; seed++) {
        Attempt with = {bug->run, seed};
        int status = run_function(output, sizeof output, attempt, &with);
        bool found = strstr(output, wanted) != NULL;
        seen |= found;
        if (!any_seed_will_do && (!found || status == 0))
            fail_msg("seed %d: exit status %d, \"%s\" is not in:\n%s", (int)seed, status, wanted, output);
    }
    if (!seen) fail_msg("no seed gives a wrong result");
}

/* ---- what it promises besides ---- */

static void legal() {
    copy_with(NONE);
    gpu_launch(copy_packs, 1, 8, 0, 0, counting(32), counting(4));
    gpu_launch(use_both, 1, 32, 16 << 10, 0, counting(32), 4 << 10);
    open_card("t4");
    gpu_launch(multiply_nothing<f16>, 1, 32, 0, 0, counting(32));
    open_card("a100");
    gpu_launch(multiply_nothing<bf16>, 1, 32, 0, 0, counting(32));
    gpu_launch(multiply_nothing_tf32, 1, 32, 0, 0, counting(32));
    cudaFuncSetAttribute((const void *)use_both, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10);
    gpu_launch(use_both, 1, 32, 100 << 10, 0, counting(32), 25 << 10);
    float *x = counting(32), *out = counting(32);
    gpu_launch(copy, 1, 32, 0, 0, out, x);
    expect(out, 32, at);
}
TEST(correct_code_gives_no_report) {
    char output[4096];
    for (uint64_t seed = 0; seed < 8; seed++) {
        Attempt with = {legal, seed};
        assert_int_equal(run_function(output, sizeof output, attempt, &with), 0);
        assert_string_equal(output, "");
    }
}
static void fail_with_seed_seven() {
    emulate_set_seed(7);
    barriers_in_two_branches();
    cudaDeviceSynchronize();
}
TEST(a_failure_says_where_and_how_to_see_it_again) {
    char output[4096];
    Attempt with = {fail_with_seed_seven, 7};
    assert_int_equal(run_function(output, sizeof output, attempt, &with), 86);
    assert_contains(output, "test_emulator.cu:");
    assert_contains(output, "in block (0,0,0), thread (");
    assert_contains(output, "EMULATE_SEED=7");
}

__global__ void load_columns(float *out, int stride) {
    DYNAMIC_SHARED(bf16, s);
    uint32_t r[4];
    for (int i = threadIdx.x; i < 32 * stride; i += 32) s[i] = from_float<bf16>(0);
    __syncthreads();
    load_matrix_x4(r, s + stride * threadIdx.x);
    out[threadIdx.x] = (float)r[0];
}
TEST(bank_conflicts_are_counted) {
    float *out = counting(32);
    int64_t before = emulate_counts().bank_conflicts;
    gpu_launch(load_columns, 1, 32, 32 * 72 * 2, 0, out, 72); /* rows of 144 bytes: eight different banks */
    assert_int_equal(emulate_counts().bank_conflicts - before, 0);
    gpu_launch(load_columns, 1, 32, 32 * 64 * 2, 0, out, 64); /* of 128 bytes: all eight rows in one */
    assert_int_equal(emulate_counts().bank_conflicts - before, 4 * 7);
    cudaFree(out);
}

int main(void) {
    for (const Bug &bug : bugs)
        if (promised(bug)) {
            const CMUnitTest test = {bug.name, bug_is_seen, NULL, NULL, const_cast<Bug *>(&bug)};
            tests_add(&test, 1);
        }
    return tests_run(NULL, NULL);
}
