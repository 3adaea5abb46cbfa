/* The trained weights that a command is given, and what is known of their training. */
#pragma once

#include "base/json.h"

/* Returns the path of the weights that --checkpoint means, and says which they are: of the folder of a run the best, or
 * the last if it has not validated; free(). Dies if there are none. */
char *trained_checkpoint(const char *given);
/* Returns an option of the training that wrote a checkpoint, as its state.json has it; json_decref(). NULL: unknown.
 * Dies if that file is damaged; the message advises to give the option. */
json_t *trained_option(const char *checkpoint, const char *option);
/* The same of a text; free(). */
char *trained_text(const char *checkpoint, const char *option);
