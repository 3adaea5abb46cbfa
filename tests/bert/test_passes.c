/* Passes over batches of texts of any length: which of them have the key of a recording in common. */
#include "kernels/device_open.h"
#include "tests/bert/rig.h"
#include "train/pass.h"

enum { CLASSES = 3, TEXTS = 4 };

static struct {
    char bytes[4096];
    size_t n;
} key; /* of the last pass */

static void keep_key(Device *device, const void *bytes, size_t n, bool together, void (*work)(void *argument),
                     void *argument) {
    (void)device, (void)together;
    assert_true(n <= sizeof key.bytes);
    memcpy(key.bytes, bytes, n);
    key.n = n;
    work(argument);
}

static ModelRig rig;
static Training training;
static Passes passes;

static int open_passes(void **state) {
    (void)state;
    BertConfig config = bert_config_small(CLASSES, 0.1f);
    rig = model_rig_open(bert_open(&config), dry_device_open(), 0);
    rig.device->repeat = keep_key;
    training = (Training){.spec = {.device = rig.device, .model = rig.model}, .activations = rig.arena};
    passes = passes_open(&training, 1 << 16, TEXTS);
    return 0;
}

static int close_passes(void **state) {
    (void)state;
    passes_close(&passes);
    model_rig_close(&rig);
    return 0;
}

/* Runs a pass over texts of these lengths. Returns whether its key is that of the pass before it. */
static bool same_key(const int32_t lengths[TEXTS], bool outputs) {
    char before[sizeof key.bytes];
    size_t n = key.n;
    memcpy(before, key.bytes, n);
    Batch batch = bert_batch_random(53, CLASSES, 0, lengths, TEXTS);
    Tensor to = rig.model->weights; /* the dry device's: nothing is written */
    to.dims[0] = TEXTS * CLASSES;
    passes_run(&passes, &batch, (Pass){.train = !outputs}, NULL, outputs ? to : tensor_none());
    batch_close(&batch);
    return key.n == n && !memcmp(key.bytes, before, n);
}

TEST_WITH(lengths_of_about_as_many_rows_repeat, open_passes, close_passes) {
    same_key((int32_t[]){20, 30, 17, 1}, false);
    assert_true(same_key((int32_t[]){18, 2, 19, 30}, false));
    assert_true(same_key((int32_t[]){20, 30, 17, 5}, false));
    assert_false(same_key((int32_t[]){20, 30, 17, 6}, false)); /* 73 rows, more than 72 */
}

/* Kernels for short texts take nothing else. */
TEST_WITH(only_short_texts_are_others, open_passes, close_passes) {
    same_key((int32_t[]){16, 16, 16, 16}, false);
    assert_true(same_key((int32_t[]){16, 13, 15, 16}, false));
    assert_false(same_key((int32_t[]){17, 15, 16, 16}, false));
    assert_true(same_key((int32_t[]){1, 30, 17, 14}, false));
}

/* Their batches have the own rows, so that outputs are those of the texts, and too many sizes. */
TEST_WITH(passes_that_do_not_train_are_not_recorded, open_passes, close_passes) {
    key.n = 0;
    same_key((int32_t[]){20, 30, 17, 1}, true);
    assert_int_equal(key.n, 0);
    assert_int_equal(passes.padded.n_fields, 0); /* it is not used */
}
