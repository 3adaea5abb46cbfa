/* The sizes of a model that its data must match. */
#ifndef COMMANDS_GPT_LAYOUT_H
#define COMMANDS_GPT_LAYOUT_H

#include "data/tts/samples.h"
#include "model/tts.h"

enum { GPT_SPECIAL_CODES = 2 }; /* start and stop, behind the audio codes */

TtsLayout gpt_layout(const TtsGptConfig *config);

#endif
