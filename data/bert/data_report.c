#include "data/bert/data_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

static const char what[] = "the report on the data";

typedef struct {
    const BertReportSplit *splits;
    int n, warnings;
    const Classes *classes;
    int64_t *begin;  /* [n + 1] index of each split's first text among all texts */
    int32_t *groups; /* [all texts] the first text with the same normal form */
} Report;

static double percent(int64_t part, int64_t whole) { return whole ? 100 * (double)part / (double)whole : 0; }

/* ---- lengths ---- */

/* Counts lengths up to 4, 8, 16, ... the power of two that holds the longest. */
static json_t *histogram(const int64_t *sorted, int64_t n) {
    json_t *bins = json_array();
    int64_t at = 0;
    printf("  tokens");
    for (int64_t end = 4; at < n; end *= 2) {
        int64_t begin = at;
        while (at < n && sorted[at] <= end) at++;
        printf("  <= %lld: %lld", (long long)end, (long long)(at - begin));
        json_array_append_new(bins, json_build(what, "[I,I]", (json_int_t)end, (json_int_t)(at - begin)));
    }
    printf("\n");
    return bins;
}

static void add_lengths(json_t *json, const BertReportSplit *split) {
    const TokenizedTexts *t = split->tokenized;
    int64_t n = t->n, tokens = t->first[n];
    OWNED int64_t *sorted = xmalloc((size_t)n * sizeof *sorted);
    for (int64_t i = 0; i < n; i++) sorted[i] = t->first[i + 1] - t->first[i];
    qsort(sorted, (size_t)n, sizeof *sorted, compare_integers);
    const int64_t median = sorted[n / 2], p99 = sorted[n * 99 / 100], longest = sorted[n - 1];
    const double mean = (double)tokens / (double)n;
    printf("[Data] %s: %lld texts of %.2f tokens (median %lld, 99 %% up to %lld, longest %lld)\n", split->name,
           (long long)n, mean, (long long)median, (long long)p99, (long long)longest);
    json_object_update_new(json, json_build(what, "{s:I, s:I, s:f, s:I, s:I, s:I, s:o}", "texts", (json_int_t)n,
                                            "tokens", (json_int_t)tokens, "mean", mean, "median", (json_int_t)median,
                                            "p99", (json_int_t)p99, "longest", (json_int_t)longest, "histogram",
                                            histogram(sorted, n)));
}

/* ---- one split ---- */

static void add_labels(const Report *r, json_t *json, const BertReportSplit *split) {
    if (!split->labels) return;
    int64_t counts[BERT_MAX_CLASSES] = {0};
    json_t *labels = json_object();
    classes_count(split->labels, split->n, counts);
    printf("  labels");
    for (int c = 0; c < r->classes->n; c++) {
        printf("  %s: %lld (%.1f %%)", r->classes->names[c], (long long)counts[c], percent(counts[c], split->n));
        json_object_set_new_nocheck(labels, r->classes->names[c], json_integer((json_int_t)counts[c]));
    }
    printf("\n");
    json_object_set_new(json, "labels", labels);
}

static void add_tokens(Report *r, json_t *json, const BertReportSplit *split) {
    const TokenizedTexts *t = split->tokenized;
    const int64_t pieces = t->first[t->n] - 2 * t->n; /* without begin and end */
    const bool many = unknown_is_many(t->missing.unknown, t->missing.pieces);
    if (t->divided)
        printf("  longer than the maximum length: %lld of %lld texts, divided into %lld, which count as texts here\n",
               (long long)t->divided, (long long)split->n, (long long)(t->n - split->n + t->divided));
    if (t->truncated)
        printf("  cut to the maximum length: %lld texts (%.2f %%), which lose %lld tokens\n", (long long)t->truncated,
               percent(t->truncated, t->n), (long long)t->cut);
    if (t->empty) printf("  texts without a token: %lld\n", (long long)t->empty);
    if (t->dropped) printf("  characters without a token, which are left out: %lld\n", (long long)t->dropped);
    printf("  %sunknown pieces: %lld of %lld (%.2f %%)\n", many ? "warning: " : "", (long long)t->unknown,
           (long long)pieces, percent(t->unknown, pieces));
    r->warnings += many;
    OWNED char *characters = unknown_characters(&t->missing);
    json_object_update_new(json, json_build(what, "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "divided",
                                            (json_int_t)t->divided, "truncated", (json_int_t)t->truncated, "cut",
                                            (json_int_t)t->cut, "empty", (json_int_t)t->empty, "dropped",
                                            (json_int_t)t->dropped, "pieces", (json_int_t)pieces, "unknown",
                                            (json_int_t)t->unknown, "unknown_characters", characters));
}

/* Adds what padding would cost: batches of random texts, as a training without packing draws them. */
static void add_padding(json_t *json, const TokenizedTexts *t, int batch_size, uint64_t seed) {
    OWNED int32_t *order = xmalloc((size_t)t->n * sizeof *order);
    int64_t padded = 0, tokens = t->first[t->n];
    for (int64_t i = 0; i < t->n; i++) order[i] = (int32_t)i;
    philox_shuffle(seed, PURPOSE_SHUFFLE, 0, order, t->n);
    for (int64_t i = 0; i < t->n; i += batch_size) {
        int64_t end = i + batch_size < t->n ? i + batch_size : t->n, longest = 0;
        for (int64_t k = i; k < end; k++) {
            int64_t length = t->first[order[k] + 1] - t->first[order[k]];
            if (length > longest) longest = length;
        }
        padded += (end - i) * ((longest + 7) / 8 * 8);
    }
    printf(
        "  padding: batches of %d, padded to their longest text, would have %lld rows for %lld tokens; packing avoids "
        "%.1f %%\n",
        batch_size, (long long)padded, (long long)tokens, percent(padded - tokens, padded));
    json_object_set_new(json, "padding",
                        json_build(what, "{s:i, s:I, s:f}", "batch_size", batch_size, "rows", (json_int_t)padded,
                                   "avoided", percent(padded - tokens, padded) / 100));
}

/* ---- equal texts ---- */

typedef struct {
    int64_t texts, conflicts; /* that occur elsewhere; of those, with another label than there */
    int64_t first;            /* of them, index in its split */
} Copies;

/* Finds the texts of split b that occur in split a; if they are the same split, before. */
static Copies find_copies(const Report *r, int a, int b) {
    Copies copies = {0};
    const int64_t all = r->begin[r->n];
    OWNED int32_t *seen = xmalloc((size_t)all * sizeof *seen);
    for (int64_t i = 0; i < all; i++) seen[i] = -1;
    const int32_t *labels[2] = {r->splits[a].labels, r->splits[b].labels};
    for (int64_t i = 0; a != b && i < r->splits[a].n; i++) {
        int32_t *place = &seen[r->groups[r->begin[a] + i]];
        if (*place < 0) *place = (int32_t)i;
    }
    for (int64_t i = 0; i < r->splits[b].n; i++) {
        int32_t *place = &seen[r->groups[r->begin[b] + i]];
        if (*place < 0) {
            if (a == b) *place = (int32_t)i;
            continue;
        }
        if (!copies.texts) copies.first = i;
        copies.texts++;
        copies.conflicts += labels[0] && labels[1] && labels[0][*place] != labels[1][i];
    }
    return copies;
}

/* Returns the beginning of a text, on one line and in quotes, at most 60 bytes of it; free(). */
static char *beginning(const char *text) {
    size_t size, n;
    OWNED char *normal = texts_normal(text, &size);
    for (n = size < 60 ? size : 60; n && ((unsigned char)normal[n] & 0xC0) == 0x80;) n--;
    return xformat("\"%.*s%s\"", (int)n, normal, n < size ? "..." : "");
}

/* Returns how many of the copies have another label, as the end of a sentence; free(). */
static char *conflicts_of(const Copies *copies, const BertReportSplit *split) {
    return split->labels ? xformat(", %lld with another label", (long long)copies->conflicts) : xstrdup("");
}

static json_t *copies_json(const Copies *copies) {
    return json_build(what, "{s:I, s:I}", "texts", (json_int_t)copies->texts, "other_label",
                      (json_int_t)copies->conflicts);
}

static void add_duplicates(Report *r, json_t *json, int s) {
    Copies c = find_copies(r, s, s);
    if (c.texts) {
        OWNED char *first = beginning(r->splits[s].texts[c.first]);
        OWNED char *conflicts = conflicts_of(&c, &r->splits[s]);
        printf("  %stexts that repeat an earlier one: %lld%s; the first is %s\n", c.conflicts ? "warning: " : "",
               (long long)c.texts, conflicts, first);
    }
    r->warnings += c.conflicts > 0;
    json_object_set_new(json, "duplicates", copies_json(&c));
}

/* Adds the texts of split b that occur in split a. */
static void add_leak(Report *r, json_t *leaks, int a, int b) {
    const BertReportSplit *to = &r->splits[b];
    Copies c = find_copies(r, a, b);
    OWNED char *key = xformat("%s in %s", to->name, r->splits[a].name);
    OWNED char *first = beginning(to->texts[c.first]);
    OWNED char *conflicts = conflicts_of(&c, to);
    json_object_set_new(leaks, key, copies_json(&c));
    if (c.texts)
        printf("[Data] warning: %lld of %lld %s texts (%.1f %%) also occur in %s%s; the first is %s\n",
               (long long)c.texts, (long long)to->n, to->name, percent(c.texts, to->n), r->splits[a].name, conflicts,
               first);
    r->warnings += c.texts > 0;
}

/* Groups the texts of all splits. */
static void group_texts(Report *r) {
    r->begin = xcalloc((size_t)r->n + 1, sizeof *r->begin);
    for (int s = 0; s < r->n; s++) r->begin[s + 1] = r->begin[s] + r->splits[s].n;
    OWNED const char **texts = xmalloc((size_t)r->begin[r->n] * sizeof *texts);
    for (int s = 0; s < r->n; s++)
        memcpy(texts + r->begin[s], r->splits[s].texts, (size_t)r->splits[s].n * sizeof *texts);
    r->groups = xmalloc((size_t)r->begin[r->n] * sizeof *r->groups);
    texts_groups(texts, r->begin[r->n], r->groups);
}

int bert_data_report(json_t *report, const BertReportSplit *splits, int n, const Classes *classes, int batch_size,
                     uint64_t seed) {
    Report r = {.splits = splits, .n = n, .classes = classes};
    json_t *all = json_object();
    group_texts(&r);
    for (int s = 0; s < n; s++) {
        json_t *json = json_object();
        add_lengths(json, &splits[s]);
        add_labels(&r, json, &splits[s]);
        add_tokens(&r, json, &splits[s]);
        if (!s) add_padding(json, splits[s].tokenized, batch_size, seed);
        add_duplicates(&r, json, s);
        json_object_set_new_nocheck(all, splits[s].name, json);
    }
    json_object_set_new(report, "splits", all);
    json_t *leaks = json_object();
    for (int b = 1; b < n; b++)
        for (int a = 0; a < b; a++) add_leak(&r, leaks, a, b);
    json_object_set_new(report, "leaks", leaks);
    FREE(r.begin, r.groups);
    return r.warnings;
}
