/* Sound files whose headers tell of a part of the sound, files that were joined, and files that are no sound. */
#include "base/file.h"
#include "data/audio/audio.h"
#include "data/audio/compress.h"
#include "tests/sounds.h"

static Error error;

enum { RATE = 24000, FRAMES = RATE, MP3 = 0x230082 /* SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III */ };

static const char *directory;

static char *in(const char *name) { return path_join(directory, name); }

/* ---- bytes of files ---- */

typedef struct {
    unsigned char bytes[1 << 19];
    size_t n;
} FileBytes;

static void put(FileBytes *out, const void *bytes, size_t n) {
    assert_true(out->n + n <= sizeof out->bytes);
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
}

static void put_number(FileBytes *out, uint64_t number, int n) {
    for (int i = 0; i < n; i++) put(out, &(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}

/* Puts the header of a chunk. */
static void chunk(FileBytes *out, const char *tag, uint32_t size) {
    put(out, tag, 4);
    put_number(out, size, 4);
}

static void begin_wav(FileBytes *out, const char *tag, uint32_t size) {
    chunk(out, tag, size);
    put(out, "WAVE", 4);
}

static void put_format(FileBytes *out, int codec, int channels, int bits) {
    chunk(out, "fmt ", 16);
    put_number(out, (uint64_t)codec, 2);
    put_number(out, (uint64_t)channels, 2);
    put_number(out, RATE, 4);
    put_number(out, (uint64_t)(RATE * channels * bits / 8), 4);
    put_number(out, (uint64_t)(channels * bits / 8), 2);
    put_number(out, (uint64_t)bits, 2);
}

/* Returns sample i of the sound in all files of 16 bits. */
static int16_t sample(int i) { return (int16_t)lrint(9000 * sin(i * 0.05)); }

static void put_sound(FileBytes *out, int from, int to) {
    for (int i = from; i < to; i++) put_number(out, (uint16_t)sample(i), 2);
}

static bool read_bytes(const FileBytes *file, Audio *audio, Error *error) {
    char *path = keep(in("file.wav"));
    write_bytes(path, file->bytes, file->n);
    return audio_read(path, RATE, 10, audio, error);
}

/* The file must be read as samples 0 to n - 1, `times` times. */
static void must_hold(const char *what, const FileBytes *file, int n, int times) {
    Audio audio;
    if (!read_bytes(file, &audio, &error)) fail_msg("%s: %s", what, error.text);
    if (audio.count != n * times) fail_msg("%s: %lld samples", what, (long long)audio.count);
    for (int i = 0; i < n * times; i++)
        if (audio.samples[i] != (float)sample(i % n) / 32768)
            fail_msg("%s: sample %d is %g", what, i, audio.samples[i]);
    for (int doubt = 0; doubt < AUDIO_DOUBTS; doubt++)
        if (audio_doubt(&audio.facts, (AudioDoubt)doubt, &error)) fail_msg("%s: %s", what, error.text);
    audio_close(&audio);
}

static void must_refuse(const FileBytes *file, const char *message) {
    Audio audio;
    Error error = {""};
    assert_false(read_bytes(file, &audio, &error));
    assert_contains(error.text, message);
    assert_null(audio.samples);
}

/* ---- WAV ---- */

TEST(a_header_of_an_interrupted_recorder_is_read_to_the_end) {
    static const uint32_t riff[] = {0, 8, 36, 36 + 2 * FRAMES};
    for (size_t i = 0; i < sizeof riff / sizeof *riff; i++) {
        FileBytes file = {.n = 0};
        begin_wav(&file, "RIFF", riff[i]);
        put_format(&file, 1, 1, 16);
        chunk(&file, "data", 0);
        put_sound(&file, 0, FRAMES);
        must_hold("size 0", &file, FRAMES, 1);
    }
    FileBytes empty = {.n = 0};
    begin_wav(&empty, "RIFF", 60);
    put_format(&empty, 1, 1, 16);
    chunk(&empty, "data", 0);
    chunk(&empty, "LIST", 4);
    put(&empty, "INFO", 4);
    must_refuse(&empty, "has no samples"); /* another chunk follows */
}

TEST(all_chunks_with_sound_are_read) {
    for (int between = 0; between < 2; between++) {
        FileBytes file = {.n = 0};
        begin_wav(&file, "RIFF", 36 + 2 * FRAMES + 8 + 16 * between);
        put_format(&file, 1, 1, 16);
        chunk(&file, "data", FRAMES);
        put_sound(&file, 0, FRAMES / 2);
        if (between) chunk(&file, "JUNK", 8), put_number(&file, 0, 8);
        chunk(&file, "data", FRAMES);
        put_sound(&file, FRAMES / 2, FRAMES);
        must_hold("two chunks", &file, FRAMES, 1);
        file.n -= FRAMES / 2;
        must_refuse(&file, "is cut off: 12000 of 24000 bytes of sound are there");
    }
}

/* Before the format and before the sound, with a pad byte and without. */
TEST(odd_chunks_need_no_pad_byte) {
    for (int place = 0; place < 2; place++)
        for (int pad = 0; pad < 2; pad++) {
            FileBytes file = {.n = 0};
            begin_wav(&file, "RIFF", (uint32_t)(36 + 2 * FRAMES + 11 + pad));
            if (place) put_format(&file, 1, 1, 16);
            chunk(&file, "bext", 3);
            put(&file, "abc\0", (size_t)(3 + pad));
            if (!place) put_format(&file, 1, 1, 16);
            chunk(&file, "data", 2 * FRAMES);
            put_sound(&file, 0, FRAMES);
            must_hold("odd chunk", &file, FRAMES, 1);
        }
}

TEST(bw64_is_read_as_rf64_is) {
    static const char *const tags[] = {"RF64", "BW64"};
    for (int i = 0; i < 2; i++) {
        FileBytes file = {.n = 0};
        begin_wav(&file, tags[i], UINT32_MAX);
        chunk(&file, "ds64", 28);
        put_number(&file, 72 + 2 * FRAMES, 8);
        put_number(&file, 2 * FRAMES, 8);
        put_number(&file, FRAMES, 8);
        put_number(&file, 0, 4);
        put_format(&file, 1, 1, 16);
        chunk(&file, "data", UINT32_MAX);
        put_sound(&file, 0, FRAMES);
        must_hold(tags[i], &file, FRAMES, 1);
        file.n /= 2;
        must_refuse(&file, " of 48000 bytes of sound are there");
    }
}

static void put_whole(FileBytes *file) {
    begin_wav(file, "RIFF", 36 + 2 * FRAMES);
    put_format(file, 1, 1, 16);
    chunk(file, "data", 2 * FRAMES);
    put_sound(file, 0, FRAMES);
}

/* Expects no doubt about what a tag, a filled sector or another chunk adds, but one about what looks like sound. */
TEST(a_header_that_declares_half_of_the_bytes_is_told) {
    static const char tag[] = "TAG and a title that somebody has given to the sound";
    FileBytes whole = {.n = 0}, file;
    put_whole(&whole);
    file = whole;
    put(&file, tag, sizeof tag);
    file.n += 4000; /* zeros */
    must_hold("tag", &file, FRAMES, 1);
    file = whole;
    file.n += 4000;
    must_hold("zeros", &file, FRAMES, 1);
    file = whole;
    for (int i = 0; i < 4; i++) file.bytes[40 + i] = (unsigned char)(FRAMES >> 8 * i);
    Audio audio;
    assert_true(read_bytes(&file, &audio, &error));
    assert_int_equal(audio.count, FRAMES / 2); /* as declared */
    assert_true(audio_doubt(&audio.facts, AUDIO_UNDECLARED, &error));
    assert_contains(error.text, "declares only 24000 of 48000 bytes, and only those are read");
    assert_contains(error.text, "ffmpeg -ignore_length 1 -i FILE NEW.wav");
    audio_close(&audio);
}

/* ---- samples ---- */

TEST(channels_that_cancel_each_other_are_named) {
    for (int rest = 0; rest < 2; rest++) { /* exactly, and but for the last bit */
        FileBytes file = {.n = 0};
        begin_wav(&file, "RIFF", 36 + 4 * FRAMES);
        put_format(&file, 1, 2, 16);
        chunk(&file, "data", 4 * FRAMES);
        for (int i = 0; i < FRAMES; i++) {
            put_number(&file, (uint16_t)sample(i), 2);
            put_number(&file, (uint16_t)(rest - sample(i)), 2);
        }
        must_refuse(&file, "has channels that cancel each other");
    }
}

/* Puts a file of floats, sample i times `scale`. */
static void put_floats(FileBytes *file, double scale) {
    begin_wav(file, "RIFF", 36 + 4 * FRAMES);
    put_format(file, 3, 1, 32);
    chunk(file, "data", 4 * FRAMES);
    for (int i = 0; i < FRAMES; i++) {
        float x = (float)(sample(i) * scale);
        put(file, &x, sizeof x); /* tests run on little-endian machines */
    }
}

TEST(floats_in_the_range_of_integers_are_named) {
    static const struct {
        double scale;
        const char *message;
    } cases[] = {{1, "floats in the range of 16-bit integers, which no program has divided by 2^15"},
                 {256, "floats in the range of 24-bit integers, which no program has divided by 2^23"},
                 {65536, "floats in the range of 32-bit integers, which no program has divided by 2^31"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FileBytes file = {.n = 0};
        put_floats(&file, cases[i].scale);
        must_refuse(&file, cases[i].message);
    }
    FileBytes loud = {.n = 0}; /* four times full scale is clipped, and read */
    Audio audio;
    put_floats(&loud, 4 / 9000.0);
    assert_true(read_bytes(&loud, &audio, &error));
    assert_true(audio.clipped > 0.5);
    audio_close(&audio);
}

TEST(sound_at_the_noise_floor_is_told) {
    Audio audio;
    for (int faint = 0; faint < 2; faint++) {
        FileBytes file = {.n = 0};
        put_floats(&file, (faint ? 0.0001 : 0.002) / 9000);
        assert_true(read_bytes(&file, &audio, &error));
        assert_int_equal(audio_doubt(&audio.facts, AUDIO_FAINT, &error), faint);
        if (faint) assert_contains(error.text, "its loudest sample is 80 dB below full scale");
        audio_close(&audio);
    }
}

/* ---- no sound ---- */

TEST(what_is_no_sound_is_named) {
    static const char *const cases[][2] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 72862\n",
         "it is a pointer of Git LFS, which stands for a file that was not fetched: fetch it with git lfs pull"},
        {"\n<!DOCTYPE html>\n<html></html>\n",
         "it is a web page (HTML), which begins \"<!DOCTYPE html>\": the download "},
        {"<HTML><body></body></HTML>", "it is a web page (HTML), which begins "},
        {"{\"error\": \"not found\"}\n", "it is a text, which begins \"{\"error\": \"not found\"}\""},
        {"ሰላም ለዓለም\r\n", "it is a text, which begins \"ሰላም ለዓለም\""},
        {"PK\3\4 and more than forty bytes of an archive of files", "it is a zip archive"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FileBytes file = {.n = 0};
        put(&file, cases[i][0], strlen(cases[i][0]));
        must_refuse(&file, "is not a sound file that can be read: ");
        must_refuse(&file, cases[i][1]);
    }
}

/* Makes a file as the corpora of the LDC are compressed. ffmpeg may read it. */
TEST(sphere_that_libsndfile_does_not_read_is_named) {
    static const char head[] = "NIST_1A\n   1024\nsample_count -i 1000\nsample_n_bytes -i 2\nchannel_count -i 1\n"
                               "sample_byte_format -s2 01\nsample_rate -i 16000\n"
                               "sample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n";
    FileBytes file = {.n = 0};
    put(&file, head, sizeof head - 1);
    file.n = 1024 + 2000;
    char *path = keep(in("file.wav"));
    Audio audio;
    write_bytes(path, file.bytes, file.n);
    assert_false(audio_read(path, RATE, 10, &audio, &error));
    assert_contains(error.text, "is SPHERE (NIST), which libsndfile does not read");
    assert_true(audio.convertible);
}

/* ---- joined files ---- */

/* Writes a second of the sound with libsndfile, and appends the file. Returns false if it does not write the format. */
static bool append(FileBytes *out, int format, double compression) {
    SF_INFO info = {.samplerate = RATE, .channels = 1, .format = format};
    char *path = keep(in("part")), *bytes;
    float samples[FRAMES];
    size_t n;
    bool known = sf_format_check(&info);
    SNDFILE *file = known ? sf_open(path, SFM_WRITE, &info) : NULL;
    for (int i = 0; i < FRAMES; i++) samples[i] = (float)sample(i) / 32768;
    if (file) {
        sf_command(file, 0x1301, &compression, sizeof compression); /* SFC_SET_COMPRESSION_LEVEL */
        assert_int_equal(sf_writef_float(file, samples, FRAMES), FRAMES);
        assert_int_equal(sf_close(file), 0);
        assert_true(read_file(path, &bytes, &n, &(Error){""}));
        put(out, bytes, n);
        free(bytes);
    } else {
        printf("SKIPPED: format %x, which this libsndfile does not write\n", (unsigned)format);
    }
    return file != NULL;
}

TEST(joined_files_are_read_to_the_end) {
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,  SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG,
                                  SF_FORMAT_RF64 | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                  SF_FORMAT_AU | SF_FORMAT_PCM_16,   SF_FORMAT_CAF | SF_FORMAT_PCM_16,
                                  SF_FORMAT_W64 | SF_FORMAT_PCM_16,  SF_FORMAT_AIFF | SF_FORMAT_PCM_16,
                                  SF_FORMAT_AIFF | SF_FORMAT_FLOAT};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        FileBytes file = {.n = 0};
        append(&file, formats[i], 0.5);
        int n = 1;
        for (; n < 3; n++) append(&file, formats[i], 0.5);
        char what[16];
        snprintf(what, sizeof what, "%x", (unsigned)formats[i]);
        Audio audio;
        if (!read_bytes(&file, &audio, &error)) fail_msg("%s: %s", what, error.text);
        assert_int_equal(audio.count, n * FRAMES);
        for (int k = 0; k < n * FRAMES; k++)
            assert_true(fabsf(audio.samples[k] - (float)sample(k % FRAMES) / 32768) <= 0x1p-15f);
        audio_close(&audio);
    }
}

TEST(joined_aiff_of_which_one_is_cut_off_is_refused) {
    FileBytes file = {.n = 0};
    append(&file, SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 0);
    append(&file, SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 0);
    file.n -= FRAMES;
    must_refuse(&file, "is cut off: 24008 of 48008 bytes of sound are there");
}

/* Joins files as programs write them into pipes: where the next file begins, the sound ends. */
TEST(joined_files_of_unknown_length_are_read_to_the_end) {
    static const struct {
        int format;
        uint32_t size;
    } cases[] = {{SF_FORMAT_WAV, 0},
                 {SF_FORMAT_WAV, UINT32_MAX},
                 {SF_FORMAT_WAV, 0x7ffff000},
                 {SF_FORMAT_AIFF, UINT32_MAX},
                 {SF_FORMAT_AIFF, 0x7f000008}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int n = 1; n <= 3; n++) {
            FileBytes file = {.n = 0};
            for (int k = 0; k < n; k++) {
                unsigned char *begin = file.bytes + file.n;
                append(&file, cases[i].format | SF_FORMAT_PCM_16, 0);
                const bool aiff = cases[i].format == SF_FORMAT_AIFF;
                unsigned char *sound = aiff ? memmem(begin, 512, "SSND", 4) : begin + 36;
                assert_memory_equal(sound, aiff ? "SSND" : "data", 4);
                for (int b = 0; b < 4; b++) sound[4 + b] = (unsigned char)(cases[i].size >> 8 * (aiff ? 3 - b : b));
            }
            char what[32];
            snprintf(what, sizeof what, "case %zu, %d files", i, n);
            must_hold(what, &file, FRAMES, n);
        }
}

TEST(a_caf_of_unknown_length_is_named_with_what_reads_it) {
    FileBytes file = {.n = 0};
    append(&file, SF_FORMAT_CAF | SF_FORMAT_PCM_16, 0);
    unsigned char *sound = memmem(file.bytes, file.n, "data", 4);
    assert_non_null(sound);
    memset(sound + 4, 0xff, 8);
    must_refuse(&file, "is CAF of unknown length, which libsndfile does not read (");
}

/* The loudness of each second must be that of the sound, which tells that no second is silent or missing. */
static void check_seconds(const FileBytes *file, int seconds, int slack) {
    Audio audio;
    if (!read_bytes(file, &audio, &error)) fail_msg("%s", error.text);
    assert_in_range(audio.count, seconds * FRAMES, seconds * FRAMES + slack);
    for (int s = 0; s < seconds; s++) {
        double power = 0;
        for (int i = FRAMES / 4; i < 3 * FRAMES / 4; i++) power += pow((double)audio.samples[s * FRAMES + i], 2);
        double rms = sqrt(power / (FRAMES / 2.0)), want = 9000 / 32768.0 / sqrt(2);
        if (fabs(rms - want) > 0.03 * want) fail_msg("second %d: rms %g, expected %g", s, rms, want);
    }
    audio_close(&audio);
}

TEST(joined_files_of_lossy_formats_are_read_to_the_end) {
    static const int formats[] = {SF_FORMAT_OGG | SF_FORMAT_VORBIS, SF_FORMAT_OGG | 0x64 /* SF_FORMAT_OPUS */, MP3};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        FileBytes file = {.n = 0};
        bool written = append(&file, formats[i], 0.2);
        if (written && append(&file, formats[i], 0.8) && append(&file, formats[i], 0.2)) check_seconds(&file, 3, 0);
    }
}

/* ---- MP3 ---- */

/* Appends an MP3 without the frame that describes the others. */
static bool append_plain(FileBytes *out, double compression) {
    float samples[FRAMES];
    char *path = keep(in("plain.mp3")), *bytes;
    size_t n;
    for (int i = 0; i < FRAMES; i++) samples[i] = (float)sample(i) / 32768;
    bool written = append_bare_mp3(path, RATE, samples, FRAMES, compression);
    if (written) {
        assert_true(read_file(path, &bytes, &n, &(Error){""}));
        put(out, bytes, n);
        free(bytes);
    }
    remove(path);
    return written;
}

/* Large frames come first, so that an estimate by the first is too low. Each encoder adds two frames of its own. */
TEST(an_mp3_that_does_not_describe_itself_is_read_to_the_end) {
    FileBytes file = {.n = 0};
    if (!append_plain(&file, 0)) return;
    size_t large = file.n;
    append_plain(&file, 0.9);
    assert_true(2 * (file.n - large) < large);
    check_seconds(&file, 2, 4 * 1152);
    FileBytes tagged = {.n = 0}; /* with tags before, between and behind */
    put(&tagged, "ID3\4\0\0\0\0\0\5hello", 15);
    put(&tagged, file.bytes, large);
    put(&tagged, "TAG", 3);
    tagged.n += 125;
    put(&tagged, "ID3\4\0\0\0\0\0\5hello", 15);
    put(&tagged, file.bytes + large, file.n - large);
    check_seconds(&tagged, 2, 4 * 1152);
}

TEST(an_mp3_that_describes_a_part_of_itself_is_read_to_the_end) {
    FileBytes file = {.n = 0};
    if (!append(&file, MP3, 0.5)) return;
    append_plain(&file, 0.5);
    check_seconds(&file, 2, 4 * 1152);
}

TEST(an_mp3_with_changed_rate_is_refused) {
    FileBytes file = {.n = 0};
    if (!append(&file, MP3, 0.5)) return;
    char *path = keep(in("other.mp3")), *bytes;
    float *sine = make_sine(440, 0.5, 44100, 1, 44100);
    size_t n;
    Audio audio;
    write_sound(path, MP3, 44100, 1, sine, 44100);
    assert_true(read_file(path, &bytes, &n, &error));
    put(&file, bytes, n);
    assert_false(read_bytes(&file, &audio, &error));
    assert_contains(error.text, "joins sounds of 24000 Hz and of 44100 Hz");
    assert_true(audio.convertible);
    free(sine);
    free(bytes);
}

/* ffmpeg would convert the first of them alone. */
TEST(wav_with_changed_rate_is_not_to_be_converted) {
    FileBytes file = {.n = 0};
    put_whole(&file);
    size_t first = file.n;
    put_whole(&file);
    file.bytes[first + 24] ^= 1; /* of the rate */
    char *path = keep(in("file.wav"));
    Audio audio;
    write_bytes(path, file.bytes, file.n);
    assert_false(audio_read(path, RATE, 10, &audio, &error));
    assert_contains(error.text, "joins sounds of 24000 Hz and of 24001 Hz: resample them before they are joined");
    assert_false(audio.convertible);
}

/* ---- copies for pages ---- */

/* Joined files, and an MP3 that does not describe itself: libsndfile alone reads a part of each. */
TEST(a_copy_for_a_page_has_all_sound) {
    for (int mp3 = 0; mp3 < 2; mp3++) {
        FileBytes file = {.n = 0}, copy = {.n = 0};
        if (mp3 && !append_plain(&file, 0)) return;
        if (mp3) append_plain(&file, 0.6);
        for (int i = 0; i < 2 && !mp3; i++) append(&file, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 0);
        char *path = keep(in("page.wav")), *bytes;
        const char *type;
        size_t size;
        write_bytes(path, file.bytes, file.n);
        if (!sound_compress(path, &bytes, &size, &type, &error)) fail_msg("%s", error.text);
        put(&copy, bytes, size);
        check_seconds(&copy, 2, 4 * 1152);
        free(bytes);
    }
}

int main(void) {
    directory = run_directory();
    return tests_run(NULL, NULL);
}
