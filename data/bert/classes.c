#include "data/bert/classes.h"

#include <stdlib.h>
#include <string.h>

#include "data/formats/csv.h"
#include "data/text/strings.h"

static int by_number(const void *a, const void *b) {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    int64_t i, j;
    csv_integer(x, &i);
    csv_integer(y, &j);
    return i != j ? (i < j ? -1 : 1) : strcmp(x, y);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Returns false with an error if two classes are the same number, such as 1 and 01. */
static bool check_numbers(const Classes *sorted, const char *path, Error *error) {
    int64_t number, before;
    for (int i = 1; i < sorted->n; i++) {
        csv_integer(sorted->names[i - 1], &before);
        csv_integer(sorted->names[i], &number);
        if (number == before)
            return error_set(error, "%s: the labels \"%s\" and \"%s\" are the same number; write them alike", path,
                             sorted->names[i - 1], sorted->names[i]);
    }
    return true;
}

Classes classes_of(const char *const *names, int n) {
    Classes c = {n, xcalloc((size_t)n, sizeof *c.names)};
    for (int i = 0; i < n; i++) c.names[i] = xstrdup(names[i]);
    return c;
}

void classes_free(Classes *classes) {
    for (int i = 0; i < classes->n; i++) free(classes->names[i]);
    free(classes->names);
    *classes = (Classes){0};
}

bool classes_find(const Comments *training, Classes *out, Error *error) {
    Strings found = {0};
    bool numbers = true, ok = true;
    *out = (Classes){0};
    for (int64_t i = 0; i < training->n && ok; i++) {
        const char *name = training->labels[i];
        if (strings_add(&found, name, strlen(name)) == BERT_MAX_CLASSES)
            ok = error_set(error, "%s:%lld: more than %d different labels; is this the column of labels?",
                           training->path, (long long)training->lines[i], BERT_MAX_CLASSES);
    }
    const char *names[BERT_MAX_CLASSES] = {""};
    for (uint32_t i = 0; i < found.n && ok; i++) {
        int64_t number;
        names[i] = strings_text(&found, i);
        numbers = numbers && csv_integer(names[i], &number);
    }
    if (ok && found.n < 2)
        ok = error_set(error, "%s: all labels are \"%s\"; a classifier needs two classes or more", training->path,
                       names[0]);
    if (ok) {
        *out = classes_of(names, (int)found.n);
        qsort(out->names, (size_t)out->n, sizeof *out->names, numbers ? by_number : by_bytes);
        ok = !numbers || check_numbers(out, training->path, error);
        if (!ok) classes_free(out);
    }
    strings_free(&found);
    return ok;
}

/* Copies what is between, without the blanks at both ends; free(). */
static char *trimmed(const char *begin, const char *end) {
    while (begin < end && *begin == ' ') begin++;
    while (end > begin && end[-1] == ' ') end--;
    return xformat("%.*s", (int)(end - begin), begin);
}

bool classes_parse(const char *list, Classes *out, Error *error) {
    int n = 1;
    for (const char *c = list; *c; c++) n += *c == ',';
    *out = (Classes){0};
    if (n < 2 || n > BERT_MAX_CLASSES)
        return error_set(error, "%s: expected 2 to %d names, separated by commas, found %d", list, BERT_MAX_CLASSES, n);
    Classes c = {0, xcalloc((size_t)n, sizeof *c.names)};
    for (const char *at = list, *end; c.n < n; at = end + 1) {
        end = at + strcspn(at, ",");
        c.names[c.n] = trimmed(at, end);
        bool empty = !*c.names[c.n], twice = classes_at(&c, c.names[c.n]) >= 0;
        c.n++;
        if (!empty && !twice) continue;
        error_set(error, "%s: name %d is %s", list, c.n, empty ? "empty" : "there twice");
        classes_free(&c);
        return false;
    }
    *out = c;
    return true;
}

bool classes_make(const char *names, const Comments *training, Classes *out, Error *error) {
    Error why;
    if (!names) return classes_find(training, out, error);
    return classes_parse(names, out, &why) || error_set(error, "--labels %s", why.text);
}

int32_t classes_at(const Classes *classes, const char *name) {
    for (int i = 0; i < classes->n; i++)
        if (!strcmp(classes->names[i], name)) return i;
    return -1;
}

char *classes_list(const Classes *classes) {
    char *names = xstrdup(classes->names[0]);
    for (int i = 1; i < classes->n && strlen(names) < 150; i++) {
        char *longer = xformat("%s, %s", names, classes->names[i]);
        free(names);
        names = longer;
    }
    return names;
}

bool classes_assign(const Classes *classes, const Comments *comments, int32_t *labels, Error *error) {
    for (int64_t i = 0; i < comments->n; i++) {
        labels[i] = classes_at(classes, comments->labels[i]);
        if (labels[i] >= 0) continue;
        char *names = classes_list(classes);
        error_set(error, "%s:%lld: the label \"%.100s\" is none of the %d classes: %s", comments->path,
                  (long long)comments->lines[i], comments->labels[i], classes->n, names);
        free(names);
        return false;
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
