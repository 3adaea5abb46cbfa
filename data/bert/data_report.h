/* Reports on the texts before a model is trained on them: prints, and collects data_report.json. */
#pragma once

#include "base/json.h"
#include "data/bert/classes.h"
#include "data/bert/texts.h"

typedef struct {
    const char *name; /* "train", "validation", "test" */
    int64_t n;
    const char *const *texts; /* [n] */
    const TokenizedTexts *tokenized;
    const int32_t *labels; /* [n]; NULL: none */
} BertReportSplit;

/* Adds, for each split: label mix, lengths with a histogram, divided and truncated texts, unknown tokens, texts that
 * occur more than once and how many of them have different labels; for the first split also the rows of padding that
 * packing avoids, as a share of batches of batch_size random texts padded to the longest, rounded up to a multiple of
 * 8; for each pair of splits the texts of the later one that also occur in the earlier one. Returns the number of
 * warnings. */
int bert_data_report(json_t *report, const BertReportSplit *splits, int n, const Classes *classes, int batch_size,
                     uint64_t seed);
