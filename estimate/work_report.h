/* Lines of every estimate: the operations, and what of the machine is assumed or was measured. */
#pragma once

#include <jansson.h>

#include "cost/cost.h"

/* Returns the type of the numbers that products multiply: "bf16", "TF32". */
const char *work_report_type(const Machine *machine);
/* Prints a table of the operations, the longest first. of: "a step". */
void work_report_operations(const Work *work, const WorkTime *time, const char *of);
/* Returns them as JSON. */
json_t *work_report_operations_json(const Work *work, const WorkTime *time);
/* Prints the shares of the stated rates that are assumed, or the rates that were measured, which lie in the file
 * --calibration. */
void work_report_rates(const Machine *machine, const char *calibration);
/* Adds them to the card: "assumed" or "measured". */
void work_report_add_rates(json_t *card, const Machine *machine, const char *calibration);
