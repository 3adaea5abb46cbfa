/* The input of an evaluation, windows of ids that are made of texts or of questions, and the results made of their
 * losses. */
#pragma once

#include "base/options.h"
#include "data/slm/windows.h"
#include "data/text/tokenizer.h"
#include "data/text/unknown.h"
#include "report/table.h"

typedef struct {
    const Tokenizer *tokenizer;
    int64_t context; /* of the model */
    int32_t first;   /* the id that stands before a text, and behind it; -1: none */
    TokenIds ids;
    Unknown missing; /* of questions */
    SlmWindows windows;
} SlmScoring;

/* ---- texts ---- */

typedef struct {
    OptionList text;
    const char *input_format, *split_at, *text_field, *normalize, *documents;
    int64_t stride; /* 0: the context */
    int n_threads;
    bool skip_bad;
} SlmTexts;

/* Adds the windows of the texts; a window's owner is the number of its file. Returns what is known of the files, for
 * slm_texts_results. Dies on a file that cannot be read, and if there is nothing to predict. */
struct SlmTextFiles *slm_texts_open(const SlmTexts *texts, SlmScoring *scoring);
/* Fills a row per file, and one of all if there are several. losses [windows]: sums over their scored tokens. */
void slm_texts_results(const struct SlmTextFiles *files, const SlmScoring *scoring, const float *losses, Table *table);
void slm_texts_close(struct SlmTextFiles *files);

/* ---- multiple choice ---- */

/* Adds a window per ending of the questions in files of JSON records; a window's owner is the number of its question.
 * Dies with file and line if a question is not valid, unless it may be left out, or an ending is longer than the
 * context. */
struct SlmQuestions *slm_questions_open(const OptionList *files, bool skip_bad, SlmScoring *scoring);
/* Fills a row per question, and prints the accuracies of each file and of all. losses [windows]. */
void slm_questions_results(const struct SlmQuestions *questions, const SlmScoring *scoring, const float *losses,
                           Table *table);
void slm_questions_close(struct SlmQuestions *questions);
