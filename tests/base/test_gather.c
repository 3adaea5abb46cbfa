/* What every rank gathers of all. */
#include <signal.h>
#include <unistd.h>

#include "tests/base/meeting_rig.h"

#define JOB_TEST(name) TEST_WITH(name, NULL, job_clean)

/* Gathers texts, bytes of which a frame is full, and nothing. */
static void gather_bytes(Process *process, Meeting *meeting) {
    enum { MOST = 1 << 20 };
    static uint8_t mine[MOST], all[5 * MOST];
    const int rank = process->launch.rank, size = process->launch.size;
    Error error = {""};
    char text[8], texts[5][8];
    snprintf(text, sizeof text, "rank %d", rank);
    memset(mine, 'a' + rank, MOST);
    bool done = meeting_gather(meeting, text, sizeof text, texts, &error) &&
                meeting_gather(meeting, NULL, 0, NULL, &error) && meeting_gather(meeting, mine, MOST, all, &error) &&
                meeting_compare(meeting, "", &error);
    for (int r = 0; done && r < size; r++) {
        snprintf(text, sizeof text, "rank %d", r);
        if (strcmp(texts[r], text) != 0) done = error_set(&error, "%.8s at %d", texts[r], r);
        for (int i = 0; done && i < MOST; i++)
            if (all[r * MOST + i] != 'a' + r) done = error_set(&error, "byte %d of rank %d differs", i, r);
    }
    if (done && meeting_gather(meeting, mine, MOST + 1, all, &error)) error_set(&error, "too much was gathered");
    if (done && !strcmp(error.text, "the bytes to gather of each rank are 1048577: more than 1048576")) *error.text = 0;
    strcpy(process->text, error.text);
    meeting_close(meeting);
    _exit(!done);
}

JOB_TEST(every_rank_gathers_the_bytes_of_all_in_the_order_of_ranks) {
    static const int sizes[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        Process *job = job_new(sizes[i]);
        job_start_all(job, sizes[i], gather_bytes);
        job_end_all(job, sizes[i], 0, NULL);
    }
}

static void gather_own_size(Process *process, Meeting *meeting) {
    Error error = {""};
    char mine[8] = "", all[3][8];
    bool done = meeting_gather(meeting, mine, process->launch.rank == 1 ? 4 : 8, all, &error);
    strcpy(process->text, error.text);
    meeting_close(meeting);
    _exit(done);
}

JOB_TEST(other_numbers_of_bytes_are_not_gathered) {
    Process *job = job_new(3);
    job_start_all(job, 3, gather_own_size);
    job_end_all(job, 3, 0, "gives 4 bytes, but rank 0 gives 8");
}

static void gather_or_share(Process *process, Meeting *meeting) {
    Error error = {""};
    char bytes[8] = "", all[3][8];
    bool done = process->launch.rank == 1 ? meeting_share(meeting, bytes, 8, &error)
                                          : meeting_gather(meeting, bytes, 8, all, &error);
    strcpy(process->text, error.text);
    meeting_close(meeting);
    _exit(done);
}

JOB_TEST(gathering_and_sharing_are_told_apart) {
    Process *job = job_new(3);
    job_start_all(job, 3, gather_or_share);
    job_end_all(job, 3, 0, "does something else than the others");
}

static void die_amid_gathering(Process *process, Meeting *meeting) {
    Error error = {""};
    char bytes[8] = "", all[3][8];
    if (process->launch.rank == 2) raise(SIGKILL);
    bool done = meeting_gather(meeting, bytes, 8, all, &error);
    strcpy(process->text, error.text);
    meeting_close(meeting);
    _exit(done);
}

JOB_TEST(a_rank_that_ends_while_bytes_are_gathered_is_named) {
    Process *job = job_new(3);
    job_start_all(job, 3, die_amid_gathering);
    assert_int_equal(job_end(&job[2]), 128 + SIGKILL);
    job_end_all(job, 2, 0, kept_format("process %d) has ended without a word", job[2].process));
}
