/* The output of --help and --help-markdown. */
#pragma once

#include "base/options.h"

/* Prints words from column `column` on, in lines that begin at column `indent` and end where the terminal does, or at
 * column 120. */
void help_print_wrapped(const char *text, int column, int indent);
/* Prints what a command does, its usage, an example and its options; brief: the usual options only. */
void options_print_help(const OptionsHeader *header, const OptionSet *set, bool brief);
void options_print_markdown(const OptionSet *set);
