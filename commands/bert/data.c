#include "commands/bert/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "commands/class_weights.h"
#include "data/bert/data_report.h"
#include "report/table.h"

/* ---- tokenizer and segmenter ---- */

static void open_texts(BertData *data, BertOptions *o, const BertBase *base) {
    TokenizedModel model = {o->train.base_checkpoint, base->description, (int)o->vocabulary};
    data->texts = bert_texts_open(&o->text, model.checkpoint ? &model : NULL, (int)o->train.threads);
    bert_base_check_tokenizer(base, &data->texts);
    data->texts.rules.divide = o->pretraining; /* a label is of a whole text, masked words are of any */
    int64_t ids = tokenizer_vocabulary(data->texts.tokenizer);
    bert_options_set_tables(o, ids);
    printf("[Text] %s: %lld ids%s%s\n", tokenizer_file(data->texts.tokenizer), (long long)ids,
           data->texts.segmenter ? "; words are joined by the segmenter" : "",
           o->text.compat ? "; texts as Hugging Face's tokenizer reads them" : "");
    if (data->texts.segmenter) bert_segmenter_print(data->texts.segmenter, data->texts.segmenter_folder);
}

/* Returns whether a word or a piece of one joins syllables. */
static bool is_joined(const char *word, size_t size) { return size > 2 && memchr(word + 1, '_', size - 2); }

/* Says once what it costs that texts are not segmented as those were that the tokenizer was made of. */
static void print_unsegmented(const BertData *data) {
    enum { SEGMENTED_PERCENT = 5 };
    static const char white[] = " \t\r\n";
    int64_t words = 0, joined = 0, pieces = tokenizer_vocabulary(data->texts.tokenizer), joined_pieces = 0;
    const BertSplit *train = &data->splits[BERT_TRAIN];
    if (data->texts.segmenter) return;
    for (int32_t id = 0; id < pieces; id++) {
        const char *piece = tokenizer_piece(data->texts.tokenizer, id);
        joined_pieces += is_joined(piece, strlen(piece));
    }
    if (joined_pieces * 100 < pieces * SEGMENTED_PERCENT) return;
    for (int64_t i = 0; i < train->n; i++)
        for (const char *at = train->texts[i]; *(at += strspn(at, white)); words++) {
            size_t size = strcspn(at, white);
            joined += is_joined(at, size);
            at += size;
        }
    if (joined * 100 >= words * SEGMENTED_PERCENT) return;
    printf("[Text] the tokenizer was made of texts whose words are joined (sinh_vi\u00ean), as those that PhoBERT was "
           "pretrained on: %lld of its %lld pieces are such words, and %.1f %% of the words here. These pieces stay "
           "unused, and texts become longer; --segment DIR joins the words\n",
           (long long)joined_pieces, (long long)pieces, words ? 100.0 * (double)joined / (double)words : 0);
}

/* ---- files ---- */

char *bert_split_file(const char *folder, int split) {
    static const char *const names[BERT_SPLITS][3] = {{"train"}, {"valid", "validation", "val"}, {"test"}};
    static const char *const ends[] = {".csv", ".tsv", ".jsonl", ".txt"};
    char *found = NULL;
    for (int n = 0; n < 3 && names[split][n]; n++)
        for (int e = 0; e < 4; e++) {
            char *path = xformat("%s/%s%s", folder, names[split][n], ends[e]);
            bool there = !access(path, F_OK);
            if (there && found) die("%s and %s: two files for one split; remove one of them", found, path);
            if (there) found = xstrdup(path);
            free(path);
        }
    return found;
}

/* The paths of all splits: [BERT_SPLITS][n]. */
typedef struct {
    char *path[BERT_SPLITS][64];
    int n[BERT_SPLITS];
} Paths;

static void add_path(Paths *paths, int split, char *path) {
    if (path) paths->path[split][paths->n[split]++] = path;
}

static Paths find_paths(const BertOptions *o) {
    Paths paths = {.n = {0}};
    const OptionList *data = &o->train.manifest;
    const char *folder = data->count == 1 && path_is_folder(data->text[0]) ? data->text[0] : NULL;
    for (int i = 0; i < data->count && !folder; i++) add_path(&paths, BERT_TRAIN, xstrdup(data->text[i]));
    if (folder) add_path(&paths, BERT_TRAIN, bert_split_file(folder, BERT_TRAIN));
    if (!paths.n[BERT_TRAIN]) die("%s: there is no train.csv, train.tsv, train.jsonl or train.txt in it", folder);
    if (o->valid || folder)
        add_path(&paths, BERT_VALIDATION, o->valid ? xstrdup(o->valid) : bert_split_file(folder, BERT_VALIDATION));
    if (!o->pretraining && (o->test || folder))
        add_path(&paths, BERT_TEST, o->test ? xstrdup(o->test) : bert_split_file(folder, BERT_TEST));
    if (o->folds && paths.n[BERT_TEST]) {
        printf("[Data] %s is not used: with --folds each fold is tested in turn\n", paths.path[BERT_TEST][0]);
        free(paths.path[BERT_TEST][--paths.n[BERT_TEST]]);
    }
    return paths;
}

static void split_reserve(BertSplit *split, int64_t n, bool files, bool labels) {
    size_t size = (size_t)(split->n + n + 1);
    split->texts = xrealloc(split->texts, size * sizeof *split->texts);
    split->lines = xrealloc(split->lines, size * sizeof *split->lines);
    if (files) split->files = xrealloc(split->files, size * sizeof *split->files);
    if (labels) split->labels = xrealloc(split->labels, size * sizeof *split->labels);
}

/* Appends the texts of a file, one of several or the only one, to a split. The first file makes the classes, unless
 * they are known. */
static void add_file(BertData *data, const BertOptions *o, BertSplit *split, const char *path, bool several) {
    CommentColumns columns = bert_text_columns(&o->text);
    Comments *file = &data->files[data->n_files++];
    Error error;
    bool labels = !o->pretraining;
    if (!comments_read(path, &columns, labels, file, &error)) die("%s", error.text);
    split_reserve(split, file->n, several, labels);
    for (int64_t i = 0; i < file->n; i++) {
        split->texts[split->n + i] = file->texts[i];
        split->lines[split->n + i] = file->lines[i];
        if (several) split->files[split->n + i] = file->path;
    }
    if (labels && !data->classes.n && !classes_make(o->labels, file, &data->classes, &error)) die("%s", error.text);
    if (labels && !classes_assign(&data->classes, file, split->labels + split->n, &error)) die("%s", error.text);
    split->n += file->n;
    split->path = file->path;
}

static void read_files(BertData *data, const BertOptions *o) {
    Paths paths = find_paths(o);
    int n = paths.n[BERT_TRAIN] + paths.n[BERT_VALIDATION] + paths.n[BERT_TEST];
    data->files = xcalloc((size_t)n, sizeof *data->files);
    for (int s = 0; s < BERT_SPLITS; s++)
        for (int i = 0; i < paths.n[s]; i++) {
            add_file(data, o, &data->splits[o->folds ? BERT_TRAIN : s], paths.path[s][i],
                     (o->folds ? n : paths.n[s]) > 1);
            free(paths.path[s][i]);
        }
}

/* Takes the order of the base checkpoint's classes, unless --labels gives one. */
static void order_classes(BertData *data, const BertOptions *o, const BertBase *base) {
    int32_t place[BERT_MAX_CLASSES];
    if (o->labels || !bert_base_order_classes(base, &data->classes, place)) return;
    for (int s = 0; s < BERT_SPLITS; s++)
        for (int64_t i = 0; i < data->splits[s].n; i++) data->splits[s].labels[i] = place[data->splits[s].labels[i]];
}

/* ---- splits ---- */

/* Copies the rows of `from` that belong to `which` of a division. Tokens are copied if there are any. */
static BertSplit select_rows(const BertSplit *from, const int32_t *division, int32_t which, int32_t unknown) {
    int32_t *list;
    BertSplit split = {.n = 0};
    int64_t n = splits_list(division, from->n, which, &list);
    split_reserve(&split, n, from->files != NULL, from->labels != NULL);
    for (int64_t i = 0; i < n; i++) {
        split.texts[i] = from->texts[list[i]];
        split.lines[i] = from->lines[list[i]];
        if (from->files) split.files[i] = from->files[list[i]];
        if (from->labels) split.labels[i] = from->labels[list[i]];
    }
    split.n = n;
    if (from->tokenized.first) split.tokenized = texts_select(&from->tokenized, list, n, unknown);
    free(list);
    return split;
}

static void split_close(BertSplit *split) {
    texts_free(&split->tokenized);
    free(split->texts);
    free(split->files);
    free(split->lines);
    free(split->labels);
    *split = (BertSplit){.n = 0};
}

void bert_splits_close(BertSplit splits[BERT_SPLITS]) {
    for (int s = 0; s < BERT_SPLITS; s++) split_close(&splits[s]);
}

static SplitRows rows_of(const BertData *data, const BertSplit *split, int32_t *groups) {
    texts_groups(split->texts, split->n, groups);
    return (SplitRows){.n = split->n,
                       .labels = split->labels,
                       .classes = split->labels ? data->classes.n : 1,
                       .names = data->classes.names,
                       .groups = groups};
}

/* Divides the only file. A split that has a file of its own gets no share. */
static void divide(BertData *data, const BertOptions *o) {
    BertSplit all = data->splits[BERT_TRAIN], tested = data->splits[BERT_TEST];
    size_t n = (size_t)all.n;
    int32_t *groups = xmalloc(n * sizeof *groups), *division = xmalloc(n * sizeof *division);
    double shares[BERT_SPLITS], sum = 0;
    Error error;
    for (int s = 0; s < BERT_SPLITS; s++) sum += shares[s] = s == BERT_TEST && tested.n ? 0 : o->shares[s];
    for (int s = 0; s < BERT_SPLITS; s++) shares[s] /= sum;
    SplitRows rows = rows_of(data, &all, groups);
    if (!splits_divide(&rows, shares, (uint64_t)o->train.seed, division, &error))
        die("%s: %s; give more texts, or other --split-shares", data->files[0].path, error.text);
    for (int s = 0; s < BERT_SPLITS; s++)
        if (s != BERT_TEST || !tested.n) data->splits[s] = select_rows(&all, division, s, 0);
    split_close(&all);
    free(groups);
    free(division);
}

void bert_data_fold(const BertOptions *o, const BertData *data, int fold, BertSplit splits[BERT_SPLITS]) {
    const BertSplit *all = &data->splits[BERT_TRAIN];
    size_t n = (size_t)all->n;
    int32_t *groups = xmalloc(n * sizeof *groups), *folds = xmalloc(n * sizeof *folds);
    int k = (int)o->folds;
    Error error;
    SplitRows rows = rows_of(data, all, groups);
    if (!splits_fold(&rows, k, (uint64_t)o->train.seed, folds, &error))
        die("--folds %d: %s; give more texts, or fewer folds", k, error.text);
    for (size_t i = 0; i < n; i++)
        folds[i] = folds[i] == fold ? BERT_TEST : folds[i] == (fold + 1) % k ? BERT_VALIDATION : BERT_TRAIN;
    for (int s = 0; s < BERT_SPLITS; s++) splits[s] = select_rows(all, folds, s, data->texts.specials.unknown);
    free(groups);
    free(folds);
}

/* Reads --class-weights into weights[classes]. Returns false if it is a rule instead of numbers. */
static bool read_class_weights(const BertOptions *o, int classes, double *weights) {
    if (!strcmp(o->class_weights, "balanced") || !strcmp(o->class_weights, "none")) return false;
    class_weights_parse(o->class_weights, "balanced", classes, weights);
    return true;
}

/* Dies if a split lacks a class. */
static void check_classes(const BertData *data, const BertOptions *o) {
    double weights[BERT_MAX_CLASSES];
    Error error;
    if (data->classes.n) read_class_weights(o, data->classes.n, weights);
    for (int s = 0; s < BERT_SPLITS; s++) {
        const BertSplit *split = &data->splits[s];
        char *name =
            split->path ? xstrdup(split->path) : xformat("%s, %s split", data->files[0].path, BERT_SPLIT_NAMES[s]);
        if (split->labels && split->n && !classes_check(&data->classes, split->labels, split->n, name, &error))
            die("%s", error.text);
        free(name);
    }
}

/* ---- tokens ---- */

static void tokenize(BertData *data) {
    Error error;
    for (int s = 0; s < BERT_SPLITS; s++) {
        BertSplit *split = &data->splits[s];
        if (split->n && !texts_tokenize(split->texts, split->n, &data->texts.rules, &split->tokenized, &error))
            die("%s texts: %s", BERT_SPLIT_NAMES[s], error.text);
    }
}

static void report(BertData *data, const BertOptions *o) {
    BertReportSplit splits[BERT_SPLITS];
    int n = 0;
    for (int s = 0; s < BERT_SPLITS; s++) {
        const BertSplit *split = &data->splits[s];
        if (!split->n) continue;
        splits[n] = (BertReportSplit){.name = BERT_SPLIT_NAMES[s],
                                      .n = split->n,
                                      .texts = split->texts,
                                      .tokenized = &split->tokenized,
                                      .labels = split->labels};
        n++;
    }
    int batch = o->train.batch_size > 0 ? (int)o->train.batch_size : 32;
    data->report = json_object();
    bert_data_report(data->report, splits, n, &data->classes, batch, (uint64_t)o->train.seed);
}

/* ---- synthetic texts ---- */

/* Makes texts of classes 0 and 1 in turn. */
static BertSplit synthetic_split(const BertOptions *o, int64_t n) {
    BertSplit split = {.n = n};
    split.tokenized = bert_synthetic_texts(n, (int)o->vocabulary, (int)o->row_tokens, (int)o->text.max_len);
    split.labels = xmalloc((size_t)n * sizeof *split.labels);
    for (int64_t i = 0; i < n; i++) split.labels[i] = (int32_t)(i % 2);
    return split;
}

/* Makes the data of an estimate: two classes, a validation text for every nine training texts. */
static void open_synthetic(BertData *data, BertOptions *o) {
    enum { USUAL_VOCABULARY = 64001 /* of PhoBERT */, LEAST_VOCABULARY = 6, TRAINED_PER_HELD_OUT = 9 };
    static const char *const names[] = {"0", "1"};
    if (o->vocabulary && o->vocabulary < LEAST_VOCABULARY)
        die_usage("--vocabulary %lld: too few for synthetic texts", (long long)o->vocabulary);
    bert_options_set_tables(o, o->vocabulary ? o->vocabulary : USUAL_VOCABULARY);
    data->classes = classes_of(names, 2);
    data->splits[BERT_TRAIN] = synthetic_split(o, o->rows);
    data->splits[BERT_VALIDATION] = synthetic_split(o, o->rows / TRAINED_PER_HELD_OUT);
    printf("[Data] no texts are given: %lld synthetic ones, %.1f tokens on average\n", (long long)o->rows,
           (double)data->splits[BERT_TRAIN].tokenized.first[o->rows] / (double)o->rows);
}

BertData bert_data_open(BertOptions *o, const BertBase *base) {
    BertData data = {.n_files = 0};
    if (!o->train.manifest.count) {
        open_synthetic(&data, o);
        return data;
    }
    open_texts(&data, o, base);
    read_files(&data, o);
    order_classes(&data, o, base);
    bert_base_check_classes(base, &data.classes);
    if (!data.splits[BERT_VALIDATION].n && !o->folds) divide(&data, o);
    check_classes(&data, o);
    tokenize(&data);
    report(&data, o);
    print_unsegmented(&data);
    return data;
}

void bert_data_close(BertData *data) {
    bert_splits_close(data->splits);
    for (int i = 0; i < data->n_files; i++) comments_free(&data->files[i]);
    free(data->files);
    classes_free(&data->classes);
    json_decref(data->report);
    if (data->texts.tokenizer) bert_texts_close(&data->texts);
}

/* ---- class weights ---- */

void bert_data_weigh_classes(const BertOptions *o, const Classes *classes, const BertSplit *train, float *weights) {
    double given[BERT_MAX_CLASSES];
    bool numbers = read_class_weights(o, classes->n, given);
    for (int c = 0; c < classes->n; c++) weights[c] = numbers ? (float)given[c] : 1;
    if (!strcmp(o->class_weights, "balanced")) classes_balance(train->labels, train->n, classes->n, weights);
    printf("[Data] class weights:");
    for (int c = 0; c < classes->n; c++)
        printf(" %s %.4f%s", classes->names[c], (double)weights[c], c + 1 < classes->n ? "," : "\n");
}

/* ---- the folder of a run ---- */

void bert_data_keep(const BertData *data, const char *directory) {
    Error error;
    char *path = path_join(directory, "data_report.json");
    bert_texts_keep(&data->texts, directory);
    if (!json_write(json_incref(data->report), path, &error)) die("%s", error.text);
    free(path);
}
