/* Questions as windows of ids: the end-of-text id if the model knows it, the context, an ending, of which the ending's
 * tokens are scored. The ending is encoded by itself, behind a space unless it begins with one. A context that is too
 * long loses its first tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/slm/evaluation.h"
#include "data/formats/json_records.h"
#include "data/formats/text_source.h"
#include "data/text/encoding.h"
#include "data/text/utf8.h"
#include "report/statistics.h"

enum { SUM, PER_TOKEN, PER_BYTE, RULES };
static const char *const rules[RULES] = {"not normalised", "per token", "per byte"};

typedef struct {
    int file;
    int64_t line, first; /* first: its window of ending 0 */
    int endings, label;
} Question;

typedef struct SlmQuestions {
    const OptionList *files;
    Question *of; /* [n] */
    int64_t n;
    int *bytes;  /* [windows] of the ending */
    int64_t cut; /* windows whose context has lost tokens */
    int most;    /* endings of a question */
    int64_t bad; /* records that were left out */
    Error first_bad;
} SlmQuestions;

/* ---- reading ---- */

static void encode(SlmScoring *scoring, const char *text) {
    const TokenIds before = scoring->ids;
    tokenizer_encode(scoring->tokenizer, text, strlen(text), false, &scoring->ids);
    unknown_add(&scoring->missing, text, strlen(text), &before, &scoring->ids);
}

/* Adds the window of an ending to the ids of its context. Returns the bytes of the ending. */
static int add_ending(SlmQuestions *q, SlmScoring *scoring, const char *where, const char *context,
                      const char *ending) {
    TokenIds *ids = &scoring->ids;
    size_t length = strlen(context);
    bool apart = length && !strchr(" \n\t", context[length - 1]) && *ending != ' ';
    OWNED char *text = xformat("%s%s", apart ? " " : "", ending);
    int64_t begin = ids->n;
    if (scoring->first >= 0) token_ids_add(ids, scoring->first);
    encode(scoring, context);
    int64_t middle = ids->n;
    encode(scoring, text);
    int64_t scored = ids->n - middle, rows = ids->n - 1 - begin;
    if (!scored || middle == begin) die("%s: the %s has no token", where, scored ? "context" : "ending");
    if (scored > scoring->context)
        die("%s: an ending of %lld tokens; the model's context is %lld", where, (long long)scored,
            (long long)scoring->context);
    q->cut += rows > scoring->context;
    if (rows > scoring->context) rows = scoring->context;
    slm_windows_add(&scoring->windows, (SlmWindow){ids->n - 1 - rows, (int32_t)rows, (int32_t)scored, (int32_t)q->n});
    return (int)strlen(ending);
}

static const char *text_of(const json_t *object, const char *name, const char *other) {
    const json_t *value = json_object_get(object, name);
    return json_string_value(value ? value : json_object_get(object, other));
}

/* Returns the number of the right ending, which some files have as text; -1: it is not one of them. */
static int label_of(const json_t *object, size_t n) {
    const json_t *value = json_object_get(object, "label");
    char *rest = "";
    long long label = json_is_integer(value)  ? json_integer_value(value)
                      : json_is_string(value) ? strtoll(json_string_value(value), &rest, 10)
                                              : -1;
    return *rest || label < 0 || label >= (long long)n || (json_is_string(value) && !*json_string_value(value))
               ? -1
               : (int)label;
}

static bool check_question(const json_t *object, Error *error) {
    const json_t *endings = json_object_get(object, "endings");
    size_t n = json_array_size(endings);
    if (!json_is_object(object)) return error_set(error, "expected a JSON object");
    if (!text_of(object, "context", "ctx")) return error_set(error, "expected a text \"context\" or \"ctx\"");
    if (n < 2) return error_set(error, "expected \"endings\", an array of at least 2 texts");
    if (label_of(object, n) < 0)
        return error_set(error, "expected \"label\", the number of the right ending, 0 .. %zu", n - 1);
    for (size_t i = 0; i < n; i++)
        if (!json_is_string(json_array_get(endings, i))) return error_set(error, "ending %zu is not a text", i);
    return true;
}

static void add_question(SlmQuestions *q, SlmScoring *scoring, const json_t *object, Question question) {
    const json_t *endings = json_object_get(object, "endings");
    size_t n = json_array_size(endings);
    OWNED char *where = xformat("%s: line %lld", q->files->text[question.file], (long long)question.line);
    question.label = label_of(object, n);
    question.endings = (int)n;
    question.first = scoring->windows.n;
    q->bytes = xrealloc(q->bytes, ((size_t)scoring->windows.n + n) * sizeof *q->bytes);
    for (size_t i = 0; i < n; i++) {
        int bytes = add_ending(q, scoring, where, text_of(object, "context", "ctx"),
                               json_string_value(json_array_get(endings, i)));
        q->bytes[scoring->windows.n - 1] = bytes;
    }
    q->of = xgrow(q->of, (size_t)q->n, sizeof *q->of);
    q->of[q->n++] = question;
    if ((int)n > q->most) q->most = (int)n;
}

/* Parses a question. NULL if it cannot be used, and may be left out. */
static json_t *parse_question(SlmQuestions *q, const JsonRecords *records, const char *path, bool skip_bad) {
    static const char *const names[] = {"context", "ctx", "endings", "label", NULL};
    size_t at;
    Error why;
    json_t *object = json_record(records->text, records->size, names, 0, &at, &why);
    if (!object) {
        error_before(&why, "expected a JSON object: byte %zu of the record: ", at + 1);
    } else if (check_question(object, &why)) {
        return object;
    }
    if (!skip_bad)
        die("%s: line %lld: %s; --skip-bad leaves such records out, and counts them", path, (long long)records->line,
            why.text);
    if (!q->bad++) error_set(&q->first_bad, "%s: line %lld: %s", path, (long long)records->line, why.text);
    json_decref(object);
    return NULL;
}

static void read_questions(SlmQuestions *q, SlmScoring *scoring, int file, bool skip_bad) {
    const char *path = q->files->text[file];
    OWNED char *text = NULL;
    size_t size;
    Error error;
    if (!text_read(path, &text, &size, &error)) die("%s: %s", path, error.text);
    const char *binary = encoding_of_binary(text, size);
    if (binary) die("%s: the file %s", path, binary);
    size_t mark = utf8_mark(text, size);
    JsonRecords records = json_records_open(text + mark, size - mark, 1, true);
    while (json_records_next(&records, &error)) {
        json_auto_t *object = parse_question(q, &records, path, skip_bad);
        if (object) add_question(q, scoring, object, (Question){.file = file, .line = records.line});
    }
    if (error.text[0]) die("%s: line %s", path, error.text);
}

SlmQuestions *slm_questions_open(const OptionList *files, bool skip_bad, SlmScoring *scoring) {
    SlmQuestions *q = xcalloc(1, sizeof *q);
    q->files = files;
    for (int i = 0; i < files->count; i++) {
        int64_t before = q->n;
        read_questions(q, scoring, i, skip_bad);
        if (q->n == before) die("%s: there is no question in it", files->text[i]);
    }
    if (q->bad)
        printf("[Data] records that cannot be used left out: %lld, the first: %s\n", (long long)q->bad,
               q->first_bad.text);
    if (scoring->ids.dropped)
        printf("[Data] %lld characters without a token left out\n", (long long)scoring->ids.dropped);
    unknown_warn("the questions", &scoring->missing);
    if (q->cut)
        printf("[Data] %lld of %lld windows begin behind the start of their context: the model's is %lld tokens\n",
               (long long)q->cut, (long long)scoring->windows.n, (long long)scoring->context);
    return q;
}

void slm_questions_close(SlmQuestions *q) { FREE(q->bytes, q->of, q); }

/* ---- results ---- */

/* Returns the ending with the smallest loss by a rule, the first of several. */
static int choose(const SlmQuestions *q, const Question *question, const SlmScoring *scoring, const float *losses,
                  int rule) {
    double least = INFINITY;
    int best = 0;
    for (int i = 0; i < question->endings; i++) {
        int64_t at = question->first + i;
        int length = rule == PER_TOKEN ? scoring->windows.windows[at].scored : rule == PER_BYTE ? q->bytes[at] : 1;
        double loss = (double)losses[at] / length;
        if (loss < least) least = loss, best = i;
    }
    return best;
}

static void add_row(const SlmQuestions *q, const Question *question, const int *chosen, const float *losses,
                    Table *table) {
    table_text(table, "file", q->files->text[question->file]);
    table_count(table, "line", question->line);
    table_count(table, "label", question->label);
    table_count(table, "chosen", chosen[SUM]);
    table_count(table, "chosen_per_token", chosen[PER_TOKEN]);
    table_count(table, "chosen_per_byte", chosen[PER_BYTE]);
    for (int i = 0; i < q->most; i++) {
        char name[32];
        snprintf(name, sizeof name, "loss_%d", i);
        table_real(table, name, i < question->endings ? (double)losses[question->first + i] : NAN);
    }
}

static void print_accuracies(const char *name, const int64_t *right, int64_t n, double chance) {
    printf("[Choices] %s: %lld questions, %.4f by chance\n", name, (long long)n, chance / (double)n);
    for (int r = 0; r < RULES; r++) {
        double accuracy = (double)right[r] / (double)n;
        Interval i = statistics_share_interval(accuracy, (double)n);
        printf("[Choices] %s: accuracy %.4f [%.4f, %.4f] %s\n", name, accuracy, i.low, i.high, rules[r]);
    }
}

void slm_questions_results(const SlmQuestions *q, const SlmScoring *scoring, const float *losses, Table *table) {
    int64_t all[RULES] = {0}, at = 0;
    double all_chance = 0;
    for (int file = 0; file < q->files->count; file++) {
        int64_t right[RULES] = {0}, begin = at;
        double chance = 0;
        for (; at < q->n && q->of[at].file == file; at++) {
            int chosen[RULES];
            for (int r = 0; r < RULES; r++) {
                chosen[r] = choose(q, &q->of[at], scoring, losses, r);
                right[r] += chosen[r] == q->of[at].label;
            }
            chance += 1.0 / q->of[at].endings;
            add_row(q, &q->of[at], chosen, losses, table);
        }
        print_accuracies(q->files->text[file], right, at - begin, chance);
        for (int r = 0; r < RULES; r++) all[r] += right[r];
        all_chance += chance;
    }
    if (q->files->count > 1) print_accuracies("all", all, q->n, all_chance);
}
