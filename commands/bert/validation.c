#include "commands/bert/validation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/metrics.h"

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
    int32_t *predicted = xmalloc((size_t)n * sizeof *predicted);
    int64_t *confusion = xcalloc((size_t)k * (size_t)k, sizeof *confusion);
    MetricsClass *each = xcalloc((size_t)k, sizeof *each);
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
    free(predicted);
    free(confusion);
    free(each);
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
