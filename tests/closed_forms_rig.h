/* Closed forms of a training step: the exact calls, FLOPs and bytes of every operation, derived from the layers of a
 * model, which the dry device must count.
 *
 * A step is one optimizer step with --amp, as --estimate prints it: activations and the weights of products take HALF
 * bytes per number, everything else takes 4. A test calls forms_start, then a function for every operation of the step,
 * then forms_expect_operations. */
#pragma once

#include <jansson.h>

#include "cost/work.h"
#include "kernels/ops_table.h"
#include "tests/test.h"

enum { HALF = 2 };

extern CallWork forms_want[OP_COUNT]; /* the operations called since forms_start */

/* Returns the estimate of a program on an L4 as JSON; json_decref. */
json_t *forms_estimate(const char *arguments);
/* Return a member of an object, and one of root's memory_bytes. */
double forms_number(const json_t *object, const char *key);
double forms_memory(const json_t *root, const char *group);
void forms_expect(const char *what, double got, double want);
/* Fails unless less than 1 % of a step's FLOPs, in the estimate of a program, are of products over rows that are no
 * multiple of 8 numbers. */
void forms_expect_aligned(const char *arguments);
void forms_start(void);
/* From here to the next start, products and norms have no biases. */
void forms_without_biases(void);
void forms_call(int op, double flops, double bytes);
/* Multiplies all calls so far by their number per step. */
void forms_times(double n);
CallWork forms_total(void);
/* Fails unless the estimate has exactly the operations that were called here, with their calls, FLOPs and bytes. */
void forms_expect_operations(const json_t *root);
/* Does the same for the operations that were called here; the estimate may have others. */
void forms_expect_called(const json_t *root);
/* A product of n rows, from `in` numbers to `out`. dx: the gradient of the input is computed, too. */
void forms_linear(double n, double in, double out);
void forms_linear_back(double n, double in, double out, bool dx);
/* A product followed by GELU, and one after GELU. GELU takes 9 FLOPs, its slope 18, dropout one more. */
void forms_linear_gelu(double n, double in, double out, bool drop);
void forms_gelu_linear_back(double n, double in, double out, bool drop);
/* Layer norms with f32 mean and rstd per row. */
void forms_norm(double n, double c);
void forms_norm_back(double n, double c, bool residual);
void forms_drop(double n, double c);
/* Rows by indices (ids, positions) of 4 bytes; `bytes` and `from` are the size of a number. */
void forms_gather(double n, double c, double bytes);
void forms_scatter(double n, double c, double from);
void forms_place(double n, double c);
void forms_embed(double n, double c, bool positions);
void forms_embed_back(double n, double c, bool positions, bool rows);
void forms_sum(double n);
double forms_line(double bytes);
double forms_halves(double n, double c);
double forms_f32(double n);
double forms_larger(double a, double b);

/* Pre-norm transformer blocks. */
typedef struct {
    double n, read; /* rows; rows of the output that are read: behind its attention the last block has only these */
    double c, ff, heads, layers, pairs, sequences;
    bool picked; /* read < n: the last block gathers rows */
    bool drop_attention, drop_projection, drop_hidden, drop_mlp;
} Blocks;

/* Attention of a block, forward and backward. */
void forms_attention(const Blocks *b);
/* All operations of the blocks, forward and backward. */
void forms_blocks(const Blocks *b);
/* Returns the bytes that the forward keeps for the backward. A block with ff = 4 c keeps 16 c numbers per row: 9 c are
 * outputs of products (qkv, hidden, and the residual sums), the others are outputs of norms, attention and GELU. */
double forms_blocks_kept(const Blocks *b);
/* Returns the most bytes that the backward holds in addition: the gradient of a norm, and that of the hidden rows or of
 * attention, whichever is larger. */
double forms_blocks_back(const Blocks *b);
/* The update of parameters in a flat buffer of `flat` numbers, of which the first micro-batch overwrites the gradients
 * of so many, of products and of products after GELU: they are neither cleared nor read there. AdamW reads weights,
 * moments and gradients and writes the first three and a 16-bit copy: 30 bytes per parameter. */
void forms_update(double parameters, double flat, double overwritten, double overwritten_gelu);
void forms_expect_states(const json_t *root, double flat);
