#include "tests/sounds.h"

#include <math.h>
#include <sndfile.h>

#include "base/file.h"
#include "kernels/philox.h"

void write_sound(const char *path, int format, int rate, int channels, const float *samples, int64_t frames) {
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    if (!file) fail_msg("%s: %s", path, sf_strerror(NULL));
    assert_int_equal(sf_writef_float(file, samples, frames), frames);
    assert_int_equal(sf_close(file), 0);
}

/* Returns the size of the frame of layer 3 that begins here, of 24 kHz or less. */
static size_t mp3_frame_size(const unsigned char *frame, int rate) {
    static const int kbit[] = {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160};
    assert_true(frame[0] == 0xff && rate <= 24000);
    return (size_t)(72000 * kbit[frame[2] >> 4] / rate + (frame[2] >> 1 & 1));
}

bool append_bare_mp3(const char *path, int rate, const float *samples, int64_t frames, double compression) {
    enum { MP3 = 0x230082, SET_COMPRESSION = 0x1301 }; /* which older headers of libsndfile lack */
    SF_INFO info = {.samplerate = rate, .channels = 1, .format = MP3};
    if (!sf_format_check(&info)) {
        print_message("SKIPPED: MP3, which this libsndfile does not write\n");
        return false;
    }
    char *part = kept_format("%s.part", path), *bytes;
    SNDFILE *file = sf_open(part, SFM_WRITE, &info);
    size_t size;
    assert_non_null(file);
    sf_command(file, SET_COMPRESSION, &compression, sizeof compression);
    assert_int_equal(sf_writef_float(file, samples, frames), frames);
    assert_int_equal(sf_close(file), 0);
    assert_true(read_file(part, &bytes, &size, &(Error){""}));
    size_t first = mp3_frame_size((unsigned char *)bytes, rate);
    assert_true(memmem(bytes, first, "Info", 4) || memmem(bytes, first, "Xing", 4));
    FILE *out = fopen(path, "ab");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes + first, 1, size - first, out), size - first);
    assert_int_equal(fclose(out), 0);
    remove(part);
    free(bytes);
    return true;
}

float *make_sine(double hertz, double amplitude, int rate, int channels, int64_t frames) {
    float *samples = xmalloc((size_t)(frames * channels) * sizeof *samples);
    for (int64_t i = 0; i < frames; i++)
        for (int c = 0; c < channels; c++)
            samples[i * channels + c] = (float)(amplitude * sin(2 * M_PI * hertz * (double)i / rate));
    return samples;
}

float *make_babble(uint64_t seed, int rate, int64_t frames) {
    float *samples = xcalloc((size_t)frames, sizeof *samples);
    double phase = 0, base = 90 + 160 * (double)philox_uniform(seed, PURPOSE_TEST, 0, 0);
    for (int64_t i = 0; i < frames; i++) {
        double t = (double)i / rate;
        uint64_t syllable = (uint64_t)(4 * t);
        double loud = 0.5 - 0.5 * cos(2 * M_PI * (4 * t - floor(4 * t)));
        double pitch = base * (1 + 0.3 * (double)philox_uniform(seed, PURPOSE_TEST, 1, syllable));
        double formant = 300 + 2200 * (double)philox_uniform(seed, PURPOSE_TEST, 2, syllable), sum = 0;
        phase += 2 * M_PI * pitch / rate;
        /* sin (h + 1) x = 2 cos x sin h x - sin (h - 1) x */
        double now = sin(phase), before = 0, twice = 2 * cos(phase), next;
        for (int h = 1; h <= 12; h++, before = now, now = next) {
            double off = (h * pitch - formant) / 250;
            sum += now / (1 + off * off);
            next = twice * now - before;
        }
        float noise = philox_uniform(seed, PURPOSE_TEST, 3, (uint64_t)i) - 0.5f;
        samples[i] = (float)(0.12 * loud * sum) + 0.01f * noise;
    }
    return samples;
}
