/* The size of the networks of IndexTTS2's features, and what a second of audio costs in them: on the dry device. */
#include "model/indextts2/features.h"
#include "tests/test.h"

static void rehearse(Features *features, Device *dry, DType type, DType voice_type, int clips, int seconds) {
    enum { MOST = 16 };
    ClipLength lengths[MOST];
    for (int i = 0; i < clips; i++) lengths[i] = (ClipLength){50 * seconds, 50 * seconds};
    features_rehearsal(features, &FEATURES_INDEXTTS2, dry, type, voice_type, lengths, clips);
}

static void check_size(const Network *network, int tensors, int64_t numbers) {
    assert_int_equal(network->table.count, tensors);
    assert_int_equal(params_count(&network->table), numbers);
}

TEST(the_networks_have_the_tensors_of_their_files) {
    Device *dry = dry_device_open();
    Features features;
    rehearse(&features, dry, DTYPE_F32, DTYPE_F32, 1, 1);
    check_size(&features.w2v.network, 4 + 17 * 32, 411230080);
    check_size(&features.codec.network, 116 + 4, 22176656);
    check_size(&features.voice.network, 362, 338897404);
    features_close(&features);
    device_close(dry);
}

/* The sums of products alone, by hand; the rest, norms and functions of single numbers, is 0.2 % of them. */
TEST(a_second_of_audio_costs_what_its_products_do) {
    static const struct {
        int seconds;
        double gflops;
    } clips[] = {{4, 60.1}, {10, 61.2}, {20, 63.1}};
    for (int i = 0; i < 3; i++) {
        double flops, bytes;
        Device *dry = dry_device_open();
        Features features;
        rehearse(&features, dry, DTYPE_F32, DTYPE_F32, 1, clips[i].seconds);
        device_totals(dry, &flops, &bytes);
        double gflops = flops / 1e9 / clips[i].seconds;
        print_message("clips of %d s: %.2f GFLOP a second\n", clips[i].seconds, gflops);
        assert_true(gflops > clips[i].gflops && gflops < 1.005 * clips[i].gflops);
        features_close(&features);
        device_close(dry);
    }
}

/* A strip of the subsampling is 512 rows of 261,632 numbers; another part needs less, and more only for more rows. */
TEST(memory_is_that_of_a_strip_and_grows_with_rows) {
    const ClipLength clips[8] = {{1500, 1499}, {1500, 1500}, {1500, 1500}, {1500, 1500},
                                 {1500, 1500}, {1500, 1500}, {1500, 1500}, {1500, 1500}};
    const double strip = 512 * 261632.0 * 4;
    size_t one = features_measure(&FEATURES_INDEXTTS2, DTYPE_F32, DTYPE_F32, false, clips, 1),
           eight = features_measure(&FEATURES_INDEXTTS2, DTYPE_F32, DTYPE_F32, false, clips, 8),
           half = features_measure(&FEATURES_INDEXTTS2, DTYPE_F32, DTYPE_BF16, false, clips, 8);
    print_message("1 clip of 30 s: %zu bytes, 8: %zu, with a voice in bf16 %zu\n", one, eight, half);
    assert_true((double)one > strip && (double)one < 1.1 * strip);
    assert_true(eight < 2 * one && half < eight);
}

int main(void) { return tests_run(NULL, NULL); }
