#include "data/slm/scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "data/split.h"

typedef struct {
    const ScanOptions *options;
    Scan *scan;
    SeenDocuments *seen;
    /* The documents with the least and the greatest hash of those that are kept. */
    int64_t least, greatest;
    int64_t least_bytes, greatest_bytes;
    uint64_t least_hash, greatest_hash;
} Scanner;

typedef struct {
    Signature signature;
    bool is_short, held_out;
} Result;

static int64_t count_characters(const char *text, size_t size, int64_t enough) {
    int64_t n = 0;
    for (size_t i = 0; i < size && n < enough; i++) {
        unsigned char byte = (unsigned char)text[i];
        n += (byte & 0xc0) != 0x80 && byte != ' ' && (byte < '\t' || byte > '\r');
    }
    return n;
}

static void inspect(void *context, int thread, const Document *d, void *result) {
    const ScanOptions *o = ((const Scanner *)context)->options;
    Result *r = result;
    char id[17];
    (void)thread;
    signature_compute(d->text, d->size, o->duplicates == DUPLICATES_NEAR, &r->signature);
    snprintf(id, sizeof id, "%016llx", (unsigned long long)r->signature.hash);
    r->is_short = count_characters(d->text, d->size, o->min_characters) < o->min_characters;
    r->held_out = d->file->held_out || split_is_validation(id, o->val_ratio);
}

static void keep_extremes(Scanner *s, const Document *d, uint64_t hash) {
    if (s->least < 0 || hash < s->least_hash) {
        s->least = d->number;
        s->least_hash = hash;
        s->least_bytes = (int64_t)d->size;
    }
    if (s->greatest < 0 || hash >= s->greatest_hash) {
        s->greatest = d->number;
        s->greatest_hash = hash;
        s->greatest_bytes = (int64_t)d->size;
    }
}

static bool decide(void *context, const Document *d, void *result, Error *error) {
    static const Fate of_seen[] = {[SEEN_NEW] = FATE_TRAIN, [SEEN_EXACT] = FATE_EXACT, [SEEN_NEAR] = FATE_NEAR};
    Scanner *s = context;
    Scan *scan = s->scan;
    const Result *r = result;
    (void)error;
    Fate fate = d->bad ? FATE_BAD : r->is_short ? FATE_SHORT : of_seen[seen_add(s->seen, &r->signature)];
    if (fate == FATE_TRAIN && r->held_out) fate = FATE_VAL;
    if (fate <= FATE_VAL) keep_extremes(s, d, r->signature.hash);
    scan->fates = xgrow(scan->fates, (size_t)scan->n, sizeof *scan->fates);
    scan->fates[scan->n++] = (unsigned char)fate;
    scan->counts[fate]++;
    scan->bytes[fate] += (int64_t)d->size;
    return true;
}

static void move(Scan *scan, int64_t document, int64_t bytes, Fate from, Fate to) {
    scan->fates[document] = (unsigned char)to;
    scan->counts[from]--;
    scan->counts[to]++;
    scan->bytes[from] -= bytes;
    scan->bytes[to] += bytes;
}

bool scan_documents(const Corpus *corpus, const ScanOptions *options, Scan *scan, Error *error) {
    Scanner s = {.options = options, .scan = scan, .seen = seen_open(options->duplicates), .least = -1, .greatest = -1};
    const CorpusPass pass = {
        .purpose = "Reading", .context = &s, .result_bytes = sizeof(Result), .work = inspect, .take = decide};
    *scan = (Scan){0};
    bool ok = corpus_pass(corpus, &pass, error);
    if (ok && options->val_ratio > 0 && scan->counts[FATE_TRAIN] + scan->counts[FATE_VAL] > 1) {
        if (!scan->counts[FATE_VAL]) move(scan, s.least, s.least_bytes, FATE_TRAIN, FATE_VAL);
        if (!scan->counts[FATE_TRAIN]) move(scan, s.greatest, s.greatest_bytes, FATE_VAL, FATE_TRAIN);
    }
    seen_close(s.seen);
    return ok;
}

void scan_close(Scan *scan) {
    free(scan->fates);
    *scan = (Scan){0};
}
