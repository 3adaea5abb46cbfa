/* Why a classifier may not have learnt. */
#pragma once

/* Learning rates that usually work. */
typedef struct {
    double pretrained, scratch;
} UsualRates;

/* Returns the likely cause why the training of this checkpoint has come to nothing, for chance_text; free(): its
 * learning rate is ten times as high or as low as usual, it had few steps, or neither. more_epochs: the option to give
 * against few steps; NULL: there is none. NULL: the checkpoint does not tell how it was trained. */
char *chance_cause(const char *checkpoint, UsualRates usual, const char *more_epochs);
