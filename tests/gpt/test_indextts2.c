/* The networks of IndexTTS2's features against an independent computation in float64
 * (tests/reference/make_golden_indextts2.py). */
#include "kernels/cpu/device.h"
#include "model/indextts2/features.h"
#include "tests/gpt/indextts2_rig.h"

TEST(features_are_those_of_one_clip_at_a_time_alone_and_in_company) {
    TinyNets nets;
    ClipResults alone[2], packed[5];
    Device *device = cpu_device_open(2);
    tiny_open(&nets, device, DTYPE_F32, DTYPE_F32);
    tiny_compute(&nets, "a", &alone[0]);
    tiny_compute(&nets, "b", &alone[1]);
    tiny_compute(&nets, "babaa", packed);
    check_golden(&nets.file, 'a', &alone[0]);
    check_golden(&nets.file, 'b', &alone[1]);
    for (int s = 0; s < 5; s++) check_same_results(&packed[s], &alone[s == 1 || s > 2 ? 0 : 1]);
    for (int s = 0; s < 5; s++) clip_results_free(&packed[s]);
    for (int s = 0; s < 2; s++) clip_results_free(&alone[s]);
    tiny_close(&nets);
    device_close(device);
}

/* A batch that is padded to its longest clip, as the reference's, changes the shorter one. */
TEST(padded_batches_give_other_numbers) {
    TinyNets nets;
    ClipResults r[2];
    Device *device = cpu_device_open(1);
    tiny_open(&nets, device, DTYPE_F32, DTYPE_F32);
    tiny_compute(&nets, "ab", r);
    float *condition = floats(&nets.file, "batch.", "cond"), *emotion = floats(&nets.file, "batch.", "emo");
    assert_true(relative_error(r[1].condition, condition + 4 * 20, 4 * 20) > 100 * golden_tolerance);
    assert_true(relative_error(r[1].emotion, emotion + 20, 20) > 100 * golden_tolerance);
    int changed = 0;
    const StoredTensor *codes = find(&nets.file, "batch.", "codes");
    for (int i = 0; i < 23; i++) changed += r[1].codes[i] != ((const int32_t *)codes->data)[33 + i];
    assert_int_equal(changed, 3);
    FREE(condition, emotion);
    for (int s = 0; s < 2; s++) clip_results_free(&r[s]);
    tiny_close(&nets);
    device_close(device);
}

static void allocate(void *network) { network_allocate(network, NULL, ((Network *)network)->type); }

static void check_refusal(Network *network, DType type, const char *message) {
    char output[1024];
    network->type = type;
    assert_int_equal(run_function(output, sizeof output, allocate, network), 1);
    assert_contains(output, message);
}

TEST(unfit_types_of_products_are_refused) {
    W2v w2v;
    Codec codec;
    Voice voice;
    w2v_open(&w2v, &FEATURES_INDEXTTS2.w2v);
    codec_open(&codec, &FEATURES_INDEXTTS2.codec);
    voice_open(&voice, &FEATURES_INDEXTTS2.voice);
    check_refusal(&w2v.network, DTYPE_BF16, "w2v-BERT 2.0: products in bf16 spoil the results; use f16 or f32");
    check_refusal(&codec.network, DTYPE_BF16, "the semantic codec: products in bf16 spoil the results; use f16 or f32");
    check_refusal(&voice.network, DTYPE_F16,
                  "the conditioning of IndexTTS2: products in f16 spoil the results; use bf16 or f32");
    w2v_close(&w2v);
    codec_close(&codec);
    voice_close(&voice);
}

int main(void) { return tests_run(NULL, NULL); }
