/* Reading and writing sound files, log-mel frames, and Griffin-Lim, which turns frames into sound. */
#include "base/file.h"
#include "data/audio/audio.h"
#include "data/audio/conversion.h"
#include "data/audio/mel.h"
#include "kernels/philox.h"
#include "tests/sounds.h"

enum { RATE = 24000 };

static const char *directory;

static const char *in(const char *name) {
    static char path[4][512];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", directory, name);
    return path[next];
}

/* Returns the amplitude of `hertz` in samples[n], a whole number of periods, and the rms of everything else in *rest.
 */
static double tone_in(const float *samples, int64_t n, double hertz, int rate, double *rest) {
    double a = 0, b = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        double angle = 2 * M_PI * hertz * (double)i / rate;
        a += (double)samples[i] * sin(angle) * 2 / (double)n;
        b += (double)samples[i] * cos(angle) * 2 / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        double angle = 2 * M_PI * hertz * (double)i / rate;
        double d = (double)samples[i] - a * sin(angle) - b * cos(angle);
        squares += d * d;
    }
    *rest = sqrt(squares / (double)n);
    return hypot(a, b);
}

/* Reads a tone of 440 Hz from a file of this rate. Fails unless it is the same tone at 24 kHz; ignores the edges. */
static void check_tone(const char *name, int format, int rate, int channels, double allowed) {
    int64_t frames = (int64_t)(1.5 * rate);
    float *sine = make_sine(440, 0.5, rate, channels, frames);
    Audio audio;
    Error error;
    double rest;
    write_sound(in(name), format, rate, channels, sine, frames);
    if (!audio_read(in(name), RATE, 10, &audio, &error)) fail_msg("%s: %s", name, error.text);
    assert_int_equal(audio.count, RATE * 3 / 2);
    assert_int_equal(audio.source_rate, rate);
    assert_int_equal(audio.source_channels, channels);
    assert_true(audio.clipped == 0);
    double amplitude = tone_in(audio.samples + RATE / 2, RATE / 2, 440, RATE, &rest);
    if (fabs(amplitude - 0.5) > 0.5 * allowed || rest > 0.5 * allowed)
        fail_msg("%s: amplitude %.6f, the rest %.3g", name, amplitude, rest);
    audio_close(&audio);
    free(sine);
}

/* The converter has a signal-to-noise ratio of 121 dB, 1e-6; float files add no error. For 16 bits libsndfile
 * multiplies by 32767 when it writes, divides by 32768 when it reads, and rounds: 2^-15 and 2^-16. */
TEST(resampling_keeps_frequency_amplitude_and_duration) {
    static const int rates[] = {8000, 16000, 22050, 24000, 44100, 48000, 96000};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        check_tone("float.wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT, rates[i], 1 + (int)(i % 2), 1e-5);
        check_tone("pcm.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, rates[i], 1, 0x1p-14);
    }
}

TEST(flac_and_ogg_are_read) {
    check_tone("x.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 44100, 2, 0x1p-14);
    check_tone("x.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 22050, 1, 0.05);
}

TEST(channels_are_averaged) {
    float stereo[2 * 4800];
    Audio audio;
    Error error;
    for (int i = 0; i < 4800; i++) {
        stereo[2 * i] = 0.75f;
        stereo[2 * i + 1] = -0.25f;
    }
    write_sound(in("stereo.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, RATE, 2, stereo, 4800);
    assert_true(audio_read(in("stereo.wav"), RATE, 10, &audio, &error));
    assert_int_equal(audio.count, 4800);
    for (int i = 0; i < 4800; i++) assert_true(audio.samples[i] == 0.25f);
    audio_close(&audio);
}

TEST(clipping_is_counted_before_mixing) {
    float stereo[2 * 1000] = {0};
    Audio audio;
    Error error;
    for (int i = 0; i < 100; i++) stereo[2 * i] = i % 2 ? 1 : -1;
    stereo[401] = 0.98f;
    write_sound(in("clipped.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, 48000, 2, stereo, 1000);
    assert_true(audio_read(in("clipped.wav"), RATE, 10, &audio, &error));
    assert_true(audio.clipped == 100 / 2000.0);
    audio_close(&audio);
}

TEST(reading_stops_at_the_limit) {
    float *sine = make_sine(440, 0.5, 8000, 1, 80000);
    Audio audio;
    Error error;
    write_sound(in("long.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, 8000, 1, sine, 80000);
    assert_true(audio_read(in("long.wav"), RATE, 2.5, &audio, &error));
    assert_int_equal(audio.count, RATE * 5 / 2);
    audio_close(&audio);
    free(sine);
}

static void check_refused(const char *name, const char *message) {
    Audio audio;
    Error error = {""};
    assert_false(audio_read(in(name), RATE, 10, &audio, &error));
    assert_contains(error.text, message);
    assert_null(audio.samples);
}

TEST(bad_audio_is_refused_with_its_reason) {
    float samples[1000] = {0};
    check_refused("nowhere.wav", "cannot open: No such file");
    write_text(in("text.wav"), "this is no sound");
    check_refused("text.wav", "is not a sound file that can be read");
    write_text(in("empty.wav"), "%s", "");
    check_refused("empty.wav", "is empty");
    check_refused(".", "is a folder, not a regular file");
    write_sound(in("none.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, samples, 0);
    check_refused("none.wav", "has no samples");
    write_sound(in("silent.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, samples, 1000);
    check_refused("silent.wav", "is silent");
    samples[7] = NAN;
    write_sound(in("nan.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, RATE, 1, samples, 1000);
    check_refused("nan.wav", "samples that are not numbers");
    samples[7] = 3e38f;
    write_sound(in("loud.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, RATE, 1, samples, 1000);
    check_refused("loud.wav", "has samples of 3e+38, where full scale is 1");
}

/* First bytes of files that ffmpeg 7 has written, and what they are. libsndfile 1.2 reads none of them. */
TEST(sound_that_libsndfile_does_not_read_is_recognised) {
    static const struct {
        const char *head, *kind;
    } cases[] = {
        {"0000001c 66747970 4d344120 00000200 4d344120 69736f6d", "is MPEG-4 (M4A, MP4, MOV, 3GP), which libsndfile "},
        {"0000001c 66747970 33677034 00000200 33677034 69736f6d", "is MPEG-4 (M4A, MP4, MOV, 3GP), which libsndfile "},
        {"1a45dfa3 9f428681 0142f781 0142f281 0442f381 08428284", "is Matroska or WebM, which libsndfile "},
        {"3026b275 8e66cf11 a6d900aa 0062ce6c ec010000 00000000", "is Windows Media (WMA), which libsndfile "},
        {"2321414d 520a3c02 01b7484a 1bc7e8cc d17ad515 4626c000", "is AMR, which libsndfile "},
        {"fff15840 3b5ffcdc 004c6176 6336332e 312e3130 32000218", "is AAC, which libsndfile "},
        {"0b773b85 8c402f84 2bf1877b af5e1be8 6f9fbe7c fdf3e7cf", "is AC-3, which libsndfile "},
        {"7776706b 16040000 10040000 80bb0000 00000000 00080000", "is WavPack, which libsndfile "},
        {"52494646 f63e0000 57415645 666d7420 18000000 ff000100",
         "is WAV with a codec other than PCM, which libsndfile "},
        {"63616666 00010000 64657363 00000000 00000020 40d77000 00000000 61616320",
         "is CAF with a codec, which libsndfile "},
        {"63616666 00010000 64657363 00000000 00000020 40d77000 00000000 6c70636d",
         "is not a sound file that can be read: "},
        {"63616666 00010000 66726565 00000000 00000020 40d77000 00000000 61616320",
         "is not a sound file that can be read: "},
        {"49443304 00000000 000a0000 00000000 00000000 fff15840", "is AAC, which libsndfile "},
        {"52494646 f63e0000 57415645 666d7420 18000000 01000000", "is not a sound file that can be read: "},
        {"52494646 f63e0000 57415645 666d7420 18000000 06000100", "is not a sound file that can be read: "},
        {"52494646 f63e0000 57415645 666d7420 18000000 11000100", "is not a sound file that can be read: "},
        {"fffe4100 42004300 44004500 46004700 48004900 4a004b00", "is not a sound file that can be read: "},
        {"fffbf000 42004300 44004500 46004700 48004900 4a004b00", "is not a sound file that can be read: "},
        {"fffb9c00 42004300 44004500 46004700 48004900 4a004b00", "is not a sound file that can be read: "},
        {"3c21444f 43545950 45206874 6d6c3e0a 3c68746d 6c3e0a20", "is not a sound file that can be read: "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[100] = {0};
        const char *at = cases[i].head;
        for (int n = 0; *at; n++, at += 2 + (at[2] == ' ')) sscanf(at, "%2hhx", &bytes[n]);
        write_bytes(in("head"), bytes, sizeof bytes);
        Audio audio;
        Error error;
        assert_false(audio_read(in("head"), RATE, 10, &audio, &error));
        assert_contains(error.text, cases[i].kind);
        assert_int_equal(audio.convertible, !strstr(cases[i].kind, "not"));
    }
}

static void check_command(char *command, const char *expected) {
    assert_string_equal(command, expected);
    free(command);
}

TEST(conversions_are_commands_of_a_shell) {
    check_command(conversion_command("a/x.m4a", RATE), "ffmpeg -i a/x.m4a -ac 1 -ar 24000 a/x.wav");
    check_command(conversion_command("a.b/it's $1.WAV", RATE),
                  "ffmpeg -i 'a.b/it'\\''s $1.WAV' -ac 1 -ar 24000 'a.b/it'\\''s $1.flac'");
    check_command(conversion_command("a.b/x", 8000), "ffmpeg -i a.b/x -ac 1 -ar 8000 a.b/x.wav");
    check_command(conversion_command("-x.amr", RATE), "ffmpeg -i ./-x.amr -ac 1 -ar 24000 ./-x.wav");
    check_command(conversion_command("12:30.amr", RATE), "ffmpeg -i ./12:30.amr -ac 1 -ar 24000 ./12:30.wav");
    check_command(conversion_loop("12:30", ".m4a", false, RATE),
                  "find -L ./12:30 -maxdepth 1 -name '*.m4a' -exec sh -c 'ffmpeg -i \"$1\" -ac 1 -ar 24000 "
                  "\"${1%.*}.wav\"' sh {} ';'");
    check_command(
        conversion_loop("my clips", ".m4a", true, RATE),
        "find -L 'my clips' -name '*.m4a' -exec sh -c 'ffmpeg -i \"$1\" -ac 1 -ar 24000 \"${1%.*}.wav\"' sh {} "
        "';'");
}

/* Makes a file of this format in memory with two seconds of noise; free() *bytes. Returns false if this libsndfile does
 * not write the format. */
static bool make_noise(int format, char **bytes, size_t *size) {
    SF_INFO info = {.samplerate = RATE, .channels = 1, .format = format};
    if (!sf_format_check(&info)) return false;
    float *noise = xmalloc(2 * RATE * sizeof *noise);
    for (int i = 0; i < 2 * RATE; i++) noise[i] = philox_uniform(9, PURPOSE_TEST, 0, (uint64_t)i) - 0.5f;
    write_sound(in("whole"), format, RATE, 1, noise, 2 * RATE);
    free(noise);
    Error error;
    assert_true(read_file(in("whole"), bytes, size, &error));
    return true;
}

static void check_read(const char *bytes, size_t size, int64_t count) {
    Audio audio;
    Error error;
    write_bytes(in("read"), bytes, size);
    if (!audio_read(in("read"), RATE, 10, &audio, &error)) fail_msg("%s", error.text);
    assert_int_equal(audio.count, count);
    audio_close(&audio);
}

/* Refuses half of a file of each format. A chunk behind the sound may be cut off. */
TEST(half_a_file_is_refused) {
    static const struct {
        int format;
        const char *message;
    } cases[] = {{SF_FORMAT_WAV | SF_FORMAT_PCM_16, " of 96000 bytes of sound are there"},
                 {SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, " of 144000 bytes of sound are there"},
                 {SF_FORMAT_RF64 | SF_FORMAT_FLOAT, " of 192000 bytes of sound are there"},
                 {SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, " of 96000 bytes of sound are there"},
                 {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, " of 96008 bytes of sound are there"},
                 {SF_FORMAT_AIFF | SF_FORMAT_FLOAT, " of 192008 bytes of sound are there"},
                 {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "cannot be read: "},
                 {SF_FORMAT_OGG | SF_FORMAT_VORBIS, " bytes of its last page are there"},
                 {0x230082, " of 48000 samples are there"}}; /* SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bytes;
        size_t size;
        if (!make_noise(cases[i].format, &bytes, &size)) {
            printf("SKIPPED: format %x, which this libsndfile does not write\n", (unsigned)cases[i].format);
            continue;
        }
        check_read(bytes, size, 2 * RATE);
        write_bytes(in("cut"), bytes, size / 2);
        check_refused("cut", cases[i].message);
        free(bytes);
    }
}

/* Damaged files of a format that libsndfile reads are called damaged, and no conversion is proposed. */
TEST(damaged_sound_is_told_from_a_foreign_format) {
    static const struct {
        int format;
        const char *message;
    } cases[] = {{SF_FORMAT_OGG | 0x64, "is damaged Opus: "}, /* SF_FORMAT_OPUS */
                 {0x230082, "is damaged MP3: "},              /* SF_FORMAT_MPEG_LAYER_III */
                 {SF_FORMAT_WAV | SF_FORMAT_ULAW, "is not a sound file that can be read: "},
                 {SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM, "is not a sound file that can be read: "},
                 {SF_FORMAT_CAF | SF_FORMAT_PCM_16, "is not a sound file that can be read: "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bytes;
        size_t size;
        Audio audio;
        Error error;
        if (!make_noise(cases[i].format, &bytes, &size)) {
            printf("SKIPPED: format %x, which this libsndfile does not write\n", (unsigned)cases[i].format);
            continue;
        }
        write_bytes(in("cut"), bytes, 45);
        assert_false(audio_read(in("cut"), RATE, 10, &audio, &error));
        assert_contains(error.text, cases[i].message);
        assert_false(audio.convertible);
        free(bytes);
    }
}

/* libsndfile keeps one reason for all threads. */
TEST(each_thread_gets_the_reason_of_its_own_file) {
    static const char *const heads[] = {"this is no sound", "fLaC"};
    Error alone[2];
    Audio audio;
    int wrong = 0;
    for (int i = 0; i < 2; i++) {
        char bytes[100] = {0}, name[] = {(char)('0' + i), 0};
        memcpy(bytes, heads[i], strlen(heads[i]));
        write_bytes(in(name), bytes, sizeof bytes);
        assert_false(audio_read(in(name), RATE, 10, &audio, &alone[i]));
    }
    assert_string_not_equal(alone[0].text, alone[1].text);
    char *paths[] = {xstrdup(in("0")), xstrdup(in("1"))};
#pragma omp parallel for num_threads(8) schedule(static, 1) reduction(+ : wrong)
    for (int i = 0; i < 8000; i++) {
        Audio mine;
        Error error;
        wrong += audio_read(paths[i % 2], RATE, 10, &mine, &error) || strcmp(error.text, alone[i % 2].text) != 0;
    }
    assert_int_equal(wrong, 0);
    free(paths[0]);
    free(paths[1]);
}

/* libsndfile reads a FLAC that was cut between two frames without an error. */
TEST(a_flac_cut_between_frames_is_refused) {
    char *bytes, *frame;
    size_t size;
    assert_true(make_noise(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, &bytes, &size));
    frame = memmem(bytes + size / 2, size / 2, "\xff\xf8", 2);
    assert_non_null(frame);
    write_bytes(in("cut"), bytes, (size_t)(frame - bytes));
    check_refused("cut", " of 48000 samples are there");
    free(bytes);
}

/* Less than one code, 20 ms or 960 bytes here, may be missing. A program that writes to a stream does not know the
 * length when it writes the header. */
TEST(a_complete_file_with_a_wrong_length_in_its_header_is_read) {
    static const uint32_t unknown[] = {0xffffffff, 0x7ffff000, 0x80000000};
    char *bytes;
    size_t size;
    assert_true(make_noise(SF_FORMAT_WAV | SF_FORMAT_PCM_16, &bytes, &size));
    check_read(bytes, size - 958, 2 * RATE - 479);
    write_bytes(in("cut"), bytes, size - 1000);
    check_refused("cut", "is cut off: 95000 of 96000 bytes of sound are there");
    write_bytes(in("cut"), bytes, 44);
    check_refused("cut", "is cut off: 0 of 96000 bytes of sound are there");
    char *longer = xcalloc(1, size + 100);
    memcpy(longer, bytes, size);
    memcpy(longer + size, "LIST\x20\x03\0\0INFO", 12);
    check_read(longer, size + 100, 2 * RATE); /* the missing part is not sound */
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        memcpy(bytes + 40, &unknown[i], 4); /* tests run on little-endian machines */
        check_read(bytes, size, 2 * RATE);
    }
    memset(bytes + 40, 0, 4); /* as a recorder leaves it that was interrupted */
    check_read(bytes, size, 2 * RATE);
    free(longer);
    free(bytes);
}

TEST(written_audio_is_read_back) {
    float *sine = make_sine(300, 1.5, RATE, 1, 4800);
    Audio audio;
    Error error;
    assert_true(audio_write(in("out.wav"), sine, 4800, RATE, &error));
    assert_true(audio_read(in("out.wav"), RATE, 10, &audio, &error));
    assert_int_equal(audio.count, 4800);
    for (int i = 0; i < 4800; i++) { /* clipped at full scale, without overflow */
        float want = fmaxf(-1, fminf(sine[i], 32767.0f / 32768));
        assert_true(fabsf(audio.samples[i] - want) <= 0x1p-15f);
    }
    audio_close(&audio);
    assert_false(audio_write(in("no/out.wav"), sine, 4800, RATE, &error));
    assert_contains(error.text, "cannot create");
    free(sine);
}

/* ---- frames ---- */

static float *frames_of(const Mel *mel, const float *samples, int64_t n) {
    float *frames = xmalloc((size_t)(mel_frame_count(n) * MEL_BANDS) * sizeof *frames);
    mel_analyse(mel, samples, n, frames);
    return frames;
}

/* Computes one frame as data/audio/mel.h defines it, in double, with an explicit Fourier sum. */
static void naive_frame(const float *samples, int64_t n, int64_t t, double out[MEL_BANDS]) {
    double windowed[MEL_WINDOW], window_sum = 0, top = 2595 * log10(1 + 12000 / 700.0);
    for (int i = 0; i < MEL_WINDOW; i++) {
        double window = 0.5 * (1 - cos(2 * M_PI * i / MEL_WINDOW));
        int64_t at = 480 * t + 240 - MEL_WINDOW / 2 + i;
        windowed[i] = at >= 0 && at < n ? window * (double)samples[at] : 0;
        window_sum += window;
    }
    memset(out, 0, MEL_BANDS * sizeof *out);
    for (int k = 0; k <= MEL_FFT / 2; k++) {
        double hertz = 24000.0 * k / MEL_FFT, real = 0, imaginary = 0;
        for (int i = 0; i < MEL_WINDOW; i++) {
            real += windowed[i] * cos(2 * M_PI * (k * i % MEL_FFT) / MEL_FFT);
            imaginary += windowed[i] * sin(2 * M_PI * (k * i % MEL_FFT) / MEL_FFT);
        }
        for (int b = 0; b < MEL_BANDS; b++) {
            double corner[3];
            for (int c = 0; c < 3; c++) corner[c] = 700 * (pow(10, top * (b + c) / (MEL_BANDS + 1) / 2595) - 1);
            double rising = (hertz - corner[0]) / (corner[1] - corner[0]);
            double falling = (corner[2] - hertz) / (corner[2] - corner[1]);
            out[b] += fmax(0, fmin(rising, falling)) * hypot(real, imaginary) * 2 / window_sum;
        }
    }
    for (int b = 0; b < MEL_BANDS; b++) out[b] = log(fmax(out[b], 1e-4));
}

/* Float32 has an error of 1e-7 of the loudest bin (here 0.1); the quietest band above the floor is 1e-4. */
TEST(frames_match_a_naive_transform) {
    enum { N = 20 * MEL_HOP };
    static const int64_t some[] = {0, 1, 9, 19};
    Mel *mel = mel_open();
    float *voice = make_babble(4, MEL_RATE, N), *frames = frames_of(mel, voice, N);
    double want[MEL_BANDS], worst = 0;
    int above = 0;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        naive_frame(voice, N, some[i], want);
        for (int b = 0; b < MEL_BANDS; b++) {
            worst = fmax(worst, fabs((double)frames[some[i] * MEL_BANDS + b] - want[b]));
            above += want[b] > log(2e-4);
        }
    }
    printf("%d values above the floor, the worst difference is %.2g\n", above, worst);
    assert_true(worst < 1e-4);
    assert_true(above > 2 * MEL_BANDS);
    free(voice);
    free(frames);
    mel_close(mel);
}

/* Returns the band whose triangle is highest at this frequency. Centres are equidistant on the mel scale. */
static int band_at(double hertz) {
    double step = 2595 * log10(1 + 12000 / 700.0) / (MEL_BANDS + 1);
    return (int)lround(2595 * log10(1 + hertz / 700) / step) - 1;
}

TEST(a_tone_peaks_in_its_band) {
    Mel *mel = mel_open();
    for (double hertz = 300; hertz < 11500; hertz *= 1.09) {
        float *sine = make_sine(hertz, 0.5, MEL_RATE, 1, 24000), *frames = frames_of(mel, sine, 24000);
        for (int t = 2; t < 48; t++) {
            int peak = 0;
            for (int b = 1; b < MEL_BANDS; b++)
                if (frames[t * MEL_BANDS + b] > frames[t * MEL_BANDS + peak]) peak = b;
            if (abs(peak - band_at(hertz)) > 1) fail_msg("%g Hz: band %d, expected %d", hertz, peak, band_at(hertz));
        }
        free(sine);
        free(frames);
    }
    mel_close(mel);
}

/* Twice the amplitude adds ln 2 to every band above the floor. */
TEST(frames_are_logarithms) {
    Mel *mel = mel_open();
    float *quiet = make_babble(1, MEL_RATE, 24000), *loud = xmalloc(24000 * sizeof *loud);
    for (int i = 0; i < 24000; i++) loud[i] = 2 * quiet[i];
    float *a = frames_of(mel, quiet, 24000), *b = frames_of(mel, loud, 24000);
    for (int i = 0; i < 50 * MEL_BANDS; i++)
        if (a[i] > logf(MEL_FLOOR)) assert_true(fabsf(b[i] - a[i] - (float)M_LN2) < 1e-5f);
    free(quiet);
    free(loud);
    free(a);
    free(b);
    mel_close(mel);
}

/* A click changes only the frames whose window, samples 480 t - 480 to 480 t + 959, contains the click. */
TEST(a_frame_depends_only_on_its_window) {
    Mel *mel = mel_open();
    float *click = xcalloc(10 * MEL_HOP + 479, sizeof *click);
    click[5 * MEL_HOP + 100] = 1;
    assert_int_equal(mel_frame_count(10 * MEL_HOP + 479), 10);
    float *frames = frames_of(mel, click, 10 * MEL_HOP + 479);
    for (int t = 0; t < 10; t++)
        for (int b = 0; b < MEL_BANDS; b++) {
            bool floor = frames[t * MEL_BANDS + b] == logf(MEL_FLOOR);
            assert_true(floor == (t < 4 || t > 6));
        }
    free(click);
    free(frames);
    mel_close(mel);
}

TEST(griffin_lim_restores_a_tone) {
    Mel *mel = mel_open();
    double best = 0, at = 0, rest;
    float *sine = make_sine(1000, 0.5, MEL_RATE, 1, 24000), *frames = frames_of(mel, sine, 24000);
    float *back = xmalloc(24000 * sizeof *back);
    mel_invert(mel, frames, 50, 60, 1, back);
    for (double hertz = 50; hertz <= 6000; hertz += 2) {
        double amplitude = tone_in(back + 6000, 12000, hertz, MEL_RATE, &rest);
        if (amplitude > best) {
            best = amplitude;
            at = hertz;
        }
    }
    printf("1000 Hz at 0.5 came back as %g Hz at %.3f\n", at, best);
    assert_true(fabs(at - 1000) <= 40); /* half a band: frames do not keep the position within a band */
    assert_true(best > 0.25 && best < 0.6);
    free(sine);
    free(frames);
    free(back);
    mel_close(mel);
}

/* Returns the rms difference between the first n frames of two clips, in nepers. */
static double distance(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n * MEL_BANDS; i++) sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum / (double)(n * MEL_BANDS));
}

TEST(iterations_bring_the_sound_closer) {
    enum { FRAMES = 100 };
    Mel *mel = mel_open();
    float *voice = make_babble(2, MEL_RATE, FRAMES * MEL_HOP), *other = make_babble(3, MEL_RATE, FRAMES * MEL_HOP);
    float *frames = frames_of(mel, voice, FRAMES * MEL_HOP), *others = frames_of(mel, other, FRAMES * MEL_HOP);
    float *back = xmalloc(FRAMES * MEL_HOP * sizeof *back), *twice = xmalloc(FRAMES * MEL_HOP * sizeof *twice);
    double far = distance(frames, others, FRAMES), near[2];
    for (int i = 0; i < 2; i++) {
        mel_invert(mel, frames, FRAMES, 60 * i, 1, back);
        float *again = frames_of(mel, back, FRAMES * MEL_HOP);
        near[i] = distance(frames, again, FRAMES);
        free(again);
    }
    mel_invert(mel, frames, FRAMES, 60, 1, twice);
    assert_memory_equal(back, twice, FRAMES * MEL_HOP * sizeof *back);
    printf("log-mel distance: %.3f after 0 iterations, %.3f after 60, %.3f to another clip\n", near[0], near[1], far);
    assert_true(near[1] < 0.7 * near[0]);
    assert_true(near[1] < 0.25 * far);
    free(voice);
    free(other);
    free(frames);
    free(others);
    free(back);
    free(twice);
    mel_close(mel);
}

TEST(damaged_sound_is_not_called_a_sound) {
    static const char *const heads[] = {"fLaC\0\0\0\042garbage of it", "OggS\0\002xxxxxxxxxxxxxxx",
                                        "RIFF\044\0\0\0WAVEjunkgarb"};
    for (int i = 0; i < 3; i++) {
        write_bytes(in("damaged"), heads[i], 20);
        check_refused("damaged", "is not a sound file that can be read: ");
        Audio audio;
        Error error;
        assert_false(audio_read(in("damaged"), RATE, 1, &audio, &error));
        assert_null(strstr(error.text, "it is"));
    }
}

/* A part has the very samples of the whole, also where several sounds were joined in one file. */
TEST(a_part_is_a_part_of_the_whole) {
    enum { FRAMES = 3 * RATE };
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                  SF_FORMAT_OGG | SF_FORMAT_VORBIS, SF_FORMAT_AIFF | SF_FORMAT_PCM_24};
    float *babble = make_babble(3, RATE, FRAMES);
    char *part_path = xstrdup(in("whole")), *joined = xstrdup(in("joined"));
    for (int i = 0; i < 4; i++) {
        Audio whole, part;
        Error error;
        write_sound(part_path, formats[i], RATE, 1, babble, FRAMES);
        bool can_join = i == 1 || i == 2;
        char out[1 << 10];
        assert_int_equal(
            run_command(out, sizeof out, can_join ? "cat %s %s >%s" : "cp %s %.0s%s", part_path, part_path, joined), 0);
        const double starts[] = {0.5, 2.25, 4.25};
        if (!audio_read(joined, RATE, 10, &whole, &error)) fail_msg("%s", error.text);
        assert_int_equal(whole.count, can_join ? 2 * FRAMES : FRAMES);
        for (int k = 0; k < (can_join ? 3 : 2); k++) {
            if (!audio_read_part(joined, RATE, starts[k], 1.5, &part, &error)) fail_msg("%s", error.text);
            int64_t first = llround(starts[k] * RATE), n = can_join || !k ? 3 * RATE / 2 : FRAMES - first;
            assert_int_equal(part.count, n);
            for (int64_t t = 0; t < n; t++) assert_float_equal(part.samples[t], whole.samples[first + t], 1e-4);
            audio_close(&part);
        }
        assert_false(audio_read_part(joined, RATE, 7, 1, &part, &error));
        assert_string_equal(error.text, can_join ? "has only 6.00 s, but the recording begins at 7.00 s"
                                                 : "has only 3.00 s, but the recording begins at 7.00 s");
        audio_close(&whole);
    }
    free(babble), free(part_path), free(joined);
}

int main(void) {
    directory = run_directory();
    return tests_run(NULL, NULL);
}
