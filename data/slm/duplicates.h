/* Finds documents that are there more than once.
 *
 * Exact: the same text, by its 64-bit hash. Near: most of the text is the same. Only letters and digits of a text
 * count, in lower case; its shingles are all runs of 24 of them. Two documents are near-identical if they share about
 * 80 % of the shingles that either has (Jaccard similarity), estimated from 64 minima of hashed shingles
 * (one-permutation MinHash): 52 of the 64 must agree. A spread of spaces, line breaks, punctuation or capitals does not
 * matter; a misread letter costs 24 shingles. Candidates are found by 16 bands of four minima each; of
 * the documents with the same band only the first 32 are. The first of several documents stays, so the result depends
 * on their order only. */
#pragma once

#include "base/base.h"

typedef enum { DUPLICATES_KEEP, DUPLICATES_EXACT, DUPLICATES_NEAR } Duplicates;

enum { SIGNATURE_MINIMA = 64 };

/* The numbers that decide whether a document is the same as another. */
typedef struct {
    uint64_t hash;                     /* of the whole text */
    uint32_t minima[SIGNATURE_MINIMA]; /* only for DUPLICATES_NEAR */
} Signature;

/* Computes the signature of UTF-8 text. */
void signature_compute(const char *text, size_t size, bool near, Signature *signature);

typedef enum { SEEN_NEW, SEEN_EXACT, SEEN_NEAR } Seen;
typedef struct SeenDocuments SeenDocuments;

SeenDocuments *seen_open(Duplicates duplicates);
void seen_close(SeenDocuments *seen);
/* Returns whether a document like this one was added before; if not, adds it. 16 bytes per document, or about 500 for
 * DUPLICATES_NEAR. */
Seen seen_add(SeenDocuments *seen, const Signature *signature);
