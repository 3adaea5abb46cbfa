/* The values of options: shared by the readers of the command line and of YAML. */
#pragma once

#include "base/options.h"

/* Room for the value of any option. */
typedef union {
    bool flag;
    int64_t whole;
    double real;
    const char *text;
    OptionList list;
} Value;

/* Compares names; - and _ are the same. */
bool option_has_name(const char *a, const char *b);
bool option_holds_text(const Option *option);
/* Returns whether an option that sets this value was given. */
bool options_value_given(const OptionSet *set, const void *value);
/* Sets the value, or adds to a list. `text` must live as long as the options if the option holds text. */
bool option_set(const Option *option, const char *text, Error *error);
/* Sets the value to false, 0, NULL, or no entry. */
void option_clear(const Option *option);
/* Sets the value to the default of the row, if the row has one. */
void option_set_default(const Option *option);
/* Frees the value's texts, which are on the heap. */
void option_free_texts(const Option *option);
