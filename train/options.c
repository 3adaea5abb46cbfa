/* The rows of the option table that all programs share. Names and defaults are those of the reference trainers. */
#include "train/options.h"

#include "kernels/device_open.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* A preset of configs/gpu compiles in its own defaults; these are for all other machines. */
#ifndef GPU_BATCH
#define GPU_BATCH        8
#define GPU_ACCUMULATION 4
#define GPU_WORKERS      0
#endif
#ifndef GPU_NAME
#define GPU_NAME "all"
#endif

#define FIELD(name) offsetof(TrainOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "manifest", .heading = "Data", .usual = true, .letter = 'm', .type = OPTION_LIST, .offset = FIELD(manifest), .metavar = "PATH",
     .help = "training manifest (JSONL), repeatable, optionally PATH::LANGUAGE"},
    {.name = "train-manifest", .type = OPTION_LIST, .offset = FIELD(manifest), .metavar = "PATH",
     .help = "the same as --manifest"},
    {.name = "val-manifest", .usual = true, .type = OPTION_LIST, .offset = FIELD(val_manifest), .metavar = "PATH",
     .help = "validation manifest, repeatable; without one --val-ratio splits the training manifest"},
    {.name = "val-ratio", .type = OPTION_FLOAT, .offset = FIELD(val_ratio), .default_value = "0.01", .max = 0.9,
     .metavar = "X",
     .help = "share of the samples held out, by the hash of their id, when there is no --val-manifest"},
    {.name = "config", .heading = "Files", .usual = true, .type = OPTION_LIST, .offset = FIELD(config), .metavar = "PATH",
     .help = "YAML file with any of these options, or the name of settings in the program (list prints them), repeatable: "
             "a later one wins, and the command line over all"},
    {.name = "base-checkpoint", .heading = "Model", .type = OPTION_TEXT, .offset = FIELD(base_checkpoint), .metavar = "PATH", .later = true,
     .help = "weights to start from (.safetensors, .pth, .ckpt or a checkpoint directory); none: random "
             "initialisation"},
    {.name = "output-dir", .heading = "Files", .usual = true, .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output_dir),
     .default_value = "trained_ckpts", .metavar = "DIR",
     .help = "checkpoints and logs"},
    {.name = "batch-size", .heading = "Batches", .usual = true, .letter = 'b', .type = OPTION_INT, .offset = FIELD(batch_size),
     .default_value = OPTION_DEFAULT(GPU_BATCH), .max = 65536, .metavar = "N|auto",
     .help = "sequences per micro-batch; if only --token-budget is given, as many as it allows; auto: as the memory "
             "allows, and -g with it"},
    {.name = "grad-accumulation", .usual = true, .letter = 'g', .type = OPTION_INT, .offset = FIELD(grad_accumulation),
     .default_value = OPTION_DEFAULT(GPU_ACCUMULATION), .max = 65536, .metavar = "N",
     .help = "micro-batches per optimizer step, of each rank if there are several"},
    {.name = "effective-batch", .type = OPTION_INT, .offset = FIELD(effective_batch), .default_value = "0",
     .max = 65536, .metavar = "N",
     .help = "samples per optimizer step, -b times -g of all ranks: decides -g, or with -b auto both; 0: with -b auto the "
             "product of their defaults"},
    {.name = "token-budget", .type = OPTION_INT, .offset = FIELD(token_budget), .default_value = "0", .max = 1e9,
     .metavar = "N",
     .help = "maximum of tokens per micro-batch, instead of a fixed number of sequences; 0: off"},
    {.name = "bucketing", .type = OPTION_CHOICE, .offset = FIELD(bucketing), .default_value = "on",
     .metavar = "on|off",
     .help = "put sequences of similar length into one micro-batch"},
    {.name = "epochs", .heading = "Training", .usual = true, .type = OPTION_INT, .offset = FIELD(epochs), .default_value = "10", .min = 1,
     .max = MAX_EPOCHS, .metavar = "N",
     .help = "passes over the data"},
    {.name = "max-steps", .type = OPTION_INT, .offset = FIELD(max_steps), .default_value = "0", .min = -1, .max = 1e12,
     .metavar = "N",
     .help = "maximum of optimizer steps; 0 or -1: as many as the epochs have"},
    {.name = "learning-rate", .usual = true, .type = OPTION_FLOAT, .offset = FIELD(learning_rate), .default_value = "2e-5", .max = 10,
     .metavar = "X",
     .help = "peak learning rate of AdamW"},
    {.name = "weight-decay", .type = OPTION_FLOAT, .offset = FIELD(weight_decay), .default_value = "0.01", .max = 10,
     .metavar = "X",
     .help = "decoupled weight decay"},
    {.name = "warmup-steps", .type = OPTION_INT, .offset = FIELD(warmup_steps), .default_value = "1000", .max = 1e12,
     .metavar = "N",
     .help = "steps of linear warm-up before the cosine decay to 0"},
    {.name = "grad-clip", .type = OPTION_FLOAT, .offset = FIELD(grad_clip), .default_value = "1.0", .min = -1,
     .max = 1e9, .metavar = "X",
     .help = "maximum of the global L2 norm of the gradient; 0 or less: no clipping"},
    {.name = "loss-norm", .type = OPTION_CHOICE, .offset = FIELD(loss_norm), .default_value = "micro",
     .metavar = "micro|batch",
     .help = "divide the loss by the tokens of each micro-batch, or of the whole effective batch"},
    {.name = "log-interval", .heading = "Validation and log", .type = OPTION_INT, .offset = FIELD(log_interval), .default_value = "100", .min = 1,
     .max = 1e9, .metavar = "N",
     .help = "steps between log lines; with --val-interval 0 the end of each epoch has one too"},
    {.name = "val-interval", .type = OPTION_INT, .offset = FIELD(val_interval), .default_value = "1000", .max = 1e9,
     .metavar = "N",
     .help = "steps between validations; 0: at the end of each epoch, with the step that takes its last micro-batch"},
    {.name = "val-batch-size", .type = OPTION_INT, .offset = FIELD(val_batch_size), .default_value = "0", .max = 65536,
     .metavar = "N",
     .help = "sequences per validation batch; 0: twice --batch-size"},
    {.name = "max-val-batches", .type = OPTION_INT, .offset = FIELD(max_val_batches), .default_value = "200",
     .max = 1e9, .metavar = "N",
     .help = "batches per validation, the first in file order; 0: all"},
    {.name = "save-interval", .heading = "Files", .type = OPTION_INT, .offset = FIELD(save_interval), .default_value = "1000", .max = 1e9,
     .metavar = "N",
     .help = "steps between checkpoints; 0: only at the end"},
    {.name = "keep-checkpoints", .type = OPTION_INT, .offset = FIELD(keep_checkpoints), .default_value = "3", .min = 1,
     .max = 1e6, .metavar = "N",
     .help = "newest checkpoints to keep; best and last are always kept"},
    {.name = "resume", .usual = true, .type = OPTION_TEXT, .offset = FIELD(resume), .later = true, .metavar = "auto|PATH",
     .help = "continue from a checkpoint as if the run had never stopped; auto: from the newest one in --output-dir, "
             "if there is one"},
    {.name = "seed", .heading = "Training", .type = OPTION_INT, .offset = FIELD(seed), .default_value = "1234", .max = 9e15, .metavar = "N",
     .help = "seed of everything random"},
    {.name = "num-workers", .heading = "Device", .type = OPTION_INT, .offset = FIELD(num_workers),
     .default_value = OPTION_DEFAULT(GPU_WORKERS), .max = 1024, .metavar = "N",
     .help = "threads that prepare batches; 0: half the cores, at most 4"},
    {.name = "device", .usual = true, .type = OPTION_CHOICE, .offset = FIELD(device), .default_value = "auto",
     .metavar = "auto|cpu|cuda",
     .help = "what computes; auto: the GPU if there is one"},
    {.name = "gpus", .type = OPTION_TEXT, .offset = FIELD(gpus), .metavar = "N|auto|LIST",
     .help = "GPUs of this machine that train together, a process each: so many, or those of a list such as 0,2; auto: "
             "as many as are faster than one"},
    {.name = "link", .heading = "Estimates", .type = OPTION_TEXT, .offset = FIELD(link), .metavar = "X|pcie3|pcie4|pcie5|nvlink",
     .help = "with --estimate --gpus N: what connects the GPUs, or GB/s that each sends and receives at once"},
    {.name = "zero", .heading = "Device", .type = OPTION_CHOICE, .offset = FIELD(zero), .default_value = "0", .metavar = "0|1",
     .help = "of several ranks, 1: each has a part of the optimizer's state, with the same bits"},
    {.name = "reduce-type", .type = OPTION_CHOICE, .offset = FIELD(reduce_type), .default_value = "f32",
     .metavar = "f32|bf16",
     .help = "of several ranks: the type in which gradients are sent; bf16 halves the bytes and rounds"},
    {.name = "bucket-mb", .type = OPTION_FLOAT, .offset = FIELD(bucket_mb), .default_value = "25", .min = 0.01, .max = 4096,
     .metavar = "X",
     .help = "of several ranks: MB of gradients that are sent at once, as soon as they are final"},
    {.name = "threads", .type = OPTION_INT, .offset = FIELD(threads), .default_value = "0", .max = 4096,
     .metavar = "N",
     .help = "threads of the cpu device; 0: all cores"},
    {.name = "amp", .usual = true, .type = OPTION_FLAG, .offset = FIELD(amp), .default_value = "false",
     .help = "16-bit matmuls and activations on a GPU; the cpu device computes in float32"},
    {.name = "no-tf32", .type = OPTION_FLAG, .offset = FIELD(no_tf32), .default_value = "false",
     .help = "exact f32 matmuls on a GPU, where the default is TF32 if the card has it"},
    {.name = "grad-checkpointing", .type = OPTION_FLAG, .offset = FIELD(grad_checkpointing), .default_value = "false",
     .help = "keep only the inputs of the blocks and compute the rest again: less memory, about a fifth more work"},
    {.name = "skip-nonfinite", .heading = "Training", .type = OPTION_FLAG, .offset = FIELD(skip_nonfinite), .default_value = "false",
     .help = "skip and count a step whose loss or gradient is not finite, instead of stopping"},
    {.name = "profile", .heading = "Device", .type = OPTION_FLAG, .offset = FIELD(profile), .default_value = "false",
     .help = "time every operation and print a table at the end"},
    {.name = "dry-run", .heading = "Estimates", .type = OPTION_FLAG, .offset = FIELD(dry_run), .default_value = "false",
     .help = "train nothing: print memory, FLOPs and bytes of a step"},
    {.name = "estimate", .usual = true, .type = OPTION_FLAG, .offset = FIELD(estimate), .default_value = "false",
     .help = "train nothing: print what the run would need of a GPU's memory and how long it would take; needs no GPU"},
    {.name = "gpu", .usual = true, .type = OPTION_TEXT, .offset = FIELD(gpu), .default_value = GPU_NAME, .metavar = "NAME|all|here",
     .help = "for --estimate: t4, l4, a100-40, rtx4090, ...; here: what --device is on this machine"},
    {.name = "price", .type = OPTION_TEXT, .offset = FIELD(price_text), .metavar = "X|CARD=X,...",
     .help = "price of an hour of the machine, 0.80 (USD) or '0.80 EUR', or of cards, l4=0.80,h200=3.50: the run shows "
             "what it has cost, --estimate what it will cost"},
    {.name = "prices", .type = OPTION_TEXT, .offset = FIELD(prices_file), .metavar = "FILE",
     .help = "instead of --price: a table (CSV) with the columns card, price, and perhaps currency, provider, date"},
    {.name = "json", .type = OPTION_FLAG, .offset = FIELD(json), .default_value = "false",
     .help = "for --estimate: print the estimate as JSON, and everything else to stderr"},
    {.name = "calibrate", .type = OPTION_FLAG, .offset = FIELD(calibrate), .default_value = "false",
     .help = "train nothing: measure for some seconds how fast the device is, and keep it for --estimate; needs no "
             "data"},
    {.name = "calibration", .type = OPTION_TEXT, .offset = FIELD(calibration), .metavar = "FILE",
     .help = "file of the rates that --calibrate measures; none: use none; default: train.c/rates.json in ~/.cache"},
    {.name = "debug-dump", .heading = "Files", .type = OPTION_TEXT, .offset = FIELD(debug_dump), .metavar = "FILE",
     .help = "write the first step's batch, losses, activations and gradients as safetensors"},
};
// clang-format on

#define PRECISIONS                                                                                                     \
    { "bf16-mixed", "true", "16-mixed", "true", "32-true", "false", "32", "false" }

/* The keys of PyTorch Lightning's configurations and of the tuning guides. */
static const OptionAlias aliases[] = {
    {"training", NULL, NULL, {NULL}},
    {"training", "lr", "learning-rate", {NULL}},
    {"training", "max_epochs", "epochs", {NULL}},
    {"training", "gradient_clip_val", "grad-clip", {NULL}},
    {"training", "accumulate_grad_batches", "grad-accumulation", {NULL}},
    {"training", "gradient_checkpointing", "grad-checkpointing", {NULL}},
    {"training", "precision", "amp", PRECISIONS},
    {"training", "compile", NULL, {NULL}},
    {NULL, "lr", "learning-rate", {NULL}},
    {NULL, "max_epochs", "epochs", {NULL}},
    {NULL, "gradient_clip_val", "grad-clip", {NULL}},
    {NULL, "accumulate_grad_batches", "grad-accumulation", {NULL}},
    {NULL, "gradient_checkpointing", "grad-checkpointing", {NULL}},
    {NULL, "precision", "amp", PRECISIONS},
    {NULL, "compile", NULL, {NULL}},
    {NULL, "benchmark", NULL, {NULL}},
    {NULL, "pin_memory", NULL, {NULL}},
    {NULL, "persistent_workers", NULL, {NULL}},
    {NULL, "prefetch_factor", NULL, {NULL}},
};

void train_options_add(OptionSet *set, TrainOptions *o) {
    options_add(set, table, sizeof table / sizeof *table, o);
    options_add_aliases(set, aliases, sizeof aliases / sizeof *aliases);
}

static void check_estimate(const TrainOptions *o, const OptionSet *set) {
    static const char *const for_estimate[] = {"gpu", "json", "link"};
    for (int i = 0; i < 3 && !o->estimate; i++)
        if (options_given(set, for_estimate[i])) die_usage("--%s belongs to --estimate", for_estimate[i]);
    if (o->estimate && o->dry_run) die_usage("--estimate and --dry-run exclude each other; give one of them");
    if (o->calibrate && (o->estimate || o->dry_run)) die_usage("--calibrate trains nothing and is given alone");
}

/* Sets -g to what --effective-batch and -b leave. */
static void divide_effective_batch(TrainOptions *o, bool given) {
    if (!o->effective_batch || o->batch_size < 1) return;
    if (o->token_budget)
        die_usage("--effective-batch counts samples, and with --token-budget a step has any number of them; leave one "
                  "of them out");
    if (given) die_usage("-b, -g and --effective-batch: two of them decide the third; leave one out");
    if (o->effective_batch % o->batch_size)
        die_usage("--effective-batch %lld is no multiple of -b %lld", (long long)o->effective_batch,
                  (long long)o->batch_size);
    o->grad_accumulation = o->effective_batch / o->batch_size;
    o->whole_step = true;
}

/* Makes a whole step one micro-batch, until sizing_choose_batch knows what fits. */
static void resolve_auto(TrainOptions *o, const Option *batch, const Option *accumulation) {
    o->auto_batch = o->batch_size == OPTION_AUTO;
    if (!o->auto_batch) {
        divide_effective_batch(o, accumulation && accumulation->given);
        return;
    }
    assert(accumulation); /* programs that allow -b auto have both options */
    int64_t usual = atoll(batch->row.default_value) * atoll(accumulation->row.default_value);
    if (o->token_budget)
        die_usage("-b auto with --token-budget: both say how large a micro-batch is; give --effective-batch instead of "
                  "the budget, or the budget without -b");
    if (accumulation->given && o->grad_accumulation) /* 0 takes back the -g of a file */
        die_usage("-b auto chooses -g too: instead of -g %lld give --effective-batch, the samples of a step (%lld by "
                  "default)",
                  (long long)o->grad_accumulation, (long long)usual);
    o->batch_size = o->effective_batch ? o->effective_batch : usual;
    o->grad_accumulation = 1;
    if ((double)o->batch_size < batch->row.min)
        die_usage("--effective-batch %lld: expected at least %.0f, the smallest -b", (long long)o->batch_size,
                  batch->row.min);
}

void train_options_resolve(TrainOptions *o, const OptionSet *set) {
    const Option *batch = options_find(set, "batch-size");
    if (o->max_steps < 0) o->max_steps = 0;
    if (batch) resolve_auto(o, batch, options_find(set, "grad-accumulation"));
    if (!o->grad_accumulation) die_usage("-g 0: expected at least 1 micro-batch per optimizer step");
    if (o->token_budget && !(batch && batch->given)) o->batch_size = 0;
    if (!o->batch_size && !o->token_budget)
        die_usage("-b 0: expected at least 1 sequence per micro-batch, or auto, or --token-budget instead");
    o->val_times = o->val_batch_size ? 0 : 2;
    if (!o->val_batch_size) o->val_batch_size = o->batch_size ? 2 * o->batch_size : 16;
    if (!o->num_workers) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN) / 2;
        o->num_workers = cores < 1 ? 1 : cores > 4 ? 4 : cores;
    }
    if (o->debug_dump) { /* fails here, not after the first step */
        char *directory = path_directory(o->debug_dump);
        Error error;
        if (access(directory, W_OK)) die_usage("--debug-dump %s: %s: %s", o->debug_dump, directory, strerror(errno));
        if (!file_is_replaceable(o->debug_dump, &error)) die_usage("--debug-dump: %s", error.text);
        free(directory);
    }
    check_estimate(o, set);
    train_options_resolve_prices(o);
    const Option *data = options_holding(set, &o->manifest); /* NULL: a command that needs none */
    if (data && !o->manifest.count && !o->dry_run && !o->estimate && !o->calibrate)
        die_usage("no data: give --%s %s", data->row.name, data->row.metavar);
}

MachineOptions train_machine_options(const TrainOptions *o) {
    return (MachineOptions){.gpu = o->gpu,
                            .device = o->device,
                            .calibration = o->calibration,
                            .threads = (int)o->threads,
                            .workers = (int)o->num_workers,
                            .amp = o->amp,
                            .no_tf32 = o->no_tf32};
}

void train_options_resolve_prices(TrainOptions *o) {
    Error error;
    if (o->price_text && o->prices_file) die_usage("--price and --prices exclude each other: give one of them");
    if (o->prices_file && !price_list_read(o->prices_file, &o->prices, &error)) die("--prices %s", error.text);
    if (!o->prices_file && !price_list_parse(o->price_text, &o->prices, &error)) die_usage("--price: %s", error.text);
    o->price = o->prices.any.price;
}

void train_options_set_price(TrainOptions *o, const Device *device) {
    Price price = price_list_find_product(&o->prices, device->product)->price;
    if (o->prices.by_card && o->cards) price.per_hour *= o->cards;
    if (price.per_hour > 0) o->price = price;
}

Device *train_device_open(TrainOptions *o, const char **why) {
    *why = NULL;
    if (o->estimate) return dry_device_open();
    Device *device = device_open(o->device, (int)o->threads, o->no_tf32, why);
    train_options_set_price(o, device);
    if (o->prices.by_card && !(o->price.per_hour > 0))
        warn("--%s: there is no price of %s, so no cost is shown", o->prices_file ? "prices" : "price",
             device->product[0] ? device->product : "cpu");
    return device;
}
