#include "tests/sounds.h"

#include <math.h>
#include <sndfile.h>

#include "kernels/philox.h"

void write_sound(const char *path, int format, int rate, int channels, const float *samples, int64_t frames) {
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    if (!file) fail_msg("%s: %s", path, sf_strerror(NULL));
    assert_int_equal(sf_writef_float(file, samples, frames), frames);
    assert_int_equal(sf_close(file), 0);
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
