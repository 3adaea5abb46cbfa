/* Checks the arithmetic of train_gpt prepare --indextts2 on the weights and the recordings that it is run with. */
#pragma once

#include "commands/gpt/features.h"

/* Computes the first minute of the kept clips twice: packed and with the types of products that the run has chosen for
 * its device, which is open; and each clip alone, with exact f32 products. Prints the share of equal codes and the
 * cosines of the features. Ends the program if they differ by more than such rounding explains: in 16 bits or TF32 by
 * more than commands/gpt/agreement.h says, in f32 by a bit. */
void features_verify(const FeatureRun *run, const Prepare *p);
