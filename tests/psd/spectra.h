/* Made-up power spectra: of each class another width, of each sensor another ripple, and noise; a small model learns
 * them in a few steps. In memory, and as the files that train_psd reads. */
#pragma once

#include "data/psd/dataset.h"
#include "kernels/philox.h"
#include "tests/test.h"

enum { SPECTRA_CLASSES = 6 };

static inline float spectrum_at(int64_t sample, int label, int sensor, int bin) {
    static const float widths[SPECTRA_CLASSES] = {8, 18, 32, 48, 65, 85};
    float center = 100 + 8 * philox_normal(1, PURPOSE_TEST, 3, (uint64_t)sample);
    float inside = 1 / (1 + expf((fabsf((float)bin - center) - widths[label]) / (float)(2 + label)));
    float ripple = 0.4f * sinf((float)bin * 0.02f * (float)(sensor + 2));
    return 3 * inside + ripple + 0.4f * philox_normal(1, PURPOSE_TEST, 4, (uint64_t)(sample * PSD_BINS + bin));
}

/* Every sensor has `each` spectra of each class, which lie mixed: sample i is of class i % 6. */
static inline PsdStore spectra_make(int sensors, int each) {
    PsdStore s = {.n = (int64_t)sensors * each * SPECTRA_CLASSES, .n_sensors = sensors};
    s.psd = xmalloc((size_t)(s.n * PSD_BINS) * sizeof *s.psd);
    s.labels = xcalloc((size_t)s.n, sizeof *s.labels);
    s.sensors = xcalloc((size_t)s.n, sizeof *s.sensors);
    s.files = xcalloc((size_t)s.n, sizeof *s.files);
    s.rows = xcalloc((size_t)s.n, sizeof *s.rows);
    s.snr = xcalloc((size_t)s.n, sizeof *s.snr);
    for (int32_t i = 0; i < s.n; i++) {
        s.labels[i] = i % SPECTRA_CLASSES;
        s.sensors[i] = i / SPECTRA_CLASSES % sensors;
        s.files[i] = s.sensors[i];
        s.rows[i] = i;
        s.snr[i] = (float)(i % 30);
        for (int b = 0; b < PSD_BINS; b++)
            s.psd[(int64_t)i * PSD_BINS + b] = spectrum_at(i, s.labels[i], s.sensors[i], b);
    }
    return s;
}

static inline void spectra_free(PsdStore *s) {
    free(s->psd);
    free(s->labels);
    free(s->sensors);
    free(s->files);
    free(s->rows);
    free(s->snr);
}

/* DIRECTORY/spectra.safetensors, and DIRECTORY/split.json, whose parts are what is left of i / 6 by 5: three fifths,
 * one and one, every class alike. */
static inline void spectra_write(const PsdStore *s, const char *directory) {
    const TensorToWrite tensors[] = {
        {"psd", "F32", 2, {s->n, PSD_BINS}, s->psd}, {"label", "I32", 1, {s->n}, s->labels},
        {"sensor", "I32", 1, {s->n}, s->sensors},    {"file", "I32", 1, {s->n}, s->files},
        {"row", "I32", 1, {s->n}, s->rows},          {"snr", "F32", 1, {s->n}, s->snr}};
    static const int part_of[5] = {PSD_TRAIN, PSD_TRAIN, PSD_VAL, PSD_TRAIN, PSD_TEST};
    char names[1024] = "[", *path = kept_path(directory, "spectra.safetensors");
    for (int i = 0; i < s->n_sensors; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s\"s%02d\"", i ? ", " : "", i);
    strcat(names, "]");
    const char *const keys[] = {"sensors", "manifest", "hop", "limit"}, *const values[] = {names, "0", "false", "20"};
    PsdPartition split;
    Error error;
    for (int p = 0; p < PSD_SPLITS; p++) split.splits[p] = (PsdIds){xcalloc((size_t)s->n, sizeof(int64_t)), 0};
    for (int64_t i = 0; i < s->n; i++) {
        PsdIds *part = &split.splits[part_of[i / SPECTRA_CLASSES % 5]];
        part->at[part->n++] = i;
    }
    bool written = safetensors_write(path, tensors, 6, keys, values, 4, &error);
    path = kept_path(directory, "split.json");
    if (!(written && psd_partition_write(path, &split, &error))) fail_msg("%s", error.text);
    psd_partition_free(&split);
}
