/* A group of ranks that train together, and the operations between them on flat tensors. Every rank calls the same
 * operations in the same order with tensors of the same shapes.
 *
 * Over MPI sums are added in the order of the ranks, in f32, and are rounded once, at the end, to a 16-bit type; so the
 * bits of a result depend neither on the library nor on how an operation is divided: each rank's part of an all_reduce
 * is what reduce_scatter and all_gather give. Over NCCL the order is that of its rings. NaN and infinities pass through
 * as in such a sum. Over MPI the maximum of a NaN and a number is NaN. Integers wrap around.
 *
 * Like the door of device.h, the functions die with the names of the operation and the tensor if a type, shape or root
 * is wrong, and count. Tensors have rank 1 and are f32, bf16, f16 or i32. */
#pragma once

#include "kernels/device.h"

typedef struct Group Group;
enum { GROUP_DESCRIPTION = 128 };
enum { GROUP_MARK }; /* that of Device.mark which operations use themselves */
typedef enum { REDUCE_SUM, REDUCE_MAX } Reduction;

struct Group {
    int rank, size;
    char description[GROUP_DESCRIPTION]; /* "MPI: Open MPI 4.1.4" */
    bool queues; /* operations are only queued on the device, in its order, and the host does not wait for them */
    /* Called again and again while an operation waits for other ranks; need not return, if one of them is lost: after
     * that the group can only be left and closed. NULL: nothing is called. */
    void (*waiting)(void *context);
    /* Called with the reason when the library has failed; must not return. NULL: the program dies with it. */
    void (*failed)(void *context, const char *why);
    void *context;
    int64_t calls;
    double rate;    /* bytes a second that each rank sends and receives at once; 0: not measured */
    double sent;    /* bytes that this rank has sent to others */
    double seconds; /* in operations, with waiting, unless they are only queued */
    /* The library's own: checked and counted by the functions below, which call them only if there are several ranks
     * and tensors are not empty. NULL: operations only count, as on the dry device. */
    void (*all_reduce)(Group *group, Device *device, Tensor x, Reduction reduction);
    void (*reduce_scatter)(Group *group, Device *device, Tensor mine, Tensor all, Reduction reduction);
    void (*all_gather)(Group *group, Device *device, Tensor all, Tensor mine);
    void (*broadcast)(Group *group, Device *device, Tensor x, int root);
    void (*barrier)(Group *group);
    void (*leave)(Group *group); /* NULL: there is nothing to end */
    void (*close)(Group *group);
    void *state;
};

/* Replaces x by the sum or maximum over all ranks. Counts what reduce_scatter and all_gather of parts of ceil(n / size)
 * elements send: 2 (size - 1) ceil(n / size) elements. */
void group_all_reduce(Group *group, Device *device, Tensor x, Reduction reduction);
/* Writes to mine [n] the rank-th part of the sum or maximum of all [size n]. mine is that part of `all` itself or lies
 * elsewhere; the other parts of `all` stay as they are. Counts (size - 1) n elements. */
void group_reduce_scatter(Group *group, Device *device, Tensor mine, Tensor all, Reduction reduction);
/* Writes every rank's mine [n] to its part of all [size n]. mine is the rank-th part of `all` itself or lies elsewhere.
 * Counts (size - 1) n elements. */
void group_all_gather(Group *group, Device *device, Tensor all, Tensor mine);
/* Replaces x by that of the root. Counts size - 1 times its bytes at the root, none elsewhere, whichever ranks pass
 * them on. */
void group_broadcast(Group *group, Device *device, Tensor x, int root);
/* Returns when all ranks have called it. */
void group_barrier(Group *group);
/* Returns a group whose operations only count. With one rank they do all there is to do. */
Group *group_dry(int rank, int size);
/* Ends operations that wait on the device for a rank that is lost. Their results are not to be used, and the group can
 * only be closed. */
void group_leave(Group *group);
/* Waits for all ranks to close the group, unless it was left. */
void group_close(Group *group);
