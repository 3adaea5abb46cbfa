/* Features of speech that IndexTTS2's own preprocessing has written, or train_gpt prepare: a folder with codes/ID.npy,
 * condition/ID.npy and emo_vec/ID.npy, or with manifests that say where the files of an id lie. */
#pragma once

#include <jansson.h>

#include "base/base.h"

typedef enum { REFERENCE_CODES, REFERENCE_CONDITION, REFERENCE_EMOTION, REFERENCE_ARRAYS } ReferenceArray;

typedef struct {
    json_t *paths; /* by id: [codes, condition, emo_vec] */
} Reference;

/* Lists a folder. Returns false with the reason, naming the path, if it has no clip, or a manifest cannot be read. */
bool reference_open(const char *folder, Reference *reference, Error *error);
void reference_close(Reference *reference);
/* Returns the path of an array of a clip; NULL: there is no clip of this id. */
const char *reference_path(const Reference *reference, const char *id, ReferenceArray array);

/* Return the elements of a file, free(); NULL with the reason, naming the path: codes [*n] of 0 .. codebook - 1; finite
 * numbers of this shape. */
int32_t *reference_read_codes(const char *path, int64_t *n, int64_t codebook, Error *error);
float *reference_read_floats(const char *path, int rank, const int64_t *dims, Error *error);
