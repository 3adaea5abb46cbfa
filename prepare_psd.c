/* prepare_psd: from a folder of ElectroSense recordings to everything that train_psd reads.
 *
 *   ./prepare_psd --input spectrum_bands --output data
 *
 * main is the whole way: the manifest, what the doctor finds in the recordings, the splits, the store of samples. With
 * --manifest only the last two; --synthetic makes recordings up. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/program.h"
#include "base/threads.h"
#include "data/psd_doctor.h"
#include "data/psd_store.h"
#include "data/psd_synthetic.h"
#include "train/options.h"

typedef struct {
    const char *config, *input, *output, *manifest, *synthetic;
    int64_t sensors, rows, seed, loso_sensors, num_workers;
    double fraction, limit;
    bool compat, hop;
} Options;

static int option_rows(Options *o, Option *rows) {
#define ROW(name, letter, type, value, preset, least, most, argument, help)                                            \
    { name, letter, NULL, type, value, preset, least, most, argument, help, false, false }
    const Option table[] = {
        ROW("input", 'i', OPTION_TEXT, &o->input, NULL, 0, 0, "DIR",
            "the recordings: .npy files anywhere below, .../spectrum_bands/SENSOR/DAY/NAME.npy"),
        ROW("output", 'o', OPTION_TEXT, &o->output, "data", 0, 0, "DIR",
            "gets manifest.csv, manifest.psd.safetensors, splits and doctor.json"),
        ROW("manifest", 0, OPTION_TEXT, &o->manifest, NULL, 0, 0, "PATH",
            "make the splits and the store of this manifest, beside it, instead of a new one"),
        ROW("synthetic", 0, OPTION_TEXT, &o->synthetic, NULL, 0, 0, "DIR",
            "write made-up recordings into this folder, and nothing else"),
        ROW("sensors", 0, OPTION_INT, &o->sensors, "8", 1, 1e4, "N", "of the made-up recordings"),
        ROW("rows", 0, OPTION_INT, &o->rows, "60", 1, 1e6, "N",
            "of the made-up recordings, for each sensor and technology"),
        ROW("config", 0, OPTION_TEXT, &o->config, NULL, 0, 0, "PATH",
            "YAML file with any of these options; the command line wins"),
        ROW("compat", 0, OPTION_FLAG, &o->compat, "false", 0, 0, NULL,
            "as the reference implementation has it: labels by frequency first, its columns, rows of zero width, no "
            "--limit"),
        ROW("hop", 0, OPTION_FLAG, &o->hop, "false", 0, 0, NULL,
            "every whole 200 bins of a row are a sample, not only the 200 in its middle"),
        ROW("limit", 0, OPTION_FLOAT, &o->limit, "20", 0, 1e9, "X",
            "normalised values are held within +-X; 0: not. A row that hardly varies has values of 1e9 otherwise"),
        ROW("seed", 's', OPTION_INT, &o->seed, "42", 0, 4294967295, "N", "of the splits, or of the made-up recordings"),
        ROW("fraction", 0, OPTION_FLOAT, &o->fraction, "1.0", 0, 1, "X", "share of the rows that splits take; above 0"),
        ROW("num-loso-sensors", 0, OPTION_INT, &o->loso_sensors, "0", 0, 1e6, "N",
            "sensors to leave out, one at a time: so many, drawn by the seed; 0: each"),
        ROW("num-workers", 0, OPTION_INT, &o->num_workers, "0", 0, 1024, "N",
            "threads; 0: all cores. What is written does not depend on it")};
#undef ROW
    memcpy(rows, table, sizeof table);
    return sizeof table / sizeof *table;
}

static bool given(const Option *rows, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].name, name)) return rows[i].given;
    return false;
}

static void check_options(Options *o, const Option *rows, int count) {
    if (!!o->input + !!o->manifest + !!o->synthetic != 1)
        die_usage("give one of --input DIR, --manifest PATH and --synthetic DIR");
    if (o->compat && (o->hop || given(rows, count, "limit")))
        die_usage("--compat is without --hop and --limit, which the reference does not have");
    if (o->manifest && given(rows, count, "output")) die_usage("--output: what is made of --manifest goes beside it");
    if (o->manifest && !ends_with(o->manifest, ".csv")) die_usage("--manifest: its name must end in .csv");
    if (!(o->fraction > 0)) die_usage("--fraction is 0; expected more than 0, at most 1");
    if (o->compat) o->limit = 0;
    o->num_workers = threads_take((int)o->num_workers, "--num-workers");
}

/* ---- splits ---- */

typedef struct {
    const Options *options;
    const char *directory; /* of all splits */
    const PsdGroups *groups;
    json_t *report;
    uint64_t manifest_hash;
    int made;
    int64_t dropped; /* rows of the last one that are left out as copies */
} Splits;

/* A sensor is not left out where another has its recordings; the reference leaves them in. */
static void drop_copies(Splits *s, const char *name, PsdSplit *splits, int64_t n) {
    for (int64_t i = 0; i < n && !s->options->compat; i++)
        s->dropped += psd_split_drop_shared(&splits[i], s->groups->contents, s->groups->rows.n);
    if (s->dropped)
        printf("[Split] %s: %lld rows are left out: their files are copies of files in the test\n", name,
               (long long)s->dropped);
}

/* What became of one: written and checked, or why it cannot be made; then one from before goes too. The index comes
 * last: of an interrupted run it names no manifest that a file was not made of. */
static void finish(Splits *s, const char *path, bool made, PsdSplit *splits, int64_t n, const Error *why) {
    Error error;
    const char *name = strrchr(path, '/') + 1;
    if (made) {
        if (!psd_doctor_splits(s->report, name, splits, n, s->groups, &error)) die("%s: %s", name, error.text);
        json_object_set_new(json_object_get(json_object_get(s->report, "splits"), name), "copies_left_out",
                            json_integer((json_int_t)s->dropped));
        s->made++;
    } else {
        printf("[Split] %s is not made: %s\n", name, why->text);
        json_object_del(json_object_get(s->report, "splits"), name);
        if (unlink(path) && errno != ENOENT) die("cannot remove %s, which is old: %s", path, strerror(errno));
    }
    if (!psd_split_index_set(path, made ? s->manifest_hash : 0, &error)) die("%s", error.text);
    s->dropped = 0;
}

/* Before the file is made, or an old one removed. */
static void claim(const char *path, uint64_t manifest_hash) {
    Error error;
    if (!psd_split_index_claim(path, manifest_hash, &error)) die("%s", error.text);
}

static const char *const kinds[] = {"pooled", "by_file", "by_sensor", "loso", "fewshot_loso"};
enum { POOLED, BY_FILE, BY_SENSOR, LOSO, FEW_SHOT, KINDS };

static char *split_path(const Options *o, const char *directory, int kind) {
    char *name = kind == FEW_SHOT ? xformat("%s_seed%u.json", kinds[kind], (uint32_t)o->seed)
                                  : psd_split_name(kinds[kind], (uint32_t)o->seed, o->fraction);
    char *path = path_join(directory, name);
    free(name);
    return path;
}

/* Refuses files of the user's before anything is written. */
static void claim_splits(const Options *o, const char *directory, uint64_t manifest_hash) {
    make_directories(directory);
    for (int i = 0; i < KINDS; i++) {
        char *path = split_path(o, directory, i);
        claim(path, manifest_hash);
        free(path);
    }
}

static void write_one(Splits *s, int kind, const int32_t *groups) {
    const PsdRows *rows = &s->groups->rows;
    uint32_t seed = (uint32_t)s->options->seed;
    char *path = split_path(s->options, s->directory, kind);
    PsdSplit split;
    Error error;
    claim(path, s->manifest_hash);
    bool made = groups ? psd_split_grouped(rows, groups, seed, s->options->fraction, &split, &error)
                       : psd_split_pooled(rows, seed, s->options->fraction, &split, &error);
    if (made && groups == rows->sensors) drop_copies(s, strrchr(path, '/') + 1, &split, 1);
    if (made && !psd_split_write(path, &split, &error)) die("%s", error.text);
    finish(s, path, made, &split, 1, &error);
    psd_split_free(&split);
    free(path);
}

static void write_by_sensor(Splits *s, bool few) {
    const PsdRows *rows = &s->groups->rows;
    const Options *o = s->options;
    uint32_t seed = (uint32_t)o->seed;
    char *path = split_path(o, s->directory, few ? FEW_SHOT : LOSO);
    PsdSplits splits;
    Error error;
    claim(path, s->manifest_hash);
    bool made = few ? psd_split_few_shot(rows, seed, PSD_SHOT_COUNTS, PSD_SHOTS, o->loso_sensors, &splits, &error)
                    : psd_split_sensors(rows, seed, o->fraction, o->loso_sensors, &splits, &error);
    if (made && !few) drop_copies(s, strrchr(path, '/') + 1, splits.splits, splits.sensors * splits.shots);
    if (made && !psd_splits_write(path, rows, &splits, few ? PSD_SHOT_COUNTS : NULL, &error)) die("%s", error.text);
    finish(s, path, made, splits.splits, splits.sensors * splits.shots, &error);
    psd_splits_free(&splits);
    free(path);
}

static void write_splits(const Options *o, const char *directory, const PsdGroups *groups, uint64_t manifest_hash,
                         json_t *report) {
    char *path = path_join(directory, "splits");
    Splits s = {o, path, groups, report, manifest_hash, 0, 0};
    claim_splits(o, path, manifest_hash);
    directory_remove_leftovers(path);
    write_one(&s, POOLED, NULL);
    write_one(&s, BY_FILE, groups->contents); /* whole files: copies stay together */
    write_one(&s, BY_SENSOR, groups->rows.sensors);
    write_by_sensor(&s, false);
    write_by_sensor(&s, true);
    if (!s.made) die("no split can be made of these rows");
    free(path);
}

/* ---- the whole way ---- */

static void make_synthetic(const Options *o) {
    const PsdSynthetic wanted = {o->sensors, o->rows, (uint64_t)o->seed};
    int64_t files;
    Error error;
    if (!psd_synthetic_write(o->synthetic, &wanted, (int)o->num_workers, &files, &error)) die("%s", error.text);
    printf("[Synthetic] %s: %lld files of %lld sensors and six technologies, %lld rows each\n", o->synthetic,
           (long long)files, (long long)o->sensors, (long long)o->rows);
    char *recordings = shell_path(o->synthetic);
    printf("Next: ./prepare_psd --input %s --output data\n", recordings);
    free(recordings);
}

static uint64_t hash_of(const char *manifest) {
    uint64_t hash;
    Error error;
    if (!psd_manifest_hash(manifest, &hash, &error)) die("%s", error.text);
    return hash;
}

/* What the recordings amount to; nothing is written yet. */
static PsdManifest scan_input(const Options *o, PsdScan *scan) {
    Error error;
    if (!psd_scan(o->input, o->compat, (int)o->num_workers, scan, &error)) die("%s", error.text);
    PsdManifest m = psd_scan_manifest(scan);
    if (!m.n) die("%s: none of its %lld .npy files has a row with a finite bin", o->input, (long long)scan->n);
    return m;
}

/* Splits of a manifest that is replaced name rows that will be others: they go before it comes, so that a kill in
 * between leaves none. */
static void write_manifest(const Options *o, const char *path, const PsdManifest *m, const PsdScan *scan) {
    Error error;
    uint64_t now = psd_manifest_hash_of(m), before = access(path, F_OK) ? 0 : hash_of(path);
    char *splits = path_join(o->output, "splits");
    claim_splits(o, splits, now);
    if (before != now && !psd_split_index_claim_manifest(splits, path, now, before, &error)) die("%s", error.text);
    if (before && before != now && !psd_split_index_purge(splits, before, &error)) die("%s", error.text);
    free(splits);
    if (!psd_manifest_write(path, m, &error)) die("%s", error.text);
    printf("[Manifest] %s: %lld rows of %d files (of %lld), %d sensors\n", path, (long long)m->n, m->n_files,
           (long long)scan->n, m->n_sensors);
    if (scan->not_regular)
        printf(
            "[Manifest] %lld names end in .npy and are no regular files (FIFOs, devices, broken links): they are left "
            "out\n",
            (long long)scan->not_regular);
}

/* Takes the lock of a manifest and of all that is made beside it, and reads, or writes, the manifest. */
static PsdManifest lock_manifest(const Options *o, const char *path, PsdScan *scan, FileLock *lock) {
    PsdManifest manifest;
    char *directory = path_directory(path);
    Error error;
    if (o->manifest) {
        hash_of(path); /* it is there */
    } else {
        manifest = scan_input(o, scan);
        make_directories(directory);
    }
    if (!file_lock(lock, path, &error)) die("%s", error.text);
    directory_remove_leftovers(directory);
    if (!o->manifest)
        write_manifest(o, path, &manifest, scan);
    else if (!psd_manifest_read(path, &manifest, &error))
        die("%s", error.text);
    free(directory);
    return manifest;
}

/* The report of this manifest, to go on with, or an empty one. */
static json_t *begin_report(const char *directory, uint64_t manifest_hash) {
    char *path = path_join(directory, "doctor.json"), *hash = xformat("%016llx", (unsigned long long)manifest_hash);
    json_t *report = json_read(path, 0, NULL);
    const char *of = json_string_value(json_object_get(report, "manifest"));
    if (!of || strcmp(of, hash)) {
        json_decref(report);
        report = json_build("doctor.json", "{s:s}", "manifest", hash);
    }
    free(path);
    free(hash);
    return report;
}

static void write_report(const char *directory, json_t *report) {
    char *path = path_join(directory, "doctor.json"), *text = json_text(path, report, JSON_INDENT(1));
    Error error;
    if (!file_write_atomic(path, text, strlen(text), &error)) die("%s", error.text);
    free(text);
    free(path);
}

static void make_data(const Options *o) {
    char *directory = o->manifest ? path_directory(o->manifest) : xstrdup(o->output);
    char *path = o->manifest ? xstrdup(o->manifest) : path_join(directory, "manifest.csv");
    PsdScan scan = {0};
    PsdStore store;
    FileLock lock;
    Error error;
    PsdManifest manifest = lock_manifest(o, path, &scan, &lock);
    int64_t lost = o->manifest ? psd_scan_copies(&manifest, path, (int)o->num_workers, &scan) : 0;
    if (lost) printf("[Doctor] %lld files cannot be read: whether they are copies is not known\n", (long long)lost);
    uint64_t hash = hash_of(path);
    json_t *report = begin_report(directory, hash);
    if (!o->manifest) psd_doctor_files(report, &scan);
    psd_doctor_rows(report, &manifest);
    PsdGroups groups = psd_groups_of(&manifest, &scan);
    write_splits(o, directory, &groups, hash, report);
    if (!psd_store_open(&store, path, &o->hop, &o->limit, (int)o->num_workers, &error)) die("%s", error.text);
    json_object_set_new(report, "samples", json_integer((json_int_t)store.n));
    write_report(directory, report);
    file_unlock(&lock);
    psd_store_close(&store);
    psd_groups_free(&groups);
    psd_scan_close(&scan);
    psd_manifest_close(&manifest);
    json_decref(report);
    free(directory);
    free(path);
}

int main(int argc, char **argv) {
    static const OptionsHeader header = {"prepare_psd", "./prepare_psd --input DIR --output data [options]",
                                         "Makes a manifest, splits and samples from recorded spectra."};
    Options o = {0};
    Option rows[OPTIONS_MOST];
    int count = option_rows(&o, rows);
    program_start();
    options_parse(&header, rows, count, argc, argv);
    check_options(&o, rows, count);
    if (o.synthetic)
        make_synthetic(&o);
    else
        make_data(&o);
    return 0;
}
