/* train_bert predict: the classes of texts, by one classifier or the mean of several.
 *
 *   ./train_bert predict --checkpoint run new.csv -o predictions.csv
 *   tail -f comments.log | ./train_bert predict --checkpoint run - -o - --format jsonl
 *
 * Lines of standard input are answered as soon as no more are ready. */
#include "commands/bert/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/bert/classifier.h"
#include "commands/predict.h"
#include "report/metrics.h"

typedef struct {
    BertUse use;
    PredictOptions predict;
    OptionList inputs;
    bool with_text;
    Ensemble ensemble;
    BertClassifier *models; /* [ensemble.n], of the same classes */
    bool calibrated;        /* all models have a temperature */
    double threshold;       /* the mean; NaN: there are more than two classes, of which one is predicted */
    int64_t *counts;        /* [classes] predictions so far */
    PredictOutput output;
    Table table;
} Predict;

#define FIELD(name) offsetof(Predict, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "input", .heading = "Data", .type = OPTION_LIST, .offset = FIELD(inputs), .metavar = "PATH", .positional = true,
     .help = "the texts: " COMMENTS_ANY "; -: standard input, an object per line if it begins with {, otherwise a text "
             "per line; repeatable"},
    {.name = "text", .heading = "Files", .type = OPTION_FLAG, .offset = FIELD(with_text), .default_value = "true",
     .help = "write each text beside its prediction"},
};
// clang-format on

/* ---- the models ---- */

static void check_classes(const Predict *p, const BertClassifier *other) {
    const BertClassifier *first = &p->models[0];
    const Classes *a = &first->base.classes, *b = &other->base.classes;
    bool same = a->n == b->n;
    for (int c = 0; same && c < a->n; c++) same = !strcmp(a->names[c], b->names[c]);
    if (!same)
        die("%s and %s have other classes, or in another order: they cannot predict together", first->checkpoint,
            other->checkpoint);
    if (first->base.multi_label != other->base.multi_label)
        die("of %s and %s one decides each class by itself (problem_type): they cannot predict together",
            first->checkpoint, other->checkpoint);
}

static void open_models(Predict *p) {
    int n = p->ensemble.n, calibrated = 0;
    p->models = xcalloc((size_t)n, sizeof *p->models);
    for (int k = 0; k < n; k++) {
        BertClassifier *c = &p->models[k];
        bert_classifier_open(c, p->ensemble.paths[k], &p->use);
        check_classes(p, c);
        p->threshold += c->decision.threshold / n;
        calibrated += !isnan(c->decision.temperature);
        printf("[Predict] %s: %s%s\n", c->checkpoint,
               isnan(c->decision.temperature) ? "no temperature" : "with a temperature",
               isnan(c->decision.threshold) ? ""
               : p->use.threshold > 0       ? ", threshold as given"
               : c->decision.kept           ? ", threshold chosen on validation texts"
                                            : ", no threshold was chosen: 0.5");
    }
    p->calibrated = calibrated == n;
    if (p->models->base.multi_label)
        printf("[Predict] each class by itself (problem_type): predicted are all whose p is above %g\n", p->threshold);
    if (calibrated && !p->calibrated)
        warn("%d of %d models have a temperature: no calibrated probabilities are written", calibrated, n);
    p->counts = xcalloc((size_t)p->models[0].base.classes.n, sizeof *p->counts);
}

static void close_models(Predict *p) {
    for (int k = 0; k < p->ensemble.n; k++) bert_classifier_close(&p->models[k]);
    FREE(p->models, p->counts);
}

/* ---- texts ---- */

/* Predictions of some texts. */
typedef struct {
    int classes;
    double *p, *calibrated; /* [n, classes] means over the models */
    int32_t *own;           /* [models, n] the class that each model predicts by itself */
} Block;

static void add_mean(const Predict *predict, double *mean, const double *logits, int64_t n, int classes,
                     double temperature, double *p) {
    int models = predict->ensemble.n;
    MUST(predict->models->base.multi_label ? metrics_sigmoid(logits, n, classes, p, &error)
                                           : metrics_softmax(logits, n, classes, temperature, p, &error));
    for (int64_t i = 0; i < n * classes; i++) mean[i] += p[i] / models;
}

static Block predict_block(Predict *p, const char *const *texts, int64_t n) {
    int classes = p->models[0].base.classes.n, models = p->ensemble.n;
    size_t count = (size_t)(n * classes);
    Block b = {.classes = classes,
               .p = xcalloc(count, sizeof *b.p),
               .calibrated = xcalloc(count, sizeof *b.calibrated),
               .own = xmalloc((size_t)(models * n) * sizeof *b.own)};
    OWNED float *outputs = xmalloc(count * sizeof *outputs);
    OWNED double *logits = xmalloc(count * sizeof *logits), *own = xmalloc(count * sizeof *own);
    for (int k = 0; k < models; k++) {
        BertClassifier *c = &p->models[k];
        bert_classifier_logits(c, texts, n, outputs);
        for (size_t i = 0; i < count; i++) logits[i] = (double)outputs[i];
        if (p->calibrated) add_mean(p, b.calibrated, logits, n, classes, c->decision.temperature, own);
        add_mean(p, b.p, logits, n, classes, 1, own);
        for (int64_t i = 0; i < n; i++)
            b.own[k * n + i] = threshold_decide(c->decision.threshold, own + i * classes, classes);
    }
    return b;
}

/* Adds the names of all classes that are predicted, separated by |, and counts them. */
static void add_labels(Predict *p, const double *probabilities, int classes) {
    OWNED char *names = xstrdup("");
    for (int c = 0; c < classes; c++) {
        if (!(probabilities[c] > p->threshold)) continue;
        xappend(&names, "%s%s", *names ? "|" : "", p->models[0].base.classes.names[c]);
        p->counts[c]++;
    }
    table_text(&p->table, "predicted", names);
}

/* Adds the name of the class that is predicted, and counts it. Returns how many models predict it by themselves. */
static int64_t add_class(Predict *p, const double *probabilities, const Block *b, int64_t at, int64_t n) {
    int32_t predicted = threshold_decide(p->threshold, probabilities, b->classes);
    int64_t votes = 0;
    for (int k = 0; k < p->ensemble.n; k++) votes += b->own[k * n + at] == predicted;
    p->counts[predicted]++;
    table_text(&p->table, "predicted", p->models[0].base.classes.names[predicted]);
    return votes;
}

/* Adds the row of text i of comments; at: its place in the block of n. */
static void add_row(Predict *p, const Comments *comments, int64_t i, const Block *b, int64_t at, int64_t n) {
    Table *t = &p->table;
    const char *const *names = (const char *const *)p->models->base.classes.names;
    const double *probabilities = b->p + at * b->classes;
    int64_t votes = 0;
    if (p->inputs.count > 1) table_text(t, "file", comments->path);
    table_count(t, "line", comments->lines[i]);
    if (p->use.text.id_column) table_text(t, "id", comments->ids[i]);
    if (p->models->base.multi_label)
        add_labels(p, probabilities, b->classes);
    else
        votes = add_class(p, probabilities, b, at, n);
    table_reals(t, "p", names, probabilities, b->classes);
    if (p->calibrated) table_reals(t, "calibrated", names, b->calibrated + at * b->classes, b->classes);
    if (!isnan(p->threshold)) table_real(t, "threshold", p->threshold);
    if (p->ensemble.n > 1 && !p->models->base.multi_label) table_count(t, "votes", votes);
    if (p->with_text) table_text(t, "text", comments->texts[i]);
    predict_output_row(&p->output, t);
}

static void predict_comments(Predict *p, const Comments *comments) {
    enum { BLOCK = 8192 };
    for (int64_t first = 0, n; first < comments->n; first += n) {
        n = comments->n - first < BLOCK ? comments->n - first : BLOCK;
        Block b = predict_block(p, (const char *const *)comments->texts + first, n);
        for (int64_t i = 0; i < n; i++) add_row(p, comments, first + i, &b, i, n);
        FREE(b.p, b.calibrated, b.own);
    }
}

/* ---- inputs ---- */

static void predict_file(Predict *p, const char *path, const CommentColumns *columns) {
    Comments comments;
    MUST(comments_read(path, columns, LABELS_UNUSED, &comments, &error));
    bert_print_left_out(comments.path, &comments.counts);
    predict_comments(p, &comments);
    comments_free(&comments);
}

static void predict_input(Predict *p, const CommentColumns *columns) {
    CommentInput input = {0};
    Comments comments;
    for (bool more = true; more;) {
        MUST(comments_next(&input, columns, &comments, &error));
        predict_comments(p, &comments);
        predict_output_flush(&p->output, &p->table);
        more = comments.n > 0;
        comments_free(&comments);
    }
    bert_print_left_out("standard input", &input.counts);
    comments_input_close(&input);
}

static void predict_inputs(Predict *p) {
    const CommentColumns columns = bert_text_columns(&p->use.text);
    const Classes *classes = &p->models[0].base.classes;
    double start = seconds_now();
    for (int i = 0; i < p->inputs.count; i++)
        if (strcmp(p->inputs.text[i], "-") != 0)
            predict_file(p, p->inputs.text[i], &columns);
        else
            predict_input(p, &columns);
    double seconds = seconds_now() - start;
    bert_classifier_print(&p->models[0]);
    printf("[Predict] %.0f texts/s\n", (double)p->models[0].n / seconds);
    predict_print_counts(p->ensemble.n, (const char *const *)classes->names, p->counts, classes->n, "text");
}

int bert_predict(int argc, char **argv) {
    static const OptionsHeader header = {"train_bert predict", "--checkpoint PATH FILE|- [options]",
                                         "--checkpoint run new.jsonl -o predictions.csv",
                                         "Predicts the classes of texts."};
    static Predict p; /* static: texts of a YAML file live as long as the process */
    options_add(&p.use.set, table, sizeof table / sizeof *table, &p);
    predict_options_add(&p.use.set, &p.predict);
    bert_use_options(&p.use, false);
    options_parse(&header, &p.use.set, argc, argv);
    if (!p.inputs.count) die_usage("which texts? give files, or - for standard input");
    p.ensemble = predict_ensemble(&p.predict, "");
    bert_use_adopt_columns(&p.use, p.ensemble.paths[0]);
    p.output = predict_output_open(&p.predict);
    bert_use_open(&p.use);
    open_models(&p);
    predict_inputs(&p);
    predict_output_close(&p.output, &p.table);
    table_free(&p.table);
    close_models(&p);
    predict_ensemble_free(&p.ensemble);
    bert_use_close(&p.use, argc, argv);
    return 0;
}
