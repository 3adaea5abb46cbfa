#include "tests/meter_rig.h"

#include "cost/rates.h"
#include "kernels/device.h"
#include "kernels/device_open.h"

const char *meter_line(const char *start) {
    char *line = strstr(fixture.output, start);
    if (!line) fail_msg("expected a line that begins with '%s' in\n%s", start, fixture.output);
    line[strcspn(line, "\n")] = 0;
    return line;
}

void meter_expect_planned_memory(const char *run) {
    double planned = logged_last(run, "summary", "summary/planned_bytes"),
           peak = logged_last(run, "summary", "summary/peak_bytes");
    char *want = kept_format("(measured / planned %.2f)", peak / planned);
    Device *device = cpu_device_open(2);
    double scratch = (double)device->allocated;
    device_close(device);
    print_message("without %.0f bytes of scratch: planned %.0f, peak %.0f\n", scratch, planned - scratch,
                  peak - scratch);
    assert_true(fabs((peak - scratch) / (planned - scratch) - 1) < 0.05);
    assert_contains(meter_line("[Done] memory: "), want);
}

const char *meter_synthetic_rates(void) {
    static char *path;
    if (path) return path;
    Rates rates = {.date = "2026-11-21", .memory = 1e10, .bytes = {1, 0, {1e6}, {1e9}}};
    for (int kind = 0; kind < WORK_KINDS; kind++)
        rates.flops[kind][NUMBERS_F32][0] = (RateCurve){1, 100, {1e6}, {1e10}};
    Device *device = cpu_device_open(2);
    rates_device_name(device, rates.device);
    device_close(device);
    Error error;
    path = path_join(run_directory(), "rates.json");
    if (!rates_write(path, &rates, &error)) fail_msg("%s", error.text);
    return path;
}
