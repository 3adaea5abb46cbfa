/* The cuda device's own work, on a GPU or on the emulator: copies beside the operations, and who waits for whom. */
#include "tests/cuda/rig.h"

enum { ROUNDS = 200, STEPS = 7, MOST = 3001 };

/* What the training loop does: batches of changing sizes are staged into two buffers in turns, each is read by an
 * operation, and the memory that it came from is used again at once. */
static void staged_batches_are_what_they_were(void **state) {
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        Rig rig = rig_open(DTYPE_F32);
        if (emulate_set_seed) emulate_set_seed(round); /* streams mistake each other's order in few of them */
        Pair buffers[2] = {pair_poisoned(&rig, DTYPE_F32, MOST, 0), pair_poisoned(&rig, DTYPE_F32, MOST, 0)};
        Pair read[STEPS];
        float *batch = xmalloc(MOST * sizeof *batch);
        for (int step = 0; step < STEPS; step++)
            read[step] = pair_poisoned(&rig, DTYPE_F32, 1 + (MOST - 1) * (step % 3 + 1) / 3, 0);
        for (int step = 0; step < STEPS; step++) { /* nothing here waits for the device, but what must */
            int64_t n = tensor_numel(read[step].cuda);
            for (int64_t i = 0; i < n; i++) batch[i] = ((float *)read[step].cpu.data)[i] = (float)(1000 * step + i);
            void *to = buffers[step % 2].cuda.data;
            rig.cuda->stage(rig.cuda, step % 2, to, batch, (size_t)n * sizeof *batch);
            memset(batch, 0, (size_t)n * sizeof *batch);
            cast(rig.cuda, read[step].cuda, tensor_1d(to, DTYPE_F32, n));
        }
        for (int step = 0; step < STEPS; step++) expect_pair(&rig, "a staged batch", read[step], 0);
        free(batch);
        rig_close(&rig);
    }
}

/* A download waits for what was queued before it; memory is new, or cleared, when the next operation reads it. */
static void queued_work_is_seen_in_its_order(void **state) {
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        Rig rig = rig_open(DTYPE_F32);
        Pair x = pair_normal(&rig, DTYPE_F32, MOST, 0, 1), y = pair_poisoned(&rig, DTYPE_F32, MOST, 0);
        size_t bytes = tensor_bytes(x.cuda);
        float *fresh = rig.cuda->allocate(rig.cuda, bytes);
        cast(rig.cuda, y.cuda, tensor_1d(fresh, DTYPE_F32, MOST));
        memset(y.cpu.data, 0, bytes);
        expect_pair(&rig, "new memory", y, 0);
        cast(rig.cuda, y.cuda, x.cuda);
        rig.cuda->clear(rig.cuda, x.cuda.data, bytes);
        cast(rig.cpu, y.cpu, x.cpu);
        expect_pair(&rig, "what was there before it was cleared", y, 0);
        memset(x.cpu.data, 0, bytes);
        expect_pair(&rig, "cleared memory", x, 0);
        rig.cuda->release(rig.cuda, fresh, bytes);
        rig_close(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staged_batches_are_what_they_were),
        cmocka_unit_test(queued_work_is_seen_in_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
