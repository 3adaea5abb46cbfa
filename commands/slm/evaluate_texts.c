/* Texts as windows of ids. Of a file: an end-of-text id before every document and one after the last, as in training,
 * so that every token and one end per document is predicted once. A model of another program has perhaps never seen
 * that id: there, the texts of a file follow each other without it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "commands/slm/evaluation.h"
#include "data/slm/corpus.h"
#include "data/text/unknown.h"

typedef struct {
    int64_t documents, empty, tokens, bytes; /* empty: documents without a token, which are left out */
    int64_t first;                           /* of its ids; -1: none yet */
} TextFile;

typedef struct SlmTextFiles {
    const SlmTexts *options;
    SlmScoring *scoring;
    CorpusFiles files;
    TextFile *of; /* [files.n] */
    int64_t stride, dropped;
    BadRecords bad;
    TokenIds *threads; /* [n_threads] */
    Unknown *missing;  /* [n_threads]; then [0] has all */
} SlmTextFiles;

/* ---- ids ---- */

typedef struct {
    int32_t *ids;
    int64_t n, dropped;
} Encoded;

static void encode(void *context, int thread, const Document *document, void *result) {
    SlmTextFiles *f = context;
    TokenIds *ids = &f->threads[thread];
    ids->n = ids->dropped = 0;
    const TokenIds before = *ids;
    tokenizer_encode(f->scoring->tokenizer, document->text, document->size, false, ids);
    unknown_add(&f->missing[thread], document->text, document->size, &before, ids);
    int32_t *copy = xmalloc((size_t)(ids->n + 1) * sizeof *copy);
    if (ids->n) memcpy(copy, ids->ids, (size_t)ids->n * sizeof *copy);
    *(Encoded *)result = (Encoded){copy, ids->n, ids->dropped};
}

/* Adds the rows from `first` to the last id that has another one behind it. */
static void cut(SlmTextFiles *f, int64_t first, int32_t owner) {
    int64_t end = f->scoring->ids.n - 1;
    if (end <= first) return;
    slm_windows_cut(&f->scoring->windows, first, end, f->scoring->context, f->stride, owner);
    f->of[owner].tokens += end - first;
}

static bool add_document(void *context, const Document *document, void *result, Error *error) {
    SlmTextFiles *f = context;
    const Encoded *e = result;
    TokenIds *ids = &f->scoring->ids;
    int32_t owner = (int32_t)(document->file - f->files.files);
    TextFile *file = &f->of[owner];
    bool separate = !strcmp(f->options->documents, "separate"), ends = f->scoring->first >= 0;
    (void)error;
    if (document->bad) return true;
    f->dropped += e->dropped;
    file->empty += !e->n;
    if (e->n) {
        if (file->first < 0) {
            file->first = ids->n;
            if (ends) token_ids_add(ids, f->scoring->first);
        }
        int64_t first = ids->n - ends;
        token_ids_reserve(ids, e->n);
        memcpy(ids->ids + ids->n, e->ids, (size_t)e->n * sizeof *e->ids);
        ids->n += e->n;
        if (ends) token_ids_add(ids, f->scoring->first);
        if (separate) cut(f, first, owner);
        file->documents++;
        file->bytes += (int64_t)document->size;
    }
    free(e->ids);
    return true;
}

/* ---- files ---- */

static void read_texts(SlmTextFiles *f) {
    const SlmTexts *o = f->options;
    Corpus corpus = {.files = &f->files,
                     .split_at = !strcmp(o->split_at, "file")   ? SPLIT_AT_FILE
                                 : !strcmp(o->split_at, "line") ? SPLIT_AT_LINE
                                                                : SPLIT_AT_BLANK_LINES,
                     .text_field = o->text_field,
                     .nfc = !strcmp(o->normalize, "nfc"),
                     .n_threads = o->n_threads,
                     .bad = o->skip_bad ? &f->bad : NULL};
    const CorpusPass pass = {
        .purpose = "Tokenizing", .context = f, .result_bytes = sizeof(Encoded), .work = encode, .take = add_document};
    MUST(corpus_pass(&corpus, &pass, &error));
}

/* Cuts the ids of whole files, which lie one behind the other. */
static void cut_files(SlmTextFiles *f) {
    TokenIds *ids = &f->scoring->ids;
    int64_t n = ids->n;
    for (int64_t i = f->files.n - 1, end = n; i >= 0; i--) {
        if (f->of[i].first < 0) continue;
        ids->n = end;
        cut(f, f->of[i].first, (int32_t)i);
        end = f->of[i].first;
    }
    ids->n = n;
}

static void print_texts(const SlmTextFiles *f) {
    int64_t empty = 0;
    for (int64_t i = 0; i < f->files.n; i++) empty += f->of[i].empty;
    if (f->files.left_out)
        printf("[Data] %lld other file%s left out, %s first\n", (long long)f->files.left_out,
               format_plural(f->files.left_out), f->files.first_left_out);
    if (empty) printf("[Data] %lld document%s without a token left out\n", (long long)empty, format_plural(empty));
    if (f->bad.n)
        printf("[Data] records that cannot be used left out: %lld, the first: %s\n", (long long)f->bad.n, f->bad.first);
    if (f->dropped)
        printf("[Data] %lld characters without a token left out: bits per byte count their bytes as if they were "
               "predicted\n",
               (long long)f->dropped);
    unknown_warn("the texts", &f->missing[0]);
}

SlmTextFiles *slm_texts_open(const SlmTexts *o, SlmScoring *scoring) {
    SlmTextFiles *f = xcalloc(1, sizeof *f);
    *f = (SlmTextFiles){.options = o, .scoring = scoring, .files = {.format = corpus_format(o->input_format)}};
    f->stride = o->stride ? o->stride : scoring->context;
    if (f->stride > scoring->context)
        die_usage("--stride %lld: the model's context is %lld tokens, and a window cannot move on by more",
                  (long long)o->stride, (long long)scoring->context);
    for (int i = 0; i < o->text.count; i++) MUST(corpus_files_add(&f->files, o->text.text[i], false, &error));
    MUST(corpus_files_measure(&f->files, o->n_threads, &error));
    f->of = xcalloc((size_t)f->files.n, sizeof *f->of);
    for (int64_t i = 0; i < f->files.n; i++) f->of[i].first = -1;
    f->threads = xcalloc((size_t)o->n_threads, sizeof *f->threads);
    f->missing = xcalloc((size_t)o->n_threads, sizeof *f->missing);
    for (int i = 0; i < o->n_threads; i++)
        f->missing[i] = (Unknown){.encode = tokenizer_encode_plain, .tokenizer = scoring->tokenizer};
    read_texts(f);
    for (int i = 1; i < o->n_threads; i++) unknown_move(&f->missing[0], &f->missing[i]);
    if (strcmp(o->documents, "separate") != 0) cut_files(f);
    print_texts(f);
    if (!scoring->windows.n)
        die("--text: there is no token to predict in %lld file%s", (long long)f->files.n, format_plural(f->files.n));
    return f;
}

void slm_texts_close(SlmTextFiles *f) {
    for (int i = 0; i < f->options->n_threads; i++) token_ids_free(&f->threads[i]);
    corpus_files_close(&f->files);
    unknown_free(&f->missing[0]);
    FREE(f->missing, f->bad.first, f->threads, f->of, f);
}

/* ---- results ---- */

static void add_row(Table *table, const char *name, const TextFile *file, double loss) {
    double mean = loss / (double)file->tokens;
    table_text(table, "file", name);
    table_count(table, "documents", file->documents);
    table_count(table, "tokens", file->tokens);
    table_count(table, "bytes", file->bytes);
    table_real(table, "loss", mean);
    table_real(table, "perplexity", exp(mean));
    table_real(table, "bits_per_byte", loss / log(2) / (double)file->bytes);
}

void slm_texts_results(const SlmTextFiles *f, const SlmScoring *scoring, const float *losses, Table *table) {
    double *sums = xcalloc((size_t)f->files.n, sizeof *sums), sum = 0;
    TextFile all = {0};
    for (int64_t i = 0; i < scoring->windows.n; i++) sums[scoring->windows.windows[i].owner] += (double)losses[i];
    for (int64_t i = 0; i < f->files.n; i++) {
        const TextFile *file = &f->of[i];
        add_row(table, f->files.files[i].path, file, sums[i]); /* 0 / 0 of a file without tokens: no value */
        all.documents += file->documents;
        all.tokens += file->tokens;
        all.bytes += file->bytes;
        sum += sums[i];
    }
    if (f->files.n > 1) add_row(table, "all", &all, sum);
    free(sums);
}
