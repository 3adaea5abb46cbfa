#include "report/chance.h"

#include <math.h>
#include <stdlib.h>

static const double MARGIN = 0.1; /* of the way from chance to 1: less is of no use, however sure */
/* The same margin for an area: two normal distributions of one deviation whose best threshold has a balanced accuracy
 * of Phi(d / 2) = 0.55 have an area of Phi(d / sqrt(2)) = 0.5705. */
static const double AREA_MARGIN = 0.0705;

typedef struct {
    int64_t rows;
    int present; /* classes with rows */
    double balanced, level, deviation;
    double share; /* of the most frequent prediction, */
    int common;   /* which is this class */
} Decisions;

static Decisions decisions_of(const int64_t *confusion, int classes) {
    Decisions d = {.rows = 0};
    double variance = 0;
    for (int64_t k = 0; k < (int64_t)classes * classes; k++) d.rows += confusion[k];
    for (int c = 0; c < classes; c++) {
        int64_t support = 0, predicted = 0;
        for (int other = 0; other < classes; other++) {
            support += confusion[(int64_t)c * classes + other];
            predicted += confusion[(int64_t)other * classes + c];
        }
        double share = (double)predicted / (double)d.rows;
        if (share > d.share) d.share = share, d.common = c;
        if (!support) continue;
        d.present++;
        d.balanced += (double)confusion[(int64_t)c * classes + c] / (double)support;
        d.level += share;
        variance += share * (1 - share) / (double)support;
    }
    d.balanced /= d.present;
    d.level /= d.present;
    d.deviation = sqrt(variance) / d.present;
    return d;
}

/* Returns whether the area below the ROC curve tells two classes apart. By chance its deviation is that of Mann and
 * Whitney's U, divided by n1 n2: sqrt((n1 + n2 + 1) / (12 n1 n2)) for n1 and n2 rows (Ann. Math. Stat. 18, 1947). */
static bool ranks(const int64_t *confusion, double area) {
    double negatives = (double)(confusion[0] + confusion[1]), positives = (double)(confusion[2] + confusion[3]);
    double deviation = sqrt((negatives + positives + 1) / (12 * negatives * positives));
    return area - 0.5 >= fmax(AREA_MARGIN, 2 * deviation);
}

char *chance_text(const int64_t *confusion, int classes, const char *const *names, double roc_auc, const char *cause) {
    Decisions d = decisions_of(confusion, classes);
    if (d.present < 2 || d.balanced - d.level >= fmax(MARGIN * (1 - 1.0 / d.present), 2 * d.deviation)) return NULL;
    if (classes == 2 && !isnan(roc_auc) && ranks(confusion, roc_auc)) return NULL;
    return xformat(
        "at chance: balanced accuracy %.4f of %lld rows, where decisions without a look at them have %.4f +- "
        "%.4f; %.0f %% of the predictions are \"%s\"%s%s",
        d.balanced, (long long)d.rows, d.level, d.deviation, 100 * d.share, names[d.common],
        cause ? ". Likely cause: " : "", cause ? cause : "");
}

char *chance_of(const Evaluation *e, const char *cause) {
    OWNED const char **names = xmalloc((size_t)e->classes * sizeof *names);
    for (int c = 0; c < e->classes; c++) names[c] = e->each[c].name;
    return chance_text(e->confusion, e->classes, names, e->roc_auc, cause);
}
