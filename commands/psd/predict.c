/* train_psd predict: the technology of every spectrum of a folder or a manifest, by one classifier or the mean of
 * several. The spectra need no labels. */
#include "commands/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/threads.h"
#include "commands/psd/psd.h"
#include "data/psd/manifest.h"
#include "data/psd/scan.h"
#include "report/calibration.h"

/* ---- spectra ---- */

typedef struct {
    PsdManifest manifest;
    PsdStore store;
    PsdIds rows; /* the manifest's rows that have samples; these are all samples, in the store's order */
} Spectra;

/* Prints which recordings and rows have no spectrum to predict. */
static void print_left_out(const PsdScan *scan, const PsdManifest *m) {
    int64_t rejected[PSD_REJECT_REASONS] = {0}, lost = 0, half = 0;
    for (int64_t i = 0; i < scan->n; i++) {
        rejected[scan->files[i].reject_reason]++;
        lost += scan->files[i].lost - scan->files[i].half;
        half += scan->files[i].half;
    }
    printf("[Input] %lld rows of %lld .npy files\n", (long long)m->n, (long long)scan->n);
    for (int k = PSD_ACCEPTED + 1; k < PSD_REJECT_REASONS; k++)
        if (rejected[k]) printf("[Input] left out: %lld files, %s\n", (long long)rejected[k], PSD_REJECT_NAMES[k]);
    if (lost) printf("[Input] left out: %lld rows without a finite bin\n", (long long)lost);
    if (half) printf("[Input] left out: %lld rows of which half of the bins are NaN\n", (long long)half);
    if (scan->others) printf("[Input] left out: %lld files of other formats\n", (long long)scan->others);
    foreign_print("Input", scan->foreign);
    if (scan->not_regular)
        printf("[Input] left out: %lld names that are not regular files\n", (long long)scan->not_regular);
}

/* Reads the recordings of a folder into a manifest. */
static PsdManifest manifest_of_folder(const char *folder, int n_threads) {
    PsdScan scan;
    MUST(psd_scan(folder, false, n_threads, &scan, &error));
    PsdManifest m = psd_scan_manifest(&scan);
    print_left_out(&scan, &m);
    MUST(psd_scan_usable(&scan, folder, &error));
    psd_scan_close(&scan);
    return m;
}

/* Writes a manifest with absolute paths, which are found from everywhere, into a temporary folder; returns its path,
 * free(). manifest: the file that relative paths belong to; NULL: the working directory. */
static char *write_temporary(const PsdManifest *m, const char *manifest) {
    PsdManifest absolute = *m;
    const char *folder;
    absolute.file_paths = xcalloc((size_t)m->n_files, sizeof *absolute.file_paths);
    for (int i = 0; i < m->n_files; i++) {
        OWNED char *path = manifest ? psd_manifest_file(manifest, m->file_paths[i]) : xstrdup(m->file_paths[i]);
        absolute.file_paths[i] = path_absolute(path);
    }
    MUST((folder = directory_temporary("train_psd", &error)) != NULL);
    char *path = path_join(folder, "manifest.csv");
    MUST(psd_manifest_write(path, &absolute, &error));
    for (int i = 0; i < m->n_files; i++) free(absolute.file_paths[i]);
    free(absolute.file_paths);
    return path;
}

/* Returns whether the store beside a manifest has other samples than these, and must stay as it is. */
static bool has_other_store(const PsdOptions *o, const char *manifest, int n_threads) {
    PsdStore store;
    Error error;
    OWNED char *path = psd_store_path(manifest);
    if (access(path, F_OK)) return false;
    if (!psd_data_store(o, path, n_threads, &store, &error)) return true;
    psd_store_close(&store);
    return false;
}

static Spectra open_spectra(const PsdOptions *o) {
    Spectra s = {0};
    int n_threads = threads_take((int)o->train.threads, "--threads");
    const char *given = o->train.manifest.text[0];
    if (path_ending(given, ".safetensors"))
        die_usage("%s: a store does not name recordings; give the manifest (.csv) beside it", given);
    bool folder = !path_ending(given, ".csv");
    if (folder)
        s.manifest = manifest_of_folder(given, n_threads);
    else
        MUST(psd_manifest_read(given, &s.manifest, &error));
    OWNED char *path = folder || has_other_store(o, given, n_threads)
                           ? write_temporary(&s.manifest, folder ? NULL : given)
                           : xstrdup(given);
    MUST(psd_data_store(o, path, n_threads, &s.store, &error));
    directory_remove_temporary(); /* what is open stays readable */
    s.rows = (PsdIds){xmalloc((size_t)s.store.n * sizeof *s.rows.at), 0};
    for (int64_t i = 0; i < s.store.n; i++)
        if (!i || s.store.rows[i] != s.store.rows[i - 1]) s.rows.at[s.rows.n++] = s.store.rows[i];
    if (s.rows.n < s.manifest.n)
        printf("[Input] left out: %lld rows too narrow for a sample\n", (long long)(s.manifest.n - s.rows.n));
    return s;
}

/* Opens all samples, as an encoder of this kind reads them. */
static Dataset *open_samples(const PsdOptions *o, const Spectra *s) {
    PsdDatasetOptions options = {.cnn = !strcmp(o->model.encoder, "cnn"), .classes = PSD_CLASSES, .unlabelled = true};
    return psd_dataset_open(&s->store, &s->rows, &options);
}

static void close_spectra(Spectra *s) {
    free(s->rows.at);
    psd_store_close(&s->store);
    psd_manifest_close(&s->manifest);
}

/* ---- classifiers ---- */

/* Probabilities, summed over the classifiers. */
typedef struct {
    int64_t n;
    double *plain, *calibrated; /* [n, classes] */
    int models, calibrations;   /* how many there are, and how many have a calibration */
} Sums;

/* Reads the calibration of a checkpoint that --calibration names, and checks all others. False: there is none, or none
 * is wanted. */
static bool read_calibration(const PsdOptions *o, Calibration *calibration) {
    const char *checkpoint = o->train.base_checkpoint, *kind = o->test.calibration;
    bool automatic = !strcmp(kind, "auto"), found = false;
    const char *wanted = automatic ? CALIBRATION_NAMES[CALIBRATION_TEMPERATURE] : kind;
    const json_t *fit;
    size_t i;
    Error error;
    if (!strcmp(kind, "none")) return false;
    json_auto_t *decision = decision_read(checkpoint, &error);
    const json_t *fits = json_object_get(decision, "calibrations");
    if (!decision && error.text[0]) die("%s", error.text);
    if (decision && !json_is_array(fits)) {
        json_refuse(&error, "calibrations", "an array", fits);
        die("the decision.json of %s: %s", checkpoint, error.text);
    }
    json_array_foreach(fits, i, fit) {
        Calibration one;
        if (!calibration_from_json(fit, PSD_CLASSES, &one, &error))
            die("the decision.json of %s: entry %zu of \"calibrations\": %s", checkpoint, i, error.text);
        if (!found && !strcmp(CALIBRATION_NAMES[one.kind], wanted))
            *calibration = one, found = true;
        else
            calibration_free(&one);
    }
    if (!found && !automatic)
        die("--calibration %s: %s has none; train_psd calibrate fits and keeps it", kind, checkpoint);
    return found;
}

static void add_probabilities(double *sum, const double *p, int64_t n) {
    for (int64_t i = 0; i < n * PSD_CLASSES; i++) sum[i] += p[i];
}

/* Adds the probabilities of logits. */
static void add_logits(const PsdOptions *o, const Spectra *s, double *logits, Sums *sums) {
    int64_t n = sums->n;
    OWNED double *p = xmalloc((size_t)(n * PSD_CLASSES) * sizeof *p), *snr = xmalloc((size_t)n * sizeof *snr);
    for (int64_t i = 0; i < n; i++) snr[i] = (double)s->store.snr[i];
    Predictions predictions = {.n = n,
                               .classes = PSD_CLASSES,
                               .class_names = PSD_LABEL_NAMES,
                               .logits = logits,
                               .covariate = {.values = snr, .limit = 1000, .bin = 5, .name = "snr"}};
    Calibration calibration = {0};
    bool calibrated = read_calibration(o, &calibration);
    MUST(metrics_softmax(logits, n, PSD_CLASSES, 1, p, &error));
    add_probabilities(sums->plain, p, n);
    if (calibrated) MUST(calibration_apply(&calibration, &predictions, p, &error));
    if (calibrated) add_probabilities(sums->calibrated, p, n);
    printf("[Predict] %s: %s%s\n", o->train.base_checkpoint, calibrated ? "calibrated by " : "not calibrated",
           calibrated ? CALIBRATION_NAMES[calibration.kind] : "");
    sums->models++;
    sums->calibrations += calibrated;
    calibration_free(&calibration);
}

/* Dies if a classifier was trained on other samples than those that were made for the first one. */
static void check_samples(const PsdOptions *o, const PsdStore *store) {
    bool hop = options_given(&o->set, "hop") && o->data.hop != store->options.hop;
    bool limit = options_given(&o->set, "limit") && o->data.limit != store->options.limit;
    if (hop || limit)
        die("%s was trained %s --hop and with --limit %g, the first model %s --hop and with --limit %g: they cannot "
            "predict the same samples; run predict once for each",
            o->train.base_checkpoint, o->data.hop ? "with" : "without", o->data.limit,
            store->options.hop ? "with" : "without", store->options.limit);
}

static void add_classifier(PsdOptions *o, const Spectra *s, PsdClassifierOpen open, Sums *sums) {
    int64_t n = sums->n;
    check_samples(o, &s->store);
    TrainSpec spec = {TRAINER_INFERENCE(&o->train, &o->set, o->device, o->device_why), .model = open(o, NULL),
                      .train = open_samples(o, s), .batch = {.largest = psd_largest_batch},
                      .import = psd_checkpoint_rules(o)};
    Training *training = train_open_inference(&spec);
    OWNED float *outputs = xmalloc((size_t)(n * PSD_CLASSES) * sizeof *outputs);
    double *logits = xmalloc((size_t)(n * PSD_CLASSES) * sizeof *logits), start = seconds_now();
    train_outputs(training, spec.train, outputs);
    printf("[Predict] %lld samples, %.0f samples/s\n", (long long)n, (double)n / (seconds_now() - start));
    for (int64_t i = 0; i < n * PSD_CLASSES; i++) logits[i] = (double)outputs[i];
    train_close(training);
    trainer_close(&spec);
    add_logits(o, s, logits, sums);
    free(logits);
}

/* ---- the table ---- */

/* Adds the probabilities of a sample, as means over the classifiers. */
static void probability_columns(Table *t, const char *name, const double *sums, int models) {
    for (int c = 0; c < PSD_CLASSES; c++) {
        OWNED char *column = xformat("%s_%s", name, PSD_LABEL_NAMES[c]);
        table_real(t, column, sums[c] / models);
    }
}

/* Writes a row per sample, and counts the classes. */
static void write_rows(const Spectra *s, const Sums *sums, PredictOutput *output, int64_t counts[PSD_CLASSES]) {
    Table t = {0};
    const PsdStore *store = &s->store;
    bool labelled = false, calibrated = sums->calibrations == sums->models;
    const double *decides = calibrated ? sums->calibrated : sums->plain;
    OWNED int32_t *predictions = xmalloc((size_t)sums->n * sizeof *predictions);
    MUST(metrics_predict(decides, sums->n, PSD_CLASSES, predictions, &error));
    for (int64_t i = 0; i < store->n; i++) labelled |= store->labels[i] < PSD_CLASSES;
    for (int64_t i = 0, chunk = 0; i < sums->n; i++) {
        const double *plain = sums->plain + i * PSD_CLASSES, *best = decides + i * PSD_CLASSES;
        int predicted = predictions[i], label = store->labels[i];
        counts[predicted]++;
        chunk = i && store->rows[i - 1] == store->rows[i] ? chunk + 1 : 0;
        table_text(&t, "file", s->manifest.file_paths[store->files[i]]);
        table_count(&t, "row", s->manifest.row_index[store->rows[i]]);
        if (store->options.hop) table_count(&t, "chunk", chunk);
        table_text(&t, "sensor", store->sensor_names[store->sensors[i]]);
        table_real(&t, "snr", (double)store->snr[i]);
        if (labelled) table_text(&t, "label", label < PSD_CLASSES ? PSD_LABEL_NAMES[label] : "");
        table_text(&t, "predicted", PSD_LABEL_NAMES[predicted]);
        table_real(&t, "confidence", best[predicted] / sums->models);
        probability_columns(&t, "p", plain, sums->models);
        if (calibrated) probability_columns(&t, "p_calibrated", best, sums->models);
        predict_output_row(output, &t);
    }
    predict_output_close(output, &t);
    table_free(&t);
}

static void write_predictions(const Spectra *s, const Sums *sums, PredictOutput *output) {
    int64_t counts[PSD_CLASSES] = {0};
    if (sums->calibrations && sums->calibrations < sums->models)
        warn("%d of %d models have a calibration: no calibrated probabilities are written", sums->calibrations,
             sums->models);
    write_rows(s, sums, output, counts);
    predict_print_counts(sums->models, PSD_LABEL_NAMES, counts, PSD_CLASSES, "sample");
}

int psd_predict(PsdOptions *o, PsdClassifierOpen open) {
    Ensemble ensemble = predict_ensemble(&o->predict, NULL);
    PredictOutput output = predict_output_open(&o->predict);
    Spectra spectra = {0};
    Sums sums = {0};
    for (int k = 0; k < ensemble.n; k++) {
        PsdOptions *with = psd_options_open(ensemble.paths[k], o->argc, o->argv);
        with->train.val_batch_size = with->train.batch_size;
        with->device = o->device;
        with->device_why = o->device_why;
        if (!k) {
            spectra = open_spectra(with);
            sums.n = spectra.store.n;
            sums.plain = xcalloc((size_t)(sums.n * PSD_CLASSES), sizeof *sums.plain);
            sums.calibrated = xcalloc((size_t)(sums.n * PSD_CLASSES), sizeof *sums.calibrated);
        }
        add_classifier(with, &spectra, open, &sums);
        psd_options_close(with);
    }
    write_predictions(&spectra, &sums, &output);
    FREE(sums.plain, sums.calibrated);
    close_spectra(&spectra);
    predict_ensemble_free(&ensemble);
    return 0;
}
