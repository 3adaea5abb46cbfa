/* The option --max-unknown of all commands that train on texts, or prepare them. */
#pragma once

#include "base/options.h"

#define MAX_UNKNOWN_DEFAULT "0.05"
#define MAX_UNKNOWN_ROW(at)                                                                                            \
    {                                                                                                                  \
        .name = "max-unknown", .type = OPTION_FLOAT, .offset = (at), .default_value = MAX_UNKNOWN_DEFAULT, .max = 1,   \
        .metavar = "X", .help = "stop if the tokenizer does not know this share of the pieces of the texts; 1: never"  \
    }
