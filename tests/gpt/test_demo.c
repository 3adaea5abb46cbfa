/* demo/synthesise.sh with a synthesiser that writes the text it gets to a file. */
#include "tests/test.h"

static char *directory;
static char output[4096];

static void shell(const char *command) {
    int status = run_command(output, sizeof output, "cd %s && %s", directory, command);
    if (status) fail_msg("%s: %s", command, output);
}

/* Speaks demo/sentences.txt, and expects that so many clips had to be spoken, and these words in one of them. */
static void expect_spoken(int clips, const char *words) {
    shell("rm -f log && touch log && PATH=$PWD/bin:$PATH demo/synthesise.sh out && wc -l <log");
    const char *told = strstr(output, "metadata.tsv\n");
    assert_non_null(told);
    assert_int_equal(atoi(told + strlen("metadata.tsv\n")), clips);
    shell("cat out/audio/bekele_001.wav");
    assert_contains(output, words);
}

TEST(edited_texts_are_spoken_again) {
    shell("printf '%s\\n' 'ሰላም ለዓለም' 'ዛሬ ጥሩ ቀን ነው' >demo/sentences.txt");
    expect_spoken(4, "-s 145 -p 22 -w out/audio/bekele_001.wav.tmp -- ሰላም ለዓለም");
    expect_spoken(0, "-- ሰላም ለዓለም");
    shell("sed -i '1s/$/!/' demo/sentences.txt");
    expect_spoken(2, "-- ሰላም ለዓለም!");
    expect_spoken(0, "-- ሰላም ለዓለም!");
    shell("sed -i 's/-s 145 -p 22/-s 150 -p 22/' demo/synthesise.sh");
    expect_spoken(1, "-s 150 -p 22 -w out/audio/bekele_001.wav.tmp -- ሰላም ለዓለም!");
    shell("rm out/audio/bekele_001.wav");
    expect_spoken(1, "-s 150 -p 22 -w out/audio/bekele_001.wav.tmp -- ሰላም ለዓለም!");
}

int main(void) {
    directory = scratch_directory();
    char *script =
        kept_format("mkdir %s/demo %s/bin && cp demo/synthesise.sh %s/demo", directory, directory, directory);
    char *stub = kept_format("%s/bin/espeak-ng", directory);
    if (run_command(output, sizeof output, "%s", script)) die("%s", output);
    write_text(stub, "#!/bin/sh\n"
                     "[ \"$1\" = --voices=am ] && echo ' 5  am  --/M  Amharic' && exit\n"
                     "all=$*\n"
                     "while [ \"$1\" != -w ]; do shift; done\n"
                     "echo \"$all\" >\"$2\"\n"
                     "echo spoken >>log\n");
    if (run_command(output, sizeof output, "chmod +x %s", stub)) die("%s", output);
    return tests_run(NULL, NULL);
}
