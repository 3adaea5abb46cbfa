/* The log: its lines, what a resumed or killed run leaves of them, TensorBoard's framing, the terminal. */
#include "base/file.h"
#include "tests/allocations.h"
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "page/log.h"
#include "train/log.h"

static const LogValue two_values[] = {{"train/text_loss", 0.1}, {"train/epoch", 3}};

static char *text_of_log(const char *directory) {
    char *path = kept_path(directory, "log.jsonl"), *text = kept_text(path);
    return text;
}

static void assert_log(const char *directory, const char *want) {
    char *text = text_of_log(directory);
    assert_string_equal(text, want);
}

TEST(a_line_holds_every_value) {
    char *directory = kept_folder();
    Log *log = log_open(directory, NULL, 0);
    const LogValue values[] = {{"a", 0.1f}, {"b", -1e-30}, {"c", 123456789012345.0}, {"d", NAN}, {"e", -INFINITY}};
    log_values(log, "train", 100, 12.5, two_values, 2);
    log_values(log, "val", 1LL << 40, 1e6, values, 5);
    log_values(log, "summary", 0, 0, NULL, 0);
    log_close(log);
    assert_log(directory, "{\"kind\": \"train\", \"step\": 100, \"time\": 12.500, \"train/text_loss\": 0.1, "
                          "\"train/epoch\": 3}\n"
                          "{\"kind\": \"val\", \"step\": 1099511627776, \"time\": 1000000.000, \"a\": 0.100000001, "
                          "\"b\": -1e-30, \"c\": 123456789012345, \"d\": null, \"e\": null}\n"
                          "{\"kind\": \"summary\", \"step\": 0, \"time\": 0.000}\n");
}

TEST(the_longest_line_fits) {
    char *directory = kept_folder(), names[64][64];
    LogValue values[64];
    for (int i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "%063d", i);
        values[i] = (LogValue){names[i], -1.23456789e-300};
    }
    Log *log = log_open(directory, NULL, 0);
    log_values(log, names[0], INT64_MIN, 1e15, values, 64);
    log_close(log);
    char *text = text_of_log(directory);
    json_t *record = json_loads(text, 0, NULL);
    assert_int_equal(json_object_size(record), 3 + 64);
    json_decref(record);
}

TEST(a_resumed_run_drops_the_records_it_will_repeat) {
    char *directory = kept_folder(), *path = kept_path(directory, "log.jsonl");
    write_text(path, "%s",
               "{\"kind\": \"train\", \"step\": 1, \"x\": 1.50}\n{\"step\": 2, \"kind\": \"val\"}\nnot json\n"
               "{\"step\": 3, \"x\": 7}\n{\"step\": 2, \"x\": 8}\n{\"step\": 2, \"x\"");
    log_close(log_open(directory, NULL, 2));
    const char *kept = "{\"kind\": \"train\", \"step\": 1, \"x\": 1.50}\n{\"step\": 2, \"kind\": \"val\"}\n"
                       "{\"step\": 2, \"x\": 8}\n";
    assert_log(directory, kept);
    log_close(log_open(directory, NULL, 5)); /* nothing to drop */
    assert_log(directory, kept);
    Log *log = log_open(directory, NULL, 1);
    log_values(log, "train", 2, 0, NULL, 0);
    log_close(log);
    assert_log(directory, "{\"kind\": \"train\", \"step\": 1, \"x\": 1.50}\n"
                          "{\"kind\": \"train\", \"step\": 2, \"time\": 0.000}\n");
    log_close(log_open(directory, NULL, 0)); /* a fresh start */
    assert_log(directory, "");
}

/* Without a checkpoint no line there is of this run, nor is log.0.jsonl. */
TEST(files_from_before_a_run_are_kept) {
    char *directory = kept_folder(), *path = kept_path(directory, "log.jsonl"), listing[256];
    char *zeroth = kept_path(directory, "log.0.jsonl");
    static const char *const texts[] = {"my notes", "{\"step\": 1}\n"};
    write_text(zeroth, "mine");
    for (int i = 0; i < 2; i++) {
        write_text(path, "%s", texts[i]);
        assert_null(log_set_aside(directory, 0, false));
        log_close(log_open(directory, NULL, 0));
        assert_log(directory, "");
        assert_null(log_set_aside(directory, 0, false)); /* nothing is in it */
        char *kept = kept_format("%s/log.before.%d.jsonl", directory, i + 1), *text = kept_text(kept);
        assert_string_equal(text, texts[i]);
    }
    run_command(listing, sizeof listing, "cd %s && ls log.* && cat log.0.jsonl", directory);
    assert_string_equal(listing, "log.0.jsonl\nlog.before.1.jsonl\nlog.before.2.jsonl\nlog.jsonl\nmine");
}

static void set_aside_in_child(void *directory) { log_set_aside(directory, 3, true); }

/* A log that was set aside makes way for none but itself; what is no log stays where it is. */
TEST(notes_are_not_taken_for_a_log) {
    char *directory = kept_folder(), *path = kept_path(directory, "log.jsonl"), said[512];
    char *third = kept_path(directory, "log.3.jsonl");
    write_text(path, "{\"step\": 1}\n");
    write_text(third, "mine");
    assert_int_equal(run_function(said, sizeof said, set_aside_in_child, directory), 1);
    assert_contains(said, "log.3.jsonl is in the way of a log");
    assert_log(directory, "{\"step\": 1}\n");
    assert_string_equal(kept_text(third), "mine");
    write_text(third, "{\"step\": 7}\n");
    assert_null(log_set_aside(directory, 3, false));
    assert_log(directory, "{\"step\": 7}\n");
}

TEST(a_torn_line_is_dropped_wherever_it_was_torn) {
    char *directory = kept_folder(), *path = kept_path(directory, "log.jsonl");
    const char *first = "{\"step\": 1}\n", *second = "{\"step\": 2}\n";
    for (size_t n = 0; n < strlen(second); n++) {
        write_text(path, "%s%.*s", first, (int)n, second);
        log_close(log_open(directory, NULL, 10));
        assert_log(directory, first);
    }
}

TEST(a_killed_run_leaves_whole_lines) {
    char *directory = kept_folder();
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        Log *log = log_open(directory, NULL, 0);
        for (int64_t step = 1;; step++) log_values(log, "train", step, 0, two_values, 2);
    }
    char *path = kept_path(directory, "log.jsonl");
    struct stat status;
    while (stat(path, &status) || status.st_size < 10000) usleep(1000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    log_close(log_open(directory, NULL, INT64_MAX - 1));
    char *text = text_of_log(directory), *rest = text, *line;
    int64_t step = 0;
    while ((line = strsep(&rest, "\n")) && rest) {
        json_t *record = json_loads(line, 0, NULL);
        assert_int_equal(json_integer_value(json_object_get(record, "step")), ++step);
        json_decref(record);
    }
    assert_true(step > 0);
}

/* CRC-32C by its definition: the remainder of the bit-reversed message over 0x1EDC6F41, first bits inverted. Written
 * unlike the one under test, which works reflected. */
static uint32_t crc32c(const unsigned char *bytes, size_t n) {
    uint32_t remainder = ~0u, reversed = 0;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        uint32_t in = (uint32_t)bytes[bit / 8] >> bit % 8 & 1, out = remainder >> 31;
        remainder <<= 1;
        if (in ^ out) remainder ^= 0x1EDC6F41u;
    }
    for (int bit = 0; bit < 32; bit++) reversed |= (remainder >> bit & 1) << (31 - bit);
    return ~reversed;
}

static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

static uint32_t u32_at(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

/* An event file while it is read. */
typedef struct {
    char *bytes;
    size_t size, at;
} Events;

/* Opens the only event file in directory/logs/RUN. */
static Events events_open(const char *directory, const char *run) {
    char *folder = kept_format("%s/logs/%s", directory, run), *path = NULL;
    Events events = {0};
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files));)
        if (!strncmp(entry->d_name, "events.out.tfevents.", 20)) {
            assert_null(path);
            path = kept_path(folder, entry->d_name);
        }
    closedir(files);
    assert_non_null(path);
    assert_true(read_file(path, &events.bytes, &events.size, NULL));
    return events;
}

/* Fails unless all records were read. */
static void events_close(Events *events) {
    assert_int_equal(events->at, events->size);
    free(events->bytes);
}

/* Checks the framing of the next record and returns its payload. */
static const unsigned char *next_record(Events *events, size_t *length) {
    const unsigned char *record = (const unsigned char *)events->bytes + events->at;
    uint64_t n;
    assert_true(events->at + 16 <= events->size);
    memcpy(&n, record, 8);
    assert_true(n <= events->size - events->at - 16);
    assert_int_equal(u32_at(record + 8), masked(crc32c(record, 8)));
    assert_int_equal(u32_at(record + 12 + n), masked(crc32c(record + 12, n)));
    events->at += n + 16;
    *length = n;
    return record + 12;
}

/* Compares the payload of the next record, after its 9 bytes of wall time. */
static void expect_event(Events *events, const char *want, size_t want_length) {
    double wall;
    size_t length;
    const unsigned char *payload = next_record(events, &length);
    assert_int_equal(payload[0], 0x09); /* field 1, 64 bits */
    memcpy(&wall, payload + 1, 8);
    assert_true(fabs(wall - (double)time(NULL)) < 60);
    assert_int_equal(length, 9 + want_length);
    assert_memory_equal(payload + 9, want, want_length);
}

static const char version_event[] = "\x1a\x0d"
                                    "brain.Event:2";

TEST(the_tests_crc_is_crc32c) {
    assert_int_equal(crc32c((const unsigned char *)"123456789", 9), 0xE3069283);
    assert_int_equal(crc32c((const unsigned char[32]){0}, 32), 0x8A9136AA); /* RFC 3720, B.4 */
}

TEST(tensorboard_records_match_byte_for_byte) {
    char *directory = kept_folder();
    Log *log = log_open(directory, "my run", 0);
    log_values(log, "train", 300, 1, two_values, 2);
    log_close(log);
    Events events = events_open(directory, "my run");
    /* The first 12 bytes of every event file: length 24 and its checksum. */
    assert_memory_equal(events.bytes, "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12);
    expect_event(&events, version_event, 15);
    /* step 300; summary of 24 bytes; value of 22: tag of 15, then the float 0.1 */
    expect_event(&events, "\x10\xac\x02\x2a\x18\x0a\x16\x0a\x0ftrain/text_loss\x15\xcd\xcc\xcc\x3d", 29);
    expect_event(&events, "\x10\xac\x02\x2a\x14\x0a\x12\x0a\x0btrain/epoch\x15\0\0\x40\x40", 25);
    events_close(&events);
}

/* Summaries of texts have a tensor of one string, and metadata that names the plugin. */
TEST(texts_are_in_the_log_and_in_tensorboard) {
    char *directory = kept_folder(), *name = kept_format("%s", "samples/0"), *path = kept_path(directory, "log.jsonl");
    Log *log = log_open(directory, "run", 0);
    log_text(log, 300, 1, name, "a\n\"b\xff\xc3\xa9");
    log_close(log);
    json_t *records = log_read(path), *record = json_array_get(records, 0);
    assert_string_equal(json_string_value(json_object_get(record, "kind")), "text");
    assert_string_equal(json_string_value(json_object_get(record, "name")), name);
    assert_string_equal(json_string_value(json_object_get(record, "text")), "a\n\"b\xef\xbf\xbd\xc3\xa9");
    assert_int_equal(json_integer_value(json_object_get(record, "step")), 300);
    Events events = events_open(directory, "run");
    expect_event(&events, version_event, 15);
    /* step 300; summary of 44 bytes; value of 42: tag of 9, tensor of 19 (type 7, a dimension of 1, 9 bytes), plugin */
    expect_event(&events,
                 "\x10\xac\x02\x2a\x2c\x0a\x2a\x0a\x09samples/0\x42\x13\x08\x07\x12\x04\x12\x02\x08\x01\x42\x09"
                 "a\n\"b\xef\xbf\xbd\xc3\xa9\x4a\x08\x0a\x06\x0a\x04text",
                 49);
    events_close(&events);
    json_decref(records);
}

/* A text that has no room is left out of both files; the log goes on. */
TEST(a_text_that_is_too_long_leaves_a_gap) {
    char *directory = kept_folder(), *text = xmalloc(300001);
    memset(text, 'x', 300000);
    text[300000] = 0;
    Log *log = log_open(directory, "run", 0);
    log_text(log, 1, 1, "t", text);
    log_values(log, "train", 2, 1, two_values, 1);
    assert_false(log_flush(log));
    log_close(log);
    assert_log(directory, "{\"kind\": \"train\", \"step\": 2, \"time\": 1.000, \"train/text_loss\": 0.1}\n");
    free(text);
}

TEST(the_name_of_a_run_leads_nowhere_else) {
    char *directory = kept_folder(), *inside = kept_path(directory, "logs/%2E.%2F..%2Fevil");
    log_close(log_open(directory, "../../evil", 0));
    assert_int_equal(access(inside, F_OK), 0);
}

TEST(a_resumed_run_starts_a_session_in_tensorboard) {
    char *directory = kept_folder();
    log_close(log_open(directory, "again", 299));
    Events events = events_open(directory, "again");
    expect_event(&events, version_event, 15);
    expect_event(&events, "\x10\xac\x02\x3a\x02\x08\x01", 7);
    events_close(&events);
}

TEST(a_run_is_named_by_its_time) {
    char *directory = kept_folder(), *logs = kept_path(directory, "logs");
    int found = 0, year, month, day, clock, end = 0;
    log_close(log_open(directory, NULL, 0));
    DIR *files = opendir(logs);
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files));)
        if (entry->d_name[0] != '.') {
            assert_int_equal(sscanf(entry->d_name, "run_%4d%2d%2d_%6d%n", &year, &month, &day, &clock, &end), 4);
            assert_int_equal(end, strlen("run_20250131_235959"));
            assert_int_equal(strlen(entry->d_name), end);
            assert_true(year >= 2024 && month >= 1 && month <= 12 && day >= 1 && day <= 31);
            found++;
        }
    closedir(files);
    assert_int_equal(found, 1);
}

/* The disk is full after 300 bytes a file, and has room again later. */
static void fill_the_disk(void *directory) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    Log *log = log_open(directory, "full", 0);
    getrlimit(RLIMIT_FSIZE, &limit);
    rlim_t room = limit.rlim_cur;
    limit.rlim_cur = 300;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int64_t step = 1; step <= 20; step++) log_values(log, "train", step, 0, two_values, 2);
    if (log_flush(log)) die("all is written, it says");
    limit.rlim_cur = room;
    setrlimit(RLIMIT_FSIZE, &limit);
    log_values(log, "train", 21, 0, two_values, 2);
    if (!log_flush(log)) die("something is lost, it says");
    log_close(log);
}

/* One line is to be dropped, and there is no room for the other. */
static void open_on_a_full_disk(void *directory) {
    struct rlimit limit = {3, 3};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    log_open(directory, NULL, 1);
}

TEST(a_log_that_cannot_be_written_is_named_once) {
    char *directory = kept_folder(), *path = kept_path(directory, "log.jsonl"), output[1024];
    write_text(path, "%s", "{\"step\": 1}\n{\"step\": 2}\n");
    assert_int_equal(run_function(output, sizeof output, open_on_a_full_disk, directory), 1);
    const char *named = strstr(output, path);
    assert_non_null(named);
    assert_null(strstr(named + 1, path));
}

TEST(a_full_disk_is_warned_of_once_and_loses_no_record) {
    char *directory = kept_folder(), output[1024];
    assert_int_equal(run_function(output, sizeof output, fill_the_disk, directory), 0);
    assert_contains(output, "warning: the log cannot be written (");
    assert_contains(output, "); it is tried again, training goes on\n");
    assert_int_equal(strchr(output, '\n') - output + 1, strlen(output)); /* one line */
    const char *line = "{\"kind\": \"train\", \"step\": %d, \"time\": 0.000, \"train/text_loss\": 0.1, "
                       "\"train/epoch\": 3}\n";
    char want[4096] = "";
    for (int step = 1; step <= 21; step++) sprintf(want + strlen(want), line, step);
    assert_log(directory, want);
    Events events = events_open(directory, "full");
    size_t length, records = 0;
    for (; events.at < events.size; records++) next_record(&events, &length);
    assert_int_equal(records, 1 + 2 * 21);
    events_close(&events);
}

TEST(logging_allocates_nothing) {
    Log *log = log_open(kept_folder(), NULL, 0);
    log_values(log, "train", 1, 0, two_values, 2);
    size_t used = mallinfo2().uordblks;
    int64_t count = allocation_count();
    for (int64_t step = 2; step < 100; step++) log_values(log, "train", step, 0, two_values, 2);
    assert_int_equal(mallinfo2().uordblks, used);
    assert_int_equal(allocation_count(), count);
    log_close(log);
}

TEST(numbers_for_people) {
    char t[32];
    assert_string_equal(format_duration(0, t), "0.0 s");
    assert_string_equal(format_duration(45.2, t), "45.2 s");
    assert_string_equal(format_duration(99.97, t), "1m40s");
    assert_string_equal(format_duration(100, t), "1m40s");
    assert_string_equal(format_duration(119.7, t), "2m00s");
    assert_string_equal(format_duration(5999, t), "99m59s");
    assert_string_equal(format_duration(11520, t), "3h12m");
    assert_string_equal(format_duration(3e6, t), "833h20m");
    assert_string_equal(format_duration(-1, t), "?");
    assert_string_equal(format_duration(NAN, t), "?");
    assert_string_equal(format_duration(INFINITY, t), "?");
    assert_string_equal(format_plural(0), "s");
    assert_string_equal(format_plural(1), "");
    assert_string_equal(format_plural(2), "s");
    assert_string_equal(format_bytes(0, t), "0 B");
    assert_string_equal(format_bytes(999, t), "999 B");
    assert_string_equal(format_bytes(999.6, t), "1.00 kB");
    assert_string_equal(format_bytes(1.234e9, t), "1.23 GB");
    assert_string_equal(format_bytes(9.996e9, t), "10.0 GB");
    assert_string_equal(format_bytes(99.96e9, t), "100 GB");
    assert_string_equal(format_bytes(999.6e6, t), "1.00 GB");
    assert_string_equal(format_count(4.5e12, "FLOP", t), "4.50 TFLOP");
    assert_string_equal(format_count(1e21, "FLOP", t), "1000 EFLOP");
    assert_string_equal(format_count(386, "", t), "386");
    assert_string_equal(format_count(1.2e6, "", t), "1.20 M");
}
