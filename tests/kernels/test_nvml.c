/* Sensors of the right card, through a substitute of NVML that is loaded like the real one. */
#include "tests/helpers.h"

#include <dlfcn.h>

#include "kernels/cuda/libraries/nvml.h"

static const char first[NVML_UUID] = "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";
static const char second[NVML_UUID] = "\xff\xee\xdd\xcc\xbb\xaa\x99\x88\x77\x66\x55\x44\x33\x22\x11\x00";
static const char part[NVML_UUID] = "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1";
static const char foreign[NVML_UUID] = "another machine";

static char *substitute;

static int load_substitute(void **state) {
    (void)state;
    substitute = xformat("%s/tests/kernels/nvml.so", getenv("BUILD") ? getenv("BUILD") : "build/release");
    setenv("TRAINC_NVML", substitute, 1);
    return 0;
}

static int forget_substitute(void **state) {
    (void)state;
    free(substitute);
    return 0;
}

/* Returns how many have called nvmlInit and not yet nvmlShutdown. */
static int users(void) {
    void *library = dlopen(substitute, RTLD_NOW);
    int (*function)(void);
    assert_non_null(library);
    *(void **)&function = dlsym(library, "substitute_users");
    return function();
}

static DeviceSensors read_sensors(const char uuid[NVML_UUID]) {
    DeviceSensors sensors;
    Nvml *nvml = nvml_open(uuid);
    assert_non_null(nvml);
    assert_int_equal(users(), 1);
    nvml_read(nvml, &sensors);
    nvml_close(nvml);
    assert_int_equal(users(), 0);
    return sensors;
}

static void a_card_is_found_by_its_uuid(void **state) {
    (void)state;
    DeviceSensors a = read_sensors(first), b = read_sensors(second);
    assert_true(a.memory == 23e9 && a.temperature == 71 && a.power == 312.5 && a.utilisation == 98);
    assert_true(b.memory == 23e9 + 1 && b.temperature == 72 && b.power == 313.5 && b.utilisation == 97);
}

static void what_a_card_does_not_support_is_unknown(void **state) {
    (void)state;
    DeviceSensors s = read_sensors(part); /* found as MIG-... */
    assert_true(s.memory == 23e9 + 2 && isnan(s.temperature) && isnan(s.power) && isnan(s.utilisation));
    setenv("NVML_UNSUPPORTED", "PowerUsage", 1);
    s = read_sensors(first);
    unsetenv("NVML_UNSUPPORTED");
    assert_true(s.memory == 23e9 && s.temperature == 71 && isnan(s.power) && s.utilisation == 98);
}

static void open_absent(void *uuid) {
    if (nvml_open(uuid)) die("it is there");
}

/* Opens NVML in a child process, where it must be absent. Returns what the child said. */
static const char *said(const char *named, const char uuid[NVML_UUID]) {
    static char text[4096];
    char copy[NVML_UUID];
    memcpy(copy, uuid, NVML_UUID);
    if (named)
        setenv("TRAINC_NVML", named, 1);
    else
        unsetenv("TRAINC_NVML");
    assert_int_equal(run_function(text, sizeof text, open_absent, copy), 0);
    setenv("TRAINC_NVML", substitute, 1);
    return text;
}

static void a_library_that_was_named_and_does_not_work_is_told(void **state) {
    (void)state;
    char *folder = scratch_directory(), *damaged = xformat("%s/nvml.so", folder);
    char *words = xformat("TRAINC_NVML=%s: no sensors: %s: file too short\n", damaged, damaged);
    write_bytes(damaged, "", 0);
    assert_contains(said(damaged, first), words);
    free(words);
    free(damaged);
    free(folder);
    assert_contains(said("/nowhere/nvml.so", first),
                    "TRAINC_NVML=/nowhere/nvml.so: no sensors: /nowhere/nvml.so is not installed\n");
    assert_contains(said("libc.so.6", first), "TRAINC_NVML=libc.so.6: no sensors: libc.so.6 has no nvmlInit_v2\n");
    assert_contains(said(substitute, foreign), ": no sensors: it has no such card\n");
    setenv("NVML_INIT_FAILS", "1", 1);
    assert_contains(said(substitute, first), ": no sensors: it does not start\n");
    unsetenv("NVML_INIT_FAILS");
}

static void it_is_found_without_being_started(void **state) {
    (void)state;
    char text[LIBRARY_DESCRIPTION], *path = realpath(substitute, NULL);
    nvml_find(text);
    assert_string_equal(text, path);
    assert_int_equal(users(), 0);
    free(path);
}

/* On a machine with the library, it does not know the card of another machine. */
static void without_nvml_nothing_is_known_and_nothing_is_said(void **state) {
    (void)state;
    DeviceSensors s;
    assert_string_equal(said("none", first), "");
    assert_string_equal(said(NULL, foreign), "");
    assert_int_equal(users(), 0);
    nvml_read(NULL, &s);
    assert_true(isnan(s.memory) && isnan(s.temperature) && isnan(s.power) && isnan(s.utilisation));
    nvml_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_is_found_by_its_uuid),
        cmocka_unit_test(what_a_card_does_not_support_is_unknown),
        cmocka_unit_test(a_library_that_was_named_and_does_not_work_is_told),
        cmocka_unit_test(it_is_found_without_being_started),
        cmocka_unit_test(without_nvml_nothing_is_known_and_nothing_is_said),
    };
    return cmocka_run_group_tests(tests, load_substitute, forget_substitute);
}
