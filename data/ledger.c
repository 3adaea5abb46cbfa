#include "data/ledger.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { DIGITS = 17 }; /* of a real number, enough to give the same bits back */

struct Ledger {
    int file;
    char *path;
    json_t *kinds; /* {kind: {name: facts}} */
    pthread_mutex_t lock;
};

static void remember(Ledger *ledger, const char *kind, const char *name, json_t *facts) {
    json_t *names = json_object_get(ledger->kinds, kind);
    if (!names) {
        names = json_object();
        json_object_set_new(ledger->kinds, kind, names);
    }
    json_object_set_new(names, name, facts);
}

/* Ignores a damaged or unknown line: its work counts as not done. */
static void remember_line(Ledger *ledger, const char *line, size_t n) {
    json_auto_t *entry = json_loadb(line, n, 0, NULL);
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_t *facts = json_object_get(entry, "facts");
    if (kind && name && json_is_object(facts) && json_sum_check(entry, DIGITS, 0, NULL))
        remember(ledger, kind, name, json_incref(facts));
}

/* Reads the ledger, and cuts off a truncated last line. */
static bool load(Ledger *ledger, Error *error) {
    OWNED char *bytes = NULL;
    size_t size, whole = 0;
    if (!read_file(ledger->path, &bytes, &size, error)) return false;
    for (char *end; (end = memchr(bytes + whole, '\n', size - whole)); whole = (size_t)(end - bytes) + 1)
        remember_line(ledger, bytes + whole, (size_t)(end - bytes) - whole);
    return !ftruncate(ledger->file, (off_t)whole) || error_set(error, "cannot cut it: %s", strerror(errno));
}

Ledger *ledger_open(const char *path, Error *error) {
    Ledger *ledger = xcalloc(1, sizeof *ledger);
    bool ok = true;
    ledger->path = xstrdup(path);
    ledger->kinds = json_object();
    pthread_mutex_init(&ledger->lock, NULL);
    ledger->file = file_open_to_append(path, error);
    LockResult lock = ledger->file < 0 ? LOCK_UNKNOWN : lock_descriptor(ledger->file, false);
    if (ledger->file < 0)
        ok = false;
    else if (lock == LOCK_BUSY)
        ok = error_set(error, "another process is at work in this directory");
    else if (lock == LOCK_UNKNOWN)
        warn("%s: this file system has no locks; let one program at a time work in this directory", path);
    if (ok && load(ledger, error)) return ledger;
    error_before(error, "%s: ", path);
    ledger_close(ledger);
    return NULL;
}

void ledger_close(Ledger *ledger) {
    if (!ledger) return;
    if (ledger->file >= 0) close(ledger->file);
    json_decref(ledger->kinds);
    pthread_mutex_destroy(&ledger->lock);
    free(ledger->path);
    free(ledger);
}

const json_t *ledger_find(Ledger *ledger, const char *kind, const char *name) {
    pthread_mutex_lock(&ledger->lock);
    const json_t *facts = json_object_get(json_object_get(ledger->kinds, kind), name);
    pthread_mutex_unlock(&ledger->lock);
    return facts;
}

bool ledger_is_empty(const Ledger *ledger) { return !json_object_size(ledger->kinds); }

/* Appends with one write, so that a kill can truncate only the last line. */
bool ledger_add(Ledger *ledger, const char *kind, const char *name, json_t *facts, Error *error) {
    pthread_mutex_lock(&ledger->lock);
    remember(ledger, kind, name, facts);
    json_auto_t *entry = json_build("the ledger", "{s:s, s:s, s:O}", "kind", kind, "name", name, "facts", facts);
    json_sum_set(entry, DIGITS, 0);
    OWNED char *text = json_text("the ledger", entry, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)),
               *line = xformat("%s\n", text);
    ssize_t n = (ssize_t)strlen(line), written = write(ledger->file, line, (size_t)n);
    bool ok = written == n || error_set(error, "%s: %s", ledger->path,
                                        written < 0 ? strerror(errno) : "only a part of a line could be written");
    if (ok && fdatasync(ledger->file) && !file_system_lacks(errno))
        ok = error_set(error, "%s: %s", ledger->path, strerror(errno));
    pthread_mutex_unlock(&ledger->lock);
    return ok;
}

static Fingerprint digest(const void *bytes, size_t size) {
    Fingerprint f = {.text = ""};
    sha1_text(bytes, size, f.text);
    return f;
}

Fingerprint fingerprint_of(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    OWNED char *text = vxformat(format, arguments);
    va_end(arguments);
    return digest(text, strlen(text));
}

Fingerprint fingerprint_file(const char *path) {
    OWNED char *bytes = NULL;
    size_t size;
    return read_file(path, &bytes, &size, NULL) ? digest(bytes, size) : (Fingerprint){""};
}

bool fact_is(const json_t *facts, const char *key, const char *want) {
    const char *have = json_string_value(json_object_get(facts, key));
    return have && !strcmp(have, want);
}
