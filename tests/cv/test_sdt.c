/* .sdt files, made of bytes by the documented offsets: every type of numbers, plain and zipped, old and new revisions,
 * and files that are refused. tests/reference/check_cv_files.py compares with sdtfile. */
#include "data/cv/sdt.h"

#include <zip.h>

#include "tests/test.h"

enum { H = 3, W = 5, T = 4, VALUES = H * W * T, INFO = 10, AT_DESCRIPTION = 42 + INFO, DESCRIPTION = 512, GAP = 6 };
enum { AT_BLOCK = AT_DESCRIPTION + DESCRIPTION, AT_DATA = AT_BLOCK + 22 + GAP, MOST = AT_DATA + VALUES * 8 + 256 };
enum { U16 = 0x000, U32 = 0x100, DOUBLE = 0x200, ZIPPED = 0x1000, PAGE = 0x11, FIFO_IMAGE = 0x61 };

typedef struct {
    unsigned char bytes[MOST];
    size_t size;
} File;

static void set(File *f, size_t at, int bytes, uint64_t value) {
    for (int b = 0; b < bytes; b++) f->bytes[at + (size_t)b] = (unsigned char)(value >> 8 * b);
}

/* Returns a zip archive with one file; free() */
static void *zipped(const void *bytes, size_t size, size_t *out) {
    zip_source_t *archive = zip_source_buffer_create(NULL, 0, 0, NULL);
    zip_source_keep(archive);
    zip_t *zip = zip_open_from_source(archive, ZIP_CREATE | ZIP_TRUNCATE, NULL);
    assert_non_null(zip);
    assert_true(zip_file_add(zip, "data_block", zip_source_buffer(zip, bytes, size, 0), 0) >= 0);
    assert_int_equal(zip_close(zip), 0);
    zip_stat_t status;
    assert_int_equal(zip_source_stat(archive, &status), 0);
    void *all = xmalloc(status.size);
    assert_int_equal(zip_source_open(archive), 0);
    assert_int_equal(zip_source_read(archive, all, status.size), (zip_int64_t)status.size);
    zip_source_close(archive);
    zip_source_free(archive);
    *out = status.size;
    return all;
}

/* Makes a file whose value i is 1000 i: its description has H and W as the size of the scan, or of a FIFO image. */
static File make(unsigned type, unsigned revision) {
    File f = {.size = AT_DATA};
    int item = type & DOUBLE ? 8 : type & U32 ? 4 : 2;
    bool image = (type & 0xf0) == 0x60;
    size_t length = (size_t)VALUES * (size_t)item;
    set(&f, 0, 2, 0x280 | revision);
    set(&f, 14, 4, AT_BLOCK);
    set(&f, 18, 2, 1);
    set(&f, 24, 4, AT_DESCRIPTION);
    set(&f, 28, 2, 1);
    set(&f, 30, 2, DESCRIPTION);
    set(&f, 32, 2, 0x5555);
    set(&f, AT_DESCRIPTION + 82, 2, T);
    set(&f, AT_DESCRIPTION + (image ? 309 : 173), 4, W);
    set(&f, AT_DESCRIPTION + (image ? 313 : 177), 4, H);
    set(&f, AT_BLOCK, 2, 1); /* the number of the block, in old files */
    set(&f, AT_BLOCK + 2, 4, AT_DATA);
    set(&f, AT_BLOCK + 10, 2, type);
    set(&f, AT_BLOCK + 18, 4, length);
    for (int i = 0; i < VALUES; i++) {
        double real = 1000.0 * i;
        if (item == 8)
            memcpy(f.bytes + AT_DATA + 8 * i, &real, 8);
        else
            set(&f, AT_DATA + (size_t)(item * i), item, (uint64_t)(1000 * i));
    }
    if (type & ZIPPED) {
        void *zip = zipped(f.bytes + AT_DATA, length, &length);
        memset(f.bytes + AT_DATA, 0, MOST - AT_DATA);
        memcpy(f.bytes + AT_DATA, zip, length);
        free(zip);
    }
    f.size += length;
    set(&f, AT_BLOCK + 6, 4, f.size);
    return f;
}

static void assert_read(const File *f) {
    int64_t dims[3];
    double *values;
    Error error;
    if (!sdt_read(f->bytes, f->size, dims, &values, &error)) fail_msg("%s", error.text);
    assert_true(dims[0] == H && dims[1] == W && dims[2] == T);
    for (int i = 0; i < VALUES; i++) assert_true(values[i] == 1000.0 * i);
    free(values);
}

static void assert_refused(const File *f, size_t size, const char *part) {
    int64_t dims[3];
    double *values = (double *)&dims;
    Error error = {.text = ""};
    unsigned char *exact = xmalloc(size + 1); /* the sanitizer notices reads behind its end */
    memcpy(exact, f->bytes, size);
    assert_false(sdt_read(exact, size, dims, &values, &error));
    assert_null(values);
    assert_true(error.text[0]);
    assert_contains(error.text, part);
    free(exact);
}

static const unsigned types[] = {
    U16 | PAGE,          U32 | PAGE,          DOUBLE | PAGE,          U16 | FIFO_IMAGE, U32 | FIFO_IMAGE,
    U16 | PAGE | ZIPPED, DOUBLE | FIFO_IMAGE, DOUBLE | PAGE | ZIPPED, U16 | 0x01,       U32 | FIFO_IMAGE | ZIPPED};
enum { TYPES = sizeof types / sizeof *types };

TEST(every_type_gives_the_same_numbers) {
    for (int i = 0; i < TYPES; i++)
        for (unsigned revision = 12; revision <= 15; revision++) {
            File f = make(types[i], revision);
            assert_read(&f);
            set(&f, AT_BLOCK + 6, 4, 0); /* the data go to the end of the file */
            assert_read(&f);
            set(&f, 18, 2, 0x7fff);
            set(&f, 34, 4, 1);
            assert_read(&f);
        }
}

TEST(cut_files_are_refused) {
    for (int i = 0; i < TYPES; i++) {
        File f = make(types[i], 15);
        for (size_t n = 0; n < f.size; n++)
            assert_refused(&f, n, types[i] & ZIPPED && n >= AT_DATA ? "" : n ? "is cut off" : "; it is empty");
    }
}

TEST(wrong_fields_are_refused) {
    static const struct {
        size_t at;
        int bytes;
        uint64_t value;
        const char *text;
    } wrong[] = {
        {32, 2, 0x1111, "is no .sdt file: bytes 32 and 33 are 0x1111; expected 0x5555"},
        {18, 2, 0, "has 0 data blocks; expected one, an image of one channel; docs/train_cv.md says how"},
        {18, 2, 4, "has 4 data blocks"},
        {14, 4, 0xffffffff, "is cut off: its block header should be bytes 4294967295 to 4294967317"},
        {28, 2, 0, "measurement description 0, but there are 0"},
        {30, 2, 83, "but there are 1, of 83 bytes"},
        {24, 4, 100000, "its measurement description should be"},
        {AT_BLOCK + 12, 2, 0xffff, "measurement description 65535"},
        {AT_BLOCK + 2, 4, 0xfffffff0, "its block should be bytes 4294967280 to"},
        {AT_BLOCK + 10, 2, 0x21, "has type 0x0021; expected photon counts"},
        {AT_BLOCK + 10, 2, 0xa1, "has type 0x00a1"},
        {AT_BLOCK + 10, 2, 0x311, "has type 0x0311"},
        {AT_BLOCK + 10, 2, 0x2011, "has type 0x2011"},
        {AT_BLOCK + 10, 2, 0x1011, "its zipped block cannot be read"},
        {AT_BLOCK + 10, 2, 0x111, "no image of 4-byte numbers: scan 3 x 5, image 0 x 0 (height x width), 4 time bins"},
        {AT_BLOCK + 18, 4, 0, "its block has 0 bytes, which is no image"},
        {AT_BLOCK + 18, 4, 0xffffffff, "its block has 4294967295 bytes"},
        {AT_DESCRIPTION + 82, 2, 0, "65536 time bins"},
        {AT_DESCRIPTION + 173, 4, 0xffffffff, "scan 3 x 4294967295"},
        {AT_DESCRIPTION + 177, 4, 6, "scan 6 x 5"},
        {30, 2, 180, "scan 0 x 0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        File f = make(U16 | PAGE, 15);
        set(&f, wrong[i].at, wrong[i].bytes, wrong[i].value);
        assert_refused(&f, f.size, wrong[i].text);
    }
}

TEST(other_files_are_called_what_they_are) {
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789\nsize 1234\n";
    File f = make(U16 | PAGE, 15);
    memcpy(f.bytes, pointer, sizeof pointer);
    assert_refused(&f, sizeof pointer, "expected 0x5555; it is a pointer of Git LFS, which stands for a file that");
    memcpy(f.bytes, "PQTTTR", 7);
    assert_refused(&f, 7, "is no .sdt file; it begins as .ptu files do (PicoQuant's lists of photons, no images): ");
}

TEST(wrong_archives_are_refused) {
    for (int i = 0; i < 2; i++) { /* fewer and more bytes than the image needs */
        unsigned char bytes[VALUES * 2 + 1] = {0};
        size_t size;
        void *zip = zipped(bytes, VALUES * 2 - 1 + 2 * (size_t)i, &size);
        File f = make(U16 | PAGE | ZIPPED, 15);
        memcpy(f.bytes + AT_DATA, zip, size);
        free(zip);
        set(&f, AT_BLOCK + 6, 4, AT_DATA + size);
        assert_refused(&f, AT_DATA + size, i ? "120 of 120 bytes and more" : "another length, 119 of 120 bytes");
    }
    File f = make(U16 | PAGE | ZIPPED, 15);
    f.bytes[AT_DATA + 60] ^= 4; /* in the compressed numbers */
    assert_refused(&f, f.size, "its zipped block cannot be read: ");
}
