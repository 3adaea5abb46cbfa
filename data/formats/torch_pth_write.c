/* Writes what torch.save writes for dictionaries, lists, numbers and tensors. Each value becomes opcodes of pickle
 * (protocol 2) at once, the data of tensors are kept or copied, and at the end everything goes into a zip. */
#include "data/formats/torch_pth.h"

#include "data/formats/pickle.h"
#include "data/formats/zip_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16 };

/* The numbers of a tensor. */
typedef struct {
    const void *bytes;
    size_t size;
    void *copy; /* to be freed, or NULL */
} Storage;

struct PthWriter {
    Bytes pickle;
    char closing[DEEPEST]; /* opcodes that end the open containers */
    int depth;
    Storage *storages;
    int n_storages;
};

/* ---- opcodes ---- */

static void opcode(PthWriter *w, char code) { bytes_add(&w->pickle, &code, 1); }

static void little_endian(PthWriter *w, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) opcode(w, (char)(value >> 8 * i & 255));
}

static void global(PthWriter *w, const char *module, const char *name) {
    opcode(w, 'c');
    bytes_add(&w->pickle, module, strlen(module));
    opcode(w, '\n');
    bytes_add(&w->pickle, name, strlen(name));
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
    bytes_add(&w->pickle, text, length);
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
    w->storages = xgrow(w->storages, (size_t)w->n_storages, sizeof *w->storages);
    w->storages[w->n_storages++] = (Storage){copy ? own : tensor->data, size, own};
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

/* Writes the entries under the name of the file without its ending, as torch names the folder in the zip. */
static bool write_zip(const PthWriter *w, const char *path, Error *error) {
    const char *name = path_name(path), *dot = strrchr(name, '.');
    int stem = (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name)), n = 0;
    OWNED ZipEntry *entries = xcalloc((size_t)w->n_storages + 3, sizeof *entries);
    entries[n++] = (ZipEntry){xformat("%.*s/data.pkl", stem, name), w->pickle.at, w->pickle.n};
    entries[n++] = (ZipEntry){xformat("%.*s/byteorder", stem, name), "little", 6};
    for (int i = 0; i < w->n_storages; i++)
        entries[n++] = (ZipEntry){xformat("%.*s/data/%d", stem, name, i), w->storages[i].bytes, w->storages[i].size};
    entries[n++] = (ZipEntry){xformat("%.*s/version", stem, name), "3\n", 2};
    bool ok = zip_store(path, entries, n, error);
    for (int i = 0; i < n; i++) free(entries[i].name);
    return ok;
}

bool pth_write(PthWriter *w, const char *path, Error *error) {
    assert(!w->depth);
    opcode(w, '.'); /* STOP */
    bool ok = write_zip(w, path, error);
    for (int i = 0; i < w->n_storages; i++) free(w->storages[i].copy);
    FREE(w->storages, w->pickle.at, w);
    return ok;
}
