#include "train/parallel/cards.h"

#include <string.h>
#include <unistd.h>

#include "kernels/cuda/startup.h"

RankCard cards_own(int index) {
    RankCard own = {{0}, {0}, {0}}; /* all bytes, which are sent */
    gethostname(own.host, sizeof own.host - 1);
    cuda_describe_card(index, own.product, own.uuid);
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
                a, b, one->product, one->uuid, one->host, moved ? ", there called " : "", moved ? other->host : "");
        }
}
