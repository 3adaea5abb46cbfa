#include "data/cv/data_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/cv/confounds.h"

static const double STRONG = 0.1;             /* a warning: this far from 0.5; or a Cramer's V of this */
enum { REFERENCE_SHIFT = 5 };                 /* bins: the largest shift of the reference's augmentation */
static const char what[] = "the data report"; /* of errors */

/* ---- the table ---- */

/* Statistics of the cells of one donor and class. */
typedef struct {
    int64_t n;
    double size[2], photons[2], entropy[2]; /* mean, standard deviation */
    int peak;                               /* the median */
} Row;

static void mean_and_deviation(const CvCells *c, int donor, int label, const double *values, double out[2]) {
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

/* Returns the median peak bin of a donor's cells; label -1: of both classes. -1 if there is no cell. */
static int median_peak(const CvCells *c, int donor, int label) {
    OWNED int64_t *counts = xcalloc((size_t)c->shape.T, sizeof *counts);
    int64_t n = 0, below = 0;
    int median = -1;
    for (int64_t i = 0; i < c->n; i++)
        if (c->donors[i] == donor && (label < 0 || c->labels[i] == label)) {
            counts[c->peaks[i]]++;
            n++;
        }
    while (n && 2 * below < n) below += counts[++median];
    return median;
}

static Row row_of(const CvCells *c, int donor, int label, const double *sizes) {
    Row r = {.peak = median_peak(c, donor, label)};
    for (int64_t i = 0; i < c->n; i++) r.n += c->donors[i] == donor && c->labels[i] == label;
    mean_and_deviation(c, donor, label, sizes, r.size);
    mean_and_deviation(c, donor, label, c->photons, r.photons);
    mean_and_deviation(c, donor, label, c->entropy, r.entropy);
    return r;
}

static void print_table(json_t *report, const CvCells *c, const double *sizes) {
    json_t *donors = json_object();
    printf("[Data] %-18s%-10s%7s%16s%20s%6s%15s\n", "donor", "class", "cells", "size (pixels)", "photons", "peak",
           "entropy");
    for (int d = 0; d < c->n_donors; d++) {
        json_t *classes = json_object();
        for (int label = 0; label < CV_CLASSES; label++) {
            Row r = row_of(c, d, label, sizes);
            printf("  %-25.60s%-10s%7lld", label ? "" : c->donor_names[d], CV_CLASS_NAMES[label], (long long)r.n);
            if (r.n)
                printf("%8.1f +-%6.1f%9.0f +-%8.0f%6d%7.3f +-%6.3f", r.size[0], r.size[1], r.photons[0], r.photons[1],
                       r.peak, r.entropy[0], r.entropy[1]);
            printf("\n");
            json_t *row = json_build(what, "{s:I}", "cells", (json_int_t)r.n);
            if (r.n)
                json_object_update_new(row, json_build(what, "{s:[f,f], s:[f,f], s:[f,f], s:i}", "size", r.size[0],
                                                       r.size[1], "photons", r.photons[0], r.photons[1], "entropy",
                                                       r.entropy[0], r.entropy[1], "peak", r.peak));
            json_object_set_new(classes, CV_CLASS_NAMES[label], row);
        }
        json_object_set_new_nocheck(donors, c->donor_names[d], classes);
    }
    json_object_set_new(report, "donors", donors);
}

/* ---- warnings ---- */

static bool strong(double effect, double low, double high) {
    return fabs(effect - 0.5) >= STRONG && (low > 0.5 || high < 0.5);
}

/* Reports how well one property separates the classes, within donors and between them; returns the number of
 * warnings. */
static int report_effect(json_t *report, const CvCells *c, const char *property, const char *more, const double *values,
                         uint64_t seed) {
    CvEffect e = cv_confounds_effect(c, values, seed);
    const double effects[2] = {e.within, e.between};
    static const char *const places[2] = {"within", "between"};
    int warnings = 0;
    json_t *entry = json_object();
    for (int k = 0; k < 2; k++) {
        json_object_set_new(
            entry, places[k],
            json_build(what, "[o,o,o]", real_or_null(effects[k]), real_or_null(e.low[k]), real_or_null(e.high[k])));
        if (isnan(effects[k])) continue;
        bool bad = strong(effects[k], e.low[k], e.high[k]);
        printf("[Data] %s%s alone%s %s donors: in %.1f %% of pairs the active cell is %s "
               "(%.1f to %.1f)\n",
               bad ? "warning: " : "", property, bad ? " tells classes apart" : "", places[k], 100 * effects[k], more,
               100 * e.low[k], 100 * e.high[k]);
        warnings += bad;
    }
    json_object_set_new(entry, "donor_correlation", real_or_null(cv_confounds_correlation(c, values)));
    json_object_set_new(report, property, entry);
    return warnings;
}

/* Returns the share of active cells among a donor's. */
static double active_share(const CvCells *c, int donor) {
    double n = 0, active = 0;
    for (int64_t i = 0; i < c->n; i++) {
        n += c->donors[i] == donor;
        active += c->donors[i] == donor && c->labels[i];
    }
    return active / n;
}

static int report_donors(json_t *report, const CvCells *c, uint64_t seed) {
    CvAssociation a = cv_confounds_donor(c, seed);
    int least = 0, most = 0;
    for (int d = 1; d < c->n_donors; d++) {
        if (active_share(c, d) < active_share(c, least)) least = d;
        if (active_share(c, d) > active_share(c, most)) most = d;
    }
    bool bad = a.v >= STRONG && a.low >= STRONG;
    double share = active_share(c, most);
    if (!(share > 0) || active_share(c, least) >= 1)
        printf("[Data] warning: all cells are %s: a classifier needs both classes\n", CV_CLASS_NAMES[share > 0]);
    else
        printf("[Data] %s: active are %.1f %% (%s) to %.1f %% (%s) of a donor's cells, V = %.2f "
               "(%.2f to %.2f)\n",
               bad ? "warning: the donor tells the class" : "donor and class", 100 * active_share(c, least),
               c->donor_names[least], 100 * active_share(c, most), c->donor_names[most], a.v, a.low, a.high);
    json_object_set_new(report, "donor",
                        json_build(what, "[o,o,o]", real_or_null(a.v), real_or_null(a.low), real_or_null(a.high)));
    return bad;
}

static int report_peaks(const CvCells *c) {
    int least = 0, most = 0;
    for (int d = 1; d < c->n_donors; d++) {
        if (median_peak(c, d, -1) < median_peak(c, least, -1)) least = d;
        if (median_peak(c, d, -1) > median_peak(c, most, -1)) most = d;
    }
    int low = median_peak(c, least, -1), high = median_peak(c, most, -1);
    bool bad = high - low > 2 * REFERENCE_SHIFT;
    if (bad)
        printf(
            "[Data] warning: decays peak at bin %d (%s) to %d (%s), which tells donors apart: the reference's shifts "
            "of +-%d bins do not bridge it\n",
            low, c->donor_names[least], high, c->donor_names[most], REFERENCE_SHIFT);
    return bad;
}

static void report_copies(json_t *report, const CvCells *c) {
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
                        json_build(what, "{s:I, s:I, s:I}", "cells", (json_int_t)copies, "of_other_donors",
                                   (json_int_t)donors, "of_the_other_class", (json_int_t)labels));
    if (first >= 0)
        printf("[Data] warning: %lld cells are copies of another donor's, %lld of the other class's; the first is %s, "
               "as %s\n",
               (long long)donors, (long long)labels, c->file_names[first], c->file_names[c->same_as[first]]);
}

int cv_data_report(json_t *report, const CvCells *c, uint64_t seed) {
    OWNED double *sizes = xmalloc((size_t)c->n * sizeof *sizes);
    json_t *confounds = json_object();
    for (int64_t i = 0; i < c->n; i++) sizes[i] = c->sizes[i];
    print_table(report, c, sizes);
    int warnings = report_effect(confounds, c, "size", "larger", sizes, seed) +
                   report_effect(confounds, c, "brightness", "brighter", c->photons, seed) +
                   report_donors(confounds, c, seed) + report_peaks(c);
    json_object_set_new(report, "confounds", confounds);
    report_copies(report, c);
    return warnings;
}

/* ---- the filter ---- */

void cv_data_report_filter(json_t *report, const char *name, const CvCells *c, const CvFilter *filter) {
    int64_t(*counts)[CV_CLASSES][2] = xcalloc((size_t)c->n_donors, sizeof *counts), kept = 0; /* all, kept */
    for (int64_t i = 0; i < c->n; i++) {
        bool keeps = cv_filter_keeps(filter, c->entropy[i]);
        counts[c->donors[i]][c->labels[i]][0]++;
        counts[c->donors[i]][c->labels[i]][1] += keeps;
        kept += keeps;
    }
    json_t *donors = json_object();
    printf("[Filter] %s: entropies of %.3f to %.3f bits are of %lld of %lld cells (%.2f %% are not)\n", name,
           filter->low, filter->high, (long long)kept, (long long)c->n, 100 * (double)(c->n - kept) / (double)c->n);
    for (int d = 0; d < c->n_donors; d++) {
        int64_t(*k)[2] = counts[d];
        printf("  %-25.60squiescent %lld of %lld, active %lld of %lld\n", c->donor_names[d], (long long)k[0][1],
               (long long)k[0][0], (long long)k[1][1], (long long)k[1][0]);
        json_object_set_new_nocheck(donors, c->donor_names[d],
                                    json_build(what, "{s:[I,I], s:[I,I]}", CV_CLASS_NAMES[0], (json_int_t)k[0][1],
                                               (json_int_t)k[0][0], "active", (json_int_t)k[1][1],
                                               (json_int_t)k[1][0]));
    }
    json_t *entry = json_build(what, "{s:f, s:f, s:I, s:o}", "low", filter->low, "high", filter->high, "kept",
                               (json_int_t)kept, "donors", donors);
    json_t *all = json_object_get(report, "filters");
    if (!all) json_object_set_new(report, "filters", all = json_object());
    json_object_set_new_nocheck(all, name, entry);
    free(counts);
}
