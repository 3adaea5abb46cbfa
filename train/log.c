/* log.jsonl is written a line at a time with one write(), so that a killed run leaves at most one torn line, at the
 * end. A TensorBoard event file is a TFRecord file of protobuf messages; the few that scalars need are encoded here by
 * hand, little-endian like every machine that this program is built for. log_values does not allocate. */
#include "train/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "base/file_name.h"
#include "base/json.h"
#include "base/program.h"
#include "data/text/utf8.h"
#include "page/log.h"

enum { PENDING = 1 << 18 };

/* A file, and what could not be written to it yet. */
typedef struct {
    int file;
    size_t n;
    char *pending; /* [PENDING] */
    bool lost;
} Stream;

struct Log {
    Stream lines, events;
    bool warned;
};

enum { LONGEST_NAME = 64, MOST_VALUES = 64, LONGEST_LINE = 256 + MOST_VALUES * (LONGEST_NAME + 32) };

/* CRC-32C (Castagnoli), reflected polynomial 0x82F63B78, and TFRecord's mask of it. */
static uint32_t masked_crc32c(const unsigned char *bytes, size_t n) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static void stream_open(Stream *stream, const char *path) {
    Error error;
    *stream = (Stream){.file = file_open_to_append(path, &error), .pending = xmalloc(PENDING)};
    if (stream->file < 0) die("%s: %s", path, error.text);
}

static bool stream_flush(Log *log, Stream *stream) {
    const char *reason = "disk full";
    while (stream->n) {
        ssize_t written = write(stream->file, stream->pending, stream->n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            if (written) reason = strerror(errno);
            break;
        }
        stream->n -= (size_t)written;
        memmove(stream->pending, stream->pending + written, stream->n);
    }
    if (stream->n && !log->warned) warn("the log cannot be written (%s); it is tried again, training goes on", reason);
    log->warned |= stream->n > 0;
    return !stream->n && !stream->lost;
}

/* Returns whether n bytes more can be kept until they are written. */
static bool stream_has_room(Stream *stream, size_t n) {
    if (stream->n + n <= PENDING) return true;
    if (!stream->lost) warn("the log has a gap: there is no room for what cannot be written");
    stream->lost = true;
    return false;
}

static void stream_add(Stream *stream, const void *bytes, size_t n) {
    memcpy(stream->pending + stream->n, bytes, n);
    stream->n += n;
}

/* Writes bytes. If the disk is full, keeps them for the next record: training does not stop. */
static void stream_put(Log *log, Stream *stream, const void *bytes, size_t n) {
    if (stream_has_room(stream, n)) stream_add(stream, bytes, n);
    stream_flush(log, stream);
}

static void stream_close(Log *log, Stream *stream) {
    stream_flush(log, stream);
    close(stream->file);
    free(stream->pending);
}

/* A protobuf message under construction; the memory is the caller's. */
enum { SMALL_MESSAGE = 256 /* bytes: any but those with a text of the user's */ };
typedef struct {
    unsigned char *bytes;
    size_t n;
} Message;

static void put_varint(Message *m, uint64_t value) {
    for (; value > 127; value >>= 7) m->bytes[m->n++] = (unsigned char)(value | 128);
    m->bytes[m->n++] = (unsigned char)value;
}

static void put_fixed(Message *m, int field, const void *value, size_t size) {
    put_varint(m, (uint64_t)field << 3 | (size == 8 ? 1 : 5));
    memcpy(m->bytes + m->n, value, size);
    m->n += size;
}

static void put_bytes(Message *m, int field, const void *bytes, size_t n) {
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, n);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void write_record(Log *log, const Message *event) {
    uint64_t length = event->n;
    uint32_t of_length = masked_crc32c((const unsigned char *)&length, 8),
             of_event = masked_crc32c(event->bytes, event->n);
    Stream *stream = &log->events;
    if (stream_has_room(stream, event->n + 16)) {
        stream_add(stream, &length, 8);
        stream_add(stream, &of_length, 4);
        stream_add(stream, event->bytes, event->n);
        stream_add(stream, &of_event, 4);
    }
    stream_flush(log, stream);
}

static double wall_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Event {1: wall_time, 2: step, 5: Summary {1: value}}. room: memory for both, value->n + 64 bytes each. */
static void write_value(Log *log, int64_t step, const Message *value, unsigned char *room[2]) {
    Message summary = {.bytes = room[0]}, event = {.bytes = room[1]};
    double now = wall_clock();
    put_bytes(&summary, 1, value->bytes, value->n);
    put_fixed(&event, 1, &now, sizeof now);
    put_varint(&event, 2 << 3);
    put_varint(&event, (uint64_t)step);
    put_bytes(&event, 5, summary.bytes, summary.n);
    write_record(log, &event);
}

/* Value {1: tag, 2: simple_value} */
static void write_scalar(Log *log, int64_t step, const char *name, double value) {
    unsigned char room[3][SMALL_MESSAGE];
    Message scalar = {.bytes = room[0]};
    float single = (float)value;
    put_bytes(&scalar, 1, name, strlen(name));
    put_fixed(&scalar, 2, &single, sizeof single);
    write_value(log, step, &scalar, (unsigned char *[]){room[1], room[2]});
}

/* Value {1: tag, 8: TensorProto {1: DT_STRING, 2: shape {2: {1: 1}}, 8: text}, 9: SummaryMetadata {1: {1: "text"}}} */
static void write_text_value(Log *log, int64_t step, const char *name, const char *text, size_t n) {
    enum { DT_STRING = 7 };
    size_t size = n + strlen(name) + 4 * SMALL_MESSAGE;
    unsigned char *room[] = {xmalloc(size), xmalloc(size), xmalloc(size)};
    Message tensor = {.bytes = room[1]}, value = {.bytes = room[0]};
    put_varint(&tensor, 1 << 3);
    put_varint(&tensor, DT_STRING);
    put_bytes(&tensor, 2, "\x12\x02\x08\x01", 4);
    put_bytes(&tensor, 8, text, n);
    put_bytes(&value, 1, name, strlen(name));
    put_bytes(&value, 8, tensor.bytes, tensor.n);
    put_bytes(&value, 9, "\x0a\x06\x0a\x04text", 8);
    write_value(log, step, &value, room + 1); /* the tensor has been copied */
    for (int i = 0; i < 3; i++) free(room[i]);
}

/* Event {1: wall_time, 3: file_version}, with which every event file begins. A resumed run adds Event {1: wall_time, 2:
 * step, 7: SessionLog {1: status START}}, which tells TensorBoard to forget what an earlier file of the same folder
 * holds from this step on. */
static void write_opening(Log *log, int64_t resume_step) {
    unsigned char room[2][SMALL_MESSAGE];
    Message version = {.bytes = room[0]}, start = {.bytes = room[1]};
    double now = wall_clock();
    put_fixed(&version, 1, &now, sizeof now);
    put_bytes(&version, 3, "brain.Event:2", 13);
    write_record(log, &version);
    if (!resume_step) return;
    put_fixed(&start, 1, &now, sizeof now);
    put_varint(&start, 2 << 3);
    put_varint(&start, (uint64_t)resume_step + 1);
    put_bytes(&start, 7, "\x08\x01", 2);
    write_record(log, &start);
}

static void open_events(Log *log, const char *directory, const char *run, int64_t resume_step) {
    char by_time[64], host[64] = "localhost";
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(by_time, sizeof by_time, "run_%Y%m%d_%H%M%S", &local);
    char *logs = path_join(directory, "logs"), *safe = file_name_in(logs, "", run && *run ? run : by_time);
    char *folder = path_join(logs, safe);
    free(safe);
    free(logs);
    make_directories(folder);
    gethostname(host, sizeof host - 1);
    char *path = xformat("%s/events.out.tfevents.%lld.%s.%d", folder, (long long)now, host, (int)getpid());
    stream_open(&log->events, path);
    write_opening(log, resume_step);
    free(path);
    free(folder);
}

/* Keeps the lines of steps up to `step`. Drops a torn last line, and the lines of steps that a resumed run repeats. */
static void drop_later_lines(const char *path, int64_t step) {
    char *text;
    size_t size, kept = 0;
    Error error;
    if (access(path, F_OK)) return;
    if (!read_file(path, &text, &size, &error)) die("%s: %s", path, error.text);
    for (char *line = text, *end; line < text + size; line = end) {
        char *newline = memchr(line, '\n', (size_t)(text + size - line));
        if (!newline) break;
        end = newline + 1;
        json_t *record = json_loadb(line, (size_t)(newline - line), 0, NULL);
        json_t *at = json_object_get(record, "step");
        if (json_is_integer(at) && json_integer_value(at) <= step) {
            memmove(text + kept, line, (size_t)(end - line));
            kept += (size_t)(end - line);
        }
        json_decref(record);
    }
    if (kept != size && !file_write_atomic(path, text, kept, &error)) die("%s", error.text);
    free(text);
}

/* Renames an existing log that belongs to no checkpoint to log.before.N.jsonl. */
static void keep_foreign_log(const char *directory) {
    char *path = path_join(directory, "log.jsonl"), *other = NULL;
    struct stat status;
    bool there = !lstat(path, &status) && S_ISREG(status.st_mode) && status.st_size, moved = false;
    for (int n = 1; there && !moved; n++) {
        free(other);
        other = xformat("%s/log.before.%d.jsonl", directory, n);
        if (!access(other, F_OK)) continue;
        moved =
            !renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_NOREPLACE) ||
            ((errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) && !rename(path, other)); /* knows no flags */
        if (!moved && errno != EEXIST) die("cannot rename %s to %s: %s", path, other, strerror(errno));
    }
    if (moved) printf("[Log] %s was there before this run, and is kept as %s\n", path, other);
    free(other);
    free(path);
}

/* Dies if the file exists and is not a log: a file of the user's is neither read as a log nor replaced by one. */
static void check_aside(const char *path) {
    struct stat status;
    if (lstat(path, &status) || (S_ISREG(status.st_mode) && !status.st_size)) return;
    json_t *records = S_ISREG(status.st_mode) ? log_read(path) : NULL;
    bool is_log = json_is_integer(json_object_get(json_array_get(records, 0), "step"));
    json_decref(records);
    if (!is_log) die("%s is in the way of a log that may be kept under that name; move it away", path);
}

char *log_set_aside(const char *directory, int64_t newest, bool goes_back) {
    if (!newest) {
        keep_foreign_log(directory);
        return NULL;
    }

    char *path = path_join(directory, "log.jsonl"), *text = NULL;
    char *aside = xformat("%s/log.%lld.jsonl", directory, (long long)newest);
    size_t size;
    Error error;
    check_aside(aside);
    if (!access(aside, F_OK) && rename(aside, path)) die("cannot rename %s to %s: %s", aside, path, strerror(errno));
    bool set = goes_back && !access(path, F_OK);
    if (set && !read_file(path, &text, &size, &error)) die("%s: %s", path, error.text);
    if (set && !file_write_atomic(aside, text, size, &error)) die("%s", error.text);
    if (!set) free(aside);
    free(text);
    free(path);
    return set ? aside : NULL;
}

Log *log_open(const char *directory, const char *run, int64_t resume_step) {
    Log *log = xcalloc(1, sizeof *log);
    char *path = path_join(directory, "log.jsonl");
    drop_later_lines(path, resume_step);
    stream_open(&log->lines, path);
    open_events(log, directory, run, resume_step);
    free(path);
    return log;
}

/* Flushes the file to the disk. A pipe cannot be flushed, which is no error. */
static bool stream_sync(Log *log, Stream *stream) {
    if (!stream_flush(log, stream)) return false;
    if (!fdatasync(stream->file) || file_system_lacks(errno) || errno == EROFS) return true;
    warn("the log cannot be flushed to the disk: %s", strerror(errno));
    return false;
}

bool log_flush(Log *log) {
    bool events = stream_sync(log, &log->events);
    return stream_sync(log, &log->lines) && events;
}

void log_close(Log *log) {
    stream_close(log, &log->lines);
    stream_close(log, &log->events);
    free(log);
}

/* Writes ", "name": value". Integers are written in full, other numbers with the 9 digits of a float. JSON has no NaN
 * and no infinity, so both become null (TensorBoard gets them unchanged). */
static int value_text(char *text, size_t size, LogValue v) {
    if (!isfinite(v.value)) return snprintf(text, size, ", \"%s\": null", v.name);
    bool whole = fabs(v.value) < 1e15 && v.value == floor(v.value);
    return snprintf(text, size, whole ? ", \"%s\": %.0f" : ", \"%s\": %.9g", v.name, v.value);
}

void log_values(Log *log, const char *kind, int64_t step, double wall_time, const LogValue *values, int count) {
    char line[LONGEST_LINE];
    assert(count <= MOST_VALUES && strlen(kind) < LONGEST_NAME);
    int n = snprintf(line, sizeof line, "{\"kind\": \"%s\", \"step\": %lld, \"time\": %.3f", kind, (long long)step,
                     wall_time);
    for (int i = 0; i < count; i++) {
        assert(strlen(values[i].name) < LONGEST_NAME);
        n += value_text(line + n, sizeof line - (size_t)n, values[i]);
        write_scalar(log, step, values[i].name, values[i].value);
    }
    n += snprintf(line + n, sizeof line - (size_t)n, "}\n");
    stream_put(log, &log->lines, line, (size_t)n);
}

void log_object(Log *log, const char *kind, int64_t step, double wall_time, json_t *fields) {
    json_t *record =
        json_build("the log", "{s:s, s:I, s:f}", "kind", kind, "step", (json_int_t)step, "time", wall_time);
    json_object_update(record, fields);
    char *text = json_text("the log", record, JSON_REAL_PRECISION(9)), *line = xformat("%s\n", text);
    stream_put(log, &log->lines, line, strlen(line));
    free(line);
    free(text);
    json_decref(fields);
    json_decref(record);
}

void log_text(Log *log, int64_t step, double wall_time, const char *name, const char *text) {
    char *valid = utf8_of_bytes(text, strlen(text));
    log_object(log, "text", step, wall_time, json_build("the log", "{s:s, s:s}", "name", name, "text", valid));
    write_text_value(log, step, name, valid, strlen(valid));
    free(valid);
}
