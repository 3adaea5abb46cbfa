/* Manifests of spectra: CSV, what a folder of recordings becomes, and every way in which a manifest or a folder is
 * wrong.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "data/formats/csv.h"
#include "data/psd/manifest.h"
#include "data/psd/scan.h"
#include "tests/files.h"

static Error error;

/* ---- CSV ---- */

TEST(fields_in_quotes_hold_anything) {
    char text[] = "\xEF\xBB\xBF"
                  "a,\"b, \"\"c\"\"\",\r\n\n\"two\nlines\",,x\nlast";
    static const char *const want[3][3] = {{"a", "b, \"c\"", ""}, {"two\nlines", "", "x"}, {"last"}};
    static const int64_t lines[3] = {1, 3, 5}, counts[3] = {3, 3, 1};
    Csv csv;
    assert_true(csv_open(&csv, text, sizeof text - 1, ',', &error));
    for (int r = 0; r < 3; r++) {
        assert_true(csv_next(&csv, &error));
        assert_int_equal(csv.line, lines[r]);
        assert_int_equal(csv.n, counts[r]);
        for (int i = 0; i < csv.n; i++) assert_string_equal(csv.fields[i], want[r][i]);
    }
    assert_false(csv_next(&csv, &error));
    assert_string_equal(error.text, "");
    csv_close(&csv);
}

static void expect_csv_refused(const char *text, size_t size, const char *message) {
    char *copy = xcalloc(size + 1, 1);
    memcpy(copy, text, size);
    Csv csv;
    bool ok = csv_open(&csv, copy, size, ',', &error);
    while (ok && csv_next(&csv, &error)) {
    }
    assert_string_equal(error.text, message);
    csv_close(&csv);
    free(copy);
}

TEST(wrong_csv_is_refused) {
#define REFUSED(text, message) expect_csv_refused(text, sizeof text - 1, message)
    REFUSED("a\nb,\"c\nd", "2:3: the quote is not closed; close it behind the field");
    REFUSED("a\nb,\"c\"d",
            "2:6: text behind a closing quote; write such a field in quotes, and each quote in it twice");
    REFUSED("a\"b\n", "1:2: a quote inside a field that does not begin with one; write such a field in quotes, and "
                      "each quote in it twice");
    REFUSED("a\n\nb\xff",
            "3: is not UTF-8; it may be Western text of Windows: convert it with iconv -f WINDOWS-1252 -t "
            "UTF-8 FILE >NEW, and look at the result");
    REFUSED("a\n\0b\xff", "2: has a zero byte; take it out");
#undef REFUSED
}

TEST(numbers_are_read_strictly) {
    static const char *const wrong[] = {"", "nan", "inf", "0x10", " 1", "1 ", "1e", "1,5", "1e999", "--1"};
    double value;
    int64_t whole;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(csv_number(wrong[i], &value));
        assert_false(csv_integer(wrong[i], &whole));
    }
    assert_true(csv_number("-1.5e-3", &value) && value == -1.5e-3);
    assert_true(csv_integer("-9223372036854775807", &whole) && whole == -INT64_MAX);
    assert_false(csv_integer("9223372036854775808", &whole) || csv_integer("-", &whole) || csv_integer("1.0", &whole));
}

/* Expects numbers as CPython's repr prints them. */
TEST(numbers_are_written_as_python_does) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{80, "80.0"},
                 {942.5, "942.5"},
                 {0.1, "0.1"},
                 {1.0 / 3, "0.3333333333333333"},
                 {-0.0001, "-0.0001"},
                 {0.00001, "1e-05"},
                 {1e15, "1000000000000000.0"},
                 {1e16, "1e+16"},
                 {0, "0.0"},
                 {1.2345e22, "1.2345e+22"},
                 {(double)NAN, ""},
                 {123456789.123, "123456789.123"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64] = "";
        FILE *file = fmemopen(text, sizeof text, "w");
        csv_write_number(file, cases[i].value);
        fclose(file);
        assert_string_equal(text, cases[i].text);
    }
}

/* ---- the manifest ---- */

static char *manifest_path(void) {
    char *directory = kept_folder(), *path = kept_path(directory, "manifest.csv");
    return path;
}

TEST(columns_are_found_by_name) {
    char *path = manifest_path();
    write_text(path, "label,extra,num_bins,npy_path,sensor_id,row_index,snr\r\n"
                     "tetra,x,300,\"b,1.npy\",Z,7,\r\nunkn,y,74,a.npy,A,0,-1.5\r\ndab,,300,\"b,1.npy\",A,8,2\r\n");
    PsdManifest m;
    if (!psd_manifest_read(path, &m, &error)) fail_msg("%s", error.text);
    assert_true(m.n == 3 && m.n_files == 2 && m.n_sensors == 2);
    assert_string_equal(m.file_paths[0], "b,1.npy");
    assert_string_equal(m.sensor_names[1], "A");
    assert_true(m.labels[0] == 5 && m.labels[1] == PSD_UNKNOWN && m.labels[2] == 0);
    assert_true(m.files[2] == 0 && m.files[1] == 1 && m.sensors[0] == 0 && m.sensors[2] == 1);
    assert_true(m.row_index[2] == 8 && m.num_bins[1] == 74 && m.lines[2] == 4);
    assert_true(isnan(m.snr[0]) && m.snr[1] == -1.5 && isnan(m.center[2]) && isnan(m.begin[0]) && isnan(m.end[0]));
    psd_manifest_close(&m);
}

TEST(written_manifests_are_read_back) {
    char *path = manifest_path();
    PsdManifest m = psd_manifest_new(2, 2, 1), back;
    m.n = 2;
    m.file_paths[m.n_files++] = xstrdup("d/one.npy");
    m.file_paths[m.n_files++] = xstrdup("d/\"two\", three.npy");
    m.sensor_names[m.n_sensors++] = xstrdup("B\u00e9ta");
    m.files[1] = 1;
    m.labels[1] = 4;
    m.row_index[1] = 3;
    m.num_bins[0] = m.num_bins[1] = 450;
    m.center[0] = 806;
    m.begin[0] = 796;
    m.end[0] = 816;
    m.snr[0] = 12.0625;
    m.center[1] = m.begin[1] = m.end[1] = m.snr[1] = (double)NAN;
    assert_true(psd_manifest_write(path, &m, &error));
    char *text = kept_text(path);
    assert_string_equal(text, "npy_path,row_index,sensor_id,num_bins,center_freq_mhz,begin_freq,end_freq,snr,label,"
                              "label_idx\nd/one.npy,0,B\u00e9ta,450,806.0,796.0,816.0,12.0625,dab,0\n"
                              "\"d/\"\"two\"\", three.npy\",3,B\u00e9ta,450,,,,,lte,4\n");
    assert_true(psd_manifest_read(path, &back, &error));
    assert_true(back.n == 2 && back.labels[1] == 4 && back.row_index[1] == 3 && back.snr[0] == 12.0625);
    assert_string_equal(back.file_paths[1], m.file_paths[1]);
    psd_manifest_close(&back);
    psd_manifest_close(&m);
}

/* Where Excel writes semicolons, it writes decimal commas, too. */
TEST(a_manifest_of_excel_is_read) {
    char *path = manifest_path();
    write_text(path, "sep=;\r\nnpy_path;row_index;sensor_id;num_bins;label;snr\r\na,1.npy;0;S;200;fm;2,5\r\n");
    PsdManifest m;
    if (!psd_manifest_read(path, &m, &error)) fail_msg("%s", error.text);
    assert_true(m.n == 1 && m.snr[0] == 2.5 && m.lines[0] == 3);
    assert_string_equal(m.file_paths[0], "a,1.npy");
    psd_manifest_close(&m);
}

/* A sensor with two spellings would not be left out as a whole. */
TEST(a_sensor_has_one_spelling) {
    char *path = manifest_path();
    write_text(path, "npy_path,row_index,sensor_id,num_bins,label\na,0,Lo\u0300,9,fm\na,1,L\u00f2,9, fm\u00a0\n"
                     "a,2,lo\u0300,9,fm\na,3,Lo\u0300 ,9,fm\n");
    PsdManifest m;
    if (!psd_manifest_read(path, &m, &error)) fail_msg("%s", error.text);
    assert_int_equal(m.n_sensors, 2);
    assert_string_equal(m.sensor_names[0], "Lo\u0300");
    assert_memory_equal(m.sensors, ((int32_t[]){0, 0, 1, 0}), 4 * sizeof *m.sensors);
    assert_int_equal(m.labels[1], 2);
    assert_int_equal(m.respelled, 3);
    psd_manifest_close(&m);
}

static void expect_refused(const char *text, const char *message) {
    char *path = manifest_path();
    write_text(path, "%s", text);
    PsdManifest m;
    assert_false(psd_manifest_read(path, &m, &error));
    assert_int_equal(strncmp(error.text, path, strlen(path)), 0);
    assert_string_equal(error.text + strlen(path), message);
}

TEST(wrong_manifests_are_refused) {
#define HEAD "npy_path,row_index,sensor_id,num_bins,label,label_idx,snr\n"
    expect_refused("", ":1: the file is empty; expected a line of column names");
    expect_refused(HEAD, ":1: there are no rows below the column names");
    expect_refused("npy_path,row_index,num_bins,label\na,0,9,fm\n",
                   ":1: there is no column \"sensor_id\"; the columns are: npy_path, row_index, num_bins, label");
    expect_refused("npy_path,npy_path\n", ":1: the column \"npy_path\" is there twice");
    expect_refused(HEAD "a,0,S,9,fm,2,\na,1,S,9,fm,2\n", ":3: has 6 fields; the first line has 7");
    expect_refused(HEAD "a,0,S,9,wifi,2,\n", ":2: label is 'wifi'; expected dab, dvbt, fm, gsm, lte, tetra or unkn");
    expect_refused(HEAD "a,0,S,9,fm,3,\n", ":2: label_idx is '3', but the label fm has 2");
    expect_refused(HEAD "a,-1,S,9,fm,2,\n", ":2: row_index is '-1'; expected a count");
    expect_refused(HEAD "a,0,S,9.5,fm,2,\n", ":2: num_bins is '9.5'; expected a count");
    expect_refused(HEAD "a,0,S,9,fm,2,loud\n", ":2: snr is 'loud'; expected a number or nothing");
    expect_refused(HEAD "a,0,S,9,fm,2,\nb,0,S,9,fm,2,\nb,1,S,9,fm,2,\na,0,S,9,fm,2,\nb,0,S,9,fm,2,\n",
                   ":5: row 0 of a stands on line 2 already (rows that stand twice: 2); a split would put copies into "
                   "training and test: leave each row in once");
    expect_refused(HEAD ",0,S,9,fm,2,\n", ":2: npy_path is ''; expected a path");
    expect_refused(HEAD "a,0,,9,fm,2,\n", ":2: sensor_id is ''; expected a name");
    expect_refused(HEAD "\"a\nb\",0,S,9,fm,2,\na,0,S,\"9,fm,2,\n",
                   ":4:7: the quote is not closed; close it behind the field");
#undef HEAD
    PsdManifest m;
    assert_false(psd_manifest_read("/nowhere/m.csv", &m, &error));
    assert_contains(error.text, "/nowhere/m.csv: cannot open");
}

/* ---- folders ---- */

enum { WIDTH = 210 };
static const char *root;

/* rows x WIDTH doubles that differ by file. */
static void add_rows(const char *name, int64_t rows, int64_t width, double level) {
    char *path = kept_path(root, name), *directory = keep(path_directory(path));
    make_directories(directory);
    double *data = xmalloc((size_t)(rows * width) * sizeof *data);
    for (int64_t i = 0; i < rows * width; i++) data[i] = level - 60 + (double)(i % width % 17);
    write_npy(root, name, "<f8", data, 2, rows, width);
    free(data);
}

static PsdScan scan_root(bool compat) {
    PsdScan scan;
    if (!psd_scan(root, compat, 2, &scan, &error)) fail_msg("%s", error.text);
    return scan;
}

static const PsdFile *file_of(const PsdScan *scan, const char *end) {
    for (int64_t i = 0; i < scan->n; i++)
        if (strstr(scan->files[i].path, end)) return &scan->files[i];
    fail_msg("no file %s", end);
    return NULL;
}

static int new_root(void **state) {
    (void)state;
    root = run_directory();
    return 0;
}

TEST_WITH(files_come_by_sensor_and_path, new_root, NULL) {
    add_rows("Spectrum_Bands_2/B/Feb_2/SpectrumBands_80_110_fm_x_80_110.npy", 2, WIDTH, 0);
    add_rows("Spectrum_Bands_2/B/Feb_1-1/SpectrumBands_80_110_fm_x_80_110.npy", 1, WIDTH, 1);
    add_rows("Spectrum_Bands_2/B/Feb_1/SpectrumBands_80_110_fm_x_80_110.npy", 1, WIDTH, 2);
    add_rows("Spectrum_Bands_2/A/Feb_3/SpectrumBands_940_960_gsm_x_940_960.npy", 1, WIDTH, 3);
    add_rows("other/Aa/Feb_3/gsm.npy", 1, WIDTH, 4);
    PsdScan scan = scan_root(false);
    PsdManifest m = psd_scan_manifest(&scan);
    static const char *const want[] = {"A/Feb_3/", "Aa/Feb_3/", "B/Feb_1/", "B/Feb_1-1/", "B/Feb_2/"};
    assert_true(scan.n == 5 && m.n == 6 && m.n_files == 5 && m.n_sensors == 3);
    for (int i = 0; i < 5; i++) assert_contains(m.file_paths[i], want[i]);
    assert_string_equal(m.sensor_names[1], "Aa");
    assert_true(m.row_index[5] == 1 && m.files[5] == 4 && m.sensors[5] == 2 && m.labels[0] == 3 && m.labels[1] == 3);
    assert_true(m.center[0] == 950 && m.begin[0] == 940 && m.end[0] == 960 && isnan(m.center[1]));
    assert_near(m.snr[0], 15, 1e-12); /* the highest bin is 16 above the lowest; the median of the lowest 42 is 1 */
    psd_manifest_close(&m);
    psd_scan_close(&scan);
}

/* Names and sidecars, and what they are labelled, by token first or, as the reference does, by band first. */
TEST_WITH(labels_are_by_token_or_by_band, new_root, NULL) {
    static const struct {
        const char *name;
        int ours, reference;
        double center;
    } cases[] = {
        {"SpectrumBands_419_429_tetra_HuldOne_419_429", 5, 1, 424},
        {"SpectrumBands_734_744_lte_USA_734_744", 4, 1, 739},
        {"SpectrumBands_85_85_gsm_NFM_925_960", 3, 2, 85},
        {"alcorcon_Feb_2_21SpectrumBands_420_430_tetra_x_1_2", 5, 5, 425},
        {"SpectrumBands_600_610_any_x_600_610", 1, 1, 605},
        {"SpectrumBands_1500_1510_any_x_1500_1510", 6, 6, 1505},
        {"x-DVBT", 1, 1, NAN},
        {"tetra-dab_fm_", 5, 2, NAN},
        {"gsmlike_ltex", 6, 6, NAN},
        {"a.lte.b_gsm.c", 3, 6, NAN},
        {"SpectrumBands_80_", 6, 6, NAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = kept_format("spectrum_bands/S/Feb_1/%s.npy", cases[i].name);
        add_rows(name, 1, WIDTH, (double)i);
    }
    for (int compat = 0; compat < 2; compat++) {
        PsdScan scan = scan_root(compat);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const PsdFile *file = file_of(&scan, kept_format("/%s.npy", cases[i].name));
            assert_int_equal(file->label, compat ? cases[i].reference : cases[i].ours);
            if (!compat)
                assert_true(file->center == cases[i].center || (isnan(file->center) && isnan(cases[i].center)));
            assert_true(!compat || isnan(file->begin)); /* the reference's column is of the sidecar alone */
        }
        psd_scan_close(&scan);
    }
}

TEST_WITH(sidecars_are_heard, new_root, NULL) {
    static const struct {
        const char *text;
        double begin, center, raw, snr;
    } cases[] = {{"id,begin_freq,end_freq,SNR\n1,936000000,946000000,7.5\n2,1,2,3\n", 936, 941, 936e6, 7.5},
                 {"begin_freq,end_freq\n936000,946000\n", 936, 941, 936e3, NAN},
                 {"end_freq,begin_freq,snr\n946,936,1\n", 936, 941, 936, 1},
                 {"begin_freq,end_freq\n", 80, 95, NAN, NAN},
                 {"time,level\n1,2\n", 80, 95, NAN, NAN}};
    add_rows("spectrum_bands/S/Feb_1/SpectrumBands_80_110_x.npy", 1, WIDTH, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(kept_path(root, "spectrum_bands/S/Feb_1/SpectrumBands_80_110_x.csv"), "%s", cases[i].text);
        PsdScan scan = scan_root(false), compat = scan_root(true);
        PsdManifest m = psd_scan_manifest(&compat);
        assert_true(scan.files[0].begin == cases[i].begin && scan.files[0].center == cases[i].center);
        assert_true(compat.files[0].center == cases[i].center && scan.files[0].label == (i < 3 ? 3 : 2));
        assert_true(m.begin[0] == cases[i].raw || (isnan(m.begin[0]) && isnan(cases[i].raw)));
        assert_true(m.snr[0] == cases[i].snr || (isnan(m.snr[0]) && isnan(cases[i].snr)));
        psd_manifest_close(&m);
        psd_scan_close(&compat);
        psd_scan_close(&scan);
    }
}

TEST_WITH(side_files_of_other_columns_are_told, new_root, NULL) {
    static const struct {
        const char *text, *side;
    } cases[] = {
        {"Begin_Freq,End_Freq\n80,90\n", "1: there is no column \"begin_freq\"; the columns are: Begin_Freq, End_Freq"},
        {"begin_freq, end_freq\n80,90\n", "1: there is no column \"end_freq\""},
        {"time,SNR\n1,7\n", NULL},
        {"begin_freq,end_freq\n80,90\n", NULL}};
    add_rows("spectrum_bands/S/Feb_1/x_fm_.npy", 1, WIDTH, 0);
    char *path = kept_path(root, "spectrum_bands/S/Feb_1/x_fm_.csv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(path, "%s", cases[i].text);
        PsdScan scan = scan_root(false);
        assert_true(!scan.files[0].side == !cases[i].side);
        if (cases[i].side) assert_contains(scan.files[0].side, cases[i].side);
        psd_scan_close(&scan);
    }
}

TEST_WITH(side_files_in_capitals_are_heard, new_root, NULL) {
    add_rows("spectrum_bands/S/Feb_1/x.NPY", 1, WIDTH, 0);
    write_text(kept_path(root, "spectrum_bands/S/Feb_1/x.CSV"), "begin_freq,end_freq\n936,946\n");
    PsdScan scan = scan_root(false);
    assert_true(scan.files[0].center == 941 && scan.files[0].label == 3);
    psd_scan_close(&scan);
}

/* Receivers hear 10 MHz to 10 GHz; the reference takes 1815 MHz for kHz. */
TEST_WITH(units_of_sidecars_are_told_by_their_magnitude, new_root, NULL) {
    static const struct {
        const char *text;
        double center, reference;
    } cases[] = {{"begin_freq,end_freq\n1805,1825\n", 1815, 1.815},
                 {"begin_freq,end_freq\n1805000,1825000\n", 1815, 1.815},
                 {"begin_freq,end_freq\n1805000000,1825000000\n", 1815, 1815},
                 {"begin_freq,end_freq\n90000,110000\n", 100, 100}};
    add_rows("spectrum_bands/S/Feb_1/x_gsm_.npy", 1, WIDTH, 0);
    char *path = kept_path(root, "spectrum_bands/S/Feb_1/x_gsm_.csv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(path, "%s", cases[i].text);
        PsdScan scan = scan_root(false), compat = scan_root(true);
        assert_near(scan.files[0].center, cases[i].center, 1e-9);
        assert_near(compat.files[0].center, cases[i].reference, 1e-9);
        psd_scan_close(&compat);
        psd_scan_close(&scan);
    }
}

TEST_WITH(rows_that_are_half_missing_are_left_out, new_root, NULL) {
    double rows[3][WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        rows[0][i] = -60 - i % 9;
        rows[1][i] = i < (WIDTH + 1) / 2 ? (double)NAN : -60;
        rows[2][i] = i < 3 ? (double)NAN : -60 - i % 9;
    }
    add_rows("S/D/half_fm_.npy", 1, WIDTH, 0); /* makes the folder */
    write_npy(root, "S/D/half_fm_.npy", "<f8", rows, 2, 3, WIDTH);
    char *npz = kept_path(root, "S/D/all.npz");
    write_text(npz, "PK");
    for (int compat = 0; compat < 2; compat++) {
        PsdScan scan = scan_root(compat);
        PsdManifest m = psd_scan_manifest(&scan);
        assert_true(scan.files[0].half == !compat && scan.files[0].lost == !compat && scan.others == 1);
        assert_true(m.n == 2 + compat && m.row_index[1] == 2 - compat);
        psd_manifest_close(&m);
        psd_scan_close(&scan);
    }
}

TEST_WITH(rows_left_out_are_counted, new_root, NULL) {
    double rows[3][WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        rows[0][i] = i;
        rows[1][i] = (double)NAN;
        rows[2][i] = -60;
    }
    rows[0][7] = (double)INFINITY;
    add_rows("S/D/good_fm_.npy", 4, WIDTH, 0);
    add_rows("T/D/same_fm_.npy", 4, WIDTH, 0);
    add_rows("S/D/zero_fm_.npy", 449, 0, 0);
    add_rows("S/D/none_fm_.npy", 0, WIDTH, 0);
    write_npy(root, "S/D/scalar_fm_.npy", "<f8", rows, 0, 0, 0);
    write_npy(root, "S/D/line_fm_.npy", "<f8", rows, 1, WIDTH, 0);
    write_npy(root, "S/D/bad_fm_.npy", "<f8", rows, 2, 3, WIDTH);
    PsdScan scan = scan_root(false);
    PsdManifest m = psd_scan_manifest(&scan);
    assert_int_equal(file_of(&scan, "zero")->reject_reason, PSD_REJECT_ZERO_WIDTH);
    assert_int_equal(file_of(&scan, "zero")->rows, 449);
    assert_int_equal(file_of(&scan, "none")->reject_reason, PSD_REJECT_NO_ROWS);
    assert_int_equal(file_of(&scan, "scalar")->reject_reason, PSD_REJECT_SCALAR);
    const PsdFile *bad = file_of(&scan, "bad"), *line = file_of(&scan, "line");
    assert_true(line->reject_reason == PSD_ACCEPTED && line->rows == 1 && line->width == WIDTH);
    assert_true(bad->lost == 1 && bad->not_finite == 1 && bad->constant == 1);
    assert_ptr_equal(&scan.files[file_of(&scan, "same")->same_as], file_of(&scan, "good"));
    assert_ptr_equal(&scan.files[bad->same_as], bad);
    assert_true(m.n == 4 + 4 + 1 + 2 && m.n_files == 4 && m.row_index[1] == 2); /* row 1 of bad is left out */
    psd_manifest_close(&m);
    psd_scan_close(&scan);
    /* The reference numbers rows of zero width. */
    scan = scan_root(true);
    m = psd_scan_manifest(&scan);
    int64_t zero = 0;
    assert_true(m.n == 4 + 4 + 1 + 2 + 449 && m.n_files == 5);
    for (int64_t i = 0; i < m.n; i++) {
        assert_true((m.num_bins[i] == 0) == (strstr(m.file_paths[m.files[i]], "zero") != NULL));
        zero += !m.num_bins[i] && m.labels[i] == file_of(&scan, "zero")->label && m.row_index[i] == zero;
    }
    assert_int_equal(zero, 449);
    psd_manifest_close(&m);
    psd_scan_close(&scan);
}

TEST_WITH(only_regular_files_are_read, new_root, NULL) {
    add_rows("S/D/a.npy", 1, WIDTH, 0);
    char *fifo = kept_path(root, "S/D/b.npy"), *broken = kept_path(root, "S/D/c.npy");
    assert_int_equal(mkfifo(fifo, 0666), 0);
    assert_int_equal(has_links() ? symlink("nothing", broken) : mkfifo(broken, 0666), 0);
    PsdScan scan;
    assert_true(psd_scan(root, false, 2, &scan, &error));
    assert_int_equal(scan.n, 1);
    assert_int_equal(scan.not_regular, 2);
    psd_scan_close(&scan);
}

static void expect_scan_refused(const char *message) {
    PsdScan scan;
    assert_false(psd_scan(root, false, 2, &scan, &error));
    assert_contains(error.text, message);
}

TEST_WITH(wrong_folders_are_refused, new_root, NULL) {
    expect_scan_refused("there are no .npy files in it");
    add_rows("S/D/b.npy", 1, WIDTH, 0);
    char *path = kept_path(root, "S/D/a.npy"), *sidecar = kept_path(root, "S/D/b.csv");
    static const char object[] = "\x93NUMPY\x01\x00\x36\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
    write_bytes(path, object, sizeof object - 1);
    expect_scan_refused("S/D/a.npy: holds Python objects");
    const int64_t dims[3] = {1, 2, 3};
    assert_true(npy_write(path, "<f4", (const float[6]){0}, 3, dims, &error));
    expect_scan_refused("S/D/a.npy: has 3 dimensions; expected rows of bins");
    write_text(path, "cut off");
    expect_scan_refused("S/D/a.npy: is not an npy file");
    write_npy(root, "S/D/a.npy", "<f8", (const double[]){1.7e308, -1.7e308, 1, 2}, 2, 2, 2);
    expect_scan_refused("S/D/a.npy: row 0: the row has values as large as");
    assert_int_equal(remove(path), 0);
    write_text(sidecar, "begin_freq,end_freq\n80,loud\n");
    expect_scan_refused("S/D/b.csv: 2: end_freq is 'loud'; expected a number or nothing");
    write_text(sidecar, "begin_freq,end_freq,end_freq\n80,90,100\n");
    expect_scan_refused("S/D/b.csv: 1: the column \"end_freq\" is there twice");
    write_text(sidecar, "begin_freq,end_freq\n80\n");
    expect_scan_refused("S/D/b.csv: 2: has 1 fields; the first line has 2");
    PsdScan scan;
    assert_false(psd_scan("/nowhere/at/all", false, 1, &scan, &error));
    assert_contains(error.text, "/nowhere/at/all: No such file");
}
