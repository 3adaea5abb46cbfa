/* What the commands `export` of all programs share: the weights that are meant, and the folder that is filled. */
#ifndef COMMANDS_EXPORT_H
#define COMMANDS_EXPORT_H

#include "base/json.h"

/* Returns the path of the weights that --checkpoint means, and says which they are: of the folder of a run the best, or
 * the last if it has not validated; free(). Dies if there are none. */
char *export_checkpoint(const char *given);
/* Returns an option of the training that wrote a checkpoint, as its state.json has it; json_decref(). NULL: unknown.
 * Dies if that file is damaged; the message advises to give the option. */
json_t *export_option_of_training(const char *checkpoint, const char *option);
/* The same of a text; free(). */
char *export_text_of_training(const char *checkpoint, const char *option);

/* Copies a file, whole or not at all. */
bool export_copy(const char *from, const char *to, Error *error);
/* Fills the folder of --output by `write`. The folder must be empty, or left unfinished by an export of the same
 * weights (checkpoint_base_sum) that was stopped. */
bool export_folder(const char *output, uint64_t weights, bool (*write)(const void *context, Error *error),
                   const void *context, Error *error);

#endif
