/* Weights that lie in several files, the shards, which an index names. */
#include "data/formats/safetensors.h"
#include "data/formats/tensor_file_open.h"
#include "data/formats/torch_pth.h"
#include "tests/test.h"

static Error error;

static const float numbers[6] = {1, 2, 3, 4, 5, 6};

#define VECTOR(name_, n_, data_)                                                                                       \
    { .name = name_, .dtype = "F32", .rank = 1, .dims = {n_}, .data = data_ }
static const TensorToWrite first[] = {VECTOR("a", 2, numbers), VECTOR("b", 1, numbers + 2)},
                           second[] = {VECTOR("c", 3, numbers + 3)},
                           again[] = {VECTOR("c", 3, numbers), VECTOR("b", 1, numbers)};

/* Writes two shards. Returns their folder. */
static char *write_shards(void) {
    char *folder = kept_folder();
    if (!safetensors_write(kept_path(folder, "model-1.safetensors"), first, 2, NULL, NULL, 0, &error) ||
        !safetensors_write(kept_path(folder, "model-2.safetensors"), second, 1, NULL, NULL, 0, &error))
        fail_msg("%s", error.text);
    return folder;
}

static const char good_map[] =
    "\"a\": \"model-1.safetensors\", \"b\": \"model-1.safetensors\", \"c\": \"model-2.safetensors\"";

static char *write_index(const char *folder, const char *map) {
    char *path = kept_path(folder, "model.safetensors.index.json");
    write_text(path, "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {%s}}\n", map);
    return path;
}

static void assert_numbers(const TensorFile *file, const char *name, int64_t n, const float *want) {
    const StoredTensor *tensor = tensor_file_find(file, name);
    if (!tensor) fail_msg("no tensor %s", name);
    assert_int_equal(tensor->count, n);
    assert_memory_equal(tensor->data, want, (size_t)n * sizeof *want);
}

static void assert_all(const char *path) {
    TensorFile file;
    if (!tensor_file_open(path, &file, &error)) fail_msg("%s: %s", path, error.text);
    assert_int_equal(file.n_tensors, 3);
    assert_string_equal(file.path, path);
    assert_numbers(&file, "a", 2, numbers);
    assert_numbers(&file, "b", 1, numbers + 2);
    assert_numbers(&file, "c", 3, numbers + 3);
    tensor_file_close(&file);
}

TEST(an_index_is_all_its_shards) { assert_all(write_index(write_shards(), good_map)); }

/* Reads shards as transformers wrote them before safetensors. */
TEST(shards_may_be_of_torch) {
    char *folder = write_shards(), *path = kept_path(folder, "pytorch_model-00002-of-00002.bin");
    PthWriter *w = pth_begin();
    pth_open(w, PTH_ORDERED_DICT);
    pth_text(w, "c"), pth_tensor(w, second[0]);
    pth_close(w);
    if (!pth_write(w, path, &error)) fail_msg("%s", error.text);
    assert_all(write_index(folder, "\"a\": \"model-1.safetensors\", \"c\": \"pytorch_model-00002-of-00002.bin\""));
}

static void assert_refused(const char *path, const char *message) {
    TensorFile file;
    if (tensor_file_open(path, &file, &error)) fail_msg("opened, not refused with: %s", message);
    assert_contains(error.text, message);
}

TEST(what_is_missing_or_there_twice_is_named) {
    char *folder = write_shards();
    assert_refused(write_index(folder, "\"a\": \"model-1.safetensors\", \"c\": \"model-3.safetensors\""),
                   "its shard model-3.safetensors: cannot open: No such file");
    assert_refused(write_index(folder, "\"a\": \"model-1.safetensors\", \"d\": \"model-2.safetensors\""),
                   "it says that 'd' is in model-2.safetensors, which has no such tensor");
    assert_refused(write_index(folder, "\"c\": \"model-1.safetensors\", \"a\": \"model-2.safetensors\""),
                   "it says that 'c' is in model-1.safetensors, which has no such tensor");
    if (!safetensors_write(kept_path(folder, "model-2.safetensors"), again, 2, NULL, NULL, 0, &error))
        fail_msg("%s", error.text);
    assert_refused(write_index(folder, good_map), "two tensors are named 'b'");
    write_text(kept_path(folder, "model-2.safetensors"), "cut off, or of another kind");
    assert_refused(write_index(folder, good_map),
                   "its shard model-2.safetensors: neither a safetensors nor a torch file");
}

TEST(a_senseless_index_is_refused) {
    char *folder = write_shards(), *path = kept_path(folder, "model.safetensors.index.json");
    assert_refused(write_index(folder, "\"a\": 1"), "\"weight_map\" names no file of this folder for 'a'");
    assert_refused(write_index(folder, "\"a\": \"../model-1.safetensors\""), "names no file of this folder for 'a'");
    assert_refused(write_index(folder, "\"a\": \"\""), "names no file of this folder for 'a'");
    assert_refused(write_index(folder, "\"a\": \"model-1.safetensors\", \"a\": \"model-1.safetensors\""), "duplicate");
    assert_refused(write_index(folder, ""), "it is JSON without a \"weight_map\"");
    assert_refused(write_index(folder, "\"a\": \"model.safetensors.index.json\""),
                   "its shard model.safetensors.index.json: ");
    write_text(path, "{\"model_type\": \"roberta\"}");
    assert_refused(path, "it is JSON without a \"weight_map\", so no index of files of tensors");
    write_text(path, "{\"weight_map\": {\"a\"");
    assert_refused(path, "line 1, column ");
}
