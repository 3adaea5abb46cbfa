/* The counts of the executor of PTX, which docs/KERNEL_PROFILE.md is made of, against counts by hand for one kernel of
 * each family, of nvcc 13.0. Skipped where kernels are not PTX. A request is one instruction of a warp; a sector has 32
 * bytes. */
#include "kernels/cuda/emulate/emulate_control.h"
#include "tests/cuda/rig.h"
#include "tests/test.h"

/* Absent where kernels are not PTX. */
#pragma weak emulate_count_kernels
#pragma weak emulate_kernel_counts
#pragma weak emulate_set_workers

static Rig rig;

static int open_rig(void **state) {
    (void)state;
    rig = rig_open(DTYPE_BF16);
    return 0;
}
static int close_rig(void **state) {
    (void)state;
    rig_close(&rig);
    return 0;
}

static Tensor of(DType type, int64_t rows, int64_t columns) { return pair_normal(&rig, type, rows, columns, 1).cuda; }

static void begin(void) {
    if (!emulate_count_kernels || !rig_has(&rig, DTYPE_BF16)) skip();
    emulate_set_workers(1);
    emulate_count_kernels(true);
}

/* Returns the counts of the kernel whose name contains this, since begin(). */
static EmulateKernelCounts counts_of(const char *kernel) {
    static EmulateKernelCounts all[16];
    EmulateKernelCounts *found = NULL;
    int n = emulate_kernel_counts(all, 16);
    emulate_count_kernels(false);
    for (int i = 0; i < n; i++)
        if (strstr(all[i].kernel, kernel)) found = &all[i];
    if (!found) fail_msg("%s has not been launched", kernel);
    rig_clear(&rig);
    return *found;
}

static void expect(const char *what, int64_t got, int64_t want) {
    if (got != want) fail_msg("%s: %lld, by hand %lld", what, (long long)got, (long long)want);
}

/* 64 rows of 1280: 16 blocks of 5 warps, each block 4 rows, each thread 8 numbers of a row. */
TEST(counts_of_layernorm) {
    enum { ROWS = 64, C = 1280, BLOCKS = ROWS / 4, WARPS = BLOCKS * C / 8 / 32 };
    Tensor x = of(DTYPE_BF16, ROWS, C), gain = of(DTYPE_F32, C, 0), bias = of(DTYPE_F32, C, 0);
    LayerNormOutput output = {of(DTYPE_BF16, ROWS, C), of(DTYPE_F32, ROWS, 0), of(DTYPE_F32, ROWS, 0)};
    begin();
    layernorm_forward(rig.cuda, output, x, gain, bias, LAYERNORM_EPSILON);
    EmulateKernelCounts k = counts_of("normalize<");
    expect("launches", k.launches, 1);
    expect("blocks", k.blocks, BLOCKS);
    /* A warp loads 512 bytes in one piece of each row, and twice 16 of each 32 bytes of gain and bias: all 32 sectors
     * both times. It stores 512 bytes of each row; the first thread of a block 4 means and 4 rstds, one by one. */
    expect("loaded sectors", k.loaded_sectors, WARPS * (4 * 16 + 2 * 2 * 32));
    expect("stored sectors", k.stored_sectors, WARPS * 4 * 16 + BLOCKS * 8);
    expect("sectors loaded once", k.distinct_loaded, (ROWS * C * 2 + 2 * C * 4) / 32);
    expect("sectors stored once", k.distinct_stored, (ROWS * C * 2 + 2 * ROWS * 4) / 32);
    expect("bytes asked for", k.global_bytes, 2 * ROWS * C * 2 + BLOCKS * 2 * C * 4 + 2 * ROWS * 4);
    /* Two sums along 4 rows: 5 shuffles each, one number a warp and row to shared memory, where all threads read those
     * of all warps. */
    expect("shuffles", k.instructions[EMULATE_SHUFFLE], WARPS * 2 * 4 * 5);
    expect("barriers", k.instructions[EMULATE_BARRIER], WARPS * 2);
    expect("bytes of shared memory", k.shared_bytes, 2 * (WARPS * 4 * 4 + BLOCKS * (C / 8) * 5 * 4 * 4));
    expect("products", k.instructions[EMULATE_PRODUCT], 0);
}

/* 65,536 parameters: a warp updates 128 at a time, 4 in a thread. */
TEST(counts_of_adamw) {
    enum { N = 1 << 16, UPDATES = N / 128, WARPS = N / (16 * 32) };
    const Segment segment = {.begin = 0, .end = N, .learning_rate = 1e-3f};
    AdamWBuffers b = {.params = of(DTYPE_F32, N, 0),
                      .copy = of(DTYPE_BF16, N, 0),
                      .m = of(DTYPE_F32, N, 0),
                      .v = of(DTYPE_F32, N, 0),
                      .grads = of(DTYPE_F32, N, 0)};
    Tensor norm = of(DTYPE_F32, 1, 0);
    begin();
    adamw_update(rig.cuda, b, norm, tensor_none(), &segment, 1, (AdamW){0.9f, 0.999f, 1e-8f, 1, 2, false});
    EmulateKernelCounts k = counts_of("adamw<");
    expect("launches", k.launches, 1);
    expect("blocks", k.blocks, N / 4096);
    /* Parameters, both moments and gradients are loaded, all but the gradients stored, and the copy in 16 bits.
     * Besides, each warp loads the 4 numbers of the step, one by one. */
    expect("loaded sectors", k.loaded_sectors, UPDATES * 4 * 16 + WARPS * 4);
    expect("stored sectors", k.stored_sectors, UPDATES * (3 * 16 + 8));
    expect("sectors loaded once", k.distinct_loaded, 4 * N * 4 / 32 + 1);
    expect("sectors stored once", k.distinct_stored, (3 * N * 4 + N * 2) / 32);
    expect("barriers", k.instructions[EMULATE_BARRIER], 0);
    expect("requests of shared memory", k.shared_requests, 0);
    expect("branches that divide warps", k.divergent_branches, 0);
}

/* [256, 192] times [1024, 192] transposed: 16 tiles of 128 x 128, each walked along k in 6 steps of 32 by 8 warps,
 * which have 64 x 32 of a tile each. */
TEST(counts_of_a_matrix_product) {
    enum { M = 256, N = 1024, K = 192, BLOCKS = M / 128 * (N / 128), STEPS = K / 32, WARPS = 8 * BLOCKS };
    Tensor x = of(DTYPE_BF16, M, K), w = of(DTYPE_BF16, N, K), y = of(DTYPE_BF16, M, N);
    begin();
    linear_forward(rig.cuda, y, x, w, tensor_none(), WEIGHT_OUT_IN);
    EmulateKernelCounts k = counts_of("multiply<");
    expect("launches", k.launches, 1);
    expect("blocks", k.blocks, BLOCKS);
    expect("products", k.instructions[EMULATE_PRODUCT], (int64_t)M / 16 * (N / 8) * (K / 16));
    expect("FLOPs", k.matrix_flops, (int64_t)2 * M * N * K);
    /* Per step a thread copies 2 chunks of 16 bytes of each matrix, a warp 8 rows of 64 bytes at once. Per 16 of k a
     * warp loads 4 fragments of a and 2 of b. No request has a conflict: 512 bytes are 4 wavefronts. */
    const int64_t copies = WARPS * STEPS * 4, fragments = WARPS * STEPS * 2 * (4 + 2);
    expect("loaded sectors", k.loaded_sectors, copies * 16);
    expect("sectors loaded once", k.distinct_loaded, (M + N) * K * 2 / 32);
    expect("requests of shared memory", k.shared_requests, copies + fragments);
    expect("wavefronts", k.shared_wavefronts, 4 * (copies + fragments));
    expect("least wavefronts", k.shared_least, 4 * (copies + fragments));
    expect("barriers", k.instructions[EMULATE_BARRIER], WARPS * STEPS);
    /* A request stores 8 rows of 4 pairs, half a sector each. */
    expect("stored sectors", k.stored_sectors, (int64_t)2 * M * N * 2 / 32);
    expect("sectors stored once", k.distinct_stored, (int64_t)M * N * 2 / 32);
}

/* A sequence of 256 rows, 2 heads of 64: of each head 2 blocks of 4 warps, 32 query rows a warp, which walk over 4
 * tiles of 64 keys; and one block that finds no rows. */
TEST(counts_of_attention) {
    enum { ROWS = 256, HEADS = 2, C = HEADS * 64, BLOCKS = HEADS * 2, EMPTY = HEADS, TILES = ROWS / 64 };
    enum { WARPS = 4 * BLOCKS };
    int32_t offsets[2] = {0, ROWS};
    Tensor qkv = of(DTYPE_BF16, ROWS, 3 * C), out = of(DTYPE_BF16, ROWS, C), lse = of(DTYPE_F32, HEADS, ROWS);
    Sequences sequences = {pair_integers(&rig, offsets, 2).cuda, offsets, 1};
    begin();
    attention_forward(rig.cuda, out, lse, qkv, sequences, (Attention){HEADS, false, 0.125f}, (Dropout){0});
    EmulateKernelCounts k = counts_of("attention_forward_kernel<");
    expect("launches", k.launches, 1);
    expect("blocks", k.blocks, BLOCKS + EMPTY);
    expect("products", k.instructions[EMULATE_PRODUCT], 2 * HEADS * (ROWS / 16) * (ROWS / 8) * (64 / 16));
    expect("barriers", k.instructions[EMULATE_BARRIER], WARPS * TILES * 2);
    /* A warp copies 4 rows of 128 bytes at once: 32 query rows of its own, and 16 of each tile of K and of V. All
     * warps, also the empty blocks', look the two ends of the sequence up. */
    const int64_t copies = WARPS * (8 + TILES * 2 * 4);
    expect("loaded sectors", k.loaded_sectors, copies * 16 + (WARPS + 4 * EMPTY) * 2);
    expect("sectors loaded once", k.distinct_loaded, ROWS * 3 * C * 2 / 32 + 1);
    /* Fragments: 8 of Q once, 16 of K and 16 of V a tile, 512 bytes each. The output goes through shared memory, so
     * that whole rows are stored: written in 32 pieces of 4 bytes a lane, read in 8 of 16. */
    const int64_t fragments = WARPS * (8 + TILES * 32), pieces = WARPS * 32, vectors = WARPS * 8;
    expect("requests of shared memory", k.shared_requests, copies + fragments + pieces + vectors);
    expect("bytes of shared memory", k.shared_bytes, 512 * (copies + fragments + vectors) + 128 * pieces);
    expect("wavefronts", k.shared_wavefronts, 4 * (copies + fragments + vectors) + pieces);
    expect("stored sectors", k.stored_sectors, (ROWS * C * 2 + HEADS * ROWS * 4) / 32);
    /* exp2 of 64 keys in 4 rows a lane and tile, 16 at once, and of what the old sums shrink by. Then log and division
     * of 4 sums. */
    expect("exponentials", k.instructions[EMULATE_SPECIAL], WARPS * TILES * 4 * (16 + 1) + WARPS * 4);
}

/* 8 samples of 3 x 9 x 9, 32 channels to 64, 3 x 3 x 3 taps, a stride of 2 in the plane: 8 x 16 windows of 864 numbers
 * make one tile, 128 x 64, in 27 steps of 4 warps with 64 x 32 each. A step is a tap: 64 bytes. */
TEST(counts_of_a_convolution) {
    enum { IN = 32, OUT = 64, WINDOWS = 8 * 16, STEPS = 27, WARPS = 4 };
    Convolution c = {{3, 9, 9}, {3, 3, 3}, {1, 2, 2}, {0, 0, 0}};
    Tensor x = of(DTYPE_BF16, 8 * 3 * 9 * 9, IN), w = of(DTYPE_BF16, OUT, IN * 27), y = of(DTYPE_BF16, WINDOWS, OUT);
    begin();
    conv3d_forward(rig.cuda, y, x, w, tensor_none(), c);
    EmulateKernelCounts k = counts_of("convolve<");
    expect("launches", k.launches, 1);
    expect("blocks", k.blocks, 1);
    expect("products", k.instructions[EMULATE_PRODUCT], WINDOWS / 16 * (OUT / 8) * (27 * IN / 16));
    const int64_t copies = WARPS * STEPS * (4 + 2), fragments = WARPS * STEPS * 2 * (4 + 2);
    expect("loaded sectors", k.loaded_sectors, copies * 16);
    /* The windows see all positions: the plane's 9 x 9 are 4 steps of 2, and the last tap. */
    expect("sectors loaded once", k.distinct_loaded, (8 * 3 * 9 * 9 * IN + OUT * IN * 27) * 2 / 32);
    expect("wavefronts", k.shared_wavefronts, 4 * (copies + fragments));
    expect("barriers", k.instructions[EMULATE_BARRIER], WARPS * STEPS);
    expect("stored sectors", k.stored_sectors, 2 * WINDOWS * OUT * 2 / 32);
    expect("sectors stored once", k.distinct_stored, WINDOWS * OUT * 2 / 32);
}

int main(void) { return tests_run(open_rig, close_rig); }
