/* --gpus: which cards of this machine train together, a process each. */
#pragma once

#include "train/options.h"

typedef struct {
    int count;
    char *cards; /* CUDA_VISIBLE_DEVICES of the processes; NULL: as it is; free() */
    bool automatic;
} GpuChoice;

/* Reads "2", "auto" or "0,2" on a machine of which the driver shows `here` cards. visible: CUDA_VISIBLE_DEVICES, NULL
 * if it is not set; its names of cards are kept. Returns false with the reason: no such text, cards that are not there,
 * a card twice. */
bool gpus_choose(const char *text, int here, const char *visible, GpuChoice *choice, Error *error);

/* Starts the processes of --gpus and ends this one with them. Returns if this process is one of them, or if it trains
 * by itself: without --gpus, with one card, and if nothing is trained (--estimate, --dry-run, --calibrate). Warns if
 * Slurm or SkyPilot were asked for more than is started. Dies with what contradicts --gpus. With auto, -g becomes that
 * of all cards, and a run that goes on has as many as before. Call it before a device is opened or a thread is started,
 * and again for each later part of a program. */
void gpus_start(TrainOptions *options);
