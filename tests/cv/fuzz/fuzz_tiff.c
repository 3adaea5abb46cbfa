/* Reads any bytes as a TIFF stack, and stacks of libtiff with changes; the first byte chooses. */
#include <tiffio.h>

#include "data/cv/tiff.h"
#include "tests/cv/fuzz/fuzz_image.h"

static const struct {
    const char *mode;
    uint16_t compression;
    bool tiled;
    const char *describes;
} files[] = {{"wl", COMPRESSION_NONE, false, "ImageJ=1.53t\nimages=3\nframes=3\n"},
             {"wb", COMPRESSION_LZW, false, "<OME><Pixels SizeC=\"1\" SizeZ=\"1\" SizeT=\"3\"/></OME>"},
             {"w8l", COMPRESSION_ADOBE_DEFLATE, true, "{\"shape\": [3, 16, 16]}"},
             {"w8b", COMPRESSION_PACKBITS, true, "three pages"},
             {"wl", COMPRESSION_LZMA, false, ""},
             {"wb", COMPRESSION_ZSTD, true, ""}};
enum { FILES = sizeof files / sizeof *files, SIDE = 16, PAGES = 3 };

static char *good[FILES];
static size_t sizes[FILES];

static void make(int i) {
    uint16_t page[SIDE * SIDE];
    const char *path = fuzz_file("", 0);
    TIFF *t = TIFFOpen(path, files[i].mode);
    for (int p = 0; t && p < PAGES; p++) {
        for (int k = 0; k < SIDE * SIDE; k++) page[k] = (uint16_t)(k % 7 + p);
        TIFFSetField(t, TIFFTAG_IMAGEWIDTH, SIDE);
        TIFFSetField(t, TIFFTAG_IMAGELENGTH, SIDE);
        TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 16);
        TIFFSetField(t, TIFFTAG_COMPRESSION, files[i].compression);
        TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
        TIFFSetField(t, TIFFTAG_IMAGEDESCRIPTION, files[i].describes);
        if (files[i].compression == COMPRESSION_LZW) TIFFSetField(t, TIFFTAG_PREDICTOR, PREDICTOR_HORIZONTAL);
        if (files[i].tiled) {
            TIFFSetField(t, TIFFTAG_TILEWIDTH, SIDE);
            TIFFSetField(t, TIFFTAG_TILELENGTH, SIDE);
        } else {
            TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, SIDE);
        }
        tmsize_t n = files[i].tiled ? TIFFWriteEncodedTile(t, 0, page, sizeof page)
                                    : TIFFWriteEncodedStrip(t, 0, page, sizeof page);
        if (n != sizeof page || !TIFFWriteDirectory(t)) abort();
    }
    if (!t) abort();
    TIFFClose(t);
    if (!read_file(path, &good[i], &sizes[i], NULL)) abort();
}

static bool read_tiff(const void *bytes, size_t size, int64_t dims[3], double **values, Error *error) {
    TiffKind kind;
    return tiff_read(bytes, size, dims, values, &kind, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int which = size ? data[0] % (FILES + 1) : FILES;
    size_t n = size ? size - 1 : 0;
    char *changed = NULL;
    if (which < FILES) {
        if (!good[which]) make(which);
        changed = fuzz_changed(good[which], sizes[which], data + 1, n, &n);
    }
    fuzz_image(read_tiff, changed ? (const void *)changed : data + (size > 0), n);
    free(changed);
    return 0;
}
