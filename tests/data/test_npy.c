/* npy files of every dtype, order and version, built here byte by byte; and every error of such a file. */
#include "base/file.h"
#include "data/formats/npy.h"

#include <float.h>
#include <limits.h>
#include <math.h>

#include "tests/test.h"

static Error error;

typedef struct {
    unsigned char bytes[2048];
    size_t size;
} File;

/* Makes a file of format `version`. Pads its header as numpy does: the numbers begin at a multiple of 64 bytes. */
static File make_file(int version, const char *header, const void *data, size_t size) {
    File file = {.size = 0};
    size_t start = version == 1 ? 10 : 12, text = strlen(header), total = (start + text + 1 + 63) / 64 * 64;
    memcpy(file.bytes, "\x93NUMPY", 6);
    file.bytes[6] = (unsigned char)version;
    for (size_t i = 8; i < start; i++) file.bytes[i] = (unsigned char)((total - start) >> 8 * (i - 8));
    memset(file.bytes + start, ' ', total - start);
    memcpy(file.bytes + start, header, text);
    file.bytes[total - 1] = '\n';
    if (size) memcpy(file.bytes + total, data, size);
    file.size = total + size;
    return file;
}

static File make_array(const char *descr, const char *shape, const void *data, size_t size) {
    char header[256];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    return make_file(1, header, data, size);
}

static Npy parse(const File *file) {
    Npy npy;
    if (!npy_parse(file->bytes, file->size, &npy, &error)) fail_msg("%s", error.text);
    return npy;
}

static void expect_refused(const File *file, const char *message) {
    Npy npy;
    Error error = {.text = ""};
    assert_false(npy_parse(file->bytes, file->size, &npy, &error));
    assert_contains(error.text, message);
}

static void expect_header_refused(const char *header, const char *message) {
    File file = make_file(1, header, NULL, 0);
    expect_refused(&file, message);
}

/* Reads three values of one dtype, little-endian in `low`, in both byte orders, as f32 and, if whole, as i32. */
static void expect_values(const char *type, const void *low, int item, const double want[3], bool whole) {
    static const char orders[] = "<>|=";
    for (int o = 0; o < 4; o++) {
        unsigned char raw[24];
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < item; k++)
                raw[i * item + k] = ((const unsigned char *)low)[i * item + (o == 1 ? item - 1 - k : k)];
        char descr[8];
        snprintf(descr, sizeof descr, "%c%s", orders[o], type);
        File file = make_array(descr, "(3,)", raw, 3 * (size_t)item);
        Npy npy = parse(&file);
        assert_int_equal(npy.kind, type[0]);
        assert_int_equal(npy.item_size, item);
        assert_int_equal(npy.rank, 1);
        assert_int_equal(npy.count, 3);
        float reals[3];
        double doubles[3], part[2] = {0};
        int32_t integers[3];
        assert_true(npy_to_f32(&npy, reals, &error));
        npy_to_f64(&npy, 0, 3, doubles);
        npy_to_f64(&npy, 2, 1, part);
        assert_true(part[0] == want[2] && part[1] == 0);
        for (int i = 0; i < 3; i++) assert_true(reals[i] == (float)want[i] && doubles[i] == want[i]);
        assert_int_equal(npy_to_i32(&npy, integers, &error), whole);
        for (int i = 0; whole && i < 3; i++) assert_true(integers[i] == want[i]);
    }
}

TEST(every_dtype_is_read_in_both_byte_orders) {
    expect_values("b1", (const uint8_t[]){0, 1, 2}, 1, (const double[]){0, 1, 1}, true);
    expect_values("i1", (const int8_t[]){-128, 7, 127}, 1, (const double[]){-128, 7, 127}, true);
    expect_values("u1", (const uint8_t[]){0, 128, 255}, 1, (const double[]){0, 128, 255}, true);
    expect_values("i2", (const int16_t[]){-32768, -2, 258}, 2, (const double[]){-32768, -2, 258}, true);
    expect_values("u2", (const uint16_t[]){1, 258, 65535}, 2, (const double[]){1, 258, 65535}, true);
    expect_values("i4", (const int32_t[]){INT_MIN, -1, INT_MAX}, 4, (const double[]){INT_MIN, -1, INT_MAX}, true);
    expect_values("u4", (const uint32_t[]){0, 66051, INT_MAX}, 4, (const double[]){0, 66051, INT_MAX}, true);
    expect_values("i8", (const int64_t[]){INT_MIN, 0, 66051}, 8, (const double[]){INT_MIN, 0, 66051}, true);
    expect_values("u8", (const uint64_t[]){3, 66051, INT_MAX}, 8, (const double[]){3, 66051, INT_MAX}, true);
    expect_values("f4", (const float[]){-8, 0, 1024}, 4, (const double[]){-8, 0, 1024}, true);
    expect_values("f8", (const double[]){-8, 0, INT_MIN}, 8, (const double[]){-8, 0, INT_MIN}, true);
    /* IEEE half: 0xC800 = -8, 0x3C00 = 1, 0x7BFF = 65504 */
    expect_values("f2", (const uint16_t[]){0xC800, 0x3C00, 0x7BFF}, 2, (const double[]){-8, 1, 65504}, true);
    expect_values("f4", (const float[]){0.1f, 1, 1}, 4, (const double[]){(double)0.1f, 1, 1}, false);
    expect_values("f8", (const double[]){1, 1, 0.1}, 8, (const double[]){1, 1, 0.1}, false);
    expect_values("u8", (const uint64_t[]){0, 1, UINT64_MAX}, 8, (const double[]){0, 1, 0x1p64}, false);
    expect_values("i8", (const int64_t[]){0, 1, INT64_MIN}, 8, (const double[]){0, 1, -0x1p63}, false);
    expect_values("u4", (const uint32_t[]){0, 1, UINT_MAX}, 4, (const double[]){0, 1, UINT_MAX}, false);
    /* 0x0001 is the smallest half, 2^-24; 0x8000 is -0 */
    expect_values("f2", (const uint16_t[]){0x0001, 0x8000, 0x3555}, 2, (const double[]){0x1p-24, 0, 0x555p-12}, false);
}

TEST(infinities_and_nan_are_read) {
    const uint16_t halves[3] = {0x7C00, 0xFC00, 0x7E01};
    const double doubles[3] = {INFINITY, -INFINITY, NAN};
    File files[2] = {make_array("<f2", "(3,)", halves, sizeof halves),
                     make_array("<f8", "(3,)", doubles, sizeof doubles)};
    for (int i = 0; i < 2; i++) {
        Npy npy = parse(&files[i]);
        float got[3];
        int32_t integers[3];
        assert_true(npy_to_f32(&npy, got, &error));
        assert_true(got[0] == INFINITY && got[1] == -INFINITY && isnan(got[2]));
        double wide[3];
        npy_to_f64(&npy, 0, 3, wide);
        assert_true(wide[0] == INFINITY && wide[1] == -INFINITY && isnan(wide[2]));
        assert_false(npy_to_i32(&npy, integers, &error));
        assert_contains(error.text, "element 0 is inf, which is no 32-bit integer");
    }
}

TEST(values_that_do_not_fit_are_named) {
    const int64_t integers[3] = {0, 5, (int64_t)INT_MAX + 1};
    const double doubles[3] = {1, 2.5, 2 * (double)FLT_MAX};
    File files[2] = {make_array("<i8", "(3,)", integers, 24), make_array("<f8", "(3,)", doubles, 24)};
    int32_t whole[3];
    float reals[3];
    Npy npy = parse(&files[0]);
    assert_false(npy_to_i32(&npy, whole, &error));
    assert_contains(error.text, "element 2 is beyond a 32-bit integer");
    npy = parse(&files[1]);
    assert_false(npy_to_i32(&npy, whole, &error));
    assert_contains(error.text, "element 1 is 2.5, which is no 32-bit integer");
    assert_false(npy_to_f32(&npy, reals, &error));
    assert_contains(error.text, "element 2 is 6.80565e+38, beyond a 32-bit float");
}

TEST(versions_1_to_3_are_read) {
    const int16_t data[2] = {3, -4};
    for (int version = 1; version <= 3; version++) {
        File file = make_file(version, "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", data, sizeof data);
        Npy npy = parse(&file);
        int32_t got[2];
        assert_true(npy_to_i32(&npy, got, NULL));
        assert_int_equal(got[0], 3);
        assert_int_equal(got[1], -4);
    }
    File file = make_array("<i2", "(2,)", data, sizeof data);
    file.bytes[6] = 4;
    expect_refused(&file, "has npy version 4.0; expected 1.0, 2.0 or 3.0");
    file.bytes[6] = 1;
    file.bytes[7] = 1;
    expect_refused(&file, "has npy version 1.1");
}

/* numbers[i] = i + 1 in C order of [2, 3, 4]; in Fortran order the first index runs fastest. */
TEST(fortran_order_is_transposed) {
    int32_t stored[24], whole[24];
    float reals[24];
    double doubles[24], rows[8];
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 4; c++) stored[a + 2 * (b + 3 * c)] = (a * 3 + b) * 4 + c + 1;
    File file = make_file(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 4), }", stored, sizeof stored);
    Npy npy = parse(&file);
    assert_true(npy.fortran_order);
    assert_int_equal(npy.rank, 3);
    assert_true(npy_to_i32(&npy, whole, NULL));
    assert_true(npy_to_f32(&npy, reals, NULL));
    npy_to_f64(&npy, 0, 24, doubles);
    npy_to_f64(&npy, 9, 8, rows); /* from the middle */
    for (int i = 0; i < 24; i++) assert_true(whole[i] == i + 1 && reals[i] == (float)(i + 1) && doubles[i] == i + 1);
    for (int i = 0; i < 8; i++) assert_true(rows[i] == i + 10);
}

TEST(scalars_and_empty_arrays_are_read) {
    const int32_t one = 42;
    int32_t got = 0;
    File file = make_array("<i4", "()", &one, 4); /* a scalar */
    Npy npy = parse(&file);
    assert_true(npy.rank == 0 && npy.count == 1);
    assert_true(npy_to_i32(&npy, &got, NULL));
    assert_int_equal(got, 42);
    file = make_array("<f4", "(0,)", NULL, 0);
    npy = parse(&file);
    assert_true(npy.rank == 1 && npy.count == 0 && npy_to_f32(&npy, NULL, NULL));
    file = make_array("<i4", "(1, 0, 1000000)", NULL, 0);
    npy = parse(&file);
    assert_true(npy.rank == 3 && npy.count == 0 && npy.dims[2] == 1000000);
    file = make_array("<i4", "(1, 1, 1, 1, 1, 1, 1, 1)", &one, 4);
    npy = parse(&file);
    assert_int_equal(npy.rank, 8);
}

/* numpy.load reads all of these headers too. */
TEST(every_valid_python_header_is_read) {
    const int32_t data[2] = {1, 2};
    static const char *const headers[] = {
        "{'shape': (2,), 'fortran_order': False, 'descr': '<i4'}",
        "{\"descr\": \"<i4\", \"fortran_order\": False, \"shape\": (2,)}",
        "{'descr':'<i4','fortran_order':False,'shape':(2,),}",
        " {\n 'descr' : '<i4' ,\t'fortran_order' : False , 'shape' : ( 2 , ) , } ",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2L,), }",
        "{'descr': 'i4', 'fortran_order': False, 'shape': (2, 1,), }",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        File file = make_file(1, headers[i], data, sizeof data);
        Npy npy = parse(&file);
        int32_t got[2];
        assert_true(npy_to_i32(&npy, got, NULL));
        assert_true(got[0] == 1 && got[1] == 2);
    }
}

TEST(wrong_headers_are_refused) {
    expect_header_refused("", "the header is not a dictionary");
    expect_header_refused("['descr', '<i4']", "the header is not a dictionary");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, }", "of descr, fortran_order and shape");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)", "dictionary is not closed");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)} 1", "of descr, fortran_order");
    expect_header_refused("{'descr': '<i4', 'descr': '<i4', 'shape': (2,)}", "unexpected key 'descr'");
    expect_header_refused("{'descr': '<i4', 'order': False, 'shape': (2,)}", "unexpected key 'order'");
    expect_header_refused("{'descr': '<i4', 'fortran_order': 0, 'shape': (2,)}", "neither True nor False");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': [2]}", "shape is not a tuple");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (2)}", "shape is not a tuple");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (2 3)}", "shape is not a tuple");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (,)}", "shape is not a tuple of sizes");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (-2,)}", "shape is not a tuple of sizes");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
                          "more than 8 dimensions");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                          "a dimension that is too large");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
                          "a shape that is too large");
    expect_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904,)}",
                          "a shape that is too large"); /* its bytes, not its count */
}

TEST(other_dtypes_are_refused) {
    File file = make_array("|O", "(2,)", "pickled!", 8);
    expect_refused(&file, "holds Python objects (dtype |O): a pickle, which is not read");
    expect_header_refused("{'descr': [('a', '<i4'), ('b', '<f4')], 'fortran_order': False, 'shape': (2,)}",
                          "is an array of records; expected plain numbers");
    expect_header_refused("{'descr': 4, 'fortran_order': False, 'shape': (2,)}", "descr is not a text");
    static const char *const others[] = {"<c8", "<U5",  "|S5", "<M8[s]",       "<f16", "<i3",  "<i",
                                         "",    "<b4",  "<",   "<f4294967300", "<i+4", "< i4", "<u40",
                                         "<V4", "<<i4", "i",   "<i4\x1b[2J"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        file = make_array(others[i], "(0,)", NULL, 0);
        expect_refused(&file, strchr(others[i], 27) ? "descr is not a text" : "expected bool, integers or floats");
    }
}

TEST(wrong_sizes_are_refused) {
    const int32_t data[10] = {0};
    File file = make_array("<i4", "(10,)", data, sizeof data);
    size_t size = file.size;
    file.size = size - 3;
    expect_refused(&file, "is truncated: it holds 37 bytes of numbers, its shape needs 40");
    file.size = size + 4;
    expect_refused(&file, "holds 44 bytes of numbers, its shape needs only 40");
    file.size = 100;
    expect_refused(&file, "is cut off in its header");
    file.size = 9;
    expect_refused(&file, "is cut off in its header");
    file.size = 0;
    expect_refused(&file, "is not an npy file; it is empty");
    file.bytes[6] = 2;
    file.size = 11;
    expect_refused(&file, "is cut off in its header");
    file.bytes[0] = 'P';
    file.size = size;
    expect_refused(&file, "is not an npy file");
    static const struct {
        const char *bytes, *message;
    } others[] = {
        {"PK\3\4", "is not an npy file; it begins as .npz files do (archives of NumPy): write each array with"},
        {"\x89HDF\r\n\x1a\n", "; it begins as .h5 files do (HDF5): read them with Python's h5py"},
        {"PAR1\x15", "; it begins as .parquet files do (tables of Parquet)"},
        {"version https://git-lfs.github.com/spec/v1\n",
         "; it is a pointer of Git LFS, which stands for a file that was"},
        {" <!DOCTYPE html>", "; it is a web page: download the file itself"},
        {"\x1f\x8b", "; it is compressed with gzip: unpack it with gunzip"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        memset(file.bytes, 0, size);
        memcpy(file.bytes, others[i].bytes, strlen(others[i].bytes));
        expect_refused(&file, others[i].message);
    }
}

/* Compares with the output of np.save of numpy 2.4 for np.arange(3, dtype=np.int32) and np.zeros((2, 1), np.float32).
 * Our header differs in its padding, which begins with a comment: "# xxh3_64 " and 16 digits. */
static void expect_as_numpy_writes(const char *bytes, size_t size, const File *want) {
    const char *brace = memchr(bytes, '}', size), *wanted = memchr(want->bytes, '}', want->size);
    size_t same = (size_t)(brace - bytes) + 1, comment = strlen(" # xxh3_64 0123456789abcdef");
    assert_int_equal(size, want->size);
    assert_int_equal(same, (size_t)(wanted - (const char *)want->bytes) + 1);
    assert_memory_equal(bytes, want->bytes, same);
    assert_memory_equal(brace + 1, " # xxh3_64 ", 11);
    assert_int_equal(strspn(brace + 12, "0123456789abcdef"), 16);
    assert_memory_equal(brace + 1 + comment, wanted + 1 + comment, size - same - comment);
}

TEST(arrays_are_written_as_numpy_writes_them) {
    char *directory = kept_folder(), *path = kept_path(directory, "a.npy"), *bytes;
    size_t size;
    const int32_t integers[3] = {0, 1, 2};
    const float reals[2] = {0, 0};
    const double doubles[2] = {-60.25, 0.1};
    File want[3] = {make_array("<i4", "(3,)", integers, sizeof integers),
                    make_array("<f4", "(2, 1)", reals, sizeof reals),
                    make_array("<f8", "(1, 2)", doubles, sizeof doubles)};
    for (int i = 0; i < 3; i++) {
        assert_true(i == 2   ? npy_write(path, "<f8", doubles, 2, (const int64_t[]){1, 2}, &error)
                    : i == 1 ? npy_write(path, "<f4", reals, 2, (const int64_t[]){2, 1}, &error)
                             : npy_write(path, "<i4", integers, 1, (const int64_t[]){3}, &error));
        assert_true(read_file(path, &bytes, &size, &error));
        expect_as_numpy_writes(bytes, size, &want[i]);
        free(bytes);
    }
    assert_true(npy_write(path, "<f4", NULL, 1, (const int64_t[]){0}, &error)); /* empty */
    assert_true(read_file(path, &bytes, &size, &error));
    Npy npy;
    assert_true(npy_parse(bytes, size, &npy, &error) && npy.count == 0);
    free(bytes);
    path = kept_path(directory, "no/such/a.npy");
    assert_false(npy_write(path, "<i4", integers, 1, (const int64_t[]){3}, &error));
    assert_contains(error.text, "No such file or directory");
}

/* A file is refused if any bit of its dictionary, checksum or numbers is flipped. */
TEST(damage_is_detected) {
    char *directory = kept_folder(), *path = kept_path(directory, "a.npy"), *bytes;
    const float values[4] = {1, 2, 3, 4};
    size_t size;
    Npy npy;
    assert_true(npy_write(path, "<f4", values, 2, (const int64_t[]){2, 2}, &error));
    assert_true(read_file(path, &bytes, &size, &error));
    assert_true(npy_parse(bytes, size, &npy, &error) && npy.has_checksum);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bool spaces =
            bit / 8 >= size - sizeof values - 2 && bit / 8 < size - sizeof values; /* padding before the numbers */
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        if (!spaces && npy_parse(bytes, size, &npy, &error) && npy.has_checksum)
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    bytes[size - 1] ^= 1;
    assert_false(npy_parse(bytes, size, &npy, &error));
    assert_contains(error.text, "is damaged: its checksum is ");
    free(bytes);
}
