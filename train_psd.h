/* The parts of train_psd: its options (train_psd_options.c), what a checkpoint says of its model (train_psd_model.c),
 * its commands (train_psd.c), and all of them together for one sensor or for each (train_psd_run.c). */
#ifndef TRAIN_PSD_H
#define TRAIN_PSD_H

#include "data/psd_dataset.h"
#include "model/psd.h"
#include "train/classification_report.h"
#include "train/loop.h"

typedef enum { PRETRAIN, FINETUNE, EVALUATE, CALIBRATE, RUN, COMMANDS } Command;
extern const char *const psd_commands[COMMANDS];

typedef struct {
    TrainOptions train; /* first: the loop's options * is ours */
    Command command;
    const Option *rows; /* of the command */
    int n_rows;
    Device *device;
    const char *device_why; /* why it is no GPU, or NULL */
    const char *split, *sensor, *size, *encoder, *class_weights, *accelerator, *head, *part, *tag, *protocol;
    const char *pretrain_config, *finetune_config, *loso_split;
    int64_t shots, d_model, n_layers, n_heads, ffn_dim, decoder_dim, decoder_layers, projection_dim, hidden_dim;
    int64_t warmup_epochs, patience, devices, first_sensors, repeats, pretrain_epochs, finetune_epochs;
    double dropout, mask_ratio, lambda_sicr, temperature, head_dropout, encoder_lr_scale, min_learning_rate, limit;
    bool freeze_encoder, hop, scratch;
} PsdRun;

/* The options table of o->command; returns how many rows. */
int psd_option_rows(PsdRun *o, Option *rows);
/* Takes from a checkpoint what is not given, replaces 0 by its value, and refuses what makes no sense. */
void psd_options_resolve(PsdRun *o, Option *rows, int n);
/* Sets the options of the model to what --pretrained or --checkpoint says of it (its state.json, or the shapes of its
 * tensors); dies if one that is given says otherwise. */
void psd_adopt_model(const PsdRun *o, Option *rows, int n);
/* Replaces the 0 of a dimension by the size's. */
void psd_resolve_size(PsdRun *o);
bool psd_given(const PsdRun *o, const char *name);

typedef struct {
    PsdStore store;
    PsdSplit split;
    float class_weights[PSD_CLASSES];
    void *made_up; /* the numbers of a store that is no file */
} Data;

/* The store of the manifest, and the rows of the split. The options hop and limit become those of the store. */
Data psd_data_open(PsdRun *o);
void psd_data_close(Data *data);

/* One command, argv[1], as main would; *device: opened if it is not there yet. *result (optional): what evaluate came
 * to. The exit status. Without `device` a training is only checked: its options and its data. */
int psd_command(int argc, char **argv, Device **device, Evaluation *result);
/* The command run: the others, one after the other. */
int psd_run(const PsdRun *o, Device **device);

#endif
