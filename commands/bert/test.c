#include "commands/bert/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"

/* Returns the best checkpoint of a run; free(). */
static char *best_of(const char *directory) {
    Error error;
    char *path;
    if (!checkpoint_best(directory, &path, &error)) die("%s", error.text);
    if (!path) die("%s: nothing was validated, so there are no best weights to test", directory);
    return path;
}

/* Predicts the texts of a split. logits[n, classes]; free(). */
static float *predict(Training *training, const BertSplit splits[BERT_SPLITS], int which, int classes) {
    const BertSplit *split = &splits[which];
    BertLoss loss = {.classes = classes};
    Dataset *dataset = bert_labelled_open(&split->tokenized, NULL, &loss);
    float *logits = xmalloc((size_t)(split->n * classes) * sizeof *logits);
    double start = seconds_now();
    train_outputs(training, dataset, logits);
    double seconds = seconds_now() - start;
    printf("[Eval] %s: %lld texts in %.2f s: %.0f a second\n", BERT_SPLIT_NAMES[which], (long long)split->n, seconds,
           (double)split->n / seconds);
    dataset->close(dataset);
    return logits;
}

static BertTested tested_of(const BertSplit *split, const char *name, const Classes *classes, const float *logits,
                            const char *cause) {
    return (BertTested){.name = name,
                        .classes = classes,
                        .n = split->n,
                        .texts = split->texts,
                        .files = split->files,
                        .lines = split->lines,
                        .labels = split->labels,
                        .logits = logits,
                        .cause = cause};
}

/* Returns the share of the second class in the training texts. */
static double share_of_second(const BertSplit *train) {
    int64_t n = 0;
    for (int64_t i = 0; i < train->n; i++) n += train->labels[i] == 1;
    return (double)n / (double)train->n;
}

static ThresholdRule rule_named(const char *name) {
    ThresholdRule rule = THRESHOLD_HALF;
    while (strcmp(THRESHOLD_RULE_NAMES[rule], name) != 0) rule++;
    return rule;
}

void bert_test_best(const TrainSpec *spec, const BertOptions *o, const Classes *classes,
                    const BertSplit splits[BERT_SPLITS], Evaluation results[2]) {
    const BertSplit *validation = &splits[BERT_VALIDATION], *test = &splits[BERT_TEST];
    TrainOptions options = o->train;
    TrainSpec with = *spec;
    BertLoss loss = {.classes = classes->n};
    char *best = best_of(options.output_dir);
    float *logits[2] = {NULL, NULL};
    options.base_checkpoint = best;
    with.options = &options;
    with.validation = NULL;
    Dataset *dataset = with.train = bert_labelled_open(&validation->tokenized, NULL, &loss);
    Training *training = train_open_inference(&with);
    logits[0] = predict(training, splits, BERT_VALIDATION, classes->n);
    if (test->n) logits[1] = predict(training, splits, BERT_TEST, classes->n);
    train_write_autotune_cache(training, options.output_dir);
    train_close(training);
    dataset->close(dataset);
    char *cause = chance_cause(best, BERT_USUAL_RATES, "--epochs");
    BertTested tested[2] = {tested_of(validation, BERT_SPLIT_NAMES[BERT_VALIDATION], classes, logits[0], cause),
                            tested_of(test, BERT_SPLIT_NAMES[BERT_TEST], classes, logits[1], cause)};
    BertTestRun run = {.checkpoint = best,
                       .directory = options.output_dir,
                       .rule = rule_named(o->threshold),
                       .training_share = share_of_second(&splits[BERT_TRAIN])};
    bert_test_run(&run, &tested[0], test->n ? &tested[1] : NULL, results);
    free(logits[0]);
    free(logits[1]);
    free(cause);
    free(best);
}
