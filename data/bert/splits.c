/* The texts of a class are taken group by group, the largest first and equal ones in random order. Each group goes to
 * the part that has the least of what it should have. The single texts come last and even out what groups have left. */
#include "data/bert/splits.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "kernels/philox.h"

const char *const BERT_SPLIT_NAMES[BERT_SPLITS] = {"train", "validation", "test"};

enum { PURPOSE_SPLITS = PURPOSE_SHUFFLE | 3 << 8, PURPOSE_FOLDS = PURPOSE_SHUFFLE | 4 << 8 };

typedef struct {
    int32_t class, first; /* text of the group */
    int64_t size, rank;
} Group;

static int by_class_and_size(const void *a, const void *b) {
    const Group *x = a, *y = b;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Returns the groups in the order in which they are assigned, and their number; free(). */
static Group *ordered_groups(const SplitRows *rows, uint64_t seed, uint32_t purpose, int64_t *n) {
    size_t count = (size_t)rows->n;
    Group *groups = xcalloc(count, sizeof *groups);
    OWNED int32_t *order = xmalloc(count * sizeof *order);
    *n = 0;
    for (int64_t i = 0; i < rows->n; i++) order[i] = (int32_t)i;
    philox_shuffle(seed, purpose, 0, order, rows->n);
    for (int64_t rank = 0; rank < rows->n; rank++) {
        int32_t i = order[rank], first = rows->groups ? rows->groups[i] : i;
        groups[first].size++;
        if (first == i) {
            groups[first].first = i;
            groups[first].class = rows->labels ? rows->labels[i] : 0;
            groups[first].rank = rank;
        }
    }
    for (int64_t i = 0; i < rows->n; i++)
        if (groups[i].size) groups[(*n)++] = groups[i];
    qsort(groups, (size_t)*n, sizeof *groups, by_class_and_size);
    return groups;
}

/* The parts, and how many texts each still should get: of the class at hand, and of all classes so far. */
typedef struct {
    int n;
    const double *shares;
    const char *const *names; /* NULL: folds */
    double *class, *all;
    int64_t *groups; /* of the class at hand in each part */
} Parts;

/* Returns the part that lacks most; of parts that lack the same of the class, the one that lacks most of all classes.
 */
static int neediest(const Parts *parts) {
    static const double same = 1e-6;
    int best = 0;
    for (int p = 1; p < parts->n; p++) {
        double more = parts->class[p] - parts->class[best];
        if (more > same || (more > -same && parts->all[p] > parts->all[best] + same)) best = p;
    }
    return best;
}

static bool refuse(const SplitRows *rows, const Parts *parts, int32_t class, int64_t n, int empty, Error *error) {
    char number[16], part[24];
    int filled = 0;
    for (int p = 0; p < parts->n; p++) filled += parts->shares[p] > 0;
    snprintf(number, sizeof number, "%d", class);
    snprintf(part, sizeof part, "fold %d", empty + 1);
    OWNED char *whose = rows->labels ? xformat("class \"%s\" has", rows->names ? rows->names[class] : number)
                                     : xstrdup("the data have");
    error_set(error, "%s %lld different text%s for %d parts; none is left for %s", whose, (long long)n,
              format_plural(n), filled, parts->names ? parts->names[empty] : part);
    return false;
}

/* Assigns the groups of one class. */
static bool assign_class(const SplitRows *rows, const Group *groups, int64_t n, Parts *parts, int32_t *of_first,
                         Error *error) {
    int64_t texts = 0;
    for (int64_t g = 0; g < n; g++) texts += groups[g].size;
    for (int p = 0; p < parts->n; p++) {
        parts->class[p] = parts->shares[p] * (double)texts;
        parts->all[p] += parts->class[p];
        parts->groups[p] = 0;
    }
    for (int64_t g = 0; g < n; g++) {
        int p = neediest(parts);
        of_first[groups[g].first] = p;
        parts->class[p] -= (double)groups[g].size;
        parts->all[p] -= (double)groups[g].size;
        parts->groups[p]++;
    }
    for (int p = 0; p < parts->n; p++)
        if (parts->shares[p] > 0 && !parts->groups[p]) return refuse(rows, parts, groups[0].class, n, p, error);
    return true;
}

static bool divide(const SplitRows *rows, Parts parts, uint64_t seed, uint32_t purpose, int32_t *out, Error *error) {
    int64_t n;
    OWNED Group *groups = ordered_groups(rows, seed, purpose, &n);
    OWNED double *lacking = xcalloc(2 * (size_t)parts.n, sizeof *lacking);
    OWNED int64_t *counts = xcalloc((size_t)parts.n, sizeof *counts);
    parts.class = lacking, parts.all = lacking + parts.n, parts.groups = counts;
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && groups[end].class == groups[begin].class;) end++;
        if (!assign_class(rows, groups + begin, end - begin, &parts, out, error)) return false;
    }
    for (int64_t i = 0; rows->groups && i < rows->n; i++) out[i] = out[rows->groups[i]];
    return true;
}

bool splits_divide(const SplitRows *rows, const double *shares, uint64_t seed, int32_t *split, Error *error) {
    return divide(rows, (Parts){.n = BERT_SPLITS, .shares = shares, .names = BERT_SPLIT_NAMES}, seed, PURPOSE_SPLITS,
                  split, error);
}

bool splits_fold(const SplitRows *rows, int k, uint64_t seed, int32_t *fold, Error *error) {
    OWNED double *shares = xmalloc((size_t)k * sizeof *shares);
    for (int i = 0; i < k; i++) shares[i] = 1.0 / k;
    return divide(rows, (Parts){.n = k, .shares = shares}, seed, PURPOSE_FOLDS, fold, error);
}

int64_t splits_list(const int32_t *split, int64_t n, int32_t which, int32_t **list) {
    int64_t count = 0;
    *list = xmalloc((size_t)n * sizeof **list);
    for (int64_t i = 0; i < n; i++)
        if (split[i] == which) (*list)[count++] = (int32_t)i;
    return count;
}
