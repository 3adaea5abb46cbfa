#include "data/slm/prepare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/ledger.h"
#include "data/slm/prepared.h"
#include "data/slm/shard_writer.h"
#include "data/text/bpe_train.h"
#include "data/text/tokenizer.h"
#include "data/text/unknown.h"
#include "data/text/utf8.h"
#include "data/unfinished.h"

enum { FORMAT = 1 };
static const char END_OF_TEXT[] = "<|endoftext|>";
_Static_assert(FATE_TRAIN == 0 && FATE_VAL == 1, "the order of PREPARED_SPLIT_NAMES");

typedef struct {
    const SlmPrepareOptions *options;
    CorpusFiles files;
    Corpus corpus;
    BadRecords bad;
    json_t *inputs;
    FileLock lock;
    Scan scan;
    Tokenizer *tokenizer;
    int32_t end_of_text;
    char *tokenizer_bytes; /* of its file */
    size_t tokenizer_size;
    Fingerprint tokenizer_sha1;
    const char *tokenizer_name; /* in the folder */
    ShardWriter writers[2];     /* by Fate */
    int64_t unknown[2], dropped[2];
    TokenIds *ids;    /* [threads] */
    Unknown *missing; /* [threads]; then [0] has all */
} Prepare;

/* Returns the place of a name among three. */
static int place_of(const char *name, const char *const names[3]) {
    for (int i = 0; i < 3; i++)
        if (!strcmp(names[i], name)) return i;
    die("unknown choice '%s'", name);
}

/* ---- what is prepared from what ---- */

/* Dies if a file is there twice: named twice, or in two of the folders. */
static void check_twice(const CorpusFiles *files) {
    OWNED char **paths = xcalloc((size_t)files->n, sizeof *paths);
    for (int64_t i = 0; i < files->n; i++) paths[i] = files->files[i].path;
    qsort(paths, (size_t)files->n, sizeof *paths, compare_texts);
    for (int64_t i = 1; i < files->n; i++)
        if (!strcmp(paths[i - 1], paths[i])) die("%s is given twice, by --input or --val-file", paths[i]);
}

static void list_files(Prepare *p) {
    const SlmPrepareOptions *o = p->options;
    for (int i = 0; i < o->val_file.count; i++) MUST(corpus_files_add(&p->files, o->val_file.text[i], true, &error));
    for (int i = 0; i < o->input.count; i++) MUST(corpus_files_add(&p->files, o->input.text[i], false, &error));
    check_twice(&p->files);
    MUST(corpus_files_measure(&p->files, (int)o->threads, &error));
}

static json_t *list_of(const OptionList *list) {
    json_t *texts = json_array();
    for (int i = 0; i < list->count; i++) json_array_append_new(texts, json_build("the specials", "s", list->text[i]));
    return texts;
}

/* Returns everything that decides the output. */
static json_t *inputs_of(const Prepare *p) {
    const SlmPrepareOptions *o = p->options;
    json_t *files = json_array();
    char ratio[32];
    snprintf(ratio, sizeof ratio, "%.*g", PREPARED_DIGITS, o->val_ratio); /* as the record gives it back */
    for (int64_t i = 0; i < p->files.n; i++) {
        const CorpusFile *f = &p->files.files[i];
        char sum[17];
        snprintf(sum, sizeof sum, "%016llx", (unsigned long long)f->sum);
        json_array_append_new(files, json_build("the corpus", "[s, I, s, s]", f->name, (json_int_t)f->size, sum,
                                                PREPARED_SPLIT_NAMES[f->held_out ? FATE_VAL : FATE_TRAIN]));
        if (!f->usual) json_array_append_new(json_array_get(files, (size_t)i), json_string("records"));
    }
    json_t *inputs = json_build("the inputs", "{s:s, s:s, s:s, s:s, s:I, s:I, s:f, s:b, s:s?, s:o}", "split-at",
                                o->split_at, "text-field", o->text_field, "normalize", o->normalize, "duplicates",
                                o->duplicates, "min-characters", (json_int_t)o->min_characters, "shard-tokens",
                                (json_int_t)o->shard_tokens, "val-ratio", strtod(ratio, NULL), "parse-specials",
                                o->parse_specials, "end-of-text", o->end_of_text, "specials", list_of(&o->specials));
    if (o->tokenizer)
        json_object_set_new(inputs, "tokenizer", json_string(p->tokenizer_sha1.text));
    else
        json_object_set_new(inputs, "vocabulary", json_integer(o->vocabulary));
    json_object_set_new(inputs, "files", files);
    if (corpus_format(o->input_format)) json_object_set_new(inputs, "input-format", json_string(o->input_format));
    return inputs;
}

/* Returns the first thing that differs, as a user would call it; free(). */
static char *difference(const json_t *before, const json_t *now) {
    const char *key;
    json_t *value;
    if (!json_equal(json_object_get(before, "files"), json_object_get(now, "files"))) return xstrdup("the corpus");
    json_object_foreach((json_t *)now, key, value) {
        if (!json_equal(json_object_get(before, key), value)) return xformat("--%s", key);
    }
    return xstrdup("an option");
}

/* ---- the folder ---- */

/* Returns the record if the folder has been prepared from the same inputs. Dies if it was prepared from others, unless
 * it may be overwritten. */
static json_t *find_record(const Prepare *p) {
    const SlmPrepareOptions *o = p->options;
    Error error;
    bool unfinished = path_holds(o->output, ".unfinished");
    if (!path_holds(o->output, PREPARED_NAME)) {
        bool foreign = path_holds(o->output, "tokenizer.json") || path_holds(o->output, "tokenizer.model");
        if (foreign && !unfinished && !o->overwrite)
            die("%s holds a tokenizer, but no " PREPARED_NAME " of train_slm prepare: choose another --output, or "
                "replace it with --overwrite",
                o->output);
        return NULL;
    }
    json_auto_t *record = prepared_read(o->output, &error);
    if (!record && (o->overwrite || unfinished)) return NULL;
    if (!record) die("%s", error.text);
    const json_t *before = json_object_get(record, "inputs");
    if (json_equal(before, p->inputs) && prepared_check_tokenizer(o->output, record, NULL)) return json_incref(record);
    OWNED char *what = difference(before, p->inputs);
    if (!o->overwrite)
        die("%s has been prepared before, and %s has changed since: choose another --output, or prepare it again with "
            "--overwrite",
            o->output, json_equal(before, p->inputs) ? "its tokenizer" : what);
    return NULL;
}

/* Removes a file of an earlier run, unless it is the tokenizer that was given. */
static void remove_file(const Prepare *p, const char *name) {
    OWNED char *path = path_join(p->options->output, name);
    if (!file_is_same(path, tokenizer_file(p->tokenizer)) && unlink(path) && errno != ENOENT)
        die("cannot remove %s: %s", path, strerror(errno));
}

/* Marks the folder as unfinished and removes what an earlier run has left. */
static void begin_folder(const Prepare *p) {
    const SlmPrepareOptions *o = p->options;
    static const char *const names[] = {PREPARED_NAME, "tokenizer.json", "tokenizer.model"};
    bool found;
    OWNED char *text = json_text("the inputs", p->inputs, JSON_COMPACT | JSON_SORT_KEYS),
               *what = xformat("inputs %.16s", fingerprint_of("%s", text).text);
    if (!o->overwrite) MUST(unfinished_find(o->output, what, &found, &error));
    MUST(unfinished_begin(o->output, what, &error));
    for (int i = 0; i < 3; i++) remove_file(p, names[i]);
    prepared_remove_shards(o->output);
    directory_remove_leftovers(o->output);
}

/* ---- documents ---- */

static void scan(Prepare *p) {
    static const char *const names[] = {"keep", "exact", "near"};
    const SlmPrepareOptions *o = p->options;
    const ScanOptions options = {.duplicates = (Duplicates)place_of(o->duplicates, names),
                                 .min_characters = o->min_characters,
                                 .val_ratio = o->val_file.count ? 0 : o->val_ratio};
    MUST(scan_documents(&p->corpus, &options, &p->scan, &error));
    int64_t train = p->scan.counts[FATE_TRAIN], val = p->scan.counts[FATE_VAL];
    if (!train)
        die("the corpus has no text to train on: of %lld document%s in %lld file%s, %lld %s shorter than "
            "--min-characters, %lld are duplicates, %lld are held out, %lld cannot be used",
            (long long)p->scan.n, p->scan.n == 1 ? "" : "s", (long long)p->files.n, p->files.n == 1 ? "" : "s",
            (long long)p->scan.counts[FATE_SHORT], p->scan.counts[FATE_SHORT] == 1 ? "is" : "are",
            (long long)(p->scan.counts[FATE_EXACT] + p->scan.counts[FATE_NEAR]), (long long)val,
            (long long)p->scan.counts[FATE_BAD]);
    if (!val && (options.val_ratio > 0 || o->val_file.count))
        die("no text is left to validate on: %s; cut the text with --split-at blank-lines or line, give another text "
            "with --val-file, or train without validation with --val-ratio 0",
            o->val_file.count ? "the documents of --val-file are too short" : "the corpus is a single document");
}

static void add_to_trainer(void *context, int thread, const Document *d, void *result) {
    const struct {
        const Scan *scan;
        BpeTrainer *trainer;
    } *c = context;
    (void)result;
    if (scan_fate(c->scan, d) == FATE_TRAIN) bpe_trainer_add(c->trainer, thread, d->text, d->size);
}

/* Trains byte-level BPE on the training split. Returns the path of the file, in a temporary folder; free(). */
static char *train_tokenizer(Prepare *p) {
    const SlmPrepareOptions *o = p->options;
    const char *specials[1 + sizeof o->specials.text / sizeof *o->specials.text] = {o->end_of_text ? o->end_of_text
                                                                                                   : END_OF_TEXT};
    int n = 1, vocabulary;
    for (int i = 0; i < o->specials.count; i++)
        if (strcmp(o->specials.text[i], specials[0]) != 0) specials[n++] = o->specials.text[i];
    BpeTraining training = {.vocabulary = (int)o->vocabulary,
                            .min_frequency = SLM_MIN_FREQUENCY,
                            .specials = specials,
                            .n_specials = n,
                            .n_threads = (int)o->threads};
    struct {
        const Scan *scan;
        BpeTrainer *trainer;
    } context = {&p->scan, bpe_trainer_open(&training)};
    const CorpusPass pass = {.purpose = "Counting", .context = &context, .work = add_to_trainer};
    const char *folder;
    MUST(folder = directory_temporary("train_slm", &error));
    MUST(corpus_pass(&p->corpus, &pass, &error));
    char *path = path_join(folder, "tokenizer.json");
    MUST_OR(bpe_trainer_write(context.trainer, path, &vocabulary, &error), "the tokenizer: %s (--vocabulary %lld)",
            error.text, (long long)o->vocabulary);
    bpe_trainer_close(context.trainer);
    return path;
}

/* Opens the tokenizer and keeps the bytes of its file. */
static void open_tokenizer(Prepare *p, const char *path) {
    MUST_OR(p->tokenizer = tokenizer_open(path, &error), "%s: %s", path, error.text);
    const char *file = tokenizer_file(p->tokenizer), *end = p->options->end_of_text, *files[3];
    if (tokenizer_files(p->tokenizer, files) > 1)
        die("%s: the two files of fastBPE are a tokenizer for train_bert; give a tokenizer.json or a SentencePiece "
            "model",
            path);
    MUST_OR(read_file(file, &p->tokenizer_bytes, &p->tokenizer_size, &error), "%s: %s", file, error.text);
    p->tokenizer_sha1 = fingerprint_file(file);
    p->tokenizer_name = tokenizer_name(p->tokenizer);
    p->end_of_text = end ? tokenizer_id(p->tokenizer, end) : tokenizer_end_of_text(p->tokenizer);
    if (p->end_of_text < 0)
        die("%s: the tokenizer has no token %s; name the one that ends a text with --end-of-text", file,
            end ? end : "<|endoftext|> or </s>");
}

/* ---- ids ---- */

typedef struct {
    void *ids; /* [n], of the width of the shards */
    int64_t n, unknown, dropped;
} Encoded;

static void encode(void *context, int thread, const Document *d, void *result) {
    Prepare *p = context;
    TokenIds *t = &p->ids[thread];
    Encoded *e = result;
    if (scan_fate(&p->scan, d) > FATE_VAL) return;
    t->n = t->unknown = t->dropped = 0;
    const TokenIds before = *t;
    tokenizer_encode(p->tokenizer, d->text, d->size, p->options->parse_specials, t);
    unknown_add(&p->missing[thread], d->text, d->size, &before, t);
    size_t width = (size_t)p->writers[FATE_TRAIN].shard.width;
    *e = (Encoded){.ids = xmalloc((size_t)t->n * width), .n = t->n, .unknown = t->unknown, .dropped = t->dropped};
    if (width == 4)
        memcpy(e->ids, t->ids, (size_t)t->n * width);
    else
        for (int64_t i = 0; i < t->n; i++) ((uint16_t *)e->ids)[i] = (uint16_t)t->ids[i];
}

static bool write_document(void *context, const Document *d, void *result, Error *error) {
    Prepare *p = context;
    Encoded *e = result;
    Fate fate = scan_fate(&p->scan, d);
    if (fate > FATE_VAL) return true;
    p->unknown[fate] += e->unknown;
    p->dropped[fate] += e->dropped;
    OWNED void *ids = e->ids;
    return shard_writer_add(&p->writers[fate], ids, e->n, (int64_t)d->size, error);
}

static void write_shards(Prepare *p) {
    const SlmPrepareOptions *o = p->options;
    int64_t vocabulary = tokenizer_vocabulary(p->tokenizer);
    p->ids = xcalloc((size_t)o->threads, sizeof *p->ids);
    p->missing = xcalloc((size_t)o->threads, sizeof *p->missing);
    for (int64_t i = 0; i < o->threads; i++)
        p->missing[i] = (Unknown){.encode = tokenizer_encode_plain, .tokenizer = p->tokenizer};
    for (Fate f = FATE_TRAIN; f <= FATE_VAL; f++)
        p->writers[f] = (ShardWriter){.directory = o->output,
                                      .split = PREPARED_SPLIT_NAMES[f],
                                      .shard_ids = o->shard_tokens,
                                      .shard = {.vocabulary = vocabulary,
                                                .width = slm_shard_width(vocabulary),
                                                .end_of_text = p->end_of_text,
                                                .tokenizer_hash = tokenizer_hash(p->tokenizer)}};
    const CorpusPass pass = {
        .purpose = "Tokenizing", .context = p, .result_bytes = sizeof(Encoded), .work = encode, .take = write_document};
    MUST(corpus_pass(&p->corpus, &pass, &error));
    for (Fate f = FATE_TRAIN; f <= FATE_VAL; f++) MUST(shard_writer_end(&p->writers[f], &error));
    for (Fate f = FATE_TRAIN; f <= FATE_VAL; f++) shard_writer_close(&p->writers[f]);
    for (int64_t i = 0; i < o->threads; i++) token_ids_free(&p->ids[i]);
    for (int64_t i = 1; i < o->threads; i++) unknown_move(&p->missing[0], &p->missing[i]);
    free(p->ids);
}

/* ---- the record ---- */

static json_t *record_of(const Prepare *p) {
    const int64_t *counts = p->scan.counts;
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)tokenizer_hash(p->tokenizer));
    json_t *splits = json_object();
    for (Fate f = FATE_TRAIN; f <= FATE_VAL; f++) {
        const ShardWriter *w = &p->writers[f];
        json_object_set_new(splits, PREPARED_SPLIT_NAMES[f],
                            json_build("a split", "{s:I, s:I, s:I, s:I, s:I, s:I}", "documents",
                                       (json_int_t)w->n_documents, "bytes", (json_int_t)w->n_bytes, "tokens",
                                       (json_int_t)w->n_ids, "unknown", (json_int_t)p->unknown[f], "dropped_characters",
                                       (json_int_t)p->dropped[f], "shards", (json_int_t)w->n_shards));
    }
    int64_t size = 0;
    for (int64_t i = 0; i < p->files.n; i++) size += p->files.files[i].size;
    OWNED char *characters = unknown_characters(&p->missing[0]);
    json_object_set_new(splits, "unknown_characters", json_string(characters));
    json_object_set_new(splits, "unknown_white_space", json_integer((json_int_t)p->missing[0].white));
    OWNED char *first_bad = p->bad.first ? utf8_of_bytes(p->bad.first, strlen(p->bad.first)) : NULL;
    json_t *record = json_build(
        "the record", "{s:i, s:O, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}, s:{s:s, s:s, s:s, s:i, s:i}, s:o}", "format",
        FORMAT, "inputs", p->inputs, "corpus", "files", (json_int_t)p->files.n, "file_bytes", (json_int_t)size,
        "files_left_out", (json_int_t)p->files.left_out, "documents", (json_int_t)p->scan.n, "short",
        (json_int_t)counts[FATE_SHORT], "exact_duplicates", (json_int_t)counts[FATE_EXACT], "near_duplicates",
        (json_int_t)counts[FATE_NEAR], "tokenizer", "file", p->tokenizer_name, "sha1", p->tokenizer_sha1.text, "hash",
        hash, "vocabulary", tokenizer_vocabulary(p->tokenizer), "end_of_text", (int)p->end_of_text, "splits", splits);
    if (first_bad)
        json_object_update_new(
            json_object_get(record, "corpus"),
            json_build("the record", "{s:I, s:s}", "bad_records", (json_int_t)p->bad.n, "first_bad", first_bad));
    return record;
}

/* Ends the program, and takes back what was written: the tokenizer knows too little. */
static _Noreturn void refuse(Prepare *p, const Error *why) {
    const char *output = p->options->output;
    Error error;
    prepared_remove_shards(output);
    remove_file(p, p->tokenizer_name);
    if (!unfinished_end(output, &error)) warn("%s", error.text);
    die("%s", why->text);
}

static json_t *prepare(Prepare *p) {
    const SlmPrepareOptions *o = p->options;
    Error error;
    scan(p);
    if (!o->tokenizer) {
        OWNED char *path = train_tokenizer(p);
        open_tokenizer(p, path);
        directory_remove_temporary();
    }
    begin_folder(p);
    OWNED char *path = path_join(o->output, p->tokenizer_name);
    if (!file_is_same(path, tokenizer_file(p->tokenizer)))
        MUST(file_write_atomic(path, p->tokenizer_bytes, p->tokenizer_size, &error));
    write_shards(p);
    json_t *record = record_of(p);
    if (!prepared_check_unknown(record, o->max_unknown, &error)) refuse(p, &error);
    MUST(prepared_write(o->output, record, &error));
    MUST(unfinished_end(o->output, &error));
    return record;
}

json_t *slm_prepare_folder(const SlmPrepareOptions *o, bool *already) {
    static const char *const cuts[] = {"file", "blank-lines", "line"};
    Prepare p = {.options = o,
                 .corpus = {.split_at = (SplitAt)place_of(o->split_at, cuts),
                            .text_field = o->text_field,
                            .nfc = !strcmp(o->normalize, "nfc"),
                            .n_threads = (int)o->threads}};
    p.files.format = corpus_format(o->input_format);
    list_files(&p);
    p.corpus.files = &p.files;
    p.corpus.bad = o->skip_bad ? &p.bad : NULL;
    if (o->tokenizer) open_tokenizer(&p, o->tokenizer);
    p.inputs = inputs_of(&p);
    MUST(unfinished_lock(&p.lock, o->output, &error));
    json_t *record = find_record(&p);
    *already = record != NULL;
    if (record)
        MUST(prepared_check_unknown(record, o->max_unknown, &error));
    else
        record = prepare(&p);
    file_unlock(&p.lock);
    tokenizer_close(p.tokenizer);
    free(p.tokenizer_bytes);
    free(p.bad.first);
    json_decref(p.inputs);
    scan_close(&p.scan);
    corpus_files_close(&p.files);
    if (p.missing) unknown_free(&p.missing[0]);
    free(p.missing);
    return record;
}
