#include "tests/gpt/indextts2_rig.h"

#include <math.h>

static const W2vConfig tiny_w2v = {
    .input = 160, .hidden = 32, .heads = 2, .inner = 48, .layers = 3, .taps = 31, .left = 9, .right = 3};
static const CodecConfig tiny_codec = {
    .input = 32, .width = 12, .inner = 20, .blocks = 3, .codebook = 64, .code_width = 8};
static const VoiceConfig tiny_voice = {
    .condition = {.input = 32, .width = 16, .inner = 24, .heads = 4, .blocks = 2, .taps = 15, .longest = 40},
    .emotion = {.input = 32, .width = 16, .inner = 20, .heads = 2, .blocks = 2, .taps = 15, .longest = 40},
    .condition_latents = {.context = 16, .width = 20, .latents = 4, .heads = 4, .head_size = 64, .inner = 26},
    .emotion_latent = {.context = 16, .width = 12, .latents = 1, .heads = 2, .head_size = 64, .inner = 16},
    .emotion_width = 20};

static void read_network(TinyNets *nets, Network *network, const char *prefix, DType type) {
    NetworkFile file = {&nets->file, prefix};
    WeightSource source = network_file_source(&file);
    Error error;
    network_allocate(network, nets->device, type);
    if (!network_check(network, &file, &error) || !network_read(network, &source, &error)) fail_msg("%s", error.text);
}

void tiny_open(TinyNets *nets, Device *device, DType type, DType voice_type) {
    *nets = (TinyNets){.device = device, .arena = arena_open(device, 16 << 20, "activations")};
    nets->file = open_golden("indextts2");
    nets->mean = floats(&nets->file, "stats.", "mean");
    nets->variance = floats(&nets->file, "stats.", "var");
    w2v_open(&nets->w2v, &tiny_w2v);
    nets->w2v.mean = nets->mean;
    nets->w2v.variance = nets->variance;
    codec_open(&nets->codec, &tiny_codec);
    voice_open(&nets->voice, &tiny_voice);
    read_network(nets, &nets->w2v.network, "w2v.", type);
    read_network(nets, &nets->codec.network, "codec.", type);
    read_network(nets, &nets->voice.network, "gpt.", voice_type);
    voice_prepare(&nets->voice, &nets->arena);
}

void tiny_close(TinyNets *nets) {
    w2v_close(&nets->w2v);
    codec_close(&nets->codec);
    voice_close(&nets->voice);
    arena_close(&nets->arena);
    tensor_file_close(&nets->file);
    FREE(nets->mean, nets->variance);
}

static ClipLength length_of(char clip) { return clip == 'a' ? (ClipLength){33, 32} : (ClipLength){23, 23}; }

/* Downloads rows first .. first + n - 1. */
static void *rows_of(Device *device, Tensor x, int64_t first, int64_t n) {
    Tensor part = tensor_rows(x, first, n);
    void *out = xmalloc(tensor_bytes(part) + 1);
    device->download(device, out, part.data, tensor_bytes(part));
    return out;
}

typedef struct {
    const TinyNets *nets;
    const ClipRows *rows;
    ClipResults *results;
} Dump;

static void keep_state(void *context, int state, Tensor y) {
    const Dump *dump = context;
    const int32_t *offsets = dump->rows->sequences.host_offsets;
    for (int s = 0; s < dump->rows->sequences.count && state < 3; s++)
        dump->results[s].hidden[state] = rows_of(dump->nets->device, y, offsets[s], offsets[s + 1] - offsets[s]);
}

static Tensor upload_input(TinyNets *nets, const char *clips, const ClipRows *rows) {
    Tensor x = arena_2d(&nets->arena, DTYPE_F32, rows->count, 160);
    for (int s = 0; clips[s]; s++) {
        float *of_clip = floats(&nets->file, kept_format("%c.", clips[s]), "x");
        Tensor part = tensor_rows(x, rows->sequences.host_offsets[s], length_of(clips[s]).rows);
        nets->device->upload(nets->device, part.data, of_clip, tensor_bytes(part));
        nets->device->synchronize(nets->device);
        free(of_clip);
    }
    return x;
}

void tiny_compute(TinyNets *nets, const char *clips, ClipResults *results) {
    enum { MOST = 16 };
    Device *device = nets->device;
    ClipLength lengths[MOST], half_lengths[MOST];
    int n = (int)strlen(clips);
    size_t mark = arena_mark(&nets->arena);
    for (int s = 0; s < n; s++) {
        lengths[s] = length_of(clips[s]);
        half_lengths[s] = clip_length_subsampled(lengths[s]);
        results[s] = (ClipResults){.rows = lengths[s].rows, .half = half_lengths[s].rows};
    }
    ClipRows rows = clip_rows_open(device, &nets->arena, lengths, n),
             half = clip_rows_open(device, &nets->arena, half_lengths, n);
    Dump dump = {nets, &rows, results};
    Tensor h = w2v_forward(&nets->w2v, &nets->arena, upload_input(nets, clips, &rows), &rows, keep_state, &dump);
    CodecCodes codes = codec_forward(&nets->codec, &nets->arena, h, &rows);
    VoiceResults voice = voice_forward(&nets->voice, &nets->arena, h, &rows, &half);
    for (int s = 0; s < n; s++) {
        ClipResults *r = &results[s];
        int64_t first = rows.sequences.host_offsets[s];
        r->h = rows_of(device, h, first, r->rows);
        r->z = rows_of(device, codes.z, first, r->rows);
        r->codes = rows_of(device, codes.codes, first, r->rows);
        r->margins = rows_of(device, codes.margins, first, r->rows);
        r->condition = rows_of(device, voice.condition, 4 * s, 4);
        r->emotion = rows_of(device, voice.emotion, s, 1);
        for (int i = 0; i < 4 * 20; i++) r->condition[i] *= nets->voice.scale[i % 20];
    }
    clip_rows_close(&rows);
    clip_rows_close(&half);
    arena_release(&nets->arena, mark);
}

void clip_results_free(ClipResults *r) {
    for (int i = 0; i < 3; i++) free(r->hidden[i]);
    FREE(r->h, r->z, r->margins, r->condition, r->emotion, r->codes);
}

void check_golden_numbers(const TensorFile *file, const char *name, const float *got, int64_t n) {
    float *want = floats(file, "", name);
    assert_int_equal(find(file, "", name)->count, n);
    print_message("%s: relative error %.2g\n", name, relative_error(got, want, n));
    assert_close(name, got, want, n, golden_tolerance);
    free(want);
}

/* A z that turns by d changes the difference of its cosines with two codes by at most 2 d, and that of distances, 2 - 2
 * cosines, which the file has, by 4 d. */
void check_golden_codes(const TensorFile *file, const char *prefix, const int32_t *codes, const float *margins,
                        int64_t n) {
    const float least = 1e-4f; /* codes whose distances differ by less may be ordered otherwise */
    const StoredTensor *stored = find(file, prefix, "codes");
    float *want = floats(file, prefix, "margin");
    double squares = 0;
    int compared = 0;
    assert_int_equal(stored->count, n);
    for (int64_t i = 0; i < n; i++) {
        double difference = 2 * (double)margins[i] - (double)want[i];
        squares += difference * difference;
        if (want[i] < least) continue;
        assert_int_equal(codes[i], ((const int32_t *)stored->data)[i]);
        compared++;
    }
    double off = sqrt(squares / (double)n);
    print_message("%scodes: %d of %d are compared; margins are off by %.2g\n", prefix, compared, (int)n, off);
    if (!(off <= 4 * golden_tolerance)) fail_msg("margins are off by %.3g", off);
    free(want);
}

void check_golden(const TensorFile *file, char clip, const ClipResults *r) {
    for (int i = 0; i < 3; i++)
        check_golden_numbers(file, kept_format("%c.hidden.%d", clip, i), r->hidden[i], r->rows * 32);
    check_golden_numbers(file, kept_format("%c.h", clip), r->h, r->rows * 32);
    check_golden_numbers(file, kept_format("%c.z", clip), r->z, r->rows * 8);
    check_golden_codes(file, kept_format("%c.", clip), r->codes, r->margins, r->rows);
    check_golden_numbers(file, kept_format("%c.cond", clip), r->condition, 4 * 20);
    check_golden_numbers(file, kept_format("%c.emo", clip), r->emotion, 20);
}

void check_same_results(const ClipResults *a, const ClipResults *b) {
    assert_int_equal(a->rows, b->rows);
    assert_memory_equal(a->h, b->h, (size_t)a->rows * 32 * sizeof(float));
    assert_memory_equal(a->z, b->z, (size_t)a->rows * 8 * sizeof(float));
    assert_memory_equal(a->codes, b->codes, (size_t)a->rows * sizeof(int32_t));
    assert_memory_equal(a->condition, b->condition, 4 * 20 * sizeof(float));
    assert_memory_equal(a->emotion, b->emotion, 20 * sizeof(float));
}
