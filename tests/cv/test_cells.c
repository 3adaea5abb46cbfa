/* Folders of FLIM cells: names, arrays of every type, when the store is made anew, and every way in which a folder can
 * be wrong. */
#include "data/cv/cells.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <unistd.h>

#include "base/file.h"
#include "data/cv/cell_store.h"
#include "tests/cv/golden.h"
#include "tests/documented.h"
#include "tests/files.h"

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

/* cells/NAME of H x W x T, values[i]; `dtype` as npy_write has it. */
static void add_array(const char *name, const char *dtype, const void *values, int rank, const int64_t *dims) {
    char *path = kept_path(cells, name), *folder = keep(path_directory(path));
    make_directories(folder);
    if (!npy_write(path, dtype, values, rank, dims, &error)) fail_msg("%s", error.text);
}

enum { H = 3, T = 4, VOXELS = H * H * T };
static const int64_t DIMS[3] = {H, H, T};

/* Count i * factor, but for the last, which is `last`. */
static void add_cell(const char *name, double factor, double last) {
    double values[VOXELS];
    for (int i = 0; i < VOXELS; i++) values[i] = i == VOXELS - 1 ? last : factor * i;
    add_array(name, "<f8", values, 3, DIMS);
}

static CvCells open_cells(bool compat, int n_threads) {
    CvCells c;
    if (!cv_cells_open(&c, cells, &(CvCellsOptions){.compat = compat, .n_threads = n_threads}, &error))
        fail_msg("%s", error.text);
    return c;
}

static void assert_refused(const char *part) {
    CvCells c;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        Error error = {""};
        assert_false(cv_cells_open(&c, cells, &(CvCellsOptions){.n_threads = n_threads}, &error));
        assert_contains(error.text, part);
        assert_true(!c.n && !c.counts);
    }
}

TEST_WITH(file_names_hold_class_field_and_prefix, new_root, NULL) {
    static const struct {
        const char *name, *prefix, *field;
        int label;
        bool both;
    } want[] = {{"d01m1_in_cell_1.npy", "d01", "m1", 0, false},
                {"cd8m5_act_cell_43.npy", "cd8", "m5", 1, false},
                {"d12m31_act_in_cell.npy", "d12", "m31", 0, true},
                {"d01m1_cell_1.npy", "", "", -1, false},
                {"fov3_act_1.npy", "", "fov3", 1, false},
                {"m7_in.npy", "", "m7", 0, false},
                {"12_in.npy", "", "12", 0, false}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        CvCellName n = cv_cells_parse_name(want[i].name);
        assert_true(n.label == want[i].label && n.both == want[i].both);
        assert_true(n.prefix == (int)strlen(want[i].prefix) && n.field == (int)strlen(want[i].field));
        assert_memory_equal(want[i].name, want[i].prefix, strlen(want[i].prefix));
        assert_memory_equal(want[i].name + n.prefix, want[i].field, strlen(want[i].field));
    }
}

/* ---- what is read ---- */

TEST_WITH(cells_are_sorted_and_described, new_root, NULL) {
    add_cell("isolated_cells_D10/d01m2_in_cell_1.npy", 1, 3);
    add_cell("isolated_cells_D2/d01m10_act_cell_1.npy", 2, 200);
    add_cell("isolated_cells_D2/d01m2_in_cell_10.npy", 1, 3);
    add_cell("isolated_cells_D2/d02m2_in_cell_9.npy", 0, 0);
    add_cell("isolated_cells_D2/d01m2_cell_9.npy", 0, 0);
    add_cell("isolated_cells_D2/.hidden_in.npy", 0, -1);
    add_cell("isolated_cells_D2/deeper/d01m2_in_cell_9.npy", 0, -1);
    char *notes = kept_path(cells, "notes.txt");
    write_text(notes, "text");
    CvCells c = open_cells(false, 2);
    assert_contains(tensor_file_metadata(&c.file, "findings"), "\"deeper\": 1");
    assert_store_documented(&c.file, "## The store of cells");
    assert_true(c.n == 4 && c.bits == 8 && c.shape.T == T && c.shape.H == H && c.n_donors == 2 && c.n_fields == 3);
    assert_string_equal(c.donor_names[0], "D2");
    assert_string_equal(c.donor_names[1], "D10");
    static const char *const files[] = {
        "isolated_cells_D2/d01m2_in_cell_10.npy", "isolated_cells_D2/d01m10_act_cell_1.npy",
        "isolated_cells_D2/d02m2_in_cell_9.npy", "isolated_cells_D10/d01m2_in_cell_1.npy"};
    static const int32_t labels[] = {0, 1, 0, 0}, donors[] = {0, 0, 0, 1}, fields[] = {0, 1, 0, 2},
                         same[] = {0, 1, 2, 0};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(c.file_names[i], files[i]);
        assert_true(c.labels[i] == labels[i] && c.donors[i] == donors[i] && c.fields[i] == fields[i] &&
                    c.same_as[i] == same[i]);
    }
    assert_string_equal(c.field_names[0], "D2 m2");
    assert_string_equal(c.field_names[1], "D2 m10");
    assert_string_equal(c.field_names[2], "D10 m2");
    /* cell 1: 2 (4 p + t), and 200 for the 70 at the end */
    float counts[VOXELS];
    cv_cells_counts(&c, 1, counts);
    for (int i = 0; i < VOXELS; i++) {
        int p = i % (H * H), t = i / (H * H);
        assert_true(counts[i] == (p == 8 && t == 3 ? 200 : (float)(2 * (4 * p + t))));
    }
    assert_true(c.photons[1] == 2 * 35 * 36 / 2 - 70 + 200 && c.peaks[1] == 3 && c.sizes[1] == 9);
    assert_true(c.photons[2] == 0 && c.peaks[2] == 0 && c.sizes[2] == 0 && c.entropy[2] == 0);
    cv_cells_close(&c);
    char *alone = kept_path(cells, "isolated_cells_D10");
    const CvCellsOptions options = {.n_threads = 1, .unlabelled = true};
    if (!cv_cells_open(&c, alone, &options, &error)) fail_msg("%s", error.text);
    assert_string_equal(c.donor_names[0], "D10"); /* as where its folder is one of several */
    cv_cells_close(&c);
}

/* The specification's four cells: photons, footprints, entropies at bin 50; and T < H only under compat. */
TEST_WITH(golden_cells_have_their_numbers, new_root, NULL) {
    static const int64_t dims[3] = {21, 21, 256};
    static const double photons[4] = {65424, 228507, 533517, 1078182};
    static const double entropy[4] = {5.614447066, 6.820060001, 7.621978637, 8.308292562};
    static const int sizes[4] = {49, 113, 197, 317};
    int32_t *values = xmalloc(21 * 21 * 256 * sizeof *values);
    for (int n = 0; n < 4; n++) {
        char name[32];
        for (int i = 0; i < 21 * 21 * 256; i++) values[i] = cv_golden_count(n, i % 256, i / 256 / 21, i / 256 % 21);
        snprintf(name, sizeof name, "A/m%d_in.npy", n);
        add_array(name, "<i4", values, 3, dims);
    }
    for (int compat = 0; compat < 2; compat++) {
        CvCells c = open_cells(compat, 2);
        for (int n = 0; n < 4; n++) {
            assert_true(c.photons[n] == photons[n] && c.sizes[n] == sizes[n] && c.peaks[n] == 50);
            assert_near(c.entropy[n], entropy[n], 1e-9);
            float *counts = xmalloc(21 * 21 * 256 * sizeof *counts);
            unsigned char footprint[441] = {0};
            int pixels = 0;
            cv_cells_counts(&c, n, counts);
            for (int i = 0; i < 21 * 21 * 256; i++) footprint[i % 441] |= counts[i] > 0;
            for (int i = 0; i < 441; i++) pixels += footprint[i];
            assert_int_equal(pixels, sizes[n]);
            assert_memory_equal(footprint, c.footprints + n * 441, 441);
            free(counts);
        }
        cv_cells_close(&c);
    }
    free(values);
}

/* Two times, three rows: the reference takes rows for times. Row 1 has the most photons, four of them alike. */
TEST_WITH(compat_repairs_axes, new_root, NULL) {
    const uint16_t counts[2 * 9] = {1, 0, 0, 3, 3, 0, 0, 0, 0, /* the second time: */ 1, 0, 0, 3, 3, 0, 0, 0, 0};
    const AugmentShape shape = {2, 3, 3};
    assert_near(cell_store_entropy(counts, shape, true), 2, 1e-15);
    assert_near(cell_store_entropy(counts, shape, false), -(log2(1.0 / 7) + 6 * log2(3.0 / 7)) / 7, 1e-15);
    const uint16_t tie[2 * 9] = {4, 4, 0, 0, 0, 0, 0, 0, 0, /* as many photons later: the first counts */ 8};
    assert_near(cell_store_entropy(tie, shape, false), 1, 1e-15);
}

/* Written by hand, for the types and orders that npy_write does not have. */
static void write_array(const char *name, const char *descr, bool fortran, const void *values, size_t bytes) {
    unsigned char file[128 + VOXELS * 8] = "\x93NUMPY\x01\x00\x76\x00";
    char *path = kept_path(cells, name);
    memset(file + 10, ' ', 118);
    int n = snprintf((char *)file + 10, 118, "{'descr': '%s', 'fortran_order': %s, 'shape': (3, 3, 4), }", descr,
                     fortran ? "True" : "False");
    file[10 + n] = ' ';
    file[127] = '\n';
    memcpy(file + 128, values, bytes);
    write_bytes(path, file, 128 + bytes);
}

TEST_WITH(every_type_and_order_is_the_same_cell, new_root, NULL) {
    unsigned char u1[VOXELS], u2_big[2 * VOXELS], fortran[VOXELS];
    int64_t i8[VOXELS];
    float f4[VOXELS];
    uint16_t half[VOXELS];
    add_cell("A/m1_in_1.npy", 1, 35);
    for (int i = 0; i < VOXELS; i++) {
        u1[i] = (unsigned char)i;
        u2_big[2 * i] = 0;
        u2_big[2 * i + 1] = (unsigned char)i;
        i8[i] = i;
        f4[i] = (float)i;
        int exponent = i ? (int)log2(i) : 0;
        half[i] = i ? (uint16_t)((exponent + 15) << 10 | ((i << 10 >> exponent) & 1023)) : 0;
        fortran[i % 4 * 9 + i / 4 % 3 * 3 + i / 12] = (unsigned char)i;
    }
    write_array("A/m1_in_2.npy", "|u1", false, u1, sizeof u1);
    write_array("A/m1_in_3.npy", ">u2", false, u2_big, sizeof u2_big);
    write_array("A/m1_in_4.npy", "<i8", false, i8, sizeof i8);
    write_array("A/m1_in_5.npy", "<f4", false, f4, sizeof f4);
    write_array("A/m1_in_6.npy", "<f2", false, half, sizeof half);
    write_array("A/m1_in_7.npy", "|u1", true, fortran, sizeof fortran);
    CvCells c = open_cells(false, 2);
    assert_true(c.n == 7);
    for (int i = 0; i < 7; i++) assert_int_equal(c.same_as[i], 0);
    cv_cells_close(&c);
}

/* Writes the cell of add_cell(name, 1, 35) as a TIFF stack of one byte a pixel. */
static void add_tiff(const char *name) {
    char *path = kept_path(cells, name), *folder = keep(path_directory(path));
    make_directories(folder);
    TIFF *tiff = TIFFOpen(path, "wb");
    assert_non_null(tiff);
    for (int t = 0; t < T; t++) {
        unsigned char page[H * H];
        for (int p = 0; p < H * H; p++) page[p] = (unsigned char)(p * T + t);
        TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, H);
        TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, H);
        TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
        TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
        TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_LZW);
        TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, H);
        assert_true(TIFFWriteEncodedStrip(tiff, 0, page, sizeof page) == sizeof page && TIFFWriteDirectory(tiff));
    }
    TIFFClose(tiff);
}

/* Writes the same cell as an .sdt file: one block of 16-bit numbers. */
static void add_sdt(const char *name) {
    enum { DESCRIPTION = 42, BLOCK = DESCRIPTION + 200, DATA = BLOCK + 22 };
    unsigned char file[DATA + 2 * VOXELS] = {15};
    const int fields[][2] = {{14, BLOCK},
                             {18, 1},
                             {24, DESCRIPTION},
                             {28, 1},
                             {30, 200},
                             {32, 0x55},
                             {33, 0x55},
                             {DESCRIPTION + 82, T},
                             {DESCRIPTION + 173, H},
                             {DESCRIPTION + 177, H},
                             {BLOCK + 2, DATA & 255},
                             {BLOCK + 3, DATA >> 8},
                             {BLOCK + 10, 0x11},
                             {BLOCK + 18, 2 * VOXELS}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) file[fields[i][0]] = (unsigned char)fields[i][1];
    for (int i = 0; i < VOXELS; i++) file[DATA + 2 * i] = (unsigned char)i;
    write_bytes(kept_path(cells, name), file, sizeof file);
}

/* A folder may mix kinds, and endings may be in capitals. The store, and so the training, has the same bits. */
TEST_WITH(every_kind_of_file_is_the_same_cell, new_root, NULL) {
    add_cell("A/m1_in_1.npy", 1, 35);
    add_tiff("A/m1_in_2.tif");
    add_tiff("A/m1_in_3.TIFF");
    add_sdt("A/m1_in_4.sdt");
    write_text(kept_path(cells, "A/m1_in_5.ptu"), "another format");
    CvCells c = open_cells(false, 2);
    assert_true(c.n == 4);
    float counts[2][VOXELS];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(c.same_as[i], 0);
        assert_true(c.photons[i] == c.photons[0] && c.entropy[i] == c.entropy[0]);
        cv_cells_counts(&c, i, counts[i > 0]);
        assert_memory_equal(counts[0], counts[i > 0], sizeof counts[0]);
        assert_int_equal(cv_cells_checksum(&c, i), cv_cells_checksum(&c, 0));
    }
    const char *found = tensor_file_metadata(&c.file, "findings");
    assert_contains(found, "\"npy\": 1, \"tiff\": 2, \"sdt\": 1");
    assert_contains(found, "\"others\": 1");
    cv_cells_close(&c);
}

static void print_cells(void *unused) {
    (void)unused;
    CvCells c = open_cells(false, 1);
    cv_cells_close(&c);
    exit(0);
}

TEST_WITH(kinds_are_counted_if_they_are_mixed, new_root, NULL) {
    char output[2048];
    add_tiff("A/m1_in_1.tif");
    assert_int_equal(run_function(output, sizeof output, print_cells, NULL), 0);
    assert_null(strstr(output, "cells are"));
    add_cell("A/m1_in_2.npy", 1, 3);
    add_sdt("A/m1_in_3.sdt");
    add_sdt("A/m1_act_4.SDT");
    for (int again = 0; again < 2; again++) { /* when the store is made, and later */
        assert_int_equal(run_function(output, sizeof output, print_cells, NULL), 0);
        assert_contains(output, "[Store] 1 cells are .npy files\n[Store] 1 cells are TIFF stacks\n"
                                "[Store] 2 cells are .sdt files\n");
    }
}

TEST_WITH(bad_stacks_are_named, new_root, NULL) {
    static const unsigned char zeros[3] = {0};
    add_tiff("A/m1_in_1.tif");
    add_cell("A/m1_in_1.npy", 1, 3);
    assert_refused("A/m1_in_1.npy and m1_in_1.tif have one name, and would count as two cells: keep one of them");
    add_cell("A/m1_in_1.part.npy", 1, 3); /* comes between them */
    assert_refused("A/m1_in_1.npy and m1_in_1.tif have one name");
    char *twin = kept_path(cells, "A/m1_in_1.npy");
    assert_int_equal(unlink(twin), 0);
    twin = kept_path(cells, "A/m1_in_1.part.npy");
    assert_int_equal(unlink(twin), 0);
    char *path = kept_path(cells, "A/m1_in_2.tif"), *sdt = kept_path(cells, "A/m1_in_2.sdt");
    write_bytes(path, zeros, sizeof zeros);
    assert_refused("A/m1_in_2.tif: cannot be read as TIFF");
    assert_int_equal(unlink(path), 0);
    write_bytes(sdt, zeros, sizeof zeros);
    assert_refused("A/m1_in_2.sdt: is cut off");
}

TEST_WITH(the_greatest_count_chooses_the_type, new_root, NULL) {
    static const double most[] = {255, 256, 65535};
    uint64_t sums[3][2];
    for (int i = 0; i < 3; i++) {
        new_root(NULL);
        add_cell("A/m1_in.npy", 1, 3);
        add_cell("B/m1_act.npy", 1, most[i]);
        CvCells c = open_cells(false, 1);
        float counts[VOXELS];
        assert_int_equal(c.bits, i ? 16 : 8);
        cv_cells_counts(&c, 1, counts);
        assert_true((double)counts[VOXELS - 1] == most[i] && counts[9] == 1);
        for (int cell = 0; cell < 2; cell++) sums[i][cell] = cv_cells_checksum(&c, cell);
        cv_cells_close(&c);
    }
    /* A cell's sum is of its counts, not of their type. */
    assert_true(sums[0][0] == sums[1][0] && sums[1][0] == sums[2][0]);
    assert_true(sums[0][1] != sums[1][1] && sums[1][1] != sums[2][1] && sums[0][0] != sums[0][1]);
}

/* ---- when the store is made ---- */

static uint64_t inode(void) {
    char *path = keep(cv_cells_path(cells, CV_CELLS_ENDING));
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_ino;
}

/* The file's inode: it is renamed into place, so that a new file has another; held by a link meanwhile. */
static bool is_remade(bool compat) {
    char *path = keep(cv_cells_path(cells, CV_CELLS_ENDING)), *held = kept_path(root, "held");
    uint64_t before = inode();
    assert_int_equal(link(path, held), 0);
    CvCells c = open_cells(compat, 2);
    cv_cells_close(&c);
    assert_int_equal(unlink(held), 0);
    return inode() != before;
}

TEST_WITH(store_is_made_anew_when_files_change, new_root, NULL) {
    add_cell("A/m1_in.npy", 1, 3);
    add_cell("B/m1_act.npy", 1, 4);
    CvCells c = open_cells(false, 2);
    cv_cells_close(&c);
    assert_false(is_remade(false));
    assert_true(is_remade(true)); /* other options */
    assert_true(is_remade(false));
    add_cell("B/m2_act.npy", 1, 4);
    assert_true(is_remade(false));
    assert_false(is_remade(false));
    char *path = kept_path(cells, "B/m2_act.npy"), *other = kept_path(cells, "B/m3_act.npy");
    assert_int_equal(rename(path, other), 0);
    assert_true(is_remade(false));
    for (int i = 0; i < 3; i++) { /* changed at other seconds, other nanoseconds, at the same time as before */
        set_file_time(other, (struct timespec){1000000000, i ? 6000000 : 5000000});
        assert_true(is_remade(false));
        assert_false(is_remade(false));
    }
    char *store = keep(cv_cells_path(cells, CV_CELLS_ENDING));
    write_text(store, "damaged");
    assert_true(is_remade(false));
    char *bytes; /* one bit of a count, or of a name */
    size_t size;
    for (int i = 0; i < 2; i++) {
        assert_true(read_file(store, &bytes, &size, NULL));
        char *name = memmem(bytes, size, "m1_act", 6);
        assert_non_null(name);
        *(i ? name : bytes + size - 1) ^= 1;
        write_bytes(store, bytes, size);
        assert_true(is_remade(false));
        free(bytes);
    }
    assert_true(cv_cells_open(&c, store, &(CvCellsOptions){.n_threads = 1}, NULL)); /* by itself */
    assert_int_equal(c.n, 3);
    cv_cells_close(&c);
}

TEST_WITH(paths_lose_their_slashes, new_root, NULL) {
    assert_string_equal(keep(cv_cells_path("a/b//", CV_CELLS_ENDING)), "a/b.flim.safetensors");
}

/* ---- what is wrong ---- */

TEST_WITH(wrong_values_are_refused, new_root, NULL) {
    static const struct {
        double value;
        const char *text;
    } wrong[] = {{-1, "pixel (2, 2) has -1 photons in bin 3"},
                 {(double)NAN, "nan photons"},
                 {(double)INFINITY, "inf photons"},
                 {65536, "has 65536 photons in bin 3; expected a whole number, 0 to 65535"},
                 {3.4, "has 3.4 photons in bin 3; expected a whole number"}};
    for (int i = 0; i < 5; i++) {
        new_root(NULL);
        add_cell("A/m1_in.npy", 1, 3);
        add_cell("A/m2_in.npy", 1, wrong[i].value);
        add_cell("A/m3_in.npy", 1, wrong[i].value);
        assert_refused(wrong[i].text);
        assert_refused("A/m2_in.npy");
    }
}

TEST_WITH(mixed_shapes_are_refused, new_root, NULL) {
    static const int64_t others[][3] = {{H, H, 2}, {4, 4, T}, {H, 4, T}};
    static const uint16_t zeros[64];
    for (int i = 0; i < 3; i++) {
        new_root(NULL);
        add_cell("A/m1_in.npy", 1, 3);
        add_array("A/m2_in.npy", "<u2", zeros, 3, others[i]);
        add_array("A/m3_in.npy", "<u2", zeros, 2, others[i]);
        assert_refused("A/m2_in.npy: has shape");
        assert_refused("A/m1_in.npy has [3, 3, 4]");
    }
    new_root(NULL);
    add_array("A/m1_in.npy", "<u2", zeros, 3, others[2]);
    assert_refused("has shape [3, 4, 4]; expected [H, W, T] with H = W");
    new_root(NULL);
    add_array("A/m1_in.npy", "<u2", zeros, 2, others[2]);
    assert_refused("has shape [3, 4]; expected");
}

TEST_WITH(only_regular_files_are_read, new_root, NULL) {
    add_cell("A/m1_in.npy", 1, 3);
    char *fifo = kept_path(cells, "A/m2_in.npy"), *broken = kept_path(cells, "A/m3_in.npy");
    assert_int_equal(mkfifo(fifo, 0666), 0);
    assert_int_equal(has_links() ? symlink("nothing", broken) : mkfifo(broken, 0666), 0);
    CvCells c = open_cells(false, 2);
    assert_int_equal(c.n, 1);
    assert_contains(tensor_file_metadata(&c.file, "findings"), "\"not_regular\": 2");
    cv_cells_close(&c);
}

TEST_WITH(wrong_folders_are_refused, new_root, NULL) {
    assert_refused("No such file");
    make_directories(cells);
    assert_refused("no cell found");
    add_cell("A/m1.npy", 1, 3);
    assert_refused("none of its 1 files has a class, as A/m1.npy");
    add_cell("m1_in.npy", 1, 3);
    assert_refused("lies in no donor's folder");
    new_root(NULL);
    add_cell("D1/m1_in.npy", 1, 3);
    add_cell("isolated_cells_D1/m1_in.npy", 1, 3);
    assert_refused("two folders belong to donor D1");
    new_root(NULL);
    add_cell("Lo\u0300/m1_in.npy", 1, 3);
    add_cell("L\u00f2/m1_in.npy", 1, 3);
    assert_refused("two folders belong to donor L"); /* one name, composed and not */
    new_root(NULL);
    add_cell("isolated_cells_a,b/m1_in.npy", 1, 3);
    assert_refused("the donor a,b has a comma in its name, which separates donors in options: rename its folder");
    new_root(NULL);
    make_directories(cells);
    char *folder = kept_path(cells, "D1"), *path = kept_path(folder, "m1_in.npy");
    make_directories(folder);
    write_text(path, "not an array");
    assert_refused("D1/m1_in.npy: is not an npy file");
}

TEST_WITH(wrong_stores_are_refused, new_root, NULL) {
    char *path = kept_path(root, "x.safetensors");
    static const int32_t ids[4] = {0, 0, 0, 7};
    static const double numbers[2];
    static const unsigned char bytes[2 * 16];
    const TensorToWrite good[] = {{"counts", "U8", 4, {2, 4, 2, 2}, bytes},
                                  {"footprint", "U8", 3, {2, 2, 2}, bytes},
                                  {"label", "I32", 1, {2}, ids},
                                  {"donor", "I32", 1, {2}, ids},
                                  {"field", "I32", 1, {2}, ids},
                                  {"size", "I32", 1, {2}, ids},
                                  {"peak", "I32", 1, {2}, ids},
                                  {"same_as", "I32", 1, {2}, ids},
                                  {"photons", "F64", 1, {2}, numbers},
                                  {"entropy", "F64", 1, {2}, numbers}};
    const char *const keys[] = {"donors", "fields", "files"}, *const values[] = {"[\"A\"]", "[\"A m\"]",
                                                                                 "[\"a\",\"b\"]"};
    CvCells c;
    assert_true(safetensors_write(path, good, 10, keys, values, 3, &error));
    assert_true(cv_cells_open(&c, path, &(CvCellsOptions){.n_threads = 1}, &error));
    cv_cells_close(&c);
    for (int wrong = 0; wrong < 10; wrong++) { /* a tensor of another size, and then of another value */
        TensorToWrite bad[10];
        memcpy(bad, good, sizeof bad);
        bad[wrong].dims[0] = 1;
        assert_true(safetensors_write(path, bad, 10, keys, values, 3, &error));
        assert_false(cv_cells_open(&c, path, &(CvCellsOptions){.n_threads = 1}, &error));
        assert_contains(error.text, "x.safetensors: has no tensor");
        if (strcmp(bad[wrong].dtype, "I32")) continue;
        bad[wrong] = good[wrong];
        bad[wrong].data = ids + 2;
        assert_true(safetensors_write(path, bad, 10, keys, values, 3, &error));
        assert_false(cv_cells_open(&c, path, &(CvCellsOptions){.n_threads = 1}, &error));
        assert_contains(error.text, "[1] is 7; expected 0 to");
    }
    for (int wrong = 0; wrong < 6; wrong++) { /* photons, then entropy */
        const double values_of[3][2] = {{0, (double)NAN}, {0, (double)INFINITY}, {0, -1}};
        TensorToWrite bad[10];
        memcpy(bad, good, sizeof bad);
        bad[8 + wrong / 3].data = values_of[wrong % 3];
        assert_true(safetensors_write(path, bad, 10, keys, values, 3, &error));
        assert_false(cv_cells_open(&c, path, &(CvCellsOptions){.n_threads = 1}, &error));
        assert_contains(error.text,
                        wrong / 3 ? "x.safetensors: entropy of cell 1 (b) is " : "photons of cell 1 (b) is ");
    }
    for (int wrong = 0; wrong < 3; wrong++) {
        const char *bad[] = {values[0], values[1], values[2]};
        bad[wrong] = wrong ? "[1]" : "{}";
        assert_true(safetensors_write(path, good, 10, keys, bad, 3, &error));
        assert_false(cv_cells_open(&c, path, &(CvCellsOptions){.n_threads = 1}, &error));
        assert_contains(error.text, keys[wrong]);
    }
}
