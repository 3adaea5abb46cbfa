/* train_psd: the masked autoencoder of power spectra, and the classifier made of it.
 *
 *   ./train_psd pretrain  -m data/manifest.csv --split data/splits/pooled_seed42_frac0.25.json -o results/pretrain
 *   ./train_psd finetune  ... --pretrained results/pretrain/best -o results/finetune
 *   ./train_psd evaluate  ... --checkpoint results/finetune/best -o results/evaluation
 *   ./train_psd calibrate ... --checkpoint results/finetune/best -o results/calibration
 *   ./train_psd run       ... -o results                       all of them; or once for every sensor left out
 *
 * Each command is a function below: options, data, model, loop, report. `run` writes the others' command lines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/program.h"
#include "base/stop.h"
#include "base/threads.h"
#include "data/psd_manifest.h"
#include "train/estimate.h"
#include "train/log.h"
#include "train_psd.h"

_Static_assert((int)PSD_CLASSES + 1 == (int)PSD_LABELS, "all labels but the unknown one are classes of the model");

/* ---- model ---- */

static PsdEncoderConfig encoder_config(const PsdRun *o) {
    return (PsdEncoderConfig){.cnn = !strcmp(o->encoder, "cnn"),
                              .d_model = (int)o->d_model,
                              .n_layers = (int)o->n_layers,
                              .n_heads = (int)o->n_heads,
                              .d_ff = (int)o->ffn_dim,
                              .dropout = o->freeze_encoder ? 0 : (float)o->dropout};
}

static Model *pretraining_model(const PsdRun *o) {
    PsdPretrainConfig config = {.encoder = encoder_config(o),
                                .decoder_dim = (int)o->decoder_dim,
                                .decoder_layers = (int)o->decoder_layers,
                                .decoder_dropout = o->dropout > 0 ? 0.1f : 0, /* 0.1 whatever the encoder's is, or 0 */
                                .projection_dim = (int)o->projection_dim,
                                .sicr_weight = (float)o->lambda_sicr,
                                .temperature = (float)o->temperature};
    return psd_pretrain_open(&config);
}

static Model *classifier(const PsdRun *o, const float *class_weights) {
    PsdClassifierConfig config = {.encoder = encoder_config(o),
                                  .head_dim = strcmp(o->head, "mlp") ? 0 : (int)o->hidden_dim,
                                  .head_dropout = (float)o->head_dropout,
                                  .frozen_encoder = o->freeze_encoder};
    for (int c = 0; c < PSD_CLASSES; c++) config.class_weights[c] = class_weights ? class_weights[c] : 1;
    return psd_classifier_open(&config);
}

/* ---- data ---- */

/* A batch of spectra, of all classes and of some sensors, and all to train on: for --estimate. */
static Data typical_data(const PsdRun *o) {
    enum { SENSORS = 8 };
    int64_t n = o->train.batch_size;
    Data data = {.made_up = xcalloc((size_t)n * (PSD_BINS + 5), 4)};
    PsdStore *s = &data.store;
    *s = (PsdStore){.n = n, .psd = data.made_up, .n_sensors = SENSORS, .n_files = 1};
    s->snr = s->psd + n * PSD_BINS;
    s->labels = (int32_t *)(void *)(s->snr + n);
    s->sensors = s->labels + n;
    s->files = s->sensors + n;
    s->rows = s->files + n;
    PsdIds *rows = &data.split.parts[PSD_TRAIN];
    *rows = (PsdIds){xcalloc((size_t)n, sizeof *rows->at), n};
    for (int32_t i = 0; i < n; i++) {
        rows->at[i] = s->rows[i] = i;
        s->labels[i] = i % PSD_CLASSES;
        s->sensors[i] = i / PSD_CLASSES % SENSORS;
    }
    return data;
}

Data psd_data_open(PsdRun *o) {
    Data data = {0};
    Error error;
    if (!o->train.manifest.count) return typical_data(o);
    int n_threads = threads_take((int)o->train.threads, "--threads");
    if (!psd_store_open(&data.store, o->train.manifest.text[0], psd_given(o, "hop") ? &o->hop : NULL,
                        psd_given(o, "limit") ? &o->limit : NULL, n_threads, &error))
        die("%s", error.text);
    o->hop = data.store.options.hop; /* what is recorded is what was */
    o->limit = data.store.options.limit;
    if (!psd_split_belongs(o->split, data.store.manifest_hash, &error)) die("%s", error.text);
    if (error.text[0]) printf("[Split] %s\n", error.text);
    if (!psd_split_read(o->split, o->sensor, (int)o->shots, data.store.n_rows, &data.split, &error))
        die("%s", error.text);
    return data;
}

void psd_data_close(Data *data) {
    psd_split_free(&data->split);
    psd_store_close(&data->store);
    free(data->made_up);
}

static int visible_patches(const PsdRun *o) { return PSD_PATCHES - (int)(PSD_PATCHES * o->mask_ratio); }

/* The samples of one part of the split; NULL if it has none. */
static Dataset *dataset_of(const PsdRun *o, const Data *data, int part) {
    bool pretraining = o->command == PRETRAIN;
    PsdDatasetOptions options = {.pretraining = pretraining,
                                 .cnn = !strcmp(o->encoder, "cnn"),
                                 .n_visible = pretraining ? visible_patches(o) : 0,
                                 .fixed = part != PSD_TRAIN,
                                 .seed = (uint64_t)o->train.seed,
                                 .class_weights = !pretraining && part == PSD_TRAIN ? data->class_weights : NULL,
                                 .classes = PSD_CLASSES};
    if (!data->split.parts[part].n) return NULL;
    Dataset *samples = psd_dataset_open(&data->store, &data->split.parts[part], &options);
    if (samples->n_samples) return samples;
    samples->close(samples); /* rows without a sample */
    return NULL;
}

/* The same, for a part that there must be. */
static Dataset *samples_of(const PsdRun *o, const Data *data, int part) {
    static const char *const purposes[PSD_PARTS] = {"train", "validate", "test"};
    Dataset *samples = dataset_of(o, data, part);
    if (samples) return samples;
    die("%s: no rows to %s on", o->split, purposes[part]);
}

static void print_data(const Data *data, const Dataset *train, const Dataset *validation) {
    if (data->made_up) {
        printf("[Data] none is given: a typical batch of %lld spectra\n", (long long)train->n_samples);
        return;
    }
    printf("[Data] %lld samples of %d sensors; %lld to train on, %lld to validate on, %lld to test on\n",
           (long long)data->store.n, data->store.n_sensors, (long long)train->n_samples,
           (long long)(validation ? validation->n_samples : 0), (long long)data->split.parts[PSD_TEST].n);
}

/* Why parts of a batch are not the same as the whole; NULL: they are. */
static const char *whole_batches(const PsdRun *o) {
    return o->command == PRETRAIN       ? "the contrast is between the spectra of a micro-batch"
           : !strcmp(o->encoder, "cnn") ? "batch norms see each micro-batch for itself"
                                        : NULL;
}

/* What is not whole is left out of every epoch, so a batch that no epoch can fill would train nothing. */
static void check_batch(const PsdRun *o, const Dataset *train, bool drop_last) {
    if (o->train.auto_batch && !whole_batches(o)) return; /* it will be divided */
    if (drop_last && train->n_samples < o->train.batch_size)
        die("%lld samples to train on are fewer than one batch of %lld; give %s %lld or less",
            (long long)train->n_samples, (long long)o->train.batch_size,
            o->train.auto_batch ? "--effective-batch" : "-b", (long long)train->n_samples);
}

/* ---- the learning rate: by epochs, for each group of parameters (specs of both revisions) ---- */

static double rate_of_epoch(const Training *t, int group, int64_t step, int64_t epoch) {
    const PsdRun *o = (const PsdRun *)t->options;
    (void)step;
    double base = o->train.learning_rate * (o->command == FINETUNE && group == 0 ? o->encoder_lr_scale : 1);
    double warm = (double)o->warmup_epochs, all = (double)o->train.epochs, e = (double)epoch;
    if (e < warm) return base * (0.01 + 0.99 * e / warm);
    return schedule_between(base, o->min_learning_rate, (e - warm) / (all - warm));
}

/* ---- pretrain ---- */

static const char *const fixed_options[] = {"mask-ratio", "class-weights", "split",   "sensor", "shots",
                                            "hop",        "limit",         "encoder", NULL};

static bool training_ended; /* the last one, by itself */

static int train(PsdRun *o, Training *t) {
    int status = 0;
    if (o->train.estimate || o->train.dry_run) {
        (o->train.estimate ? train_estimate : train_dry_run)(t);
        return 0;
    }
    train_prepare(t);
    status = train_run(t);
    training_ended = t->ended;
    train_close(t);
    return status;
}

static void close_all(Training *t, Data *data) {
    t->model->close(t->model);
    t->train->close(t->train);
    if (t->validation) t->validation->close(t->validation);
    psd_data_close(data);
}

static int pretrain(PsdRun *o) {
    int v = visible_patches(o);
    if (v < 1 || v >= PSD_PATCHES)
        die_usage("--mask-ratio %g masks %d of 12 patches; at least one must be masked and one visible", o->mask_ratio,
                  PSD_PATCHES - v);
    Data data = psd_data_open(o);
    Dataset *samples = samples_of(o, &data, PSD_TRAIN), *validation = dataset_of(o, &data, PSD_VAL);
    check_batch(o, samples, true);
    print_data(&data, samples, validation);
    int64_t partners[3];
    psd_dataset_partners(samples, partners);
    if (!data.made_up)
        printf("[Data] partners of the same class: %lld samples from other sensors, %lld from their own, %lld "
               "themselves\n",
               (long long)partners[0], (long long)partners[1], (long long)partners[2]);
    Training t = {.options = &o->train,
                  .rows = o->rows,
                  .n_rows = o->n_rows,
                  .fixed_options = fixed_options,
                  .model = pretraining_model(o),
                  .device = o->device,
                  .device_why = o->device_why,
                  .train = samples,
                  .validation = validation,
                  .largest_batch = psd_largest_batch,
                  .typical = data.made_up != NULL,
                  .drop_last = true,
                  .whole_batches = whole_batches(o),
                  .learning_rate = rate_of_epoch,
                  .monitor = !strcmp(o->encoder, "cnn"), /* the masked patches pass the CNN by: then the contrast */
                  .patience = o->patience};
    int status = train(o, &t);
    close_all(&t, &data);
    return status;
}

/* ---- what a classifier says of samples ---- */

typedef struct {
    Predictions of;
    double *logits, *snr;
    int32_t *truth, *group;
    int64_t *ids;
} Said;

static Said said_of(const PsdStore *store, const Dataset *samples, const float *outputs, int64_t n) {
    Said s = {.logits = xmalloc((size_t)(n * PSD_CLASSES + 1) * sizeof(double)),
              .snr = xmalloc((size_t)(n + 1) * sizeof(double)),
              .truth = xmalloc((size_t)(n + 1) * sizeof(int32_t)),
              .group = xmalloc((size_t)(n + 1) * sizeof(int32_t)),
              .ids = xmalloc((size_t)(n + 1) * sizeof(int64_t))};
    for (int64_t i = 0; i < n * PSD_CLASSES; i++) s.logits[i] = (double)outputs[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = psd_dataset_sample(samples, i);
        s.snr[i] = (double)store->snr[at];
        s.truth[i] = store->labels[at];
        s.group[i] = store->sensors[at];
        s.ids[i] = store->rows[at];
    }
    s.of = (Predictions){.n = n,
                         .classes = PSD_CLASSES,
                         .class_names = PSD_LABEL_NAMES,
                         .logits = s.logits,
                         .truth = s.truth,
                         .ids = s.ids,
                         .snr = s.snr,
                         .group = s.group,
                         .n_groups = store->n_sensors,
                         .group_names = store->sensor_names,
                         .group_kind = "sensor"};
    return s;
}

static void said_free(Said *s) {
    free(s->logits);
    free(s->snr);
    free(s->truth);
    free(s->group);
    free(s->ids);
}

/* ---- finetune ---- */

/* Macro F1 of the validation, over the classes that it has or that were said. */
static double judge(const Training *t, const float *outputs, int64_t n, double *values) {
    const Data *data = t->context;
    int64_t confusion[PSD_CLASSES * PSD_CLASSES] = {0};
    MetricsClass each[PSD_CLASSES];
    MetricsScores scores = {.macro = {.f1 = NAN}};
    Error error;
    bool fine = true;
    for (int64_t i = 0; i < n && fine; i++) {
        double logits[PSD_CLASSES];
        int32_t said;
        for (int c = 0; c < PSD_CLASSES; c++) logits[c] = (double)outputs[i * PSD_CLASSES + c];
        fine = metrics_predict(logits, 1, PSD_CLASSES, &said, &error) &&
               metrics_confusion_add(confusion, PSD_CLASSES, &data->store.labels[psd_dataset_sample(t->validation, i)],
                                     &said, 1, &error);
    }
    if (!fine || !metrics_scores(confusion, PSD_CLASSES, PSD_LABEL_NAMES, each, &scores, &error))
        warn("%s", error.text); /* logits that are not finite: the loss says so too */
    values[0] = scores.macro.f1;
    return -values[0];
}

/* "0.5,1,1.5,2,0.8,1.2" */
static void read_class_weights(const char *text, double *weights) {
    const char *at = text;
    bool fine = true;
    for (int c = 0; c < PSD_CLASSES && fine; c++) {
        char *end;
        weights[c] = strtod(at, &end);
        fine = end > at && isfinite(weights[c]) && weights[c] > 0 && *end == (c + 1 < PSD_CLASSES ? ',' : 0);
        at = end + 1;
    }
    if (!fine) die_usage("--class-weights: expected auto, none or %d numbers above 0, found %s", PSD_CLASSES, text);
}

static void weigh_classes(const PsdRun *o, Data *data) {
    int64_t counts[PSD_CLASSES];
    double weights[PSD_CLASSES] = {1, 1, 1, 1, 1, 1};
    Dataset *samples = samples_of(o, data, PSD_TRAIN);
    psd_dataset_classes(samples, counts);
    if (!strcmp(o->class_weights, "auto"))
        metrics_class_weights(counts, PSD_CLASSES, METRICS_WEIGHTS_INVERSE, weights);
    else if (strcmp(o->class_weights, "none"))
        read_class_weights(o->class_weights, weights);
    for (int c = 0; c < PSD_CLASSES; c++) data->class_weights[c] = (float)weights[c];
    if (!data->made_up) printf("[Data] training samples (class weights):");
    for (int c = 0; c < PSD_CLASSES && !data->made_up; c++)
        printf(" %s %lld (%.4f)%s", PSD_LABEL_NAMES[c], (long long)counts[c], (double)data->class_weights[c],
               c + 1 < PSD_CLASSES ? "," : "\n");
    samples->close(samples);
}

static void freeze_encoder(ParamTable *table) {
    for (int i = 0; i < table->count; i++)
        if (!table->items[i].group && !table->items[i].buffer) table->items[i].frozen_rows = table->items[i].rows;
}

/* Whether a file, or a checkpoint directory, has all of the model's head, of the same shapes. */
static bool has_head(const char *path, const Model *model) {
    TensorFile file;
    Error error;
    if (!checkpoint_open_base(path, &file, &error)) die("--pretrained %s: %s", path, error.text);
    int wanted = 0, there = 0, fit = 0;
    for (int i = 0; i < model->params.count; i++) {
        const Param *p = &model->params.items[i];
        const StoredTensor *found = NULL;
        for (int k = 0; k < file.n_tensors && p->group && !found; k++)
            if (checkpoint_name_is(file.tensors[k].name, p->name)) found = &file.tensors[k];
        wanted += p->group > 0;
        there += found != NULL;
        fit += found && found->rank == p->rank && !memcmp(found->dims, p->dims, (size_t)p->rank * sizeof *p->dims);
    }
    if (there) printf("[Base] %s has a head: %s\n", path, fit == wanted ? "taken along" : "another one, left aside");
    tensor_file_close(&file);
    return fit == wanted;
}

static int finetune(PsdRun *o) {
    /* What is taken of a base checkpoint, the head last; the CNN has no patches to embed. */
    static const char *const names[] = {"encoder.", "patch_embed.", "classifier."}, *const judged[] = {"macro_f1"};
    static const char *const of_cnn[] = {"encoder.", "classifier."};
    bool cnn = !strcmp(o->encoder, "cnn");
    Data data = psd_data_open(o);
    weigh_classes(o, &data);
    Dataset *samples = samples_of(o, &data, PSD_TRAIN), *validation = dataset_of(o, &data, PSD_VAL);
    bool few = o->shots > 0; /* then every sample counts, and there is nothing to validate on */
    check_batch(o, samples, !few);
    print_data(&data, samples, validation);
    Training t = {.options = &o->train,
                  .rows = o->rows,
                  .n_rows = o->n_rows,
                  .fixed_options = fixed_options,
                  .model = classifier(o, data.class_weights),
                  .device = o->device,
                  .device_why = o->device_why,
                  .train = samples,
                  .validation = validation,
                  .largest_batch = psd_largest_batch,
                  .typical = data.made_up != NULL,
                  .drop_last = !few,
                  .whole_batches = whole_batches(o),
                  .learning_rate = rate_of_epoch,
                  .monitor = 0,
                  .judge = judge,
                  .judged = judged,
                  .n_judged = 1,
                  .patience = o->patience,
                  .import_only = cnn ? of_cnn : names,
                  .n_import_only = cnn ? 1 : 2,
                  .context = &data};
    char *resumed = o->train.resume ? checkpoint_resolve(o->train.output_dir, o->train.resume) : NULL;
    if (!resumed && o->train.base_checkpoint && has_head(o->train.base_checkpoint, t.model)) t.n_import_only++;
    free(resumed);
    if (o->freeze_encoder) freeze_encoder(&t.model->params);
    int status = train(o, &t);
    close_all(&t, &data);
    return status;
}

/* ---- evaluate, calibrate ---- */

/* A classifier's word on the rows of a part. */
static Said ask(const PsdRun *o, const Data *data, Training *t, int part) {
    Dataset *samples = samples_of(o, data, part);
    float *outputs = xmalloc((size_t)(samples->n_samples * PSD_CLASSES) * sizeof *outputs);
    if (!t->train) {
        t->train = samples;
        train_prepare_inference(t);
    }
    double start = seconds_now();
    train_outputs(t, samples, outputs);
    double seconds = seconds_now() - start;
    printf("[Eval] %lld samples in %.2f s, %.0f samples/s\n", (long long)samples->n_samples, seconds,
           (double)samples->n_samples / seconds);
    Said said = said_of(&data->store, samples, outputs, samples->n_samples);
    free(outputs);
    if (samples != t->train) samples->close(samples);
    return said;
}

static Training inference(PsdRun *o) {
    return (Training){.options = &o->train,
                      .rows = o->rows,
                      .n_rows = o->n_rows,
                      .model = classifier(o, NULL),
                      .device = o->device,
                      .device_why = o->device_why,
                      .largest_batch = psd_largest_batch};
}

static int part_of(const char *name) {
    return !strcmp(name, "test") ? PSD_TEST : !strcmp(name, "val") ? PSD_VAL : PSD_TRAIN;
}

static void inference_close(Training *t, Data *data) {
    train_close(t);
    close_all(t, data);
}

/* *result (optional): what it came to, for reports over many. */
static int evaluate(PsdRun *o, Evaluation *result) {
    Data data = psd_data_open(o);
    Error error;
    Training t = inference(o);
    Said said = ask(o, &data, &t, part_of(o->part));
    make_directories(o->train.output_dir);
    directory_remove_leftovers(o->train.output_dir);
    if (!report_classification(&said.of, 1, o->train.output_dir, o->sensor ? o->sensor : "pooled", o->tag, &error) ||
        (result && !evaluation_make(&said.of, 1, result, &error)))
        die("%s", error.text);
    said_free(&said);
    inference_close(&t, &data);
    return 0;
}

static int calibrate(PsdRun *o) {
    Data data = psd_data_open(o);
    Error error;
    Training t = inference(o);
    Said validation = ask(o, &data, &t, PSD_VAL), test = ask(o, &data, &t, part_of(o->part));
    make_directories(o->train.output_dir);
    directory_remove_leftovers(o->train.output_dir);
    bool fitted, done = report_calibration(&validation.of, &test.of, o->train.output_dir, &fitted, &error);
    if (!done && fitted) die("%s", error.text);
    if (!done) warn("%s", error.text);
    said_free(&validation);
    said_free(&test);
    inference_close(&t, &data);
    return !done;
}

/* ---- the command line ---- */

static Command command_of(const char *name) {
    for (int c = 0; c < COMMANDS; c++)
        if (!strcmp(name, psd_commands[c])) return c;
    const char *near = nearest_name(name, psd_commands, COMMANDS);
    die_usage("unknown command '%s'%s%s%s; there are pretrain, finetune, evaluate, calibrate, run", name,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Whether there is data enough for a training. */
static void check(PsdRun *o) {
    Data data = psd_data_open(o);
    Dataset *samples = samples_of(o, &data, PSD_TRAIN);
    check_batch(o, samples, !o->shots);
    samples->close(samples);
    psd_data_close(&data);
}

/* All stages of a run compute on one device. */
static void check_device(const PsdRun *o, const Device *device) {
    const TrainOptions *t = &o->train;
    if ((strcmp(t->device, "auto") && strcmp(t->device, device->name)) ||
        (t->threads && t->threads != device->n_threads) || (t->no_tf32 && device->tf32))
        die_usage("the stages of a run compute on one device: give device, threads and no-tf32 to run, not in %s",
                  t->config ? t->config : "a stage");
}

int psd_command(int argc, char **argv, Device **device, Evaluation *result) {
    static const OptionsHeader headers[COMMANDS] = {
        {"train_psd", "./train_psd pretrain -m data/manifest.csv --split FILE [options]",
         "Pretrains the encoder: masked patches, and a contrast between sensors."},
        {"train_psd", "./train_psd finetune -m data/manifest.csv --split FILE --pretrained PATH [options]",
         "Trains the classifier, from a pretrained encoder or from scratch."},
        {"train_psd", "./train_psd evaluate -m data/manifest.csv --split FILE --checkpoint PATH [options]",
         "Scores, tables and diagrams of a classifier."},
        {"train_psd", "./train_psd calibrate -m data/manifest.csv --split FILE --checkpoint PATH [options]",
         "Fits temperatures on the validation rows, and judges them on the test rows."},
        {"train_psd", "./train_psd run -m data/manifest.csv --split FILE -o results [options]",
         "All of it: pretrain, finetune, evaluate, calibrate; once, or once for every sensor."},
    };
    PsdRun o = {.command = command_of(argv[1])};
    Option rows[2 * TRAIN_MAX_OPTIONS];
    int n_rows = psd_option_rows(&o, rows);
    o.rows = rows;
    o.n_rows = n_rows;
    options_parse(&headers[o.command], rows, n_rows, argc - 1, argv + 1);
    psd_options_resolve(&o, rows, n_rows);
    if (!device) {
        check(&o);
        options_free(rows, n_rows, argc - 1, argv + 1);
        return 0;
    }
    if (*device)
        check_device(&o, *device);
    else if (o.command != RUN) /* run's first command opens it, and says why it is no GPU */
        *device = train_device_open(&o.train, &o.device_why);
    o.device = *device;
    int status = o.command == PRETRAIN    ? pretrain(&o)
                 : o.command == FINETUNE  ? finetune(&o)
                 : o.command == EVALUATE  ? evaluate(&o, result)
                 : o.command == CALIBRATE ? calibrate(&o)
                                          : psd_run(&o, device);
    options_free(rows, n_rows, argc - 1, argv + 1);
    return status;
}

int main(int argc, char **argv) {
    Device *device = NULL;
    cpu_limit_spinning(argv);
    program_start();
    if (argc < 2 || argv[1][0] == '-') {
        bool asked = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
        if (!asked) die_usage("which command? pretrain, finetune, evaluate, calibrate or run");
        printf("Usage: train_psd pretrain|finetune|evaluate|calibrate|run [options]; each has its own --help\n");
        return 0;
    }
    int status = psd_command(argc, argv, &device, NULL);
    if (training_ended && strcmp(argv[1], psd_commands[RUN])) stop_forget(); /* there, others follow */
    if (device) device_close(device);
    return status;
}
