/* Times whole optimizer steps of the training loop itself, as users run it: -g micro-batches, each the loader's next,
 * dropout, repeated recordings, gradient norm, AdamW. The scripts bench_*.py of tests/reference run this program beside
 * PyTorch and print both.
 *
 *   bench_step CASE ARGUMENTS... [OPTIONS]
 *   bench_step link --gpus N [OPTIONS]        link.c
 *
 * Cases: bench.c in the tests of each model; without arguments the program lists them. Options are those of the
 * trainers. Lines begin with their name. It prints "rows" with the rows of each sample, "step" with seconds and rows
 * for each step, then the FLOPs and bytes of a step, the seconds and the bound that --estimate predicts (unless the
 * rates of the device are unknown), bytes of memory planned and allocated, the stated rates of the card, and the
 * device. A profile of one more step follows. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cards.h"
#include "kernels/device_open.h"
#include "kernels/ops_table.h"
#include "tests/bench/bench.h"
#include "train/run/open.h"
#include "train/run/results.h"
#include "train/run/step.h"

/* Steps that are not timed. A device that repeats passes records one when it comes the second time, and each of the two
 * places of a batch has its own. */
enum { WARM_UP = 4 };

typedef struct {
    TrainOptions train;
    OptionList words; /* the case and its arguments */
    OptionSet set;
} BenchOptions;

/* ---- cases ---- */

enum { MAX_CASES = 16 };
static const BenchCase *cases[MAX_CASES];
static int n_cases;

void bench_register(const BenchCase *bench_case) {
    if (n_cases == MAX_CASES) die("bench_step: more than %d cases", MAX_CASES);
    cases[n_cases++] = bench_case;
}

static const BenchCase *find_case(const OptionList *words) {
    for (int i = 0; i < n_cases; i++) {
        if (strcmp(cases[i]->name, words->text[0]) != 0) continue;
        if (words->count - 1 != cases[i]->n_arguments) die("%s expects %s", cases[i]->name, cases[i]->usage);
        return cases[i];
    }
    die("unknown case '%s'; bench_step without arguments lists the cases", words->text[0]);
}

static int print_usage(void) {
    fprintf(stderr, "usage: bench_step CASE ARGUMENTS... [OPTIONS] (see --help), where CASE and ARGUMENTS are\n");
    for (int i = 0; i < n_cases; i++)
        fprintf(stderr, "  %-14s %s (-b %lld -g %lld)\n", cases[i]->name, cases[i]->usage, (long long)cases[i]->batch,
                (long long)cases[i]->accumulation);
    return 2;
}

/* ---- options ---- */

static const BenchCase *read_options(BenchOptions *o, int argc, char **argv) {
    static const OptionsHeader header = {"bench_step", "CASE ARGUMENTS... [OPTIONS]", "slm 1024 -b 16 --max-steps 2",
                                         "Times optimizer steps."};
    static const char *const kept[] = {"batch-size", "grad-accumulation", "token-budget", "bucketing",
                                       "max-steps",  "num-workers",       "device",       "threads",
                                       "amp",        "no-tf32",           "calibration",  "grad-checkpointing",
                                       NULL};
    static const OptionOverride steps = {.name = "max-steps", .default_value = "20", .min = 1};
    static const OptionRow words = {.name = "case",
                                    .type = OPTION_LIST,
                                    .positional = true,
                                    .required = true,
                                    .metavar = "CASE",
                                    .help = "what is timed, and its arguments"};
    train_options_add(&o->set, &o->train);
    options_keep(&o->set, 0, kept);
    options_override(&o->set, &steps, 1);
    options_add(&o->set, &words, 1, &o->words);
    options_parse(&header, &o->set, argc, argv);
    const BenchCase *found = find_case(&o->words);
    if (!options_given(&o->set, "batch-size")) o->train.batch_size = found->batch;
    if (!options_given(&o->set, "grad-accumulation")) o->train.grad_accumulation = found->accumulation;
    train_options_resolve(&o->train, &o->set);
    return found;
}

/* ---- steps ---- */

/* Trains one step, like train_run, and waits for it. */
static double bench_step(Run *run) {
    double start = seconds_now();
    step_begin(run);
    for (int64_t micro = 0; micro < run->accumulation; micro++) step_micro_batch(run, micro);
    step_end(run);
    results_read(run);
    return seconds_now() - start;
}

static void print_rows(const Dataset *data) {
    printf("rows");
    for (int64_t i = 0; i < data->n_samples; i++) printf(" %lld", (long long)data->tokens(data, i));
    printf("\n");
}

/* Prints the prediction of --estimate for a step, if the rates of the device are known. */
static void print_prediction(const Run *run, int64_t steps) {
    static const char *const names[] = {"predicted", "predicted_measured"};
    const TrainOptions *o = run->t->spec.options;
    Device *device = run->t->spec.device;
    Work work = {0};
    Batch largest = train_largest_batch(&run->t->spec, o);
    train_follow(&run->t->spec, &largest, &work);
    batch_close(&largest);
    work_add_counters(&work, device, 1);
    for (int measured = 0; measured < 2; measured++) {
        MachineOptions options = {
            .amp = o->amp, .no_tf32 = o->no_tf32, .workers = 1, .calibration = measured ? o->calibration : "none"};
        Machine machine;
        if (!machine_of_device(device, &options, &machine) || (measured && !machine.rates)) continue;
        WorkTime time = cost_of_work(&machine, &work);
        printf("%s %.6g by %s\n", names[measured], time.seconds / (double)steps, cost_bound_names[time.bound]);
    }
}

static void time_steps(Run *run, int64_t steps) {
    const Training *t = run->t;
    Device *device = t->spec.device;
    for (int64_t i = device->repeat ? -WARM_UP : -1; i < steps; i++) {
        int64_t before = t->state.tokens_seen;
        if (!i) device_reset_counters(device);
        double seconds = bench_step(run);
        if (i >= 0) printf("step %.6f %lld\n", seconds, (long long)(t->state.tokens_seen - before));
    }
    double flops, bytes;
    device_totals(device, &flops, &bytes);
    printf("flops %.6g\nbytes %.6g\nactivations %zu\n", flops / (double)steps, bytes / (double)steps,
           t->activations.peak);
    print_prediction(run, steps);
    printf("planned %zu\nallocated %zu\n", t->planned_bytes, device->peak_allocated);
    const Card *card = card_find(device->description);
    if (card) printf("peak %.6g\nbandwidth %.6g\n", card->half, card->bandwidth);
    printf("device %s\n", device->description);
    device_reset_counters(device);
    device->profile = true;
    bench_step(run);
    ops_print_counters(device, stdout);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status, (void)type, (void)place;
    return remove(path);
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/bench_step.XXXXXX"; /* of the run's log */
    cpu_limit_spinning(argv);
    if (argc < 2) return print_usage();
    if (!strcmp(argv[1], "link")) return bench_link(argc - 1, argv + 1);
    BenchOptions o = {.set = {.count = 0}};
    Run run;
    const BenchCase *chosen = read_options(&o, argc, argv);
    int64_t steps = o.train.max_steps;
    o.train.max_steps += WARM_UP + 1; /* and the profile */
    o.train.warmup_steps = 0;
    TrainSpec spec = {.options = &o.train, .set = &o.set, .synthetic = true, .selection = {.metric = -1}};
    spec.batch = (BatchSpec){.largest = chosen->largest, .drop_last = true};
    spec.device = train_device_open(&o.train, &spec.device_why);
    chosen->open(chosen->name, o.words.text + 1, &spec);
    if (!(o.train.output_dir = mkdtemp(folder))) die("%s: %s", folder, strerror(errno));
    Training *training = train_open(&spec);
    run_open(&run, training);
    print_rows(spec.train);
    time_steps(&run, steps);
    run_close(&run);
    train_close(training);
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}
