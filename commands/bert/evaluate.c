/* train_bert evaluate: scores, tables and diagrams of a classifier on labelled texts.
 *
 *   ./train_bert evaluate --checkpoint run --data comments/test.csv -o evaluation */
#include "commands/bert/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "commands/bert/classifier.h"
#include "commands/bert/options.h"
#include "commands/bert/report.h"
#include "commands/trained.h"
#include "page/page.h"

typedef struct {
    BertUse use;
    const char *checkpoint, *data, *output, *name;
} Evaluate;

#define FIELD(name) offsetof(Evaluate, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "checkpoint", .heading = "Model", .type = OPTION_TEXT, .offset = FIELD(checkpoint), .metavar = "PATH", .required = true,
     .help = "the trained model: the folder of a run (its best weights are taken), a checkpoint, an export, or a file "
             "of weights, also of Hugging Face's transformers"},
    {.name = "data", .heading = "Data", .letter = 'd', .type = OPTION_TEXT, .offset = FIELD(data), .metavar = "PATH", .required = true,
     .help = "labelled texts: " COMMENTS_LABELLED},
    {.name = "output", .heading = "Files", .usual = true, .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .default_value = "evaluation",
     .metavar = "DIR", .help = "folder for tables, diagrams and report.html"},
    {.name = "name", .type = OPTION_TEXT, .offset = FIELD(name), .metavar = "NAME",
     .help = "what the reports call these texts; default: the name of the file, without its end"},
};
// clang-format on

/* Returns the name of the texts; free(). */
static char *name_of(const Evaluate *e) {
    const char *name = path_name(e->data);
    size_t stem = comments_stem(name); /* 0: the name is an ending alone */
    if (e->name) return xstrdup(e->name);
    return stem ? xformat("%.*s", (int)stem, name) : xstrdup("texts");
}

static void print_decision(const BertClassifier *c, bool given) {
    if (c->base.classes.n == 2)
        printf("[Decision] %s if p > %.4f%s\n", c->base.classes.names[1], c->decision.threshold,
               given              ? " (given)"
               : c->decision.kept ? ", chosen on validation texts"
                                  : ": none was chosen for these weights");
}

static void evaluate(const Evaluate *e, BertClassifier *c, Comments *comments) {
    const Classes *classes = &c->base.classes;
    OWNED char *name = name_of(e);
    BertTested tested = {.name = name,
                         .classes = classes,
                         .n = comments->n,
                         .texts = (const char *const *)comments->texts,
                         .lines = comments->lines};
    OWNED int32_t *labels = xmalloc((size_t)comments->n * sizeof *labels);
    OWNED float *logits = xmalloc((size_t)(comments->n * classes->n) * sizeof *logits);
    c->base.classes.merge = e->use.text.merge_labels;
    MUST(classes_assign(classes, comments, labels, &error));
    bert_print_labels(comments->path, &comments->counts);
    double start = seconds_now();
    bert_classifier_logits(c, tested.texts, tested.n, logits);
    double seconds = seconds_now() - start;
    bert_classifier_print(c);
    printf("[Eval] %lld texts in %.2f s: %.0f a second\n", (long long)tested.n, seconds, (double)tested.n / seconds);
    print_decision(c, e->use.threshold > 0);
    tested.labels = labels;
    tested.logits = logits;
    OWNED char *cause = chance_cause(c->checkpoint, BERT_USUAL_RATES, "--epochs");
    tested.cause = cause;
    MUST(bert_report(&tested, &c->decision, e->output, NULL, &error));
}

int bert_evaluate(int argc, char **argv) {
    static const OptionsHeader header = {"train_bert evaluate", "--checkpoint run --data FILE [options]",
                                         "--checkpoint run --data test.csv",
                                         "Evaluates a classifier on labelled texts."};
    static Evaluate e; /* static: texts of a YAML file live as long as the process */
    Comments comments;
    BertClassifier classifier;
    options_add(&e.use.set, table, sizeof table / sizeof *table, &e);
    bert_use_options(&e.use, true);
    options_parse(&header, &e.use.set, argc, argv);
    OWNED char *checkpoint = trained_checkpoint(e.checkpoint);
    bert_use_adopt_columns(&e.use, checkpoint);
    const CommentColumns columns = bert_text_columns(&e.use.text);
    MUST_OR(comments_read(e.data, &columns, LABELS_NEEDED, &comments, &error), "--data: %s", error.text);
    bert_print_left_out(comments.path, &comments.counts);
    bert_use_open(&e.use);
    make_directories(e.output);
    directory_remove_leftovers(e.output);
    bert_classifier_open(&classifier, checkpoint, &e.use);
    bert_base_refuse_multi_label(&classifier.base, "--checkpoint", "train_bert predict writes what it says of texts");
    evaluate(&e, &classifier, &comments);
    page_write_or_warn(e.output, PAGE_DEPTH, false);
    bert_classifier_close(&classifier);
    comments_free(&comments);
    bert_use_close(&e.use, argc, argv);
    return 0;
}
