/* Helpers for tests of the last lines of a run: measured time and memory beside the prediction and the plan. */
#pragma once

#include "tests/train_rig.h"

/* Returns the line of fixture.output that begins with `start`, and cuts fixture.output off behind this line. */
const char *meter_line(const char *start);

/* Fails unless the peak memory of a run is within 5 % of the plan. Leaves out the scratch of the device, which is
 * allocated before anything is planned and would hide errors of the rest. */
void meter_expect_planned_memory(const char *run);

/* Returns a file of rates for --calibration: a device with 1 GB/s, 10 GFLOP/s and free kernel launches, so that small
 * calls cost nothing. */
const char *meter_synthetic_rates(void);
