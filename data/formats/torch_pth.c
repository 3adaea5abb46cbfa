/* Reads the named tensors of a .pth file. The pickle's tree (data/formats/pickle.h) is searched for tensors; the name
 * of a tensor is its dictionary keys and list positions, joined by dots. Then the storages in use are read: from the
 * zip, or, in a file of a torch before 1.6, from behind the pickles.
 *
 * All data lie in one mapping: first the storages, each once even if several tensors share it, then C-order copies of
 * the tensors that have other strides (transposed views). Names, sizes and strides are untrusted; the size of the file
 * bounds the memory. */
#include "data/formats/torch_pth.h"

#include "base/file.h"
#include "data/formats/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zip.h>

enum { KEY_BYTES = 32, NAME_LIMIT = 512, DEPTH_LIMIT = 32, TENSOR_LIMIT = 100000, VISIT_LIMIT = 1 << 20, BLOCK = 64 };

/* A tensor of the tree, a view of a storage. */
typedef struct {
    StoredTensor tensor;
    char key[KEY_BYTES]; /* of the storage */
    size_t element;
    int64_t storage_count, offset, strides[STORED_MAX_RANK]; /* in elements */
    bool in_order;                                           /* C order */
    size_t place;                                            /* of the storage, in the mapping */
} View;

typedef struct {
    const Pickle *pickle;
    View *views;
    int count, visits, ignored;
    char name[NAME_LIMIT]; /* of the node being visited */
    TensorFile *file;      /* for the numbers that lie beside tensors */
    Error *error;
} Walk;

/* Reads storage `key` of exactly `bytes` bytes. */
typedef bool ReadStorage(void *context, const char *key, char *out, size_t bytes, Error *error);

/* ---- the tree ---- */

static const PickleNode *node_of(const Walk *walk, int index) { return &walk->pickle->nodes[index]; }

/* Item i of a tuple if it has that kind, otherwise NULL. */
static const PickleNode *item_of(const Walk *walk, const PickleNode *tuple, int i, PickleKind kind) {
    if (tuple->kind != PICKLE_TUPLE || i >= tuple->count) return NULL;
    const PickleNode *item = node_of(walk, tuple->as.items[i]);
    return item->kind == kind ? item : NULL;
}

static bool fail(const Walk *walk, const char *what) {
    return error_set(walk->error, "pickle: tensor '%s': %s", walk->name, what);
}

/* ("storage", class, key, location, number of elements); before 1.6 also None, or the place of a view. */
static bool read_storage_node(const Walk *walk, const PickleNode *storage, View *view) {
    const PickleNode *tuple = node_of(walk, (int)storage->as.integer);
    const PickleNode *kind = item_of(walk, tuple, 0, PICKLE_TEXT), *type = item_of(walk, tuple, 1, PICKLE_GLOBAL),
                     *key = item_of(walk, tuple, 2, PICKLE_TEXT), *count = item_of(walk, tuple, 4, PICKLE_INTEGER);
    if (!kind || kind->count != 7 || memcmp(kind->as.text, "storage", 7) || !type || !type->as.global->dtype || !key ||
        !count)
        return fail(walk, "its storage is not (\"storage\", class, key, location, size)");
    if (tuple->count > 5 && node_of(walk, tuple->as.items[5])->kind != PICKLE_LEAF)
        return fail(walk, "its storage is a view of another one; save it once with a newer torch");
    if (key->count < 1 || key->count >= (int)sizeof view->key || memchr(key->as.text, 0, (size_t)key->count) ||
        memchr(key->as.text, '/', (size_t)key->count))
        return fail(walk, "its storage has a name that is no number");
    memcpy(view->key, key->as.text, (size_t)key->count);
    snprintf(view->tensor.dtype, sizeof view->tensor.dtype, "%s", type->as.global->dtype);
    view->element = stored_element_size(view->tensor.dtype);
    view->storage_count = count->as.integer;
    int64_t bytes;
    return (view->storage_count >= 0 && !__builtin_mul_overflow(view->storage_count, (int64_t)view->element, &bytes)) ||
           fail(walk, "its storage has an impossible size");
}

/* Checks sizes and strides: every element lies in the storage, and there are no more elements than the storage holds,
 * so that a copy is never larger than the file. */
static bool read_layout(const Walk *walk, const PickleNode *size, const PickleNode *stride, View *view) {
    StoredTensor *tensor = &view->tensor;
    if (size->count > STORED_MAX_RANK) return fail(walk, "it has more than 8 dimensions");
    if (size->count != stride->count) return fail(walk, "it has more sizes than strides, or fewer");
    tensor->rank = size->count;
    tensor->count = 1;
    int64_t last = view->offset;
    for (int i = 0; i < tensor->rank; i++) {
        const PickleNode *d = item_of(walk, size, i, PICKLE_INTEGER), *s = item_of(walk, stride, i, PICKLE_INTEGER);
        if (!d || !s || d->as.integer < 0 || s->as.integer < 0) return fail(walk, "a size or stride is no number >= 0");
        tensor->dims[i] = d->as.integer;
        view->strides[i] = d->as.integer > 1 ? s->as.integer : 0; /* the stride of a single element is ignored */
        int64_t reach;
        if (__builtin_mul_overflow(tensor->count, tensor->dims[i], &tensor->count) ||
            __builtin_mul_overflow(tensor->dims[i] ? tensor->dims[i] - 1 : 0, view->strides[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return fail(walk, "its shape is impossible");
    }
    if (tensor->count && last >= view->storage_count) return fail(walk, "it reaches beyond its storage");
    if (tensor->count > view->storage_count)
        return fail(walk, "an expanded view, larger than its storage; save it with .contiguous()");
    view->in_order = true;
    int64_t expected = 1;
    for (int i = tensor->rank - 1; i >= 0 && tensor->count; i--) {
        if (tensor->dims[i] > 1 && view->strides[i] != expected) view->in_order = false;
        expected *= tensor->dims[i];
    }
    tensor->bytes = (size_t)tensor->count * view->element;
    return true;
}

/* (storage, offset, size, stride, requires_grad, hooks) */
static bool visit_tensor(Walk *walk, const PickleNode *node) {
    const PickleNode *tuple = node_of(walk, (int)node->as.integer);
    const PickleNode *storage = item_of(walk, tuple, 0, PICKLE_STORAGE),
                     *offset = item_of(walk, tuple, 1, PICKLE_INTEGER), *size = item_of(walk, tuple, 2, PICKLE_TUPLE),
                     *stride = item_of(walk, tuple, 3, PICKLE_TUPLE);
    if (!storage || !offset || offset->as.integer < 0 || !size || !stride)
        return fail(walk, "not made from (storage, offset, size, stride)");
    if (walk->count == TENSOR_LIMIT) return fail(walk, "more tensors than a state dict has");
    View view = {.offset = offset->as.integer};
    if (!read_storage_node(walk, storage, &view) || !read_layout(walk, size, stride, &view)) return false;
    walk->views = xgrow(walk->views, (size_t)walk->count, sizeof *walk->views);
    view.tensor.name = xstrdup(walk->name);
    walk->views[walk->count++] = view;
    return true;
}

/* Keeps a whole number of a dictionary as metadata. */
static void keep_number(Walk *walk, const PickleNode *node) {
    TensorFile *file = walk->file;
    size_t room = (size_t)file->n_metadata + 1;
    file->metadata_keys = xrealloc(file->metadata_keys, room * sizeof *file->metadata_keys);
    file->metadata_values = xrealloc(file->metadata_values, room * sizeof *file->metadata_values);
    file->metadata_keys[file->n_metadata] = xstrdup(walk->name);
    file->metadata_values[file->n_metadata++] = xformat("%lld", (long long)node->as.integer);
}

static bool visit(Walk *walk, int index, size_t used, int depth);

/* Visits an item of a dictionary (its key's node) or of a list (key -1, its position), under "NAME.KEY". */
static bool visit_item(Walk *walk, int key, int position, int value, size_t used, int depth) {
    char number[24];
    const PickleNode *node = key < 0 ? NULL : node_of(walk, key);
    bool text = node && node->kind == PICKLE_TEXT;
    if (node && !text && node->kind != PICKLE_INTEGER)
        return error_set(walk->error, "pickle: a key of '%s' is neither text nor a number", walk->name);
    int length = snprintf(number, sizeof number, "%lld", (long long)(node && !text ? node->as.integer : position));
    const char *part = text ? node->as.text : number;
    if (text) length = node->count;
    if (text && memchr(part, 0, (size_t)length))
        return error_set(walk->error, "pickle: a key of '%s' holds a zero byte", walk->name);
    if (used + (size_t)length + 2 > NAME_LIMIT)
        return error_set(walk->error, "pickle: a name is longer than %d bytes: %.60s...", NAME_LIMIT, walk->name);
    size_t start = used;
    if (used) walk->name[used++] = '.';
    memcpy(walk->name + used, part, (size_t)length);
    walk->name[used + (size_t)length] = 0;
    if (node && node_of(walk, value)->kind == PICKLE_INTEGER) keep_number(walk, node_of(walk, value));
    bool ok = visit(walk, value, used + (size_t)length, depth + 1);
    walk->name[start] = 0;
    return ok;
}

/* used: the length of walk->name. */
static bool visit(Walk *walk, int index, size_t used, int depth) {
    const PickleNode *node = node_of(walk, index);
    if (depth > DEPTH_LIMIT || ++walk->visits > VISIT_LIMIT)
        return error_set(walk->error, "pickle: nested deeper or holding more than a state dict does, at '%.100s'",
                         walk->name);
    switch (node->kind) {
    case PICKLE_TENSOR:
        return visit_tensor(walk, node);
    case PICKLE_DICT:
        for (int i = 0; i < node->count; i += 2)
            if (!visit_item(walk, node->as.items[i], 0, node->as.items[i + 1], used, depth)) return false;
        return true;
    case PICKLE_LIST:
    case PICKLE_TUPLE:
        for (int i = 0; i < node->count; i++)
            if (!visit_item(walk, -1, i, node->as.items[i], used, depth)) return false;
        return true;
    default:
        walk->ignored++;
        return true;
    }
}

/* ---- the numbers ---- */

static int compare_keys(const void *a, const void *b) {
    const View *x = *(View *const *)a, *y = *(View *const *)b;
    return strcmp(x->key, y->key);
}

static bool add_size(size_t *total, size_t bytes) {
    return !__builtin_add_overflow(*total, (bytes + BLOCK - 1) / BLOCK * BLOCK, total);
}

/* Assigns a place to every storage and every copy. by_key: the views sorted by storage. False: more than `limit` bytes.
 */
static bool plan_places(const Walk *walk, View **by_key, size_t limit, size_t *total, Error *error) {
    size_t storages = 0, copies = 0;
    for (int i = 0; i < walk->count; i++) by_key[i] = &walk->views[i];
    if (walk->count) qsort(by_key, (size_t)walk->count, sizeof *by_key, compare_keys);
    for (int i = 0; i < walk->count; i++) {
        View *view = by_key[i];
        size_t bytes = (size_t)view->storage_count * view->element;
        bool known = i && !strcmp(view->key, by_key[i - 1]->key);
        if (known && bytes != (size_t)by_key[i - 1]->storage_count * by_key[i - 1]->element)
            return error_set(error, "pickle: storage %s has two sizes", view->key);
        view->place = known ? by_key[i - 1]->place : storages;
        if ((!known && !add_size(&storages, bytes)) || storages > limit)
            return error_set(error, "pickle: the tensors need more bytes than the file has");
        if (!view->in_order && (!add_size(&copies, view->tensor.bytes) || copies / 4 > limit))
            return error_set(error, "pickle: the views that are not contiguous need more than 4 times the file");
    }
    *total = storages + copies;
    return true;
}

/* Copies a strided view to C order, counting its indices like an odometer. */
static void copy_in_order(const View *view, const char *storage, char *out) {
    int64_t index[STORED_MAX_RANK] = {0}, at = view->offset;
    for (int64_t n = 0; n < view->tensor.count; n++) {
        memcpy(out + (size_t)n * view->element, storage + (size_t)at * view->element, view->element);
        for (int d = view->tensor.rank - 1; d >= 0; d--) {
            at += view->strides[d];
            if (++index[d] < view->tensor.dims[d]) break;
            at -= view->strides[d] * view->tensor.dims[d];
            index[d] = 0;
        }
    }
}

static bool fill(View **by_key, int count, char *memory, ReadStorage *read, void *context, Error *error) {
    size_t copies = 0;
    for (int i = 0; i < count; i++) {
        View *view = by_key[i];
        if (i && !strcmp(view->key, by_key[i - 1]->key)) continue;
        size_t bytes = (size_t)view->storage_count * view->element;
        if (!read(context, view->key, memory + view->place, bytes, error)) return false;
        copies = view->place;
        add_size(&copies, bytes);
    }
    for (int i = 0; i < count; i++) {
        View *view = by_key[i];
        char *storage = memory + view->place;
        view->tensor.data = storage + (view->tensor.count ? (size_t)view->offset * view->element : 0);
        if (view->in_order) continue;
        copy_in_order(view, storage, memory + copies);
        view->tensor.data = memory + copies;
        add_size(&copies, view->tensor.bytes);
    }
    return true;
}

/* Moves the views' tensors into the file. */
static void take_tensors(const Walk *walk, TensorFile *file) {
    file->tensors = xcalloc((size_t)walk->count, sizeof *file->tensors);
    file->n_tensors = walk->count;
    file->n_ignored = walk->ignored;
    for (int i = 0; i < walk->count; i++) file->tensors[i] = walk->views[i].tensor;
}

/* limit: the most bytes that all storages may have together. */
static bool load_views(Walk *walk, size_t limit, ReadStorage *read, void *context, TensorFile *file) {
    OWNED View **by_key = xcalloc((size_t)walk->count, sizeof *by_key);
    size_t total = 0;
    if (!plan_places(walk, by_key, limit, &total, walk->error)) return false;
    total += BLOCK; /* never empty */
    void *memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return error_set(walk->error, "not enough memory for its %zu bytes", total);
    file->owner = memory;
    file->owner_bytes = total;
    return fill(by_key, walk->count, memory, read, context, walk->error);
}

static bool load_tree(const Pickle *pickle, size_t limit, ReadStorage *read, void *context, TensorFile *file,
                      Error *error) {
    *file = (TensorFile){0};
    Walk walk = {.pickle = pickle, .file = file, .error = error};
    bool ok = pickle->nodes[pickle->root].kind == PICKLE_DICT
                  ? visit(&walk, pickle->root, 0, 0) && load_views(&walk, limit, read, context, file)
                  : error_set(error, "the pickle holds no dictionary of tensors");
    take_tensors(&walk, file);
    free(walk.views);
    ok = ok && tensor_file_index(file, error);
    if (!ok) tensor_file_close(file);
    return ok;
}

static bool load_pickle(const void *bytes, size_t size, size_t limit, ReadStorage *read, void *context,
                        TensorFile *file, Error *error) {
    OWNED_BY(pickle_free) Pickle pickle = {0};
    return pickle_parse(bytes, size, &pickle, error) && load_tree(&pickle, limit, read, context, file, error);
}

/* ---- the zip ---- */

typedef struct {
    zip_t *zip;
    char *stem; /* "archive/" */
} Archive;

static bool read_entry(const Archive *archive, zip_int64_t index, const char *name, char *out, size_t bytes,
                       Error *error) {
    zip_file_t *entry = zip_fopen_index(archive->zip, (zip_uint64_t)index, 0);
    if (!entry) return error_set(error, "%s: %s", name, zip_strerror(archive->zip));
    size_t got = 0;
    zip_int64_t n = 0;
    while (got < bytes && (n = zip_fread(entry, out + got, bytes - got)) > 0) got += (size_t)n;
    char rest;
    if (got == bytes) n = zip_fread(entry, &rest, 1); /* the checksum is compared at the end */
    bool ok = got == bytes && n == 0;
    if (!ok)
        error_set(error, "%s: %s after %zu of %zu bytes", name, n < 0 ? zip_file_strerror(entry) : "it ends", got,
                  bytes);
    zip_fclose(entry);
    return ok;
}

/* Finds the entry STEM/name. It must be stored without compression, so that it is not larger than the file. */
static bool find_entry(const Archive *archive, const char *name, zip_int64_t *index, size_t *bytes, Error *error) {
    zip_stat_t status;
    OWNED char *path = xformat("%s%s", archive->stem, name);
    *index = zip_name_locate(archive->zip, path, 0);
    bool there = *index >= 0 && !zip_stat_index(archive->zip, (zip_uint64_t)*index, 0, &status);
    if (!there) return error_set(error, "the zip has no %s%s; is the file complete?", archive->stem, name);
    if (status.comp_method != ZIP_CM_STORE || status.encryption_method != ZIP_EM_NONE)
        return error_set(error, "%s is compressed or encrypted; torch.save stores it as it is", name);
    *bytes = (size_t)status.size;
    return true;
}

static bool read_zip_storage(void *context, const char *key, char *out, size_t bytes, Error *error) {
    const Archive *archive = context;
    zip_int64_t index;
    size_t there = 0;
    char name[64];
    snprintf(name, sizeof name, "data/%s", key);
    if (!find_entry(archive, name, &index, &there, error)) return false;
    if (there != bytes) return error_set(error, "%s has %zu bytes; data.pkl says %zu", name, there, bytes);
    return read_entry(archive, index, name, out, bytes, error);
}

/* Finds the folder of data.pkl, which torch.save names after the file ("archive/", "model/"). */
static char *find_stem(zip_t *zip) {
    for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); i++) {
        const char *name = zip_get_name(zip, (zip_uint64_t)i, 0);
        size_t length = name ? strlen(name) : 0;
        if (length >= 8 && !strcmp(name + length - 8, "data.pkl") && (length == 8 || name[length - 9] == '/'))
            return xformat("%.*s", (int)(length - 8), name);
    }
    return NULL;
}

static bool load_archive(Archive *archive, size_t file_size, TensorFile *file, Error *error) {
    zip_int64_t index = 0;
    size_t bytes = 0;
    char order[8] = "";
    if (!find_entry(archive, "data.pkl", &index, &bytes, error)) return false;
    if (bytes > file_size) return error_set(error, "data.pkl is larger than the file");
    OWNED char *pickle = xmalloc(bytes);
    bool ok = read_entry(archive, index, "data.pkl", pickle, bytes, error) &&
              load_pickle(pickle, bytes, file_size, read_zip_storage, archive, file, error);
    if (!ok || !find_entry(archive, "byteorder", &index, &bytes, NULL) || bytes >= sizeof order) return ok;
    ok = read_entry(archive, index, "byteorder", order, bytes, error) &&
         (!strcmp(order, "little") || error_set(error, "its numbers are %s-endian; only little is read", order));
    if (!ok) tensor_file_close(file);
    return ok;
}

bool torch_pth_open(const char *path, TensorFile *file, Error *error) {
    int code;
    size_t size;
    int fd = file_open(path, &size, error);
    if (fd < 0) return false;
    Archive archive = {.zip = zip_fdopen(fd, 0, &code)}; /* which closes it */
    if (!archive.zip) {
        close(fd);
        zip_error_t reason;
        zip_error_init_with_code(&reason, code);
        error_set(error, "not a whole zip file: %s", zip_error_strerror(&reason));
        zip_error_fini(&reason);
        return false;
    }
    archive.stem = find_stem(archive.zip);
    bool ok = archive.stem ? load_archive(&archive, size, file, error)
                           : error_set(error, "a zip without data.pkl: not written by torch.save");
    free(archive.stem);
    zip_discard(archive.zip);
    return ok;
}

/* ---- files of a torch before 1.6 ----
 *
 * Five pickles: a magic number, the format's version, a dictionary about the machine, the tree, the list of the keys of
 * the storages. Then the storages in this order: a number of elements in 8 bytes, and the elements, little-endian. */

static const char legacy_magic[] = "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.";
enum { LEGACY_MAGIC_BYTES = sizeof legacy_magic - 1, LEGACY_VERSION = 1001 };

typedef struct {
    const char *bytes;
    size_t size, at;
    View *storages; /* [n], by key; of a view only what read_storage_node sets, and its place in the file, 0: unknown */
    int n;
} Legacy;

bool torch_is_legacy(const void *bytes, size_t size) {
    return size >= LEGACY_MAGIC_BYTES && !memcmp(bytes, legacy_magic, LEGACY_MAGIC_BYTES);
}

/* Parses the next pickle; pickle_free. */
static bool next_pickle(Legacy *l, Pickle *pickle, Error *error) {
    size_t left = l->size - l->at;
    if (!pickle_parse(l->bytes + l->at, left < PICKLE_SIZE_LIMIT ? left : PICKLE_SIZE_LIMIT, pickle, error))
        return false;
    l->at += pickle->size;
    return true;
}

static bool check_version(Legacy *l, Error *error) {
    OWNED_BY(pickle_free) Pickle version = {0};
    OWNED_BY(pickle_free) Pickle machine = {0};
    if (!next_pickle(l, &version, error)) return false;
    const PickleNode *root = &version.nodes[version.root];
    if (root->kind != PICKLE_INTEGER || root->as.integer != LEGACY_VERSION)
        return error_set(error, "a file of torch.save in an unknown version; expected %d", LEGACY_VERSION);
    return next_pickle(l, &machine, error);
}

static int compare_views(const void *a, const void *b) {
    return strcmp(((const View *)a)->key, ((const View *)b)->key);
}

/* Lists the storages of the tree, each once; free(l->storages). */
static bool list_storages(Legacy *l, const Pickle *tree, Error *error) {
    const Walk walk = {.pickle = tree, .error = error, .name = "?"};
    int n = 0;
    for (int i = 0; i < tree->count; i++) n += tree->nodes[i].kind == PICKLE_STORAGE;
    l->storages = xcalloc((size_t)n, sizeof *l->storages);
    n = 0;
    for (int i = 0; i < tree->count; i++)
        if (tree->nodes[i].kind == PICKLE_STORAGE && !read_storage_node(&walk, &tree->nodes[i], &l->storages[n++]))
            return false;
    if (n) qsort(l->storages, (size_t)n, sizeof *l->storages, compare_views);
    for (int i = 0; i < n; i++)
        if (!i || strcmp(l->storages[i].key, l->storages[l->n - 1].key) != 0) l->storages[l->n++] = l->storages[i];
    return true;
}

/* Returns the storage with this key; NULL: none. */
static View *storage_of(const Legacy *l, const char *key) {
    View wanted = {.place = 0};
    snprintf(wanted.key, sizeof wanted.key, "%s", key);
    return l->n ? bsearch(&wanted, l->storages, (size_t)l->n, sizeof *l->storages, compare_views) : NULL;
}

/* Finds the next storage of the file, whose key is given: sets its place. */
static bool find_storage(Legacy *l, const char *key, Error *error) {
    View *storage = storage_of(l, key);
    int64_t count;
    if (!storage || storage->place)
        return error_set(error, "its list of storages names %s, which %s", key,
                         storage ? "is there twice" : "no tensor has");
    if (l->size - l->at < sizeof count) return error_set(error, "it ends before storage %s: it is cut off", key);
    memcpy(&count, l->bytes + l->at, sizeof count);
    if (count != storage->storage_count)
        return error_set(error, "storage %s has %lld elements; the pickle says %lld", key, (long long)count,
                         (long long)storage->storage_count);
    size_t bytes = (size_t)count * storage->element;
    storage->place = l->at + sizeof count;
    if (l->size - storage->place < bytes)
        return error_set(error, "it ends %zu bytes before the end of storage %s: it is cut off",
                         bytes - (l->size - storage->place), key);
    l->at = storage->place + bytes;
    return true;
}

static bool find_storages(Legacy *l, Error *error) {
    OWNED_BY(pickle_free) Pickle keys = {0};
    if (!next_pickle(l, &keys, error)) return false;
    const PickleNode *list = &keys.nodes[keys.root];
    if (list->kind != PICKLE_LIST) return error_set(error, "the keys of its storages are no list");
    for (int i = 0; i < list->count; i++) {
        const PickleNode *key = &keys.nodes[list->as.items[i]];
        char text[KEY_BYTES];
        if (key->kind != PICKLE_TEXT || key->count >= KEY_BYTES)
            return error_set(error, "the key of a storage is no short text");
        snprintf(text, sizeof text, "%.*s", key->count, key->as.text);
        if (!find_storage(l, text, error)) return false;
    }
    return true;
}

static bool read_legacy_storage(void *context, const char *key, char *out, size_t bytes, Error *error) {
    const Legacy *l = context;
    const View *storage = storage_of(l, key);
    if (!storage || !storage->place || (size_t)storage->storage_count * storage->element != bytes)
        return error_set(error, "storage %s is not in its list of storages, or has two sizes", key);
    if (bytes) memcpy(out, l->bytes + storage->place, bytes);
    return true;
}

bool torch_legacy_parse(const void *bytes, size_t size, TensorFile *file, Error *error) {
    Legacy l = {.bytes = bytes, .size = size, .at = LEGACY_MAGIC_BYTES};
    OWNED_BY(pickle_free) Pickle tree = {0};
    *file = (TensorFile){0};
    if (!check_version(&l, error) || !next_pickle(&l, &tree, error)) return false;
    bool ok = list_storages(&l, &tree, error) && find_storages(&l, error) &&
              load_tree(&tree, size, read_legacy_storage, &l, file, error);
    free(l.storages);
    return ok;
}

/* ---- for fuzzing ---- */

static bool read_zeros(void *context, const char *key, char *out, size_t bytes, Error *error) {
    (void)context, (void)key, (void)error;
    memset(out, 0, bytes);
    return true;
}

bool torch_pickle_parse(const void *bytes, size_t size, TensorFile *file, Error *error) {
    return load_pickle(bytes, size, (size_t)1 << 24, read_zeros, NULL, file, error);
}
