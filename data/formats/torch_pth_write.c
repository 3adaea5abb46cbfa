/* Writes what torch.save writes for dictionaries, lists, numbers and tensors. Each value becomes opcodes of pickle
 * (protocol 2) at once, the data of tensors are kept, and at the end everything goes into a zip.
 *
 * The whole zip is made in memory and then written atomically. The same calls give the same bytes: all times in the zip
 * are the first day of its calendar. */
#include "base/file.h"
#include "data/formats/torch_pth.h"

#include "data/formats/pickle.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

enum { DEEPEST = 16, DATA_ALIGNMENT = 64, LOCAL_HEADER = 30, EXTRA_HEADER = 4, PADDING_ID = 'F' | 'B' << 8 };
enum { FIRST_DAY = 1 << 5 | 1 }; /* 1980-01-01 */

typedef struct {
    char *bytes;
    size_t size, capacity;
} Buffer;

/* The numbers of a tensor. */
typedef struct {
    const void *bytes;
    size_t size;
    void *copy; /* to be freed, or NULL */
} Storage;

struct PthWriter {
    Buffer pickle;
    char closing[DEEPEST]; /* opcodes that end the open containers */
    int depth;
    Storage *storages;
    int n_storages;
};

/* ---- opcodes ---- */

static void append(Buffer *buffer, const void *bytes, size_t size) {
    if (buffer->size + size > buffer->capacity) {
        buffer->capacity = 2 * buffer->capacity + size;
        buffer->bytes = xrealloc(buffer->bytes, buffer->capacity);
    }
    if (size) memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

static void opcode(PthWriter *w, char code) { append(&w->pickle, &code, 1); }

static void little_endian(PthWriter *w, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) opcode(w, (char)(value >> 8 * i & 255));
}

static void global(PthWriter *w, const char *module, const char *name) {
    opcode(w, 'c');
    append(&w->pickle, module, strlen(module));
    opcode(w, '\n');
    append(&w->pickle, name, strlen(name));
    opcode(w, '\n');
}

static void empty_ordered_dict(PthWriter *w) {
    global(w, "collections", "OrderedDict");
    opcode(w, ')');
    opcode(w, 'R');
}

PthWriter *pth_begin(void) {
    PthWriter *w = xcalloc(1, sizeof *w);
    opcode(w, (char)0x80); /* PROTO */
    opcode(w, 2);
    return w;
}

void pth_open(PthWriter *w, PthContainer container) {
    assert(w->depth < DEEPEST);
    if (container == PTH_DICT) opcode(w, '}');
    if (container == PTH_ORDERED_DICT) empty_ordered_dict(w);
    if (container == PTH_LIST) opcode(w, ']');
    opcode(w, '('); /* MARK */
    w->closing[w->depth++] = container == PTH_TUPLE ? 't' : container == PTH_LIST ? 'e' : 'u';
}

void pth_close(PthWriter *w) {
    assert(w->depth);
    opcode(w, w->closing[--w->depth]);
}

void pth_text(PthWriter *w, const char *text) {
    size_t length = strlen(text);
    opcode(w, 'X');
    little_endian(w, length, 4);
    append(&w->pickle, text, length);
}

void pth_integer(PthWriter *w, int64_t value) {
    bool small = value >= 0 && value < 256, medium = value >= INT32_MIN && value <= INT32_MAX;
    opcode(w, small ? 'K' : medium ? 'J' : (char)0x8a);
    if (!medium) opcode(w, 8); /* LONG1: the number of bytes */
    little_endian(w, (uint64_t)value, small ? 1 : medium ? 4 : 8);
}

void pth_real(PthWriter *w, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    opcode(w, 'G');
    little_endian(w, __builtin_bswap64(bits), 8);
}

void pth_bool(PthWriter *w, bool value) { opcode(w, value ? (char)0x88 : (char)0x89); }

void pth_none(PthWriter *w) { opcode(w, 'N'); }

static void keep_storage(PthWriter *w, Storage storage) {
    w->storages = xrealloc(w->storages, (size_t)(w->n_storages + 1) * sizeof *w->storages);
    w->storages[w->n_storages++] = storage;
}

/* Returns the number of the storage that holds the data in place, or of the next one. */
static int storage_of(const PthWriter *w, const void *data, size_t size) {
    int i = 0;
    while (i < w->n_storages && (!size || w->storages[i].bytes != data || w->storages[i].size != size)) i++;
    return i;
}

/* The persistent id ("storage", class, key, location, number of elements). */
static void put_storage(PthWriter *w, const TensorToWrite *tensor, int64_t count, bool copy) {
    char key[16];
    size_t size = (size_t)count * stored_element_size(tensor->dtype);
    int number = copy ? w->n_storages : storage_of(w, tensor->data, size);
    snprintf(key, sizeof key, "%d", number);
    pth_open(w, PTH_TUPLE);
    pth_text(w, "storage");
    global(w, "torch", pickle_storage_class(tensor->dtype));
    pth_text(w, key);
    pth_text(w, "cpu");
    pth_integer(w, count);
    pth_close(w);
    opcode(w, 'Q');
    if (number < w->n_storages) return;
    void *own = copy ? xmalloc(size) : NULL;
    if (copy && size) memcpy(own, tensor->data, size);
    keep_storage(w, (Storage){copy ? own : tensor->data, size, own});
}

static void put_tensor(PthWriter *w, TensorToWrite tensor, bool copy) {
    int64_t strides[STORED_MAX_RANK], count = 1;
    for (int i = tensor.rank - 1; i >= 0; i--) {
        strides[i] = count;
        count *= tensor.dims[i];
    }
    global(w, "torch._utils", "_rebuild_tensor_v2");
    pth_open(w, PTH_TUPLE);
    put_storage(w, &tensor, count, copy);
    pth_integer(w, 0); /* offset in the storage */
    pth_open(w, PTH_TUPLE);
    for (int i = 0; i < tensor.rank; i++) pth_integer(w, tensor.dims[i]);
    pth_close(w);
    pth_open(w, PTH_TUPLE);
    for (int i = 0; i < tensor.rank; i++) pth_integer(w, strides[i]);
    pth_close(w);
    pth_bool(w, false); /* requires_grad, hooks */
    empty_ordered_dict(w);
    pth_close(w);
    opcode(w, 'R');
}

void pth_tensor(PthWriter *w, TensorToWrite tensor) { put_tensor(w, tensor, true); }

void pth_tensor_in_place(PthWriter *w, TensorToWrite tensor) { put_tensor(w, tensor, false); }

/* ---- the zip ---- */

typedef struct {
    zip_t *zip;
    const char *stem;
    int stem_length;
    size_t size; /* of the file so far */
} Archive;

/* Adds STEM/name without compression. The data begin at a multiple of 64 bytes in the file, so that torch can map them;
 * an extra field of the header fills the gap. */
static bool add_entry(Archive *a, const char *name, const void *bytes, size_t size) {
    static const zip_uint8_t filling[DATA_ALIGNMENT];
    char *path = xformat("%.*s/%s", a->stem_length, a->stem, name);
    size_t data = a->size + LOCAL_HEADER + strlen(path) + EXTRA_HEADER;
    size_t gap = (DATA_ALIGNMENT - data % DATA_ALIGNMENT) % DATA_ALIGNMENT;
    zip_source_t *source = zip_source_buffer(a->zip, bytes, size, 0);
    zip_int64_t index = source ? zip_file_add(a->zip, path, source, ZIP_FL_ENC_UTF_8) : -1;
    zip_uint64_t i = (zip_uint64_t)index;
    a->size = data + gap + size;
    free(path);
    if (index < 0 && source) zip_source_free(source);
    return index >= 0 && !zip_set_file_compression(a->zip, i, ZIP_CM_STORE, 0) &&
           !zip_file_set_dostime(a->zip, i, 0, FIRST_DAY, 0) &&
           !zip_file_extra_field_set(a->zip, i, PADDING_ID, ZIP_EXTRA_FIELD_NEW, filling, (zip_uint16_t)gap,
                                     ZIP_FL_LOCAL);
}

static bool add_entries(Archive *a, const PthWriter *w) {
    bool ok = add_entry(a, "data.pkl", w->pickle.bytes, w->pickle.size) && add_entry(a, "byteorder", "little", 6);
    for (int i = 0; ok && i < w->n_storages; i++) {
        char name[32];
        snprintf(name, sizeof name, "data/%d", i);
        ok = add_entry(a, name, w->storages[i].bytes, w->storages[i].size);
    }
    return ok && add_entry(a, "version", "3\n", 2);
}

/* Writes the bytes of the finished zip to a file, a piece at a time: a whole model has gigabytes. */
static bool write_source(zip_source_t *source, const char *path, Error *error) {
    enum { PIECE = 1 << 20 };
    zip_stat_t status;
    FileWriter writer;
    if (zip_source_stat(source, &status) || zip_source_open(source))
        return error_set(error, "%s: %s", path, zip_error_strerror(zip_source_error(source)));
    char *piece = xmalloc(PIECE);
    bool ok = file_begin(&writer, path, status.size, error);
    zip_int64_t n = 0;
    while (ok && (n = zip_source_read(source, piece, PIECE)) > 0) file_put(&writer, piece, (size_t)n);
    if (n < 0) writer.reason = EIO;
    ok = ok && file_end(&writer, error);
    zip_source_close(source);
    free(piece);
    return ok;
}

/* Makes the zip in memory, then writes it. torch names the folder in it after the file. */
static bool write_zip(const PthWriter *w, const char *path, Error *error) {
    zip_error_t why;
    zip_error_init(&why);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    Archive a = {.stem = name, .stem_length = (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name))};
    zip_source_t *source = zip_source_buffer_create(NULL, 0, 0, &why);
    if (source) zip_source_keep(source); /* outlives zip_close */
    a.zip = source ? zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &why) : NULL;
    bool made = a.zip && add_entries(&a, w) && !zip_close(a.zip);
    if (!made) error_set(error, "%s: %s", path, a.zip ? zip_strerror(a.zip) : zip_error_strerror(&why));
    bool ok = made && write_source(source, path, error);
    if (a.zip && !made) zip_discard(a.zip);
    if (source) zip_source_free(source);
    zip_error_fini(&why);
    return ok;
}

bool pth_write(PthWriter *w, const char *path, Error *error) {
    assert(!w->depth);
    opcode(w, '.'); /* STOP */
    bool ok = write_zip(w, path, error);
    for (int i = 0; i < w->n_storages; i++) free(w->storages[i].copy);
    free(w->storages);
    free(w->pickle.bytes);
    free(w);
    return ok;
}
