#include "train/parallel/cards.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

RankCard cards_own(const Device *device) {
    RankCard own = {{0}, {0}, {0}}; /* all bytes, which are sent */
    gethostname(own.host, sizeof own.host - 1);
    snprintf(own.device, sizeof own.device, "%s", device->product[0] ? device->product : device->name);
    snprintf(own.uuid, sizeof own.uuid, "%s", device->uuid);
    return own;
}

/* Compares UUIDs alone, which no two cards share: two containers of one machine may have names of their own. */
void cards_refuse_twice(const RankCard *all, int ranks) {
    for (int b = 1; b < ranks; b++)
        for (int a = 0; a < b; a++) {
            const RankCard *one = &all[a], *other = &all[b];
            bool moved = strcmp(one->host, other->host) != 0;
            if (!*one->uuid || strcmp(one->uuid, other->uuid) != 0) continue;
            die("rank %d and rank %d both compute on the GPU %s (uuid %s) of host %s%s%s: start one process for each "
                "GPU, and let each see its own (CUDA_VISIBLE_DEVICES)",
                a, b, one->device, one->uuid, one->host, moved ? ", there called " : "", moved ? other->host : "");
        }
}
