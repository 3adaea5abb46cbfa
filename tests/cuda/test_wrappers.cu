/* The functions of gpu.h for kernels, each against plain arithmetic: on the emulator, and built by nvcc on a GPU, where
 * it is the first test to run. Fragments of the tensor cores are built here element by element as the PTX ISA numbers
 * them, so that wrappers, emulator and hardware are held to the same document. Numbers are chosen so that sums are
 * exact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "kernels/cuda/gpu.h"

#define _Noreturn [[noreturn]]
extern "C" {
#include "tests/test.h"
}

/* The emulator's functions; NULL in a program for a real GPU. */
extern "C" __attribute__((weak)) void emulate_set_seed(uint64_t seed);
extern "C" __attribute__((weak)) void emulate_set_workers(int workers);

#define CHECKED(call) assert_int_equal(call, cudaSuccess)

/* Device memory with a copy on the host. */
template <class T> struct Array {
    std::vector<T> host;
    T *device = NULL;
    explicit Array(const std::vector<T> &values) : host(values) {
        CHECKED(cudaMalloc((void **)&device, host.size() * sizeof(T)));
        CHECKED(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    explicit Array(size_t n) : Array(std::vector<T>(n, T())) {}
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array() { cudaFree(device); }
    const std::vector<T> &download() {
        CHECKED(cudaMemcpy((void *)host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
};

/* Whole numbers from -limit to limit. */
static int draw(int limit) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (2u * (unsigned)limit + 1)) - limit;
}

static int capability() {
    struct cudaDeviceProp properties;
    CHECKED(cudaGetDeviceProperties(&properties, 0));
    return 10 * properties.major + properties.minor;
}

/* ---- tensor cores ---- */

/* PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", .f16 and .bf16: the row and the column of
 * element i of a lane's fragment, two elements a register. */
struct Place {
    int row, column;
};
__host__ __device__ static inline Place place_in_a(int lane, int i) {
    int group = lane >> 2, thread_in_group = lane % 4;
    return {(0 <= i && i < 2) || (4 <= i && i < 6) ? group : group + 8,
            i < 4 ? thread_in_group * 2 + (i & 1) : thread_in_group * 2 + (i & 1) + 8};
}
__host__ __device__ static inline Place place_in_b(int lane, int i) {
    int group = lane >> 2, thread_in_group = lane % 4;
    return {i < 2 ? thread_in_group * 2 + (i & 1) : thread_in_group * 2 + (i & 1) + 8, group};
}
__host__ __device__ static inline Place place_in_d(int lane, int i) {
    int group = lane >> 2, thread_in_group = lane % 4;
    return {i < 2 ? group : group + 8, thread_in_group * 2 + (i & 1)};
}

GPU_INLINE uint32_t two_halves(const void *low, const void *high) {
    return *(const uint16_t *)low | (uint32_t) * (const uint16_t *)high << 16;
}

enum Way { BY_HAND, FROM_SHARED, SLOWLY }; /* how fragments are made; SLOWLY: all as on a card without tensor cores */

/* d[16][8] += a[16][16] b[16][8] by one warp. */
template <class T> __global__ void multiply(float *d, const T *a, const T *b, Way way) {
    SHARED(T, a_tile, [16][16]);
    SHARED(T, b_tile, [16][8]);
    int lane = threadIdx.x;
    uint32_t ar[4], br[4];
    float dr[4];
    for (int i = lane; i < 256; i += 32) a_tile[i / 16][i % 16] = a[i];
    for (int i = lane; i < 128; i += 32) b_tile[i / 8][i % 8] = b[i];
    __syncwarp();
    for (int i = 0; i < 4; i++) dr[i] = d[8 * place_in_d(lane, i).row + place_in_d(lane, i).column];
    if (way == SLOWLY) {
        load_matrix_x4_slowly(ar, &a_tile[lane % 16][lane / 16 * 8], false);
        load_matrix_x4_slowly(br, &b_tile[lane % 16][0], true);
    } else if (way == FROM_SHARED) {
        load_matrix_x4(ar, &a_tile[lane % 16][lane / 16 * 8]);
        load_matrix_x4_transposed(br, &b_tile[lane % 16][0]); /* lanes 16 to 31 load the same again, into br[2..3] */
    } else {
        for (int r = 0; r < 4; r++) {
            Place low = place_in_a(lane, 2 * r), high = place_in_a(lane, 2 * r + 1);
            ar[r] = two_halves(&a_tile[low.row][low.column], &a_tile[high.row][high.column]);
        }
        for (int r = 0; r < 2; r++) {
            Place low = place_in_b(lane, 2 * r), high = place_in_b(lane, 2 * r + 1);
            br[r] = two_halves(&b_tile[low.row][low.column], &b_tile[high.row][high.column]);
        }
    }
    if (way == SLOWLY)
        mma_16x8x16_slowly<T>(dr, ar, br[0], br[1]);
    else
        mma_16x8x16<T>(dr, ar, br[0], br[1]);
    __syncwarp();
    for (int i = 0; i < 4; i++) d[8 * place_in_d(lane, i).row + place_in_d(lane, i).column] = dr[i];
}

template <class T> static void multiplies(Way way) {
    if (is_bf16<T>::value && way != SLOWLY && capability() < 80) skip();
    std::vector<T> a(256), b(128);
    std::vector<float> d(128), want(128);
    for (T &x : a) x = T((float)draw(256)); /* exact in both types, products and sums exact in f32 only */
    for (T &x : b) x = T((float)draw(256));
    for (float &x : d) x = (float)draw(1000);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            want[8 * m + n] = d[8 * m + n];
            for (int k = 0; k < 16; k++) want[8 * m + n] += (float)a[16 * m + k] * (float)b[8 * k + n];
        }
    Array<T> a_there(a), b_there(b);
    Array<float> d_there(d);
    CHECKED(gpu_launch(multiply<T>, 1, 32, 0, 0, d_there.device, a_there.device, b_there.device, way));
    d_there.download();
    for (int i = 0; i < 128; i++) assert_near(d_there.host[i], want[i], 0);
}

TEST(tensor_cores_multiply_f16) { multiplies<f16>(BY_HAND); }
TEST(tensor_cores_multiply_bf16) { multiplies<bf16>(BY_HAND); }
TEST(loaded_matrices_multiply_f16) { multiplies<f16>(FROM_SHARED); }
TEST(loaded_matrices_multiply_bf16) { multiplies<bf16>(FROM_SHARED); }
TEST(cards_without_tensor_cores_multiply_too) {
    multiplies<f16>(SLOWLY);
    multiplies<bf16>(SLOWLY);
}

/* The same document, "Matrix Fragments for mma.m16n8k8", .tf32: one element a register. */
__host__ __device__ static inline Place place_in_a_tf32(int lane, int i) {
    int group = lane >> 2, thread_in_group = lane % 4;
    return {i == 0 || i == 2 ? group : group + 8, i == 0 || i == 1 ? thread_in_group : thread_in_group + 4};
}
__host__ __device__ static inline Place place_in_b_tf32(int lane, int i) {
    int group = lane >> 2, thread_in_group = lane % 4;
    return {i == 0 ? thread_in_group : thread_in_group + 4, group};
}

/* d[16][8] += a[16][8] times the transpose of b[8][8] by one warp. */
__global__ void multiply_tf32(float *d, const float *a, const float *b, Way way) {
    SHARED(float, a_tile, [16][8]);
    SHARED(float, b_tile, [8][8]);
    int lane = threadIdx.x;
    uint32_t ar[4], br[4];
    float dr[4];
    for (int i = lane; i < 128; i += 32) a_tile[i / 8][i % 8] = a[i];
    for (int i = lane; i < 64; i += 32) b_tile[i / 8][i % 8] = b[i];
    __syncwarp();
    for (int i = 0; i < 4; i++) dr[i] = d[8 * place_in_d(lane, i).row + place_in_d(lane, i).column];
    if (way == FROM_SHARED) {
        load_matrix_x4(ar, &a_tile[lane % 16][lane / 16 * 4]);
        load_matrix_x4(br, &b_tile[lane % 8][lane / 8 % 2 * 4]); /* lanes 16 to 31 as above */
    } else {
        for (int r = 0; r < 4; r++)
            ar[r] = __float_as_uint(a_tile[place_in_a_tf32(lane, r).row][place_in_a_tf32(lane, r).column]);
        for (int r = 0; r < 2; r++)
            br[r] = __float_as_uint(b_tile[place_in_b_tf32(lane, r).column][place_in_b_tf32(lane, r).row]);
    }
    for (int r = 0; r < 4; r++) ar[r] = to_tf32(__uint_as_float(ar[r]));
    for (int r = 0; r < 2; r++) br[r] = to_tf32(__uint_as_float(br[r]));
    mma_16x8x8_tf32(dr, ar, br[0], br[1]);
    __syncwarp();
    for (int i = 0; i < 4; i++) d[8 * place_in_d(lane, i).row + place_in_d(lane, i).column] = dr[i];
}

TEST(tensor_cores_multiply_tf32) {
    if (capability() < 80) skip();
    for (Way way : {BY_HAND, FROM_SHARED}) {
        std::vector<float> a(128), b(64), d(128), want(128);
        for (float &x : a) x = (float)draw(1000); /* 10 bits, sums of products 24 */
        for (float &x : b) x = (float)draw(1000);
        for (float &x : d) x = (float)draw(1000);
        for (int m = 0; m < 16; m++)
            for (int n = 0; n < 8; n++) {
                want[8 * m + n] = d[8 * m + n];
                for (int k = 0; k < 8; k++) want[8 * m + n] += a[8 * m + k] * b[8 * n + k];
            }
        Array<float> a_there(a), b_there(b), d_there(d);
        CHECKED(gpu_launch(multiply_tf32, 1, 32, 0, 0, d_there.device, a_there.device, b_there.device, way));
        d_there.download();
        for (int i = 0; i < 128; i++) assert_near(d_there.host[i], want[i], 0);
    }
}

__global__ void round_to_tf32(uint32_t *out, const float *in) { out[threadIdx.x] = to_tf32(in[threadIdx.x]); }

/* Halves away from zero, as round() does; the 13 bits that TF32 has not are of no account. */
TEST(conversions_round_to_the_nearest_tf32) {
    if (capability() < 80) skip();
    std::vector<float> x = {0.0f,
                            1.0f,
                            1 + 0x1p-11f,
                            -1 - 0x1p-11f,
                            1 + 0x1p-11f - 0x1p-23f,
                            1 + 3 * 0x1p-11f,
                            2 - 0x1p-12f,
                            0x1.fffffep127f,
                            INFINITY,
                            -INFINITY,
                            NAN};
    while (x.size() < 256) x.push_back(ldexpf(1 + (float)draw(1 << 20) * 0x1p-21f, draw(100)));
    Array<float> x_there(x);
    Array<uint32_t> out(256);
    CHECKED(gpu_launch(round_to_tf32, 1, 256, 0, 0, out.device, x_there.device));
    out.download();
    for (int i = 0; i < 256; i++) {
        int exponent;
        float digits = frexpf(x[i], &exponent), got;
        float want = isfinite(x[i]) ? ldexpf(roundf(digits * 0x1p11f), exponent - 11) : x[i];
        uint32_t bits = isnan(x[i]) ? out.host[i] : out.host[i] & ~0x1FFFu;
        memcpy(&got, &bits, sizeof got);
        if (isnan(x[i]))
            assert_true(isnan(got));
        else
            assert_true(got == want);
    }
}

/* Four 8x8 matrices whose elements are their own numbers, rows scattered over shared memory as `order` says. */
__global__ void load_numbers(uint32_t *out, const int *order, bool transposed) {
    SHARED(uint16_t, rows, [32][8]);
    int lane = threadIdx.x;
    uint32_t r[4];
    for (int i = 0; i < 8; i++) rows[order[lane]][i] = (uint16_t)(8 * lane + i);
    __syncwarp();
    if (transposed)
        load_matrix_x4_transposed(r, rows[order[lane]]);
    else
        load_matrix_x4(r, rows[order[lane]]);
    for (int i = 0; i < 4; i++) out[4 * lane + i] = r[i];
}

TEST(matrices_are_loaded_row_by_row_or_column_by_column) {
    std::vector<int> order(32);
    for (int i = 0; i < 32; i++) order[i] = 13 * i % 32;
    Array<int> order_there(order);
    Array<uint32_t> out(128);
    for (int transposed = 0; transposed < 2; transposed++) {
        CHECKED(gpu_launch(load_numbers, 1, 32, 0, 0, out.device, order_there.device, transposed != 0));
        out.download();
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) {
                int row = lane / 4, column = 2 * (lane % 4), matrix = 64 * i;
                int low = transposed ? 8 * column + row : 8 * row + column;
                int high = transposed ? 8 * (column + 1) + row : 8 * row + column + 1;
                assert_int_equal(out.host[4 * lane + i], (matrix + low) | (matrix + high) << 16);
            }
    }
}

/* Elements that are their own numbers, in registers, and columns of them. */
__global__ void transpose_numbers(uint32_t *out, bool slowly) {
    uint32_t lane = threadIdx.x, mine = 2 * lane | (2 * lane + 1) << 16;
    out[lane] = slowly ? transpose_matrix_slowly(mine) : transpose_matrix(mine);
}

TEST(matrices_are_transposed_in_registers) {
    for (int slowly = 0; slowly < 2; slowly++) {
        Array<uint32_t> out(32);
        CHECKED(gpu_launch(transpose_numbers, 1, 32, 0, 0, out.device, slowly != 0));
        out.download();
        for (int lane = 0; lane < 32; lane++) {
            int column = lane / 4, row = 2 * (lane % 4);
            assert_int_equal(out.host[lane], (8 * row + column) | (8 * (row + 1) + column) << 16);
        }
    }
}

/* ---- asynchronous copies ---- */

/* out[tile][thread] = the tile's number of another thread, through a pipeline of three stages. Tiles at or beyond
 * `filled` are zeros. */
__global__ void through_pipeline(int *out, const int *in, int tiles, int filled) {
    SHARED(int, stages, [3][64 * 4]);
    int t = threadIdx.x, other = (t * 7 + 3) % 64;
    for (int tile = 0; tile < tiles + 2; tile++) {
        if (tile < tiles)
            copy_async_16(&stages[tile % 3][4 * t], in + (tile < filled ? tile * 256 + 4 * t : 0),
                          tile < filled ? 16 : 0);
        copy_async_commit(); /* an empty group at the end keeps the count */
        if (tile < 2) continue;
        copy_async_wait<2>();
        __syncthreads();
        for (int i = 0; i < 4; i++) out[(tile - 2) * 256 + 4 * t + i] = stages[(tile - 2) % 3][4 * other + i];
        __syncthreads();
    }
    copy_async_wait<0>();
}

TEST(copies_arrive_when_their_group_is_waited_for) {
    const int tiles = 9, filled = 8;
    std::vector<int> in(tiles * 256);
    for (size_t i = 0; i < in.size(); i++) in[i] = (int)i + 1;
    Array<int> in_there(in), out(in.size());
    CHECKED(gpu_launch(through_pipeline, 1, 64, 0, 0, out.device, in_there.device, tiles, filled));
    out.download();
    for (int tile = 0; tile < tiles; tile++)
        for (int t = 0; t < 64; t++)
            for (int i = 0; i < 4; i++)
                assert_int_equal(out.host[tile * 256 + 4 * t + i],
                                 tile < filled ? in[tile * 256 + 4 * ((t * 7 + 3) % 64) + i] : 0);
}

/* ---- numbers ---- */

template <class T> __global__ void convert(T *out, uint32_t *pairs, float *back, const float *x, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    out[i] = from_float<T>(x[i]);
    out[i + 1] = from_float<T>(x[i + 1]);
    pairs[i / 2] = pack_pair<T>(x[i], x[i + 1]);
    float2 pair = unpack_pair<T>(pairs[i / 2]);
    back[i] = pair.x;
    back[i + 1] = pair.y;
}

/* digits: bits of the significand behind the first. */
template <class T> static void converts(int digits, float largest) {
    float ulp = ldexpf(1, -digits);
    std::vector<float> x = {
        0.0f,     -0.0f,     1.0f, -2.5f, 1 + ulp / 2, 1 + 1.5f * ulp, 1 + 0.6f * ulp, -1 - 0.4f * ulp, largest,
        INFINITY, -INFINITY, NAN,  -3.0f, 2.5f}; /* the sign of the lower half is no digit of the upper */
    std::vector<float> want = {0.0f,  -0.0f,   1.0f,     -2.5f,     1.0f, 1 + 2 * ulp, 1 + ulp,
                               -1.0f, largest, INFINITY, -INFINITY, NAN,  -3.0f,       2.5f};
    int n = (int)x.size();
    Array<float> x_there(x), back((size_t)n);
    Array<T> out(std::vector<T>((size_t)n, T(0.0f)));
    Array<uint32_t> pairs((size_t)n / 2);
    CHECKED(gpu_launch(convert<T>, 4, 2, 0, 0, out.device, pairs.device, back.device, x_there.device, n));
    out.download(), pairs.download(), back.download();
    for (int i = 0; i < n; i++) {
        uint16_t bits;
        float got = (float)out.host[i];
        memcpy(&bits, &out.host[i], 2);
        if (isnan(want[i])) {
            assert_true(isnan(got) && isnan(back.host[i]));
            continue;
        }
        assert_int_equal(pairs.host[i / 2] >> 16 * (i % 2) & 0xFFFF, bits);
        assert_memory_equal(&got, &want[i], 4);
        assert_memory_equal(&back.host[i], &want[i], 4);
    }
}
TEST(conversions_round_to_the_nearest_even_bf16) { converts<bf16>(7, 3.3895314e38f); }
TEST(conversions_round_to_the_nearest_even_f16) { converts<f16>(10, 65504.0f); }

template <class T> __global__ void reverse_vectors(T *out, const T *in, int vectors) {
    int i = threadIdx.x;
    Vector<T> v = load_vector(in + i * Vector<T>::SIZE), reversed;
    for (int k = 0; k < Vector<T>::SIZE; k++) reversed[k] = v[Vector<T>::SIZE - 1 - k];
    store_vector(out + (vectors - 1 - i) * Vector<T>::SIZE, reversed);
}

template <class T> static void reverses() {
    const int vectors = 50, n = vectors * Vector<T>::SIZE;
    std::vector<T> in((size_t)n);
    for (int i = 0; i < n; i++) in[i] = T((float)(i % 200));
    Array<T> in_there(in), out(in);
    CHECKED(gpu_launch(reverse_vectors<T>, 1, vectors, 0, 0, out.device, in_there.device, vectors));
    out.download();
    for (int i = 0; i < n; i++) assert_near((float)out.host[i], (float)in[n - 1 - i], 0);
}
TEST(vectors_are_sixteen_bytes) {
    assert_int_equal(Vector<float>::SIZE, 4);
    assert_int_equal(Vector<bf16>::SIZE, 8);
    assert_int_equal(sizeof(Vector<f16>), 16);
    reverses<float>();
    reverses<bf16>();
    reverses<f16>();
}

__global__ void powers(float *out, const float *x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = exp2_approximate(x[i]);
}
TEST(approximate_powers_are_close) {
    std::vector<float> x = {-INFINITY, -200, -126, -1.5f, -1e-3f, 0, 0.3f, 1, 7.7f, 127.9f};
    Array<float> x_there(x), out(x.size());
    CHECKED(gpu_launch(powers, 1, 4, 0, 0, out.device, x_there.device, (int)x.size()));
    out.download();
    for (size_t i = 0; i < x.size(); i++)
        assert_near(out.host[i], exp2f(x[i]), 4e-7f * exp2f(x[i]) + 1.2e-38f); /* subnormals may become 0 */
}

/* ---- warps and blocks ---- */

__global__ void sums_and_maxima(float *out, const float *x) {
    SHARED(float, scratch, [32]);
    float mine = x[threadIdx.x];
    float *o = out + 4 * threadIdx.x;
    o[0] = warp_sum(mine);
    o[1] = warp_max(mine);
    o[2] = block_sum(mine, scratch);
    o[3] = block_max(mine, scratch); /* the same scratch at once again */
}

TEST(sums_and_maxima_reach_every_thread) {
    for (int n : {32, 64, 96, 256, 1024}) {
        std::vector<float> x((size_t)n);
        float block_total = 0, block_most = -1e9f;
        for (float &v : x) {
            v = (float)draw(1000) - 2000; /* all negative: a maximum that starts at 0 shows */
            block_total += v;
            block_most = fmaxf(block_most, v);
        }
        Array<float> x_there(x), out((size_t)n * 4);
        CHECKED(gpu_launch(sums_and_maxima, 1, n, 0, 0, out.device, x_there.device));
        out.download();
        for (int i = 0; i < n; i++) {
            float total = 0, most = -1e9f;
            for (int k = i / 32 * 32; k < i / 32 * 32 + 32; k++) {
                total += x[k];
                most = fmaxf(most, x[k]);
            }
            assert_near(out.host[4 * i], total, 0);
            assert_near(out.host[4 * i + 1], most, 0);
            assert_near(out.host[4 * i + 2], block_total, 0);
            assert_near(out.host[4 * i + 3], block_most, 0);
        }
    }
}

template <class T> __global__ void shuffles(T *out, int width) {
    int lane = threadIdx.x % 32;
    T mine = (T)(100 + lane), *o = out + 5 * threadIdx.x;
    o[0] = __shfl_sync(0xFFFFFFFFu, mine, 37, width);
    o[1] = __shfl_xor_sync(0xFFFFFFFFu, mine, 5, width);
    o[2] = __shfl_up_sync(0xFFFFFFFFu, mine, 3, width);
    o[3] = __shfl_down_sync(0xFFFFFFFFu, mine, 3, width);
    unsigned half = lane < 16 ? 0x0000FFFFu : 0xFFFF0000u; /* the halves on their own, in either order */
    o[4] = lane < 16 ? __shfl_sync(half, mine, 2) : __shfl_sync(half, mine, 18);
}

template <class T> static void shuffles_with(int width) {
    Array<T> out(64 * 5);
    CHECKED(gpu_launch(shuffles<T>, 1, 64, 0, 0, out.device, width));
    out.download();
    for (int t = 0; t < 64; t++) {
        int lane = t % 32, first = lane / width * width, at = lane % width;
        assert_true(out.host[5 * t] == (T)(100 + first + 37 % width));
        assert_true(out.host[5 * t + 1] == (T)(100 + ((at ^ 5) < width ? first + (at ^ 5) : lane)));
        assert_true(out.host[5 * t + 2] == (T)(100 + (at >= 3 ? lane - 3 : lane)));
        assert_true(out.host[5 * t + 3] == (T)(100 + (at + 3 < width ? lane + 3 : lane)));
        assert_true(out.host[5 * t + 4] == (T)(lane < 16 ? 102 : 118));
    }
}
TEST(shuffles_stay_within_their_width) {
    for (int width : {32, 16, 8}) {
        shuffles_with<int>(width);
        shuffles_with<float>(width);
        shuffles_with<double>(width);
        shuffles_with<unsigned long long>(width);
    }
}

__global__ void votes(unsigned *out) {
    int t = threadIdx.x, lane = t % 32;
    unsigned *o = out + 9 * t;
    o[0] = __ballot_sync(0xFFFFFFFFu, lane % 3 == 0);
    o[1] = (unsigned)__any_sync(0xFFFFFFFFu, lane == 31) + 2 * (unsigned)__any_sync(0xFFFFFFFFu, 0);
    o[2] = (unsigned)__all_sync(0xFFFFFFFFu, lane < 31) + 2 * (unsigned)__all_sync(0xFFFFFFFFu, lane < 32);
    o[3] = (unsigned)__syncthreads_count(t % 5 == 0);
    o[4] = (unsigned)__syncthreads_and(t < 63) + 2 * (unsigned)__syncthreads_and(t < 64);
    o[5] = (unsigned)__syncthreads_or(t == 63) + 2 * (unsigned)__syncthreads_or(t == 64);
    o[6] = o[7] = o[8] = 0;
#if !defined __CUDACC__ || __CUDA_ARCH__ >= 800
    o[6] = __reduce_add_sync(0xFFFFFFFFu, (unsigned)lane) + (__match_any_sync(0xFFFFFFFFu, lane / 8) << 10);
    o[7] =
        (unsigned)__reduce_max_sync(0xFFFFFFFFu, lane - 20) + 100 * (unsigned)__reduce_min_sync(0xFFFFFFFFu, lane - 7);
    o[8] = __reduce_or_sync(0xFFFFFFFFu, 1u << lane % 8) + (__reduce_xor_sync(0xFFFFFFFFu, (unsigned)lane == 3) << 8) +
           (__reduce_and_sync(0xFFFFFFFFu, (unsigned)lane | 6) << 9);
#endif
}

TEST(votes_and_reductions_count_everybody) {
    Array<unsigned> out(64 * 9);
    CHECKED(gpu_launch(votes, 1, 64, 0, 0, out.device));
    out.download();
    for (int t = 0; t < 64; t++) {
        const unsigned *o = &out.host[9 * t];
        assert_int_equal(o[0], 0x49249249u);
        assert_int_equal(o[1], 1);
        assert_int_equal(o[2], 2);
        assert_int_equal(o[3], 13);
        assert_int_equal(o[4], 2);
        assert_int_equal(o[5], 1);
        if (capability() < 80) continue;
        assert_int_equal(o[6], 496u + (0xFFu << t % 32 / 8 * 8 << 10));
        assert_int_equal(o[7], 11u - 700u); /* of numbers on both sides of 0 */
        assert_int_equal(o[8], 0xFFu + (1u << 8) + (6u << 9));
    }
}

__global__ void count(int *whole, float *real, double *precise, unsigned *bits, unsigned long long *wide,
                      int *extremes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(whole, i);
    atomicAdd(real, (float)(i % 7));
    atomicAdd(precise, 0.5);
    atomicOr(bits, 1u << i % 32);
    atomicAdd(wide, 1ull << 32);
    atomicMax(&extremes[0], i % 2 ? i : -i);
    atomicMin(&extremes[1], i % 2 ? i : -i);
    int old = atomicAdd(&extremes[2], 0), seen;
    do seen = old, old = atomicCAS(&extremes[2], seen, seen + 2);
    while (old != seen);
}

TEST(atomics_lose_nothing) {
    const int blocks = 37, threads = 64, n = blocks * threads;
    Array<int> whole(1), extremes(3);
    Array<float> real(1);
    Array<double> precise(1);
    Array<unsigned> bits(1);
    Array<unsigned long long> wide(1);
    CHECKED(gpu_launch(count, blocks, threads, 0, 0, whole.device, real.device, precise.device, bits.device,
                       wide.device, extremes.device));
    float sum = 0;
    for (int i = 0; i < n; i++) sum += (float)(i % 7);
    assert_int_equal(whole.download()[0], n * (n - 1) / 2);
    assert_near(real.download()[0], sum, 0);
    assert_near(precise.download()[0], n / 2, 0);
    assert_int_equal(bits.download()[0], 0xFFFFFFFFu);
    assert_true(wide.download()[0] == (unsigned long long)n << 32);
    assert_int_equal(extremes.download()[0], n - 1);
    assert_int_equal(extremes.host[1], 2 - n);
    assert_int_equal(extremes.host[2], 2 * n);
}

/* ---- launches and shared memory ---- */

struct Scale {
    float factor;
    GPU_INLINE float operator()(float x) const { return factor * x; }
};
struct Outputs {
    float *first, *second;
};

/* Every thread of a grid of three dimensions writes its own element, through shared variables of several shapes. */
template <class Function, int N>
__global__ void __launch_bounds__(64) fill(Outputs outputs, Function f, size_t n, const float *__restrict__ x) {
    SHARED(float, tile, [N][64 / N]);
    SHARED(int, scalar, );
    DYNAMIC_SHARED(float, dynamic);
    size_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    size_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    size_t threads = blockDim.x * blockDim.y * blockDim.z, i = block * threads + thread;
    if (thread == 0) scalar = (int)block;
    tile[thread / (64 / N)][thread % (64 / N)] = f(x[i % n]);
    dynamic[thread] = x[i % n];
    __syncthreads();
    size_t other = threads - 1 - thread;
    if (i < n) outputs.first[i] = tile[other / (64 / N)][other % (64 / N)] + (float)scalar;
    if (i < n) outputs.second[i] = dynamic[other];
}

TEST(launches_pass_arguments_and_places) {
    const int n = 2 * 3 * 2 * 64 - 10;
    std::vector<float> x((size_t)n);
    for (float &v : x) v = (float)draw(1000);
    Array<float> x_there(x), first((size_t)n), second((size_t)n);
    Outputs outputs = {first.device, second.device};
    CHECKED(gpu_launch(fill<Scale, 4>, dim3(2, 3, 2), dim3(8, 4, 2), 64 * sizeof(float), 0, outputs, Scale{3}, n,
                       x_there.device));
    first.download(), second.download();
    for (int i = 0; i < n; i++) {
        int other = (i / 64 * 64 + 63 - i % 64) % n;
        assert_near(first.host[i], 3 * x[other] + (float)(i / 64), 0);
        assert_near(second.host[i], x[other], 0);
    }
}

__global__ void use_much_shared(float *out, int n) {
    DYNAMIC_SHARED(float, memory);
    for (int i = threadIdx.x; i < n; i += blockDim.x) memory[i] = (float)i;
    __syncthreads();
    out[threadIdx.x] = memory[n - 1 - threadIdx.x];
}

/* With driver 580, a block of too many threads is an invalid value; CUDA documents an invalid configuration. */
static void expect_refused(cudaError_t status) {
    if (status != cudaErrorInvalidValue) assert_int_equal(status, cudaErrorInvalidConfiguration);
    cudaGetLastError();
}

TEST(launches_that_cannot_be_are_refused) {
    const int n = 15000; /* 60 kB */
    size_t bytes = n * sizeof(float);
    Array<float> out(32);
    expect_refused(gpu_launch(use_much_shared, 1, 1025, 0, 0, out.device, 1));
    expect_refused(gpu_launch(use_much_shared, 0, 32, 0, 0, out.device, 1));
    expect_refused(gpu_launch(use_much_shared, dim3(1, 70000), 32, 0, 0, out.device, 1));
    static bool asked; /* a limit once raised stays */
    if (!asked) assert_int_equal(gpu_launch(use_much_shared, 1, 32, bytes, 0, out.device, n), cudaErrorInvalidValue);
    asked = true;
    cudaGetLastError();
    CHECKED(
        cudaFuncSetAttribute((const void *)use_much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    CHECKED(gpu_launch(use_much_shared, 1, 32, bytes, 0, out.device, n));
    assert_near(out.download()[31], (float)(n - 32), 0);
    CHECKED(cudaGetLastError());
}

int main(void) {
    int failed = 0;
    for (uint64_t seed = 0; seed < (emulate_set_seed ? 6 : 1); seed++) {
        if (emulate_set_seed) emulate_set_seed(seed);
        if (emulate_set_workers) emulate_set_workers(seed == 5 ? 2 : 1);
        failed += tests_run(NULL, NULL);
    }
    return failed != 0;
}
