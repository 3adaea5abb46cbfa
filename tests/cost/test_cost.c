/* The time of work on a made-up card against arithmetic by hand. */
#include "cost/cost.h"
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
    /* Attention: half of what products sustain; in f32 by FMAs. */
    expect_op(DTYPE_BF16, true, OP_attention_forward, (CallWork){2, 1e12, 1e9}, 20e-3, 2e-3, 20e-6, BY_COMPUTE);
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
    assert_near(cost_of_op(&machine, OP_attention_forward, &work).compute, 20e-3, 1e-12);
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
    estimate_expect_near("a step", t.seconds, 10e-3 + 10e-3 + 2e-3 + 5 * 10e-6, 1e-12);
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
    estimate_expect_near("the copy bounds", t.seconds, 50e-3, 1e-12);
    assert_int_equal(t.bound, BY_COPY);
}
