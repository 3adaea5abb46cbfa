/* The formats that recordings are read from: LJSpeech, Common Voice, tables and JSON with any names, folders. Each is
 * recognised, gives the same clips, and is read again when it has grown; what is wrong with one is reported. */
#include <sys/stat.h>
#include <unistd.h>

#include "data/formats/text_source.h"
#include "data/tts/recordings_read.h"
#include "tests/tts/corpus.h"

/* ---- lists in memory ---- */

/* Parses a list of some name, which must succeed. */
static Recordings parse(const char *path, const char *text) {
    Recordings all;
    Error error;
    if (!recordings_parse(text, strlen(text), &(RecordingsSource){.path = path}, &all, &error))
        fail_msg("%s", error.text);
    return all;
}

static void check(const Recordings *all, int64_t i, const char *id, const char *speaker, const char *audio,
                  const char *text) {
    assert_true(i < all->count);
    const Recording *r = &all->items[i];
    assert_string_equal(r->id, id);
    assert_string_equal(r->speaker, speaker);
    assert_string_equal(r->audio, audio);
    assert_string_equal(r->text, text);
}

/* As the data set has them: no header, single quotes of both kinds, texts with tabs or commas. */
static void ljspeech_is_read_as_it_stands(void **state) {
    (void)state;
    Recordings all =
        parse("metadata.csv", "\xEF\xBB\xBFLJ001-0001|Printing, in 1455|Printing, in fourteen fifty-five\r\n"
                              "LJ001-0002|\"This is how, he said|\"This is how, he said\r\n\r\n"
                              "LJ001-0003|a \"quote\"|\n"
                              "LJ001-0004.wav|two fields");
    assert_int_equal(all.format, RECORDINGS_LJSPEECH);
    assert_int_equal(all.count, 4);
    check(&all, 0, "LJ001-0001", "speaker", "wavs/LJ001-0001.wav", "Printing, in fourteen fifty-five");
    check(&all, 1, "LJ001-0002", "speaker", "wavs/LJ001-0002.wav", "\"This is how, he said");
    check(&all, 2, "LJ001-0003", "speaker", "wavs/LJ001-0003.wav", "a \"quote\""); /* nothing is normalised */
    check(&all, 3, "LJ001-0004.wav", "speaker", "wavs/LJ001-0004.wav", "two fields");
    assert_int_equal(all.items[2].line, 4);
    assert_true(all.has_ids && !all.has_speakers);
    recordings_close(&all);
}

/* The columns of release 17, and those of release 1, whose paths have no extension. */
static void common_voice_is_read_as_it_stands(void **state) {
    (void)state;
    Recordings all = parse("validated.tsv",
                           "client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tdown_votes\tage\t"
                           "gender\taccents\tvariant\tlocale\tsegment\r\n"
                           "3447120ac9\tcommon_voice_am_26130815.mp3\tff01\t\"ዛሬ ጥሩ\t\t2\t0\ttwenties\t\t\t\tam\t\r\n"
                           "77aa\tcommon_voice_am_2.mp3\tff02\t\"\"ቀን\"\" ነው\"\t\t2\t1\t\t\t\t\tam\t\r\n");
    assert_int_equal(all.format, RECORDINGS_COMMON_VOICE);
    assert_int_equal(all.count, 2);
    check(&all, 0, "common_voice_am_26130815", "3447120ac9", "clips/common_voice_am_26130815.mp3", "\"ዛሬ ጥሩ");
    check(&all, 1, "common_voice_am_2", "77aa", "clips/common_voice_am_2.mp3", "\"\"ቀን\"\" ነው\"");
    assert_string_equal(all.items[1].language, "am");
    assert_true(!all.has_ids && all.has_speakers);
    recordings_close(&all);
    all = parse("train.tsv", "path\tsentence\tclient_id\tup_votes\nabc\tone\ts1\t2\n");
    check(&all, 0, "abc", "s1", "clips/abc.mp3", "one");
    assert_null(all.items[0].language);
    recordings_close(&all);
}

static void columns_are_found_by_their_names(void **state) {
    (void)state;
    Recordings all = parse("list.tsv", "text\tseconds\taudio\nሰላም\t2.5\t../sub/a b.c.wav\n\t1\t/data/x/y.flac\n");
    assert_int_equal(all.format, RECORDINGS_TABLE);
    check(&all, 0, "sub_a b.c", "speaker", "../sub/a b.c.wav", "ሰላም");
    check(&all, 1, "y", "speaker", "/data/x/y.flac", "");
    recordings_close(&all);
    static const char table[] = "ID\tfile\twho\tsays\tlang\n7\tx.wav\tanna\tሰላም\tti\n";
    RecordingsSource source = {.path = "list.tsv", .names = {"ID", "who", "file", "says", "lang"}};
    Error error;
    assert_true(recordings_parse(table, strlen(table), &source, &all, &error));
    check(&all, 0, "7", "anna", "x.wav", "ሰላም");
    assert_string_equal(all.items[0].language, "ti");
    recordings_close(&all);
}

static void json_fields_are_found_by_their_names(void **state) {
    (void)state;
    static const char nemo[] = "{\"audio_filepath\": \"/d/a1.wav\", \"duration\": 2.5, \"text\": \"one\"}\n"
                               "{\"audio_filepath\": \"b/a2.wav\", \"text\": \"\", \"language\": \"ti\"}\n";
    RecordingsSource source = {.path = "manifest.json", .names = {[FIELD_AUDIO] = "audio_filepath"}};
    Recordings all;
    Error error;
    assert_true(recordings_parse(nemo, strlen(nemo), &source, &all, &error));
    assert_int_equal(all.format, RECORDINGS_JSONL);
    check(&all, 0, "a1", "speaker", "/d/a1.wav", "one");
    check(&all, 1, "b_a2", "speaker", "b/a2.wav", "");
    assert_string_equal(all.items[1].language, "ti");
    assert_true(!all.has_ids && !all.has_speakers);
    recordings_close(&all);
}

/* As data sets on the web have them; objects and the like are no names, so they are left alone unless asked for. */
static void json_names_may_be_numbers(void **state) {
    (void)state;
    Recordings all =
        parse("a.jsonl", "{\"id\": 0, \"audio\": \"a.wav\", \"text\": \"one\", \"speaker\": 3, \"language\": {}}\n"
                         "{\"id\": -12, \"audio\": \"b.wav\", \"text\": \"two\", \"speaker\": \"s\"}\n");
    check(&all, 0, "0", "3", "a.wav", "one");
    check(&all, 1, "-12", "s", "b.wav", "two");
    assert_null(all.items[0].language);
    assert_true(all.has_ids && all.has_speakers);
    recordings_close(&all);
    all = parse("a.jsonl", "{\"id\": [0], \"audio\": \"a.wav\", \"text\": \"one\", \"speaker\": true}\n");
    check(&all, 0, "a", "speaker", "a.wav", "one");
    assert_true(!all.has_ids && !all.has_speakers);
    recordings_close(&all);
}

/* --language then holds. */
static void an_empty_language_is_none(void **state) {
    (void)state;
    Recordings all = parse("l.tsv", "audio\ttext\tlanguage\na.wav\tone\t\nb.wav\ttwo\tti\n");
    assert_null(all.items[0].language);
    assert_string_equal(all.items[1].language, "ti");
    recordings_close(&all);
    static const char json[] = "{\"audio\": \"a.wav\", \"text\": \"\", \"lang\": \"\"}\n"
                               "{\"audio\": \"b.wav\", \"text\": \"\"}\n";
    RecordingsSource source = {.path = "l.jsonl", .names = {[FIELD_LANGUAGE] = "lang"}};
    Error error;
    assert_true(recordings_parse(json, strlen(json), &source, &all, &error));
    assert_null(all.items[0].language);
    recordings_close(&all);
}

/* A table with the columns of Common Voice, but audio elsewhere. */
static void a_table_is_common_voice_only_if_all_says_so(void **state) {
    (void)state;
    static const char table[] = "client_id\tpath\tsentence\ns1\t/a/c0.wav\tone\ns1\tb/c1\ttwo\ns1\tc2\tthree\n";
    Recordings all = parse("l.tsv", table);
    assert_int_equal(all.format, RECORDINGS_COMMON_VOICE);
    check(&all, 0, "c0", "s1", "/a/c0.wav", "one");
    check(&all, 1, "b_c1", "s1", "b/c1", "two");
    check(&all, 2, "c2", "s1", "clips/c2.mp3", "three");
    recordings_close(&all);
    RecordingsSource source = {.path = "l.tsv", .names = {[FIELD_AUDIO] = "path", [FIELD_TEXT] = "sentence"}};
    Error error;
    assert_true(recordings_parse(table, strlen(table), &source, &all, &error));
    assert_int_equal(all.format, RECORDINGS_TABLE);
    check(&all, 2, "c2", "speaker", "c2", "three");
    recordings_close(&all);
}

/* As Excel and pandas write them: the same recordings in each. */
static void tables_of_excel_and_arrays_are_lists(void **state) {
    (void)state;
    static const char *const lists[][2] = {
        {"l.csv", "audio,speaker,text\na.wav,s,\"one, two\"\nb.wav,s,\"three\nfour\"\n"},
        {"l.csv", "\r\n\n\naudio,speaker,text\na.wav,s,\"one, two\"\nb.wav,s,\"three\nfour\"\n"},
        {"l.csv", "\"sep=;\"\r\naudio;speaker;text\r\na.wav;s;one, two\r\nb.wav;s;\"three\nfour\"\r\n"},
        {"l.csv", "\xEF\xBB\xBFsep=;\r\naudio;speaker;text\r\na.wav;s;one, two\r\nb.wav;s;\"three\nfour\"\r\n"},
        {"l.csv.gz", "audio;speaker;text\na.wav;s;one, two\nb.wav;s;three four\n"},
        {"L.CSV", "audio;speaker;text\na.wav;s;one, two\nb.wav;s;three four\n"},
        {"l.json", "[{\"audio\": \"a.wav\", \"speaker\": \"s\", \"text\": \"one, two\", \"x\": NaN},\n"
                   "{\"audio\": \"b.wav\", \"speaker\": \"s\", \"text\": \"three four\", \"language\": NaN}]"},
        {"l.jsonl",
         "{\"audio\": \"a.wav\", \"speaker\": \"s\", \"text\": \"one, two\", \"score\": 99999999999999999999}\n"
         "{\"audio\": \"b.wav\", \"speaker\": \"s\", \"text\": \"three four\", \"y\": \"\\ud83d\"}\n"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        Recordings all = parse(lists[i][0], lists[i][1]);
        assert_int_equal(all.format, text_ending(lists[i][0], ".csv") ? RECORDINGS_TABLE : RECORDINGS_JSONL);
        assert_int_equal(all.count, 2);
        check(&all, 0, "a", "s", "a.wav", "one, two");
        check(&all, 1, "b", "s", "b.wav", "three four");
        assert_null(all.items[1].language);
        recordings_close(&all);
    }
    RecordingsSource source = {.path = "l.csv", .names = {[FIELD_AUDIO] = "file", [FIELD_TEXT] = "said"}};
    static const char named[] = "said,file\none,a.wav\n";
    Recordings all;
    Error error;
    if (!recordings_parse(named, strlen(named), &source, &all, &error)) fail_msg("%s", error.text);
    check(&all, 0, "a", "speaker", "a.wav", "one");
    recordings_close(&all);
}

static void bad_lines_are_left_out_if_they_may(void **state) {
    (void)state;
    static const char *const lists[][3] = {
        {"l.jsonl",
         "{\"audio\": \"a.wav\", \"text\": \"one\"}\n{\"audio\": \"x.wav\", \"text\": \"\\ud83d\"}\n"
         "{\"audio\": \"b.wav\", \"text\": \"two\"}\n",
         "2:28: invalid JSON: \"text\": "},
        {"l.jsonl", "{\"audio\": \"a.wav\", \"text\": \"one\"}\nnull\n{\"audio\": \"b.wav\", \"text\": \"two\"}\n",
         "2: expected a JSON object"},
        {"l.tsv", "audio\ttext\na.wav\tone\nx.wav\nb.wav\ttwo\n", "3: has 1 tab-separated field"},
        {"l.csv", "audio,text\na.wav,one\nx.wav,a \"b\" c\nb.wav,two\n", "3:9: a quote inside a field"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        RecordingsSource source = {.path = lists[i][0]};
        Recordings all;
        Error error = {""};
        assert_false(recordings_parse(lists[i][1], strlen(lists[i][1]), &source, &all, &error));
        assert_contains(error.text, lists[i][2]);
        assert_contains(error.text, "; --skip-bad leaves such lines out, and counts them");
        source.skip_bad = true;
        if (!recordings_parse(lists[i][1], strlen(lists[i][1]), &source, &all, &error)) fail_msg("%s", error.text);
        assert_int_equal(all.count, 2);
        check(&all, 0, "a", "speaker", "a.wav", "one");
        check(&all, 1, "b", "speaker", "b.wav", "two");
        assert_int_equal(all.bad, 1);
        assert_contains(all.first_bad, lists[i][2]);
        recordings_close(&all);
    }
}

static void a_speaker_has_one_spelling(void **state) {
    (void)state;
    const char *path = keep_text(path_join(run_directory(), "speakers.jsonl"));
    write_text(path, "{\"audio\": \"a.wav\", \"text\": \"\", \"speaker\": \"Lo\u0300\"}\n"
                     "{\"audio\": \"b.wav\", \"text\": \"\", \"speaker\": \"L\u00f2 \"}\n"
                     "{\"audio\": \"c.wav\", \"text\": \"\", \"speaker\": \"x\"}\n");
    Recordings all;
    Error error;
    if (!recordings_read(&(RecordingsSource){.path = path}, &all, &error)) fail_msg("%s", error.text);
    assert_string_equal(all.items[0].speaker, "Lo\u0300"); /* as it is written first */
    assert_string_equal(all.items[1].speaker, "Lo\u0300");
    assert_string_equal(all.items[2].speaker, "x");
    assert_int_equal(all.speakers_changed, 1);
    recordings_close(&all);
}

static void bad_lists_are_refused(void **state) {
    (void)state;
    static const struct {
        RecordingsSource source;
        const char *list, *message;
    } cases[] = {
        {{.path = "m.csv"},
         "a,b,c\n",
         "1: the format is not known; expected JSON objects, fields between tabs, or ID|TEXT"},
        {{.path = "m.csv"},
         "a|b|c\nb|c\n\nc|d|e|f\n",
         "4: has 4 fields between bars, expected 3: id|text|normalized text"},
        {{.path = "m.csv"}, "a|b\nno bar\n", "2: has 1 field between bars, expected 3"},
        {{.path = "m.csv"}, "a|b\n../b|c\n", "2: the id ../b begins with a dot, but files are named after it"},
        {{.path = "m.csv"}, "a|b\na|c\n", "2: the id a is also that of line 1"},
        {{.path = "m.csv"}, "a|b\nb|\xff\n", "2: byte 3 is not UTF-8"},
        {{.path = "m.csv", .names = {[FIELD_TEXT] = "x"}},
         "a|b\n",
         "1: fields were named by options, but have no names in this format: metadata of LJSpeech"},
        {{.path = "v.tsv"},
         "path\tsentence\nx.mp3\ta\n",
         "1: the header has no column audio (--audio-field): path\tsentence"},
        {{.path = "v.tsv", .format = RECORDINGS_COMMON_VOICE},
         "path\tsentence\nx.mp3\ta\tb\n",
         "2: has 3 tab-separated fields, but the header has 2"},
        {{.path = "v.tsv", .format = RECORDINGS_COMMON_VOICE},
         "path\tsentence\nx.mp3\n",
         "2: has 1 tab-separated field, but the header has 2"},
        {{.path = "v.tsv", .format = RECORDINGS_COMMON_VOICE}, "path\tsentence\n\ta\n", "2: has no audio file"},
        {{.path = "v.tsv"}, "path\tsentence\tclient_id\nx.mp3\ta\t\n", "2: x has no speaker"},
        {{.path = "v.tsv", .format = RECORDINGS_COMMON_VOICE},
         "path\tsentence\nx.mp3\ta\nx.mp3\tb\n",
         "3: the id x is also that of line 2; ids are the names of the audio files, unless --id-field gives others"},
        {{.path = "v.tsv", .names = {[FIELD_SPEAKER] = "user"}},
         "path\tsentence\nx.mp3\ta\n",
         "1: the header has no column user (--speaker-field): path\tsentence"},
        {{.path = "v.tsv", .names = {[FIELD_AUDIO] = "file"}},
         "id\ttext\n",
         "1: the header has no column file (--audio-field)"},
        {{.path = "v.tsv"}, "audio\ttext\ttext\n", "1: the header has two columns text"},
        {{.path = "v.tsv", .format = RECORDINGS_TABLE},
         "a\tb\tc\td\n",
         "1: the header has no column audio (--audio-field): a\tb"},
        {{.path = "v.jsonl"},
         "{\"audio\": \"a.wav\", \"text\": \"\"}\n{\"audio\": \"b.wav\", \"text\": \"\", \"id\": \"b\"}\n",
         "2: has id, which the first line has not"},
        {{.path = "v.jsonl"},
         "{\"audio\": \"a\", \"text\": \"\", \"speaker\": \"s\"}\n{\"audio\": \"b\", \"text\": \"\"}\n",
         "2: speaker is missing (--speaker-field); the fields of the line are audio, text"},
        {{.path = "v.jsonl", .names = {[FIELD_ID] = "key"}},
         "{\"audio\": \"a\", \"text\": \"\", \"id\": \"s\"}\n",
         "1: key is missing (--id-field); the fields of the line are audio, text, id"},
        {{.path = "v.jsonl", .names = {[FIELD_TEXT] = "t"}}, "{\"audio\": \"a\", \"t\": 3}\n", "1: t is not a string"},
        {{.path = "v.jsonl"}, "{\"audio\": 7, \"text\": \"\"}\n", "1: audio is not a string"},
        {{.path = "v.jsonl", .names = {[FIELD_SPEAKER] = "who"}},
         "{\"audio\": \"a\", \"text\": \"\", \"who\": [1]}\n",
         "1: who is neither a string nor an integer"},
        {{.path = "v.jsonl"},
         "{\"audio\": \"a\", \"text\": \"\", \"id\": 1}\n{\"audio\": \"b\", \"text\": \"\", \"id\": 1.5}\n",
         "2: id is neither a string nor an integer"},
        {{.path = "v.jsonl", .names = {[FIELD_LANGUAGE] = "lang"}},
         "{\"audio\": \"a\", \"text\": \"\", \"lang\": {}}\n",
         "1: lang is neither a string nor an integer"},
        {{.path = "v.jsonl", .names = {[FIELD_LANGUAGE] = "lang"}},
         "{\"audio\": \"a\", \"text\": \"\"}\n{\"audio\": \"b\", \"text\": \"\", \"language\": \"am\"}\n",
         "2: neither this line nor one before it has lang (--language-field)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Recordings all;
        Error error = {""};
        assert_false(recordings_parse(cases[i].list, strlen(cases[i].list), &cases[i].source, &all, &error));
        if (strncmp(error.text, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("case %zu: found '%s', expected '%s'", i, error.text, cases[i].message);
        assert_true(!all.count && !all.items);
    }
}

/* ---- folders ---- */

/* Makes folder NAME below corpus_root with these files; a text of NULL stands for an empty file. free() */
static char *make_folder(const char *name, const char *const (*files)[2], int n) {
    char *folder = path_join(corpus_root, name);
    for (int i = 0; i < n; i++) {
        char *path = path_join(folder, files[i][0]), *parent = path_directory(path);
        make_directories(parent);
        write_text(path, "%s", files[i][1] ? files[i][1] : "");
        free(path);
        free(parent);
    }
    return folder;
}

static void a_folder_is_read_with_its_texts(void **state) {
    (void)state;
    static const char *const files[][2] = {{"b/x-1.wav"},
                                           {"b/x-1.txt", "\xEF\xBB\xBFone\r\ntwo\t3\r\n"},
                                           {"b/x.FLAC"},
                                           {"b/x.TXT", "ሰላም"},
                                           {"a/c/x.m4a"},
                                           {"a/c/x.mp3"},
                                           {"a/c/x.txt", "three"},
                                           {"top.ogg"},
                                           {"README.txt", "hi"},
                                           {"b/notes.txt", "hi"},
                                           {"b/x.lab"},
                                           {".x/y.wav"},
                                           {"b/._x.wav"},
                                           {"b/y.SPH"},
                                           {"b/y.txt", "four"},
                                           {"b/z.wave"}};
    char *folder = make_folder("read", files, sizeof files / sizeof *files);
    Recordings all;
    Error error;
    if (!recordings_read(&(RecordingsSource){.path = folder}, &all, &error)) fail_msg("%s", error.text);
    assert_int_equal(all.format, RECORDINGS_FOLDER);
    assert_int_equal(all.count, 6);
    check(&all, 0, "a_c_x", "a", "a/c/x.mp3", "three"); /* x.m4a is what x.mp3 was made from */
    check(&all, 1, "b_x", "b", "b/x.FLAC", "ሰላም");
    check(&all, 2, "b_x-1", "b", "b/x-1.wav", "one  two 3  ");
    check(&all, 3, "b_y", "b", "b/y.SPH", "four");
    check(&all, 4, "b_z", "b", "b/z.wave", "");
    check(&all, 5, "top", "speaker", "top.ogg", "");
    assert_int_equal(all.lone_texts, 2);
    assert_string_equal(all.first_lone_text, "README.txt");
    assert_int_equal(all.other_files, 3); /* x.m4a, x.lab, ._x.wav */
    assert_string_equal(all.first_other_file, "a/c/x.m4a");
    assert_true(!all.has_ids && all.has_speakers);
    recordings_close(&all);
    free(folder);
}

/* A folder named clips is not Common Voice, unless lists lie beside it. */
static void a_folder_with_clips_is_read(void **state) {
    (void)state;
    static const char *const files[][2] = {{"clips/x.wav"}, {"clips/x.txt", "one"}};
    char *folder = make_folder("clipped", files, 2);
    Recordings all;
    Error error;
    if (!recordings_read(&(RecordingsSource){.path = folder}, &all, &error)) fail_msg("%s", error.text);
    check(&all, 0, "clips_x", "clips", "clips/x.wav", "one");
    recordings_close(&all);
    free(folder);
}

static void expect_bad_folder(const char *name, const char *const (*files)[2], int n, const char *message) {
    char *folder = make_folder(name, files, n), *expected = xformat("%s%s", folder, message);
    Recordings all;
    Error error = {""};
    assert_false(recordings_read(&(RecordingsSource){.path = folder}, &all, &error));
    assert_string_equal(error.text, expected);
    free(expected);
    free(folder);
}

static void subtitles_are_named_with_what_to_do(void **state) {
    (void)state;
    static const char *const files[][2] = {{"x.wav"},        {"x.txt", "one"},      {"y.wav"},
                                           {"y.SRT", "1\n"}, {"a.vtt", "WEBVTT\n"}, {"y.json", "{}"}};
    static const char *const alone[][2] = {{"long.wav"}, {"long.srt", "1\n"}};
    char *folder = make_folder("subtitles", files, sizeof files / sizeof *files);
    Recordings all;
    Error error;
    if (!recordings_read(&(RecordingsSource){.path = folder}, &all, &error)) fail_msg("%s", error.text);
    assert_int_equal(all.count, 2);
    assert_int_equal(all.other_files, 3);
    assert_int_equal(all.subtitles, 2);
    assert_string_equal(all.first_subtitles, "a.vtt");
    recordings_close(&all);
    free(folder);
    expect_bad_folder(
        "cut", alone, 2,
        ": none of its 1 audio files has a text: expected NAME.txt beside NAME.wav; 1 file with subtitles "
        "(the first: long.srt) is not read: make a list of their texts, with the columns audio, start, "
        "end and text, and give it with --input");
}

static void bad_folders_are_refused(void **state) {
    (void)state;
    static const char *const twins[][2] = {{"x.wav"}, {"x.flac"}, {"x.txt", "one"}};
    static const char *const texts[][2] = {{"x.wav"}, {"x.TXT", "one"}, {"x.txt", "one"}};
    static const char *const ids[][2] = {{"a/b.wav"}, {"a/b.txt", "one"}, {"a_b.wav"}};
    static const char *const mute[][2] = {{"x.wav"}, {"y.wav"}, {"z.txt", "one"}};
    static const char *const coded[][2] = {{"x.wav"}, {"x.txt", "a\xff"}};
    static const char *const silent[][2] = {{"z.txt", "one"}};
    static const char *const table[][2] = {
        {"x.wav"}, {"x.txt", "one"}, {"metadata.csv", "fichier,phrase\nx.wav,one\n"}};
    static const char *const voices[][2] = {{"clips/x.mp3"}, {"validated.tsv", "path\tsentence\nx.mp3\tone\n"}};
    expect_bad_folder("twins", twins, 3,
                      ": x.flac and x.wav have the same name, so that it is not clear which one counts: move one away");
    expect_bad_folder("texts", texts, 3,
                      ": x.TXT and x.txt have the same name, so that it is not clear which one counts: move one away");
    expect_bad_folder("ids", ids, 3, ": the id a_b is made of the names of both a/b.wav and a_b.wav: rename one");
    expect_bad_folder("mute", mute, 3, ": none of its 2 audio files has a text: expected NAME.txt beside NAME.wav");
    expect_bad_folder("coded", coded, 2,
                      "/x.txt: is not UTF-8; it may be Western text of Windows: convert it with iconv -f WINDOWS-1252 "
                      "-t UTF-8 FILE >NEW, and look at the result");
    expect_bad_folder("silent", silent, 1, ": holds no audio files");
    expect_bad_folder(
        "table", table, 3,
        "/metadata.csv:1: the format is not known; expected JSON objects, fields between tabs, or ID|TEXT "
        "as in LJSpeech; for the audio and .txt files of a folder, give it with --input-format folder");
    char *linked = make_folder("linked", mute, 3), *gone = path_join(linked, "c5.wav");
    if (!has_links()) print_message("SKIPPED: a link, on a disk without them\n");
    if (has_links()) {
        assert_int_equal(symlink("nowhere.wav", gone), 0);
        expect_bad_folder("linked", mute, 3, "/c5.wav: is a link to a file that does not exist");
    }
    free(linked);
    free(gone);
    char *folder = path_join(corpus_root, "voices"),
         *message = xformat(": a folder of Common Voice has several lists: name one, such as %s/validated.tsv; for the "
                            "folder's audio and .txt files, --input-format folder",
                            folder);
    expect_bad_folder("voices", voices, 2, message);
    free(message);
    message = xcalloc(70000, 1);
    const char *const long_text[][2] = {{"x.wav"}, {"x.txt", memset(message, 'a', 69999)}};
    expect_bad_folder("long", long_text, 2, "/x.txt: has 69999 bytes, more than the 65536 expected");
    free(message);
    free(folder);
}

/* ---- the program ---- */

/* Writes `lines` lines of list.tsv in the formats of other programs. Audio files are links: what a file is, its
 * contents say. */
static void write_sources(int lines) {
    int status = run_command(
        fixture.output, sizeof fixture.output,
        "cd %s && mkdir -p lj/wavs cv/clips files && head -n %d list.tsv >some.tsv && "
        "while IFS='\t' read -r id speaker audio text; do mkdir -p files/$speaker && "
        "for to in lj/wavs/$id.wav cv/clips/$id.mp3 files/$speaker/; do "
        "ln -sf ../../$audio $to 2>/dev/null || cp -p $audio $to; done && printf '%%s\\r\\n' \"$text\" "
        ">files/$speaker/$id.txt; done <some.tsv "
        "&& "
        "awk -F'\\t' '{print $1 \"|not this|\" $4}' some.tsv >lj/metadata.csv && "
        "awk -F'\\t' 'BEGIN {print \"client_id\\tpath\\tsentence\\tlocale\"} "
        "{print $2 \"\\t\" $1 \".mp3\\t\" $4 \"\\tam\"}' some.tsv >cv/train.tsv && "
        "awk -F'\\t' 'BEGIN {print \"who\\tsays\\tid\\tfile\"} {print $2 \"\\t\" $4 \"\\t\" $1 \"\\t\" $3}' some.tsv "
        ">table.tsv && "
        "awk -F'\\t' '{print \"{\\\"key\\\": \\\"\" $1 \"\\\", \\\"who\\\": \\\"\" $2 \"\\\", \\\"file\\\": \\\"\" $3 "
        "\"\\\", \\\"says\\\": \\\"\" $4 \"\\\"}\"}' some.tsv >names.jsonl",
        corpus_root, lines);
    if (status) fail_msg("%s", fixture.output);
}

static const struct {
    const char *output, *input, *options, *told;
} sources[] = {
    {"from_cv", "cv/train.tsv", "",
     "cv/train.tsv: table of Common Voice, 22 recordings, 0 without audio, 1 without text; ids are the names of the "
     "audio files\n"},
    {"from_table", "table.tsv", "--speaker-field who --text-field says --audio-field file",
     "table.tsv: tab-separated table with a header, 22 recordings, 0 without audio, 1 without text\n"},
    {"from_json", "names.jsonl", "--id-field key --speaker-field who --text-field says --audio-field file",
     "names.jsonl: JSON lines, 22 recordings, 0 without audio, 1 without text\n"},
    {"from_lj", "lj", "",
     "lj/metadata.csv: metadata of LJSpeech, 22 recordings, 0 without audio, 1 without text; one speaker\n"},
    {"from_files", "files", "",
     "files: folder of audio and .txt files, 22 recordings, 0 without audio, 1 without text; ids are the names of the "
     "audio files; speakers are the names of the folders\n"}};
enum { SOURCES = sizeof sources / sizeof *sources, SAME_FILES = 3 };

static void prepare_source(int i, const char *more) {
    char *options = xformat("--num-workers 2 %s %s", sources[i].options, more);
    if (corpus_try_prepare(sources[i].output, sources[i].input, options)) fail_msg("%s", fixture.output);
    free(options);
}

/* Compares all files with those of the reference, but for the paths of the audio, which lead through links here. */
static void assert_same_clips(const char *output) {
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s && rm -rf seen wanted && cp -r %s seen && cp -r reference wanted && "
                             "sed -i 's/\"[a-z_]*audio_path\":\"[^\"]*\",*//g' seen/*.jsonl wanted/*.jsonl",
                             corpus_root, output);
    if (status) fail_msg("%s", fixture.output);
    corpus_assert_same("seen", "wanted");
}

/* Lists with the same ids and speakers give the same bytes; with one speaker, the same codes. */
static void every_format_gives_the_same_clips(void **state) {
    (void)state;
    corpus_reference(NULL);
    write_sources(22);
    for (int i = 0; i < SOURCES; i++) {
        prepare_source(i, "");
        assert_contains(fixture.output, sources[i].told);
        assert_contains(fixture.output, "[Data] 16 of 22 clips");
        if (i < SAME_FILES) assert_same_clips(sources[i].output);
    }
    int status =
        run_command(fixture.output, sizeof fixture.output,
                    "cd %s && for f in codes text_ids condition bpe.model codebook.npy; do "
                    "diff -rq from_lj/$f reference/$f || exit; done && "
                    "grep -c '\"id\":\"spk001_spk001_000001\",.*\"speaker\":\"spk001\"' from_files/manifest.jsonl",
                    corpus_root);
    if (status) fail_msg("%s", fixture.output);
}

/* With a codebook and a tokenizer that stay, only new recordings are read and coded. */
static void every_format_is_read_again_when_it_has_grown(void **state) {
    (void)state;
    corpus_reference(NULL);
    char *more =
        xformat("--tokenizer %s/reference/bpe.model --codebook %s/reference/codebook.npy", corpus_root, corpus_root);
    for (int i = 0; i < SOURCES; i++) {
        run_command(fixture.output, sizeof fixture.output, "cd %s && rm -rf %s files lj cv", corpus_root,
                    sources[i].output);
        write_sources(10);
        prepare_source(i, more);
        assert_contains(fixture.output, "[Codes] 10 clips coded, 0 reused\n");
        write_sources(22);
        prepare_source(i, more);
        assert_contains(fixture.output, "[Audio] 10 clips read, 10 reused\n");
        assert_contains(fixture.output, "[Codes] 6 clips coded, 10 reused\n");
        if (i < SAME_FILES) assert_same_clips(sources[i].output);
    }
    free(more);
}

static void missing_audio_and_texts_are_counted(void **state) {
    (void)state;
    write_sources(22);
    run_command(fixture.output, sizeof fixture.output,
                "cd %s && rm lj/wavs/spk001_000004.wav files/spk001/spk001_000004.* files/spk002/spk002_000002.txt && "
                "echo lone >files/NOTES.txt && touch files/list.json && cp -r lj/metadata.csv all.csv",
                corpus_root);
    assert_int_equal(corpus_try_prepare("missing_lj", "lj/metadata.csv", "--num-workers 2"), 1);
    assert_contains(fixture.output,
                    "metadata of LJSpeech, 22 recordings, 1 without audio, 1 without text; one speaker\n");
    assert_contains(fixture.output, "lj/metadata.csv:4: ");
    assert_contains(fixture.output, "lj/wavs/spk001_000004.wav: cannot open: No such file or directory\n");
    if (corpus_try_prepare("missing_files", "files", "--num-workers 2")) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "21 recordings, 0 without audio, 2 without text, 1 text without audio (the first: "
                                    "NOTES.txt), 1 other file (the first: list.json); ids ");
    assert_contains(fixture.output, "[Filter] 2 rejected: without text\n");
    assert_contains(fixture.output, "[Data] 14 of 21 clips");
}

/* A file that begins as one of MPEG-4 does. */
static void write_m4a(const char *folder, const char *name) {
    char *path = path_join(folder, name), bytes[100] = "\0\0\0\x1c"
                                                       "ftypM4A ";
    write_bytes(path, bytes, sizeof bytes);
    free(path);
}

/* The commands are run with an ffmpeg that copies a WAV file. */
static void sound_to_convert_is_reported_with_the_command(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"phone/one 1.txt", "ዛሬ ጥሩ ቀን ነው"}, {"phone/it's.txt", "ዛሬ ጥሩ ቀን ነው"}, {"other.txt", "ዛሬ ጥሩ ቀን ነው"}};
    char *folder = make_folder("convert", files, 3);
    write_m4a(folder, "phone/one 1.m4a");
    write_m4a(folder, "phone/it's.m4a");
    write_m4a(folder, "other.3gp");
    assert_int_equal(corpus_try_prepare("converted", "convert", ""), 1);
    const char *reason = "is MPEG-4 (M4A, MP4, MOV, 3GP), which libsndfile does not read (Format not recognised.)";
    char *lines[] = {xformat("%s/phone/it's.m4a: %s; convert it: ffmpeg -i '%s/phone/it'\\''s.m4a' -ac 1 -ar 24000 "
                             "'%s/phone/it'\\''s.wav'\n",
                             folder, reason, folder, folder),
                     xformat("%s/other.3gp: %s; convert it: ffmpeg -i %s/other.3gp -ac 1 -ar 24000 %s/other.wav\n",
                             folder, reason, folder, folder),
                     xformat("2 files .m4a can be converted: find -L %s -name '*.m4a' -exec sh -c ", folder)};
    for (int i = 0; i < 3; i++) assert_contains(fixture.output, lines[i]);
    assert_null(strstr(fixture.output, "files .3gp"));
    assert_contains(fixture.output, "the audio of 3 of 3 recordings is bad");
    char *commands[] = {keep_text(xstrdup(strstr(fixture.output, "find "))),
                        keep_text(xstrdup(strstr(fixture.output, "ffmpeg -i ")))};
    char *tools = path_join(corpus_root, "tools"), *ffmpeg = path_join(tools, "ffmpeg");
    make_directories(tools);
    write_text(ffmpeg,
               "#!/bin/sh\n[ $# = 7 ] && [ \"$1$3$4$5$6\" = -i-ac1-ar24000 ] && [ -f \"$2\" ] || exit 1\n"
               "cp %s/audio/spk004_000016.wav \"$7\"\n",
               corpus_root);
    assert_int_equal(chmod(ffmpeg, 0755), 0);
    for (int i = 0; i < 2; i++) {
        commands[i][strcspn(commands[i], "\n")] = 0;
        int status = run_command(fixture.output, sizeof fixture.output, "PATH=%s:$PATH; %s", tools, commands[i]);
        if (status) fail_msg("%s: %s", commands[i], fixture.output);
    }
    if (corpus_try_prepare("converted", "convert", "--codebook-size 16 --vocabulary 40 --min-chars-per-second 1"))
        fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "[Data] 3 of 3 clips");
    assert_contains(fixture.output, "0 without text, 3 other files (the first: other.3gp); ids are");
    for (int i = 0; i < 3; i++) free(lines[i]);
    free(tools);
    free(ffmpeg);
    free(folder);
}

/* In a list the files are named by the list; where others of the extension are read, there is no command for all. */
static void conversions_in_a_list_leave_good_files_alone(void **state) {
    (void)state;
    write_m4a(corpus_root, "x.wav");
    write_m4a(corpus_root, "y.wav");
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s && cp audio/spk001_000001.wav w.wav && { cat list.tsv; printf 'w\\ts\\tw.wav\\tone "
                             "two\\nx\\ts\\tx.wav\\tone two\\ny\\ts\\ty.wav\\tone "
                             "two\\n'; } >some.tsv",
                             corpus_root);
    assert_int_equal(status, 0);
    assert_int_equal(corpus_try_prepare("listed", "some.tsv", "--num-workers 2"), 1);
    assert_contains(fixture.output, "some.tsv:24: ");
    assert_contains(fixture.output, "/x.flac\n");
    assert_contains(fixture.output, "2 files .wav can be converted, see above; then name the converted files in ");
    assert_null(strstr(fixture.output, "find "));
}

/* What else lies below the folder that two folders share has nothing to do with the list. */
static void conversions_in_a_list_are_folder_by_folder(void **state) {
    (void)state;
    static const char *const folders[][2] = {{"far/a/note"}, {"far/b/c/note"}};
    char *far = make_folder("", folders, 2);
    const char *names[] = {"far/a/1.m4a", "far/a/2.m4a", "far/b/c/1.m4a", "far/b/c/2.m4a", "far/b/3.m4a"};
    for (int i = 0; i < 5; i++) write_m4a(corpus_root, names[i]);
    int status = run_command(fixture.output, sizeof fixture.output,
                             "cd %s && for f in far/*/*.m4a far/b/c/*.m4a; do printf '%%s\\ts\\t%s/%%s\\tone two\\n' "
                             "$(echo $f | tr / _) $f; done >far.tsv",
                             corpus_root, corpus_root);
    assert_int_equal(status, 0);
    assert_int_equal(corpus_try_prepare("far_out", "far.tsv", ""), 1);
    const char *inside[] = {"far/a", "far/b/c"};
    for (int i = 0; i < 2; i++) {
        char *loop = xformat("2 files .m4a can be converted: find -L %s/%s -maxdepth 1 -name '*.m4a' -exec ",
                             corpus_root, inside[i]);
        assert_contains(fixture.output, loop);
        free(loop);
    }
    assert_null(strstr(strstr(strstr(fixture.output, "find ") + 1, "find ") + 1, "find "));
    free(far);
}

/* Where no command converts all, none of the commands of single files is left out. */
static void every_file_without_a_common_command_has_its_own(void **state) {
    (void)state;
    char *name = NULL;
    for (int i = 0; i < 23; i++) {
        free(name);
        name = xformat("z%d.wav", i);
        write_m4a(corpus_root, name);
    }
    free(name);
    int status =
        run_command(fixture.output, sizeof fixture.output,
                    "cd %s && cp audio/spk001_000001.wav w.wav && { printf 'w\\ts\\tw.wav\\tone two\\n'; for i in "
                    "$(seq 0 22); do printf 'z%%s\\ts\\tz%%s.wav\\tone two\\n' "
                    "$i $i; done; for i in 1 2; do printf 'n%%s\\ts\\tlist.tsv\\tone two\\n' $i; done; } >many.tsv",
                    corpus_root);
    assert_int_equal(status, 0);
    assert_int_equal(corpus_try_prepare("many", "many.tsv", "--num-workers 2"), 1);
    int commands = 0;
    for (const char *at = fixture.output; (at = strstr(at, "ffmpeg -i ")); at++) commands++;
    assert_int_equal(commands, 23);
    assert_contains(fixture.output, "23 files .wav can be converted, see above; then");
    assert_contains(fixture.output, "... and 2 more\n");
}

static void what_is_not_a_list_is_refused(void **state) {
    (void)state;
    write_sources(22);
    static const struct {
        const char *input, *options, *message;
    } cases[] = {
        {"list.tsv", "--input-format folder", "list.tsv: is not a folder"},
        {"audio", "--input-format jsonl", "audio: is a folder, not a regular file; expected a file for JSON lines"},
        {"audio", "", "audio: none of its 22 audio files has a text: expected NAME.txt beside NAME.wav"},
        {"files", "--text-field x", "files: fields were named by options, but a folder has none"},
        {"list.tsv", "--input-format ljspeech", "list.tsv:1: has 1 field between bars"},
        {"list.tsv", "--input-format jsonl", "list.tsv:1:1: invalid JSON: "},
        {"list.tsv", "--text-field x", "list.tsv:1: the header has no column audio (--audio-field): "},
        {"nowhere", "", "nowhere: No such file"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(corpus_try_prepare("refused", cases[i].input, cases[i].options), 1);
        assert_contains(fixture.output, cases[i].message);
    }
    assert_int_equal(corpus_try_prepare("refused", "list.tsv", "--input-format xml"), 2);
    assert_contains(fixture.output, "input-format: expected auto|list|table|common-voice|ljspeech|jsonl|folder");
}

int main(void) {
    corpus_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ljspeech_is_read_as_it_stands),
        cmocka_unit_test(common_voice_is_read_as_it_stands),
        cmocka_unit_test(columns_are_found_by_their_names),
        cmocka_unit_test(json_fields_are_found_by_their_names),
        cmocka_unit_test(json_names_may_be_numbers),
        cmocka_unit_test(an_empty_language_is_none),
        cmocka_unit_test(a_table_is_common_voice_only_if_all_says_so),
        cmocka_unit_test(tables_of_excel_and_arrays_are_lists),
        cmocka_unit_test(bad_lines_are_left_out_if_they_may),
        cmocka_unit_test(a_speaker_has_one_spelling),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(a_folder_is_read_with_its_texts),
        cmocka_unit_test(a_folder_with_clips_is_read),
        cmocka_unit_test(subtitles_are_named_with_what_to_do),
        cmocka_unit_test(bad_folders_are_refused),
        cmocka_unit_test(every_format_gives_the_same_clips),
        cmocka_unit_test(every_format_is_read_again_when_it_has_grown),
        cmocka_unit_test(missing_audio_and_texts_are_counted),
        cmocka_unit_test(sound_to_convert_is_reported_with_the_command),
        cmocka_unit_test(conversions_in_a_list_leave_good_files_alone),
        cmocka_unit_test(conversions_in_a_list_are_folder_by_folder),
        cmocka_unit_test(every_file_without_a_common_command_has_its_own),
        cmocka_unit_test(what_is_not_a_list_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
