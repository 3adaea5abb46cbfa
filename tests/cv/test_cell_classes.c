/* The class of a cell, told by whole words of names, folders, own words and tables; all else is named. */
#include "data/cv/cells.h"

#include <unistd.h>

#include "base/file.h"
#include "data/formats/npy.h"
#include "tests/files.h"
#include "tests/test.h"

static Error error;

static char *root, *cells;

static int new_root(void **state) {
    (void)state;
    free(root);
    free(cells);
    root = scratch_directory();
    cells = path_join(root, "cells");
    return 0;
}

static char *place(const char *name) {
    char *path = kept_path(cells, name), *folder = keep(path_directory(path));
    make_directories(folder);
    return path;
}

/* Writes a cell of 3 x 3 pixels and 4 bins; its first count tells cells apart, and 0 makes it dark. */
static void add_cell(const char *name, uint16_t first) {
    const int64_t dims[3] = {3, 3, 4};
    int32_t counts[36] = {first};
    char *path = place(name);
    if (!npy_write(path, "<i4", counts, 3, dims, &error)) fail_msg("%s", error.text);
}

static void add_text(const char *name, const char *text) {
    char *path = place(name);
    write_text(path, "%s", text);
}

/* Asserts that these files, and no others, are cells of these labels, in this order. */
static void assert_labels(const CvCellsOptions *options, int n, const char *const *files, const int *labels) {
    CvCells c;
    if (!cv_cells_open(&c, cells, options, &error)) fail_msg("%s", error.text);
    assert_int_equal(c.n, n);
    for (int i = 0; i < n; i++) {
        assert_string_equal(c.file_names[i], files[i]);
        assert_int_equal(c.labels[i], labels[i]);
    }
    cv_cells_close(&c);
}

static void assert_refused(const CvCellsOptions *options, const char *part) {
    CvCells c;
    Error error = {""};
    assert_false(cv_cells_open(&c, cells, options, &error));
    assert_contains(error.text, part);
    assert_true(!c.n && !c.counts);
}

static const CvCellsOptions PLAIN = {.n_threads = 1};

TEST_WITH(a_class_is_a_whole_word, new_root, NULL) {
    static const struct {
        const char *name;
        int label;
        bool both;
    } want[] = {{"m1_in_3.npy", 0, false},         {"m1_in3.npy", 0, false},
                {"m1_in.npy", 0, false},           {"m1_IN_3.tif", 0, false},
                {"m1_Act_3.sdt", 1, false},        {"m1_act7.npy", 1, false},
                {"m1_inactive_3.npy", 0, false},   {"m1_active_3.npy", 1, false},
                {"m1_activated.3.npy", 1, false},  {"m1_quiescent_3.npy", 0, false},
                {"m1_insulin_3.npy", -1, false},   {"m1_infected_3.npy", -1, false},
                {"m1_actin_3.npy", -1, false},     {"in_3.npy", -1, false},
                {"m1_in_actin_3.npy", 0, false}, /* both rules agree */
                {"m1_act_insulin_3.npy", 0, true}, {"m1_infected_act_3.npy", 0, true},
                {"m1_act_in_3.npy", 0, true},      {"m1_inactive_active_3.npy", 0, true}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        CvCellName n = cv_cells_parse_name(want[i].name);
        if (n.label != want[i].label || n.both != want[i].both) fail_msg("%s: %d %d", want[i].name, n.label, n.both);
    }
}

TEST_WITH(two_classes_in_a_name_are_refused, new_root, NULL) {
    add_cell("D1/m1_act_3.npy", 1);
    add_cell("D1/m1_act_insulin_4.npy", 2);
    assert_refused(&PLAIN,
                   "D1/m1_act_insulin_4.npy: two classes in one name: \"act\" is active, and \"insulin\" begins as "
                   "the reference's quiescent cells do; say which words are classes, as in --class-words");
    add_cell("D1/m1_act_in_1.npy", 3);
    assert_refused(&PLAIN, "D1/m1_act_in_1.npy: two classes in one name: \"act\" is active, and \"in\" is quiescent");
    /* a name to predict needs no class */
    const CvCellsOptions predict = {.unlabelled = true, .n_threads = 1};
    static const char *const files[] = {"D1/m1_act_3.npy", "D1/m1_act_in_1.npy", "D1/m1_act_insulin_4.npy"};
    assert_labels(&predict, 3, files, (const int[]){1, -1, -1});
}

TEST_WITH(own_words_tell_classes, new_root, NULL) {
    static const char *const files[] = {"D1/ctrl_insulin_1.npy", "D1/m1_act_insulin_4.npy", "D2/m2_no_stim_2.npy"};
    add_cell(files[0], 1);
    add_cell(files[1], 2);
    add_cell(files[2], 3);
    add_cell("D2/m2_control_2.npy", 4);
    const CvCellsOptions own = {.class_words = "ctrl/no_stim,act", .n_threads = 1};
    assert_labels(&own, 3, files, (const int[]){0, 1, 0});
    /* other words make the store anew */
    const CvCellsOptions other = {.class_words = "act,control", .n_threads = 1};
    static const char *const others[] = {"D1/m1_act_insulin_4.npy", "D2/m2_control_2.npy"};
    assert_labels(&other, 2, others, (const int[]){0, 1});
    static const char *const wrong[] = {"ctrl", "ctrl,", ",act", "a,b,c", "a//b,c", "a/,c"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(&(CvCellsOptions){.class_words = wrong[i]}, "expected a word of quiescent cells, a comma and");
    assert_refused(&(CvCellsOptions){.class_words = "rest/act,ACT"}, "a word is named for both classes");
}

TEST_WITH(folders_tell_classes, new_root, NULL) {
    static const char *const files[] = {"isolated_cells_D1/Active/d01m2_cell_7.npy", "isolated_cells_D1/m3_in_1.npy",
                                        "isolated_cells_D1/quiescent/cell_1.npy"};
    for (int i = 0; i < 3; i++) add_cell(files[i], (uint16_t)(i + 1));
    add_cell("isolated_cells_D1/other/m1_in_1.npy", 9);
    assert_labels(&PLAIN, 3, files, (const int[]){1, 0, 0});
    CvCells c;
    assert_true(cv_cells_open(&c, cells, &(CvCellsOptions){.n_threads = 1}, NULL));
    assert_int_equal(c.n_donors, 1);
    assert_string_equal(c.donor_names[0], "D1");
    assert_string_equal(c.field_names[0], "D1 m2");
    assert_contains(tensor_file_metadata(&c.file, "findings"), "\"deeper\": 1");
    cv_cells_close(&c);
    add_cell("isolated_cells_D1/active/m1_in_9.npy", 4);
    assert_refused(&PLAIN, "two classes: its name says quiescent, and its folder active says active");
    new_root(NULL);
    add_cell("active/cell_1.npy", 1);
    assert_refused(&PLAIN, "the folder active is a class's, and does not say whose cells these are; expected ");
    new_root(NULL);
    add_cell("active/D1/cell_1.npy", 1);
    assert_refused(&PLAIN, "the folder active is a class's, and this seems to be a donor's");
}

TEST_WITH(a_table_tells_classes, new_root, NULL) {
    static const char *const files[] = {"D1/a.npy", "D1/m1_act_2.npy", "D2/a.npy"};
    for (int i = 0; i < 3; i++) add_cell(files[i], (uint16_t)(i + 1));
    add_cell("D2/left_act_out.npy", 4);
    char *table = kept_path(root, "classes.csv");
    const CvCellsOptions options = {.class_table = table, .n_threads = 1};
    write_text(table, "%s", "class,file,note\nActive,D1/a.npy,\n0,m1_act_2.npy,\nquiescent,D2/a.npy,\n1,gone.npy,\n");
    assert_labels(&options, 3, files, (const int[]){1, 0, 0});
    write_text(table, "%s", "file;label\nD1/a.npy;0\nD2/a.npy;active\n"); /* Excel's; the store is made anew */
    static const char *const two[] = {"D1/a.npy", "D2/a.npy"};
    assert_labels(&options, 2, two, (const int[]){0, 1});
    write_text(table, "%s", "file,class\na.npy,1\n");
    assert_refused(&options, "the name a.npy has one row, and D1/a.npy has it, too: write paths, as DONOR/NAME");
    write_text(table, "%s", "file,class\nD1/a.npy,1\nD1/a.npy,0\n");
    assert_refused(&options, "classes.csv: 3: D1/a.npy is quiescent here and active above");
    write_text(table, "%s", "file,class\nD1/a.npy,perhaps\n");
    assert_refused(&options, "classes.csv: 2: the class is 'perhaps'; expected quiescent or active, 0 or 1, or one of");
    write_text(table, "%s", "name,class\nD1/a.npy,1\n");
    assert_refused(&options, "classes.csv: 1: there is no column \"file\"");
    write_text(table, "%s", "");
    assert_refused(&options, "classes.csv: is empty");
    write_text(table, "%s", "file,class\n");
    assert_refused(&options, "classes.csv: has no row behind the names of columns");
    write_text(table, "%s", "file,class\ncells/D1/a,1\nD2/a,0\n");
    assert_refused(&options, "classes.csv names none of its 4 files, of which the first is D1/a.npy; the first row "
                             "names cells/D1/a; expected the path below the folder");
    /* a row that two files may mean is no label that is shown beside predictions */
    write_text(table, "%s", "file,class\na.npy,1\n");
    assert_refused(&(CvCellsOptions){.class_table = table, .unlabelled = true, .n_threads = 1},
                   "the name a.npy has one row, and D1/a.npy has it, too");
}

TEST_WITH(files_without_a_class_are_named, new_root, NULL) {
    add_cell("D1/m1-act-1.npy", 1);
    add_cell("D1/m1-in-2.npy", 2);
    assert_refused(&PLAIN, "none of its 2 files has a class, as D1/m1-act-1.npy; expected a word in each name "
                           "(DONOR/NAME_in_1.npy, DONOR/NAME_act_2.npy; others with --class-words), folders");
}

/* Writes a cell of 4 bins with these images of equal pixels, 3 x 3. */
static void add_bins(const char *name, const int32_t bins[4]) {
    const int64_t dims[3] = {3, 3, 4};
    int32_t counts[36];
    for (int i = 0; i < 36; i++) counts[i] = bins[i % 4] + (i < 4 && bins[i % 4] == 1);
    char *path = place(name);
    if (!npy_write(path, "<i4", counts, 3, dims, &error)) fail_msg("%s", error.text);
}

static void print_cells(void *options) {
    CvCells c;
    if (!cv_cells_open(&c, cells, options, &error)) die("%s", error.text);
    cv_cells_close(&c);
    exit(0);
}

TEST_WITH(what_is_odd_is_counted, new_root, NULL) {
    char output[4096], *table = kept_path(root, "classes.csv");
    CvCellsOptions options = PLAIN;
    add_cell("D1/m1_in_1.npy", 0);
    add_cell("D1/m1_act_1.npy", 0);
    add_bins("D1/m1_act_2.npy", (const int32_t[]){3, 2, 5, 10});
    add_bins("D1/m1_act_3.npy", (const int32_t[]){9, 2, 5, 2});
    add_bins("D1/m1_act_4.npy", (const int32_t[]){3, 2, 1, 6}); /* in one pixel the last is not the sum */
    add_cell("D1/m1_insulin_1.npy", 1);
    add_text("D1/field.ptu", "PQTTTR");
    add_text("D1/all.NPZ", "PK");
    assert_int_equal(run_function(output, sizeof output, print_cells, &options), 0);
    assert_contains(output, "[Store] 1 files have no class");
    assert_contains(output, "[Store] 2 cells have no photon");
    assert_contains(output, "[Store] 2 cells have a first or last bin that is the sum of all others");
    assert_null(strstr(output, "are copies of others")); /* cells without a photon are none */
    assert_contains(output, "[Store] 2 files have other formats: left out\n");
    assert_contains(output, "[Store] 1 of them are PicoQuant's lists of photons, no images (.ptu): Python's ptufile");
    assert_contains(output, "[Store] 1 of them are archives of NumPy (.npz): ");
    write_text(table, "%s", "file,class\nm1_in_1.npy,0\nm1_act_1.npy,1\ngone.npy,1\n");
    options.class_table = table;
    assert_int_equal(run_function(output, sizeof output, print_cells, &options), 0);
    assert_contains(output, "[Store] 1 rows of the table of classes name no file that is here");
}

TEST_WITH(foreign_formats_are_called_what_they_are, new_root, NULL) {
    add_text("D1/m1_act.ptu", "PQTTTR");
    assert_refused(&PLAIN, "no cell found; expected ");
    assert_refused(&PLAIN, "; 1 files are PicoQuant's lists of photons, no images (.ptu): Python's ptufile");
    char *file = path_join(root, "cells.parquet");
    write_text(file, "PAR1");
    free(cells);
    cells = file;
    assert_refused(&PLAIN,
                   "cells.parquet: is a file, of tables of Parquet; expected a folder of cells, DIR/DONOR/NAME");
}
