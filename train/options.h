/* Options: one table row an option, from which the command line, the YAML file, --help and the README's table are made.
 *
 * A value comes from, last one wins: the row's default, the YAML file of --config, the command line. In YAML a key is
 * the long name with - or _, inside a map named by `section` if the row has one ("gpt: {layers: 8}"); on the command
 * line it is --layers 8, --layers=8 or -L 8. Unknown keys and options are errors that name the nearest valid one. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include "base/base.h"

typedef enum { OPTION_FLAG, OPTION_INT, OPTION_FLOAT, OPTION_TEXT, OPTION_LIST, OPTION_CHOICE } OptionType;

typedef struct {
    const char *text[64];
    int count;
} OptionList; /* a repeatable option */

typedef struct {
    const char *name;    /* "grad-accumulation" */
    char letter;         /* 'g', or 0 */
    const char *section; /* YAML map, or NULL */
    OptionType type;
    void *value;          /* bool*, int64_t*, double*, const char**, OptionList*, const char** (choice) */
    const char *preset;   /* default, as it would be typed; NULL: none (required if `required`) */
    double least, most;   /* range of INT and FLOAT; both 0: any */
    const char *argument; /* how --help calls the value: "N", "PATH"; for a choice "micro|batch" */
    const char *help;     /* one sentence */
    bool required;
    bool given; /* set by options_parse: came from YAML or the command line */
} Option;

/* What --help says before the table. */
typedef struct {
    const char *program, *usage, *purpose;
} OptionsHeader;

/* Sets every value. Handles --help, --help-markdown (the README table) and --config PATH itself. Dies (exit 2) with one
 * line on anything wrong: "config.yaml:12: unknown key 'grad-acumulation'; did you mean 'grad-accumulation'?". */
void options_parse(const OptionsHeader *header, Option *options, int count, int argc, char **argv);
/* All values as JSON text {"name": value, ...} (free()), for the checkpoint's record. */
char *options_to_json(const Option *options, int count);
/* For the fuzzer: applies YAML text to the table; false with "line N: ...". */
bool options_apply_yaml(Option *options, int count, const char *text, size_t size, Error *error);

#endif
