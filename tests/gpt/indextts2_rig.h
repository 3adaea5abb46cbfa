/* The networks of IndexTTS2's features in a tiny size, with the weights of golden/indextts2.safetensors, and the
 * results of its two clips: a, whose last row is masked, and b. */
#pragma once

#include "model/indextts2/codec.h"
#include "model/indextts2/voice.h"
#include "model/indextts2/w2v.h"
#include "tests/golden.h"

typedef struct {
    Device *device;
    Arena arena;
    TensorFile file;
    float *mean, *variance;
    W2v w2v;
    Codec codec;
    Voice voice;
} TinyNets;

typedef struct {
    int64_t rows, half; /* at 50 and at 25 Hz */
    float *hidden[3];   /* the first states [rows, 32] */
    float *h, *z, *margins, *condition, *emotion;
    int32_t *codes;
} ClipResults;

/* Opens them on a device, with types of products. */
void tiny_open(TinyNets *nets, Device *device, DType type, DType voice_type);
void tiny_close(TinyNets *nets);
/* Computes clips, "ab" for example, packed into one batch. Fills the results of each. */
void tiny_compute(TinyNets *nets, const char *clips, ClipResults *results);
void clip_results_free(ClipResults *results);
/* Compare with a golden tensor; with PREFIXcodes and PREFIXmargin; all results of one clip in f32. Norm-wise: a row of
 * clip b is silence, whose numbers are 72 times as far from 0 as from each other, so that its norm loses two digits. */
void check_golden_numbers(const TensorFile *file, const char *name, const float *got, int64_t n);
void check_golden_codes(const TensorFile *file, const char *prefix, const int32_t *codes, const float *margins,
                        int64_t n);
void check_golden(const TensorFile *file, char clip, const ClipResults *r);
/* Requires the same bits in the results of one clip. */
void check_same_results(const ClipResults *a, const ClipResults *b);
