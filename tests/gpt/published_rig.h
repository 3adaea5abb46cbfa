/* Published weights of IndexTTS2 in the size of build/release/tiny/train_gpt, for tests of train_gpt prepare
 * --indextts2. */
#pragma once

#include "commands/gpt/indextts2.h"
#include "data/indextts2/front.h"
#include "tests/gpt/corpus.h"

enum { PUBLISHED_WIDTH = 20, PUBLISHED_CODES = 64, PUBLISHED_LAYERS = 6 };

/* Differences from the published file; NULL: none. */
typedef struct {
    const char *prefix;  /* of all names */
    const char *without; /* a tensor is left out */
    const char *shorter; /* a tensor has lost its last row */
    const char *scaled;  /* the numbers of a tensor are multiplied by a factor */
    float factor;
    const char *more; /* there is one more tensor, of one number */
} PublishedChange;

/* Writes one of the files into a folder, with the values of golden/indextts2.safetensors. gpt.pth has a GPT, too, and
 * the latents of its voice are more, as the GPT takes 32. */
void published_write(const char *folder, IndexFile file, const PublishedChange *change);
/* Makes a folder below corpus_root with all files. Returns its path. */
char *published_folder(const char *name);
/* Returns the path of one of the files in a folder. */
char *published_path(const char *folder, IndexFile file);

/* Opens the corpus, with a folder of weights, "published", and with no others: no caches are found. */
int published_open(void **state);
extern const char *published_program; /* "tiny/train_gpt" */
extern const char *published_options; /* of every run */
/* Prepares a list below corpus_root into an output, with the weights of a folder. Returns the exit status. */
int published_try(const char *output, const char *list, const char *weights, const char *more);
/* Prepares the corpus with the folder "published", which must succeed. */
void published_prepare(const char *output, const char *more);
/* Returns the name of the output that all others are compared with, made once by one worker, and what the program
 * printed; `told` may be NULL. */
const char *published_reference(const char **told);

/* The networks with the weights of the folder "published", on the cpu device. A test that opens them links
 * tests/gpt/substitute/published.o, whose sizes they have. */
typedef struct {
    Device *device;
    Features features;
    IndexFront *front;
    float *mean, *variance;
} PublishedNets;
typedef struct {
    int64_t rows;
    int32_t *codes;
    float *margins, *condition, *emotion;
} PublishedResults;
void published_nets_open(PublishedNets *nets);
void published_nets_close(PublishedNets *nets);
/* Computes a file of sound below corpus_root, alone; the other function frees the results. */
PublishedResults published_compute(PublishedNets *nets, const char *sound);
void published_results_free(PublishedResults *results);
/* Returns the path below corpus_root of clip i of the corpus. The first four are files of different formats, rates of
 * 22.05 to 48 kHz, and one is stereo. */
char *published_sound(int i);
