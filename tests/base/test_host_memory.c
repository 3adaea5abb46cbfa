/* Memory limits of containers, read from trees like those of the kernel: the program starts itself again with a library
 * (substitute/system.c) that finds the system's files in a folder. */
#include "base/host_memory.h"
#include "tests/train_rig.h"

static const char *root; /* of the system files */

#define MB 1000000LL

static void system_file(const char *path, const char *format, ...) PRINTF_LIKE(2, 3);
static void system_file(const char *path, const char *format, ...) {
    char *full = kept_format("%s%s", root, path), *directory = keep(path_directory(full));
    va_list arguments;
    va_start(arguments, format);
    char *text = keep(vxformat(format, arguments));
    va_end(arguments);
    make_directories(directory);
    write_text(full, "%s", text);
}

/* Forgets the groups of the test before; the machine has 8 GB. */
static void begin(const char *mounts, const char *groups) {
    char output[256];
    assert_int_equal(run_command(output, sizeof output, "rm -rf %s/proc %s/sys", root, root), 0);
    system_file("/proc/meminfo", "MemTotal: 9000000 kB\nMemFree: 1 kB\nMemAvailable: 7812500 kB\n");
    system_file("/proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n%s", mounts);
    system_file("/proc/self/cgroup", "%s", groups);
}

static const char two[] = "30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
static const char one[] = "31 22 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,memoryless\n"
                          "35 22 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";

/* The limits of a group in version 2. */
static void group(const char *path, const char *limit, int64_t used, int64_t files) {
    char *at = kept_format("/sys/fs/cgroup%s/memory.max", path);
    system_file(at, "%s\n", limit);
    at = kept_format("/sys/fs/cgroup%s/memory.current", path);
    system_file(at, "%lld\n", (long long)used);
    at = kept_format("/sys/fs/cgroup%s/memory.stat", path);
    system_file(at, "anon 5\nfile %lld\nshmem 7\ninactive_file %lld\nactive_file 1000000\nslab_reclaimable 2000000\n",
                (long long)files, (long long)files);
}

static void expect(int64_t bytes, const char *limit) {
    HostMemory memory = host_memory_left();
    assert_string_equal(memory.limit, limit);
    assert_int_equal(memory.bytes, bytes);
}

TEST(without_groups_the_machine_decides) {
    begin("", "");
    expect(8000 * MB, "");
    begin(two, "0::/\n"); /* the root of all groups has no limit */
    expect(8000 * MB, "");
    begin(two, "0::/app\n");
    group("/app", "max", 100 * MB, 0);
    expect(8000 * MB, "");
    group("/app", "9000000000", 0, 0); /* more than there is */
    expect(8000 * MB, "");
}

/* 300 MB are in use, of which the kernel drops 200 + 1 + 2 of files before it kills. */
TEST(pages_of_files_are_not_lost_to_a_limit) {
    begin(two, "0::/app\n");
    group("/app", "1000000000", 300 * MB, 200 * MB);
    expect(903 * MB, "the limit of 1.00 GB in /sys/fs/cgroup/app/memory.max");
    group("/app", "1000000000", 2000 * MB, 0);
    expect(0, "the limit of 1.00 GB in /sys/fs/cgroup/app/memory.max");
}

/* A slice around the container has less left than the container. */
TEST(the_least_of_all_groups_on_the_way_up_decides) {
    begin(two, "0::/slice/pod/app\n");
    group("/slice/pod/app", "2000000000", 3 * MB, 0);
    group("/slice/pod", "max", 0, 0);
    group("/slice", "4000000000", 3503 * MB, 0);
    expect(500 * MB, "the limit of 4.00 GB in /sys/fs/cgroup/slice/memory.max");
    group("/slice/pod", "303000000", 3 * MB, 0);
    expect(303 * MB, "the limit of 303 MB in /sys/fs/cgroup/slice/pod/memory.max");
}

TEST(a_limit_that_slows_down_counts_too) {
    begin(two, "0::/app\n");
    group("/app", "1000000000", 3 * MB, 0);
    system_file("/sys/fs/cgroup/app/memory.high", "700000000\n");
    expect(700 * MB, "the limit of 700 MB in /sys/fs/cgroup/app/memory.high");
}

/* With a namespace the container's group is "/"; without one the mount shows the tree from the group on. Where the
 * mount shows another part of the tree, its top is what is known. */
TEST(a_container_that_sees_only_its_group_is_limited) {
    static const char *const mounts[] = {"/", "/docker/1234", "/../.."}, *const groups[] = {
                                                                             "0::/\n", "0::/docker/1234\n", "0::/\n"};
    for (int i = 0; i < 3; i++) {
        begin(kept_format("30 22 0:26 %s /sys/fs/cgroup ro - cgroup2 cgroup rw\n", mounts[i]), groups[i]);
        group("", "1000000000", 3 * MB, 0);
        expect(1000 * MB, "the limit of 1.00 GB in /sys/fs/cgroup/memory.max");
    }
    begin("30 22 0:26 /docker/1234 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/1234/inner\n");
    group("", "1000000000", 3 * MB, 0);
    group("/inner", "600000000", 3 * MB, 0);
    expect(600 * MB, "the limit of 600 MB in /sys/fs/cgroup/inner/memory.max");
    begin("30 22 0:26 /docker/12 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/1234\n"); /* no prefix of it */
    group("", "500000000", 3 * MB, 0);
    expect(500 * MB, "the limit of 500 MB in /sys/fs/cgroup/memory.max");
}

TEST(groups_of_version_1_limit_too) {
    static const char file[] = "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes";
    begin(one, "9:name=systemd:/docker/1\n4:cpuacct,memory:/docker/1\n0::/\n");
    system_file(file, "9223372036854771712\n"); /* none */
    expect(8000 * MB, "");
    system_file(file, "1000000000\n");
    system_file("/sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "400000000\n");
    system_file("/sys/fs/cgroup/memory/docker/1/memory.stat",
                "cache 9\ninactive_file 9\ntotal_inactive_file 100000000\ntotal_active_file 50000000\n");
    expect(750 * MB, "the limit of 1.00 GB in /sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes");
    system_file("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "450000000\n");
    expect(450 * MB, "the limit of 450 MB in /sys/fs/cgroup/memory/docker/memory.limit_in_bytes");
}

TEST(damaged_files_limit_nothing) {
    begin("30 22\n31 - \n30 22 0:26 / /sys/fs/cgroup rw - cgroup2\n", "0\n0:\n\n:\n");
    expect(8000 * MB, "");
    begin(two, "0::/app\n");
    group("/app", "lots", 3 * MB, 0);
    expect(8000 * MB, "");
}

/* Returns whether the program is built: a model may have been taken away. */
static bool is_there(const char *program) {
    int n;
    const char *const *names = program_names(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], program)) return true;
    return false;
}

static void plan(const char *program, const char *options, const char *folder) {
    char *path = keep(realpath(program_at(program), NULL));
    must_run("cd %s && exec %s %s --dry-run --device cpu --threads 1 -b 2", folder, path, options);
}

/* All five programs: the plan and -b auto go by the container's limit, the refusal names it. */
TEST(every_program_plans_with_the_memory_of_its_container) {
    static const char *const trainings[][2] = {
        {"train_gpt", "--lengths 20,0,20 --model-dim 64 --layers 2 --heads 4"},
        {"train_slm", "--size tiny"},
        {"train_bert", ""},
        {"train_psd", "pretrain --size tiny -m psd/manifest.csv --split psd/splits/pooled_seed42_frac1.0.json"},
        {"train_cv", ""}};
    const char *psd = run_directory();
    begin("", "");
    if (is_there("train_psd")) {
        must_run("%s synthesize -o %s/spectra --sensors 2 --rows 4", program_at("train_psd"), psd);
        must_run("%s prepare --input %s/spectra --output %s/psd --num-loso-sensors 1", program_at("train_psd"), psd,
                 psd);
    }
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++) {
        const char *program = trainings[i][0], *options = trainings[i][1];
        if (!is_there(program)) continue;
        begin(two, "0::/app\n");
        group("/app", "1503000000", 3 * MB, 0);
        plan(program, options, psd);
        assert_contains(fixture.output, "[Memory] 1.37 GB are available under the limit of 1.50 GB in "
                                        "/sys/fs/cgroup/app/memory.max (134 MB more are kept free)\n");
        group("/app", "134300000", 3 * MB, 0);
        plan(program, options, psd);
        assert_contains(fixture.output, "[Memory] it does not fit, 82.3 kB are available under the limit of 134 MB in "
                                        "/sys/fs/cgroup/app/memory.max (134 MB more are kept free); ");
    }
}

TEST(batches_are_chosen_for_the_memory_of_the_container) {
    if (!is_there("train_slm")) skip();
    long long chosen[2];
    for (int i = 0; i < 2; i++) {
        begin(two, "0::/app\n");
        group("/app", i ? "2003000000" : "1003000000", 3 * MB, 0);
        must_run("%s --size small --dry-run --device cpu --threads 1 -b auto --effective-batch 64",
                 program_at("train_slm"));
        const char *line = strstr(fixture.output, "[Batch] -b ");
        assert_non_null(line);
        assert_int_equal(sscanf(line, "[Batch] -b %lld", &chosen[i]), 1);
    }
    assert_true(chosen[0] < chosen[1] && chosen[1] < 64);
}

/* Expects the memory that a run has, not that of the whole machine on the day of the calibration. */
TEST(an_estimate_for_this_machine_has_the_memory_of_the_container) {
    if (!is_there("train_slm")) skip();
    const char *rates = run_directory();
    begin(two, "0::/app\n");
    group("/app", "max", 3 * MB, 0);
    must_run("TRAINC_CALIBRATE_SECONDS=0.2 %s --calibrate --calibration %s/r.json --device cpu --threads 1",
             program_at("train_slm"), rates);
    for (int i = 0; i < 2; i++) {
        group("/app", i ? "635000000" : "max", 3 * MB, 0);
        must_run("%s --size tiny --estimate --gpu here --calibration %s/r.json --device cpu --threads 1",
                 program_at("train_slm"), rates);
        assert_contains(fixture.output, i ? " has 501 MB for it under the limit of 635 MB in "
                                            "/sys/fs/cgroup/app/memory.max: it fits, "
                                          : " has 8.00 GB for it: it fits, ");
    }
}

/* Starts this program again with the library, unless it has it. */
static void preload(char **argv) {
    const char *given = getenv("LD_PRELOAD");
    if (given && strstr(given, "system.so")) return;
    char *folder = path_directory(argv[0]), *path = path_join(folder, "system.so"), *library = realpath(path, NULL);
    setenv("LD_PRELOAD", library ? library : "", 1);
    if (library) execv("/proc/self/exe", argv);
    die("%s: cannot be preloaded", path);
}

int main(int argc, char **argv) {
    (void)argc;
#ifndef __SANITIZE_ADDRESS__ /* its library must be the first */
    preload(argv);
#else
    (void)argv;
    return 0;
#endif
    root = run_directory();
    setenv("SYSTEM_ROOT", root, 1);
    return tests_run(NULL, NULL);
}
