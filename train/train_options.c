/* The rows of the option table that all programs share. Names and defaults are those of the reference trainers. */
#include "train/estimate.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program.h"

#define ROW(option_name, key, kind, target, default_text, low, high, metavar, text)                                    \
    {                                                                                                                  \
        .name = option_name, .letter = key, .type = kind, .value = target, .preset = default_text, .least = low,       \
        .most = high, .argument = metavar, .help = text                                                                \
    }

/* Defaults that a preset of configs/gpu bakes in; these are for any other machine. */
#ifndef GPU_BATCH
#define GPU_BATCH        8
#define GPU_ACCUMULATION 4
#define GPU_WORKERS      0
#endif
#ifndef GPU_NAME
#define GPU_NAME "all"
#endif
#define TEXT_OF(number) #number
#define DEFAULT(number) TEXT_OF(number)

int train_option_rows(TrainOptions *o, Option *rows) {
    const Option shared[] = {
        ROW("manifest", 'm', OPTION_LIST, &o->manifest, NULL, 0, 0, "PATH",
            "training manifest (JSONL), repeatable, optionally PATH::LANGUAGE"),
        ROW("train-manifest", 0, OPTION_LIST, &o->manifest, NULL, 0, 0, "PATH", "the same as --manifest"),
        ROW("val-manifest", 0, OPTION_LIST, &o->val_manifest, NULL, 0, 0, "PATH",
            "validation manifest, repeatable; without one --val-ratio splits the training manifest"),
        ROW("val-ratio", 0, OPTION_FLOAT, &o->val_ratio, "0.01", 0, 0.9, "X",
            "share of the samples held out, by the hash of their id, when there is no --val-manifest"),
        ROW("config", 0, OPTION_TEXT, &o->config, NULL, 0, 0, "PATH",
            "YAML file with any of these options; the command line wins"),
        ROW("base-checkpoint", 0, OPTION_TEXT, &o->base_checkpoint, NULL, 0, 0, "PATH",
            "weights to start from (.safetensors, .pth, .ckpt or a checkpoint directory); none: random initialisation"),
        ROW("output-dir", 'o', OPTION_TEXT, &o->output_dir, "trained_ckpts", 0, 0, "DIR", "checkpoints and logs"),
        ROW("batch-size", 'b', OPTION_INT, &o->batch_size, DEFAULT(GPU_BATCH), 0, 65536, "N|auto",
            "sequences a micro-batch; where only --token-budget is given, as many as it allows; auto: as the memory "
            "allows, and -g with it"),
        ROW("grad-accumulation", 'g', OPTION_INT, &o->grad_accumulation, DEFAULT(GPU_ACCUMULATION), 0, 65536, "N",
            "micro-batches an optimizer step"),
        ROW("effective-batch", 0, OPTION_INT, &o->effective_batch, "0", 0, 65536, "N",
            "for -b auto: samples an optimizer step, which -b times -g will be; 0: the product of their defaults"),
        ROW("token-budget", 0, OPTION_INT, &o->token_budget, "0", 0, 1e9, "N",
            "tokens a micro-batch at most, instead of a fixed number of sequences; 0: off"),
        ROW("bucketing", 0, OPTION_CHOICE, &o->bucketing, "on", 0, 0, "on|off",
            "put sequences of similar length into one micro-batch"),
        ROW("epochs", 0, OPTION_INT, &o->epochs, "10", 1, MOST_EPOCHS, "N", "passes over the data"),
        ROW("max-steps", 0, OPTION_INT, &o->max_steps, "0", 0, 1e12, "N",
            "stop after so many optimizer steps, if the epochs do not end before; 0: no cap"),
        ROW("learning-rate", 0, OPTION_FLOAT, &o->learning_rate, "2e-5", 0, 10, "X", "peak learning rate of AdamW"),
        ROW("weight-decay", 0, OPTION_FLOAT, &o->weight_decay, "0.01", 0, 10, "X", "decoupled weight decay"),
        ROW("warmup-steps", 0, OPTION_INT, &o->warmup_steps, "1000", 0, 1e12, "N",
            "steps of linear warm-up before the cosine decay to 0"),
        ROW("grad-clip", 0, OPTION_FLOAT, &o->grad_clip, "1.0", -1, 1e9, "X",
            "largest global L2 norm of the gradient; 0 or less: no clipping"),
        ROW("loss-norm", 0, OPTION_CHOICE, &o->loss_norm, "micro", 0, 0, "micro|batch",
            "divide the loss by the tokens of each micro-batch, or of the whole effective batch"),
        ROW("log-interval", 0, OPTION_INT, &o->log_interval, "100", 1, 1e9, "N",
            "steps between log lines; with --val-interval 0 the end of each epoch has one too"),
        ROW("val-interval", 0, OPTION_INT, &o->val_interval, "1000", 0, 1e9, "N",
            "steps between validations; 0: at the end of each epoch, with the step that takes its last micro-batch"),
        ROW("val-batch-size", 0, OPTION_INT, &o->val_batch_size, "0", 0, 65536, "N",
            "sequences a validation batch; 0: twice --batch-size"),
        ROW("max-val-batches", 0, OPTION_INT, &o->max_val_batches, "200", 0, 1e9, "N",
            "batches a validation, the first in file order; 0: all"),
        ROW("save-interval", 0, OPTION_INT, &o->save_interval, "1000", 0, 1e9, "N",
            "steps between checkpoints; 0: only at the end"),
        ROW("keep-checkpoints", 0, OPTION_INT, &o->keep_checkpoints, "3", 1, 1e6, "N",
            "newest checkpoints to keep; best and last are always kept"),
        ROW("resume", 0, OPTION_TEXT, &o->resume, NULL, 0, 0, "auto|PATH",
            "go on from a checkpoint as if never stopped; auto: from the newest in OUTPUT-DIR, if there is one"),
        ROW("seed", 0, OPTION_INT, &o->seed, "1234", 0, 9e15, "N", "of everything random"),
        ROW("num-workers", 0, OPTION_INT, &o->num_workers, DEFAULT(GPU_WORKERS), 0, 1024, "N",
            "threads that prepare batches; 0: half the cores, at most 4"),
        ROW("device", 0, OPTION_CHOICE, &o->device, "auto", 0, 0, "auto|cpu|cuda",
            "what computes; auto: the GPU if there is one"),
        ROW("threads", 0, OPTION_INT, &o->threads, "0", 0, 4096, "N", "threads of the cpu device; 0: all cores"),
        ROW("amp", 0, OPTION_FLAG, &o->amp, "false", 0, 0, NULL,
            "16-bit matmuls and activations on a GPU; the cpu device computes in float32"),
        ROW("no-tf32", 0, OPTION_FLAG, &o->no_tf32, "false", 0, 0, NULL,
            "exact f32 matmuls on a GPU, where the default is TF32 if the card has it"),
        ROW("grad-checkpointing", 0, OPTION_FLAG, &o->grad_checkpointing, "false", 0, 0, NULL,
            "keep only the inputs of the blocks and compute the rest again: less memory, about a fifth more work"),
        ROW("skip-nonfinite", 0, OPTION_FLAG, &o->skip_nonfinite, "false", 0, 0, NULL,
            "skip and count a step whose loss or gradient is not finite, instead of stopping"),
        ROW("profile", 0, OPTION_FLAG, &o->profile, "false", 0, 0, NULL,
            "time every operation and print the table at the end"),
        ROW("dry-run", 0, OPTION_FLAG, &o->dry_run, "false", 0, 0, NULL,
            "train nothing: print memory, FLOPs and bytes of a step"),
        ROW("estimate", 0, OPTION_FLAG, &o->estimate, "false", 0, 0, NULL,
            "train nothing: print what the run would need of a GPU's memory and how long it would take; needs no GPU"),
        ROW("gpu", 0, OPTION_TEXT, &o->gpu, GPU_NAME, 0, 0, "NAME|all|here",
            "for --estimate: t4, l4, a100-40, rtx4090, ...; here: what --device is on this machine"),
        ROW("price", 0, OPTION_FLOAT, &o->price, "0", 0, 1e6, "X",
            "for --estimate: dollars an hour of the GPU; 0: none"),
        ROW("json", 0, OPTION_FLAG, &o->json, "false", 0, 0, NULL,
            "for --estimate: print it as JSON, and all else to stderr"),
        ROW("calibrate", 0, OPTION_FLAG, &o->calibrate, "false", 0, 0, NULL,
            "train nothing: measure for some seconds how fast the device is, and keep it for --estimate; needs no "
            "data"),
        ROW("calibration", 0, OPTION_TEXT, &o->calibration, NULL, 0, 0, "FILE",
            "where --calibrate keeps it; none: do not use it; default: train.c/rates.json in ~/.cache"),
        ROW("debug-dump", 0, OPTION_TEXT, &o->debug_dump, NULL, 0, 0, "FILE",
            "write the first step's batch, losses, activations and gradients as safetensors"),
    };
    memcpy(rows, shared, sizeof shared);
    return (int)(sizeof shared / sizeof *shared);
}

static void resolve_estimate(TrainOptions *o, const Option *rows, int n_rows) {
    const void *const for_it[] = {&o->gpu, &o->price, &o->json};
    for (int i = 0; i < n_rows && !o->estimate; i++)
        for (int k = 0; k < 3; k++)
            if (rows[i].value == for_it[k] && rows[i].given) die_usage("--%s belongs to --estimate", rows[i].name);
    if (o->estimate && o->dry_run) die_usage("--estimate and --dry-run: give one of them");
    if (o->calibrate && (o->estimate || o->dry_run)) die_usage("--calibrate trains nothing and is given alone");
    if (o->calibrate) train_calibrate(o);
    if (!o->estimate) return;
    free(estimate_machines(o, &n_rows)); /* told now, not when the data has been read */
    if (!o->json) return;
    o->json_file = program_free_stdout();
}

static const Option *row_of(const Option *rows, int n_rows, const void *value) {
    for (int i = 0; i < n_rows; i++)
        if (rows[i].value == value) return &rows[i];
    return NULL;
}

/* Until it is known what fits, all of a step is one micro-batch. */
static void resolve_auto(TrainOptions *o, const Option *batch, const Option *accumulation) {
    o->auto_batch = o->batch_size == OPTION_AUTO;
    if (!o->auto_batch && o->effective_batch)
        die_usage("--effective-batch belongs to -b auto; without it a step has -b times -g samples");
    if (!o->auto_batch) return;
    assert(accumulation); /* programs that allow auto have both */
    int64_t usual = atoll(batch->preset) * atoll(accumulation->preset);
    if (o->token_budget)
        die_usage("-b auto with --token-budget: both say how large a micro-batch is; give --effective-batch instead of "
                  "the budget, or the budget without -b");
    if (accumulation->given && o->grad_accumulation)
        die_usage("-b auto chooses -g too: instead of -g %lld give --effective-batch, the samples of a step (%lld by "
                  "default)",
                  (long long)o->grad_accumulation, (long long)usual);
    o->batch_size = o->effective_batch ? o->effective_batch : usual;
    o->grad_accumulation = 1;
    if ((double)o->batch_size < batch->least)
        die_usage("--effective-batch %lld: expected at least %.0f, the smallest -b", (long long)o->batch_size,
                  batch->least);
}

void train_options_resolve(TrainOptions *o, const Option *rows, int n_rows) {
    const Option *batch = row_of(rows, n_rows, &o->batch_size);
    if (batch) resolve_auto(o, batch, row_of(rows, n_rows, &o->grad_accumulation));
    if (o->token_budget && !(batch && batch->given)) o->batch_size = 0;
    if (!o->batch_size && !o->token_budget) o->batch_size = GPU_BATCH;
    if (!o->grad_accumulation) o->grad_accumulation = GPU_ACCUMULATION;
    o->val_times = o->val_batch_size ? 0 : 2;
    if (!o->val_batch_size) o->val_batch_size = o->batch_size ? 2 * o->batch_size : 16;
    if (!o->num_workers) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN) / 2;
        o->num_workers = cores < 1 ? 1 : cores > 4 ? 4 : cores;
    }
    if (o->debug_dump) { /* told now, not after the first step */
        char *directory = path_directory(o->debug_dump);
        Error error;
        if (access(directory, W_OK)) die_usage("--debug-dump %s: %s: %s", o->debug_dump, directory, strerror(errno));
        if (!file_is_replaceable(o->debug_dump, &error)) die_usage("--debug-dump: %s", error.text);
        free(directory);
    }
    resolve_estimate(o, rows, n_rows);
    if (!o->manifest.count && !o->dry_run && !o->estimate)
        die_usage("no data: give a training manifest with -m manifest.jsonl");
}
