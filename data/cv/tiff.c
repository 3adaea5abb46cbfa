#include "data/cv/tiff.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

#include "data/formats/foreign.h"
#include "data/formats/npy.h"

enum { MAX_PIXELS = 1 << 24, MAX_VALUES = 1 << 28 }; /* of a page or tile; of a stack: 2 GiB of doubles */
static const char EXPECTED[] = "expected a page of one sample per pixel for each time bin, all of the same size";

/* ---- libtiff ---- */

/* The last message of libtiff in this thread. */
static _Thread_local char message[256];

static void PRINTF_LIKE(2, 0) keep_message(const char *module, const char *format, va_list arguments) {
    (void)module;
    vsnprintf(message, sizeof message, format, arguments);
}

static void keep_messages(void) {
    TIFFSetErrorHandler(keep_message);
    TIFFSetWarningHandler(keep_message);
}

/* A file in memory. */
typedef struct {
    const unsigned char *bytes;
    size_t size;
    uint64_t at; /* may lie behind the end */
} Memory;

static tmsize_t memory_read(thandle_t handle, void *out, tmsize_t n) {
    Memory *m = handle;
    size_t left = m->at < m->size ? m->size - (size_t)m->at : 0, count = (size_t)n < left ? (size_t)n : left;
    memcpy(out, m->bytes + (m->size - left), count);
    m->at += count;
    return (tmsize_t)count;
}

static tmsize_t memory_write(thandle_t handle, void *bytes, tmsize_t n) {
    (void)handle;
    (void)bytes;
    (void)n;
    return 0;
}

static toff_t memory_seek(thandle_t handle, toff_t offset, int whence) {
    Memory *m = handle;
    return m->at = offset + (whence == SEEK_CUR ? m->at : whence == SEEK_END ? m->size : 0);
}

static int memory_close(thandle_t handle) {
    (void)handle;
    return 0;
}

static toff_t memory_size(thandle_t handle) { return ((const Memory *)handle)->size; }

/* ---- pages ---- */

typedef struct {
    uint32_t width, height;
    uint16_t samples, bits, format; /* per pixel; per sample; SAMPLEFORMAT_... */
    uint16_t photometric;           /* PHOTOMETRIC_... */
} Page;

typedef struct {
    TIFF *tiff;
    const Memory *file;
    Page page; /* the first; the others are like it */
    int64_t pages;
    int64_t series, longest; /* pages of the first and of the longest series by tifffile's words; 0: it says nothing */
    TiffKind kind;           /* of any page */
} Stack;

static Page page_of(TIFF *t) {
    Page p = {0};
    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &p.width);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &p.height);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &p.samples);
    TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &p.bits);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &p.format);
    p.photometric = PHOTOMETRIC_MINISBLACK;
    TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &p.photometric);
    return p;
}

/* Returns 'u', 'i' or 'f' as in Npy, or 0. */
static char kind_of(const Page *p) {
    bool whole = p->format == SAMPLEFORMAT_UINT || p->format == SAMPLEFORMAT_VOID || p->format == SAMPLEFORMAT_INT;
    bool size = p->bits == 16 || p->bits == 32 || p->bits == 64;
    if (whole && (size || p->bits == 8)) return p->format == SAMPLEFORMAT_INT ? 'i' : 'u';
    return p->format == SAMPLEFORMAT_IEEEFP && size ? 'f' : 0;
}

static const char *page_text(const Page *p, char text[128]) {
    static const char *const formats[] = {"", "unsigned", "signed", "float", "untyped", "complex", "complex"};
    snprintf(text, 128, "height %u, width %u, %u samples per pixel, %u bits %s", p->height, p->width, p->samples,
             p->bits, p->format < 7 ? formats[p->format] : "of an unknown format");
    return text;
}

/* Returns whether the file holds the current page's directory to its end, the offset of the next page: libtiff takes a
 * page whose next offset is cut off for the last. */
static bool directory_is_whole(const Stack *s) {
    const unsigned char *b = s->file->bytes;
    bool big_endian = TIFFIsBigEndian(s->tiff), big_tiff = b[big_endian ? 3 : 2] == 43;
    uint64_t start = TIFFCurrentDirOffset(s->tiff), size = s->file->size, digits = big_tiff ? 8 : 2, entries = 0;
    if (start > size || size - start < digits) return false;
    for (uint64_t i = 0; i < digits; i++) entries = entries << 8 | b[start + (big_endian ? i : digits - 1 - i)];
    return entries <= size && (size - start - digits) >= entries * (big_tiff ? 20 : 12) + (big_tiff ? 8 : 4);
}

/* Returns how many pages the series has that begins with a page of this description, {"shape": [256, 21, 21]} by
 * tifffile; 0: it is none of tifffile's. */
static int64_t pages_of_series(const char *text, const Page *p) {
    json_auto_t *root = text[0] == '{' ? json_loads(text, 0, NULL) : NULL;
    json_t *shape = json_object_get(root, "shape"), *size;
    int64_t values = json_is_array(shape), page = (int64_t)p->width * p->height * p->samples;
    size_t i;
    json_array_foreach(shape, i, size) {
        json_int_t n = json_integer_value(size);
        if (n < 1 || __builtin_mul_overflow(values, n, &values)) values = 0;
    }
    return page && values % page == 0 ? values / page : 0;
}

/* Notes what the current page says. */
static void hear_page(Stack *s, const Page *p, bool first) {
    char *text = NULL;
    TIFFGetField(s->tiff, TIFFTAG_IMAGEDESCRIPTION, &text);
    int64_t series = pages_of_series(text ? text : "", p);
    if (first) s->series = series;
    if (series > s->longest) s->longest = series;
    s->kind.palette |= p->photometric == PHOTOMETRIC_PALETTE;
    s->kind.inverted |= p->photometric == PHOTOMETRIC_MINISWHITE;
}

/* Counts the pages, which must be alike. */
static bool count_pages(Stack *s, Error *error) {
    char first[128], other[128];
    s->page = page_of(s->tiff);
    hear_page(s, &s->page, true);
    for (s->pages = 1;; s->pages++) {
        if (!directory_is_whole(s)) return error_set(error, "is cut off in page %lld", (long long)s->pages);
        if (TIFFLastDirectory(s->tiff)) return true;
        message[0] = 0;
        if (!TIFFReadDirectory(s->tiff))
            return error_set(error, "page %lld cannot be read: %s", (long long)s->pages + 1,
                             message[0] ? message : "the chain of pages is broken");
        Page p = page_of(s->tiff), q = s->page;
        if (p.width != q.width || p.height != q.height || p.samples != q.samples || p.bits != q.bits ||
            p.format != q.format)
            return error_set(error, "page %lld (%s) differs from page 1 (%s); %s", (long long)s->pages + 1,
                             page_text(&p, other), page_text(&q, first), EXPECTED);
        hear_page(s, &p, false);
    }
}

static bool check_pages(const Stack *s, Error *error) {
    const Page *p = &s->page;
    uint64_t pixels = (uint64_t)p->width * p->height;
    char text[128];
    if (p->samples != 1 || !kind_of(p) || !pixels || s->pages < 2)
        return error_set(error, "has %lld pages of %s; %s, of 8 to 64 bits", (long long)s->pages, page_text(p, text),
                         EXPECTED);
    return (pixels <= MAX_PIXELS && pixels * (uint64_t)s->pages <= MAX_VALUES) ||
           error_set(error, "has %lld pages of %s: more than %d pixels in a page or %d in all", (long long)s->pages,
                     page_text(p, text), MAX_PIXELS, MAX_VALUES);
}

/* ---- descriptions ---- */

/* The facts that the description of the first page states. */
typedef struct {
    bool imagej;
    int64_t images; /* 0: it does not say */
    char axes[160]; /* if several axes are longer than 1, or their sizes contradict `images`; else empty */
} Description;

/* Returns the number after a key, in [1, 2^20]; 1 if there is none. */
static int64_t number_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    int64_t n = at ? strtoll(at + strlen(key), NULL, 10) : 1;
    return n < 1 ? 1 : n > 1 << 20 ? 1 << 20 : n;
}

/* tifffile: {"shape": [256, 21, 21]}. */
static void describe_shape(const char *text, Description *d) {
    json_auto_t *root = json_loads(text, 0, NULL);
    json_t *shape = json_object_get(root, "shape"), *size;
    size_t i;
    int longer = 0;
    json_array_foreach(shape, i, size) longer += json_integer_value(size) != 1;
    if (longer > 3) snprintf(d->axes, sizeof d->axes, "tifffile says, %d axes longer than 1", longer);
}

static Description describe(const char *text) {
    static const char *const keys[2][3] = {{"\nchannels=", "\nslices=", "\nframes="},
                                           {" SizeC=\"", " SizeZ=\"", " SizeT=\""}};
    Description d = {.imagej = !strncmp(text, "ImageJ=", 7)};
    if (text[0] == '{') describe_shape(text, &d);
    if (!d.imagej && !strstr(text, "<Pixels")) return d;
    int64_t sizes[3], all = 1;
    int longer = 0;
    for (int i = 0; i < 3; i++) {
        sizes[i] = number_after(text, keys[!d.imagej][i]);
        longer += sizes[i] > 1;
        all *= sizes[i];
    }
    d.images = d.imagej ? number_after(text, "\nimages=") : all;
    if (longer > 1 || (longer && all != d.images))
        snprintf(d.axes, sizeof d.axes, "%s says, %lld channels, %lld slices and %lld frames in %lld images",
                 d.imagej ? "ImageJ" : "OME", (long long)sizes[0], (long long)sizes[1], (long long)sizes[2],
                 (long long)d.images);
    return d;
}

/* Checks that the pages are one axis, the time. A page that further images follow counts as all of them. */
static bool check_description(Stack *s, const Description *d, bool *follow, Error *error) {
    char text[128];
    if (d->axes[0])
        return error_set(error,
                         "has, as %s (%lld pages of %s); expected one axis, the time bins, beside height and width",
                         d->axes, (long long)s->pages, page_text(&s->page, text));
    if (s->longest > 1 && s->series != s->pages)
        return error_set(error,
                         "has %lld pages of %s, but tifffile says %lld pages%s; save the stack of time bins alone",
                         (long long)s->pages, page_text(&s->page, text), (long long)s->longest,
                         s->series == s->longest ? ", and other series behind them" : " in one of its series");
    *follow = d->imagej && s->pages == 1 && d->images > 1;
    if (*follow) s->pages = d->images;
    return !d->images || d->images == s->pages ||
           error_set(error, "has %lld pages of %s, but its description says %lld images", (long long)s->pages,
                     page_text(&s->page, text), (long long)d->images);
}

/* ---- values ---- */

/* Lossless, so that counts stay counts. */
static bool check_compression(TIFF *t, Error *error) {
    static const uint16_t lossless[] = {COMPRESSION_NONE,    COMPRESSION_LZW,  COMPRESSION_ADOBE_DEFLATE,
                                        COMPRESSION_DEFLATE, COMPRESSION_LZMA, COMPRESSION_ZSTD,
                                        COMPRESSION_PACKBITS};
    uint16_t found = COMPRESSION_NONE;
    TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &found);
    for (size_t i = 0; i < sizeof lossless / sizeof *lossless; i++)
        if (found == lossless[i]) return true;
    const TIFFCodec *codec = TIFFFindCODEC(found);
    return error_set(error, "has compression %u (%s); expected none, LZW, Deflate, PackBits, LZMA or Zstandard", found,
                     codec ? codec->name : "unknown");
}

static bool read_strips(const Stack *s, unsigned char *out, size_t bytes) {
    uint32_t n = TIFFNumberOfStrips(s->tiff);
    size_t at = 0;
    for (uint32_t i = 0; i < n && at < bytes && !message[0]; i++) {
        tmsize_t got = TIFFReadEncodedStrip(s->tiff, i, out + at, (tmsize_t)(bytes - at));
        if (got <= 0) return false;
        at += (size_t)got;
    }
    return at == bytes;
}

static bool read_tiles(const Stack *s, unsigned char *out) {
    const Page *p = &s->page;
    uint32_t width = 0, height = 0;
    size_t item = p->bits / 8u;
    TIFFGetField(s->tiff, TIFFTAG_TILEWIDTH, &width);
    TIFFGetField(s->tiff, TIFFTAG_TILELENGTH, &height);
    uint64_t bytes = (uint64_t)width * height * item;
    if (!bytes || bytes > MAX_PIXELS * item || (uint64_t)TIFFTileSize(s->tiff) != bytes) return false;
    OWNED unsigned char *tile = xmalloc(bytes);
    for (uint32_t y = 0; y < p->height; y += height)
        for (uint32_t x = 0; x < p->width; x += width) {
            uint32_t rows = p->height - y < height ? p->height - y : height;
            uint32_t columns = p->width - x < width ? p->width - x : width;
            uint32_t number = TIFFComputeTile(s->tiff, x, y, 0, 0);
            if (TIFFReadEncodedTile(s->tiff, number, tile, (tmsize_t)bytes) != (tmsize_t)bytes || message[0])
                return false;
            for (uint32_t r = 0; r < rows; r++)
                memcpy(out + ((uint64_t)(y + r) * p->width + x) * item, tile + (uint64_t)r * width * item,
                       columns * item);
        }
    return true;
}

static Npy numbers(const Page *p, const void *bytes, bool big_endian) {
    int64_t n = (int64_t)p->width * p->height;
    return (Npy){.kind = kind_of(p),
                 .item_size = p->bits / 8,
                 .big_endian = big_endian,
                 .rank = 1,
                 .dims = {n},
                 .count = n,
                 .data = bytes};
}

/* Puts bin t of all pixels into values[pixels][bins]. */
static void put_bin(const Npy *page, int64_t t, int64_t bins, double *bin, double *values) {
    npy_to_f64(page, 0, page->count, bin);
    for (int64_t i = 0; i < page->count; i++) values[i * bins + t] = bin[i];
}

/* Converts the current page. A message of libtiff, even a warning, means that the numbers are in doubt. */
static bool read_page(const Stack *s, int64_t t, unsigned char *bytes, double *bin, double *values, Error *error) {
    size_t size = (size_t)s->page.width * s->page.height * (s->page.bits / 8u);
    if (!check_compression(s->tiff, error)) return error_before(error, "page %lld ", (long long)t + 1);
    message[0] = 0;
    if (!(TIFFIsTiled(s->tiff) ? read_tiles(s, bytes) : read_strips(s, bytes, size)) || message[0])
        return error_set(error, "page %lld cannot be read: %s", (long long)t + 1,
                         message[0] ? message : "its strips or tiles do not make up its height and width");
    Npy page = numbers(&s->page, bytes, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    put_bin(&page, t, s->pages, bin, values);
    return true;
}

static bool read_pages(const Stack *s, double *bin, double *values, Error *error) {
    OWNED unsigned char *bytes = xmalloc((size_t)s->page.width * s->page.height * (s->page.bits / 8u));
    for (int64_t t = 0; t < s->pages; t++) {
        message[0] = 0;
        if (!(t ? TIFFReadDirectory(s->tiff) : TIFFSetDirectory(s->tiff, 0)))
            return error_set(error, "page %lld cannot be read: %s", (long long)t + 1, message);
        if (!read_page(s, t, bytes, bin, values, error)) return false;
    }
    return true;
}

/* Reads images that lie one after the other from the numbers of the only page on. */
static bool read_following(const Stack *s, double *bin, double *values, Error *error) {
    uint16_t compression = COMPRESSION_NONE;
    TIFFGetFieldDefaulted(s->tiff, TIFFTAG_COMPRESSION, &compression);
    if (compression != COMPRESSION_NONE || TIFFIsTiled(s->tiff) || TIFFNumberOfStrips(s->tiff) != 1)
        return error_set(error, "has one page for %lld images; expected one strip without compression, or a page each",
                         (long long)s->pages);
    uint64_t start = TIFFGetStrileOffset(s->tiff, 0), size = s->file->size;
    uint64_t image = (uint64_t)s->page.width * s->page.height * (s->page.bits / 8u);
    if (start > size || (size - start) / image < (uint64_t)s->pages)
        return error_set(error, "is cut off: %llu of %lld images are there",
                         (unsigned long long)(start > size ? 0 : (size - start) / image), (long long)s->pages);
    for (int64_t t = 0; t < s->pages; t++) {
        Npy page = numbers(&s->page, s->file->bytes + start + (uint64_t)t * image, TIFFIsBigEndian(s->tiff));
        put_bin(&page, t, s->pages, bin, values);
    }
    return true;
}

static bool read_stack(Stack *s, int64_t dims[3], double **values, Error *error) {
    char *text = NULL;
    bool follow = false;
    TIFFGetField(s->tiff, TIFFTAG_IMAGEDESCRIPTION, &text);
    Description d = describe(text ? text : "");
    if (!count_pages(s, error) || !check_description(s, &d, &follow, error) || !check_pages(s, error)) return false;
    const Page *p = &s->page;
    size_t pixels = (size_t)p->width * p->height;
    OWNED double *bin = xmalloc(pixels * sizeof *bin);
    *values = xmalloc(pixels * (size_t)s->pages * sizeof **values);
    bool ok = follow ? read_following(s, bin, *values, error) : read_pages(s, bin, *values, error);
    memcpy(dims, (int64_t[]){p->height, p->width, s->pages}, 3 * sizeof *dims);
    return ok;
}

bool tiff_read(const void *bytes, size_t size, int64_t dims[3], double **values, TiffKind *kind, Error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, keep_messages);
    Memory file = {.bytes = bytes, .size = size};
    message[0] = 0;
    *values = NULL;
    Stack s = {.file = &file,
               .tiff = TIFFClientOpen("TIFF", "rm", &file, memory_read, memory_write, memory_seek, memory_close,
                                      memory_size, NULL, NULL)};
    if (!s.tiff) {
        OWNED char *other = foreign_of_bytes(bytes, size);
        return error_set(error, "cannot be read as TIFF: %s%s", message[0] ? message : "it has no page", other);
    }
    bool ok = read_stack(&s, dims, values, error);
    TIFFClose(s.tiff);
    if (kind) *kind = s.kind;
    if (!ok) {
        free(*values);
        *values = NULL;
    }
    return ok;
}
