/* The networks of IndexTTS2's features on the cuda device, real or emulated: in f32 against the golden values;
 * against the cpu device in f32 with products in f16 for what makes codes and in bf16 for the conditioning; the same
 * bits in other company and under another schedule. */
#include "tests/cuda/step_rig.h"
#include "tests/gpt/indextts2_rig.h"

enum { CLIPS = 7 };
static const char clips[] = "abbabaa"; /* "ab" and "babaa" */

/* Roundings to the type of products in sequence. A product has those of its input, its weight and its result; the
 * second product's input is in each the result of the step before it. */
enum {
    FEED = 6,                                                    /* two products */
    ATTENTION = 7,                                               /* two products; the probabilities */
    CONVOLUTION = 9,                                             /* two products; gate, depthwise convolution, norm */
    IN_W2V = 3 + 3 * (2 * FEED + ATTENTION + 1 + CONVOLUTION),   /* and a table of distances */
    IN_CODEC = 3 + 3 * FEED,                                     /* behind w2v */
    IN_CONFORMER = 5 + 2 * (ATTENTION + 3 + CONVOLUTION + FEED), /* and keys with positions, a product of these */
    IN_PERCEIVER = 3 + PERCEIVER_LAYERS * (ATTENTION + FEED)
};

/* Returns how far results may be, norm-wise: their roundings are independent, and each is at most rounding_of the type.
 * The cosine is then at least 1 - bound^2. */
static double bound(DType type, int roundings) { return sqrt(roundings) * rounding_of(type); }

/* Compares numbers whose products are in 16 bits. */
static void check_near(const char *name, char clip, const float *got, const float *want, int64_t n, DType type,
                       int roundings) {
    if (type == DTYPE_F32) return;
    double far = distance(got, want, n), allowed = bound(type, roundings);
    print_message("%c %s in %s: distance %.2g, allowed %.2g\n", clip, name, dtype_name(type), far, allowed);
    if (!(far <= allowed)) fail_msg("%c %s is %.3g away, allowed %.3g", clip, name, far, allowed);
}

/* Returns how far z's direction is from another's. */
static double turn(const float *got, const float *want) {
    double squares[2] = {0}, sum = 0;
    for (int j = 0; j < 8; j++) {
        squares[0] += (double)got[j] * got[j];
        squares[1] += (double)want[j] * want[j];
    }
    for (int j = 0; j < 8; j++) {
        double d = got[j] / sqrt(squares[0]) - want[j] / sqrt(squares[1]);
        sum += d * d;
    }
    return sqrt(sum);
}

/* A direction that turns by d changes the difference of its cosines with two codes by at most 2 d: a code with a larger
 * margin stays. The cosines themselves are f32. Returns how many codes are equal. */
static int check_codes(char clip, const ClipResults *got, const ClipResults *want) {
    int equal = 0;
    for (int64_t i = 0; i < want->rows; i++) {
        double certain = 2 * turn(got->z + 8 * i, want->z + 8 * i) + 1e-6;
        if (want->margins[i] > certain && got->codes[i] != want->codes[i])
            fail_msg("%c, row %d: code %d, expected %d", clip, (int)i, (int)got->codes[i], (int)want->codes[i]);
        equal += got->codes[i] == want->codes[i];
    }
    return equal;
}

static void compute(TinyNets *nets, ClipResults *results) {
    tiny_compute(nets, "ab", results);
    tiny_compute(nets, "babaa", results + 2);
}

static void free_results(ClipResults *results) {
    for (int s = 0; s < CLIPS; s++) clip_results_free(&results[s]);
}

static void check_results(const ClipResults *got, const ClipResults *want, DType type, DType voice_type) {
    const int in_voice = IN_CONFORMER + IN_PERCEIVER;
    int equal = 0, all = 0;
    for (int s = 0; s < 2; s++) {
        check_near("h", clips[s], got[s].h, want[s].h, want[s].rows * 32, type, IN_W2V);
        check_near("z", clips[s], got[s].z, want[s].z, want[s].rows * 8, type, IN_W2V + IN_CODEC);
        check_near("condition", clips[s], got[s].condition, want[s].condition, 4 * 20, voice_type, in_voice);
        check_near("emotion", clips[s], got[s].emotion, want[s].emotion, 20, voice_type, in_voice);
        equal += check_codes(clips[s], &got[s], &want[s]);
        all += (int)want[s].rows;
    }
    print_message("%d of %d codes are equal\n", equal, all);
}

static void compare(DType type, DType voice_type) {
    DType half = type == DTYPE_F32 ? voice_type : type;
    Rig rig = rig_open(half);
    if (!rig_has(&rig, half)) {
        rig_close(&rig);
        skip();
    }
    TinyNets on_cpu, on_cuda;
    ClipResults want[CLIPS], got[CLIPS], again[CLIPS];
    tiny_open(&on_cpu, rig.cpu, DTYPE_F32, DTYPE_F32);
    tiny_open(&on_cuda, rig.cuda, type, voice_type);
    compute(&on_cpu, want);
    compute(&on_cuda, got);
    change_schedule(&rig);
    compute(&on_cuda, again);
    assert_no_reports();
    check_results(got, want, type, voice_type);
    for (int s = 0; s < 2 && half == DTYPE_F32; s++) check_golden(&on_cuda.file, clips[s], &got[s]);
    for (int s = 0; s < CLIPS; s++) {
        check_same_results(&again[s], &got[s]);
        check_same_results(&got[s], &got[clips[s] == 'a' ? 0 : 1]);
    }
    free_results(want);
    free_results(got);
    free_results(again);
    tiny_close(&on_cpu);
    tiny_close(&on_cuda);
    rig_close(&rig);
}

TEST(features_in_f32) { compare(DTYPE_F32, DTYPE_F32); }
TEST(codes_by_products_in_f16) { compare(DTYPE_F16, DTYPE_F32); }
TEST(conditioning_by_products_in_bf16) { compare(DTYPE_F32, DTYPE_BF16); }

int main(void) { return tests_run(NULL, NULL); }
