#include "data/flim_doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

enum { RESAMPLES = 1000, SPAN = 5 }; /* SPAN: bins that the reference shifts by when it augments */
static const double STRONG = 0.1;    /* a warning: so far from 0.5, and Cramer's V */

FlimColumns flim_cells_columns(const FlimCells *c) {
    return (FlimColumns){c->n, c->labels, c->donors, c->fields, c->entropy, c->n_donors, c->donor_names};
}

/* ---- resampling ---- */

/* Groups of cells that are drawn together, donor by donor. */
typedef struct {
    const int32_t *group_of; /* [cells] */
    int32_t *own;            /* what it points to if it is not the cells' */
    int32_t *groups;         /* [n] of the first donor, of the second ... */
    int32_t *first;          /* [donors + 1] */
    int32_t n;
} Groups;

/* Fields of view; cells if no donor has more than one. */
static Groups groups_of(const FlimCells *c) {
    bool fields = c->n_fields > c->n_donors;
    Groups g = {.n = fields ? c->n_fields : (int32_t)c->n};
    g.own = fields ? NULL : xmalloc((size_t)c->n * sizeof *g.own);
    for (int32_t i = 0; i < c->n && !fields; i++) g.own[i] = i;
    g.group_of = fields ? c->fields : g.own;
    int32_t *donor = xcalloc((size_t)g.n, sizeof *donor), *at = xmalloc((size_t)c->n_donors * sizeof *at);
    g.groups = xcalloc((size_t)g.n, sizeof *g.groups);
    g.first = xcalloc((size_t)c->n_donors + 1, sizeof *g.first);
    for (int64_t i = 0; i < c->n; i++) donor[g.group_of[i]] = c->donors[i];
    for (int32_t i = 0; i < g.n; i++) g.first[donor[i] + 1]++;
    for (int d = 0; d < c->n_donors; d++) g.first[d + 1] += g.first[d];
    memcpy(at, g.first, (size_t)c->n_donors * sizeof *at);
    for (int32_t i = 0; i < g.n; i++) g.groups[at[donor[i]]++] = i;
    free(donor);
    free(at);
    return g;
}

static void free_groups(Groups *g) {
    free(g->own);
    free(g->groups);
    free(g->first);
}

/* As many groups of each donor as it has, drawn with replacement: how often each is there. */
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

/* The middle 95 % of n values, NaN left out (there were no pairs). */
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

/* Of cells in the order of their values, each as often as its group is there. work is [3, donors]. */
static void count_pairs(const FlimCells *c, const Ranked *order, const int32_t *group_of, const int32_t *times,
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

FlimEffect flim_effect(const FlimCells *c, const double *values, uint64_t seed) {
    FlimEffect e;
    Groups g = groups_of(c);
    Ranked *order = xmalloc((size_t)c->n * sizeof *order);
    double *work = xmalloc((size_t)(3 * c->n_donors) * sizeof *work), within[RESAMPLES], between[RESAMPLES];
    int32_t *times = xmalloc((size_t)g.n * sizeof *times);
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
    free(times);
    free(work);
    free(order);
    free_groups(&g);
    return e;
}

/* sqrt(chi^2 / n) of the table of donors and classes. */
static double cramer(const FlimCells *c, const int32_t *group_of, const int32_t *times, double *work) {
    double n = 0, active = 0, v = 0;
    memset(work, 0, (size_t)(2 * c->n_donors) * sizeof *work);
    for (int64_t i = 0; i < c->n; i++) work[2 * c->donors[i] + c->labels[i]] += times[group_of[i]];
    for (int d = 0; d < c->n_donors; d++) {
        n += work[2 * d] + work[2 * d + 1];
        active += work[2 * d + 1];
    }
    double share = active / n;
    if (!(share > 0 && share < 1)) return (double)NAN;
    for (int d = 0; d < c->n_donors; d++) {
        double own = work[2 * d] + work[2 * d + 1];
        if (own > 0) v += pow(work[2 * d + 1] - own * share, 2) / (own * share * (1 - share));
    }
    return sqrt(v / n);
}

FlimAssociation flim_donor_effect(const FlimCells *c, uint64_t seed) {
    FlimAssociation a;
    Groups g = groups_of(c);
    double *work = xmalloc((size_t)(2 * c->n_donors) * sizeof *work), values[RESAMPLES];
    int32_t *times = xmalloc((size_t)g.n * sizeof *times);
    for (int32_t i = 0; i < g.n; i++) times[i] = 1;
    a.v = cramer(c, g.group_of, times, work);
    for (uint32_t r = 0; r < RESAMPLES; r++) {
        resample(&g, c->n_donors, seed, r, times);
        values[r] = cramer(c, g.group_of, times, work);
    }
    interval(values, RESAMPLES, &a.low, &a.high);
    free(times);
    free(work);
    free_groups(&g);
    return a;
}

double flim_donor_correlation(const FlimCells *c, const double *values) {
    double sums[3] = {0}, products[3] = {0}, n = 0;
    double *own = xcalloc((size_t)(3 * c->n_donors), sizeof *own); /* cells, values, actives of each donor */
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
    free(own);
    return products[2] / sqrt(products[0] * products[1]);
}

/* ---- the table ---- */

/* Of the cells of a donor and class. */
typedef struct {
    int64_t n;
    double size[2], photons[2], entropy[2]; /* mean, standard deviation */
    int peak;                               /* the median */
} Row;

static void mean_of(const FlimCells *c, int donor, int label, const double *values, double out[2]) {
    double sum = 0, squares = 0, n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < c->n; i++) {
            if (c->donors[i] != donor || c->labels[i] != label) continue;
            n += !pass;
            sum += pass ? 0 : values[i];
            squares += pass ? pow(values[i] - sum / n, 2) : 0;
        }
    out[0] = sum / n;
    out[1] = n > 1 ? sqrt(squares / (n - 1)) : 0;
}

/* label -1: of both classes. -1: there is none. */
static int median_peak(const FlimCells *c, int donor, int label) {
    int64_t *counts = xcalloc((size_t)c->shape.T, sizeof *counts), n = 0, below = 0;
    int median = -1;
    for (int64_t i = 0; i < c->n; i++)
        if (c->donors[i] == donor && (label < 0 || c->labels[i] == label)) {
            counts[c->peaks[i]]++;
            n++;
        }
    while (n && 2 * below < n) below += counts[++median];
    free(counts);
    return median;
}

static Row row_of(const FlimCells *c, int donor, int label, const double *sizes) {
    Row r = {.peak = median_peak(c, donor, label)};
    for (int64_t i = 0; i < c->n; i++) r.n += c->donors[i] == donor && c->labels[i] == label;
    mean_of(c, donor, label, sizes, r.size);
    mean_of(c, donor, label, c->photons, r.photons);
    mean_of(c, donor, label, c->entropy, r.entropy);
    return r;
}

static void print_table(json_t *report, const FlimCells *c, const double *sizes) {
    json_t *donors = json_object();
    printf("[Doctor] %-18s%-10s%7s%16s%20s%6s%15s\n", "donor", "class", "cells", "size (pixels)", "photons", "peak",
           "entropy");
    for (int d = 0; d < c->n_donors; d++) {
        json_t *classes = json_object();
        for (int label = 0; label < FLIM_CLASSES; label++) {
            Row r = row_of(c, d, label, sizes);
            printf("  %-25.60s%-10s%7lld", label ? "" : c->donor_names[d], FLIM_CLASS_NAMES[label], (long long)r.n);
            if (r.n)
                printf("%8.1f +-%6.1f%9.0f +-%8.0f%6d%7.3f +-%6.3f", r.size[0], r.size[1], r.photons[0], r.photons[1],
                       r.peak, r.entropy[0], r.entropy[1]);
            printf("\n");
            json_t *row = json_build("the report on the cells", "{s:I}", "cells", (json_int_t)r.n);
            if (r.n)
                json_object_update_new(row,
                                       json_build("the report on the cells", "{s:[f,f], s:[f,f], s:[f,f], s:i}", "size",
                                                  r.size[0], r.size[1], "photons", r.photons[0], r.photons[1],
                                                  "entropy", r.entropy[0], r.entropy[1], "peak", r.peak));
            json_object_set_new(classes, FLIM_CLASS_NAMES[label], row);
        }
        json_object_set_new_nocheck(donors, c->donor_names[d], classes);
    }
    json_object_set_new(report, "donors", donors);
}

/* ---- warnings ---- */

static bool strong(double effect, double low, double high) {
    return fabs(effect - 0.5) >= STRONG && (low > 0.5 || high < 0.5);
}

/* Of one number, within donors and between them; returns how many are strong. */
static int tell_effect(json_t *report, const FlimCells *c, const char *what, const char *more, const double *values,
                       uint64_t seed) {
    FlimEffect e = flim_effect(c, values, seed);
    const double effects[2] = {e.within, e.between};
    static const char *const places[2] = {"within", "between"};
    int warnings = 0;
    json_t *entry = json_object();
    for (int k = 0; k < 2; k++) {
        json_object_set_new(entry, places[k],
                            json_build("the report on the cells", "[o,o,o]", real_or_null(effects[k]),
                                       real_or_null(e.low[k]), real_or_null(e.high[k])));
        if (isnan(effects[k])) continue;
        bool bad = strong(effects[k], e.low[k], e.high[k]);
        printf("[Doctor] %s%s alone tells classes apart %s donors: in %.1f %% of pairs the active cell is %s "
               "(%.1f to %.1f)\n",
               bad ? "warning: " : "", what, places[k], 100 * effects[k], more, 100 * e.low[k], 100 * e.high[k]);
        warnings += bad;
    }
    double r = flim_donor_correlation(c, values);
    json_object_set_new(entry, "donor_correlation", real_or_null(r));
    json_object_set_new(report, what, entry);
    return warnings;
}

static double share_of(const FlimCells *c, int donor) {
    double n = 0, active = 0;
    for (int64_t i = 0; i < c->n; i++) {
        n += c->donors[i] == donor;
        active += c->donors[i] == donor && c->labels[i];
    }
    return active / n;
}

static int tell_donors(json_t *report, const FlimCells *c, uint64_t seed) {
    FlimAssociation a = flim_donor_effect(c, seed);
    int least = 0, most = 0;
    for (int d = 1; d < c->n_donors; d++) {
        if (share_of(c, d) < share_of(c, least)) least = d;
        if (share_of(c, d) > share_of(c, most)) most = d;
    }
    bool bad = a.v >= STRONG && a.low >= STRONG;
    printf("[Doctor] %sthe donor tells the class: active are %.1f %% (%s) to %.1f %% (%s) of a donor's cells, V = %.2f "
           "(%.2f to %.2f)\n",
           bad ? "warning: " : "", 100 * share_of(c, least), c->donor_names[least], 100 * share_of(c, most),
           c->donor_names[most], a.v, a.low, a.high);
    json_object_set_new(
        report, "donor",
        json_build("the report on the cells", "[o,o,o]", real_or_null(a.v), real_or_null(a.low), real_or_null(a.high)));
    return bad;
}

static int tell_peaks(const FlimCells *c) {
    int least = 0, most = 0;
    for (int d = 1; d < c->n_donors; d++) {
        if (median_peak(c, d, -1) < median_peak(c, least, -1)) least = d;
        if (median_peak(c, d, -1) > median_peak(c, most, -1)) most = d;
    }
    int low = median_peak(c, least, -1), high = median_peak(c, most, -1);
    bool bad = high - low > 2 * SPAN;
    if (bad)
        printf("[Doctor] warning: decays peak at bin %d (%s) to %d (%s), which tells donors apart: shifts of +-%d bins "
               "do not bridge it\n",
               low, c->donor_names[least], high, c->donor_names[most], SPAN);
    return bad;
}

static void tell_copies(json_t *report, const FlimCells *c) {
    int64_t copies = 0, donors = 0, labels = 0, first = -1;
    for (int64_t i = 0; i < c->n; i++) {
        int32_t of = c->same_as[i];
        bool other = of != i && (c->donors[of] != c->donors[i] || c->labels[of] != c->labels[i]);
        copies += of != i;
        donors += c->donors[of] != c->donors[i];
        labels += c->labels[of] != c->labels[i];
        if (other && first < 0) first = i;
    }
    json_object_set_new(report, "copies",
                        json_build("the report on the cells", "{s:I, s:I, s:I}", "cells", (json_int_t)copies,
                                   "of_other_donors", (json_int_t)donors, "of_the_other_class", (json_int_t)labels));
    if (first >= 0)
        printf(
            "[Doctor] warning: %lld cells are copies of another donor's, %lld of the other class's; the first is %s, "
            "as %s\n",
            (long long)donors, (long long)labels, c->file_names[first], c->file_names[c->same_as[first]]);
}

int flim_doctor_cells(json_t *report, const FlimCells *c, uint64_t seed) {
    double *sizes = xmalloc((size_t)c->n * sizeof *sizes);
    json_t *confounds = json_object();
    for (int64_t i = 0; i < c->n; i++) sizes[i] = c->sizes[i];
    print_table(report, c, sizes);
    int warnings = tell_effect(confounds, c, "size", "larger", sizes, seed) +
                   tell_effect(confounds, c, "brightness", "brighter", c->photons, seed) +
                   tell_donors(confounds, c, seed) + tell_peaks(c);
    json_object_set_new(report, "confounds", confounds);
    tell_copies(report, c);
    free(sizes);
    return warnings;
}

/* ---- the filter ---- */

void flim_doctor_filter(json_t *report, const char *name, const FlimCells *c, const FlimFilter *filter) {
    int64_t(*counts)[FLIM_CLASSES][2] = xcalloc((size_t)c->n_donors, sizeof *counts), kept = 0; /* all, kept */
    for (int64_t i = 0; i < c->n; i++) {
        bool keeps = flim_filter_keeps(filter, c->entropy[i]);
        counts[c->donors[i]][c->labels[i]][0]++;
        counts[c->donors[i]][c->labels[i]][1] += keeps;
        kept += keeps;
    }
    json_t *donors = json_object();
    printf("[Filter] %s: entropies of %.3f to %.3f bits are of %lld of %lld cells (%.2f %% are not)\n", name,
           filter->low, filter->high, (long long)kept, (long long)c->n, 100 * (double)(c->n - kept) / (double)c->n);
    for (int d = 0; d < c->n_donors; d++) {
        int64_t(*k)[2] = counts[d];
        printf("  %-25.60sinactive %lld of %lld, active %lld of %lld\n", c->donor_names[d], (long long)k[0][1],
               (long long)k[0][0], (long long)k[1][1], (long long)k[1][0]);
        json_object_set_new_nocheck(donors, c->donor_names[d],
                                    json_build("the report on the cells", "{s:[I,I], s:[I,I]}", "inactive",
                                               (json_int_t)k[0][1], (json_int_t)k[0][0], "active", (json_int_t)k[1][1],
                                               (json_int_t)k[1][0]));
    }
    json_t *entry = json_build("the report on the cells", "{s:f, s:f, s:I, s:o}", "low", filter->low, "high",
                               filter->high, "kept", (json_int_t)kept, "donors", donors);
    json_t *all = json_object_get(report, "filters");
    if (!all) json_object_set_new(report, "filters", all = json_object());
    json_object_set_new_nocheck(all, name, entry);
    free(counts);
}
