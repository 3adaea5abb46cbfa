#include "data/bert/synthetic.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text_file.h"
#include "data/bert/scribble.h"
#include "data/formats/csv.h"
#include "data/text/strings.h"
#include "data/unfinished.h"

static const char *const file_names[SYNTHETIC_FILES] = {"train.csv", "valid.csv", "test.csv", "unlabelled.txt"};
static const double RUDE = 0.4; /* share of the comments */

/* ---- a comment ---- */

/* Writes one or two sentences, with words that decide nothing. A comment with a rude sentence is rude. */
static const char *write_comment(FILE *out, int file, bool rude, Dice *dice) {
    static const char full_stops[] = ". |. |, |, |... |\n";
    bool aside_first = dice_chance(dice, 0.15), aside_last = dice_chance(dice, 0.15);
    if (aside_first) {
        grammar_aside(out, file, dice);
        grammar_choose(out, full_stops, dice);
    }
    if (dice_chance(dice, 0.3)) {
        grammar_opening(out, file, dice);
        fputc(' ', out);
    }
    if (rude && dice_chance(dice, 0.2)) { /* mixed */
        grammar_sentence(out, file, false, dice);
        grammar_choose(out, full_stops, dice);
    }
    const char *kind = grammar_sentence(out, file, rude, dice);
    if (dice_chance(dice, 0.3)) {
        fputc(' ', out);
        grammar_closing(out, file, dice);
    }
    if (dice_chance(dice, 0.25)) {
        grammar_choose(out, full_stops, dice);
        grammar_sentence(out, file, rude, dice);
    }
    if (aside_last) {
        grammar_choose(out, full_stops, dice);
        grammar_aside(out, file, dice);
    }
    return kind;
}

BertSyntheticComment bert_synthetic_comment(const BertSynthetic *o, int file, uint32_t draw) {
    Dice dice = {.seed = o->seed, .purpose = PURPOSE_SYNTHETIC | (uint32_t)file << 8, .step = draw};
    TextFile plain;
    text_file_begin(&plain);
    BertSyntheticComment comment = {.rude = dice_chance(&dice, RUDE)};
    comment.kind = write_comment(plain.out, file, comment.rude, &dice);
    fclose(plain.out);
    comment.text = scribble(plain.text, comment.rude, o->noise, &dice);
    free(plain.text);
    return comment;
}

/* ---- files ---- */

static void write_row(FILE *out, int file, const BertSyntheticComment *comment) {
    if (file == SYNTHETIC_UNLABELLED) {
        for (const char *at = comment->text; *at; at++) fputc(*at == '\n' ? ' ' : *at, out);
        fputc('\n', out);
        return;
    }
    csv_write(out, comment->text);
    fprintf(out, ",%s,%s\n", comment->rude ? "rude" : "polite", comment->kind);
}

/* Writes the comments of a file, without those that are in `seen`, to which it adds them. */
static bool write_rows(FILE *out, int file, const BertSynthetic *o, Strings *seen, Error *error) {
    int64_t rows = 0;
    if (file != SYNTHETIC_UNLABELLED) fprintf(out, "text,label,kind\n");
    for (uint32_t draw = 0; rows < o->rows[file]; draw++) {
        if (draw >= 10 * o->rows[file] + 1000)
            return error_set(error, "%s: of %u comments only %lld are different; ask for fewer", file_names[file], draw,
                             (long long)rows);
        BertSyntheticComment comment = bert_synthetic_comment(o, file, draw);
        uint32_t before = seen->n;
        strings_add(seen, comment.text, strlen(comment.text));
        if (seen->n > before) {
            write_row(out, file, &comment);
            rows++;
        }
        free(comment.text);
    }
    return true;
}

static bool write_file(const char *path, int file, const BertSynthetic *o, Strings *seen, Error *error) {
    TextFile text;
    text_file_begin(&text);
    if (write_rows(text.out, file, o, seen, error)) return text_file_end(&text, path, error);
    fclose(text.out);
    free(text.text);
    return false;
}

/* Marks the folder, in which none of the files may be, unless it was begun before. */
static bool begin(const char *directory, char *const *paths, const BertSynthetic *o, Error *error) {
    bool again;
    OWNED char *what = xformat("synthetic comments: %lld %lld %lld %lld, noise %.17g, seed %llu", (long long)o->rows[0],
                               (long long)o->rows[1], (long long)o->rows[2], (long long)o->rows[3], o->noise,
                               (unsigned long long)o->seed);
    if (!unfinished_find(directory, what, &again, error)) return false;
    for (int f = 0; !again && f < SYNTHETIC_FILES; f++)
        if (!access(paths[f], F_OK)) return error_set(error, "%s is there already; choose a new folder", paths[f]);
    return unfinished_begin(directory, what, error);
}

bool bert_synthetic_write(const char *directory, const BertSynthetic *o, Error *error) {
    char *paths[SYNTHETIC_FILES];
    OWNED_BY(strings_free) Strings seen = {0};
    OWNED_BY(file_unlock) FileLock lock;
    for (int f = 0; f < SYNTHETIC_FILES; f++) paths[f] = path_join(directory, file_names[f]);
    bool ok = unfinished_lock(&lock, directory, error) && begin(directory, paths, o, error);
    for (int f = 0; ok && f < SYNTHETIC_FILES; f++) ok = write_file(paths[f], f, o, &seen, error);
    ok = ok && unfinished_end(directory, error);
    if (ok) directory_remove_leftovers(directory);
    for (int f = 0; f < SYNTHETIC_FILES; f++) free(paths[f]);
    return ok;
}
