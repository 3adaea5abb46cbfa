/* What a fold's best weights said of its cells, in a file beside them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "train_cv.h"

static const char *const names[CV_SAID][2] = {{"val.cells", "val.logits"}, {"test.cells", "test.logits"}};

CvSaid cv_said_of(const FlimIds *ids, float *logits) {
    size_t n = (size_t)ids->n, each = FLIM_VIEWS;
    CvSaid said = {.n = ids->n,
                   .logits = logits,
                   .ids = xmalloc((n + 1) * sizeof *said.ids),
                   .first = xmalloc((n + 1) * sizeof *said.first),
                   .p = xmalloc((n * each + 1) * sizeof *said.p)};
    memcpy(said.ids, ids->at, n * sizeof *said.ids);
    for (size_t i = 0; i < n; i++) said.first[i] = (double)logits[i * each];
    for (size_t i = 0; i < n * each; i++) said.p[i] = binary_sigmoid((double)logits[i]);
    return said;
}

void cv_said_free(CvSaid *said) {
    free(said->logits);
    free(said->ids);
    free(said->first);
    free(said->p);
}

char *cv_weights_name(const char *checkpoint) {
    char *path = path_join(checkpoint, "model.safetensors"), *bytes;
    const char *name = strrchr(checkpoint, '/') ? strrchr(checkpoint, '/') + 1 : checkpoint;
    size_t size;
    Error error;
    if (!read_file(path, &bytes, &size, &error))
        die("%s: %s; remove the folder of the fold to train it anew", path, error.text);
    char *text = xformat("%s %016llx", name, (unsigned long long)hash_bytes(HASH_START, bytes, size));
    free(bytes);
    free(path);
    return text;
}

char *cv_said_key(const char *weights, const FlimCells *cells, const FlimIds ids[CV_SAID]) {
    uint64_t sum = 0;
    for (int role = 0; role < CV_SAID; role++)
        for (int64_t i = 0; i < ids[role].n; i++) {
            uint64_t cell = flim_cells_sum(cells, ids[role].at[i]);
            sum = checksum(sum, &cell, sizeof cell);
        }
    return xformat("%s, cells %016llx", weights, (unsigned long long)sum);
}

static const char *const said_by = "said_by"; /* the key's name among the metadata */

static char *path_of(const char *directory) { return path_join(directory, "said.safetensors"); }

/* What was said of these very cells; NULL: something else is there. */
static float *read_logits(const TensorFile *file, int role, const FlimIds *ids) {
    const StoredTensor *cells = tensor_file_find(file, names[role][0]);
    const StoredTensor *logits = tensor_file_find(file, names[role][1]);
    size_t bytes = (size_t)ids->n * FLIM_VIEWS * sizeof(float);
    if (!cells || !logits || cells->bytes != (size_t)ids->n * sizeof(int32_t) || logits->bytes != bytes ||
        strcmp(cells->dtype, "I32") != 0 || strcmp(logits->dtype, "F32") != 0 ||
        memcmp(cells->data, ids->at, cells->bytes) != 0)
        return NULL;
    float *copy = xmalloc(bytes + 1);
    memcpy(copy, logits->data, bytes);
    return copy;
}

bool cv_said_read(const char *directory, const char *key, const FlimIds *ids, CvSaid said[CV_SAID]) {
    char *path = path_of(directory);
    TensorFile file = {0};
    Error error;
    float *logits[CV_SAID] = {NULL};
    bool good = !access(path, F_OK) && tensor_file_open(path, &file, &error);
    const char *by = good ? tensor_file_metadata(&file, said_by) : NULL;
    good = by && !strcmp(by, key);
    for (int role = 0; role < CV_SAID && good; role++)
        good = (logits[role] = read_logits(&file, role, &ids[role])) != NULL;
    for (int role = 0; role < CV_SAID; role++)
        if (good)
            said[role] = cv_said_of(&ids[role], logits[role]);
        else
            free(logits[role]);
    tensor_file_close(&file);
    free(path);
    return good;
}

bool cv_said_write(const char *directory, const char *key, const CvSaid said[CV_SAID], Error *error) {
    TensorToWrite tensors[2 * CV_SAID];
    char *path = path_of(directory);
    for (int role = 0; role < CV_SAID; role++) {
        const CvSaid *s = &said[role];
        tensors[(ptrdiff_t)2 * role] = (TensorToWrite){names[role][0], "I32", 1, {s->n}, s->ids};
        tensors[2 * role + 1] = (TensorToWrite){names[role][1], "F32", 2, {s->n, FLIM_VIEWS}, s->logits};
    }
    bool good = safetensors_write(path, tensors, 2 * CV_SAID, &said_by, &key, 1, error);
    free(path);
    return good;
}
