/* train_slm: trains a text GPT from scratch on the documents of a corpus.
 *
 *   ./train_slm prepare --input texts --output prepared           texts to shards of token ids
 *   ./train_slm --data prepared -o run --amp                      the training
 *   ./train_slm generate --checkpoint run --prompt "In the year"  the model writes
 *   ./train_slm evaluate --checkpoint run --text news.txt         loss, perplexity, bits per byte
 *   ./train_slm export --checkpoint run --output exported         the model for other programs
 *
 * The model (model/slm.c) is a decoder in the style of GPT-2: pre-norm blocks, causal attention, learned positions, a
 * head that is the token table. It learns to predict the next token. The data are streams of token ids, cut into
 * contexts of documents end to end, or a document at a time. The best weights are those of the lowest validation loss.
 *
 * The trip: options (commands/slm/options.c) -> data/slm/dataset.c fills batches of tokens -> model/slm.c computes the
 * loss and the gradients of a batch -> train/run/step.c, called by the loop of train/loop.c, clears gradients, sums,
 * clips and updates -> checkpoint/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/format.h"
#include "base/stop.h"
#include "checkpoint/description.h"
#include "commands/commands.h"
#include "commands/next.h"
#include "commands/report.h"
#include "commands/slm/base.h"
#include "commands/slm/commands.h"
#include "commands/slm/lines.h"
#include "commands/slm/options.h"
#include "commands/slm/samples.h"
#include "commands/slm/tokens.h"
#include "commands/trained_tokenizer.h"
#include "commands/trainer.h"
#include "cost/machine.h"
#include "data/slm/dataset.h"
#include "model/slm.h"
#include "train/parallel/ranks.h"
#include "train/stream.h"
#include "train/train.h"

/* ---- data ---- */

enum { NO_DATA_VOCABULARY = 30000 };

typedef struct {
    Tokenizer *tokenizer; /* NULL: not known */
    SlmStream *streams[2];
    Dataset *train, *validation; /* validation: NULL if there is none */
    bool has_bytes;
} SlmData;

static void print_stream(const char *name, const SlmStream *s) {
    int64_t bytes = 0;
    for (int64_t d = 0; s->bytes && d < s->n_documents; d++) bytes += s->bytes[d];
    printf("[Data] %s: %lld tokens of %lld document%s", name, (long long)s->n_tokens, (long long)s->n_documents,
           format_plural(s->n_documents));
    if (s->bytes)
        printf(", %lld bytes\n", (long long)bytes);
    else
        printf("; their bytes are not known, so there are no bits per byte\n");
}

static SlmStream *open_stream(const SlmOptions *o, const SlmData *data, const char *split) {
    const char *path = o->train.manifest.text[0];
    SlmForeign foreign = {.vocabulary = (int)o->vocabulary, .end_of_text = -1, .width = atoi(o->token_bytes)};
    Error error;
    if (data->tokenizer) {
        if (!foreign.vocabulary) foreign.vocabulary = tokenizer_vocabulary(data->tokenizer);
        foreign.end_of_text = tokenizer_end_of_text(data->tokenizer);
    }
    SlmStream *stream = slm_stream_open(path, split, &foreign, &error);
    if (!stream) die("%s", error.text);
    slm_tokens_check(data->tokenizer, stream, path);
    print_stream(split ? split : "train", stream);
    if (o->separate && stream->n_documents == 1 && stream->end_of_text < 0)
        die_usage("--documents separate: %s does not say where documents end; give --tokenizer", path);
    return stream;
}

static Dataset *open_dataset(const SlmOptions *o, const SlmStream *stream, SlmSampling sampling) {
    SlmDatasetOptions options = {
        .context = (int)o->context, .sampling = sampling, .separate = o->separate, .seed = (uint64_t)o->train.seed};
    Error error;
    Dataset *dataset = slm_dataset_open(stream, &options, &error);
    if (!dataset) die("%s: %s", o->train.manifest.text[0], error.text);
    return dataset;
}

/* Sets the vocabulary to that of the data, unless a larger one was given. */
static void resolve_vocabulary(SlmOptions *o, const SlmData *data) {
    int64_t least = data->tokenizer ? tokenizer_vocabulary(data->tokenizer) : NO_DATA_VOCABULARY;
    if (data->streams[0]) least = data->streams[0]->vocabulary;
    if (data->streams[0] && o->vocabulary && o->vocabulary < least)
        die_usage("--vocabulary %lld: the data have ids below %lld", (long long)o->vocabulary, (long long)least);
    if (!o->vocabulary) o->vocabulary = least;
}

static SlmData open_data(SlmOptions *o) {
    const TrainOptions *t = &o->train;
    SlmData data = {.tokenizer = slm_tokens_open(o), .has_bytes = true};
    const char *path = t->manifest.count ? t->manifest.text[0] : NULL;
    bool folder = path && path_is_folder(path);
    if (path) data.streams[0] = open_stream(o, &data, folder ? "train" : NULL);
    if (folder && slm_stream_exists(path, "val")) data.streams[1] = open_stream(o, &data, "val");
    resolve_vocabulary(o, &data);
    slm_tokens_check_unknown(o, data.tokenizer, data.streams);
    for (int i = 0; i < 2; i++)
        if (data.streams[i] && !data.streams[i]->bytes) data.has_bytes = false;
    if (path)
        data.train = open_dataset(o, data.streams[0], o->random ? SLM_RANDOM : SLM_EPOCH);
    else
        data.train = slm_dataset_synthetic((int)o->context,
                                           t->batch_size ? t->batch_size : 1 + (t->token_budget - 1) / o->context,
                                           (int)o->vocabulary);
    if (data.streams[1]) data.validation = open_dataset(o, data.streams[1], SLM_ORDER);
    if (path && !data.validation) printf("[Data] nothing is held out, so there is no validation\n");
    return data;
}

/* Raises --epochs to what --max-steps take, unless epochs were given. */
static void resolve_epochs(SlmOptions *o, const OptionSet *set, const Dataset *train) {
    TrainOptions *t = &o->train;
    if (!t->max_steps || options_given(set, "epochs")) return;
    LoaderOptions options = train_loader_options(t, NULL);
    double batches =
        (double)loader_epoch_batches(train, &options, 0); /* under a budget, an epoch may have half of it */
    double epochs = 1 + 2 * (double)t->max_steps * (double)t->grad_accumulation / batches;
    t->epochs = epochs < MAX_EPOCHS ? (int64_t)epochs : MAX_EPOCHS;
}

/* ---- the model ---- */

static Model *model_of(const SlmOptions *o, const SlmData *data) {
    SlmConfig config = slm_options_config(o);
    Model *model = slm_open(&config);
    if (!data->has_bytes) model->n_metrics = SLM_BITS_PER_BYTE;
    return model;
}

static SlmLines lines_of(const SlmOptions *o, const Model *model, const Device *device) {
    MachineOptions options = train_machine_options(&o->train);
    Machine machine;
    bool measured = !o->train.estimate && device->host_memory && machine_of_device(device, &options, &machine);
    if (measured) machine.half = DTYPE_F32; /* whatever --amp says */
    return (SlmLines){.printed = !strcmp(o->mfu, "printed"),
                      .recomputes = o->train.grad_checkpointing,
                      .parameters = (double)(params_count(&model->params) - o->context * o->d_model),
                      .peak = measured ? machine_peak_flops(&machine) : 0,
                      .bits = model->n_metrics == SLM_METRICS};
}

/* ---- the training ---- */

/* The parts of a training besides its spec. */
typedef struct {
    const SlmOptions *options;
    const SlmBase *base;        /* of --base-checkpoint */
    const Tokenizer *tokenizer; /* NULL: not known */
    char hash[17];              /* its hash in hexadecimal digits */
    int32_t first;              /* the id before every document; -1: none */
    SlmSamples *samples;        /* NULL: none are written */
} SlmRun;

static void warn_of_base(const SlmRun *run) {
    const char *known = json_string_value(json_object_get(run->base->description, TOKENIZER_FACT));
    if (known && run->tokenizer && strcmp(known, run->hash) != 0)
        warn("--base-checkpoint %s was trained with another tokenizer than %s: its tokens mean something else here",
             run->options->train.base_checkpoint, tokenizer_file(run->tokenizer));
}

static void validated(void *context, Training *training, int64_t step) {
    SlmRun *run = context;
    if (run->samples) slm_samples_write(run->samples, training, step);
}

/* Returns the id before every document of a stream; -1: there is none, or no data. */
static int32_t first_of(const SlmStream *stream) {
    int32_t id = -1;
    if (stream) slm_stream_read(stream, 0, 1, &id);
    return stream && (stream->n_documents > 1 || id == stream->end_of_text) ? stream->end_of_text : -1;
}

/* Trains, unless it is only planned. Returns the exit status. */
static int train_model(const TrainSpec *spec, SlmRun *run) {
    if (trainer_only_plans(spec)) return 0;
    Training *training = train_open(spec);
    const char *directory = spec->options->output_dir;
    if (!train_resumed_from(training)) warn_of_base(run);
    if (run->tokenizer && ranks_write()) slm_tokens_keep(run->tokenizer, directory);
    run->samples = slm_samples_open(&run->options->samples, spec, run->tokenizer, run->first);
    int status = train_run(training);
    if (train_ended(training)) {
        stop_forget(); /* a signal came too late to leave anything out */
        if (!status && run->tokenizer) next_print("generate --checkpoint %s --prompt TEXT", directory);
    }
    slm_samples_close(run->samples);
    train_close(training);
    return status;
}

static int train_command(int argc, char **argv) {
    static const OptionsHeader header = {"train_slm", "--data prepared -o run [options]",
                                         "--data prepared --config slm_rtx3090 -o run",
                                         "Trains a text GPT from scratch on prepared documents."};
    static SlmOptions o; /* static: texts of a YAML file live as long as the process */
    static OptionSet set;
    slm_options_add(&set, &o);
    options_parse(&header, &set, argc, argv);
    SlmBase base = slm_base_adopt(o.train.base_checkpoint, &set);
    slm_options_resolve(&o, &set);
    trainer_begin(&o.train, &set);
    slm_options_print(&o);
    const char *why;
    Device *device = train_device_open(&o.train, &why);
    SlmData data = open_data(&o);
    resolve_epochs(&o, &set, data.train);
    SlmRun run = {.options = &o, .base = &base, .tokenizer = data.tokenizer, .first = first_of(data.streams[0])};
    if (run.tokenizer)
        snprintf(run.hash, sizeof run.hash, "%016llx", (unsigned long long)tokenizer_hash(run.tokenizer));
    Fact facts[] = {{.name = SLM_FIRST_FACT, .number = run.first}, {.name = TOKENIZER_FACT, .text = run.hash}};
    Schedule schedule = slm_options_schedule(&o);
    Model *model = model_of(&o, &data);
    SlmLines lines = lines_of(&o, model, device);
    TrainSpec spec = {
        .options = &o.train,
        .set = &set,
        .fixed_options = SLM_FIXED_OPTIONS,
        .description = {.options = SLM_MODEL_OPTIONS, .facts = facts, .n_facts = run.tokenizer ? 2 : 1},
        .model = model,
        .device = device,
        .device_why = why,
        .train = data.train,
        .validation = data.validation,
        .synthetic = !o.train.manifest.count,
        .batch = {.largest = slm_largest_batch},
        .import = SLM_IMPORT,
        .rate = {.schedule = &schedule},
        .optimizer = {.beta1 = (float)o.beta1, .beta2 = (float)o.beta2, .muon = !strcmp(o.optimizer, "muon")},
        .selection = {.metric = SLM_LOSS},
        .labels = {.print_step = slm_print_step, .print_validation = slm_print_validation, .context = &lines},
        .after_validation = {validated, &run},
    };
    int status = train_model(&spec, &run);
    trainer_close(&spec);
    slm_base_close(&base);
    for (int i = 0; i < 2; i++) slm_stream_close(data.streams[i]);
    tokenizer_close(data.tokenizer);
    trainer_close_device(device);
    return status;
}

int main(int argc, char **argv) {
    static const Command commands[] = {
        {NULL, "trains the model", train_command},
        {"prepare", "makes shards of token ids, and a tokenizer, from texts", slm_prepare},
        {"baselines", "counts what n-grams reach on the held-out documents", slm_baselines},
        {"generate", "continues prompts with a trained model", slm_generate},
        {"evaluate", "measures a trained model on texts and on multiple choice", slm_evaluate},
        {"export", "writes a model for other programs", slm_export},
        REPORT_COMMAND,
    };
    static const Program program = {"train_slm", "Trains a text GPT, from texts to weights.", commands,
                                    sizeof commands / sizeof *commands, ""};
    return program_run(&program, argc, argv);
}
