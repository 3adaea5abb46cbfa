/* Prints the data report of train_gpt. */
#ifndef COMMANDS_GPT_DATA_REPORT_H
#define COMMANDS_GPT_DATA_REPORT_H

#include "base/options.h"
#include "data/gpt/dataset.h"

/* Prints what a data set holds, and signs of padding that was stored as data. */
void gpt_report_dataset(const char *name, const GptDatasetOptions *options, const GptDatasetReport *report);

/* Warns if many text ids are unknown pieces. Dies if their share is `most` or more. */
void gpt_check_unknown(const char *name, const GptDatasetReport *report, double most);

/* Warns of manifests that are given for training and for validation: a loss on training samples looks too good. */
void gpt_warn_of_shared_manifests(const OptionList *trained, const OptionList *validated);

#endif
