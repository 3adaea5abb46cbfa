/* Muon of one matrix. Its products are those of linear layers; the kernels here are passes over memory, a small part of
 * the time. A is X X^T of a wide matrix and X^T X of a tall one, so that nothing is transposed. Nothing waits for the
 * GPU: an update that is not wanted computes what it will not write. */
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256, EACH = 8, PIECE = BLOCK * EACH };

/* A matrix in the flat buffers, and how its gradient becomes a direction. */
struct Matrix {
    float *params, *m;
    const float *grads, *norm, *loss_scale;
    const float *rate; /* what the learning rate is multiplied by; may be null */
    int64_t stride;
    int32_t columns, count;
    float momentum, fresh, clip, weight_decay, learning_rate;
    double size; /* the square root of the longer side */

    GPU_INLINE int64_t at(int i) const { return (int64_t)(i / columns) * stride + i % columns; }
    GPU_INLINE bool wanted() const { return isfinite(*norm); }
    GPU_INLINE float factor() const {
        double length = (double)*norm + 1e-6, scale = loss_scale ? (double)loss_scale[LOSS_SCALE_FACTOR] : 1.0;
        return (float)((clip > 0 && length > (double)clip ? (double)clip / length : 1.0) / scale);
    }
    /* Returns G of an element whose momentum is up to date. */
    GPU_INLINE float direction(int64_t place, float factor) const {
        return momentum * m[place] + fresh * (grads[place] * factor);
    }
};

/* Updates the momentum; sums[block] = the sum of the squares of G. Grid: n / PIECE. Bytes: 12 a number. */
__global__ void __launch_bounds__(BLOCK) update_momentum(double *sums, Matrix w) {
    SHARED(double, scratch, [32]);
    float factor = w.factor();
    double sum = 0;
    if (!w.wanted()) return;
    for (int e = 0, i = blockIdx.x * PIECE + threadIdx.x; e < EACH && i < w.count; e++, i += BLOCK) {
        int64_t place = w.at(i);
        w.m[place] = w.momentum * w.m[place] + w.fresh * (w.grads[place] * factor);
        float g = w.direction(place, factor);
        sum += (double)g * (double)g;
    }
    sum = block_sum_double(sum, scratch);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* scale = 1 / max(|G|, 1e-7). One block. */
__global__ void __launch_bounds__(BLOCK) invert_length(float *scale, const double *sums, int n) {
    SHARED(double, scratch, [32]);
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK) sum += sums[i];
    sum = block_sum_double(sum, scratch);
    if (threadIdx.x == 0) *scale = (float)(1 / fmax(sqrt(sum), 1e-7));
}

/* x = G scale, dense. Grid: n / PIECE. Bytes: 8 a number and x. */
template <class T> __global__ void __launch_bounds__(BLOCK) take_direction(T *x, const float *scale, Matrix w) {
    float factor = w.factor();
    if (!w.wanted()) return;
    for (int e = 0, i = blockIdx.x * PIECE + threadIdx.x; e < EACH && i < w.count; e++, i += BLOCK)
        x[i] = from_float<T>(w.direction(w.at(i), factor) * *scale);
}

struct Polynomial {
    float a, b, c;
};

/* b = a I + b A + c b, with b = A A before. n x n numbers; grid: n n / PIECE. Bytes: three matrices. */
template <class T>
__global__ void __launch_bounds__(BLOCK) add_powers(T *b, const T *gram, int n, int count, Polynomial polynomial) {
    for (int e = 0, i = blockIdx.x * PIECE + threadIdx.x; e < EACH && i < count; e++, i += BLOCK) {
        float sum = polynomial.b * to_float(gram[i]) + polynomial.c * to_float(b[i]);
        b[i] = from_float<T>(i % n == i / n ? sum + polynomial.a : sum);
    }
}

/* p = p keep - rate x, and the copy. Grid: n / PIECE. Bytes: 8 a number, x and the copy. */
template <class T> __global__ void __launch_bounds__(BLOCK) update_matrix(T *copy, const T *x, Matrix w) {
    if (!w.wanted()) return;
    double lr = (double)(w.rate ? w.learning_rate * *w.rate : w.learning_rate);
    float keep = (float)(1 - lr * (double)w.weight_decay), rate = (float)(lr * 0.2 * w.size);
    for (int e = 0, i = blockIdx.x * PIECE + threadIdx.x; e < EACH && i < w.count; e++, i += BLOCK) {
        int64_t place = w.at(i);
        float p = w.params[place] * keep - rate * to_float(x[i]);
        w.params[place] = p;
        if (copy) copy[place] = from_float<T>(p);
    }
}

/* The scratch of an update: X and the next X; A, and A A or the sum; sums of squares and what they give. */
struct Room {
    char *x, *next, *gram, *powers;
    double *sums;
    float *scale;
};

Room keep_room(Device *device, int64_t matrix, int64_t square, int64_t blocks) {
    int64_t of_matrix = ceil_div(matrix, 256) * 256, of_square = ceil_div(square, 256) * 256;
    char *at = (char *)cuda_keep_scratch(device, (size_t)(2 * of_matrix + 2 * of_square + 8 * (blocks + 1)));
    Room room = {at, at + of_matrix, at + 2 * of_matrix, at + 2 * of_matrix + of_square, NULL, NULL};
    room.sums = (double *)(room.powers + of_square);
    room.scale = (float *)(room.sums + blocks);
    return room;
}

void multiply(Device *device, DType type, void *c, const void *a, const void *b, int64_t m, int64_t n, int64_t k,
              bool transpose_a, bool transpose_b) {
    Gemm gemm = {};
    gemm.c = c, gemm.a = a, gemm.b = b;
    gemm.m = m, gemm.n = n, gemm.k = k;
    gemm.type = type;
    gemm.transpose_a = transpose_a, gemm.transpose_b = transpose_b;
    gemm_multiply(device, &gemm);
}

/* X = (a I + b A + c A A) X with A = X X^T, or X = X (a I + b A + c A A) with A = X^T X: rows x columns. */
template <class T> void iterate(Device *device, DType type, Room &room, int64_t rows, int64_t columns) {
    static const float polynomial[3] = MUON_POLYNOMIAL;
    bool tall = rows > columns;
    int64_t side = tall ? columns : rows, count = side * side;
    multiply(device, type, room.gram, room.x, room.x, side, side, tall ? rows : columns, tall, !tall);
    multiply(device, type, room.powers, room.gram, room.gram, side, side, side, false, false);
    cuda_check(gpu_launch(add_powers<T>, grid_of("muon_update", ceil_div(count, PIECE)), BLOCK, 0, cuda_stream(device),
                          (T *)room.powers, (const T *)room.gram, (int)side, (int)count,
                          Polynomial{polynomial[0], polynomial[1], polynomial[2]}),
               "muon_update");
    const char *left = tall ? room.x : room.powers, *right = tall ? room.powers : room.x;
    multiply(device, type, room.next, left, right, rows, columns, side, false, false);
    char *x = room.x;
    room.x = room.next, room.next = x;
}

template <class T> void update(Device *device, DType type, const Matrix &w, T *copy, int64_t rows) {
    const char *op = "muon_update";
    int64_t n = w.count, side = rows < w.columns ? rows : w.columns, blocks = ceil_div(n, PIECE);
    Room room = keep_room(device, n * (int64_t)sizeof(T), side * side * (int64_t)sizeof(T), blocks);
    cudaStream_t stream = cuda_stream(device);
    unsigned grid = grid_of(op, blocks);
    cuda_check(gpu_launch(update_momentum, grid, BLOCK, 0, stream, room.sums, w), op);
    cuda_check(gpu_launch(invert_length, 1, BLOCK, 0, stream, room.scale, (const double *)room.sums, (int)blocks), op);
    cuda_check(gpu_launch(take_direction<T>, grid, BLOCK, 0, stream, (T *)room.x, (const float *)room.scale, w), op);
    for (int i = 0; i < MUON_STEPS; i++) iterate<T>(device, type, room, rows, w.columns);
    cuda_check(gpu_launch(update_matrix<T>, grid, BLOCK, 0, stream, copy, (const T *)room.x, w), op);
    cuda_release_scratch(device);
}

} // namespace

void cuda_muon_update(Device *device, AdamWBuffers of, Tensor norm, Tensor loss_scale, MuonMatrix w, Muon o) {
    int64_t tall = w.rows > w.columns ? w.rows : w.columns;
    if (w.rows * w.columns > INT32_MAX - PIECE)
        die("muon_update: a matrix [%lld, %lld] is too large", (long long)w.rows, (long long)w.columns);
    Matrix matrix = {};
    matrix.params = (float *)of.params.data + w.offset;
    matrix.m = (float *)of.m.data + w.offset;
    matrix.grads = (const float *)of.grads.data + w.offset;
    matrix.norm = (const float *)norm.data;
    matrix.loss_scale = (const float *)loss_scale.data;
    matrix.stride = w.stride;
    matrix.columns = (int32_t)w.columns, matrix.count = (int32_t)(w.rows * w.columns);
    matrix.momentum = o.momentum, matrix.fresh = (float)(1 - (double)o.momentum), matrix.clip = o.clip;
    if (tensor_given(of.rates)) matrix.rate = (const float *)of.rates.data + w.group;
    matrix.weight_decay = w.weight_decay, matrix.learning_rate = w.learning_rate, matrix.size = sqrt((double)tall);
    DType type = tensor_given(of.copy) ? of.copy.dtype : DTYPE_F32;
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        T *copy = tensor_given(of.copy) ? (T *)of.copy.data + w.offset : (T *)NULL;
        update<T>(device, type, matrix, copy, w.rows);
    });
}
