#include "commands/bert/data.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns the split of a file by its name; BERT_SPLITS: none; -1: it is no file of texts. */
static int split_of(const char *name) {
    static const struct {
        const char *name;
        int split;
    } known[] = {{"train", BERT_TRAIN},    {"valid", BERT_VALIDATION}, {"validation", BERT_VALIDATION},
                 {"val", BERT_VALIDATION}, {"dev", BERT_VALIDATION},   {"test", BERT_TEST}};
    size_t n = comments_stem(name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n == strlen(known[i].name) && !strncasecmp(name, known[i].name, n)) return known[i].split;
    return n && *name != '.' ? BERT_SPLITS : -1;
}

/* Returns the names of the files in a folder, in order, and their number. */
static struct dirent **names_in(const char *folder, int *n) {
    struct dirent **entries;
    *n = scandir(folder, &entries, NULL, alphasort);
    if (*n < 0) die("%s: cannot list it: %s", folder, strerror(errno));
    return entries;
}

char *bert_split_file(const char *folder, int split) {
    int n;
    OWNED struct dirent **entries = names_in(folder, &n);
    char *found = NULL;
    for (int i = 0; i < n; i++) {
        OWNED char *path = path_join(folder, entries[i]->d_name);
        bool is_it = split_of(entries[i]->d_name) == split && !path_is_folder(path);
        if (is_it && found) die("%s and %s: two files for one split; remove one of them", found, path);
        if (is_it) found = xstrdup(path);
        free(entries[i]);
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

/* Prints the files of texts in the folder that are not used. */
static void print_unused(const char *folder, const Paths *paths) {
    int n, unused = 0;
    OWNED struct dirent **entries = names_in(folder, &n);
    for (int i = 0; i < n; i++) {
        OWNED char *path = path_join(folder, entries[i]->d_name);
        bool used = path_is_folder(path);
        for (int s = 0; s < BERT_SPLITS; s++)
            for (int k = 0; k < paths->n[s]; k++) used = used || file_is_same(path, paths->path[s][k]);
        if (split_of(entries[i]->d_name) >= 0 && !used)
            printf("%s %s", unused++ ? "," : "[Data] files of texts that are not used:", path);
        free(entries[i]);
    }
    if (unused) printf("\n");
}

static Paths find_paths(const BertOptions *o) {
    Paths paths = {.n = {0}};
    const OptionList *data = &o->train.manifest;
    const char *folder = data->count == 1 && path_is_folder(data->text[0]) ? data->text[0] : NULL;
    for (int i = 0; i < data->count && !folder; i++) add_path(&paths, BERT_TRAIN, xstrdup(data->text[i]));
    if (folder) add_path(&paths, BERT_TRAIN, bert_split_file(folder, BERT_TRAIN));
    if (!paths.n[BERT_TRAIN])
        die("%s: there is no file train in it (%s)", folder, o->pretraining ? COMMENTS_ANY : COMMENTS_LABELLED);
    if (o->valid || folder)
        add_path(&paths, BERT_VALIDATION, o->valid ? xstrdup(o->valid) : bert_split_file(folder, BERT_VALIDATION));
    if (!o->pretraining && (o->test || folder))
        add_path(&paths, BERT_TEST, o->test ? xstrdup(o->test) : bert_split_file(folder, BERT_TEST));
    if (folder) print_unused(folder, &paths);
    if (o->folds && paths.n[BERT_TEST]) {
        printf("[Data] %s is not used: with --folds each fold is tested in turn\n", paths.path[BERT_TEST][0]);
        free(paths.path[BERT_TEST][--paths.n[BERT_TEST]]);
    }
    return paths;
}

/* Returns whether a file has a label, and says so if it has none, as the test files of competitions. */
static bool is_labelled(const BertOptions *o, const char *path) {
    CommentColumns columns = bert_text_columns(&o->text);
    Comments file;
    bool labelled = false;
    MUST(comments_read(path, &columns, LABELS_IF_ANY, &file, &error));
    for (int64_t i = 0; file.labels && i < file.n; i++) labelled = labelled || *file.labels[i];
    comments_free(&file);
    if (!labelled)
        printf("[Data] %s has no labels in a column \"%s\" (--label-column names another): nothing is tested after the "
               "training; predict gives its texts classes\n",
               path, o->text.label_column);
    return labelled;
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
    bool labels = !o->pretraining;
    MUST(comments_read(path, &columns, labels ? LABELS_NEEDED : LABELS_UNUSED, file, &error));
    bert_print_left_out(path, &file->counts);
    split_reserve(split, file->n, several, labels);
    for (int64_t i = 0; i < file->n; i++) {
        split->texts[split->n + i] = file->texts[i];
        split->lines[split->n + i] = file->lines[i];
        if (several) split->files[split->n + i] = file->path;
    }
    if (labels && !data->classes.n) MUST(classes_make(o->labels, o->text.merge_labels, file, &data->classes, &error));
    if (labels) MUST(classes_assign(&data->classes, file, split->labels + split->n, &error));
    split->n += file->n;
    split->path = file->path;
}

static void read_files(BertData *data, const BertOptions *o) {
    Paths paths = find_paths(o);
    int n = paths.n[BERT_TRAIN] + paths.n[BERT_VALIDATION] + paths.n[BERT_TEST];
    data->files = xcalloc((size_t)n, sizeof *data->files);
    for (int s = 0; s < BERT_SPLITS; s++)
        for (int i = 0; i < paths.n[s]; i++) {
            OWNED char *path = paths.path[s][i];
            data->untested = s == BERT_TEST && !o->test && !is_labelled(o, path);
            if (!data->untested)
                add_file(data, o, &data->splits[o->folds ? BERT_TRAIN : s], path, (o->folds ? n : paths.n[s]) > 1);
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
    OWNED int32_t *list = NULL;
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
    return split;
}

static void split_close(BertSplit *split) {
    texts_free(&split->tokenized);
    FREE(split->texts, split->files, split->lines, split->labels);
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
    OWNED int32_t *groups = xmalloc(n * sizeof *groups), *division = xmalloc(n * sizeof *division);
    double shares[BERT_SPLITS], sum = 0;
    for (int s = 0; s < BERT_SPLITS; s++)
        sum += shares[s] = s == BERT_TEST && (tested.n || data->untested) ? 0 : o->shares[s];
    for (int s = 0; s < BERT_SPLITS; s++) shares[s] /= sum;
    SplitRows rows = rows_of(data, &all, groups);
    MUST_OR(splits_divide(&rows, shares, (uint64_t)o->train.seed, division, &error),
            "%s: %s; give more texts, or other --split-shares", data->files[0].path, error.text);
    for (int s = 0; s < BERT_SPLITS; s++)
        if (s != BERT_TEST || !tested.n) data->splits[s] = select_rows(&all, division, s, 0);
    split_close(&all);
}

void bert_data_fold(const BertOptions *o, const BertData *data, int fold, BertSplit splits[BERT_SPLITS]) {
    const BertSplit *all = &data->splits[BERT_TRAIN];
    size_t n = (size_t)all->n;
    OWNED int32_t *groups = xmalloc(n * sizeof *groups), *folds = xmalloc(n * sizeof *folds);
    int k = (int)o->folds;
    SplitRows rows = rows_of(data, all, groups);
    MUST_OR(splits_fold(&rows, k, (uint64_t)o->train.seed, folds, &error),
            "--folds %d: %s; give more texts, or fewer folds", k, error.text);
    for (size_t i = 0; i < n; i++)
        folds[i] = folds[i] == fold ? BERT_TEST : folds[i] == (fold + 1) % k ? BERT_VALIDATION : BERT_TRAIN;
    for (int s = 0; s < BERT_SPLITS; s++) splits[s] = select_rows(all, folds, s, data->texts.specials.unknown);
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
    if (data->classes.n) read_class_weights(o, data->classes.n, weights);
    for (int s = 0; s < BERT_SPLITS; s++) {
        const BertSplit *split = &data->splits[s];
        OWNED char *name =
            split->path ? xstrdup(split->path) : xformat("%s, %s split", data->files[0].path, BERT_SPLIT_NAMES[s]);
        if (split->labels && split->n) MUST(classes_check(&data->classes, split->labels, split->n, name, &error));
    }
}

/* ---- tokens ---- */

static void tokenize(BertData *data) {
    for (int s = 0; s < BERT_SPLITS; s++) {
        BertSplit *split = &data->splits[s];
        if (split->n)
            MUST_OR(texts_tokenize(split->texts, split->n, &data->texts.rules, &split->tokenized, &error),
                    "%s texts: %s", BERT_SPLIT_NAMES[s], error.text);
    }
}

/* Dies if the tokenizer knows too little of a split. */
static void check_unknown(const BertData *data, const BertOptions *o) {
    for (int s = 0; s < BERT_SPLITS; s++) {
        const Unknown *u = &data->splits[s].tokenized.missing;
        OWNED char *name = xformat("%s texts", BERT_SPLIT_NAMES[s]), *characters = unknown_characters(u);
        MUST(unknown_check(name, u->unknown, u->pieces, characters, o->max_unknown, &error));
    }
}

/* Adds what was left out of each file, and how many labels were changed or merged, which it also prints. */
static void report_files(json_t *report, const BertData *data) {
    static const char what[] = "the report on the data";
    json_t *files = json_array();
    for (int i = 0; i < data->n_files; i++) {
        const CommentCounts *counts = &data->files[i].counts;
        json_t *lines = json_array();
        for (int64_t k = 0; k < counts->empty; k++) json_array_append_new(lines, json_integer(counts->lines[k]));
        json_array_append_new(files, json_build(what, "{s:s, s:I, s:o, s:I, s:I, s:I}", "file", data->files[i].path,
                                                "texts", (json_int_t)data->files[i].n, "empty_lines", lines, "bad",
                                                (json_int_t)counts->bad, "labels_changed", (json_int_t)counts->labels,
                                                "labels_merged", (json_int_t)counts->merged));
        bert_print_labels(data->files[i].path, counts);
    }
    json_object_set_new(report, "files", files);
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
    report_files(data->report, data);
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
    check_unknown(&data, o);
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
    OWNED char *path = path_join(directory, "data_report.json");
    bert_texts_keep(&data->texts, directory);
    MUST(json_write(json_incref(data->report), path, &error));
}

Dataset *bert_data_masked(const BertData *data, int split, const BertMasking *masking) {
    const TokenizedTexts *texts = &data->splits[split].tokenized;
    Error error;
    if (!texts->n) return NULL;
    Dataset *dataset = bert_masked_open(texts, masking, split == BERT_VALIDATION, &error);
    if (!dataset)
        die("%s: %s", BERT_SPLIT_NAMES[split], error.text);
    else if (dataset->n_samples < texts->n)
        printf("[Data] %s: texts without a token that can be predicted, which are left out: %lld\n",
               BERT_SPLIT_NAMES[split], (long long)(texts->n - dataset->n_samples));
    return dataset;
}
