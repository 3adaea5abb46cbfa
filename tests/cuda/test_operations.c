/* Every operation of kernels/ops_table.h exists on every device and was tested on the cuda device in each of its types.
 * Runs last: the tests before it have noted in $BUILD/operations.log what they called (tests/cuda/rig.c). */
#include "tests/cuda/rig.h"
#include "tests/kernels/op_cases.h"
#include "tests/test.h"

TEST(every_operation_is_on_every_device) {
    Device *cpu = cpu_device_open(1), *cuda = cuda_device_open(0), *dry = dry_device_open();
#define IN_TABLES(op)                                                                                                  \
    if (!cpu->ops->op) fail_msg(#op " has no implementation on the cpu device");                                       \
    if (!cuda->ops->op) fail_msg(#op " has no implementation on the cuda device");
    FOR_EACH_OP(IN_TABLES)
    assert_null(dry->ops); /* it counts in the door, and what was noted has been counted */
    device_close(cpu);
    device_close(cuda);
    device_close(dry);
}

TEST(every_operation_was_tested_in_every_type) {
    const char *build = getenv("BUILD");
    if (!build) skip(); /* nothing was noted */
    char path[4096], line[128], missing[4096] = "";
    Rig rig = {.cuda = cuda_device_open(0)};
    snprintf(path, sizeof path, "%s/operations.log", build);
    char *log = read_text(path);
    for (int op = 0; op < OP_COUNT; op++)
        for (int t = 0; t < (op_has_16_bits(op) ? TYPES : 1); t++) {
            if (!rig_has(&rig, types[t])) continue;
            snprintf(line, sizeof line, "%s %s\n", op_names[op], dtype_name(types[t]));
            const char *at = strstr(log, line);
            while (at && at != log && at[-1] != '\n') at = strstr(at + 1, line);
            if (!at) strncat(missing, line, sizeof missing - strlen(missing) - 1);
        }
    free(log);
    device_close(rig.cuda);
    if (missing[0])
        fail_msg("no test on the cuda device of\n%sadd tests; the types are those of tests/kernels/op_cases.c",
                 missing);
}
