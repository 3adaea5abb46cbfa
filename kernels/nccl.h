/* A group of ranks with a GPU each over NCCL: kernels/cuda/libraries/nccl.c in programs that are linked with CUDA, else
 * kernels/cuda_absent.c. */
#pragma once

#include "kernels/group.h"

enum { NCCL_ID_BYTES = 128 };

/* Makes what the ranks of a group find each other by; one rank calls it and tells the others. Returns false with the
 * reason: no NCCL, or one that is older than 2.16. */
bool nccl_make_id(char id[NCCL_ID_BYTES], Error *error);
/* Has groups that are opened later add in the order of an earlier one, of whose description this is; "": of none. What
 * the user has set (NCCL_ALGO, NCCL_PROTO) counts more. */
void nccl_choose_as(const char *description);
/* Writes what groups will be: "NCCL 2.27.5; Ring; Simple", the version and the orders of sums, which are chosen unless
 * the user has set them. All ranks must have the same. Returns false with the reason. */
bool nccl_describe(char text[GROUP_DESCRIPTION], Error *error);
/* Opens a group over NCCL for a device of this process; all ranks call it. Its operations are queued in the device's
 * order, one after the other. `waiting` and its context are those of Group, for the time until all have come. The
 * device must outlive the group. Returns NULL with the reason. */
Group *nccl_group_open(int rank, int size, const char id[NCCL_ID_BYTES], Device *device, void (*waiting)(void *context),
                       void *context, Error *error);
