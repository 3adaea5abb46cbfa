#include "commands/cv/prediction_cache.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/formats/tensor_file_open.h"
#include "report/evaluation.h"

static const char *const tensor_names[CV_PREDICTED][2] = {{"val.cells", "val.logits"}, {"test.cells", "test.logits"}};
static const char *const key_name = "key"; /* in the metadata */

CvPredictions cv_predictions(const CvIds *ids, float *logits) {
    size_t n = (size_t)ids->n, views = CV_VIEWS;
    CvPredictions p = {.n = ids->n,
                       .logits = logits,
                       .ids = xmalloc((n + 1) * sizeof *p.ids),
                       .first = xmalloc((n + 1) * sizeof *p.first),
                       .p = xmalloc((n * views + 1) * sizeof *p.p)};
    memcpy(p.ids, ids->at, n * sizeof *p.ids);
    for (size_t i = 0; i < n; i++) p.first[i] = (double)logits[i * views];
    for (size_t i = 0; i < n * views; i++) p.p[i] = binary_sigmoid((double)logits[i]);
    return p;
}

void cv_predictions_free(CvPredictions *predictions) {
    FREE(predictions->logits, predictions->ids, predictions->first, predictions->p);
}

char *cv_weights_name(const char *checkpoint) {
    OWNED char *path = path_join(checkpoint, "model.safetensors"), *bytes = NULL;
    size_t size;
    MUST_OR(read_file(path, &bytes, &size, &error), "%s: %s; remove the folder of the fold to train it anew", path,
            error.text);
    return xformat("%s %016llx", path_name(checkpoint), (unsigned long long)hash_bytes(HASH_START, bytes, size));
}

char *cv_cache_key(const char *weights, const CvCells *cells, const CvIds ids[CV_PREDICTED]) {
    uint64_t sum = 0;
    for (int k = 0; k < CV_PREDICTED; k++)
        for (int64_t i = 0; i < ids[k].n; i++) {
            uint64_t cell = cv_cells_checksum(cells, ids[k].at[i]);
            sum = checksum(sum, &cell, sizeof cell);
        }
    return xformat("%s, cells %016llx", weights, (unsigned long long)sum);
}

static char *cache_path(const char *directory) { return path_join(directory, "predictions.safetensors"); }

/* Returns a copy of the logits of these very cells; NULL if the file has others. */
static float *read_logits(const TensorFile *file, int k, const CvIds *ids) {
    const StoredTensor *cells = tensor_file_find(file, tensor_names[k][0]);
    const StoredTensor *logits = tensor_file_find(file, tensor_names[k][1]);
    size_t bytes = (size_t)ids->n * CV_VIEWS * sizeof(float);
    if (!cells || !logits || cells->bytes != (size_t)ids->n * sizeof(int32_t) || logits->bytes != bytes ||
        strcmp(cells->dtype, "I32") != 0 || strcmp(logits->dtype, "F32") != 0 ||
        memcmp(cells->data, ids->at, cells->bytes) != 0)
        return NULL;
    float *copy = xmalloc(bytes + 1);
    memcpy(copy, logits->data, bytes);
    return copy;
}

bool cv_cache_read(const char *directory, const char *key, const CvIds *ids, CvPredictions predictions[CV_PREDICTED]) {
    OWNED char *path = cache_path(directory);
    TensorFile file = {0};
    Error error;
    float *logits[CV_PREDICTED] = {NULL};
    bool ok = !access(path, F_OK) && tensor_file_open(path, &file, &error);
    const char *found = ok ? tensor_file_metadata(&file, key_name) : NULL;
    ok = found && !strcmp(found, key);
    for (int k = 0; k < CV_PREDICTED && ok; k++) ok = (logits[k] = read_logits(&file, k, &ids[k])) != NULL;
    for (int k = 0; k < CV_PREDICTED; k++)
        if (ok)
            predictions[k] = cv_predictions(&ids[k], logits[k]);
        else
            free(logits[k]);
    tensor_file_close(&file);
    return ok;
}

bool cv_cache_write(const char *directory, const char *key, const CvPredictions predictions[CV_PREDICTED],
                    Error *error) {
    TensorToWrite tensors[2 * CV_PREDICTED];
    OWNED char *path = cache_path(directory);
    for (int k = 0; k < CV_PREDICTED; k++) {
        const CvPredictions *p = &predictions[k];
        tensors[(ptrdiff_t)2 * k] = (TensorToWrite){tensor_names[k][0], "I32", 1, {p->n}, p->ids};
        tensors[2 * k + 1] = (TensorToWrite){tensor_names[k][1], "F32", 2, {p->n, CV_VIEWS}, p->logits};
    }
    return safetensors_write(path, tensors, 2 * CV_PREDICTED, &key_name, &key, 1, error);
}
