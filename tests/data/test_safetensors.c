/* The safetensors reader and writer. test_torch_pth.c reads a file that the Python library has written. */
#include "base/file.h"
#include "data/formats/tensor_file_open.h"
#include "tests/allocations.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/formats/safetensors.h"

static Error error;

/* Tensors of every element size, in an order that would leave most unaligned, with names that JSON must escape. */
static const uint8_t bytes_data[3] = {1, 2, 255};
static const float float_data[6] = {1, -2, 0.5f, 3e38f, 1e-45f, -0.0f};
static const int64_t long_data[2] = {-1, INT64_MAX};
static const uint16_t half_data[1] = {0x3c00};
static const float scalar_data[1] = {7};
static const TensorToWrite mixed[] = {
    {.name = "bytes", .dtype = "U8", .rank = 1, .dims = {3}, .data = bytes_data},
    {.name = "a \"quoted\\\" name", .dtype = "F32", .rank = 2, .dims = {2, 3}, .data = float_data},
    {.name = "half", .dtype = "BF16", .rank = 3, .dims = {1, 1, 1}, .data = half_data},
    {.name = "ሰላም", .dtype = "I64", .rank = 1, .dims = {2}, .data = long_data},
    {.name = "scalar", .dtype = "F32", .rank = 0, .data = scalar_data},
    {.name = "empty", .dtype = "F64", .rank = 2, .dims = {0, 4}, .data = NULL},
};
enum { N_MIXED = sizeof mixed / sizeof *mixed };
static const char *const keys[] = {"format", "note"}, *const values[] = {"pt", "a\nb\t\"c\""};

static void write_mixed(const char *path) {
    if (!safetensors_write(path, mixed, N_MIXED, keys, values, 2, &error)) fail_msg("%s", error.text);
}

TEST(everything_written_is_read_back) {
    char *path = kept_path(kept_folder(), "mixed.safetensors");
    TensorFile file;
    write_mixed(path);
    if (!tensor_file_open(path, &file, &error)) fail_msg("%s", error.text);
    assert_int_equal(file.n_tensors, N_MIXED);
    for (int i = 0; i < N_MIXED; i++) {
        const StoredTensor *tensor = tensor_file_find(&file, mixed[i].name);
        assert_non_null(tensor);
        assert_string_equal(tensor->dtype, mixed[i].dtype);
        assert_int_equal(tensor->rank, mixed[i].rank);
        int64_t count = 1;
        for (int d = 0; d < tensor->rank; d++) {
            assert_int_equal(tensor->dims[d], mixed[i].dims[d]);
            count *= mixed[i].dims[d];
        }
        assert_int_equal(tensor->count, count);
        assert_int_equal(tensor->bytes, (size_t)count * stored_element_size(mixed[i].dtype));
        assert_memory_equal(tensor->data, mixed[i].data ? mixed[i].data : bytes_data, tensor->bytes);
        assert_int_equal((uintptr_t)tensor->data % stored_element_size(tensor->dtype), 0);
    }
    assert_int_equal(((const char *)file.tensors[0].data - (const char *)file.owner) % 64, 0);
    assert_int_equal(file.n_metadata, 3); /* and the checksum */
    assert_string_equal(file.metadata_keys[1], keys[1]);
    assert_string_equal(file.metadata_values[1], values[1]);
    assert_null(tensor_file_find(&file, "byte"));
    assert_null(tensor_file_find(&file, "zzz"));
    tensor_file_close(&file);
    assert_null(tensor_file_find(&file, "bytes")); /* closed: empty, and may be closed again */
    tensor_file_close(&file);
}

TEST(the_same_tensors_give_the_same_bytes) {
    char *directory = kept_folder(), *a, *b;
    size_t a_size, b_size;
    int64_t before = 0;
    for (int i = 0; i < 2; i++) {
        char *path = kept_path(directory, i ? "b" : "a");
        before = allocation_count();
        write_mixed(path);
        assert_int_equal(allocation_count(), before); /* writing allocates nothing */
    }
    assert_true(read_file(kept_path(directory, "a"), &a, &a_size, NULL) &&
                read_file(kept_path(directory, "b"), &b, &b_size, NULL));
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    free(a);
    free(b);
}

/* ---- conversion ---- */

TEST(every_half_converts_exactly) {
    for (int bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        float got;
        StoredTensor tensor = {.name = "x", .dtype = "F16", .count = 1, .data = &half, .bytes = 2};
        assert_true(stored_to_f32(&tensor, &got, NULL));
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        double want = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        if (exponent == 31) want = fraction ? (double)NAN : (double)INFINITY;
        if (bits & 0x8000) want = -want;
        if (isnan(want) ? !isnan(got) : ((double)got != want || !signbit(got) != !signbit(want)))
            fail_msg("half 0x%04x became %a, not %a", bits, (double)got, want);
    }
}

TEST(other_numbers_convert) {
    char memory[17];
    const double doubles[2] = {1.1, -1e-3};
    const uint16_t brains[2] = {0x3f80, 0xc2f7};
    float out[2];
    memcpy(memory + 1, doubles, sizeof doubles); /* at an odd address, as in a file */
    StoredTensor tensor = {.name = "x", .dtype = "F64", .count = 2, .data = memory + 1};
    assert_true(stored_to_f32(&tensor, out, &error));
    assert_true(out[0] == 1.1f && out[1] == -1e-3f);
    tensor = (StoredTensor){.name = "x", .dtype = "BF16", .count = 2, .data = brains};
    assert_true(stored_to_f32(&tensor, out, &error));
    assert_true(out[0] == 1.0f && out[1] == -123.5f);
    tensor = (StoredTensor){.name = "count", .dtype = "I64", .count = 2, .data = doubles};
    assert_false(stored_to_f32(&tensor, out, &error));
    assert_contains(error.text, "tensor 'count' is I64; F32, F16, BF16 or F64 is needed");
}

/* ---- bad files ---- */

/* Parses a file that consists of this header, preceded by its length, and `data` zero bytes. */
static bool parse_text(const char *header, size_t data, Error *error) {
    size_t n = strlen(header), size = 8 + n + data;
    unsigned char *bytes = xcalloc(size, 1);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    TensorFile file;
    bool ok = safetensors_parse(bytes, size, &file, error);
    if (ok) tensor_file_close(&file);
    free(bytes);
    return ok;
}

#define T(shape, begin, end) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

TEST(bad_headers_are_refused_by_name) {
    static const struct {
        const char *header;
        size_t data;
        const char *message; /* NULL: it is good */
    } cases[] = {
        {"{}", 0, NULL},
        {"{}   ", 0, NULL},
        {"{\"a\":" T("[2]", 0, 8) ",\"b\":" T("[]", 8, 12) "}", 12, NULL},
        {"{\"b\":" T("[]", 8, 12) ",\"a\":" T("[2]", 0, 8) ",\"e\":" T("[0]", 8, 8) "}", 12, NULL},
        {"[]", 0, "no header of 2 bytes"},
        {"{\"a\"", 0, "header, byte"},
        {"{\"a\":" T("[1]", 0, 4) ",\"a\":" T("[1]", 4, 8) "}", 8, "duplicate object key"},
        {"{\"a\":3}", 0, "tensor 'a': no text \"dtype\""},
        {"{\"a\":{\"dtype\":\"Q9\"}}", 0, "tensor 'a': unknown dtype 'Q9'"},
        {"{\"a\":{\"dtype\":\"F32\"}}", 0, "no array \"shape\""},
        {"{\"a\":" T("[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "9 dimensions; at most 8"},
        {"{\"a\":" T("[-1]", 0, 4) "}", 4, "not a list of sizes"},
        {"{\"a\":" T("[1.0]", 0, 4) "}", 4, "not a list of sizes"},
        {"{\"a\":" T("[4611686018427387904,4]", 0, 4) "}", 4, "not a list of sizes"},
        {"{\"a\":" T("[4611686018427387905]", 0, 4) "}", 4, "which does not fit its 4 bytes"},
        {"{\"a\":" T("[2]", 0, 4) "}", 4, "tensor 'a' is F32 [2], which does not fit its 4 bytes"},
        {"{\"a\":" T("[2]", 0, 8) "}", 7, "inside the 7 bytes of data; is the file complete?"},
        {"{\"a\":" T("[2]", 8, 0) "}", 8, "are not [begin, end]"},
        {"{\"a\":" T("[2]", -8, 0) "}", 8, "are not [begin, end]"},
        {"{\"a\":" T("[1]", 0, 4) ",\"b\":" T("[1]", 8, 12) "}", 12, "'b' begins at byte 8 of the data, not at 4"},
        {"{\"a\":" T("[2]", 0, 8) ",\"b\":" T("[2]", 4, 12) "}", 12, "'b' begins at byte 4 of the data, not at 8"},
        {"{\"a\":" T("[1]", 0, 4) "}", 8, "the tensors end at byte 4 of 8"},
        {"{\"a\":" T("[1]", 4, 8) "}", 8, "'a' begins at byte 4 of the data, not at 0"},
        {"{\"\":" T("[1]", 0, 4) "}", 4, "name that is empty"},
        {"{\"a\\u001b\":" T("[1]", 0, 4) "}", 4, "not plain UTF-8"},
        {"{\"__metadata__\":[]}", 0, "\"__metadata__\" is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "the value of 'a' is no text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {"nothing"};
        bool ok = parse_text(cases[i].header, cases[i].data, &error);
        if (ok != !cases[i].message) fail_msg("%s: %s", cases[i].header, ok ? "was accepted" : error.text);
        if (!ok) assert_contains(error.text, cases[i].message);
    }
}

TEST(a_file_cut_anywhere_is_refused) {
    char *directory = kept_folder(), *path = kept_path(directory, "whole"), *bytes;
    size_t size;
    write_mixed(path);
    assert_true(read_file(path, &bytes, &size, NULL));
    for (size_t length = 0; length < size; length++) {
        char *exact = xmalloc(length); /* an allocation of this size, so that a sanitizer sees reads beyond its end */
        memcpy(exact, bytes, length);
        TensorFile file;
        assert_false(safetensors_parse(exact, length, &file, NULL));
        free(exact);
    }
    free(bytes);
}

TEST(a_flipped_bit_of_the_data_is_detected) {
    char *directory = kept_folder(), *path = kept_path(directory, "whole"), *bytes;
    size_t size;
    TensorFile file;
    write_mixed(path);
    assert_true(read_file(path, &bytes, &size, NULL));
    assert_true(safetensors_parse(bytes, size, &file, &error));
    size_t begin = (size_t)((const char *)file.tensors[0].data - bytes);
    tensor_file_close(&file);
    for (size_t bit = 0; bit < 8 * (size - begin); bit += 7) {
        bytes[begin + bit / 8] ^= (char)(1 << bit % 8);
        assert_false(safetensors_parse(bytes, size, &file, &error));
        assert_contains(error.text, "the file is damaged");
        bytes[begin + bit / 8] ^= (char)(1 << bit % 8);
    }
    free(bytes);
}

TEST(other_files_are_refused) {
    char *directory = kept_folder();
    TensorFile file;
    assert_false(tensor_file_open(kept_path(directory, "none"), &file, &error));
    assert_contains(error.text, "cannot open: No such file");
    assert_false(tensor_file_open(directory, &file, &error));
    assert_contains(error.text, "not a regular file");
    write_bytes(kept_path(directory, "empty"), "", 0);
    assert_false(tensor_file_open(kept_path(directory, "empty"), &file, &error));
    assert_contains(error.text, "empty");
    write_text(kept_path(directory, "text"), "this is some text, and not a file of tensors");
    assert_false(tensor_file_open(kept_path(directory, "text"), &file, &error));
    assert_contains(error.text, "neither a safetensors nor a torch file");
    write_bytes(kept_path(directory, "huge"), "\xff\xff\xff\xff\xff\xff\xff\xff{}",
                10); /* a header of 2^64 - 1 bytes */
    assert_false(tensor_file_open(kept_path(directory, "huge"), &file, &error));
    assert_contains(error.text, "no header of 18446744073709551615 bytes");
}

/* The file has 5 GiB, but is sparse. */
TEST(offsets_beyond_4_GiB_are_right) {
    const int64_t large = 5LL << 30;
    char *path = kept_path(kept_folder(), "large"), header[512];
    int n = snprintf(header + 8, sizeof header - 8,
                     "{\"large\":{\"dtype\":\"U8\",\"shape\":[5,1073741824],\"data_offsets\":[0,%lld]},"
                     "\"behind\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%lld,%lld]}}",
                     (long long)large, (long long)large, (long long)large + 8);
    for (int i = 0; i < 8; i++) header[i] = (char)(n >> 8 * (i < 4 ? i : 3));
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, header, (size_t)n + 8), n + 8);
    const float behind[2] = {4, 5};
    if (pwrite(fd, behind, 8, n + 8 + large) != 8) {
        printf("SKIPPED: a sparse file of 5 GiB: %s\n", strerror(errno));
        skip();
    }
    close(fd);
    TensorFile file;
    float got[2];
    if (!tensor_file_open(path, &file, &error)) fail_msg("%s", error.text);
    assert_true(tensor_file_find(&file, "large")->count == large);
    assert_true(tensor_file_find(&file, "large")->bytes == (size_t)large);
    assert_true(stored_to_f32(tensor_file_find(&file, "behind"), got, NULL));
    assert_memory_equal(got, behind, 8);
    tensor_file_close(&file);
    assert_int_equal(truncate(path, n + 8 + large), 0);
    assert_false(tensor_file_open(path, &file, &error));
    assert_contains(error.text, "is the file complete?");
}

/* ---- writing that fails ---- */

static void write_with_small_limit(void *path) {
    struct rlimit limit = {1000, 1000};
    static float many[4096];
    TensorToWrite tensor = {.name = "many", .dtype = "F32", .rank = 1, .dims = {4096}, .data = many};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (safetensors_write(path, &tensor, 1, NULL, NULL, 0, &error)) die("it was written");
    puts(error.text);
}

TEST(a_full_disk_leaves_the_old_file) {
    char *directory = kept_folder(), *path = kept_path(directory, "x.safetensors"), output[1024];
    write_text(path, "what was there");
    assert_int_equal(run_function(output, sizeof output, write_with_small_limit, path), 0);
    assert_contains(output, path);
    assert_contains(output, "1000 of 16512 bytes were written, then: File too large"); /* 128 of header */
    assert_string_equal(kept_text(path), "what was there");
    assert_int_equal(run_command(output, sizeof output, "ls '%s'", directory), 0);
    assert_string_equal(output, "x.safetensors\n"); /* no temporary file */
}

TEST(tensors_that_cannot_be_written_are_refused) {
    char *directory = kept_folder();
    TensorToWrite twice[] = {mixed[0], mixed[0]}, strange = mixed[0];
    assert_false(safetensors_write(kept_path(directory, "x"), twice, 2, NULL, NULL, 0, &error));
    assert_contains(error.text, "two tensors are named 'bytes'");
    strange.dtype = "f32";
    assert_false(safetensors_write(kept_path(directory, "x"), &strange, 1, NULL, NULL, 0, &error));
    assert_contains(error.text, "unknown dtype 'f32'");
    assert_false(safetensors_write(kept_path(directory, "no/x"), mixed, 1, NULL, NULL, 0, &error));
    assert_contains(error.text, "cannot create");
    assert_false(file_write_atomic(kept_path(directory, "no/x"), "", 0, &error));
    char *path = kept_path(directory, "small");
    assert_true(file_write_atomic(path, "{}\n", 3, &error) && file_write_atomic(path, "{1}\n", 4, &error));
    assert_string_equal(kept_text(path), "{1}\n");
}
