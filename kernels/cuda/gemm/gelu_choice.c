#include "kernels/cuda/gemm/gelu_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/libraries/cublas.h"

enum { MOST = 256, TIMED_RUNS = 3 };
static const float CLEARLY_FASTER = 0.97f;

/* No padding, because all bytes are compared. */
typedef struct {
    int64_t m, n, k;
    int32_t type;
    int32_t flags; /* epilogue, GELU, transpose_b, bias, dropout, TF32 */
} Key;

typedef struct {
    Key key;
    bool ours;
} Choice;

typedef struct {
    int count;
    Choice each[MOST];
} Choices;

static Key key_of(const Device *device, const Gemm *g) {
    bool tf32 = g->type == DTYPE_F32 && device->tf32;
    return (Key){.m = g->rows_vary ? cublas_round_tokens(g->m) : g->m,
                 .n = g->n,
                 .k = g->k,
                 .type = (int32_t)g->type,
                 .flags = (int32_t)g->epilogue | (int32_t)g->gelu << 2 | g->transpose_b << 3 | (g->bias != NULL) << 4 |
                          (g->drop.p > 0) << 5 | tf32 << 6};
}

/* Returns the list, which is made when it is first needed. */
static Choices *choices_of(Device *device) {
    CudaState *state = cuda_state(device);
    if (!state->gelu_choices) state->gelu_choices = xcalloc(1, sizeof(Choices));
    return state->gelu_choices;
}

static const Choice *find(const Choices *choices, const Key *key) {
    for (int i = 0; i < choices->count; i++)
        if (!memcmp(&choices->each[i].key, key, sizeof *key)) return &choices->each[i];
    return NULL;
}

/* ---- timing ---- */

static bool compute_ours(Device *device, const void *gemm) {
    gemm_own(device, gemm);
    return true;
}

static bool compute_in_two(Device *device, const void *gemm) { return gemm_multiply_then_finish(device, gemm); }

/* Returns whether ours is clearly faster, or the library cannot compute the product. The first run of each loads its
 * code; the fastest of several counts, and both take turns: a clock that rises from idle rises for both. */
static bool ours_is_faster(Device *device, const Gemm *g) {
    float ours = INFINITY, theirs = INFINITY;
    if (!compute_in_two(device, g)) return true;
    compute_ours(device, g);
    for (int run = 0; run < TIMED_RUNS; run++) {
        ours = fminf(ours, cuda_milliseconds(device, compute_ours, g));
        theirs = fminf(theirs, cuda_milliseconds(device, compute_in_two, g));
    }
    return ours < CLEARLY_FASTER * theirs;
}

bool gelu_choice_is_ours(Device *device, const Gemm *g) {
    if (!cublas_is_open(device) || cuda_state(device)->measuring) return true;
    Key key = key_of(device, g);
    Choices *choices = choices_of(device);
    const Choice *choice = find(choices, &key);
    if (choice) return choice->ours;
    if (choices->count == MOST) return false;
    if (is_capturing(device)) {
        cuda_state(device)->unrecordable = true;
        return false;
    }
    bool ours = ours_is_faster(device, g);
    choices->each[choices->count++] = (Choice){key, ours};
    return ours;
}

/* ---- the autotune cache ---- */

char *gelu_choices_text(const Device *device) {
    const Choices *choices = cuda_state(device)->gelu_choices;
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
    size_t length = strcspn(text, "\n");
    const char *here = cublas_description(device), *at = text + length;
    Choices *choices = choices_of(device);
    if (strlen(here) != length || strncmp(here, text, length) != 0)
        return error_set(error, "they are of %.*s; here it is %s", (int)length, text, here);
    for (at += *at == '\n'; *at;) {
        long long m, n, k;
        Key key = {0};
        int ours, used = 0;
        if (sscanf(at, "%lld %lld %lld %d %d %d%n", &m, &n, &k, &key.type, &key.flags, &ours, &used) != 6 ||
            at[used] != '\n' || (ours & ~1))
            return error_set(error, "a line is no choice of this program's");
        key.m = m, key.n = n, key.k = k;
        if (!find(choices, &key) && choices->count < MOST) choices->each[choices->count++] = (Choice){key, ours};
        at += used + 1;
    }
    return true;
}

void gelu_choices_close(Device *device) {
    free(cuda_state(device)->gelu_choices);
    cuda_state(device)->gelu_choices = NULL;
}
