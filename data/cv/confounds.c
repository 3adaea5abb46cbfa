#include "data/cv/confounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

enum { RESAMPLES = 1000 };

/* ---- resampling ---- */

/* Groups of cells that are resampled together, listed donor by donor. */
typedef struct {
    const int32_t *group_of; /* [cells] */
    int32_t *own;            /* the memory of group_of if cells are the groups; otherwise NULL */
    int32_t *groups;         /* [n] the first donor's, the second's ... */
    int32_t *first;          /* [donors + 1] where each donor's groups begin */
    int32_t n;
} Groups;

/* Makes a group of each field of view; of each cell if no donor has more than one field. */
static Groups open_groups(const CvCells *c) {
    bool fields = c->n_fields > c->n_donors;
    Groups g = {.n = fields ? c->n_fields : (int32_t)c->n};
    g.own = fields ? NULL : xmalloc((size_t)c->n * sizeof *g.own);
    for (int32_t i = 0; i < c->n && !fields; i++) g.own[i] = i;
    g.group_of = fields ? c->fields : g.own;
    OWNED int32_t *donor = xcalloc((size_t)g.n, sizeof *donor);
    OWNED int32_t *at = xmalloc((size_t)c->n_donors * sizeof *at);
    g.groups = xcalloc((size_t)g.n, sizeof *g.groups);
    g.first = xcalloc((size_t)c->n_donors + 1, sizeof *g.first);
    for (int64_t i = 0; i < c->n; i++) donor[g.group_of[i]] = c->donors[i];
    for (int32_t i = 0; i < g.n; i++) g.first[donor[i] + 1]++;
    for (int d = 0; d < c->n_donors; d++) g.first[d + 1] += g.first[d];
    memcpy(at, g.first, (size_t)c->n_donors * sizeof *at);
    for (int32_t i = 0; i < g.n; i++) g.groups[at[donor[i]]++] = i;
    return g;
}

static void free_groups(Groups *g) { FREE(g->own, g->groups, g->first); }

/* Draws, for each donor, as many of its groups as it has, with replacement; times[group]: how often it was drawn. */
static void resample(const Groups *g, int n_donors, uint64_t seed, uint32_t number, int32_t *times) {
    memset(times, 0, (size_t)g->n * sizeof *times);
    for (int d = 0; d < n_donors; d++)
        for (int32_t i = g->first[d]; i < g->first[d + 1]; i++) {
            uint64_t bits = philox_bits(seed, PURPOSE_BOOTSTRAP, number, (uint64_t)i);
            times[g->groups[g->first[d] + (int32_t)(bits * (uint64_t)(g->first[d + 1] - g->first[d]) >> 32)]]++;
        }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Computes the middle 95 % of n values without the NaN ones, of resamples that had no pairs. */
static void interval(double *values, int n, double *low, double *high) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(values[i])) values[kept++] = values[i];
    qsort(values, (size_t)kept, sizeof *values, ascending);
    *low = kept ? values[(int)(0.025 * (kept - 1))] : (double)NAN;
    *high = kept ? values[(int)ceil(0.975 * (kept - 1))] : (double)NAN;
}

/* ---- effects ---- */

typedef struct {
    double value;
    int32_t cell;
} Ranked;

static int compare_ranked(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    return x->value != y->value ? (x->value < y->value ? -1 : 1) : (x->cell > y->cell) - (x->cell < y->cell);
}

/* Computes the shares of CvEffect for cells in the order of their values, each weighted by how often its group was
 * drawn. work: [3, donors]. */
static void count_pairs(const CvCells *c, const Ranked *order, const int32_t *group_of, const int32_t *times,
                        double *work, double *within, double *between) {
    double *below = work, *equal = work + c->n_donors, *actives = work + 2 * c->n_donors; /* weights, of each donor */
    double all_below = 0, all_actives = 0, wins = 0, all_wins = 0, pairs = 0;
    memset(work, 0, (size_t)(3 * c->n_donors) * sizeof *work);
    for (int64_t from = 0, to; from < c->n; from = to) {
        double all_equal = 0;
        for (to = from; to < c->n && order[to].value == order[from].value; to++) {
            int32_t cell = order[to].cell;
            double w = c->labels[cell] ? 0 : times[group_of[cell]];
            equal[c->donors[cell]] += w;
            all_equal += w;
        }
        for (int64_t i = from; i < to; i++) {
            int32_t cell = order[i].cell, d = c->donors[cell];
            double w = c->labels[cell] ? times[group_of[cell]] : 0;
            wins += w * (below[d] + equal[d] / 2);
            all_wins += w * (all_below + all_equal / 2);
            actives[d] += w;
            all_actives += w;
        }
        for (int64_t i = from; i < to; i++) {
            int32_t d = c->donors[order[i].cell];
            below[d] += equal[d];
            equal[d] = 0;
        }
        all_below += all_equal;
    }
    for (int d = 0; d < c->n_donors; d++) pairs += actives[d] * below[d];
    double others = all_actives * all_below - pairs;
    *within = pairs > 0 ? wins / pairs : (double)NAN;
    *between = others > 0 ? (all_wins - wins) / others : (double)NAN;
}

CvEffect cv_confounds_effect(const CvCells *c, const double *values, uint64_t seed) {
    CvEffect e;
    Groups g = open_groups(c);
    OWNED Ranked *order = xmalloc((size_t)c->n * sizeof *order);
    OWNED double *work = xmalloc((size_t)(3 * c->n_donors) * sizeof *work);
    double within[RESAMPLES], between[RESAMPLES];
    OWNED int32_t *times = xmalloc((size_t)g.n * sizeof *times);
    for (int32_t i = 0; i < c->n; i++) order[i] = (Ranked){values[i], i};
    qsort(order, (size_t)c->n, sizeof *order, compare_ranked);
    for (int32_t i = 0; i < g.n; i++) times[i] = 1;
    count_pairs(c, order, g.group_of, times, work, &e.within, &e.between);
    for (uint32_t r = 0; r < RESAMPLES; r++) {
        resample(&g, c->n_donors, seed, r, times);
        count_pairs(c, order, g.group_of, times, work, &within[r], &between[r]);
    }
    interval(within, RESAMPLES, &e.low[0], &e.high[0]);
    interval(between, RESAMPLES, &e.low[1], &e.high[1]);
    free_groups(&g);
    return e;
}

/* Returns chi^2 / n for the table of donors and classes, without what chance adds to chi^2 on average, a unit for each
 * donor but one. Bergsma, "A bias-correction for Cramer's V and Tschuprow's T" (2013), corrects the same. NaN: all
 * cells are of one class. work: [donors, 2]. */
static double association(const CvCells *c, const int32_t *group_of, const int32_t *times, double *work) {
    double n = 0, active = 0, v = 0;
    memset(work, 0, (size_t)(2 * c->n_donors) * sizeof *work);
    for (int64_t i = 0; i < c->n; i++) work[2 * c->donors[i] + c->labels[i]] += times[group_of[i]];
    for (int d = 0; d < c->n_donors; d++) {
        n += work[2 * d] + work[2 * d + 1];
        active += work[2 * d + 1];
    }
    double share = active / n;
    int donors = 0;
    if (!(share > 0 && share < 1)) return (double)NAN;
    for (int d = 0; d < c->n_donors; d++) {
        double own = work[2 * d] + work[2 * d + 1];
        donors += own > 0;
        if (own > 0) v += pow(work[2 * d + 1] - own * share, 2) / (own * share * (1 - share));
    }
    return (v - (donors - 1)) / n;
}

/* Drawing groups adds chance, too: less, the less the groups of a donor differ. How much is the difference between the
 * mean over resamples and the value of all cells, which is taken away, so that the interval lies around the value. */
CvAssociation cv_confounds_donor(const CvCells *c, uint64_t seed) {
    CvAssociation a;
    Groups g = open_groups(c);
    OWNED double *work = xmalloc((size_t)(2 * c->n_donors) * sizeof *work);
    double values[RESAMPLES];
    OWNED int32_t *times = xmalloc((size_t)g.n * sizeof *times);
    for (int32_t i = 0; i < g.n; i++) times[i] = 1;
    double square = association(c, g.group_of, times, work), sum = 0, n = 0;
    for (uint32_t r = 0; r < RESAMPLES; r++) {
        resample(&g, c->n_donors, seed, r, times);
        values[r] = association(c, g.group_of, times, work);
        sum += isnan(values[r]) ? 0 : values[r];
        n += !isnan(values[r]);
    }
    for (int r = 0; r < RESAMPLES; r++)
        if (!isnan(values[r])) values[r] = sqrt(fmax(0, values[r] - (sum / n - square)));
    a.v = isnan(square) ? square : sqrt(fmax(0, square));
    interval(values, RESAMPLES, &a.low, &a.high);
    free_groups(&g);
    return a;
}

double cv_confounds_correlation(const CvCells *c, const double *values) {
    double sums[3] = {0}, products[3] = {0}, n = 0;
    OWNED double *own = xcalloc((size_t)(3 * c->n_donors), sizeof *own); /* cells, values, actives of each donor */
    for (int64_t i = 0; i < c->n; i++) {
        own[3 * c->donors[i]]++;
        own[3 * c->donors[i] + 1] += values[i];
        own[3 * c->donors[i] + 2] += c->labels[i];
    }
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < c->n_donors; d++) {
            double cells = own[3 * d], x = own[3 * d + 1] / cells, y = own[3 * d + 2] / cells;
            if (!(cells > 0)) continue;
            n += !pass;
            sums[0] += pass ? 0 : x;
            sums[1] += pass ? 0 : y;
            products[0] += pass ? (x - sums[0] / n) * (x - sums[0] / n) : 0;
            products[1] += pass ? (y - sums[1] / n) * (y - sums[1] / n) : 0;
            products[2] += pass ? (x - sums[0] / n) * (y - sums[1] / n) : 0;
        }
    return products[2] / sqrt(products[0] * products[1]);
}
