/* Whether a classifier decides better than one that does not look at its rows. */
#pragma once

#include "report/evaluation.h"

/* Says that decisions are at chance: "at chance: ..."; free(). NULL: they are better, or the rows are of one class.
 *
 * Without a look at the rows, decisions whose shares are q[c] have a balanced accuracy of sum q[c] / K, and a deviation
 * of sqrt(sum q[c] (1 - q[c]) / rows[c]) / K over the K classes. At chance is less than two deviations, or a tenth of
 * the way to 1, above it. Two classes are told apart, too, if the area below the ROC curve is at least two deviations
 * by chance, sqrt((n1 + n2 + 1) / (12 n1 n2)) for n1 and n2 rows, and 0.0705 above 1 / 2, as an area is whose best
 * threshold reaches that tenth of the way: then the threshold is at fault. confusion[classes, classes], truth down.
 * roc_auc: NaN if it is not known. cause: the likely one, which is added; or NULL. */
char *chance_text(const int64_t *confusion, int classes, const char *const *names, double roc_auc, const char *cause);
/* The same of an evaluation of these predictions, with their likely cause. */
char *chance_of(const Evaluation *evaluation, const char *cause);
