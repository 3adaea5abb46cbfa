/* Memory and counters: arenas on the cpu and the dry device, and FLOPs and bytes, which are exact and the same on both
 * devices. */
#include "kernels/device_open.h"
#include "tests/norm.h"
#include "tests/test.h"

#include "tests/kernels/op_cases.h"

TEST(arenas_are_stacks_of_aligned_tensors) {
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

TEST(a_full_arena_dies_with_its_sizes) {
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

TEST(allocations_beyond_the_memory_are_refused) {
    char output[512];
    Device *device = cpu_device_open(1);
    assert_int_equal(run_function(output, sizeof output, allocate_too_much, device), 1);
    assert_contains(output, "out of memory: the cpu device was asked for 1152921504606846976 bytes");
    device_close(device);
}

TEST(memory_is_zeroed_and_copied_both_ways) {
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

TEST(the_dry_device_counts_memory_that_does_not_exist) {
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

/* Calls every operation of the table once. */
static void run_every_operation(Device *device, const char *changes) {
    Arena arena = arena_open(device, 1 << 16, "test");
    OpCall call = {.device = device, .changes = changes, .make = op_make_in_arena, .owner = &arena};
    for (int op = 0; op < OP_COUNT; op++) {
        call.n_arguments = 0;
        op_call(op, &call);
        arena_release(&arena, 0);
    }
    arena_close(&arena);
}

TEST(the_dry_device_counts_as_the_cpu_does) {
    Device *cpu = cpu_device_open(2), *dry = dry_device_open();
    for (int with_dropout = 0; with_dropout < 2; with_dropout++) {
        run_every_operation(cpu, with_dropout ? "p=0.5" : "");
        run_every_operation(dry, with_dropout ? "p=0.5" : "");
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

/* Compares with what the table has counted by hand. Dropout adds a random number per element, and no bytes. */
TEST(flops_and_bytes_are_exact) {
    Device *dry = dry_device_open();
    for (int with_dropout = 0; with_dropout < 2; with_dropout++) {
        const char *changes = with_dropout ? "p=0.5" : "";
        OpCall call = {.changes = changes};
        op_set_sizes(&call);
        device_reset_counters(dry);
        run_every_operation(dry, changes);
        for (int op = 0; op < OP_COUNT; op++)
            expect_counted(dry, op, op_cases[op]->flops(&call), op_cases[op]->bytes(&call));
    }
    device_close(dry);
}

/* A gradient that is overwritten is not read; one of no rows is cleared. */
TEST(overwritten_gradients_are_written_once) {
    static const int ops[] = {OP_linear_backward, OP_gelu_linear_backward};
    Device *cpu = cpu_device_open(1);
    Arena arena = arena_open(cpu, 1 << 16, "test");
    for (int i = 0; i < 2; i++) {
        OpCall call = {.device = cpu, .changes = "overwrite=1", .make = op_make_in_arena, .owner = &arena};
        op_call(ops[i], &call);
        expect_counted(cpu, ops[i], op_cases[ops[i]]->flops(&call),
                       op_cases[ops[i]]->bytes(&call) - 4 * (double)(call.size.c * call.size.v));
        call.n_arguments = 0;
        call.changes = "overwrite=1 n=0";
        op_call(ops[i], &call);
        const OpArgument *dw = op_argument_of(&call, "dw");
        for (int64_t e = 0; e < call.size.c * call.size.v; e++) assert_true(((float *)dw->on[0].data)[e] == 0);
    }
    arena_close(&arena);
    device_close(cpu);
}

/* Counts, of 50 elements in rows of 8, four whole rows and the last, of which the segment has 2 elements. */
TEST(rows_left_out_are_not_counted) {
    static const uint8_t used[] = {1, 0, 1, 1, 0, 1, 1};
    const Segment segments[] = {{.begin = 10, .end = 60, .used = used, .width = 8, .count = 34},
                                {.begin = 70, .end = 90}};
    Device *dry = dry_device_open();
    Arena arena = arena_open(dry, 1 << 16, "test");
    Tensor one = arena_1d(&arena, DTYPE_F32, 1), flat = arena_1d(&arena, DTYPE_F32, 100);
    AdamWBuffers buffers = {.params = flat, .m = flat, .v = flat, .grads = flat};
    global_norm(dry, one, flat, tensor_none(), segments, 2);
    adamw_update(dry, buffers, one, tensor_none(), segments, 2, (AdamW){0.9f, 0.99f, 1e-8f, 1, 1, false});
    copy_segments(dry, flat, flat, one, segments, 2);
    clear_segments(dry, flat, segments, 2);
    expect_counted(dry, OP_sum_squares, 2 * 54, 4 * 54 + 7);
    expect_counted(dry, OP_finish_norm, 0, 4);
    expect_counted(dry, OP_adamw_update, 14 * 54, 28 * 54 + 7 + 4);
    expect_counted(dry, OP_copy_segments, 0, 8 * 54 + 7 + 4);
    expect_counted(dry, OP_clear_segments, 0, 4 * 54 + 7);
    arena_close(&arena);
    device_close(dry);
}

TEST(scratch_is_allocated_once_and_counted) {
    Device *device = cpu_device_open(2);
    run_every_operation(device, "p=0.5");
    int64_t calls = device->allocation_calls;
    size_t scratch = device->allocated;
    assert_true(scratch > 0);
    run_every_operation(device, "p=0.5");
    assert_int_equal(device->allocation_calls, calls + 1); /* the arena of the test */
    assert_int_equal(device->allocated, scratch);
    device_close(device);
}

TEST(a_profile_names_every_operation_and_its_time) {
    Device *device = cpu_device_open(1);
    device->profile = true;
    run_every_operation(device, "");
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
