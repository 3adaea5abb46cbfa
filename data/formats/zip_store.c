/* The format: for each entry a local header, an extra field and the data; then the central directory, which repeats the
 * headers with the places of the entries; then its end. A size or place that does not fit into 32 bits is stored as
 * NOT_HERE, and an extra field has it (zip64). */
#include "data/formats/zip_store.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"

enum {
    LOCAL_HEADER = 0x04034b50,
    CENTRAL_HEADER = 0x02014b50,
    CENTRAL_END = 0x06054b50,
    CENTRAL_END_64 = 0x06064b50,
    CENTRAL_LOCATOR_64 = 0x07064b50,
    LOCAL_BYTES = 30,
    EXTRA_HEADER = 4,
    LARGE_ID = 1,                /* of the extra field with numbers of 64 bits */
    PADDING_ID = 'F' | 'B' << 8, /* as torch.save has it */
    VERSION = 45,                /* the first with zip64 */
    NAMES_ARE_UTF8 = 1 << 11,
    FIRST_DAY = 1 << 5 | 1 /* 1980-01-01 */
};
static const uint64_t NOT_HERE = UINT32_MAX;

typedef struct {
    uint64_t at; /* of its local header */
    uint32_t crc;
} Place;

typedef struct {
    FileWriter file;
    uint64_t size; /* so far */
} Zip;

static void put_bytes(Zip *zip, const void *bytes, size_t size) {
    if (size) file_put(&zip->file, bytes, size);
    zip->size += size;
}

/* Writes a number of so many bytes, little-endian. */
static void put(Zip *zip, uint64_t value, int bytes) {
    unsigned char text[8];
    for (int i = 0; i < bytes; i++) text[i] = (unsigned char)(value >> 8 * i);
    put_bytes(zip, text, (size_t)bytes);
}

static bool is_large(uint64_t value) { return value >= NOT_HERE; }
static void put_32(Zip *zip, uint64_t value) { put(zip, is_large(value) ? NOT_HERE : value, 4); }

/* Writes what local and central headers have in common: from the version to the length of the extra field. */
static void put_common(Zip *zip, const ZipEntry *entry, const Place *place, size_t extra) {
    put(zip, VERSION, 2);
    put(zip, NAMES_ARE_UTF8, 2);
    put(zip, 0, 4); /* stored, at midnight */
    put(zip, FIRST_DAY, 2);
    put(zip, place->crc, 4);
    put_32(zip, entry->size); /* compressed */
    put_32(zip, entry->size);
    put(zip, strlen(entry->name), 2);
    put(zip, extra, 2);
}

/* Writes the extra field of the n numbers that are large; nothing if n is 0. */
static void put_large(Zip *zip, const uint64_t *numbers, int n) {
    if (!n) return;
    put(zip, LARGE_ID, 2);
    put(zip, 8 * (uint64_t)n, 2);
    for (int i = 0; i < n; i++) put(zip, numbers[i], 8);
}

static uint32_t crc_of(const void *bytes, size_t size) { return (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, size); }

static void put_entry(Zip *zip, const ZipEntry *entry, Place *place) {
    static const char padding[ZIP_STORE_ALIGNMENT];
    const uint64_t sizes[] = {entry->size, entry->size};
    int n_large = is_large(entry->size) ? 2 : 0;
    size_t large = n_large ? EXTRA_HEADER + 8 * (size_t)n_large : 0;
    uint64_t data = zip->size + LOCAL_BYTES + strlen(entry->name) + large + EXTRA_HEADER;
    size_t gap = (ZIP_STORE_ALIGNMENT - data % ZIP_STORE_ALIGNMENT) % ZIP_STORE_ALIGNMENT;
    *place = (Place){zip->size, crc_of(entry->bytes, entry->size)};
    put(zip, LOCAL_HEADER, 4);
    put_common(zip, entry, place, large + EXTRA_HEADER + gap);
    put_bytes(zip, entry->name, strlen(entry->name));
    put_large(zip, sizes, n_large);
    put(zip, PADDING_ID, 2);
    put(zip, gap, 2);
    put_bytes(zip, padding, gap);
    put_bytes(zip, entry->bytes, entry->size);
}

static void put_central(Zip *zip, const ZipEntry *entry, const Place *place) {
    uint64_t numbers[3];
    int n = 0;
    if (is_large(entry->size)) numbers[n++] = entry->size, numbers[n++] = entry->size;
    if (is_large(place->at)) numbers[n++] = place->at;
    put(zip, CENTRAL_HEADER, 4);
    put(zip, VERSION, 2);
    put_common(zip, entry, place, n ? EXTRA_HEADER + 8 * (size_t)n : 0);
    put(zip, 0, 8); /* comment, disk, attributes */
    put(zip, 0, 2);
    put_32(zip, place->at);
    put_bytes(zip, entry->name, strlen(entry->name));
    put_large(zip, numbers, n);
}

/* Ends the zip; its central directory begins at `begin` and has n entries. */
static void put_end(Zip *zip, uint64_t begin, uint64_t n) {
    uint64_t end = zip->size, size = end - begin;
    bool many = n >= UINT16_MAX;
    if (many || is_large(begin) || is_large(size)) {
        put(zip, CENTRAL_END_64, 4);
        put(zip, 44, 8); /* bytes that follow */
        put(zip, VERSION, 2);
        put(zip, VERSION, 2);
        put(zip, 0, 8); /* disks */
        put(zip, n, 8);
        put(zip, n, 8);
        put(zip, size, 8);
        put(zip, begin, 8);
        put(zip, CENTRAL_LOCATOR_64, 4);
        put(zip, 0, 4);
        put(zip, end, 8);
        put(zip, 1, 4);
    }
    put(zip, CENTRAL_END, 4);
    put(zip, 0, 4); /* disks */
    put(zip, many ? UINT16_MAX : n, 2);
    put(zip, many ? UINT16_MAX : n, 2);
    put_32(zip, size);
    put_32(zip, begin);
    put(zip, 0, 2); /* comment */
}

bool zip_store(const char *path, const ZipEntry *entries, int n, Error *error) {
    OWNED Zip *zip = xcalloc(1, sizeof *zip);
    OWNED Place *places = xcalloc((size_t)n + 1, sizeof *places);
    uint64_t total = 0;
    for (int i = 0; i < n; i++) total += entries[i].size;
    if (!file_begin(&zip->file, path, total, error)) return false;
    for (int i = 0; i < n; i++) put_entry(zip, &entries[i], &places[i]);
    uint64_t begin = zip->size;
    for (int i = 0; i < n; i++) put_central(zip, &entries[i], &places[i]);
    put_end(zip, begin, (uint64_t)n);
    return file_end(&zip->file, error);
}
