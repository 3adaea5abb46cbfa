/* The meter of a loop counts what happens while it runs, and nothing else. */
#include <unistd.h>

#include "kernels/device_open.h"
#include "kernels/ops_table.h"
#include "tests/test.h"
#include "train/meter.h"

/* Ten steps of a call each, of which four are left out and after three of which there is another call. */
TEST(only_what_happens_while_it_runs_is_counted) {
    Device *device = cpu_device_open(1);
    Tensor x = tensor_1d(device->allocate(device, 400), DTYPE_F32, 100);
    Meter meter = {0};
    Batch batch = {.n_sequences = 2, .n_tokens = 30, .size = 1000};
    enum { PAUSE = 300000 }; /* us */
    for (int step = 0; step < 10; step++) {
        bool pause = step >= 5 && step < 8; /* after the sixth step, the seventh and the eighth: validations */
        meter_start(&meter, device, step);
        assert_true(meter.runs == (step >= METER_LEFT_OUT));
        meter_batch(&meter, &batch);
        cast(device, x, x);
        if (!pause) continue;
        meter_stop(&meter, device, step + 1);
        meter_batch(&meter, &batch);
        cast(device, x, x);
        usleep(PAUSE);
    }
    meter_stop(&meter, device, 10);
    const OpWork *casts = &meter.work.ops[OP_cast];
    assert_int_equal(meter.steps, 6);
    assert_true(casts->all.calls == 6 && casts->all.bytes == 6 * 800);
    assert_true(casts->sizes[call_size(0, 800)].calls == 6);
    assert_true(meter.work.micro_batches == 6 && meter.work.tokens == 180 && meter.work.batch_bytes == 6000);
    assert_true(meter.seconds > 0 && meter.seconds < 3 * PAUSE * 1e-6);
    double before = meter.seconds;
    meter_waited(&meter, 1); /* while it is stopped */
    assert_true(meter.seconds == before);
    device->release(device, x.data, 400);
    device_close(device);
}
