/* The bytes between a memory and caches of all sizes, against caches that are simulated one by one. */
#include "kernels/door.h"
#include "kernels/philox.h"
#include "tests/kernels/op_cases.h"
#include "tests/norm.h"
#include "tests/test.h"

enum { PIECE = TRAFFIC_PIECE, PIECES = 100, LENGTH = 3000, PER_STEP = TRAFFIC_STEP / TRAFFIC_PIECE };

typedef struct {
    int piece, n; /* n pieces in a row */
    bool reads, writes;
} Use;

/* A cache of some pieces that writes a piece back when it must make room for another, and all at the end. */
typedef struct {
    int size, last[PIECES]; /* last: when it was used; 0: it is not in the cache */
    bool dirty[PIECES];
    double moved;
} Cache;

static void use(Cache *cache, int piece, int now, const Use *u) {
    int held = 0, oldest = -1;
    if (!cache->last[piece]) {
        for (int p = 0; p < PIECES; p++) {
            held += cache->last[p] > 0;
            if (cache->last[p] && (oldest < 0 || cache->last[p] < cache->last[oldest])) oldest = p;
        }
        if (held == cache->size) {
            cache->moved += cache->dirty[oldest];
            cache->dirty[oldest] = false;
            cache->last[oldest] = 0;
        }
        cache->moved += u->reads;
    }
    cache->last[piece] = now;
    cache->dirty[piece] |= u->writes;
}

static double simulated(const Use *trace, int size) {
    Cache cache = {.size = size};
    int now = 0;
    for (const Use *u = trace; u < trace + LENGTH; u++)
        for (int i = 0; i < u->n; i++) use(&cache, u->piece + i, ++now, u);
    for (int p = 0; p < PIECES; p++) cache.moved += cache.dirty[p];
    return cache.moved * PIECE;
}

/* Draws a trace whose places lie close together for a while, so that all distances occur. */
static void draw_trace(uint64_t seed, Use *trace) {
    for (uint32_t i = 0; i < LENGTH; i++) {
        uint32_t r[4];
        for (uint32_t k = 0; k < 4; k++) r[k] = philox_bits(seed, PURPOSE_DROPOUT, 1, 4 * i + k);
        int width = 1 + (int)(i / 500 * 15), kind = (int)(r[2] % 3);
        trace[i] = (Use){.n = 1 + (int)(r[0] % 5), .reads = kind != 1, .writes = kind != 0};
        trace[i].piece = (int)(r[1] % (uint32_t)width);
    }
}

TEST(every_size_of_cache_moves_what_a_simulated_one_does) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        Use trace[LENGTH];
        Traffic *traffic = traffic_open(1);
        double before = INFINITY;
        draw_trace(seed, trace);
        for (const Use *u = trace; u < trace + LENGTH; u++) {
            size_t bytes = (size_t)u->n * PIECE;
            traffic_add(traffic, 0,
                        &(TrafficAccess){.at = (char *)0 + (size_t)(u->piece + 1) * PIECE,
                                         .span = bytes,
                                         .bytes = (double)bytes,
                                         .reads = u->reads,
                                         .writes = u->writes},
                        1);
        }
        for (int steps = 1; steps < 80 / PER_STEP; steps++) {
            double expected = simulated(trace, steps * PER_STEP),
                   got = traffic_bytes(traffic_of(traffic, 0), TRAFFIC_MAIN, (double)steps * TRAFFIC_STEP);
            assert_true(expected < before);
            if (got != expected) fail_msg("a cache of %d pieces: %g, expected %g", steps * PER_STEP, got, expected);
            before = expected;
        }
        traffic_close(traffic);
    }
}

static Tensor place(uintptr_t at, int64_t rows, int64_t columns) {
    return tensor_2d((void *)at, DTYPE_F32, rows, columns);
}

static double bytes_of(const Device *dry, int op, TrafficKernel kernel, double cache) {
    return traffic_bytes(traffic_of(dry->traffic, op), kernel, cache);
}

/* 4 MiB that are written and read again cost 8 in a small cache and 4 in a large one; half of 2 MiB between two sizes.
 */
TEST(numbers_in_the_cache_are_not_moved) {
    const double MB = 0x1p20;
    Device *dry = dry_device_open();
    device_follow(dry);
    Tensor x = place(1 << 30, 1024, 1024), y = place(1 << 29, 1024, 1024);
    gelu_forward(dry, y, x, GELU_TANH);
    tanh_forward(dry, x, y);
    assert_true(device_dram_bytes(dry, OP_gelu_forward, 64 * MB) == 8 * MB);
    assert_true(device_dram_bytes(dry, OP_tanh_forward, 2 * MB) == 8 * MB);
    assert_true(device_dram_bytes(dry, OP_tanh_forward, 3 * MB) == 6 * MB); /* distances are 4 MiB, in a step of 2 */
    assert_true(device_dram_bytes(dry, OP_tanh_forward, 8 * MB) == 4 * MB); /* x was read, not written */
    device_reset_counters(dry);
    assert_true(device_dram_bytes(dry, OP_tanh_forward, 0) == 0);
    tanh_forward(dry, x, y);
    assert_true(device_dram_bytes(dry, OP_tanh_forward, 16 * MB) == 0);
    device_close(dry);
}

/* More pieces than any cache holds are moved each time, and the last of them lie in the smallest. A walk that begins
 * with pieces which a cache holds finds those. */
TEST(what_no_cache_holds_is_moved_again) {
    static const size_t lengths[] = {5, 8, 9, 13, 40}; /* in quarters of the largest cache */
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        Traffic *traffic = traffic_open(3);
        const size_t most = TRAFFIC_STEPS * (size_t)TRAFFIC_STEP, all = lengths[i] * most / 4 + 777;
        TrafficAccess walk = {.at = (char *)0 + (1 << 30), .span = all, .bytes = (double)all, .reads = true},
                      end = walk;
        traffic_add(traffic, 0, (TrafficAccess[]){walk, walk}, 2);
        assert_true(traffic_bytes(traffic_of(traffic, 0), TRAFFIC_MAIN, (double)most) == 2.0 * (double)all);
        end.at = (const char *)walk.at + all - TRAFFIC_STEP, end.span = TRAFFIC_STEP, end.bytes = TRAFFIC_STEP;
        traffic_add(traffic, 1, &end, 1); /* parts of 9 pieces */
        assert_true(traffic_bytes(traffic_of(traffic, 1), TRAFFIC_MAIN, 2 * TRAFFIC_STEP) == 0);
        end.at = walk.at;
        traffic_add(traffic, 1, &end, 1);
        traffic_add(traffic, 2, &walk, 1);
        assert_true(traffic_bytes(traffic_of(traffic, 2), TRAFFIC_MAIN, TRAFFIC_STEP) == (double)(all - TRAFFIC_STEP));
        traffic_close(traffic);
    }
}

/* More bytes than a tensor has are rows that are read again; parts of pieces cost their bytes. */
TEST(parts_and_repetitions_cost_their_bytes) {
    Device *dry = dry_device_open();
    device_follow(dry);
    Tensor x = place(12345 * 64, 100, 8), table = place(1 << 30, 50, 8), none = tensor_none();
    Tensor ids = tensor_1d((void *)((uintptr_t)1 << 29), DTYPE_I32, 100);
    embedding_forward(dry, x, none, ids, table, none, none);
    double small = device_dram_bytes(dry, OP_embedding_forward, 0),
           large = device_dram_bytes(dry, OP_embedding_forward, 0x1p26);
    assert_true(small == 400 + 2 * 3200 && large == 400 + 3200 + 1600);
    device_close(dry);
}

static double backward_pass(bool bias, TrafficKernel kernel) {
    Device *dry = dry_device_open();
    device_follow(dry);
    Tensor dbias = bias ? tensor_1d((void *)((uintptr_t)7 << 30), DTYPE_F32, 32) : tensor_none();
    LayerGradients gradients = {
        .dx = place((uintptr_t)1 << 30, 8, 16), .dw = place((uintptr_t)2 << 30, 16, 32), .dbias = dbias};
    Tensor dy = place((uintptr_t)3 << 30, 8, 32), x = place((uintptr_t)4 << 30, 8, 16),
           w = place((uintptr_t)5 << 30, 16, 32);
    gelu_linear_backward(dry, gradients, dy, x, place((uintptr_t)6 << 30, 8, 16), w, WEIGHT_IN_OUT,
                         (GeluDropout){.kind = GELU_TANH});
    double bytes = bytes_of(dry, OP_gelu_linear_backward, kernel, 0);
    device_close(dry);
    return bytes;
}

TEST(bias_sums_and_gelus_are_passes_of_their_own) {
    assert_true(backward_pass(true, TRAFFIC_PASS) == 8 * 32 * 4);
    assert_true(backward_pass(false, TRAFFIC_PASS) == 0);
    assert_true(backward_pass(false, TRAFFIC_GELU) == 2 * 8 * 16 * 4);
    Device *dry = dry_device_open();
    device_follow(dry);
    Tensor y = place((uintptr_t)1 << 30, 8, 32), hidden = place((uintptr_t)2 << 30, 8, 32);
    linear_gelu_forward(dry, y, hidden, place((uintptr_t)3 << 30, 8, 16), place((uintptr_t)4 << 30, 16, 32),
                        tensor_none(), WEIGHT_IN_OUT, (GeluDropout){.kind = GELU_TANH});
    assert_true(bytes_of(dry, OP_linear_gelu_forward, TRAFFIC_GELU, 0) == 8 * 32 * 4);
    const OpTraffic *traffic = traffic_of(dry->traffic, OP_linear_gelu_forward);
    assert_int_equal(traffic->n_products, 1);
    const TrafficProduct *p = traffic->products;
    assert_true(p->m == 8 && p->n == 32 && p->k == 16 && p->bytes == 4 && !p->unaligned && p->calls == 1);
    device_close(dry);
}

/* No library has dropout or the exact GELU in its epilogue. */
TEST(a_gelu_that_no_product_has_is_a_pass_everywhere) {
    const GeluDropout ways[] = {{.kind = GELU_TANH, .drop.p = 0.1f}, {.kind = GELU_ERF}};
    for (int i = 0; i < 2; i++) {
        Device *dry = dry_device_open();
        device_follow(dry);
        linear_gelu_forward(dry, place((uintptr_t)1 << 30, 8, 32), place((uintptr_t)2 << 30, 8, 32),
                            place((uintptr_t)3 << 30, 8, 16), place((uintptr_t)4 << 30, 16, 32), tensor_none(),
                            WEIGHT_IN_OUT, ways[i]);
        assert_true(bytes_of(dry, OP_linear_gelu_forward, TRAFFIC_GELU, 0) == 0);
        assert_true(bytes_of(dry, OP_linear_gelu_forward, TRAFFIC_PASS, 0) == 8 * 32 * 4);
        device_close(dry);
    }
}

/* Equal products are counted together; those of a backward are dx and dw, which is added to. */
TEST(products_are_known_by_their_shapes) {
    Device *dry = dry_device_open();
    device_follow(dry);
    LayerGradients gradients = {.dx = place((uintptr_t)1 << 30, 8, 12), .dw = place((uintptr_t)2 << 30, 12, 32)};
    for (int i = 0; i < 3; i++)
        linear_backward(dry, gradients, place((uintptr_t)3 << 30, 8, 32), place((uintptr_t)4 << 30, 8, 12),
                        place((uintptr_t)5 << 30, 12, 32), WEIGHT_IN_OUT);
    const OpTraffic *traffic = traffic_of(dry->traffic, OP_linear_backward);
    const TrafficProduct *dx = traffic->products, *dw = dx + 1;
    assert_int_equal(traffic->n_products, 2);
    assert_true(dx->m == 8 && dx->n == 12 && dx->k == 32 && dx->bytes == 4 && dx->unaligned && dx->calls == 3);
    assert_true(dw->m == 12 && dw->n == 32 && dw->k == 8 && dw->bytes == 8 && dw->unaligned && dw->calls == 3);
    device_close(dry);
}

/* The update of a range finds in the cache the gradients that the norm of that range has read, and of no other. */
TEST(ranges_of_flat_buffers_are_followed) {
    enum { N = 1 << 20 };
    Tensor flat[5];
    for (uintptr_t i = 0; i < 5; i++) flat[i] = tensor_1d((void *)((i + 1) << 30), DTYPE_F32, N);
    AdamWBuffers buffers = {.params = flat[0], .m = flat[1], .v = flat[2], .grads = flat[3]};
    Tensor norm = tensor_1d((void *)((uintptr_t)9 << 30), DTYPE_F32, 1);
    const Segment halves[] = {{.end = N / 2}, {.begin = N / 2, .end = N}};
    for (int same = 0; same < 2; same++) {
        Device *dry = dry_device_open();
        device_follow(dry);
        global_norm(dry, norm, flat[3], tensor_none(), &halves[0], 1);
        adamw_update(dry, buffers, norm, tensor_none(), &halves[!same], 1, (AdamW){.step = 1});
        assert_true(device_dram_bytes(dry, OP_adamw_update, 0) == 28.0 * N / 2 + 4);
        assert_true(device_dram_bytes(dry, OP_adamw_update, 0x1p26) == (same ? 24.0 : 28.0) * N / 2);
        device_close(dry);
    }
}

/* Without a cache, and without what another kernel reads again, the bytes are those of the counters. */
TEST(the_door_lists_the_bytes_that_it_counts) {
    Device *dry = dry_device_open();
    device_follow(dry);
    Arena arena = arena_open(dry, 1 << 16, "test");
    OpCall call = {.device = dry, .changes = "p=0.5", .make = op_make_in_arena, .owner = &arena};
    for (int op = 0; op < OP_COUNT; op++) {
        call.n_arguments = 0;
        op_call(op, &call);
        const OpTraffic *traffic = traffic_of(dry->traffic, op);
        double moved = device_dram_bytes(dry, op, 0), counted = dry->counters[op].bytes;
        if (traffic->counted != counted || moved < counted || !(counted > 0))
            fail_msg("%s: %g bytes are counted, %g listed, %g moved", op_names[op], counted, traffic->counted, moved);
    }
    arena_close(&arena);
    device_close(dry);
}
