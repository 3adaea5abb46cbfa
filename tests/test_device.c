/* Memory and counters: arenas on the cpu and the dry device, exact FLOPs and bytes, and that both devices count alike.
 */
#include "tests/helpers.h"

#include "kernels/ops_table.h"

static void arenas_are_stacks_of_aligned_tensors(void **state) {
    (void)state;
    Device *device = cpu_device_open(1);
    size_t before = device->allocated; /* the device's own scratch */
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

static void a_full_arena_dies_and_says_what_it_holds(void **state) {
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

static void memory_that_is_not_there_is_refused(void **state) {
    (void)state;
    char output[512];
    Device *device = cpu_device_open(1);
    assert_int_equal(run_function(output, sizeof output, allocate_too_much, device), 1);
    assert_contains(output, "out of memory: the cpu device was asked for 1152921504606846976 bytes");
    device_close(device);
}

static void memory_comes_zeroed_and_is_copied_both_ways(void **state) {
    (void)state;
    Device *device = cpu_device_open(2);
    size_t bytes = ((size_t)5 << 20) + 12; /* more than one piece of a clear, and not a whole number of them */
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

/* Every operation once; ids, rows, targets and positions are 0 .. n - 1. */
enum { N = 6, C = 12, H = 3, V = 10 };

static Tensor uploaded(Arena *arena, const int32_t *values, int64_t n) {
    Tensor t = arena_1d(arena, DTYPE_I32, n);
    arena->device->upload(arena->device, t.data, values, tensor_bytes(t));
    return t;
}

static void run_every_operation(Device *device, float p) {
    static const int32_t counting[N] = {0, 1, 2, 3, 4, 5}, offsets[] = {0, 3, 4, N};
    Arena arena = arena_open(device, 1 << 16, "test");
    Tensor ids = uploaded(&arena, counting, N), x = arena_2d(&arena, DTYPE_F32, N, C), none = tensor_none();
    Tensor y = arena_2d(&arena, DTYPE_F32, N, C), z = arena_2d(&arena, DTYPE_F32, N, C);
    Tensor table = arena_2d(&arena, DTYPE_F32, V, C), dtable = arena_2d(&arena, DTYPE_F32, V, C);
    Tensor mean = arena_1d(&arena, DTYPE_F32, N), rstd = arena_1d(&arena, DTYPE_F32, N);
    Tensor weights = arena_1d(&arena, DTYPE_F32, N);
    Tensor gain = arena_1d(&arena, DTYPE_F32, C), bias = arena_1d(&arena, DTYPE_F32, C);
    Tensor qkv = arena_2d(&arena, DTYPE_F32, N, 3 * C), dqkv = arena_2d(&arena, DTYPE_F32, N, 3 * C);
    Tensor lse = arena_2d(&arena, DTYPE_F32, H, N), logits = arena_2d(&arena, DTYPE_F32, N, V);
    Tensor one = arena_1d(&arena, DTYPE_F32, 1), flat = arena_1d(&arena, DTYPE_F32, 100), wide[3];
    Tensor logit_bias = arena_1d(&arena, DTYPE_F32, V), hidden = arena_2d(&arena, DTYPE_F32, N, V);
    Window window = {3, 2, 1, 0};
    Tensor unfolded = arena_2d(&arena, DTYPE_F32, N / 3 * window_positions(window), 2 * C);
    Convolution convolution = {{1, 2, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
    Tensor square = arena_2d(&arena, DTYPE_F32, C, C);
    Tensor means = arena_2d(&arena, DTYPE_F32, N / 3, C), logit = arena_2d(&arena, DTYPE_F32, N, 1);
    for (int i = 0; i < 3; i++) wide[i] = arena_1d(&arena, DTYPE_F32, 100);
    Dropout drop = {p, 1, 2, uploaded(&arena, offsets, 1).data};
    Sequences sequences = {uploaded(&arena, offsets, 4), offsets, 3};
    Attention attention = {H, true, 0.5f};
    const FlimShape shape = {2, 1, 1};
    FlimDraws draws[N];
    for (int i = 0; i < N; i++) draws[i] = (FlimDraws){.scale = 1};
    Tensor cells = arena_2d(&arena, DTYPE_F32, 2 * N, 2), counts = arena_2d(&arena, DTYPE_U8, N, 2);
    Tensor words = uploaded(&arena, (const int32_t *)draws, N * FLIM_DRAW_WORDS);
    const Segment segments[] = {{0, 40, 0.1f, 1, 0}, {50, 100, 0, 1, 0}};

    cast(device, mean, rstd);
    embedding_forward(device, x, none, ids, table, ids, table);
    embedding_backward(device, dtable, dtable, x, ids, ids, ids);
    place_rows(device, x, y, ids, ids, table);
    gather_rows(device, y, x, ids);
    scatter_rows(device, x, y, ids);
    dropout(device, y, x, drop);
    residual_forward(device, y, x, z, drop);
    layernorm_forward(device, y, mean, rstd, x, gain, bias);
    layernorm_backward(device, z, gain, bias, none, y, x, mean, rstd, gain);
    residual_layernorm_forward(device, z, y, mean, rstd, x, x, gain, none, drop);
    linear_forward(device, logits, x, table, logit_bias, WEIGHT_OUT_IN);
    linear_backward(device, z, dtable, logit_bias, logits, x, table, WEIGHT_OUT_IN);
    linear_gelu_forward(device, logits, hidden, x, table, logit_bias, WEIGHT_OUT_IN, GELU_TANH, drop);
    gelu_linear_backward(device, z, dtable, logit_bias, logits, x, y, table, WEIGHT_OUT_IN, GELU_ERF, drop);
    gelu_forward(device, y, x, GELU_TANH);
    gelu_backward(device, y, y, x, GELU_ERF);
    attention_forward(device, y, lse, qkv, sequences, attention, drop);
    attention_backward(device, dqkv, y, qkv, y, lse, sequences, attention, drop);
    unfold_forward(device, unfolded, x, window);
    unfold_backward(device, z, unfolded, window);
    conv3d_forward(device, y, x, square, bias, convolution);
    conv3d_backward(device, z, square, bias, y, x, square, convolution, true);
    max_pool_forward(device, means, tensor_rows(x, 0, 4), 2, 1);
    max_pool_backward(device, tensor_rows(z, 0, 4), means, tensor_rows(x, 0, 4), 2, 1);
    leaky_relu_forward(device, y, x, 0.1f);
    leaky_relu_backward(device, z, y, x, 0.1f);
    batchnorm_forward(device, y, gain, bias, tensor_none(), tensor_none(), x, gain, bias, 0.1f);
    batchnorm_apply(device, y, x, gain, bias, gain, bias);
    batchnorm_backward(device, z, gain, bias, y, x, gain, bias, gain);
    Normed a = {x, gain, bias, gain, bias}, b = {y, gain, bias, gain, bias};
    NormActivation how = {0.1f, 3, 1, true, false, drop};
    batchnorm_statistics(device, gain, bias, gain, bias, x, 0.1f);
    batchnorm_from_running(device, bias, gain);
    norm_activate_forward(device, means, a, b, how);
    norm_activate_backward(device, z, gain, bias, y, gain, bias, means, a, b, how);
    Stem stem = {3, 1, 0.1f};
    Tensor in = arena_2d(&arena, DTYPE_F32, N, STEM_INPUTS), halves = arena_2d(&arena, DTYPE_F32, N / 3 * 2, 8);
    Tensor w = arena_2d(&arena, DTYPE_F32, 8, STEM_WINDOW), w2 = arena_2d(&arena, DTYPE_F32, 8, 24), eight[4];
    Tensor moments = arena_1d(&arena, DTYPE_F32, STEM_MOMENTS);
    for (int i = 0; i < 4; i++) eight[i] = arena_1d(&arena, DTYPE_F32, 8);
    stem_statistics(device, eight[0], eight[1], moments, none, none, in, w, stem, 0.1f);
    stem_forward(device, halves, in, w, eight[0], eight[1], eight[2], eight[3], w2, stem);
    stem_backward(device, w, eight[2], eight[3], w2, halves, in, w, eight[0], eight[1], eight[2], eight[3], w2, moments,
                  stem);
    mean_rows_forward(device, means, x, 3);
    mean_rows_backward(device, z, means, 3);
    augment_cells(device, cells, counts, ids, tensor_2d(words.data, DTYPE_I32, N, FLIM_DRAW_WORDS), shape, false);
    mixup(device, y, x, ids, one);
    cross_entropy_forward(device, mean, rstd, logits, ids, weights);
    cross_entropy_forward_backward(device, mean, rstd, logits, ids, weights, one, tensor_none());
    squared_error_forward(device, mean, y, x);
    squared_error_forward_backward(device, mean, y, x, one, tensor_none());
    binary_cross_entropy_forward(device, mean, rstd, logit, weights, weights);
    binary_cross_entropy_forward_backward(device, mean, rstd, logit, weights, weights, one, tensor_none());
    normalize_rows_forward(device, y, mean, x);
    normalize_rows_backward(device, z, x, y, mean);
    nt_xent_forward(device, mean, rstd, x, 0.5f);
    nt_xent_backward(device, z, x, rstd, 0.5f, one, tensor_none());
    sum_forward(device, one, mean);
    global_norm(device, one, flat, tensor_none(), segments, 2);
    adamw_update(device, wide[0], tensor_none(), wide[1], wide[2], flat, one, tensor_none(), segments, 2,
                 (AdamW){0.1f, 0.9f, 0.99f, 1e-8f, 1, 1, false});
    loss_scale_update(device, arena_1d(&arena, DTYPE_F32, LOSS_SCALE_FIELDS), one, tensor_none());
    norm_guard(device, one, one, flat, false);
    copy_segments(device, wide[0], flat, one, segments, 2);
    arena_close(&arena);
}

static void the_dry_device_counts_what_the_cpu_counts(void **state) {
    (void)state;
    Device *cpu = cpu_device_open(2), *dry = dry_device_open();
    for (int with_dropout = 0; with_dropout < 2; with_dropout++) {
        run_every_operation(cpu, with_dropout ? 0.5f : 0);
        run_every_operation(dry, with_dropout ? 0.5f : 0);
    }
    double flops[2], bytes[2];
    for (int i = 0; i < OP_COUNT; i++) {
        assert_int_equal(cpu->counters[i].calls, 2);
        assert_memory_equal(&cpu->counters[i], &dry->counters[i], sizeof(OpCounter));
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

/* By hand: what the arithmetic of each operation comes to. */
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
    expect_counted(dry, OP_embedding_forward, n * c, 4 * (3 * n * c + 2 * n));
    expect_counted(dry, OP_gather_rows, 0, 4 * (2 * n * c + n));
    expect_counted(dry, OP_place_rows, n * c, 4 * (3 * n * c + 2 * n));
    expect_counted(dry, OP_augment_cells, 2 * 2 * n, 2 * n + 4 * (2 * 2 * n + n + FLIM_DRAW_WORDS * n));
    expect_counted(dry, OP_mixup, 3 * n * c, 4 * (3 * n * c + n + 1));
    expect_counted(dry, OP_cross_entropy_forward, 4 * n * v + n, 4 * (n * v + 4 * n));
    expect_counted(dry, OP_cross_entropy_forward_backward, 5 * n * v + 2 * n, 4 * (2 * n * v + 4 * n));
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
    /* Of two samples of three frames the last is of no pair: 4 rows of 6 are used, and of them 2 come out. */
    expect_counted(dry, OP_norm_activate_forward, 4 * c * (3 + 4 + 1) + 2 * c, 4 * (2 * 4 * c + 2 * c + 8 * c));
    expect_counted(dry, OP_norm_activate_backward, 4 * c * (3 + 4 + 1) + 2 * c + 4 * c + 2 * (3 * 4 * c + 5 * n * c),
                   4 * (4 * n * c + 2 * c + 16 * c));
    expect_counted(dry, OP_global_norm, 2 * 90, 4 * 90 + 4);
    expect_counted(dry, OP_adamw_update, 14 * 90, 28 * 90 + 4);
    expect_counted(dry, OP_cast, 0, 8 * n);
    device_reset_counters(dry);
    run_every_operation(dry, 0.5f); /* a random number each, and no more bytes */
    expect_counted(dry, OP_linear_gelu_forward, 2 * n * c * v + 11 * n * v, 4 * (n * c + c * v + 2 * n * v + v));
    expect_counted(dry, OP_gelu_linear_backward, 4 * n * c * v + 19 * n * c + n * v,
                   4 * (3 * n * c + 3 * c * v + n * v + 2 * v));
    expect_counted(dry, OP_norm_activate_forward, 4 * c * (3 + 4 + 1) + 2 * c + 2 * c + 2 * c, /* 2 channels a column */
                   4 * (2 * 4 * c + 2 * c + 8 * c));
    device_close(dry);
}

static void scratch_is_taken_once_and_counted(void **state) {
    (void)state;
    Device *device = cpu_device_open(2);
    run_every_operation(device, 0.5f);
    int64_t calls = device->allocation_calls, heap = allocation_count();
    size_t scratch = device->allocated;
    assert_true(scratch > 0);
    run_every_operation(device, 0.5f);
    assert_int_equal(device->allocation_calls, calls + 1); /* the test's own arena */
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
    device_print_counters(device, file);
    fclose(file);
    for (int i = 0; i < OP_COUNT; i++) {
        assert_contains(text, op_names[i]);
        assert_true(device->counters[i].seconds > 0);
    }
    assert_contains(text, "GFLOP/s");
    assert_true(strstr(text, "linear_backward") < strstr(text, "linear_forward")); /* most FLOPs first */
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas_are_stacks_of_aligned_tensors),
        cmocka_unit_test(a_full_arena_dies_and_says_what_it_holds),
        cmocka_unit_test(memory_that_is_not_there_is_refused),
        cmocka_unit_test(memory_comes_zeroed_and_is_copied_both_ways),
        cmocka_unit_test(the_dry_device_counts_memory_that_does_not_exist),
        cmocka_unit_test(the_dry_device_counts_what_the_cpu_counts),
        cmocka_unit_test(flops_and_bytes_are_exact),
        cmocka_unit_test(scratch_is_taken_once_and_counted),
        cmocka_unit_test(a_profile_names_every_operation_and_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
