#include "commands/bert/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "report/metrics.h"

/* ---- validations ---- */

enum { MACRO_F1, BALANCED_ACCURACY, MCC, F1, PRECISION, RECALL, SCORES };
static const char *const SCORE_NAMES[SCORES] = {"macro_f1", "balanced_accuracy", "mcc", "f1", "precision", "recall"};

/* Returns the loss of the validation texts, weighted by their classes. */
static double loss_of(const BertValidation *v, const double *probabilities, int64_t n) {
    double loss = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t class = v->split->labels[i];
        loss -= (double)v->weights[class] * log(probabilities[i * v->classes->n + class]);
        all += (double)v->weights[class];
    }
    return loss / all;
}

static const double TIE = 1e-9; /* decides between equal scores */

/* Computes the scores of the most probable classes; those of two classes, F1 and so on, are of the second. Returns
 * minus the score of --metric, or the loss, which also decides between equal scores. */
static double evaluate(void *context, const float *outputs, int64_t n, double *values) {
    const BertValidation *v = context;
    int k = v->classes->n;
    double *p = xmalloc((size_t)(n * k) * sizeof *p), loss = NAN;
    OWNED int32_t *predicted = xmalloc((size_t)n * sizeof *predicted);
    OWNED int64_t *confusion = xcalloc((size_t)k * (size_t)k, sizeof *confusion);
    OWNED MetricsClass *each = xcalloc((size_t)k, sizeof *each);
    MetricsScores s = {.accuracy = NAN, .macro = {.f1 = NAN}};
    const char *const *names = (const char *const *)v->classes->names;
    Error error;
    for (int64_t i = 0; i < n * k; i++) p[i] = (double)outputs[i];
    if (metrics_softmax(p, n, k, 1, p, &error) && metrics_predict(p, n, k, predicted, &error) &&
        metrics_confusion_add(confusion, k, v->split->labels, predicted, n, &error) &&
        metrics_scores(confusion, k, names, each, &s, &error))
        loss = loss_of(v, p, n);
    else
        warn("%s", error.text); /* the logits are not finite, and neither is the loss, which is reported */
    const double scores[SCORES] = {s.macro.f1,       s.balanced_accuracy,     s.mcc,
                                   each[1].score.f1, each[1].score.precision, each[1].score.recall};
    memcpy(values, scores, sizeof(double) * (k == 2 ? SCORES : F1));
    free(p);
    double score = !strcmp(v->metric, "accuracy") ? s.accuracy
                   : !strcmp(v->metric, "mcc")    ? s.mcc
                   : !strcmp(v->metric, "f1")     ? scores[F1]
                                                  : s.macro.f1;
    return !strcmp(v->metric, "loss") ? loss : TIE * loss - score;
}

BertValidation bert_validation(const BertOptions *o, const Classes *classes, const BertSplit *split,
                               const float *weights) {
    const char *metric = o->metric;
    if (!strcmp(metric, "auto")) metric = classes->n == 2 ? "f1" : "macro-f1";
    if (!strcmp(metric, "f1") && classes->n > 2)
        die_usage("--metric f1 is of two classes, and there are %d: give macro-f1", classes->n);
    if (!strcmp(metric, "macro-f1")) metric = SCORE_NAMES[MACRO_F1];
    return (BertValidation){metric, classes, split, weights};
}

void bert_validation_select(const BertValidation *v, SelectionSpec *selection) {
    selection->evaluate = evaluate;
    selection->context = (void *)(uintptr_t)v;
    selection->names = SCORE_NAMES;
    selection->n_metrics = v->classes->n == 2 ? SCORES : F1;
    selection->decisive = v->metric;
}

/* ---- the test ---- */

/* Returns the best checkpoint of a run; free(). */
static char *best_of(const char *directory) {
    char *path;
    MUST(checkpoint_best(directory, &path, &error));
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
    OWNED char *best = best_of(options.output_dir);
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
    OWNED char *cause = chance_cause(best, BERT_USUAL_RATES, "--epochs");
    BertTested tested[2] = {tested_of(validation, BERT_SPLIT_NAMES[BERT_VALIDATION], classes, logits[0], cause),
                            tested_of(test, BERT_SPLIT_NAMES[BERT_TEST], classes, logits[1], cause)};
    BertTestRun run = {.checkpoint = best,
                       .directory = options.output_dir,
                       .rule = rule_named(o->threshold),
                       .training_share = share_of_second(&splits[BERT_TRAIN])};
    bert_test_run(&run, &tested[0], test->n ? &tested[1] : NULL, results);
    FREE(logits[0], logits[1]);
}
