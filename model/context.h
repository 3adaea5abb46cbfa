/* The context of a pass: the device it runs on, the arena of its activations, and the parameters of the model. A
 * network's functions take it as their first argument beside the network. */
#pragma once

#include "model/model.h"

typedef struct {
    Device *device;
    Arena *arena;
    const ParamTable *table;
    Tensor weights, gradients; /* flat */
    Tensor matmul_weights;     /* flat, in the activations' type: read by linear layers */
    const Pass *pass;
} Context;

/* Returns the context of a pass over a model whose buffers lie on the device. */
Context context_of(const Model *model, Device *device, Arena *arena, const Pass *pass);

/* Returns the sequences of a batch, a sample of which may be several. */
Sequences context_sequences(const Batch *batch, const Tensor *fields);

/* Begin and end a pass whose Pass.unwritten is given: the gradients that param_is_overwritten tells of need no clearing
 * before it. The end clears those that the pass has not written. */
void context_begin(const Context *context);
void context_end(const Context *context);

/* Return a parameter by its row of the table: in f32; in the type that linear layers read; its gradient. None if the
 * row is -1, an absent parameter. Parameters that are joined to the row (Param.joined) are part of it. */
Tensor context_weight(const Context *context, int row);
Tensor context_matmul_weight(const Context *context, int row);
Tensor context_gradient(const Context *context, int row);
/* Return a matmul weight together with its rows of padding (param_pad_rows), and the gradients of a layer of such
 * parameters. */
Tensor context_padded_weight(const Context *context, int row);
LayerGradients context_padded_gradients(const Context *context, int weight, int bias, Tensor dx);
/* Return the gradients of a layer's parameters, by the rows of its weight (or gain) and its bias, together with dx. */
LayerGradients context_layer_gradients(const Context *context, int weight, int bias, Tensor dx);
NormGradients context_norm_gradients(const Context *context, int gain, int bias, Tensor dx);

/* Tells Pass.needed that rows first .. end - 1 of the table are about to be read. */
void context_needed(const Context *context, int first, int end);
/* Tells Pass.finished that the gradients of rows first .. end - 1 of the table are final. */
void context_finished(const Context *context, int first, int end);

/* Pushes a tensor of activations [rows, columns] on the arena. */
Tensor context_push(const Context *context, int64_t rows, int64_t columns);
/* Compute a linear layer of [out, in] weights in row `weight` of the table, whose bias is in the next row: y = x W^T +
 * b, pushed on the arena, and its gradients; dx is optional. */
Tensor context_linear(const Context *context, int weight, Tensor x);
void context_linear_backward(const Context *context, int weight, Tensor dx, Tensor dy, Tensor x);
/* Compute a layer norm of x with the gain and the bias in these rows of the table (bias -1: none), the results pushed
 * on the arena, and its gradients. */
LayerNormOutput context_norm(const Context *context, int gain, int bias, Tensor x);
void context_norm_backward(const Context *context, int gain, int bias, Tensor dx, Tensor dy, Tensor x,
                           LayerNormOutput of);
/* Applies the dropout of a site to x, or to its gradient, in place. */
void context_drop(const Context *context, Tensor x, float p, uint32_t site);
/* Passes the first columns of a matrix to the debug dump, if there is one. */
void context_dump_columns(const Context *context, Tensor matrix, int64_t columns, const char *name);

/* Returns the dropout of a site in this pass; p is 0 unless training. The model numbers its sites; 0 is the embedding.
 */
Dropout pass_dropout(const Pass *pass, float p, uint32_t site);
/* Passes a named tensor to the debug dump, if there is one. */
void pass_dump(const Pass *pass, Tensor tensor, const char *name_format, ...) PRINTF_LIKE(3, 4);
