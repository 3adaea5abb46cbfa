#include "data/gpt/list_reader.h"

#include <stdlib.h>
#include <string.h>

#include "data/text/strings.h"

/* ---- three fields between bars ---- */

typedef struct {
    int64_t second, third, pairs;           /* different values, and different pairs of both */
    int64_t second_bytes, third_bytes, all; /* of all lines, and number of lines with both */
} Fields;

static Fields count_fields(const Recordings *all) {
    Strings second = {0}, third = {0}, pairs = {0};
    Fields f = {0};
    for (int64_t i = 0; i < all->count; i++) {
        const Recording *r = &all->items[i];
        if (!r->other || !*r->other || !*r->text) continue;
        uint32_t pair[] = {strings_add(&second, r->other, strlen(r->other)),
                           strings_add(&third, r->text, strlen(r->text))};
        strings_add(&pairs, (const char *)pair, sizeof pair);
        f.second_bytes += (int64_t)strlen(r->other);
        f.third_bytes += (int64_t)strlen(r->text);
        f.all++;
    }
    f.second = second.n, f.third = third.n, f.pairs = pairs.n;
    strings_free(&second);
    strings_free(&third);
    strings_free(&pairs);
    return f;
}

/* Returns whether both fields are forms of one text: hardly a value of one stands beside several of the other. */
static bool are_forms(const Fields *f) {
    int64_t more = f->second > f->third ? f->second : f->third, less = f->second + f->third - more;
    return 2 * less > more && 10 * f->pairs <= 11 * more + 10;
}

/* Makes the longer of both fields the text, and the other the speaker. */
static bool set_speakers(Recordings *all, bool second_is_text, Error *error) {
    all->read_as = second_is_text ? "audio|text|speaker" : "audio|speaker|text";
    all->has_speakers = true;
    for (int64_t i = 0; i < all->count; i++) {
        Recording *r = &all->items[i];
        if (!r->other || !*(second_is_text ? r->text : r->other))
            return error_set(error,
                             "%lld: %s has no speaker, but other lines are %s; name the columns by their numbers: "
                             "--text-field 3 --speaker-field 2",
                             (long long)r->line, r->id, all->read_as);
        free(r->speaker);
        r->speaker = second_is_text ? r->text : r->other;
        if (second_is_text) r->text = r->other;
        r->other = NULL;
    }
    return true;
}

/* Gives three fields between bars their roles. Returns the place of the column of the text in *column. */
static bool settle_roles(ListReader *reader, int *column, Error *error) {
    Recordings *all = reader->out;
    const Fields f = count_fields(all);
    *column = reader->n_columns - 1;
    const bool forms = !f.all || are_forms(&f), second_is_text = f.second_bytes > f.third_bytes;
    if (!forms && second_is_text) *column = 1;
    if (!forms && (second_is_text || f.second > 1)) return set_speakers(all, second_is_text, error);
    if (!forms) return true; /* the same second field everywhere is one speaker, or nothing */
    for (int64_t i = 0; i < all->count; i++) {
        Recording *r = &all->items[i];
        if (!r->other || *r->text) continue; /* without a normalised text */
        free(r->text);
        r->text = r->other;
        r->other = NULL;
    }
    return true;
}

/* ---- what speaks against a text ---- */

static bool is_same_everywhere(const Recordings *all) {
    for (int64_t i = 1; i < all->count; i++)
        if (strcmp(all->items[i].text, all->items[0].text) != 0) return false;
    return all->count > 1 && *all->items[0].text;
}

/* Returns a column without a role whose phrases are ten times as long as the texts, or -1. */
static int find_longer(const ListReader *reader, int column) {
    int64_t texts = 0;
    for (int64_t i = 0; i < reader->out->count; i++) texts += (int64_t)strlen(reader->out->items[i].text);
    for (int k = 0; k < reader->n_columns && k < MAX_COLUMNS; k++) {
        bool has_role = k == column;
        for (int i = 0; i < RECORDING_FIELDS; i++) has_role |= i != FIELD_TEXT && reader->columns[i] == k;
        if (!has_role && texts && reader->phrases[k] >= 10 * texts) return k;
    }
    return -1;
}

/* Returns why the text may be in another column; NULL: nothing speaks against it; free(). */
static char *doubt_of(const ListReader *reader, int column) {
    const Recordings *all = reader->out;
    const bool is_json = all->format == RECORDINGS_JSONL;
    int longer = is_json || all->format == RECORDINGS_COMMON_VOICE ? -1 : find_longer(reader, column);
    OWNED char *name = is_json || reader->has_header ? xformat("field %s", reader->names[FIELD_TEXT])
                                                     : xformat("field %d", column + 1);
    return is_same_everywhere(all) ? xformat("the text, %s, is the same in all %lld lines: \"%.60s\"", name,
                                             (long long)all->count, all->items[0].text)
           : longer >= 0           ? xformat("the text, %s, is less than a tenth as long as field %d", name, longer + 1)
                                   : NULL;
}

static int64_t count_quoted(const Recordings *all) {
    int64_t quoted = 0;
    for (int64_t i = 0; i < all->count; i++) {
        const char *text = all->items[i].text;
        size_t n = strlen(text);
        quoted += n > 1 && *text == '"' && text[n - 1] == '"';
    }
    return quoted;
}

bool recordings_settle_columns(ListReader *reader, Error *error) {
    Recordings *all = reader->out;
    int column = reader->columns[FIELD_TEXT];
    if (!all->count) return true;
    if (reader->open_roles && !settle_roles(reader, &column, error)) return false;
    all->quoted = count_quoted(all);
    all->doubt = doubt_of(reader, column);
    return !all->doubt || !reader->open_roles ||
           error_set(error,
                     "%lld: %s; if it is right, name it: --text-field %d; else give the numbers of the columns, such "
                     "as --text-field 2 --speaker-field 3",
                     (long long)all->items[0].line, all->doubt, column + 1);
}
