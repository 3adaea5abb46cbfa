/* Prints and writes the report of train_gpt prepare about the prepared clips. */
#pragma once

#include "commands/gpt/base.h"
#include "data/gpt/manifest_write.h"
#include "data/gpt/prepare.h"

/* Prints what the input is and how many recordings it lists. */
void prepare_report_list(const Prepare *p);
/* Prints how many clips were read and, by reason, how many the filters have rejected. */
void prepare_report_filters(const Prepare *p);
/* Prints the sizes that were chosen because there is little speech, if so. */
void prepare_report_sizes(const Prepare *p);

/* Writes OUTPUT/stats.json, and prints the totals and the command that trains on what was written, from a base
 * checkpoint if there is one. */
void prepare_report_write(const Prepare *p, const ManifestReport *manifests, const GptBase *base);
