/* Shared by the commands of train_psd: options, data, the model described by a checkpoint, predictions. */
#pragma once

#include "commands/predict.h"
#include "commands/trainings.h"
#include "data/psd/dataset.h"
#include "model/psd/psd.h"
#include "report/classification_report.h"
#include "train/train.h"

/* The commands that share a table of options; prepare and synthesize have their own. */
typedef enum { PSD_PRETRAIN, PSD_FINETUNE, PSD_EVALUATE, PSD_CALIBRATE, PSD_PREDICT, PSD_RUN, PSD_COMMANDS } PsdCommand;
extern const char *const PSD_COMMAND_NAMES[PSD_COMMANDS];

#define PSD_BATCH 512 /* spectra per micro-batch, unless -b says otherwise */

typedef struct {
    const char *split, *sensor;
    int64_t shots;
    double limit;
    bool hop;
} PsdDataOptions;

typedef struct {
    const char *size, *encoder, *head;
    int64_t d_model, n_layers, n_heads, ffn_dim, decoder_dim, decoder_layers, projection_dim, hidden_dim;
    double dropout, head_dropout;
    bool freeze_encoder;
} PsdModelOptions;

typedef struct {
    const char *class_weights;
    int64_t warmup_epochs, patience;
    double mask_ratio, lambda_sicr, temperature, encoder_lr_scale, min_learning_rate;
} PsdTrainingOptions;

typedef struct {
    const char *eval_split, *tag, *calibration;
} PsdTestOptions;

/* The options of `run`. */
typedef struct {
    const char *protocol, *pretrain_config, *finetune_config, *loso_split;
    int64_t first_sensors, repeats, pretrain_epochs, finetune_epochs;
    bool scratch;
} PsdStagesOptions;

/* The values of the options of one command. */
typedef struct {
    PsdCommand command;
    int argc; /* the command line */
    char **argv;
    OptionSet set; /* the options of the command */
    Device *device;
    const char *device_why;  /* why it is not a GPU, or NULL */
    const char *more_epochs; /* option of the epochs of the classifier, as the user calls it; NULL: they are fixed */
    TrainOptions train;
    PredictOptions predict;
    PsdDataOptions data;
    PsdModelOptions model;
    PsdTrainingOptions training;
    PsdTestOptions test;
    PsdStagesOptions all;
    const char *accelerator;
    int64_t devices;
} PsdOptions;

/* ---- options (options.c) ---- */

/* Parses the options of a command: takes from the checkpoint what is not given, replaces 0 by the default that it
 * stands for, and dies on combinations that make no sense. The last word of argv[0] names the command. checkpoint:
 * which one predicts; NULL: as the options say, for all other commands. */
PsdOptions *psd_options_open(const char *checkpoint, int argc, char **argv);
void psd_options_close(PsdOptions *run);

/* ---- the model of a checkpoint (checkpoint.c) ---- */

/* The options that decide what a model is, and how its spectra are made; the last is NULL. */
extern const char *const PSD_MODEL_OPTIONS[];
/* The rules for config.json that hold for any model. */
extern const DescriptionRules PSD_DESCRIPTION;
/* Replaces each dimension that is 0 by that of --size. */
void psd_size_resolve(PsdOptions *run);
/* Sets the options of the model to those of the checkpoint of --pretrained or --checkpoint (from its config.json, or
 * from the shapes of its tensors). Dies if an option that was given contradicts it. Does nothing if there is no such
 * file. */
void psd_checkpoint_adopt(PsdOptions *run);
/* Returns what weights must have: for finetune the encoder, and, with one more of the prefixes, the head; for pretrain
 * the encoder, and the whole decoder or nothing of it; for other commands all. Modules of the other training may be
 * there, too. */
ImportRules psd_checkpoint_rules(const PsdOptions *run);
/* Dies if the tensors of the weights to start from, if there are any, are not those of the model. Closes the model. */
void psd_checkpoint_check(const PsdOptions *run, Model *model);
/* Returns whether a file or a checkpoint directory has the whole head of `model`, with the same shapes. */
bool psd_checkpoint_has_head(const char *path, const Model *model);

/* ---- data (data.c) ---- */

typedef struct {
    PsdStore store;
    PsdPartition partition;
    float class_weights[PSD_CLASSES];
    void *synthetic; /* the numbers of a store that is not a file; NULL: it is one */
} PsdData;

/* Opens the store of a manifest, with --hop and --limit as far as they are given. */
bool psd_data_store(const PsdOptions *run, const char *path, int n_threads, PsdStore *store, Error *error);
/* Opens the store of the manifest and reads the rows of --split. Sets the options hop and limit to those of the store.
 * Without a manifest, for --estimate: one batch of synthetic spectra, all to train on. */
PsdData psd_data_open(PsdOptions *run);
void psd_data_close(PsdData *data);
/* Opens the samples of one split; NULL if it has none. */
Dataset *psd_data_split(const PsdOptions *run, const PsdData *data, int split);
/* Opens the samples of one split; dies if it has none. */
Dataset *psd_data_require(const PsdOptions *run, const PsdData *data, int split);
/* Sets data->class_weights from --class-weights and the training samples, and prints them. */
void psd_data_weigh_classes(const PsdOptions *run, PsdData *data);
/* Prints how many samples each split has; validation: NULL if there are none. */
void psd_data_print(const PsdData *data, const Dataset *train, const Dataset *validation);
/* Returns why a micro-batch may not be divided; NULL if it may. */
const char *psd_data_indivisible(const PsdOptions *options);
/* Dies if every batch of an epoch would be incomplete and left out. */
void psd_data_check_batch(const PsdOptions *options, const Dataset *train, bool drop_last);
/* Returns how many of a spectrum's patches --mask-ratio leaves visible. */
int psd_data_visible_patches(const PsdOptions *run);

/* ---- a classifier's predictions (predictions.c) ---- */

/* Predictions with the arrays that they point to. */
typedef struct {
    Predictions predictions;
    double *logits, *snr;
    int32_t *truth, *group;
    int64_t *ids;
    char *cause; /* of the predictions */
} PsdPredictions;

/* The classifier of --checkpoint. */
typedef struct {
    TrainSpec spec;
    Training *training; /* NULL until the first predictions */
} PsdClassifier;

/* Returns the outputs for one split. The first call allocates the device's memory, and sets the spec's training data to
 * the split's samples. */
PsdPredictions psd_predictions(const PsdOptions *run, const PsdData *data, PsdClassifier *classifier, int split);
void psd_predictions_free(PsdPredictions *predictions);
/* Returns the split that --eval-split names. */
int psd_eval_split(const PsdOptions *run);

/* Prints, as the last line, that a classifier is at chance, if these predictions of its probabilities say so. */
void psd_predictions_print_chance(const PsdPredictions *predictions);

/* ---- commands ---- */

/* Evaluates a classifier on --eval-split and writes the reports. *result (optional) gets the scores. Returns the exit
 * status. */
int psd_evaluate(const PsdOptions *run, const PsdData *data, PsdClassifier *classifier, Evaluation *result);
/* Fits calibrations on the validation split and reports them on --eval-split. Returns the exit status: 1 if the
 * predictions allow no fit. */
int psd_calibrate(const PsdOptions *run, const PsdData *data, PsdClassifier *classifier);

/* Returns the classifier that the options describe. class_weights: of the loss; NULL: all 1. */
typedef Model *(*PsdClassifierOpen)(const PsdOptions *run, const float *class_weights);
/* Predicts the spectra of a folder or a manifest by the classifiers of --checkpoint. Returns the exit status. */
int psd_predict(PsdOptions *run, PsdClassifierOpen open);

/* A command: of the user, or a stage of `run`. */
typedef struct PsdStage PsdStage;
struct PsdStage {
    /* Carries out a command as the program would, and returns its exit status. */
    int (*carry_out)(int argc, char **argv, PsdStage *stage);
    Device *device;     /* where the stages compute; the first one opens it */
    bool check;         /* only check the options and the data */
    bool ended;         /* a training reached its end */
    Evaluation *result; /* evaluate fills it; NULL: not wanted */
    Trainings *all;     /* NULL: there is one training */
};

/* Carries out pretrain, finetune, evaluate and calibrate, once or once for every sensor. Returns the exit status. */
int psd_run(PsdOptions *run, PsdStage *stage);
/* Evaluates the best weights of a finetuning that has ended on its validation rows, into the folder of the run. Does
 * nothing if nothing was validated, or a signal asks to stop. Returns the exit status. */
int psd_report_validation(const PsdOptions *run, PsdStage *stage);
/* Prints the command that uses the weights of a pretraining or a finetuning that has ended. */
void psd_print_next(const PsdOptions *run);

/* Commands with options of their own; argv[0] is skipped. They return the exit status. */
int psd_prepare(int argc, char **argv);
int psd_synthesize(int argc, char **argv);
