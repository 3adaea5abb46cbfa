/* train_gpt prepare reads recordings in the formats of other programs: each gives the same clips, and is read again
 * when it has grown. */
#include <unistd.h>

#include "tests/gpt/corpus.h"

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
    char *options = kept_format("--num-workers 2 %s %s", sources[i].options, more);
    if (corpus_try_prepare(sources[i].output, sources[i].input, options)) fail_msg("%s", fixture.output);
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
TEST(every_format_gives_the_same_clips) {
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
TEST(every_format_is_read_again_when_it_has_grown) {
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

TEST(missing_audio_and_texts_are_counted) {
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

TEST(what_is_not_a_list_is_refused) {
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

int main(void) { return tests_run(corpus_open, NULL); }
