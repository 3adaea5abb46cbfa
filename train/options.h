/* Options: one table row an option, from which the command line, the YAML file, --help and the README's table are made.
 *
 * A value comes from, last one wins: the row's default, the YAML file of --config, the command line. On the command
 * line it is --layers 8, --layers=8, -L 8 or -L8; a flag is --amp, --amp=true or --amp=false; a value that begins with
 * '-' and is no number needs the form with '='. In YAML a key is the long name with - or _, inside a map named by
 * `section` if the row has one ("gpt: {layers: 8}"); a list of texts sets a LIST; null leaves the default. A LIST is
 * replaced, not extended, by a later source. Unknown keys and options are errors that name the nearest valid one. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include "base/json.h"

typedef enum { OPTION_FLAG, OPTION_INT, OPTION_FLOAT, OPTION_TEXT, OPTION_LIST, OPTION_CHOICE } OptionType;

typedef struct {
    const char *text[64];
    int count;
} OptionList; /* a repeatable option; more is an error */

typedef struct {
    const char *name;    /* "grad-accumulation"; unique in the table */
    char letter;         /* 'g', or 0 */
    const char *section; /* YAML map, or NULL */
    OptionType type;
    void *value;        /* bool*, int64_t*, double*, const char**, OptionList*, const char** (choice) */
    const char *preset; /* default, as it would be typed; NULL: false, 0, NULL, no entry */
    double least, most; /* range of INT and FLOAT; both 0: any */
    /* How --help calls the value: "N", "N|auto"; for a choice "micro|batch"; PATH: what is read, and is never replaced
     * (file_keep); FILE: a file that is written; DIR: a folder. */
    const char *argument;
    const char *help; /* one sentence */
    bool required;
    bool given; /* set by options_parse: came from YAML or the command line */
} Option;

enum { OPTIONS_MOST = 128 }; /* rows of a table */
/* The value of an INT that was given as "auto", which a row allows by the argument "N|auto". */
enum { OPTION_AUTO = -1 };

/* What --help says before the table. */
typedef struct {
    const char *program, *usage, *purpose;
} OptionsHeader;

/* Sets every value. Handles --help, --help-markdown (the README table) and the row named "config" (a YAML file) itself.
 * Dies (exit 2) with one line on anything wrong: "config.yaml:12: unknown key 'grad-acumulation'; did you mean
 * 'grad-accumulation'?". Texts point into argv, or live until options_free. */
void options_parse(const OptionsHeader *header, Option *options, int count, int argc, char **argv);
/* Gives back the texts of given rows that are not argv's: they came from the file. Their values are nothing then. */
void options_free(Option *options, int count, int argc, char **argv);
/* The value as JSON; NULL: a text is not UTF-8. */
json_t *option_to_json(const Option *option);
/* Sets the value to one that options_to_json has written, as if it had been typed: by the same checks. A text is on the
 * heap. False with "NAME: expected ..., found ...". */
bool option_from_json(const Option *option, const json_t *value, Error *error);
/* All values as JSON text {"name": value, ...} (free()), for the checkpoint's record. Dies on a text that is not UTF-8.
 */
char *options_to_json(const Option *options, int count);
/* Applies YAML text to the rows not yet given; false with "line N: ...". The texts of rows that are given afterwards
 * are on the heap, and the rows' own to free(). */
bool options_apply_yaml(Option *options, int count, const char *text, size_t size, Error *error);

#endif
