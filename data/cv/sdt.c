#include "data/cv/sdt.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "data/formats/foreign.h"
#include "data/formats/npy.h"

enum { FILE_HEADER = 42, BLOCK_HEADER = 22, SCAN_END = 181, IMAGE_END = 317, MAX_VALUES = 1 << 28 };
static const char ADVICE[] = "docs/train_cv.md says how Python makes it .npy";

typedef struct {
    const unsigned char *bytes;
    size_t size;
} Part;

typedef struct {
    uint64_t start, end; /* of the data, in the file */
    uint32_t type, length;
    int64_t bins, scan[2], image[2]; /* image, scan: height, width; 0: not described */
} Block;

static uint32_t u16(const unsigned char *b) { return (uint32_t)b[0] | (uint32_t)b[1] << 8; }
static uint32_t u32(const unsigned char *b) { return u16(b) | u16(b + 2) << 16; }

/* Returns the part of `size` bytes from `offset` on, or NULL with an error. */
static const unsigned char *part(Part file, uint64_t offset, uint64_t size, const char *what, Error *error) {
    if (offset <= file.size && size <= file.size - offset) return file.bytes + offset;
    error_set(error, "is cut off: its %s should be bytes %llu to %llu, but it has %zu", what,
              (unsigned long long)offset, (unsigned long long)(offset + size), file.size);
    return NULL;
}

/* A description may be shorter than the fields, in files of old revisions. */
static void take_description(const unsigned char *d, uint32_t length, Block *block) {
    block->bins = u16(d + 82) ? u16(d + 82) : 65536;
    for (int i = 0; i < 2; i++) {
        if (length >= SCAN_END) block->scan[!i] = u32(d + 173 + 4 * i);
        if (length >= IMAGE_END) block->image[!i] = u32(d + 309 + 4 * i);
    }
}

/* Finds the only block. The bytes of revision 15 that extend offsets to 40 bits are not needed: a file of 4 GiB has no
 * single cell. Older software has a block's number there. */
static bool find_block(Part file, Block *block, Error *error) {
    const unsigned char *h = part(file, 0, FILE_HEADER, "header", error), *b, *d;
    if (!h || u16(h + 32) != 0x5555) {
        OWNED char *other = foreign_of_bytes(file.bytes, file.size);
        if (!h && *other) error_set(error, "is no .sdt file%s", other);
        if (h) error_set(error, "is no .sdt file: bytes 32 and 33 are 0x%04x; expected 0x5555%s", u16(h + 32), other);
        return false;
    }
    uint32_t blocks = u16(h + 18), n = u16(h + 28), length = u16(h + 30);
    if (blocks == 0x7fff) blocks = u32(h + 34);
    if (blocks != 1)
        return error_set(error, "has %u data blocks; expected one, an image of one channel; %s", blocks, ADVICE);
    if (!(b = part(file, u32(h + 14), BLOCK_HEADER, "block header", error))) return false;
    uint32_t which = u16(b + 12);
    if (which >= n || length < 84)
        return error_set(error, "its block has measurement description %u, but there are %u, of %u bytes", which, n,
                         length);
    if (!(d = part(file, u32(h + 24) + (uint64_t)which * length, length, "measurement description", error)))
        return false;
    uint64_t next = u32(b + 6);
    *block = (Block){.start = u32(b + 2), .type = u16(b + 10), .length = u32(b + 18)};
    block->end = next > block->start && next < file.size ? next : file.size;
    take_description(d, length, block);
    return true;
}

/* Finds the kind and the shape of the numbers. */
static bool find_image(const Block *b, Npy *image, Error *error) {
    static const struct {
        char kind;
        int size;
    } numbers[] = {{'u', 2}, {'u', 4}, {'f', 8}};
    uint32_t contents = b->type >> 4 & 15, number = b->type >> 8 & 15;
    if ((contents != 0 && contents != 1 && contents != 6) || number > 2 || b->type >> 13)
        return error_set(error,
                         "its block has type 0x%04x; expected photon counts (contents 0, 1 or 6) of 16 or 32 bits "
                         "or double, also zipped; %s",
                         b->type, ADVICE);
    *image = (Npy){.kind = numbers[number].kind, .item_size = numbers[number].size, .rank = 3};
    image->count = b->length / image->item_size;
    const int64_t *const shapes[] = {b->scan, b->image};
    for (int i = 0; i < 2 && image->count <= MAX_VALUES; i++) {
        int64_t H = shapes[i][0], W = shapes[i][1], T = b->bins;
        bool fits = H > 0 && W > 0 && T > 0 && H <= MAX_VALUES && W <= MAX_VALUES / H && T <= MAX_VALUES / (H * W);
        if (!fits || H * W * T * image->item_size != b->length) continue;
        memcpy(image->dims, (int64_t[]){H, W, T}, 3 * sizeof H);
        return true;
    }
    return error_set(error,
                     "its block has %u bytes, which is no image of %d-byte numbers: scan %lld x %lld, image %lld x "
                     "%lld (height x width), %lld time bins; %s",
                     b->length, image->item_size, (long long)b->scan[0], (long long)b->scan[1], (long long)b->image[0],
                     (long long)b->image[1], (long long)b->bins, ADVICE);
}

/* Reads the only file of a zip archive, of exactly `length` bytes. */
static bool unzip(Part archive, unsigned char *out, uint32_t length, Error *error) {
    zip_error_t why;
    zip_error_init(&why);
    zip_source_t *source = zip_source_buffer_create(archive.bytes, archive.size, 0, &why);
    zip_t *zip = source ? zip_open_from_source(source, ZIP_RDONLY, &why) : NULL;
    if (!zip) {
        error_set(error, "its zipped block cannot be read: %s", zip_error_strerror(&why));
        zip_source_free(source);
        zip_error_fini(&why);
        return false;
    }
    zip_file_t *file = zip_fopen_index(zip, 0, 0);
    zip_int64_t got = 0, n = 0;
    while (file && got < length && (n = zip_fread(file, out + got, length - (zip_uint64_t)got)) > 0) got += n;
    char rest;
    if (file && got == length) n = zip_fread(file, &rest, 1); /* the checksum is compared at the end */
    bool ok = file && got == length && n == 0;
    if (!ok)
        error_set(error, "its zipped block cannot be read: %s, %lld of %u bytes%s",
                  n < 0  ? zip_file_strerror(file)
                  : file ? "another length"
                         : zip_strerror(zip),
                  (long long)got, length, n > 0 ? " and more" : "");
    if (file) zip_fclose(file);
    zip_discard(zip);
    return ok;
}

bool sdt_read(const void *bytes, size_t size, int64_t dims[3], double **values, Error *error) {
    Part file = {bytes, size};
    Block block = {0};
    Npy image;
    *values = NULL;
    if (!find_block(file, &block, error) || !find_image(&block, &image, error)) return false;
    bool zipped = block.type & 0x1000;
    image.data = part(file, block.start, zipped ? 0 : block.length, "block", error);
    if (!image.data) return false;
    OWNED unsigned char *unzipped = zipped ? xmalloc(block.length) : NULL;
    bool ok = !zipped || unzip((Part){image.data, block.end - block.start}, unzipped, block.length, error);
    if (zipped) image.data = unzipped;
    if (ok) {
        *values = xmalloc((size_t)image.count * sizeof **values);
        npy_to_f64(&image, 0, image.count, *values);
        memcpy(dims, image.dims, 3 * sizeof *dims);
    }
    return ok;
}
