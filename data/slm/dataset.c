/* Row p of the stream reads id p and predicts id p + 1, so a stream of n ids has n - 1 rows. Whatever the order of
 * rows, their targets are those of the stream: a piece that another one follows still predicts the token behind it.
 *
 * The bytes of a document are shared out among its rows in whole bytes, so that they add up exactly in every division
 * of the stream. */
#include "data/slm/dataset.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/batch_bounds.h"
#include "data/slm/batch.h"
#include "kernels/philox.h"

enum { ORDERS = 3, PURPOSE_PIECES = PURPOSE_SHUFFLE | 1 << 8, PURPOSE_PLACES = PURPOSE_SHUFFLE | 2 << 8 };

/* Rows begin .. end - 1 of the stream. */
typedef struct {
    int64_t begin, end;
} Span;

/* The shuffled pieces of an epoch. Sample s begins in piece pieces[start[s].rank], at its row start[s].row. */
typedef struct {
    int64_t epoch;
    bool ready;
    int users;       /* threads that read it or write it */
    int32_t *pieces; /* [n_pieces] */
    struct {
        int32_t rank, row;
    } * start; /* [n_samples] */
} Order;

typedef struct {
    const SlmStream *stream;
    SlmStream *own; /* closed with the data set; may be NULL */
    SlmDatasetOptions options;
    bool shuffled; /* the samples are cut from the pieces of an Order */
    int64_t rows, n_samples, n_pieces;
    int64_t *piece;        /* [n_pieces + 1] the first row of each piece; NULL unless samples are made of pieces */
    int64_t max_sequences; /* of a sample */
    Order orders[ORDERS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t structure; /* a checksum of where documents begin */
} SlmDataset;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- documents ---- */

/* Returns the document of a row. */
static int64_t document_at(const SlmStream *stream, int64_t row) {
    return last_at_most(stream->first, stream->n_documents, row);
}

/* Returns the bytes of a document's first rows, rounded down; all bytes for all rows. */
static double bytes_before(const SlmStream *stream, int64_t document, int64_t row) {
    int64_t first = stream->first[document], n = stream->first[document + 1] - first;
    return (double)(int64_t)((double)stream->bytes[document] * ((double)(row - first) / (double)n));
}

static double span_bytes(const SlmStream *stream, Span span) {
    double bytes = 0;
    if (!stream->bytes) return 0;
    for (int64_t d = document_at(stream, span.begin); span.begin < span.end; d++) {
        if (stream->first[d + 1] <= span.begin) continue; /* a document without rows */
        int64_t end = least(stream->first[d + 1], span.end);
        bytes += bytes_before(stream, d, end) - bytes_before(stream, d, span.begin);
        span.begin = end;
    }
    return bytes;
}

/* Returns the end of the part of a span that belongs to its first document. */
static int64_t document_end(const SlmStream *stream, Span span) {
    return least(stream->first[document_at(stream, span.begin) + 1], span.end);
}

/* Returns the maximum of documents that any `context` adjacent rows touch. */
static int64_t most_documents(const SlmStream *stream, int64_t context) {
    const int64_t *first = stream->first;
    int64_t most = 1;
    for (int64_t i = 1, j = 1; i < stream->n_documents; i++) { /* behind a first row, begin documents i .. j - 1 */
        while (j < stream->n_documents && first[j] - first[i] < context - 1) j++;
        if (j - i + 1 > most) most = j - i + 1;
    }
    return most;
}

/* ---- the order of an epoch ---- */

static void shuffle_pieces(const SlmDataset *d, Order *order) {
    for (int64_t i = 0; i < d->n_pieces; i++) order->pieces[i] = (int32_t)i;
    philox_shuffle(d->options.seed, PURPOSE_PIECES, (uint32_t)order->epoch, order->pieces, d->n_pieces);
    int64_t rank = 0, row = 0; /* of the piece; it may lie behind its end */
    for (int64_t s = 0; s < d->n_samples; s++, row += d->options.context) {
        for (;; rank++) {
            const int64_t *piece = d->piece + order->pieces[rank];
            if (row < piece[1] - piece[0]) break;
            row -= piece[1] - piece[0];
        }
        order->start[s].rank = (int32_t)rank;
        order->start[s].row = (int32_t)row;
    }
}

/* Returns the cached order of an epoch, or else the oldest that nobody uses. NULL: the caller must wait, because
 * another thread shuffles this epoch, or all orders are in use. */
static Order *find_order(SlmDataset *d, int64_t epoch) {
    Order *oldest = NULL;
    for (Order *o = d->orders; o < d->orders + ORDERS; o++) {
        if (o->epoch == epoch) return o->ready ? o : NULL;
        if (!o->users && (!oldest || o->epoch < oldest->epoch)) oldest = o;
    }
    return oldest;
}

/* Returns the order of an epoch, to be given back with order_release. A thread that waits holds no order, so those that
 * it waits for come back. */
static Order *order_take(SlmDataset *d, int64_t epoch) {
    Order *order;
    pthread_mutex_lock(&d->lock);
    while (!(order = find_order(d, epoch))) pthread_cond_wait(&d->changed, &d->lock);
    order->users++;
    if (order->epoch != epoch) {
        order->epoch = epoch;
        order->ready = false;
        pthread_mutex_unlock(&d->lock);
        shuffle_pieces(d, order);
        pthread_mutex_lock(&d->lock);
        order->ready = true;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return order;
}

static void order_release(SlmDataset *d, Order *order) {
    pthread_mutex_lock(&d->lock);
    if (!--order->users) pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* ---- what does not depend on the epoch ---- */

/* Returns the rows of a sample, if the stream is cut in its own order. */
static Span span_of(const SlmDataset *d, int64_t sample) {
    if (d->piece && !d->shuffled) return (Span){d->piece[sample], d->piece[sample + 1]};
    int64_t begin = sample * d->options.context;
    return (Span){begin, least(begin + d->options.context, d->rows)};
}

static int64_t slm_tokens(const Dataset *dataset, int64_t sample) {
    Span span = span_of(dataset->state, sample);
    return span.end - span.begin;
}

static void slm_counts(const Dataset *dataset, int64_t sample, double *counts) {
    const SlmDataset *d = dataset->state;
    Span span = span_of(d, sample);
    counts[SLM_COUNT_TOKENS] += (double)(span.end - span.begin);
    counts[SLM_COUNT_BYTES] += span_bytes(d->stream, span);
}

static const char *slm_sample_id(const Dataset *dataset, int64_t sample) {
    static _Thread_local char id[96];
    const SlmDataset *d = dataset->state;
    Span span = span_of(d, sample);
    if (d->shuffled || d->options.sampling == SLM_RANDOM) {
        snprintf(id, sizeof id, "%s sample %lld", d->shuffled ? "shuffled" : "random", (long long)sample);
        return id;
    }
    int64_t one = document_at(d->stream, span.begin), last = document_at(d->stream, span.end - 1);
    long long token = (long long)(span.begin - d->stream->first[one]), n = (long long)(span.end - span.begin);
    if (one == last)
        snprintf(id, sizeof id, "document %lld, tokens %lld..%lld", (long long)one, token, token + n - 1);
    else
        snprintf(id, sizeof id, "document %lld, token %lld to document %lld, %lld tokens", (long long)one, token,
                 (long long)last, n);
    return id;
}

/* Covers the ids of the sample's part of the unshuffled stream, and the token behind it; together, all ids. */
static uint64_t slm_content(const Dataset *dataset, int64_t sample) {
    enum { BLOCK = 4096 };
    const SlmDataset *d = dataset->state;
    int32_t ids[BLOCK];
    Span span = span_of(d, sample);
    if (sample == d->n_samples - 1) span.end = d->rows; /* random places reach beyond the last whole context */
    uint64_t sum = d->structure;
    for (int64_t at = span.begin; at <= span.end; at += BLOCK) {
        int64_t n = least(BLOCK, span.end + 1 - at);
        slm_stream_read(d->stream, at, n, ids);
        sum = checksum(sum, ids, (size_t)n * sizeof *ids);
    }
    return sum;
}

/* Returns the bytes of the fields, and of the unused rest of their last lines. */
static size_t fields_bytes(int64_t rows, int64_t sequences) {
    return 4 * (size_t)(3 * rows + sequences + 1) + (size_t)SLM_FIELDS * BATCH_LINE;
}

static size_t slm_batch_bytes(const Dataset *dataset, const int32_t *samples, int n) {
    const SlmDataset *d = dataset->state;
    int64_t rows = 0;
    for (int i = 0; i < n; i++) rows += slm_tokens(dataset, samples[i]);
    return fields_bytes(rows, n * d->max_sequences);
}

/* ---- batches ---- */

/* The fields of a batch, and how far they are filled. */
typedef struct {
    const SlmStream *stream;
    int32_t *offsets, *ids, *positions, *targets;
    int64_t n_sequences, n;
    double bytes;
} Rows;

static Rows push_rows(const SlmStream *stream, Batch *batch, int64_t sequences, int64_t n) {
    Rows rows = {.stream = stream};
    rows.offsets = batch_push_1d(batch, SLM_OFFSETS, DTYPE_I32, sequences + 1).data;
    rows.ids = batch_push_1d(batch, SLM_IDS, DTYPE_I32, n).data;
    rows.positions = batch_push_1d(batch, SLM_POSITIONS, DTYPE_I32, n).data;
    rows.targets = batch_push_1d(batch, SLM_TARGETS, DTYPE_I32, n).data;
    batch->n_tokens = n;
    return rows;
}

static void begin_sequence(Rows *rows) { rows->offsets[rows->n_sequences++] = (int32_t)rows->n; }

static void add_span(Rows *rows, Span span) {
    int64_t n = span.end - span.begin;
    slm_stream_read(rows->stream, span.begin, n, rows->ids + rows->n);
    slm_stream_read(rows->stream, span.begin + 1, n, rows->targets + rows->n);
    rows->bytes += span_bytes(rows->stream, span);
    rows->n += n;
}

/* Ends the last sequence, and counts positions in all of them. */
static void end_rows(Rows *rows) {
    rows->offsets[rows->n_sequences] = (int32_t)rows->n;
    for (int64_t s = 0; s < rows->n_sequences; s++)
        for (int32_t row = rows->offsets[s]; row < rows->offsets[s + 1]; row++)
            rows->positions[row] = row - rows->offsets[s];
}

static void add_shuffled(const SlmDataset *d, Rows *rows, const Order *order, int64_t sample) {
    Span whole = span_of(d, sample);
    int64_t rank = order->start[sample].rank, row = order->start[sample].row, left = whole.end - whole.begin;
    begin_sequence(rows);
    for (; left; rank++, row = 0) {
        const int64_t *piece = d->piece + order->pieces[rank];
        Span span = {piece[0] + row, least(piece[1], piece[0] + row + left)};
        add_span(rows, span);
        left -= span.end - span.begin;
    }
}

static Span random_span(const SlmDataset *d, int64_t epoch, int64_t sample) {
    int64_t begin = philox_below(d->options.seed, PURPOSE_PLACES, (uint32_t)epoch, (uint64_t)sample,
                                 d->stream->n_tokens - d->options.context);
    return (Span){begin, begin + d->options.context};
}

/* Adds a span cut into sequences, or if rows is NULL counts them. Returns how many they are. */
static int64_t add_sequences(const SlmDataset *d, Rows *rows, Span span) {
    int64_t n = 0;
    bool cut = d->options.separate && d->options.sampling == SLM_RANDOM;
    for (Span part = span; part.begin < span.end; part.begin = part.end, n++) {
        part.end = cut ? document_end(d->stream, (Span){part.begin, span.end}) : span.end;
        if (!rows) continue;
        begin_sequence(rows);
        add_span(rows, part);
    }
    return n;
}

/* Returns the rows of a sample of an epoch that is not shuffled. */
static Span span_in(const SlmDataset *d, int64_t epoch, int64_t sample) {
    return d->options.sampling == SLM_RANDOM ? random_span(d, epoch, sample) : span_of(d, sample);
}

static bool slm_fill(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error) {
    SlmDataset *d = dataset->state;
    (void)error; /* the stream has been read */
    int64_t total = 0, sequences = 0;
    for (int i = 0; i < n; i++) {
        total += slm_tokens(dataset, samples[i]);
        sequences += d->shuffled ? 1 : add_sequences(d, NULL, span_in(d, batch->epoch, samples[i]));
    }
    Rows rows = push_rows(d->stream, batch, sequences, total);
    Order *order = d->shuffled ? order_take(d, batch->epoch) : NULL;
    for (int i = 0; i < n; i++) {
        if (order)
            add_shuffled(d, &rows, order, samples[i]);
        else
            add_sequences(d, &rows, span_in(d, batch->epoch, samples[i]));
        batch->samples[i] = samples[i];
    }
    if (order) order_release(d, order);
    end_rows(&rows);
    batch->n_sequences = n;
    batch->counts[SLM_COUNT_TOKENS] += (double)total;
    batch->counts[SLM_COUNT_BYTES] += rows.bytes;
    return true;
}

/* ---- opening ---- */

static void slm_close(Dataset *dataset) {
    SlmDataset *d = dataset->state;
    for (Order *o = d->orders; o < d->orders + ORDERS; o++) {
        free(o->pieces);
        free(o->start);
    }
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->changed);
    slm_stream_close(d->own);
    free(d->piece);
    free(d);
    free(dataset);
}

static Dataset *dataset_of(SlmDataset *d) {
    static const char *const field_names[SLM_FIELDS] = {
        [SLM_OFFSETS] = "offsets", [SLM_IDS] = "ids", [SLM_POSITIONS] = "positions", [SLM_TARGETS] = "targets"};
    return dataset_new((Dataset){.n_samples = d->n_samples,
                                 .field_names = field_names,
                                 .tokens = slm_tokens,
                                 .counts = slm_counts,
                                 .sample_id = slm_sample_id,
                                 .content = slm_content,
                                 .fill = slm_fill,
                                 .batch_bytes = slm_batch_bytes,
                                 .close = slm_close,
                                 .state = d});
}

static int64_t count_pieces(const SlmStream *stream, int64_t context) {
    int64_t n = 0;
    for (int64_t i = 0; i < stream->n_documents; i++)
        n += (stream->first[i + 1] - stream->first[i] + context - 1) / context;
    return n;
}

static void make_pieces(SlmDataset *d) {
    int64_t n = 0;
    d->piece = xmalloc((size_t)(d->n_pieces + 1) * sizeof *d->piece);
    for (int64_t i = 0; i < d->stream->n_documents; i++)
        for (int64_t at = d->stream->first[i]; at < d->stream->first[i + 1]; at += d->options.context)
            d->piece[n++] = at;
    d->piece[n] = d->rows;
}

static void make_orders(SlmDataset *d) {
    for (Order *o = d->orders; o < d->orders + ORDERS; o++) {
        o->epoch = -1;
        o->pieces = xmalloc((size_t)d->n_pieces * sizeof *o->pieces);
        o->start = xmalloc((size_t)d->n_samples * sizeof *o->start);
    }
}

Dataset *slm_dataset_open(const SlmStream *stream, const SlmDatasetOptions *options, Error *error) {
    bool random = options->sampling == SLM_RANDOM, of_pieces = options->separate && !random;
    int64_t context = options->context, rows = stream->n_tokens - 1, n_pieces = count_pieces(stream, context);
    int64_t n_samples = of_pieces ? n_pieces : random ? rows / context : (rows + context - 1) / context;
    bool ok = true;
    if (random && n_samples < 1)
        ok = error_set(
            error,
            "there are %lld tokens, and random places for a context of %lld need at least %lld: lower the context, "
            "give more text, or sample by epochs",
            (long long)stream->n_tokens, (long long)context, (long long)context + 1);
    else if (n_samples < 1)
        ok = error_set(error, "there are %lld tokens, and at least 2 are needed, one to predict the other",
                       (long long)stream->n_tokens);
    else if (n_samples > INT32_MAX || n_pieces > INT32_MAX)
        ok = error_set(error, "a context of %lld divides %lld tokens into %lld pieces, more than %d: raise the context",
                       (long long)context, (long long)stream->n_tokens, (long long)n_pieces, INT32_MAX);
    if (!ok) return NULL;
    assert(stream->first[0] == 0 && stream->first[stream->n_documents] == rows);
    SlmDataset *d = xcalloc(1, sizeof *d);
    *d = (SlmDataset){.stream = stream,
                      .options = *options,
                      .shuffled = options->sampling == SLM_EPOCH && !options->separate,
                      .rows = rows,
                      .n_samples = n_samples,
                      .n_pieces = n_pieces,
                      .max_sequences = random && options->separate ? most_documents(stream, context) : 1,
                      .structure = checksum(0, stream->first, (size_t)(stream->n_documents + 1) * sizeof(int64_t))};
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    if (of_pieces || d->shuffled) make_pieces(d);
    if (d->shuffled) make_orders(d);
    return dataset_of(d);
}

Dataset *slm_dataset_synthetic(int context, int64_t n_samples, int vocabulary) {
    int64_t n = n_samples * context + 1;
    OWNED int32_t *ids = xmalloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)philox_below(0, PURPOSE_SYNTHETIC, 0, (uint64_t)i, vocabulary);
    SlmStream *stream = slm_stream_of(ids, n, (const int64_t[]){0, n - 1}, NULL, 1, vocabulary, -1);
    Dataset *dataset = slm_dataset_open(stream, &(SlmDatasetOptions){context, SLM_ORDER, false, 0}, NULL);
    assert(dataset);
    ((SlmDataset *)dataset->state)->own = stream;
    return dataset;
}

/* ---- the largest batch ---- */

Batch slm_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    const SlmDataset *d = dataset->state;
    BatchBounds b = batch_bounds(dataset, batch_size, token_budget);
    int64_t sequences = batch_bounds_fit(&b, b.samples * d->max_sequences);
    Batch batch = batch_open(fields_bytes(b.rows, sequences), (int)b.samples);
    Rows rows = push_rows(d->stream, &batch, sequences, b.rows);
    memset(rows.ids, 0, (size_t)b.rows * sizeof *rows.ids);
    memset(rows.targets, 0, (size_t)b.rows * sizeof *rows.targets);
    batch_bounds_offsets(&b, sequences, rows.offsets);
    rows.n_sequences = sequences;
    rows.n = b.rows;
    end_rows(&rows);
    batch.n_sequences = (int)b.samples;
    batch.counts[SLM_COUNT_TOKENS] = (double)b.rows;
    return batch;
}
