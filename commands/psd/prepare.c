/* train_psd prepare: from a folder of ElectroSense recordings to everything that the other commands read: the manifest,
 * a report on the data, the splits, the store of samples. With --manifest: only the splits and the store.
 *
 *   ./train_psd prepare --input spectrum_bands --output prepared */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/options.h"
#include "base/threads.h"
#include "commands/next.h"
#include "commands/psd/psd.h"
#include "data/psd/data_report.h"
#include "data/psd/split_index.h"
#include "data/psd/store.h"

typedef struct {
    const char *input, *output, *manifest;
    int64_t seed, loso_sensors, num_workers;
    double fraction, limit;
    bool compat, hop;
} Options;

#define FIELD(name) offsetof(Options, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "input", .heading = "Data", .usual = true, .letter = 'i', .type = OPTION_TEXT, .offset = FIELD(input), .metavar = "DIR",
     .help = "folder of recordings: .npy files at any depth, .../spectrum_bands/SENSOR/DAY/NAME.npy"},
    {.name = "output", .heading = "Files", .usual = true, .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .default_value = "prepared",
     .metavar = "DIR",
     .help = "folder for manifest.csv, manifest.psd.safetensors, splits/ and data_report.json"},
    {.name = "manifest", .heading = "Data", .type = OPTION_TEXT, .offset = FIELD(manifest), .metavar = "PATH",
     .help = "make the splits and the store of this manifest, beside it, and no new manifest"},
    {.name = "compat", .heading = "Data", .type = OPTION_FLAG, .offset = FIELD(compat), .default_value = "false",
     .help = "do as the reference implementation: labels by frequency first, its columns, rows of zero width, no "
             "--limit, 0 dB for bins that are not finite"},
    {.name = "hop", .type = OPTION_FLAG, .offset = FIELD(hop), .default_value = "false",
     .help = "make a sample of every whole 200 bins of a row, not only of the 200 in its middle"},
    {.name = "limit", .type = OPTION_FLOAT, .offset = FIELD(limit), .default_value = "20", .max = 1e9, .metavar = "X",
     .help = "clip normalised values to +-X, because a row that hardly varies would have values of 1e9; 0: no limit, "
             "and 0 dB for bins that are not finite, as in the reference"},
    {.name = "seed", .heading = "Splits", .letter = 's', .type = OPTION_INT, .offset = FIELD(seed), .default_value = "42",
     .max = 4294967295, .metavar = "N",
     .help = "seed of the splits"},
    {.name = "fraction", .type = OPTION_FLOAT, .offset = FIELD(fraction), .default_value = "1.0", .max = 1,
     .metavar = "X",
     .help = "fraction of the rows that the splits use; above 0"},
    {.name = "num-loso-sensors", .type = OPTION_INT, .offset = FIELD(loso_sensors), .default_value = "0", .max = 1e6,
     .metavar = "N",
     .help = "how many sensors to leave out, one at a time, drawn by the seed; 0: all"},
    {.name = "num-workers", .heading = "Device", .type = OPTION_INT, .offset = FIELD(num_workers), .default_value = "0", .max = 1024,
     .metavar = "N",
     .help = "threads; 0: all cores; the files do not depend on it"},
};
// clang-format on

static void check_options(Options *o, const OptionSet *set) {
    if (!o->input == !o->manifest) die_usage("give either --input DIR or --manifest PATH");
    if (o->compat && (o->hop || options_given(set, "limit")))
        die_usage("--compat excludes --hop and --limit, which the reference does not have");
    if (o->manifest && options_given(set, "output"))
        die_usage("--output: the files for --manifest are written beside it");
    if (o->manifest && !path_ending(o->manifest, ".csv")) die_usage("--manifest: its name must end in .csv");
    if (!(o->fraction > 0)) die_usage("--fraction is 0; expected more than 0, at most 1");
    if (o->compat) o->limit = 0;
    o->num_workers = threads_take((int)o->num_workers, "--num-workers");
}

/* ---- splits ---- */

/* The split files that are being written. */
typedef struct {
    const Options *options;
    const char *directory;
    const PsdGroups *groups;
    json_t *report;
    uint64_t manifest_hash;
    int made;        /* how many files so far */
    int64_t dropped; /* rows that the present file leaves out as copies */
} Splits;

/* Drops rows to train and validate on whose files are copies of files in the test. Otherwise a sensor whose recordings
 * another sensor has too would not really be left out. The reference keeps these rows. */
static void drop_copies(Splits *s, const char *name, PsdPartition *partitions, int64_t n) {
    for (int64_t i = 0; i < n && !s->options->compat; i++)
        s->dropped += psd_partition_drop_shared(&partitions[i], s->groups->contents, s->groups->rows.n);
    if (s->dropped)
        printf("[Split] %s: %lld rows are left out: their files are copies of files in the test\n", name,
               (long long)s->dropped);
}

/* Reports a file that was written, or why it cannot be made (then it removes an old one). The index is written last, so
 * that after an interruption it never names a manifest that the file was not made from. */
static void finish(Splits *s, const char *path, bool made, PsdPartition *partitions, int64_t n, const Error *why) {
    const char *name = path_name(path);
    if (made) {
        MUST_OR(psd_data_report_splits(s->report, name, partitions, n, s->groups, &error), "%s: %s", name, error.text);
        json_object_set_new(json_object_get(json_object_get(s->report, "splits"), name), "copies_left_out",
                            json_integer((json_int_t)s->dropped));
        s->made++;
    } else {
        printf("[Split] %s is not made: %s\n", name, why->text);
        json_object_del(json_object_get(s->report, "splits"), name);
        if (unlink(path) && errno != ENOENT) die("cannot remove %s, which is old: %s", path, strerror(errno));
    }
    MUST(psd_split_index_set(path, made ? s->manifest_hash : 0, &error));
    s->dropped = 0;
}

/* Notes in the index that the file is ours. Comes before the file is made, or an old one removed. */
static void claim(const char *path, uint64_t manifest_hash) {
    MUST(psd_split_index_claim(path, manifest_hash, &error));
}

static const char *const kinds[] = {"pooled", "by_file", "by_sensor", "loso", "fewshot_loso"};
enum { POOLED, BY_FILE, BY_SENSOR, LOSO, FEW_SHOT, KINDS };

static char *split_path(const Options *o, const char *directory, int kind) {
    OWNED char *name = kind == FEW_SHOT ? xformat("%s_seed%u.json", kinds[kind], (uint32_t)o->seed)
                                        : psd_split_file_name(kinds[kind], (uint32_t)o->seed, o->fraction);
    return path_join(directory, name);
}

/* Claims all split files before any is written. Dies if one of them belongs to the user. */
static void claim_splits(const Options *o, const char *directory, uint64_t manifest_hash) {
    make_directories(directory);
    for (int i = 0; i < KINDS; i++) {
        OWNED char *path = split_path(o, directory, i);
        claim(path, manifest_hash);
    }
}

static void write_one(Splits *s, int kind, const int32_t *groups) {
    const PsdRows *rows = &s->groups->rows;
    uint32_t seed = (uint32_t)s->options->seed;
    OWNED char *path = split_path(s->options, s->directory, kind);
    PsdPartition partition;
    Error error;
    claim(path, s->manifest_hash);
    bool made = groups ? psd_partition_grouped(rows, groups, seed, s->options->fraction, &partition, &error)
                       : psd_partition_pooled(rows, seed, s->options->fraction, &partition, &error);
    if (made && groups == rows->sensors) drop_copies(s, path_name(path), &partition, 1);
    if (made && !psd_partition_write(path, &partition, &error)) die("%s", error.text);
    finish(s, path, made, &partition, 1, &error);
    psd_partition_free(&partition);
}

static void write_by_sensor(Splits *s, bool few) {
    const PsdRows *rows = &s->groups->rows;
    const Options *o = s->options;
    uint32_t seed = (uint32_t)o->seed;
    OWNED char *path = split_path(o, s->directory, few ? FEW_SHOT : LOSO);
    PsdPartitions all;
    Error error;
    claim(path, s->manifest_hash);
    bool made = few ? psd_partition_few_shot(rows, seed, PSD_SHOT_COUNTS, PSD_SHOTS, o->loso_sensors, &all, &error)
                    : psd_partition_sensors(rows, seed, o->fraction, o->loso_sensors, &all, &error);
    if (made && !few) drop_copies(s, path_name(path), all.partitions, all.sensors * all.shots);
    if (made && !psd_partitions_write(path, rows, &all, few ? PSD_SHOT_COUNTS : NULL, &error)) die("%s", error.text);
    finish(s, path, made, all.partitions, all.sensors * all.shots, &error);
    psd_partitions_free(&all);
}

static void write_splits(const Options *o, const char *directory, const PsdGroups *groups, uint64_t manifest_hash,
                         json_t *report) {
    OWNED char *path = path_join(directory, "splits");
    Splits s = {o, path, groups, report, manifest_hash, 0, 0};
    claim_splits(o, path, manifest_hash);
    directory_remove_leftovers(path);
    write_one(&s, POOLED, NULL);
    write_one(&s, BY_FILE, groups->contents); /* whole files: copies stay together */
    write_one(&s, BY_SENSOR, groups->rows.sensors);
    write_by_sensor(&s, false);
    write_by_sensor(&s, true);
    if (!s.made) die("no split can be made of these rows");
}

/* ---- manifest ---- */

static uint64_t hash_of(const char *manifest) {
    uint64_t hash;
    MUST(psd_manifest_hash(manifest, &hash, &error));
    return hash;
}

/* Scans the recordings. Writes nothing. */
static PsdManifest scan_input(const Options *o, PsdScan *scan) {
    MUST(psd_scan(o->input, o->compat, (int)o->num_workers, scan, &error));
    MUST(psd_scan_usable(scan, o->input, &error));
    return psd_scan_manifest(scan);
}

/* Writes the manifest. Removes the splits of a manifest that is replaced first, because their row numbers would mean
 * other rows; so a kill in between leaves none of them. */
static void write_manifest(const Options *o, const char *path, const PsdManifest *m, const PsdScan *scan) {
    uint64_t now = psd_manifest_hash_of(m), before = access(path, F_OK) ? 0 : hash_of(path);
    OWNED char *splits = path_join(o->output, "splits");
    claim_splits(o, splits, now);
    if (before != now) MUST(psd_split_index_claim_manifest(splits, path, now, before, &error));
    if (before && before != now) MUST(psd_split_index_purge(splits, before, &error));
    MUST(psd_manifest_write(path, m, &error));
    printf("[Manifest] %s: %lld rows of %d files (of %lld), %d sensors\n", path, (long long)m->n, m->n_files,
           (long long)scan->n, m->n_sensors);
    if (scan->respelled)
        printf("[Manifest] files in folders of a sensor that is written otherwise elsewhere (not composed, no-break or "
               "outer blanks): %lld\n",
               (long long)scan->respelled);
    if (scan->not_regular)
        printf("[Manifest] %lld names end in .npy but are not regular files (FIFOs, devices, broken links): left out\n",
               (long long)scan->not_regular);
}

/* Makes the paths relative to the manifest's directory, so that they do not depend on where a program is started. */
static void see_from(const char *directory, PsdManifest *m, PsdScan *scan) {
    for (int64_t i = 0; i < scan->n; i++) scan->files[i].listed = path_relative(directory, scan->files[i].path);
    for (int i = 0; i < m->n_files; i++) {
        char *seen = path_relative(directory, m->file_paths[i]);
        free(m->file_paths[i]);
        m->file_paths[i] = seen;
    }
}

/* Locks the manifest and everything that is made beside it. Then reads the manifest of --manifest, or writes a new one.
 */
static PsdManifest lock_manifest(const Options *o, const char *path, PsdScan *scan, FileLock *lock) {
    PsdManifest manifest;
    OWNED char *directory = path_directory(path);
    if (o->manifest) {
        hash_of(path); /* dies if it cannot be read */
    } else {
        manifest = scan_input(o, scan);
        make_directories(directory);
        see_from(directory, &manifest, scan);
    }
    MUST(file_lock(lock, path, &error));
    directory_remove_leftovers(directory);
    if (!o->manifest)
        write_manifest(o, path, &manifest, scan);
    else
        MUST(psd_manifest_read(path, &manifest, &error));
    psd_manifest_print_sensors(path, &manifest);
    return manifest;
}

/* ---- report ---- */

/* Returns the report of this manifest, to be extended, or an empty one. */
static json_t *begin_report(const char *directory, uint64_t manifest_hash) {
    OWNED char *path = path_join(directory, "data_report.json"),
               *hash = xformat("%016llx", (unsigned long long)manifest_hash);
    json_t *report = json_read(path, 0, NULL);
    const char *of = json_string_value(json_object_get(report, "manifest"));
    if (!of || strcmp(of, hash)) {
        json_decref(report);
        report = json_build("data_report.json", "{s:s}", "manifest", hash);
    }
    return report;
}

/* Returns how many samples a split file has to train on. */
static int64_t count_training(const char *split, const PsdStore *store) {
    PsdPartition partition;
    MUST(psd_partition_read(split, NULL, 0, store->n_rows, &partition, &error));
    const PsdIds *rows = &partition.splits[PSD_TRAIN];
    OWNED bool *trained = xcalloc((size_t)store->n_rows + 1, sizeof *trained);
    int64_t n = 0;
    for (int64_t i = 0; i < rows->n; i++) trained[rows->at[i]] = true;
    for (int64_t i = 0; i < store->n; i++) n += trained[store->rows[i]];
    psd_partition_free(&partition);
    return n;
}

/* Prints the command that trains: on whole files if these can be divided, else on what split there is. */
static void print_next(const Options *o, const char *directory, const char *manifest, const PsdStore *store) {
    OWNED char *splits = path_join(directory, "splits"), *by_file = split_path(o, splits, BY_FILE),
               *pooled = split_path(o, splits, POOLED);
    const char *split = access(by_file, F_OK) ? pooled : by_file;
    if (access(split, F_OK)) return;
    OWNED char *batch = next_batch(count_training(split, store), PSD_BATCH, 1);
    next_print_options("run",
                       (const char *const[]){"-m", manifest, "--split", split, "-o", "results", "-b", batch, NULL});
}

/* ---- all of it ---- */

static void make_data(const Options *o) {
    OWNED char *directory = o->manifest ? path_directory(o->manifest) : xstrdup(o->output);
    OWNED char *path = o->manifest ? xstrdup(o->manifest) : path_join(directory, "manifest.csv");
    PsdScan scan = {0};
    PsdStore store;
    FileLock lock;
    PsdManifest manifest = lock_manifest(o, path, &scan, &lock);
    int64_t lost = o->manifest ? psd_scan_copies(&manifest, path, (int)o->num_workers, &scan) : 0;
    if (lost) printf("[Report] %lld files cannot be read: they may or may not be copies of others\n", (long long)lost);
    uint64_t hash = hash_of(path);
    json_auto_t *report = begin_report(directory, hash);
    if (!o->manifest) psd_data_report_files(report, &scan);
    psd_data_report_rows(report, &manifest);
    PsdGroups groups = psd_data_report_groups(&manifest, &scan);
    write_splits(o, directory, &groups, hash, report);
    MUST(psd_store_open(&store, path, &o->hop, &o->limit, (int)o->num_workers, &error));
    json_object_set_new(report, "samples", json_integer((json_int_t)store.n));
    json_object_set_new(report, "doubtful_sensors", psd_store_doubts(&store));
    OWNED char *report_path = path_join(directory, "data_report.json");
    MUST(json_write_file(report_path, report, JSON_INDENT(1), &error));
    print_next(o, directory, path, &store);
    file_unlock(&lock);
    psd_store_close(&store);
    psd_data_report_groups_free(&groups);
    psd_scan_close(&scan);
    psd_manifest_close(&manifest);
}

int psd_prepare(int argc, char **argv) {
    static const OptionsHeader header = {"train_psd prepare", "--input DIR --output prepared [options]",
                                         "--input recordings --output prepared",
                                         "Makes a manifest, splits and samples from recorded spectra."};
    Options o = {0};
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    check_options(&o, &set);
    make_data(&o);
    options_free(&set, argc, argv);
    return 0;
}
