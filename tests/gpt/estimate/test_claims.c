/* The closed forms of a text GPT (tools/claims/text.h), compared with the work that train_gpt counts. */
#include <jansson.h>

#include "kernels/ops_table.h"
#include "tests/test.h"
#include "tools/claims/text.h"

static void expect_exactly(double got, double want) {
    if (got != want) fail_msg("got %.17g, want %.17g", got, want);
}

/* The TTS GPT's blocks are those of a text GPT with biases: as many FLOPs and bytes, call for call. */
TEST(blocks_are_those_of_a_text_gpt) {
    enum { SEQUENCES = 8, LENGTH = 387 }; /* of its typical batch */
    static const int same[] = {OP_attention_forward, OP_attention_backward, OP_linear_gelu_forward,
                               OP_gelu_linear_backward};
    const TextModel blocks = {"blocks", 1000, 2048, 24, 1280, 20, true};
    TextStep step = text_step(&blocks, (TextBatch){SEQUENCES, LENGTH, 4, DTYPE_BF16, true});
    static char output[1 << 16];
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    int status =
        run_command(output, sizeof output,
                    "%s/train_gpt -b 8 -g 4 --amp --grad-checkpointing --estimate --json --gpu l4 2>/dev/null", build);
    assert_int_equal(status, 0);
    json_t *root = json_loads(output, 0, NULL), *row;
    json_t *rows = json_object_get(json_array_get(json_object_get(root, "gpus"), 0), "operations");
    size_t i, found = 0;
    json_array_foreach(rows, i, row) {
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
            const CallWork *work = &step.step.ops[same[k]].all;
            if (strcmp(json_string_value(json_object_get(row, "operation")), op_names[same[k]]) != 0) continue;
            expect_exactly(json_number_value(json_object_get(row, "calls")), work->calls);
            expect_exactly(json_number_value(json_object_get(row, "flops")), work->flops);
            expect_exactly(json_number_value(json_object_get(row, "bytes")), work->bytes);
            found++;
        }
    }
    assert_int_equal(found, sizeof same / sizeof *same);
    json_decref(root);
}
