#include "train/parallel/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/meeting.h"
#include "base/program.h"
#include "kernels/cuda/startup.h"
#include "kernels/device_open.h"
#include "kernels/mpi.h"
#include "kernels/nccl.h"
#include "train/parallel/cards.h"

static struct {
    Launch launch;
    Meeting *meeting; /* NULL: one rank */
    Group *group;     /* of the job; NULL: one rank, or its device is not open yet */
    bool begun;
    bool parted; /* each rank trains by itself */
    char *(*on_loss)(void *context);
    void *context;
    bool ends; /* this process tells the others nothing any more */
} here = {.launch = {.size = 1}};

int ranks_job_count(void) { return here.launch.size; }
int ranks_job_rank(void) { return here.launch.rank; }
static bool are_together(void) { return here.meeting && !here.parted; }
Group *ranks_group(void) { return here.parted ? NULL : here.group; }
int ranks_count(void) { return are_together() ? here.launch.size : 1; }
int ranks_rank(void) { return are_together() ? here.launch.rank : 0; }
bool ranks_write(void) { return ranks_rank() == 0; }
void ranks_part(bool apart) { here.parted = apart; }

void ranks_on_loss(char *(*function)(void *context), void *context) {
    here.on_loss = function;
    here.context = context;
}

/* ---- the end ---- */

/* Ends this process because another rank is lost. The first rank has written what is whole before the others go, so
 * that a launcher which ends a job with its first process leaves it time. */
static _Noreturn void end_lost(const char *lost) {
    here.ends = true;
    OWNED char *why = xstrdup(lost), *kept = here.on_loss ? here.on_loss(here.context) : NULL;
    if (here.group) group_leave(here.group);
    if (here.launch.rank) meeting_wait_for_first(here.meeting);
    die_with(RANKS_LOST, "%s; the job ends%s%s", why, kept ? ". " : "", kept ? kept : "");
}

static void wait_for_others(void *unused) {
    (void)unused;
    const char *lost = here.ends ? NULL : meeting_lost(here.meeting);
    if (lost) end_lost(lost);
}

/* Ends this process because the library between the ranks has failed, and tells the others. */
static void end_failed(void *unused, const char *why) {
    (void)unused;
    meeting_last_words(here.meeting, why);
    end_lost(why);
}

void ranks_wait_for_first(void) {
    if (ranks_rank()) meeting_wait_for_first(here.meeting);
}

/* Tells the other ranks that this one ends by an error or a signal. */
static void say_last_words(void) {
    if (!here.ends) meeting_last_words(here.meeting, "see its last message");
}

/* Ends this process while its thread waits in a library that does not return. */
static void end_amid_library(const char *why) {
    here.ends = true;
    die_with(RANKS_LOST, "%s; the job ends", why);
}

void ranks_disconnect(void) {
    if (!here.group) return;
    meeting_watch(here.meeting, end_amid_library);
    group_close(here.group);
    meeting_watch(here.meeting, NULL);
    here.group = NULL;
}

static void close_ranks(void) {
    here.ends = true;
    ranks_disconnect();
    meeting_close(here.meeting);
}

/* Gathers what each rank of the job knows, in the order of ranks. */
static void gather(const void *mine, size_t bytes, void *all) {
    Error error;
    if (!meeting_gather(here.meeting, mine, bytes, all, &error)) end_lost(error.text);
}

int ranks_largest(int value) {
    if (!here.meeting) return value;
    OWNED int *all = xcalloc((size_t)here.launch.size, sizeof *all);
    gather(&value, sizeof value, all);
    for (int r = 0; r < here.launch.size; r++)
        if (all[r] > value) value = all[r];
    return value;
}

/* Returns whether all ranks call it with the same value. */
static bool agree(uint64_t value) {
    char fact[64];
    Error error;
    snprintf(fact, sizeof fact, "the next operations\t%016llx\n", (unsigned long long)value);
    bool same = meeting_compare(here.meeting, fact, &error);
    if (!same && meeting_lost(here.meeting)) end_lost(error.text);
    return same;
}

void ranks_end(int status) {
    if (!here.meeting) return;
    ranks_compare("the next thing to do\tthe end\n"); /* a signal may have just come to one of them */
    ranks_disconnect();
    if (here.launch.rank) exit(status);
}

/* ---- the beginning ---- */

/* Options that may differ: they decide no number. */
static const char *const own_options[] = {"threads", "num-workers", "price", "prices", "json", "profile", NULL};

static bool is_own(const char *name) {
    int i = 0;
    while (own_options[i] && strcmp(own_options[i], name) != 0) i++;
    return own_options[i];
}

/* Returns the options as facts; free(). */
static char *facts_of(const OptionSet *set) {
    OWNED char *text = options_to_json(set);
    char *facts = xstrdup("");
    json_error_t error;
    json_auto_t *options = json_loads(text, JSON_DECODE_ANY, &error);
    const char *name;
    json_t *value;
    json_object_foreach(options, name, value) {
        OWNED char *shown = json_dumps(value, JSON_ENCODE_ANY);
        if (!is_own(name)) xappend(&facts, "--%s\t%s\n", name, shown);
    }
    return facts;
}

void ranks_compare(const char *facts) {
    Error error;
    if (are_together() && !meeting_compare(here.meeting, facts, &error)) {
        here.ends = true;
        meeting_close(here.meeting); /* when all have been told */
        die("%s", error.text);
    }
}

void ranks_share(void *data, size_t bytes) {
    Error error;
    if (are_together() && !meeting_share(here.meeting, data, bytes, &error)) end_lost(error.text);
}

/* Divides the processors of this machine among its ranks, unless the launcher has done so by binding them. */
static void divide_threads(TrainOptions *o) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t allowed;
    int ranks = here.launch.local_size > 0 ? here.launch.local_size : 1;
    bool bound = !sched_getaffinity(0, sizeof allowed, &allowed) && CPU_COUNT(&allowed) < online;
    if (o->threads)
        o->threads = o->threads > ranks ? o->threads / ranks : 1;
    else if (!bound)
        o->threads = online > ranks ? online / ranks : 1;
}

static void divide_workers(TrainOptions *o) {
    int ranks = here.launch.local_size > 0 ? here.launch.local_size : 1;
    if (o->num_workers > ranks)
        o->num_workers /= ranks;
    else if (o->num_workers)
        o->num_workers = 1;
}

/* Returns whether the ranks train together. */
static bool is_shared(const TrainOptions *o) {
    return o->undivided ? !o->auto_batch && o->grad_accumulation % here.launch.size == 0 : !o->in_a_row;
}

void ranks_refuse(const TrainOptions *o) {
    int ranks = here.launch.size;
    die_usage("%d ranks cannot share the steps of -g %lld (%s): give -g %d or another multiple of %d, without -b "
              "auto, or start one process",
              ranks, (long long)o->grad_accumulation, o->undivided, ranks, ranks);
}

/* Divides a step among the ranks. */
static void divide_step(TrainOptions *o) {
    int64_t ranks = here.launch.size;
    if (!is_shared(o)) ranks_refuse(o);
    if (o->auto_batch) {
        if (o->batch_size % ranks)
            die_usage("--effective-batch %lld: %lld ranks cannot share a step of %lld samples; give a multiple of the "
                      "ranks",
                      (long long)o->batch_size, (long long)ranks, (long long)o->batch_size);
        return;
    }
    if (!o->whole_step) o->grad_accumulation *= ranks;
    if (o->grad_accumulation % ranks)
        die_usage("a step of %lld micro-batches cannot be shared by %lld ranks; start a number of ranks that divides "
                  "it, or make it a multiple of the ranks",
                  (long long)o->grad_accumulation, (long long)ranks);
}

/* Divides what belongs to a training. */
static void divide(TrainOptions *o) {
    divide_workers(o);
    if (here.parted) return;
    divide_step(o);
    if (o->undivided)
        printf("[Ranks] %d ranks share each step of %lld micro-batches; %s\n", here.launch.size,
               (long long)o->grad_accumulation, o->undivided);
}

static void check_use(TrainOptions *o) {
    const Launch *l = &here.launch;
    const char *plans = o->estimate ? "estimate" : o->dry_run ? "dry-run" : o->calibrate ? "calibrate" : NULL;
    if (plans)
        die_usage("--%s is for one process, and %s has started rank %d of %d; start it without", plans, l->launcher,
                  l->rank, l->size);
    if (!strcmp(o->device, "auto")) o->device = cuda_missing() && !cuda_card_is_here() ? "cpu" : "cuda";
}

/* Returns whether the ranks are connected over NCCL, once each has opened its GPU, and not over MPI at once. */
static bool uses_nccl(const TrainOptions *o) { return !strcmp(o->device, "cuda"); }

/* Takes the card of this rank, which is to be no other's. */
static void choose_card(void) {
    const int ranks = here.launch.size;
    Error error;
    int card = launch_card(&here.launch, cuda_count_cards(), &error);
    if (card < 0) die("%s", error.text);
    device_choose_card(card);
    const RankCard own = cards_own(card);
    OWNED RankCard *all = xcalloc((size_t)ranks, sizeof *all);
    gather(&own, sizeof own, all);
    cards_refuse_twice(all, ranks);
}

static void print_connection(void) {
    printf("[Ranks] %d, started by %s, over %s\n", here.launch.size, here.launch.description, here.group->description);
}

static void connect_over_mpi(void) {
    const Launch *l = &here.launch;
    Error error;
    meeting_watch(here.meeting, end_amid_library); /* MPI does not say that others are lost */
    here.group = mpi_group_open(l->rank, l->size, &error);
    meeting_watch(here.meeting, NULL);
    if (!here.group) die("%s has started rank %d of %d: %s", l->launcher, l->rank, l->size, error.text);
    here.group->waiting = wait_for_others;
    print_connection();
}

void ranks_connect(Device *device, const char *before) {
    const Launch *l = &here.launch;
    char id[NCCL_ID_BYTES], library[GROUP_DESCRIPTION];
    Error error;
    if (!here.meeting || here.group || device->host_memory || here.parted) return;
    if (!l->rank && !nccl_make_id(id, &error)) die("%s", error.text);
    if (!meeting_share(here.meeting, id, sizeof id, &error)) end_lost(error.text);
    nccl_choose_as(before);
    if (!nccl_describe(library, &error)) die("%s", error.text);
    OWNED char *fact = xformat("the library\t%s\n", library);
    ranks_compare(fact);
    here.group = nccl_group_open(l->rank, l->size, id, device, wait_for_others, NULL, &error);
    if (!here.group) die("%s has started rank %d of %d: %s", l->launcher, l->rank, l->size, error.text);
    here.group->failed = end_failed;
    device->agree = agree;
    group_barrier(here.group); /* NCCL takes its memory with the first operation, and -b auto is to know it */
    print_connection();
    if (before[0] && strcmp(before, here.group->description) != 0)
        warn("the gradients of the run so far were added by %s: sums may be rounded otherwise from here on", before);
}

void ranks_begin(TrainOptions *o, const OptionSet *set) {
    Launch *l = &here.launch;
    if (!here.begun) MUST(launch_read(l, &error));
    if (l->size == 1 || (here.begun && !here.meeting)) return;
    check_use(o);
    if (here.begun) { /* another training of the same process */
        divide(o);
        return;
    }
    here.begun = true;
    if (!uses_nccl(o) && !mpi_library())
        die("%s has started rank %d of %d, and this program was built without MPI, through which ranks on CPUs talk: "
            "build it with make MPI=1",
            l->launcher, l->rank, l->size);
    program_be_rank(l->rank, l->size);
    Error error;
    here.meeting = meeting_open(l, NULL, &error);
    if (!here.meeting) die("%s", error.text);
    last_calls_add(say_last_words);
    atexit(close_ranks);
    OWNED char *facts = facts_of(set), *all = xformat("the device\t%s\n%s", o->device, facts);
    ranks_compare(all);
    if (uses_nccl(o)) {
        choose_card();
        o->cards = l->size;
    } else
        connect_over_mpi();
    ranks_part(o->in_a_row && !is_shared(o));
    divide_threads(o); /* once: later parts of the program have the device that is then opened */
    divide(o);
}
