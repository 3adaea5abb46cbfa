#include "data/psd/recordings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "data/psd/manifest.h"

/* The files of one manifest. */
typedef struct {
    json_t *list; /* owns the names */
    int64_t n;
    const char **names;
    PsdRecording *all;
} Recordings;

bool psd_recording_measure(const char *path, PsdRecording *r) {
    struct stat status;
    if (stat(path, &status)) return false;
    r->size = status.st_size;
    r->modified = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    r->changed = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
    return true;
}

static bool same_times(const PsdRecording *a, const PsdRecording *b) {
    return a->size == b->size && a->modified == b->modified && a->changed == b->changed && a->sum == b->sum;
}

json_t *psd_recordings_list(int64_t n, const char *const *names, const PsdRecording *all) {
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) {
        char sum[17];
        snprintf(sum, sizeof sum, "%016llx", (unsigned long long)all[i].sum);
        json_array_append_new(list, json_build("the names of recordings", "[s, I, I, I, s]", names[i],
                                               (json_int_t)all[i].size, (json_int_t)all[i].modified,
                                               (json_int_t)all[i].changed, sum));
    }
    return list;
}

static void recordings_close(Recordings *r) {
    json_decref(r->list);
    FREE(r->names, r->all);
    *r = (Recordings){0};
}

/* Takes ownership of the list, which may be NULL. */
static bool recordings_parse(json_t *list, Recordings *r) {
    *r = (Recordings){.list = list, .n = (int64_t)json_array_size(list)};
    bool ok = json_is_array(list);
    r->names = xcalloc((size_t)r->n, sizeof *r->names);
    r->all = xcalloc((size_t)r->n, sizeof *r->all);
    for (int64_t i = 0; i < r->n && ok; i++) {
        json_int_t size, modified, changed;
        const char *sum;
        ok = !json_unpack(json_array_get(list, (size_t)i), "[s, I, I, I, s]", &r->names[i], &size, &modified, &changed,
                          &sum);
        if (ok) r->all[i] = (PsdRecording){size, modified, changed, strtoull(sum, NULL, 16)};
    }
    if (!ok) recordings_close(r);
    return ok;
}

/* Copies of recordings have other times than those in the store. For recordings that were read and are the same, a
 * small file beside the store keeps the new times. It is used only where its checksums are those of the store. */
static char *times_path(const char *store) {
    return xformat("%.*s.times.json", (int)(strlen(store) - strlen(".safetensors")), store);
}

/* Reads the kept times; none if there is no such file, or if it is for other recordings. */
static Recordings times_read(const char *store, const Recordings *made) {
    OWNED char *path = times_path(store);
    json_auto_t *file = json_read(path, 0, NULL);
    Recordings kept = {0};
    if (file && json_sum_check(file, 0, 0, NULL))
        recordings_parse(json_incref(json_object_get(file, "recordings")), &kept);
    if (kept.n != made->n) recordings_close(&kept);
    return kept;
}

static void times_write(const char *store, const Recordings *made, const PsdRecording *now) {
    OWNED char *path = times_path(store);
    json_auto_t *file = json_build(path, "{s:o}", "recordings", psd_recordings_list(made->n, made->names, now));
    json_sum_set(file, 0, 0);
    Error why;
    if (!json_write_file(path, file, JSON_COMPACT, &why))
        warn("%s; every start reads the recordings until their times can be kept there", why.text);
}

/* Returns whether a file's bytes have changed. A file that cannot be read counts as absent, which is no change. */
static bool has_changed(const char *manifest, const char *name, PsdRecording *now, const PsdRecording *made) {
    OWNED char *path = psd_manifest_file(manifest, name);
    OWNED char *bytes = NULL;
    size_t n;
    Error why;
    if (read_file(path, &bytes, &n, &why)) return checksum(0, bytes, n) != made->sum;
    *now = *made;
#pragma omp critical
    warn("%s: %s; the store goes on without it", path, why.text);
    return false;
}

/* Compares sizes and times. An absent file has not changed, because a store may be copied without its recordings.
 * Returns the first file of another size (n: none). now: [n] the present state; must_read: [n] whether the time
 * differs; *n_read: how many do. */
static int64_t compare_times(const char *manifest, const Recordings *made, const Recordings *kept, PsdRecording *now,
                             bool *must_read, int64_t *n_read) {
    *n_read = 0;
    for (int64_t i = 0; i < made->n; i++) {
        OWNED char *path = psd_manifest_file(manifest, made->names[i]);
        now[i] = made->all[i];
        bool there = psd_recording_measure(path, &now[i]);
        if (there && now[i].size != made->all[i].size) return i;
        must_read[i] = there && !same_times(&now[i], &made->all[i]) && !(kept->n && same_times(&now[i], &kept->all[i]));
        *n_read += must_read[i];
    }
    return made->n;
}

/* Returns the first recording that has changed; n: none. Reads those with other times, because copying changes times.
 */
static int64_t find_changed(const char *manifest, const char *store, const Recordings *made, int n_threads) {
    OWNED_BY(recordings_close) Recordings kept = times_read(store, made);
    OWNED PsdRecording *now = xcalloc((size_t)made->n, sizeof *now);
    OWNED bool *must_read = xcalloc((size_t)made->n, sizeof *must_read);
    int64_t n_read, first = compare_times(manifest, made, &kept, now, must_read, &n_read);
    if (first == made->n && n_read) {
        printf(
            "[Store] %s: %lld of %lld recordings have other times than before: reading them to see if they changed\n",
            store, (long long)n_read, (long long)made->n);
        fflush(stdout);
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) reduction(min : first)
        for (int64_t i = 0; i < made->n; i++)
            if (must_read[i] && has_changed(manifest, made->names[i], &now[i], &made->all[i]) && i < first) first = i;
        if (first == made->n) times_write(store, made, now);
    }
    return first;
}

bool psd_recordings_check(const char *text, const char *manifest, const char *store, int n_threads, Error *error) {
    OWNED_BY(recordings_close) Recordings made = {0};
    if (!text) return error_set(error, "%s does not say which recordings it was made from", store);
    if (!recordings_parse(json_loads(text, 0, NULL), &made))
        return error_set(error, "%s: its \"recordings\" are no list of files", store);
    int64_t changed = find_changed(manifest, store, &made, n_threads);
    return changed == made.n || error_set(error, "%s: %s has changed", store, made.names[changed]);
}
