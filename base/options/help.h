/* What --help and --help-markdown print. */
#ifndef BASE_OPTIONS_HELP_H
#define BASE_OPTIONS_HELP_H

#include "base/options.h"

void options_print_help(const OptionsHeader *header, const OptionSet *set);
void options_print_markdown(const OptionSet *set);

#endif
