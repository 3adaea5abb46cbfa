/* A rank of a group of which some end early, for test_leaving.c: leaver HOW. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/device_open.h"
#include "tests/mpi/rig.h"

static jmp_buf left;
static double since;

static void leave_by_jump(void *context) {
    (void)context;
    if (seconds_now() - since > 0.2) longjmp(left, 1);
}

static void leave_by_exit(void *context) {
    (void)context;
    if (seconds_now() - since > 0.2) _exit(7);
}

/* Waits for ranks that never come. */
static void wait_in_vain(Group *group, Device *device, void (*waiting)(void *)) {
    float x[1000] = {1};
    since = seconds_now();
    group->waiting = waiting;
    group_all_reduce(group, device, tensor_1d(x, DTYPE_F32, 1000), REDUCE_SUM);
}

static void use_again(Group *group) {
    group->waiting = NULL;
    group_barrier(group);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    Group *group = open_launched();
    Device *device = cpu_device_open(1);
    group_barrier(group);
    bool last = group->rank == group->size - 1;
    if (!strcmp(how, "close")) group_close(group), exit(0);
    if (!strcmp(how, "exit-0")) exit(0);
    if (!strcmp(how, "die") && last) die("the last rank dies");
    if (!strcmp(how, "kill") && last) raise(SIGKILL);
    if (!strcmp(how, "leave-by-exit")) last ? (void)sleep(30) : wait_in_vain(group, device, leave_by_exit);
    if (!strncmp(how, "jump", 4) && last) sleep(30);
    if (!strncmp(how, "jump", 4)) {
        if (!setjmp(left)) wait_in_vain(group, device, leave_by_jump);
        int rank = group->rank;
        fprintf(stderr, "rank %d has left\n", rank);
        if (!strcmp(how, "jump-and-use")) use_again(group);
        group_close(group);
        fprintf(stderr, "rank %d has closed\n", rank);
        return 9;
    }
    since = seconds_now();
    wait_in_vain(group, device, NULL);
    return 0;
}
