/* Thresholds. */
#include "report/threshold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/metrics.h"
#include "report/statistics.h"

static const double LEANING = 0.1; /* kmeans: how far the shares move the threshold */

const char *const THRESHOLD_RULE_NAMES[THRESHOLD_RULES] = {"0.5", "f1", "balanced", "accuracy", "kmeans"};

/* ---- on labels ---- */

/* Returns the score of a threshold just below this point. */
static double reached(ThresholdRule rule, const MetricsPoint *point, double positives, double negatives) {
    double hits = (double)point->true_positives, alarms = (double)point->false_positives;
    return rule == THRESHOLD_F1         ? 2 * hits / (hits + alarms + positives)
           : rule == THRESHOLD_ACCURACY ? (hits + negatives - alarms) / (positives + negatives)
                                        : (hits / positives + (negatives - alarms) / negatives) / 2;
}

/* Tries a threshold between every two neighbouring probabilities and takes the lowest of the best: steps of equal width
 * would not separate rows of a network that is sure of all of them. */
static bool choose_best(const double *p, const int32_t *labels, int64_t n, Threshold *t, Error *error) {
    OWNED MetricsPoint *points = xmalloc((size_t)n * sizeof *points);
    int64_t count, best = 0;
    bool ok = metrics_curve(p, labels, n, points, &count, error);
    t->reached = -1;
    for (int64_t i = 0; i < count && ok; i++) {
        const MetricsPoint *all = &points[count - 1];
        double value = reached(t->rule, &points[i], (double)all->true_positives, (double)all->false_positives);
        if (value >= t->reached) t->reached = value, best = i;
    }
    if (ok) {
        double above = points[best].threshold, below = best + 1 < count ? points[best + 1].threshold : 0;
        t->value = (above + below) / 2;
        if (!(t->value < above)) t->value = nextafter(above, -1); /* neighbours without a number between, or 0 */
    }
    return ok;
}

/* ---- the reference's ---- */

/* Finds the two best clusters of sorted values, which are those below and above some gap: the sum of squares within
 * them is least where that between them, sum^2 / k + sum^2 / (n - k) for values about their mean, is greatest. */
static bool two_means(const double *sorted, int64_t n, Threshold *t, Error *error) {
    double mean = 0, sum = 0, most = -1, low_sum = 0;
    int64_t low = 0;
    for (int64_t i = 0; i < n; i++) mean += sorted[i] / (double)n;
    for (int64_t k = 1; k < n; k++) {
        sum += sorted[k - 1] - mean;
        double between = sum * sum / (double)k + sum * sum / (double)(n - k);
        if (sorted[k] > sorted[k - 1] && between > most) most = between, low = k, low_sum = sum;
    }
    if (!low) return error_set(error, "all %lld probabilities are the same: they have no two clusters", (long long)n);
    t->low = mean + low_sum / (double)low;
    t->high = mean - low_sum / (double)(n - low);
    t->share = (double)(n - low) / (double)n;
    return true;
}

static double logit(double share) { return log(share / (1 - share)); }

static bool choose_kmeans(const double *p, int64_t n, double training_share, Threshold *t, Error *error) {
    if (!(training_share > 0 && training_share < 1))
        return error_set(error, "the share of positives in training is %g, not between 0 and 1", training_share);
    OWNED double *sorted = xmalloc((size_t)n * sizeof *sorted);
    memcpy(sorted, p, (size_t)n * sizeof *sorted);
    statistics_sort(sorted, n);
    bool ok = two_means(sorted, n, t, error);
    if (!ok) return false;
    t->training_share = training_share;
    t->base = (t->low + t->high) / 2;
    t->adjustment = LEANING * (logit(t->share) - logit(training_share));
    t->value = t->base - t->adjustment;
    return true;
}

/* ---- all ---- */

bool threshold_choose(ThresholdRule rule, const double *p, const int32_t *labels, int64_t n, double training_share,
                      Threshold *t, Error *error) {
    *t = (Threshold){.rule = rule, .value = 0.5, .reached = NAN};
    if (rule == THRESHOLD_HALF) return true;
    if (n < 1) return error_set(error, "there are no validation rows to choose a threshold on");
    for (int64_t i = 0; i < n; i++)
        if (!(p[i] >= 0 && p[i] <= 1))
            return error_set(error, "the probability of validation row %lld is %g", (long long)i, p[i]);
    return rule == THRESHOLD_KMEANS ? choose_kmeans(p, n, training_share, t, error)
                                    : choose_best(p, labels, n, t, error);
}

char *threshold_text(const Threshold *t, const char *training_positives) {
    switch (t->rule) {
    case THRESHOLD_F1:
    case THRESHOLD_BALANCED:
    case THRESHOLD_ACCURACY:
        return xformat("%.4f, where validation has its best %s, %.4f", t->value,
                       t->rule == THRESHOLD_F1         ? "F1"
                       : t->rule == THRESHOLD_ACCURACY ? "accuracy"
                                                       : "balanced accuracy",
                       t->reached);
    case THRESHOLD_KMEANS:
        return xformat("%.4f: the middle %.4f of validation's centres %.4f and %.4f, less 0.1 (logit %.4f - logit "
                       "%.4f) = %.4f of the share above it and that of %s%s",
                       t->value, t->base, t->low, t->high, t->share, t->training_share, t->adjustment,
                       training_positives,
                       t->value >= 0 && t->value < 1 ? "" : "; no probability is on its other side");
    default:
        return xformat("%.4f", t->value);
    }
}

int32_t threshold_decide(double threshold, const double *p, int classes) {
    int32_t best = 0;
    if (!isnan(threshold)) return p[1] > threshold;
    for (int32_t c = 1; c < classes; c++)
        if (p[c] > p[best]) best = c;
    return best;
}
