/* The size of a base checkpoint. */
#ifndef COMMANDS_GPT_BASE_H
#define COMMANDS_GPT_BASE_H

#include "base/options.h"

/* Options that decide what the model computes; the last is NULL. */
extern const char *const GPT_MODEL_OPTIONS[];

/* Sets the options of the model's size that are not given to those of a base checkpoint: from its config.json, or from
 * the shapes of its tensors, which do not tell the number of heads of a size that is not IndexTTS2's. Dies if an option
 * that was given contradicts it. The vocabulary is left out, because it may grow. Does nothing if there is no such
 * file.
 */
void gpt_base_adopt(const char *checkpoint, OptionSet *set);

#endif
