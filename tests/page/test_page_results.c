/* report.html: results, pictures and sounds that lie beside the logs, whole, hostile, large and many. */
#include <math.h>
#include <sndfile.h>
#include <unistd.h>

#include "base/file.h"
#include "page/page.h"
#include "tests/train/story.h"

static Error error;

static const char picture[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"10\" height=\"10\">"
                              "<title>%s</title></svg>";

static void put_picture(const char *directory, const char *name) {
    put_text(directory, name, kept_format(picture, name));
}

TEST(reports_come_with_their_pictures) {
    char *directory = story_write(&story_finished);
    put_text(directory, "all_results.json", "{}");
    put_text(directory, "all_results.md",
             "# All folds\n\naccuracy 0.9, AUROC 0.95\n\n## By donor\n\n| d |\n|---|\n| D1 |\n");
    put_text(directory, "test_results_D1.json", "{}");
    put_text(directory, "test_results_D1.md", "# D1\n\n- one\n");
    put_text(directory, "README.md", "# Notes of the user\n");
    put_text(directory, "calibration/calibration.json", "{}");
    put_text(directory, "calibration/calibration.md", "# Calibration\n\nfitted\n");
    put_picture(directory, "roc.svg");
    put_picture(directory, "roc_D1.svg");
    put_picture(directory, "loss.svg");
    put_picture(directory, "calibration/reliability_before.svg");
    put_text(directory, "evil.svg", "<svg ><script>alert(1)</script></svg>");
    char *page = story_page(directory);
    assert_page_has(page, (const char *[]){"Result: accuracy 0.9, AUROC 0.95", "<title>roc.svg</title>",
                                           "<title>calibration/reliability_before.svg</title>", "<h3>By donor</h3>",
                                           "evil.svg: it has an element &#39;script&#39;", NULL});
    assert_null(strstr(page, "Notes of the user"));
    assert_null(strstr(page, "<title>loss.svg</title>"));
    const char *order[] = {"All folds <", "<title>roc.svg<", "D1 <small>", "<title>roc_D1.svg<", "Calibration <small>"};
    const char *at = page;
    for (int i = 0; i < 5; i++)
        if (!(at = strstr(at, order[i]))) fail_msg("%s is not in its place", order[i]);
}

/* The result is that of all, not of a part or of a calibration. */
TEST(the_result_is_that_of_the_whole) {
    char *directory = kept_folder();
    put_text(directory, "s00/s00.json", "{}");
    put_text(directory, "s00/s00.md", "# s00\n\naccuracy 0.25\n");
    put_text(directory, "calibration.json", "{}");
    put_text(directory, "calibration.md", "# Calibration\n\nfitted on 5 rows\n");
    char *page = story_page(directory);
    assert_null(strstr(page, "Result: "));
    put_text(directory, "loso_results.json", "{}");
    put_text(directory, "loso_results.md", "# loso\n\naccuracy 0.75\n\nMeans\n");
    page = story_page(directory);
    assert_contains(page, "Result: accuracy 0.75<");
    directory = kept_folder(); /* the only run, in a folder within */
    put_text(directory, "run/all.json", "{}");
    put_text(directory, "run/all.md", "# all\n\naccuracy 0.5\n");
    char *run = kept_path(directory, "run");
    story_write_in(run, &story_finished);
    page = story_page(directory);
    assert_contains(page, "Result: accuracy 0.5<");
}

/* The check of a picture ends at a zero byte; so would the page. */
TEST(a_zero_byte_cuts_no_page) {
    static const char evil[] = "<svg ></svg>\0<script>alert(1)</script>";
    char *directory = story_write(&story_finished), *path = kept_path(directory, "evil.svg");
    put_text(directory, "all.json", "{}");
    put_text(directory, "all.md", "# all\n\naccuracy 0.5\n");
    assert_true(file_write_atomic(path, evil, sizeof evil - 1, &error));
    char *page = story_page(directory);
    assert_page_has(page, (const char *[]){"evil.svg: it is no text: byte 13 is zero", "</html>", NULL});
}

/* Each report is there with its text and its title, or not at all. */
TEST(hundreds_of_reports_still_fit) {
    enum { REPORTS = 300 };
    char *directory = kept_folder(), name[256], text[2048], long_name[151];
    memset(long_name, '"', 150);
    long_name[150] = 0;
    for (int i = 0; i < REPORTS; i++) {
        snprintf(name, sizeof name, "%03d_%s.json", i, long_name);
        put_text(directory, name, "{}");
        strcpy(strrchr(name, '.'), ".md");
        snprintf(text, sizeof text, "# %s\n\nends here\n", long_name);
        put_text(directory, name, text);
        strcpy(strrchr(name, '.'), ".svg");
        put_picture(directory, name);
    }
    char *page = story_page(directory);
    int reports = 0, ends = 0;
    for (const char *at = page; (at = strstr(at, "<details class=\"report\"")); at++) reports++;
    for (const char *at = page; (at = strstr(at, "<p>ends here</p>")); at++) ends++;
    assert_in_range(reports, 50, REPORTS - 1);
    assert_int_equal(reports, ends);
    assert_page_has(page, (const char *[]){"too large for what is left of the page", " more</li>", NULL});
}

TEST(results_without_a_training_have_a_page) {
    char *directory = kept_folder();
    assert_false(page_write_in(directory, PAGE_DEPTH, false, &error));
    assert_contains(error.text, "neither log.jsonl nor results are there");
    put_text(directory, "by_file_test.json", "{}");
    put_text(directory, "by_file_test.md", "# test: by_file\n\naccuracy 0.5\n");
    char *page = story_page(directory);
    assert_contains(page, "Results only: no training was logged here.");
    assert_false(page_write_in("/no/such/folder", 0, false, &error));
    assert_contains(error.text, "/no/such/folder");
}

/* ---- sounds ---- */

static void put_sound(const char *directory, const char *name, int seconds) {
    enum { RATE = 24000 };
    char *path = kept_path(directory, name);
    SF_INFO info = {.samplerate = RATE, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    assert_non_null(file);
    float second[RATE];
    for (int i = 0; i < RATE; i++) second[i] = 0.5f * sinf(0.1f * (float)i);
    for (int s = 0; s < seconds; s++) assert_int_equal(sf_writef_float(file, second, RATE), RATE);
    sf_close(file);
}

TEST(sounds_are_embedded_and_small) {
    char *directory = story_write(&story_finished);
    put_text(directory, "samples/no_sound.wav", "foobar");
    put_sound(directory, "samples/a.wav", 3); /* 144 kB */
    put_sound(directory, "samples/b.wav", 3);
    put_sound(directory, "samples/c.wav", 3);
    put_sound(directory, "samples/long.wav", 61);
    char *page = story_page(directory);
    const char *at = strstr(page, "<audio controls preload=\"none\" aria-label=\"a.wav\" src=\"data:audio/");
    assert_non_null(at);
    assert_true(strcspn(at, ">") > 5000 && strcspn(at, ">") < 60000);
    assert_page_has(page, (const char *[]){"aria-label=\"b.wav\"", "aria-label=\"c.wav\"",
                                           "samples/no_sound.wav: is not a sound file that can be read: ",
                                           "samples/long.wav: longer than 60 seconds", NULL});
}

/* A training does not wait for the encoding, and nothing is encoded that has no place. */
TEST(few_sounds_are_encoded) {
    char *directory = story_write(&story_finished), name[32];
    put_sound(directory, "samples_0.wav", 30); /* half a minute a piece: a few dozens fill a page */
    char *sound = kept_path(directory, "samples_0.wav"), *samples = kept_path(directory, "samples");
    make_directories(samples);
    for (int i = 0; i < 150; i++) {
        snprintf(name, sizeof name, "s%03d.wav", i);
        assert_int_equal(link(sound, kept_path(samples, name)), 0);
    }
    assert_true(page_write_in(directory, 0, true, &error));
    char *page = read_page(directory);
    assert_null(strstr(page, "<audio"));
    assert_page_has(page, (const char *[]){"samples/s000.wav: sounds are embedded when the run has ended", NULL});
    page = story_page(directory);
    assert_page_has(page,
                    (const char *[]){"aria-label=\"s000.wav\"", "samples/s006.wav: 110 kB, too large",
                                     "samples/s007.wav: no room is left for sounds", "<li>and 122 more</li>", NULL});
}
