/* The lists that other programs write: their headers, their order of fields, parts of files, what speaks against a
 * list. */
#include <math.h>
#include <unistd.h>

#include "data/audio/mel.h"
#include "tests/gpt/recordings_rig.h"
#include "tests/sounds.h"

static Error error;

TEST(headers_that_people_have_are_found) {
    static const struct {
        const char *path, *list, *speaker;
    } cases[] = {
        {"metadata.csv", "audio_file|text|speaker_name\nw/a.wav|one two|anna\n", "anna"},
        {"metadata.csv", "audio_file|text\nw/a.wav|one two\n", "speaker"},
        {"metadata.csv", "file_name,transcription\nw/a.wav,one two\n", "speaker"},
        {"metadata.csv", "file_name,transcription,speaker_id\nw/a.wav,\"one two\",7\n", "7"},
        {"train.csv", "wav_filename,wav_filesize,transcript\nw/a.wav,100,one two\n", "speaker"},
        {"metadata.jsonl", "{\"file_name\": \"w/a.wav\", \"transcription\": \"one two\"}\n", "speaker"},
        {"metadata.jsonl", "{\"audio\": {\"path\": \"w/a.wav\", \"bytes\": null}, \"sentence\": \"one two\"}\n",
         "speaker"},
        {"train.json", "{\"audio_filepath\": \"w/a.wav\", \"duration\": 2.5, \"text\": \"one two\"}\n", "speaker"},
        {"a.tsv", "file\ttranscript\tspk\nw/a.wav\tone two\t3\n", "3"},
        {"all.list", "w/a.wav|anna|am|one two\n", "anna"},
        {"list.txt", "w/a.wav|one two\n", "speaker"},
        {"dev.tsv", "16\tw/a.wav\tone two\tno\to|n|e\t48000\tFEMALE\n", "speaker"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Recordings all = parse_recordings((RecordingsSource){.path = cases[i].path}, cases[i].list);
        assert_int_equal(all.count, 1);
        check_recording(&all, 0, "w_a", cases[i].speaker, "w/a.wav", "one two");
        assert_false(recording_is_part(&all.items[0]));
        if (strstr(cases[i].path, ".list")) assert_string_equal(all.items[0].language, "am");
        recordings_close(&all);
    }
}

/* The same columns by number, with and without a header. */
TEST(columns_may_be_given_by_number) {
    static const char *const lists[][2] = {
        {"l.tsv", "7\ta.wav\tno\tone\ts1\n8\tb.wav\tno\ttwo\ts2\n"},
        {"l.csv", "7,a.wav,no,one,s1\n8,b.wav,no,two,s2\n"},
        {"l.csv", "7|a.wav|no|one|s1\n8|b.wav|no|two|s2\n"},
        {"l.txt", "id|file|raw|text|speaker\n7|a.wav|no|one|s1\n8|b.wav|no|two|s2\n"},
        {"l.tsv", "x\tfile\ty\ttext\tz\n7\ta.wav\tno\tone\ts1\n8\tb.wav\tno\ttwo\ts2\n"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        RecordingsSource source = {.path = lists[i][0], .names = {"1", "5", "2", "4"}};
        Recordings all = parse_recordings(source, lists[i][1]);
        assert_int_equal(all.count, 2);
        check_recording(&all, 0, "7", "s1", "a.wav", "one");
        check_recording(&all, 1, "8", "s2", "b.wav", "two");
        recordings_close(&all);
    }
    RecordingsSource text = {.path = "metadata.csv", .names = {[FIELD_TEXT] = "2"}};
    Recordings all = parse_recordings(text, "a|one|x\nb|two|y\n");
    check_recording(&all, 0, "a", "speaker", "wavs/a.wav", "one");
    recordings_close(&all);
}

TEST(three_fields_between_bars_get_their_roles) {
    static const struct {
        const char *list, *read_as, *speaker, *text;
    } cases[] = {{"a|anna|one two\nb|anna|three four\nc|bob|one two three\nd|bob|four\n", "audio|speaker|text", "anna",
                  "one two"},
                 {"a|one two|anna\nb|three four|anna\nc|one two three|bob\nd|four five|bob\n", "audio|text|speaker",
                  "anna", "one two"},
                 {"a|one two|s1\nb|one two|s2\nc|three four|s1\nd|three four|s2\ne|five six|s1\nf|five six|s2\n"
                  "g|one two|s3\nh|three four|s3\ni|five six|s3\n",
                  "audio|text|speaker", "s1", "one two"},
                 {"a|one two|anna\nb|three|anna\n", "audio|text|speaker", "anna", "one two"},
                 {"a|21|twenty one\nb|21|twenty one\nc|22|twenty two\n", NULL, "speaker", "twenty one"},
                 {"a|Dr. A|doctor A\nb|B.|\n", NULL, "speaker", "doctor A"},
                 {"a|x|one two\nb|x|three\nc|x|four\n", NULL, "speaker", "one two"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Recordings all = parse_recordings((RecordingsSource){.path = "metadata.csv"}, cases[i].list);
        if (cases[i].read_as)
            assert_string_equal(all.read_as, cases[i].read_as);
        else
            assert_null(all.read_as);
        check_recording(&all, 0, "a", cases[i].speaker, "wavs/a.wav", cases[i].text);
        recordings_close(&all);
    }
}

TEST(parts_of_a_file_have_times_and_ids) {
    Recordings all =
        parse_recordings((RecordingsSource){.path = "a.jsonl"},
                         "{\"audio_filepath\": \"d/x.wav\", \"duration\": 2.5, \"text\": \"one\"}\n"
                         "{\"audio_filepath\": \"d/x.wav\", \"offset\": 2.5, \"duration\": 2, \"text\": \"two\"}\n");
    assert_string_equal(all.items[0].id, "d_x"); /* begins at 0, because the other one begins somewhere */
    assert_true(all.items[0].from == 0 && all.items[0].to == 2.5);
    assert_string_equal(all.items[1].id, "d_x_0002500-0004500");
    assert_true(all.items[1].from == 2.5 && all.items[1].to == 4.5 && all.items[1].stated == 2);
    recordings_close(&all);
    all = parse_recordings((RecordingsSource){.path = "a.tsv"},
                           "audio\ttext\tstart\tend\nx.wav\tone\t1:02.5\t1:05\nx.wav\ttwo\t65\t\nx.wav\tthree\t\t\n");
    assert_string_equal(all.items[0].id, "x_0062500-0065000");
    assert_true(all.items[0].from == 62.5 && all.items[0].to == 65);
    assert_string_equal(all.items[1].id, "x_0065000-end");
    assert_true(all.items[1].from == 65 && isinf(all.items[1].to));
    assert_false(recording_is_part(&all.items[2]));
    recordings_close(&all);
    RecordingsSource none = {.path = "a.tsv", .names = {[FIELD_START] = "none", [FIELD_END] = "none"}};
    all = parse_recordings(none, "audio\ttext\tstart\tend\nx.wav\tone\tMonday\tTuesday\n");
    assert_false(recording_is_part(&all.items[0]));
    recordings_close(&all);
}

TEST(what_speaks_against_a_list_is_told) {
    static const struct {
        RecordingsSource source;
        const char *list, *message;
    } cases[] = {
        {{.path = "l.csv"},
         "a|hello\nb|hello\n",
         "1: the text, field 2, is the same in all 2 lines: \"hello\"; if it is right, name it: --text-field 2"},
        {{.path = "l.csv"},
         "a/x|one two three four five six|a\nb/y|one two three four five seven|b\n",
         "1: the text, field 3, is less than a tenth as long as field 2"},
        {{.path = "l.csv"}, "file|Text\na|b\n", "1: this line looks like a header (file, Text, ...)"},
        {{.path = "l.csv"},
         "a/b|c|d|e|f\n",
         "1: has 5 fields between bars, expected 4: audio file|speaker|language|text; or"},
        {{.path = "l.tsv"},
         "a\tb\n",
         "1: has 2 tab-separated fields, expected 4: id, speaker, audio file, text; or give"},
        {{.path = "l.tsv", .names = {[FIELD_TEXT] = "5", [FIELD_AUDIO] = "1"}},
         "a\tb\n",
         "1: there is no column 5 (--text-field): the line has 2"},
        {{.path = "l.tsv", .names = {[FIELD_TEXT] = "2"}}, "a\tb\n", "1: the list has no header: give the numbers"},
        {{.path = "l.tsv"},
         "audio\ttext\tstart\na\tb\tMonday\n",
         "2: the start is Monday, expected seconds; --start-field none"},
        {{.path = "l.tsv"},
         "audio\ttext\tstart\tend\na\tb\t3\t2\n",
         "2: the recording begins at 3 s of its file and ends at 2 s"},
        {{.path = "l.jsonl"},
         "{\"audio\": \"a\", \"text\": \"b\", \"offset\": [1]}\n",
         "1: offset is neither a string nor a number"},
        {{.path = "l.tsv"}, "PAR1\x15\x04", "1: the file is a Parquet table, which may hold the sound as well"},
        {{.path = "l.tsv"}, "version https://git-lfs.github.com/spec/v1\n", "1: the file is a pointer of Git LFS"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Recordings all;
        Error error = {""};
        assert_false(recordings_parse(cases[i].list, strlen(cases[i].list), &cases[i].source, &all, &error));
        if (strncmp(error.text, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("case %zu: found '%s', expected '%s'", i, error.text, cases[i].message);
    }
    Recordings all =
        parse_recordings((RecordingsSource){.path = "l.csv", .names = {[FIELD_TEXT] = "2"}}, "a|hello\nb|hello\n");
    assert_string_equal(all.doubt, "the text, field 2, is the same in all 2 lines: \"hello\"");
    recordings_close(&all);
    all = parse_recordings((RecordingsSource){.path = "l.csv"}, "a|\"one\"\nb|\"two\"\"\"\nc|three\n");
    assert_int_equal(all.quoted, 2);
    recordings_close(&all);
}

/* ---- folders ---- */

static void write_in(const char *folder, const char *name, const char *text) {
    char *path = kept_path(folder, name), *parent = keep(path_directory(path));
    make_directories(parent);
    write_text(path, "%s", text);
}

static Recordings read_folder(const char *folder) {
    Recordings all;
    if (!recordings_read(&(RecordingsSource){.path = folder}, &all, &error)) fail_msg("%s", error.text);
    return all;
}

TEST(a_folder_of_kaldi_is_read) {
    char *folder = kept_path(corpus_root, "data/kaldi");
    write_in(folder, "wav.scp", "r1 wav/x.wav\nr2 wav/y.wav\n");
    write_in(folder, "text", "a ሰላም ለዓለም\nb two\nz lone\n");
    write_in(corpus_root, "wav/x.wav", "");
    write_in(folder, "segments", "a r1 0.5 2\r\nb r2 1 -1\nc r1 2 3.25\n");
    write_in(folder, "utt2spk", "a s1\nb s2\nc s1\n");
    Recordings all = read_folder(folder);
    assert_int_equal(all.format, RECORDINGS_KALDI);
    assert_int_equal(all.count, 3);
    check_recording(&all, 0, "a", "s1", "../../wav/x.wav", "ሰላም ለዓለም"); /* a path of the folder where Kaldi runs */
    assert_true(all.items[0].from == 0.5 && all.items[0].to == 2);
    check_recording(&all, 1, "b", "s2", "wav/y.wav", "two");
    assert_true(isinf(all.items[1].to));
    check_recording(&all, 2, "c", "s1", "../../wav/x.wav", "");
    assert_int_equal(all.lone_texts, 1);
    assert_string_equal(all.first_lone_text, "z");
    recordings_close(&all);
    write_in(folder, "wav.scp", "r1 sph2pipe -f wav x.sph |\nr2 y.wav\n");
    assert_false(recordings_read(&(RecordingsSource){.path = folder}, &all, &error));
    assert_contains(error.text, "segments:1: wav.scp has a command (sph2pipe -f wav x.sph |)");
    assert_contains(error.text, "; --skip-bad leaves such lines out, and counts them");
    if (!recordings_read(&(RecordingsSource){.path = folder, .skip_bad = true}, &all, &error))
        fail_msg("%s", error.text);
    assert_int_equal(all.count, 1);
    check_recording(&all, 0, "b", "s2", "y.wav", "two");
    assert_int_equal(all.bad, 2);
    assert_contains(all.first_bad, "segments:1: wav.scp has a command");
    recordings_close(&all);
    write_in(folder, "wav.scp", "r1 a |\nr2 b |\n");
    assert_false(recordings_read(&(RecordingsSource){.path = folder, .skip_bad = true}, &all, &error));
    assert_contains(error.text, "segments: holds no recordings: none of its lines can be used, the first: ");
}

TEST(files_of_kaldi_and_librispeech_are_called_what_they_are) {
    char *kaldi = kept_path(corpus_root, "one_of_kaldi"), *libri = kept_path(corpus_root, "librispeech");
    static const char *const files[] = {"wav.scp", "text", "segments", "utt2spk"};
    Recordings all;
    for (int i = 0; i < 4; i++) write_in(kaldi, files[i], "a b\n");
    for (int i = 0; i < 4; i++) {
        char *path = kept_path(kaldi, files[i]);
        assert_false(recordings_read(&(RecordingsSource){.path = path}, &all, &error));
        assert_contains(error.text, ": is one of the files of a folder of Kaldi: give the folder");
    }
    write_in(libri, "84/12/84-12-0000.flac", "");
    write_in(libri, "84/12/84-12.trans.txt", "84-12-0000 GO DO YOU HEAR\n");
    assert_false(recordings_read(&(RecordingsSource){.path = libri}, &all, &error));
    assert_contains(error.text,
                    ": 84/12/84-12.trans.txt has the texts of several sounds, as in LibriSpeech: make a list");
}

TEST(texts_of_libritts_and_labels_are_read) {
    char *folder = kept_path(corpus_root, "libri");
    write_in(folder, "clean/84/12/84_12_1.wav", "");
    write_in(folder, "clean/84/12/84_12_1.normalized.txt", "mister one");
    write_in(folder, "clean/84/12/84_12_1.original.txt", "Mr. One");
    write_in(folder, "clean/85/x.wav", "");
    write_in(folder, "clean/85/x.lab", "two\n");
    Recordings all = read_folder(folder);
    assert_int_equal(all.count, 2);
    check_recording(&all, 0, "clean_84_12_84_12_1", "84", "clean/84/12/84_12_1.wav", "mister one");
    check_recording(&all, 1, "clean_85_x", "clean", "clean/85/x.wav", "two ");
    assert_int_equal(all.lone_texts, 1); /* the original */
    recordings_close(&all);
    write_in(folder, "clean/85/x.lab", "0 2050000 sil\n2050000 3000000 a\n");
    assert_false(recordings_read(&(RecordingsSource){.path = folder}, &all, &error));
    assert_contains(error.text, "x.lab: holds times and phones of HTK");
}

/* ---- the program ---- */

enum { PARTS = 4, PART = 36000 /* 1.5 s */ };

/* Writes long.wav or .flac, the parts of it as files, and lists of both with the same ids. */
static void write_parts(void) {
    float *samples = make_babble(5, MEL_RATE, PARTS * PART);
    char *path = corpus_folder("long.flac");
    write_sound(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, MEL_RATE, 1, samples, PARTS * PART);
    static const char *const words[PARTS] = {"ሀ", "ለ", "መ", "ሰ"};
    char *cut = xstrdup("id\taudio\ttext\n"), *parts = xstrdup("id\taudio\ttext\toffset\tduration\n");
    for (int i = 0; i < PARTS; i++) {
        char *name = xformat("part%d.wav", i), *to = corpus_folder(name),
             *line = xformat("%sp%d\t%s\tዛሬ ጥሩ ቀን %s\n", cut, i, name, words[i]),
             *part = xformat("%sp%d\tlong.flac\tዛሬ ጥሩ ቀን %s\t%g\t1.5\n", parts, i, words[i], 1.5 * i);
        write_sound(to, SF_FORMAT_WAV | SF_FORMAT_PCM_16, MEL_RATE, 1, samples + i * PART, PART);
        free(cut), free(parts), free(name);
        cut = line, parts = part;
    }
    write_in(corpus_root, "cut.tsv", cut);
    write_in(corpus_root, "parts.tsv", parts);
    free(cut), free(parts), free(samples);
}

static const char *const few = "--num-workers 2 --codebook-size 8 --vocabulary 30 --min-chars-per-second 0";

static void must_prepare(const char *output, const char *list) {
    if (corpus_try_prepare(output, list, few)) fail_msg("%s", fixture.output);
}

TEST(parts_are_the_sounds_that_were_cut_out) {
    write_parts();
    must_prepare("cut", "cut.tsv");
    assert_null(strstr(fixture.output, "warning: 4"));
    must_prepare("parts", "parts.tsv");
    assert_contains(fixture.output, "[Audio] 4 clips read, 0 reused\n");
    assert_null(strstr(fixture.output, "same sound"));
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output,
                    "cd %s && for f in mel codes condition emo_vec text_ids; do diff -r cut/$f parts/$f || "
                    "exit; done; grep -c '\"offset\":4.5,\"duration\":1.5' parts/manifest.jsonl",
                    corpus_root),
        0);
    must_prepare("parts", "parts.tsv");
    assert_contains(fixture.output, "[Audio] 0 clips read, 4 reused\n");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && sed -i 's/\\t3\\t1.5$/\\t2.9\\t1.5/' parts.tsv", corpus_root),
                     0);
    must_prepare("parts", "parts.tsv");
    assert_contains(fixture.output, "[Audio] 1 clips read, 3 reused\n");
}

TEST(durations_and_equal_sounds_are_told) {
    write_parts();
    write_in(corpus_root, "told.jsonl",
             "{\"audio\": \"part0.wav\", \"text\": \"ዛሬ ጥሩ ቀን\", \"duration\": 1.1}\n"
             "{\"audio\": \"part1.wav\", \"text\": \"ዛሬ ጥሩ\", \"duration\": 1.5}\n"
             "{\"audio\": \"audio/../part1.wav\", \"text\": \"ጥሩ ቀን\", \"duration\": 1.5}\n");
    must_prepare("told", "told.jsonl");
    assert_contains(fixture.output,
                    "warning: the durations of 1 recording are not those that the list says: the first, ");
    assert_contains(fixture.output, "told.jsonl:1, should last 1.1 s and lasts 1.50 s;");
    assert_contains(fixture.output,
                    "warning: 1 recording has the same sound as one before, 1 of them with another text");
    write_in(corpus_root, "beyond.jsonl",
             "{\"audio\": \"long.flac\", \"text\": \"ዛሬ ጥሩ\", \"start\": 5, \"end\": 7}\n"
             "{\"audio\": \"long.flac\", \"text\": \"ዛሬ ቀን\", \"start\": 70, \"end\": 72}\n"
             "{\"audio\": \"part1.wav\", \"text\": \"ጥሩ ቀን\", \"start\": 70, \"end\": 71.5}\n");
    assert_int_equal(corpus_try_prepare("beyond", "beyond.jsonl", few), 1);
    assert_contains(fixture.output, "long.flac: has only 6.00 s, but the recording ends at 7.00 s\n");
    assert_contains(fixture.output, "long.flac: has only 6.00 s, but the recording begins at 70.00 s\n");
    assert_contains(fixture.output, "the audio of 2 of 3 recordings is bad"); /* part1.wav is the part already */
}

TEST(fields_of_other_names_cut_as_well) {
    write_parts();
    write_in(corpus_root, "ends.jsonl",
             "{\"audio\": \"part0.wav\", \"text\": \"ዛሬ ጥሩ ቀን\", \"from\": 0.1, \"to\": 1.3, \"stay\": 1}\n"
             "{\"audio\": \"part1.wav\", \"text\": \"ዛሬ ጥሩ\", \"from\": 0.2, \"to\": 1.4, \"stay\": 1}\n");
    static const char *const lasts[][2] = {{"--end-field to", "\"duration\":1.2"},
                                           {"--duration-field stay", "\"duration\":1.0"}};
    for (int i = 0; i < 2; i++) {
        char *more = kept_format("%s --start-field from %s", few, lasts[i][0]);
        if (corpus_try_prepare("ends", "ends.jsonl", more)) fail_msg("%s", fixture.output);
        char *path = corpus_path("ends", "manifest.jsonl"), *manifest = kept_text(path);
        assert_contains(manifest, lasts[i][1]);
    }
}

TEST(many_parts_of_an_mp3_are_warned_of) {
    for (int parts = 100; parts <= 200; parts += 100) { /* behind 4 and 22 hours */
        FILE *out = fopen(corpus_folder("talk.tsv"), "w");
        assert_non_null(out);
        fprintf(out, "audio\ttext\tstart\tduration\n");
        for (int i = 0; i < parts; i++) fprintf(out, "talk.MP3\tone\t%d\t2\n", 3 * i + (parts > 100) * 100);
        for (int i = 0; i < parts; i++) fprintf(out, "talk.wav\ttwo\t%d\t2\n", 1000 * i);
        assert_int_equal(fclose(out), 0);
        assert_int_equal(corpus_try_prepare("talk", "talk.tsv", few), 1);
        assert_int_equal(strstr(fixture.output, "200 recordings are parts of MP3 files (the first: talk.MP3), each of "
                                                "which is decoded from its beginning for each part: ") != NULL,
                         parts == 200);
    }
}

TEST(sounds_in_a_folder_beside_the_list_are_found) {
    write_parts();
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && mkdir -p coqui/wavs && cp part*.wav coqui/wavs && "
                                 "{ echo 'audio_file|text|speaker_name'; for i in 0 1 2 3; do "
                                 "echo \"part$i.wav|\\\"ዛሬ ጥሩ ቀን $i\\\"|anna\"; done; } >coqui/metadata.csv",
                                 corpus_root),
                     0);
    must_prepare("from_coqui", "coqui");
    assert_contains(fixture.output,
                    "table between bars with a header, 4 recordings, 0 without audio, 0 without text; 4 "
                    "audio files were found as wavs/FILE; ids are");
    assert_contains(fixture.output, "metadata.csv: 4 of 4 texts are in quotes, which are taken as a part of the text;");
}

/* Reads paths as Windows writes them. */
TEST(sounds_behind_backslashes_are_found) {
    write_parts();
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "cd %s && mkdir -p sub && cp part*.wav sub && "
                                 "sed 's/part/sub\\\\part/' cut.tsv >back.tsv && cat back.tsv",
                                 corpus_root),
                     0);
    assert_contains(fixture.output, "\tsub\\part0.wav\t");
    must_prepare("from_windows", "back.tsv");
    assert_contains(fixture.output, "0 without audio, 0 without text; 4 audio files were found as FILE, with / for \\");
}

int main(void) { return tests_run(corpus_open, NULL); }
