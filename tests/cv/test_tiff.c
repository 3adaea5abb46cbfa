/* TIFF stacks of photon counts, written by libtiff and changed byte by byte: every type, byte order, layout and
 * lossless compression gives the same numbers; descriptions; files that are refused, without a word of libtiff on
 * stderr. tests/reference/check_cv_files.py compares with tifffile. */
#include "data/cv/tiff.h"

#include <tiffio.h>

#include "tests/test.h"

enum { H = 18, W = 21, T = 3, VALUES = H * W * T };

/* How pages are written; zero: uncompressed, one strip. */
typedef struct {
    const char *mode;      /* of TIFFOpen */
    uint16_t kind, bits;   /* SAMPLEFORMAT_...; 0: unsigned, 16 */
    uint16_t compression;  /* 0: none */
    uint16_t predictor;    /* 0: none */
    uint32_t rows;         /* of a strip; 0: all */
    uint32_t tile;         /* side; 0: strips */
    const char *describes; /* the description of page 1 */
    const char *later;     /* that of page `later_bin`, from 0, or of all pages from 1 on if that is 0 */
    int later_bin;
    int photometric; /* PHOTOMETRIC_... + 1; 0: MINISBLACK */
} Written;

static char *path;

/* Returns the number of pixel `i` in bin t, below 120. */
static int count_at(int i, int t) { return (i * 7 + t * 31) % 120; }

/* Returns the bits of a whole number below 2048 in 16-bit floating point. */
static uint16_t half_of(int value) {
    int exponent = 0;
    while (value >> (exponent + 1)) exponent++;
    return (uint16_t)(value ? (exponent + 15) << 10 | ((value << (10 - exponent)) & 1023) : 0);
}

static void put(unsigned char *out, const Written *w, int value) {
    int bits = w->bits ? w->bits : 16;
    if (w->kind != SAMPLEFORMAT_IEEEFP) {
        int64_t whole = value; /* the low bytes come first */
        memcpy(out, &whole, (size_t)bits / 8);
    } else if (bits == 16) {
        memcpy(out, &(uint16_t){half_of(value)}, 2);
    } else if (bits == 32) {
        memcpy(out, &(float){(float)value}, 4);
    } else {
        memcpy(out, &(double){value}, 8);
    }
}

static void write_page(TIFF *t, const Written *w, int bin, uint32_t height) {
    size_t item = (w->bits ? w->bits : 16u) / 8u, side = w->tile ? w->tile : W, size = side * side * item;
    unsigned char *block = xcalloc(1, size > W * (size_t)height * item ? size : W * (size_t)height * item);
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, W);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, height);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, (int)item * 8);
    TIFFSetField(t, TIFFTAG_SAMPLEFORMAT, w->kind ? w->kind : SAMPLEFORMAT_UINT);
    TIFFSetField(t, TIFFTAG_COMPRESSION, w->compression ? w->compression : COMPRESSION_NONE);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, w->photometric ? w->photometric - 1 : PHOTOMETRIC_MINISBLACK);
    static uint16_t colours[256]; /* of a palette, which is none without */
    if (w->photometric == PHOTOMETRIC_PALETTE + 1) TIFFSetField(t, TIFFTAG_COLORMAP, colours, colours, colours);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    if (w->predictor) TIFFSetField(t, TIFFTAG_PREDICTOR, w->predictor);
    if (w->describes && !bin) TIFFSetField(t, TIFFTAG_IMAGEDESCRIPTION, w->describes);
    if (w->later && bin && (bin == w->later_bin || !w->later_bin)) TIFFSetField(t, TIFFTAG_IMAGEDESCRIPTION, w->later);
    if (w->tile) {
        TIFFSetField(t, TIFFTAG_TILEWIDTH, w->tile);
        TIFFSetField(t, TIFFTAG_TILELENGTH, w->tile);
    } else {
        TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, w->rows ? w->rows : height);
    }
    for (uint32_t y = 0; y < height; y += (uint32_t)side)
        for (uint32_t x = 0; w->tile && x < W; x += w->tile) {
            for (uint32_t i = 0; i < side * side; i++)
                put(block + i * item, w, count_at((int)((y + i / side) * W + x + i % side), bin));
            assert_true(TIFFWriteEncodedTile(t, TIFFComputeTile(t, x, y, 0, 0), block, (tmsize_t)size) > 0);
        }
    for (uint32_t y = 0; !w->tile && y < height; y++) {
        for (uint32_t x = 0; x < W; x++) put(block + x * item, w, count_at((int)(y * W + x), bin));
        assert_int_equal(TIFFWriteScanline(t, block, y, 0), 1);
    }
    assert_int_equal(TIFFWriteDirectory(t), 1);
    free(block);
}

static void write_stack(Written w, int pages) {
    TIFF *t = TIFFOpen(path, w.mode ? w.mode : "w");
    assert_non_null(t);
    for (int bin = 0; bin < pages; bin++) write_page(t, &w, bin, H);
    TIFFClose(t);
}

static char *stack_bytes(size_t *size) {
    char *bytes;
    assert_true(read_file(path, &bytes, size, NULL));
    return bytes;
}

static void assert_counts(const void *bytes, size_t size, int bins) {
    int64_t dims[3];
    double *values;
    Error error;
    if (!tiff_read(bytes, size, dims, &values, NULL, &error)) fail_msg("%s", error.text);
    assert_true(dims[0] == H && dims[1] == W && dims[2] == bins);
    for (int i = 0; i < H * W; i++)
        for (int t = 0; t < bins; t++) assert_true(values[i * bins + t] == count_at(i, t));
    free(values);
}

static void assert_read(Written w) {
    size_t size;
    write_stack(w, T);
    char *bytes = keep(stack_bytes(&size));
    assert_counts(bytes, size, T);
}

static void assert_bytes_refused(const void *bytes, size_t size, const char *part) {
    int64_t dims[3];
    double *values = (double *)&dims;
    Error error = {.text = ""};
    assert_false(tiff_read(bytes, size, dims, &values, NULL, &error));
    assert_null(values);
    assert_true(error.text[0]);
    assert_contains(error.text, part);
}

static void assert_refused(Written w, int pages, const char *part) {
    size_t size;
    write_stack(w, pages);
    char *bytes = keep(stack_bytes(&size));
    assert_bytes_refused(bytes, size, part);
}

/* ---- what is read ---- */

TEST(every_type_order_and_layout_gives_the_same_numbers) {
    static const struct {
        uint16_t kind, bits;
    } types[] = {{SAMPLEFORMAT_UINT, 8},    {SAMPLEFORMAT_UINT, 16},   {SAMPLEFORMAT_UINT, 32},
                 {SAMPLEFORMAT_UINT, 64},   {SAMPLEFORMAT_INT, 8},     {SAMPLEFORMAT_INT, 16},
                 {SAMPLEFORMAT_INT, 32},    {SAMPLEFORMAT_INT, 64},    {SAMPLEFORMAT_VOID, 16},
                 {SAMPLEFORMAT_IEEEFP, 16}, {SAMPLEFORMAT_IEEEFP, 32}, {SAMPLEFORMAT_IEEEFP, 64}};
    static const char *const modes[] = {"wl", "wb", "w8l", "w8b"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int m = 0; m < 4; m++)
            for (int layout = 0; layout < 3; layout++)
                assert_read((Written){.mode = modes[m],
                                      .kind = types[i].kind,
                                      .bits = types[i].bits,
                                      .rows = layout == 1 ? 5 : 0,
                                      .tile = layout == 2 ? 16 : 0});
}

TEST(every_lossless_compression_gives_the_same_numbers) {
    static const uint16_t codecs[] = {COMPRESSION_LZW,      COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,
                                      COMPRESSION_PACKBITS, COMPRESSION_ZSTD,          COMPRESSION_LZMA};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        if (!TIFFIsCODECConfigured(codecs[i])) {
            printf("SKIPPED: compression %u, which this libtiff does not have\n", codecs[i]);
            continue;
        }
        for (int k = 0; k < 8; k++) {
            bool reals = k & 1, predicts = k & 4 && codecs[i] != COMPRESSION_PACKBITS;
            /* libtiff 4.5 itself writes wrong tiles with the predictor of floats in the other byte order. */
            assert_read((Written){.mode = k & 2 && !reals ? "w8b" : "wl",
                                  .kind = reals ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT,
                                  .bits = reals ? 32 : 16,
                                  .compression = codecs[i],
                                  .predictor = !predicts ? 0
                                               : reals   ? PREDICTOR_FLOATINGPOINT
                                                         : PREDICTOR_HORIZONTAL,
                                  .rows = 4,
                                  .tile = k & 2 ? 16 : 0});
        }
    }
}

TEST(one_axis_may_have_any_name) {
    static const char *const texts[] = {
        "ImageJ=1.53t\nimages=3\nslices=3\nloop=false\n",
        "ImageJ=1.53t\nimages=3\nchannels=3\nhyperstack=true\n",
        "ImageJ=1.53t\nimages=3\nframes=3\nslices=1\n",
        "ImageJ=1.53t\nimages=3\n",
        "<?xml version=\"1.0\"?><OME><Image><Pixels SizeX=\"21\" SizeC=\"1\" SizeZ=\"1\" SizeT=\"3\"/></Image></OME>",
        "{\"shape\": [1, 3, 18, 21, 1]}",
        "{\"shape\"",
        "lifetime of 12.5 ns; slices=7"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) assert_read((Written){.describes = texts[i]});
}

/* Writes one page, and the others as bytes behind the file, as ImageJ does if the file is large. */
static char *following(const char *mode, uint32_t rows, const char *text, size_t *size) {
    write_stack((Written){.mode = mode, .rows = rows, .describes = text}, 1);
    char *bytes = stack_bytes(size);
    bool big = mode[1] == 'b';
    uint64_t start = 0;
    TIFF *t = TIFFOpen(path, "r");
    assert_non_null(t);
    start = TIFFGetStrileOffset(t, 0);
    TIFFClose(t);
    /* The page's numbers move to the end, and the images after them. */
    size_t image = H * W * 2;
    bytes = xrealloc(bytes, *size + T * image);
    for (int i = 0; i < T * H * W; i++) {
        int value = count_at(i % (H * W), i / (H * W));
        bytes[*size + 2 * (size_t)i + (big ? 1 : 0)] = (char)value;
        bytes[*size + 2 * (size_t)i + (big ? 0 : 1)] = 0;
    }
    unsigned char old[4], new[4];
    for (int i = 0; i < 4; i++) {
        int shift = big ? 24 - 8 * i : 8 * i;
        old[i] = (unsigned char)(start >> shift);
        new[i] = (unsigned char)(*size >> shift);
    }
    /* The entry of StripOffsets: tag 273, type 4 (u32) or 3, one value. */
    const unsigned char tag[2] = {big ? 1 : 0x11, big ? 0x11 : 1};
    unsigned char *entry = memmem(bytes, *size, tag, 2);
    while (entry && memcmp(entry + 8, old, 4)) {
        size_t at = (size_t)((char *)entry + 1 - bytes);
        entry = memmem(bytes + at, *size - at, tag, 2);
    }
    assert_non_null(entry);
    memcpy(entry + 8, new, 4);
    *size += T * image;
    return keep(bytes);
}

TEST(images_may_follow_the_only_page) {
    size_t size;
    for (int big = 0; big < 2; big++) {
        char *bytes = following(big ? "wb" : "wl", 0, "ImageJ=1.53t\nimages=3\nframes=3\n", &size);
        assert_counts(bytes, size, T);
        assert_bytes_refused(bytes, size - 1, "is cut off: 2 of 3 images are there");
    }
    assert_refused((Written){.rows = 4, .describes = "ImageJ=1.53t\nimages=3\n"}, 1,
                   "has one page for 3 images; expected one strip without compression, or a page each");
    assert_refused((Written){.compression = COMPRESSION_LZW, .describes = "ImageJ=1.53t\nimages=3\n"}, 1,
                   "has one page for 3 images");
}

/* ---- what is refused ---- */

TEST(several_axes_are_refused) {
    assert_refused(
        (Written){.describes = "ImageJ=1.53t\nimages=6\nchannels=2\nframes=3\n"}, 6,
        "has, as ImageJ says, 2 channels, 1 slices and 3 frames in 6 images (6 pages of height 18, width 21, 1 "
        "samples per pixel, 16 bits unsigned); expected one axis, the time bins, beside height and width");
    assert_refused((Written){.describes = "ImageJ=1.53t\nimages=6\nframes=3\n"}, 6,
                   "1 slices and 3 frames in 6 images");
    assert_refused(
        (Written){.describes = "ImageJ=1.53t\nimages=6\nframes=6\n"}, 3,
        "has 3 pages of height 18, width 21, 1 samples per pixel, 16 bits unsigned, but its description says 6 "
        "images");
    assert_refused((Written){.describes = "<OME><Image><Pixels SizeC=\"2\" SizeT=\"2\"/></Image></OME>"}, 4,
                   "as OME says, 2 channels, 1 slices and 2 frames");
    assert_refused((Written){.describes = "<OME><Image><Pixels SizeC=\"1\" SizeT=\"2\"/></Image></OME>"}, 4,
                   "says 2 images");
    assert_refused((Written){.describes = "ImageJ=1\nimages=99999999999999999999\nframes=-3\n"}, 3, "1048576 images");
    assert_refused((Written){.describes = "{\"shape\": [2, 3, 18, 21]}"}, 6,
                   "as tifffile says, 4 axes longer than 1 (6 pages");
}

/* tifffile says at the first page of a series how many there are. */
TEST(several_series_are_refused) {
    size_t size;
    const char *stack = "{\"shape\": [4, 18, 21]}", *image = "{\"shape\": [18, 21]}";
    assert_refused((Written){.describes = stack}, 5,
                   "has 5 pages of height 18, width 21, 1 samples per pixel, 16 bits unsigned, but tifffile says 4 "
                   "pages, and other series behind them; save the stack of time bins alone");
    assert_refused((Written){.describes = stack, .later = image, .later_bin = 4}, 5, "but tifffile says 4 pages, and");
    assert_refused((Written){.describes = stack, .later = stack, .later_bin = 4}, 8, "but tifffile says 4 pages, and");
    assert_refused((Written){.describes = image, .later = stack, .later_bin = 1}, 5,
                   "but tifffile says 4 pages in one of its series");
    const Written right[] = {{.describes = stack},
                             {.describes = "{\"shape\": [1, 4, 1, 18, 21, 1]}"},
                             {.describes = image, .later = image}, /* each page was written as a series */
                             {.describes = "{\"note\": [4]}"}};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        write_stack(right[i], 4);
        char *bytes = keep(stack_bytes(&size));
        assert_counts(bytes, size, 4);
    }
}

/* The numbers are taken as they are, and the reader is told. */
TEST(palettes_and_inverted_images_are_told) {
    static const int photometric[] = {PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_PALETTE, PHOTOMETRIC_MINISWHITE};
    for (int i = 0; i < 3; i++) {
        size_t size;
        int64_t dims[3];
        double *values;
        TiffKind kind;
        write_stack((Written){.bits = 8, .photometric = photometric[i] + 1}, 3);
        char *bytes = keep(stack_bytes(&size));
        assert_counts(bytes, size, 3);
        assert_true(tiff_read(bytes, size, dims, &values, &kind, NULL));
        assert_true(kind.palette == (i == 1) && kind.inverted == (i == 2));
        free(values);
    }
}

TEST(other_pages_are_refused) {
    size_t size;
    assert_refused((Written){0}, 1,
                   "has 1 pages of height 18, width 21, 1 samples per pixel, 16 bits unsigned; expected a "
                   "page of one sample per pixel for each time bin");
    TIFF *t = TIFFOpen(path, "w");
    for (uint32_t bin = 0; bin < 3; bin++) write_page(t, &(Written){0}, (int)bin, H + bin / 2);
    TIFFClose(t);
    char *bytes = keep(stack_bytes(&size));
    assert_bytes_refused(bytes, size,
                         "page 3 (height 19, width 21, 1 samples per pixel, 16 bits unsigned) differs from "
                         "page 1 (height 18, width 21,");
    t = TIFFOpen(path, "w");
    unsigned char rows[3 * W * 2] = {0};
    for (int bin = 0; bin < 6; bin++) { /* RGB, then 4 bits */
        TIFFSetField(t, TIFFTAG_IMAGEWIDTH, W);
        TIFFSetField(t, TIFFTAG_IMAGELENGTH, 1);
        TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, bin < 3 ? 8 : 4);
        TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, bin < 3 ? 3 : 1);
        TIFFSetField(t, TIFFTAG_PHOTOMETRIC, bin < 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK);
        TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
        assert_int_equal(TIFFWriteScanline(t, rows, 0, 0), 1);
        assert_int_equal(TIFFWriteDirectory(t), 1);
        if (bin % 3 < 2) continue;
        TIFFClose(t);
        bytes = keep(stack_bytes(&size));
        assert_bytes_refused(bytes, size,
                             bin < 3 ? "has 3 pages of height 1, width 21, 3 samples per pixel, 8 bits"
                                     : "1 samples per pixel, 4 bits unsigned; expected");
        if (bin < 3) t = TIFFOpen(path, "w");
    }
    assert_refused((Written){.compression = COMPRESSION_JPEG, .kind = SAMPLEFORMAT_UINT, .bits = 8}, 2,
                   "page 1 has compression 7 (JPEG); expected none, LZW, Deflate, PackBits, LZMA or Zstandard");
}

/* Cuts after every byte: the last directory lies at the end, so that none of them is whole. */
TEST(cut_files_are_refused) {
    static const Written files[] = {{.mode = "wl"}, {.mode = "w8b", .compression = COMPRESSION_LZW, .tile = 16}};
    for (int i = 0; i < 2; i++) {
        size_t size;
        write_stack(files[i], T);
        char *bytes = keep(stack_bytes(&size));
        for (size_t n = 0; n < size; n++) {
            char *exact = xmalloc(n + 1); /* the sanitizer notices reads behind its end */
            memcpy(exact, bytes, n);
            assert_bytes_refused(exact, n, "");
            free(exact);
        }
    }
}

/* One entry of a directory. */
typedef struct {
    uint32_t tag, type, count, value;
} Entry;
enum {
    ENTRIES = 6,
    DIRECTORY = 2 + 12 * ENTRIES + 4,
    SECOND = 8 + DIRECTORY,
    DATA = 8 + 2 * DIRECTORY,
    SIZE = DATA + 32
};

static unsigned char *put_little(unsigned char *out, uint32_t value, int bytes) {
    for (int b = 0; b < bytes; b++) *out++ = (unsigned char)(value >> 8 * b);
    return out;
}

/* Makes a little-endian file of two pages alike, 4 x 8 bytes each, which share their numbers. */
static void small_file(unsigned char file[SIZE], const Entry *entries, uint32_t after_first, uint32_t after_second) {
    memcpy(file, "II*\0\10\0\0\0", 8);
    memset(file + DATA, 1, SIZE - DATA);
    unsigned char *at = file + 8;
    for (int page = 0; page < 2; page++) {
        at = put_little(at, ENTRIES, 2);
        for (const Entry *e = entries; e < entries + ENTRIES; e++)
            at = put_little(put_little(put_little(put_little(at, e->tag, 2), e->type, 2), e->count, 4), e->value, 4);
        at = put_little(at, page ? after_second : after_first, 4);
    }
}

TEST(hostile_files_are_refused) {
    static const Entry good[ENTRIES] = {{256, 4, 1, 8}, {257, 4, 1, 4},    {258, 3, 1, 8},
                                        {259, 3, 1, 1}, {273, 4, 1, DATA}, {279, 4, 1, 32}};
    static const struct {
        uint32_t entry, value;
        const char *text;
    } wrong[] = {{0, 0, ""},
                 {1, 0, ""},
                 {0, UINT32_MAX, ""},
                 {1, UINT32_MAX, ""},
                 {1, 1 << 20, "page 1 cannot be read"},
                 {1, 1 << 22, "more than 16777216 pixels in a page"},
                 {2, 0, ""},
                 {2, 7, "7 bits unsigned; expected"},
                 {3, 4, "page 1 has compression 4 (CCITT Group 4)"},
                 {3, 999, "page 1 has compression 999 (unknown)"},
                 {4, UINT32_MAX - 8, "page 1 cannot be read"},
                 {4, DATA + 1, "page 1 cannot be read"}};
    unsigned char file[SIZE];
    int64_t dims[3];
    double *values;
    small_file(file, good, SECOND, 0);
    assert_true(tiff_read(file, SIZE, dims, &values, NULL, NULL));
    assert_true(dims[0] == 4 && dims[1] == 8 && dims[2] == 2 && values[63] == 1);
    free(values);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Entry bad[ENTRIES];
        memcpy(bad, good, sizeof bad);
        bad[wrong[i].entry].value = wrong[i].value;
        small_file(file, bad, SECOND, 0);
        assert_bytes_refused(file, SIZE, wrong[i].text);
    }
    small_file(file, good, SECOND, 8); /* page 3 is page 1 */
    assert_bytes_refused(file, SIZE, "page 3 cannot be read");
    small_file(file, good, 8, 0);
    assert_bytes_refused(file, SIZE, "page 2 cannot be read");
    small_file(file, good, 100000, 0);
    assert_bytes_refused(file, SIZE, "page 2 cannot be read");
    memset(file + 4, 0, 4); /* no page */
    assert_bytes_refused(file, SIZE, "cannot be read as TIFF");
    assert_bytes_refused("", 0, "cannot be read as TIFF");
    assert_bytes_refused("not a TIFF file at all", 22, "cannot be read as TIFF: Not a TIFF");
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n";
    assert_bytes_refused(pointer, sizeof pointer, "; it is a pointer of Git LFS, which stands for");
    assert_bytes_refused("\x93NUMPY\1", 8, "; it begins as .npy files do (arrays of NumPy): name them .npy");
}

static void read_damaged(void *unused) {
    (void)unused;
    static const char *const texts[] = {"II*\0\10\0\0\0\xff\xff garbage", "MM\0*\0\0\0\10\0\1\1\1\0\3"};
    int64_t dims[3];
    double *values;
    Error error;
    for (int i = 0; i < 2; i++)
        if (tiff_read(texts[i], 19 - 5 * (size_t)i, dims, &values, NULL, &error)) exit(1);
    exit(0);
}

TEST(libtiff_prints_nothing) {
    char output[256];
    assert_int_equal(run_function(output, sizeof output, read_damaged, NULL), 0);
    assert_string_equal(output, "");
}

int main(void) {
    path = kept_path(run_directory(), "stack.tif");
    return tests_run(NULL, NULL);
}
