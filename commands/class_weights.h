/* Weights of classes that a user types. */
#pragma once

/* Reads "0.5,1,1.5" into weights[classes]. Dies with status 2 unless these are so many numbers above 0, also as
 * floats, and names the two words that --class-weights takes instead: `rule` and none. */
void class_weights_parse(const char *text, const char *rule, int classes, double *weights);
