/* Writes synthetic comments as people do who are in a hurry. */
#pragma once

#include "data/bert/grammar.h"

/* Returns a text without tone marks, with short forms, repeated letters, signs and emoji behind it; free(). noise: 1 as
 * in a forum, 0 none. rude: the class, of which a few emoji are typical. */
char *scribble(const char *text, bool rude, double noise, Dice *dice);
