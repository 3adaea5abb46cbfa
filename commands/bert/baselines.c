/* train_bert baselines: the class that most texts have, and a logistic regression on the words of a text. */
#include "commands/bert/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/options.h"
#include "commands/bert/data.h"
#include "data/bert/bag_of_words.h"
#include "report/evaluation.h"
#include "report/sparse_logistic.h"

typedef struct {
    const char *data, *labels;
    BertTextOptions text;
} Options;

#define FIELD(name) offsetof(Options, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "data", .heading = "Data", .letter = 'd', .type = OPTION_TEXT, .offset = FIELD(data), .metavar = "DIR", .required = true,
     .positional = true, .help = "folder with files train, valid (or dev) and test (" COMMENTS_LABELLED ")"},
    {.name = "labels", .type = OPTION_TEXT, .offset = FIELD(labels), .metavar = "A,B,...",
     .help = "names of the classes in their order; default: those of the training texts, numbers in ascending order"},
};
// clang-format on

typedef struct {
    Classes classes;
    Comments comments[BERT_SPLITS];
    int32_t *labels[BERT_SPLITS];
} Texts;

static Texts read_texts(const Options *o) {
    static const char *const names[] = {"train", "valid", "test"};
    const CommentColumns columns = bert_text_columns(&o->text);
    Texts t = {.classes = {0}};
    for (int s = 0; s < BERT_SPLITS; s++) {
        Comments *comments = &t.comments[s];
        OWNED char *path = bert_split_file(o->data, s);
        if (!path)
            die("%s: there is no file %s in it, such as %s.csv", o->data, names[s], names[s]);
        else
            MUST(comments_read(path, &columns, LABELS_NEEDED, comments, &error));
        bert_print_left_out(comments->path, &comments->counts);
        if (s == BERT_TRAIN) MUST(classes_make(o->labels, o->text.merge_labels, comments, &t.classes, &error));
        t.labels[s] = xcalloc((size_t)comments->n, sizeof *t.labels[s]);
        MUST(classes_assign(&t.classes, comments, t.labels[s], &error) &&
             classes_check(&t.classes, t.labels[s], comments->n, path, &error));
        bert_print_labels(comments->path, &comments->counts);
    }
    return t;
}

static void close_texts(Texts *t) {
    for (int s = 0; s < BERT_SPLITS; s++) {
        comments_free(&t->comments[s]);
        free(t->labels[s]);
    }
    classes_free(&t->classes);
}

/* Returns the scores of logits[n, classes] on a split. */
static MetricsScores score(const Texts *t, int split, const double *logits) {
    int64_t n = t->comments[split].n, *ids = xcalloc((size_t)n, sizeof *ids);
    Evaluation evaluation;
    for (int64_t i = 0; i < n; i++) ids[i] = t->comments[split].lines[i];
    const Predictions predictions = {.n = n,
                                     .classes = t->classes.n,
                                     .class_names = (const char *const *)t->classes.names,
                                     .logits = logits,
                                     .truth = t->labels[split],
                                     .ids = ids};
    MUST_OR(evaluation_make(&predictions, 1, &evaluation, &error), "%s: %s", t->comments[split].path, error.text);
    MetricsScores scores = evaluation.scores;
    evaluation_free(&evaluation);
    free(ids);
    return scores;
}

static void print_scores(const char *model, const MetricsScores *scores) {
    printf("%-16s %8.4f %9.4f", model, scores->accuracy, scores->macro_all.f1);
}

static void print_majority(const Texts *t) {
    int64_t *counts = xcalloc((size_t)t->classes.n, sizeof *counts), n = t->comments[BERT_TEST].n;
    int most = 0;
    classes_count(t->labels[BERT_TRAIN], t->comments[BERT_TRAIN].n, counts);
    for (int c = 1; c < t->classes.n; c++) most = counts[c] > counts[most] ? c : most;
    OWNED double *logits = xcalloc((size_t)(n * t->classes.n), sizeof *logits);
    for (int64_t i = 0; i < n; i++) logits[i * t->classes.n + most] = 1;
    MetricsScores scores = score(t, BERT_TEST, logits);
    print_scores("majority", &scores);
    printf("  always %s\n", t->classes.names[most]);
    free(counts);
}

static MetricsScores score_model(const Texts *t, int split, const SparseLogistic *model, const SparseRows *rows) {
    OWNED double *logits = xcalloc((size_t)(rows->n * model->classes), sizeof *logits);
    sparse_logistic_logits(model, rows, logits);
    return score(t, split, logits);
}

/* Fits with each penalty, and prints the test scores of the fit that has the best macro F1 on the validation texts. */
static void print_words(const Texts *t, const char *name, int longest) {
    static const double inverse_penalties[] = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
    Strings words = {0};
    SparseRows rows[BERT_SPLITS];
    MetricsScores tested = {.rows = 0};
    double best_f1 = -1, best_penalty = 0;
    for (int s = 0; s < BERT_SPLITS; s++)
        rows[s] =
            bag_of_words(&words, (const char *const *)t->comments[s].texts, t->comments[s].n, longest, s == BERT_TRAIN);
    for (size_t i = 0; i < sizeof inverse_penalties / sizeof *inverse_penalties; i++) {
        SparseLogistic model;
        MUST_OR(sparse_logistic_fit(&rows[BERT_TRAIN], t->labels[BERT_TRAIN], t->classes.n, words.n,
                                    inverse_penalties[i], &model, &error),
                "%s, C = %g: %s", name, inverse_penalties[i], error.text);
        MetricsScores validated = score_model(t, BERT_VALIDATION, &model, &rows[BERT_VALIDATION]);
        if (validated.macro_all.f1 > best_f1) {
            best_f1 = validated.macro_all.f1;
            best_penalty = inverse_penalties[i];
            tested = score_model(t, BERT_TEST, &model, &rows[BERT_TEST]);
        }
        sparse_logistic_free(&model);
    }
    print_scores(name, &tested);
    printf("  logistic regression on %u features, C = %g; validation macro F1 %.4f\n", words.n, best_penalty, best_f1);
    for (int s = 0; s < BERT_SPLITS; s++) sparse_rows_free(&rows[s]);
    strings_free(&words);
}

int bert_baselines(int argc, char **argv) {
    static const OptionsHeader header = {
        "train_bert baselines", "DIR [options]", "comments",
        "Scores the most frequent class, and logistic regressions that only count words, on the test texts: a trained "
        "encoder must beat them."};
    static const char *const of_texts[] = {"text-column", "label-column", "empty", "skip-bad", "merge-labels", NULL};
    Options o = {0};
    OptionSet set = {0};
    options_add(&set, table, sizeof table / sizeof *table, &o);
    options_add_config(&set);
    int first = set.count;
    bert_text_options_add(&set, &o.text);
    options_keep(&set, first, of_texts);
    options_parse(&header, &set, argc, argv);
    Texts texts = read_texts(&o);
    printf("[Data] %s: %lld texts to train on, %lld to validate, %lld to test; %d classes\n", o.data,
           (long long)texts.comments[BERT_TRAIN].n, (long long)texts.comments[BERT_VALIDATION].n,
           (long long)texts.comments[BERT_TEST].n, texts.classes.n);
    printf("%-16s %8s %9s\n", "baseline", "accuracy", "macro F1");
    print_majority(&texts);
    print_words(&texts, "words", 1);
    print_words(&texts, "words and pairs", 2);
    close_texts(&texts);
    options_free(&set, argc, argv);
    return 0;
}
