/* Why CUDA does not start, and what to do; kernels/cuda_absent.c stands in for it. */
#pragma once

#include "kernels/cuda/libraries/library.h"

/* Returns why no GPU can be opened: what was found, what is needed, what to do, in one line. NULL if one can. */
const char *cuda_missing(void);

/* Returns whether a card that could be used (7.0 or newer) is in this machine, with a driver or without, and the user
 * does not hide all with CUDA_VISIBLE_DEVICES. False in a program without CUDA. */
bool cuda_card_is_here(void);

/* Returns how many GPUs the driver shows to this process: 0 in a program without CUDA, and if the driver does not
 * start. Starts the driver, but no GPU. */
int cuda_count_cards(void);
/* Returns how many and their names, "2 GPUs: NVIDIA A30, NVIDIA A30"; free(). */
char *cuda_list_cards(void);

/* Writes a card's product, "NVIDIA A30", and its UUID as nvidia-smi does; "" what the driver does not tell. Opens no
 * GPU. */
void cuda_describe_card(int index, char product[64], char uuid[48]);

/* Writes the driver's version and file, or why there is none. Does not start the driver. */
void startup_find_driver(char text[LIBRARY_DESCRIPTION]);
