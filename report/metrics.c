/* Scores of classifiers. Counts are integers until the last division, so that equal scores compare equal. */
#include "report/metrics.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Probabilities rounded to bf16 (8 bits) are each off by 2^-9 of themselves, and so is their sum; twice that. */
static const double SUM_TOLERANCE = 0x1p-8;

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* ---- checks ---- */

static bool labels_check(const char *what, const int32_t *labels, int64_t n, int classes, Error *error) {
    for (int64_t i = 0; i < n; i++)
        if (labels[i] < 0 || labels[i] >= classes)
            return error_set(error, "the %s of row %lld is %d, not one of 0 .. %d", what, (long long)i, labels[i],
                             classes - 1);
    return true;
}

static bool values_check(const char *what, const double *values, int64_t n, int width, double low, double high,
                         Error *error) {
    for (int64_t i = 0; i < n * width; i++)
        if (!(values[i] >= low && values[i] <= high)) /* true for a NaN */
            return error_set(error, "%s [%lld, %d] is %g, not within %g .. %g", what, (long long)(i / width),
                             (int)(i % width), values[i], low, high);
    return true;
}

/* Logits come from models in float; within its range no difference overflows a double. */
static bool logits_check(const double *logits, int64_t n, int classes, Error *error) {
    return values_check("logit", logits, n, classes, -FLT_MAX, FLT_MAX, error);
}

/* ---- decisions ---- */

static int largest(const double *row, int classes) {
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (row[c] > row[best]) best = c;
    return best;
}

static void softmax_row(const double *logits, int classes, double temperature, double *out) {
    double top = logits[largest(logits, classes)], sum = 0;
    for (int c = 0; c < classes; c++) {
        out[c] = exp((logits[c] - top) / temperature);
        sum += out[c];
    }
    for (int c = 0; c < classes; c++) out[c] /= sum;
}

bool metrics_softmax(const double *logits, int64_t n, int classes, double temperature, double *probabilities,
                     Error *error) {
    if (!(temperature > 0)) return error_set(error, "a temperature of %g is not positive", temperature);
    if (!logits_check(logits, n, classes, error)) return false;
    for (int64_t i = 0; i < n; i++)
        softmax_row(logits + i * classes, classes, temperature, probabilities + i * classes);
    return true;
}

bool metrics_sigmoid(const double *logits, int64_t n, int classes, double *probabilities, Error *error) {
    if (!logits_check(logits, n, classes, error)) return false;
    for (int64_t i = 0; i < n * classes; i++) probabilities[i] = 1 / (1 + exp(-logits[i]));
    return true;
}

bool metrics_predict(const double *scores, int64_t n, int classes, int32_t *predicted, Error *error) {
    if (!values_check("score", scores, n, classes, -DBL_MAX, DBL_MAX, error)) return false;
    for (int64_t i = 0; i < n; i++) predicted[i] = largest(scores + i * classes, classes);
    return true;
}

/* ---- scores of a confusion matrix ---- */

bool metrics_confusion_add(int64_t *confusion, int classes, const int32_t *truth, const int32_t *predicted, int64_t n,
                           Error *error) {
    if (!labels_check("label", truth, n, classes, error)) return false;
    if (!labels_check("prediction", predicted, n, classes, error)) return false;
    for (int64_t i = 0; i < n; i++) confusion[(int64_t)truth[i] * classes + predicted[i]]++;
    return true;
}

/* to += weight * from */
static void triple_add(MetricsTriple *to, double weight, const MetricsTriple *from) {
    to->precision += weight * from->precision;
    to->recall += weight * from->recall;
    to->f1 += weight * from->f1;
}

static MetricsTriple triple_over(MetricsTriple sum, double number) {
    return (MetricsTriple){ratio(sum.precision, number), ratio(sum.recall, number), ratio(sum.f1, number)};
}

bool metrics_scores(const int64_t *confusion, int classes, const char *const *names, MetricsClass *each,
                    MetricsScores *scores, Error *error) {
    int64_t right = 0;
    *scores = (MetricsScores){.classes_all = classes};
    double product = 0, truth_squared = 0, predicted_squared = 0; /* sums over classes, for Matthews' correlation */
    for (int c = 0; c < classes; c++) {
        MetricsClass *class = &each[c];
        *class = (MetricsClass){.name = names[c]};
        for (int other = 0; other < classes; other++) {
            class->support += confusion[(int64_t)c * classes + other];
            class->predicted += confusion[(int64_t)other * classes + c];
        }
        int64_t hits = confusion[(int64_t)c * classes + c];
        double support = (double)class->support, predicted = (double)class->predicted;
        class->score = (MetricsTriple){ratio((double)hits, predicted), ratio((double)hits, support),
                                       ratio(2 * (double)hits, support + predicted)};
        right += hits;
        scores->rows += class->support;
        product += support * predicted;
        truth_squared += support * support;
        predicted_squared += predicted * predicted;
        scores->classes_present += class->support > 0;
        scores->classes_scored += class->support + class->predicted > 0;
        triple_add(&scores->macro, 1, &class->score); /* an absent class adds zeros */
        triple_add(&scores->weighted, support, &class->score);
    }
    if (!scores->rows) return error_set(error, "there are no rows to score");
    double rows = (double)scores->rows;
    scores->accuracy = (double)right / rows;
    scores->balanced_accuracy =
        scores->macro.recall / scores->classes_present; /* recall is 0 where the truth has no rows */
    scores->mcc = ratio((double)right * rows - product,
                        sqrt(rows * rows - predicted_squared) * sqrt(rows * rows - truth_squared));
    scores->macro_all = triple_over(scores->macro, classes);
    scores->macro = triple_over(scores->macro, scores->classes_scored);
    scores->weighted = triple_over(scores->weighted, rows);
    return true;
}

/* ---- a binary classifier over all thresholds ---- */

static int by_descending_threshold(const void *left, const void *right) {
    double a = ((const MetricsPoint *)left)->threshold, b = ((const MetricsPoint *)right)->threshold;
    return (a < b) - (a > b);
}

/* Makes a point of each row, sorts them, merges those of equal score and sums counts from the top. */
bool metrics_curve(const double *scores, const int32_t *truth, int64_t n, MetricsPoint *points, int64_t *count,
                   Error *error) {
    if (!labels_check("label", truth, n, 2, error)) return false;
    if (!values_check("score", scores, n, 1, -DBL_MAX, DBL_MAX, error)) return false;
    for (int64_t i = 0; i < n; i++) points[i] = (MetricsPoint){scores[i], truth[i], !truth[i]};
    qsort(points, (size_t)n, sizeof *points, by_descending_threshold);
    MetricsPoint sum = {0};
    *count = 0;
    for (int64_t i = 0; i < n; i++) {
        sum.threshold = points[i].threshold;
        sum.true_positives += points[i].true_positives;
        sum.false_positives += points[i].false_positives;
        if (i + 1 == n || points[i + 1].threshold < sum.threshold) points[(*count)++] = sum;
    }
    if (!sum.true_positives || !sum.false_positives)
        return error_set(error, "a curve needs rows of both classes: there are %lld negative and %lld positive ones",
                         (long long)sum.false_positives, (long long)sum.true_positives);
    return true;
}

MetricsAreas metrics_areas(const MetricsPoint *points, int64_t count) {
    MetricsAreas areas = {0};
    double hits = 0, alarms = 0, precision = 1; /* of the point before, first of (0, 0) */
    for (int64_t i = 0; i < count; i++) {
        double new_hits = (double)points[i].true_positives, new_alarms = (double)points[i].false_positives;
        double new_precision = new_hits / (new_hits + new_alarms);
        areas.roc_auc += (new_alarms - alarms) * (new_hits + hits) / 2;
        areas.average_precision += (new_hits - hits) * new_precision;
        areas.pr_auc += (new_hits - hits) * (new_precision + precision) / 2;
        hits = new_hits, alarms = new_alarms, precision = new_precision;
    }
    areas.roc_auc /= hits * alarms;
    areas.average_precision /= hits;
    areas.pr_auc /= hits;
    return areas;
}

/* ---- calibration ---- */

static bool probabilities_check(const double *probabilities, const int32_t *truth, int64_t n, int classes,
                                Error *error) {
    if (n < 1) return error_set(error, "there are no rows to score");
    if (!labels_check("label", truth, n, classes, error)) return false;
    if (!values_check("probability", probabilities, n, classes, 0, 1, error)) return false;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int c = 0; c < classes; c++) sum += probabilities[i * classes + c];
        if (!(fabs(sum - 1) <= SUM_TOLERANCE))
            return error_set(error, "the probabilities of row %lld sum to %g, not 1", (long long)i, sum);
    }
    return true;
}

bool metrics_calibration(const double *probabilities, const int32_t *truth, int64_t n, int classes,
                         MetricsCalibration *out, Error *error) {
    *out = (MetricsCalibration){0};
    if (!probabilities_check(probabilities, truth, n, classes, error)) return false;
    for (int64_t i = 0; i < n; i++) {
        const double *row = probabilities + i * classes;
        int predicted = largest(row, classes), bin = 0;
        while ((bin + 1.0) / METRICS_BINS < row[predicted]) bin++;
        out->bins[bin].rows++;
        out->bins[bin].confidence += row[predicted];
        out->bins[bin].accuracy += predicted == truth[i];
        out->nll -= log(row[truth[i]]);
        for (int c = 0; c < classes; c++) {
            double off = row[c] - (c == truth[i]);
            out->brier += off * off;
        }
    }
    for (int b = 0; b < METRICS_BINS; b++) {
        MetricsBin *bin = &out->bins[b];
        out->ece += fabs(bin->accuracy - bin->confidence) / (double)n; /* still sums */
        bin->accuracy = ratio(bin->accuracy, (double)bin->rows);
        bin->confidence = ratio(bin->confidence, (double)bin->rows);
    }
    out->brier /= (double)n;
    out->nll /= (double)n;
    return true;
}

typedef struct {
    double confidence;
    bool right;
} Decision;

static int by_confidence(const void *left, const void *right) {
    double a = ((const Decision *)left)->confidence, b = ((const Decision *)right)->confidence;
    return (a > b) - (a < b);
}

bool metrics_adaptive_ece(const double *probabilities, const int32_t *truth, int64_t n, int classes, double *ece,
                          Error *error) {
    if (!probabilities_check(probabilities, truth, n, classes, error)) return false;
    OWNED Decision *rows = xmalloc((size_t)n * sizeof *rows);
    for (int64_t i = 0; i < n; i++) {
        int predicted = largest(probabilities + i * classes, classes);
        rows[i] = (Decision){probabilities[i * classes + predicted], predicted == truth[i]};
    }
    qsort(rows, (size_t)n, sizeof *rows, by_confidence);
    *ece = 0;
    for (int64_t b = 1, i = 0; b <= METRICS_BINS; b++) {
        double gap = 0; /* right rows - sum of confidences */
        for (; i < n && (i < n * b / METRICS_BINS || (i && rows[i].confidence == rows[i - 1].confidence)); i++)
            gap += rows[i].right - rows[i].confidence;
        *ece += fabs(gap) / (double)n;
    }
    return true;
}

/* With a = 1 / T, the NLL of a row is ln sum_c exp(a z_c) - a z_y: convex in a, with derivative E[z] - z_y, E by the
 * softmax at T. So -(E[z] - z_y), summed over rows, rises with T, and has the sign of the NLL's slope in ln T. */
static double slope_in_temperature(const double *logits, const int32_t *truth, int64_t n, int classes,
                                   double temperature) {
    double slope = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *row = logits + i * classes;
        double top = row[largest(row, classes)], weights = 0, moment = 0;
        for (int c = 0; c < classes; c++) {
            double weight = exp((row[c] - top) / temperature);
            weights += weight;
            moment += weight * (row[c] - top);
        }
        slope += row[truth[i]] - top - moment / weights;
    }
    return slope;
}

/* Halves an interval of s = ln T around the change of sign: 64 times, to the last bit, whatever the slope's shape is.
 */
bool metrics_fit_temperature(const double *logits, const int32_t *truth, int64_t n, int classes, double *temperature,
                             Error *error) {
    double low = -128, high = 128; /* beyond the range of float, which bounds logits */
    if (!labels_check("label", truth, n, classes, error) || !logits_check(logits, n, classes, error)) return false;
    if (!(slope_in_temperature(logits, truth, n, classes, exp(low)) < 0))
        return error_set(error, "all %lld rows are right, so that no temperature is low enough", (long long)n);
    if (!(slope_in_temperature(logits, truth, n, classes, exp(high)) > 0))
        return error_set(error, "the logits do not favour the labels, so that no temperature is high enough: equal "
                                "probabilities of all classes would be better");
    for (int i = 0; i < 64; i++) {
        double middle = (low + high) / 2;
        if (slope_in_temperature(logits, truth, n, classes, exp(middle)) < 0)
            low = middle;
        else
            high = middle;
    }
    *temperature = exp((low + high) / 2);
    return true;
}

/* ---- weights ---- */

void metrics_class_weights(const int64_t *counts, int classes, MetricsWeights rule, double *weights) {
    double rows = 0, inverses = 0;
    int present = 0;
    for (int c = 0; c < classes; c++) {
        rows += (double)counts[c];
        if (counts[c]) inverses += 1 / (double)counts[c];
        present += counts[c] > 0;
    }
    double scale = rule == METRICS_WEIGHTS_BALANCED ? rows / present : present / inverses;
    for (int c = 0; c < classes; c++) weights[c] = counts[c] ? scale / (double)counts[c] : 1;
}
