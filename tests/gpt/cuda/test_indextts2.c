/* The networks of IndexTTS2's features on the cuda device, real or emulated: in f32 against the golden values;
 * against the cpu device in f32 with products in f16 for what makes codes and in bf16 for the conditioning; the same
 * bits in other company and under another schedule. */
#include "tests/gpt/cuda/indextts2_bounds.h"
#include "tests/gpt/indextts2_rig.h"

enum { CLIPS = 7 };
static const char clips[] = "abbabaa"; /* "ab" and "babaa" */

/* Depths of the tiny networks. */
enum { W2V_LAYERS = 3, CODEC_BLOCKS = 3, CONFORMER_BLOCKS = 2 };

/* Compares numbers whose products are in 16 bits. */
static void check_near(const char *name, char clip, const float *got, const float *want, int64_t n, DType type,
                       int roundings) {
    if (type == DTYPE_F32) return;
    double far = distance(got, want, n), allowed = bound(type, roundings);
    print_message("%c %s in %s: distance %.2g, allowed %.2g\n", clip, name, dtype_name(type), far, allowed);
    if (!(far <= allowed)) fail_msg("%c %s is %.3g away, allowed %.3g", clip, name, far, allowed);
}

static CodesOfClip codes_of(const ClipResults *r) { return (CodesOfClip){r->rows, r->codes, r->z, r->margins}; }

static void compute(TinyNets *nets, ClipResults *results) {
    tiny_compute(nets, "ab", results);
    tiny_compute(nets, "babaa", results + 2);
}

static void free_results(ClipResults *results) {
    for (int s = 0; s < CLIPS; s++) clip_results_free(&results[s]);
}

static void check_results(const ClipResults *got, const ClipResults *want, DType type, DType voice_type) {
    const int w2v = in_w2v(W2V_LAYERS), voice = in_voice(CONFORMER_BLOCKS);
    int equal = 0, all = 0;
    for (int s = 0; s < 2; s++) {
        check_near("h", clips[s], got[s].h, want[s].h, want[s].rows * 32, type, w2v);
        check_near("z", clips[s], got[s].z, want[s].z, want[s].rows * 8, type, w2v + in_codec(CODEC_BLOCKS));
        check_near("condition", clips[s], got[s].condition, want[s].condition, 4 * 20, voice_type, voice);
        check_near("emotion", clips[s], got[s].emotion, want[s].emotion, 20, voice_type, voice);
        equal += check_codes((char[]){clips[s], 0}, codes_of(&got[s]), codes_of(&want[s]));
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
