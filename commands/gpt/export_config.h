/* The config.yaml of an exported model. */
#ifndef COMMANDS_GPT_EXPORT_CONFIG_H
#define COMMANDS_GPT_EXPORT_CONFIG_H

#include "model/gpt.h"

/* Returns the fields of IndexTTS2's config.yaml that belong to a model in `folder`, as YAML with comments that name the
 * published values where they differ, and how to merge the fields; free(). */
char *export_config_text(const GptConfig *config, const char *folder);

#endif
