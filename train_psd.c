/* train_psd: the masked autoencoder of power spectra, and the classifier that is made of it.
 *
 *   ./train_psd prepare   --input spectrum_bands --output prepared
 *   ./train_psd pretrain  -m prepared/manifest.csv --split prepared/splits/pooled_seed42_frac0.25.json -o
 * results/pretrain
 *   ./train_psd finetune  ... --pretrained results/pretrain/best -o results/finetune
 *   ./train_psd calibrate ... --checkpoint results/finetune/best -o results/calibration
 *   ./train_psd predict   --checkpoint results/finetune spectrum_bands
 *   ./train_psd run       ... -o results            the four from pretrain on; or once for every sensor left out
 *
 * A spectrum is 200 bins, of which 192 are 12 patches of 16 (model/psd). Pretraining masks most patches of a spectrum
 * and predicts them from the others; it also pulls together spectra of one class from two sensors. Finetuning trains a
 * classifier of six radio technologies on the encoder.
 *
 * The trip: options (commands/psd/options.c) -> data/psd/dataset.c fills batches of spectra -> model/psd/pretrain.c and
 * classifier.c compute the loss and the gradients of a batch -> train/run/step.c, called by the loop of train/loop.c,
 * clears gradients, sums, clips and updates -> checkpoint/. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "commands/commands.h"
#include "commands/psd/psd.h"
#include "commands/report.h"
#include "commands/trainer.h"
#include "data/psd/manifest.h"
#include "train/schedule.h"

/* ---- the networks ---- */

static PsdEncoderConfig encoder_config(const PsdOptions *o) {
    return (PsdEncoderConfig){.cnn = !strcmp(o->model.encoder, "cnn"),
                              .d_model = (int)o->model.d_model,
                              .n_layers = (int)o->model.n_layers,
                              .n_heads = (int)o->model.n_heads,
                              .d_ff = (int)o->model.ffn_dim,
                              .dropout = o->model.freeze_encoder ? 0 : (float)o->model.dropout};
}

static Model *open_autoencoder(const PsdOptions *o) {
    PsdPretrainConfig config = {.encoder = encoder_config(o),
                                .decoder_dim = (int)o->model.decoder_dim,
                                .decoder_layers = (int)o->model.decoder_layers,
                                .decoder_dropout = o->model.dropout > 0 ? 0.1f : 0, /* whatever the encoder's is */
                                .projection_dim = (int)o->model.projection_dim,
                                .sicr_weight = (float)o->training.lambda_sicr,
                                .temperature = (float)o->training.temperature};
    return psd_pretrain_open(&config);
}

/* class_weights: NULL for all 1. */
static Model *open_classifier(const PsdOptions *o, const float *class_weights) {
    PsdClassifierConfig config = {.encoder = encoder_config(o),
                                  .head_dim = strcmp(o->model.head, "mlp") ? 0 : (int)o->model.hidden_dim,
                                  .head_dropout = (float)o->model.head_dropout,
                                  .frozen_encoder = o->model.freeze_encoder};
    for (int c = 0; c < PSD_CLASSES; c++) config.class_weights[c] = class_weights ? class_weights[c] : 1;
    return psd_classifier_open(&config);
}

static void freeze_encoder(ParamTable *table) {
    for (int i = 0; i < table->count; i++)
        if (!table->items[i].group && !table->items[i].buffer) table->items[i].frozen_rows = table->items[i].rows;
}

/* ---- the learning rate: by epochs, for each group of parameters ---- */

static double learning_rate(const void *run, int group, int64_t step, int64_t epoch) {
    const PsdOptions *o = run;
    (void)step;
    double base =
        o->train.learning_rate * (o->command == PSD_FINETUNE && group == 0 ? o->training.encoder_lr_scale : 1);
    double warm = (double)o->training.warmup_epochs, all = (double)o->train.epochs, e = (double)epoch;
    if (e < warm) return base * (0.01 + 0.99 * e / warm);
    /* The rate of a group that begins below the minimum, as a scaled encoder's may, stays where it is. */
    return schedule_between(base, fmin(o->training.min_learning_rate, base), (e - warm) / (all - warm));
}

/* ---- what counts as best: the validation's macro F1, over the classes in its truth or its predictions ---- */

typedef struct {
    const PsdData *data;
    const Dataset *samples;
} Validation;

static double negative_macro_f1(void *context, const float *outputs, int64_t n, double *values) {
    const Validation *v = context;
    int64_t confusion[PSD_CLASSES * PSD_CLASSES] = {0};
    MetricsClass each[PSD_CLASSES];
    MetricsScores scores = {.macro = {.f1 = NAN}};
    Error error;
    bool valid = true;
    for (int64_t i = 0; i < n && valid; i++) {
        double logits[PSD_CLASSES];
        int32_t predicted;
        for (int c = 0; c < PSD_CLASSES; c++) logits[c] = (double)outputs[i * PSD_CLASSES + c];
        valid = metrics_predict(logits, 1, PSD_CLASSES, &predicted, &error) &&
                metrics_confusion_add(confusion, PSD_CLASSES, &v->data->store.labels[psd_dataset_sample(v->samples, i)],
                                      &predicted, 1, &error);
    }
    if (!valid || !metrics_scores(confusion, PSD_CLASSES, PSD_LABEL_NAMES, each, &scores, &error))
        warn("%s", error.text); /* the logits are not finite, and neither is the loss, which is reported */
    values[0] = scores.macro.f1;
    return -values[0];
}

/* ---- a training ---- */

/* Returns the part of the specification that both trainings share. */
static TrainSpec spec_of(const PsdOptions *o, const PsdData *data, Model *model) {
    static const char *const fixed_options[] = {"mask-ratio", "class-weights", "split",   "sensor", "shots",
                                                "hop",        "limit",         "encoder", NULL};
    return (TrainSpec){
        .options = &o->train,
        .set = &o->set,
        .fixed_options = fixed_options,
        .description = {.options = PSD_MODEL_OPTIONS, .labels = PSD_LABEL_NAMES, .n_labels = PSD_CLASSES},
        .model = model,
        .device = o->device,
        .device_why = o->device_why,
        .synthetic = data->synthetic != NULL,
        .batch = {.largest = psd_largest_batch, .indivisible = psd_data_indivisible(o)},
        .import = psd_checkpoint_rules(o),
        .rate = {.at = learning_rate, .context = o},
        .selection = {.patience = o->training.patience}};
}

static void open_datasets(TrainSpec *spec, const PsdOptions *o, const PsdData *data) {
    spec->train = psd_data_require(o, data, PSD_TRAIN);
    spec->validation = psd_data_split(o, data, PSD_VAL);
    psd_data_check_batch(o, spec->train, spec->batch.drop_last);
    psd_data_print(data, spec->train, spec->validation);
}

static TrainSpec pretrain_spec(const PsdOptions *o, const PsdData *data) {
    TrainSpec spec = spec_of(o, data, open_autoencoder(o));
    spec.batch.drop_last = true;
    spec.selection.metric =
        !strcmp(o->model.encoder, "cnn"); /* the CNN has no masked loss to improve: then the contrast decides */
    open_datasets(&spec, o, data);
    int64_t partners[3];
    psd_dataset_partners(spec.train, partners);
    if (!data->synthetic)
        printf("[Data] partners of the same class: %lld samples from other sensors, %lld from their own, %lld "
               "themselves\n",
               (long long)partners[0], (long long)partners[1], (long long)partners[2]);
    return spec;
}

static TrainSpec finetune_spec(const PsdOptions *o, const PsdData *data, Validation *validation) {
    static const char *const metrics[] = {"macro_f1"};
    TrainSpec spec = spec_of(o, data, open_classifier(o, data->class_weights));
    spec.batch.drop_last = !o->data.shots; /* of few shots every sample counts */
    open_datasets(&spec, o, data);
    *validation = (Validation){data, spec.validation};
    spec.selection.evaluate = negative_macro_f1;
    spec.selection.context = validation;
    spec.selection.names = metrics;
    spec.selection.n_metrics = 1;
    OWNED char *resumed = o->train.resume ? checkpoint_resolve(o->train.output_dir, o->train.resume) : NULL;
    if (!resumed && o->train.base_checkpoint && psd_checkpoint_has_head(o->train.base_checkpoint, spec.model))
        spec.import.n_only++; /* with the head */
    if (o->model.freeze_encoder) freeze_encoder(&spec.model->params);
    return spec;
}

/* Pretrains or fine-tunes, unless that is only planned. Returns the exit status. */
static int train_stage(PsdOptions *o, PsdStage *stage) {
    bool pretrains = o->command == PSD_PRETRAIN;
    int status = 0;
    psd_checkpoint_check(o, pretrains ? open_autoencoder(o) : open_classifier(o, NULL));
    PsdData data = psd_data_open(o);
    if (!pretrains) psd_data_weigh_classes(o, &data);
    Validation validation;
    TrainSpec spec = pretrains ? pretrain_spec(o, &data) : finetune_spec(o, &data, &validation);
    trainings_label(stage->all, &spec);
    if (!trainer_only_plans(&spec)) {
        Training *training = train_open(&spec);
        trainings_add(stage->all, training);
        status = train_run(training);
        stage->ended = train_ended(training);
        train_close(training);
    }
    trainer_close(&spec);
    psd_data_close(&data);
    return status;
}

/* ---- evaluate, calibrate, predict ---- */

static int infer_stage(PsdOptions *o, PsdStage *stage) {
    if (o->command == PSD_PREDICT) return psd_predict(o, open_classifier);
    PsdData data = psd_data_open(o);
    PsdClassifier classifier = {.spec = {.options = &o->train,
                                         .set = &o->set,
                                         .model = open_classifier(o, NULL),
                                         .device = o->device,
                                         .device_why = o->device_why,
                                         .batch = {.largest = psd_largest_batch},
                                         .import = psd_checkpoint_rules(o)}};
    int status = o->command == PSD_EVALUATE ? psd_evaluate(o, &data, &classifier, stage->result)
                                            : psd_calibrate(o, &data, &classifier);
    train_close(classifier.training);
    trainer_close(&classifier.spec);
    psd_data_close(&data);
    return status;
}

/* ---- commands ---- */

static int (*const stage_functions[PSD_COMMANDS])(PsdOptions *o, PsdStage *stage) = {
    [PSD_PRETRAIN] = train_stage,  [PSD_FINETUNE] = train_stage, [PSD_EVALUATE] = infer_stage,
    [PSD_CALIBRATE] = infer_stage, [PSD_PREDICT] = infer_stage,  [PSD_RUN] = psd_run};

/* Dies if a stage is configured for another device than the stages before it. */
static void check_device(const PsdOptions *o, const Device *device) {
    const TrainOptions *t = &o->train;
    if ((strcmp(t->device, "auto") && strcmp(t->device, device->name)) ||
        (t->threads && !device->card[0] && t->threads != device->n_threads) || (t->no_tf32 && device->tf32))
        die_usage("the stages of a run compute on one device: give device, threads and no-tf32 to run, not in %s",
                  t->config.count ? t->config.text[0] : "a stage");
}

/* Opens the options and, unless a stage before has done so, the device. */
static PsdOptions *stage_begin(int argc, char **argv, PsdStage *stage) {
    PsdOptions *o = psd_options_open(NULL, argc, argv);
    o->more_epochs = !stage->all ? "--epochs" : o->data.shots ? NULL : "--finetune-epochs";
    int64_t micro_batches = o->train.grad_accumulation;
    trainer_begin(&o->train, stage->check ? NULL : &o->set);
    if (o->command == PSD_RUN) o->train.grad_accumulation = micro_batches; /* each stage divides them */
    if (stage->device) check_device(o, stage->device);
    if (!stage->device && !stage->check && o->command != PSD_RUN)
        stage->device = train_device_open(&o->train, &o->device_why);
    o->device = stage->device;
    if (o->device) train_options_set_price(&o->train, o->device);
    return o;
}

/* Dies if there is too little data for a training. */
static int check_stage(PsdOptions *o) {
    PsdData data = psd_data_open(o);
    Dataset *samples = psd_data_require(o, &data, PSD_TRAIN);
    psd_data_check_batch(o, samples, !o->data.shots);
    samples->close(samples);
    psd_data_close(&data);
    return 0;
}

/* Carries out a stage of `run` as the program would by itself. Returns the exit status. */
static int stage_carry_out(int argc, char **argv, PsdStage *stage) {
    PsdOptions *o = stage_begin(argc, argv, stage);
    int status = stage->check ? check_stage(o) : stage_functions[o->command](o, stage);
    psd_options_close(o);
    return status;
}

/* Carries out a command of the user. Returns the exit status. */
static int stage_command(int argc, char **argv) {
    PsdStage stage = {.carry_out = stage_carry_out};
    PsdOptions *o = stage_begin(argc, argv, &stage);
    int status = stage_functions[o->command](o, &stage);
    bool trained = stage.ended && o->command != PSD_RUN;
    if (trained && !status && o->command == PSD_FINETUNE) status = psd_report_validation(o, &stage);
    if (trained && !status) psd_print_next(o);
    if (trained) stop_forget(); /* a signal came too late to leave anything out */
    psd_options_close(o);
    if (stage.device) trainer_close_device(stage.device);
    return status;
}

int main(int argc, char **argv) {
    static const Command commands[] = {
        {"prepare", "makes the manifest, the splits and the samples from a folder of recordings", psd_prepare},
        {"synthesize", "writes synthetic recordings, for a first try without data", psd_synthesize},
        {"pretrain", "trains the encoder on masked patches and a contrast between sensors", stage_command},
        {"finetune", "trains the classifier, from a pretrained encoder or from scratch", stage_command},
        {"evaluate", "writes scores, tables and diagrams of a classifier", stage_command},
        {"calibrate", "fits temperatures on validation rows and evaluates them on test rows", stage_command},
        {"predict", "predicts the technology of spectra, with or without labels", stage_command},
        {"run", "pretrain, finetune, evaluate and calibrate; once, or once for every sensor", stage_command},
        REPORT_COMMAND};
    static const Program program = {"train_psd", "Trains classifiers of radio technologies from power spectra.",
                                    commands, sizeof commands / sizeof *commands, " pretrain finetune run "};
    return program_run(&program, argc, argv);
}
