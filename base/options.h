/* Options: from one table come the command line, the YAML file, --help and the tables of the README.
 *
 * The last of these sources decides a value: the default of the row, the YAML file of --config, the command line. On
 * the command line an option is --layers 8, --layers=8, -L 8 or -L8; a flag is --amp, --amp=true or --amp=false. A
 * value that begins with '-' and is not a number needs the form with '=', except '-' alone, which is standard output.
 * In YAML the key is the long name with - or _, inside the map of the row's section if it has one ("gpt: {layers:
 * 8}"). A list of texts sets a LIST; null keeps the default. The later of several files wins. A later source replaces a
 * LIST, it does not extend it. Unknown keys and options are errors that name the nearest one. */
#pragma once

#include <stddef.h>

#include "base/json.h"

typedef enum { OPTION_FLAG, OPTION_INT, OPTION_FLOAT, OPTION_TEXT, OPTION_LIST, OPTION_CHOICE } OptionType;

typedef struct {
    const char *text[64];
    int count;
} OptionList; /* a repeatable option; more is an error */

/* The default of a row as it would be typed, from a macro that is a number. */
#define OPTION_TYPED(number)   #number
#define OPTION_DEFAULT(number) OPTION_TYPED(number)

/* A row of a table. Tables are static const, with designated initialisers. */
typedef struct {
    const char *name;    /* "grad-accumulation"; unique in a program */
    char letter;         /* 'g', or 0 */
    const char *section; /* YAML map, or NULL */
    OptionType type;
    size_t offset; /* of the value in the struct of the values: bool, int64_t, double, const char *, OptionList */
    const char *default_value; /* as it would be typed; NULL: false, 0, NULL, no entry */
    double min, max;           /* range of INT and FLOAT; both 0: any */
    /* The value's name in --help: "N", "N|auto"; for a CHOICE "micro|batch"; PATH: a file to read, which is never
     * replaced (file_keep) and must be there, also in "DIR|PATH"; FILE: a file to write; DIR: a folder. */
    const char *metavar;
    const char *help; /* one sentence */
    /* The heading of this row in --help. NULL: that of the row before, at first "Options". */
    const char *heading;
    bool usual; /* -h shows the row, besides those that are required or positional */
    bool required;
    bool positional; /* words of the command line that name no option are values of this one too */
    bool later;      /* of a PATH: it may not be there yet, or be the name of something else; who reads it complains */
} OptionRow;

/* A program's changes to one row of a shared table. */
typedef struct {
    const char *name;
    const char *default_value, *help, *metavar; /* NULL: unchanged */
    double min;                                 /* 0: unchanged */
} OptionOverride;

/* A YAML key of another program's configuration files, and the option that it means here. */
typedef struct {
    const char *section; /* NULL: the top level */
    const char *name;    /* NULL: every key of the section that is an option of the top level */
    const char *option;  /* its name; NULL: none, because nothing here needs what the key decides */
    /* Values there, each followed by the value here, "" where that is so without an option; no other value is allowed.
     * Without any, values are the same. Behind the NULL, for a key that sets no option: what is so here, or what to do
     * instead. */
    const char *values[24];
} OptionAlias;

/* A row in use: holds what the command line and the file state, separate from the constant table. */
typedef struct {
    OptionRow row; /* with its override */
    void *value;
    bool given;   /* in YAML, on the command line, or by a checkpoint */
    bool adopted; /* by a checkpoint */
} Option;

enum { OPTIONS_MAX = 128, OPTIONS_TABLES = 3 };

/* All options of a program or of one of its commands; begin with {0}. */
typedef struct {
    Option options[OPTIONS_MAX];
    int count;
    const OptionAlias *aliases[OPTIONS_TABLES]; /* of aliases, the last first */
    int n_aliases[OPTIONS_TABLES], n_tables;
    bool quiet;          /* a second reading of the same options: do not print `mapped` again */
    char *mapped;        /* what options_apply_yaml has read through aliases, for people; NULL: nothing. free() */
    const char *program; /* of the header that was parsed with */
    char command[4096];  /* the command line that was parsed, as one types it into a shell; cut if longer */
} OptionSet;

/* The value of an INT that was given as "auto", which a row allows with the metavar "N|auto". */
enum { OPTION_AUTO = -1 };

/* The texts that --help prints before the options. Usage and example begin behind the name of the command, which is
 * printed as the program was called. */
typedef struct {
    const char *program, *usage, *example, *purpose;
} OptionsHeader;

/* Appends the rows of a table. `values` is the struct that their offsets belong to. */
void options_add(OptionSet *set, const OptionRow *rows, int count, void *values);
/* Accepts the keys of a table in YAML, besides the options' own names. At most three tables; what they map to is
 * printed to stderr. Rows with options that the set does not have are left out. The first row of a key counts, and the
 * last table before the others. */
void options_add_aliases(OptionSet *set, const OptionAlias *aliases, int count);
/* Changes rows; each override must name an option of the set. */
void options_override(OptionSet *set, const OptionOverride *overrides, int count);
/* Removes options by name; the last name is NULL. Sets the value of each to its default, which an override before the
 * removal may change; options_parse leaves the value alone. */
void options_remove(OptionSet *set, const char *const *names);
/* Removes the options from number `from` on but those that are named; the last name is NULL. */
void options_keep(OptionSet *set, int from, const char *const *names);

/* Sets every value. Handles --help, -h (the options that are usual), --help-markdown (the table of the README) and the
 * option "config" (a YAML file). Dies (exit 2) with one line if anything is wrong: "config.yaml:12: unknown key
 * 'grad-acumulation'; did you mean 'grad-accumulation'?". Texts point into argv, or live until options_free. */
void options_parse(const OptionsHeader *header, OptionSet *set, int argc, char **argv);
/* Adds --config PATH to a set. */
void options_add_config(OptionSet *set);
/* Returns the options of a command that has one table: its rows and --config, added and parsed. */
OptionSet options_parse_table(const OptionsHeader *header, const OptionRow *rows, int count, void *values, int argc,
                              char **argv);
/* Frees the texts that came from the file, and sets their values to NULL or to no entry. */
void options_free(OptionSet *set, int argc, char **argv);
/* Sets values from YAML text; the texts of options that are already given must be on the heap. Returns NULL, or what is
 * wrong, a line for each key: "line N: ...\n"; free(). Then the texts of given options are on the
 * heap, for the caller to free(). */
char *options_apply_yaml(OptionSet *set, const char *text, size_t size);

/* Returns the option of this name, or NULL. */
const Option *options_find(const OptionSet *set, const char *name);
/* Returns the first option that sets this value, or NULL. */
const Option *options_holding(const OptionSet *set, const void *value);
/* Returns whether the option of this name was given; false if there is no such option. */
bool options_given(const OptionSet *set, const char *name);

/* Returns the value as JSON, or NULL if a text is not UTF-8. */
json_t *option_to_json(const Option *option);
/* Sets the value to one that option_to_json has written: of the option's type, and with the checks of the command line.
 * A text is on the heap then. False with "NAME: expected ..., found ..." on an error. */
bool option_from_json(const Option *option, const json_t *value, Error *error);
/* Checks a value as option_from_json does, and sets nothing. */
bool option_check_json(const Option *option, const json_t *value, Error *error);
/* Returns all values as JSON text {"name": value, ...} for the record of a checkpoint; free(). Dies if a text is not
 * UTF-8. */
char *options_to_json(const OptionSet *set);
/* Returns {"options": {name: value}, "defaults": {name: default}, "given": [name], "adopted": [name]}: all values, the
 * defaults of those that differ from theirs, the names of those that were given, and of those that a checkpoint
 * decides. An option with two names is there once. Dies if a text is not UTF-8. */
json_t *options_record(const OptionSet *set);
