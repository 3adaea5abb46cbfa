/* Disks that lack something: files that cannot be mapped, flushed or renamed over, names that are refused. Each test
 * runs once more, by itself, with a library that makes the disk so (substitute/disk.c). */
#include "base/file.h"
#include "base/file_name.h"
#include "base/mapping.h"
#include "tests/base/folder_rig.h"
#include "tests/train_rig.h"

static Error error;

/* Returns whether the disk of this program is poor; else runs the test again with such a disk, where it must pass. */
static bool is_poor(const char *lacks, const char *test) {
    char output[1 << 14];
    const char *given = getenv("DISK_LACKS");
    if (getenv("POOR_DISK") || (given && strstr(given, lacks))) return true;
    skip_under_sanitizer("a preloaded library");
    char *library = keep(realpath(program_at("tests/base/disk.so"), NULL)),
         *self = keep(realpath("/proc/self/exe", NULL));
    int status = run_command(output, sizeof output, "POOR_DISK=1 LD_PRELOAD=%s DISK_LACKS=%s TEST_FILTER=%s exec %s",
                             library, lacks, test, self);
    if (status) fail_msg("without %s: %s", lacks, output);
    assert_contains(output, "[  PASSED  ] 1 test");
    return false;
}

static void map_two(void *unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        void *bytes;
        size_t size;
        if (!file_map(in(i ? "b" : "a"), &bytes, &size, &error)) die("%s", error.text);
        if (size != 10000 || ((char *)bytes)[0] != 'x' || ((char *)bytes)[9999] != 'y') die("other bytes");
        file_unmap(bytes, size);
    }
}

TEST_WITH(files_that_cannot_be_mapped_are_read, fresh, NULL) {
    bool poor = is_poor("maps", "files_that_cannot_be_mapped_are_read");
    char bytes[10000] = "x", output[1024], want[512] = "";
    bytes[9999] = 'y';
    write_bytes(in("a"), bytes, sizeof bytes);
    write_bytes(in("b"), bytes, sizeof bytes);
    assert_int_equal(run_function(output, sizeof output, map_two, NULL), 0);
    if (poor)
        snprintf(want, sizeof want,
                 "test_disk: warning: %s: this file system does not map files: they are read into memory\n", in("a"));
    assert_string_equal(output, want); /* once */
    void *mapped;
    size_t size;
    write_text(in("empty"), "%s", "");
    assert_false(file_map(in("empty"), &mapped, &size, &error));
    assert_string_equal(error.text, "the file is empty");
}

TEST_WITH(files_that_cannot_be_flushed_are_written, fresh, NULL) {
    is_poor("flushes", "files_that_cannot_be_flushed_are_written");
    if (!file_write_atomic(in("x"), "text", 4, &error)) fail_msg("%s", error.text);
    if (!directory_flush(in(""), &error)) fail_msg("%s", error.text);
    expect_text(in("x"), "text");
}

/* The earlier file stays, and nothing else is left. */
TEST_WITH(an_open_file_that_is_not_replaced_is_named, fresh, NULL) {
    bool poor = is_poor("open-target", "an_open_file_that_is_not_replaced_is_named");
    void *bytes;
    size_t size;
    must_write(in("x"), "before");
    assert_true(file_map(in("x"), &bytes, &size, &error));
    assert_int_equal(file_write_atomic(in("x"), "after", 5, &error), !poor);
    if (poor) assert_contains(error.text, "x: 5 of 5 bytes were written, then: Device or resource busy");
    file_unmap(bytes, size);
    expect_text(in("x"), poor ? "before" : "after");
    assert_string_equal(listing(), "x ");
    must_write(in("x"), "later");
    expect_text(in("x"), "later");
}

TEST_WITH(names_that_are_refused_are_written_otherwise, fresh, NULL) {
    static const char *const texts[][3] = {
        {"a:b", "a:b", "a%3Ab"}, {"a|b", "a|b", "a|b"}, {"plain", "plain", "plain"}, {"a%3Ab", "a%253Ab", "a%253Ab"}};
    bool poor = is_poor("colons", "names_that_are_refused_are_written_otherwise");
    for (int i = 0; i < 4; i++) {
        char *name = keep(file_name_in(in("not/yet/there"), "fold_", texts[i][0]));
        assert_string_equal(name, texts[i][1 + poor]);
    }
    assert_string_equal(listing(), "");
    assert_int_equal(file_name_is_refused(in(""), "12:30"), poor);
    assert_string_equal(listing(), "");
    make_directories(in("fold_a%3Ab")); /* of a run that was begun on a disk that refuses the other name */
    char *name = keep(file_name_in(in(""), "fold_", "a:b"));
    assert_string_equal(name, "a%3Ab");
}
