/* Generation: a model continues prompts id by id. The prompts are computed in passes of packed sequences, which keep
 * their keys and values; after that every step computes one row per sequence. Sequences that end leave, and the next
 * prompts take their place.
 *
 * A prompt is some rows: ids of the model's tables, or vectors. The ids that are generated continue its last part. */
#pragma once

#include "model/block.h"
#include "model/sampling.h"

enum { GENERATION_TABLES = 3, PROMPT_PARTS = 4 };

/* A table of embeddings, and the table of positions that is added to it: rows of the parameter table; -1: none. */
typedef struct {
    int ids, positions;
} GenerationTable;

/* A model as generation sees it. */
typedef struct {
    Model *model;
    BlockStack *blocks;
    GenerationTable tables[GENERATION_TABLES];
    int n_tables;        /* the ids that are generated are of the last one */
    int64_t vector_rows; /* of a prompt, at most; 0: there are no vectors */
    int64_t context;     /* ids of the last table that a sequence can have as input */
    int vocabulary;
    int64_t columns; /* of the logits, of which the first `vocabulary` are ids */
    /* Queues logits [n, columns] from x [n, C], the output of the blocks. */
    void (*head)(Model *model, const Context *context, Tensor logits, Tensor x);
} GenerationModel;

/* n rows: ids of a table at positions 0, 1, ..., or, if ids is NULL, vectors [n, C]. */
typedef struct {
    const int32_t *ids;
    const float *vectors;
    int64_t n;
    int table;
} PromptPart;

typedef struct {
    PromptPart parts[PROMPT_PARTS];
    int n_parts;       /* the last one: at least one id of the last table */
    uint32_t sequence; /* with the seed decides the random numbers: the same prompt and sequence give the same ids,
                        * whatever else is generated at the same time, up to rounding */
} GenerationPrompt;

typedef enum {
    GENERATION_STOP,   /* a stop id */
    GENERATION_LIMIT,  /* max_new ids */
    GENERATION_CONTEXT /* the model cannot read another id, or the generator has no row for it */
} GenerationEnd;

typedef struct {
    int32_t *ids; /* [n], generated; without the stop id */
    int64_t n;
    GenerationEnd end;
} Generated;

typedef struct {
    Sampling sampling;
    const int32_t *forbidden, *stops; /* ids that are never generated; ids that end a sequence */
    int n_forbidden, n_stops;
    int64_t max_new; /* ids of a sequence */
    int n_threads;   /* that draw ids, on the host; 0: those of the device, which is one of a GPU */
    void (*on_id)(void *context, int prompt, int32_t id); /* with each new id, in order; NULL: none */
    void *context;
} GenerationOptions;

/* How much is generated at once. */
typedef struct {
    int sequences;
    int64_t longest;     /* rows of a sequence, prompt and generated ids, at most */
    int64_t prompt_rows; /* of a pass over prompts, at least those of the longest prompt */
} GenerationSize;

typedef struct {
    size_t cache, activations; /* bytes: keys and values; everything else */
} GenerationMemory;

/* Returns the number of rows of a prompt. */
int64_t prompt_rows(const GenerationPrompt *prompt);
/* Returns the sizes for n prompts of which up to `at_once` are generated at once, with max_new ids each. */
GenerationSize generation_size(const GenerationModel *model, const GenerationPrompt *prompts, int n, int at_once,
                               int64_t max_new);
/* Returns the device memory that a generator takes beside the weights, with activations of type `half` (f32 or a 16-bit
 * type). Needs no device. */
GenerationMemory generation_memory(const GenerationModel *model, DType half, const GenerationSize *size);

typedef struct Generator Generator;
/* Takes all device memory that generation needs; model->weights, and half_weights if there are any, lie on the device.
 * Returns NULL if more than `available` bytes are needed; the error says how much, and what to reduce. */
Generator *generator_open(const GenerationModel *model, Device *device, const GenerationSize *size, size_t available,
                          Error *error);
void generator_close(Generator *generator);
/* Generates from n prompts, any number. Returns false with the reason, and nothing to free, if the sampling is not
 * valid, if a prompt is too long for the model or the generator or has an id that its table lacks, or if the logits are
 * not finite. Free generated[n] with generated_free. */
bool generator_run(Generator *generator, const GenerationPrompt *prompts, int n, const GenerationOptions *options,
                   Generated *generated, Error *error);
void generated_free(Generated *generated, int n);
