/* The time of work on a made-up card against arithmetic by hand. */
#include "cost/cost.h"
#include "cost/product.h"
#include "kernels/ops_table.h"
#include "tests/estimate_rig.h"

/* 200 TFLOP/s in 16 bits of which half is sustained, 40 in TF32, 10 in f32 of which half is; 1 TB/s of which half is; a
 * kernel costs 10 us. */
static const Card made_up = {.name = "made up",
                             .key = "made-up",
                             .capability = 80,
                             .f32 = 10e12,
                             .tf32 = 40e12,
                             .half = 200e12,
                             .bandwidth = 1e12,
                             .memory = 0x1p34,
                             .l2 = 0x1p25,
                             .pcie = 10e9,
                             .watts = 100,
                             .of_tensor = 0.5,
                             .of_f32 = 0.5,
                             .of_bandwidth = 0.5,
                             .launch = 10e-6};

static void expect_op(DType half, bool tf32, int op, CallWork calls, double compute, double memory, double launches,
                      Bound bound) {
    Machine machine = {.card = &made_up, .half = half, .tf32 = tf32, .workers = 1};
    OpWork work = {0};
    work_add_calls(&work, calls);
    OpTime t = cost_of_op(&machine, op, &work);
    estimate_expect_near("compute", t.compute, compute, 1e-12);
    estimate_expect_near("memory", t.memory, memory, 1e-12);
    estimate_expect_near("launches", t.launches, launches, 1e-12);
    estimate_expect_near("together", t.seconds, (compute > memory ? compute : memory) + launches, 1e-12);
    assert_int_equal(t.bound, bound);
}

TEST(an_operation_takes_the_larger_of_compute_and_memory) {
    /* 1e12 FLOPs at 100 TFLOP/s, 1e9 bytes at 500 GB/s, 2 calls of a kernel each. */
    expect_op(DTYPE_BF16, true, OP_linear_forward, (CallWork){2, 1e12, 1e9}, 10e-3, 2e-3, 20e-6, BY_COMPUTE);
    expect_op(DTYPE_BF16, true, OP_linear_forward, (CallWork){2, 1e11, 1e9}, 1e-3, 2e-3, 20e-6, BY_MEMORY);
    expect_op(DTYPE_BF16, true, OP_linear_forward, (CallWork){300, 1e11, 1e9}, 1e-3, 2e-3, 3e-3, BY_LAUNCHES);
    /* The backward is three kernels. */
    expect_op(DTYPE_BF16, true, OP_linear_backward, (CallWork){2, 1e12, 1e9}, 10e-3, 2e-3, 60e-6, BY_COMPUTE);
    /* In f32: TF32 at 20 TFLOP/s, without it FMAs at 5. */
    expect_op(DTYPE_F32, true, OP_linear_forward, (CallWork){2, 1e12, 1e9}, 50e-3, 2e-3, 20e-6, BY_COMPUTE);
    expect_op(DTYPE_F32, false, OP_linear_forward, (CallWork){2, 1e12, 1e9}, 200e-3, 2e-3, 20e-6, BY_COMPUTE);
    /* Attention: as products, and 0.08 FLOPs in f32, at 5 TFLOP/s, for each of theirs, backward 0.14; in f32 by FMAs.
     */
    expect_op(DTYPE_BF16, true, OP_attention_forward, (CallWork){2, 1e12, 1e9}, 26e-3, 2e-3, 20e-6, BY_COMPUTE);
    expect_op(DTYPE_BF16, true, OP_attention_backward, (CallWork){2, 1e12, 1e9}, 38e-3, 2e-3, 40e-6, BY_COMPUTE);
    expect_op(DTYPE_F32, true, OP_attention_forward, (CallWork){2, 1e12, 1e9}, 400e-3, 2e-3, 20e-6, BY_COMPUTE);
    /* All else is no matter of tensor cores. */
    expect_op(DTYPE_BF16, true, OP_layernorm_forward, (CallWork){2, 1e10, 5e9}, 2e-3, 10e-3, 20e-6, BY_MEMORY);
}

TEST(voltas_attention_is_not_on_tensor_cores) {
    Card volta = made_up;
    Machine machine = {.card = &volta, .half = DTYPE_F16, .tf32 = true, .workers = 1};
    OpWork work = {0};
    work_add_calls(&work, (CallWork){1, 1e12, 0});
    volta.capability = 75;
    assert_near(cost_of_op(&machine, OP_attention_forward, &work).compute, 26e-3, 1e-12);
    volta.capability = 70;
    assert_near(cost_of_op(&machine, OP_attention_forward, &work).compute, 400e-3, 1e-12);
}

TEST(a_step_takes_as_long_as_its_operations_or_its_loader) {
    Machine machine = {.card = &made_up, .half = DTYPE_BF16, .tf32 = true, .workers = 2};
    Work work = {.batch_bytes = 8e6}; /* 1 ms at 80 % of 10 GB/s; by two workers 6.67 ms at 1.2 GB/s */
    work_add_calls(&work.ops[OP_linear_forward], (CallWork){2, 1e12, 1e9});
    work_add_calls(&work.ops[OP_layernorm_forward], (CallWork){2, 1e10, 5e9});
    work_add_calls(&work.ops[OP_clear_segments], (CallWork){1, 0, 1e9});
    WorkTime t = cost_of_work(&machine, &work);
    estimate_expect_near("a step", t.seconds, 10e-3 + 10e-3 + 2e-3 + 5 * 10e-6 + 1e-3, 1e-12);
    estimate_expect_near("compute", t.parts[BY_COMPUTE], 10e-3, 1e-12);
    estimate_expect_near("memory", t.parts[BY_MEMORY], 12e-3, 1e-12);
    estimate_expect_near("launches", t.parts[BY_LAUNCHES], 50e-6, 1e-12);
    estimate_expect_near("MFU", t.mfu, 1.01e12 / t.seconds / 200e12, 1e-12);
    estimate_expect_near("copy", t.copy, 1e-3, 1e-12);
    estimate_expect_near("loader", t.loader, 8e6 / 1.2e9, 1e-12);
    assert_int_equal(t.bound, BY_MEMORY);
    work.batch_bytes = 40e6;
    t = cost_of_work(&machine, &work);
    estimate_expect_near("the loader bounds", t.seconds, 40e6 / 1.2e9, 1e-12);
    assert_int_equal(t.bound, BY_LOADER);
    machine.workers = 100;
    work.batch_bytes = 400e6;
    t = cost_of_work(&machine, &work);
    estimate_expect_near("the copy bounds", t.seconds, 50e-3 + 22.05e-3, 1e-12);
    assert_int_equal(t.bound, BY_COPY);
}

/* ---- what a dry device has followed ---- */

/* One call of an operation with some traffic, on the made-up card of another capability. */
static OpTime time_of(int op, CallWork calls, const OpTraffic *traffic, int capability) {
    Card card = made_up;
    Machine machine = {.card = &card, .half = DTYPE_BF16, .tf32 = true, .workers = 1};
    OpWork work = {.traffic = traffic};
    card.capability = capability;
    work_add_calls(&work, calls);
    return cost_of_op(&machine, op, &work);
}

/* Half of 32 MiB of L2 is used: of 1 GB, 600 MB need more, and 400 move at three times 500 GB/s. Of more calls than
 * were followed each moves as much. */
TEST(bytes_in_the_l2_move_at_its_rate) {
    OpTraffic traffic = {.counted = 1e9};
    traffic.bytes[TRAFFIC_MAIN][7] = 4e8; /* held from 16 MiB on */
    traffic.bytes[TRAFFIC_MAIN][8] = 1e8;
    traffic.bytes[TRAFFIC_MAIN][TRAFFIC_STEPS] = 5e8;
    OpTime t = time_of(OP_layernorm_forward, (CallWork){1, 0, 1e9}, &traffic, 80);
    estimate_expect_near("memory", t.memory, 6e8 / 5e11 + 4e8 / 1.5e12, 1e-12);
    assert_near(time_of(OP_layernorm_forward, (CallWork){3, 0, 3e9}, &traffic, 80).memory, 3 * t.memory, 1e-12);
    traffic.bytes[TRAFFIC_MAIN][8] = 0, traffic.bytes[TRAFFIC_MAIN][7] = 5e8;
    assert_true(time_of(OP_layernorm_forward, (CallWork){1, 0, 1e9}, &traffic, 80).memory < t.memory);
}

/* 1e12 FLOPs at 100 TFLOP/s take 10 ms, 1e9 bytes beside them 2 ms, but 3e8 bytes after them 0.6 ms more. */
TEST(passes_of_their_own_come_after_the_products) {
    OpTraffic traffic = {.counted = 1e9};
    traffic.bytes[TRAFFIC_MAIN][TRAFFIC_STEPS] = 1e9;
    CallWork calls = {1, 1e12, 1e9};
    estimate_expect_near("none", time_of(OP_linear_backward, calls, &traffic, 80).seconds, 10e-3 + 30e-6, 1e-12);
    traffic.bytes[TRAFFIC_PASS][TRAFFIC_STEPS] = 3e8;
    estimate_expect_near("sums", time_of(OP_linear_backward, calls, &traffic, 80).seconds, 10.6e-3 + 30e-6, 1e-12);
    traffic.bytes[TRAFFIC_GELU][TRAFFIC_STEPS] = 5e8;
    estimate_expect_near("GELU", time_of(OP_linear_backward, calls, &traffic, 89).seconds, 11.6e-3 + 30e-6, 1e-12);
    estimate_expect_near("fused", time_of(OP_linear_backward, calls, &traffic, 90).seconds, 10.6e-3 + 30e-6, 1e-12);
}

/* Measured rates hold all of it already. */
TEST(measured_rates_need_no_traffic) {
    OpTraffic traffic = {.counted = 1};
    Rates rates = {.bytes = {.n = 1, .size = {1}, .rate = {1e12}}};
    traffic.bytes[TRAFFIC_PASS][TRAFFIC_STEPS] = 1;
    Machine machine = {.card = &made_up, .half = DTYPE_BF16, .workers = 1, .rates = &rates};
    OpWork work = {.traffic = &traffic};
    work_add_calls(&work, (CallWork){1, 0, 1e9});
    assert_near(cost_of_op(&machine, OP_layernorm_forward, &work).seconds, 1e-3, 1e-12);
}

/* A card of 10 multiprocessors, of 19 TFLOP/s each: 10 tiles of 128 x 256 are one round of 14.13 us, 0.44 for writing
 * them to the L2, and 2.8 of latency. */
TEST(a_product_takes_rounds_of_tiles) {
    Card card = made_up;
    TrafficProduct p = {.m = 1280, .n = 256, .k = 4096, .bytes = 2};
    double write = 10 * 32768 * 2 / 1.5e12, multiply = 2.0 * 32768 * 4096 / 19e12;
    card.multiprocessors = 10;
    double one = product_seconds(&card, 190e12, 200e12, &p);
    estimate_expect_near("a round", one, multiply + write + 2.8e-6, 1e-9);
    p.m = 1281;
    assert_true(product_seconds(&card, 190e12, 200e12, &p) > 1.5 * one);
    p.m = 12800;
    estimate_expect_near("ten rounds", product_seconds(&card, 190e12, 200e12, &p), 10 * one, 1e-9);
    p.m = 1280, p.k = 64; /* most of a round is none of its products */
    estimate_expect_near("short", product_seconds(&card, 190e12, 200e12, &p), multiply / 64 + write + 2.8e-6, 1e-9);
    p.k = 4096; /* a card that large products slow down to a half multiplies faster in rounds, but not on average */
    estimate_expect_near("slowed", product_seconds(&card, 100e12, 200e12, &p), 2.0 * 1280 * 256 * 4096 / 100e12, 1e-9);
    p.unaligned = true;
    estimate_expect_near("unaligned", product_seconds(&card, 190e12, 200e12, &p), 2 * multiply + write + 2.8e-6, 1e-9);
    card.capability = 90;
    estimate_expect_near("on 9.0", product_seconds(&card, 190e12, 200e12, &p), 7.3 * multiply + write + 2.8e-6, 1e-9);
}

/* One tile of a deep product is cut along k into 8 parts, of which the sums are written and read. */
TEST(a_deep_product_is_cut_along_k) {
    Card card = made_up;
    TrafficProduct p = {.m = 128, .n = 256, .k = 1 << 20, .bytes = 8};
    card.multiprocessors = 8;
    double depth = 0x1p17, expected = 2 * 32768 * depth / 19e12 + 8 * 32768 * 4 / 1.5e12 + 2.8e-6 + 32768 * 40 / 5e11;
    estimate_expect_near("8 parts", product_seconds(&card, 152e12, 160e12, &p), expected, 1e-9);
}

/* The FLOPs of an operation take as much longer as the products that were followed. */
TEST(products_slow_their_operation_down) {
    Card card = made_up;
    TrafficProduct p = {.m = 1280, .n = 256, .k = 512, .bytes = 2, .calls = 4};
    OpTraffic traffic = {.counted = 1, .products = {p}, .n_products = 1};
    Machine machine = {.card = &card, .half = DTYPE_BF16, .workers = 1};
    OpWork work = {.traffic = &traffic};
    double flops = 3 * 2.0 * 1280 * 256 * 512;
    card.multiprocessors = 10;
    work_add_calls(&work, (CallWork){3, flops, 0});
    double compute = cost_of_op(&machine, OP_linear_forward, &work).compute;
    assert_near(compute, 3 * product_seconds(&card, 100e12, 200e12, &p), 1e-12);
    assert_true(compute > 1.2 * flops / 100e12);
}
