#include "commands/bert/classifier.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "commands/adopt.h"
#include "commands/predict.h"
#include "commands/trained.h"
#include "data/bert/dataset.h"

#define FIELD(name) offsetof(BertUse, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "0", .max = 1000, .metavar = "N",
     .help = "attention heads of a model whose file does not tell them; 0: not needed"},
    {.name = "threshold", .type = OPTION_FLOAT, .offset = FIELD(threshold), .default_value = "0", .max = 1,
     .metavar = "X",
     .help = "two classes: the second is predicted if p > X; 0: the threshold that was chosen on validation texts, the "
             "mean of several models'; without one 0.5"},
};
// clang-format on

void bert_use_options(BertUse *use, bool labelled) {
    static const char *const plain[] = {"tokenizer",   "segment",   "max-len",  "normalize", "compat",
                                        "text-column", "id-column", "skip-bad", NULL},
                             *const with_labels[] = {
                                 "tokenizer",    "segment", "max-len",  "normalize",    "compat", "text-column",
                                 "label-column", "empty",   "skip-bad", "merge-labels", NULL};
    int first = use->set.count;
    static const OptionOverride texts = {
        .name = "batch-size", .default_value = "64", .min = 1, .metavar = "N", .help = "texts per batch"};
    bert_text_options_add(&use->set, &use->text);
    options_keep(&use->set, first, labelled ? with_labels : plain);
    options_add(&use->set, table, sizeof table / sizeof *table, use);
    predict_train_options_add(&use->set, &use->train);
    options_override(&use->set, &texts, 1);
}

void bert_use_adopt_columns(BertUse *use, const char *checkpoint) {
    CheckpointOptions from = {checkpoint, BERT_COLUMNS, json_object(), "its training", true};
    for (const char *const *name = BERT_COLUMNS; *name; name++) {
        const Option *option = options_find(&use->set, *name);
        OWNED char *text = option ? trained_text(checkpoint, *name) : NULL;
        if (option && !text) text = bert_exported_text(checkpoint, *name);
        if (text && strcmp(text, option->row.default_value) != 0)
            json_object_set_new(from.options, *name, json_string(text));
    }
    checkpoint_options_adopt(&from, &use->set, BERT_COLUMNS);
    json_decref(from.options);
}

void bert_use_open(BertUse *use) {
    train_options_resolve(&use->train, &use->set);
    use->train.val_batch_size = use->train.batch_size;
    use->device = train_device_open(&use->train, &use->device_why);
}

void bert_use_close(BertUse *use, int argc, char **argv) {
    device_close(use->device);
    options_free(&use->set, argc, argv);
}

/* ---- opening ---- */

static void read_decision(BertClassifier *c, const BertUse *use) {
    json_auto_t *root = NULL;
    int classes = c->base.classes.n;
    MUST(threshold_decision_read(c->checkpoint, classes, &c->decision, &root, &error));
    if (use->threshold > 0 && classes > 2 && !c->base.multi_label)
        die_usage("--threshold is for two classes, and %s has %d", c->checkpoint, classes);
    if (c->base.multi_label)
        c->decision = (ThresholdDecision){.threshold = use->threshold > 0 ? use->threshold : 0.5, .temperature = NAN};
    else if (classes > 2)
        c->decision.threshold = NAN;
    else if (use->threshold > 0)
        c->decision.threshold = use->threshold;
}

/* Returns texts that fill a batch, each as long as any can be. */
static TokenizedTexts widest_texts(int64_t n, int max_len) {
    TokenizedTexts texts = {.n = n,
                            .first = xmalloc((size_t)(n + 1) * sizeof *texts.first),
                            .ids = xcalloc((size_t)(n * max_len), sizeof *texts.ids)};
    for (int64_t i = 0; i <= n; i++) texts.first[i] = i * max_len;
    return texts;
}

static void open_model(BertClassifier *c, const BertUse *use) {
    BertConfig config = bert_base_config(&c->base);
    BertLoss loss = {.classes = config.classes};
    c->model = bert_open(&config);
    c->widest = widest_texts(c->train.val_batch_size, c->texts.rules.max_len);
    c->planned = bert_labelled_open(&c->widest, NULL, &loss);
    c->train.base_checkpoint = c->checkpoint;
    TrainSpec spec = {TRAINER_INFERENCE(&c->train, &use->set, use->device, use->device_why), .model = c->model,
                      .train = c->planned, .batch = {.largest = bert_largest_batch}, .import = BERT_IMPORT_CLASSIFIER};
    c->training = train_open_inference(&spec);
}

void bert_classifier_open(BertClassifier *c, const char *checkpoint, const BertUse *use) {
    *c = (BertClassifier){.checkpoint = checkpoint, .train = use->train};
    c->base = bert_base_read(checkpoint, &use->set);
    if (!c->base.classes.n)
        die("--checkpoint %s: it has no classifier (classifier.out_proj.weight): fine-tune it with train_bert "
            "--base-checkpoint",
            checkpoint);
    if (c->base.classes.n == 1)
        die("--checkpoint %s: its classifier has one output, a number: it predicts no classes", checkpoint);
    BertTextOptions text = bert_base_texts(&c->base, &use->set, &use->text);
    TokenizedModel model = {checkpoint, c->base.description, bert_base_config(&c->base).vocabulary};
    c->texts = bert_texts_open(&text, &model, (int)use->train.threads);
    bert_base_check_tokenizer(&c->base, &c->texts);
    read_decision(c, use);
    open_model(c, use);
}

void bert_classifier_close(BertClassifier *c) {
    train_close(c->training);
    c->planned->close(c->planned);
    c->model->close(c->model);
    texts_free(&c->widest);
    unknown_free(&c->missing);
    bert_texts_close(&c->texts);
    bert_base_close(&c->base);
}

/* ---- texts ---- */

static void add_block(BertClassifier *c, const char *const *texts, int64_t n, float *logits) {
    TokenizedTexts tokenized;
    BertLoss loss = {.classes = c->base.classes.n};
    MUST(texts_tokenize(texts, n, &c->texts.rules, &tokenized, &error));
    Dataset *dataset = bert_labelled_open(&tokenized, NULL, &loss);
    train_outputs(c->training, dataset, logits);
    dataset->close(dataset);
    c->n += n;
    c->truncated += tokenized.truncated;
    c->cut += tokenized.cut;
    c->unknown += tokenized.unknown;
    c->tokens += tokenized.first[n];
    c->empty += tokenized.empty;
    c->dropped += tokenized.dropped;
    unknown_move(&c->missing, &tokenized.missing);
    texts_free(&tokenized);
}

void bert_classifier_logits(BertClassifier *c, const char *const *texts, int64_t n, float *logits) {
    enum { BLOCK = 8192 };
    for (int64_t at = 0; at < n; at += BLOCK)
        add_block(c, texts + at, n - at < BLOCK ? n - at : BLOCK, logits + at * c->base.classes.n);
}

void bert_classifier_print(const BertClassifier *c) {
    const char *plural = format_plural(c->n);
    printf(
        "[Texts] %lld text%s, %lld tokens, %.2f %% of them unknown; cut at --max-len %d: %lld, which lost %lld tokens; "
        "without a token: %lld",
        (long long)c->n, plural, (long long)c->tokens, c->tokens ? 100 * (double)c->unknown / (double)c->tokens : 0,
        c->texts.rules.max_len, (long long)c->truncated, (long long)c->cut, (long long)c->empty);
    if (c->dropped) printf("; characters without a token, which are left out: %lld", (long long)c->dropped);
    putchar('\n');
    unknown_warn("the texts", &c->missing);
}
