/* The formats that recordings are read from: LJSpeech, Common Voice, tables and JSON with any names, folders. Each is
 * recognised, and what is wrong with one is reported. */
#include <unistd.h>

#include "data/formats/text_source.h"
#include "tests/gpt/recordings_rig.h"

static Error error;

/* ---- lists in memory ---- */

/* Parses a list of some name. */
static Recordings parse(const char *path, const char *text) {
    return parse_recordings((RecordingsSource){.path = path}, text);
}

/* Reads lines as the data set has them: no header, single quotes of both kinds, texts with tabs or commas. */
TEST(ljspeech_is_read_as_it_stands) {
    Recordings all =
        parse("metadata.csv", "\xEF\xBB\xBFLJ001-0001|Printing, in 1455|Printing, in fourteen fifty-five\r\n"
                              "LJ001-0002|\"This is how, he said|\"This is how, he said\r\n\r\n"
                              "LJ001-0003|a \"quote\"|\n"
                              "LJ001-0004.wav|two fields");
    assert_int_equal(all.format, RECORDINGS_LJSPEECH);
    assert_int_equal(all.count, 4);
    check_recording(&all, 0, "LJ001-0001", "speaker", "wavs/LJ001-0001.wav", "Printing, in fourteen fifty-five");
    check_recording(&all, 1, "LJ001-0002", "speaker", "wavs/LJ001-0002.wav", "\"This is how, he said");
    check_recording(&all, 2, "LJ001-0003", "speaker", "wavs/LJ001-0003.wav", "a \"quote\""); /* nothing is normalised */
    check_recording(&all, 3, "LJ001-0004.wav", "speaker", "wavs/LJ001-0004.wav", "two fields");
    assert_int_equal(all.items[2].line, 4);
    assert_true(all.has_ids && !all.has_speakers);
    recordings_close(&all);
}

/* The columns of release 17, and those of release 1, whose paths have no extension. */
TEST(common_voice_is_read_as_it_stands) {
    Recordings all = parse("validated.tsv",
                           "client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tdown_votes\tage\t"
                           "gender\taccents\tvariant\tlocale\tsegment\r\n"
                           "3447120ac9\tcommon_voice_am_26130815.mp3\tff01\t\"ዛሬ ጥሩ\t\t2\t0\ttwenties\t\t\t\tam\t\r\n"
                           "77aa\tcommon_voice_am_2.mp3\tff02\t\"\"ቀን\"\" ነው\"\t\t2\t1\t\t\t\t\tam\t\r\n");
    assert_int_equal(all.format, RECORDINGS_COMMON_VOICE);
    assert_int_equal(all.count, 2);
    check_recording(&all, 0, "common_voice_am_26130815", "3447120ac9", "clips/common_voice_am_26130815.mp3", "\"ዛሬ ጥሩ");
    check_recording(&all, 1, "common_voice_am_2", "77aa", "clips/common_voice_am_2.mp3", "\"\"ቀን\"\" ነው\"");
    assert_string_equal(all.items[1].language, "am");
    assert_true(!all.has_ids && all.has_speakers);
    recordings_close(&all);
    all = parse("train.tsv", "path\tsentence\tclient_id\tup_votes\nabc\tone\ts1\t2\n");
    check_recording(&all, 0, "abc", "s1", "clips/abc.mp3", "one");
    assert_null(all.items[0].language);
    recordings_close(&all);
}

TEST(columns_are_found_by_their_names) {
    Recordings all = parse("list.tsv", "text\tseconds\taudio\nሰላም\t2.5\t../sub/a b.c.wav\n\t1\t/data/x/y.flac\n");
    assert_int_equal(all.format, RECORDINGS_TABLE);
    check_recording(&all, 0, "sub_a b.c", "speaker", "../sub/a b.c.wav", "ሰላም");
    check_recording(&all, 1, "y", "speaker", "/data/x/y.flac", "");
    recordings_close(&all);
    static const char table[] = "ID\tfile\twho\tsays\tlang\n7\tx.wav\tanna\tሰላም\tti\n";
    RecordingsSource source = {.path = "list.tsv", .names = {"ID", "who", "file", "says", "lang"}};
    assert_true(recordings_parse(table, strlen(table), &source, &all, &error));
    check_recording(&all, 0, "7", "anna", "x.wav", "ሰላም");
    assert_string_equal(all.items[0].language, "ti");
    recordings_close(&all);
}

TEST(json_fields_are_found_by_their_names) {
    static const char nemo[] = "{\"audio_filepath\": \"/d/a1.wav\", \"duration\": 2.5, \"text\": \"one\"}\n"
                               "{\"audio_filepath\": \"b/a2.wav\", \"text\": \"\", \"language\": \"ti\"}\n";
    RecordingsSource source = {.path = "manifest.json", .names = {[FIELD_AUDIO] = "audio_filepath"}};
    Recordings all;
    assert_true(recordings_parse(nemo, strlen(nemo), &source, &all, &error));
    assert_int_equal(all.format, RECORDINGS_JSONL);
    check_recording(&all, 0, "a1", "speaker", "/d/a1.wav", "one");
    check_recording(&all, 1, "b_a2", "speaker", "b/a2.wav", "");
    assert_string_equal(all.items[1].language, "ti");
    assert_true(!all.has_ids && !all.has_speakers);
    recordings_close(&all);
}

/* Reads names as data sets on the web have them; objects and the like are no names, so they are left alone unless asked
 * for. */
TEST(json_names_may_be_numbers) {
    Recordings all =
        parse("a.jsonl", "{\"id\": 0, \"audio\": \"a.wav\", \"text\": \"one\", \"speaker\": 3, \"language\": {}}\n"
                         "{\"id\": -12, \"audio\": \"b.wav\", \"text\": \"two\", \"speaker\": \"s\"}\n");
    check_recording(&all, 0, "0", "3", "a.wav", "one");
    check_recording(&all, 1, "-12", "s", "b.wav", "two");
    assert_null(all.items[0].language);
    assert_true(all.has_ids && all.has_speakers);
    recordings_close(&all);
    all = parse("a.jsonl", "{\"id\": [0], \"audio\": \"a.wav\", \"text\": \"one\", \"speaker\": true}\n");
    check_recording(&all, 0, "a", "speaker", "a.wav", "one");
    assert_true(!all.has_ids && !all.has_speakers);
    recordings_close(&all);
}

/* --language then holds. */
TEST(an_empty_language_is_none) {
    Recordings all = parse("l.tsv", "audio\ttext\tlanguage\na.wav\tone\t\nb.wav\ttwo\tti\n");
    assert_null(all.items[0].language);
    assert_string_equal(all.items[1].language, "ti");
    recordings_close(&all);
    static const char json[] = "{\"audio\": \"a.wav\", \"text\": \"\", \"lang\": \"\"}\n"
                               "{\"audio\": \"b.wav\", \"text\": \"\"}\n";
    RecordingsSource source = {.path = "l.jsonl", .names = {[FIELD_LANGUAGE] = "lang"}};
    assert_true(recordings_parse(json, strlen(json), &source, &all, &error));
    assert_null(all.items[0].language);
    recordings_close(&all);
}

/* A table with the columns of Common Voice, but audio elsewhere. */
TEST(a_table_is_common_voice_only_if_all_says_so) {
    static const char table[] = "client_id\tpath\tsentence\ns1\t/a/c0.wav\tone\ns1\tb/c1\ttwo\ns1\tc2\tthree\n";
    Recordings all = parse("l.tsv", table);
    assert_int_equal(all.format, RECORDINGS_COMMON_VOICE);
    check_recording(&all, 0, "c0", "s1", "/a/c0.wav", "one");
    check_recording(&all, 1, "b_c1", "s1", "b/c1", "two");
    check_recording(&all, 2, "c2", "s1", "clips/c2.mp3", "three");
    recordings_close(&all);
    RecordingsSource source = {.path = "l.tsv", .names = {[FIELD_AUDIO] = "path", [FIELD_TEXT] = "sentence"}};
    assert_true(recordings_parse(table, strlen(table), &source, &all, &error));
    assert_int_equal(all.format, RECORDINGS_TABLE);
    check_recording(&all, 2, "c2", "speaker", "c2", "three");
    recordings_close(&all);
}

/* Reads lists as Excel and pandas write them: the same recordings in each. */
TEST(tables_of_excel_and_arrays_are_lists) {
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
        check_recording(&all, 0, "a", "s", "a.wav", "one, two");
        check_recording(&all, 1, "b", "s", "b.wav", "three four");
        assert_null(all.items[1].language);
        recordings_close(&all);
    }
    RecordingsSource source = {.path = "l.csv", .names = {[FIELD_AUDIO] = "file", [FIELD_TEXT] = "said"}};
    static const char named[] = "said,file\none,a.wav\n";
    Recordings all;
    if (!recordings_parse(named, strlen(named), &source, &all, &error)) fail_msg("%s", error.text);
    check_recording(&all, 0, "a", "speaker", "a.wav", "one");
    recordings_close(&all);
}

TEST(numbers_of_more_than_64_bits_are_names) {
    Recordings all = parse("l.jsonl", "{\"id\": 18446744073709551615, \"audio\": {\"path\": \"a.wav\", \"x\": 1e999}, "
                                      "\"text\": \"one\", \"speaker\": 99999999999999999999, \"duration\": 1e999}\n");
    assert_int_equal(all.count, 1);
    check_recording(&all, 0, "18446744073709551615", "99999999999999999999", "a.wav", "one");
    recordings_close(&all);
}

TEST(one_object_in_a_line_is_a_list) {
    Recordings all = parse("l.json", "\n\n {\"audio\": \"a.wav\", \"text\": \"one\"}\n\n");
    assert_int_equal(all.count, 1);
    check_recording(&all, 0, "a", "speaker", "a.wav", "one");
    recordings_close(&all);
}

TEST(bad_lines_are_left_out_if_they_may) {
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
        check_recording(&all, 0, "a", "speaker", "a.wav", "one");
        check_recording(&all, 1, "b", "speaker", "b.wav", "two");
        assert_int_equal(all.bad, 1);
        assert_contains(all.first_bad, lists[i][2]);
        recordings_close(&all);
    }
}

TEST(a_speaker_has_one_spelling) {
    const char *path = kept_path(run_directory(), "speakers.jsonl");
    write_text(path, "{\"audio\": \"a.wav\", \"text\": \"\", \"speaker\": \"Lo\u0300\"}\n"
                     "{\"audio\": \"b.wav\", \"text\": \"\", \"speaker\": \"L\u00f2 \"}\n"
                     "{\"audio\": \"c.wav\", \"text\": \"\", \"speaker\": \"x\"}\n");
    Recordings all;
    if (!recordings_read(&(RecordingsSource){.path = path}, &all, &error)) fail_msg("%s", error.text);
    assert_string_equal(all.items[0].speaker, "Lo\u0300"); /* as it is written first */
    assert_string_equal(all.items[1].speaker, "Lo\u0300");
    assert_string_equal(all.items[2].speaker, "x");
    assert_int_equal(all.speakers_changed, 1);
    recordings_close(&all);
}

/* By their names, and by their first lines. */
TEST(lists_that_name_no_sounds_are_called_what_they_are) {
    static const char *const cases[][3] = {
        {"a.srt", "", "subtitles (SubRip)"},
        {"a.VTT", "", "subtitles (WebVTT)"},
        {"a.TextGrid", "", "annotations of Praat (TextGrid)"},
        {"a.eaf", "<?xml version=\"1.0\"?>", "annotations of ELAN"},
        {"a.ctm", "a 1 0.00 0.50 one\n", "times of words (CTM)"},
        {"a.txt", "1\n00:00:02,000 --> 00:00:04,000\none\n", "subtitles (SubRip)"},
        {"a.txt", "\xEF\xBB\xBF\r\n1\r\n00:00:02,000 --> 00:00:04,000\r\none\r\n", "subtitles (SubRip)"},
        {"a.txt", "WEBVTT\n\n00:02.000 --> 00:04.000\none\n", "subtitles (WebVTT)"},
        {"a.txt", "0:00:02.000,0:00:04.000\none\n", "subtitles (YouTube)"},
        {"a.txt", "[ti:x]\n[00:02.00]one\n", "lyrics with times (LRC)"},
        {"a.txt", "[Script Info]\nTitle: x\n", "subtitles (SubStation Alpha)"},
        {"a.txt", "File type = \"ooTextFile\"\n", "annotations of Praat (TextGrid)"},
        {"a.txt", "0.000000\t2.500000\tone\n", "labels with times, as of Audacity"}};
    Recordings all;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *expected = kept_format("1: the file holds %s, which name no sounds: make a list of their texts, with the "
                                     "columns audio, start, end and text",
                                     cases[i][2]);
        assert_false(
            recordings_parse(cases[i][1], strlen(cases[i][1]), &(RecordingsSource){.path = cases[i][0]}, &all, &error));
        assert_contains(error.text, expected);
    }
    assert_false(recordings_parse("<html>", 6, &(RecordingsSource){.path = "l.csv"}, &all, &error));
    assert_contains(error.text, "1: the file is a web page (HTML)");
    assert_false(recordings_parse("<?xml?>", 7, &(RecordingsSource){.path = "l.xml"}, &all, &error));
    assert_contains(error.text, "1: the file is XML");
    /* Times in a list that names sounds are right. */
    all = parse("l.tsv", "start\tend\taudio\ttext\n0.0\t2.5\ta.wav\tone\n");
    assert_true(all.items[0].to == 2.5);
    recordings_close(&all);
    all = parse("l.csv", "audio,start,text\na.wav,00:00:02.5,\"one\n00:00:02,000 --> 00:00:04,000\"\n");
    assert_true(all.items[0].from == 2.5);
    recordings_close(&all);
    RecordingsSource labels = {.path = "l.txt", .names = {[FIELD_AUDIO] = "3", [FIELD_TEXT] = "4"}};
    all = parse_recordings(labels, "0.0\t2.5\ta.wav\tone\n");
    check_recording(&all, 0, "a", "speaker", "a.wav", "one");
    recordings_close(&all);
}

TEST(bad_lists_are_refused) {
    static const struct {
        RecordingsSource source;
        const char *list, *message;
    } cases[] = {
        {{.path = "m.csv"},
         "a,b,c\n",
         "1: the format is not known; expected a line that names the columns (audio,text), or their numbers: "
         "--audio-field 1 --text-field 2"},
        {{.path = "m.txt"},
         "a b c\n",
         "1: the format is not known; expected JSON objects, fields between tabs, or ID|TEXT"},
        {{.path = "m.txt"},
         "a.wav\tone two\n",
         "1: has 2 tab-separated fields, expected 4: id, speaker, audio file, text; or give the columns by their "
         "numbers: --audio-field 1 --text-field 2"},
        {{.path = "m.tsv"},
         "a longer text\ta.wav\t7\n",
         "1: has 3 tab-separated fields, expected 4: id, speaker, audio file, text; or give the columns by their "
         "numbers: --audio-field 2 --text-field 1"},
        {{.path = "m.json"},
         "{\n \"data\": [\n  {\"audio\": \"a.wav\", \"text\": \"one\"}\n ],\n \"x\": 1\n}\n",
         "1: the file is one JSON object, with the fields data, x; expected an object per line, or an array of "
         "objects"},
        {{.path = "m.json"}, "{\n \"data\": [\n", "1:2: invalid JSON: "},
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
        {{.path = "v.json"},
         "[{\"audio\": \"a\", \"text\": \"\u12a0\"}, {\"audio\": \"b\", \"text\": c}]",
         "1:54: invalid JSON: \"text\": "},
        {{.path = "v.json"}, "[{\"audio\": \"a\", \"text\": \"\u12a0\"}, {\"audio\": \"b\"}]", "1:31: text is missing"},
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

TEST(a_folder_is_read_with_its_texts) {
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
    char *folder = make_recordings_folder("read", files, sizeof files / sizeof *files);
    Recordings all;
    if (!recordings_read(&(RecordingsSource){.path = folder}, &all, &error)) fail_msg("%s", error.text);
    assert_int_equal(all.format, RECORDINGS_FOLDER);
    assert_int_equal(all.count, 6);
    check_recording(&all, 0, "a_c_x", "a", "a/c/x.mp3", "three"); /* x.m4a is what x.mp3 was made from */
    check_recording(&all, 1, "b_x", "b", "b/x.FLAC", "ሰላም");
    check_recording(&all, 2, "b_x-1", "b", "b/x-1.wav", "one  two 3  ");
    check_recording(&all, 3, "b_y", "b", "b/y.SPH", "four");
    check_recording(&all, 4, "b_z", "b", "b/z.wave", "");
    check_recording(&all, 5, "top", "speaker", "top.ogg", "");
    assert_int_equal(all.lone_texts, 2);
    assert_string_equal(all.first_lone_text, "README.txt");
    assert_int_equal(all.other_files, 3); /* x.m4a, x.lab, ._x.wav */
    assert_string_equal(all.first_other_file, "a/c/x.m4a");
    assert_true(!all.has_ids && all.has_speakers);
    recordings_close(&all);
}

/* A folder named clips is not Common Voice, unless lists lie beside it. */
TEST(a_folder_with_clips_is_read) {
    static const char *const files[][2] = {{"clips/x.wav"}, {"clips/x.txt", "one"}};
    char *folder = make_recordings_folder("clipped", files, 2);
    Recordings all;
    if (!recordings_read(&(RecordingsSource){.path = folder}, &all, &error)) fail_msg("%s", error.text);
    check_recording(&all, 0, "clips_x", "clips", "clips/x.wav", "one");
    recordings_close(&all);
}

static void expect_bad_folder(const char *name, const char *const (*files)[2], int n, const char *message) {
    char *folder = make_recordings_folder(name, files, n), *expected = kept_format("%s%s", folder, message);
    Recordings all;
    Error error = {""};
    assert_false(recordings_read(&(RecordingsSource){.path = folder}, &all, &error));
    assert_string_equal(error.text, expected);
}

TEST(subtitles_are_named_with_what_to_do) {
    static const char *const files[][2] = {{"x.wav"},        {"x.txt", "one"},      {"y.wav"},
                                           {"y.SRT", "1\n"}, {"a.vtt", "WEBVTT\n"}, {"y.json", "{}"}};
    static const char *const alone[][2] = {{"long.wav"}, {"long.srt", "1\n"}};
    char *folder = make_recordings_folder("subtitles", files, sizeof files / sizeof *files);
    Recordings all;
    if (!recordings_read(&(RecordingsSource){.path = folder}, &all, &error)) fail_msg("%s", error.text);
    assert_int_equal(all.count, 2);
    assert_int_equal(all.other_files, 3);
    assert_int_equal(all.subtitles, 2);
    assert_string_equal(all.first_subtitles, "a.vtt");
    recordings_close(&all);
    expect_bad_folder(
        "cut", alone, 2,
        ": none of its 1 audio files has a text: expected NAME.txt beside NAME.wav; 1 file with subtitles "
        "(the first: long.srt) is not read: make a list of their texts, with the columns audio, start, "
        "end and text, and give it with --input (docs/train_gpt.md, \"What prepare reads\", has the lines of Python)");
}

TEST(bad_folders_are_refused) {
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
        "/metadata.csv:1: the format is not known; expected a line that names the columns (audio,text), or their "
        "numbers: --audio-field 1 --text-field 2; for the audio and .txt files of a folder, give it with "
        "--input-format "
        "folder");
    char *linked = make_recordings_folder("linked", mute, 3), *gone = kept_path(linked, "c5.wav");
    if (!has_links()) print_message("SKIPPED: a link, on a disk without them\n");
    if (has_links()) {
        assert_int_equal(symlink("nowhere.wav", gone), 0);
        expect_bad_folder("linked", mute, 3, "/c5.wav: is a link to a file that does not exist");
    }
    char *folder = kept_path(corpus_root, "voices"),
         *message = xformat(": a folder of Common Voice has several lists: name one, such as %s/validated.tsv; for the "
                            "folder's audio and .txt files, --input-format folder",
                            folder);
    expect_bad_folder("voices", voices, 2, message);
    free(message);
    message = xcalloc(70000, 1);
    const char *const long_text[][2] = {{"x.wav"}, {"x.txt", memset(message, 'a', 69999)}};
    expect_bad_folder("long", long_text, 2, "/x.txt: has 69999 bytes, more than the 65536 expected");
    free(message);
}

int main(void) { return tests_run(corpus_open, NULL); }
