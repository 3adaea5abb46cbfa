/* The sizes of a model that its data must match. */
#ifndef COMMANDS_GPT_LAYOUT_H
#define COMMANDS_GPT_LAYOUT_H

#include "data/gpt/samples.h"
#include "model/gpt.h"

enum { GPT_SPECIAL_CODES = 2 }; /* start and stop, behind the audio codes */

GptLayout gpt_layout(const GptConfig *config);

#endif
