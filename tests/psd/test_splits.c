/* Splits of a PSD manifest. Hashes are of what json.dump wrote for splits by scikit-learn and NumPy. */
#include "base/sha1.h"
#include "data/psd/splits.h"
#include "tests/test.h"

static Error error;

static const int SHOTS[] = {5, 10, 50, 100};

/* A manifest, with the memory for its columns. */
typedef struct {
    PsdRows rows;
    int32_t *labels, *sensors, *files;
} Manifest;

static Manifest manifest_new(int64_t n, const char *const *names) {
    size_t bytes = (size_t)n * sizeof(int32_t);
    Manifest m = {.labels = xmalloc(bytes), .sensors = xmalloc(bytes), .files = xcalloc((size_t)n, sizeof(int32_t))};
    m.rows = (PsdRows){n, 6, m.labels, m.sensors, m.files, names};
    return m;
}

static void manifest_free(Manifest *m) {
    free(m->labels);
    free(m->sensors);
    free(m->files);
}

/* Five sensors that take turns, and so do the classes. */
static Manifest make_even(int64_t n) {
    static const char *const names[] = {"s00", "s01", "s02", "s03", "s04"};
    Manifest m = manifest_new(n, names);
    for (int64_t i = 0; i < n; i++) {
        m.labels[i] = (int32_t)((7 * i + i / 11) % 6);
        m.sensors[i] = (int32_t)(i / 7 % 5);
        m.files[i] = (int32_t)(i / 25);
    }
    return m;
}

/* Sensors and classes of different sizes, some rows of unknown class, names that JSON must escape. */
static Manifest make_uneven(int64_t n) {
    static const char *const names[] = {"zeta", "B\u00e9ta", "a/b", "mid", "\U0001f4e1 9", "q\"\\\t\x7f"};
    Manifest m = manifest_new(n, names);
    for (int64_t i = 0; i < n; i++) {
        m.labels[i] = (int32_t)((i * i / 5 + i / 3) % 7);
        m.sensors[i] = (int32_t)(i * i / 13 % 6);
    }
    return m;
}

/* The first half of the SHA-1 of a file, as assert_string_equal wants it. */
static void assert_sha1(const char *path, const char *want) {
    char *text = kept_text(path), hex[SHA1_DIGITS + 1];
    sha1_text(text, strlen(text), hex);
    hex[16] = 0;
    assert_string_equal(hex, want);
}

static char *json_path(void) {
    char *directory = kept_folder(), *path = kept_path(directory, "split.json");
    return path;
}

static void check_pooled(const PsdRows *rows, uint32_t seed, double fraction, PsdPartition *split, const char *sha1) {
    char *path = json_path();
    if (!psd_partition_pooled(rows, seed, fraction, split, &error)) fail_msg("%s", error.text);
    assert_true(psd_partition_check(split, rows->n, &error));
    assert_true(psd_partition_write(path, split, &error));
    assert_sha1(path, sha1);
}

/* By sensor, or few-shot if shots are given. */
static PsdPartitions check_sensors(const PsdRows *rows, uint32_t seed, double fraction, const int *shots,
                                   int64_t n_shots, int64_t sensors, const char *sha1) {
    char *path = json_path();
    PsdPartitions splits;
    if (!(shots ? psd_partition_few_shot(rows, seed, shots, n_shots, sensors, &splits, &error)
                : psd_partition_sensors(rows, seed, fraction, sensors, &splits, &error)))
        fail_msg("%s", error.text);
    for (int64_t i = 0; i < splits.sensors * splits.shots; i++)
        assert_true(psd_partition_check(&splits.partitions[i], rows->n, &error));
    assert_true(psd_partitions_write(path, rows, &splits, shots, &error));
    assert_sha1(path, sha1);
    return splits;
}

/* So many ids, which begin so. */
static void assert_begins(const PsdIds *ids, int64_t n, int count, const int64_t *first) {
    assert_int_equal(ids->n, n);
    for (int i = 0; i < count; i++) assert_int_equal(ids->at[i], first[i]);
}
#define BEGINS(ids, n, ...)                                                                                            \
    do {                                                                                                               \
        static const int64_t first_[] = {__VA_ARGS__};                                                                 \
        assert_begins(ids, n, (int)(sizeof first_ / sizeof *first_), first_);                                          \
    } while (0)

static int64_t sum_of(const PsdIds *ids) {
    int64_t sum = 0;
    for (int64_t i = 0; i < ids->n; i++) sum += ids->at[i];
    return sum;
}

TEST(pooled_splits_are_the_references) {
    static const struct {
        int64_t rows;
        double fraction;
        const char *sha1;
        struct {
            int64_t n, sum, first[6];
        } splits[3]; /* PSD_TRAIN, PSD_VAL, PSD_TEST */
    } cases[] = {{1000,
                  1,
                  "73559c433fc9ebb3",
                  {{699, 350543, {149, 85, 690, 261, 708, 52}},
                   {150, 70900, {128, 626, 586, 805, 321, 953}},
                   {151, 78057, {778, 892, 314, 236, 890, 319}}}},
                 {21351,
                  0.25,
                  "31b5180fddb3a356",
                  {{3735, 39535867, {487, 19807, 18109, 16059, 11693, 5833}},
                   {801, 8851442, {3115, 9913, 19333, 20210, 10881, 18912}},
                   {801, 8548731, {19610, 11153, 16357, 15381, 7775, 16025}}}}};
    for (int c = 0; c < 2; c++) {
        Manifest m = make_even(cases[c].rows);
        PsdPartition s;
        check_pooled(&m.rows, 42, cases[c].fraction, &s, cases[c].sha1);
        for (int p = 0; p < 3; p++) {
            assert_begins(&s.splits[p], cases[c].splits[p].n, 6, cases[c].splits[p].first);
            assert_int_equal(sum_of(&s.splits[p]), cases[c].splits[p].sum);
        }
        psd_partition_free(&s);
        manifest_free(&m);
    }
}

TEST(splits_by_sensor_are_the_references) {
    Manifest m = make_even(1000);
    PsdPartitions s = check_sensors(&m.rows, 42, 1, NULL, 0, 0, "1f9840dd2f7000c2");
    BEGINS(&s.partitions[0].splits[PSD_TRAIN], 677, 432, 265, 485);
    BEGINS(&s.partitions[0].splits[PSD_VAL], 120, 638, 767, 440);
    BEGINS(&s.partitions[0].splits[PSD_TEST], 203, 0, 1, 2);
    psd_partitions_free(&s);
    s = check_sensors(&m.rows, 42, 0.25, NULL, 0, 0, "2fbda180189a5d00");
    BEGINS(&s.partitions[0].splits[PSD_TRAIN], 169, 81, 818, 894);
    BEGINS(&s.partitions[0].splits[PSD_VAL], 30, 413, 174, 499);
    BEGINS(&s.partitions[1].splits[PSD_TRAIN], 169, 942, 97, 58);
    BEGINS(&s.partitions[1].splits[PSD_VAL], 30, 176, 828, 961);
    psd_partitions_free(&s);
    manifest_free(&m);
}

TEST(few_shot_splits_are_the_references) {
    Manifest m = make_even(1000);
    PsdPartitions s = check_sensors(&m.rows, 42, 1, SHOTS, 4, 0, "1fd89e93f45102bd");
    BEGINS(&s.partitions[0].splits[PSD_TRAIN], 30, 457, 352, 105);
    BEGINS(&s.partitions[0].splits[PSD_TEST], 173, 671, 143, 704);
    BEGINS(&s.partitions[1].splits[PSD_TRAIN], 60, 248, 319, 391);
    BEGINS(&s.partitions[1].splits[PSD_TEST], 143, 776, 457, 633);
    assert_int_equal(s.partitions[2].splits[PSD_TRAIN].n, 203);
    assert_int_equal(s.partitions[2].splits[PSD_TEST].n, 0);
    assert_int_equal(s.partitions[0].splits[PSD_VAL].n, 0);
    psd_partitions_free(&s);
    manifest_free(&m);
}

/* Unknown rows left out, sensors drawn, names escaped, the greatest seed. */
TEST(splits_of_uneven_rows_are_the_references) {
    static const int shots[] = {3, 20};
    static const struct {
        int64_t n;
        uint32_t seed;
        const char *pooled, *sensors, *few;
    } want[] = {{777, 7, "ea5a331bd6d3d96f", "bdc4c40bbaac4b8d", "586cc11af4d24fca"},
                {3001, UINT32_MAX, "24c4e5417bd7399a", "702afb5c8f2c9f4b", "69c921764ef7d393"}};
    for (int k = 0; k < 2; k++) {
        Manifest m = make_uneven(want[k].n);
        PsdPartition pooled;
        check_pooled(&m.rows, want[k].seed, 0.6, &pooled, want[k].pooled);
        PsdPartitions sensors = check_sensors(&m.rows, want[k].seed, 0.3, NULL, 0, 4, want[k].sensors);
        PsdPartitions few = check_sensors(&m.rows, want[k].seed, 1, shots, 2, 4, want[k].few);
        assert_int_equal(sensors.sensors, 4);
        psd_partition_free(&pooled);
        psd_partitions_free(&sensors);
        psd_partitions_free(&few);
        manifest_free(&m);
    }
}

/* Too few rows to be stratified: a plain split; fewer than ten: no validation. */
TEST(splits_of_few_rows_are_the_references) {
    static const struct {
        double fraction;
        const char *sha1;
    } want[] = {{1, "41ce50dc55f17c62"}, {0.5, "70f2501d1e5ee71f"}, {0.2, "6455559a292c7800"}};
    Manifest m = make_uneven(40);
    for (int k = 0; k < 3; k++) {
        PsdPartitions s = check_sensors(&m.rows, 7, want[k].fraction, NULL, 0, 0, want[k].sha1);
        assert_int_equal(s.partitions[0].splits[PSD_VAL].n == 0, k == 2);
        psd_partitions_free(&s);
    }
    manifest_free(&m);
}

/* Ten rows are stratified, nine are not; of a fraction of them one is kept at least. */
TEST(ten_rows_are_enough_for_a_validation) {
    static const char *const names[] = {"with two", "with three", "with seven"};
    Manifest m = manifest_new(12, names);
    PsdPartitions s;
    for (int i = 0; i < 12; i++) {
        m.labels[i] = i % 2;
        m.sensors[i] = i < 2 ? 0 : i < 5 ? 1 : 2;
    }
    assert_true(psd_partition_sensors(&m.rows, 1, 1, 0, &s, NULL));
    assert_true(s.sensor[0] == 2 && s.sensor[1] == 1 && s.sensor[2] == 0);
    BEGINS(&s.partitions[1].splits[PSD_TRAIN], 9, 0, 1, 5, 6, 7, 8, 9, 10, 11);
    assert_int_equal(s.partitions[1].splits[PSD_VAL].n, 0);
    assert_int_equal(s.partitions[2].splits[PSD_TRAIN].n, 8);
    assert_int_equal(s.partitions[2].splits[PSD_VAL].n, 2);
    psd_partitions_free(&s);
    assert_true(psd_partition_sensors(&m.rows, 1, 0.01, 0, &s, NULL));
    for (int i = 0; i < 3; i++) assert_int_equal(s.partitions[i].splits[PSD_TRAIN].n, 1);
    psd_partitions_free(&s);
    manifest_free(&m);
}

/* ---- grouped ---- */

static PsdPartition group(const Manifest *m, const int32_t *groups, uint32_t seed, double fraction) {
    PsdPartition split;
    if (!psd_partition_grouped(&m->rows, groups, seed, fraction, &split, &error)) fail_msg("%s", error.text);
    assert_true(psd_partition_check(&split, m->rows.n, &error));
    assert_int_equal(psd_partition_shared_groups(&split, groups, m->rows.n), 0);
    for (int part = 0; part < PSD_SPLITS; part++) {
        const PsdIds *ids = &split.splits[part];
        assert_true(ids->n > 0);
        for (int64_t i = 1; i < ids->n; i++) assert_true(ids->at[i] > ids->at[i - 1]);
    }
    return split;
}

/* Forty groups, twelve rows each, two of every class. */
static Manifest make_groups(void) {
    Manifest m = manifest_new(480, NULL);
    for (int i = 0; i < 480; i++) {
        m.labels[i] = i % 6;
        m.sensors[i] = 0;
        m.files[i] = i / 12;
    }
    return m;
}

TEST(equal_groups_give_exact_shares) {
    Manifest m = make_groups();
    for (uint32_t seed = 0; seed < 20; seed++) {
        PsdPartition s = group(&m, m.files, seed, 1);
        assert_int_equal(s.splits[PSD_TRAIN].n, 28 * 12);
        assert_int_equal(s.splits[PSD_VAL].n, 6 * 12);
        assert_int_equal(s.splits[PSD_TEST].n, 6 * 12);
        psd_partition_free(&s);
    }
    /* Ten rows divide into 7, 1.5 and 1.5: the extra row is worth 3 / 0.15 to validation and 15 / 0.70 to training. */
    for (int i = 0; i < 480; i++) m.files[i] = i / 48;
    PsdPartition s = group(&m, m.files, 1, 1);
    assert_int_equal(s.splits[PSD_TRAIN].n, 7 * 48);
    assert_int_equal(s.splits[PSD_VAL].n, 2 * 48);
    assert_int_equal(s.splits[PSD_TEST].n, 48);
    psd_partition_free(&s);
    manifest_free(&m);
}

static bool same_split(const PsdPartition *a, const PsdPartition *b) {
    for (int part = 0; part < PSD_SPLITS; part++)
        if (a->splits[part].n != b->splits[part].n ||
            memcmp(a->splits[part].at, b->splits[part].at, (size_t)a->splits[part].n * sizeof(int64_t)))
            return false;
    return true;
}

TEST(the_seed_decides_the_groups) {
    Manifest m = make_groups();
    PsdPartition first = group(&m, m.files, 1, 1), again = group(&m, m.files, 1, 1), other = group(&m, m.files, 2, 1);
    assert_true(same_split(&first, &again));
    assert_false(same_split(&first, &other));
    psd_partition_free(&first);
    psd_partition_free(&again);
    psd_partition_free(&other);
    manifest_free(&m);
}

/* Files of one class, of 150 to 498 rows, as in a real archive. When a file of g rows goes to a part, some part has no
 * more of its share than is placed in all, and the file costs that one at most g / (0.15 rows) on top; so no part goes
 * beyond its share by more than g / 2 (1 + share / 0.15). */
TEST(classes_are_shared_as_near_as_files_allow) {
    enum { FILES = 232, MOST = 498 };
    static const double shares[] = {0.70, 0.15, 0.15};
    Manifest m = manifest_new(FILES * MOST, NULL);
    int64_t n = 0, all[6] = {0};
    for (int file = 0; file < FILES; file++)
        for (int row = 0; row < 150 + file * 97 % 349; row++, n++) {
            m.labels[n] = file % 6;
            m.files[n] = file;
            all[file % 6]++;
        }
    m.rows.n = n;
    for (uint32_t seed = 0; seed < 10; seed++) {
        PsdPartition s = group(&m, m.files, seed, 1);
        for (int part = 0; part < PSD_SPLITS; part++) {
            int64_t counts[6] = {0};
            for (int64_t i = 0; i < s.splits[part].n; i++) counts[m.labels[s.splits[part].at[i]]]++;
            for (int c = 0; c < 6; c++)
                assert_true((double)counts[c] <=
                            shares[part] * (double)all[c] + MOST / 2.0 * (1 + shares[part] / 0.15));
        }
        psd_partition_free(&s);
    }
    manifest_free(&m);
}

/* Each part gets one of three groups, though the first two fit best into training. */
TEST(three_groups_are_enough) {
    Manifest m = make_groups();
    for (int i = 0; i < 480; i++) m.sensors[i] = i / 160;
    for (uint32_t seed = 0; seed < 10; seed++) {
        PsdPartition s = group(&m, m.sensors, seed, 1);
        for (int part = 0; part < PSD_SPLITS; part++) assert_int_equal(s.splits[part].n, 160);
        psd_partition_free(&s);
    }
    manifest_free(&m);
}

TEST(a_fraction_of_rows_is_grouped) {
    Manifest m = make_uneven(3000);
    for (int i = 0; i < 3000; i++) m.files[i] = i / 60;
    int64_t known = 0, kept = 0;
    for (int i = 0; i < 3000; i++) known += m.labels[i] < 6;
    PsdPartition s = group(&m, m.files, 3, 0.5);
    for (int part = 0; part < PSD_SPLITS; part++) {
        kept += s.splits[part].n;
        for (int64_t i = 0; i < s.splits[part].n; i++) assert_true(m.labels[s.splits[part].at[i]] < 6);
    }
    assert_int_equal(kept, known / 2);
    psd_partition_free(&s);
    manifest_free(&m);
}

/* ---- what is refused ---- */

TEST(rows_that_cannot_be_split_are_refused) {
    Manifest m = make_even(1000);
    PsdPartition split;
    PsdPartitions splits;
    static const double fractions[] = {0, -1, 1.01, NAN};
    for (int i = 0; i < 4; i++) {
        assert_false(psd_partition_pooled(&m.rows, 1, fractions[i], &split, &error));
        assert_contains(error.text, "expected more than 0, at most 1");
        assert_false(psd_partition_grouped(&m.rows, m.files, 1, fractions[i], &split, &error));
        assert_false(psd_partition_sensors(&m.rows, 1, fractions[i], 0, &splits, &error));
    }
    m.rows.n = 20; /* three of them to test on */
    assert_false(psd_partition_pooled(&m.rows, 1, 1, &split, &error));
    assert_string_equal(error.text, "20 rows of 6 classes are too few: one of the splits would have 4 rows");
    m.rows.n = 49; /* one more class, of one row */
    m.rows.classes = 7;
    m.labels[48] = 6;
    assert_false(psd_partition_pooled(&m.rows, 1, 1, &split, &error));
    assert_string_equal(error.text, "class 6 has only one row; every class needs one in each of two splits");
    assert_false(psd_partition_grouped(&m.rows, m.files, 1, 1, &split, &error)); /* 25 rows a file */
    assert_string_equal(error.text, "2 groups cannot be divided into 3 splits");
    m.rows.n = 7;
    assert_false(psd_partition_sensors(&m.rows, 1, 1, 0, &splits, &error));
    assert_string_equal(error.text, "leaving a sensor out needs at least two sensors");
    for (int i = 0; i < 7; i++) m.labels[i] = i % 2 ? 7 : -1;
    assert_false(psd_partition_few_shot(&m.rows, 1, SHOTS, 4, 0, &splits, &error));
    assert_string_equal(error.text, "no row has a class");
    assert_false(psd_partition_pooled(&m.rows, 1, 0.5, &split, &error));
    assert_false(psd_partition_sensors(&m.rows, 1, 0.5, 0, &splits, &error));
    assert_false(psd_partition_grouped(&m.rows, m.files, 1, 0.5, &split, &error));
    manifest_free(&m);
}

TEST(leaks_are_found) {
    int64_t train[] = {4, 0, 7}, val[] = {3}, test[] = {1, 2};
    int32_t files[] = {0, 1, 1, 2, 3, 3, 4, 4};
    PsdPartition split = {{{train, 3}, {val, 1}, {test, 2}}};
    assert_true(psd_partition_check(&split, 8, &error));
    assert_int_equal(psd_partition_shared_groups(&split, files, 8), 0);
    files[3] = 0;
    files[2] = 4;
    assert_int_equal(psd_partition_shared_groups(&split, files, 8), 2);
    assert_false(psd_partition_check(&split, 7, &error));
    assert_string_equal(error.text, "row 7 of split 'train' is none of the 7 there are");
    test[1] = 4;
    assert_false(psd_partition_check(&split, 8, &error));
    assert_string_equal(error.text, "row 4 is in split 'train' and again in 'test'");
    train[1] = 4;
    assert_false(psd_partition_check(&split, 8, &error));
    assert_string_equal(error.text, "row 4 is in split 'train' and again in 'train'");
    train[1] = -1;
    assert_false(psd_partition_check(&split, 8, &error));
    assert_string_equal(error.text, "row -1 of split 'train' is none of the 8 there are");
}

/* Neighbouring sweeps of a file fall into different parts: why there are grouped splits. */
TEST(pooled_splits_share_files) {
    Manifest m = make_even(1000);
    PsdPartition s;
    assert_true(psd_partition_pooled(&m.rows, 42, 1, &s, NULL));
    assert_int_equal(psd_partition_shared_groups(&s, m.files, 1000), 40);
    psd_partition_free(&s);
    manifest_free(&m);
}

static void assert_name(double fraction, const char *want) {
    assert_string_equal(keep(psd_split_file_name("pooled", 42, fraction)), want);
}

TEST(files_are_named_as_python_prints_numbers) {
    assert_name(1, "pooled_seed42_frac1.0.json");
    assert_name(0.25, "pooled_seed42_frac0.25.json");
    assert_name(0.1 + 0.2, "pooled_seed42_frac0.30000000000000004.json");
    assert_name(0.0001, "pooled_seed42_frac0.0001.json");
    assert_name(0.00001, "pooled_seed42_frac1e-05.json");
}

/* Bytes of a directory's name that are no UTF-8 become what Python makes of them. */
TEST(names_that_are_not_utf8_are_kept) {
    static const char *const names[] = {"x\xe9y\xf0\x9f", "b"};
    Manifest m = manifest_new(2, names);
    int32_t both[] = {0, 1};
    memcpy(m.labels, both, sizeof both);
    memcpy(m.sensors, both, sizeof both);
    PsdPartitions s;
    char *path = json_path();
    assert_true(psd_partition_sensors(&m.rows, 1, 1, 0, &s, NULL));
    assert_true(psd_partitions_write(path, &m.rows, &s, NULL, NULL));
    char *text = kept_text(path);
    assert_string_equal(text, "{\"b\": {\"train\": [0], \"val\": [], \"test\": [1]}, "
                              "\"x\\udce9y\\udcf0\\udc9f\": {\"train\": [1], \"val\": [], \"test\": [0]}}");
    psd_partitions_free(&s);
    manifest_free(&m);
}

TEST(a_file_that_cannot_be_written_is_an_error) {
    PsdPartition split = {0};
    assert_false(psd_partition_write("/nowhere/at/all.json", &split, &error));
    assert_contains(error.text, "/nowhere/at");
}

/* ---- reading ---- */

static void assert_same_ids(const PsdPartition *got, const PsdPartition *want) {
    for (int part = 0; part < PSD_SPLITS; part++) {
        assert_int_equal(got->splits[part].n, want->splits[part].n);
        for (int64_t i = 0; i < want->splits[part].n; i++)
            assert_int_equal(got->splits[part].at[i], want->splits[part].at[i]);
    }
}

TEST(written_splits_are_read_back) {
    Manifest m = make_uneven(600);
    char *path = json_path(), **names;
    PsdPartition pooled, back;
    PsdPartitions splits[2];
    int n;
    assert_true(psd_partition_pooled(&m.rows, 42, 1, &pooled, &error) && psd_partition_write(path, &pooled, &error));
    assert_true(psd_partition_read(path, NULL, 0, 600, &back, &error));
    assert_same_ids(&back, &pooled);
    psd_partition_free(&back);
    psd_partition_free(&pooled);
    assert_true(psd_partition_sensors(&m.rows, 42, 1, 0, &splits[0], &error) &&
                psd_partition_few_shot(&m.rows, 42, SHOTS, 4, 0, &splits[1], &error));
    for (int few = 0; few < 2; few++) {
        assert_true(psd_partitions_write(path, &m.rows, &splits[few], few ? SHOTS : NULL, &error));
        assert_true(psd_partition_sensors_read(path, &names, &n, &error));
        assert_int_equal(n, splits[few].sensors);
        for (int i = 0; i < n; i++) {
            assert_string_equal(names[i], m.rows.sensor_names[splits[few].sensor[i]]);
            for (int k = 0; k < splits[few].shots; k++) {
                if (!psd_partition_read(path, names[i], few ? SHOTS[k] : 0, 600, &back, &error))
                    fail_msg("%s", error.text);
                assert_same_ids(&back, &splits[few].partitions[i * splits[few].shots + k]);
                psd_partition_free(&back);
            }
            free(names[i]);
        }
        free(names);
        psd_partitions_free(&splits[few]);
    }
    manifest_free(&m);
}

static void expect_unread(const char *text, const char *sensor, int shots, const char *message) {
    PsdPartition split;
    assert_false(psd_partition_parse(text, strlen(text), sensor, shots, 10, &split, &error));
    assert_string_equal(error.text, message);
}

TEST(files_that_are_wrong_are_refused) {
    static const char pooled[] = "{\"train\": [1], \"val\": [], \"test\": [2]}";
    static const char loso[] = "{\"A\": {\"train\": [1], \"val\": [2], \"test\": [2]}, \"B\": 3}";
    static const char few[] = "{\"A\": {\"5\": {\"finetune\": [1], \"test\": [11]}, \"10\": {\"finetune\": [0]}}}";
    expect_unread("{\n\"a\"}", NULL, 0, "line 2, column 4: invalid JSON: ':' expected near '}'");
    expect_unread("[1]", NULL, 0, "expected a JSON object: train, val and test, or sensors");
    expect_unread("{\"train\": [1], \"test\": [2]}", NULL, 0, "'val' is missing or no list of rows");
    expect_unread("{\"train\": 1, \"val\": [], \"test\": [2]}", NULL, 0, "'train' is missing or no list of rows");
    expect_unread("{\"train\": [1.0], \"val\": [], \"test\": [2]}", NULL, 0, "entry 0 of 'train' is no whole number");
    expect_unread("{\"train\": [1], \"val\": [], \"test\": [2], \"more\": []}", NULL, 0, "has 4 entries; expected 3");
    expect_unread("{\"train\": [1, 3], \"val\": [], \"test\": [2, 3]}", NULL, 0,
                  "row 3 is in split 'train' and again in 'test'");
    expect_unread("{\"train\": [10], \"val\": [], \"test\": [2]}", NULL, 0,
                  "row 10 of split 'train' is none of the 10 there are");
    expect_unread("{\"train\": [-1], \"val\": [], \"test\": [2]}", NULL, 0,
                  "row -1 of split 'train' is none of the 10 there are");
    expect_unread(pooled, "A", 0, "holds one split for all sensors; there is none of A alone");
    expect_unread(
        loso, NULL, 0,
        "holds a split for each sensor, not one for all; choose a sensor (A, B) with --sensor, or all of them with "
        "train_psd run --protocol loso");
    expect_unread(loso, "C", 0, "has no split for the sensor C; there are A, B");
    expect_unread(loso, "A", 0, "sensor A: row 2 is in split 'val' and again in 'test'");
    expect_unread(loso, "A", 5, "sensor A: there are no splits by shots");
    expect_unread(few, "A", 0, "sensor A: there are splits by shots only; choose how many");
    expect_unread(few, "A", 7, "sensor A: there is no split of 7 shots, but of 5, 10");
    expect_unread(few, "A", 5, "sensor A: row 11 of split 'test' is none of the 10 there are");
    expect_unread(few, "A", 10, "sensor A: 'test' is missing or no list of rows");
    char **names;
    int n;
    PsdPartition split;
    assert_false(psd_partition_sensors_parse(pooled, strlen(pooled), &names, &n, &error));
    assert_string_equal(error.text, "holds one split for all sensors, none for each");
    static const char nameless[] = "{\"\": {\"train\": [1]}, \"A\": {\"train\": [1]}}";
    assert_false(psd_partition_sensors_parse(nameless, sizeof nameless - 1, &names, &n, &error));
    assert_string_equal(error.text, "one of its sensors has an empty name");
    assert_false(psd_partition_read("/nowhere/s.json", NULL, 0, 10, &split, &error));
    assert_contains(error.text, "/nowhere/s.json: cannot open");
}

TEST(rows_of_groups_in_the_test_are_dropped) {
    static const int32_t groups[] = {0, 1, 0, 2, 1, 3, 2, 4};
    int64_t train[] = {7, 0, 1, 5}, val[] = {2, 3}, test[] = {4, 6};
    PsdPartition s = {{{train, 4}, {val, 2}, {test, 2}}};
    assert_int_equal(psd_partition_drop_shared(&s, groups, 8), 2);
    BEGINS(&s.splits[PSD_TRAIN], 3, 7, 0, 5);
    BEGINS(&s.splits[PSD_VAL], 1, 2);
    BEGINS(&s.splits[PSD_TEST], 2, 4, 6);
    assert_int_equal(psd_partition_drop_shared(&s, groups, 8), 0);
}
