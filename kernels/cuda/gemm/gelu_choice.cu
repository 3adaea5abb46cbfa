#include "kernels/cuda/gemm/gelu_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/gelu.h"
#include "kernels/cuda/libraries/cublas.h"

namespace {

constexpr float CLEARLY_FASTER = 0.97f;

/* No padding, because all bytes are compared. */
struct Key {
    int64_t m, n, k;
    int32_t type;
    int32_t flags; /* epilogue, GELU, transpose_b, bias, dropout, TF32 */
};

struct Choice {
    Key key;
    bool ours;
};

struct Choices {
    int count;
    Choice each[GELU_CHOICES];
};

Key key_of(const Device *device, const Gemm *g) {
    bool tf32 = g->type == DTYPE_F32 && device->tf32;
    int flags =
        g->epilogue | g->gelu << 2 | g->transpose_b << 3 | (g->bias != NULL) << 4 | (g->drop.p > 0) << 5 | tf32 << 6;
    return {g->rows_vary ? cublas_round_tokens(g->m) : g->m, g->n, g->k, (int32_t)g->type, flags};
}

/* Returns the list, which is made when it is first needed. */
Choices *choices_of(Device *device) {
    CudaState *state = cuda_state(device);
    if (!state->gelu_choices) state->gelu_choices = xcalloc(1, sizeof(Choices));
    return (Choices *)state->gelu_choices;
}

const Choice *find(const Choices *choices, const Key &key) {
    for (int i = 0; i < choices->count; i++)
        if (!memcmp(&choices->each[i].key, &key, sizeof key)) return &choices->each[i];
    return NULL;
}

/* ---- the two ways ---- */

bool compute_ours(Device *device, const void *gemm) {
    gemm_own(device, (const Gemm *)gemm);
    return true;
}

/* Returns false, having done nothing, if the library cannot multiply. */
bool compute_in_two(Device *device, const void *argument) {
    const Gemm *g = (const Gemm *)argument;
    Tensor c = tensor_2d(g->c, g->type, g->m, g->n), hidden = tensor_2d(g->hidden, g->type, g->m, g->n);
    bool is_gelu = g->epilogue == EPILOGUE_GELU;
    Gemm plain = *g;
    plain.epilogue = EPILOGUE_NONE, plain.hidden = NULL;
    if (is_gelu) plain.c = g->hidden;
    if (!cublas_multiply(device, &plain)) return false;
    if (is_gelu)
        gelu_then_dropout(device, c, hidden, g->gelu, g->drop);
    else
        gelu_then_dropout_backward(device, c, c, hidden, g->gelu, g->drop);
    return true;
}

/* Returns whether ours is clearly faster, or the library cannot compute the product. The first run of each loads its
 * code; the fastest of several counts, and both take turns: a clock that rises from idle rises for both. */
bool ours_is_faster(Device *device, const Gemm *g) {
    float ours = INFINITY, theirs = INFINITY;
    if (!compute_in_two(device, g)) return true;
    compute_ours(device, g);
    for (int run = 0; run < GELU_TIMED_RUNS; run++) {
        ours = fminf(ours, cuda_milliseconds(device, compute_ours, g));
        theirs = fminf(theirs, cuda_milliseconds(device, compute_in_two, g));
    }
    return ours < CLEARLY_FASTER * theirs;
}

/* Returns whether our own product is to be taken; of a size that is not in the list when that is full, it is not. */
bool choose_ours(Device *device, const Gemm *g) {
    Key key = key_of(device, g);
    Choices *choices = choices_of(device);
    const Choice *choice = find(choices, key);
    if (choice) return choice->ours;
    if (choices->count == GELU_CHOICES) return false;
    if (is_capturing(device)) {
        cuda_state(device)->unrecordable = true;
        return false;
    }
    bool ours = ours_is_faster(device, g);
    choices->each[choices->count++] = {key, ours};
    return ours;
}

} // namespace

bool gelu_multiply_in_two(Device *device, const Gemm *gemm) {
    return cublas_is_open(device) && !choose_ours(device, gemm) && compute_in_two(device, gemm);
}

/* ---- the autotune cache ---- */

char *gelu_choices_text(const Device *device) {
    const Choices *choices = (const Choices *)cuda_state(device)->gelu_choices;
    char *text = NULL;
    if (!choices || !choices->count) return NULL;
    xappend(&text, "%s\n", cublas_description(device));
    for (int i = 0; i < choices->count; i++) {
        const Key *key = &choices->each[i].key;
        xappend(&text, "%lld %lld %lld %d %d %d\n", (long long)key->m, (long long)key->n, (long long)key->k, key->type,
                key->flags, choices->each[i].ours);
    }
    return text;
}

bool gelu_choices_load(Device *device, const char *text, Error *error) {
    const char *at = library_choices(text, cublas_description(device), error);
    Choices *choices = choices_of(device);
    while (at && *at) {
        long long m, n, k;
        int type, flags, ours, used = 0;
        if (sscanf(at, "%lld %lld %lld %d %d %d%n", &m, &n, &k, &type, &flags, &ours, &used) != 6 || at[used] != '\n' ||
            (ours & ~1))
            return error_set(error, "a line is no choice of this program's");
        Key key = {m, n, k, type, flags};
        if (!find(choices, key) && choices->count < GELU_CHOICES) choices->each[choices->count++] = {key, ours != 0};
        at += used + 1;
    }
    return at != NULL;
}

void gelu_choices_close(Device *device) {
    free(cuda_state(device)->gelu_choices);
    cuda_state(device)->gelu_choices = NULL;
}
