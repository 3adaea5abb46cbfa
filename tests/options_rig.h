/* Helpers for tests that an option reaches what it is for. */
#pragma once

/* An option, and a shell command in the folder of next_open that prints what the option changes: $OPTION is the option,
 * or nothing. */
typedef struct {
    const char *option, *command;
} OptionUse;

/* Fails unless each command prints the same twice without its option, and something else with it. */
void options_check_uses(const OptionUse *uses, int n);
