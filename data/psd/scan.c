#include "data/psd/scan.h"

#include <fts.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unistr.h>

#include "base/file.h"
#include "base/threads.h"
#include "data/formats/csv.h"
#include "data/formats/npy.h"
#include "data/formats/text_source.h"
#include "data/psd/preprocess.h"
#include "data/text/label.h"
#include "data/unfinished.h"

const char *const PSD_REJECT_NAMES[PSD_REJECT_REASONS] = {"accepted", "a single number", "no rows",
                                                          "rows of zero width"};

/* ---- finding files ---- */

/* Returns the sensor of a file: the folder below the first one with "spectrum_bands" in its name; otherwise the parent
 * of the file's folder, or if there is none the file's folder. free(); NULL if there is no folder. */
static char *file_sensor(const char *path) {
    const char *slash[3] = {NULL}; /* the last three, in reverse order */
    for (const char *part = path, *end; (end = strchr(part, '/')); part = end + 1) {
        const char *next = strchr(end + 1, '/'), *mark = strcasestr(part, "spectrum_bands");
        if (next && mark && mark < end) return xformat("%.*s", (int)(next - end - 1), end + 1);
        slash[2] = slash[1];
        slash[1] = slash[0];
        slash[0] = end;
    }
    if (!slash[0]) return NULL;
    const char *end = slash[1] ? slash[1] : slash[0], *begin = slash[1] ? slash[2] : slash[1];
    begin = begin ? begin + 1 : path;
    return begin == end ? NULL : xformat("%.*s", (int)(end - begin), begin);
}

static bool add_file(PsdScan *scan, const char *path, Error *error) {
    if (!strncmp(path, "./", 2)) path += 2;
    if (u8_check((const uint8_t *)path, strlen(path))) return error_set(error, "%s: its name is not UTF-8", path);
    char *sensor = file_sensor(path);
    if (!sensor) return error_set(error, "%s: no folder that could be its sensor; expected SENSOR/DAY/NAME.npy", path);
    scan->files = xgrow(scan->files, (size_t)scan->n, sizeof *scan->files);
    scan->files[scan->n++] = (PsdFile){.path = xstrdup(path), .sensor = sensor};
    return true;
}

/* Counts a file that is not read. */
static void count_other(PsdScan *scan, const char *name) {
    int foreign = foreign_format(name);
    if (foreign >= 0) scan->foreign[foreign]++;
    scan->others += foreign >= 0;
}

static bool find_files(const char *directory, PsdScan *scan, Error *error) {
    OWNED char *root = xstrdup(directory);
    for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--) root[n - 1] = 0;
    FTS *tree = fts_open((char *const[]){root, NULL}, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    if (!tree) die("cannot list %s", directory);
    bool ok = true;
    for (FTSENT *entry; ok && (entry = fts_read(tree));) {
        int kind = entry->fts_info;
        if (kind == FTS_ERR || kind == FTS_DNR || kind == FTS_NS)
            ok = error_set(error, "%s: %s", entry->fts_path, strerror(entry->fts_errno));
        else if (kind == FTS_DC)
            ok = error_set(error, "%s: the folder contains a link to itself", entry->fts_path);
        else if (kind == FTS_F && path_ending(entry->fts_name, ".npy"))
            ok = add_file(scan, entry->fts_path, error);
        else if (kind == FTS_F)
            count_other(scan, entry->fts_name);
        else
            scan->not_regular += (kind == FTS_DEFAULT || kind == FTS_SLNONE) && path_ending(entry->fts_name, ".npy");
    }
    fts_close(tree);
    if (!ok || scan->n) return ok;
    OWNED char *foreign = foreign_text(scan->foreign);
    return error_set(error, "%s: there are no .npy files in it%s%s", directory,
                     scan->not_regular ? ", but FIFOs, devices or broken links of such names" : "", foreign);
}

/* Orders by sensor, then by path, component by component: a slash comes before all other characters. */
static int compare_files(const void *a, const void *b) {
    const PsdFile *x = a, *y = b;
    int order = strcmp(x->sensor, y->sensor);
    if (order) return order;
    const unsigned char *p = (const unsigned char *)x->path, *q = (const unsigned char *)y->path;
    for (; *p && *p == *q; p++) q++;
    return (*p == '/' ? 1 : *p == 0 ? 0 : *p + 1) - (*q == '/' ? 1 : *q == 0 ? 0 : *q + 1);
}

/* ---- labels ---- */

enum { DAB, DVBT, FM, GSM, LTE, TETRA };

static int band_label(double center) {
    static const struct {
        double low, high; /* MHz */
        int label;
    } bands[] = {{80, 130, FM}, {180, 240, DAB}, {360, 400, TETRA}, {420, 780, DVBT}, {790, 830, LTE}, {930, 980, GSM}};
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++)
        if (center >= bands[i].low && center <= bands[i].high) return bands[i].label;
    return PSD_UNKNOWN;
}

/* Returns the technology that is written at `at` between delimiters, or PSD_UNKNOWN. */
static int token_at(const char *at, const char *delimiters) {
    if (*at != '_' && *at != '-') return PSD_UNKNOWN;
    for (int label = 0; label < PSD_UNKNOWN; label++) {
        size_t n = strlen(PSD_LABEL_NAMES[label]);
        if (!strncasecmp(at + 1, PSD_LABEL_NAMES[label], n) && at[1 + n] && strchr(delimiters, at[1 + n])) return label;
    }
    return PSD_UNKNOWN;
}

/* Returns the first technology in the name; with `compat` the one that the reference searches for first. */
static int name_token(const char *stem, bool compat) {
    static const int rank[PSD_LABELS] = {
        [FM] = 0, [DAB] = 1, [TETRA] = 2, [DVBT] = 3, [LTE] = 4, [GSM] = 5, [PSD_UNKNOWN] = 6};
    OWNED char *between = xformat("_%s_", stem);
    int best = PSD_UNKNOWN;
    for (const char *at = between; *at && (compat || best == PSD_UNKNOWN); at++) {
        int label = token_at(at, compat ? "_-" : "_-.");
        if (rank[label] < rank[best]) best = label;
    }
    return best;
}

/* Reads the frequencies from a name with SpectrumBands_LOW_HIGH_ in it. */
static void parse_frequencies(const char *stem, bool compat, PsdFile *file) {
    static const char mark[] = "SpectrumBands_";
    for (const char *at = stem; (at = strstr(at, mark)) && (at == stem || !compat); at++) {
        const char *low = at + strlen(mark), *high = low + strspn(low, "0123456789") + 1;
        if (high == low + 1 || high[-1] != '_') continue;
        size_t n = strspn(high, "0123456789");
        if (!n || high[n] != '_') continue;
        file->begin = strtod(low, NULL);
        file->end = strtod(high, NULL);
        file->center = (file->begin + file->end) / 2;
        return;
    }
}

/* ---- NAME.csv ---- */

/* Reads the number in the column `name` of the first row; NaN if there is no such column or the field is empty. */
static bool take(const Csv *head, const Csv *row, const char *name, double *out, Error *error) {
    int i;
    *out = (double)NAN;
    if (!csv_column(head, name, NULL, &i, error)) return false;
    if (i < 0) return true;
    if (i >= row->n)
        return error_set(error, "%lld: has %d fields; the first line has %d", (long long)row->line, row->n, head->n);
    return !*row->fields[i] || csv_decimal(row, row->fields[i], out) ||
           error_set(error, "%lld: %s is '%.100s'; expected a number or nothing", (long long)row->line, name,
                     row->fields[i]);
}

/* Returns the complaint of a table that has neither both frequencies nor an SNR; NULL: it has; free(). */
static char *complaint(const Csv *head) {
    static const char *const frequencies[] = {"begin_freq", "end_freq"}, *const others[] = {"SNR", "snr"};
    Error why;
    int place;
    for (int i = 0; i < 2; i++)
        if (csv_column(head, others[i], NULL, &place, &why) && place >= 0) return NULL;
    for (int i = 0; i < 2; i++)
        if (!csv_column(head, frequencies[i], "", &place, &why)) return xstrdup(why.text);
    return NULL;
}

static bool parse_sidecar(char *text, size_t size, PsdFile *file, Error *error) {
    OWNED_BY(csv_close) Csv csv = {0};
    OWNED_BY(csv_close) Csv head = {0};
    double other;
    if (!csv_open(&csv, text, size, ',', error)) return false;
    bool ok = csv_next(&csv, error);
    head = csv;
    csv.fields = NULL;
    csv.capacity = 0;
    ok = ok && csv_next(&csv, error) && take(&head, &csv, "begin_freq", &file->begin, error) &&
         take(&head, &csv, "end_freq", &file->end, error) && take(&head, &csv, "SNR", &other, error) &&
         take(&head, &csv, "snr", &file->sidecar_snr, error);
    if (ok && isnan(file->sidecar_snr)) file->sidecar_snr = other;
    if (ok) file->side = complaint(&head);
    return ok || !error->text[0]; /* a table without rows is no error */
}

/* Returns how many of a side file's unit are a MHz. Receivers hear 10 MHz to 10 GHz, so the magnitude tells MHz, kHz
 * and Hz apart. The reference takes all above 1000 for kHz, also the 1815 MHz of GSM and LTE. */
static double frequency_unit(double center, bool compat) {
    double most = compat ? 1e3 : 1e4;
    return center > most * 1e3 ? 1e6 : center > most ? 1e3 : 1;
}

/* Returns the path of NAME.csv, or NAME.CSV; NULL: there is none. free() */
static char *find_sidecar(const char *path) {
    for (int i = 0; i < 2; i++) {
        char *found = xformat("%.*s.%s", (int)(strlen(path) - 4), path, i ? "CSV" : "csv");
        if (!access(found, F_OK)) return found;
        free(found);
    }
    return NULL;
}

/* Reads NAME.csv. Its frequencies may be in Hz, kHz or MHz. */
static bool read_sidecar(const char *path, bool compat, PsdFile *file, Error *error) {
    OWNED char *text = NULL;
    size_t size;
    if (!text_read(path, &text, &size, error) || !parse_sidecar(text, size, file, error))
        return error_before(error, "%s: ", path);
    double center = (file->begin + file->end) / 2, unit = frequency_unit(center, compat);
    file->center = center / unit;
    if (compat) return true;
    file->begin /= unit;
    file->end /= unit;
    return true;
}

static bool describe(PsdFile *file, bool compat, Error *error) {
    const char *name = path_name(file->path);
    OWNED char *stem = xformat("%.*s", (int)(strlen(name) - 4), name);
    OWNED char *sidecar = find_sidecar(file->path);
    file->begin = file->end = file->center = file->sidecar_snr = (double)NAN;
    bool ok = !sidecar || read_sidecar(sidecar, compat, file, error);
    double begin = file->begin, end = file->end;
    if (isnan(file->center)) parse_frequencies(stem, compat, file);
    if (compat) {
        file->begin = begin;
        file->end = end;
    }
    file->token = name_token(stem, compat);
    file->band = band_label(file->center);
    int first = compat ? file->band : file->token, second = compat ? file->token : file->band;
    file->label = first == PSD_UNKNOWN ? second : first;
    return ok;
}

/* ---- contents ---- */

static bool inspect_rows(PsdFile *file, const Npy *npy, bool compat, Error *error) {
    const PsdPreprocessing options = {false, compat ? 0 : PSD_LIMIT};
    OWNED_BY(psd_scratch_free) PsdScratch scratch = {0};
    file->snr = xmalloc((size_t)file->rows * sizeof *file->snr);
    OWNED double *row = xmalloc((size_t)file->width * sizeof *row);
    for (int64_t i = 0; i < file->rows; i++) {
        float out[PSD_BINS];
        PsdRow found;
        Error why;
        npy_to_f64(npy, i * file->width, file->width, row);
        bool usable = psd_preprocess(row, file->width, &options, &scratch, out, &found, &why);
        file->snr[i] = usable ? found.snr : (double)NAN;
        bool half = !compat && found.not_finite < file->width && psd_is_half_missing(&found, file->width);
        file->half += half;
        if (!usable && (half || found.not_finite == file->width))
            file->lost++;
        else if (!usable)
            return error_set(error, "%s: row %lld: %s", file->path, (long long)i, why.text);
        else
            file->not_finite += found.not_finite;
        file->constant += usable && found.constant;
    }
    return true;
}

static bool read_array(PsdFile *file, bool compat, Error *error) {
    OWNED char *bytes = NULL;
    size_t size;
    Npy npy;
    if (!read_file(file->path, &bytes, &size, error) || !npy_parse(bytes, size, &npy, error))
        return error_before(error, "%s: ", file->path);
    if (npy.rank > 2) return error_set(error, "%s: has %d dimensions; expected rows of bins", file->path, npy.rank);
    file->hash = hash_bytes(HASH_START, bytes, size);
    file->rows = npy.rank == 2 ? npy.dims[0] : npy.rank;
    file->width = npy.rank ? npy.dims[npy.rank - 1] : 0;
    file->reject_reason = !npy.rank      ? PSD_REJECT_SCALAR
                          : !file->rows  ? PSD_REJECT_NO_ROWS
                          : !file->width ? PSD_REJECT_ZERO_WIDTH
                                         : PSD_ACCEPTED;
    return file->reject_reason != PSD_ACCEPTED || inspect_rows(file, &npy, compat, error);
}

static int compare_hashes(const void *a, const void *b) {
    const PsdFile *x = *(PsdFile *const *)a, *y = *(PsdFile *const *)b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void find_duplicates(PsdScan *scan) {
    OWNED PsdFile **sorted = xmalloc((size_t)scan->n * sizeof *sorted);
    for (int64_t i = 0; i < scan->n; i++) sorted[i] = &scan->files[i];
    qsort(sorted, (size_t)scan->n, sizeof(PsdFile *), compare_hashes);
    for (int64_t i = 0; i < scan->n; i++)
        sorted[i]->same_as =
            i && sorted[i]->hash == sorted[i - 1]->hash ? sorted[i - 1]->same_as : sorted[i] - scan->files;
}

static bool read_file_of(void *scan, int64_t i, Error *error) {
    const PsdScan *s = scan;
    return describe(&s->files[i], s->compat, error) && read_array(&s->files[i], s->compat, error);
}

/* Gives a sensor one spelling: otherwise its recordings in a second folder would not be left out with it. */
static void unify_sensors(PsdScan *scan) {
    OWNED char ***sensors = xmalloc((size_t)scan->n * sizeof *sensors);
    for (int64_t i = 0; i < scan->n; i++) sensors[i] = &scan->files[i].sensor;
    scan->respelled = labels_unify(sensors, scan->n);
}

bool psd_scan(const char *directory, bool compat, int n_threads, PsdScan *scan, Error *error) {
    *scan = (PsdScan){.compat = compat};
    OWNED char *above = path_join(directory, ".."); /* DIRECTORY may be .../spectrum_bands */
    bool ok =
        unfinished_check(directory, error) && unfinished_check(above, error) && find_files(directory, scan, error);
    if (ok) {
        unify_sensors(scan);
        qsort(scan->files, (size_t)scan->n, sizeof *scan->files, compare_files);
        ok = threads_each(scan->n, n_threads, read_file_of, scan, error);
    }
    if (ok)
        find_duplicates(scan);
    else
        psd_scan_close(scan);
    return ok;
}

int64_t psd_scan_copies(const PsdManifest *m, const char *manifest_path, int n_threads, PsdScan *scan) {
    int64_t lost = 0;
    *scan = (PsdScan){.files = xcalloc((size_t)m->n_files, sizeof *scan->files), .n = m->n_files};
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) reduction(+ : lost)
    for (int64_t i = 0; i < scan->n; i++) {
        PsdFile *file = &scan->files[i];
        OWNED char *path = psd_manifest_file(manifest_path, m->file_paths[i]);
        OWNED char *bytes = NULL;
        size_t size;
        file->path = xstrdup(m->file_paths[i]);
        bool there = read_file(path, &bytes, &size, NULL);
        file->hash = there ? hash_bytes(HASH_START, bytes, size) : (uint64_t)i; /* a different one for each */
        lost += !there;
    }
    find_duplicates(scan);
    return lost;
}

void psd_scan_close(PsdScan *scan) {
    for (int64_t i = 0; i < scan->n; i++)
        FREE(scan->files[i].path, scan->files[i].listed, scan->files[i].side, scan->files[i].sensor,
             scan->files[i].snr);
    free(scan->files);
    *scan = (PsdScan){0};
}

/* ---- the manifest ---- */

static void add_row(PsdManifest *m, const PsdFile *file, int64_t row, bool compat) {
    m->files[m->n] = m->n_files - 1;
    m->sensors[m->n] = m->n_sensors - 1;
    m->labels[m->n] = file->label;
    m->row_index[m->n] = row;
    m->num_bins[m->n] = file->width;
    m->center[m->n] = file->center;
    m->begin[m->n] = file->begin;
    m->end[m->n] = file->end;
    m->snr[m->n++] = compat ? file->sidecar_snr : file->snr[row];
}

bool psd_scan_lists(const PsdScan *scan, const PsdFile *file) {
    return file->reject_reason == PSD_ACCEPTED ? file->lost < file->rows
                                               : file->reject_reason == PSD_REJECT_ZERO_WIDTH && scan->compat;
}

bool psd_scan_usable(const PsdScan *scan, const char *directory, Error *error) {
    int64_t lost = 0, half = 0, empty = 0;
    for (int64_t i = 0; i < scan->n; i++) {
        const PsdFile *f = &scan->files[i];
        if (psd_scan_lists(scan, f)) return true;
        lost += f->lost - f->half;
        half += f->half;
        empty += f->reject_reason != PSD_ACCEPTED;
    }
    return error_set(error,
                     "%s: none of its %lld .npy files has a row that can be used: %lld rows have no finite bin, %lld "
                     "are half NaN, %lld files have no rows of bins",
                     directory, (long long)scan->n, (long long)lost, (long long)half, (long long)empty);
}

PsdManifest psd_scan_manifest(const PsdScan *scan) {
    int64_t rows = 0;
    for (int64_t i = 0; i < scan->n; i++)
        if (psd_scan_lists(scan, &scan->files[i])) rows += scan->files[i].rows;
    PsdManifest m = psd_manifest_new(rows, (int)scan->n, (int)scan->n);
    for (int64_t i = 0; i < scan->n; i++) {
        const PsdFile *file = &scan->files[i];
        if (!psd_scan_lists(scan, file)) continue;
        m.file_paths[m.n_files++] = xstrdup(file->path);
        if (!m.n_sensors || strcmp(m.sensor_names[m.n_sensors - 1], file->sensor))
            m.sensor_names[m.n_sensors++] = xstrdup(file->sensor);
        for (int64_t row = 0; row < file->rows; row++)
            if (file->reject_reason == PSD_REJECT_ZERO_WIDTH || !isnan(file->snr[row]))
                add_row(&m, file, row, scan->compat);
    }
    return m;
}
