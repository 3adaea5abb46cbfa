/* Decides what becomes of each document of a corpus: dropped, trained on, or held out for validation. */
#pragma once

#include "data/slm/corpus.h"
#include "data/slm/duplicates.h"

typedef enum { FATE_TRAIN, FATE_VAL, FATE_SHORT, FATE_EXACT, FATE_NEAR, FATE_BAD, FATES } Fate;

typedef struct {
    Duplicates duplicates;
    int64_t min_characters; /* drop documents with fewer, white space not counted */
    /* Share of the documents held out, by the hash of their text; with two or more documents at least one is held out,
     * and one is not. 0: only the documents of files that are held out. */
    double val_ratio;
} ScanOptions;

typedef struct {
    unsigned char *fates; /* [n] a Fate per document */
    int64_t n;
    int64_t counts[FATES], bytes[FATES]; /* documents; bytes of their text */
} Scan;

/* Goes through the corpus. Of equal documents the first stays: files that are held out come before the others. */
bool scan_documents(const Corpus *corpus, const ScanOptions *options, Scan *scan, Error *error);
/* Returns the fate of a document in a later pass. A file that has changed since may hold more documents than were
 * scanned, before the pass comes to its end and fails: those count as too short. */
static inline Fate scan_fate(const Scan *scan, const Document *document) {
    return document->number < scan->n ? (Fate)scan->fates[document->number] : FATE_SHORT;
}
void scan_close(Scan *scan);
