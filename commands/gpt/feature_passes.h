/* Passes of the networks of IndexTTS2's features: which clips are computed together, and the memory that it takes. */
#pragma once

#include "model/indextts2/features.h"

enum { FEATURE_ROWS_A_SECOND = 50 };

/* Properties that decide the memory: the types of products, f32 or f16 of w2v-BERT and the codec, f32 or bf16 of the
 * conditioning; whether the device has the host's memory; the bytes that are available. */
typedef struct {
    DType type, voice_type;
    bool host_memory;
    size_t available;
} PassTarget;

typedef struct {
    int64_t rows;          /* of a pass at most, unless a clip alone has more */
    int64_t n;             /* passes */
    int64_t *first;        /* [n + 1]: clips of each begin here */
    size_t weights, bytes; /* of memory: of the weights; of the pass that needs most, beside them */
} PassPlan;

/* Chooses the types of products for a device's 16-bit type; f32: it has none, or is not to use it. f16 is for w2v-BERT
 * and the codec, bf16 for the conditioning: the other way round neither is fit. TF32 comes before f16 where there are
 * both. */
void pass_types(DType half, PassTarget *target);
/* Divides neighbouring clips of at most rows[n] into passes of as many rows as there is memory for. Returns whether any
 * division fits; if not, the plan is that of the smallest passes. pass_plan_free. */
bool pass_plan(PassPlan *plan, const PassTarget *target, const int64_t *rows, int64_t n);
void pass_plan_free(PassPlan *plan);
/* Returns whether the plan that was made `of` a target is the one for another target. */
bool pass_plan_serves(const PassPlan *plan, const PassTarget *of, const PassTarget *target);

/* Returns how many passes from k on are of clips of the same lengths, at least 1. */
int64_t pass_repeats(const PassPlan *plan, const int64_t *rows, int64_t k);
/* Returns the clips of pass k; free(). */
ClipLength *pass_lengths(const PassPlan *plan, const int64_t *rows, int64_t k);
