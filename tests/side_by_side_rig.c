#include "tests/side_by_side_rig.h"

/* An option of mpirun that has it leave the other ranks alone when one ends, of Open MPI and of MPICH. */
static const char *const patient =
    "$(${MPIRUN:-mpirun} --version 2>&1 | grep -q 'Open MPI\\|OpenRTE\\|PRRTE' && echo --enable-recovery || "
    "echo -disable-auto-cleanup)";

char *side_on_cards(int cards, const char *program) {
    char *stand_in = kept_format("%s", program_at("tests/nccl/libnccl.so.2"));
    return kept_format("env EMULATE_DEVICES=%d TRAINC_NCCL=./%s %s", cards, stand_in,
                       program_at(kept_format("emulated/%s", program)));
}

int side_try(const SideCase *c, int ranks, const char *folder, const char *more) {
    char *command = kept_format("%s", program_at(kept_format("mpi/%s", c->program))), *gpus = kept_format(" ");
    if (c->cards) {
        command = kept_format("timeout -k 9 120 %s", side_on_cards(ranks, c->program));
        if (ranks > 1) gpus = kept_format("--gpus %d", ranks);
    } else if (ranks > 1) {
        command = kept_format("timeout 120 tools/run_mpi.sh %d %s", ranks, command);
    }
    return run_command(fixture.output, sizeof fixture.output, "%s %s %s -o %s %s", command, c->options, gpus, folder,
                       more);
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

void side_read_statuses(const char *facts, int ranks, int statuses[SIDE_MOST_RANKS]) {
    for (int r = 0; r < ranks; r++) statuses[r] = number_of(facts, "status", r);
}

/* Returns the command that starts the ranks, and has each write its number and status. */
static char *command_of_ranks(const SideCase *c, int ranks, const char *facts) {
    if (c->cards)
        return kept_format("timeout -k 9 120 tests/nccl/start.sh torchrun %d %s %s", ranks, facts,
                           side_on_cards(ranks, c->program));
    return kept_format("timeout 120 tools/run_mpi.sh %d %s sh -c 'rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}; "
                       "\"$@\" & echo $! >%s/pid.$rank; wait $!; echo $? >%s/status.$rank' sh %s",
                       ranks, patient, facts, facts, program_at(kept_format("mpi/%s", c->program)));
}

void side_signal(const SideCase *c, int ranks, const char *folder, int rank, const char *run, int step, int number,
                 int statuses[SIDE_MOST_RANKS]) {
    char *facts = kept_folder(), *place = kept_format("%s/%s", folder, run);
    char *command = kept_format("%s %s -o %s", command_of_ranks(c, ranks, facts), c->options, folder);
    pid_t child = start_command(facts, command);
    wait_for_step(place, child, step);
    pid_t process = number_of(facts, "pid", rank);
    assert_int_equal(kill(process, number), 0);
    if (number == SIGSTOP) wake_after_others(process, facts, ranks, rank);
    waitpid(child, NULL, 0); /* Open MPI tells 0 of such a job */
    char *said = kept_text(kept_path(facts, "output"));
    size_t n = strlen(said), most = sizeof fixture.output - 1;
    snprintf(fixture.output, sizeof fixture.output, "%s", said + (n > most ? n - most : 0)); /* its end */
    side_read_statuses(facts, ranks, statuses);
}

void side_check_same(const char *a, const char *b, const char *others) {
    must_run("diff -r --exclude=log.jsonl --exclude=logs --exclude=state.json --exclude=report.html "
             "--exclude=curves.svg --exclude=loss.svg --exclude='step_*' %s %s %s",
             others, a, b);
}
