#include "data/psd/data_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/psd/preprocess.h"

enum {
    WIDEST = 20000, /* bins: 186 MHz, and no band is so wide */
    PRINTED = 5     /* files of a kind that are printed */
};

static void set_count(json_t *object, const char *key, int64_t n) {
    json_object_set_new_nocheck(object, key, json_integer((json_int_t)n));
}

/* ---- files ---- */

/* Findings in files, in the report's order. */
enum { LEFT_OUT, EMPTY, LOST, HALF, BINS, CONSTANT, NARROW, WIDE, SIDES, CONFLICTS, UNLABELLED, COPIES, FINDINGS };

static const struct {
    const char *key, *meaning, *compat; /* compat: the meaning with --compat; NULL: the same */
} findings[FINDINGS] = {
    [LEFT_OUT] = {"left_out", "files that are left out", NULL},
    [EMPTY] = {"without_samples", "files of zero width: their rows are numbered, and have no sample", NULL},
    [LOST] = {"lost_rows", "files with rows that have no finite bin: those rows are left out", NULL},
    [HALF] = {"half_missing", "files with rows of which half of the bins are NaN: those rows are left out", NULL},
    [BINS] =
        {"not_finite",
         "files with bins that are NaN or infinite: -inf is taken as the floor of its row, inf as its highest bin, "
         "NaN from its neighbours (with --limit 0 all as 0 dB)",
         "files with bins that are NaN or infinite: they are taken as 0 dB"},
    [CONSTANT] = {"constant", "files with rows of equal bins: they become zeros", NULL},
    [NARROW] = {"narrow", "files narrower than the 200 bins of a sample: their edges are repeated", NULL},
    [WIDE] = {"wide", "files wider than 20000 bins: check that they are cut out right", NULL},
    [SIDES] = {"side_files",
               "side files (.csv) have no frequencies, in the columns begin_freq and end_freq: nothing "
               "is read from them",
               NULL},
    [CONFLICTS] = {"label_conflicts", "files whose name and frequency disagree", NULL},
    [UNLABELLED] = {"unlabelled", "files that neither their name nor their frequency labels: they are in no split",
                    NULL},
    [COPIES] = {"copies", "files that are copies of others: they leak between splits", NULL}};

static void add_text(json_t *list, char *text) {
    json_array_append_new(list, json_string_nocheck(text));
    free(text);
}

static void add_rows(json_t *list, const PsdFile *f, int64_t n) {
    if (n) add_text(list, xformat("%s: %lld of %lld rows", f->path, (long long)n, (long long)f->rows));
}

/* Adds what is found in a file to the lists of findings. */
static void judge_file(json_t *const lists[FINDINGS], const PsdScan *scan, const PsdFile *f) {
    const PsdFile *first = &scan->files[f->same_as];
    add_rows(lists[LOST], f, f->lost - f->half);
    add_rows(lists[HALF], f, f->half);
    add_rows(lists[CONSTANT], f, f->constant);
    if (f->not_finite) add_text(lists[BINS], xformat("%s: %lld bins", f->path, (long long)f->not_finite));
    if (f->side) add_text(lists[SIDES], xformat("beside %s: %s", f->path, f->side));
    if (f->reject_reason != PSD_ACCEPTED) {
        add_text(lists[psd_scan_lists(scan, f) ? EMPTY : LEFT_OUT],
                 xformat("%s: %s, %lld rows", f->path, PSD_REJECT_NAMES[f->reject_reason], (long long)f->rows));
        return;
    }
    if (f->width < PSD_BINS || f->width > WIDEST)
        add_text(lists[f->width < PSD_BINS ? NARROW : WIDE],
                 xformat("%s: %lld rows of %lld bins", f->path, (long long)f->rows, (long long)f->width));
    if (f->label == PSD_UNKNOWN) add_text(lists[UNLABELLED], xstrdup(f->path));
    if (f->token != PSD_UNKNOWN && f->band != PSD_UNKNOWN && f->token != f->band)
        add_text(lists[CONFLICTS],
                 xformat("%s: its name says %s, %g MHz is %s; taken for %s", f->path, PSD_LABEL_NAMES[f->token],
                         f->center, PSD_LABEL_NAMES[f->band], PSD_LABEL_NAMES[f->label]));
    if (f == first) return;
    bool other = strcmp(f->sensor, first->sensor) != 0;
    add_text(lists[COPIES], xformat("%s is %s%s%s%s%s", f->path, first->path, other ? " of another sensor: " : "",
                                    other ? f->sensor : "", other ? ", " : "", other ? first->sensor : ""));
}

/* Puts a list of findings into the report. Prints how many there are, and the first of them. */
static void add_findings(json_t *report, const PsdScan *scan, int kind, json_t *list) {
    size_t n = json_array_size(list);
    bool compat = scan->compat && findings[kind].compat;
    if (n) printf("[Report] %zu %s\n", n, compat ? findings[kind].compat : findings[kind].meaning);
    for (size_t i = 0; i < n && i < PRINTED; i++) printf("  %s\n", json_string_value(json_array_get(list, i)));
    if (n > PRINTED) printf("  and %zu more: see data_report.json\n", n - PRINTED);
    json_object_set_new(report, findings[kind].key, list);
}

void psd_data_report_files(json_t *report, const PsdScan *scan) {
    json_t *lists[FINDINGS];
    for (int kind = 0; kind < FINDINGS; kind++) lists[kind] = json_array();
    for (int64_t i = 0; i < scan->n; i++) judge_file(lists, scan, &scan->files[i]);
    for (int kind = 0; kind < FINDINGS; kind++) {
        add_findings(report, scan, kind, lists[kind]);
        if (kind != EMPTY) continue;
        if (scan->others) printf("[Report] %lld files are of formats that are not read\n", (long long)scan->others);
        foreign_print("Report", scan->foreign);
        set_count(report, "other_formats", scan->others);
    }
}

/* ---- rows ---- */

/* counts: [sensors, labels] */
static void print_table(const PsdManifest *m, const int64_t *counts, const int64_t totals[PSD_LABELS]) {
    printf("[Report] rows of %-15s", "sensor");
    for (int c = 0; c < PSD_LABELS; c++) printf("%8s", PSD_LABEL_NAMES[c]);
    for (int s = 0; s < m->n_sensors; s++) {
        printf("\n  %-30.60s", m->sensor_names[s]);
        for (int c = 0; c < PSD_LABELS; c++) printf("%8lld", (long long)counts[s * PSD_LABELS + c]);
    }
    printf("\n  %-30s", "all");
    for (int c = 0; c < PSD_LABELS; c++) printf("%8lld", (long long)totals[c]);
    printf("\n");
}

void psd_data_report_rows(json_t *report, const PsdManifest *m) {
    OWNED int64_t *counts = xcalloc((size_t)m->n_sensors * PSD_LABELS, sizeof *counts);
    int64_t rows[PSD_LABELS] = {0};
    int lacking = 0, files[PSD_LABELS] = {0};
    OWNED char *seen = xcalloc((size_t)m->n_files * PSD_LABELS, 1);
    for (int64_t i = 0; i < m->n; i++) {
        counts[m->sensors[i] * PSD_LABELS + m->labels[i]]++;
        rows[m->labels[i]]++;
        files[m->labels[i]] += !seen[m->files[i] * PSD_LABELS + m->labels[i]]++;
    }
    json_t *sensors = json_object(), *classes = json_object();
    for (int s = 0; s < m->n_sensors; s++) {
        json_t *row = json_object();
        bool lacks = false;
        for (int c = 0; c < PSD_LABELS; c++) set_count(row, PSD_LABEL_NAMES[c], counts[s * PSD_LABELS + c]);
        for (int c = 0; c < PSD_UNKNOWN; c++) lacks |= !counts[s * PSD_LABELS + c];
        json_object_set_new_nocheck(sensors, m->sensor_names[s], row);
        lacking += lacks;
    }
    for (int c = 0; c < PSD_LABELS; c++)
        json_object_set_new(
            classes, PSD_LABEL_NAMES[c],
            json_build("the report on the spectra", "{s:i, s:I}", "files", files[c], "rows", (json_int_t)rows[c]));
    print_table(m, counts, rows);
    if (lacking) printf("[Report] %d of %d sensors lack a technology\n", lacking, m->n_sensors);
    set_count(report, "rows", m->n);
    set_count(report, "files", m->n_files);
    json_object_set_new(report, "classes", classes);
    json_object_set_new(report, "sensors", sensors);
}

/* ---- splits ---- */

PsdGroups psd_data_report_groups(const PsdManifest *m, const PsdScan *scan) {
    PsdGroups g = {.rows = psd_manifest_rows(m)};
    OWNED int32_t *of_file = xmalloc((size_t)m->n_files * sizeof *of_file);
    int f = 0;
    for (int64_t i = 0; i < scan->n && f < m->n_files; i++) { /* the manifest's files are a subset, in this order */
        const PsdFile *file = &scan->files[i];
        if (!strcmp(file->listed ? file->listed : file->path, m->file_paths[f])) of_file[f++] = (int32_t)file->same_as;
    }
    g.contents = xmalloc((size_t)m->n * sizeof *g.contents);
    for (int64_t i = 0; i < m->n; i++) g.contents[i] = of_file[m->files[i]];
    return g;
}

void psd_data_report_groups_free(PsdGroups *groups) {
    free(groups->contents);
    *groups = (PsdGroups){0};
}

/* Returns how many groups have rows in the test and in another split. */
static int64_t leaks(const PsdPartition *partition, const int32_t *groups, int64_t n) {
    const PsdIds *p = partition->splits;
    OWNED int64_t *at = xmalloc((size_t)(p[PSD_TRAIN].n + p[PSD_VAL].n) * sizeof *at);
    PsdIds rest = {at, 0};
    for (int split = PSD_TRAIN; split <= PSD_VAL; split++)
        for (int64_t i = 0; i < p[split].n; i++) at[rest.n++] = p[split].at[i];
    return psd_partition_shared_groups(&(PsdPartition){{[PSD_TRAIN] = rest, [PSD_TEST] = p[PSD_TEST]}}, groups, n);
}

bool psd_data_report_splits(json_t *report, const char *name, const PsdPartition *partitions, int64_t n,
                            const PsdGroups *g, Error *error) {
    int64_t files = 0, contents = 0, rows[PSD_SPLITS] = {0};
    for (int64_t i = 0; i < n; i++) {
        if (!psd_partition_check(&partitions[i], g->rows.n, error)) return false;
        files += leaks(&partitions[i], g->rows.files, g->rows.n);
        contents += leaks(&partitions[i], g->contents, g->rows.n);
        for (int split = 0; split < PSD_SPLITS; split++) rows[split] += partitions[i].splits[split].n;
    }
    printf("[Split] %s: ", name);
    if (n > 1) printf("%lld splits; in all ", (long long)n);
    printf("%lld rows to train, %lld to validate, %lld to test", (long long)rows[PSD_TRAIN], (long long)rows[PSD_VAL],
           (long long)rows[PSD_TEST]);
    if (files) printf("; %lld files are in the test and in another split", (long long)files);
    if (contents && !files) printf("; %lld files of the test have copies in another split", (long long)contents);
    printf("\n");
    json_t *entry =
        json_build("the report on the spectra", "{s:I, s:I, s:I, s:I, s:I, s:I}", "splits", (json_int_t)n, "train",
                   (json_int_t)rows[PSD_TRAIN], "val", (json_int_t)rows[PSD_VAL], "test", (json_int_t)rows[PSD_TEST],
                   "files_leaking", (json_int_t)files, "contents_leaking", (json_int_t)contents);
    json_t *all = json_object_get(report, "splits");
    if (!all) json_object_set_new(report, "splits", all = json_object());
    json_object_set_new(all, name, entry);
    return true;
}
