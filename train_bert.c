/* train_bert: fine-tunes an encoder such as PhoBERT to classify texts, and trains encoders on masked words.
 *
 *   ./train_bert --data comments --base-checkpoint phobert-base-v2 --config configs/phobert_t4.yaml -o run
 *   ./train_bert predict --checkpoint run new.jsonl -o predictions.csv
 *   ./train_bert pretrain --data texts.txt --base-checkpoint phobert-base-v2 -o pretrained
 *
 * The encoder (model/bert.c) is RoBERTa's: post-norm blocks that see whole texts. Texts of a batch lie end to end, so
 * that nothing is padded. The classifier reads the first row of a text behind the last block. The best weights are
 * those of the best validation score; then the validation texts also choose the temperature and the threshold, and the
 * test texts are evaluated once.
 *
 * The trip: options (commands/bert/options.c) -> data/bert/dataset.c fills batches of texts -> model/bert.c computes
 * the loss and the gradients of a batch -> train/run/step.c, called by the loop of train/loop.c, clears gradients,
 * sums, clips and updates -> checkpoint/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "commands/bert/commands.h"
#include "commands/bert/data.h"
#include "commands/bert/test.h"
#include "commands/commands.h"
#include "commands/report.h"
#include "commands/trainer.h"
#include "commands/trainings.h"
#include "page/page.h"
#include "report/classification_report.h"
#include "train/parallel/ranks.h"
#include "train/train.h"

/* ---- a training ---- */

/* The parts of a training besides its spec. */
typedef struct {
    bool pretraining, done;
    bool trains; /* this process does the training; another one may have done so */
    BertOptions *options;
    BertBase base; /* of --base-checkpoint */
    BertData data;
    Device *device;
    const char *device_why;
    Schedule schedule;
    double *factors; /* of the learning rate, by group; NULL: all are 1 */
    Fact facts[2];
    Trainings *all; /* NULL: there is one training */
} BertRun;

/* Reads options, opens the base checkpoint, the data and the device. */
static void run_begin(BertRun *run, const OptionsHeader *header, int argc, char **argv) {
    static BertOptions o; /* static: texts of a YAML file live as long as the process */
    static OptionSet set;
    bert_options_add(&set, &o, run->pretraining);
    options_parse(header, &set, argc, argv);
    run->base = bert_base_adopt(&o.train, &set);
    bert_options_resolve(&o);
    trainer_begin(&o.train, &set);
    run->options = &o;
    run->data = bert_data_open(&o, &run->base);
    run->factors = bert_options_rate_factors(&o);
    run->facts[0] = (Fact){.name = TOKENIZER_FACT, .text = run->data.texts.tokenizer_hash};
    run->facts[1] = (Fact){.name = BERT_SEGMENTER_FACT, .text = run->data.texts.segmenter_hash};
    run->device = train_device_open(&o.train, &run->device_why);
}

static void run_end(BertRun *run) {
    if (run->done) {
        stop_forget(); /* a signal came too late to leave anything out */
        bert_options_print_next(run->options);
    }
    trainer_close_device(run->device);
    free(run->factors);
    bert_data_close(&run->data);
    bert_base_close(&run->base);
}

static TrainSpec spec_of(BertRun *run, const Classes *classes) {
    const BertOptions *o = run->options;
    bert_options_resume_warmup(run->options);
    run->schedule = bert_options_schedule(o);
    BertConfig config = bert_options_config(o, classes->n, run->data.texts.rules.padding);
    TrainSpec spec = {.options = &o->train,
                      .set = o->set,
                      .fixed_options = BERT_FIXED_OPTIONS,
                      .description = {.options = BERT_OPTIONS,
                                      .labels = (const char *const *)classes->names,
                                      .n_labels = classes->n,
                                      .facts = run->facts,
                                      .n_facts = 2},
                      .model = bert_open(&config),
                      .device = run->device,
                      .device_why = run->device_why,
                      .batch = {.largest = bert_largest_batch},
                      .import = classes->n ? BERT_IMPORT_CLASSIFIER : BERT_IMPORT_MASKED,
                      .rate = {.schedule = &run->schedule, .factors = run->factors},
                      .selection = {.metric = BERT_LOSS, .patience = o->patience}};
    trainings_label(run->all, &spec);
    return spec;
}

/* Trains. Sets run->done to whether the training reached its end. Returns the exit status. */
static int train_model(const TrainSpec *spec, BertRun *run) {
    run->done = true;
    if (!run->trains) return 0;
    Training *training = train_open(spec);
    trainings_add(run->all, training);
    if (ranks_write()) bert_data_keep(&run->data, spec->options->output_dir);
    int status = train_run(training);
    run->done = train_ended(training);
    train_close(training);
    return status;
}

/* Marks the tokens of the training texts, to which alone the optimizer's work on the token table is limited. */
static uint8_t *mark_used(const BertRun *run, const BertSplit *train, Model *model) {
    const BertOptions *o = run->options;
    if (!o->compact_vocabulary || o->freeze_embeddings || o->frozen_layers) return NULL;
    Param *table = &model->params.items[params_find(&model->params, "roberta.embeddings.word_embeddings.weight")];
    uint8_t *used = xcalloc((size_t)table->rows, 1);
    int64_t n = 0;
    texts_mark_used(&train->tokenized, used);
    for (int64_t i = 0; i < table->rows; i++) n += used[i];
    table->used = used;
    printf("[Model] %lld of %lld tokens occur in the training texts; the others stay as they are\n", (long long)n,
           (long long)table->rows);
    return used;
}

/* Trains a classifier on splits and tests it. results[2]: see bert_test_best. Returns whether it was tested: not after
 * a signal, nor with --estimate. */
static bool train_classifier(BertRun *run, const BertSplit splits[BERT_SPLITS], Evaluation results[2]) {
    const Classes *classes = &run->data.classes;
    const BertOptions *o = run->options;
    const BertSplit *train = &splits[BERT_TRAIN], *held_out = &splits[BERT_VALIDATION];
    float weights[BERT_MAX_CLASSES];
    bert_data_weigh_classes(o, classes, train, weights);
    BertLoss loss = {.classes = classes->n, .weights = weights, .smoothing = (float)o->label_smoothing},
             plain = {.classes = classes->n, .weights = weights};
    BertValidation validation = bert_validation(o, classes, held_out, weights);
    TrainSpec spec = spec_of(run, classes);
    spec.train = bert_labelled_open(&train->tokenized, train->labels, &loss);
    if (held_out->n) {
        spec.validation = bert_labelled_open(&held_out->tokenized, held_out->labels, &plain);
        bert_validation_select(&validation, &spec.selection);
    }
    OWNED uint8_t *used = run->trains ? mark_used(run, train, spec.model) : NULL;
    int status = trainer_only_plans(&spec) ? 0 : train_model(&spec, run);
    trainer_close(&spec);
    if (status) trainings_fail(run->all, status);
    if (run->done && !held_out->n)
        printf("[Data] nothing is held out, so there is nothing to choose weights and a threshold by\n");
    if (!run->done || !held_out->n || !trainings_test(run->all)) return false;
    BertConfig config = bert_options_config(o, classes->n, run->data.texts.rules.padding);
    spec.model = bert_open(&config);
    bert_test_best(&spec, o, classes, splits, results);
    spec.model->close(spec.model);
    return true;
}

/* ---- several trainings: folds, seeds ---- */

/* Trains in the fold or with the seed number i of n, into a folder of its own. Returns its name, free(); NULL if it was
 * not tested: a signal stopped it, or it will be later. */
static char *train_one(BertRun *run, int i, int n, Evaluation *result) {
    BertOptions *o = run->options;
    int seed = i % (int)o->seeds, fold = i / (int)o->seeds;
    const BertOptions before = *o;
    BertSplit of_fold[BERT_SPLITS] = {{.n = 0}}, *splits = of_fold;
    Evaluation results[2] = {{.classes = 0}};
    char *name = o->folds && o->seeds > 1 ? xformat("fold_%d_seed_%lld", fold + 1, (long long)o->train.seed + seed)
                 : o->folds               ? xformat("fold_%d", fold + 1)
                                          : xformat("seed_%lld", (long long)o->train.seed + seed);
    OWNED char *directory = path_join(o->train.output_dir, name);
    if (o->folds)
        bert_data_fold(o, &run->data, fold, splits);
    else
        splits = run->data.splits;
    if (run->all) trainings_name(run->all, n - i - 1, "training %d of %d", i + 1, n);
    printf("\n[Run] %s\n", name);
    o->train.output_dir = directory; /* the record of the options, too */
    o->train.seed += seed;
    bool tested = train_classifier(run, splits, results);
    *o = before;
    int which = splits[BERT_TEST].n > 0;
    *result = results[which];
    if (which) evaluation_free(&results[0]);
    bert_splits_close(of_fold);
    if (!tested) free(name);
    return tested ? name : NULL;
}

static void train_many(BertRun *run, int n) {
    const BertOptions *o = run->options;
    OWNED FoldResult *folds = xcalloc((size_t)n, sizeof *folds);
    OWNED Evaluation *results = xcalloc((size_t)n, sizeof *results);
    Trainings all = trainings_begin(&o->train, "continue with the same command and --resume auto");
    run->all = &all;
    if (!o->folds && !run->data.splits[BERT_VALIDATION].n)
        die_usage("--seeds %lld: there are no validation texts to compare the trainings by", (long long)o->seeds);
    trainings_deal(&all, n);
    do
        for (int i = 0; i < n && !stop_signal() && !all.status; i++) {
            run->trains = trainings_train(&all, i);
            if (run->trains || all.tests)
                folds[i] = (FoldResult){.group = train_one(run, i, n, &results[i]), .evaluation = &results[i]};
        }
    while (trainings_again(&all));
    run->done = n > 0 && folds[n - 1].group;
    if (run->done) MUST(report_folds(folds, n, "training", o->folds ? "folds" : "seeds", o->train.output_dir, &error));
    trainings_end(&all, run->done);
    page_write_or_warn(o->train.output_dir, PAGE_DEPTH, false);
    for (int i = 0; i < n; i++) {
        if (folds[i].group) evaluation_free(&results[i]);
        free((void *)(uintptr_t)folds[i].group);
    }
    run->all = NULL;
}

/* ---- commands ---- */

static int train_command(int argc, char **argv) {
    static const OptionsHeader header = {
        "train_bert", "--data DIR --base-checkpoint phobert-base-v2 [options]",
        "--data comments.csv --base-checkpoint phobert-base-v2 --config phobert_t4 -o run",
        "Fine-tunes an encoder to classify texts."};
    BertRun run = {.pretraining = false, .trains = true};
    run_begin(&run, &header, argc, argv);
    const BertOptions *o = run.options;
    bool planning = o->train.estimate || o->train.dry_run;
    int n = bert_options_trainings(o);
    Evaluation results[2];
    if (planning && n > 1) printf("[Run] this is the first of %d trainings, which take as long each\n", n);
    if (n > 1 && planning && o->train.manifest.count) {
        train_one(&run, 0, n, results);
    } else if (n > 1 && !planning) {
        train_many(&run, n);
    } else if (train_classifier(&run, run.data.splits, results)) {
        evaluation_free(&results[0]);
        if (run.data.splits[BERT_TEST].n) evaluation_free(&results[1]);
    }
    run_end(&run);
    return 0;
}

static int pretrain_command(int argc, char **argv) {
    static const OptionsHeader header = {"train_bert pretrain", "--data texts.txt [options]",
                                         "--data texts.txt --base-checkpoint phobert-base-v2 -o pretrained",
                                         "Trains an encoder on masked words, from a base checkpoint or from scratch."};
    BertRun run = {.pretraining = true, .trains = true};
    run_begin(&run, &header, argc, argv);
    const BertOptions *o = run.options;
    const BertData *data = &run.data;
    BertMasking masking = {0};
    bool has_data = o->train.manifest.count > 0;
    if (!has_data)
        masking = bert_masking_synthetic(o->mask_share, (int)o->vocabulary);
    else
        MUST_OR(bert_masking_open(data->texts.tokenizer, o->mask_share, o->whole_words, (uint64_t)o->train.seed,
                                  &masking, &error),
                "%s: %s", tokenizer_file(data->texts.tokenizer), error.text);
    TrainSpec spec = spec_of(&run, &(Classes){0});
    spec.train = bert_data_masked(data, BERT_TRAIN, &masking);
    spec.validation = bert_data_masked(data, BERT_VALIDATION, &masking);
    int status = trainer_only_plans(&spec) ? 0 : train_model(&spec, &run);
    trainer_close(&spec);
    bert_masking_close(&masking);
    run_end(&run);
    return status;
}

int main(int argc, char **argv) {
    static const Command commands[] = {
        {NULL, "trains a classifier of texts", train_command},
        {"pretrain", "trains an encoder on masked words", pretrain_command},
        {"synthesize", "writes synthetic comments, for a first try without data", bert_synthesize},
        {"tokenizer", "learns a tokenizer of the fastBPE kind from texts", bert_tokenizer},
        {"segment", "joins the syllables of Vietnamese words, as a filter", bert_segment},
        {"evaluate", "scores a classifier on labelled texts", bert_evaluate},
        {"predict", "predicts the classes of texts", bert_predict},
        {"export", "writes a model for Hugging Face's transformers", bert_export},
        {"baselines", "scores simple classifiers, which a trained one must beat", bert_baselines},
        REPORT_COMMAND,
    };
    static const Program program = {"train_bert", "Classifies texts with an encoder such as PhoBERT.", commands,
                                    sizeof commands / sizeof *commands, " pretrain "};
    return program_run(&program, argc, argv);
}
