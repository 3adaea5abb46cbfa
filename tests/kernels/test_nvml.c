/* Sensors of the right card, through a substitute of NVML that is loaded like the real one; and where NVIDIA's
 * libraries are looked for. */
#include "tests/test.h"

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

TEST(a_card_is_found_by_its_uuid) {
    DeviceSensors a = read_sensors(first), b = read_sensors(second);
    assert_true(a.memory == 23e9 && a.temperature == 71 && a.power == 312.5 && a.utilisation == 98);
    assert_true(b.memory == 23e9 + 1 && b.temperature == 72 && b.power == 313.5 && b.utilisation == 97);
}

TEST(what_a_card_does_not_support_is_unknown) {
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

TEST(a_library_that_was_named_and_does_not_work_is_told) {
    char *folder = kept_folder(), *damaged = kept_format("%s/nvml.so", folder);
    char *words = kept_format("TRAINC_NVML=%s: no sensors: %s: file too short\n", damaged, damaged);
    write_bytes(damaged, "", 0);
    assert_contains(said(damaged, first), words);
    assert_contains(said("/nowhere/nvml.so", first),
                    "TRAINC_NVML=/nowhere/nvml.so: no sensors: /nowhere/nvml.so is not installed\n");
    assert_contains(said("libc.so.6", first), "TRAINC_NVML=libc.so.6: no sensors: libc.so.6 has no nvmlInit_v2\n");
    assert_contains(said(substitute, foreign), ": no sensors: it has no such card\n");
    setenv("NVML_INIT_FAILS", "1", 1);
    assert_contains(said(substitute, first), ": no sensors: it does not start\n");
    unsetenv("NVML_INIT_FAILS");
}

TEST(it_is_found_without_being_started) {
    char text[LIBRARY_DESCRIPTION], *path = keep(realpath(substitute, NULL));
    nvml_find(text);
    assert_string_equal(text, path);
    assert_int_equal(users(), 0);
}

/* On a machine with the library, it does not know the card of another machine. */
TEST(without_nvml_nothing_is_known_and_nothing_is_said) {
    DeviceSensors s;
    assert_string_equal(said("none", first), "");
    assert_string_equal(said(NULL, foreign), "");
    assert_int_equal(users(), 0);
    nvml_read(NULL, &s);
    assert_true(isnan(s.memory) && isnan(s.temperature) && isnan(s.power) && isnan(s.utilisation));
    nvml_close(NULL);
}

/* ---- libraries in the folders of packages ---- */

static int two(void) { return 2; }
static const char *const planted_files[] = {"libtrainc_planted.so.3", "libtrainc_planted.so.2", NULL};
static const char *const planted_functions[] = {"nvmlInit_v2", NULL};
static const LibrarySpec planted = {"TRAINC_PLANTED", planted_files, "Planted",        "ours",
                                    "install it",     NULL,          planted_functions};

/* Copies the substitute to BASE/FOLDER/lib/python3.11/site-packages/nvidia/NAME/lib/FILE. */
static void plant(const char *base, const char *folder, const char *name, const char *file) {
    char output[1024], *to = kept_format("%s/%s/lib/python3.11/site-packages/nvidia/%s/lib", base, folder, name);
    if (run_command(output, sizeof output, "mkdir -p %s && cp %s %s/%s", to, substitute, to, file))
        fail_msg("%s", output);
}

/* Requires the library to be found there, or with NULL, to be looked for in vain. */
static void expect_found(const LibrarySpec *spec, const char *base, const char *path) {
    void *function;
    char description[LIBRARY_DESCRIPTION], *wanted = path ? xformat("%s/%s", base, path) : NULL;
    bool found = library_load(spec, &function, description);
    assert_string_equal(description, wanted ? wanted : "ours: Planted is not installed");
    assert_int_equal(found, wanted != NULL);
    free(wanted);
}

TEST(a_damaged_library_in_a_package_is_told) {
    char *made = kept_folder(), *base = keep(realpath(made, NULL)), output[1024], description[LIBRARY_DESCRIPTION];
    void *function;
    setenv("VIRTUAL_ENV", base, 1);
    plant(base, "", "cu3", "libtrainc_planted.so.3");
    assert_int_equal(
        run_command(output, sizeof output,
                    "echo no library >%s/lib/python3.11/site-packages/nvidia/cu3/lib/libtrainc_planted.so.3", base),
        0);
    assert_false(library_load(&planted, &function, description));
    assert_contains(description, "ours: ");
    assert_contains(description, "libtrainc_planted.so.3: ");
}

TEST(libraries_are_found_in_the_folders_of_packages) {
    char *made = kept_folder(), *base = keep(realpath(made, NULL)), *environment = kept_format("%s/env", base);
    char *home = kept_format("%s/home", base), *path = kept_format("%s/python/bin", base),
         *search = kept_format("%s:/usr/bin:/bin", path), output[1024];
    LibrarySpec older = planted, driver = planted;
    older.newest = two, driver.advice = NULL;
    setenv("HOME", home, 1);
    setenv("PATH", search, 1);
    unsetenv("VIRTUAL_ENV");
    expect_found(&planted, base, NULL);
    plant(base, "env", "cublas", "libtrainc_planted.so.2");
    expect_found(&planted, base, NULL);
    setenv("VIRTUAL_ENV", environment, 1);
    expect_found(&planted, base, "env/lib/python3.11/site-packages/nvidia/cublas/lib/libtrainc_planted.so.2");
    expect_found(&driver, base, NULL);
    plant(base, "home/.local", "cu3", "libtrainc_planted.so.3"); /* a newer one, elsewhere */
    expect_found(&planted, base, "home/.local/lib/python3.11/site-packages/nvidia/cu3/lib/libtrainc_planted.so.3");
    expect_found(&older, base, "env/lib/python3.11/site-packages/nvidia/cublas/lib/libtrainc_planted.so.2");
    plant(base, "python", "cu3", "libtrainc_planted.so.3"); /* before that of the home */
    assert_int_equal(run_command(output, sizeof output, "mkdir -p %s && cp %s %s/python3 && chmod 755 %s/python3", path,
                                 substitute, path, path),
                     0);
    expect_found(&planted, base, "python/lib/python3.11/site-packages/nvidia/cu3/lib/libtrainc_planted.so.3");
}

int main(void) { return tests_run(load_substitute, forget_substitute); }
