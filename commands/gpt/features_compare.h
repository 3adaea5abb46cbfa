/* Compares the features that train_gpt prepare --indextts2 has written with those of IndexTTS2's own preprocessing. */
#pragma once

#include "commands/gpt/reference.h"
#include "data/gpt/prepare.h"

/* Ends the program, before hours of work, if the folder has no features, or is the output itself. */
void features_compare_open(Reference *reference, const char *folder, const char *output);
/* Compares all kept clips. Prints the agreement and the likely cause if there is little, and writes a table with a line
 * per clip, OUTPUT/comparison.tsv. Ends the program in the end if a file of the reference cannot be used. */
void features_compare(const Reference *reference, const char *folder, const Prepare *p);
