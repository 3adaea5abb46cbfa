/* Sound that libsndfile does not read is named with the command that converts it. */
#include <sys/stat.h>

#include "tests/gpt/recordings_rig.h"

/* A file that begins as one of MPEG-4 does. */
static void write_m4a(const char *folder, const char *name) {
    char *path = kept_path(folder, name), bytes[100] = "\0\0\0\x1c"
                                                       "ftypM4A ";
    write_bytes(path, bytes, sizeof bytes);
}

/* The commands are run with an ffmpeg that copies a WAV file. */
TEST(sound_to_convert_is_reported_with_the_command) {
    static const char *const files[][2] = {
        {"phone/one 1.txt", "ዛሬ ጥሩ ቀን ነው"}, {"phone/it's.txt", "ዛሬ ጥሩ ቀን ነው"}, {"other.txt", "ዛሬ ጥሩ ቀን ነው"}};
    char *folder = make_recordings_folder("convert", files, 3);
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
    char *commands[] = {keep(xstrdup(strstr(fixture.output, "find "))),
                        keep(xstrdup(strstr(fixture.output, "ffmpeg -i ")))};
    char *tools = kept_path(corpus_root, "tools"), *ffmpeg = kept_path(tools, "ffmpeg");
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
}

/* In a list the files are named by the list; where others of the extension are read, there is no command for all. */
TEST(conversions_in_a_list_leave_good_files_alone) {
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

/* Expects the list to ignore what else lies below the folder that two folders share. */
TEST(conversions_in_a_list_are_folder_by_folder) {
    static const char *const folders[][2] = {{"far/a/note"}, {"far/b/c/note"}};
    make_recordings_folder("", folders, 2);
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
        char *loop = kept_format("2 files .m4a can be converted: find -L %s/%s -maxdepth 1 -name '*.m4a' -exec ",
                                 corpus_root, inside[i]);
        assert_contains(fixture.output, loop);
    }
    assert_null(strstr(strstr(strstr(fixture.output, "find ") + 1, "find ") + 1, "find "));
}

/* Where no command converts all, none of the commands of single files is left out. */
TEST(every_file_without_a_common_command_has_its_own) {
    char *name = NULL;
    for (int i = 0; i < 23; i++) {
        name = kept_format("z%d.wav", i);
        write_m4a(corpus_root, name);
    }
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

int main(void) { return tests_run(corpus_open, NULL); }
