#include "data/bert/classes.h"

#include <stdlib.h>
#include <string.h>

#include "data/formats/csv.h"
#include "data/text/label.h"
#include "data/text/strings.h"

static int by_number(const void *a, const void *b) {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    int64_t i, j;
    csv_integer(x, &i);
    csv_integer(y, &j);
    return i != j ? (i < j ? -1 : 1) : strcmp(x, y);
}

Classes classes_of(const char *const *names, int n) {
    Classes c = {.n = n, .names = xcalloc((size_t)n, sizeof *c.names)};
    for (int i = 0; i < n; i++) c.names[i] = xstrdup(names[i]);
    return c;
}

void classes_free(Classes *classes) {
    for (int i = 0; i < classes->n; i++) free(classes->names[i]);
    free(classes->names);
    *classes = (Classes){0};
}

/* The labels of the training texts, without repetition. */
typedef struct {
    int n;
    char *names[BERT_MAX_CLASSES];
    int64_t texts[BERT_MAX_CLASSES];
} Found;

static bool find_labels(const Comments *training, Found *found, Error *error) {
    OWNED_BY(strings_free) Strings all = {0};
    for (int64_t i = 0; i < training->n; i++) {
        const char *name = training->labels[i];
        uint32_t number = strings_add(&all, name, strlen(name));
        if (number == BERT_MAX_CLASSES)
            return error_set(error, "%s:%lld: more than %d different labels; is this the column of labels?",
                             training->path, (long long)training->lines[i], BERT_MAX_CLASSES);
        if ((int)number == found->n) found->names[found->n++] = xstrdup(name);
        found->texts[number]++;
    }
    return true;
}

static void sort_names(char **names, int n) {
    int64_t number;
    bool numbers = true;
    for (int i = 0; i < n; i++) numbers = numbers && csv_integer(names[i], &number);
    qsort(names, (size_t)n, sizeof *names, numbers ? by_number : compare_texts);
}

/* Finds two labels that look as if they were meant to be one; *a comes first in order. */
static bool find_alike(const Found *found, int64_t *a, int64_t *b) {
    if (!labels_find_alike((const char *const *)found->names, found->n, a, b)) return false;
    if (strcmp(found->names[*a], found->names[*b]) < 0) return true;
    int64_t swap = *a;
    *a = *b;
    *b = swap;
    return true;
}

/* Leaves one of the names that are alike: the one of most texts, of equally many the first in order. */
static void merge_alike(Found *found) {
    for (int64_t a, b; find_alike(found, &a, &b);) {
        int64_t kept = found->texts[b] > found->texts[a] ? b : a, gone = kept == a ? b : a, last = --found->n;
        found->texts[kept] += found->texts[gone];
        free(found->names[gone]);
        found->names[gone] = found->names[last];
        found->texts[gone] = found->texts[last];
    }
}

static bool check_alike(const Found *found, const char *path, Error *error) {
    int64_t a, b;
    return !find_alike(found, &a, &b) ||
           error_set(error,
                     "%s: the labels \"%s\" and \"%s\" %s; write them alike, or join them with --merge-labels, or "
                     "name all classes in --labels if they are two (texts: %lld and %lld)",
                     path, found->names[a], found->names[b], label_difference(found->names[a], found->names[b]),
                     (long long)found->texts[a], (long long)found->texts[b]);
}

bool classes_find(const Comments *training, bool merge, Classes *out, Error *error) {
    OWNED Found *found = xcalloc(1, sizeof *found);
    *out = (Classes){0};
    bool ok = find_labels(training, found, error);
    if (ok && merge) merge_alike(found);
    ok = ok && check_alike(found, training->path, error);
    if (ok && found->n < 2)
        ok = error_set(error, "%s: all labels are \"%s\"; a classifier needs two classes or more", training->path,
                       found->names[0]);
    if (ok) {
        *out = classes_of((const char *const *)found->names, found->n);
        sort_names(out->names, out->n);
        out->merge = merge;
    }
    for (int i = 0; i < found->n; i++) free(found->names[i]);
    return ok;
}

bool classes_parse(const char *list, Classes *out, Error *error) {
    int n = 1;
    for (const char *c = list; *c; c++) n += *c == ',';
    *out = (Classes){0};
    if (n < 2 || n > BERT_MAX_CLASSES)
        return error_set(error, "%s: expected 2 to %d names, separated by commas, found %d", list, BERT_MAX_CLASSES, n);
    Classes c = {.names = xcalloc((size_t)n, sizeof *c.names)};
    Error why;
    for (const char *at = list, *end; c.n < n; at = end + 1) {
        end = at + strcspn(at, ",");
        OWNED char *name = xformat("%.*s", (int)(end - at), at);
        c.names[c.n] = label_normal(name);
        bool empty = !*c.names[c.n], twice = classes_at(&c, c.names[c.n]) >= 0, shows = label_check(c.names[c.n], &why);
        c.n++;
        if (!empty && !twice && shows) continue;
        error_set(error, "%.100s: name %d%s%s", list, c.n, shows ? " is " : ": ",
                  !shows  ? why.text
                  : empty ? "empty"
                          : "there twice");
        classes_free(&c);
        return false;
    }
    *out = c;
    return true;
}

bool classes_make(const char *names, bool merge, const Comments *training, Classes *out, Error *error) {
    int64_t a, b;
    if (!names) return classes_find(training, merge, out, error);
    if (!classes_parse(names, out, error)) return error_before(error, "--labels ");
    out->merge = merge;
    if (!merge || !labels_find_alike((const char *const *)out->names, out->n, &a, &b)) return true;
    error_set(error, "--labels %s: \"%s\" and \"%s\" %s, and --merge-labels joins such labels; leave one of them out",
              names, out->names[a], out->names[b], label_difference(out->names[a], out->names[b]));
    classes_free(out);
    return false;
}

int32_t classes_at(const Classes *classes, const char *name) {
    for (int i = 0; i < classes->n; i++)
        if (!strcmp(classes->names[i], name)) return i;
    for (int i = 0; i < classes->n; i++) {
        OWNED char *normal = label_normal(classes->names[i]);
        if (!strcmp(normal, name)) return i;
    }
    return -1;
}

/* Returns the first class that differs from a label in case only, or is the same number; -1: none. */
static int32_t class_alike(const Classes *classes, const char *label) {
    OWNED char *key = label_key(label);
    for (int i = 0; i < classes->n; i++) {
        OWNED char *other = label_key(classes->names[i]);
        if (!strcmp(key, other)) return i;
    }
    return -1;
}

char *classes_list(const Classes *classes) {
    char *names = xstrdup(classes->names[0]);
    for (int i = 1; i < classes->n && strlen(names) < 150; i++) xappend(&names, ", %s", classes->names[i]);
    return names;
}

static bool refuse_label(const Classes *classes, const Comments *comments, int64_t i, int32_t alike, Error *error) {
    const char *label = comments->labels[i];
    OWNED char *names = classes_list(classes);
    OWNED char *advice = alike < 0 ? xstrdup("")
                                   : xformat("; it and \"%s\" %s: --merge-labels joins them", classes->names[alike],
                                             label_difference(classes->names[alike], label));
    return error_set(error, "%s:%lld: the label \"%.100s\" is none of the %d classes: %s%s", comments->path,
                     (long long)comments->lines[i], label, classes->n, names, advice);
}

bool classes_assign(const Classes *classes, Comments *comments, int32_t *labels, Error *error) {
    comments->counts.merged = 0;
    for (int64_t i = 0; i < comments->n; i++) {
        labels[i] = classes_at(classes, comments->labels[i]);
        if (labels[i] >= 0) continue;
        int32_t alike = class_alike(classes, comments->labels[i]);
        if (alike < 0 || !classes->merge) return refuse_label(classes, comments, i, alike, error);
        labels[i] = alike;
        comments->counts.merged++;
    }
    return true;
}

void classes_count(const int32_t *labels, int64_t n, int64_t *counts) {
    for (int64_t i = 0; i < n; i++) counts[labels[i]]++;
}

bool classes_check(const Classes *classes, const int32_t *labels, int64_t n, const char *split, Error *error) {
    int64_t counts[BERT_MAX_CLASSES] = {0};
    classes_count(labels, n, counts);
    for (int i = 0; i < classes->n; i++)
        if (!counts[i])
            return error_set(error, "%s: none of its %lld texts has the label \"%s\"; every split needs every class",
                             split, (long long)n, classes->names[i]);
    return true;
}

void classes_balance(const int32_t *labels, int64_t n, int classes, float *weights) {
    int64_t counts[BERT_MAX_CLASSES] = {0};
    classes_count(labels, n, counts);
    for (int i = 0; i < classes; i++) weights[i] = (float)((double)n / ((double)classes * (double)counts[i]));
}
