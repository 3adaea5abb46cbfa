/* Compares the files of two runs. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "tests/crash/crash.h"
#include "tests/helpers.h"

/* Removes values that differ between runs: times, the number of checkpoints, a checksum of these. */
static void drop_times(json_t *object) {
    static const char *const names[] = {
        "time",   "seconds", "timestamp", "train/steps_per_second", "train/tokens_per_second",
        "serial", "xxh3_64", "train/mfu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) json_object_del(object, names[i]);
}

static bool same_json(const char *want, const char *got, Error *error) {
    json_t *a = json_load_file(want, 0, NULL), *b = json_load_file(got, 0, NULL);
    drop_times(a);
    drop_times(b);
    bool same = a && b && json_equal(a, b);
    const char *key;
    const json_t *value;
    if (!same) error_set(error, "is no JSON");
    json_object_foreach(a, key, value) {
        if (!same && !json_equal(value, json_object_get(b, key))) error_set(error, "%s differs", key);
    }
    json_decref(a);
    json_decref(b);
    return same;
}

/* Reads the lines of steps and validations without times. Every line must be whole. */
static json_t *read_log(const char *path, Error *error) {
    char *text;
    size_t size;
    if (!read_file(path, &text, &size, error)) return NULL;
    json_t *lines = json_array();
    int number = 1;
    bool ok = true;
    for (char *line = text, *end; ok && *line; line = end + 1, number++) {
        end = strchr(line, '\n');
        json_t *record = end ? json_loadb(line, (size_t)(end - line), 0, NULL) : NULL;
        const char *kind = json_string_value(json_object_get(record, "kind"));
        drop_times(record);
        ok = record || error_set(error, "line %d is torn", number);
        if (kind && (!strcmp(kind, "train") || !strcmp(kind, "val"))) json_array_append(lines, record);
        json_decref(record);
    }
    free(text);
    if (ok) return lines;
    json_decref(lines);
    return NULL;
}

static bool same_log(const char *want, const char *got, Error *error) {
    json_t *a = read_log(want, error), *b = a ? read_log(got, error) : NULL;
    bool same = b != NULL;
    for (size_t i = 0; same && (i < json_array_size(a) || i < json_array_size(b)); i++) {
        json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        if (x && y && json_equal(x, y)) continue;
        char *wanted = x ? json_dumps(x, 0) : xstrdup("nothing"), *found = y ? json_dumps(y, 0) : xstrdup("nothing");
        same = error_set(error, "differs: expected %.90s, found %.90s", wanted, found);
        free(wanted);
        free(found);
    }
    json_decref(a);
    json_decref(b);
    return same;
}

/* Reads a file of JSON lines as a set. Returns NULL if a line is torn. */
static json_t *read_facts(const char *path, Error *error) {
    json_t *facts = json_object();
    char *text;
    size_t size;
    if (!read_file(path, &text, &size, error)) return NULL;
    for (char *line = text, *end; facts && *line; line = end + 1) {
        end = strchr(line, '\n');
        json_t *fact = end ? json_loadb(line, (size_t)(end - line), 0, NULL) : NULL;
        drop_times(fact);
        char *key = fact ? json_dumps(fact, JSON_SORT_KEYS) : NULL;
        if (!key) json_decref(facts), facts = NULL;
        if (facts) json_object_set_new(facts, key, json_true());
        json_decref(fact);
        free(key);
    }
    free(text);
    if (!facts) error_set(error, "has a torn line");
    return facts;
}

/* A run that was killed between an action and its entry repeats both, so entries may occur twice. */
static bool same_facts(const char *want, const char *got, Error *error) {
    json_t *a = read_facts(want, error), *b = a ? read_facts(got, error) : NULL;
    bool same = b && (json_equal(a, b) || error_set(error, "differs"));
    json_decref(a);
    json_decref(b);
    return same;
}

static bool same_bytes(const char *want, const char *got, Error *error) {
    char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    bool same = read_file(want, &a, &n, error) && read_file(got, &b, &m, error);
    if (same && (n != m || memcmp(a, b, n) != 0)) same = error_set(error, "differs (%zu and %zu bytes)", n, m);
    free(a);
    free(b);
    return same;
}

/* Reads charts of a run without what depends on time and restarts: lines of restarts, and the charts from the speed on.
 * The text is empty if the picture is not whole. free() */
static char *read_charts(const char *path, Error *error) {
    char *text;
    size_t size, kept = 0;
    if (!read_file(path, &text, &size, error)) return NULL;
    const char *last = size > 7 ? text + size - 7 : "";
    bool whole = !strcmp(last, "</svg>\n");
    for (char *line = text, *end; whole && *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = 0;
        if (strstr(line, " per second</text>")) break;
        if (strstr(line, "stroke-dasharray=\"2 3\"") || strstr(line, ">restart</text>")) continue;
        memmove(text + kept, line, (size_t)(end - line));
        kept += (size_t)(end - line);
    }
    text[kept] = 0;
    return text;
}

static bool same_charts(const char *want, const char *got, Error *error) {
    char *a = read_charts(want, error), *b = a ? read_charts(got, error) : NULL;
    bool same = b && *a && !strcmp(a, b);
    if (b && !same) error_set(error, *b ? "shows another run" : "is not whole");
    free(a);
    free(b);
    return same;
}

/* Reads the verdict of a page: how the run ended, its best metric and its result, which depend on no time. The text is
 * empty if the page is not whole. free() */
static char *read_verdict(const char *path, Error *error) {
    static const char last[] = "</main></body></html>\n";
    char *text;
    size_t size;
    if (!read_file(path, &text, &size, error)) return NULL;
    bool whole = size > sizeof last && !strcmp(text + size + 1 - sizeof last, last);
    char *begin = strstr(text, "<p class=\"verdict\">"), *end = begin ? strstr(begin, "</header>") : NULL;
    char *verdict = whole && end ? xformat("%.*s", (int)(end - begin), begin) : xstrdup("");
    free(text);
    return verdict;
}

static bool same_pages(const char *want, const char *got, Error *error) {
    char *a = read_verdict(want, error), *b = a ? read_verdict(got, error) : NULL;
    bool same = b && *a && !strcmp(a, b);
    if (b && !same) error_set(error, "differs: expected %.120s, found %.120s", a, b);
    free(a);
    free(b);
    return same;
}

static bool same_link(const char *want, const char *got, Error *error) {
    char a[PATH_MAX] = "", b[PATH_MAX] = "";
    if (readlink(want, a, sizeof a - 1) < 0 || readlink(got, b, sizeof b - 1) < 0) return error_set(error, "no link");
    return !strcmp(a, b) || error_set(error, "leads to %s instead of %s", b, a);
}

static bool same_entry(const char *name, const char *want, const char *got, bool allow_more, Error *error) {
    static const struct {
        const char *pattern;
        bool (*same)(const char *, const char *, Error *);
    } kinds[] = {{"log.jsonl", same_log},
                 {"loss.svg", same_charts},
                 {"curves.svg", same_charts},
                 {"report.html", same_pages},
                 {"state.json", same_json},
                 {"*_results*.json", same_json},
                 {".prepare_ledger.jsonl", same_facts},
                 {"test_evaluations.jsonl", same_facts}};
    struct stat a, b;
    if (lstat(want, &a) || lstat(got, &b)) return error_set(error, "%s", strerror(errno));
    if ((a.st_mode & S_IFMT) != (b.st_mode & S_IFMT)) return error_set(error, "is of another type");
    if (S_ISDIR(a.st_mode)) return crash_same_tree(want, got, allow_more, error);
    if (S_ISLNK(a.st_mode)) return same_link(want, got, error);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!fnmatch(kinds[i].pattern, name, 0)) return kinds[i].same(want, got, error);
    return same_bytes(want, got, error);
}

/* Returns whether an entry is compared. Leaves out files of TensorBoard, whose names contain the time and of which
 * every start makes one, and logs that a start keeps of a run without checkpoints. */
static int is_compared(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, "logs") &&
           strncmp(entry->d_name, "log.before.", strlen("log.before."));
}

/* Puts the path of the difference before the reason. */
bool crash_same_tree(const char *want, const char *got, bool allow_more, Error *error) {
    struct dirent **a, **b;
    int n = scandir(want, &a, is_compared, alphasort), m = scandir(got, &b, is_compared, alphasort), i = 0, j = 0;
    if (n < 0 || m < 0) return error_set(error, "%s", strerror(errno));
    bool same = true;
    while (same && (i < n || j < m)) {
        int order = i == n ? 1 : j == m ? -1 : strcmp(a[i]->d_name, b[j]->d_name);
        const char *name = order <= 0 ? a[i]->d_name : b[j]->d_name;
        Error why;
        /* A page that could not be written is only a warning: the next run, or `report`, writes it. */
        bool page = allow_more && !strcmp(name, "report.html");
        if (order < 0 && !page) same = error_set(error, "%s is missing", name);
        if (order > 0 && !allow_more) same = error_set(error, "%s is left over", name);
        if (order == 0 && !page) {
            char *x = path_join(want, name), *y = path_join(got, name);
            same = same_entry(name, x, y, allow_more, &why) || error_set(error, "%s: %.300s", name, why.text);
            free(x);
            free(y);
        }
        i += order <= 0;
        j += order >= 0;
    }
    for (i = 0; i < n; i++) free(a[i]);
    for (j = 0; j < m; j++) free(b[j]);
    free(a);
    free(b);
    return same;
}
