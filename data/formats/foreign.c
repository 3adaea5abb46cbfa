#include "data/formats/foreign.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "data/text/encoding.h"

#define PYTHON(module) "read them with Python's " module " and write .npy with numpy.save"

const struct ForeignFormat foreign_formats[FOREIGN_FORMATS] = {
    {".npz", "PK\3\4", "archives of NumPy", "write each array with numpy.save: numpy.load(FILE) has them by name"},
    {".npy", "\x93NUMPY", "arrays of NumPy", "name them .npy"},
    {".parquet", "PAR1", "tables of Parquet", PYTHON("pandas")},
    {".feather", "ARROW1", "tables of Arrow", PYTHON("pandas")},
    {".h5", "\x89HDF", "HDF5", PYTHON("h5py")},
    {".hdf5", NULL, "HDF5", PYTHON("h5py")},
    {".mat", "MATLAB ", "MATLAB's", PYTHON("scipy.io.loadmat")},
    {".pkl", "\x80", "Python's pickles", "load them where they were written and write .npy with numpy.save"},
    {".ptu", "PQTTTR", "PicoQuant's lists of photons, no images",
     "Python's ptufile sums them up: numpy.save(NEW, ptufile.PtuFile(FILE).decode_image(channel=0, dtime=0, frame=-1, "
     "keepdims=False)) is an array (H, W, T)"},
    {".spc", NULL, "Becker & Hickl's lists of photons, no images", "save them as .sdt with SPCImage"},
    {".lif", NULL, "Leica's", PYTHON("liffile")},
    {".czi", "ZISRAWFILE", "Zeiss's", PYTHON("czifile")},
    {".fits", "SIMPLE  =", "FITS", PYTHON("astropy.io.fits")},
    {".bin", NULL, "numbers without a description",
     PYTHON("numpy.fromfile, with the type and shape that the writer had,")},
};

int foreign_format(const char *name) {
    const char *ending = strrchr(name, '.');
    for (int i = 0; ending && i < FOREIGN_FORMATS; i++)
        if (!strcasecmp(ending, foreign_formats[i].ending)) return i;
    return -1;
}

char *foreign_text(const int64_t counts[FOREIGN_FORMATS]) {
    int most = 0;
    for (int i = 0; i < FOREIGN_FORMATS; i++)
        if (counts[i] > counts[most]) most = i;
    const struct ForeignFormat *f = &foreign_formats[most];
    return counts[most]
               ? xformat("; %lld files are %s (%s): %s", (long long)counts[most], f->what, f->ending, f->advice)
               : xstrdup("");
}

void foreign_print(const char *label, const int64_t counts[FOREIGN_FORMATS]) {
    for (int i = 0; i < FOREIGN_FORMATS; i++)
        if (counts[i])
            printf("[%s] %lld of them are %s (%s): %s\n", label, (long long)counts[i], foreign_formats[i].what,
                   foreign_formats[i].ending, foreign_formats[i].advice);
}

char *foreign_of_bytes(const void *bytes, size_t size) {
    if (!size) return xstrdup("; it is empty");
    for (int i = 0; i < FOREIGN_FORMATS; i++) {
        const struct ForeignFormat *f = &foreign_formats[i];
        size_t n = f->bytes ? strlen(f->bytes) : 0;
        if (n && size >= n && !memcmp(bytes, f->bytes, n))
            return xformat("; it begins as %s files do (%s): %s", f->ending, f->what, f->advice);
    }
    if (encoding_is_web_page(bytes, size)) return xstrdup("; it is a web page: download the file itself");
    const char *other = encoding_of_foreign(bytes, size);
    return other ? xformat("; it %s", other) : xstrdup("");
}
