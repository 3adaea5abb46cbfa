#include "tests/side_by_side_rig.h"

/* An option of mpirun that has it leave the other ranks alone when one ends, of Open MPI and of MPICH. */
static const char *const patient =
    "$(${MPIRUN:-mpirun} --version 2>&1 | grep -q 'Open MPI\\|OpenRTE\\|PRRTE' && echo --enable-recovery || "
    "echo -disable-auto-cleanup)";

int side_try(const SideCase *c, int ranks, const char *folder, const char *more) {
    char *launcher = ranks > 1 ? kept_format("timeout 120 tools/run_mpi.sh %d ", ranks) : kept_format(" ");
    return run_command(fixture.output, sizeof fixture.output, "%s%s %s -o %s %s", launcher,
                       program_at(kept_format("mpi/%s", c->program)), c->options, folder, more);
}

char *side_train(const SideCase *c, int ranks, const char *more) {
    char *folder = kept_folder();
    int status = side_try(c, ranks, folder, more);
    if (status) fail_msg("%d ranks, %s: exit status %d:\n%s", ranks, more, status, fixture.output);
    return folder;
}

/* Reads the number that a rank's shell has written to DIRECTORY/NAME.RANK. */
static int number_of(const char *directory, const char *name, int rank) {
    char *text = kept_text(kept_format("%s/%s.%d", directory, name, rank));
    return atoi(text);
}

/* Lets a stopped rank go on when all others have ended. */
static void wake_after_others(pid_t process, const char *facts, int ranks, int rank) {
    enum { TENTHS = 600 };
    for (int r = 0, tenths = 0; r < ranks; r++)
        while (r != rank && access(kept_format("%s/status.%d", facts, r), F_OK) && tenths++ < TENTHS) usleep(100000);
    assert_int_equal(kill(process, SIGCONT), 0);
}

void side_signal(const SideCase *c, int ranks, const char *folder, int rank, const char *run, int step, int number,
                 int statuses[SIDE_MOST_RANKS]) {
    char *facts = kept_folder(), *place = kept_format("%s/%s", folder, run);
    char *command =
        kept_format("timeout 120 tools/run_mpi.sh %d %s sh -c 'rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}; "
                    "\"$@\" & echo $! >%s/pid.$rank; wait $!; echo $? >%s/status.$rank' sh %s %s -o %s",
                    ranks, patient, facts, facts, program_at(kept_format("mpi/%s", c->program)), c->options, folder);
    pid_t child = start_command(facts, command);
    wait_for_step(place, child, step);
    pid_t process = number_of(facts, "pid", rank);
    assert_int_equal(kill(process, number), 0);
    if (number == SIGSTOP) wake_after_others(process, facts, ranks, rank);
    waitpid(child, NULL, 0); /* Open MPI tells 0 of such a job */
    char *said = kept_text(kept_path(facts, "output"));
    size_t n = strlen(said), most = sizeof fixture.output - 1;
    snprintf(fixture.output, sizeof fixture.output, "%s", said + (n > most ? n - most : 0)); /* its end */
    for (int r = 0; r < ranks; r++) statuses[r] = number_of(facts, "status", r);
}

void side_check_same(const char *a, const char *b, const char *others) {
    must_run("diff -r --exclude=log.jsonl --exclude=logs --exclude=state.json --exclude=report.html "
             "--exclude=curves.svg --exclude=loss.svg --exclude='step_*' %s %s %s",
             others, a, b);
}
