/* The state of a training, visible to the engine only. */
#pragma once

#include "train/parallel/exchange.h"
#include "train/train.h"

enum { TRAIN_MAX_DEVICE_DATA = 4 };

/* A device dataset (Dataset.device_data) in the memory of a device that cannot read host memory. */
typedef struct {
    const void *host;
    void *device;
    size_t bytes;
} DeviceData;

struct Training {
    TrainSpec spec;
    bool inference;  /* opened by train_open_inference */
    struct Run *run; /* under way; NULL: none */
    DeviceData device_data[TRAIN_MAX_DEVICE_DATA];
    int n_device_data;
    Tensor m, v;
    Exchange *exchange;       /* with the other ranks; NULL: this process trains alone */
    float *whole_m, *whole_v; /* on the host, if each rank has only a part of the moments: all of them */
    Arena activations;
    size_t planned_bytes; /* of the device's memory */
    /* Host copies of weights, m and v, if the host cannot read the device's memory in place. Unless they are large
     * there is a second copy, in which a checkpoint waits while another one is written. */
    float *staging[2][3];
    TrainState state;
    CarriedTensors carried; /* from the base checkpoint, or from the one resumed from */
    char *resumed_from;     /* NULL: a fresh start */
    bool ended;
    size_t autotune_length; /* the length of the autotune cache in its file */
    ImportReport import;
};
