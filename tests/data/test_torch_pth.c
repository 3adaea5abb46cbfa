/* The reader of .pth files of torch: with files that torch wrote (tests/reference/make_pth.py), and with files that
 * torch would never write. The writer: with the reader and libzip. tests/reference/check_cv_export.py tests that
 * torch reads what a training exports. */
#include "base/file.h"
#include "data/formats/tensor_file_open.h"
#include "tests/test.h"

#include <zip.h>

#include "data/formats/torch_pth.h"

static Error error;

static const char golden[] = "tests/reference/golden";

static char *golden_path(const char *name) { return kept_path(golden, name); }

static void open_good(const char *path, TensorFile *file) {
    if (!tensor_file_open(path, file, &error)) fail_msg("%s: %s", path, error.text);
}

TEST(torch_files_have_the_tensors_that_torch_saved) {
    TensorFile want;
    open_good(golden_path("torch_expected.safetensors"), &want);
    static const char *const names[] = {"torch_protocol2.pth", "torch_protocol4.pth", "torch_legacy.pth"};
    for (int k = 0; k < 3; k++) {
        TensorFile file;
        const char *name = names[k];
        open_good(golden_path(name), &file);
        assert_int_equal(file.n_tensors, want.n_tensors);
        assert_true(want.n_tensors >= 35);
        assert_int_equal(file.n_ignored, 31);
        for (int i = 0; i < want.n_tensors; i++) {
            const StoredTensor *expected = &want.tensors[i], *got = tensor_file_find(&file, expected->name);
            if (!got) fail_msg("%s: %s is not there", name, expected->name);
            assert_string_equal(got->dtype, expected->dtype);
            assert_int_equal(got->rank, expected->rank);
            for (int d = 0; d < got->rank; d++) assert_int_equal(got->dims[d], expected->dims[d]);
            assert_int_equal(got->bytes, expected->bytes);
            if (memcmp(got->data, expected->data, got->bytes)) fail_msg("%s: %s differs", name, got->name);
        }
        tensor_file_close(&file);
    }
    tensor_file_close(&want);
}

/* The checkpoint has 79 tensors of the model, the moments of two parameters, numbers of NumPy and int64 counters, all
 * saved from a GPU. */
TEST(a_training_checkpoint_of_the_reference_is_read) {
    TensorFile file;
    int in_model = 0, counters = 0;
    open_good(golden_path("torch_flim.pth"), &file);
    for (int i = 0; i < file.n_tensors; i++) {
        const StoredTensor *tensor = &file.tensors[i];
        in_model += !strncmp(tensor->name, "model_state_dict.", 17);
        if (!ends_with(tensor->name, ".num_batches_tracked")) continue;
        counters++;
        assert_true(!strcmp(tensor->dtype, "I64") && tensor->rank == 0 && *(const int64_t *)tensor->data == 43);
    }
    assert_int_equal(in_model, 79);
    assert_int_equal(counters, 11);
    assert_int_equal(file.n_tensors, 79 + 2 * 3);
    const StoredTensor *step = tensor_file_find(&file, "optimizer_state_dict.state.1.step");
    assert_true(step && *(const float *)step->data == 3);
    assert_int_equal(tensor_file_find(&file, "model_state_dict.res_block3.conv1.weight")->rank, 5);
    tensor_file_close(&file);
}

/* ---- pickles by hand ---- */

typedef struct {
    char bytes[4096];
    size_t size;
} FileBytes;

static void add(FileBytes *b, const char *bytes, size_t size) {
    assert_true(b->size + size <= sizeof b->bytes);
    memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}

#define ADD(b, literal) add(b, literal, sizeof(literal) - 1)

static void add_integer(FileBytes *b, int64_t value) {
    ADD(b, "\x8a\x08");
    for (int i = 0; i < 8; i++) add(b, (char[]){(char)((uint64_t)value >> 8 * i)}, 1);
}

static void add_pair(FileBytes *b, int64_t x, int64_t y) {
    add_integer(b, x);
    add_integer(b, y);
    ADD(b, "\x86");
}

/* {"w": f32 view [rows, columns] of a storage "0" of `count` elements} */
static FileBytes tensor_pickle(int64_t count, int64_t offset, int64_t rows, int64_t columns, int64_t row_stride,
                               int64_t column_stride) {
    FileBytes b = {.size = 0};
    ADD(&b, "\x80\x02}X\1\0\0\0w"
            "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
            "0X\3\0\0\0cpu");
    add_integer(&b, count);
    ADD(&b, "tQ");
    add_integer(&b, offset);
    add_pair(&b, rows, columns);
    add_pair(&b, row_stride, column_stride);
    ADD(&b, "\x89NtRs.");
    return b;
}

static void assert_pickle(const FileBytes *pickle, const char *message) {
    TensorFile file;
    Error error = {"nothing"};
    bool ok = torch_pickle_parse(pickle->bytes, pickle->size, &file, &error);
    if (ok) tensor_file_close(&file);
    if (ok != !message) fail_msg("%s: %s", message ? message : "good", ok ? "was accepted" : error.text);
    if (message) assert_contains(error.text, message);
}

static void assert_literal(const char *bytes, size_t size, const char *message) {
    FileBytes pickle = {.size = 0};
    add(&pickle, bytes, size);
    assert_pickle(&pickle, message);
}

#define PICKLE(literal, message) assert_literal(literal, sizeof(literal) - 1, message)

TEST(no_function_of_a_pickle_is_called) {
    PICKLE("\x80\2cos\nsystem\nX\4\0\0\0true\x85R.", "byte 2: refuses to call os.system");
    PICKLE("\x80\4\x8c\5posix\x8c\6system\x93\x8c\4true\x85R.", "refuses to call posix.system");
    PICKLE("\x80\2}X\1\0\0\0acbuiltins\neval\nX\1\0\0\0001\x85Rs.", "refuses to call builtins.eval");
    PICKLE("\x80\2ctorch\nFloatStorage\n)R.", "refuses to call torch.FloatStorage");
    static const char advice[] = "save the state dict alone, as by torch.save(x['model'], path)";
    PICKLE("\x80\2}X\4\0\0\0argscargparse\nNamespace\n)\x81s.", "refuses to call argparse.Namespace; ");
    PICKLE("\x80\2}X\4\0\0\0argscargparse\nNamespace\n)\x81s.", advice);
    PICKLE("\x80\2}X\5\0\0\0dtypectorch\nfloat32\ns.", "refuses to call torch.float32; ");
    PICKLE("\x80\2}X\5\0\0\0dtypectorch\nfloat32\ns.", advice);
    PICKLE("\x80\2ctorch\nFloatStorage\n)R.", advice);
    PICKLE("\x80\2(icollections\nOrderedDict\n.", "opcode 0x69 (i) at byte 3 is not one that a state dict needs");
    PICKLE("\x80\2ccollections\nOrderedDict\n)\x81.", "opcode 0x81 at byte 28 is not one");
}

TEST(broken_pickles_are_refused) {
    PICKLE("\x80\2}.", NULL);
    PICKLE("", "ends in the middle");
    PICKLE(".", "nothing is on the stack");
    PICKLE("\x80\2].", "holds no dictionary of tensors");
    PICKLE("(.", "nothing is on the stack");
    PICKLE("t.", "no mark");
    PICKLE("}(X\1\0\0\0au.", "a key without a value");
    PICKLE("](u.", "items without a dictionary");
    PICKLE("}K\1a.", "items without a list");
    PICKLE("h\0.", "a memo number that was never given");
    PICKLE("}r\377\377\377\377.", "a memo number larger than the pickle");
    PICKLE("}X\377\377\377\377.", "ends in the middle of a value");
    PICKLE("}}X\1\0\0\0as.", "a key of '' is neither text nor a number");
    PICKLE("X\1\0\0\0aX\1\0\0\0bs.", "items without a dictionary");
    PICKLE("}NNs.", "a key of '' is neither text nor a number");
    PICKLE("}X\3\0\0\0a\0bNs.", "holds a zero byte");
    PICKLE("}q\0X\1\0\0\0ah\0s.", "nested deeper"); /* a dictionary that holds itself */
    PICKLE("K\1K\2R.", "a call of what is no function");
    PICKLE("}K\1b.", NULL);
    PICKLE("]K\1b.", "attributes of what has none");
    PICKLE("K\1Q.", "a storage that is no tuple");
}

/* Writes sizes and strides with every opcode for integers: BININT1, BININT2 above 255, BININT, LONG1. */
TEST(integers_of_every_width_are_read) {
    FileBytes b = {.size = 0};
    ADD(&b, "\x80\2}X\1\0\0\0w"
            "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
            "0X\3\0\0\0cpu"
            "J\x40\x0d\x03\0"          /* 200000 elements */
            "tQM\x34\x92"              /* from 0x9234 on */
            "(M\x2c\1K\2\x8a\2\xff\0t" /* [300, 2, 255] */
            "(M\xfe\1M\xff\0K\1t"      /* strides 510, 255, 1 */
            "\x89NtRs.");
    TensorFile file;
    if (!torch_pickle_parse(b.bytes, b.size, &file, &error)) fail_msg("%s", error.text);
    const StoredTensor *w = tensor_file_find(&file, "w");
    assert_non_null(w);
    assert_true(w->rank == 3 && w->dims[0] == 300 && w->dims[1] == 2 && w->dims[2] == 255);
    tensor_file_close(&file);
}

TEST(impossible_tensors_are_refused) {
    static const struct {
        int64_t count, offset, rows, columns, row_stride, column_stride;
        const char *message;
    } cases[] = {
        {6, 0, 2, 3, 3, 1, NULL},
        {6, 0, 3, 2, 1, 3, NULL},
        {9, 3, 3, 2, 1, 3, NULL},
        {6, 99, 0, 3, 3, 1, NULL},        /* no elements: the offset does not matter */
        {6, 0, 1, 6, INT64_MAX, 1, NULL}, /* the stride of a single row does not matter */
        {6, 1, 2, 3, 3, 1, "tensor 'w': it reaches beyond its storage"},
        {6, 0, 2, 3, 4, 1, "it reaches beyond its storage"},
        {6, 0, 1000, 1000, 0, 0, "an expanded view, larger than its storage"},
        {6, -1, 2, 3, 3, 1, "not made from (storage, offset, size, stride)"},
        {6, 0, -2, 3, 3, 1, "no number >= 0"},
        {6, 0, 2, 3, -3, 1, "no number >= 0"},
        {6, 0, INT64_MAX, INT64_MAX, 0, 0, "its shape is impossible"},
        {6, 0, 2, 3, INT64_MAX, INT64_MAX, "its shape is impossible"},
        {-6, 0, 2, 3, 3, 1, "its storage has an impossible size"},
        {INT64_MAX / 2, 0, 2, 3, 3, 1, "its storage has an impossible size"},
        {1LL << 40, 0, 2, 3, 3, 1, "need more bytes than the file has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FileBytes pickle = tensor_pickle(cases[i].count, cases[i].offset, cases[i].rows, cases[i].columns,
                                         cases[i].row_stride, cases[i].column_stride);
        assert_pickle(&pickle, cases[i].message);
    }
}

TEST(a_pickle_cut_anywhere_is_refused) {
    FileBytes pickle = tensor_pickle(6, 0, 3, 2, 1, 3);
    for (size_t length = 0; length < pickle.size; length++) {
        char *exact = xmalloc(length);
        TensorFile file;
        memcpy(exact, pickle.bytes, length);
        assert_false(torch_pickle_parse(exact, length, &file, NULL));
        free(exact);
    }
}

/* ---- zips by hand ---- */

static void add_entry(zip_t *zip, const char *name, const void *bytes, size_t size, int method) {
    zip_source_t *source = zip_source_buffer(zip, bytes, size, 0);
    zip_int64_t index = zip_file_add(zip, name, source, 0);
    assert_true(index >= 0);
    assert_int_equal(zip_set_file_compression(zip, (zip_uint64_t)index, method, 0), 0);
}

/* Makes a .pth file of this pickle and this storage "0"; NULL for none. */
static char *make_pth(const FileBytes *pickle, const float *storage, size_t bytes, const char *order, int method) {
    char *path = kept_path(kept_folder(), "hand.pth");
    int code;
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    assert_non_null(zip);
    if (pickle) add_entry(zip, "hand/data.pkl", pickle->bytes, pickle->size, ZIP_CM_STORE);
    if (order) add_entry(zip, "hand/byteorder", order, strlen(order), ZIP_CM_STORE);
    if (storage) add_entry(zip, "hand/data/0", storage, bytes, method);
    add_entry(zip, "hand/version", "3\n", 2, ZIP_CM_STORE);
    assert_int_equal(zip_close(zip), 0);
    return path;
}

static void assert_refused(const char *path, const char *message) {
    TensorFile file;
    if (tensor_file_open(path, &file, &error)) fail_msg("accepted, not refused with: %s", message);
    assert_contains(error.text, message);
}

TEST(broken_archives_are_refused) {
    const float numbers[6] = {0, 1, 2, 3, 4, 5};
    FileBytes pickle = tensor_pickle(6, 0, 3, 2, 1, 3);
    TensorFile file;
    char *path = make_pth(&pickle, numbers, sizeof numbers, "little", ZIP_CM_STORE), *bytes;
    open_good(path, &file);
    assert_memory_equal(tensor_file_find(&file, "w")->data, ((float[]){0, 3, 1, 4, 2, 5}), 24);
    tensor_file_close(&file);

    size_t size;
    assert_true(read_file(path, &bytes, &size, NULL));
    char *place = memmem(bytes, size, numbers, sizeof numbers);
    assert_non_null(place);
    place[5] ^= 1;
    write_bytes(path, bytes, size);
    assert_refused(path, "data/0: CRC error after 24 of 24 bytes");
    write_bytes(path, bytes, size / 2);
    free(bytes);
    assert_refused(path, "not a whole zip file");

    assert_refused(make_pth(&pickle, numbers, 20, NULL, ZIP_CM_STORE), "data/0 has 20 bytes; data.pkl says 24");
    assert_refused(make_pth(&pickle, NULL, 0, NULL, ZIP_CM_STORE), "the zip has no hand/data/0; is the file complete?");
    assert_refused(make_pth(NULL, numbers, 24, NULL, ZIP_CM_STORE), "a zip without data.pkl");
    assert_refused(make_pth(&pickle, numbers, 24, "big", ZIP_CM_STORE), "its numbers are big-endian");
    static const float many[6000]; /* zeros, which compress well */
    FileBytes large = tensor_pickle(6000, 0, 3, 2, 1, 3);
    assert_refused(make_pth(&large, many, sizeof many, NULL, ZIP_CM_DEFLATE),
                   "the tensors need more bytes than the file");
    pickle = tensor_pickle(64, 0, 3, 2, 1, 3);
    assert_refused(make_pth(&pickle, many, 256, NULL, ZIP_CM_DEFLATE), "data/0 is compressed");
}

/* ---- files of a torch before 1.6 by hand ---- */

/* Appends the pickles of such a file up to the tree, a pickle of its own. */
static FileBytes legacy_file(const FileBytes *tree) {
    FileBytes b = {.size = 0};
    ADD(&b, "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
    ADD(&b, "\x80\2M\xe9\3.");
    ADD(&b, "\x80\2}q\0(X\x10\0\0\0protocol_versionM\xe9\3X\r\0\0\0little_endian\x88u.");
    add(&b, tree->bytes, tree->size);
    return b;
}

/* Appends the list of storages, and the numbers behind their count. */
static void add_storages(FileBytes *b, const char *list, size_t list_size, int64_t count, const float *numbers,
                         size_t n) {
    add(b, list, list_size);
    add(b, (const char *)&count, sizeof count);
    add(b, (const char *)numbers, n * sizeof *numbers);
}

#define STORAGES(b, list, count, n) add_storages(b, list, sizeof(list) - 1, count, numbers, n)
#define ONE_STORAGE                                                                                                    \
    "\x80\2]q\0X\1\0\0\0"                                                                                              \
    "0a."

static const float numbers[6] = {0, 1, 2, 3, 4, 5};

static char *write_legacy(const FileBytes *b) {
    char *path = kept_path(kept_folder(), "old.pth");
    write_bytes(path, b->bytes, b->size);
    return path;
}

TEST(broken_files_of_an_old_torch_are_refused) {
    const FileBytes tree = tensor_pickle(6, 0, 3, 2, 1, 3);
    FileBytes good = legacy_file(&tree), b = good;
    TensorFile file;
    STORAGES(&good, ONE_STORAGE, 6, 6);
    open_good(write_legacy(&good), &file);
    assert_memory_equal(tensor_file_find(&file, "w")->data, ((float[]){0, 3, 1, 4, 2, 5}), 24);
    assert_int_equal(file.n_tensors, 1);
    tensor_file_close(&file);

    for (size_t size = 15; size < good.size; size++) { /* cut anywhere behind the magic number */
        char *exact = memcpy(xmalloc(size), good.bytes, size);
        assert_false(torch_legacy_parse(exact, size, &file, NULL));
        free(exact);
    }
    STORAGES(&b, ONE_STORAGE, 6, 5);
    assert_refused(write_legacy(&b), "it ends 4 bytes before the end of storage 0: it is cut off");
    b = legacy_file(&tree);
    STORAGES(&b, ONE_STORAGE, 7, 6);
    assert_refused(write_legacy(&b), "storage 0 has 7 elements; the pickle says 6");
    b = legacy_file(&tree);
    STORAGES(&b,
             "\x80\2]q\0(X\1\0\0\0"
             "0X\1\0\0\0"
             "0e.",
             6, 6);
    assert_refused(write_legacy(&b), "its list of storages names 0, which is there twice");
    b = legacy_file(&tree);
    STORAGES(&b,
             "\x80\2]q\0X\1\0\0\0"
             "1a.",
             6, 6);
    assert_refused(write_legacy(&b), "its list of storages names 1, which no tensor has");
    b = legacy_file(&tree);
    STORAGES(&b, "\x80\2].", 6, 6);
    assert_refused(write_legacy(&b), "storage 0 is not in its list of storages");
    b = legacy_file(&tree);
    STORAGES(&b, "\x80\2}.", 6, 6);
    assert_refused(write_legacy(&b), "the keys of its storages are no list");
    b = good;
    b.bytes[18] = (char)0xea;
    assert_refused(write_legacy(&b), "a file of torch.save in an unknown version; expected 1001");
}

/* The sixth item of a storage tells which part of another one it is; None: it is no part. */
TEST(a_storage_that_is_part_of_another_is_refused) {
    for (int part = 0; part < 2; part++) {
        FileBytes tree = {.size = 0};
        TensorFile file;
        ADD(&tree, "\x80\x02}X\1\0\0\0w"
                   "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                   "0X\3\0\0\0cpuK\6");
        if (part)
            ADD(&tree, "X\1\0\0\0vK\0K\6\x87");
        else
            ADD(&tree, "N");
        ADD(&tree, "tQK\0K\6\x85K\1\x85\x89NtRs.");
        FileBytes b = legacy_file(&tree);
        STORAGES(&b, ONE_STORAGE, 6, 6);
        bool ok = tensor_file_open(write_legacy(&b), &file, &error);
        assert_int_equal(ok, !part);
        if (part) assert_contains(error.text, "its storage is a view of another one");
        if (ok) tensor_file_close(&file);
    }
}

/* ---- the writer ---- */

/* Writes values of every kind that the writer has. */
static void write_tree(const char *path) {
    const float numbers[6] = {1, 2, 3, 4, 5, 6};
    const double reals[2] = {1e300, -0.0};
    const int64_t count = 1LL << 40;
    PthWriter *w = pth_begin();
    pth_open(w, PTH_DICT);
    pth_text(w, "epoch"), pth_integer(w, 12);
    pth_text(w, "f1"), pth_real(w, 0.75);
    pth_text(w, "fold"), pth_text(w, "\xe1\x88\xb0");
    pth_text(w, "flags"), pth_open(w, PTH_TUPLE), pth_bool(w, true), pth_bool(w, false), pth_none(w), pth_close(w);
    pth_text(w, "model"), pth_open(w, PTH_ORDERED_DICT);
    pth_text(w, "a.w"), pth_tensor(w, (TensorToWrite){.dtype = "F32", .rank = 2, .dims = {2, 3}, .data = numbers});
    pth_text(w, "a.n"), pth_tensor(w, (TensorToWrite){.dtype = "I64", .data = &count});
    pth_text(w, "none"), pth_tensor(w, (TensorToWrite){.dtype = "F32", .rank = 2, .dims = {0, 3}});
    pth_close(w);
    pth_text(w, "list"), pth_open(w, PTH_LIST), pth_integer(w, -1), pth_integer(w, 256), pth_integer(w, 1LL << 33);
    pth_tensor(w, (TensorToWrite){.dtype = "F64", .rank = 1, .dims = {2}, .data = reals}), pth_close(w);
    pth_text(w, "state"), pth_open(w, PTH_DICT), pth_integer(w, 7), pth_open(w, PTH_DICT), pth_close(w), pth_close(w);
    pth_close(w);
    if (!pth_write(w, path, &error)) fail_msg("%s", error.text);
}

static void assert_tensor(const TensorFile *file, const char *name, const char *dtype, int rank, const void *data) {
    const StoredTensor *tensor = tensor_file_find(file, name);
    if (!tensor) fail_msg("no tensor %s", name);
    assert_string_equal(tensor->dtype, dtype);
    assert_int_equal(tensor->rank, rank);
    if (tensor->bytes) assert_memory_equal(tensor->data, data, tensor->bytes);
}

TEST(written_tensors_are_read_back) {
    char *path = kept_path(kept_folder(), "tree.pth");
    write_tree(path);
    TensorFile file;
    open_good(path, &file);
    assert_int_equal(file.n_tensors, 4);
    assert_int_equal(file.n_ignored, 9); /* values that are not tensors: 3 at the top, 3 flags, 3 in the list */
    assert_tensor(&file, "model.a.w", "F32", 2, (float[]){1, 2, 3, 4, 5, 6});
    assert_int_equal(tensor_file_find(&file, "model.a.w")->dims[1], 3);
    assert_tensor(&file, "model.a.n", "I64", 0, &(int64_t){1LL << 40});
    assert_tensor(&file, "model.none", "F32", 2, NULL);
    assert_tensor(&file, "list.3", "F64", 1, (double[]){1e300, -0.0});
    assert_int_equal(file.n_metadata, 1); /* whole numbers of dictionaries, not those of lists */
    assert_string_equal(tensor_file_metadata(&file, "epoch"), "12");
    tensor_file_close(&file);
}

TEST(tensors_of_the_same_data_share_a_storage) {
    static const float numbers[4] = {1, 2, 3, 4};
    const TensorToWrite whole = {.dtype = "F32", .rank = 2, .dims = {2, 2}, .data = numbers},
                        half = {.dtype = "F32", .rank = 1, .dims = {2}, .data = numbers};
    char *path = kept_path(kept_folder(), "tied.pth");
    TensorFile file;
    PthWriter *w = pth_begin();
    pth_open(w, PTH_DICT);
    pth_text(w, "table"), pth_tensor_in_place(w, whole);
    pth_text(w, "head"), pth_tensor_in_place(w, whole);
    pth_text(w, "half"), pth_tensor_in_place(w, half);
    pth_text(w, "copy"), pth_tensor(w, whole);
    pth_close(w);
    if (!pth_write(w, path, &error)) fail_msg("%s", error.text);
    open_good(path, &file);
    const void *table = tensor_file_find(&file, "table")->data;
    assert_ptr_equal(tensor_file_find(&file, "head")->data, table);
    assert_ptr_not_equal(tensor_file_find(&file, "half")->data, table);
    assert_ptr_not_equal(tensor_file_find(&file, "copy")->data, table);
    assert_tensor(&file, "head", "F32", 2, numbers);
    assert_tensor(&file, "half", "F32", 1, numbers);
    assert_tensor(&file, "copy", "F32", 2, numbers);
    tensor_file_close(&file);
}

/* Compares the bytes of values that the reader ignores with those that pickle writes. */
TEST(other_values_are_written_as_pickle_writes_them) {
    char *path = kept_path(kept_folder(), "tree.pth"), *bytes;
    size_t size;
    write_tree(path);
    assert_true(read_file(path, &bytes, &size, NULL));
#define HOLDS(literal) assert_non_null(memmem(bytes, size, literal, sizeof(literal) - 1))
    HOLDS("\x80\2}(X\5\0\0\0epochK\x0c"); /* BININT1 */
    HOLDS("X\2\0\0\0f1G\x3f\xe8\0\0\0\0\0\0X\4\0\0\0fold"
          "X\3\0\0\0\xe1\x88\xb0"); /* BINFLOAT: big-endian */
    HOLDS("flags(\x88\x89Nt");
    HOLDS("](J\xff\xff\xff\xffJ\0\1\0\0\x8a\x08\0\0\0\0\2\0\0\0"); /* BININT, LONG1 */
    HOLDS("X\5\0\0\0modelccollections\nOrderedDict\n)R(");
    HOLDS("X\5\0\0\0state}(K\7}(uuu."); /* a key that is a number; what is empty */
    free(bytes);
}

/* torch.save puts the entries into a folder named after the file, uncompressed, each at a multiple of 64 bytes. */
TEST(the_zip_has_the_layout_of_torch_save) {
    static const char *const names[] = {"best.fold/data.pkl", "best.fold/byteorder", "best.fold/data/0",
                                        "best.fold/data/1",   "best.fold/data/2",    "best.fold/data/3",
                                        "best.fold/version"};
    char *path = kept_path(kept_folder(), "best.fold.pth"), *again = kept_path(kept_folder(), "best.fold.pth"), *bytes,
         *others;
    int code;
    size_t size, other_size;
    write_tree(path);
    write_tree(again);
    assert_true(read_file(path, &bytes, &size, NULL) && read_file(again, &others, &other_size, NULL));
    assert_int_equal(size, other_size);
    assert_memory_equal(bytes, others, size);
    zip_t *zip = zip_open(path, ZIP_RDONLY | ZIP_CHECKCONS, &code);
    assert_non_null(zip);
    assert_int_equal(zip_get_num_entries(zip, 0), 7);
    const char *at = bytes;
    for (int i = 0; i < 7; i++) {
        zip_stat_t status;
        assert_int_equal(zip_stat_index(zip, (zip_uint64_t)i, 0, &status), 0);
        assert_string_equal(status.name, names[i]);
        assert_int_equal(status.comp_method, ZIP_CM_STORE);
        /* The local header has 30 bytes; the last four are the lengths of the name and of the extra field. */
        const unsigned char *header = memmem(at, size - (size_t)(at - bytes), "PK\3\4", 4);
        assert_non_null(header);
        size_t skipped = 30u + header[26] + header[27] * 256u + header[28] + header[29] * 256u;
        at = (const char *)header + skipped;
        assert_int_equal((at - bytes) % 64, 0);
    }
    zip_discard(zip);
    free(bytes);
    free(others);
}

TEST(a_file_that_cannot_be_written_is_named) {
    PthWriter *w = pth_begin();
    char *folder = kept_folder(), *path = kept_path(folder, "taken/x.pth");
    pth_open(w, PTH_DICT);
    pth_close(w);
    write_text(kept_path(folder, "taken"), "a file");
    assert_false(pth_write(w, path, &error));
    assert_contains(error.text, path);
}
