#include "data/slm/corpus.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/program.h"
#include "data/formats/csv.h"
#include "data/formats/json_records.h"
#include "data/formats/text_source.h"
#include "data/slm/clean.h"
#include "data/text/encoding.h"
#include "data/text/utf8.h"

enum { BUFFER = 1 << 18, BATCH_PER_THREAD = 1 << 20, MAX_BATCH_DOCUMENTS = 1 << 16 };

/* A document as it stands in its file. */
typedef struct {
    size_t begin, size; /* in the batch's bytes */
    CleanPlace place;
    CorpusTable table; /* of the file, if it is one */
    Document document;
    CleanText clean;
    Error *error; /* NULL: it could be cleaned */
} Item;

typedef struct {
    Bytes bytes;
    Item *items;
    int64_t n;
    char *results; /* [n, result_bytes] */
} Batch;

typedef struct {
    const Corpus *corpus;
    int64_t file; /* the one that is read */
    bool open;
    TextSource source;
    char *buffer;
    size_t at, end;
    CleanPlace place; /* of the next byte */
    bool is_array;    /* the file is an array of JSON */
    JsonArray array;
    CorpusTable table; /* no columns: they have not been read */
    int64_t documents, bytes_done;
} Reader;

/* ---- cutting ---- */

/* Returns whether a line has white space alone; a row of a table must have no field. */
static bool is_blank(const char *text, size_t size, bool row) {
    for (size_t i = 0; i < size; i++)
        if (!strchr(row ? "\r\n" : " \t\r\n\v\f", text[i]) || !text[i]) return false;
    return true;
}

static const CorpusFile *file_of(const Reader *r) { return &r->corpus->files->files[r->file]; }

static CorpusFormat format_of(const Reader *r) { return file_of(r)->format; }

static bool is_table(CorpusFormat format) { return format == CORPUS_CSV || format == CORPUS_TSV; }

static bool open_next(Reader *r, Error *error) {
    if (!text_source_open(&r->source, file_of(r)->path, error)) return false;
    r->open = true;
    r->place = (CleanPlace){.line = 1, .column = 1};
    if (!text_source_read(&r->source, r->buffer, BUFFER, &r->end, error)) return false;
    const char *binary = encoding_of_binary(r->buffer, r->end);
    if (binary) return error_set(error, "%s", binary);
    r->at = utf8_mark(r->buffer, r->end);
    r->place.offset = (int64_t)r->at;
    r->is_array = format_of(r) == CORPUS_JSON && json_begins_array(r->buffer + r->at, r->end - r->at);
    r->array = (JsonArray){0};
    r->table = (CorpusTable){0};
    return true;
}

/* Ends a file that was read to its end. */
static bool close_file(Reader *r, Error *error) {
    const CorpusFile *f = file_of(r);
    bool same = r->source.size == f->size && r->source.sum == f->sum;
    r->bytes_done += f->size;
    text_source_close(&r->source);
    r->open = false;
    r->file++;
    return same || error_set(error, "the file changed while it was read; start again when nothing writes to it");
}

/* Reads on if nothing is left in the buffer; r->at == r->end: the file has ended. */
static bool fill(Reader *r, Error *error) {
    if (r->at < r->end) return true;
    r->at = 0;
    return text_source_read(&r->source, r->buffer, BUFFER, &r->end, error);
}

/* Returns the next piece of the file, at most to the end of the line if `lines`; *n 0: the file has ended. */
static bool next_piece(Reader *r, bool lines, const char **piece, size_t *n, Error *error) {
    if (!fill(r, error)) return false;
    *piece = r->buffer + r->at;
    *n = r->end - r->at;
    const char *end = lines ? memchr(*piece, '\n', *n) : NULL;
    if (end) *n = (size_t)(end - *piece) + 1;
    r->at += *n;
    r->place.offset += (int64_t)*n;
    r->place.line += end != NULL;
    return true;
}

static bool check_size(size_t size, int64_t line, bool record, Error *error) {
    return size <= CORPUS_MAX_DOCUMENT ||
           error_set(error,
                     "line %lld: the document that begins here has more than %zu MB, too many to be handled as "
                     "one: %s",
                     (long long)line, CORPUS_MAX_DOCUMENT >> 20,
                     record ? "divide the record" : "choose another --split-at");
}

static void add_item(Reader *r, Batch *b, size_t begin, const CleanPlace *place) {
    b->items = xgrow(b->items, (size_t)b->n, sizeof *b->items);
    b->items[b->n++] = (Item){.begin = begin,
                              .size = b->bytes.n - begin,
                              .place = *place,
                              .table = r->table,
                              .document = {.number = r->documents++, .file = file_of(r), .line = place->line}};
}

/* Reads the next element of an array of JSON, if it has one more; otherwise closes the file. */
static bool read_element(Reader *r, Batch *b, Error *error) {
    size_t begin = b->bytes.n, n;
    CleanPlace place = r->place;
    for (JsonPiece piece = JSON_BETWEEN; piece != JSON_LAST_PART;) {
        if (!fill(r, error)) return false;
        if (r->at == r->end)
            return json_array_is_closed(&r->array)
                       ? close_file(r, error)
                       : error_set(error, "line %lld: the array is not closed: the file is cut off",
                                   (long long)r->place.line);
        const char *bytes = r->buffer + r->at;
        bool ok = json_array_take(&r->array, bytes, r->end - r->at, &n, &piece, error);
        r->place.column = json_column(bytes, n, r->place.column, &r->place.line);
        if (!ok) return error_before(error, "line %lld: ", (long long)r->place.line);
        if (piece != JSON_BETWEEN) bytes_add(&b->bytes, bytes, n);
        if (!check_size(b->bytes.n - begin, place.line, true, error)) return false;
        r->at += n;
        r->place.offset += (int64_t)n;
        if (piece == JSON_BETWEEN) place = r->place;
    }
    add_item(r, b, begin, &place);
    return true;
}

/* Returns whether lines are only Excel's "sep=;", which stands before the column names. */
static bool is_statement(const Reader *r, const char *lines, size_t size) {
    return !r->table.n && csv_statement(lines, size, &(char){0}) == size;
}

/* Takes what was read as the column names, if they are still to come, else as a document. */
static bool take_record(Reader *r, Batch *b, size_t begin, const CleanPlace *place, Error *error) {
    if (!is_table(format_of(r)) || r->table.n) {
        add_item(r, b, begin, place);
        return true;
    }
    size_t size = b->bytes.n - begin;
    b->bytes.n = begin;
    return corpus_table_head(b->bytes.at + begin, size, place->line, format_of(r) == CORPUS_CSV ? ',' : '\t',
                             r->corpus->text_field, &r->table, error);
}

/* Reads the next document of the open file, if it has one more; otherwise closes the file. */
static bool read_document(Reader *r, Batch *b, Error *error) {
    const bool table = is_table(format_of(r)), record = format_of(r) != CORPUS_TEXT;
    SplitAt split = record ? SPLIT_AT_LINE : r->corpus->split_at;
    if (r->is_array) return read_element(r, b, error);
    size_t begin = b->bytes.n, line_begin = begin, n;
    CleanPlace place = r->place;
    const char *piece;
    bool quoted = false;
    for (int quotes = 0;;) {
        if (!next_piece(r, split != SPLIT_AT_FILE, &piece, &n, error)) return false;
        if (!check_size(b->bytes.n + n - begin, place.line, record, error)) return false;
        bytes_add(&b->bytes, piece, n);
        if (table) quoted = corpus_table_in_quotes(&quotes, r->table.separator, piece, n);
        if (n && (split == SPLIT_AT_FILE || piece[n - 1] != '\n')) continue; /* not yet at the end of a line */
        if (n && (quoted || (table && is_statement(r, b->bytes.at + begin, b->bytes.n - begin)))) continue;
        bool blank = split != SPLIT_AT_FILE && is_blank(b->bytes.at + line_begin, b->bytes.n - line_begin, table);
        if (blank) b->bytes.n = line_begin;
        if (n && b->bytes.n == begin) { /* blank lines before a document */
            place = r->place;
            continue;
        }
        if (!n || blank || split == SPLIT_AT_LINE) break;
        line_begin = b->bytes.n;
    }
    if ((b->bytes.n > begin || split == SPLIT_AT_FILE) && !take_record(r, b, begin, &place, error)) return false;
    if (!n && table && !r->table.n)
        return error_set(error, "line 1: the file is empty; expected a line of column names");
    return n || close_file(r, error);
}

/* Fills a batch; it stays empty when all files are read. The error begins with the file. */
static bool read_batch(Reader *r, Batch *b, Error *error) {
    size_t wanted = (size_t)r->corpus->n_threads * BATCH_PER_THREAD;
    b->bytes.n = 0;
    b->n = 0;
    while (r->file < r->corpus->files->n && b->bytes.n < wanted && b->n < MAX_BATCH_DOCUMENTS) {
        const char *path = r->corpus->files->files[r->file].path;
        if ((!r->open && !open_next(r, error)) || !read_document(r, b, error)) return error_before(error, "%s: ", path);
    }
    return true;
}

/* ---- working ---- */

static void work_on(const Corpus *corpus, const CorpusPass *pass, const Batch *b, int64_t i) {
    Item *item = &b->items[i];
    const CorpusFormat format = item->document.file->format;
    const CleanOptions options = {.field = format == CORPUS_JSON ? corpus->text_field : NULL,
                                  .table = is_table(format) ? &item->table : NULL,
                                  .nfc = corpus->nfc,
                                  .keep_last_end = corpus->split_at == SPLIT_AT_FILE};
    Error why;
    if (!clean_text(b->bytes.at + item->begin, item->size, &options, &item->place, &item->clean, &why)) {
        item->error = memcpy(xmalloc(sizeof why), &why, sizeof why);
        item->document.bad = true;
        return;
    }
    item->document.text = item->clean.text;
    item->document.size = item->clean.size;
    pass->work(pass->context, omp_get_thread_num(), &item->document, b->results + (size_t)i * pass->result_bytes);
}

/* Counts a record that cannot be used, if it may be left out. */
static bool leave_out(const Corpus *corpus, const Item *item, Error *error) {
    const CorpusFile *file = item->document.file;
    const bool record = file->format != CORPUS_TEXT;
    if (!record || !corpus->bad)
        return error_set(error, "%s: %s%s", file->path, item->error->text,
                         record ? "; --skip-bad leaves such records out, and counts them" : "");
    if (!corpus->bad->n++) corpus->bad->first = xformat("%s: %s", file->path, item->error->text);
    return true;
}

/* Takes the results of a batch until one is an error; frees the texts. */
static bool take_batch(const Corpus *corpus, const CorpusPass *pass, const Batch *b, Error *error) {
    bool ok = true;
    for (int64_t i = 0; i < b->n; i++) {
        Item *item = &b->items[i];
        ok = ok && (!item->error || leave_out(corpus, item, error));
        if (ok && pass->take &&
            !pass->take(pass->context, &item->document, b->results + (size_t)i * pass->result_bytes, error))
            ok = error_before(error, "%s, line %lld: ", item->document.file->path, (long long)item->place.line);
        free(item->clean.owned);
        free(item->error);
    }
    return ok;
}

static void show_progress(const Reader *r, const char *purpose, double start, int64_t total) {
    char size[32], eta[32];
    double done = (double)(r->bytes_done + (r->open ? r->source.size : 0)), seconds = seconds_now() - start;
    if (done > 0)
        terminal_progress("[%s] %.1f %% of %s\tETA %s", purpose, 100 * done / fmax((double)total, 1),
                          format_bytes((double)total, size),
                          format_duration(seconds * ((double)total - done) / done, eta));
}

/* Works on one batch while one thread reads the next. */
static bool run_batches(Reader *r, const CorpusPass *pass, Batch batches[2], Error *error) {
    const Corpus *corpus = r->corpus;
    double start = seconds_now();
    int64_t total = 0;
    Error why;
    for (int64_t i = 0; i < corpus->files->n; i++) total += corpus->files->files[i].size;
    bool read_ok = read_batch(r, &batches[0], &why), ok = true;
    for (int now = 0; ok && batches[now].n; now = !now) {
        Batch *b = &batches[now], *next = &batches[!now];
        bool stop = !read_ok; /* its documents come before the error */
        b->results =
            memset(xrealloc(b->results, (size_t)b->n * pass->result_bytes), 0, (size_t)b->n * pass->result_bytes);
        next->n = 0;
#pragma omp parallel num_threads(corpus->n_threads)
        {
#pragma omp single nowait
            if (!stop) read_ok = read_batch(r, next, &why);
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < b->n; i++) work_on(corpus, pass, b, i);
        }
        ok = take_batch(corpus, pass, b, error);
        show_progress(r, pass->purpose, start, total);
    }
    if (ok && !read_ok) ok = error_set(error, "%s", why.text);
    return ok;
}

bool corpus_pass(const Corpus *corpus, const CorpusPass *pass, Error *error) {
    OWNED char *buffer = xmalloc(BUFFER);
    Reader r = {.corpus = corpus, .buffer = buffer};
    Batch batches[2] = {{.bytes = {xmalloc(BUFFER), 0, BUFFER}}, {.bytes = {xmalloc(BUFFER), 0, BUFFER}}};
    if (corpus->bad) {
        free(corpus->bad->first);
        *corpus->bad = (BadRecords){0};
    }
    bool ok = run_batches(&r, pass, batches, error);
    terminal_progress_end();
    if (r.open) text_source_close(&r.source);
    for (int i = 0; i < 2; i++) {
        free(batches[i].bytes.at);
        free(batches[i].items);
        free(batches[i].results);
    }
    return ok;
}
