/* The networks of IndexTTS2's features in a tiny size, with the weights of golden/indextts2.safetensors, and the
 * results of its two clips: a, whose last row is masked, and b. */
#pragma once

#include "model/indextts2/codec.h"
#include "model/indextts2/voice.h"
#include "model/indextts2/w2v.h"
#include "tests/golden.h"

/* Some tens of roundings of f32, 6e-8 each, of numbers of size 1: torch's own f32 is off by 7e-6. */
static const double features_tolerance = 3e-5;
/* Distances to codes that differ by less may be ordered otherwise. */
static const double least_margin = 1e-4;

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
/* Compares all results of one clip in f32 with the golden ones. */
void check_golden(const TensorFile *file, char clip, const ClipResults *r);
/* Requires the same bits in the results of one clip. */
void check_same_results(const ClipResults *a, const ClipResults *b);
/* Returns the largest difference of any number, and fails unless got is finite. */
double largest_difference(const float *got, const float *want, int64_t n);
