/* The configuration of Hugging Face's Trainer, as far as it says something about a run here. */
#pragma once

#include "base/options.h"

/* Accepts the fields of transformers.TrainingArguments as keys of a YAML file: those that an option here decides, those
 * that are so in every run, and those that change nothing. What a run here does not do is an error that says so. */
void trainer_arguments_add(OptionSet *set);
