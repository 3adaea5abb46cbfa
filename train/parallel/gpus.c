#include "train/parallel/gpus.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/spawn.h"
#include "base/stop.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/state.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/startup.h"

/* ---- the text ---- */

static bool refuse_text(const char *text, Error *error) {
    return error_set(error, "--gpus %s: expected a number of GPUs, auto, or a list of their numbers such as 0,2", text);
}

/* Refuses cards that are not there. */
static bool refuse_count(const char *text, int here, const char *visible, Error *error) {
    return error_set(error, "--gpus %s: this machine has %d GPU%s that the driver shows%s (CUDA_VISIBLE_DEVICES%s%s)",
                     text, here, here == 1 ? "" : "s", strchr(text, ',') ? ", counted from 0" : "",
                     visible ? "=" : " is not set", visible ? visible : "");
}

/* Reads a whole number without a sign, and moves *at behind it. Returns -1 if there is none. */
static int take_number(const char **at) {
    long number = 0;
    if (**at < '0' || **at > '9') return -1;
    for (; **at >= '0' && **at <= '9'; (*at)++) number = number > INT_MAX / 16 ? number : 10 * number + **at - '0';
    return (int)number;
}

/* Adds the index-th name of CUDA_VISIBLE_DEVICES to the cards. */
static void add_card(char **cards, const char *visible, int index) {
    const char *comma = *cards ? "," : "";
    if (!visible) {
        xappend(cards, "%s%d", comma, index);
        return;
    }
    while (index--) visible += strcspn(visible, ",") + 1; /* the driver has counted them */
    xappend(cards, "%s%.*s", comma, (int)strcspn(visible, ","), visible);
}

static bool choose_list(const char *text, int here, const char *visible, GpuChoice *choice, Error *error) {
    OWNED bool *taken = xcalloc((size_t)here + 1, sizeof *taken);
    const char *at = text;
    do {
        int card = take_number(&at);
        if (card < 0 || (*at && *at != ',')) return refuse_text(text, error);
        if (card >= here) return refuse_count(text, here, visible, error);
        if (taken[card]) return error_set(error, "--gpus %s: GPU %d is there twice", text, card);
        taken[card] = true;
        add_card(&choice->cards, visible, card);
        choice->count++;
    } while (*at++);
    return true;
}

bool gpus_choose(const char *text, int here, const char *visible, GpuChoice *choice, Error *error) {
    const char *at = text;
    *choice = (GpuChoice){.automatic = !strcmp(text, "auto")};
    if (strchr(text, ',')) {
        if (choose_list(text, here, visible, choice, error)) return true;
        free(choice->cards);
        choice->cards = NULL;
        return false;
    }
    choice->count = choice->automatic ? here : take_number(&at);
    if (!choice->automatic && (choice->count < 1 || *at)) return refuse_text(text, error);
    return (choice->count > 0 && choice->count <= here) || refuse_count(text, here, visible, error);
}

/* ---- the start ---- */

typedef struct {
    int count;
    char why[768]; /* why there is none */
} Cards;

/* Counts the cards in a process of its own: no process may be forked from one in which the driver has started. */
static Cards count_cards(const char *text) {
    Cards cards = {0};
    int ends[2], status = 0;
    fflush(NULL);
    if (pipe(ends)) die("--gpus %s: no pipe: %s", text, strerror(errno));
    pid_t process = fork();
    if (!process) {
        cards.count = cuda_count_cards();
        const char *why = cards.count ? NULL : cuda_missing();
        if (why) snprintf(cards.why, sizeof cards.why, "%s", why);
        _exit(write(ends[1], &cards, sizeof cards) != sizeof cards);
    }
    close(ends[1]);
    if (process < 0) die("--gpus %s: no process can be started: %s", text, strerror(errno));
    bool told = read(ends[0], &cards, sizeof cards) == sizeof cards;
    close(ends[0]);
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    if (!told)
        die("--gpus %s: the driver does not count its GPUs (%s %d): see whether nvidia-smi works", text,
            WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return cards;
}

/* ---- auto ---- */

/* Takes the number of cards, and whether they divide the optimizer's state, from the run that goes on. */
static void take_stored(TrainOptions *o) {
    OWNED char *from = o->resume ? checkpoint_resolve(o->output_dir, o->resume) : NULL;
    TrainState state = {0};
    if (!from || !state_read(from, &state, NULL)) return; /* who resumes says what is wrong */
    json_auto_t *options = json_loads(state.options_json, 0, NULL);
    const char *gpus = json_string_value(json_object_get(options, "gpus")),
               *zero = json_string_value(json_object_get(options, "zero"));
    free(state.options_json);
    if (!gpus || !strcmp(gpus, o->gpus)) return;
    if (!spawn_is_child()) printf("[Ranks] --gpus %s, as in the run that goes on\n", gpus);
    o->gpus = xkeep(gpus, strlen(gpus) + 1);
    if (zero) o->zero = strcmp(zero, "1") ? "0" : "1";
}

/* Has -g count the micro-batches of all cards, which share them as is found best. */
static void resolve_automatic(TrainOptions *o) {
    if (!o->gpus || strcmp(o->gpus, "auto") != 0) return;
    take_stored(o);
    o->automatic_gpus = !strcmp(o->gpus, "auto");
    if (!o->automatic_gpus) return;
    if (o->auto_batch) die_usage("--gpus auto and -b auto: each depends on the other; give one of them");
    o->g_of_each = !o->whole_step;
    o->whole_step = true;
}

/* Returns the most cards that can share a step. */
static int sharing(const TrainOptions *o, int cards) {
    while (!o->in_a_row && o->grad_accumulation % cards) cards--;
    return cards;
}

static void warn_of_doubt(const TrainOptions *o) {
    char doubt[256];
    if (*launch_doubt(o->gpus, doubt)) warn_once("%s", doubt);
}

void gpus_start(TrainOptions *o) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    SpawnJob job = {0};
    GpuChoice choice;
    Error error;
    if (o->estimate || o->dry_run || o->calibrate) return;
    resolve_automatic(o);
    if (spawn_is_child()) {
        stop_count_apart(getppid());
        return;
    }
    warn_of_doubt(o);
    if (!o->gpus) return;
    if (!strcmp(o->device, "cpu")) die_usage("--gpus %s and --device cpu contradict each other: give one", o->gpus);
    if (!launch_nodes(&job.nodes, &error)) die_usage("--gpus %s: %s", o->gpus, error.text);
    if (!cuda_built_for()) die("--gpus %s: %s", o->gpus, cuda_missing());
    Cards cards = count_cards(o->gpus);
    if (!cards.count) die("--gpus %s: %s", o->gpus, cards.why);
    if (!gpus_choose(o->gpus, cards.count, visible, &choice, &error)) die_usage("%s", error.text);
    job.count = choice.automatic ? sharing(o, choice.count) : choice.count;
    job.cards = choice.cards;
    job.may_ask = choice.automatic && job.nodes.count == 1;
    if (job.count == 1 && choice.automatic) o->gpus = "1"; /* as a checkpoint is to say */
    if (job.count > 1) spawn_job(&job);
    if (job.nodes.count > 1) spawn_set_variables(&job, 0);
}
