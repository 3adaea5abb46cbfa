/* The command line, and the tables of options. Every source sets values with option_set, in the order default, YAML,
 * command line. Two options may set the same value, as two names for it: then the value counts as given if one of them
 * is. */
#include "base/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/options/built_in.h"
#include "base/options/help.h"
#include "base/options/value.h"
#include "base/program.h"

/* Returns the text of a file, or of the program's settings of this name; free(). */
static char *config_text(const OptionSet *set, const char *path, size_t *size) {
    const char *built_in = built_in_config(path), *nearest;
    char *text;
    Error error;
    if (built_in) {
        if (!built_in_is_for(built_in, set->program))
            die_usage("--config %s: these settings are not for %s; --config list prints those that are", path,
                      set->program);
        *size = strlen(built_in);
        return xstrdup(built_in);
    }
    file_keep(path, "--config");
    if (read_file(path, &text, size, &error)) return text;
    nearest = strpbrk(path, "/.") ? NULL : built_in_nearest(path, set->program);
    die_usage("--config %s: %s%s%s%s", path, error.text, nearest ? "; did you mean the program's own settings '" : "",
              nearest ? nearest : "", nearest ? "'?" : "");
}

static void read_yaml(OptionSet *set, const char *path) {
    size_t size;
    OWNED char *text = config_text(set, path, &size);
    char *problems = options_apply_yaml(set, text, size), *end;
    for (char *line = problems; line; line = end + 1) { /* "line N: " becomes "PATH:N: " */
        line += strlen("line ");
        end = strchr(line, '\n');
        *end = 0;
        if (!end[1]) die_usage("%s:%s", path, line);
        fprintf(stderr, "%s: %s:%s\n", program_invocation_short_name, path, line);
    }
    if (set->mapped && !set->quiet)
        fprintf(stderr, "%s: --config %s: %s\n", program_invocation_short_name, path, set->mapped);
    free(set->mapped);
    set->mapped = NULL;
}

typedef struct {
    const OptionsHeader *header;
    OptionSet *set;
    int argc;
    char **argv;
    bool from_file[OPTIONS_MAX]; /* options from YAML that the command line has not replaced */
} CommandLine;

/* Returns "--pretrain-epochs or --finetune-epochs" for "epochs": the options that end with a name; NULL: none. */
static char *options_ending(const CommandLine *c, const char *name) {
    char *all = NULL;
    for (int i = 0; i < c->set->count; i++) {
        const char *option = c->set->options[i].row.name;
        size_t before = strlen(option) - strlen(name);
        if (strlen(option) <= strlen(name) || option[before - 1] != '-' || !option_has_name(option + before, name))
            continue;
        xappend(&all, "%s--%s", all ? " or " : "", option);
    }
    return all;
}

static _Noreturn void unknown_option(const CommandLine *c, const char *name) {
    const char *names[OPTIONS_MAX];
    for (int i = 0; i < c->set->count; i++) names[i] = c->set->options[i].row.name;
    char *meant = options_ending(c, name);
    const char *nearest = meant ? NULL : nearest_name(name, names, c->set->count);
    if (nearest) meant = xformat("--%s", nearest);
    die_usage("unknown option --%s%s%s%s", name, meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

/* Returns the option that a word names. *value: its value if the same word has it ("--name=value", "-b8"), else NULL.
 */
static Option *word_option(const CommandLine *c, const char *word, const char **value) {
    char name[64];
    *value = NULL;
    if (word[0] == '-' && word[1] && word[1] != '-') {
        for (int i = 0; i < c->set->count; i++) {
            if (c->set->options[i].row.letter != word[1]) continue;
            if (word[2]) *value = word + 2;
            return &c->set->options[i];
        }
        die_usage("unknown option -%c", word[1]);
    }
    if (strncmp(word, "--", 2) || !word[2]) {
        for (int i = 0; (word[0] != '-' || !word[1]) && i < c->set->count; i++) { /* "-": a stream */
            if (!c->set->options[i].row.positional) continue;
            *value = word;
            return &c->set->options[i];
        }
        die_usage("unexpected argument '%s': an option is --name value, a flag --name or --name=false", word);
    }
    size_t length = strcspn(word + 2, "=");
    if (word[2 + length]) *value = word + 3 + length;
    snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : (int)sizeof name - 1, word + 2);
    for (int i = 0; i < c->set->count; i++)
        if (option_has_name(c->set->options[i].row.name, name)) return &c->set->options[i];
    unknown_option(c, name);
}

/* Returns whether a word begins with '-' and is no number, so that it cannot be the value of the option before it. */
static bool is_option_word(const char *word) {
    return word[0] == '-' && word[1] && word[1] != '.' && !isdigit((unsigned char)word[1]);
}

/* Returns the next option of the command line, or NULL at the end; *value is its value. Advances *at. */
static Option *next_option(const CommandLine *c, int *at, const char **value) {
    if (*at >= c->argc) return NULL;
    Option *option = word_option(c, c->argv[(*at)++], value);
    if (*value) return option;
    if (option->row.type == OPTION_FLAG) {
        *value = "true";
        return option;
    }
    if (*at == c->argc || is_option_word(c->argv[*at]))
        die_usage("--%s needs a value: --%s %s", option->row.name, option->row.name, option->row.metavar);
    *value = c->argv[(*at)++];
    return option;
}

/* Handles --help wherever it stands, then reads the files of --config. */
static void read_requests(const CommandLine *c) {
    const char *value;
    for (int i = 1; i < c->argc; i++) {
        bool markdown = !strcmp(c->argv[i], "--help-markdown"), brief = !strcmp(c->argv[i], "-h");
        if (!markdown && !brief && strcmp(c->argv[i], "--help")) continue;
        program_end_with_reader();
        if (markdown)
            options_print_markdown(c->set);
        else
            options_print_help(c->header, c->set, brief);
        exit(0);
    }
    int at = 1;
    int files = 0;
    for (Option *option; (option = next_option(c, &at, &value));) {
        if (strcmp(option->row.name, "config") != 0) continue;
        if (!strcmp(value, "list") && access(value, F_OK)) {
            program_end_with_reader();
            built_in_print(c->set->program);
            exit(0);
        }
        if (files++ && option->row.type != OPTION_LIST) die_usage("--config: this command reads one file");
        read_yaml(c->set, value);
    }
}

static bool in_arguments(const char *text, int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if ((uintptr_t)text - (uintptr_t)argv[i] <= strlen(argv[i])) return true;
    return false;
}

void options_free(OptionSet *set, int argc, char **argv) {
    for (int i = 0; i < set->count; i++) {
        const Option *o = &set->options[i];
        if (!o->given || !option_holds_text(o)) continue;
        const OptionList *list = o->value;
        const char *text = o->row.type != OPTION_LIST ? *(const char **)o->value : list->count ? list->text[0] : NULL;
        if (!text || in_arguments(text, argc, argv)) continue;
        option_free_texts(o);
        option_clear(o);
    }
}

/* Discards what the file set, under this name or another. */
static void forget_file(CommandLine *c, const Option *option) {
    for (int i = 0; i < c->set->count; i++) {
        if (!c->from_file[i] || c->set->options[i].value != option->value) continue;
        option_free_texts(option);
        for (int k = i; k < c->set->count; k++)
            if (c->set->options[k].value == option->value) c->from_file[k] = c->set->options[k].given = false;
    }
}

static void apply_arguments(CommandLine *c) {
    const char *value;
    Error error;
    int at = 1;
    for (Option *option; (option = next_option(c, &at, &value));) {
        forget_file(c, option);
        if (option->row.type == OPTION_LIST && !options_value_given(c->set, option->value)) option_clear(option);
        if (!option_set(option, value, &error)) die_usage("--%s", error.text);
        option->given = true;
    }
}

/* Dies if an input is missing, before hours go into reading others. Only ENOENT counts: RUN/best/FILE gives ENOTDIR
 * where best is a small file, and its reader follows it. */
static void require_input(const Option *option, const char *path) {
    if (!option->row.later && strcmp(path, "-") != 0 && access(path, F_OK) && errno == ENOENT)
        die("--%s %s: %s", option->row.name, path, strerror(errno));
}

/* Requires the files that are read, and protects them from being replaced. */
static void take_inputs(const OptionSet *set) {
    for (int i = 0; i < set->count; i++) {
        const Option *o = &set->options[i];
        if (!o->row.metavar || !strstr(o->row.metavar, "PATH") || !o->given) continue;
        if (!strcmp(o->row.name, "config")) continue; /* read_yaml protects the files, and a name is none */
        const OptionList *list = o->value;
        bool several = o->row.type == OPTION_LIST;
        OWNED char *name = xformat("--%s", o->row.name);
        for (int k = 0; k < (several ? list->count : 1); k++) {
            OWNED char *path = NULL;
            OWNED char *label = NULL;
            file_split_label(several ? list->text[k] : *(const char **)o->value, &path, &label);
            require_input(o, path);
            file_keep(path, name);
        }
    }
}

void options_add(OptionSet *set, const OptionRow *rows, int count, void *values) {
    const char *heading = NULL;
    assert(set->count + count <= OPTIONS_MAX);
    for (int i = 0; i < count; i++) {
        Option *option = &set->options[set->count++];
        *option = (Option){.row = rows[i], .value = (char *)values + rows[i].offset};
        if (rows[i].heading) heading = rows[i].heading;
        option->row.heading = heading ? heading : "Options";
    }
}

void options_add_config(OptionSet *set) {
    static const char *file; /* nobody reads it: read_requests has read the file before */
    static const OptionRow row = {.name = "config",
                                  .type = OPTION_TEXT,
                                  .metavar = "PATH",
                                  .help = "YAML file with any of these options; the command line wins"};
    const char *heading = "Options";
    for (int i = 0; i < set->count; i++)
        if (!strcmp(set->options[i].row.heading, "Files")) heading = "Files";
    options_add(set, &row, 1, &file);
    set->options[set->count - 1].row.heading = heading;
}

void options_add_aliases(OptionSet *set, const OptionAlias *aliases, int count) {
    assert(set->n_tables < OPTIONS_TABLES);
    set->aliases[set->n_tables] = aliases;
    set->n_aliases[set->n_tables++] = count;
}

/* Returns the index of the option of this name, or -1. */
static int index_of(const OptionSet *set, const char *name) {
    for (int i = 0; i < set->count; i++)
        if (!strcmp(set->options[i].row.name, name)) return i;
    return -1;
}

const Option *options_find(const OptionSet *set, const char *name) {
    int i = index_of(set, name);
    return i < 0 ? NULL : &set->options[i];
}

const Option *options_holding(const OptionSet *set, const void *value) {
    for (int i = 0; i < set->count; i++)
        if (set->options[i].value == value) return &set->options[i];
    return NULL;
}

bool options_given(const OptionSet *set, const char *name) {
    const Option *option = options_find(set, name);
    return option && option->given;
}

void options_override(OptionSet *set, const OptionOverride *overrides, int count) {
    for (const OptionOverride *o = overrides; o < overrides + count; o++) {
        int i = index_of(set, o->name);
        assert(i >= 0);
        OptionRow *row = &set->options[i].row;
        if (o->default_value) row->default_value = o->default_value;
        if (o->help) row->help = o->help;
        if (o->metavar) row->metavar = o->metavar;
        if (o->min > 0) row->min = o->min;
    }
}

void options_remove(OptionSet *set, const char *const *names) {
    for (; *names; names++) {
        int i = index_of(set, *names);
        assert(i >= 0);
        option_clear(&set->options[i]);
        option_set_default(&set->options[i]);
        set->count--;
        memmove(&set->options[i], &set->options[i + 1], (size_t)(set->count - i) * sizeof set->options[i]);
    }
}

void options_keep(OptionSet *set, int from, const char *const *names) {
    for (int i = set->count - 1; i >= from; i--) {
        const char *const removed[] = {set->options[i].row.name, NULL}, *const *name = names;
        while (*name && strcmp(*name, removed[0]) != 0) name++;
        if (!*name) options_remove(set, removed);
    }
}

/* Writes the command line into the set. argv[0] is the program's path, "train_psd pretrain", or the command alone. */
static void keep_command(const CommandLine *c) {
    OptionSet *set = c->set;
    const char *first = c->argc ? c->argv[0] : "";
    bool whole = strstr(first, c->header->program) != NULL;
    size_t room = sizeof set->command, used;
    set->program = c->header->program;
    used = (size_t)snprintf(set->command, room, "%s%s%s", whole ? "" : set->program, whole ? "" : " ", first);
    for (int i = 1; i < c->argc && used < room; i++) {
        OWNED char *word = shell_word(c->argv[i]);
        used += (size_t)snprintf(set->command + used, room - used, " %s", word);
    }
}

void options_parse(const OptionsHeader *header, OptionSet *set, int argc, char **argv) {
    CommandLine line = {.header = header, .set = set, .argc = argc, .argv = argv};
    keep_command(&line);
    for (int i = 0; i < set->count; i++) {
        set->options[i].given = set->options[i].adopted = false;
        option_clear(&set->options[i]);
    }
    for (int i = 0; i < set->count; i++) option_set_default(&set->options[i]);
    read_requests(&line);
    for (int i = 0; i < set->count; i++) line.from_file[i] = set->options[i].given;
    apply_arguments(&line);
    for (int i = 0; i < set->count; i++)
        if (set->options[i].row.required && !options_value_given(set, set->options[i].value))
            die_usage("--%s is missing: %s", set->options[i].row.name, set->options[i].row.help);
    take_inputs(set);
}

OptionSet options_parse_table(const OptionsHeader *header, const OptionRow *rows, int count, void *values, int argc,
                              char **argv) {
    OptionSet set = {0};
    options_add(&set, rows, count, values);
    options_add_config(&set);
    options_parse(header, &set, argc, argv);
    return set;
}
