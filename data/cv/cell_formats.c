#include "data/cv/cell_formats.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/cv/sdt.h"
#include "data/cv/tiff.h"
#include "data/formats/npy.h"

static bool read_npy(const void *bytes, size_t size, CellImage *image, Error *error) {
    Npy npy;
    if (!npy_parse(bytes, size, &npy, error)) return false;
    image->rank = npy.rank;
    memcpy(image->dims, npy.dims, sizeof image->dims);
    image->values = xmalloc((size_t)npy.count * sizeof *image->values + 1);
    npy_to_f64(&npy, 0, npy.count, image->values);
    return true;
}

static bool read_tiff(const void *bytes, size_t size, CellImage *image, Error *error) {
    TiffKind kind = {0};
    image->rank = 3;
    bool ok = tiff_read(bytes, size, image->dims, &image->values, &kind, error);
    image->palette = kind.palette;
    image->inverted = kind.inverted;
    return ok;
}

static bool read_sdt(const void *bytes, size_t size, CellImage *image, Error *error) {
    image->rank = 3;
    return sdt_read(bytes, size, image->dims, &image->values, error);
}

/* A further format is a further row, and a further kind. */
static const struct {
    const char *ending;
    CellKind kind;
    bool (*read)(const void *bytes, size_t size, CellImage *image, Error *error);
} formats[] = {{".npy", CELL_NPY, read_npy},
               {".tif", CELL_TIFF, read_tiff},
               {".tiff", CELL_TIFF, read_tiff},
               {".sdt", CELL_SDT, read_sdt}};
enum { FORMATS = sizeof formats / sizeof *formats };
const char CELL_ENDINGS[] = ".npy, .tif, .tiff or .sdt";

static int format_of(const char *name) {
    const char *ending = strrchr(name, '.');
    for (int i = 0; ending && i < FORMATS; i++)
        if (!strcasecmp(ending, formats[i].ending)) return i;
    return -1;
}

CellKind cell_kind(const char *name) {
    int format = format_of(name);
    return format < 0 ? CELL_KINDS : formats[format].kind;
}

bool cell_image_read(const char *path, CellImage *image, Error *error) {
    OWNED char *bytes = NULL;
    size_t size;
    return (read_file(path, &bytes, &size, error) && formats[format_of(path)].read(bytes, size, image, error)) ||
           error_before(error, "%s: ", path);
}
