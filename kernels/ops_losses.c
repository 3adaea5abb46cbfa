/* Door functions of losses and of the normalisation of rows before a contrastive loss. */
#include "kernels/door.h"

/* Returns the number of logits that are no padding. */
static double check_cross_entropy(const Device *device, const char *op, Tensor loss, Tensor correct, Tensor logits,
                                  int64_t classes, Tensor targets, Tensor weights) {
    door_expect(op, "logits", logits, door_activation_type(device, op, "logits", logits), -1, -1);
    door_expect(op, "loss", loss, DTYPE_F32, logits.dims[0], 0);
    door_expect(op, "correct", correct, DTYPE_F32, logits.dims[0], 0);
    door_expect(op, "targets", targets, DTYPE_I32, logits.dims[0], 0);
    door_expect_optional(op, "weights", weights, DTYPE_F32, logits.dims[0], 0);
    if (classes < 1 || classes > logits.dims[1])
        die("%s: %lld classes of logits with %lld columns", op, (long long)classes, (long long)logits.dims[1]);
    return (double)(logits.dims[0] * classes);
}

void cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, int64_t classes, Tensor targets,
                           Tensor weights) {
    const char *op = "cross_entropy_forward";
    double n = check_cross_entropy(device, op, loss, correct, logits, classes, targets, weights);
    DISPATCH(cross_entropy_forward, 4 * n + (double)tensor_numel(weights),
             ACCESSES(door_part(door_reads(logits), n * (double)dtype_size(logits.dtype)), door_reads(targets),
                      door_reads(weights), door_writes(loss), door_writes(correct)),
             device, loss, correct, logits, classes, targets, weights);
}

void cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, int64_t classes,
                                    Tensor targets, Tensor weights, Tensor scale, Tensor loss_scale) {
    const char *op = "cross_entropy_forward_backward";
    double n = check_cross_entropy(device, op, loss, correct, logits, classes, targets, weights);
    door_expect(op, "scale", scale, DTYPE_F32, 1, 0);
    door_expect_loss_scale(op, loss_scale);
    DISPATCH(cross_entropy_forward_backward, 5 * n + 2 * (double)tensor_numel(weights),
             ACCESSES(door_part(door_reads(logits), n * (double)dtype_size(logits.dtype)), door_reads(targets),
                      door_reads(weights), door_writes(logits), door_writes(loss), door_writes(correct)),
             device, loss, correct, logits, classes, targets, weights, scale, loss_scale);
}

static void check_soft_cross_entropy(const Device *device, const char *op, Tensor loss, Tensor correct, Tensor logits,
                                     Tensor targets, Tensor labels) {
    door_expect(op, "logits", logits, door_activation_type(device, op, "logits", logits), -1, -1);
    door_expect(op, "loss", loss, DTYPE_F32, logits.dims[0], 0);
    door_expect(op, "correct", correct, DTYPE_F32, logits.dims[0], 0);
    door_expect(op, "targets", targets, DTYPE_F32, logits.dims[0], logits.dims[1]);
    door_expect(op, "labels", labels, DTYPE_I32, logits.dims[0], 0);
}

/* Per logit: maximum, difference, exponential, and three sums with a product. Per row: logarithm, product, sum. */
void soft_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                Tensor labels) {
    check_soft_cross_entropy(device, "soft_cross_entropy_forward", loss, correct, logits, targets, labels);
    DISPATCH(
        soft_cross_entropy_forward, 7 * (double)tensor_numel(logits) + 3 * (double)logits.dims[0],
        ACCESSES(door_reads(logits), door_reads(targets), door_reads(labels), door_writes(loss), door_writes(correct)),
        device, loss, correct, logits, targets, labels);
}

/* In addition, per logit two products and a difference, per row a product and a quotient. */
void soft_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                         Tensor labels, Tensor scale, Tensor loss_scale) {
    const char *op = "soft_cross_entropy_forward_backward";
    check_soft_cross_entropy(device, op, loss, correct, logits, targets, labels);
    door_expect(op, "scale", scale, DTYPE_F32, 1, 0);
    door_expect_loss_scale(op, loss_scale);
    DISPATCH(
        soft_cross_entropy_forward_backward, 10 * (double)tensor_numel(logits) + 5 * (double)logits.dims[0],
        ACCESSES(door_adds(logits), door_reads(targets), door_reads(labels), door_writes(loss), door_writes(correct)),
        device, loss, correct, logits, targets, labels, scale, loss_scale);
}

static void check_squared_error(const Device *device, const char *op, Tensor loss, Tensor y, Tensor targets) {
    door_expect(op, "y", y, door_activation_type(device, op, "y", y), -1, -1);
    door_expect(op, "loss", loss, DTYPE_F32, y.dims[0], 0);
    door_expect(op, "targets", targets, DTYPE_F32, y.dims[0], y.dims[1]);
}

void squared_error_forward(Device *device, Tensor loss, Tensor y, Tensor targets) {
    check_squared_error(device, "squared_error_forward", loss, y, targets);
    DISPATCH(squared_error_forward, 3 * (double)tensor_numel(y),
             ACCESSES(door_reads(y), door_reads(targets), door_writes(loss)), device, loss, y, targets);
}

void squared_error_forward_backward(Device *device, Tensor loss, Tensor y, Tensor targets, Tensor scale,
                                    Tensor loss_scale) {
    const char *op = "squared_error_forward_backward";
    check_squared_error(device, op, loss, y, targets);
    door_expect(op, "scale", scale, DTYPE_F32, 1, 0);
    door_expect_loss_scale(op, loss_scale);
    DISPATCH(squared_error_forward_backward, 4 * (double)tensor_numel(y),
             ACCESSES(door_adds(y), door_reads(targets), door_writes(loss)), device, loss, y, targets, scale,
             loss_scale);
}

static void check_binary_cross_entropy(const Device *device, const char *op, Tensor loss, Tensor correct, Tensor logits,
                                       Tensor targets, Tensor labels) {
    door_expect(op, "logits", logits, door_activation_type(device, op, "logits", logits), -1, 1);
    door_expect(op, "loss", loss, DTYPE_F32, logits.dims[0], 0);
    door_expect(op, "correct", correct, DTYPE_F32, logits.dims[0], 0);
    door_expect(op, "targets", targets, DTYPE_F32, logits.dims[0], 0);
    door_expect(op, "labels", labels, DTYPE_F32, logits.dims[0], 0);
}

/* Per row: the distance from the target, product, exponential, logarithm, sum. */
void binary_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                  Tensor labels) {
    check_binary_cross_entropy(device, "binary_cross_entropy_forward", loss, correct, logits, targets, labels);
    DISPATCH(
        binary_cross_entropy_forward, 5 * (double)logits.dims[0],
        ACCESSES(door_reads(logits), door_reads(targets), door_reads(labels), door_writes(loss), door_writes(correct)),
        device, loss, correct, logits, targets, labels);
}

/* Per row in addition: sum, quotient, sum and factor of the gradient. */
void binary_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                           Tensor labels, Tensor scale, Tensor loss_scale) {
    const char *op = "binary_cross_entropy_forward_backward";
    check_binary_cross_entropy(device, op, loss, correct, logits, targets, labels);
    door_expect(op, "scale", scale, DTYPE_F32, 1, 0);
    door_expect_loss_scale(op, loss_scale);
    DISPATCH(
        binary_cross_entropy_forward_backward, 9 * (double)logits.dims[0],
        ACCESSES(door_adds(logits), door_reads(targets), door_reads(labels), door_writes(loss), door_writes(correct)),
        device, loss, correct, logits, targets, labels, scale, loss_scale);
}

static void check_normalize_rows(const Device *device, const char *op, Tensor x, Tensor y, Tensor norm) {
    door_expect(op, "x", x, door_activation_type(device, op, "x", x), -1, -1);
    door_expect(op, "y", y, DTYPE_F32, x.dims[0], x.dims[1]);
    door_expect(op, "norm", norm, DTYPE_F32, x.dims[0], 0);
}

/* Besides the squares and products, a root and a reciprocal per row. */
void normalize_rows_forward(Device *device, Tensor y, Tensor norm, Tensor x) {
    check_normalize_rows(device, "normalize_rows_forward", x, y, norm);
    DISPATCH(normalize_rows_forward, 3 * (double)tensor_numel(x) + 2 * (double)x.dims[0],
             ACCESSES(door_reads(x), door_writes(y), door_writes(norm)), device, y, norm, x);
}

void normalize_rows_backward(Device *device, Tensor dx, Tensor dy, Tensor y, Tensor norm) {
    check_normalize_rows(device, "normalize_rows_backward", dx, y, norm);
    door_expect("normalize_rows_backward", "dy", dy, DTYPE_F32, dx.dims[0], dx.dims[1]);
    DISPATCH(normalize_rows_backward, 5 * (double)tensor_numel(dx) + (double)dx.dims[0],
             ACCESSES(door_reads(dy), door_reads(y), door_reads(norm), door_writes(dx)), device, dx, dy, y, norm);
}

/* Returns the number of pairs of different rows. */
static double check_nt_xent(const char *op, Tensor z, Tensor lse, float temperature) {
    door_expect(op, "z", z, DTYPE_F32, -1, -1);
    door_expect(op, "lse", lse, DTYPE_F32, z.dims[0], 0);
    if (z.dims[0] % 2) die("%s: z has %lld rows, expected two of each sample", op, (long long)z.dims[0]);
    if (!(temperature > 0)) die("%s: the temperature is %g, expected more than 0", op, (double)temperature);
    double n = (double)z.dims[0];
    return n > 0 ? n * (n - 1) : 0;
}

void nt_xent_forward(Device *device, Tensor loss, Tensor lse, Tensor z, float temperature) {
    double pairs = check_nt_xent("nt_xent_forward", z, lse, temperature), c = (double)z.dims[1];
    door_expect("nt_xent_forward", "loss", loss, DTYPE_F32, z.dims[0], 0);
    /* Per pair: the product; temperature, maximum, exponential, sum. Per row: logarithm, maximum, partner. */
    DISPATCH(nt_xent_forward, pairs * (2 * c + 4) + 3 * (double)z.dims[0],
             ACCESSES(door_reads(z), door_writes(lse), door_writes(loss)), device, loss, lse, z, temperature);
}

void nt_xent_backward(Device *device, Tensor dz, Tensor z, Tensor lse, float temperature, Tensor scale,
                      Tensor loss_scale) {
    const char *op = "nt_xent_backward";
    double pairs = check_nt_xent(op, z, lse, temperature), c = (double)z.dims[1];
    door_expect(op, "dz", dz, DTYPE_F32, z.dims[0], z.dims[1]);
    door_expect(op, "scale", scale, DTYPE_F32, 1, 0);
    door_expect_loss_scale(op, loss_scale);
    /* Per pair: the product again and the sum; temperature, two exponents, their exponentials and sum. */
    DISPATCH(nt_xent_backward, pairs * (4 * c + 6) + (double)tensor_numel(z),
             ACCESSES(door_reads(z), door_reads(lse), door_writes(dz)), device, dz, z, lse, temperature, scale,
             loss_scale);
}
