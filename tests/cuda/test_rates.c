/* --calibrate on the cuda device, or the emulated one, of which all but the smallest calls are too slow: what is
 * measured, and what is left of it. */
#include "estimate/rates_measure.h"
#include "tests/cuda/rig.h"
#include "tests/test.h"

TEST(a_device_is_measured_and_left_as_it_was) {
    Device *device = cuda_device_open(0);
    bool tf32 = device->tf32;
    size_t before = device->allocated;
    void *probe = device->allocate(device, 4096);
    Rates rates = rates_measure(device, 1);
    assert_true(device->tf32 == tf32);
    assert_true(device->total_memory == 0 || rates.memory == (double)device->total_memory);
    assert_true(rates.launch > 0 && rates.copy > 0 && rates.bytes.n > 0);
    assert_int_equal(rates.half, device->half);
    for (NumberType type = 0; type < NUMBER_TYPES; type++)
        assert_int_equal(rates.flops[WORK_PRODUCT][type][0].n > 0, type != NUMBERS_TF32 || tf32);
    assert_int_equal(rates.flops[WORK_NORM][NUMBERS_TF32][0].n, 0); /* the type of products only */
    char name[128];
    rates_device_name(device, name);
    assert_string_equal(name, rates.device);
    assert_string_equal(name, device->product);
    print_message("%s: %zu bytes are kept for operations\n", name, device->allocated - before - 4096);
    device->release(device, probe, 4096);
    device_close(device);
}
