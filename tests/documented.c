#include "tests/documented.h"

#include <ctype.h>

#include "data/formats/safetensors.h"
#include "page/log.h"
#include "tests/helpers.h"

enum { LONGEST = 1024, MAX_SYMBOLS = 16 };

/* ---- the page ---- */

/* Returns the lines between a heading and the next one; free(). */
static char *section(const char *heading) {
    char *page = read_text("docs/formats.md"), *start = xformat("\n%s\n", heading), *at = strstr(page, start);
    if (!at) fail_msg("docs/formats.md has no heading '%s'", heading);
    at += strlen(start);
    char *end = strstr(at, "\n#"), *text = strndup(at, end ? (size_t)(end - at) : strlen(at));
    free(start);
    free(page);
    return text;
}

/* Copies cell `number` of a row, counted from 0, without its blanks; "" if there is none. */
static void copy_cell(const char *row, int number, char out[LONGEST]) {
    const char *end = row + strcspn(row, "\n"), *at = row;
    out[0] = 0;
    if (*row != '|') return;
    for (int i = 0; i < number && at < end; i++) at += 1 + strcspn(at + 1, "|\n");
    if (at + 1 < end) snprintf(out, LONGEST, "%.*s", (int)strcspn(at + 1, "|\n"), at + 1);
}

static const char *next_row(const char *row) {
    row += strcspn(row, "\n");
    return *row ? row + 1 : NULL;
}

/* Returns the row of a table that has the name, `in backquotes`, in its first cell. Adds the quoted name to `seen`. */
static const char *find_row(const char *text, const char *heading, const char *name, char **seen) {
    char *quoted = xformat("`%s`", name), cell[LONGEST];
    const char *row = text;
    for (; row; row = next_row(row)) {
        copy_cell(row, 0, cell);
        if (strstr(cell, quoted)) break;
    }
    if (!row) fail_msg("docs/formats.md, %s: no row of %s", heading, quoted);
    if (!*seen || !strstr(*seen, quoted)) {
        char *more = xformat("%s%s", *seen ? *seen : "", quoted);
        free(*seen);
        *seen = more;
    }
    free(quoted);
    return row;
}

/* Fails if a row names what was not seen, unless it says that this is optional or may be absent. */
static void assert_all_seen(const char *text, const char *heading, const char *seen) {
    char cell[LONGEST];
    for (const char *row = text; row; row = next_row(row)) {
        const char *end = row + strcspn(row, "\n"), *may = strstr(row, "optional");
        if (!may || may > end) may = strstr(row, "absent");
        if (may && may < end) continue;
        copy_cell(row, 0, cell);
        for (char *name = strchr(cell, '`'), *close; name && (close = strchr(name + 1, '`'));
             name = strchr(close, '`')) {
            char *quoted = xformat("%.*s`", (int)(close - name), name);
            if (!strstr(seen, quoted)) fail_msg("docs/formats.md, %s: no file has %s", heading, quoted);
            free(quoted);
            *close = ' ';
        }
    }
}

/* ---- shapes ---- */

/* The meaning of the letters in the shapes of one micro-batch, or of one store. */
typedef struct {
    char names[MAX_SYMBOLS][4];
    double values[MAX_SYMBOLS];
    int n;
} Symbols;

/* An expression that is read: "2 B M", "Nt - n", "B (T / 2) H W". */
typedef struct {
    const char *at;
    const Symbols *symbols;
    char unknown[4]; /* a symbol without a value yet, which counts as `probe` */
    double probe;
    bool open; /* it cannot be computed: a word stands for a size, or two symbols are unknown */
} Expression;

static double sum_of(Expression *e);

static double factor_of(Expression *e) {
    char name[LONGEST];
    if (isdigit((unsigned char)*e->at)) return strtod(e->at, (char **)&e->at);
    if (*e->at == '(') {
        e->at++;
        double inner = sum_of(e);
        e->at += *e->at == ')';
        return inner;
    }
    size_t n = 0;
    for (; isalnum((unsigned char)*e->at); e->at++)
        if (n + 1 < sizeof name) name[n++] = *e->at;
    name[n] = 0;
    for (int s = 0; s < e->symbols->n; s++)
        if (!strcmp(name, e->symbols->names[s])) return e->symbols->values[s];
    e->open = e->open || !n || n > 2 || (e->unknown[0] && strcmp(e->unknown, name) != 0);
    if (!e->open) memcpy(e->unknown, name, n + 1);
    return e->probe;
}

static double product_of(Expression *e) {
    double value = 1;
    for (bool divide = false; *e->at && !strchr("+-),]", *e->at);) {
        if (*e->at == ' ' || *e->at == '/') {
            divide = divide || *e->at == '/';
            e->at++;
            continue;
        }
        const char *before = e->at;
        double factor = factor_of(e);
        value = divide ? value / factor : value * factor;
        divide = false;
        if (e->at == before) fail_msg("docs/formats.md: a shape cannot be read at '%.20s'", e->at);
    }
    return value;
}

static double sum_of(Expression *e) {
    double value = product_of(e);
    while (*e->at == '+' || *e->at == '-') {
        double sign = *e->at++ == '+' ? 1 : -1;
        value += sign * product_of(e);
    }
    return value;
}

/* Compares one dimension. A symbol that is the only unknown one gets the value that solves the equation, which is
 * linear in each symbol. Returns the end of the expression. */
static const char *check_dimension(const char *text, int64_t dimension, Symbols *symbols, const char *name) {
    Expression zero = {.at = text, .symbols = symbols}, one = {.at = text, .symbols = symbols, .probe = 1};
    double at_zero = sum_of(&zero), slope = sum_of(&one) - at_zero;
    if (zero.open) return zero.at;
    bool solve = zero.unknown[0] && slope != 0;
    double value = solve ? ((double)dimension - at_zero) / slope : at_zero;
    if (solve ? value < 0 || value != floor(value) : value != (double)dimension)
        fail_msg("%s has a dimension %lld, and docs/formats.md says '%.*s'", name, (long long)dimension,
                 (int)(zero.at - text), text);
    if (!solve) return zero.at;
    assert_true(symbols->n < MAX_SYMBOLS);
    memcpy(symbols->names[symbols->n], zero.unknown, sizeof zero.unknown);
    symbols->values[symbols->n++] = value;
    return zero.at;
}

/* Fails unless the cells of type and shape of a row are those of a tensor; a row without a shape has none to check. */
static void check_tensor(const char *row, const StoredTensor *t, Symbols *symbols) {
    char type[LONGEST], shape[LONGEST];
    copy_cell(row, 1, type);
    copy_cell(row, 2, shape);
    const char *at = strchr(strchr(type, '[') ? type : shape, '['), *word = strstr(type, t->dtype);
    bool activation = !strcmp(type, " A ") && strchr("FB", t->dtype[0]) && strcmp(t->dtype, "F64") != 0;
    if (!activation && !(word && word[-1] == ' ' && !isalnum((unsigned char)word[strlen(t->dtype)])))
        fail_msg("%s is %s, and docs/formats.md says: %.*s", t->name, t->dtype, (int)strcspn(row, "\n"), row);
    if (!at) return;
    int rank = 1;
    for (const char *c = at; *c != ']'; c++) rank += *c == ',';
    if (rank != t->rank) fail_msg("%s has %d dimensions, and docs/formats.md says %s", t->name, t->rank, at);
    for (int d = 0; d < rank; d++) at = check_dimension(at + 1, t->dims[d], symbols, t->name);
}

/* ---- files ---- */

void assert_store_documented(const TensorFile *store, const char *heading) {
    char *text = section(heading), *seen = NULL;
    Symbols symbols = {.n = 0};
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < store->n_tensors; i++)
            check_tensor(find_row(text, heading, store->tensors[i].name, &seen), &store->tensors[i], &symbols);
    for (int i = 0; i < store->n_metadata; i++)
        if (strcmp(store->metadata_keys[i], SAFETENSORS_SUM_KEY) != 0)
            find_row(text, heading, store->metadata_keys[i], &seen);
    assert_all_seen(text, heading, seen);
    free(seen);
    free(text);
}

/* "micro0.batch.offsets" -> "offsets", "micro0.block.3.output" -> "block.L.output", "grad.x" -> "grad.PARAMETER". */
static void documented_name(const char *name, char out[LONGEST]) {
    static const char *const shared[][2] = {
        {"grad.", "grad.PARAMETER"}, {"frozen_rows.", "frozen_rows.PARAMETER"}, {"sum.", "sum.METRIC"}};
    size_t n = 0;
    if (!strncmp(name, "micro", 5)) name = strchr(name, '.') + 1;
    if (!strncmp(name, "batch.", 6)) name += 6;
    for (int k = 0; k < 3; k++)
        if (!strncmp(name, shared[k][0], strlen(shared[k][0]))) name = shared[k][1];
    for (; *name && n + 1 < LONGEST; name++)
        if (!isdigit((unsigned char)*name) || !n || out[n - 1] != '.')
            out[n++] = *name;
        else
            for (out[n++] = 'L'; isdigit((unsigned char)name[1]);) name++;
    out[n] = 0;
}

/* Compares the tensors of one micro-batch, or with -1 those of none. */
static int check_micro(const TensorFile *dump, int micro, const char *text, const char *heading, char **seen) {
    char *prefix = micro < 0 ? NULL : xformat("micro%d.", micro), name[LONGEST];
    Symbols symbols = {.n = 0};
    int found = 0;
    for (int again = 0; again < 3; again++) /* until the symbols are known */
        for (int i = 0; i < dump->n_tensors; i++) {
            const StoredTensor *t = &dump->tensors[i];
            if (prefix ? strncmp(t->name, prefix, strlen(prefix)) != 0 : !strncmp(t->name, "micro", 5)) continue;
            documented_name(t->name, name);
            check_tensor(find_row(text, heading, name, seen), t, &symbols);
            found++;
        }
    free(prefix);
    return found;
}

void assert_dumps_documented(const TensorFile *dumps, int n, const char *heading) {
    char *text = section(heading), *all = section("## The debug dump"), *seen = NULL, *shared = NULL;
    for (int d = 0; d < n; d++) {
        int micros = atoi(tensor_file_metadata(&dumps[d], "micro_batches"));
        assert_true(micros > 0);
        for (int m = 0; m < micros; m++) assert_true(check_micro(&dumps[d], m, text, heading, &seen) > 3 * 5);
        check_micro(&dumps[d], -1, all, "## The debug dump", &shared);
    }
    assert_all_seen(text, heading, seen);
    free(shared);
    free(seen);
    free(all);
    free(text);
}

void assert_checkpoint_documented(const char *checkpoint) {
    static const char *const names[] = {"state.json", "config.json", "decision.json"};
    for (int i = 0; i < 3; i++) {
        char *path = path_through(checkpoint, names[i]);
        json_t *root = json_load_file(path, 0, NULL);
        if (root)
            assert_keys_documented(root, "## A checkpoint");
        else if (i < 2)
            fail_msg("%s cannot be read", path);
        json_decref(root);
        free(path);
    }
}

void assert_keys_documented(const json_t *object, const char *heading) {
    char *text = section(heading);
    const char *key;
    json_t *value;
    assert_true(json_object_size(object) > 0);
    json_object_foreach((json_t *)object, key, value) {
        char *quoted = xformat("`%s`", key);
        if (!strstr(text, quoted)) fail_msg("docs/formats.md, %s: no %s", heading, quoted);
        free(quoted);
    }
    free(text);
}

/* Fails unless the row of a record's kind has the key: as it is, or as "KIND/METRIC". */
static void check_log_key(const char *row, const char *key, const char *const *metrics) {
    char *listed = xformat("`%s`", key), *any = xformat("`%.*s/METRIC`", (int)strcspn(key, "/"), key);
    const char *name = strchr(key, '/'), *end = row + strcspn(row, "\n"), *at = strstr(row, listed);
    bool metric = false;
    for (const char *const *m = metrics; name && *m; m++) metric = metric || !strcmp(name + 1, *m);
    if (metric) at = strstr(row, any);
    if (!at || at > end) fail_msg("docs/formats.md, ## log.jsonl: no %s in %.40s", listed, row);
    free(listed);
    free(any);
}

void assert_log_documented(const char *path, const char *const *metrics) {
    char *text = section("## log.jsonl"), *seen = NULL;
    json_t *records = log_read(path), *record, *value;
    size_t r;
    const char *key;
    assert_true(json_array_size(records) > 2);
    json_array_foreach(records, r, record) {
        const char *kind = json_string_value(json_object_get(record, "kind"));
        const char *row = find_row(text, "## log.jsonl", kind, &seen);
        json_object_foreach(record, key, value) {
            if (strcmp(key, "kind") && strcmp(key, "step") && strcmp(key, "time")) check_log_key(row, key, metrics);
        }
    }
    json_decref(records);
    free(seen);
    free(text);
}
