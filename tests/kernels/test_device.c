/* Memory and counters: arenas on the cpu and the dry device, and FLOPs and bytes, which are exact and the same on both
 * devices. */
#include "kernels/device_open.h"
#include "tests/helpers.h"

#include "kernels/ops_table.h"

static void arenas_are_stacks_of_aligned_tensors(void **state) {
    (void)state;
    Device *device = cpu_device_open(1);
    size_t before = device->allocated; /* the scratch of the device */
    int64_t calls_before = device->allocation_calls;
    Arena arena = arena_open(device, 1024, "test");
    Tensor a = arena_1d(&arena, DTYPE_F32, 3);
    size_t mark = arena_mark(&arena);
    Tensor b = arena_2d(&arena, DTYPE_U8, 5, 20), c = arena_1d(&arena, DTYPE_I32, 0);
    assert_int_equal(b.rank, 2);
    assert_int_equal(tensor_bytes(b), 100);
    assert_int_equal((uintptr_t)a.data % 64, 0);
    assert_int_equal((char *)b.data - (char *)a.data, 64);
    assert_int_equal((char *)c.data - (char *)b.data, 128);
    assert_int_equal(arena.used, 192);
    arena_release(&arena, mark);
    Tensor d = arena_1d(&arena, DTYPE_F32, 1);
    assert_ptr_equal(d.data, b.data);
    assert_int_equal(arena.peak, 192);
    assert_int_equal(device->allocated, before + 1024);
    assert_int_equal(device->allocation_calls, calls_before + 1);
    arena_close(&arena);
    assert_int_equal(device->allocated, before);
    assert_int_equal(device->peak_allocated, before + 1024);
    device_close(device);
}

static void overfill(void *argument) {
    Arena arena = arena_open(argument, 256, "activations");
    for (int i = 0; i < 5; i++) arena_1d(&arena, DTYPE_F32, 16);
}

static void a_full_arena_dies_with_its_sizes(void **state) {
    (void)state;
    char output[512];
    Device *device = cpu_device_open(1), *dry = dry_device_open();
    assert_int_equal(run_function(output, sizeof output, overfill, device), 1);
    assert_contains(output, "the activations arena is full: 64 bytes were asked for, 256 of 256 are in use");
    assert_int_equal(run_function(output, sizeof output, overfill, dry), 0);
    device_close(dry);
    device_close(device);
}

static void allocate_too_much(void *argument) {
    Device *device = argument;
    device->allocate(device, (size_t)1 << 60);
}

static void allocations_beyond_the_memory_are_refused(void **state) {
    (void)state;
    char output[512];
    Device *device = cpu_device_open(1);
    assert_int_equal(run_function(output, sizeof output, allocate_too_much, device), 1);
    assert_contains(output, "out of memory: the cpu device was asked for 1152921504606846976 bytes");
    device_close(device);
}

static void memory_is_zeroed_and_copied_both_ways(void **state) {
    (void)state;
    Device *device = cpu_device_open(2);
    size_t bytes = ((size_t)5 << 20) + 12; /* not a multiple of the piece that is cleared at a time */
    unsigned char *host = xmalloc(bytes), *back = xmalloc(bytes), *memory = device->allocate(device, bytes);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(memory[i], 0);
        host[i] = (unsigned char)(i * 31 + 1);
    }
    device->upload(device, memory, host, bytes);
    device->synchronize(device);
    device->download(device, back, memory, bytes);
    assert_memory_equal(back, host, bytes);
    device->clear(device, memory + 1, bytes - 2);
    assert_int_equal(memory[0], 1);
    assert_int_equal(memory[bytes - 1], host[bytes - 1]);
    for (size_t i = 1; i < bytes - 1; i++) assert_int_equal(memory[i], 0);
    device->release(device, memory, bytes);
    device_close(device);
    free(host);
    free(back);
}

static void the_dry_device_counts_memory_that_does_not_exist(void **state) {
    (void)state;
    Device *dry = dry_device_open();
    size_t huge = (size_t)1 << 42;
    char *a = dry->allocate(dry, huge), *b = dry->allocate(dry, 100), host[3] = {1, 2, 3};
    assert_true(a && b && (b >= a + huge || a >= b + 100));
    dry->upload(dry, a, host, sizeof host);
    dry->clear(dry, a, huge);
    dry->synchronize(dry);
    dry->download(dry, host, a, sizeof host);
    assert_int_equal(host[0] | host[1] | host[2], 0);
    assert_int_equal(dry->allocated, huge + 100);
    dry->release(dry, a, huge);
    assert_int_equal(dry->allocated, 100);
    assert_int_equal(dry->peak_allocated, huge + 100);
    assert_int_equal(dry->allocation_calls, 2);
    device_close(dry);
}

/* Calls every operation once. Ids, rows, targets and positions are 0 .. n - 1. */
enum { N = 6, C = 12, H = 3, V = 10 };

static Tensor uploaded(Arena *arena, const int32_t *values, int64_t n) {
    Tensor t = arena_1d(arena, DTYPE_I32, n);
    arena->device->upload(arena->device, t.data, values, tensor_bytes(t));
    return t;
}

static Tensor rows(Arena *arena, int64_t n, int64_t columns) { return arena_2d(arena, DTYPE_F32, n, columns); }
static Tensor numbers(Arena *arena, int64_t n) { return arena_1d(arena, DTYPE_F32, n); }

static Tensor counted(Arena *arena) {
    static const int32_t counting[N] = {0, 1, 2, 3, 4, 5};
    return uploaded(arena, counting, N);
}

static Dropout dropout_of(Arena *arena, float p) {
    static const int32_t step = 0;
    return (Dropout){p, 1, 2, uploaded(arena, &step, 1).data};
}

static void run_layers(Device *device, Arena *arena, float p) {
    static const int32_t offsets[] = {0, 3, 4, N};
    Tensor ids = counted(arena), none = tensor_none();
    Tensor x = rows(arena, N, C), y = rows(arena, N, C), z = rows(arena, N, C), means = rows(arena, N / 3, C);
    Tensor table = rows(arena, V, C), dtable = rows(arena, V, C);
    Tensor mean = numbers(arena, N), rstd = numbers(arena, N), gain = numbers(arena, C), bias = numbers(arena, C);
    Tensor qkv = rows(arena, N, 3 * C), dqkv = rows(arena, N, 3 * C), lse = rows(arena, H, N);
    Tensor logits = rows(arena, N, V), logit_bias = numbers(arena, V), hidden = rows(arena, N, V);
    Dropout drop = dropout_of(arena, p);
    Sequences sequences = {uploaded(arena, offsets, 4), offsets, 3};
    Attention attention = {H, true, 0.5f};
    Tensor kv = rows(arena, N, 2 * C);
    CachedKeys keys = {kv, counted(arena), uploaded(arena, (const int32_t[N]){1, 1, 1, 1, 1, 1}, N), 1, 1};
    cast(device, mean, rstd);
    embedding_forward(device, x, none, ids, table, ids, table);
    embedding_backward(device, dtable, dtable, x, ids, ids, ids);
    place_rows(device, x, y, ids, ids, table);
    gather_rows(device, y, x, ids);
    scatter_rows(device, x, y, ids);
    dropout(device, y, x, drop);
    residual_forward(device, y, x, z, drop);
    layernorm_forward(device, (LayerNormOutput){.y = y, .mean = mean, .rstd = rstd}, x, gain, bias);
    layernorm_backward(device, (NormGradients){.dx = z, .dgain = gain, .dbias = bias}, none, y, x, mean, rstd, gain);
    residual_layernorm_forward(device, z, (LayerNormOutput){.y = y, .mean = mean, .rstd = rstd}, x, x, gain, none,
                               drop);
    linear_forward(device, logits, x, table, logit_bias, WEIGHT_OUT_IN);
    linear_backward(device, (LayerGradients){.dx = z, .dw = dtable, .dbias = logit_bias}, logits, x, table,
                    WEIGHT_OUT_IN);
    linear_gelu_forward(device, logits, hidden, x, table, logit_bias, WEIGHT_OUT_IN, (GeluDropout){GELU_TANH, drop});
    gelu_linear_backward(device, (LayerGradients){.dx = z, .dw = dtable, .dbias = logit_bias}, logits, x, y, table,
                         WEIGHT_OUT_IN, (GeluDropout){GELU_ERF, drop});
    gelu_forward(device, y, x, GELU_TANH);
    gelu_backward(device, y, y, x, GELU_ERF);
    attention_forward(device, y, lse, qkv, sequences, attention, drop);
    attention_backward(device, dqkv, y, (AttentionActivations){.qkv = qkv, .out = y, .lse = lse}, sequences, attention,
                       drop);
    cache_rows(device, kv, qkv, ids);
    attention_cached_forward(device, y, qkv, keys, attention);
    tanh_forward(device, y, x);
    tanh_backward(device, z, x, y);
    leaky_relu_forward(device, y, x, 0.1f);
    leaky_relu_backward(device, z, y, x, 0.1f);
    mean_rows_forward(device, means, x, 3);
    mean_rows_backward(device, z, means, 3);
}

static void run_volumes(Device *device, Arena *arena, float p) {
    Window window = {3, 2, 1, 0};
    Convolution convolution = {{1, 2, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
    const AugmentShape shape = {2, 1, 1};
    AugmentDraws draws[N];
    for (int i = 0; i < N; i++) draws[i] = (AugmentDraws){.scale = 1};
    Tensor ids = counted(arena), one = numbers(arena, 1);
    Tensor x = rows(arena, N, C), y = rows(arena, N, C), z = rows(arena, N, C), means = rows(arena, N / 3, C);
    Tensor gain = numbers(arena, C), bias = numbers(arena, C), square = rows(arena, C, C);
    Tensor unfolded = rows(arena, N / 3 * window_positions(window), 2 * C);
    Tensor cells = rows(arena, 2 * N, 2), counts = arena_2d(arena, DTYPE_U8, N, 2);
    Tensor words = uploaded(arena, (const int32_t *)draws, N * AUGMENT_DRAW_WORDS);
    Dropout drop = dropout_of(arena, p);
    augment_volumes(device, cells, counts, ids, tensor_2d(words.data, DTYPE_I32, N, AUGMENT_DRAW_WORDS), shape, false);
    mixup(device, y, x, ids, one);
    unfold_forward(device, unfolded, x, window);
    unfold_backward(device, z, unfolded, window);
    conv3d_forward(device, y, x, square, bias, convolution);
    conv3d_backward(device, (LayerGradients){.dx = z, .dw = square, .dbias = bias}, y, x, square, convolution, true);
    max_pool_forward(device, means, tensor_rows(x, 0, 4), 2, 1);
    max_pool_backward(device, tensor_rows(z, 0, 4), means, tensor_rows(x, 0, 4), 2, 1);
    batchnorm_forward(device, y, (BatchStatistics){gain, bias, tensor_none(), tensor_none(), 0.1f}, x, gain, bias);
    batchnorm_apply(device, y, x, gain, bias, gain, bias);
    batchnorm_backward(device, (NormGradients){.dx = z, .dgain = gain, .dbias = bias}, y, x, gain, bias, gain);
    Normed a = {x, gain, bias, gain, bias}, b = {y, gain, bias, gain, bias};
    NormActivation how = {0.1f, 3, 1, true, false, drop};
    batchnorm_statistics(device, (BatchStatistics){gain, bias, gain, bias, 0.1f}, x);
    batchnorm_from_running(device, bias, gain);
    norm_activate_forward(device, means, a, b, how);
    norm_activate_backward(device, (NormGradients){.dx = z, .dgain = gain, .dbias = bias},
                           (NormGradients){.dx = y, .dgain = gain, .dbias = bias}, means, a, b, how);
}

static void run_stem(Device *device, Arena *arena) {
    Stem stem = {3, 1, 0.1f};
    Tensor in = rows(arena, N, STEM_INPUTS), halves = rows(arena, N / 3 * 2, 8);
    Tensor w = rows(arena, 8, STEM_WINDOW), w2 = rows(arena, 8, 24), eight[4];
    Tensor moments = numbers(arena, STEM_MOMENTS);
    for (int i = 0; i < 4; i++) eight[i] = numbers(arena, 8);
    stem_statistics(device, (BatchStatistics){eight[0], eight[1], tensor_none(), tensor_none(), 0.1f}, moments, in, w,
                    stem);
    stem_forward(device, halves, in, (StemWeights){w, eight[0], eight[1], eight[2], eight[3], w2}, stem);
    stem_backward(device, (StemGradients){w, eight[2], eight[3], w2}, halves, in,
                  (StemWeights){w, eight[0], eight[1], eight[2], eight[3], w2}, moments, stem);
}

static void run_losses(Device *device, Arena *arena) {
    Tensor ids = counted(arena), one = numbers(arena, 1), weights = numbers(arena, N);
    Tensor x = rows(arena, N, C), y = rows(arena, N, C), z = rows(arena, N, C);
    Tensor mean = numbers(arena, N), rstd = numbers(arena, N), logits = rows(arena, N, V), logit = rows(arena, N, 1);
    Tensor soft = rows(arena, N, V);
    cross_entropy_forward(device, mean, rstd, logits, logits.dims[1], ids, weights);
    cross_entropy_forward_backward(device, mean, rstd, logits, logits.dims[1], ids, weights, one, tensor_none());
    soft_cross_entropy_forward(device, mean, rstd, logits, soft, ids);
    soft_cross_entropy_forward_backward(device, mean, rstd, logits, soft, ids, one, tensor_none());
    squared_error_forward(device, mean, y, x);
    squared_error_forward_backward(device, mean, y, x, one, tensor_none());
    binary_cross_entropy_forward(device, mean, rstd, logit, weights, weights);
    binary_cross_entropy_forward_backward(device, mean, rstd, logit, weights, weights, one, tensor_none());
    normalize_rows_forward(device, y, mean, x);
    normalize_rows_backward(device, z, x, y, mean);
    nt_xent_forward(device, mean, rstd, x, 0.5f);
    nt_xent_backward(device, z, x, rstd, 0.5f, one, tensor_none());
}

static void run_update(Device *device, Arena *arena) {
    const Segment segments[] = {{0, 40, 0.1f, 1, .group = 0}, {50, 100, 0, 1, .group = 0}};
    Tensor one = numbers(arena, 1), mean = numbers(arena, N), flat = numbers(arena, 100), wide[3];
    for (int i = 0; i < 3; i++) wide[i] = numbers(arena, 100);
    sum_forward(device, one, mean);
    global_norm(device, one, flat, tensor_none(), segments, 2);
    adamw_update(device, (AdamWBuffers){.params = wide[0], .m = wide[1], .v = wide[2], .grads = flat}, one,
                 tensor_none(), segments, 2, (AdamW){0.1f, 0.9f, 0.99f, 1e-8f, 1, 1, false});
    muon_update(device, (AdamWBuffers){.params = wide[0], .m = wide[1], .grads = flat}, one, tensor_none(),
                (MuonMatrix){.offset = 10, .stride = 7, .rows = 12, .columns = 5, .rate = 1}, (Muon){0.1f, 0.95f, 1});
    loss_scale_update(device, numbers(arena, LOSS_SCALE_FIELDS), one, tensor_none());
    norm_guard(device, one, one, flat, false);
    copy_segments(device, wide[0], flat, one, segments, 2);
    clear_segments(device, wide[0], segments, 2);
}

static void run_every_operation(Device *device, float p) {
    Arena arena = arena_open(device, 1 << 16, "test");
    run_layers(device, &arena, p);
    run_volumes(device, &arena, p);
    run_stem(device, &arena);
    run_losses(device, &arena);
    run_update(device, &arena);
    arena_close(&arena);
    for (int op = 0; op < OP_COUNT; op++)
        if (!device->counters[op].calls) fail_msg("%s is not called here: add it to run_every_operation", op_names[op]);
}

static void the_dry_device_counts_as_the_cpu_does(void **state) {
    (void)state;
    Device *cpu = cpu_device_open(2), *dry = dry_device_open();
    for (int with_dropout = 0; with_dropout < 2; with_dropout++) {
        run_every_operation(cpu, with_dropout ? 0.5f : 0);
        run_every_operation(dry, with_dropout ? 0.5f : 0);
    }
    double flops[2], bytes[2];
    for (int i = 0; i < OP_COUNT; i++) {
        const OpCounter *a = &cpu->counters[i], *b = &dry->counters[i];
        if (a->calls != 2 || memcmp(a, b, sizeof *a) != 0)
            fail_msg("%s: expected 2 calls on both devices; the cpu device has %lld, %.17g FLOPs, %.17g bytes, the dry "
                     "device %lld, %.17g, %.17g",
                     op_names[i], (long long)a->calls, a->flops, a->bytes, (long long)b->calls, b->flops, b->bytes);
    }
    device_totals(cpu, &flops[0], &bytes[0]);
    device_totals(dry, &flops[1], &bytes[1]);
    assert_true(flops[0] == flops[1] && flops[0] > 0);
    assert_true(bytes[0] == bytes[1] && bytes[0] > 0);
    device_reset_counters(dry);
    device_totals(dry, &flops[1], &bytes[1]);
    assert_true(flops[1] == 0 && bytes[1] == 0 && dry->counters[OP_linear_forward].calls == 0);
    device_close(cpu);
    device_close(dry);
}

static void expect_counted(const Device *device, int op, double flops, double bytes) {
    const OpCounter *c = &device->counters[op];
    if (c->calls != 1 || c->flops != flops || c->bytes != bytes)
        fail_msg("%s: %lld calls, %.17g FLOPs, %.17g bytes, expected 1, %.17g, %.17g", op_names[op],
                 (long long)c->calls, c->flops, c->bytes, flops, bytes);
}

/* Compares with the FLOPs and bytes of each operation, computed by hand. */
static void flops_and_bytes_are_exact(void **state) {
    (void)state;
    const double n = N, c = C, v = V, pairs = 6 + 1 + 3; /* causal, of sequences of 3, 1 and 2 rows */
    Device *dry = dry_device_open();
    run_every_operation(dry, 0);
    expect_counted(dry, OP_linear_forward, 2 * n * c * v + n * v, 4 * (n * c + c * v + n * v + v));
    expect_counted(dry, OP_linear_backward, 4 * n * c * v + n * v, 4 * (2 * n * c + 3 * c * v + n * v + 2 * v));
    expect_counted(dry, OP_linear_gelu_forward, 2 * n * c * v + 10 * n * v, 4 * (n * c + c * v + 2 * n * v + v));
    expect_counted(dry, OP_gelu_linear_backward, 4 * n * c * v + 18 * n * c + n * v,
                   4 * (3 * n * c + 3 * c * v + n * v + 2 * v));
    expect_counted(dry, OP_attention_forward, pairs * (4 * c + 5 * H), 4 * (4 * n * c + H * n + 4));
    expect_counted(dry, OP_attention_backward, pairs * (10 * c + 6 * H) + 2 * n * c, 4 * (8 * n * c + H * n + 4));
    expect_counted(dry, OP_cache_rows, 0, 4 * (4 * n * c + n));
    expect_counted(dry, OP_attention_cached_forward, n * (4 * c + 5 * H), 4 * (4 * n * c + 2 * n));
    expect_counted(dry, OP_embedding_forward, n * c, 4 * (3 * n * c + 2 * n));
    expect_counted(dry, OP_gather_rows, 0, 4 * (2 * n * c + n));
    expect_counted(dry, OP_place_rows, n * c, 4 * (3 * n * c + 2 * n));
    expect_counted(dry, OP_augment_volumes, 2 * 2 * n, 2 * n + 4 * (2 * 2 * n + n + AUGMENT_DRAW_WORDS * n));
    expect_counted(dry, OP_mixup, 3 * n * c, 4 * (3 * n * c + n + 1));
    expect_counted(dry, OP_cross_entropy_forward, 4 * n * v + n, 4 * (n * v + 4 * n));
    expect_counted(dry, OP_cross_entropy_forward_backward, 5 * n * v + 2 * n, 4 * (2 * n * v + 4 * n));
    expect_counted(dry, OP_tanh_forward, 5 * n * c, 4 * 2 * n * c);
    expect_counted(dry, OP_tanh_backward, 4 * n * c, 4 * 3 * n * c);
    expect_counted(dry, OP_soft_cross_entropy_forward, 7 * n * v + 3 * n, 4 * (2 * n * v + 3 * n));
    expect_counted(dry, OP_soft_cross_entropy_forward_backward, 10 * n * v + 5 * n, 4 * (3 * n * v + 3 * n));
    expect_counted(dry, OP_squared_error_forward, 3 * n * c, 4 * (2 * n * c + n));
    expect_counted(dry, OP_squared_error_forward_backward, 4 * n * c, 4 * (3 * n * c + n));
    expect_counted(dry, OP_binary_cross_entropy_forward, 5 * n, 4 * 5 * n);
    expect_counted(dry, OP_binary_cross_entropy_forward_backward, 9 * n, 4 * 6 * n);
    expect_counted(dry, OP_normalize_rows_forward, 3 * n * c + 2 * n, 4 * (2 * n * c + n));
    expect_counted(dry, OP_normalize_rows_backward, 5 * n * c + n, 4 * (3 * n * c + n));
    expect_counted(dry, OP_nt_xent_forward, n * (n - 1) * (2 * c + 4) + 3 * n, 4 * (n * c + 2 * n));
    expect_counted(dry, OP_nt_xent_backward, n * (n - 1) * (4 * c + 6) + n * c, 4 * (2 * n * c + n));
    expect_counted(dry, OP_batchnorm_statistics, 4 * n * c, 4 * (n * c + 6 * c));
    expect_counted(dry, OP_batchnorm_from_running, 3 * c, 4 * 2 * c);
    /* Pools pairs of frames. The third frame of each of the two samples has no pair: 4 of 6 rows become 2. */
    expect_counted(dry, OP_norm_activate_forward, 4 * c * (3 + 4 + 1) + 2 * c, 4 * (2 * 4 * c + 2 * c + 8 * c));
    expect_counted(dry, OP_norm_activate_backward, 4 * c * (3 + 4 + 1) + 2 * c + 4 * c + 2 * (3 * 4 * c + 5 * n * c),
                   4 * (4 * n * c + 2 * c + 16 * c));
    expect_counted(dry, OP_global_norm, 2 * 90, 4 * 90 + 4);
    expect_counted(dry, OP_adamw_update, 14 * 90, 28 * 90 + 4);
    expect_counted(dry, OP_clear_segments, 0, 4 * 90);
    expect_counted(dry, OP_muon_update, 5 * (2 * (2 * 5 * 5 * 12) + 2 * 5 * 5 * 5 + 3 * 5 * 5) + 13 * 60, 20 * 60 + 4);
    expect_counted(dry, OP_cast, 0, 8 * n);
    device_reset_counters(dry);
    run_every_operation(dry, 0.5f); /* dropout adds a random number per element, and no bytes */
    expect_counted(dry, OP_linear_gelu_forward, 2 * n * c * v + 11 * n * v, 4 * (n * c + c * v + 2 * n * v + v));
    expect_counted(dry, OP_gelu_linear_backward, 4 * n * c * v + 19 * n * c + n * v,
                   4 * (3 * n * c + 3 * c * v + n * v + 2 * v));
    expect_counted(dry, OP_norm_activate_forward, 4 * c * (3 + 4 + 1) + 2 * c + 2 * c + 2 * c, /* 2 channels a column */
                   4 * (2 * 4 * c + 2 * c + 8 * c));
    device_close(dry);
}

/* Counts, of 50 elements in rows of 8, four whole rows and the last, of which the segment has 2 elements. */
static void rows_left_out_are_not_counted(void **state) {
    (void)state;
    static const uint8_t used[] = {1, 0, 1, 1, 0, 1, 1};
    const Segment segments[] = {{.begin = 10, .end = 60, .used = used, .width = 8, .count = 34},
                                {.begin = 70, .end = 90}};
    Device *dry = dry_device_open();
    Arena arena = arena_open(dry, 1 << 16, "test");
    Tensor one = numbers(&arena, 1), flat = numbers(&arena, 100);
    AdamWBuffers buffers = {.params = flat, .m = flat, .v = flat, .grads = flat};
    global_norm(dry, one, flat, tensor_none(), segments, 2);
    adamw_update(dry, buffers, one, tensor_none(), segments, 2, (AdamW){0.1f, 0.9f, 0.99f, 1e-8f, 1, 1, false});
    copy_segments(dry, flat, flat, one, segments, 2);
    clear_segments(dry, flat, segments, 2);
    expect_counted(dry, OP_global_norm, 2 * 54, 4 * 54 + 7 + 4);
    expect_counted(dry, OP_adamw_update, 14 * 54, 28 * 54 + 7 + 4);
    expect_counted(dry, OP_copy_segments, 0, 8 * 54 + 7 + 4);
    expect_counted(dry, OP_clear_segments, 0, 4 * 54 + 7);
    arena_close(&arena);
    device_close(dry);
}

static void scratch_is_allocated_once_and_counted(void **state) {
    (void)state;
    Device *device = cpu_device_open(2);
    run_every_operation(device, 0.5f);
    int64_t calls = device->allocation_calls, heap = allocation_count();
    size_t scratch = device->allocated;
    assert_true(scratch > 0);
    run_every_operation(device, 0.5f);
    assert_int_equal(device->allocation_calls, calls + 1); /* the arena of the test */
    assert_int_equal(device->allocated, scratch);
    assert_int_equal(allocation_count(), heap);
    device_close(device);
}

static void a_profile_names_every_operation_and_its_time(void **state) {
    (void)state;
    Device *device = cpu_device_open(1);
    device->profile = true;
    run_every_operation(device, 0);
    char text[16384] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    ops_print_counters(device, file);
    fclose(file);
    for (int i = 0; i < OP_COUNT; i++) {
        assert_contains(text, op_names[i]);
        if (!(device->counters[i].seconds > 0)) fail_msg("%s took no time", op_names[i]);
    }
    assert_contains(text, "GFLOP/s");
    assert_true(strstr(text, "linear_backward") < strstr(text, "linear_forward")); /* most FLOPs first */
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas_are_stacks_of_aligned_tensors),
        cmocka_unit_test(a_full_arena_dies_with_its_sizes),
        cmocka_unit_test(allocations_beyond_the_memory_are_refused),
        cmocka_unit_test(memory_is_zeroed_and_copied_both_ways),
        cmocka_unit_test(the_dry_device_counts_memory_that_does_not_exist),
        cmocka_unit_test(the_dry_device_counts_as_the_cpu_does),
        cmocka_unit_test(flops_and_bytes_are_exact),
        cmocka_unit_test(rows_left_out_are_not_counted),
        cmocka_unit_test(scratch_is_allocated_once_and_counted),
        cmocka_unit_test(a_profile_names_every_operation_and_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
