/* The options of `train_cv`, and the values that follow from them. */
#pragma once

#include "checkpoint/load.h"
#include "model/cv/cv.h"
#include "report/threshold.h"
#include "train/train.h"

#define CV_BATCH         64 /* cells per micro-batch, unless -b says otherwise */
#define CV_FILTER_SIGMAS 2  /* of --filter, unless --filter-sigmas says otherwise */
#define CV_INDIVISIBLE   "batch norms see each micro-batch separately"
enum { CV_LEAST_BATCH = 2 /* the batch norms need two cells */ };

typedef struct {
    TrainOptions train;
    OptionSet *set; /* the same for all folds */
    Device *device;
    const char *device_why; /* why the device is not a GPU, or NULL */
    const char *class_words, *class_table;
    const char *protocol, *train_donors, *val_donors, *test_donors, *cv_donors, *folds;
    const char *filter, *sampler, *threshold, *monitor, *init, *channels;
    int64_t shift, patience, extension_epochs, extensions, cosine_epochs;
    double filter_sigmas, smoothing, dropout, head_dropout, min_learning_rate;
    bool compat, augment, mixup, dilated, tta;
    CvConfig model; /* from channels, init and the rest; bins and side come from the data */
    ThresholdRule rule;
} CvRun;

/* The options that tell the classes of cells, which every command has that reads a folder of them. */
#define CV_CLASS_OPTIONS(options)                                                                                      \
    {.name = "class-words",                                                                                            \
     .type = OPTION_TEXT,                                                                                              \
     .offset = offsetof(options, class_words),                                                                         \
     .metavar = "A,B",                                                                                                 \
     .help =                                                                                                           \
         "the words in names of quiescent and of active cells, and the names of the folders of classes, instead of "   \
         "in,act and their longer forms; a '/' separates several: rest/ctrl,act"},                                     \
    {                                                                                                                  \
        .name = "class-table", .type = OPTION_TEXT, .offset = offsetof(options, class_table), .metavar = "FILE",       \
        .help =                                                                                                        \
            "CSV with the columns file (DONOR/NAME, or NAME alone) and class (quiescent or active, 0 or 1), which "    \
            "says the classes instead of the names"                                                                    \
    }

/* Adds all options of the training to the empty set, which must live as long as `o`. */
void cv_options_add(OptionSet *set, CvRun *o);
/* The facts that a file of weights states about its network. The file is a checkpoint of train_cv, or has tensors of
 * the same names. */
typedef struct {
    char *text; /* --channels */
    int channels[CV_BLOCKS];
    int64_t bins, side; /* of the cells of its training; 0: not known */
    bool stated;        /* by its config.json */
} CvBase;

/* Reads it from the shapes of the tensors and from config.json; free(text). Dies if they contradict each other, or are
 * not those of a classifier of cells. option: gave the path. */
CvBase cv_base_read(const char *option, const char *checkpoint);
/* Returns what a file of weights must have: all of the network; biases before norms are absorbed. */
ImportRules cv_import_rules(void);
/* Takes from --base-checkpoint what is not given, replaces each 0 that means a default, applies --compat to options
 * that are not given, and ends the program if options contradict each other, or if the tensors of the base checkpoint
 * are not those of the network. */
void cv_options_resolve(CvRun *o);

/* Facts in config.json: the shape of the cells. */
#define CV_BINS_FACT "bins"
#define CV_SIDE_FACT "side"

/* Options that decide what the network computes. */
extern const char *const CV_MODEL_OPTIONS[];
/* Options that decide what a sample, the model or the best epoch is: a run resumes only with the same values. */
extern const char *const CV_FIXED_OPTIONS[];
